//! Documents read in place: finding an element or a member reads nothing of the others.
//!
//! Neighbours: `encode` wrote the bytes; everything that reads documents goes through [`JsonRef`].
//! **Invariant**: any bytes can be read: what cannot be is null, and containers have no elements beyond their bytes.

use super::dom::{Json, key_order};
use super::encode::{
    DOUBLE, FALSE_LITERAL, INT16, INT32, INT64, LARGE_ARRAY, LARGE_OBJECT, LITERAL, MICRO_BITS,
    OPAQUE, SMALL_ARRAY, SMALL_OBJECT, STRING, TRUE_LITERAL, UINT16, UINT32, UINT64, header_size,
    inlined, key_entry, value_entry, word,
};
use super::{MAX_DEPTH, field_type};
use crate::ctx::{NoSession, Work};
use crate::decimal::Decimal;
use crate::error::SqlResult;
use crate::temporal::{Date, DateTime, Time};

/// What a value of a tree counts for, bytes.
const EACH: usize = 32;
/// Most bytes of a length: 32 bits, seven in each.
const MAX_LENGTH_BYTES: usize = 5;

/// Can these bytes of somebody else be a document: no deeper than [`MAX_DEPTH`], and no value in several places, so
/// that reading all of it takes no longer than it is long?
pub fn is_sound(document: &[u8]) -> bool {
    fn within(value: JsonRef<'_>, depth: usize, values_left: &mut usize) -> bool {
        let (View::Array(items) | View::Object(items)) = value.view() else {
            return true;
        };
        depth < MAX_DEPTH
            && items.iter().all(|item| {
                let left = values_left.checked_sub(1);
                left.is_some_and(|left| {
                    *values_left = left;
                    within(item, depth + 1, values_left)
                })
            })
    }
    // Each value has an entry of three bytes at least.
    within(JsonRef::new(document), 0, &mut (document.len() / 3))
}

/// A value somewhere in a document.
#[derive(Debug, Clone, Copy)]
pub struct JsonRef<'a> {
    tag: u8,
    /// From where the value begins; maybe more than the value.
    data: &'a [u8],
}

/// A value, its type known.
#[derive(Debug, Clone, Copy)]
pub enum View<'a> {
    /// null
    Null,
    /// true, false
    Bool(bool),
    /// See [`Json::Int`].
    Int(i64),
    /// See [`Json::UInt`].
    UInt(u64),
    /// See [`Json::Double`].
    Double(f64),
    /// See [`Json::Decimal`].
    Decimal(Decimal),
    /// See [`Json::String`].
    String(&'a [u8]),
    /// See [`Json::Date`].
    Date(Date),
    /// See [`Json::Time`].
    Time(Time),
    /// See [`Json::DateTime`].
    DateTime(DateTime, bool),
    /// See [`Json::Opaque`].
    Opaque(u8, &'a [u8]),
    /// An array.
    Array(Items<'a>),
    /// An object.
    Object(Items<'a>),
}

/// The elements of an array, or the members of an object.
#[derive(Debug, Clone, Copy)]
pub struct Items<'a> {
    data: &'a [u8],
    count: usize,
    object: bool,
    large: bool,
}

impl<'a> JsonRef<'a> {
    /// JSON null.
    pub const NULL: JsonRef<'static> = JsonRef {
        tag: LITERAL,
        data: &[0],
    };

    /// The root of a document.
    pub fn new(document: &'a [u8]) -> Self {
        match document.split_first() {
            Some((tag, data)) => Self { tag: *tag, data },
            None => JsonRef::NULL,
        }
    }

    /// The value.
    pub fn view(self) -> View<'a> {
        self.read().unwrap_or(View::Null)
    }

    /// Where the value lies: two values of a document are the same one if this is.
    pub fn address(self) -> *const u8 {
        self.data.as_ptr()
    }

    fn number<const N: usize>(self) -> Option<[u8; N]> {
        self.data.first_chunk().copied()
    }

    fn read(self) -> Option<View<'a>> {
        Some(match self.tag {
            SMALL_OBJECT | LARGE_OBJECT => View::Object(self.items()?),
            SMALL_ARRAY | LARGE_ARRAY => View::Array(self.items()?),
            LITERAL => match *self.data.first()? {
                TRUE_LITERAL => View::Bool(true),
                FALSE_LITERAL => View::Bool(false),
                _ => View::Null,
            },
            INT16 => View::Int(i16::from_le_bytes(self.number()?).into()),
            INT32 => View::Int(i32::from_le_bytes(self.number()?).into()),
            INT64 => View::Int(i64::from_le_bytes(self.number()?)),
            UINT16 => View::UInt(u16::from_le_bytes(self.number()?).into()),
            UINT32 => View::UInt(u32::from_le_bytes(self.number()?).into()),
            UINT64 => View::UInt(u64::from_le_bytes(self.number()?)),
            DOUBLE => View::Double(f64::from_le_bytes(self.number()?)),
            STRING => View::String(counted(self.data)?),
            OPAQUE => {
                let (kind, rest) = self.data.split_first()?;
                opaque(*kind, counted(rest)?)?
            }
            _ => return None,
        })
    }

    fn items(self) -> Option<Items<'a>> {
        let large = matches!(self.tag, LARGE_ARRAY | LARGE_OBJECT);
        let object = matches!(self.tag, SMALL_OBJECT | LARGE_OBJECT);
        let count = number(self.data, 0, large)?;
        let size = number(self.data, word(large), large)?;
        let data = self.data.get(..size)?;
        (header_size(count, object, large) <= size).then_some(Items {
            data,
            count,
            object,
            large,
        })
    }

    /// The bytes of a document that has this value as its root.
    pub fn to_document(self) -> Vec<u8> {
        let len = self.size().unwrap_or(0);
        let mut out = Vec::with_capacity(1 + len);
        match self.data.get(..len).filter(|_| len > 0) {
            Some(bytes) => {
                out.push(self.tag);
                out.extend_from_slice(bytes);
            }
            None => out.extend_from_slice(&[LITERAL, 0]),
        }
        out
    }

    /// Bytes of the value.
    fn size(self) -> Option<usize> {
        Some(match self.tag {
            LITERAL => 1,
            INT16 | UINT16 => 2,
            INT32 | UINT32 => 4,
            INT64 | UINT64 | DOUBLE => 8,
            STRING => end_of(self.data, counted(self.data)?),
            OPAQUE => end_of(self.data, counted(self.data.get(1..)?)?),
            _ => self.items()?.data.len(),
        })
    }

    /// Are both the same to the byte? Containers of other sizes may differ here and have the same contents.
    pub fn is_same(self, other: JsonRef<'_>) -> bool {
        let bytes =
            |value: JsonRef<'_>| -> Option<(u8, usize)> { Some((value.tag, value.size()?)) };
        match (bytes(self), bytes(other)) {
            (Some(one), Some(another)) if one == another => {
                self.data.get(..one.1) == other.data.get(..one.1)
            }
            _ => false,
        }
    }

    /// As a tree.
    pub fn to_json(self) -> Json {
        let tree = self.to_tree(&mut Work::new(&NoSession));
        tree.expect("no session ends the work")
    }

    /// As a tree that may be large.
    ///
    /// # Errors
    /// The statement may not go on.
    pub fn to_tree(self, work: &mut Work<'_>) -> SqlResult<Json> {
        work.done(EACH)?;
        Ok(match self.view() {
            View::Null => Json::Null,
            View::Bool(b) => Json::Bool(b),
            View::Int(v) => Json::Int(v),
            View::UInt(v) => Json::UInt(v),
            View::Double(v) => Json::Double(v),
            View::Decimal(d) => Json::Decimal(d),
            View::String(s) => Json::String(s.to_vec()),
            View::Date(d) => Json::Date(d),
            View::Time(t) => Json::Time(t),
            View::DateTime(d, timestamp) => Json::DateTime(d, timestamp),
            View::Opaque(kind, bytes) => Json::Opaque(kind, bytes.to_vec()),
            View::Array(items) => {
                let items = items.iter().map(|item| item.to_tree(work));
                Json::Array(items.collect::<SqlResult<_>>()?)
            }
            View::Object(items) => {
                let members = items.members();
                let members = members.map(|(k, v)| Ok((k.to_vec(), v.to_tree(work)?)));
                Json::Object(members.collect::<SqlResult<_>>()?)
            }
        })
    }

    /// Is it JSON null?
    pub fn is_null(self) -> bool {
        matches!(self.view(), View::Null)
    }

    /// Is it a number?
    pub fn is_number(self) -> bool {
        super::order::rank(&self.view()) == super::order::NUMBERS
    }

    /// Neither an array nor an object?
    pub fn is_scalar(self) -> bool {
        !matches!(self.view(), View::Array(_) | View::Object(_))
    }

    /// JSON_TYPE().
    pub fn type_name(self) -> &'static str {
        match self.view() {
            View::Null => "NULL",
            View::Bool(_) => "BOOLEAN",
            View::Int(_) => "INTEGER",
            View::UInt(_) => "UNSIGNED INTEGER",
            View::Double(_) => "DOUBLE",
            View::Decimal(_) => "DECIMAL",
            View::String(_) => "STRING",
            View::Date(_) => "DATE",
            View::Time(_) => "TIME",
            View::DateTime(_, false) => "DATETIME",
            View::DateTime(_, true) => "TIMESTAMP",
            View::Opaque(kind, _) => match kind {
                field_type::BIT => "BIT",
                field_type::GEOMETRY => "GEOMETRY",
                _ if is_blob(kind) => "BLOB",
                _ => "OPAQUE",
            },
            View::Array(_) => "ARRAY",
            View::Object(_) => "OBJECT",
        }
    }
}

/// Is this the number of a type of byte strings?
pub(super) fn is_blob(kind: u8) -> bool {
    matches!(
        kind,
        field_type::VARCHAR
            | field_type::TINY_BLOB
            | field_type::MEDIUM_BLOB
            | field_type::LONG_BLOB
            | field_type::BLOB
            | field_type::VAR_STRING
            | field_type::STRING
    )
}

/// Where `part`, which lies in `whole`, ends in it.
fn end_of(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize + part.len() - whole.as_ptr() as usize
}

/// The number at an offset.
fn number(data: &[u8], at: usize, large: bool) -> Option<usize> {
    let bytes = data.get(at..at + word(large))?;
    Some(match bytes {
        [a, b] => usize::from(u16::from_le_bytes([*a, *b])),
        [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => return None,
    })
}

/// Bytes after their length.
fn counted(data: &[u8]) -> Option<&[u8]> {
    let mut len = 0usize;
    for (i, byte) in data.iter().take(MAX_LENGTH_BYTES).enumerate() {
        len |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return data.get(i + 1..)?.get(..len);
        }
    }
    None
}

fn opaque(kind: u8, bytes: &[u8]) -> Option<View<'_>> {
    let packed = || Some(i64::from_le_bytes(bytes.try_into().ok()?));
    Some(match kind {
        field_type::NEWDECIMAL => {
            let (precision, rest) = bytes.split_first()?;
            let (scale, rest) = rest.split_first()?;
            View::Decimal(Decimal::from_binary(*precision, *scale, rest)?)
        }
        field_type::DATE => View::Date(unpack_datetime(packed()?)?.date()),
        field_type::TIME => View::Time(unpack_time(packed()?)?),
        field_type::DATETIME => View::DateTime(unpack_datetime(packed()?)?, false),
        field_type::TIMESTAMP => View::DateTime(unpack_datetime(packed()?)?, true),
        _ => View::Opaque(kind, bytes),
    })
}

fn unpack_datetime(v: i64) -> Option<DateTime> {
    DateTime::from_packed(u64::try_from(v).ok()?)
}

fn unpack_time(v: i64) -> Option<Time> {
    let magnitude = v.unsigned_abs();
    let micro = (magnitude & ((1 << MICRO_BITS) - 1)) as u32;
    let whole = magnitude >> MICRO_BITS;
    let hour = u32::try_from(whole >> 12).ok()?;
    let (minute, second) = (whole >> 6 & 63, whole & 63);
    Time::new(v < 0, hour, minute as u32, second as u32, micro)
}

impl<'a> Items<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        self.count
    }

    /// Are there none?
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Element or value number `i`; null beyond the end.
    pub fn get(self, i: usize) -> JsonRef<'a> {
        self.entry(i).unwrap_or(JsonRef::NULL)
    }

    fn entry(self, i: usize) -> Option<JsonRef<'a>> {
        if i >= self.count {
            return None;
        }
        let entries =
            header_size(self.count, self.object, self.large) - self.count * value_entry(self.large);
        let at = entries + i * value_entry(self.large);
        let tag = *self.data.get(at)?;
        if inlined(tag, self.large) {
            let data = &self.data[at + 1..at + value_entry(self.large)];
            return Some(JsonRef { tag, data });
        }
        let offset = number(self.data, at + 1, self.large)?;
        // A value lies behind all entries: so reading damaged bytes ends.
        let behind = offset >= header_size(self.count, self.object, self.large);
        let data = self.data.get(offset..).filter(|_| behind)?;
        Some(JsonRef { tag, data })
    }

    /// The key of member number `i`.
    pub fn key(self, i: usize) -> &'a [u8] {
        self.key_entry(i).unwrap_or(&[])
    }

    fn key_entry(self, i: usize) -> Option<&'a [u8]> {
        let at = 2 * word(self.large) + i * key_entry(self.large);
        let offset = number(self.data, at, self.large)?;
        let len = number(self.data, at + word(self.large), false)?;
        self.data.get(offset..)?.get(..len)
    }

    /// The value of a key, by binary search.
    pub fn find(self, key: &[u8]) -> Option<JsonRef<'a>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let mid = low.midpoint(high);
            match key_order(self.key(mid), key) {
                std::cmp::Ordering::Less => low = mid + 1,
                std::cmp::Ordering::Greater => high = mid,
                std::cmp::Ordering::Equal => return Some(self.get(mid)),
            }
        }
        None
    }

    /// The elements or values.
    pub fn iter(self) -> impl Iterator<Item = JsonRef<'a>> {
        (0..self.count).map(move |i| self.get(i))
    }

    /// Keys and values.
    pub fn members(self) -> impl Iterator<Item = (&'a [u8], JsonRef<'a>)> {
        (0..self.count).map(move |i| (self.key(i), self.get(i)))
    }
}
