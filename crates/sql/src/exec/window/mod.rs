//! Window functions: rows are kept, sorted once per order, and given with the results.
//!
//! In flow order: this file (keeping, sorting, partitions), `frame` (which rows a row sees), `value`
//! (ranks and values of other rows), `aggregate` (aggregates over frames).
//! Neighbours: `root` adds the rows behind grouping and HAVING and reads them back; `plan::window`
//! decided what is kept and which windows share a sort.
//! **Invariants**: a kept row is the plan's kept slots followed by its results; rows of equal keys stay
//! in the order in which they came; all rows are here before the first result is computed.

mod aggregate;
mod frame;
#[cfg(test)]
mod tests;
mod value;

use std::ops::Range;

use esker_types::{SqlResult, Value};

use super::memory::{Purpose, charge, refund, row_bytes};
use super::rowkey;
use crate::expr::EvalEnv;
use crate::plan::{SortPlan, WindowPlan, WindowRun};

/// A kept row.
type Row = Box<[Value]>;

/// Rows of a block with window functions.
#[derive(Default)]
pub(crate) struct WindowRows {
    rows: Vec<Row>,
    given: usize,
    complete: bool,
    bytes: u64,
}

/// Rows in the order of one sort, and how many leading keys each shares with the row before it.
struct Sorted<'r> {
    rows: &'r mut [Row],
    shared: Vec<u32>,
    /// Kept slots; results follow them.
    width: usize,
}

impl WindowRows {
    /// Have the results been computed?
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Keeps a row.
    pub fn add(
        &mut self,
        plan: &WindowPlan,
        row: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<()> {
        for (slot, expr) in &plan.computed {
            row[*slot as usize] = expr.eval(row, env)?;
        }
        let kept = plan.kept.iter().map(|slot| row[*slot as usize].clone());
        let results = std::iter::repeat_n(Value::Null, plan.results);
        let kept: Row = kept.chain(results).collect();
        let bytes = row_bytes(&kept);
        charge(env, bytes, Purpose::Sort)?;
        self.bytes += bytes;
        self.rows.push(kept);
        Ok(())
    }

    /// Computes all results.
    pub fn compute(&mut self, plan: &WindowPlan, env: &EvalEnv<'_>) -> SqlResult<()> {
        self.complete = true;
        let width = plan.kept.len();
        for sort in &plan.sorts {
            let shared = self.sort(sort, env)?;
            let mut sorted = Sorted {
                rows: &mut self.rows,
                shared,
                width,
            };
            for window in &sort.windows {
                sorted.run(window, env)?;
            }
        }
        Ok(())
    }

    /// Sorts the rows; how many leading keys each shares with the one before it.
    fn sort(&mut self, plan: &SortPlan, env: &EvalEnv<'_>) -> SqlResult<Vec<u32>> {
        let n = plan.keys.len();
        if n == 0 {
            return Ok(vec![0; self.rows.len()]);
        }
        let (mut keys, mut ends) = (Vec::with_capacity(self.rows.len()), Vec::new());
        let (mut key, mut bytes) = (Vec::new(), 0);
        for (nth, row) in self.rows.iter().enumerate() {
            key.clear();
            for part in &plan.keys {
                rowkey::encode(&row[part.at], &part.ty, part.desc, &mut key);
                ends.push(key.len() as u32);
            }
            bytes += key.len() as u64 + 24 + 4 * n as u64;
            keys.push((Box::<[u8]>::from(key.as_slice()), nth as u32));
        }
        charge(env, bytes, Purpose::Sort)?;
        keys.sort_unstable();
        let mut shared = Vec::with_capacity(keys.len());
        let mut before: &[u8] = &[];
        for (key, nth) in &keys {
            let same = key.iter().zip(before).take_while(|(a, b)| a == b).count();
            let own = &ends[*nth as usize * n..(*nth as usize + 1) * n];
            shared.push(own.iter().take_while(|end| **end as usize <= same).count() as u32);
            before = key;
        }
        if let Some(first) = shared.first_mut() {
            *first = 0;
        }
        let sorted = keys
            .iter()
            .map(|(_, nth)| std::mem::take(&mut self.rows[*nth as usize]));
        let sorted = sorted.collect();
        self.rows = sorted;
        refund(env, bytes);
        Ok(shared)
    }

    /// Fills the slots of the next row; false at the end.
    pub fn next(&mut self, plan: &WindowPlan, row: &mut [Value]) -> bool {
        let Some(kept) = self.rows.get_mut(self.given) else {
            return false;
        };
        self.given += 1;
        let (values, results) = kept.split_at_mut(plan.kept.len());
        for (slot, value) in plan.kept.iter().zip(values) {
            row[*slot as usize] = std::mem::take(value);
        }
        for (nth, value) in results.iter_mut().enumerate() {
            row[plan.base as usize + nth] = std::mem::take(value);
        }
        true
    }

    /// Forgets everything.
    pub fn reset(&mut self, env: &EvalEnv<'_>) {
        refund(env, self.bytes);
        *self = Self::default();
    }
}

impl Sorted<'_> {
    /// Computes the calls over one window.
    fn run(&mut self, window: &WindowRun, env: &EvalEnv<'_>) -> SqlResult<()> {
        let ends = frame::Ends::of(window, env)?;
        let numbers = value::numbers(window, env)?;
        let mut start = 0;
        while start < self.rows.len() {
            let end = self.next_start(start + 1, window.partition);
            let part = start..end;
            let frames = match window.needs_frames() {
                true => ends.frames(self, window, part.clone(), env)?,
                false => Vec::new(),
            };
            for (call, number) in window.calls.iter().zip(&numbers) {
                if value::run(self, window, call, *number, part.clone(), &frames, env)? {
                    continue;
                }
                aggregate::run(self, call, part.clone(), &frames, env)?;
            }
            start = end;
        }
        Ok(())
    }

    /// The first row from `from` on that does not share `keys` leading keys with the row before it.
    fn next_start(&self, from: usize, keys: usize) -> usize {
        if keys == 0 {
            return self.rows.len();
        }
        let rest = self.shared[from.min(self.shared.len())..].iter();
        from + rest.take_while(|s| **s as usize >= keys).count()
    }

    /// Rows of equal keys, run after run.
    fn peers(&self, part: Range<usize>, keys: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut at = part.start;
        std::iter::from_fn(move || {
            if at >= part.end {
                return None;
            }
            let end = self.next_start(at + 1, keys).min(part.end);
            Some(std::mem::replace(&mut at, end)..end)
        })
    }

    fn set(&mut self, row: usize, result: usize, value: Value) {
        self.rows[row][self.width + result] = value;
    }
}
