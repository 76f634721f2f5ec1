//! An open extent: point reads, blocks for cursors, and the complete check.
//!
//! Neighbours: `tree::version` finds the extent; `cache` keeps what was read; `space` owns the slots.
//!
//! **Invariants**
//! - The handle keeps the slots: as long as somebody holds it, its bytes stay as they are.
//! - Every frame is checked against stamp and place before it is used or cached.
//! - An extent that could once not be read is quarantined until the next start: compaction leaves it where it is.
//!   Whoever reads it tries again and gets what is right, or an error.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapWeak;
use esker_vfs::{File, Random};

use super::block::{Block, Found};
use super::filter::{Filter, KeyHash};
use super::frame::{self, FramePlace, Sealed};
use super::index::Tail;
use super::iter::{ExtentIter, ReadMode};
use super::meta::{ExtentMeta, HasMeta, Header};
use super::space::{Slots, Space};
use super::writer::ExtentOptions;
use super::{HEADER_BYTES, Position, SLOT_BYTES};
use crate::budget::{Charge, MemoryUse};
use crate::cache::{BlockCache, MAX_CACHED_FRAME_BYTES};
use crate::codec::Malformed;
use crate::iter::InternalIter;
use crate::{EngineError, LATEST, Op, Result, Seq, TreeId};

/// What extents need to be written and read.
pub(crate) struct Store {
    pub(crate) space: Arc<Space>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) options: ExtentOptions,
    pub(crate) random: Arc<dyn Random>,
    /// Extents that were quarantined since the start.
    pub(crate) quarantined: AtomicU64,
}

impl Store {
    pub(crate) fn new(
        space: Arc<Space>,
        cache: Arc<BlockCache>,
        options: ExtentOptions,
        random: Arc<dyn Random>,
    ) -> Arc<Self> {
        Arc::new(Store {
            space,
            cache,
            options,
            random,
            quarantined: AtomicU64::new(0),
        })
    }
}

/// An extent of a version, or one that is about to be.
pub struct Extent {
    meta: ExtentMeta,
    tree: TreeId,
    slots: Arc<Slots>,
    store: Arc<Store>,
    quarantined: AtomicBool,
    /// Deletes that walks for rows have stepped over, each as often as that was.
    tombstones_skipped: AtomicU64,
    /// The tail as long as the cache or a reader has it: a way around the cache.
    tail: ArcSwapWeak<Tail>,
    _charge: Charge,
}

impl HasMeta for Arc<Extent> {
    fn meta(&self) -> &ExtentMeta {
        &self.meta
    }

    fn is_quarantined(&self) -> bool {
        self.quarantined.load(Ordering::Relaxed)
    }

    fn tombstones_skipped(&self) -> u64 {
        self.tombstones_skipped.load(Ordering::Relaxed)
    }
}

/// Bytes of a key that a message shows.
const SHOWN_KEY_BYTES: usize = 64;

fn shown(key: &[u8]) -> impl std::fmt::Display {
    key[..key.len().min(SHOWN_KEY_BYTES)].escape_ascii()
}

/// A version found in a block, which it keeps alive.
pub(crate) struct FoundIn {
    block: Arc<Block>,
    found: Found,
}

impl FoundIn {
    pub(crate) fn seq(&self) -> Seq {
        self.found.seq
    }

    pub(crate) fn op(&self) -> Op {
        self.found.op
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.block.slice(self.found.value.clone())
    }
}

impl Extent {
    pub(super) fn new(
        store: &Arc<Store>,
        tree: TreeId,
        meta: ExtentMeta,
        slots: Arc<Slots>,
    ) -> Arc<Self> {
        debug_assert_eq!(slots.id(), meta.id);
        debug_assert_eq!(slots.count(), meta.slots);
        debug_assert_eq!(meta.check(), Ok(()), "bounds and counts agree");
        let bytes = size_of::<Extent>() + meta.first.key.len() + meta.last.key.len();
        let budget = store.cache.budget();
        Arc::new(Extent {
            meta,
            tree,
            slots,
            store: Arc::clone(store),
            quarantined: AtomicBool::new(false),
            tombstones_skipped: AtomicU64::new(0),
            tail: ArcSwapWeak::default(),
            _charge: Charge::of(budget, MemoryUse::ExtentMetadata, bytes),
        })
    }

    /// An extent that the manifest names.
    pub(crate) fn adopt(store: &Arc<Store>, tree: TreeId, meta: ExtentMeta) -> Arc<Self> {
        let slots = Arc::new(store.space.adopt(&meta));
        Extent::new(store, tree, meta, slots)
    }

    /// The same extent when the transaction that has written it got this sequence. The handles share the slots.
    pub(crate) fn ingested(&self, seq: Seq) -> Arc<Self> {
        let slots = Arc::clone(&self.slots);
        Extent::new(&self.store, self.tree, self.meta.ingested(seq), slots)
    }

    /// What is known about it.
    pub fn meta(&self) -> &ExtentMeta {
        &self.meta
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The error of damage at this offset; the extent is quarantined from here on.
    pub(crate) fn corruption(&self, offset: u32, what: Malformed) -> EngineError {
        let file = self.slots.path().display().to_string();
        let what = format!("extent {} of tree {}: {what}", self.meta.id.0, self.tree.0);
        let error = EngineError::corruption(file, self.meta.id.offset() + u64::from(offset), what);
        self.quarantine(&error);
        error
    }

    fn quarantine(&self, error: &EngineError) {
        if self.quarantined.swap(true, Ordering::Relaxed) {
            return;
        }
        self.store.quarantined.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            tree = self.tree.0,
            extent = self.meta.id.0,
            first_key = %shown(&self.meta.first.key),
            last_key = %shown(&self.meta.last.key),
            %error,
            "an extent cannot be read; compaction leaves it alone, reads of it fail"
        );
    }

    pub(super) fn read(&self, offset: u32, bytes: usize) -> Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.read_to(&mut buffer, offset)?;
        Ok(buffer)
    }

    pub(super) fn read_to(&self, buffer: &mut [u8], offset: u32) -> Result<()> {
        debug_assert!(offset as usize + buffer.len() <= self.meta.stored_bytes as usize);
        let place = self.meta.id.offset() + u64::from(offset);
        self.slots
            .file()
            .read_exact_at(buffer, place)
            .map_err(|error| {
                if error.kind() == std::io::ErrorKind::UnexpectedEof {
                    return self.corruption(offset, "the file ends inside the extent");
                }
                let error =
                    EngineError::io(format!("reading {}", self.slots.path().display()), error);
                self.quarantine(&error);
                error
            })
    }

    fn frame_place(&self, offset: u32) -> FramePlace {
        FramePlace {
            stamp: self.meta.stamp,
            offset,
        }
    }

    fn open_frame(&self, stored: &[u8], offset: u32) -> Result<Box<[u8]>> {
        frame::open(stored, self.frame_place(offset)).map_err(|what| self.corruption(offset, what))
    }

    /// Filter and index for a search with this hash. Most searches find them at hand; the cache is asked often enough
    /// to know that they are in use.
    #[inline]
    pub(super) fn tail_for(&self, hash: KeyHash) -> Result<Arc<Tail>> {
        if !hash.is_sample()
            && let Some(tail) = self.tail.load().upgrade()
        {
            return Ok(tail);
        }
        self.tail(ReadMode::Cached)
    }

    /// Filter and index, from the cache or from disk.
    pub(super) fn tail(&self, mode: ReadMode) -> Result<Arc<Tail>> {
        let (stamp, offset) = (self.meta.stamp, self.meta.filter_offset);
        match mode {
            ReadMode::Cached | ReadMode::Ahead => {
                let tail = self.store.cache.tail(stamp, offset, || self.load_tail())?;
                if self.tail.load().as_ptr() != Arc::as_ptr(&tail) {
                    self.tail.store(Arc::downgrade(&tail));
                }
                Ok(tail)
            }
            ReadMode::Once => match self.store.cache.peek_tail(stamp, offset) {
                Some(tail) => Ok(tail),
                None => self.load_tail().map(Arc::new),
            },
            ReadMode::Device => self.load_tail().map(Arc::new),
        }
    }

    fn load_tail(&self) -> Result<Tail> {
        let offset = self.meta.filter_offset;
        let stored = self.read(offset, (self.meta.stored_bytes - offset) as usize)?;
        self.open_tail(&stored)
    }

    /// Filter and index as they are stored.
    fn open_tail(&self, stored: &[u8]) -> Result<Tail> {
        let budget = self.store.cache.budget();
        let (offset, index_offset) = (self.meta.filter_offset, self.meta.index_offset);
        debug_assert!(offset < index_offset, "the filter lies before the index");
        let (stored, index) = stored.split_at((index_offset - offset) as usize);
        let filter = Filter::new(self.open_frame(stored, offset)?)
            .map_err(|what| self.corruption(offset, what))?;
        let index = self.open_frame(index, index_offset)?;
        let tail = Tail::new(filter, &index, offset)
            .map_err(|what| self.corruption(index_offset, what))?;
        Ok(tail.charged(budget))
    }

    /// Calls `each` with a key at or behind the end of every block and before the next, and with the number of blocks.
    pub(crate) fn for_each_separator(&self, mut each: impl FnMut(&[u8], usize)) -> Result<()> {
        let tail = self.tail(ReadMode::Cached)?;
        for block in 0..tail.blocks() {
            each(tail.separator(block), tail.blocks());
        }
        Ok(())
    }

    /// The block that `key` lies in, or would, and how many blocks there are.
    pub(crate) fn block_of(&self, key: &[u8]) -> Result<(usize, usize)> {
        let tail = self.tail(ReadMode::Cached)?;
        Ok((tail.find(key, LATEST), tail.blocks()))
    }

    /// About which share of the entries lies before `key`, by its place in its block.
    pub(crate) fn share_before(&self, key: &[u8]) -> Result<f64> {
        let tail = self.tail(ReadMode::Cached)?;
        let number = tail.find(key, LATEST);
        if number >= tail.blocks() {
            return Ok(1.0);
        }
        let block = self.block(&tail, number)?;
        let at = block
            .start_for(key, LATEST)
            .map_err(|what| self.corruption(tail.place(number).offset, what))?;
        let within = at as f64 / block.raw_bytes().max(1) as f64;
        Ok((number as f64 + within.min(1.0)) / tail.blocks() as f64)
    }

    /// A block, from the cache or from disk.
    pub(super) fn block(&self, tail: &Tail, number: usize) -> Result<Arc<Block>> {
        self.block_by(tail, number, || {
            let place = tail.place(number);
            self.read(place.offset, place.stored_bytes as usize)
        })
    }

    /// A block, from the cache or out of the bytes that `read` gives.
    pub(super) fn block_by<Stored: AsRef<[u8]>>(
        &self,
        tail: &Tail,
        number: usize,
        read: impl FnOnce() -> Result<Stored>,
    ) -> Result<Arc<Block>> {
        let place = tail.place(number);
        debug_assert!(
            place.offset + place.stored_bytes <= self.meta.filter_offset,
            "blocks lie before the filter"
        );
        let load = || self.decode_block(read()?.as_ref(), place.offset);
        if place.stored_bytes > MAX_CACHED_FRAME_BYTES {
            return load().map(Arc::new);
        }
        self.store.cache.block(self.meta.stamp, place.offset, load)
    }

    /// These bytes will be read soon.
    pub(super) fn will_read(&self, offset: u32, bytes: u32) {
        debug_assert!(offset + bytes <= self.meta.stored_bytes);
        let place = self.meta.id.offset() + u64::from(offset);
        self.slots.file().will_read(place, u64::from(bytes));
    }

    /// It will be read soon from its beginning on: all of it, or a slot of one that has many.
    pub(super) fn will_be_read(&self) {
        self.will_read(0, self.meta.stored_bytes.min(SLOT_BYTES as u32));
    }

    /// What a block has in memory, more or less.
    pub(super) fn block_bytes(&self) -> u64 {
        self.store.options.block_bytes as u64
    }

    pub(super) fn cache(&self) -> &BlockCache {
        &self.store.cache
    }

    /// A charge for what background work keeps of this extent.
    pub(super) fn background_charge(&self, bytes: usize) -> Charge {
        Charge::of(self.cache().budget(), MemoryUse::Background, bytes)
    }

    /// A block if it is cached, which is a use of it.
    pub(super) fn cached_block(&self, offset: u32) -> Option<Arc<Block>> {
        self.store.cache.cached_block(self.meta.stamp, offset)
    }

    /// The same without being one.
    pub(super) fn peek_block(&self, offset: u32) -> Option<Arc<Block>> {
        self.store.cache.peek_block(self.meta.stamp, offset)
    }

    pub(super) fn decode_block(&self, stored: &[u8], offset: u32) -> Result<Block> {
        let frames = self.cache().frames();
        let bytes = Sealed::check(stored, self.frame_place(offset))
            .and_then(|sealed| frames.fill(sealed.raw_bytes(), |raw| sealed.unpack(raw)))
            .map_err(|what| self.corruption(offset, what))?;
        let memory = Block::memory_of(&bytes);
        let charge = Charge::of(self.cache().budget(), MemoryUse::Blocks, memory);
        Block::new(bytes, charge).map_err(|what| self.corruption(offset, what))
    }

    /// Walks for rows have stepped over so many deletes.
    pub(super) fn note_tombstones_skipped(&self, deletes: u64) {
        self.tombstones_skipped
            .fetch_add(deletes, Ordering::Relaxed);
    }

    /// Whether it may have versions of a key with this hash, as far as that is known without reading.
    pub(crate) fn may_contain(&self, hash: KeyHash) -> bool {
        let (stamp, offset) = (self.meta.stamp, self.meta.filter_offset);
        let known = self.tail.load().upgrade();
        let known = known.or_else(|| self.store.cache.peek_tail(stamp, offset));
        known.is_none_or(|tail| tail.filter.may_contain(hash))
    }

    /// The newest version of `key` that is not newer than `snapshot`, if it is in this extent.
    pub(crate) fn get(&self, key: &[u8], hash: KeyHash, snapshot: Seq) -> Result<Option<FoundIn>> {
        let tail = self.tail_for(hash)?;
        if !tail.filter.may_contain(hash) {
            return Ok(None);
        }
        let sight = self.meta.stored_sight(snapshot);
        let number = tail.find(key, sight);
        if number == tail.blocks() {
            return Ok(None);
        }
        let block = self.block(&tail, number)?;
        let found = block
            .get(key, sight)
            .map_err(|what| self.corruption(tail.place(number).offset, what))?;
        Ok(found.map(|mut found| {
            found.seq = self.meta.true_seq(found.seq);
            debug_assert!(found.seq <= snapshot, "what is found is visible");
            FoundIn { block, found }
        }))
    }

    pub(super) fn damaged_block(&self, offset: u32, what: Malformed) -> EngineError {
        self.corruption(offset, what)
    }

    /// Reads everything from the device, whatever is cached, and checks it: header, every frame, order, counts, bounds,
    /// filter.
    pub fn verify(self: &Arc<Self>) -> Result<()> {
        self.verify_header()?;
        let tail = self.tail(ReadMode::Device)?;
        let mut iter = ExtentIter::new(Arc::clone(self), ReadMode::Device);
        let mut sums = Sums {
            smallest_seq: Seq::MAX,
            ..Sums::default()
        };
        let mut last: Option<Position> = None;
        iter.seek_to_first()?;
        while iter.valid() {
            let (key, seq) = (iter.key(), iter.seq());
            let ascends = match &last {
                None => self.meta.first.compare(key, seq).is_eq(),
                Some(last) => last.compare(key, seq).is_lt(),
            };
            if !ascends {
                return Err(self.corruption(iter.offset(), "the entries are out of order"));
            }
            if !tail.filter.may_contain(KeyHash::of(key)) {
                return Err(self.corruption(self.meta.filter_offset, "the filter misses a key"));
            }
            let is_newest = last.as_ref().is_none_or(|last| &*last.key != key);
            sums.add(&iter, is_newest);
            last = Some(Position {
                key: key.into(),
                seq,
            });
            iter.next()?;
        }
        if last.as_ref() != Some(&self.meta.last) || sums != Sums::of(&self.meta) {
            return Err(self.corruption(0, "the entries are not those the manifest counted"));
        }
        Ok(())
    }

    /// All of it as it is stored, with every checksum compared. The buffer is used again.
    pub(crate) fn read_stored(&self, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.resize(self.meta.stored_bytes as usize, 0);
        self.read_to(buffer, 0)?;
        let tail = self.open_tail(&buffer[self.meta.filter_offset as usize..])?;
        self.check_header(buffer, &tail)?;
        for number in 0..tail.blocks() {
            let place = tail.place(number);
            let stored = &buffer[place.offset as usize..][..place.stored_bytes as usize];
            frame::Sealed::check(stored, self.frame_place(place.offset))
                .map_err(|what| self.corruption(place.offset, what))?;
        }
        Ok(())
    }

    /// Whether `file`, which is empty, can share blocks with extents.
    pub(crate) fn can_share_with(&self, file: &dyn File) -> io::Result<bool> {
        file.can_share_blocks(&**self.slots.file())
    }

    /// Makes a range of `file`, from a multiple of [`esker_vfs::SHARE_ALIGN`] on, share the blocks of this extent.
    pub(crate) fn share_with(&self, file: &dyn File, at: u64) -> io::Result<()> {
        let (source, from) = (self.slots.file(), self.meta.id.offset());
        file.share_blocks(&**source, from, at, u64::from(self.meta.stored_bytes))
    }

    fn verify_header(&self) -> Result<()> {
        let bytes = self.read(0, HEADER_BYTES)?;
        let tail = self.tail(ReadMode::Device)?;
        self.check_header(&bytes, &tail)
    }

    /// Does the header, which the bytes begin with, agree with the manifest?
    fn check_header(&self, bytes: &[u8], tail: &Tail) -> Result<()> {
        let bytes: &[u8; HEADER_BYTES] = bytes
            .first_chunk()
            .ok_or_else(|| self.corruption(0, "an extent is too short"))?;
        let header = Header::decode(bytes).map_err(|what| self.corruption(0, what))?;
        let mut expected = Header::of(&self.meta, self.tree, tail.blocks() as u32);
        if self.meta.is_ingested {
            expected.smallest_seq = header.smallest_seq;
            expected.largest_seq = header.largest_seq;
        }
        if header != expected {
            return Err(self.corruption(0, "the header contradicts the manifest"));
        }
        Ok(())
    }
}

/// What the manifest counts of an extent's entries.
#[derive(Default, PartialEq, Eq)]
struct Sums {
    data_bytes: u64,
    entries: u64,
    deletes: u64,
    rows: u64,
    smallest_seq: Seq,
    largest_seq: Seq,
}

impl Sums {
    fn add(&mut self, entry: &ExtentIter, is_newest: bool) {
        self.data_bytes += (entry.key().len() + entry.value().len()) as u64;
        self.entries += 1;
        self.deletes += u64::from(entry.op() == Op::Delete);
        self.rows += u64::from(is_newest && entry.op() == Op::Put);
        self.smallest_seq = self.smallest_seq.min(entry.seq());
        self.largest_seq = self.largest_seq.max(entry.seq());
    }

    fn of(meta: &ExtentMeta) -> Self {
        Sums {
            data_bytes: meta.data_bytes,
            entries: meta.entries,
            deletes: meta.deletes,
            rows: meta.rows,
            smallest_seq: meta.smallest_seq,
            largest_seq: meta.largest_seq,
        }
    }
}
