//! Materialized EXISTS: a lookup in the hashed rows of its query, which then runs once and not for every row that asks.
//!
//! `EXISTS (SELECT … FROM c WHERE c.x = a.id AND …)` is `a.id IN (SELECT c.x FROM c WHERE …)` where neither side is
//! NULL, and IN of a query that depends on no row looks its left side up in a hash table. As against a semi-join that
//! works wherever a condition stands (below OR, NOT or in a list of columns), the scan that asks keeps its order, its
//! locks and its parallel tasks, and what was found stays where the block runs again for another row.
//!
//! Neighbours: `apart` takes the query out of its row; `block` asks here where `semi_join` has nothing better.
//! **Invariant**: the condition that takes the place of EXISTS is never NULL.

use esker_types::SqlResult;

use super::apart::Apart;
use super::cost::{KEPT_ROW, SUBQUERY_RUN};
use super::effort::rows_kept;
use super::plan_bound;
use super::semi_join::GAIN;
use crate::bind::{BindEnv, Block, Body, BoundQuery};
use crate::expr::{CmpOp, Expr, ExprKind, Subquery, SubqueryForm, Test};

/// The block with those of its correlated EXISTS looked up for which that is cheaper when `rows` rows ask; `None` if
/// there is none.
pub(super) fn looked_up(env: &BindEnv<'_>, block: &Block, rows: f64) -> SqlResult<Option<Block>> {
    let mut with = block.clone();
    let mut replaced = 0;
    // What is selected by groups or windows asks for other rows than those of the joins.
    let asks_for_rows = block.group.is_none() && block.windows.calls.is_empty();
    let output = with.output.iter_mut().filter(|_| asks_for_rows);
    for e in with.filter.iter_mut().chain(output) {
        replaced += replace(env, rows, e)?;
    }
    Ok((replaced > 0).then_some(with))
}

/// Replaces what is looked up in an expression: how many.
fn replace(env: &BindEnv<'_>, rows: f64, e: &mut Expr) -> SqlResult<usize> {
    if let ExprKind::Subquery(subquery) = &e.kind {
        return Ok(match look_up(env, rows, subquery)? {
            Some(condition) => {
                *e = condition;
                1
            }
            None => 0,
        });
    }
    let mut replaced = 0;
    for child in e.children_mut() {
        replaced += replace(env, rows, child)?;
    }
    Ok(replaced)
}

/// The condition in place of a correlated EXISTS, if it is cheaper for so many rows.
fn look_up(env: &BindEnv<'_>, rows: f64, subquery: &Subquery) -> SqlResult<Option<Expr>> {
    if !subquery.correlated || !matches!(subquery.form, SubqueryForm::Exists) {
        return Ok(None);
    }
    let asking = rows * (SUBQUERY_RUN + subquery.plan.cost_rows);
    let Some(apart) = Apart::of(env, subquery).filter(|_| env.may_plan_again()) else {
        return Ok(None);
    };
    let plan = plan_bound(env, &without_nulls(&apart).into())?;
    if (plan.cost_rows + rows_kept(&plan) * KEPT_ROW + rows) * GAIN > asking {
        return Ok(None);
    }
    let Apart { keys, further, .. } = apart;
    let mut conditions = further;
    // NULL is equal to nothing; among several columns it would have rows compared one by one.
    let nullable = keys.iter().filter(|key| key.outer.ty.nullable);
    conditions.extend(nullable.map(|key| Expr::is_null(key.outer.clone(), true)));
    let form = SubqueryForm::Compare {
        kinds: keys.iter().map(|key| key.kind).collect(),
        left: keys.into_iter().map(|key| key.outer).collect(),
        op: CmpOp::Eq,
        all: false,
        single: false,
    };
    let found = Subquery {
        id: env.subquery_id(),
        form,
        plan,
        correlated: false,
    };
    conditions.push(Expr::condition(ExprKind::Subquery(Box::new(found)), false));
    let is_true = ExprKind::Is {
        arg: Box::new(Expr::all_of(conditions)),
        test: Test::True,
        negated: false,
    };
    Ok(Some(Expr::condition(is_true, false)))
}

/// The rows that may be equal to something. The hash table leaves out what comes again.
fn without_nulls(apart: &Apart) -> BoundQuery {
    let Body::Block(inner) = &apart.rows.body else {
        unreachable!("made of a block");
    };
    let mut block = inner.clone();
    debug_assert!(block.group.is_none(), "a group does not read a row outside");
    let nullable = apart.keys.iter().filter(|key| key.inner.ty.nullable);
    let conditions = nullable.map(|key| Expr::is_null(key.inner.clone(), true));
    let all: Vec<Expr> = block.filter.take().into_iter().chain(conditions).collect();
    block.filter = (!all.is_empty()).then(|| Expr::all_of(all));
    block.distinct = false;
    BoundQuery {
        columns: apart.rows.columns.clone(),
        body: Body::Block(block),
        reach: 0,
        volatility: apart.rows.volatility,
        shared: None,
    }
}
