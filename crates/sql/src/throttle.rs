//! Throttle of long work in a session's thread: online builds and backups give others the processors where these are
//! short.
//!
//! Neighbours: of schema changes, `fill` asks between rows, by its `progress::Watch`, and while it merges; `catch_up`
//! asks for a time in each round; `server_backup` asks between pieces; `esker_vfs::threads` knows how long a thread has
//! waited for a processor. Why so: `docs/decisions/ddl-throttle.md`.
//!
//! **Invariants**
//! - How long a pause is is a pure function of what the slice of work before it has met.
//! - The work is done at least its least share of the time for which it gets a processor, and no pause is longer
//!   than [`MAX_PAUSE`]: it always gets on, and hears of a KILL.
//! - What holds an exclusive lock does not pause. What follows changes of others pauses for a time only, see [`Pace`].

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

/// Pauses of one kind of work since the start.
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
    /// `esker_ddl_least_share` or `esker_backup_least_share`.
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

    /// Gives way from now on, for so long.
    pub(crate) fn for_at_most(&self, time: Duration) -> Pace<'_> {
        // What the thread has done before is no matter of the first slice.
        self.since.set(None);
        Pace {
            throttle: self,
            until: Instant::now() + time,
        }
    }

    /// Between two rows or pieces: pauses if others need it. `holds_writers`: do writers wait for background work?
    pub(crate) fn look(&self, holds_writers: impl FnOnce() -> bool) {
        self.look_within(MAX_PAUSE, holds_writers);
    }

    /// The same, with pauses that are no longer than `at_most`.
    fn look_within(&self, at_most: Duration, holds_writers: impl FnOnce() -> bool) {
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
        let pause = slice.pause(self.least_percent).min(at_most);
        if pause.is_zero() {
            return self.since.set(Some(now));
        }
        self.pauses.add(pause);
        thread::sleep(pause);
        // What it has waited for after the pause is no matter of the next slice.
        self.since.set(Some(Reading::now()));
    }
}

/// A throttle for a limited time.
///
/// What follows changes has more to follow the longer it takes. If it pauses for no longer than half of the time whose
/// changes it follows, the next round has half as many, or as many as there are while it works all the time.
pub(crate) struct Pace<'a> {
    throttle: &'a Throttle<'a>,
    until: Instant,
}

impl Pace<'_> {
    /// Between two rows, as [`Throttle::look`], until the time is over.
    pub(crate) fn look(&self, holds_writers: impl FnOnce() -> bool) {
        let left = self.until.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            self.throttle.look_within(left, holds_writers);
        }
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

    #[test]
    fn pauses_are_no_longer_than_asked_for_and_end_with_their_time() {
        let pauses = Pauses::default();
        let throttle = Throttle::new(1, &pauses);
        let limit = Instant::now() + Duration::from_secs(60);
        let busy = || {
            let until = Instant::now() + SLICE;
            while Instant::now() < until {}
        };
        while pauses.count() < 3 {
            assert!(Instant::now() < limit);
            throttle.look_within(ms(2), || true);
            busy();
        }
        assert!(pauses.millis() <= 2 * pauses.count());

        let before = pauses.count();
        let pace = throttle.for_at_most(Duration::from_secs(60));
        while pauses.count() == before {
            assert!(Instant::now() < limit);
            pace.look(|| true);
            busy();
        }
        let over = throttle.for_at_most(Duration::ZERO);
        let before = pauses.count();
        for _ in 0..5 {
            over.look(|| true);
            busy();
        }
        assert_eq!(pauses.count(), before);
    }
}
