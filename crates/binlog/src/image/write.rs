//! Values as fields of a row image.
//!
//! Neighbours: `event::rows` writes NULL bits; `read` is the inverse. **Invariants**: TIMESTAMPs come in UTC; a value
//! that does not fit its column is an error, for the row it came from is damaged.

use std::borrow::Cow;

use esker_types::collation::Charset;
use esker_types::{Date, DateTime, Decimal, Time, ValueRef};

use super::{Form, ShapeColumn};
use crate::bytes::Put;

/// A value that its column cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("value of column '{0}' does not fit a row image")]
pub struct NotInImage(pub String);

/// Digits of a decimal that make one group, and bytes of a group with fewer.
const GROUP_DIGITS: usize = 9;
const GROUP_BYTES: [usize; GROUP_DIGITS + 1] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
/// Digits of the longest decimal.
const MAX_DIGITS: usize = 65;

impl ShapeColumn {
    /// Appends a value that is not NULL.
    #[inline]
    pub fn write(&self, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), NotInImage> {
        self.write_field(value, out)
            .ok_or_else(|| NotInImage(self.name.to_string()))
    }

    #[inline]
    fn write_field(&self, value: ValueRef<'_>, out: &mut Vec<u8>) -> Option<()> {
        match (self.form, value) {
            (Form::Int { bytes, .. }, ValueRef::Int(v)) => out.uint(v as u64, bytes.into()),
            (Form::Int { bytes, .. }, ValueRef::UInt(v)) => out.uint(v, bytes.into()),
            (Form::Float, ValueRef::Double(v)) => out.bytes(&(v as f32).to_le_bytes()),
            (Form::Double, ValueRef::Double(v)) => out.bytes(&v.to_le_bytes()),
            (Form::Decimal { precision, scale }, ValueRef::Decimal(v)) => {
                decimal(v, precision, scale, out)?;
            }
            (Form::Bit { bits }, ValueRef::Bit(v, _)) => {
                out.uint_be(v, usize::from(bits).div_ceil(8))
            }
            (Form::Year, ValueRef::Int(0)) => out.u8(0),
            (Form::Year, ValueRef::Int(year)) => out.u8(u8::try_from(year - 1900).ok()?),
            (Form::Date, ValueRef::Date(v)) => date(v, out),
            (Form::Time { fsp }, ValueRef::Time(v)) => time(v, fsp, out),
            (Form::DateTime { fsp }, ValueRef::DateTime(v)) => datetime(v, fsp, out),
            (Form::Timestamp { fsp }, ValueRef::DateTime(v)) => timestamp(v, fsp, out)?,
            (Form::Char { max_bytes } | Form::VarChar { max_bytes }, ValueRef::Str(text)) => {
                let text = match self.form {
                    Form::Char { .. } => without_padding(text, self.charset),
                    _ => text,
                };
                let text = self.in_charset(text);
                if text.len() > max_bytes as usize {
                    return None;
                }
                out.uint(text.len() as u64, Form::string_prefix(max_bytes));
                out.bytes(&text);
            }
            (Form::Blob { prefix }, ValueRef::Str(text)) => {
                let text = self.in_charset(text);
                if text.len() as u64 >> (8 * u32::from(prefix)) != 0 {
                    return None;
                }
                out.uint(text.len() as u64, prefix.into());
                out.bytes(&text);
            }
            (Form::Json, ValueRef::Json(document)) => {
                out.uint(document.len() as u64, 4);
                out.bytes(document);
            }
            (Form::Geometry, ValueRef::Str(bytes)) => {
                out.uint(bytes.len() as u64, 4);
                out.bytes(bytes);
            }
            (Form::Enum { bytes } | Form::Set { bytes }, ValueRef::Label(v, _)) => {
                out.uint(v, bytes.into());
            }
            _ => return None,
        }
        Some(())
    }

    fn in_charset<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        match self.charset {
            Charset::Binary => Cow::Borrowed(text),
            charset => charset.encode_lossy(text),
        }
    }
}

/// CHAR without the spaces, BINARY without the zeros that it is padded with.
fn without_padding(text: &[u8], charset: Charset) -> &[u8] {
    let padding = if charset == Charset::Binary { 0 } else { b' ' };
    let keep = text.iter().rposition(|b| *b != padding);
    &text[..keep.map_or(0, |at| at + 1)]
}

fn date(v: Date, out: &mut Vec<u8>) {
    out.uint(v.packed().into(), 3);
}

/// Bytes of a fraction with this many digits.
pub(super) fn fraction_bytes(fsp: u8) -> usize {
    usize::from(fsp.div_ceil(2))
}

/// Microseconds in one unit of the stored fraction: two digits a byte.
pub(super) fn fraction_unit(fsp: u8) -> u64 {
    10u64.pow(6 - 2 * fraction_bytes(fsp) as u32)
}

fn fraction(micro: u32, fsp: u8, out: &mut Vec<u8>) {
    out.uint_be(u64::from(micro) / fraction_unit(fsp), fraction_bytes(fsp));
}

fn time(v: Time, fsp: u8, out: &mut Vec<u8>) {
    let whole = u64::from(v.hour()) << 12 | u64::from(v.minute()) << 6 | u64::from(v.second());
    let bytes = fraction_bytes(fsp);
    let units = u64::from(v.microsecond()) / fraction_unit(fsp);
    let magnitude = whole << (8 * bytes) | units;
    let zero = 1 << (8 * bytes + 23);
    let biased = match v.is_negative() {
        true => zero - magnitude,
        false => zero + magnitude,
    };
    out.uint_be(biased, 3 + bytes);
}

fn datetime(v: DateTime, fsp: u8, out: &mut Vec<u8>) {
    let day = v.date();
    let date = u64::from(day.year() * 13 + day.month()) << 5 | u64::from(day.day());
    let time = u64::from(v.hour()) << 12 | u64::from(v.minute()) << 6 | u64::from(v.second());
    out.uint_be(1 << 39 | date << 17 | time, 5);
    fraction(v.microsecond(), fsp, out);
}

fn timestamp(utc: DateTime, fsp: u8, out: &mut Vec<u8>) -> Option<()> {
    let seconds = match utc.is_zero() {
        true => 0,
        false => u32::try_from(utc.micros_as_utc()?.div_euclid(1_000_000)).ok()?,
    };
    out.uint_be(seconds.into(), 4);
    fraction(utc.microsecond(), fsp, out);
    Some(())
}

/// Bytes of a DECIMAL.
pub(super) fn decimal_bytes(precision: u8, scale: u8) -> usize {
    let part = |digits: u8| {
        let digits = usize::from(digits);
        digits / GROUP_DIGITS * 4 + GROUP_BYTES[digits % GROUP_DIGITS]
    };
    part(precision - scale) + part(scale)
}

/// Bytes of a group of this many digits.
pub(super) fn group_bytes(digits: usize) -> usize {
    GROUP_BYTES[digits]
}

/// Digits in groups of nine, from the decimal point outwards, big-endian; the first bit is inverted, and all are if the
/// number is negative.
fn decimal(v: Decimal, precision: u8, scale: u8, out: &mut Vec<u8>) -> Option<()> {
    if !v.fits(precision.into(), scale) {
        return None;
    }
    let digits = padded_digits(&v, precision, scale)?;
    let digits = &digits[..usize::from(precision)];
    let (whole, decimals) = digits.split_at(usize::from(precision - scale));
    let start = out.len();
    let (odd, groups) = whole.split_at(whole.len() % GROUP_DIGITS);
    for group in std::iter::once(odd).chain(groups.chunks(GROUP_DIGITS)) {
        put_group(group, out);
    }
    for group in decimals.chunks(GROUP_DIGITS) {
        put_group(group, out);
    }
    if v.is_negative() {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    *out.get_mut(start)? ^= 0x80;
    debug_assert_eq!(out.len() - start, decimal_bytes(precision, scale));
    Some(())
}

fn put_group(digits: &[u8], out: &mut Vec<u8>) {
    let number = digits.iter().fold(0, |n, digit| n * 10 + u64::from(*digit));
    out.uint_be(number, GROUP_BYTES[digits.len()]);
}

/// All digits that the column has, without point and sign.
fn padded_digits(v: &Decimal, precision: u8, scale: u8) -> Option<[u8; MAX_DIGITS]> {
    let mut text = Vec::with_capacity(MAX_DIGITS + 2);
    v.abs().write(&mut text);
    let (whole, decimals) = match text.iter().position(|b| *b == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (&text[..], &[][..]),
    };
    let whole = match whole {
        b"0" => &[],
        whole => whole,
    };
    let mut digits = [0; MAX_DIGITS];
    let point = usize::from(precision - scale);
    let from = point.checked_sub(whole.len())?;
    let places = digits[from..point].iter_mut().zip(whole);
    places.for_each(|(digit, byte)| *digit = byte - b'0');
    let places = digits[point..usize::from(precision)]
        .iter_mut()
        .zip(decimals);
    places.for_each(|(digit, byte)| *digit = byte - b'0');
    Some(digits)
}
