//! Names of schema objects: which are allowed, and which database a bare one means.
//!
//! Neighbours: every statement of `ddl`.
//! **Invariant**: a name that passes here can be written back in backticks and read again.

use esker_sql_catalog::catalog::{MAX_NAME_CHARS, is_system_schema};
use esker_sql_syntax::ast::ObjectName;
use esker_types::{SqlError, SqlResult, errors};

/// A name with its database decided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// Database.
    pub schema: String,
    /// Table.
    pub name: String,
}

/// Decides the database of a name: 1046 when there is none, 1102 and 1103 for bad names.
pub fn resolve(name: &ObjectName, database: Option<&str>) -> SqlResult<TableName> {
    let schema = match &name.schema {
        Some(schema) => {
            check_schema(&schema.text)?;
            schema.text.to_string()
        }
        None => database.ok_or_else(errors::no_database)?.to_owned(),
    };
    check_table(&name.name.text)?;
    Ok(TableName {
        schema,
        name: name.name.text.to_string(),
    })
}

/// 1044 for databases of the server, where users make no tables.
pub fn check_not_system(schema: &str, user: &str) -> SqlResult<()> {
    if !is_system_schema(schema) {
        return Ok(());
    }
    Err(errors::database_denied(format!("'{user}'"), schema))
}

fn too_long(name: &str) -> SqlResult<()> {
    if name.chars().count() > MAX_NAME_CHARS {
        return Err(errors::name_too_long(name));
    }
    Ok(())
}

fn is_bad(name: &str) -> bool {
    name.is_empty() || name.ends_with(' ') || name.contains('\0')
}

/// 1102, 1059.
pub fn check_schema(name: &str) -> SqlResult<()> {
    if is_bad(name) {
        return Err(SqlError::new(
            1102,
            "42000",
            format!("Incorrect database name '{name}'"),
        ));
    }
    too_long(name)
}

/// 1103, 1059.
pub fn check_table(name: &str) -> SqlResult<()> {
    if is_bad(name) {
        return Err(SqlError::new(
            1103,
            "42000",
            format!("Incorrect table name '{name}'"),
        ));
    }
    too_long(name)
}

/// 1166.
pub fn wrong_column_name(name: &str) -> SqlError {
    SqlError::new(1166, "42000", format!("Incorrect column name '{name}'"))
}

/// 1166, 1059.
pub fn check_column(name: &str) -> SqlResult<()> {
    if is_bad(name) {
        return Err(wrong_column_name(name));
    }
    too_long(name)
}

/// 1059: names of CHECK constraints may end in a space.
pub fn check_constraint(name: &str) -> SqlResult<()> {
    match name.is_empty() {
        true => check_column(name),
        false => too_long(name),
    }
}

/// 1280, 1059.
pub fn check_index(name: &str) -> SqlResult<()> {
    if is_bad(name) || name.eq_ignore_ascii_case("PRIMARY") {
        return Err(errors::wrong_index_name(name));
    }
    too_long(name)
}
