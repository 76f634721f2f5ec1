//! Errors about geometries and spatial reference systems.
//!
//! Neighbours: `geometry`, `func::spatial`, and the definitions of tables above. **Invariant**: in the order of the
//! numbers; functions are named in lower case.

use std::fmt::Display;

use crate::error::SqlError;

/// 1416
pub fn no_geometry_for_column() -> SqlError {
    let text = "Cannot get geometry object from data you send to the GEOMETRY field";
    SqlError::new(1416, "22003", text)
}

/// 3033
pub fn different_srids(function: &str, one: u32, other: u32) -> SqlError {
    let text = format!(
        "Binary geometry function {function} given two geometries of different srids: {one} and {other}, which \
         should have been identical."
    );
    SqlError::new(3033, "HY000", text)
}

/// 3037
pub fn invalid_gis_data(function: &str) -> SqlError {
    let text = format!("Invalid GIS data provided to function {function}.");
    SqlError::new(3037, "22023", text)
}

/// 3064
pub fn wrong_argument_type(argument: impl Display, function: &str) -> SqlError {
    let text = format!("Incorrect type for argument {argument} in function {function}.");
    SqlError::new(3064, "HY000", text)
}

/// 3516: `wanted` is what the value was taken for.
pub fn unexpected_geometry(wanted: &str, found: impl Display, function: &str) -> SqlError {
    let text = format!("{wanted} value is a geometry of unexpected type {found} in {function}.");
    SqlError::new(3516, "22S01", text)
}

/// 3548
pub fn no_such_srid(srid: impl Display) -> SqlError {
    let text = format!("There's no spatial reference system with SRID {srid}.");
    SqlError::new(3548, "SR001", text)
}

const LONGITUDES: &str = "It must be within (-180.000000, 180.000000].";
const LATITUDES: &str = "It must be within [-90.000000, 90.000000].";

/// 3616
pub fn longitude_out_of_range(value: f64, function: &str) -> SqlError {
    let text = format!("Longitude {value:.6} is out of range in function {function}. {LONGITUDES}");
    SqlError::new(3616, "22S02", text)
}

/// 3617
pub fn latitude_out_of_range(value: f64, function: &str) -> SqlError {
    let text = format!("Latitude {value:.6} is out of range in function {function}. {LATITUDES}");
    SqlError::new(3617, "22S03", text)
}

/// 3618: `types` are those of the arguments.
pub fn not_for_geographic(function: &str, types: &str) -> SqlError {
    let text = format!(
        "{function}({types}) has not been implemented for geographic spatial reference systems."
    );
    SqlError::new(3618, "22S00", text)
}

/// 3643
pub fn wrong_srid_for_column(column: &str, of_value: u32, of_column: u32) -> SqlError {
    let text = format!(
        "The SRID of the geometry does not match the SRID of the column '{column}'. The SRID of the geometry is \
         {of_value}, but the SRID of the column is {of_column}. Consider changing the SRID of the geometry or the \
         SRID property of the column."
    );
    SqlError::new(3643, "HY000", text)
}

/// 3704: `types` are those of the arguments.
pub fn not_for_cartesian(function: &str, types: &str) -> SqlError {
    let text = format!(
        "{function}({types}) has not been implemented for Cartesian spatial reference systems."
    );
    SqlError::new(3704, "22S00", text)
}

/// 3726
pub fn only_for_geographic(function: &str, srid: u32) -> SqlError {
    let text = format!(
        "Function {function} is only defined for geographic spatial reference systems, but one of its arguments is \
         in SRID {srid}, which is not geographic."
    );
    SqlError::new(3726, "22S00", text)
}

/// 3728
pub fn spatial_unique_index() -> SqlError {
    let text = "Spatial indexes can't be primary or unique indexes.";
    SqlError::new(3728, "HY000", text)
}

/// 3731
pub fn parameter_longitude_out_of_range(value: f64, function: &str) -> SqlError {
    let text = format!(
        "A parameter of function {function} contains a geometry with longitude {value:.6}, which is out of range. \
         {LONGITUDES}"
    );
    SqlError::new(3731, "22S02", text)
}

/// 3732
pub fn parameter_latitude_out_of_range(value: f64, function: &str) -> SqlError {
    let text = format!(
        "A parameter of function {function} contains a geometry with latitude {value:.6}, which is out of range. \
         {LATITUDES}"
    );
    SqlError::new(3732, "22S03", text)
}
