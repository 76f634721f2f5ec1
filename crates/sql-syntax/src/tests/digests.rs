//! What is lifted out of a statement, and digest texts.

use std::borrow::Cow;

use esker_types::SqlMode;

use crate::digest::{Digest, DigestKind, MAX_DIGEST_PARAMS, digest_text};
use crate::{ParseOptions, parse};

const MODE: SqlMode = SqlMode::DEFAULT;

fn digest(sql: &str) -> Digest {
    let mut digest = Digest::new();
    assert!(digest.read(sql.as_bytes(), MODE), "{sql}");
    digest
}

/// The lifted literals' texts; also checks that the parser lifts the same ones.
#[track_caller]
fn lifted(sql: &str, wanted: &[&str]) {
    let digest = digest(sql);
    let texts: Vec<Cow<'_, [u8]>> = digest
        .params()
        .iter()
        .map(|p| p.text(sql.as_bytes(), MODE))
        .collect();
    let wanted: Vec<&[u8]> = wanted.iter().map(|w| w.as_bytes()).collect();
    assert_eq!(texts, wanted, "{sql}");
    let offsets = digest.offsets();
    let options = ParseOptions {
        sql_mode: MODE,
        lift: Some(&offsets),
        ..Default::default()
    };
    assert_eq!(
        parse(sql.as_bytes(), options).unwrap().params as usize,
        wanted.len(),
        "{sql}"
    );
}

#[test]
fn operands_are_lifted() {
    lifted("SELECT c FROM sbtest1 WHERE id=55", &["55"]);
    lifted(
        "SELECT c FROM t WHERE id BETWEEN 5 AND 15 ORDER BY c LIMIT 3",
        &["5", "15", "3"],
    );
    lifted(
        "SELECT c FROM t WHERE id IN (1, 2) AND s = 'it''s' OR x > -1.5",
        &["1", "2", "it's", "1.5"],
    );
    lifted(
        "INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL)",
        &["1", "x", "2"],
    );
    lifted(
        "INSERT INTO t SET a = 1 ON DUPLICATE KEY UPDATE b = b + 2",
        &["1", "2"],
    );
    lifted(
        "UPDATE t SET k = k + 1, c = 'y' WHERE id = 7 LIMIT 1",
        &["1", "y", "7", "1"],
    );
    lifted("DELETE FROM t WHERE a = 1e3", &["1e3"]);
    lifted(
        "SELECT 1, a FROM t JOIN u ON t.a = u.b AND u.c = 5 WHERE (t.d = 6)",
        &["5", "6"],
    );
    lifted(
        "SELECT a FROM t WHERE b = (SELECT 1 FROM u WHERE c = 2) AND d = 3",
        &["2", "3"],
    );
    lifted("SELECT a FROM t WHERE d > e + INTERVAL 5 DAY", &["5"]);
    lifted("/* trace 17 */ SELECT a FROM t WHERE b = 1;", &["1"]);
}

#[test]
fn syntax_is_not() {
    lifted("SELECT 1, 'x', f(2) FROM t", &[]);
    lifted("SELECT a FROM t GROUP BY 1 ORDER BY 2, b + 3", &[]);
    lifted(
        "SELECT a FROM t WHERE b = ROUND(c, 2) AND d = CAST('5' AS CHAR(3))",
        &[],
    );
    lifted(
        "SELECT a FROM t WHERE b LIKE 'x%' ESCAPE '!' AND c = DATE '2020-01-01'",
        &[],
    );
    lifted(
        "SELECT a FROM t WHERE b = _latin1'x' AND c = 0x41 AND d->'$.x' = TRUE",
        &[],
    );
    lifted("SELECT a FROM t WHERE b = 1 FOR UPDATE WAIT 5", &["1"]);
    lifted(
        "SELECT GROUP_CONCAT(a SEPARATOR ';') FROM t HAVING COUNT(*) > 3",
        &["3"],
    );
}

#[test]
fn some_statements_have_no_digest() {
    let mut digest = Digest::new();
    for sql in [
        "COMMIT",
        "SET a = 1",
        "SHOW TABLES",
        "SELECT 1; SELECT 2",
        "SELECT ?",
        "",
    ] {
        assert!(!digest.read(sql.as_bytes(), MODE), "{sql}");
    }
    assert!(!digest.read(b"SELECT a FROM t WHERE b = 'x' 'y'", MODE));
    assert!(!digest.read(b"SELECT a FROM t WHERE b = 'x", MODE));
    let rows = |n| format!("INSERT INTO t VALUES (1){}", ", (1)".repeat(n - 1));
    assert!(digest.read(rows(MAX_DIGEST_PARAMS).as_bytes(), MODE));
    assert!(!digest.read(rows(MAX_DIGEST_PARAMS + 1).as_bytes(), MODE));
}

#[test]
fn keys_differ_exactly_when_plans_may() {
    let same = |a: &str, b: &str| digest(a).key() == digest(b).key();
    assert!(same(
        "SELECT a FROM t WHERE b=1",
        " SELECT a FROM t WHERE b=22222 ; "
    ));
    assert!(same(
        "SELECT a FROM t WHERE b='x'",
        "SELECT a FROM t WHERE b='a longer one'"
    ));
    assert!(same(
        "SELECT a FROM t WHERE b=1.5",
        "SELECT a FROM t WHERE b=2.7"
    ));
    // Classes of literals.
    assert!(!same(
        "SELECT a FROM t WHERE b=1",
        "SELECT a FROM t WHERE b='1'"
    ));
    assert!(!same(
        "SELECT a FROM t WHERE b=1.5",
        "SELECT a FROM t WHERE b=1.55"
    ));
    assert!(!same(
        "SELECT a FROM t WHERE b=1",
        "SELECT a FROM t WHERE b=9223372036854775808"
    ));
    // Column names in the result.
    assert!(!same("SELECT 1 FROM t", "SELECT 2 FROM t"));
    assert!(!same("SELECT a+1 FROM t", "SELECT a + 1 FROM t"));
    assert!(!same("SELECT a FROM t", "SELECT A FROM t"));
    assert!(!same(
        "SELECT a FROM t ORDER BY 1",
        "SELECT a FROM t ORDER BY 2"
    ));
    assert!(!same(
        "SELECT a FROM t WHERE b IN (1)",
        "SELECT a FROM t WHERE b IN (1, 2)"
    ));
}

#[test]
fn values() {
    let sql = r"SELECT a FROM t WHERE b = 'x\ny' AND c = 5 AND d = 1.50 AND e = 'plain'";
    let digest = digest(sql);
    let params = digest.params();
    assert_eq!(params[0].text(sql.as_bytes(), MODE), b"x\ny".as_slice());
    assert_eq!(params[1].kind, DigestKind::Int(5));
    assert_eq!(params[2].text(sql.as_bytes(), MODE), b"1.50".as_slice());
    assert!(matches!(
        params[3].text(sql.as_bytes(), MODE),
        Cow::Borrowed(b"plain")
    ));
}

/// Compared with STATEMENT_DIGEST_TEXT() of a MySQL server.
#[test]
fn digest_texts() {
    for (sql, wanted) in [
        (
            "select * from t where a = 1 and b = 'x'",
            "SELECT * FROM `t` WHERE `a` = ? AND `b` = ?",
        ),
        (
            "insert into t values (1,2),(3,4),(5,6)",
            "INSERT INTO `t` VALUES (...) /* , ... */",
        ),
        (
            "insert into t (a) values (1),(2)",
            "INSERT INTO `t` ( `a` ) VALUES (?) /* , ... */",
        ),
        (
            "insert into t values (1, a, now())",
            "INSERT INTO `t` VALUES ( ? , `a` , NOW ( ) )",
        ),
        (
            "select a, -1, null from t where b in (1,2,3) and c is null limit 5,10",
            "SELECT `a` , ?, ... FROM `t` WHERE `b` IN (...) AND `c` IS NULL LIMIT ?, ...",
        ),
        (
            "update t set a=a+1, b=NULL where `id` = 0x41",
            "UPDATE `t` SET `a` = `a` + ? , `b` = ? WHERE `id` = ?",
        ),
        ("values row(1,2), row(3,4)", "VALUES ROW (...) , ROW (...)"),
        ("select @a := @b + 1 -- x", "SELECT @? := @? + ?"),
    ] {
        assert_eq!(digest_text(sql.as_bytes(), MODE), wanted);
    }
}
