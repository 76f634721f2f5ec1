//! ST_Contains and its kin by shapes, MBRContains and its kin by bounding rectangles.
//!
//! Neighbours: `geometry::matrix`, `geometry::relate`. **Invariant**: an empty geometry has no rectangle,
//! so the answer is NULL; only MBREquals and ST_Equals have one.

use super::read;
use crate::error::SqlResult;
use crate::func::call::Call;
use crate::func::ret::int_null;
use crate::func::{FuncDef, PURE, def};
use crate::geometry::matrix::Place::{Boundary, Exterior, Interior};
use crate::geometry::matrix::{Matrix, matrix};
use crate::geometry::relate::{Relation, holds};
use crate::geometry::{Geometry, measure};
use crate::value::Value;

/// A relation's function.
macro_rules! mbr {
    ($name:literal, $relation:ident) => {
        def($name, 2, 2, PURE, int_null::<1>, |c| {
            relate(c, $name, Relation::$relation)
        })
    };
}

/// A relation of shapes.
macro_rules! shapes {
    ($name:literal, $holds:expr) => {
        def($name, 2, 2, PURE, int_null::<1>, |c| meet(c, $name, $holds))
    };
}

pub(in crate::func) const DEFS: &[FuncDef] = &[
    mbr!("mbrcontains", Contains),
    mbr!("mbrcoveredby", CoveredBy),
    mbr!("mbrcovers", Covers),
    mbr!("mbrdisjoint", Disjoint),
    mbr!("mbrequals", Equals),
    mbr!("mbrintersects", Intersects),
    mbr!("mbroverlaps", Overlaps),
    mbr!("mbrtouches", Touches),
    mbr!("mbrwithin", Within),
    shapes!("st_contains", contains),
    shapes!("st_crosses", crosses),
    shapes!("st_disjoint", |m, a, b| intersects(m, a, b).map(|yes| !yes)),
    def("st_equals", 2, 2, PURE, int_null::<1>, equal),
    shapes!("st_intersects", intersects),
    shapes!("st_overlaps", overlaps),
    shapes!("st_touches", touches),
    shapes!("st_within", within),
];

fn relate(c: &Call, function: &str, relation: Relation) -> SqlResult<Value> {
    let (a, b) = read::cartesian_pair(c, function)?;
    let rects = (
        measure::envelope(&a.geometry),
        measure::envelope(&b.geometry),
    );
    Ok(match rects {
        (Some(a), Some(b)) => Value::bool(holds(relation, &a, &b)),
        (a, b) if relation == Relation::Equals => Value::bool(a == b),
        _ => Value::Null,
    })
}

/// Does a relation hold of two shapes that meet so? `None`: it is not defined of them.
type Holds = fn(&Matrix, &Geometry, &Geometry) -> Option<bool>;

fn meet(c: &Call, function: &str, holds: Holds) -> SqlResult<Value> {
    let (a, b) = read::cartesian_pair(c, function)?;
    let (a, b) = (a.geometry, b.geometry);
    match a.is_empty() || b.is_empty() {
        true => Ok(Value::Null),
        false => judge(c, &a, &b, holds),
    }
}

fn judge(c: &Call, a: &Geometry, b: &Geometry, holds: Holds) -> SqlResult<Value> {
    let found = matrix(a, b, |segments| c.ctx.session.go_on(segments))?;
    Ok(holds(&found, a, b).map_or(Value::Null, Value::bool))
}

/// ST_Equals: nothing equals nothing.
fn equal(c: &Call) -> SqlResult<Value> {
    let (a, b) = read::cartesian_pair(c, "st_equals")?;
    match (a.geometry.is_empty(), b.geometry.is_empty()) {
        (false, false) => judge(c, &a.geometry, &b.geometry, equals),
        (a, b) => Ok(Value::bool(a == b)),
    }
}

fn contains(m: &Matrix, _: &Geometry, _: &Geometry) -> Option<bool> {
    let outside = m.at(Exterior, Interior).max(m.at(Exterior, Boundary));
    Some(m.at(Interior, Interior).is_some() && outside.is_none())
}

fn within(m: &Matrix, _: &Geometry, _: &Geometry) -> Option<bool> {
    let outside = m.at(Interior, Exterior).max(m.at(Boundary, Exterior));
    Some(m.at(Interior, Interior).is_some() && outside.is_none())
}

/// A line without length is no point, and a polygon without area has no interior to compare.
fn equals(m: &Matrix, a: &Geometry, b: &Geometry) -> Option<bool> {
    let same_points = contains(m, a, b)? && within(m, a, b)?;
    Some(a == b || same_points && a.dimension() == b.dimension())
}

fn borders_meet(m: &Matrix) -> bool {
    let borders = m.at(Interior, Boundary).max(m.at(Boundary, Interior));
    borders.max(m.at(Boundary, Boundary)).is_some()
}

fn intersects(m: &Matrix, _: &Geometry, _: &Geometry) -> Option<bool> {
    Some(m.at(Interior, Interior).is_some() || borders_meet(m))
}

/// Points have no borders that could touch.
fn touches(m: &Matrix, a: &Geometry, b: &Geometry) -> Option<bool> {
    match a.dimension().max(b.dimension()) {
        Some(0) => None,
        _ => Some(m.at(Interior, Interior).is_none() && borders_meet(m)),
    }
}

fn crosses(m: &Matrix, a: &Geometry, b: &Geometry) -> Option<bool> {
    let (of_a, of_b) = (a.dimension()?, b.dimension()?);
    let inside = m.at(Interior, Interior);
    match (of_a, of_b) {
        (2, _) | (_, 0) => None,
        (1, 1) => Some(inside == Some(0)),
        _ => Some(inside.is_some() && m.at(Interior, Exterior).is_some()),
    }
}

/// Only what has the same dimension can.
fn overlaps(m: &Matrix, a: &Geometry, b: &Geometry) -> Option<bool> {
    let dimension = a.dimension().filter(|of_a| Some(*of_a) == b.dimension())?;
    let apart = m.at(Interior, Exterior).is_some() && m.at(Exterior, Interior).is_some();
    Some(apart && m.at(Interior, Interior) == Some(dimension))
}
