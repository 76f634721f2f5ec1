//! Writes in which MySQL itself was asked: numbers, ids and implicit values.
//!
//! Neighbours: `tests` has the plain cases.
//! **Invariant**: every expected value was seen from a MySQL server.

use super::testing::Bench;

#[test]
fn a_row_that_is_left_out_gives_its_number_back() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT UNIQUE, b INT)");
    bench.ok("INSERT INTO t (a) VALUES (1), (2), (3)");
    let ran = bench.ok("INSERT IGNORE INTO t (a) VALUES (1), (4), (1)");
    assert_eq!((ran.affected, ran.insert_id), (1, 4));
    let ran = bench.ok("INSERT INTO t (a) VALUES (1), (9) ON DUPLICATE KEY UPDATE b = 1");
    assert_eq!((ran.affected, ran.generated), (3, Some(7)));
    assert_eq!(
        bench.rows("t"),
        ["1|1|1", "2|2|NULL", "3|3|NULL", "4|4|NULL", "7|9|NULL"]
    );
}

#[test]
fn duplicates_under_ignore_are_the_rows_without_effect() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY, b INT)");
    bench.ok("INSERT INTO t VALUES (1, 1), (2, 2)");
    let info = |ran: super::testing::Ran| ran.info;
    let update = "ON DUPLICATE KEY UPDATE b = 9";
    assert_eq!(
        info(bench.ok(&format!(
            "INSERT IGNORE INTO t VALUES (1, 0), (3, 0) {update}"
        ))),
        "Records: 2  Duplicates: 0  Warnings: 0"
    );
    assert_eq!(
        info(bench.ok(&format!("INSERT INTO t VALUES (2, 0), (4, 0) {update}"))),
        "Records: 2  Duplicates: 1  Warnings: 0"
    );
}

#[test]
fn an_update_that_changes_nothing_names_no_id() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT UNIQUE, b INT)");
    bench.ok("INSERT INTO t (a, b) VALUES (1, 5)");
    let again = "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE b = 6";
    let ran = bench.ok(again);
    assert_eq!((ran.affected, ran.insert_id), (2, 1));
    let ran = bench.ok(again);
    assert_eq!((ran.affected, ran.insert_id), (0, 0));
    // A negative id is sent as the 64 bits it has.
    let ran = bench.ok("INSERT INTO t VALUES (-5, 7, 7)");
    assert_eq!(ran.insert_id, (-5i64) as u64);
}
