//! The engine's facade: trees, transactions, durability, maintenance.
//!
//! Neighbours: everything of this crate meets here, and little is decided here.
//!
//! Parts: `two_phase` (prepared transactions, and a second log that decides) · `stats` (figures).
//!
//! **Invariants**
//! - `Engine` is a handle; when the last one goes, the background threads end. Nothing needs to be written then: what
//!   was acknowledged is in the log.

mod stats;
mod two_phase;

use std::io::ErrorKind;
use std::sync::{Arc, OnceLock};

use esker_vfs::{DirLock, Env};
use esker_wal::{FlushMode, FlushPolicy, Lsn, Wal, WalConfig};

use crate::batch::{Spiller, WriteSet};
use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::bulk::TreeBuilder;
use crate::cache::BlockCache;
use crate::commit;
use crate::commit::acks::Acks;
use crate::commit::counters::Counters;
use crate::commit::entry::EntryBuffers;
use crate::commit::env::{Background, CommitEnv, Ingest};
use crate::commit::log::Durable;
use crate::commit::record::CounterChange;
use crate::commit::switches::Switches;
use crate::compact::Effort;
use crate::config::{EngineConfig, Mode};
use crate::follow::Follower;
use crate::lock::{DeadlockObserver, LockManager};
use crate::maintain::{Core, Maintenance, Workers};
use crate::pool::ScanPool;
use crate::recovery::{
    self, ForceRecovery, Recovery, RecoveryMode, ReplayPhase, ReplayProgress, Replayed,
};
use crate::tree::{SuperVersion, Tree, Trees, TreesConfig};
use crate::txn::ordered;
use crate::txn::prepared::PreparedTable;
use crate::txn::{Commit, Home, Isolation, Txn, TxnEnv, TxnLimits};
use crate::{EngineError, Result, Seq, TreeId};

pub use stats::{EngineStats, MemoryStats};

/// An open engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    core: Arc<Core>,
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
        budget.set_process(env.resident, env.heap);
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
        let commit = CommitEnv::new(wal, locks, counters, budget, env.clock.clone());
        let txn_env = Arc::new(TxnEnv {
            commit,
            trees,
            snapshots: Arc::default(),
            prepared: PreparedTable::default(),
            ordered: OnceLock::new(),
            scans,
            spiller: Spiller::new(config.mode == Mode::Daemon),
            limits: TxnLimits {
                bytes: config.max_txn_bytes,
                memory_bytes: config.txn_memory_bytes,
            },
            on_fatal: Arc::clone(&config.on_fatal),
        });
        let core = Arc::new(Core {
            _log_buffer: log_buffer,
            config,
            env: txn_env,
            maintenance: Maintenance::new(from.0, env.clock.clone()),
            recovery: Recovery::new(env.clock.clone(), log.bytes()),
            recovered,
            trees_ahead,
            disk: env,
            is_backed_up: Arc::default(),
            _lock: lock,
        });
        if from == Lsn(0) {
            // From now on a missing log is an error.
            core.checkpoint(Lsn::FIRST.0, Lsn::FIRST.0)?;
        }
        let listener = Arc::downgrade(&core);
        core.env.commit.budget.set_alarm(move || {
            if let Some(core) = listener.upgrade() {
                core.maintenance.ask_for_flush();
            }
        });
        let workers = Arc::new(Workers::start(&core, log)?);
        Ok(Engine {
            core,
            _workers: workers,
        })
    }

    /// What all handles share.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// How far the replay of the log is.
    pub fn replay(&self) -> ReplayProgress {
        self.core.recovery.progress()
    }

    /// Resolves when the log is read and statements may run; with an error if it cannot be replayed (damage), or the
    /// engine is shut down meanwhile.
    pub fn wait_replayed(&self) -> Replayed {
        Replayed::new(&self.core.recovery, ReplayPhase::Sorting)
    }

    /// Resolves when nothing of the replay is left to do in the background.
    pub fn wait_built(&self) -> Replayed {
        Replayed::new(&self.core.recovery, ReplayPhase::Done)
    }

    /// Makes a tree. On return it survives a crash.
    pub fn create_tree(&self) -> Result<Tree> {
        self.core.recovery.ready()?;
        // What is not durable yet a crash may take back, and give its sequences to others.
        self.core.env.trees.create(self.core.env.commit.settled())
    }

    /// Removes a tree. The caller guarantees that nobody begins to use it; readers that are in it go on. Everything
    /// committed before is durable on return, so no crash takes back what made the tree superfluous.
    pub fn drop_tree(&self, id: TreeId) -> Result<()> {
        self.core.recovery.ready()?;
        self.core
            .env
            .commit
            .log
            .harden(self.core.env.commit.log.end())?;
        self.core.env.trees.drop_tree(id)?;
        self.core.env.commit.counters.remove(id);
        Ok(())
    }

    /// The tree with this id.
    pub fn tree(&self, id: TreeId) -> Option<Tree> {
        self.core.env.trees.get(id)
    }

    /// All trees, ascending.
    pub fn tree_ids(&self) -> Vec<TreeId> {
        self.core.env.trees.all().iter().map(Tree::id).collect()
    }

    /// Asserts the invariants of lock queues, snapshots and trees: for simulations and tests, while nothing else uses
    /// the engine.
    pub fn validate(&self) {
        self.core.env.commit.locks.validate();
        let (durable, visible) = (self.durable_seq(), self.visible_seq());
        self.core.env.snapshots.validate(visible);
        for tree in self.core.env.trees.all().iter() {
            tree.validate();
            assert!(
                tree.flushed_seq() <= durable.max(visible),
                "a flush follows the log"
            );
        }
    }

    /// Begins a transaction. It can be used for one transaction after the other.
    ///
    /// Blocks until the log is read: a snapshot of a part of it would show what never was. If that has failed,
    /// everything the transaction does is refused with the reason.
    pub fn begin(&self, isolation: Isolation) -> Txn {
        Txn::new(&self.core.env, &self.home(), isolation)
    }

    fn home(&self) -> Arc<dyn Home> {
        Arc::new(self.clone())
    }

    /// If this opening gave up a part of the log ([`ForceRecovery::PointInTime`]): the trees that were flushed later
    /// and have something of it, so that they do not agree with the others.
    pub fn trees_ahead(&self) -> Option<&[TreeId]> {
        self.core.trees_ahead.as_deref()
    }

    /// What can be switched off while the engine runs.
    pub fn switches(&self) -> &Switches {
        &self.core.env.commit.switches
    }

    /// Whether writers are slowed down or held because background work is behind: a commit may then block its thread
    /// for up to a second, or until there is relief. Whoever must not block commits on another thread meanwhile.
    #[inline]
    pub fn holds_writers(&self) -> bool {
        self.core.holds_writers()
    }

    /// Everything up to here survives a crash.
    #[inline]
    pub fn durable_seq(&self) -> Seq {
        self.core.env.commit.durable_seq()
    }

    /// Everything up to here is seen by new snapshots.
    pub fn visible_seq(&self) -> Seq {
        self.core.env.commit.watermark.visible()
    }

    /// Resolves when `seq` survives a crash, every later snapshot sees it, and whoever has to acknowledge it has: then
    /// a reply may be given. With asynchronous commit it does not wait for the log.
    pub fn wait_durable(&self, seq: Seq) -> Durable {
        self.core.env.commit.wait_durable(seq)
    }

    /// Asks the log to make durable what was committed, and waits for nothing: for commits whose sessions do not wait
    /// for the log. Until it is durable new snapshots do not have it.
    pub fn request_flush(&self) {
        if !self.core.env.commit.switches.async_commit() {
            self.core.env.commit.log.request_flush();
        }
    }

    /// Makes `seq` durable on this thread, if the device is idle and quick; false if it was not done. For a caller
    /// that has nothing else to do: handing over to the log's thread and back would take longer. What
    /// [`Engine::wait_durable`] returns is ready afterwards, or soon.
    ///
    /// # Errors
    /// The log has failed.
    pub fn harden_if_quick(&self, seq: Seq) -> Result<bool> {
        Ok(!self.core.env.commit.switches.async_commit()
            && self.core.env.commit.log.harden_if_quick(seq)?)
    }

    /// What a reply that depends on `seq` has to await; `None` if it may be given now.
    #[inline]
    pub fn to_await(&self, seq: Seq) -> Option<Durable> {
        (!self.may_be_told(seq)).then(|| self.wait_durable(seq))
    }

    /// Whether a reply that depends on `seq` may be given: what [`Engine::wait_durable`] waits for.
    #[inline]
    pub fn may_be_told(&self, seq: Seq) -> bool {
        self.core.env.commit.may_be_told(seq)
    }

    /// From now on replies, and the snapshots of other sessions, also wait until what they depend on was acknowledged
    /// ([`Engine::acknowledge`]): for semi-synchronous replication, and for a log beside this one that decides. What
    /// was told stays told: up to what this returns nobody has to.
    pub fn require_acknowledgement(&self) -> Seq {
        let commit = &self.core.env.commit;
        let hold = |taken| commit.gate.hold(taken, || commit.log.end());
        commit.log.while_nothing_is_taken(hold)
    }

    /// Whoever has to acknowledge has done so for everything up to `seq`.
    pub fn acknowledge(&self, seq: Seq) {
        self.core.env.commit.gate.acknowledge(seq);
    }

    /// Nobody has to acknowledge any more; whoever waits for that goes on.
    pub fn stop_requiring_acknowledgement(&self) {
        self.core.env.commit.gate.release();
    }

    /// Logs an attachment that belongs to no transaction, for those who follow the log. It is durable with the returned
    /// sequence; recovery does not look at it. Where a second log decides it goes there, and is durable on return: the
    /// sequence is 0.
    ///
    /// # Panics
    /// If it has no bytes.
    pub fn note(&self, attachment: &[u8]) -> Result<Seq> {
        self.core.recovery.ready()?;
        if self.is_decided_elsewhere() {
            return ordered::note(&self.core.env, self, attachment).map(|()| 0);
        }
        let mut buffers = EntryBuffers::default();
        commit::note(&self.core.env.commit, &mut buffers, [&[], attachment])
    }

    /// Follows the attachments of the log from the first record on that ends behind `from`, or from the first that is
    /// kept, if that comes later. The log stays from there on under this name; another follower of the same name must
    /// be gone.
    ///
    /// # Errors
    /// The log cannot be read there.
    pub fn follow(&self, name: &'static str, from: Seq) -> Result<Follower> {
        Follower::new(self.core.env.commit.log.wal(), name, from)
    }

    /// Keeps nothing of the log for this follower any more.
    ///
    /// # Errors
    /// The log cannot be recycled.
    pub fn unfollow(&self, name: &'static str) -> Result<()> {
        Ok(self.core.env.commit.log.wal().unpin(name)?)
    }

    /// While a follower cannot go on, and the log is kept for it: changes are refused as on a full disk once the log
    /// ends here, but for a little that makes room. `None`: it may grow as far as there is space.
    pub fn limit_log(&self, ceiling: Option<Seq>) {
        self.core.env.commit.log.set_ceiling(ceiling);
    }

    /// The value of the counter of a tree; 0 if it never had one. Blocks until the log is read; if that has failed, the
    /// value is that of the last checkpoint, and no number beyond it can be reserved.
    pub fn counter(&self, tree: TreeId) -> u64 {
        let _ = self.core.recovery.ready();
        self.core.env.commit.counters.get(tree)
    }

    /// Raises a counter outside a transaction. Numbers up to `value` may be given to the world when the returned
    /// sequence is durable.
    pub fn reserve_counter(&self, tree: TreeId, value: u64) -> Result<Seq> {
        self.change_counter(CounterChange::Raise, tree, value)
    }

    /// Sets a counter, also to a lower value.
    pub fn set_counter(&self, tree: TreeId, value: u64) -> Result<Seq> {
        self.change_counter(CounterChange::Set, tree, value)
    }

    fn change_counter(&self, how: CounterChange, tree: TreeId, value: u64) -> Result<Seq> {
        self.core.recovery.ready()?;
        let change = || {
            let seq = commit::change_counter(&self.core.env.commit, how, tree, value)?;
            Ok(Commit { seq: Some(seq) })
        };
        Ok(self.alone(change)?.seq.unwrap_or(0))
    }

    /// Begins to fill a tree that was just made and that nobody else knows. About `memory_bytes` are used for sorting;
    /// what comes sorted needs none of it.
    ///
    /// # Panics
    /// The tree is not empty.
    pub fn build_tree(&self, tree: &Tree, memory_bytes: usize) -> TreeBuilder {
        let env = &self.core.env;
        TreeBuilder::new(
            &env.trees,
            tree,
            env.commit.settled(),
            memory_bytes,
            &env.commit.budget,
        )
    }

    /// Ends the tree's active memtable: what is written later lies apart from what is there now.
    pub fn seal(&self, tree: &Tree) {
        // Everything up to the watermark is in the tables that are ended.
        tree.rotate(self.visible_seq());
    }

    /// Writes and syncs the log (manual mode).
    pub fn flush_log(&self) -> Result<()> {
        self.core.env.commit.log.flush()
    }

    /// Runs one background job that is due (manual mode); false if none is.
    pub fn maintain(&self) -> Result<bool> {
        Ok(self.core.flush_step()? || self.core.compact_step(Effort::Full)?)
    }

    /// Writes everything in memory to extents and lets go of the log.
    pub fn flush_all(&self) -> Result<()> {
        self.core.recovery.ready()?;
        self.core.flush_all()
    }

    /// Compacts until nothing is due, and nothing is being compacted in the background either.
    pub fn compact(&self) -> Result<()> {
        loop {
            while self.core.compact_step(Effort::Full)? {}
            if !self.core.env.trees.wait_for_compactions() {
                return Ok(());
            }
        }
    }

    /// Brings all that a tree has, in memory and on disk, to the lowest level, without versions that nobody can see,
    /// and gives the space that this frees back to the file system.
    ///
    /// # Errors
    /// A full disk, damage, the engine stops.
    pub fn sink(&self, tree: &Tree) -> Result<()> {
        self.core.recovery.ready()?;
        // Deletes that are in memory only free nothing below.
        self.core.flush_tree(tree)?;
        let oldest = self
            .core
            .env
            .snapshots
            .oldest(|| self.core.env.commit.stable());
        debug_assert!(oldest <= self.visible_seq(), "snapshots are of the past");
        self.core.env.trees.sink_tree(tree, oldest)?;
        self.core.env.trees.trim_all()
    }

    /// Hardens and closes the log. Commits fail from here on; reads go on.
    ///
    /// Memtables are not flushed: the next start replays them from the log, at most [`EngineConfig::log_limit_bytes`]
    /// of it. Whoever would rather wait now than then calls [`Engine::flush_all`] first.
    pub fn shutdown(&self) -> Result<()> {
        self.core.stop();
        self.core.env.commit.log.shutdown()
    }

    /// The threads that help with scans.
    pub fn scans(&self) -> &ScanPool {
        &self.core.env.scans
    }

    /// Changes how many threads help with scans; 0 for as many as there are processors.
    pub fn set_scan_threads(&self, threads: usize) {
        let limit = helpers(self.core.config.mode, threads);
        self.core.env.scans.set_limit(limit);
    }

    /// The memory of this engine: to see who has how much, and to charge what the run above keeps for its statements.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.core.env.commit.budget
    }

    /// Changes [`EngineConfig::memory_limit`]. Less takes effect as fast as memtables can be flushed.
    pub fn set_memory_limit(&self, bytes: usize) {
        self.core.env.commit.budget.set_limit(bytes);
        self.core.maintenance.ask_for_flush();
    }

    /// Changes when the log is flushed, from the next group on. Values out of range are brought into it.
    pub fn set_flush_policy(&self, policy: &FlushPolicy) {
        self.core.env.commit.log.set_flush_policy(policy);
    }

    /// When the log is flushed.
    pub fn flush_policy(&self) -> FlushPolicy {
        self.core.env.commit.log.flush_policy()
    }

    /// Has every deadlock told, while its members still wait; the first observer stays.
    pub fn observe_deadlocks(&self, observer: DeadlockObserver) {
        self.core.env.commit.locks.observe(observer);
    }
}

impl Acks {
    /// An empty queue for the calling thread.
    pub fn new(engine: &Engine) -> Acks {
        Acks::of(&engine.core.env.commit)
    }
}

impl Background for Engine {
    fn ready(&self) -> Result<()> {
        self.core.ready()
    }

    #[inline]
    fn admit_writer(&self, writes: &WriteSet) -> Result<()> {
        self.core.admit_writer(writes)
    }

    #[inline]
    fn memtable_has(&self, tree: &Tree, bytes: usize) {
        self.core.memtable_has(tree, bytes);
    }

    fn stage<'a>(
        &'a self,
        writes: &mut WriteSet,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn Ingest + 'a>>> {
        self.core.stage(writes, go_on)
    }
}

/// A transaction has a handle of the engine for this, so that background work goes on while it lives.
impl Home for Engine {
    fn check_tombstone_skips(&self, now: &SuperVersion) {
        self.core.look_at_tombstones(now);
    }

    fn account_locks(&self) {
        self.core.add_up_locks();
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

#[cfg(test)]
pub(crate) mod tests {
    use esker_vfs::sim::SimEnv;

    use super::*;
    use crate::commit::entry::Entry;

    /// An engine on a simulated disk without background threads.
    pub(crate) fn memory_engine() -> Engine {
        engine_on(&SimEnv::new(1))
    }

    /// The same on this machine.
    pub(crate) fn engine_on(machine: &SimEnv) -> Engine {
        Engine::open(machine.env(), config()).expect("opens")
    }

    pub(crate) fn config() -> EngineConfig {
        let mut config = EngineConfig::new("/db");
        config.mode = Mode::Manual;
        config.max_txn_bytes = 8 << 20;
        config.log_segment_bytes = 1 << 20;
        config.log_buffer_bytes = 1 << 20;
        config
    }

    #[test]
    fn a_commit_is_not_told_before_what_came_before_it_is_applied() {
        let engine = memory_engine();
        let tree = engine.create_tree().expect("made");
        // Another session has its place in the log and has not inserted its rows yet.
        let commit = &engine.core.env.commit;
        let mut buffers = EntryBuffers::default();
        let earlier = Entry::note(&mut buffers, [&b"earlier"[..], &[]]);
        let earlier = earlier.append(&commit.log, false).expect("room");
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
        earlier.complete(&commit.watermark);
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
