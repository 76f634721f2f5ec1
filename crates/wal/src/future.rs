//! Waiting for durability: a future that can also be blocked on.
//!
//! **Invariants**
//! - Resolves `Ok` only when everything below the LSN has been synced.
//! - Dropping it at any time leaves nothing behind but an empty queue entry, gone with the next
//!   group.

use std::cell::OnceCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::config::FlushMode;
use crate::error::WalError;
use crate::flush::Flushed;
use crate::lsn::Lsn;
use crate::shared::Shared;
use crate::stats::WaitCause;

/// Resolves when the log is durable up to an LSN, or has failed before.
#[must_use = "nothing is known to be durable before it resolves"]
pub struct DurableFuture {
    shared: Arc<Shared>,
    lsn: Lsn,
    ticket: Option<u64>,
    /// Clock when it was first found not durable, nanoseconds.
    waits_since: Option<u64>,
    /// It follows what others have made durable: it neither asks for a flush nor counts as a commit that waits.
    follows: bool,
}

impl DurableFuture {
    pub(crate) fn new(shared: Arc<Shared>, lsn: Lsn) -> Self {
        // Now, not at the first poll: the group may as well begin while the caller does other
        // things.
        shared.request_flush(lsn);
        Self {
            shared,
            lsn,
            ticket: None,
            waits_since: None,
            follows: false,
        }
    }

    /// Waits until others have had the log flushed.
    pub(crate) fn of_others(shared: Arc<Shared>, lsn: Lsn) -> Self {
        Self {
            shared,
            lsn,
            ticket: None,
            waits_since: None,
            follows: true,
        }
    }

    /// Waits on this thread. Without a daemon it flushes by itself.
    pub fn block(self) -> Result<(), WalError> {
        self.block_until(None).map(|_| ())
    }

    /// As [`DurableFuture::block`], for at most so long. False if that was not enough.
    pub fn block_for(self, at_most: Duration) -> Result<bool, WalError> {
        self.block_until(Some(Instant::now() + at_most))
    }

    fn block_until(mut self, end: Option<Instant>) -> Result<bool, WalError> {
        if self.shared.mode == FlushMode::Manual && !self.follows {
            while self.shared.waiters.durable() < self.lsn
                && self.shared.flush_once()? == Flushed::Something
            {}
        }
        thread_local! {
            static WAKER: OnceCell<Waker> = const { OnceCell::new() };
        }
        WAKER.with(|waker| {
            let waker = waker.get_or_init(|| Waker::from(Arc::new(Unpark(std::thread::current()))));
            let mut cx = Context::from_waker(waker);
            loop {
                match Pin::new(&mut self).poll(&mut cx) {
                    Poll::Ready(result) => return result.map(|()| true),
                    Poll::Pending => {
                        match end.map(|end| end.saturating_duration_since(Instant::now())) {
                            None => std::thread::park(),
                            Some(Duration::ZERO) => return Ok(false),
                            Some(left) => std::thread::park_timeout(left),
                        }
                        self.shared.counters.waited(WaitCause::Switch, 0);
                    }
                }
            }
        })
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Future for DurableFuture {
    type Output = Result<(), WalError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let shared = &this.shared;
        let answer = shared.waiters.poll(this.lsn, &mut this.ticket, cx);
        if answer.is_pending() {
            if !this.follows {
                this.waits_since
                    .get_or_insert_with(|| shared.clock.mono_nanos());
            }
            return Poll::Pending;
        }
        debug_assert!(
            !matches!(answer, Poll::Ready(Ok(()))) || shared.waiters.durable() >= this.lsn
        );
        // The flush has taken the queue entry, or is about to: no need to lock for that.
        this.ticket = None;
        if let Some(since) = this.waits_since.take() {
            let nanos = shared.clock.mono_nanos().saturating_sub(since);
            shared.counters.waited(WaitCause::Durable, nanos);
        }
        answer
    }
}

impl Drop for DurableFuture {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.waiters.cancel(self.lsn, ticket);
        }
    }
}
