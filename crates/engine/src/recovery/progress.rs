//! How far a replay is, and how to wait for it.
//!
//! Neighbours: the replay's threads report here; every entry point of the engine asks here first; the layer above shows
//! it.
//!
//! A replay has two phases. While the log is **read**, nothing is known for certain: a newer version, the decision
//! about a prepared transaction or damage may still come. So nobody reads or writes before it is over. While shards are
//! **sorted** everything works; who needs a shard that is not sorted yet sorts it.
//!
//! **Invariants**
//! - The phase only moves forward, or to failed. After a failure nobody gets in.
//! - Whoever waits is woken when the phase that he waits for is reached, or when it never will be.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use esker_vfs::Clock;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::ReplayStats;
use crate::{EngineError, Result};

/// What a replay is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ReplayPhase {
    /// The log is being read; statements wait.
    Reading = 0,
    /// Statements run; what the log had is still being sorted.
    Sorting = 1,
    /// It is over.
    Done = 2,
    /// It has failed: the log is damaged, or the engine was shut down meanwhile. Statements are refused.
    Failed = 3,
}

impl ReplayPhase {
    fn from_code(code: u8) -> ReplayPhase {
        match code {
            0 => ReplayPhase::Reading,
            1 => ReplayPhase::Sorting,
            2 => ReplayPhase::Done,
            _ => ReplayPhase::Failed,
        }
    }
}

/// How far a replay is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayProgress {
    /// What it is doing.
    pub phase: ReplayPhase,
    /// Bytes of the log that are read or were found superfluous.
    pub bytes_done: u64,
    /// Bytes of the log.
    pub bytes_total: u64,
    /// Records met.
    pub records: u64,
    /// Versions taken over.
    pub rows: u64,
    /// Shards that are sorted.
    pub shards_built: u64,
    /// Shards; 0 while the log is being read.
    pub shards_total: u64,
    /// Time since the replay began, or that it took.
    pub elapsed: Duration,
    /// Time until statements could run; what has passed so far while they cannot.
    pub until_ready: Duration,
    /// Times the memory limit was reached, so that memory had to be flushed.
    pub flushes: u64,
    /// The most memory that was needed for what was read, bytes.
    pub peak_bytes: u64,
    /// Why it has failed.
    pub error: Option<EngineError>,
}

/// What moves when the phase does.
#[derive(Default)]
struct Waiting {
    error: Option<EngineError>,
    wakers: Vec<(ReplayPhase, Waker)>,
    ready_nanos: Option<u64>,
    end_nanos: Option<u64>,
}

/// A replay as everybody sees it.
pub(crate) struct Recovery {
    phase: AtomicU8,
    waiting: Mutex<Waiting>,
    moved: Condvar,
    clock: Arc<dyn Clock>,
    start_nanos: u64,
    bytes_total: u64,
    pub(super) bytes_done: AtomicU64,
    pub(super) records: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) peak_bytes: AtomicU64,
    pub(super) shards_total: AtomicU64,
    pub(super) shards_sorted: Arc<AtomicU64>,
    stop: AtomicBool,
}

impl Recovery {
    pub(crate) fn new(clock: Arc<dyn Clock>, bytes_total: u64) -> Arc<Self> {
        Arc::new(Recovery {
            phase: AtomicU8::new(ReplayPhase::Reading as u8),
            waiting: Mutex::default(),
            moved: Condvar::new(),
            start_nanos: clock.mono_nanos(),
            clock,
            bytes_total,
            bytes_done: AtomicU64::new(0),
            records: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            shards_total: AtomicU64::new(0),
            shards_sorted: Arc::default(),
            stop: AtomicBool::new(false),
        })
    }

    #[inline]
    pub(crate) fn phase(&self) -> ReplayPhase {
        ReplayPhase::from_code(self.phase.load(Ordering::Acquire))
    }

    /// Whether statements may run.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase(), ReplayPhase::Sorting | ReplayPhase::Done)
    }

    /// Returns when statements may run, or refuses.
    #[inline]
    pub(crate) fn ready(&self) -> Result<()> {
        if self.is_ready() {
            return Ok(());
        }
        self.block_until(ReplayPhase::Sorting)
    }

    /// Parks until the phase is reached.
    #[cold]
    pub(crate) fn block_until(&self, phase: ReplayPhase) -> Result<()> {
        let mut waiting = self.waiting.lock();
        loop {
            match self.outcome(phase, &waiting) {
                Some(outcome) => return outcome,
                None => self.moved.wait(&mut waiting),
            }
        }
    }

    /// Asks the replay to end early.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// An error once the replay is to end early.
    pub(super) fn check_stop(&self) -> Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(EngineError::Stopped("shutting down".into())),
            false => Ok(()),
        }
    }

    pub(super) fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// The log is read from `from` up to `end`.
    pub(super) fn bytes_done_up_to(&self, end: u64, from: u64) {
        let done = end.saturating_sub(from).min(self.bytes_total);
        self.bytes_done.store(done, Ordering::Relaxed);
    }

    fn outcome(&self, phase: ReplayPhase, waiting: &Waiting) -> Option<Result<()>> {
        let now = self.phase();
        if now >= phase && now != ReplayPhase::Failed {
            return Some(Ok(()));
        }
        waiting.error.clone().map(Err)
    }

    /// The phase is reached.
    pub(super) fn reach(&self, phase: ReplayPhase) {
        let now = self.clock.mono_nanos();
        let mut waiting = self.waiting.lock();
        if waiting.error.is_some() {
            return;
        }
        debug_assert!(self.phase() < phase);
        waiting.ready_nanos.get_or_insert(now);
        if phase == ReplayPhase::Done {
            waiting.end_nanos = Some(now);
        }
        self.phase.store(phase as u8, Ordering::Release);
        self.wake(waiting);
    }

    /// The replay ends here, unless it is over. Statements that run already go on.
    pub(crate) fn fail(&self, error: EngineError) {
        let mut waiting = self.waiting.lock();
        if waiting.error.is_some() || waiting.end_nanos.is_some() {
            return;
        }
        waiting.end_nanos = Some(self.clock.mono_nanos());
        waiting.error = Some(error);
        if self.phase() == ReplayPhase::Reading {
            let failed = ReplayPhase::Failed as u8;
            self.phase.store(failed, Ordering::Release);
        }
        self.wake(waiting);
    }

    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let phase = self.phase();
        let mut wakers = std::mem::take(&mut waiting.wakers);
        if waiting.error.is_none() {
            waiting.wakers = wakers
                .extract_if(.., |(wanted, _)| *wanted > phase)
                .collect();
        }
        drop(waiting);
        self.moved.notify_all();
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(crate) fn stats(&self) -> ReplayStats {
        ReplayStats {
            records: self.records.load(Ordering::Relaxed),
            writes: self.rows.load(Ordering::Relaxed),
            flushes: self.flushes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn progress(&self) -> ReplayProgress {
        let (ready_nanos, end_nanos, error) = {
            let waiting = self.waiting.lock();
            let error = waiting.error.clone();
            (waiting.ready_nanos, waiting.end_nanos, error)
        };
        let now = self.clock.mono_nanos();
        let since_start = |nanos: u64| Duration::from_nanos(nanos.saturating_sub(self.start_nanos));
        let elapsed = since_start(end_nanos.unwrap_or(now));
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        ReplayProgress {
            phase: self.phase(),
            // The first task may begin before what has to be looked at.
            bytes_done: load(&self.bytes_done).min(self.bytes_total),
            bytes_total: self.bytes_total,
            records: load(&self.records),
            rows: load(&self.rows),
            shards_built: load(&self.shards_sorted),
            shards_total: load(&self.shards_total),
            elapsed,
            until_ready: ready_nanos.map_or(elapsed, since_start),
            flushes: load(&self.flushes),
            peak_bytes: load(&self.peak_bytes),
            error,
        }
    }
}

/// Resolves when a replay is that far, or with the error that ended it. Made by [`crate::Engine::wait_replayed`] and
/// [`crate::Engine::wait_built`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Replayed {
    recovery: Arc<Recovery>,
    phase: ReplayPhase,
}

impl Replayed {
    pub(crate) fn new(recovery: &Arc<Recovery>, phase: ReplayPhase) -> Self {
        Replayed {
            recovery: Arc::clone(recovery),
            phase,
        }
    }

    /// Parks the thread instead.
    pub fn block(&self) -> Result<()> {
        self.recovery.block_until(self.phase)
    }
}

impl Future for Replayed {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut waiting = self.recovery.waiting.lock();
        if let Some(outcome) = self.recovery.outcome(self.phase, &waiting) {
            return Poll::Ready(outcome);
        }
        let known = |(phase, waker): &(ReplayPhase, Waker)| {
            *phase == self.phase && waker.will_wake(context.waker())
        };
        if !waiting.wakers.iter().any(known) {
            waiting.wakers.push((self.phase, context.waker().clone()));
        }
        Poll::Pending
    }
}
