//! Schema statements in which MySQL itself was asked.
//!
//! Neighbours: `tests` has the plain cases.
//! **Invariant**: every expected value was seen from a MySQL server.

use crate::dml::testing::Bench;

#[test]
fn a_written_charset_is_shown_with_its_collation() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (a VARCHAR(5) CHARSET latin1, b VARCHAR(5), c BINARY(2))");
    let shown = bench.shown("t");
    assert!(
        shown
            .contains("`a` varchar(5) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL")
    );
    assert!(shown.contains("`b` varchar(5) DEFAULT NULL"));
}

#[test]
fn checks_are_shown_by_name_and_hash_indexes_as_trees() {
    let mut bench = Bench::new();
    bench.ok(
        "CREATE TABLE t (a INT CHECK (a > 0), CONSTRAINT cc CHECK (a < 9), KEY k (a) USING HASH)",
    );
    let shown = bench.shown("t");
    let (cc, chk) = (shown.find("`cc`"), shown.find("`t_chk_1`"));
    assert!(cc.is_some() && cc < chk, "{shown}");
    assert!(shown.contains("KEY `k` (`a`),"), "{shown}");
}

#[test]
fn the_next_number_is_never_beyond_the_column() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (a TINYINT PRIMARY KEY AUTO_INCREMENT)");
    bench.ok("INSERT INTO t VALUES (127)");
    assert!(bench.shown("t").contains(" AUTO_INCREMENT=127 "));
}

#[test]
fn the_last_column_may_go_when_another_comes() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (a INT)");
    assert_eq!(bench.code("ALTER TABLE t DROP a"), 1090);
    bench.ok("ALTER TABLE t DROP a, ADD b INT");
    assert!(bench.shown("t").contains("`b` int"));
}

#[test]
fn deprecated_types_warn() {
    let mut bench = Bench::new();
    let cases = [
        ("INT(5)", vec![1681]),
        ("TINYINT ZEROFILL", vec![1681]),
        ("DECIMAL(5,2) UNSIGNED", vec![1681]),
        ("FLOAT(5,2)", vec![1681]),
        ("YEAR(4)", vec![1287]),
        ("BOOL", vec![]),
    ];
    for (at, (ty, codes)) in cases.into_iter().enumerate() {
        let ran = bench.ok(&format!("CREATE TABLE t{at} (a {ty})"));
        assert_eq!(ran.codes(), codes, "{ty}");
    }
}

#[test]
fn checks_are_numbered_in_the_order_of_the_text() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE t (a INT CHECK (a < 10), b INT, CHECK (a <> b), c INT CHECK (c > 0), CONSTRAINT `z ` CHECK (b > 1))");
    let shown = bench.shown("t");
    for check in [
        "`t_chk_1` CHECK ((`a` < 10))",
        "`t_chk_2` CHECK ((`a` <> `b`))",
        "`t_chk_3` CHECK ((`c` > 0))",
        "`z ` CHECK ((`b` > 1))",
    ] {
        assert!(shown.contains(check), "{check}: {shown}");
    }
}

#[test]
fn an_empty_default_of_a_text_is_none_outside_of_strict_mode() {
    let mut bench = Bench::new();
    assert_eq!(bench.code("CREATE TABLE t (a TEXT DEFAULT '')"), 1101);
    bench.sql_mode = esker_types::SqlMode::default();
    assert_eq!(
        bench
            .ok("CREATE TABLE t (a TEXT DEFAULT '', b TEXT NOT NULL DEFAULT '')")
            .codes(),
        [1101, 1101]
    );
    let shown = bench.shown("t");
    assert!(
        shown.contains("`a` text,") && shown.contains("`b` text NOT NULL"),
        "{shown}"
    );
    assert_eq!(bench.code("CREATE TABLE u (a TEXT DEFAULT 'x')"), 1101);
}

#[test]
fn a_wrong_label_stays_one_when_the_labels_change() {
    let mut bench = Bench::new();
    bench.ok("CREATE TABLE e (a ENUM('x', 'y'))");
    bench.ok("INSERT IGNORE INTO e VALUES ('z'), ('x')");
    bench.ok("ALTER TABLE e MODIFY a ENUM('y', 'x') NOT NULL");
    assert_eq!(bench.rows("e"), ["", "x"]);
}

#[test]
fn programs_that_are_not_there_can_be_dropped_if_they_exist() {
    let mut bench = Bench::new();
    for (program, note, error) in [
        ("PROCEDURE p", 1305, 1305),
        ("FUNCTION f", 1305, 1305),
        ("TRIGGER t", 1360, 1360),
        ("EVENT e", 1305, 1539),
    ] {
        let (kind, name) = program.split_once(' ').expect("a kind and a name");
        assert_eq!(
            bench.ok(&format!("DROP {kind} IF EXISTS {name}")).codes(),
            [note],
            "{program}"
        );
        assert_eq!(bench.code(&format!("DROP {program}")), error, "{program}");
    }
}
