//! Selectivity from histograms: which share of a table's rows a condition keeps.
//!
//! Neighbours: `access` asks for a table; `ranges` turns conditions into ranges of keys, in which histograms count.
//! **Invariant**: an estimate never decides correctness; a condition is counted once.

use esker_sql_catalog::catalog::{Histogram, IndexPart};

use super::access::Target;
use super::ranges::RangeSpec;
use crate::bind::BindEnv;
use crate::expr::{CmpOp, Expr, ExprKind};

/// Takes the conditions that histograms of the table's columns judge out of `conds`, and gives the fraction of the rows
/// that these keep together.
pub(super) fn by_histograms(
    target: &Target<'_>,
    env: &BindEnv<'_>,
    conds: &mut Vec<&Expr>,
    known: &dyn Fn(&Expr) -> bool,
) -> f64 {
    let mut kept = 1.0;
    for (col, slot) in target.slots.iter().enumerate() {
        let (Some(slot), Some(histogram)) = (*slot, target.def.histogram(col)) else {
            continue;
        };
        let column = Column {
            target,
            env,
            known,
            col,
            slot,
            histogram,
        };
        kept *= column.judge(conds);
    }
    kept
}

/// A column with a histogram.
struct Column<'a> {
    target: &'a Target<'a>,
    env: &'a BindEnv<'a>,
    known: &'a dyn Fn(&Expr) -> bool,
    col: usize,
    slot: u32,
    histogram: &'a Histogram,
}

impl Column<'_> {
    fn judge(&self, conds: &mut Vec<&Expr>) -> f64 {
        let mut kept = 1.0;
        // Those that are ranges count together: of `c > 1 AND c < 9` neither says much alone.
        let mut ranges: Vec<Expr> = Vec::new();
        conds.retain(|cond| {
            if !self.is_alone_in(cond) {
                return true;
            }
            if self.is_range(cond) {
                ranges.push((*cond).clone());
                return false;
            }
            match self.share_of_other(cond) {
                Some(share) => kept *= share,
                None => return true,
            }
            false
        });
        if !ranges.is_empty() {
            kept *= self.share(&ranges).unwrap_or(1.0);
        }
        kept
    }

    /// Is this the only column that the condition reads?
    fn is_alone_in(&self, cond: &Expr) -> bool {
        let (mut any, mut all) = (false, true);
        cond.slots(&mut |slot| {
            any = true;
            all &= slot == self.slot;
        });
        any && all
    }

    /// Is it as good as a range of values that are known now?
    fn is_range(&self, cond: &Expr) -> bool {
        let says_all = match &cond.kind {
            // LIKE '%x' has no beginning to look for.
            ExprKind::Like(_) => {
                let share = self.share(std::slice::from_ref(cond));
                share.is_none_or(|share| share >= self.histogram.not_null())
            }
            _ => false,
        };
        !says_all && self.spec(std::slice::from_ref(cond)).is_some()
    }

    fn spec(&self, conds: &[Expr]) -> Option<RangeSpec> {
        let part = IndexPart {
            col: self.col,
            prefix_len: None,
            desc: false,
        };
        let (types, slots) = (&self.target.types, &self.target.slots);
        let spec = RangeSpec::new(&[part], types, slots, conds, self.known)?;
        spec.is_constant().then_some(spec)
    }

    /// Fraction of the rows for which all of these are true.
    fn share(&self, conds: &[Expr]) -> Option<f64> {
        let spec = self.spec(conds)?;
        let ranges = spec.build(self.histogram.codec(), &[], &self.env.fold_env());
        Some(self.histogram.share(&ranges.ok()?))
    }

    /// The same of a condition that is no range.
    fn share_of_other(&self, cond: &Expr) -> Option<f64> {
        match &cond.kind {
            // NOT IN, NOT LIKE: what has a value and is not in the range.
            ExprKind::InList(list) if list.negated => {
                let mut list = list.clone();
                list.negated = false;
                self.share_without(ExprKind::InList(list), cond)
            }
            ExprKind::Like(like) if like.negated => {
                let mut like = like.clone();
                like.negated = false;
                let without = self.share_without(ExprKind::Like(like), cond)?;
                (without > 0.0).then_some(without)
            }
            // A value that is not known yet.
            ExprKind::Cmp(cmp) if cmp.op == CmpOp::Eq => {
                let is_it = |column: &Expr, value: &Expr| {
                    column.as_column() == Some(self.slot) && value.is_row_independent()
                };
                let is_value = is_it(&cmp.left, &cmp.right) || is_it(&cmp.right, &cmp.left);
                is_value.then(|| self.histogram.share_of_any())
            }
            _ => None,
        }
    }

    fn share_without(&self, positive: ExprKind, cond: &Expr) -> Option<f64> {
        let positive = Expr::condition(positive, cond.ty.nullable);
        let share = self.share(std::slice::from_ref(&positive))?;
        Some((self.histogram.not_null() - share).max(0.0))
    }
}
