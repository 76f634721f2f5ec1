//! Digests and random identifiers.
//!
//! Neighbours: `encode` (other representations); randomness and the clock come from the session.
//! **Invariant**: UUID() never returns a value twice in one process.

use std::sync::atomic::{AtomicU64, Ordering};

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::call::{Call, int, string};
use super::ret::{binary, const_int, int_null, string_type, system_text, text, uint};
use super::{ArgType, FuncDef, PURE, RetCtx, SESSION, Signature, TOTAL, def};
use crate::ctx::Work;
use crate::error::SqlResult;
use crate::errors;
use crate::hex::lower_hex;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("md5", 1, 1, PURE, text::<32>, md5),
    def("sha", 1, 1, PURE, text::<40>, sha1),
    def("sha1", 1, 1, PURE, text::<40>, sha1),
    def("sha2", 2, 2, PURE, ret_sha2, sha2),
    def("crc32", 1, 1, PURE, uint::<10>, crc32),
    def("random_bytes", 1, 1, SESSION, binary::<1024>, random_bytes),
    def("uuid", 0, 0, SESSION, system_text::<36>, uuid),
    def("uuid_short", 0, 0, SESSION, uint::<21>, uuid_short),
    def("is_uuid", 1, 1, PURE, int_null::<1>, is_uuid),
    def("uuid_to_bin", 1, 2, TOTAL, binary::<16>, uuid_to_bin),
    def("bin_to_uuid", 1, 2, TOTAL, text::<36>, bin_to_uuid),
];

fn digest<D: Digest>(c: &Call) -> SqlResult<Value> {
    let mut digest = D::new();
    let mut work = Work::new(c.ctx.session);
    work.pieces(&c.bytes(0), |piece| digest.update(piece))?;
    string(lower_hex(&digest.finalize()))
}

fn md5(c: &Call) -> SqlResult<Value> {
    digest::<Md5>(c)
}

fn sha1(c: &Call) -> SqlResult<Value> {
    digest::<Sha1>(c)
}

fn ret_sha2(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = match const_int(args.get(1)) {
        Some(0 | 256) => 64,
        Some(224) => 56,
        Some(384) => 96,
        _ => 128,
    };
    Ok(Signature::plain(string_type(
        chars,
        ctx.collation_connection,
    )))
}

fn sha2(c: &Call) -> SqlResult<Value> {
    match c.int(1)? {
        0 | 256 => digest::<Sha256>(c),
        224 => digest::<Sha224>(c),
        384 => digest::<Sha384>(c),
        512 => digest::<Sha512>(c),
        _ => {
            super::wrong_parameters(c, "sha2");
            Ok(Value::Null)
        }
    }
}

fn crc32(c: &Call) -> SqlResult<Value> {
    let mut sum = crc32fast::Hasher::new();
    Work::new(c.ctx.session).pieces(&c.bytes(0), |piece| sum.update(piece))?;
    Ok(Value::UInt(u64::from(sum.finalize())))
}

fn random_bytes(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    let n = c.integer(0)?;
    if !(1..=1024).contains(&n) {
        return Err(errors::out_of_range("length", "random_bytes"));
    }
    let words = (0..(n as usize).div_ceil(8)).map(|_| c.ctx.session.random().to_le_bytes());
    let mut out = words.collect::<Vec<_>>().concat();
    out.truncate(n as usize);
    string(out)
}

/// 100 ns units between the start of the Gregorian calendar and 1970.
const UUID_EPOCH: u64 = 0x01B2_1DD2_1381_4000;

/// A version 1 UUID: time, made unique, and a random node.
fn uuid(c: &Call) -> SqlResult<Value> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    static NODE: AtomicU64 = AtomicU64::new(0);
    let now = c.ctx.session.wall_micros().max(0) as u64 * 10 + UUID_EPOCH;
    let previous = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |l| {
        Some(now.max(l + 1))
    });
    let time = now.max(previous.unwrap_or(0) + 1);
    // The node is drawn once; its multicast bit says that it is no network card.
    let _ = NODE.compare_exchange(
        0,
        c.ctx.session.random() | 1 << 40,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    let drawn = NODE.load(Ordering::Relaxed);
    let (node, sequence) = (drawn & 0xFFFF_FFFF_FFFF, drawn >> 48 & 0x3FFF | 0x8000);
    let (low, mid, high) = (
        time as u32,
        (time >> 32) as u16,
        (time >> 48 & 0xFFF) | 0x1000,
    );
    string(format!(
        "{low:08x}-{mid:04x}-{high:04x}-{sequence:04x}-{node:012x}"
    ))
}

fn uuid_short(c: &Call) -> SqlResult<Value> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = (c.ctx.session.wall_micros().max(0) as u64 / 1_000_000) << 24;
    let _ = NEXT.compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed);
    Ok(Value::UInt(NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// The 16 bytes of a UUID in any of MySQL's three spellings.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let plain = match text.len() {
        38 => text.strip_prefix(b"{")?.strip_suffix(b"}")?,
        _ => text,
    };
    let dashes = [8, 13, 18, 23];
    let digits: Vec<u8> = match plain.len() {
        36 if dashes.iter().all(|i| plain[*i] == b'-') => plain
            .iter()
            .enumerate()
            .filter(|(i, _)| !dashes.contains(i))
            .map(|(_, b)| *b)
            .collect(),
        32 if text.len() == 32 => plain.to_vec(),
        _ => return None,
    };
    let mut out = [0; 16];
    for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
        let digit = |b: u8| char::from(b).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(out)
}

fn is_uuid(c: &Call) -> SqlResult<Value> {
    int(i64::from(parse_uuid(&c.text(0)).is_some()))
}

/// Are the parts of the time swapped? NULL is no.
fn swaps_time(c: &Call) -> SqlResult<bool> {
    Ok(c.has(1) && !c.null(1) && c.int(1)? != 0)
}

fn uuid_to_bin(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    let text = c.text(0);
    let Some(u) = parse_uuid(&text) else {
        return Err(super::bad_string(&text, "uuid_to_bin"));
    };
    string(if swaps_time(c)? {
        [&u[6..8], &u[4..6], &u[..4], &u[8..]].concat()
    } else {
        u.to_vec()
    })
}

fn bin_to_uuid(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    let bytes = c.text(0);
    if bytes.len() != 16 {
        return Err(super::bad_string(&bytes, "bin_to_uuid"));
    }
    let u = if swaps_time(c)? {
        [&bytes[4..8], &bytes[2..4], &bytes[..2], &bytes[8..]].concat()
    } else {
        bytes.to_vec()
    };
    let parts = [&u[..4], &u[4..6], &u[6..8], &u[8..10], &u[10..]];
    string(parts.map(lower_hex).join("-"))
}
