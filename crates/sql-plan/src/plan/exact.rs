//! Ranges of keys that say all that a scan's conditions say.
//!
//! Neighbours: `ranges` makes the ranges from the same conditions, and may make them wider than those; `exec::parallel`
//! counts the rows of ranges without looking at them, and `access` knows that this costs little. **Invariant**: when in
//! doubt, no.

use esker_sql_catalog::catalog::TableDef;
use esker_types::cmp::CmpKind;
use esker_types::{SqlType, TypeKind};

use super::edge::{always_located, usable};
use super::{AccessKind, ScanPlan, Source};
use crate::expr::{CmpOp, Expr, ExprKind};

impl ScanPlan {
    /// Are the conditions true for every row of the ranges of keys that are read?
    pub fn reads_only_what_is_true(&self) -> bool {
        if self.conds.is_empty() {
            return true;
        }
        let Source::Base { def, access, .. } = &self.source else {
            return false;
        };
        let slot_of = |col: usize| {
            let known = self.columns.iter().find(|(c, _)| *c == col);
            known.map(|(_, slot)| *slot)
        };
        matches!(access.kind, AccessKind::Ranges(_))
            && are_one_range(def, access.index, slot_of, &self.conds)
    }
}

/// Are the conditions nothing but one range of keys of this index? Comparisons of its first part with values are, if
/// the values can be placed among the part's.
pub(super) fn are_one_range(
    def: &TableDef,
    index: usize,
    slot_of: impl Fn(usize) -> Option<u32>,
    conds: &[Expr],
) -> bool {
    let Some(first) = def.indexes[index].parts.first() else {
        return false;
    };
    let (Some(slot), None) = (slot_of(first.col), first.prefix_len) else {
        return false;
    };
    let ty = &def.columns[first.col].ty;
    let part = Part { slot, ty };
    conds.iter().all(|cond| part.is_in_range(cond))
}

/// The first part of the index.
struct Part<'p> {
    slot: u32,
    ty: &'p SqlType,
}

impl Part<'_> {
    /// Is the condition nothing but a range of the part?
    fn is_in_range(&self, cond: &Expr) -> bool {
        match &cond.kind {
            ExprKind::And(conds) => conds.iter().all(|cond| self.is_in_range(cond)),
            ExprKind::Cmp(cmp) => {
                let is_range = matches!(
                    cmp.op,
                    CmpOp::Eq | CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge
                );
                is_range
                    && (self.is_placed(&cmp.left, &cmp.right, cmp.kind)
                        || self.is_placed(&cmp.right, &cmp.left, cmp.kind))
            }
            ExprKind::Between(between) => {
                let ends = [&between.low, &between.high];
                let is_end =
                    |(value, kind): &(Expr, CmpKind)| self.is_placed(&between.arg, value, *kind);
                !between.negated && ends.into_iter().all(is_end)
            }
            _ => false,
        }
    }

    /// Is the comparison one of the part with a value that has its place among the part's?
    fn is_placed(&self, arg: &Expr, value: &Expr, kind: CmpKind) -> bool {
        let is_exact = match (&self.ty.kind, kind) {
            (TypeKind::Date | TypeKind::DateTime, CmpKind::DateTime) => true,
            (TypeKind::Year, _) => false,
            (_, CmpKind::Int) => self.ty.is_integer(),
            _ => false,
        };
        let is_value = value.as_const().is_some() || matches!(value.kind, ExprKind::Param(_));
        is_exact
            && is_value
            && arg.as_column() == Some(self.slot)
            && usable(self.ty, value, kind)
            && always_located(self.ty, value)
    }
}
