//! Arguments of spatial functions.
//!
//! Neighbours: every kernel of this directory. **Invariant**: bytes are checked here, and nowhere behind.

use std::borrow::Cow;

use crate::cast;
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::func::call::Call;
use crate::geometry::{Coord, Geometry, Shape, Spatial, srs};

/// Argument `i` as a geometry of whatever SRID.
pub(super) fn loose(c: &Call, i: usize, function: &str) -> SqlResult<Spatial> {
    let bytes = c.bytes(i);
    let spatial = Spatial::parse(&bytes).ok_or_else(|| errors::invalid_gis_data(function))?;
    let mut finite = true;
    spatial.geometry.each_coord(&mut |at| {
        finite &= at.x.is_finite() && at.y.is_finite();
    });
    match finite {
        true => Ok(spatial),
        false => Err(errors::invalid_gis_data(function)),
    }
}

/// Argument `i` as text, whatever its character set is.
pub(super) fn text<'a>(c: &Call<'a>, i: usize) -> Cow<'a, [u8]> {
    cast::to_str(c.args[i], c.ty(i))
}

/// Argument `i` as a geometry of a system that is known: 3037, 3548, 3731, 3732.
pub(super) fn geometry(c: &Call, i: usize, function: &str) -> SqlResult<Spatial> {
    let spatial = loose(c, i, function)?;
    known(spatial.srid)?;
    check_range(&spatial, function, RangeOf::Parameter)?;
    Ok(spatial)
}

/// Argument `i` as a geometry in the plane: 3618.
pub(super) fn cartesian(c: &Call, i: usize, function: &str) -> SqlResult<Spatial> {
    let spatial = geometry(c, i, function)?;
    match srs::is_geographic(spatial.srid) {
        true => {
            let shape = spatial.geometry.shape().title();
            Err(errors::not_for_geographic(function, &shape))
        }
        false => Ok(spatial),
    }
}

/// The first two arguments in the same system: 3033.
pub(super) fn pair(c: &Call, function: &str) -> SqlResult<(Spatial, Spatial)> {
    let (a, b) = (geometry(c, 0, function)?, geometry(c, 1, function)?);
    match a.srid == b.srid {
        true => Ok((a, b)),
        false => Err(errors::different_srids(function, a.srid, b.srid)),
    }
}

/// The shapes of two arguments as messages name them.
pub(super) fn shapes(a: &Geometry, b: &Geometry) -> String {
    format!("{}, {}", a.shape().title(), b.shape().title())
}

/// The first two arguments in the plane: 3618.
pub(super) fn cartesian_pair(c: &Call, function: &str) -> SqlResult<(Spatial, Spatial)> {
    let (a, b) = pair(c, function)?;
    match srs::is_geographic(a.srid) {
        true => Err(errors::not_for_geographic(
            function,
            &shapes(&a.geometry, &b.geometry),
        )),
        false => Ok((a, b)),
    }
}

/// Argument `i` as the SRID of a system that is known: 1690, 3548.
pub(super) fn srid(c: &Call, i: usize, function: &str) -> SqlResult<u32> {
    let srid = u32::try_from(c.integer(i)?);
    known(srid.map_err(|_| errors::out_of_range("SRID", function))?)
}

/// 3548
fn known(srid: u32) -> SqlResult<u32> {
    match srs::find(srid) {
        Some(_) => Ok(srid),
        None => Err(errors::no_such_srid(srid)),
    }
}

/// Where coordinates come from that are out of range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeOf {
    /// A geometry.
    Parameter,
    /// A text, or numbers.
    Text,
    /// A document, or points of the plane that shall be on a sphere: the date line is at 180 degrees only.
    Strict,
}

/// Is it a place on the earth, if it shall be one?
pub(super) fn check_range(spatial: &Spatial, function: &str, of: RangeOf) -> SqlResult<()> {
    if !srs::is_geographic(spatial.srid) {
        return Ok(());
    }
    let mut wrong = None;
    spatial.geometry.each_coord(&mut |at| {
        if wrong.is_none() {
            wrong = out_of_range(at, function, of);
        }
    });
    wrong.map_or(Ok(()), Err)
}

/// What is wrong with a place on the earth.
pub(super) fn out_of_range(at: Coord, function: &str, of: RangeOf) -> Option<SqlError> {
    let (longitude, latitude) = match of {
        RangeOf::Parameter => (
            errors::parameter_longitude_out_of_range as fn(f64, &str) -> SqlError,
            errors::parameter_latitude_out_of_range as fn(f64, &str) -> SqlError,
        ),
        RangeOf::Text | RangeOf::Strict => (
            errors::longitude_out_of_range as fn(f64, &str) -> SqlError,
            errors::latitude_out_of_range as fn(f64, &str) -> SqlError,
        ),
    };
    let is_strict = of == RangeOf::Strict && at.x == -180.0;
    if is_strict || !(-180.0..=180.0).contains(&at.x) {
        return Some(longitude(at.x, function));
    }
    (!(-90.0..=90.0).contains(&at.y)).then(|| latitude(at.y, function))
}

/// The point of argument `i`: 3516.
pub(super) fn point(spatial: &Spatial, function: &str) -> SqlResult<Coord> {
    match &spatial.geometry {
        Geometry::Point(at) => Ok(*at),
        other => Err(unexpected("POINT", other.shape(), function)),
    }
}

/// 3516
pub(super) fn unexpected(wanted: &str, found: Shape, function: &str) -> SqlError {
    errors::unexpected_geometry(wanted, found.title(), function)
}

/// Has a text latitudes first? So it has of a geographic system, unless the options in argument `i` say otherwise:
/// 3558, 3559, 3560, 3564.
pub(super) fn is_swapped(c: &Call, i: usize, srid: u32, function: &str) -> SqlResult<bool> {
    let mut order = None;
    if c.has(i) {
        let text = text(c, i);
        let text = String::from_utf8_lossy(&text);
        let fault = |code, text| Err(SqlError::new(code, "22023", text));
        for option in text
            .split(',')
            .map(str::trim)
            .filter(|o| !o.is_empty() || text.contains(','))
        {
            let Some((key, value)) = option.split_once('=') else {
                let text = format!(
                    "The string '{option}' is not a valid key = value pair in function {function}."
                );
                return fault(3560, text);
            };
            let (key, value) = (key.trim(), value.trim());
            if !key.eq_ignore_ascii_case("axis-order") {
                return fault(
                    3558,
                    format!("Invalid option key '{key}' in function {function}."),
                );
            }
            if order.is_some() {
                let text = format!("Duplicate option key '{key}' in funtion '{function}'.");
                return fault(3564, text);
            }
            order = Some(match value.to_ascii_lowercase().as_str() {
                "srid-defined" => srs::is_geographic(srid),
                "lat-long" => true,
                "long-lat" => false,
                _ => {
                    let text = format!(
                        "Invalid value '{value}' for option '{key}' in function '{function}'."
                    );
                    return fault(3559, text);
                }
            });
        }
    }
    let is_geographic = srs::is_geographic(srid);
    Ok(is_geographic && order.unwrap_or(true))
}
