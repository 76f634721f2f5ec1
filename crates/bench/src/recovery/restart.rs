//! One restart, in a process of its own: what `esker bench recovery` runs for each measurement.
//!
//! Neighbours: `recovery` starts it and reads its line; `data` made the directory.
//!
//! **Invariants**
//! - Nothing but the restart has happened in the process when its memory is looked at.
//! - What was brought back is counted and summed after everything was measured.

use std::fmt;
use std::ops::Bound;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use clap::Args;
use esker_engine::{Direction, Engine, EngineConfig, Isolation, View};
use esker_vfs::Env;

use super::Replay;
use super::data::{self, Content, KEY_BYTES};
use crate::process;
use crate::{Error, Result};

/// Arguments of the restart.
#[derive(Debug, Clone, Args)]
pub struct RestartArgs {
    /// The data directory.
    #[arg(long)]
    dir: PathBuf,
    /// Memory of the engine.
    #[arg(long)]
    memory_bytes: usize,
    /// How the log is replayed.
    #[arg(long, value_enum)]
    mode: Replay,
    /// Threads of the replay.
    #[arg(long)]
    threads: usize,
    /// The row that is read first, as a key in hexadecimal digits.
    #[arg(long)]
    first_key: Key,
}

/// A key in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(pub(super) [u8; KEY_BYTES]);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for Key {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(|number| Key(number.to_be_bytes()))
    }
}

/// What a restart has shown. Times are seconds from the moment the engine was asked to open.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Outcome {
    /// The engine is open, and the log takes new records.
    pub(super) opened: f64,
    /// Statements may run.
    pub(super) ready: f64,
    /// A row was read.
    pub(super) first_read: f64,
    /// Nothing is left to do.
    pub(super) built: f64,
    /// CPU seconds of the process until then.
    pub(super) cpu: f64,
    /// Largest resident memory until then, bytes.
    pub(super) peak_bytes: u64,
    /// Flushes of memtables.
    pub(super) flushes: u64,
    /// Bytes of log between where it is needed from and its end.
    pub(super) log_bytes: u64,
    /// Prepared transactions that wait.
    pub(super) prepared: u64,
    /// What was found.
    pub(super) content: Content,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (times, content) = (
            [
                self.opened,
                self.ready,
                self.first_read,
                self.built,
                self.cpu,
            ],
            &self.content,
        );
        for time in times {
            write!(f, "{time} ")?;
        }
        writeln!(
            f,
            "{} {} {} {} {} {}",
            self.peak_bytes,
            self.flushes,
            self.log_bytes,
            self.prepared,
            content.entries,
            content.checksum
        )
    }
}

impl FromStr for Outcome {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let mut word = || {
            let text = "the restart did not say what it measured";
            words.next().ok_or_else(|| Error::Restart(text.to_owned()))
        };
        fn number<T: FromStr>(word: &str) -> Result<T> {
            let text = || Error::Restart(format!("the restart said '{word}'"));
            word.parse().map_err(|_| text())
        }
        Ok(Outcome {
            opened: number(word()?)?,
            ready: number(word()?)?,
            first_read: number(word()?)?,
            built: number(word()?)?,
            cpu: number(word()?)?,
            peak_bytes: number(word()?)?,
            flushes: number(word()?)?,
            log_bytes: number(word()?)?,
            prepared: number(word()?)?,
            content: Content {
                entries: number(word()?)?,
                checksum: number(word()?)?,
            },
        })
    }
}

/// Restarts and gives the line that tells how it went.
pub fn run(args: &RestartArgs) -> Result<String> {
    let mut config = data::config(&args.dir, args.memory_bytes);
    config.recovery = args.mode.into();
    config.recovery_threads = args.threads;
    restart(config, args.first_key).map(|outcome| outcome.to_string())
}

pub(super) fn restart(config: EngineConfig, first: Key) -> Result<Outcome> {
    let start = Instant::now();
    let engine = Engine::open(Env::os(), config)?;
    let opened = start.elapsed().as_secs_f64();
    engine.wait_replayed().block()?;
    let ready = start.elapsed().as_secs_f64();
    read(&engine, first)?;
    let first_read = start.elapsed().as_secs_f64();
    engine.wait_built().block()?;
    let built = start.elapsed().as_secs_f64();
    let stats = engine.stats();
    Ok(Outcome {
        opened,
        ready,
        first_read,
        built,
        cpu: process::cpu_seconds(),
        peak_bytes: process::peak_bytes(),
        flushes: stats.replayed.flushes,
        log_bytes: stats.log_end.saturating_sub(stats.log_needed_from),
        prepared: engine.prepared().len() as u64,
        content: content(&engine)?,
    })
}

/// Reads a row of the second tree, which holds the rows.
fn read(engine: &Engine, key: Key) -> Result<()> {
    let tree = engine.tree_ids().get(1).and_then(|id| engine.tree(*id));
    let tree = tree.ok_or_else(|| Error::Restart("the tree is gone".to_owned()))?;
    let txn = engine.begin(Isolation::ReadCommitted);
    match txn.get(&tree, &key.0, View::Latest)? {
        Some(_) => Ok(()),
        None => Err(Error::Restart(format!("row {key} is gone"))),
    }
}

fn content(engine: &Engine) -> Result<Content> {
    let mut content = Content::default();
    let txn = engine.begin(Isolation::RepeatableRead);
    for (number, id) in engine.tree_ids().into_iter().enumerate() {
        let Some(tree) = engine.tree(id) else {
            continue;
        };
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = txn.scan(&tree, from, to, Direction::Forward, View::Snapshot)?;
        while let Some((key, value)) = cursor.next()? {
            content.add(number as data::TreeNumber, key, value);
        }
    }
    Ok(content)
}
