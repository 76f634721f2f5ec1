//! Geometries: points, lines, polygons and collections of them, as OGC's simple features have them.
//!
//! In flow order: `wkb` and `wkt` (read and written), `geojson`, `geohash`, `srs` (spatial reference systems),
//! `measure` (envelope, length, area, centroid, distance), `earth` (distances on it), `relate` (bounding rectangles),
//! `matrix` (how shapes meet), `valid`, `outline` (hull, simplified lines).
//! Neighbours: `func::spatial` are the SQL functions; `cast` checks what a column is given.
//! **Invariants**: a line has two points or more; a ring has four or more and ends where it begins; only a collection
//! is empty; collections nest to [`MAX_DEPTH`].

pub mod earth;
pub mod geohash;
pub mod geojson;
pub mod matrix;
pub mod measure;
pub mod outline;
pub mod relate;
pub mod srs;
pub mod valid;
pub mod wkb;
pub mod wkt;

/// Deepest nesting of collections.
pub const MAX_DEPTH: usize = 64;

/// Fewest points of a line and of a ring.
const LINE_POINTS: usize = 2;
const RING_POINTS: usize = 4;

/// What a geometry is, and what a column takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Any of them.
    Geometry,
    /// One point.
    Point,
    /// A line of several points.
    LineString,
    /// A ring, and rings in it.
    Polygon,
    /// Points.
    MultiPoint,
    /// Lines.
    MultiLineString,
    /// Polygons.
    MultiPolygon,
    /// Anything.
    Collection,
}

impl Shape {
    /// May a column of this shape have that geometry? The MULTI shapes are collections, too.
    pub fn holds(self, other: Shape) -> bool {
        match self {
            Shape::Geometry => true,
            Shape::Collection => matches!(
                other,
                Shape::Collection
                    | Shape::MultiPoint
                    | Shape::MultiLineString
                    | Shape::MultiPolygon
            ),
            _ => self == other,
        }
    }
}

const SHAPES: [(Shape, &str); 8] = [
    (Shape::Geometry, "geometry"),
    (Shape::Point, "point"),
    (Shape::LineString, "linestring"),
    (Shape::Polygon, "polygon"),
    (Shape::MultiPoint, "multipoint"),
    (Shape::MultiLineString, "multilinestring"),
    (Shape::MultiPolygon, "multipolygon"),
    (Shape::Collection, "geomcollection"),
];

impl Shape {
    /// Its number in WKB and in the binary log.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The shape of a number.
    pub fn of_code(code: u8) -> Option<Self> {
        SHAPES.get(usize::from(code)).map(|(shape, _)| *shape)
    }

    /// MySQL's name of the type, in lower case.
    pub fn name(self) -> &'static str {
        SHAPES[usize::from(self.code())].1
    }

    /// The same in upper case, as messages and ST_GeometryType have it.
    pub fn title(self) -> String {
        self.name().to_ascii_uppercase()
    }
}

/// The type of a geometry column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GeometryType {
    /// What it takes.
    pub shape: Shape,
    /// The only SRID that it takes.
    pub srid: Option<u32>,
}

impl GeometryType {
    /// Of any SRID.
    pub fn of(shape: Shape) -> Self {
        Self { shape, srid: None }
    }
}

/// A place in the plane; of geographic systems `x` is the longitude.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Coord {
    pub x: f64,
    pub y: f64,
}

/// A geometry without its SRID.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "as in Shape")]
pub enum Geometry {
    Point(Coord),
    LineString(Vec<Coord>),
    Polygon(Vec<Vec<Coord>>),
    MultiPoint(Vec<Coord>),
    MultiLineString(Vec<Vec<Coord>>),
    MultiPolygon(Vec<Vec<Vec<Coord>>>),
    Collection(Vec<Geometry>),
}

impl Geometry {
    /// What it is.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Point(_) => Shape::Point,
            Self::LineString(_) => Shape::LineString,
            Self::Polygon(_) => Shape::Polygon,
            Self::MultiPoint(_) => Shape::MultiPoint,
            Self::MultiLineString(_) => Shape::MultiLineString,
            Self::MultiPolygon(_) => Shape::MultiPolygon,
            Self::Collection(_) => Shape::Collection,
        }
    }

    /// Has it no points?
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Collection(items) => items.iter().all(Self::is_empty),
            _ => false,
        }
    }

    /// 0 of points, 1 of lines, 2 of areas; the greatest of a collection; `None` of nothing.
    pub fn dimension(&self) -> Option<u8> {
        match self {
            Self::Point(_) | Self::MultiPoint(_) => Some(0),
            Self::LineString(_) | Self::MultiLineString(_) => Some(1),
            Self::Polygon(_) | Self::MultiPolygon(_) => Some(2),
            Self::Collection(items) => items.iter().filter_map(Self::dimension).max(),
        }
    }

    /// Shows every point, in order.
    pub fn each_coord(&self, see: &mut impl FnMut(Coord)) {
        match self {
            Self::Point(at) => see(*at),
            Self::LineString(line) | Self::MultiPoint(line) => line.iter().for_each(|at| see(*at)),
            Self::Polygon(rings) | Self::MultiLineString(rings) => {
                rings.iter().flatten().for_each(|at| see(*at));
            }
            Self::MultiPolygon(all) => all.iter().flatten().flatten().for_each(|at| see(*at)),
            Self::Collection(items) => items.iter().for_each(|item| item.each_coord(see)),
        }
    }

    /// Changes every point, in order.
    pub fn change_coords(&mut self, change: &mut impl FnMut(&mut Coord)) {
        match self {
            Self::Point(at) => change(at),
            Self::LineString(line) | Self::MultiPoint(line) => line.iter_mut().for_each(change),
            Self::Polygon(rings) | Self::MultiLineString(rings) => {
                rings.iter_mut().flatten().for_each(change);
            }
            Self::MultiPolygon(all) => all.iter_mut().flatten().flatten().for_each(change),
            Self::Collection(items) => {
                for item in items {
                    item.change_coords(change);
                }
            }
        }
    }

    /// With the other coordinate first.
    pub fn swapped(mut self) -> Self {
        self.change_coords(&mut |at| std::mem::swap(&mut at.x, &mut at.y));
        self
    }
}

/// Is it a line?
fn is_line(points: &[Coord]) -> bool {
    points.len() >= LINE_POINTS
}

/// Is it a closed ring?
pub fn is_ring(points: &[Coord]) -> bool {
    points.len() >= RING_POINTS && points.first() == points.last()
}

/// A geometry as values have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Spatial {
    /// Its spatial reference system.
    pub srid: u32,
    /// Its points.
    pub geometry: Geometry,
}
