//! `esker sql`: statements on a server, or directly on a data directory.
//!
//! Neighbours: `esker_server::client` talks to a server, `esker_server::embedded` opens a data
//! directory in this process; both give the same results, which are printed here.
//! **Invariants**: a statement ends at `;` outside quotes and comments; an error of a script given
//! with `-e` or on standard input ends it with exit status 1.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use esker_server::client::{Client, ClientError, QueryResult};
use esker_server::embedded::Embedded;

/// Options of `esker sql`.
#[derive(Args)]
pub(crate) struct Options {
    /// Open this data directory in the shell itself; no server may be using it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["host", "port"])]
    datadir: Option<PathBuf>,
    /// Server to connect to.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Its port.
    #[arg(long, short = 'P', default_value_t = 3306)]
    port: u16,
    /// User to log in as; the password is taken from ESKER_PASSWORD.
    #[arg(long, short, default_value = "root")]
    user: String,
    /// Database to use.
    #[arg(long, short = 'D')]
    database: Option<String>,
    /// Run these statements and exit.
    #[arg(long, short, value_name = "SQL")]
    execute: Option<String>,
    /// Tab-separated output without borders (the default when the output is no terminal).
    #[arg(long, short = 'B')]
    batch: bool,
}

/// Where statements run.
enum Target {
    Server(Box<Client>),
    Embedded(Box<Embedded>),
}

impl Target {
    fn open(options: &Options) -> Result<Self, String> {
        if let Some(dir) = &options.datadir {
            let opened = Embedded::open(dir, options.database.as_deref());
            return opened
                .map(|e| Self::Embedded(Box::new(e)))
                .map_err(|e| e.to_string());
        }
        let password = std::env::var("ESKER_PASSWORD").unwrap_or_default();
        let database = options.database.as_deref();
        Client::connect(
            &options.host,
            options.port,
            &options.user,
            &password,
            database,
        )
        .map(|c| Self::Server(Box::new(c)))
        .map_err(|e| match e {
            ClientError::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => format!(
                "no server answers on {}:{}; start one with 'esker serve', or open a data \
                     directory with --datadir",
                options.host, options.port
            ),
            e => e.to_string(),
        })
    }

    fn query(&mut self, sql: &str, on_result: &mut dyn FnMut(QueryResult)) -> Result<(), String> {
        match self {
            Self::Server(client) => client.query(sql, on_result).map_err(|e| e.to_string()),
            Self::Embedded(e) => e.query(sql, on_result).map_err(|e| e.to_string()),
        }
    }
}

/// Runs the shell.
pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    let mut target = Target::open(options)?;
    let borders = !options.batch && io::stdout().is_terminal();
    let mut shell = Printer { borders };
    if let Some(sql) = &options.execute {
        return Ok(shell.run(&mut target, sql));
    }
    let interactive = io::stdin().is_terminal();
    if interactive {
        shell.print("Esker shell. End statements with ';', leave with 'exit' or Ctrl-D.\n");
    }
    let mut pending = String::new();
    let mut line = String::new();
    loop {
        if interactive {
            shell.print(if pending.is_empty() {
                "esker> "
            } else {
                "    -> "
            });
        }
        line.clear();
        if io::stdin()
            .lock()
            .read_line(&mut line)
            .map_err(|e| e.to_string())?
            == 0
        {
            break;
        }
        let word = line.trim().trim_end_matches(';');
        if pending.is_empty() && ["exit", "quit", "\\q"].contains(&word) {
            return Ok(ExitCode::SUCCESS);
        }
        pending.push_str(&line);
        let end = last_statement_end(&pending);
        if end > 0 {
            let rest = pending.split_off(end);
            let code = shell.run(&mut target, &pending);
            if code != ExitCode::SUCCESS && !interactive {
                return Ok(code);
            }
            pending = if rest.trim().is_empty() {
                String::new()
            } else {
                rest
            };
        }
    }
    if pending.trim().is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(shell.run(&mut target, &pending))
}

/// Offset just past the last `;` that ends a statement, or 0.
fn last_statement_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut end) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"' | b'`') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' && quote != b'`' {
                        2
                    } else {
                        1
                    };
                }
                at += 1;
            }
            b'#' => at = skip_to(bytes, at, b"\n"),
            b'-' if bytes[at..].starts_with(b"-- ") => at = skip_to(bytes, at, b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => at = skip_to(bytes, at + 2, b"*/"),
            b';' => {
                at += 1;
                end = at;
            }
            _ => at += 1,
        }
    }
    end
}

fn skip_to(bytes: &[u8], from: usize, mark: &[u8]) -> usize {
    bytes[from..]
        .windows(mark.len())
        .position(|w| w == mark)
        .map_or(bytes.len(), |i| from + i + mark.len())
}

/// Prints results.
struct Printer {
    borders: bool,
}

impl Printer {
    fn print(&self, text: &str) {
        let mut out = io::stdout().lock();
        // A closed standard output ends the program at the next read; nothing better can be done.
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }

    fn run(&mut self, target: &mut Target, sql: &str) -> ExitCode {
        let mut printed = String::new();
        let outcome = target.query(sql, &mut |result| self.result(&result, &mut printed));
        self.print(&printed);
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                let _ = writeln!(io::stderr(), "{message}");
                ExitCode::FAILURE
            }
        }
    }

    fn result(&self, result: &QueryResult, out: &mut String) {
        match result {
            QueryResult::Done(rows, warnings, info) if self.borders => {
                let plural = if *rows == 1 { "row" } else { "rows" };
                out.push_str(&format!("Query OK, {rows} {plural} affected"));
                push_warnings(*warnings, out);
                out.push('\n');
                if !info.is_empty() {
                    out.push_str(&format!("{info}\n"));
                }
            }
            QueryResult::Done(..) => (),
            QueryResult::Rows {
                columns,
                rows,
                warnings,
            } if self.borders => {
                table(columns, rows, out);
                let plural = if rows.len() == 1 { "row" } else { "rows" };
                out.push_str(&format!("{} {plural} in set", rows.len()));
                push_warnings(*warnings, out);
                out.push('\n');
            }
            QueryResult::Rows { columns, rows, .. } => batch(columns, rows, out),
        }
    }
}

fn push_warnings(warnings: u16, out: &mut String) {
    if warnings > 0 {
        let plural = if warnings == 1 { "warning" } else { "warnings" };
        out.push_str(&format!(", {warnings} {plural}"));
    }
}

fn cell(cell: Option<&Vec<u8>>) -> String {
    cell.map_or_else(
        || "NULL".into(),
        |c| String::from_utf8_lossy(c).into_owned(),
    )
}

fn batch(columns: &[(String, u8)], rows: &[Vec<Option<Vec<u8>>>], out: &mut String) {
    let names: Vec<&str> = columns.iter().map(|c| c.0.as_str()).collect();
    out.push_str(&names.join("\t"));
    out.push('\n');
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .map(|c| {
                cell(c.as_ref())
                    .replace('\\', "\\\\")
                    .replace('\t', "\\t")
                    .replace('\n', "\\n")
            })
            .collect();
        out.push_str(&cells.join("\t"));
        out.push('\n');
    }
}

fn table(columns: &[(String, u8)], rows: &[Vec<Option<Vec<u8>>>], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    let mut widths: Vec<usize> = columns.iter().map(|c| c.0.chars().count()).collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|r| r.iter().map(|c| cell(c.as_ref())).collect())
        .collect();
    for row in &cells {
        for (w, c) in widths.iter_mut().zip(row) {
            *w = (*w).max(c.chars().count());
        }
    }
    let line: String = widths
        .iter()
        .map(|w| format!("+{}", "-".repeat(w + 2)))
        .collect();
    let names: Vec<String> = columns.iter().map(|c| c.0.clone()).collect();
    out.push_str(&format!("{line}+\n"));
    table_row(&names, &widths, out);
    out.push_str(&format!("{line}+\n"));
    cells.iter().for_each(|row| table_row(row, &widths, out));
    out.push_str(&format!("{line}+\n"));
}

fn table_row(cells: &[String], widths: &[usize], out: &mut String) {
    for (text, width) in cells.iter().zip(widths) {
        let pad = width - text.chars().count();
        out.push_str(&format!("| {text}{} ", " ".repeat(pad)));
    }
    out.push_str("|\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_quotes() {
        assert_eq!(last_statement_end("select 1"), 0);
        assert_eq!(last_statement_end("select 1;"), 9);
        assert_eq!(last_statement_end("select ';"), 0);
        assert_eq!(last_statement_end("select ';';"), 11);
        assert_eq!(last_statement_end("select 1; -- ;\n"), 9);
        assert_eq!(last_statement_end("/* ; */ select 'it\\';'; x"), 23);
    }

    #[test]
    fn tables_align() {
        let mut out = String::new();
        let rows = vec![vec![Some(b"1".to_vec()), None]];
        table(&[("a".into(), 3), ("bcd".into(), 3)], &rows, &mut out);
        assert_eq!(
            out,
            "+---+------+\n| a | bcd  |\n+---+------+\n| 1 | NULL |\n+---+------+\n"
        );
    }
}
