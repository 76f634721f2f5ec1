//! DECIMAL: exact numbers of up to 65 digits, 30 of them decimals.
//!
//! In flow order: `parse` (text to number), `wide` (fixed width integers), `ops` (the four operations, rounding),
//! `convert` (integers, doubles, text), `key` (order-preserving bytes), `binary` (MySQL's bytes). Neighbours: `arith`
//! decides precisions and scales, `cast` warns, the row codec stores `key`s.
//!
//! **Invariants**: the value is `mag / 10^scale`, negative when `neg`; zero is never negative;
//! digits before the point, rounded up to nines, plus `scale`, rounded up to nines, never exceed
//! 81 (nine words of MySQL's buffer: results that MySQL can hold are held, others overflow). Two
//! numbers are equal when their values are, whatever their scales.

mod binary;
mod convert;
mod key;
mod ops;
mod parse;
#[cfg(test)]
mod tests;
mod wide;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

pub(crate) use parse::is_space;
pub use parse::{ParseStatus, numeric_prefix_len};
use wide::{Mag, POW10};

/// Most digits of a DECIMAL column.
pub const MAX_PRECISION: u32 = 65;
/// Integers up to here are doubles without loss.
pub const EXACT_IN_DOUBLE: u64 = 1 << 53;
/// Most decimals of a DECIMAL column.
pub const MAX_SCALE: u8 = 30;
/// Digits in one word of MySQL's representation, which decides where intermediates are cut.
const WORD_DIGITS: u32 = 9;
/// Words in MySQL's buffer.
const WORDS: u32 = 9;
/// Most digits of an intermediate result.
pub const MAX_DIGITS: u32 = WORDS * WORD_DIGITS;

/// An exact decimal number.
#[derive(Clone, Copy)]
pub struct Decimal {
    mag: Mag,
    scale: u8,
    neg: bool,
}

/// The result does not fit (MySQL's error 1690 or a clamped value, as the caller decides).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecimalOverflow;

impl Decimal {
    /// 0
    pub const ZERO: Self = Self {
        mag: [0; wide::LIMBS],
        scale: 0,
        neg: false,
    };

    #[inline]
    fn from_parts(neg: bool, mag: u128, scale: u8) -> Self {
        Self {
            mag: wide::from_u128(mag),
            scale,
            neg: neg && mag != 0,
        }
    }

    /// Decimals kept.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Is it zero?
    pub fn is_zero(&self) -> bool {
        wide::is_zero(&self.mag)
    }

    /// Is it below zero?
    pub fn is_negative(&self) -> bool {
        self.neg
    }

    /// Digits before the point (0 for a pure fraction).
    pub fn int_digits(&self) -> u32 {
        wide::digits(&self.mag).saturating_sub(u32::from(self.scale))
    }

    /// Digits in all, as the DECIMAL type that just holds it would say.
    pub fn precision(&self) -> u32 {
        (self.int_digits() + u32::from(self.scale)).max(1)
    }

    /// Does it fit DECIMAL(`precision`, `scale`) without rounding?
    pub fn fits(&self, precision: u32, scale: u8) -> bool {
        self.scale <= scale && self.int_digits() + u32::from(scale) <= precision
    }

    /// The largest number of DECIMAL(`precision`, `scale`), or the smallest.
    pub fn max_for(precision: u32, scale: u8, negative: bool) -> Self {
        debug_assert!(precision <= MAX_DIGITS && u32::from(scale) <= precision);
        let mut mag = wide::from_u128(1);
        let over = wide::mul_pow10(&mut mag, precision);
        debug_assert!(!over);
        let mut w = wide::widen(&mag);
        wide::sub(&mut w, &wide::widen(&wide::from_u128(1)));
        mag.copy_from_slice(&w[..wide::LIMBS]);
        Self {
            mag,
            scale,
            neg: negative && precision > 0,
        }
    }

    /// The same number with the sign flipped.
    #[must_use]
    pub fn negate(self) -> Self {
        Self {
            neg: !self.neg && !self.is_zero(),
            ..self
        }
    }

    /// Absolute value.
    #[must_use]
    pub fn abs(self) -> Self {
        Self { neg: false, ..self }
    }

    fn cmp_mag(&self, other: &Self) -> Ordering {
        if let (Some(a), Some(b)) = (wide::small(&self.mag), wide::small(&other.mag)) {
            if self.scale == other.scale {
                return a.cmp(&b);
            }
            let (x, y, up) = if self.scale < other.scale {
                (a, b, other.scale - self.scale)
            } else {
                (b, a, self.scale - other.scale)
            };
            if let Some(x) = POW10.get(usize::from(up)).and_then(|p| x.checked_mul(*p)) {
                return if self.scale < other.scale {
                    x.cmp(&y)
                } else {
                    y.cmp(&x)
                };
            }
        }
        let scale = self.scale.max(other.scale);
        wide::cmp(&self.widened(scale), &other.widened(scale))
    }

    /// The magnitude at a larger scale; at most 81 more digits, which an intermediate has room for.
    fn widened(&self, scale: u8) -> wide::Wide {
        let mut w = wide::widen(&self.mag);
        let over = wide::mul_pow10(&mut w, u32::from(scale - self.scale));
        debug_assert!(!over);
        w
    }

    /// Without trailing zeros after the point.
    #[must_use]
    pub fn normalized(self) -> Self {
        let mut out = self;
        while out.scale > 0 {
            let mut mag = out.mag;
            if wide::div_limb(&mut mag, 10) != 0 {
                break;
            }
            out = Self {
                mag,
                scale: out.scale - 1,
                ..out
            };
        }
        out
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.neg, other.neg) {
            (false, false) => self.cmp_mag(other),
            (true, true) => other.cmp_mag(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl Decimal {
    /// A number that is equal for equal decimals; not stable between versions.
    pub fn hash64(&self) -> u64 {
        let n = self.normalized();
        let start = u64::from(n.scale) << 1 | u64::from(n.neg);
        n.mag.iter().fold(start, |h, l| {
            (h.rotate_left(23) ^ u64::from(*l)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let n = self.normalized();
        (n.mag, n.scale, n.neg).hash(state);
    }
}

impl Default for Decimal {
    fn default() -> Self {
        Self::ZERO
    }
}
