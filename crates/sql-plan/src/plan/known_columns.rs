//! Constant propagation: a column that equals a constant is that constant in bounds of other tables' columns. Of `m.id
//! = 7 AND t.c > m.id * 100` the range of `t.c` is known, and how many rows are in it, before a row of `m` is read.
//!
//! Neighbours: `join_units` hands over the conditions of a join before `equalities` and `implied_ranges` complete them:
//! those know what follows where columns are compared as they are. **Invariants**: only integers are put in place of
//! columns: what equals them is the same value; the equality itself stays, and so do equalities between columns, which
//! tie tables.

use esker_types::cmp::CmpKind;
use esker_types::{SqlType, TypeKind, Value};

use super::conds::SlotMap;
use super::edge::{Edge, integer_edge};
use super::join_order::{Group, UnitKind};
use crate::bind::equated_slots;
use crate::expr::{CmpOp, Expr, ExprKind};

/// Puts the constants in the conditions of a group, and of the outer joins in it.
pub(super) fn propagate(group: &mut Group, map: &SlotMap) {
    let known: Vec<(u32, Value)> = group.conds.iter().filter_map(known_column).collect();
    if known.is_empty() {
        return;
    }
    put_into(&mut group.conds, &known, map);
    for unit in &mut group.units {
        put_into_outer(&mut unit.kind, &known, map);
    }
}

fn put_into_outer(unit: &mut UnitKind, known: &[(u32, Value)], map: &SlotMap) {
    let UnitKind::Left { inner, on } = unit else {
        return;
    };
    put_into(on, known, map);
    put_into(&mut inner.conds, known, map);
    for unit in &mut inner.units {
        put_into_outer(&mut unit.kind, known, map);
    }
}

fn put_into(conds: &mut [Expr], known: &[(u32, Value)], map: &SlotMap) {
    let ties_tables = |cond: &Expr| map.tables_of(cond).count_ones() > 1;
    let is_bound = |cond: &Expr| matches!(cond.kind, ExprKind::Cmp(_) | ExprKind::Between(_));
    for cond in conds {
        if is_bound(cond) && equated_slots(cond).is_none() && ties_tables(cond) {
            put(cond, known);
        }
    }
}

fn put(e: &mut Expr, known: &[(u32, Value)]) {
    if let ExprKind::Column(slot) = e.kind {
        if let Some((_, value)) = known.iter().find(|(own, _)| *own == slot) {
            e.kind = ExprKind::Const(value.clone());
        }
        return;
    }
    for child in e.children_mut() {
        put(child, known);
    }
}

/// The slot and the value of a column that a condition makes equal to a constant.
fn known_column(cond: &Expr) -> Option<(u32, Value)> {
    let ExprKind::Cmp(cmp) = &cond.kind else {
        return None;
    };
    if cmp.op != CmpOp::Eq || cmp.kind != CmpKind::Int {
        return None;
    }
    let sides = [(&cmp.left, &cmp.right), (&cmp.right, &cmp.left)];
    sides.into_iter().find_map(|(column, value)| {
        Some((
            column.as_column()?,
            as_stored(value.as_const()?, &column.ty)?,
        ))
    })
}

/// An integer as a column of this type has it.
fn as_stored(value: &Value, ty: &SqlType) -> Option<Value> {
    if !ty.is_integer() || ty.kind == TypeKind::Year {
        return None;
    }
    let integer = match value {
        Value::Int(v) => i128::from(*v),
        Value::UInt(v) => i128::from(*v),
        _ => return None,
    };
    match integer_edge(integer, true, ty) {
        Edge::At(stored) => Some(stored),
        _ => None,
    }
}
