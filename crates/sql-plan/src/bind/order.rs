//! GROUP BY and ORDER BY: positions, aliases, expressions.
//!
//! Neighbours: `select` and `query` call it.
//! **Invariants**: an integer literal is a position in the select list; a bare name in ORDER BY is first
//! looked for in the select list, one in GROUP BY is a column before it is an alias (docs/names.md).

use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast;
use esker_types::SqlResult;

use super::aggregates::{reads_aggregate, reads_some_aggregate};
use super::aliases::{AliasUse, FoundBy, GroupName};
use super::block::OrderKey;
use super::clause::Clause;
use super::expr::{bind_expr, with_aliases};
use super::group::calls_grouping;
use super::scope::{AggRule, Grouping, Scope};
use super::select::Output;
use super::text_numbers::as_text;
use super::{BindEnv, errors};
use crate::expr::{Expr, ExprKind};

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
        .ok_or_else(|| errors::unknown_column(n.to_string(), clause))
}

/// Binds GROUP BY; the keys' names are noted for HAVING.
pub(super) fn bind_group_by(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    items: &[ast::Expr],
    outputs: &[Output],
) -> SqlResult<Vec<Expr>> {
    scope.clause.set(Clause::Group);
    scope.agg_rule.set(AggRule::Forbidden);
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let key = group_key(env, scope, item, outputs)?;
        if calls_grouping(&key.expr) {
            return Err(errors::wrong_group_field("GROUPING function"));
        }
        let is_outer = |e: &Expr| matches!(e.kind, ExprKind::Outer { .. });
        let has_aggregate = key.expr.has_aggregate()
            || reads_aggregate(scope, &key.expr)
            || (key.expr).any(&mut |e| is_outer(e) && reads_some_aggregate(scope, e));
        if has_aggregate || key.expr.has_window() {
            let same = |o: &&Output| crate::expr::walk::same(&o.expr, &key.expr);
            let name = outputs.iter().find(same).map_or("", |o| &o.meta.name);
            return Err(errors::wrong_group_field(name));
        }
        keys.push(key.expr.clone());
        scope.aliases.grouped.borrow_mut().push(key);
    }
    Ok(keys)
}

/// An item of GROUP BY: a bare name is selected, unless it is another column as well.
fn group_key(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    item: &ast::Expr,
    outputs: &[Output],
) -> SqlResult<GroupName> {
    let selected = |at: usize| GroupName {
        name: Some(outputs[at].meta.name.clone()),
        expr: outputs[at].expr.clone(),
        column: outputs[at].column,
    };
    if let Some(at) = position(item, outputs.len(), "group statement")? {
        return Ok(selected(at));
    }
    if let ast::Expr::Column(name) = item
        && let Some((at, FoundBy::Alias)) = scope.find_selected(name)?
    {
        // A name that several tables have counts as none of theirs here.
        let column = scope.find_here(name).unwrap_or(None);
        if column.is_none() || column == outputs[at].column {
            return Ok(selected(at));
        }
        scope.warn_ambiguous(env, name);
    }
    let expr = with_aliases(scope, AliasUse::Last, || bind_expr(env, scope, item))?;
    Ok(GroupName {
        name: None,
        column: expr.as_column().and_then(|slot| scope.column_of_slot(slot)),
        expr,
    })
}

/// Binds ORDER BY of a query block: its keys, and which items of the select list they are. `grouped`: it has GROUP BY
/// or aggregates without that.
pub(super) fn bind_order_by(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    items: &[ast::OrderItem],
    outputs: &[Output],
    grouped: bool,
) -> SqlResult<(Vec<OrderKey>, Vec<Option<usize>>)> {
    scope.clause.set(Clause::Order);
    scope.agg_rule.set(AggRule::Allowed);
    let mut keys = Vec::with_capacity(items.len());
    let mut named = Vec::with_capacity(items.len());
    for (nth, item) in items.iter().enumerate() {
        let selected = match &item.expr {
            ast::Expr::Column(name) => selected_name(scope, name)?,
            expr => position(expr, outputs.len(), "order clause")?,
        };
        let expr = match selected {
            Some(at) => (scope.rolled_up(at)).unwrap_or_else(|| outputs[at].expr.clone()),
            None => with_aliases(scope, AliasUse::Last, || bind_expr(env, scope, &item.expr))?,
        };
        if !grouped && is_aggregated(scope, &expr) {
            return Err(errors::aggregate_order(nth + 1));
        }
        keys.push(OrderKey {
            expr: match scope.grouping.get() {
                Grouping::RolledUp if !expr.has_aggregate() => as_text(expr),
                _ => expr,
            },
            desc: item.desc,
        });
        named.push(selected);
    }
    Ok((keys, named))
}

/// Does a key read an aggregate of the block? What the window of a function is made of does not count.
fn is_aggregated(scope: &Scope<'_>, key: &Expr) -> bool {
    let aggs = scope.aggs.borrow();
    let windows = scope.windows.found.borrow();
    let is_one = |nth: u32| aggs.get(nth as usize).is_some_and(|a| !a.is_any_value());
    let reads = |e: &Expr| {
        e.any(&mut |e| matches!(e.kind, ExprKind::Aggregate(nth) if is_one(nth)))
            || reads_aggregate(scope, e)
    };
    reads(key)
        || key.any(&mut |e| match e.kind {
            ExprKind::Window(nth) => windows.calls[nth as usize].args.iter().any(reads),
            _ => false,
        })
}

/// The item that a bare name in ORDER BY stands for.
fn selected_name(scope: &Scope<'_>, name: &ast::ColumnRef) -> SqlResult<Option<usize>> {
    let Some((at, found)) = scope.find_selected(name)? else {
        return Ok(None);
    };
    if found == FoundBy::Column {
        // It has another name there: then it must be clear which table's column is meant.
        scope.find_here(name)?;
    }
    Ok(Some(at))
}

/// Binds ORDER BY of an UPDATE or DELETE: over the table's columns.
pub fn bind_row_order(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    items: &[ast::OrderItem],
) -> SqlResult<Vec<OrderKey>> {
    scope.clause.set(Clause::Order);
    let key = |item: &ast::OrderItem| {
        Ok(OrderKey {
            expr: bind_expr(env, scope, &item.expr)?,
            desc: item.desc,
        })
    };
    items.iter().map(key).collect()
}

/// Binds ORDER BY of a set operation or VALUES: over the result columns. The keys, and how many levels up they reach.
pub(super) fn bind_result_order(
    env: &BindEnv<'_>,
    items: &[ast::OrderItem],
    columns: &[ColumnMeta],
    parent: Option<&Scope<'_>>,
) -> SqlResult<(Vec<OrderKey>, u16)> {
    let mut scope = Scope::inside(parent, None);
    let named: Vec<_> = columns
        .iter()
        .map(|c| (c.name.clone(), c.ty.clone()))
        .collect();
    scope.add_named_row("", &named, 0);
    scope.clause.set(Clause::GlobalOrder);
    scope.agg_rule.set(AggRule::Allowed);
    let mut keys = Vec::with_capacity(items.len());
    for (nth, item) in items.iter().enumerate() {
        let expr = match position(&item.expr, columns.len(), "order clause")? {
            Some(at) => Expr::column(at as u32, columns[at].ty.clone()),
            None => bind_expr(env, &scope, &item.expr)?,
        };
        if !scope.aggs.borrow().is_empty() {
            return Err(errors::aggregate_order_of_union(nth + 1));
        }
        keys.push(OrderKey {
            expr,
            desc: item.desc,
        });
    }
    Ok((keys, scope.outer_reach()))
}
