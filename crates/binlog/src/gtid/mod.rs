//! Global transaction identifiers, and sets of them.
//!
//! `interval` (numbers of one source), `set` (all sources, with the algebra), `text` (what people write and read,
//! by `scan`), `binary` (what files and streams hold).
//! Neighbours: `derive` numbers transactions and keeps what was executed; `sql` has the functions and variables.
//! **Invariants**: the numbers of a source begin at 1 and stay below [`GNO_END`]; tags are lower case.

mod binary;
mod interval;
mod scan;
mod set;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

pub use interval::IntervalSet;
pub use scan::GtidError;
pub use set::GtidSet;

/// Behind the largest number of a transaction.
pub const GNO_END: u64 = i64::MAX as u64;
/// The longest tag, in characters.
pub const MAX_TAG_CHARS: usize = 32;

/// The UUID of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid(pub [u8; 16]);

/// A name that keeps transactions of one server apart; usually empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag(Box<str>);

/// Where a transaction was executed first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The server.
    pub sid: Sid,
    /// The tag.
    pub tag: Tag,
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    /// Whose.
    pub source: Source,
    /// Its number there.
    pub gno: u64,
}

impl Tag {
    /// The tag of this name: up to 32 letters, digits and underscores that begin with no digit, in any case.
    pub fn new(name: &str) -> Option<Self> {
        let first_is_good = !name.starts_with(|c: char| c.is_ascii_digit());
        let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (name.len() <= MAX_TAG_CHARS && first_is_good && name.chars().all(is_good))
            .then(|| Self(name.to_ascii_lowercase().into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Source {
    /// A server, without tag.
    pub fn untagged(sid: Sid) -> Self {
        let tag = Tag::default();
        Self { sid, tag }
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; 36];
        let mut at = 0;
        for (nth, byte) in self.0.iter().enumerate() {
            at += usize::from(matches!(nth, 4 | 6 | 8 | 10));
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
            at += 2;
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag.is_empty() {
            true => self.sid.fmt(f),
            false => write!(f, "{}:{}", self.sid, self.tag.as_str()),
        }
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.gno)
    }
}
