//! `esker inspect`: what the files hold.
//!
//! Neighbours: `esker_wal::LogView` walks through the log, `esker_engine::inspect` reads manifest and extents; here
//! they become lines of text or JSON.
//!
//! Parts: `wal` · `manifest` · `extent` · `binlog`.
//!
//! **Invariants**
//! - Memory is bounded; lines are written as they come.
//! - The exit status is 2 if something is damaged.

mod binlog;
mod extent;
mod manifest;
mod wal;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use esker_engine::EngineError;
use esker_engine::extent::ExtentMeta;

use crate::show::{Object, key};

/// Exit status when something is damaged.
const DAMAGED: u8 = 2;

/// What is shown.
#[derive(Subcommand)]
pub(crate) enum What {
    /// The log: its segments, and what is damaged.
    ///
    /// A server may be running. The exit status is 2 if something is damaged.
    Wal(wal::Options),
    /// The manifest: trees, their levels, sizes and key ranges.
    ///
    /// A server may be running. The exit status is 2 if the manifest is damaged.
    Manifest(manifest::Options),
    /// The extents: what is in them, every checksum verified.
    ///
    /// No server may be running. The exit status is 2 if something is damaged; other extents and blocks are shown all
    /// the same.
    Extent(extent::Options),
    /// A file of the binary log: its events, every checksum verified.
    ///
    /// A server may be running; the end of the file that it writes may then be cut off. The exit status is 2 if
    /// something is damaged.
    Binlog(binlog::Options),
}

/// The directory, and how it is shown.
#[derive(Args)]
struct Common {
    /// The data directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Prints what is asked for.
pub(crate) fn run(what: &What) -> Result<ExitCode, String> {
    let shown = match what {
        What::Wal(options) => wal::show(options),
        What::Manifest(options) => manifest::show(options),
        What::Extent(options) => extent::show(options),
        What::Binlog(options) => binlog::show(options),
    };
    match shown {
        Ok(Health::Whole) => Ok(ExitCode::SUCCESS),
        Ok(Health::Damaged) => Ok(ExitCode::from(DAMAGED)),
        // Whoever reads has seen enough.
        Err(Stop::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(Stop::Output(e)) => Err(format!("cannot print: {e}")),
        Err(Stop::Unreadable(e)) => Err(e),
    }
}

/// What was seen of the files.
enum Health {
    Whole,
    Damaged,
}

impl From<bool> for Health {
    fn from(is_damaged: bool) -> Self {
        match is_damaged {
            true => Health::Damaged,
            false => Health::Whole,
        }
    }
}

/// Why nothing more is shown.
enum Stop {
    Unreadable(String),
    Output(io::Error),
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Self {
        Stop::Unreadable(error.to_string())
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Output(error)
    }
}

/// A line about something damaged.
fn damage(json: bool, error: &EngineError) -> String {
    if !json {
        return format!("DAMAGED {error}");
    }
    let line = Object::new("damage");
    match error {
        EngineError::Corruption { file, offset, what } => line
            .text("file", file)
            .plain("offset", offset)
            .text("what", what),
        other => line.text("what", other),
    }
    .end()
}

/// Counts and bounds of an extent, for people.
fn contents(meta: &ExtentMeta) -> String {
    format!(
        "{} versions ({} deletes), sequences {} to {}, keys {} to {}",
        meta.entries,
        meta.deletes,
        meta.smallest_seq,
        meta.largest_seq,
        key(&meta.first.key),
        key(&meta.last.key),
    )
}

/// What the manifest knows of an extent.
fn describe(line: Object, meta: &ExtentMeta) -> Object {
    line.plain("extent", meta.id.0)
        .plain("file_number", meta.id.file())
        .plain("slot", meta.id.slot())
        .plain("slots", meta.slots)
        .text("stamp", format_args!("{:016x}", meta.stamp))
        .plain("stored_bytes", meta.stored_bytes)
        .plain("filter_offset", meta.filter_offset)
        .plain("index_offset", meta.index_offset)
        .plain("data_bytes", meta.data_bytes)
        .plain("versions", meta.entries)
        .plain("deletes", meta.deletes)
        .plain("smallest_seq", meta.smallest_seq)
        .plain("largest_seq", meta.largest_seq)
        .hex("first_key", &meta.first.key)
        .hex("last_key", &meta.last.key)
}
