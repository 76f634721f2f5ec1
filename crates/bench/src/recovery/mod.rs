//! `esker bench recovery`: restarts after a crash.
//!
//! Parts: `data` (what the log holds) · `copy` (the same bytes for every restart) · `restart` (one restart, in a
//! process of its own) · `model` (what more threads would do).
//!
//! Neighbours: the engine replays; the command starts itself for each restart, so that memory and CPU time are those
//! of the restart alone.
//!
//! **Invariants**
//! - Every restart begins with the same bytes and takes its turn with those it is compared with.
//! - A restart that does not bring back every version with its value is an error, not a figure.

mod copy;
mod data;
mod model;
pub mod restart;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use esker_engine::RecoveryMode;
use esker_vfs::{Fs, OsFs};

use crate::report::{self, Table, Value};
use crate::{Error, Progress, Result, page_cache};
use data::{Content, Shape};
use model::Costs;
use restart::{Key, Outcome};

pub use data::Order;

/// Is the log in the page cache?
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cache {
    /// It was written a moment ago.
    Warm,
    /// Every page comes from the device.
    Cold,
}

/// How the log is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Replay {
    /// One thread reads and inserts record after record.
    SerialSync,
    /// The same, and another thread reads ahead.
    SerialAsync,
    /// Threads collect what they read; it is sorted when it is needed.
    Parallel,
}

impl Replay {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl From<Replay> for RecoveryMode {
    fn from(replay: Replay) -> Self {
        match replay {
            Replay::SerialSync => RecoveryMode::SerialSync,
            Replay::SerialAsync => RecoveryMode::SerialAsync,
            Replay::Parallel => RecoveryMode::Parallel,
        }
    }
}

/// Arguments of `esker bench recovery`.
#[derive(Debug, Clone, Args)]
pub struct RecoveryArgs {
    /// Live rows in the log.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: u64,
    /// Bytes of a value; a key has 16.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    value_bytes: u64,
    /// Percent of the log that is dead: flushed to extents before the crash.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=99))]
    dead: u64,
    /// Percent of the transactions that were committed in two phases.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=100))]
    two_phase: u64,
    /// Transactions that were prepared and not decided.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    prepared: u64,
    /// Indexes beside the rows' own tree, each with an entry for every row.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=64))]
    indexes: u64,
    /// The order in which the rows' keys were written; index entries are in none.
    #[arg(long, value_enum, default_value = "sequential")]
    order: Order,
    /// Rows of a transaction.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batch: u64,
    /// KiB of log between two flushes.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=16_384))]
    group_kib: u64,
    /// Ways to replay the log, each on the same bytes.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "serial-sync,parallel"
    )]
    mode: Vec<Replay>,
    /// Threads of parallel replays; a serial one has one.
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_name = "NUMBERS",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Vec<u64>,
    /// Where the log is when the restart begins.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "warm")]
    cache: Vec<Cache>,
    /// Restarts of each kind, in turns; the table has the median of each figure.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    runs: u64,
    /// Memory of the engine while it writes, in MiB; half of it is for memtables, and all rows must fit.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    memory_mib: u64,
    /// Memory of the engine at the restart, if it is another.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    restart_memory_mib: Option<u64>,
    /// MiB of memory to touch before each restart. A virtual machine's host may take back what is free, and giving it
    /// again can cost a second for each GiB, at random: with this it is paid before.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_048_576))]
    touch_memory_mib: u64,
    /// Instead of the restarts: measure one thread, and model what up to 64 would do. The curve goes to this file.
    #[arg(long, value_name = "SVG")]
    model: Option<PathBuf>,
    /// model: GB of a second that the memory gives to all threads together.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    memory_gb_s: u64,
    /// Below which directory the data are made; they are removed afterwards.
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl RecoveryArgs {
    fn shape(&self) -> Shape {
        Shape {
            rows: self.rows,
            value_bytes: self.value_bytes,
            dead: self.dead,
            two_phase: self.two_phase,
            prepared: self.prepared,
            indexes: self.indexes,
            order: self.order,
            batch: self.batch,
            group_bytes: self.group_kib << 10,
            seed: self.seed,
        }
    }
}

/// One kind of restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    cache: Cache,
    replay: Replay,
    threads: u64,
}

/// What the restarts of a kind have shown.
#[derive(Debug, Clone)]
struct Series {
    kind: Kind,
    outcomes: Vec<Outcome>,
    /// Bytes of a second at which the device gives the log, where it comes from there.
    device: Vec<f64>,
}

/// Runs `esker bench recovery`.
pub fn run(args: &RecoveryArgs, progress: Progress<'_>) -> Result<Table> {
    let scratch = Scratch::new(&args.dir)?;
    let shape = args.shape();
    let original = scratch.0.join("original");
    let memory_bytes = (args.memory_mib << 20) as usize;
    let expected = data::write(&shape, &original, memory_bytes, progress)?;
    if let Some(svg) = &args.model {
        return forecast(args, &shape, &scratch.0, svg, progress);
    }
    let mut all: Vec<Series> = kinds(args)
        .into_iter()
        .map(|kind| Series {
            kind,
            outcomes: Vec::new(),
            device: Vec::new(),
        })
        .collect();
    for run in 0..args.runs {
        for series in &mut all {
            progress(&format!(
                "restart {} of {}: {:?}",
                run + 1,
                args.runs,
                series.kind
            ));
            measure(args, &shape, &scratch.0, series)?;
            let outcome = series.outcomes.last().copied().unwrap_or_default();
            check(&shape, &expected, &outcome)?;
        }
    }
    let mut table = table();
    for series in &all {
        table.push(row(&shape, series));
    }
    Ok(table)
}

/// Measures what one thread needs and what the device gives, and shows what follows from it.
fn forecast(
    args: &RecoveryArgs,
    shape: &Shape,
    scratch: &Path,
    svg: &Path,
    progress: Progress<'_>,
) -> Result<Table> {
    let measured = |cache, threads| -> Result<Series> {
        let mut series = Series {
            kind: Kind {
                cache,
                replay: Replay::Parallel,
                threads,
            },
            outcomes: Vec::new(),
            device: Vec::new(),
        };
        for run in 0..args.runs {
            progress(&format!("restart {} of {}", run + 1, args.runs));
            measure(args, shape, scratch, &mut series)?;
        }
        Ok(series)
    };
    let (warm, cold) = (measured(Cache::Warm, 1)?, measured(Cache::Cold, 1)?);
    let figure = |of: fn(&Outcome) -> f64| median(warm.outcomes.iter().map(of).collect());
    let costs = Costs {
        log_bytes: figure(|o| o.log_bytes as f64),
        entries: (shape.rows * (1 + shape.indexes)) as f64,
        collect: figure(|o| o.ready - o.opened),
        sort: figure(|o| o.built - o.ready),
        serial: figure(|o| o.opened),
        device: median(cold.device),
        memory: args.memory_gb_s as f64 * 1e9,
    };
    let (table, plot) = model::show(&costs);
    report::replace(svg, &plot.to_svg())?;
    Ok(table)
}

fn kinds(args: &RecoveryArgs) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for cache in args.cache.iter().copied() {
        for replay in args.mode.iter().copied() {
            let threads = match replay {
                Replay::Parallel => &args.threads[..],
                Replay::SerialSync | Replay::SerialAsync => &[1],
            };
            kinds.extend(threads.iter().map(|threads| Kind {
                cache,
                replay,
                threads: *threads,
            }));
        }
    }
    kinds
}

/// Restarts once on a fresh copy.
fn measure(args: &RecoveryArgs, shape: &Shape, scratch: &Path, series: &mut Series) -> Result<()> {
    let dir = scratch.join("copy");
    copy::copy(&scratch.join("original"), &dir)?;
    if series.kind.cache == Cache::Cold {
        page_cache::drop_cached(&dir)?;
        let rate = page_cache::read_rate(&dir.join(copy::LOG_DIR))?;
        series.device.push(rate);
        page_cache::drop_cached(&dir)?;
    }
    touch_memory(args.touch_memory_mib)?;
    series
        .outcomes
        .push(restart(args, shape, series.kind, &dir)?);
    OsFs.remove_dir_all(&dir)
        .map_err(|source| Error::Io { path: dir, source })
}

/// Has this program touch memory and end, so that the system has it at hand.
fn touch_memory(mib: u64) -> Result<()> {
    if mib == 0 {
        return Ok(());
    }
    let status = this_program()?
        .args(["bench", "touch"])
        .arg(format!("--mib={mib}"))
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Error::Restart(format!("{mib} MiB cannot be touched"))),
        Err(error) => Err(not_started(error)),
    }
}

/// What [`touch_memory`] starts.
pub fn touch(mib: u64) {
    let mut memory = vec![0_u8; (mib << 20) as usize];
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
}

fn this_program() -> Result<Command> {
    std::env::current_exe()
        .map(Command::new)
        .map_err(not_started)
}

fn not_started(source: std::io::Error) -> Error {
    Error::Io {
        path: PathBuf::from("this program"),
        source,
    }
}

/// Starts this program again for a restart on `dir`.
fn restart(args: &RecoveryArgs, shape: &Shape, kind: Kind, dir: &Path) -> Result<Outcome> {
    let memory_mib = args.restart_memory_mib.unwrap_or(args.memory_mib);
    let output = this_program()?
        .args(["bench", "restart"])
        .arg("--dir")
        .arg(dir)
        .arg(format!("--memory-bytes={}", memory_mib << 20))
        .arg(format!("--mode={}", kind.replay.name()))
        .arg(format!("--threads={}", kind.threads))
        .arg(format!("--first-key={}", Key(shape.middle_key())))
        .output()
        .map_err(not_started)?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Restart(format!("a restart failed: {errors}")));
    }
    String::from_utf8_lossy(&output.stdout).parse()
}

/// Everything that was committed must be there, nothing else, and what was prepared must wait.
fn check(shape: &Shape, expected: &Content, outcome: &Outcome) -> Result<()> {
    if outcome.content != *expected {
        let text = format!("found {:?}, expected {expected:?}", outcome.content);
        return Err(Error::Restart(text));
    }
    if outcome.prepared != shape.prepared {
        let text = format!(
            "{} transactions are prepared, {} were",
            outcome.prepared, shape.prepared
        );
        return Err(Error::Restart(text));
    }
    Ok(())
}

fn table() -> Table {
    Table::new(
        "esker bench recovery",
        &[
            "mode",
            "threads",
            "cache",
            "entries",
            "log MB",
            "open s",
            "ready s",
            "first read s",
            "built s",
            "entries/s",
            "MB/s",
            "device MB/s",
            "CPU s",
            "peak MB",
            "flushes",
        ],
    )
}

fn row(shape: &Shape, series: &Series) -> Vec<Value> {
    let figure = |of: fn(&Outcome) -> f64| median(series.outcomes.iter().map(of).collect());
    let entries = shape.rows * (1 + shape.indexes);
    let built = figure(|o| o.built);
    let log = figure(|o| o.log_bytes as f64);
    vec![
        series.kind.replay.name().into(),
        series.kind.threads.into(),
        match series.kind.cache {
            Cache::Warm => "warm".into(),
            Cache::Cold => "cold".into(),
        },
        entries.into(),
        Value::Number(log / 1e6, 1),
        Value::Number(figure(|o| o.opened), 3),
        Value::Number(figure(|o| o.ready), 3),
        Value::Number(figure(|o| o.first_read), 3),
        Value::Number(built, 3),
        Value::Number(entries as f64 / built, 0),
        Value::Number(log / 1e6 / built, 1),
        match series.device.is_empty() {
            true => Value::Nothing,
            false => Value::Number(median(series.device.clone()) / 1e6, 1),
        },
        Value::Number(figure(|o| o.cpu), 2),
        Value::Number(figure(|o| o.peak_bytes as f64) / 1e6, 0),
        Value::Number(figure(|o| o.flushes as f64), 0),
    ]
}

/// The middle one, or the lower of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get((values.len().max(1) - 1) / 2)
        .copied()
        .unwrap_or(0.0)
}

/// Where the data are; gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(below: &Path) -> Result<Scratch> {
        let path = below.join(format!("esker-bench-{}", std::process::id()));
        let io = |source| Error::Io {
            path: path.clone(),
            source,
        };
        if OsFs.exists(&path).map_err(io)? {
            return Err(Error::Exists(path));
        }
        OsFs.create_dir_all(&path).map_err(io)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left for the user; the figures are good.
        let _ = OsFs.remove_dir_all(&self.0);
    }
}
