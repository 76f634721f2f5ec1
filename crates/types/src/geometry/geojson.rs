//! GeoJSON (RFC 7946): geometries as JSON documents, and back.
//!
//! Neighbours: `json` for the documents; `func::spatial::document` names the errors' function. **Invariant**:
//! longitude first.

use super::{Coord, Geometry, MAX_DEPTH, Shape, Spatial, is_line, is_ring};
use crate::json::{Json, object};

/// GeoJSON's names.
const NAMES: [(Shape, &str); 7] = [
    (Shape::Point, "Point"),
    (Shape::LineString, "LineString"),
    (Shape::Polygon, "Polygon"),
    (Shape::MultiPoint, "MultiPoint"),
    (Shape::MultiLineString, "MultiLineString"),
    (Shape::MultiPolygon, "MultiPolygon"),
    (Shape::Collection, "GeometryCollection"),
];

/// Why a document is no geometry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This member is missing.
    Missing(&'static str),
    /// This member has another type than this.
    WrongType(&'static str, &'static str),
    /// Points have so many coordinates.
    Dimensions(usize),
    /// Anything else.
    Invalid,
}

/// What a document's geometry is.
type Found<T> = Result<T, Fault>;

/// The members of a geometry in GeoJSON; `digits` rounds coordinates.
pub fn members(geometry: &Geometry, digits: Option<u32>) -> Vec<(Vec<u8>, Json)> {
    let shape = geometry.shape();
    let name = NAMES.iter().find(|(named, _)| *named == shape);
    let name = Json::string(name.map_or("", |(_, name)| name));
    let point = |at: &Coord| coordinates(*at, digits);
    let line = |line: &Vec<Coord>| Json::Array(line.iter().map(point).collect());
    let rings = |rings: &Vec<Vec<Coord>>| Json::Array(rings.iter().map(line).collect());
    let (key, value) = match geometry {
        Geometry::Point(at) => ("coordinates", point(at)),
        Geometry::LineString(points) | Geometry::MultiPoint(points) => {
            ("coordinates", line(points))
        }
        Geometry::Polygon(lines) | Geometry::MultiLineString(lines) => {
            ("coordinates", rings(lines))
        }
        Geometry::MultiPolygon(all) => {
            ("coordinates", Json::Array(all.iter().map(rings).collect()))
        }
        Geometry::Collection(items) => {
            let item = |item: &Geometry| object(members(item, digits));
            ("geometries", Json::Array(items.iter().map(item).collect()))
        }
    };
    vec![(b"type".to_vec(), name), (key.into(), value)]
}

/// A stored geometry as MySQL makes JSON of it: with the long name of its system.
pub fn document(stored: &[u8]) -> Option<Json> {
    let spatial = Spatial::parse(stored)?;
    let mut members = members(&spatial.geometry, None);
    members.push((b"crs".to_vec(), crs(spatial.srid, true)));
    Some(object(members))
}

/// The name of a system as a member of a document.
pub fn crs(srid: u32, long: bool) -> Json {
    let authority = if srid == 0 { "MySQL" } else { "EPSG" };
    let name = match long {
        true => format!("urn:ogc:def:crs:{authority}::{srid}"),
        false => format!("{authority}:{srid}"),
    };
    object(vec![
        (b"type".to_vec(), Json::string("name")),
        (
            b"properties".to_vec(),
            object(vec![(b"name".to_vec(), Json::string(name))]),
        ),
    ])
}

/// A point's coordinates, rounded.
pub fn coordinates(at: Coord, digits: Option<u32>) -> Json {
    let number = |n: f64| Json::Double(rounded(n, digits));
    Json::Array(vec![number(at.x), number(at.y)])
}

/// A number with so many decimals.
pub fn rounded(n: f64, digits: Option<u32>) -> f64 {
    /// Digits that a double has.
    const MOST: u32 = 17;
    let Some(digits) = digits.filter(|digits| *digits < MOST) else {
        return n;
    };
    let scale = 10f64.powi(digits as i32);
    let scaled = (n * scale).round_ties_even() / scale;
    if scaled.is_finite() { scaled } else { n }
}

/// A member of a document; as to MySQL, letters count in either case.
pub fn member<'a>(members: &'a [(Vec<u8>, Json)], name: &str) -> Option<&'a Json> {
    let is_it = |(key, _): &&(Vec<u8>, Json)| key.eq_ignore_ascii_case(name.as_bytes());
    let mut found = members.iter().filter(is_it);
    found.next().map(|(_, value)| value)
}

/// Reads a document; points may have `most` coordinates, of which two count. `None`: a feature without a geometry.
///
/// # Errors
/// See [`Fault`].
pub fn parse(doc: &Json, most: usize, depth: usize) -> Found<Option<Geometry>> {
    let Json::Object(members) = doc else {
        return Err(Fault::Invalid);
    };
    if depth > MAX_DEPTH {
        return Err(Fault::Invalid);
    }
    let needed = |name| member(members, name).ok_or(Fault::Missing(name));
    let list = |name| match needed(name)? {
        Json::Array(items) => Ok(items),
        _ => Err(Fault::WrongType(name, "array")),
    };
    let Json::String(kind) = needed("type")? else {
        return Err(Fault::WrongType("type", "string"));
    };
    let all = |items: &[Json]| -> Found<Vec<Geometry>> {
        if items.iter().any(|item| !matches!(item, Json::Object(_))) {
            return Err(Fault::WrongType("geometries", "object array"));
        }
        let parsed = items.iter().map(|item| parse(item, most, depth + 1));
        parsed.filter_map(Result::transpose).collect()
    };
    match kind.as_slice() {
        b"Feature" => {
            let geometry = needed("geometry")?;
            if !matches!(geometry, Json::Null | Json::Object(_)) {
                return Err(Fault::WrongType("geometry", "object"));
            }
            if !matches!(needed("properties")?, Json::Null | Json::Object(_)) {
                return Err(Fault::WrongType("properties", "object"));
            }
            return match geometry {
                Json::Null => Ok(None),
                geometry => parse(geometry, most, depth + 1),
            };
        }
        b"FeatureCollection" => {
            return all(list("features")?).map(|items| Some(Geometry::Collection(items)));
        }
        _ => {}
    }
    let named = NAMES.iter().find(|(_, name)| name.as_bytes() == kind);
    let (shape, _) = named.ok_or(Fault::Invalid)?;
    if *shape == Shape::Collection {
        return all(list("geometries")?).map(|items| Some(Geometry::Collection(items)));
    }
    of_coordinates(*shape, list("coordinates")?, most).map(Some)
}

fn of_coordinates(shape: Shape, items: &[Json], most: usize) -> Found<Geometry> {
    let valid = |ok: bool| if ok { Ok(()) } else { Err(Fault::Invalid) };
    let line = |items: &[Json]| -> Found<Vec<Coord>> {
        let points = points(items, most)?;
        valid(is_line(&points)).map(|()| points)
    };
    let ring = |items: &[Json]| -> Found<Vec<Coord>> {
        let points = points(items, most)?;
        valid(is_ring(&points)).map(|()| points)
    };
    let rings = |items: &[Json]| lists(items, ring);
    Ok(match shape {
        Shape::Geometry | Shape::Collection => return Err(Fault::Invalid),
        Shape::Point => Geometry::Point(point(items, most)?),
        Shape::LineString => Geometry::LineString(line(items)?),
        Shape::Polygon => Geometry::Polygon(rings(items)?),
        Shape::MultiPoint => {
            valid(!items.is_empty())?;
            Geometry::MultiPoint(points(items, most)?)
        }
        Shape::MultiLineString => Geometry::MultiLineString(lists(items, line)?),
        Shape::MultiPolygon => Geometry::MultiPolygon(lists(items, rings)?),
    })
}

fn lists<T>(items: &[Json], read: impl Fn(&[Json]) -> Found<T>) -> Found<Vec<T>> {
    let one = |item: &Json| match item {
        Json::Array(members) => read(members),
        _ => Err(Fault::Invalid),
    };
    match items {
        [] => Err(Fault::Invalid),
        _ => items.iter().map(one).collect(),
    }
}

fn points(items: &[Json], most: usize) -> Found<Vec<Coord>> {
    let one = |item: &Json| match item {
        Json::Array(numbers) => point(numbers, most),
        _ => Err(Fault::Invalid),
    };
    items.iter().map(one).collect()
}

fn point(numbers: &[Json], most: usize) -> Found<Coord> {
    let number = |n: &Json| match n {
        Json::Int(n) => Ok(*n as f64),
        Json::UInt(n) => Ok(*n as f64),
        Json::Double(n) => Ok(*n),
        Json::Decimal(n) => Ok(n.to_f64()),
        _ => Err(Fault::Invalid),
    };
    match numbers {
        [_, _, ..] if numbers.len() > most => Err(Fault::Dimensions(numbers.len())),
        [x, y, ..] => Ok(Coord {
            x: number(x)?,
            y: number(y)?,
        }),
        _ => Err(Fault::Invalid),
    }
}
