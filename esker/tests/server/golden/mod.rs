//! SQL tests as text: the scripts in `tests/sql/`, run against a real server.
//!
//! `ESKER_SLT=part` runs the scripts whose paths contain that. `ESKER_SLT_REWRITE=1` writes what Esker answers into the
//! scripts. `ESKER_SLT_PEER=HOST:PORT` runs them against a MySQL or MariaDB (root without a password) and shows where
//! it answers otherwise; `skipif mysql` marks known differences.
//!
//! Neighbours: `script` has the format. **Invariants**: each script has a database of its own, which is empty at its
//! beginning; a record that fails does not hide the others.

mod script;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use esker_server::client::{Client, ClientError, QueryResult};

use crate::common::Server;
use script::{Expected, Kind, Record, line_of, parse, print};

/// A server that scripts are run against.
struct Target {
    port: u16,
    host: String,
    /// Its name in `skipif` and `onlyif`.
    name: &'static str,
}

/// What a statement came to.
enum Outcome {
    Done(u64),
    Rows(Vec<String>),
    Failed(u16, String),
}

impl Target {
    fn connect(&self) -> Client {
        Client::connect(&self.host, self.port, "root", "", None).expect("connect")
    }

    /// The peer that the environment names.
    fn peer() -> Option<Self> {
        let address = std::env::var("ESKER_SLT_PEER").ok()?;
        let (host, port) = address.split_once(':').expect("HOST:PORT");
        let mut target = Target {
            port: port.parse().expect("a port"),
            host: host.to_owned(),
            name: "mysql",
        };
        if target.connect().server_version.contains("MariaDB") {
            target.name = "mariadb";
        }
        Some(target)
    }
}

/// The connections of a script, all in one database.
struct Play<'t> {
    target: &'t Target,
    database: String,
    connections: BTreeMap<String, Client>,
    current: String,
}

impl Play<'_> {
    fn reset(&mut self) {
        self.connections.clear();
        self.current = "default".to_owned();
        let name = &self.database;
        let sql = format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}");
        let made = self.target.connect().query(&sql, &mut |_| ());
        made.expect("an empty database");
    }

    fn ask(&mut self, sql: &str) -> Outcome {
        let (target, database) = (self.target, &self.database);
        let client = self.connections.entry(self.current.clone());
        let client = client.or_insert_with(|| {
            let mut client = target.connect();
            let begin = format!("SET NAMES utf8mb4; USE {database}");
            client.query(&begin, &mut |_| ()).expect("USE");
            client
        });
        let mut outcome = Outcome::Done(0);
        let asked = client.query(sql, &mut |result| {
            match (result, &mut outcome) {
                // What ends the results of a CALL.
                (QueryResult::Done(..), Outcome::Rows(_)) => {}
                (QueryResult::Done(rows, _, _), _) => outcome = Outcome::Done(rows),
                (QueryResult::Rows { rows, .. }, Outcome::Rows(all)) => {
                    all.extend(rows.iter().map(|row| text_of(row)));
                }
                (QueryResult::Rows { rows, .. }, _) => {
                    outcome = Outcome::Rows(rows.iter().map(|row| text_of(row)).collect());
                }
            }
        });
        match asked {
            Ok(()) => outcome,
            Err(ClientError::Server(e)) => Outcome::Failed(e.code, e.message),
            Err(e) => panic!("{sql}: {e}"),
        }
    }

    /// Runs a record; gives it with what really came.
    fn run(&mut self, record: &Record) -> Record {
        let kind = match &record.kind {
            Kind::End => Kind::End,
            Kind::Reset => {
                self.reset();
                Kind::Reset
            }
            Kind::Connection(name) => {
                self.current.clone_from(name);
                Kind::Connection(name.clone())
            }
            Kind::Statement(sql, expected) => {
                let found = self.ask(sql);
                Kind::Statement(sql.clone(), found.as_expected(expected))
            }
            Kind::Query { sql, is_sorted, .. } => match self.ask(sql) {
                Outcome::Rows(mut rows) => {
                    if *is_sorted {
                        rows.sort();
                    }
                    Kind::Query {
                        sql: sql.clone(),
                        is_sorted: *is_sorted,
                        rows,
                    }
                }
                other => Kind::Statement(sql.clone(), other.as_expected(&Expected::Ok)),
            },
        };
        Record {
            kind,
            ..record.clone()
        }
    }
}

fn text_of(row: &[Option<Vec<u8>>]) -> String {
    let cells = row.iter().map(|cell| {
        let text = cell.as_ref().map(|bytes| String::from_utf8_lossy(bytes));
        text.map(std::borrow::Cow::into_owned)
    });
    line_of(&cells.collect::<Vec<_>>())
}

impl Outcome {
    /// As the end of a statement, as exactly as the script says it.
    fn as_expected(&self, said: &Expected) -> Expected {
        match (self, said) {
            (Outcome::Done(rows), Expected::Count(_)) => Expected::Count(*rows),
            (Outcome::Done(_) | Outcome::Rows(_), _) => Expected::Ok,
            (Outcome::Failed(code, _), Expected::Error { text: None, .. }) => Expected::Error {
                code: *code,
                text: None,
            },
            (Outcome::Failed(code, text), _) => Expected::Error {
                code: *code,
                text: Some(text.replace('\n', "\\n")),
            },
        }
    }
}

fn scripts(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("scripts") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            scripts(&path, out);
        } else if path.extension().is_some_and(|e| e == "slt") {
            out.push(path);
        }
    }
}

/// Runs a script; gives its records with what really came, and what differs.
fn play(path: &Path, target: &Target) -> (Vec<Record>, Vec<String>) {
    let text = fs::read_to_string(path).expect("a script");
    let records = parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(print(&records), text, "{}", path.display());
    let stem = path.file_stem().expect("a name").to_string_lossy();
    let mut play = Play {
        target,
        database: format!("golden_{stem}"),
        connections: BTreeMap::new(),
        current: String::new(),
    };
    play.reset();
    let mut wrong = Vec::new();
    let mut found = Vec::with_capacity(records.len());
    for record in records {
        if !record.is_for(target.name) {
            found.push(record);
            continue;
        }
        let real = play.run(&record);
        if real != record {
            let place = format!("{}:{}", path.display(), record.line);
            let expected = print(&[record]);
            let came = print(std::slice::from_ref(&real));
            wrong.push(format!(
                "{place}\n{}\nbut came\n{}",
                expected.trim(),
                came.trim()
            ));
        }
        found.push(real);
    }
    play.connections.clear();
    let drop = format!("DROP DATABASE {}", play.database);
    let dropped = target.connect().query(&drop, &mut |_| ());
    dropped.expect("the database is dropped");
    (found, wrong)
}

#[test]
fn scripts_give_what_they_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sql");
    let mut paths = Vec::new();
    scripts(&root, &mut paths);
    paths.sort();
    let part = std::env::var("ESKER_SLT").unwrap_or_default();
    paths.retain(|path| path.to_string_lossy().contains(&part));
    assert!(!paths.is_empty(), "no script is named like that");

    let peer = Target::peer();
    let dir = tempfile::tempdir().expect("folder");
    let own = peer
        .is_none()
        .then(|| Server::start(dir.path(), &["--skip-ssl"]));
    let target = peer.unwrap_or_else(|| Target {
        port: own.as_ref().expect("a server").port,
        host: "127.0.0.1".to_owned(),
        name: "esker",
    });
    let rewrites = target.name == "esker" && std::env::var_os("ESKER_SLT_REWRITE").is_some();
    let mut wrong = Vec::new();
    for path in &paths {
        let (found, differs) = play(path, &target);
        if rewrites {
            fs::write(path, print(&found)).expect("written");
        } else {
            wrong.extend(differs);
        }
    }
    let count = wrong.len();
    assert!(
        wrong.is_empty(),
        "{}\n{count} records differ",
        wrong.join("\n\n")
    );
}
