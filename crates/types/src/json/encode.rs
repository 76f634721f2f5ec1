//! Trees to bytes: docs/formats/json.md.
//!
//! Neighbours: `view` reads the bytes.
//! **Invariants**: a container takes the small form if and only if everything in it, with its header, fits 65,535
//! bytes; two passes, each linear: sizes first (in the order in which containers are written), then bytes.

use super::dom::Json;
use super::{MAX_DEPTH, MAX_KEY, field_type, key_too_long, too_big, too_deep};
use crate::ctx::{NoSession, Work};
use crate::error::SqlResult;
use crate::temporal::{Date, DateTime, Time};

pub(super) const SMALL_OBJECT: u8 = 0;
pub(super) const LARGE_OBJECT: u8 = 1;
pub(super) const SMALL_ARRAY: u8 = 2;
pub(super) const LARGE_ARRAY: u8 = 3;
pub(super) const LITERAL: u8 = 4;
pub(super) const INT16: u8 = 5;
pub(super) const UINT16: u8 = 6;
pub(super) const INT32: u8 = 7;
pub(super) const UINT32: u8 = 8;
pub(super) const INT64: u8 = 9;
pub(super) const UINT64: u8 = 10;
pub(super) const DOUBLE: u8 = 11;
pub(super) const STRING: u8 = 12;
pub(super) const OPAQUE: u8 = 15;

pub(super) const NULL_LITERAL: u8 = 0;
pub(super) const TRUE_LITERAL: u8 = 1;
pub(super) const FALSE_LITERAL: u8 = 2;

/// What a value counts for, bytes: about what its node in the tree takes.
const EACH: usize = 32;

/// A document's bytes.
///
/// # Errors
/// 3157 if it is too deep, 3151 if a key is too long, 3150 if it is larger than 4 GiB.
pub fn encode(doc: &Json) -> SqlResult<Vec<u8>> {
    encode_watched(doc, &mut Work::new(&NoSession))
}

/// The bytes of a document that may be large.
///
/// # Errors
/// As [`encode`]; the statement may not go on.
pub fn encode_watched(doc: &Json, work: &mut Work<'_>) -> SqlResult<Vec<u8>> {
    if !matches!(doc, Json::Array(_) | Json::Object(_)) {
        return Ok(encode_scalar(doc));
    }
    let mut sizes = Vec::new();
    let total = measure(doc, 1, &mut sizes, work)?;
    if u32::try_from(total).is_err() {
        return Err(too_big());
    }
    let mut writer = Writer {
        out: Vec::with_capacity(total + 1),
        sizes: sizes.into_iter(),
        work,
    };
    writer.out.push(0);
    let tag = writer.value(doc)?;
    writer.out[0] = tag;
    debug_assert_eq!(writer.out.len(), total + 1);
    Ok(writer.out)
}

/// The bytes of a scalar.
pub fn encode_scalar(doc: &Json) -> Vec<u8> {
    debug_assert!(!matches!(doc, Json::Array(_) | Json::Object(_)));
    let mut out = vec![tag_of(doc)];
    scalar(doc, &mut out);
    out
}

/// The type byte of a scalar.
fn tag_of(doc: &Json) -> u8 {
    match doc {
        Json::Null | Json::Bool(_) => LITERAL,
        Json::Int(v) if i16::try_from(*v).is_ok() => INT16,
        Json::Int(v) if i32::try_from(*v).is_ok() => INT32,
        Json::Int(_) => INT64,
        Json::UInt(v) if u16::try_from(*v).is_ok() => UINT16,
        Json::UInt(v) if u32::try_from(*v).is_ok() => UINT32,
        Json::UInt(_) => UINT64,
        Json::Double(_) => DOUBLE,
        Json::String(_) => STRING,
        Json::Array(_) => SMALL_ARRAY,
        Json::Object(_) => SMALL_OBJECT,
        Json::Decimal(_)
        | Json::Date(_)
        | Json::Time(_)
        | Json::DateTime(..)
        | Json::Opaque(..) => OPAQUE,
    }
}

/// Is the value kept in its entry, in a container of this form?
pub(super) fn inlined(tag: u8, large: bool) -> bool {
    matches!(tag, LITERAL | INT16 | UINT16) || (large && matches!(tag, INT32 | UINT32))
}

/// Bytes of a length.
fn length_size(len: usize) -> usize {
    let bits = usize::BITS - len.leading_zeros();
    (bits as usize).div_ceil(7).max(1)
}

fn push_length(mut len: usize, out: &mut Vec<u8>) {
    loop {
        let byte = (len & 0x7f) as u8;
        len >>= 7;
        if len == 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

/// Bytes of a scalar without its type.
fn scalar_size(doc: &Json) -> usize {
    let custom = |len: usize| 1 + length_size(len) + len;
    match doc {
        Json::Null | Json::Bool(_) => 1,
        Json::Int(_) | Json::UInt(_) => match tag_of(doc) {
            INT16 | UINT16 => 2,
            INT32 | UINT32 => 4,
            _ => 8,
        },
        Json::Double(_) => 8,
        Json::String(s) => length_size(s.len()) + s.len(),
        Json::Decimal(d) => custom(2 + d.binary_size()),
        Json::Date(_) | Json::Time(_) | Json::DateTime(..) => custom(8),
        Json::Opaque(_, bytes) => custom(bytes.len()),
        Json::Array(_) | Json::Object(_) => 0,
    }
}

/// Size and form of one container.
#[derive(Clone, Copy)]
struct Size {
    bytes: usize,
    large: bool,
}

/// Bytes of a value without its type; containers append their sizes, outer ones first.
fn measure(
    doc: &Json,
    depth: usize,
    sizes: &mut Vec<Size>,
    work: &mut Work<'_>,
) -> SqlResult<usize> {
    let at = sizes.len();
    // Integers of 32 bits are in the entries of large containers only.
    let (mut in_small, mut in_large, mut keys) = (0, 0, 0);
    let mut child = |doc: &Json, sizes: &mut Vec<Size>| -> SqlResult<()> {
        work.done(EACH)?;
        let size = measure(doc, depth + 1, sizes, work)?;
        let tag = tag_of(doc);
        in_small += if inlined(tag, false) { 0 } else { size };
        in_large += if inlined(tag, true) { 0 } else { size };
        Ok(())
    };
    let placeholder = Size {
        bytes: 0,
        large: false,
    };
    let (count, is_object) = match doc {
        Json::Array(items) => {
            check_depth(depth)?;
            sizes.push(placeholder);
            for item in items {
                child(item, sizes)?;
            }
            (items.len(), false)
        }
        Json::Object(members) => {
            check_depth(depth)?;
            sizes.push(placeholder);
            for (key, item) in members {
                if key.len() > MAX_KEY {
                    return Err(key_too_long());
                }
                keys += key.len();
                child(item, sizes)?;
            }
            (members.len(), true)
        }
        scalar => return Ok(scalar_size(scalar)),
    };
    let small = header_size(count, is_object, false) + keys + in_small;
    let size = if small <= usize::from(u16::MAX) {
        Size {
            bytes: small,
            large: false,
        }
    } else {
        Size {
            bytes: header_size(count, is_object, true) + keys + in_large,
            large: true,
        }
    };
    sizes[at] = size;
    Ok(size.bytes)
}

fn check_depth(depth: usize) -> SqlResult<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    Ok(())
}

/// Bytes of a number in a container of this form.
pub(super) fn word(large: bool) -> usize {
    if large { 4 } else { 2 }
}

/// Bytes of a key's entry.
pub(super) fn key_entry(large: bool) -> usize {
    word(large) + 2
}

/// Bytes of a value's entry.
pub(super) fn value_entry(large: bool) -> usize {
    word(large) + 1
}

/// Bytes before the first key or value.
pub(super) fn header_size(count: usize, is_object: bool, large: bool) -> usize {
    let keys = if is_object { key_entry(large) } else { 0 };
    2 * word(large) + count * (keys + value_entry(large))
}

struct Writer<'w, 's> {
    out: Vec<u8>,
    sizes: std::vec::IntoIter<Size>,
    work: &'w mut Work<'s>,
}

impl Writer<'_, '_> {
    /// Appends a value; returns its type.
    fn value(&mut self, doc: &Json) -> SqlResult<u8> {
        match doc {
            Json::Array(items) => self.container(items.len(), None, items.iter()),
            Json::Object(members) => {
                self.container(members.len(), Some(members), members.iter().map(|m| &m.1))
            }
            other => {
                scalar(other, &mut self.out);
                Ok(tag_of(other))
            }
        }
    }

    fn container<'a>(
        &mut self,
        count: usize,
        members: Option<&[(Vec<u8>, Json)]>,
        items: impl Iterator<Item = &'a Json>,
    ) -> SqlResult<u8> {
        let size = self
            .sizes
            .next()
            .expect("every container has been measured");
        let large = size.large;
        let start = self.out.len();
        self.number(count, large);
        self.number(size.bytes, large);
        let mut entry = start + header_size(count, false, large);
        if let Some(members) = members {
            entry += count * key_entry(large) - count * value_entry(large);
            self.keys(members, start, large);
        } else {
            self.out.resize(entry, 0);
            entry -= count * value_entry(large);
        }
        for item in items {
            self.work.done(EACH)?;
            let tag = self.item(item, start, entry, large)?;
            self.out[entry] = tag;
            entry += value_entry(large);
        }
        Ok(match (members.is_some(), large) {
            (true, false) => SMALL_OBJECT,
            (true, true) => LARGE_OBJECT,
            (false, false) => SMALL_ARRAY,
            (false, true) => LARGE_ARRAY,
        })
    }

    /// Entries of keys, room for those of values, and keys.
    fn keys(&mut self, members: &[(Vec<u8>, Json)], start: usize, large: bool) {
        let header = header_size(members.len(), true, large);
        let mut offset = header;
        for (key, _) in members {
            self.number(offset, large);
            // `measure` has refused longer ones.
            self.out
                .extend_from_slice(&(key.len() as u16).to_le_bytes());
            offset += key.len();
        }
        self.out.resize(start + header, 0);
        members
            .iter()
            .for_each(|(key, _)| self.out.extend_from_slice(key));
    }

    /// Appends a value, or writes it into its entry; returns its type.
    fn item(&mut self, item: &Json, start: usize, entry: usize, large: bool) -> SqlResult<u8> {
        let tag = tag_of(item);
        let mut field = Vec::with_capacity(4);
        if inlined(tag, large) {
            scalar(item, &mut field);
            self.out[entry + 1..entry + 1 + field.len()].copy_from_slice(&field);
            return Ok(tag);
        }
        let offset = self.out.len() - start;
        let bytes = offset.to_le_bytes();
        self.out[entry + 1..entry + 1 + word(large)].copy_from_slice(&bytes[..word(large)]);
        self.value(item)
    }

    fn number(&mut self, v: usize, large: bool) {
        self.out.extend_from_slice(&v.to_le_bytes()[..word(large)]);
    }
}

/// Appends a scalar without its type.
fn scalar(doc: &Json, out: &mut Vec<u8>) {
    match doc {
        Json::Null => out.push(NULL_LITERAL),
        Json::Bool(b) => out.push(if *b { TRUE_LITERAL } else { FALSE_LITERAL }),
        Json::Int(v) => out.extend_from_slice(&v.to_le_bytes()[..scalar_size(doc)]),
        Json::UInt(v) => out.extend_from_slice(&v.to_le_bytes()[..scalar_size(doc)]),
        Json::Double(v) => out.extend_from_slice(&v.to_le_bytes()),
        Json::String(s) => {
            push_length(s.len(), out);
            out.extend_from_slice(s);
        }
        Json::Decimal(d) => {
            custom(field_type::NEWDECIMAL, 2 + d.binary_size(), out);
            out.push(d.binary_precision());
            out.push(d.scale());
            d.write_binary(out);
        }
        Json::Date(d) => packed(field_type::DATE, pack_date(*d), out),
        Json::Time(t) => packed(field_type::TIME, pack_time(*t), out),
        Json::DateTime(d, timestamp) => {
            let kind = if *timestamp {
                field_type::TIMESTAMP
            } else {
                field_type::DATETIME
            };
            packed(kind, pack_datetime(*d), out);
        }
        Json::Opaque(kind, bytes) => {
            custom(*kind, bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        Json::Array(_) | Json::Object(_) => debug_assert!(false, "not a scalar"),
    }
}

fn custom(kind: u8, len: usize, out: &mut Vec<u8>) {
    out.push(kind);
    push_length(len, out);
}

fn packed(kind: u8, v: i64, out: &mut Vec<u8>) {
    custom(kind, 8, out);
    out.extend_from_slice(&v.to_le_bytes());
}

/// Bits of the microseconds in MySQL's packed temporal values.
pub(super) const MICRO_BITS: u32 = 24;

/// year * 13 + month, day, hour, minute, second, microsecond.
fn pack_datetime(d: DateTime) -> i64 {
    let date = d.date();
    let day = i64::from(date.year() * 13 + date.month()) << 5 | i64::from(date.day());
    let time = i64::from(d.hour()) << 12 | i64::from(d.minute()) << 6 | i64::from(d.second());
    (day << 17 | time) << MICRO_BITS | i64::from(d.microsecond())
}

fn pack_date(d: Date) -> i64 {
    pack_datetime(d.at_midnight())
}

fn pack_time(t: Time) -> i64 {
    let whole = i64::from(t.hour()) << 12 | i64::from(t.minute()) << 6 | i64::from(t.second());
    let v = whole << MICRO_BITS | i64::from(t.microsecond());
    if t.is_negative() { -v } else { v }
}
