//! Loose index scan: of the entries that begin alike, only the first is read.
//!
//! Neighbours: `plan::loose` says which columns a block tells rows apart by; the scan leaps from one beginning to the
//! next. **Invariant**: the first entry of a beginning stands for all of them only where the block says so; what a scan
//! gives more, the block drops.

use esker_sql_catalog::catalog::IndexDef;
use esker_sql_syntax::ast::IndexHintScope;

use super::super::loose::Told;
use super::super::{AccessKind, cost};
use super::{Path, Target};
use crate::bind::BindEnv;
use crate::expr::Expr;

impl Target<'_> {
    /// The cheapest loose index scan that has a row of every group, with the number of key parts that tell them apart.
    pub(in crate::plan) fn loose_path(
        &self,
        env: &BindEnv<'_>,
        told: &Told,
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> Option<(Path, usize)> {
        let slots = self.slots.iter().enumerate();
        let extreme = told.extreme.map(|(slot, _)| slot);
        let told_apart = slots.filter(|(_, slot)| slot.is_some() && **slot != extreme);
        let columns: Vec<usize> = told_apart.map(|(col, _)| col).collect();
        if columns.is_empty() {
            return None;
        }
        let paths = self.candidates(IndexHintScope::GroupBy).into_iter();
        let paths = paths.filter_map(|(nth, _)| {
            let index = &self.def.indexes[nth];
            let reverse = self.leads(index, &columns, told)?;
            let mut path = match self.keyed(env, nth, conds, known) {
                Some(path) if matches!(path.access.kind, AccessKind::Ranges(_)) => path,
                Some(_) => return None,
                None => self.full(nth),
            };
            path.access.reverse = reverse;
            let groups = (path.rows / self.rows_per_group(env, nth, columns.len())).max(1.0);
            let seeks = match path.access.covering || nth == 0 {
                true => 1.0,
                false => 1.0 + cost::LOOKUPS_PER_ENTRY,
            };
            (path.rows, path.cost) = (groups, groups * seeks * self.seek());
            Some((path, columns.len()))
        });
        paths.min_by(|(a, _), (b, _)| a.cost.total_cmp(&b.cost))
    }

    /// Does the index begin with these columns, in any order, and go on with the one whose extreme is wanted? Whether
    /// the entry that has it is read first from behind.
    fn leads(&self, index: &IndexDef, columns: &[usize], told: &Told) -> Option<bool> {
        let leading = index.parts.get(..columns.len())?;
        let is_told = |col: usize| columns.contains(&col);
        if !leading
            .iter()
            .all(|p| p.prefix_len.is_none() && is_told(p.col))
        {
            return None;
        }
        let Some((slot, is_max)) = told.extreme else {
            return Some(false);
        };
        let part = index.parts.get(columns.len())?;
        let is_it = part.prefix_len.is_none() && self.slots[part.col] == Some(slot);
        is_it.then_some(part.desc != is_max)
    }
}
