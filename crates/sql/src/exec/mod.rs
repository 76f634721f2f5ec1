//! The executor: pull-based (Volcano) operators, and push-based parallel pipelines.
//!
//! In flow order: `stream` (a running query), `root` (query blocks), `set_ops`, `group`, `sort`, `window` (what happens
//! to joined rows), `node`, `join`, `join_table`, `key_filter`, `disk_join`, `scan`, `locking` (where rows come from),
//! `recursive` (recursive queries), `subquery` (queries inside expressions), `target` (rows to UPDATE or DELETE) ·
//! `ctx` (transaction, limits), `memory` and `spill` (what is kept, and what of it goes to disk), `rowkey` (bytes that
//! order and hash values), `virt` (computed tables), `profile` (what operators did, for EXPLAIN ANALYZE), `parallel`
//! (blocks read and joined by several threads). Neighbours: `plan` made what runs here, `expr` evaluates, `codec` reads
//! rows.
//!
//! **Invariants**: operators fill slots of one shared row per block; a state tree mirrors the plan
//! tree and holds no reference to it; memory is bounded by [`Limits`] and accounted in the
//! statement's [`SubqueryStates`](crate::expr::SubqueryStates); a result does not depend on what
//! went to disk.

mod ctx;
mod disk_join;
mod group;
mod join;
mod join_table;
mod key_filter;
mod locking;
mod memory;
mod node;
#[cfg(test)]
mod oracle_tests;
pub(crate) mod parallel;
mod profile;
#[cfg(test)]
mod profile_tests;
mod recursive;
#[cfg(test)]
mod recursive_tests;
mod root;
pub mod rowkey;
mod scan;
mod set_ops;
mod sort;
mod spill;
mod stream;
pub mod subquery;
pub mod target;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod virt;
mod window;

pub use ctx::{ExecCtx, Limits, RowLock};
pub(crate) use memory::{Purpose, charge, row_bytes};
pub use profile::{Profile, Stage};
pub use recursive::SharedRows;
pub use spill::{SpillCounts, TempFiles, TempSpace};
pub use stream::{RowStream, StatementEnv};
pub use target::{OneRow, TargetClauses, TargetPlan, TargetScope, TargetStream, TargetTable};
