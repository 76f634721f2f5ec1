//! Block skipping: which blocks a filtered scan of a sorted run need not read, without changing what it returns.
//!
//! Neighbours: `scan` makes one for each run; `iter` and `tree::run` ask it before they read a block; `zone_maps` knows
//! what blocks say of their values.
//!
//! A block may be left out if none of its versions can meet the conditions *and* nobody takes something older for the
//! newest then. Of a key that is in the block, the newest version that is seen is
//! - in a newer tier: it is found there, whatever is left out here;
//! - in the block: it does not meet the conditions, or it is a delete. What must not be found is an older version of
//!   the key. It could be in an older tier, or behind the block in the same run;
//! - in front of the block in the same run: it is found there, and hides the rest;
//! - older than all versions of the key in the block, which are all too new: only an older tier or what is behind could
//!   have it.
//!
//! **Invariants**
//! - A block is left out only if no older tier has anything from its first key to its last, and its last key does not
//!   go on behind it.
//! - Newer tiers are of no concern, nor is the snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Run;
use super::index::Tail;
use super::reader::Extent;
use super::zone_map::{FieldTest, FieldValue, Fields};
use crate::LATEST;

/// The conditions of a scan, which all must hold, and how many blocks its tasks have passed over.
pub(crate) struct Conditions {
    tests: Vec<FieldTest>,
    skipped: AtomicU64,
}

impl Conditions {
    pub(crate) fn new(tests: Vec<FieldTest>) -> Arc<Self> {
        Arc::new(Conditions {
            tests,
            skipped: AtomicU64::new(0),
        })
    }

    /// Whether a row with this value cannot meet them.
    pub(crate) fn rule_out(&self, fields: &dyn Fields, value: &[u8]) -> bool {
        let mut values = vec![FieldValue::Unknown; fields.ids().len()];
        fields.read(value, &mut values);
        let value_of = |test: &FieldTest| {
            let place = fields.ids().iter().position(|id| *id == test.field);
            place.map_or(FieldValue::Unknown, |place| values[place])
        };
        self.tests
            .iter()
            .any(|test| !test.may_hold_for(value_of(test)))
    }

    /// Blocks that were passed over.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

/// The conditions for one run.
pub(crate) struct BlockSkipper {
    conditions: Arc<Conditions>,
    run: Run<Arc<Extent>>,
    /// Runs with older versions. What is in memory is newer than every run.
    older: Vec<Run<Arc<Extent>>>,
}

impl BlockSkipper {
    pub(crate) fn new(
        conditions: &Arc<Conditions>,
        run: Run<Arc<Extent>>,
        older: Vec<Run<Arc<Extent>>>,
    ) -> Arc<Self> {
        Arc::new(BlockSkipper {
            conditions: Arc::clone(conditions),
            run,
            older,
        })
    }

    /// The first block from `block` on that must be read, of the extent with this number in the run.
    pub(super) fn next(&self, number: usize, tail: &Tail, block: usize) -> usize {
        let next = (block..tail.blocks()).find(|block| !self.may_skip(number, tail, *block));
        next.unwrap_or(tail.blocks())
    }

    /// Notes that a walk has passed over so many blocks.
    pub(super) fn note_skipped(&self, blocks: usize) {
        if blocks > 0 {
            let skipped = &self.conditions.skipped;
            skipped.fetch_add(blocks as u64, Ordering::Relaxed);
        }
    }

    /// The end of the blocks from `block` on that are read one after the other, as far as `limit` blocks.
    pub(super) fn stretch(&self, number: usize, tail: &Tail, block: usize, limit: usize) -> usize {
        let end = tail.blocks().min(block + limit);
        let mut behind = block + 1..end;
        let gap = behind.find(|block| self.may_skip(number, tail, *block));
        gap.unwrap_or(end)
    }

    fn may_skip(&self, number: usize, tail: &Tail, block: usize) -> bool {
        if !tail.zone_maps.rule_out(block, &self.conditions.tests) {
            return false;
        }
        let extents = self.run.extents();
        let meta = extents[number].meta();
        let first = match block.checked_sub(1) {
            // The end of the block before is not behind the beginning of this one.
            Some(before) => tail.separator(before),
            None => &meta.first.key,
        };
        let is_last = block + 1 == tail.blocks();
        let last = if is_last {
            &*meta.last.key
        } else {
            tail.separator(block)
        };
        // Inside of an extent, a block says nothing if its last key goes on.
        let following = extents.get(number + 1).filter(|_| is_last);
        following.is_none_or(|next| *next.meta().first.key != *last)
            && self.older.iter().all(|run| {
                let at_or_behind = run.extents().get(run.find(first, LATEST));
                at_or_behind.is_none_or(|extent| *extent.meta().first.key > *last)
            })
    }
}
