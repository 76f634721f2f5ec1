//! An entry: where a version lies in a kept buffer of the log, small enough to collect millions of them without
//! thinking.
//!
//! Neighbours: `collect` makes entries while it reads the log; `build` sorts them; `run` reads through them.
//!
//! An entry is 24 bytes: eight bytes of the key behind what all keys of its shard begin with, the commit sequence, and
//! the place of the write (`commit::record`: op, key, value) in one of the [`Buffers`]. Nothing of the row itself is
//! copied.
//!
//! **Invariants**
//! - The place of an entry is a write that was decoded and checked once; buffers never change.
//! - `prefix` and the span are those of the key behind the number of bytes that the owner of the entry knows (the
//!   strip). Of two keys with the same bytes before the strip, the one with the smaller (prefix, span) comes first; if
//!   both are equal and the span is not [`GOES_ON`], the keys are equal.

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

use esker_wal::LogBytes;

use crate::codec::varint_at;
use crate::{Op, Seq};

/// Bytes of the key that an entry has in itself.
pub(crate) const PREFIX_BYTES: usize = 8;
/// The span of a key that is longer than the prefix shows.
const GOES_ON: u32 = PREFIX_BYTES as u32 + 1;
/// Bits of the tag that hold the span.
const SPAN_BITS: u32 = 4;
const _: () = assert!(GOES_ON < 1 << SPAN_BITS);
/// Buffers of one collection are fewer than this: of the usual size they would have 256 TiB.
pub(crate) const MAX_BUFFERS: usize = 1 << (32 - SPAN_BITS);

/// The first eight bytes of `rest`, big endian, zero padded; and how many there are, [`GOES_ON`] for more than eight.
#[inline]
pub(crate) fn prefix_and_span(rest: &[u8]) -> (u64, u32) {
    match rest.first_chunk::<PREFIX_BYTES>() {
        Some(bytes) => {
            let span = if rest.len() > PREFIX_BYTES {
                GOES_ON
            } else {
                PREFIX_BYTES as u32
            };
            (u64::from_be_bytes(*bytes), span)
        }
        None => {
            let mut bytes = [0; PREFIX_BYTES];
            bytes[..rest.len()].copy_from_slice(rest);
            (u64::from_be_bytes(bytes), rest.len() as u32)
        }
    }
}

/// Bytes of the log that are kept: a buffer as it was read, or rows copied out of buffers with little else in them.
pub(crate) enum Bytes {
    Log(Arc<LogBytes>),
    Copied(Vec<u8>),
}

impl Bytes {
    /// Memory taken.
    pub(crate) fn capacity(&self) -> usize {
        match self {
            Bytes::Log(bytes) => bytes.capacity(),
            Bytes::Copied(bytes) => bytes.capacity(),
        }
    }

    /// Bytes that can be appended.
    pub(crate) fn room(&self) -> usize {
        match self {
            Bytes::Log(_) => 0,
            Bytes::Copied(bytes) => bytes.capacity() - bytes.len(),
        }
    }

    /// Appends a row to copied ones, for which there is room. Gives its offset.
    pub(crate) fn append(&mut self, row: &[u8]) -> usize {
        assert!(row.len() <= self.room());
        let Bytes::Copied(bytes) = self else {
            unreachable!("there is no room in a buffer of the log")
        };
        let offset = bytes.len();
        bytes.extend_from_slice(row);
        offset
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Log(bytes) => bytes,
            Bytes::Copied(bytes) => bytes,
        }
    }
}

/// Where an entry's write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Index into the buffers.
    pub(crate) buffer: u32,
    /// Of the first byte of the write.
    pub(crate) offset: u32,
}

/// A version of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) prefix: u64,
    pub(crate) seq: Seq,
    offset: u32,
    /// Index of the buffer, and the span in the low bits.
    tag: u32,
}

const _: () = assert!(size_of::<Entry>() == 24);

impl Entry {
    /// `rest` is the key behind the strip.
    #[inline]
    pub(crate) fn new(rest: &[u8], seq: Seq, spot: Spot) -> Self {
        let (prefix, span) = prefix_and_span(rest);
        debug_assert!((spot.buffer as usize) < MAX_BUFFERS);
        Entry {
            prefix,
            seq,
            offset: spot.offset,
            tag: spot.buffer << SPAN_BITS | span,
        }
    }

    #[inline]
    pub(crate) fn span(&self) -> u32 {
        self.tag & ((1 << SPAN_BITS) - 1)
    }

    /// Whether the key has more bytes than the prefix shows.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        self.span() == GOES_ON
    }

    #[inline]
    pub(crate) fn spot(&self) -> Spot {
        Spot {
            buffer: self.tag >> SPAN_BITS,
            offset: self.offset,
        }
    }

    /// Moves the entry behind `base` buffers of others.
    #[inline]
    pub(crate) fn rebase(&mut self, base: u32) {
        debug_assert!(((self.tag >> SPAN_BITS) + base) as usize <= MAX_BUFFERS);
        self.tag += base << SPAN_BITS;
    }

    /// Takes prefix and span from another part of the key.
    #[inline]
    pub(crate) fn show(&mut self, rest: &[u8]) {
        let (prefix, span) = prefix_and_span(rest);
        self.set_shown(prefix, span);
    }

    #[inline]
    pub(crate) fn set_shown(&mut self, prefix: u64, span: u32) {
        debug_assert!(span <= GOES_ON);
        self.prefix = prefix;
        self.tag = self.tag & !((1 << SPAN_BITS) - 1) | span;
    }

    /// The order of two keys as far as the entries show it.
    #[inline]
    pub(crate) fn compare_shown(&self, prefix: u64, span: u32) -> Ordering {
        self.prefix
            .cmp(&prefix)
            .then_with(|| self.span().cmp(&span))
    }
}

/// A version, decoded: where its key and its value are in their buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded {
    pub(crate) seq: Seq,
    pub(crate) op: Op,
    buffer: u32,
    key: (u32, u32),
    value: (u32, u32),
}

/// The buffers of a collection.
#[derive(Default)]
pub(crate) struct Buffers {
    all: Vec<Bytes>,
    bytes: usize,
}

impl Buffers {
    pub(crate) fn new(all: Vec<Bytes>) -> Self {
        assert!(all.len() < MAX_BUFFERS);
        let bytes = all.iter().map(Bytes::capacity).sum();
        Buffers { all, bytes }
    }

    /// Bytes of all buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn bytes_at(&self, spot: Spot) -> &[u8] {
        &self.all[spot.buffer as usize][spot.offset as usize..]
    }

    /// The key of an entry.
    #[inline]
    pub(crate) fn key(&self, entry: &Entry) -> &[u8] {
        let bytes = self.bytes_at(entry.spot());
        key_of(bytes).0
    }

    /// Everything about an entry.
    #[inline]
    pub(crate) fn decode(&self, entry: &Entry) -> Decoded {
        let spot = entry.spot();
        let bytes = self.bytes_at(spot);
        let (key, behind_key) = key_of(bytes);
        let op = Op::from_code(bytes[0]).expect(CHECKED);
        let mut at = behind_key;
        let value_bytes = match op {
            Op::Put => varint_at(bytes, &mut at).expect(CHECKED) as u32,
            Op::Delete => 0,
        };
        let key_at = behind_key - key.len();
        Decoded {
            seq: entry.seq,
            op,
            buffer: spot.buffer,
            key: (spot.offset + key_at as u32, key.len() as u32),
            value: (spot.offset + at as u32, value_bytes),
        }
    }

    #[inline]
    pub(crate) fn decoded_key(&self, version: &Decoded) -> &[u8] {
        self.piece(version.buffer, version.key)
    }

    #[inline]
    pub(crate) fn decoded_value(&self, version: &Decoded) -> &[u8] {
        self.piece(version.buffer, version.value)
    }

    #[inline]
    fn piece(&self, buffer: u32, (at, bytes): (u32, u32)) -> &[u8] {
        &self.all[buffer as usize][at as usize..][..bytes as usize]
    }
}

const CHECKED: &str = "the write was decoded when it was collected";

/// The key of the write at the start of `bytes`, and where it ends.
#[inline]
fn key_of(bytes: &[u8]) -> (&[u8], usize) {
    let mut at = size_of::<Op>();
    let len = varint_at(bytes, &mut at).expect(CHECKED) as usize;
    (&bytes[at..at + len], at + len)
}
