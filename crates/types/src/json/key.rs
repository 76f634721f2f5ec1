//! Bytes whose order is that of JSON values: for sorting, grouping and hashing.
//!
//! ```text
//! rank of the type, then
//!   number    00 negative | 01 zero | 02 positive; exponent, 2 bytes; digits, ended by 00 (all inverted if negative)
//!   string    bytes, 00 escaped as 00 FF, ended by 00 01
//!   boolean   1 byte; dates and times 8 bytes; opaque: its type, then like a string
//!   array     01 and a key for each element, then 00
//!   object    number of members, 4 bytes; for each its key like a string, its value's key
//! ```
//! Neighbours: `order` compares without keys; rows are sorted by these.
//! **Invariants**: no key is a prefix of another one; two values have the same key if and only if they are equal
//! (but for doubles that DECIMAL rounds). Keys of scalars are in multi-valued indexes on disk and never change
//! (docs/formats/key.md); those of arrays and objects are not.

use std::io::Write as _;

use super::order::rank;
use super::view::{JsonRef, View};

/// Added to exponents so that they are not negative.
const EXPONENT_BIAS: i32 = 0x4000;

/// Appends the key of a value.
pub fn sort_key(doc: JsonRef<'_>, out: &mut Vec<u8>) {
    let v = doc.view();
    out.push(rank(&v));
    match v {
        View::Null => {}
        View::Int(n) => number(&n.to_string(), out),
        View::UInt(n) => number(&n.to_string(), out),
        View::Decimal(d) => number(&d.to_string(), out),
        View::Double(d) => number(&format!("{d:e}"), out),
        View::Bool(b) => out.push(b.into()),
        View::String(s) => text(s, out),
        View::Date(d) => out.extend_from_slice(&u64::from(d.packed()).to_be_bytes()),
        View::Time(t) => out.extend_from_slice(&t.packed().to_be_bytes()),
        View::DateTime(d, _) => out.extend_from_slice(&d.packed().to_be_bytes()),
        View::Opaque(kind, bytes) => {
            out.push(kind);
            text(bytes, out);
        }
        View::Array(items) => {
            for item in items.iter() {
                out.push(1);
                sort_key(item, out);
            }
            out.push(0);
        }
        View::Object(items) => {
            out.extend_from_slice(&(items.len() as u32).to_be_bytes());
            for (key, value) in items.members() {
                text(key, out);
                sort_key(value, out);
            }
        }
    }
}

fn text(s: &[u8], out: &mut Vec<u8>) {
    for byte in s {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 1]);
}

/// A number from its decimal text, with or without a point and an exponent.
fn number(text: &str, out: &mut Vec<u8>) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let zeros = digits.bytes().take_while(|b| *b == b'0').count();
    let significant = digits[zeros..].trim_end_matches('0');
    if significant.is_empty() {
        out.push(1);
        return;
    }
    let exponent = exponent.parse::<i32>().unwrap_or(0) + whole.len() as i32 - zeros as i32;
    out.push(if negative { 0 } else { 2 });
    let start = out.len();
    out.extend_from_slice(&((exponent + EXPONENT_BIAS) as u16).to_be_bytes());
    // Writing to a Vec cannot fail.
    let _ = out.write_all(significant.as_bytes());
    out.push(0);
    if negative {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
}
