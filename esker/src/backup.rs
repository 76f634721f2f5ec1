//! `esker backup`: asks a running server for a backup, or reads one.
//!
//! Neighbours: the statement BACKUP SERVER does the work in the server, `esker_engine::BackupSet` reads a backup;
//! `restore` makes a data directory of it.
//! **Invariant**: `verify` ends with status 2 exactly if something is damaged.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand};
use esker_engine::{BackupProgress, BackupSet};
use esker_server::client::{Client, ClientError, Connect, QueryResult};
use esker_vfs::Env;

use crate::bar::ByteBar;
use crate::server_options::ServerOptions;

/// Exit status when something is damaged.
const DAMAGED: u8 = 2;
/// The error of a statement that cannot be parsed.
const SYNTAX: u16 = 1064;
/// How often the server is asked how far it is.
const POLL: Duration = Duration::from_millis(300);

/// Options of `esker backup`.
#[derive(Args)]
#[command(
    disable_help_flag = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Options {
    #[command(subcommand)]
    other: Option<Other>,
    /// The directory to make, on the server's machine.
    #[arg(long, value_name = "DIR", required = true)]
    to: Option<PathBuf>,
    /// An earlier backup, full or incremental: what it has is not copied again.
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    #[command(flatten)]
    server: ServerOptions,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Subcommand)]
enum Other {
    /// Compare every byte of a backup, and of those it rests on, with what was written.
    ///
    /// The exit status is 0 if everything is whole, 2 if something is damaged, 1 if it could not be read.
    Verify {
        /// The backup.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Where a backup is that it rests on, if that has moved.
        #[arg(long, value_name = "DIR")]
        base: Vec<PathBuf>,
    },
}

/// Takes or reads a backup.
pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    match (&options.other, &options.to) {
        (Some(Other::Verify { dir, base }), _) => verify(dir, base),
        (None, Some(to)) => take(options, to),
        (None, None) => Err("--to is missing".to_owned()),
    }
}

fn verify(dir: &Path, elsewhere: &[PathBuf]) -> Result<ExitCode, String> {
    let set = BackupSet::open(&Env::os(), dir, elsewhere).map_err(|e| e.to_string())?;
    let mut bar = ByteBar::new("verify");
    let mut found = Vec::new();
    let verified = set.verify(
        &mut |error| found.push(error.to_string()),
        &mut |progress| {
            bar.show(progress);
            Ok(())
        },
    );
    drop(bar);
    let verified = verified.map_err(|e| e.to_string())?;
    let mut text: String = found
        .iter()
        .map(|what| format!("damaged: {what}\n"))
        .collect();
    text += &describe(&set);
    text += &format!(
        "{} files, {} extents, {} bytes\n",
        verified.files, verified.extents, verified.bytes
    );
    text += &match verified.findings {
        0 => "everything is whole\n".to_owned(),
        n => format!("{n} damaged places\n"),
    };
    print(&text)?;
    Ok(match verified.findings {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(DAMAGED),
    })
}

/// Lines about a backup.
pub(crate) fn describe(set: &BackupSet) -> String {
    let kind = match set.base() {
        None => "full".to_owned(),
        Some(base) => format!("incremental, on {base}"),
    };
    let mut text = format!("backup {} ({kind}), LSN {}\n", set.id(), set.lsn());
    if let Some((offset, file)) = set.note("binlog").and_then(|note| note.split_once(' ')) {
        text += &format!("binary log: {file} {offset}\n");
    }
    if let Some(gtids) = set.note("gtid").filter(|gtids| !gtids.is_empty()) {
        text += &format!("GTIDs: {gtids}\n");
    }
    text
}

/// A path in a statement.
fn quoted(path: &Path) -> Result<String, String> {
    let path = std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let text = path.to_str();
    let text = text.ok_or_else(|| format!("{} is no text", path.display()))?;
    Ok(format!(
        "'{}'",
        text.replace('\\', "\\\\").replace('\'', "''")
    ))
}

fn take(options: &Options, to: &Path) -> Result<ExitCode, String> {
    let connect = options.server.connect(None)?;
    let mut client = Client::open(&connect).map_err(|e| e.to_string())?;
    let mut statement = format!("BACKUP SERVER TO {}", quoted(to)?);
    if let Some(base) = &options.base {
        statement += &format!(" BASE {}", quoted(base)?);
    }
    let mut lines = String::new();
    let taken = watched(&connect, || {
        client.query(&statement, &mut |result| lines += &answer(&result))
    });
    taken.map_err(|e| refusal(e, &client))?;
    print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Why there is no backup; other servers do not know the statement.
fn refusal(error: ClientError, client: &Client) -> String {
    match error {
        ClientError::Server(e) if e.code == SYNTAX => format!(
            "the server, version {}, does not know BACKUP SERVER: is it Esker?",
            client.server_version
        ),
        e => e.to_string(),
    }
}

/// The answer's one row, a line for each column that has something.
fn answer(result: &QueryResult) -> String {
    let QueryResult::Rows { columns, rows, .. } = result else {
        return String::new();
    };
    let cells = rows.iter().flat_map(|row| columns.iter().zip(row));
    let mut text = String::new();
    for ((name, _), cell) in cells {
        let cell = String::from_utf8_lossy(cell.as_deref().unwrap_or_default());
        if !cell.is_empty() {
            text += &format!("{}: {cell}\n", name.to_lowercase().replace('_', " "));
        }
    }
    text
}

/// Draws how far the server is while something runs.
fn watched<T>(connect: &Connect, run: impl FnOnce() -> T) -> T {
    let (end, ended): (Sender<()>, Receiver<()>) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || watch(connect, &ended));
        let result = run();
        // The watcher may have ended before.
        let _ = end.send(());
        drop(end);
        result
    })
}

fn watch(connect: &Connect, ended: &Receiver<()>) {
    let mut bar = ByteBar::new("backup");
    if !bar.is_drawn() {
        return;
    }
    let Ok(mut client) = Client::open(connect) else {
        return;
    };
    while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
        let Some(progress) = ask(&mut client) else {
            return;
        };
        bar.show(progress);
    }
}

fn ask(client: &mut Client) -> Option<BackupProgress> {
    let mut progress = BackupProgress::default();
    let asked = client.query(
        "SHOW GLOBAL STATUS LIKE 'Esker_backup_bytes%'",
        &mut |result| {
            let QueryResult::Rows { rows, .. } = result else {
                return;
            };
            for row in &rows {
                let text =
                    |at: usize| String::from_utf8_lossy(row[at].as_deref().unwrap_or_default());
                let number = text(1).parse().unwrap_or(0);
                match text(0).ends_with("done") {
                    true => progress.done = number,
                    false => progress.total = number,
                }
            }
        },
    );
    asked.ok().map(|()| progress)
}

/// Prints lines.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let written = io::stdout().write_all(text.as_bytes());
    written.map_err(|e| format!("cannot print: {e}"))
}
