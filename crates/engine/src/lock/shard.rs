//! One shard of the lock table: the locked rows whose hash falls here.
//!
//! Neighbours: `lock::LockManager` owns the shards and their mutexes, and does everything that involves more than one.
//!
//! Rows live in slots that are reused together with their key buffers, so that locking allocates nothing once warm.
//! A chained hash index over the slots finds a row by key; a [`LockRef`] finds it without hashing.
//!
//! **Invariants**
//! - A slot is in the index exactly while its row has a holder or a waiter.
//! - No holder of a row is incompatible with another holder.
//! - A waiter is granted only when nobody stands before it. Waiting upgrades stand before all others, because nobody
//!   else can be granted before them. Among the others, who waits for an exclusive lock and holds more locks stands
//!   before who holds fewer: others wait for what it holds, and if it came last, who is granted before it might be the
//!   next to ask for that, which is a deadlock. Nobody is overtaken more than [`MAX_OVERTAKEN`] times. Otherwise first
//!   come, first served. (The idea is that of contention-aware scheduling: Tian et al., "Contention-Aware Lock
//!   Scheduling for Transactional Databases", VLDB 2018.)
//! - The first waiter of a row is never grantable: every change of holders or queue ends with [`Shard::grant_waiters`].

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{LockMode, LockOwner, LockRef};
use crate::TreeId;
use crate::span::Spans;
use crate::wait::{Resolver, Wakeup};

const NONE: u32 = u32::MAX;
/// A free slot keeps its key buffer up to this size.
const KEPT_KEY_BYTES: usize = 256;
/// A shard that becomes empty keeps at most this many slots.
const KEPT_SLOTS: usize = 1024;
const FIRST_BUCKETS: usize = 16;
/// Times a waiter may be overtaken: then nobody passes it any more.
pub(super) const MAX_OVERTAKEN: u32 = 32;

/// One transaction's hold on a row.
pub(super) struct Holder {
    pub(super) owner: Arc<LockOwner>,
    pub(super) mode: LockMode,
    /// Granted from the queue, and the owner has not asked again since: its next request reports the lock as new.
    pub(super) fresh: bool,
    /// The same of an upgrade: its next request reports it as upgraded.
    pub(super) raised: bool,
}

/// One transaction's place in the queue of a row.
pub(super) struct Waiter {
    pub(super) owner: Arc<LockOwner>,
    pub(super) mode: LockMode,
    pub(super) upgrade: bool,
    /// Locks its owner holds.
    pub(super) held: usize,
    /// How many came later and stand before it.
    pub(super) overtaken: u32,
    pub(super) resolver: Resolver,
}

impl Waiter {
    /// Whether it may pass `other`, who came before. A shared request may not: it could be granted in front of an
    /// exclusive one, and then nobody would grant it.
    fn passes(&self, other: &Waiter) -> bool {
        match (self.upgrade, other.upgrade) {
            (_, true) => false,
            (true, false) => true,
            (false, false) => {
                self.mode == LockMode::Exclusive
                    && self.held > other.held
                    && other.overtaken < MAX_OVERTAKEN
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Row {
    hash: u64,
    tree: u32,
    next: u32,
    stamp: u64,
    key: Vec<u8>,
    pub(super) holders: SmallVec<[Holder; 1]>,
    pub(super) queue: VecDeque<Waiter>,
}

/// What happened to a request.
pub(super) enum Request {
    /// `listed`: the row is in the owner's list of held locks already. `upgraded`: it was locked shared. What is new or
    /// upgraded has not been compared with covers yet, whether it is granted now or was from the queue.
    Granted {
        new: bool,
        listed: bool,
        upgraded: bool,
    },
    Conflict {
        upgrade: bool,
    },
}

#[derive(Default)]
pub(super) struct Shard {
    buckets: Vec<u32>,
    rows: Vec<Row>,
    free: Vec<u32>,
    live: usize,
    /// The stamp of the last row that was added. Never falls, so a reference that is out of date meets no row.
    last_stamp: u64,
}

impl Shard {
    fn bucket(&self, hash: u64) -> usize {
        debug_assert!(self.buckets.len().is_power_of_two());
        (hash as usize) & (self.buckets.len() - 1)
    }

    /// Rows there is a lock, or room for one.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Those there is only room for.
    pub(super) fn free_rows(&self) -> usize {
        self.free.len()
    }

    pub(super) fn find(&self, hash: u64, tree: TreeId, key: &[u8]) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut slot = self.buckets[self.bucket(hash)];
        while slot != NONE {
            let row = &self.rows[slot as usize];
            if row.hash == hash && row.tree == tree.0 && row.key == key {
                return Some(slot);
            }
            slot = row.next;
        }
        None
    }

    pub(super) fn find_or_add(&mut self, hash: u64, tree: TreeId, key: &[u8]) -> u32 {
        if let Some(slot) = self.find(hash, tree, key) {
            return slot;
        }
        if self.live >= self.buckets.len() {
            self.grow();
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.rows.push(Row::default());
            u32::try_from(self.rows.len() - 1).expect("fewer than 2^32 locks fit in memory")
        });
        let bucket = self.bucket(hash);
        let row = &mut self.rows[slot as usize];
        debug_assert!(row.holders.is_empty() && row.queue.is_empty());
        self.last_stamp += 1;
        row.stamp = self.last_stamp;
        row.hash = hash;
        row.tree = tree.0;
        row.key.clear();
        row.key.extend_from_slice(key);
        row.next = self.buckets[bucket];
        self.buckets[bucket] = slot;
        self.live += 1;
        debug_assert!(self.live <= self.rows.len());
        slot
    }

    fn grow(&mut self) {
        let size = (self.buckets.len() * 2).max(FIRST_BUCKETS);
        let old = std::mem::replace(&mut self.buckets, vec![NONE; size]);
        for mut slot in old {
            while slot != NONE {
                let bucket = self.bucket(self.rows[slot as usize].hash);
                let row = &mut self.rows[slot as usize];
                let following = std::mem::replace(&mut row.next, self.buckets[bucket]);
                self.buckets[bucket] = slot;
                slot = following;
            }
        }
    }

    /// Frees the slot if nobody holds or awaits its row.
    fn remove_if_idle(&mut self, slot: u32) {
        let row = &self.rows[slot as usize];
        if !row.holders.is_empty() || !row.queue.is_empty() {
            return;
        }
        let bucket = self.bucket(row.hash);
        let following = row.next;
        let mut at = self.buckets[bucket];
        if at == slot {
            self.buckets[bucket] = following;
        } else {
            while self.rows[at as usize].next != slot {
                at = self.rows[at as usize].next;
            }
            self.rows[at as usize].next = following;
        }
        let row = &mut self.rows[slot as usize];
        if row.key.capacity() > KEPT_KEY_BYTES {
            row.key = Vec::new();
        }
        self.free.push(slot);
        assert!(self.live > 0, "a slot in use is counted");
        self.live -= 1;
        debug_assert_eq!(self.free.len() + self.live, self.rows.len());
        if self.live == 0 && self.rows.len() > KEPT_SLOTS {
            *self = Shard {
                last_stamp: self.last_stamp,
                ..Shard::default()
            };
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0 && self.buckets.iter().all(|slot| *slot == NONE)
    }

    /// The row a reference means, unless it has been freed since.
    pub(super) fn row(&self, lock: LockRef) -> Option<&Row> {
        let row = self.rows.get(lock.slot as usize)?;
        let live = !row.holders.is_empty() || !row.queue.is_empty();
        (live && row.stamp == lock.stamp).then_some(row)
    }

    pub(super) fn reference(&self, shard: u32, slot: u32) -> LockRef {
        LockRef {
            shard,
            slot,
            stamp: self.rows[slot as usize].stamp,
        }
    }

    /// Tries to lock a row for `owner`.
    pub(super) fn request(&mut self, slot: u32, owner: &Arc<LockOwner>, mode: LockMode) -> Request {
        let row = &mut self.rows[slot as usize];
        let alone = row.holders.len() == 1;
        let mine = row
            .holders
            .iter_mut()
            .find(|holder| Arc::ptr_eq(&holder.owner, owner));
        if let Some(holder) = mine {
            let mut upgraded = std::mem::take(&mut holder.raised);
            if mode == LockMode::Exclusive && holder.mode == LockMode::Shared {
                if !alone {
                    return Request::Conflict { upgrade: true };
                }
                holder.mode = LockMode::Exclusive;
                upgraded = true;
            }
            let new = std::mem::take(&mut holder.fresh);
            return Request::Granted {
                new,
                listed: true,
                upgraded,
            };
        }
        if row.queue.is_empty() && row.admits(owner, mode) {
            row.holders.push(Holder {
                owner: Arc::clone(owner),
                mode,
                fresh: false,
                raised: false,
            });
            return Request::Granted {
                new: true,
                listed: false,
                upgraded: false,
            };
        }
        Request::Conflict { upgrade: false }
    }

    /// Whether a request of `owner` would be granted at once, or is.
    pub(super) fn is_free(&self, slot: u32, owner: &Arc<LockOwner>, mode: LockMode) -> bool {
        let row = &self.rows[slot as usize];
        row.queue.is_empty() && row.admits(owner, mode)
    }

    /// Makes the exclusive hold of `owner` a shared one.
    pub(super) fn downgrade(&mut self, lock: LockRef, owner: &LockOwner, wakes: &mut Wakes) {
        if self.row(lock).is_none() {
            return;
        }
        let row = &mut self.rows[lock.slot as usize];
        let mut holders = row.holders.iter_mut();
        if let Some(mine) = holders.find(|holder| std::ptr::eq(&*holder.owner, owner)) {
            mine.mode = LockMode::Shared;
            self.grant_waiters(lock, wakes);
        }
    }

    /// Calls `each` with the rows of a tree that a cover of `owner` must leave out: where others have a lock that
    /// conflicts, or wait for one that this owner does not hold.
    pub(super) fn for_each_foreign(
        &self,
        owner: &LockOwner,
        (tree, mode): (TreeId, LockMode),
        mut each: impl FnMut(&[u8]),
    ) {
        for row in self.rows.iter().filter(|row| row.tree == tree.0) {
            let mut others = row
                .holders
                .iter()
                .filter(|h| !std::ptr::eq(&*h.owner, owner));
            let conflicts = others.any(|holder| !holder.mode.admits(mode));
            if conflicts || (!row.queue.is_empty() && row.held_by(owner).is_none()) {
                each(&row.key);
            }
        }
    }

    /// Gives up the hold of `owner` on a row that `covers` has, in their mode, unless somebody waits for it; true if it
    /// did.
    pub(super) fn release_covered(
        &mut self,
        lock: LockRef,
        owner: &LockOwner,
        (tree, mode, covers): (TreeId, LockMode, &Spans),
    ) -> bool {
        let row = self.row(lock).filter(|row| row.queue.is_empty());
        let held = row.and_then(|row| row.held_by(owner));
        if !held.is_some_and(|(m, t, key)| m == mode && t == tree && covers.contains(key)) {
            return false;
        }
        let mut wakes = Wakes::new();
        let released = self.release(lock, owner, &mut wakes);
        debug_assert!(released && wakes.is_empty(), "nobody waited for it");
        released
    }

    /// Gives back the memory of slots that are free, as far as none in use lies behind them.
    pub(super) fn trim(&mut self) {
        let is_free = |row: &Row| row.holders.is_empty() && row.queue.is_empty();
        let used = self.rows.iter().rposition(|row| !is_free(row));
        let kept = used.map_or(0, |last| last + 1);
        self.rows.truncate(kept);
        self.rows.shrink_to_fit();
        self.free.retain(|slot| (*slot as usize) < kept);
        self.free.shrink_to_fit();
        debug_assert_eq!(self.free.len() + self.live, self.rows.len());
    }

    pub(super) fn enqueue(&mut self, slot: u32, waiter: Waiter) {
        let queue = &mut self.rows[slot as usize].queue;
        let passed = queue.iter_mut().rev();
        let passed = passed.take_while(|other| waiter.passes(other));
        let count = passed.map(|other| other.overtaken += 1).count();
        queue.insert(queue.len() - count, waiter);
        self.rows[slot as usize].validate();
    }

    /// Looks at every row: for simulations and tests.
    pub(super) fn validate(&self) {
        let mut seen = 0;
        for (bucket, first) in self.buckets.iter().enumerate() {
            let mut slot = *first;
            while slot != NONE {
                let row = &self.rows[slot as usize];
                assert_eq!(self.bucket(row.hash), bucket, "a row is found by its hash");
                assert!(row.stamp <= self.last_stamp);
                assert!(!row.holders.is_empty(), "a row in the index is held");
                row.validate();
                seen += 1;
                slot = row.next;
            }
        }
        assert_eq!(seen, self.live, "every row in use is in the index");
        assert_eq!(self.free.len() + self.live, self.rows.len());
    }

    /// Gives up the hold of `owner`; true if it had one.
    pub(super) fn release(&mut self, lock: LockRef, owner: &LockOwner, wakes: &mut Wakes) -> bool {
        if self.row(lock).is_none() {
            return false;
        }
        let row = &mut self.rows[lock.slot as usize];
        let mine = row
            .holders
            .iter()
            .position(|holder| std::ptr::eq(&*holder.owner, owner));
        let Some(at) = mine else {
            return false;
        };
        row.holders.swap_remove(at);
        debug_assert!(
            row.holders.iter().all(|h| !std::ptr::eq(&*h.owner, owner)),
            "held once"
        );
        if !row.queue.is_empty() {
            self.grant_waiters(lock, wakes);
        }
        self.remove_if_idle(lock.slot);
        true
    }

    /// Takes a waiter out of the queue; true if it was still there.
    pub(super) fn leave(&mut self, lock: LockRef, resolver: &Resolver, wakes: &mut Wakes) -> bool {
        if self.row(lock).is_none() {
            return false;
        }
        let row = &mut self.rows[lock.slot as usize];
        let Some(at) = row.queue.iter().position(|w| w.resolver.is_same(resolver)) else {
            return false;
        };
        let waiter = row.queue.remove(at).expect("just found");
        waiter.owner.wait_ended();
        self.grant_waiters(lock, wakes);
        self.remove_if_idle(lock.slot);
        true
    }

    /// Grants from the front of the queue as far as possible.
    fn grant_waiters(&mut self, lock: LockRef, wakes: &mut Wakes) {
        let row = &mut self.rows[lock.slot as usize];
        while let Some(first) = row.queue.front() {
            if !row.admits(&first.owner, first.mode) {
                break;
            }
            let waiter = row.queue.pop_front().expect("there is a front");
            row.grant(lock, waiter, wakes);
        }
        row.validate();
    }
}

/// Waiters to be woken once the shard is unlocked.
pub(crate) type Wakes = SmallVec<[Wakeup; 2]>;

impl Row {
    /// In builds with debug assertions: no two holders conflict, upgrades wait in front, and the first waiter cannot be
    /// granted.
    fn validate(&self) {
        debug_assert!(
            self.holders.len() <= 1 || self.holders.iter().all(|h| h.mode == LockMode::Shared),
            "holders of a row are compatible"
        );
        debug_assert!(
            self.queue
                .front()
                .is_none_or(|first| !self.admits(&first.owner, first.mode)),
            "a waiter that could be granted is"
        );
        debug_assert!(
            self.queue
                .iter()
                .skip_while(|w| w.upgrade)
                .all(|w| !w.upgrade),
            "upgrades wait in front"
        );
        debug_assert!(self.queue.iter().all(|w| w.overtaken <= MAX_OVERTAKEN));
    }

    /// Whether the holders other than `owner` leave room for `mode`.
    fn admits(&self, owner: &Arc<LockOwner>, mode: LockMode) -> bool {
        self.holders
            .iter()
            .all(|holder| Arc::ptr_eq(&holder.owner, owner) || holder.mode.admits(mode))
    }

    /// How `owner` holds this row, and which row it is.
    pub(super) fn held_by(&self, owner: &LockOwner) -> Option<(LockMode, TreeId, &[u8])> {
        let mut holders = self.holders.iter();
        let mine = holders.find(|holder| std::ptr::eq(&*holder.owner, owner))?;
        Some((mine.mode, TreeId(self.tree), &self.key))
    }

    /// How `owner` waits for this row, and which row it is.
    pub(super) fn awaited_by(&self, owner: &LockOwner) -> Option<(LockMode, TreeId, &[u8])> {
        let mut waiters = self.queue.iter();
        let mine = waiters.find(|waiter| std::ptr::eq(&*waiter.owner, owner))?;
        Some((mine.mode, TreeId(self.tree), &self.key))
    }

    fn grant(&mut self, lock: LockRef, waiter: Waiter, wakes: &mut Wakes) {
        waiter.owner.wait_ended();
        if waiter.upgrade {
            let mine = self
                .holders
                .iter_mut()
                .find(|h| Arc::ptr_eq(&h.owner, &waiter.owner));
            let mine = mine.expect("an upgrade waits while holding");
            (mine.mode, mine.raised) = (LockMode::Exclusive, true);
        } else {
            waiter.owner.add_held(lock);
            let (owner, mode) = (waiter.owner, waiter.mode);
            self.holders.push(Holder {
                owner,
                mode,
                fresh: true,
                raised: false,
            });
        }
        wakes.extend(waiter.resolver.resolve(Ok(())));
    }

    /// Everyone the waiter `owner` cannot be granted before: the holders it conflicts with, and the holders that those
    /// before it in the queue conflict with.
    pub(super) fn blockers(&self, owner: &LockOwner) -> SmallVec<[Arc<LockOwner>; 4]> {
        let Some(at) = self
            .queue
            .iter()
            .position(|w| std::ptr::eq(&*w.owner, owner))
        else {
            return SmallVec::new();
        };
        let blocked_as_exclusive = self
            .queue
            .iter()
            .take(at + 1)
            .any(|waiter| waiter.mode == LockMode::Exclusive);
        let mode = if blocked_as_exclusive {
            LockMode::Exclusive
        } else {
            self.queue[at].mode
        };
        self.holders
            .iter()
            .filter(|holder| !std::ptr::eq(&*holder.owner, owner) && !holder.mode.admits(mode))
            .map(|holder| Arc::clone(&holder.owner))
            .collect()
    }
}
