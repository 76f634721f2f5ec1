//! Answers in which MySQL itself was asked: subtle rules that nothing else would keep.
//!
//! Neighbours: `exec` has the plain cases.
//! **Invariant**: every expected value was seen from a MySQL server.

use super::rig::Rig;
use crate::dml::testing::Bench;

#[test]
fn a_collation_on_the_constant_decides_the_comparison() {
    let rig = Rig::new(&[
        "CREATE TABLE t (c VARCHAR(10), KEY (c))",
        "INSERT INTO t VALUES ('a'), ('A'), ('b')",
    ]);
    let bin = "COLLATE utf8mb4_bin";
    for filter in [
        format!("c = 'a' {bin}"),
        format!("'a' {bin} = c"),
        format!("c IN ('a' {bin})"),
        format!("c IN ('a' {bin}, 'x')"),
        format!("c BETWEEN 'a' {bin} AND 'a'"),
    ] {
        assert_eq!(
            rig.rows(&format!("SELECT c FROM t WHERE {filter}")),
            ["a"],
            "{filter}"
        );
    }
    assert_eq!(rig.value("SELECT COUNT(*) FROM t WHERE c = 'a'"), "2");
}

#[test]
fn casts_to_text_cut_nothing_unless_told_to() {
    let rig = Rig::new(&[
        "CREATE TABLE t (d DOUBLE, n INT(2), c VARCHAR(3))",
        "INSERT INTO t VALUES (-2.2250738585072014e-308, -123456, 'ééé')",
    ]);
    assert_eq!(
        rig.rows("SELECT CAST(d AS CHAR), CAST(n AS CHAR), LENGTH(CAST(c AS BINARY)) FROM t"),
        ["-2.2250738585072014e-308|-123456|6"]
    );
    assert_eq!(rig.value("SELECT HEX(CAST('ab' AS BINARY(4)))"), "61620000");
    assert!(rig.warnings.borrow().is_empty());
}

#[test]
fn numbers_beyond_all_doubles_are_refused() {
    let rig = Rig::new(&[]);
    for sql in ["SELECT 1e309", "SELECT -1e400", "SELECT 1 WHERE 1 < 1e999"] {
        assert_eq!(rig.code(sql), 1367, "{sql}");
    }
    assert_eq!(
        rig.error("SELECT 1e309").1,
        "Illegal double '1e309' value found during parsing"
    );
}

#[test]
fn a_statement_does_not_read_the_table_it_changes_in_a_subquery() {
    let mut bench = Bench::new();
    for sql in [
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE u (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO u VALUES (1, 1)",
    ] {
        bench.ok(sql);
    }
    for sql in [
        "DELETE FROM t WHERE id IN (SELECT id FROM t)",
        "DELETE x FROM t x, u WHERE x.id IN (SELECT id FROM t)",
        "UPDATE t SET a = 1 WHERE id = (SELECT MAX(id) FROM t)",
        "UPDATE t SET a = (SELECT MAX(a) FROM t) + 1",
        "UPDATE t, u SET u.a = 1 WHERE t.id = (SELECT MAX(id) FROM u)",
        "INSERT INTO t VALUES (9, (SELECT MAX(a) FROM t))",
        "REPLACE INTO t VALUES (1, (SELECT COUNT(*) FROM t))",
    ] {
        let (code, text) = bench.error(sql);
        let table = match sql {
            _ if sql.starts_with("DELETE x") => "x",
            _ => "t",
        };
        assert_eq!(code, 1093, "{sql}");
        assert_eq!(
            text,
            format!("You can't specify target table '{table}' for update in FROM clause")
        );
    }
    // What a derived table reads was read before the first change.
    bench.ok("UPDATE t SET a = (SELECT m FROM (SELECT MAX(a) + 1 m FROM t) q) WHERE id = 1");
    bench.ok("DELETE FROM t WHERE id = (SELECT MAX(id) FROM (SELECT id FROM t) q)");
    bench.ok("INSERT INTO t SELECT id + 10, a FROM t WHERE id IN (SELECT id FROM t)");
    assert_eq!(bench.rows("t"), ["1|3", "11|3"]);
}

#[test]
fn a_constant_that_is_no_number_warns_once() {
    let rig = Rig::new(&[
        "CREATE TABLE t (n INT)",
        "INSERT INTO t VALUES (10), (10), (11)",
    ]);
    assert_eq!(rig.rows("SELECT n FROM t WHERE n = '10abc'"), ["10", "10"]);
    let warnings: Vec<String> = rig
        .warnings
        .borrow()
        .iter()
        .map(|w| w.message.clone())
        .collect();
    assert_eq!(warnings, ["Truncated incorrect DOUBLE value: '10abc'"]);
}

#[test]
fn a_row_of_values_is_not_empty() {
    assert_eq!(Rig::new(&[]).code("VALUES ROW()"), 3942);
}

#[test]
fn a_text_that_is_no_date_is_refused_only_by_itself() {
    let rig = Rig::new(&[
        "CREATE TABLE t (d DATE, KEY (d))",
        "INSERT INTO t VALUES ('2020-01-01'), (NULL)",
    ]);
    for filter in ["d = 'abc'", "d <> 'abc'", "d < 'abc'", "d IN ('abc')"] {
        assert_eq!(rig.code(&format!("SELECT 1 FROM t WHERE {filter}")), 1525);
    }
    let found = |filter: &str| rig.rows(&format!("SELECT 1 FROM t WHERE {filter}")).len();
    assert_eq!(found("d BETWEEN 'abc' AND '2020-12-31'"), 1);
    assert_eq!(found("d BETWEEN '2019-01-01' AND 'abc'"), 0);
    assert_eq!(found("d IN ('abc', '2020-01-01')"), 1);
    assert_eq!(
        rig.rows("SELECT CASE d WHEN 'abc' THEN 1 ELSE 2 END FROM t"),
        ["2", "2"]
    );
}

#[test]
fn texts_of_derived_tables_and_subqueries_keep_their_coercibility() {
    let rig = Rig::new(&[
        "CREATE TABLE t (c VARCHAR(9) COLLATE utf8mb4_unicode_ci)",
        "INSERT INTO t VALUES ('a')",
    ]);
    for (from, level) in [
        ("SELECT 'a' x FROM t LIMIT 1", "4"),
        ("SELECT 'a' x UNION SELECT 'a'", "4"),
        ("SELECT c x FROM t UNION SELECT 'a'", "2"),
        ("SELECT USER() x FROM t LIMIT 1", "3"),
        ("VALUES ROW('a')", "4"),
    ] {
        let sql = format!("SELECT COERCIBILITY(x) FROM ({from}) d (x)");
        assert_eq!(rig.value(&sql), level, "{from}");
    }
    assert_eq!(
        rig.value("SELECT COERCIBILITY((SELECT CONCAT(1, 'a')))"),
        "4"
    );
    // So that a constant gives way to the column.
    assert_eq!(
        rig.value("SELECT COUNT(*) FROM (SELECT 'A' x FROM t LIMIT 1) d JOIN t ON x = c"),
        "1"
    );
    assert_eq!(rig.value("SELECT 'A' = ANY (SELECT c FROM t)"), "1");
    assert_eq!(
        rig.value("SELECT c IN (SELECT GROUP_CONCAT('A') FROM t) FROM t"),
        "1"
    );
}

#[test]
fn latin1_texts_become_the_bytes_that_they_store() {
    let rig = Rig::new(&[
        "CREATE TABLE b (l VARCHAR(9) CHARACTER SET latin1, v VARBINARY(9), b8 BIT(8), KEY (l))",
        "INSERT INTO b VALUES ('é', x'e9', b'11101001'), ('a', 'a', b'1')",
    ]);
    for (sql, bytes) in [
        ("CAST(l AS BINARY)", ["61", "E9"]),
        ("CONCAT(l, v)", ["6161", "E9E9"]),
        ("COALESCE(l, v)", ["61", "E9"]),
        ("IF(1, l, v)", ["61", "E9"]),
        ("REPLACE(l, 'x', v)", ["61", "E9"]),
        ("GREATEST(l, v)", ["61", "E9"]),
        ("ELT(1, l, v)", ["61", "E9"]),
    ] {
        let query = format!("SELECT HEX({sql}) FROM b ORDER BY v");
        assert_eq!(rig.rows(&query), bytes, "{sql}");
    }
    assert_eq!(
        rig.value("SELECT HEX(GROUP_CONCAT(l, v ORDER BY v)) FROM b"),
        "61612CE9E9"
    );
    assert_eq!(
        rig.rows("SELECT HEX(x) FROM (SELECT l x FROM b UNION SELECT v FROM b) q ORDER BY 1"),
        ["61", "E9"]
    );
    assert_eq!(
        rig.rows("SELECT CONVERT(b8 USING latin1) FROM b WHERE v > 'b'"),
        ["é"]
    );
}

#[test]
fn a_number_that_is_a_day_has_no_fraction() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, d DATE, m DATETIME(3))");
    assert_eq!(bench.code("INSERT INTO t (id, d) VALUES (1, 127.5)"), 1292);
    let ran = bench.ok("INSERT IGNORE INTO t VALUES (2, 20200131.7, 20200131.7)");
    assert_eq!(ran.codes(), [1265, 1265]);
    assert_eq!(bench.rows("t"), ["2|2020-01-31|2020-01-31 00:00:00.000"]);
    let rig = Rig::new(&[]);
    assert_eq!(rig.value("SELECT CAST(20200131.7 AS DATE)"), "2020-01-31");
    assert!(rig.warnings.borrow().is_empty());
}
