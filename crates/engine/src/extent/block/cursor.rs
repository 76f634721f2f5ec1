//! Block cursor: a position in a block that moves in both directions.
//!
//! Neighbours: `extent::iter` leads cursors from block to block.
//!
//! **Invariants**
//! - `key` is the whole key of the current entry, put together from those before it.
//! - Going back, the entries from a restart up to the current one are decoded once and kept in `behind`, so a step
//!   back costs what a step forward does.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::joined::{Joined, Pieces};
use super::{Block, DAMAGED, Entry};
use crate::codec::Malformed;
use crate::iter::compare_versions;
use crate::visit::{MOST_PIECES, Piece, Visit, show};
use crate::{Op, Seq};
use esker_vfs::pages::prefetch;

/// An entry before the current one.
struct Behind {
    at: usize,
    next: usize,
    /// Its key in `behind_keys`.
    key: Range<usize>,
    seq: Seq,
    op: Op,
    value: Range<usize>,
}

/// A position in a block.
pub(in crate::extent) struct BlockCursor {
    block: Arc<Block>,
    /// Offset of the current entry; `entries_end` behind the last.
    at: usize,
    /// Offset of the entry behind it.
    next: usize,
    seq: Seq,
    op: Op,
    value: Range<usize>,
    buffers: Buffers,
}

/// Where a drain has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// On the first version of the first key at or behind the bound.
    AtBound,
    /// On the last entry of the block; whether its key has been shown. More versions of it may follow in the next
    /// block.
    AtLast { resolved: bool },
    /// Behind the last entry, and no more versions of its key follow.
    AtEnd,
    /// `visit` wants no more.
    Stopped,
}

/// Memory that cursors pass on to each other.
#[derive(Default)]
pub(in crate::extent) struct Buffers {
    key: Vec<u8>,
    /// Entries right before the current one, the last one nearest; empty unless the cursor goes back.
    behind: Vec<Behind>,
    behind_keys: Vec<u8>,
    joined: Joined,
}

impl BlockCursor {
    /// A cursor without a position, which keeps the memory of an older one.
    pub(in crate::extent) fn new(block: Arc<Block>, mut buffers: Buffers) -> Self {
        buffers.key.clear();
        buffers.behind.clear();
        let end = block.entries_end;
        BlockCursor {
            block,
            at: end,
            next: end,
            seq: 0,
            op: Op::Put,
            value: 0..0,
            buffers,
        }
    }

    /// Gives back the buffers.
    pub(in crate::extent) fn into_buffers(self) -> Buffers {
        self.buffers
    }

    #[inline]
    pub(in crate::extent) fn valid(&self) -> bool {
        self.at < self.block.entries_end
    }

    #[inline]
    pub(in crate::extent) fn key(&self) -> &[u8] {
        &self.buffers.key
    }

    #[inline]
    pub(in crate::extent) fn seq(&self) -> Seq {
        self.seq
    }

    #[inline]
    pub(in crate::extent) fn op(&self) -> Op {
        self.op
    }

    #[inline]
    pub(in crate::extent) fn value(&self) -> &[u8] {
        &self.block.bytes[self.value.clone()]
    }

    /// Decodes the entry at `at`, which follows the one that `key` belongs to, or is a restart.
    #[inline]
    fn load(&mut self, at: usize) -> Result<(), Malformed> {
        self.at = at;
        if at >= self.block.entries_end {
            self.at = self.block.entries_end;
            return Ok(());
        }
        let Entry {
            shared,
            rest,
            value,
            seq,
            op,
        } = self.block.entry(at).ok_or(DAMAGED)?;
        let key = &mut self.buffers.key;
        if shared > key.len() {
            return Err("a block entry shares more than there is");
        }
        key.truncate(shared);
        key.extend_from_slice(&self.block.bytes[rest]);
        self.next = value.end;
        (self.seq, self.op, self.value) = (seq, op, value);
        Ok(())
    }

    fn load_restart(&mut self, index: usize) -> Result<(), Malformed> {
        self.buffers.key.clear();
        self.buffers.behind.clear();
        let at = self.block.restart(index)?;
        self.load(at)
    }

    #[inline]
    pub(in crate::extent) fn next(&mut self) -> Result<(), Malformed> {
        debug_assert!(self.valid());
        self.buffers.behind.clear();
        self.load(self.next)
    }

    pub(in crate::extent) fn seek_to_first(&mut self) -> Result<(), Malformed> {
        self.load_restart(0)
    }

    pub(in crate::extent) fn seek_to_last(&mut self) -> Result<(), Malformed> {
        self.walk_up_to(self.block.restarts().len() - 1, self.block.entries_end)
    }

    /// Moves to the first entry at or after (`key`, `seq`).
    pub(in crate::extent) fn seek(&mut self, key: &[u8], seq: Seq) -> Result<(), Malformed> {
        let restart = self.block.restart_before(key, seq)?;
        self.load_restart(restart)?;
        while self.valid() && compare_versions(self.key(), self.seq, key, seq) == Ordering::Less {
            self.load(self.next)?;
        }
        Ok(())
    }

    /// Shows `visit` the newest version up to `sight` of every key from the current one on, which is before `bound` if
    /// there is one. Begins on the first version of a key. See [`Drained`] for where it ends. Adds the deletes among
    /// them to `deletes`.
    ///
    /// The loop of a scan: one test of the end, one comparison for the key, no decision between sources.
    #[inline]
    pub(in crate::extent) fn drain(
        &mut self,
        bound: Option<&[u8]>,
        sight: Seq,
        newest: &mut Seq,
        deletes: &mut u64,
        visit: &mut impl Visit,
    ) -> Result<Drained, Malformed> {
        debug_assert!(self.valid());
        let Self {
            block,
            at,
            next,
            seq,
            op,
            value,
            buffers,
        } = self;
        let Buffers { key, behind, .. } = buffers;
        behind.clear();
        let block: &Block = block;
        let mut resolved = false;
        loop {
            if !resolved {
                if bound.is_some_and(|bound| &key[..] >= bound) {
                    return Ok(Drained::AtBound);
                }
                if *seq <= sight {
                    resolved = true;
                    *newest = (*seq).max(*newest);
                    *deletes += u64::from(*op == Op::Delete);
                    if !show(visit, key, *op, &block.bytes[value.clone()]) {
                        return Ok(Drained::Stopped);
                    }
                }
            }
            if *next >= block.entries_end {
                return Ok(Drained::AtLast { resolved });
            }
            let entry = block.entry(*next).ok_or(DAMAGED)?;
            let rest = &block.bytes[entry.rest];
            let Some(differing) = key.get(entry.shared..) else {
                return Err("a block entry shares more than there is");
            };
            if differing != rest {
                resolved = false;
                key.truncate(entry.shared);
                key.extend_from_slice(rest);
            }
            *at = *next;
            *next = entry.value.end;
            (*seq, *op, *value) = (entry.seq, entry.op, entry.value);
        }
    }

    /// Shows `visit` what is left of the block, from the current entry on, as the pieces it wants, and leaves the
    /// block. Every entry must be the only version of its key, and a put: keys are not compared then, and values of
    /// rows are shown where they lie. Meanwhile the `next` block comes nearer.
    pub(in crate::extent) fn sweep(
        &mut self,
        piece: Piece,
        next: Option<&Block>,
        visit: &mut impl Visit,
    ) -> Result<Drained, Malformed> {
        debug_assert!(self.valid());
        let goes_on = match piece {
            Piece::Value => self.sweep_values(next, visit)?,
            Piece::Whole => self.sweep_whole(visit)?,
        };
        self.at = self.block.entries_end;
        self.next = self.at;
        Ok(match goes_on {
            true => Drained::AtEnd,
            false => Drained::Stopped,
        })
    }

    fn sweep_values(
        &self,
        next: Option<&Block>,
        visit: &mut impl Visit,
    ) -> Result<bool, Malformed> {
        let block: &Block = &self.block;
        let mut next = next.map_or(&[][..], |next| &next.bytes[..next.entries_end]);
        let mut pieces = Pieces::new();
        pieces.push(self.value());
        let mut at = self.next;
        while at < block.entries_end {
            let entry = block.put(at)?;
            // As much of the next block as this entry takes of this one.
            let (near, rest) = next
                .split_at_checked(entry.value.end - at)
                .unwrap_or((next, &[]));
            prefetch(near);
            next = rest;
            at = entry.value.end;
            if pieces.len() == MOST_PIECES {
                if !visit.puts(&pieces) {
                    return Ok(false);
                }
                pieces.clear();
            }
            pieces.push(&block.bytes[entry.value]);
        }
        Ok(visit.puts(&pieces))
    }

    fn sweep_whole(&mut self, visit: &mut impl Visit) -> Result<bool, Malformed> {
        let block: &Block = &self.block;
        let Buffers { key, joined, .. } = &mut self.buffers;
        joined.begin(key, &block.bytes[self.value.clone()]);
        let mut at = self.next;
        while at < block.entries_end {
            let entry = block.put(at)?;
            at = entry.value.end;
            if joined.is_full() {
                if !joined.show(visit) {
                    return Ok(false);
                }
                joined.forget_shown();
            }
            joined.add(&entry, &block.bytes)?;
        }
        Ok(joined.show(visit))
    }

    /// Moves to the entry before; off the block if there is none.
    pub(in crate::extent) fn prev(&mut self) -> Result<(), Malformed> {
        if let Some(entry) = self.buffers.behind.pop() {
            let Buffers {
                key, behind_keys, ..
            } = &mut self.buffers;
            key.clear();
            key.extend_from_slice(&behind_keys[entry.key.clone()]);
            (self.at, self.next) = (entry.at, entry.next);
            (self.seq, self.op, self.value) = (entry.seq, entry.op, entry.value);
            return Ok(());
        }
        let target = self.at;
        if target == 0 {
            self.at = self.block.entries_end;
            return Ok(());
        }
        // The last restart before the current entry.
        let restarts = self.block.restarts().len();
        let (mut low, mut high) = (0, restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.block.restart(middle)? < target {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.walk_up_to(low, target)
    }

    /// Moves to the entry before `target`, from a restart on, and keeps what lies between.
    fn walk_up_to(&mut self, restart: usize, target: usize) -> Result<(), Malformed> {
        self.load_restart(restart)?;
        self.buffers.behind_keys.clear();
        while self.next < target {
            let Buffers {
                key,
                behind,
                behind_keys,
                ..
            } = &mut self.buffers;
            let start = behind_keys.len();
            behind_keys.extend_from_slice(key);
            behind.push(Behind {
                at: self.at,
                next: self.next,
                key: start..behind_keys.len(),
                seq: self.seq,
                op: self.op,
                value: self.value.clone(),
            });
            self.load(self.next)?;
        }
        Ok(())
    }
}
