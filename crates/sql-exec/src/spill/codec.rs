//! Values of a kept row as bytes of a temporary file.
//!
//! ```text
//! row     number of values (4) | values
//! value   tag (1) | what the tag says
//! number  7 bits a byte, the lowest first, all but the last byte with the high bit set; signed ones in zigzag
//! ```
//! Neighbours: every run of rows, and the rows of hash joins in memory. These bytes live as long as their statement, so
//! they are not a format that anybody has to be able to read later. **Invariant**: a value is read as exactly the value
//! that was written, its scale and case included.

use esker_sql_catalog::codec::damaged;
use esker_sql_plan::expr::rowkey::{number, put_number};
use esker_types::temporal::{Date, DateTime, Time};
use esker_types::{Decimal, SqlResult, Value};

const NULL: u8 = 0;
const INT: u8 = 1;
const UINT: u8 = 2;
const DOUBLE: u8 = 3;
const DECIMAL: u8 = 4;
const STR: u8 = 5;
const DATE: u8 = 6;
const TIME: u8 = 7;
const DATETIME: u8 = 8;
const BIT: u8 = 9;
const LABEL: u8 = 10;
const JSON: u8 = 12;
/// Its digits fit 64 bits.
const SMALL_DECIMAL: u8 = 11;

/// Appends a row.
pub(crate) fn write_row<'v>(row: impl ExactSizeIterator<Item = &'v Value>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(row.len() as u32).to_le_bytes());
    for value in row {
        write_value(value, out);
    }
}

/// Appends values without their number.
pub(crate) fn write_values<'v>(values: impl Iterator<Item = &'v Value>, out: &mut Vec<u8>) {
    for value in values {
        write_value(value, out);
    }
}

/// Small numbers of either sign as small numbers.
#[inline]
fn zigzag(v: i64) -> u64 {
    (v << 1 ^ v >> 63) as u64
}

#[inline]
fn unzigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    let number = |out: &mut Vec<u8>, tag: u8, v: u64| {
        out.push(tag);
        put_number(v, out);
    };
    match value {
        Value::Null => out.push(NULL),
        Value::Int(v) => number(out, INT, zigzag(*v)),
        Value::UInt(v) => number(out, UINT, *v),
        Value::Double(v) => {
            out.push(DOUBLE);
            out.extend_from_slice(&v.to_bits().to_le_bytes());
        }
        Value::Date(v) => number(out, DATE, u64::from(v.packed())),
        Value::Time(v) => number(out, TIME, v.packed()),
        Value::DateTime(v) => number(out, DATETIME, v.packed()),
        Value::Decimal(d) => write_decimal(d, out),
        Value::Str(s) => {
            number(out, STR, s.len() as u64);
            out.extend_from_slice(s);
        }
        Value::Bit(v, bits) => {
            number(out, BIT, *v);
            out.push(*bits);
        }
        Value::Label(v, text) => {
            number(out, LABEL, *v);
            put_number(text.len() as u64, out);
            out.extend_from_slice(text);
        }
        Value::Json(doc) => {
            number(out, JSON, doc.len() as u64);
            out.extend_from_slice(doc);
        }
    }
}

fn write_decimal(d: &Decimal, out: &mut Vec<u8>) {
    let small = d.unscaled_i128().and_then(|v| i64::try_from(v).ok());
    if let Some(v) = small {
        out.extend_from_slice(&[SMALL_DECIMAL, d.scale()]);
        return put_number(zigzag(v), out);
    }
    let (precision, scale) = (d.precision(), d.scale());
    debug_assert!(precision <= u32::from(u8::MAX) && u32::from(scale) <= precision);
    out.extend_from_slice(&[DECIMAL, precision as u8, scale]);
    d.encode(precision, scale, out);
}

/// Reads a row that [`write_row`] wrote, from the front of `bytes`, into `row`.
pub(crate) fn read_row(bytes: &mut &[u8], row: &mut Vec<Value>) -> SqlResult<()> {
    let mut read = |bytes: &mut &[u8]| -> Option<()> {
        let count = u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?) as usize;
        row.clear();
        for _ in 0..count {
            row.push(read_value(bytes)?);
        }
        Some(())
    };
    read(bytes).ok_or_else(|| damaged("temporary row"))
}

/// Reads values that [`write_values`] wrote into slots of a row, reusing their memory.
pub(crate) fn read_values(mut bytes: &[u8], slots: &[u32], row: &mut [Value]) -> Option<()> {
    for slot in slots {
        let slot = &mut row[*slot as usize];
        match (&mut *slot, bytes.first()) {
            (Value::Str(old), Some(&STR)) => {
                bytes = &bytes[1..];
                let new = text(&mut bytes)?;
                old.clear();
                old.extend_from_slice(new);
            }
            _ => *slot = read_value(&mut bytes)?,
        }
    }
    Some(())
}

#[inline]
fn take<'b>(bytes: &mut &'b [u8], n: usize) -> Option<&'b [u8]> {
    let (head, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(head)
}

fn text<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = usize::try_from(number(bytes)?).ok()?;
    take(bytes, len)
}

fn read_value(bytes: &mut &[u8]) -> Option<Value> {
    Some(match take(bytes, 1)?[0] {
        NULL => Value::Null,
        INT => Value::Int(unzigzag(number(bytes)?)),
        UINT => Value::UInt(number(bytes)?),
        DOUBLE => {
            let bits = u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?);
            Value::Double(f64::from_bits(bits))
        }
        DATE => Value::Date(Date::from_packed(u32::try_from(number(bytes)?).ok()?)?),
        TIME => Value::Time(Time::from_packed(number(bytes)?)?),
        DATETIME => Value::DateTime(DateTime::from_packed(number(bytes)?)?),
        SMALL_DECIMAL => {
            let scale = take(bytes, 1)?[0];
            let digits = unzigzag(number(bytes)?);
            Value::Decimal(Decimal::from_i128(i128::from(digits), scale))
        }
        DECIMAL => {
            let head = take(bytes, 2)?;
            let (precision, scale) = (u32::from(head[0]), head[1]);
            let body = take(bytes, Decimal::encoded_len(precision))?;
            Value::Decimal(Decimal::decode(precision, scale, body)?)
        }
        STR => Value::Str(text(bytes)?.to_vec()),
        BIT => {
            let v = number(bytes)?;
            Value::Bit(v, take(bytes, 1)?[0])
        }
        LABEL => {
            let v = number(bytes)?;
            Value::Label(v, text(bytes)?.into())
        }
        JSON => Value::Json(text(bytes)?.to_vec()),
        _ => return None,
    })
}
