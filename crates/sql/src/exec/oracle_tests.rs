//! Answers in which MySQL itself was asked: subtle rules that nothing else would keep.
//!
//! Neighbours: `tests` has the plain cases.
//! **Invariant**: every expected value was seen from a MySQL server.

use super::testing::Rig;
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
fn between_compares_in_one_domain() {
    let rig = Rig::new(&[
        "CREATE TABLE t (c VARCHAR(10))",
        "INSERT INTO t VALUES ('a'), ('1'), ('2x'), ('10')",
    ]);
    // A number among the three makes all of it numeric.
    assert_eq!(
        rig.rows("SELECT c FROM t WHERE c BETWEEN '1' AND 2"),
        ["1", "2x"]
    );
    assert_eq!(
        rig.rows("SELECT c FROM t WHERE c BETWEEN 1 AND 'a'").len(),
        0
    );
    assert_eq!(
        rig.rows("SELECT c FROM t WHERE c BETWEEN '1' AND '2'"),
        ["1", "10"]
    );
}

#[test]
fn a_right_join_keeps_the_order_of_columns() {
    let rig = Rig::new(&[
        "CREATE TABLE l (a INT, b INT)",
        "CREATE TABLE r (a INT, c INT)",
        "INSERT INTO l VALUES (1, 10)",
        "INSERT INTO r VALUES (1, 20), (2, 30)",
    ]);
    assert_eq!(
        rig.rows("SELECT * FROM l RIGHT JOIN r ON l.a = r.a ORDER BY r.a"),
        ["1|10|1|20", "NULL|NULL|2|30"]
    );
    // Only with common columns the preserved side comes first.
    assert_eq!(
        rig.rows("SELECT * FROM l RIGHT JOIN r USING (a) ORDER BY a"),
        ["1|20|10", "2|30|NULL"]
    );
    assert_eq!(
        rig.rows("SELECT * FROM l NATURAL RIGHT JOIN r ORDER BY a"),
        ["1|20|10", "2|30|NULL"]
    );
}

#[test]
fn a_rollup_of_nothing_has_its_grand_total() {
    let rig = Rig::new(&["CREATE TABLE t (a INT, b INT)"]);
    assert_eq!(
        rig.rows("SELECT a, b, COUNT(*), SUM(b), GROUPING(a) FROM t GROUP BY a, b WITH ROLLUP"),
        ["NULL|NULL|0|NULL|1"]
    );
    assert_eq!(
        rig.rows("SELECT a, COUNT(*) FROM t WHERE 1 = 0 GROUP BY a WITH ROLLUP"),
        ["NULL|0"]
    );
    assert_eq!(rig.rows("SELECT a FROM t GROUP BY a").len(), 0);
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
fn hexadecimal_literals_are_numbers_where_numbers_are_computed() {
    let rig = Rig::new(&["CREATE TABLE t (b BIT(4))", "INSERT INTO t VALUES (5)"]);
    assert_eq!(
        rig.rows(
            "SELECT ABS(0x41), CHAR(0x41 USING utf8mb4), ROUND(x'0f'), HEX(0x41), BIN(b) FROM t"
        ),
        ["65|A|15|41|101"]
    );
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
fn functions_that_only_mysql_has_are_named() {
    let rig = Rig::new(&[]);
    assert_eq!(rig.code("SELECT AES_ENCRYPT('a', 'k')"), 1235);
    assert_eq!(rig.code("SELECT WEIGHT_STRING('a')"), 1235);
    assert_eq!(rig.code("SELECT NO_SUCH_FUNCTION('a')"), 1305);
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
            _ if sql.starts_with("UPDATE t, u") => "u",
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
fn indexes_on_every_type_answer_by_themselves() {
    let rig = Rig::new(&[
        "CREATE TABLE t (a DECIMAL(5,2), o SET('x','y'), p ENUM('q','r'), n BIT(1), e DATE, \
         f FLOAT, PRIMARY KEY (a, p, o), KEY (n, o), KEY (o), KEY (e, f), KEY (f))",
        "INSERT INTO t VALUES (1.5, 'x,y', 'q', 1, '2020-01-01', 1.5), (-1.5, '', 'r', NULL, NULL, \
         -1.5), (0, 'y', 'r', 0, '0001-01-01', 0)",
    ]);
    assert_eq!(rig.rows("SELECT o FROM t ORDER BY o"), ["", "y", "x,y"]);
    assert_eq!(rig.rows("SELECT o FROM t WHERE o = 'x,y'"), ["x,y"]);
    assert_eq!(
        rig.rows("SELECT n + 0, o FROM t ORDER BY n, o"),
        ["NULL|", "0|y", "1|x,y"]
    );
    assert_eq!(
        rig.rows("SELECT a, p, o, f FROM t ORDER BY f"),
        ["-1.50|r||-1.5", "0.00|r|y|0", "1.50|q|x,y|1.5"]
    );
    assert_eq!(
        rig.rows("SELECT e, f, a FROM t ORDER BY e, f"),
        [
            "NULL|-1.5|-1.50",
            "0001-01-01|0|0.00",
            "2020-01-01|1.5|1.50"
        ]
    );
}

#[test]
fn two_digits_are_a_year_only_by_themselves() {
    let rig = Rig::new(&[
        "CREATE TABLE t (f YEAR, KEY (f))",
        "INSERT INTO t VALUES (1999), (2020)",
    ]);
    assert_eq!(rig.rows("SELECT f FROM t WHERE f = 99"), ["1999"]);
    assert_eq!(rig.rows("SELECT f FROM t WHERE f IN ('20')"), ["2020"]);
    assert_eq!(rig.rows("SELECT f FROM t WHERE f IN (99, '20')").len(), 0);
    assert_eq!(rig.rows("SELECT f FROM t WHERE f IN (1999, 20)"), ["1999"]);
    assert_eq!(
        rig.rows("SELECT CASE f WHEN 99 THEN 'a' ELSE 'b' END FROM t"),
        ["b", "b"]
    );
}

#[test]
fn a_cast_keeps_the_fraction_of_a_computed_moment() {
    let rig = Rig::new(&[]);
    assert_eq!(
        rig.value(
            "SELECT CAST(COALESCE(TIMESTAMP'2038-01-18 01:02:03.5', DATE'1999-12-31') AS CHAR)"
        ),
        "2038-01-18 01:02:03.5"
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
fn columns_whose_collations_disagree_make_no_union() {
    let rig = Rig::new(&[
        "CREATE TABLE t (a VARCHAR(9) COLLATE utf8mb4_general_ci, b VARCHAR(9) COLLATE utf8mb4_unicode_ci, \
         c VARCHAR(9) COLLATE utf8mb4_bin, d VARCHAR(9) COLLATE utf8mb4_0900_bin)",
    ]);
    assert_eq!(rig.code("SELECT a FROM t UNION SELECT b FROM t"), 1271);
    assert_eq!(rig.code("SELECT c FROM t UNION SELECT d FROM t"), 1267);
    assert_eq!(rig.code("SELECT c = d FROM t"), 1267);
    assert_eq!(rig.rows("SELECT a FROM t UNION SELECT c FROM t").len(), 0);
}

#[test]
fn a_rolled_up_key_that_stands_before_is_not_null() {
    let rig = Rig::new(&[
        "CREATE TABLE t (a INT, b INT)",
        "INSERT INTO t VALUES (1, 2)",
    ]);
    assert_eq!(
        rig.rows("SELECT a, b FROM t GROUP BY a, b, a WITH ROLLUP"),
        ["1|2", "1|2", "1|NULL", "NULL|NULL"]
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
fn latin1_texts_compare_with_bytes_as_the_bytes_that_they_store() {
    let rig = Rig::new(&[
        "CREATE TABLE b (l VARCHAR(9) CHARACTER SET latin1, v VARBINARY(9), KEY (l), KEY (v))",
        "INSERT INTO b VALUES ('é', x'e9'), ('a', 'a')",
    ]);
    assert_eq!(
        rig.rows(
            "SELECT l = v, l = x'e9', x'e9' = l, l IN (x'e9'), l <=> v, l BETWEEN x'e9' AND x'e9' FROM b \
             ORDER BY v"
        ),
        ["1|0|0|0|1|0", "1|1|1|1|1|1"]
    );
    assert_eq!(rig.value("SELECT COUNT(*) FROM b WHERE l = x'e9'"), "1");
    assert_eq!(
        rig.value("SELECT COUNT(*) FROM b x JOIN b y ON x.l = y.v"),
        "2"
    );
}

#[test]
fn hexadecimal_literals_are_numbers_to_aggregates_and_truths() {
    let rig = Rig::new(&["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1), (2)"]);
    assert_eq!(
        rig.rows("SELECT SUM(x'41'), AVG(b'101'), BIT_OR(0x4142), STD(x'41'), MAX(x'41') FROM t"),
        ["130|5.0000|16706|0|A"]
    );
    assert_eq!(
        rig.rows(
            "SELECT x'41' IS TRUE, NOT x'00', x'41' AND 1, x'41' XOR 0, CASE WHEN x'41' THEN 1 END, \
             IF(x'41', 1, 2)"
        ),
        ["1|1|1|1|1|1"]
    );
    assert_eq!(rig.value("SELECT COUNT(*) FROM t WHERE x'41'"), "2");
    assert_eq!(
        rig.rows(
            "SELECT INTERVAL(0x41, 60, 70), LOG10(0x0a), SEC_TO_TIME(x'41'), \
             DATE'2024-01-01' + INTERVAL x'0a' DAY, CONCAT(x'41')"
        ),
        ["1|1|00:01:05|2024-01-11|A"]
    );
}

#[test]
fn a_time_under_a_unit_of_days_is_a_moment_of_today() {
    let rig = Rig::new(&[]);
    assert_eq!(
        rig.rows(
            "SELECT DATE_ADD(TIME'10:00:00', INTERVAL '1 1' DAY_HOUR), \
             DATE_ADD(TIME'10:00:00', INTERVAL '1:1' HOUR_MINUTE), CAST(TIME'25:00:00' AS DATE), \
             DAY(TIME'25:00:00'), CAST(TIME'25:00:00' AS DATETIME)"
        ),
        ["2026-01-03 11:00:00|11:01:00|2026-01-03|3|2026-01-03 01:00:00"]
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
