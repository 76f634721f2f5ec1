//! A record of the manifest: magic, kind, number, length, checksum and payload, padded to whole pages.
//!
//! Neighbours: `replay` reads records, `write` and the open manifest make them. The bytes are described in
//! `docs/formats/manifest.md`.
//!
//! **Invariants**: a record begins at a multiple of [`PAGE_BYTES`]; one whose checksum fails is none.

use crate::codec::{u32_at, u64_at};

/// Records begin at multiples of this.
pub(super) const PAGE_BYTES: usize = 4096;
const RECORD_HEADER_BYTES: usize = 24;
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"EMAN");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Header = 1,
    Checkpoint = 2,
    CheckpointEnd = 3,
    Edit = 4,
}

impl Kind {
    fn from_code(code: u8) -> Option<Kind> {
        [
            Kind::Header,
            Kind::Checkpoint,
            Kind::CheckpointEnd,
            Kind::Edit,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == code)
    }
}

pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) number: u64,
    pub(super) payload: &'a [u8],
    /// Offset of the following record.
    pub(super) end: usize,
}

/// Appends a record with its padding.
pub(super) fn put_record(out: &mut Vec<u8>, kind: Kind, number: u64, payload: &[u8]) {
    debug_assert!(
        out.len().is_multiple_of(PAGE_BYTES),
        "records begin at pages"
    );
    let length = u32::try_from(payload.len()).expect("an edit is much smaller than 4 GiB");
    let mut header = [0; RECORD_HEADER_BYTES];
    header[..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
    header[4] = kind as u8;
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..20].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..20]), payload);
    header[20..].copy_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(PAGE_BYTES), 0);
}

/// The valid record at `at`, if there is one.
pub(super) fn record_at(bytes: &[u8], at: usize) -> Option<Record<'_>> {
    if u32_at(bytes, at)? != RECORD_MAGIC {
        return None;
    }
    let number = u64_at(bytes, at + 8)?;
    let length = u32_at(bytes, at + 16)? as usize;
    let payload_at = at + RECORD_HEADER_BYTES;
    let payload = bytes.get(payload_at..payload_at.checked_add(length)?)?;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[at..at + 20]), payload);
    if checksum != u32_at(bytes, at + 20)? {
        return None;
    }
    let kind = Kind::from_code(bytes[at + 4])?;
    let end = (payload_at + length).next_multiple_of(PAGE_BYTES);
    Some(Record {
        kind,
        number,
        payload,
        end,
    })
}
