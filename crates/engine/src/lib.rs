//! A transactional storage engine over log-structured merge trees with MVCC.
//!
//! Neighbours: below are `esker-wal` (the log) and `esker-vfs` (disk, clock, randomness); above is whatever gives
//! keys and values a meaning. This crate knows nothing of rows, SQL or networks, has plain threads and std futures, and
//! needs no async runtime.
//!
//! # A first look
//!
//! ```
//! use esker_engine::{Engine, EngineConfig, Isolation, LockMode, LockOutcome, View, WaitPolicy};
//!
//! # fn main() -> Result<(), esker_engine::EngineError> {
//! // A simulated disk; `esker_vfs::Env::os()` is the real one.
//! let machine = esker_vfs::sim::SimEnv::new(1);
//! let engine = Engine::open(machine.env(), EngineConfig::new("/data"))?;
//! let accounts = engine.create_tree()?;
//!
//! let mut txn = engine.begin(Isolation::RepeatableRead);
//! // Writers lock what they write; a `LockOutcome::Wait` has a ticket to await or to block on.
//! match txn.lock(accounts.id(), b"alice", LockMode::Exclusive, WaitPolicy::NoWait)? {
//!     LockOutcome::Granted { .. } => txn.put(&accounts, b"alice", b"100")?,
//!     LockOutcome::Skipped | LockOutcome::Wait(_) => unreachable!("nobody else is here"),
//! }
//! // The commit has its place in the one order, is visible, and its locks are free ...
//! let commit = txn.commit()?;
//! assert_eq!(txn.get(&accounts, b"alice", View::Snapshot)?.as_deref(), Some(&b"100"[..]));
//! // ... but the world hears of it only when it is durable. This is a future, too.
//! if let Some(seq) = commit.seq {
//!     engine.wait_durable(seq).block()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The life of a write
//!
//! [`Txn::put`] keeps it in the write set. [`Txn::commit`] encodes the write set into one record of the log, whose
//! place is the commit sequence; inserts the versions into the active memtables; lets the watermark of visible
//! sequences pass; and frees the row locks. The log is flushed in groups meanwhile, and [`Engine::wait_durable`]
//! resolves. Memtables are rotated and written to sorted extents in the background, extents are merged downwards, and
//! the log before them is released.
//!
//! A reader may meet a version that is not durable yet. [`Txn::dependency`] tells the newest sequence it has met: its
//! answer may leave only when that is durable, too.
//!
//! # Modules, in the order of that life
//!
//! `config` · `span` (key ranges) · `txn` · `batch` · `lock` · [`wait`] · `commit` · [`memtable`] · `flush` ·
//! `maintain` · [`budget`] · [`tree`], `extent`, `compact`, `cache` · [`iter`] · `bulk` · [`scan`] with `visit` and
//! `pool` · `recovery` and `replayed` · `follow` · `backup` · `check`, [`inspect`] (the files of a database that is not
//! open) · `codec`, `hash` · [`error`]
//!
//! **Invariants**
//! - One order: log order is commit order is visibility order.
//! - A transaction is seen whole or not at all, also after a crash.
//! - What was acknowledged as durable survives every crash; a failed sync ends the engine and is never repeated.

mod backup;
mod batch;
pub mod budget;
mod bulk;
pub mod cache;
mod check;
mod codec;
mod commit;
pub mod compact;
mod config;
mod engine;
pub mod error;
pub mod extent;
mod flush;
mod follow;
mod hash;
pub mod inspect;
pub mod iter;
mod lock;
mod maintain;
pub mod memtable;
mod pool;
mod recovery;
mod replayed;
pub mod scan;
mod span;
mod sync;
pub mod tree;
mod txn;
mod visit;
pub mod wait;

pub use backup::{Backup, BackupId, BackupProgress, BackupSet, Copied, OnProgress, VerifiedBackup};
pub use budget::{BytesUsed, Charge, MemoryBudget, MemoryUse, Reservation};
pub use bulk::{BuildError, Built, TreeBuilder};
pub use cache::CacheStats;
pub use check::{Checked, DamagedPart, Finding, check};
pub use codec::{put_varint, varint_at};
pub use commit::acks::{Acknowledged, Acks};
pub use commit::id::{Namespace, PreparedId};
pub use commit::log::Durable;
pub use commit::switches::Switches;
pub use config::{EngineConfig, Mode};
pub use engine::{Engine, EngineStats, MemoryStats};
pub use error::{CancelReason, EngineError, Result};
pub use follow::{Followed, FollowedKind, Follower, MoreLog};
pub use lock::{
    AfterDeadlock, Deadlock, DeadlockMember, DeadlockObserver, LockInfo, LockMode, LockOutcome,
    LockWait, Locked, OwnerId, RangeKind, ScanGap, Uncommitted, WaitPolicy,
};
pub use maintain::{StallCause, Stalls};
pub use memtable::Memtable;
pub use recovery::{
    ForceRecovery, RecoveryMode, ReplayPhase, ReplayProgress, ReplayStats, Replayed,
};
pub use replayed::ReplayedRun;
pub use tree::{OnFatal, Tree};
pub use txn::{
    Commit, Cursor, Direction, Isolation, Near, SavepointId, SnapshotAt, Txn, View, WaitCanceller,
};
pub use txn::{CommitStage, DecidedEntry, DecidingLog, Gathering, Harden, PendingCommit};
pub use wait::Ticket;

pub use esker_wal::{
    FlushPolicy, Histogram, LogBufferKind, LogPin, LogSpace,
    MAX_BUFFER_BYTES as MAX_LOG_BUFFER_BYTES, MAX_IN_FLIGHT as MAX_FLUSHES_IN_FLIGHT, WaitCause,
    Waits, WalStats,
};

/// Identifies a tree. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u32);

/// The commit sequence: the end LSN of the commit record. 0 is before everything, [`LATEST`] after everything.
pub type Seq = u64;

/// The sequence that sees every version, committed visibly or not.
pub const LATEST: Seq = u64::MAX;

/// What a version does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Sets the value of the key.
    Put = 1,
    /// Removes the key (a tombstone).
    Delete = 2,
}

impl Op {
    /// The operation with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Op> {
        match code {
            1 => Some(Op::Put),
            2 => Some(Op::Delete),
            _ => None,
        }
    }
}

/// Longest key the engine takes, in bytes.
pub const MAX_KEY_BYTES: usize = 32 * 1024;

/// Longest value the engine takes, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 30;
