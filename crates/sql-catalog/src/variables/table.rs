//! The system variables that Esker looks at: name, scope, whether SET may change it, what it takes, its
//! default, and what setting it does.
//!
//! Neighbours: [`super::unused`] has the rest of MySQL's; the rest of `variables` reads both as one table.
//! MySQL's names and defaults where MySQL has the variable (8.4 reference manual, "Server System
//! Variables"); `esker_...` where it has none.
//! **Invariants**: sorted by name (a test checks it), because lookup is a binary search. No setting is
//! silent: each has its effect, is refused, or is warned of, as [`Effect`] says (a test sets every one).

use esker_types::func::{BlockMode, LOCALES};

/// Who has a value of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Only the server.
    Global,
    /// Only sessions.
    Session,
    /// The server, copied by each session at connect.
    Both,
}

/// Variables that SET GLOBAL alone changes, for their values are kept with the data.
pub const OF_THE_DATA: [&str; 2] = ["gtid_purged", "gtid_slave_pos"];

/// Variables that say where files and doors of the server are, or what it does before anybody logs in. They are of
/// whoever starts the server: SET PERSIST_ONLY refuses them, as in MySQL, or an account that may set variables could
/// have a file of statements run as an administrator.
pub const NOT_PERSISTED: [&str; 47] = [
    "admin_address",
    "admin_port",
    "auto_generate_certs",
    "basedir",
    "bind_address",
    "caching_sha2_password_auto_generate_rsa_keys",
    "caching_sha2_password_private_key_path",
    "caching_sha2_password_public_key_path",
    "character_sets_dir",
    "core_file",
    "create_admin_listener_thread",
    "datadir",
    "esker_force_recovery",
    "esker_http_address",
    "esker_http_port",
    "ft_stopword_file",
    "init_file",
    "innodb_buffer_pool_load_at_startup",
    "innodb_data_file_path",
    "innodb_data_home_dir",
    "innodb_dedicated_server",
    "innodb_directories",
    "innodb_force_load_corrupted",
    "innodb_log_group_home_dir",
    "innodb_page_size",
    "innodb_read_only",
    "innodb_temp_data_file_path",
    "innodb_temp_tablespaces_dir",
    "innodb_undo_directory",
    "lc_messages_dir",
    "log_bin",
    "log_error",
    "persist_only_admin_x509_subject",
    "persist_sensitive_variables_in_plaintext",
    "persisted_globals_load",
    "pid_file",
    "plugin_dir",
    "port",
    "relay_log",
    "replica_load_tmpdir",
    "secure_file_priv",
    "sha256_password_auto_generate_rsa_keys",
    "sha256_password_private_key_path",
    "sha256_password_public_key_path",
    "skip_networking",
    "socket",
    "tmpdir",
];

/// What comes of setting a variable to something that is not its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// What it says.
    Works,
    /// Esker always behaves as the default says. Another value would promise what does not happen:
    /// error 1231, and no start.
    Fixed,
    /// Esker always behaves as the default says, and another value would promise no more than that. The
    /// variable keeps its default, and whoever sets it is warned.
    Stays,
    /// Advice, or about something that Esker has not: the value is kept, changes nothing, and whoever sets
    /// it is warned.
    Unused,
    /// Every value describes what Esker does.
    Moot,
    /// Describes the server; nobody sets it.
    Fact,
}

/// What a variable takes.
#[derive(Debug, Clone, PartialEq)]
pub enum VarKind {
    /// ON or OFF.
    Bool,
    /// A number in a range.
    UInt {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A number in a range that begins below zero.
    Int {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A number with a fraction.
    Double {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// Switches by name, `a=on,b=off`: what is not named stays as it is.
    Flags(&'static [&'static str]),
    /// One of some words.
    Enum(&'static [&'static str]),
    /// Some of these words, at least one, separated by commas.
    Words(&'static [&'static str]),
    /// Some of these words, or their bits; kept in their order.
    Set {
        /// The words.
        words: &'static [&'static str],
        /// There may be none.
        may_be_empty: bool,
    },
    /// A list of SQL modes.
    SqlMode,
    /// A character set.
    Charset {
        /// NULL is allowed.
        nullable: bool,
    },
    /// A collation.
    Collation,
    /// A storage engine, or one that InnoDB stands in for.
    Engine,
    /// Any text.
    Text,
    /// The name of a file: no control characters.
    FileName,
    /// Any text or NULL.
    NullableText,
    /// NULL, nothing, or some of these names, separated by colons.
    Suites(&'static [&'static str]),
}

/// What a replica may convert between unequal types.
const TYPE_CONVERSIONS: &[&str] = &["ALL_LOSSY", "ALL_NON_LOSSY", "ALL_UNSIGNED", "ALL_SIGNED"];

/// What MySQL takes for `ssl_cipher`: suites of TLS 1.2 that are not obsolete.
pub(super) const CIPHERS: &[&str] = &[
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES256-CCM",
    "ECDHE-ECDSA-AES128-CCM",
    "DHE-RSA-AES128-GCM-SHA256",
    "DHE-RSA-AES256-GCM-SHA384",
    "DHE-RSA-AES256-CCM",
    "DHE-RSA-AES128-CCM",
    "DHE-RSA-CHACHA20-POLY1305",
];
/// And for `tls_ciphersuites`.
pub(super) const CIPHERSUITES: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256",
];

/// A variable.
#[derive(Debug)]
pub struct VarDef {
    /// Name, lower case.
    pub name: &'static str,
    /// Scope.
    pub scope: Scope,
    /// May SET change it?
    pub dynamic: bool,
    /// What it takes.
    pub kind: VarKind,
    /// Default as text.
    pub default: &'static str,
    /// What setting it does.
    pub effect: Effect,
}

const fn with(
    effect: Effect,
    name: &'static str,
    (scope, dynamic): (Scope, bool),
    kind: VarKind,
    default: &'static str,
) -> VarDef {
    VarDef {
        name,
        scope,
        dynamic,
        kind,
        default,
        effect,
    }
}

/// A variable that does what it says.
const fn var(name: &'static str, s: Scope, set: bool, k: VarKind, d: &'static str) -> VarDef {
    with(Effect::Works, name, (s, set), k, d)
}

/// A variable of which one value is true.
const fn one(name: &'static str, s: Scope, set: bool, k: VarKind, d: &'static str) -> VarDef {
    with(Effect::Fixed, name, (s, set), k, d)
}

/// A variable that keeps its default, with a warning.
const fn stays(name: &'static str, s: Scope, set: bool, k: VarKind, d: &'static str) -> VarDef {
    with(Effect::Stays, name, (s, set), k, d)
}

/// A variable of which every value is true.
const fn moot(name: &'static str, scope: Scope, kind: VarKind, default: &'static str) -> VarDef {
    with(Effect::Moot, name, (scope, true), kind, default)
}

/// A variable that describes the server.
const fn fact(name: &'static str, scope: Scope, kind: VarKind, default: &'static str) -> VarDef {
    with(Effect::Fact, name, (scope, false), kind, default)
}

/// A variable that nothing looks at.
pub(super) const fn unused(
    name: &'static str,
    s: Scope,
    set: bool,
    k: VarKind,
    d: &'static str,
) -> VarDef {
    with(Effect::Unused, name, (s, set), k, d)
}

use Scope::{Both as B, Global as G, Session as S};

/// Largest `esker_memory_limit`, bytes.
pub(super) const MEMORY_LIMIT_MAX: u64 = 1 << 44;

/// Default of a variable that is NULL.
pub const NULL: &str = "\0NULL";
pub(super) const SET: bool = true;
pub(super) const FIX: bool = false;

/// The variables that Esker looks at, sorted by name.
#[rustfmt::skip] // one line each, to be read as a table
pub(super) static KNOWN: &[VarDef] = &[
    var("activate_all_roles_on_login", G, SET, VarKind::Bool, "OFF"),
    var("activate_mandatory_roles", G, SET, VarKind::Bool, "ON"),
    var("admin_address", G, FIX, VarKind::Text, ""),
    var("admin_port", G, FIX, VarKind::UInt { min: 0, max: 65_535 }, "33062"),
    one("authentication_policy", G, SET, VarKind::Text, "*,,"),
    var("auto_generate_certs", G, FIX, VarKind::Bool, "ON"),
    var("auto_increment_increment", B, SET, VarKind::UInt { min: 1, max: 65_535 }, "1"),
    var("auto_increment_offset", B, SET, VarKind::UInt { min: 1, max: 65_535 }, "1"),
    var("autocommit", B, SET, VarKind::Bool, "ON"),
    var("automatic_sp_privileges", G, SET, VarKind::Bool, "ON"),
    var("back_log", G, FIX, VarKind::UInt { min: 1, max: 65_535 }, "4096"),
    var("bind_address", G, FIX, VarKind::Text, "127.0.0.1"),
    var("binlog_cache_size", G, SET, VarKind::UInt { min: 4_096, max: 18_446_744_073_709_547_520 }, "4194304"),
    var("binlog_checksum", G, SET, VarKind::Enum(&["NONE", "CRC32"]), "CRC32"),
    one("binlog_encryption", G, SET, VarKind::Bool, "OFF"),
    var("binlog_expire_logs_auto_purge", G, SET, VarKind::Bool, "ON"),
    var("binlog_expire_logs_seconds", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "2592000"),
    var("binlog_group_commit_sync_delay", G, SET, VarKind::UInt { min: 0, max: 1_000_000 }, "0"),
    var("binlog_group_commit_sync_no_delay_count", G, SET, VarKind::UInt { min: 0, max: 100_000 }, "0"),
    var("binlog_row_event_max_size", G, FIX, VarKind::UInt { min: 256, max: 18_446_744_073_709_551_360 }, "8192"),
    var("binlog_row_image", B, SET, VarKind::Enum(&["MINIMAL", "NOBLOB", "FULL"]), "FULL"),
    var("binlog_row_metadata", G, SET, VarKind::Enum(&["MINIMAL", "FULL"]), "MINIMAL"),
    var("binlog_row_value_options", B, SET, VarKind::Enum(&["", "PARTIAL_JSON"]), ""),
    var("binlog_rows_query_log_events", B, SET, VarKind::Bool, "OFF"),
    var("binlog_transaction_compression", B, SET, VarKind::Bool, "OFF"),
    var("binlog_transaction_compression_level_zstd", B, SET, VarKind::UInt { min: 1, max: 22 }, "3"),
    var("block_encryption_mode", B, SET, VarKind::Enum(BlockMode::NAMES), "aes-128-ecb"),
    var("caching_sha2_password_proxy_users", G, SET, VarKind::Bool, "OFF"),
    var("character_set_client", B, SET, VarKind::Charset { nullable: false }, "utf8mb4"),
    var("character_set_connection", B, SET, VarKind::Charset { nullable: false }, "utf8mb4"),
    var("character_set_database", B, SET, VarKind::Charset { nullable: false }, "utf8mb4"),
    var("character_set_results", B, SET, VarKind::Charset { nullable: true }, "utf8mb4"),
    var("character_set_server", B, SET, VarKind::Charset { nullable: false }, "utf8mb4"),
    fact("character_set_system", G, VarKind::Charset { nullable: false }, "utf8mb3"),
    var("check_proxy_users", G, SET, VarKind::Bool, "OFF"),
    var("collation_connection", B, SET, VarKind::Collation, "utf8mb4_0900_ai_ci"),
    var("collation_database", B, SET, VarKind::Collation, "utf8mb4_0900_ai_ci"),
    var("collation_server", B, SET, VarKind::Collation, "utf8mb4_0900_ai_ci"),
    var("completion_type", B, SET, VarKind::Enum(&["NO_CHAIN", "CHAIN", "RELEASE"]), "NO_CHAIN"),
    var("connect_timeout", G, SET, VarKind::UInt { min: 2, max: 31_536_000 }, "10"),
    var("connection_control_failed_connections_threshold", G, SET, VarKind::UInt { min: 0, max: 2_147_483_647 }, "3"),
    var("connection_control_max_connection_delay", G, SET, VarKind::UInt { min: 1_000, max: 2_147_483_647 }, "10000"),
    var("connection_control_min_connection_delay", G, SET, VarKind::UInt { min: 1_000, max: 2_147_483_647 }, "1000"),
    one("create_admin_listener_thread", G, FIX, VarKind::Bool, "OFF"),
    var("cte_max_recursion_depth", B, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "1000"),
    var("datadir", G, FIX, VarKind::Text, "./esker-data/"),
    fact("date_format", G, VarKind::Text, "%Y-%m-%d"),
    fact("datetime_format", G, VarKind::Text, "%Y-%m-%d %H:%i:%s"),
    one("default_authentication_plugin", G, FIX, VarKind::Enum(&["mysql_native_password", "sha256_password", "caching_sha2_password"]), "caching_sha2_password"),
    var("default_collation_for_utf8mb4", B, SET, VarKind::Collation, "utf8mb4_0900_ai_ci"),
    var("default_password_lifetime", G, SET, VarKind::UInt { min: 0, max: 65_535 }, "0"),
    var("default_storage_engine", B, SET, VarKind::Engine, "InnoDB"),
    one("default_table_encryption", B, SET, VarKind::Bool, "OFF"),
    var("default_tmp_storage_engine", B, SET, VarKind::Engine, "InnoDB"),
    var("default_week_format", B, SET, VarKind::UInt { min: 0, max: 7 }, "0"),
    var("disconnect_on_expired_password", G, FIX, VarKind::Bool, "ON"),
    var("div_precision_increment", B, SET, VarKind::UInt { min: 0, max: 30 }, "4"),
    one("enable_cascade_triggers", B, SET, VarKind::Bool, "OFF"),
    one("end_markers_in_json", B, SET, VarKind::Bool, "OFF"),
    var("enforce_gtid_consistency", G, SET, VarKind::Enum(&["OFF", "ON", "WARN"]), "OFF"),
    fact("error_count", S, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("esker_async_commit", G, SET, VarKind::Bool, "OFF"),
    var("esker_audit_log", G, SET, VarKind::Bool, "OFF"),
    var("esker_audit_log_events", G, SET, VarKind::Words(&["connect", "denied", "account", "ddl", "change", "read", "other"]), "connect,denied,account,ddl"),
    var("esker_audit_log_file", G, SET, VarKind::FileName, "audit.log"),
    var("esker_auto_increment_persistent", G, SET, VarKind::Bool, "ON"),
    var("esker_auto_increment_persistent_interval", G, SET, VarKind::UInt { min: 1, max: 1_000_000 }, "100"),
    var("esker_backup_least_share", G, SET, VarKind::UInt { min: 1, max: 100 }, "20"),
    var("esker_backup_rate_limit", G, SET, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("esker_binlog_commit", G, FIX, VarKind::Enum(&["ONE-SYNC", "TWO-PHASE"]), "ONE-SYNC"),
    var("esker_binlog_harden", G, FIX, VarKind::Enum(&["PER-GROUP", "PER-TRANSACTION"]), "PER-GROUP"),
    var("esker_binlog_space_limit", G, SET, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("esker_compaction_threads", G, FIX, VarKind::UInt { min: 0, max: 16 }, "0"),
    var("esker_ddl_least_share", G, SET, VarKind::UInt { min: 1, max: 100 }, "20"),
    var("esker_ddl_lock_timeout", B, SET, VarKind::Int { min: -1, max: 31_536_000 }, "-1"),
    var("esker_ddl_window", G, SET, VarKind::UInt { min: 1, max: 60_000 }, "1000"),
    var("esker_durable_snapshots", G, SET, VarKind::Bool, "ON"),
    var("esker_early_lock_release", G, SET, VarKind::Bool, "ON"),
    var("esker_flush_pipelining", G, SET, VarKind::Bool, "ON"),
    var("esker_force_recovery", G, FIX, VarKind::Enum(&["OFF", "POINT-IN-TIME", "NEW-ACCOUNTS"]), "OFF"),
    var("esker_http_address", G, FIX, VarKind::Text, ""),
    var("esker_http_port", G, FIX, VarKind::UInt { min: 0, max: 65_535 }, "8306"),
    var("esker_log_buffer", G, FIX, VarKind::Enum(&["B", "C", "D", "CD", "CDME"]), "CD"),
    var("esker_log_buffer_size", G, FIX, VarKind::UInt { min: 1_048_576, max: esker_engine::MAX_LOG_BUFFER_BYTES as u64 }, "16777216"),
    var("esker_log_flush_bytes", G, SET, VarKind::UInt { min: 0, max: 1_073_741_824 }, "0"),
    var("esker_log_flush_in_flight", G, SET, VarKind::UInt { min: 1, max: 4 }, "4"),
    var("esker_log_flush_interval", G, SET, VarKind::UInt { min: 0, max: 1_000_000 }, "0"),
    var("esker_log_flush_overlap", G, SET, VarKind::UInt { min: 0, max: 1_000_000_000 }, "500"),
    var("esker_log_flush_transactions", G, SET, VarKind::UInt { min: 0, max: 1_000_000 }, "0"),
    var("esker_log_live_size", G, FIX, VarKind::UInt { min: 4_194_304, max: 1_099_511_627_776 }, "1073741824"),
    var("esker_log_pinned_limit", G, SET, VarKind::UInt { min: 1_048_576, max: u64::MAX }, "1073741824"),
    var("esker_log_segment_size", G, FIX, VarKind::UInt { min: 1_048_576, max: 4_294_967_296 }, "67108864"),
    var("esker_max_transaction_size", G, FIX, VarKind::UInt { min: 1_048_576, max: 1_099_511_627_776 }, "4294967296"),
    var("esker_memory_limit", G, SET, VarKind::UInt { min: 67_108_864, max: MEMORY_LIMIT_MAX }, "4294967296"),
    var("esker_memtable_size", G, FIX, VarKind::UInt { min: 1_048_576, max: 4_294_967_296 }, "134217728"),
    var("esker_parallel_scan_rows", B, SET, VarKind::UInt { min: 0, max: u64::MAX }, "10000"),
    var("esker_query_memory_limit", B, SET, VarKind::UInt { min: 1_048_576, max: 1_099_511_627_776 }, "1073741824"),
    var("esker_recovery_mode", G, FIX, VarKind::Enum(&["SERIAL-SYNC", "SERIAL-ASYNC", "PARALLEL"]), "PARALLEL"),
    var("esker_recovery_threads", G, FIX, VarKind::UInt { min: 0, max: 1024 }, "0"),
    var("esker_replica_parallel_mode", G, SET, VarKind::Enum(&["SERIAL", "DATABASE", "COMMIT-GROUP", "WRITESET", "OPTIMISTIC"]), "WRITESET"),
    var("esker_scan_threads", G, SET, VarKind::UInt { min: 0, max: 1_024 }, "0"),
    var("esker_statement_statistics", G, SET, VarKind::Bool, "ON"),
    var("esker_substitute_engines", G, SET, VarKind::Bool, "OFF"),
    var("esker_transaction_memory", G, FIX, VarKind::UInt { min: 65_536, max: 1_099_511_627_776 }, "33554432"),
    var("esker_verify_metadata_answers", G, SET, VarKind::Bool, "OFF"),
    var("event_scheduler", G, SET, VarKind::Enum(&["OFF", "ON", "DISABLED"]), "ON"),
    var("explain_format", B, SET, VarKind::Enum(&["TRADITIONAL", "JSON", "TREE", "DEFAULT"]), "TRADITIONAL"),
    var("explain_json_format_version", B, SET, VarKind::UInt { min: 1, max: 2 }, "1"),
    var("explicit_defaults_for_timestamp", B, SET, VarKind::Bool, "ON"),
    fact("external_user", S, VarKind::NullableText, NULL),
    var("foreign_key_checks", B, SET, VarKind::Bool, "ON"),
    var("general_log", G, SET, VarKind::Bool, "OFF"),
    var("general_log_file", G, SET, VarKind::Text, "general.log"),
    var("generated_random_password_length", B, SET, VarKind::UInt { min: 5, max: 255 }, "20"),
    var("group_concat_max_len", B, SET, VarKind::UInt { min: 4, max: u64::MAX }, "1024"),
    fact("gtid_executed", G, VarKind::Text, ""),
    var("gtid_mode", G, SET, VarKind::Enum(&["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"]), "OFF"),
    var("gtid_next", S, SET, VarKind::Text, "AUTOMATIC"),
    fact("gtid_owned", B, VarKind::Text, ""),
    var("gtid_purged", G, SET, VarKind::Text, ""),
    var("gtid_slave_pos", G, SET, VarKind::Text, ""),
    fact("have_compress", G, VarKind::Text, "YES"),
    fact("have_dynamic_loading", G, VarKind::Text, "NO"),
    fact("have_geometry", G, VarKind::Text, "YES"),
    fact("have_profiling", G, VarKind::Text, "YES"),
    fact("have_query_cache", G, VarKind::Text, "NO"),
    fact("have_rtree_keys", G, VarKind::Text, "NO"),
    fact("have_ssl", G, VarKind::Text, "YES"),
    fact("have_statement_timeout", G, VarKind::Text, "YES"),
    fact("have_symlink", G, VarKind::Text, "DISABLED"),
    fact("hostname", G, VarKind::Text, "localhost"),
    var("identity", S, SET, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    moot("information_schema_stats_expiry", B, VarKind::UInt { min: 0, max: 31_536_000 }, "86400"),
    var("init_connect", G, SET, VarKind::NullableText, ""),
    var("init_file", G, FIX, VarKind::NullableText, NULL),
    var("init_replica", G, SET, VarKind::NullableText, ""),
    var("init_slave", G, SET, VarKind::NullableText, ""),
    var("innodb_buffer_pool_size", G, SET, VarKind::UInt { min: 5_242_880, max: u64::MAX }, "4294967296"),
    stays("innodb_flush_log_at_trx_commit", G, SET, VarKind::UInt { min: 0, max: 2 }, "1"),
    one("innodb_force_recovery", G, FIX, VarKind::UInt { min: 0, max: 6 }, "0"),
    var("innodb_ft_enable_stopword", B, SET, VarKind::Bool, "ON"),
    var("innodb_ft_max_token_size", G, FIX, VarKind::UInt { min: 10, max: 84 }, "84"),
    var("innodb_ft_min_token_size", G, FIX, VarKind::UInt { min: 0, max: 16 }, "3"),
    var("innodb_ft_server_stopword_table", G, SET, VarKind::NullableText, NULL),
    var("innodb_ft_user_stopword_table", B, SET, VarKind::NullableText, NULL),
    var("innodb_lock_wait_timeout", B, SET, VarKind::UInt { min: 1, max: 1_073_741_824 }, "50"),
    var("innodb_monitor_disable", G, SET, VarKind::NullableText, NULL),
    var("innodb_monitor_enable", G, SET, VarKind::NullableText, NULL),
    var("innodb_monitor_reset", G, SET, VarKind::NullableText, NULL),
    var("innodb_monitor_reset_all", G, SET, VarKind::NullableText, NULL),
    one("innodb_native_foreign_keys", G, FIX, VarKind::Bool, "OFF"),
    var("innodb_print_all_deadlocks", G, SET, VarKind::Bool, "OFF"),
    one("innodb_read_only", G, FIX, VarKind::Bool, "OFF"),
    one("innodb_redo_log_encrypt", G, SET, VarKind::Bool, "OFF"),
    var("innodb_rollback_on_timeout", G, FIX, VarKind::Bool, "OFF"),
    one("innodb_snapshot_isolation", B, SET, VarKind::Bool, "OFF"),
    var("innodb_strict_mode", B, SET, VarKind::Bool, "ON"),
    one("innodb_undo_log_encrypt", G, SET, VarKind::Bool, "OFF"),
    fact("innodb_version", G, VarKind::Text, "8.4.3"),
    var("insert_id", S, SET, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("interactive_timeout", B, SET, VarKind::UInt { min: 1, max: 31_536_000 }, "28800"),
    var("join_buffer_size", B, SET, VarKind::UInt { min: 128, max: u64::MAX }, "67108864"),
    var("last_insert_id", S, SET, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    stays("lc_messages", B, SET, VarKind::Enum(LOCALES), "en_US"),
    var("lc_time_names", B, SET, VarKind::Enum(LOCALES), "en_US"),
    fact("license", G, VarKind::Text, "MIT OR Apache-2.0"),
    var("local_infile", G, SET, VarKind::Bool, "OFF"),
    var("lock_wait_timeout", B, SET, VarKind::UInt { min: 1, max: 31_536_000 }, "31536000"),
    var("log_bin", G, FIX, VarKind::Bool, "OFF"),
    fact("log_bin_basename", G, VarKind::Text, ""),
    var("log_bin_index", G, FIX, VarKind::Text, ""),
    var("log_bin_trust_function_creators", G, SET, VarKind::Bool, "OFF"),
    var("log_error", G, FIX, VarKind::Text, "stderr"),
    var("log_error_services", G, SET, VarKind::Text, "log_filter_internal; log_sink_internal"),
    var("log_error_verbosity", G, SET, VarKind::UInt { min: 1, max: 3 }, "2"),
    var("log_output", G, SET, VarKind::Set { words: &["NONE", "FILE", "TABLE"], may_be_empty: false }, "FILE"),
    var("log_queries_not_using_indexes", G, SET, VarKind::Bool, "OFF"),
    var("log_replica_updates", G, FIX, VarKind::Bool, "ON"),
    var("log_slave_updates", G, FIX, VarKind::Bool, "ON"),
    var("log_slow_admin_statements", G, SET, VarKind::Bool, "OFF"),
    var("log_slow_extra", G, SET, VarKind::Bool, "OFF"),
    var("log_slow_replica_statements", G, SET, VarKind::Bool, "OFF"),
    var("log_slow_slave_statements", G, SET, VarKind::Bool, "OFF"),
    stays("log_timestamps", G, SET, VarKind::Enum(&["UTC", "SYSTEM"]), "UTC"),
    var("log_throttle_queries_not_using_indexes", G, SET, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("long_query_time", B, SET, VarKind::Double { min: 0.0, max: 31536000.0 }, "10"),
    fact("lower_case_file_system", G, VarKind::Bool, "OFF"),
    one("lower_case_table_names", G, FIX, VarKind::UInt { min: 0, max: 2 }, "0"),
    var("mandatory_roles", G, SET, VarKind::Text, ""),
    var("max_allowed_packet", B, SET, VarKind::UInt { min: 1_024, max: 1_073_741_824 }, "67108864"),
    var("max_binlog_cache_size", G, SET, VarKind::UInt { min: 4_096, max: 18_446_744_073_709_547_520 }, "18446744073709547520"),
    var("max_binlog_size", G, SET, VarKind::UInt { min: 4_096, max: 1_073_741_824 }, "1073741824"),
    var("max_connect_errors", G, SET, VarKind::UInt { min: 1, max: u64::MAX }, "100"),
    var("max_connections", G, SET, VarKind::UInt { min: 1, max: 100_000 }, "4096"),
    var("max_error_count", B, SET, VarKind::UInt { min: 0, max: 65_535 }, "1024"),
    var("max_execution_time", B, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "0"),
    var("max_join_size", B, SET, VarKind::UInt { min: 1, max: u64::MAX }, "18446744073709551615"),
    var("max_prepared_stmt_count", G, SET, VarKind::UInt { min: 0, max: 4_194_304 }, "16382"),
    var("max_relay_log_size", G, SET, VarKind::UInt { min: 0, max: 1_073_741_824 }, "0"),
    var("max_sp_recursion_depth", B, SET, VarKind::UInt { min: 0, max: 255 }, "0"),
    var("max_user_connections", B, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "0"),
    var("min_examined_row_limit", B, SET, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("mysql_native_password_proxy_users", G, SET, VarKind::Bool, "OFF"),
    var("net_read_timeout", B, SET, VarKind::UInt { min: 1, max: 31_536_000 }, "30"),
    var("net_write_timeout", B, SET, VarKind::UInt { min: 1, max: 31_536_000 }, "60"),
    var("ngram_token_size", G, FIX, VarKind::UInt { min: 1, max: 10 }, "2"),
    one("offline_mode", G, SET, VarKind::Bool, "OFF"),
    var("open_files_limit", G, FIX, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("optimizer_trace", B, SET, VarKind::Flags(&["enabled", "one_line"]), "enabled=off,one_line=off"),
    var("optimizer_trace_features", B, SET, VarKind::Flags(&["greedy_search", "range_optimizer", "dynamic_range", "repeated_subselect"]), "greedy_search=on,range_optimizer=on,dynamic_range=on,repeated_subselect=on"),
    var("optimizer_trace_limit", B, SET, VarKind::UInt { min: 0, max: 2_147_483_647 }, "1"),
    var("optimizer_trace_max_mem_size", B, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "1048576"),
    var("optimizer_trace_offset", B, SET, VarKind::Int { min: -2_147_483_648, max: 2_147_483_647 }, "-1"),
    var("original_commit_timestamp", S, SET, VarKind::UInt { min: 0, max: 36_028_797_018_963_968 }, "36028797018963968"),
    var("original_server_version", S, SET, VarKind::UInt { min: 0, max: 999_999 }, "999999"),
    var("parallel_read_threads", B, SET, VarKind::UInt { min: 1, max: 256 }, "4"),
    var("parser_max_mem_size", B, SET, VarKind::UInt { min: 10_000_000, max: u64::MAX }, "18446744073709551615"),
    var("partial_revokes", G, SET, VarKind::Bool, "OFF"),
    var("password_history", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "0"),
    var("password_require_current", G, SET, VarKind::Bool, "OFF"),
    var("password_reuse_interval", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "0"),
    var("performance_schema", G, FIX, VarKind::Bool, "ON"),
    var("persisted_globals_load", G, FIX, VarKind::Bool, "ON"),
    var("pid_file", G, FIX, VarKind::Text, ""),
    var("port", G, FIX, VarKind::UInt { min: 0, max: 65_535 }, "3306"),
    var("print_identified_with_as_hex", B, SET, VarKind::Bool, "OFF"),
    var("profiling", B, SET, VarKind::Bool, "OFF"),
    var("profiling_history_size", B, SET, VarKind::UInt { min: 0, max: 100 }, "15"),
    var("protocol_compression_algorithms", G, SET, VarKind::Words(&["zlib", "zstd", "uncompressed"]), "zlib,zstd,uncompressed"),
    fact("protocol_version", G, VarKind::UInt { min: 0, max: 255 }, "10"),
    fact("proxy_user", S, VarKind::NullableText, NULL),
    moot("pseudo_replica_mode", S, VarKind::Bool, "OFF"),
    moot("pseudo_slave_mode", S, VarKind::Bool, "OFF"),
    var("rand_seed1", S, SET, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("rand_seed2", S, SET, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("rbr_exec_mode", B, SET, VarKind::Enum(&["STRICT", "IDEMPOTENT"]), "STRICT"),
    var("read_only", G, SET, VarKind::Bool, "OFF"),
    var("regexp_stack_limit", G, SET, VarKind::UInt { min: 0, max: 2_147_483_647 }, "8000000"),
    var("regexp_time_limit", G, SET, VarKind::UInt { min: 0, max: 2_147_483_647 }, "32"),
    var("relay_log", G, FIX, VarKind::Text, "relay-bin"),
    fact("relay_log_basename", G, VarKind::Text, ""),
    var("relay_log_index", G, FIX, VarKind::Text, "relay-bin.index"),
    var("relay_log_purge", G, SET, VarKind::Bool, "ON"),
    var("relay_log_space_limit", G, FIX, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    var("replica_compressed_protocol", G, SET, VarKind::Bool, "OFF"),
    var("replica_exec_mode", G, SET, VarKind::Enum(&["STRICT", "IDEMPOTENT"]), "STRICT"),
    var("replica_net_timeout", G, SET, VarKind::UInt { min: 1, max: 31_536_000 }, "60"),
    var("replica_parallel_workers", G, SET, VarKind::UInt { min: 1, max: 1_024 }, "4"),
    var("replica_pending_jobs_size_max", G, SET, VarKind::UInt { min: 1_024, max: 18_446_744_073_709_550_592 }, "134217728"),
    var("replica_preserve_commit_order", G, SET, VarKind::Bool, "ON"),
    var("replica_skip_errors", G, FIX, VarKind::Text, "OFF"),
    var("replica_transaction_retries", G, SET, VarKind::UInt { min: 0, max: u64::MAX }, "10"),
    var("replica_type_conversions", G, SET, VarKind::Set { words: TYPE_CONVERSIONS, may_be_empty: true }, ""),
    var("report_host", G, FIX, VarKind::NullableText, NULL),
    var("report_port", G, FIX, VarKind::UInt { min: 0, max: 65_535 }, "0"),
    one("require_row_format", S, SET, VarKind::Bool, "OFF"),
    var("require_secure_transport", G, SET, VarKind::Bool, "OFF"),
    var("restrict_fk_on_non_standard_key", B, SET, VarKind::Bool, "ON"),
    var("rpl_semi_sync_master_enabled", G, SET, VarKind::Bool, "OFF"),
    var("rpl_semi_sync_master_timeout", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "10000"),
    one("rpl_semi_sync_master_trace_level", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "32"),
    var("rpl_semi_sync_master_wait_for_slave_count", G, SET, VarKind::UInt { min: 1, max: 65_535 }, "1"),
    var("rpl_semi_sync_master_wait_no_slave", G, SET, VarKind::Bool, "ON"),
    one("rpl_semi_sync_master_wait_point", G, SET, VarKind::Enum(&["AFTER_SYNC", "AFTER_COMMIT"]), "AFTER_SYNC"),
    var("rpl_semi_sync_replica_enabled", G, SET, VarKind::Bool, "OFF"),
    one("rpl_semi_sync_replica_trace_level", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "32"),
    var("rpl_semi_sync_slave_enabled", G, SET, VarKind::Bool, "OFF"),
    one("rpl_semi_sync_slave_trace_level", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "32"),
    var("rpl_semi_sync_source_enabled", G, SET, VarKind::Bool, "OFF"),
    var("rpl_semi_sync_source_timeout", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "10000"),
    one("rpl_semi_sync_source_trace_level", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "32"),
    var("rpl_semi_sync_source_wait_for_replica_count", G, SET, VarKind::UInt { min: 1, max: 65_535 }, "1"),
    var("rpl_semi_sync_source_wait_no_replica", G, SET, VarKind::Bool, "ON"),
    one("rpl_semi_sync_source_wait_point", G, SET, VarKind::Enum(&["AFTER_SYNC", "AFTER_COMMIT"]), "AFTER_SYNC"),
    var("rpl_stop_replica_timeout", G, SET, VarKind::UInt { min: 2, max: 31_536_000 }, "31536000"),
    var("rpl_stop_slave_timeout", G, SET, VarKind::UInt { min: 2, max: 31_536_000 }, "31536000"),
    one("resultset_metadata", S, SET, VarKind::Enum(&["NONE", "FULL"]), "FULL"),
    var("secure_file_priv", G, FIX, VarKind::NullableText, NULL),
    var("server_id", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "1"),
    fact("server_memory", G, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    fact("server_uuid", G, VarKind::Text, ""),
    var("session_track_gtids", B, SET, VarKind::Enum(&["OFF", "OWN_GTID", "ALL_GTIDS"]), "OFF"),
    var("session_track_schema", B, SET, VarKind::Bool, "ON"),
    var("session_track_state_change", B, SET, VarKind::Bool, "OFF"),
    var("session_track_system_variables", B, SET, VarKind::NullableText, "time_zone,autocommit,character_set_client,character_set_results,character_set_connection"),
    one("show_create_table_skip_secondary_engine", S, SET, VarKind::Bool, "OFF"),
    var("show_create_table_verbosity", B, SET, VarKind::Bool, "OFF"),
    var("show_gipk_in_create_table_and_information_schema", B, SET, VarKind::Bool, "ON"),
    one("skip_name_resolve", G, FIX, VarKind::Bool, "ON"),
    one("skip_networking", G, FIX, VarKind::Bool, "OFF"),
    var("skip_replica_start", G, FIX, VarKind::Bool, "OFF"),
    var("skip_show_database", G, FIX, VarKind::Bool, "OFF"),
    var("skip_slave_start", G, FIX, VarKind::Bool, "OFF"),
    var("slave_exec_mode", G, SET, VarKind::Enum(&["STRICT", "IDEMPOTENT"]), "STRICT"),
    var("slave_net_timeout", G, SET, VarKind::UInt { min: 1, max: 31_536_000 }, "60"),
    var("slave_parallel_workers", G, SET, VarKind::UInt { min: 1, max: 1_024 }, "4"),
    var("slave_pending_jobs_size_max", G, SET, VarKind::UInt { min: 1_024, max: 18_446_744_073_709_550_592 }, "134217728"),
    var("slave_preserve_commit_order", G, SET, VarKind::Bool, "ON"),
    var("slave_skip_errors", G, FIX, VarKind::Text, "OFF"),
    var("slave_transaction_retries", G, SET, VarKind::UInt { min: 0, max: u64::MAX }, "10"),
    var("slave_type_conversions", G, SET, VarKind::Set { words: TYPE_CONVERSIONS, may_be_empty: true }, ""),
    var("slow_query_log", G, SET, VarKind::Bool, "OFF"),
    var("slow_query_log_file", G, SET, VarKind::Text, "slow.log"),
    var("socket", G, FIX, VarKind::Text, ""),
    var("sort_buffer_size", B, SET, VarKind::UInt { min: 32_768, max: u64::MAX }, "33554432"),
    var("sql_auto_is_null", B, SET, VarKind::Bool, "OFF"),
    var("sql_big_selects", B, SET, VarKind::Bool, "ON"),
    var("sql_generate_invisible_primary_key", B, SET, VarKind::Bool, "OFF"),
    var("sql_log_bin", S, SET, VarKind::Bool, "ON"),
    var("sql_log_off", B, SET, VarKind::Bool, "OFF"),
    var("sql_mode", B, SET, VarKind::SqlMode, "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"),
    var("sql_notes", B, SET, VarKind::Bool, "ON"),
    var("sql_quote_show_create", B, SET, VarKind::Bool, "ON"),
    var("sql_replica_skip_counter", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "0"),
    var("sql_require_primary_key", B, SET, VarKind::Bool, "OFF"),
    var("sql_safe_updates", B, SET, VarKind::Bool, "OFF"),
    var("sql_select_limit", B, SET, VarKind::UInt { min: 0, max: u64::MAX }, "18446744073709551615"),
    var("sql_slave_skip_counter", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "0"),
    moot("sql_warnings", B, VarKind::Bool, "OFF"),
    var("ssl", G, FIX, VarKind::Bool, "ON"),
    var("ssl_ca", G, SET, VarKind::NullableText, NULL),
    one("ssl_capath", G, SET, VarKind::NullableText, NULL),
    var("ssl_cert", G, SET, VarKind::NullableText, "server-cert.pem"),
    var("ssl_cipher", G, SET, VarKind::Suites(CIPHERS), NULL),
    var("ssl_crl", G, SET, VarKind::NullableText, NULL),
    one("ssl_crlpath", G, SET, VarKind::NullableText, NULL),
    one("ssl_fips_mode", G, FIX, VarKind::Enum(&["OFF", "ON", "STRICT"]), "OFF"),
    var("ssl_key", G, SET, VarKind::NullableText, "server-key.pem"),
    var("super_read_only", G, SET, VarKind::Bool, "OFF"),
    var("sync_relay_log", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "10000"),
    var("sync_binlog", G, SET, VarKind::UInt { min: 0, max: 4_294_967_295 }, "1"),
    fact("system_time_zone", G, VarKind::Text, "UTC"),
    one("table_encryption_privilege_check", G, SET, VarKind::Bool, "OFF"),
    stays("thread_handling", G, FIX, VarKind::Text, "pool-of-threads"),
    fact("time_format", G, VarKind::Text, "%H:%i:%s"),
    var("time_zone", B, SET, VarKind::Text, "SYSTEM"),
    var("timestamp", S, SET, VarKind::Double { min: 0.0, max: 2147483647.0 }, "0"),
    one("tls_certificates_enforced_validation", G, FIX, VarKind::Bool, "OFF"),
    var("tls_ciphersuites", G, SET, VarKind::Suites(CIPHERSUITES), NULL),
    var("tls_version", G, SET, VarKind::Words(&["", "TLSv1.2", "TLSv1.3"]), "TLSv1.2,TLSv1.3"),
    var("tmp_table_size", B, SET, VarKind::UInt { min: 1_024, max: u64::MAX }, "67108864"),
    var("tmpdir", G, FIX, VarKind::Text, ""),
    var("transaction_isolation", B, SET, VarKind::Enum(&["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"]), "REPEATABLE-READ"),
    var("transaction_read_only", B, SET, VarKind::Bool, "OFF"),
    moot("unique_checks", B, VarKind::Bool, "ON"),
    var("updatable_views_with_limit", B, SET, VarKind::Enum(&["NO", "YES"]), "YES"),
    fact("version", G, VarKind::Text, "8.4.3-esker"),
    fact("version_comment", G, VarKind::Text, "Esker"),
    fact("version_compile_machine", G, VarKind::Text, "x86_64"),
    fact("version_compile_os", G, VarKind::Text, "Linux"),
    fact("version_compile_zlib", G, VarKind::Text, ""),
    var("wait_timeout", B, SET, VarKind::UInt { min: 1, max: 31_536_000 }, "28800"),
    fact("warning_count", S, VarKind::UInt { min: 0, max: u64::MAX }, "0"),
    moot("windowing_use_high_precision", B, VarKind::Bool, "ON"),
    var("xa_detach_on_prepare", B, SET, VarKind::Bool, "ON"),
];
