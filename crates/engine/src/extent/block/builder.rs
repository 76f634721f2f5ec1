//! Block builder: prefix-compressed entries with restart points.
//!
//! Neighbours: `writer` adds entries and asks for the size; `mod` reads what comes out.
//!
//! **Invariants**
//! - Entries come in strictly ascending internal order.
//! - Every entry that shares nothing with the one before it is a restart.

use std::ops::Range;

use super::{RESTART_BYTES, TRAILER_BYTES, Trailer, common_prefix, prefix_word};
use crate::codec::put_varint;
use crate::{Op, Seq};

/// Most entries from one restart to the next.
const RESTART_ENTRIES: usize = 16;
/// A restart comes after so many bytes of keys and values. What a search walks over is then a few cache lines, in
/// the order in which the processor fetches them ahead; see `docs/decisions/blocks.md` for the measurement.
pub(super) const RESTART_DATA_BYTES: usize = 256;

/// Most bytes that an entry adds to its key and value: the lengths (at most 3 + 3 + 5), a sequence (10), a restart (8).
pub(in crate::extent) const ENTRY_OVERHEAD_BYTES: usize = 29;
const _: () = assert!(crate::MAX_KEY_BYTES < 1 << 21 && crate::MAX_VALUE_BYTES < 1 << 34);
const _: () = assert!(ENTRY_OVERHEAD_BYTES == 21 + RESTART_BYTES);

/// Collects entries for a block.
pub(in crate::extent) struct BlockBuilder {
    /// Rests of keys and values.
    entries: Vec<u8>,
    restarts: Vec<u8>,
    /// Entries, and bytes of keys and values, since the last restart that was asked for.
    since_restart: usize,
    bytes_since_restart: usize,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    pending: Vec<Pending>,
    /// Smallest sequence so far, and largest.
    base: Seq,
    newest: Seq,
    /// Bytes of the lengths, and restarts, of all entries so far.
    length_bytes: usize,
    restart_count: usize,
}

/// An entry whose sequence cannot be encoded before the smallest of the block is known.
struct Pending {
    shared: u32,
    key: Range<usize>,
    value: Range<usize>,
    seq: Seq,
    op: Op,
}

impl BlockBuilder {
    pub(in crate::extent) fn new() -> Self {
        BlockBuilder {
            entries: Vec::new(),
            restarts: Vec::new(),
            since_restart: 0,
            bytes_since_restart: 0,
            first_key: Vec::new(),
            last_key: Vec::new(),
            pending: Vec::new(),
            base: Seq::MAX,
            newest: 0,
            length_bytes: 0,
            restart_count: 0,
        }
    }

    /// Adds an entry behind all others in internal order.
    pub(in crate::extent) fn add(&mut self, key: &[u8], seq: Seq, op: Op, value: &[u8]) {
        let is_first = self.pending.is_empty();
        debug_assert!(
            is_first || *self.last_key <= *key,
            "the keys of a block ascend"
        );
        let is_restart = is_first
            || self.since_restart >= RESTART_ENTRIES
            || self.bytes_since_restart >= RESTART_DATA_BYTES;
        let shared = match is_restart {
            true => 0,
            false => common_prefix(&self.last_key, key),
        };
        if is_first {
            self.first_key.clear();
            self.first_key.extend_from_slice(key);
        }
        if is_restart {
            (self.since_restart, self.bytes_since_restart) = (0, 0);
        }
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
        });
        self.since_restart += 1;
        self.bytes_since_restart += key.len() + value.len();
        self.base = self.base.min(seq);
        self.newest = self.newest.max(seq);
        self.length_bytes += lengths_bytes(shared, key.len(), value.len());
        self.restart_count += usize::from(shared == 0);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
    }

    pub(in crate::extent) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Upper bound of the encoded size.
    pub(in crate::extent) fn size_bound(&self) -> usize {
        self.entries.len() + self.pending.len() * ENTRY_OVERHEAD_BYTES + TRAILER_BYTES
    }

    /// What the encoded size will be at most, and hardly less, if this entry comes as well.
    pub(in crate::extent) fn size_with(&self, key: &[u8], seq: Seq, value: &[u8]) -> usize {
        // It may be a restart, with all of its key.
        let entry = lengths_bytes(0, key.len(), value.len()) + key.len() + value.len();
        let widest = self.newest.max(seq) - self.base.min(seq);
        let seqs = (self.pending.len() + 1) * varint_bytes(widest);
        let restarts = (self.restart_count + 1) * RESTART_BYTES;
        self.entries.len() + self.length_bytes + entry + seqs + restarts + TRAILER_BYTES
    }

    /// Encodes the block into `out` and begins a new one.
    pub(in crate::extent) fn finish(&mut self, out: &mut Vec<u8>) {
        let bound = self.size_bound();
        out.clear();
        self.restarts.clear();
        // The keys ascend: what the first and the last begin with, all do.
        let prefix = common_prefix(&self.first_key, &self.last_key);
        for entry in &self.pending {
            // Those that happen to share nothing with the entry before serve as well.
            if entry.shared == 0 {
                let hint = prefix_word(&self.entries[entry.key.clone()][prefix..]);
                self.restarts
                    .extend_from_slice(&(out.len() as u32).to_le_bytes());
                self.restarts.extend_from_slice(&hint.to_le_bytes());
            }
            put_varint(out, u64::from(entry.shared));
            put_varint(out, entry.key.len() as u64);
            let is_delete = u64::from(entry.op == Op::Delete);
            put_varint(out, (entry.value.len() as u64) << 1 | is_delete);
            put_varint(out, entry.seq - self.base);
            out.extend_from_slice(&self.entries[entry.key.start..entry.value.end]);
        }
        let restarts = self.restarts.len() / RESTART_BYTES;
        out.extend_from_slice(&self.restarts);
        out.extend_from_slice(&Trailer::encode(prefix as u32, self.base, restarts as u32));
        debug_assert!(out.len() <= bound, "a block is not larger than was said");
        self.entries.clear();
        self.pending.clear();
        self.last_key.clear();
        (self.base, self.newest) = (Seq::MAX, 0);
        (self.length_bytes, self.restart_count) = (0, 0);
    }
}

/// Bytes of the three lengths of an entry.
fn lengths_bytes(shared: usize, key: usize, value: usize) -> usize {
    [shared, key - shared, value << 1]
        .into_iter()
        .map(|length| varint_bytes(length as u64))
        .sum()
}

/// Bytes of a number.
fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}
