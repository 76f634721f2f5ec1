//! Window functions, as MySQL answers them.
//!
//! Neighbours: `rig` runs the statements.
//! **Invariant**: expected rows and errors were seen from a MySQL server, or follow from the definition
//! computed anew for every row.

use super::rig::Rig;

fn rig() -> Rig {
    Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(10), d DECIMAL(6,2), e DATE, f DOUBLE)",
        "INSERT INTO t VALUES (1, 1, 1, 'a', 1.5, '2020-01-01', 1.5), (2, 1, 2, 'A', 2.5, '2020-01-02', 2.5), \
         (3, 2, NULL, 'b', NULL, '2020-01-05', NULL), (4, NULL, 5, NULL, 4, NULL, 4)",
    ])
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
    let esker_sql_plan::plan::Root::Block(block) = &plan.root else {
        panic!("a block");
    };
    let windows = block.windows.as_ref().expect("windows");
    let keys: Vec<usize> = windows.sorts.iter().map(|s| s.keys.len()).collect();
    assert_eq!(keys, [2, 1]);
}
