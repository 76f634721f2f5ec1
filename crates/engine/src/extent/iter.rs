//! Extent iterator: a two-level cursor over index and blocks, in both directions.
//!
//! Neighbours: `tree::run` chains these; `reader` has the blocks.
//!
//! **Invariants**
//! - Nothing is read before the first seek; at most one block is held, and the one behind it.
//! - With a skipper, the walk stands behind blocks that are left out as if they were not there. Their keys are not
//!   begun in front of them nor do they go on behind, but for what the skipper allows.

use std::sync::Arc;

use super::block::{Block, BlockCursor, Buffers, Drained};
use super::block_skip::BlockSkipper;
use super::filter::KeyHash;
use super::index::Tail;
use super::read_ahead::ReadAhead;
use super::reader::Extent;
use crate::codec::Malformed;
use crate::iter::InternalIter;
use crate::visit::Visit;
use crate::{LATEST, Op, Result, Seq};

/// How a walk treats the block cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// Through the cache.
    Cached,
    /// Through the cache, and reads ahead where it does not have a block: for long walks.
    Ahead,
    /// Uses what is cached but adds nothing, and reads ahead: for compaction, and walks that are longer than the
    /// cache is large.
    Once,
    /// As [`ReadMode::Once`], without what is cached: for checks.
    Device,
}

/// A filtered walk looks so far ahead for blocks that it will want, too.
const READ_AHEAD_BLOCKS: usize = 64;

/// Where the blocks end that are wanted from `block` on, without a gap.
fn stretch_end(skipper: Option<&(Arc<BlockSkipper>, usize)>, tail: &Tail, block: usize) -> u32 {
    let last = match skipper {
        None => tail.blocks() - 1,
        Some((skipper, number)) => skipper.stretch(*number, tail, block, READ_AHEAD_BLOCKS) - 1,
    };
    debug_assert!(block <= last);
    let place = tail.place(last);
    place.offset + place.stored_bytes
}

/// A cursor over an extent.
pub(crate) struct ExtentIter {
    extent: Arc<Extent>,
    mode: ReadMode,
    /// What a walk forward leaves out, and the number of the extent in its run.
    skipper: Option<(Arc<BlockSkipper>, usize)>,
    tail: Option<Arc<Tail>>,
    /// Number of the block the cursor is in.
    number: usize,
    cursor: Option<BlockCursor>,
    ahead: ReadAhead,
    /// A block that the walk will enter, and its number.
    upcoming: Option<(usize, Arc<Block>)>,
    /// Buffers of a cursor that is gone.
    spare: Buffers,
    /// Deletes that the walk skipped.
    tombstones_skipped: u64,
}

impl ExtentIter {
    pub(crate) fn new(extent: Arc<Extent>, mode: ReadMode) -> Self {
        ExtentIter {
            extent,
            mode,
            skipper: None,
            tail: None,
            number: 0,
            cursor: None,
            ahead: ReadAhead::default(),
            upcoming: None,
            spare: Buffers::default(),
            tombstones_skipped: 0,
        }
    }

    /// The walk goes forward only, and leaves out what `skipper` lets pass; `number`: of the extent in its run.
    pub(crate) fn with_skipper(
        mut self,
        skipper: Option<&Arc<BlockSkipper>>,
        number: usize,
    ) -> Self {
        debug_assert!(self.cursor.is_none(), "nothing was read without it");
        self.skipper = skipper.map(|skipper| (Arc::clone(skipper), number));
        self
    }

    /// The walk goes on from that over the extent before. If that had to be read, so will the `next` one behind this.
    pub(crate) fn going_on_from(
        mut self,
        before: &mut ExtentIter,
        next: Option<&Arc<Extent>>,
    ) -> Self {
        debug_assert!(self.cursor.is_none() && self.mode == before.mode);
        if before.ahead.is_in_use()
            && let Some(next) = next
        {
            next.will_be_read();
        }
        self.ahead = std::mem::take(&mut before.ahead);
        self.ahead.forget();
        self
    }

    /// The first block from `block` on that is not left out.
    fn next_unskipped(&self, tail: &Tail, block: usize) -> usize {
        match &self.skipper {
            None => block,
            Some((skipper, number)) => skipper.next(*number, tail, block),
        }
    }

    /// The same for a walk that goes there.
    fn skip_to(&self, tail: &Tail, block: usize) -> usize {
        let next = self.next_unskipped(tail, block);
        if let Some((skipper, _)) = &self.skipper {
            debug_assert!(block <= next && next <= tail.blocks());
            skipper.note_skipped(next - block);
        }
        next
    }

    fn tail(&mut self) -> Result<Arc<Tail>> {
        if self.tail.is_none() {
            self.tail = Some(self.extent.tail(self.mode)?);
        }
        Ok(Arc::clone(self.tail.as_ref().expect("set above")))
    }

    /// Offset of the current block, for messages.
    pub(super) fn offset(&self) -> u32 {
        self.tail
            .as_ref()
            .map_or(0, |tail| tail.place(self.number).offset)
    }

    fn read_block(&mut self, tail: &Tail, number: usize) -> Result<Arc<Block>> {
        if let Some((_, block)) = self.upcoming.take_if(|(upcoming, _)| *upcoming == number) {
            return Ok(block);
        }
        if self.mode == ReadMode::Cached {
            return self.extent.block(tail, number);
        }
        let Self {
            extent,
            ahead,
            skipper,
            ..
        } = self;
        let end = || stretch_end(skipper.as_ref(), tail, number);
        let place = tail.place(number);
        match self.mode {
            ReadMode::Cached | ReadMode::Device => {}
            ReadMode::Ahead => {
                return extent.block_by(tail, number, || {
                    ahead.read(extent, place.offset, place.stored_bytes, end)
                });
            }
            ReadMode::Once => {
                if let Some(block) = extent.peek_block(place.offset) {
                    return Ok(block);
                }
            }
        }
        let stored = ahead.read(extent, place.offset, place.stored_bytes, end)?;
        Ok(Arc::new(extent.decode_block(stored, place.offset)?))
    }

    /// Enters a block and places the cursor in it.
    fn enter(
        &mut self,
        tail: &Tail,
        number: usize,
        place: impl FnOnce(&mut BlockCursor) -> Result<(), Malformed>,
    ) -> Result<()> {
        let is_here = self.number == number && self.cursor.is_some();
        debug_assert!(number < tail.blocks());
        if !is_here {
            let block = self.read_block(tail, number)?;
            let buffers = match self.cursor.take() {
                Some(cursor) => cursor.into_buffers(),
                None => std::mem::take(&mut self.spare),
            };
            self.cursor = Some(BlockCursor::new(block, buffers));
            self.number = number;
        }
        self.with_cursor(place)
    }

    /// Takes hold of the block that comes behind the current one, if it is cached: its bytes can come nearer meanwhile.
    fn look_ahead(&mut self) {
        let Some(tail) = self.tail.as_ref() else {
            return;
        };
        let next = self.next_unskipped(tail, self.number + 1);
        debug_assert!(next > self.number, "an iterator looks ahead, not back");
        if next < tail.blocks() {
            let offset = tail.place(next).offset;
            let block = match self.mode {
                ReadMode::Cached | ReadMode::Ahead => self.extent.cached_block(offset),
                ReadMode::Once => self.extent.peek_block(offset),
                ReadMode::Device => None,
            };
            self.upcoming = block.map(|block| (next, block));
        }
    }

    #[inline]
    fn with_cursor(
        &mut self,
        act: impl FnOnce(&mut BlockCursor) -> Result<(), Malformed>,
    ) -> Result<()> {
        let cursor = self.cursor.as_mut().expect("a block was entered");
        act(cursor).map_err(|what| self.extent.damaged_block(self.offset(), what))
    }

    /// As [`BlockCursor::drain`] for what is left of the current block. The walk must not have ended. If the block
    /// ends, the walk stands on its last entry, and it is told whether the key of that was shown; or behind it
    /// ([`Drained::AtEnd`]), from where [`ExtentIter::next_block`] goes on.
    #[inline]
    pub(crate) fn drain_block(
        &mut self,
        bound: Option<&[u8]>,
        sight: Seq,
        newest: &mut Seq,
        visit: &mut impl Visit,
    ) -> Result<Drained> {
        debug_assert!(self.in_block(), "a block is drained from an entry on");
        // Where all of the block is before the bound, no key is compared with it.
        let is_before = |bound: &&[u8]| {
            let tail = self.tail.as_ref().expect("a block was entered");
            tail.separator(self.number) < *bound
        };
        let bound = bound.filter(|bound| !is_before(bound));
        let drained = match visit.piece() {
            Some(piece) if bound.is_none() && self.is_plain(sight) => {
                self.look_ahead();
                let next = self.upcoming.as_ref().map(|(_, block)| &**block);
                *newest = self.extent.meta().largest_seq.max(*newest);
                let cursor = self.cursor.as_mut().expect("a block was entered");
                cursor.sweep(piece, next, visit)
            }
            _ => {
                let meta = self.extent.meta();
                let (mut stored, deletes) = (0, &mut self.tombstones_skipped);
                let sight = meta.stored_sight(sight);
                let cursor = self.cursor.as_mut().expect("a block was entered");
                let drained = cursor.drain(bound, sight, &mut stored, deletes, visit);
                if stored > 0 {
                    *newest = meta.true_seq(stored).max(*newest);
                }
                drained
            }
        };
        drained.map_err(|what| self.extent.damaged_block(self.offset(), what))
    }

    /// Whether all entries of the current block are rows that are seen by `sight`, each the only version of its key.
    /// The last key of an extent may go on in the next one.
    fn is_plain(&self, sight: Seq) -> bool {
        let is_last = |tail: &Arc<Tail>| self.number + 1 == tail.blocks();
        self.extent.meta().is_plain(sight) && !self.tail.as_ref().is_none_or(is_last)
    }

    fn leave(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            self.spare = cursor.into_buffers();
        }
    }

    fn in_block(&self) -> bool {
        self.cursor.as_ref().is_some_and(BlockCursor::valid)
    }

    #[inline]
    fn at(&self) -> &BlockCursor {
        self.cursor
            .as_ref()
            .expect("the iterator stands on an entry")
    }

    /// The cursor has run off its block's end: goes on in the next.
    pub(crate) fn next_block(&mut self) -> Result<()> {
        let tail = self.tail()?;
        let next = self.skip_to(&tail, self.number + 1);
        if next < tail.blocks() {
            return self.enter(&tail, next, BlockCursor::seek_to_first);
        }
        self.leave();
        Ok(())
    }

    fn prev_block(&mut self) -> Result<()> {
        match self.number.checked_sub(1) {
            Some(number) => {
                let tail = self.tail()?;
                self.enter(&tail, number, BlockCursor::seek_to_last)
            }
            None => {
                self.leave();
                Ok(())
            }
        }
    }
}

impl InternalIter for ExtentIter {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_version(key, LATEST)
    }

    fn seek_version(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        if self.tail.is_none() && self.mode == ReadMode::Cached {
            self.tail = Some(self.extent.tail_for(KeyHash::of(key))?);
        }
        let tail = self.tail()?;
        let seq = self.extent.meta().stored_sight(seq);
        let found = tail.find(key, seq);
        let number = self.skip_to(&tail, found);
        if number == tail.blocks() {
            self.leave();
            return Ok(());
        }
        if number > found {
            return self.enter(&tail, number, BlockCursor::seek_to_first);
        }
        self.enter(&tail, number, |cursor| cursor.seek(key, seq))?;
        if !self.in_block() {
            return self.next_block();
        }
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        let tail = self.tail()?;
        let first = self.skip_to(&tail, 0);
        if first == tail.blocks() {
            self.leave();
            return Ok(());
        }
        self.enter(&tail, first, BlockCursor::seek_to_first)
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
        let tail = self.tail()?;
        self.enter(&tail, tail.blocks() - 1, BlockCursor::seek_to_last)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.with_cursor(BlockCursor::next)?;
        if self.in_block() {
            Ok(())
        } else {
            self.next_block()
        }
    }

    fn prev(&mut self) -> Result<()> {
        self.with_cursor(BlockCursor::prev)?;
        if self.in_block() {
            Ok(())
        } else {
            self.prev_block()
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.in_block()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.at().key()
    }

    #[inline]
    fn seq(&self) -> Seq {
        self.extent.meta().true_seq(self.at().seq())
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
        debug_assert_eq!(self.op(), Op::Delete);
        self.tombstones_skipped += 1;
    }
}

impl Drop for ExtentIter {
    fn drop(&mut self) {
        if self.tombstones_skipped > 0 {
            self.extent.note_tombstones_skipped(self.tombstones_skipped);
        }
    }
}
