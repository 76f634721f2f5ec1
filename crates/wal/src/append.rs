//! Appending: sizes a record, gets its place, fills it, in one part or as a chain of parts.
//!
//! Neighbours: `buffer` gives places, `format::record` knows the layout. A [`Host`] says what to do
//! when there is no room: `shared` asks the flush, `memory` empties the buffer itself.
//!
//! **Invariants**
//! - All checks that can refuse a record come before its place is reserved; a reserved place is
//!   filled.
//! - The parts of a chained record lie in one reservation.

use crate::buffer::{Blocked, LogBuffer, Refused, RingWriter, Stream};
use crate::config::Sizes;
use crate::error::WalError;
use crate::format::{
    CHAIN_BYTES, HEAD_BYTES, MAX_TREES, RECORD_ALIGN, RecordKind, chain_byte, put_varint,
    varint_len, whole_byte,
};
use crate::lsn::{Lsn, LsnRange};

/// Largest record, all parts together.
pub const MAX_RECORD_BYTES: u64 = 4 << 30;

/// Bytes of a chunk before its payload.
const CHUNK_HEAD_BYTES: u64 = HEAD_BYTES + CHAIN_BYTES;

/// A record to be appended.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    kind: RecordKind,
    trees: &'a [u32],
    payload: &'a [&'a [u8]],
    tree_bytes: u64,
    payload_bytes: u64,
    has_attachment: bool,
}

impl<'a> Draft<'a> {
    /// `trees` are the ids of the trees that the record touches; its payload is the concatenation of the pieces.
    pub fn new(kind: RecordKind, trees: &'a [u32], payload: &'a [&'a [u8]]) -> Self {
        let tree_bytes = varint_len(trees.len() as u32)
            + trees.iter().map(|tree| varint_len(*tree)).sum::<u64>();
        let payload_bytes = payload.iter().map(|piece| piece.len() as u64).sum();
        Self {
            kind,
            trees,
            payload,
            tree_bytes,
            payload_bytes,
            has_attachment: false,
        }
    }

    /// Says that the payload ends with an attachment: a tail of the log that looks for attachments must not pass it
    /// over.
    #[must_use]
    pub fn with_attachment(mut self) -> Self {
        self.has_attachment = true;
        self
    }

    /// The kind and the trees.
    #[inline]
    fn put_head(&self, writer: &mut RingWriter<'_>) {
        let kind = whole_byte(self.kind, self.has_attachment);
        // The usual case, in one copy: kind, count and one short id, or none at all.
        match self.trees {
            [] => writer.put(&[kind, 0]),
            [tree @ ..0x80] => writer.put(&[kind, 1, *tree as u8]),
            _ => {
                writer.put(&[kind]);
                self.put_trees(writer);
            }
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

/// The log that is appended to.
pub(crate) trait Host {
    fn sizes(&self) -> &Sizes;

    fn buffer(&self) -> &LogBuffer;

    /// Waits until a blocked append can be tried again. True if meanwhile space was looked for and not
    /// found, for this append or for another one.
    fn wait_for_room(&self, blocked: Blocked) -> Result<bool, WalError>;

    /// The error of who finds no space.
    fn no_space(&self) -> WalError;
}

/// Appends a record and returns its place.
#[inline]
pub(crate) fn append(host: &impl Host, draft: &Draft<'_>) -> Result<LsnRange, WalError> {
    if draft.trees.len() > MAX_TREES {
        return Err(draft.too_large(MAX_TREES as u64));
    }
    let len = HEAD_BYTES + draft.tree_bytes + draft.payload_bytes;
    if len <= host.sizes().part {
        append_whole(host, draft, len)
    } else {
        append_chain(host, draft)
    }
}

#[inline]
fn append_whole(host: &impl Host, draft: &Draft<'_>, len: u64) -> Result<LsnRange, WalError> {
    let buffer = host.buffer();
    let fill = |start| {
        // SAFETY: `insert` has just given this place to this call, wholly inside the window, and
        // calls this once.
        let mut writer = unsafe { RingWriter::new(&buffer.ring, start, len as u32) };
        draft.put_head(&mut writer);
        for piece in draft.payload {
            writer.put(piece);
        }
        writer.finish();
    };
    let bytes = len.next_multiple_of(RECORD_ALIGN);
    let start = match buffer.insert(bytes, &fill) {
        Some(start) => start,
        None => retry(host, bytes, false, || buffer.insert(bytes, &fill))?,
    };
    Ok(LsnRange {
        start,
        end: start.plus(bytes),
    })
}

/// How a record is cut into parts: chunks of payload, and the part that ends it.
struct Cut {
    chunks: u64,
    /// Payload of all chunks but the last.
    in_chunk: u64,
    /// Payload of the last chunk.
    last_chunk: u64,
    /// Payload of the part behind the chunks.
    rest: u64,
    /// Length of that part.
    last: u64,
    /// The length of it all, with padding.
    total: u64,
}

fn cut(part: u64, draft: &Draft<'_>) -> Result<Cut, WalError> {
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
    let rest = draft.payload_bytes - chunked;
    let last = CHUNK_HEAD_BYTES + draft.tree_bytes + rest;
    let total = (chunks - 1) * part + padded(CHUNK_HEAD_BYTES + last_chunk) + padded(last);
    Ok(Cut {
        chunks,
        in_chunk,
        last_chunk,
        rest,
        last,
        total,
    })
}

fn padded(len: u64) -> u64 {
    len.next_multiple_of(RECORD_ALIGN)
}

fn append_chain(host: &impl Host, draft: &Draft<'_>) -> Result<LsnRange, WalError> {
    let cut = cut(host.sizes().part, draft)?;
    let buffer = host.buffer();
    let stream = match buffer.begin_stream(cut.total) {
        Some(stream) => stream,
        None => retry(host, cut.total, true, || buffer.begin_stream(cut.total))?,
    };
    let start = stream.start;
    let mut pieces = Pieces {
        rest: draft.payload,
        at: 0,
    };
    let mut at = start;
    for i in 0..cut.chunks {
        let payload = if i + 1 < cut.chunks {
            cut.in_chunk
        } else {
            cut.last_chunk
        };
        at = put_part(host, &stream, at, CHUNK_HEAD_BYTES + payload, |writer| {
            writer.put(&[chain_byte(None, draft.has_attachment)]);
            writer.put(&start.0.to_le_bytes());
            pieces.copy(payload, writer);
        })?;
    }
    let end = put_part(host, &stream, at, cut.last, |writer| {
        writer.put(&[chain_byte(Some(draft.kind), draft.has_attachment)]);
        writer.put(&start.0.to_le_bytes());
        draft.put_trees(writer);
        pieces.copy(cut.rest, writer);
    })?;
    assert_eq!(
        end,
        start.plus(cut.total),
        "a reserved place is filled exactly"
    );
    buffer.end_stream(stream);
    Ok(LsnRange { start, end })
}

/// Fills a part of a stream when the window has reached it. Returns where the next one starts.
fn put_part(
    host: &impl Host,
    stream: &Stream,
    at: Lsn,
    len: u64,
    fill: impl FnOnce(&mut RingWriter<'_>),
) -> Result<Lsn, WalError> {
    let end = at.plus(padded(len));
    let buffer = host.buffer();
    while let Some(blocked) = buffer.window(stream, end)? {
        // The place is given and will be filled, whatever is refused to others meanwhile.
        host.wait_for_room(blocked)?;
    }
    // SAFETY: the range is inside the caller's reservation, which is filled part after part, and in
    // the window.
    let mut writer = unsafe { RingWriter::new(&buffer.ring, at, len as u32) };
    fill(&mut writer);
    writer.finish();
    buffer.part_filled(stream, end);
    Ok(end)
}

/// Waits for room and attempts again, until there is a place or an error.
#[cold]
fn retry<T>(
    host: &impl Host,
    bytes: u64,
    streamed: bool,
    attempt: impl Fn() -> Option<T>,
) -> Result<T, WalError> {
    let mut refused = false;
    loop {
        if let Some(blocked) = host.buffer().blocked(bytes, streamed)? {
            // The refusal may have been about more than is needed here, so it counts only if there
            // is still no room.
            if refused && matches!(blocked.why, Refused::Disk { .. }) {
                return Err(host.no_space());
            }
            refused = host.wait_for_room(blocked)?;
        }
        if let Some(place) = attempt() {
            return Ok(place);
        }
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
