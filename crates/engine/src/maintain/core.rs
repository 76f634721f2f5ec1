//! The open engine without its handle: what transactions share, and everything around it that works in the background.
//!
//! Neighbours: the handle (`engine`) opens it; `Workers` drive it; transactions reach it through the handle.
//!
//! **Invariants**
//! - It has the data directory for itself until it is dropped.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use esker_vfs::{DirLock, Env};
use esker_wal::LogReader;

use super::{Maintenance, ingest};
use crate::batch::WriteSet;
use crate::budget::Charge;
use crate::commit::env::{Background, Ingest};
use crate::config::{EngineConfig, Mode};
use crate::recovery::{self, Recovery, ReplayLimits, Target};
use crate::tree::{Recovered, Tree};
use crate::txn::TxnEnv;
use crate::{Result, TreeId};

/// What all handles share.
pub(crate) struct Core {
    pub(crate) config: EngineConfig,
    pub(crate) env: Arc<TxnEnv>,
    pub(crate) maintenance: Maintenance,
    pub(crate) recovery: Arc<Recovery>,
    /// What the replay begins with.
    pub(crate) recovered: Recovered,
    /// If a part of the log was given up: the trees that have something of it.
    pub(crate) trees_ahead: Option<Vec<TreeId>>,
    /// Disk, clock and randomness.
    pub(crate) disk: Env,
    /// A backup is being taken.
    pub(crate) is_backed_up: Arc<AtomicBool>,
    pub(crate) _log_buffer: Charge,
    /// Nobody else has the data directory. Dropped last.
    pub(crate) _lock: Box<dyn DirLock>,
}

impl Core {
    /// Replays the log, as far as the mode says.
    pub(crate) fn replay(&self, log: LogReader) -> Result<()> {
        let target = Target {
            trees: &self.env.trees,
            counters: &self.env.commit.counters,
            locks: &self.env.commit.locks,
            prepared: &self.env.prepared,
            recovered: &self.recovered,
            limits: ReplayLimits {
                memtable_bytes: self.config.memtable_bytes,
                memory_bytes: self.env.commit.budget.memtables_hard(),
            },
            recovery: &self.recovery,
        };
        let is_daemon = self.config.mode == Mode::Daemon;
        let threads = if is_daemon {
            self.config.recovery_threads
        } else {
            1
        };
        let weigh = || {
            // A full disk only keeps slots from being used until the next start.
            if let Err(error) = self.env.trees.unstage_all_but(&self.env.prepared.ingests()) {
                tracing::warn!(%error, "extents of transactions that did not commit stay until the next start");
            }
            self.account_memory();
        };
        recovery::replay(
            log,
            &target,
            self.config.recovery,
            threads,
            weigh,
            is_daemon,
        )?;
        let progress = self.recovery.progress();
        tracing::info!(
            bytes = progress.bytes_total,
            records = progress.records,
            rows = progress.rows,
            milliseconds = progress.elapsed.as_millis() as u64,
            "the log is replayed"
        );
        Ok(())
    }

    /// Ends background work.
    pub(crate) fn stop(&self) {
        self.recovery.stop();
        self.env.trees.cancel_compactions();
        self.maintenance.stop();
    }
}

impl Background for Core {
    fn ready(&self) -> Result<()> {
        self.recovery.ready()
    }

    #[inline]
    fn admit_writer(&self, writes: &WriteSet) -> Result<()> {
        self.admit(writes)
    }

    #[inline]
    fn memtable_has(&self, tree: &Tree, bytes: usize) {
        if bytes >= self.config.memtable_bytes {
            self.memtable_is_full(tree);
        }
    }

    fn stage<'a>(
        &'a self,
        writes: &mut WriteSet,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn Ingest + 'a>>> {
        ingest::stage(self, writes, go_on)
    }
}
