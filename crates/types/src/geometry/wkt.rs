//! Well-known text: `POINT(1 2)`, `LINESTRING(0 0,1 1)`, `GEOMETRYCOLLECTION EMPTY`.
//!
//! Neighbours: `func::spatial`; `cast` writes doubles. **Invariant**: the coordinates come and go as they stand in the
//! text; who needs another order swaps them.

use super::{Coord, Geometry, MAX_DEPTH, Shape, is_line, is_ring};
use crate::cast::write_f64;

/// Names of shapes in texts.
const NAMES: [(&str, Shape); 7] = [
    ("POINT", Shape::Point),
    ("LINESTRING", Shape::LineString),
    ("POLYGON", Shape::Polygon),
    ("MULTIPOINT", Shape::MultiPoint),
    ("MULTILINESTRING", Shape::MultiLineString),
    ("MULTIPOLYGON", Shape::MultiPolygon),
    ("GEOMETRYCOLLECTION", Shape::Collection),
];

/// Reads a text; `None` if it is none of a geometry.
pub fn parse(text: &[u8]) -> Option<Geometry> {
    let mut parser = Parser { rest: text };
    let geometry = parser.geometry(0)?;
    parser.skip();
    parser.rest.is_empty().then_some(geometry)
}

/// Bytes of a sign, digits with a point, and an exponent.
fn number_length(text: &[u8]) -> usize {
    let sign = |at: usize| usize::from(matches!(text.get(at), Some(b'+' | b'-')));
    let digits = |at: usize| text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = sign(0);
    end += digits(end);
    if text.get(end) == Some(&b'.') {
        end += 1;
        end += digits(end);
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let exponent = end + 1 + sign(end + 1);
        match digits(exponent) {
            0 => {}
            some => end = exponent + some,
        }
    }
    end
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn skip(&mut self) {
        const VERTICAL_TAB: u8 = 0x0b;
        let is_space = |b: &u8| b.is_ascii_whitespace() || *b == VERTICAL_TAB;
        let spaces = self.rest.iter().take_while(|b| is_space(b)).count();
        self.rest = &self.rest[spaces..];
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.skip();
        let found = self.rest.first() == Some(&byte);
        self.rest = &self.rest[usize::from(found)..];
        found
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }

    fn take_while(&mut self, is_part: impl Fn(&u8) -> bool) -> &'a [u8] {
        self.skip();
        let end = self.rest.iter().position(|b| !is_part(b));
        let (taken, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn word(&mut self) -> &'a [u8] {
        self.take_while(u8::is_ascii_alphanumeric)
    }

    /// The longest number that the text begins with: what can be no part of it begins the next one.
    fn number(&mut self) -> Option<f64> {
        self.skip();
        let (number, rest) = self.rest.split_at(number_length(self.rest));
        self.rest = rest;
        let number: f64 = std::str::from_utf8(number).ok()?.parse().ok()?;
        number.is_finite().then_some(number)
    }

    fn coord(&mut self) -> Option<Coord> {
        Some(Coord {
            x: self.number()?,
            y: self.number()?,
        })
    }

    /// `(member,member …)`
    fn list<T>(&mut self, member: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.expect(b'(')?;
        let mut members = vec![member(self)?];
        while self.eat(b',') {
            members.push(member(self)?);
        }
        self.expect(b')')?;
        Some(members)
    }

    fn line(&mut self) -> Option<Vec<Coord>> {
        self.list(Self::coord).filter(|points| is_line(points))
    }

    fn ring(&mut self) -> Option<Vec<Coord>> {
        self.list(Self::coord).filter(|points| is_ring(points))
    }

    fn polygon(&mut self) -> Option<Vec<Vec<Coord>>> {
        self.list(Self::ring)
    }

    /// All points in parentheses, or none.
    fn points(&mut self) -> Option<Vec<Coord>> {
        let mut ahead = Self { rest: self.rest };
        ahead.expect(b'(')?;
        if !ahead.eat(b'(') {
            return self.list(Self::coord);
        }
        self.list(|parser| {
            parser.expect(b'(')?;
            let at = parser.coord()?;
            parser.expect(b')').map(|()| at)
        })
    }

    fn collection(&mut self, depth: usize) -> Option<Vec<Geometry>> {
        (depth < MAX_DEPTH).then_some(())?;
        let mut ahead = Self { rest: self.rest };
        if ahead.word().eq_ignore_ascii_case(b"EMPTY") || ahead.eat(b'(') && ahead.eat(b')') {
            self.rest = ahead.rest;
            return Some(Vec::new());
        }
        self.list(|parser| parser.geometry(depth + 1))
    }

    fn geometry(&mut self, depth: usize) -> Option<Geometry> {
        let word = self.word();
        let is_it = |(name, _): &&(&str, Shape)| name.as_bytes().eq_ignore_ascii_case(word);
        let (_, shape) = NAMES.iter().find(is_it)?;
        Some(match shape {
            Shape::Geometry => return None,
            Shape::Point => {
                self.expect(b'(')?;
                let at = self.coord()?;
                self.expect(b')')?;
                Geometry::Point(at)
            }
            Shape::LineString => Geometry::LineString(self.line()?),
            Shape::Polygon => Geometry::Polygon(self.polygon()?),
            Shape::MultiPoint => Geometry::MultiPoint(self.points()?),
            Shape::MultiLineString => Geometry::MultiLineString(self.list(Self::line)?),
            Shape::MultiPolygon => Geometry::MultiPolygon(self.list(Self::polygon)?),
            Shape::Collection => Geometry::Collection(self.collection(depth)?),
        })
    }
}

/// Appends the text.
pub fn write(geometry: &Geometry, out: &mut Vec<u8>) {
    let shape = geometry.shape();
    let name = NAMES.iter().find(|(_, named)| *named == shape);
    out.extend_from_slice(name.map_or("", |(name, _)| name).as_bytes());
    match geometry {
        Geometry::Point(at) => point(at, out),
        Geometry::LineString(line) => list(line, coord, out),
        Geometry::Polygon(rings) => polygon(rings, out),
        Geometry::MultiPoint(points) => list(points, point, out),
        Geometry::MultiLineString(lines) => list(lines, |line, out| list(line, coord, out), out),
        Geometry::MultiPolygon(all) => list(all, |rings, out| polygon(rings, out), out),
        Geometry::Collection(items) if items.is_empty() => out.extend_from_slice(b" EMPTY"),
        Geometry::Collection(items) => list(items, write, out),
    }
}

fn list<T>(members: &[T], write: impl Fn(&T, &mut Vec<u8>), out: &mut Vec<u8>) {
    for (at, member) in members.iter().enumerate() {
        out.push(if at == 0 { b'(' } else { b',' });
        write(member, out);
    }
    out.push(b')');
}

fn polygon(rings: &[Vec<Coord>], out: &mut Vec<u8>) {
    list(rings, |ring, out| list(ring, coord, out), out);
}

fn point(at: &Coord, out: &mut Vec<u8>) {
    out.push(b'(');
    coord(at, out);
    out.push(b')');
}

fn coord(at: &Coord, out: &mut Vec<u8>) {
    write_f64(at.x, out);
    out.push(b' ');
    write_f64(at.y, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for (text, printed) in [
            ("point(1 2)", Some("POINT(1 2)")),
            (" Point ( 1. -.5 ) ", Some("POINT(1 -0.5)")),
            ("MULTIPOINT(1 2, 3 4)", Some("MULTIPOINT((1 2),(3 4))")),
            ("MULTIPOINT((1 2), 3 4)", None),
            ("POINT(1-2)", Some("POINT(1 -2)")),
            ("POINT(1.5.5)", Some("POINT(1.5 0.5)")),
            ("POINT(15e+1-3e0)", Some("POINT(150 -3)")),
            ("POINT(1e 3)", None),
            ("POINT(1 .)", None),
            ("POINT(1\u{b}2)", Some("POINT(1 2)")),
            ("GEOMCOLLECTION(POINT(1 2))", None),
            ("GEOMETRYCOLLECTION()", Some("GEOMETRYCOLLECTION EMPTY")),
            ("POLYGON((0 0,1 1,2 2))", None),
            ("POLYGON((0 0,1 1,2 2,0 1))", None),
            ("LINESTRING(1 1)", None),
            ("POINT EMPTY", None),
            ("POINT(1 2))", None),
            ("POINT(1e999 2)", None),
            ("", None),
        ] {
            let read = parse(text.as_bytes()).map(|geometry| {
                let mut out = Vec::new();
                write(&geometry, &mut out);
                String::from_utf8(out).unwrap()
            });
            assert_eq!(read.as_deref(), printed, "{text}");
        }
        let deep = "GEOMETRYCOLLECTION(".repeat(100_000);
        assert_eq!(parse(deep.as_bytes()), None);
    }
}
