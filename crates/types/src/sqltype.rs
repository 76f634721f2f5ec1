//! The static type of a column or expression, as MySQL's metadata describes it.
//!
//! Neighbours: `value` (what a type's values look like), the `sql` crate's catalog and binder.
//! **Invariants**: `collation` is `Collation::BINARY` for every non-character type but JSON, which is text in
//! `utf8mb4_bin` wherever a text is wanted; `decimals` is
//! [`NOT_FIXED_DECIMALS`] for floating types without a scale; `length` is in characters for
//! character types, in bytes for binary types, in digits for DECIMAL, in bits for BIT, and the
//! display width otherwise.

use std::sync::Arc;

use crate::collation::Collation;
use crate::geometry::GeometryType;

/// `decimals` of a floating type without declared scale (what MySQL sends on the wire).
pub const NOT_FIXED_DECIMALS: u8 = 31;

/// The kind of a type; sizes and signs are in [`SqlType`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TypeKind {
    /// The type of a bare NULL.
    Null,
    /// 1 byte integer.
    TinyInt,
    /// 2 byte integer.
    SmallInt,
    /// 3 byte integer.
    MediumInt,
    /// 4 byte integer.
    Int,
    /// 8 byte integer.
    BigInt,
    /// 4 byte float.
    Float,
    /// 8 byte float.
    Double,
    /// Fixed point, up to 65 digits with up to 30 decimals.
    Decimal,
    /// Calendar date.
    Date,
    /// Signed duration -838:59:59 to 838:59:59.
    Time,
    /// Date and time without zone.
    DateTime,
    /// Date and time stored as UTC, shown in the session's zone.
    Timestamp,
    /// 0, 1901-2155.
    Year,
    /// Fixed length characters (BINARY when the collation is binary).
    Char,
    /// Variable length characters (VARBINARY when the collation is binary).
    VarChar,
    /// TINYTEXT / TINYBLOB.
    TinyText,
    /// TEXT / BLOB.
    Text,
    /// MEDIUMTEXT / MEDIUMBLOB.
    MediumText,
    /// LONGTEXT / LONGBLOB.
    LongText,
    /// Bit string of 1-64 bits.
    Bit,
    /// One of a list of labels.
    Enum(Arc<[Arc<str>]>),
    /// A subset of up to 64 labels.
    Set(Arc<[Arc<str>]>),
    /// JSON document.
    Json,
    /// GEOMETRY, POINT and their kin: bytes that are a geometry.
    Geometry(GeometryType),
}

/// A type with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SqlType {
    /// Kind.
    pub kind: TypeKind,
    /// UNSIGNED.
    pub unsigned: bool,
    /// ZEROFILL (implies unsigned).
    pub zerofill: bool,
    /// Length as the file head says.
    pub length: u32,
    /// Scale of DECIMAL/FLOAT/DOUBLE, fractional second digits of temporal types.
    pub decimals: u8,
    /// Collation (with its character set).
    pub collation: Collation,
    /// May be NULL.
    pub nullable: bool,
    /// Texts show a DECIMAL with the decimals that the value has, and not with those of the type: user variables, and
    /// what passes a value on as it is. Columns never have it.
    pub own_scale: bool,
}

impl SqlType {
    /// The type of an expression that passes on the value of another one, with the decimals that it has.
    #[must_use]
    pub fn passing_on(self) -> Self {
        Self {
            own_scale: self.kind == TypeKind::Decimal,
            ..self
        }
    }

    /// How many decimals a text of this value has, if not its own.
    pub(crate) fn shown_scale(&self, scale: u8) -> Option<u8> {
        let is_shown = self.kind == TypeKind::Decimal && !self.own_scale && scale != self.decimals;
        is_shown.then_some(self.decimals)
    }

    /// A type of `kind` with MySQL's default parameters, nullable, binary collation.
    pub fn new(kind: TypeKind) -> Self {
        let (length, decimals) = match &kind {
            TypeKind::Null => (0, 0),
            TypeKind::TinyInt => (4, 0),
            TypeKind::SmallInt => (6, 0),
            TypeKind::MediumInt => (9, 0),
            TypeKind::Int => (11, 0),
            TypeKind::BigInt => (20, 0),
            TypeKind::Float => (12, NOT_FIXED_DECIMALS),
            TypeKind::Double => (22, NOT_FIXED_DECIMALS),
            TypeKind::Decimal => (10, 0),
            TypeKind::Date => (10, 0),
            TypeKind::Time => (10, 0),
            TypeKind::DateTime | TypeKind::Timestamp => (19, 0),
            TypeKind::Year => (4, 0),
            TypeKind::Char => (1, 0),
            TypeKind::VarChar => (0, 0),
            TypeKind::TinyText => (255, 0),
            TypeKind::Text => (65_535, 0),
            TypeKind::MediumText => (16_777_215, 0),
            TypeKind::LongText | TypeKind::Json | TypeKind::Geometry(_) => (u32::MAX, 0),
            TypeKind::Bit => (1, 0),
            TypeKind::Enum(_) | TypeKind::Set(_) => (0, 0),
        };
        let collation = if kind == TypeKind::Json {
            Collation::UTF8MB4_BIN
        } else {
            Collation::BINARY
        };
        Self {
            kind,
            unsigned: false,
            zerofill: false,
            length,
            decimals,
            collation,
            nullable: true,
            own_scale: false,
        }
    }

    /// VARCHAR of `chars` characters in `collation`.
    pub fn varchar(chars: u32, collation: Collation) -> Self {
        Self {
            length: chars,
            collation,
            ..Self::new(TypeKind::VarChar)
        }
    }

    /// BIGINT, signed or not.
    pub fn bigint(unsigned: bool) -> Self {
        Self {
            unsigned,
            ..Self::new(TypeKind::BigInt)
        }
    }

    /// DECIMAL(`precision`, `scale`).
    pub fn decimal(precision: u32, scale: u8) -> Self {
        Self {
            length: precision,
            decimals: scale,
            ..Self::new(TypeKind::Decimal)
        }
    }

    /// DOUBLE as an expression has it: in full, or with so many decimals.
    pub fn double(decimals: u8) -> Self {
        /// Digits that a double always holds, and sign and point.
        const WHOLE: u32 = 15 + 2;
        /// All digits, sign, point and exponent.
        const IN_FULL: u32 = 23;
        Self {
            length: if decimals < NOT_FIXED_DECIMALS {
                WHOLE + u32::from(decimals)
            } else {
                IN_FULL
            },
            decimals,
            ..Self::new(TypeKind::Double)
        }
    }

    /// The same type, NULL allowed or not.
    pub fn with_nullable(mut self, nullable: bool) -> Self {
        self.nullable = nullable;
        self
    }

    /// TINYINT to BIGINT and YEAR.
    pub fn is_integer(&self) -> bool {
        matches!(
            self.kind,
            TypeKind::TinyInt
                | TypeKind::SmallInt
                | TypeKind::MediumInt
                | TypeKind::Int
                | TypeKind::BigInt
                | TypeKind::Year
        )
    }

    /// A number without a sign: UNSIGNED, YEAR, BIT.
    pub fn is_unsigned(&self) -> bool {
        self.unsigned || matches!(self.kind, TypeKind::Year | TypeKind::Bit)
    }

    /// CHAR, VARCHAR and the TEXT family, in any collation (also binary), and geometries, which are bytes.
    pub fn is_string(&self) -> bool {
        matches!(
            self.kind,
            TypeKind::Char
                | TypeKind::VarChar
                | TypeKind::TinyText
                | TypeKind::Text
                | TypeKind::MediumText
                | TypeKind::LongText
                | TypeKind::Geometry(_)
        )
    }

    /// ENUM, SET.
    pub fn is_label(&self) -> bool {
        matches!(self.kind, TypeKind::Enum(_) | TypeKind::Set(_))
    }

    /// GEOMETRY, POINT and their kin.
    pub fn is_geometry(&self) -> bool {
        matches!(self.kind, TypeKind::Geometry(_))
    }

    /// DATE, TIME, DATETIME, TIMESTAMP.
    pub fn is_temporal(&self) -> bool {
        matches!(
            self.kind,
            TypeKind::Date | TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp
        )
    }

    /// Integers, DECIMAL, FLOAT, DOUBLE, BIT.
    pub fn is_numeric(&self) -> bool {
        self.is_integer()
            || matches!(
                self.kind,
                TypeKind::Float | TypeKind::Double | TypeKind::Decimal | TypeKind::Bit
            )
    }
}
