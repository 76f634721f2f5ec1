//! INSERT, REPLACE, UPDATE and DELETE: rows, counts, warnings, errors, numbers and locks.

use std::time::Duration;

use esker_sql_catalog::catalog::{AutoStep, Catalog};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::Mode;
use esker_types::SqlMode;

use super::testing::Bench;

fn bench(tables: &[&str]) -> Bench {
    let mut bench = Bench::new();
    for table in tables {
        bench.ok(table);
    }
    bench
}

const ITEMS: &str = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(10) NOT NULL \
                     DEFAULT 'none', n INT, UNIQUE KEY by_name (name), KEY by_n (n))";

#[test]
fn insert_fills_in_defaults_and_numbers() {
    let mut bench = bench(&[ITEMS]);
    let ran = bench.ok("INSERT INTO t (name) VALUES ('a')");
    assert_eq!(
        (
            ran.affected,
            ran.insert_id,
            ran.generated,
            ran.info.as_str()
        ),
        (1, 1, Some(1), "")
    );
    let ran = bench.ok("INSERT INTO t (n, name, id) VALUES (5, 'b', NULL), (n + 1, 'c', 0)");
    assert_eq!((ran.affected, ran.generated), (2, Some(2)));
    assert_eq!(ran.info, "Records: 2  Duplicates: 0  Warnings: 0");
    let ran = bench.ok("INSERT INTO t SET id = 9, n = id * 2");
    assert_eq!((ran.insert_id, ran.generated), (9, None));
    bench.ok("INSERT INTO t VALUES (DEFAULT, 'd', DEFAULT(n))");
    assert_eq!(
        bench.rows("t"),
        ["1|a|NULL", "2|b|5", "3|c|NULL", "9|none|18", "10|d|NULL"]
    );
    bench.ok("DELETE FROM t WHERE name = 'none'");
    bench.ok("INSERT INTO t () VALUES ()");
    assert_eq!(
        bench.rows("t").last().map(String::as_str),
        Some("11|none|NULL")
    );
}

#[test]
fn insert_reports_what_mysql_reports() {
    let mut bench = bench(&[
        ITEMS,
        "CREATE TABLE s (a INT NOT NULL, b TINYINT, e ENUM('x') NOT NULL)",
    ]);
    let cases = [
        ("INSERT INTO nope VALUES (1)", 1146),
        ("INSERT INTO t (id, nope) VALUES (1, 2)", 1054),
        ("INSERT INTO t (id, ID) VALUES (1, 2)", 1110),
        ("INSERT INTO t (id, n) VALUES (1, 2), (3)", 1136),
        ("INSERT INTO t VALUES (1)", 1136),
        ("INSERT INTO t (name) VALUES (NULL)", 1048),
        ("INSERT INTO s (b) VALUES (1)", 1364),
        ("INSERT INTO s (a) VALUES (DEFAULT)", 1364),
        ("INSERT INTO s (a, b) VALUES (1, 200)", 1264),
        ("INSERT INTO s (a, b) VALUES (1, 'x')", 1366),
        ("INSERT INTO t (name) VALUES ('longer than ten')", 1406),
        ("INSERT INTO s (a, e) VALUES (1, 'y')", 1265),
        ("INSERT INTO t (id) VALUES (1) RETURNING id", 1235),
    ];
    for (sql, code) in cases {
        let (found, text) = bench.error(sql);
        assert_eq!(found, code, "{sql}: {text}");
    }
    assert!(bench.rows("s").is_empty() && bench.rows("t").is_empty());
    bench.ok("INSERT INTO s (a) VALUES (1)");
    assert_eq!(bench.rows("s"), ["1|NULL|x"]);
    assert_eq!(
        bench.ok("INSERT DELAYED INTO s (a) VALUES (2)").codes(),
        [3005]
    );
}

#[test]
fn outside_strict_mode_values_are_bent_with_warnings() {
    let mut bench = bench(&["CREATE TABLE s (a INT NOT NULL, b TINYINT, c VARCHAR(2) NOT NULL)"]);
    bench.sql_mode = SqlMode::default();
    assert_eq!(
        bench.ok("INSERT INTO s (b) VALUES (200)").codes(),
        [1364, 1364, 1264]
    );
    assert_eq!(bench.code("INSERT INTO s VALUES (NULL, 1, 'x')"), 1048);
    let ran = bench.ok("INSERT INTO s VALUES (NULL, 1, 'abc'), (2, NULL, 'y')");
    assert_eq!(ran.codes(), [1048, 1265]);
    assert_eq!(ran.info, "Records: 2  Duplicates: 0  Warnings: 2");
    assert_eq!(bench.rows("s"), ["0|127|", "0|1|ab", "2|NULL|y"]);
}

#[test]
fn a_taken_key_is_named() {
    let mut bench = bench(&[
        ITEMS,
        "CREATE TABLE u (a INT, b VARCHAR(9), d DATE, UNIQUE k (b(2), d), UNIQUE z (a))",
    ]);
    bench.ok("INSERT INTO t VALUES (1, 'a', 1)");
    let duplicate = |text: &str| (1062, format!("Duplicate entry {text}"));
    assert_eq!(
        bench.error("INSERT INTO t VALUES (1, 'b', 1)"),
        duplicate("'1' for key 't.PRIMARY'")
    );
    assert_eq!(
        bench.error("INSERT INTO t VALUES (2, 'A', 1)"),
        duplicate("'A' for key 't.by_name'")
    );
    bench.ok("INSERT INTO u VALUES (NULL, 'abc', '2026-01-02'), (NULL, 'xyz', NULL), (NULL, 'xyz', NULL)");
    assert_eq!(
        bench.error("INSERT INTO u VALUES (5, 'abd', '2026-01-02')"),
        duplicate("'ab-2026-01-02' for key 'u.k'")
    );
    // A statement that fails half-way leaves nothing.
    assert_eq!(
        bench.code("INSERT INTO t VALUES (5, 'x', 1), (6, 'y', 1), (5, 'z', 1)"),
        1062
    );
    assert_eq!(bench.rows("t"), ["1|a|1"]);
    assert_eq!(bench.rows("u").len(), 3);
}

#[test]
fn ignore_leaves_out_what_cannot_be_stored() {
    let mut bench = bench(&[
        ITEMS,
        "CREATE TABLE c (a INT CHECK (a > 0), b TINYINT NOT NULL)",
    ]);
    let ran =
        bench.ok("INSERT IGNORE INTO t VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', 3), (3, 'c', 4)");
    assert_eq!((ran.affected, ran.codes()), (2, vec![1062, 1062]));
    assert_eq!(ran.info, "Records: 4  Duplicates: 2  Warnings: 2");
    let ran = bench.ok("INSERT IGNORE INTO c VALUES (-1, 1), (1, NULL), (2, 500)");
    assert_eq!((ran.affected, ran.codes()), (2, vec![3819, 1048, 1264]));
    assert_eq!(bench.rows("c"), ["1|0", "2|127"]);
    bench.ok("UPDATE IGNORE t SET id = 1, n = 99");
    assert_eq!(bench.rows("t"), ["1|a|99", "3|c|4"]);
}

#[test]
fn replace_removes_every_row_in_the_way() {
    let mut bench = bench(&[ITEMS]);
    bench.ok("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)");
    assert_eq!(bench.ok("REPLACE INTO t VALUES (4, 'd', 4)").affected, 1);
    assert_eq!(bench.ok("REPLACE INTO t VALUES (1, 'b', 9)").affected, 3);
    assert_eq!(bench.rows("t"), ["1|b|9", "3|c|3", "4|d|4"]);
    let ran = bench.ok("REPLACE INTO t (id, name) VALUES (3, 'c'), (4, 'x')");
    assert_eq!(
        (ran.affected, ran.info.as_str()),
        (4, "Records: 2  Duplicates: 2  Warnings: 0")
    );
    assert_eq!(bench.rows("t"), ["1|b|9", "3|c|NULL", "4|x|NULL"]);
}

#[test]
fn on_duplicate_key_update_sees_both_rows() {
    let mut bench = bench(&[ITEMS]);
    bench.ok("INSERT INTO t VALUES (1, 'a', 10)");
    let sql =
        "INSERT INTO t VALUES (1, 'z', 5) ON DUPLICATE KEY UPDATE n = n + VALUES(n), name = 'b'";
    assert_eq!(bench.ok(sql).affected, 2);
    assert_eq!(bench.rows("t"), ["1|b|15"]);
    let same = "INSERT INTO t VALUES (1, 'z', 5) ON DUPLICATE KEY UPDATE n = 15";
    assert_eq!(bench.ok(same).affected, 0);
    bench.found_rows = true;
    assert_eq!(bench.ok(same).affected, 1);
    bench.found_rows = false;
    let ran = bench.ok(
        "INSERT INTO t (name, n) VALUES ('b', 1), ('new', 2) AS new \
         ON DUPLICATE KEY UPDATE n = new.n + t.n",
    );
    // One row updated, one inserted.
    assert_eq!(
        (ran.affected, ran.info.as_str()),
        (3, "Records: 2  Duplicates: 1  Warnings: 0")
    );
    let named =
        "INSERT INTO t VALUES (1, 'q', 7) AS new(a, b, c) ON DUPLICATE KEY UPDATE n = c * 2";
    bench.ok(named);
    let rows = bench.rows("t");
    assert!(rows.contains(&"1|b|14".to_owned()), "{rows:?}");
    assert_eq!(rows.len(), 2);
    let taken = "INSERT INTO t VALUES (1, 'q', 7) ON DUPLICATE KEY UPDATE name = 'new'";
    assert_eq!(bench.code(taken), 1062);
}

#[test]
fn update_changes_rows_and_their_entries() {
    let mut bench = bench(&[ITEMS]);
    bench.ok("INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', NULL)");
    let ran = bench.ok("UPDATE t SET n = n + 1, name = CONCAT(name, n) WHERE id < 3");
    assert_eq!(ran.affected, 2);
    assert_eq!(ran.info, "Rows matched: 2  Changed: 2  Warnings: 0");
    assert_eq!(bench.rows("t"), ["1|a11|11", "2|b21|21", "3|c|NULL"]);
    let ran = bench.ok("UPDATE t SET n = 21");
    assert_eq!(
        (ran.affected, ran.info.as_str()),
        (2, "Rows matched: 3  Changed: 2  Warnings: 0")
    );
    bench.found_rows = true;
    assert_eq!(bench.ok("UPDATE t SET n = 21").affected, 3);
    bench.ok("UPDATE t SET id = id + 10 ORDER BY id DESC LIMIT 2");
    assert_eq!(bench.rows("t"), ["1|a11|21", "12|b21|21", "13|c|21"]);
    bench.ok("UPDATE t SET id = id + 1 WHERE id > 10 ORDER BY id DESC");
    assert_eq!(
        bench.code("UPDATE t SET id = id + 1 WHERE id > 10 ORDER BY id"),
        1062
    );
    assert_eq!(bench.code("UPDATE t SET name = 'same'"), 1062);
    assert_eq!(bench.code("UPDATE t SET name = NULL"), 1048);
    assert_eq!(bench.code("UPDATE t SET nope = 1"), 1054);
    assert_eq!(bench.rows("t"), ["1|a11|21", "13|b21|21", "14|c|21"]);
    bench.ok("UPDATE t SET name = DEFAULT, n = DEFAULT WHERE id = 1");
    assert_eq!(bench.rows("t")[0], "1|none|NULL");
}

#[test]
fn delete_removes_rows_and_their_entries() {
    let mut bench = bench(&[ITEMS]);
    bench.ok("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 2), (4, 'd', NULL)");
    assert_eq!(
        bench
            .ok("DELETE FROM t WHERE n = 2 ORDER BY id DESC LIMIT 1")
            .affected,
        1
    );
    assert_eq!(bench.rows("t"), ["1|a|1", "2|b|2", "4|d|NULL"]);
    assert_eq!(
        bench
            .ok("DELETE FROM t WHERE n IS NULL OR name = 'A'")
            .affected,
        2
    );
    assert_eq!(bench.ok("DELETE FROM t").affected, 1);
    assert!(bench.rows("t").is_empty());
}

#[test]
fn insert_select_reads_before_it_writes() {
    let mut bench = bench(&["CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, n INT)"]);
    bench.ok("INSERT INTO t (n) VALUES (1), (2)");
    let ran = bench.ok("INSERT INTO t (n) SELECT n + 10 FROM t");
    assert_eq!(
        (ran.affected, ran.info.as_str()),
        (2, "Records: 2  Duplicates: 0  Warnings: 0")
    );
    assert_eq!(bench.rows("t").len(), 4);
    assert_eq!(bench.code("INSERT INTO t (n) SELECT n, n FROM t"), 1136);
    bench.ok("INSERT INTO t SELECT id, n FROM t ON DUPLICATE KEY UPDATE n = VALUES(n) + 100");
    assert_eq!(bench.rows("t")[0], "1|101");
}

#[test]
fn tables_without_a_primary_key_keep_equal_rows_apart() {
    let mut bench = bench(&["CREATE TABLE t (a INT, KEY (a))"]);
    bench.ok("INSERT INTO t VALUES (1), (1), (2)");
    bench.ok("UPDATE t SET a = 5 WHERE a = 1 LIMIT 1");
    assert_eq!(bench.rows("t"), ["5", "1", "2"]);
    // Row ids go on behind the last row after a restart.
    let catalog = Catalog::open(&bench.engine).expect("opens");
    let mut again = Bench::on(&bench.engine, &catalog);
    again.ok("INSERT INTO t VALUES (9)");
    assert_eq!(again.rows("t"), ["5", "1", "2", "9"]);
}

#[test]
fn numbers_follow_the_sequence_and_survive() {
    let mut bench =
        bench(&["CREATE TABLE t (id TINYINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, n INT)"]);
    bench.ok("INSERT INTO t (n) VALUES (1), (2), (3)");
    bench.ok("DELETE FROM t WHERE id > 1");
    // As after a restart: the counters come from the engine.
    let catalog = Catalog::open(&bench.engine).expect("opens");
    let mut again = Bench::on(&bench.engine, &catalog);
    again.ok("INSERT INTO t (n) VALUES (4)");
    assert_eq!(again.rows("t"), ["1|1", "4|4"]);
    again.auto_step = AutoStep {
        increment: 10,
        offset: 5,
    };
    again.ok("INSERT INTO t (n) VALUES (5), (6)");
    assert_eq!(again.rows("t"), ["1|1", "4|4", "5|5", "15|6"]);
    again.sql_mode = SqlMode(SqlMode::DEFAULT.0 | SqlMode::NO_AUTO_VALUE_ON_ZERO.0);
    again.ok("INSERT INTO t VALUES (0, 7)");
    again.auto_step = AutoStep::ONE;
    again.ok("UPDATE t SET id = 254 WHERE id = 15");
    again.ok("INSERT INTO t (n) VALUES (8)");
    assert_eq!(again.rows("t").last().map(String::as_str), Some("255|8"));
    assert_eq!(
        again.error("INSERT INTO t (n) VALUES (9)"),
        (1062, "Duplicate entry '255' for key 't.PRIMARY'".into())
    );
}

/// Every expected value was seen from MySQL 9.7.
#[test]
fn numbers_of_one_statement_grow() {
    let cases: &[(&str, &str, u64)] = &[
        // The statement, the rows it leaves, and the number of the next row.
        ("VALUES (NULL, 1), (2, 2), (NULL, 3)", "1|1 2|2 3|3", 4),
        (
            "VALUES (10, 1), (NULL, 2), (0, 3), (20, 4), (NULL, 5)",
            "10|1 11|2 12|3 20|4 21|5",
            23,
        ),
        (
            "VALUES (3, 1), (NULL, 2), (5, 3), (NULL, 4), (1, 6), (NULL, 7), (0, 8)",
            "1|6 3|1 4|2 5|3 6|4 7|7 8|8",
            11,
        ),
        ("VALUES (NULL, 1), (-5, 2), (NULL, 3)", "-5|2 1|1 2|3", 4),
        // For a query's rows 1, 2, 4, … numbers are drawn.
        ("SELECT NULL, n FROM s ORDER BY n", "1|1 2|2 3|3 4|4", 8),
        (
            "SELECT IF(n % 2, NULL, n * 2), n FROM s ORDER BY n",
            "1|1 4|2 5|3 8|4",
            9,
        ),
    ];
    for (source, rows, next) in cases {
        let mut bench = bench(&[
            "CREATE TABLE s (n INT PRIMARY KEY)",
            "INSERT INTO s VALUES (1), (2), (3), (4)",
            "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT UNIQUE)",
        ]);
        bench.ok(&format!("INSERT INTO t {source}"));
        assert_eq!(bench.rows("t").join(" "), *rows, "{source}");
        bench.ok("INSERT INTO t (v) VALUES (200)");
        let last = format!("{next}|200");
        assert_eq!(bench.rows("t").last(), Some(&last), "{source}");
    }
}

/// Every expected value was seen from MySQL 9.7.
#[test]
fn numbers_of_rows_left_out_are_used_again() {
    let table = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT UNIQUE CHECK (v < 1000))";
    let mut bench = bench(&[table]);
    bench.ok("INSERT IGNORE INTO t VALUES (NULL,1), (NULL,1), (NULL,3), (7,1), (NULL,4), (7,9), (NULL,10)");
    assert_eq!(bench.rows("t").join(" "), "1|1 2|3 3|4 7|9 8|10");
    bench.ok("INSERT INTO t (v) VALUES (1), (3), (80), (90) ON DUPLICATE KEY UPDATE v = v + 100");
    bench.ok("INSERT INTO t (v) VALUES (500)");
    assert_eq!(
        bench.rows("t").join(" "),
        "1|101 2|103 3|4 7|9 8|10 9|80 10|90 13|500"
    );
    // A key that an update has moved is behind the numbers of the next statement.
    bench.ok("INSERT INTO t VALUES (NULL, 80), (50, 90), (NULL, 91) ON DUPLICATE KEY UPDATE id = id + 30");
    assert_eq!(
        bench.rows("t").join(" "),
        "1|101 2|103 3|4 7|9 8|10 13|500 14|91 39|80 40|90"
    );
    // A row that fails its CHECK takes no number.
    bench.ok("INSERT IGNORE INTO t (v) VALUES (2000), (92)");
    assert_eq!(bench.rows("t").last().map(String::as_str), Some("41|92"));
}

#[test]
fn an_open_transaction_reserves_what_it_shows() {
    let mut bench = bench(&["CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)"]);
    let tree = bench.table("t").counter_tree();
    bench.autocommit = false;
    assert_eq!(bench.ok("INSERT INTO t VALUES ()").generated, Some(1));
    // Shown to the client before the commit, so it must not be given again whatever happens.
    assert!(bench.engine.counter(tree) >= 1);
    bench.txn.rollback();
    let reserved = bench.engine.counter(tree);
    let catalog = Catalog::open(&bench.engine).expect("opens");
    let mut again = Bench::on(&bench.engine, &catalog);
    assert_eq!(
        again.ok("INSERT INTO t VALUES ()").generated,
        Some(reserved + 1)
    );
    // A clean shutdown gives unused numbers back.
    let mut bench = bench_of(&bench.engine, &bench.catalog);
    bench.autocommit = false;
    bench.ok("INSERT INTO t VALUES ()");
    bench.commit();
    let given = bench.table("t").runtime.last_auto();
    bench.catalog.settle_counters().expect("settles");
    assert_eq!(bench.engine.counter(tree), given);
}

fn bench_of(engine: &esker_engine::Engine, catalog: &Catalog) -> Bench {
    Bench::on(engine, catalog)
}

#[test]
fn a_conflict_waits_inline_and_the_statement_can_be_run_again() {
    let mut one = bench(&[ITEMS]);
    one.ok("INSERT INTO t VALUES (1, 'a', 1)");
    let mut two = one.other();
    one.autocommit = false;
    one.ok("UPDATE t SET n = 2 WHERE id = 1");
    two.mode = Mode::Inline;
    for sql in [
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (1, 'x', 1)",
        "REPLACE INTO t VALUES (1, 'x', 1)",
    ] {
        assert!(matches!(two.attempt(sql), Err(ExecError::Wait(_))), "{sql}");
    }
    let Err(ExecError::Wait(ticket)) = two.attempt("UPDATE t SET n = n + 10 WHERE id = 1") else {
        panic!("did not wait");
    };
    // Numbers that were drawn for nothing are given again.
    let last = one.table("t").runtime.last_auto();
    one.ok("UPDATE t SET name = 'b' WHERE id = 1");
    drop(ticket);
    assert!(matches!(
        two.attempt("INSERT INTO t (name) VALUES ('q'), ('b')"),
        Err(ExecError::Wait(_))
    ));
    assert_eq!(one.table("t").runtime.last_auto(), last);
    let Err(ExecError::Wait(ticket)) = two.attempt("UPDATE t SET n = n + 10 WHERE id = 1") else {
        panic!("did not wait");
    };
    one.commit();
    ticket.block(Duration::from_secs(10)).expect("granted");
    two.ok("UPDATE t SET n = n + 10 WHERE id = 1");
    assert_eq!(two.rows("t"), ["1|b|12"]);
}

#[test]
fn in_a_thread_a_conflict_waits_in_place_until_its_time_is_over() {
    let mut one = bench(&[ITEMS]);
    one.ok("INSERT INTO t VALUES (1, 'a', 1)");
    let mut two = one.other();
    one.autocommit = false;
    one.ok("INSERT INTO t VALUES (2, 'b', 1)");
    // The unique key is as locked as the row is.
    assert_eq!(two.code("INSERT INTO t VALUES (3, 'b', 1)"), 1205);
    assert_eq!(two.code("UPDATE t SET name = 'b' WHERE id = 1"), 1205);
    one.commit();
    assert_eq!(two.code("INSERT INTO t VALUES (3, 'b', 1)"), 1062);
    assert_eq!(two.rows("t"), ["1|a|1", "2|b|1"]);
}

#[test]
fn a_unique_key_given_up_is_free_only_after_the_commit() {
    let mut one = bench(&[ITEMS]);
    one.ok("INSERT INTO t VALUES (1, 'a', 1)");
    let mut two = one.other();
    one.autocommit = false;
    one.ok("UPDATE t SET name = 'z' WHERE id = 1");
    assert_eq!(two.code("INSERT INTO t VALUES (2, 'a', 1)"), 1205);
    one.txn.rollback();
    assert_eq!(two.code("INSERT INTO t VALUES (2, 'a', 1)"), 1062);
    one.ok("UPDATE t SET name = 'z' WHERE id = 1");
    one.commit();
    two.ok("INSERT INTO t VALUES (2, 'a', 1)");
    assert_eq!(two.rows("t"), ["1|z|1", "2|a|1"]);
}

#[test]
fn a_timestamp_keeps_its_instant_and_its_entry_in_every_zone() {
    let mut bench =
        bench(&["CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NOT NULL, n INT, KEY (at))"]);
    bench.zone = jiff::tz::TimeZone::get("Europe/Berlin").expect("zone");
    bench.ok("INSERT INTO t VALUES (1, '2026-07-01 12:00:00', 1)");
    bench.zone = jiff::tz::TimeZone::UTC;
    assert_eq!(bench.rows("t"), ["1|2026-07-01 10:00:00|1"]);
    bench.ok("UPDATE t SET n = 2");
    bench.ok("UPDATE t SET at = '2026-01-01 00:00:00'");
    assert_eq!(bench.rows("t"), ["1|2026-01-01 00:00:00|2"]);
    bench.ok("DELETE FROM t");
    assert!(bench.rows("t").is_empty());
}

/// Every expected value was seen from MySQL 9.7.
#[test]
fn assignments_on_duplicate_keys_read_the_query_s_tables() {
    let setup = [
        "CREATE TABLE d (k INT PRIMARY KEY, v INT, w INT)",
        "CREATE TABLE s (k INT, v INT, x INT)",
        "INSERT INTO s VALUES (1, 10, 5), (2, 20, 6)",
        "INSERT INTO d VALUES (1, 1, 1)",
    ];
    for (source, rows) in [
        (
            "SELECT k, v FROM s ON DUPLICATE KEY UPDATE w = s.v + 100",
            "1|1|110 2|20|NULL",
        ),
        (
            "SELECT k, v FROM s ON DUPLICATE KEY UPDATE w = s.x, v = x",
            "1|5|5 2|20|NULL",
        ),
        (
            "SELECT a.k, a.v FROM s a JOIN s b USING (k) ON DUPLICATE KEY UPDATE w = a.v + b.x",
            "1|1|15 2|20|NULL",
        ),
        (
            "SELECT * FROM (SELECT k, v + 1 AS z FROM s) q ON DUPLICATE KEY UPDATE w = q.z, v = VALUES(v)",
            "1|11|11 2|21|NULL",
        ),
        (
            "SELECT DISTINCT k, v FROM s ON DUPLICATE KEY UPDATE w = s.v",
            "1|1|10 2|20|NULL",
        ),
        (
            "SELECT k, v FROM s ON DUPLICATE KEY UPDATE w = d.v + 100",
            "1|1|101 2|20|NULL",
        ),
    ] {
        let mut bench = bench(&setup);
        bench.ok(&format!("INSERT INTO d (k, v) {source}"));
        assert_eq!(bench.rows("d").join(" "), rows, "{source}");
    }
    let mut bench = bench(&setup);
    for (source, code) in [
        (
            "SELECT k, v FROM s ON DUPLICATE KEY UPDATE w = v + 100",
            1052,
        ),
        (
            "SELECT k, v FROM s GROUP BY k, v ON DUPLICATE KEY UPDATE w = s.v",
            1054,
        ),
        (
            "SELECT k, v FROM s UNION SELECT 3, 4 ON DUPLICATE KEY UPDATE w = s.v",
            1054,
        ),
        ("VALUES (1, 2) ON DUPLICATE KEY UPDATE w = s.v", 1054),
    ] {
        assert_eq!(
            bench.code(&format!("INSERT INTO d (k, v) {source}")),
            code,
            "{source}"
        );
    }
}

/// Every expected value was seen from MySQL 9.7.
#[test]
fn subqueries_may_read_the_target_where_they_are_done_before() {
    let mut bench = bench(&[
        "CREATE TABLE b (id INT PRIMARY KEY, n INT)",
        "INSERT INTO b VALUES (1, 10), (2, 20), (3, 30)",
    ]);
    for sql in [
        "DELETE FROM b WHERE id IN (SELECT * FROM (SELECT id FROM b WHERE id IN (SELECT id FROM b u WHERE u.n > 99)) x)",
        "DELETE FROM b WHERE id IN (WITH c AS (SELECT id FROM b WHERE n > 99) SELECT id FROM c)",
        "INSERT INTO b VALUES ((SELECT MAX(id) + 1 FROM b u), 1)",
        "REPLACE INTO b VALUES ((SELECT MAX(id) + 1 FROM b u), 1)",
        "INSERT INTO b VALUES (1, 2) ON DUPLICATE KEY UPDATE n = (SELECT MAX(n) FROM b u)",
        "INSERT INTO b SELECT id + 100, n FROM b WHERE id = 1",
    ] {
        bench.ok(sql);
    }
    assert_eq!(bench.rows("b").join(" "), "1|30 2|20 3|30 4|1 5|1 101|30");
    for sql in [
        "DELETE FROM b WHERE id IN (SELECT id FROM b u)",
        "UPDATE b SET n = (SELECT MAX(n) FROM b u)",
        "INSERT INTO b VALUES ((SELECT MAX(id) + 1 FROM b), 1)",
        "DELETE x FROM b x WHERE x.id IN (SELECT id FROM b)",
    ] {
        assert_eq!(bench.code(sql), 1093, "{sql}");
    }
}

/// Every expected value was seen from MySQL 9.7.
#[test]
fn defaults_see_the_row_so_far() {
    let mut bench =
        bench(&["CREATE TABLE t (a INT DEFAULT 1, b INT DEFAULT (a + 1), c INT DEFAULT (b + 1))"]);
    bench.ok("INSERT INTO t (b, a) VALUES (DEFAULT, 3)");
    bench.ok("INSERT INTO t (c, b, a) VALUES (DEFAULT, DEFAULT, 5)");
    bench.ok("INSERT INTO t (a, b) VALUES (3, DEFAULT)");
    assert_eq!(bench.rows("t"), ["3|2|3", "5|2|NULL", "3|4|5"]);
    assert_eq!(bench.code("INSERT INTO t (b) VALUES (DEFAULT(b))"), 3773);
    bench.ok("CREATE TABLE n (a INT, b VARCHAR(5), c INT NOT NULL)");
    bench.ok("ALTER TABLE n ALTER a DROP DEFAULT, ALTER b DROP DEFAULT");
    bench.sql_mode = SqlMode::default();
    bench.ok("INSERT INTO n (c) VALUES (1)");
    bench.ok("INSERT INTO n (a) VALUES (1)");
    assert_eq!(bench.rows("n"), ["NULL|NULL|1", "1|NULL|0"]);
}
