//! Reads GTIDs from a text by recursive descent, and says what is wrong and where, as MySQL does.
//!
//! Neighbours: `text` has the `FromStr` of what is read here.
//! **Invariants**: a scanner stands at a byte of its text or behind it; whoever fails leaves it there.

use std::fmt::{self, Write};

use super::{GNO_END, Sid, Tag};

/// Bytes of a UUID with its hyphens.
const HYPHENED_BYTES: usize = 36;

/// The text is no GTID, or no set of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Shown(self))]
pub struct GtidError {
    what: &'static str,
    /// Where, in bytes.
    at: usize,
    text: Box<str>,
}

/// A text that is read.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// `what` is wrong at a place.
    pub(super) fn error_at(&self, at: usize, what: &'static str) -> GtidError {
        let text = self.text.into();
        GtidError { what, at, text }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn next_is(&self, byte: u8) -> bool {
        self.rest().first() == Some(&byte)
    }

    /// Reads this byte if it comes next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.next_is(byte);
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn skip_spaces(&mut self) {
        let spaces = |b: &&u8| b.is_ascii_whitespace() || **b == 0x0b;
        self.at += self.rest().iter().take_while(spaces).count();
    }

    /// Nothing may follow but spaces.
    pub(super) fn finish(mut self) -> Result<(), GtidError> {
        self.skip_spaces();
        match self.is_at_end() {
            true => Ok(()),
            false => Err(self.error_at(self.at, r#"Expected ",""#)),
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// 32 hexadecimal digits, with hyphens between the parts or without; in braces only with hyphens.
    pub(super) fn sid(&mut self) -> Result<Sid, GtidError> {
        let is_braced = self.take(b'{');
        let mut has_hyphens = is_braced;
        let mut sid = [0; 16];
        for (at, byte) in sid.iter_mut().enumerate() {
            if at == 4 && !is_braced {
                has_hyphens = self.take(b'-');
            } else if has_hyphens && matches!(at, 4 | 6 | 8 | 10) && !self.take(b'-') {
                return Err(self.error_at(self.at, r#"Expected "-""#));
            }
            *byte = self.hex_pair()?;
        }
        if is_braced && !self.take(b'}') {
            return Err(self.error_at(self.at, r#"Expected "}""#));
        }
        Ok(Sid(sid))
    }

    /// The same in the form in which it is printed.
    pub(super) fn hyphened_sid(&mut self) -> Result<Sid, GtidError> {
        let start = self.at;
        let sid = self.sid()?;
        match self.at - start == HYPHENED_BYTES && self.text.as_bytes()[start] != b'{' {
            true => Ok(sid),
            false => Err(self.error_at(start, r#"Expected "-""#)),
        }
    }

    fn hex_pair(&mut self) -> Result<u8, GtidError> {
        let [high, low, ..] = *self.rest() else {
            return Err(self.error_at(self.at, "Expected at least two hex digits"));
        };
        let digit = |byte: u8, at| {
            let digit = char::from(byte).to_digit(16);
            digit.ok_or_else(|| self.error_at(at, "Expected hex digit"))
        };
        let byte = digit(high, self.at)? << 4 | digit(low, self.at + 1)?;
        self.at += 2;
        Ok(byte as u8)
    }

    /// A tag, if one comes next.
    pub(super) fn tag(&mut self) -> Option<Tag> {
        let is_good = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
        let chars = self.rest().iter().take_while(is_good).count();
        let name = &self.text[self.at..self.at + chars];
        let tag = Tag::new(name).filter(|tag| !tag.is_empty())?;
        self.at += chars;
        Some(tag)
    }

    /// A number, whether or not a transaction may have it.
    fn number(&mut self) -> Result<u64, GtidError> {
        let digits = self.rest().iter().take_while(|b| b.is_ascii_digit());
        let digits = &self.text[self.at..self.at + digits.count()];
        if digits.is_empty() {
            return Err(self.error_at(self.at, "Expected number"));
        }
        let number = digits
            .parse()
            .map_err(|_| self.error_at(self.at, "Number out of range"))?;
        self.at += digits.len();
        Ok(number)
    }

    /// The number of a transaction.
    pub(super) fn gno(&mut self) -> Result<u64, GtidError> {
        let start = self.at;
        match self.number()? {
            gno @ 1..GNO_END => Ok(gno),
            _ => Err(self.error_at(start, "Interval start out of range")),
        }
    }

    /// The same as C reads it: with a sign, in base 16 behind `0x`, in base 8 behind `0`.
    pub(super) fn gno_of_c(&mut self) -> Result<u64, GtidError> {
        let start = self.at;
        self.take(b'+');
        let (base, digits) = match self.rest() {
            [b'0', b'x' | b'X', digits @ ..] => (16, digits),
            digits @ [b'0', ..] => (8, digits),
            digits => (10, digits),
        };
        self.at = self.text.len() - digits.len();
        let is_digit = |b: &&u8| char::from(**b).is_digit(base);
        let count = digits.iter().take_while(is_digit).count();
        let read = u64::from_str_radix(&self.text[self.at..self.at + count], base);
        self.at += count;
        match read {
            Ok(gno @ 1..GNO_END) => Ok(gno),
            _ => Err(self.error_at(start, "Interval start out of range")),
        }
    }

    /// `n` or `n-m`, as start and end; an interval that ends before it begins has nothing in it.
    pub(super) fn interval(&mut self) -> Result<(u64, u64), GtidError> {
        let first = self.gno()?;
        self.skip_spaces();
        if !self.take(b'-') {
            return Ok((first, first + 1));
        }
        self.skip_spaces();
        let last = self.number()?;
        self.skip_spaces();
        match last {
            0..GNO_END => Ok((first, last + 1)),
            _ => Err(self.error_at(self.at, "Interval end out of range")),
        }
    }
}

/// The error with what is around its place.
struct Shown<'a>(&'a GtidError);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// So many bytes are shown before and behind the place where more would not be shown whole.
        const BEFORE: usize = 11;
        const BEHIND: usize = 25;
        const DOTS: &str = "...";
        let GtidError { what, at, text } = self.0;
        let (before, behind) = text.as_bytes().split_at(*at);
        match at {
            0 => write!(f, "{what} at the beginning of the string: \"")?,
            n => write!(f, "{what} after {n} characters, marked by [HERE] in: \"")?,
        }
        match before.len() > BEFORE + DOTS.len() {
            true => {
                f.write_str(DOTS)?;
                escape(f, &before[before.len() - BEFORE..])?;
            }
            false => escape(f, before)?,
        }
        if *at > 0 {
            f.write_str("[HERE]")?;
        }
        match behind.len() > BEHIND + DOTS.len() {
            true => {
                escape(f, &behind[..BEHIND])?;
                f.write_str(DOTS)?;
            }
            false => escape(f, behind)?,
        }
        f.write_char('"')
    }
}

fn escape(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for byte in bytes {
        match byte {
            b'\'' => f.write_char('\'')?,
            byte => write!(f, "{}", byte.escape_ascii())?,
        }
    }
    Ok(())
}
