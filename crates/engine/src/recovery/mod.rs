//! Replay of the log: what was committed after the last flush of each tree comes back into memory.
//!
//! Neighbours: `esker-wal` finds and checks the records and has cut the torn tail; the manifest (`tree`) says up to
//! where each tree is on disk; `engine` starts the replay when it opens.
//!
//! | record | what replay does |
//! |---|---|
//! | Commit | raises its counters; takes over its writes, tree by tree, unless the tree has them on disk or is gone; ingests its extents, unless the manifest has them in their place |
//! | Prepare | raises its counters; keeps the record until it is decided |
//! | CommitPrepared | takes the prepare named by XID and sequence and takes over its writes |
//! | RollbackPrepared | takes it and forgets it |
//! | CounterSet | raises or sets the counter |
//! | Note | nothing: its attachment is for those who follow the log |
//!
//! Whatever the kind, replay does not look at what a record carries for others: it stops before the attachment.
//!
//! There are two ways to the same state ([`RecoveryMode`]). The **parallel** one does not insert anything: threads
//! collect small entries that point at the rows where they were read (`entry`, `route`, `collect`), in any order;
//! `dispatch` and `collection` say when everything is there; the entries are sorted, shard by shard, when they are
//! needed (`run`, `lazy`, `build`). The **serial** one inserts record after record into memtables; it is there to
//! compare with. Both share `two_phase`; `progress` reports how far it is, `counts` merges counter changes, and `force`
//! opens a database whose log is damaged.
//!
//! **Invariants**
//! - A write of sequence s to a tree is skipped if and only if s is at or below the tree's flushed sequence, or the
//!   tree was dropped. A counter change is skipped if and only if s is at or below the sequence the stored counters
//!   stand for.
//! - A write that an extent has already, from after the flushed sequence, is taken over again with the same sequence:
//!   the same version, which readers see once.
//! - No statement runs before all of the log was read. Until then the log is not released, and nothing is appended to
//!   it.
//! - What is flushed meanwhile is a range of the log without a gap, the oldest first (rule R4).

mod collect;
mod collection;
mod counts;
mod dispatch;
mod force;
mod parallel;
mod progress;
mod serial;
#[cfg(test)]
mod tests;
mod two_phase;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use esker_wal::LogReader;

pub(crate) use collect::wants_block;
pub use force::ForceRecovery;
pub(crate) use force::{needs, newer_trees};
pub(crate) use progress::Recovery;
pub use progress::{ReplayPhase, ReplayProgress, Replayed};

use crate::Result;
use crate::commit::counters::Counters;
use crate::lock::LockManager;
use crate::tree::{Recovered, Trees};
use crate::txn::prepared::PreparedTable;

/// How the log is replayed. Every mode leads to the same state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveryMode {
    /// One thread reads and inserts record after record into memtables.
    SerialSync,
    /// The same, and the system reads ahead.
    SerialAsync,
    /// Several threads read and collect; what was collected is sorted when it is needed.
    #[default]
    Parallel,
}

/// What a replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayStats {
    /// Records met.
    pub records: u64,
    /// Versions taken over.
    pub writes: u64,
    /// Times the memory limit was reached, so that memory had to be flushed.
    pub flushes: u64,
}

/// When a replay switches and flushes memtables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayLimits {
    /// A memtable is switched at this size.
    pub(crate) memtable_bytes: usize,
    /// Memory is flushed when there is more than this. The same limit as in normal operation, so that what fitted
    /// before a restart fits again.
    pub(crate) memory_bytes: usize,
}

/// Where the log goes.
pub(crate) struct Target<'a> {
    pub(crate) trees: &'a Trees,
    pub(crate) counters: &'a Counters,
    pub(crate) locks: &'a Arc<LockManager>,
    pub(crate) prepared: &'a PreparedTable,
    pub(crate) recovered: &'a Recovered,
    pub(crate) limits: ReplayLimits,
    pub(crate) recovery: &'a Recovery,
}

/// Threads of a replay: what was asked for, or all processors.
fn thread_count(wanted: usize) -> usize {
    match wanted {
        0 => thread::available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    }
}

/// Replays the log and reports how far it is. `before_ready` is called when everything is in its place and nobody has
/// seen it yet; `sort_now`: also sorts what nobody has needed yet.
pub(crate) fn replay(
    log: LogReader,
    target: &Target<'_>,
    mode: RecoveryMode,
    threads: usize,
    before_ready: impl FnOnce(),
    sort_now: bool,
) -> Result<()> {
    let recovery = target.recovery;
    let threads = thread_count(threads);
    let runs = match mode {
        RecoveryMode::SerialSync | RecoveryMode::SerialAsync => {
            serial::read(&log, target).map(|()| Vec::new())
        }
        RecoveryMode::Parallel => parallel::read(&log, target, threads),
    };
    drop(log);
    let runs = runs.inspect_err(|error| recovery.fail(error.clone()))?;
    before_ready();
    recovery
        .bytes_done
        .store(recovery.bytes_total(), Ordering::Relaxed);
    recovery.reach(ReplayPhase::Sorting);
    if sort_now {
        let sorted = parallel::sort(&runs, recovery, threads);
        sorted.inspect_err(|error| recovery.fail(error.clone()))?;
    }
    recovery.reach(ReplayPhase::Done);
    Ok(())
}
