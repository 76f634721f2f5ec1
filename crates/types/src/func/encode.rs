//! Functions between representations: hexadecimal, base 64, number bases, character codes, quoting.
//!
//! Neighbours: `charset` (CHAR and CONVERT … USING), `hash` (digests), `string` (cutting), `format` (numbers with
//! separators).
//! **Invariant**: what cannot be decoded gives NULL, with a warning where MySQL gives one.

use super::call::{Call, int, string};
use super::ret::{
    binary, check_convertible, collation_of, int as ret_int, string_type, text, text_chars,
};
use super::{ArgType, CALCULATION, FuncDef, PURE, RetCtx, SESSION, Signature, TOTAL, def};
use crate::collation::{Coercibility, Collation};
use crate::ctx::Work;
use crate::error::SqlResult;
use crate::sqltype::SqlType;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("ascii", 1, 1, PURE, ret_int::<4>, ascii),
    def("ord", 1, 1, PURE, ret_int::<21>, ord),
    def("hex", 1, 1, PURE, ret_hex, hex),
    def("unhex", 1, 1, PURE, ret_unhex, unhex),
    def("to_base64", 1, 1, PURE, ret_to_base64, to_base64),
    def("from_base64", 1, 1, PURE, ret_from_base64, from_base64),
    def("bin", 1, 1, CALCULATION, text::<65>, bin),
    def("oct", 1, 1, CALCULATION, text::<65>, oct),
    def("conv", 3, 3, CALCULATION, text::<65>, conv),
    def("quote", 1, 1, TOTAL, ret_quote, quote),
    def("soundex", 1, 1, PURE, ret_soundex, soundex),
    def("export_set", 3, 5, PURE, ret_export_set, export_set),
    def("load_file", 1, 1, SESSION, binary::<16_777_216>, load_file),
];

fn ascii(c: &Call) -> SqlResult<Value> {
    int(c.bytes(0).first().copied().map_or(0, i64::from))
}

fn ord(c: &Call) -> SqlResult<Value> {
    let s = c.bytes(0);
    let charset = c.ty(0).collation.charset();
    let first = &s[..charset.first_len(&s)];
    int(first.iter().fold(0, |code, b| code << 8 | i64::from(*b)))
}

fn max_bytes(ty: &SqlType) -> u64 {
    u64::from(text_chars(ty)) * u64::from(ty.collation.charset().max_len())
}

fn ret_hex(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let ty = &args[0].ty;
    let chars = if ty.is_numeric() {
        16
    } else {
        max_bytes(ty) * 2
    };
    Ok(Signature::plain(string_type(
        chars,
        ctx.collation_connection,
    )))
}

fn hex(c: &Call) -> SqlResult<Value> {
    if matches!(c.args[0], Value::Double(_)) {
        return string(format!("{:X}", crate::cast::round_f64(c.real(0)?).0));
    }
    if c.ty(0).is_numeric() {
        return string(format!("{:X}", c.int(0)?));
    }
    let bytes = c.bytes(0);
    let mut out = Vec::with_capacity(bytes.len() * 2);
    Work::new(c.ctx.session).pieces(&bytes, |piece| {
        for b in piece {
            let digits = [b >> 4, b & 0xF];
            out.extend_from_slice(&digits.map(|d| b"0123456789ABCDEF"[usize::from(d)]));
        }
    })?;
    string(out)
}

fn ret_unhex(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let bytes = max_bytes(&args[0].ty).div_ceil(2);
    Ok(Signature::plain(string_type(bytes, Collation::BINARY)))
}

fn unhex(c: &Call) -> SqlResult<Value> {
    let s = c.text(0);
    match decode_hex(&s, &mut Work::new(c.ctx.session))? {
        Some(bytes) => string(bytes),
        None => {
            super::incorrect_string(c, &s, "unhex")?;
            Ok(Value::Null)
        }
    }
}

/// The bytes of hexadecimal digits, of which the first may be alone; `None` if there is something else.
fn decode_hex(s: &[u8], work: &mut Work<'_>) -> SqlResult<Option<Vec<u8>>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(s.len().div_ceil(2));
    let (alone, pairs) = s.split_at(s.len() % 2);
    for b in alone {
        let Some(digit) = digit(*b) else {
            return Ok(None);
        };
        out.push(digit);
    }
    for pair in pairs.chunks_exact(2) {
        work.done(pair.len())?;
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
            return Ok(None);
        };
        out.push(high << 4 | low);
    }
    Ok(Some(out))
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters in a line of TO_BASE64, ...
pub const BASE64_LINE: usize = 76;
/// ... and the bytes of many lines.
const BYTES_OF_LINES: usize = 256 * (BASE64_LINE / 4 * 3);

fn ret_to_base64(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let coded = max_bytes(&args[0].ty).div_ceil(3) * 4;
    let chars = coded + coded.saturating_sub(1) / BASE64_LINE as u64;
    Ok(Signature::plain(string_type(
        chars,
        ctx.collation_connection,
    )))
}

/// For [`encode_base64`]: one line, however long.
pub const WITHOUT_BREAKS: usize = usize::MAX;

/// Bytes in base64, with a line break behind so many characters.
pub fn encode_base64(bytes: &[u8], line: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for (i, chunk) in bytes.chunks(3).enumerate() {
        if i > 0 && i * 4 % line == 0 {
            out.push(b'\n');
        }
        let group = (0..3).fold(0_usize, |g, k| {
            g << 8 | chunk.get(k).copied().map_or(0, usize::from)
        });
        for k in 0..4 {
            let coded = BASE64[group >> (18 - 6 * k) & 63];
            out.push(if k <= chunk.len() { coded } else { b'=' });
        }
    }
    out
}

fn to_base64(c: &Call) -> SqlResult<Value> {
    let bytes = c.bytes(0);
    let mut work = Work::new(c.ctx.session);
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for lines in bytes.chunks(BYTES_OF_LINES) {
        work.done(lines.len())?;
        if !out.is_empty() {
            out.push(b'\n');
        }
        out.extend_from_slice(&encode_base64(lines, BASE64_LINE));
    }
    if c.too_large("to_base64", out.len() as u128)? {
        return Ok(Value::Null);
    }
    string(out)
}

fn ret_from_base64(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let bytes = max_bytes(&args[0].ty) * 3 / 4;
    Ok(Signature::plain(string_type(bytes, Collation::BINARY)))
}

fn from_base64(c: &Call) -> SqlResult<Value> {
    let mut work = Work::new(c.ctx.session);
    let bytes = decode_base64(&c.text(0), Padding::AtEnd, &mut work)?;
    Ok(bytes.map_or(Value::Null, Value::Str))
}

/// The value of each character; what is none has the highest bit.
const BASE64_VALUES: [u8; 256] = {
    let mut values = [0x80; 256];
    let mut at = 0;
    while at < BASE64.len() {
        values[BASE64[at] as usize] = at as u8;
        at += 1;
    }
    values
};

/// Where a text in base64 may be padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// At its end.
    AtEnd,
    /// At the end of each of several texts that stand one behind the other.
    Within,
}

/// The bytes of a text in base64, white space apart; `None` if it is none.
///
/// # Errors
/// The statement is killed or out of time.
pub fn decode_base64(
    s: &[u8],
    padding: Padding,
    work: &mut Work<'_>,
) -> SqlResult<Option<Vec<u8>>> {
    let mut coded = Vec::with_capacity(s.len());
    work.pieces(s, |piece| {
        coded.extend(piece.iter().filter(|b| !b.is_ascii_whitespace()));
    })?;
    if !coded.len().is_multiple_of(4) {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(coded.len() / 4 * 3);
    for (i, chunk) in coded.chunks(4).enumerate() {
        work.done(chunk.len())?;
        let may_end = padding == Padding::Within || (i + 1) * 4 == coded.len();
        if decode_group(chunk, may_end, &mut out).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(out))
}

/// Four characters of base64, which are padded only if they may end a text.
fn decode_group(chunk: &[u8], may_end: bool, out: &mut Vec<u8>) -> Option<()> {
    let data = chunk.iter().position(|b| *b == b'=').unwrap_or(4);
    if data < 2 || (data < 4 && (!may_end || chunk[data..].iter().any(|b| *b != b'='))) {
        return None;
    }
    let mut group = 0_u32;
    for b in &chunk[..data] {
        let value = BASE64_VALUES[usize::from(*b)];
        if value & 0x80 != 0 {
            return None;
        }
        group = group << 6 | u32::from(value);
    }
    group <<= 6 * (4 - data);
    out.extend_from_slice(&group.to_be_bytes()[1..data]);
    Some(())
}

fn bin(c: &Call) -> SqlResult<Value> {
    convert_base(c, 10, 2)
}

fn oct(c: &Call) -> SqlResult<Value> {
    convert_base(c, 10, 8)
}

fn conv(c: &Call) -> SqlResult<Value> {
    let (from, to) = (c.integer(1)?, c.integer(2)?);
    match (i64::try_from(from), i64::try_from(to)) {
        (Ok(from), Ok(to)) => convert_base(c, from, to),
        _ => Ok(Value::Null),
    }
}

/// CONV: a negative `from` reads a signed number, a negative `to` writes one.
fn convert_base(c: &Call, from: i64, to: i64) -> SqlResult<Value> {
    // A BIT is the number it holds, not its bytes.
    let text = match c.args[0] {
        Value::Bit(bits, _) => bits.to_string().into_bytes().into(),
        _ => c.text(0),
    };
    let valid = |base: i64| (2..=36).contains(&base.unsigned_abs());
    if !valid(from) || !valid(to) || text.is_empty() {
        return Ok(Value::Null);
    }
    let (number, exact) = parse_in_base(&text, from.unsigned_abs() as u32, from < 0);
    if !exact {
        let shown = crate::cast::quoted(&text);
        c.raise(
            1292,
            "22007",
            format!("Truncated incorrect DECIMAL value: '{shown}'"),
        )?;
    }
    let negative = to < 0 && (number as i64) < 0;
    let mut rest = if negative {
        (number as i64).unsigned_abs()
    } else {
        number
    };
    let mut digits = Vec::new();
    loop {
        let digit = (rest % to.unsigned_abs()) as u32;
        digits.push(char::from_digit(digit, 36).map_or(b'0', |d| d.to_ascii_uppercase() as u8));
        rest /= to.unsigned_abs();
        if rest == 0 {
            break;
        }
    }
    if negative {
        digits.push(b'-');
    }
    digits.reverse();
    string(digits)
}

/// The longest number at the start of `text`, saturating, and whether there was one that did not
/// have to be; negative numbers wrap unless `signed`, and beyond 64 bits they are 0 then.
fn parse_in_base(text: &[u8], base: u32, signed: bool) -> (u64, bool) {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = digits.iter().map_while(|b| char::from(*b).to_digit(base));
    let magnitude = digits.clone().try_fold(0_u64, |n, d| {
        n.checked_mul(u64::from(base))
            .and_then(|n| n.checked_add(u64::from(d)))
    });
    let limit = if signed {
        i64::MAX as u64 + u64::from(negative)
    } else {
        u64::MAX
    };
    let fits = magnitude.is_some_and(|m| m <= limit);
    let magnitude = magnitude.unwrap_or(u64::MAX).min(limit);
    let number = match negative {
        true if signed || fits => magnitude.wrapping_neg(),
        true => 0,
        false => magnitude,
    };
    (number, fits && digits.count() > 0)
}

fn ret_quote(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (collation, coercibility) = match collation_of(&args[..1], ctx, "quote")? {
        // Bytes, and NULL, become a text of the connection.
        (collation, _) if collation.is_binary() => {
            (ctx.collation_connection, Coercibility::Coercible)
        }
        found => found,
    };
    check_convertible(&args[0], collation)?;
    let chars = u64::from(text_chars(&args[0].ty)) * 2 + 2;
    Ok(Signature {
        ret: string_type(chars, collation),
        coercibility,
        collation,
    })
}

fn quote(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return string("NULL");
    }
    let s = c.text_in(0, c.ret_collation())?;
    let mut out = Vec::with_capacity(s.len() + 2);
    out.push(b'\'');
    Work::new(c.ctx.session).pieces(&s, |piece| {
        for b in piece {
            match b {
                b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *b]),
                0 => out.extend_from_slice(b"\\0"),
                0x1A => out.extend_from_slice(b"\\Z"),
                _ => out.push(*b),
            }
        }
    })?;
    out.push(b'\'');
    string(out)
}

/// Fewest characters of a SOUNDEX code.
const SOUNDEX_CHARS: usize = 4;

fn ret_soundex(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (collation, coercibility) = collation_of(args, ctx, "soundex")?;
    let chars = text_chars(&args[0].ty).max(SOUNDEX_CHARS as u32);
    Ok(Signature {
        ret: string_type(u64::from(chars), collation),
        coercibility,
        collation,
    })
}

fn soundex(c: &Call) -> SqlResult<Value> {
    const CODES: &[u8; 26] = b"01230120022455012623010202";
    let text = c.text(0);
    let text = String::from_utf8_lossy(&text);
    let code = |ch: char| match ch.to_ascii_uppercase() {
        up @ 'A'..='Z' => CODES[usize::from(up as u8 - b'A')],
        _ => b'0',
    };
    let is_letter = |ch: &char| ch.is_ascii_alphabetic() || *ch >= '\u{C0}';
    let mut work = Work::new(c.ctx.session);
    let mut out = Vec::new();
    let (mut last, mut chars) = (b'0', 0);
    for ch in text.chars() {
        work.done(ch.len_utf8())?;
        if !is_letter(&ch) {
            continue;
        }
        let digit = code(ch);
        if chars == 0 {
            out.extend_from_slice(ch.to_ascii_uppercase().to_string().as_bytes());
        } else if digit != b'0' && digit != last {
            out.push(digit);
        } else {
            continue;
        }
        last = digit;
        chars += 1;
    }
    if chars == 0 {
        return string("");
    }
    out.extend(std::iter::repeat_n(
        b'0',
        SOUNDEX_CHARS.saturating_sub(chars),
    ));
    string(out)
}

fn ret_export_set(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let strings = &args[1..args.len().min(4)];
    let (collation, coercibility) = collation_of(strings, ctx, "export_set")?;
    let item = text_chars(&args[1].ty).max(text_chars(&args[2].ty));
    let separator = args.get(3).map_or(1, |a| text_chars(&a.ty));
    let chars = u64::from(item) * 64 + u64::from(separator) * 63;
    Ok(Signature {
        ret: string_type(chars, collation),
        coercibility,
        collation,
    })
}

fn export_set(c: &Call) -> SqlResult<Value> {
    let bits = c.int(0)? as u64;
    let (on, off) = (c.text(1), c.text(2));
    let separator = if c.has(3) {
        c.text(3)
    } else {
        b",".as_slice().into()
    };
    let n = if c.has(4) { c.integer(4)? } else { 64 };
    let n = if (0..=64).contains(&n) { n } else { 64 };
    let items: Vec<&[u8]> = (0..n)
        .map(|i| if bits >> i & 1 == 1 { &*on } else { &*off })
        .collect();
    string(items.join(&*separator))
}

/// A file of the server's machine; NULL where the account may not read it, or it is not there.
fn load_file(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    let most = c.ctx.max_allowed_packet;
    match c.ctx.session.load_file(&c.bytes(0), most)? {
        Some(bytes) if !c.too_large("load_file", bytes.len() as u128)? => string(bytes),
        _ => Ok(Value::Null),
    }
}
