//! A transaction's locks seen from outside, and the end of its lock waits.
//!
//! Neighbours: KILL, time limits and `information_schema` use it from other threads than the session's.
//!
//! **Invariants**
//! - It follows the transaction when its locks go to somebody else (`Txn::owner_changed`).

use std::sync::Arc;

use parking_lot::Mutex;

use super::Txn;
use crate::lock::{DeadlockMember, LockInfo, LockManager, LockOwner};
use crate::{CancelReason, TreeId};

impl Txn {
    /// A handle with which another thread ends the lock waits of this session.
    pub fn wait_canceller(&self) -> WaitCanceller {
        let shared = || Arc::new(Mutex::new(Arc::clone(&self.owner)));
        WaitCanceller {
            owner: Arc::clone(self.shared_owner.get_or_init(shared)),
            locks: Arc::clone(&self.env.commit.locks),
        }
    }
}

/// Looks at the locks of a transaction from outside, and ends its lock waits.
#[derive(Clone)]
pub struct WaitCanceller {
    owner: Arc<Mutex<Arc<LockOwner>>>,
    locks: Arc<LockManager>,
}

impl WaitCanceller {
    /// What the transaction waits for and what it has locked, at most `limit` locks.
    pub fn locks(&self, limit: usize) -> Vec<LockInfo> {
        let owner = Arc::clone(&self.owner.lock());
        self.locks.list(&owner, limit)
    }

    /// How many entries the transaction has written into each tree, those that it has moved to disk left out.
    pub fn written(&self) -> Vec<(TreeId, u64)> {
        let owner = Arc::clone(&self.owner.lock());
        owner.published_entries()
    }

    /// Whether the transaction cannot go on before the other one ends.
    pub fn waits_for(&self, other: &WaitCanceller) -> bool {
        let owner = Arc::clone(&self.owner.lock());
        let other = Arc::clone(&other.owner.lock());
        self.locks.waits_for(&owner, &other)
    }

    /// Is it this member of a deadlock?
    pub fn is(&self, member: &DeadlockMember) -> bool {
        member.is(&self.owner.lock())
    }

    /// Ends the wait the transaction is in; false if it is in none.
    pub fn cancel(&self, reason: CancelReason) -> bool {
        let owner = Arc::clone(&self.owner.lock());
        self.locks.cancel(&owner, reason)
    }
}
