//! The replayed tier: what a restart has collected from the log, as one more immutable tier of each tree.
//!
//! Neighbours: `recovery` collects the entries and makes the runs; `tree` has them in its superversions; `scan` and
//! `txn` read them like memtables.
//!
//! Parts: `entry` (a version, 24 bytes) · `route` (from a key to its shard) · `build` (sorting a shard) · `lazy`
//! (whoever needs it first) · `run` (the tier).

pub(crate) mod build;
pub(crate) mod entry;
pub(crate) mod lazy;
pub(crate) mod route;
pub(crate) mod run;

pub(crate) use run::ReplayedIter;
pub use run::ReplayedRun;
