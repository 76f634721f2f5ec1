//! Throttle of online builds: a schema change that others pass by gives them the processors where these are short.
//!
//! Neighbours: `fill` asks between rows, by its `progress::Watch`, and while it merges; `esker_vfs::threads` knows how
//! long a thread has waited for a processor. Why so: `docs/decisions/ddl-throttle.md`.
//!
//! **Invariants**
//! - How long a pause is is a pure function of what the slice of work before it has met.
//! - A build works at least its least share of the time for which it gets a processor, and no pause is longer than
//!   [`MAX_PAUSE`]: it always gets on, and hears of a KILL.
//! - What holds an exclusive lock, and what follows changes of others, does not pause.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use esker_vfs::threads;

/// Shorter slices of work are not judged.
const SLICE: Duration = Duration::from_millis(5);
/// The longest pause, however long a slice took.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Processors are short if a slice has waited for one for this part of its time, in percent.
const SHORT_PERCENT: u32 = 10;

/// Pauses of all schema changes since the start.
#[derive(Debug, Default)]
pub struct Pauses {
    count: AtomicU64,
    micros: AtomicU64,
}

impl Pauses {
    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How long they were together, in milliseconds.
    pub(crate) fn millis(&self) -> u64 {
        self.micros.load(Ordering::Relaxed) / 1000
    }

    fn add(&self, pause: Duration) {
        let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

/// What a slice of work has met.
#[derive(Debug, Clone, Copy)]
struct Slice {
    /// Processor time used.
    used: Duration,
    /// Waited for a processor.
    queued: Duration,
    /// Writers wait for flushes and compactions.
    holds_writers: bool,
}

impl Slice {
    fn meets_others(&self) -> bool {
        self.holds_writers || self.queued * 100 > (self.used + self.queued) * SHORT_PERCENT
    }

    /// How long to pause after it, so as to work this part of the time where others need it.
    fn pause(&self, least_percent: u32) -> Duration {
        debug_assert!((1..=100).contains(&least_percent));
        let pause = match self.meets_others() {
            true => self.used * (100 - least_percent) / least_percent,
            false => Duration::ZERO,
        };
        pause.min(MAX_PAUSE)
    }
}

/// The calling thread's times.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    used: Duration,
    queued: Duration,
}

impl Reading {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            used: threads::processor_time(),
            queued: threads::queued_time().unwrap_or_default(),
        }
    }
}

/// The throttle of one statement.
pub struct Throttle<'a> {
    /// `esker_ddl_least_share`.
    least_percent: u32,
    pauses: &'a Pauses,
    /// When the slice began.
    since: Cell<Option<Reading>>,
}

impl<'a> Throttle<'a> {
    /// `least_percent`: which part of the time it works where others need the processors; 100: always.
    pub(crate) fn new(least_percent: u32, pauses: &'a Pauses) -> Self {
        Self {
            least_percent: least_percent.clamp(1, 100),
            pauses,
            since: Cell::new(None),
        }
    }

    /// Between two rows: pauses if others need it. `holds_writers`: do writers wait for background work?
    pub(super) fn look(&self, holds_writers: impl FnOnce() -> bool) {
        if self.least_percent == 100 {
            return;
        }
        let Some(since) = self.since.get() else {
            return self.since.set(Some(Reading::now()));
        };
        if since.at.elapsed() < SLICE {
            return;
        }
        let now = Reading::now();
        let slice = Slice {
            used: now.used.saturating_sub(since.used),
            queued: now.queued.saturating_sub(since.queued),
            holds_writers: holds_writers(),
        };
        let pause = slice.pause(self.least_percent);
        if pause.is_zero() {
            return self.since.set(Some(now));
        }
        self.pauses.add(pause);
        thread::sleep(pause);
        // What it has waited for after the pause is no matter of the next slice.
        self.since.set(Some(Reading::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn slice(used: u64, queued: u64, holds_writers: bool) -> Slice {
        Slice {
            used: ms(used),
            queued: ms(queued),
            holds_writers,
        }
    }

    #[test]
    fn a_build_pauses_where_others_need_what_it_has() {
        assert_eq!(slice(6, 0, false).pause(25), ms(0));
        assert_eq!(slice(90, 10, false).pause(25), ms(0));
        assert_eq!(slice(10, 2, false).pause(25), ms(30));
        assert_eq!(slice(10, 90, false).pause(25), ms(30));
        assert_eq!(slice(10, 0, true).pause(50), ms(10));
        assert_eq!(slice(10, 90, true).pause(100), ms(0));
    }

    #[test]
    fn no_pause_is_long_and_none_comes_after_nothing() {
        assert_eq!(slice(1000, 1000, true).pause(1), MAX_PAUSE);
        // It waited for the disk, and has used nothing that others could have had.
        assert_eq!(slice(0, 0, true).pause(1), ms(0));
        assert_eq!(slice(0, 50, false).pause(1), ms(0));
    }

    #[test]
    fn pauses_are_counted_and_a_whole_share_has_none() {
        let pauses = Pauses::default();
        let work = |throttle: &Throttle<'_>| {
            throttle.look(|| true);
            let until = Instant::now() + SLICE;
            while Instant::now() < until {}
            throttle.look(|| true);
        };
        work(&Throttle::new(100, &pauses));
        assert_eq!((pauses.count(), pauses.millis()), (0, 0));
        let limit = Instant::now() + Duration::from_secs(60);
        while pauses.count() == 0 {
            assert!(Instant::now() < limit);
            work(&Throttle::new(50, &pauses));
        }
    }
}
