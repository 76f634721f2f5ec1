//! Run writer: sorted entries in, extents of one sorted run out.
//!
//! Neighbours: `flush` and `compact` feed it; `block`, `frame`, `filter`, `index`, `zone_maps` make the parts; `space`
//! has the slots.
//!
//! **Invariants**
//! - Entries come in strictly ascending internal order; extents of a run do not overlap.
//! - An extent fits into one slot unless a single entry does not.
//! - What it returns is written but not synced, and its slots are given back unless the manifest comes to name it.

use std::cmp::Ordering;
use std::sync::Arc;

use super::LEVELS;
use super::block::{BlockBuilder, ENTRY_OVERHEAD_BYTES};
use super::filter::{self, KeyHash};
use super::frame::{self, Compression, FramePlace, Packer};
use super::index::{self, IndexBuilder};
use super::meta::Header;
use super::reader::{Extent, Store};
use super::zone_map::{Fields, ZoneBuilder};
use super::{ExtentMeta, HEADER_BYTES, Position, SLOT_BYTES};
use crate::budget::{Charge, MemoryUse};
use crate::iter::compare_versions;
use crate::{Op, Result, Seq, TreeId};

/// Buffers that a huge entry has blown up beyond this are not kept.
const MAX_KEPT_BUFFER_BYTES: usize = 4 * SLOT_BYTES as usize;

/// How extents are written.
#[derive(Clone, Debug)]
pub struct ExtentOptions {
    /// Bytes of a block before compression.
    pub block_bytes: usize,
    /// An extent is cut before it grows beyond this; at most [`SLOT_BYTES`].
    pub extent_bytes: usize,
    /// Bits of the filter per user key.
    pub filter_bits_per_key: usize,
    /// Compression of each level.
    pub compression: [Compression; LEVELS],
}

impl Default for ExtentOptions {
    fn default() -> Self {
        ExtentOptions {
            block_bytes: 16 << 10,
            extent_bytes: SLOT_BYTES as usize,
            filter_bits_per_key: 10,
            compression: [Compression::None, Compression::Lz4, Compression::Zstd(1)],
        }
    }
}

/// Counts and bounds of the extent that is being built.
struct Tally {
    stamp: u64,
    first: Option<Position>,
    data_bytes: u64,
    entries: u64,
    deletes: u64,
    rows: u64,
    smallest_seq: Seq,
    largest_seq: Seq,
}

impl Tally {
    fn new(stamp: u64) -> Self {
        Tally {
            stamp,
            first: None,
            data_bytes: 0,
            entries: 0,
            deletes: 0,
            rows: 0,
            smallest_seq: Seq::MAX,
            largest_seq: 0,
        }
    }
}

/// Writes a run.
pub(crate) struct RunWriter {
    store: Arc<Store>,
    tree: TreeId,
    level: u8,
    packer: Packer,
    extents: Vec<Arc<Extent>>,
    tally: Tally,
    /// The bytes of the extent: room for the header, then the finished blocks.
    out: Vec<u8>,
    block: BlockBuilder,
    raw: Vec<u8>,
    index: IndexBuilder,
    zone_maps: ZoneBuilder,
    hashes: Vec<KeyHash>,
    last_key: Vec<u8>,
    last_seq: Seq,
    written_bytes: u64,
    charge: Charge,
}

impl RunWriter {
    /// A writer of a run for this level of a tree.
    pub(crate) fn new(store: &Arc<Store>, tree: TreeId, level: u8) -> Self {
        assert!(store.options.extent_bytes as u64 <= SLOT_BYTES);
        RunWriter {
            store: Arc::clone(store),
            tree,
            level,
            packer: Packer::new(store.options.compression[usize::from(level)]),
            extents: Vec::new(),
            tally: Tally::new(store.random.next_u64()),
            out: vec![0; HEADER_BYTES],
            block: BlockBuilder::new(),
            raw: Vec::new(),
            index: IndexBuilder::default(),
            zone_maps: ZoneBuilder::default(),
            hashes: Vec::new(),
            last_key: Vec::new(),
            last_seq: 0,
            written_bytes: 0,
            charge: Charge::of(
                store.cache.budget(),
                MemoryUse::Background,
                store.options.extent_bytes,
            ),
        }
    }

    /// Has blocks say something of these fields of their values.
    pub(crate) fn with_fields(mut self, fields: Option<Arc<dyn Fields>>) -> Self {
        assert!(self.tally.entries == 0 && self.extents.is_empty());
        self.zone_maps = ZoneBuilder::new(fields);
        self
    }

    /// Adds an entry behind all others.
    pub(crate) fn add(&mut self, key: &[u8], seq: Seq, op: Op, value: &[u8]) -> Result<()> {
        let is_first_ever = self.extents.is_empty() && self.tally.entries == 0;
        assert!(
            is_first_ever
                || compare_versions(&self.last_key, self.last_seq, key, seq) == Ordering::Less,
            "entries of a run ascend"
        );
        let entry_bytes = key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        if self.tally.entries > 0 && self.bound() + entry_bytes + 2 * key.len() > self.limit() {
            self.cut()?;
        }
        let block_bytes = self.store.options.block_bytes;
        // A block that is not of a single entry fits into a frame of the cache.
        if !self.block.is_empty() && self.block.size_with(key, seq, value) > block_bytes {
            self.finish_block(Some(key));
        }
        self.block.add(key, seq, op, value);
        self.zone_maps.add(op, value);
        let is_newest = self.tally.entries == 0 || self.last_key != key;
        if is_newest {
            self.hashes.push(KeyHash::of(key));
        }
        let tally = &mut self.tally;
        tally.rows += u64::from(is_newest && op == Op::Put);
        tally.first.get_or_insert_with(|| Position {
            key: key.into(),
            seq,
        });
        tally.data_bytes += (key.len() + value.len()) as u64;
        tally.entries += 1;
        tally.deletes += u64::from(op == Op::Delete);
        tally.smallest_seq = tally.smallest_seq.min(seq);
        tally.largest_seq = tally.largest_seq.max(seq);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.last_seq = seq;
        Ok(())
    }

    fn limit(&self) -> usize {
        self.store.options.extent_bytes
    }

    /// Upper bound of the stored size if the extent were cut now.
    fn bound(&self) -> usize {
        let filter = filter::filter_bytes(
            self.hashes.len() + 1,
            self.store.options.filter_bits_per_key,
        );
        self.out.len()
            + self.block.size_bound()
            + filter
            + self.index.bytes()
            + self.zone_maps.bound()
            + self.last_key.len()
            + 4 * frame::TRAILER_BYTES
            + INDEX_ENTRY_BYTES
    }

    fn place(&self) -> FramePlace {
        FramePlace {
            stamp: self.tally.stamp,
            offset: self.out.len() as u32,
        }
    }

    /// Closes the block; `following` is the key behind it, if the extent goes on.
    fn finish_block(&mut self, following: Option<&[u8]>) {
        self.block.finish(&mut self.raw);
        let (place, start) = (self.place(), self.out.len());
        self.packer.seal_block(&mut self.out, &self.raw, place);
        let (separator, seq) = match following {
            Some(key) => index::separator(&self.last_key, self.last_seq, key),
            None => (&self.last_key[..], self.last_seq),
        };
        self.index.add(self.out.len() - start, separator, seq);
        // Whether it goes on in another extent is for the reader to see: that one may be written anew without this one.
        self.zone_maps
            .finish_block(following == Some(&self.last_key[..]));
    }

    /// Ends the extent, if there is anything in it, and writes it.
    pub(crate) fn cut(&mut self) -> Result<()> {
        if self.tally.entries == 0 {
            return Ok(());
        }
        self.finish_block(None);
        let blocks = self.index.blocks();
        let filter_offset = self.out.len() as u32;
        filter::build(
            &self.hashes,
            self.store.options.filter_bits_per_key,
            &mut self.raw,
        );
        let place = self.place();
        // Its bits are as good as random.
        Packer::new(Compression::None).seal(&mut self.out, &self.raw, place);
        let index_offset = self.out.len() as u32;
        self.index.finish(&mut self.raw);
        self.zone_maps.finish(&mut self.raw);
        let place = self.place();
        self.packer.seal(&mut self.out, &self.raw, place);
        let next = Tally::new(self.store.random.next_u64());
        let tally = std::mem::replace(&mut self.tally, next);
        let extent = self.write(tally, filter_offset, index_offset, blocks)?;
        self.extents.push(extent);
        self.reset();
        Ok(())
    }

    fn write(
        &mut self,
        tally: Tally,
        filter_offset: u32,
        index_offset: u32,
        blocks: u32,
    ) -> Result<Arc<Extent>> {
        let stored_bytes = u32::try_from(self.out.len()).expect("values are at most 1 GiB");
        let slots = self
            .store
            .space
            .allocate(u64::from(stored_bytes).div_ceil(SLOT_BYTES) as u32)?;
        let meta = ExtentMeta {
            id: slots.id(),
            slots: slots.count(),
            stamp: tally.stamp,
            stored_bytes,
            filter_offset,
            index_offset,
            data_bytes: tally.data_bytes,
            entries: tally.entries,
            deletes: tally.deletes,
            rows: tally.rows,
            smallest_seq: tally.smallest_seq,
            largest_seq: tally.largest_seq,
            packed_for: self.level,
            is_ingested: false,
            first: tally.first.expect("there is an entry"),
            last: Position {
                key: self.last_key[..].into(),
                seq: self.last_seq,
            },
        };
        let header = Header::of(&meta, self.tree, blocks);
        self.out[..HEADER_BYTES].copy_from_slice(&header.encode());
        slots.write(&self.out)?;
        self.written_bytes += u64::from(stored_bytes);
        Ok(Extent::new(&self.store, self.tree, meta, Arc::new(slots)))
    }

    fn reset(&mut self) {
        let hashes = self.hashes.capacity() * size_of::<KeyHash>();
        let blocks = self.out.capacity() + self.raw.capacity() + self.packer.bytes();
        self.charge.raise_to(blocks + hashes);
        self.out.truncate(HEADER_BYTES);
        self.hashes.clear();
        for buffer in [&mut self.out, &mut self.raw] {
            if buffer.capacity() > MAX_KEPT_BUFFER_BYTES {
                buffer.shrink_to(MAX_KEPT_BUFFER_BYTES);
            }
        }
    }

    /// Bytes written so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Ends the run. Nothing is synced yet.
    pub(crate) fn finish(mut self) -> Result<Vec<Arc<Extent>>> {
        self.cut()?;
        Ok(self.extents)
    }
}

/// Lengths and sequence of an index entry, and the number of blocks.
const INDEX_ENTRY_BYTES: usize = 32;
