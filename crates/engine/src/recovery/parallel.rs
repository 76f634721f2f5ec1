//! The parallel replay: several threads collect, then several threads sort.
//!
//! Neighbours: `dispatch` hands the log out, `collect` takes it in, `collection` makes runs of it; `mod` starts all
//! this.
//!
//! Steps: a sample of the log gives the borders of the shards → every thread takes tasks and collects → what is
//! complete is settled and becomes runs, which trees take into their superversions → statements may run → shards that
//! nobody has needed yet are sorted.
//!
//! **Invariants**
//! - With one thread, everything runs on the caller's, in an order that only the log decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use esker_wal::{BlockSummary, LogReader, Record, RecordKind, Replay, Task};
use parking_lot::Mutex;

use super::Target;
use super::collect::{Collector, Plan};
use super::collection::Collection;
use super::dispatch::{Dispatch, MemoryLimits, Step};
use super::progress::Recovery;
use super::two_phase::{Prepare, TwoPhase};
use crate::codec::Malformed;
use crate::commit::record::Reader;
use crate::replayed::route::Router;
use crate::replayed::run::ReplayedRun;
use crate::{EngineError, Result};

/// Bytes of the log that one shard is worth.
const SHARD_LOG_BYTES: u64 = 2 << 20;
/// Shards of all trees together are about at most this many.
const MAX_SHARDS: u64 = 1024;
/// For the borders of shards one block per so many bytes of the log is looked at, within limits: a block has at most 1
/// MiB.
const SAMPLE_LOG_BYTES: u64 = 16 << 20;
const MIN_SAMPLED_BLOCKS: u64 = 8;
const MAX_SAMPLED_BLOCKS: u64 = 64;
/// Keys of a tree in the sample.
const MAX_SAMPLED_KEYS: usize = 16 << 10;

impl Replay for Collector<'_> {
    type Error = EngineError;

    fn record(&mut self, record: Record<'_>) -> Result<()> {
        Collector::record(self, &record)
    }
}

/// Which blocks are wanted.
pub(super) struct Blocks<'a>(pub(super) &'a Plan);

impl Replay for Blocks<'_> {
    type Error = EngineError;

    fn wants_block(&mut self, block: &BlockSummary<'_>) -> bool {
        self.0.wants_block(block)
    }

    fn record(&mut self, _: Record<'_>) -> Result<()> {
        Ok(())
    }
}

/// Reads the log. On return the trees have everything, and statements may run; the runs are to be sorted.
pub(super) fn read(
    log: &LogReader,
    target: &Target<'_>,
    threads: usize,
) -> Result<Vec<Arc<ReplayedRun>>> {
    let plan = plan(log, target);
    let limits = MemoryLimits::new(target.limits.memory_bytes, log.bytes());
    let dispatch = Dispatch::new(log, limits);
    let job = Job {
        log,
        target,
        plan: &plan,
        two_phase: Mutex::new(TwoPhase::new(target.recovered.log_from)),
        threads,
        kept: Mutex::default(),
    };
    let failures = on_threads(threads, || {
        let mut ending = Ending {
            dispatch: &dispatch,
            is_well: false,
        };
        job.collect(&dispatch)?;
        ending.is_well = true;
        Ok(())
    });
    if let Some(first) = failures
        .into_iter()
        .min_by_key(|failure: &Failure| failure.at)
    {
        return Err(first.error);
    }
    let (mut collection, peak_bytes) = dispatch.finish();
    let recovery = target.recovery;
    recovery
        .peak_bytes
        .store(peak_bytes as u64, Ordering::Relaxed);
    recovery.check_stop()?;
    let mut runs = job
        .finalize(&mut collection)
        .map(|()| job.install(collection))?;
    runs.append(&mut job.kept.lock());
    let two_phase = job.two_phase.into_inner();
    two_phase.finish(target.trees, target.locks, target.prepared)?;
    Ok(runs)
}

/// Sorts what nobody has needed yet.
pub(super) fn sort(runs: &[Arc<ReplayedRun>], recovery: &Recovery, threads: usize) -> Result<()> {
    let shards: Vec<(&ReplayedRun, usize)> = runs
        .iter()
        .flat_map(|run| (0..run.shard_count()).map(|shard| (&**run, shard)))
        .collect();
    let next = AtomicUsize::new(0);
    let failures = on_threads(threads, || {
        while let Some((run, shard)) = shards.get(next.fetch_add(1, Ordering::Relaxed)) {
            recovery.check_stop()?;
            run.shard(*shard);
        }
        Ok(())
    });
    failures.into_iter().next().map_or(Ok(()), Err)
}

/// Why a thread has ended early.
struct Failure {
    /// Where it was in the log. What was handed out before is read to its end by whoever has it, so of several failures
    /// the one with the smallest place is the first of the log: the damage that people have to be told of.
    at: u64,
    error: EngineError,
}

impl Failure {
    fn at(at: u64) -> impl Fn(EngineError) -> Failure {
        move |error| Failure { at, error }
    }
}

/// Does the same on several threads, one of them the caller's. Gives what went wrong.
fn on_threads<E: Send>(threads: usize, work: impl Fn() -> Result<(), E> + Sync) -> Vec<E> {
    debug_assert!(threads > 0, "this thread is one of them");
    thread::scope(|scope| {
        let spawn = |_| {
            let builder = thread::Builder::new().name("esker-replay".into());
            builder.spawn_scoped(scope, &work)
        };
        // A thread that cannot be had is not missed: the others do its work.
        let others: Vec<_> = (1..threads).flat_map(spawn).collect();
        let mut failures = Vec::from_iter(work().err());
        for other in others {
            failures.extend(other.join().expect("the replay does not panic").err());
        }
        failures
    })
}

/// The end of a thread: if it is not well, also a panic, the others end, too.
struct Ending<'a, 'd> {
    dispatch: &'a Dispatch<'d>,
    is_well: bool,
}

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        if !self.is_well {
            self.dispatch.fail();
        }
    }
}

struct Job<'a> {
    log: &'a LogReader,
    target: &'a Target<'a>,
    plan: &'a Plan,
    two_phase: Mutex<TwoPhase>,
    threads: usize,
    /// Runs that a full disk has kept in memory.
    kept: Mutex<Vec<Arc<ReplayedRun>>>,
}

impl Job<'_> {
    /// What every thread does while there is log left.
    fn collect(&self, dispatch: &Dispatch<'_>) -> Result<(), Failure> {
        /// Behind everything that was handed out.
        const NOWHERE: u64 = u64::MAX;
        let mut collector = Collector::new(self.plan);
        let mut blocks = Blocks(self.plan);
        let mut seat = dispatch.seat();
        loop {
            let stopped = self.target.recovery.check_stop();
            stopped.map_err(Failure::at(NOWHERE))?;
            let next = dispatch.next(&mut seat, &mut blocks, || collector.take());
            match next.map_err(Failure::at(NOWHERE))? {
                Step::Read(task) => {
                    let before = collector.bytes();
                    let read = self.read_task(&task, &mut collector);
                    read.map_err(Failure::at(task.first().0))?;
                    debug_assert!(collector.bytes() >= before, "what is collected stays");
                    dispatch.collected(&seat, collector.bytes() - before);
                }
                Step::Flush(collection, bytes) => {
                    let end = collection.end();
                    match self.flush(collection).map_err(Failure::at(end))? {
                        true => dispatch.flushed(bytes),
                        false => dispatch.kept(),
                    }
                }
                Step::End => {
                    dispatch.leave(seat, collector.take());
                    return Ok(());
                }
            }
        }
    }

    fn read_task(&self, task: &Task, collector: &mut Collector<'_>) -> Result<()> {
        let recovery = self.target.recovery;
        let before = (collector.records(), collector.rows());
        debug_assert!(task.first() < task.end());
        self.log.read(task, collector)?;
        collector.end_task();
        let add = |to: &AtomicU64, more| to.fetch_add(more, Ordering::Relaxed);
        add(&recovery.records, collector.records() - before.0);
        add(&recovery.rows, collector.rows() - before.1);
        add(&recovery.bytes_done, task.end().0 - task.first().0);
        Ok(())
    }

    /// Brings prepares and decisions of a collection together, and what was committed as extents to its trees.
    fn finalize(&self, collection: &mut Collection) -> Result<()> {
        let mut two_phase = self.two_phase.lock();
        // Before the runs of this collection, which may have newer versions of the same keys, come and are flushed.
        for (seq, ingest) in collection.take_ingests() {
            self.target.trees.ingest(ingest, seq);
        }
        let counters = self.target.counters;
        let committed = collection.finalize(self.plan, &mut two_phase, counters, self.threads)?;
        let recovery = self.target.recovery;
        recovery.rows.fetch_add(committed, Ordering::Relaxed);
        Ok(())
    }

    /// Gives every tree its run.
    fn install(&self, collection: Collection) -> Vec<Arc<ReplayedRun>> {
        let recovery = self.target.recovery;
        let runs = collection.into_runs(self.plan, &recovery.shards_sorted);
        for (tree, run) in &runs {
            tree.add_replayed(Arc::clone(run));
            let shards = run.shard_count() as u64;
            recovery.shards_total.fetch_add(shards, Ordering::Relaxed);
        }
        runs.into_iter().map(|(_, run)| run).collect()
    }

    /// Turns a collection into extents. It is complete, so its end is the flushed sequence; and it is durable, because
    /// nothing else is replayed. False if the disk is full: what was not flushed stays in memory, more of which is used
    /// than was allowed, for without that the database could not be opened, and nothing in it be deleted.
    fn flush(&self, mut collection: Collection) -> Result<bool> {
        let recovery = self.target.recovery;
        recovery.flushes.fetch_add(1, Ordering::Relaxed);
        self.finalize(&mut collection)?;
        let end = collection.end();
        let mut is_full = false;
        for (tree, run) in collection.into_runs(self.plan, &recovery.shards_sorted) {
            tree.add_replayed(Arc::clone(&run));
            // Nobody has a snapshot yet: of every key the newest version is enough.
            while !is_full {
                match self.target.trees.flush(&tree, end) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(EngineError::DiskFull(what)) => {
                        tracing::warn!("the log is kept in memory, beyond its limit: {what}");
                        is_full = true;
                    }
                    Err(error) => return Err(error),
                }
            }
            if is_full {
                let shards = run.shard_count() as u64;
                recovery.shards_total.fetch_add(shards, Ordering::Relaxed);
                self.kept.lock().push(run);
            }
        }
        Ok(!is_full)
    }
}

/// What is wanted of the log, and where shards begin.
fn plan(log: &LogReader, target: &Target<'_>) -> Plan {
    let mut plan = Plan::whole(target.trees, target.recovered);
    let shards = (log.bytes() / SHARD_LOG_BYTES).min(MAX_SHARDS);
    if shards > 1 {
        let mut sample = Sample::new(&plan, shards);
        let blocks = log.bytes() / SAMPLE_LOG_BYTES;
        let blocks = blocks.clamp(MIN_SAMPLED_BLOCKS, MAX_SAMPLED_BLOCKS);
        // Without it, or with less of it, shards are only uneven. What cannot be read is an error where it is needed.
        if let Err(error) = log.sample(blocks as usize, &mut sample) {
            tracing::debug!(%error, "the sample of the log is not complete");
        }
        let routers = sample.into_routers();
        for (tree, router) in plan.trees.iter_mut().zip(routers) {
            tree.router = Arc::new(router);
        }
    }
    plan
}

/// Keys of some blocks.
struct Sample<'a> {
    plan: &'a Plan,
    shards: u64,
    /// By index in the plan.
    trees: Vec<TreeSample>,
}

/// Keys of a tree: one of every `step` that were met.
struct TreeSample {
    keys: Vec<Box<[u8]>>,
    step: u64,
    met: u64,
    /// Bytes of all rows that were met.
    bytes: u64,
}

impl TreeSample {
    fn new() -> Self {
        TreeSample {
            keys: Vec::new(),
            step: 1,
            met: 0,
            bytes: 0,
        }
    }

    fn add(&mut self, key: &[u8], bytes: usize) {
        self.bytes += bytes as u64;
        self.met += 1;
        if !self.met.is_multiple_of(self.step) {
            return;
        }
        if self.keys.len() == MAX_SAMPLED_KEYS {
            let mut is_kept = false;
            self.keys.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.step *= 2;
        }
        self.keys.push(key.into());
        debug_assert!(self.keys.len() <= MAX_SAMPLED_KEYS && self.step.is_power_of_two());
    }

    /// Borders for the share of `shards` shards that the tree has of `total` bytes.
    fn router(&self, shards: u64, total: u64) -> Router {
        debug_assert!(self.bytes <= total, "a tree has a part of all bytes");
        let shards = shards * self.bytes / total.max(1) + 1;
        let keys = self.keys.iter().map(|key| &**key).collect();
        Router::from_sample(keys, shards as usize)
    }
}

impl<'a> Sample<'a> {
    fn new(plan: &'a Plan, shards: u64) -> Self {
        Sample {
            plan,
            shards,
            trees: plan.trees.iter().map(|_| TreeSample::new()).collect(),
        }
    }

    fn add(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        let mut reader = match record.kind {
            RecordKind::Commit => {
                let mut reader = Reader::new(record.payload)?;
                reader.counters(|_, _| ())?;
                reader
            }
            RecordKind::Prepare => Prepare::body(record.payload)?,
            _ => return Ok(()),
        };
        for _ in 0..reader.trees()? {
            let (tree, writes) = reader.tree_writes()?;
            let wanted = self.plan.wanted(tree, record.end.0);
            for _ in 0..writes {
                let write = reader.write()?;
                if let Some(index) = wanted {
                    self.trees[index].add(write.key, write.encoded.len());
                }
            }
        }
        Ok(())
    }

    /// Every tree gets its share of the shards.
    fn into_routers(self) -> Vec<Router> {
        let total = self.trees.iter().map(|tree| tree.bytes).sum();
        let trees = self.trees.iter();
        trees.map(|tree| tree.router(self.shards, total)).collect()
    }
}

impl Replay for Sample<'_> {
    type Error = EngineError;

    fn wants_block(&mut self, block: &BlockSummary<'_>) -> bool {
        self.plan.wants_block(block)
    }

    fn record(&mut self, record: Record<'_>) -> Result<()> {
        // A sample may show what is not in the log at all. What is damaged is reported when it is read.
        let _ = self.add(&record);
        Ok(())
    }
}
