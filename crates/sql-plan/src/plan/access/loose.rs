//! Loose index scan: of the entries that begin alike, only the first is read, or the first and the last.
//!
//! Neighbours: `plan::loose` says which columns a block tells rows apart by; the scan leaps from one beginning to the
//! next. **Invariant**: the first and the last entry of a beginning stand for all of them only where the block says so;
//! what a scan gives more, the block drops.

use esker_sql_catalog::catalog::IndexDef;
use esker_sql_syntax::ast::IndexHintScope;

use super::super::loose::Told;
use super::super::{AccessKind, FirstOf, cost};
use super::{Path, Target};
use crate::bind::BindEnv;
use crate::expr::Expr;

/// Whether a path gives rows in an order, and in which direction, if that matters.
type InOrder<'f> = &'f dyn Fn(&Path) -> Option<Option<bool>>;

/// A loose index scan as it may be chosen; its path has the groups, and what they cost.
pub(in crate::plan) struct LooseScan {
    pub path: Path,
    pub first_of: FirstOf,
    /// Its groups come in the order in which LIMIT wants the first.
    pub is_ordered: bool,
}

impl Target<'_> {
    /// The cheapest loose index scan that has a row of every group. `in_order`: does a path give the groups in the
    /// order in which LIMIT wants the first of them, and in which direction, if that matters?
    pub(in crate::plan) fn loose_scan(
        &self,
        env: &BindEnv<'_>,
        told: &Told,
        conds: &[Expr],
        (known, in_order): (&dyn Fn(&Expr) -> bool, InOrder<'_>),
    ) -> Option<LooseScan> {
        let slots = self.slots.iter().enumerate();
        let extreme = told.extreme.map(|extreme| extreme.slot);
        let told_apart = slots.filter(|(_, slot)| slot.is_some() && **slot != extreme);
        let columns: Vec<usize> = told_apart.map(|(col, _)| col).collect();
        if columns.is_empty() {
            return None;
        }
        let paths = self.candidates(IndexHintScope::GroupBy).into_iter();
        let paths = paths.filter_map(|(nth, _)| {
            let index = &self.def.indexes[nth];
            if !self.leads(index, &columns, told) {
                return None;
            }
            let mut path = match self.keyed(env, nth, conds, known) {
                Some(path) if matches!(path.access.kind, AccessKind::Ranges(_)) => path,
                Some(_) => return None,
                None => self.full(nth),
            };
            let direction = in_order(&path);
            let (first_of, reverse) = ends(index, columns.len(), told, direction.flatten())?;
            path.access.reverse = reverse;
            path.access.for_order = direction.is_some();
            let groups = (path.rows / self.rows_per_group(env, nth, columns.len())).max(1.0);
            let seeks = match path.access.covering || nth == 0 {
                true => 1.0,
                false => 1.0 + cost::LOOKUPS_PER_ENTRY,
            };
            let ends = if first_of.with_last { 2.0 } else { 1.0 };
            (path.rows, path.cost) = (groups, groups * ends * seeks * self.seek());
            Some(LooseScan {
                path,
                first_of,
                is_ordered: direction.is_some(),
            })
        });
        paths.min_by(|a, b| a.path.cost.total_cmp(&b.path.cost))
    }

    /// Does the index begin with these columns, in any order, and go on with the one whose extreme is wanted?
    fn leads(&self, index: &IndexDef, columns: &[usize], told: &Told) -> bool {
        let Some(leading) = index.parts.get(..columns.len()) else {
            return false;
        };
        let is_told = |col: usize| columns.contains(&col);
        let mut leading = leading.iter();
        if !leading.all(|p| p.prefix_len.is_none() && is_told(p.col)) {
            return false;
        }
        let Some(extreme) = told.extreme else {
            return true;
        };
        let part = index.parts.get(columns.len());
        part.is_some_and(|part| {
            part.prefix_len.is_none() && self.slots[part.col] == Some(extreme.slot)
        })
    }
}

/// What is read of the entries that are equal in so many parts, and whether backwards: in the direction of the wanted
/// order, else in the one that comes to an extreme first.
fn ends(
    index: &IndexDef,
    parts: usize,
    told: &Told,
    wanted: Option<bool>,
) -> Option<(FirstOf, bool)> {
    let mut first_of = FirstOf {
        parts,
        passes_nulls: false,
        with_last: false,
    };
    let Some(extreme) = told.extreme else {
        return Some((first_of, wanted.unwrap_or(false)));
    };
    debug_assert!(extreme.least || extreme.greatest, "an end is wanted");
    let desc = index.parts[parts].desc;
    let reverse = wanted.unwrap_or(desc == extreme.least);
    let begins_with_least = desc == reverse;
    first_of.with_last = match begins_with_least {
        true => extreme.greatest,
        false => extreme.least,
    };
    // NULLs come before the least value.
    first_of.passes_nulls = extreme.nullable && extreme.least;
    (begins_with_least || !first_of.passes_nulls).then_some((first_of, reverse))
}
