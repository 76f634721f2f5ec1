//! Window functions: rows are sorted once per order, and given with the results partition by partition.
//!
//! In flow order: this file (keeping, sorting, partitions), `frame` (which rows a row sees), `value`
//! (ranks and values of other rows), `aggregate` (aggregates over frames).
//! Neighbours: `root` adds the rows behind grouping and HAVING and reads them back; `plan::window`
//! decided what is kept and which windows share a sort; `sort` goes to disk when the rows are many.
//! **Invariants**: a kept row is the plan's kept slots followed by its results; rows of equal keys stay
//! in the order in which they came; what is in memory at a time are whole partitions of every window of
//! a sort, so a window over all rows has all rows in memory.

mod aggregate;
mod frame;
mod value;

use std::ops::Range;

use esker_sql_catalog::catalog::note_sorted;
use esker_sql_catalog::codec::damaged;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::{SortPlan, WindowPlan, WindowRun};
use esker_types::Value;

use super::memory::{Purpose, charge, refund, row_bytes};
use super::sort::{SortedRows, Sorter};
use crate::ExecEnv;

/// A kept row.
type Row = Vec<Value>;

/// Rows of a block with window functions.
#[derive(Default)]
pub(crate) struct WindowRows {
    /// The first sort, while rows are added.
    input: Option<Sorter>,
    /// The last sort's rows.
    output: Option<Chunks>,
    /// Rows with their results, to be given.
    chunk: Chunk,
    given: usize,
    complete: bool,
    key: Vec<u8>,
}

/// Rows that windows are computed over together.
#[derive(Default)]
struct Chunk {
    rows: Vec<Row>,
    /// How many leading keys each row shares with the row before it.
    shared: Vec<u32>,
    bytes: u64,
}

/// Rows in the order of one sort, and how many leading keys each shares with the row before it.
struct Sorted<'r> {
    rows: &'r mut [Row],
    shared: &'r [u32],
    /// Kept slots; results follow them.
    width: usize,
    /// Bytes charged for the rows and their results.
    charged: &'r mut u64,
}

impl WindowRows {
    /// Have the results been computed, as far as they are before the first row is given?
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Keeps a row.
    pub fn add(
        &mut self,
        plan: &WindowPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        for (slot, expr) in &plan.computed {
            row[*slot as usize] = expr.eval(row, env)?;
        }
        let kept = plan.kept.iter().map(|slot| row[*slot as usize].clone());
        let results = std::iter::repeat_n(Value::Null, plan.results);
        let kept: Row = kept.chain(results).collect();
        let Some(sort) = plan.sorts.first() else {
            return Ok(());
        };
        sort_key(sort, &kept, &mut self.key);
        let input = self.input.get_or_insert_with(|| Sorter::new(None));
        input.push(&self.key, kept, env)
    }

    /// Ends the input: computes all windows but those of the last sort, whose rows are given as they are
    /// computed.
    pub fn compute(&mut self, plan: &WindowPlan, env: &ExecEnv<'_>) -> ExecResult<()> {
        debug_assert!(!self.complete, "the functions are computed once");
        self.complete = true;
        let Some(mut input) = self.input.take() else {
            return Ok(());
        };
        note_sorted(input.kept());
        let mut chunks = Chunks::new(input.finish(env)?);
        for pair in plan.sorts.windows(2) {
            let mut next = Sorter::new(None);
            while let Some(mut chunk) = chunks.next(&pair[0], env)? {
                chunk.compute(plan, &pair[0], env)?;
                for row in chunk.take(env) {
                    sort_key(&pair[1], &row, &mut self.key);
                    next.push(&self.key, row, env)?;
                }
            }
            chunks.rows.close(env);
            chunks = Chunks::new(next.finish(env)?);
        }
        self.output = Some(chunks);
        Ok(())
    }

    /// Fills the slots of the next row; false at the end.
    pub fn next(
        &mut self,
        plan: &WindowPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        while self.given >= self.chunk.rows.len() {
            let (Some(output), Some(sort)) = (&mut self.output, plan.sorts.last()) else {
                return Ok(false);
            };
            drop(std::mem::take(&mut self.chunk).take(env));
            self.given = 0;
            let Some(mut chunk) = output.next(sort, env)? else {
                return Ok(false);
            };
            chunk.compute(plan, sort, env)?;
            self.chunk = chunk;
        }
        debug_assert!(self.complete);
        let kept = &mut self.chunk.rows[self.given];
        debug_assert_eq!(kept.len(), plan.kept.len() + plan.results);
        self.given += 1;
        let (values, results) = kept.split_at_mut(plan.kept.len());
        for (slot, value) in plan.kept.iter().zip(values) {
            row[*slot as usize] = std::mem::take(value);
        }
        for (nth, value) in results.iter_mut().enumerate() {
            row[plan.base as usize + nth] = std::mem::take(value);
        }
        Ok(true)
    }

    /// Forgets everything.
    pub fn reset(&mut self, env: &ExecEnv<'_>) {
        drop(std::mem::take(&mut self.chunk).take(env));
        if let Some(output) = self.output.take() {
            output.rows.close(env);
        }
        *self = Self::default();
    }
}

/// The key under which a row is sorted: its keys, then where each of them ends (4 bytes, big endian).
/// Keys end by themselves, so what follows them decides nothing.
fn sort_key(plan: &SortPlan, row: &[Value], out: &mut Vec<u8>) {
    out.clear();
    let mut ends = Vec::with_capacity(plan.keys.len());
    for part in &plan.keys {
        rowkey::encode(&row[part.at], &part.ty, part.desc, out);
        ends.push(out.len() as u32);
    }
    for end in ends {
        out.extend_from_slice(&end.to_be_bytes());
    }
}

/// How many of its `n` keys a row shares with the row before it.
fn shared_keys(key: &[u8], before: &[u8], n: usize) -> ExecResult<u32> {
    let ends = key.len().checked_sub(4 * n);
    let (keys, ends) = key.split_at(ends.ok_or_else(|| damaged("temporary record"))?);
    let same = keys.iter().zip(before).take_while(|(a, b)| a == b).count();
    let (ends, _) = ends.as_chunks::<4>();
    let shared = ends
        .iter()
        .take_while(|e| u32::from_be_bytes(**e) as usize <= same);
    Ok(shared.count() as u32)
}

/// The rows of a sort, by what is computed together.
struct Chunks {
    rows: SortedRows,
    /// The first row of the next chunk.
    ahead: Option<Row>,
    key: Vec<u8>,
    before: Vec<u8>,
}

impl Chunks {
    fn new(rows: SortedRows) -> Self {
        Self {
            rows,
            ahead: None,
            key: Vec::new(),
            before: Vec::new(),
        }
    }

    /// The next rows that are whole partitions of every window of the sort.
    fn next(&mut self, sort: &SortPlan, env: &ExecEnv<'_>) -> ExecResult<Option<Chunk>> {
        let partition = sort.windows.iter().map(|w| w.partition).min().unwrap_or(0);
        let mut chunk = Chunk::default();
        if let Some(first) = self.ahead.take() {
            chunk.push(first, 0, env)?;
        }
        while let Some(row) = self.rows.next_with_key(&mut self.key, env)? {
            let shared = shared_keys(&self.key, &self.before, sort.keys.len())?;
            std::mem::swap(&mut self.key, &mut self.before);
            if chunk.rows.is_empty() {
                chunk.push(row, 0, env)?;
            } else if (shared as usize) < partition {
                self.ahead = Some(row);
                break;
            } else {
                chunk.push(row, shared, env)?;
            }
        }
        Ok((!chunk.rows.is_empty()).then_some(chunk))
    }
}

impl Chunk {
    fn push(&mut self, row: Row, shared: u32, env: &ExecEnv<'_>) -> ExecResult<()> {
        let bytes = row_bytes(&row);
        charge(env, bytes, Purpose::Sort)?;
        self.bytes += bytes;
        self.rows.push(row);
        self.shared.push(shared);
        debug_assert_eq!(self.rows.len(), self.shared.len());
        Ok(())
    }

    fn compute(&mut self, plan: &WindowPlan, sort: &SortPlan, env: &ExecEnv<'_>) -> ExecResult<()> {
        let mut sorted = Sorted {
            rows: &mut self.rows,
            shared: &self.shared,
            width: plan.kept.len(),
            charged: &mut self.bytes,
        };
        for window in &sort.windows {
            sorted.run(window, env)?;
        }
        Ok(())
    }

    /// The rows; they are not charged any more.
    fn take(self, env: &ExecEnv<'_>) -> Vec<Row> {
        refund(env, self.bytes);
        self.rows
    }
}

impl Sorted<'_> {
    /// Computes the calls over one window.
    fn run(&mut self, window: &WindowRun, env: &ExecEnv<'_>) -> ExecResult<()> {
        let ends = frame::Ends::of(window, env)?;
        let numbers = value::numbers(window, env)?;
        let mut start = 0;
        while start < self.rows.len() {
            let end = self.next_start(start + 1, window.partition);
            debug_assert!(start < end && end <= self.rows.len());
            let part = start..end;
            let frames = match window.needs_frames() {
                true => ends.frames(self, window, part.clone(), env)?,
                false => Vec::new(),
            };
            debug_assert!(
                frames.is_empty() || frames.len() == part.len(),
                "a frame for every row"
            );
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

    /// Sets a result, whose text is charged with the rows.
    fn set(
        &mut self,
        row: usize,
        result: usize,
        value: Value,
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        env.tick()?;
        let bytes = value.text_len() as u64;
        if bytes > 0 {
            charge(env, bytes, Purpose::Sort)?;
            *self.charged += bytes;
        }
        debug_assert!(
            self.rows[row][self.width + result].is_null(),
            "a result is set once"
        );
        self.rows[row][self.width + result] = value;
        Ok(())
    }
}
