//! Measures and outlines: lengths, areas, centres, distances, hulls.
//!
//! Neighbours: `geometry::measure`, `geometry::outline`. **Invariant**: in the plane, but for lengths of lines,
//! distances of points, and ST_Distance_Sphere.

use super::read::{self, RangeOf};
use super::{ANY, optional, ret_shape, value};
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::func::call::Call;
use crate::func::ret::{double_null, int_null};
use crate::func::{FuncDef, PURE, def};
use crate::geometry::measure::{self, Rect};
use crate::geometry::{Coord, Geometry, Spatial, earth, outline, srs, valid};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("st_envelope", 1, 1, PURE, ret_shape::<ANY>, envelope),
    def("st_length", 1, 1, PURE, double_null, length),
    def("st_isvalid", 1, 1, PURE, int_null::<1>, is_valid),
    def("st_validate", 1, 1, PURE, ret_shape::<ANY>, validate),
    def("st_area", 1, 1, PURE, double_null, area),
    def("st_centroid", 1, 1, PURE, ret_shape::<ANY>, centroid),
    def("st_convexhull", 1, 1, PURE, ret_shape::<ANY>, convex_hull),
    def("st_simplify", 2, 2, PURE, ret_shape::<ANY>, simplify),
    def(
        "st_makeenvelope",
        2,
        2,
        PURE,
        ret_shape::<ANY>,
        make_envelope,
    ),
    def("st_distance", 2, 2, PURE, double_null, distance),
    def(
        "st_distance_sphere",
        2,
        3,
        PURE,
        double_null,
        distance_sphere,
    ),
    def(
        "st_lineinterpolatepoint",
        2,
        2,
        PURE,
        ret_shape::<ANY>,
        interpolate,
    ),
    def(
        "st_pointatdistance",
        2,
        2,
        PURE,
        ret_shape::<ANY>,
        at_distance,
    ),
];

fn envelope(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_envelope";
    let spatial = read::geometry(c, 0, NAME)?;
    if matches!(spatial.geometry, Geometry::Point(_)) {
        return value(spatial.srid, spatial.geometry);
    }
    let spatial = read::cartesian(c, 0, NAME)?;
    let rect = measure::envelope(&spatial.geometry).map(Rect::into_geometry);
    value(spatial.srid, rect.unwrap_or(spatial.geometry))
}

fn length(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_length";
    let spatial = read::geometry(c, 0, NAME)?;
    let of_line: fn(&[Coord]) -> f64 = match srs::is_geographic(spatial.srid) {
        true => length_on_earth,
        false => measure::length,
    };
    let length = match &spatial.geometry {
        Geometry::LineString(line) => of_line(line),
        Geometry::MultiLineString(lines) => lines.iter().map(|line| of_line(line)).sum(),
        _ => return Ok(Value::Null),
    };
    finite(length, NAME)
}

fn length_on_earth(line: &[Coord]) -> f64 {
    let ends = line.windows(2);
    ends.map(|ends| earth::distance(ends[0], ends[1])).sum()
}

fn area(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_area";
    let spatial = read::geometry(c, 0, NAME)?;
    let area = match &spatial.geometry {
        Geometry::Polygon(rings) => measure::area(rings),
        Geometry::MultiPolygon(all) => all.iter().map(|rings| measure::area(rings)).sum(),
        other => {
            let wanted = "POLYGON/MULTIPOLYGON";
            return Err(read::unexpected(wanted, other.shape(), NAME));
        }
    };
    read::cartesian(c, 0, NAME)?;
    finite(area, NAME)
}

/// A result that a double holds: 1690.
fn finite(v: f64, function: &str) -> SqlResult<Value> {
    match v.is_finite() {
        true => Ok(Value::Double(v)),
        false => Err(errors::out_of_range("Result", function)),
    }
}

/// The first argument, and is it valid?
fn checked(c: &Call, function: &str) -> SqlResult<(Spatial, bool)> {
    let spatial = read::cartesian(c, 0, function)?;
    let go_on = |points: usize| c.ctx.session.go_on(points);
    let is_valid = valid::is_valid(&spatial.geometry, &go_on)?;
    Ok((spatial, is_valid))
}

fn is_valid(c: &Call) -> SqlResult<Value> {
    Ok(Value::bool(checked(c, "st_isvalid")?.1))
}

fn validate(c: &Call) -> SqlResult<Value> {
    let (spatial, is_valid) = checked(c, "st_validate")?;
    optional(spatial.srid, Some(spatial.geometry).filter(|_| is_valid))
}

fn centroid(c: &Call) -> SqlResult<Value> {
    let spatial = read::cartesian(c, 0, "st_centroid")?;
    let centre = measure::centroid(&spatial.geometry);
    optional(spatial.srid, centre.map(Geometry::Point))
}

fn convex_hull(c: &Call) -> SqlResult<Value> {
    let spatial = read::cartesian(c, 0, "st_convexhull")?;
    optional(spatial.srid, outline::convex_hull(&spatial.geometry))
}

fn simplify(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_simplify";
    let spatial = read::cartesian(c, 0, NAME)?;
    let most = c.real(1)?;
    if most.is_nan() || most <= 0.0 {
        return Err(errors::wrong_arguments(NAME));
    }
    let go_on = |points: usize| c.ctx.session.go_on(points);
    let simple = outline::simplified(&spatial.geometry, most, &go_on)?;
    optional(spatial.srid, simple)
}

fn make_envelope(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_makeenvelope";
    let (a, b) = read::cartesian_pair(c, NAME)?;
    let (Geometry::Point(from), Geometry::Point(to)) = (a.geometry, b.geometry) else {
        return Err(errors::wrong_arguments(NAME));
    };
    let corners = Geometry::MultiPoint(vec![from, to]);
    optional(a.srid, measure::envelope(&corners).map(Rect::into_geometry))
}

fn distance(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_distance";
    let (a, b) = read::pair(c, NAME)?;
    if srs::is_geographic(a.srid) {
        let (Some(from), Some(to)) = (points(&a.geometry), points(&b.geometry)) else {
            let shapes = read::shapes(&a.geometry, &b.geometry);
            return Err(errors::not_for_geographic(NAME, &shapes));
        };
        return finite(nearest(c, from, to, earth::distance)?, NAME);
    }
    let go_on = |points: usize| c.ctx.session.go_on(points);
    let distance = measure::distance(&a.geometry, &b.geometry, go_on)?;
    match distance {
        Some(distance) if !distance.is_finite() => Err(errors::invalid_gis_data(NAME)),
        distance => Ok(distance.map_or(Value::Null, Value::Double)),
    }
}

/// The least distance of two points.
fn nearest(
    c: &Call,
    from: &[Coord],
    to: &[Coord],
    between: fn(Coord, Coord) -> f64,
) -> SqlResult<f64> {
    let mut least = f64::INFINITY;
    for at in from {
        c.ctx.session.go_on(to.len())?;
        let distances = to.iter().map(|other| between(*at, *other));
        least = distances.fold(least, f64::min);
    }
    Ok(least)
}

/// The points of a POINT or MULTIPOINT.
fn points(geometry: &Geometry) -> Option<&[Coord]> {
    match geometry {
        Geometry::Point(at) => Some(std::slice::from_ref(at)),
        Geometry::MultiPoint(points) => Some(points),
        _ => None,
    }
}

fn distance_sphere(c: &Call) -> SqlResult<Value> {
    /// Of the earth, in the plane and in WGS 84: (2a + b) / 3.
    const RADIUS: f64 = 6_370_986.0;
    const RADIUS_WGS84: f64 = 6_371_008.771_415_059;
    const NAME: &str = "st_distance_sphere";
    let (a, b) = read::pair(c, NAME)?;
    let geographic = srs::is_geographic(a.srid);
    let (Some(from), Some(to)) = (points(&a.geometry), points(&b.geometry)) else {
        let shapes = read::shapes(&a.geometry, &b.geometry);
        return Err(match geographic {
            true => errors::not_for_geographic(NAME, &shapes),
            false => errors::not_for_cartesian(NAME, &shapes),
        });
    };
    let range = match geographic {
        true => RangeOf::Text,
        false => RangeOf::Strict,
    };
    for at in from.iter().chain(to) {
        if let Some(e) = read::out_of_range(*at, NAME, range) {
            return Err(e);
        }
    }
    let radius = match (c.has(2), geographic) {
        (true, _) => c.real(2)?,
        (false, true) => RADIUS_WGS84,
        (false, false) => RADIUS,
    };
    if radius.is_nan() || radius <= 0.0 {
        let text = format!(
            "Invalid radius provided to function {NAME}: Radius must be greater than zero."
        );
        return Err(SqlError::new(3706, "22003", text));
    }
    let angle = match geographic {
        true => earth::angle_wgs84,
        false => earth::angle,
    };
    let least = nearest(c, from, to, angle)?;
    finite(least * radius, NAME)
}

/// The line of the first argument: 3516.
fn line(c: &Call, function: &str) -> SqlResult<(Spatial, Vec<Coord>)> {
    let spatial = read::geometry(c, 0, function)?;
    match &spatial.geometry {
        Geometry::LineString(line) => {
            let line = line.clone();
            read::cartesian(c, 0, function)?;
            Ok((spatial, line))
        }
        other => Err(read::unexpected("LINESTRING", other.shape(), function)),
    }
}

fn interpolate(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_lineinterpolatepoint";
    let (spatial, line) = line(c, NAME)?;
    let part = c.real(1)?;
    if !(0.0..=1.0).contains(&part) {
        return Err(errors::out_of_range("Fractional distance", NAME));
    }
    let place = outline::along(&line, measure::length(&line) * part);
    optional(spatial.srid, place.map(Geometry::Point))
}

fn at_distance(c: &Call) -> SqlResult<Value> {
    const NAME: &str = "st_pointatdistance";
    let (spatial, line) = line(c, NAME)?;
    let distance = c.real(1)?;
    if !(0.0..=measure::length(&line)).contains(&distance) {
        return Err(errors::out_of_range("Distance", NAME));
    }
    optional(
        spatial.srid,
        outline::along(&line, distance).map(Geometry::Point),
    )
}
