//! `esker bench scan`: counting and summing all rows of a tree by several threads, through the engine's API.
//!
//! Parts: `query` (what the threads do with the rows) · `model` (what more threads would do).
//!
//! Neighbours: `esker_engine::scan` cuts the tree and has the pool.
//!
//! The last column is what the rows come from, read in order without looking at them: the memory by as many threads if
//! they are cached, the device if it was forgotten.
//!
//! **Invariants**
//! - Every run of a query must bring what the rows were made to give, or the benchmark fails.
//! - Rows are written in the order of their keys, but for those that make a spread tree: every tenth is changed later.

mod model;
mod query;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};
use esker_engine::scan::TASKS_PER_THREAD;
use esker_engine::{Engine, EngineConfig, Isolation, Tree, TreeId};
use esker_vfs::Env;

use crate::packing::Packing;
use crate::report::{self, Table, Value};
use crate::scratch::Scratch;
use crate::spread::Spread;
use crate::{Error, Progress, Result, memory_rate, page_cache};
use model::{Cut, Shape};
use query::Answer;

/// Rows per commit while filling.
const BATCH_ROWS: u64 = 10_000;
const KEY_BYTES: u64 = 8;
/// Where extents are, below a data directory.
const EXTENT_DIR: &str = "extents";
/// How often hot rows are changed.
const CHANGES: u64 = 8;

/// Where the rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tiers {
    /// In one memtable.
    Memtable,
    /// In what a restart has taken out of the log.
    Replayed,
    /// In extents that nothing overlaps, but a tenth of them changed since, half of these on disk and half in memory.
    Spread,
    /// In extents, but the last twentieth of the keys changed eight times since, in memory.
    Hot,
    /// In extents that nothing overlaps.
    Compacted,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Query {
    /// The number of rows, by reading them all.
    Count,
    /// The number of rows, by reading no more than is needed.
    Rows,
    /// The sum of a field.
    Sum,
    /// The sum of a field over half of the rows, by another field.
    Filter,
    /// The sum of a field over a hundredth of the rows, by a field that ascends with the keys, more or less.
    Recent,
}

/// Whether blocks are in the engine's cache when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cache {
    /// The run before has brought them there.
    Warm,
    /// The engine was opened just before. The system's page cache is as it is.
    Cold,
    /// The engine was opened just before, and the system has forgotten the files as well; with `--dir` only.
    Disk,
}

/// Arguments of `esker bench scan`.
#[derive(Debug, Clone, Args)]
pub struct ScanArgs {
    /// Rows.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: u64,
    /// Bytes of a value; keys have 8.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(query::MIN_VALUE_BYTES..=65_536))]
    value_bytes: u64,
    /// Where the rows are, separated by commas.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "compacted,spread,memtable"
    )]
    tiers: Vec<Tiers>,
    /// What is asked, separated by commas.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "count,rows,sum,filter,recent"
    )]
    query: Vec<Query>,
    /// Threads, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Vec<u64>,
    /// Whether blocks are in the engine's cache.
    #[arg(long, value_enum, default_value = "warm")]
    cache: Cache,
    /// Runs of each, of which the one in the middle counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// Whether blocks have statistics of the fields of values.
    #[arg(long, default_value = "on", value_name = "on|off", action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    statistics: bool,
    /// How data are compressed.
    #[arg(long, value_enum, default_value = "levels")]
    compression: Packing,
    /// Instead of the runs: time every task on one thread, and model what up to 64 would do with them. The curve goes
    /// to this file.
    #[arg(long, value_name = "SVG")]
    model: Option<PathBuf>,
    /// model: GB of a second that the memory gives to all threads together.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    memory_gb_s: u64,
    /// Put the data below this directory, on the real disk (it is removed afterwards). Without it they are in memory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Does what `args` say.
pub fn run(args: &ScanArgs, progress: Progress<'_>) -> Result<Table> {
    if args.cache == Cache::Disk && args.dir.is_none() {
        let text = "--cache disk needs --dir: what is in memory cannot be forgotten";
        return Err(Error::Restart(text.into()));
    }
    if let Some(svg) = &args.model {
        return forecast(args, svg, progress);
    }
    let mut table = Table::new(
        format!(
            "{} rows with values of {} bytes",
            args.rows, args.value_bytes
        ),
        &[
            "tiers",
            "query",
            "threads",
            "cache",
            "tasks",
            "counted",
            "blocks skipped",
            "MiB stored",
            "filled in s",
            "ms",
            "+- %",
            "rows/s",
            "rows/s each",
            "stored MB/s",
            "rows MB/s",
            "source MB/s",
        ],
    );
    let memory_rate = |threads: u64| match args.cache {
        Cache::Warm => Some(memory_rate::read_rate(threads)),
        Cache::Cold | Cache::Disk => None,
    };
    let threads: Vec<(u64, Option<f64>)> =
        args.threads.iter().map(|n| (*n, memory_rate(*n))).collect();
    for &tiers in &args.tiers {
        progress(&format!("filling: {}", name(tiers)));
        let mut database = Database::fill(args, tiers)?;
        for &query in &args.query {
            for &(threads, memory_rate) in &threads {
                progress(&format!(
                    "{}: {}, {threads} threads",
                    name(tiers),
                    name(query)
                ));
                let (row, same) = measure(database, args, tiers, query, threads, memory_rate)?;
                database = same;
                table.push(row);
            }
        }
    }
    Ok(table)
}

/// Times the tasks of the first query in every tier, cut as for each number of threads, and models the rest.
fn forecast(args: &ScanArgs, svg: &Path, progress: Progress<'_>) -> Result<Table> {
    let query = args.query.iter().copied().find(|q| *q != Query::Rows);
    let query = query.unwrap_or(Query::Sum);
    let mut shapes = Vec::new();
    for &tiers in &args.tiers {
        progress(&format!("filling: {}", name(tiers)));
        let database = Database::fill(args, tiers)?;
        let mut cuts = Vec::new();
        for threads in model::THREADS {
            progress(&format!("{}: tasks for {threads} threads", name(tiers)));
            let tasks = |each: usize| database.time_tasks(args, query, threads as usize * each);
            cuts.push(Cut {
                threads,
                tasks: tasks(TASKS_PER_THREAD)?,
                coarse: tasks(1)?,
            });
        }
        shapes.push(Shape {
            name: name(tiers),
            rows: args.rows as f64,
            bytes: (args.rows * (args.value_bytes + KEY_BYTES)) as f64,
            cuts,
        });
    }
    let (table, plot) = model::show(&shapes, args.memory_gb_s as f64 * 1e9);
    report::replace(svg, &plot.to_svg())?;
    Ok(table)
}

fn name(value: impl ValueEnum) -> String {
    let name = value.to_possible_value();
    name.map_or_else(String::new, |name| name.get_name().to_owned())
}

fn measure(
    mut database: Database,
    args: &ScanArgs,
    tiers: Tiers,
    query: Query,
    threads: u64,
    memory_rate: Option<f64>,
) -> Result<(Vec<Value>, Database)> {
    let expected = query::expected(query, args.rows);
    let mut last = Answer::default();
    let mut times = Vec::new();
    let mut device = Vec::new();
    // The first run warms up.
    for run in 0..=args.repeat {
        if args.cache != Cache::Warm {
            database = database.reopen()?;
        }
        if args.cache == Cache::Disk {
            device.push(database.forget()?);
        }
        let txn = database.engine.begin(Isolation::RepeatableRead);
        let tasks = threads as usize * TASKS_PER_THREAD;
        let start = Instant::now();
        let helpers = threads as usize - 1;
        last = query::run(&txn, &database.tree, query, args.rows, tasks, helpers)?;
        if run > 0 {
            times.push(start.elapsed());
        }
        if last.result != expected {
            let text = format!("{} gave {}, not {expected}", name(query), last.result);
            return Err(Error::Restart(text));
        }
    }
    let spread = Spread::of(times.iter().map(Duration::as_secs_f64));
    let per_second = args.rows as f64 / spread.median;
    let row = vec![
        name(tiers).into(),
        name(query).into(),
        threads.into(),
        name(args.cache).into(),
        (last.tasks as u64).into(),
        last.counted.into(),
        last.skipped.into(),
        Value::Number(database.stored_bytes() as f64 / f64::from(1 << 20), 1),
        Value::Number(database.filled.as_secs_f64(), 2),
        Value::Number(spread.median * 1e3, 2),
        Value::Number(spread.percent(), 1),
        Value::Number(per_second, 0),
        Value::Number(per_second / threads as f64, 0),
        match args.cache {
            Cache::Disk => Value::Number(database.stored_bytes() as f64 / spread.median / 1e6, 0),
            Cache::Warm | Cache::Cold => Value::Nothing,
        },
        Value::Number(per_second * (args.value_bytes + KEY_BYTES) as f64 / 1e6, 0),
        match (memory_rate, args.cache) {
            (Some(rate), _) => Value::Number(rate / 1e6, 0),
            (None, Cache::Disk) => Value::Number(Spread::of(device.into_iter()).median / 1e6, 0),
            (None, _) => Value::Nothing,
        },
    ];
    Ok((row, database))
}

/// An open engine with its rows.
struct Database {
    engine: Engine,
    tree: Tree,
    id: TreeId,
    env: Env,
    config: EngineConfig,
    scratch: Scratch,
    /// How long it took to write the rows and bring them where they are.
    filled: Duration,
    has_statistics: bool,
}

impl Database {
    fn fill(args: &ScanArgs, tiers: Tiers) -> Result<Database> {
        let scratch = Scratch::new(args.dir.as_deref())?;
        let mut env = Env::os();
        env.fs = scratch.fs();
        let mut config = EngineConfig::new(scratch.path());
        let bytes = args.rows as usize * (args.value_bytes as usize + 128);
        config.memory_limit = (4 * bytes).max(256 << 20);
        config.scan_threads = args.threads.iter().max().map_or(1, |n| *n as usize);
        config.log_limit_bytes = u64::MAX / 4;
        args.compression.set(&mut config);
        if matches!(tiers, Tiers::Memtable | Tiers::Replayed) {
            config.memtable_bytes = config.memory_limit;
        }
        let engine = Engine::open(env.clone(), config.clone())?;
        engine.switches().set_async_commit(true);
        let tree = engine.create_tree()?;
        let start = Instant::now();
        let mut database = Database {
            id: tree.id(),
            engine,
            tree,
            env,
            config,
            scratch,
            filled: Duration::ZERO,
            has_statistics: args.statistics,
        };
        database.announce_fields();
        database.put(args, 0..args.rows)?;
        match tiers {
            Tiers::Memtable => {}
            Tiers::Replayed => return database.reopen(),
            Tiers::Hot => {
                database.settle()?;
                for _ in 0..CHANGES {
                    database.put(args, args.rows - args.rows / 20..args.rows)?;
                }
            }
            Tiers::Spread => {
                database.settle()?;
                database.put(args, (0..args.rows).step_by(20))?;
                database.engine.flush_all()?;
                database.put(args, (10..args.rows).step_by(20))?;
            }
            Tiers::Compacted => database.settle()?,
        }
        database.filled = start.elapsed();
        Ok(database)
    }

    fn announce_fields(&self) {
        if self.has_statistics {
            self.tree.set_fields(Arc::new(query::RowFields));
        }
    }

    /// Bytes of all extents.
    fn stored_bytes(&self) -> u64 {
        let version = Arc::clone(&self.tree.superversion().version);
        version.levels().runs().map(|run| run.bytes()).sum()
    }

    /// Has the system forget the files; gives the bytes of a second that the device reads of them in order.
    fn forget(&self) -> Result<f64> {
        let extents = self.scratch.path().join(EXTENT_DIR);
        page_cache::drop_cached(&extents)?;
        let rate = page_cache::read_rate(&extents)?;
        page_cache::drop_cached(&extents)?;
        Ok(rate)
    }

    /// Seconds of each task of a query that is cut into about so many, the least of some runs.
    fn time_tasks(&self, args: &ScanArgs, query: Query, wanted: usize) -> Result<Vec<f64>> {
        let mut least: Option<Vec<f64>> = None;
        for _ in 0..=args.repeat {
            let txn = self.engine.begin(Isolation::RepeatableRead);
            let times = query::time_tasks(&txn, &self.tree, query, args.rows, wanted)?;
            least = Some(match least {
                None => times,
                Some(least) => least.iter().zip(times).map(|(a, b)| a.min(b)).collect(),
            });
        }
        Ok(least.unwrap_or_default())
    }

    fn put(&self, args: &ScanArgs, rows: impl Iterator<Item = u64>) -> Result<()> {
        let mut txn = self.engine.begin(Isolation::RepeatableRead);
        let mut value = vec![0; args.value_bytes as usize];
        let mut pending = 0;
        for row in rows {
            query::make_value(row, &mut value);
            txn.put(&self.tree, &row.to_be_bytes(), &value)?;
            pending += 1;
            if pending == BATCH_ROWS {
                pending = 0;
                let _ = txn.commit()?;
            }
        }
        let _ = txn.commit()?;
        Ok(())
    }

    /// Everything in extents that nothing overlaps, as a tree has them that is at rest: nothing is left to be done in
    /// the background.
    fn settle(&self) -> Result<()> {
        self.engine.flush_all()?;
        self.engine.compact()?;
        self.engine.sink(&self.tree)?;
        Ok(())
    }

    /// The same data in an engine that has just been opened.
    fn reopen(self) -> Result<Database> {
        let Database {
            engine,
            tree,
            id,
            env,
            config,
            scratch,
            filled,
            has_statistics,
        } = self;
        engine.shutdown()?;
        // The old engine gives the directory back before the new one takes it.
        drop((engine, tree));
        let engine = Engine::open(env.clone(), config.clone())?;
        engine.wait_built().block()?;
        let tree = engine.tree(id);
        let gone = || Error::Restart("the tree is gone after the engine was opened again".into());
        let database = Database {
            tree: tree.ok_or_else(gone)?,
            engine,
            id,
            env,
            config,
            scratch,
            filled,
            has_statistics,
        };
        database.announce_fields();
        Ok(database)
    }
}
