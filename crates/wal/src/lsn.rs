//! Positions in the log.

use std::fmt;

/// A byte offset in the record stream. Headers and padding of blocks and segments do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Where the first record of a new log starts; below it there is nothing.
    pub const FIRST: Lsn = Lsn(8);

    /// The position this many bytes later.
    pub(crate) fn plus(self, bytes: u64) -> Lsn {
        Lsn(self.0 + bytes)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The place of a record. The next record starts at `end`, and `end` is the record's commit
/// sequence: it is durable if and only if the log's durable LSN is at least `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LsnRange {
    /// First byte.
    pub start: Lsn,
    /// One past the last byte.
    pub end: Lsn,
}
