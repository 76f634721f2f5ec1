//! The steps of `esker bench kv`: what each does, and the threads that do it.
//!
//! Neighbours: `data` makes keys and values; `mod` opens engines, leads from step to step and shows the result.
//!
//! **Invariants**
//! - Every operation is a call or two of the engine's API and is timed on its own.
//! - A step ends when its operations are done or its time is up, whatever comes first.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use esker_engine::scan::KeySpan;
use esker_engine::{Direction, Engine, Isolation, Tree, Txn, View};
use esker_vfs::sim::SimRng;

use super::KvArgs;
use super::data::{Key, Values};
use crate::latency::Latencies;
use crate::{Error, Result};

/// Names of the threads that work.
const WORKER: &str = "bench-kv";

/// Operations between two looks at the clock for the end of a step.
const OPS_PER_LOOK: u64 = 256;

/// Parts of a sustained step that are compared with each other.
pub(super) const PARTS: usize = 10;

/// One thing to do with all the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Put every key once, ascending, in one thread, into a new database.
    Fillseq,
    /// Put random keys into a new database.
    Fillrandom,
    /// Put random keys into a new database; each is durable before the next.
    Fillsync,
    /// Put random keys.
    Overwrite,
    /// Delete random keys.
    Deleterandom,
    /// Delete every key once, ascending, in one thread.
    Deleteseq,
    /// A queue, for `--seconds`, in one thread: put a key behind all others, scan for the first one, delete it. Shows
    /// whether it goes on as it began.
    Queue,
    /// Take a snapshot, and keep it until `release`.
    Hold,
    /// Let go of the snapshot.
    Release,
    /// Flush all memtables and compact until nothing is due.
    Settle,
    /// Wait until background work changes nothing any more, for as long as it takes a tree to be at rest.
    Rest,
    /// Get random keys.
    Readrandom,
    /// Get keys that do not exist, between those that do.
    Readmissing,
    /// Count all keys, in `--threads` tasks one after the other.
    Count,
    /// Scan forward from the first key, once per thread.
    Readseq,
    /// Scan backward from the last key, once per thread.
    Readreverse,
    /// Begin a scan at a random key and read on for `--seek-nexts` more rows.
    Seekrandom,
    /// Get random keys while one thread more puts random keys.
    Readwhilewriting,
    /// Get random keys and put them with another value, for `--seconds`; shows whether it goes on as it began.
    Sustained,
}

impl Step {
    /// Whether it begins with a new database.
    pub(super) fn is_fresh(self) -> bool {
        matches!(self, Step::Fillseq | Step::Fillrandom | Step::Fillsync)
    }

    pub(super) fn is_write(self) -> bool {
        self.is_fresh()
            || matches!(
                self,
                Step::Overwrite | Step::Deleterandom | Step::Deleteseq | Step::Queue
            )
    }

    /// Whether it neither writes nor reads.
    pub(super) fn is_pause(self) -> bool {
        matches!(self, Step::Settle | Step::Rest | Step::Hold | Step::Release)
    }

    /// Whether it goes on for a time and shows how it began and how it ended.
    pub(super) fn is_timed(self) -> bool {
        matches!(self, Step::Sustained | Step::Queue)
    }

    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Threads and operations of each; whoever fills in order is alone.
    fn share(self, args: &KvArgs) -> (u64, u64) {
        match self {
            _ if self.is_pause() => (1, 0),
            Step::Fillseq | Step::Deleteseq => (1, args.num),
            Step::Count => (1, 1),
            Step::Queue => (1, u64::MAX),
            Step::Fillrandom => (args.threads, args.num.div_ceil(args.threads)),
            Step::Sustained => (args.threads, u64::MAX),
            _ => (args.threads, args.ops().div_ceil(args.threads)),
        }
    }
}

/// What a thread, or all of a step together, has done.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    pub(super) latencies: Latencies,
    /// Reads that found something.
    pub(super) found: u64,
    /// Keys and values that were put or deleted.
    pub(super) written_bytes: u64,
    /// Operations in each part of a sustained step.
    pub(super) parts: [u64; PARTS],
}

impl Done {
    fn merge(&mut self, other: &Done) {
        self.latencies.merge(&other.latencies);
        self.found += other.found;
        self.written_bytes += other.written_bytes;
        for (part, other) in self.parts.iter_mut().zip(other.parts) {
            *part += other;
        }
    }
}

/// What a step has shown.
pub(super) struct Outcome {
    pub(super) elapsed: Duration,
    pub(super) threads: u64,
    pub(super) done: Done,
    /// What a writer beside the readers has put, by operations and bytes.
    pub(super) beside: Done,
}

/// Does a step.
pub(super) fn run(step: Step, engine: &Engine, tree: &Tree, args: &KvArgs) -> Result<Outcome> {
    let (threads, ops) = step.share(args);
    let start = Instant::now();
    if step.is_pause() {
        pause(step, engine, tree, start + args.seconds)?;
        return Ok(Outcome {
            elapsed: start.elapsed(),
            threads,
            done: Done::default(),
            beside: Done::default(),
        });
    }
    let over = AtomicBool::new(false);
    let worker = |number: u64| Worker {
        engine,
        tree,
        args,
        txn: engine.begin(Isolation::ReadCommitted),
        key: Key::new(args.key_bytes as usize),
        // Every step and thread draws keys of its own.
        rng: SimRng::new(args.seed << 32 ^ (step as u64) << 16 ^ number),
        start,
        deadline: start + args.seconds,
        ops,
        done: Done::default(),
    };
    thread::scope(|scope| {
        let spawn = |number: u64, step: Step, until: Option<&'_ AtomicBool>| {
            let worker = worker(number);
            let until = until.map(|_| &over);
            thread::Builder::new()
                .name(format!("{WORKER}{number}"))
                .spawn_scoped(scope, move || worker.run(step, until))
                .map_err(Error::Threads)
        };
        let writer = match step {
            Step::Readwhilewriting => Some(spawn(threads, Step::Overwrite, Some(&over))?),
            _ => None,
        };
        let workers: Vec<_> = (0..threads)
            .map(|number| spawn(number, step, None))
            .collect();
        let mut done = Done::default();
        let mut failed = None;
        for worker in workers {
            // A panic of a worker is a bug and goes on here.
            match worker.map(|handle| handle.join().expect("workers do not panic")) {
                Ok(Ok(part)) => done.merge(&part),
                Ok(Err(error)) | Err(error) => failed = Some(error),
            }
        }
        let elapsed = start.elapsed();
        over.store(true, Ordering::Release);
        let beside = match writer {
            Some(handle) => handle.join().expect("workers do not panic")?,
            None => Done::default(),
        };
        match failed {
            Some(error) => Err(error),
            None => Ok(Outcome {
                elapsed,
                threads,
                done,
                beside,
            }),
        }
    })
}

/// Lets background work catch up.
fn pause(step: Step, engine: &Engine, tree: &Tree, deadline: Instant) -> Result<()> {
    match step {
        Step::Settle => {
            engine.flush_all()?;
            engine.compact()?;
        }
        Step::Rest => rest(engine, tree, deadline),
        _ => {}
    }
    Ok(())
}

/// How often background work is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// It rests when nothing has changed for so long: a tree is at rest after ten seconds.
const RESTED: Duration = Duration::from_secs(13);

/// Waits until background work has changed nothing for a while.
fn rest(engine: &Engine, tree: &Tree, deadline: Instant) {
    let look = || {
        let now = tree.superversion();
        let on_disk = now.version.totals().entries;
        (
            on_disk,
            now.in_memory().entries,
            engine.stats().storage.work,
        )
    };
    let mut seen = look();
    let mut since = Instant::now();
    while since.elapsed() < RESTED && Instant::now() < deadline {
        thread::sleep(LOOK);
        let now = look();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
}

/// A thread of a step.
struct Worker<'a> {
    engine: &'a Engine,
    tree: &'a Tree,
    args: &'a KvArgs,
    txn: Txn,
    key: Key,
    rng: SimRng,
    start: Instant,
    deadline: Instant,
    ops: u64,
    done: Done,
}

impl Worker<'_> {
    /// Works; with `until`, as long as that is false.
    fn run(mut self, step: Step, until: Option<&AtomicBool>) -> Result<Done> {
        match step {
            Step::Readseq => self.scan_all(Direction::Forward)?,
            Step::Readreverse => self.scan_all(Direction::Backward)?,
            Step::Fillseq | Step::Fillrandom | Step::Fillsync | Step::Overwrite => {
                self.put_all(step, until)?;
            }
            Step::Deleterandom => self.delete_all()?,
            Step::Readrandom | Step::Readmissing | Step::Readwhilewriting => self.get_all(step)?,
            Step::Seekrandom => self.seek_all()?,
            Step::Sustained => self.update_all()?,
            Step::Deleteseq => self.delete_in_order()?,
            Step::Queue => self.queue()?,
            Step::Count => self.count()?,
            Step::Settle | Step::Rest | Step::Hold | Step::Release => {
                unreachable!("pauses need no workers")
            }
        }
        Ok(self.done)
    }

    /// Calls `op` with the numbers of the operations and times each.
    fn repeat(
        &mut self,
        until: Option<&AtomicBool>,
        mut op: impl FnMut(&mut Self, u64) -> Result<bool>,
    ) -> Result<()> {
        let mut last = Instant::now();
        let mut number = 0;
        loop {
            let is_over = match until {
                Some(over) => over.load(Ordering::Acquire),
                None => number >= self.ops,
            };
            if is_over || (number.is_multiple_of(OPS_PER_LOOK) && last >= self.deadline) {
                return Ok(());
            }
            if !op(self, number)? {
                return Ok(());
            }
            let now = Instant::now();
            self.done
                .latencies
                .add(now.duration_since(last).as_nanos() as u64);
            last = now;
            number += 1;
        }
    }

    fn put_all(&mut self, step: Step, until: Option<&AtomicBool>) -> Result<()> {
        let args = self.args;
        let mut values = Values::new(args.value_bytes as usize, args.seed);
        let row_bytes = args.key_bytes + args.value_bytes;
        self.repeat(until, |worker, number| {
            let number = match step {
                Step::Fillseq => number,
                _ => worker.rng.below(args.num),
            };
            let key = worker.key.of(number);
            worker.txn.put(worker.tree, key, values.next())?;
            worker.commit(step == Step::Fillsync)?;
            worker.done.written_bytes += row_bytes;
            Ok(true)
        })
    }

    fn update_all(&mut self) -> Result<()> {
        let args = self.args;
        let mut values = Values::new(args.value_bytes as usize, args.seed);
        self.repeat(None, |worker, _| {
            let key = worker.key.of(worker.rng.below(args.num));
            worker.txn.new_statement();
            let found = worker
                .txn
                .get_with(worker.tree, key, View::Snapshot, <[u8]>::len)?;
            worker.done.found += u64::from(found.is_some());
            worker.txn.put(worker.tree, key, values.next())?;
            worker.commit(false)?;
            worker.done.written_bytes += args.key_bytes + args.value_bytes;
            worker.note_part();
            Ok(true)
        })
    }

    fn delete_all(&mut self) -> Result<()> {
        let args = self.args;
        self.repeat(None, |worker, _| {
            let key = worker.key.of(worker.rng.below(args.num));
            worker.txn.delete(worker.tree, key)?;
            worker.commit(false)?;
            worker.done.written_bytes += args.key_bytes;
            Ok(true)
        })
    }

    fn delete_in_order(&mut self) -> Result<()> {
        self.repeat(None, |worker, number| {
            let key = worker.key.of(number);
            worker.txn.delete(worker.tree, key)?;
            worker.commit(false)?;
            worker.done.written_bytes += worker.args.key_bytes;
            Ok(true)
        })
    }

    fn queue(&mut self) -> Result<()> {
        let args = self.args;
        let mut values = Values::new(args.value_bytes as usize, args.seed);
        let mut first = Vec::new();
        self.repeat(None, |worker, number| {
            let key = worker.key.of(args.num + number);
            worker.txn.put(worker.tree, key, values.next())?;
            worker.commit(false)?;
            worker.txn.new_statement();
            let mut rows = worker.txn.scan(
                worker.tree,
                Bound::Unbounded,
                Bound::Unbounded,
                Direction::Forward,
                View::Snapshot,
            )?;
            first.clear();
            if let Some((key, _)) = rows.next()? {
                first.extend_from_slice(key);
                worker.done.found += 1;
            }
            drop(rows);
            worker.txn.delete(worker.tree, &first)?;
            worker.commit(false)?;
            worker.done.written_bytes += 2 * args.key_bytes + args.value_bytes;
            worker.note_part();
            Ok(true)
        })
    }

    fn count(&mut self) -> Result<()> {
        let tasks = self.args.threads as usize;
        self.repeat(None, |worker, _| {
            worker.txn.new_statement();
            let all = vec![KeySpan::all()];
            let count = worker.txn.parallel_count(worker.tree, all, tasks)?;
            worker.done.found = count.counted();
            for task in 0..count.tasks() {
                let counted = count.count(task, &mut || true)?;
                worker.done.found += counted.map_or(0, |counted| counted.rows);
            }
            Ok(true)
        })
    }

    /// Counts an operation in its part of the time.
    fn note_part(&mut self) {
        let part_nanos = self.args.seconds.as_nanos() / PARTS as u128 + 1;
        let part = (self.start.elapsed().as_nanos() / part_nanos) as usize;
        self.done.parts[part.min(PARTS - 1)] += 1;
    }

    #[inline]
    fn commit(&mut self, durable: bool) -> Result<()> {
        let commit = self.txn.commit()?;
        if let Some(seq) = commit.seq.filter(|_| durable)
            && !self.engine.harden_if_quick(seq)?
        {
            self.engine.wait_durable(seq).block()?;
        }
        Ok(())
    }

    fn get_all(&mut self, step: Step) -> Result<()> {
        let num = self.args.num;
        self.repeat(None, |worker, _| {
            let number = worker.rng.below(num);
            let key = match step {
                Step::Readmissing => worker.key.missing(number),
                _ => worker.key.of(number),
            };
            worker.txn.new_statement();
            let found = worker
                .txn
                .get_with(worker.tree, key, View::Snapshot, <[u8]>::len)?;
            worker.done.found += u64::from(found.is_some());
            Ok(true)
        })
    }

    fn seek_all(&mut self) -> Result<()> {
        let args = self.args;
        self.repeat(None, |worker, _| {
            let key = worker.key.of(worker.rng.below(args.num));
            worker.txn.new_statement();
            let (lower, upper) = (Bound::Included(key), Bound::Unbounded);
            let mut rows = worker.txn.scan(
                worker.tree,
                lower,
                upper,
                Direction::Forward,
                View::Snapshot,
            )?;
            let mut found = false;
            for _ in 0..=args.seek_nexts {
                found = rows.next()?.is_some();
                if !found {
                    break;
                }
            }
            worker.done.found += u64::from(found);
            Ok(true)
        })
    }

    fn scan_all(&mut self, direction: Direction) -> Result<()> {
        self.txn.new_statement();
        let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
        let mut rows = self
            .txn
            .scan(self.tree, lower, upper, direction, View::Snapshot)?;
        self.repeat(None, |worker, _| {
            let is_there = rows.next()?.is_some();
            worker.done.found += u64::from(is_there);
            Ok(is_there)
        })
    }
}
