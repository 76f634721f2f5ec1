//! Tables of INFORMATION_SCHEMA that only Esker has.
//!
//! Neighbours: `locks`, `log`, `recovery`, `server` and `storage` make their rows.
//! **Invariant**: names are upper case and begin with `ESKER_`.

use std::borrow::Cow;
use std::sync::Arc;

use esker_types::collation::Collation;
use esker_types::{SqlType, TypeKind};

use super::{ColumnSpec, SpecKind, TableSpec};
use Kind::{DateTime, Int, LongText, Text, UInt};

/// Types that columns of these tables have.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// VARCHAR(n) in utf8mb3_general_ci, like the data dictionary.
    Text(u32),
    /// LONGTEXT.
    LongText,
    /// BIGINT UNSIGNED.
    UInt,
    /// BIGINT.
    Int,
    /// DATETIME.
    DateTime,
}

/// A column: its name and type.
type Column = (&'static str, Kind);

const fn c(name: &'static str, kind: Kind) -> Column {
    (name, kind)
}

/// Every table with its columns.
#[rustfmt::skip] // one table a paragraph
const TABLES: &[(&str, &[Column])] = &[
    ("ESKER_BINLOG", &[
        c("FILE", Text(512)), c("BYTES", UInt), c("SYNCED_BYTES", UInt), c("PREVIOUS_GTIDS", LongText),
        c("BEGIN_LSN", UInt), c("END_LSN", UInt),
    ]),
    ("ESKER_COMPACTIONS", &[
        c("KIND", Text(64)), c("COUNT", UInt), c("EXTENTS_MERGED", UInt), c("EXTENTS_LINKED", UInt),
        c("EXTENTS_WRITTEN", UInt), c("BYTES_WRITTEN", UInt), c("VERSIONS_DROPPED", UInt),
    ]),
    ("ESKER_DATA_LOCKS", &[
        c("ENGINE", Text(32)), c("ENGINE_LOCK_ID", Text(128)), c("ENGINE_TRANSACTION_ID", UInt),
        c("THREAD_ID", UInt), c("EVENT_ID", UInt), c("OBJECT_SCHEMA", Text(64)),
        c("OBJECT_NAME", Text(64)), c("PARTITION_NAME", Text(64)), c("SUBPARTITION_NAME", Text(64)),
        c("INDEX_NAME", Text(64)), c("OBJECT_INSTANCE_BEGIN", UInt), c("LOCK_TYPE", Text(32)),
        c("LOCK_MODE", Text(32)), c("LOCK_STATUS", Text(32)), c("LOCK_DATA", LongText),
    ]),
    ("ESKER_DATA_LOCK_WAITS", &[
        c("ENGINE", Text(32)), c("REQUESTING_ENGINE_LOCK_ID", Text(128)),
        c("REQUESTING_ENGINE_TRANSACTION_ID", UInt), c("REQUESTING_THREAD_ID", UInt),
        c("REQUESTING_EVENT_ID", UInt), c("REQUESTING_OBJECT_INSTANCE_BEGIN", UInt),
        c("BLOCKING_ENGINE_LOCK_ID", Text(128)), c("BLOCKING_ENGINE_TRANSACTION_ID", UInt),
        c("BLOCKING_THREAD_ID", UInt), c("BLOCKING_EVENT_ID", UInt),
        c("BLOCKING_OBJECT_INSTANCE_BEGIN", UInt),
    ]),
    ("ESKER_DEADLOCKS", &[
        c("NUMBER", UInt), c("TIME", Text(26)), c("PROCESSLIST_ID", UInt), c("USER", Text(32)), c("VICTIM", Text(3)),
        c("STATEMENT", LongText), c("WAITS_FOR", LongText), c("HOLDS", LongText),
    ]),
    ("ESKER_DISK", &[
        c("AREA", Text(64)), c("FOLDER", Text(512)), c("FILES", UInt), c("BYTES", UInt),
    ]),
    ("ESKER_EXTENTS", &[
        c("TREE_ID", UInt), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("INDEX_NAME", Text(64)), c("LEVEL", UInt), c("SORTED_RUN", UInt), c("EXTENT_ID", UInt),
        c("STORED_BYTES", UInt), c("DATA_BYTES", UInt), c("VERSIONS", UInt), c("DELETES", UInt),
        c("ROWS", UInt), c("SMALLEST_SEQUENCE", UInt), c("LARGEST_SEQUENCE", UInt),
        c("FIRST_KEY", LongText), c("LAST_KEY", LongText), c("QUARANTINED", Text(3)),
        c("TOMBSTONES_SKIPPED", UInt),
    ]),
    ("ESKER_LOG", &[
        c("DURABLE_LSN", UInt), c("END_LSN", UInt), c("NEEDED_FROM_LSN", UInt), c("FIRST_LSN", UInt),
        c("SEGMENTS", UInt), c("SPARE_SEGMENTS", UInt), c("SEGMENT_BYTES", UInt),
        c("FLUSHES", UInt), c("FLUSHES_OVERLAPPED", UInt), c("RECORDS", UInt), c("BYTES", UInt),
        c("DISK_BYTES", UInt), c("SEGMENTS_BEGUN", UInt), c("COMMITS_WOKEN", UInt),
    ]),
    ("ESKER_LOG_HISTOGRAMS", &[
        c("HISTOGRAM", Text(64)), c("FROM_VALUE", UInt), c("TO_VALUE", UInt), c("COUNT", UInt),
    ]),
    ("ESKER_LOG_WAITS", &[
        c("DELAY", Text(1)), c("CAUSE", Text(64)), c("COUNT", UInt), c("NANOSECONDS", UInt),
    ]),
    ("ESKER_MEMORY", &[
        c("AREA", Text(64)), c("BYTES", UInt), c("LIMIT_BYTES", UInt), c("PEAK_BYTES", UInt),
    ]),
    ("ESKER_METADATA_LOCKS", &[
        c("OBJECT_TYPE", Text(64)), c("OBJECT_SCHEMA", Text(64)), c("OBJECT_NAME", Text(64)),
        c("COLUMN_NAME", Text(64)), c("OBJECT_INSTANCE_BEGIN", UInt), c("LOCK_TYPE", Text(32)),
        c("LOCK_DURATION", Text(32)), c("LOCK_STATUS", Text(32)), c("SOURCE", Text(64)),
        c("OWNER_THREAD_ID", UInt), c("OWNER_EVENT_ID", UInt),
    ]),
    ("ESKER_METADATA_LOCK_WAITS", &[
        c("OBJECT_TYPE", Text(64)), c("OBJECT_SCHEMA", Text(64)), c("OBJECT_NAME", Text(64)),
        c("WAITING_LOCK_TYPE", Text(32)), c("WAITING_THREAD_ID", UInt), c("BLOCKING_LOCK_TYPE", Text(32)),
        c("BLOCKING_THREAD_ID", UInt),
    ]),
    ("ESKER_RECOVERY", &[
        c("PHASE", Text(16)), c("MODE", Text(16)), c("THREADS", UInt), c("BYTES_DONE", UInt),
        c("BYTES_TOTAL", UInt), c("BYTES_PER_SECOND", UInt), c("RECORDS", UInt), c("ROWS_REPLAYED", UInt),
        c("SHARDS_BUILT", UInt), c("SHARDS_TOTAL", UInt), c("ELAPSED", UInt), c("UNTIL_READY", UInt),
        c("TIME_LEFT", UInt), c("FLUSHES", UInt), c("PEAK_BYTES", UInt),
    ]),
    ("ESKER_STALLS", &[
        c("CAUSE", Text(64)), c("WAITS_FOR", Text(64)), c("COUNT", UInt), c("NANOSECONDS", UInt),
        c("LONGEST_NANOSECONDS", UInt), c("WAITING", UInt),
    ]),
    ("ESKER_TRANSACTIONS", &[
        c("ID", UInt), c("USER", Text(32)), c("STARTED", DateTime), c("SECONDS", Int),
        c("STATE", Text(16)), c("QUERY", LongText), c("XID", Text(300)),
    ]),
    ("ESKER_TREES", &[
        c("TREE_ID", UInt), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("INDEX_NAME", Text(64)), c("MEMTABLES", UInt), c("MEMTABLE_BYTES", UInt),
        c("LEVEL0_RUNS", UInt), c("LEVEL0_EXTENTS", UInt), c("LEVEL0_BYTES", UInt),
        c("LEVEL1_EXTENTS", UInt), c("LEVEL1_BYTES", UInt), c("LEVEL2_EXTENTS", UInt),
        c("LEVEL2_BYTES", UInt), c("VERSIONS", UInt), c("DELETES", UInt), c("DATA_BYTES", UInt),
        c("MEMTABLE_VERSIONS", UInt), c("MEMTABLE_DELETES", UInt), c("TOMBSTONES_SKIPPED", UInt),
    ]),
];

/// Their declarations.
pub(super) fn tables() -> impl Iterator<Item = TableSpec> {
    TABLES.iter().map(|(name, columns)| TableSpec {
        schema: "information_schema",
        name,
        kind: SpecKind::SystemView,
        engine: "",
        collation: None,
        comment: "",
        columns: columns.iter().map(column).collect(),
        keys: Vec::new(),
    })
}

fn column((name, kind): &Column) -> ColumnSpec {
    let collation = Collation::UTF8MB3_GENERAL_CI;
    let ty = match *kind {
        Text(n) => SqlType::varchar(n, collation),
        LongText => SqlType {
            collation,
            ..SqlType::new(TypeKind::LongText)
        },
        UInt => SqlType::bigint(true),
        Int => SqlType::bigint(false),
        DateTime => SqlType::new(TypeKind::DateTime),
    };
    ColumnSpec {
        name: Arc::from(*name),
        type_text: Cow::Owned(esker_sql_catalog::catalog::type_text(&ty)),
        ty,
        default: None,
        extra: "",
    }
}
