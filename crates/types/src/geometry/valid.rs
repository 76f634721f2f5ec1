//! Validity: rings that do not cross themselves, holes inside of their polygon and apart from each other, polygons
//! apart from each other.
//!
//! Neighbours: `matrix` says how rings meet. **Invariant**: `go_on` is asked of work in proportion to the square of the
//! points.

use super::matrix::Place::{Boundary, Exterior, Interior};
use super::matrix::{Matrix, matrix};
use super::measure::{area, side_or_on};
use super::{Coord, Geometry};
use crate::error::SqlResult;

/// Asked before work on so many points.
type GoOn<'a> = &'a dyn Fn(usize) -> SqlResult<()>;

/// Is it valid?
///
/// # Errors
/// Those of `go_on`.
pub fn is_valid(geometry: &Geometry, go_on: GoOn<'_>) -> SqlResult<bool> {
    let is_line = |line: &Vec<Coord>| line.iter().any(|at| *at != line[0]);
    Ok(match geometry {
        Geometry::Point(_) | Geometry::MultiPoint(_) => true,
        Geometry::LineString(line) => is_line(line),
        Geometry::MultiLineString(lines) => lines.iter().all(is_line),
        Geometry::Polygon(rings) => is_polygon(rings, go_on)?,
        Geometry::MultiPolygon(all) => {
            for rings in all {
                if !is_polygon(rings, go_on)? {
                    return Ok(false);
                }
            }
            are_apart(all, go_on)?
        }
        Geometry::Collection(items) => {
            for item in items {
                if !is_valid(item, go_on)? {
                    return Ok(false);
                }
            }
            true
        }
    })
}

fn is_polygon(rings: &[Vec<Coord>], go_on: GoOn<'_>) -> SqlResult<bool> {
    for ring in rings {
        if area(std::slice::from_ref(ring)) == 0.0 || !is_simple(ring, go_on)? {
            return Ok(false);
        }
    }
    let Some((outer, holes)) = rings.split_first() else {
        return Ok(false);
    };
    let holes: Vec<_> = holes.iter().map(|hole| vec![hole.clone()]).collect();
    let outer = Geometry::Polygon(vec![outer.clone()]);
    for hole in &holes {
        let meet = matrix(&outer, &Geometry::Polygon(hole.clone()), go_on)?;
        if meet.at(Exterior, Interior).is_some() || share_a_side(&meet) {
            return Ok(false);
        }
    }
    Ok(are_apart(&holes, go_on)? && !is_cut_apart(rings, go_on)?)
}

/// Do rings that touch each other in points cut the inside of a polygon in two? They do if they make a circle: rings
/// that touch in two places, or a chain of rings that comes back.
fn is_cut_apart(rings: &[Vec<Coord>], go_on: GoOn<'_>) -> SqlResult<bool> {
    // Rings of one chain have the same number.
    let mut chain: Vec<usize> = (0..rings.len()).collect();
    let mut seen: Vec<Coord> = Vec::new();
    for (nth, ring) in rings.iter().enumerate() {
        for at in &ring[1..] {
            go_on(rings.iter().map(Vec::len).sum::<usize>() + seen.len())?;
            if seen.contains(at) {
                continue;
            }
            let touched = |other: &usize| *other != nth && is_on(&rings[*other], *at);
            let others: Vec<_> = (0..rings.len()).filter(touched).collect();
            if !others.is_empty() {
                seen.push(*at);
            }
            for other in others {
                let (one, two) = (chain[nth], chain[other]);
                if one == two {
                    return Ok(true);
                }
                chain
                    .iter_mut()
                    .filter(|c| **c == two)
                    .for_each(|c| *c = one);
            }
        }
    }
    Ok(false)
}

/// Is a point on a ring?
fn is_on(ring: &[Coord], at: Coord) -> bool {
    let mut sides = ring.windows(2);
    sides.any(|ends| is_on_side((ends[0], ends[1]), at, side_or_on(ends[0], ends[1], at)))
}

/// Is a point on a side, from which it is so far aside?
fn is_on_side((a, b): (Coord, Coord), at: Coord, aside: f64) -> bool {
    let between = |a: f64, b: f64, v: f64| a.min(b) <= v && v <= a.max(b);
    aside == 0.0 && between(a.x, b.x, at.x) && between(a.y, b.y, at.y)
}

fn share_a_side(meet: &Matrix) -> bool {
    meet.at(Boundary, Boundary) == Some(1)
}

/// Do polygons meet in points at most?
fn are_apart(polygons: &[Vec<Vec<Coord>>], go_on: GoOn<'_>) -> SqlResult<bool> {
    for (nth, one) in polygons.iter().enumerate() {
        let one = Geometry::Polygon(one.clone());
        for other in &polygons[nth + 1..] {
            let meet = matrix(&one, &Geometry::Polygon(other.clone()), go_on)?;
            if meet.at(Interior, Interior).is_some() || share_a_side(&meet) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Does a ring neither cross nor touch itself?
fn is_simple(ring: &[Coord], go_on: GoOn<'_>) -> SqlResult<bool> {
    let mut points: Vec<Coord> = ring.to_vec();
    points.dedup();
    let sides: Vec<_> = points.windows(2).map(|ends| (ends[0], ends[1])).collect();
    for (nth, p) in sides.iter().enumerate() {
        go_on(sides.len())?;
        for (distance, q) in sides[nth + 1..].iter().enumerate() {
            let follows = distance == 0;
            let closes = nth == 0 && distance + 2 == sides.len();
            let meets = match (follows, closes) {
                (true, _) => turns_back(p.0, p.1, q.1),
                (false, true) => turns_back(q.0, q.1, p.1),
                (false, false) => meet(*p, *q),
            };
            if meets {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Does a line go back where it came from?
fn turns_back(a: Coord, corner: Coord, b: Coord) -> bool {
    let along = (corner.x - a.x) * (b.x - corner.x) + (corner.y - a.y) * (b.y - corner.y);
    side_or_on(a, corner, b) == 0.0 && along < 0.0
}

/// Have two sides a point in common?
fn meet(p: (Coord, Coord), q: (Coord, Coord)) -> bool {
    let (qa, qb) = (side_or_on(p.0, p.1, q.0), side_or_on(p.0, p.1, q.1));
    let (pa, pb) = (side_or_on(q.0, q.1, p.0), side_or_on(q.0, q.1, p.1));
    (qa > 0.0) != (qb > 0.0) && (pa > 0.0) != (pb > 0.0) && qa * qb != 0.0 && pa * pb != 0.0
        || is_on_side(p, q.0, qa)
        || is_on_side(p, q.1, qb)
        || is_on_side(q, p.0, pa)
        || is_on_side(q, p.1, pb)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::wkt;

    #[test]
    fn crossing_rings_and_holes_outside_are_not_valid() {
        let valid = |text: &str| {
            let geometry = wkt::parse(text.as_bytes()).unwrap();
            is_valid(&geometry, &|_| Ok(())).unwrap()
        };
        assert!(valid(
            "POLYGON((0 0,10 0,10 10,0 10,0 0),(1 1,1 2,2 2,2 1,1 1))"
        ));
        assert!(!valid("POLYGON((0 0,1 1,1 0,0 1,0 0))"));
        assert!(!valid(
            "POLYGON((0 0,10 0,10 10,0 10,0 0),(11 1,11 2,12 2,12 1,11 1))"
        ));
        assert!(!valid("POLYGON((0 0,1 1,2 2,0 0))"));
        assert!(!valid("LINESTRING(0 0,0 0)"));
        assert!(!valid("POLYGON((0 0,4 0,4 4,0 4,0 0),(0 1,3 2,2 4,0 1))"));
        assert!(valid("POLYGON((0 0,4 0,4 4,0 4,0 0),(0 1,3 2,2 3,0 1))"));
        assert!(!valid(
            "POLYGON((0 0,10 0,10 10,0 10,0 0),(2 2,5 2,2 5,2 2),(5 2,8 2,8 5,5 2),(2 5,4 8,8 5,2 5))"
        ));
        assert!(valid(
            "POLYGON((0 0,10 0,10 10,0 10,0 0),(5 5,3 6,3 4,5 5),(5 5,7 4,7 6,5 5),(5 5,4 7,6 7,5 5))"
        ));
        assert!(!valid(
            "MULTIPOLYGON(((0 0,2 0,2 2,0 0)),((0 0,2 0,2 2,0 0)))"
        ));
        assert!(valid(
            "MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((5 5,7 5,7 7,5 7,5 5)))"
        ));
    }
}
