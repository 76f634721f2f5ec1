//! Recursive and shared common table expressions, as MySQL answers them.
//!
//! Neighbours: `exec::testing` runs the statements.
//! **Invariant**: every expected value was seen from a MySQL server.

use super::testing::Rig;

fn rig() -> Rig {
    Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, up INT)",
        "INSERT INTO t VALUES (1, NULL), (2, 1), (3, 1), (4, 2), (5, 4)",
    ])
}

#[test]
fn rounds_go_on_until_nothing_is_new() {
    let rig = rig();
    assert_eq!(
        rig.rows("WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT * FROM c"),
        ["1", "2", "3"]
    );
    assert_eq!(
        rig.rows("WITH RECURSIVE c AS (SELECT 1 n UNION DISTINCT SELECT n % 3 + 1 FROM c) SELECT * FROM c"),
        ["1", "2", "3"]
    );
    assert_eq!(
        rig.rows(
            "WITH RECURSIVE c (id, path) AS (SELECT id, CAST(id AS CHAR(20)) FROM t WHERE up IS NULL UNION ALL \
             SELECT t.id, CONCAT(path, '/', t.id) FROM c JOIN t ON t.up = c.id) SELECT * FROM c ORDER BY path"
        ),
        ["1|1", "2|1/2", "4|1/2/4", "5|1/2/4/5", "3|1/3"]
    );
    assert_eq!(
        rig.rows(
            "WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < 3), \
             d AS (SELECT n * 10 m FROM c UNION ALL SELECT m + 1 FROM d WHERE m < 12) SELECT * FROM d ORDER BY 1"
        ),
        ["10", "11", "12", "20", "30"]
    );
    // Two recursive members, and two parts before them.
    assert_eq!(
        rig.rows(
            "WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT 2 UNION ALL SELECT n * 10 FROM c WHERE n < 5 \
             UNION ALL SELECT n * 100 FROM c WHERE n < 2) SELECT * FROM c"
        ),
        ["1", "2", "10", "20", "100"]
    );
}

#[test]
fn limit_stops_an_endless_recursion() {
    let rig = rig();
    assert_eq!(
        rig.rows("WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c LIMIT 3 OFFSET 1) SELECT * FROM c"),
        ["2", "3", "4"]
    );
    let (code, text) =
        rig.error("WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c) SELECT * FROM c");
    assert_eq!(code, 3636);
    assert!(text.contains("aborted after 1001 iterations"), "{text}");
}

#[test]
fn one_expression_in_several_places() {
    let rig = rig();
    assert_eq!(
        rig.rows(
            "WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < 4) \
             SELECT a.n, b.n FROM c a JOIN c b ON a.n = b.n + 1 ORDER BY 1"
        ),
        ["2|1", "3|2", "4|3"]
    );
    // Computed once: both places see the same numbers.
    assert_eq!(
        rig.value(
            "WITH r AS (SELECT @n := COALESCE(@n, 0) + 1 x FROM t) SELECT COUNT(*) FROM r a JOIN r b ON a.x = b.x"
        ),
        "5"
    );
    assert_eq!(
        rig.rows(
            "WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < 4) \
             SELECT n FROM c WHERE n > (SELECT AVG(n) FROM c) ORDER BY n"
        ),
        ["3", "4"]
    );
}

#[test]
fn expressions_that_refer_to_an_enclosing_query() {
    let rig = rig();
    assert_eq!(
        rig.rows(
            "SELECT id, (WITH c AS (SELECT COUNT(*) n FROM t x WHERE x.up = t.id) SELECT n FROM c) FROM t"
        ),
        ["1|2", "2|1", "3|0", "4|1", "5|0"]
    );
    // Named twice, and further in than WITH stands.
    assert_eq!(
        rig.rows(
            "SELECT id FROM t WHERE EXISTS (WITH c AS (SELECT x.id FROM t x WHERE x.up = t.id) \
             SELECT 1 FROM t y WHERE y.id = (SELECT MAX(id) FROM c) AND y.id > (SELECT MIN(id) FROM c))"
        ),
        ["1"]
    );
    // One reads another; the name of an inner table does not catch what the definition means. (MySQL
    // computes `d` once, for the first row.)
    assert_eq!(
        rig.rows(
            "SELECT id, (WITH c (k) AS (SELECT t.id * 10), d AS (SELECT k + 1 k FROM c) \
             SELECT (SELECT MAX(d.k) FROM d, t WHERE t.id < 3)) FROM t WHERE id < 3"
        ),
        ["1|11", "2|21"]
    );
    assert_eq!(
        rig.rows(
            "SELECT id, (WITH RECURSIVE c AS (SELECT t.id n UNION ALL SELECT n + 1 FROM c WHERE n < t.id + 2) \
             SELECT SUM(n) FROM c) FROM t WHERE id < 3"
        ),
        ["1|6", "2|9"]
    );
    assert_eq!(
        rig.rows(
            "SELECT t.id, l.s FROM t, LATERAL (WITH c AS (SELECT t.id + 1 s UNION SELECT t.up) SELECT s FROM c) l \
             WHERE t.id = 2 ORDER BY s"
        ),
        ["2|1", "2|3"]
    );
}

#[test]
fn columns_are_the_first_parts() {
    let rig = rig();
    assert_eq!(
        rig.code(
            "WITH RECURSIVE c AS (SELECT 1 n, 'a' s UNION ALL SELECT n + 1, CONCAT(s, 'b') FROM c WHERE n < 3) SELECT * FROM c"
        ),
        1406
    );
    assert_eq!(
        rig.code(
            "WITH RECURSIVE c AS (SELECT 1 n, 2 m UNION ALL SELECT n + 1 FROM c) SELECT * FROM c"
        ),
        1222
    );
    assert_eq!(
        rig.code(
            "WITH RECURSIVE c (x) AS (SELECT 1, 2 UNION ALL SELECT x, 2 FROM c) SELECT * FROM c"
        ),
        1353
    );
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
