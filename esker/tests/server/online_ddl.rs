//! Schema changes beside those that change rows: what comes out equals what is there, conflicts end the change and
//! nothing else, and a crash leaves the table as before or after.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use esker_server::client::{Client, ClientError};

use crate::binlog::statements;
use crate::common::{Ask, Dice, Server, beside_busy_threads, eventually};

const ROWS: u64 = 3000;
/// Longest wait for something that happens soon.
const PATIENCE: Duration = Duration::from_secs(60);

fn server(table: &str) -> (Server, tempfile::TempDir) {
    server_with(&["--skip-ssl"], table)
}

fn server_with(args: &[&str], table: &str) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), args);
    let mut c = server.connect();
    c.run(&format!("CREATE DATABASE d; USE d; {table}"));
    c.run("SET GLOBAL esker_ddl_window = 40");
    (server, dir)
}

fn session(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

/// `t` with rows 1 to `ROWS`, each with `v` = 10 * `id`.
fn filled() -> String {
    format!(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, s VARCHAR(40), n INT NOT NULL DEFAULT 0, KEY s (s)); \
         SET cte_max_recursion_depth = 100000; \
         INSERT INTO t (id, v, s) WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < {ROWS}) \
         SELECT i, i * 10, CONCAT('row ', i) FROM r"
    )
}

/// A schema change that cannot end, because a reader has the table, and has made its trees.
struct Held {
    reader: Client,
    change: JoinHandle<Result<(), (u16, String)>>,
}

impl Held {
    fn begin(server: &Server, sql: &'static str) -> Self {
        let mut reader = session(server);
        reader.run("BEGIN; SELECT COUNT(*) FROM t");
        let mut c = session(server);
        let change = thread::spawn(move || match c.query(sql, &mut |_| ()) {
            Ok(()) => Ok(()),
            Err(ClientError::Server(e)) => Err((e.code, e.message)),
            Err(e) => panic!("{sql}: {e}"),
        });
        let mut c = session(server);
        let waits = "SELECT COUNT(*) FROM information_schema.ESKER_METADATA_LOCKS a \
                     JOIN information_schema.ESKER_METADATA_LOCKS b ON a.OWNER_THREAD_ID = b.OWNER_THREAD_ID \
                     WHERE a.LOCK_TYPE = 'SHARED_UPGRADABLE' AND a.LOCK_STATUS = 'GRANTED' \
                     AND b.LOCK_TYPE = 'EXCLUSIVE' AND b.LOCK_STATUS = 'PENDING'";
        while c.value(waits) == "0" {
            if change.is_finished() {
                panic!(
                    "{sql} does not wait: {:?}",
                    change.join().expect("the change")
                );
            }
            thread::yield_now();
        }
        Self { reader, change }
    }

    fn end(mut self) -> Result<(), (u16, String)> {
        self.reader.run("COMMIT");
        self.change.join().expect("the change")
    }
}

/// What CHECK TABLE says of every index, and that reading by an index gives the rows that reading without one gives.
fn check(c: &mut Client, indexes: &[&str]) {
    assert_eq!(c.lines("CHECK TABLE t"), ["d.t|check|status|OK"]);
    let sum = "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', id, v, s, n)))";
    let plain = c.lines(&format!("{sum} FROM t IGNORE INDEX (s)"));
    for index in indexes {
        assert_eq!(
            c.lines(&format!("{sum} FROM t FORCE INDEX ({index})")),
            plain,
            "{index}"
        );
    }
}

#[test]
fn rows_change_while_an_index_is_made_and_are_in_it() {
    let (server, _dir) = server(&filled());
    let mut c = session(&server);
    for (nth, (sql, index)) in [
        ("ALTER TABLE t ADD INDEX i (v)", "i"),
        ("CREATE UNIQUE INDEX u ON t (v, id) LOCK=NONE", "u"),
        (
            "ALTER TABLE t ADD INDEX f ((v + 1)), ALGORITHM=INPLACE",
            "f",
        ),
        (
            "ALTER TABLE t ADD COLUMN z INT DEFAULT 7, ADD INDEX z (z, n)",
            "z",
        ),
        ("ALTER TABLE t ADD FULLTEXT INDEX w (s), LOCK=NONE", "w"),
    ]
    .into_iter()
    .enumerate()
    {
        let held = Held::begin(&server, sql);
        // Its lock at the end lets these pass.
        let new = 100_000 + nth;
        c.run(&format!(
            "INSERT INTO t (id, v, s) VALUES ({new}, 5, 'new')"
        ));
        c.run("UPDATE t SET v = v + 1 WHERE id < 100; UPDATE t SET v = NULL WHERE id = 7");
        c.run(&format!("DELETE FROM t WHERE id = {}", 200 + nth));
        c.run("UPDATE t SET s = CONCAT('again ', s) WHERE id < 30");
        c.run("UPDATE t SET v = v - 1 WHERE id < 50");
        c.run("BEGIN; UPDATE t SET v = 0; ROLLBACK");
        assert_eq!(held.end(), Ok(()), "{sql}");
        check(&mut c, &[index]);
        assert_eq!(c.value(&format!("SELECT v FROM t WHERE id = {new}")), "5");
    }
    let by_part = "SELECT COUNT(*) FROM t FORCE INDEX (f) WHERE v + 1 = 6";
    assert_eq!(c.value(by_part), "5");
}

#[test]
fn two_rows_may_exchange_what_is_to_be_unique() {
    let (server, _dir) = server(&filled());
    let mut c = session(&server);
    let held = Held::begin(&server, "ALTER TABLE t ADD UNIQUE INDEX u (v)");
    c.run("BEGIN; UPDATE t SET v = -1 WHERE id = 1; UPDATE t SET v = 10 WHERE id = 2");
    c.run("UPDATE t SET v = 20 WHERE id = 1; COMMIT");
    c.run("DELETE FROM t WHERE id = 3; INSERT INTO t (id, v) VALUES (3, 30)");
    assert_eq!(held.end(), Ok(()));
    check(&mut c, &["u"]);
    assert_eq!(c.value("SELECT id FROM t WHERE v = 10"), "2");
    // What was no duplicate of an index is none of a primary key, which orders the rows anew.
    let held = Held::begin(
        &server,
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v), ADD INDEX i (id)",
    );
    c.run("BEGIN; UPDATE t SET v = -1 WHERE id = 4; UPDATE t SET v = 40 WHERE id = 5");
    c.run("UPDATE t SET v = 50 WHERE id = 4; COMMIT");
    c.run("DELETE FROM t WHERE id = 6; INSERT INTO t (id, v) VALUES (6, 61)");
    assert_eq!(held.end(), Ok(()));
    check(&mut c, &["u", "i"]);
    assert_eq!(
        c.lines("SELECT id FROM t WHERE v IN (40, 50, 61)"),
        ["5", "4", "6"]
    );
}

/// The change fails while the reader is still there, so it is the change that has found it; who made the conflict goes
/// on.
#[test]
fn a_conflicting_row_ends_the_change_and_nothing_else() {
    let (server, _dir) = server(&filled());
    let mut c = session(&server);
    let before = c.lines("SHOW CREATE TABLE t");
    for (sql, conflict, code) in [
        (
            "ALTER TABLE t ADD UNIQUE INDEX u (v)",
            "INSERT INTO t (v) VALUES (10)",
            1062,
        ),
        (
            "ALTER TABLE t MODIFY v SMALLINT",
            "INSERT INTO t (v) VALUES (100000)",
            1264,
        ),
        (
            "ALTER TABLE t ADD CONSTRAINT c CHECK (v < 200000)",
            "UPDATE t SET v = 200000 WHERE id = 9",
            3819,
        ),
        (
            "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v), MODIFY id INT NOT NULL",
            "INSERT INTO t (v) VALUES (40)",
            1062,
        ),
    ] {
        c.run("DELETE FROM t WHERE id > 3000 OR v > 30000; UPDATE t SET v = id * 10");
        let held = Held::begin(&server, sql);
        c.run(conflict);
        let Held { mut reader, change } = held;
        let failed = change.join().expect("the change");
        assert_eq!(failed.map_err(|e| e.0), Err(code), "{sql}");
        reader.run("COMMIT");
        assert_eq!(c.lines("SHOW CREATE TABLE t").len(), before.len());
        check(&mut c, &["s"]);
        c.run("UPDATE t SET n = n + 1");
    }
    let after =
        c.value("SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_NAME = 't'");
    assert_eq!(after, "2");
}

#[test]
fn the_table_is_copied_beside_writers() {
    let (server, _dir) = server(&filled());
    let mut c = session(&server);
    for (nth, sql) in [
        "ALTER TABLE t MODIFY v BIGINT NOT NULL",
        "ALTER TABLE t CONVERT TO CHARACTER SET latin1, LOCK=NONE",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
        "ALTER TABLE t ADD COLUMN z INT AS (v + 1) STORED FIRST",
        "ALTER TABLE t MODIFY s VARCHAR(30) NOT NULL DEFAULT ''",
        "ALTER TABLE t FORCE",
    ]
    .into_iter()
    .enumerate()
    {
        let held = Held::begin(&server, sql);
        let new = 1_000_000 * (nth + 1);
        c.run(&format!(
            "INSERT INTO t (id, v, s) VALUES ({new}, 5, 'new')"
        ));
        c.run("INSERT INTO t (v, s) VALUES (1, 'drawn')");
        c.run("UPDATE t SET v = v + 1 WHERE id < 100; UPDATE t SET s = 'x' WHERE id = 8");
        c.run(&format!("DELETE FROM t WHERE id = {}", 200 + nth));
        c.run("UPDATE t SET id = id + 200000 WHERE id BETWEEN 300 AND 305");
        c.run("UPDATE t SET id = id - 200000 WHERE id BETWEEN 200300 AND 200305");
        assert_eq!(held.end(), Ok(()), "{sql}");
        check(&mut c, &["s"]);
        assert_eq!(c.value(&format!("SELECT s FROM t WHERE id = {new}")), "new");
    }
    // Numbers that were drawn meanwhile are not drawn again.
    let largest: u64 = c.value("SELECT MAX(id) FROM t").parse().expect("a number");
    c.run("INSERT INTO t (v, s) VALUES (1, 'last')");
    let last: u64 = c
        .value("SELECT LAST_INSERT_ID()")
        .parse()
        .expect("a number");
    assert!(last > largest, "{last} after {largest}");
    assert_eq!(c.value("SELECT MAX(z - v) FROM t"), "1");
}

#[test]
fn killed_or_crashed_it_leaves_nothing() {
    let (mut server, _dir) = server(&filled());
    let trees = "SELECT COUNT(*) FROM information_schema.ESKER_TREES";
    for sql in [
        "ALTER TABLE t ADD INDEX i (v)",
        "ALTER TABLE t MODIFY v BIGINT",
    ] {
        let mut c = session(&server);
        let before = c.value(trees);
        let held = Held::begin(&server, sql);
        c.run("UPDATE t SET v = v + 1");
        let id = c.value(
            "SELECT OWNER_THREAD_ID FROM information_schema.ESKER_METADATA_LOCKS \
             WHERE LOCK_TYPE = 'SHARED_UPGRADABLE'",
        );
        c.run(&format!("KILL QUERY {id}"));
        let Held { mut reader, change } = held;
        let failed = change.join().expect("the change");
        assert_eq!(failed.map_err(|e| e.0), Err(1317), "{sql}");
        reader.run("COMMIT");
        c.run("ALTER TABLE t NOWAIT COMMENT 'free again'");
        assert_eq!(c.value(trees), before, "{sql}");

        let mut reader = session(&server);
        reader.run("BEGIN; SELECT COUNT(*) FROM t");
        let mut changer = session(&server);
        let change = thread::spawn(move || changer.query(sql, &mut |_| ()).is_err());
        while c.value(
            "SELECT COUNT(*) FROM information_schema.ESKER_METADATA_LOCKS \
                       WHERE LOCK_TYPE = 'EXCLUSIVE' AND LOCK_STATUS = 'PENDING'",
        ) == "0"
        {
            thread::yield_now();
        }
        c.run("UPDATE t SET v = v + 1; INSERT INTO t (v) VALUES (3)");
        server.kill();
        assert!(change.join().expect("the change"), "it was not done");
        server.restart();
        let mut c = session(&server);
        assert_eq!(c.value(trees), before, "{sql}");
        check(&mut c, &["s"]);
        assert_eq!(c.value("SELECT v FROM t WHERE id = 1"), "12");
        c.run("UPDATE t SET v = id * 10");
    }
}

/// A foreign key is added while rows of both tables change: it holds for all of them in the end, or only the change
/// fails.
#[test]
fn a_foreign_key_is_added_beside_changes_of_child_and_parent() {
    const ADD: &str = "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (v) REFERENCES p (k), LOCK=NONE";
    let (server, _dir) = server(&filled());
    let mut c = session(&server);
    c.run("CREATE TABLE p (id INT PRIMARY KEY, k INT NOT NULL UNIQUE, n INT DEFAULT 0)");
    c.run("INSERT INTO p (id, k) SELECT id, v FROM t");
    let held = Held::begin(&server, ADD);
    c.run("INSERT INTO p (id, k) VALUES (5000, 7); INSERT INTO t (id, v) VALUES (5000, 7)");
    c.run("DELETE FROM t WHERE id = 1; DELETE FROM p WHERE id = 1");
    c.run("UPDATE t SET v = NULL WHERE id = 2; UPDATE p SET k = -20 WHERE id = 2");
    c.run("BEGIN; DELETE FROM p WHERE id = 3; INSERT INTO p (id, k) VALUES (6000, 30); COMMIT");
    c.run("UPDATE p SET n = 1; UPDATE t SET v = 50 WHERE id = 6; DELETE FROM p WHERE id = 6");
    assert_eq!(held.end(), Ok(()));
    check(&mut c, &["s", "fk"]);
    let orphans = "SELECT COUNT(*) FROM t LEFT JOIN p ON v = k WHERE v IS NOT NULL AND k IS NULL";
    assert_eq!(c.value(orphans), "0");
    assert_eq!(c.code("INSERT INTO t (v) VALUES (10)"), Some(1452));
    assert_eq!(c.code("DELETE FROM p WHERE id = 5"), Some(1451));
    c.run("ALTER TABLE t DROP FOREIGN KEY fk; ALTER TABLE t DROP KEY fk");
    for (conflict, mended) in [
        (
            "INSERT INTO t (id, v) VALUES (7000, 1)",
            "DELETE FROM t WHERE id = 7000",
        ),
        (
            "UPDATE t SET v = 1 WHERE id = 9",
            "UPDATE t SET v = 90 WHERE id = 9",
        ),
        (
            "DELETE FROM p WHERE id = 10",
            "INSERT INTO p (id, k) VALUES (10, 100)",
        ),
        (
            "UPDATE p SET k = -110 WHERE id = 11",
            "UPDATE p SET k = 110 WHERE id = 11",
        ),
    ] {
        let Held { mut reader, change } = Held::begin(&server, ADD);
        c.run(conflict);
        let failed = change.join().expect("the change");
        assert_eq!(failed.map_err(|e| e.0), Err(1452), "{conflict}");
        reader.run("COMMIT");
        c.run(mended);
        check(&mut c, &["s"]);
    }
    c.run(ADD);
    assert_eq!(c.value(orphans), "0");
}

/// The process list says what a schema change does, and `events_stages_current` how far it is.
#[test]
fn progress_is_shown() {
    let (server, _dir) = server(&filled());
    let over = AtomicBool::new(false);
    let mut c = session(&server);
    let stages = "SELECT COUNT(*) FROM performance_schema.events_stages_current";
    thread::scope(|scope| {
        let changer = scope.spawn(|| {
            let mut c = session(&server);
            while !over.load(Ordering::Relaxed) {
                c.run("ALTER TABLE t FORCE; ALTER TABLE t ADD INDEX i (v); ALTER TABLE t DROP INDEX i");
            }
        });
        let state = |text: &str| {
            format!(
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE REGEXP '^altering table: {text}$'"
            )
        };
        let event = |name: &str| {
            format!(
                "{stages} WHERE EVENT_NAME = 'stage/{name}' AND WORK_COMPLETED <= WORK_ESTIMATED AND TIMER_WAIT > 0"
            )
        };
        for seen in [
            state("copied [0-9]+ of [0-9]+ rows .[0-9]+ %."),
            state("read [0-9]+ of [0-9]+ rows .[0-9]+ %."),
            event("sql/copy to tmp table"),
            event("innodb/alter table (read PK and internal sort)"),
        ] {
            let begun = Instant::now();
            while c.value(&seen) == "0" {
                assert!(begun.elapsed() < PATIENCE, "never: {seen}");
            }
        }
        over.store(true, Ordering::Relaxed);
        changer.join().expect("the changer");
    });
    assert_eq!(c.value(stages), "0");
    let held = Held::begin(&server, "ALTER TABLE t ADD INDEX i (v)");
    let waits = format!("{stages} WHERE EVENT_NAME = 'stage/sql/Waiting for table metadata lock'");
    let begun = Instant::now();
    while c.value(&waits) == "0" {
        assert!(begun.elapsed() < PATIENCE, "it does not say that it waits");
    }
    assert_eq!(held.end(), Ok(()));
    assert_eq!(c.value(stages), "0");
}

/// Writers go on through one change after the other; each knows what its rows must be.
#[test]
fn under_load_the_result_is_what_the_writers_wrote() {
    const WRITERS: u64 = 3;
    let (server, _dir) = server(&filled());
    let over = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    let mut c = session(&server);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (server, over, written) = (&server, &over, &written);
                scope.spawn(move || write(server, writer, over, written))
            })
            .collect();
        for sql in [
            "ALTER TABLE t ADD INDEX i (v), ADD UNIQUE INDEX u (n, id)",
            "ALTER TABLE t MODIFY v BIGINT, MODIFY s VARCHAR(60) CHARACTER SET latin1",
            "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, n), LOCK=NONE",
            "ALTER TABLE t DROP INDEX u, ADD INDEX w (v, n DESC)",
            "ALTER TABLE t FORCE",
        ] {
            let before = written.load(Ordering::Relaxed);
            c.run(sql);
            check_at_rest(&mut c, sql);
            eventually(sql, || written.load(Ordering::Relaxed) > before);
        }
        over.store(true, Ordering::Relaxed);
        for (writer, rows) in writers.into_iter().enumerate() {
            let rows = rows.join().expect("a writer");
            let mine =
                format!("SELECT id, v, n FROM t WHERE id % {WRITERS} = {writer} ORDER BY id");
            assert_eq!(c.lines(&mine), rows);
        }
    });
    check(&mut c, &["i", "w", "s"]);
}

/// CHECK TABLE sees one snapshot, whatever the writers do.
fn check_at_rest(c: &mut Client, sql: &str) {
    assert_eq!(c.lines("CHECK TABLE t"), ["d.t|check|status|OK"], "{sql}");
}

/// Changes its rows until it is over; what they are then, as `id|v|n`.
fn write(server: &Server, writer: u64, over: &AtomicBool, written: &AtomicU64) -> Vec<String> {
    let mut c = session(server);
    let mut dice = Dice::new(writer);
    let mut rows: std::collections::BTreeMap<u64, (u64, u64)> = (1..=ROWS)
        .filter(|id| id % 3 == writer)
        .map(|id| (id, (id * 10, 0)))
        .collect();
    while !over.load(Ordering::Relaxed) {
        let id = dice.roll(2 * ROWS) / 3 * 3 + writer;
        let value = dice.roll(1_000_000);
        let sql = match rows.get_mut(&id) {
            None => {
                rows.insert(id, (value, 1));
                format!("INSERT INTO t (id, v, s, n) VALUES ({id}, {value}, 'row {id}', 1)")
            }
            Some(_) if dice.roll(4) == 0 => {
                rows.remove(&id);
                format!("DELETE FROM t WHERE id = {id}")
            }
            Some((v, n)) => {
                (*v, *n) = (value, *n + 1);
                format!("UPDATE t SET v = {value}, n = n + 1 WHERE id = {id}")
            }
        };
        if id == 0 {
            rows.remove(&0);
            continue;
        }
        c.run(&sql);
        written.fetch_add(1, Ordering::Relaxed);
    }
    let line = |(id, (v, n)): (u64, (u64, u64))| format!("{id}|{v}|{n}");
    rows.into_iter().map(line).collect()
}

/// Changes that follow one another round and round, and the columns of the indexes after each.
const CYCLE: [(&str, &str); 4] = [
    (
        "ALTER TABLE t ADD INDEX i (v, s)",
        "i(v,s) PRIMARY(id) s(s)",
    ),
    (
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)",
        "i(v,s) PRIMARY(id,n) s(s)",
    ),
    ("ALTER TABLE t DROP INDEX i", "PRIMARY(id,n) s(s)"),
    (
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
        "PRIMARY(id) s(s)",
    ),
];

/// How many changes the binary log has; the last one is the one that the table shows.
fn assert_logged(c: &mut Client) -> usize {
    let logged = statements(c);
    let changes: Vec<_> = logged
        .iter()
        .filter_map(|text| {
            // Without the number of its transaction.
            let (text, _) = text.split_once(" /* xid=")?;
            let text = text.strip_prefix("use `d`; ")?;
            CYCLE.iter().find(|(sql, _)| *sql == text)
        })
        .collect();
    let shape = changes.last().map_or(CYCLE[3].1, |(_, shape)| shape);
    let shown = "SELECT GROUP_CONCAT(k ORDER BY k SEPARATOR ' ') FROM \
                 (SELECT CONCAT(INDEX_NAME, '(', GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX), ')') AS k \
                  FROM information_schema.STATISTICS WHERE TABLE_NAME = 't' GROUP BY INDEX_NAME) s";
    assert_eq!(c.value(shown), shape, "after {} changes", changes.len());
    changes.len()
}

/// kill -9 at any moment of a change under load: the table is as before or after, as the binary log says, its indexes
/// say what its rows say, and nothing is left over.
#[test]
fn killed_at_any_moment_it_is_done_or_not() {
    let (mut server, _dir) = server_with(&["--skip-ssl", "--log-bin=ON"], &filled());
    let mut logged = 0;
    let mut dice = Dice::new(23);
    let trees = "SELECT COUNT(*) FROM information_schema.ESKER_TREES WHERE TABLE_NAME = 't'";
    let nameless = "SELECT COUNT(*) FROM information_schema.ESKER_TREES WHERE TABLE_NAME IS NULL";
    let without = session(&server).value(nameless);
    for round in 0..4 {
        let mut writer = session(&server);
        let writing = thread::spawn(move || {
            for n in 0.. {
                let id = n % 500 + 1;
                let sql = format!("UPDATE t SET v = v + 1, s = 'round {n}' WHERE id = {id}");
                if writer.query(&sql, &mut |_| ()).is_err() {
                    return;
                }
            }
        });
        let mut changer = session(&server);
        let changing = thread::spawn(move || {
            // It goes on where the binary log ends.
            let mut changes = CYCLE.iter().cycle().skip(logged);
            while changes
                .next()
                .is_some_and(|(sql, _)| changer.query(sql, &mut |_| ()).is_ok())
            {}
        });
        thread::sleep(Duration::from_millis(100 + dice.roll(500)));
        server.kill();
        writing.join().expect("the writer");
        changing.join().expect("the changer");
        server.restart();
        let mut c = session(&server);
        check(&mut c, &["s"]);
        logged = assert_logged(&mut c);
        let sum = "SELECT COUNT(*), MIN(id), MAX(id) FROM t";
        assert_eq!(c.lines(sum), [format!("{ROWS}|1|{ROWS}")], "round {round}");
        let shown = c.value(
            "SELECT COUNT(DISTINCT INDEX_NAME) FROM information_schema.STATISTICS WHERE TABLE_NAME = 't'",
        );
        assert_eq!(c.value(trees), shown, "round {round}");
        assert_eq!(c.value(nameless), without, "round {round}");
    }
}

const PAUSES: &str = "SELECT VARIABLE_VALUE FROM performance_schema.global_status \
                      WHERE VARIABLE_NAME = 'Esker_ddl_pauses'";

/// Where threads queue for processors a build pauses, unless it may work all of the time; and it gets on.
#[test]
fn a_build_gives_way_where_processors_are_short() {
    // A system that does not tell how long threads queue knows no pauses.
    if esker_vfs::threads::queued_time().is_none() {
        return;
    }
    let (server, _dir) = server(&filled());
    let mut c = session(&server);
    let (mut without, mut with) = (String::new(), String::new());
    beside_busy_threads(|| {
        let begun = Instant::now();
        // effect: esker_ddl_least_share
        c.run("SET GLOBAL esker_ddl_least_share = 100; ALTER TABLE t FORCE");
        without = c.value(PAUSES);
        c.run("SET GLOBAL esker_ddl_least_share = 50");
        while c.value(PAUSES) == "0" && begun.elapsed() < PATIENCE {
            c.run("ALTER TABLE t FORCE");
        }
        with = c.value(PAUSES);
    });
    assert_eq!(without, "0");
    assert_ne!(with, "0", "it never paused");
    check(&mut c, &["s"]);
}

/// What follows the changes of others pauses for them, too, and is not late for that.
#[test]
fn following_changes_gives_way_where_processors_are_short() {
    if esker_vfs::threads::queued_time().is_none() {
        return;
    }
    let (server, _dir) = server(&filled());
    let mut c = session(&server);
    let held = Held::begin(&server, "ALTER TABLE t ADD INDEX i (v)");
    let before = c.value(PAUSES);
    let mut after = before.clone();
    beside_busy_threads(|| {
        let begun = Instant::now();
        while after == before && begun.elapsed() < PATIENCE {
            c.run("UPDATE t SET v = v + 1");
            after = c.value(PAUSES);
        }
    });
    assert_ne!(after, before, "it never paused");
    assert_eq!(held.end(), Ok(()));
    check(&mut c, &["i", "s"]);
}
