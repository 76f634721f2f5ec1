//! What the variables say about the binary log, typed.
//!
//! Neighbours: `hot` makes them with the rest of a session's variables; the binary log's capture obeys them.
//! **Invariant**: plain data; they hold for a whole statement.

use esker_binlog::event::rows::RowFlags;
use esker_types::collation::Collation;

/// Which columns row images have (`binlog_row_image`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowImage {
    /// The key before, what changed after.
    Minimal,
    /// All but BLOB and TEXT columns that did not change.
    NoBlob,
    /// All.
    Full,
}

/// Which GTIDs a client that wants to know of changes is told (`session_track_gtids`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GtidsTold {
    /// None.
    None,
    /// Those of its own transactions.
    Own,
    /// All that are executed.
    All,
}

/// What the variables say about logging; part of a session's hot variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogVars {
    /// sql_log_bin.
    pub on: bool,
    /// binlog_row_image.
    pub image: RowImage,
    /// binlog_row_value_options = PARTIAL_JSON.
    pub edits_documents: bool,
    /// binlog_rows_query_log_events.
    pub statements: bool,
    /// binlog_transaction_compression_level_zstd, with binlog_transaction_compression.
    pub compressed: Option<u8>,
    /// original_commit_timestamp and original_server_version, if they are set.
    pub origin: Option<(u64, u32)>,
    /// foreign_key_checks and unique_checks.
    pub flags: RowFlags,
    /// collation_server.
    pub server_collation: Option<Collation>,
    /// default_collation_for_utf8mb4.
    pub utf8mb4_collation: Collation,
    /// explicit_defaults_for_timestamp.
    pub explicit_defaults: bool,
    /// time_zone is not SYSTEM, so events name it.
    pub names_zone: bool,
    /// session_track_gtids.
    pub gtids_told: GtidsTold,
}
