//! Geohash: a place as the path through halves of the world, in base 32 (Niemeyer, 2008).
//!
//! Neighbours: `func::spatial`. **Invariant**: even bits halve the longitudes, odd ones the latitudes.

use super::Coord;

const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
const BITS_PER_DIGIT: u32 = 5;
const WORLD: [(f64, f64); 2] = [(-180.0, 180.0), (-90.0, 90.0)];

/// The hash of a place, of so many digits.
pub fn encode(at: Coord, length: usize) -> Vec<u8> {
    let mut left = WORLD;
    let mut out = Vec::with_capacity(length);
    let mut axis = 0;
    while out.len() < length {
        let mut digit = 0;
        for _ in 0..BITS_PER_DIGIT {
            let (low, high) = &mut left[axis];
            let middle = f64::midpoint(*low, *high);
            let value = if axis == 0 { at.x } else { at.y };
            let above = value >= middle;
            digit = digit << 1 | usize::from(above);
            *(if above { low } else { high }) = middle;
            axis = 1 - axis;
        }
        out.push(DIGITS[digit]);
    }
    out
}

/// The place that a hash means, with no more digits than it determines; `None` for other text.
pub fn decode(hash: &[u8]) -> Option<Coord> {
    let mut left = WORLD;
    let mut axis = 0;
    (!hash.is_empty()).then_some(())?;
    for byte in hash {
        let byte = byte.to_ascii_lowercase();
        let digit = DIGITS.iter().position(|d| *d == byte)?;
        for bit in (0..BITS_PER_DIGIT).rev() {
            let (low, high) = &mut left[axis];
            let middle = f64::midpoint(*low, *high);
            *(if digit >> bit & 1 == 1 { low } else { high }) = middle;
            axis = 1 - axis;
        }
    }
    let [x, y] = left;
    Some(Coord {
        x: rounded(x),
        y: rounded(y),
    })
}

/// The middle of a range, with as few decimals as leave it in the range.
fn rounded((low, high): (f64, f64)) -> f64 {
    const MOST_DECIMALS: i32 = 17;
    let middle = f64::midpoint(low, high);
    (0..MOST_DECIMALS)
        .map(|decimals| {
            let scale = 10f64.powi(decimals);
            (middle * scale).round_ties_even() / scale
        })
        .find(|short| (low..=high).contains(short))
        .unwrap_or(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_places() {
        let at = |x, y| Coord { x, y };
        assert_eq!(encode(at(180.0, 90.0), 10), b"zzzzzzzzzz");
        assert_eq!(encode(at(1.0, 2.0), 5), b"s02eq");
        assert_eq!(decode(b"u4pruydqqvj"), Some(at(10.40744, 57.64911)));
        assert_eq!(decode(b"3"), Some(at(-112.0, -22.0)));
        assert_eq!(decode(b"aa"), None);
        assert_eq!(decode(b""), None);
    }
}
