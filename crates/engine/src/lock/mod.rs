//! Row locks: shared and exclusive, with fair queues, upgrade, deadlock detection, and waits that can be
//! given up at any time.
//!
//! Neighbours: `txn` locks rows and releases them at its end; `wait` is the form of a wait. A "row" is any (tree, key);
//! it need not exist.
//!
//! Parts: `shard` (rows and their queues) → [`LockManager`] (shards, owners) → `deadlock` (the wait-for graph).
//!
//! **Invariants**
//! - Lock order inside: the deadlock mutex, then a shard, then an owner's fields. Never two shards at once.
//! - A transaction waits for at most one row at a time; `LockOwner::wait` says which.
//! - Every hold of an owner is in its `held` list, pushed under the shard's lock; ending a transaction first leaves the
//!   queue, then drains the list, so nothing is granted behind its back.
//! - A wait is queued before the search for a cycle starts, so of the waits that close a cycle together the last search
//!   sees them all.

mod deadlock;
mod shard;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::hash::{fold, fold_bytes};
use crate::wait::{self, Resolver, Ticket, WaitQueue};
use crate::{CancelReason, EngineError, Result, TreeId};
pub(crate) use shard::Wakes;
use shard::{Request, Shard, Waiter};

/// Number of shards, a power of two: far more than threads that lock at the same moment.
const SHARDS: usize = 64;
const _: () = assert!(SHARDS.is_power_of_two());

/// How a row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The wait a transaction is in.
#[derive(Clone)]
struct Waiting {
    lock: LockRef,
    resolver: Resolver,
    /// Locks held and rows written when the wait began. A waiting transaction does nothing, so it stays right.
    work: u64,
}

/// A transaction as the lock table knows it.
pub(crate) struct LockOwner {
    /// Whether it has asked for a lock since it last gave all back.
    active: AtomicBool,
    held: Mutex<Vec<LockRef>>,
    wait: Mutex<Option<Waiting>>,
}

impl LockOwner {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(LockOwner {
            active: AtomicBool::new(false),
            held: Mutex::new(Vec::new()),
            wait: Mutex::new(None),
        })
    }

    pub(crate) fn held_count(&self) -> usize {
        self.held.lock().len()
    }

    fn add_held(&self, lock: LockRef) {
        self.held.lock().push(lock);
    }

    fn wait_ended(&self) {
        *self.wait.lock() = None;
    }

    fn waiting(&self) -> Option<Waiting> {
        self.wait.lock().clone()
    }
}

/// A shard on cache lines of its own, so that neighbours do not disturb each other.
#[repr(align(128))]
#[derive(Default)]
struct ShardCell(Mutex<Shard>);

/// The lock table.
pub(crate) struct LockManager {
    shards: Box<[ShardCell]>,
    /// One search for a cycle at a time.
    detecting: Mutex<()>,
    /// Keys of the hash, so that nobody can choose rows that fall together.
    seeds: [u64; 2],
    waits: AtomicU64,
    deadlocks: AtomicU64,
}

impl LockManager {
    pub(crate) fn new(seeds: [u64; 2]) -> Arc<Self> {
        Arc::new(LockManager {
            shards: (0..SHARDS).map(|_| ShardCell::default()).collect(),
            detecting: Mutex::new(()),
            seeds,
            waits: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
        })
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
        owner.active.store(true, Ordering::Relaxed);
        let hash = self.hash(tree, key);
        let shard_index = Self::shard_of(hash);
        let mut shard = self.shards[shard_index as usize].0.lock();
        let slot = shard.find_or_add(hash, tree, key);
        let upgrade = match shard.request(slot, owner, mode) {
            Request::Granted { new, listed } => {
                if !listed {
                    owner.add_held(shard.reference(shard_index, slot));
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
        let work = writes + held as u64;
        let earlier = owner.wait.lock().replace(Waiting {
            lock,
            resolver: resolver.clone(),
            work,
        });
        assert!(
            earlier.is_none(),
            "a transaction waits for one row at a time"
        );
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

    /// Gives back one lock before the end of the transaction. False if it does not hold it.
    pub(crate) fn release(&self, owner: &Arc<LockOwner>, tree: TreeId, key: &[u8]) -> bool {
        let hash = self.hash(tree, key);
        let shard_index = Self::shard_of(hash);
        let found = {
            let shard = self.shards[shard_index as usize].0.lock();
            shard
                .find(hash, tree, key)
                .map(|slot| shard.reference(shard_index, slot))
        };
        found.is_some_and(|lock| self.release_held(owner, lock))
    }

    /// Gives back one lock if it is in the owner's list.
    fn release_held(&self, owner: &LockOwner, lock: LockRef) -> bool {
        {
            let mut held = owner.held.lock();
            let Some(at) = held.iter().rposition(|other| *other == lock) else {
                return false;
            };
            held.swap_remove(at);
        }
        self.release_one(owner, lock);
        true
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
    pub(crate) fn release_all(&self, owner: &LockOwner) {
        wake_all(self.give_back_all(owner));
    }

    /// As [`LockManager::release_all`], but the caller wakes those who were granted.
    pub(crate) fn give_back_all(&self, owner: &LockOwner) -> Wakes {
        let mut wakes = Wakes::new();
        // Nobody else uses an owner at the same time, so this need not be one operation.
        if !owner.active.load(Ordering::Relaxed) {
            return wakes;
        }
        owner.active.store(false, Ordering::Relaxed);
        self.cancel(owner, CancelReason::TransactionEnded);
        let mut held = std::mem::take(&mut *owner.held.lock());
        for lock in held.drain(..) {
            self.give_back(owner, lock, &mut wakes);
        }
        // The emptied list goes back, so that the next transaction of this owner need not allocate one.
        if held.capacity() <= KEPT_HELD {
            *owner.held.lock() = held;
        }
        wakes
    }

    /// Calls `each` with every lock the owner holds.
    pub(crate) fn for_each_held(
        &self,
        owner: &Arc<LockOwner>,
        mut each: impl FnMut(LockMode, TreeId, &[u8]),
    ) {
        let held = owner.held.lock().clone();
        for lock in held {
            let shard = self.shards[lock.shard as usize].0.lock();
            if let Some((mode, tree, key)) = shard.row(lock).and_then(|row| row.held_by(owner)) {
                each(mode, tree, key);
            }
        }
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
        let left = self.leave(waiting.lock, &waiting.resolver, &mut wakes);
        if left {
            wakes.extend(waiting.resolver.resolve(Err(error)));
        }
        wake_all(wakes);
        left
    }

    fn leave(&self, lock: LockRef, resolver: &Resolver, wakes: &mut Wakes) -> bool {
        self.shards[lock.shard as usize]
            .0
            .lock()
            .leave(lock, resolver, wakes)
    }

    /// Rows there is a lock, or room for one.
    pub(crate) fn rows(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.0.lock().rows()).sum()
    }

    /// Waits begun and deadlocks broken since the start.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.waits.load(Ordering::Relaxed),
            self.deadlocks.load(Ordering::Relaxed),
        )
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

/// An owner keeps the memory of its list for up to this many locks.
const KEPT_HELD: usize = 1024;

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
