//! DECIMAL from and to integers, doubles and text.
//!
//! Neighbours: `cast` (conversions with warnings), the wire layer (text).
//! **Invariants**: text has exactly `scale` decimals and a digit before the point; conversions to
//! integers round half away from zero and clamp; conversion to a double is correctly rounded.

use std::fmt;

use super::wide::{self, POW10};
use super::{Decimal, EXACT_IN_DOUBLE, WORD_DIGITS};

/// Longest text: sign, 81 digits, a zero before and the point.
const MAX_TEXT: usize = 96;

/// A number as text on the stack.
struct Text {
    bytes: [u8; MAX_TEXT],
    start: usize,
}

impl Text {
    fn push(&mut self, b: u8) {
        self.start -= 1;
        self.bytes[self.start] = b;
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl From<i64> for Decimal {
    fn from(v: i64) -> Self {
        Self::from_parts(v < 0, u128::from(v.unsigned_abs()), 0)
    }
}

impl From<u64> for Decimal {
    fn from(v: u64) -> Self {
        Self::from_parts(false, u128::from(v), 0)
    }
}

impl Decimal {
    /// From a signed integer.
    pub fn from_i64(v: i64) -> Self {
        Self::from(v)
    }

    /// From an unsigned integer.
    pub fn from_u64(v: u64) -> Self {
        Self::from(v)
    }

    /// From a wide integer (sums of BIGINT) with `scale` decimals (at most 30).
    pub fn from_i128(v: i128, scale: u8) -> Self {
        assert!(scale <= super::MAX_SCALE);
        Self::from_parts(v < 0, v.unsigned_abs(), scale)
    }

    /// The number times `10^scale`, when that fits 128 bits.
    pub fn unscaled_i128(&self) -> Option<i128> {
        let mag = i128::try_from(wide::small(&self.mag)?).ok()?;
        Some(if self.neg { -mag } else { mag })
    }

    /// From a double, through its shortest text, as MySQL does. Not finite or too large: clamped,
    /// and true.
    pub fn from_f64(v: f64) -> (Self, bool) {
        if !v.is_finite() {
            let max = Self::max_for(super::MAX_PRECISION, 0, v.is_sign_negative());
            return (if v.is_nan() { Self::ZERO } else { max }, true);
        }
        let mut text = smallvec::SmallVec::<[u8; 32]>::new();
        use std::io::Write;
        // Writing to a SmallVec cannot fail.
        let _ = write!(text, "{v:e}");
        let (d, status) = Self::parse(&text);
        (d, status == super::ParseStatus::Overflow)
    }

    /// Rounded to an integer's magnitude; `None` beyond 128 bits.
    fn rounded_mag(&self) -> Option<u128> {
        if let Some(m) = wide::small(&self.mag) {
            return Some(match POW10.get(usize::from(self.scale)) {
                Some(p) if self.scale > 0 => m / p + u128::from(m % p >= p / 2),
                Some(_) => m,
                None => 0,
            });
        }
        wide::small(&self.round(0).ok()?.mag)
    }

    /// Rounded to a signed integer; clamped and true when out of range.
    pub fn to_i64(&self) -> (i64, bool) {
        let limit = if self.neg {
            1u128 << 63
        } else {
            (1u128 << 63) - 1
        };
        match self.rounded_mag() {
            Some(m) if m <= limit => (
                (m as u64).wrapping_mul(if self.neg { u64::MAX } else { 1 }) as i64,
                false,
            ),
            _ => (if self.neg { i64::MIN } else { i64::MAX }, true),
        }
    }

    /// Rounded to an unsigned integer; clamped and true when out of range (negative gives 0).
    pub fn to_u64(&self) -> (u64, bool) {
        match self.rounded_mag() {
            Some(0) => (0, false),
            _ if self.neg => (0, true),
            Some(m) if m <= u128::from(u64::MAX) => (m as u64, false),
            _ => (u64::MAX, true),
        }
    }

    /// The nearest double.
    pub fn to_f64(&self) -> f64 {
        // Powers of ten up to `10^22` are exact doubles, too, so one division rounds correctly.
        if let Some(m) = wide::small(&self.mag)
            && m <= u128::from(EXACT_IN_DOUBLE)
            && self.scale <= 22
        {
            let v = m as f64 / POW10[usize::from(self.scale)] as f64;
            return if self.neg { -v } else { v };
        }
        let text = self.text();
        std::str::from_utf8(text.as_bytes())
            .ok()
            .and_then(|t| t.parse().ok())
            .expect("a decimal's text is a number")
    }

    fn text(&self) -> Text {
        let mut t = Text {
            bytes: [0; MAX_TEXT],
            start: MAX_TEXT,
        };
        let mut written = 0u32;
        let scale = u32::from(self.scale);
        let mut digit = |t: &mut Text, d: u8| {
            if written == scale && scale > 0 {
                t.push(b'.');
            }
            t.push(b'0' + d);
            written += 1;
        };
        let mut mag = self.mag;
        while wide::used(&mag) > 4 {
            let mut nine = wide::div_limb(&mut mag, 10u32.pow(WORD_DIGITS));
            for _ in 0..WORD_DIGITS {
                digit(&mut t, (nine % 10) as u8);
                nine /= 10;
            }
        }
        let mut low = wide::small(&mag).unwrap_or_default();
        while low > u128::from(u64::MAX) {
            let chunk = 10u128.pow(19);
            let mut part = (low % chunk) as u64;
            low /= chunk;
            for _ in 0..19 {
                digit(&mut t, (part % 10) as u8);
                part /= 10;
            }
        }
        let mut low = low as u64;
        while low > 0 {
            digit(&mut t, (low % 10) as u8);
            low /= 10;
        }
        while written <= scale {
            if written == scale && scale > 0 {
                t.push(b'.');
            }
            t.push(b'0');
            written += 1;
        }
        if self.neg {
            t.push(b'-');
        }
        t
    }

    /// Appends the text.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.text().as_bytes());
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        f.pad(std::str::from_utf8(text.as_bytes()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Decimal {
    type Err = super::ParseStatus;

    /// Reads a whole text; anything but a number is the status as error.
    fn from_str(text: &str) -> Result<Self, super::ParseStatus> {
        match Self::parse(text.as_bytes()) {
            (d, super::ParseStatus::Exact) => Ok(d),
            (_, status) => Err(status),
        }
    }
}
