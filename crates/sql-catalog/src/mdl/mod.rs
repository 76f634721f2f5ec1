//! Metadata locks: what keeps a table from changing its shape under a running transaction (D1).
//!
//! In flow order: `mode` (what conflicts with what) · `object` (one lockable name: an atomic word for
//! the modes of ordinary statements, a queue for the rest) · `manager` (names to objects, deadlocks
//! between waiters) · [`LockSet`] (what one session holds).
//! Neighbours: `session` takes locks before it binds a statement and releases them when the
//! transaction ends; `ddl` takes the exclusive ones; `catalog` hangs each table's object on its
//! definition, so that a statement finds it without a look-up.
//!
//! **Invariants**
//! - A request waits only for holders it conflicts with and for conflicting requests that came before
//!   it, so an exclusive request is never overtaken by those it waits for; a session that already
//!   holds the object is not held up by the queue, for those ahead wait for it.
//! - A request that waits is in the manager's graph with everything its session holds; the last one
//!   of a cycle gets error 1213. Waits that also involve row locks end by timeout.
//! - After a ticket resolved with success the session owns the lock; asking again takes it over.

mod manager;
mod mode;
mod object;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use esker_types::SqlError;

pub use manager::{MdlKey, MetadataLocks};
pub use mode::{MdlDuration, MdlMode};
pub use object::MdlObject;

use crate::exec_error::ExecError;
use manager::Pending;
use object::Granted;

/// A lock held by a session.
struct Held {
    object: Arc<MdlObject>,
    mode: MdlMode,
    duration: MdlDuration,
}

/// A place in the set, for [`LockSet::release_after`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockMark(usize);

/// The metadata locks of one session.
pub struct LockSet {
    manager: MetadataLocks,
    id: u64,
    held: Vec<Held>,
    pending: Option<(Pending, MdlDuration)>,
}

impl LockSet {
    /// An empty set.
    pub fn new(manager: &MetadataLocks) -> Self {
        Self {
            manager: manager.clone(),
            id: manager.next_id(),
            held: Vec::new(),
            pending: None,
        }
    }

    /// Takes a lock, or answers [`ExecError::Wait`] with the ticket to wait for; then ask again.
    #[inline]
    pub fn acquire(
        &mut self,
        object: &Arc<MdlObject>,
        mode: MdlMode,
        duration: MdlDuration,
    ) -> Result<(), ExecError> {
        if self.pending.is_some() {
            self.settle();
        }
        let own = |h: &&Held| Arc::ptr_eq(&h.object, object);
        let covers = |h: &Held| h.mode.covers(mode) && h.duration >= duration;
        if self.held.iter().filter(own).any(covers) {
            return Ok(());
        }
        // The fast modes do not conflict, so it does not matter which of them the session holds.
        if object.acquire_fast(mode) {
            self.held.push(Held {
                object: object.clone(),
                mode,
                duration,
            });
            return Ok(());
        }
        self.acquire_slow(object, mode, duration)
    }

    /// Takes a lock if that needs no waiting.
    pub fn try_acquire(
        &mut self,
        object: &Arc<MdlObject>,
        mode: MdlMode,
        duration: MdlDuration,
    ) -> bool {
        // A ticket that is dropped leaves the queue.
        let granted = self.acquire(object, mode, duration).is_ok();
        self.drop_pending();
        granted
    }

    #[cold]
    fn acquire_slow(
        &mut self,
        object: &Arc<MdlObject>,
        mode: MdlMode,
        duration: MdlDuration,
    ) -> Result<(), ExecError> {
        let own: Vec<MdlMode> = self
            .held
            .iter()
            .filter(|h| Arc::ptr_eq(&h.object, object))
            .map(|h| h.mode)
            .collect();
        let (ticket, waiter) = match object.request(mode, &own) {
            Granted::Now => {
                self.held.push(Held {
                    object: object.clone(),
                    mode,
                    duration,
                });
                return Ok(());
            }
            Granted::Later(ticket, waiter) => (ticket, waiter),
        };
        let held = self
            .held
            .iter()
            .map(|h| (h.object.clone(), h.mode))
            .collect();
        let pending = Pending {
            id: self.id,
            object: object.clone(),
            mode,
            waiter,
            held,
        };
        if self.manager.begin_wait(pending.clone()) {
            // Dropping the ticket takes the request out of its queue.
            let text = "Deadlock found when trying to get lock; try restarting transaction";
            return Err(SqlError::new(1213, "40001", text).into());
        }
        self.pending = Some((pending, duration));
        Err(ExecError::Wait(ticket))
    }

    /// Takes over a lock that was granted while we waited. The statement that asked for it runs
    /// again and may come to it later, so it is kept whatever is asked for first.
    #[cold]
    fn settle(&mut self) {
        let Some((pending, duration)) = self.pending.take() else {
            return;
        };
        self.manager.end_wait(self.id);
        if pending.waiter.take_over() {
            self.held.push(Held {
                object: pending.object,
                mode: pending.mode,
                duration,
            });
        }
    }

    /// Moves the locks on tables that were taken for the transaction to a set of their own, for a transaction that
    /// outlives its session.
    pub fn detach_tables(&mut self) -> LockSet {
        let mut detached = LockSet::new(&self.manager);
        let goes = |h: &mut Held| {
            let table = matches!(h.object.key(), MdlKey::Table(..));
            table && h.duration == MdlDuration::Transaction
        };
        detached.held = self.held.extract_if(.., goes).collect();
        detached
    }

    fn release_where(&mut self, mut which: impl FnMut(&Held) -> bool) {
        self.held.retain(|h| {
            let goes = which(h);
            if goes {
                h.object.release(h.mode);
            }
            !goes
        });
    }

    fn drop_pending(&mut self) {
        if let Some((pending, _)) = self.pending.take() {
            self.manager.end_wait(self.id);
            if pending.waiter.take_over() {
                pending.object.release(pending.mode);
            }
        }
    }

    /// Releases what was taken for the statement only.
    pub fn release_statement(&mut self) {
        self.drop_pending();
        self.release_where(|h| h.duration == MdlDuration::Statement);
    }

    /// Releases what was taken for the transaction or the statement.
    pub fn release_transaction(&mut self) {
        if self.pending.is_some() {
            self.drop_pending();
        }
        if !self.held.is_empty() {
            self.release_where(|h| h.duration <= MdlDuration::Transaction);
        }
    }

    /// Releases LOCK TABLES locks on tables (not the global read lock).
    pub fn release_explicit(&mut self) {
        self.release_where(|h| h.duration == MdlDuration::Explicit);
    }

    /// Releases FLUSH TABLES WITH READ LOCK.
    pub fn release_global(&mut self) {
        self.release_where(|h| h.duration == MdlDuration::Global);
    }

    /// Has the running statement taken or asked for locks of its own yet? False when it begins, true
    /// when it runs again after a wait.
    pub fn statement_has_locks(&self) -> bool {
        self.pending.is_some()
            || self
                .held
                .iter()
                .any(|h| h.duration == MdlDuration::Statement)
    }

    /// Keeps the statement's locks until UNLOCK TABLES.
    pub fn keep_statement_locks(&mut self) {
        for held in self
            .held
            .iter_mut()
            .filter(|h| h.duration == MdlDuration::Statement)
        {
            held.duration = MdlDuration::Explicit;
        }
    }

    /// Releases everything (the session ends or is reset).
    pub fn release_all(&mut self) {
        self.drop_pending();
        self.release_where(|_| true);
    }

    /// Is the session waiting for a metadata lock (rather than for a row)?
    pub fn is_waiting(&self) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|(p, _)| p.waiter.is_waiting())
    }

    /// Does this session hold at least `mode` on the object?
    pub fn holds(&self, object: &Arc<MdlObject>, mode: MdlMode) -> bool {
        self.held
            .iter()
            .any(|h| Arc::ptr_eq(&h.object, object) && h.mode.covers(mode))
    }

    /// Is anything held by LOCK TABLES?
    pub fn has_explicit(&self) -> bool {
        self.held
            .iter()
            .any(|h| h.duration == MdlDuration::Explicit)
    }

    /// Is the global read lock held?
    pub fn has_global(&self) -> bool {
        self.held.iter().any(|h| h.duration == MdlDuration::Global)
    }

    /// The mode LOCK TABLES holds on this object.
    pub fn explicit_mode(&self, object: &Arc<MdlObject>) -> Option<MdlMode> {
        self.held
            .iter()
            .find(|h| h.duration == MdlDuration::Explicit && Arc::ptr_eq(&h.object, object))
            .map(|h| h.mode)
    }

    /// Number of locks held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Is nothing held?
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The present end of the set.
    pub fn mark(&self) -> LockMark {
        LockMark(self.held.len())
    }

    /// Releases the transaction's locks taken after `mark` (ROLLBACK TO SAVEPOINT, a failed
    /// statement of which nothing remains).
    pub fn release_after(&mut self, mark: LockMark) {
        let mut at = 0;
        self.release_where(|h| {
            at += 1;
            at > mark.0 && h.duration <= MdlDuration::Transaction
        });
    }
}

impl Drop for LockSet {
    fn drop(&mut self) {
        self.release_all();
    }
}
