//! The visible watermark: up to where every record of the log has been applied.
//!
//! Neighbours: `commit` completes each record after inserting its versions; snapshots are taken at the watermark.
//!
//! **Invariants**
//! - `visible` is the end of the longest prefix of the log without a gap among the completed records. It never falls.
//! - Whoever appends a record completes exactly its range, also when applying failed or there was nothing to apply:
//!   a record that is never completed would stop the world's view of time.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use crate::Seq;
use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, SPINS};

struct State {
    /// Completed ranges beyond the watermark: start → end. At most one per committing thread.
    ahead: BTreeMap<u64, u64>,
    waiting: Vec<(Seq, Waker)>,
}

/// The watermark and those who wait for it.
pub(crate) struct Watermark {
    visible: AtomicU64,
    /// Tasks and threads that wait; zero lets `complete` skip the wake-up.
    waiters: AtomicUsize,
    state: Mutex<State>,
    moved: Condvar,
}

impl Watermark {
    pub(crate) fn new(start: Seq) -> Arc<Self> {
        Arc::new(Watermark {
            visible: AtomicU64::new(start),
            waiters: AtomicUsize::new(0),
            state: Mutex::new(State {
                ahead: BTreeMap::new(),
                waiting: Vec::new(),
            }),
            moved: Condvar::new(),
        })
    }

    /// Everything up to here is applied.
    #[inline]
    pub(crate) fn visible(&self) -> Seq {
        self.visible.load(Ordering::SeqCst)
    }

    /// Marks the record [`start`, `end`) as applied.
    pub(crate) fn complete(&self, start: u64, end: u64) {
        assert!(start < end);
        let mut state = self.state.lock();
        let mut visible = self.visible.load(Ordering::Relaxed);
        assert!(start >= visible, "a record is completed once");
        if start != visible {
            let earlier = state.ahead.insert(start, end);
            assert!(earlier.is_none(), "a record is completed once");
            return;
        }
        visible = end;
        while let Some(end) = state.ahead.remove(&visible) {
            visible = end;
        }
        self.visible.store(visible, Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.wake(state, visible);
        }
    }

    fn wake(&self, mut state: MutexGuard<'_, State>, visible: Seq) {
        let mut ready = Vec::new();
        state.waiting.retain_mut(|(seq, waker)| {
            if *seq > visible {
                return true;
            }
            ready.push(waker.clone());
            false
        });
        drop(state);
        self.moved.notify_all();
        for waker in ready {
            waker.wake();
        }
    }

    /// Parks until `seq` is visible. Only for a sequence that was given to a record.
    pub(crate) fn block_until(&self, seq: Seq) {
        for _ in 0..SPINS {
            if self.visible() >= seq {
                return;
            }
            std::hint::spin_loop();
        }
        let mut state = self.state.lock();
        self.waiters.fetch_add(1, Ordering::Relaxed);
        while self.visible() < seq {
            self.moved.wait(&mut state);
        }
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Resolves when a sequence is visible.
pub(crate) struct Visible {
    watermark: Arc<Watermark>,
    seq: Seq,
    registered: bool,
}

impl Visible {
    pub(crate) fn new(watermark: &Arc<Watermark>, seq: Seq) -> Self {
        Visible {
            watermark: Arc::clone(watermark),
            seq,
            registered: false,
        }
    }

    /// Parks the thread until the sequence is visible.
    pub(crate) fn block(&self) {
        self.watermark.block_until(self.seq);
    }
}

impl Future for Visible {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.watermark.visible() >= self.seq {
            return Poll::Ready(());
        }
        let watermark = Arc::clone(&self.watermark);
        let mut state = watermark.state.lock();
        // `complete` changes the watermark under the lock, so this second look cannot miss it.
        if watermark.visible() >= self.seq {
            return Poll::Ready(());
        }
        let known =
            |(seq, waker): &(Seq, Waker)| *seq == self.seq && waker.will_wake(context.waker());
        if !state.waiting.iter().any(known) {
            state.waiting.push((self.seq, context.waker().clone()));
        }
        if !self.registered {
            self.registered = true;
            watermark.waiters.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Pending
    }
}

impl Drop for Visible {
    fn drop(&mut self) {
        if self.registered {
            self.watermark.waiters.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
