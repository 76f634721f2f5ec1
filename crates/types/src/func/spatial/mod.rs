//! Spatial functions.
//!
//! In flow order: `read` (arguments), `make` (from WKT, WKB and parts), `parts` (what a geometry is made of), `measure`
//! (lengths, areas, distances, outlines), `relate` (bounding rectangles), `document` (GeoJSON, geohash).
//! Neighbours: `crate::geometry` does the work.
//! **Invariants**: NULL arguments give NULL; coordinates of an argument are finite, and those of a geographic one in
//! range; what is computed is in the plane: other systems get error 3618.

pub(super) mod document;
pub(super) mod make;
pub(super) mod measure;
pub(super) mod parts;
mod read;
pub(super) mod relate;

use super::{ArgType, RetCtx, Signature};
use crate::error::SqlResult;
use crate::geometry::{Geometry, GeometryType, Shape, Spatial};
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// A geometry of a shape, by its code; it may be NULL.
fn ret_shape<const CODE: u8>(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let shape = Shape::of_code(CODE).unwrap_or(Shape::Geometry);
    let kind = TypeKind::Geometry(GeometryType::of(shape));
    Ok(Signature::plain(SqlType::new(kind)))
}

/// Any geometry.
const ANY: u8 = Shape::Geometry as u8;

/// A text of any length.
fn ret_text(_: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let ty = SqlType {
        collation: ctx.collation_connection,
        ..SqlType::new(TypeKind::LongText)
    };
    Ok(Signature::plain(ty))
}

/// A geometry as a value.
fn value(srid: u32, geometry: Geometry) -> SqlResult<Value> {
    Ok(Value::Str(Spatial { srid, geometry }.to_bytes()))
}

/// The same, or NULL.
fn optional(srid: u32, geometry: Option<Geometry>) -> SqlResult<Value> {
    geometry.map_or(Ok(Value::Null), |geometry| value(srid, geometry))
}
