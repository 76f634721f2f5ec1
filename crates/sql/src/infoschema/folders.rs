//! Folders of the data directory, and what their files are for.
//!
//! Neighbours: `disk` sums up what their files take, `performance::file_io` what is read from them and written to them.
//! **Invariant**: a folder stands here once, so both tables know the same ones.

/// A folder directly below the data directory.
pub(super) struct Folder {
    pub name: &'static str,
    /// In `ESKER_DISK`.
    pub area: &'static str,
    /// The instrument of its files.
    pub event: &'static str,
}

pub(super) const EXTENTS: &str = "extents";
pub(super) const LOG: &str = "log";
pub(super) const TEMPORARY: &str = "temporary files";
pub(super) const BINLOG: &str = "binary log";
pub(super) const RELAY_LOGS: &str = "relay logs";

pub(super) const BINLOG_EVENT: &str = "wait/io/file/sql/binlog";
pub(super) const RELAY_LOG_EVENT: &str = "wait/io/file/sql/relaylog";

pub(super) const FOLDERS: [Folder; 6] = [
    Folder {
        name: "extents",
        area: EXTENTS,
        event: "wait/io/file/innodb/innodb_data_file",
    },
    Folder {
        name: "wal",
        area: LOG,
        event: "wait/io/file/innodb/innodb_log_file",
    },
    Folder {
        name: "tmp",
        area: TEMPORARY,
        event: "wait/io/file/innodb/innodb_temp_file",
    },
    Folder {
        name: "manifest",
        area: "manifest",
        event: "wait/io/file/esker/manifest",
    },
    Folder {
        name: "binlog",
        area: BINLOG,
        event: BINLOG_EVENT,
    },
    Folder {
        name: "relay",
        area: RELAY_LOGS,
        event: RELAY_LOG_EVENT,
    },
];
