//! `esker bench kv`: keys and values through the engine's API, in the steps that RocksDB's `db_bench` has.
//!
//! Neighbours: `run` does a step, `data` makes keys and values; `bench/compare kv` runs the same beside `db_bench`.
//!
//! **Invariants**
//! - Commits are not waited for (as with RocksDB's `sync=false`), except in `fillsync`.
//! - A step that fills begins with an engine and a directory of its own; the others go on with what is there, with
//!   `--reopen` in an engine that was opened for them.

pub(crate) mod data;
mod run;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use esker_engine::extent::SLOT_BYTES;
use esker_engine::{Engine, EngineConfig, EngineStats, Isolation, Tree, Txn};
use esker_vfs::Env;

use crate::packing::Packing;
use crate::report::{Table, Value};
use crate::scratch::Scratch;
use crate::{Error, Progress, Result, parse_seconds};
use run::{Outcome, Step};

/// Arguments of `esker bench kv`.
#[derive(Debug, Clone, Args)]
pub struct KvArgs {
    /// What to do, one after the other, separated by commas.
    #[arg(
        value_enum,
        value_delimiter = ',',
        default_value = "fillseq,settle,readrandom,readmissing,\
        readseq,readreverse,seekrandom,readwhilewriting,fillrandom,overwrite,settle,deleterandom,readseq,fillsync"
    )]
    steps: Vec<Step>,
    /// Keys: 0 to this, without it.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    num: u64,
    /// Operations of a step that is not a fill, all threads together; as many as keys if not given.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    ops: Option<u64>,
    /// Bytes of a key.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(data::MIN_KEY_BYTES..=1024))]
    key_bytes: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=data::MAX_VALUE_BYTES))]
    value_bytes: u64,
    /// Threads; filling in order takes one.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Half of the engine's memory limit, in MiB: memtables may have that much, the cache has what they do not use.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    cache_mib: u64,
    /// Size of a memtable in MiB.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1024))]
    memtable_mib: u64,
    /// How data are compressed.
    #[arg(long, value_enum, default_value = "levels")]
    compression: Packing,
    /// seekrandom: rows that are read behind the first.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    seek_nexts: u64,
    /// Close the database and open it again before every step that neither fills nor settles, so that nothing is in
    /// its caches: as with `db_bench` where each step is a process of its own.
    #[arg(long)]
    reopen: bool,
    /// A step ends after this time even if operations are left.
    #[arg(long, default_value = "600", value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Duration,
    /// Put the data below this directory, on the real disk (it is removed afterwards). Without it they are
    /// on a simulated disk in memory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl KvArgs {
    /// Operations of a step that is not a fill.
    fn ops(&self) -> u64 {
        self.ops.unwrap_or(self.num)
    }
}

/// An open engine with its data.
struct Database {
    engine: Engine,
    tree: Tree,
    /// Keys and values that were put or deleted since it is there.
    written_bytes: u64,
    /// What the engines did that were open before this one.
    before: Rewritten,
    /// Holds a snapshot between two steps.
    held: Option<Txn>,
    scratch: Scratch,
}

/// What flushes and compactions did.
#[derive(Clone, Copy, Default)]
struct Rewritten {
    bytes: u64,
    linked_extents: u64,
}

impl Database {
    fn create(args: &KvArgs) -> Result<Database> {
        let scratch = Scratch::new(args.dir.as_deref())?;
        let engine = open(args, &scratch)?;
        Ok(Database {
            tree: engine.create_tree()?,
            engine,
            written_bytes: 0,
            before: Rewritten::default(),
            held: None,
            scratch,
        })
    }

    /// The same data in an engine whose memory is empty.
    fn reopen(self, args: &KvArgs) -> Result<Database> {
        let before = self.rewritten();
        let id = self.tree.id();
        self.engine.shutdown()?;
        // The directory belongs to one engine at a time.
        drop((self.engine, self.tree, self.held));
        let engine = open(args, &self.scratch)?;
        let tree = engine
            .tree(id)
            .ok_or_else(|| Error::Restart(format!("tree {} is gone", id.0)))?;
        Ok(Database {
            engine,
            tree,
            before,
            held: None,
            written_bytes: self.written_bytes,
            scratch: self.scratch,
        })
    }

    fn rewritten(&self) -> Rewritten {
        let work = self.engine.stats().storage.work;
        Rewritten {
            bytes: self.before.bytes + work.flushed_bytes + work.compaction.written_bytes,
            linked_extents: self.before.linked_extents + work.compaction.linked,
        }
    }
}

fn open(args: &KvArgs, scratch: &Scratch) -> Result<Engine> {
    let mut env = Env::os();
    env.fs = scratch.fs();
    let mut config = EngineConfig::new(scratch.path());
    config.memory_limit = (args.cache_mib as usize) << 21;
    config.memtable_bytes = (args.memtable_mib as usize) << 20;
    args.compression.set(&mut config);
    let engine = Engine::open(env, config)?;
    engine.switches().set_async_commit(true);
    Ok(engine)
}

/// Does what `args` say.
pub fn run(args: &KvArgs, progress: Progress<'_>) -> Result<Table> {
    let mut table = Table::new(
        format!(
            "{} keys of {} bytes, values of {} bytes{}",
            args.num,
            args.key_bytes,
            args.value_bytes,
            match args.reopen {
                true => ", reopened before each step",
                false => "",
            }
        ),
        &[
            "step",
            "threads",
            "ops",
            "found",
            "seconds",
            "ops/s",
            "mean us",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "max us",
            "first 10 %",
            "last 10 %",
            "beside/s",
            "stalls",
            "write amp",
            "linked",
            "versions",
            "deletes",
            "stored MiB",
            "disk MiB",
        ],
    );
    let mut database: Option<Database> = None;
    for &step in &args.steps {
        progress(&step.name());
        if step.is_fresh() {
            // First the old one goes, for both would be in the same place.
            drop(database.take());
        }
        let reopens = args.reopen && !step.is_pause();
        let open = match database.take() {
            Some(database) if reopens => database.reopen(args)?,
            Some(database) => database,
            None => Database::create(args)?,
        };
        let database = database.insert(open);
        let before = database.engine.stats();
        if step == Step::Fillsync {
            database.engine.switches().set_async_commit(false);
        }
        match step {
            Step::Hold => {
                let txn = database.engine.begin(Isolation::RepeatableRead);
                txn.snapshot();
                database.held = Some(txn);
            }
            Step::Release => database.held = None,
            _ => {}
        }
        let outcome = run::run(step, &database.engine, &database.tree, args)?;
        database.engine.switches().set_async_commit(true);
        database.written_bytes += outcome.done.written_bytes + outcome.beside.written_bytes;
        table.push(row(step, &outcome, &before, database, args));
    }
    Ok(table)
}

fn row(
    step: Step,
    outcome: &Outcome,
    before: &EngineStats,
    database: &Database,
    args: &KvArgs,
) -> Vec<Value> {
    let stats = database.engine.stats();
    let seconds = outcome.elapsed.as_secs_f64();
    let latencies = &outcome.done.latencies;
    let ops = latencies.count();
    let micros = |nanos: u64, decimals| match ops {
        0 => Value::Nothing,
        _ => Value::Number(nanos as f64 / 1000.0, decimals),
    };
    let per_second = |count: u64| match count {
        0 => Value::Nothing,
        _ => Value::Number(count as f64 / seconds, 0),
    };
    let part = |number: usize| match step {
        _ if step.is_timed() => {
            let ops = outcome.done.parts[number] as f64;
            Value::Number(ops / (args.seconds.as_secs_f64() / run::PARTS as f64), 0)
        }
        _ => Value::Nothing,
    };
    let rewritten = database.rewritten();
    let now = database.tree.superversion();
    let (on_disk, in_memory) = (now.version.totals(), now.in_memory());
    let mib = |bytes: u64| Value::Number(bytes as f64 / f64::from(1 << 20), 1);
    vec![
        step.name().into(),
        outcome.threads.into(),
        ops.into(),
        match step.is_write() || step.is_pause() {
            true => Value::Nothing,
            false => outcome.done.found.into(),
        },
        Value::Number(seconds, 2),
        per_second(ops),
        micros(latencies.mean_nanos(), 3),
        micros(latencies.percentile_nanos(50.0), 2),
        micros(latencies.percentile_nanos(99.0), 2),
        micros(latencies.percentile_nanos(99.9), 1),
        micros(latencies.max_nanos(), 0),
        part(0),
        part(run::PARTS - 1),
        per_second(outcome.beside.latencies.count()),
        (stats.writer_stalls() - before.writer_stalls()).into(),
        match database.written_bytes {
            0 => Value::Nothing,
            bytes => Value::Number(rewritten.bytes as f64 / bytes as f64, 2),
        },
        rewritten.linked_extents.into(),
        (on_disk.entries + in_memory.entries).into(),
        (on_disk.deletes + in_memory.deletes).into(),
        mib(now.version.bytes()),
        mib(stats.storage.space.used_slots * SLOT_BYTES),
    ]
}
