//! Who was held back by background work: why, how often, how long.
//!
//! Neighbours: `hold_writer` counts; `EngineStats` and `information_schema.ESKER_STALLS` show it.
//!
//! **Invariants**
//! - A writer is counted once per commit that is held, under the cause it was held for first.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a writer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StallCause {
    /// Memtables of all trees together have the memory they may have: flushes.
    Memory,
    /// A tree has too many memtables that are full: flushes.
    Memtables,
    /// A tree has many layers in level 0, so its writers are slowed down a little: compaction.
    ManyLayers,
    /// A tree has so many layers in level 0 that its writers must wait: compaction.
    TooManyLayers,
}

impl StallCause {
    /// All of them.
    pub const ALL: [StallCause; 4] = [
        StallCause::Memory,
        StallCause::Memtables,
        StallCause::ManyLayers,
        StallCause::TooManyLayers,
    ];
}

/// Stalls for one cause since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Commits that were held.
    pub count: u64,
    /// How long, all together, in nanoseconds.
    pub nanos: u64,
    /// The longest, in nanoseconds.
    pub longest_nanos: u64,
}

/// The figures of all causes, in the order of [`StallCause::ALL`].
#[derive(Default)]
pub(crate) struct StallCounters([Counter; StallCause::ALL.len()]);

#[derive(Default)]
struct Counter {
    count: AtomicU64,
    nanos: AtomicU64,
    longest_nanos: AtomicU64,
}

impl StallCounters {
    pub(super) fn note(&self, cause: StallCause, nanos: u64) {
        let counter = &self.0[cause as usize];
        counter.count.fetch_add(1, Ordering::Relaxed);
        counter.nanos.fetch_add(nanos, Ordering::Relaxed);
        counter.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(crate) fn look(&self) -> [(StallCause, Stalls); StallCause::ALL.len()] {
        StallCause::ALL.map(|cause| {
            let counter = &self.0[cause as usize];
            let stalls = Stalls {
                count: counter.count.load(Ordering::Relaxed),
                nanos: counter.nanos.load(Ordering::Relaxed),
                longest_nanos: counter.longest_nanos.load(Ordering::Relaxed),
            };
            (cause, stalls)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_summed_by_cause_and_the_longest_is_kept() {
        let counters = StallCounters::default();
        for nanos in [5, 9, 2] {
            counters.note(StallCause::Memtables, nanos);
        }
        counters.note(StallCause::TooManyLayers, 1);
        let stalls = |count, nanos, longest_nanos| Stalls {
            count,
            nanos,
            longest_nanos,
        };
        let expected = [
            (StallCause::Memory, Stalls::default()),
            (StallCause::Memtables, stalls(3, 16, 9)),
            (StallCause::ManyLayers, Stalls::default()),
            (StallCause::TooManyLayers, stalls(1, 1, 1)),
        ];
        assert_eq!(counters.look(), expected);
    }
}
