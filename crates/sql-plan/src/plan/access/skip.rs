//! Skip scan: ranges of an index's second part, in the entries of each value of the first one, where these are few.
//!
//! Neighbours: the parent takes it where no condition is about the first part; the scan finds the values.
//! **Invariants**: nothing is locked between the ranges, so nothing that is locked is read by them; conditions are
//! evaluated again.

use std::sync::Arc;

use esker_sql_catalog::codec::KeyRange;

use super::super::ranges::RangeSpec;
use super::super::{Access, AccessKind, SkipScan, cost, stats};
use super::{Path, Target};
use crate::bind::BindEnv;
use crate::expr::Expr;

/// Rows below which a table is read whole.
const LEAST_ROWS: f64 = 1000.0;
/// By what factor it has to be cheaper than reading the index: that may be shared among threads.
const GAIN: f64 = 2.0;

impl Target<'_> {
    /// The skip scan of an index, if it is worth it.
    pub(super) fn skipping(
        &self,
        env: &BindEnv<'_>,
        nth: usize,
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> Option<Path> {
        let index = &self.def.indexes[nth];
        let is_read = self.alone && !self.whole_rows && self.rows >= LEAST_ROWS;
        if !is_read || self.table.told.without_skips || index.parts.len() < 2 {
            return None;
        }
        let behind = &index.parts[1..];
        let ranges = RangeSpec::new(behind, &self.types, &self.slots, conds, known)?;
        let sample = env.names.sample(self.def, nth, self.rows)?;
        let values = (self.rows / sample.per_prefix(1)?).max(1.0);
        let seeks = values * (self.seek() + cost::NEAR_SEEK * (1 + ranges.ranges()) as f64);
        let whole = self.full(0).cost.min(self.full(nth).cost);
        if seeks * GAIN > whole {
            return None;
        }
        let rows = match self.rows_skipped_to(env, nth, &ranges, sample.firsts()) {
            Some(per_value) => per_value * values,
            None => self.rows * conds.iter().map(stats::selectivity).product::<f64>(),
        };
        let rows = rows.min(self.rows).max(1.0);
        let cost = seeks + self.index_cost(nth, rows);
        let kind = AccessKind::Skip(Arc::new(SkipScan { ranges }));
        let access = Access {
            index: nth,
            kind,
            reverse: false,
            for_order: false,
            covering: nth > 0 && self.covers(nth),
        };
        let path = Path {
            access,
            rows,
            cost,
            forced: false,
        };
        let path = self.judged_early(path, conds);
        (path.cost * GAIN < whole).then_some(path)
    }

    /// Entries in the ranges of one value of the first part, by an index dive for each of those that are known; `None`
    /// where the ranges are known only when the scan opens.
    fn rows_skipped_to(
        &self,
        env: &BindEnv<'_>,
        nth: usize,
        ranges: &RangeSpec,
        firsts: &[Box<[u8]>],
    ) -> Option<f64> {
        if !ranges.is_foreseeable() || firsts.is_empty() {
            return None;
        }
        let codec = self.def.indexes[nth].codec.behind_first();
        let ranges = env.foresee(|eval_env| ranges.build(&codec, &[], eval_env));
        let ranges = ranges.ok()?;
        let every = firsts.len().div_ceil(cost::MAX_INDEX_DIVES).max(1);
        let looked_at: Vec<_> = firsts.iter().step_by(every).collect();
        let of_value = |first: &[u8]| -> f64 {
            let of_range = |range: &KeyRange| self.one_range_rows(nth, &range.behind(first));
            // Many ranges are as many as the first ones of them say.
            let dived = ranges.len().min(cost::MAX_INDEX_DIVES);
            let rows: f64 = ranges[..dived].iter().map(of_range).sum();
            rows * ranges.len() as f64 / dived.max(1) as f64
        };
        let rows: f64 = looked_at.iter().map(|first| of_value(first)).sum();
        Some(rows / looked_at.len() as f64)
    }
}
