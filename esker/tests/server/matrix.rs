//! Every privilege against every statement: what MySQL answers, and what Esker does.
//!
//! `matrix.txt` has what MySQL 9.7 answered. The test asks Esker the same and compares. With
//! `ESKER_TEST_MATRIX_AT=host:port` it asks that server instead (root without a password), which shows whether the file
//! still says what MySQL does. With `ESKER_TEST_MATRIX_WRITE=1` it writes what it heard into the file: as MySQL's
//! answers if it has asked another server, else as where Esker differs.
//!
//! The file: `section NAME`, `sets` and privilege sets separated by `|`, then statements. Below a statement, lines of
//! `ANSWER: SETS` say which sets get which answer; `*` is all that are not named. Lines that begin with `esker` are
//! where Esker differs. An answer is `ok`, `ok N` with N rows for SHOW and information_schema, or an error number. A
//! set is privileges joined by `+`, each `PRIVILEGE[(columns)][@PLACE]`; without a place it is on `priv_d.*`, `@*` is
//! on `*.*`, `@t` on `priv_d.t`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use esker_server::client::{Client, ClientError, QueryResult};

use crate::common::Server;

/// Everything that statements are about; run again after each that may have changed it.
const OBJECTS: &str = "\
DROP DATABASE IF EXISTS priv_d; DROP DATABASE IF EXISTS priv_e; DROP DATABASE IF EXISTS priv_f;
CREATE DATABASE priv_d; CREATE DATABASE priv_e;
CREATE TABLE priv_d.t (a INT PRIMARY KEY, b INT, c INT DEFAULT 3, KEY k (b)); INSERT INTO priv_d.t VALUES (1,2,3),(2,3,4);
CREATE TABLE priv_d.u (a INT PRIMARY KEY, b INT); INSERT INTO priv_d.u VALUES (1,2);
CREATE VIEW priv_d.v AS SELECT a, b FROM priv_d.t;
CREATE SQL SECURITY INVOKER VIEW priv_d.w AS SELECT a, b FROM priv_d.t;
DROP USER IF EXISTS priv_low, priv_high, priv_new, priv_named; CREATE USER priv_low; CREATE USER priv_high;
GRANT SYSTEM_USER ON *.* TO priv_high";

/// Statements that change nothing but rows, which their transaction's end undoes.
const HARMLESS: &[&str] = &[
    "SELECT", "SHOW", "EXPLAIN", "DESCRIBE", "INSERT", "UPDATE", "DELETE", "REPLACE", "TABLE",
    "WITH", "CHECK", "USE",
];

/// Sets of privileges by answer.
type Answers = BTreeMap<String, Vec<String>>;

struct Statement {
    sql: String,
    /// By set.
    mysql: BTreeMap<String, String>,
    /// Where Esker's is another.
    esker: BTreeMap<String, String>,
}

struct Section {
    name: String,
    sets: Vec<String>,
    statements: Vec<Statement>,
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/server/matrix.txt")
}

/// Gives each set of `of` its answer; `*` fills what is left.
fn spread(answer: &str, of: &str, sets: &[String], into: &mut BTreeMap<String, String>) {
    for set in of.split('|').map(str::trim) {
        if set == "*" {
            for set in sets {
                into.entry(set.clone()).or_insert_with(|| answer.to_owned());
            }
        } else {
            assert!(sets.iter().any(|s| s == set), "no set {set}");
            into.insert(set.to_owned(), answer.to_owned());
        }
    }
}

fn parse(text: &str) -> (String, Vec<Section>) {
    let mut head = String::new();
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') || line.trim().is_empty() {
            if sections.is_empty() {
                head.push_str(line);
                head.push('\n');
            }
            continue;
        }
        if let Some(name) = line.strip_prefix("section ") {
            sections.push(Section {
                name: name.to_owned(),
                sets: Vec::new(),
                statements: Vec::new(),
            });
            continue;
        }
        let section = sections.last_mut().expect("a section");
        if let Some(sets) = line.strip_prefix("sets ") {
            section
                .sets
                .extend(sets.split('|').map(|s| s.trim().to_owned()));
        } else if let Some(answer) = line.strip_prefix("  ") {
            let statement = section.statements.last_mut().expect("a statement");
            let (answer, into) = match answer.strip_prefix("esker ") {
                Some(answer) => (answer, &mut statement.esker),
                None => (answer, &mut statement.mysql),
            };
            let (answer, of) = answer.split_once(": ").expect("an answer");
            spread(answer, of, &section.sets, into);
        } else {
            section.statements.push(Statement {
                sql: line.to_owned(),
                mysql: BTreeMap::new(),
                esker: BTreeMap::new(),
            });
        }
    }
    (head, sections)
}

/// Sets on as many lines as it takes, each beginning with `head`.
fn wrapped(head: &str, sets: &[String], out: &mut String) {
    const MOST: usize = 118;
    let mut line = String::new();
    for set in sets {
        if line.len() + set.len() + 3 > MOST {
            let _ = writeln!(out, "{line}");
            line.clear();
        }
        match line.is_empty() {
            true => line.push_str(head),
            false => line.push_str(" | "),
        }
        line.push_str(set);
    }
    let _ = writeln!(out, "{line}");
}

/// Lines that say which sets get which answer; the most frequent one gets the rest, if there is a rest.
fn answers(of: &BTreeMap<String, String>, sets: &[String], prefix: &str, out: &mut String) {
    let mut by_answer = Answers::new();
    for set in sets.iter().filter(|s| of.contains_key(*s)) {
        by_answer
            .entry(of[set].clone())
            .or_default()
            .push(set.clone());
    }
    let whole = of.len() == sets.len();
    let rest = by_answer.iter().max_by_key(|(_, sets)| sets.len());
    let rest = rest.map(|(answer, _)| answer.clone()).filter(|_| whole);
    for (answer, sets) in &by_answer {
        if Some(answer) != rest.as_ref() {
            wrapped(&format!("  {prefix}{answer}: "), sets, out);
        }
    }
    if let Some(answer) = rest {
        let _ = writeln!(out, "  {prefix}{answer}: *");
    }
}

fn print(head: &str, sections: &[Section]) -> String {
    let mut out = head.to_owned();
    for section in sections {
        let _ = writeln!(out, "section {}", section.name);
        wrapped("sets ", &section.sets, &mut out);
        out.push('\n');
        for statement in &section.statements {
            let _ = writeln!(out, "{}", statement.sql);
            answers(&statement.mysql, &section.sets, "", &mut out);
            answers(&statement.esker, &section.sets, "esker ", &mut out);
        }
        out.push('\n');
    }
    out
}

/// GRANT statements of a set.
fn grants(set: &str) -> Vec<String> {
    let one = |part: &str| {
        let (privilege, place) = match part.split_once('@') {
            Some((privilege, "*")) => (privilege, "*.*".to_owned()),
            Some((privilege, place)) if place.ends_with(".*") => (privilege, place.to_owned()),
            Some((privilege, place)) => (privilege, format!("priv_d.{place}")),
            None => (part, "priv_d.*".to_owned()),
        };
        format!("GRANT {privilege} ON {place} TO priv_user")
    };
    match set {
        "none" => Vec::new(),
        set => set.split('+').map(one).collect(),
    }
}

/// Runs a statement: `ok`, `ok N`, or the number of its error.
fn answer(client: &mut Client, sql: &str) -> String {
    let mut rows = None;
    let result = client.query(sql, &mut |r| {
        if let QueryResult::Rows { rows: got, .. } = r {
            rows = Some(got.len());
        }
    });
    let counted = sql.starts_with("SHOW") || sql.contains("information_schema");
    match (result, rows) {
        (Ok(()), Some(n)) if counted => format!("ok {n}"),
        (Ok(()), _) => "ok".to_owned(),
        (Err(ClientError::Server(e)), _) => e.code.to_string(),
        (Err(e), _) => panic!("{sql}: {e}"),
    }
}

fn must(client: &mut Client, sql: &str) {
    client
        .query(sql, &mut |_| ())
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// What the server answers to every statement of a section, by statement and set.
fn ask(address: (&str, u16), section: &Section) -> Vec<BTreeMap<String, String>> {
    let connect =
        |user| Client::connect(address.0, address.1, user, "", None).expect("a connection");
    let mut root = connect("root");
    let mut heard = vec![BTreeMap::new(); section.statements.len()];
    must(&mut root, OBJECTS);
    for set in &section.sets {
        let mut user = None;
        for (statement, heard) in section.statements.iter().zip(&mut heard) {
            // A new session each time that grants may have changed: MySQL keeps global ones as they were.
            let client = user.get_or_insert_with(|| {
                must(
                    &mut root,
                    "DROP USER IF EXISTS priv_user; CREATE USER priv_user",
                );
                for grant in grants(set) {
                    must(&mut root, &grant);
                }
                connect("priv_user")
            });
            must(client, "BEGIN");
            let got = answer(client, &statement.sql);
            must(client, "UNLOCK TABLES; ROLLBACK");
            let harmless = HARMLESS.iter().any(|h| statement.sql.starts_with(h));
            if got.starts_with("ok") && !harmless {
                user = None;
                must(&mut root, OBJECTS);
            }
            heard.insert(set.clone(), got);
        }
    }
    must(
        &mut root,
        "DROP DATABASE priv_d; DROP DATABASE priv_e; DROP USER priv_user, priv_low, priv_high",
    );
    heard
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "how much is equal is wanted beside yes or no"
)]
fn every_privilege_against_every_statement() {
    let (head, mut sections) = parse(&std::fs::read_to_string(file()).expect("matrix.txt"));
    let elsewhere = std::env::var("ESKER_TEST_MATRIX_AT").ok();
    let dir = tempfile::tempdir().expect("folder");
    let own = match elsewhere {
        Some(_) => None,
        None => Some(Server::start(dir.path(), &["--skip-ssl"])),
    };
    let address = match (&elsewhere, &own) {
        (Some(at), _) => {
            let (host, port) = at.rsplit_once(':').expect("host:port");
            (host, port.parse().expect("a port"))
        }
        (None, Some(own)) => ("127.0.0.1", own.port),
        (None, None) => unreachable!("one of them is there"),
    };
    let write = std::env::var("ESKER_TEST_MATRIX_WRITE").is_ok();
    let (mut cells, mut wrong, mut other) = (0, Vec::new(), 0);
    for section in &mut sections {
        let heard = ask(address, section);
        for (statement, heard) in section.statements.iter_mut().zip(heard) {
            cells += heard.len();
            if write && elsewhere.is_some() {
                statement.mysql = heard;
                continue;
            }
            if write {
                let differs = |(set, got): &(String, String)| statement.mysql[set] != *got;
                statement.esker = heard.into_iter().filter(differs).collect();
                other += statement.esker.len();
                continue;
            }
            for (set, got) in heard {
                let own = statement.esker.get(&set).filter(|_| elsewhere.is_none());
                other += usize::from(own.is_some());
                let expected = own.unwrap_or(&statement.mysql[&set]);
                if *expected != got {
                    wrong.push(format!("{set}: {}: {got}, not {expected}", statement.sql));
                }
            }
        }
    }
    if write {
        std::fs::write(file(), print(&head, &sections)).expect("write matrix.txt");
    }
    println!("{cells} cells, {other} of them other than MySQL's");
    assert!(
        wrong.is_empty(),
        "{} cells:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
