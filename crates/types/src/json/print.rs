//! Documents as text, as MySQL prints them.
//!
//! Neighbours: `cast` prints JSON values for clients and string functions; `func::json` has JSON_PRETTY and JSON_QUOTE.
//! **Invariants**: one space after each comma and colon; members in the order in which they are stored; a double
//! always shows that it is one.

use std::borrow::Cow;

use super::view::{Items, JsonRef, View};
use crate::cast::{write_f64, write_i64, write_u64};
use crate::func::{BASE64_LINE, encode_base64};

/// Spaces of a level of JSON_PRETTY.
const INDENT: usize = 2;
/// Digits of the fraction of seconds.
const MICROS: u8 = 6;

/// Appends the text of a value.
pub fn print(doc: JsonRef<'_>, out: &mut Vec<u8>) {
    match doc.view() {
        View::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.extend_from_slice(b", ");
                }
                print(item, out);
            }
            out.push(b']');
        }
        View::Object(items) => {
            out.push(b'{');
            for (i, (key, item)) in items.members().enumerate() {
                if i > 0 {
                    out.extend_from_slice(b", ");
                }
                quote(key, out);
                out.extend_from_slice(b": ");
                print(item, out);
            }
            out.push(b'}');
        }
        scalar => print_scalar(&scalar, out),
    }
}

fn print_scalar(v: &View<'_>, out: &mut Vec<u8>) {
    match v {
        View::Null => out.extend_from_slice(b"null"),
        View::Bool(true) => out.extend_from_slice(b"true"),
        View::Bool(false) => out.extend_from_slice(b"false"),
        View::Int(n) => write_i64(*n, out),
        View::UInt(n) => write_u64(*n, out),
        View::Double(d) => print_double(*d, out),
        View::Decimal(d) => d.write(out),
        View::String(s) => quote(s, out),
        View::Opaque(..) => {
            let mut text = Vec::new();
            bare(v, &mut text);
            quote(&text, out);
        }
        View::Date(_) | View::Time(_) | View::DateTime(..) => {
            out.push(b'"');
            bare(v, out);
            out.push(b'"');
        }
        View::Array(_) | View::Object(_) => {}
    }
}

/// Digits, and `.0` where nothing else says that it is a double.
fn print_double(d: f64, out: &mut Vec<u8>) {
    let start = out.len();
    write_f64(d, out);
    if !out[start..].iter().any(|b| matches!(b, b'.' | b'e')) {
        out.extend_from_slice(b".0");
    }
}

/// Temporal and opaque values without quotes.
fn bare(v: &View<'_>, out: &mut Vec<u8>) {
    match v {
        View::Date(d) => d.write(out),
        View::Time(t) => t.write(MICROS, out),
        View::DateTime(d, _) => d.write(MICROS, out),
        View::Opaque(kind, bytes) => {
            out.extend_from_slice(b"base64:type");
            write_u64((*kind).into(), out);
            out.push(b':');
            out.extend_from_slice(&encode_base64(bytes, BASE64_LINE));
        }
        _ => {}
    }
}

/// Appends a text in quotes, escaped.
pub fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    put_escaped(text, out);
    out.push(b'"');
}

/// Appends a text, escaped as in quotes.
pub fn put_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| matches!(b, b'"' | b'\\' | ..0x20)) {
        out.extend_from_slice(&rest[..at]);
        escape(rest[at], out);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// The text that JSON_UNQUOTE makes of a value: strings, temporal and opaque values without quotes.
pub fn unquoted(doc: JsonRef<'_>) -> Cow<'_, [u8]> {
    match doc.view() {
        View::String(s) => Cow::Borrowed(s),
        v @ (View::Date(_) | View::Time(_) | View::DateTime(..) | View::Opaque(..)) => {
            let mut out = Vec::new();
            bare(&v, &mut out);
            Cow::Owned(out)
        }
        _ => {
            let mut out = Vec::new();
            print(doc, &mut out);
            Cow::Owned(out)
        }
    }
}

/// Appends the text of JSON_PRETTY.
pub fn pretty(doc: JsonRef<'_>, out: &mut Vec<u8>) {
    indented(doc, 0, out);
}

fn indented(doc: JsonRef<'_>, level: usize, out: &mut Vec<u8>) {
    match doc.view() {
        View::Array(items) if !items.is_empty() => {
            block(items, level, (b'[', b']'), out, |i, out| {
                indented(items.get(i), level + 1, out);
            });
        }
        View::Object(items) if !items.is_empty() => {
            block(items, level, (b'{', b'}'), out, |i, out| {
                quote(items.key(i), out);
                out.extend_from_slice(b": ");
                indented(items.get(i), level + 1, out);
            });
        }
        _ => print(doc, out),
    }
}

fn block(
    items: Items<'_>,
    level: usize,
    brackets: (u8, u8),
    out: &mut Vec<u8>,
    mut item: impl FnMut(usize, &mut Vec<u8>),
) {
    let line = |level: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', level * INDENT));
    };
    out.push(brackets.0);
    for i in 0..items.len() {
        if i > 0 {
            out.push(b',');
        }
        line(level + 1, out);
        item(i, out);
    }
    line(level, out);
    out.push(brackets.1);
}

/// JSON_DEPTH().
pub fn depth(doc: JsonRef<'_>) -> usize {
    let deepest = |items: Items<'_>| items.iter().map(depth).max().unwrap_or(0) + 1;
    match doc.view() {
        View::Array(items) | View::Object(items) => deepest(items),
        _ => 1,
    }
}
