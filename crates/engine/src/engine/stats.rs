//! Figures about an engine: memory, log, storage, waits.
//!
//! Neighbours: each part counts for itself; `information_schema.ESKER_…` shows it.
//!
//! **Invariants**
//! - Figures are read one after the other, without a lock: they need not be of the same moment.

use esker_wal::{LogSpace, WaitCause, WalStats};

use super::Engine;
use crate::budget::{BytesUsed, MemoryUse};
use crate::cache::CacheStats;
use crate::maintain::{StallCause, Stalls};
use crate::pool::ScanStats;
use crate::recovery::ReplayStats;
use crate::tree::StorageStats;

/// Figures about an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineStats {
    /// Memory of all memtables, and of what was replayed and is not flushed.
    pub memtable_bytes: usize,
    /// What memory is used for.
    pub memory: MemoryStats,
    /// What happened in the block cache.
    pub cache: CacheStats,
    /// Commits that were held back because background work was behind.
    pub stalls: [(StallCause, Stalls); StallCause::ALL.len()],
    /// Waits for row locks.
    pub lock_waits: u64,
    /// Deadlocks broken.
    pub deadlocks: u64,
    /// What the replay at the start did.
    pub replayed: ReplayStats,
    /// What scans by several threads have done.
    pub scans: ScanStats,
    /// What the log has done.
    pub log: WalStats,
    /// The files of the log.
    pub log_space: LogSpace,
    /// Where the next record of the log will begin.
    pub log_end: u64,
    /// A restart replays the log from here on, as of the last checkpoint.
    pub log_needed_from: u64,
    /// Data files and manifest.
    pub storage: StorageStats,
}

impl EngineStats {
    /// Commits that were held back, for whatever cause.
    pub fn writer_stalls(&self) -> u64 {
        self.stalls.iter().map(|(_, stalls)| stalls.count).sum()
    }
}

/// What the memory of an engine is used for, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// What all together may have.
    pub limit: u64,
    /// What all together have.
    pub total: BytesUsed,
    /// Memtables that are not flushed, and what was replayed from the log; writers wait at the limit.
    pub memtables: BytesUsed,
    /// See `memtables`.
    pub memtables_limit: u64,
    /// Memtables that were flushed and are still read.
    pub lingering_memtables: BytesUsed,
    /// Blocks, filters and indexes in the cache.
    pub cache: BytesUsed,
    /// See `cache`.
    pub cache_limit: u64,
    /// Blocks, filters and indexes in use outside the cache.
    pub blocks_outside: BytesUsed,
    /// What is known of every extent without reading it.
    pub extent_metadata: BytesUsed,
    /// The log buffer; all of it from the start.
    pub log_buffer: BytesUsed,
    /// Write sets and commit records of transactions.
    pub transactions: BytesUsed,
    /// Row locks, as of the last look.
    pub row_locks: BytesUsed,
    /// Buffers of flushes, compactions and index builds, and what is read ahead.
    pub background: BytesUsed,
    /// Sorts, hash tables and buffers of statements.
    pub statements: BytesUsed,
    /// Buffers of the temporary files of statements.
    pub temp_files: BytesUsed,
    /// Of those who follow the log.
    pub followers: BytesUsed,
}

impl Engine {
    /// Figures about the engine now.
    pub fn stats(&self) -> EngineStats {
        let (lock_waits, deadlocks) = self.core.env.commit.locks.counts();
        let mut log = self.core.env.commit.log.stats();
        log.set_waits(WaitCause::Lock, self.core.env.commit.held.waits());
        EngineStats {
            memtable_bytes: self.core.env.commit.budget.unflushed(),
            memory: self.memory_stats(),
            cache: self.core.env.trees.store().cache.stats(),
            stalls: self.core.maintenance.stalls.sample(),
            lock_waits,
            deadlocks,
            log,
            log_space: self.core.env.commit.log.space(),
            log_end: self.core.env.commit.log.end(),
            log_needed_from: self.core.maintenance.log_from(),
            storage: self.core.env.trees.stats(),
            replayed: self.core.recovery.stats(),
            scans: self.core.env.scans.stats(),
        }
    }

    /// What memory is used for.
    fn memory_stats(&self) -> MemoryStats {
        let budget = &self.core.env.commit.budget;
        let used = |what| budget.used_and_peak(what);
        let derived = budget.derived();
        MemoryStats {
            limit: budget.limit() as u64,
            total: derived.total,
            memtables: derived.unflushed,
            memtables_limit: budget.memtables_hard() as u64,
            lingering_memtables: derived.lingering,
            cache: derived.cached,
            cache_limit: budget.cache_capacity() as u64,
            blocks_outside: derived.blocks_outside,
            extent_metadata: used(MemoryUse::ExtentMetadata),
            log_buffer: used(MemoryUse::LogBuffer),
            transactions: used(MemoryUse::Transactions),
            row_locks: used(MemoryUse::RowLocks),
            background: used(MemoryUse::Background),
            statements: used(MemoryUse::Statements),
            temp_files: used(MemoryUse::TempFiles),
            followers: used(MemoryUse::Followers),
        }
    }
}
