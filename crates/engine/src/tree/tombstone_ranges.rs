//! Tombstone ranges: key ranges of a tree that are known to hold no row, so that readers pass them in one step.
//!
//! Neighbours: `txn::tombstones` learns them from walks over tombstones and asks for them; `commit` takes out the keys
//! that it puts; `handle::Tree` owns them and tells when versions change their tier.
//!
//! A range says that for every snapshot from `as_of` on none of its keys is a row. That is a fact about rows, not about
//! where versions lie, so neither flushes nor compactions end it. It is known in memory only. A walk learns one beside
//! commits that go on:
//!
//! ```text
//! walk    generation → tiers → tombstones only, and no put that it does not see
//! publish the range is pending → fence → memtables: no put that is newer than what was complete for the walk
//! confirm unless the generation has changed: a put may have gone from the memtables to where step two does not look
//! commit  insert the versions → fence → take out the keys that were put → (the snapshots that see them come later)
//! ```
//! The two fences leave no gap: a commit finds the range, or the second step finds what it put.
//!
//! **Invariants**
//! - Ranges are sorted and do not overlap; there are at most [`MAX_RANGES`].
//! - Readers use confirmed ranges only; commits take keys out of pending ones, too.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use arc_swap::ArcSwap;

use crate::Seq;
use crate::sync::{AtomicU64, AtomicUsize, Mutex};

/// More ranges than this are not kept: neighbours are merged, or the oldest goes.
const MAX_RANGES: usize = 64;

/// Bounds that are longer are not worth their memory.
const MAX_BOUND_BYTES: usize = 1024;

/// Names what was published in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RangeId(u64);

#[derive(Clone, Debug)]
struct TombstoneRange {
    /// The first key.
    start: Arc<[u8]>,
    /// The key behind the last.
    end: Arc<[u8]>,
    /// The newest sequence of its tombstones.
    as_of: Seq,
    id: RangeId,
    is_confirmed: bool,
}

impl TombstoneRange {
    #[inline]
    fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && *key < *self.end
    }

    fn helps(&self, upto: Seq) -> bool {
        self.is_confirmed && self.as_of <= upto
    }
}

/// Where a walk may go on.
#[derive(Debug)]
pub(crate) struct Passage {
    /// The lower bound of what has no row, inclusive.
    pub(crate) start: Arc<[u8]>,
    /// The upper bound, exclusive.
    pub(crate) end: Arc<[u8]>,
    /// The newest sequence of the tombstones between them.
    pub(crate) as_of: Seq,
}

/// What is known of a tree.
pub(crate) struct TombstoneRanges {
    ranges: ArcSwap<Vec<TombstoneRange>>,
    /// Number of ranges: all that a commit looks at where there are none.
    count: AtomicUsize,
    generation: AtomicU64,
    /// Held by those who change the ranges; the last id that was given.
    last_id: Mutex<u64>,
}

impl Default for TombstoneRanges {
    fn default() -> Self {
        TombstoneRanges {
            ranges: ArcSwap::default(),
            count: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            last_id: Mutex::new(0),
        }
    }
}

impl TombstoneRanges {
    /// Changes when versions go from a tier to another, or come without a memtable.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Versions are about to change their tier.
    pub(super) fn begin_generation(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Rows have come that no memtable has.
    pub(super) fn clear(&self) {
        let _last_id = self.last_id.lock();
        self.begin_generation();
        self.store(Vec::new());
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// What a reader up to `upto` may pass that stands at `key`: the range there, and those that follow without a gap.
    pub(crate) fn passage(&self, key: &[u8], upto: Seq) -> Option<Passage> {
        if self.is_empty() {
            return None;
        }
        let ranges = self.ranges.load();
        let at = find(&ranges, key)?;
        let here = ranges.get(at).filter(|range| range.helps(upto))?;
        let mut passage = Passage {
            start: Arc::clone(&here.start),
            end: Arc::clone(&here.end),
            as_of: here.as_of,
        };
        let follows = ranges[at + 1..]
            .iter()
            .take_while(|range| range.helps(upto));
        for range in follows {
            if range.start != passage.end {
                break;
            }
            passage.end = Arc::clone(&range.end);
            passage.as_of = range.as_of.max(passage.as_of);
        }
        let precedes = ranges[..at].iter().rev();
        for range in precedes.take_while(|range| range.helps(upto)) {
            if range.end != passage.start {
                break;
            }
            passage.start = Arc::clone(&range.start);
            passage.as_of = range.as_of.max(passage.as_of);
        }
        debug_assert!(*passage.start <= *key && *key < *passage.end);
        Some(passage)
    }

    /// A commit has inserted what it puts, and is about to say so with [`TombstoneRanges::take_out`]. False if there is
    /// nothing to say.
    #[inline]
    pub(crate) fn fence_puts(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.is_empty()
    }

    /// `key` is a row.
    pub(crate) fn take_out(&self, key: &[u8]) {
        if find(&self.ranges.load(), key).is_none() {
            return;
        }
        let _last_id = self.last_id.lock();
        let mut ranges = Vec::clone(&self.ranges.load());
        let Some(at) = find(&ranges, key) else {
            return;
        };
        let hit = ranges.remove(at);
        debug_assert!(hit.contains(key));
        let behind = after(key);
        if *behind < *hit.end && ranges.len() + 1 < MAX_RANGES {
            let start = Arc::clone(&behind);
            ranges.insert(
                at,
                TombstoneRange {
                    start,
                    ..hit.clone()
                },
            );
        }
        if *hit.start < *key {
            let end = Arc::from(key);
            ranges.insert(at, TombstoneRange { end, ..hit });
        }
        self.store(ranges);
    }

    /// Publishes what lies from `start` on and before `end`, as far as it is not known yet, as pending. `None` if that
    /// is nothing, or if this is no longer the generation.
    pub(super) fn publish(
        &self,
        (start, end): (&[u8], &[u8]),
        as_of: Seq,
        generation: u64,
    ) -> Option<RangeId> {
        if start.len().max(end.len()) > MAX_BOUND_BYTES {
            return None;
        }
        let mut last_id = self.last_id.lock();
        if generation != self.generation() {
            return None;
        }
        let mut ranges = Vec::clone(&self.ranges.load());
        let at = ranges.partition_point(|range| *range.start < *start);
        let before = at.checked_sub(1).map(|before| &ranges[before].end);
        let start = match before.filter(|before| ***before > *start) {
            Some(before) => Arc::clone(before),
            None => Arc::from(start),
        };
        let behind = ranges.get(at).map(|behind| &behind.start);
        let end = match behind.filter(|behind| ***behind < *end) {
            Some(behind) => Arc::clone(behind),
            None => Arc::from(end),
        };
        if start >= end {
            return None;
        }
        *last_id += 1;
        let id = RangeId(*last_id);
        let range = TombstoneRange {
            start,
            end,
            as_of,
            id,
            is_confirmed: false,
        };
        ranges.insert(at, range);
        if ranges.len() > MAX_RANGES {
            merge_neighbours(&mut ranges);
        }
        if ranges.len() > MAX_RANGES {
            let ids = ranges.iter().enumerate().map(|(at, range)| (range.id, at));
            let (_, oldest) = ids.min().expect("there are more than the limit");
            ranges.remove(oldest);
        }
        self.store(ranges);
        fence(Ordering::SeqCst);
        Some(id)
    }

    /// What was published under `id` holds, unless the generation has changed; what a commit has taken out stays out.
    pub(super) fn confirm(&self, id: RangeId, generation: u64) {
        let _last_id = self.last_id.lock();
        let mut ranges = Vec::clone(&self.ranges.load());
        if generation == self.generation() {
            let published = ranges.iter_mut().filter(|range| range.id == id);
            published.for_each(|range| range.is_confirmed = true);
        } else {
            ranges.retain(|range| range.id != id);
        }
        self.store(ranges);
    }

    /// What was published under `id` does not hold.
    pub(super) fn withdraw(&self, id: RangeId) {
        let _last_id = self.last_id.lock();
        let mut ranges = Vec::clone(&self.ranges.load());
        ranges.retain(|range| range.id != id);
        self.store(ranges);
    }

    fn store(&self, ranges: Vec<TombstoneRange>) {
        debug_assert!(ranges.iter().all(|range| range.start < range.end));
        debug_assert!(ranges.is_sorted_by(|a, b| a.end <= b.start));
        assert!(ranges.len() <= MAX_RANGES);
        let count = ranges.len();
        self.ranges.store(Arc::new(ranges));
        self.count.store(count, Ordering::Release);
    }
}

/// The range that contains `key`.
#[inline]
fn find(ranges: &[TombstoneRange], key: &[u8]) -> Option<usize> {
    // Most commits append.
    if ranges.last().is_none_or(|last| *key >= *last.end) {
        return None;
    }
    let at = ranges.partition_point(|range| *range.end <= *key);
    ranges[at].contains(key).then_some(at)
}

/// The key right behind `key`.
fn after(key: &[u8]) -> Arc<[u8]> {
    key.iter().copied().chain([0]).collect()
}

/// Merges every second range with the one behind it, where they touch.
fn merge_neighbours(ranges: &mut Vec<TombstoneRange>) {
    let mut merged: Vec<TombstoneRange> = Vec::with_capacity(ranges.len());
    let mut is_pair = false;
    for range in ranges.drain(..) {
        match merged.last_mut() {
            Some(last)
                if !is_pair
                    && last.is_confirmed
                    && range.is_confirmed
                    && last.end == range.start =>
            {
                last.end = range.end;
                last.as_of = last.as_of.max(range.as_of);
                last.id = last.id.max(range.id);
                is_pair = true;
            }
            _ => {
                merged.push(range);
                is_pair = false;
            }
        }
    }
    *ranges = merged;
}

#[cfg(test)]
mod tests;
