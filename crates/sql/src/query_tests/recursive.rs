//! Recursive and shared common table expressions, as MySQL answers them.
//!
//! Neighbours: `rig` runs the statements.
//! **Invariant**: every expected value was seen from a MySQL server.

use super::rig::Rig;

fn rig() -> Rig {
    Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, up INT)",
        "INSERT INTO t VALUES (1, NULL), (2, 1), (3, 1), (4, 2), (5, 4)",
    ])
}

#[test]
fn forbidden_forms() {
    let rig = rig();
    let cases = [
        (3573, "SELECT n + 1 FROM c"),
        (3573, "SELECT 1 n INTERSECT SELECT n FROM c"),
        (
            3574,
            "SELECT 1 n UNION ALL SELECT n + 1 FROM c UNION ALL SELECT 7",
        ),
        (3574, "SELECT n + 1 FROM c UNION ALL SELECT 1"),
        (3575, "SELECT 1 n UNION ALL SELECT SUM(n) FROM c"),
        (3575, "SELECT 1 n UNION ALL SELECT n FROM c GROUP BY n"),
        (
            3575,
            "SELECT 1 n UNION ALL SELECT ROW_NUMBER() OVER () FROM c",
        ),
        (
            3576,
            "SELECT 1 n UNION ALL SELECT t.id FROM t LEFT JOIN c ON t.id = c.n",
        ),
        (3577, "SELECT 1 n UNION ALL SELECT a.n + 1 FROM c a, c b"),
        (
            3577,
            "SELECT 1 n UNION ALL SELECT d.n + 1 FROM (SELECT * FROM c) d",
        ),
        (
            3577,
            "SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < (SELECT MAX(n) FROM c)",
        ),
        (
            3577,
            "SELECT 1 n UNION ALL SELECT 2 FROM t WHERE id IN (SELECT n FROM c)",
        ),
        (1235, "SELECT 1 n UNION ALL SELECT DISTINCT n + 1 FROM c"),
        (1235, "SELECT 1 n UNION ALL SELECT n + 1 FROM c ORDER BY n"),
        (1235, "SELECT 1 n UNION ALL (SELECT n + 1 FROM c LIMIT 1)"),
        (
            1235,
            "SELECT 1 n UNION SELECT n + 1 FROM c UNION ALL SELECT n + 10 FROM c",
        ),
    ];
    for (code, body) in cases {
        let sql = format!("WITH RECURSIVE c AS ({body}) SELECT * FROM c");
        assert_eq!(rig.code(&sql), code, "{sql}");
    }
    assert_eq!(
        rig.code("WITH c AS (SELECT 1 n UNION ALL SELECT n FROM c) SELECT * FROM c"),
        1146
    );
}
