//! Benchmarks of the log, of commit and of the trees, run by `esker bench`.
//!
//! Neighbours: below are `esker-engine`, `esker-wal` and `esker-vfs`; above is the command, which prints what
//! comes back.
//!
//! In reading order: [`workload`] (what sessions do) · `session` and `executor` (how many of them share a thread) ·
//! [`process`] and [`latency`] (what is measured) · [`commit`] (one measurement) · [`logbuf`] (the log buffer alone) ·
//! [`recovery`] (restarts after a crash) · [`kv`] (keys and values, as `db_bench` does it) · [`scan`] (all rows, by
//! several threads) · [`footprint`] (more data than memory) · [`paper`] (all series) · [`spread`] (of repeated ones) ·
//! [`report`] and [`plot`] (tables, JSON, SVG) · tools: `phase` (warm-up and measurement), `scratch` (data
//! directories), `page_cache` and `memory_rate` (limits of device and memory), `packing` (compression), `zipf` (skewed
//! keys).
//!
//! **Invariants**
//! - Two results that are compared differ in one setting; the code that runs is the same.
//! - A setting that gives up durability is never the default and is named where its result is shown.

pub mod commit;
mod executor;
pub mod footprint;
pub mod kv;
pub mod latency;
pub mod logbuf;
mod memory;
mod memory_rate;
mod packing;
mod page_cache;
pub mod paper;
mod phase;
pub mod plot;
pub mod process;
pub mod recovery;
pub mod report;
pub mod scan;
mod scratch;
mod session;
pub mod spread;
#[cfg(test)]
mod testing;
pub mod workload;
pub mod zipf;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use esker_engine::EngineError;

/// What stops a benchmark.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    /// A file or directory could not be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// What a restart or a scan brought back is not what was written, or it could not be measured.
    #[error("{0}")]
    Restart(String),
    /// The scratch directory is there already.
    #[error("{} exists; remove it first", .0.display())]
    Exists(PathBuf),
}

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The callback for progress.
pub type Progress<'a> = &'a dyn Fn(&str);

/// A number of seconds as an argument.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match seconds {
        0.01..=86_400.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("between 0.01 and 86400, please".to_owned()),
    }
}
