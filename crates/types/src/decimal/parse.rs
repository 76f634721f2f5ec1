//! Text to DECIMAL.
//!
//! Neighbours: `cast` turns a [`ParseStatus`] into MySQL's warnings; the SQL parser reads literals.
//! **Invariant**: reads the longest numeric prefix, as MySQL does, and never fails: what was wrong
//! is in the status, the number is what MySQL would go on with.

use super::wide::{self, Mag};
use super::{Decimal, WORD_DIGITS, WORDS};

/// What [`Decimal::parse`] met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseStatus {
    /// All of the text was a number.
    Exact,
    /// A number, but decimals beyond the capacity were cut.
    Cut,
    /// A number and then something else than spaces.
    Trailing,
    /// No number at all: 0.
    Bad,
    /// Too large: the largest number.
    Overflow,
}

/// A number taken apart.
struct Scanned<'a> {
    neg: bool,
    int: &'a [u8],
    frac: &'a [u8],
    exponent: i64,
    /// Bytes consumed.
    used: usize,
}

/// Exponents beyond this are the same as this: out of any range.
const EXPONENT_LIMIT: i64 = 100_000;

fn digits_at(text: &[u8], from: usize) -> usize {
    text[from..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count()
}

fn scan(text: &[u8]) -> Option<Scanned<'_>> {
    let mut at = text.iter().take_while(|b| is_space(**b)).count();
    let neg = text.get(at) == Some(&b'-');
    at += usize::from(neg || text.get(at) == Some(&b'+'));
    let int_len = digits_at(text, at);
    let int = &text[at..at + int_len];
    at += int_len;
    let mut frac: &[u8] = &[];
    if text.get(at) == Some(&b'.') {
        let n = digits_at(text, at + 1);
        frac = &text[at + 1..at + 1 + n];
        if int_len + n == 0 {
            return None;
        }
        at += 1 + n;
    } else if int_len == 0 {
        return None;
    }
    let (exponent, exp_len) = scan_exponent(&text[at..]);
    Some(Scanned {
        neg,
        int,
        frac,
        exponent,
        used: at + exp_len,
    })
}

fn scan_exponent(text: &[u8]) -> (i64, usize) {
    if !matches!(text.first(), Some(b'e' | b'E')) {
        return (0, 0);
    }
    let signed = matches!(text.get(1), Some(b'+' | b'-'));
    let start = 1 + usize::from(signed);
    let n = text.get(start..).map_or(0, |t| digits_at(t, 0));
    if n == 0 {
        return (0, 0);
    }
    let value = text[start..start + n].iter().fold(0i64, |v, b| {
        (v * 10 + i64::from(b - b'0')).min(EXPONENT_LIMIT)
    });
    (if text[1] == b'-' { -value } else { value }, start + n)
}

/// What MySQL's latin1 and utf8mb4 call a space.
pub(crate) fn is_space(b: u8) -> bool {
    b == b' ' || (9..=13).contains(&b)
}

/// Length of the numeric prefix of `text`, leading spaces included; 0 when there is none.
pub fn numeric_prefix_len(text: &[u8]) -> usize {
    scan(text).map_or(0, |s| s.used)
}

impl Decimal {
    /// Reads the number at the start of `text` (spaces before it are skipped).
    pub fn parse(text: &[u8]) -> (Self, ParseStatus) {
        let (value, status, used) = Self::parse_prefix(text);
        if status == ParseStatus::Exact && !text[used..].iter().all(|b| is_space(*b)) {
            return (value, ParseStatus::Trailing);
        }
        (value, status)
    }

    /// As [`Self::parse`], telling how many bytes belong to the number instead of judging the rest.
    pub fn parse_prefix(text: &[u8]) -> (Self, ParseStatus, usize) {
        let Some(s) = scan(text) else {
            return (Self::ZERO, ParseStatus::Bad, 0);
        };
        let (value, status) = assemble(&s);
        (value, status, s.used)
    }
}

/// Places the point `exponent` digits further and cuts what the buffer cannot hold.
fn assemble(s: &Scanned<'_>) -> (Decimal, ParseStatus) {
    let zeros = s.int.iter().take_while(|b| **b == b'0').count();
    let int = &s.int[zeros..];
    let digits = int.iter().chain(s.frac).copied();
    let total = (int.len() + s.frac.len()) as i64;
    let point = int.len() as i64 + s.exponent;
    let all_zero = digits.clone().all(|b| b == b'0');
    let capacity = i64::from(WORDS * WORD_DIGITS);
    let lead = leading_zeros_after(digits.clone());
    let int_digits = (point - lead).max(0);
    if int_digits > capacity && !all_zero {
        return (
            Decimal::max_for(super::MAX_PRECISION, 0, s.neg),
            ParseStatus::Overflow,
        );
    }
    if all_zero {
        let scale = (total - point).clamp(0, capacity) as u8;
        return (
            Decimal {
                scale,
                ..Decimal::ZERO
            },
            ParseStatus::Exact,
        );
    }
    let word = i64::from(WORD_DIGITS);
    let int_words = (int_digits + word - 1) / word;
    let room = (i64::from(WORDS) - int_words) * word;
    let wanted = (total - point).max(0);
    let scale = wanted.min(room);
    let take = point + scale;
    let mag = read_digits(digits, take.max(0));
    let lost = wanted > scale;
    let value = Decimal {
        mag,
        scale: scale as u8,
        neg: s.neg && !wide::is_zero(&mag),
    };
    (
        value,
        if lost {
            ParseStatus::Cut
        } else {
            ParseStatus::Exact
        },
    )
}

/// The first `take` digits as a number; zeros follow when there are fewer.
fn read_digits(digits: impl Iterator<Item = u8>, take: i64) -> Mag {
    /// This many digits surely fit 128 bits.
    const NARROW: i64 = 38;
    let digits = digits.chain(std::iter::repeat(b'0')).take(take as usize);
    if take <= NARROW {
        return wide::from_u128(digits.fold(0, |v, b| v * 10 + u128::from(b - b'0')));
    }
    let mut mag: Mag = [0; wide::LIMBS];
    for b in digits {
        let over = wide::mul_limb(&mut mag, 10) | wide::add_limb(&mut mag, u32::from(b - b'0'));
        debug_assert!(!over);
    }
    mag
}

/// Zeros before the first other digit.
fn leading_zeros_after(digits: impl Iterator<Item = u8>) -> i64 {
    digits.take_while(|b| *b == b'0').count() as i64
}
