//! Dump of an extent for people, block by block, also of a damaged one.
//!
//! Neighbours: `crate::inspect` passes it on; `reader` reads and verifies.
//!
//! **Invariants**
//! - A damaged block hides no other one.
//! - No damage is left out: what the blocks do not show `Extent::verify` finds.

use std::sync::Arc;

use super::block::{Block, BlockCursor, Buffers};
use super::frame;
use super::index::Tail;
use super::iter::ReadMode;
use super::reader::Extent;
use super::{Packed, Position};
use crate::{EngineError, Op, Result, Seq};

/// What is in an extent.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExtentParts {
    /// The blocks in order; none if the index cannot be read.
    pub blocks: Vec<BlockParts>,
    /// What is damaged outside of the blocks, or between them: header, filter, index, order, counts.
    pub damage: Vec<EngineError>,
}

impl ExtentParts {
    /// Everything that is damaged.
    pub fn all_damage(&self) -> impl Iterator<Item = &EngineError> {
        let blocks = self.blocks.iter();
        let damaged = blocks.filter_map(|block| block.content.as_ref().err());
        self.damage.iter().chain(damaged)
    }
}

/// A block of an extent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlockParts {
    /// Where it begins in the extent, in bytes.
    pub offset: u32,
    /// Bytes it takes there.
    pub stored_bytes: u32,
    /// What is in it, or what is damaged.
    pub content: Result<BlockContent>,
}

/// What is in a block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlockContent {
    /// How it is stored.
    pub packed: Packed,
    /// Bytes before compression.
    pub raw_bytes: u32,
    /// Places where a search can begin.
    pub restarts: u32,
    /// Versions.
    pub entries: u64,
    /// Deletes among them.
    pub deletes: u64,
    /// Smallest sequence.
    pub smallest_seq: Seq,
    /// Largest sequence.
    pub largest_seq: Seq,
    /// First version in internal order.
    pub first: Position,
    /// Last version.
    pub last: Position,
}

impl Extent {
    /// Reads all of it.
    pub(crate) fn inspect(self: &Arc<Self>) -> ExtentParts {
        let mut parts = ExtentParts::default();
        match self.tail(ReadMode::Once) {
            Ok(tail) => {
                let blocks = (0..tail.blocks()).map(|number| self.inspect_block(&tail, number));
                parts.blocks = blocks.collect();
            }
            Err(error) => parts.damage.push(error),
        }
        if parts.all_damage().next().is_none() {
            parts.damage.extend(self.verify().err());
        }
        parts
    }

    fn inspect_block(&self, tail: &Tail, number: usize) -> BlockParts {
        let place = tail.place(number);
        let content = self
            .read(place.offset, place.stored_bytes as usize)
            .and_then(|stored| {
                let packed = frame::packed(&stored);
                let block = self.decode_block(&stored, place.offset)?;
                content(packed, block).map_err(|what| self.damaged_block(place.offset, what))
            });
        BlockParts {
            offset: place.offset,
            stored_bytes: place.stored_bytes,
            content,
        }
    }
}

fn content(packed: Packed, block: Block) -> Result<BlockContent, &'static str> {
    let (raw_bytes, restarts) = (block.raw_bytes() as u32, block.restart_count() as u32);
    let mut cursor = BlockCursor::new(Arc::new(block), Buffers::default());
    let position = |cursor: &BlockCursor| Position {
        key: cursor.key().into(),
        seq: cursor.seq(),
    };
    cursor.seek_to_first()?;
    let first = position(&cursor);
    let mut content = BlockContent {
        packed,
        raw_bytes,
        restarts,
        entries: 0,
        deletes: 0,
        smallest_seq: first.seq,
        largest_seq: first.seq,
        last: first.clone(),
        first,
    };
    while cursor.valid() {
        content.entries += 1;
        content.deletes += u64::from(cursor.op() == Op::Delete);
        content.smallest_seq = content.smallest_seq.min(cursor.seq());
        content.largest_seq = content.largest_seq.max(cursor.seq());
        content.last.seq = cursor.seq();
        if *content.last.key != *cursor.key() {
            content.last.key = cursor.key().into();
        }
        cursor.next()?;
    }
    Ok(content)
}
