//! Well-known binary, and MySQL's format around it: SRID (u32, little endian), then WKB in little endian.
//!
//! ```text
//! order u8 | type u32 | a point: x, y; else: count u32, members
//! ```
//! Neighbours: `cast` and `func::spatial` read what clients send. **Invariant**: a count reserves no memory beyond
//! what the bytes behind it can fill.

use super::{Coord, Geometry, MAX_DEPTH, Shape, Spatial, is_line, is_ring};

const BIG_ENDIAN: u8 = 0;
const LITTLE_ENDIAN: u8 = 1;
const SRID_BYTES: usize = 4;
const COORD_BYTES: usize = 16;
/// Bytes of the smallest member with a head of its own: an empty collection.
const MEMBER_BYTES: usize = 9;
/// Bytes of the smallest ring: its count.
const RING_BYTES: usize = 4;

impl Spatial {
    /// Reads the bytes of a value; `None` if they are no geometry.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (srid, wkb) = bytes.split_first_chunk::<SRID_BYTES>()?;
        Some(Self {
            srid: u32::from_le_bytes(*srid),
            geometry: parse(wkb, false)?,
        })
    }

    /// The bytes of a value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.srid.to_le_bytes().to_vec();
        write(&self.geometry, &mut out);
        out
    }
}

/// Reads WKB, in either byte order if `any_order`; nothing may be behind it.
pub fn parse(bytes: &[u8], any_order: bool) -> Option<Geometry> {
    let mut reader = Reader {
        rest: bytes,
        any_order,
        is_big: false,
    };
    let geometry = reader.geometry(0)?;
    reader.rest.is_empty().then_some(geometry)
}

struct Reader<'a> {
    rest: &'a [u8],
    any_order: bool,
    is_big: bool,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    fn word(&mut self) -> Option<u32> {
        let bytes = self.array()?;
        Some(match self.is_big {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    }

    fn double(&mut self) -> Option<f64> {
        let bytes = self.array()?;
        Some(match self.is_big {
            true => f64::from_be_bytes(bytes),
            false => f64::from_le_bytes(bytes),
        })
    }

    fn coord(&mut self) -> Option<Coord> {
        Some(Coord {
            x: self.double()?,
            y: self.double()?,
        })
    }

    /// A count of members that take `least` bytes each.
    fn count(&mut self, least: usize) -> Option<usize> {
        let count = usize::try_from(self.word()?).ok()?;
        (count <= self.rest.len() / least).then_some(count)
    }

    fn coords(&mut self) -> Option<Vec<Coord>> {
        let count = self.count(COORD_BYTES)?;
        (0..count).map(|_| self.coord()).collect()
    }

    fn line(&mut self) -> Option<Vec<Coord>> {
        self.coords().filter(|points| is_line(points))
    }

    fn rings(&mut self) -> Option<Vec<Vec<Coord>>> {
        let count = self.count(RING_BYTES)?;
        let ring = |reader: &mut Self| reader.coords().filter(|points| is_ring(points));
        (count > 0).then_some(())?;
        (0..count).map(|_| ring(self)).collect()
    }

    fn head(&mut self) -> Option<Shape> {
        let [order] = self.array()?;
        self.is_big = match order {
            LITTLE_ENDIAN => false,
            BIG_ENDIAN if self.any_order => true,
            _ => return None,
        };
        Shape::of_code(u8::try_from(self.word()?).ok()?)
    }

    /// Members of one shape, each with its head.
    fn members<T>(
        &mut self,
        shape: Shape,
        read: impl Fn(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.count(MEMBER_BYTES)?;
        (count > 0).then_some(())?;
        let member = |reader: &mut Self| (reader.head()? == shape).then(|| read(reader))?;
        (0..count).map(|_| member(self)).collect()
    }

    fn geometry(&mut self, depth: usize) -> Option<Geometry> {
        Some(match self.head()? {
            Shape::Geometry => return None,
            Shape::Point => Geometry::Point(self.coord()?),
            Shape::LineString => Geometry::LineString(self.line()?),
            Shape::Polygon => Geometry::Polygon(self.rings()?),
            Shape::MultiPoint => Geometry::MultiPoint(self.members(Shape::Point, Self::coord)?),
            Shape::MultiLineString => {
                Geometry::MultiLineString(self.members(Shape::LineString, Self::line)?)
            }
            Shape::MultiPolygon => {
                Geometry::MultiPolygon(self.members(Shape::Polygon, Self::rings)?)
            }
            Shape::Collection => {
                (depth < MAX_DEPTH).then_some(())?;
                let count = self.count(MEMBER_BYTES)?;
                let members = (0..count).map(|_| self.geometry(depth + 1));
                Geometry::Collection(members.collect::<Option<_>>()?)
            }
        })
    }
}

/// Appends WKB in little endian.
pub fn write(geometry: &Geometry, out: &mut Vec<u8>) {
    head(geometry.shape(), out);
    match geometry {
        Geometry::Point(at) => coord(*at, out),
        Geometry::LineString(line) => coords(line, out),
        Geometry::Polygon(rings) => polygon(rings, out),
        Geometry::MultiPoint(points) => {
            count(points.len(), out);
            for at in points {
                head(Shape::Point, out);
                coord(*at, out);
            }
        }
        Geometry::MultiLineString(lines) => {
            count(lines.len(), out);
            for line in lines {
                head(Shape::LineString, out);
                coords(line, out);
            }
        }
        Geometry::MultiPolygon(polygons) => {
            count(polygons.len(), out);
            for rings in polygons {
                head(Shape::Polygon, out);
                polygon(rings, out);
            }
        }
        Geometry::Collection(items) => {
            count(items.len(), out);
            items.iter().for_each(|item| write(item, out));
        }
    }
}

fn head(shape: Shape, out: &mut Vec<u8>) {
    out.push(LITTLE_ENDIAN);
    out.extend_from_slice(&u32::from(shape.code()).to_le_bytes());
}

fn count(members: usize, out: &mut Vec<u8>) {
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    out.extend_from_slice(&members.to_le_bytes());
}

fn coord(at: Coord, out: &mut Vec<u8>) {
    out.extend_from_slice(&at.x.to_le_bytes());
    out.extend_from_slice(&at.y.to_le_bytes());
}

fn coords(points: &[Coord], out: &mut Vec<u8>) {
    count(points.len(), out);
    points.iter().for_each(|at| coord(*at, out));
}

fn polygon(rings: &[Vec<Coord>], out: &mut Vec<u8>) {
    count(rings.len(), out);
    rings.iter().for_each(|ring| coords(ring, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..depth {
            head(Shape::Collection, &mut bytes);
            count(1, &mut bytes);
        }
        head(Shape::Point, &mut bytes);
        coord(Coord { x: 1.0, y: 2.0 }, &mut bytes);
        bytes
    }

    #[test]
    fn every_prefix_and_every_changed_byte_is_refused_or_read() {
        for depth in [0, 1, 3] {
            let bytes = nested(depth);
            let whole = parse(&bytes, true).unwrap();
            let mut again = Vec::new();
            write(&whole, &mut again);
            assert_eq!(again, bytes);
            for end in 0..bytes.len() {
                assert_eq!(parse(&bytes[..end], true), None);
            }
            for at in 0..bytes.len() {
                for value in [0, 1, 2, 3, 7, 0x7f, 0xff] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let _ = parse(&changed, true);
                }
            }
        }
    }

    #[test]
    fn nesting_and_counts_are_bounded() {
        assert!(parse(&nested(MAX_DEPTH), false).is_some());
        assert!(parse(&nested(MAX_DEPTH + 1), false).is_none());
        assert!(parse(&nested(100_000), false).is_none());
        let mut bytes = Vec::new();
        head(Shape::MultiPoint, &mut bytes);
        count(usize::MAX, &mut bytes);
        assert!(parse(&bytes, false).is_none());
    }
}
