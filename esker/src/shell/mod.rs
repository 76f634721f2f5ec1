//! `esker sql`: statements on a server, or directly on a data directory.
//!
//! Neighbours: `target` is where statements run, `split` cuts lines into statements, `command` has the shell's own
//! commands, `edit` reads what people type, `print` prints results.
//! **Invariants**: an error of a script given with `-e`, on standard input or with `source` names its line and ends it
//! with exit status 1, unless `--force` is given; what cannot be printed ends the shell with exit status 1, whoever
//! types, and silently if the reader has gone; a data directory is only made with `--create`.

mod command;
mod edit;
mod print;
mod split;
mod target;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use clap::{ArgAction, Args, ValueEnum};
use esker_server::client::QueryResult;
use esker_server::embedded::Embedded;

use command::{Command, HELP};
use edit::{Input, Typed};
use print::{Format, Style};
use split::{Piece, Splitter};
use target::{INTERRUPTED, Running, Target, tell};

use crate::server_options::ServerOptions;

/// Deepest nesting of `source`.
const MAX_SOURCES: usize = 16;
/// UTF-8's byte order mark, which editors put at the beginning of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Files of a data directory that holds a database.
const MANIFEST: &str = "manifest";

/// Options of `esker sql`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Database to use.
    #[arg(value_name = "DATABASE", conflicts_with = "database")]
    first_database: Option<String>,
    /// Open this data directory in the shell itself; no server may be using it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["host", "port", "socket"])]
    datadir: Option<PathBuf>,
    /// Make the data directory if it holds no database.
    #[arg(long, requires = "datadir")]
    create: bool,
    #[command(flatten)]
    server: ServerOptions,
    /// Database to use.
    #[arg(long, short = 'D')]
    database: Option<String>,
    /// Run these statements and exit.
    #[arg(long, short, value_name = "SQL")]
    execute: Option<String>,
    /// Go on after an error of a script.
    #[arg(long, short)]
    force: bool,
    /// How to print results; the default is table on a terminal, else tabs.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Print results with borders.
    #[arg(long, short, conflicts_with_all = ["batch", "vertical", "format"])]
    table: bool,
    /// Tab-separated output without borders.
    #[arg(long, short = 'B', conflicts_with_all = ["vertical", "format"])]
    batch: bool,
    /// One line a column.
    #[arg(long, short = 'E', conflicts_with = "format")]
    vertical: bool,
    /// No names of columns above the rows.
    #[arg(long, short = 'N')]
    skip_column_names: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the shell.
pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    let running = Running::watch()?;
    let target = open(options)?;
    let interactive = options.execute.is_none() && io::stdin().is_terminal();
    let for_people = io::stdout().is_terminal() && !options.batch;
    let format = match options {
        Options { batch: true, .. } => Format::Tabs,
        Options { table: true, .. } => Format::Table,
        Options { vertical: true, .. } => Format::Vertical,
        _ => options.format.unwrap_or(match for_people {
            true => Format::Table,
            false => Format::Tabs,
        }),
    };
    let mut shell = Shell {
        target: Rc::new(RefCell::new(target)),
        running,
        style: Style {
            format,
            header: !options.skip_column_names,
            summary: for_people && matches!(format, Format::Table | Format::Vertical),
        },
        timing: true,
        warnings: false,
        interactive,
        force: options.force,
        failed: false,
        database: options.first_database.clone().or(options.database.clone()),
    };
    let flow = match &options.execute {
        Some(sql) => shell.script(&mut sql.as_bytes(), 0),
        None if interactive => shell.converse(),
        None => shell.script(&mut io::stdin().lock(), 0),
    };
    let flow = flow.map_err(|(Failed::Statement(message) | Failed::Output(message))| message)?;
    Ok(match flow {
        Flow::Stop => ExitCode::FAILURE,
        Flow::Interrupted => ExitCode::from(INTERRUPTED),
        Flow::Go | Flow::Quit if shell.failed && !interactive => ExitCode::FAILURE,
        Flow::Go | Flow::Quit => ExitCode::SUCCESS,
    })
}

fn open(options: &Options) -> Result<Target, String> {
    let database = options.first_database.clone().or(options.database.clone());
    if let Some(dir) = &options.datadir {
        if !options.create && !dir.join(MANIFEST).exists() {
            return Err(format!(
                "no Esker database in {} (--create makes one)",
                dir.display()
            ));
        }
        return Embedded::open(dir, database.as_deref())
            .map(|e| Target::Embedded(Box::new(e)))
            .map_err(|e| e.to_string());
    }
    Target::connect(options.server.connect(database)?)
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Go,
    /// An error ended the script.
    Stop,
    /// Ctrl-C ended the script.
    Interrupted,
    /// `quit`.
    Quit,
}

/// What went wrong, for people.
enum Failed {
    /// One of the statements or commands: the next may do.
    Statement(String),
    /// Nobody would see what comes.
    Output(String),
}

impl From<String> for Failed {
    fn from(message: String) -> Self {
        Self::Statement(message)
    }
}

struct Shell {
    target: Rc<RefCell<Target>>,
    running: Arc<Running>,
    style: Style,
    timing: bool,
    /// Print warnings after each statement.
    warnings: bool,
    interactive: bool,
    force: bool,
    /// Has a statement failed?
    failed: bool,
    database: Option<String>,
}

impl Shell {
    /// Reads what a person types until they leave.
    fn converse(&mut self) -> Result<Flow, Failed> {
        print_out(
            b"Esker shell. End statements with ';' or '\\G'. 'help' lists commands; leave with 'exit' or Ctrl-D.\n",
        )?;
        let mut input = Input::new(self.target.clone(), self.running.clone())?;
        self.running.has_prompt();
        let mut splitter = Splitter::new();
        let mut typed = String::new();
        loop {
            let prompt = self.prompt(&splitter);
            let line = match input.read(&prompt)? {
                Typed::Line(line) => line,
                Typed::Cancelled => {
                    splitter.clear();
                    typed.clear();
                    continue;
                }
                Typed::End => return Ok(Flow::Quit),
            };
            typed.push_str(&line);
            let pieces = splitter.feed(line.as_bytes());
            if splitter.is_open() {
                typed.push('\n');
            } else {
                input.remember(&typed);
                typed.clear();
            }
            for piece in pieces {
                let renames = matches!(
                    &piece,
                    Piece::Command {
                        command: Command::Use(_) | Command::Rehash,
                        ..
                    }
                );
                if self.run(piece, 0)? == Flow::Quit {
                    return Ok(Flow::Quit);
                }
                if renames {
                    input.rehash();
                }
            }
        }
    }

    fn prompt(&self, splitter: &Splitter) -> String {
        match (splitter.is_open(), splitter.open_mark()) {
            (_, Some(mark)) => format!("    {mark}> "),
            (true, None) => "    -> ".to_owned(),
            (false, None) => match &self.database {
                Some(name) => format!("esker [{name}]> "),
                None => "esker> ".to_owned(),
            },
        }
    }

    /// Runs a script to its end, its first error, or the statement that Ctrl-C ended: not all fail then, SLEEP
    /// returns 1.
    fn script(&mut self, lines: &mut dyn BufRead, depth: usize) -> Result<Flow, Failed> {
        let mut splitter = Splitter::new();
        let mut line = Vec::new();
        let mut is_first = true;
        self.running.take_presses();
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line);
            if read.map_err(|e| format!("cannot read the script: {e}"))? == 0 {
                break;
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let mut text = text.strip_suffix(b"\r").unwrap_or(text);
            if std::mem::take(&mut is_first) {
                text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
            }
            for piece in splitter.feed(text) {
                let flow = self.run(piece, depth)?;
                if self.running.take_presses() {
                    return Ok(Flow::Interrupted);
                }
                if flow != Flow::Go {
                    return Ok(flow);
                }
            }
        }
        let flow = match splitter.finish() {
            Some(piece) => self.run(piece, depth)?,
            None => Flow::Go,
        };
        Ok(match self.running.take_presses() {
            true => Flow::Interrupted,
            false => flow,
        })
    }

    fn run(&mut self, piece: Piece, depth: usize) -> Result<Flow, Failed> {
        let (outcome, line) = match piece {
            Piece::Statement {
                sql,
                line,
                vertical,
            } => (self.statement(&sql, vertical), line),
            Piece::Command {
                command: Command::Quit,
                ..
            } => return Ok(Flow::Quit),
            Piece::Command {
                command: Command::Source(path),
                line,
            } => match self.source(&path, depth) {
                Ok(flow) => return Ok(flow),
                Err(e) => (Err(e), line),
            },
            Piece::Command { command, line } => (self.command(command), line),
        };
        let message = match outcome {
            Ok(()) => return Ok(Flow::Go),
            Err(Failed::Statement(message)) => message,
            Err(output) => return Err(output),
        };
        self.failed = true;
        if self.interactive && depth == 0 {
            tell(&message);
            return Ok(Flow::Go);
        }
        tell(&at_line(&message, line));
        Ok(if self.force { Flow::Go } else { Flow::Stop })
    }

    /// Runs the statements of a file. An error of one of them is told and only ends the file.
    fn source(&mut self, path: &Path, depth: usize) -> Result<Flow, Failed> {
        if depth >= MAX_SOURCES {
            return Err(format!("source is nested more than {MAX_SOURCES} deep").into());
        }
        let file = File::open(path).map_err(|e| format!("cannot open {}: {e}", path.display()))?;
        let flow = self.script(&mut BufReader::new(file), depth + 1)?;
        Ok(match flow {
            Flow::Stop | Flow::Interrupted if self.interactive && depth == 0 => Flow::Go,
            flow => flow,
        })
    }

    fn statement(&mut self, sql: &[u8], vertical: bool) -> Result<(), Failed> {
        let mut style = self.style;
        if vertical {
            style.format = Format::Vertical;
        }
        let mut warned = 0;
        let mut written = Ok(());
        let begin = Instant::now();
        let timing = self.timing;
        let outcome = self
            .target
            .borrow_mut()
            .query(&self.running, sql, &mut |result| {
                let seconds = begin.elapsed().as_secs_f64();
                let time = match timing {
                    true => format!(" ({seconds:.2} sec)"),
                    false => String::new(),
                };
                let mut printed = Vec::new();
                print::result(&result, style, &time, &mut printed);
                if written.is_ok() {
                    written = print_out(&printed);
                }
                let (QueryResult::Done(_, warnings, _) | QueryResult::Rows { warnings, .. }) =
                    result;
                warned += usize::from(warnings);
            });
        written?;
        if self.interactive {
            print_out(b"\n")?;
        }
        outcome?;
        match warned > 0 && self.warnings {
            true => self.print_warnings(),
            false => Ok(()),
        }
    }

    fn print_warnings(&self) -> Result<(), Failed> {
        let mut lines = String::new();
        let mut collect = |result| {
            let QueryResult::Rows { rows, .. } = result else {
                return;
            };
            for row in rows {
                let texts = row.iter().map(|cell| {
                    String::from_utf8_lossy(cell.as_deref().unwrap_or_default()).into_owned()
                });
                let texts: Vec<String> = texts.collect();
                if let [level, code, message] = texts.as_slice() {
                    lines.push_str(&format!("{level} (Code {code}): {message}\n"));
                }
            }
        };
        // The warnings of a connection that broke are gone with it.
        let _ = (self.target.borrow_mut()).query(&self.running, b"SHOW WARNINGS", &mut collect);
        print_out(lines.as_bytes())
    }

    fn command(&mut self, command: Command) -> Result<(), Failed> {
        match command {
            Command::Help => return print_out(help().as_bytes()),
            Command::Use(name) => return self.use_database(&name),
            Command::Status => return self.status(),
            Command::Format(name) => {
                let format = Format::from_str(&name, true).map_err(|_| {
                    format!("no format '{name}': table, vertical, tabs, csv or json")
                })?;
                self.style.format = format;
                self.style.summary =
                    self.interactive && matches!(format, Format::Table | Format::Vertical);
            }
            Command::Timing(on) => {
                self.timing = on.unwrap_or(!self.timing);
                let state = if self.timing { "on" } else { "off" };
                return print_out(format!("Timing is {state}.\n").as_bytes());
            }
            Command::Warnings(on) => self.warnings = on,
            Command::Bad(why) => return Err(why.into()),
            // `Shell::converse` forgets the names.
            Command::Rehash => (),
            Command::Quit | Command::Source(_) | Command::Delimiter(_) => {
                unreachable!("run before")
            }
        }
        Ok(())
    }

    fn use_database(&mut self, name: &str) -> Result<(), Failed> {
        let sql = format!("USE `{}`", name.replace('`', "``"));
        let mut target = self.target.borrow_mut();
        target.query(&self.running, sql.as_bytes(), &mut |_| ())?;
        target.remember_database(name);
        self.database = Some(name.to_owned());
        match self.interactive {
            true => print_out(b"Database changed\n"),
            false => Ok(()),
        }
    }

    fn status(&mut self) -> Result<(), Failed> {
        let names = ["Server version", "Connection id", "Database", "User"];
        let sql = "SELECT CONCAT(@@version, ' (', @@version_comment, ')'), CONNECTION_ID(), DATABASE(), CURRENT_USER()";
        let mut target = self.target.borrow_mut();
        let mut lines = target.describe();
        target.query(&self.running, sql.as_bytes(), &mut |result| {
            if let QueryResult::Rows { rows, .. } = result {
                for (name, cell) in names.into_iter().zip(rows.into_iter().flatten()) {
                    let text = String::from_utf8_lossy(&cell.unwrap_or_default()).into_owned();
                    lines.push((name, text));
                }
            }
        })?;
        let text: String = lines
            .iter()
            .map(|(name, value)| format!("{name:<16}{value}\n"))
            .collect();
        print_out(text.as_bytes())
    }
}

/// A server's error with the line of a script: "ERROR 1064 (42000) at line 4: …".
fn at_line(message: &str, line: usize) -> String {
    match message.split_once("): ") {
        Some((head, text)) if head.starts_with("ERROR ") => {
            format!("{head}) at line {line}: {text}")
        }
        _ => format!("ERROR at line {line}: {message}"),
    }
}

fn help() -> String {
    let mut text =
        String::from("Commands, at the start of a statement (or the letter, anywhere):\n");
    for (name, letter, meaning) in HELP {
        text.push_str(&format!("  {name:<18}{letter:<8}{meaning}\n"));
    }
    text
}

fn print_out(bytes: &[u8]) -> Result<(), Failed> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // Whoever reads has gone: nothing that follows would be seen.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(Failed::Output(format!("cannot write the results: {e}"))),
    }
}
