//! Values of a kept row as bytes of a temporary file.
//!
//! ```text
//! row    number of values (4) | values
//! value  tag (1) | what the tag says, numbers little endian
//! ```
//! Neighbours: every run of rows. These bytes live as long as their statement, so they are not a format
//! that anybody has to be able to read later.
//! **Invariant**: a value is read as exactly the value that was written, its scale and case included.

use esker_types::temporal::{Date, DateTime, Time};
use esker_types::{Decimal, SqlResult, Value};

use crate::codec::damaged;

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

/// Appends a row.
pub(crate) fn write_row<'v>(row: impl ExactSizeIterator<Item = &'v Value>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(row.len() as u32).to_le_bytes());
    for value in row {
        write_value(value, out);
    }
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    let number = |out: &mut Vec<u8>, tag: u8, v: u64| {
        out.push(tag);
        out.extend_from_slice(&v.to_le_bytes());
    };
    match value {
        Value::Null => out.push(NULL),
        Value::Int(v) => number(out, INT, *v as u64),
        Value::UInt(v) => number(out, UINT, *v),
        Value::Double(v) => number(out, DOUBLE, v.to_bits()),
        Value::Date(v) => number(out, DATE, u64::from(v.packed())),
        Value::Time(v) => number(out, TIME, v.packed()),
        Value::DateTime(v) => number(out, DATETIME, v.packed()),
        Value::Decimal(d) => {
            let (precision, scale) = (d.precision(), d.scale());
            out.extend_from_slice(&[DECIMAL, precision as u8, scale]);
            d.encode(precision, scale, out);
        }
        Value::Str(s) => {
            out.push(STR);
            out.extend_from_slice(&(s.len() as u64).to_le_bytes());
            out.extend_from_slice(s);
        }
        Value::Bit(v, bits) => {
            number(out, BIT, *v);
            out.push(*bits);
        }
        Value::Label(v, text) => {
            number(out, LABEL, *v);
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text);
        }
    }
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

fn take<'b>(bytes: &mut &'b [u8], n: usize) -> Option<&'b [u8]> {
    let (head, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(head)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?))
}

fn text<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = usize::try_from(number(bytes)?).ok()?;
    take(bytes, len)
}

fn read_value(bytes: &mut &[u8]) -> Option<Value> {
    Some(match take(bytes, 1)?[0] {
        NULL => Value::Null,
        INT => Value::Int(number(bytes)? as i64),
        UINT => Value::UInt(number(bytes)?),
        DOUBLE => Value::Double(f64::from_bits(number(bytes)?)),
        DATE => Value::Date(Date::from_packed(u32::try_from(number(bytes)?).ok()?)?),
        TIME => Value::Time(Time::from_packed(number(bytes)?)?),
        DATETIME => Value::DateTime(DateTime::from_packed(number(bytes)?)?),
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
        _ => return None,
    })
}
