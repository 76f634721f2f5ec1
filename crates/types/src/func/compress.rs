//! COMPRESS, UNCOMPRESS and UNCOMPRESSED_LENGTH: zlib behind the length of the text.
//!
//! Neighbours: crate `flate2` compresses.
//! **Invariants**: a compressed text begins with its length, 4 bytes little-endian, and never ends with a space, which
//! a CHAR column would lose; the empty text is itself. No more than `max_allowed_packet` bytes are made.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::call::{Call, int, string};
use super::ret::{int as ret_int, string_type, text_chars};
use super::{ArgType, FuncDef, PURE, RetCtx, Signature, def};
use crate::collation::Collation;
use crate::ctx::{MANY_BYTES, Work};
use crate::error::SqlResult;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("compress", 1, 1, PURE, ret_compress, compress),
    def("uncompress", 1, 1, PURE, ret_uncompress, uncompress),
    def(
        "uncompressed_length",
        1,
        1,
        PURE,
        ret_int::<10>,
        uncompressed_length,
    ),
];

/// Bytes of the length in front.
const HEADER: usize = 4;
/// Bits of the length that count.
const LENGTH_BITS: u32 = 0x3FFF_FFFF;
/// Compressing a byte takes as long as work on so many.
const COMPRESSING: usize = 16;

/// Most bytes that zlib makes of so many.
fn bound(bytes: u64) -> u64 {
    bytes + (bytes >> 12) + (bytes >> 14) + (bytes >> 25) + 13
}

fn ret_compress(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = &args[0].ty;
    let bytes = u64::from(text_chars(ty)) * u64::from(ty.collation.charset().max_len());
    let most = bound(bytes) + HEADER as u64 + 1;
    Ok(Signature::plain(string_type(most, Collation::BINARY)))
}

fn ret_uncompress(_: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let most = ctx.max_allowed_packet;
    Ok(Signature::plain(string_type(most, Collation::BINARY)))
}

fn compress(c: &Call) -> SqlResult<Value> {
    let text = c.bytes(0);
    if text.is_empty() {
        return string(Vec::new());
    }
    c.ctx
        .session
        .go_on(text.len().saturating_mul(COMPRESSING))?;
    let room = bound(text.len() as u64) as usize + HEADER + 1;
    let mut out = Vec::with_capacity(room);
    out.extend_from_slice(&(text.len() as u32 & LENGTH_BITS).to_le_bytes());
    if !deflate(&text, &mut out, &mut Work::new(c.ctx.session))? {
        c.warn(1257, NO_MEMORY);
        return Ok(Value::Null);
    }
    if out.last() == Some(&b' ') {
        out.push(b'.');
    }
    match c.too_large("compress", out.len() as u128)? {
        true => Ok(Value::Null),
        false => string(out),
    }
}

/// Compresses piece by piece into what `out` has room for; false if it fails.
fn deflate(text: &[u8], out: &mut Vec<u8>, work: &mut Work<'_>) -> SqlResult<bool> {
    let mut zlib = Compress::new(Compression::default(), true);
    let mut rest = text;
    loop {
        let (piece, behind) = rest.split_at(rest.len().min(MANY_BYTES));
        work.done(piece.len() * COMPRESSING)?;
        let (flush, expected) = match behind.is_empty() {
            true => (FlushCompress::Finish, Status::StreamEnd),
            false => (FlushCompress::None, Status::Ok),
        };
        let done = zlib.compress_vec(piece, out, flush);
        if !done.is_ok_and(|done| done == expected) {
            return Ok(false);
        }
        if behind.is_empty() {
            return Ok(true);
        }
        rest = behind;
    }
}

const NO_MEMORY: &str = "ZLIB: Not enough memory";
const NO_ROOM: &str = "ZLIB: Not enough room in the output buffer (probably, length of uncompressed data was corrupted)";
const DAMAGED: &str = "ZLIB: Input data corrupted";

/// The length that a compressed text says it has.
fn length(compressed: &[u8]) -> Option<usize> {
    let (header, data) = compressed.split_first_chunk::<HEADER>()?;
    let length = u32::from_le_bytes(*header) & LENGTH_BITS;
    (!data.is_empty()).then_some(length as usize)
}

fn uncompress(c: &Call) -> SqlResult<Value> {
    let compressed = c.bytes(0);
    if compressed.is_empty() {
        return string(Vec::new());
    }
    let Some(length) = length(&compressed) else {
        c.warn(1259, DAMAGED);
        return Ok(Value::Null);
    };
    let most = c.ctx.max_allowed_packet;
    if length as u64 > most {
        let message = format!(
            "Uncompressed data size too large; the maximum size is {most} (probably, length of uncompressed data was \
             corrupted)"
        );
        c.warn(1256, message);
        return Ok(Value::Null);
    }
    c.ctx.session.go_on(length.max(compressed.len()))?;
    let work = &mut Work::new(c.ctx.session);
    match inflate(&compressed[HEADER..], length, work)? {
        Inflated::Whole(text) => return string(text),
        Inflated::TooLong => c.warn(1258, NO_ROOM),
        Inflated::Damaged => c.warn(1259, DAMAGED),
    }
    Ok(Value::Null)
}

/// What a compressed text turns out to be.
enum Inflated {
    Whole(Vec<u8>),
    /// Longer than it says.
    TooLong,
    Damaged,
}

/// Compressed bytes that are taken at once: at most a thousand times as many are made of them.
const PIECE_BYTES: usize = 128;

fn inflate(compressed: &[u8], length: usize, work: &mut Work<'_>) -> SqlResult<Inflated> {
    // With a byte more than is wanted, what ends the text is read in any case.
    let mut out = Vec::with_capacity(length + 1);
    let mut zlib = Decompress::new(true);
    let mut rest = compressed;
    loop {
        let piece = &rest[..rest.len().min(PIECE_BYTES)];
        let flush = match piece.len() == rest.len() {
            true => FlushDecompress::Finish,
            false => FlushDecompress::None,
        };
        let (taken, made) = (zlib.total_in(), out.len());
        let done = zlib.decompress_vec(piece, &mut out, flush);
        let (taken, made) = ((zlib.total_in() - taken) as usize, out.len() - made);
        work.done(taken + made)?;
        rest = &rest[taken..];
        match done {
            _ if out.len() > length => return Ok(Inflated::TooLong),
            Ok(Status::StreamEnd) => return Ok(Inflated::Whole(out)),
            Ok(_) if taken + made > 0 && !rest.is_empty() => {}
            _ => return Ok(Inflated::Damaged),
        }
    }
}

fn uncompressed_length(c: &Call) -> SqlResult<Value> {
    let compressed = c.bytes(0);
    if compressed.is_empty() {
        return int(0);
    }
    let length = length(&compressed);
    if length.is_none() {
        c.warn(1259, DAMAGED);
    }
    int(length.unwrap_or(0) as i64)
}
