//! What does not fit a statement's memory: rows in temporary files.
//!
//! In flow order: `space` (the directory, what was counted), `file` (blocks, runs, readers and
//! writers), `codec` (rows as bytes), `merge` (sorted runs into one), `partition` (records by hash),
//! `buffer` (rows to be read again in their order), `distinct` (first occurrences).
//! Neighbours: `sort`, `group`, `join`, `window` and the shared tables keep what they can in memory
//! (`memory` says how much) and write the rest through here. Reasons: `docs/decisions/spill.md`.
//!
//! **Invariants**: a temporary file has no name while it is used, so it goes with its last handle,
//! also in a crash; nothing is synced; every block that is read back is checked; whoever spills gives
//! the same rows in the same order as it would have in memory.

mod buffer;
mod codec;
mod distinct;
mod file;
mod merge;
mod partition;
mod space;

pub(crate) use buffer::RowCursor;
pub use buffer::{RowBuffer, TakenRows};
pub(crate) use codec::{read_row, read_values, write_row, write_values};
pub(crate) use distinct::{DistinctRows, First};
pub(crate) use file::{Run, RunReader, RunWriter, SpillFile, block_bytes};
pub(crate) use merge::{Merge, narrow_runs, write_key};
pub(crate) use partition::{MAX_LEVEL, Partitions};
pub use space::{SpillCounts, TempFiles, TempSpace};
