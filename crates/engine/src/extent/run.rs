//! A sorted run: extents in the order of their keys that do not overlap.
//!
//! Neighbours: `tree::levels` makes levels of runs, `batch` spills into some of its own; whoever walks one takes a
//! `tree::RunIter`.
//!
//! **Invariants**
//! - A run is sorted by first position and its extents do not overlap in internal order.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::{HasMeta, KeyPrefixes};
use crate::Seq;

/// Number of levels on disk.
pub const LEVELS: usize = 3;

/// Orders the runs of level 0: larger is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// A sorted run of extents. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Run<E> {
    id: RunId,
    extents: Arc<[E]>,
    /// Of the last keys of the extents.
    prefixes: Arc<KeyPrefixes>,
    /// Bytes stored, summed once.
    bytes: u64,
}

impl<E: HasMeta> Run<E> {
    pub(crate) fn new(id: RunId, extents: Vec<E>) -> Self {
        let bytes = extents
            .iter()
            .map(|extent| u64::from(extent.meta().stored_bytes))
            .sum();
        let prefixes = KeyPrefixes::new(extents.iter().map(|extent| &*extent.meta().last.key));
        Run {
            id,
            extents: extents.into(),
            prefixes: Arc::new(prefixes),
            bytes,
        }
    }

    /// Its number.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The extents in order.
    pub fn extents(&self) -> &Arc<[E]> {
        &self.extents
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Bytes stored.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Index of the first extent with an entry at or after (`key`, `seq`); its length if there is none.
    #[inline]
    pub fn find(&self, key: &[u8], seq: Seq) -> usize {
        self.prefixes.partition_point(key, |extent| {
            self.extents[extent].meta().last.compare(key, seq) == Ordering::Less
        })
    }

    /// The extents that can hold a user key in `[low, high]`.
    pub fn overlapping(&self, low: &[u8], high: &[u8]) -> &[E] {
        &self.extents[self.overlapping_range(low, high)]
    }

    /// Indexes of the extents that can hold a user key in `[low, high]`.
    pub fn overlapping_range(&self, low: &[u8], high: &[u8]) -> Range<usize> {
        debug_assert!(low <= high);
        let start = self
            .extents
            .partition_point(|extent| &*extent.meta().last.key < low);
        let rest = &self.extents[start..];
        start..start + rest.partition_point(|extent| &*extent.meta().first.key <= high)
    }

    /// Whether the order of the extents is right.
    pub(crate) fn is_sorted(&self) -> bool {
        self.extents.windows(2).all(|pair| {
            let (left, right) = (pair[0].meta(), pair[1].meta());
            left.last.compare(&right.first.key, right.first.seq) == Ordering::Less
        })
    }
}
