//! Rows of the tables of PERFORMANCE_SCHEMA.
//!
//! Neighbours: `source` asks by table name. Parts: `variables` (system, status and user variables) · `sessions`
//! (threads, the process list, accounts) · `locks` (row and metadata locks) · `setup` (what is instrumented) ·
//! `memory` · `stages` (of schema changes) · `statements` (by digest, by command, the last ones) · `transactions`
//! (that are open) · `table_io` (accesses) · `file_io` · `error_log` · `backup` (positions of the logs) · `replication`
//! (channels) · `compression` (of logged transactions).
//! **Invariants**: every table of MySQL's is declared; one that no part lists has no rows. Times are in picoseconds,
//! as in MySQL; a thread has the id of its connection.

mod backup;
mod compression;
mod error_log;
mod file_io;
mod locks;
mod memory;
mod replication;
mod sessions;
mod setup;
mod stages;
mod statements;
mod table_io;
mod transactions;
mod variables;

pub(super) use backup::LOG_STATUS;
pub use file_io::measured_files;
pub(super) use replication::other_sources;
pub(crate) use setup::{at_start as instruments_at_start, is_collected};

use esker_types::{DateTime, Value};

use super::source::Source;
use super::{TableSpec, Viewer};

/// Every table that has rows.
pub(super) static SOURCES: &[&[Source]] = &[
    variables::SOURCES,
    sessions::SOURCES,
    locks::SOURCES,
    setup::SOURCES,
    memory::SOURCES,
    stages::SOURCES,
    statements::SOURCES,
    transactions::SOURCES,
    table_io::SOURCES,
    backup::SOURCES,
    error_log::SOURCES,
    file_io::SOURCES,
    replication::SOURCES,
    compression::SOURCES,
];

/// A moment with its microseconds.
fn moment(viewer: &Viewer, micros: i64) -> Value {
    DateTime::from_utc(micros, &viewer.instance.system_zone).map_or(Value::Null, Value::DateTime)
}

/// The same of what may not have happened: the zero moment then.
fn moment_if(viewer: &Viewer, micros: Option<i64>) -> Value {
    match micros {
        Some(micros) if micros > 0 => moment(viewer, micros),
        _ => Value::DateTime(DateTime::ZERO),
    }
}

/// Microseconds as picoseconds.
fn pico(micros: u64) -> Value {
    Value::UInt(micros.saturating_mul(1_000_000))
}

/// When something began, microseconds since the start of the server.
fn since_start(viewer: &Viewer, began_micros: i64) -> u64 {
    let up = viewer.instance.uptime_secs() as i64 * 1_000_000;
    let started = viewer.instance.now_micros() - up;
    (began_micros - started).max(0) as u64
}

/// Is this a table that every account may read?
pub(crate) fn is_open_table(spec: &TableSpec) -> bool {
    const OPEN: &[&str] = &[
        "global_status",
        "global_variables",
        "persisted_variables",
        "processlist",
        "session_account_connect_attrs",
        "session_status",
        "session_variables",
        "variables_info",
    ];
    spec.schema == "performance_schema" && OPEN.contains(&spec.name)
}
