//! Names in system schemas that no statement reaches: what MySQL keeps to itself, and what is not there.
//!
//! Neighbours: look-ups by name ask for the error; `ddl` asks before it makes or changes a table.
//! **Invariant**: a name that MySQL keeps to itself is refused by whatever names it, also where nothing of the name is.

use esker_types::{SqlError, errors};

/// Tables of MySQL's dictionary, which nobody may look into there.
const DICTIONARY: [&str; 30] = [
    "catalogs",
    "character_sets",
    "check_constraints",
    "collations",
    "column_statistics",
    "column_type_elements",
    "columns",
    "dd_properties",
    "events",
    "foreign_key_column_usage",
    "foreign_keys",
    "index_column_usage",
    "index_partitions",
    "index_stats",
    "indexes",
    "parameter_type_elements",
    "parameters",
    "resource_groups",
    "routines",
    "schemata",
    "st_spatial_reference_systems",
    "table_partition_values",
    "table_partitions",
    "table_stats",
    "tables",
    "tablespace_files",
    "tablespaces",
    "triggers",
    "view_routine_usage",
    "view_table_usage",
];
/// Tables that InnoDB alone works on.
const OF_INNODB: [&str; 2] = ["innodb_ddl_log", "innodb_dynamic_metadata"];
/// Tables that everybody may read, but InnoDB alone makes and drops.
const KEPT_BY_INNODB: [&str; 2] = ["innodb_index_stats", "innodb_table_stats"];

/// 3554: the name is one that no statement reaches.
fn rejected(schema: &str, name: &str) -> Option<SqlError> {
    let kind = match schema == "mysql" {
        true if DICTIONARY.contains(&name) => "data dictionary",
        true if OF_INNODB.contains(&name) => "system",
        _ => return None,
    };
    Some(errors::table_rejected(kind, name))
}

/// 3554: the table is not for statements that make, change or drop tables.
pub(crate) fn rejects_changes(schema: &str, name: &str) -> Option<SqlError> {
    match schema == "mysql" && KEPT_BY_INNODB.contains(&name) {
        true => Some(errors::table_rejected("system", name)),
        false => rejected(schema, name),
    }
}

/// No table of a system schema has this name: 3554, 1109 in INFORMATION_SCHEMA, or 1146.
pub(crate) fn unknown_table(schema: &str, name: &str) -> SqlError {
    match schema {
        "information_schema" => errors::unknown_table_in(name.to_uppercase(), "information_schema"),
        _ => rejected(schema, name).unwrap_or_else(|| errors::no_such_table(schema, name)),
    }
}
