//! How a value of a column type lies in a row.
//!
//! Neighbours: `row` places fields by these; `catalog::store` persists them with each layout version.
//! **Invariants**: the encoding of a kind never changes (rows on disk depend on it); a fixed kind has
//! one length; integers are little-endian because rows, unlike keys, are never compared as bytes.

use esker_types::{Decimal, SqlError, SqlResult, SqlType, TypeKind, ValueRef};
use jiff::tz::TimeZone;

use super::{damaged, temporal};

/// Storage kind of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phys {
    /// Integer of 1-8 bytes.
    Int {
        /// Bytes.
        bytes: u8,
        /// Unsigned.
        unsigned: bool,
    },
    /// 4 byte float.
    Float,
    /// 8 byte float.
    Double,
    /// Fixed point, in `Decimal`'s order-preserving form.
    Decimal {
        /// Digits.
        precision: u8,
        /// Decimals.
        scale: u8,
    },
    /// Packed, 4 bytes.
    Date,
    /// Microseconds, 8 bytes.
    Time,
    /// Packed, 8 bytes.
    DateTime,
    /// Microseconds since the epoch in UTC, 8 bytes; 0 is the zero timestamp.
    Timestamp,
    /// Up to 64 bits, 8 bytes.
    Bit {
        /// Declared bits.
        bits: u8,
    },
    /// Index of the label, 2 bytes.
    Enum,
    /// Bytes of any length.
    Var,
    /// A JSON document.
    Json,
    /// Mask of 8 bytes, then the text.
    Set,
}

impl Phys {
    /// The storage kind of a column type.
    pub fn of(ty: &SqlType) -> Phys {
        let int = |bytes| Phys::Int {
            bytes,
            unsigned: ty.unsigned,
        };
        match &ty.kind {
            TypeKind::TinyInt => int(1),
            TypeKind::SmallInt => int(2),
            TypeKind::MediumInt => int(3),
            TypeKind::Int => int(4),
            TypeKind::BigInt => int(8),
            TypeKind::Year => Phys::Int {
                bytes: 2,
                unsigned: false,
            },
            TypeKind::Float => Phys::Float,
            TypeKind::Double => Phys::Double,
            TypeKind::Decimal => Phys::Decimal {
                precision: ty.length as u8,
                scale: ty.decimals,
            },
            TypeKind::Date => Phys::Date,
            TypeKind::Time => Phys::Time,
            TypeKind::DateTime => Phys::DateTime,
            TypeKind::Timestamp => Phys::Timestamp,
            TypeKind::Bit => Phys::Bit {
                bits: ty.length as u8,
            },
            TypeKind::Enum(_) => Phys::Enum,
            TypeKind::Set(_) => Phys::Set,
            TypeKind::Null
            | TypeKind::Char
            | TypeKind::VarChar
            | TypeKind::TinyText
            | TypeKind::Text
            | TypeKind::MediumText
            | TypeKind::LongText
            | TypeKind::Geometry(_) => Phys::Var,
            TypeKind::Json => Phys::Json,
        }
    }

    /// Bytes in the fixed area; `None` for kinds of any length.
    pub fn fixed_len(self) -> Option<usize> {
        Some(match self {
            Phys::Int { bytes, .. } => usize::from(bytes),
            Phys::Float | Phys::Date => 4,
            Phys::Double | Phys::Time | Phys::DateTime | Phys::Timestamp | Phys::Bit { .. } => 8,
            Phys::Decimal { precision, .. } => Decimal::encoded_len(u32::from(precision)),
            Phys::Enum => 2,
            Phys::Var | Phys::Json | Phys::Set => return None,
        })
    }

    /// Appends the stored form of a non-null value of this kind's column type.
    pub fn encode(self, value: ValueRef<'_>, zone: &TimeZone, out: &mut Vec<u8>) -> SqlResult<()> {
        match (self, value) {
            (Phys::Int { bytes, .. }, ValueRef::Int(v)) => {
                out.extend_from_slice(&v.to_le_bytes()[..usize::from(bytes)]);
            }
            (Phys::Int { bytes, .. }, ValueRef::UInt(v)) => {
                out.extend_from_slice(&v.to_le_bytes()[..usize::from(bytes)]);
            }
            (Phys::Float, ValueRef::Double(v)) => out.extend_from_slice(&(v as f32).to_le_bytes()),
            (Phys::Double, ValueRef::Double(v)) => out.extend_from_slice(&v.to_le_bytes()),
            (Phys::Decimal { precision, scale }, ValueRef::Decimal(v)) => {
                let precision = u32::from(precision);
                if !v.fits(precision, scale) {
                    return Err(mismatch(self, value));
                }
                v.encode(precision, scale, out);
            }
            (Phys::Date, ValueRef::Date(v)) => {
                out.extend_from_slice(&temporal::date_bits(v).to_le_bytes())
            }
            (Phys::Time, ValueRef::Time(v)) => {
                out.extend_from_slice(&temporal::time_bits(v).to_le_bytes())
            }
            (Phys::DateTime, ValueRef::DateTime(v)) => {
                out.extend_from_slice(&temporal::datetime_bits(v).to_le_bytes());
            }
            (Phys::Timestamp, ValueRef::DateTime(v)) => {
                out.extend_from_slice(&temporal::timestamp_bits(v, zone)?.to_le_bytes());
            }
            (Phys::Bit { .. }, ValueRef::Bit(v, _)) => out.extend_from_slice(&v.to_le_bytes()),
            (Phys::Enum, ValueRef::Label(v, _)) => {
                out.extend_from_slice(&(v as u16).to_le_bytes());
            }
            (Phys::Set, ValueRef::Label(mask, text)) => {
                out.extend_from_slice(&mask.to_le_bytes());
                out.extend_from_slice(text);
            }
            (Phys::Var, ValueRef::Str(v)) | (Phys::Json, ValueRef::Json(v)) => {
                out.extend_from_slice(v);
            }
            (_, other) => return Err(mismatch(self, other)),
        }
        Ok(())
    }

    /// The number of a non-null field of this kind, whose order is that of the values: of integers themselves, of
    /// decimals their digits, of dates and times their packed form. `None` for kinds without, and where 64 bits are not
    /// enough.
    #[inline]
    pub fn number(self, bytes: &[u8]) -> Option<i64> {
        match self {
            Phys::Int { unsigned, .. } => Self::integer(bytes, unsigned),
            Phys::Decimal { precision, .. } => Decimal::decode_digits(u32::from(precision), bytes),
            Phys::Date => Some(temporal::date_of(half_word(bytes)).packed().into()),
            Phys::DateTime => i64::try_from(temporal::datetime_of(word(bytes)).packed()).ok(),
            Phys::Time => Some(temporal::time_of(word(bytes) as i64).micros()),
            _ => None,
        }
    }

    /// The same of an integer.
    #[inline(always)]
    pub fn integer(bytes: &[u8], unsigned: bool) -> Option<i64> {
        match decode_int(bytes, unsigned) {
            ValueRef::UInt(v) => i64::try_from(v).ok(),
            ValueRef::Int(v) => Some(v),
            _ => None,
        }
    }

    /// Reads a non-null field; `bytes` has this kind's length.
    pub fn decode<'a>(self, bytes: &'a [u8], ty: &'a SqlType, zone: &TimeZone) -> ValueRef<'a> {
        match self {
            Phys::Int { unsigned, .. } => decode_int(bytes, unsigned),
            Phys::Float => ValueRef::Double(f64::from(f32::from_bits(half_word(bytes)))),
            Phys::Double => ValueRef::Double(f64::from_bits(word(bytes))),
            Phys::Decimal { precision, scale } => {
                let value = Decimal::decode(u32::from(precision), scale, bytes);
                value.map_or(ValueRef::Null, ValueRef::Decimal)
            }
            Phys::Date => ValueRef::Date(temporal::date_of(half_word(bytes))),
            Phys::Time => ValueRef::Time(temporal::time_of(word(bytes) as i64)),
            Phys::DateTime => ValueRef::DateTime(temporal::datetime_of(word(bytes))),
            Phys::Timestamp => ValueRef::DateTime(temporal::timestamp_of(word(bytes) as i64, zone)),
            Phys::Bit { bits } => ValueRef::Bit(word(bytes), bits),
            Phys::Enum => {
                let index = u16::from_le_bytes([bytes[0], bytes[1]]);
                ValueRef::Label(u64::from(index), enum_text(ty, index))
            }
            Phys::Set => match bytes.split_at_checked(8) {
                Some((mask, text)) => ValueRef::Label(word(mask), text),
                None => ValueRef::Label(0, b""),
            },
            Phys::Var => ValueRef::Str(bytes),
            Phys::Json => ValueRef::Json(bytes),
        }
    }
}

/// Text of the `index`th label (1-based); 0 is the error value ''.
pub(super) fn enum_text(ty: &SqlType, index: u16) -> &[u8] {
    match &ty.kind {
        TypeKind::Enum(labels) if index > 0 => labels
            .get(usize::from(index) - 1)
            .map_or(b"", |l| l.as_bytes()),
        _ => b"",
    }
}

fn mismatch(phys: Phys, value: ValueRef<'_>) -> SqlError {
    damaged(&format!("value: {value:?} does not fit storage {phys:?}"))
}

#[inline]
fn half_word(bytes: &[u8]) -> u32 {
    let mut b = [0; 4];
    b.copy_from_slice(&bytes[..4]);
    u32::from_le_bytes(b)
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    let mut b = [0; 8];
    b.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(b)
}

#[inline(always)]
fn decode_int<'a>(bytes: &[u8], unsigned: bool) -> ValueRef<'a> {
    let raw = match *bytes {
        // The usual sizes, for which no loop is needed.
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }
    };
    if unsigned {
        return ValueRef::UInt(raw);
    }
    let unused_bits = 64 - 8 * bytes.len() as u32;
    ValueRef::Int((raw << unused_bits) as i64 >> unused_bits)
}
