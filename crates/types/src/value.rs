//! Run-time values.
//!
//! Neighbours: `sqltype` (static types), `decimal`, `temporal`; the row codec and the wire layer turn them into bytes.
//! **Invariants**: `Str` holds UTF-8 when the static type's character set is not binary (latin1 columns are converted
//! at the edges); `Json` holds what `json::encode` makes; FLOAT values are `Double` that round-trip through `f32`; YEAR
//! is `Int`; TIMESTAMP is `DateTime` already converted to the session's zone.

use crate::decimal::Decimal;
use crate::temporal::{Date, DateTime, Time};

/// An owned value.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// SQL NULL.
    #[default]
    Null,
    /// Signed integer (also YEAR and booleans).
    Int(i64),
    /// Unsigned integer.
    UInt(u64),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// DECIMAL.
    Decimal(Decimal),
    /// Characters or bytes; the static type knows which.
    Str(Vec<u8>),
    /// DATE.
    Date(Date),
    /// TIME.
    Time(Time),
    /// DATETIME and TIMESTAMP.
    DateTime(DateTime),
    /// BIT(n): the bits and n.
    Bit(u64, u8),
    /// ENUM (1-based index, 0 = the error value '') or SET (bit mask), with its text.
    Label(u64, Box<[u8]>),
    /// JSON: an encoded document.
    Json(Vec<u8>),
}

/// A borrowed value: what a row codec reads without allocation and the wire layer writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    Null,
    /// See [`Value::Int`].
    Int(i64),
    /// See [`Value::UInt`].
    UInt(u64),
    /// See [`Value::Double`].
    Double(f64),
    /// See [`Value::Decimal`].
    Decimal(Decimal),
    /// See [`Value::Str`].
    Str(&'a [u8]),
    /// See [`Value::Date`].
    Date(Date),
    /// See [`Value::Time`].
    Time(Time),
    /// See [`Value::DateTime`].
    DateTime(DateTime),
    /// See [`Value::Bit`].
    Bit(u64, u8),
    /// See [`Value::Label`].
    Label(u64, &'a [u8]),
    /// See [`Value::Json`].
    Json(&'a [u8]),
}

impl Value {
    /// Bytes of a text or a document; 0 for other values.
    #[inline]
    pub fn text_len(&self) -> usize {
        match self {
            Self::Str(s) | Self::Json(s) => s.len(),
            _ => 0,
        }
    }

    /// A string value from text.
    pub fn str(text: impl AsRef<[u8]>) -> Self {
        Self::Str(text.as_ref().to_vec())
    }

    /// TRUE or FALSE as MySQL has them: 1 or 0.
    pub fn bool(b: bool) -> Self {
        Self::Int(i64::from(b))
    }

    /// Is this NULL?
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Borrows.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Int(v) => ValueRef::Int(*v),
            Self::UInt(v) => ValueRef::UInt(*v),
            Self::Double(v) => ValueRef::Double(*v),
            Self::Decimal(v) => ValueRef::Decimal(*v),
            Self::Str(v) => ValueRef::Str(v),
            Self::Date(v) => ValueRef::Date(*v),
            Self::Time(v) => ValueRef::Time(*v),
            Self::DateTime(v) => ValueRef::DateTime(*v),
            Self::Bit(v, n) => ValueRef::Bit(*v, *n),
            Self::Label(v, t) => ValueRef::Label(*v, t),
            Self::Json(d) => ValueRef::Json(d),
        }
    }
}

impl ValueRef<'_> {
    /// Is this NULL?
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Copies.
    pub fn to_owned(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Int(v) => Value::Int(v),
            Self::UInt(v) => Value::UInt(v),
            Self::Double(v) => Value::Double(v),
            Self::Decimal(v) => Value::Decimal(v),
            Self::Str(v) => Value::Str(v.to_vec()),
            Self::Date(v) => Value::Date(v),
            Self::Time(v) => Value::Time(v),
            Self::DateTime(v) => Value::DateTime(v),
            Self::Bit(v, n) => Value::Bit(v, n),
            Self::Label(v, t) => Value::Label(v, t.into()),
            Self::Json(d) => Value::Json(d.to_vec()),
        }
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(v: &'a Value) -> Self {
        v.as_ref()
    }
}
