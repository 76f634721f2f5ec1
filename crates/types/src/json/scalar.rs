//! SQL values as JSON values.
//!
//! Neighbours: the constructors among the functions, CAST(.. AS JSON) of what is no text, comparisons of JSON with
//! other types.
//! **Invariants**: a text becomes a string, it is not parsed; bytes become opaque values that keep their SQL type,
//! geometries GeoJSON.

use super::view::JsonRef;
use super::{Json, field_type};
use crate::geometry::geojson;
use crate::sqltype::{SqlType, TypeKind};
use crate::value::ValueRef;

/// A value of type `ty` as JSON; SQL NULL is JSON null.
pub fn from_value(v: ValueRef<'_>, ty: &SqlType) -> Json {
    match v {
        ValueRef::Null => Json::Null,
        ValueRef::Int(n) if ty.kind == TypeKind::Year => Json::UInt(n as u64),
        ValueRef::Int(n) => Json::Int(n),
        ValueRef::UInt(n) => Json::UInt(n),
        ValueRef::Double(d) => Json::Double(d),
        ValueRef::Decimal(d) => Json::Decimal(shown_scale(d, ty)),
        ValueRef::Str(s) if matches!(ty.kind, TypeKind::Geometry(_)) => {
            geojson::document(s).unwrap_or_else(|| Json::Opaque(field_type::GEOMETRY, s.to_vec()))
        }
        ValueRef::Str(s) if ty.is_string() && ty.collation.is_binary() => {
            Json::Opaque(opaque_type(ty), s.to_vec())
        }
        ValueRef::Str(s) | ValueRef::Label(_, s) => Json::String(s.to_vec()),
        ValueRef::Date(d) => Json::Date(d),
        ValueRef::Time(t) => Json::Time(t),
        ValueRef::DateTime(d) => Json::DateTime(d, ty.kind == TypeKind::Timestamp),
        ValueRef::Bit(v, n) => {
            let bytes = v.to_be_bytes();
            let used = usize::from(n).div_ceil(8).clamp(1, bytes.len());
            Json::Opaque(field_type::BIT, bytes[bytes.len() - used..].to_vec())
        }
        ValueRef::Json(doc) => JsonRef::new(doc).to_json(),
    }
}

/// A decimal with no more decimals than its type has: zeros that its text would have are not the value's.
fn shown_scale(d: crate::Decimal, ty: &SqlType) -> crate::Decimal {
    match ty.kind == TypeKind::Decimal && d.scale() > ty.decimals {
        true => d.round(ty.decimals).unwrap_or(d),
        false => d,
    }
}

fn opaque_type(ty: &SqlType) -> u8 {
    match ty.kind {
        TypeKind::Char => field_type::STRING,
        TypeKind::TinyText => field_type::TINY_BLOB,
        TypeKind::Text => field_type::BLOB,
        TypeKind::MediumText => field_type::MEDIUM_BLOB,
        TypeKind::LongText => field_type::LONG_BLOB,
        _ => field_type::VARCHAR,
    }
}
