//! `PARTITION (p, …)` behind a table: a condition on its rows.
//!
//! Neighbours: `from` meets it and treats the condition as it treats those of a view; the catalog says what it is.
//! **Invariant**: the condition reads columns of that table alone, whatever else has their names.

use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_syntax::{ast, parse_expression};
use esker_types::SqlResult;

use super::expr::bind_expr;
use super::scope::{ColumnAt, Scope, ScopeTable, TableKind};
use super::{BindEnv, errors};
use crate::expr::Expr;

/// The condition, as text, that a row is in one of the partitions: 1747, 1735.
pub fn partition_condition(def: &TableDef, names: &[ast::Ident]) -> SqlResult<String> {
    let partitioning = def
        .partitioning
        .as_ref()
        .ok_or_else(errors::not_partitioned)?;
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let unknown = || errors::unknown_partition(&name.text, &def.name);
        let chosen = partitioning.find(&name.text).ok_or_else(unknown)?;
        all.push(partitioning.belongs(chosen));
    }
    Ok(all.join(" OR "))
}

/// The condition over the table at `at` of the scope, if partitions of it are named. A common table expression, which
/// has no database, takes any name, as in MySQL.
pub(super) fn of_table(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    at: usize,
    names: &[ast::Ident],
) -> SqlResult<Option<Expr>> {
    if names.is_empty() || scope.tables[at].schema.is_empty() {
        return Ok(None);
    }
    let def = scope.tables[at].base_def();
    let def = def.ok_or_else(errors::not_partitioned)?;
    let text = parse_expression(&partition_condition(def, names)?)?;
    let columns = &scope.tables[at].columns;
    // Only columns that the condition names get slots of the row.
    let mut slots: Vec<Option<u32>> = (0..columns.len() as u32).map(Some).collect();
    let mut used = Vec::new();
    let first = bind_alone(env, scope, at, &slots, &text)?;
    first.slots(&mut |slot| used.push(slot as usize));
    for column in used {
        slots[column] = Some(scope.slot_of(ColumnAt { table: at, column }));
    }
    bind_alone(env, scope, at, &slots, &text).map(Some)
}

fn bind_alone(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    at: usize,
    slots: &[Option<u32>],
    expr: &ast::Expr,
) -> SqlResult<Expr> {
    let table = &scope.tables[at];
    let mut alone = Scope::new();
    alone.widen(scope.width());
    let alias: Arc<str> = table.alias.clone();
    let columns = table.columns.clone();
    let row = ScopeTable::with_columns(table.schema.clone(), alias, TableKind::Row, columns);
    row.slots.replace(slots.to_vec());
    alone.add_table(row);
    bind_expr(env, &alone, expr)
}
