//! What a geometry is made of: coordinates, points, rings, members.
//!
//! Neighbours: `geometry`. **Invariant**: a question that the shape has no answer to is NULL, but for those about the
//! coordinates of a point (3516).

use super::read::{self, RangeOf};
use super::{ANY, optional, ret_shape, value};
use crate::error::SqlResult;
use crate::errors;
use crate::func::call::Call;
use crate::func::ret::{any_nullable, double, int, int_null, text};
use crate::func::{ArgType, FuncDef, PURE, RetCtx, Signature, def};
use crate::geometry::{Coord, Geometry, Spatial, srs};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("st_x", 1, 2, PURE, ret_coordinate, |c| {
        coordinate(c, "st_x", Axis::First)
    }),
    def("st_y", 1, 2, PURE, ret_coordinate, |c| {
        coordinate(c, "st_y", Axis::Second)
    }),
    def("st_latitude", 1, 2, PURE, ret_coordinate, |c| {
        coordinate(c, "st_latitude", Axis::Latitude)
    }),
    def("st_longitude", 1, 2, PURE, ret_coordinate, |c| {
        coordinate(c, "st_longitude", Axis::Longitude)
    }),
    def("st_srid", 1, 2, PURE, ret_srid, srid),
    def("st_geometrytype", 1, 1, PURE, text::<15>, geometry_type),
    def("st_dimension", 1, 1, PURE, int_null::<10>, dimension),
    def("st_isempty", 1, 1, PURE, int_null::<1>, is_empty),
    def("st_numpoints", 1, 1, PURE, int_null::<10>, |c| {
        count(c, "st_numpoints", |g| match g {
            Geometry::LineString(line) => Some(line.len()),
            _ => None,
        })
    }),
    def("st_numinteriorring", 1, 1, PURE, int_null::<10>, |c| {
        count(c, "st_numinteriorrings", inner_rings)
    }),
    def("st_numinteriorrings", 1, 1, PURE, int_null::<10>, |c| {
        count(c, "st_numinteriorrings", inner_rings)
    }),
    def("st_numgeometries", 1, 1, PURE, int_null::<10>, |c| {
        count(c, "st_numgeometries", |g| match g {
            Geometry::Point(_) | Geometry::LineString(_) | Geometry::Polygon(_) => None,
            Geometry::MultiPoint(points) => Some(points.len()),
            Geometry::MultiLineString(lines) => Some(lines.len()),
            Geometry::MultiPolygon(polygons) => Some(polygons.len()),
            Geometry::Collection(items) => Some(items.len()),
        })
    }),
    def("st_isclosed", 1, 1, PURE, int_null::<1>, is_closed),
    def("st_pointn", 2, 2, PURE, ret_shape::<ANY>, |c| {
        nth(c, "st_pointn", nth_point)
    }),
    def("st_startpoint", 1, 1, PURE, ret_shape::<ANY>, |c| {
        part(c, "st_startpoint", |g| nth_point(g, 0))
    }),
    def("st_endpoint", 1, 1, PURE, ret_shape::<ANY>, |c| {
        part(c, "st_endpoint", last_point)
    }),
    def("st_exteriorring", 1, 1, PURE, ret_shape::<ANY>, |c| {
        part(c, "st_exteriorring", |g| nth_ring(g, 0))
    }),
    def("st_interiorringn", 2, 2, PURE, ret_shape::<ANY>, |c| {
        nth(c, "st_interiorringn", |g, n| nth_ring(g, n + 1))
    }),
    def("st_geometryn", 2, 2, PURE, ret_shape::<ANY>, |c| {
        nth(c, "st_geometryn", nth_member)
    }),
    def("st_swapxy", 1, 1, PURE, ret_shape::<ANY>, swap_xy),
];

/// A coordinate, or with a second argument the point that has it.
fn ret_coordinate(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    match args.len() {
        1 => double(args, ctx),
        _ => ret_shape::<ANY>(args, ctx),
    }
}

fn ret_srid(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    match args.len() {
        1 => Ok(int::<10>(args, ctx)?.nullable(any_nullable(args))),
        _ => ret_shape::<ANY>(args, ctx),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    First,
    Second,
    Latitude,
    Longitude,
}

/// A coordinate of a point, or the point with another one.
fn coordinate(c: &Call, function: &str, axis: Axis) -> SqlResult<Value> {
    let spatial = read::geometry(c, 0, function)?;
    let mut at = read::point(&spatial, function)?;
    let geographic = srs::is_geographic(spatial.srid);
    if matches!(axis, Axis::Latitude | Axis::Longitude) && !geographic {
        return Err(errors::only_for_geographic(function, spatial.srid));
    }
    let is_y = match axis {
        Axis::First => geographic,
        Axis::Second => !geographic,
        Axis::Latitude => true,
        Axis::Longitude => false,
    };
    let place = if is_y { &mut at.y } else { &mut at.x };
    if !c.has(1) {
        return Ok(Value::Double(*place));
    }
    *place = c.real(1)?;
    match read::out_of_range(at, function, RangeOf::Text).filter(|_| geographic) {
        Some(e) => Err(e),
        None => value(spatial.srid, Geometry::Point(at)),
    }
}

fn srid(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_srid";
    let spatial = read::loose(c, 0, NAME)?;
    if !c.has(1) {
        return Ok(Value::Int(spatial.srid.into()));
    }
    let spatial = Spatial {
        srid: read::srid(c, 1, NAME)?,
        ..spatial
    };
    read::check_range(&spatial, NAME, RangeOf::Parameter)?;
    Ok(Value::Str(spatial.to_bytes()))
}

fn geometry_type(c: &Call) -> SqlResult<Value> {
    let spatial = read::geometry(c, 0, "st_geometrytype")?;
    Ok(Value::Str(spatial.geometry.shape().title().into_bytes()))
}

fn dimension(c: &Call) -> SqlResult<Value> {
    let spatial = read::geometry(c, 0, "st_dimension")?;
    let dimension = spatial.geometry.dimension();
    Ok(dimension.map_or(Value::Null, |n| Value::Int(n.into())))
}

fn is_empty(c: &Call) -> SqlResult<Value> {
    let spatial = read::geometry(c, 0, "st_isempty")?;
    Ok(Value::bool(spatial.geometry.is_empty()))
}

fn count(c: &Call, function: &str, count: impl Fn(&Geometry) -> Option<usize>) -> SqlResult<Value> {
    let spatial = read::geometry(c, 0, function)?;
    let n = count(&spatial.geometry);
    Ok(n.map_or(Value::Null, |n| Value::Int(n as i64)))
}

fn inner_rings(geometry: &Geometry) -> Option<usize> {
    match geometry {
        Geometry::Polygon(rings) => rings.len().checked_sub(1),
        _ => None,
    }
}

fn is_closed(c: &Call) -> SqlResult<Value> {
    let spatial = read::geometry(c, 0, "st_isclosed")?;
    let ends = |line: &Vec<Coord>| line.first() == line.last();
    Ok(match &spatial.geometry {
        Geometry::LineString(line) => Value::bool(ends(line)),
        Geometry::MultiLineString(lines) => Value::bool(lines.iter().all(ends)),
        _ => Value::Null,
    })
}

/// A part of the geometry.
fn part(
    c: &Call,
    function: &str,
    pick: impl Fn(&Geometry) -> Option<Geometry>,
) -> SqlResult<Value> {
    let spatial = read::geometry(c, 0, function)?;
    optional(spatial.srid, pick(&spatial.geometry))
}

/// The part of a number, counted from 1.
fn nth(
    c: &Call,
    function: &str,
    pick: impl Fn(&Geometry, usize) -> Option<Geometry>,
) -> SqlResult<Value> {
    let n = c.count(1)?;
    part(c, function, |geometry| pick(geometry, n.checked_sub(1)?))
}

fn nth_point(geometry: &Geometry, n: usize) -> Option<Geometry> {
    match geometry {
        Geometry::LineString(line) => line.get(n).copied().map(Geometry::Point),
        _ => None,
    }
}

fn last_point(geometry: &Geometry) -> Option<Geometry> {
    match geometry {
        Geometry::LineString(line) => line.last().copied().map(Geometry::Point),
        _ => None,
    }
}

fn nth_ring(geometry: &Geometry, n: usize) -> Option<Geometry> {
    match geometry {
        Geometry::Polygon(rings) => rings.get(n).cloned().map(Geometry::LineString),
        _ => None,
    }
}

fn nth_member(geometry: &Geometry, n: usize) -> Option<Geometry> {
    match geometry {
        Geometry::MultiPoint(points) => points.get(n).copied().map(Geometry::Point),
        Geometry::MultiLineString(lines) => lines.get(n).cloned().map(Geometry::LineString),
        Geometry::MultiPolygon(polygons) => polygons.get(n).cloned().map(Geometry::Polygon),
        Geometry::Collection(items) => items.get(n).cloned(),
        _ => None,
    }
}

fn swap_xy(c: &Call) -> SqlResult<Value> {
    let spatial = read::loose(c, 0, "st_swapxy")?;
    value(spatial.srid, spatial.geometry.swapped())
}
