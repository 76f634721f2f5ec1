//! A replayed run: what the log had for a tree, as one more immutable tier of the tree.
//!
//! Neighbours: `collection` makes runs; `tree` holds them in its superversions, below the memtables and above the
//! extents; `txn` reads them, `flush` turns them into extents.
//!
//! A run is divided into shards by key range. A shard is sorted when somebody needs it (`lazy`), so a statement waits
//! only for the shards it reads. Rows stay where they were read from the log: entries point at them.
//!
//! **Invariants**
//! - A run never changes. It has every version of its part of the log for its tree: what is not in it was not in the
//!   log.
//! - Internal order over all shards: shards follow each other in the order of the keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::build::{self, Sorted};
use super::entry::{Buffers, Decoded, Entry};
use super::lazy::LazyValue;
use super::route::Router;
use crate::iter::InternalIter;
use crate::memtable::MemEntry;
use crate::{LATEST, Op, Result, Seq};

/// Entries of a shard as they were collected: pieces, each with the number of the first of its buffers.
pub(crate) type Pieces = Vec<(Vec<Entry>, u32)>;

/// What is known about a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Start of the first record with a version in the run: the log is needed from here on until the run is flushed.
    pub(crate) first_lsn: u64,
    /// Largest sequence of a version.
    pub(crate) max_seq: Seq,
    /// Everything in the log up to here that concerns the tree is in this run or in an older tier.
    pub(crate) flushed_seq: Seq,
    pub(crate) entries: u64,
    pub(crate) deletes: u64,
    /// Bytes of the rows in the buffers.
    pub(crate) row_bytes: usize,
}

/// Versions of a tree from the log.
pub struct ReplayedRun {
    router: Arc<Router>,
    shards: Box<[LazyValue<Pieces, Sorted>]>,
    buffers: Arc<Buffers>,
    facts: Facts,
    /// Shards sorted so far, of all runs together.
    sorted: Arc<AtomicU64>,
    /// Deletes that walks for rows have stepped over, each as often as that was.
    tombstones_skipped: AtomicU64,
}

impl ReplayedRun {
    pub(crate) fn new(
        router: Arc<Router>,
        pieces: Vec<Pieces>,
        buffers: Arc<Buffers>,
        facts: Facts,
        sorted: Arc<AtomicU64>,
    ) -> Self {
        assert_eq!(pieces.len(), router.shards());
        debug_assert!(facts.deletes <= facts.entries);
        debug_assert!(facts.entries == 0 || facts.first_lsn < facts.max_seq);
        ReplayedRun {
            router,
            shards: pieces.into_iter().map(LazyValue::new).collect(),
            buffers,
            facts,
            sorted,
            tombstones_skipped: AtomicU64::new(0),
        }
    }

    /// Number of versions.
    pub fn entries(&self) -> u64 {
        self.facts.entries
    }

    /// Number of tombstones among them.
    pub fn deletes(&self) -> u64 {
        self.facts.deletes
    }

    /// How often walks for rows have stepped over one of them.
    pub(crate) fn tombstones_skipped(&self) -> u64 {
        self.tombstones_skipped.load(Ordering::Relaxed)
    }

    /// Memory of the run: its entries, and its rows in buffers that it may share with runs of other trees.
    pub fn bytes(&self) -> usize {
        self.entry_bytes() + self.facts.row_bytes
    }

    /// The log is needed from here on until the run is flushed.
    pub fn first_lsn(&self) -> u64 {
        self.facts.first_lsn
    }

    /// Largest sequence of a version.
    pub fn max_seq(&self) -> Seq {
        self.facts.max_seq
    }

    pub(crate) fn flushed_seq(&self) -> Seq {
        self.facts.flushed_seq
    }

    /// Bytes of the entries alone.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.facts.entries as usize * size_of::<Entry>()
    }

    /// The buffers that the run keeps, for who adds up memory: their identity and their size.
    pub(crate) fn shared_bytes(&self) -> (*const (), usize) {
        (Arc::as_ptr(&self.buffers).cast(), self.buffers.bytes())
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// The shard with this number, in order.
    #[inline]
    pub(crate) fn shard(&self, number: usize) -> &Sorted {
        self.shards[number].get(|pieces| self.sort(number, pieces))
    }

    fn sort(&self, number: usize, pieces: Pieces) -> Sorted {
        let count = pieces.iter().map(|(entries, _)| entries.len()).sum();
        let mut all = Vec::with_capacity(count);
        for (entries, base) in pieces {
            all.extend(entries.into_iter().map(|mut entry| {
                entry.rebase(base);
                entry
            }));
        }
        debug_assert_eq!(all.len(), count);
        let sorted = build::sort(all, self.router.strip(number), &self.buffers);
        self.sorted.fetch_add(1, Ordering::Relaxed);
        sorted
    }

    /// The newest version of `key` that is not newer than `snapshot`.
    #[inline]
    pub fn get(&self, key: &[u8], snapshot: Seq) -> Option<MemEntry<'_>> {
        let shard = self.shard(self.router.route(key).shard);
        let entry = shard
            .entries()
            .get(shard.find(key, snapshot, &self.buffers))?;
        let version = self.buffers.decode(entry);
        let is_found = self.buffers.decoded_key(&version) == key;
        debug_assert!(
            !is_found || version.seq <= snapshot,
            "what is found is visible"
        );
        is_found.then(|| MemEntry {
            seq: version.seq,
            op: version.op,
            value: self.buffers.decoded_value(&version),
        })
    }

    /// Calls `each` with keys from `lower` on and before `upper`, ascending, and with the number of versions up to
    /// there from the key before, about; `per_shard` in every shard that is sorted by now, the borders of the others.
    pub(crate) fn sample(
        &self,
        lower: &[u8],
        upper: Option<&[u8]>,
        per_shard: usize,
        mut each: impl FnMut(&[u8], u64),
    ) {
        let last = upper.map_or(self.shard_count() - 1, |key| self.router.route(key).shard);
        let is_inside = |key: &[u8]| key >= lower && upper.is_none_or(|upper| key < upper);
        let typical = self.facts.entries / self.shard_count() as u64;
        for number in self.router.route(lower).shard..=last {
            match self.shards[number].peek() {
                Some(sorted) => {
                    let step = (sorted.entries().len() / per_shard.max(1)).max(1);
                    let marks = sorted.entries().iter().skip(step - 1).step_by(step);
                    let keys = marks.map(|entry| self.buffers.key(entry));
                    keys.filter(|key| is_inside(key))
                        .for_each(|key| each(key, step as u64));
                }
                None => {
                    let end = self.router.border(number + 1);
                    if let Some(end) = end.filter(|end| is_inside(end)) {
                        each(&end, typical);
                    }
                }
            }
        }
    }

    /// An iterator that keeps the run alive.
    pub fn iter(self: &Arc<Self>) -> ReplayedIter {
        ReplayedIter {
            run: Arc::clone(self),
            shard: 0,
            index: 0,
            at: None,
            window: Window::default(),
            tombstones_skipped: 0,
        }
    }
}

/// Versions that are decoded ahead of a walk, so that the memory of several rows is read at the same time.
#[derive(Default)]
struct Window {
    versions: Vec<Decoded>,
    /// The place of the first one.
    shard: usize,
    first: usize,
    /// How many are decoded together next time: more, the longer the walk is.
    size: usize,
}

/// Most versions that are decoded together.
const LARGEST_WINDOW: usize = 16;

impl Window {
    #[inline]
    fn get(&self, shard: usize, index: usize) -> Option<Decoded> {
        if shard != self.shard {
            return None;
        }
        self.versions.get(index.checked_sub(self.first)?).copied()
    }

    /// A walk begins.
    fn reset(&mut self) {
        self.versions.clear();
        self.size = 1;
    }

    /// Decodes the version at `index`, and those that come next if the walk goes on as it came here.
    fn fill(&mut self, run: &ReplayedRun, shard: usize, index: usize) -> Option<Decoded> {
        let entries = run.shard(shard).entries();
        let is_backward = shard < self.shard || shard == self.shard && index < self.first;
        let size = self.size.clamp(1, LARGEST_WINDOW);
        let range = match is_backward {
            true => (index + 1).saturating_sub(size)..(index + 1).min(entries.len()),
            false => index.min(entries.len())..(index + size).min(entries.len()),
        };
        debug_assert!(range.start <= range.end && range.len() <= LARGEST_WINDOW);
        self.versions.clear();
        (self.shard, self.first) = (shard, range.start);
        self.size = size * 2;
        let decoded = entries[range].iter().map(|entry| run.buffers.decode(entry));
        self.versions.extend(decoded);
        self.get(shard, index)
    }
}

/// Walks a run in both directions. Shards are sorted when the walk gets there.
pub struct ReplayedIter {
    run: Arc<ReplayedRun>,
    shard: usize,
    index: usize,
    at: Option<Decoded>,
    window: Window,
    /// Deletes that the walk has stepped over, and the run was not told of.
    tombstones_skipped: u64,
}

impl ReplayedIter {
    #[inline]
    fn stand(&mut self) {
        let (shard, index) = (self.shard, self.index);
        self.at = match self.window.get(shard, index) {
            Some(version) => Some(version),
            None => self.window.fill(&self.run, shard, index),
        };
    }

    /// Stands on the first entry at or after the place in its shard or in a later one.
    fn stand_at_or_after(&mut self, shard: usize, index: usize) {
        (self.shard, self.index) = (shard, index);
        self.stand();
        while self.at.is_none() && self.shard + 1 < self.run.shard_count() {
            (self.shard, self.index) = (self.shard + 1, 0);
            self.stand();
        }
    }

    /// Stands on the last entry before the place.
    fn stand_before(&mut self, shard: usize, index: usize) {
        (self.shard, self.index) = (shard, index);
        while self.index == 0 {
            let Some(before) = self.shard.checked_sub(1) else {
                self.at = None;
                return;
            };
            (self.shard, self.index) = (before, self.run.shard(before).entries().len());
        }
        self.index -= 1;
        self.stand();
    }

    fn find(&mut self, key: &[u8], seq: Seq) -> (usize, usize) {
        self.window.reset();
        let shard = self.run.router.route(key).shard;
        let index = self.run.shard(shard).find(key, seq, &self.run.buffers);
        (shard, index)
    }

    #[inline]
    fn at(&self) -> &Decoded {
        self.at.as_ref().expect("the iterator stands on an entry")
    }
}

impl InternalIter for ReplayedIter {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_version(key, LATEST)
    }

    fn seek_version(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let (shard, index) = self.find(key, seq);
        self.stand_at_or_after(shard, index);
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.window.reset();
        self.stand_at_or_after(0, 0);
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        // Sequence 0 is never committed, so everything of `key` lies before (`key`, 0).
        let (shard, index) = self.find(key, 0);
        self.stand_before(shard, index);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.window.reset();
        let last = self.run.shard_count() - 1;
        let behind = self.run.shard(last).entries().len();
        self.stand_before(last, behind);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.stand_at_or_after(self.shard, self.index + 1);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.stand_before(self.shard, self.index);
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.run.buffers.decoded_key(self.at())
    }

    #[inline]
    fn seq(&self) -> Seq {
        self.at().seq
    }

    #[inline]
    fn op(&self) -> Op {
        self.at().op
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.run.buffers.decoded_value(self.at())
    }

    fn step_over(&mut self) {
        debug_assert_eq!(self.op(), Op::Delete);
        self.tombstones_skipped += 1;
    }
}

impl Drop for ReplayedIter {
    fn drop(&mut self) {
        if self.tombstones_skipped > 0 {
            let steps = &self.run.tombstones_skipped;
            steps.fetch_add(self.tombstones_skipped, Ordering::Relaxed);
        }
    }
}
