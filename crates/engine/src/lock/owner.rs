//! A transaction as the lock table knows it: what it holds, what it waits for, and what it has written and not
//! committed, for others to see that it is there.
//!
//! Neighbours: `txn` has one owner at a time and publishes its write set; `lock::LockManager` keeps all owners, so that
//! a locking read finds the uncommitted rows of others (they are in no tree yet) and waits for them.
//!
//! **Invariants**
//! - Every hold of an owner is in its `held` list, pushed under the shard's lock.
//! - A transaction waits for at most one thing at a time.
//! - What is published has all live uncommitted writes: a tree is published with the first write to it, and
//!   withdrawn after the commit has put the versions into the memtables, or at rollback.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{LockMode, LockRef};
use crate::batch::{DeadRanges, OwnTables, OwnWrites, Spills, WriteSet, is_dead};
use crate::extent::ReadMode;
use crate::iter::InternalIter;
use crate::span::KeySpan;
use crate::wait::Resolver;
use crate::{Op, Result, Seq, TreeId};

/// What a transaction waits for.
#[derive(Clone)]
pub(super) enum Place {
    /// A row.
    Row(LockRef),
    /// The ranges of others in this tree, at this key.
    Range(TreeId, Arc<[u8]>, Want),
}

/// What ranges of others stand in the way of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// A new key: gaps stand in its way.
    Insert,
    /// A row: covers do.
    Row(LockMode),
}

impl Want {
    /// Whether the two may not have the same row together. Inserts only meet gaps.
    pub(super) fn conflicts(self, other: Want) -> bool {
        match (self, other) {
            (Want::Row(mode), Want::Row(other)) => !mode.admits(other),
            (Want::Insert, _) | (_, Want::Insert) => false,
        }
    }
}

/// The wait a transaction is in.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) place: Place,
    pub(super) resolver: Resolver,
    /// Locks held (rows, and trees with covers) and rows written when the wait began. A waiting transaction does
    /// nothing, so it stays right.
    pub(super) work: u64,
}

/// Uncommitted writes to a tree that others may look at.
#[derive(Clone)]
pub(super) struct Published {
    pub(crate) tree: TreeId,
    pub(crate) tables: OwnTables,
    pub(crate) spills: Spills,
}

impl Published {
    /// Is there a version of this key that is not in `dead`?
    fn has(&self, key: &[u8], dead: &[(Seq, Seq)]) -> Result<bool> {
        for table in self.tables.settled() {
            if has_version(&mut table.iter(), key, dead)? {
                return Ok(true);
            }
        }
        for mut spill in self.spills.iters(ReadMode::Cached) {
            if has_version(&mut spill, key, dead)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn has_version(iter: &mut dyn InternalIter, key: &[u8], dead: &[(Seq, Seq)]) -> Result<bool> {
    iter.seek(key)?;
    while iter.valid() && iter.key() == key {
        if !is_dead(dead, iter.seq()) {
            return Ok(true);
        }
        iter.next()?;
    }
    Ok(false)
}

/// Everything that an owner has published.
#[derive(Default)]
struct PublishedSet {
    trees: SmallVec<[Published; 2]>,
    /// Writes that were rolled back to a savepoint.
    dead: DeadRanges,
}

/// A transaction as the lock table knows it.
pub(crate) struct LockOwner {
    /// Whether it has locked or published anything since it last gave all back.
    active: AtomicBool,
    held: Mutex<Vec<LockRef>>,
    wait: Mutex<Option<Waiting>>,
    ranges: Mutex<RangeTrees>,
    published: Mutex<PublishedSet>,
}

/// Trees in which an owner has range locks.
#[derive(Default)]
struct RangeTrees {
    any: SmallVec<[TreeId; 2]>,
    /// Those in which it has covers.
    covered: SmallVec<[TreeId; 2]>,
    /// Rows whose locks became part of a cover.
    merged_rows: usize,
    /// Covers are made of its row locks again when it has as many as this.
    merge_at: usize,
}

/// So few row locks are not worth making covers of.
const LEAST_MERGED: usize = 256;

/// An owner keeps the memory of its list for up to this many locks.
const KEPT_HELD: usize = 1024;

impl LockOwner {
    fn new() -> Arc<Self> {
        Arc::new(LockOwner {
            active: AtomicBool::new(false),
            held: Mutex::new(Vec::new()),
            wait: Mutex::new(None),
            ranges: Mutex::default(),
            published: Mutex::default(),
        })
    }

    pub(crate) fn held_count(&self) -> usize {
        self.held.lock().len()
    }

    /// What it would cost to do its work again, for the choice of a victim.
    pub(super) fn work(&self, writes: u64) -> u64 {
        let held = self.held_count();
        let ranges = self.ranges.lock();
        writes + (held + ranges.merged_rows + ranges.covered.len()) as u64
    }

    /// Whether the end of the transaction frees anything that others could wait for.
    pub(crate) fn holds_any(&self) -> bool {
        self.held_count() > 0 || !self.ranges.lock().any.is_empty()
    }

    pub(super) fn set_active(&self) {
        self.active.store(true, Ordering::Relaxed);
    }

    /// Whether it was active; it is not any more. Nobody else uses an owner at the same time, so this need not be one
    /// operation.
    pub(super) fn take_active(&self) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        if active {
            self.active.store(false, Ordering::Relaxed);
        }
        active
    }

    pub(super) fn add_held(&self, lock: LockRef) {
        let mut held = self.held.lock();
        debug_assert_ne!(held.last(), Some(&lock), "a lock is listed once");
        held.push(lock);
    }

    /// Takes a lock out of the list; false if it is not there.
    pub(super) fn remove_held(&self, lock: LockRef) -> bool {
        let mut held = self.held.lock();
        let Some(at) = held.iter().rposition(|other| *other == lock) else {
            return false;
        };
        held.swap_remove(at);
        true
    }

    pub(super) fn held(&self) -> Vec<LockRef> {
        self.held.lock().clone()
    }

    pub(super) fn held_up_to(&self, limit: usize) -> Vec<LockRef> {
        self.held.lock().iter().take(limit).copied().collect()
    }

    pub(super) fn take_held(&self) -> Vec<LockRef> {
        std::mem::take(&mut *self.held.lock())
    }

    /// Puts those back that it goes on holding.
    pub(super) fn put_held(&self, mut still: Vec<LockRef>) {
        still.shrink_to_fit();
        let taken = std::mem::replace(&mut *self.held.lock(), still);
        debug_assert!(taken.is_empty(), "nothing was granted meanwhile");
    }

    /// Keeps the memory of an emptied list, so that the next transaction of this owner need not allocate one.
    pub(super) fn keep_list(&self, held: Vec<LockRef>) {
        debug_assert!(held.is_empty(), "only the memory is kept");
        if held.capacity() <= KEPT_HELD {
            *self.held.lock() = held;
        }
    }

    pub(super) fn begin_wait(&self, waiting: Waiting) {
        let earlier = self.wait.lock().replace(waiting);
        assert!(
            earlier.is_none(),
            "a transaction waits for one thing at a time"
        );
    }

    pub(super) fn wait_ended(&self) {
        let ended = self.wait.lock().take();
        debug_assert!(ended.is_some(), "a wait that ends has begun");
    }

    pub(super) fn waiting(&self) -> Option<Waiting> {
        self.wait.lock().clone()
    }

    /// Notes that it has range locks in a tree; `covers`: a cover among them.
    pub(super) fn add_range_tree(&self, tree: TreeId, covers: bool) {
        let mut ranges = self.ranges.lock();
        if !ranges.any.contains(&tree) {
            ranges.any.push(tree);
        }
        if covers && !ranges.covered.contains(&tree) {
            ranges.covered.push(tree);
        }
        debug_assert!(ranges.covered.iter().all(|tree| ranges.any.contains(tree)));
    }

    /// Whether it has enough row locks to make covers of them. Where most had to stay what they are, it is not tried
    /// before there are twice as many: every try looks at all locks of a tree.
    pub(super) fn may_merge(&self) -> bool {
        let held = self.held_count();
        held >= self.ranges.lock().merge_at.max(LEAST_MERGED)
    }

    /// So many of its row locks became part of covers.
    pub(super) fn merged(&self, rows: usize) {
        let left = self.held_count();
        let mut ranges = self.ranges.lock();
        ranges.merged_rows += rows;
        ranges.merge_at = 2 * left;
    }

    pub(super) fn range_trees(&self) -> SmallVec<[TreeId; 2]> {
        self.ranges.lock().any.clone()
    }

    pub(super) fn take_range_trees(&self) -> SmallVec<[TreeId; 2]> {
        std::mem::take(&mut *self.ranges.lock()).any
    }

    /// Shows the writes to a tree to others: those of now and, unless they move to disk, those to come. What was shown
    /// of the tree before is replaced.
    pub(crate) fn publish_writes(&self, writes: &WriteSet, tree: TreeId) {
        if let Some(OwnWrites { tables, spills, .. }) = writes.view(tree) {
            self.publish(Published {
                tree,
                tables,
                spills,
            });
        }
    }

    fn publish(&self, writes: Published) {
        self.set_active();
        let trees = &mut self.published.lock().trees;
        let tree = writes.tree;
        match trees.iter_mut().find(|own| own.tree == tree) {
            Some(own) => *own = writes,
            None => trees.push(writes),
        }
        debug_assert_eq!(trees.iter().filter(|own| own.tree == tree).count(), 1);
    }

    /// How much is published for each tree and still in memory.
    pub(crate) fn published_entries(&self) -> Vec<(TreeId, u64)> {
        let published = self.published.lock();
        let trees = published.trees.iter();
        trees.map(|own| (own.tree, own.tables.len())).collect()
    }

    /// Says which of the published writes do not count any more.
    pub(crate) fn publish_dead(&self, dead: DeadRanges) {
        self.published.lock().dead = dead;
    }

    /// Nothing is uncommitted any more.
    pub(crate) fn withdraw(&self) {
        let mut published = self.published.lock();
        published.trees.clear();
        published.dead = DeadRanges::default();
    }

    fn published(&self, tree: TreeId) -> Option<(Published, DeadRanges)> {
        let published = self.published.lock();
        let writes = published.trees.iter().find(|own| own.tree == tree)?;
        Some((writes.clone(), Arc::clone(&published.dead)))
    }
}

/// All owners of an engine.
#[derive(Default)]
pub(super) struct Owners {
    list: Mutex<OwnerList>,
}

#[derive(Default)]
struct OwnerList {
    owners: Vec<Weak<LockOwner>>,
    /// Owners that are gone are dropped from the list when it has grown to this.
    purge_at: usize,
}

/// The smallest length of the list at which it is looked through.
const MIN_PURGE: usize = 64;

impl Owners {
    pub(super) fn add(&self) -> Arc<LockOwner> {
        let owner = LockOwner::new();
        let mut list = self.list.lock();
        if list.owners.len() >= list.purge_at {
            list.owners.retain(|owner| owner.strong_count() > 0);
            list.purge_at = (2 * list.owners.len()).max(MIN_PURGE);
        }
        list.owners.push(Arc::downgrade(&owner));
        owner
    }

    pub(super) fn all(&self) -> Vec<Arc<LockOwner>> {
        let list = self.list.lock();
        list.owners.iter().filter_map(Weak::upgrade).collect()
    }

    /// Has an owner other than `own` put or deleted this key, and not committed that?
    pub(super) fn is_written_by_others(
        &self,
        own: &LockOwner,
        tree: TreeId,
        key: &[u8],
    ) -> Result<bool> {
        for owner in self.all() {
            if std::ptr::eq(&*owner, own) {
                continue;
            }
            if let Some((writes, dead)) = owner.published(tree)
                && writes.has(key, &dead)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What owners other than `own` have put into a span of a tree and not committed, as far as `limit` keys of each.
    pub(super) fn uncommitted(
        &self,
        own: &LockOwner,
        tree: TreeId,
        span: &KeySpan,
        backward: bool,
        limit: usize,
    ) -> Result<Uncommitted> {
        let mut found = Uncommitted::default();
        for owner in self.all() {
            if std::ptr::eq(&*owner, own) {
                continue;
            }
            if let Some((writes, dead)) = owner.published(tree) {
                let walk = Walk {
                    span,
                    dead: &dead,
                    backward,
                    limit,
                };
                found.add(&writes, &walk)?;
            }
        }
        found.cut(backward);
        Ok(found)
    }
}

/// Uncommitted rows of others.
#[derive(Debug, Default)]
pub struct Uncommitted {
    /// Keys and the newest value of each.
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// From this key on, in the direction of the scan, there may be more.
    pub upto: Option<Vec<u8>>,
}

/// What is looked for in published writes.
struct Walk<'a> {
    span: &'a KeySpan,
    dead: &'a [(Seq, Seq)],
    backward: bool,
    limit: usize,
}

impl Uncommitted {
    fn add(&mut self, writes: &Published, walk: &Walk<'_>) -> Result<()> {
        for table in writes.tables.settled() {
            self.walk(&mut table.iter(), walk)?;
        }
        for mut spill in writes.spills.iters(ReadMode::Cached) {
            self.walk(&mut spill, walk)?;
        }
        Ok(())
    }

    fn walk(&mut self, iter: &mut dyn InternalIter, walk: &Walk<'_>) -> Result<()> {
        let Walk {
            span,
            dead,
            backward,
            limit,
        } = *walk;
        match (backward, &span.upper) {
            (false, _) => iter.seek(&span.lower)?,
            (true, Some(upper)) => iter.seek_for_prev(upper)?,
            (true, None) => iter.seek_to_last()?,
        }
        let mut seen = 0;
        while iter.valid() {
            let key = iter.key();
            let is_past = match backward {
                false => !span.is_before_end(key),
                true => key < span.lower.as_slice(),
            };
            if is_past {
                break;
            }
            if iter.op() == Op::Put && span.contains(key) && !is_dead(dead, iter.seq()) {
                if seen == limit {
                    self.end_at(key.to_vec(), backward);
                    break;
                }
                // Forwards the newest version of a key comes first, backwards last.
                match self.entries.get_mut(key) {
                    Some(value) if backward => *value = iter.value().to_vec(),
                    Some(_) => {}
                    None => {
                        self.entries.insert(key.to_vec(), iter.value().to_vec());
                        seen += 1;
                        debug_assert!(seen <= limit, "a walk ends at its limit");
                    }
                }
            }
            match backward {
                false => iter.next()?,
                true => iter.prev()?,
            }
        }
        Ok(())
    }

    fn end_at(&mut self, key: Vec<u8>, backward: bool) {
        let is_nearer = self.upto.as_ref().is_none_or(|upto| match backward {
            false => key < *upto,
            true => key > *upto,
        });
        if is_nearer {
            self.upto = Some(key);
        }
    }

    /// Forgets what lies beyond the end.
    fn cut(&mut self, backward: bool) {
        if let Some(upto) = &self.upto {
            self.entries.retain(|key, _| match backward {
                false => key < upto,
                true => key > upto,
            });
        }
    }
}
