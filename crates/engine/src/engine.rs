//! The engine's facade: trees, transactions, durability, maintenance.
//!
//! Neighbours: everything of this crate meets here, and little is decided here.
//!
//! **Invariants**
//! - `Engine` is a handle; when the last one goes, the background threads end. Nothing needs to be written then: what
//!   was acknowledged is in the log.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use esker_vfs::{DirLock, Env};
use esker_wal::{
    Driven, FlushMode, FlushPolicy, LogBufferKind, LogReader, LogSpace, Lsn, Turn, WaitCause, Wal,
    WalConfig, WalStats,
};

use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::cache::{BlockCache, CacheStats};
use crate::commit;
use crate::commit::counters::Counters;
use crate::commit::entry::{Entry, EntryBuffers};
use crate::commit::held::HeldLocks;
use crate::commit::id::PreparedId;
use crate::commit::log::{Durable, Log};
use crate::commit::record::CounterChange;
use crate::commit::switches::Switches;
use crate::commit::told::told_up_to;
use crate::commit::watermark::Watermark;
use crate::compact::Effort;
use crate::extent::ExtentOptions;
use crate::follow::Follower;
use crate::lock::{LockInfo, LockManager};
use crate::maintain::{Maintenance, StallCause, Stalls, Workers};
use crate::recovery::{
    self, ForceRecovery, Recovery, RecoveryMode, ReplayLimits, ReplayPhase, ReplayProgress,
    ReplayStats, Replayed, Target,
};
use crate::scan::{ScanPool, ScanStats};
use crate::tree::{OnFatal, Recovered, StorageStats, Tree, Trees, TreesConfig};
use crate::txn::prepared::{self, PreparedTable};
use crate::txn::{Commit, Isolation, Snapshots, Txn};
use crate::{EngineError, Result, Seq, TreeId};

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
    /// What drives background work.
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
}

/// The writes of a transaction have one part in so many of the memory, ...
const TXN_SHARE: usize = 16;
/// ... but this much, however small that is.
const LEAST_TXN_BYTES: usize = 1 << 20;

/// What all handles share.
pub(crate) struct Inner {
    pub(crate) config: EngineConfig,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) log: Log,
    pub(crate) trees: Trees,
    pub(crate) watermark: Arc<Watermark>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) locks: Arc<LockManager>,
    pub(crate) held: Arc<HeldLocks>,
    pub(crate) switches: Switches,
    pub(crate) counters: Counters,
    pub(crate) prepared: PreparedTable,
    pub(crate) maintenance: Maintenance,
    scans: ScanPool,
    pub(crate) recovery: Arc<Recovery>,
    /// What the replay begins with.
    recovered: Recovered,
    /// If a part of the log was given up: the trees that have something of it.
    trees_ahead: Option<Vec<TreeId>>,
    _log_buffer: Charge,
    /// Nobody else has the data directory. Dropped last.
    _lock: Box<dyn DirLock>,
}

impl Inner {
    /// Bytes of writes that a transaction keeps in memory.
    #[inline]
    pub(crate) fn txn_memory(&self) -> u64 {
        let share = (self.budget.limit() / TXN_SHARE).max(LEAST_TXN_BYTES);
        self.config.txn_memory_bytes.min(share as u64)
    }

    /// Everything up to here is applied and durable. Never falls.
    pub(crate) fn stable(&self) -> Seq {
        self.watermark.visible().min(self.log.durable())
    }
}

/// An open engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
    _workers: Arc<Workers>,
}

impl Engine {
    /// Opens the data directory, or makes it: reads the manifest, finds the end of the log, and begins to replay it.
    ///
    /// In daemon mode the replay goes on in the background. Whatever needs its result, above all [`Engine::begin`],
    /// blocks until the log is read; whoever must not block awaits [`Engine::wait_replayed`] first. In manual mode the
    /// log is read on return.
    pub fn open(env: Env, config: EngineConfig) -> Result<Engine> {
        let lock = lock_dir(&env, &config)?;
        let budget = MemoryBudget::new(config.memory_limit);
        let resident = env.resident;
        budget.set_resident(move || usize::try_from(resident()?.now).ok());
        let log_buffer = Charge::of(&budget, MemoryUse::LogBuffer, config.log_buffer_bytes);
        let cache = BlockCache::governed(&budget);
        let on_fatal = Arc::clone(&config.on_fatal);
        let mut trees_config = TreesConfig::new(&config.dir, cache, on_fatal);
        trees_config.extents = config.extents.clone();
        let trees = Trees::open(&env, trees_config)?;
        let recovered = trees.recovered();
        let counters = Counters::default();
        for (tree, value) in &recovered.counters {
            counters.apply(CounterChange::Set, *tree, *value, recovered.counters_as_of);
        }
        let from = Lsn(recovered.log_from);
        let mut log_config = log_config(&config, trees.uuid(), from);
        log_config.needs = recovery::needs(&trees, &recovered);
        log_config.point_in_time = config.force_recovery == ForceRecovery::PointInTime;
        let (wal, log) = Wal::create_or_open(&env, log_config, from)?;
        let trees_ahead = log.lost().map(|lost| recovery::newer_trees(&trees, lost));
        tracing::info!(bytes = log.bytes(), torn = log.torn(), "the log is open");
        let locks = LockManager::new([env.random.next_u64(), env.random.next_u64()]);
        let scans = ScanPool::new(helpers(config.mode, config.scan_threads));
        let inner = Inner {
            budget,
            _log_buffer: log_buffer,
            log: Log::new(wal),
            config,
            trees,
            watermark: Watermark::new(log.end().0),
            snapshots: Arc::default(),
            held: HeldLocks::new(&locks, env.clock.clone()),
            switches: Switches::default(),
            locks,
            counters,
            prepared: PreparedTable::default(),
            maintenance: Maintenance::new(from.0, env.clock.clone()),
            scans,
            recovery: Recovery::new(env.clock.clone(), log.bytes()),
            recovered,
            trees_ahead,
            _lock: lock,
        };
        if from == Lsn(0) {
            // From now on a missing log is an error.
            inner.checkpoint(Lsn::FIRST.0, Lsn::FIRST.0)?;
        }
        let inner = Arc::new(inner);
        let listener = Arc::downgrade(&inner);
        inner.budget.set_alarm(move || {
            if let Some(inner) = listener.upgrade() {
                inner.maintenance.ask_for_flush();
            }
        });
        let workers = Arc::new(Workers::start(&inner, log)?);
        Ok(Engine {
            inner,
            _workers: workers,
        })
    }

    /// How far the replay of the log is.
    pub fn replay(&self) -> ReplayProgress {
        self.inner.recovery.progress()
    }

    /// Resolves when the log is read and statements may run; with an error if it cannot be replayed (damage), or the
    /// engine is shut down meanwhile.
    pub fn wait_replayed(&self) -> Replayed {
        Replayed::new(&self.inner.recovery, ReplayPhase::Sorting)
    }

    /// Resolves when nothing of the replay is left to do in the background.
    pub fn wait_built(&self) -> Replayed {
        Replayed::new(&self.inner.recovery, ReplayPhase::Done)
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Makes a tree. On return it survives a crash.
    pub fn create_tree(&self) -> Result<Tree> {
        self.inner.recovery.ready()?;
        // What is not durable yet a crash may take back, and give its sequences to others.
        self.inner.trees.create(self.inner.stable())
    }

    /// Removes a tree. The caller guarantees that nobody begins to use it; readers that are in it go on. Everything
    /// committed before is durable on return, so no crash takes back what made the tree superfluous.
    pub fn drop_tree(&self, id: TreeId) -> Result<()> {
        self.inner.recovery.ready()?;
        self.inner.log.harden(self.inner.log.end())?;
        self.inner.trees.drop_tree(id)?;
        self.inner.counters.remove(id);
        Ok(())
    }

    /// The tree with this id.
    pub fn tree(&self, id: TreeId) -> Option<Tree> {
        self.inner.trees.get(id)
    }

    /// All trees, ascending.
    pub fn tree_ids(&self) -> Vec<TreeId> {
        self.inner.trees.all().iter().map(Tree::id).collect()
    }

    /// Begins a transaction. It can be used for one transaction after the other.
    ///
    /// Blocks until the log is read: a snapshot of a part of it would show what never was. If that has failed,
    /// everything the transaction does is refused with the reason.
    pub fn begin(&self, isolation: Isolation) -> Txn {
        Txn::new(self, isolation)
    }

    /// If this opening gave up a part of the log ([`ForceRecovery::PointInTime`]): the trees that were flushed later
    /// and have something of it, so that they do not agree with the others.
    pub fn trees_ahead(&self) -> Option<&[TreeId]> {
        self.inner.trees_ahead.as_deref()
    }

    /// What can be switched off while the engine runs.
    pub fn switches(&self) -> &Switches {
        &self.inner.switches
    }

    /// Whether writers are slowed down or held because background work is behind: a commit may then block its thread
    /// for up to a second, or until there is relief. Whoever must not block commits on another thread meanwhile.
    #[inline]
    pub fn holds_writers(&self) -> bool {
        self.inner.holds_writers()
    }

    /// Everything up to here survives a crash.
    #[inline]
    pub fn durable_seq(&self) -> Seq {
        let durable = self.inner.log.durable();
        self.inner.held.release_up_to(durable);
        durable
    }

    /// Everything up to here is seen by new snapshots.
    pub fn visible_seq(&self) -> Seq {
        self.inner.watermark.visible()
    }

    /// Resolves when `seq` survives a crash and every later snapshot sees it: then a reply may be given. With
    /// asynchronous commit it only waits for the second.
    pub fn wait_durable(&self, seq: Seq) -> Durable {
        let inner = &self.inner;
        let log = (!inner.switches.async_commit()).then(|| inner.log.wait_durable(seq));
        Durable::new(log, &inner.watermark, &inner.held, seq)
    }

    /// Makes `seq` durable on this thread, if the device is idle and quick; false if it was not done. For a caller
    /// that has nothing else to do: handing over to the log's thread and back would take longer. What
    /// [`Engine::wait_durable`] returns is ready afterwards, or soon.
    ///
    /// # Errors
    /// The log has failed.
    pub fn harden_if_quick(&self, seq: Seq) -> Result<bool> {
        Ok(!self.inner.switches.async_commit() && self.inner.log.harden_if_quick(seq)?)
    }

    /// See `esker_wal::Wal::drive`.
    pub(crate) fn drive(&self, seq: Seq, turn: Turn) -> Result<Driven> {
        self.inner.log.drive(seq, turn)
    }

    /// What a reply that depends on `seq` has to await; `None` if it may be given now.
    #[inline]
    pub fn to_await(&self, seq: Seq) -> Option<Durable> {
        (!self.may_be_told(seq)).then(|| self.wait_durable(seq))
    }

    /// Whether a reply that depends on `seq` may be given: what [`Engine::wait_durable`] waits for.
    #[inline]
    pub fn may_be_told(&self, seq: Seq) -> bool {
        seq <= self.tellable()
    }

    /// The newest sequence of which [`Engine::may_be_told`].
    #[inline]
    pub(crate) fn tellable(&self) -> Seq {
        let waits = !self.inner.switches.async_commit();
        told_up_to(&self.inner.watermark, waits.then(|| self.durable_seq()))
    }

    /// Second phase of a two-phase commit: commits what was prepared under `id`. The record of the decision gets this
    /// attachment, if it has bytes.
    pub fn commit_prepared(&self, id: &PreparedId, attachment: &[u8]) -> Result<Commit> {
        self.inner.recovery.ready()?;
        prepared::commit_prepared(&self.inner, id, attachment)
    }

    /// Second phase of a two-phase commit: forgets what was prepared under `id`. The record of the decision gets this
    /// attachment, if it has bytes.
    pub fn rollback_prepared(&self, id: &PreparedId, attachment: &[u8]) -> Result<Commit> {
        self.inner.recovery.ready()?;
        prepared::rollback_prepared(&self.inner, id, attachment)
    }

    /// Logs an attachment that belongs to no transaction, for those who follow the log. It is durable with the returned
    /// sequence; recovery does not look at it.
    ///
    /// # Panics
    /// If it has no bytes.
    pub fn note(&self, attachment: &[u8]) -> Result<Seq> {
        self.inner.recovery.ready()?;
        let mut buffers = EntryBuffers::default();
        commit::note(&self.inner, &mut buffers, [&[], attachment])
    }

    /// Follows the attachments of the log from the first record on that ends behind `from`, or from the first that is
    /// kept, if that comes later. The log stays from there on under this name; another follower of the same name must
    /// be gone.
    ///
    /// # Errors
    /// The log cannot be read there.
    pub fn follow(&self, name: &'static str, from: Seq) -> Result<Follower> {
        Follower::new(self.inner.log.wal(), name, from)
    }

    /// Keeps nothing of the log for this follower any more.
    ///
    /// # Errors
    /// The log cannot be recycled.
    pub fn unfollow(&self, name: &'static str) -> Result<()> {
        Ok(self.inner.log.wal().unpin(name)?)
    }

    /// Identifiers of the prepared transactions that wait for a decision, with the sequences of their prepare records.
    /// Blocks until the log is read; if that has failed, there are none.
    pub fn prepared(&self) -> Vec<(PreparedId, Seq)> {
        if self.inner.recovery.ready().is_err() {
            return Vec::new();
        }
        self.inner.prepared.list()
    }

    /// Number of prepared transactions, those included about which a decision is being logged. Blocks until the log is
    /// read.
    pub fn prepared_count(&self) -> usize {
        let _ = self.inner.recovery.ready();
        self.inner.prepared.count()
    }

    /// What the transaction prepared under `id` has locked, at most `limit` locks; none if it does not wait for a
    /// decision.
    pub fn locks_of_prepared(&self, id: &PreparedId, limit: usize) -> Vec<LockInfo> {
        self.inner.prepared.locks(id, &self.inner.locks, limit)
    }

    /// Trees that the transaction prepared under `id` has written to or holds locks in, ascending; none if it does not
    /// wait for a decision.
    pub fn trees_of_prepared(&self, id: &PreparedId) -> Vec<TreeId> {
        let _ = self.inner.recovery.ready();
        self.inner.prepared.trees(id, &self.inner.locks)
    }

    /// The value of the counter of a tree; 0 if it never had one. Blocks until the log is read; if that has failed, the
    /// value is that of the last checkpoint, and no number beyond it can be reserved.
    pub fn counter(&self, tree: TreeId) -> u64 {
        let _ = self.inner.recovery.ready();
        self.inner.counters.get(tree)
    }

    /// Raises a counter outside a transaction. Numbers up to `value` may be given to the world when the returned
    /// sequence is durable.
    pub fn reserve_counter(&self, tree: TreeId, value: u64) -> Result<Seq> {
        self.inner.change_counter(CounterChange::Raise, tree, value)
    }

    /// Sets a counter, also to a lower value.
    pub fn set_counter(&self, tree: TreeId, value: u64) -> Result<Seq> {
        self.inner.change_counter(CounterChange::Set, tree, value)
    }

    /// Writes and syncs the log (manual mode).
    pub fn flush_log(&self) -> Result<()> {
        self.inner.log.flush()
    }

    /// Runs one background job that is due (manual mode); false if none is.
    pub fn maintain(&self) -> Result<bool> {
        Ok(self.inner.flush_step()? || self.inner.compact_step(Effort::Full)?)
    }

    /// Writes everything in memory to extents and lets go of the log.
    pub fn flush_all(&self) -> Result<()> {
        self.inner.recovery.ready()?;
        self.inner.flush_all()
    }

    /// Compacts until nothing is due, and nothing is being compacted in the background either.
    pub fn compact(&self) -> Result<()> {
        loop {
            while self.inner.compact_step(Effort::Full)? {}
            if !self.inner.trees.wait_for_compactions() {
                return Ok(());
            }
        }
    }

    /// Brings all that a tree has on disk to the lowest level, without versions that nobody can see, and gives the
    /// space that this frees back to the file system. What is in memory stays there.
    ///
    /// # Errors
    /// A full disk, damage, the engine stops.
    pub fn sink(&self, tree: &Tree) -> Result<()> {
        self.inner.recovery.ready()?;
        let oldest = self.inner.snapshots.oldest(|| self.inner.stable());
        self.inner.trees.sink_tree(tree, oldest)?;
        while self.inner.trees.trim()? {}
        Ok(())
    }

    /// Hardens and closes the log. Commits fail from here on; reads go on.
    ///
    /// Memtables are not flushed: the next start replays them from the log, at most [`EngineConfig::log_limit_bytes`]
    /// of it. Whoever would rather wait now than then calls [`Engine::flush_all`] first.
    pub fn shutdown(&self) -> Result<()> {
        self.inner.stop();
        self.inner.log.shutdown()
    }

    /// The threads that help with scans.
    pub fn scans(&self) -> &ScanPool {
        &self.inner.scans
    }

    /// Changes how many threads help with scans; 0 for as many as there are processors.
    pub fn set_scan_threads(&self, threads: usize) {
        let limit = helpers(self.inner.config.mode, threads);
        self.inner.scans.set_limit(limit);
    }

    /// The memory of this engine: to see who has how much, and to charge what the run above keeps for its statements.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.inner.budget
    }

    /// Changes [`EngineConfig::memory_limit`]. Less takes effect as fast as memtables can be flushed.
    pub fn set_memory_limit(&self, bytes: usize) {
        self.inner.budget.set_limit(bytes);
        self.inner.maintenance.ask_for_flush();
    }

    /// Changes when the log is flushed, from the next group on. Values out of range are brought into it.
    pub fn set_flush_policy(&self, policy: &FlushPolicy) {
        self.inner.log.set_flush_policy(policy);
    }

    /// When the log is flushed.
    pub fn flush_policy(&self) -> FlushPolicy {
        self.inner.log.flush_policy()
    }

    /// Figures about the engine now.
    pub fn stats(&self) -> EngineStats {
        let (lock_waits, deadlocks) = self.inner.locks.counts();
        let mut log = self.inner.log.stats();
        log.set_waits(WaitCause::Lock, self.inner.held.waits());
        EngineStats {
            memtable_bytes: self.inner.budget.unflushed(),
            memory: self.inner.memory(),
            cache: self.inner.trees.store().cache.stats(),
            stalls: self.inner.maintenance.stalls.sample(),
            lock_waits,
            deadlocks,
            log,
            log_space: self.inner.log.space(),
            log_end: self.inner.log.end(),
            log_needed_from: self.inner.maintenance.log_from(),
            storage: self.inner.trees.stats(),
            replayed: self.inner.recovery.stats(),
            scans: self.inner.scans.stats(),
        }
    }
}

/// Threads that help with scans.
fn helpers(mode: Mode, asked: usize) -> usize {
    match (mode, asked) {
        (Mode::Manual, _) => 0,
        (Mode::Daemon, 0) => std::thread::available_parallelism().map_or(1, usize::from),
        (Mode::Daemon, asked) => asked,
    }
}

fn lock_dir(env: &Env, config: &EngineConfig) -> Result<Box<dyn DirLock>> {
    let dir = config.dir.display();
    let io = |error| EngineError::io(format!("opening the data directory {dir}"), error);
    env.fs.create_dir_all(&config.dir).map_err(io)?;
    env.fs
        .lock_dir(&config.dir)
        .map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => EngineError::InUse(dir.to_string().into()),
            _ => io(error),
        })
}

/// The log is read in pieces of at most this share of the memory.
const TASKS_PER_MEMORY: u64 = 64;

/// The settings of the log. Where nothing was ever stored the log may be new.
fn log_config(config: &EngineConfig, cluster: [u8; 16], from: Lsn) -> WalConfig {
    let on_fatal = Arc::clone(&config.on_fatal);
    let mut log = WalConfig::new(config.dir.join("wal"));
    log.segment_bytes = config.log_segment_bytes;
    log.buffer_bytes = config.log_buffer_bytes;
    log.log_buffer = config.log_buffer;
    log.mode = match config.mode {
        Mode::Daemon => FlushMode::Daemon,
        Mode::Manual => FlushMode::Manual,
    };
    log.cluster = cluster;
    log.reading.task_bytes = log
        .reading
        .task_bytes
        .min(config.memory_limit as u64 / TASKS_PER_MEMORY);
    if config.recovery == RecoveryMode::SerialSync {
        log.reading.read_ahead_bytes = 0;
    }
    log.create = from == Lsn(0);
    log.pins.clone_from(&config.followers);
    log.on_fatal = Box::new(move |message| on_fatal(message));
    log
}

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
    pub total: u64,
    /// Memtables that are not flushed, and what was replayed from the log; writers wait at the limit.
    pub memtables: u64,
    /// See `memtables`.
    pub memtables_limit: u64,
    /// Memtables that were flushed and are still read.
    pub lingering_memtables: u64,
    /// Blocks, filters and indexes in the cache.
    pub cache: u64,
    /// See `cache`.
    pub cache_limit: u64,
    /// Blocks, filters and indexes in use outside the cache.
    pub blocks_outside: u64,
    /// What is known of every extent without reading it.
    pub extent_metadata: u64,
    /// The log buffer; all of it from the start.
    pub log_buffer: u64,
    /// Write sets and commit records of transactions.
    pub transactions: u64,
    /// Row locks, as of the last look.
    pub row_locks: u64,
    /// Buffers of flushes, compactions and index builds, and what is read ahead.
    pub background: u64,
    /// Sorts, hash tables and buffers of statements.
    pub statements: u64,
    /// Buffers of the temporary files of statements.
    pub temp_files: u64,
}

impl Inner {
    /// Replays the log, as far as the mode says.
    pub(crate) fn replay(&self, log: LogReader) -> Result<()> {
        let target = Target {
            trees: &self.trees,
            counters: &self.counters,
            locks: &self.locks,
            prepared: &self.prepared,
            recovered: &self.recovered,
            limits: ReplayLimits {
                memtable_bytes: self.config.memtable_bytes,
                memory_bytes: self.budget.memtables_hard(),
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
            if let Err(error) = self.trees.unstage_all() {
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
        tracing::info!(progress = ?self.recovery.progress(), "the log is replayed");
        Ok(())
    }

    /// Ends background work.
    pub(crate) fn stop(&self) {
        self.recovery.stop();
        self.trees.cancel_compactions();
        self.maintenance.stop();
    }

    fn memory(&self) -> MemoryStats {
        let budget = &self.budget;
        let used = |what| budget.used(what) as u64;
        MemoryStats {
            limit: budget.limit() as u64,
            total: budget.total() as u64,
            memtables: budget.unflushed() as u64,
            memtables_limit: budget.memtables_hard() as u64,
            lingering_memtables: budget.lingering() as u64,
            cache: self.trees.store().cache.used_bytes(),
            cache_limit: budget.cache_capacity() as u64,
            blocks_outside: budget.blocks_outside() as u64,
            extent_metadata: used(MemoryUse::ExtentMetadata),
            log_buffer: used(MemoryUse::LogBuffer),
            transactions: used(MemoryUse::Transactions),
            row_locks: used(MemoryUse::RowLocks),
            background: used(MemoryUse::Background),
            statements: used(MemoryUse::Statements),
            temp_files: used(MemoryUse::TempFiles),
        }
    }

    fn change_counter(&self, how: CounterChange, tree: TreeId, value: u64) -> Result<Seq> {
        self.recovery.ready()?;
        let mut buffers = EntryBuffers::default();
        let entry = Entry::counter_change(how, tree, value, &mut buffers);
        let place = entry.append(&self.log, false)?;
        self.counters.apply(how, tree, value, place.seq);
        Ok(place.complete(&self.watermark))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use esker_vfs::sim::SimEnv;

    use super::*;

    /// An engine on a simulated disk without background threads.
    pub(crate) fn memory_engine() -> Engine {
        engine_on(&SimEnv::new(1))
    }

    /// The same on this machine.
    pub(crate) fn engine_on(machine: &SimEnv) -> Engine {
        let mut config = EngineConfig::new("/db");
        config.mode = Mode::Manual;
        config.max_txn_bytes = 8 << 20;
        config.log_segment_bytes = 1 << 20;
        config.log_buffer_bytes = 1 << 20;
        Engine::open(machine.env(), config).expect("opens")
    }

    #[test]
    fn a_commit_is_not_told_before_what_came_before_it_is_applied() {
        let engine = memory_engine();
        let tree = engine.create_tree().expect("made");
        // Another session has its place in the log and has not inserted its rows yet.
        let log = &engine.inner().log;
        let mut buffers = EntryBuffers::default();
        let earlier = Entry::note(&mut buffers, [b"earlier", &[]]);
        let earlier = earlier.append(log, false).expect("room");
        let mut txn = engine.begin(Isolation::RepeatableRead);
        txn.put(&tree, b"key", b"value").expect("no conflict");
        let seq = txn.commit().expect("commits").seq.expect("it wrote");
        engine.flush_log().expect("the disk works");
        assert!(engine.durable_seq() >= seq);
        let sees = |engine: &Engine| {
            let reader = engine.begin(Isolation::RepeatableRead);
            let found = reader.get(&tree, b"key", crate::View::Snapshot);
            found.expect("readable").is_some()
        };
        assert!(!sees(&engine) && !engine.may_be_told(seq));
        let waiting = engine.to_await(seq).expect("there is something to await");
        earlier.complete(&engine.inner().watermark);
        waiting.block().expect("the log works");
        assert!(sees(&engine) && engine.to_await(seq).is_none());
    }

    #[test]
    fn compacting_waits_for_what_others_are_compacting() {
        let engine = memory_engine();
        let tree = engine.create_tree().expect("made");
        let other = tree.compacting();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| engine.compact());
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!waiting.is_finished());
            drop(other);
            waiting.join().expect("no panic").expect("compacts");
        });
    }
}
