//! Columns of every INFORMATION_SCHEMA table.
//!
//! Neighbours: `objects` and `server` make rows with exactly these columns. Names, order and widths are
//! MySQL 8.4's; `ESKER_…` are our own.
//! **Invariant**: table names are upper case and sorted, so look-ups are a binary search.

use super::ColumnSpec;
use super::ColumnType::{DateTime, Int, Json, LongText, Text, UInt};

/// A table.
#[derive(Debug)]
pub struct TableSpec {
    /// Name, upper case.
    pub name: &'static str,
    /// Columns.
    pub columns: &'static [ColumnSpec],
}

const fn c(name: &'static str, ty: super::ColumnType) -> ColumnSpec {
    ColumnSpec { name, ty }
}

/// Finds a table; names are case-insensitive.
pub fn find(name: &str) -> Option<&'static TableSpec> {
    let upper = name.to_ascii_uppercase();
    TABLES
        .binary_search_by(|t| t.name.cmp(upper.as_str()))
        .ok()
        .map(|i| &TABLES[i])
}

/// All tables, sorted by name.
#[rustfmt::skip] // one table a paragraph
pub static TABLES: &[TableSpec] = &[
    TableSpec { name: "CHARACTER_SETS", columns: &[
        c("CHARACTER_SET_NAME", Text(64)), c("DEFAULT_COLLATE_NAME", Text(64)),
        c("DESCRIPTION", Text(2048)), c("MAXLEN", UInt),
    ] },
    TableSpec { name: "CHECK_CONSTRAINTS", columns: &[
        c("CONSTRAINT_CATALOG", Text(64)), c("CONSTRAINT_SCHEMA", Text(64)),
        c("CONSTRAINT_NAME", Text(64)), c("CHECK_CLAUSE", LongText),
    ] },
    TableSpec { name: "COLLATIONS", columns: &[
        c("COLLATION_NAME", Text(64)), c("CHARACTER_SET_NAME", Text(64)), c("ID", UInt),
        c("IS_DEFAULT", Text(3)), c("IS_COMPILED", Text(3)), c("SORTLEN", UInt),
        c("PAD_ATTRIBUTE", Text(9)),
    ] },
    TableSpec { name: "COLLATION_CHARACTER_SET_APPLICABILITY", columns: &[
        c("COLLATION_NAME", Text(64)), c("CHARACTER_SET_NAME", Text(64)),
    ] },
    TableSpec { name: "COLUMNS", columns: &[
        c("TABLE_CATALOG", Text(64)), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("COLUMN_NAME", Text(64)), c("ORDINAL_POSITION", UInt), c("COLUMN_DEFAULT", LongText),
        c("IS_NULLABLE", Text(3)), c("DATA_TYPE", LongText), c("CHARACTER_MAXIMUM_LENGTH", Int),
        c("CHARACTER_OCTET_LENGTH", Int), c("NUMERIC_PRECISION", UInt), c("NUMERIC_SCALE", UInt),
        c("DATETIME_PRECISION", UInt), c("CHARACTER_SET_NAME", Text(64)),
        c("COLLATION_NAME", Text(64)), c("COLUMN_TYPE", LongText), c("COLUMN_KEY", Text(3)),
        c("EXTRA", Text(256)), c("PRIVILEGES", Text(154)), c("COLUMN_COMMENT", LongText),
        c("GENERATION_EXPRESSION", LongText), c("SRS_ID", UInt),
    ] },
    TableSpec { name: "COLUMN_PRIVILEGES", columns: &[
        c("GRANTEE", Text(292)), c("TABLE_CATALOG", Text(512)), c("TABLE_SCHEMA", Text(64)),
        c("TABLE_NAME", Text(64)), c("COLUMN_NAME", Text(64)), c("PRIVILEGE_TYPE", Text(64)),
        c("IS_GRANTABLE", Text(3)),
    ] },
    TableSpec { name: "COLUMN_STATISTICS", columns: &[
        c("SCHEMA_NAME", Text(64)), c("TABLE_NAME", Text(64)), c("COLUMN_NAME", Text(64)),
        c("HISTOGRAM", Json),
    ] },
    TableSpec { name: "ENGINES", columns: &[
        c("ENGINE", Text(64)), c("SUPPORT", Text(8)), c("COMMENT", Text(80)),
        c("TRANSACTIONS", Text(3)), c("XA", Text(3)), c("SAVEPOINTS", Text(3)),
    ] },
    TableSpec { name: "ESKER_COMPACTIONS", columns: &[
        c("KIND", Text(64)), c("COUNT", UInt), c("EXTENTS_MERGED", UInt), c("EXTENTS_LINKED", UInt),
        c("EXTENTS_WRITTEN", UInt), c("BYTES_WRITTEN", UInt), c("VERSIONS_DROPPED", UInt),
    ] },
    TableSpec { name: "ESKER_DATA_LOCKS", columns: &[
        c("ENGINE", Text(32)), c("ENGINE_LOCK_ID", Text(128)), c("ENGINE_TRANSACTION_ID", UInt),
        c("THREAD_ID", UInt), c("EVENT_ID", UInt), c("OBJECT_SCHEMA", Text(64)),
        c("OBJECT_NAME", Text(64)), c("PARTITION_NAME", Text(64)), c("SUBPARTITION_NAME", Text(64)),
        c("INDEX_NAME", Text(64)), c("OBJECT_INSTANCE_BEGIN", UInt), c("LOCK_TYPE", Text(32)),
        c("LOCK_MODE", Text(32)), c("LOCK_STATUS", Text(32)), c("LOCK_DATA", LongText),
    ] },
    TableSpec { name: "ESKER_DATA_LOCK_WAITS", columns: &[
        c("ENGINE", Text(32)), c("REQUESTING_ENGINE_LOCK_ID", Text(128)),
        c("REQUESTING_ENGINE_TRANSACTION_ID", UInt), c("REQUESTING_THREAD_ID", UInt),
        c("REQUESTING_EVENT_ID", UInt), c("REQUESTING_OBJECT_INSTANCE_BEGIN", UInt),
        c("BLOCKING_ENGINE_LOCK_ID", Text(128)), c("BLOCKING_ENGINE_TRANSACTION_ID", UInt),
        c("BLOCKING_THREAD_ID", UInt), c("BLOCKING_EVENT_ID", UInt),
        c("BLOCKING_OBJECT_INSTANCE_BEGIN", UInt),
    ] },
    TableSpec { name: "ESKER_EXTENTS", columns: &[
        c("TREE_ID", UInt), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("INDEX_NAME", Text(64)), c("LEVEL", UInt), c("SORTED_RUN", UInt), c("EXTENT_ID", UInt),
        c("STORED_BYTES", UInt), c("DATA_BYTES", UInt), c("VERSIONS", UInt), c("DELETES", UInt),
        c("ROWS", UInt), c("SMALLEST_SEQUENCE", UInt), c("LARGEST_SEQUENCE", UInt),
        c("FIRST_KEY", LongText), c("LAST_KEY", LongText), c("QUARANTINED", Text(3)),
        c("TOMBSTONES_SKIPPED", UInt),
    ] },
    TableSpec { name: "ESKER_LOG", columns: &[
        c("DURABLE_LSN", UInt), c("END_LSN", UInt), c("NEEDED_FROM_LSN", UInt), c("FIRST_LSN", UInt),
        c("SEGMENTS", UInt), c("SPARE_SEGMENTS", UInt), c("SEGMENT_BYTES", UInt),
        c("FLUSHES", UInt), c("FLUSHES_OVERLAPPED", UInt), c("RECORDS", UInt), c("BYTES", UInt),
        c("DISK_BYTES", UInt), c("SEGMENTS_BEGUN", UInt), c("COMMITS_WOKEN", UInt),
    ] },
    TableSpec { name: "ESKER_LOG_HISTOGRAMS", columns: &[
        c("HISTOGRAM", Text(64)), c("FROM_VALUE", UInt), c("TO_VALUE", UInt), c("COUNT", UInt),
    ] },
    TableSpec { name: "ESKER_LOG_WAITS", columns: &[
        c("DELAY", Text(1)), c("CAUSE", Text(64)), c("COUNT", UInt), c("NANOSECONDS", UInt),
    ] },
    TableSpec { name: "ESKER_MEMORY", columns: &[
        c("AREA", Text(64)), c("BYTES", UInt), c("LIMIT_BYTES", UInt),
    ] },
    TableSpec { name: "ESKER_METADATA_LOCKS", columns: &[
        c("OBJECT_TYPE", Text(64)), c("OBJECT_SCHEMA", Text(64)), c("OBJECT_NAME", Text(64)),
        c("COLUMN_NAME", Text(64)), c("OBJECT_INSTANCE_BEGIN", UInt), c("LOCK_TYPE", Text(32)),
        c("LOCK_DURATION", Text(32)), c("LOCK_STATUS", Text(32)), c("SOURCE", Text(64)),
        c("OWNER_THREAD_ID", UInt), c("OWNER_EVENT_ID", UInt),
    ] },
    TableSpec { name: "ESKER_RECOVERY", columns: &[
        c("PHASE", Text(16)), c("MODE", Text(16)), c("THREADS", UInt), c("BYTES_DONE", UInt),
        c("BYTES_TOTAL", UInt), c("BYTES_PER_SECOND", UInt), c("RECORDS", UInt), c("ROWS_REPLAYED", UInt),
        c("SHARDS_BUILT", UInt), c("SHARDS_TOTAL", UInt), c("ELAPSED", UInt), c("UNTIL_READY", UInt),
        c("TIME_LEFT", UInt), c("FLUSHES", UInt), c("PEAK_BYTES", UInt),
    ] },
    TableSpec { name: "ESKER_STALLS", columns: &[
        c("CAUSE", Text(64)), c("WAITS_FOR", Text(64)), c("COUNT", UInt), c("NANOSECONDS", UInt),
        c("LONGEST_NANOSECONDS", UInt), c("WAITING", UInt),
    ] },
    TableSpec { name: "ESKER_TRANSACTIONS", columns: &[
        c("ID", UInt), c("USER", Text(32)), c("STARTED", DateTime), c("SECONDS", Int),
        c("STATE", Text(16)), c("QUERY", LongText), c("XID", Text(300)),
    ] },
    TableSpec { name: "ESKER_TREES", columns: &[
        c("TREE_ID", UInt), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("INDEX_NAME", Text(64)), c("MEMTABLES", UInt), c("MEMTABLE_BYTES", UInt),
        c("LEVEL0_RUNS", UInt), c("LEVEL0_EXTENTS", UInt), c("LEVEL0_BYTES", UInt),
        c("LEVEL1_EXTENTS", UInt), c("LEVEL1_BYTES", UInt), c("LEVEL2_EXTENTS", UInt),
        c("LEVEL2_BYTES", UInt), c("VERSIONS", UInt), c("DELETES", UInt), c("DATA_BYTES", UInt),
        c("MEMTABLE_VERSIONS", UInt), c("MEMTABLE_DELETES", UInt), c("TOMBSTONES_SKIPPED", UInt),
    ] },
    TableSpec { name: "EVENTS", columns: &[
        c("EVENT_CATALOG", Text(64)), c("EVENT_SCHEMA", Text(64)), c("EVENT_NAME", Text(64)),
        c("DEFINER", Text(288)), c("TIME_ZONE", Text(64)), c("EVENT_BODY", Text(3)),
        c("EVENT_DEFINITION", LongText), c("EVENT_TYPE", Text(9)), c("EXECUTE_AT", DateTime),
        c("INTERVAL_VALUE", Text(256)), c("INTERVAL_FIELD", Text(18)), c("SQL_MODE", Text(8192)),
        c("STARTS", DateTime), c("ENDS", DateTime), c("STATUS", Text(21)),
        c("ON_COMPLETION", Text(12)), c("CREATED", DateTime), c("LAST_ALTERED", DateTime),
        c("LAST_EXECUTED", DateTime), c("EVENT_COMMENT", Text(2048)), c("ORIGINATOR", UInt),
        c("CHARACTER_SET_CLIENT", Text(64)), c("COLLATION_CONNECTION", Text(64)),
        c("DATABASE_COLLATION", Text(64)),
    ] },
    TableSpec { name: "FILES", columns: &[
        c("FILE_ID", Int), c("FILE_NAME", LongText), c("FILE_TYPE", Text(256)),
        c("TABLESPACE_NAME", Text(268)), c("TABLE_CATALOG", Text(1)), c("TABLE_SCHEMA", Text(64)),
        c("TABLE_NAME", Text(64)), c("LOGFILE_GROUP_NAME", Text(256)),
        c("LOGFILE_GROUP_NUMBER", Int), c("ENGINE", Text(64)), c("FULLTEXT_KEYS", Text(64)),
        c("DELETED_ROWS", Int), c("UPDATE_COUNT", Int), c("FREE_EXTENTS", Int),
        c("TOTAL_EXTENTS", Int), c("EXTENT_SIZE", Int), c("INITIAL_SIZE", Int),
        c("MAXIMUM_SIZE", Int), c("AUTOEXTEND_SIZE", Int), c("CREATION_TIME", DateTime),
        c("LAST_UPDATE_TIME", DateTime), c("LAST_ACCESS_TIME", DateTime), c("RECOVER_TIME", Int),
        c("TRANSACTION_COUNTER", Int), c("VERSION", Int), c("ROW_FORMAT", Text(256)),
        c("TABLE_ROWS", Int), c("AVG_ROW_LENGTH", Int), c("DATA_LENGTH", Int),
        c("MAX_DATA_LENGTH", Int), c("INDEX_LENGTH", Int), c("DATA_FREE", Int),
        c("CREATE_TIME", DateTime), c("UPDATE_TIME", DateTime), c("CHECK_TIME", DateTime),
        c("CHECKSUM", Int), c("STATUS", Text(256)), c("EXTRA", Text(256)),
    ] },
    TableSpec { name: "INNODB_FOREIGN", columns: &[
        c("ID", Text(129)), c("FOR_NAME", Text(129)), c("REF_NAME", Text(129)), c("N_COLS", Int),
        c("TYPE", UInt),
    ] },
    TableSpec { name: "INNODB_FOREIGN_COLS", columns: &[
        c("ID", Text(129)), c("FOR_COL_NAME", Text(64)), c("REF_COL_NAME", Text(64)), c("POS", UInt),
    ] },
    TableSpec { name: "INNODB_METRICS", columns: &[
        c("NAME", Text(193)), c("SUBSYSTEM", Text(193)), c("COUNT", Int), c("MAX_COUNT", Int),
        c("MIN_COUNT", Int), c("AVG_COUNT", Int), c("COUNT_RESET", Int), c("MAX_COUNT_RESET", Int),
        c("MIN_COUNT_RESET", Int), c("AVG_COUNT_RESET", Int), c("TIME_ENABLED", DateTime),
        c("TIME_DISABLED", DateTime), c("TIME_ELAPSED", Int), c("TIME_RESET", DateTime),
        c("STATUS", Text(193)), c("TYPE", Text(193)), c("COMMENT", Text(193)),
    ] },
    TableSpec { name: "INNODB_TRX", columns: &[
        c("TRX_ID", Text(18)), c("TRX_STATE", Text(13)), c("TRX_STARTED", DateTime),
        c("TRX_REQUESTED_LOCK_ID", Text(126)), c("TRX_WAIT_STARTED", DateTime),
        c("TRX_WEIGHT", UInt), c("TRX_MYSQL_THREAD_ID", UInt), c("TRX_QUERY", LongText),
    ] },
    TableSpec { name: "KEYWORDS", columns: &[
        c("WORD", Text(128)), c("RESERVED", Int),
    ] },
    TableSpec { name: "KEY_COLUMN_USAGE", columns: &[
        c("CONSTRAINT_CATALOG", Text(64)), c("CONSTRAINT_SCHEMA", Text(64)),
        c("CONSTRAINT_NAME", Text(64)), c("TABLE_CATALOG", Text(64)), c("TABLE_SCHEMA", Text(64)),
        c("TABLE_NAME", Text(64)), c("COLUMN_NAME", Text(64)), c("ORDINAL_POSITION", UInt),
        c("POSITION_IN_UNIQUE_CONSTRAINT", UInt), c("REFERENCED_TABLE_SCHEMA", Text(64)),
        c("REFERENCED_TABLE_NAME", Text(64)), c("REFERENCED_COLUMN_NAME", Text(64)),
    ] },
    TableSpec { name: "PARAMETERS", columns: &[
        c("SPECIFIC_CATALOG", Text(64)), c("SPECIFIC_SCHEMA", Text(64)),
        c("SPECIFIC_NAME", Text(64)), c("ORDINAL_POSITION", UInt), c("PARAMETER_MODE", Text(5)),
        c("PARAMETER_NAME", Text(64)), c("DATA_TYPE", LongText),
        c("CHARACTER_MAXIMUM_LENGTH", Int), c("CHARACTER_OCTET_LENGTH", Int),
        c("NUMERIC_PRECISION", UInt), c("NUMERIC_SCALE", Int), c("DATETIME_PRECISION", UInt),
        c("CHARACTER_SET_NAME", Text(64)), c("COLLATION_NAME", Text(64)),
        c("DTD_IDENTIFIER", LongText), c("ROUTINE_TYPE", Text(9)),
    ] },
    TableSpec { name: "PARTITIONS", columns: &[
        c("TABLE_CATALOG", Text(64)), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("PARTITION_NAME", Text(64)), c("SUBPARTITION_NAME", Text(64)),
        c("PARTITION_ORDINAL_POSITION", UInt), c("SUBPARTITION_ORDINAL_POSITION", UInt),
        c("PARTITION_METHOD", Text(13)), c("SUBPARTITION_METHOD", Text(13)),
        c("PARTITION_EXPRESSION", Text(2048)), c("SUBPARTITION_EXPRESSION", Text(2048)),
        c("PARTITION_DESCRIPTION", LongText), c("TABLE_ROWS", UInt), c("AVG_ROW_LENGTH", UInt),
        c("DATA_LENGTH", UInt), c("MAX_DATA_LENGTH", UInt), c("INDEX_LENGTH", UInt),
        c("DATA_FREE", UInt), c("CREATE_TIME", DateTime), c("UPDATE_TIME", DateTime),
        c("CHECK_TIME", DateTime), c("CHECKSUM", Int), c("PARTITION_COMMENT", LongText),
        c("NODEGROUP", Text(256)), c("TABLESPACE_NAME", Text(268)),
    ] },
    TableSpec { name: "PLUGINS", columns: &[
        c("PLUGIN_NAME", Text(64)), c("PLUGIN_VERSION", Text(20)), c("PLUGIN_STATUS", Text(10)),
        c("PLUGIN_TYPE", Text(80)), c("PLUGIN_TYPE_VERSION", Text(20)),
        c("PLUGIN_LIBRARY", Text(64)), c("PLUGIN_LIBRARY_VERSION", Text(20)),
        c("PLUGIN_AUTHOR", Text(64)), c("PLUGIN_DESCRIPTION", LongText),
        c("PLUGIN_LICENSE", Text(80)), c("LOAD_OPTION", Text(64)),
    ] },
    TableSpec { name: "PROCESSLIST", columns: &[
        c("ID", UInt), c("USER", Text(32)), c("HOST", Text(261)), c("DB", Text(64)),
        c("COMMAND", Text(16)), c("TIME", Int), c("STATE", Text(64)), c("INFO", LongText),
    ] },
    TableSpec { name: "REFERENTIAL_CONSTRAINTS", columns: &[
        c("CONSTRAINT_CATALOG", Text(64)), c("CONSTRAINT_SCHEMA", Text(64)),
        c("CONSTRAINT_NAME", Text(64)), c("UNIQUE_CONSTRAINT_CATALOG", Text(64)),
        c("UNIQUE_CONSTRAINT_SCHEMA", Text(64)), c("UNIQUE_CONSTRAINT_NAME", Text(64)),
        c("MATCH_OPTION", Text(7)), c("UPDATE_RULE", Text(11)), c("DELETE_RULE", Text(11)),
        c("TABLE_NAME", Text(64)), c("REFERENCED_TABLE_NAME", Text(64)),
    ] },
    TableSpec { name: "ROUTINES", columns: &[
        c("SPECIFIC_NAME", Text(64)), c("ROUTINE_CATALOG", Text(64)),
        c("ROUTINE_SCHEMA", Text(64)), c("ROUTINE_NAME", Text(64)), c("ROUTINE_TYPE", Text(9)),
        c("DATA_TYPE", LongText), c("CHARACTER_MAXIMUM_LENGTH", Int),
        c("CHARACTER_OCTET_LENGTH", Int), c("NUMERIC_PRECISION", UInt), c("NUMERIC_SCALE", UInt),
        c("DATETIME_PRECISION", UInt), c("CHARACTER_SET_NAME", Text(64)),
        c("COLLATION_NAME", Text(64)), c("DTD_IDENTIFIER", LongText), c("ROUTINE_BODY", Text(8)),
        c("ROUTINE_DEFINITION", LongText), c("EXTERNAL_NAME", Text(64)),
        c("EXTERNAL_LANGUAGE", Text(64)), c("PARAMETER_STYLE", Text(3)),
        c("IS_DETERMINISTIC", Text(3)), c("SQL_DATA_ACCESS", Text(17)), c("SQL_PATH", Text(1)),
        c("SECURITY_TYPE", Text(7)), c("CREATED", DateTime), c("LAST_ALTERED", DateTime),
        c("SQL_MODE", Text(8192)), c("ROUTINE_COMMENT", LongText), c("DEFINER", Text(288)),
        c("CHARACTER_SET_CLIENT", Text(64)), c("COLLATION_CONNECTION", Text(64)),
        c("DATABASE_COLLATION", Text(64)),
    ] },
    TableSpec { name: "SCHEMATA", columns: &[
        c("CATALOG_NAME", Text(64)), c("SCHEMA_NAME", Text(64)),
        c("DEFAULT_CHARACTER_SET_NAME", Text(64)), c("DEFAULT_COLLATION_NAME", Text(64)),
        c("SQL_PATH", Text(1)), c("DEFAULT_ENCRYPTION", Text(3)),
    ] },
    TableSpec { name: "SCHEMA_PRIVILEGES", columns: &[
        c("GRANTEE", Text(292)), c("TABLE_CATALOG", Text(512)), c("TABLE_SCHEMA", Text(64)),
        c("PRIVILEGE_TYPE", Text(64)), c("IS_GRANTABLE", Text(3)),
    ] },
    TableSpec { name: "STATISTICS", columns: &[
        c("TABLE_CATALOG", Text(64)), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("NON_UNIQUE", Int), c("INDEX_SCHEMA", Text(64)), c("INDEX_NAME", Text(64)),
        c("SEQ_IN_INDEX", UInt), c("COLUMN_NAME", Text(64)), c("COLLATION", Text(1)),
        c("CARDINALITY", Int), c("SUB_PART", Int), c("PACKED", Text(1)), c("NULLABLE", Text(3)),
        c("INDEX_TYPE", Text(11)), c("COMMENT", Text(8)), c("INDEX_COMMENT", Text(2048)),
        c("IS_VISIBLE", Text(3)), c("EXPRESSION", LongText),
    ] },
    TableSpec { name: "TABLES", columns: &[
        c("TABLE_CATALOG", Text(64)), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("TABLE_TYPE", Text(11)), c("ENGINE", Text(64)), c("VERSION", Int),
        c("ROW_FORMAT", Text(10)), c("TABLE_ROWS", UInt), c("AVG_ROW_LENGTH", UInt),
        c("DATA_LENGTH", UInt), c("MAX_DATA_LENGTH", UInt), c("INDEX_LENGTH", UInt),
        c("DATA_FREE", UInt), c("AUTO_INCREMENT", UInt), c("CREATE_TIME", DateTime),
        c("UPDATE_TIME", DateTime), c("CHECK_TIME", DateTime), c("TABLE_COLLATION", Text(64)),
        c("CHECKSUM", Int), c("CREATE_OPTIONS", Text(256)), c("TABLE_COMMENT", Text(2048)),
    ] },
    TableSpec { name: "TABLE_CONSTRAINTS", columns: &[
        c("CONSTRAINT_CATALOG", Text(64)), c("CONSTRAINT_SCHEMA", Text(64)),
        c("CONSTRAINT_NAME", Text(64)), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("CONSTRAINT_TYPE", Text(11)), c("ENFORCED", Text(3)),
    ] },
    TableSpec { name: "TABLE_PRIVILEGES", columns: &[
        c("GRANTEE", Text(292)), c("TABLE_CATALOG", Text(512)), c("TABLE_SCHEMA", Text(64)),
        c("TABLE_NAME", Text(64)), c("PRIVILEGE_TYPE", Text(64)), c("IS_GRANTABLE", Text(3)),
    ] },
    TableSpec { name: "TRIGGERS", columns: &[
        c("TRIGGER_CATALOG", Text(64)), c("TRIGGER_SCHEMA", Text(64)), c("TRIGGER_NAME", Text(64)),
        c("EVENT_MANIPULATION", Text(6)), c("EVENT_OBJECT_CATALOG", Text(64)),
        c("EVENT_OBJECT_SCHEMA", Text(64)), c("EVENT_OBJECT_TABLE", Text(64)),
        c("ACTION_ORDER", UInt), c("ACTION_CONDITION", Text(1)), c("ACTION_STATEMENT", LongText),
        c("ACTION_ORIENTATION", Text(3)), c("ACTION_TIMING", Text(6)),
        c("ACTION_REFERENCE_OLD_TABLE", Text(1)), c("ACTION_REFERENCE_NEW_TABLE", Text(1)),
        c("ACTION_REFERENCE_OLD_ROW", Text(3)), c("ACTION_REFERENCE_NEW_ROW", Text(3)),
        c("CREATED", DateTime), c("SQL_MODE", Text(8192)), c("DEFINER", Text(288)),
        c("CHARACTER_SET_CLIENT", Text(64)), c("COLLATION_CONNECTION", Text(64)),
        c("DATABASE_COLLATION", Text(64)),
    ] },
    TableSpec { name: "USER_ATTRIBUTES", columns: &[
        c("USER", Text(32)), c("HOST", Text(255)), c("ATTRIBUTE", LongText),
    ] },
    TableSpec { name: "USER_PRIVILEGES", columns: &[
        c("GRANTEE", Text(292)), c("TABLE_CATALOG", Text(512)), c("PRIVILEGE_TYPE", Text(64)),
        c("IS_GRANTABLE", Text(3)),
    ] },
    TableSpec { name: "VIEWS", columns: &[
        c("TABLE_CATALOG", Text(64)), c("TABLE_SCHEMA", Text(64)), c("TABLE_NAME", Text(64)),
        c("VIEW_DEFINITION", LongText), c("CHECK_OPTION", Text(8)), c("IS_UPDATABLE", Text(3)),
        c("DEFINER", Text(288)), c("SECURITY_TYPE", Text(7)), c("CHARACTER_SET_CLIENT", Text(64)),
        c("COLLATION_CONNECTION", Text(64)),
    ] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_found() {
        assert!(TABLES.windows(2).all(|w| w[0].name < w[1].name));
        assert_eq!(find("columns").map(|t| t.columns.len()), Some(22));
        assert!(find("nope").is_none());
    }
}
