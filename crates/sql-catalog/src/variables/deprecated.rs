//! System variables that MySQL calls deprecated, and settings of others that it warns of.
//!
//! Neighbours: SET and the binder of `@@name` raise the warnings; deprecated syntax is known to the parser.
//!
//! **Invariants**: [`DEPRECATED`] is sorted by name.

use esker_types::SqlMode;

use super::VarValue;

/// Number and text of a warning.
pub type Warning = (u16, String);

/// ER_WARN_DEPRECATED_SYNTAX.
const SYNTAX: u16 = 1287;
/// ER_WARN_DEPRECATED_SYNTAX_NO_REPLACEMENT.
const WITHOUT_REPLACEMENT: u16 = 1681;

/// Deprecated variables and what is to be used instead, which may be nothing.
static DEPRECATED: &[(&str, &str)] = &[
    ("binlog_format", ""),
    ("binlog_max_flush_queue_time", ""),
    ("delayed_insert_limit", ""),
    ("delayed_insert_timeout", ""),
    ("delayed_queue_size", ""),
    ("have_profiling", ""),
    ("have_query_cache", ""),
    ("init_slave", "init_replica"),
    ("log_bin_trust_function_creators", ""),
    ("log_slave_updates", "log_replica_updates"),
    ("log_slow_slave_statements", "log_slow_replica_statements"),
    ("log_statements_unsafe_for_binlog", ""),
    ("master_verify_checksum", "source_verify_checksum"),
    ("max_delayed_threads", ""),
    ("max_insert_delayed_threads", ""),
    ("max_length_for_sort_data", ""),
    ("profiling", ""),
    ("profiling_history_size", ""),
    ("pseudo_slave_mode", "pseudo_replica_mode"),
    ("query_prealloc_size", ""),
    ("rpl_stop_slave_timeout", "rpl_stop_replica_timeout"),
    ("skip_slave_start", "skip_replica_start"),
    ("slave_allow_batching", "replica_allow_batching"),
    ("slave_checkpoint_group", "replica_checkpoint_group"),
    ("slave_checkpoint_period", "replica_checkpoint_period"),
    ("slave_compressed_protocol", "replica_compressed_protocol"),
    ("slave_exec_mode", "replica_exec_mode"),
    ("slave_load_tmpdir", "replica_load_tmpdir"),
    ("slave_max_allowed_packet", "replica_max_allowed_packet"),
    ("slave_net_timeout", "replica_net_timeout"),
    ("slave_parallel_type", "replica_parallel_type"),
    ("slave_parallel_workers", "replica_parallel_workers"),
    (
        "slave_pending_jobs_size_max",
        "replica_pending_jobs_size_max",
    ),
    (
        "slave_preserve_commit_order",
        "replica_preserve_commit_order",
    ),
    ("slave_skip_errors", "replica_skip_errors"),
    ("slave_sql_verify_checksum", "replica_sql_verify_checksum"),
    ("slave_transaction_retries", "replica_transaction_retries"),
    ("slave_type_conversions", "replica_type_conversions"),
    ("sql_slave_skip_counter", "sql_replica_skip_counter"),
    ("ssl_fips_mode", ""),
    ("sync_master_info", "sync_source_info"),
    ("sync_relay_log_info", ""),
    ("terminology_use_previous", ""),
    ("transaction_prealloc_size", ""),
];

/// Variables that will become read-only.
const KEPT_READ_ONLY: [&str; 3] = [
    "character_set_database",
    "collation_database",
    "default_collation_for_utf8mb4",
];

/// What MySQL says of a variable whenever it is named: 1287.
pub fn of_variable(name: &str) -> Option<Warning> {
    let found = DEPRECATED.binary_search_by_key(&name, |(name, _)| name);
    let (name, instead) = DEPRECATED[found.ok()?];
    let mut text = format!("'@@{name}' is deprecated and will be removed in a future release.");
    if !instead.is_empty() {
        text += &format!(" Please use {instead} instead.");
    }
    Some((SYNTAX, text))
}

/// What MySQL says of a variable that was set to this value.
pub fn of_setting(name: &str, value: &VarValue) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if KEPT_READ_ONLY.contains(&name) {
        let text = format!(
            "Updating '{name}' is deprecated. It will be made read-only in a future release."
        );
        warnings.push((WITHOUT_REPLACEMENT, text));
    }
    if name == "sql_mode" {
        warnings.extend(of_sql_mode(SqlMode::of_names(value.as_text())));
    }
    warnings
}

/// Modes that are to be part of strict mode, or to go.
fn of_sql_mode(mode: SqlMode) -> Vec<Warning> {
    const WITH_STRICT: [SqlMode; 3] = [
        SqlMode::NO_ZERO_DATE,
        SqlMode::NO_ZERO_IN_DATE,
        SqlMode::ERROR_FOR_DIVISION_BY_ZERO,
    ];
    let mut warnings = Vec::new();
    if mode.has(SqlMode::PAD_CHAR_TO_FULL_LENGTH) {
        let text = "Changing sql mode 'PAD_CHAR_TO_FULL_LENGTH' is deprecated. It will be removed in a future release.";
        warnings.push((3090, text.to_owned()));
    }
    if WITH_STRICT.iter().any(|m| mode.has(*m) != mode.is_strict()) {
        let text = "'NO_ZERO_DATE', 'NO_ZERO_IN_DATE' and 'ERROR_FOR_DIVISION_BY_ZERO' sql modes should be used with \
                    strict mode. They will be merged with strict mode in a future release.";
        warnings.push((3135, text.to_owned()));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deprecated_variables_are_sorted_and_there() {
        assert!(DEPRECATED.is_sorted_by_key(|(name, _)| name));
        for (name, instead) in DEPRECATED {
            assert!(crate::variables::VarId::find(name).is_ok(), "{name}");
            assert!(
                instead.is_empty() || crate::variables::VarId::find(instead).is_ok(),
                "{instead}"
            );
        }
        assert_eq!(of_variable("autocommit"), None);
    }
}
