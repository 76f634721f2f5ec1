//! Block header: what makes a block findable, verifiable and skippable.

use super::PAGE_BYTES;
use super::fields::{crc_with_hole, put, u16_at, u32_at, u64_at};
use super::record::{Part, RECORD_ALIGN};
use crate::lsn::Lsn;

const MAGIC: u32 = u32::from_le_bytes(*b"EWLB");
const VERSION: u16 = 1;

const FLAG_CHUNKS: u16 = 1;
const FLAG_TWO_PHASE: u16 = 1 << 1;
const FLAG_COUNTERS: u16 = 1 << 2;
const FLAG_MANY_TREES: u16 = 1 << 3;
const FLAG_ATTACHMENTS: u16 = 1 << 4;

const AT_MAGIC: usize = 0;
const AT_VERSION: usize = AT_MAGIC + 4;
const AT_FLAGS: usize = AT_VERSION + 2;
const AT_HEADER_CRC: usize = AT_FLAGS + 2;
const AT_PAYLOAD_CRC: usize = AT_HEADER_CRC + 4;
const AT_PAYLOAD_BYTES: usize = AT_PAYLOAD_CRC + 4;
const AT_RECORDS: usize = AT_PAYLOAD_BYTES + 4;
const AT_FIRST: usize = AT_RECORDS + 4;
const AT_SEGMENT: usize = AT_FIRST + 8;
const AT_DURABLE: usize = AT_SEGMENT + 8;
const AT_SMALLEST: usize = AT_DURABLE + 8;
const AT_LARGEST: usize = AT_SMALLEST + 8;
const AT_TREE_COUNT: usize = AT_LARGEST + 8;
const AT_TREES: usize = AT_TREE_COUNT + 4;

/// Length of a block header; the payload follows.
pub(crate) const BLOCK_HEADER_BYTES: usize = 256;

/// Tree ids that fit in a header.
const MAX_LISTED_TREES: usize = (BLOCK_HEADER_BYTES - AT_TREES) / 4;
const _: () = assert!(MAX_LISTED_TREES == 47 && AT_TREES == 68);

/// Largest payload that a reader accepts.
pub(crate) const MAX_PAYLOAD_BYTES: u32 = 1 << 20;

/// What is in a block, gathered record by record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) records: u32,
    pub(crate) chunks: bool,
    pub(crate) two_phase: bool,
    pub(crate) counters: bool,
    /// The list of trees is not complete.
    pub(crate) many_trees: bool,
    /// It has records that end with an attachment, or parts of such.
    pub(crate) attachments: bool,
    /// Sequences of the records that end in the block; zero if none does.
    pub(crate) smallest: u64,
    pub(crate) largest: u64,
    /// Ascending, each once.
    pub(crate) trees: Vec<u32>,
}

impl Summary {
    pub(crate) fn clear(&mut self) {
        let mut trees = std::mem::take(&mut self.trees);
        trees.clear();
        *self = Summary {
            trees,
            ..Summary::default()
        };
    }

    /// Adds a part of a record that ends at `end`.
    pub(crate) fn add(&mut self, part: &Part<'_>, end: Lsn) {
        self.records += 1;
        self.chunks |= part.chain.is_some();
        self.attachments |= part.has_attachment;
        let Some(kind) = part.kind else { return };
        self.two_phase |= kind.is_two_phase();
        self.counters |= kind.is_counter();
        if self.smallest == 0 {
            self.smallest = end.0;
        }
        debug_assert!(self.largest < end.0, "records come in the order of the log");
        self.largest = end.0;
        for tree in part.trees() {
            self.add_tree(tree);
        }
    }

    fn add_tree(&mut self, tree: u32) {
        // Neighbouring records mostly touch the same few trees.
        if let Err(at) = self.trees.binary_search(&tree) {
            if self.trees.len() == MAX_LISTED_TREES {
                self.many_trees = true;
            } else {
                self.trees.insert(at, tree);
                debug_assert!(self.trees.is_sorted());
            }
        }
    }

    fn flags(&self) -> u16 {
        let flag = |set, bit| if set { bit } else { 0 };
        flag(self.chunks, FLAG_CHUNKS)
            | flag(self.two_phase, FLAG_TWO_PHASE)
            | flag(self.counters, FLAG_COUNTERS)
            | flag(self.many_trees, FLAG_MANY_TREES)
            | flag(self.attachments, FLAG_ATTACHMENTS)
    }
}

/// A block header, with everything but the checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) first: Lsn,
    pub(crate) payload_bytes: u32,
    pub(crate) payload_crc: u32,
    pub(crate) segment_id: u64,
    /// What had been synced before this block was written.
    pub(crate) durable: Lsn,
    pub(crate) summary: Summary,
}

impl BlockHeader {
    pub(crate) fn end(&self) -> Lsn {
        self.first.plus(u64::from(self.payload_bytes))
    }

    /// A page with a block that has no records: it stands at `at` and says what was durable when it was written. If
    /// that is more than what comes before it, the log goes on in the segment that starts at `at`.
    pub(crate) fn mark(at: Lsn, segment_id: u64, durable: Lsn) -> Vec<u8> {
        let header = BlockHeader {
            first: at,
            payload_bytes: 0,
            payload_crc: crc32c::crc32c(&[]),
            segment_id,
            durable,
            summary: Summary::default(),
        };
        let mut page = vec![0; PAGE_BYTES as usize];
        header.encode_into(&mut page);
        page
    }

    /// Whether the block closes its segment: the log goes on in the next one.
    pub(crate) fn closes(&self) -> bool {
        self.payload_bytes == 0 && self.durable > self.first
    }

    /// Writes the header into the first [`BLOCK_HEADER_BYTES`] of `bytes`.
    pub(crate) fn encode_into(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..BLOCK_HEADER_BYTES];
        bytes.fill(0);
        let summary = &self.summary;
        put(bytes, AT_MAGIC, &MAGIC.to_le_bytes());
        put(bytes, AT_VERSION, &VERSION.to_le_bytes());
        put(bytes, AT_FLAGS, &summary.flags().to_le_bytes());
        put(bytes, AT_PAYLOAD_CRC, &self.payload_crc.to_le_bytes());
        put(bytes, AT_PAYLOAD_BYTES, &self.payload_bytes.to_le_bytes());
        put(bytes, AT_RECORDS, &summary.records.to_le_bytes());
        put(bytes, AT_FIRST, &self.first.0.to_le_bytes());
        put(bytes, AT_SEGMENT, &self.segment_id.to_le_bytes());
        put(bytes, AT_DURABLE, &self.durable.0.to_le_bytes());
        put(bytes, AT_SMALLEST, &summary.smallest.to_le_bytes());
        put(bytes, AT_LARGEST, &summary.largest.to_le_bytes());
        put(
            bytes,
            AT_TREE_COUNT,
            &(summary.trees.len() as u32).to_le_bytes(),
        );
        for (i, tree) in summary.trees.iter().enumerate() {
            put(bytes, AT_TREES + 4 * i, &tree.to_le_bytes());
        }
        let crc = crc_with_hole(bytes, AT_HEADER_CRC);
        put(bytes, AT_HEADER_CRC, &crc.to_le_bytes());
    }

    /// The header at the start of these bytes, if there is a valid one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..BLOCK_HEADER_BYTES)?;
        let payload_bytes = u32_at(bytes, AT_PAYLOAD_BYTES);
        let tree_count = u32_at(bytes, AT_TREE_COUNT) as usize;
        let valid = u32_at(bytes, AT_MAGIC) == MAGIC
            && u16_at(bytes, AT_VERSION) == VERSION
            && u32_at(bytes, AT_HEADER_CRC) == crc_with_hole(bytes, AT_HEADER_CRC)
            && payload_bytes <= MAX_PAYLOAD_BYTES
            && u64::from(payload_bytes).is_multiple_of(RECORD_ALIGN)
            && tree_count <= MAX_LISTED_TREES
            && u64_at(bytes, AT_FIRST)
                .checked_add(u64::from(payload_bytes))
                .is_some();
        if !valid {
            return None;
        }
        let flags = u16_at(bytes, AT_FLAGS);
        let summary = Summary {
            records: u32_at(bytes, AT_RECORDS),
            chunks: flags & FLAG_CHUNKS != 0,
            two_phase: flags & FLAG_TWO_PHASE != 0,
            counters: flags & FLAG_COUNTERS != 0,
            many_trees: flags & FLAG_MANY_TREES != 0,
            attachments: flags & FLAG_ATTACHMENTS != 0,
            smallest: u64_at(bytes, AT_SMALLEST),
            largest: u64_at(bytes, AT_LARGEST),
            trees: (0..tree_count)
                .map(|i| u32_at(bytes, AT_TREES + 4 * i))
                .collect(),
        };
        Some(Self {
            first: Lsn(u64_at(bytes, AT_FIRST)),
            payload_bytes,
            payload_crc: u32_at(bytes, AT_PAYLOAD_CRC),
            segment_id: u64_at(bytes, AT_SEGMENT),
            durable: Lsn(u64_at(bytes, AT_DURABLE)),
            summary,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BlockHeader {
        BlockHeader {
            first: Lsn(800),
            payload_bytes: 64,
            payload_crc: 0xdead_beef,
            segment_id: 7,
            durable: Lsn(400),
            summary: Summary {
                records: 3,
                two_phase: true,
                attachments: true,
                smallest: 816,
                largest: 864,
                trees: vec![1, 2, u32::MAX],
                ..Summary::default()
            },
        }
    }

    #[test]
    fn header_round_trip_and_every_flipped_bit_is_seen() {
        let mut bytes = [0xff; BLOCK_HEADER_BYTES];
        header().encode_into(&mut bytes);
        assert_eq!(BlockHeader::decode(&bytes), Some(header()));
        for bit in 0..BLOCK_HEADER_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockHeader::decode(&bad), None, "bit {bit}");
        }
        assert_eq!(BlockHeader::decode(&bytes[..255]), None);
    }

    #[test]
    fn trees_are_listed_exactly_until_there_are_too_many() {
        let mut summary = Summary::default();
        for tree in (0..MAX_LISTED_TREES as u32)
            .rev()
            .chain(0..MAX_LISTED_TREES as u32)
        {
            summary.add_tree(tree);
        }
        assert!(!summary.many_trees);
        assert_eq!(
            summary.trees,
            (0..MAX_LISTED_TREES as u32).collect::<Vec<_>>()
        );
        summary.add_tree(1000);
        assert!(summary.many_trees);
    }
}
