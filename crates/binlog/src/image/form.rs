//! The kinds of fields in a row image.
//!
//! Neighbours: `event::table_map` writes the codes and metadata of each column, and reads them.
//! **Invariants**: [`Form::of`] depends on the type of a column alone; [`Form::parse`] undoes [`Form::code`] and
//! [`Form::metadata`], but for the sign of integers, which stands elsewhere.

use esker_types::collation::Charset;
use esker_types::{SqlType, TypeKind};

use crate::bytes::{Put, Reader};
use crate::{Result, damaged};

const TINY: u8 = 1;
const SHORT: u8 = 2;
const LONG: u8 = 3;
const FLOAT: u8 = 4;
const DOUBLE: u8 = 5;
const LONGLONG: u8 = 8;
const INT24: u8 = 9;
const DATE: u8 = 10;
const YEAR: u8 = 13;
const VARCHAR: u8 = 15;
const BIT: u8 = 16;
const TIMESTAMP2: u8 = 17;
const DATETIME2: u8 = 18;
const TIME2: u8 = 19;
const JSON: u8 = 0xf5;
const NEWDECIMAL: u8 = 0xf6;
const ENUM: u8 = 0xf7;
const SET: u8 = 0xf8;
const BLOB: u8 = 0xfc;
const STRING: u8 = 0xfe;
const GEOMETRY: u8 = 0xff;

/// Longest string whose length fits one byte.
const SHORT_STRING: u32 = 255;

/// A kind of field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Little-endian integer.
    Int {
        /// Bytes.
        bytes: u8,
        /// Unsigned.
        unsigned: bool,
    },
    /// Four bytes.
    Float,
    /// Eight bytes.
    Double,
    /// Groups of nine digits.
    Decimal {
        /// Digits.
        precision: u8,
        /// Decimals.
        scale: u8,
    },
    /// Big-endian bits.
    Bit {
        /// How many.
        bits: u8,
    },
    /// One byte.
    Year,
    /// Three bytes.
    Date,
    /// Three bytes and the fraction.
    Time {
        /// Digits of the fraction.
        fsp: u8,
    },
    /// Five bytes and the fraction.
    DateTime {
        /// Digits of the fraction.
        fsp: u8,
    },
    /// Four bytes and the fraction.
    Timestamp {
        /// Digits of the fraction.
        fsp: u8,
    },
    /// CHAR and BINARY.
    Char {
        /// Longest value.
        max_bytes: u32,
    },
    /// VARCHAR and VARBINARY.
    VarChar {
        /// Longest value.
        max_bytes: u32,
    },
    /// TEXT and BLOB.
    Blob {
        /// Bytes of the length.
        prefix: u8,
    },
    /// JSON in MySQL's binary form.
    Json,
    /// Number of a label.
    Enum {
        /// Bytes of the number.
        bytes: u8,
    },
    /// Mask of labels.
    Set {
        /// Bytes of the mask.
        bytes: u8,
    },
    /// Spatial value, as it is stored.
    Geometry,
}

impl Form {
    /// The form of a column's fields.
    pub fn of(ty: &SqlType) -> Self {
        let int = |bytes| Self::Int {
            bytes,
            unsigned: ty.unsigned,
        };
        let fsp = ty.decimals;
        match &ty.kind {
            TypeKind::TinyInt => int(1),
            TypeKind::SmallInt => int(2),
            TypeKind::MediumInt => int(3),
            TypeKind::Int => int(4),
            TypeKind::BigInt => int(8),
            TypeKind::Float => Self::Float,
            TypeKind::Double => Self::Double,
            TypeKind::Decimal => Self::Decimal {
                precision: ty.length as u8,
                scale: ty.decimals,
            },
            TypeKind::Bit => Self::Bit {
                bits: ty.length as u8,
            },
            TypeKind::Year => Self::Year,
            TypeKind::Date => Self::Date,
            TypeKind::Time => Self::Time { fsp },
            TypeKind::DateTime => Self::DateTime { fsp },
            TypeKind::Timestamp => Self::Timestamp { fsp },
            TypeKind::Char => Self::Char {
                max_bytes: max_bytes(ty),
            },
            TypeKind::VarChar => Self::VarChar {
                max_bytes: max_bytes(ty),
            },
            TypeKind::TinyText => Self::Blob { prefix: 1 },
            TypeKind::Text => Self::Blob { prefix: 2 },
            TypeKind::MediumText => Self::Blob { prefix: 3 },
            TypeKind::LongText | TypeKind::Null => Self::Blob { prefix: 4 },
            TypeKind::Json => Self::Json,
            TypeKind::Geometry(_) => Self::Geometry,
            TypeKind::Enum(labels) => Self::Enum {
                bytes: if labels.len() < 256 { 1 } else { 2 },
            },
            TypeKind::Set(labels) => Self::Set {
                bytes: match labels.len().div_ceil(8) {
                    n @ 0..=4 => n.max(1) as u8,
                    _ => 8,
                },
            },
        }
    }

    /// MySQL's code of the type.
    pub fn code(self) -> u8 {
        match self {
            Self::Int { bytes: 1, .. } => TINY,
            Self::Int { bytes: 2, .. } => SHORT,
            Self::Int { bytes: 3, .. } => INT24,
            Self::Int { bytes: 4, .. } => LONG,
            Self::Int { .. } => LONGLONG,
            Self::Float => FLOAT,
            Self::Double => DOUBLE,
            Self::Decimal { .. } => NEWDECIMAL,
            Self::Bit { .. } => BIT,
            Self::Year => YEAR,
            Self::Date => DATE,
            Self::Time { .. } => TIME2,
            Self::DateTime { .. } => DATETIME2,
            Self::Timestamp { .. } => TIMESTAMP2,
            Self::VarChar { .. } => VARCHAR,
            Self::Blob { .. } => BLOB,
            Self::Json => JSON,
            Self::Char { .. } | Self::Enum { .. } | Self::Set { .. } => STRING,
            Self::Geometry => GEOMETRY,
        }
    }

    /// Appends what a TABLE_MAP says of the type besides its code.
    pub fn metadata(self, out: &mut Vec<u8>) {
        match self {
            Self::Int { .. } | Self::Year | Self::Date => {}
            Self::Float => out.u8(4),
            Self::Double => out.u8(8),
            Self::Decimal { precision, scale } => out.bytes(&[precision, scale]),
            Self::Bit { bits } => out.bytes(&[bits % 8, bits / 8]),
            Self::Time { fsp } | Self::DateTime { fsp } | Self::Timestamp { fsp } => out.u8(fsp),
            // Bits 8 and 9 of the length stand, inverted, among those of the code.
            Self::Char { max_bytes } => {
                out.u8(STRING ^ (max_bytes >> 4 & 0x30) as u8);
                out.u8(max_bytes as u8);
            }
            Self::VarChar { max_bytes } => out.u16(max_bytes as u16),
            Self::Blob { prefix } => out.u8(prefix),
            Self::Json | Self::Geometry => out.u8(4),
            Self::Enum { bytes } => out.bytes(&[ENUM, bytes]),
            Self::Set { bytes } => out.bytes(&[SET, bytes]),
        }
    }

    /// Reads both back. Integers come out signed.
    pub(crate) fn parse(code: u8, metadata: &mut Reader<'_>) -> Result<Self> {
        let int = |bytes| Self::Int {
            bytes,
            unsigned: false,
        };
        let form = match code {
            TINY => int(1),
            SHORT => int(2),
            INT24 => int(3),
            LONG => int(4),
            LONGLONG => int(8),
            YEAR => Self::Year,
            DATE => Self::Date,
            FLOAT | DOUBLE => {
                metadata.u8()?;
                match code {
                    FLOAT => Self::Float,
                    _ => Self::Double,
                }
            }
            NEWDECIMAL => {
                let (precision, scale) = (metadata.u8()?, metadata.u8()?);
                if !(1..=65).contains(&precision) || scale > precision.min(30) {
                    return Err(damaged("table map: DECIMAL"));
                }
                Self::Decimal { precision, scale }
            }
            BIT => {
                let (bits, bytes) = (metadata.u8()?, metadata.u8()?);
                let bits = u32::from(bytes) * 8 + u32::from(bits);
                match bits {
                    1..=64 => Self::Bit { bits: bits as u8 },
                    _ => return Err(damaged("table map: BIT")),
                }
            }
            TIME2 | DATETIME2 | TIMESTAMP2 => {
                let fsp = metadata.u8()?;
                match code {
                    _ if fsp > 6 => return Err(damaged("table map: fraction")),
                    TIME2 => Self::Time { fsp },
                    DATETIME2 => Self::DateTime { fsp },
                    _ => Self::Timestamp { fsp },
                }
            }
            VARCHAR => Self::VarChar {
                max_bytes: metadata.u16()?.into(),
            },
            BLOB => Self::Blob {
                prefix: prefix(metadata)?,
            },
            JSON | GEOMETRY => {
                if prefix(metadata)? != 4 {
                    return Err(damaged("table map: length of lengths"));
                }
                match code {
                    JSON => Self::Json,
                    _ => Self::Geometry,
                }
            }
            STRING => Self::parse_string(metadata.u8()?, metadata.u8()?)?,
            _ => return Err(damaged(format!("table map: unknown type {code}"))),
        };
        Ok(form)
    }

    fn parse_string(code: u8, len: u8) -> Result<Self> {
        Ok(match code {
            ENUM if matches!(len, 1 | 2) => Self::Enum { bytes: len },
            SET if matches!(len, 1..=4 | 8) => Self::Set { bytes: len },
            _ if code | 0x30 == STRING => Self::Char {
                max_bytes: u32::from(code & 0x30 ^ 0x30) << 4 | u32::from(len),
            },
            _ => return Err(damaged("table map: string")),
        })
    }

    /// Has the type a sign, as MySQL sees it? BIT has none to speak of.
    pub fn is_numeric(self) -> bool {
        matches!(
            self,
            Self::Int { .. } | Self::Float | Self::Double | Self::Decimal { .. } | Self::Year
        )
    }

    /// Is it of characters or bytes, with a collation of its own?
    pub fn is_character(self) -> bool {
        matches!(
            self,
            Self::Char { .. } | Self::VarChar { .. } | Self::Blob { .. }
        )
    }

    /// Is it a list of labels?
    pub fn has_labels(self) -> bool {
        matches!(self, Self::Enum { .. } | Self::Set { .. })
    }

    /// Bytes before a string that is at most this long.
    pub(crate) fn string_prefix(max_bytes: u32) -> usize {
        if max_bytes > SHORT_STRING { 2 } else { 1 }
    }
}

fn prefix(metadata: &mut Reader<'_>) -> Result<u8> {
    match metadata.u8()? {
        n @ 1..=4 => Ok(n),
        _ => Err(damaged("table map: length of lengths")),
    }
}

/// Bytes of the longest value of a CHAR or VARCHAR.
fn max_bytes(ty: &SqlType) -> u32 {
    let charset: Charset = ty.collation.charset();
    ty.length * charset.max_len()
}
