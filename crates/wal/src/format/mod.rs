//! The bytes of the log, as in `docs/formats/wal.md`: `segment` header, `block` header, `record`, and their `fields`.
//!
//! Neighbours: `flush` encodes blocks, `recover` decodes them; nobody else knows an offset.
//!
//! **Invariants**
//! - Decoders take any bytes and answer "not valid"; they never panic.

mod block;
mod fields;
mod record;
mod segment;

pub(crate) use block::{BLOCK_HEADER_BYTES, BlockHeader, MAX_PAYLOAD_BYTES, Summary};
pub use record::RecordKind;
pub(crate) use record::{
    CHAIN_BYTES, HEAD_BYTES, MAX_TREES, Part, RECORD_ALIGN, chain_byte, parse_part, put_varint,
    varint_len, whole_byte,
};
pub(crate) use segment::{SegmentHeader, parse_segment_name, segment_name};

/// Blocks and segment headers start at multiples of this and share no page with anything else.
pub(crate) const PAGE_BYTES: u64 = 4096;
