//! Compaction: tiered in level 0, leveled below. Bounds the number of runs that a read visits and drops obsolete
//! versions.
//!
//! Neighbours: `maintain` calls `Trees::compact_one` and asks for the [`Pressure`]; `tree` publishes the result.
//!
//! Parts: `limits` (when), `pick` (which task, a pure function of the shape) → `plan` (which extents are merged and
//! which only move, pure as well) → `retain` (which versions stay), `gaps` (where runs are cut) → `run` (does it, as
//! quickly as `pacing` says) → `warm_cache` (the block cache).
//!
//! **Invariants**
//! - Deciders return data and touch nothing; the doer decides nothing.
//! - For one user key, versions that move down are older than every version that stays above.

mod gaps;
mod limits;
mod pacing;
mod pick;
mod plan;
mod retain;
mod run;
mod warm_cache;

pub(crate) use gaps::Gaps;
pub(crate) use limits::tombstones_amplify_reads;
#[cfg(test)]
pub(crate) use limits::{FREE_TOMBSTONE_SKIPS, SKIPS_PER_ENTRY};
pub use limits::{Limits, Pressure};
pub(crate) use pacing::Effort;
pub use pick::{Input, Reason, Task, pick, sink};
pub(crate) use retain::{Settled, retain};
pub use run::{CompactionKind, CompactionStats};

#[cfg(test)]
mod paper_tests;
#[cfg(test)]
mod tests;
