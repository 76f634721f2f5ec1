//! What a transaction does with ranges: locking gaps and whole ranges of rows, finding what others have not committed,
//! and inserts that give way to gaps.
//!
//! Neighbours: `lock` keeps the ranges; above is whoever scans with locks.
//!
//! A locking scan of a range goes like this: lock the gap ahead ([`Txn::lock_ahead`]); ask for the uncommitted rows of
//! others ([`Txn::uncommitted`]); scan the newest versions; lock each row of both by [`Txn::cover`] or [`Txn::lock`],
//! and read it again under the lock. Before it waits, and at its end, the gap is settled to what was read.
//!
//! An insert goes like this: lock the row, write it, and ask [`Txn::gap_before`] for its keys. If there is a gap, undo
//! the write, give the row lock back, wait ([`Txn::wait_for_gap`]), and begin again.

use super::Txn;
use crate::lock::{LockMode, LockOutcome, ScanGap, Uncommitted, WaitPolicy, Want};
use crate::span::KeySpan;
use crate::wait::Ticket;
use crate::{Direction, Isolation, Result, TreeId};

/// Uncommitted rows that one call looks for in each transaction.
const MAX_UNCOMMITTED: usize = 256;

impl Txn {
    /// Whether locking reads and changes lock gaps: from REPEATABLE READ on.
    pub fn locks_gaps(&self) -> bool {
        self.isolation() != Isolation::ReadCommitted
    }

    /// The first of some keys, all written by this transaction and new to their trees, that lies in a gap which another
    /// transaction has locked. Where nobody has locked a gap this costs one load for a key.
    #[inline]
    pub fn gap_before<'k>(
        &self,
        keys: impl Iterator<Item = (TreeId, &'k [u8])>,
    ) -> Option<(TreeId, &'k [u8])> {
        let locks = &self.env.commit.locks;
        locks.fence_writes();
        let mut keys = keys;
        keys.find(|(tree, key)| locks.is_in_gap(&self.owner, *tree, key))
    }

    /// Whether anybody, this transaction included, has locked a gap in the tree. One load.
    pub fn may_meet_gaps(&self, tree: TreeId) -> bool {
        self.env.commit.locks.may_have_gaps(tree)
    }

    /// Waits until no other transaction has locked a gap around the key; `None` if none has. An insert must not stand
    /// written meanwhile.
    pub fn wait_for_gap(&self, tree: TreeId, key: &[u8]) -> Result<Option<Ticket>> {
        self.check()?;
        let writes = self.writes.count();
        let locks = &self.env.commit.locks;
        locks.wait_for_range(&self.owner, tree, key, Want::Insert, writes)
    }

    /// Locks a gap: nobody else inserts into it before this transaction ends. What others have inserted and not
    /// committed is still there.
    pub fn lock_gap(&self, tree: TreeId, span: KeySpan) -> Result<()> {
        self.check()?;
        self.env.commit.locks.lock_gap(&self.owner, tree, span);
        Ok(())
    }

    /// Locks the gap that a scan is about to read, until it is settled.
    pub fn lock_ahead(&self, tree: TreeId, span: KeySpan) -> Result<ScanGap> {
        self.check()?;
        Ok(self.env.commit.locks.lock_ahead(&self.owner, tree, span))
    }

    /// Locks the rows of a span that has been read, of which `key` is the newest, without memory for each. Others wait
    /// for them as for rows. After a wait the caller asks again.
    pub fn cover(
        &self,
        tree: TreeId,
        span: KeySpan,
        key: &[u8],
        mode: LockMode,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        self.check()?;
        self.admit_lock()?;
        let writes = self.writes.count();
        let locks = &self.env.commit.locks;
        let outcome = locks.cover(&self.owner, tree, (span, key), (mode, wait), writes)?;
        if let LockOutcome::Granted { .. } = outcome {
            self.learn_of_commits();
        }
        Ok(outcome)
    }

    /// What other transactions have written into a span and not committed: rows that a locking read must wait for,
    /// although they are in no tree.
    pub fn uncommitted(
        &self,
        tree: TreeId,
        span: &KeySpan,
        direction: Direction,
    ) -> Result<Uncommitted> {
        let locks = &self.env.commit.locks;
        let backward = direction == Direction::Backward;
        locks.uncommitted(&self.owner, tree, span, backward, MAX_UNCOMMITTED)
    }

    /// Is another transaction writing this key: has it put or deleted it, and not committed?
    pub fn is_written_by_others(&self, tree: TreeId, key: &[u8]) -> Result<bool> {
        let locks = &self.env.commit.locks;
        locks.is_written_by_others(&self.owner, tree, key)
    }

    /// Turns an exclusive row lock of this transaction into a shared one.
    pub fn downgrade(&self, tree: TreeId, key: &[u8]) {
        self.env.commit.locks.downgrade(&self.owner, tree, key);
    }
}
