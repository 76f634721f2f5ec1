//! GeoJSON and geohashes.
//!
//! Neighbours: `geometry::geojson`, `geometry::geohash`; `func::json` for documents. **Invariant**: longitude first,
//! whatever the system's order.

use super::read::{self, RangeOf};
use super::{ANY, ret_shape, value};
use crate::ctx::Work;
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::func::call::Call;
use crate::func::ret::{double_null, text};
use crate::func::{ArgType, FuncDef, PURE, RetCtx, Signature, def};
use crate::geometry::geojson::{self, Fault};
use crate::geometry::{Coord, Geometry, Shape, Spatial, geohash, measure};
use crate::json::{self, Json, JsonRef, object};
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// The system of GeoJSON that names none.
const WGS84: u32 = 4326;
/// Longest geohash.
const MAX_HASH: i128 = 100;
const POINT: u8 = Shape::Point as u8;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("st_asgeojson", 1, 3, PURE, ret_document, as_geojson),
    def(
        "st_geomfromgeojson",
        1,
        3,
        PURE,
        ret_shape::<ANY>,
        from_geojson,
    ),
    def("st_geohash", 2, 3, PURE, text::<100>, hash),
    def("st_latfromgeohash", 1, 1, PURE, double_null, |c| {
        Ok(Value::Double(place(c, "ST_LATFROMGEOHASH")?.y))
    }),
    def("st_longfromgeohash", 1, 1, PURE, double_null, |c| {
        Ok(Value::Double(place(c, "ST_LONGFROMGEOHASH")?.x))
    }),
    def(
        "st_pointfromgeohash",
        2,
        2,
        PURE,
        ret_shape::<POINT>,
        point_from_hash,
    ),
];

fn ret_document(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(SqlType::new(TypeKind::Json)))
}

/// 1411
fn incorrect(what: &str, value: impl std::fmt::Display, function: &str) -> SqlError {
    crate::func::incorrect_value(what, value, function)
}

fn as_geojson(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_asgeojson";
    const BBOX: i128 = 1;
    const SHORT_CRS: i128 = 2;
    const LONG_CRS: i128 = 4;
    if !c.ty(0).is_string() {
        return Err(errors::wrong_argument_type("geometry", NAME));
    }
    let spatial = read::geometry(c, 0, NAME)?;
    let digits = match c.has(1) {
        true => Some(c.integer(1)?),
        false => None,
    };
    let digits =
        digits.map(|n| u32::try_from(n).map_err(|_| incorrect("max decimal digits", n, NAME)));
    let digits = digits.transpose()?;
    let options = if c.has(2) { c.integer(2)? } else { 0 };
    if !(0..=BBOX + SHORT_CRS + LONG_CRS).contains(&options) {
        return Err(incorrect("options", options, NAME));
    }
    let mut members = geojson::members(&spatial.geometry, digits);
    if options & BBOX != 0
        && let Some(rect) = measure::envelope(&spatial.geometry)
    {
        let sides = [rect.low.x, rect.low.y, rect.high.x, rect.high.y];
        let side = |n: f64| Json::Double(geojson::rounded(n, digits));
        members.push((b"bbox".to_vec(), Json::Array(sides.map(side).to_vec())));
    }
    if options & (SHORT_CRS + LONG_CRS) != 0 {
        let crs = geojson::crs(spatial.srid, options & LONG_CRS != 0);
        members.push((b"crs".to_vec(), crs));
    }
    json::encode_watched(&object(members), &mut Work::new(c.ctx.session)).map(Value::Json)
}

/// The SRID that a document names: 3072 for what is none.
fn srid_of(doc: &Json) -> Option<Result<u32, ()>> {
    let member = |doc: &Json, key: &str| match doc {
        Json::Object(members) => geojson::member(members, key).cloned(),
        _ => None,
    };
    let crs = member(doc, "crs").filter(|crs| *crs != Json::Null)?;
    let name = member(&crs, "properties").and_then(|p| member(&p, "name"));
    let Some(Json::String(name)) = name else {
        return Some(Err(()));
    };
    let name = String::from_utf8_lossy(&name).into_owned();
    if name == "urn:ogc:def:crs:OGC:1.3:CRS84" {
        return Some(Ok(WGS84));
    }
    let number = name
        .strip_prefix("urn:ogc:def:crs:EPSG::")
        .or_else(|| name.strip_prefix("EPSG:"));
    Some(number.and_then(|n| n.parse().ok()).ok_or(()))
}

fn from_geojson(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_geomfromgeojson";
    /// The option's values: 1 refuses points of more than two coordinates, the others take two of them.
    const OPTIONS: std::ops::RangeInclusive<i128> = 1..=4;
    const ANY_DIMENSION: usize = usize::MAX;
    let Some(bytes) = crate::func::json::as_document(c.ctx, c.args[0], c.types, NAME)? else {
        return Ok(Value::Null);
    };
    let doc = JsonRef::new(&bytes).to_json();
    let option = if c.has(1) { c.integer(1)? } else { 1 };
    if !OPTIONS.contains(&option) {
        return Err(incorrect("option", option, NAME));
    }
    let most = if option == 1 { 2 } else { ANY_DIMENSION };
    if doc == Json::Null {
        return Ok(Value::Null);
    }
    let srid = match (c.has(2), srid_of(&doc)) {
        (true, _) => read::srid(c, 2, NAME)?,
        (false, None) => WGS84,
        (false, Some(found)) => found.map_err(|()| fault(&Fault::Invalid, NAME))?,
    };
    let found = geojson::parse(&doc, most, 0).map_err(|f| fault(&f, NAME))?;
    let Some(geometry) = found else {
        return Ok(Value::Null);
    };
    let spatial = Spatial { srid, geometry };
    read::check_range(&spatial, NAME, RangeOf::Strict)?;
    Ok(Value::Str(spatial.to_bytes()))
}

/// 3070 to 3073
fn fault(fault: &Fault, function: &str) -> SqlError {
    let invalid = format!("Invalid GeoJSON data provided to function {function}");
    match fault {
        Fault::Missing(name) => {
            let text = format!("{invalid}: Missing required member '{name}'");
            SqlError::new(3070, "HY000", text)
        }
        Fault::WrongType(name, ty) => {
            let text = format!("{invalid}: Member '{name}' must be of type '{ty}'");
            SqlError::new(3071, "HY000", text)
        }
        Fault::Invalid => SqlError::new(3072, "HY000", invalid),
        Fault::Dimensions(found) => {
            let text = format!(
                "Unsupported number of coordinate dimensions in function {function}: Found {found}, expected 2"
            );
            SqlError::new(3073, "HY000", text)
        }
    }
}

fn hash(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_geohash";
    let at = match c.argc() {
        2 => {
            let spatial = read::geometry(c, 0, NAME)?;
            match spatial.geometry {
                Geometry::Point(at) => at,
                _ => return Err(errors::wrong_argument_type("point", NAME)),
            }
        }
        _ => Coord {
            x: c.real(0)?,
            y: c.real(1)?,
        },
    };
    let length = c.integer(c.argc() - 1)?;
    if !(1..=MAX_HASH).contains(&length) {
        return Err(errors::out_of_range("max geohash length", NAME));
    }
    for (name, value, most) in [("longitude", at.x, 180.0), ("latitude", at.y, 90.0)] {
        if !(-most..=most).contains(&value) {
            return Err(errors::out_of_range(name, NAME));
        }
    }
    Ok(Value::Str(geohash::encode(at, length as usize)))
}

/// The place of a hash: 1411.
fn place(c: &Call, function: &str) -> SqlResult<Coord> {
    let hash = read::text(c, 0);
    let found = geohash::decode(&hash).filter(|_| hash.len() <= MAX_HASH as usize);
    found.ok_or_else(|| incorrect("geohash", String::from_utf8_lossy(&hash), function))
}

fn point_from_hash(c: &Call) -> SqlResult<Value> {
    let at = place(c, "ST_POINTFROMGEOHASH")?;
    let srid = u32::try_from(c.integer(1)?);
    let srid = srid.map_err(|_| errors::out_of_range("SRID", "st_pointfromgeohash"))?;
    value(srid, Geometry::Point(at))
}
