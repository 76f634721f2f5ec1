//! Joins by equalities that follow from others.
//!
//! Neighbours: `plan::equalities` finds them.
//! **Invariant**: an order of the tables changes no row of the answer.

use esker_sql_plan::plan::{JoinMethod, JoinPlan, Node, Root};

use super::rig::Rig;

fn rig() -> Rig {
    let mut rig = Rig::new(&[
        "CREATE TABLE a (i INT, s VARCHAR(10) COLLATE utf8mb4_general_ci)",
        "CREATE TABLE b (i BIGINT UNSIGNED, s VARCHAR(10) COLLATE utf8mb4_general_ci)",
        "CREATE TABLE c (i SMALLINT, s VARCHAR(10) COLLATE utf8mb4_general_ci, j INT)",
    ]);
    for n in 0..30 {
        for (table, of) in [("a (i, s)", 7), ("b (i, s)", 5), ("c (i, s)", 11)] {
            let i = if n % of == 0 {
                "NULL".to_owned()
            } else {
                (n % of).to_string()
            };
            rig.bench
                .ok(&format!("INSERT INTO {table} VALUES ({i}, 's{}')", n % of));
        }
    }
    rig
}

/// Numbers of hash keys of the joins, the last join first; 0 for a join of each row with each.
fn keys(rig: &Rig, sql: &str) -> Vec<usize> {
    fn collect(node: &Node, found: &mut Vec<usize>) {
        match node {
            Node::Join(join) => {
                let JoinPlan { left, method, .. } = &**join;
                found.push(match method {
                    JoinMethod::Hash { right, .. } => right.len(),
                    _ => 0,
                });
                collect(left, found);
            }
            Node::Filter(input, _) => collect(input, found),
            _ => {}
        }
    }
    let plan = rig.plan(sql, &[]).unwrap();
    let Root::Block(block) = &plan.root else {
        panic!("{sql} is one block")
    };
    let mut found = Vec::new();
    collect(&block.source, &mut found);
    found
}

#[test]
fn tables_are_joined_by_what_follows_and_each_column_once() {
    let rig = rig();
    let select = "SELECT STRAIGHT_JOIN COUNT(*), SUM(a.i), SUM(b.i), SUM(c.i) FROM";
    let equal = "a.i = b.i AND b.i = c.i";
    let all = rig.rows(&format!("{select} a, b, c WHERE {equal}"));
    assert_ne!(all, ["0,NULL,NULL,NULL"]);
    for order in ["a, c, b", "c, a, b", "b, c, a", "c, b, a"] {
        let sql = format!("{select} {order} WHERE {equal}");
        assert_eq!(keys(&rig, &sql), [1, 1], "{sql}");
        assert_eq!(rig.rows(&sql), all, "{sql}");
    }
}

#[test]
fn strings_and_other_comparisons_imply_nothing() {
    let rig = rig();
    for cond in [
        "a.s = b.s AND b.s = c.s",
        "a.i <=> b.i AND b.i <=> c.i",
        "a.i = b.i AND b.i < c.i",
    ] {
        let sql = format!("SELECT STRAIGHT_JOIN COUNT(*) FROM a, c, b WHERE {cond}");
        assert_eq!(keys(&rig, &sql)[1], 0, "{sql}");
    }
    // A row that an outer join makes up has no equals.
    let sql =
        "SELECT COUNT(*), COUNT(c.i) FROM a LEFT JOIN b ON a.i = b.i LEFT JOIN c ON b.i = c.i";
    let nested =
        "SELECT COUNT(*), COUNT(c.i) FROM a LEFT JOIN (b LEFT JOIN c ON b.i = c.i) ON a.i = b.i";
    assert_eq!(rig.rows(sql), rig.rows(nested));
}
