//! Measures in the plane: envelope, length, area, centroid, distance.
//!
//! Neighbours: `func::spatial`; `relate` compares envelopes. **Invariant**: nothing here divides by a length or an
//! area that may be zero.

use super::{Coord, Geometry};
use crate::error::SqlResult;

/// The smallest rectangle around a geometry, with sides along the axes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Rect {
    pub low: Coord,
    pub high: Coord,
}

/// The envelope; `None` of nothing.
pub fn envelope(geometry: &Geometry) -> Option<Rect> {
    let mut rect: Option<Rect> = None;
    geometry.each_coord(&mut |at| {
        let rect = rect.get_or_insert(Rect { low: at, high: at });
        rect.low.x = rect.low.x.min(at.x);
        rect.low.y = rect.low.y.min(at.y);
        rect.high.x = rect.high.x.max(at.x);
        rect.high.y = rect.high.y.max(at.y);
    });
    rect
}

impl Rect {
    /// As the simplest geometry of these points.
    pub fn into_geometry(self) -> Geometry {
        let (low, high) = (self.low, self.high);
        let at = |x, y| Coord { x, y };
        match (low.x == high.x, low.y == high.y) {
            (true, true) => Geometry::Point(low),
            (true, false) | (false, true) => Geometry::LineString(vec![low, high]),
            (false, false) => Geometry::Polygon(vec![vec![
                low,
                at(high.x, low.y),
                high,
                at(low.x, high.y),
                low,
            ]]),
        }
    }
}

/// The distance of two points. (As MySQL's: a square that no double holds makes it infinite.)
pub fn between(a: Coord, b: Coord) -> f64 {
    let (x, y) = (a.x - b.x, a.y - b.y);
    (x * x + y * y).sqrt()
}

/// The length of a line.
pub fn length(line: &[Coord]) -> f64 {
    line.windows(2)
        .map(|ends| {
            let (x, y) = (ends[1].x - ends[0].x, ends[1].y - ends[0].y);
            (x * x + y * y).sqrt()
        })
        .sum()
}

/// Does a ring run against the clock? `None`: it has no area.
pub fn is_against_clock(ring: &[Coord]) -> Option<bool> {
    let (twice, ..) = ring_sums(ring, *ring.first()?);
    (twice != 0.0).then_some(twice > 0.0)
}

/// Twice the area of a ring, positive where it runs against the clock, and its moments.
fn ring_sums(ring: &[Coord], origin: Coord) -> (f64, f64, f64) {
    ring.windows(2).fold((0.0, 0.0, 0.0), |sums, ends| {
        let (ax, ay) = (ends[0].x - origin.x, ends[0].y - origin.y);
        let (bx, by) = (ends[1].x - origin.x, ends[1].y - origin.y);
        let cross = ax * by - bx * ay;
        (
            sums.0 + cross,
            sums.1 + cross * (ax + bx),
            sums.2 + cross * (ay + by),
        )
    })
}

/// The area of a polygon: that of its outer ring without those in it.
pub fn area(rings: &[Vec<Coord>]) -> f64 {
    let origin = Coord { x: 0.0, y: 0.0 };
    let areas = rings
        .iter()
        .map(|ring| ring_sums(ring, origin).0.abs() / 2.0);
    areas
        .enumerate()
        .map(|(nth, area)| if nth == 0 { area } else { -area })
        .sum()
}

/// Weighted places of the parts of one dimension.
#[derive(Default)]
struct Moments {
    weight: f64,
    x: f64,
    y: f64,
}

impl Moments {
    fn add(&mut self, at: Coord, weight: f64) {
        self.weight += weight;
        self.x += at.x * weight;
        self.y += at.y * weight;
    }

    fn line(&mut self, line: &[Coord]) {
        for ends in line.windows(2) {
            let (a, b) = (ends[0], ends[1]);
            let middle = Coord {
                x: f64::midpoint(a.x, b.x),
                y: f64::midpoint(a.y, b.y),
            };
            self.add(middle, between(a, b));
        }
    }

    fn polygon(&mut self, rings: &[Vec<Coord>], origin: Coord) {
        for (nth, ring) in rings.iter().enumerate() {
            let (twice, x, y) = ring_sums(ring, origin);
            let sign = if (twice < 0.0) == (nth == 0) {
                -1.0
            } else {
                1.0
            };
            self.weight += sign * twice * 3.0;
            self.x += sign * x;
            self.y += sign * y;
        }
    }

    fn of(&mut self, geometry: &Geometry, dimension: u8, origin: Coord) {
        match (geometry, dimension) {
            (Geometry::Point(at), 0) => self.add(*at, 1.0),
            (Geometry::MultiPoint(points), 0) => points.iter().for_each(|at| self.add(*at, 1.0)),
            (Geometry::LineString(line), 1) => self.line(line),
            (Geometry::MultiLineString(lines), 1) => lines.iter().for_each(|line| self.line(line)),
            (Geometry::Polygon(rings), 2) => self.polygon(rings, origin),
            (Geometry::MultiPolygon(all), 2) => {
                all.iter().for_each(|rings| self.polygon(rings, origin));
            }
            (Geometry::Collection(items), _) => {
                items
                    .iter()
                    .for_each(|item| self.of(item, dimension, origin));
            }
            _ => {}
        }
    }
}

/// The centre of mass of the parts of the greatest dimension; of the points where those have no size.
pub fn centroid(geometry: &Geometry) -> Option<Coord> {
    let dimension = geometry.dimension()?;
    let mut first = None;
    geometry.each_coord(&mut |at| {
        first.get_or_insert(at);
    });
    let origin = match dimension {
        2 => first?,
        _ => Coord { x: 0.0, y: 0.0 },
    };
    let mut moments = Moments::default();
    moments.of(geometry, dimension, origin);
    if moments.weight == 0.0 || !moments.weight.is_finite() {
        return first;
    }
    Some(Coord {
        x: moments.x / moments.weight + origin.x,
        y: moments.y / moments.weight + origin.y,
    })
}

/// The pieces that a distance is measured between.
#[derive(Default)]
struct Pieces<'a> {
    /// Segments; a point is one without length.
    segments: Vec<(Coord, Coord)>,
    polygons: Vec<&'a [Vec<Coord>]>,
    /// A point of each part.
    samples: Vec<Coord>,
}

impl<'a> Pieces<'a> {
    fn of(geometry: &'a Geometry) -> Self {
        let mut pieces = Self::default();
        pieces.add(geometry);
        pieces
    }

    fn line(&mut self, line: &[Coord]) {
        self.samples.extend(line.first());
        self.segments
            .extend(line.windows(2).map(|ends| (ends[0], ends[1])));
    }

    fn polygon(&mut self, rings: &'a [Vec<Coord>]) {
        self.polygons.push(rings);
        rings.iter().for_each(|ring| self.line(ring));
    }

    fn point(&mut self, at: Coord) {
        self.samples.push(at);
        self.segments.push((at, at));
    }

    fn add(&mut self, geometry: &'a Geometry) {
        match geometry {
            Geometry::Point(at) => self.point(*at),
            Geometry::MultiPoint(points) => points.iter().for_each(|at| self.point(*at)),
            Geometry::LineString(line) => self.line(line),
            Geometry::MultiLineString(lines) => lines.iter().for_each(|line| self.line(line)),
            Geometry::Polygon(rings) => self.polygon(rings),
            Geometry::MultiPolygon(all) => all.iter().for_each(|rings| self.polygon(rings)),
            Geometry::Collection(items) => items.iter().for_each(|item| self.add(item)),
        }
    }

    fn covers_any(
        &self,
        samples: &[Coord],
        go_on: &impl Fn(usize) -> SqlResult<()>,
    ) -> SqlResult<bool> {
        for at in samples.iter().filter(|_| !self.polygons.is_empty()) {
            go_on(self.segments.len())?;
            if self.polygons.iter().any(|rings| is_inside(rings, *at)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Is a point inside of a polygon and of none of its holes? (Of what is on a ring, the distance says it.)
pub(super) fn is_inside(rings: &[Vec<Coord>], at: Coord) -> bool {
    let crossings = rings
        .iter()
        .flat_map(|ring| ring.windows(2))
        .filter(|ends| {
            let (a, b) = (ends[0], ends[1]);
            (a.y > at.y) != (b.y > at.y) && {
                let x = (b.x - a.x) * (at.y - a.y) / (b.y - a.y) + a.x;
                at.x < x
            }
        });
    crossings.count() % 2 == 1
}

/// The distance of a point from a segment.
pub fn to_segment(at: Coord, (a, b): (Coord, Coord)) -> f64 {
    let (x, y) = (b.x - a.x, b.y - a.y);
    let square = x * x + y * y;
    if square == 0.0 {
        return between(at, a);
    }
    let along = (((at.x - a.x) * x + (at.y - a.y) * y) / square).clamp(0.0, 1.0);
    between(
        at,
        Coord {
            x: a.x + along * x,
            y: a.y + along * y,
        },
    )
}

/// On which side of a line through `a` and `b` a point is: the sign of the cross product.
pub fn side(a: Coord, b: Coord, at: Coord) -> f64 {
    (b.x - a.x) * (at.y - a.y) - (b.y - a.y) * (at.x - a.x)
}

/// The same, but zero where rounding could have made it: within an epsilon of the greatest difference of coordinates,
/// as it is to MySQL.
/// The triangle is turned so that the order of its corners makes no difference.
pub fn side_or_on(a: Coord, b: Coord, at: Coord) -> f64 {
    /// Less difference than this does not lessen what counts as zero.
    const FLOOR: f64 = 1.0;
    let before = |p: Coord, q: Coord| (p.x, p.y) < (q.x, q.y);
    let (a, b, at) = match (before(at, a) && before(at, b), before(a, b)) {
        (true, _) => (at, a, b),
        (false, true) => (a, b, at),
        (false, false) => (b, at, a),
    };
    let found = side(a, b, at);
    let differences = [b.x - a.x, b.y - a.y, at.x - a.x, at.y - a.y];
    let greatest = differences.iter().fold(FLOOR, |most, d| most.max(d.abs()));
    match found.abs() <= f64::EPSILON * greatest {
        true => 0.0,
        false => found,
    }
}

fn segments_apart(p: (Coord, Coord), q: (Coord, Coord)) -> f64 {
    let opposite = |a: f64, b: f64| a < 0.0 && b > 0.0 || a > 0.0 && b < 0.0;
    if opposite(side(p.0, p.1, q.0), side(p.0, p.1, q.1))
        && opposite(side(q.0, q.1, p.0), side(q.0, q.1, p.1))
    {
        return 0.0;
    }
    to_segment(p.0, q)
        .min(to_segment(p.1, q))
        .min(to_segment(q.0, p))
        .min(to_segment(q.1, p))
}

/// The least distance of two geometries; `None` if one is empty. `go_on` is asked as the work grows.
///
/// # Errors
/// Those of `go_on`.
pub fn distance(
    a: &Geometry,
    b: &Geometry,
    go_on: impl Fn(usize) -> SqlResult<()>,
) -> SqlResult<Option<f64>> {
    let (a, b) = (Pieces::of(a), Pieces::of(b));
    if a.samples.is_empty() || b.samples.is_empty() {
        return Ok(None);
    }
    if a.covers_any(&b.samples, &go_on)? || b.covers_any(&a.samples, &go_on)? {
        return Ok(Some(0.0));
    }
    let mut least = f64::INFINITY;
    for p in &a.segments {
        go_on(b.segments.len())?;
        for q in &b.segments {
            least = least.min(segments_apart(*p, *q));
        }
    }
    Ok(Some(least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::wkt;

    fn read(text: &str) -> Geometry {
        wkt::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn distances_and_centres() {
        let apart = |a, b| distance(&read(a), &read(b), |_| Ok(())).unwrap();
        let holed = "POLYGON((0 0,10 0,10 10,0 10,0 0),(1 1,1 2,2 2,2 1,1 1))";
        assert_eq!(apart(holed, "POINT(20 0)"), Some(10.0));
        assert_eq!(apart(holed, "POINT(1.5 1.5)"), Some(0.5));
        assert_eq!(apart(holed, "POINT(5 5)"), Some(0.0));
        assert_eq!(
            apart("LINESTRING(0 0,2 2)", "LINESTRING(0 2,2 0)"),
            Some(0.0)
        );
        assert_eq!(apart("GEOMETRYCOLLECTION()", "POINT(1 1)"), None);
        let centre = centroid(&read(holed)).unwrap();
        assert_eq!(
            (centre.x, centre.y),
            (5.035_353_535_353_535_5, 5.035_353_535_353_535_5)
        );
        assert_eq!(centroid(&read("GEOMETRYCOLLECTION()")), None);
    }
}
