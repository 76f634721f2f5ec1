//! Second plans of blocks: those with their subqueries joined or looked up.
//!
//! Neighbours: `plan::semi_join` and `plan::looked_up` propose them; `tests/sql/query` has their answers.
//! **Invariant**: counted are blocks whose planning began, as the optimizer trace has them.

use super::rig::Rig;

/// A query with one EXISTS inside of another, that many deep.
fn nested(depth: usize) -> String {
    let innermost = format!(
        "SELECT 1 FROM t t{depth} WHERE t{depth}.a = t{}.a",
        depth - 1
    );
    let query = (1..depth).rev().fold(innermost, |inner, nth| {
        let outer = nth - 1;
        format!("SELECT 1 FROM t t{nth} WHERE t{nth}.a = t{outer}.a AND EXISTS ({inner})")
    });
    format!("SELECT COUNT(*) FROM t t0 WHERE EXISTS ({query})")
}

#[test]
fn the_number_of_second_plans_is_bounded() {
    let mut rig = Rig::new(&["CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL)"]);
    let rows: Vec<String> = (0..2000).map(|id| format!("({id}, {})", id % 50)).collect();
    rig.bench
        .ok(&format!("INSERT INTO t VALUES {}", rows.join(",")));
    // Each block has a second plan, in which what is inside of it is planned anew, with second plans of its own.
    let few = rig.blocks_planned(&nested(2));
    assert!(few > 3, "none has a second plan: {few} for 3 blocks");
    // From some depth on each block is planned once.
    let (deep, deeper) = (
        rig.blocks_planned(&nested(20)),
        rig.blocks_planned(&nested(24)),
    );
    assert_eq!(deeper - deep, 4, "{deep} and {deeper}");
}
