//! How an engine is opened.
//!
//! Neighbours: whoever opens an engine makes one; `maintain` and `recovery` keep to it.

use std::path::PathBuf;
use std::sync::Arc;

use esker_wal::LogBufferKind;

use crate::extent::ExtentOptions;
use crate::recovery::{ForceRecovery, RecoveryMode};
use crate::tree::OnFatal;

/// What drives background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Threads of the engine.
    Daemon,
    /// The caller, with [`Engine::maintain`] and [`Engine::flush_log`]: the form for simulations.
    Manual,
}

/// How an engine is opened.
#[derive(Clone)]
pub struct EngineConfig {
    /// The data directory.
    pub dir: PathBuf,
    /// Memory for everything the engine keeps, see [`MemoryBudget`]; what connections and the process itself need is
    /// taken off it, up to a quarter. [`Engine::set_memory_limit`] changes it.
    pub memory_limit: usize,
    /// A memtable is switched at this size.
    pub memtable_bytes: usize,
    /// Largest write set of a transaction (with its locks).
    pub max_txn_bytes: u64,
    /// Memory for the writes of a transaction, if that is a small part of all; what it writes beyond moves to extents.
    pub txn_memory_bytes: u64,
    /// Size of a log segment.
    pub log_segment_bytes: u64,
    /// Size of the log buffer, a power of two.
    pub log_buffer_bytes: usize,
    /// How committers share the log buffer.
    pub log_buffer: LogBufferKind,
    /// Memtables are flushed so that a restart need not replay more log than this.
    pub log_limit_bytes: u64,
    /// How extents are written.
    pub extents: ExtentOptions,
    /// Trees that are compacted at the same time, at most 16; 0 for as many as suit the processors.
    pub compaction_threads: usize,
    /// How the log is replayed.
    pub recovery: RecoveryMode,
    /// Threads of a parallel replay; 0 for as many as there are processors. In manual mode there is one.
    pub recovery_threads: usize,
    /// Threads that help with the scans of all transactions; 0 for as many as there are processors. In manual mode
    /// there are none.
    pub scan_threads: usize,
    /// Who drives background work.
    pub mode: Mode,
    /// Whether a damaged log is opened.
    pub force_recovery: ForceRecovery,
    /// Names of followers for which the log is kept from its beginning until they come ([`Engine::follow`]).
    pub followers: Vec<&'static str>,
    /// Called when the log or the manifest could not be written. The default aborts the process: restart and recovery
    /// are the only way back.
    pub on_fatal: OnFatal,
}

impl EngineConfig {
    /// The usual settings for this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        EngineConfig {
            dir: dir.into(),
            memory_limit: 512 << 20,
            memtable_bytes: 32 << 20,
            max_txn_bytes: 256 << 20,
            txn_memory_bytes: 32 << 20,
            log_segment_bytes: 64 << 20,
            log_buffer_bytes: 16 << 20,
            log_buffer: LogBufferKind::default(),
            log_limit_bytes: 1 << 30,
            extents: ExtentOptions::default(),
            compaction_threads: 0,
            recovery: RecoveryMode::default(),
            recovery_threads: 0,
            scan_threads: 0,
            mode: Mode::Daemon,
            force_recovery: ForceRecovery::Off,
            followers: Vec::new(),
            on_fatal: Arc::new(|message| {
                tracing::error!("fatal: {message}");
                std::process::abort();
            }),
        }
    }

    /// A small engine for tests and simulations, which flushes, compacts and changes segments after few writes, does so
    /// only when it is told to, and reports what is fatal as errors alone.
    pub fn small(dir: impl Into<PathBuf>) -> Self {
        EngineConfig {
            mode: Mode::Manual,
            memory_limit: 1 << 20,
            memtable_bytes: 16 << 10,
            log_segment_bytes: 256 << 10,
            log_buffer_bytes: 64 << 10,
            log_limit_bytes: 512 << 10,
            on_fatal: Arc::new(|_| {}),
            ..EngineConfig::new(dir)
        }
    }
}
