//! Write stall statistics: causes, counts and durations.
//!
//! Neighbours: `admit` counts; `EngineStats` and `information_schema.ESKER_STALLS` show it.
//!
//! **Invariants**
//! - A writer is counted once per commit that is held, under the cause it was held for first.

use std::sync::atomic::{AtomicU64, Ordering};

use esker_vfs::Clock;

use crate::compact::Pressure;

/// What a writer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StallCause {
    /// Memtables of all trees together have nearly the memory they may have, so writers are slowed down: flushes.
    HighMemory,
    /// Memtables of all trees together have the memory they may have, so writers must wait: flushes.
    Memory,
    /// A tree has some memtables that are full, so its writers are slowed down: flushes.
    ManyMemtables,
    /// A tree has so many memtables that are full that its writers must wait: flushes.
    Memtables,
    /// A tree has many l0_runs in level 0, so its writers are slowed down: compaction.
    ManyRuns,
    /// A tree has so many l0_runs in level 0 that its writers must wait: compaction.
    TooManyRuns,
}

impl StallCause {
    /// All of them.
    pub const ALL: [StallCause; 6] = [
        StallCause::HighMemory,
        StallCause::Memory,
        StallCause::ManyMemtables,
        StallCause::Memtables,
        StallCause::ManyRuns,
        StallCause::TooManyRuns,
    ];

    pub(super) fn of_memory(pressure: Pressure) -> Self {
        match pressure {
            Pressure::Stop => StallCause::Memory,
            _ => StallCause::HighMemory,
        }
    }

    pub(super) fn of_memtables(pressure: Pressure) -> Self {
        match pressure {
            Pressure::Stop => StallCause::Memtables,
            _ => StallCause::ManyMemtables,
        }
    }

    pub(super) fn of_l0_runs(pressure: Pressure) -> Self {
        match pressure {
            Pressure::Stop => StallCause::TooManyRuns,
            _ => StallCause::ManyRuns,
        }
    }
}

/// Stalls for one cause since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Commits that were held, and are no more.
    pub count: u64,
    /// How long, all together, in nanoseconds.
    pub nanos: u64,
    /// The longest, in nanoseconds.
    pub longest_nanos: u64,
    /// Commits that are being held now.
    pub waiting: u64,
}

/// The figures of all causes, in the order of [`StallCause::ALL`].
#[derive(Default)]
pub(crate) struct StallCounters([Counter; StallCause::ALL.len()]);

#[derive(Default)]
struct Counter {
    count: AtomicU64,
    nanos: AtomicU64,
    longest_nanos: AtomicU64,
    waiting: AtomicU64,
}

/// A commit that is being held; it is counted when this is dropped.
pub(super) struct Stall<'a> {
    counter: &'a Counter,
    clock: &'a dyn Clock,
    since: u64,
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        let nanos = self.clock.mono_nanos().saturating_sub(self.since);
        let counter = self.counter;
        let waiting = counter.waiting.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(waiting > 0, "who waits was counted");
        counter.count.fetch_add(1, Ordering::Relaxed);
        counter.nanos.fetch_add(nanos, Ordering::Relaxed);
        counter.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }
}

impl StallCounters {
    /// A commit begins to be held.
    pub(super) fn begin<'a>(&'a self, cause: StallCause, clock: &'a dyn Clock) -> Stall<'a> {
        let counter = &self.0[cause as usize];
        counter.waiting.fetch_add(1, Ordering::Relaxed);
        Stall {
            counter,
            clock,
            since: clock.mono_nanos(),
        }
    }

    pub(crate) fn sample(&self) -> [(StallCause, Stalls); StallCause::ALL.len()] {
        StallCause::ALL.map(|cause| {
            let counter = &self.0[cause as usize];
            let stalls = Stalls {
                count: counter.count.load(Ordering::Relaxed),
                nanos: counter.nanos.load(Ordering::Relaxed),
                longest_nanos: counter.longest_nanos.load(Ordering::Relaxed),
                waiting: counter.waiting.load(Ordering::Relaxed),
            };
            (cause, stalls)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use esker_vfs::sim::SimClock;

    use super::*;

    #[test]
    fn stalls_are_summed_by_cause_and_the_longest_is_kept() {
        let counters = StallCounters::default();
        let clock = SimClock::new(0);
        let figures = |cause: StallCause| {
            let all = counters.sample();
            all.into_iter().find(|(it, _)| *it == cause).unwrap().1
        };
        for nanos in [5, 9, 2] {
            let stall = counters.begin(StallCause::Memtables, &clock);
            assert_eq!(figures(StallCause::Memtables).waiting, 1);
            clock.advance(Duration::from_nanos(nanos));
            drop(stall);
        }
        let expected = Stalls {
            count: 3,
            nanos: 16,
            longest_nanos: 9,
            waiting: 0,
        };
        assert_eq!(figures(StallCause::Memtables), expected);
        let others = counters.sample().into_iter();
        let mut others = others.filter(|(cause, _)| *cause != StallCause::Memtables);
        assert!(others.all(|(_, stalls)| stalls == Stalls::default()));
    }
}
