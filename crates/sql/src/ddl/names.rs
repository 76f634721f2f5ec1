//! Names of schema objects: which are allowed, and which database a bare one means.
//!
//! Neighbours: every statement of `ddl`; `esker_types::names` has the rules that the parser knows, too.
//! **Invariant**: a name that passes here can be written back in backticks and read again.

use esker_sql_catalog::catalog::is_system_schema;
use esker_sql_syntax::ast::ObjectName;
use esker_types::names::{check_column, check_length, is_bad};
use esker_types::{SqlResult, errors};

/// A name with its database decided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// Database.
    pub schema: String,
    /// Table.
    pub name: String,
}

/// Decides the database of a name: 1046 when there is none. The parser has refused bad names.
pub fn resolve(name: &ObjectName, database: Option<&str>) -> SqlResult<TableName> {
    let schema = match &name.schema {
        Some(schema) => schema.text.to_string(),
        None => database.ok_or_else(errors::no_database)?.to_owned(),
    };
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
    let (name, host) = user.rsplit_once('@').unwrap_or((user, ""));
    Err(errors::database_denied(
        format!("'{name}'@'{host}'"),
        schema,
    ))
}

/// 1059: names of CHECK constraints may end in a space.
pub fn check_constraint(name: &str) -> SqlResult<()> {
    match name.is_empty() {
        true => check_column(name),
        false => check_length(name),
    }
}

/// 1280, 1059.
pub fn check_index(name: &str) -> SqlResult<()> {
    if is_bad(name) || name.eq_ignore_ascii_case("PRIMARY") {
        return Err(errors::wrong_index_name(name));
    }
    check_length(name)
}
