//! Assignment to character, binary, ENUM, SET and BIT columns.
//!
//! Neighbours: `column` dispatches here; `collation` knows characters.
//! **Invariants**: what is returned for a character column is valid UTF-8 that exists in the
//! column's character set; CHAR has no trailing spaces, BINARY(n) exactly n bytes.

use std::borrow::Cow;
use std::sync::Arc;

use super::column::{Target, decimal_as_64_bits, integer_from_decimal};
use super::text::{f64_within, to_str, write_text};
use crate::collation::{BadChar, Charset, char_count, char_len, char_offset};
use crate::decimal::is_space;
use crate::error::SqlResult;
use crate::sqltype::{NOT_FIXED_DECIMALS, SqlType, TypeKind};
use crate::value::{Value, ValueRef};

/// Bytes shown of a malformed string.
const BAD_BYTES_SHOWN: usize = 6;

/// The digits of a number as a CHAR or VARCHAR stores it: of FLOAT and DOUBLE those of the double, whatever the type
/// shows, in at most `width` characters, of bits those of the number that they are. None for other values.
pub fn stored_digits(v: &Value, width: u32) -> Option<Vec<u8>> {
    match v {
        Value::Bit(bits, _) => Some(bits.to_string().into_bytes()),
        Value::Double(v) => {
            let mut text = Vec::new();
            write_text(
                ValueRef::Double(*v),
                &SqlType::double(NOT_FIXED_DECIMALS),
                &mut text,
            );
            let is_long = text.len() > width as usize;
            let shorter = is_long.then(|| f64_within(*v, width as usize)).flatten();
            Some(shorter.map_or(text, |(shorter, _)| shorter.into_bytes()))
        }
        _ => None,
    }
}

/// The text of a value as a column would take it.
fn text_of(v: Value, from: &SqlType, to: &SqlType) -> Vec<u8> {
    let is_plain = byte_limit(to).is_none();
    match v {
        Value::Str(s) => s,
        Value::Label(_, s) => s.into_vec(),
        Value::Bit(bits, _) if is_plain => bits.to_string().into_bytes(),
        Value::Double(_) if is_plain => {
            let mut text = Vec::new();
            write_text(v.as_ref(), &SqlType::double(NOT_FIXED_DECIMALS), &mut text);
            text
        }
        Value::Decimal(d) if !from.zerofill => d.to_string().into_bytes(),
        // The column alone says how long a double may be.
        Value::Double(_) if from.kind == TypeKind::Double => {
            let mut text = Vec::new();
            write_text(v.as_ref(), from, &mut text);
            text
        }
        v => to_str(&v, from).into_owned(),
    }
}

pub(super) fn to_string_column(t: &Target<'_>, v: Value, from: &SqlType) -> SqlResult<Value> {
    let is_string = matches!(v, Value::Str(_) | Value::Label(..));
    let from_binary = (matches!(v, Value::Bit(..)) && byte_limit(t.ty).is_some())
        || (is_string && from.collation.is_binary() && from.kind != TypeKind::Null);
    let double = match v {
        Value::Double(v) => Some(v),
        _ => None,
    };
    let mut text = text_of(v, from, t.ty);
    // Doubles are rounded to what there is room for.
    if let Some(v) = double
        && byte_limit(t.ty).is_none()
        && text.len() > t.ty.length as usize
        && let Some((shorter, is_enough)) = f64_within(v, t.ty.length as usize)
    {
        if !is_enough {
            t.too_long()?;
        }
        text = shorter.into_bytes();
    }
    if t.ty.collation.is_binary() {
        return to_binary_column(t, text, if is_string { from } else { t.ty });
    }
    let charset = t.ty.collation.charset();
    let (mut text, clean) = to_charset(t, text, charset, from_binary)?;
    let limit = byte_limit(t.ty);
    let fits = match limit {
        // Every character takes a byte at least.
        None => text.len() <= t.ty.length as usize || char_count(&text) <= t.ty.length as usize,
        Some(bytes) => charset.encoded_len(&text) <= bytes,
    };
    if !fits {
        let cut = match limit {
            None => char_offset(&text, t.ty.length as usize),
            Some(bytes) => cut_at_bytes(&text, charset, bytes),
        };
        if !clean {
            // One message is enough.
        } else if text[cut..].iter().any(|b| *b != b' ') {
            t.too_long()?;
        } else if t.ty.kind != TypeKind::Char {
            t.note_truncated();
        }
        text.truncate(cut);
    }
    if t.ty.kind == TypeKind::Char {
        let kept = text.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1);
        text.truncate(kept);
    }
    Ok(Value::Str(text))
}

/// Largest content of the TEXT and BLOB family, in bytes; `None` for CHAR and VARCHAR.
fn byte_limit(ty: &SqlType) -> Option<usize> {
    match ty.kind {
        TypeKind::TinyText => Some(255),
        TypeKind::Text => Some(65_535),
        TypeKind::MediumText => Some(16_777_215),
        TypeKind::LongText => Some(u32::MAX as usize),
        _ => None,
    }
}

/// Offset of the last character border at which at most `limit` stored bytes precede.
fn cut_at_bytes(text: &[u8], charset: Charset, limit: usize) -> usize {
    let (mut at, mut stored) = (0, 0);
    while at < text.len() {
        let len = char_len(&text[at..]);
        stored += charset.encoded_len(&text[at..at + len]);
        if stored > limit {
            break;
        }
        at += len;
    }
    at
}

fn to_binary_column(t: &Target<'_>, mut bytes: Vec<u8>, from: &SqlType) -> SqlResult<Value> {
    let source = from.collation.charset();
    let is_utf8 = matches!(
        source,
        Charset::Binary | Charset::Utf8mb4 | Charset::Utf8mb3
    );
    if !is_utf8 && let Cow::Owned(stored) = source.encode_lossy(&bytes) {
        bytes = stored;
    }
    let limit = byte_limit(t.ty).unwrap_or(t.ty.length as usize);
    if bytes.len() > limit {
        t.too_long()?;
        bytes.truncate(limit);
    }
    if t.ty.kind == TypeKind::Char {
        bytes.resize(limit, 0);
    }
    Ok(Value::Str(bytes))
}

/// Reads bytes in the character set, as [`to_charset`] does. A first unit that is not whole is filled with zeros.
fn from_bytes(t: &Target<'_>, bytes: Vec<u8>, charset: Charset) -> SqlResult<(Vec<u8>, bool)> {
    let len = bytes.len();
    let whole = match charset.whole_units(&bytes) {
        Cow::Owned(whole) => whole,
        Cow::Borrowed(_) => bytes,
    };
    let bad = match charset.decode(&whole) {
        Ok(Cow::Owned(decoded)) => return Ok((decoded, true)),
        Ok(Cow::Borrowed(_)) => return Ok((whole, true)),
        Err(bad) => bad,
    };
    let padding = whole.len() - len;
    t.incorrect_string(&printable(&whole, BadChar(bad.0.max(padding))))?;
    let text = charset.decode_lossy(&whole[..bad.0]);
    Ok((text.into_owned(), false))
}

/// Makes the text one of the character set: bytes are read in it, text must exist in it. False
/// when it was not, which was raised.
fn to_charset(
    t: &Target<'_>,
    text: Vec<u8>,
    charset: Charset,
    from_binary: bool,
) -> SqlResult<(Vec<u8>, bool)> {
    if from_binary {
        return from_bytes(t, text, charset);
    }
    // A parameter's bytes are the client's: nobody has looked at them before.
    let bad = match charset.encode(&text).map(|_| ()) {
        Ok(()) => return Ok((text, true)),
        Err(bad) => bad,
    };
    t.incorrect_string(&printable(&text, bad))?;
    if matches!(charset, Charset::Utf8mb3 | Charset::Utf8mb4) {
        let mut text = text;
        text.truncate(bad.0);
        return Ok((text, false));
    }
    let stored = charset.encode_lossy(&text);
    Ok((charset.decode_lossy(&stored).into_owned(), false))
}

/// The malformed bytes as messages show them: at most six, `\xHH` unless printable.
fn printable(text: &[u8], bad: BadChar) -> String {
    use std::fmt::Write as _;
    let rest = &text[bad.0..];
    let mut out = String::new();
    for b in rest.iter().take(BAD_BYTES_SHOWN) {
        if (b' '..=b'~').contains(b) {
            out.push(char::from(*b));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{b:02X}");
        }
    }
    if rest.len() > BAD_BYTES_SHOWN {
        out.push_str("...");
    }
    out
}

/// A number for ENUM, SET and BIT: cut, except that decimals are rounded for BIT.
fn plain_integer(v: ValueRef<'_>, round_decimals: bool) -> Option<i128> {
    Some(match v {
        ValueRef::Int(n) => n.into(),
        ValueRef::UInt(n) | ValueRef::Bit(n, _) => n.into(),
        ValueRef::Double(d) => d.trunc() as i128,
        ValueRef::Decimal(d) if round_decimals => integer_from_decimal(&d),
        ValueRef::Decimal(d) => d
            .truncate(0)
            .map_or(i128::MAX, |d| integer_from_decimal(&d)),
        _ => return None,
    })
}

/// Without trailing spaces.
fn trimmed(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1)]
}

/// A text that is an unsigned number as a whole.
fn whole_number(text: &[u8]) -> Option<u64> {
    let skip = text.iter().take_while(|b| is_space(**b)).count();
    let digits = &text[skip..];
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
        .then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

fn label(labels: &[Arc<str>], index: u64) -> Value {
    let text = usize::try_from(index)
        .ok()
        .and_then(|i| i.checked_sub(1))
        .and_then(|i| labels.get(i))
        .map_or("", |l| &**l);
    Value::Label(index, text.as_bytes().into())
}

pub(super) fn to_enum(
    t: &Target<'_>,
    v: ValueRef<'_>,
    from: &SqlType,
    labels: &[Arc<str>],
) -> SqlResult<Value> {
    let count = labels.len() as i128;
    if let Some(n) = plain_integer(v, false) {
        if (1..=count).contains(&n) {
            return Ok(label(labels, n as u64));
        }
        t.truncated()?;
        return Ok(label(labels, 0));
    }
    let text = to_str(v, from);
    let wanted = trimmed(&text);
    let found = labels
        .iter()
        .position(|l| t.ty.collation.eq(l.as_bytes(), wanted));
    if let Some(i) = found {
        return Ok(label(labels, i as u64 + 1));
    }
    match whole_number(wanted) {
        Some(n) if i128::from(n) <= count => Ok(label(labels, n)),
        _ => {
            t.truncated()?;
            Ok(label(labels, 0))
        }
    }
}

/// The text of a SET's bits.
fn set_value(labels: &[Arc<str>], bits: u64) -> Value {
    let chosen: Vec<&str> = labels
        .iter()
        .enumerate()
        .filter(|(i, _)| bits >> i & 1 == 1)
        .map(|(_, l)| &**l)
        .collect();
    Value::Label(bits, chosen.join(",").into_bytes().into())
}

pub(super) fn to_set(
    t: &Target<'_>,
    v: ValueRef<'_>,
    from: &SqlType,
    labels: &[Arc<str>],
) -> SqlResult<Value> {
    let all = if labels.len() >= 64 {
        u64::MAX
    } else {
        (1 << labels.len()) - 1
    };
    if let Some(n) = plain_integer(v, false) {
        // A double becomes a signed integer first.
        let most = match v {
            ValueRef::Double(_) => i64::MAX.into(),
            _ => u64::MAX.into(),
        };
        let bits = n.clamp(i64::MIN.into(), most) as u64;
        if bits & !all != 0 || i128::from(bits) != n {
            t.truncated()?;
        }
        return Ok(set_value(labels, bits & all));
    }
    let text = to_str(v, from);
    let wanted = trimmed(&text);
    let (mut bits, mut unknown) = (0u64, false);
    if !wanted.is_empty() {
        for part in wanted.split(|b| *b == b',') {
            match labels
                .iter()
                .position(|l| t.ty.collation.eq(l.as_bytes(), part))
            {
                Some(i) => bits |= 1 << i,
                None => unknown = true,
            }
        }
    }
    if unknown && bits == 0 {
        // Unlike that of an ENUM, the number has no spaces behind it.
        match whole_number(&text) {
            Some(n) if n & !all == 0 => return Ok(set_value(labels, n)),
            _ => {}
        }
    }
    if unknown {
        t.truncated()?;
    }
    Ok(set_value(labels, bits))
}

/// A text's bytes in its own character set: bytes that are no characters stay what they are.
fn bytes_of<'t>(text: &'t [u8], ty: &SqlType) -> Cow<'t, [u8]> {
    match ty.is_string() && !ty.collation.charset().stores_utf8() {
        true => ty.collation.charset().encode_lossy(text),
        false => Cow::Borrowed(text),
    }
}

pub(super) fn to_bit(t: &Target<'_>, v: ValueRef<'_>, from: &SqlType) -> SqlResult<Value> {
    let width = t.ty.length.clamp(1, 64) as u8;
    let max = u64::MAX >> (64 - width);
    if let ValueRef::Decimal(d) = v
        && decimal_as_64_bits(t, &d, true)? < i64::MIN.into()
    {
        t.out_of_range()?;
        return Ok(Value::Bit(0, width));
    }
    let number = match v {
        ValueRef::Label(number, _) => Some(number.into()),
        ValueRef::Time(_) | ValueRef::DateTime(_) => Some(super::to_int(t.ctx, v)?),
        v => plain_integer(v, true),
    };
    let bits = match number {
        Some(n) if (i128::from(i64::MIN)..=u64::MAX.into()).contains(&n) => Some(n as u64),
        Some(_) => None,
        None => super::literal_bytes_to_u64(&bytes_of(&to_str(v, from), from)),
    };
    match bits {
        Some(bits) if bits <= max => Ok(Value::Bit(bits, width)),
        _ => {
            t.too_many_bits()?;
            Ok(Value::Bit(max, width))
        }
    }
}
