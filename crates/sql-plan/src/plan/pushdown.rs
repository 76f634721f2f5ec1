//! Predicate pushdown: conditions on a derived table that its own query can evaluate.
//!
//! Neighbours: `block` asks before it plans the derived tables of a block; the conditions stay where
//! they are too, so pushing one is never wrong, only faster.
//! **Invariants**: a condition is pushed only when it reads nothing but outputs of the derived query
//! (and enclosing rows and constants), and only into a query whose rows it cannot change otherwise: no
//! LIMIT, no row locks, nothing volatile; below a grouping only conditions on keys go, below windows only
//! conditions on what every window partitions by, into members of a set operation only conditions on columns that these
//! do not convert.

use esker_sql_catalog::result::ColumnMeta;
use esker_types::{SqlType, TypeKind};

use super::conds::{SlotMap, rejects_null};
use crate::bind::{Block, BoundQuery, JoinNode, JoinType, Volatility, Window};
use crate::expr::{Expr, ExprKind, fold, walk};

/// Conditions of `block` (conjuncts `conds`) for its derived table `table`, over the columns of that query's result, by
/// their places.
pub(super) fn for_derived(
    block: &Block,
    map: &SlotMap,
    conds: &[Expr],
    table: usize,
    query: &BoundQuery,
) -> Vec<Expr> {
    if query.volatility != Volatility::Stable || block.tables[table].lateral {
        return Vec::new();
    }
    let nulled = block.join.as_ref().is_some_and(|j| is_nulled(j, table));
    let slots = block.tables[table].slots.borrow();
    let place = |slot: u32, ty: &SqlType| {
        let place = slots.iter().position(|s| *s == Some(slot))?;
        Some(Expr::column(place as u32, ty.clone()))
    };
    let is_own = |cond: &&Expr| {
        map.tables_of(cond) == 1 << table && (!nulled || rejects_null(cond, map, 1 << table))
    };
    let own = conds.iter().filter(is_own);
    own.filter_map(|cond| with_columns(cond, &place)).collect()
}

/// What of conditions over a block's result its WHERE can decide.
pub(super) fn into_block(conds: &[Expr], block: &Block) -> Vec<Expr> {
    let group = block.group.as_ref();
    let open = block.limit.is_none()
        && block.join.is_some()
        && group.is_none_or(|g| !g.implicit && g.rollup.is_none());
    if !open {
        return Vec::new();
    }
    let source = |place: u32, _: &SqlType| origin(&block.output[place as usize], block);
    let own = conds.iter();
    own.filter_map(|cond| with_columns(cond, &source)).collect()
}

/// What of conditions over the result of a set operation a member can decide before. `merges`: rows that are equal
/// become one, and a condition may tell apart what their collation does not.
pub(super) fn into_member(
    conds: &[Expr],
    (whole, member): (&[ColumnMeta], &[ColumnMeta]),
    merges: bool,
) -> Vec<Expr> {
    let column = |place: u32, ty: &SqlType| {
        let (to, from) = (&whole[place as usize].ty, &member[place as usize].ty);
        let is_told = !merges || ty.is_numeric() || ty.is_temporal();
        (is_told && have_same_values(to, from)).then(|| Expr::column(place, from.clone()))
    };
    let is_apart = |e: &Expr| matches!(e.kind, ExprKind::Outer { .. });
    let own = conds.iter().filter(|cond| !cond.any(&mut |e| is_apart(e)));
    own.filter_map(|cond| with_columns(cond, &column)).collect()
}

/// Is a value of one type the same as one of the other?
fn have_same_values(a: &SqlType, b: &SqlType) -> bool {
    let are_texts = |ty: &SqlType| matches!(ty.kind, TypeKind::Char | TypeKind::VarChar);
    let are_alike = match a.is_integer() || are_texts(a) {
        true => a.is_integer() == b.is_integer() && are_texts(a) == are_texts(b),
        false => a.kind == b.kind && a.decimals == b.decimals,
    };
    // As a text ZEROFILL has zeros before it.
    let are_written_alike = a.unsigned == b.unsigned && a.zerofill == b.zerofill;
    are_alike && are_written_alike && a.collation == b.collation
}

/// May an outer join null the table's columns?
pub(super) fn is_nulled(node: &JoinNode, table: usize) -> bool {
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

/// The condition with other columns; `None` if there are none for some, or if it must not be evaluated elsewhere.
fn with_columns(cond: &Expr, column: &dyn Fn(u32, &SqlType) -> Option<Expr>) -> Option<Expr> {
    let mut moved = cond.clone();
    replace_columns(&mut moved, column).then_some(moved)
}

fn replace_columns(e: &mut Expr, column: &dyn Fn(u32, &SqlType) -> Option<Expr>) -> bool {
    match &e.kind {
        ExprKind::Column(slot) => match column(*slot, &e.ty) {
            Some(other) => {
                *e = other;
                true
            }
            None => false,
        },
        ExprKind::Subquery(_) | ExprKind::Assign(..) | ExprKind::UserVar(_) => false,
        ExprKind::Stored(_) => false,
        ExprKind::Func(call) if fold::is_volatile(call.def) => false,
        _ => {
            let mut children = e.children_mut().into_iter();
            children.all(|child| replace_columns(child, column))
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
