//! The order of a table's conditions.
//!
//! Neighbours: `plan::conds` places them.
//! **Invariant**: a condition that may warn stays behind those that were written before it.

use esker_sql_plan::expr::ExprKind;
use esker_sql_plan::plan::{Node, Root};

use super::rig::Rig;

#[test]
fn cheap_conditions_come_first_and_decode_no_more_than_they_read() {
    let rig = Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20), d DATE, e DATE, n INT, w INT)",
        "INSERT INTO t VALUES (1, 'ab', '2024-01-01', '2024-01-02', 0, 1), (2, 'ab', '2024-01-03', '2024-01-02', 5, 1)",
    ]);
    let sql = "SELECT w FROM t WHERE s LIKE '%b' AND 6 / n > 1 AND d > e AND n IN (5, 7)";
    let plan = rig.plan(sql, &[]).unwrap();
    let Root::Block(block) = &plan.root else {
        panic!("one block")
    };
    let Node::Scan(scan) = &block.source else {
        panic!("one table")
    };
    assert!(matches!(scan.conds[0].kind, ExprKind::Cmp(_)));
    assert!(matches!(scan.conds[1].kind, ExprKind::InList(_)));
    // The others stand as they were written: of what one lets through the next may warn.
    assert!(matches!(scan.conds[2].kind, ExprKind::Like(_)));
    assert!(matches!(scan.conds[3].kind, ExprKind::Cmp(_)));
    assert_eq!(scan.cond_ends, [2, 3, 4, 4]);
    assert_eq!((scan.cond_columns, scan.columns.len()), (4, 5));
    assert_eq!(rig.rows(sql), ["1"]);
    assert!(
        rig.warnings.borrow().is_empty(),
        "a row without interest was divided"
    );
}
