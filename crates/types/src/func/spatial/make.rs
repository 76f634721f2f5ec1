//! Geometries from WKT, from WKB and from parts.
//!
//! Neighbours: `geometry::wkt`, `geometry::wkb`. **Invariant**: what is made is well formed (3037), of the shape that
//! the function's name says (3516), and on the earth where it is geographic (3616, 3617).

use std::borrow::Cow;

use super::read::{self, RangeOf};
use super::{ANY, ret_shape, value};
use crate::error::SqlResult;
use crate::errors;
use crate::func::call::Call;
use crate::func::ret::binary;
use crate::func::{ANY_ARGS, ArgType, CALCULATION, FuncDef, PURE, RetCtx, Signature, def};
use crate::geometry::{Coord, Geometry, Shape, Spatial, is_ring, wkb, wkt};
use crate::sqltype::TypeKind;
use crate::value::Value;

const POINT: u8 = Shape::Point as u8;
const LINE: u8 = Shape::LineString as u8;
const POLYGON: u8 = Shape::Polygon as u8;
const POINTS: u8 = Shape::MultiPoint as u8;
const LINES: u8 = Shape::MultiLineString as u8;
const POLYGONS: u8 = Shape::MultiPolygon as u8;
const COLLECTION: u8 = Shape::Collection as u8;

/// A function that reads WKT, with its other name.
macro_rules! text {
    ($name:literal, $code:expr) => {
        def($name, 1, 3, PURE, ret_shape::<{ $code }>, |c| {
            from_text(c, $name, $code)
        })
    };
}

/// A function that reads WKB.
macro_rules! bytes {
    ($name:literal, $code:expr) => {
        def($name, 1, 3, PURE, ret_shape::<{ $code }>, |c| {
            from_bytes(c, $name, $code)
        })
    };
}

/// A function that takes parts.
macro_rules! parts {
    ($name:literal, $least:literal, $code:expr) => {
        def(
            $name,
            $least,
            ANY_ARGS,
            PURE,
            ret_of_parts::<{ $code }>,
            |c| from_parts(c, $name, $code),
        )
    };
}

pub(in crate::func) const DEFS: &[FuncDef] = &[
    text!("st_geomfromtext", ANY),
    text!("st_geometryfromtext", ANY),
    text!("st_pointfromtext", POINT),
    text!("st_linefromtext", LINE),
    text!("st_linestringfromtext", LINE),
    text!("st_polyfromtext", POLYGON),
    text!("st_polygonfromtext", POLYGON),
    text!("st_mpointfromtext", POINTS),
    text!("st_multipointfromtext", POINTS),
    text!("st_mlinefromtext", LINES),
    text!("st_multilinestringfromtext", LINES),
    text!("st_mpolyfromtext", POLYGONS),
    text!("st_multipolygonfromtext", POLYGONS),
    text!("st_geomcollfromtext", COLLECTION),
    text!("st_geomcollfromtxt", COLLECTION),
    text!("st_geometrycollectionfromtext", COLLECTION),
    bytes!("st_geomfromwkb", ANY),
    bytes!("st_geometryfromwkb", ANY),
    bytes!("st_pointfromwkb", POINT),
    bytes!("st_linefromwkb", LINE),
    bytes!("st_linestringfromwkb", LINE),
    bytes!("st_polyfromwkb", POLYGON),
    bytes!("st_polygonfromwkb", POLYGON),
    bytes!("st_mpointfromwkb", POINTS),
    bytes!("st_multipointfromwkb", POINTS),
    bytes!("st_mlinefromwkb", LINES),
    bytes!("st_multilinestringfromwkb", LINES),
    bytes!("st_mpolyfromwkb", POLYGONS),
    bytes!("st_multipolygonfromwkb", POLYGONS),
    bytes!("st_geomcollfromwkb", COLLECTION),
    bytes!("st_geometrycollectionfromwkb", COLLECTION),
    def("point", 2, 2, CALCULATION, ret_shape::<POINT>, point),
    parts!("linestring", 1, LINE),
    parts!("polygon", 1, POLYGON),
    parts!("multipoint", 1, POINTS),
    parts!("multilinestring", 1, LINES),
    parts!("multipolygon", 1, POLYGONS),
    parts!("geometrycollection", 0, COLLECTION),
    parts!("geomcollection", 0, COLLECTION),
    def("st_astext", 1, 2, PURE, super::ret_text, |c| {
        as_text(c, "st_astext")
    }),
    def("st_aswkt", 1, 2, PURE, super::ret_text, |c| {
        as_text(c, "st_aswkt")
    }),
    def("st_asbinary", 1, 2, PURE, ret_bytes, |c| {
        as_bytes(c, "st_asbinary")
    }),
    def("st_aswkb", 1, 2, PURE, ret_bytes, |c| {
        as_bytes(c, "st_aswkb")
    }),
];

fn ret_bytes(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    binary::<{ u32::MAX as u64 }>(args, ctx)
}

/// Geometries are made of geometries: 1367.
fn ret_of_parts<const CODE: u8>(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let other = |arg: &&ArgType| !matches!(arg.ty.kind, TypeKind::Geometry(_));
    if let Some(arg) = args.iter().find(other) {
        let shown = match arg.value {
            Some(Value::Null) => Cow::Borrowed(&b"NULL"[..]),
            Some(value) => crate::cast::to_str(value, &arg.ty),
            None => Cow::Borrowed(&[][..]),
        };
        return Err(errors::illegal_value(
            "non geometric",
            String::from_utf8_lossy(&shown),
        ));
    }
    ret_shape::<CODE>(args, ctx)
}

/// What was read as a value, checked.
fn made(
    c: &Call,
    read: Option<Geometry>,
    function: &str,
    code: u8,
    format: &str,
) -> SqlResult<Value> {
    let srid = match c.has(1) {
        true => read::srid(c, 1, function)?,
        false => 0,
    };
    let swapped = read::is_swapped(c, 2, srid, function)?;
    let geometry = read.ok_or_else(|| errors::invalid_gis_data(function))?;
    let mut finite = true;
    geometry.each_coord(&mut |at| finite &= at.x.is_finite() && at.y.is_finite());
    if !finite {
        return Err(errors::invalid_gis_data(function));
    }
    let holds = |wanted: Shape| wanted.holds(geometry.shape());
    if !Shape::of_code(code).is_some_and(holds) {
        return Err(read::unexpected(format, geometry.shape(), function));
    }
    let geometry = if swapped {
        geometry.swapped()
    } else {
        geometry
    };
    let spatial = Spatial { srid, geometry };
    read::check_range(&spatial, function, RangeOf::Text)?;
    Ok(Value::Str(spatial.to_bytes()))
}

fn from_text(c: &Call, function: &str, code: u8) -> SqlResult<Value> {
    made(c, wkt::parse(&read::text(c, 0)), function, code, "WKT")
}

fn from_bytes(c: &Call, function: &str, code: u8) -> SqlResult<Value> {
    made(c, wkb::parse(&c.bytes(0), true), function, code, "WKB")
}

fn point(c: &Call) -> SqlResult<Value> {
    let at = Coord {
        x: c.real(0)?,
        y: c.real(1)?,
    };
    value(0, Geometry::Point(at))
}

/// Members of one shape: 1210 for others.
fn members<T>(
    items: Vec<Geometry>,
    function: &str,
    pick: impl Fn(Geometry) -> Option<T>,
) -> SqlResult<Vec<T>> {
    let picked: Option<Vec<T>> = items.into_iter().map(pick).collect();
    picked.ok_or_else(|| errors::wrong_arguments(function))
}

/// Whatever the systems of the parts are, what is made of them is in the plane.
fn from_parts(c: &Call, function: &str, code: u8) -> SqlResult<Value> {
    let part = |i| read::loose(c, i, function).map(|part| part.geometry);
    let items: Vec<_> = (0..c.argc()).map(part).collect::<SqlResult<_>>()?;
    let as_point = |g| match g {
        Geometry::Point(at) => Some(at),
        _ => None,
    };
    let as_line = |g| match g {
        Geometry::LineString(line) => Some(line),
        _ => None,
    };
    let as_polygon = |g| match g {
        Geometry::Polygon(rings) => Some(rings),
        _ => None,
    };
    let geometry = match code {
        LINE => Geometry::LineString(members(items, function, as_point)?),
        POLYGON => Geometry::Polygon(members(items, function, as_line)?),
        POINTS => Geometry::MultiPoint(members(items, function, as_point)?),
        LINES => Geometry::MultiLineString(members(items, function, as_line)?),
        POLYGONS => Geometry::MultiPolygon(members(items, function, as_polygon)?),
        _ => Geometry::Collection(items),
    };
    let well_formed = match &geometry {
        Geometry::LineString(line) => line.len() > 1,
        Geometry::Polygon(rings) => rings.iter().all(|ring| is_ring(ring)),
        _ => true,
    };
    match well_formed {
        true => value(0, geometry),
        false => Err(errors::invalid_gis_data(function)),
    }
}

/// A geometry with its axes in the order of its texts.
fn in_order(c: &Call, function: &str) -> SqlResult<Geometry> {
    let spatial = read::loose(c, 0, function)?;
    Ok(match read::is_swapped(c, 1, spatial.srid, function)? {
        true => spatial.geometry.swapped(),
        false => spatial.geometry,
    })
}

fn as_text(c: &Call, function: &str) -> SqlResult<Value> {
    let mut out = Vec::new();
    wkt::write(&in_order(c, function)?, &mut out);
    Ok(Value::Str(out))
}

fn as_bytes(c: &Call, function: &str) -> SqlResult<Value> {
    let mut out = Vec::new();
    wkb::write(&in_order(c, function)?, &mut out);
    Ok(Value::Str(out))
}
