//! `esker bench commit`: transactions of many sessions on the engine, with the commit pipeline switched as asked.
//!
//! Neighbours: `workload`, `session` and `executor` run; `process` and the engine's counters are looked at
//! before and after; `paper` calls [`measure`] for its series.
//!
//! **Invariants**
//! - Every run has an engine, a data directory and threads of its own.
//! - What happens while it warms up is not counted.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};
use esker_engine::{Acks, Engine, EngineConfig, EngineStats};
use esker_vfs::{Env, SlowFs};
use esker_wal::LogBufferKind;

use crate::executor::run_all;
use crate::phase::Phase;
use crate::process::{Look, Usage};
use crate::report::{Table, Value};
use crate::scratch::Scratch;
use crate::session::{Counts, Session};
use crate::workload::{HotRows, Mix, Tatp, TpcB, Workload};
use crate::{Error, Progress, Result, parse_seconds};

/// Names of the threads that run sessions begin so.
const WORKER: &str = "bench-";

/// Most sessions, and so threads where each session has its own.
pub const MAX_SESSIONS: u64 = 4096;

/// Memory for the engine's tables and cache.
const MEMORY_BYTES: usize = 1 << 30;

/// How long a run goes before it is measured, as a part of the measured time.
const WARM_UP_PART: u32 = 5;

/// Which workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkloadName {
    /// TPC-B: an account, a teller, a branch and a line of history per transaction.
    Tpcb,
    /// TATP: seven short transactions on a subscriber database, most of them reads.
    Tatp,
    /// Updates of a few rows by everybody, with deadlocks.
    HotRows,
}

/// Arguments of `esker bench commit`.
#[derive(Debug, Clone, Args)]
pub struct CommitArgs {
    /// What the transactions do.
    #[arg(value_enum, default_value = "tpcb")]
    workload: WorkloadName,
    /// Threads that run the sessions when flush pipelining is on.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Logical sessions, each with one transaction at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=MAX_SESSIONS))]
    sessions: u64,
    /// How long to measure, after a warm-up of a fifth of it.
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Duration,
    /// Whether the row locks of a commit are free before it is durable (early lock release).
    #[arg(long, default_value = "on", value_name = "on|off", action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    elr: bool,
    /// Flush pipelining: on, a few threads run all sessions and none waits for the disk; off, each session
    /// has a thread that blocks, as in a server with a thread per connection.
    #[arg(long, default_value = "on", value_name = "on|off", action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pipelining: bool,
    /// Acknowledge commits before they are durable. UNSAFE: a crash loses them. For comparison only.
    #[arg(long, default_value = "off", value_name = "on|off", action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    async_commit: bool,
    /// How sessions share the log buffer: B, C, D, CD or CDME.
    #[arg(long, default_value_t, value_name = "VARIANT")]
    log_buffer: LogBufferKind,
    /// How much longer a sync of the log takes: 0, 100us, 1ms, 10ms, ...
    #[arg(long, default_value = "0", value_name = "TIME", value_parser = parse_latency)]
    sync_latency: Duration,
    /// Put the data below this directory, on the real disk (it is removed afterwards). Without it they are
    /// in memory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// tpcb: the exponent of Zipf's distribution of branches and accounts, 0 (uniform) to 5.
    #[arg(long, default_value_t = 0.0, value_name = "S", value_parser = parse_skew)]
    skew: f64,
    /// tpcb: branches, with ten tellers each.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    branches: u64,
    /// tpcb: accounts of each branch.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    accounts: u64,
    /// tatp: subscribers.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    subscribers: u64,
    /// tatp: which transactions.
    #[arg(long, value_enum, default_value = "standard")]
    mix: Mix,
    /// hot-rows: rows.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rows: u64,
    /// hot-rows: updates of each transaction.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    updates: u64,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn parse_skew(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(skew @ 0.0..=5.0) => Ok(skew),
        _ => Err("a number between 0 and 5".to_owned()),
    }
}

/// A time with its unit: `0`, `100us`, `1ms`, `2s`.
pub(crate) fn parse_latency(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let number: u32 = number
        .parse()
        .map_err(|_| "a number with us, ms or s behind it".to_owned())?;
    let unit = match unit {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "" if number == 0 => Duration::ZERO,
        _ => return Err("the unit is us, ms or s".to_owned()),
    };
    let latency = unit * number;
    match latency <= Duration::from_secs(10) {
        true => Ok(latency),
        false => Err("at most 10s".to_owned()),
    }
}

/// A time with its unit, short.
pub(crate) fn show_latency(latency: Duration) -> String {
    match latency.as_micros() {
        0 => "0".to_owned(),
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1000 == 0 => format!("{}ms", us / 1000),
        us => format!("{us}us"),
    }
}

/// A workload and its size.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// See [`TpcB`].
    TpcB {
        /// Branches.
        branches: u64,
        /// Accounts of each.
        accounts: u64,
        /// Exponent of Zipf's distribution.
        skew: f64,
    },
    /// See [`Tatp`].
    Tatp {
        /// Subscribers.
        subscribers: u64,
        /// Which transactions.
        mix: Mix,
    },
    /// See [`HotRows`].
    HotRows {
        /// Rows.
        rows: u64,
        /// Updates of each transaction.
        updates: u64,
    },
}

impl Load {
    fn name(&self) -> &'static str {
        match self {
            Load::TpcB { .. } => "tpcb",
            Load::Tatp {
                mix: Mix::Standard, ..
            } => "tatp",
            Load::Tatp {
                mix: Mix::Updates, ..
            } => "tatp updates",
            Load::HotRows { .. } => "hot-rows",
        }
    }

    fn load(&self, engine: &Engine) -> esker_engine::Result<Workload> {
        Ok(match *self {
            Load::TpcB {
                branches,
                accounts,
                skew,
            } => Workload::TpcB(TpcB::load(engine, branches, accounts, skew)?),
            Load::Tatp { subscribers, mix } => {
                Workload::Tatp(Tatp::load(engine, subscribers, mix)?)
            }
            Load::HotRows { rows, updates } => {
                Workload::HotRows(HotRows::load(engine, rows, updates)?)
            }
        })
    }
}

/// Everything a run depends on.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the transactions do.
    pub load: Load,
    /// Threads, when sessions are pipelined.
    pub threads: u64,
    /// Logical sessions.
    pub sessions: u64,
    /// Whether sessions share threads; otherwise each has one.
    pub pipelining: bool,
    /// Whether row locks go before the commit is durable.
    pub elr: bool,
    /// Whether commits are acknowledged at once (unsafe).
    pub async_commit: bool,
    /// How sessions share the log buffer.
    pub log_buffer: LogBufferKind,
    /// How much longer a sync takes.
    pub sync_latency: Duration,
    /// Below which directory of the real disk; `None` for memory.
    pub dir: Option<PathBuf>,
    /// How long to measure.
    pub measure: Duration,
    /// Of the random numbers.
    pub seed: u64,
}

impl Settings {
    /// All of the pipeline on, two threads, in memory, for a short while.
    pub fn new(load: Load) -> Settings {
        Settings {
            load,
            threads: 2,
            sessions: 64,
            pipelining: true,
            elr: true,
            async_commit: false,
            log_buffer: LogBufferKind::default(),
            sync_latency: Duration::ZERO,
            dir: None,
            measure: Duration::from_secs(5),
            seed: 1,
        }
    }
}

impl From<&CommitArgs> for Settings {
    fn from(args: &CommitArgs) -> Settings {
        let load = match args.workload {
            WorkloadName::Tpcb => Load::TpcB {
                branches: args.branches,
                accounts: args.accounts,
                skew: args.skew,
            },
            WorkloadName::Tatp => Load::Tatp {
                subscribers: args.subscribers,
                mix: args.mix,
            },
            WorkloadName::HotRows => Load::HotRows {
                rows: args.rows,
                updates: args.updates,
            },
        };
        Settings {
            load,
            threads: args.threads,
            sessions: args.sessions,
            pipelining: args.pipelining,
            elr: args.elr,
            async_commit: args.async_commit,
            log_buffer: args.log_buffer,
            sync_latency: args.sync_latency,
            dir: args.dir.clone(),
            measure: args.seconds,
            seed: args.seed,
        }
    }
}

/// What a run has shown.
#[derive(Debug, Clone)]
pub struct Measured {
    /// How long it was measured.
    pub elapsed: Duration,
    counts: Counts,
    workers: Usage,
    others: Usage,
    flushes: u64,
    records: u64,
    log_bytes: u64,
}

impl Measured {
    /// Transactions per second.
    pub fn tps(&self) -> f64 {
        self.counts.transactions as f64 / self.elapsed.as_secs_f64()
    }

    /// Transactions that ended.
    pub fn transactions(&self) -> u64 {
        self.counts.transactions
    }

    /// Deadlock victims per transaction that ended.
    pub fn deadlocks_per_transaction(&self) -> f64 {
        self.per_transaction(self.counts.deadlocks)
    }

    /// Commit records per group that was flushed.
    pub fn commits_per_flush(&self) -> f64 {
        self.records as f64 / self.flushes.max(1) as f64
    }

    /// Times that a thread with sessions waited, per transaction.
    pub fn switches_per_transaction(&self) -> f64 {
        self.per_transaction(self.workers.voluntary)
    }

    /// The same of all threads, the log's and the engine's too.
    pub fn all_switches_per_transaction(&self) -> f64 {
        self.per_transaction(self.workers.voluntary + self.others.voluntary)
    }

    /// CPU time of all threads per transaction, in microseconds.
    pub fn cpu_micros_per_transaction(&self) -> f64 {
        self.per_transaction(self.workers.cpu_nanos + self.others.cpu_nanos) / 1000.0
    }

    /// A percentile of the time from a transaction's begin to its answer, in milliseconds.
    pub fn latency_millis(&self, percent: f64) -> f64 {
        self.counts.latencies.percentile_nanos(percent) as f64 / 1e6
    }

    fn per_transaction(&self, count: u64) -> f64 {
        count as f64 / self.counts.transactions.max(1) as f64
    }
}

/// Runs `esker bench commit`.
pub fn run(args: &CommitArgs, progress: Progress<'_>) -> Result<Table> {
    let settings = Settings::from(args);
    let measured = measure(&settings, progress)?;
    let mut table = table("esker bench commit");
    table.push(row(&settings, &measured));
    Ok(table)
}

/// The table of settings and results that [`row`] fills.
pub(crate) fn table(title: &str) -> Table {
    Table::new(
        title,
        &[
            "workload",
            "skew",
            "sessions",
            "threads",
            "elr",
            "pipelining",
            "async commit",
            "log buffer",
            "sync latency",
            "tps",
            "missed %",
            "deadlocks",
            "deadlocks/txn",
            "commits/flush",
            "log MB/s",
            "p50 ms",
            "p95 ms",
            "p99 ms",
            "switches/txn",
            "all switches/txn",
            "involuntary/txn",
            "CPU us/txn",
        ],
    )
}

/// A line of results.
pub(crate) fn row(settings: &Settings, measured: &Measured) -> Vec<Value> {
    let counts = &measured.counts;
    let involuntary = measured.workers.involuntary + measured.others.involuntary;
    let log_rate = measured.log_bytes as f64 / 1e6 / measured.elapsed.as_secs_f64();
    vec![
        settings.load.name().into(),
        match settings.load {
            Load::TpcB { skew, .. } => Value::Number(skew, 2),
            _ => Value::Nothing,
        },
        settings.sessions.into(),
        worker_count(settings).into(),
        settings.elr.into(),
        settings.pipelining.into(),
        if settings.async_commit {
            "UNSAFE".into()
        } else {
            false.into()
        },
        settings.log_buffer.to_string().into(),
        show_latency(settings.sync_latency).into(),
        Value::Number(measured.tps(), 0),
        Value::Number(100.0 * measured.per_transaction(counts.missed), 1),
        counts.deadlocks.into(),
        Value::Number(measured.deadlocks_per_transaction(), 4),
        Value::Number(measured.commits_per_flush(), 1),
        Value::Number(log_rate, 1),
        Value::Number(measured.latency_millis(50.0), 3),
        Value::Number(measured.latency_millis(95.0), 3),
        Value::Number(measured.latency_millis(99.0), 3),
        Value::Number(measured.switches_per_transaction(), 3),
        Value::Number(measured.all_switches_per_transaction(), 3),
        Value::Number(measured.per_transaction(involuntary), 3),
        Value::Number(measured.cpu_micros_per_transaction(), 2),
    ]
}

fn worker_count(settings: &Settings) -> u64 {
    match settings.pipelining {
        true => settings.threads.min(settings.sessions),
        false => settings.sessions,
    }
}

/// Runs the workload as set and measures it.
pub fn measure(settings: &Settings, progress: Progress<'_>) -> Result<Measured> {
    let scratch = Scratch::new(settings.dir.as_deref())?;
    let engine = open(settings, &scratch)?;
    progress(&format!("{}: loading", settings.load.name()));
    let workload = settings.load.load(&engine)?;
    engine.switches().set_early_lock_release(settings.elr);
    engine.switches().set_async_commit(settings.async_commit);
    let phase = Phase::new();
    let workers = worker_count(settings);
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for worker in 0..workers {
            let (engine, workload, phase) = (&engine, &workload, &phase);
            let handle = thread::Builder::new()
                .name(format!("{WORKER}{worker}"))
                .spawn_scoped(scope, move || {
                    let acks = settings.pipelining.then(|| Acks::new(engine));
                    let acks = acks.as_ref();
                    let mine = (worker..settings.sessions).step_by(workers as usize);
                    let sessions = mine.map(|id| {
                        Session::new(engine, acks, id, settings.seed).run(workload, phase)
                    });
                    run_all(sessions.collect(), acks)
                });
            match handle {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    phase.end();
                    return Err(Error::Threads(error));
                }
            }
        }
        let mut measured = watch(settings, &engine, &phase, progress);
        for handle in handles {
            // A panic of a session is a bug and goes on here.
            for counts in handle.join().expect("sessions do not panic") {
                measured.counts.merge(&counts?);
            }
        }
        Ok(measured)
    })
}

/// Leads a run through its phases.
fn watch(settings: &Settings, engine: &Engine, phase: &Phase, progress: Progress<'_>) -> Measured {
    let name = settings.load.name();
    progress(&format!("{name}: warming up"));
    thread::sleep(settings.measure / WARM_UP_PART);
    let before = (Look::now(), engine.stats());
    let start = Instant::now();
    phase.measure();
    while let Some(left) = settings.measure.checked_sub(start.elapsed()) {
        let done = start.elapsed().as_secs_f64();
        let (all, records) = (settings.measure.as_secs_f64(), logged(engine, &before.1));
        progress(&format!(
            "{name}: {done:.0} of {all:.0} s, {records} commits"
        ));
        thread::sleep(left.min(Duration::from_millis(500)));
    }
    let (look, stats) = (Look::now(), engine.stats());
    phase.end();
    // Whatever is counted was counted in this time, even if this thread was not run for a while.
    let elapsed = start.elapsed();
    let (workers, others) = look.since(&before.0, WORKER);
    Measured {
        elapsed,
        counts: Counts::default(),
        workers,
        others,
        flushes: stats.log.flushes - before.1.log.flushes,
        records: stats.log.records - before.1.log.records,
        log_bytes: stats.log.bytes - before.1.log.bytes,
    }
}

/// Records flushed since then.
fn logged(engine: &Engine, before: &EngineStats) -> u64 {
    engine.stats().log.records - before.log.records
}

fn open(settings: &Settings, scratch: &Scratch) -> Result<Engine> {
    let mut env = Env::os();
    env.fs = Arc::new(SlowFs::new(scratch.fs(), settings.sync_latency));
    let mut config = EngineConfig::new(scratch.path());
    config.memory_limit = MEMORY_BYTES;
    config.log_buffer = settings.log_buffer;
    Ok(Engine::open(env, config)?)
}

#[cfg(test)]
mod tests;
