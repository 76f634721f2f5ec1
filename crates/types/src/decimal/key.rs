//! Order-preserving bytes of a DECIMAL(p,s).
//!
//! ```text
//! width(p) bytes, big endian, the number scaled to s decimals, biased by 2^(8*width-1):
//!   non-negative: 1 followed by the magnitude;  negative: the complement of that
//! ```
//! Neighbours: row and key codecs.
//! **Invariants**: the bytes of a column depend on its (p,s) only; memcmp order is numeric order;
//! frozen: it is on disk.

use super::Decimal;
use super::wide::{self, LIMBS, POW10};

/// Bytes of 288 bits.
const MAG_BYTES: usize = LIMBS * 4;

/// Bytes that DECIMAL(`precision`, ..) takes: enough bits for `10^precision` and a sign.
pub const fn width(precision: u32) -> usize {
    // log2(10) < 3.3220; the largest number of p digits has at most floor(p * 3.3220) + 1 bits.
    (precision as usize * 33_220 / 10_000 + 2).div_ceil(8)
}

impl Decimal {
    /// Bytes that [`Self::encode`] appends for this precision.
    pub const fn encoded_len(precision: u32) -> usize {
        width(precision)
    }

    /// Appends the order-preserving form.
    ///
    /// # Panics
    /// When the number does not fit DECIMAL(`precision`, `scale`): `to_column` made it fit.
    pub fn encode(&self, precision: u32, scale: u8, out: &mut Vec<u8>) {
        assert!(self.fits(precision, scale), "the number fits its column");
        let n = width(precision);
        let scaled = if self.scale == scale {
            self.mag
        } else {
            narrowed(&self.widened(scale))
        };
        let mut bytes = [0u8; MAG_BYTES];
        for (chunk, limb) in bytes.rchunks_exact_mut(4).zip(scaled) {
            chunk.copy_from_slice(&limb.to_be_bytes());
        }
        let body = &mut bytes[MAG_BYTES - n..];
        debug_assert!(body[0] & 0x80 == 0);
        body[0] |= 0x80;
        if self.neg {
            body.iter_mut().for_each(|b| *b = !*b);
        }
        out.extend_from_slice(body);
    }

    /// Reads what [`Self::encode`] wrote; `None` when the bytes cannot be of DECIMAL(`precision`,
    /// `scale`).
    pub fn decode(precision: u32, scale: u8, bytes: &[u8]) -> Option<Self> {
        let n = width(precision);
        if bytes.len() != n {
            return None;
        }
        let neg = bytes[0] & 0x80 == 0;
        if n <= size_of::<u128>() {
            return Self::decode_small(neg, precision, scale, bytes);
        }
        let flip = if neg { 0xff } else { 0 };
        let mut mag = [0u32; LIMBS];
        for (i, b) in bytes.iter().rev().enumerate() {
            let b = (b ^ flip) & if i + 1 == n { 0x7f } else { 0xff };
            mag[i / 4] |= u32::from(b) << (8 * (i % 4));
        }
        let value = Self { mag, scale, neg };
        (value.fits(precision, scale) && !(neg && value.is_zero())).then_some(value)
    }
}

impl Decimal {
    /// The digits of what [`Self::encode`] wrote: the number times `10^scale`. `None` when they do not fit, or cannot
    /// be of DECIMAL(`precision`, ..).
    #[inline]
    pub fn decode_digits(precision: u32, bytes: &[u8]) -> Option<i64> {
        if bytes.len() > size_of::<u64>() {
            let number = Self::decode(precision, 0, bytes)?;
            return i64::try_from(number.unscaled_i128()?).ok();
        }
        if bytes.len() != width(precision) {
            return None;
        }
        let raw = bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b));
        let sign = 1 << (8 * bytes.len() - 1);
        let digits = if raw & sign == 0 {
            // The complement of the sign and the magnitude.
            -i64::try_from(sign - 1 - raw).ok()?
        } else {
            i64::try_from(raw - sign).ok()?
        };
        let fits = u128::from(digits.unsigned_abs()) < POW10[precision as usize];
        (fits && (digits != 0 || raw & sign != 0)).then_some(digits)
    }

    /// The same in one word.
    #[inline]
    fn decode_small(neg: bool, precision: u32, scale: u8, bytes: &[u8]) -> Option<Self> {
        let mut word = [0; size_of::<u128>()];
        let start = word.len() - bytes.len();
        word[start..].copy_from_slice(bytes);
        let raw = u128::from_be_bytes(word);
        let digits = if neg { !raw } else { raw };
        let mag = digits & ((1 << (8 * bytes.len() - 1)) - 1);
        let fits = mag < POW10[precision as usize] && u32::from(scale) <= precision;
        (fits && !(neg && mag == 0)).then(|| Self::from_parts(neg, mag, scale))
    }
}

fn narrowed(w: &wide::Wide) -> wide::Mag {
    debug_assert!(wide::is_zero(&w[LIMBS..]));
    let mut mag = [0; LIMBS];
    mag.copy_from_slice(&w[..LIMBS]);
    mag
}
