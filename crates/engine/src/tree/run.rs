//! Run iterator: a cursor over the extents of a sorted run, in both directions.
//!
//! Neighbours: `version` makes one per run for readers, `scan` one per task and run, `compact` one per part of a run
//! that it merges.
//!
//! **Invariants**
//! - At most one extent is open; it is opened only when the walk gets there.

use std::sync::Arc;

use crate::extent::Run;
use crate::extent::{BlockSkipper, Drained, Extent, ExtentIter, ReadMode};
use crate::iter::InternalIter;
use crate::visit::{Visit, show};
use crate::{LATEST, Op, Result, Seq};

/// A cursor over a run.
pub(crate) struct RunIter {
    run: Run<Arc<Extent>>,
    mode: ReadMode,
    /// What a walk forward leaves out.
    skipper: Option<Arc<BlockSkipper>>,
    /// Index of the extent that `open` walks over.
    number: usize,
    open: Option<ExtentIter>,
    /// The key that a drain has carried over the end of a block.
    carried: Vec<u8>,
}

/// Steps over versions of one key before a seek is tried instead.
const MAX_STEPS: usize = 8;

impl RunIter {
    pub(crate) fn new(run: Run<Arc<Extent>>, mode: ReadMode) -> Self {
        RunIter {
            run,
            mode,
            skipper: None,
            number: 0,
            open: None,
            carried: Vec::new(),
        }
    }

    /// The walk goes forward only, and leaves out what `skipper` lets pass.
    pub(crate) fn with_skipper(mut self, skipper: Option<Arc<BlockSkipper>>) -> Self {
        debug_assert!(self.open.is_none(), "nothing was read without it");
        self.skipper = skipper;
        self
    }

    /// If the open extent has nothing left: to the first entry of the next that has some.
    fn skip_ended_extents(&mut self) -> Result<()> {
        while self.open.as_ref().is_some_and(|open| !open.valid()) {
            self.enter(self.number + 1, ExtentIter::seek_to_first)?;
        }
        Ok(())
    }

    /// Shows `visit` the newest version up to `sight` of every key from the current one on, which is before `bound` if
    /// there is one; stands on the first version of a later key afterwards, or has ended. Begins on the first version
    /// of a key. Asks `go_on` at the end of every block. False if it or `visit` has said no; the position is then
    /// undefined.
    pub(crate) fn drain(
        &mut self,
        bound: Option<&[u8]>,
        sight: Seq,
        newest: &mut Seq,
        visit: &mut impl Visit,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        while self.valid() {
            let open = self.open.as_mut().expect("the iterator stands on an entry");
            match open.drain_block(bound, sight, newest, visit)? {
                Drained::AtBound => return Ok(true),
                Drained::Stopped => return Ok(false),
                Drained::AtEnd => {
                    open.next_block()?;
                    self.skip_ended_extents()?;
                    if !go_on() {
                        return Ok(false);
                    }
                }
                Drained::AtLast { resolved } => {
                    if !self.leave_key(resolved, sight, newest, visit)? || !go_on() {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Moves from the last entry of a block to the first version of another key; shows the version of the key that is
    /// seen, if that was not done.
    fn leave_key(
        &mut self,
        mut resolved: bool,
        sight: Seq,
        newest: &mut Seq,
        visit: &mut impl Visit,
    ) -> Result<bool> {
        debug_assert!(self.valid());
        let mut key = std::mem::take(&mut self.carried);
        key.clear();
        key.extend_from_slice(self.key());
        self.next()?;
        let mut steps = 0;
        while self.valid() && self.key() == key {
            if !resolved && self.seq() <= sight {
                resolved = true;
                *newest = self.seq().max(*newest);
                if self.op() == Op::Delete {
                    self.step_over();
                }
                if !show(visit, &key, self.op(), self.value()) {
                    return Ok(false);
                }
            }
            steps += 1;
            if steps < MAX_STEPS {
                self.next()?;
            } else {
                // Sequence 0 is behind every version of the key.
                self.seek_version(&key, if resolved { 0 } else { sight })?;
                steps = 0;
            }
        }
        self.carried = key;
        Ok(true)
    }

    /// Enters an extent; none if there is none with this number.
    fn enter(
        &mut self,
        number: usize,
        place: impl FnOnce(&mut ExtentIter) -> Result<()>,
    ) -> Result<()> {
        if self.number != number || self.open.is_none() {
            let Some(extent) = self.run.extents().get(number) else {
                self.open = None;
                return Ok(());
            };
            let mut iter = ExtentIter::new(Arc::clone(extent), self.mode);
            if let Some(before) = self.open.as_mut().filter(|_| self.number + 1 == number) {
                let next = self.run.extents().get(number + 1);
                // With a skipper it may be left out.
                iter = iter.going_on_from(before, next.filter(|_| self.skipper.is_none()));
            }
            self.open = Some(iter.with_skipper(self.skipper.as_ref(), number));
            self.number = number;
        }
        debug_assert_eq!(self.number, number);
        place(self.open.as_mut().expect("opened above"))
    }

    #[inline]
    fn at(&self) -> &ExtentIter {
        self.open.as_ref().expect("the iterator stands on an entry")
    }
}

impl InternalIter for RunIter {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_version(key, LATEST)
    }

    fn seek_version(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let number = self.run.find(key, seq);
        self.enter(number, |extent| extent.seek_version(key, seq))?;
        self.skip_ended_extents()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(0, ExtentIter::seek_to_first)?;
        self.skip_ended_extents()
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        // Sequence 0 is never committed: everything of `key` lies before (`key`, 0).
        self.seek_version(key, 0)?;
        if self.valid() {
            self.prev()
        } else {
            self.seek_to_last()
        }
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match self.run.extents().len().checked_sub(1) {
            Some(last) => self.enter(last, ExtentIter::seek_to_last),
            None => Ok(()),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let open = self.open.as_mut().expect("the iterator stands on an entry");
        open.next()?;
        self.skip_ended_extents()
    }

    fn prev(&mut self) -> Result<()> {
        let open = self.open.as_mut().expect("the iterator stands on an entry");
        open.prev()?;
        if open.valid() {
            return Ok(());
        }
        match self.number.checked_sub(1) {
            Some(number) => self.enter(number, ExtentIter::seek_to_last),
            None => {
                self.open = None;
                Ok(())
            }
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.open.as_ref().is_some_and(ExtentIter::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.at().key()
    }

    #[inline]
    fn seq(&self) -> Seq {
        self.at().seq()
    }

    #[inline]
    fn op(&self) -> Op {
        self.at().op()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.at().value()
    }

    fn step_over(&mut self) {
        if let Some(open) = &mut self.open {
            open.step_over();
        }
    }
}
