//! From versions to keys: walks an internal iterator and stands, per key, on the newest version that is visible.
//!
//! Neighbours: `cursor` merges two of these (the committed versions and the transaction's own writes); `tombstones`
//! knows how to pass what is deleted.
//!
//! **Invariants**
//! - Keys come in strict order of the direction, each once, deletes included (a transaction's own delete must hide what
//!   is committed below it).
//! - Forward, the current version is borrowed from the iterator, which stands on it. Backward, the newest visible
//!   version of a key is met last, so it is copied; the iterator then stands before the key.

use std::borrow::Cow;
use std::ops::Bound;

use super::Direction;
use super::tombstones::{Before, TombstoneWalk};
use crate::batch::Sight;
use crate::iter::InternalIter;
use crate::{Op, Result, Seq};

/// Steps over versions of one key that are too new before a seek is tried instead.
const MAX_STEPS: usize = 8;

/// Entries that are stepped over to a key ahead before a seek is tried instead.
const NEAR_STEPS: usize = 16;

/// The bounds of a walk, owned.
#[derive(Clone)]
pub(super) struct Range {
    pub(super) lower: Bound<Vec<u8>>,
    pub(super) upper: Bound<Vec<u8>>,
}

impl Range {
    /// The first key that may be in it.
    fn first_possible(&self) -> Cow<'_, [u8]> {
        match &self.lower {
            Bound::Unbounded => Cow::Borrowed(&[]),
            Bound::Included(key) => Cow::Borrowed(key),
            Bound::Excluded(key) => Cow::Owned(following(key)),
        }
    }

    /// The first key behind all that may be in it, if there is an end.
    fn first_behind(&self) -> Option<Cow<'_, [u8]>> {
        match &self.upper {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(Cow::Owned(following(key))),
            Bound::Excluded(key) => Some(Cow::Borrowed(key)),
        }
    }

    /// Whether `key` lies behind the end of the walk.
    #[inline]
    fn is_beyond(&self, key: &[u8], direction: Direction) -> bool {
        match direction {
            Direction::Forward => match &self.upper {
                Bound::Included(upper) => key > upper.as_slice(),
                Bound::Excluded(upper) => key >= upper.as_slice(),
                Bound::Unbounded => false,
            },
            Direction::Backward => match &self.lower {
                Bound::Included(lower) => key < lower.as_slice(),
                Bound::Excluded(lower) => key <= lower.as_slice(),
                Bound::Unbounded => false,
            },
        }
    }
}

/// The smallest key behind `key`.
pub(super) fn following(key: &[u8]) -> Vec<u8> {
    let mut following = key.to_vec();
    following.push(0);
    following
}

/// To the last entry before `key`.
fn seek_before(iter: &mut dyn InternalIter, key: &[u8]) -> Result<()> {
    iter.seek(key)?;
    if iter.valid() {
        iter.prev()?;
    } else {
        iter.seek_to_last()?;
    }
    // A memtable may have got an entry in between, between the two calls.
    while iter.valid() && iter.key() >= key {
        iter.prev()?;
    }
    Ok(())
}

/// A walk over visible versions.
pub(super) struct VisibleIter {
    iter: Box<dyn InternalIter>,
    sight: Sight,
    range: Range,
    direction: Direction,
    /// Stands on a visible version.
    valid: bool,
    /// The current key; forward it is a copy for telling older versions of it apart.
    key: Vec<u8>,
    /// Backward only: the copied version.
    value: Vec<u8>,
    seq: Seq,
    op: Op,
    /// Of a walk over committed versions.
    tombstones: Option<TombstoneWalk>,
    came_from: CameFrom,
}

/// How the walk got to the key it stands on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CameFrom {
    /// From the bound of its range.
    Bound,
    /// It may have passed versions of this key that are too new.
    Seek,
    /// From another key.
    Step,
}

impl VisibleIter {
    /// Starts at the first key of the range in this direction.
    pub(super) fn new(
        iter: Box<dyn InternalIter>,
        sight: Sight,
        range: Range,
        direction: Direction,
        tombstones: Option<TombstoneWalk>,
    ) -> Result<Self> {
        let mut walk = VisibleIter::unplaced(iter, sight, range, direction, tombstones);
        walk.start()?;
        Ok(walk)
    }

    /// Stands nowhere until it is told to go to a key.
    pub(super) fn unplaced(
        iter: Box<dyn InternalIter>,
        sight: Sight,
        range: Range,
        direction: Direction,
        tombstones: Option<TombstoneWalk>,
    ) -> Self {
        VisibleIter {
            iter,
            sight,
            range,
            direction,
            valid: false,
            key: Vec::new(),
            value: Vec::new(),
            seq: 0,
            op: Op::Put,
            tombstones,
            came_from: CameFrom::Seek,
        }
    }

    /// Goes to the first visible key from `key` on, of a walk forward. True if that is where it stood, or if it
    /// `may_be_near` and was found a few steps ahead.
    pub(super) fn go_to(&mut self, key: &[u8], may_be_near: bool) -> Result<bool> {
        debug_assert!(self.direction == Direction::Forward);
        if self.valid && *self.key <= *key {
            if self.key == key {
                return Ok(true);
            }
            self.leave_stretch();
            let steps = if may_be_near { NEAR_STEPS } else { 0 };
            for _ in 0..steps {
                self.iter.next()?;
                if !self.iter.valid() || self.iter.key() >= key {
                    self.find_forward()?;
                    return Ok(true);
                }
            }
        }
        self.leave_stretch();
        self.iter.seek_version(key, self.sight.upto())?;
        self.find_forward()?;
        Ok(false)
    }

    fn start(&mut self) -> Result<()> {
        self.came_from = CameFrom::Bound;
        match self.direction {
            Direction::Forward => {
                if let Some(tombstones) = &mut self.tombstones
                    && !tombstones.knows_nothing()
                    && let Some(end) = tombstones.pass(&self.range.first_possible())
                {
                    self.go_past(&end)?;
                    return self.find_forward();
                }
                // Also versions of the bound that are too new are met: a put there ends what a stretch may claim.
                self.iter.seek(&self.range.first_possible())?;
                self.find_forward()
            }
            Direction::Backward => {
                match &self.range.upper {
                    Bound::Unbounded => self.iter.seek_to_last()?,
                    Bound::Included(key) => self.iter.seek_for_prev(key)?,
                    Bound::Excluded(key) => seek_before(&mut *self.iter, key)?,
                }
                self.find_backward()
            }
        }
    }

    /// Goes to where a passage leads.
    fn go_past(&mut self, bound: &[u8]) -> Result<()> {
        self.came_from = CameFrom::Step;
        match self.direction {
            Direction::Forward => self.iter.seek(bound),
            Direction::Backward => seek_before(&mut *self.iter, bound),
        }
    }

    /// The walk stands on a tombstone, on a row, or has ended: whether it may stay there.
    #[inline]
    fn may_stay(&mut self) -> Result<bool> {
        let Some(tombstones) = &mut self.tombstones else {
            return Ok(true);
        };
        match self.op {
            _ if !self.valid => tombstones.end(&self.key),
            Op::Put => tombstones.meet_row(&self.key),
            Op::Delete => {
                if let Some(bound) = tombstones.pass(&self.key) {
                    self.go_past(&bound)?;
                    return Ok(false);
                }
                self.note_tombstone();
            }
        }
        self.came_from = CameFrom::Step;
        Ok(true)
    }

    /// The walk goes elsewhere.
    fn leave_stretch(&mut self) {
        self.came_from = CameFrom::Seek;
        if let Some(tombstones) = &mut self.tombstones {
            tombstones.forget();
        }
    }

    /// The walk stands on a tombstone that it does not know how to pass.
    fn note_tombstone(&mut self) {
        let Some(tombstones) = &mut self.tombstones else {
            return;
        };
        let before = match (self.came_from, self.direction) {
            (CameFrom::Seek, _) => Before::Seek,
            (CameFrom::Step, _) => Before::Step,
            (CameFrom::Bound, Direction::Forward) => Before::Bound(self.range.first_possible()),
            (CameFrom::Bound, Direction::Backward) => {
                let bound = self.range.first_behind();
                bound.map_or(Before::Step, Before::Bound)
            }
        };
        tombstones.meet_tombstone(&self.key, self.seq, before);
    }

    /// The version under the iterator is too new for this walk.
    fn note_unseen(&mut self) {
        if self.iter.op() == Op::Put
            && let Some(tombstones) = &mut self.tombstones
        {
            tombstones.meet_unseen_put(self.iter.key());
            self.came_from = CameFrom::Seek;
        }
    }

    pub(super) fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        debug_assert!(self.valid);
        &self.key
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        debug_assert!(self.valid);
        match self.direction {
            Direction::Forward => self.iter.value(),
            Direction::Backward => &self.value,
        }
    }

    #[inline]
    pub(super) fn op(&self) -> Op {
        self.op
    }

    #[inline]
    pub(super) fn seq(&self) -> Seq {
        self.seq
    }

    /// Moves to the next visible key.
    pub(super) fn advance(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        match self.direction {
            Direction::Forward => {
                self.skip_older()?;
                self.find_forward()
            }
            Direction::Backward => self.find_backward(),
        }
    }

    /// Moves off the current key, over its older versions.
    fn skip_older(&mut self) -> Result<()> {
        for _ in 0..MAX_STEPS {
            self.iter.next()?;
            if !self.iter.valid() || self.iter.key() != self.key {
                return Ok(());
            }
        }
        // Sequence 0 is behind every version of the key.
        self.iter.seek_version(&self.key, 0)
    }

    /// From the first version of a key: finds the first visible version of this or a later key.
    fn find_forward(&mut self) -> Result<()> {
        loop {
            self.find_next()?;
            if self.may_stay()? {
                return Ok(());
            }
        }
    }

    /// As [`VisibleIter::find_forward`], tombstones that could be passed included.
    fn find_next(&mut self) -> Result<()> {
        self.valid = false;
        let mut steps = 0;
        while self.iter.valid() {
            if self.range.is_beyond(self.iter.key(), self.direction) {
                return Ok(());
            }
            let seq = self.iter.seq();
            if self.sight.sees(seq) {
                self.key.clear();
                self.key.extend_from_slice(self.iter.key());
                self.seq = seq;
                self.op = self.iter.op();
                self.valid = true;
                if self.op == Op::Delete {
                    self.iter.step_over();
                }
                return Ok(());
            }
            self.note_unseen();
            steps += 1;
            if steps > MAX_STEPS && seq > self.sight.upto() {
                let key = self.iter.key().to_vec();
                self.forget_stretch(&key);
                self.iter.seek_version(&key, self.sight.upto())?;
                steps = 0;
            } else {
                self.iter.next()?;
            }
        }
        Ok(())
    }

    /// The versions of `key` that are too new are not looked at.
    fn forget_stretch(&mut self, key: &[u8]) {
        if let Some(tombstones) = &mut self.tombstones {
            tombstones.meet_unseen_put(key);
            self.came_from = CameFrom::Seek;
        }
    }

    /// From the oldest version of a key: finds the newest visible version of this or an earlier key.
    fn find_backward(&mut self) -> Result<()> {
        loop {
            self.find_prev()?;
            if self.may_stay()? {
                return Ok(());
            }
        }
    }

    /// As [`VisibleIter::find_backward`], tombstones that could be passed included.
    fn find_prev(&mut self) -> Result<()> {
        self.valid = false;
        let mut steps = 0;
        while self.iter.valid() {
            if self.valid && self.iter.key() != self.key {
                return Ok(());
            }
            if self.range.is_beyond(self.iter.key(), self.direction) {
                return Ok(());
            }
            steps += 1;
            if steps > MAX_STEPS {
                self.resolve_backward()?;
                steps = 0;
                continue;
            }
            match self.sight.sees(self.iter.seq()) {
                true => self.copy_version(),
                false => self.note_unseen(),
            }
            self.iter.prev()?;
        }
        Ok(())
    }

    /// For a key with many versions: finds the visible one from the newer side and leaves the key.
    fn resolve_backward(&mut self) -> Result<()> {
        let key = self.iter.key().to_vec();
        self.forget_stretch(&key);
        self.iter.seek_version(&key, self.sight.upto())?;
        while self.iter.valid() && self.iter.key() == key {
            if self.sight.sees(self.iter.seq()) {
                self.copy_version();
                break;
            }
            self.iter.next()?;
        }
        self.iter.seek(&key)?;
        debug_assert!(self.iter.valid(), "the versions of the key are still there");
        self.iter.prev()
    }

    fn copy_version(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(self.iter.key());
        self.value.clear();
        self.value.extend_from_slice(self.iter.value());
        self.seq = self.iter.seq();
        self.op = self.iter.op();
        self.valid = true;
        if self.op == Op::Delete {
            self.iter.step_over();
        }
    }
}
