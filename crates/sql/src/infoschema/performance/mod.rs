//! Rows of the tables of PERFORMANCE_SCHEMA.
//!
//! Neighbours: `source` asks by table name. Parts: `variables` (system, status and user variables) · `sessions`
//! (threads, the process list, accounts) · `locks` (row and metadata locks) · `setup` (what is instrumented) ·
//! `memory` · `statements` (by digest, by command, the last ones) · `backup` (positions of the logs).
//! **Invariants**: every table of MySQL's is declared; one that no part lists has no rows. Times are in picoseconds, as
//! in MySQL; a thread has the id of its connection.

mod backup;
mod locks;
mod memory;
mod sessions;
mod setup;
mod statements;
mod variables;

use super::TableSpec;
use super::source::Source;

/// Every table that has rows.
pub(super) static SOURCES: &[&[Source]] = &[
    variables::SOURCES,
    sessions::SOURCES,
    locks::SOURCES,
    setup::SOURCES,
    memory::SOURCES,
    statements::SOURCES,
    backup::SOURCES,
];

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
