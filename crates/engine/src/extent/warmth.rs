//! Blocks of an extent as pieces of the key space: which are cached, and how they leave the cache or come into it.
//!
//! Neighbours: `compact::refresh` weighs the pieces; `reader` has the blocks.
//!
//! **Invariants**
//! - The pieces of an extent ascend and cover its keys, from its first to its last.

use super::index::Tail;
use super::iter::ReadMode;
use super::learned;
use super::reader::Extent;
use crate::Result;

/// A range of keys that lie together.
pub(crate) struct Piece {
    /// No key of the piece is smaller.
    pub(crate) first: Box<[u8]>,
    /// No key of the piece is larger.
    pub(crate) last: Box<[u8]>,
    /// Bytes in memory, more or less.
    pub(crate) bytes: u64,
    /// Whether it was cached.
    pub(crate) is_cached: bool,
}

impl Tail {
    /// A block as a piece; its first key is not known.
    fn piece(&self, number: usize, block_bytes: u64) -> Piece {
        Piece {
            first: Box::default(),
            last: self.separator(number).into(),
            bytes: block_bytes.max(self.place(number).stored_bytes.into()),
            is_cached: false,
        }
    }
}

impl Extent {
    /// Takes the blocks out of the cache, and the tail. Adds what they were to `pieces`: the whole extent as one where not
    /// even the tail was cached.
    pub(crate) fn uncache(&self, pieces: &mut Vec<Piece>) {
        let (meta, cache) = (self.meta(), self.cache());
        cache.remove(meta.stamp, learned::PLACE);
        let Some(tail) = cache.peek_tail(meta.stamp, meta.filter_offset) else {
            pieces.push(Piece {
                first: meta.first.key.clone(),
                last: meta.last.key.clone(),
                bytes: meta.data_bytes,
                is_cached: false,
            });
            return;
        };
        let mut first = meta.first.key.clone();
        for number in 0..tail.blocks() {
            let piece = tail.piece(number, self.block_bytes());
            let offset = tail.place(number).offset;
            let following = piece.last.clone();
            pieces.push(Piece {
                first: std::mem::replace(&mut first, following),
                is_cached: cache.remove(meta.stamp, offset),
                ..piece
            });
        }
        cache.remove(meta.stamp, meta.filter_offset);
    }

    /// The blocks of an extent that was just written. Its tail is cached from now on.
    pub(crate) fn pieces(&self) -> Result<Vec<Piece>> {
        let tail = self.tail(ReadMode::Cached)?;
        let numbers = 0..tail.blocks();
        let pieces = numbers.map(|number| tail.piece(number, self.block_bytes()));
        Ok(pieces.collect())
    }

    /// Reads a block into the cache.
    pub(crate) fn cache_block(&self, number: usize) -> Result<()> {
        let tail = self.tail(ReadMode::Cached)?;
        self.block(&tail, number)?;
        self.cache().note_refreshed();
        Ok(())
    }
}
