//! Schema statements in which MySQL itself was asked.
//!
//! Neighbours: `tests` has the plain cases.
//! **Invariant**: every expected value was seen from a MySQL server.

use crate::dml::testing::Bench;

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
