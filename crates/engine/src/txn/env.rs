//! What transactions share: trees, snapshots, locks and the commit pipeline, and what they need of background work.
//!
//! Neighbours: the engine makes it; every transaction has a handle of it and of its [`Home`].
//!
//! **Invariants**
//! - Transactions know what is above them only as their [`Home`], which lives as long as they do.

use std::sync::{Arc, OnceLock};

use super::ordered::Ordered;
use super::prepared::PreparedTable;
use super::snapshots::Snapshots;
use crate::batch::{Spiller, Spilling};
use crate::commit::env::{Background, CommitEnv};
use crate::pool::ScanPool;
use crate::tree::{OnFatal, SuperVersion, Trees};

/// The writes of a transaction have one part in so many of the memory, ...
const TXN_SHARE: usize = 16;
/// ... but this much, however small that is.
const LEAST_TXN_BYTES: usize = 1 << 20;

/// What transactions need of background work.
pub(crate) trait Home: Background + Send + Sync {
    /// A reader comes to a tree: if deletes there have hindered others enough, they are taken away soon.
    fn check_tombstone_skips(&self, now: &SuperVersion);

    /// Adds up the memory of row and range locks.
    fn account_locks(&self);
}

/// What transactions share.
pub(crate) struct TxnEnv {
    pub(crate) commit: Arc<CommitEnv>,
    pub(crate) trees: Trees,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) prepared: PreparedTable,
    /// Where a second log decides.
    pub(crate) ordered: OnceLock<Ordered>,
    /// The threads that help with scans.
    pub(crate) scans: ScanPool,
    /// The thread that moves writes of large transactions to disk.
    pub(crate) spiller: Spiller,
    pub(crate) limits: TxnLimits,
    pub(crate) on_fatal: OnFatal,
}

/// How large a transaction may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxnLimits {
    /// Writes, locks and attachment.
    pub(crate) bytes: u64,
    /// Writes in memory, if that is a small part of all.
    pub(crate) memory_bytes: u64,
}

impl TxnEnv {
    /// Bytes of writes that a transaction keeps in memory.
    #[inline]
    pub(crate) fn txn_memory(&self) -> u64 {
        let share = (self.commit.budget.limit() / TXN_SHARE).max(LEAST_TXN_BYTES);
        self.limits.memory_bytes.min(share as u64)
    }

    pub(crate) fn spilling(&self) -> Spilling<'_> {
        Spilling {
            store: self.trees.store(),
            spiller: &self.spiller,
        }
    }
}
