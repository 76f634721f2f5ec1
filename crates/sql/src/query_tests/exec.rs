//! Queries from text to rows.

use esker_engine::{Isolation, LockMode, WaitPolicy};
use esker_sql_catalog::exec_error::ExecError;
use esker_types::Value;

use super::rig::Rig;

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
