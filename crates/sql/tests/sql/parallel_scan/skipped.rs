//! Blocks that no row of a condition can be in are not read, and keys are looked up one after the other.

use crate::common::ask::Client;
use crate::common::open;
use esker_vfs::sim::SimEnv;

use super::table;

/// Conditions on columns that follow the key, more or less, and on some that do not.
const FILTERED: &[&str] = &[
    "moment BETWEEN '2024-01-02 00:00:00' AND '2024-01-02 03:00:00'",
    "moment >= '2024-01-05' AND moment < '2024-01-05 06:00:00'",
    "moment = '2023-12-31'",
    "big > 9223372036854775808 + 9000 AND big < 9223372036854775808 + 9100",
    "big < 5",
    "small IS NULL",
    "small IS NOT NULL AND small = -3",
    "small <=> NULL AND price > 100",
    "price BETWEEN 55.5 AND 56.25",
    "price = 77.01",
    "price > 1000000",
    "small IN (3, -7, 99) AND price < 20",
    "moment < '2024-01-01 02:00:00' OR moment > '2024-01-08 12:00:00'",
    "NOT (price BETWEEN 2 AND 97)",
    "small > 5.5 AND small < '6.5'",
    "price IN (SELECT 12.34)",
];

/// A table whose blocks can be told apart by moment, price and big, and hardly by small.
fn history(root: &mut Client, flush: impl Fn(u32)) {
    root.ok("CREATE DATABASE d");
    root.ok("USE d");
    root.ok(
        "CREATE TABLE h (id INT PRIMARY KEY, moment DATETIME NOT NULL, price DECIMAL(10,2), \
         big BIGINT UNSIGNED NOT NULL, small TINYINT, note VARCHAR(60))",
    );
    for part in 0..10 {
        let row = |id: u32| {
            let (minute, price) = (id, id + id % 90);
            let small = match id % 13 {
                0 => "NULL".to_owned(),
                r => (i64::from(r * id % 17) - 8).to_string(),
            };
            format!(
                "({id}, '2024-01-{:02} {:02}:{:02}:00', {}.{:02}, {}, {small}, 'a note of some length {id}')",
                minute / 1440 + 1,
                minute / 60 % 24,
                minute % 60,
                price / 100,
                price % 100,
                u64::from(id) + (1 << 63),
            )
        };
        let rows: Vec<String> = (part * 1000..(part + 1) * 1000).map(row).collect();
        root.ok(&format!("INSERT INTO h VALUES {}", rows.join(",")));
        flush(part);
    }
}

fn filtered(root: &mut Client) {
    for cond in FILTERED {
        root.same(&format!(
            "SELECT COUNT(*), SUM(id), MIN(moment), MAX(big), SUM(price) FROM h WHERE {cond}"
        ));
    }
}

fn skipped(root: &mut Client, cond: &str) -> u64 {
    root.ok("SET esker_parallel_scan_rows = 0, parallel_read_threads = 8");
    let shown = root.ok(&format!(
        "EXPLAIN ANALYZE SELECT SUM(id) FROM h WHERE {cond}"
    ));
    let (_, rest) = shown[0].split_once("blocks skipped=").expect("it is told");
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..digits].parse().expect("a number")
}

#[test]
fn blocks_that_cannot_have_a_row_are_not_read_and_no_answer_changes() {
    let instance = open(&SimEnv::new(12), &[]);
    let engine = instance.engine().clone();
    let mut root = Client::new(&instance, 1);
    history(&mut root, |part| {
        if part % 4 == 3 {
            engine.flush_all().expect("flushes");
        }
    });
    filtered(&mut root);
    engine.flush_all().expect("flushes");
    engine.compact().expect("compacts");
    filtered(&mut root);
    for (cond, at_least) in [(FILTERED[0], 20), (FILTERED[3], 20), (FILTERED[10], 30)] {
        let blocks = skipped(&mut root, cond);
        assert!(blocks >= at_least, "{cond}: {blocks}");
    }
    assert_eq!(skipped(&mut root, "note LIKE '%77%'"), 0);
    // Newer versions above, which no longer meet what the older ones below do: in memory, then on disk.
    root.ok("UPDATE h SET moment = '2030-01-01', price = NULL WHERE id % 10 = 3");
    root.ok("UPDATE h SET small = NULL, big = 1 WHERE id % 17 = 5");
    root.ok("DELETE FROM h WHERE id % 23 = 7");
    filtered(&mut root);
    engine.flush_all().expect("flushes");
    filtered(&mut root);
    assert!(skipped(&mut root, FILTERED[0]) > 0);
    // Own changes, and a snapshot that sees none of what others do then.
    root.ok("BEGIN");
    root.ok("UPDATE h SET moment = '2024-01-02 01:00:00' WHERE id BETWEEN 8000 AND 8005");
    filtered(&mut root);
    let sum = format!("SELECT SUM(id), COUNT(*) FROM h WHERE {}", FILTERED[0]);
    let before = root.parallel(&sum);
    let mut other = Client::new(&instance, 2);
    other.ok("USE d");
    other.ok("UPDATE h SET moment = '2031-01-01' WHERE id BETWEEN 1440 AND 1500");
    engine.flush_all().expect("flushes");
    engine.compact().expect("compacts");
    assert_eq!(root.parallel(&sum), before);
    root.ok("ROLLBACK");
    filtered(&mut root);
}

#[test]
fn columns_added_and_dropped_at_once_are_not_mistaken_for_others() {
    let instance = open(&SimEnv::new(13), &[]);
    let engine = instance.engine().clone();
    let mut root = Client::new(&instance, 1);
    history(&mut root, |_| {});
    engine.flush_all().expect("flushes");
    engine.compact().expect("compacts");
    let added = [
        "extra = 5",
        "extra <> 5",
        "extra IS NULL",
        "extra BETWEEN 100 AND 200",
    ];
    let check = |root: &mut Client| {
        for cond in added {
            root.same(&format!("SELECT COUNT(*), SUM(id) FROM h WHERE {cond}"));
        }
        root.same("SELECT COUNT(*) FROM h WHERE moment < '2024-01-03'");
    };
    root.ok("ALTER TABLE h ADD COLUMN extra INT DEFAULT 5, ALGORITHM=INSTANT");
    assert_eq!(
        root.parallel("SELECT COUNT(*) FROM h WHERE extra = 5"),
        Ok(vec!["10000|".into()])
    );
    check(&mut root);
    root.ok("UPDATE h SET extra = id WHERE id % 3 = 0");
    root.ok("UPDATE h SET extra = NULL WHERE id % 50 = 1");
    check(&mut root);
    // Old rows and new ones together in what is written now.
    for _ in 0..2 {
        engine.flush_all().expect("flushes");
        check(&mut root);
        engine.compact().expect("compacts");
    }
    check(&mut root);
    root.ok("ALTER TABLE h DROP COLUMN price, ALGORITHM=INSTANT");
    root.ok("ALTER TABLE h ADD COLUMN price INT NOT NULL DEFAULT 7, ALGORITHM=INSTANT");
    root.same("SELECT COUNT(*) FROM h WHERE price = 7");
    root.same("SELECT COUNT(*) FROM h WHERE price <> 7");
    root.ok("UPDATE h SET price = 8 WHERE id < 5000");
    engine.flush_all().expect("flushes");
    engine.compact().expect("compacts");
    root.same("SELECT COUNT(*) FROM h WHERE price = 8");
    // A copy with new trees speaks of them from the beginning.
    root.ok("ALTER TABLE h MODIFY COLUMN small BIGINT, ALGORITHM=COPY");
    check(&mut root);
    assert!(skipped(&mut root, "moment < '2024-01-03'") > 0);
}

/// One row after the other leads to rows of the same index: by ascending keys that lie close or far apart, again and
/// again, and back.
const LOOKUPS: &[&str] = &[
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(m), MIN(w) FROM t JOIN u FORCE INDEX (PRIMARY) ON u.u = t.id",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(p), MAX(c) FROM u JOIN t FORCE INDEX (PRIMARY) ON t.id = u.u * 5",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(p), MAX(c) FROM u JOIN t FORCE INDEX (PRIMARY) ON t.id = u.t",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(v), SUM(p) FROM t JOIN l ON l.o = t.id",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(v), SUM(p) FROM t JOIN l ON l.o = 14000 - t.id",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(v), COUNT(p) FROM l JOIN t FORCE INDEX (PRIMARY) ON t.id = l.o",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(v), COUNT(p) FROM l LEFT JOIN t FORCE INDEX (PRIMARY) ON t.id = l.o AND t.k > 20",
    "SELECT COUNT(*), SUM(id) FROM t WHERE EXISTS (SELECT * FROM l WHERE l.o = t.id AND l.v > 30)",
    "SELECT COUNT(*), SUM(id) FROM t WHERE NOT EXISTS (SELECT * FROM l WHERE l.o = t.id)",
    "SELECT COUNT(*), SUM(id) FROM t WHERE k < (SELECT COUNT(*) FROM l WHERE l.o = t.id) * 20",
    "SELECT COUNT(*), SUM(a.v) FROM l a WHERE EXISTS (SELECT * FROM l b WHERE b.o = a.o AND b.n > a.n)",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(t.p) FROM u JOIN t ON t.k = u.u",
    // Rows that are looked up and find nothing in a later join.
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(v) FROM t JOIN l ON l.o = t.id JOIN u IGNORE INDEX (PRIMARY) ON u.u = l.v AND w = 'w3'",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(v) FROM t LEFT JOIN l ON l.o = t.id JOIN u IGNORE INDEX (PRIMARY) ON u.u = t.k AND w = 'w3'",
    "SELECT STRAIGHT_JOIN COUNT(*), SUM(v) FROM t LEFT JOIN l ON l.o = t.id LEFT JOIN u IGNORE INDEX (PRIMARY) ON u.u = l.v AND w = 'w3'",
];

/// What a cursor finds that goes from key to key is what is found key by key, as a transaction with changes of its own
/// does.
#[test]
fn lookups_one_after_the_other_find_what_each_would_find() {
    let machine = SimEnv::new(15);
    let instance = open(&machine, &[]);
    let engine = instance.engine().clone();
    let mut root = table(&instance, |part| {
        if part % 4 == 1 {
            engine.flush_all().expect("flushes");
        }
    });
    root.ok("CREATE TABLE other (id INT PRIMARY KEY)");
    root.ok("CREATE TABLE l (o INT, n INT, v INT, PRIMARY KEY (o, n))");
    for part in 0..10 {
        let row = |at: u32| format!("({}, {}, {})", at / 3 * 2 + at / 900, at % 3, at % 60);
        let rows: Vec<String> = (part * 900..(part + 1) * 900).map(row).collect();
        root.ok(&format!("INSERT INTO l VALUES {}", rows.join(",")));
        if part == 6 {
            engine.flush_all().expect("flushes");
        }
    }
    root.ok("UPDATE l SET v = v + 1 WHERE o % 7 = 3");
    root.ok("DELETE FROM l WHERE o % 23 = 5");
    root.ok("DELETE FROM t WHERE id % 19 = 4");
    for sql in LOOKUPS {
        root.same(sql);
        let found = root.ok(sql);
        root.ok("BEGIN");
        root.ok("INSERT INTO other VALUES (1)");
        assert_eq!(root.ok(sql), found, "{sql}");
        root.ok("ROLLBACK");
    }
}
