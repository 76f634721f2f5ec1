//! Extents: the SSTables of a tree, immutable and sorted, in slots of large data files.
//!
//! Neighbours: `flush` and `compact` write extents; `tree` hangs them into versions and reads through them; `cache`
//! keeps their blocks. The bytes are described in `docs/formats/extent.md`.
//!
//! Parts, in the order of a write: `block` (entries with shared prefixes) → `frame` (compression, checksum) → `filter`
//! → `zone_map` (statistics for block skipping) → `index` with `key_prefixes` (abbreviated separators) → `writer` (cuts
//! extents) → `space` (slots of data files; `data_file` is one) → `meta` (what the manifest keeps). Reading: `reader`
//! (one extent; `multi_get`: several keys of it; `known_keys`: keys that need not be searched again) → `iter` (a cursor
//! over it) with `read_ahead` → `block_skip` (what a filtered scan need not read) → `cache_warming` (what of it is
//! cached); `inspect` (all its parts, for people). `run`: extents in order; `health`: failed syncs.
//!
//! **Invariants**
//! - An extent is written once. Its slots are used again only when no handle to it is left and no durable manifest edit
//!   names it.
//! - Nothing read from disk is used before its checksum was compared, and decoding it never panics.

mod block;
mod block_skip;
mod cache_warming;
mod data_file;
mod filter;
mod frame;
mod health;
mod index;
mod inspect;
mod iter;
mod key_prefixes;
mod known_keys;
mod meta;
mod multi_get;
mod read_ahead;
mod reader;
mod run;
mod space;
mod writer;
mod zone_map;

pub(crate) use block::{Block, Drained};
pub(crate) use block_skip::{BlockSkipper, Conditions};
pub(crate) use cache_warming::CacheRange;
pub(crate) use filter::KeyHash;
pub use frame::{Compression, Packed};
pub(crate) use health::Health;
pub use health::OnFatal;
pub(crate) use index::Tail;
pub use inspect::{BlockContent, BlockParts, ExtentParts};
pub(crate) use iter::{ExtentIter, ReadMode};
pub(crate) use key_prefixes::KeyPrefixes;
pub(crate) use known_keys::KnownKeys;
pub(crate) use meta::FORMAT_VERSION;
pub use meta::{ExtentId, ExtentMeta, HasMeta, Position};
pub(crate) use multi_get::MOST_KEYS;
pub use reader::Extent;
pub(crate) use reader::{FoundIn, Store};
pub use run::{LEVELS, Run, RunId};
pub use space::SpaceStats;
pub(crate) use space::file_path;
pub(crate) use space::{Kept, Space};
pub use writer::ExtentOptions;
pub(crate) use writer::RunWriter;
pub use zone_map::{FieldId, FieldTest, FieldValue, Fields, MAX_FIELDS};

/// Bytes of a slot; an extent is normally cut before it outgrows one.
pub const SLOT_BYTES: u64 = 2 << 20;
/// Slots of a data file.
pub const SLOTS_PER_FILE: u32 = 512;
/// Bytes of the header of an extent.
const HEADER_BYTES: usize = 88;

const _: () =
    assert!(SLOTS_PER_FILE.is_multiple_of(64) && SLOT_BYTES * SLOTS_PER_FILE as u64 == 1 << 30);

#[cfg(test)]
mod tests;
