//! What can be switched off of the commit pipeline while it runs, to see what it is worth; and checks that can be
//! switched on.
//!
//! Neighbours: `commit` and `Engine::wait_durable` read the switches once per commit; the layer above sets them.
//!
//! | early lock release | asynchronous commit | row locks go | a commit is acknowledged |
//! |---|---|---|---|
//! | on | off | when the record has its place in the log | when it is durable |
//! | off | off | when it is durable | when it is durable |
//! | any | on | when the record has its place in the log | at once |
//!
//! Verifying answers is no part of the commit; it is for tests and costs what reading everything costs
//! (`scan::verify`).
//!
//! Durable snapshots (on) let the plain reads of clients leave out what is not durable yet; see `txn::SnapshotAt`.
//!
//! **Invariants**
//! - Unless commit is asynchronous, nobody is told what a crash could take back, whatever the other switch says.
//! - A switch concerns commits and waits that begin after it was set.

use std::sync::atomic::{AtomicBool, Ordering};

/// The switches of an engine; see the module's table.
#[derive(Debug)]
pub struct Switches {
    early_lock_release: AtomicBool,
    async_commit: AtomicBool,
    durable_snapshots: AtomicBool,
    verify_answers: AtomicBool,
}

impl Default for Switches {
    fn default() -> Self {
        Switches {
            early_lock_release: AtomicBool::new(true),
            async_commit: AtomicBool::new(false),
            durable_snapshots: AtomicBool::new(true),
            verify_answers: AtomicBool::new(false),
        }
    }
}

impl Switches {
    /// Whether row locks go before the commit is durable. On by default.
    pub fn early_lock_release(&self) -> bool {
        self.early_lock_release.load(Ordering::Relaxed)
    }

    /// Sets early lock release. Off is right, too, but slower where rows are hot or the device is slow.
    pub fn set_early_lock_release(&self, on: bool) {
        self.early_lock_release.store(on, Ordering::Relaxed);
    }

    /// Whether commits are acknowledged before they are durable. Off by default.
    pub fn async_commit(&self) -> bool {
        self.async_commit.load(Ordering::Relaxed)
    }

    /// Sets asynchronous commit. **Unsafe** when on: a crash takes back the newest commits, although they were
    /// acknowledged (about those of the last second). What survives is a prefix of the order of commits.
    pub fn set_async_commit(&self, on: bool) {
        let was_on = self.async_commit.swap(on, Ordering::Relaxed);
        if on && !was_on {
            tracing::warn!("asynchronous commit is on: a crash can take back acknowledged commits");
        }
    }

    /// Whether [`crate::SnapshotAt::Durable`] means what it says. On by default.
    pub fn durable_snapshots(&self) -> bool {
        self.durable_snapshots.load(Ordering::Relaxed)
    }

    /// Sets durable snapshots: when off, all transactions take the newest snapshots. On is right only while everything
    /// that was acknowledged is durable, so it goes off before asynchronous commit goes on, and back on when what that
    /// has acknowledged is durable.
    pub fn set_durable_snapshots(&self, on: bool) {
        self.durable_snapshots.store(on, Ordering::Relaxed);
    }

    /// Whether what scans and counts answer from metadata is compared with plain reading; a difference is fatal. Off by
    /// default.
    pub fn verify_answers(&self) -> bool {
        self.verify_answers.load(Ordering::Relaxed)
    }

    /// Sets whether answers are verified, of scans and counts that begin from now on.
    pub fn set_verify_answers(&self, on: bool) {
        self.verify_answers.store(on, Ordering::Relaxed);
    }

    /// Whether the row locks of a commit that has its place in the log go at once.
    #[inline]
    pub(crate) fn locks_go_at_once(&self) -> bool {
        self.early_lock_release() || self.async_commit()
    }
}
