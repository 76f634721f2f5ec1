//! What joins keep of their rows.
//!
//! Neighbours: `plan::needed` decides.
//! **Invariant**: what is kept is enough for everything that is computed after the join.

use esker_sql_plan::plan::{JoinPlan, Node, Root};

use super::rig::Rig;

fn shop() -> Rig {
    let mut rig = Rig::new(&[
        "CREATE TABLE c (c INT, name VARCHAR(20), note VARCHAR(60))",
        "CREATE TABLE o (o INT, c INT, text VARCHAR(80), price INT, x INT)",
    ]);
    for n in 0..40 {
        let text = if n % 3 == 0 { "special" } else { "plain" };
        rig.bench.ok(&format!(
            "INSERT INTO c VALUES ({n}, 'name {n}', 'note {n}')"
        ));
        rig.bench.ok(&format!(
            "INSERT INTO o VALUES ({n}, {}, '{text}', {n}, 1), ({n}, {n}, '{text}', 3, 2)",
            n % 7
        ));
    }
    rig
}

/// Slots that the outermost join keeps of its left and right rows.
fn kept(rig: &Rig, sql: &str) -> (usize, usize) {
    let plan = rig.plan(sql, &[]).unwrap();
    let Root::Block(block) = &plan.root else {
        panic!("{sql} is one block")
    };
    fn join(node: &Node) -> &JoinPlan {
        match node {
            Node::Join(plan) => plan,
            Node::Filter(input, _) => join(input),
            other => panic!("no join: {other:?}"),
        }
    }
    let join = join(&block.source);
    (join.left_slots.len(), join.right_slots.len())
}

#[test]
fn joins_keep_what_is_read_after_them() {
    let rig = shop();
    let from = "FROM c LEFT JOIN o ON o.c = c.c AND text NOT LIKE '%special%'";
    for (select, expected) in [
        ("COUNT(*)", (0, 0)),
        ("COUNT(o)", (0, 1)),
        ("MAX(name), SUM(price), MIN(o)", (1, 2)),
        ("note, text", (1, 1)),
    ] {
        let sql = format!("SELECT {select} {from}");
        assert_eq!(kept(&rig, &sql), expected, "{sql}");
    }
    // What is compared when both rows are there, and what a subquery reads of them.
    let sql = format!("SELECT COUNT(*) {from} AND price > LENGTH(note)");
    assert_eq!(kept(&rig, &sql), (1, 1), "{sql}");
    let sql = format!("SELECT (SELECT MAX(c.c + o.x + i.o) FROM o i) {from}");
    assert_eq!(kept(&rig, &sql), (1, 1), "{sql}");
    let sql = format!("SELECT name {from} ORDER BY price, note");
    assert_eq!(kept(&rig, &sql), (2, 1), "{sql}");
    let sql = format!("SELECT name {from} GROUP BY name, x HAVING MAX(price) > 3");
    assert_eq!(kept(&rig, &sql), (1, 2), "{sql}");
}

#[test]
fn what_is_kept_is_enough_on_disk_too() {
    let mut rig = shop();
    for sql in [
        "SELECT name, SUM(price) FROM c LEFT JOIN o ON o.c = c.c AND text NOT LIKE '%special%' GROUP BY name",
        "SELECT a.name, b.note FROM c a JOIN o ON o.c = a.c AND price > LENGTH(a.note) JOIN c b ON b.c = o.price + x ORDER BY text, o",
        "SELECT SUM(price) OVER (ORDER BY text, o), name FROM c JOIN o ON o.c = c.c",
        "SELECT COUNT(*) FROM c JOIN o ON o.c = c.c WHERE EXISTS (SELECT 1 FROM o i WHERE i.c = c.c AND i.x > o.x)",
        "SELECT q.n, name FROM c, LATERAL (SELECT COUNT(*) AS n FROM o WHERE o.c = c.c AND price < LENGTH(note)) q",
    ] {
        let all = rig.sorted(sql);
        assert!(!all.is_empty(), "{sql}");
        rig.budget = Some(200);
        assert_eq!(rig.sorted(sql), all, "{sql}");
        rig.budget = None;
    }
}
