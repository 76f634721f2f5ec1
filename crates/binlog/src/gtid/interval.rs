//! Sets of transaction numbers of one source.
//!
//! Neighbours: `set` has one for each source.
//! **Invariants**: intervals are in order, not empty, and neither overlap nor touch; so two equal sets are equal lists.

use super::GNO_END;

/// Numbers, as half-open intervals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntervalSet(Vec<(u64, u64)>);

impl IntervalSet {
    /// Of intervals in any order, which may overlap.
    pub fn of(mut intervals: Vec<(u64, u64)>) -> Self {
        intervals.retain(|(start, end)| start < end);
        intervals.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(intervals.len());
        for (start, end) in intervals {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        let set = Self(merged);
        debug_assert!(set.is_canonical());
        set
    }

    /// Its intervals: the first number, and the one behind the last.
    pub fn intervals(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Has it none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Adds `[start, end)`; O(1) when that is behind everything else.
    pub fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            Some(last) if last.1 > start => self.add_within(start, end),
            _ => self.0.push((start, end)),
        }
        debug_assert!(self.is_canonical());
    }

    fn add_within(&mut self, start: u64, end: u64) {
        let from = self.0.partition_point(|i| i.1 < start);
        let to = self.0.partition_point(|i| i.0 <= end);
        let merged = match from < to {
            true => (start.min(self.0[from].0), end.max(self.0[to - 1].1)),
            false => (start, end),
        };
        self.0.splice(from..to, [merged]);
    }

    /// Takes `[start, end)` away.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let from = self.0.partition_point(|i| i.1 <= start);
        let to = self.0.partition_point(|i| i.0 < end);
        if from >= to {
            return;
        }
        let (head, tail) = ((self.0[from].0, start), (end, self.0[to - 1].1));
        let kept = [head, tail].into_iter().filter(|i| i.0 < i.1);
        self.0.splice(from..to, kept);
        debug_assert!(self.is_canonical());
    }

    /// Is a number in it?
    pub fn contains(&self, gno: u64) -> bool {
        let at = self.0.partition_point(|i| i.1 <= gno);
        self.0.get(at).is_some_and(|i| i.0 <= gno)
    }

    /// Are all numbers of `other` in it?
    pub fn contains_all(&self, other: &Self) -> bool {
        other.0.iter().all(|&(start, end)| {
            let at = self.0.partition_point(|i| i.1 <= start);
            self.0.get(at).is_some_and(|i| i.0 <= start && end <= i.1)
        })
    }

    /// Has it a number of `other`?
    pub fn intersects(&self, other: &Self) -> bool {
        other.0.iter().any(|&(start, end)| {
            let at = self.0.partition_point(|i| i.1 <= start);
            self.0.get(at).is_some_and(|i| i.0 < end)
        })
    }

    /// The smallest number at or above `from` that is not in it; `None` when all are used up.
    pub fn first_free(&self, from: u64) -> Option<u64> {
        let from = from.max(1);
        let at = self.0.partition_point(|i| i.1 <= from);
        let free = match self.0.get(at) {
            Some(&(start, end)) if start <= from => end,
            _ => from,
        };
        (free < GNO_END).then_some(free)
    }

    fn is_canonical(&self) -> bool {
        self.0.iter().all(|i| i.0 < i.1) && self.0.windows(2).all(|w| w[0].1 < w[1].0)
    }
}
