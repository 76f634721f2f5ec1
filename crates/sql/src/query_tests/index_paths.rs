//! Paths through indexes beside ranges of one: index merge union, loose index scan, streaming aggregation; and joins
//! that want no match.
//!
//! Neighbours: `plan::access` prices the paths, `exec::scan` reads by them. Every plan's rows are compared with those
//! of one that may not use the index.

use super::rig::Rig;

/// `t`: 4,000 rows, 100 of every `a`, 10 of every `(a, b)`, 8 of every `s`, 40 of every `n` and of its NULLs.
fn tables() -> Rig {
    let mut rig = Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, s VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, \
         n INT, v INT, KEY ab (a, b), KEY s (s), KEY n (n, v))",
    ]);
    for part in 0..4 {
        let row = |i: i32| {
            let n = match i % 100 {
                0 => "NULL".to_owned(),
                n => n.to_string(),
            };
            let case = if i % 2 == 0 { 'x' } else { 'X' };
            let (a, b) = (i % 40, i / 40 % 10);
            format!("({i}, {a}, {b}, '{case}{}', {n}, {})", i / 2 % 500, i % 7)
        };
        let rows: Vec<String> = (part * 1000..part * 1000 + 1000).map(row).collect();
        rig.bench
            .ok(&format!("INSERT INTO t VALUES {}", rows.join(",")));
    }
    rig
}

/// Compares the rows of a query that names `t` as `{t}`, by the path that its first line of EXPLAIN has to show, with
/// those that it finds without indexes.
fn compare(rig: &Rig, sql: &str, path: &str) {
    let by_index = sql.replace("{t}", "t");
    let lines = rig.explain(&by_index);
    assert!(lines[0].contains(path), "{sql}: {lines:?}");
    let plain = sql.replace("{t}", "t IGNORE INDEX (PRIMARY, ab, s, n)");
    let lines = rig.explain(&plain);
    assert!(!lines[0].contains(path), "{sql}: {lines:?}");
    let rows = rig.sorted(&by_index);
    assert!(!rows.is_empty(), "{sql}");
    assert_eq!(rows, rig.sorted(&plain), "{sql}");
}

#[test]
fn a_disjunction_reads_the_indexes_of_its_branches() {
    let rig = tables();
    for (cond, path) in [
        (
            "s = 'x3' OR id = 77",
            "t index_merge s,PRIMARY Using union(s,PRIMARY)",
        ),
        (
            "a = 3 OR s = 'x3'",
            "t index_merge ab,s Using sort_union(ab,s)",
        ),
        (
            "(a = 3 AND b = 4) OR s = 'x3' OR n IS NULL",
            "t index_merge ab,s,n",
        ),
        (
            "s = 'x1' OR s = 'X2' OR id BETWEEN 5 AND 9",
            "t index_merge s,PRIMARY Using sort_union",
        ),
        (
            "(s LIKE 'x12%' OR n IN (4, 5)) AND v = 2",
            "t index_merge s,n",
        ),
        ("s = 'x3' OR n = 3 AND v IN (1, 2)", "t index_merge s,n"),
    ] {
        compare(&rig, &format!("SELECT id FROM {{t}} WHERE {cond}"), path);
    }
    let hinted = "SELECT /*+ NO_INDEX_MERGE(t) */ id FROM t WHERE s = 'x3' OR id = 77";
    assert!(rig.explain(hinted)[0].starts_with("t ALL"));
    // A branch without an index needs all rows.
    let lines = rig.explain("SELECT id FROM t WHERE s = 'x3' OR v = 1");
    assert!(lines[0].starts_with("t ALL"), "{lines:?}");
    // So does one that may be true for most.
    let lines = rig.explain("SELECT * FROM t WHERE s = 'x3' OR a > 2");
    assert!(lines[0].starts_with("t ALL"), "{lines:?}");
}

#[test]
fn joins_open_a_union_for_each_row() {
    let rig = tables();
    let join = "FROM t x JOIN {y} ON y.s = x.s OR y.id = x.v WHERE x.id IN (5, 6, 700)";
    let sql = |y: &str| format!("SELECT COUNT(*), SUM(y.id) {}", join.replace("{y}", y));
    let lines = rig.explain(&sql("t y"));
    assert!(lines[1].starts_with("y index_merge s,PRIMARY"), "{lines:?}");
    let rows = rig.rows(&sql("t y"));
    assert_eq!(rows, rig.rows(&sql("t y IGNORE INDEX (s, PRIMARY)")));
}

#[test]
fn what_was_changed_is_found_once_by_a_union() {
    let mut rig = tables();
    rig.bench
        .ok("UPDATE t SET n = 98, s = 'x3' WHERE s = 'x4' OR n = 97");
    rig.bench.ok("DELETE FROM t WHERE id = 6 OR s = 'x9'");
    compare(
        &rig,
        "SELECT id FROM {t} WHERE s = 'x3' OR n = 98",
        "index_merge",
    );
}

#[test]
fn one_entry_of_a_group_is_enough() {
    let rig = tables();
    let path = "Using index for group-by";
    for sql in [
        "SELECT DISTINCT a FROM {t}",
        "SELECT DISTINCT a FROM {t} WHERE a > 35",
        "SELECT a FROM {t} GROUP BY a HAVING a % 3 = 1",
        "SELECT a, MIN(b) FROM {t} GROUP BY a",
        "SELECT a, MAX(b) FROM {t} WHERE a BETWEEN 3 AND 7 GROUP BY a",
        "SELECT a, MIN(b), MAX(b) FROM {t} GROUP BY a",
        "SELECT n, MAX(v) FROM {t} GROUP BY n",
        "SELECT n, MIN(v) FROM {t} GROUP BY n",
        "SELECT COUNT(DISTINCT a), SUM(DISTINCT a) FROM {t}",
        "SELECT DISTINCT a DIV 7 FROM {t} ORDER BY 1 LIMIT 3",
    ] {
        compare(&rig, sql, path);
    }
    for sql in [
        "SELECT a, COUNT(*) FROM t GROUP BY a",
        "SELECT a, MIN(b) FROM t WHERE b > 3 GROUP BY a",
        "SELECT DISTINCT a, v FROM t",
        "SELECT b, MIN(a) FROM t GROUP BY b",
        "SELECT a, MAX(b) FROM t GROUP BY a WITH ROLLUP",
    ] {
        let lines = rig.explain(sql);
        assert!(!lines[0].contains(path), "{sql}: {lines:?}");
    }
}

#[test]
fn groups_that_limit_wants_are_made_as_their_rows_come() {
    let mut rig = tables();
    let path = "t index ";
    for sql in [
        "SELECT a, COUNT(*), SUM(b) FROM {t} GROUP BY a ORDER BY a LIMIT 3",
        "SELECT a, b, GROUP_CONCAT(id ORDER BY id) FROM {t} GROUP BY b, a ORDER BY a DESC, b DESC LIMIT 2, 3",
        "SELECT s, COUNT(DISTINCT a), MAX(v) FROM {t} GROUP BY s ORDER BY s DESC LIMIT 3",
        "SELECT n, SUM(v) FROM {t} GROUP BY n HAVING SUM(v) > 3 ORDER BY n LIMIT 2",
    ] {
        // The last value of a text is that of some row of its group.
        compare(&rig, &sql.replace("SELECT s,", "SELECT LOWER(s),"), path);
        let lines = rig.explain(&sql.replace("{t}", "t"));
        assert!(!lines[0].contains("temporary"), "{lines:?}");
        assert!(!lines[0].contains("filesort"), "{lines:?}");
    }
    for sql in [
        "SELECT a, COUNT(*) FROM t GROUP BY a",
        "SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY COUNT(*) LIMIT 3",
        "SELECT b, COUNT(*) FROM t GROUP BY b LIMIT 3",
        "SELECT a, COUNT(*) FROM t GROUP BY a WITH ROLLUP LIMIT 3",
    ] {
        let lines = rig.explain(sql);
        assert!(lines[0].contains("temporary"), "{sql}: {lines:?}");
    }
    // Groups of a query that runs again begin anew.
    rig.bench.ok("CREATE TABLE u (k INT)");
    rig.bench.ok("INSERT INTO u VALUES (3), (1), (2)");
    let again = "SELECT k, (SELECT a + 100 * COUNT(*) FROM t WHERE a >= k GROUP BY a ORDER BY a LIMIT 1) FROM u";
    assert_eq!(rig.rows(again), ["3|10003", "1|10001", "2|10002"]);
}

#[test]
fn an_anti_join_ends_with_the_first_match() {
    let rig = tables();
    let joined = |cond: &str| {
        format!("SELECT x.id FROM t x LEFT JOIN t y ON y.s = x.s AND y.id > x.id WHERE {cond}")
    };
    let anti = |sql: &str| {
        let plan = rig.plan(sql, &[]).expect(sql);
        format!("{plan:?}").contains("is_anti: true")
    };
    assert!(anti(&joined("y.id IS NULL")));
    assert!(anti(&joined("y.s IS NULL AND x.a < 9")));
    // It may be NULL in a row that was found.
    assert!(!anti(&joined("y.n IS NULL")));
    assert!(!anti(&joined("y.id IS NULL OR x.a = 3")));
    let last = "SELECT MAX(id) FROM t GROUP BY s";
    assert_eq!(rig.sorted(&joined("y.id IS NULL")), rig.sorted(last));
}

#[test]
fn many_ranges_are_not_opened_for_every_row() {
    let rig = tables();
    let pairs: Vec<String> = (0..300)
        .map(|i| format!("(x.a = {i} AND x.b = {})", i + 20))
        .collect();
    let sql = format!(
        "SELECT COUNT(*) FROM t x JOIN t y ON y.n = x.n WHERE {}",
        pairs.join(" OR ")
    );
    let lines = rig.explain(&sql);
    assert!(lines[1].contains("join buffer"), "{lines:?}");
}
