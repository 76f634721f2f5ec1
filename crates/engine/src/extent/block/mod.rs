//! Blocks: sorted entries with prefix compression, and restart points for binary search (as in LevelDB's tables).
//!
//! Neighbours: `writer` builds blocks, `frame` wraps them, `cache` keeps them decoded, `iter` and `reader` search them.
//! The bytes are described in `docs/formats/extent.md`.
//!
//! Parts: `builder` → [`Block`] → `cursor`, which has what it shows at once from `joined`; `divided` is the form in
//! which a block is compressed well.
//!
//! **Invariants**
//! - A [`Block`]'s restart array lies inside its bytes; everything else is checked while decoding, so damaged bytes
//!   become [`Malformed`], never a panic.
//! - [`Block::get`] compares without putting keys together: it allocates nothing.

mod builder;
mod cursor;
mod divided;
mod joined;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ops::Range;

use esker_vfs::pages::prefetch;

use crate::budget::Charge;
use crate::cache::Bytes;
use crate::codec::{Malformed, u32_at, u64_at, varint_at};
use crate::iter::compare_versions;
use crate::{Op, Seq};

use builder::RESTART_DATA_BYTES;
pub(super) use builder::{BlockBuilder, ENTRY_OVERHEAD_BYTES};
pub(crate) use cursor::Drained;
pub(super) use cursor::{BlockCursor, Buffers};
pub(super) use divided::{Divided, divided_bound, join};

/// Offset and hint.
const RESTART_BYTES: usize = 8;
/// Length of the prefix, base sequence and number of restarts.
const TRAILER_BYTES: usize = 16;

/// Bytes of the prefix that are at hand.
const PREFIX_START_BYTES: usize = 16;

const DAMAGED: Malformed = "a block entry is malformed";

#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (number, (x, y)) in a_words.iter().zip(b_words).enumerate() {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return number * 8 + differ.trailing_zeros() as usize / 8;
        }
    }
    let same = a_words.len().min(b_words.len()) * 8;
    let rest = a[same..].iter().zip(&b[same..]);
    same + rest.take_while(|(x, y)| x == y).count()
}

/// The first bytes of a key behind the prefix of its block, filled up with zeros, as a number: numbers compare as keys
/// do, but different keys may have the same.
#[inline]
fn prefix_word(rest: &[u8]) -> u32 {
    if let Some(bytes) = rest.first_chunk::<4>() {
        return u32::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 4];
    bytes[..rest.len()].copy_from_slice(rest);
    u32::from_be_bytes(bytes)
}

/// What stands behind the restarts of a block.
struct Trailer {
    /// End of the entries, start of the restart array.
    entries_end: usize,
    /// End of the restart array.
    restarts_end: usize,
    /// Length of what all keys begin with.
    prefix: usize,
    base: Seq,
}

impl Trailer {
    fn of(bytes: &[u8]) -> Result<Self, Malformed> {
        let restarts_end = bytes
            .len()
            .checked_sub(TRAILER_BYTES)
            .ok_or("a block is too short")?;
        let prefix = u32_at(bytes, restarts_end).ok_or(DAMAGED)? as usize;
        let base = u64_at(bytes, restarts_end + 4).ok_or(DAMAGED)?;
        let restarts = u32_at(bytes, restarts_end + 12).ok_or(DAMAGED)? as usize;
        let entries_end = restarts
            .checked_mul(RESTART_BYTES)
            .and_then(|array| restarts_end.checked_sub(array))
            .ok_or("a block has more restarts than bytes")?;
        Ok(Trailer {
            entries_end,
            restarts_end,
            prefix,
            base,
        })
    }

    fn encode(prefix: u32, base: Seq, restarts: u32) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..4].copy_from_slice(&prefix.to_le_bytes());
        bytes[4..12].copy_from_slice(&base.to_le_bytes());
        bytes[12..].copy_from_slice(&restarts.to_le_bytes());
        bytes
    }
}

/// A decoded block.
pub(crate) struct Block {
    bytes: Bytes,
    /// End of the entries, start of the restart array.
    entries_end: usize,
    /// End of the restart array.
    restarts_end: usize,
    /// Bytes that all keys begin with.
    prefix: Range<usize>,
    /// The first of them, where a search finds them without a look at the block's first entry.
    prefix_start: [u8; PREFIX_START_BYTES],
    base: Seq,
    /// Its memory, for as long as somebody has it.
    _charge: Charge,
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

impl Entry {
    /// The length of the value, and whether it is a delete, as they are encoded.
    fn length_and_op(&self) -> u64 {
        (self.value.len() as u64) << 1 | u64::from(self.op == Op::Delete)
    }
}

/// The entry at `at` of these entries of a block.
#[inline]
fn entry_at(entries: &[u8], base: Seq, at: usize) -> Option<Entry> {
    let mut at = at;
    let shared = usize::try_from(varint_at(entries, &mut at)?).ok()?;
    let rest = usize::try_from(varint_at(entries, &mut at)?).ok()?;
    let length_and_op = varint_at(entries, &mut at)?;
    let seq = base.checked_add(varint_at(entries, &mut at)?)?;
    let value_at = at.checked_add(rest)?;
    let end = value_at.checked_add(usize::try_from(length_and_op >> 1).ok()?)?;
    if end > entries.len() {
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

/// A version found in a block.
pub(crate) struct Found {
    pub(crate) seq: Seq,
    pub(crate) op: Op,
    pub(crate) value: Range<usize>,
}

impl Block {
    /// Takes the raw bytes of a block; `charge` pays for them.
    pub(crate) fn new(bytes: Bytes, charge: Charge) -> Result<Block, Malformed> {
        let Trailer {
            entries_end,
            restarts_end,
            prefix,
            base,
        } = Trailer::of(&bytes)?;
        if restarts_end == entries_end || entries_end == 0 || u32_at(&bytes, entries_end) != Some(0)
        {
            return Err("the restarts of a block are malformed");
        }
        let mut block = Block {
            bytes,
            entries_end,
            restarts_end,
            prefix: 0..0,
            prefix_start: [0; PREFIX_START_BYTES],
            base,
            _charge: charge,
        };
        let first = block.entry(0).ok_or(DAMAGED)?;
        if first.shared != 0 || prefix > first.rest.len() {
            return Err("the first entry of a block is malformed");
        }
        block.prefix = first.rest.start..first.rest.start + prefix;
        let start = &block.bytes[block.prefix.clone()];
        let start = &start[..prefix.min(PREFIX_START_BYTES)];
        block.prefix_start[..start.len()].copy_from_slice(start);
        Ok(block)
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        Self::memory_of(&self.bytes)
    }

    /// Bytes in memory of a block that has these.
    pub(crate) fn memory_of(bytes: &Bytes) -> usize {
        bytes.memory() + size_of::<Block>()
    }

    /// Bytes of the format.
    pub(super) fn raw_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn restart_count(&self) -> usize {
        self.restarts().len()
    }

    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    #[inline]
    fn entry(&self, at: usize) -> Option<Entry> {
        entry_at(&self.bytes[..self.entries_end], self.base, at)
    }

    /// The entry at `at` of a block that has no deletes.
    #[inline]
    fn put(&self, at: usize) -> Result<Entry, Malformed> {
        match self.entry(at) {
            Some(entry) if entry.op == Op::Put => Ok(entry),
            Some(_) => Err("a block has a delete that its extent does not know of"),
            None => Err(DAMAGED),
        }
    }

    /// The restarts: offset, hint.
    #[inline]
    fn restarts(&self) -> &[[u8; RESTART_BYTES]] {
        self.bytes[self.entries_end..self.restarts_end]
            .as_chunks()
            .0
    }

    fn restart(&self, index: usize) -> Result<usize, Malformed> {
        let offset = u32_at(&self.restarts()[index], 0).ok_or(DAMAGED)? as usize;
        if offset >= self.entries_end {
            return Err("a restart lies outside its block");
        }
        Ok(offset)
    }

    /// Compares a key with what all keys of the block begin with: equal if it begins so too.
    #[inline]
    fn compare_prefix(&self, key: &[u8]) -> Ordering {
        let at_hand = &self.prefix_start[..self.prefix.len().min(PREFIX_START_BYTES)];
        let (start, rest) = key.split_at(key.len().min(at_hand.len()));
        let order = start.cmp(at_hand);
        if order.is_ne() || self.prefix.len() <= PREFIX_START_BYTES {
            return order;
        }
        let further = &self.bytes[self.prefix.clone()][PREFIX_START_BYTES..];
        rest[..rest.len().min(further.len())].cmp(further)
    }

    /// The last restart whose entry is at or before (`key`, `seq`); the first if there is none. Only where prefixes are
    /// equal a key is looked at.
    #[inline]
    fn restart_before(&self, key: &[u8], seq: Seq) -> Result<usize, Malformed> {
        let restarts = self.restarts();
        match self.compare_prefix(key) {
            Ordering::Less => return Ok(0),
            Ordering::Greater => return Ok(restarts.len() - 1),
            Ordering::Equal => {}
        }
        let wanted = prefix_word(&key[self.prefix.len()..]);
        let hint = |restart: &[u8; RESTART_BYTES]| {
            let [_, _, _, _, hint @ ..] = *restart;
            u32::from_le_bytes(hint)
        };
        let equal_from = restarts.partition_point(|restart| hint(restart) < wanted);
        let (mut low, mut high) = (equal_from, equal_from);
        while restarts
            .get(high)
            .is_some_and(|restart| hint(restart) == wanted)
        {
            high += 1;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.entry(self.restart(middle)?).ok_or(DAMAGED)?;
            let middle_key = &self.bytes[entry.rest];
            if compare_versions(middle_key, entry.seq, key, seq) == Ordering::Greater {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low.saturating_sub(1))
    }

    /// A search will begin soon.
    pub(super) fn prefetch_restarts(&self) {
        prefetch(&self.bytes[self.entries_end..self.restarts_end]);
        if self.prefix.len() > PREFIX_START_BYTES {
            prefetch(&self.bytes[self.prefix.clone()]);
        }
    }

    /// The entries from `at` on, where a walk begins, will be read soon.
    pub(super) fn prefetch_entries(&self, at: usize) {
        let end = self.entries_end.min(at + RESTART_DATA_BYTES);
        prefetch(&self.bytes[at..end]);
    }

    /// The newest version of `key` that is not newer than `snapshot`, if it is in this block.
    pub(crate) fn get(&self, key: &[u8], snapshot: Seq) -> Result<Option<Found>, Malformed> {
        self.get_from(self.start_for(key, snapshot)?, key, snapshot)
    }

    /// Where a walk to the version begins.
    #[inline]
    pub(super) fn start_for(&self, key: &[u8], snapshot: Seq) -> Result<usize, Malformed> {
        self.restart(self.restart_before(key, snapshot)?)
    }

    /// The second part of [`Block::get`].
    ///
    /// Walks from a restart and remembers how many bytes the entry's key has in common with `key`: an entry that shares
    /// more with its predecessor than that differs from `key` at the same place and is skipped unseen, one that shares
    /// less is behind `key`.
    #[inline]
    pub(super) fn get_from(
        &self,
        mut at: usize,
        key: &[u8],
        snapshot: Seq,
    ) -> Result<Option<Found>, Malformed> {
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
