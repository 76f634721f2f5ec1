//! The engine's view of the log: plain sequences, its own errors, and one way to wait.
//!
//! Neighbours: `esker-wal` below; `commit` appends, `maintain` hardens and releases.
//!
//! **Invariants**
//! - Whoever appends completes the record in the watermark, also when nothing is applied.
//! - Beyond its ceiling the log does not grow, but for a little that makes room.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use esker_wal::{
    Draft, Driven, DurableFuture, FlushPolicy, LogSpace, Lsn, LsnRange, Turn, Wal, WalStats,
};

use super::gate::Gate;
use super::held::HeldLocks;
use super::level::Reached;
use super::watermark::Watermark;
use crate::{EngineError, Result, Seq};

/// What makes room may grow the log by so much beyond its ceiling.
const ROOM_ABOVE_CEILING: u64 = 64 << 20;

/// The place of a record: it starts at `start`, and its end is its commit sequence.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a record that is never completed stops the watermark"]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) seq: Seq,
}

impl Place {
    fn of(range: LsnRange) -> Self {
        assert!(range.start < range.end, "a record has a length");
        Place {
            start: range.start.0,
            seq: range.end.0,
        }
    }

    /// Everything about the record is applied. Gives its sequence.
    pub(crate) fn complete(self, watermark: &Watermark) -> Seq {
        watermark.complete(self.start, self.seq);
        self.seq
    }
}

/// The log.
pub(crate) struct Log {
    wal: Wal,
    /// The log may end here, while a follower that cannot go on keeps all of it; `u64::MAX` otherwise.
    ceiling: AtomicU64,
}

impl Log {
    pub(crate) fn new(wal: Wal) -> Self {
        let ceiling = AtomicU64::new(u64::MAX);
        Log { wal, ceiling }
    }

    /// From now on the log may grow up to here; `None`: as far as there is space.
    pub(crate) fn set_ceiling(&self, ceiling: Option<Seq>) {
        let ceiling = ceiling.unwrap_or(u64::MAX);
        self.ceiling.store(ceiling, Ordering::Relaxed);
    }

    /// Is there a place for a record that may go so far beyond the ceiling?
    #[inline]
    fn admit(&self, beyond: u64) -> Result<()> {
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        if ceiling == u64::MAX || self.end() < ceiling.saturating_add(beyond) {
            return Ok(());
        }
        let what = "the log may not grow while its follower waits for space";
        Err(EngineError::DiskFull(what.into()))
    }

    /// Appends a record; this is the moment that fixes the order.
    pub(super) fn append(&self, draft: &Draft<'_>) -> Result<Place> {
        self.admit(0)?;
        Ok(Place::of(self.wal.append(draft)?))
    }

    /// As [`Log::append`], for a record that makes room: on a full disk it may use what is held back from others.
    pub(super) fn append_making_room(&self, draft: &Draft<'_>) -> Result<Place> {
        self.admit(ROOM_ABOVE_CEILING)?;
        Ok(Place::of(self.wal.append_making_room(draft)?))
    }

    #[inline]
    pub(crate) fn durable(&self) -> Seq {
        self.wal.durable().0
    }

    pub(crate) fn end(&self) -> u64 {
        self.wal.end().0
    }

    /// Writes and syncs everything appended so far (manual mode).
    pub(crate) fn flush(&self) -> Result<()> {
        Ok(self.wal.flush_now()?)
    }

    /// Returns when the log is durable up to `seq`.
    pub(crate) fn harden(&self, seq: Seq) -> Result<()> {
        if self.durable() >= seq {
            return Ok(());
        }
        self.wal.wait_durable(Lsn(seq)).block()?;
        debug_assert!(self.durable() >= seq, "it was waited for");
        Ok(())
    }

    /// Makes `seq` durable on this thread if that is quicker than having it done; else false.
    pub(crate) fn harden_if_quick(&self, seq: Seq) -> Result<bool> {
        Ok(self.wal.harden_if_quick(Lsn(seq))?)
    }

    /// Sees to it that `seq` becomes durable, see [`Wal::drive`].
    pub(crate) fn drive(&self, seq: Seq, turn: Turn) -> Result<Driven> {
        Ok(self.wal.drive(Lsn(seq), turn)?)
    }

    /// Asks for everything appended so far to be made durable.
    pub(crate) fn request_flush(&self) {
        self.wal.request_flush();
    }

    pub(crate) fn wait_durable(&self, seq: Seq) -> DurableFuture {
        self.wal.wait_durable(Lsn(seq))
    }

    /// Wakes `waker` once when `seq` is durable or never will be. Asks for the flush.
    pub(crate) fn notify_durable(&self, seq: Seq, waker: Waker) {
        self.wal.notify_durable(Lsn(seq), waker);
    }

    /// The log before `lsn` is not needed any more.
    pub(crate) fn release_below(&self, lsn: u64) -> Result<()> {
        Ok(self.wal.release_below(Lsn(lsn))?)
    }

    pub(crate) fn stats(&self) -> WalStats {
        self.wal.stats()
    }

    /// Calls `f` with the place up to which groups have begun: nothing behind it becomes durable meanwhile.
    pub(crate) fn while_nothing_is_taken<T>(&self, f: impl FnOnce(Seq) -> T) -> T {
        self.wal.while_nothing_is_taken(|taken| f(taken.0))
    }

    /// For those who follow the log.
    pub(crate) fn wal(&self) -> &Wal {
        &self.wal
    }

    pub(crate) fn space(&self) -> LogSpace {
        self.wal.space()
    }

    pub(crate) fn segment_starts(&self) -> Vec<Seq> {
        let starts = self.wal.segment_starts().into_iter();
        starts.map(|start| start.0).collect()
    }

    pub(crate) fn flush_policy(&self) -> FlushPolicy {
        self.wal.flush_policy()
    }

    pub(crate) fn set_flush_policy(&self, policy: &FlushPolicy) {
        self.wal.set_flush_policy(policy);
    }

    /// Flushes, marks the end as clean and closes.
    pub(crate) fn shutdown(&self) -> Result<()> {
        Ok(self.wal.shutdown()?)
    }
}

/// Resolves when a sequence survives a crash and every later snapshot sees it. Made by `Engine::wait_durable`.
///
/// When it resolves, the locks of every transaction up to the sequence that were held for the log are free. With
/// asynchronous commit it does not wait for the log. What there is nothing to wait for is left out from the beginning.
#[must_use = "a future does nothing unless awaited"]
pub struct Durable {
    log: Option<DurableFuture>,
    visible: Option<Reached>,
    /// What others have to acknowledge.
    gate: Option<Reached>,
    held: Option<Arc<HeldLocks>>,
    seq: Seq,
}

impl Durable {
    /// Waits for `log` first, then for the watermark, and then at the gate.
    pub(crate) fn new(
        log: Option<DurableFuture>,
        watermark: &Watermark,
        gate: &Gate,
        held: &Arc<HeldLocks>,
        seq: Seq,
    ) -> Self {
        Durable {
            log,
            visible: (watermark.visible() < seq).then(|| watermark.reached(seq)),
            gate: gate.to_await(seq),
            held: held.are_any().then(|| Arc::clone(held)),
            seq,
        }
    }

    /// The same, whoever has to acknowledge it: for what tells nobody of rows.
    pub fn unacknowledged(mut self) -> Self {
        self.gate = None;
        self
    }

    /// Does others' acknowledgement count among what is waited for?
    pub fn is_to_be_acknowledged(&self) -> bool {
        self.gate.is_some()
    }

    /// Parks the thread until the sequence may be told.
    pub fn block(mut self) -> Result<()> {
        if let Some(log) = self.log.take() {
            log.block()?;
            self.hardened();
        }
        for reached in self.visible.iter().chain(&self.gate) {
            reached.block();
        }
        Ok(())
    }

    fn hardened(&mut self) {
        self.log = None;
        if let Some(held) = &self.held {
            held.release_up_to(self.seq);
        }
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(log) = &mut self.log {
            match Pin::new(log).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(())) => self.hardened(),
            }
        }
        let Durable { visible, gate, .. } = &mut *self;
        for reached in visible.iter_mut().chain(gate) {
            if Pin::new(reached).poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }
}
