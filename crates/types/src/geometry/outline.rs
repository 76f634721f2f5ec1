//! Outlines: the convex hull (Andrew's monotone chain, 1979), simplified lines (Douglas and Peucker, 1973), places
//! along a line.
//!
//! Neighbours: `measure` for distances; `func::spatial`. **Invariant**: no recursion, however long a line is.

use super::measure::{between, side, to_segment};
use super::{Coord, Geometry, RING_POINTS};
use crate::error::SqlResult;

/// Asked before work on so many points.
type GoOn<'a> = &'a dyn Fn(usize) -> SqlResult<()>;

/// The smallest convex geometry around all points; `None` of nothing.
pub fn convex_hull(geometry: &Geometry) -> Option<Geometry> {
    let mut points = Vec::new();
    geometry.each_coord(&mut |at| points.push(at));
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    points.dedup();
    match points[..] {
        [] => return None,
        [only] => return Some(Geometry::Point(only)),
        _ => {}
    }
    let mut hull = half(points.iter());
    hull.pop();
    hull.extend(half(points.iter().rev()));
    match hull[..] {
        [a, b, _] => Some(Geometry::LineString(vec![a, b])),
        _ => Some(Geometry::Polygon(vec![hull])),
    }
}

/// The points of one side of the hull, turning left.
fn half<'a>(points: impl Iterator<Item = &'a Coord>) -> Vec<Coord> {
    let mut chain: Vec<Coord> = Vec::new();
    for at in points {
        while let [.., a, b] = chain[..]
            && side(a, b, *at) <= 0.0
        {
            chain.pop();
        }
        chain.push(*at);
    }
    chain
}

/// A line without the points that are no further than `most` from the line that is left.
fn simplified_line(line: &[Coord], most: f64, go_on: GoOn<'_>) -> SqlResult<Vec<Coord>> {
    let Some(end) = line.len().checked_sub(1) else {
        return Ok(Vec::new());
    };
    let mut keep = vec![false; line.len()];
    (keep[0], keep[end]) = (true, true);
    let mut parts = vec![(0, end)];
    while let Some((from, to)) = parts.pop() {
        go_on(to - from)?;
        let away = |at: usize| to_segment(line[at], (line[from], line[to]));
        let furthest = (from + 1..to).max_by(|a, b| away(*a).total_cmp(&away(*b)));
        if let Some(at) = furthest.filter(|at| away(*at) > most) {
            keep[at] = true;
            parts.extend([(from, at), (at, to)]);
        }
    }
    let kept = line.iter().zip(keep).filter(|(_, keep)| *keep);
    Ok(kept.map(|(at, _)| *at).collect())
}

/// `None` if nothing is left of the outer ring.
fn simplified_rings(
    rings: &[Vec<Coord>],
    most: f64,
    go_on: GoOn<'_>,
) -> SqlResult<Option<Vec<Vec<Coord>>>> {
    let mut out = Vec::with_capacity(rings.len());
    for (nth, ring) in rings.iter().enumerate() {
        let ring = simplified_line(ring, most, go_on)?;
        match ring.len() >= RING_POINTS {
            true => out.push(ring),
            false if nth == 0 => return Ok(None),
            false => {}
        }
    }
    Ok(Some(out))
}

/// With fewer points, none of which moves the outline further than `most`; `None` if nothing is left.
///
/// # Errors
/// Those of `go_on`.
pub fn simplified(geometry: &Geometry, most: f64, go_on: GoOn<'_>) -> SqlResult<Option<Geometry>> {
    Ok(Some(match geometry {
        Geometry::Point(_) | Geometry::MultiPoint(_) => geometry.clone(),
        Geometry::LineString(line) => Geometry::LineString(simplified_line(line, most, go_on)?),
        Geometry::MultiLineString(lines) => {
            let lines = lines.iter().map(|line| simplified_line(line, most, go_on));
            Geometry::MultiLineString(lines.collect::<SqlResult<_>>()?)
        }
        Geometry::Polygon(rings) => {
            let rings = simplified_rings(rings, most, go_on)?;
            return Ok(rings.map(Geometry::Polygon));
        }
        Geometry::MultiPolygon(all) => {
            let polygons = all.iter().map(|rings| simplified_rings(rings, most, go_on));
            let polygons = polygons.filter_map(Result::transpose);
            let polygons: Vec<_> = polygons.collect::<SqlResult<_>>()?;
            let left = (!polygons.is_empty()).then_some(polygons);
            return Ok(left.map(Geometry::MultiPolygon));
        }
        Geometry::Collection(items) => {
            let items = items.iter().map(|item| simplified(item, most, go_on));
            let items = items.filter_map(Result::transpose);
            Geometry::Collection(items.collect::<SqlResult<_>>()?)
        }
    }))
}

/// The place on a line that is so far from its beginning; its end if that is nearer.
pub fn along(line: &[Coord], distance: f64) -> Option<Coord> {
    let mut left = distance;
    for ends in line.windows(2) {
        let (a, b) = (ends[0], ends[1]);
        let length = between(a, b);
        if left <= length && length > 0.0 {
            let part = left / length;
            return Some(Coord {
                x: a.x + (b.x - a.x) * part,
                y: a.y + (b.y - a.y) * part,
            });
        }
        left -= length;
    }
    line.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::wkt;

    #[test]
    fn hulls_and_simpler_lines() {
        let read = |text: &str| wkt::parse(text.as_bytes()).unwrap();
        let print = |geometry: Option<Geometry>| {
            let mut out = Vec::new();
            geometry.iter().for_each(|g| wkt::write(g, &mut out));
            String::from_utf8(out).unwrap()
        };
        let hull = |text| print(convex_hull(&read(text)));
        assert_eq!(hull("MULTIPOINT(1 1,1 1)"), "POINT(1 1)");
        assert_eq!(hull("LINESTRING(0 0,1 1,2 2)"), "LINESTRING(0 0,2 2)");
        assert_eq!(
            hull("MULTIPOINT(0 0,2 0,1 1,2 2,0 2)"),
            "POLYGON((0 0,2 0,2 2,0 2,0 0))"
        );
        assert_eq!(hull("GEOMETRYCOLLECTION()"), "");
        let simple = |text| print(simplified(&read(text), 0.5, &|_| Ok(())).unwrap());
        assert_eq!(simple("LINESTRING(0 0,1 0.1,2 0)"), "LINESTRING(0 0,2 0)");
        assert_eq!(simple("LINESTRING(0 0,3 4,3 8)"), "LINESTRING(0 0,3 4,3 8)");
        assert_eq!(simple("POLYGON((0 0,0.1 0,0.1 0.1,0 0))"), "");
    }
}
