//! A tree as its users hold it, and the superversion: everything a reader needs, published in one step.
//!
//! Neighbours: `commit` inserts into the active memtable; `txn` reads a superversion; `flush` and `compact` publish
//! versions; `mod` keeps the registry.
//!
//! **Invariants**
//! - A superversion is replaced under the tree's `change` lock and read without any.
//! - Immutable memtables leave the superversion in the step that brings the version with their content: a reader finds
//!   every version in one of them, never in none.
//! - `recovery_points` runs parallel to the immutable memtables, oldest first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use parking_lot::{Mutex, MutexGuard};

use super::version::Version;
use crate::{Memtable, Seq, TreeId};

/// Memtables and extents of a tree at one moment.
pub struct SuperVersion {
    /// Takes new versions.
    pub active: Arc<Memtable>,
    /// Waiting to be flushed, newest first.
    pub immutables: Vec<Arc<Memtable>>,
    /// What is on disk.
    pub version: Arc<Version>,
}

impl SuperVersion {
    /// Bytes of all memtables.
    pub fn memtable_bytes(&self) -> usize {
        self.active.bytes()
            + self
                .immutables
                .iter()
                .map(|table| table.bytes())
                .sum::<usize>()
    }
}

/// What goes with the superversion under the lock.
#[derive(Default)]
pub(super) struct Changing {
    /// Recovery points of the immutable memtables, oldest first.
    recovery_points: VecDeque<Seq>,
}

struct Inner {
    id: TreeId,
    superversion: ArcSwap<SuperVersion>,
    change: Mutex<Changing>,
    /// What the manifest says: the log up to here is not needed for this tree.
    recovery_point: AtomicU64,
    is_dropped: AtomicBool,
    /// Held by the flush of this tree.
    flushing: Mutex<()>,
    /// Held by the compaction of this tree.
    compacting: Mutex<()>,
}

/// A handle to a tree. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    inner: Arc<Inner>,
}

impl Tree {
    pub(super) fn new(id: TreeId, recovery_point: Seq, version: Arc<Version>) -> Tree {
        let active = Arc::new(Memtable::new());
        let superversion = SuperVersion {
            active,
            immutables: Vec::new(),
            version,
        };
        Tree {
            inner: Arc::new(Inner {
                id,
                superversion: ArcSwap::from_pointee(superversion),
                change: Mutex::default(),
                recovery_point: AtomicU64::new(recovery_point),
                is_dropped: AtomicBool::new(false),
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

    /// Everything a reader needs. The guard is cheap and short-lived; clone the `Arc` to keep it.
    #[inline]
    pub fn superversion(&self) -> Guard<Arc<SuperVersion>> {
        self.inner.superversion.load()
    }

    /// The log up to here is not needed for what the manifest knows of this tree.
    pub fn recovery_point(&self) -> Seq {
        self.inner.recovery_point.load(Ordering::Acquire)
    }

    /// Whether the tree was dropped.
    pub fn is_dropped(&self) -> bool {
        self.inner.is_dropped.load(Ordering::Acquire)
    }

    /// Ends the life of the active memtable, unless it is empty, and begins a new one. `recovery_point` is the visible
    /// watermark, loaded before the call: every record up to it is in the tables that are immutable afterwards.
    pub fn rotate(&self, recovery_point: Seq) -> bool {
        let mut changing = self.inner.change.lock();
        let old = self.inner.superversion.load_full();
        if old.active.is_empty() || self.is_dropped() {
            return false;
        }
        let sealed = Arc::clone(&old.active);
        let mut immutables = Vec::with_capacity(old.immutables.len() + 1);
        immutables.push(Arc::clone(&sealed));
        immutables.extend(old.immutables.iter().cloned());
        changing.recovery_points.push_back(recovery_point);
        self.inner.superversion.store(Arc::new(SuperVersion {
            active: Arc::new(Memtable::new()),
            immutables,
            version: Arc::clone(&old.version),
        }));
        sealed.seal();
        true
    }

    /// The oldest immutable memtable, unless a committer still writes to it, and the recovery point of the tree once it is
    /// flushed.
    pub(crate) fn oldest_quiet(&self) -> Option<(Arc<Memtable>, Seq)> {
        let changing = self.inner.change.lock();
        let superversion = self.inner.superversion.load();
        assert_eq!(
            changing.recovery_points.len(),
            superversion.immutables.len()
        );
        let oldest = superversion
            .immutables
            .last()
            .filter(|table| table.is_quiet())?;
        Some((Arc::clone(oldest), *changing.recovery_points.front()?))
    }

    /// Publishes a version; the oldest `flushed` immutable memtables leave with the same step.
    pub(super) fn publish(&self, version: Arc<Version>, flushed: usize) {
        let mut changing = self.inner.change.lock();
        let old = self.inner.superversion.load_full();
        let left = old.immutables.len() - flushed;
        changing.recovery_points.drain(..flushed);
        self.inner.superversion.store(Arc::new(SuperVersion {
            active: Arc::clone(&old.active),
            immutables: old.immutables[..left].to_vec(),
            version,
        }));
    }

    pub(super) fn set_recovery_point(&self, seq: Seq) {
        self.inner.recovery_point.fetch_max(seq, Ordering::AcqRel);
    }

    /// Forgets memtables and extents. Readers that hold a superversion go on.
    pub(super) fn mark_dropped(&self) {
        let mut changing = self.inner.change.lock();
        self.inner.is_dropped.store(true, Ordering::Release);
        changing.recovery_points.clear();
        self.inner.superversion.store(Arc::new(SuperVersion {
            active: Arc::new(Memtable::new()),
            immutables: Vec::new(),
            version: Arc::default(),
        }));
    }

    /// The right to flush this tree.
    pub(crate) fn flushing(&self) -> MutexGuard<'_, ()> {
        self.inner.flushing.lock()
    }

    /// The right to compact this tree; `None` if somebody has it.
    pub(crate) fn try_compacting(&self) -> Option<MutexGuard<'_, ()>> {
        self.inner.compacting.try_lock()
    }
}
