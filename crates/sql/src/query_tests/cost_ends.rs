//! Plans that end early: rows read, and the answers of plans that read all.
//!
//! Neighbours: `cost` has estimates, `index_paths` paths that make no estimate.

use super::rig::Rig;

/// `o`: 4,000 orders with 500 texts in `s`, each in both cases, one `d` a day, `n` from 0 to 399 or NULL; `l`: 12,000
/// lines, four of each order that is no multiple of four.
fn tables() -> Rig {
    let mut rig = Rig::new(&[
        "CREATE TABLE o (id INT PRIMARY KEY, s VARCHAR(9) COLLATE utf8mb4_0900_ai_ci NOT NULL, d DATE NOT NULL, \
         n INT, a INT NOT NULL, b INT NOT NULL, c INT, KEY s (s), KEY d (d), KEY n (n), KEY ab (a, b), KEY ac (a, c))",
        "CREATE TABLE l (id INT PRIMARY KEY, o_id INT NOT NULL, v INT, KEY o_id (o_id))",
    ]);
    for part in 0..4 {
        let row = |i: i32| {
            let n = match i % 10 {
                0 => "NULL".to_owned(),
                _ => (i / 10).to_string(),
            };
            let case = if i < 2000 { 'x' } else { 'X' };
            let c = match i % 4 {
                0 => "NULL".to_owned(),
                _ if i % 20 == 7 => "NULL".to_owned(),
                _ => (i % 101).to_string(),
            };
            format!(
                "({i}, '{case}{:03}', DATE '2000-01-01' + INTERVAL {i} DAY, {n}, {}, {}, {c})",
                i % 500,
                i % 20,
                i * 7 % 300
            )
        };
        let rows: Vec<String> = (part * 1000..part * 1000 + 1000).map(row).collect();
        rig.bench
            .ok(&format!("INSERT INTO o VALUES {}", rows.join(",")));
    }
    for part in 0..12 {
        let row = |i: i32| format!("({i}, {}, {})", i / 4 * 4 / 3 + 1, i % 7);
        let rows: Vec<String> = (part * 1000..part * 1000 + 1000).map(row).collect();
        rig.bench
            .ok(&format!("INSERT INTO l VALUES {}", rows.join(",")));
    }
    rig
}

/// Rows that the scans of a query gave, by EXPLAIN ANALYZE.
fn rows_read(rig: &Rig, sql: &str) -> f64 {
    let text = rig.analyze(sql);
    let of_line = |line: &str| {
        let (operator, actual) = line.split_once("(actual time=")?;
        let is_scan = [" scan on ", " lookup on ", " skip scan "];
        if !is_scan.iter().any(|words| operator.contains(words)) {
            return None;
        }
        let number = |name: &str| -> Option<f64> {
            let (_, rest) = actual.split_once(name)?;
            let end = rest.find([' ', ')']).unwrap_or(rest.len());
            rest[..end].parse().ok()
        };
        Some(number(" rows=")? * number(" loops=")?)
    };
    text.lines().filter_map(of_line).sum()
}

/// Asserts that a query reads few rows, and answers like the other one.
fn ends_early(rig: &Rig, sql: &str, all: &str, most: f64) {
    let read = rows_read(rig, sql);
    assert!(read <= most, "{sql}: {read}\n{}", rig.analyze(sql));
    let rows = rig.rows(sql);
    assert!(!rows.is_empty(), "{sql}");
    assert_eq!(rows, rig.rows(all), "{sql}");
}

/// The same query over tables without their secondary indexes.
fn without_indexes(sql: &str) -> String {
    sql.replace("FROM o", "FROM o IGNORE INDEX (PRIMARY, s, d, n, ab, ac)")
        .replace("JOIN l", "JOIN l IGNORE INDEX (o_id)")
}

#[test]
fn distinct_ends_with_the_last_row_that_limit_wants() {
    let rig = tables();
    for sql in [
        "SELECT DISTINCT LOWER(s), s FROM o ORDER BY s LIMIT 5",
        "SELECT DISTINCT a FROM o ORDER BY a DESC LIMIT 5",
        "SELECT DISTINCT n FROM o WHERE n > 300 ORDER BY n LIMIT 3, 5",
        "SELECT DISTINCT d, n FROM o ORDER BY d DESC LIMIT 5",
        "SELECT DISTINCT o.id, o.d FROM o JOIN l ON l.o_id = o.id ORDER BY o.d DESC LIMIT 5",
    ] {
        ends_early(&rig, sql, &without_indexes(sql), 200.0);
    }
    for sql in [
        "SELECT DISTINCT s FROM o ORDER BY s LIMIT 5",
        "SELECT DISTINCT s FROM o WHERE s > 'x100' ORDER BY s DESC LIMIT 5",
        "SELECT DISTINCT a FROM o LIMIT 5",
    ] {
        assert!(rows_read(&rig, sql) < 100.0, "{}", rig.analyze(sql));
    }
    // A quarter of the rows may have only five of 20 values.
    let any = "SELECT DISTINCT o.a FROM o JOIN l ON l.o_id = o.id LIMIT 5";
    assert!(rows_read(&rig, any) < 6000.0, "{}", rig.analyze(any));
    // All rows are wanted, or all of them may be looked at before there are so many.
    for sql in [
        "SELECT DISTINCT d, n FROM o ORDER BY d",
        "SELECT SQL_CALC_FOUND_ROWS DISTINCT d, n FROM o ORDER BY d LIMIT 5",
        "SELECT DISTINCT o.a, l.v FROM o JOIN l ON l.o_id = o.id ORDER BY o.a LIMIT 60",
    ] {
        let lines = rig.explain(sql);
        assert!(lines.concat().contains("filesort"), "{sql}: {lines:?}");
    }
}

#[test]
fn groups_of_joins_end_with_the_last_one_that_limit_wants() {
    let rig = tables();
    for sql in [
        "SELECT o.id, COUNT(l.id), SUM(v) FROM o LEFT JOIN l ON l.o_id = o.id GROUP BY o.id ORDER BY o.id LIMIT 6",
        "SELECT o.id, COUNT(*) FROM o JOIN l ON l.o_id = o.id GROUP BY o.id ORDER BY o.id DESC LIMIT 6",
        "SELECT o.id, o.n, COUNT(*) FROM o JOIN l ON l.o_id = o.id GROUP BY o.id, o.n ORDER BY o.id LIMIT 2, 6",
        "SELECT o.d, o.id, MAX(v) FROM o JOIN l ON l.o_id = o.id GROUP BY o.id, o.d ORDER BY o.d DESC LIMIT 6",
        "SELECT o.d, MAX(v) FROM o JOIN l ON l.o_id = o.id GROUP BY o.d HAVING MAX(v) > 3 ORDER BY o.d LIMIT 3",
        "SELECT o.id, COUNT(DISTINCT v) FROM o JOIN l ON l.o_id = o.id WHERE o.id > 500 GROUP BY 1 ORDER BY 1 LIMIT 3",
    ] {
        ends_early(&rig, sql, &without_indexes(sql), 200.0);
        let lines = rig.explain(sql);
        assert!(!lines.concat().contains("temporary"), "{sql}: {lines:?}");
    }
    let any = "SELECT o.id, COUNT(*) FROM o JOIN l ON l.o_id = o.id GROUP BY o.id LIMIT 6";
    assert!(rows_read(&rig, any) < 100.0, "{}", rig.analyze(any));
    for sql in [
        "SELECT o.id, COUNT(*) FROM o JOIN l ON l.o_id = o.id GROUP BY o.id ORDER BY COUNT(*) LIMIT 6",
        "SELECT o.id, COUNT(*) FROM o JOIN l ON l.o_id = o.id GROUP BY o.id WITH ROLLUP LIMIT 6",
        "SELECT o.id, COUNT(*) FROM o JOIN l ON l.o_id = o.id GROUP BY o.id",
        "SELECT l.v, COUNT(*) FROM o JOIN l ON l.o_id = o.id GROUP BY l.v LIMIT 6",
        "SELECT o.id, l.v, COUNT(*) FROM o JOIN l ON l.o_id = o.id GROUP BY o.id, l.v LIMIT 6",
        "SELECT o.id, COUNT(*) FROM o JOIN l ON l.o_id = o.id GROUP BY o.id LIMIT 2900, 6",
    ] {
        let lines = rig.explain(sql);
        assert!(lines.concat().contains("temporary"), "{sql}: {lines:?}");
    }
}

#[test]
fn the_least_and_the_greatest_text_are_at_the_ends_of_their_index() {
    let mut rig = tables();
    for sql in [
        "SELECT LOWER(MIN(s)) FROM o",
        "SELECT MAX(s) FROM o",
        "SELECT MIN(s) FROM o WHERE s > 'x100'",
        "SELECT LOWER(MAX(s)) FROM o WHERE s < 'x100'",
    ] {
        let read = rows_read(&rig, sql);
        assert!(read <= 1.0, "{sql}: {read}\n{}", rig.analyze(sql));
        assert_eq!(
            rig.value(sql).to_lowercase(),
            rig.value(&without_indexes(sql)).to_lowercase()
        );
    }
    let cost = |sql: &str| rig.plan(sql, &[]).expect(sql).cost_rows;
    assert!(cost("SELECT MIN(s), MAX(s) FROM o") < 10.0);
    // The first row of those may be far.
    assert!(cost("SELECT MIN(s) FROM o WHERE b + id = 5") >= 4000.0);
    rig.bench.ok("DELETE FROM o");
    assert_eq!(rig.value("SELECT MAX(s) FROM o"), "NULL");
}

#[test]
fn a_loose_scan_reads_both_ends_of_a_group() {
    let mut rig = tables();
    let compare = |rig: &Rig, sql: &str, most: f64| {
        let lines = rig.explain(sql);
        assert!(lines[0].contains("index for group-by"), "{sql}: {lines:?}");
        ends_early(rig, sql, &without_indexes(sql), most);
    };
    for (sql, most) in [
        (
            "SELECT a, MIN(b), MAX(b) FROM o GROUP BY a ORDER BY a",
            45.0,
        ),
        ("SELECT a, MIN(c) FROM o GROUP BY a ORDER BY a", 45.0),
        (
            "SELECT a, MIN(c), MAX(c) FROM o GROUP BY a ORDER BY a",
            65.0,
        ),
        ("SELECT a, MAX(b) FROM o GROUP BY a ORDER BY a LIMIT 3", 9.0),
        (
            "SELECT a, MIN(b) FROM o GROUP BY a ORDER BY a DESC LIMIT 3",
            9.0,
        ),
        (
            "SELECT a, MIN(b) FROM o WHERE a IN (3, 5, 6) GROUP BY a ORDER BY a",
            9.0,
        ),
    ] {
        compare(&rig, sql, most);
    }
    // A row of a group is deleted, or moves, at its ends.
    rig.bench
        .ok("DELETE FROM o WHERE a = 3 AND b < 100 OR a = 4");
    rig.bench
        .ok("UPDATE o SET b = 1000, c = NULL WHERE a = 5 AND b > 200");
    compare(
        &rig,
        "SELECT a, MIN(b), MAX(b) FROM o GROUP BY a ORDER BY a",
        45.0,
    );
    compare(
        &rig,
        "SELECT a, MIN(c), MAX(c) FROM o GROUP BY a ORDER BY a",
        65.0,
    );
    // What is grouped does not come together.
    for sql in [
        "SELECT a % 3, MAX(b) FROM o GROUP BY a % 3 LIMIT 3",
        "SELECT COUNT(DISTINCT a) FROM o WHERE a > 100 LIMIT 2",
    ] {
        assert_eq!(rig.sorted(sql), rig.sorted(&without_indexes(sql)), "{sql}");
    }
}

#[test]
fn a_column_that_equals_a_constant_bounds_other_tables() {
    let rig = tables();
    for (join, path) in [
        (
            "FROM l JOIN o ON o.n BETWEEN l.id * 10 AND l.id * 10 + 2 WHERE l.id = 7",
            "o range n",
        ),
        (
            "FROM l JOIN o ON o.n > l.id + 390 WHERE l.id = 7",
            "o range n",
        ),
        (
            "FROM l LEFT JOIN o ON o.n > l.id + 390 AND o.n < 399 WHERE 7 = l.id",
            "o range n",
        ),
        (
            "FROM l LEFT JOIN o ON o.n > l.id + 1000 WHERE l.id = 7",
            "o range n",
        ),
    ] {
        let sql = format!("SELECT l.v, o.id, o.s {join} ORDER BY o.id");
        let lines = rig.explain(&sql);
        assert!(
            lines.iter().any(|l| l.starts_with(path)),
            "{join}: {lines:?}"
        );
        let plain = sql.replace("JOIN o", "JOIN o IGNORE INDEX (n)");
        assert_eq!(rig.rows(&sql), rig.rows(&plain), "{join}");
        assert!(!rig.rows(&sql).is_empty(), "{join}");
    }
}

#[test]
fn ranges_of_a_second_part_are_read_behind_each_value_of_the_first() {
    let mut rig = tables();
    rig.bench
        .ok("CREATE TABLE k (x INT, y VARCHAR(9), z INT NOT NULL, w INT, PRIMARY KEY (z), KEY xz (x, z), KEY yx (y DESC, x DESC), KEY wx (w, x))");
    rig.bench.ok(
        "INSERT INTO k SELECT NULLIF(id % 5, 3), CONCAT('v', id DIV 7 % 3), id, id % 2000 FROM o",
    );
    let path = "Using index for skip scan";
    for (sql, most) in [
        (
            "SELECT a, b FROM o WHERE b BETWEEN 70 AND 72 ORDER BY a, b",
            60.0,
        ),
        (
            "SELECT b, COUNT(*) FROM o WHERE b IN (7, 77, 7777) GROUP BY b ORDER BY b",
            40.0,
        ),
        ("SELECT * FROM o WHERE c = 99 ORDER BY id", 60.0),
        ("SELECT x, z FROM k WHERE z > 3990 ORDER BY z", 20.0),
        (
            "SELECT x, z FROM k WHERE z < 30 AND z > 7 AND x + z > 12 ORDER BY z",
            40.0,
        ),
    ] {
        let sql = sql.replace("FROM k", "FROM k IGNORE INDEX (PRIMARY, yx, wx)");
        let lines = rig.explain(&sql);
        assert!(lines[0].contains(path), "{sql}: {lines:?}");
        let plain = without_indexes(&sql).replace("(PRIMARY, yx, wx)", "(PRIMARY, xz, yx, wx)");
        ends_early(&rig, &sql, &plain, most);
    }
    let text = "SELECT y, x FROM k WHERE x IS NULL OR x = 2";
    assert_eq!(rig.rows(text).len(), 1600);
    // Values of the first part are many, most rows are in the ranges, or rows are locked.
    for sql in [
        "SELECT w, x FROM k IGNORE INDEX (xz) WHERE x = 2",
        "SELECT a, b FROM o WHERE b > 5",
        "SELECT a, b FROM o WHERE b BETWEEN 70 AND 72 FOR UPDATE",
        "SELECT /*+ NO_SKIP_SCAN(o) */ a, b FROM o WHERE b BETWEEN 70 AND 72",
    ] {
        let lines = rig.explain(sql);
        assert!(!lines[0].contains(path), "{sql}: {lines:?}");
    }
    rig.bench
        .ok("DELETE FROM o WHERE a = 7 OR b = 71 AND a > 10");
    rig.bench.ok("UPDATE o SET a = 100 WHERE b = 72 AND a < 5");
    let sql = "SELECT a, b FROM o WHERE b BETWEEN 70 AND 72 ORDER BY a, b";
    assert_eq!(rig.rows(sql), rig.rows(&without_indexes(sql)));
}

#[test]
fn entries_decide_conditions_before_their_rows_are_read() {
    let mut rig = tables();
    let word = "Using index condition";
    let compare = |rig: &Rig, sql: &str| {
        let lines = rig.explain(sql);
        assert!(lines[0].contains(word), "{sql}: {lines:?}");
        let rows = rig.rows(sql);
        let warnings = rig.warnings.borrow().len();
        assert!(!rows.is_empty(), "{sql}");
        assert_eq!(rows, rig.rows(&without_indexes(sql)), "{sql}");
        assert_eq!(warnings, rig.warnings.borrow().len(), "{sql}");
    };
    let all = [
        "SELECT id, s FROM o WHERE a = 3 AND b % 10 = 1 ORDER BY id",
        "SELECT id, s FROM o WHERE a IN (3, 5) AND b + id > 3900 ORDER BY id",
        "SELECT id, s FROM o WHERE a = 3 AND (c IS NULL OR c % 10 = 1) ORDER BY id",
        "SELECT id, s FROM o WHERE a = 3 AND 10 / (b - 21) >= 0.5 AND n < 300 ORDER BY id",
    ];
    for sql in all {
        compare(&rig, sql);
    }
    rig.bench
        .ok("UPDATE o SET b = b + 1, c = c + 1 WHERE id % 7 = 0");
    rig.bench.ok("DELETE FROM o WHERE id % 11 = 0");
    for sql in all {
        compare(&rig, sql);
    }
    for sql in [
        "SELECT id, s FROM o WHERE a = 3 AND b = 21",
        "SELECT id, s FROM o WHERE a = 3 AND n % 10 = 1",
        "SELECT a, b FROM o WHERE a = 3 AND b % 10 = 1",
        "SELECT id, s FROM o WHERE a = 3 AND b % 10 = 1 FOR UPDATE",
        "SELECT /*+ NO_ICP(o) */ id, s FROM o WHERE a = 3 AND b % 10 = 1",
    ] {
        let lines = rig.explain(sql);
        assert!(!lines[0].contains(word), "{sql}: {lines:?}");
    }
}
