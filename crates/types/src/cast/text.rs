//! Values as text: what the text protocol sends and what string functions see of numbers.
//!
//! Neighbours: the wire layer calls [`write_text`] for every column of every row.
//! **Invariants**: nothing is allocated beyond the output buffer; doubles print as MySQL prints
//! them: the shortest digits that read back the same (six digits for FLOAT), in plain notation
//! between 1e-15 and 1e15 and wherever that shows digits behind the point, else as `1.5e20`. A text that an expression
//! goes on with has no room for more than 24 characters, which show every double in full (12 of a FLOAT): what is
//! longer is written as `1.5e-7`. [`write_text`] knows no such limit.

use std::borrow::Cow;
use std::io::Write as _;

use smallvec::SmallVec;

use crate::json;
use crate::sqltype::{NOT_FIXED_DECIMALS, SqlType, TypeKind};
use crate::temporal::digits_of;
use crate::value::ValueRef;

/// Exponents (of the first digit, 0.d form) within which numbers print without one.
const PLAIN_MAX_POINT: i32 = 15;
const PLAIN_MIN_POINT: i32 = -14;
/// Significant digits of a FLOAT.
const FLOAT_DIGITS: usize = 6;

/// Doubles with more binary places never lie exactly between two texts of 17 digits: the exact value
/// has at least 0.699 times as many digits as places. Where one does, MySQL takes the even text, as
/// formatting with a precision does, and shortest formatting may not.
const TIE_FRACTION_BITS: i32 = 26;

/// "00" to "99".
const PAIRS: [u8; 200] = {
    let mut t = [0u8; 200];
    let mut i = 0;
    while i < 100 {
        t[i * 2] = b'0' + (i / 10) as u8;
        t[i * 2 + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    t
};

/// Appends an unsigned integer.
#[inline]
pub fn write_u64(mut v: u64, out: &mut Vec<u8>) {
    let mut buf = [0u8; 20];
    let mut at = buf.len();
    while v >= 100 {
        let pair = (v % 100) as usize * 2;
        v /= 100;
        at -= 2;
        buf[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if v >= 10 {
        let pair = v as usize * 2;
        at -= 2;
        buf[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        buf[at] = b'0' + v as u8;
    }
    out.extend_from_slice(&buf[at..]);
}

/// Appends a signed integer.
#[inline]
pub fn write_i64(v: i64, out: &mut Vec<u8>) {
    if v < 0 {
        out.push(b'-');
    }
    write_u64(v.unsigned_abs(), out);
}

/// Binary places after the point (negative for multiples of a power of two).
fn fraction_bits(v: f64) -> i32 {
    let bits = v.to_bits();
    let mantissa = bits & ((1 << 52) - 1);
    let exponent = (bits >> 52 & 0x7ff) as i32;
    // 1023 is the bias, 52 the places of the mantissa; a mantissa of 0 is the hidden bit alone.
    let zeros = if mantissa == 0 {
        52
    } else {
        mantissa.trailing_zeros() as i32
    };
    1023 + 52 - exponent - zeros
}

/// Appends a double as MySQL prints a DOUBLE without scale.
pub fn write_f64(v: f64, out: &mut Vec<u8>) {
    /// Doubles below are integers with at most 15 digits: they print as such.
    const PLAIN_INTEGER: f64 = 1e15;
    if !v.is_finite() {
        // No kernel makes these and no literal is one: MySQL has no text for them either.
        out.push(b'0');
        return;
    }
    if v.abs() < PLAIN_INTEGER && v == v.trunc() && !(v == 0.0 && v.is_sign_negative()) {
        write_i64(v as i64, out);
        return;
    }
    let mut text = SmallVec::<[u8; 32]>::new();
    // Writing to a SmallVec cannot fail.
    let _ = write!(text, "{v:e}");
    if fraction_bits(v) <= TIE_FRACTION_BITS {
        let digits = text
            .iter()
            .take_while(|b| **b != b'e')
            .filter(|b| b.is_ascii_digit())
            .count();
        text.clear();
        let _ = write!(text, "{v:.precision$e}", precision = digits - 1);
    }
    layout_scientific(&text, out);
}

/// A double in at most `width` characters, with as many digits as find room: plain where that shows no fewer of them.
/// False beside it: too few of them. None: not even one finds room.
pub(super) fn f64_within(v: f64, width: usize) -> Option<(String, bool)> {
    /// Numbers with the point further to the left are not rounded to zero.
    const MIN_POINT_ROUNDED_TO_ZERO: isize = -3;
    let room = width.checked_sub(usize::from(v < 0.0))?;
    let exact = format!("{v:e}");
    let (digits, exponent) = exact.split_once('e')?;
    // The point stands before digit number `point`.
    let point = exponent.parse::<isize>().ok()? + 1;
    // A point is given room where there are more digits than one.
    let around = usize::from(digits.trim_start_matches('-').len() > 1) + 1 + exponent.len();
    let in_scientific = room.checked_sub(around).filter(|n| *n > 0);
    let whole = point.max(1) as usize;
    let in_plain = room.checked_sub(whole).map(|rest| {
        let decimals = rest.saturating_sub(1);
        (decimals, decimals as isize + point)
    });
    let text = match (in_plain, in_scientific) {
        (Some((decimals, shown)), Some(n)) if shown >= n as isize => format!("{v:.decimals$}"),
        (_, Some(n)) => format!("{v:.precision$e}", precision = n - 1),
        (Some((decimals, _)), None) if point > MIN_POINT_ROUNDED_TO_ZERO => {
            format!("{v:.decimals$}")
        }
        _ if room > 1 + exponent.len() => return Some((format!("{v:.0e}"), false)),
        _ => return None,
    };
    let (mantissa, tail) = text.split_at(text.find('e').unwrap_or(text.len()));
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    let shown = match mantissa {
        "-0" => "0",
        other => other,
    };
    Some((format!("{shown}{tail}"), true))
}

/// Appends a FLOAT without scale: at most six significant digits.
pub fn write_f32(v: f64, out: &mut Vec<u8>) {
    let mut text = SmallVec::<[u8; 32]>::new();
    // Writing to a SmallVec cannot fail.
    let _ = write!(text, "{v:.precision$e}", precision = FLOAT_DIGITS - 1);
    layout_scientific(&text, out);
}

/// Re-arranges `-d.ddde±n` the way MySQL lays digits out.
fn layout_scientific(text: &[u8], out: &mut Vec<u8>) {
    let Some(e) = text.iter().position(|b| *b == b'e') else {
        // inf and NaN, which no kernel produces.
        out.extend_from_slice(text);
        return;
    };
    let exponent: i32 = std::str::from_utf8(&text[e + 1..])
        .ok()
        .and_then(|t| t.parse().ok())
        .unwrap_or(0);
    let neg = text[0] == b'-';
    let mut digits: SmallVec<[u8; 32]> = text[usize::from(neg)..e]
        .iter()
        .copied()
        .filter(|b| *b != b'.')
        .collect();
    while digits.len() > 1 && digits.last() == Some(&b'0') {
        digits.pop();
    }
    if neg {
        out.push(b'-');
    }
    // The point stands before digit number `point`.
    let point = exponent + 1;
    let has_fraction = digits.len() as i32 > point;
    let is_plain = (PLAIN_MIN_POINT..=PLAIN_MAX_POINT).contains(&point)
        || point > PLAIN_MAX_POINT && has_fraction;
    if digits[..] == *b"0" {
        out.push(b'0');
    } else if !is_plain {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        write_i64(i64::from(exponent), out);
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', point.unsigned_abs() as usize));
        out.extend_from_slice(&digits);
    } else {
        let int_len = point as usize;
        let shown = digits.len().min(int_len);
        out.extend_from_slice(&digits[..shown]);
        out.extend(std::iter::repeat_n(b'0', int_len - shown));
        if digits.len() > int_len {
            out.push(b'.');
            out.extend_from_slice(&digits[int_len..]);
        }
    }
}

/// Appends a double of a type (FLOAT or DOUBLE, with or without scale).
fn write_double(v: f64, ty: &SqlType, out: &mut Vec<u8>) {
    if ty.decimals < NOT_FIXED_DECIMALS && matches!(ty.kind, TypeKind::Double | TypeKind::Float) {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{v:.precision$}", precision = usize::from(ty.decimals));
    } else if ty.kind == TypeKind::Float {
        write_f32(v, out);
    } else {
        write_f64(v, out);
    }
}

/// Pads what was appended since `start` with zeros to the display width (ZEROFILL).
fn zerofill(start: usize, width: u32, out: &mut Vec<u8>) {
    let missing = (width as usize).saturating_sub(out.len() - start);
    if missing > 0 {
        out.splice(start..start, std::iter::repeat_n(b'0', missing));
    }
}

/// Appends the text form of a value of type `ty`; nothing for NULL.
pub fn write_text(v: ValueRef<'_>, ty: &SqlType, out: &mut Vec<u8>) {
    let start = out.len();
    match v {
        ValueRef::Null => return,
        // What YEAR() and CAST make, which is unsigned, is a number.
        ValueRef::Int(v) if ty.kind == TypeKind::Year && !ty.unsigned => {
            zerofill_year(v, out);
            return;
        }
        ValueRef::Int(v) => write_i64(v, out),
        ValueRef::UInt(v) => write_u64(v, out),
        ValueRef::Double(v) => write_double(v, ty, out),
        ValueRef::Decimal(d) => {
            let shown = ty.shown_scale(d.scale());
            let shown = shown.and_then(|scale| d.round(scale).ok());
            shown.unwrap_or(d).write(out);
        }
        ValueRef::Str(s) | ValueRef::Label(_, s) => out.extend_from_slice(s),
        ValueRef::Json(doc) => json::print(json::JsonRef::new(doc), out),
        ValueRef::Date(d) => d.write(out),
        ValueRef::Time(t) => t.write(fsp_of(ty, t.microsecond()), out),
        ValueRef::DateTime(d) => d.write(fsp_of(ty, d.microsecond()), out),
        ValueRef::Bit(v, n) => {
            out.extend_from_slice(&v.to_be_bytes()[8 - usize::from(n).div_ceil(8).min(8)..]);
        }
    }
    if ty.zerofill {
        zerofill(start, zerofill_width(ty), out);
    }
}

/// Display width to which zeros fill up: with the point for DECIMAL.
fn zerofill_width(ty: &SqlType) -> u32 {
    match ty.kind {
        TypeKind::Decimal => ty.length + u32::from(ty.decimals > 0),
        _ => ty.length,
    }
}

/// Four digits.
fn zerofill_year(v: i64, out: &mut Vec<u8>) {
    let start = out.len();
    write_i64(v, out);
    zerofill(start, 4, out);
}

/// Fractional digits that a type shows; all that matter when the type is not a temporal one.
fn fsp_of(ty: &SqlType, micro: u32) -> u8 {
    match ty.kind {
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp => ty.decimals,
        _ => digits_of(micro),
    }
}

/// The text of a value of type `ty`, borrowed when it is a string already; empty for NULL.
pub fn to_str<'a>(v: impl Into<ValueRef<'a>>, ty: &SqlType) -> Cow<'a, [u8]> {
    match v.into() {
        ValueRef::Str(s) | ValueRef::Label(_, s) => Cow::Borrowed(s),
        v => {
            let mut out = Vec::with_capacity(24);
            write_text(v, ty, &mut out);
            if let ValueRef::Double(v) = v {
                shorten(v, ty, &mut out);
            }
            Cow::Owned(out)
        }
    }
}

/// Writes a double without fixed decimals anew where its text is longer than MySQL has room for. No digit is lost.
fn shorten(v: f64, ty: &SqlType, text: &mut Vec<u8>) {
    /// As long as the longest double in scientific notation.
    const MOST_CHARS: usize = 24;
    const MOST_CHARS_OF_FLOAT: usize = 12;
    let most = match ty.kind {
        TypeKind::Float => MOST_CHARS_OF_FLOAT,
        TypeKind::Double => MOST_CHARS,
        _ => return,
    };
    if text.len() <= most || ty.decimals < NOT_FIXED_DECIMALS {
        return;
    }
    // A FLOAT is what its six digits say.
    let shown = std::str::from_utf8(text).ok();
    let shown = shown.and_then(|t| t.parse().ok()).unwrap_or(v);
    *text = format!("{shown:e}").into_bytes();
}
