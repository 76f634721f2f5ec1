//! Row locks, shared and exclusive, with fair queues and upgrade; range locks, which are gaps and covers; deadlock
//! detection over both, and waits that can be given up at any time.
//!
//! Neighbours: `txn` locks rows and ranges and releases them at its end; `wait` is the form of a wait. A "row" is any
//! (tree, key); it need not exist.
//!
//! Parts: `owner` (a transaction: what it holds, awaits and has written) → `shard` (rows and their queues), `range`
//! (gaps and covers) → [`LockManager`] → `deadlock` (the wait-for graph), `list` (to be shown), `keys` (keys in
//! order), `merge` (which covers can take the place of row locks) → `coarse` (has them do so where memory runs out).
//!
//! **Invariants**
//! - Lock order inside: the deadlock mutex, then a shard (of rows or of ranges), then an owner's fields. Never two
//!   shards at once.
//! - A transaction waits for at most one row or range at a time; its owner says for which.
//! - Every hold of an owner is in its `held` list, pushed under the shard's lock; ending a transaction first leaves the
//!   queue, then drains the list, so nothing is granted behind its back.
//! - A row lock that is granted conflicts with no cover of another transaction: covers are looked at after the row is
//!   granted, rows after the cover is in place.
//! - A wait is queued before the search for a cycle starts, so of the waits that close a cycle together the last search
//!   sees them all.

mod coarse;
#[cfg(test)]
mod coarse_tests;
mod deadlock;
mod keys;
mod list;
mod merge;
mod owner;
mod range;
#[cfg(test)]
mod range_tests;
mod shard;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use crate::hash::{fold, fold_bytes};
use crate::span::KeySpan;
use crate::wait::{self, Resolver, Ticket, WaitQueue};
use crate::{CancelReason, EngineError, Result, TreeId};
pub use deadlock::{AfterDeadlock, Deadlock, DeadlockMember, DeadlockObserver};
pub use list::{LockInfo, LockWait, Locked, OwnerId};
pub use owner::Uncommitted;
pub(crate) use owner::{LockOwner, Want};
use owner::{Owners, Place, Waiting};
pub use range::RangeKind;
use range::{AheadId, Covered, RangeWaiter, Ranges};
pub(crate) use shard::Wakes;
use shard::{Request, Shard, Waiter};

/// Number of shards, a power of two: far more than threads that lock at the same moment.
const SHARDS: usize = 64;
const _: () = assert!(SHARDS.is_power_of_two());

/// How a row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Others may read-lock the row, too.
    Shared,
    /// Nobody else has a lock on the row.
    Exclusive,
}

impl LockMode {
    fn admits(self, other: LockMode) -> bool {
        self == LockMode::Shared && other == LockMode::Shared
    }
}

/// What to do when the row is locked by another transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Stand in the queue.
    Wait,
    /// Fail with [`EngineError::LockNotAvailable`].
    NoWait,
    /// Report [`LockOutcome::Skipped`].
    Skip,
}

/// The answer to a lock request.
#[must_use]
pub enum LockOutcome {
    /// The transaction owns the lock. `new`: it did not own it before this request (or before the wait that this
    /// request repeats), so that this request may also give it back.
    Granted {
        /// Whether this request brought the lock.
        new: bool,
    },
    /// The row is locked by another transaction, and the policy was [`WaitPolicy::Skip`].
    Skipped,
    /// Wait for the ticket, then ask again.
    Wait(Ticket),
}

/// A place in the lock table, valid while its holder or waiter is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockRef {
    shard: u32,
    slot: u32,
    /// Tells the row from others that had the slot before.
    stamp: u64,
}

/// A shard on cache lines of its own, so that neighbours do not disturb each other.
#[repr(align(128))]
#[derive(Default)]
struct ShardCell(Mutex<Shard>);

/// The lock table.
pub(crate) struct LockManager {
    shards: Box<[ShardCell]>,
    ranges: Ranges,
    owners: Owners,
    /// One search for a cycle at a time.
    detecting: Mutex<()>,
    /// Keys of the hash, so that nobody can choose rows that fall together.
    seeds: [u64; 2],
    waits: AtomicU64,
    deadlocks: AtomicU64,
    /// Hears of deadlocks.
    observer: OnceLock<DeadlockObserver>,
}

impl LockManager {
    pub(crate) fn new(seeds: [u64; 2]) -> Arc<Self> {
        Arc::new(LockManager {
            shards: (0..SHARDS).map(|_| ShardCell::default()).collect(),
            ranges: Ranges::default(),
            owners: Owners::default(),
            detecting: Mutex::new(()),
            seeds,
            waits: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
            observer: OnceLock::new(),
        })
    }

    /// The lock table's side of a new transaction.
    pub(crate) fn new_owner(&self) -> Arc<LockOwner> {
        self.owners.add()
    }

    /// Locks a row. `writes` is the number of rows the transaction has written, for the choice of a victim.
    pub(crate) fn lock(
        self: &Arc<Self>,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        key: &[u8],
        mode: LockMode,
        policy: WaitPolicy,
        writes: u64,
    ) -> Result<LockOutcome> {
        owner.set_active();
        let hash = self.hash(tree, key);
        let shard_index = Self::shard_of(hash);
        let mut shard = self.shards[shard_index as usize].0.lock();
        let slot = shard.find_or_add(hash, tree, key);
        let upgrade = match shard.request(slot, owner, mode) {
            Request::Granted {
                new,
                listed,
                upgraded,
            } => {
                let lock = shard.reference(shard_index, slot);
                if !listed {
                    owner.add_held(lock);
                }
                drop(shard);
                let want = Want::Row(mode);
                // A lock it had before keeps covers of others away. One from the queue may meet a cover: that of
                // another reader of the row, which was locked shared by the one before.
                debug_assert!(new || listed);
                if (upgraded || new)
                    && self.ranges.may_stop(tree, want)
                    && self.ranges.is_stopped(owner, tree, key, want)
                {
                    self.take_back(owner, lock, upgraded);
                    return self.wait_for_cover(owner, (tree, key), mode, policy, writes);
                }
                return Ok(LockOutcome::Granted { new });
            }
            Request::Conflict { upgrade } => upgrade,
        };
        match policy {
            WaitPolicy::NoWait => return Err(EngineError::LockNotAvailable),
            WaitPolicy::Skip => return Ok(LockOutcome::Skipped),
            WaitPolicy::Wait => {}
        }
        let at = (shard_index, slot);
        self.wait_for_row(owner, shard, at, (mode, upgrade), writes)
    }

    /// Lets a transaction wait for a row behind those that wait already.
    fn wait_for_row(
        self: &Arc<Self>,
        owner: &Arc<LockOwner>,
        mut shard: MutexGuard<'_, Shard>,
        (shard_index, slot): (u32, u32),
        (mode, upgrade): (LockMode, bool),
        writes: u64,
    ) -> Result<LockOutcome> {
        let lock = shard.reference(shard_index, slot);
        let (ticket, resolver) = wait::ticket(|resolver| {
            Box::new(RowQueue {
                locks: Arc::clone(self),
                owner: Arc::clone(owner),
                lock,
                upgrade,
                resolver: resolver.clone(),
            })
        });
        let held = owner.held_count();
        owner.begin_wait(Waiting {
            place: Place::Row(lock),
            resolver: resolver.clone(),
            work: owner.work(writes),
        });
        shard.enqueue(
            slot,
            Waiter {
                owner: Arc::clone(owner),
                mode,
                upgrade,
                held,
                overtaken: 0,
                resolver,
            },
        );
        drop(shard);
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.break_cycles(owner)?;
        Ok(LockOutcome::Wait(ticket))
    }

    /// Undoes a grant that met a cover.
    fn take_back(&self, owner: &Arc<LockOwner>, lock: LockRef, upgraded: bool) {
        if upgraded {
            self.downgrade_held(owner, lock);
        } else {
            self.release_held(owner, lock);
        }
    }

    /// Waits until no cover of another transaction is in the way of a row. The ticket grants nothing: the caller asks
    /// for the row again.
    fn wait_for_cover(
        self: &Arc<Self>,
        owner: &Arc<LockOwner>,
        (tree, key): (TreeId, &[u8]),
        mode: LockMode,
        policy: WaitPolicy,
        writes: u64,
    ) -> Result<LockOutcome> {
        match policy {
            WaitPolicy::NoWait => return Err(EngineError::LockNotAvailable),
            WaitPolicy::Skip => return Ok(LockOutcome::Skipped),
            WaitPolicy::Wait => {}
        }
        match self.wait_for_range(owner, tree, key, Want::Row(mode), writes)? {
            Some(ticket) => Ok(LockOutcome::Wait(ticket)),
            // It went meanwhile.
            None => self.lock(owner, tree, key, mode, policy, writes),
        }
    }

    /// Whether an insert of a key, which is written already, has to wait for a gap of another transaction. One load
    /// where nobody has locked a gap.
    #[inline]
    pub(crate) fn is_in_gap(&self, owner: &LockOwner, tree: TreeId, key: &[u8]) -> bool {
        self.ranges.may_stop(tree, Want::Insert)
            && self.ranges.is_stopped(owner, tree, key, Want::Insert)
    }

    /// Whether anybody has locked a gap in the tree, or in one of the same shard.
    pub(crate) fn may_have_gaps(&self, tree: TreeId) -> bool {
        self.ranges.may_stop(tree, Want::Insert)
    }

    /// Makes the writes before it seen by those who lock a gap after it, or their gaps seen by us.
    #[inline]
    pub(crate) fn fence_writes(&self) {
        fence(Ordering::SeqCst);
    }

    /// Waits for ranges of others; `None` if nothing is in the way any more. The ticket grants nothing.
    pub(crate) fn wait_for_range(
        self: &Arc<Self>,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        key: &[u8],
        want: Want,
        writes: u64,
    ) -> Result<Option<Ticket>> {
        let (ticket, resolver) = wait::ticket(|resolver| {
            Box::new(RangeQueue {
                locks: Arc::clone(self),
                tree,
                resolver: resolver.clone(),
            })
        });
        let key: Arc<[u8]> = key.into();
        let waiter = RangeWaiter {
            owner: Arc::clone(owner),
            key: Arc::clone(&key),
            want,
            resolver: resolver.clone(),
        };
        let waiting = Waiting {
            place: Place::Range(tree, key, want),
            resolver,
            work: owner.work(writes),
        };
        if !self
            .ranges
            .enqueue(tree, waiter, || owner.begin_wait(waiting))
        {
            return Ok(None);
        }
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.break_cycles(owner)?;
        Ok(Some(ticket))
    }

    /// Locks a gap: nobody else inserts into it before this transaction ends.
    pub(crate) fn lock_gap(&self, owner: &Arc<LockOwner>, tree: TreeId, span: KeySpan) {
        owner.set_active();
        self.ranges.lock_gap(owner, tree, span);
    }

    /// Locks the gap ahead of a scan until what is returned settles it.
    pub(crate) fn lock_ahead(
        self: &Arc<Self>,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        span: KeySpan,
    ) -> ScanGap {
        owner.set_active();
        ScanGap {
            id: self.ranges.lock_ahead(owner, tree, span),
            locks: Arc::clone(self),
            owner: Arc::clone(owner),
            tree,
            is_open: true,
        }
    }

    /// Locks the rows of `span` that have been read, of which `key` is the newest, as part of a cover. What is granted
    /// is as good as a lock of the row, but only the whole transaction gives it back.
    pub(crate) fn cover(
        self: &Arc<Self>,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        (span, key): (KeySpan, &[u8]),
        (mode, policy): (LockMode, WaitPolicy),
        writes: u64,
    ) -> Result<LockOutcome> {
        owner.set_active();
        match self.ranges.cover(owner, tree, (span, key), mode) {
            Covered::Stopped => self.wait_for_cover(owner, (tree, key), mode, policy, writes),
            Covered::TooMany => self.lock(owner, tree, key, mode, policy, writes),
            Covered::Added if self.is_free(owner, tree, key, mode) => {
                Ok(LockOutcome::Granted { new: false })
            }
            // Somebody has the row, so it has to be waited for as a row.
            Covered::Added => self.lock(owner, tree, key, mode, policy, writes),
        }
    }

    /// Whether nobody else has or awaits a lock on the row that is in the way.
    fn is_free(&self, owner: &Arc<LockOwner>, tree: TreeId, key: &[u8], mode: LockMode) -> bool {
        let hash = self.hash(tree, key);
        let shard = self.shards[Self::shard_of(hash) as usize].0.lock();
        let slot = shard.find(hash, tree, key);
        slot.is_none_or(|slot| shard.is_free(slot, owner, mode))
    }

    /// What others have put into a span and not committed.
    pub(crate) fn uncommitted(
        &self,
        owner: &LockOwner,
        tree: TreeId,
        span: &KeySpan,
        backward: bool,
        limit: usize,
    ) -> Result<Uncommitted> {
        self.owners.uncommitted(owner, tree, span, backward, limit)
    }

    /// Has another owner written a key and not committed that?
    pub(crate) fn is_written_by_others(
        &self,
        owner: &LockOwner,
        tree: TreeId,
        key: &[u8],
    ) -> Result<bool> {
        self.owners.is_written_by_others(owner, tree, key)
    }

    /// Puts a range lock back that a prepared transaction held before a restart.
    pub(crate) fn restore_range(
        &self,
        owner: &Arc<LockOwner>,
        kind: RangeKind,
        tree: TreeId,
        span: KeySpan,
    ) {
        owner.set_active();
        self.ranges.restore(owner, tree, kind, span);
    }

    /// Turns an exclusive lock that is held into a shared one.
    pub(crate) fn downgrade(&self, owner: &Arc<LockOwner>, tree: TreeId, key: &[u8]) {
        if let Some(lock) = self.find(tree, key) {
            self.downgrade_held(owner, lock);
        }
    }

    fn downgrade_held(&self, owner: &Arc<LockOwner>, lock: LockRef) {
        let mut wakes = Wakes::new();
        self.shards[lock.shard as usize]
            .0
            .lock()
            .downgrade(lock, owner, &mut wakes);
        wake_all(wakes);
    }

    /// Gives back one lock before the end of the transaction. False if it does not hold it.
    pub(crate) fn release(&self, owner: &Arc<LockOwner>, tree: TreeId, key: &[u8]) -> bool {
        let lock = self.find(tree, key);
        lock.is_some_and(|lock| self.release_held(owner, lock))
    }

    fn find(&self, tree: TreeId, key: &[u8]) -> Option<LockRef> {
        let hash = self.hash(tree, key);
        let shard_index = Self::shard_of(hash);
        let shard = self.shards[shard_index as usize].0.lock();
        let slot = shard.find(hash, tree, key)?;
        Some(shard.reference(shard_index, slot))
    }

    /// Gives back one lock if it is in the owner's list.
    fn release_held(&self, owner: &LockOwner, lock: LockRef) -> bool {
        let was_held = owner.remove_held(lock);
        if was_held {
            self.release_one(owner, lock);
        }
        was_held
    }

    fn release_one(&self, owner: &LockOwner, lock: LockRef) {
        let mut wakes = Wakes::new();
        self.give_back(owner, lock, &mut wakes);
        wake_all(wakes);
    }

    fn give_back(&self, owner: &LockOwner, lock: LockRef, wakes: &mut Wakes) {
        let released = self.shards[lock.shard as usize]
            .0
            .lock()
            .release(lock, owner, wakes);
        debug_assert!(released, "what is in the list is held");
    }

    /// Ends the transaction's part in the lock table: leaves the queue, gives back every lock.
    pub(crate) fn release_all(&self, owner: &Arc<LockOwner>) {
        wake_all(self.give_back_all(owner));
    }

    /// As [`LockManager::release_all`], but the caller wakes those who were granted.
    pub(crate) fn give_back_all(&self, owner: &Arc<LockOwner>) -> Wakes {
        let mut wakes = Wakes::new();
        if !owner.take_active() {
            return wakes;
        }
        self.cancel(owner, CancelReason::TransactionEnded);
        owner.withdraw();
        let mut held = owner.take_held();
        for lock in held.drain(..) {
            self.give_back(owner, lock, &mut wakes);
        }
        owner.keep_list(held);
        self.ranges.release_all(owner, &mut wakes);
        debug_assert!(!owner.holds_any(), "every lock is given back");
        wakes
    }

    /// Calls `each` with every lock the owner holds.
    pub(crate) fn for_each_held(
        &self,
        owner: &LockOwner,
        mut each: impl FnMut(LockMode, TreeId, &[u8]),
    ) {
        for lock in owner.held() {
            let shard = self.shards[lock.shard as usize].0.lock();
            if let Some((mode, tree, key)) = shard.row(lock).and_then(|row| row.held_by(owner)) {
                each(mode, tree, key);
            }
        }
    }

    /// Calls `each` with every range the owner has locked.
    pub(crate) fn for_each_range(
        &self,
        owner: &LockOwner,
        each: impl FnMut(RangeKind, TreeId, &KeySpan),
    ) {
        self.ranges.for_each(owner, each);
    }

    /// Ends the owner's wait, if it is in one, with [`EngineError::Cancelled`].
    pub(crate) fn cancel(&self, owner: &LockOwner, reason: CancelReason) -> bool {
        self.end_wait(owner, EngineError::Cancelled(reason))
    }

    /// Takes the owner out of the queue it waits in and resolves its ticket with `error`.
    fn end_wait(&self, owner: &LockOwner, error: EngineError) -> bool {
        let Some(waiting) = owner.waiting() else {
            return false;
        };
        let mut wakes = Wakes::new();
        let left = match waiting.place {
            Place::Row(lock) => self.leave(lock, &waiting.resolver, &mut wakes),
            Place::Range(tree, ..) => self.leave_ranges(tree, &waiting.resolver, &mut wakes),
        };
        if left {
            wakes.extend(waiting.resolver.resolve(Err(error)));
        }
        wake_all(wakes);
        left
    }

    fn leave_ranges(&self, tree: TreeId, resolver: &Resolver, wakes: &mut Wakes) -> bool {
        let left = self.ranges.leave(tree, resolver);
        left.map(|more| wakes.extend(more)).is_some()
    }

    fn leave(&self, lock: LockRef, resolver: &Resolver, wakes: &mut Wakes) -> bool {
        self.shards[lock.shard as usize]
            .0
            .lock()
            .leave(lock, resolver, wakes)
    }

    /// Rows and ranges there is a lock, or room for one.
    pub(crate) fn places(&self) -> usize {
        let shards = self.shards.iter();
        let rows: usize = shards.map(|shard| shard.0.lock().rows()).sum();
        rows + self.ranges.spans()
    }

    /// Rows that can be locked without more memory.
    pub(crate) fn free_places(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.0.lock().free_rows()).sum()
    }

    /// Waits begun and deadlocks broken since the start.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.waits.load(Ordering::Relaxed),
            self.deadlocks.load(Ordering::Relaxed),
        )
    }

    /// Asserts the invariants of every shard: for simulations and tests, while no request is running.
    pub(crate) fn validate(&self) {
        for shard in &self.shards {
            shard.0.lock().validate();
        }
        self.ranges.validate();
    }

    fn shard_of(hash: u64) -> u32 {
        // The low bits choose the bucket inside the shard.
        (hash >> 58) as u32 & (SHARDS as u32 - 1)
    }

    /// A hash that nobody outside can foresee.
    fn hash(&self, tree: TreeId, key: &[u8]) -> u64 {
        let state = fold_bytes(self.seeds[0] ^ u64::from(tree.0), key, self.seeds[1]);
        fold(state ^ key.len() as u64, self.seeds[0] | 1)
    }
}

fn wake_all(wakes: Wakes) {
    for wakeup in wakes {
        wakeup.wake();
    }
}

/// The way out of a row's queue for a ticket.
struct RowQueue {
    locks: Arc<LockManager>,
    owner: Arc<LockOwner>,
    lock: LockRef,
    upgrade: bool,
    resolver: Resolver,
}

impl WaitQueue for RowQueue {
    fn leave(&self) -> bool {
        let mut wakes = Wakes::new();
        let left = self.locks.leave(self.lock, &self.resolver, &mut wakes);
        wake_all(wakes);
        left
    }

    fn give_back(&self) {
        // An upgrade keeps what it got: the transaction held the row before and goes on holding it.
        if !self.upgrade {
            self.locks.release_held(&self.owner, self.lock);
        }
    }
}

/// The way out of the list of those who wait for ranges.
struct RangeQueue {
    locks: Arc<LockManager>,
    tree: TreeId,
    resolver: Resolver,
}

impl WaitQueue for RangeQueue {
    fn leave(&self) -> bool {
        let mut wakes = Wakes::new();
        let left = self
            .locks
            .leave_ranges(self.tree, &self.resolver, &mut wakes);
        wake_all(wakes);
        left
    }

    fn give_back(&self) {
        // Nothing was granted but to try again.
    }
}

/// The gap ahead of a scan. When it is dropped, nothing of it stays locked.
pub struct ScanGap {
    locks: Arc<LockManager>,
    owner: Arc<LockOwner>,
    tree: TreeId,
    id: AheadId,
    is_open: bool,
}

impl ScanGap {
    /// The scan has read `read` and stops, for now or for good: that stays locked, what is ahead does not.
    pub fn finalize(mut self, read: KeySpan) {
        self.end(Some(read));
    }

    fn end(&mut self, read: Option<KeySpan>) {
        if std::mem::take(&mut self.is_open) {
            let ranges = &self.locks.ranges;
            wake_all(ranges.finalize(&self.owner, self.tree, self.id, read));
        }
    }
}

impl Drop for ScanGap {
    fn drop(&mut self) {
        self.end(None);
    }
}
