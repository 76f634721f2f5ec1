//! The block cache: decoded blocks and extent tails, shared by all trees, within a fixed amount of memory.
//!
//! Neighbours: `extent::reader` asks and fills; the engine's memory budget sets the capacity.
//!
//! **Invariants**
//! - The key names content that never changes (the stamp of an extent, an offset in it), so nothing is ever invalidated:
//!   what belongs to extents that are gone is simply not asked for again.
//! - Two readers that miss the same block read it once.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::Result;
use crate::extent::{Block, Tail};

/// Expected weight of an entry: a block, or a tail of a similar size.
const TYPICAL_ENTRY_BYTES: u64 = 16 << 10;
/// Stored frames beyond this are not cached: one of them would push out too much.
pub(crate) const MAX_CACHED_FRAME_BYTES: u32 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    stamp: u64,
    offset: u32,
}

/// Hashes a [`Key`]: stamps are random already, so little is left to do.
#[derive(Clone, Copy, Default)]
struct StampHasher(u64);

impl Hasher for StampHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a key consists of two numbers");
    }

    fn write_u64(&mut self, stamp: u64) {
        self.0 ^= stamp;
    }

    fn write_u32(&mut self, offset: u32) {
        // The high half of the product depends on all bits of both.
        let product = u128::from(self.0 ^ u64::from(offset)) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[derive(Clone)]
enum Cached {
    Block(Arc<Block>),
    Tail(Arc<Tail>),
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Cached> for ByBytes {
    fn weight(&self, _key: &Key, cached: &Cached) -> u64 {
        let bytes = match cached {
            Cached::Block(block) => block.bytes(),
            Cached::Tail(tail) => tail.bytes(),
        };
        bytes as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// Key, value, counters and links of an entry.
const ENTRY_OVERHEAD_BYTES: u64 = 96;

/// Memory shared by the blocks of all trees.
pub struct BlockCache {
    cache: Cache<Key, Cached, ByBytes, BuildHasherDefault<StampHasher>>,
}

impl BlockCache {
    /// A cache of this many bytes.
    pub fn new(capacity_bytes: u64) -> Arc<BlockCache> {
        let entries = (capacity_bytes / TYPICAL_ENTRY_BYTES).max(1) as usize;
        Arc::new(BlockCache {
            cache: Cache::with(
                entries,
                capacity_bytes,
                ByBytes,
                BuildHasherDefault::default(),
                DefaultLifecycle::default(),
            ),
        })
    }

    /// Changes the capacity; what does not fit any more goes.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        self.cache.set_capacity(capacity_bytes);
    }

    /// Most bytes that may be in use.
    pub fn capacity_bytes(&self) -> u64 {
        self.cache.capacity()
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.cache.weight()
    }

    /// Drops everything, for measurements of cold reads.
    pub fn clear(&self) {
        self.cache.clear();
    }

    pub(crate) fn block(
        &self,
        stamp: u64,
        offset: u32,
        load: impl FnOnce() -> Result<Block>,
    ) -> Result<Arc<Block>> {
        let key = Key { stamp, offset };
        let load = || load().map(|block| Cached::Block(Arc::new(block)));
        match self.cache.get_or_insert_with(&key, load)? {
            Cached::Block(block) => Ok(block),
            Cached::Tail(_) => unreachable!("a block and a tail never have the same offset"),
        }
    }

    /// The block if it is there.
    pub(crate) fn peek_block(&self, stamp: u64, offset: u32) -> Option<Arc<Block>> {
        match self.cache.peek(&Key { stamp, offset })? {
            Cached::Block(block) => Some(block),
            Cached::Tail(_) => None,
        }
    }

    pub(crate) fn tail(
        &self,
        stamp: u64,
        offset: u32,
        load: impl FnOnce() -> Result<Tail>,
    ) -> Result<Arc<Tail>> {
        let key = Key { stamp, offset };
        let load = || load().map(|tail| Cached::Tail(Arc::new(tail)));
        match self.cache.get_or_insert_with(&key, load)? {
            Cached::Tail(tail) => Ok(tail),
            Cached::Block(_) => unreachable!("a block and a tail never have the same offset"),
        }
    }

    /// The tail if it is there.
    pub(crate) fn peek_tail(&self, stamp: u64, offset: u32) -> Option<Arc<Tail>> {
        match self.cache.peek(&Key { stamp, offset })? {
            Cached::Tail(tail) => Some(tail),
            Cached::Block(_) => None,
        }
    }
}
