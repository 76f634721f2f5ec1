//! GROUP BY and ORDER BY: positions, aliases, expressions.
//!
//! Neighbours: `select` and `query` call it.
//! **Invariants**: an integer literal is a position in the select list; ORDER BY prefers aliases,
//! GROUP BY prefers columns, as MySQL does.

use esker_types::SqlResult;

use super::block::OrderKey;
use super::expr::{bind_expr, with_aliases};
use super::scope::{AggRule, AliasUse, Scope};
use super::select::Output;
use super::{BindEnv, errors};
use crate::expr::Expr;
use crate::parse::ast;
use crate::result::ColumnMeta;

/// The position an integer literal names.
fn position(expr: &ast::Expr, columns: usize, clause: &str) -> SqlResult<Option<usize>> {
    let ast::Expr::Literal(ast::Literal::Int(n)) = expr else {
        return Ok(None);
    };
    let at = usize::try_from(*n)
        .ok()
        .and_then(|n| n.checked_sub(1))
        .filter(|at| *at < columns);
    at.map(Some)
        .ok_or_else(|| errors::unknown_column(&n.to_string(), clause))
}

/// Binds GROUP BY.
pub(super) fn bind_group_by(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    items: &[ast::Expr],
    outputs: &[Output],
) -> SqlResult<Vec<Expr>> {
    scope.clause.set("group statement");
    scope.agg_rule.set(AggRule::Forbidden);
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let key = match position(item, outputs.len(), "group statement")? {
            Some(at) => outputs[at].expr.clone(),
            None => with_aliases(scope, AliasUse::Last, || bind_expr(env, scope, item))?,
        };
        if key.has_aggregate() || key.has_window() {
            let same = |o: &&Output| crate::expr::walk::same(&o.expr, &key);
            let name = outputs.iter().find(same).map_or("", |o| &o.meta.name);
            return Err(errors::wrong_group_field(name));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// Binds ORDER BY of a query block.
pub(super) fn bind_order_by(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    items: &[ast::OrderItem],
    outputs: &[Output],
) -> SqlResult<Vec<OrderKey>> {
    scope.clause.set("order clause");
    scope.agg_rule.set(AggRule::Allowed);
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let expr = match position(&item.expr, outputs.len(), "order clause")? {
            Some(at) => outputs[at].expr.clone(),
            None => {
                // A bare name is an alias first; inside an expression a column comes first.
                let rule = match &item.expr {
                    ast::Expr::Column(_) => AliasUse::First,
                    _ => AliasUse::Last,
                };
                with_aliases(scope, rule, || bind_expr(env, scope, &item.expr))?
            }
        };
        keys.push(OrderKey {
            expr,
            desc: item.desc,
        });
    }
    Ok(keys)
}

/// Binds ORDER BY of an UPDATE or DELETE: over the table's columns.
pub(crate) fn bind_row_order(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    items: &[ast::OrderItem],
) -> SqlResult<Vec<OrderKey>> {
    scope.clause.set("order clause");
    let key = |item: &ast::OrderItem| {
        Ok(OrderKey {
            expr: bind_expr(env, scope, &item.expr)?,
            desc: item.desc,
        })
    };
    items.iter().map(key).collect()
}

/// Binds ORDER BY of a set operation or VALUES: over the result columns.
pub(super) fn bind_result_order(
    env: &BindEnv<'_>,
    items: &[ast::OrderItem],
    columns: &[ColumnMeta],
) -> SqlResult<Vec<OrderKey>> {
    let mut scope = Scope::new();
    let named: Vec<_> = columns
        .iter()
        .map(|c| (c.name.clone(), c.ty.clone()))
        .collect();
    scope.add_named_row("", &named, 0);
    scope.clause.set("order clause");
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let expr = match position(&item.expr, columns.len(), "order clause")? {
            Some(at) => Expr::column(at as u32, columns[at].ty.clone()),
            None => bind_expr(env, &scope, &item.expr)?,
        };
        keys.push(OrderKey {
            expr,
            desc: item.desc,
        });
    }
    Ok(keys)
}
