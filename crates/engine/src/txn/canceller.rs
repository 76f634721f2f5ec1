//! A transaction's locks seen from outside, and its lock waits with their end.
//!
//! Neighbours: KILL, time limits and `information_schema` use it from other threads than the session's.
//!
//! **Invariants**
//! - It follows the transaction when its locks go to somebody else (`Txn::owner_changed`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Txn;
use crate::lock::{LockInfo, LockManager, LockOwner, LockWait, OwnerId};
use crate::wait::Ticket;
use crate::{CancelReason, EngineError, Result, TreeId};

impl Txn {
    /// A handle with which another thread ends the lock waits of this session.
    pub fn wait_canceller(&self) -> WaitCanceller {
        let shared = || Arc::new(Mutex::new(Arc::clone(&self.owner)));
        WaitCanceller {
            owner: Arc::clone(self.shared_owner.get_or_init(shared)),
            locks: Arc::clone(&self.env.commit.locks),
        }
    }

    /// Parks the thread until a lock is granted, `timeout` has passed, or the wait is cancelled. A [`WaitCanceller`]
    /// that came before the wait has found none to end, so [`Self::set_go_on`]'s question is asked once it is queued.
    pub fn await_lock(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        if !self.go_on.says() {
            return Err(EngineError::Cancelled(CancelReason::StatementKilled));
        }
        if let Some(look) = &self.at_wait.0 {
            look();
        }
        ticket.block(timeout)
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

    /// The wait that the transaction is in, with at most `limit` of those in its way.
    pub fn wait(&self, limit: usize) -> Option<LockWait> {
        let owner = Arc::clone(&self.owner.lock());
        self.locks.wait_of(&owner, limit)
    }

    /// Names the transaction in waits of others.
    pub fn owner(&self) -> OwnerId {
        OwnerId::of(&self.owner.lock())
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

    /// Ends the wait the transaction is in; false if it is in none.
    pub fn cancel(&self, reason: CancelReason) -> bool {
        let owner = Arc::clone(&self.owner.lock());
        self.locks.cancel(&owner, reason)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::engine::tests::memory_engine as engine;
    use crate::lock::{LockMode, LockOutcome, WaitPolicy};
    use crate::txn::Isolation;

    #[test]
    fn a_kill_before_the_wait_ends_it() {
        const LONG: Duration = Duration::from_secs(600);
        let engine = engine();
        let tree = engine.create_tree().unwrap();
        let first = engine.begin(Isolation::RepeatableRead);
        let mut second = engine.begin(Isolation::RepeatableRead);
        let killed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&killed);
        second.set_go_on(move || !flag.load(Ordering::Relaxed));
        let lock = |txn: &Txn| {
            let outcome = txn.lock(tree.id(), b"k", LockMode::Exclusive, WaitPolicy::Wait);
            outcome.unwrap()
        };
        assert!(matches!(lock(&first), LockOutcome::Granted { .. }));
        killed.store(true, Ordering::Relaxed);
        assert!(
            !second
                .wait_canceller()
                .cancel(CancelReason::StatementKilled)
        );
        let LockOutcome::Wait(ticket) = lock(&second) else {
            panic!("the first has it");
        };
        assert!(matches!(
            second.await_lock(ticket, LONG),
            Err(EngineError::Cancelled(CancelReason::StatementKilled))
        ));
        // It has left the queue.
        drop(first);
        let third = engine.begin(Isolation::RepeatableRead);
        assert!(matches!(lock(&third), LockOutcome::Granted { .. }));
        drop(third);
        killed.store(false, Ordering::Relaxed);
        assert!(matches!(lock(&second), LockOutcome::Granted { .. }));
    }
}
