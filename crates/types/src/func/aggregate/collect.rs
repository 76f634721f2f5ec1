//! ST_COLLECT.
//!
//! Neighbours: `crate::geometry` has the shapes.
//! **Invariants**: geometries of one shape become that shape's multi, others a collection; NULL is passed over; all
//! are in one system; outer rings run against the clock, inner ones with it.

use std::any::Any;

use super::{AggDef, AggState, AggTypes, same};
use crate::ctx::EvalCtx;
use crate::error::SqlResult;
use crate::errors;
use crate::func::{ArgType, RetCtx, Signature};
use crate::geometry::measure::is_against_clock;
use crate::geometry::{Coord, Geometry, GeometryType, Shape, Spatial};
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

const NAME: &str = "st_collect";

pub(super) const DEFS: &[AggDef] = &[AggDef {
    name: NAME,
    min_args: 1,
    max_args: 1,
    ret: ret_geometry,
    new: collected,
}];

fn ret_geometry(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let kind = TypeKind::Geometry(GeometryType::of(Shape::Geometry));
    Ok(Signature::plain(SqlType::new(kind)))
}

#[derive(Default)]
struct Collected {
    srid: Option<u32>,
    items: Vec<Geometry>,
    bytes: u64,
}

fn collected(_: &AggTypes) -> Box<dyn AggState> {
    Box::new(Collected::default())
}

impl Collected {
    /// 3033 where systems differ.
    fn agree(&mut self, srid: u32) -> SqlResult<()> {
        let first = *self.srid.get_or_insert(srid);
        match first == srid {
            true => Ok(()),
            false => Err(errors::different_srids(NAME, first, srid)),
        }
    }
}

impl AggState for Collected {
    fn update(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        let bytes = match &args[0] {
            Value::Null => return Ok(()),
            Value::Str(bytes) => bytes,
            _ => return Err(errors::invalid_gis_data(NAME)),
        };
        let spatial = Spatial::parse(bytes).ok_or_else(|| errors::invalid_gis_data(NAME))?;
        self.agree(spatial.srid)?;
        self.bytes += (size_of::<Geometry>() + bytes.len()) as u64;
        self.items.push(turned(spatial.geometry));
        Ok(())
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        let mut other = same::<Self>(other);
        if let Some(srid) = other.srid {
            self.agree(srid)?;
        }
        self.items.append(&mut other.items);
        self.bytes += other.bytes;
        Ok(())
    }

    fn finish(&mut self, ctx: &EvalCtx) -> SqlResult<Value> {
        ctx.session.may_make(self.bytes as usize)?;
        let Some(srid) = self.srid else {
            return Ok(Value::Null);
        };
        let geometry = together(self.items.clone());
        Ok(Value::Str(Spatial { srid, geometry }.to_bytes()))
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// With outer rings against the clock and inner ones with it.
fn turned(mut geometry: Geometry) -> Geometry {
    let turn = |rings: &mut Vec<Vec<Coord>>| {
        for (nth, ring) in rings.iter_mut().enumerate() {
            if is_against_clock(ring) == Some(nth != 0) {
                ring.reverse();
            }
        }
    };
    match &mut geometry {
        Geometry::Polygon(rings) => turn(rings),
        Geometry::MultiPolygon(all) => all.iter_mut().for_each(turn),
        Geometry::Collection(items) => {
            let all = std::mem::take(items).into_iter();
            items.extend(all.map(turned));
        }
        _ => {}
    }
    geometry
}

/// All as one geometry.
fn together(items: Vec<Geometry>) -> Geometry {
    let shape = items.first().map(Geometry::shape);
    if items.iter().any(|item| Some(item.shape()) != shape) {
        return Geometry::Collection(items);
    }
    let (mut points, mut lines, mut polygons) = (Vec::new(), Vec::new(), Vec::new());
    for item in &items {
        match item {
            Geometry::Point(at) => points.push(*at),
            Geometry::LineString(line) => lines.push(line.clone()),
            Geometry::Polygon(rings) => polygons.push(rings.clone()),
            _ => {}
        }
    }
    match shape {
        Some(Shape::Point) => Geometry::MultiPoint(points),
        Some(Shape::LineString) => Geometry::MultiLineString(lines),
        Some(Shape::Polygon) => Geometry::MultiPolygon(polygons),
        _ => Geometry::Collection(items),
    }
}
