//! Visitors: what a scan calls with the rows that it finds.
//!
//! Neighbours: `scan::merge` leads a [`Visit`] over its tiers; every tier shows it what it has. Blocks show many rows
//! at once where none of them has to be looked at for that (`extent::iter`).

use crate::Op;

/// Most rows that are shown at once.
pub const MOST_PIECES: usize = 512;

/// What is shown of each row where many are shown at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The value.
    Value,
    /// The key, and the value right behind it.
    Whole,
}

/// Takes what a scan finds, ascending by key. Every answer says whether more is wanted.
///
/// A closure that takes a key and its value is one; it does not hear of deletes.
pub trait Visit {
    /// A key that is there, and its value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> bool;

    /// A key that is gone.
    fn delete(&mut self, _key: &[u8]) -> bool {
        true
    }

    /// What it wants of each row where it can have many at once. `None`: it takes them one by one. The same whenever it
    /// is asked.
    fn piece(&self) -> Option<Piece> {
        None
    }

    /// What [`Visit::piece`] says of each of the next rows: of at least one, and of [`MOST_PIECES`] at most.
    fn puts(&mut self, pieces: &[&[u8]]) -> bool {
        unreachable!("{} rows at once were not asked for", pieces.len())
    }

    /// Whether this row may have been left out with its block: it is not wanted. Asked only where answers are verified.
    fn may_leave_out(&mut self, _key: &[u8], _value: &[u8]) -> bool {
        true
    }
}

impl<F: FnMut(&[u8], &[u8]) -> bool> Visit for F {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        self(key, value)
    }
}

/// Shows one version.
#[inline]
pub(crate) fn show(visit: &mut impl Visit, key: &[u8], op: Op, value: &[u8]) -> bool {
    match op {
        Op::Put => visit.put(key, value),
        Op::Delete => visit.delete(key),
    }
}
