//! Sets of transactions of many servers.
//!
//! Neighbours: `text` and `binary` read and write them.
//! **Invariants**: no source is there without a number, so equal sets are equal maps.

use std::collections::BTreeMap;

use super::{Gtid, IntervalSet, Source};

/// A set of transactions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidSet(BTreeMap<Source, IntervalSet>);

impl GtidSet {
    /// Of intervals of each source in any order, which may overlap.
    pub(super) fn of_intervals(sources: BTreeMap<Source, Vec<(u64, u64)>>) -> Self {
        let sets = sources
            .into_iter()
            .map(|(source, intervals)| (source, IntervalSet::of(intervals)));
        Self(sets.filter(|(_, numbers)| !numbers.is_empty()).collect())
    }

    /// Its sources in order, each with its numbers.
    pub fn sources(&self) -> impl Iterator<Item = (&Source, &IntervalSet)> {
        self.0.iter()
    }

    /// Has it none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many transactions.
    pub fn count(&self) -> u64 {
        self.0.values().map(IntervalSet::count).sum()
    }

    /// The numbers of a source.
    pub fn of(&self, source: &Source) -> Option<&IntervalSet> {
        self.0.get(source)
    }

    /// Adds a transaction.
    pub fn add(&mut self, gtid: &Gtid) {
        self.add_range(&gtid.source, gtid.gno, gtid.gno + 1);
    }

    /// Adds `[start, end)` of a source.
    pub fn add_range(&mut self, source: &Source, start: u64, end: u64) {
        if start >= end {
            return;
        }
        match self.0.get_mut(source) {
            Some(numbers) => numbers.add(start, end),
            None => self.0.entry(source.clone()).or_default().add(start, end),
        }
    }

    /// Adds what `other` has.
    pub fn union(&mut self, other: &Self) {
        for (source, numbers) in &other.0 {
            for &(start, end) in numbers.intervals() {
                self.add_range(source, start, end);
            }
        }
    }

    /// Takes away what `other` has.
    pub fn subtract(&mut self, other: &Self) {
        for (source, numbers) in &other.0 {
            let Some(own) = self.0.get_mut(source) else {
                continue;
            };
            for &(start, end) in numbers.intervals() {
                own.remove(start, end);
            }
            if own.is_empty() {
                self.0.remove(source);
            }
        }
    }

    /// Is this transaction in it?
    pub fn contains(&self, gtid: &Gtid) -> bool {
        let numbers = self.0.get(&gtid.source);
        numbers.is_some_and(|numbers| numbers.contains(gtid.gno))
    }

    /// Are all transactions of `other` in it?
    pub fn contains_all(&self, other: &Self) -> bool {
        other.0.iter().all(|(source, numbers)| {
            self.0
                .get(source)
                .is_some_and(|own| own.contains_all(numbers))
        })
    }

    /// Has it a transaction of `other`?
    pub fn intersects(&self, other: &Self) -> bool {
        other.0.iter().any(|(source, numbers)| {
            self.0
                .get(source)
                .is_some_and(|own| own.intersects(numbers))
        })
    }

    /// The smallest number of a source at or above `from` that is free.
    pub fn first_free(&self, source: &Source, from: u64) -> Option<u64> {
        match self.0.get(source) {
            Some(numbers) => numbers.first_free(from),
            None => Some(from.max(1)),
        }
    }
}
