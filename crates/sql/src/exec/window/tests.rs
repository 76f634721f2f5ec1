//! Window functions, as MySQL answers them.
//!
//! Neighbours: `exec::testing` runs the statements.
//! **Invariant**: expected rows and errors were seen from a MySQL server, or follow from the definition
//! computed anew for every row.

use crate::exec::testing::Rig;

fn rig() -> Rig {
    Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(10), d DECIMAL(6,2), e DATE, f DOUBLE)",
        "INSERT INTO t VALUES (1, 1, 1, 'a', 1.5, '2020-01-01', 1.5), (2, 1, 2, 'A', 2.5, '2020-01-02', 2.5), \
         (3, 2, NULL, 'b', NULL, '2020-01-05', NULL), (4, NULL, 5, NULL, 4, NULL, 4)",
    ])
}

#[test]
fn ranks_and_values_of_other_rows() {
    let rig = rig();
    assert_eq!(
        rig.rows(
            "SELECT id, ROW_NUMBER() OVER w, RANK() OVER w, DENSE_RANK() OVER w, CUME_DIST() OVER w, NTILE(3) OVER w \
             FROM t WINDOW w AS (ORDER BY a) ORDER BY id"
        ),
        ["1|2|2|2|0.75|1", "2|3|2|2|0.75|2", "3|4|4|3|1|3", "4|1|1|1|0.25|1"]
    );
    assert_eq!(
        rig.rows(
            "SELECT LEAD(a, 1, 99) OVER w, LAG(a) OVER w, FIRST_VALUE(a) OVER w, LAST_VALUE(a) OVER w, \
             NTH_VALUE(b, 2) OVER w, PERCENT_RANK() OVER w FROM t WINDOW w AS (ORDER BY a)"
        ),
        [
            "1|NULL|NULL|NULL|NULL|0",
            "1|NULL|NULL|1|1|0.3333333333333333",
            "2|1|NULL|1|1|0.3333333333333333",
            "99|1|NULL|2|1|1"
        ]
    );
}

#[test]
fn partitions_follow_the_collation() {
    let rig = rig();
    assert_eq!(
        rig.rows("SELECT c, COUNT(*) OVER (PARTITION BY c) n FROM t ORDER BY id"),
        ["a|2", "A|2", "b|1", "NULL|1"]
    );
}

#[test]
fn range_frames_know_null_and_direction() {
    let rig = rig();
    assert_eq!(
        rig.rows(
            "SELECT id, COUNT(*) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) c1, \
             COUNT(*) OVER (ORDER BY a RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) c2, \
             COUNT(*) OVER (ORDER BY a RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) c3, \
             COUNT(*) OVER (ORDER BY a DESC RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) c4, \
             COUNT(*) OVER (ORDER BY a DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) c5, \
             COUNT(*) OVER (ORDER BY a DESC RANGE BETWEEN 2 FOLLOWING AND 3 FOLLOWING) c8 FROM t ORDER BY id"
        ),
        ["1|3|1|1|1|3|0", "2|3|1|1|1|3|0", "3|3|3|0|3|3|0", "4|1|1|4|1|4|1"]
    );
    assert_eq!(
        rig.rows(
            "SELECT id, SUM(a) OVER (ORDER BY e RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 3 DAY FOLLOWING) \
             FROM t ORDER BY id"
        ),
        ["1|2", "2|4", "3|2", "4|NULL"]
    );
    assert_eq!(
        rig.rows("SELECT SUM(id) OVER (ORDER BY d RANGE 1.0 PRECEDING) FROM t ORDER BY id"),
        ["1", "3", "3", "4"]
    );
}

#[test]
fn aggregates_over_moving_frames() {
    let rig = rig();
    assert_eq!(
        rig.rows(
            "SELECT SUM(a) OVER w, AVG(b) OVER w, MIN(b) OVER w, MAX(b) OVER w, COUNT(b) OVER w, BIT_XOR(a) OVER w, \
             STD(f) OVER w FROM t WINDOW w AS (ORDER BY id ROWS 1 PRECEDING)"
        ),
        [
            "1|1.0000|1|1|1|1|0",
            "2|1.5000|1|2|2|0|0.5",
            "3|2.0000|2|2|1|3|0",
            "2|5.0000|5|5|1|2|0"
        ]
    );
    assert_eq!(
        rig.rows("SELECT SUM(a) OVER w, COUNT(*) OVER w, BIT_AND(a) OVER w FROM t WINDOW w AS (ORDER BY id ROWS BETWEEN 5 FOLLOWING AND 6 FOLLOWING) LIMIT 1"),
        ["NULL|0|18446744073709551615"]
    );
}

/// Every aggregate over every kind of moving frame equals the aggregate of the rows themselves.
#[test]
fn moving_frames_give_what_their_rows_give() {
    let mut rig = Rig::new(&["CREATE TABLE n (id INT PRIMARY KEY, v INT, d DECIMAL(8,2))"]);
    let value = |i: i64| (i * 7919 + i * i * 31) % 41 - 20;
    for i in 0..60 {
        let v = match i % 7 {
            3 => "NULL".to_owned(),
            _ => value(i).to_string(),
        };
        rig.bench
            .ok(&format!("INSERT INTO n VALUES ({i}, {v}, {v} / 4)"));
    }
    for (before, after) in [(0, 3), (2, 2), (5, 0), (10, -3), (-2, 6)] {
        let bound = |n: i64| match n < 0 {
            true => format!("{} FOLLOWING", -n),
            false => format!("{n} PRECEDING"),
        };
        let frame = format!("ROWS BETWEEN {} AND {}", bound(before), bound(-after));
        for agg in [
            "SUM(v)",
            "AVG(d)",
            "COUNT(v)",
            "COUNT(*)",
            "MIN(v)",
            "MAX(d)",
            "BIT_OR(v)",
        ] {
            let moving = format!("SELECT id, {agg} OVER (ORDER BY id {frame}) FROM n ORDER BY id");
            let each = format!(
                "SELECT o.id, (SELECT {agg} FROM n WHERE n.id BETWEEN o.id - {before} AND o.id + {after}) \
                 FROM n o ORDER BY o.id"
            );
            assert_eq!(rig.rows(&moving), rig.rows(&each), "{agg} {frame}");
        }
    }
}

#[test]
fn windows_stand_behind_grouping_and_before_order() {
    let rig = rig();
    assert_eq!(
        rig.rows("SELECT a, SUM(SUM(b)) OVER (ORDER BY a), RANK() OVER (ORDER BY COUNT(*) DESC) r FROM t GROUP BY a ORDER BY r, a"),
        ["1|8|1", "NULL|5|2", "2|8|2"]
    );
    assert_eq!(
        rig.rows("SELECT SUM(b), ROW_NUMBER() OVER () FROM t"),
        ["8|1"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t ORDER BY ROW_NUMBER() OVER (ORDER BY id DESC) LIMIT 2"),
        ["4", "3"]
    );
    assert_eq!(
        rig.rows("SELECT DISTINCT COUNT(*) OVER (PARTITION BY a) n FROM t ORDER BY n"),
        ["1", "2"]
    );
    assert_eq!(
        rig.rows("SELECT x.id FROM (SELECT id, a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY id) n FROM t) x WHERE n = 1 AND a = 1"),
        ["1"]
    );
    assert_eq!(
        rig.rows("SELECT (SELECT SUM(t.a) OVER () FROM (SELECT 1) x) FROM t ORDER BY id"),
        ["1", "1", "2", "NULL"]
    );
}

#[test]
fn named_windows_inherit() {
    let rig = rig();
    assert_eq!(
        rig.rows(
            "SELECT ROW_NUMBER() OVER w, SUM(id) OVER (w ROWS 1 PRECEDING) FROM t WINDOW w AS (v ORDER BY id), v AS (PARTITION BY a) ORDER BY id"
        ),
        ["1|1", "2|3", "1|3", "1|4"]
    );
}

#[test]
fn errors_are_numbered_as_mysqls() {
    let rig = rig();
    let cases = [
        (3579, "SELECT ROW_NUMBER() OVER w FROM t"),
        (
            3580,
            "SELECT ROW_NUMBER() OVER w FROM t WINDOW w AS (x), x AS (w)",
        ),
        (
            3581,
            "SELECT ROW_NUMBER() OVER (w PARTITION BY b) FROM t WINDOW w AS (ORDER BY a)",
        ),
        (
            3582,
            "SELECT ROW_NUMBER() OVER (w) FROM t WINDOW w AS (ORDER BY a ROWS UNBOUNDED PRECEDING)",
        ),
        (
            3583,
            "SELECT ROW_NUMBER() OVER (w ORDER BY b) FROM t WINDOW w AS (ORDER BY a)",
        ),
        (
            3584,
            "SELECT SUM(a) OVER (ROWS BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW) FROM t",
        ),
        (
            3585,
            "SELECT SUM(a) OVER (ROWS BETWEEN CURRENT ROW AND UNBOUNDED PRECEDING) FROM t",
        ),
        (
            3586,
            "SELECT SUM(a) OVER (ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM t",
        ),
        (
            3586,
            "SELECT SUM(a) OVER (ORDER BY a ROWS 1.5 PRECEDING) FROM t",
        ),
        (
            3586,
            "SELECT SUM(a) OVER (ORDER BY e RANGE INTERVAL -1 DAY PRECEDING) FROM t",
        ),
        (
            3587,
            "SELECT SUM(a) OVER (ORDER BY a, b RANGE 1 PRECEDING) FROM t",
        ),
        (
            3587,
            "SELECT SUM(a) OVER (ORDER BY c RANGE 1 PRECEDING) FROM t",
        ),
        (
            3588,
            "SELECT SUM(a) OVER (ORDER BY e RANGE 1 PRECEDING) FROM t",
        ),
        (
            3589,
            "SELECT SUM(a) OVER (ORDER BY a RANGE INTERVAL 1 DAY PRECEDING) FROM t",
        ),
        (3591, "SELECT 1 FROM t WINDOW w AS (), W AS ()"),
        (3592, "SELECT SUM(a) OVER (ORDER BY 1) FROM t"),
        (3593, "SELECT a FROM t WHERE ROW_NUMBER() OVER () = 1"),
        (3593, "SELECT SUM(ROW_NUMBER() OVER ()) FROM t"),
        (3593, "SELECT a FROM t GROUP BY ROW_NUMBER() OVER ()"),
        (3593, "SELECT a FROM t HAVING ROW_NUMBER() OVER () = 1"),
        (
            3594,
            "SELECT ROW_NUMBER() OVER () AS rn FROM t HAVING rn = 1",
        ),
        (1056, "SELECT ROW_NUMBER() OVER () AS rn FROM t GROUP BY rn"),
        (
            3595,
            "SELECT ROW_NUMBER() OVER (ORDER BY ROW_NUMBER() OVER ()) FROM t",
        ),
        (
            3596,
            "SELECT SUM(a) OVER (ORDER BY a ROWS INTERVAL 1 DAY PRECEDING) FROM t",
        ),
        (1235, "SELECT COUNT(DISTINCT a) OVER () FROM t"),
        (1210, "SELECT NTILE(0) OVER () FROM t"),
        (1210, "SELECT NTH_VALUE(a, NULL) OVER () FROM t"),
        (1327, "SELECT LAG(a, b) OVER () FROM t"),
        (1064, "SELECT LAG(a, -1) OVER () FROM t"),
        (1054, "SELECT 1 FROM t WINDOW w AS (ORDER BY nowhere)"),
        (1054, "SELECT a AS x, ROW_NUMBER() OVER (ORDER BY x) FROM t"),
        (1055, "SELECT a, SUM(b) OVER () FROM t GROUP BY a"),
    ];
    for (code, sql) in cases {
        assert_eq!(rig.code(sql), code, "{sql}");
    }
}

#[test]
fn types_are_mysqls() {
    let rig = rig();
    let sql = "SELECT ROW_NUMBER() OVER w, CUME_DIST() OVER w, LAG(id) OVER w, LAG(id, 1, 0) OVER w, \
               LAG(c, 1, id) OVER w, FIRST_VALUE(d) OVER w, SUM(id) OVER w FROM t WINDOW w AS (ORDER BY id)";
    let plan = rig.plan(sql, &[]).expect("a plan");
    let types: Vec<String> = plan
        .columns
        .iter()
        .map(|c| format!("{:?} {}", c.ty.kind, c.ty.nullable))
        .collect();
    assert_eq!(
        types,
        [
            "BigInt false",
            "Double false",
            "BigInt true",
            "BigInt false",
            "VarChar true",
            "Decimal true",
            "Decimal true"
        ]
    );
}

#[test]
fn memory_is_bounded() {
    let mut rig = rig();
    rig.memory_bytes = 200;
    assert_eq!(
        rig.code("SELECT ROW_NUMBER() OVER (ORDER BY c) FROM t"),
        1038
    );
}

#[test]
fn windows_of_one_order_share_a_sort() {
    let rig = rig();
    let plan = rig
        .plan(
            "SELECT SUM(a) OVER (PARTITION BY b), RANK() OVER (PARTITION BY b ORDER BY c), COUNT(*) OVER (ORDER BY a) FROM t",
            &[],
        )
        .expect("a plan");
    let crate::plan::Root::Block(block) = &plan.root else {
        panic!("a block");
    };
    let windows = block.windows.as_ref().expect("windows");
    let keys: Vec<usize> = windows.sorts.iter().map(|s| s.keys.len()).collect();
    assert_eq!(keys, [2, 1]);
}
