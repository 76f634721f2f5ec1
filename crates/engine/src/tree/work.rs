//! Figures of the storage: rotations, flushes, compactions, ingests, and what is on disk.
//!
//! Neighbours: `Trees::note` counts, `infoschema` shows it.
//!
//! **Invariants**
//! - Counters only rise while the trees are open.

use crate::compact::{CompactionKind, CompactionStats};
use crate::extent::SpaceStats;

/// Memtables that ended their life, so that they could be flushed, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationCounts {
    /// They were full.
    pub full: u64,
    /// Memory or the log needed room.
    pub memory: u64,
    /// They consisted of deletes.
    pub deletes: u64,
    /// Readers stepped over their deletes again and again.
    pub tombstone_skips: u64,
}

/// What was done in the background since the trees were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Memtables that ended their life, by why.
    pub rotations: RotationCounts,
    /// Memtables that were flushed.
    pub flushes: u64,
    /// Bytes of the extents they became.
    pub flushed_bytes: u64,
    /// Compactions.
    pub compactions: u64,
    /// What they did together.
    pub compaction: CompactionStats,
    /// How many there were of each kind, and what they did; in the order of [`CompactionKind::ALL`].
    pub kinds: [(u64, CompactionStats); CompactionKind::ALL.len()],
    /// Compactions that were given up because an extent could not be read.
    pub given_up_compactions: u64,
    /// Compactions that ended early because their tree was dropped.
    pub cancelled_compactions: u64,
    /// Times a flush or compaction was begun again because an extent could not be written.
    pub write_retries: u64,
    /// Trees that were filled at once ([`crate::TreeBuilder`]).
    pub built_trees: u64,
    /// Extents they were filled with.
    pub built_extents: u64,
    /// Bytes of them.
    pub built_bytes: u64,
    /// Sorted runs that had to be merged for them.
    pub build_spills: u64,
    /// Transactions that brought extents, because their writes were too large for memory.
    pub ingests: u64,
    /// These extents.
    pub ingested_extents: u64,
}

/// Numbers about the storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageStats {
    /// The data files.
    pub space: SpaceStats,
    /// Bytes of the manifest file in force.
    pub manifest_bytes: u64,
    /// Extents that could not be read since the start; compaction leaves them alone.
    pub quarantined_extents: u64,
    /// Flushes and compactions.
    pub work: Work,
}
