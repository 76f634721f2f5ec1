//! The dimensionally extended nine-intersection model (DE-9IM; Clementini and others, 1993): how interiors, boundaries
//! and exteriors of two geometries meet.
//!
//! The segments of each are cut where those of the other cross them. What is between two cuts lies on one side of
//! everything, so its middle says where; cuts and corners are looked at by themselves. Along a border of an area lies
//! its interior on one side, which says how areas meet. Neighbours: `relate` has rectangles; `func::spatial::relate`
//! asks. **Invariants**: whether segments run along each other is decided by their corners, never by a computed
//! point; the work is in proportion to the segments of one times those of the other, and `go_on` is asked of it.

use super::measure::{is_against_clock, side_or_on};
use super::{Coord, Geometry};
use crate::error::SqlResult;

/// Where something lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Inside.
    Interior,
    /// On the border of an area, at an end of a line.
    Boundary,
    /// Outside.
    Exterior,
}

use Place::{Boundary, Exterior, Interior};

/// The dimensions of the nine intersections; `None`: empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Matrix([[Option<u8>; 3]; 3]);

impl Matrix {
    /// The dimension of what is `a` of the first and `b` of the second.
    pub fn at(&self, a: Place, b: Place) -> Option<u8> {
        self.0[a as usize][b as usize]
    }

    fn raise(&mut self, a: Place, b: Place, dimension: u8) {
        let cell = &mut self.0[a as usize][b as usize];
        *cell = (*cell).max(Some(dimension));
    }

    fn transposed(&self) -> Self {
        let mut out = Self::default();
        for (a, row) in self.0.iter().enumerate() {
            for (b, cell) in row.iter().enumerate() {
                out.0[b][a] = *cell;
            }
        }
        out
    }
}

/// A piece of a line or of a ring.
#[derive(Clone, Copy)]
struct Segment {
    a: Coord,
    b: Coord,
    /// Of a ring: is the area on the left?
    area_left: Option<bool>,
}

impl Segment {
    fn place(&self) -> Place {
        match self.area_left {
            Some(_) => Boundary,
            None => Interior,
        }
    }

    /// Is the point on it?
    fn has(&self, at: Coord) -> bool {
        side_or_on(self.a, self.b, at) == 0.0 && self.is_beside(at)
    }

    /// Is a point of its line between its ends?
    fn is_beside(&self, at: Coord) -> bool {
        let between = |a: f64, b: f64, v: f64| a.min(b) <= v && v <= a.max(b);
        between(self.a.x, self.b.x, at.x) && between(self.a.y, self.b.y, at.y)
    }

    /// How far along it a point of its line is.
    fn part(&self, at: Coord) -> f64 {
        let (x, y) = (self.b.x - self.a.x, self.b.y - self.a.y);
        match x.abs() > y.abs() {
            true => (at.x - self.a.x) / x,
            false => (at.y - self.a.y) / y,
        }
    }

    fn point(&self, part: f64) -> Coord {
        Coord {
            x: self.a.x + (self.b.x - self.a.x) * part,
            y: self.a.y + (self.b.y - self.a.y) * part,
        }
    }
}

/// A geometry in pieces.
#[derive(Default)]
struct Parts<'a> {
    segments: Vec<Segment>,
    /// Points, and lines without length.
    points: Vec<Coord>,
    /// Rings without length.
    borders: Vec<Coord>,
    /// The ends of lines that are not closed.
    ends: Vec<Coord>,
    polygons: Vec<&'a [Vec<Coord>]>,
}

impl<'a> Parts<'a> {
    fn add(&mut self, geometry: &'a Geometry) {
        match geometry {
            Geometry::Point(at) => self.points.push(*at),
            Geometry::MultiPoint(points) => self.points.extend(points),
            Geometry::LineString(line) => self.line(line),
            Geometry::MultiLineString(lines) => lines.iter().for_each(|line| self.line(line)),
            Geometry::Polygon(rings) => self.polygon(rings),
            Geometry::MultiPolygon(all) => all.iter().for_each(|rings| self.polygon(rings)),
            Geometry::Collection(items) => items.iter().for_each(|item| self.add(item)),
        }
    }

    fn push(&mut self, line: &[Coord], area_left: Option<bool>) {
        let Some(first) = line.first() else { return };
        if line.iter().all(|at| at == first) {
            return match area_left {
                Some(_) => self.borders.push(*first),
                None => self.points.push(*first),
            };
        }
        let ends = line.windows(2).filter(|ends| ends[0] != ends[1]);
        self.segments.extend(ends.map(|ends| Segment {
            a: ends[0],
            b: ends[1],
            area_left,
        }));
    }

    fn line(&mut self, line: &[Coord]) {
        self.push(line, None);
        if let [first, .., last] = line
            && first != last
        {
            self.ends.extend([*first, *last]);
        }
    }

    fn polygon(&mut self, rings: &'a [Vec<Coord>]) {
        self.polygons.push(rings);
        for (nth, ring) in rings.iter().enumerate() {
            let runs_left = is_against_clock(ring).unwrap_or(false);
            self.push(ring, Some(runs_left == (nth == 0)));
        }
    }

    /// Where a point lies in the areas, if it is on no ring.
    fn in_areas(&self, at: Coord) -> Place {
        let inside = |rings: &&[Vec<Coord>]| super::measure::is_inside(rings, at);
        match self.polygons.iter().any(inside) {
            true => Interior,
            false => Exterior,
        }
    }

    /// Where a corner lies.
    fn place(&self, at: Coord) -> Place {
        let on: Vec<_> = self.segments.iter().filter(|s| s.has(at)).collect();
        if on.iter().any(|s| s.area_left.is_some()) || self.borders.contains(&at) {
            return Boundary;
        }
        if self.in_areas(at) == Interior || self.points.contains(&at) {
            return Interior;
        }
        let ends = self.ends.iter().filter(|end| **end == at).count();
        match (on.is_empty(), ends % 2) {
            (true, _) => Exterior,
            (false, 1) => Boundary,
            (false, _) => Interior,
        }
    }
}

/// A stretch of a segment that runs along another one.
struct Along {
    from: f64,
    to: f64,
    place: Place,
    /// Both have an area, and on the same side.
    same_side: Option<bool>,
}

/// Where one segment meets those of the other geometry.
#[derive(Default)]
struct Cuts {
    parts: Vec<f64>,
    along: Vec<Along>,
}

impl Cuts {
    fn meet(&mut self, p: &Segment, q: &Segment, matrix: &mut Matrix) {
        let (qa, qb) = (side_or_on(p.a, p.b, q.a), side_or_on(p.a, p.b, q.b));
        let (pa, pb) = (side_or_on(q.a, q.b, p.a), side_or_on(q.a, q.b, p.b));
        if qa == 0.0 && qb == 0.0 || pa == 0.0 && pb == 0.0 {
            return self.run_along(p, q);
        }
        let opposite = |a: f64, b: f64| a < 0.0 && b > 0.0 || a > 0.0 && b < 0.0;
        if opposite(qa, qb) && opposite(pa, pb) {
            self.parts.push(pa / (pa - pb));
            matrix.raise(p.place(), q.place(), 0);
            return;
        }
        for (at, aside) in [(q.a, qa), (q.b, qb)] {
            if aside == 0.0 && p.is_beside(at) {
                self.parts.push(p.part(at));
            }
        }
    }

    fn run_along(&mut self, p: &Segment, q: &Segment) {
        let (a, b) = (p.part(q.a), p.part(q.b));
        let (from, to) = (a.min(b).max(0.0), a.max(b).min(1.0));
        if from >= to {
            return;
        }
        self.parts.extend([from, to]);
        let same_side = p.area_left.zip(q.area_left);
        self.along.push(Along {
            from,
            to,
            place: q.place(),
            same_side: same_side.map(|(of_p, of_q)| (of_p == of_q) == (a < b)),
        });
    }
}

/// What the pieces of `a` say: the rest is said by those of `b`.
fn half(
    a: &Parts<'_>,
    b: &Parts<'_>,
    go_on: &impl Fn(usize) -> SqlResult<()>,
) -> SqlResult<Matrix> {
    let mut matrix = Matrix::default();
    for p in &a.segments {
        go_on(b.segments.len() + b.points.len())?;
        let mut cuts = Cuts::default();
        cuts.parts.extend([0.0, 1.0]);
        b.segments.iter().for_each(|q| cuts.meet(p, q, &mut matrix));
        cuts.parts.sort_by(f64::total_cmp);
        for ends in cuts.parts.windows(2).filter(|ends| ends[0] < ends[1]) {
            go_on(b.segments.len())?;
            stretch(p, f64::midpoint(ends[0], ends[1]), &cuts, b, &mut matrix);
        }
        for corner in [p.a, p.b] {
            go_on(a.segments.len() + b.segments.len())?;
            matrix.raise(a.place(corner), b.place(corner), 0);
        }
    }
    for at in a.points.iter().chain(&a.borders) {
        go_on(a.segments.len() + b.segments.len())?;
        matrix.raise(a.place(*at), b.place(*at), 0);
    }
    if !a.polygons.is_empty() && b.polygons.is_empty() {
        matrix.raise(Interior, Exterior, 2);
    }
    Ok(matrix)
}

/// What a stretch of a segment says, by its middle.
fn stretch(p: &Segment, middle: f64, cuts: &Cuts, b: &Parts<'_>, matrix: &mut Matrix) {
    let beside = |along: &&Along| along.from <= middle && middle <= along.to;
    let along: Vec<_> = cuts.along.iter().filter(beside).collect();
    let border = along.iter().find(|along| along.place == Boundary);
    let place = match border {
        Some(_) => Boundary,
        None => match b.in_areas(p.point(middle)) {
            Exterior if !along.is_empty() => Interior,
            place => place,
        },
    };
    matrix.raise(p.place(), place, 1);
    if p.area_left.is_none() {
        return;
    }
    // Inside of the ring is the area, outside of it is not.
    match (border.and_then(|along| along.same_side), place) {
        (Some(true), _) => matrix.raise(Interior, Interior, 2),
        (Some(false), _) => {
            matrix.raise(Interior, Exterior, 2);
            matrix.raise(Exterior, Interior, 2);
        }
        (None, Interior) if along.is_empty() => {
            matrix.raise(Interior, Interior, 2);
            matrix.raise(Exterior, Interior, 2);
        }
        (None, Exterior) => matrix.raise(Interior, Exterior, 2),
        (None, _) => {}
    }
}

/// How two geometries meet.
///
/// # Errors
/// Those of `go_on`.
pub fn matrix(
    a: &Geometry,
    b: &Geometry,
    go_on: impl Fn(usize) -> SqlResult<()>,
) -> SqlResult<Matrix> {
    let (mut of_a, mut of_b) = (Parts::default(), Parts::default());
    of_a.add(a);
    of_b.add(b);
    let mut out = half(&of_a, &of_b, &go_on)?;
    let other = half(&of_b, &of_a, &go_on)?.transposed();
    for (row, more) in out.0.iter_mut().zip(other.0) {
        for (cell, more) in row.iter_mut().zip(more) {
            *cell = (*cell).max(more);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::wkt;

    fn text(a: &str, b: &str) -> String {
        let read = |text: &str| wkt::parse(text.as_bytes()).unwrap();
        let m = matrix(&read(a), &read(b), |_| Ok(())).unwrap();
        let cells = m.0.iter().flatten();
        let mark = |d: &Option<u8>| d.map_or('F', |d| char::from(b'0' + d));
        cells.map(mark).collect()
    }

    #[test]
    fn known_matrices() {
        let square = "POLYGON((0 0,10 0,10 10,0 10,0 0))";
        for (a, b, expected) in [
            (square, square, "2FFF1FFFF"),
            (square, "POLYGON((5 5,15 5,15 15,5 15,5 5))", "21210121F"),
            (square, "POLYGON((1 1,2 1,2 2,1 2,1 1))", "212FF1FFF"),
            (square, "POLYGON((10 0,20 0,20 10,10 10,10 0))", "FF2F1121F"),
            (square, "POLYGON((20 0,30 0,30 10,20 10,20 0))", "FF2FF121F"),
            (square, "LINESTRING(0 5,10 5)", "1F2F01FFF"),
            (square, "LINESTRING(0 0,10 0)", "FF2101FFF"),
            (square, "POINT(5 5)", "0F2FF1FFF"),
            (square, "POINT(0 5)", "FF20F1FFF"),
            ("LINESTRING(0 0,2 2)", "LINESTRING(0 2,2 0)", "0F1FF0102"),
            ("LINESTRING(0 0,2 2)", "LINESTRING(0 0,2 2)", "1FFF0FFFF"),
            ("POINT(1 1)", "POINT(1 1)", "0FFFFFFFF"),
            ("LINESTRING(1 1,1 1)", "POINT(1 1)", "0FFFFFFFF"),
            ("LINESTRING(8 8,3 1)", "POINT(6.5 5.9)", "0F1FF0FFF"),
        ] {
            assert_eq!(text(a, b)[..8], expected[..8], "{a} {b}");
        }
    }
}
