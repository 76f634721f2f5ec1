//! Tables read by several threads: the answers are the serial ones, at the same snapshot, whatever else goes on.
//!
//! **Invariant**: where it matters that several threads have read, a test looks at the engine's count of tasks.

mod skipped;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use esker_sql::Instance;
use esker_vfs::sim::SimEnv;

use crate::common::ask::Client;
use crate::common::open;

/// A table of 14,000 rows, with NULLs, decimals, doubles and text in it, indexes on two columns; `flush` says of which
/// part of the rows are on disk.
fn table(instance: &Arc<Instance>, flush: impl Fn(u32)) -> Client {
    let mut root = Client::new(instance, 1);
    root.ok("CREATE DATABASE d");
    root.ok("USE d");
    root.ok(
        "CREATE TABLE t (id INT PRIMARY KEY, k INT, n BIGINT UNSIGNED NOT NULL, p DECIMAL(20,6), x DOUBLE, \
         c VARCHAR(40), d DATE, KEY (k), UNIQUE KEY (n))",
    );
    for part in 0..14 {
        let row = |id: u32| {
            let k = match id % 11 {
                0 => "NULL".to_owned(),
                r => (r * id % 97).to_string(),
            };
            let c = match id % 7 {
                0 => "NULL".to_owned(),
                r => format!("'{}{}'", if r % 2 == 0 { "Word" } else { "word" }, id % 53),
            };
            format!(
                "({id}, {k}, {}, {}.{:06}, {}e-3, {c}, '2024-{:02}-{:02}')",
                u64::from(id) + (1 << 63),
                id % 1000,
                id * 37 % 1_000_000,
                i64::from(id * 7919 % 10_007) - 5000,
                id % 12 + 1,
                id % 28 + 1,
            )
        };
        let rows: Vec<String> = (part * 1000..(part + 1) * 1000).map(row).collect();
        root.ok(&format!("INSERT INTO t VALUES {}", rows.join(",")));
        flush(part);
    }
    root.ok("CREATE TABLE u (u INT PRIMARY KEY, t INT, w VARCHAR(20), m DECIMAL(10,2), KEY (t))");
    let row = |u: u32| match u % 13 {
        0 => format!("({u}, NULL, 'none', NULL)"),
        r => format!(
            "({u}, {}, 'w{}', {}.{r:02})",
            u * 31 % 15_000,
            u % 17,
            u % 50
        ),
    };
    let rows: Vec<String> = (0..2500).map(row).collect();
    root.ok(&format!("INSERT INTO u VALUES {}", rows.join(",")));
    flush(14);
    root.ok("ANALYZE TABLE t, u");
    root
}

const QUERIES: &[&str] = &[
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*), COUNT(k), COUNT(id) FROM t",
    "SELECT COUNT(id), COUNT(n) FROM t",
    "SELECT COUNT(*) FROM t WHERE id BETWEEN 500 AND 13000",
    "SELECT COUNT(*) FROM t WHERE k > 50",
    "SELECT COUNT(*) FROM t WHERE id < 0",
    "SELECT SUM(k), AVG(k), MIN(k), MAX(k) FROM t",
    "SELECT SUM(n), AVG(n), MIN(n), MAX(n) FROM t",
    "SELECT SUM(p), AVG(p), MIN(p), MAX(p) FROM t WHERE c LIKE 'word1%'",
    "SELECT MIN(c), MAX(c), MIN(d), MAX(d), MIN(x), MAX(x) FROM t",
    "SELECT SUM(k) FROM t WHERE id < 0",
    "SELECT SUM(LENGTH(c)), BIT_XOR(id), BIT_OR(k), BIT_AND(n) FROM t",
    "SELECT COUNT(DISTINCT k), COUNT(DISTINCT c), COUNT(DISTINCT k, d) FROM t",
    "SELECT SUM(DISTINCT k), AVG(DISTINCT p) FROM t WHERE id % 3 = 1",
    "SELECT k, COUNT(*), SUM(p) FROM t GROUP BY k",
    "SELECT c, COUNT(*), MIN(id), MAX(x) FROM t GROUP BY c",
    "SELECT c, k, COUNT(DISTINCT d) FROM t WHERE k < 40 GROUP BY c, k HAVING COUNT(*) > 3",
    "SELECT YEAR(d), MONTH(d), AVG(p) FROM t GROUP BY YEAR(d), MONTH(d) ORDER BY 2 DESC",
    "SELECT c, id, COUNT(*) FROM t GROUP BY c, id ORDER BY id LIMIT 7",
    "SELECT k FROM t GROUP BY k ORDER BY COUNT(*), k LIMIT 5",
    "SELECT DISTINCT c FROM t",
    "SELECT DISTINCT k, MONTH(d) FROM t WHERE id > 100",
    "SELECT DISTINCT c FROM t ORDER BY c LIMIT 10",
    "SELECT id, x FROM t ORDER BY x LIMIT 20",
    "SELECT id, c FROM t WHERE k IS NOT NULL ORDER BY c, k DESC LIMIT 12, 9",
    "SELECT id FROM t ORDER BY c DESC, x LIMIT 0",
    "SELECT MAX(k) + MIN(id) * 2, 1 FROM t WHERE k IN (3, 5, 7)",
    "SELECT SUM(k) OVER (ORDER BY k), k FROM t GROUP BY k",
    "SELECT s, COUNT(*) FROM (SELECT c, SUM(k) AS s FROM t GROUP BY c) AS q GROUP BY s ORDER BY s",
    // Not all rows can be computed: the error is that of the first.
    "SELECT SUM(n - id - 9223372036854775809) FROM t",
    "SELECT id, CAST(c AS SIGNED) AS i, COUNT(*) FROM t WHERE c > '' GROUP BY id, i LIMIT 3",
];

/// Joins, and subqueries in conditions.
const JOINS: &[&str] = &[
    "SELECT COUNT(*), SUM(p), SUM(m) FROM t JOIN u ON t = id",
    "SELECT COUNT(*), SUM(p * m), MAX(w) FROM t JOIN u ON k = u % 90",
    "SELECT w, COUNT(*), SUM(p) FROM u JOIN t ON t = id WHERE k > 20 GROUP BY w",
    "SELECT w, c, SUM(k) FROM t JOIN u ON id = t GROUP BY w, c ORDER BY SUM(k) DESC, w, c LIMIT 9",
    "SELECT id, COUNT(u), SUM(m) FROM t LEFT JOIN u ON t = id AND w <> 'w3' GROUP BY id HAVING COUNT(u) > 1",
    "SELECT id, u, w FROM t LEFT JOIN u ON k = u WHERE c LIKE 'word%' AND w IS NULL ORDER BY d, id, u LIMIT 20",
    "SELECT DISTINCT w, k FROM t JOIN u ON t = id WHERE m > 10",
    "SELECT a.k, COUNT(*) FROM t a JOIN u ON a.id = u.t JOIN t b ON b.id = u.u WHERE a.k < b.k GROUP BY a.k",
    "SELECT COUNT(*) FROM t JOIN u ON t <=> k WHERE u < 500",
    "SELECT COUNT(*) FROM t JOIN u ON t = id AND w = 'nobody'",
    "SELECT id, w FROM t JOIN u ON t = id WHERE k = 7 ORDER BY m, id, u",
    "SELECT id, p FROM t WHERE c = 'word5' ORDER BY p",
    "SELECT COUNT(*), SUM(p) FROM t WHERE id IN (SELECT t FROM u WHERE m > 20)",
    "SELECT COUNT(*), SUM(p) FROM t WHERE id NOT IN (SELECT t FROM u WHERE m > 20)",
    "SELECT COUNT(*) FROM t WHERE id NOT IN (SELECT t FROM u)",
    "SELECT COUNT(*), SUM(k) FROM t WHERE EXISTS (SELECT * FROM u WHERE t = id AND m > k / 2)",
    "SELECT COUNT(*) FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE t = id)",
    "SELECT SUM(p) FROM t WHERE p > (SELECT AVG(p) FROM t)",
    "SELECT k, SUM(p) FROM t o WHERE p < (SELECT AVG(m) * 20 FROM u WHERE u.u = o.k) GROUP BY k",
    "SELECT k, COUNT(*) FROM t WHERE id IN (SELECT t FROM u WHERE m < (SELECT AVG(m) FROM u)) GROUP BY k",
    "SELECT id FROM t GROUP BY id HAVING SUM(p) > 999.9 AND id > (SELECT MIN(t) FROM u)",
    "SELECT id, w, SUM(m) FROM t JOIN u ON t = id GROUP BY id, w HAVING SUM(m) > 40",
    "SELECT COUNT(*) FROM t WHERE k = (SELECT u FROM u WHERE u = id % 60 AND w <> 'w1')",
    // More than one row: an error, for some row.
    "SELECT COUNT(*) FROM t WHERE k = (SELECT u FROM u WHERE m < id)",
    "SELECT COUNT(*) FROM t WHERE id < 0 AND k = (SELECT u FROM u)",
    "SELECT s, COUNT(*) FROM (SELECT w, SUM(k) AS s FROM t JOIN u ON t = id GROUP BY w, u) q GROUP BY s",
];

/// Hash joins whose right sides decide which rows of the other tables are needed.
const SIFTED: &[&str] = &[
    // Of `u`, what meets `b`; of `a`, what meets that.
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(a.p) FROM t a IGNORE INDEX (PRIMARY) JOIN u IGNORE INDEX (t, PRIMARY) ON u.t = a.id \
     JOIN t b IGNORE INDEX (PRIMARY) ON b.id = u.u WHERE b.k = 7",
    // The same of `u`, whose key equals that of `b`.
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(a.p), MAX(w) FROM t a IGNORE INDEX (PRIMARY) JOIN u IGNORE INDEX (t, PRIMARY) ON u.t = a.id \
     JOIN t b IGNORE INDEX (PRIMARY) ON b.id = a.id WHERE b.k < 7",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(a.p) FROM t a IGNORE INDEX (n) JOIN t b IGNORE INDEX (n) ON a.n = b.n WHERE b.id % 50 = 1",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(a.p) FROM t a JOIN t b ON a.c = b.c WHERE b.id < 15",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(a.p) FROM t a JOIN t b IGNORE INDEX (k) ON a.k <=> b.k WHERE b.id < 12",
    "SELECT STRAIGHT_JOIN a.k, COUNT(*) FROM t a JOIN t b ON a.p = b.p AND a.d = b.d WHERE b.id % 9 = 1 GROUP BY a.k",
    "SELECT STRAIGHT_JOIN COUNT(*), COUNT(u) FROM t a LEFT JOIN u ON u.t = a.id JOIN t b IGNORE INDEX (PRIMARY) ON b.id = a.k AND b.p < 50",
    "SELECT STRAIGHT_JOIN COUNT(*) FROM t a JOIN (u LEFT JOIN t b ON b.id = u.u) ON u.t = a.id WHERE u.m > 45",
    "SELECT STRAIGHT_JOIN COUNT(*) FROM t a JOIN u IGNORE INDEX (t) ON u.t = a.id JOIN t b IGNORE INDEX (PRIMARY) ON b.id = u.u \
     WHERE b.k = 7000",
];

/// Queries of whose first table a few keys are known when it is read: from subqueries, and from right sides of joins.
/// A LIMIT keeps subqueries from becoming joins.
const NARROWED: &[&str] = &[
    "SELECT COUNT(*), SUM(p) FROM t WHERE id IN (SELECT t FROM u WHERE m > 45 LIMIT 100000)",
    "SELECT k, COUNT(*), SUM(p) FROM t WHERE id IN (SELECT t FROM u WHERE u < 400 LIMIT 100000) AND k > 3 GROUP BY k",
    // Keys that no row can have, by an index with NULLs, in the order of which rows come.
    "SELECT COUNT(*), SUM(p) FROM t WHERE id IN (SELECT t * 400000 - 100 FROM u WHERE u < 300 LIMIT 100000)",
    "SELECT k, COUNT(*) FROM t FORCE INDEX (k) WHERE k IN (SELECT u FROM u WHERE u < 9 LIMIT 100000) GROUP BY k",
    "SELECT COUNT(*), MIN(n) FROM t WHERE n IN (SELECT t FROM u WHERE m > 45 LIMIT 100000)",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(t.p), MAX(w) FROM t JOIN u IGNORE INDEX (t) ON u.t = t.id WHERE m > 45",
    "SELECT STRAIGHT_JOIN t.id, SUM(t.p), MAX(w) FROM t JOIN u IGNORE INDEX (t) ON u.t = t.id WHERE m > 45 GROUP BY t.id HAVING SUM(p) > 500",
    // Not among them, perhaps among them, and a join that needs no partner.
    "SELECT COUNT(*) FROM t WHERE id NOT IN (SELECT t FROM u WHERE m > 45 AND t IS NOT NULL)",
    "SELECT COUNT(*) FROM t WHERE id IN (SELECT t FROM u WHERE m > 45) OR k = 5",
    "SELECT STRAIGHT_JOIN COUNT(*), COUNT(u) FROM t LEFT JOIN u IGNORE INDEX (t) ON u.t = t.id AND m > 45",
];

/// Of a statement that is measured, all numbers behind a word.
fn measured(root: &mut Client, sql: &str, word: &str) -> u64 {
    root.ok("SET esker_parallel_scan_rows = 0, parallel_read_threads = 2");
    let shown = root.ok(&format!("EXPLAIN ANALYZE {sql}"))[0].clone();
    let counts = shown.split(word).skip(1);
    let count = |rest: &str| -> u64 {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|d| d.parse().ok()).expect("a number")
    };
    counts.map(count).sum()
}

/// Where few keys are wanted, they are looked up, and the rest of the table is not read.
#[test]
fn of_a_table_of_which_few_keys_are_wanted_only_those_are_read() {
    let instance = open(&SimEnv::new(14), &[]);
    let mut root = table(&instance, |_| {});
    for sql in NARROWED {
        root.same(sql);
    }
    for (sql, are_looked_up) in [
        (NARROWED[0], true),
        (NARROWED[2], true),
        (NARROWED[3], true),
        (NARROWED[5], true),
        (NARROWED[7], false),
        (NARROWED[8], false),
        (NARROWED[9], false),
    ] {
        let keys = measured(&mut root, sql, "keys looked up=");
        assert_eq!(keys > 0, are_looked_up, "{sql}: {keys}");
        let read = measured(&mut root, sql, "rows read=");
        assert_eq!(read < 5_000, are_looked_up, "{sql}: {read}");
    }
}

/// What later joins would drop is dropped where it is read, in the table that is shared out and in right sides, and
/// EXPLAIN ANALYZE says how much.
#[test]
fn rows_that_find_nothing_later_are_dropped_at_once() {
    let instance = open(&SimEnv::new(13), &[]);
    let mut root = table(&instance, |_| {});
    let filtered =
        |root: &mut Client, sql: &str| measured(root, sql, "rows dropped by runtime filters=");
    for sql in SIFTED {
        root.same(sql);
    }
    for (sql, least) in [
        // All but a few of 2,500, and of 14,000.
        (SIFTED[1], 2_000),
        (SIFTED[2], 13_000),
        (SIFTED[3], 5_000),
        (SIFTED[5], 10_000),
    ] {
        let rows = filtered(&mut root, sql);
        assert!(rows >= least, "{sql}: {rows}");
    }
    // What `b` has is few, and `a` begins with what it asks for.
    for sql in &SIFTED[..2] {
        let keys = measured(&mut root, sql, "keys looked up=");
        assert!((1..2_000).contains(&keys), "{sql}: {keys}");
    }
    // Rows without a partner are wanted, and nothing is known of a whole table.
    for sql in [
        "SELECT STRAIGHT_JOIN COUNT(*) FROM t a LEFT JOIN u IGNORE INDEX (t) ON u.t = a.id AND w = 'w3'",
        "SELECT STRAIGHT_JOIN COUNT(*) FROM t a JOIN u IGNORE INDEX (t) ON u.t = a.id",
    ] {
        assert_eq!(filtered(&mut root, sql), 0, "{sql}");
    }
}

fn compare(root: &mut Client) {
    for sql in QUERIES.iter().chain(JOINS).chain(SIFTED).chain(NARROWED) {
        root.same(sql);
    }
}

#[test]
fn answers_are_the_serial_ones_in_every_tier() {
    for case in 0..3 {
        let machine = SimEnv::new(3);
        let instance = open(&machine, &[]);
        let engine = instance.engine().clone();
        let mut root = table(&instance, |part| match case {
            0 => {}
            1 if part % 3 == 2 => engine.flush_all().expect("flushes"),
            1 => {}
            _ => {
                engine.flush_all().expect("flushes");
                engine.compact().expect("compacts");
            }
        });
        let before = engine.stats().scans;
        compare(&mut root);
        let after = engine.stats().scans;
        assert!(after.tasks > before.tasks + 50, "{after:?}");
        assert_eq!(after.counted > before.counted, case > 0, "{after:?}");
        // Changed and deleted rows over what is there.
        root.ok("DELETE FROM t WHERE id % 19 = 4");
        root.ok("UPDATE t SET k = k + 1, p = p * 2 WHERE id % 31 < 3");
        compare(&mut root);
        // Own changes that nobody else sees; index entries that lead to rows which have moved.
        root.ok("BEGIN");
        root.ok("UPDATE t SET k = 1000 - k WHERE id % 5 = 0");
        root.ok("DELETE FROM t WHERE id BETWEEN 7000 AND 7100");
        root.ok("INSERT INTO t (id, n, k) VALUES (90000, 1, 5), (90001, 2, NULL)");
        compare(&mut root);
        root.ok("ROLLBACK");
        root.same("SELECT COUNT(*) FROM t");
    }
}

#[test]
fn several_threads_have_really_read_and_explain_says_so() {
    let instance = open(&SimEnv::new(4), &[]);
    let mut root = table(&instance, |_| {});
    root.ok("SET esker_parallel_scan_rows = 100, parallel_read_threads = 2");
    let before = instance.engine().stats().scans.tasks;
    root.ok("SELECT SUM(p) FROM t");
    let tasks = instance.engine().stats().scans.tasks - before;
    assert!(tasks >= 2, "{tasks}");
    let shown = root.ok("EXPLAIN SELECT SUM(p) FROM t");
    assert!(shown[0].contains("Using parallel scan ("), "{shown:?}");
    for serial in [
        "SELECT SUM(p) FROM t WHERE id = 5",
        "SELECT SUM(p * RAND()) FROM t",
        "SELECT SUM(p) FROM t WHERE id > @a",
        "SELECT p FROM t ORDER BY id LIMIT 5",
        "SELECT SUM(p) FROM t FOR UPDATE",
    ] {
        let shown = root.ok(&format!("EXPLAIN {serial}"));
        assert!(!shown[0].contains("parallel"), "{serial}: {shown:?}");
    }
}

#[test]
fn joins_and_subqueries_are_shared_out_too() {
    let instance = open(&SimEnv::new(11), &[]);
    let mut root = table(&instance, |_| {});
    root.ok("SET esker_parallel_scan_rows = 100, parallel_read_threads = 2");
    for sql in [
        "SELECT SUM(p) FROM t JOIN u ON k = u % 90",
        "SELECT SUM(p) FROM t WHERE EXISTS (SELECT * FROM u WHERE t = id)",
    ] {
        let before = instance.engine().stats().scans.tasks;
        root.ok(sql);
        let tasks = instance.engine().stats().scans.tasks - before;
        assert!(tasks >= 2, "{sql}: {tasks}");
    }
}

/// A right side that does not fit goes to disk, the serial way.
#[test]
fn a_hash_join_too_large_for_memory_is_done_serially() {
    let instance = open(&SimEnv::new(12), &[]);
    let mut root = table(&instance, |_| {});
    let sql = "SELECT COUNT(*), SUM(a.p), SUM(LENGTH(b.c)) FROM t a JOIN t b ON a.k = b.id % 9000 AND a.d <= b.d";
    root.same(sql);
    root.ok("SET join_buffer_size = 20000");
    root.same(sql);
    root.ok("SET tmp_table_size = 2000");
    for sql in JOINS {
        root.same(sql);
    }
}

/// Readers in one snapshot each get the same both ways, while writers change everything.
#[test]
fn aggregates_beside_writers_are_those_of_the_snapshot() {
    let instance = open(&SimEnv::new(5), &[]);
    let mut root = table(&instance, |_| {});
    root.ok("UPDATE t SET k = 10");
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (instance, is_over) = (instance.clone(), is_over.clone());
            thread::spawn(move || {
                let mut client = Client::new(&instance, 10 + writer);
                client.ok("USE d");
                let mut n = 0;
                while !is_over.load(Ordering::Relaxed) {
                    n += 1;
                    // The sum of k stays, the number of rows does not.
                    let at = (n * 7919 % 6500) * 2 + writer;
                    let moved = client.ok(&format!(
                        "SELECT COUNT(*) FROM t WHERE id IN ({at}, {})",
                        at + 2
                    ));
                    client.ok("BEGIN");
                    if moved[0] == "2|" {
                        client.ok(&format!("UPDATE t SET k = k - 1 WHERE id = {at}"));
                        client.ok(&format!("UPDATE t SET k = k + 1 WHERE id = {}", at + 2));
                    }
                    let id = 100_000 + writer * 1_000_000 + n;
                    client.ok(&format!("INSERT INTO t (id, n, k) VALUES ({id}, {id}, 0)"));
                    if n % 3 == 0 {
                        client.ok(&format!("DELETE FROM t WHERE id = {}", id - 1));
                    }
                    client.ok(if n % 5 == 0 { "ROLLBACK" } else { "COMMIT" });
                }
            })
        })
        .collect();
    for round in 0..8 {
        if round % 3 == 1 {
            instance.engine().flush_all().expect("flushes");
        }
        if round % 3 == 2 {
            instance.engine().compact().expect("compacts");
        }
        root.ok("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
        root.ok("BEGIN");
        let sum = root.parallel("SELECT SUM(k) FROM t");
        assert_eq!(sum, Ok(vec!["140000|".to_owned()]));
        for sql in [
            "SELECT COUNT(*) FROM t",
            "SELECT COUNT(*), SUM(k), COUNT(DISTINCT k), MAX(id), AVG(n) FROM t",
            "SELECT k, COUNT(*) FROM t GROUP BY k",
            "SELECT id, k FROM t ORDER BY k DESC, n LIMIT 10",
        ] {
            root.same(sql);
        }
        root.ok("COMMIT");
    }
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.join().expect("the writer goes well");
    }
    root.same("SELECT COUNT(*) FROM t");
}

#[test]
fn a_truncated_table_is_empty_and_fills_again() {
    let instance = open(&SimEnv::new(6), &[]);
    let engine = instance.engine().clone();
    let mut root = table(&instance, |_| engine.flush_all().expect("flushes"));
    let count = "SELECT COUNT(*) FROM t";
    assert_eq!(root.parallel(count), Ok(vec!["14000|".to_owned()]));
    root.ok("TRUNCATE TABLE t");
    assert_eq!(root.parallel(count), Ok(vec!["0|".to_owned()]));
    root.ok("INSERT INTO t (id, n) VALUES (1, 1), (2, 2), (3, 3)");
    root.ok("DELETE FROM t WHERE id = 2");
    assert_eq!(root.parallel(count), Ok(vec!["2|".to_owned()]));
    engine.flush_all().expect("flushes");
    assert_eq!(root.parallel(count), Ok(vec!["2|".to_owned()]));
}

#[test]
fn a_kill_and_a_time_limit_end_it() {
    let instance = open(&SimEnv::new(8), &[]);
    let mut root = table(&instance, |_| {});
    root.ok("SET esker_parallel_scan_rows = 0, parallel_read_threads = 8");
    let slow = "SELECT /*+ MAX_EXECUTION_TIME(1) */ COUNT(*) FROM t WHERE CONCAT(c, x, p, d) LIKE '%a%b%c%d%'";
    assert_eq!(root.ask(slow), Err(3024));
    let (ready, is_ready) = mpsc::channel();
    let victim = {
        let instance = instance.clone();
        thread::spawn(move || {
            let mut victim = Client::new(&instance, 20);
            victim.ok("USE d");
            victim.ok("SET esker_parallel_scan_rows = 0, parallel_read_threads = 8");
            ready.send(()).expect("somebody waits");
            // It is killed once: in the middle of one of these, or between two.
            loop {
                let sql = "SELECT COUNT(DISTINCT c, x, p), SUM(LENGTH(CONCAT(c, x, d))) FROM t";
                if let Err(code) = victim.ask(sql) {
                    return code;
                }
            }
        })
    };
    is_ready.recv().expect("it begins");
    while !victim.is_finished() {
        // Between two statements there is nothing to kill.
        let _ = root.ask("KILL QUERY 20");
        thread::yield_now();
    }
    assert_eq!(victim.join().expect("ends"), 1317);
    // Nothing is left of it: the next scan goes well.
    root.same("SELECT COUNT(*), SUM(k) FROM t");
}

/// Too much for memory in parts: the statement goes the serial way, which says so as ever.
#[test]
fn what_needs_too_much_memory_is_done_serially() {
    let instance = open(&SimEnv::new(9), &[]);
    let mut root = table(&instance, |_| {});
    root.ok("SET esker_query_memory_limit = 6000000");
    let sql = "SELECT id, c, COUNT(*), SUM(k) FROM t GROUP BY id, c ORDER BY id LIMIT 5";
    root.same(sql);
    root.ok("SET esker_query_memory_limit = 1048576");
    root.same(sql);
    root.ok("SET esker_query_memory_limit = DEFAULT");
    root.same(sql);
}

/// EXPLAIN tells how the table is cut, EXPLAIN ANALYZE what was done, in parallel as the statement itself.
#[test]
fn explain_tells_tasks_and_threads_and_what_was_read() {
    let instance = open(&SimEnv::new(11), &[]);
    let engine = instance.engine().clone();
    let mut root = table(&instance, |_| {});
    engine.flush_all().expect("flushes");
    engine.compact().expect("compacts");
    root.ok("SET esker_parallel_scan_rows = 0, parallel_read_threads = 8");
    let before = engine.stats().scans;
    let sum = "SELECT k, SUM(p) FROM t WHERE c LIKE 'w%' GROUP BY k";
    let shown = root.ok(&format!("EXPLAIN {sum}"));
    assert!(shown[0].contains("Using parallel scan ("), "{shown:?}");
    assert!(shown[0].contains(" threads, "), "{shown:?}");
    let shown = root.ok(&format!("EXPLAIN FORMAT=TREE {sum}"));
    assert!(shown[0].contains("-> Parallel scan: "), "{shown:?}");
    let shown = root.ok(&format!("EXPLAIN FORMAT=JSON {sum}"));
    assert!(shown[0].contains("\"parallel_scan\": {"), "{shown:?}");
    assert!(shown[0].contains("\"tasks\": "), "{shown:?}");
    let counted = "SELECT COUNT(*) FROM t";
    let shown = root.ok(&format!("EXPLAIN {counted}"));
    assert!(
        shown[0].contains("0 tasks, 14000 rows from metadata"),
        "{shown:?}"
    );
    // How rows are evaluated and aggregated is the plan's, too.
    for (sql, evaluation) in [
        (
            "SELECT k, SUM(p) FROM t WHERE c LIKE 'w%' GROUP BY k",
            ", vectorized)",
        ),
        (
            "SELECT k FROM t WHERE k > 3 ORDER BY p LIMIT 2",
            ", vectorized filter)",
        ),
        (
            "SELECT id, SUM(p) FROM t GROUP BY id HAVING SUM(p) > 1",
            ", streaming aggregation)",
        ),
        ("SELECT k, SUM(x) FROM t GROUP BY k", " tasks)"),
    ] {
        let shown = root.ok(&format!("EXPLAIN {sql}"));
        assert!(shown[0].contains(evaluation), "{sql}: {shown:?}");
    }
    // Nothing was run for that.
    assert_eq!(engine.stats().scans, before);

    let rows = root.ok(sum).len();
    let matching = root.ok("SELECT COUNT(*) FROM t WHERE c LIKE 'w%'")[0].clone();
    let matching = matching.trim_end_matches('|');
    let before = engine.stats().scans.tasks;
    let shown = root.ok(&format!("EXPLAIN ANALYZE {sum}"))[0].clone();
    assert!(engine.stats().scans.tasks > before, "{shown}");
    for wanted in [
        format!(" rows={rows} loops=1)\n"),
        format!(" rows={matching} loops=1)\n"),
        "rows read=14000 rows from metadata=0".to_owned(),
        "-> Parallel scan: threads=".to_owned(),
    ] {
        assert!(shown.contains(&wanted), "{wanted} in {shown}");
    }
    assert!(!shown.contains("never executed"), "{shown}");
    let shown = root.ok(&format!("EXPLAIN ANALYZE {counted}"))[0].clone();
    let wanted = "Parallel scan: threads=1 tasks=0 rows read=0 rows from metadata=14000";
    assert!(shown.contains(wanted), "{shown}");
    // A few newer rows: they are read, the rest is counted.
    root.ok("DELETE FROM t WHERE id IN (10, 20)");
    root.ok("INSERT INTO t (id, n) VALUES (-1, 3)");
    let shown = root.ok(&format!("EXPLAIN ANALYZE {counted}"))[0].clone();
    assert!(shown.contains("rows from metadata=14000"), "{shown}");
    assert!(shown.contains(" rows read=3 "), "{shown}");
    let shown = root.ok("EXPLAIN ANALYZE SELECT id FROM t ORDER BY x LIMIT 20")[0].clone();
    assert!(shown.contains("-> Parallel scan: threads="), "{shown}");
    assert!(
        shown.contains("Sort: t.x") && !shown.contains("never"),
        "{shown}"
    );
}

/// The line of EXPLAIN ANALYZE with a word in it, without its times.
fn line(shown: &str, word: &str) -> String {
    let line = shown.lines().find(|line| line.contains(word));
    let line = line.unwrap_or_else(|| panic!("{word} in {shown}"));
    match (line.split_once(" (actual time="), line.split_once(" rows=")) {
        (Some((text, _)), Some(_)) => {
            let rows = line.rsplit_once(" rows=").expect("it has some").1;
            format!("{} rows={rows}", text.trim())
        }
        _ => line.trim().to_owned(),
    }
}

/// What a statement with joins shares out is told as for one table, and its operators have the rows of the serial way.
/// Rows that were taken from metadata, and rows whose values were looked at.
fn counted(root: &mut Client, sql: &str) -> (u64, u64) {
    let shown = root.parallel(&format!("EXPLAIN ANALYZE {sql}")).unwrap();
    let of = |word: &str| {
        let (_, rest) = shown[0]
            .split_once(word)
            .unwrap_or_else(|| panic!("{shown:?}"));
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..digits].parse().unwrap()
    };
    (of("rows from metadata="), of("rows in batches="))
}

#[test]
fn rows_of_a_range_are_counted_from_metadata() {
    let machine = SimEnv::new(41);
    let instance = open(&machine, &[]);
    let mut root = Client::new(&instance, 1);
    root.ok("CREATE DATABASE d");
    root.ok("USE d");
    root.ok(
        "CREATE TABLE h (id INT PRIMARY KEY, k INT, u BIGINT UNSIGNED NOT NULL, d DATE NOT NULL, t DATETIME, s VARCHAR(9), \
         KEY (k), KEY (u DESC, k), KEY (d), KEY (t), KEY (s))",
    );
    for from in (0..20_000).step_by(2000) {
        let rows = (from..from + 2000).map(|id| {
            let k = if id % 10 == 0 {
                "NULL".to_owned()
            } else {
                (id * 7 % 20_011).to_string()
            };
            let day = format!("2024-{:02}-{:02}", id % 12 + 1, id % 28 + 1);
            format!(
                "({id}, {k}, {}, '{day}', '{day} {:02}:00:00', 's{id}')",
                id * 13 % 20_011,
                id % 24
            )
        });
        root.ok(&format!(
            "INSERT INTO h VALUES {}",
            rows.collect::<Vec<_>>().join(",")
        ));
    }
    instance.engine().flush_all().unwrap();
    instance.engine().compact().unwrap();
    let known = [
        "id >= 100 AND id < 15000",
        "15000 > id",
        "k BETWEEN 2000 AND 19000",
        "k > 1500",
        "k <= 19000 AND k > -5 AND k < 99999999999",
        "u <= 18000",
        "u > 18000 - 17000",
        "d >= DATE'2024-02-10'",
        "d <= TIMESTAMP'2024-11-05 13:00:00'",
        "t > DATE'2024-01-20'",
        "t BETWEEN TIMESTAMP'2024-02-01 05:00:00' AND TIMESTAMP'2024-12-01 00:00:00'",
    ];
    let read = [
        "k + 0 > 1500",
        "k > 1500.5",
        "k > 1500 AND u > 3",
        "k > 1500 AND k <> 1600",
        "k BETWEEN 1500 AND id",
        "s > 's1'",
        "k > 1500 OR k < 3",
    ];
    for cond in known {
        let sql = format!("SELECT COUNT(*) FROM h WHERE {cond}");
        assert_eq!(root.parallel(&sql), root.serial(&sql), "{sql}");
        assert_eq!(counted(&mut root, &sql).1, 0, "{sql}");
    }
    // Ranges with whole extents in them.
    for cond in [
        "id >= 0",
        "u < 20011",
        "d BETWEEN DATE'2023-12-31' AND DATE'2025-01-01'",
    ] {
        let sql = format!("SELECT COUNT(*) FROM h WHERE {cond}");
        assert_eq!(root.parallel(&sql), Ok(vec!["20000|".to_owned()]));
        assert_eq!(counted(&mut root, &sql), (20_000, 0), "{sql}");
    }
    for cond in read {
        let sql = format!("SELECT COUNT(*) FROM h WHERE {cond}");
        assert_eq!(root.parallel(&sql), root.serial(&sql), "{sql}");
        assert!(counted(&mut root, &sql).1 > 0, "{sql}");
    }
    for other in ["COUNT(k)", "COUNT(DISTINCT id)", "SUM(id)"] {
        let sql = format!("SELECT {other} FROM h WHERE k > 1500");
        assert_eq!(root.parallel(&sql), root.serial(&sql), "{sql}");
        assert_eq!(counted(&mut root, &sql).0, 0, "{sql}");
    }
    // What the transaction itself has moved, and what others have meanwhile.
    let mut other = Client::new(&instance, 2);
    other.ok("USE d");
    root.ok("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    other.ok("UPDATE h SET k = k + 5000, t = NULL WHERE id % 3 = 0");
    for round in 0..2 {
        for cond in known {
            let sql = format!("SELECT COUNT(*) FROM h WHERE {cond}");
            assert_eq!(root.parallel(&sql), root.serial(&sql), "{round}: {sql}");
        }
        root.ok("UPDATE h SET k = 1, u = 5, d = '2000-01-01' WHERE id % 7 = 1");
        root.ok("DELETE FROM h WHERE id % 50 = 2");
    }
}

#[test]
fn explain_tells_of_joins_that_are_shared_out() {
    let instance = open(&SimEnv::new(12), &[]);
    let mut root = table(&instance, |_| {});
    for (sql, words) in [
        (
            "SELECT SUM(p) FROM t JOIN u ON k = u % 90 WHERE c LIKE 'w%'",
            &["hash join", "Filter: (t.c", "on u"][..],
        ),
        (
            "SELECT k, COUNT(*) FROM t WHERE EXISTS (SELECT * FROM u WHERE t <=> id AND u > 3) GROUP BY k",
            &["Aggregate using temporary table", "Filter: "],
        ),
        (
            "SELECT SUM(p) FROM u LEFT JOIN t ON t = id WHERE u > 3",
            &["left join", "Filter: (u.u"],
        ),
    ] {
        root.ok("SET esker_parallel_scan_rows = 100000000");
        let serial = root.ok(&format!("EXPLAIN ANALYZE {sql}"))[0].clone();
        assert!(!serial.contains("Parallel"), "{serial}");
        root.ok("SET esker_parallel_scan_rows = 100, parallel_read_threads = 2");
        let before = instance.engine().stats().scans.tasks;
        let shown = root.ok(&format!("EXPLAIN ANALYZE {sql}"))[0].clone();
        assert!(instance.engine().stats().scans.tasks > before, "{sql}");
        assert!(shown.contains("-> Parallel "), "{shown}");
        assert!(!shown.contains("never executed"), "{shown}");
        for word in words {
            assert_eq!(line(&shown, word), line(&serial, word), "{sql}: {shown}");
        }
        let planned = root.ok(&format!("EXPLAIN {sql}"));
        assert!(planned[0].contains("Using parallel "), "{planned:?}");
        let tree = root.ok(&format!("EXPLAIN FORMAT=TREE {sql}"))[0].clone();
        assert_eq!(tree.matches("-> Parallel ").count(), 1, "{tree}");
        let document = root.ok(&format!("EXPLAIN FORMAT=JSON {sql}"))[0].clone();
        assert_eq!(document.matches("\"parallel_").count(), 1, "{document}");
    }
}
