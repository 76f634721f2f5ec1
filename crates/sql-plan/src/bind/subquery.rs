//! Subqueries in expressions.
//!
//! Neighbours: `query` binds the inner query with this scope as its parent; `plan` plans it;
//! `exec::subquery` evaluates it.
//! **Invariant**: a subquery that reaches further out than the next level marks every level between,
//! so that none of them takes its result for constant.

use esker_sql_syntax::ast;
use esker_types::collation::Coercibility;
use esker_types::{SqlResult, SqlType, TypeKind, func};
use std::rc::Rc;
use std::sync::Arc;

use super::block::{BoundQuery, Volatility};
use super::query::bind_query;
use super::scope::{AggRule, Scope};
use super::text_numbers::as_text;
use super::window::WindowRule;
use super::{BindEnv, Purpose, QueryPlace, compare, errors, expr};
use crate::expr::{CmpOp, Expr, ExprKind, Subquery, SubqueryForm};
use crate::plan::{QueryPlan, plan_bound};

/// Binds and plans a query below `scope`.
fn bind_inner(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    query: &ast::Query,
) -> SqlResult<(Rc<BoundQuery>, Arc<QueryPlan>)> {
    if query.into.is_some() {
        return Err(errors::misplaced_into());
    }
    let bound = env.within(QueryPlace::Subquery, || {
        bind_query(env, query, Some(scope), scope.ctes.as_ref())
    })?;
    if bound.reach > 1 {
        scope.note_reach(bound.reach - 1);
    }
    scope.note_volatility(bound.volatility);
    let bound = Rc::new(bound);
    let plan = plan_bound(env, &bound)?;
    Ok((bound, plan))
}

fn make(
    id: u32,
    plan: Arc<QueryPlan>,
    form: SubqueryForm,
    ty: SqlType,
    coer: Coercibility,
) -> Expr {
    let correlated = plan.reach > 0 || plan.volatility == Volatility::Volatile;
    let query = Subquery {
        id,
        form,
        plan,
        correlated,
    };
    Expr {
        kind: ExprKind::Subquery(Box::new(query)),
        ty,
        coer,
    }
}

/// `(SELECT …)` as a value, or as a row where several columns are selected.
pub(super) fn bind_operand(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    query: &ast::Query,
) -> SqlResult<Expr> {
    if let Some(item) = only_item(query)
        && let Some(reduced) = reduce(env, scope, item)?
    {
        return Ok(reduced);
    }
    let (_, plan) = bind_inner(env, scope, query)?;
    let columns = plan.columns.iter().map(|c| (c.ty.clone(), c.coercibility));
    let columns: Vec<_> = columns.collect();
    let id = env.subquery_id();
    let value = |(nth, (ty, coer)): (usize, (SqlType, Coercibility))| {
        let form = SubqueryForm::Scalar { column: nth };
        as_text(make(
            id,
            Arc::clone(&plan),
            form,
            ty.with_nullable(true),
            coer,
        ))
    };
    let mut values: Vec<_> = columns.into_iter().enumerate().map(value).collect();
    match values.len() {
        1 => Ok(values.remove(0)),
        _ => Ok(Expr::row(values)),
    }
}

/// The expression that `(SELECT item)` has, where there is nothing else in it.
pub(super) fn only_item(query: &ast::Query) -> Option<&ast::Expr> {
    let ast::QueryBody::Select(select) = &query.body else {
        return None;
    };
    let ast::Select {
        options,
        distinct: _,
        items,
        from,
        filter: None,
        group_by,
        rollup: _,
        having: None,
        windows,
        hints: None,
    } = &**select
    else {
        return None;
    };
    let is_bare = query.with.is_none()
        && query.limit.is_none()
        && query.locking.is_empty()
        && query.order_by.is_empty()
        && query.into.is_none()
        && *options == ast::SelectOptions::default()
        && from.is_empty()
        && group_by.is_empty()
        && windows.is_empty();
    match &items[..] {
        [ast::SelectItem::Expr { expr, .. }] if is_bare => Some(expr),
        _ => None,
    }
}

/// `(SELECT item)` as the item itself, as MySQL takes it; `None` where the item needs a block of its own.
fn reduce(env: &BindEnv<'_>, scope: &Scope<'_>, item: &ast::Expr) -> SqlResult<Option<Expr>> {
    let numbers = (env.next_select.get(), env.next_subquery.get());
    let bound = {
        let _level = env.enter_query()?;
        env.select_id();
        bind_alone(env, scope, item)
    };
    if let Ok(None) = bound {
        env.next_select.set(numbers.0);
        env.next_subquery.set(numbers.1);
    }
    bound
}

/// Binds an item in a block without tables, and moves it out of there.
fn bind_alone(env: &BindEnv<'_>, scope: &Scope<'_>, item: &ast::Expr) -> SqlResult<Option<Expr>> {
    let block = Scope::inside(Some(scope), scope.ctes.as_ref());
    block.agg_rule.set(AggRule::Allowed);
    block.windows.rule.set(WindowRule::Allowed);
    let mut bound = env.within(QueryPlace::Subquery, || expr::bind_expr(env, &block, item))?;
    let is_block = bound.any(&mut |e| {
        matches!(
            e.kind,
            ExprKind::Subquery(_) | ExprKind::Aggregate(_) | ExprKind::Window(_) | ExprKind::Key(_)
        )
    });
    if is_block {
        return Ok(None);
    }
    move_up(&mut bound, 1);
    if block.outer_reach() > 1 {
        scope.note_reach(block.outer_reach() - 1);
    }
    scope.note_volatility(block.volatility());
    Ok(Some(bound))
}

/// What was read `levels` levels up is of this level now.
pub(crate) fn move_up(e: &mut Expr, levels: u16) {
    match &mut e.kind {
        ExprKind::Outer { depth, slot } if *depth == levels => e.kind = ExprKind::Column(*slot),
        ExprKind::Outer { depth, .. } => *depth -= levels,
        _ => {
            for child in e.children_mut() {
                move_up(child, levels);
            }
        }
    }
}

/// `(SELECT item)` of one expression.
pub(super) fn bind_item(env: &BindEnv<'_>, scope: &Scope<'_>, item: &ast::Expr) -> SqlResult<Expr> {
    bind_operand(env, scope, &ast::Query::of_item(item.clone()))
}

/// EXISTS.
pub(super) fn bind_exists(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    query: &ast::Query,
) -> SqlResult<Expr> {
    env.purpose.set(Purpose::OneThatFits);
    let (bound, plan) = match selects_all_of_nothing(query) {
        true => bind_inner(env, scope, &selecting_one(query))?,
        false => bind_inner(env, scope, query)?,
    };
    let ty = crate::expr::bool_type(false);
    let id = env.subquery_id();
    env.keep_subquery(id, bound);
    Ok(make(
        id,
        plan,
        SubqueryForm::Exists,
        ty,
        Coercibility::Numeric,
    ))
}

/// Is it `SELECT *` without tables? EXISTS does not care what a row has.
fn selects_all_of_nothing(query: &ast::Query) -> bool {
    match &query.body {
        ast::QueryBody::Select(select) => {
            select.from.is_empty() && matches!(select.items[..], [ast::SelectItem::Wildcard])
        }
        _ => false,
    }
}

/// The same query with 1 as its only item.
fn selecting_one(query: &ast::Query) -> ast::Query {
    let mut query = query.clone();
    if let ast::QueryBody::Select(select) = &mut query.body {
        select.items = vec![ast::SelectItem::Expr {
            expr: ast::Expr::Literal(ast::Literal::Int(1)),
            alias: None,
            text: "1".into(),
        }];
    }
    query
}

/// `left [NOT] IN (SELECT …)`.
pub(super) fn bind_in(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    left: &ast::Expr,
    query: &ast::Query,
    negated: bool,
) -> SqlResult<Expr> {
    let found = bind_compare(env, scope, left, CmpOp::Eq, false, false, query)?;
    Ok(if negated {
        expr::negation(found)
    } else {
        found
    })
}

/// `left op ANY|ALL (SELECT …)`.
pub(super) fn bind_quantified(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    op: ast::BinaryOp,
    left: &ast::Expr,
    all: bool,
    query: &ast::Query,
) -> SqlResult<Expr> {
    let op = compare::comparison(op).ok_or_else(|| errors::syntax(op.text()))?;
    match (op, all) {
        (CmpOp::NullSafeEq, _) => Err(errors::syntax("<=>")),
        (CmpOp::Ne, true) => {
            bind_compare(env, scope, left, CmpOp::Eq, false, false, query).map(expr::negation)
        }
        _ => bind_compare(env, scope, left, op, all, false, query),
    }
}

/// A comparison of a row with `(SELECT a, b …)`.
pub(super) fn bind_row_comparison(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    left: &ast::Expr,
    op: CmpOp,
    query: &ast::Query,
) -> SqlResult<Expr> {
    bind_compare(env, scope, left, op, false, true, query)
}

fn bind_compare(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    left: &ast::Expr,
    op: CmpOp,
    all: bool,
    single: bool,
    query: &ast::Query,
) -> SqlResult<Expr> {
    let left = match expr::bind_any(env, scope, left)? {
        Expr {
            kind: ExprKind::Row(members),
            ..
        } => members,
        one => vec![one],
    };
    env.purpose.set(match single {
        true => Purpose::InOrder,
        false => Purpose::OneThatFits,
    });
    let (bound, plan) = bind_inner(env, scope, query)?;
    if plan.columns.len() != left.len() {
        return Err(errors::operand_columns(left.len()));
    }
    if left.len() > 1 && (all || op != CmpOp::Eq && !single) {
        return Err(errors::operand_columns(1));
    }
    let mut kinds = Vec::with_capacity(left.len());
    for (l, column) in left.iter().zip(plan.columns.iter()) {
        if let ExprKind::Row(members) = &l.kind {
            return Err(errors::operand_columns(members.len()));
        }
        let right = Expr {
            coer: column.coercibility,
            ..Expr::column(0, column.ty.clone())
        };
        if left.len() == 1 && op.is_order() {
            func::refuse_geometries([&l.ty, &right.ty], op.text())?;
        }
        kinds.push(compare::kind_of(l, &right, "=")?);
    }
    let nullable = left.iter().any(|l| l.ty.nullable)
        || plan
            .columns
            .iter()
            .any(|c| c.ty.nullable || matches!(c.ty.kind, TypeKind::Null));
    let ty = crate::expr::bool_type(nullable || single);
    let form = SubqueryForm::Compare {
        left,
        op,
        kinds,
        all,
        single,
    };
    let id = env.subquery_id();
    env.keep_subquery(id, bound);
    Ok(make(id, plan, form, ty, Coercibility::Numeric))
}
