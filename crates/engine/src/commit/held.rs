//! Row locks that wait for their commit to be durable: what happens without early lock release.
//!
//! Neighbours: `txn` puts the locks of a committed transaction in; the flush of the log, or whoever learns first that the
//! commit is durable, takes them out.
//!
//! **Invariants**
//! - What is put in is given back when its commit is durable, or when the log has ended (failure or shutdown): the log is
//!   told to wake us, so it does not matter whether anybody awaits the commit.
//! - Who has been told that a sequence is durable finds the locks up to it free.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

use crate::Seq;
use crate::lock::{LockManager, LockOwner};

/// The owners whose locks are held for the log.
pub(crate) struct HeldLocks {
    locks: Arc<LockManager>,
    by_commit: Mutex<BTreeMap<Seq, Arc<LockOwner>>>,
    /// Size of `by_commit`, for a look without the mutex.
    count: AtomicUsize,
}

impl HeldLocks {
    pub(crate) fn new(locks: &Arc<LockManager>) -> Arc<Self> {
        Arc::new(HeldLocks {
            locks: Arc::clone(locks),
            by_commit: Mutex::default(),
            count: AtomicUsize::new(0),
        })
    }

    /// Holds the locks of `owner` until the commit is durable. The returned waker gives them back; it is for the log.
    pub(crate) fn hold(self: &Arc<Self>, commit: Seq, owner: Arc<LockOwner>) -> Waker {
        let mut by_commit = self.by_commit.lock();
        let earlier = by_commit.insert(commit, owner);
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
                wakes.extend(self.locks.give_back_all(&first.remove()));
            }
            self.count.store(by_commit.len(), Ordering::SeqCst);
        }
        for waiter in wakes {
            waiter.wake();
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
