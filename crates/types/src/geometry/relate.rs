//! Relations of bounding rectangles, as the dimensionally extended nine-intersection model defines them.
//!
//! Neighbours: `func::spatial` (MBRContains and its kin). **Invariant**: the interior of a side without length is its
//! point.

use super::measure::Rect;

/// A relation of two rectangles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as MySQL's functions")]
pub enum Relation {
    Contains,
    CoveredBy,
    Covers,
    Disjoint,
    Equals,
    Intersects,
    Overlaps,
    Touches,
    Within,
}

/// The sides of both along one axis.
#[derive(Clone, Copy)]
struct Sides {
    a: (f64, f64),
    b: (f64, f64),
}

impl Sides {
    fn meet(self) -> bool {
        self.a.0 <= self.b.1 && self.b.0 <= self.a.1
    }

    fn interiors_meet(self) -> bool {
        let (low, high) = (self.a.0.max(self.b.0), self.a.1.min(self.b.1));
        match (self.a.0 == self.a.1, self.b.0 == self.b.1) {
            (true, true) => self.a.0 == self.b.0,
            (true, false) => self.b.0 < self.a.0 && self.a.0 < self.b.1,
            (false, true) => self.a.0 < self.b.0 && self.b.0 < self.a.1,
            (false, false) => low < high,
        }
    }

    fn a_covers_b(self) -> bool {
        self.a.0 <= self.b.0 && self.b.1 <= self.a.1
    }
}

/// Are the rectangles in the relation?
pub fn holds(relation: Relation, a: &Rect, b: &Rect) -> bool {
    let x = Sides {
        a: (a.low.x, a.high.x),
        b: (b.low.x, b.high.x),
    };
    let y = Sides {
        a: (a.low.y, a.high.y),
        b: (b.low.y, b.high.y),
    };
    let meet = x.meet() && y.meet();
    let inside = x.interiors_meet() && y.interiors_meet();
    let covers = x.a_covers_b() && y.a_covers_b();
    let covered = || holds(Relation::Covers, b, a);
    match relation {
        Relation::Contains => covers && inside,
        Relation::Within => covered() && inside,
        Relation::Covers => covers,
        Relation::CoveredBy => covered(),
        Relation::Disjoint => !meet,
        Relation::Intersects => meet,
        Relation::Equals => a == b,
        Relation::Touches => meet && !inside,
        Relation::Overlaps => inside && !covers && !covered(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Coord;

    #[test]
    fn points_on_a_border_are_covered_and_not_contained() {
        let rect = |x0, y0, x1, y1| Rect {
            low: Coord { x: x0, y: y0 },
            high: Coord { x: x1, y: y1 },
        };
        let (square, corner) = (rect(0., 0., 10., 10.), rect(0., 0., 0., 0.));
        assert!(!holds(Relation::Contains, &square, &corner));
        assert!(holds(Relation::Covers, &square, &corner));
        assert!(holds(Relation::Touches, &square, &corner));
        assert!(holds(Relation::CoveredBy, &corner, &square));
        let beside = rect(5., 5., 15., 15.);
        assert!(holds(Relation::Overlaps, &square, &beside));
        assert!(!holds(Relation::Overlaps, &square, &rect(1., 1., 2., 2.)));
        assert!(holds(Relation::Disjoint, &square, &rect(11., 0., 12., 1.)));
    }
}
