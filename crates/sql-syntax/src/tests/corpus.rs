//! Every statement of the corpora parses, or is refused for a reason written down here.

use super::{ok, parsed};
use crate::ast::Statement;
use crate::digest::{Digest, DigestKind};
use crate::{ParseOptions, parse};

pub const STATEMENTS: &str = include_str!("data/statements.sql");
pub const CLIENTS: &str = include_str!("data/clients.sql");

/// Corpus statements, without the headings.
pub fn lines() -> impl Iterator<Item = &'static str> {
    STATEMENTS
        .lines()
        .chain(CLIENTS.lines())
        .filter(|l| !l.is_empty() && !l.starts_with("##"))
}

/// Statements that are errors, with the start of the error and why that is right.
const REFUSED: &[(&str, u16, &str)] = &[
    // MariaDB's temporal tables: OF is a reserved word in MySQL.
    (
        "SELECT * FROM t AS OF TIMESTAMP '2020-01-01'",
        1064,
        "near 'OF TIMESTAMP",
    ),
    // Removed in MySQL 8.0.13.
    (
        "SELECT a, COUNT(*) FROM t GROUP BY a ASC",
        1064,
        "near 'ASC' at line 1",
    ),
    // Removed in MySQL 8.0.
    (
        "SELECT a FROM t PROCEDURE ANALYSE()",
        1064,
        "near 'PROCEDURE ANALYSE()' at line 1",
    ),
    (
        "EXPLAIN EXTENDED SELECT 1",
        1064,
        "near 'SELECT 1' at line 1",
    ),
    // A reserved word.
    (
        "SELECT JSON_TABLE.x FROM JSON_TABLE('[1]', '$[*]' COLUMNS(x INT PATH '$')) AS JSON_TABLE",
        1064,
        "near 'JSON_TABLE' at line 1",
    ),
    // A table of one engine of MySQL's only.
    (
        "SELECT * FROM t TABLESAMPLE BERNOULLI(10)",
        1235,
        "'TABLESAMPLE'",
    ),
    // The client's own command, sent by mistake.
    ("status", 1064, "near 'status' at line 1"),
    // Needs CLIENT_MULTI_STATEMENTS.
    ("select 1; select 2", 1064, "near 'select 2' at line 1"),
];

/// Statements that parse to `Unsupported`: error 1235 with this name.
const UNSUPPORTED: &[(&str, &str)] = &[
    // Threads are not bound to processors.
    ("SET RESOURCE GROUP g", "SET RESOURCE GROUP"),
    // MariaDB's backup locks.
    ("BACKUP STAGE START", "BACKUP STAGE"),
    // MariaDB's sequences.
    ("CREATE SEQUENCE s", "CREATE SEQUENCE"),
    // Another engine's key cache.
    ("CACHE INDEX t IN c", "CACHE INDEX"),
    // No loadable code.
    ("INSTALL PLUGIN x", "INSTALL PLUGIN"),
    // Other ways to move data files.
    ("CLONE LOCAL DATA", "CLONE"),
    ("IMPORT TABLE FROM", "IMPORT TABLE"),
];

#[test]
fn every_line_parses_or_is_listed() {
    let mut seen = (0, 0, 0);
    for line in lines() {
        let refused = REFUSED.iter().find(|r| r.0 == line);
        let unsupported = UNSUPPORTED.iter().find(|u| line.starts_with(u.0));
        match (parsed(line), refused, unsupported) {
            (Err(e), Some((_, code, text)), None) => {
                assert!(e.code == *code && e.message.contains(text), "{line}: {e}");
                seen.1 += 1;
            }
            (Ok(p), None, Some((_, name))) => {
                assert_eq!(p.stmt, Statement::Unsupported(name), "{line}");
                seen.2 += 1;
            }
            (Ok(p), None, None) => {
                assert!(
                    !matches!(p.stmt, Statement::Unsupported(_)),
                    "{line}: {:?}",
                    p.stmt
                );
                assert_eq!(p.span.end - p.span.start, line.trim().len(), "{line}: span");
                seen.0 += 1;
            }
            (result, ..) => panic!("{line}: {result:?}"),
        }
    }
    assert_eq!((seen.1, seen.2), (REFUSED.len(), UNSUPPORTED.len()));
    assert!(seen.0 > 470, "{seen:?}");
}

#[test]
fn statements_are_what_they_look_like() {
    for (sql, wanted) in [
        ("SELECT 1", "Query"),
        ("(SELECT 1)", "Query"),
        ("TABLE t", "Query"),
        ("VALUES ROW(1)", "Query"),
        ("WITH c AS (SELECT 1) SELECT * FROM c", "Query"),
        ("WITH c AS (SELECT 1) UPDATE t SET a=1", "Update"),
        ("WITH c AS (SELECT 1 a) DELETE FROM t", "Delete"),
        ("REPLACE t VALUES (1)", "Insert"),
        ("desc t", "Show"),
        ("/*!40000 ALTER TABLE `t` DISABLE KEYS */", "AlterTable"),
        ("/*M!100616 SET NOTE_VERBOSITY=0 */", "Empty"),
        ("/*!99999 SELECT 1 */", "Empty"),
        ("-- only a comment\n", "Empty"),
        ("DROP PREPARE s", "Deallocate"),
        ("START SLAVE", "Replication"),
    ] {
        let tree = format!("{:?}", ok(sql));
        assert!(tree.starts_with(wanted), "{sql}: {tree}");
    }
}

/// The plan cache's promise: with the literals of a digest lifted, texts that differ only in those
/// literals have the same key and the same tree.
#[test]
fn digests_of_the_corpus_hold_what_they_promise() {
    let mode = esker_types::SqlMode::DEFAULT;
    let mut digest = Digest::new();
    let mut other = Digest::new();
    let mut shared = 0;
    for line in lines() {
        if !digest.read(line.as_bytes(), mode) {
            continue;
        }
        let changed = change_literals(line, &digest);
        assert!(other.read(changed.as_bytes(), mode), "{changed}");
        assert_eq!(digest.key(), other.key(), "{line}\n{changed}");
        let tree = |sql: &str, digest: &Digest| {
            let offsets = digest.offsets();
            let lift = Some(&offsets[..]);
            let options = ParseOptions {
                sql_mode: mode,
                lift,
                ..ParseOptions::default()
            };
            parse(sql.as_bytes(), options)
        };
        match (tree(line, &digest), tree(&changed, &other)) {
            (Ok(a), Ok(b)) => {
                assert_eq!(a.params, b.params, "{line}");
                if a.params as usize == digest.params().len() {
                    assert_eq!(a.stmt, b.stmt, "{line}\n{changed}");
                    shared += 1;
                }
            }
            (Err(_), Err(_)) => {}
            other => panic!("{line}: {other:?}"),
        }
    }
    assert!(shared > 60, "{shared} statements can share plans");
}

/// Other values of the same classes and lengths.
fn change_literals(sql: &str, digest: &Digest) -> String {
    let mut bytes = sql.as_bytes().to_vec();
    for param in digest.params() {
        for b in &mut bytes[param.start..param.end] {
            match b {
                b'0'..=b'8' => *b += 1,
                b'a'..=b'y' if param.kind == DigestKind::Str => *b += 1,
                _ => {}
            }
        }
    }
    String::from_utf8(bytes).expect("ASCII stays ASCII")
}
