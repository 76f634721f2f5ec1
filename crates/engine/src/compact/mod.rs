//! Compaction: keeps the number of runs that a read must ask small, and drops versions that nobody can see.
//!
//! Neighbours: `maintain` calls `Trees::compact_one` and asks for the [`Pressure`]; `tree` publishes the result.
//!
//! Parts: `limits` (when), `pick` (which task, a pure function of the shape) → `plan` (which extents are merged and which
//! only move, pure as well) → `retain` (which versions stay), `gaps` (where runs are cut) → `run` (does it, as quickly as `pace` says) →
//! `refresh` (the cache).
//!
//! **Invariants**
//! - Deciders return data and touch nothing; the doer decides nothing.
//! - For one user key, versions that move down are older than every version that stays above.

mod gaps;
mod limits;
mod pace;
mod pick;
mod plan;
mod refresh;
mod retain;
mod run;

pub(crate) use gaps::Gaps;
pub(crate) use limits::hinders_readers;
#[cfg(test)]
pub(crate) use limits::{FREE_STEPS, STEPS_PER_ENTRY};
pub use limits::{Limits, Pressure};
pub(crate) use pace::Effort;
pub use pick::{Input, Reason, Task, pick, sink};
pub(crate) use retain::{Settled, retain};
pub use run::{CompactionKind, CompactionStats};

#[cfg(test)]
mod paper_tests;
#[cfg(test)]
mod tests;
