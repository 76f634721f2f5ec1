//! Decorrelation (unnesting) of subqueries: IN, EXISTS and NOT EXISTS as the distinct rows of a query of its own, and
//! what a row has to be equal to one of them by.
//!
//! What a correlated query compares with the row by `=` becomes a column of its result (Kim, "On Optimizing an SQL-like
//! Nested Query", TODS 1982).
//!
//! Neighbours: `semi_join` joins the rows; `looked_up` looks a row up among them.
//! **Invariant**: rows of the subquery are distinct in the very domain in which they are compared, so a row of the
//! block is equal to one of them at most.

use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::result::ColumnMeta;
use esker_types::cmp::CmpKind;
use esker_types::{SqlType, TypeKind};

use super::conds::split;
use super::merge::{exprs, is_repeatable};
use crate::bind::{BindEnv, Block, Body, BoundQuery, ScopeTable, TableKind, Volatility, move_up};
use crate::expr::{CmpOp, Expr, ExprKind, Subquery, SubqueryForm, rowkey};

/// A subquery that runs once for all rows.
pub(super) struct Apart {
    pub(super) rows: Rc<BoundQuery>,
    /// What a row of the block has to be equal to, by column of `rows`.
    pub(super) keys: Vec<Key>,
    /// What the subquery says of the block's row alone.
    pub(super) further: Vec<Expr>,
}

/// An equality of the block's row with a row of the subquery.
pub(super) struct Key {
    pub(super) outer: Expr,
    pub(super) kind: CmpKind,
    pub(super) inner: Expr,
}

impl Apart {
    /// The subquery of IN, where NULL is as good as FALSE, or of EXISTS; `None` if it cannot be taken out of its row.
    pub(super) fn of(env: &BindEnv<'_>, subquery: &Subquery) -> Option<Self> {
        let query = env.subquery(subquery.id)?;
        let Body::Block(inner) = &query.body else {
            return None;
        };
        if !is_separable(subquery, &query, inner) {
            return None;
        }
        let mut keys = compared(subquery, inner)?;
        let (mut filter, mut further) = (Vec::new(), Vec::new());
        if let Some(cond) = &inner.filter {
            split(cond, &mut filter);
        }
        let mut is_apart = true;
        filter.retain(|cond| {
            if !reads_outside(cond) {
                return true;
            }
            match (Key::of(cond), of_outside(cond)) {
                (Some(key), _) => keys.push(key),
                (None, Some(cond)) => further.push(cond),
                (None, None) => is_apart = false,
            }
            false
        });
        let apart = Block {
            filter: (!filter.is_empty()).then(|| Expr::all_of(filter)),
            output: keys.iter().map(|key| key.inner.clone()).collect(),
            distinct: true,
            beside: 0,
            order: Vec::new(),
            ..(**inner).clone()
        };
        if keys.is_empty() || !is_apart || !keys.iter().all(Key::is_distinct_as_compared) {
            return None;
        }
        let column = |(nth, key): (usize, &Key)| {
            let name = column_name(inner, &key.inner).unwrap_or_else(|| format!("key{nth}").into());
            ColumnMeta::computed(name, key.inner.ty.clone())
        };
        (!block_reads_outside(&apart)).then(|| Self {
            rows: Rc::new(BoundQuery {
                columns: keys.iter().enumerate().map(column).collect(),
                body: Body::Block(Box::new(apart)),
                reach: 0,
                volatility: query.volatility,
                shared: None,
            }),
            keys,
            further,
        })
    }
}

impl Key {
    /// An equality of the subquery's row with the block's.
    fn of(cond: &Expr) -> Option<Self> {
        let ExprKind::Cmp(cmp) = &cond.kind else {
            return None;
        };
        if cmp.op != CmpOp::Eq {
            return None;
        }
        let key = |inner: &Expr, outer: &Expr| {
            let is_inside = !reads_outside(inner) && is_repeatable(inner);
            Some(Self {
                outer: of_outside(outer)?,
                kind: cmp.kind,
                inner: is_inside.then(|| inner.clone())?,
            })
        };
        key(&cmp.left, &cmp.right).or_else(|| key(&cmp.right, &cmp.left))
    }

    /// Does DISTINCT take for the same what the comparison does, and is the comparison one of keys?
    fn is_distinct_as_compared(&self) -> bool {
        let is_same = |ty: &SqlType| match self.kind {
            // Labels are told apart by their numbers.
            CmpKind::Str(collation) => collation == ty.collation && !ty.is_label(),
            CmpKind::Json => false,
            // Several exact numbers may be equal to one double.
            CmpKind::Double => matches!(ty.kind, TypeKind::Double | TypeKind::Float),
            // Several texts may be one moment.
            CmpKind::DateTime => !ty.is_string(),
            _ => true,
        };
        is_same(&self.inner.ty)
            && rowkey::same_representation(&self.outer.ty, &self.inner.ty, self.kind)
    }
}

/// May the subquery run once for all rows, as far as its parts beside WHERE say?
fn is_separable(subquery: &Subquery, query: &BoundQuery, inner: &Block) -> bool {
    let plan = &subquery.plan;
    let is_plain = query.volatility == Volatility::Stable
        && query.reach <= 1
        && query.shared.is_none()
        && !plan.blocks
        && plan.calls.is_none()
        && inner.join.is_some()
        && inner.limit.is_none()
        && inner.windows.calls.is_empty()
        && !inner.calc_found_rows;
    let is_ungrouped = inner.group.is_none() && inner.having.is_none();
    is_plain && (is_ungrouped || query.reach == 0)
}

/// The equalities of IN; none of EXISTS. Nothing of other subqueries.
fn compared(subquery: &Subquery, inner: &Block) -> Option<Vec<Key>> {
    match &subquery.form {
        SubqueryForm::Exists => subquery.correlated.then(Vec::new),
        SubqueryForm::Compare {
            left,
            op: CmpOp::Eq,
            kinds,
            all: false,
            single: false,
        } => {
            let sides = left.iter().zip(&inner.output).zip(kinds);
            let keys = sides.map(|((outer, inner), kind)| {
                let is_free = is_repeatable(outer) && is_repeatable(inner);
                is_free.then(|| Key {
                    outer: outer.clone(),
                    kind: *kind,
                    inner: inner.clone(),
                })
            });
            keys.collect()
        }
        SubqueryForm::Compare { .. } | SubqueryForm::Scalar { .. } => None,
    }
}

/// Does the expression, or a subquery in it, read a row outside of its block?
fn reads_outside(e: &Expr) -> bool {
    e.any(&mut |e| match &e.kind {
        ExprKind::Outer { .. } => true,
        ExprKind::Subquery(query) => query.plan.reach > 1,
        _ => false,
    })
}

/// An expression of nothing but the row outside, as that row's block has it.
fn of_outside(e: &Expr) -> Option<Expr> {
    let is_inside = e.any(&mut |e| match e.kind {
        ExprKind::Column(_) => true,
        ExprKind::Outer { depth, .. } => depth > 1,
        _ => false,
    });
    if is_inside {
        return None;
    }
    let mut moved = e.clone();
    move_up(&mut moved, 1);
    is_repeatable(&moved).then_some(moved)
}

/// The name of a column, for EXPLAIN.
fn column_name(block: &Block, e: &Expr) -> Option<Arc<str>> {
    let slot = e.as_column()?;
    block.tables.iter().find_map(|table| {
        let slots = table.slots.borrow();
        let at = slots.iter().position(|s| *s == Some(slot))?;
        Some(table.columns[at].name.clone())
    })
}

/// Does any part of the block read a row outside?
pub(super) fn block_reads_outside(block: &Block) -> bool {
    let is_open = |table: &ScopeTable| match &table.kind {
        TableKind::Derived(query) => query.reach > 0,
        TableKind::Base(_) | TableKind::Virtual(_) => false,
        TableKind::Json(_) | TableKind::Recursive(_) | TableKind::Row => true,
    };
    block.tables.iter().any(is_open) || exprs(block).any(reads_outside)
}
