//! What a walk does with the tombstones that it meets: it passes those that are known, and learns of stretches.
//!
//! Neighbours: `visible` tells it what it meets; `tree::TombstoneRanges` keeps what was learned.
//!
//! **Invariants**
//! - A stretch reaches from its border to the key the walk stands on, and the walk has seen every version between them:
//!   no row, and no put that is too new for it.
//! - What is passed counts as read: the dependency rises to the newest tombstone there.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::visible::following;
use super::{Direction, note_dependency};
use crate::Seq;
use crate::tree::{Passage, Tree};

/// Shorter stretches are stepped over again: publishing one costs as much. Tests are to pass many.
const MIN_STRETCH: u64 = if cfg!(test) { 2 } else { 64 };

/// Where the walk came from when it met the first tombstone of a stretch.
pub(super) enum Before<'a> {
    /// From another key: it has seen all versions of this one.
    Step,
    /// It was told to go there, or has met a put that is too new: there may be versions it has not seen.
    Seek,
    /// From this bound of its range: it has seen all versions from there on.
    Bound(Cow<'a, [u8]>),
}

/// What a walk over committed versions knows of tombstones.
pub(crate) struct TombstoneWalk {
    tree: Tree,
    generation: u64,
    /// Every version up to here was there when the walk began.
    complete: Seq,
    /// The walk sees versions up to here.
    upto: Seq,
    direction: Direction,
    dependency: Arc<AtomicU64>,
    /// Tombstones of the stretch that the walk is in.
    length: u64,
    /// The newest of them.
    newest: Seq,
    /// The bound at which the stretch began: inclusive forward, exclusive backward.
    border: Option<Vec<u8>>,
}

impl TombstoneWalk {
    /// For a walk whose tiers are looked up after this.
    pub(super) fn new(
        tree: &Tree,
        complete: Seq,
        upto: Seq,
        direction: Direction,
        dependency: &Arc<AtomicU64>,
    ) -> Self {
        TombstoneWalk {
            tree: tree.clone(),
            generation: tree.tombstone_ranges().generation(),
            complete,
            upto,
            direction,
            dependency: Arc::clone(dependency),
            length: 0,
            newest: 0,
            border: None,
        }
    }

    /// Whether there is nothing to pass.
    #[inline]
    pub(super) fn knows_nothing(&self) -> bool {
        self.tree.tombstone_ranges().is_empty()
    }

    /// The walk is at `key`, which is no row: where it may go on, if something is known. Forward that is at the first
    /// key from the answer on, backward at the last one before it.
    #[inline]
    pub(super) fn pass(&mut self, key: &[u8]) -> Option<Arc<[u8]>> {
        let passage = self.tree.tombstone_ranges().passage(key, self.upto)?;
        let Passage { start, end, as_of } = passage;
        note_dependency(&self.dependency, as_of);
        let (near, far) = match self.direction {
            Direction::Forward => (start, end),
            Direction::Backward => (end, start),
        };
        self.close(&near);
        self.border = Some(far.to_vec());
        Some(far)
    }

    /// The walk stands on a tombstone.
    pub(super) fn meet_tombstone(&mut self, key: &[u8], seq: Seq, before: Before<'_>) {
        let direction = self.direction;
        self.border
            .get_or_insert_with(|| match (direction, before) {
                (Direction::Forward, Before::Step) | (Direction::Backward, Before::Seek) => {
                    key.to_vec()
                }
                (Direction::Forward, Before::Seek) | (Direction::Backward, Before::Step) => {
                    following(key)
                }
                (_, Before::Bound(bound)) => bound.into_owned(),
            });
        self.length += 1;
        self.newest = self.newest.max(seq);
    }

    /// The walk stands on a row.
    #[inline]
    pub(super) fn meet_row(&mut self, key: &[u8]) {
        if self.border.is_some() {
            self.close_at(key);
        }
    }

    /// The walk has met a put that is too new for it: it is a row for others.
    pub(super) fn meet_unseen_put(&mut self, key: &[u8]) {
        self.close_at(key);
    }

    /// The walk has ended. `last`: the last key that it stood on.
    pub(super) fn end(&mut self, last: &[u8]) {
        match self.direction {
            _ if self.length == 0 => self.border = None,
            Direction::Forward => self.close(&following(last)),
            Direction::Backward => self.close(last),
        }
    }

    /// The walk goes on elsewhere.
    pub(super) fn forget(&mut self) {
        (self.length, self.newest, self.border) = (0, 0, None);
    }

    /// The stretch ends before `key`, which does not belong to it.
    fn close_at(&mut self, key: &[u8]) {
        match self.direction {
            Direction::Forward => self.close(key),
            Direction::Backward if self.length >= MIN_STRETCH => self.close(&following(key)),
            Direction::Backward => self.close(key),
        }
    }

    /// The stretch ends at this bound.
    fn close(&mut self, bound: &[u8]) {
        let (length, newest) = (self.length, self.newest);
        (self.length, self.newest) = (0, 0);
        let Some(border) = self.border.take().filter(|_| length >= MIN_STRETCH) else {
            return;
        };
        debug_assert!(newest <= self.upto, "only what is seen is learned");
        let bounds = match self.direction {
            Direction::Forward => (&*border, bound),
            Direction::Backward => (bound, &*border),
        };
        self.tree
            .learn_tombstones(bounds, newest, self.complete, self.generation);
    }
}
