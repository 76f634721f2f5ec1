//! Background maintenance: rotating and flushing memtables, compaction, checkpoints, and write stalls.
//!
//! Neighbours: `decide` says what is due; `tree` and `compact` do the work on disk; `commit` asks to be admitted
//! (`admit`, `throttle`, `stalls`), says when a memtable is full, and brings extents (`ingest`).
//!
//! `core` is the open engine that all this works on.
//!
//! **Invariants**
//! - Nothing is done for memory or log before the log is replayed: until then the replay keeps its memory below the
//!   limit itself, and what it has not read must stay.
//! - What is flushed is durable in the log first: an extent never holds a version that a crash could take from the log,
//!   and no flushed sequence lies behind what a crash could take.
//! - A memtable is flushed only when it is quiescent (sealed, and no committer still inserts).
//! - The log is released only up to a point that the manifest names as its start, together with the counters as of
//!   then.
//! - Memory is counted by the budget; here it is kept to the share that memtables have.
//! - A full disk is not fatal: the job is tried again later, and writers are told when memory runs out, or level 0 is
//!   full, meanwhile. Neither is an extent that cannot be read: compaction goes on without it, and writers are told
//!   when that is not possible. An error of the device is tried again a few times: the job begins anew, and nothing of
//!   it is in force. (A failed sync is none of these: what was to be durable may be gone, and the engine has stopped
//!   already.) Any other failure of background work ends the engine's life through `on_fatal`.

mod admit;
mod core;
mod decide;
mod ingest;
mod stalls;
mod throttle;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use esker_vfs::Clock;
use esker_wal::LogReader;
use parking_lot::{Condvar, Mutex, MutexGuard};

pub(crate) use self::core::Core;
use crate::budget::MemoryUse;
use crate::compact::{Effort, tombstones_amplify_reads};
use crate::config::Mode;
use crate::tree::{SuperVersion, Tree};
use crate::txn::LOCK_BYTES;
use crate::{EngineError, Result};
use decide::{Cause, Job, Limits, Load, MIN_DELETES, TreeLoad};
use stalls::StallCounters;
pub use stalls::{StallCause, Stalls};
use throttle::Throttle;

/// Most threads that compact, each another tree.
pub(crate) const MAX_COMPACTION_THREADS: usize = 16;
/// A thread for so many processors, ...
const PROCESSORS_PER_COMPACTION_THREAD: usize = 2;
/// ... and not more than this, unless they are asked for.
const USUAL_COMPACTION_THREADS: usize = 4;

/// A look at the picture without being asked.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a full disk, or an error of the device.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// So many errors of the device in a row end a thread, and with it the engine.
const IO_ATTEMPTS: u32 = 5;
/// Pause while a committer still inserts into a sealed memtable.
const QUIESCE_POLL: Duration = Duration::from_millis(1);

/// What is shared between committers and the background.
pub(crate) struct Maintenance {
    /// Start of the log as of the last checkpoint.
    log_from: AtomicU64,
    /// Threads whose last flush found the disk full.
    flush_finds_no_space: AtomicUsize,
    /// Threads whose last compaction did.
    compaction_finds_no_space: AtomicUsize,
    pub(crate) stalls: StallCounters,
    /// Writers pass here when background work begins to fall behind.
    throttle: Throttle,
    /// Writers were slowed down or held since the last picture in which nobody had to be.
    holds_writers: AtomicBool,
    clock: Arc<dyn Clock>,
    /// Held by the committer who switches a full memtable.
    rotating: Mutex<()>,
    /// Held while a memtable is hardened and flushed.
    flushing: Mutex<()>,
    signal: Mutex<Signal>,
    changed: Condvar,
    /// Writers that are held back wait here.
    freed: Condvar,
}

#[derive(Default)]
struct Signal {
    flush: bool,
    /// Threads that are to look for something to compact.
    compact: usize,
    stop: bool,
}

impl Signal {
    fn take_flush(&mut self) -> bool {
        std::mem::take(&mut self.flush)
    }

    fn take_compact(&mut self) -> bool {
        debug_assert!(self.compact <= MAX_COMPACTION_THREADS);
        let is_asked = self.compact > 0;
        self.compact = self.compact.saturating_sub(1);
        is_asked
    }
}

impl Maintenance {
    pub(crate) fn new(log_from: u64, clock: Arc<dyn Clock>) -> Self {
        Maintenance {
            log_from: AtomicU64::new(log_from),
            flush_finds_no_space: AtomicUsize::new(0),
            compaction_finds_no_space: AtomicUsize::new(0),
            stalls: StallCounters::default(),
            throttle: Throttle::default(),
            holds_writers: AtomicBool::new(false),
            clock,
            rotating: Mutex::new(()),
            flushing: Mutex::new(()),
            signal: Mutex::new(Signal::default()),
            changed: Condvar::new(),
            freed: Condvar::new(),
        }
    }

    pub(crate) fn ask_for_flush(&self) {
        self.signal.lock().flush = true;
        self.changed.notify_all();
    }

    fn ask_for_compaction(&self) {
        self.signal.lock().compact = MAX_COMPACTION_THREADS;
        self.changed.notify_all();
    }

    /// The right to flush. Of two that flush the same tree one would write what the other has hardened.
    pub(crate) fn flushing(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }

    pub(crate) fn log_from(&self) -> u64 {
        self.log_from.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.signal.lock().stop = true;
        self.changed.notify_all();
        self.freed.notify_all();
    }

    /// Sleeps until `take` finds its signal, or for `pause`. False when it is time to stop.
    fn wait(&self, pause: Duration, take: impl Fn(&mut Signal) -> bool) -> bool {
        let mut signal = self.signal.lock();
        if !signal.stop && !take(&mut signal) {
            self.changed.wait_for(&mut signal, pause);
            take(&mut signal);
        }
        !signal.stop
    }
}

impl Core {
    /// Switches a memtable that has grown to its limit.
    #[cold]
    pub(crate) fn memtable_is_full(&self, tree: &Tree) {
        // Of the many committers who notice at once, one switches; for the others the table is fresh again.
        let Some(_switching) = self.maintenance.rotating.try_lock() else {
            return;
        };
        if tree.superversion().active.bytes() >= self.config.memtable_bytes && self.rotate(tree) {
            self.env.trees.note(|work| work.rotations.full += 1);
            self.maintenance.ask_for_flush();
        }
    }

    /// Whether there was anything in it.
    fn rotate(&self, tree: &Tree) -> bool {
        // Every record up to here is inserted already, so into the table that ends its life now or an earlier one.
        let flushed_seq = self.env.commit.watermark.visible();
        tree.rotate(flushed_seq)
    }

    /// A reader comes to a tree: if deletes there have hindered others enough, they are taken away soon.
    #[inline]
    pub(crate) fn look_at_tombstones(&self, now: &SuperVersion) {
        let active = &now.active;
        let replayed = now.replayed.last();
        if tombstones_amplify_reads(active.tombstones_skipped(), active.entries())
            || replayed.is_some_and(|run| {
                tombstones_amplify_reads(run.tombstones_skipped(), run.entries())
            })
        {
            self.maintenance.ask_for_flush();
        }
    }

    fn load(&self) -> Load {
        let visible = self.env.commit.watermark.visible();
        // Before the memtables: what leaves this table is in a memtable by then.
        let prepared_first_lsn = self.env.prepared.first_lsn();
        let trees = self.env.trees.all();
        let load = Load {
            trees: trees
                .iter()
                .map(|tree| tree_load(tree, self.env.trees.limits().l0_slowdown_runs))
                .collect(),
            replayed_bytes: replayed_bytes(&trees),
            prepared_first_lsn,
            visible,
            log_from: self.maintenance.log_from.load(Ordering::Relaxed),
            segments: self.env.commit.log.segment_starts(),
            limits: Limits {
                memory_bytes: self.env.commit.budget.memtables_soft(),
                log_bytes: self.config.log_limit_bytes,
                checkpoint_bytes: self.config.log_segment_bytes,
            },
        };
        self.env
            .commit
            .budget
            .set(MemoryUse::Replayed, load.replayed_bytes);
        self.add_up_locks();
        self.env.commit.budget.sample(load.memtable_bytes());
        self.note_relief(&trees);
        load
    }

    /// Adds up the memory that is in use.
    pub(crate) fn account_memory(&self) {
        self.load();
    }

    /// Adds up the memory of row and range locks.
    pub(crate) fn add_up_locks(&self) {
        let bytes = self.env.commit.locks.places() * LOCK_BYTES as usize;
        self.env.commit.budget.set(MemoryUse::RowLocks, bytes);
    }

    /// Does the most urgent job for memory and log; false if none is due.
    pub(crate) fn flush_step(&self) -> Result<bool> {
        if !self.recovery.is_ready() {
            return Ok(false);
        }
        let load = self.load();
        let Some(job) = load.decide() else {
            return Ok(false);
        };
        match job {
            Job::Flush(id) => {
                if let Some(tree) = self.env.trees.get(id) {
                    self.flush_oldest(&tree, &self.maintenance.flushing())?;
                }
                self.load();
                self.maintenance.freed.notify_all();
                self.maintenance.ask_for_compaction();
            }
            Job::Rotate(id, cause) => {
                if let Some(tree) = self.env.trees.get(id)
                    && self.rotate(&tree)
                {
                    self.env.trees.note(|work| match cause {
                        Cause::Memory => work.rotations.memory += 1,
                        Cause::Deletes => work.rotations.deletes += 1,
                        Cause::TombstoneSkips => work.rotations.tombstone_skips += 1,
                    });
                }
            }
            Job::Checkpoint { log_from } => self.checkpoint(load.visible, log_from)?,
        }
        Ok(true)
    }

    /// Does one compaction; false if none is due.
    pub(crate) fn compact_step(&self, effort: Effort<'_>) -> Result<bool> {
        if !self.recovery.is_ready() && self.recovery.stats().flushes == 0 {
            // The replay has better use for the processors.
            return Ok(false);
        }
        let oldest = self.env.snapshots.oldest(|| self.env.commit.stable());
        let done = self.env.trees.compact_one(oldest, effort)?;
        self.maintenance.freed.notify_all();
        Ok(self.env.trees.trim()? || done)
    }

    /// Switches and flushes everything, then lets go of the log.
    pub(crate) fn flush_all(&self) -> Result<()> {
        for tree in self.env.trees.all() {
            self.rotate(&tree);
        }
        for tree in self.env.trees.all() {
            self.flush_tree(&tree)?;
        }
        let load = self.load();
        self.checkpoint(load.visible, load.needed_from())
    }

    /// Rotates a tree's memtable, and flushes all that the tree has in memory.
    pub(crate) fn flush_tree(&self, tree: &Tree) -> Result<()> {
        self.rotate(tree);
        while self.flush_oldest(tree, &self.maintenance.flushing())? {}
        Ok(())
    }

    /// Writes the oldest replayed run or immutable memtable of a tree to extents; false if there is none.
    pub(crate) fn flush_oldest(&self, tree: &Tree, _flushing: &MutexGuard<'_, ()>) -> Result<bool> {
        let now = Arc::clone(&tree.superversion());
        // What was replayed is durable.
        if now.replayed.is_empty() {
            let Some(table) = now.immutables.last() else {
                return Ok(false);
            };
            while !table.is_quiescent() {
                thread::sleep(QUIESCE_POLL);
            }
            // The flushed sequence may lie behind the last version of the table, where others have committed meanwhile.
            // If a crash took that part of the log, its sequences would be given again, and replay would skip them.
            let flushed_seq = tree.oldest_quiescent().map_or(0, |(_, point)| point);
            self.env
                .commit
                .log
                .harden(table.max_seq().max(flushed_seq))?;
        }
        drop(now);
        self.env
            .trees
            .flush(tree, self.env.snapshots.oldest(|| self.env.commit.stable()))
    }

    pub(crate) fn checkpoint(&self, as_of: u64, log_from: u64) -> Result<()> {
        assert!(
            log_from <= as_of,
            "the log is needed from what is visible on"
        );
        let counters = self.env.commit.counters.all();
        // The counters may show the effect of records beyond `as_of`, which a crash must not take back.
        self.env.commit.log.harden(self.env.commit.log.end())?;
        self.env.trees.checkpoint(log_from, as_of, &counters)?;
        self.maintenance.log_from.store(log_from, Ordering::Relaxed);
        self.env.commit.log.release_below(log_from)
    }
}

fn tree_load(tree: &Tree, l0_slowdown_runs: usize) -> TreeLoad {
    let superversion = tree.superversion();
    let immutables = superversion.immutables.iter();
    let active_deletes = superversion.active.deletes();
    let oldest_run = superversion.replayed.last();
    TreeLoad {
        id: tree.id(),
        active_entries: superversion.active.entries(),
        active_deletes,
        active_steps: superversion.active.tombstones_skipped(),
        // Nobody asks, and all extents would have to be looked at.
        stored_entries: match active_deletes < MIN_DELETES {
            true => 0,
            false => superversion.version.totals().entries,
        },
        active_bytes: superversion.active.allocated_bytes(),
        // A committer may have announced itself and inserted nothing yet: then the watermark is still before its
        // record, and there is nothing to rotate.
        active_first_lsn: match superversion.active.is_empty() {
            true => u64::MAX,
            false => superversion.active.first_lsn(),
        },
        // An immutable table that is (still) empty has to be flushed, too.
        immutable_bytes: immutables
            .clone()
            .map(|table| table.allocated_bytes().max(1))
            .sum(),
        immutable_first_lsn: immutables
            .map(|table| table.first_lsn())
            .fold(u64::MAX, u64::min),
        replayed_bytes: superversion.replayed.iter().map(|run| run.bytes()).sum(),
        replayed_first_lsn: superversion
            .replayed
            .iter()
            .map(|run| run.first_lsn())
            .fold(u64::MAX, u64::min),
        replayed_entries: oldest_run.map_or(0, |run| run.entries()),
        replayed_steps: oldest_run.map_or(0, |run| run.tombstones_skipped()),
        has_l0_backlog: superversion.version.levels().l0_runs().len() >= l0_slowdown_runs / 2,
    }
}

/// Memory of all replayed runs. Runs of different trees share buffers, which are there until the last of them is
/// flushed.
fn replayed_bytes(trees: &[Tree]) -> usize {
    let mut buffers = BTreeMap::new();
    let mut entries = 0;
    for tree in trees {
        for run in &tree.superversion().replayed {
            entries += run.entry_bytes();
            let (identity, bytes) = run.shared_bytes();
            buffers.insert(identity, bytes);
        }
    }
    entries + buffers.values().sum::<usize>()
}

/// The background threads; they end when this is dropped.
pub(crate) struct Workers {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Replays the log and starts the threads: in manual mode the replay is over on return, and there are no threads.
    pub(crate) fn start(core: &Arc<Core>, log: LogReader) -> Result<Self> {
        let mut workers = Workers {
            core: Arc::clone(core),
            threads: Vec::new(),
        };
        if core.config.mode == Mode::Manual {
            core.replay(log)?;
        } else {
            workers.spawn_replay(log)?;
            workers.spawn(WorkerRole {
                name: "esker-flush",
                is_asked: Signal::take_flush,
                step: Core::flush_step,
                finds_no_space: |maintenance| &maintenance.flush_finds_no_space,
            })?;
            for _ in 0..compaction_threads(core.config.compaction_threads) {
                workers.spawn(WorkerRole {
                    name: "esker-compact",
                    is_asked: Signal::take_compact,
                    step: |core| {
                        let is_in_use = || core.env.snapshots.is_any_taken();
                        core.compact_step(Effort::Considerate(&is_in_use))
                    },
                    finds_no_space: |maintenance| &maintenance.compaction_finds_no_space,
                })?;
            }
        }
        Ok(workers)
    }

    fn spawn_replay(&mut self, log: LogReader) -> Result<()> {
        let core = Arc::clone(&self.core);
        let builder = thread::Builder::new().name("esker-replay".into());
        let thread = builder.spawn(move || {
            let abandoned = Abandoned(&core);
            // Whoever waits is told of the error.
            match core.replay(log) {
                Ok(()) => {}
                Err(error @ EngineError::Stopped(_)) => {
                    tracing::info!(%error, "replaying ended before its time; the next start begins again");
                }
                Err(error) => tracing::error!(%error, "the log could not be replayed"),
            }
            drop(abandoned);
            core.maintenance.ask_for_flush();
            core.maintenance.ask_for_compaction();
        });
        self.threads
            .push(thread.map_err(|e| EngineError::io("starting a thread", e))?);
        Ok(())
    }

    fn spawn(&mut self, role: WorkerRole) -> Result<()> {
        let core = Arc::clone(&self.core);
        let builder = thread::Builder::new().name(role.name.into());
        let thread = builder.spawn(move || work(&core, &role));
        self.threads
            .push(thread.map_err(|e| EngineError::io("starting a thread", e))?);
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.core.stop();
        for thread in self.threads.drain(..) {
            // The last handle may be dropped by a worker's own callback; nobody joins itself.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!("a background thread of the engine panicked");
            }
        }
    }
}

/// Lets nobody wait for a replay that has panicked.
struct Abandoned<'a>(&'a Core);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let error = EngineError::Stopped("the replay ended early".into());
        self.0.recovery.fail(error);
    }
}

/// What a background thread does.
struct WorkerRole {
    name: &'static str,
    is_asked: fn(&mut Signal) -> bool,
    step: fn(&Core) -> Result<bool>,
    /// Writers wait for this role when memory runs out or level 0 is full, so they must hear of a full disk.
    finds_no_space: fn(&Maintenance) -> &AtomicUsize,
}

/// How many threads compact, if so many were asked for.
fn compaction_threads(wanted: usize) -> usize {
    match wanted {
        0 => {
            let processors = thread::available_parallelism().map_or(1, usize::from);
            (processors / PROCESSORS_PER_COMPACTION_THREAD).clamp(1, USUAL_COMPACTION_THREADS)
        }
        wanted => wanted.min(MAX_COMPACTION_THREADS),
    }
}

fn work(core: &Core, role: &WorkerRole) {
    let maintenance = &core.maintenance;
    let mut pause = Duration::ZERO;
    let mut found_no_space = false;
    let mut io_errors = 0;
    while maintenance.wait(pause, role.is_asked) {
        let result = (role.step)(core);
        let finds_no_space = matches!(result, Err(EngineError::DiskFull(_)));
        let threads = (role.finds_no_space)(maintenance);
        match (found_no_space, finds_no_space) {
            (false, true) => threads.fetch_add(1, Ordering::Relaxed),
            (true, false) => {
                let before = threads.fetch_sub(1, Ordering::Relaxed);
                debug_assert!(before > 0, "this thread was counted");
                before
            }
            _ => 0,
        };
        found_no_space = finds_no_space;
        io_errors = match result {
            Err(EngineError::Io { .. }) => io_errors + 1,
            _ => 0,
        };
        pause = match result {
            Ok(more) => {
                if more {
                    Duration::ZERO
                } else {
                    IDLE_INTERVAL
                }
            }
            Err(EngineError::DiskFull(what)) => {
                tracing::warn!("no space on the device: {what}");
                maintenance.freed.notify_all();
                RETRY_PAUSE
            }
            Err(_) if maintenance.signal.lock().stop => return,
            Err(error) if (1..IO_ATTEMPTS).contains(&io_errors) => {
                tracing::error!(%error, attempt = io_errors, of = IO_ATTEMPTS, "background work failed, trying again");
                RETRY_PAUSE
            }
            Err(error) => {
                (core.config.on_fatal)(&format!("background work failed: {error}"));
                return;
            }
        };
    }
}
