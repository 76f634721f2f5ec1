//! Extents: immutable sorted pieces of a tree on disk, and the data files they live in.
//!
//! Neighbours: `flush` and `compact` write extents; `tree` hangs them into versions and reads through them; `cache` keeps
//! their blocks. The bytes are described in `docs/formats/extent.md`.
//!
//! Parts, in the order of a write: `block` (entries with shared prefixes) → `frame` (compression, checksum) → `filter` →
//! `zones` (what blocks say of their values) → `index` → `writer` (cuts extents) → `space` (slots of data files; `data_file` is
//! one) → `meta` (what the manifest keeps). Reading: `reader` (one extent; `many`: several keys of it; `learned`: keys that need not be looked for again) → `iter` (a walk over it) → `sieve` (what of it a
//! filtered walk leaves out) → `warmth` (what of it is cached); `inspect` (all its parts, for people).
//!
//! **Invariants**
//! - An extent is written once. Its slots are used again only when no handle to it is left and no durable manifest edit
//!   names it.
//! - Nothing read from disk is used before its checksum was compared, and decoding it never panics.

mod ahead;
mod block;
mod data_file;
mod filter;
mod frame;
mod hints;
mod index;
mod inspect;
mod iter;
mod learned;
mod many;
mod meta;
mod reader;
mod sieve;
mod space;
mod warmth;
mod writer;
mod zones;

pub(crate) use block::{Block, Drained};
pub(crate) use filter::KeyHash;
pub use frame::{Compression, Packed};
pub(crate) use hints::Hints;
pub(crate) use index::Tail;
pub use inspect::{BlockContent, BlockParts, ExtentParts};
pub(crate) use iter::{ExtentIter, ReadMode};
pub(crate) use learned::Learned;
pub(crate) use many::MOST_KEYS;
pub(crate) use meta::FORMAT_VERSION;
pub use meta::{ExtentId, ExtentMeta, HasMeta, Position};
pub use reader::Extent;
pub(crate) use reader::{FoundIn, Store};
pub(crate) use sieve::{Conditions, Sieve};
pub use space::SpaceStats;
pub(crate) use space::file_path;
pub(crate) use space::{Kept, Space};
pub(crate) use warmth::Piece;
pub use writer::ExtentOptions;
pub(crate) use writer::RunWriter;
pub use zones::{FieldId, FieldTest, FieldValue, Fields, MAX_FIELDS};

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
