//! Conditions on a derived table that its own query can evaluate.
//!
//! Neighbours: `block` asks before it plans the derived tables of a block; the conditions stay where
//! they are too, so pushing one is never wrong, only faster.
//! **Invariants**: a condition is pushed only when it reads nothing but outputs of the derived query
//! (and enclosing rows and constants), and only into a query whose rows it cannot change otherwise: no
//! LIMIT, no row locks, nothing volatile; below a grouping only conditions on keys go, below windows only
//! conditions on what every window partitions by.

use super::conds::{SlotMap, rejects_null};
use crate::bind::{Block, Body, BoundQuery, JoinNode, JoinType, Volatility, Window};
use crate::expr::{Expr, ExprKind, fold, walk};

/// Conditions of `block` (conjuncts `conds`) for its derived table `table`, over that query's rows.
pub(super) fn for_derived(
    block: &Block,
    map: &SlotMap,
    conds: &[Expr],
    table: usize,
    query: &BoundQuery,
) -> Vec<Expr> {
    let Body::Block(inner) = &query.body else {
        return Vec::new();
    };
    let open = inner.limit.is_none()
        && inner.join.is_some()
        && query.volatility == Volatility::Stable
        && !block.tables[table].lateral
        && inner
            .group
            .as_ref()
            .is_none_or(|g| !g.implicit && g.rollup.is_none());
    if !open {
        return Vec::new();
    }
    let nulled = block.join.as_ref().is_some_and(|j| is_nulled(j, table));
    let mut pushed = Vec::new();
    for cond in conds {
        if map.tables_of(cond) != 1 << table || (nulled && !rejects_null(cond, map, 1 << table)) {
            continue;
        }
        let mut moved = cond.clone();
        if substitute(&mut moved, block, table, inner) {
            pushed.push(moved);
        }
    }
    pushed
}

/// May an outer join null the table's columns?
fn is_nulled(node: &JoinNode, table: usize) -> bool {
    match node {
        JoinNode::Table(_) => false,
        JoinNode::Join {
            left, right, kind, ..
        } => {
            let here = *kind == JoinType::Left && contains(right, table);
            here || is_nulled(left, table) || is_nulled(right, table)
        }
    }
}

pub(super) fn contains(node: &JoinNode, table: usize) -> bool {
    match node {
        JoinNode::Table(t) => *t == table,
        JoinNode::Join { left, right, .. } => contains(left, table) || contains(right, table),
    }
}

/// Replaces columns of the derived table by what they stand for; false when that cannot be.
fn substitute(e: &mut Expr, block: &Block, table: usize, inner: &Block) -> bool {
    match &e.kind {
        ExprKind::Column(slot) => {
            let slots = block.tables[table].slots.borrow();
            let column = slots.iter().position(|s| *s == Some(*slot));
            match column.and_then(|c| origin(&inner.output[c], inner)) {
                Some(source) => {
                    *e = source;
                    true
                }
                None => false,
            }
        }
        ExprKind::Subquery(_) | ExprKind::Assign(..) | ExprKind::UserVar(_) => false,
        ExprKind::Stored(_) => false,
        ExprKind::Func(call) if fold::is_volatile(call.def) => false,
        _ => {
            let children = e.children_mut();
            children
                .into_iter()
                .all(|c| substitute(c, block, table, inner))
        }
    }
}

/// An output over the rows that WHERE sees.
fn origin(output: &Expr, inner: &Block) -> Option<Expr> {
    // A condition that keeps or drops whole partitions does not change what windows see.
    let windows = &inner.windows;
    let whole = |w: &Window| w.partition.iter().any(|p| walk::same(p, output));
    if !windows
        .calls
        .iter()
        .all(|c| whole(&windows.specs[c.window]))
    {
        return None;
    }
    let group = inner.group.as_ref();
    let costly = output.any(&mut |e| match &e.kind {
        ExprKind::Subquery(_) | ExprKind::Assign(..) | ExprKind::UserVar(_) => true,
        ExprKind::SeededRand(..) | ExprKind::Grouping(_) | ExprKind::Stored(_) => true,
        ExprKind::Func(call) => fold::is_volatile(call.def),
        _ => false,
    });
    if costly {
        return None;
    }
    let Some(group) = group else {
        return Some(output.clone());
    };
    let slot = output.as_column()?;
    let by_place = slot
        .checked_sub(group.key_base)
        .and_then(|nth| group.keys.get(nth as usize));
    let by_slot = group.keys.iter().find(|k| k.as_column() == Some(slot));
    by_place.or(by_slot).cloned()
}
