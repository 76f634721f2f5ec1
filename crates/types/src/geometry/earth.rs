//! Distances on the earth: on a sphere, and on WGS 84's ellipsoid (Andoyer and Lambert's first-order formula, 1942, as
//! MySQL computes them).
//!
//! Neighbours: `func::spatial::measure`. **Invariant**: degrees, longitude first.

use super::Coord;

/// WGS 84: half of the greatest diameter, metres, and by how much it is flatter.
const MAJOR: f64 = 6_378_137.0;
const FLATTENING: f64 = 1.0 / 298.257_223_563;

/// A degree as WGS 84's definition has it, which is not quite the nearest double.
const DEGREE: f64 = 0.017_453_292_519_943_278;

/// The angle between two places on a sphere, by haversines.
pub fn angle(a: Coord, b: Coord) -> f64 {
    angle_of(a, b, 1f64.to_radians())
}

/// The same with degrees of WGS 84.
pub fn angle_wgs84(a: Coord, b: Coord) -> f64 {
    angle_of(a, b, DEGREE)
}

fn angle_of(a: Coord, b: Coord, degree: f64) -> f64 {
    let half = |x: f64| (x / 2.0).sin().powi(2);
    let (ax, ay) = (a.x * degree, a.y * degree);
    let (bx, by) = (b.x * degree, b.y * degree);
    let chord = half(by - ay) + ay.cos() * by.cos() * half(bx - ax);
    2.0 * chord.sqrt().min(1.0).asin()
}

/// Metres between two places on the ellipsoid.
pub fn distance(a: Coord, b: Coord) -> f64 {
    let turn = b.x.to_radians() - a.x.to_radians();
    let (sin_a, cos_a) = a.y.to_radians().sin_cos();
    let (sin_b, cos_b) = b.y.to_radians().sin_cos();
    let cos = (sin_a * sin_b + cos_a * cos_b * turn.cos()).clamp(-1.0, 1.0);
    let angle = cos.acos();
    let thrice = 3.0 * angle.sin();
    let ratio = |above: f64, below: f64| if below == 0.0 { 0.0 } else { above / below };
    let near = ratio(angle + thrice, 1.0 - cos) * (sin_a - sin_b).powi(2);
    let far = ratio(angle - thrice, 1.0 + cos) * (sin_a + sin_b).powi(2);
    MAJOR * (angle - FLATTENING / 4.0 * (near + far))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysqls_distances() {
        let at = |x, y| Coord { x, y };
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(near(distance(at(2., 1.), at(3., 1.)), 111_302.649_529_735));
        assert!(near(distance(at(0., 0.), at(1., 1.)), 156_897.799_472_608));
        assert!(near(distance(at(5., 5.), at(5., 5.)), 0.0));
    }
}
