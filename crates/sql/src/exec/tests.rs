//! Queries from text to rows.

use esker_engine::{Isolation, LockMode, WaitPolicy};
use esker_types::Value;

use super::testing::Rig;
use crate::exec_error::ExecError;

const NONE: [&str; 0] = [];

fn rig() -> Rig {
    Rig::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY ka (a))",
        "CREATE TABLE u (id INT PRIMARY KEY, tid INT, x INT NOT NULL, KEY kt (tid))",
        "CREATE TABLE none (n INT)",
        "INSERT INTO t VALUES (1, 10, 'one'), (2, 20, 'two'), (3, NULL, 'three'), (4, 20, NULL)",
        "INSERT INTO u VALUES (1, 1, 100), (2, 1, 101), (3, 2, 102), (4, 9, 103), (5, NULL, 104)",
    ])
}

#[test]
fn joins() {
    let rig = rig();
    assert_eq!(
        rig.sorted("SELECT t.id, x FROM t JOIN u ON t.id = u.tid"),
        ["1|100", "1|101", "2|102"]
    );
    assert_eq!(
        rig.rows("SELECT t.id, x FROM t LEFT JOIN u ON t.id = u.tid ORDER BY t.id, x"),
        ["1|100", "1|101", "2|102", "3|NULL", "4|NULL"]
    );
    assert_eq!(
        rig.rows("SELECT t.id, x FROM t RIGHT JOIN u ON t.id = u.tid ORDER BY x"),
        ["1|100", "1|101", "2|102", "NULL|103", "NULL|104"]
    );
    // WHERE on the inner side makes the outer join an inner one; IS NULL does not.
    assert_eq!(
        rig.rows("SELECT t.id FROM t LEFT JOIN u ON t.id = tid WHERE x > 101"),
        ["2"]
    );
    assert_eq!(
        rig.sorted("SELECT t.id FROM t LEFT JOIN u ON t.id = tid WHERE u.id IS NULL"),
        ["3", "4"]
    );
    // ON conditions on the outer side keep its rows.
    assert_eq!(
        rig.rows("SELECT t.id, x FROM t LEFT JOIN u ON t.id = tid AND t.id > 1 ORDER BY t.id"),
        ["1|NULL", "2|102", "3|NULL", "4|NULL"]
    );
    assert_eq!(
        rig.rows(
            "SELECT t.id, v.id, x FROM t LEFT JOIN (t v JOIN u ON v.id = u.tid AND x = 101) \
             ON t.id = v.id ORDER BY t.id"
        ),
        ["1|1|101", "2|NULL|NULL", "3|NULL|NULL", "4|NULL|NULL"]
    );
    // Joins without an index: hash and NULL-safe.
    assert_eq!(
        rig.sorted("SELECT l.id, r.id FROM t l JOIN t r ON l.b = r.b"),
        ["1|1", "2|2", "3|3"]
    );
    assert_eq!(
        rig.rows("SELECT l.id FROM t l JOIN t r ON l.b <=> r.b WHERE r.b IS NULL"),
        ["4"]
    );
    assert_eq!(rig.value("SELECT COUNT(*) FROM t, u, t w"), "80");
    assert_eq!(
        rig.value("SELECT COUNT(*) FROM t l JOIN u ON l.id < u.x - 100"),
        "6"
    );
    assert_eq!(
        rig.rows("SELECT a.id, b.id FROM t a CROSS JOIN (t b RIGHT JOIN none ON 1) ORDER BY 1"),
        NONE
    );
    assert_eq!(
        rig.value("SELECT COUNT(*) FROM t a CROSS JOIN (t b RIGHT JOIN u ON b.id = u.tid)"),
        "20"
    );
}

#[test]
fn three_valued_logic() {
    let rig = rig();
    assert_eq!(
        rig.rows("SELECT NULL AND 0, NULL OR 1, NOT NULL, NULL XOR 1, NULL = NULL, NULL <=> NULL"),
        ["0|1|NULL|NULL|NULL|1"]
    );
    assert_eq!(rig.rows("SELECT id FROM t WHERE a NOT IN (10, NULL)"), NONE);
    assert_eq!(rig.rows("SELECT id FROM t WHERE a NOT IN (10)"), ["2", "4"]);
    assert_eq!(rig.rows("SELECT id FROM t WHERE NOT (a = 20)"), ["1"]);
    assert_eq!(
        rig.rows("SELECT a BETWEEN NULL AND 5, a BETWEEN 5 AND NULL FROM t WHERE id = 1"),
        ["0|NULL"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE (a, id) > (10, 5) ORDER BY id"),
        ["2", "4"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE (id, a) IN ((1, 10), (2, 21))"),
        ["1"]
    );
}

#[test]
fn subqueries() {
    let rig = rig();
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE id IN (SELECT tid FROM u)"),
        ["1", "2"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE id NOT IN (SELECT tid FROM u)"),
        NONE
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE id NOT IN (SELECT tid FROM u WHERE tid > 0)"),
        ["3", "4"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE a NOT IN (SELECT n FROM none)")
            .len(),
        4
    );
    assert_eq!(
        rig.rows("SELECT id, (SELECT COUNT(*) FROM u WHERE tid = t.id) FROM t ORDER BY id"),
        ["1|2", "2|1", "3|0", "4|0"]
    );
    assert_eq!(
        rig.code("SELECT (SELECT x FROM u WHERE tid = t.id) FROM t"),
        1242
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE tid = t.id)"),
        ["3", "4"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE a >= ALL (SELECT a FROM t WHERE a > 0)"),
        ["2", "4"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE a > ALL (SELECT n FROM none)")
            .len(),
        4
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE a < ANY (SELECT a FROM t)"),
        ["1"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE (id, a) = (SELECT id, a FROM t WHERE b = 'two')"),
        ["2"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE (id, a) IN (SELECT tid, 10 FROM u)"),
        ["1"]
    );
    // Two levels out, and behind a grouping.
    assert_eq!(
        rig.rows(
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE EXISTS \
             (SELECT 1 FROM u w WHERE w.tid = t.id AND w.x > u.x))"
        ),
        ["1", "2"]
    );
    assert_eq!(
        rig.rows(
            "SELECT a, (SELECT COUNT(*) FROM t i WHERE i.a = o.a) FROM t o WHERE a > 0 \
             GROUP BY a ORDER BY a"
        ),
        ["10|1", "20|2"]
    );
}

#[test]
fn grouping() {
    let rig = rig();
    assert_eq!(
        rig.rows("SELECT COUNT(*), COUNT(a), SUM(a), AVG(a), MIN(a), MAX(a) FROM t"),
        ["4|3|50|16.6667|10|20"]
    );
    assert_eq!(
        rig.rows("SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY 2 DESC, a"),
        ["20|2", "NULL|1", "10|1"]
    );
    assert_eq!(
        rig.rows("SELECT a + 1 AS q, COUNT(*) n FROM t GROUP BY q HAVING n > 1"),
        ["21|2"]
    );
    assert_eq!(rig.rows("SELECT COUNT(*), SUM(n) FROM none"), ["0|NULL"]);
    assert_eq!(rig.rows("SELECT n, COUNT(*) FROM none GROUP BY n"), NONE);
    assert_eq!(
        rig.rows("SELECT COUNT(DISTINCT a), COUNT(DISTINCT a, b) FROM t"),
        ["2|2"]
    );
    assert_eq!(
        rig.rows("SELECT GROUP_CONCAT(b ORDER BY id DESC SEPARATOR '-') FROM t"),
        ["three-two-one"]
    );
    assert_eq!(
        rig.rows("SELECT GROUP_CONCAT(DISTINCT a ORDER BY a DESC) FROM t"),
        ["20,10"]
    );
    assert_eq!(
        rig.rows("SELECT a, COUNT(*), GROUPING(a) FROM t WHERE a > 0 GROUP BY a WITH ROLLUP"),
        ["10|1|0", "20|2|0", "NULL|3|1"]
    );
    assert_eq!(
        rig.rows("SELECT a, id, COUNT(*) FROM t WHERE a = 20 GROUP BY a, id WITH ROLLUP"),
        ["20|2|1", "20|4|1", "20|NULL|2", "NULL|NULL|2"]
    );
    assert_eq!(rig.rows("SELECT SUM(a) FROM t HAVING SUM(a) > 100"), NONE);
    assert_eq!(
        rig.rows("SELECT MAX(x) - MIN(x), COUNT(*) * 2 FROM u"),
        ["4|10"]
    );
}

#[test]
fn order_limit_distinct() {
    let rig = rig();
    assert_eq!(
        rig.rows("SELECT id FROM t ORDER BY a DESC, id DESC"),
        ["4", "2", "1", "3"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t ORDER BY a, id LIMIT 2"),
        ["3", "1"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t ORDER BY id LIMIT 1, 2"),
        ["2", "3"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t ORDER BY id LIMIT 2 OFFSET 3"),
        ["4"]
    );
    assert_eq!(rig.rows("SELECT id FROM t LIMIT 0"), NONE);
    assert_eq!(
        rig.rows("SELECT DISTINCT a FROM t ORDER BY a DESC"),
        ["20", "10", "NULL"]
    );
    assert_eq!(
        rig.rows("SELECT DISTINCT a FROM t ORDER BY a LIMIT 1, 1"),
        ["10"]
    );
    assert_eq!(
        rig.rows("SELECT b FROM t ORDER BY (SELECT COUNT(*) FROM u WHERE tid = t.id) DESC, id"),
        ["one", "two", "three", "NULL"]
    );
    // Equal keys keep their order, with and without the heap of LIMIT.
    assert_eq!(
        rig.rows("SELECT id FROM t ORDER BY a IS NULL"),
        ["1", "2", "4", "3"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t ORDER BY a IS NULL LIMIT 3"),
        ["1", "2", "4"]
    );
}

#[test]
fn set_operations() {
    let rig = rig();
    assert_eq!(
        rig.rows("SELECT 1 UNION SELECT 1 UNION ALL SELECT 1"),
        ["1", "1"]
    );
    assert_eq!(
        rig.rows("SELECT 1 UNION ALL SELECT 1 UNION SELECT 1"),
        ["1"]
    );
    assert_eq!(
        rig.sorted("SELECT a FROM t EXCEPT SELECT 20"),
        ["10", "NULL"]
    );
    assert_eq!(
        rig.rows("SELECT a FROM t EXCEPT ALL SELECT 20 ORDER BY 1"),
        ["NULL", "10", "20"]
    );
    assert_eq!(rig.rows("SELECT a FROM t INTERSECT SELECT 20"), ["20"]);
    assert_eq!(
        rig.rows("SELECT 2 UNION SELECT 1 INTERSECT SELECT 3"),
        ["2"]
    );
    assert_eq!(
        rig.rows("SELECT 1 AS n UNION SELECT 'x' ORDER BY n"),
        ["1", "x"]
    );
    assert_eq!(
        rig.rows(
            "(SELECT id FROM t ORDER BY id DESC LIMIT 1) UNION ALL (SELECT id FROM t ORDER BY id LIMIT 1)"
        ),
        ["4", "1"]
    );
    assert_eq!(rig.rows("SELECT 1.5 UNION SELECT 2"), ["1.5", "2.0"]);
    assert_eq!(
        rig.rows("VALUES ROW(1, 'a'), ROW(2, NULL) ORDER BY column_0 DESC"),
        ["2|NULL", "1|a"]
    );
    assert_eq!(rig.rows("TABLE t ORDER BY id LIMIT 1"), ["1|10|one"]);
}

#[test]
fn derived_tables() {
    let rig = rig();
    assert_eq!(
        rig.rows("SELECT * FROM (SELECT a, COUNT(*) n FROM t GROUP BY a) q WHERE n > 1"),
        ["20|2"]
    );
    assert_eq!(
        rig.rows(
            "WITH q AS (SELECT id, a FROM t), r (k) AS (SELECT id FROM q WHERE id > 2) \
                  SELECT q.id FROM q JOIN r ON q.id = r.k ORDER BY 1"
        ),
        ["3", "4"]
    );
    assert_eq!(
        rig.rows(
            "SELECT t.id, q.m FROM t, LATERAL (SELECT MAX(x) m FROM u WHERE tid = t.id) q \
                  ORDER BY t.id"
        ),
        ["1|101", "2|102", "3|NULL", "4|NULL"]
    );
    assert_eq!(
        rig.sorted(
            "SELECT id FROM t WHERE id = (SELECT MAX(k) FROM (SELECT t.id k FROM none \
                  RIGHT JOIN u ON 1) q)"
        ),
        ["1", "2", "3", "4"]
    );
    assert_eq!(
        rig.rows("SELECT q.k FROM (SELECT id FROM t ORDER BY id LIMIT 1) q (k)"),
        ["1"]
    );
}

#[test]
fn conditions_on_derived_tables_change_nothing_else() {
    let rig = rig();
    for (sql, rows) in [
        (
            "SELECT * FROM (SELECT id, a + 1 n FROM t) q WHERE n = 21",
            vec!["2|21", "4|21"],
        ),
        (
            "SELECT * FROM (SELECT id FROM t ORDER BY id LIMIT 2) q WHERE id > 1",
            vec!["2"],
        ),
        (
            "SELECT * FROM (SELECT a, COUNT(*) n FROM t GROUP BY a) q WHERE a = 20",
            vec!["20|2"],
        ),
        (
            "SELECT * FROM (SELECT COUNT(*) n FROM t) q WHERE n = 0",
            vec![],
        ),
        (
            "SELECT * FROM (SELECT a, COUNT(*) n FROM t GROUP BY a WITH ROLLUP) q WHERE a IS NULL AND n > 1",
            vec!["NULL|4"],
        ),
        (
            "SELECT t.id FROM t LEFT JOIN (SELECT tid FROM u) q ON tid = t.id WHERE tid IS NULL ORDER BY 1",
            vec!["3", "4"],
        ),
        (
            "SELECT DISTINCT q.id FROM t LEFT JOIN (SELECT tid id FROM u) q ON q.id = t.id WHERE q.id = 1",
            vec!["1"],
        ),
        (
            "SELECT q.id FROM (SELECT id FROM t UNION SELECT tid FROM u) q WHERE id > 3 ORDER BY 1",
            vec!["4", "9"],
        ),
    ] {
        assert_eq!(rig.rows(sql), rows, "{sql}");
    }
    // It reaches the access path.
    let lines = rig.explain("SELECT * FROM (SELECT id, b FROM t) q WHERE id = 3");
    assert_eq!(lines, ["t const PRIMARY NULL"]);
}

#[test]
fn several_ends_of_indexes_are_read_one_by_one() {
    let rig = rig();
    // With a column that has no index the table is read once, as it is for a computed argument.
    for (sql, is_apart) in [
        ("SELECT MIN(id), MAX(id) FROM t", true),
        (
            "SELECT MAX(id) - MIN(id) + 1, MAX(id) FROM t WHERE id > 1",
            true,
        ),
        ("SELECT MIN(id), MAX(id) FROM t WHERE id > 100", true),
        ("SELECT MIN(n), MAX(n) FROM (SELECT id n FROM t) q", true),
        ("SELECT MIN(id), MAX(id) FROM t LIMIT 1, 1", true),
        ("SELECT MIN(id), MAX(b) FROM t", false),
        ("SELECT MIN(id), COUNT(*) FROM t", false),
        ("SELECT MIN(id), MAX(id + 0) FROM t", false),
        (
            "SELECT tid, (SELECT MAX(id) - MIN(id) FROM t WHERE id <= u.tid) FROM u ORDER BY 1",
            false,
        ),
    ] {
        // Aggregates of a filled table come from its rows.
        let filled = sql.replace("FROM t", "FROM (SELECT * FROM t LIMIT 1000) t");
        assert_eq!(rig.rows(sql), rig.rows(&filled), "{sql}");
        let plan = rig.explain(sql);
        let reads = plan.iter().filter(|line| line.starts_with("t ")).count();
        assert_eq!(reads == 2, is_apart, "{sql}: {plan:?}");
    }
}

#[test]
fn merged_derived_tables_give_the_rows_of_filled_ones() {
    let rig = rig();
    // A derived table with LIMIT is filled first.
    for sql in [
        "SELECT n, x FROM (SELECT id n, a * 2 x FROM t WHERE id > 1{}) q WHERE x > 20 ORDER BY n",
        "SELECT y, COUNT(*), SUM(n) FROM (SELECT a % 20 y, u.tid n FROM t, u WHERE u.tid >= t.id{}) q GROUP BY y ORDER BY y",
        "SELECT MAX(x), MIN(x) FROM (SELECT a + id x FROM t{}) q",
        "SELECT MAX(n) FROM (SELECT id n FROM t{}) q WHERE n < 4",
        "SELECT q.n, u.tid FROM (SELECT id n, id again FROM t{}) q LEFT JOIN u ON u.tid = q.again ORDER BY q.n, u.tid",
        "SELECT w FROM (SELECT x + 1 w FROM (SELECT id x FROM t) p WHERE x < 4{}) q WHERE w <> 3 ORDER BY w",
        "SELECT n FROM (SELECT id n FROM t{}) q WHERE EXISTS (SELECT 1 FROM u WHERE u.tid = q.n) ORDER BY n",
        "SELECT DISTINCT x FROM (SELECT 'a' x, id FROM t{}) q",
        "SELECT x, COUNT(*) FROM (SELECT 'a' x FROM t{}) q GROUP BY x HAVING x = 'A'",
        "SELECT s.n, q.n FROM (SELECT id n FROM t{}) q JOIN (SELECT tid n FROM u) s ON s.n = q.n ORDER BY 1, 2",
        "SELECT n, (SELECT COUNT(*) FROM u WHERE u.tid >= q.n) FROM (SELECT id n FROM t{}) q ORDER BY 1",
        "SELECT a IS NULL, COUNT(b) FROM (SELECT a, b FROM t{}) q GROUP BY 1 WITH ROLLUP",
    ] {
        let (merged, filled) = (sql.replace("{}", ""), sql.replace("{}", " LIMIT 1000"));
        let is_filled = |sql: &str| {
            rig.explain(sql)
                .iter()
                .any(|line| line.contains("<derived"))
        };
        assert!(!is_filled(&merged) && is_filled(&filled), "{sql}");
        assert_eq!(rig.rows(&merged), rig.rows(&filled), "{sql}");
        assert!(!rig.rows(&merged).is_empty(), "{sql}");
    }
    // Expressions do not grow without bounds.
    let doubled = (0..40).fold("SELECT 0 + id x FROM t".to_owned(), |inner, nth| {
        format!("SELECT x + x x FROM ({inner}) q{nth}")
    });
    assert_eq!(
        rig.rows(&format!("SELECT MAX(x) FROM ({doubled}) q")),
        [(4_i64 << 40).to_string()]
    );
    // These cannot be merged.
    for sql in [
        "SELECT * FROM t LEFT JOIN (SELECT tid + 0 n FROM u) q ON q.n = t.id",
        "SELECT n FROM (SELECT id + 0 n FROM t) q WHERE EXISTS (SELECT 1 FROM u WHERE u.tid = q.n)",
        "SELECT * FROM (SELECT id FROM t) q, t WHERE t.id = q.id",
        "SELECT * FROM (SELECT DISTINCT a FROM t) q",
        "SELECT * FROM (SELECT RAND() r, id FROM t) q WHERE r < 2",
    ] {
        let plan = rig.explain(sql);
        assert!(
            plan.iter().any(|line| line.contains("<derived")),
            "{sql}: {plan:?}"
        );
        assert!(!rig.rows(sql).is_empty(), "{sql}");
    }
}

#[test]
fn variables_and_random_numbers_in_subqueries() {
    let rig = rig();
    rig.rows("SELECT @v := 20");
    assert_eq!(
        rig.explain("SELECT id FROM t WHERE id = @v"),
        ["t const PRIMARY NULL"]
    );
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE a IN (SELECT @v)"),
        ["2", "4"]
    );
    // A subquery that reads a variable follows its assignments.
    assert_eq!(
        rig.rows("SELECT @v := id, (SELECT @v + 0) FROM t ORDER BY id"),
        ["1|1", "2|2", "3|3", "4|4"]
    );
    let drawn = rig.rows("SELECT RAND(7) FROM t");
    assert_eq!(drawn, rig.rows("SELECT RAND(7) FROM t"));
    assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2]);
}

#[test]
fn found_rows() {
    let rig = rig();
    let found = |sql: &str| rig.found_rows(sql);
    assert_eq!(
        found("SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 1"),
        (1, 4)
    );
    assert_eq!(
        found("SELECT SQL_CALC_FOUND_ROWS id FROM t ORDER BY a LIMIT 1, 2"),
        (2, 4)
    );
    assert_eq!(
        found("SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 0"),
        (0, 4)
    );
    assert_eq!(found("SELECT id FROM t LIMIT 3"), (3, 3));
    assert_eq!(
        found("SELECT SQL_CALC_FOUND_ROWS DISTINCT a FROM t LIMIT 1"),
        (1, 3)
    );
}

#[test]
fn memory_is_bounded() {
    let mut rig = rig();
    rig.memory_bytes = 300;
    assert_eq!(rig.code("SELECT id, b FROM t ORDER BY b"), 1038);
    assert_eq!(rig.code("SELECT x, COUNT(*) FROM u GROUP BY x"), 1041);
    assert_eq!(
        rig.code("SELECT 1 FROM t l JOIN t r ON l.b = r.b JOIN t s ON s.b = r.b"),
        1041
    );
    // The heap of LIMIT keeps no more than it gives.
    assert_eq!(rig.rows("SELECT id FROM u ORDER BY x DESC LIMIT 1"), ["5"]);
}

#[test]
fn locking_reads_lock_what_they_read_or_return() {
    let mut rig = rig();
    let other = rig.bench.other();
    let zone = rig.bench.zone.clone();
    let table = rig.bench.table("t");
    let (primary, codec) = (table.primary(), &table.primary().codec);
    let free = |id: i64| {
        let mut key = Vec::new();
        codec
            .encode_part(0, Value::Int(id).as_ref(), &zone, &mut key)
            .expect("encodes");
        other
            .txn
            .lock(primary.id, &key, LockMode::Exclusive, WaitPolicy::NoWait)
            .is_ok()
    };
    let query = "SELECT id FROM t IGNORE INDEX (ka) WHERE a = 20 FOR UPDATE";
    assert_eq!(rig.rows(query), ["2", "4"]);
    assert!(!free(2) && !free(4) && !free(1));
    rig.bench.commit();
    rig.bench.txn.set_isolation(Isolation::ReadCommitted);
    assert_eq!(rig.rows(query), ["2", "4"]);
    assert!(!free(2) && !free(4) && free(1));
}

#[test]
fn locked_rows_are_skipped_or_refused() {
    let mut rig = rig();
    let mut other = rig.bench.other();
    other.autocommit = false;
    other.ok("UPDATE t SET a = 21 WHERE id = 2");
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE id < 4 FOR UPDATE SKIP LOCKED"),
        ["1", "3"]
    );
    assert_eq!(
        rig.code("SELECT id FROM t WHERE id = 2 FOR SHARE NOWAIT"),
        3572
    );
    assert_eq!(rig.code("SELECT id FROM t WHERE id = 2 FOR UPDATE"), 1205);
    // Plain reads do not care, and a joined table outside OF is not locked.
    assert_eq!(rig.rows("SELECT a FROM t WHERE id = 2"), ["20"]);
    assert_eq!(
        rig.rows("SELECT x FROM t JOIN u ON tid = t.id WHERE t.id = 2 FOR UPDATE OF u NOWAIT"),
        ["102"]
    );
    other.commit();
    rig.bench.commit();
    assert_eq!(rig.rows("SELECT a FROM t WHERE id = 2 FOR UPDATE"), ["21"]);
}

#[test]
fn a_wait_in_inline_mode_gives_its_ticket() {
    let rig = rig();
    let mut other = rig.bench.other();
    other.autocommit = false;
    other.ok("DELETE FROM t WHERE id = 1");
    assert!(matches!(
        rig.inline("SELECT id FROM t FOR UPDATE"),
        Err(ExecError::Wait(_))
    ));
    other.txn.rollback();
    assert!(rig.inline("SELECT id FROM t FOR UPDATE").is_ok());
}

#[test]
fn conditions_of_odd_kinds() {
    let rig = rig();
    assert_eq!(rig.rows("SELECT id FROM t WHERE b"), NONE);
    assert_eq!(rig.rows("SELECT id FROM t WHERE a"), ["1", "2", "4"]);
    assert_eq!(
        rig.rows("SELECT id FROM t WHERE b = 0 ORDER BY id"),
        ["1", "2", "3"]
    );
    assert_eq!(rig.rows("SELECT id FROM t WHERE a = '20x'"), ["2", "4"]);
    assert_eq!(
        rig.rows("SELECT 0x41 + 1, 0x41, x'4D' = 'M', 0x10 = 16"),
        ["66|A|1|1"]
    );
    assert_eq!(rig.rows("SELECT 1 FROM DUAL WHERE 1 = 0"), NONE);
    assert_eq!(
        rig.rows("SELECT CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, IF(NULL, 1, 2.5)"),
        ["b|2.5"]
    );
    assert_eq!(
        rig.rows("SELECT IFNULL(NULL, 'x'), NULLIF(1, 1), COALESCE(NULL, 2)"),
        ["x|NULL|2"]
    );
}
