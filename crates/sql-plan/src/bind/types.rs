//! Written types as column types, with MySQL's limits.
//!
//! Neighbours: `ddl` adds what is not part of the type, JSON_TABLE takes it as it is; CAST has rules of its own.
//! **Invariant**: a type made here can be stored: lengths, precisions and label counts are in bounds.

use super::errors;
use std::sync::Arc;

use esker_sql_syntax::ast::{DataType, TypeName};
use esker_types::collation::{Charset, Collation};
use esker_types::geometry::GeometryType;
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{SqlError, SqlResult, SqlType, TypeKind};

const MAX_CHAR: u64 = 255;
const MAX_ROW_BYTES: u64 = 65_535;
const MAX_PRECISION: u64 = 65;
const MAX_SCALE: u64 = 30;
const MAX_FSP: u64 = 6;
const MAX_BITS: u64 = 64;
const MAX_DISPLAY_WIDTH: u64 = 255;
const MAX_ENUM_LABELS: usize = 65_535;
const MAX_SET_LABELS: usize = 64;
const MAX_LABEL_CHARS: usize = 255;
/// FLOAT(p) with more bits is a DOUBLE.
const MAX_FLOAT_BITS: u64 = 24;
const MAX_DOUBLE_BITS: u64 = 53;

/// The type of column `column`; character types without a charset get `default`.
pub fn column_type(ty: &DataType, column: &str, default: Collation) -> SqlResult<SqlType> {
    if ty.array {
        return Err(SqlError::not_supported("CAST-ing data to array"));
    }
    let mut out = match ty.name {
        TypeName::Bool => SqlType {
            length: 1,
            ..SqlType::new(TypeKind::TinyInt)
        },
        TypeName::TinyInt => integer(TypeKind::TinyInt, ty, column)?,
        TypeName::SmallInt => integer(TypeKind::SmallInt, ty, column)?,
        TypeName::MediumInt => integer(TypeKind::MediumInt, ty, column)?,
        TypeName::Int => integer(TypeKind::Int, ty, column)?,
        TypeName::BigInt => integer(TypeKind::BigInt, ty, column)?,
        TypeName::Serial => SqlType::bigint(true).with_nullable(false),
        TypeName::Decimal => decimal(ty, column)?,
        TypeName::Float => float(ty, column)?,
        TypeName::Double => real(TypeKind::Double, ty, column)?,
        TypeName::Bit => bit(ty, column)?,
        TypeName::Year if ty.length.is_some_and(|n| n != 4) => {
            let text = "Invalid display width. Use YEAR instead.";
            return Err(SqlError::new(1818, "HY000", text));
        }
        TypeName::Year => SqlType::new(TypeKind::Year),
        TypeName::Date => SqlType::new(TypeKind::Date),
        TypeName::Time => temporal(TypeKind::Time, 10, ty, column)?,
        TypeName::DateTime => temporal(TypeKind::DateTime, 19, ty, column)?,
        TypeName::Timestamp => temporal(TypeKind::Timestamp, 19, ty, column)?,
        TypeName::Char | TypeName::VarChar => chars(ty, column, default)?,
        TypeName::Binary | TypeName::VarBinary => bytes(ty, column)?,
        TypeName::TinyText
        | TypeName::Text
        | TypeName::MediumText
        | TypeName::LongText
        | TypeName::TinyBlob
        | TypeName::Blob
        | TypeName::MediumBlob
        | TypeName::LongBlob => text(ty, column, default)?,
        TypeName::Enum | TypeName::Set => labels(ty, column, default)?,
        TypeName::Json => {
            binary_collation(ty)?;
            SqlType::new(TypeKind::Json)
        }
        TypeName::Geometry(shape) => SqlType::new(TypeKind::Geometry(GeometryType::of(shape))),
        TypeName::Vector => return Err(SqlError::not_supported("VECTOR columns")),
    };
    if ty.zerofill || ty.unsigned {
        out.unsigned = true;
        out.zerofill = ty.zerofill;
    }
    Ok(out)
}

fn integer(kind: TypeKind, ty: &DataType, column: &str) -> SqlResult<SqlType> {
    let mut out = SqlType::new(kind);
    if let Some(width) = ty.length {
        if width > MAX_DISPLAY_WIDTH {
            return Err(width_range(column));
        }
        out.length = width as u32;
    } else if ty.unsigned || ty.zerofill {
        // An unsigned number needs no room for a sign.
        out.length -= u32::from(out.kind != TypeKind::BigInt);
    }
    Ok(out)
}

fn width_range(column: &str) -> SqlError {
    errors::width_out_of_range(column, MAX_DISPLAY_WIDTH)
}

fn check_scale(scale: u64, column: &str) -> SqlResult<()> {
    if scale > MAX_SCALE {
        return Err(errors::scale_too_big(scale, column, MAX_SCALE));
    }
    Ok(())
}

fn decimal(ty: &DataType, column: &str) -> SqlResult<SqlType> {
    let scale = ty.decimals.unwrap_or(0);
    let precision = match ty.length {
        None => 10,
        Some(0) if scale == 0 => 10,
        Some(p) => p,
    };
    check_scale(scale, column)?;
    if precision > MAX_PRECISION {
        return Err(errors::precision_too_big(precision, column, MAX_PRECISION));
    }
    if scale > precision {
        return Err(errors::scale_above_precision(column));
    }
    Ok(SqlType::decimal(precision as u32, scale as u8))
}

fn float(ty: &DataType, column: &str) -> SqlResult<SqlType> {
    match (ty.length, ty.decimals) {
        (Some(bits), None) if bits > MAX_DOUBLE_BITS => Err(errors::wrong_column_specifier(column)),
        (Some(bits), None) if bits > MAX_FLOAT_BITS => Ok(SqlType::new(TypeKind::Double)),
        (Some(_), None) => Ok(SqlType::new(TypeKind::Float)),
        _ => real(TypeKind::Float, ty, column),
    }
}

fn real(kind: TypeKind, ty: &DataType, column: &str) -> SqlResult<SqlType> {
    let mut out = SqlType::new(kind);
    let (Some(length), Some(scale)) = (ty.length, ty.decimals) else {
        debug_assert_eq!(out.decimals, NOT_FIXED_DECIMALS);
        return Ok(out);
    };
    check_scale(scale, column)?;
    if length > MAX_DISPLAY_WIDTH {
        return Err(width_range(column));
    }
    if scale > length {
        return Err(errors::scale_above_precision(column));
    }
    out.length = length as u32;
    out.decimals = scale as u8;
    Ok(out)
}

fn bit(ty: &DataType, column: &str) -> SqlResult<SqlType> {
    let bits = ty.length.unwrap_or(1);
    if bits > MAX_BITS {
        return Err(errors::width_out_of_range(column, MAX_BITS));
    }
    if bits == 0 {
        let text = format!("Invalid size for column '{column}'.");
        return Err(SqlError::new(3013, "HY000", text));
    }
    Ok(SqlType {
        length: bits as u32,
        unsigned: true,
        ..SqlType::new(TypeKind::Bit)
    })
}

fn temporal(kind: TypeKind, width: u32, ty: &DataType, column: &str) -> SqlResult<SqlType> {
    let fsp = ty.length.unwrap_or(0);
    if fsp > MAX_FSP {
        return Err(errors::precision_too_big(fsp, column, MAX_FSP));
    }
    let fraction = if fsp > 0 { fsp as u32 + 1 } else { 0 };
    Ok(SqlType {
        decimals: fsp as u8,
        length: width + fraction,
        ..SqlType::new(kind)
    })
}

/// The collation that CHARACTER SET, COLLATE and BINARY of a type ask for.
fn collation(ty: &DataType, default: Collation) -> SqlResult<Collation> {
    let charset = ty.charset.as_deref().map(charset_by_name).transpose()?;
    let named = ty.collation.as_deref().map(collation_by_name).transpose()?;
    let out = pick_collation(charset, named, default)?;
    Ok(if ty.binary && named.is_none() {
        out.bin_of()
    } else {
        out
    })
}

/// The collation of a type of bytes: 1253 for another one.
fn binary_collation(ty: &DataType) -> SqlResult<Collation> {
    let named = ty.collation.as_deref().map(collation_by_name).transpose()?;
    pick_collation(Some(Charset::Binary), named, Collation::BINARY)
}

/// 1115.
pub fn charset_by_name(name: &str) -> SqlResult<Charset> {
    Charset::by_name(name).ok_or_else(|| errors::unknown_charset(name))
}

/// 1273.
pub fn collation_by_name(name: &str) -> SqlResult<Collation> {
    Collation::by_name(name).ok_or_else(|| errors::unknown_collation(name))
}

/// Combines CHARACTER SET and COLLATE: 1253 when they do not fit.
pub fn pick_collation(
    charset: Option<Charset>,
    collation: Option<Collation>,
    default: Collation,
) -> SqlResult<Collation> {
    match (charset, collation) {
        (None, None) => Ok(default),
        (Some(charset), None) => Ok(Collation::default_of(charset)),
        (None, Some(collation)) => Ok(collation),
        (Some(charset), Some(collation)) if collation.charset() == charset => Ok(collation),
        (Some(charset), Some(collation)) => {
            Err(errors::collation_mismatch(collation.name(), charset.name()))
        }
    }
}

/// 1439 for what is no length at all, 1074 for one that is too long.
fn check_length(length: u64, column: &str, max: u64) -> SqlResult<()> {
    const MOST: u64 = u32::MAX as u64;
    match length {
        length if length > MOST => Err(errors::width_out_of_range(column, MOST)),
        length if length > max => Err(too_long(column, max)),
        _ => Ok(()),
    }
}

fn too_long(column: &str, max: u64) -> SqlError {
    let text = format!(
        "Column length too big for column '{column}' (max = {max}); use BLOB or TEXT instead"
    );
    SqlError::new(1074, "42000", text)
}

fn chars(ty: &DataType, column: &str, default: Collation) -> SqlResult<SqlType> {
    let collation = collation(ty, default)?;
    let width = u64::from(collation.charset().max_len());
    let (kind, length, max) = if ty.name == TypeName::Char {
        (TypeKind::Char, ty.length.unwrap_or(1), MAX_CHAR)
    } else {
        (
            TypeKind::VarChar,
            ty.length.unwrap_or(1),
            MAX_ROW_BYTES / width,
        )
    };
    check_length(length, column, max)?;
    Ok(SqlType {
        length: length as u32,
        collation,
        ..SqlType::new(kind)
    })
}

fn bytes(ty: &DataType, column: &str) -> SqlResult<SqlType> {
    let (kind, max) = match ty.name {
        TypeName::Binary => (TypeKind::Char, MAX_CHAR),
        _ => (TypeKind::VarChar, MAX_ROW_BYTES),
    };
    binary_collation(ty)?;
    let length = ty.length.unwrap_or(1);
    check_length(length, column, max)?;
    Ok(SqlType {
        length: length as u32,
        ..SqlType::new(kind)
    })
}

fn text(ty: &DataType, column: &str, default: Collation) -> SqlResult<SqlType> {
    let (kind, is_text) = match ty.name {
        TypeName::TinyText => (TypeKind::TinyText, true),
        TypeName::Text => (TypeKind::Text, true),
        TypeName::MediumText => (TypeKind::MediumText, true),
        TypeName::LongText => (TypeKind::LongText, true),
        TypeName::TinyBlob => (TypeKind::TinyText, false),
        TypeName::Blob => (TypeKind::Text, false),
        TypeName::MediumBlob => (TypeKind::MediumText, false),
        _ => (TypeKind::LongText, false),
    };
    let collation = if is_text {
        collation(ty, default)?
    } else {
        binary_collation(ty)?
    };
    let kind = match ty.length {
        Some(length) => smallest_blob(length, u64::from(collation.charset().max_len()), column)?,
        None => kind,
    };
    Ok(SqlType {
        collation,
        ..SqlType::new(kind)
    })
}

/// TEXT(n) is the smallest type that holds n characters, or the largest there is.
fn smallest_blob(length: u64, width: u64, column: &str) -> SqlResult<TypeKind> {
    if length > u64::from(u32::MAX) {
        return Err(errors::width_out_of_range(column, u32::MAX));
    }
    Ok(match length * width {
        0..=255 => TypeKind::TinyText,
        256..=65_535 => TypeKind::Text,
        65_536..=16_777_215 => TypeKind::MediumText,
        _ => TypeKind::LongText,
    })
}

/// 1291 for each label of an ENUM or SET that comes again behind its place.
pub fn repeated_labels(ty: &SqlType, column: &str) -> Vec<SqlError> {
    let (labels, what) = match &ty.kind {
        TypeKind::Enum(labels) => (labels, "ENUM"),
        TypeKind::Set(labels) => (labels, "SET"),
        _ => return Vec::new(),
    };
    let is_repeated = |nth: &usize| {
        let label = labels[*nth].as_bytes();
        let mut behind = labels[nth + 1..].iter();
        behind.any(|other| ty.collation.eq(other.as_bytes(), label))
    };
    let error = |nth: usize| {
        let label = &labels[nth];
        let text = format!("Column '{column}' has duplicated value '{label}' in {what}");
        SqlError::new(1291, "HY000", text)
    };
    (0..labels.len()).filter(is_repeated).map(error).collect()
}

fn labels(ty: &DataType, column: &str, default: Collation) -> SqlResult<SqlType> {
    let collation = collation(ty, default)?;
    let is_set = ty.name == TypeName::Set;
    let max = if is_set {
        MAX_SET_LABELS
    } else {
        MAX_ENUM_LABELS
    };
    if ty.labels.len() > max {
        let what = if is_set { "SET" } else { "ENUM" };
        let text = format!("Too many strings for column {column} and {what}");
        return Err(SqlError::new(
            if is_set { 1097 } else { 3169 },
            "HY000",
            text,
        ));
    }
    let mut labels: Vec<Arc<str>> = Vec::with_capacity(ty.labels.len());
    for bytes in &ty.labels {
        let label = match collation.charset().decode(bytes) {
            // A hexadecimal literal that is none in UTF-8.
            Ok(text) if std::str::from_utf8(bytes).is_err() => text,
            _ => bytes.into(),
        };
        let label = String::from_utf8_lossy(&label);
        // Trailing spaces are never part of a label.
        let label = label.trim_end_matches(' ');
        check_label(label, is_set, column)?;
        labels.push(label.into());
    }
    let chars = |l: &Arc<str>| l.chars().count() as u32;
    let length = if is_set {
        (labels.iter().map(chars).sum::<u32>() + labels.len() as u32).saturating_sub(1)
    } else {
        labels.iter().map(chars).max().unwrap_or(0)
    };
    let labels: Arc<[Arc<str>]> = labels.into();
    let kind = if is_set {
        TypeKind::Set(labels)
    } else {
        TypeKind::Enum(labels)
    };
    Ok(SqlType {
        collation,
        length,
        ..SqlType::new(kind)
    })
}

fn check_label(label: &str, is_set: bool, column: &str) -> SqlResult<()> {
    if is_set && label.contains(',') {
        return Err(errors::illegal_value("set", label));
    }
    if label.chars().count() > MAX_LABEL_CHARS {
        let text = format!("Too long enumeration/set value for column {column}.");
        return Err(SqlError::new(3505, "HY000", text));
    }
    Ok(())
}
