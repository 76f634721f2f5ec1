//! A sequence that rises, and those who wait until it has reached theirs.
//!
//! Neighbours: the watermark of what is visible is one, and what the gate lets pass is another.
//!
//! **Invariants**
//! - No wake-up is lost: a waiter counts itself before it looks at the value again, and whoever raises stores the value
//!   before it looks whether anybody waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use crate::Seq;
use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, SPINS};

/// The sequence.
pub(crate) struct Level {
    value: AtomicU64,
    /// Tasks and threads that wait; zero lets a raise skip the wake-up.
    waiters: AtomicUsize,
    waiting: Mutex<Vec<(Seq, Waker)>>,
    moved: Condvar,
}

impl Level {
    pub(crate) fn new(value: Seq) -> Arc<Self> {
        Arc::new(Level {
            value: AtomicU64::new(value),
            waiters: AtomicUsize::new(0),
            waiting: Mutex::new(Vec::new()),
            moved: Condvar::new(),
        })
    }

    #[inline]
    pub(crate) fn get(&self) -> Seq {
        self.value.load(Ordering::SeqCst)
    }

    /// Raises it, if it is lower, and wakes those who have waited for that.
    pub(super) fn raise_to(&self, value: Seq) {
        self.value.fetch_max(value, Ordering::SeqCst);
        self.wake_reached();
    }

    /// Sets it. Who raises it this way calls [`Level::wake_reached`] then.
    pub(super) fn set(&self, value: Seq) {
        self.value.store(value, Ordering::SeqCst);
    }

    /// Wakes those whose sequence it has reached.
    #[inline]
    pub(super) fn wake_reached(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let value = self.get();
        let mut ready = Vec::new();
        self.waiting.lock().retain_mut(|(seq, waker)| {
            if *seq > value {
                return true;
            }
            ready.push(waker.clone());
            false
        });
        self.moved.notify_all();
        for waker in ready {
            waker.wake();
        }
    }

    /// Parks until it has reached `seq`.
    pub(crate) fn block_until(&self, seq: Seq) {
        for _ in 0..SPINS {
            if self.get() >= seq {
                return;
            }
            std::hint::spin_loop();
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut waiting = self.waiting.lock();
        while self.get() < seq {
            self.moved.wait(&mut waiting);
        }
        drop(waiting);
        let waiters = self.waiters.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(waiters > 0 && self.get() >= seq);
    }
}

/// Resolves when a level has reached a sequence.
pub(crate) struct Reached {
    level: Arc<Level>,
    seq: Seq,
    is_counted: bool,
}

impl Reached {
    pub(crate) fn new(level: &Arc<Level>, seq: Seq) -> Self {
        Reached {
            level: Arc::clone(level),
            seq,
            is_counted: false,
        }
    }

    /// Parks the thread until it has.
    pub(crate) fn block(&self) {
        self.level.block_until(self.seq);
    }
}

impl Future for Reached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.level.get() >= self.seq {
            return Poll::Ready(());
        }
        let level = Arc::clone(&self.level);
        if !self.is_counted {
            self.is_counted = true;
            level.waiters.fetch_add(1, Ordering::SeqCst);
        }
        let mut waiting = level.waiting.lock();
        // Whoever raises it after this look finds this waiter counted, and takes the lock.
        if level.get() >= self.seq {
            return Poll::Ready(());
        }
        let known =
            |(seq, waker): &(Seq, Waker)| *seq == self.seq && waker.will_wake(context.waker());
        if !waiting.iter().any(known) {
            waiting.push((self.seq, context.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if self.is_counted {
            let waiters = self.level.waiters.fetch_sub(1, Ordering::SeqCst);
            debug_assert!(waiters > 0);
        }
    }
}
