//! Memcomparable keys: clustered keys, index entries, ranges.
//!
//! ```text
//! part      [0 = NULL | 1 = value, only if the column is nullable] value
//! value     integers big-endian with the sign flipped; floats, decimals and temporals in
//!           order-preserving form; strings as the collation's sort key with 00 escaped as 00 FF and
//!           00 01 at the end; every byte of a DESC part inverted
//! clustered parts of the primary key, or the 8 byte row id
//! secondary unique without NULL: key = parts, value = clustered key
//!           otherwise:           key = parts ++ clustered key, value empty
//! ```
//! `docs/formats/key.md` has the details.
//!
//! Neighbours: `exec` scans with [`KeyRange`]s and finds rows with [`KeyCodec::clustered_of`]; `dml`
//! builds entries with [`KeyCodec::entry`].
//! **Invariants**: the encoding is frozen for ever, it is on disk; a part is self-delimiting; a
//! clustered key is never empty, so an empty entry value means that the key ends with it.

use std::ops::Bound;

use esker_types::collation::{Collation, char_offset};
use esker_types::{Decimal, SqlResult, SqlType, TypeKind, ValueRef};
use jiff::tz::TimeZone;

use super::phys;
use super::row::RowReader;
use super::temporal;
use super::{UTC, damaged};
use crate::catalog::{ColumnDef, IndexPart};

const NULL: u8 = 0;
const NOT_NULL: u8 = 1;
const ESCAPE: u8 = 0;
const ESCAPED_ZERO: u8 = 0xFF;
const END: u8 = 1;
/// Longest fixed-length part: DECIMAL(65).
const MAX_FIXED_BYTES: usize = 40;

/// One part of a key.
#[derive(Debug, Clone)]
pub struct KeyPart {
    /// Column ordinal.
    pub col: usize,
    /// The column's type.
    pub ty: SqlType,
    /// Prefix length in characters (bytes for binary strings).
    pub prefix_len: Option<u32>,
    /// DESC.
    pub desc: bool,
}

/// What is needed to step over a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartShape {
    is_nullable: bool,
    /// Bytes of a value, if all have as many.
    value_bytes: Option<usize>,
    /// What every byte is XORed with.
    flip: u8,
}

impl PartShape {
    #[inline]
    pub(super) fn of(part: &KeyPart) -> Self {
        Self {
            is_nullable: part.ty.nullable,
            value_bytes: fixed_len(&part.ty),
            flip: if part.desc { 0xFF } else { 0 },
        }
    }

    /// Length of the part at the start of `key`. `None`: it is not whole.
    #[inline]
    pub(super) fn len(self, key: &[u8]) -> Option<usize> {
        if self.is_null(key)? {
            return Some(1);
        }
        let flag = usize::from(self.is_nullable);
        let len = flag
            + match self.value_bytes {
                Some(bytes) => bytes,
                None => string_len(key.get(flag..)?, self.flip)?,
            };
        (len <= key.len()).then_some(len)
    }

    /// Length of all parts of this shape, if all are as long.
    pub(super) fn same_len(self) -> Option<usize> {
        self.value_bytes.filter(|_| !self.is_nullable)
    }

    /// Is the part at the start of `key` NULL? `None`: it is not there.
    #[inline]
    pub(super) fn is_null(self, key: &[u8]) -> Option<bool> {
        Some(self.is_nullable && key.first()? ^ self.flip == NULL)
    }

    /// The bytes of the value of the part at the start of `key`, which is whole, not NULL and no string. Each is XORed
    /// with [`Self::flip`].
    #[inline]
    pub(super) fn value(self, key: &[u8]) -> &[u8] {
        let start = usize::from(self.is_nullable);
        &key[start..start + self.value_bytes.unwrap_or_default()]
    }

    #[inline]
    pub(super) fn flip(self) -> u8 {
        self.flip
    }
}

/// How keys of an index are built and read.
#[derive(Debug, Clone, Default)]
pub struct KeyCodec {
    parts: Vec<KeyPart>,
    unique: bool,
    primary: bool,
}

/// A range of encoded keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Start.
    pub lower: Bound<Vec<u8>>,
    /// End.
    pub upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Does it have every key?
    pub fn is_all(&self) -> bool {
        matches!(
            (&self.lower, &self.upper),
            (Bound::Unbounded, Bound::Unbounded)
        )
    }

    /// Is its end not after its start?
    pub fn is_empty(&self) -> bool {
        match (&self.lower, &self.upper) {
            (Bound::Included(lower), Bound::Excluded(upper)) => lower >= upper,
            _ => false,
        }
    }

    /// Does it have the keys that begin with one prefix, and may this be told from its bounds alone?
    pub fn has_one_prefix(&self) -> bool {
        let (Bound::Included(lower), Bound::Excluded(upper)) = (&self.lower, &self.upper) else {
            return false;
        };
        match (lower.split_last(), upper.split_last()) {
            (Some((lower, before)), Some((upper, also))) => {
                before == also && lower.checked_add(1) == Some(*upper)
            }
            _ => false,
        }
    }

    /// Nothing.
    pub const NONE: KeyRange = KeyRange {
        lower: Bound::Included(Vec::new()),
        upper: Bound::Excluded(Vec::new()),
    };

    /// Everything.
    pub const ALL: KeyRange = KeyRange {
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
    };

    /// The lower bound, borrowed.
    pub fn lower(&self) -> Bound<&[u8]> {
        self.lower.as_ref().map(Vec::as_slice)
    }

    /// The upper bound, borrowed.
    pub fn upper(&self) -> Bound<&[u8]> {
        self.upper.as_ref().map(Vec::as_slice)
    }

    /// Exactly the keys that begin with `prefix`.
    pub fn prefix(prefix: Vec<u8>) -> KeyRange {
        let mut end = prefix.clone();
        let upper = if prefix_successor(&mut end) {
            Bound::Excluded(end)
        } else {
            Bound::Unbounded
        };
        KeyRange {
            lower: Bound::Included(prefix),
            upper,
        }
    }
}

impl KeyRange {
    /// The same range of what follows `first` in keys.
    pub fn behind(&self, first: &[u8]) -> KeyRange {
        let whole = KeyRange::prefix(first.to_vec());
        let follow = |bound: &Bound<Vec<u8>>, end: Bound<Vec<u8>>| match bound {
            Bound::Unbounded => end,
            bound => bound.as_ref().map(|key| [first, key.as_slice()].concat()),
        };
        KeyRange {
            lower: follow(&self.lower, whole.lower),
            upper: follow(&self.upper, whole.upper),
        }
    }
}

/// Turns `key` into the smallest byte string greater than everything that begins with it; false if
/// there is none (`key` is empty or all FF).
pub fn prefix_successor(key: &mut Vec<u8>) -> bool {
    while let Some(last) = key.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return true;
        }
        key.pop();
    }
    false
}

impl KeyCodec {
    /// The codec of an index over `columns`.
    pub fn new(columns: &[ColumnDef], parts: &[IndexPart], unique: bool, primary: bool) -> Self {
        let part = |p: &IndexPart| KeyPart {
            col: p.col,
            ty: columns[p.col].ty.clone(),
            prefix_len: p.prefix_len,
            desc: p.desc,
        };
        Self {
            parts: parts.iter().map(part).collect(),
            unique,
            primary,
        }
    }

    /// The codec of the parts behind the first one.
    pub fn behind_first(&self) -> Self {
        debug_assert!(self.parts.len() > 1, "there are parts behind it");
        Self {
            parts: self.parts[1..].to_vec(),
            unique: self.unique,
            primary: self.primary,
        }
    }

    /// Parts.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Appends part `nth` of a key. `value` has the column's type; a TIMESTAMP is in `zone`.
    #[inline]
    pub fn encode_part(
        &self,
        nth: usize,
        value: ValueRef<'_>,
        zone: &TimeZone,
        out: &mut Vec<u8>,
    ) -> SqlResult<()> {
        let part = &self.parts[nth];
        let start = out.len();
        if part.ty.nullable {
            out.push(if matches!(value, ValueRef::Null) {
                NULL
            } else {
                NOT_NULL
            });
        }
        if !matches!(value, ValueRef::Null) {
            encode_value(part, value, zone, out)?;
        } else if !part.ty.nullable {
            return Err(damaged("key: NULL in a part that is NOT NULL"));
        }
        if part.desc {
            invert(&mut out[start..]);
        }
        Ok(())
    }

    /// Appends the first `values.len()` parts.
    pub fn encode_prefix(
        &self,
        values: &[ValueRef<'_>],
        zone: &TimeZone,
        out: &mut Vec<u8>,
    ) -> SqlResult<()> {
        for (nth, value) in values.iter().enumerate() {
            self.encode_part(nth, *value, zone, out)?;
        }
        Ok(())
    }

    /// Appends all parts of a row; true if any is NULL. `row` must read in UTC.
    pub fn encode_row_parts(&self, row: &RowReader<'_>, out: &mut Vec<u8>) -> SqlResult<bool> {
        let mut any_null = false;
        for (nth, part) in self.parts.iter().enumerate() {
            let value = row.field(part.col);
            any_null |= matches!(value, ValueRef::Null);
            self.encode_part(nth, value, &UTC, out)?;
        }
        Ok(any_null)
    }

    /// Builds the entry of a row in this secondary index: its key in `key`; the entry's value is
    /// `clustered` if true is returned, empty if not. `row` must read in UTC.
    pub fn entry(
        &self,
        row: &RowReader<'_>,
        clustered: &[u8],
        key: &mut Vec<u8>,
    ) -> SqlResult<bool> {
        debug_assert!(!self.primary && !clustered.is_empty());
        key.clear();
        let any_null = self.encode_row_parts(row, key)?;
        let in_value = self.unique && !any_null;
        if !in_value {
            key.extend_from_slice(clustered);
        }
        Ok(in_value)
    }

    /// The clustered key that an entry of this secondary index points to.
    #[inline]
    pub fn clustered_of<'a>(&self, key: &'a [u8], value: &'a [u8]) -> SqlResult<&'a [u8]> {
        if !value.is_empty() {
            return Ok(value);
        }
        let mut rest = key;
        for nth in 0..self.parts.len() {
            let len = self
                .part_len(nth, rest)
                .ok_or_else(|| damaged("index entry"))?;
            rest = &rest[len..];
        }
        if rest.is_empty() {
            return Err(damaged("index entry"));
        }
        Ok(rest)
    }

    /// Length of part `nth` at the start of `key`.
    #[inline]
    pub fn part_len(&self, nth: usize, key: &[u8]) -> Option<usize> {
        PartShape::of(&self.parts[nth]).len(key)
    }

    /// Is part `nth`, at the start of `key`, NULL?
    pub fn is_null(&self, nth: usize, key: &[u8]) -> bool {
        PartShape::of(&self.parts[nth]).is_null(key) == Some(true)
    }

    /// Can part `nth` be decoded from a key? Not for collated strings, prefixes, and SET, whose text
    /// would have to be made.
    pub fn is_reversible(&self, nth: usize) -> bool {
        let part = &self.parts[nth];
        part.prefix_len.is_none()
            && fixed_len(&part.ty).is_some()
            && !matches!(part.ty.kind, TypeKind::Set(_))
    }

    /// Decodes part `nth` at the start of `key` and gives what follows it. `None`: the bytes are
    /// damaged or the part is not reversible. ENUM comes out with its text.
    pub fn decode_part<'a>(
        &'a self,
        nth: usize,
        key: &'a [u8],
        zone: &TimeZone,
    ) -> Option<(ValueRef<'a>, &'a [u8])> {
        let part = &self.parts[nth];
        let len = self.part_len(nth, key)?;
        let (bytes, rest) = key.split_at(len);
        let mut flipped = [0; 1 + MAX_FIXED_BYTES];
        let bytes = if part.desc {
            let copy = flipped.get_mut(..len)?;
            copy.copy_from_slice(bytes);
            invert(copy);
            &*copy
        } else {
            bytes
        };
        let bytes = match part.ty.nullable {
            true if bytes[0] == NULL => return Some((ValueRef::Null, rest)),
            true => &bytes[1..],
            false => bytes,
        };
        Some((decode_value(&part.ty, bytes, zone)?, rest))
    }

    /// Keys whose leading parts equal `eq` and whose next part lies between the bounds (value,
    /// inclusive). A bound excludes NULLs; with neither bound every value of the next part, NULL
    /// included, is in. Values have the columns' types. On a prefix part the range is widened to
    /// inclusive: the caller checks the row.
    pub fn range(
        &self,
        eq: &[ValueRef<'_>],
        lower: Option<(ValueRef<'_>, bool)>,
        upper: Option<(ValueRef<'_>, bool)>,
        zone: &TimeZone,
    ) -> SqlResult<KeyRange> {
        let mut prefix = Vec::with_capacity(32);
        self.encode_prefix(eq, zone, &mut prefix)?;
        if lower.is_none() && upper.is_none() {
            return Ok(match prefix.is_empty() {
                true => KeyRange::ALL,
                false => KeyRange::prefix(prefix),
            });
        }
        let nth = eq.len();
        let part = &self.parts[nth];
        // In key order a DESC part runs from the upper to the lower bound.
        let (first, last) = if part.desc {
            (upper, lower)
        } else {
            (lower, upper)
        };
        let whole = self.not_null(nth, &prefix);
        let widen = part.prefix_len.is_some();
        let start = match first {
            None => whole.lower,
            Some((value, inclusive)) => {
                let mut key = prefix.clone();
                self.encode_part(nth, value, zone, &mut key)?;
                // Past every key that begins with this value; nothing is past one that is all FF.
                if !inclusive && !widen && !prefix_successor(&mut key) {
                    return Ok(KeyRange::NONE);
                }
                Bound::Included(key)
            }
        };
        let end = match last {
            None => whole.upper,
            Some((value, inclusive)) => {
                let mut key = prefix;
                self.encode_part(nth, value, zone, &mut key)?;
                match (inclusive || widen) && !prefix_successor(&mut key) {
                    true => Bound::Unbounded,
                    false => Bound::Excluded(key),
                }
            }
        };
        Ok(KeyRange {
            lower: start,
            upper: end,
        })
    }

    /// Keys that begin with `prefix` and whose part `nth` is not NULL.
    fn not_null(&self, nth: usize, prefix: &[u8]) -> KeyRange {
        let part = &self.parts[nth];
        let mut key = prefix.to_vec();
        if part.ty.nullable {
            key.push(if part.desc { !NOT_NULL } else { NOT_NULL });
        }
        if key.is_empty() {
            KeyRange::ALL
        } else {
            KeyRange::prefix(key)
        }
    }
}

fn invert(bytes: &mut [u8]) {
    for b in bytes {
        *b = !*b;
    }
}

/// Encoded length of a value of a fixed-length type.
fn fixed_len(ty: &SqlType) -> Option<usize> {
    Some(match &ty.kind {
        TypeKind::TinyInt => 1,
        TypeKind::SmallInt | TypeKind::Year | TypeKind::Enum(_) => 2,
        TypeKind::MediumInt => 3,
        TypeKind::Int | TypeKind::Float | TypeKind::Date => 4,
        TypeKind::BigInt
        | TypeKind::Double
        | TypeKind::Time
        | TypeKind::DateTime
        | TypeKind::Timestamp
        | TypeKind::Bit
        | TypeKind::Set(_) => 8,
        TypeKind::Decimal => Decimal::encoded_len(ty.length),
        TypeKind::Null
        | TypeKind::Char
        | TypeKind::VarChar
        | TypeKind::TinyText
        | TypeKind::Text
        | TypeKind::MediumText
        | TypeKind::LongText
        | TypeKind::Geometry(_)
        | TypeKind::Json => return None,
    })
}

/// Length of an escaped string with its end mark.
pub(super) fn string_len(bytes: &[u8], flip: u8) -> Option<usize> {
    let mut at = 0;
    while at + 1 < bytes.len() {
        if bytes[at] ^ flip == ESCAPE {
            if bytes[at + 1] ^ flip == END {
                return Some(at + 2);
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    None
}

#[inline]
fn encode_value(
    part: &KeyPart,
    value: ValueRef<'_>,
    zone: &TimeZone,
    out: &mut Vec<u8>,
) -> SqlResult<()> {
    match value {
        ValueRef::Int(v) => push_int(fixed_len(&part.ty), part.ty.unsigned, v as u64, out),
        ValueRef::UInt(v) => push_int(fixed_len(&part.ty), part.ty.unsigned, v, out),
        ValueRef::Str(s) => push_string(part, s, out),
        ValueRef::Double(v) if part.ty.kind == TypeKind::Float => {
            let bits = (if v == 0.0 { 0.0 } else { v as f32 }).to_bits();
            let ordered = if bits >> 31 == 1 {
                !bits
            } else {
                bits | 1 << 31
            };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        ValueRef::Double(v) => {
            let bits = (if v == 0.0 { 0.0 } else { v }).to_bits();
            let ordered = if bits >> 63 == 1 {
                !bits
            } else {
                bits | 1 << 63
            };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        ValueRef::Decimal(v) => {
            if !v.fits(part.ty.length, part.ty.decimals) {
                return Err(damaged("key: a decimal that does not fit its column"));
            }
            v.encode(part.ty.length, part.ty.decimals, out);
        }
        ValueRef::Date(v) => out.extend_from_slice(&temporal::date_bits(v).to_be_bytes()),
        ValueRef::Time(v) => push_signed(temporal::time_bits(v), out),
        ValueRef::DateTime(v) if part.ty.kind == TypeKind::Timestamp => {
            push_signed(temporal::timestamp_bits(v, zone)?, out);
        }
        ValueRef::DateTime(v) => out.extend_from_slice(&temporal::datetime_bits(v).to_be_bytes()),
        ValueRef::Bit(v, _) => out.extend_from_slice(&v.to_be_bytes()),
        ValueRef::Label(v, _) => match &part.ty.kind {
            TypeKind::Enum(_) => out.extend_from_slice(&(v as u16).to_be_bytes()),
            _ => out.extend_from_slice(&v.to_be_bytes()),
        },
        ValueRef::Json(_) => return Err(damaged("key: a JSON value has none")),
        ValueRef::Null => {}
    }
    Ok(())
}

fn push_int(len: Option<usize>, unsigned: bool, v: u64, out: &mut Vec<u8>) {
    let len = len.unwrap_or(8);
    let v = if unsigned {
        v
    } else {
        v ^ 1 << (8 * len as u32 - 1)
    };
    out.extend_from_slice(&v.to_be_bytes()[8 - len..]);
}

fn push_signed(v: i64, out: &mut Vec<u8>) {
    push_int(Some(8), false, v as u64, out);
}

fn push_string(part: &KeyPart, s: &[u8], out: &mut Vec<u8>) {
    let collation = part.ty.collation;
    let s = match part.prefix_len {
        Some(len) if collation.is_binary() => &s[..s.len().min(len as usize)],
        Some(len) => &s[..char_offset(s, len as usize)],
        None => s,
    };
    let start = out.len();
    if collation.is_binary() {
        out.extend_from_slice(s);
    } else {
        collation.sort_key(s, out);
    }
    end_string(start, out);
}

/// Makes `out[start..]` the string at the end of a key: escaped, with its end mark.
pub(super) fn end_string(start: usize, out: &mut Vec<u8>) {
    escape_zeros(start, out);
    out.extend_from_slice(&[ESCAPE, END]);
}

/// Escapes the zero bytes of `out[start..]` in place.
fn escape_zeros(start: usize, out: &mut Vec<u8>) {
    let zeros = out[start..].iter().filter(|&&b| b == ESCAPE).count();
    if zeros == 0 {
        return;
    }
    let mut from = out.len();
    out.resize(from + zeros, 0);
    let mut to = out.len();
    while from > start {
        from -= 1;
        to -= 1;
        if out[from] == ESCAPE {
            out[to] = ESCAPED_ZERO;
            to -= 1;
        }
        out[to] = out[from];
    }
    debug_assert_eq!(from, to);
}

fn decode_value<'a>(ty: &'a SqlType, bytes: &[u8], zone: &TimeZone) -> Option<ValueRef<'a>> {
    let mut wide = [0; 8];
    if bytes.len() <= 8 {
        wide[8 - bytes.len()..].copy_from_slice(bytes);
    }
    let raw = u64::from_be_bytes(wide);
    let signed = || {
        let unused_bits = 64 - 8 * bytes.len() as u32;
        ((raw ^ 1 << (63 - unused_bits)) << unused_bits) as i64 >> unused_bits
    };
    Some(match &ty.kind {
        kind if ty.is_integer() && ty.unsigned && *kind != TypeKind::Year => ValueRef::UInt(raw),
        _ if ty.is_integer() => ValueRef::Int(signed()),
        TypeKind::Float => {
            let raw = raw as u32;
            let bits = if raw >> 31 == 1 {
                raw & !(1 << 31)
            } else {
                !raw
            };
            ValueRef::Double(f64::from(f32::from_bits(bits)))
        }
        TypeKind::Double => {
            let bits = if raw >> 63 == 1 {
                raw & !(1 << 63)
            } else {
                !raw
            };
            ValueRef::Double(f64::from_bits(bits))
        }
        TypeKind::Decimal => ValueRef::Decimal(Decimal::decode(ty.length, ty.decimals, bytes)?),
        TypeKind::Date => ValueRef::Date(temporal::date_of(raw as u32)),
        TypeKind::Time => ValueRef::Time(temporal::time_of(signed())),
        TypeKind::DateTime => ValueRef::DateTime(temporal::datetime_of(raw)),
        TypeKind::Timestamp => ValueRef::DateTime(temporal::timestamp_of(signed(), zone)),
        TypeKind::Bit => ValueRef::Bit(raw, ty.length as u8),
        TypeKind::Enum(_) => ValueRef::Label(raw, phys::enum_text(ty, raw as u16)),
        _ => return None,
    })
}

/// The collation a part is ordered by.
impl KeyPart {
    /// Collation of the part's column.
    pub fn collation(&self) -> Collation {
        self.ty.collation
    }
}
