//! Where transactions end in the files: which position a snapshot of the engine has.
//!
//! Neighbours: `set` adds a place for every transaction; `view` keeps the newest ones beside the view they belong to.
//! **Invariants**: places are in the order of the log, which is that of the files; at most [`MOST`] are kept.

use std::collections::VecDeque;

use super::names::FileNumber;

/// Places that are kept: a session that asks is behind by what was committed within milliseconds.
const MOST: usize = 1 << 16;

/// The end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// End of its record in the log.
    pub lsn: u64,
    /// The file it is in.
    pub file: FileNumber,
    /// Where its last event ends.
    pub offset: u64,
    /// The number in its GTID; 0 without one.
    pub gno: u64,
}

/// The newest places.
#[derive(Debug, Default)]
pub(super) struct Places(VecDeque<Place>);

impl Places {
    /// Adds what comes behind all others; a reset goes back in the files.
    pub(super) fn add(&mut self, new: Vec<Place>) {
        let is_before =
            |last: &Place, first: &Place| (last.file, last.offset) > (first.file, first.offset);
        if let (Some(last), Some(first)) = (self.0.back(), new.first())
            && is_before(last, first)
        {
            self.0.clear();
        }
        self.0.extend(new);
        let surplus = self.0.len().saturating_sub(MOST);
        self.0.drain(..surplus);
    }

    /// Up to where everything in the log is in the files before this place, or in none at all: to the next transaction,
    /// or to the end of the view. Also how many transactions there are between `known` and there.
    pub(super) fn covered(
        &self,
        (file, offset): (FileNumber, u64),
        end: u64,
        known: u64,
    ) -> (u64, u64) {
        let next = self
            .0
            .partition_point(|place| (place.file, place.offset) <= (file, offset));
        let first = self.first_behind(known);
        (self.before(next, end), next.saturating_sub(first) as u64)
    }

    /// Up to where there is no transaction behind `known`.
    pub(super) fn without_transaction(&self, known: u64, end: u64) -> u64 {
        self.before(self.first_behind(known), end)
    }

    fn first_behind(&self, known: u64) -> usize {
        self.0.partition_point(|place| place.lsn <= known)
    }

    /// Up to where the log is before this transaction, or to the end.
    fn before(&self, next: usize, end: u64) -> u64 {
        self.0.get(next).map_or(end, |place| place.lsn - 1)
    }

    /// The number of the transaction whose record ends at `lsn`, if it has one and is not too long ago.
    pub(super) fn gno(&self, lsn: u64) -> Option<u64> {
        let at = self.0.binary_search_by_key(&lsn, |place| place.lsn).ok()?;
        Some(self.0[at].gno).filter(|gno| *gno != 0)
    }

    /// The end of everything that a snapshot at `lsn` sees; `None` if that is too long ago.
    pub(super) fn at(&self, lsn: u64) -> Option<Place> {
        let behind = self.0.partition_point(|place| place.lsn <= lsn);
        behind.checked_sub(1).map(|at| self.0[at])
    }
}
