//! `DEFAULT(column)`: the default of a stored column as a constant.
//!
//! Neighbours: `expr` comes here. DEFAULT without a column is for those who change rows.
//! **Invariant**: the column is found as any other is, so it has to be readable.

use esker_sql_catalog::catalog::{ColumnDef, DefaultDef};
use esker_sql_catalog::codec::utc_to_zone;
use esker_sql_syntax::ast;
use esker_types::collation::Coercibility;
use esker_types::{DateTime, SqlResult, TypeKind, Value};

use super::block::Body;
use super::scope::{ColumnAt, Scope, ScopeTable, TableKind, full_name};
use super::{BindEnv, errors};
use crate::expr::{Expr, ExprKind};

/// Binds `DEFAULT(name)`, here or in an enclosing query.
///
/// # Errors
/// 1052, 1054, 1143; 1364 without a default; 3773 for an expression.
pub(super) fn bind_default(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    name: &ast::ColumnRef,
) -> SqlResult<Expr> {
    let mut level = Some(scope);
    while let Some(here) = level {
        if let Some(at) = column_of_default(here, name)? {
            return default_at(env, here, at);
        }
        level = here.parent;
    }
    let name = full_name(name);
    Err(errors::unknown_column(name, scope.clause.get().name()))
}

/// The column that `DEFAULT(name)` means, that of a table where a view shows it; None: there is none in this block.
///
/// # Errors
/// 1052, 1143.
fn column_of_default(scope: &Scope<'_>, name: &ast::ColumnRef) -> SqlResult<Option<ColumnAt>> {
    let Some(at) = scope.find_here(name)? else {
        return Ok(None);
    };
    scope.admit(at)?;
    let assigned = scope.assigned(at);
    assigned
        .map(Some)
        .map_err(|_| errors::no_default(&scope.column_at(at).name))
}

fn default_at(env: &BindEnv<'_>, scope: &Scope<'_>, at: ColumnAt) -> SqlResult<Expr> {
    let shown = scope.column_at(at);
    let stored = match scope.defined {
        Some(columns) => {
            scope.read_defaults.borrow_mut().push(at.column);
            Stored::Column(columns[at.column].clone())
        }
        None => stored_column(&scope.tables[at.table], at.column),
    };
    let value = match stored {
        Stored::Column(column) => default_of(env, &column)?,
        Stored::Not if shown.ty.nullable => Value::Null,
        Stored::Computed | Stored::Not => return Err(errors::no_default(&shown.name)),
    };
    let ty = shown
        .ty
        .clone()
        .with_nullable(shown.ty.nullable || value.is_null());
    let coer = Coercibility::of_column(&ty);
    let kind = ExprKind::Const(value);
    Ok(Expr { kind, ty, coer })
}

/// What a column of a table in scope is.
enum Stored {
    /// One of a stored table.
    Column(ColumnDef),
    /// An expression of a query block.
    Computed,
    /// One of a table that is computed as a whole.
    Not,
}

/// Follows a column through derived tables and views.
fn stored_column(table: &ScopeTable, column: usize) -> Stored {
    let query = match &table.kind {
        TableKind::Base(def) => return Stored::Column(def.columns[column].clone()),
        TableKind::Derived(query) => query,
        TableKind::Row => return Stored::Computed,
        _ => return Stored::Not,
    };
    let Body::Block(block) = &query.body else {
        return Stored::Not;
    };
    if block.group.is_some() {
        return Stored::Not;
    }
    let Some(slot) = block.output[column].as_column() else {
        return Stored::Computed;
    };
    let below = block.tables.iter().find_map(|t| {
        let at = t.slots.borrow().iter().position(|s| *s == Some(slot))?;
        Some(stored_column(t, at))
    });
    below.unwrap_or(Stored::Computed)
}

fn default_of(env: &BindEnv<'_>, column: &ColumnDef) -> SqlResult<Value> {
    let no_default = || errors::no_default(&column.name);
    if column.generated.is_some() {
        return Err(no_default());
    }
    Ok(match &column.default {
        // The number is given when the row is stored.
        _ if column.auto_increment => Value::Int(0),
        DefaultDef::Now if column.ty.nullable => Value::Null,
        // A column that may be NULL has lost its default: without DEFAULT it is NULL.
        DefaultDef::None => return Err(no_default()),
        DefaultDef::Value(Value::DateTime(utc)) if column.ty.kind == TypeKind::Timestamp => {
            Value::DateTime(utc_to_zone(*utc, &env.ctx.time_zone))
        }
        DefaultDef::Value(v) => v.clone(),
        DefaultDef::Now => Value::DateTime(DateTime::ZERO),
        DefaultDef::Expr(_) => return Err(errors::default_expression()),
    })
}
