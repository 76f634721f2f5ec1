//! Writing and reading the primitive pieces of catalog rows.
//!
//! Neighbours: `store` composes definitions from these.
//! **Invariants**: reading never panics, whatever the bytes; integers are LEB128, so small ones stay
//! small and widths can grow.

use std::sync::Arc;

use esker_engine::{put_varint, varint_at};
use esker_types::collation::Collation;
use esker_types::geometry::{GeometryType, Shape};
use esker_types::{Decimal, SqlResult, SqlType, TypeKind, Value};

use crate::codec::{damaged, temporal};

/// Longest DECIMAL text: sign, 65 digits, point.
const MAX_DECIMAL_TEXT: usize = 80;

/// Appends pieces.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) out: Vec<u8>,
}

impl Writer {
    pub(super) fn byte(&mut self, v: u8) {
        self.out.push(v);
    }

    pub(super) fn flag(&mut self, v: bool) {
        self.out.push(u8::from(v));
    }

    pub(super) fn int(&mut self, v: u64) {
        put_varint(&mut self.out, v);
    }

    pub(super) fn double(&mut self, v: f64) {
        self.out.extend_from_slice(&v.to_bits().to_le_bytes());
    }

    pub(super) fn bytes(&mut self, v: &[u8]) {
        self.int(v.len() as u64);
        self.out.extend_from_slice(v);
    }

    pub(super) fn text(&mut self, v: &str) {
        self.bytes(v.as_bytes());
    }

    pub(super) fn option<T>(&mut self, v: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(v.is_some());
        if let Some(v) = v {
            write(self, v);
        }
    }

    pub(super) fn value(&mut self, v: &Value) {
        let mut word = |tag, v: u64| {
            self.out.push(tag);
            self.out.extend_from_slice(&v.to_le_bytes());
        };
        match v {
            Value::Null => self.byte(0),
            Value::Int(v) => word(1, *v as u64),
            Value::UInt(v) => word(2, *v),
            Value::Double(v) => word(3, v.to_bits()),
            Value::Decimal(v) => {
                self.byte(4);
                self.text(&v.to_string());
            }
            Value::Str(v) => {
                self.byte(5);
                self.bytes(v);
            }
            Value::Date(v) => word(6, u64::from(temporal::date_bits(*v))),
            Value::Time(v) => word(7, temporal::time_bits(*v) as u64),
            Value::DateTime(v) => word(8, temporal::datetime_bits(*v)),
            Value::Bit(v, bits) => {
                word(9, *v);
                self.byte(*bits);
            }
            Value::Label(v, text) => {
                word(10, *v);
                self.bytes(text);
            }
            Value::Json(doc) => {
                self.byte(11);
                self.bytes(doc);
            }
        }
    }

    pub(super) fn sql_type(&mut self, ty: &SqlType) {
        self.byte(kind_tag(&ty.kind));
        if let TypeKind::Enum(labels) | TypeKind::Set(labels) = &ty.kind {
            self.int(labels.len() as u64);
            for label in labels.iter() {
                self.text(label);
            }
        }
        if let TypeKind::Geometry(geometry) = &ty.kind {
            self.byte(geometry.shape.code());
            self.flag(geometry.srid.is_some());
            self.int(geometry.srid.unwrap_or(0).into());
        }
        self.flag(ty.unsigned);
        self.flag(ty.zerofill);
        self.flag(ty.nullable);
        self.int(u64::from(ty.length));
        self.byte(ty.decimals);
        self.int(u64::from(ty.collation.0));
    }
}

/// Takes pieces off the front.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, len: usize) -> SqlResult<&'a [u8]> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| damaged("catalog row: too short"))?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn byte(&mut self) -> SqlResult<u8> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn flag(&mut self) -> SqlResult<bool> {
        Ok(self.byte()? != 0)
    }

    pub(super) fn int(&mut self) -> SqlResult<u64> {
        let mut length = 0;
        let v = varint_at(self.rest, &mut length).ok_or_else(|| damaged("catalog row: integer"))?;
        self.take(length)?;
        Ok(v)
    }

    pub(super) fn int32(&mut self) -> SqlResult<u32> {
        u32::try_from(self.int()?).map_err(|_| damaged("catalog row: integer"))
    }

    /// A number of things that each take at least a byte.
    pub(super) fn count(&mut self) -> SqlResult<usize> {
        let n = self.int()?;
        if n > self.rest.len() as u64 {
            return Err(damaged("catalog row: count"));
        }
        Ok(n as usize)
    }

    pub(super) fn bytes(&mut self) -> SqlResult<&'a [u8]> {
        let len = self.count()?;
        self.take(len)
    }

    pub(super) fn text(&mut self) -> SqlResult<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| damaged("catalog row: text"))
    }

    pub(super) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<Option<T>> {
        if self.flag()? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<Vec<T>> {
        let n = self.count()?;
        (0..n).map(|_| read(self)).collect()
    }

    pub(super) fn end(&self) -> SqlResult<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(damaged("catalog row: too long"))
        }
    }

    fn word(&mut self) -> SqlResult<u64> {
        let mut b = [0; 8];
        b.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(b))
    }

    pub(super) fn double(&mut self) -> SqlResult<f64> {
        self.word().map(f64::from_bits)
    }

    pub(super) fn value(&mut self) -> SqlResult<Value> {
        Ok(match self.byte()? {
            0 => Value::Null,
            1 => Value::Int(self.word()? as i64),
            2 => Value::UInt(self.word()?),
            3 => Value::Double(f64::from_bits(self.word()?)),
            4 => {
                let text = self.bytes()?;
                if text.len() > MAX_DECIMAL_TEXT {
                    return Err(damaged("catalog row: decimal"));
                }
                Value::Decimal(Decimal::parse(text).0)
            }
            5 => Value::Str(self.bytes()?.to_vec()),
            6 => Value::Date(temporal::date_of(self.word()? as u32)),
            7 => Value::Time(temporal::time_of(self.word()? as i64)),
            8 => Value::DateTime(temporal::datetime_of(self.word()?)),
            9 => Value::Bit(self.word()?, self.byte()?),
            10 => Value::Label(self.word()?, self.bytes()?.into()),
            11 => Value::Json(self.bytes()?.to_vec()),
            _ => return Err(damaged("catalog row: value")),
        })
    }

    fn geometry_type(&mut self) -> SqlResult<GeometryType> {
        let shape = Shape::of_code(self.byte()?);
        let (has_srid, srid) = (self.flag()?, self.int32()?);
        Ok(GeometryType {
            shape: shape.ok_or_else(|| damaged("catalog row: shape"))?,
            srid: has_srid.then_some(srid),
        })
    }

    pub(super) fn sql_type(&mut self) -> SqlResult<SqlType> {
        let tag = self.byte()?;
        let labels = match tag {
            ENUM | SET => self.list(|r| Ok(Arc::from(r.text()?)))?,
            _ => Vec::new(),
        };
        let kind = match tag {
            GEOMETRY => TypeKind::Geometry(self.geometry_type()?),
            _ => kind_of(tag, labels).ok_or_else(|| damaged("catalog row: type"))?,
        };
        let (unsigned, zerofill, nullable) = (self.flag()?, self.flag()?, self.flag()?);
        let (length, decimals) = (self.int32()?, self.byte()?);
        let id = u16::try_from(self.int()?).ok();
        let collation = id
            .and_then(Collation::by_id)
            .ok_or_else(|| damaged("catalog row: collation"))?;
        Ok(SqlType {
            kind,
            unsigned,
            zerofill,
            length,
            decimals,
            collation,
            nullable,
            own_scale: false,
        })
    }
}

const ENUM: u8 = 21;
const SET: u8 = 22;
const GEOMETRY: u8 = 24;

fn kind_tag(kind: &TypeKind) -> u8 {
    match kind {
        TypeKind::Null => 0,
        TypeKind::TinyInt => 1,
        TypeKind::SmallInt => 2,
        TypeKind::MediumInt => 3,
        TypeKind::Int => 4,
        TypeKind::BigInt => 5,
        TypeKind::Float => 6,
        TypeKind::Double => 7,
        TypeKind::Decimal => 8,
        TypeKind::Date => 9,
        TypeKind::Time => 10,
        TypeKind::DateTime => 11,
        TypeKind::Timestamp => 12,
        TypeKind::Year => 13,
        TypeKind::Char => 14,
        TypeKind::VarChar => 15,
        TypeKind::TinyText => 16,
        TypeKind::Text => 17,
        TypeKind::MediumText => 18,
        TypeKind::LongText => 19,
        TypeKind::Bit => 20,
        TypeKind::Enum(_) => ENUM,
        TypeKind::Set(_) => SET,
        TypeKind::Json => 23,
        TypeKind::Geometry(_) => GEOMETRY,
    }
}

fn kind_of(tag: u8, labels: Vec<Arc<str>>) -> Option<TypeKind> {
    Some(match tag {
        0 => TypeKind::Null,
        1 => TypeKind::TinyInt,
        2 => TypeKind::SmallInt,
        3 => TypeKind::MediumInt,
        4 => TypeKind::Int,
        5 => TypeKind::BigInt,
        6 => TypeKind::Float,
        7 => TypeKind::Double,
        8 => TypeKind::Decimal,
        9 => TypeKind::Date,
        10 => TypeKind::Time,
        11 => TypeKind::DateTime,
        12 => TypeKind::Timestamp,
        13 => TypeKind::Year,
        14 => TypeKind::Char,
        15 => TypeKind::VarChar,
        16 => TypeKind::TinyText,
        17 => TypeKind::Text,
        18 => TypeKind::MediumText,
        19 => TypeKind::LongText,
        20 => TypeKind::Bit,
        ENUM => TypeKind::Enum(labels.into()),
        SET => TypeKind::Set(labels.into()),
        23 => TypeKind::Json,
        _ => return None,
    })
}
