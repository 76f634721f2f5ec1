//! Scripts in sqllogictest's format: parsing, and printing with new expectations.
//!
//! ```text
//! # a comment
//! control reset                        a new, empty database and new connections
//! connection two                       the records that follow run on this connection (at first: "default")
//! skipif mysql                         the next record is not for this server (esker, mysql, mariadb); also: onlyif
//! statement ok                         the statement in the lines that follow succeeds
//! statement count 3                    it changes so many rows
//! statement error 1062: Duplicate …    it fails with this number and text, or with any text
//! query rowsort                        rows stand behind "----", one in a line, columns separated by a tab; sorted as text
//!                                      (of several results, those of a CALL, all rows)
//! ```
//! NULL is a null, `(empty)` an empty text; tab, line feed and backslash are written `\t`, `\n` and `\\`. A record ends
//! with an empty line.
//!
//! Neighbours: `mod` runs scripts.
//! **Invariant**: printing a parsed script gives the same bytes.

use std::fmt::Write as _;

/// One row of an expected or real result, as it stands in a script.
pub type Line = String;

/// A part of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Comments and empty lines before it.
    pub notes: Vec<String>,
    /// Servers that it is for, or not for.
    pub conditions: Vec<Condition>,
    /// The line of its first word.
    pub line: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub skips: bool,
    pub server: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The end of the script: only notes.
    End,
    Reset,
    Connection(String),
    Statement(String, Expected),
    Query {
        sql: String,
        /// Rows may come in any order.
        is_sorted: bool,
        rows: Vec<Line>,
    },
}

/// How a statement ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Ok,
    Count(u64),
    Error { code: u16, text: Option<String> },
}

impl Record {
    /// Is it to be run by this kind of server?
    pub fn is_for(&self, server: &str) -> bool {
        let fits = |condition: &Condition| (condition.server == server) != condition.skips;
        self.conditions.iter().all(fits)
    }
}

/// Parses a script.
///
/// # Errors
/// The line that is no record, and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Record>, String> {
    let mut lines = text.lines().enumerate().peekable();
    let mut records = Vec::new();
    let (mut notes, mut conditions) = (Vec::new(), Vec::new());
    while let Some((number, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            notes.push(line.to_owned());
            continue;
        }
        let wrong = |what: &str| format!("line {}: {what}: {line}", number + 1);
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut take_until = |ends: fn(&str) -> bool| {
            let mut taken = Vec::new();
            while let Some((_, line)) = lines.next_if(|(_, line)| !ends(line)) {
                taken.push(line.to_owned());
            }
            taken
        };
        let kind = match word {
            "skipif" | "onlyif" => {
                let skips = word == "skipif";
                let server = rest.to_owned();
                conditions.push(Condition { skips, server });
                continue;
            }
            "control" if rest == "reset" => Kind::Reset,
            "connection" => Kind::Connection(rest.to_owned()),
            "statement" => {
                let expected = expected(rest).ok_or_else(|| wrong("no such end"))?;
                let sql = take_until(str::is_empty).join("\n");
                Kind::Statement(sql, expected)
            }
            "query" => {
                let sql = take_until(|line| line == "----").join("\n");
                lines.next().ok_or_else(|| wrong("no ---- follows"))?;
                let mut rows = Vec::new();
                while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
                    rows.push(line.to_owned());
                }
                let is_sorted = match rest {
                    "" => false,
                    "rowsort" => true,
                    _ => return Err(wrong("no such order")),
                };
                Kind::Query {
                    sql,
                    is_sorted,
                    rows,
                }
            }
            _ => return Err(wrong("no such record")),
        };
        records.push(Record {
            notes: std::mem::take(&mut notes),
            conditions: std::mem::take(&mut conditions),
            line: number + 1,
            kind,
        });
    }
    records.push(Record {
        notes,
        conditions,
        line: text.lines().count(),
        kind: Kind::End,
    });
    Ok(records)
}

fn expected(text: &str) -> Option<Expected> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match word {
        "ok" => Expected::Ok,
        "count" => Expected::Count(rest.parse().ok()?),
        "error" => {
            let (code, text) = match rest.split_once(": ") {
                Some((code, text)) => (code, Some(text.to_owned())),
                None => (rest, None),
            };
            let code = code.parse().ok()?;
            Expected::Error { code, text }
        }
        _ => return None,
    })
}

/// The text of a script.
pub fn print(records: &[Record]) -> String {
    let mut out = String::new();
    for record in records {
        record.notes.iter().for_each(|note| {
            out += note;
            out.push('\n');
        });
        for condition in &record.conditions {
            let word = if condition.skips { "skipif" } else { "onlyif" };
            let _ = writeln!(out, "{word} {}", condition.server);
        }
        print_kind(&record.kind, &mut out);
    }
    out
}

fn print_kind(kind: &Kind, out: &mut String) {
    let _ = match kind {
        Kind::End => Ok(()),
        Kind::Reset => writeln!(out, "control reset"),
        Kind::Connection(name) => writeln!(out, "connection {name}"),
        Kind::Statement(sql, Expected::Ok) => writeln!(out, "statement ok\n{sql}"),
        Kind::Statement(sql, Expected::Count(rows)) => {
            writeln!(out, "statement count {rows}\n{sql}")
        }
        Kind::Statement(sql, Expected::Error { code, text }) => {
            let text = text.as_ref().map_or(String::new(), |t| format!(": {t}"));
            writeln!(out, "statement error {code}{text}\n{sql}")
        }
        Kind::Query {
            sql,
            is_sorted,
            rows,
        } => {
            let order = if *is_sorted { " rowsort" } else { "" };
            let _ = writeln!(out, "query{order}\n{sql}\n----");
            rows.iter().try_for_each(|row| writeln!(out, "{row}"))
        }
    };
}

/// A row as a line of a script.
pub fn line_of(cells: &[Option<String>]) -> Line {
    let escaped = |cell: &Option<String>| match cell {
        None => "NULL".to_owned(),
        Some(text) if text.is_empty() => "(empty)".to_owned(),
        Some(text) => text
            .replace('\\', "\\\\")
            .replace('\t', "\\t")
            .replace('\n', "\\n"),
    };
    cells.iter().map(escaped).collect::<Vec<_>>().join("\t")
}

#[test]
fn a_script_is_printed_as_it_was_written() {
    let text = "# head\n\ncontrol reset\n\nconnection two\n\nskipif mysql\nstatement ok\nSELECT\n1\n\n\
                statement count 2\nDELETE FROM t\n\nstatement error 1062\nx\n\nstatement error 1064: a: b\ny\n\n\
                query rowsort\nSELECT 1\n----\n1\ta\nNULL\t(empty)\n\nquery\nSELECT 2\n----\n\n# tail\n";
    let records = parse(text).expect("a script");
    assert_eq!(print(&records), text);
    assert!(!records[2].is_for("mysql") && records[2].is_for("esker"));
    assert!(parse("statement perhaps\nx\n").is_err() && parse("query\nx\n").is_err());
}
