//! Stable sort of rows, whole or the first n (top n), in memory or as an external merge sort.
//!
//! Neighbours: `root` (ORDER BY), `target` (UPDATE … ORDER BY), `group` (rollup), `window`; `spill`
//! brings back the order in which rows arrived.
//! **Invariants**: rows with equal keys keep their order of arrival; with a limit no more than that
//! many rows are kept; memory is charged, and what does not fit goes to disk, or where there is no disk
//! is error 1038.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::OrderKey;
use esker_sql_plan::expr::rowkey;
use esker_types::Value;

use super::memory::{Budget, Purpose, charge, may_keep, refund, row_bytes};
use super::spill::{
    Merge, Run, RunWriter, SpillFile, TempFiles, block_bytes, narrow_runs, read_row, write_key,
    write_row,
};
use crate::ExecEnv;

/// A kept row with its key.
struct Entry {
    key: Box<[u8]>,
    arrival: u64,
    row: Vec<Value>,
}

impl Entry {
    fn bytes(&self) -> u64 {
        self.key.len() as u64 + 24 + row_bytes(&self.row)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key
            .cmp(&other.key)
            .then(self.arrival.cmp(&other.arrival))
    }
}

/// Rows that are sorted without a look at whether the statement still goes on.
const CHUNK_ROWS: usize = 1 << 14;

/// Entries in order: sorted chunks that are merged as they are taken, so that neither sorting nor merging ever takes
/// long at a stretch.
struct InOrder {
    chunks: Vec<std::vec::IntoIter<Entry>>,
    /// The first entry of each chunk that has any, the least on top.
    heads: BinaryHeap<Reverse<(Entry, usize)>>,
}

impl InOrder {
    fn sort(mut entries: Vec<Entry>, env: &ExecEnv<'_>) -> ExecResult<Self> {
        let mut chunks = Vec::with_capacity(entries.len() / CHUNK_ROWS + 1);
        while !entries.is_empty() {
            let rest = entries.len().saturating_sub(CHUNK_ROWS);
            let mut chunk = entries.split_off(rest);
            chunk.sort_unstable();
            chunks.push(chunk.into_iter());
            if !entries.is_empty() {
                env.look()?;
            }
        }
        let first = |(at, chunk): (usize, &mut std::vec::IntoIter<Entry>)| {
            chunk.next().map(|entry| Reverse((entry, at)))
        };
        let heads = chunks.iter_mut().enumerate().filter_map(first).collect();
        Ok(Self { chunks, heads })
    }
}

impl Iterator for InOrder {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let mut top = self.heads.peek_mut()?;
        let at = top.0.1;
        let Some(next) = self.chunks[at].next() else {
            return Some(PeekMut::pop(top).0.0);
        };
        debug_assert!(next > top.0.0, "arrivals differ");
        Some(std::mem::replace(&mut top.0.0, next))
    }
}

/// Collects rows, then gives them in order.
pub(crate) struct Sorter {
    /// Rows to keep; `None` is all.
    limit: Option<usize>,
    all: Vec<Entry>,
    /// With a limit, while the rows fit: the largest kept key on top.
    top: BinaryHeap<Entry>,
    arrivals: u64,
    bytes: u64,
    /// May it go to disk?
    spills: bool,
    /// Sorted runs, in the order in which their rows arrived.
    runs: Option<(SpillFile, Vec<Run>)>,
}

impl Sorter {
    pub fn new(limit: Option<u64>) -> Self {
        let limit = limit.and_then(|n| usize::try_from(n).ok());
        Self {
            limit,
            all: Vec::new(),
            top: BinaryHeap::new(),
            arrivals: 0,
            bytes: 0,
            spills: true,
            runs: None,
        }
    }

    /// A sorter that stays in memory: there may be too many of its kind for a file each.
    pub fn in_memory() -> Self {
        Self {
            spills: false,
            ..Self::new(None)
        }
    }

    /// Would a row with this key be kept? (So that its values need not be computed otherwise.)
    pub fn wants(&self, key: &[u8]) -> bool {
        match self.limit {
            Some(limit) if self.runs.is_none() && self.top.len() >= limit => {
                self.top.peek().is_some_and(|worst| key < &*worst.key)
            }
            _ => true,
        }
    }

    /// Adds a row.
    pub fn push(&mut self, key: &[u8], row: Vec<Value>, env: &ExecEnv<'_>) -> ExecResult<()> {
        let entry = Entry {
            key: key.into(),
            arrival: self.arrivals,
            row,
        };
        self.arrivals += 1;
        let bytes = entry.bytes();
        let limit = self.limit.filter(|_| self.runs.is_none());
        if let Some(limit) = limit
            && self.top.len() >= limit
        {
            // The new row takes the place of the worst, or is none to keep.
            if self.top.peek().is_none_or(|worst| entry >= *worst) {
                return Ok(());
            }
            let gone = self.top.pop().map_or(0, |e| e.bytes());
            refund(env, gone);
            debug_assert!(gone <= self.bytes, "the sum is of what is kept");
            self.bytes = self.bytes.saturating_sub(gone);
        }
        let short = self.spills && self.bytes > 0;
        if short
            && !may_keep(env, self.bytes, bytes, Budget::Sort)
            && let Some((temp, budget)) = Budget::Sort.on_disk(env)
        {
            self.spill(temp, budget, env)?;
        }
        charge(env, bytes, Purpose::Sort)?;
        self.bytes += bytes;
        match limit.filter(|_| self.runs.is_none()) {
            Some(_) => self.top.push(entry),
            None => self.all.push(entry),
        }
        debug_assert!(self.limit.is_none_or(|limit| self.top.len() <= limit));
        Ok(())
    }

    /// Writes what is in memory as a sorted run.
    fn spill(&mut self, temp: &TempFiles, budget: u64, env: &ExecEnv<'_>) -> ExecResult<()> {
        let mut entries = std::mem::take(&mut self.all);
        entries.extend(std::mem::take(&mut self.top));
        debug_assert!(!entries.is_empty(), "an empty run is not written");
        let entries = InOrder::sort(entries, env)?;
        let (file, runs) = match &mut self.runs {
            Some(there) => there,
            None => self.runs.insert((temp.create()?, Vec::new())),
        };
        let mut writer = RunWriter::new(block_bytes(budget));
        for entry in entries.take(self.limit.unwrap_or(usize::MAX)) {
            env.tick()?;
            writer.push(file, |out| {
                write_key(&entry.key, out);
                write_row(entry.row.iter(), out);
            })?;
        }
        runs.push(writer.finish(file)?);
        refund(env, std::mem::take(&mut self.bytes));
        Ok(())
    }

    /// How many rows it gives.
    pub fn kept(&self) -> u64 {
        let limit = self.limit.map_or(u64::MAX, |limit| limit as u64);
        self.arrivals.min(limit)
    }

    /// Ends the input: the rows in order.
    pub fn finish(&mut self, env: &ExecEnv<'_>) -> ExecResult<SortedRows> {
        if self.runs.is_some()
            && let Some((temp, budget)) = Budget::Sort.on_disk(env)
        {
            if self.bytes > 0 {
                self.spill(temp, budget, env)?;
            }
            if let Some((file, runs)) = self.runs.take() {
                let keep = self.limit.map_or(u64::MAX, |n| n as u64);
                let (file, runs) = narrow_runs(temp, file, runs, budget, keep, env)?;
                return Ok(SortedRows(Sorted::Runs(Merge::open(&file, &runs)?)));
            }
        }
        let entries = match self.top.is_empty() {
            true => std::mem::take(&mut self.all),
            false => std::mem::take(&mut self.top).into_vec(),
        };
        let entries = InOrder::sort(entries, env)?;
        debug_assert!(self.runs.is_none(), "what is on disk was merged above");
        let bytes = std::mem::take(&mut self.bytes);
        Ok(SortedRows(Sorted::Memory(entries, bytes)))
    }
}

/// Rows in order.
pub(crate) struct SortedRows(Sorted);

enum Sorted {
    /// With the bytes charged for them.
    Memory(InOrder, u64),
    Runs(Merge),
}

impl SortedRows {
    /// The next row.
    pub fn next(&mut self, env: &ExecEnv<'_>) -> ExecResult<Option<Vec<Value>>> {
        match &mut self.0 {
            Sorted::Memory(entries, _) => {
                env.tick()?;
                Ok(entries.next().map(|e| e.row))
            }
            Sorted::Runs(merge) => {
                let Some((_, mut payload)) = merge.next(env)? else {
                    return Ok(None);
                };
                let mut row = Vec::new();
                read_row(&mut payload, &mut row)?;
                Ok(Some(row))
            }
        }
    }

    /// The next row, its key in `key`.
    pub fn next_with_key(
        &mut self,
        key: &mut Vec<u8>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<Vec<Value>>> {
        key.clear();
        match &mut self.0 {
            Sorted::Memory(entries, bytes) => Ok(entries.next().map(|e| {
                key.extend_from_slice(&e.key);
                debug_assert!(e.bytes() <= *bytes);
                // Whoever takes rows with their keys keeps them and charges them.
                refund(env, e.bytes());
                *bytes = bytes.saturating_sub(e.bytes());
                e.row
            })),
            Sorted::Runs(merge) => {
                let Some((found, mut payload)) = merge.next(env)? else {
                    return Ok(None);
                };
                key.extend_from_slice(found);
                let mut row = Vec::new();
                read_row(&mut payload, &mut row)?;
                Ok(Some(row))
            }
        }
    }

    /// Gives the memory back.
    pub fn close(self, env: &ExecEnv<'_>) {
        if let Sorted::Memory(_, bytes) = self.0 {
            refund(env, bytes);
        }
    }
}

/// Encodes the sort key of a row.
pub(crate) fn order_key(
    keys: &[OrderKey],
    row: &[Value],
    env: &ExecEnv<'_>,
    out: &mut Vec<u8>,
) -> ExecResult<()> {
    out.clear();
    for key in keys {
        let value = key.expr.eval_ref(row, env)?;
        rowkey::encode(&value, &key.expr.ty, key.desc, out);
    }
    Ok(())
}
