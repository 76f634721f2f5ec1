//! Variables that exist for MySQL's clients and tools: what SET may make of them.
//!
//! Neighbours: `variables` asks [`check`] before it stores a value; `docs/variables.md` explains the
//! lists to users.
//! **Invariants**
//! - A variable in [`FIXED`] describes what Esker always does, so it has one value; another one would
//!   promise what does not happen and is error 1231.
//! - A variable in [`ACCEPTED`] is advice about memory, caches or plans, or concerns something that
//!   Esker has not; no value of it changes what a statement answers. It keeps what it was set to.
//! - Every other variable that SET may change has its effect.

use esker_types::SqlResult;

use super::table::VarDef;
use super::value::{VarValue, bad_value, default_of};

/// Only the default may be set. Sorted.
pub static FIXED: &[&str] = &[
    "activate_all_roles_on_login",
    "binlog_checksum",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "block_encryption_mode",
    "default_collation_for_utf8mb4",
    "default_password_lifetime",
    "default_storage_engine",
    "default_tmp_storage_engine",
    "default_week_format",
    "end_markers_in_json",
    "enforce_gtid_consistency",
    "esker_auto_increment_persistent",
    "event_scheduler",
    "explicit_defaults_for_timestamp",
    "flush",
    "general_log",
    "gtid_mode",
    "gtid_next",
    "init_connect",
    "innodb_file_per_table",
    "innodb_flush_log_at_trx_commit",
    "innodb_snapshot_isolation",
    "innodb_stats_on_metadata",
    "insert_id",
    "lc_messages",
    "lc_time_names",
    "log_output",
    "log_queries_not_using_indexes",
    "log_timestamps",
    "mandatory_roles",
    "master_verify_checksum",
    "new",
    "offline_mode",
    "old_alter_table",
    "password_history",
    "password_require_current",
    "password_reuse_interval",
    "print_identified_with_as_hex",
    "profiling",
    "pseudo_replica_mode",
    "pseudo_slave_mode",
    "rand_seed1",
    "rand_seed2",
    "resultset_metadata",
    "show_create_table_verbosity",
    "show_gipk_in_create_table_and_information_schema",
    "slow_query_log",
    "sql_auto_is_null",
    "sql_generate_invisible_primary_key",
    "sql_quote_show_create",
    "sql_require_primary_key",
    "sql_warnings",
    "sync_binlog",
    "windowing_use_high_precision",
];

/// Any value is kept and changes no answer. Sorted.
pub static ACCEPTED: &[&str] = &[
    "big_tables",
    "bulk_insert_buffer_size",
    "character_set_filesystem",
    "concurrent_insert",
    "delay_key_write",
    "eq_range_index_dive_limit",
    "foreign_key_checks",
    "general_log_file",
    "generated_random_password_length",
    "histogram_generation_max_mem_size",
    "information_schema_stats_expiry",
    "innodb_buffer_pool_size",
    "innodb_strict_mode",
    "internal_tmp_mem_storage_engine",
    "keep_files_on_create",
    "key_buffer_size",
    "log_bin_trust_function_creators",
    "log_error_verbosity",
    "low_priority_updates",
    "max_delayed_threads",
    "max_heap_table_size",
    "max_length_for_sort_data",
    "max_points_in_geometry",
    "max_seeks_for_key",
    "max_sort_length",
    "max_sp_recursion_depth",
    "max_write_lock_count",
    "min_examined_row_limit",
    "net_buffer_length",
    "net_retry_count",
    "optimizer_prune_level",
    "optimizer_search_depth",
    "optimizer_switch",
    "optimizer_trace",
    "optimizer_trace_limit",
    "parser_max_mem_size",
    "preload_buffer_size",
    "profiling_history_size",
    "pseudo_thread_id",
    "query_alloc_block_size",
    "query_prealloc_size",
    "range_alloc_block_size",
    "range_optimizer_max_mem_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "regexp_stack_limit",
    "regexp_time_limit",
    "replica_parallel_workers",
    "schema_definition_cache",
    "select_into_buffer_size",
    "server_id",
    "session_track_gtids",
    "session_track_transaction_info",
    "slow_launch_time",
    "slow_query_log_file",
    "sql_buffer_result",
    "sql_log_bin",
    "sql_log_off",
    "stored_program_cache",
    "table_definition_cache",
    "table_open_cache",
    "tablespace_definition_cache",
    "thread_cache_size",
    "transaction_alloc_block_size",
    "transaction_prealloc_size",
    "unique_checks",
    "updatable_views_with_limit",
    "use_secondary_engine",
];

/// May the variable have this value?
///
/// # Errors
/// 1231.
pub fn check(def: &VarDef, value: &VarValue) -> SqlResult<()> {
    if FIXED.binary_search(&def.name).is_ok() && *value != default_of(def) {
        return Err(bad_value(def, &value.print()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Globals, SessionValues, VarId};
    use super::*;
    use esker_types::Value;

    #[test]
    fn the_lists_name_variables_that_can_be_set() {
        for list in [FIXED, ACCEPTED] {
            assert!(list.windows(2).all(|w| w[0] < w[1]), "not sorted");
            for name in list {
                assert!(VarId::find(name).unwrap().def().dynamic, "{name}");
            }
        }
        assert!(FIXED.iter().all(|f| !ACCEPTED.contains(f)));
    }

    #[test]
    fn a_fixed_variable_takes_its_one_value() {
        let globals = Globals::default();
        let mut session = SessionValues::new(&globals);
        let id = |name| VarId::find(name).unwrap();
        let off = id("sql_auto_is_null");
        assert!(session.set(&globals, off, Some(&Value::Int(0))).is_ok());
        let e = session.set(&globals, off, Some(&Value::Int(1)));
        assert_eq!(e.unwrap_err().code, 1231);
        assert_eq!(session.get(off), &VarValue::Bool(false));
        let log = id("general_log");
        let e = globals.set(log, Some(&Value::Int(1)));
        assert_eq!(e.unwrap_err().code, 1231);
        assert_eq!(
            globals.set_at_start("general_log", "1").unwrap_err().code,
            1231
        );
        assert!(globals.set_at_start("general_log", "0").is_ok());
    }
}
