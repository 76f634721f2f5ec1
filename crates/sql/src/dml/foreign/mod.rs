//! Foreign keys while rows change: parents are looked for, children refused, deleted or changed.
//!
//! In flow order: `plan` (which tables and indexes a statement meets) · `enforce` (one row at a time) · `child` (what a
//! cascade makes of a row) · `new_keys` (constraints that a table gets while it has rows) · here, the errors and what
//! IGNORE does with them.
//! Neighbours: `insert`, `update`, `delete` call in for every row they write; `write` writes the rows of children;
//! `catalog::foreign` has the definitions.
//!
//! **Invariants** (`docs/decisions/foreign-keys.md`)
//! - A row that refers to a parent is written before the parent is looked for, so it may refer to itself; the parent's
//!   key is then locked shared until the transaction ends.
//! - Children are dealt with before their parent's row goes or changes, under the exclusive lock of its key.
//! - What cascades is part of the statement: it is undone with it, and not counted.

mod child;
mod enforce;
#[cfg(test)]
mod model_tests;
mod new_keys;
mod plan;
#[cfg(test)]
mod tests;

use esker_sql_catalog::catalog::{ForeignKeyDef, IndexDef, TableDef, quoted};
use esker_types::SqlError;

pub(in crate::dml) use enforce::{Enforcer, RowAt};
pub(crate) use new_keys::{NewKeys, Seen};
pub(crate) use plan::{ForeignKeyPlan, Lookup, Relative, RowEffects};

/// The constraint as errors name it; nothing for whom it may not be told to.
fn constraint(child: &TableDef, key: &ForeignKeyDef, is_told: bool) -> String {
    if !is_told {
        return String::new();
    }
    let (schema, table) = (quoted(&child.schema), quoted(&child.name));
    format!(" ({schema}.{table}, {})", key.text(child))
}

/// 1452.
pub(crate) fn no_parent(child: &TableDef, key: &ForeignKeyDef, is_told: bool) -> SqlError {
    let text = format!(
        "Cannot add or update a child row: a foreign key constraint fails{}",
        constraint(child, key, is_told)
    );
    SqlError::new(1452, "23000", text)
}

/// 1451.
fn has_children(child: &TableDef, key: &ForeignKeyDef, is_told: bool) -> SqlError {
    let text = format!(
        "Cannot delete or update a parent row: a foreign key constraint fails{}",
        constraint(child, key, is_told)
    );
    SqlError::new(1451, "23000", text)
}

/// 3008.
fn too_deep() -> SqlError {
    let text =
        format!("Foreign key cascade delete/update exceeds max depth of {MAX_CASCADE_DEPTH}.");
    SqlError::new(3008, "HY000", text)
}

/// 1761.
fn duplicate_in_child(
    parent: &TableDef,
    record: &str,
    child: &TableDef,
    index: &IndexDef,
) -> SqlError {
    let text = format!(
        "Foreign key constraint for table '{}', record '{record}' would lead to a duplicate entry in table '{}', key '{}'",
        parent.name, child.name, index.name
    );
    SqlError::new(1761, "23000", text)
}

/// Rows that one change may reach one behind the other, the one of the statement included.
const MAX_CASCADE_DEPTH: usize = 15;

/// Is this an error of a foreign key that IGNORE turns into a warning?
pub(in crate::dml) fn is_ignorable(e: &SqlError) -> bool {
    matches!(e.code, 1451 | 1452 | 1761)
}
