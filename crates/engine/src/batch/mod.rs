//! The write batch of a transaction: what it has written and not committed, in memory and on disk.
//!
//! Neighbours: `txn` writes and reads it; `lock` shows it to those who wait for rows; `commit` encodes and applies it;
//! `scan` walks it beside the committed versions.
//!
//! Parts: `write_set` (of all trees) · `own_table` ([`OwnTable`]: of one tree, in memory) · `spill` (what was too much
//! for memory) · [`OwnWrites`] (a view of both) · [`Sight`].

mod own_table;
mod spill;
mod write_set;

use std::sync::Arc;

use crate::Seq;
pub(crate) use own_table::OwnTable;
pub(crate) use spill::Spills;
pub(crate) use write_set::{DeadRanges, TreeWrites, WRITE_OVERHEAD_BYTES, WriteSet, is_dead};

/// Which versions are seen.
#[derive(Clone)]
pub(crate) enum Sight {
    /// Committed versions up to a sequence.
    Snapshot(Seq),
    /// Own writes up to a number, except dead ones.
    Own(Seq, DeadRanges),
}

impl Sight {
    #[inline]
    pub(crate) fn upto(&self) -> Seq {
        match self {
            Sight::Snapshot(seq) | Sight::Own(seq, _) => *seq,
        }
    }

    #[inline]
    pub(crate) fn sees(&self, seq: Seq) -> bool {
        match self {
            Sight::Snapshot(snapshot) => seq <= *snapshot,
            Sight::Own(number, dead) => seq <= *number && !is_dead(dead, seq),
        }
    }
}

/// The writes of a transaction to one tree, as they were when the view was made.
pub(crate) struct OwnWrites {
    pub(crate) table: Arc<OwnTable>,
    pub(crate) spills: Spills,
    pub(crate) upto: Seq,
    pub(crate) dead: DeadRanges,
}

impl OwnWrites {
    pub(crate) fn sight(&self) -> Sight {
        Sight::Own(self.upto, Arc::clone(&self.dead))
    }
}
