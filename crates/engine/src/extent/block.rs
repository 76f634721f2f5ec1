//! Blocks: entries in internal order with shared prefixes, restarts for binary search, and a cursor over them.
//!
//! Neighbours: `writer` builds blocks, `frame` wraps them, `cache` keeps them decoded, `iter` and `reader` search them.
//! The bytes are described in `docs/formats/extent.md`.
//!
//! **Invariants**
//! - A [`Block`]'s restart array lies inside its bytes; everything else is checked while decoding, so damaged bytes become
//!   [`Malformed`], never a panic.
//! - [`Block::get`] compares without putting keys together: it allocates nothing.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::codec::{Malformed, put_varint, u32_at, u64_at, varint_at};
use crate::iter::compare_versions;
use crate::{Op, Seq};

/// Entries between two restarts.
const RESTART_INTERVAL: usize = 16;
/// Base sequence and number of restarts.
const TRAILER_BYTES: usize = 12;

const DAMAGED: Malformed = "a block entry is malformed";

/// Collects entries for a block.
pub(super) struct BlockBuilder {
    /// Rests of keys and values.
    entries: Vec<u8>,
    restarts: Vec<u32>,
    since_restart: usize,
    last_key: Vec<u8>,
    pending: Vec<Pending>,
    /// Smallest sequence so far.
    base: Seq,
}

/// An entry whose sequence cannot be encoded before the smallest of the block is known.
struct Pending {
    shared: u32,
    key: Range<usize>,
    value: Range<usize>,
    seq: Seq,
    op: Op,
    is_restart: bool,
}

impl BlockBuilder {
    pub(super) fn new() -> Self {
        BlockBuilder {
            entries: Vec::new(),
            restarts: Vec::new(),
            since_restart: 0,
            last_key: Vec::new(),
            pending: Vec::new(),
            base: Seq::MAX,
        }
    }

    /// Adds an entry behind all others in internal order.
    pub(super) fn add(&mut self, key: &[u8], seq: Seq, op: Op, value: &[u8]) {
        let is_restart = self.since_restart.is_multiple_of(RESTART_INTERVAL);
        let shared = if is_restart {
            0
        } else {
            common_prefix(&self.last_key, key)
        };
        let key_start = self.entries.len();
        self.entries.extend_from_slice(&key[shared..]);
        let value_start = self.entries.len();
        self.entries.extend_from_slice(value);
        self.pending.push(Pending {
            shared: shared as u32,
            key: key_start..value_start,
            value: value_start..self.entries.len(),
            seq,
            op,
            is_restart,
        });
        self.since_restart += 1;
        self.base = self.base.min(seq);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Upper bound of the encoded size.
    pub(super) fn size_bound(&self) -> usize {
        self.entries.len() + self.pending.len() * ENTRY_OVERHEAD_BYTES + TRAILER_BYTES
    }

    /// What the encoded size will be, more or less.
    pub(super) fn size_estimate(&self) -> usize {
        self.entries.len() + self.pending.len() * TYPICAL_OVERHEAD_BYTES + TRAILER_BYTES
    }

    /// Encodes the block into `out` and begins a new one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.clear();
        self.restarts.clear();
        for entry in &self.pending {
            if entry.is_restart {
                self.restarts.push(out.len() as u32);
            }
            put_varint(out, u64::from(entry.shared));
            put_varint(out, entry.key.len() as u64);
            let is_delete = u64::from(entry.op == Op::Delete);
            put_varint(out, (entry.value.len() as u64) << 1 | is_delete);
            put_varint(out, entry.seq - self.base);
            out.extend_from_slice(&self.entries[entry.key.start..entry.value.end]);
        }
        for restart in &self.restarts {
            out.extend_from_slice(&restart.to_le_bytes());
        }
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.entries.clear();
        self.pending.clear();
        self.last_key.clear();
        self.since_restart = 0;
        self.base = Seq::MAX;
    }
}

/// Most bytes that an entry adds to its key and value: the lengths (at most 3 + 3 + 5), a sequence (10), a restart (4).
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 25;
/// What it usually adds: lengths of a byte each, and a difference of sequences.
const TYPICAL_OVERHEAD_BYTES: usize = 6;

const _: () = assert!(crate::MAX_KEY_BYTES < 1 << 21 && crate::MAX_VALUE_BYTES < 1 << 34);

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// A decoded block.
pub(crate) struct Block {
    bytes: Box<[u8]>,
    /// End of the entries, start of the restart array.
    entries_end: usize,
    restarts: usize,
    base: Seq,
}

/// An entry as it is encoded.
struct Entry {
    shared: usize,
    /// Where the rest of the key and the value are.
    rest: Range<usize>,
    value: Range<usize>,
    seq: Seq,
    op: Op,
}

/// A version found in a block.
pub(crate) struct Found {
    pub(crate) seq: Seq,
    pub(crate) op: Op,
    pub(crate) value: Range<usize>,
}

impl Block {
    /// Takes the raw bytes of a block.
    pub(crate) fn new(bytes: Box<[u8]>) -> Result<Block, Malformed> {
        let trailer = bytes
            .len()
            .checked_sub(TRAILER_BYTES)
            .ok_or("a block is too short")?;
        let base = u64_at(&bytes, trailer).ok_or(DAMAGED)?;
        let restarts = u32_at(&bytes, trailer + 8).ok_or(DAMAGED)? as usize;
        let entries_end = restarts
            .checked_mul(4)
            .and_then(|array| trailer.checked_sub(array))
            .ok_or("a block has more restarts than bytes")?;
        if restarts == 0 || entries_end == 0 || u32_at(&bytes, entries_end) != Some(0) {
            return Err("the restarts of a block are malformed");
        }
        Ok(Block {
            bytes,
            entries_end,
            restarts,
            base,
        })
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + size_of::<Block>()
    }

    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    #[inline]
    fn entry(&self, at: usize) -> Option<Entry> {
        let bytes = &self.bytes[..self.entries_end];
        let mut at = at;
        let shared = usize::try_from(varint_at(bytes, &mut at)?).ok()?;
        let rest = usize::try_from(varint_at(bytes, &mut at)?).ok()?;
        let length_and_op = varint_at(bytes, &mut at)?;
        let seq = self.base.checked_add(varint_at(bytes, &mut at)?)?;
        let value_at = at.checked_add(rest)?;
        let end = value_at.checked_add(usize::try_from(length_and_op >> 1).ok()?)?;
        if end > self.entries_end {
            return None;
        }
        let op = if length_and_op & 1 == 0 {
            Op::Put
        } else {
            Op::Delete
        };
        Some(Entry {
            shared,
            rest: at..value_at,
            value: value_at..end,
            seq,
            op,
        })
    }

    fn restart(&self, index: usize) -> Result<usize, Malformed> {
        debug_assert!(index < self.restarts);
        let offset = u32_at(&self.bytes, self.entries_end + 4 * index).ok_or(DAMAGED)? as usize;
        if offset >= self.entries_end {
            return Err("a restart lies outside its block");
        }
        Ok(offset)
    }

    /// The last restart whose entry is at or before (`key`, `seq`); the first if there is none.
    fn restart_before(&self, key: &[u8], seq: Seq) -> Result<usize, Malformed> {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let entry = self.entry(self.restart(middle)?).ok_or(DAMAGED)?;
            let middle_key = &self.bytes[entry.rest];
            if compare_versions(middle_key, entry.seq, key, seq) == Ordering::Greater {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(low)
    }

    /// The newest version of `key` that is not newer than `snapshot`, if it is in this block.
    ///
    /// Walks from a restart and remembers how many bytes the entry's key has in common with `key`: an entry that shares
    /// more with its predecessor than that differs from `key` at the same place and is skipped unseen, one that shares
    /// less is behind `key`.
    pub(crate) fn get(&self, key: &[u8], snapshot: Seq) -> Result<Option<Found>, Malformed> {
        let mut at = self.restart(self.restart_before(key, snapshot)?)?;
        let mut common = 0;
        while at < self.entries_end {
            let entry = self.entry(at).ok_or(DAMAGED)?;
            at = entry.value.end;
            if entry.shared == 0 {
                common = 0;
            }
            match entry.shared.cmp(&common) {
                Ordering::Greater => continue,
                Ordering::Less => return Ok(None),
                Ordering::Equal => {}
            }
            let rest = &self.bytes[entry.rest];
            let same = common_prefix(rest, &key[common..]);
            match (rest.get(same), key.get(common + same)) {
                (None, None) if entry.seq <= snapshot => {
                    return Ok(Some(Found {
                        seq: entry.seq,
                        op: entry.op,
                        value: entry.value,
                    }));
                }
                // A version that is too new, or a key that is a prefix of the wanted one.
                (None, _) => common += same,
                (Some(_), None) => return Ok(None),
                (Some(here), Some(wanted)) if here > wanted => return Ok(None),
                _ => common += same,
            }
        }
        Ok(None)
    }
}

/// A position in a block.
pub(super) struct BlockCursor {
    block: Arc<Block>,
    /// Offset of the current entry; `entries_end` behind the last.
    at: usize,
    /// Offset of the entry behind it.
    next: usize,
    key: Vec<u8>,
    seq: Seq,
    op: Op,
    value: Range<usize>,
}

impl BlockCursor {
    /// A cursor without a position, which keeps the memory of an older one.
    pub(super) fn new(block: Arc<Block>, mut key: Vec<u8>) -> Self {
        key.clear();
        let end = block.entries_end;
        BlockCursor {
            block,
            at: end,
            next: end,
            key,
            seq: 0,
            op: Op::Put,
            value: 0..0,
        }
    }

    /// Gives back the buffer for keys.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.key
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.at < self.block.entries_end
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(super) fn seq(&self) -> Seq {
        self.seq
    }

    #[inline]
    pub(super) fn op(&self) -> Op {
        self.op
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        &self.block.bytes[self.value.clone()]
    }

    /// Decodes the entry at `at`, which follows the one that `key` belongs to, or is a restart.
    #[inline]
    fn load(&mut self, at: usize) -> Result<(), Malformed> {
        self.at = at;
        if at >= self.block.entries_end {
            self.at = self.block.entries_end;
            return Ok(());
        }
        let entry = self.block.entry(at).ok_or(DAMAGED)?;
        if entry.shared > self.key.len() {
            return Err("a block entry shares more than there is");
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(&self.block.bytes[entry.rest]);
        self.next = entry.value.end;
        self.seq = entry.seq;
        self.op = entry.op;
        self.value = entry.value;
        Ok(())
    }

    fn load_restart(&mut self, index: usize) -> Result<(), Malformed> {
        self.key.clear();
        let at = self.block.restart(index)?;
        self.load(at)
    }

    pub(super) fn next(&mut self) -> Result<(), Malformed> {
        debug_assert!(self.valid());
        self.load(self.next)
    }

    pub(super) fn seek_to_first(&mut self) -> Result<(), Malformed> {
        self.load_restart(0)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<(), Malformed> {
        self.load_restart(self.block.restarts - 1)?;
        while self.next < self.block.entries_end {
            self.next()?;
        }
        Ok(())
    }

    /// Moves to the first entry at or after (`key`, `seq`).
    pub(super) fn seek(&mut self, key: &[u8], seq: Seq) -> Result<(), Malformed> {
        let restart = self.block.restart_before(key, seq)?;
        self.load_restart(restart)?;
        while self.valid() && compare_versions(&self.key, self.seq, key, seq) == Ordering::Less {
            self.next()?;
        }
        Ok(())
    }

    /// Moves to the entry before; off the block if there is none.
    pub(super) fn prev(&mut self) -> Result<(), Malformed> {
        let target = self.at;
        if target == 0 {
            self.at = self.block.entries_end;
            return Ok(());
        }
        // The last restart before the current entry.
        let (mut low, mut high) = (0, self.block.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.block.restart(middle)? < target {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.load_restart(low)?;
        while self.next < target {
            self.next()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Version = (Vec<u8>, Seq, Op, Vec<u8>);

    fn build(versions: &[Version]) -> Block {
        let mut builder = BlockBuilder::new();
        for (key, seq, op, value) in versions {
            builder.add(key, *seq, *op, value);
        }
        let bound = builder.size_bound();
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        assert!(bytes.len() <= bound, "{} > {bound}", bytes.len());
        Block::new(bytes.into()).unwrap()
    }

    /// Versions in internal order, with keys that share prefixes and come several times.
    fn versions() -> impl Strategy<Value = Vec<Version>> {
        let key = prop::collection::vec(0..3u8, 0..6);
        let version = (
            key,
            1..50u64,
            any::<bool>(),
            prop::collection::vec(any::<u8>(), 0..20),
        );
        prop::collection::vec(version, 1..120).prop_map(|mut list| {
            list.sort_by(|a, b| compare_versions(&a.0, a.1, &b.0, b.1));
            list.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
            list.into_iter()
                .map(|(key, seq, put, value)| match put {
                    true => (key, seq + (1 << 45), Op::Put, value),
                    false => (key, seq + (1 << 45), Op::Delete, Vec::new()),
                })
                .collect()
        })
    }

    fn at(cursor: &BlockCursor) -> Option<Version> {
        cursor.valid().then(|| {
            (
                cursor.key().to_vec(),
                cursor.seq(),
                cursor.op(),
                cursor.value().to_vec(),
            )
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn a_block_gives_back_what_was_put_in(
            list in versions(),
            wanted in prop::collection::vec((prop::collection::vec(0..3u8, 0..6), 0..52u64), 40),
        ) {
            let block = Arc::new(build(&list));
            let mut cursor = BlockCursor::new(Arc::clone(&block), Vec::new());
            cursor.seek_to_first().unwrap();
            for version in &list {
                let here = at(&cursor);
                prop_assert_eq!(here.as_ref(), Some(version));
                cursor.next().unwrap();
            }
            prop_assert!(!cursor.valid());
            cursor.seek_to_last().unwrap();
            for version in list.iter().rev() {
                let here = at(&cursor);
                prop_assert_eq!(here.as_ref(), Some(version));
                cursor.prev().unwrap();
            }
            prop_assert!(!cursor.valid());
            for (key, seq) in wanted {
                let seq = seq + (1 << 45);
                let first = list.iter().find(|v| compare_versions(&v.0, v.1, &key, seq).is_ge());
                cursor.seek(&key, seq).unwrap();
                let here = at(&cursor);
                prop_assert_eq!(here.as_ref(), first);
                let newest = first.filter(|v| v.0 == key);
                let found = block.get(&key, seq).unwrap();
                let found = found.map(|f| (key.clone(), f.seq, f.op, block.slice(f.value).to_vec()));
                prop_assert_eq!(found.as_ref(), newest);
            }
        }

        #[test]
        fn damaged_blocks_never_panic(list in versions(), flips in prop::collection::vec(any::<(u16, u8)>(), 1..8)) {
            let mut bytes = build(&list).bytes.into_vec();
            for (byte, mask) in flips {
                let index = usize::from(byte) % bytes.len();
                bytes[index] ^= mask;
            }
            let Ok(block) = Block::new(bytes.into()) else { return Ok(()) };
            let block = Arc::new(block);
            let _ = block.get(&[1, 2], 1 << 46);
            let mut cursor = BlockCursor::new(Arc::clone(&block), Vec::new());
            let mut steps = 0;
            let mut result = cursor.seek_to_first();
            while result.is_ok() && cursor.valid() && steps < 1000 {
                steps += 1;
                result = cursor.next();
            }
            if cursor.seek(&[1], 7).is_ok() && cursor.valid() {
                let _ = cursor.prev();
            }
            let _ = cursor.seek_to_last();
        }
    }
}
