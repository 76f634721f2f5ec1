//! Extent metadata: what the manifest records of an extent, and the header that the extent itself begins with.
//!
//! Neighbours: `writer` makes both; `tree::change` stores the meta in the manifest; `reader` checks one against the
//! other. The bytes are described in `docs/formats/extent.md` and `docs/formats/manifest.md`.
//!
//! **Invariants**
//! - `first` <= `last` in internal order, `smallest_seq` <= `largest_seq`, entries >= 1, deletes <= entries,
//!   rows <= entries - deletes.
//! - Of an ingested extent only the manifest knows the sequence; header and entries have the numbers that the writes
//!   had in their transaction.
//! - A decoded meta lies inside its slots: header < filter < index < stored length <= slots * `SLOT_BYTES`.

use std::cmp::Ordering;

use super::{HEADER_BYTES, SLOT_BYTES, SLOTS_PER_FILE};
use crate::codec::{Malformed, Reader, put_bytes, put_varint};
use crate::iter::compare_versions;
use crate::{LATEST, Seq, TreeId};

/// Place of an extent: data file and first slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtentId(pub u32);

impl ExtentId {
    pub(crate) fn new(file: u32, slot: u32) -> Self {
        debug_assert!(slot < SLOTS_PER_FILE);
        ExtentId(file * SLOTS_PER_FILE + slot)
    }

    /// Number of the data file.
    pub fn file(self) -> u32 {
        self.0 / SLOTS_PER_FILE
    }

    /// First slot in the file.
    pub fn slot(self) -> u32 {
        self.0 % SLOTS_PER_FILE
    }

    /// Where the extent begins in its file.
    pub fn offset(self) -> u64 {
        u64::from(self.slot()) * SLOT_BYTES
    }
}

/// A position in internal order: a user key and a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The user key.
    pub key: Box<[u8]>,
    /// The sequence.
    pub seq: Seq,
}

impl Position {
    /// Compares with the version (`key`, `seq`) in internal order.
    #[inline]
    pub fn compare(&self, key: &[u8], seq: Seq) -> Ordering {
        compare_versions(&self.key, self.seq, key, seq)
    }
}

/// Everything about an extent except its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentMeta {
    /// Where it is.
    pub id: ExtentId,
    /// Slots it owns.
    pub slots: u32,
    /// Random number that binds checksums to this very extent.
    pub stamp: u64,
    /// Bytes from the header to the end of the index.
    pub stored_bytes: u32,
    /// Where the filter begins.
    pub filter_offset: u32,
    /// Where the index begins.
    pub index_offset: u32,
    /// Bytes of keys and values before compression.
    pub data_bytes: u64,
    /// Number of versions.
    pub entries: u64,
    /// Number of deletes among them.
    pub deletes: u64,
    /// Number of user keys whose newest version in here is a put: what a reader counts if it sees every version and
    /// nothing newer hides one.
    pub rows: u64,
    /// Smallest sequence.
    pub smallest_seq: Seq,
    /// Largest sequence.
    pub largest_seq: Seq,
    /// The level for which it was compressed; it may have moved down since.
    pub packed_for: u8,
    /// Its entries were written by a transaction before that had a sequence: whatever they say of themselves, all of
    /// them have `largest_seq`, and every user key comes once.
    pub is_ingested: bool,
    /// First version in internal order.
    pub first: Position,
    /// Last version in internal order.
    pub last: Position,
}

impl ExtentMeta {
    /// Whether a user key in `[low, high]` can be in here.
    pub fn overlaps(&self, low: &[u8], high: &[u8]) -> bool {
        debug_assert!(low <= high);
        &*self.first.key <= high && low <= &*self.last.key
    }

    /// The same extent when the transaction that has written it got this sequence.
    pub(crate) fn ingested(&self, seq: Seq) -> ExtentMeta {
        debug_assert!(!self.is_ingested, "an extent comes with one commit");
        let mut meta = self.clone();
        meta.is_ingested = true;
        (meta.smallest_seq, meta.largest_seq) = (seq, seq);
        (meta.first.seq, meta.last.seq) = (seq, seq);
        meta
    }

    /// As which sequence its entries are looked for by who sees what is not newer than `sight`.
    #[inline]
    pub(crate) fn stored_sight(&self, sight: Seq) -> Seq {
        match (self.is_ingested, sight >= self.largest_seq) {
            (false, _) => sight,
            (true, true) => LATEST,
            // No entry has it: it is behind every version of a key.
            (true, false) => 0,
        }
    }

    /// Whether all entries are rows that are seen by who sees what is not newer than `sight`: puts, each of another
    /// key.
    #[inline]
    pub(crate) fn is_plain(&self, sight: Seq) -> bool {
        self.rows == self.entries && sight >= self.largest_seq
    }

    /// The sequence of an entry that says this of itself.
    #[inline]
    pub(crate) fn true_seq(&self, stored: Seq) -> Seq {
        match self.is_ingested {
            false => stored,
            true => self.largest_seq,
        }
    }

    /// Everything but what it was compressed for, and whether it was ingested.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id.0));
        put_varint(out, u64::from(self.slots));
        out.extend_from_slice(&self.stamp.to_le_bytes());
        put_varint(out, u64::from(self.stored_bytes));
        put_varint(out, u64::from(self.filter_offset));
        put_varint(out, u64::from(self.index_offset));
        put_varint(out, self.data_bytes);
        put_varint(out, self.entries);
        put_varint(out, self.deletes);
        put_varint(out, self.rows);
        put_varint(out, self.smallest_seq);
        put_varint(out, self.largest_seq);
        for position in [&self.first, &self.last] {
            put_bytes(out, &position.key);
            put_varint(out, position.seq);
        }
    }

    /// What [`ExtentMeta::encode`] has written.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        packed_for: u8,
        is_ingested: bool,
    ) -> Result<Self, Malformed> {
        fn position(reader: &mut Reader<'_>) -> Result<Position, Malformed> {
            Ok(Position {
                key: reader.bytes()?.into(),
                seq: reader.varint()?,
            })
        }
        let meta = ExtentMeta {
            id: ExtentId(reader.varint_u32()?),
            slots: reader.varint_u32()?,
            stamp: reader.u64()?,
            stored_bytes: reader.varint_u32()?,
            filter_offset: reader.varint_u32()?,
            index_offset: reader.varint_u32()?,
            data_bytes: reader.varint()?,
            entries: reader.varint()?,
            deletes: reader.varint()?,
            rows: reader.varint()?,
            smallest_seq: reader.varint()?,
            largest_seq: reader.varint()?,
            packed_for,
            is_ingested,
            first: position(reader)?,
            last: position(reader)?,
        };
        meta.check()?;
        Ok(meta)
    }

    pub(super) fn check(&self) -> Result<(), Malformed> {
        let stored = u64::from(self.stored_bytes);
        if self.slots == 0 || stored > u64::from(self.slots) * SLOT_BYTES {
            return Err("an extent does not fit into its slots");
        }
        if self.slots > SLOTS_PER_FILE && self.id.slot() != 0
            || self.slots <= SLOTS_PER_FILE && self.id.slot() + self.slots > SLOTS_PER_FILE
        {
            return Err("an extent does not fit into its file");
        }
        let parts = [
            HEADER_BYTES as u32,
            self.filter_offset,
            self.index_offset,
            self.stored_bytes,
        ];
        if !parts.is_sorted_by(|a, b| a < b) {
            return Err("the parts of an extent lie outside of it");
        }
        let puts = self.entries.checked_sub(self.deletes);
        if self.entries == 0
            || puts.is_none_or(|puts| self.rows > puts)
            || self.smallest_seq > self.largest_seq
        {
            return Err("the counts of an extent contradict each other");
        }
        if self.is_ingested && self.smallest_seq != self.largest_seq {
            return Err("an ingested extent has more than one sequence");
        }
        if self.first.compare(&self.last.key, self.last.seq) == Ordering::Greater {
            return Err("the last key of an extent precedes its first");
        }
        Ok(())
    }
}

/// Whatever stands for an extent: the meta alone (replay, tests of the picker), or an open extent.
pub trait HasMeta: Clone {
    /// What is known about it.
    fn meta(&self) -> &ExtentMeta;

    /// Whether it could not be read and is to be left where it is.
    fn is_quarantined(&self) -> bool {
        false
    }

    /// How often walks for rows have stepped over one of its deletes since it is open.
    fn tombstones_skipped(&self) -> u64 {
        0
    }
}

impl HasMeta for ExtentMeta {
    fn meta(&self) -> &ExtentMeta {
        self
    }
}

const HEADER_MAGIC: &[u8; 8] = b"ESKEREXT";
/// Format of extents, header to index. It is raised whenever a byte of it changes its meaning; the manifest repeats it,
/// so that a database in another one is refused when it is opened.
pub(crate) const FORMAT_VERSION: u16 = 4;

/// The first bytes of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) slots: u32,
    pub(crate) id: ExtentId,
    pub(crate) tree: TreeId,
    pub(crate) stamp: u64,
    pub(crate) stored_bytes: u32,
    pub(crate) filter_offset: u32,
    pub(crate) index_offset: u32,
    pub(crate) blocks: u32,
    pub(crate) entries: u64,
    pub(crate) deletes: u64,
    pub(crate) smallest_seq: Seq,
    pub(crate) largest_seq: Seq,
}

impl Header {
    pub(crate) fn of(meta: &ExtentMeta, tree: TreeId, blocks: u32) -> Self {
        debug_assert!(blocks > 0, "an extent has a block");
        Header {
            slots: meta.slots,
            id: meta.id,
            tree,
            stamp: meta.stamp,
            stored_bytes: meta.stored_bytes,
            filter_offset: meta.filter_offset,
            index_offset: meta.index_offset,
            blocks,
            entries: meta.entries,
            deletes: meta.deletes,
            smallest_seq: meta.smallest_seq,
            largest_seq: meta.largest_seq,
        }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(HEADER_MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        for field in [self.slots, self.id.0, self.tree.0] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.stamp.to_le_bytes());
        for field in [
            self.stored_bytes,
            self.filter_offset,
            self.index_offset,
            self.blocks,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for field in [
            self.entries,
            self.deletes,
            self.smallest_seq,
            self.largest_seq,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.try_into()
            .expect("the fields add up to the header's size")
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Malformed> {
        let checksum = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        let mut reader = Reader::new(bytes);
        if reader.array::<8>()? != *HEADER_MAGIC {
            return Err("no extent begins here");
        }
        if reader.u16()? != FORMAT_VERSION {
            return Err("the extent is in a format that this version of Esker does not read");
        }
        reader.u16()?;
        let header = Header {
            slots: reader.u32()?,
            id: ExtentId(reader.u32()?),
            tree: TreeId(reader.u32()?),
            stamp: reader.u64()?,
            stored_bytes: reader.u32()?,
            filter_offset: reader.u32()?,
            index_offset: reader.u32()?,
            blocks: reader.u32()?,
            entries: reader.u64()?,
            deletes: reader.u64()?,
            smallest_seq: reader.u64()?,
            largest_seq: reader.u64()?,
        };
        reader.u32()?;
        if reader.u32()? != checksum {
            return Err("the checksum of the extent header is wrong");
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn meta() -> ExtentMeta {
        ExtentMeta {
            id: ExtentId::new(3, 17),
            slots: 2,
            stamp: 0x1234_5678_9ABC_DEF0,
            stored_bytes: 3_000_000,
            filter_offset: 2_900_000,
            index_offset: 2_950_000,
            data_bytes: 9_000_000,
            entries: 50_000,
            deletes: 3,
            rows: 40_000,
            smallest_seq: 1 << 40,
            largest_seq: (1 << 40) + 77,
            packed_for: 0,
            is_ingested: false,
            first: Position {
                key: b"apple"[..].into(),
                seq: 9,
            },
            last: Position {
                key: b"pear"[..].into(),
                seq: 1,
            },
        }
    }

    #[test]
    fn meta_round_trips_and_nonsense_is_refused() {
        let mut bytes = Vec::new();
        meta().encode(&mut bytes);
        assert_eq!(
            ExtentMeta::decode(&mut Reader::new(&bytes), 0, false).unwrap(),
            meta()
        );
        for cut in 0..bytes.len() {
            assert!(ExtentMeta::decode(&mut Reader::new(&bytes[..cut]), 0, false).is_err());
        }
        let wrong: [fn(&mut ExtentMeta); 8] = [
            |m| m.is_ingested = true,
            |m| m.slots = 1,
            |m| m.id = ExtentId::new(3, 511),
            |m| m.filter_offset = m.stored_bytes,
            |m| m.deletes = m.entries + 1,
            |m| m.rows = m.entries - m.deletes + 1,
            |m| m.smallest_seq = m.largest_seq + 1,
            |m| m.last.key = b"aardvark"[..].into(),
        ];
        for change in wrong {
            let mut meta = meta();
            change(&mut meta);
            let mut bytes = Vec::new();
            meta.encode(&mut bytes);
            assert!(
                ExtentMeta::decode(&mut Reader::new(&bytes), 0, meta.is_ingested).is_err(),
                "{meta:?}"
            );
        }
    }

    #[test]
    fn a_header_of_another_format_is_refused_for_that() {
        let header = Header::of(&meta(), TreeId(4), 10);
        for version in [1, FORMAT_VERSION + 1] {
            let mut bytes = header.encode();
            bytes[8..10].copy_from_slice(&version.to_le_bytes());
            let checksum = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
            bytes[HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
            let refused = Header::decode(&bytes).unwrap_err();
            assert!(refused.contains("a format that"), "{refused}");
        }
    }

    #[test]
    fn a_header_round_trips_and_every_bit_counts() {
        let header = Header {
            slots: 1,
            id: ExtentId(9),
            tree: TreeId(4),
            stamp: 5,
            stored_bytes: 6,
            filter_offset: 7,
            index_offset: 8,
            blocks: 10,
            entries: 11,
            deletes: 2,
            smallest_seq: 3,
            largest_seq: 12,
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        for bit in 0..HEADER_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&damaged).is_err(), "bit {bit}");
        }
    }
}
