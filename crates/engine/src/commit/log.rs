//! The engine's view of the log: plain sequences, its own errors, and one way to wait.
//!
//! Neighbours: `esker-wal` below; `commit` appends, `maintain` hardens and releases.
//!
//! **Invariants**
//! - Whoever appends completes the record in the watermark, also when nothing is applied.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use esker_wal::{DurableFuture, Lsn, RecordKind, Wal, WalStats};

use super::watermark::Visible;
use crate::{Result, Seq};

/// The place of a record: it starts at `start`, and its end is its commit sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) seq: Seq,
}

/// The log.
pub(crate) struct Log {
    wal: Wal,
}

impl Log {
    pub(crate) fn new(wal: Wal) -> Self {
        Log { wal }
    }

    /// Appends a record; this is the moment that fixes the order.
    pub(crate) fn append(&self, kind: RecordKind, trees: &[u32], payload: &[u8]) -> Result<Place> {
        let range = self.wal.append(kind, trees, &[payload])?;
        Ok(Place {
            start: range.start.0,
            seq: range.end.0,
        })
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
        Ok(self.wal.wait_durable(Lsn(seq)).block()?)
    }

    pub(crate) fn wait_durable(&self, seq: Seq) -> DurableFuture {
        self.wal.wait_durable(Lsn(seq))
    }

    /// The log before `lsn` is not needed any more.
    pub(crate) fn release_below(&self, lsn: u64) -> Result<()> {
        Ok(self.wal.release_below(Lsn(lsn))?)
    }

    pub(crate) fn stats(&self) -> WalStats {
        self.wal.stats()
    }

    /// Flushes, marks the end as clean and closes.
    pub(crate) fn shutdown(&self) -> Result<()> {
        Ok(self.wal.shutdown()?)
    }
}

/// Resolves when a sequence survives a crash and every later snapshot sees it. Made by `Engine::wait_durable`.
#[must_use = "a future does nothing unless awaited"]
pub struct Durable {
    log: DurableFuture,
    hardened: bool,
    visible: Visible,
}

impl Durable {
    pub(crate) fn new(log: DurableFuture, visible: Visible) -> Self {
        Durable {
            log,
            hardened: false,
            visible,
        }
    }

    /// Parks the thread until the sequence is durable and visible.
    pub fn block(self) -> Result<()> {
        if !self.hardened {
            self.log.block()?;
        }
        self.visible.block();
        Ok(())
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.hardened {
            match Pin::new(&mut self.log).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(())) => self.hardened = true,
            }
        }
        Pin::new(&mut self.visible).poll(context).map(Ok)
    }
}
