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
