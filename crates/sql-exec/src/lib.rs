//! The executor: pull-based (Volcano) operators, and push-based parallel pipelines.
//!
//! In flow order: `stream` (a running query), `root` (query blocks), `set_ops`, `group`, `sort`, `window` (what
//! happens to joined rows), `node`, `join`, `join_table`, `key_filter`, `disk_join`, `scan`, `locking` (where rows
//! come from), `fulltext` (full-text searches), `elements` (searches in multi-valued indexes), `recursive` (recursive
//! queries), `subquery` (queries inside expressions), `target` (rows to UPDATE or DELETE) · `ctx` (transaction,
//! limits), `memory` and `spill` (what is kept, and what of it goes to disk), `env` and `states` (what operators
//! reach besides their rows), `parallel` (blocks read and joined by several threads) · `short` (reads by key, without
//! planning).
//! Neighbours: `plan` made what runs here, `expr` evaluates, `codec` reads rows.
//!
//! **Invariants**: operators fill slots of one shared row per block; a state tree mirrors the plan
//! tree and holds no reference to it; memory is bounded by [`Limits`] and accounted in the
//! statement's [`SubqueryStates`](crate::SubqueryStates); a result does not depend on what
//! went to disk.

mod ctx;
mod disk_join;
mod elements;
mod env;
mod fulltext;
mod group;
mod join;
mod join_table;
mod key_filter;
mod locking;
mod memory;
mod node;
pub mod parallel;
mod recursive;
mod root;
mod scan;
mod set_ops;
pub mod short;
mod sort;
mod spill;
mod states;
mod stream;
pub mod subquery;
pub mod target;
mod window;

pub use ctx::{ExecCtx, LentTxn, Limits, RowLock, StoredFunctions, TxnRef};
pub use env::{ExecEnv, Executor};
pub use memory::{Budget, Purpose, charge};
pub use recursive::SharedRows;
pub use spill::{RowBuffer, SpillCounts, TakenRows, TempFiles, TempSpace};
pub use states::SubqueryStates;
pub use states::{RESERVATION_STEP, Reserved};
pub use stream::{RowStream, StatementEnv};
pub use target::{OneRow, TargetClauses, TargetPlan, TargetScope, TargetStream, TargetTable};
