//! How many rows an access path reads, and which fraction of them conditions keep.
//!
//! Neighbours: the parent makes the paths; `stats` and `estimate` have what the catalog knows of values.
//! **Invariants**: an estimate is between one row and all of the table's; many ranges are not all looked at.

use std::ops::Bound;
use std::sync::Arc;

use esker_sql_catalog::catalog::{IndexDef, IndexPart, IndexSample};
use esker_sql_catalog::codec::KeyRange;

use super::super::ranges::{RangeSpec, encode_operands};
use super::super::{AccessKind, KeyOperand, cost, estimate, stats};
use super::{Path, Target};
use crate::bind::BindEnv;
use crate::expr::{EvalEnv, Expr, ExprKind};

impl Target<'_> {
    /// Rows in the ranges, from their bounds where those are numbers, else by the conditions' form.
    pub(super) fn range_rows(
        &self,
        env: &BindEnv<'_>,
        nth: usize,
        spec: &RangeSpec,
        conds: &[Expr],
    ) -> f64 {
        let index = &self.def.indexes[nth];
        let independent = conds.iter().all(|c| {
            !c.any(&mut |e| matches!(e.kind, ExprKind::Outer { .. } | ExprKind::Subquery(_)))
        });
        // Values of rows read before are unknown here: then the row is too short to build from.
        let constant = independent && spec.is_foreseeable();
        let remembered = self.counted_ranges.filter(|_| constant);
        let remembered = remembered.map(|(counted, t)| (counted, (t, nth, spec.tests())));
        if let Some(rows) = remembered.and_then(|(counted, key)| counted.get(key)) {
            return rows;
        }
        let Ok(ranges) = (if constant {
            env.foresee(|eval_env| spec.build(&index.codec, &[], eval_env))
        } else {
            Ok(vec![KeyRange::ALL])
        }) else {
            return self.rows;
        };
        if !constant {
            let parts = spec.leading_parts();
            if parts > 0 && spec.equal_parts() == parts {
                // A value that has to be converted first, as a text that is compared with numbers.
                let is_for_many = !independent || !self.alone;
                return self.rows_by(self.sample(env, nth, is_for_many), nth, parts);
            }
            let told = conds
                .iter()
                .filter(|c| self.is_told(&index.parts[..parts], c));
            let chosen: f64 = told.map(stats::selectivity).product();
            return (self.rows * chosen.max(1.0 / 10f64.powi(parts as i32 + 1))).max(1.0);
        }
        // Of many ranges some stand for all.
        let every = ranges.len().div_ceil(cost::MAX_INDEX_DIVES).max(1);
        let looked_at = ranges.iter().step_by(every);
        let rows = looked_at.map(|range| self.one_range_rows(nth, range) * every as f64);
        let rows = rows.sum::<f64>().min(self.rows);
        if let Some((counted, key)) = remembered {
            counted.insert(key, rows);
        }
        rows
    }

    pub(super) fn one_range_rows(&self, nth: usize, range: &KeyRange) -> f64 {
        let tree = &self.def.indexes[nth].tree;
        stats::entries_between(tree, range).unwrap_or_else(|| {
            let share = match (range.lower(), range.upper()) {
                (Bound::Unbounded, Bound::Unbounded) => 1.0,
                (Bound::Unbounded, _) | (_, Bound::Unbounded) => 1.0 / 3.0,
                _ => 1.0 / 9.0,
            };
            (self.rows * share).max(1.0)
        })
    }

    /// Rows with these values of an index's leading parts.
    pub(super) fn matching_rows(
        &self,
        env: &BindEnv<'_>,
        nth: usize,
        operands: &[KeyOperand],
    ) -> f64 {
        let codec = &self.def.indexes[nth].codec;
        let mut key = Vec::new();
        let constant = operands.iter().all(|o| o.expr.is_foreseeable());
        let mut encode =
            |eval_env: &EvalEnv<'_>| encode_operands(codec, operands, &[], eval_env, &mut key);
        if constant && let Ok(true) = env.foresee(&mut encode) {
            return self.one_range_rows(nth, &KeyRange::prefix(key));
        }
        let is_outer = |e: &Expr| matches!(e.kind, ExprKind::Outer { .. });
        let is_correlated = operands.iter().any(|o| o.expr.any(&mut |e| is_outer(e)));
        let sample = self.sample(env, nth, is_correlated || !self.alone);
        self.rows_by(sample, nth, operands.len())
    }

    /// A sample of an index, where what it says is worth its price: if the index is looked into for many rows, as by
    /// joins and correlated subqueries.
    fn sample(&self, env: &BindEnv<'_>, nth: usize, is_for_many: bool) -> Option<Arc<IndexSample>> {
        is_for_many
            .then(|| env.names.sample(self.def, nth, self.rows))
            .flatten()
    }

    /// Rows with one value of an index's first `parts` parts, where joins or groups make a sample worth its price.
    pub(super) fn rows_per_group(&self, env: &BindEnv<'_>, nth: usize, parts: usize) -> f64 {
        self.rows_by(self.sample(env, nth, true), nth, parts)
    }

    fn rows_by(&self, sample: Option<Arc<IndexSample>>, nth: usize, parts: usize) -> f64 {
        let sampled = sample.and_then(|s| s.per_prefix(parts));
        let of = self.def.indexes[nth].parts.len();
        sampled.unwrap_or_else(|| stats::rows_per_key(self.rows, parts, of))
    }

    /// Distinct values of a column, where an index begins with it or a histogram tells.
    pub(in crate::plan) fn distinct_values(&self, env: &BindEnv<'_>, slot: u32) -> Option<f64> {
        let by_histogram = || {
            let col = self.slots.iter().position(|s| *s == Some(slot))?;
            Some(self.def.histogram(col)?.distinct().clamp(1.0, self.rows))
        };
        self.distinct(env, slot).or_else(by_histogram)
    }

    /// Distinct values of a column, where an index begins with it.
    pub(in crate::plan) fn distinct(&self, env: &BindEnv<'_>, slot: u32) -> Option<f64> {
        let col = self.slots.iter().position(|s| *s == Some(slot))?;
        let first = |i: &IndexDef| !i.hidden && i.parts.first().is_some_and(|p| p.col == col);
        let nth = self.def.ordered().iter().position(first)?;
        let index = &self.def.indexes[nth];
        match index.unique && index.parts.len() == 1 {
            true => Some(self.rows),
            false => Some((self.rows / self.rows_per_group(env, nth, 1)).max(1.0)),
        }
    }

    /// Fraction of the rows that conditions keep: what indexes say of some, by the paths that these allow, `other` of
    /// the rest.
    pub(in crate::plan) fn kept(
        &self,
        env: &BindEnv<'_>,
        conds: &[Expr],
        mut paths: Vec<Path>,
        known: &dyn Fn(&Expr) -> bool,
        other: &dyn Fn(&Expr) -> f64,
    ) -> f64 {
        paths.retain(|p| !matches!(p.access.kind, AccessKind::Full));
        paths.sort_by(|a, b| a.rows.total_cmp(&b.rows));
        let mut rest: Vec<&Expr> = conds.iter().collect();
        let mut kept = 1.0;
        for path in paths {
            let own = |c: &&Expr| self.decides(&path, c);
            let all = conds.iter().filter(|c| own(c)).count();
            if all > 0 && rest.iter().filter(|c| own(c)).count() == all {
                rest.retain(|c| !own(c));
                kept *= path.rows / self.rows;
            }
        }
        kept * self.filtered(env, rest, known, other)
    }

    /// Fraction of the rows that conditions keep: what histograms say of some, `other` of the rest.
    pub(in crate::plan) fn filtered(
        &self,
        env: &BindEnv<'_>,
        mut conds: Vec<&Expr>,
        known: &dyn Fn(&Expr) -> bool,
        other: &dyn Fn(&Expr) -> f64,
    ) -> f64 {
        let by_histograms = estimate::by_histograms(self, env, &mut conds, known);
        by_histograms * conds.into_iter().map(other).product::<f64>()
    }

    /// Does the path's estimate already count the condition?
    pub(in crate::plan) fn decides(&self, path: &Path, cond: &Expr) -> bool {
        let parts = match &path.access.kind {
            AccessKind::Full
            | AccessKind::Match(_)
            | AccessKind::Elements(_)
            | AccessKind::Union(_) => 0,
            AccessKind::Skip(skip) => skip.parts(),
            AccessKind::Point(operands) | AccessKind::Ref(operands) => operands.len(),
            AccessKind::Ranges(spec) => spec.leading_parts(),
        };
        // Ranges are made of what is compared with a column as it is.
        let is_column = |e: &Expr| self.column_of(e).is_some();
        let plain = match &cond.kind {
            ExprKind::Cmp(cmp) => is_column(&cmp.left) || is_column(&cmp.right),
            ExprKind::Between(between) => is_column(&between.arg),
            ExprKind::InList(list) => is_column(&list.arg),
            ExprKind::Is { arg, .. } => is_column(arg),
            ExprKind::Like(like) => is_column(&like.text),
            _ => false,
        };
        plain && self.is_told(&self.def.indexes[path.access.index].parts[..parts], cond)
    }

    /// Of the table's columns, does the condition read some of these key parts, and no others?
    fn is_told(&self, leading: &[IndexPart], cond: &Expr) -> bool {
        let (mut any, mut all) = (false, true);
        cond.slots(&mut |slot| {
            if let Some(col) = self.slots.iter().position(|s| *s == Some(slot)) {
                any = true;
                all &= leading.iter().any(|p| p.col == col);
            }
        });
        any && all
    }
}
