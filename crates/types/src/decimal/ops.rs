//! The four operations, remainder, rounding.
//!
//! Neighbours: `arith` and the aggregates call them; `wide` does the slow paths.
//! **Invariants**: results obey the capacity rule of `super` (surplus decimals are cut, surplus
//! integer digits overflow); 128-bit fast paths give exactly what the wide paths give.

use std::cmp::Ordering;

use super::wide::{self, POW10, Wide};
use super::{Decimal, DecimalOverflow, WORD_DIGITS, WORDS};

/// Most decimals of a product: MySQL's NOT_FIXED_DEC.
const MAX_PRODUCT_SCALE: u32 = 31;

/// Decimals rounded up to whole words.
fn word_up(digits: u32) -> u32 {
    digits.div_ceil(WORD_DIGITS) * WORD_DIGITS
}

impl Decimal {
    /// Builds from an intermediate, cutting decimals that the buffer has no room for.
    fn from_wide(neg: bool, mut w: Wide, mut scale: u32) -> Result<Self, DecimalOverflow> {
        let int_digits = wide::digits(&w).saturating_sub(scale);
        let int_words = int_digits.div_ceil(WORD_DIGITS);
        if int_words > WORDS {
            return Err(DecimalOverflow);
        }
        let room = (WORDS - int_words) * WORD_DIGITS;
        if scale > room {
            wide::div_pow10(&mut w, scale - room);
            scale = room;
        }
        let mut mag = [0; wide::LIMBS];
        mag.copy_from_slice(&w[..wide::LIMBS]);
        assert!(
            wide::is_zero(&w[wide::LIMBS..]),
            "81 digits fit a magnitude"
        );
        Ok(Self {
            mag,
            scale: scale as u8,
            neg: neg && !wide::is_zero(&mag),
        })
    }

    /// Sum.
    #[inline]
    pub fn add(&self, other: &Self) -> Result<Self, DecimalOverflow> {
        self.add_signed(other, other.neg)
    }

    /// Difference.
    #[inline]
    pub fn sub(&self, other: &Self) -> Result<Self, DecimalOverflow> {
        self.add_signed(other, !other.neg)
    }

    #[inline]
    fn add_signed(&self, other: &Self, other_neg: bool) -> Result<Self, DecimalOverflow> {
        if let Some(sum) = self.add_small(other, other_neg) {
            return Ok(sum);
        }
        let scale = self.scale.max(other.scale);
        let (mut a, mut b) = (self.widened(scale), other.widened(scale));
        if self.neg == other_neg {
            wide::add(&mut a, &b);
            return Self::from_wide(self.neg, a, u32::from(scale));
        }
        match wide::cmp(&a, &b) {
            Ordering::Less => {
                wide::sub(&mut b, &a);
                Self::from_wide(other_neg, b, u32::from(scale))
            }
            _ => {
                wide::sub(&mut a, &b);
                Self::from_wide(self.neg, a, u32::from(scale))
            }
        }
    }

    /// Both in 126 bits (37 digits) after scaling: no carry, no cut, no overflow possible.
    #[inline]
    fn add_small(&self, other: &Self, other_neg: bool) -> Option<Self> {
        let (mut a, mut b) = (wide::small(&self.mag)?, wide::small(&other.mag)?);
        let scale = self.scale.max(other.scale);
        if scale > self.scale {
            a = wide::mul_small(a, *POW10.get(usize::from(scale - self.scale))?)?;
        }
        if scale > other.scale {
            b = wide::mul_small(b, *POW10.get(usize::from(scale - other.scale))?)?;
        }
        if scale > super::MAX_SCALE || (a | b) >> 126 != 0 {
            return None;
        }
        let (neg, mag) = if self.neg == other_neg {
            (self.neg, a + b)
        } else if a >= b {
            (self.neg, a - b)
        } else {
            (other_neg, b - a)
        };
        Some(Self::from_parts(neg, mag, scale))
    }

    /// Product.
    #[inline]
    pub fn mul(&self, other: &Self) -> Result<Self, DecimalOverflow> {
        let neg = self.neg != other.neg;
        let scale = u32::from(self.scale) + u32::from(other.scale);
        if let (Some(a), Some(b)) = (wide::small(&self.mag), wide::small(&other.mag))
            && let Some(p) = wide::mul_small(a, b)
            && scale <= u32::from(super::MAX_SCALE)
        {
            return Ok(Self::from_parts(neg, p, scale as u8));
        }
        let mut product = wide::mul(&self.mag, &other.mag);
        let mut kept = scale;
        if scale > MAX_PRODUCT_SCALE {
            kept = MAX_PRODUCT_SCALE;
            wide::div_pow10(&mut product, scale - kept);
        }
        Self::from_wide(neg, product, kept)
    }

    /// Quotient with at least `scale_increment` more decimals than the operands, cut at a word
    /// border as MySQL does (the caller rounds to the scale of the result's type). `Ok(None)` for
    /// a zero divisor.
    pub fn div(&self, other: &Self, scale_increment: u8) -> Result<Option<Self>, DecimalOverflow> {
        if other.is_zero() {
            return Ok(None);
        }
        let (f1, f2) = (u32::from(self.scale), u32::from(other.scale));
        let (w1, w2) = (word_up(f1), word_up(f2));
        let padding = (w1 - f1) + (w2 - f2);
        let increment = u32::from(scale_increment).saturating_sub(padding);
        let scale = word_up(w1 + w2 + increment);
        let int_digits = self.int_digits() + f2;
        let scale = scale
            .min(WORDS * WORD_DIGITS)
            .min(2 * WORDS * WORD_DIGITS - int_digits);
        // quotient = mag1 * 10^(scale - f1 + f2) / mag2; the power is never negative because
        // scale >= f1 unless the buffer is full of decimals, where the operand is cut first.
        let up = (scale + f2).saturating_sub(f1);
        let mut n = wide::widen(&self.mag);
        if f1 > scale + f2 {
            wide::div_pow10(&mut n, f1 - scale - f2);
        }
        if let (Some(a), Some(b)) = (wide::small(&self.mag), wide::small(&other.mag))
            && let Some(a) = POW10.get(up as usize).and_then(|p| a.checked_mul(*p))
            && f1 <= scale + f2
        {
            let q = wide::widen(&wide::from_u128(a / b));
            return Self::from_wide(self.neg != other.neg, q, scale).map(Some);
        }
        if wide::mul_pow10(&mut n, up) {
            return Err(DecimalOverflow);
        }
        let (q, _) = wide::div_rem(&n, &wide::widen(&other.mag));
        Self::from_wide(self.neg != other.neg, q, scale).map(Some)
    }

    /// Remainder with the dividend's sign; `Ok(None)` for a zero divisor.
    pub fn rem(&self, other: &Self) -> Result<Option<Self>, DecimalOverflow> {
        if other.is_zero() {
            return Ok(None);
        }
        let scale = self.scale.max(other.scale);
        let (_, r) = wide::div_rem(&self.widened(scale), &other.widened(scale));
        Self::from_wide(self.neg, r, u32::from(scale)).map(Some)
    }

    /// Integer part of the quotient; `Ok(None)` for a zero divisor.
    pub fn div_int(&self, other: &Self) -> Result<Option<Self>, DecimalOverflow> {
        if other.is_zero() {
            return Ok(None);
        }
        let scale = self.scale.max(other.scale);
        let (q, _) = wide::div_rem(&self.widened(scale), &other.widened(scale));
        Self::from_wide(self.neg != other.neg, q, 0).map(Some)
    }

    /// Exactly `scale` decimals, rounded half away from zero or padded with zeros.
    ///
    /// `Err` when padding does not fit the buffer or rounding carries out of it.
    pub fn round(&self, scale: u8) -> Result<Self, DecimalOverflow> {
        self.rescale(scale, true)
    }

    /// Exactly `scale` decimals, surplus ones dropped.
    pub fn truncate(&self, scale: u8) -> Result<Self, DecimalOverflow> {
        self.rescale(scale, false)
    }

    #[inline]
    fn rescale(&self, scale: u8, round: bool) -> Result<Self, DecimalOverflow> {
        match scale.cmp(&self.scale) {
            Ordering::Equal => Ok(*self),
            Ordering::Greater => {
                if let Some(m) = wide::small(&self.mag)
                    && let Some(m) = POW10
                        .get(usize::from(scale - self.scale))
                        .and_then(|p| m.checked_mul(*p))
                    && scale <= super::MAX_SCALE
                {
                    return Ok(Self::from_parts(self.neg, m, scale));
                }
                let out = Self::from_wide(self.neg, self.widened(scale), u32::from(scale))?;
                if out.scale == scale {
                    Ok(out)
                } else {
                    Err(DecimalOverflow)
                }
            }
            Ordering::Less => {
                let drop = u32::from(self.scale - scale);
                if let Some(m) = wide::small(&self.mag) {
                    let m = match POW10.get(drop as usize) {
                        Some(p) => m / p + u128::from(round && m % p >= p / 2),
                        None => 0,
                    };
                    return Ok(Self::from_parts(self.neg, m, scale));
                }
                let mut w = wide::widen(&self.mag);
                let (top, _) = wide::div_pow10(&mut w, drop);
                if round && top >= 5 {
                    wide::add_limb(&mut w, 1);
                }
                Self::from_wide(self.neg, w, u32::from(scale))
            }
        }
    }

    /// ROUND(x, -`zeros`) or TRUNCATE: that many digits before the point become 0; scale 0.
    pub fn round_tens(&self, zeros: u32, round: bool) -> Result<Self, DecimalOverflow> {
        let drop = u32::from(self.scale).saturating_add(zeros);
        if drop > 2 * WORDS * WORD_DIGITS {
            return Ok(Self::ZERO);
        }
        let mut w = wide::widen(&self.mag);
        let (top, _) = if drop == 0 {
            (0, false)
        } else {
            wide::div_pow10(&mut w, drop)
        };
        if round && top >= 5 {
            wide::add_limb(&mut w, 1);
        }
        if wide::mul_pow10(&mut w, zeros) && !wide::is_zero(&w) {
            return Err(DecimalOverflow);
        }
        Self::from_wide(self.neg, w, 0)
    }

    /// Smallest integer not below.
    pub fn ceil(&self) -> Result<Self, DecimalOverflow> {
        self.step(!self.neg)
    }

    /// Largest integer not above.
    pub fn floor(&self) -> Result<Self, DecimalOverflow> {
        self.step(self.neg)
    }

    /// Integer part, one further from zero when `away` and there is a fraction.
    fn step(&self, away: bool) -> Result<Self, DecimalOverflow> {
        let mut w = wide::widen(&self.mag);
        let (_, lost) = wide::div_pow10(&mut w, u32::from(self.scale));
        if lost && away {
            wide::add_limb(&mut w, 1);
        }
        Self::from_wide(self.neg, w, 0)
    }
}
