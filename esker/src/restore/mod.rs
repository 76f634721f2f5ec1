//! `esker restore`: a data directory made of a backup.
//!
//! Neighbours: `esker_engine::BackupSet` reads and writes the files; `esker_sql::datadir` says how the GTIDs of the
//! backup come to the new server. Parts: `until` (where to stop), `replay` (the binary log behind the backup).
//! **Invariants**: the directory was not there or is empty, and is complete or refused by `esker serve`; what the
//! backup alone shows to be impossible is refused before anything is written.

mod replay;
mod until;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use esker_binlog::gtid::GtidSet;
use esker_engine::BackupSet;
use esker_sql::datadir;
use esker_vfs::Env;

use crate::backup::{describe, print};
use crate::bar::ByteBar;
use until::Until;

/// Options of `esker restore`.
#[derive(Args)]
pub(crate) struct Options {
    /// The backup, full or incremental.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The data directory to make.
    #[arg(long, value_name = "DATADIR")]
    to: PathBuf,
    /// Where a backup is that it rests on, if that has moved.
    #[arg(long, value_name = "DIR")]
    base: Vec<PathBuf>,
    /// The folder with the binary log from the backup on: what it has is run.
    #[arg(long, value_name = "DIR")]
    binlog: Option<PathBuf>,
    /// Run it up to this time ('YYYY-MM-DD HH:MM:SS', local or with an offset) or this transaction (uuid:number).
    #[arg(long, value_name = "TIME|GTID", requires = "binlog")]
    until: Option<Until>,
}

/// Restores.
pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    // Data and keys are nobody else's business.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
    let set =
        BackupSet::open(&Env::os(), &options.from, &options.base).map_err(|e| e.to_string())?;
    let mut gtids = of_backup(&set)?;
    let log = match &options.binlog {
        Some(folder) => {
            let (first, from) = log_position(&set)?;
            Some((replay::files(folder, first)?, from))
        }
        None => None,
    };
    if let Some(until) = &options.until {
        until.is_behind(set.micros(), &gtids)?;
    }
    let is_free = || {
        let entries = options.to.read_dir();
        entries.map_or(true, |mut entries| entries.next().is_none())
    };
    let was_free = is_free();
    let mut bar = ByteBar::new("restore");
    let restored = set.restore(&options.to, &mut |progress| {
        bar.show(progress);
        Ok(())
    });
    drop(bar);
    restored.map_err(|e| match was_free && !is_free() {
        true => format!(
            "{e}; what is in {} is not complete, remove it before you try again",
            options.to.display()
        ),
        false => e.to_string(),
    })?;
    let mut text = describe(&set);
    if let Some((files, from)) = log {
        let ran = go_on(options, &files, from).map_err(|e| {
            let to = options.to.display();
            format!("{e}; {to} has what was run before")
        })?;
        text += &format!("{} transactions of the binary log\n", ran.transactions);
        gtids.union(&ran.gtids);
    }
    if !gtids.is_empty() {
        let text = gtids.to_string();
        let added = set.add_file(&options.to, datadir::PURGED_GTIDS, text.as_bytes());
        added.map_err(|e| e.to_string())?;
    }
    text += &format!("restored into {}\n", options.to.display());
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The GTIDs that the backup has executed.
fn of_backup(set: &BackupSet) -> Result<GtidSet, String> {
    let text = set.note("gtid").unwrap_or_default();
    text.parse()
        .map_err(|_| format!("the GTIDs of the backup cannot be understood: {text}"))
}

/// File and offset behind what the backup has.
fn log_position(set: &BackupSet) -> Result<(&str, u64), String> {
    let position = set.note("binlog").and_then(|note| note.split_once(' '));
    let position = position.and_then(|(offset, file)| Some((file, offset.parse().ok()?)));
    position.ok_or_else(|| {
        "the server had no binary log (log_bin) when this backup was taken, so nothing can be run behind it; restore \
         it without --binlog"
            .to_owned()
    })
}

/// Runs the binary log from a position in its first file on.
fn go_on(options: &Options, files: &[PathBuf], from: u64) -> Result<replay::Ran, String> {
    let until = options.until.as_ref();
    let ran = replay::run(&options.to, files, from, until)?;
    if let (Some(Until::Gtid(gtid)), false) = (until, ran.reached) {
        return Err(format!(
            "{gtid} is not in the binary log behind the backup, of which all was run"
        ));
    }
    Ok(ran)
}
