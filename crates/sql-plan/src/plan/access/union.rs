//! Index merge union: a disjunction whose branches lead to ranges of different indexes is read through all of them.
//!
//! Neighbours: the parent prices a branch as a path of its own; scans gather the keys that the members find, each once.
//! **Invariant**: every branch of the disjunction has a member with all rows for which the branch is true.

use std::sync::Arc;

use super::super::conds::split;
use super::super::ranges::RangeSpec;
use super::super::{Access, AccessKind, IndexUnion, UnionMember, cost};
use super::{Path, Target};
use crate::bind::BindEnv;
use crate::expr::{Expr, ExprKind};

/// Branches for each of which an index is looked for, although one index serves all of them.
const MOST_PRICED: usize = 20;

/// What one index finds.
struct Member {
    index: usize,
    branches: Vec<Expr>,
    rows: f64,
    /// Every branch gives the rows of an index key, so that they come in the order of their clustered keys.
    is_by_key: bool,
    forced: bool,
}

impl Target<'_> {
    /// The path that reads all indexes of a disjunction's branches; `None` where a branch has none, or all have the
    /// same.
    pub(super) fn merged(
        &self,
        env: &BindEnv<'_>,
        cond: &Expr,
        known: &dyn Fn(&Expr) -> bool,
        indexes: &[(usize, bool)],
    ) -> Option<Path> {
        let mut branches = Vec::new();
        disjuncts(cond, &mut branches);
        if branches.len() > MOST_PRICED && self.serves_all(cond, known, indexes) {
            return None;
        }
        let mut members: Vec<Member> = Vec::new();
        for branch in branches {
            let one = self.member(env, branch, known, indexes)?;
            match members.iter_mut().find(|m| m.index == one.index) {
                Some(member) => member.join(one),
                None => members.push(one),
            }
        }
        (members.len() > 1)
            .then(|| self.union_path(&members, known))
            .flatten()
    }

    /// Does one index have ranges for every branch of a disjunction?
    fn serves_all(
        &self,
        cond: &Expr,
        known: &dyn Fn(&Expr) -> bool,
        indexes: &[(usize, bool)],
    ) -> bool {
        let conds = std::slice::from_ref(cond);
        indexes.iter().any(|(nth, _)| {
            let parts = &self.def.indexes[*nth].parts;
            RangeSpec::new(parts, &self.types, &self.slots, conds, known).is_some()
        })
    }

    /// The best index for a branch.
    fn member(
        &self,
        env: &BindEnv<'_>,
        branch: &Expr,
        known: &dyn Fn(&Expr) -> bool,
        indexes: &[(usize, bool)],
    ) -> Option<Member> {
        let mut conds = Vec::new();
        split(branch, &mut conds);
        let paths = indexes.iter().filter_map(|(nth, forced)| {
            let path = self.keyed(env, *nth, &conds, known)?;
            Some((path, *forced))
        });
        let (path, forced) = paths.min_by(|(a, _), (b, _)| a.rows.total_cmp(&b.rows))?;
        let index = path.access.index;
        let parts = self.def.indexes[index].parts.len();
        Some(Member {
            index,
            branches: vec![branch.clone()],
            rows: path.rows,
            is_by_key: index == 0
                || match &path.access.kind {
                    AccessKind::Point(_) => true,
                    AccessKind::Ref(operands) => operands.len() == parts,
                    _ => false,
                },
            forced,
        })
    }

    fn union_path(&self, members: &[Member], known: &dyn Fn(&Expr) -> bool) -> Option<Path> {
        let found = members.iter().map(|member| {
            let parts = &self.def.indexes[member.index].parts;
            let conds = [Expr::any_of(member.branches.clone())];
            Some(UnionMember {
                index: member.index,
                ranges: RangeSpec::new(parts, &self.types, &self.slots, &conds, known)?,
                rows: member.rows,
            })
        });
        let found: Vec<UnionMember> = found.collect::<Option<_>>()?;
        let entries: f64 = members.iter().map(|m| m.rows).sum();
        let rows = entries.min(self.rows);
        let seeks: usize = members.iter().map(|m| m.branches.len()).sum();
        let seek = self.seek();
        Some(Path {
            rows,
            cost: entries * cost::COVERING_ENTRY
                + rows * cost::LOOKUPS_PER_ENTRY * seek
                + seeks as f64 * seek,
            forced: members.iter().all(|m| m.forced),
            access: Access {
                index: found[0].index,
                kind: AccessKind::Union(Arc::new(IndexUnion {
                    members: found,
                    is_sorted: !members.iter().all(|m| m.is_by_key),
                })),
                reverse: false,
                for_order: false,
                covering: false,
            },
        })
    }
}

impl Member {
    /// One member for branches of the same index.
    fn join(&mut self, other: Self) {
        debug_assert_eq!(self.index, other.index, "their ranges are of one index");
        self.branches.extend(other.branches);
        self.rows += other.rows;
        self.is_by_key = false;
    }
}

/// Splits a disjunction into its branches.
fn disjuncts<'e>(cond: &'e Expr, out: &mut Vec<&'e Expr>) {
    match &cond.kind {
        ExprKind::Or(branches) => branches.iter().for_each(|branch| disjuncts(branch, out)),
        _ => out.push(cond),
    }
}
