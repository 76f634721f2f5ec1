//! `esker bench memory`: more data than memory, and what of it is resident.
//!
//! Neighbours: the engine's budget says who has how much; `process` asks the system what the process really has.
//!
//! **Invariants**
//! - The engine is set up as the server sets it up, but for the limit; rows and their order depend on nothing but the
//!   seed.
//! - The data are on a real disk when a directory is given; otherwise they are in memory, and only what the engine
//!   counts means something.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use esker_engine::{Direction, Engine, EngineConfig, Isolation, Mode, Tree, View};
use esker_vfs::sim::SimRng;
use esker_vfs::{Env, machine};

use crate::kv::data::{Key, Values};
use crate::report::{Table, Value};
use crate::scratch::Scratch;
use crate::{Error, Progress, Result, parse_seconds};

/// Bytes of a key.
const KEY_BYTES: usize = 16;
/// Rows of a transaction, but in the large one.
const BATCH_ROWS: u64 = 50;
/// Rows between two looks at the clock.
const ROWS_PER_LOOK: u64 = 1000;
/// How often the memory is looked at.
const SAMPLE_PAUSE: Duration = Duration::from_millis(5);

/// Arguments of `esker bench memory`.
#[derive(Debug, Clone, Args)]
pub struct MemoryArgs {
    /// Data to load, in MiB.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    data_mib: u64,
    /// The memory limit of the engine, in MiB.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    limit_mib: u64,
    /// Size of a memtable in MiB.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=4096))]
    memtable_mib: u64,
    /// Bytes of a row: a key of 16 and the value.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(32..=65_536))]
    row_bytes: u64,
    /// Rows of the large transaction, as a share of the memory limit in percent.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=20))]
    large_percent: u64,
    /// A step other than the load ends after this time.
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Duration,
    /// Put the data below this directory, on the real disk (they are removed afterwards). Without it they are on a
    /// simulated disk in memory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl MemoryArgs {
    fn rows(&self) -> u64 {
        (self.data_mib << 20) / self.row_bytes
    }

    fn limit_bytes(&self) -> usize {
        (self.limit_mib << 20) as usize
    }
}

/// What happens, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Rows in the order of their keys.
    Load,
    /// Random rows are read: the cache takes what it can get.
    Read,
    /// Random rows are changed: memtables take it from the cache.
    Update,
    /// Everything is read in order.
    Scan,
    /// Random rows are changed beside a scan.
    UpdateBesideScan,
    /// One transaction with many rows.
    Large,
}

impl Step {
    const ALL: [Step; 6] = [
        Step::Load,
        Step::Read,
        Step::Update,
        Step::Scan,
        Step::UpdateBesideScan,
        Step::Large,
    ];

    fn name(self) -> &'static str {
        match self {
            Step::Load => "load",
            Step::Read => "read at random",
            Step::Update => "update at random",
            Step::Scan => "scan",
            Step::UpdateBesideScan => "update beside a scan",
            Step::Large => "one large transaction",
        }
    }
}

/// The most of everything while a step ran.
#[derive(Default)]
struct Most {
    over: AtomicBool,
    total: AtomicU64,
    resident: AtomicU64,
    memtables: AtomicU64,
    cache: AtomicU64,
}

impl Most {
    fn sample(&self, engine: &Engine) {
        let memory = engine.stats().memory;
        let resident = machine::resident().map_or(0, |resident| resident.now);
        let pairs = [
            (&self.total, memory.total.now),
            (&self.resident, resident),
            (&self.memtables, memory.memtables.now),
            (&self.cache, memory.cache.now),
        ];
        for (most, now) in pairs {
            most.fetch_max(now, Ordering::Relaxed);
        }
    }

    fn watch(&self, engine: &Engine) {
        while !self.over.load(Ordering::Acquire) {
            self.sample(engine);
            thread::sleep(SAMPLE_PAUSE);
        }
    }
}

struct Bench<'a> {
    args: &'a MemoryArgs,
    engine: Engine,
    tree: Tree,
}

/// Does it all.
pub fn run(args: &MemoryArgs, progress: Progress<'_>) -> Result<Table> {
    let scratch = Scratch::new(args.dir.as_deref())?;
    let mut env = Env::os();
    env.fs = scratch.fs();
    let mut config = EngineConfig::new(scratch.path());
    config.memory_limit = args.limit_bytes();
    config.memtable_bytes = (args.memtable_mib as usize) << 20;
    config.max_txn_bytes = 4 << 30;
    config.mode = Mode::Daemon;
    let engine = Engine::open(env, config)?;
    engine.switches().set_async_commit(true);
    let tree = engine.create_tree()?;
    let bench = Bench { args, engine, tree };
    let mut table = Table::new(
        format!(
            "{} rows of {} bytes, {} MiB; limit {} MiB",
            args.rows(),
            args.row_bytes,
            args.data_mib,
            args.limit_mib
        ),
        &[
            "step",
            "rows",
            "seconds",
            "rows/s",
            "counted MiB",
            "of limit",
            "memtables MiB",
            "cache MiB",
            "resident MiB",
            "stalls",
            "stored MiB",
        ],
    );
    for step in Step::ALL {
        progress(step.name());
        table.push(bench.measure(step)?);
    }
    Ok(table)
}

impl Bench<'_> {
    fn measure(&self, step: Step) -> Result<Vec<Value>> {
        let most = Most::default();
        let stalls = self.engine.stats().writer_stalls();
        let start = Instant::now();
        let rows = thread::scope(|scope| {
            let watcher = thread::Builder::new()
                .name("bench-watch".into())
                .spawn_scoped(scope, || most.watch(&self.engine))
                .map_err(Error::Threads)?;
            let rows = self.act(step, start);
            most.over.store(true, Ordering::Release);
            watcher.join().expect("the watcher does not panic");
            rows
        })?;
        let seconds = start.elapsed().as_secs_f64();
        most.sample(&self.engine);
        let mib = |bytes: &AtomicU64| {
            let bytes = bytes.load(Ordering::Relaxed) as f64;
            Value::Number(bytes / f64::from(1 << 20), 1)
        };
        let total = most.total.load(Ordering::Relaxed) as f64;
        let stats = self.engine.stats();
        let stored = self.tree.superversion().version.bytes() as f64;
        Ok(vec![
            step.name().into(),
            rows.into(),
            Value::Number(seconds, 1),
            Value::Number(rows as f64 / seconds, 0),
            mib(&most.total),
            Value::Number(total / self.args.limit_bytes() as f64, 3),
            mib(&most.memtables),
            mib(&most.cache),
            mib(&most.resident),
            (stats.writer_stalls() - stalls).into(),
            Value::Number(stored / f64::from(1 << 20), 1),
        ])
    }

    fn act(&self, step: Step, start: Instant) -> Result<u64> {
        let deadline = start + self.args.seconds;
        match step {
            Step::Load => self.write(self.args.rows(), None, BATCH_ROWS, |number, _| number),
            Step::Read => self.read(deadline),
            Step::Update => self.update(deadline),
            Step::Scan => self.scan(deadline),
            Step::UpdateBesideScan => thread::scope(|scope| {
                let scanner = thread::Builder::new()
                    .name("bench-scan".into())
                    .spawn_scoped(scope, || self.scan(deadline))
                    .map_err(Error::Threads)?;
                let updated = self.update(deadline)?;
                scanner.join().expect("the scanner does not panic")?;
                Ok(updated)
            }),
            Step::Large => {
                let bytes = self.args.limit_bytes() as u64 * self.args.large_percent / 100;
                let rows = (bytes / self.args.row_bytes).max(1);
                let all = self.args.rows();
                self.write(rows, None, rows, |_, rng| rng.below(all))
            }
        }
    }

    fn update(&self, deadline: Instant) -> Result<u64> {
        let rows = self.args.rows();
        self.write(rows, Some(deadline), BATCH_ROWS, |_, rng| rng.below(rows))
    }

    /// Puts `rows` rows, or as many as there is time for, so many in a transaction.
    fn write(
        &self,
        rows: u64,
        deadline: Option<Instant>,
        batch: u64,
        choose: impl Fn(u64, &mut SimRng) -> u64,
    ) -> Result<u64> {
        let mut values = Values::new(self.args.row_bytes as usize - KEY_BYTES, self.args.seed);
        let mut rng = SimRng::new(self.args.seed);
        let mut key = Key::new(KEY_BYTES);
        let mut txn = self.engine.begin(Isolation::ReadCommitted);
        for number in 0..rows {
            if number.is_multiple_of(ROWS_PER_LOOK) && is_over(deadline) {
                let _ = txn.commit()?;
                return Ok(number);
            }
            let row = choose(number, &mut rng);
            txn.put(&self.tree, key.of(row), values.next())?;
            if (number + 1).is_multiple_of(batch) {
                let _ = txn.commit()?;
            }
        }
        let _ = txn.commit()?;
        Ok(rows)
    }

    fn read(&self, deadline: Instant) -> Result<u64> {
        let rows = self.args.rows();
        let mut rng = SimRng::new(self.args.seed + 1);
        let mut key = Key::new(KEY_BYTES);
        let mut txn = self.engine.begin(Isolation::ReadCommitted);
        for number in 0..rows {
            if number.is_multiple_of(ROWS_PER_LOOK) && is_over(Some(deadline)) {
                return Ok(number);
            }
            txn.new_statement();
            let key = key.of(rng.below(rows));
            let found = txn.get_with(&self.tree, key, View::Snapshot, <[u8]>::len)?;
            if found.is_none() {
                return Err(Error::Restart("a row that was loaded is not there".into()));
            }
        }
        Ok(rows)
    }

    fn scan(&self, deadline: Instant) -> Result<u64> {
        let txn = self.engine.begin(Isolation::ReadCommitted);
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut rows = txn.scan(&self.tree, all.0, all.1, Direction::Forward, View::Snapshot)?;
        let mut count = 0;
        while rows.next()?.is_some() {
            count += 1;
            if count % ROWS_PER_LOOK == 0 && is_over(Some(deadline)) {
                return Ok(count);
            }
        }
        Ok(count)
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: MemoryArgs,
    }

    /// More data than memory, on a real disk. What the engine counts must stay within the limit; how much the process
    /// has says little here, for other tests run in it.
    #[test]
    fn what_is_counted_stays_within_the_limit() {
        let dir = tempfile::tempdir().expect("a directory");
        let line = format!(
            "memory --data-mib 200 --limit-mib 64 --memtable-mib 8 --seconds 4 --dir {}",
            dir.path().display()
        );
        let line = Line::try_parse_from(line.split_whitespace()).expect("understood");
        let json = run(&line.args, &|_| {}).expect("runs").to_json();
        let shares: Vec<f64> = json
            .split("\"of limit\": ")
            .skip(1)
            .map(|rest| {
                let number = rest.split([',', '}']).next().expect("there is text");
                number.parse().expect("a number")
            })
            .collect();
        assert_eq!(shares.len(), Step::ALL.len(), "{json}");
        assert!(shares.iter().all(|share| *share <= 1.1), "{json}");
        // The memory is used, too.
        assert!(shares.iter().any(|share| *share > 0.6), "{json}");
    }
}
