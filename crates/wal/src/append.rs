//! Appending: sizes a record, gets its place, fills it, in one part or as a chain of parts.
//!
//! Neighbours: `buffer` gives places, `format::record` knows the layout.
//!
//! **Invariants**
//! - All checks that can refuse a record come before its place is reserved; a reserved place is
//!   filled.
//! - The parts of a chained record lie in one reservation.

use crate::buffer::{Refused, RingWriter};
use crate::error::WalError;
use crate::format::{
    CHAIN_BYTES, HEAD_BYTES, MAX_TREES, RECORD_ALIGN, RecordKind, chain_bit, put_varint, varint_len,
};
use crate::lsn::{Lsn, LsnRange};
use crate::shared::Shared;

/// Largest record, all parts together.
pub const MAX_RECORD_BYTES: u64 = 4 << 30;

/// Bytes of a chunk before its payload.
const CHUNK_HEAD_BYTES: u64 = HEAD_BYTES + CHAIN_BYTES;

/// A record to be written.
pub(crate) struct Draft<'a> {
    kind: RecordKind,
    trees: &'a [u32],
    payload: &'a [&'a [u8]],
    tree_bytes: u64,
    payload_bytes: u64,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(kind: RecordKind, trees: &'a [u32], payload: &'a [&'a [u8]]) -> Self {
        let tree_bytes = varint_len(trees.len() as u32)
            + trees.iter().map(|tree| varint_len(*tree)).sum::<u64>();
        let payload_bytes = payload.iter().map(|piece| piece.len() as u64).sum();
        Self {
            kind,
            trees,
            payload,
            tree_bytes,
            payload_bytes,
        }
    }

    fn put_trees(&self, writer: &mut RingWriter<'_>) {
        let mut buf = [0; 5];
        writer.put(put_varint(self.trees.len() as u32, &mut buf));
        for tree in self.trees {
            writer.put(put_varint(*tree, &mut buf));
        }
    }

    fn too_large(&self, limit: u64) -> WalError {
        WalError::RecordTooLarge {
            bytes: self.payload_bytes.saturating_add(self.tree_bytes),
            limit,
        }
    }
}

/// Appends a record and returns its place.
pub(crate) fn append(shared: &Shared, draft: &Draft<'_>) -> Result<LsnRange, WalError> {
    if draft.trees.len() > MAX_TREES {
        return Err(draft.too_large(MAX_TREES as u64));
    }
    let len = HEAD_BYTES + draft.tree_bytes + draft.payload_bytes;
    if len <= shared.sizes.part {
        append_whole(shared, draft, len)
    } else {
        append_chain(shared, draft)
    }
}

fn append_whole(shared: &Shared, draft: &Draft<'_>, len: u64) -> Result<LsnRange, WalError> {
    let range = reserve(shared, len.next_multiple_of(RECORD_ALIGN), false)?;
    // SAFETY: `reserve` has just given this place to this call, wholly inside the window.
    let mut writer = unsafe { RingWriter::new(&shared.buffer.ring, range.start, len as u32) };
    writer.put(&[draft.kind as u8]);
    draft.put_trees(&mut writer);
    for piece in draft.payload {
        writer.put(piece);
    }
    writer.finish();
    Ok(range)
}

fn append_chain(shared: &Shared, draft: &Draft<'_>) -> Result<LsnRange, WalError> {
    let part = shared.sizes.part;
    // The tree list stays in one part, with room for some payload.
    if draft.tree_bytes > part / 2 {
        return Err(draft.too_large(part / 2));
    }
    if draft.payload_bytes > MAX_RECORD_BYTES {
        return Err(draft.too_large(MAX_RECORD_BYTES));
    }
    let in_chunk = part - CHUNK_HEAD_BYTES;
    let in_last = part - CHUNK_HEAD_BYTES - draft.tree_bytes;
    let chunks = (draft.payload_bytes - in_last).div_ceil(in_chunk);
    // All chunks are full but perhaps the last one, if the trees leave little room behind it.
    let chunked = (chunks * in_chunk).min(draft.payload_bytes);
    let last_chunk = chunked - (chunks - 1) * in_chunk;
    let last = CHUNK_HEAD_BYTES + draft.tree_bytes + (draft.payload_bytes - chunked);
    let padded = |len: u64| len.next_multiple_of(RECORD_ALIGN);
    let total = (chunks - 1) * part + padded(CHUNK_HEAD_BYTES + last_chunk) + padded(last);

    let range = reserve(shared, total, true)?;
    let mut pieces = Pieces {
        rest: draft.payload,
        at: 0,
    };
    let mut at = range.start;
    for i in 0..chunks {
        let payload = if i + 1 < chunks { in_chunk } else { last_chunk };
        let len = CHUNK_HEAD_BYTES + payload;
        let mut writer = part_writer(shared, at, len)?;
        writer.put(&[chain_bit(None)]);
        writer.put(&range.start.0.to_le_bytes());
        pieces.copy(payload, &mut writer);
        writer.finish();
        at = at.plus(padded(len));
    }
    let mut writer = part_writer(shared, at, last)?;
    writer.put(&[chain_bit(Some(draft.kind))]);
    writer.put(&range.start.0.to_le_bytes());
    draft.put_trees(&mut writer);
    pieces.copy(draft.payload_bytes - chunked, &mut writer);
    writer.finish();
    assert_eq!(
        at.plus(padded(last)),
        range.end,
        "a reserved place is filled exactly"
    );
    Ok(range)
}

/// The writer for a part of a streamed reservation, when the window has reached it.
fn part_writer(shared: &Shared, at: Lsn, len: u64) -> Result<RingWriter<'_>, WalError> {
    let end = at.plus(len.next_multiple_of(RECORD_ALIGN));
    while let Err(blocked) = shared.buffer.window(end)? {
        // The place is given and will be filled, whatever is refused to others meanwhile.
        shared.wait_for_room(blocked)?;
    }
    // SAFETY: the range is inside the caller's reservation, which is filled part after part, and in
    // the window.
    Ok(unsafe { RingWriter::new(&shared.buffer.ring, at, len as u32) })
}

fn reserve(shared: &Shared, bytes: u64, streamed: bool) -> Result<LsnRange, WalError> {
    let mut refused = false;
    loop {
        let blocked = match shared.buffer.reserve(bytes, streamed)? {
            Ok(start) => {
                return Ok(LsnRange {
                    start,
                    end: start.plus(bytes),
                });
            }
            Err(blocked) => blocked,
        };
        // The refusal may have been about more than is needed here, so it counts only if there is
        // still no room.
        if refused && matches!(blocked.why, Refused::Disk { .. }) {
            return Err(WalError::NoSpace {
                dir: shared.files.dir().to_path_buf(),
            });
        }
        refused = shared.wait_for_room(blocked)?;
    }
}

/// Walks over the pieces of a payload.
struct Pieces<'a> {
    rest: &'a [&'a [u8]],
    /// Position in the first of them.
    at: usize,
}

impl Pieces<'_> {
    fn copy(&mut self, mut bytes: u64, writer: &mut RingWriter<'_>) {
        while bytes > 0 {
            let piece = &self.rest[0][self.at..];
            let n = (piece.len() as u64).min(bytes) as usize;
            writer.put(&piece[..n]);
            bytes -= n as u64;
            self.at += n;
            if n == piece.len() {
                self.rest = &self.rest[1..];
                self.at = 0;
            }
        }
    }
}
