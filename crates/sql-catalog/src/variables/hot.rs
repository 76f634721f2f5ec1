//! The variables that statements consult all the time, typed and ready.
//!
//! Neighbours: `session` rebuilds [`SessionVars`] after each SET that touches one of them.
//! **Invariant**: derived from [`SessionValues`] only; nothing writes a field directly.

use std::time::Duration;

use esker_binlog::event::rows::RowFlags;
use esker_types::collation::{Charset, Collation};
use esker_types::func::{BlockMode, TimeLocale};
use esker_types::temporal::zone::parse_time_zone;
use esker_types::{SqlMode, SqlResult};
use jiff::tz::TimeZone;

use super::SessionValues;
use super::level::Level;
use super::{GtidsTold, LogVars, RowImage};
use crate::catalog::AutoStep;

/// The variables of OPTIMIZER_TRACE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceVars {
    /// Statements are traced.
    pub enabled: bool,
    /// Without line breaks.
    pub one_line: bool,
    /// The join search is told.
    pub greedy_search: bool,
    /// Access paths of single tables are told.
    pub range_optimizer: bool,
    /// The first trace that is kept, or if negative how many of the last.
    pub offset: i64,
    /// Traces that are shown.
    pub limit: u64,
    /// Bytes that are kept.
    pub max_bytes: u64,
}

impl LogVars {
    fn derive(v: &SessionValues) -> Self {
        Self {
            on: v.named("sql_log_bin").is_on(),
            image: match v.named("binlog_row_image").as_text() {
                "MINIMAL" => RowImage::Minimal,
                "NOBLOB" => RowImage::NoBlob,
                _ => RowImage::Full,
            },
            edits_documents: !v.named("binlog_row_value_options").as_text().is_empty(),
            statements: v.named("binlog_rows_query_log_events").is_on(),
            compressed: v.named("binlog_transaction_compression").is_on().then(|| {
                v.named("binlog_transaction_compression_level_zstd")
                    .as_u64() as u8
            }),
            origin: origin_of(v),
            flags: RowFlags {
                no_foreign_key_checks: !v.named("foreign_key_checks").is_on(),
                relaxed_unique_checks: !v.named("unique_checks").is_on(),
                // What foreign keys change here is not logged: a consumer does it again.
                sql_foreign_keys: false,
            },
            server_collation: Collation::by_name(v.named("collation_server").as_text()),
            utf8mb4_collation: Collation::by_name(
                v.named("default_collation_for_utf8mb4").as_text(),
            )
            .unwrap_or(Collation::UTF8MB4_0900_AI_CI),
            explicit_defaults: v.named("explicit_defaults_for_timestamp").is_on(),
            names_zone: v.named("time_zone").as_text() != SYSTEM_ZONE,
            gtids_told: match v.named("session_track_gtids").as_text() {
                "OWN_GTID" => GtidsTold::Own,
                "ALL_GTIDS" => GtidsTold::All,
                _ => GtidsTold::None,
            },
        }
    }
}

impl TraceVars {
    fn derive(v: &SessionValues) -> Self {
        let has = |name, flag: &str| v.named(name).as_text().split(',').any(|f| f == flag);
        Self {
            enabled: has("optimizer_trace", "enabled=on"),
            one_line: has("optimizer_trace", "one_line=on"),
            greedy_search: has("optimizer_trace_features", "greedy_search=on"),
            range_optimizer: has("optimizer_trace_features", "range_optimizer=on"),
            offset: v.named("optimizer_trace_offset").as_i64(),
            limit: v.named("optimizer_trace_limit").as_u64(),
            max_bytes: v.named("optimizer_trace_max_mem_size").as_u64(),
        }
    }
}

/// Typed copies of a session's variables.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionVars {
    /// optimizer_trace and its kin.
    pub trace: TraceVars,
    /// sql_mode.
    pub sql_mode: SqlMode,
    /// autocommit.
    pub autocommit: bool,
    /// transaction_isolation.
    pub isolation: Level,
    /// transaction_read_only.
    pub read_only: bool,
    /// completion_type is CHAIN.
    pub chain: bool,
    /// completion_type is RELEASE.
    pub release: bool,
    /// time_zone.
    pub time_zone: TimeZone,
    /// character_set_client.
    pub charset_client: Charset,
    /// collation_connection.
    pub collation_connection: Collation,
    /// block_encryption_mode.
    pub block_encryption: BlockMode,
    /// Collation of character_set_results; None when it is NULL or binary.
    pub results: Option<Collation>,
    /// auto_increment_increment.
    pub auto_increment_increment: u64,
    /// auto_increment_offset.
    pub auto_increment_offset: u64,
    /// esker_auto_increment_persistent_interval; 0 if esker_auto_increment_persistent is off.
    pub auto_increment_interval: u64,
    /// innodb_lock_wait_timeout.
    pub row_lock_timeout: Duration,
    /// lock_wait_timeout.
    pub metadata_lock_timeout: Duration,
    /// max_allowed_packet, bytes.
    pub max_allowed_packet: u64,
    /// group_concat_max_len, bytes.
    pub group_concat_max_len: u64,
    /// div_precision_increment.
    pub div_precision_increment: u8,
    /// default_week_format.
    pub default_week_format: u8,
    /// sql_auto_is_null.
    pub auto_is_null: bool,
    /// lc_time_names.
    pub time_names: TimeLocale,
    /// max_execution_time; None = no limit.
    pub max_execution_time: Option<Duration>,
    /// wait_timeout.
    pub wait_timeout: Duration,
    /// net_read_timeout.
    pub net_read_timeout: Duration,
    /// net_write_timeout.
    pub net_write_timeout: Duration,
    /// sql_select_limit.
    pub select_limit: u64,
    /// max_join_size; none when sql_big_selects is on.
    pub max_join_size: Option<u64>,
    /// max_error_count.
    pub max_error_count: usize,
    /// sql_notes.
    pub notes: bool,
    /// esker_query_memory_limit, bytes.
    pub query_memory_limit: u64,
    /// parser_max_mem_size, bytes.
    pub parser_bytes: u64,
    /// sort_buffer_size, bytes.
    pub sort_bytes: u64,
    /// join_buffer_size, bytes.
    pub join_bytes: u64,
    /// tmp_table_size, bytes.
    pub table_bytes: u64,
    /// cte_max_recursion_depth.
    pub recursion_depth: u64,
    /// parallel_read_threads.
    pub read_threads: u32,
    /// esker_parallel_scan_rows.
    pub parallel_rows: u64,
    /// show_gipk_in_create_table_and_information_schema.
    pub shows_generated_keys: bool,
    /// foreign_key_checks.
    pub foreign_key_checks: bool,
    /// sql_safe_updates.
    pub safe_updates: bool,
    /// long_query_time, microseconds.
    pub slow_after_micros: i64,
    /// min_examined_row_limit: rows.
    pub slow_from_rows: u64,
    /// Statements that SHOW PROFILES keeps (profiling_history_size); 0 without profiling.
    pub profiles: usize,
    /// What is logged, and how.
    pub log: LogVars,
    /// timestamp, when set: NOW() in microseconds since the epoch.
    pub fixed_now: Option<i64>,
}

/// The time_zone of the system, which events do not name: readers are to use theirs.
const SYSTEM_ZONE: &str = "SYSTEM";
/// Default of original_commit_timestamp: the transaction begins here.
const NO_COMMIT_TIMESTAMP: u64 = 36_028_797_018_963_968;
/// Default of original_server_version.
const NO_SERVER_VERSION: u64 = 999_999;

/// When and by which version the transaction was committed first.
fn origin_of(v: &SessionValues) -> Option<(u64, u32)> {
    let micros = v.named("original_commit_timestamp").as_u64();
    let version = v.named("original_server_version").as_u64();
    let version = if version == NO_SERVER_VERSION {
        0
    } else {
        version
    };
    (micros != NO_COMMIT_TIMESTAMP).then_some((micros, version as u32))
}

fn isolation_of(v: &SessionValues) -> Level {
    match v.named("transaction_isolation").as_text() {
        "READ-UNCOMMITTED" => Level::ReadUncommitted,
        "READ-COMMITTED" => Level::ReadCommitted,
        "SERIALIZABLE" => Level::Serializable,
        _ => Level::RepeatableRead,
    }
}

/// How long a statement may take that is not slow, microseconds.
fn slow_after(v: &SessionValues) -> i64 {
    match v.named("long_query_time") {
        super::VarValue::Double(seconds) => (seconds * 1e6) as i64,
        _ => i64::MAX,
    }
}

/// Parses a time_zone value.
///
/// # Errors
/// 1298.
pub fn time_zone(text: &str) -> SqlResult<TimeZone> {
    parse_time_zone(text)
}

/// The variables that a stored program brings along, and what follows from them.
struct OfProgram {
    sql_mode: SqlMode,
    charset_client: Charset,
    collation_connection: Collation,
    results: Option<Collation>,
}

impl OfProgram {
    fn derive(v: &SessionValues) -> Self {
        let charset = |name| Charset::by_name(v.named(name).as_text());
        let connection = Collation::by_name(v.named("collation_connection").as_text())
            .unwrap_or(Collation::UTF8MB4_0900_AI_CI);
        Self {
            sql_mode: SqlMode::of_names(v.named("sql_mode").as_text()),
            charset_client: charset("character_set_client").unwrap_or(Charset::Utf8mb4),
            collation_connection: connection,
            // The login and SET NAMES choose the collation too, and the client is told the same one.
            results: charset("character_set_results")
                .filter(|c| *c != Charset::Binary)
                .map(|c| match connection.charset() == c {
                    true => connection,
                    false => Collation::default_of(c),
                }),
        }
    }
}

impl SessionVars {
    /// The same, but for what a stored program has brought along.
    pub fn in_program(&self, v: &SessionValues) -> Self {
        let brought = OfProgram::derive(v);
        Self {
            sql_mode: brought.sql_mode,
            charset_client: brought.charset_client,
            collation_connection: brought.collation_connection,
            results: brought.results,
            ..self.clone()
        }
    }

    /// The steps of generated numbers.
    pub fn auto_step(&self) -> AutoStep {
        AutoStep {
            increment: self.auto_increment_increment,
            offset: self.auto_increment_offset,
        }
    }

    /// Would every statement bind to the same under `other`? Only what is known to matter at run time
    /// alone is left out of the comparison.
    pub fn binds_like(&self, other: &Self) -> bool {
        let same_run_time = Self {
            autocommit: other.autocommit,
            isolation: other.isolation,
            read_only: other.read_only,
            chain: other.chain,
            release: other.release,
            row_lock_timeout: other.row_lock_timeout,
            metadata_lock_timeout: other.metadata_lock_timeout,
            max_execution_time: other.max_execution_time,
            wait_timeout: other.wait_timeout,
            max_error_count: other.max_error_count,
            recursion_depth: other.recursion_depth,
            sort_bytes: other.sort_bytes,
            join_bytes: other.join_bytes,
            table_bytes: other.table_bytes,
            foreign_key_checks: other.foreign_key_checks,
            read_threads: other.read_threads,
            log: other.log,
            profiles: other.profiles,
            ..self.clone()
        };
        same_run_time == *other
    }

    /// Derives everything from the stored values.
    ///
    /// # Errors
    /// 1298 when time_zone does not name a zone.
    pub fn derive(v: &SessionValues) -> SqlResult<Self> {
        let number = |name| v.named(name).as_u64();
        let seconds = |name| Duration::from_secs(number(name));
        let brought = OfProgram::derive(v);
        let fixed_now = match v.named("timestamp") {
            super::VarValue::Double(d) if *d > 0.0 => Some((*d * 1e6).round() as i64),
            _ => None,
        };
        let limit_ms = number("max_execution_time");
        Ok(Self {
            sql_mode: brought.sql_mode,
            autocommit: v.named("autocommit").is_on(),
            isolation: isolation_of(v),
            read_only: v.named("transaction_read_only").is_on(),
            chain: v.named("completion_type").as_text() == "CHAIN",
            release: v.named("completion_type").as_text() == "RELEASE",
            time_zone: time_zone(v.named("time_zone").as_text())?,
            charset_client: brought.charset_client,
            collation_connection: brought.collation_connection,
            block_encryption: BlockMode::by_name(v.named("block_encryption_mode").as_text())
                .unwrap_or_default(),
            results: brought.results,
            auto_increment_increment: number("auto_increment_increment"),
            auto_increment_offset: number("auto_increment_offset"),
            auto_increment_interval: match v.named("esker_auto_increment_persistent").is_on() {
                true => number("esker_auto_increment_persistent_interval"),
                false => 0,
            },
            row_lock_timeout: seconds("innodb_lock_wait_timeout"),
            metadata_lock_timeout: seconds("lock_wait_timeout"),
            max_allowed_packet: number("max_allowed_packet"),
            group_concat_max_len: number("group_concat_max_len"),
            div_precision_increment: number("div_precision_increment") as u8,
            default_week_format: number("default_week_format") as u8,
            auto_is_null: v.named("sql_auto_is_null").is_on(),
            time_names: TimeLocale::named(v.named("lc_time_names").as_text()),
            max_execution_time: (limit_ms > 0).then(|| Duration::from_millis(limit_ms)),
            wait_timeout: seconds("wait_timeout"),
            net_read_timeout: seconds("net_read_timeout"),
            net_write_timeout: seconds("net_write_timeout"),
            select_limit: number("sql_select_limit"),
            max_join_size: (!v.named("sql_big_selects").is_on()).then(|| number("max_join_size")),
            max_error_count: number("max_error_count") as usize,
            notes: v.named("sql_notes").is_on(),
            query_memory_limit: number("esker_query_memory_limit"),
            parser_bytes: number("parser_max_mem_size"),
            sort_bytes: number("sort_buffer_size"),
            join_bytes: number("join_buffer_size"),
            table_bytes: number("tmp_table_size"),
            recursion_depth: number("cte_max_recursion_depth"),
            read_threads: number("parallel_read_threads") as u32,
            parallel_rows: number("esker_parallel_scan_rows"),
            shows_generated_keys: v
                .named("show_gipk_in_create_table_and_information_schema")
                .is_on(),
            foreign_key_checks: v.named("foreign_key_checks").is_on(),
            safe_updates: v.named("sql_safe_updates").is_on(),
            slow_after_micros: slow_after(v),
            slow_from_rows: number("min_examined_row_limit"),
            profiles: match v.named("profiling").is_on() {
                true => number("profiling_history_size") as usize,
                false => 0,
            },
            trace: TraceVars::derive(v),
            log: LogVars::derive(v),
            fixed_now,
        })
    }
}
