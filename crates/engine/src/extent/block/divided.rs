//! The columnar form of a block, for a compressor: lengths, keys and values each lie together.
//!
//! Neighbours: `frame` compresses and decompresses it; in memory a block is never seen in it.
//!
//! An entry is numbers, a key and a value that have little in common. In columns lengths repeat themselves, and the
//! codes that bytes of values get are not spoilt by bytes of numbers; and the restarts, which follow from the entries,
//! are left out. Values are compressed apart from the rest. The bytes are described in `docs/formats/extent.md`.
//!
//! **Invariants**
//! - [`join`] undoes [`Divided::set`], byte for byte.
//! - Damaged bytes become [`Malformed`], never a panic.

use std::ops::Range;

use super::{Entry, RESTART_BYTES, TRAILER_BYTES, Trailer, entry_at, prefix_word};
use crate::codec::{Malformed, Reader, put_varint};

/// Numbers of a divided block before its columns: at most 5 bytes each, 10 the base.
const HEAD_BYTES: usize = 6 * 5 + 10;
/// Columns but the values: shared bytes, lengths of rests, lengths of values with deletes, sequences, rests of keys.
const COLUMNS: usize = 5;

const DAMAGED: Malformed = "a divided block is malformed";

/// The most bytes of a divided block that had so many.
pub(in crate::extent) fn divided_bound(raw_bytes: usize) -> usize {
    raw_bytes + HEAD_BYTES
}

/// A divided block. Buffers are kept from one to the next.
#[derive(Default)]
pub(in crate::extent) struct Divided {
    columns: [Vec<u8>; COLUMNS],
    head: Vec<u8>,
    values: Vec<u8>,
}

impl Divided {
    /// Divides a block as it was built.
    pub(in crate::extent) fn set(&mut self, raw: &[u8]) {
        for column in &mut self.columns {
            column.clear();
        }
        self.values.clear();
        let trailer = Trailer::of(raw).expect("the builder makes sound blocks");
        let mut at = 0;
        while at < trailer.entries_end {
            let entry = entry_at(&raw[..trailer.entries_end], 0, at);
            let entry = entry.expect("the builder makes sound blocks");
            at = entry.value.end;
            self.add(raw, &entry);
        }
        debug_assert_eq!(at, trailer.entries_end);
        self.head.clear();
        for column in &self.columns {
            put_varint(&mut self.head, column.len() as u64);
        }
        put_varint(&mut self.head, trailer.prefix as u64);
        put_varint(&mut self.head, trailer.base);
        for column in &self.columns {
            self.head.extend_from_slice(column);
        }
        debug_assert!(self.head.len() + self.values.len() <= divided_bound(raw.len()));
    }

    fn add(&mut self, raw: &[u8], entry: &Entry) {
        let [shared, rests, values, seqs, keys] = &mut self.columns;
        put_varint(shared, entry.shared as u64);
        put_varint(rests, entry.rest.len() as u64);
        put_varint(values, entry.length_and_op());
        // Read without a base, it is the difference.
        put_varint(seqs, entry.seq);
        keys.extend_from_slice(&raw[entry.rest.clone()]);
        self.values.extend_from_slice(&raw[entry.value.clone()]);
    }

    /// What is to be compressed, each by itself; the divided block is both in this order.
    pub(in crate::extent) fn parts(&self) -> [&[u8]; 2] {
        [&self.head, &self.values]
    }

    /// Bytes of memory it keeps.
    pub(in crate::extent) fn bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(Vec::capacity).sum();
        columns + self.head.capacity() + self.values.capacity()
    }
}

/// Bytes that are taken from the front.
struct Column<'a>(&'a [u8]);

impl<'a> Column<'a> {
    /// Divides off so many bytes.
    fn split(&mut self, bytes: usize) -> Option<Column<'a>> {
        let (front, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(Column(front))
    }
}

/// A block that is put together.
struct Joint<'a> {
    entries: &'a mut [u8],
    at: usize,
    restarts: std::slice::IterMut<'a, [u8; RESTART_BYTES]>,
    prefix: usize,
}

impl Joint<'_> {
    /// Moves a varint: its value.
    #[inline]
    fn number(&mut self, from: &mut Column) -> Option<u64> {
        let (&first, rest) = from.0.split_first()?;
        if first < 0x80 {
            from.0 = rest;
            *self.entries.get_mut(self.at)? = first;
            self.at += 1;
            return Some(u64::from(first));
        }
        let mut length = 0;
        let number = crate::codec::varint_at(from.0, &mut length)?;
        self.bytes(from, length)?;
        Some(number)
    }

    /// Moves so many bytes: where they are now.
    #[inline]
    fn bytes(&mut self, from: &mut Column, count: usize) -> Option<Range<usize>> {
        /// So many are moved at once if they may be: what is too much is overwritten.
        const AT_ONCE: usize = 16;
        let to = self.entries.get_mut(self.at..)?;
        match (from.0.first_chunk::<AT_ONCE>(), to.first_chunk_mut()) {
            (Some(from), Some(to)) if count <= AT_ONCE => *to = *from,
            _ => to.get_mut(..count)?.copy_from_slice(from.0.get(..count)?),
        }
        from.0 = &from.0[count..];
        self.at += count;
        Some(self.at - count..self.at)
    }

    /// Moves an entry.
    #[inline]
    fn entry(&mut self, columns: &mut [Column; COLUMNS], values: &mut Column) -> Option<()> {
        let [shared, rests, lengths, seqs, keys] = columns;
        let start = self.at;
        let is_restart = self.number(shared)? == 0;
        let rest = usize::try_from(self.number(rests)?).ok()?;
        let value = usize::try_from(self.number(lengths)? >> 1).ok()?;
        self.number(seqs)?;
        let rest = self.bytes(keys, rest)?;
        if is_restart {
            let hint = prefix_word(self.entries[rest].get(self.prefix..)?);
            let [a, b, c, d, prefixes @ ..] = self.restarts.next()?;
            [*a, *b, *c, *d] = u32::try_from(start).ok()?.to_le_bytes();
            *prefixes = hint.to_le_bytes();
        }
        self.bytes(values, value)?;
        Some(())
    }
}

/// Puts a divided block together; it has the length of `raw`.
pub(in crate::extent) fn join(divided: &[u8], raw: &mut [u8]) -> Result<(), Malformed> {
    let mut head = Reader::new(divided);
    let mut lengths = [0; COLUMNS];
    for length in &mut lengths {
        *length = head.varint_u32()? as usize;
    }
    let (prefix, base) = (head.varint_u32()?, head.varint()?);
    let mut rest = Column(&divided[head.position()..]);
    let mut columns = [const { Column(&[]) }; COLUMNS];
    for (column, length) in columns.iter_mut().zip(lengths) {
        *column = rest.split(length).ok_or(DAMAGED)?;
    }
    let numbers: usize = lengths.iter().sum();
    let entries_end = numbers + (rest.0.len());
    let tail = raw.len().checked_sub(entries_end + TRAILER_BYTES);
    let tail = tail.ok_or(DAMAGED)?;
    if tail % RESTART_BYTES != 0 {
        return Err(DAMAGED);
    }
    let (entries, tail) = raw.split_at_mut(entries_end);
    let (restarts, trailer) = tail.split_at_mut(tail.len() - TRAILER_BYTES);
    let count = restarts.len() / RESTART_BYTES;
    trailer.copy_from_slice(&Trailer::encode(prefix, base, count as u32));
    let mut joint = Joint {
        entries,
        at: 0,
        restarts: restarts.as_chunks_mut().0.iter_mut(),
        prefix: prefix as usize,
    };
    while !columns[0].0.is_empty() {
        joint.entry(&mut columns, &mut rest).ok_or(DAMAGED)?;
    }
    let is_whole = joint.at == joint.entries.len() && joint.restarts.len() == 0;
    is_whole.then_some(()).ok_or(DAMAGED)
}
