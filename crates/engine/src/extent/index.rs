//! The index of an extent (one separator and zone map per block), and the tail: index and filter together in memory.
//!
//! Neighbours: `writer` builds it; `reader` and `iter` find blocks with it; `cache` keeps tails. The bytes are
//! described in `docs/formats/extent.md`.
//!
//! **Invariants**
//! - The separator of a block is at or after its last entry and before the first entry of the next block.
//! - Block offsets of a decoded index ascend and lie before the filter.

use std::cmp::Ordering;
use std::sync::Arc;

use super::HEADER_BYTES;
use super::filter::Filter;
use super::key_prefixes::KeyPrefixes;
use super::zone_map::ZoneMaps;
use crate::Seq;
use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::codec::{Malformed, Reader, put_bytes, put_varint};
use crate::iter::compare_versions;

/// Collects the separators.
#[derive(Default)]
pub(super) struct IndexBuilder {
    body: Vec<u8>,
    blocks: u32,
}

impl IndexBuilder {
    /// Adds a block of this stored length.
    pub(super) fn add(&mut self, stored_bytes: usize, separator: &[u8], seq: Seq) {
        debug_assert!(stored_bytes > 0);
        put_varint(&mut self.body, stored_bytes as u64);
        put_bytes(&mut self.body, separator);
        put_varint(&mut self.body, seq);
        self.blocks += 1;
    }

    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    pub(super) fn bytes(&self) -> usize {
        self.body.len() + 5
    }

    /// Encodes the separators and begins anew; what is known of values comes behind them.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        debug_assert!(self.blocks > 0, "an extent has a block");
        out.clear();
        put_varint(out, u64::from(self.blocks));
        out.extend_from_slice(&self.body);
        *self = IndexBuilder::default();
    }
}

/// A short key at or after `left` and before `right`, with the sequence that makes it one. `left` precedes `right`.
pub(super) fn separator<'a>(left: &'a [u8], left_seq: Seq, right: &'a [u8]) -> (&'a [u8], Seq) {
    debug_assert!(left <= right);
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let shortened = &right[..right.len().min(common + 1)];
    // `right` up to and with the first byte that differs is greater than `left`; it must also be smaller than `right`.
    if shortened.len() < right.len() && shortened > left {
        debug_assert!(shortened < right, "a separator lies between its neighbours");
        return (shortened, Seq::MIN);
    }
    (left, left_seq)
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHandle {
    pub(super) offset: u32,
    pub(super) stored_bytes: u32,
}

struct IndexEntry {
    /// End of the separator in `separators`; it starts where the one before ends.
    separator_end: u32,
    /// End of the block; it starts where the one before ends.
    block_end: u32,
    seq: Seq,
}

/// Filter and index of an extent.
pub(crate) struct Tail {
    pub(super) filter: Filter,
    pub(super) zone_maps: ZoneMaps,
    prefixes: KeyPrefixes,
    separators: Box<[u8]>,
    entries: Box<[IndexEntry]>,
    /// Its memory, for as long as somebody has it.
    charge: Charge,
}

impl Tail {
    pub(super) fn new(filter: Filter, index: &[u8], filter_offset: u32) -> Result<Tail, Malformed> {
        let mut reader = Reader::new(index);
        let count = reader.varint_u32()? as usize;
        if count == 0 || count > index.len() {
            return Err("the index has no blocks, or more than bytes");
        }
        let mut separators = Vec::with_capacity(index.len());
        let mut entries = Vec::with_capacity(count);
        let mut block_end = HEADER_BYTES as u32;
        for _ in 0..count {
            let stored_bytes = reader.varint_u32()?;
            block_end = block_end
                .checked_add(stored_bytes)
                .ok_or("a block is too long")?;
            separators.extend_from_slice(reader.bytes()?);
            let separator_end = separators.len() as u32;
            entries.push(IndexEntry {
                separator_end,
                block_end,
                seq: reader.varint()?,
            });
        }
        let zone_maps = ZoneMaps::read(&mut reader, count)?;
        if block_end != filter_offset || !reader.is_empty() {
            return Err("the index does not fit its blocks");
        }
        let mut tail = Tail {
            filter,
            zone_maps,
            prefixes: KeyPrefixes::default(),
            separators: separators.into(),
            entries: entries.into(),
            charge: Charge::default(),
        };
        tail.prefixes = KeyPrefixes::new((0..count).map(|block| tail.separator(block)));
        Ok(tail)
    }

    /// Charges its memory.
    pub(super) fn charged(mut self, budget: &Arc<MemoryBudget>) -> Tail {
        self.charge = Charge::of(budget, MemoryUse::Blocks, self.bytes());
        self
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.filter.bytes()
            + self.prefixes.bytes()
            + self.zone_maps.bytes()
            + self.separators.len()
            + self.entries.len() * size_of::<IndexEntry>()
            + size_of::<Tail>()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn separator(&self, block: usize) -> &[u8] {
        let start = match block {
            0 => 0,
            _ => self.entries[block - 1].separator_end as usize,
        };
        &self.separators[start..self.entries[block].separator_end as usize]
    }

    pub(super) fn place(&self, block: usize) -> BlockHandle {
        debug_assert!(block < self.blocks());
        let offset = match block {
            0 => HEADER_BYTES as u32,
            _ => self.entries[block - 1].block_end,
        };
        BlockHandle {
            offset,
            stored_bytes: self.entries[block].block_end - offset,
        }
    }

    /// The first block whose separator is at or after (`key`, `seq`): the only one that can hold the first entry at or
    /// after it, unless that is the first entry of the next block. `blocks()` if all end before.
    #[inline]
    pub(super) fn find(&self, key: &[u8], seq: Seq) -> usize {
        self.prefixes.partition_point(key, |block| {
            compare_versions(self.separator(block), self.entries[block].seq, key, seq)
                == Ordering::Less
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_lie_between_their_neighbours_and_are_short() {
        let keys: [&[u8]; 9] = [
            b"",
            b"a",
            b"ab",
            b"abc",
            b"abcdefgh",
            b"abd",
            b"abz",
            b"b",
            b"b\xFF",
        ];
        for (i, left) in keys.iter().enumerate() {
            for right in &keys[i + 1..] {
                let (key, seq) = separator(left, 9, right);
                assert!(
                    compare_versions(key, seq, left, 9).is_ge(),
                    "{left:?} {right:?} {key:?}"
                );
                assert!(key < *right, "{left:?} {right:?} {key:?}");
                assert!(key.len() <= left.len().max(right.len()));
            }
        }
        assert_eq!(separator(b"abcdefgh", 9, b"abzzzzzz"), (&b"abz"[..], 0));
        // Versions of one key.
        assert_eq!(separator(b"k", 9, b"k"), (&b"k"[..], 9));
    }

    #[test]
    fn damaged_indexes_are_refused_or_stay_inside() {
        let mut builder = IndexBuilder::default();
        builder.add(100, b"g", 0);
        builder.add(200, b"p", 7);
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        // Nothing is said of values.
        bytes.push(0);
        let filter = || Filter::new(vec![6; 65].into()).unwrap();
        let end = HEADER_BYTES as u32 + 300;
        let tail = Tail::new(filter(), &bytes, end).unwrap();
        assert_eq!(tail.find(b"a", 0), 0);
        assert_eq!(tail.find(b"h", 0), 1);
        assert_eq!((tail.find(b"p", 8), tail.find(b"p", 6)), (1, 2));
        assert_eq!(
            tail.place(1),
            BlockHandle {
                offset: HEADER_BYTES as u32 + 100,
                stored_bytes: 200
            }
        );
        assert!(Tail::new(filter(), &bytes, end + 1).is_err());
        for cut in 0..bytes.len() {
            assert!(Tail::new(filter(), &bytes[..cut], end).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Ok(tail) = Tail::new(filter(), &damaged, end) {
                for block in 0..tail.blocks() {
                    assert!(tail.place(block).offset <= end);
                }
            }
        }
    }
}
