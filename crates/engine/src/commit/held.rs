//! Row locks that wait for their commit to be durable: what happens without early lock release.
//!
//! Neighbours: `txn` puts the locks of a committed transaction in; the flush of the log, or whoever learns first that
//! the commit is durable, takes them out.
//!
//! **Invariants**
//! - What is put in is given back when its commit is durable, or when the log has ended (failure or shutdown): the log
//!   is told to wake us, so it does not matter whether anybody awaits the commit.
//! - Whoever has been told that a sequence is durable finds the locks up to it free.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use esker_vfs::Clock;
use esker_wal::Waits;
use parking_lot::Mutex;

use crate::Seq;
use crate::lock::{LockManager, LockOwner};

/// The owners whose locks are held for the log.
pub(crate) struct HeldLocks {
    locks: Arc<LockManager>,
    by_commit: Mutex<BTreeMap<Seq, Held>>,
    /// Size of `by_commit`, for a look without the mutex.
    count: AtomicUsize,
    clock: Arc<dyn Clock>,
    /// Those who waited for locks that were held for the log, and how long these were held, nanoseconds.
    waiters: AtomicU64,
    waited_nanos: AtomicU64,
}

/// The locks of one commit.
struct Held {
    owner: Arc<LockOwner>,
    since_nanos: u64,
}

impl HeldLocks {
    pub(crate) fn new(locks: &Arc<LockManager>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(HeldLocks {
            locks: Arc::clone(locks),
            by_commit: Mutex::default(),
            count: AtomicUsize::new(0),
            clock,
            waiters: AtomicU64::new(0),
            waited_nanos: AtomicU64::new(0),
        })
    }

    /// Holds the locks of `owner` until the commit is durable. The returned waker gives them back; it is for the log.
    pub(crate) fn hold(self: &Arc<Self>, commit: Seq, owner: Arc<LockOwner>) -> Waker {
        let held = Held {
            owner,
            since_nanos: self.clock.mono_nanos(),
        };
        let mut by_commit = self.by_commit.lock();
        let earlier = by_commit.insert(commit, held);
        assert!(earlier.is_none(), "a transaction commits once");
        self.count.store(by_commit.len(), Ordering::SeqCst);
        Waker::from(Arc::new(Hardened {
            held: Arc::clone(self),
            commit,
        }))
    }

    /// Whether any locks are held. What a thread has put in itself is counted.
    #[inline]
    pub(crate) fn are_any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Gives back the locks of all commits up to `seq`, and returns when they are free.
    #[inline]
    pub(crate) fn release_up_to(&self, seq: Seq) {
        if self.are_any() {
            self.release(seq);
        }
    }

    #[cold]
    fn release(&self, seq: Seq) {
        let mut wakes = Vec::new();
        {
            // Held to the end, so that another one who learns of the same sequence waits until the locks are free.
            let mut by_commit = self.by_commit.lock();
            while let Some(first) = by_commit.first_entry().filter(|first| *first.key() <= seq) {
                let held = first.remove();
                let granted = self.locks.give_back_all(&held.owner);
                self.count_waits(granted.len() as u64, held.since_nanos);
                wakes.extend(granted);
            }
            debug_assert!(
                by_commit.keys().next().is_none_or(|first| *first > seq),
                "the locks up to it are free"
            );
            self.count.store(by_commit.len(), Ordering::SeqCst);
        }
        for waiter in wakes {
            waiter.wake();
        }
    }
}

impl HeldLocks {
    /// Counts delay B of Aether: who is granted a lock now has waited for the flush, since the commit or a little less.
    fn count_waits(&self, waiters: u64, since_nanos: u64) {
        if waiters > 0 {
            let each = self.clock.mono_nanos().saturating_sub(since_nanos);
            self.waiters.fetch_add(waiters, Ordering::Relaxed);
            self.waited_nanos
                .fetch_add(waiters * each, Ordering::Relaxed);
        }
    }

    /// How many have waited for locks that were held for the log, and how long.
    pub(crate) fn waits(&self) -> Waits {
        Waits {
            count: self.waiters.load(Ordering::Relaxed),
            nanos: self.waited_nanos.load(Ordering::Relaxed),
        }
    }
}

/// Told by the log that a commit is durable or never will be; then those before it are no different.
struct Hardened {
    held: Arc<HeldLocks>,
    commit: Seq,
}

impl Wake for Hardened {
    fn wake(self: Arc<Self>) {
        self.held.release_up_to(self.commit);
    }
}
