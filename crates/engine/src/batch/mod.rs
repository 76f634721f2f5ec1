//! The write batch of a transaction: what it has written and not committed, in memory and on disk.
//!
//! Neighbours: `txn` writes and reads it; `lock` shows it to those who wait for rows; `commit` encodes and applies it;
//! `scan` walks it beside the committed versions.
//!
//! Parts: `write_set` (of all trees) · `own_table` ([`OwnTable`]: of one tree, in memory) · `spill` (what was too much
//! for memory) · `spiller` (the thread that moves it) · `merge` (of what has moved, for the commit) · [`OwnWrites`] (a
//! view of everything) · [`Sight`].

mod merge;
mod own_table;
mod spill;
mod spiller;
mod write_set;

use std::sync::Arc;

use crate::Seq;
use crate::memtable::Memtable;
pub(crate) use own_table::OwnTable;
pub(crate) use spill::Spills;
pub(crate) use spiller::Spiller;
pub(crate) use write_set::{
    DeadRanges, Spilling, TreeWrites, WRITE_OVERHEAD_BYTES, WriteSet, is_dead,
};

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
    pub(crate) tables: OwnTables,
    pub(crate) spills: Spills,
    pub(crate) upto: Seq,
    pub(crate) dead: DeadRanges,
}

/// What is in memory of the writes to one tree.
#[derive(Clone)]
pub(crate) struct OwnTables {
    pub(crate) active: Arc<OwnTable>,
    /// Older writes that are being spilled.
    pub(crate) moving: Option<Arc<OwnTable>>,
}

impl OwnTables {
    fn newest_first(&self) -> impl Iterator<Item = &Arc<OwnTable>> {
        std::iter::once(&self.active).chain(&self.moving)
    }

    /// All of it as memtables, the newest first.
    pub(crate) fn settled(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.newest_first().map(|table| table.settled())
    }

    /// How many writes there are.
    pub(crate) fn len(&self) -> u64 {
        self.newest_first().map(|table| table.len()).sum()
    }
}

impl OwnWrites {
    pub(crate) fn sight(&self) -> Sight {
        Sight::Own(self.upto, Arc::clone(&self.dead))
    }
}
