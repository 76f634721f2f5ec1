//! `CHAR(n, … USING utf16)` and its kin: characters by their code in UTF-16, UCS-2 or UTF-32.
//!
//! Neighbours: `encode` (CHAR in the character sets that Esker stores, and the bytes of numbers). No text is kept
//! in these encodings: the result is utf8mb4.
//! **Invariant**: what is not well-formed gives NULL, with MySQL's warning.

use super::call::{Call, string};
use super::encode::{char_bytes, invalid_characters};
use super::ret::string_type;
use super::{ANY_ARGS, ArgType, FuncDef, RetCtx, Signature, TOTAL, def};
use crate::collation::Collation;
use crate::error::SqlResult;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("char_using_utf16", 1, ANY_ARGS, TOTAL, ret_char, char_utf16),
    def(
        "char_using_utf16le",
        1,
        ANY_ARGS,
        TOTAL,
        ret_char,
        char_utf16le,
    ),
    def("char_using_ucs2", 1, ANY_ARGS, TOTAL, ret_char, char_ucs2),
    def("char_using_utf32", 1, ANY_ARGS, TOTAL, ret_char, char_utf32),
];

fn ret_char(args: &[ArgType], _ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = args.len() as u64 * 4;
    Ok(Signature::plain(string_type(
        chars,
        Collation::UTF8MB4_0900_AI_CI,
    )))
}

fn char_utf16(c: &Call) -> SqlResult<Value> {
    let bytes = char_bytes(c, 2)?;
    let units = bytes.chunks(2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let chars = char::decode_utf16(units).map(Result::ok);
    decoded(c, "utf16", &bytes, chars, |c| c.len_utf16() * 2)
}

fn char_utf16le(c: &Call) -> SqlResult<Value> {
    let bytes = char_bytes(c, 2)?;
    let units = bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let chars = char::decode_utf16(units).map(Result::ok);
    decoded(c, "utf16le", &bytes, chars, |c| c.len_utf16() * 2)
}

/// Characters of the basic plane; halves of others are none.
fn char_ucs2(c: &Call) -> SqlResult<Value> {
    let bytes = char_bytes(c, 2)?;
    let units = bytes.chunks(2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let chars = units.map(|u| char::from_u32(u32::from(u)));
    decoded(c, "ucs2", &bytes, chars, |_| 2)
}

fn char_utf32(c: &Call) -> SqlResult<Value> {
    let bytes = char_bytes(c, 4)?;
    let units = bytes
        .chunks(4)
        .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    decoded(c, "utf32", &bytes, units.map(char::from_u32), |_| 4)
}

/// The characters as text; NULL with the warning 1300 from the first on that is none. `width` is the number of
/// bytes that a character has in `bytes`.
fn decoded(
    c: &Call,
    charset: &str,
    bytes: &[u8],
    chars: impl Iterator<Item = Option<char>>,
    width: impl Fn(char) -> usize,
) -> SqlResult<Value> {
    let (mut text, mut read) = (String::new(), 0);
    for next in chars {
        let Some(next) = next else {
            invalid_characters(c, charset, &bytes[read..])?;
            return Ok(Value::Null);
        };
        text.push(next);
        read += width(next);
    }
    debug_assert_eq!(read, bytes.len());
    string(text)
}
