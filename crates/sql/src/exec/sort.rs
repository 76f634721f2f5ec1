//! Sorting rows in memory, whole or the first n.
//!
//! Neighbours: `root` (ORDER BY), `target` (UPDATE … ORDER BY), `group` (rollup).
//! **Invariants**: rows with equal keys keep their order of arrival; with a limit no more than that
//! many rows are kept; memory is charged and the excess is error 1038.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use esker_types::{SqlResult, Value};

use super::memory::{Purpose, charge, refund, row_bytes};
use super::rowkey;
use crate::bind::OrderKey;
use crate::expr::EvalEnv;

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

/// Collects rows, then gives them in order.
pub(crate) struct Sorter {
    /// Rows to keep; `None` is all.
    limit: Option<usize>,
    all: Vec<Entry>,
    /// With a limit: the largest kept key on top.
    top: BinaryHeap<Entry>,
    arrivals: u64,
    bytes: u64,
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
        }
    }

    /// Would a row with this key be kept? (So that its values need not be computed otherwise.)
    pub fn wants(&self, key: &[u8]) -> bool {
        match self.limit {
            Some(limit) if self.top.len() >= limit => {
                self.top.peek().is_some_and(|worst| key < &*worst.key)
            }
            _ => true,
        }
    }

    /// Adds a row.
    pub fn push(&mut self, key: &[u8], row: Vec<Value>, env: &EvalEnv<'_>) -> SqlResult<()> {
        let entry = Entry {
            key: key.into(),
            arrival: self.arrivals,
            row,
        };
        self.arrivals += 1;
        let bytes = entry.bytes();
        match self.limit {
            None => self.all.push(entry),
            Some(limit) => {
                self.top.push(entry);
                if self.top.len() > limit {
                    let gone = self.top.pop().map_or(0, |e| e.bytes());
                    refund(env, gone);
                    self.bytes = self.bytes.saturating_sub(gone);
                }
            }
        }
        charge(env, bytes, Purpose::Sort)?;
        self.bytes += bytes;
        Ok(())
    }

    /// The rows in order. The bytes charged for them go to the caller, who refunds them.
    pub fn finish(&mut self) -> (std::vec::IntoIter<Vec<Value>>, u64) {
        let mut entries = std::mem::take(&mut self.all);
        if self.limit.is_some() {
            entries = std::mem::take(&mut self.top).into_sorted_vec();
        } else {
            entries.sort_unstable();
        }
        let rows: Vec<Vec<Value>> = entries.into_iter().map(|e| e.row).collect();
        (rows.into_iter(), std::mem::take(&mut self.bytes))
    }
}

/// Encodes the sort key of a row.
pub(crate) fn order_key(
    keys: &[OrderKey],
    row: &[Value],
    env: &EvalEnv<'_>,
    out: &mut Vec<u8>,
) -> SqlResult<()> {
    out.clear();
    for key in keys {
        let value = key.expr.eval_ref(row, env)?;
        rowkey::encode(&value, &key.expr.ty, key.desc, out);
    }
    Ok(())
}
