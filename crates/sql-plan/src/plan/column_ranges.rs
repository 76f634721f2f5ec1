//! What a scan says of some columns of its table, whatever index it reads: ranges of keys made of these columns.
//!
//! Neighbours: EXPLAIN asks, to tell which partitions a scan looks for; `ranges` makes ranges of conditions.
//! **Invariant**: rows whose keys are in no range are not in the scan's result.

use esker_sql_catalog::catalog::{IndexPart, TableDef};
use esker_sql_catalog::codec::{KeyCodec, KeyRange};
use esker_sql_catalog::exec_error::ExecResult;
use esker_types::cmp::CmpKind;

use super::ranges::{PartTest, Pred, RangeSpec};
use super::{Access, AccessKind, KeyOperand, ScanPlan, Source};
use crate::expr::walk::same;
use crate::expr::{CmpOp, EvalEnv, Expr, ExprKind};

/// The slot of an expression: no row has so many.
const STAND_IN: u32 = u32::MAX / 2;

impl ScanPlan {
    /// The ranges, ascending, of keys whose parts are whole columns. Values that are known only when the scan opens
    /// count for nothing.
    pub fn column_ranges(&self, codec: &KeyCodec, env: &EvalEnv<'_>) -> ExecResult<Vec<KeyRange>> {
        let Source::Base { def, access, .. } = &self.source else {
            return Ok(vec![KeyRange::ALL]);
        };
        let parts = codec.parts().iter().map(|part| IndexPart {
            col: part.col,
            prefix_len: None,
            desc: false,
        });
        let parts: Vec<IndexPart> = parts.collect();
        let mut slots = vec![None; def.columns.len()];
        for (column, slot) in &self.columns {
            slots[*column] = Some(*slot);
        }
        let columns: Vec<_> = def.columns.iter().map(|c| c.ty.clone()).collect();
        let mut preds = vec![of_access(def, access, &parts)];
        preds.extend(RangeSpec::preds(&parts, &columns, &slots, &self.conds));
        RangeSpec::of(Pred::And(preds)).build(codec, &[], env)
    }

    /// The same of an expression over the table's columns, numbered as in its definition: ranges of keys that are its
    /// value.
    pub fn expression_ranges(
        &self,
        expr: &Expr,
        codec: &KeyCodec,
        env: &EvalEnv<'_>,
    ) -> ExecResult<Vec<KeyRange>> {
        let mut wanted = expr.clone();
        if !self.place(&mut wanted) {
            return Ok(vec![KeyRange::ALL]);
        }
        let mut conds = self.conds.clone();
        conds.iter_mut().for_each(|cond| stand_in(cond, &wanted));
        let part = IndexPart {
            col: 0,
            prefix_len: None,
            desc: false,
        };
        let columns = [expr.ty.clone()];
        let preds = RangeSpec::preds(&[part], &columns, &[Some(STAND_IN)], &conds);
        RangeSpec::of(Pred::And(preds)).build(codec, &[], env)
    }

    /// Gives columns their slots; false if the scan does not read one of them.
    fn place(&self, expr: &mut Expr) -> bool {
        if let ExprKind::Column(at) = &mut expr.kind {
            let found = self
                .columns
                .iter()
                .find(|(column, _)| column == &(*at as usize));
            return found.is_some_and(|(_, slot)| {
                *at = *slot;
                true
            });
        }
        expr.children_mut()
            .into_iter()
            .all(|child| self.place(child))
    }
}

/// Puts a column in the place of an expression.
fn stand_in(cond: &mut Expr, wanted: &Expr) {
    if same(cond, wanted) {
        cond.kind = ExprKind::Column(STAND_IN);
        return;
    }
    let children = cond.children_mut().into_iter();
    children.for_each(|child| stand_in(child, wanted));
}

/// What the keys that are read say of the parts.
fn of_access(def: &TableDef, access: &Access, parts: &[IndexPart]) -> Pred {
    let index = &def.indexes[access.index];
    let part_of = |nth: usize| {
        let part = index.parts.get(nth).filter(|p| p.prefix_len.is_none())?;
        parts.iter().position(|p| p.col == part.col)
    };
    let of_operand = |(nth, operand): (usize, &KeyOperand)| {
        let part = part_of(nth).filter(|_| operand.expr.is_constant())?;
        let op = match operand.null_safe {
            true => CmpOp::NullSafeEq,
            false => CmpOp::Eq,
        };
        let test = PartTest::Cmp(op, operand.expr.clone(), CmpKind::Decimal);
        Some(Pred::Part(part, test))
    };
    match &access.kind {
        AccessKind::Full
        | AccessKind::Match(_)
        | AccessKind::Elements(_)
        | AccessKind::Skip(_)
        | AccessKind::Union(_) => Pred::Any,
        AccessKind::Point(operands) | AccessKind::Ref(operands) => {
            Pred::And(operands.iter().enumerate().filter_map(of_operand).collect())
        }
        AccessKind::Ranges(spec) if spec.is_constant() => spec.pred().of_parts(&part_of),
        AccessKind::Ranges(_) => Pred::Any,
    }
}
