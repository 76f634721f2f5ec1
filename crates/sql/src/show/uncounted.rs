//! Status variables of MySQL that Esker does not count.
//!
//! Neighbours: `status` adds them to those that are counted, because tools stop at a name that is missing.
//! **Invariants**: the value is 0, or the text that says "nothing"; where a name is counted after all, the count wins.

/// Names of counters that stay 0.
const ZEROS: &str = "\
    Acl_cache_items_count Binlog_cache_disk_use Binlog_cache_use Binlog_stmt_cache_disk_use Binlog_stmt_cache_use \
    Com_admin_commands Com_alter_resource_group Com_alter_server Com_alter_user_default_role Com_assign_to_keycache \
    Com_clone Com_create_resource_group Com_create_server Com_create_spatial_reference_system Com_create_udf \
    Com_drop_resource_group Com_drop_spatial_reference_system Com_import Com_install_plugin Com_preload_keys \
    Com_set_resource_group Com_show_function_code Com_show_procedure_code Com_stmt_reprepare Com_uninstall_plugin \
    Connection_errors_accept Connection_errors_internal Connection_errors_peer_address Connection_errors_select \
    Connection_errors_tcpwrap Count_hit_query_past_connection_memory_status_limit \
    Count_hit_query_past_global_connection_memory_status_limit Delayed_errors Delayed_insert_threads Delayed_writes \
    Deprecated_use_fk_on_non_standard_key_count Deprecated_use_i_s_processlist_count Error_log_buffered_bytes \
    Error_log_buffered_events Error_log_expired_events Error_log_latest_write Global_connection_memory \
    Handler_discover Handler_external_lock Handler_mrr_init Handler_prepare Handler_read_rnd \
    Innodb_buffer_pool_pages_flushed Innodb_buffer_pool_pages_misc Innodb_buffer_pool_read_ahead \
    Innodb_buffer_pool_read_ahead_evicted Innodb_buffer_pool_read_ahead_rnd Innodb_buffer_pool_read_requests \
    Innodb_buffer_pool_resize_status_code Innodb_buffer_pool_resize_status_progress Innodb_buffer_pool_wait_free \
    Innodb_buffer_pool_write_requests Innodb_data_pending_fsyncs Innodb_data_pending_reads \
    Innodb_data_pending_writes Innodb_data_read Innodb_data_reads Innodb_data_writes Innodb_dblwr_pages_written \
    Innodb_dblwr_writes Innodb_num_open_files Innodb_os_log_pending_fsyncs Innodb_os_log_pending_writes \
    Innodb_pages_created Innodb_pages_read Innodb_pages_written Innodb_redo_log_capacity_resized \
    Innodb_redo_log_uuid Innodb_rows_read \
    Innodb_sampled_pages_read Innodb_sampled_pages_skipped Innodb_system_rows_deleted Innodb_system_rows_inserted \
    Innodb_system_rows_read Innodb_system_rows_updated Innodb_truncated_status_writes \
    Innodb_undo_tablespaces_active Innodb_undo_tablespaces_explicit Innodb_undo_tablespaces_implicit \
    Innodb_undo_tablespaces_total Key_blocks_not_flushed Key_blocks_unused Key_blocks_used Key_read_requests \
    Key_reads Key_write_requests Key_writes Last_query_partial_plans Locked_connects Max_execution_time_exceeded \
    Max_execution_time_set Max_execution_time_set_failed Not_flushed_delayed_rows Open_files Open_streams \
    Opened_files Opened_table_definitions Opened_tables Performance_schema_accounts_lost \
    Performance_schema_cond_classes_lost Performance_schema_cond_instances_lost \
    Performance_schema_file_classes_lost Performance_schema_file_handles_lost \
    Performance_schema_file_instances_lost Performance_schema_hosts_lost Performance_schema_index_stat_lost \
    Performance_schema_locker_lost Performance_schema_memory_classes_lost Performance_schema_metadata_lock_lost \
    Performance_schema_meter_lost Performance_schema_metric_lost Performance_schema_mutex_classes_lost \
    Performance_schema_mutex_instances_lost Performance_schema_nested_statement_lost \
    Performance_schema_prepared_statements_lost Performance_schema_program_lost \
    Performance_schema_rwlock_classes_lost Performance_schema_rwlock_instances_lost \
    Performance_schema_session_connect_attrs_longest_seen Performance_schema_session_connect_attrs_lost \
    Performance_schema_socket_classes_lost Performance_schema_socket_instances_lost \
    Performance_schema_stage_classes_lost Performance_schema_statement_classes_lost \
    Performance_schema_table_handles_lost Performance_schema_table_instances_lost \
    Performance_schema_table_lock_stat_lost Performance_schema_thread_classes_lost \
    Performance_schema_thread_instances_lost Performance_schema_users_lost Secondary_engine_execution_count \
    Select_range_check Slow_launch_threads Ssl_accept_renegotiates Ssl_accepts Ssl_callback_cache_hits \
    Ssl_client_connects Ssl_connect_renegotiates Ssl_ctx_verify_depth Ssl_ctx_verify_mode Ssl_default_timeout \
    Ssl_finished_accepts Ssl_finished_connects Ssl_session_cache_hits Ssl_session_cache_misses \
    Ssl_session_cache_overflows Ssl_session_cache_size Ssl_session_cache_timeout Ssl_session_cache_timeouts \
    Ssl_sessions_reused Ssl_used_session_cache_entries Ssl_verify_depth Ssl_verify_mode Table_locks_immediate \
    Table_locks_waited Table_open_cache_hits Table_open_cache_misses Table_open_cache_overflows \
    Table_open_cache_triggers_hits Table_open_cache_triggers_misses Table_open_cache_triggers_overflows \
    Tc_log_max_pages_used Tc_log_page_size Tc_log_page_waits TempTable_count_hit_max_ram";

/// Names of texts, and what they say.
const TEXTS: &[(&str, &str)] = &[
    ("Caching_sha2_password_rsa_public_key", ""),
    ("Current_tls_ca", ""),
    ("Current_tls_capath", ""),
    ("Current_tls_cert", ""),
    ("Current_tls_cipher", ""),
    ("Current_tls_ciphersuites", ""),
    ("Current_tls_crl", ""),
    ("Current_tls_crlpath", ""),
    ("Current_tls_key", ""),
    ("Current_tls_version", ""),
    ("Deprecated_use_fk_on_non_standard_key_last_timestamp", ""),
    ("Deprecated_use_i_s_processlist_last_timestamp", ""),
    ("Innodb_buffer_pool_dump_status", ""),
    ("Innodb_buffer_pool_load_status", ""),
    ("Innodb_buffer_pool_resize_status", ""),
    ("Innodb_redo_log_read_only", "OFF"),
    ("Innodb_redo_log_resize_status", "OK"),
    ("Last_query_cost", "0.000000"),
    ("Resource_group_supported", "OFF"),
    ("Rsa_public_key", ""),
    ("Ssl_cipher_list", ""),
    ("Ssl_server_not_after", ""),
    ("Ssl_server_not_before", ""),
    ("Ssl_session_cache_mode", "NONE"),
    ("Telemetry_logs_supported", "OFF"),
    ("Telemetry_metrics_supported", "OFF"),
    ("Telemetry_traces_supported", "OFF"),
];

/// Names and values.
pub(super) fn all() -> impl Iterator<Item = (&'static str, String)> {
    let zeros = ZEROS.split_whitespace().map(|name| (name, "0".to_owned()));
    let texts = TEXTS.iter().map(|(name, text)| (*name, (*text).to_owned()));
    zeros.chain(texts)
}
