//! MySQL's bytes of a DECIMAL(p,s), as JSON documents carry them.
//!
//! ```text
//! the digits before the point, then those after it, in words of nine digits: 4 bytes each, big endian, fewer
//! for the digits left over (before the first full word, after the last one); the highest bit inverted, and for
//! a negative number then all bits
//! ```
//! Neighbours: `json` writes and reads them; `key` is the form in rows and keys.
//! **Invariant**: the size depends on the number of digits before and after the point only.

use super::Decimal;

/// Bytes of 0 to 9 digits.
const DIGIT_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
/// Digits of a full word.
const WORD: usize = 9;

fn part_size(digits: usize) -> usize {
    digits / WORD * 4 + DIGIT_BYTES[digits % WORD]
}

fn size(precision: usize, scale: usize) -> usize {
    part_size(precision.saturating_sub(scale)) + part_size(scale)
}

/// Appends digits (ASCII) as one big-endian number.
fn push_digits(digits: &[u8], out: &mut Vec<u8>) {
    let value = digits
        .iter()
        .fold(0u32, |v, d| v * 10 + u32::from(d - b'0'));
    let bytes = value.to_be_bytes();
    out.extend_from_slice(&bytes[4 - DIGIT_BYTES[digits.len()]..]);
}

impl Decimal {
    /// Digits with which the number is written: at least one before the point.
    pub fn binary_precision(&self) -> u8 {
        (self.int_digits().max(1) + u32::from(self.scale())) as u8
    }

    /// Bytes that [`Self::write_binary`] appends.
    pub fn binary_size(&self) -> usize {
        size(
            usize::from(self.binary_precision()),
            usize::from(self.scale()),
        )
    }

    /// Appends the bytes of DECIMAL([`Self::binary_precision`], [`Self::scale`]).
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        let scale = usize::from(self.scale());
        let text = self.abs().to_string();
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
        let whole = &digits[..digits.len() - scale];
        let start = out.len();
        let (left, words) = whole.split_at(whole.len() % WORD);
        push_digits(left, out);
        words.chunks(WORD).for_each(|w| push_digits(w, out));
        digits[digits.len() - scale..]
            .chunks(WORD)
            .for_each(|w| push_digits(w, out));
        let Some(first) = out.get_mut(start) else {
            return;
        };
        *first ^= 0x80;
        if self.is_negative() {
            out[start..].iter_mut().for_each(|b| *b = !*b);
        }
    }

    /// Reads what [`Self::write_binary`] wrote; `None` for other bytes.
    pub fn from_binary(precision: u8, scale: u8, bytes: &[u8]) -> Option<Self> {
        let (precision, scale) = (usize::from(precision), usize::from(scale));
        if scale > precision || bytes.len() != size(precision, scale) || bytes.is_empty() {
            return None;
        }
        let negative = bytes[0] & 0x80 == 0;
        let flip = if negative { 0xff } else { 0 };
        let mut bytes: Vec<u8> = bytes.iter().map(|b| b ^ flip).collect();
        bytes[0] ^= 0x80;
        let mut text = String::from(if negative { "-" } else { "" });
        let mut rest = &bytes[..];
        let int_digits = precision - scale;
        let mut word = |digits: usize, text: &mut String| -> Option<()> {
            let (head, tail) = rest.split_at_checked(DIGIT_BYTES[digits])?;
            rest = tail;
            let value = head.iter().fold(0u64, |v, b| v << 8 | u64::from(*b));
            if digits > 0 {
                let shown = format!("{value:0digits$}");
                if shown.len() > digits {
                    return None;
                }
                text.push_str(&shown);
            }
            Some(())
        };
        word(int_digits % WORD, &mut text)?;
        for _ in 0..int_digits / WORD {
            word(WORD, &mut text)?;
        }
        if scale > 0 {
            text.push('.');
            for _ in 0..scale / WORD {
                word(WORD, &mut text)?;
            }
            word(scale % WORD, &mut text)?;
        }
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_has_mysql_bytes() {
        for text in [
            "0",
            "0.5",
            "-0.5",
            "1.50",
            "-1.50",
            "1234567890.1234",
            "-1234567890.1234",
            "999999999",
            "1000000000",
            "0.000000001",
            "99999999999999999999999999999999999.999999999999999999999999999999",
        ] {
            let d: Decimal = text.parse().unwrap();
            let mut bytes = Vec::new();
            d.write_binary(&mut bytes);
            assert_eq!(bytes.len(), d.binary_size(), "{text}");
            let read = Decimal::from_binary(d.binary_precision(), d.scale(), &bytes).unwrap();
            assert_eq!(read.to_string(), text);
        }
        // The example of MySQL's source.
        let mut bytes = Vec::new();
        "1234567890.1234"
            .parse::<Decimal>()
            .unwrap()
            .write_binary(&mut bytes);
        assert_eq!(bytes, [0x81, 0x0D, 0xFB, 0x38, 0xD2, 0x04, 0xD2]);
        bytes.iter_mut().for_each(|b| *b = !*b);
        let read = Decimal::from_binary(14, 4, &bytes).unwrap();
        assert_eq!(read.to_string(), "-1234567890.1234");
        assert!(Decimal::from_binary(14, 4, &bytes[1..]).is_none());
        assert!(Decimal::from_binary(9, 0, &[0xff; 4]).is_none());
    }
}
