//! Tree handle and superversion: memtables, replayed runs and version, published to readers in one step.
//!
//! Neighbours: `commit` inserts into the active memtable; `txn` reads a superversion; `flush` and `compact` publish
//! versions; `mod` keeps the registry.
//!
//! **Invariants**
//! - A superversion is replaced under the tree's `change` lock and read without any.
//! - Immutable memtables and replayed runs leave the superversion in the step that brings the version with their
//!   content: a reader finds every version in one of them, never in none.
//! - Replayed runs are older than every memtable: they come while nothing is inserted yet.
//! - `flushed_seqs` runs parallel to the immutable memtables, oldest first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::tombstone_ranges::TombstoneRanges;
use super::version::Version;
use crate::budget::{MemoryBudget, MemoryUse};
use crate::extent::Fields;
use crate::{Memtable, ReplayedRun, Seq, TreeId};

/// Memtables, replayed runs and extents of a tree at one moment.
pub struct SuperVersion {
    /// Takes new versions.
    pub active: Arc<Memtable>,
    /// Waiting to be flushed, newest first.
    pub immutables: Vec<Arc<Memtable>>,
    /// What the log had when the engine was opened, newest first. Flushed when memory or log need it.
    pub replayed: Vec<Arc<ReplayedRun>>,
    /// What is on disk.
    pub version: Arc<Version>,
}

/// Numbers about what a tree has in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    /// Versions, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub deletes: u64,
    /// How often walks for rows have stepped over one of them.
    pub steps: u64,
    /// Bytes.
    pub bytes: usize,
}

impl SuperVersion {
    /// What is in memory: memtables and replayed runs.
    pub fn in_memory(&self) -> InMemory {
        let tables = std::iter::once(&self.active).chain(&self.immutables);
        let tables = tables.map(|table| InMemory {
            entries: table.entries(),
            deletes: table.deletes(),
            steps: table.tombstones_skipped(),
            bytes: table.bytes(),
        });
        let runs = self.replayed.iter().map(|run| InMemory {
            entries: run.entries(),
            deletes: run.deletes(),
            steps: run.tombstones_skipped(),
            bytes: run.bytes(),
        });
        let mut sum = InMemory::default();
        for tier in tables.chain(runs) {
            sum.entries += tier.entries;
            sum.deletes += tier.deletes;
            sum.steps += tier.steps;
            sum.bytes += tier.bytes;
        }
        sum
    }

    /// The same with another version; the oldest tier in memory leaves if it became part of that.
    fn with_version(&self, version: Arc<Version>, flushed: bool) -> SuperVersion {
        let (mut immutables, mut replayed) = (self.immutables.clone(), self.replayed.clone());
        if flushed && replayed.pop().is_none() {
            let flushed = immutables.pop();
            debug_assert!(flushed.is_some(), "what was flushed was in memory");
        }
        SuperVersion {
            active: Arc::clone(&self.active),
            immutables,
            replayed,
            version,
        }
    }
}

/// What is flushed next: the oldest tier in memory.
pub(crate) enum Oldest {
    Replayed(Arc<ReplayedRun>),
    Memtable(Arc<Memtable>),
}

/// What goes with the superversion under the lock.
#[derive(Default)]
pub(super) struct Changing {
    /// Recovery points of the immutable memtables, oldest first.
    flushed_seqs: VecDeque<Seq>,
}

struct Inner {
    id: TreeId,
    /// Its memtables are charged to it.
    budget: Arc<MemoryBudget>,
    superversion: ArcSwap<SuperVersion>,
    change: Mutex<Changing>,
    /// What the manifest says: the log up to here is not needed for this tree.
    flushed_seq: AtomicU64,
    is_dropped: AtomicBool,
    /// When it was flushed last, in nanoseconds of the monotonic clock.
    flushed_at: AtomicU64,
    /// What blocks that are written from now on say of their values.
    fields: RwLock<Option<Arc<dyn Fields>>>,
    /// Where it has no rows.
    tombstone_ranges: TombstoneRanges,
    /// Held by the flush of this tree.
    flushing: Mutex<()>,
    /// Held by the compaction of this tree.
    compacting: Mutex<()>,
}

fn new_memtable(budget: &Arc<MemoryBudget>) -> Arc<Memtable> {
    Arc::new(Memtable::charged(budget, MemoryUse::Memtables))
}

/// A handle to a tree. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    inner: Arc<Inner>,
}

impl Tree {
    pub(super) fn new(
        id: TreeId,
        flushed_seq: Seq,
        version: Arc<Version>,
        budget: &Arc<MemoryBudget>,
    ) -> Tree {
        let active = new_memtable(budget);
        let superversion = SuperVersion {
            active,
            immutables: Vec::new(),
            replayed: Vec::new(),
            version,
        };
        Tree {
            inner: Arc::new(Inner {
                id,
                budget: Arc::clone(budget),
                superversion: ArcSwap::from_pointee(superversion),
                change: Mutex::default(),
                flushed_seq: AtomicU64::new(flushed_seq),
                is_dropped: AtomicBool::new(false),
                flushed_at: AtomicU64::new(0),
                fields: RwLock::default(),
                tombstone_ranges: TombstoneRanges::default(),
                flushing: Mutex::new(()),
                compacting: Mutex::new(()),
            }),
        }
    }

    /// Its id.
    #[inline]
    pub fn id(&self) -> TreeId {
        self.inner.id
    }

    /// Has blocks that are written from now on say which values these fields have, so that filtered scans can leave
    /// blocks out ([`ParallelScan::with_tests`](crate::scan::ParallelScan::with_tests)).
    pub fn set_fields(&self, fields: Arc<dyn Fields>) {
        *self.inner.fields.write() = Some(fields);
    }

    /// What [`Tree::set_fields`] has set.
    pub(crate) fn fields(&self) -> Option<Arc<dyn Fields>> {
        self.inner.fields.read().clone()
    }

    /// What its memory is charged to.
    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.inner.budget
    }

    /// Everything a reader needs. The guard is cheap and short-lived; clone the `Arc` to keep it.
    #[inline]
    pub fn superversion(&self) -> Guard<Arc<SuperVersion>> {
        self.inner.superversion.load()
    }

    /// Where it is known to have no rows.
    #[inline]
    pub(crate) fn tombstone_ranges(&self) -> &TombstoneRanges {
        &self.inner.tombstone_ranges
    }

    /// A walk has met only tombstones from the first bound on and before the second, the newest with the sequence
    /// `as_of`, and no put that it did not see. It began in this `generation`, when every version up to `complete` was
    /// there.
    pub(crate) fn learn_tombstones(
        &self,
        bounds: (&[u8], &[u8]),
        as_of: Seq,
        complete: Seq,
        generation: u64,
    ) {
        let ranges = &self.inner.tombstone_ranges;
        let Some(id) = ranges.publish(bounds, as_of, generation) else {
            return;
        };
        let tiers = self.superversion();
        let mut tables = std::iter::once(&tiers.active).chain(&tiers.immutables);
        match tables.any(|table| table.has_put_after(bounds, complete)) {
            true => ranges.withdraw(id),
            false => ranges.confirm(id, generation),
        }
    }

    /// The log up to here is not needed for what the manifest knows of this tree.
    pub fn flushed_seq(&self) -> Seq {
        self.inner.flushed_seq.load(Ordering::Acquire)
    }

    /// Whether the tree was dropped.
    pub fn is_dropped(&self) -> bool {
        self.inner.is_dropped.load(Ordering::Acquire)
    }

    /// Ends the life of the active memtable, unless it is empty, and begins a new one. `flushed_seq` is the visible
    /// watermark, loaded before the call: every record up to it is in the tables that are immutable afterwards.
    pub fn rotate(&self, flushed_seq: Seq) -> bool {
        let mut changing = self.inner.change.lock();
        let old = self.inner.superversion.load_full();
        if old.active.is_empty() || self.is_dropped() {
            return false;
        }
        let sealed = Arc::clone(&old.active);
        let mut immutables = Vec::with_capacity(old.immutables.len() + 1);
        immutables.push(Arc::clone(&sealed));
        immutables.extend(old.immutables.iter().cloned());
        debug_assert!(
            changing
                .flushed_seqs
                .back()
                .is_none_or(|last| *last <= flushed_seq),
            "memtables are sealed in the order of the log"
        );
        changing.flushed_seqs.push_back(flushed_seq);
        debug_assert_eq!(changing.flushed_seqs.len(), immutables.len());
        self.inner.superversion.store(Arc::new(SuperVersion {
            active: new_memtable(&self.inner.budget),
            immutables,
            replayed: old.replayed.clone(),
            version: Arc::clone(&old.version),
        }));
        sealed.seal();
        true
    }

    /// Adds what a later part of the log had for this tree. Nothing is in its memtables yet.
    pub(crate) fn add_replayed(&self, run: Arc<ReplayedRun>) {
        let _changing = self.inner.change.lock();
        let old = self.inner.superversion.load_full();
        assert!(old.active.is_empty() && old.immutables.is_empty());
        debug_assert!(!self.is_dropped(), "replay brings rows of trees that exist");
        let mut replayed = Vec::with_capacity(old.replayed.len() + 1);
        replayed.push(run);
        replayed.extend(old.replayed.iter().cloned());
        self.inner.superversion.store(Arc::new(SuperVersion {
            active: Arc::clone(&old.active),
            immutables: Vec::new(),
            replayed,
            version: Arc::clone(&old.version),
        }));
    }

    /// Asserts what tiers and levels promise: for simulations and tests.
    pub(crate) fn validate(&self) {
        let changing = self.inner.change.lock();
        let superversion = self.inner.superversion.load();
        assert_eq!(changing.flushed_seqs.len(), superversion.immutables.len());
        let seqs = || changing.flushed_seqs.iter();
        assert!(
            seqs()
                .zip(seqs().skip(1))
                .all(|(older, newer)| older <= newer),
            "memtables are sealed in the order of the log"
        );
        assert!(
            seqs().all(|seq| *seq >= self.flushed_seq()),
            "what is in memory is not flushed"
        );
        superversion.version.levels().validate();
    }

    /// The oldest tier in memory that is not active, unless a committer still writes to it, and the flushed sequence of
    /// the tree once it is flushed.
    pub(crate) fn oldest_quiescent(&self) -> Option<(Oldest, Seq)> {
        let changing = self.inner.change.lock();
        let superversion = self.inner.superversion.load();
        assert_eq!(changing.flushed_seqs.len(), superversion.immutables.len());
        if let Some(run) = superversion.replayed.last() {
            return Some((Oldest::Replayed(Arc::clone(run)), run.flushed_seq()));
        }
        let oldest = superversion
            .immutables
            .last()
            .filter(|table| table.is_quiescent())?;
        let oldest = Oldest::Memtable(Arc::clone(oldest));
        Some((oldest, *changing.flushed_seqs.front()?))
    }

    /// Publishes a version; `flushed`: the oldest tier in memory that is not active leaves with the same step.
    pub(super) fn publish(&self, version: Arc<Version>, flushed: bool) {
        let mut changing = self.inner.change.lock();
        let old = self.inner.superversion.load_full();
        let new = old.with_version(version, flushed);
        let tables_left = old.immutables.len() - new.immutables.len();
        changing.flushed_seqs.drain(..tables_left);
        debug_assert_eq!(changing.flushed_seqs.len(), new.immutables.len());
        // First: a walk that finds a memtable gone is to find the generation changed.
        self.inner.tombstone_ranges.begin_generation();
        self.inner.superversion.store(Arc::new(new));
    }

    pub(super) fn set_recovery_point(&self, seq: Seq) {
        self.inner.flushed_seq.fetch_max(seq, Ordering::AcqRel);
    }

    pub(super) fn note_flush(&self, now: u64) {
        self.inner.flushed_at.store(now, Ordering::Relaxed);
    }

    /// When it was flushed last, in nanoseconds of the monotonic clock; 0 if it never was.
    pub(crate) fn flushed_at(&self) -> u64 {
        self.inner.flushed_at.load(Ordering::Relaxed)
    }

    /// Forgets memtables and extents. Readers that hold a superversion go on.
    pub(super) fn mark_dropped(&self) {
        let mut changing = self.inner.change.lock();
        debug_assert!(!self.is_dropped(), "a tree is dropped once");
        self.inner.is_dropped.store(true, Ordering::Release);
        changing.flushed_seqs.clear();
        self.inner.superversion.store(Arc::new(SuperVersion {
            active: new_memtable(&self.inner.budget),
            immutables: Vec::new(),
            replayed: Vec::new(),
            version: Arc::default(),
        }));
    }

    /// The right to flush this tree.
    pub(crate) fn flushing(&self) -> MutexGuard<'_, ()> {
        self.inner.flushing.lock()
    }

    /// The right to compact this tree, when nobody else has it any more.
    pub(crate) fn compacting(&self) -> MutexGuard<'_, ()> {
        self.inner.compacting.lock()
    }

    /// The right to compact this tree; `None` if somebody has it.
    pub(crate) fn try_compacting(&self) -> Option<MutexGuard<'_, ()>> {
        self.inner.compacting.try_lock()
    }
}
