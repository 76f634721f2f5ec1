//! Index condition pushdown: conditions that the entries of an index decide before rows are looked up.
//!
//! Neighbours: the parent prices paths with it, `join_scan` notes the conditions in the plan, and scans ask entries.
//! **Invariants**: an entry only drops its row; what it does not drop is judged by the row again.

use super::super::merge::is_repeatable;
use super::super::{AccessKind, cost, stats};
use super::{Path, Target};
use crate::expr::Expr;

impl Target<'_> {
    /// The positions of the conditions that entries of a path decide, beyond the ranges that it reads.
    pub(in crate::plan) fn entry_conds(&self, path: &Path, conds: &[Expr]) -> Vec<usize> {
        let access = &path.access;
        let reads_entries = match &access.kind {
            AccessKind::Full | AccessKind::Ref(_) | AccessKind::Ranges(_) | AccessKind::Skip(_) => {
                access.index > 0 && !access.covering
            }
            AccessKind::Point(_)
            | AccessKind::Match(_)
            | AccessKind::Elements(_)
            | AccessKind::Union(_) => false,
        };
        if !reads_entries || self.whole_rows || self.table.told.without_entry_conds {
            return Vec::new();
        }
        let is_decided = |cond: &Expr| {
            self.is_of_entry(access.index, cond) && !self.decides(path, cond) && is_repeatable(cond)
        };
        let numbered = conds.iter().enumerate();
        let decided = numbered.filter(|(_, cond)| is_decided(cond));
        decided.map(|(nth, _)| nth).collect()
    }

    /// Of the table's columns, does the condition read some of an index's entries, and no others?
    fn is_of_entry(&self, index: usize, cond: &Expr) -> bool {
        let (mut any, mut all) = (false, true);
        cond.slots(&mut |slot| {
            if let Some(col) = self.slots.iter().position(|s| *s == Some(slot)) {
                any = true;
                all &= self.has_entry(index, col);
            }
        });
        any && all
    }

    /// The path, priced without the lookups that its entries make unnecessary.
    pub(super) fn judged_early(&self, mut path: Path, conds: &[Expr]) -> Path {
        let judged = self.entry_conds(&path, conds);
        let kept = judged.iter().map(|nth| stats::selectivity(&conds[*nth]));
        let spared = path.rows * (1.0 - kept.product::<f64>());
        path.cost -= spared * cost::LOOKUPS_PER_ENTRY * self.seek();
        debug_assert!(path.cost > 0.0, "entries are read");
        path
    }
}
