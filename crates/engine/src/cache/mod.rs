//! The block cache: decoded blocks, extent tails and known keys, shared by all trees, within the share that the memory
//! budget leaves it.
//!
//! Parts: `frames` (memory that can be given back) → [`BlockCache`].
//!
//! Neighbours: `extent::reader` asks and fills, and charges what it decodes to the budget the cache belongs to;
//! `budget` sets the capacity; `compact` removes what it has rewritten.
//!
//! **Invariants**
//! - The key names content that never changes (the stamp of an extent, an offset in it), or that stays true, so nothing
//!   is ever invalidated: what belongs to extents that are gone is simply not asked for again.
//! - Two readers that miss the same block read it once.
//! - What is read once does not push out what is read again and again (CLOCK-Pro: newcomers compete with newcomers).

mod frames;

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::Result;
use crate::budget::{Governed, MemoryBudget};
use crate::extent::{Block, KnownKeys, Tail};
pub(crate) use frames::{Bytes, Frames};

/// Expected weight of an entry: a block, or a tail of a similar size.
const TYPICAL_ENTRY_BYTES: u64 = 16 << 10;
/// What has been asked for again may have this share; the rest is where newcomers wait to be asked for again.
const HOT_SHARE: f64 = 0.9;
const _: () = assert!(0.0 < HOT_SHARE && HOT_SHARE < 1.0);
/// Newcomers that had to go are remembered by name, as many as there are entries: whoever comes back is asked for
/// again, even if so many others came in between.
const REMEMBERED: f64 = 1.0;
/// A shard has at least this capacity at first: a newcomer that finds no room among its like takes it from the others.
const LEAST_SHARD_BYTES: u64 = 4 << 20;
/// Stored frames beyond this are not cached: one of them would push out too much.
pub(crate) const MAX_CACHED_FRAME_BYTES: u32 = 1 << 20;
const _: () = assert!(MAX_CACHED_FRAME_BYTES as u64 <= LEAST_SHARD_BYTES);

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
    KnownKeys(Arc<KnownKeys>),
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Cached> for ByBytes {
    fn weight(&self, _key: &Key, cached: &Cached) -> u64 {
        let bytes = match cached {
            Cached::Block(block) => block.bytes(),
            Cached::Tail(tail) => tail.bytes(),
            Cached::KnownKeys(keys) => keys.bytes(),
        };
        bytes as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// Key, value, counters and links of an entry.
const ENTRY_OVERHEAD_BYTES: u64 = 96;

/// What happened in a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Blocks, and tails (filter and index) of extents, that were not there and had to be read.
    pub loads: u64,
    /// Blocks among them that were read because compaction had rewritten cached ones.
    pub refreshed: u64,
}

/// Memory shared by the blocks of all trees.
pub struct BlockCache {
    budget: Arc<MemoryBudget>,
    /// Where the bytes of blocks are.
    frames: Arc<Frames>,
    /// Blocks that came in the place of others that compaction has rewritten.
    refreshed: AtomicU64,
    /// Blocks and tails that were not there and had to be read.
    loads: AtomicU64,
    cache: Cache<Key, Cached, ByBytes, BuildHasherDefault<StampHasher>>,
}

impl BlockCache {
    /// A cache of this many bytes, with a budget of its own.
    pub fn new(capacity_bytes: u64) -> Arc<BlockCache> {
        Self::with_budget(MemoryBudget::unlimited(), capacity_bytes)
    }

    /// The cache of a budget, which sets its capacity.
    pub(crate) fn governed(budget: &Arc<MemoryBudget>) -> Arc<BlockCache> {
        let capacity_bytes = budget.cache_capacity() as u64;
        let cache = Self::with_budget(Arc::clone(budget), capacity_bytes);
        let governed: Arc<dyn Governed> = cache.clone();
        budget.govern(Arc::downgrade(&governed));
        cache
    }

    fn with_budget(budget: Arc<MemoryBudget>, capacity_bytes: u64) -> Arc<BlockCache> {
        let entries = (capacity_bytes / TYPICAL_ENTRY_BYTES).max(1) as usize;
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let shards = (capacity_bytes / LEAST_SHARD_BYTES).clamp(1, (threads * 4) as u64);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(entries)
            .weight_capacity(capacity_bytes)
            .shards(shards as usize)
            .hot_allocation(HOT_SHARE)
            .ghost_allocation(REMEMBERED)
            .build()
            .expect("both capacities are given");
        Arc::new(BlockCache {
            budget,
            frames: Arc::default(),
            refreshed: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            cache: Cache::with_options(
                options,
                ByBytes,
                BuildHasherDefault::default(),
                DefaultLifecycle::default(),
            ),
        })
    }

    /// Changes the capacity; what does not fit any more goes, and its memory goes back to the system.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        self.cache.set_capacity(capacity_bytes);
        self.frames.trim();
    }

    /// Where the bytes of its blocks are kept.
    pub(crate) fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    /// The budget that its blocks and tails are charged to.
    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Most bytes that may be in use.
    pub fn capacity_bytes(&self) -> u64 {
        self.cache.capacity()
    }

    /// What happened in it since it was made.
    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            loads: self.loads.load(Ordering::Relaxed),
            refreshed: self.refreshed.load(Ordering::Relaxed),
        }
    }

    fn note_load(&self) {
        self.loads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_refreshed(&self) {
        self.refreshed.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes of the blocks and tails in it.
    pub(crate) fn content_bytes(&self) -> u64 {
        let overhead = self.cache.len() as u64 * ENTRY_OVERHEAD_BYTES;
        self.cache.weight().saturating_sub(overhead)
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
        let load = || {
            self.note_load();
            load().map(|block| Cached::Block(Arc::new(block)))
        };
        match self.cache.get_or_insert_with(&key, load)? {
            Cached::Block(block) => Ok(block),
            _ => unreachable!("nothing else has the offset of a block"),
        }
    }

    /// The block if it is there, which is a use of it.
    pub(crate) fn cached_block(&self, stamp: u64, offset: u32) -> Option<Arc<Block>> {
        match self.cache.get(&Key { stamp, offset })? {
            Cached::Block(block) => Some(block),
            _ => None,
        }
    }

    /// The same without being one.
    pub(crate) fn peek_block(&self, stamp: u64, offset: u32) -> Option<Arc<Block>> {
        match self.cache.peek(&Key { stamp, offset })? {
            Cached::Block(block) => Some(block),
            _ => None,
        }
    }

    /// Removes what will not be asked for any more; whether it was there.
    pub(crate) fn remove(&self, stamp: u64, offset: u32) -> bool {
        self.cache.remove(&Key { stamp, offset }).is_some()
    }

    pub(crate) fn tail(
        &self,
        stamp: u64,
        offset: u32,
        load: impl FnOnce() -> Result<Tail>,
    ) -> Result<Arc<Tail>> {
        let key = Key { stamp, offset };
        let load = || {
            self.note_load();
            load().map(|tail| Cached::Tail(Arc::new(tail)))
        };
        match self.cache.get_or_insert_with(&key, load)? {
            Cached::Tail(tail) => Ok(tail),
            _ => unreachable!("nothing else has the offset of a tail"),
        }
    }

    /// The tail if it is there.
    pub(crate) fn peek_tail(&self, stamp: u64, offset: u32) -> Option<Arc<Tail>> {
        match self.cache.peek(&Key { stamp, offset })? {
            Cached::Tail(tail) => Some(tail),
            _ => None,
        }
    }

    /// What is known of keys of an extent, if it is there, which is a use of it.
    pub(crate) fn known_keys(&self, stamp: u64, offset: u32) -> Option<Arc<KnownKeys>> {
        match self.cache.get(&Key { stamp, offset })? {
            Cached::KnownKeys(keys) => Some(keys),
            _ => None,
        }
    }

    /// Keeps it in the place of what was there.
    pub(crate) fn remember_keys(&self, stamp: u64, offset: u32, known_keys: KnownKeys) {
        let known_keys = Cached::KnownKeys(Arc::new(known_keys));
        self.cache.insert(Key { stamp, offset }, known_keys);
    }
}

impl Governed for BlockCache {
    fn content_bytes(&self) -> u64 {
        BlockCache::content_bytes(self)
    }

    fn set_capacity(&self, bytes: u64) {
        BlockCache::set_capacity(self, bytes);
    }

    fn trim(&self) {
        self.frames.trim();
    }
}
