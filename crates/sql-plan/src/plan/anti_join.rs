//! Anti-joins that are written as outer joins: `LEFT JOIN t ON … WHERE t.id IS NULL`.
//!
//! Neighbours: `join_order` asks when it joins; `exec::join` ends the search for a left row with the first match. What
//! is written as NOT EXISTS becomes such a join in `semi_join`.
//! **Invariant**: a condition counts only if a column that it wants to be NULL is not NULL in any row that was found.

use super::conds::TableSet;
use super::join_order::Joiner;
use crate::expr::{CmpOp, Expr, ExprKind, Test};

impl Joiner<'_> {
    /// Is the condition true only where a left join with `tables` `on` these conditions has found no row? So it is if a
    /// column must be NULL that is never NULL in a row that was found.
    pub(super) fn wants_absent(&self, cond: &Expr, on: &[Expr], tables: TableSet) -> bool {
        let ExprKind::Is {
            arg,
            test: Test::Null,
            negated: false,
        } = &cond.kind
        else {
            return false;
        };
        let Some(slot) = arg
            .as_column()
            .filter(|_| self.map.tables_of(arg) & !tables == 0)
        else {
            return false;
        };
        let is_slot = |e: &Expr| e.as_column() == Some(slot);
        let compares = |c: &Expr| match &c.kind {
            ExprKind::Cmp(cmp) => {
                cmp.op != CmpOp::NullSafeEq && (is_slot(&cmp.left) || is_slot(&cmp.right))
            }
            _ => false,
        };
        let is_key = tables.count_ones() == 1 && {
            let table = &self.block.tables[tables.trailing_zeros() as usize];
            let slots = table.slots.borrow();
            let col = slots.iter().position(|s| *s == Some(slot));
            col.zip(table.base_def())
                .is_some_and(|(col, def)| !def.columns[col].ty.nullable)
        };
        is_key || on.iter().any(compares)
    }
}
