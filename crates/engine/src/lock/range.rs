//! Range locks: gap locks, which block inserts, and range covers, which lock all rows of a range at once.
//!
//! Neighbours: `lock::LockManager` asks here before it grants a row (covers) and before an insert counts (gaps);
//! `deadlock` follows waits here, too.
//!
//! A tree has no pages, so a range lock names the keys it is about. Gaps are compatible with each other, as InnoDB's
//! are: two transactions may find the same range empty, and then neither may insert before the other has ended. A scan
//! that is running has its gap *ahead* of it: locked to the end of what it will read, and settled to what it has read
//! whenever it waits or stops. A cover stands for a lock of each row in it. It is how a transaction that scans many
//! rows needs no memory for each.
//!
//! **Invariants**
//! - `gaps` of a shard is not 0 while any owner has a gap there, `covers` likewise: where they are 0, an insert and a
//!   row lock pay one load.
//! - Whoever inserts writes first and looks for gaps then; whoever reads locks the gap first and looks for uncommitted
//!   writes then. With a fence between the two, one of them sees the other. Covers and row locks likewise, ordered by
//!   the mutex of the row's shard.
//! - A waiter is in the list while something conflicts with it; every change that removes a conflict ends with
//!   [`Ranges::wake`].
//! - Nobody passes a waiter that wants the same row and conflicts, unless it is what that one waits for: readers that
//!   keep coming would starve a writer otherwise. Inserts and gaps pass each other, as InnoDB's do.
//! - Lock order: a shard here, then an owner's fields. Never together with a shard of rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::owner::{LockOwner, Want};
use super::{LockMode, Wakes};
use crate::TreeId;
use crate::span::{KeySpan, Spans};
use crate::wait::Resolver;

/// Shards by tree; a power of two.
const SHARDS: usize = 64;

/// What a range lock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeKind {
    /// Others do not insert.
    Gap,
    /// Every row in it is locked, whether it exists or not.
    Cover(LockMode),
}

/// Names a gap ahead of a scan. Never used again, so that a scan that outlives its transaction settles nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AheadId(u64);

/// The range locks of one transaction in one tree.
struct Holder {
    owner: Arc<LockOwner>,
    gaps: Spans,
    ahead: SmallVec<[(AheadId, KeySpan); 1]>,
    shared: Spans,
    exclusive: Spans,
}

impl Holder {
    fn new(owner: &Arc<LockOwner>) -> Self {
        Holder {
            owner: Arc::clone(owner),
            gaps: Spans::default(),
            ahead: SmallVec::new(),
            shared: Spans::default(),
            exclusive: Spans::default(),
        }
    }

    fn is(&self, owner: &LockOwner) -> bool {
        std::ptr::eq(&*self.owner, owner)
    }

    fn has_gaps(&self) -> bool {
        !self.gaps.is_empty() || !self.ahead.is_empty()
    }

    fn has_covers(&self) -> bool {
        !self.shared.is_empty() || !self.exclusive.is_empty()
    }

    fn stops(&self, key: &[u8], want: Want) -> bool {
        self.in_the_way(key, want).is_some()
    }

    /// The range that a request meets.
    fn in_the_way(&self, key: &[u8], want: Want) -> Option<(RangeKind, &KeySpan)> {
        let ahead = || self.ahead.iter().find(|(_, span)| span.contains(key));
        match want {
            Want::Insert => {
                let gap = self.gaps.around(key);
                let gap = gap.or_else(|| ahead().map(|(_, span)| span));
                gap.map(|span| (RangeKind::Gap, span))
            }
            Want::Row(wanted) => {
                let exclusive = self.exclusive.around(key);
                let shared = || self.shared.around(key);
                let cover = exclusive.map(|span| (LockMode::Exclusive, span));
                let cover = cover.or_else(|| match wanted {
                    LockMode::Shared => None,
                    LockMode::Exclusive => shared().map(|span| (LockMode::Shared, span)),
                });
                cover.map(|(mode, span)| (RangeKind::Cover(mode), span))
            }
        }
    }

    fn covers(&mut self, mode: LockMode) -> &mut Spans {
        match mode {
            LockMode::Shared => &mut self.shared,
            LockMode::Exclusive => &mut self.exclusive,
        }
    }
}

/// One transaction that waits for ranges of others to go.
pub(super) struct RangeWaiter {
    pub(super) owner: Arc<LockOwner>,
    pub(super) key: Arc<[u8]>,
    pub(super) want: Want,
    pub(super) resolver: Resolver,
}

impl RangeWaiter {
    fn is(&self, owner: &LockOwner) -> bool {
        std::ptr::eq(&*self.owner, owner)
    }
}

/// What is in the way of a wait.
pub(super) enum Obstacle<'a> {
    /// A range of another.
    Held(RangeKind, &'a KeySpan),
    /// What another one waits for, at the same key.
    Awaited(Want),
}

#[derive(Default)]
struct TreeRanges {
    holders: Vec<Holder>,
    waiters: Vec<RangeWaiter>,
}

impl TreeRanges {
    /// Whether a range of another owner, or another one that waits already, stands in the way of a new request.
    fn is_stopped(&self, owner: &LockOwner, key: &[u8], want: Want) -> bool {
        self.held_by_others(owner, key, want)
            || stopping(&self.waiters, &self.holders, owner, key, want)
                .next()
                .is_some()
    }

    fn held_by_others(&self, owner: &LockOwner, key: &[u8], want: Want) -> bool {
        let mut others = self.holders.iter().filter(|holder| !holder.is(owner));
        others.any(|holder| holder.stops(key, want))
    }

    /// Those in the way of a wait: holders with the range that is, and who came before it.
    fn in_the_way<'a>(
        &'a self,
        owner: &'a LockOwner,
        key: &'a [u8],
        want: Want,
    ) -> impl Iterator<Item = (&'a Arc<LockOwner>, Obstacle<'a>)> {
        let others = self.holders.iter().filter(move |holder| !holder.is(owner));
        let holding = others.filter_map(move |holder| {
            let (kind, span) = holder.in_the_way(key, want)?;
            Some((&holder.owner, Obstacle::Held(kind, span)))
        });
        let at = self.waiters.iter().position(|w| w.is(owner));
        let before = &self.waiters[..at.unwrap_or(0)];
        let waiting = stopping(before, &self.holders, owner, key, want);
        holding.chain(waiting.map(|w| (&w.owner, Obstacle::Awaited(w.want))))
    }
}

/// Those of `waiters` that a request may not pass: they want the same row, conflict, and do not wait for the owner
/// itself.
fn stopping<'a>(
    waiters: &'a [RangeWaiter],
    holders: &'a [Holder],
    owner: &'a LockOwner,
    key: &'a [u8],
    want: Want,
) -> impl Iterator<Item = &'a RangeWaiter> {
    let own = holders.iter().find(|holder| holder.is(owner));
    waiters.iter().filter(move |waiter| {
        !waiter.is(owner)
            && waiter.want.conflicts(want)
            && *waiter.key == *key
            && !own.is_some_and(|own| own.stops(key, waiter.want))
    })
}

#[derive(Default)]
struct RangeShard {
    trees: HashMap<TreeId, TreeRanges>,
}

#[repr(align(128))]
#[derive(Default)]
struct ShardCell {
    /// Owners with gaps in a tree of the shard.
    gaps: AtomicUsize,
    /// Owners with covers.
    covers: AtomicUsize,
    shard: Mutex<RangeShard>,
}

/// All range locks.
pub(super) struct Ranges {
    shards: Box<[ShardCell]>,
    next_ahead: AtomicU64,
}

impl Default for Ranges {
    fn default() -> Self {
        Ranges {
            shards: (0..SHARDS).map(|_| ShardCell::default()).collect(),
            next_ahead: AtomicU64::new(0),
        }
    }
}

/// A shard that is being changed: the counts follow when it is let go.
struct Changing<'a> {
    cell: &'a ShardCell,
    shard: MutexGuard<'a, RangeShard>,
}

impl Changing<'_> {
    /// Changes what an owner has in a tree.
    fn change<R>(
        &mut self,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        f: impl FnOnce(&mut Holder) -> R,
    ) -> R {
        let ranges = self.shard.trees.entry(tree).or_default();
        let at = ranges.holders.iter().position(|holder| holder.is(owner));
        let at = at.unwrap_or_else(|| {
            ranges.holders.push(Holder::new(owner));
            ranges.holders.len() - 1
        });
        debug_assert_eq!(ranges.holders.iter().filter(|h| h.is(owner)).count(), 1);
        let holder = &mut ranges.holders[at];
        let before = (holder.has_gaps(), holder.has_covers());
        let result = f(holder);
        let after = (holder.has_gaps(), holder.has_covers());
        if after == (false, false) {
            ranges.holders.swap_remove(at);
        }
        count(&self.cell.gaps, before.0, after.0);
        count(&self.cell.covers, before.1, after.1);
        result
    }
}

fn count(counter: &AtomicUsize, before: bool, after: bool) {
    match (before, after) {
        (false, true) => {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        (true, false) => {
            let counted = counter.fetch_sub(1, Ordering::SeqCst);
            assert!(counted > 0, "what is given up was counted");
        }
        _ => {}
    }
}

impl Ranges {
    /// Looks at every range: for simulations and tests.
    pub(super) fn validate(&self) {
        for cell in &self.shards {
            let shard = cell.shard.lock();
            let holders = || shard.trees.values().flat_map(|tree| &tree.holders);
            let with_gaps = holders().filter(|holder| holder.has_gaps()).count();
            let with_covers = holders().filter(|holder| holder.has_covers()).count();
            assert_eq!(
                cell.gaps.load(Ordering::SeqCst),
                with_gaps,
                "holders of gaps are counted"
            );
            assert_eq!(
                cell.covers.load(Ordering::SeqCst),
                with_covers,
                "holders of covers are counted"
            );
            assert!(holders().all(|holder| holder.has_gaps() || holder.has_covers()));
            for tree in shard.trees.values() {
                for (nth, waiter) in tree.waiters.iter().enumerate() {
                    let others = &tree.waiters[..nth];
                    assert!(
                        !others.iter().any(|w| w.is(&waiter.owner)),
                        "an owner waits once"
                    );
                }
            }
        }
    }

    fn cell(&self, tree: TreeId) -> &ShardCell {
        &self.shards[tree.0 as usize % SHARDS]
    }

    fn changing(&self, tree: TreeId) -> Changing<'_> {
        let cell = self.cell(tree);
        Changing {
            cell,
            shard: cell.shard.lock(),
        }
    }

    /// Locks a gap. Whoever inserts into it from now on waits; whoever has before is found among the uncommitted
    /// writes.
    pub(super) fn lock_gap(&self, owner: &Arc<LockOwner>, tree: TreeId, span: KeySpan) {
        let mut changing = self.changing(tree);
        changing.change(owner, tree, |holder| holder.gaps.add(span));
        drop(changing);
        owner.add_range_tree(tree, false);
        fence(Ordering::SeqCst);
    }

    /// Locks the gap ahead of a scan.
    pub(super) fn lock_ahead(
        &self,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        span: KeySpan,
    ) -> AheadId {
        let mut changing = self.changing(tree);
        let id = AheadId(self.next_ahead.fetch_add(1, Ordering::Relaxed));
        changing.change(owner, tree, |holder| holder.ahead.push((id, span)));
        drop(changing);
        owner.add_range_tree(tree, false);
        fence(Ordering::SeqCst);
        id
    }

    /// The scan has ended or waits: what it has read stays locked, what is ahead does not.
    pub(super) fn finalize(
        &self,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        id: AheadId,
        read: Option<KeySpan>,
    ) -> Wakes {
        let mut changing = self.changing(tree);
        changing.change(owner, tree, |holder| {
            // It has gone when the transaction has ended meanwhile.
            let at = holder.ahead.iter().position(|(other, _)| *other == id);
            if let Some(at) = at {
                holder.ahead.swap_remove(at);
                debug_assert!(
                    holder.ahead.iter().all(|(other, _)| *other != id),
                    "a gap ahead of a scan is held once"
                );
                if let Some(read) = read {
                    holder.gaps.add(read);
                }
            }
        });
        Self::wake(&mut changing.shard, tree)
    }

    /// Adds rows to the cover of an owner; false if its cover of the tree has too many parts, or another one's is in
    /// the way of `key`. A cover is taken before the locks of single rows are looked at.
    pub(super) fn cover(
        &self,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        (span, key): (KeySpan, &[u8]),
        mode: LockMode,
    ) -> Covered {
        debug_assert!(span.contains(key));
        let mut changing = self.changing(tree);
        if let Some(ranges) = changing.shard.trees.get(&tree)
            && ranges.is_stopped(owner, key, Want::Row(mode))
        {
            return Covered::Stopped;
        }
        let added = changing.change(owner, tree, |holder| {
            let spans = holder.covers(mode);
            let has_room = spans.has_room_for(&span);
            if has_room {
                spans.add(span);
                debug_assert!(spans.contains(key), "what is covered stays covered");
            }
            has_room
        });
        drop(changing);
        if !added {
            return Covered::TooMany;
        }
        owner.add_range_tree(tree, true);
        Covered::Added
    }

    /// The covers of an owner in a tree, and the ranges of others that covers of this mode must leave out.
    pub(super) fn covers(
        &self,
        owner: &LockOwner,
        tree: TreeId,
        mode: LockMode,
    ) -> (Spans, Vec<KeySpan>) {
        let shard = self.cell(tree).shard.lock();
        let (mut own, mut foreign) = (Spans::default(), Vec::new());
        let ranges = shard.trees.get(&tree);
        for holder in ranges.into_iter().flat_map(|ranges| &ranges.holders) {
            let (shared, exclusive) = (&holder.shared, &holder.exclusive);
            match (holder.is(owner), mode) {
                (true, LockMode::Shared) => own = shared.clone(),
                (true, LockMode::Exclusive) => own = exclusive.clone(),
                (false, LockMode::Shared) => foreign.extend(exclusive.iter().cloned()),
                (false, LockMode::Exclusive) => {
                    foreign.extend(exclusive.iter().chain(shared.iter()).cloned());
                }
            }
        }
        (own, foreign)
    }

    /// Gives an owner these covers in place of those it has, which are part of them or are given up.
    pub(super) fn set_covers(
        &self,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        mode: LockMode,
        covers: Spans,
    ) -> Wakes {
        debug_assert!(covers.len() <= Spans::LIMIT);
        let mut changing = self.changing(tree);
        changing.change(owner, tree, |holder| *holder.covers(mode) = covers);
        owner.add_range_tree(tree, true);
        Self::wake(&mut changing.shard, tree)
    }

    /// Puts a range lock back that was held before a restart.
    pub(super) fn restore(
        &self,
        owner: &Arc<LockOwner>,
        tree: TreeId,
        kind: RangeKind,
        span: KeySpan,
    ) {
        self.changing(tree)
            .change(owner, tree, |holder| match kind {
                RangeKind::Gap => holder.gaps.add(span),
                RangeKind::Cover(mode) => holder.covers(mode).add(span),
            });
        owner.add_range_tree(tree, matches!(kind, RangeKind::Cover(_)));
    }

    /// Whether ranges of others may stand in the way of anything in the tree: one load.
    #[inline]
    pub(super) fn may_stop(&self, tree: TreeId, want: Want) -> bool {
        let cell = self.cell(tree);
        let counter = match want {
            Want::Insert => &cell.gaps,
            Want::Row(_) => &cell.covers,
        };
        counter.load(Ordering::SeqCst) > 0
    }

    /// Whether a range of another owner stands in the way.
    pub(super) fn is_stopped(
        &self,
        owner: &LockOwner,
        tree: TreeId,
        key: &[u8],
        want: Want,
    ) -> bool {
        let shard = self.cell(tree).shard.lock();
        let ranges = shard.trees.get(&tree);
        ranges.is_some_and(|ranges| ranges.is_stopped(owner, key, want))
    }

    /// Adds a waiter, unless nothing stands in its way any more; `begin` is called before anybody can resolve it.
    pub(super) fn enqueue(&self, tree: TreeId, waiter: RangeWaiter, begin: impl FnOnce()) -> bool {
        let mut shard = self.cell(tree).shard.lock();
        let Some(ranges) = shard.trees.get_mut(&tree) else {
            return false;
        };
        if !ranges.is_stopped(&waiter.owner, &waiter.key, waiter.want) {
            return false;
        }
        begin();
        debug_assert!(
            !ranges.waiters.iter().any(|w| w.is(&waiter.owner)),
            "an owner waits once"
        );
        ranges.waiters.push(waiter);
        true
    }

    /// Takes a waiter out of the list, and tells those who waited for nothing else; `None` if it was not there any
    /// more.
    pub(super) fn leave(&self, tree: TreeId, resolver: &Resolver) -> Option<Wakes> {
        let mut shard = self.cell(tree).shard.lock();
        let waiters = &mut shard.trees.get_mut(&tree)?.waiters;
        let at = waiters.iter().position(|w| w.resolver.is_same(resolver))?;
        waiters.remove(at).owner.wait_ended();
        Some(Self::wake(&mut shard, tree))
    }

    /// Those who stand in the way of a wait.
    pub(super) fn blockers(
        &self,
        owner: &LockOwner,
        tree: TreeId,
        key: &[u8],
        want: Want,
    ) -> SmallVec<[Arc<LockOwner>; 4]> {
        let mut owners = SmallVec::new();
        self.each_in_the_way(owner, tree, (key, want), |other, _| {
            owners.push(Arc::clone(other));
        });
        owners
    }

    /// Calls `each` with everyone in the way of a wait.
    pub(super) fn each_in_the_way(
        &self,
        owner: &LockOwner,
        tree: TreeId,
        (key, want): (&[u8], Want),
        mut each: impl FnMut(&Arc<LockOwner>, Obstacle<'_>),
    ) {
        let shard = self.cell(tree).shard.lock();
        if let Some(ranges) = shard.trees.get(&tree) {
            let found = ranges.in_the_way(owner, key, want);
            found.for_each(|(other, obstacle)| each(other, obstacle));
        }
    }

    /// Gives back all ranges of an owner.
    pub(super) fn release_all(&self, owner: &Arc<LockOwner>, wakes: &mut Wakes) {
        for tree in owner.take_range_trees() {
            let mut changing = self.changing(tree);
            changing.change(owner, tree, |holder| *holder = Holder::new(owner));
            debug_assert!(
                !changing.shard.trees[&tree]
                    .holders
                    .iter()
                    .any(|h| h.is(owner)),
                "an owner without ranges is no holder"
            );
            wakes.extend(Self::wake(&mut changing.shard, tree));
        }
    }

    /// Calls `each` with every range lock of an owner.
    pub(super) fn for_each(
        &self,
        owner: &LockOwner,
        mut each: impl FnMut(RangeKind, TreeId, &KeySpan),
    ) {
        for tree in owner.range_trees() {
            let shard = self.cell(tree).shard.lock();
            let holders = shard.trees.get(&tree).map(|ranges| &ranges.holders);
            for holder in holders.into_iter().flatten().filter(|h| h.is(owner)) {
                let covers = [
                    (RangeKind::Gap, &holder.gaps),
                    (RangeKind::Cover(LockMode::Shared), &holder.shared),
                    (RangeKind::Cover(LockMode::Exclusive), &holder.exclusive),
                ];
                for (kind, spans) in covers {
                    spans.iter().for_each(|span| each(kind, tree, span));
                }
                for (_, span) in &holder.ahead {
                    each(RangeKind::Gap, tree, span);
                }
            }
        }
    }

    /// Spans held, for the memory they need.
    pub(super) fn spans(&self) -> usize {
        let busy = self.shards.iter().filter(|cell| {
            cell.gaps.load(Ordering::Relaxed) + cell.covers.load(Ordering::Relaxed) > 0
        });
        let in_shard = |cell: &ShardCell| {
            let shard = cell.shard.lock();
            let holders = shard.trees.values().flat_map(|ranges| &ranges.holders);
            let spans = holders.map(|holder| {
                holder.gaps.len()
                    + holder.ahead.len()
                    + holder.shared.len()
                    + holder.exclusive.len()
            });
            spans.sum::<usize>()
        };
        busy.map(in_shard).sum()
    }

    /// Resolves the waiters that nothing stops any more, in the order in which they came.
    fn wake(shard: &mut RangeShard, tree: TreeId) -> Wakes {
        let mut wakes = Wakes::new();
        if let Some(TreeRanges { holders, waiters }) = shard.trees.get_mut(&tree) {
            let mut remaining = Vec::with_capacity(waiters.len());
            for waiter in waiters.drain(..) {
                let (owner, key, want) = (&*waiter.owner, &*waiter.key, waiter.want);
                let mut others = holders.iter().filter(|holder| !holder.is(owner));
                let is_stopped = others.any(|holder| holder.stops(key, want))
                    || stopping(&remaining, holders, owner, key, want)
                        .next()
                        .is_some();
                if is_stopped {
                    remaining.push(waiter);
                } else {
                    waiter.owner.wait_ended();
                    wakes.extend(waiter.resolver.resolve(Ok(())));
                }
            }
            *waiters = remaining;
        }
        Self::remove_if_idle(shard, tree);
        wakes
    }

    /// Forgets a tree in which nothing is locked.
    fn remove_if_idle(shard: &mut RangeShard, tree: TreeId) {
        let ranges = shard.trees.get(&tree);
        if ranges.is_some_and(|ranges| ranges.holders.is_empty() && ranges.waiters.is_empty()) {
            shard.trees.remove(&tree);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.shards.iter().all(|cell| {
            cell.gaps.load(Ordering::SeqCst) == 0
                && cell.covers.load(Ordering::SeqCst) == 0
                && cell.shard.lock().trees.is_empty()
        })
    }
}

/// What became of rows that were to be covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Covered {
    /// They are.
    Added,
    /// The cover has too many parts: single rows are to be locked.
    TooMany,
    /// Another transaction's cover is in the way.
    Stopped,
}
