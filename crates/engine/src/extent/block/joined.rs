//! Materialised entries of a block: whole keys with their values behind them, for a batch of a scan.
//!
//! Neighbours: `cursor` walks over the entries.
//!
//! **Invariant**: the last key that was put together stays until the next is: they share their beginning.

use smallvec::SmallVec;

use super::Entry;
use crate::codec::Malformed;
use crate::visit::{MOST_PIECES, Visit};

/// What is shown at once.
pub(super) type Pieces<'b> = SmallVec<[&'b [u8]; MOST_PIECES]>;

/// Bytes of keys and values after which they are shown.
const MOST_JOINED_BYTES: usize = 128 << 10;

/// So many bytes are copied at once where fewer are wanted: a length that is known is copied without a loop.
const SHORT_BYTES: usize = 16;

#[inline(always)]
fn push_short(bytes: &mut Vec<u8>, short: &[u8; SHORT_BYTES], wanted: usize) {
    let length = bytes.len() + wanted;
    bytes.extend_from_slice(short);
    bytes.truncate(length);
}

/// Keys that were put together, each with its value behind it.
#[derive(Default)]
pub(super) struct Joined {
    bytes: Vec<u8>,
    /// Ends of those that were not shown; the first begins at `from`.
    ends: Vec<usize>,
    from: usize,
    /// Where the last one begins, and the length of its key.
    last: usize,
    key_bytes: usize,
}

impl Joined {
    /// Begins with this one.
    pub(super) fn begin(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.clear();
        self.ends.clear();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        (self.from, self.last, self.key_bytes) = (0, 0, key.len());
    }

    /// Adds the entry behind the last one, of a block with these bytes.
    #[inline]
    pub(super) fn add(&mut self, entry: &Entry, block: &[u8]) -> Result<(), Malformed> {
        if entry.shared > self.key_bytes {
            return Err("a block entry shares more than there is");
        }
        let start = self.bytes.len();
        match self.bytes[self.last..]
            .first_chunk::<SHORT_BYTES>()
            .copied()
        {
            Some(short) if entry.shared <= SHORT_BYTES => {
                push_short(&mut self.bytes, &short, entry.shared);
            }
            _ => self
                .bytes
                .extend_from_within(self.last..self.last + entry.shared),
        }
        let (from, to) = (entry.rest.start, entry.value.end);
        match block[from..].first_chunk::<SHORT_BYTES>() {
            Some(short) if to - from <= SHORT_BYTES => {
                push_short(&mut self.bytes, short, to - from)
            }
            _ => self.bytes.extend_from_slice(&block[from..to]),
        }
        self.ends.push(self.bytes.len());
        debug_assert!(self.ends.len() <= MOST_PIECES);
        (self.last, self.key_bytes) = (start, entry.shared + entry.rest.len());
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.ends.len() == MOST_PIECES || self.bytes.len() - self.from >= MOST_JOINED_BYTES
    }

    pub(super) fn show(&self, visit: &mut impl Visit) -> bool {
        let mut pieces = Pieces::new();
        let mut from = self.from;
        for end in &self.ends {
            pieces.push(&self.bytes[from..*end]);
            from = *end;
        }
        visit.puts(&pieces)
    }

    /// Keeps the last one only, with which the next shares its beginning.
    pub(super) fn forget_shown(&mut self) {
        self.bytes.drain(..self.last);
        self.ends.clear();
        (self.from, self.last) = (self.bytes.len(), 0);
    }
}
