//! Cache warming, the extent's part: which key ranges of it are cached, taking them out of the cache, reading them into
//! it.
//!
//! Neighbours: `compact::warm_cache` weighs the ranges; `reader` has the blocks.
//!
//! **Invariants**
//! - The ranges of an extent ascend and cover its keys, from its first to its last.

use super::index::Tail;
use super::iter::ReadMode;
use super::known_keys;
use super::reader::Extent;
use crate::Result;

/// A range of keys that lie together.
pub(crate) struct CacheRange {
    /// No key of the range is smaller.
    pub(crate) first: Box<[u8]>,
    /// No key of the range is larger.
    pub(crate) last: Box<[u8]>,
    /// Bytes in memory, more or less.
    pub(crate) bytes: u64,
    /// Whether it was cached.
    pub(crate) is_cached: bool,
}

impl Tail {
    /// A block as a range; its first key is not known.
    fn range(&self, number: usize, block_bytes: u64) -> CacheRange {
        CacheRange {
            first: Box::default(),
            last: self.separator(number).into(),
            bytes: block_bytes.max(self.place(number).stored_bytes.into()),
            is_cached: false,
        }
    }
}

impl Extent {
    /// Takes the blocks out of the cache, and the tail. Adds what they were to `ranges`: the whole extent as one where
    /// not even the tail was cached.
    pub(crate) fn uncache(&self, ranges: &mut Vec<CacheRange>) {
        let (meta, cache) = (self.meta(), self.cache());
        cache.remove(meta.stamp, known_keys::PLACE);
        let Some(tail) = cache.peek_tail(meta.stamp, meta.filter_offset) else {
            ranges.push(CacheRange {
                first: meta.first.key.clone(),
                last: meta.last.key.clone(),
                bytes: meta.data_bytes,
                is_cached: false,
            });
            return;
        };
        let mut first = meta.first.key.clone();
        for number in 0..tail.blocks() {
            let range = tail.range(number, self.block_bytes());
            let offset = tail.place(number).offset;
            let following = range.last.clone();
            ranges.push(CacheRange {
                first: std::mem::replace(&mut first, following),
                is_cached: cache.remove(meta.stamp, offset),
                ..range
            });
        }
        cache.remove(meta.stamp, meta.filter_offset);
    }

    /// The blocks of an extent that was just written. Its tail is cached from now on.
    pub(crate) fn ranges(&self) -> Result<Vec<CacheRange>> {
        let tail = self.tail(ReadMode::Cached)?;
        let numbers = 0..tail.blocks();
        let ranges = numbers.map(|number| tail.range(number, self.block_bytes()));
        Ok(ranges.collect())
    }

    /// Reads a block into the cache.
    pub(crate) fn cache_block(&self, number: usize) -> Result<()> {
        let tail = self.tail(ReadMode::Cached)?;
        self.block(&tail, number)?;
        self.cache().note_refreshed();
        Ok(())
    }
}
