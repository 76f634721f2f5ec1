//! A version: the immutable set of extents of a tree at one time. Its holder reads a static tree.
//!
//! Neighbours: `handle::Tree` publishes versions; `txn` reads through them; `flush` and `compact` make the next one.
//!
//! **Invariants**
//! - A version never changes. It keeps its extents, and they keep their slots, until the last reader lets go.
//! - A version of a key found in a newer run hides everything below: no run is asked after the first hit.

use std::ops::Bound;
use std::sync::Arc;

use super::levels::{Levels, Totals};
use super::run::RunIter;
use crate::extent::Run;
use crate::extent::{Extent, FoundIn, HasMeta, KeyHash, ReadMode};
use crate::iter::InternalIter;
use crate::{LATEST, Op, Result, Seq};

/// The extents of a tree at one moment.
#[derive(Clone, Default)]
pub struct Version {
    levels: Levels<Arc<Extent>>,
}

impl Run<Arc<Extent>> {
    /// The newest version of `key` that is not newer than `snapshot`, if it is in this run. `hash` is that of the key,
    /// once somebody needs it.
    #[inline]
    pub(crate) fn find_version(
        &self,
        key: &[u8],
        snapshot: Seq,
        hash: &mut Option<KeyHash>,
    ) -> Result<Option<FoundIn>> {
        let Some(extent) = self.extents().get(self.find(key, snapshot)) else {
            return Ok(None);
        };
        if &*extent.meta().first.key > key || extent.meta().smallest_seq > snapshot {
            return Ok(None);
        }
        let hash = *hash.get_or_insert_with(|| KeyHash::of(key));
        extent.get(key, hash, snapshot)
    }
}

impl Version {
    pub(crate) fn new(levels: Levels<Arc<Extent>>) -> Arc<Version> {
        Arc::new(Version { levels })
    }

    /// The extents and their order.
    pub fn levels(&self) -> &Levels<Arc<Extent>> {
        &self.levels
    }

    /// Whether nothing is on disk.
    pub fn is_empty(&self) -> bool {
        self.levels.runs().next().is_none()
    }

    /// Sums over the extents.
    pub fn totals(&self) -> Totals {
        self.levels.totals()
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.levels.totals().bytes.iter().sum()
    }

    /// Passes the newest version of `key` that is not newer than `snapshot` to `f`, if there is one. Nothing is
    /// allocated or copied when the blocks are cached.
    pub fn get<R>(
        &self,
        key: &[u8],
        snapshot: Seq,
        f: impl FnOnce(Seq, Op, &[u8]) -> R,
    ) -> Result<Option<R>> {
        Ok(self
            .find(key, snapshot)?
            .map(|found| f(found.seq(), found.op(), found.value())))
    }

    fn find(&self, key: &[u8], snapshot: Seq) -> Result<Option<FoundIn>> {
        let mut hash = None;
        for run in self.levels.runs() {
            if let Some(found) = run.find_version(key, snapshot, &mut hash)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Iterators over all runs, newest data first.
    pub fn iters(&self) -> Vec<Box<dyn InternalIter>> {
        self.iters_in(Bound::Unbounded, Bound::Unbounded)
    }

    /// Iterators over the runs that have something between the bounds, newest data first. They are not confined to the
    /// bounds; runs that are left out have nothing there.
    pub fn iters_in(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Vec<Box<dyn InternalIter>> {
        let mut iters: Vec<Box<dyn InternalIter>> = Vec::new();
        for run in self.levels.runs() {
            let start = match lower {
                Bound::Included(key) | Bound::Excluded(key) => run.find(key, LATEST),
                Bound::Unbounded => 0,
            };
            debug_assert!(start <= run.extents().len());
            let has_some = run.extents().get(start).is_some_and(|extent| match upper {
                Bound::Included(key) | Bound::Excluded(key) => &*extent.meta().first.key <= key,
                Bound::Unbounded => true,
            });
            if has_some {
                iters.push(Box::new(RunIter::new(run.clone(), ReadMode::Cached)));
            }
        }
        iters
    }
}
