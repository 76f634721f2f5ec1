//! Names of schema objects: which are allowed, and which database a bare one means.
//!
//! Neighbours: every statement of `ddl`; `esker_types::names` has the rules that the parser knows, too.
//! **Invariant**: a name that passes here can be written back in backticks and read again.

use esker_sql_catalog::catalog::{Catalog, is_system_schema, same_name};
use esker_sql_syntax::ast::ObjectName;
use esker_types::collation::Collation;
pub(super) use esker_types::names::check_length;
use esker_types::names::{check_column, is_bad};
use esker_types::{SqlError, SqlResult, errors};

use crate::system_schemas::{self, SpecKind};

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

/// 1044 for databases of the server, where users make nothing.
pub fn check_not_system(schema: &str, user: &str) -> SqlResult<()> {
    match is_system_schema(schema) {
        true => Err(denied(schema, user)),
        false => Ok(()),
    }
}

/// 1044 and 3554 for tables and views of databases of the server.
pub fn check_table(name: &TableName, user: &str) -> SqlResult<()> {
    match system_schemas::rejects_changes(&name.schema, &name.name) {
        Some(e) => Err(e),
        None => check_not_system(&name.schema, user),
    }
}

/// The database of the server in which sessions may have temporary tables, as in MySQL: its procedures make some.
const WITH_TEMPORARY: &str = "sys";

/// [`check_table`] of a table that may be a temporary one.
pub fn check_any_table(name: &TableName, is_temporary: bool, user: &str) -> SqlResult<()> {
    match is_temporary && name.schema == WITH_TEMPORARY {
        true => Ok(()),
        false => check_table(name, user),
    }
}

/// The collation that tables of a new one's database have.
///
/// # Errors
/// 1049.
pub fn collation_around(
    catalog: &Catalog,
    name: &TableName,
    is_temporary: bool,
) -> SqlResult<Collation> {
    if is_temporary && name.schema == WITH_TEMPORARY {
        return Ok(Collation::UTF8MB4_0900_AI_CI);
    }
    let schema = catalog.schema(&name.schema);
    let collation = schema.map(|schema| schema.collation);
    collation.ok_or_else(|| errors::unknown_database(&name.schema))
}

/// 3552 and 1044 for databases of the server themselves.
pub fn check_schema(schema: &str, user: &str) -> SqlResult<()> {
    match schema {
        "mysql" => Err(errors::schema_rejected(schema)),
        _ => check_not_system(schema, user),
    }
}

/// The source of CREATE TABLE … LIKE has a definition to copy: 1347, 1683, 1235, and what a table is not found with.
pub fn check_source(name: &TableName) -> SqlResult<()> {
    let Some(schema) = system_schemas::schema(&name.schema) else {
        return Ok(());
    };
    let found = schema.table(&name.name);
    let spec = found.ok_or_else(|| system_schemas::unknown_table(schema.name, &name.name))?;
    Err(match spec.schema {
        _ if spec.kind != SpecKind::Table => {
            errors::wrong_object(spec.schema, spec.name, "BASE TABLE")
        }
        "performance_schema" => errors::invalid_performance_schema_usage(),
        _ => SqlError::not_supported("CREATE TABLE … LIKE a table of the server"),
    })
}

/// 1044: `user` is `user@host`.
pub fn denied(schema: &str, user: &str) -> SqlError {
    let (name, host) = user.rsplit_once('@').unwrap_or((user, ""));
    errors::database_denied(format!("'{name}'@'{host}'"), schema)
}

/// 1059: names of CHECK constraints may end in a space.
pub fn check_constraint(name: &str) -> SqlResult<()> {
    match name.is_empty() {
        true => check_column(name),
        false => check_length(name),
    }
}

/// The first name that an earlier one is the same as.
pub fn first_twin<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut before: Vec<&str> = Vec::new();
    for name in names {
        if before.iter().any(|b| same_name(b, name)) {
            return Some(name);
        }
        before.push(name);
    }
    None
}

/// What a generated name has behind its prefix. A name that is nothing else is not generated.
pub fn behind<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix).filter(|rest| !rest.is_empty())
}

/// 1280, 1059.
pub fn check_index(name: &str) -> SqlResult<()> {
    if is_bad(name) || name.eq_ignore_ascii_case("PRIMARY") {
        return Err(errors::wrong_index_name(name));
    }
    check_length(name)
}
