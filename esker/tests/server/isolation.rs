//! What two transactions see of each other, and who waits for whom, at each isolation level.
//!
//! Every test says what MySQL (InnoDB) does and whether Esker does the same. The cases follow
//! Hermitage (Martin Kleppmann) and Adya's phenomena.

use crate::common::{Ask, Server, eventually};
use esker_server::client::Client;

const LEVELS: [&str; 2] = ["READ COMMITTED", "REPEATABLE READ"];
const LOCK_WAITS: &str =
    "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'";

struct World {
    server: Server,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("folder");
        let server = Server::start(dir.path(), &["--skip-ssl", "--innodb-lock-wait-timeout=50"]);
        server.connect().run("CREATE DATABASE d");
        Self { server, _dir: dir }
    }

    /// A fresh table `d.test` with rows (1, 10) and (2, 20), and two sessions in transactions.
    fn begin(&self, level: &str) -> (Client, Client) {
        let mut c = self.server.connect();
        c.run(
            "DROP TABLE IF EXISTS d.test;
             CREATE TABLE d.test (id INT PRIMARY KEY, value INT, KEY value (value));
             INSERT INTO d.test VALUES (1, 10), (2, 20)",
        );
        let open = || {
            let mut c = self.server.connect();
            c.run(&format!(
                "USE d; SET SESSION TRANSACTION ISOLATION LEVEL {level}; BEGIN"
            ));
            c
        };
        (open(), open())
    }

    fn final_state(&self) -> Vec<String> {
        self.server
            .connect()
            .lines("SELECT id, value FROM d.test ORDER BY id")
    }

    /// Runs `sql` on a thread, sees that it waits for a lock, and then lets it go on.
    fn waits(
        &self,
        mut c: Client,
        sql: &'static str,
        unblock: impl FnOnce(),
    ) -> (Client, Option<u16>) {
        let mut watcher = self.server.connect();
        let handle = std::thread::spawn(move || {
            let code = c.code(sql);
            (c, code)
        });
        eventually(sql, || {
            assert!(!handle.is_finished(), "{sql} did not wait");
            watcher.value(LOCK_WAITS) == "1"
        });
        unblock();
        handle.join().expect("no panic")
    }
}

/// G0, dirty write. MySQL: prevented at both levels, the second writer waits. Esker: same.
#[test]
fn dirty_write_is_prevented() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, b) = w.begin(level);
        a.run("UPDATE test SET value = 11 WHERE id = 1");
        let (mut b, code) = w.waits(b, "UPDATE test SET value = 12 WHERE id = 1", || {
            a.run("UPDATE test SET value = 21 WHERE id = 2; COMMIT");
        });
        assert_eq!(code, None);
        b.run("UPDATE test SET value = 22 WHERE id = 2; COMMIT");
        assert_eq!(w.final_state(), ["1|12", "2|22"], "{level}");
    }
}

/// G1a, dirty read of something rolled back. MySQL: prevented. Esker: same.
#[test]
fn aborted_read_is_prevented() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        a.run("UPDATE test SET value = 101 WHERE id = 1");
        assert_eq!(b.lines("SELECT * FROM test"), ["1|10", "2|20"], "{level}");
        a.run("ROLLBACK");
        assert_eq!(b.lines("SELECT * FROM test"), ["1|10", "2|20"], "{level}");
    }
}

/// G1b, read of an intermediate value. MySQL: prevented; after the commit READ COMMITTED sees the
/// final value, REPEATABLE READ the old one. Esker: same.
#[test]
fn intermediate_read_is_prevented() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        a.run("UPDATE test SET value = 101 WHERE id = 1");
        assert_eq!(b.lines("SELECT * FROM test"), ["1|10", "2|20"], "{level}");
        a.run("UPDATE test SET value = 11 WHERE id = 1; COMMIT");
        let then = if level == LEVELS[0] { "1|11" } else { "1|10" };
        assert_eq!(b.lines("SELECT * FROM test"), [then, "2|20"], "{level}");
    }
}

/// G1c, circular information flow. MySQL: prevented. Esker: same.
#[test]
fn circular_information_flow_is_prevented() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        a.run("UPDATE test SET value = 11 WHERE id = 1");
        b.run("UPDATE test SET value = 22 WHERE id = 2");
        assert_eq!(a.value("SELECT value FROM test WHERE id = 2"), "20");
        assert_eq!(b.value("SELECT value FROM test WHERE id = 1"), "10");
        a.run("COMMIT");
        b.run("COMMIT");
    }
}

/// OTV, observed transaction vanishes. MySQL: prevented. Esker: same.
#[test]
fn observed_transactions_do_not_vanish() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, b) = w.begin(level);
        let mut reader = w.server.connect();
        reader.run(&format!(
            "USE d; SET SESSION TRANSACTION ISOLATION LEVEL {level}; BEGIN"
        ));
        a.run("UPDATE test SET value = 11 WHERE id = 1; UPDATE test SET value = 19 WHERE id = 2");
        let (mut b, code) = w.waits(b, "UPDATE test SET value = 12 WHERE id = 1", || {
            a.run("COMMIT");
        });
        assert_eq!(code, None);
        assert_eq!(
            reader.value("SELECT value FROM test WHERE id = 1"),
            "11",
            "{level}"
        );
        b.run("UPDATE test SET value = 18 WHERE id = 2");
        assert_eq!(
            reader.value("SELECT value FROM test WHERE id = 2"),
            "19",
            "{level}"
        );
        b.run("COMMIT");
        let then = if level == LEVELS[0] {
            ["18", "12"]
        } else {
            ["19", "11"]
        };
        assert_eq!(
            reader.value("SELECT value FROM test WHERE id = 2"),
            then[0],
            "{level}"
        );
        assert_eq!(
            reader.value("SELECT value FROM test WHERE id = 1"),
            then[1],
            "{level}"
        );
    }
}

/// PMP, predicate many preceders (phantom in plain reads). MySQL: READ COMMITTED allows it,
/// REPEATABLE READ prevents it for plain reads. Esker: same.
#[test]
fn plain_reads_see_phantoms_only_at_read_committed() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        assert!(a.lines("SELECT * FROM test WHERE value = 30").is_empty());
        b.run("INSERT INTO test VALUES (3, 30); COMMIT");
        let seen = a.lines("SELECT * FROM test WHERE value % 3 = 0");
        let want: &[&str] = if level == LEVELS[0] { &["3|30"] } else { &[] };
        assert_eq!(seen, want, "{level}");
    }
}

/// PMP for writes. MySQL: the UPDATE of both levels works on the newest rows, so DELETE of value 20
/// after another session's `value = value + 10` deletes the row that has become 20. Esker: same.
#[test]
fn writes_work_on_the_newest_rows() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, b) = w.begin(level);
        a.run("UPDATE test SET value = value + 10");
        let (mut b, code) = w.waits(b, "DELETE FROM test WHERE value = 20", || a.run("COMMIT"));
        assert_eq!(code, None);
        b.run("COMMIT");
        assert_eq!(w.final_state(), ["2|30"], "{level}");
    }
}

/// P4, lost update by read-modify-write in the client. MySQL: allowed at both levels (no first
/// updater wins). Esker: same.
#[test]
fn lost_update_between_plain_read_and_write_is_possible() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        assert_eq!(a.value("SELECT value FROM test WHERE id = 1"), "10");
        assert_eq!(b.value("SELECT value FROM test WHERE id = 1"), "10");
        a.run("UPDATE test SET value = 11 WHERE id = 1; COMMIT");
        assert_eq!(b.code("UPDATE test SET value = 11 WHERE id = 1"), None);
        b.run("COMMIT");
        assert_eq!(w.final_state(), ["1|11", "2|20"], "{level}");
    }
}

/// Lost update with a locking read. MySQL: FOR UPDATE prevents it at both levels. Esker: same.
#[test]
fn for_update_prevents_lost_updates() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, b) = w.begin(level);
        assert_eq!(
            a.value("SELECT value FROM test WHERE id = 1 FOR UPDATE"),
            "10"
        );
        let (mut b, code) = w.waits(b, "SELECT value FROM test WHERE id = 1 FOR UPDATE", || {
            a.run("UPDATE test SET value = value + 1 WHERE id = 1; COMMIT");
        });
        assert_eq!(code, None);
        b.run("UPDATE test SET value = value + 1 WHERE id = 1; COMMIT");
        assert_eq!(w.final_state(), ["1|12", "2|20"], "{level}");
    }
}

/// G-single, read skew. MySQL: READ COMMITTED allows it, REPEATABLE READ prevents it for plain
/// reads. Esker: same.
#[test]
fn read_skew_only_at_read_committed() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        assert_eq!(a.value("SELECT value FROM test WHERE id = 1"), "10");
        b.run("UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 18 WHERE id = 2");
        b.run("COMMIT");
        let want = if level == LEVELS[0] { "18" } else { "20" };
        assert_eq!(
            a.value("SELECT value FROM test WHERE id = 2"),
            want,
            "{level}"
        );
    }
}

/// Own writes in a REPEATABLE READ transaction. MySQL: an UPDATE applies to the newest row, and what
/// the transaction wrote itself it sees, the rest stays at the snapshot. Esker: same.
#[test]
fn updates_in_a_snapshot_build_on_the_newest_value() {
    let w = World::new();
    let (mut a, mut b) = w.begin(LEVELS[1]);
    assert_eq!(a.value("SELECT value FROM test WHERE id = 1"), "10");
    b.run("UPDATE test SET value = 100 WHERE id = 1; UPDATE test SET value = 200 WHERE id = 2");
    b.run("COMMIT");
    a.run("UPDATE test SET value = value + 1 WHERE id = 1");
    assert_eq!(a.lines("SELECT * FROM test ORDER BY id"), ["1|101", "2|20"]);
    a.run("COMMIT");
    assert_eq!(w.final_state(), ["1|101", "2|200"]);
}

/// G2-item, write skew. MySQL: allowed at both levels. Esker: same.
#[test]
fn write_skew_is_possible() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        assert_eq!(a.lines("SELECT * FROM test WHERE id IN (1, 2)").len(), 2);
        assert_eq!(b.lines("SELECT * FROM test WHERE id IN (1, 2)").len(), 2);
        a.run("UPDATE test SET value = 11 WHERE id = 1");
        b.run("UPDATE test SET value = 21 WHERE id = 2");
        a.run("COMMIT");
        b.run("COMMIT");
        assert_eq!(w.final_state(), ["1|11", "2|21"], "{level}");
    }
}

/// G2, anti-dependency cycle over a predicate. MySQL: allowed at both levels with plain reads.
/// Esker: same.
#[test]
fn predicate_write_skew_is_possible() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        assert!(a.lines("SELECT * FROM test WHERE value % 3 = 0").is_empty());
        assert!(b.lines("SELECT * FROM test WHERE value % 3 = 0").is_empty());
        a.run("INSERT INTO test VALUES (3, 30)");
        b.run("INSERT INTO test VALUES (4, 42)");
        a.run("COMMIT");
        b.run("COMMIT");
        assert_eq!(w.final_state(), ["1|10", "2|20", "3|30", "4|42"], "{level}");
    }
}

/// Phantoms in locking reads. MySQL: REPEATABLE READ locks gaps, so the insert waits; READ COMMITTED does not. Esker:
/// same.
#[test]
fn locking_reads_lock_gaps_at_repeatable_read() {
    let w = World::new();
    for query in [
        "SELECT * FROM test WHERE value > 20 FOR UPDATE",
        "SELECT * FROM test WHERE value > 20 FOR SHARE",
        "SELECT * FROM test WHERE id > 2 FOR UPDATE",
        "SELECT * FROM test WHERE value + 0 > 20 FOR UPDATE",
        "UPDATE test SET value = 0 WHERE value > 20",
        "DELETE FROM test WHERE id > 2",
    ] {
        let (mut a, mut b) = w.begin(LEVELS[0]);
        a.run(query);
        assert_eq!(b.code("INSERT INTO test VALUES (3, 30)"), None, "{query}");
        a.run("COMMIT");
        b.run("COMMIT");
        let (mut a, b) = w.begin(LEVELS[1]);
        a.run(query);
        let (mut b, code) = w.waits(b, "INSERT INTO test VALUES (3, 30)", || {
            a.run(query);
            assert_eq!(a.lines("SELECT id FROM test"), ["1", "2"], "{query}");
            a.run("COMMIT");
        });
        assert_eq!(code, None, "{query}");
        b.run("COMMIT");
        assert_eq!(w.final_state().last().unwrap(), "3|30", "{query}");
    }
}

/// Rows that somebody has inserted and not committed. MySQL: locking reads, DELETE, and UPDATE by a secondary index
/// wait for them at every level; an UPDATE by the clustered index only at REPEATABLE READ. Esker: same.
#[test]
fn uncommitted_inserts_are_waited_for() {
    let w = World::new();
    for level in LEVELS {
        for query in [
            "UPDATE test SET value = 31 WHERE value = 30",
            "UPDATE test SET value = 31 WHERE value BETWEEN 25 AND 35",
            "SELECT * FROM test WHERE value = 30 FOR SHARE",
            "SELECT * FROM test ORDER BY id DESC FOR UPDATE",
            "SELECT * FROM test WHERE id = 3 FOR SHARE",
            "DELETE FROM test WHERE id > 2",
        ] {
            let (mut a, b) = w.begin(level);
            a.run("INSERT INTO test VALUES (3, 30)");
            let (mut b, code) = w.waits(b, query, || a.run("COMMIT"));
            assert_eq!(code, None, "{level}: {query}");
            b.run("COMMIT");
            let is_kept = query.starts_with("SELECT") && w.final_state().len() == 3;
            let is_deleted = query.starts_with("DELETE") && w.final_state().len() == 2;
            let is_updated = w.final_state().last().unwrap() == "3|31";
            assert!(is_kept || is_deleted || is_updated, "{level}: {query}");
        }
    }
    let (mut a, mut b) = w.begin(LEVELS[0]);
    a.run("INSERT INTO test VALUES (3, 30)");
    assert_eq!(
        b.code("UPDATE test SET value = 0 WHERE value + 0 = 30"),
        None
    );
}

/// "Look, and insert if there is none", twice at once. MySQL: both look, since gaps do not conflict; the first insert
/// waits, the second is a deadlock. Esker: same.
#[test]
fn who_inserts_into_the_gap_of_another_is_a_deadlock() {
    let w = World::new();
    for look in [
        "SELECT * FROM test WHERE value = 30 FOR UPDATE",
        "SELECT * FROM test WHERE id = 3 FOR UPDATE",
        "DELETE FROM test WHERE id = 3",
    ] {
        let (mut a, mut b) = w.begin(LEVELS[1]);
        a.run(look);
        b.run(look);
        let (mut a, code) = w.waits(a, "INSERT INTO test VALUES (3, 30)", || {
            assert_eq!(
                b.code("INSERT INTO test VALUES (3, 30)"),
                Some(1213),
                "{look}"
            );
        });
        assert_eq!(code, None, "{look}");
        a.run("COMMIT");
        assert_eq!(w.final_state().len(), 3, "{look}");
    }
}

/// G2-item and G2 at SERIALIZABLE. MySQL: plain reads lock, so write skew is a deadlock or a wait. Esker: same.
#[test]
fn write_skew_is_prevented_at_serializable() {
    let w = World::new();
    for (read, write_a, write_b) in [
        (
            "SELECT * FROM test WHERE id IN (1, 2)",
            "UPDATE test SET value = 11 WHERE id = 1",
            "UPDATE test SET value = 21 WHERE id = 2",
        ),
        (
            "SELECT * FROM test WHERE value % 3 = 0",
            "INSERT INTO test VALUES (3, 30)",
            "INSERT INTO test VALUES (4, 42)",
        ),
        (
            "SELECT SUM(value) FROM test WHERE value BETWEEN 20 AND 40",
            "UPDATE test SET value = 30 WHERE id = 1",
            "INSERT INTO test VALUES (4, 40)",
        ),
    ] {
        let (mut a, mut b) = w.begin("SERIALIZABLE");
        a.run(read);
        b.run(read);
        let (_a, code) = w.waits(a, write_a, || {
            assert_eq!(b.code(write_b), Some(1213), "{write_b}");
        });
        assert_eq!(code, None, "{write_a}");
    }
}

/// SET TRANSACTION without a scope is for the next transaction only. Esker: same.
#[test]
fn one_transaction_may_be_serializable() {
    let w = World::new();
    let (mut a, b) = w.begin(LEVELS[1]);
    let write = "UPDATE test SET value = 0 WHERE id = 1";
    a.run("COMMIT; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; SELECT * FROM test");
    let (b, code) = w.waits(b, write, || a.run("COMMIT; BEGIN; SELECT * FROM test"));
    assert_eq!(code, None);
    drop(b);
    let mut b = w.server.connect();
    assert_eq!(b.code("UPDATE d.test SET value = 1 WHERE id = 2"), None);
}

/// How long SET TRANSACTION and `SET @@transaction_isolation` last. MySQL: up to the end of the next transaction, or to
/// SET SESSION TRANSACTION. Esker: same.
#[test]
fn characteristics_of_the_next_transaction_end_with_it() {
    let cases: [(&[&str], bool); 12] = [
        (&["SET @n = 1", "SELECT 1", "SELECT nosuch", "BEGIN"], true),
        (&["SET TRANSACTION READ WRITE", "BEGIN"], true),
        (&["BEGIN", "COMMIT AND CHAIN"], true),
        (&["BEGIN", "ROLLBACK AND CHAIN"], true),
        (
            &[
                "BEGIN",
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            ],
            true,
        ),
        (&["SET autocommit = 0"], true),
        (&["COMMIT", "BEGIN"], false),
        (&["SELECT * FROM test", "BEGIN"], false),
        (&["CREATE TABLE u (a INT)", "DROP TABLE u", "BEGIN"], false),
        (
            &[
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                "BEGIN",
            ],
            false,
        ),
        (&["BEGIN", "TRUNCATE other", "SET autocommit = 0"], false),
        (&["BEGIN", "COMMIT", "BEGIN"], false),
    ];
    let w = World::new();
    let mut b = w.server.connect();
    b.run("CREATE TABLE d.test (a INT); USE d; CREATE TABLE other (a INT)");
    let once = [
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET @@transaction_isolation = 'READ-COMMITTED'",
    ];
    for (set, (statements, sees)) in once.into_iter().flat_map(|s| cases.map(|c| (s, c))) {
        let mut a = w.server.connect();
        a.run("USE d; SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
        a.run(set);
        for statement in statements {
            let _ = a.code(statement);
        }
        let rows = "SELECT COUNT(*) FROM other";
        let before = a.value(rows);
        b.run("INSERT INTO other VALUES (1)");
        assert_eq!(a.value(rows) != before, sees, "{set}; {statements:?}");
    }
}

/// What a change depends on is read in its newest state and locked. MySQL: S locks, except that INSERT … SELECT and
/// subqueries of an UPDATE of one table take none at READ COMMITTED. Esker: same.
#[test]
fn sources_of_changes_are_read_anew_and_locked() {
    let w = World::new();
    for (statement, locks_at_read_committed) in [
        (
            "INSERT INTO sink SELECT value FROM test WHERE id = 1",
            false,
        ),
        (
            "REPLACE INTO sink SELECT value FROM test WHERE id = 1",
            false,
        ),
        (
            "UPDATE sink SET x = (SELECT value FROM test WHERE id = 1)",
            false,
        ),
        (
            "UPDATE sink JOIN test ON test.id = 1 SET x = test.value",
            true,
        ),
        (
            "INSERT INTO sink VALUES ((SELECT value FROM test WHERE id = 1))",
            true,
        ),
        (
            "DELETE FROM sink WHERE x <> (SELECT value FROM test WHERE id = 1)",
            true,
        ),
    ] {
        for level in LEVELS {
            let (mut a, mut b) = w.begin(level);
            b.run(
                "CREATE TABLE IF NOT EXISTS sink (x INT); DELETE FROM sink; \
                 INSERT INTO sink VALUES (1); COMMIT; BEGIN",
            );
            // The snapshot is older than what the change has to read.
            a.run("SELECT * FROM test");
            b.run("UPDATE test SET value = 77 WHERE id = 1; COMMIT; BEGIN");
            a.run(statement);
            let is_deleted = statement.starts_with("DELETE");
            let expected = if is_deleted { "0" } else { "1" };
            let count = a.value("SELECT COUNT(*) FROM sink WHERE x = 77");
            assert_eq!(count, expected, "{level}: {statement}");
            let write = "UPDATE test SET value = 78 WHERE id = 1";
            if level == LEVELS[1] || locks_at_read_committed {
                let (_b, code) = w.waits(b, write, || a.run("ROLLBACK"));
                assert_eq!(code, None, "{level}: {statement}");
            } else {
                assert_eq!(b.code(write), None, "{level}: {statement}");
            }
        }
    }
}

/// Which tables a locking clause is for. MySQL: those of its block, and of views that it names; of a UNION the last
/// SELECT; not those of derived tables and subqueries. Esker: same.
#[test]
fn locking_clauses_reach_into_views_and_the_last_branch() {
    let w = World::new();
    w.begin(LEVELS[1]).0.run(
        "CREATE VIEW one AS SELECT * FROM test WHERE id = 1; \
         CREATE VIEW sums AS SELECT SUM(value) AS s FROM test WHERE id = 1",
    );
    for (query, is_locked) in [
        ("SELECT * FROM one FOR UPDATE", true),
        ("SELECT * FROM one FOR UPDATE OF one", true),
        ("SELECT * FROM sums FOR UPDATE", true),
        (
            "SELECT 1 UNION SELECT value FROM test WHERE id = 1 FOR UPDATE",
            true,
        ),
        (
            "SELECT value FROM test WHERE id = 1 UNION SELECT 1 FOR UPDATE",
            false,
        ),
        (
            "SELECT * FROM (SELECT * FROM test WHERE id = 1) t FOR UPDATE",
            false,
        ),
        (
            "SELECT * FROM test WHERE id = 2 AND 10 = (SELECT value FROM test WHERE id = 1) FOR UPDATE",
            false,
        ),
    ] {
        let (mut a, mut b) = w.begin(LEVELS[1]);
        a.run(query);
        let code = b.code("SELECT * FROM test WHERE id = 1 FOR SHARE NOWAIT");
        assert_eq!(code.is_some(), is_locked, "{query}");
    }
}

/// Who has locked what, and who waits for whom. MySQL: performance_schema.data_locks and data_lock_waits, SHOW ENGINE
/// INNODB STATUS. Esker: the same columns in information_schema.
#[test]
fn locks_and_waits_are_shown() {
    let w = World::new();
    let (mut a, b) = w.begin(LEVELS[1]);
    a.run("SELECT * FROM test WHERE id > 1 FOR UPDATE");
    let mut watcher = w.server.connect();
    let locks = "SELECT OBJECT_SCHEMA, OBJECT_NAME, INDEX_NAME, LOCK_MODE, LOCK_STATUS, LOCK_DATA \
                 FROM information_schema.ESKER_DATA_LOCKS ORDER BY LOCK_MODE";
    assert_eq!(
        watcher.lines(locks),
        [
            "d|test|PRIMARY|X|GRANTED|[2 .. 2]",
            "d|test|PRIMARY|X,GAP|GRANTED|[2 .. supremum pseudo-record)",
        ]
    );
    let (_b, code) = w.waits(b, "INSERT INTO test VALUES (3, 30)", || {
        let found = watcher.lines(locks);
        let waiting = "d|test|PRIMARY|X,GAP,INSERT_INTENTION|WAITING|3";
        assert!(found.iter().any(|line| line == waiting), "{found:?}");
        let pairs = watcher.lines(
            "SELECT COUNT(*) FROM information_schema.ESKER_DATA_LOCK_WAITS w \
             JOIN information_schema.PROCESSLIST p ON p.ID = w.REQUESTING_THREAD_ID \
             WHERE p.INFO LIKE 'INSERT%' AND BLOCKING_THREAD_ID <> REQUESTING_THREAD_ID",
        );
        assert_eq!(pairs, ["1"]);
        let status = watcher.lines("SHOW ENGINE INNODB STATUS").join("\n");
        let wanted = "lock_mode X locks gap before rec insert intention waiting\nRecord lock, heap no 0: 3\n";
        assert!(status.contains(wanted), "{status}");
        assert!(status.contains("WAITS FOR"));
        a.run("COMMIT");
    });
    assert_eq!(code, None);
}

/// Deadlock. MySQL: one victim gets 1213 and is rolled back, the other goes on. Esker: same.
#[test]
fn a_deadlock_has_one_victim() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        a.run("UPDATE test SET value = 11 WHERE id = 1");
        b.run("UPDATE test SET value = 22 WHERE id = 2");
        let first = std::thread::spawn(move || {
            let code = a.code("UPDATE test SET value = 12 WHERE id = 2");
            (a, code)
        });
        let mut watcher = w.server.connect();
        eventually("it waits", || watcher.value(LOCK_WAITS) == "1");
        let second = b.code("UPDATE test SET value = 21 WHERE id = 1");
        let (mut a, first) = first.join().expect("no panic");
        let codes = [first, second];
        assert!(
            codes == [Some(1213), None] || codes == [None, Some(1213)],
            "{level}: {codes:?}"
        );
        a.run("COMMIT");
        b.run("COMMIT");
        let want = if first.is_none() {
            ["1|11", "2|12"]
        } else {
            ["1|21", "2|22"]
        };
        assert_eq!(w.final_state(), want, "{level}");
    }
}

/// NOWAIT, SKIP LOCKED and the lock wait timeout. MySQL: 3572, the other rows, 1205 with only the
/// statement undone. Esker: same.
#[test]
fn locks_that_are_not_waited_for() {
    let w = World::new();
    let (mut a, mut b) = w.begin(LEVELS[1]);
    a.run("UPDATE test SET value = 11 WHERE id = 1");
    assert_eq!(
        b.code("SELECT * FROM test WHERE id = 1 FOR UPDATE NOWAIT"),
        Some(3572)
    );
    assert_eq!(b.lines("SELECT id FROM test FOR UPDATE SKIP LOCKED"), ["2"]);
    b.run("UPDATE test SET value = 23 WHERE id = 2; SET innodb_lock_wait_timeout = 1");
    assert_eq!(
        b.code("UPDATE test SET value = 24 WHERE id = 1"),
        Some(1205)
    );
    b.run("COMMIT");
    a.run("ROLLBACK");
    assert_eq!(w.final_state(), ["1|10", "2|23"]);
}

/// Shared locks. MySQL: readers FOR SHARE do not block each other, a writer waits for them. Esker:
/// same.
#[test]
fn shared_locks_hold_off_writers_only() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        assert_eq!(
            a.value("SELECT value FROM test WHERE id = 1 FOR SHARE"),
            "10"
        );
        assert_eq!(
            b.value("SELECT value FROM test WHERE id = 1 FOR SHARE"),
            "10"
        );
        b.run("COMMIT; BEGIN");
        let (mut b, code) = w.waits(b, "UPDATE test SET value = 11 WHERE id = 1", || {
            a.run("COMMIT")
        });
        assert_eq!(code, None, "{level}");
        b.run("COMMIT");
    }
}

#[test]
fn a_global_read_lock_is_granted_beside_an_open_transaction_whose_commit_waits() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path(), &[]);
    let (mut writer, mut backup) = (server.connect(), server.connect());
    writer
        .run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); SET lock_wait_timeout = 1");
    backup.run("SET lock_wait_timeout = 1");
    let endings = [
        "COMMIT",
        "BEGIN",
        "CREATE TABLE d.u (id INT)",
        "SET autocommit = 1",
        "LOCK TABLES d.t READ",
        "XA COMMIT 'x' ONE PHASE",
    ];
    for (id, ending) in endings.into_iter().enumerate() {
        let is_xa = ending.starts_with("XA");
        match (is_xa, ending.contains("autocommit")) {
            (true, _) => writer.run("XA START 'x'"),
            (_, true) => writer.run("SET autocommit = 0"),
            _ => writer.run("BEGIN"),
        }
        writer.run(&format!("INSERT INTO d.t VALUES ({id})"));
        if is_xa {
            writer.run("XA END 'x'");
        }
        assert_eq!(backup.code("FLUSH TABLES WITH READ LOCK"), None, "{ending}");
        assert_eq!(writer.code(ending), Some(1205), "{ending}");
        if !is_xa {
            // More of it waits as well, and reads go on.
            let more = writer.code(&format!("INSERT INTO d.t VALUES ({})", id + 100));
            assert_eq!(more, Some(1205), "{ending}");
            assert_eq!(
                writer.value("SELECT COUNT(*) FROM d.t"),
                (id + 1).to_string()
            );
        }
        assert_eq!(backup.value("SELECT COUNT(*) FROM d.t"), id.to_string());
        backup.run("UNLOCK TABLES");
        assert_eq!(writer.code(ending), None, "{ending}");
        writer.run("UNLOCK TABLES; COMMIT; SET autocommit = 1; DROP TABLE IF EXISTS d.u");
        assert_eq!(
            backup.value("SELECT COUNT(*) FROM d.t"),
            (id + 1).to_string()
        );
    }
    // One that commits by itself is over before the lock is granted, or begins when it is gone.
    backup.run("FLUSH TABLES WITH READ LOCK");
    assert_eq!(writer.code("INSERT INTO d.t VALUES (50)"), Some(1205));
    backup.run("UNLOCK TABLES");
    assert_eq!(writer.code("INSERT INTO d.t VALUES (50)"), None);
}

#[test]
fn innodb_trx_shows_what_transactions_hold_and_wait_for() {
    let world = World::new();
    let (mut one, mut two) = world.begin("SERIALIZABLE");
    let id = one.value("SELECT CONNECTION_ID()");
    one.run("UPDATE test SET value = 11 WHERE id = 1; INSERT INTO test VALUES (3, 30), (4, 40)");
    let mut root = world.server.connect();
    let shown = |root: &mut Client, columns: &str, id: &str| {
        let select =
            format!("SELECT {columns} FROM information_schema.INNODB_TRX WHERE trx_id = {id}");
        root.value(&select)
    };
    let terms = "CONCAT_WS(' ', trx_state, trx_rows_modified, trx_tables_locked, trx_isolation_level, \
                 trx_unique_checks, trx_foreign_key_checks, trx_is_read_only, trx_mysql_thread_id = trx_id)";
    assert_eq!(
        shown(&mut root, terms, &id),
        "RUNNING 3 1 SERIALIZABLE 1 1 0 1"
    );
    assert_ne!(shown(&mut root, "trx_rows_locked", &id), "0");
    let other = two.value("SELECT CONNECTION_ID()");
    let handle = std::thread::spawn(move || two.code("DELETE FROM test WHERE id = 3"));
    eventually("it waits", || root.value(LOCK_WAITS) == "1");
    let waits_for = "SELECT COUNT(*) FROM information_schema.INNODB_TRX t JOIN information_schema.ESKER_DATA_LOCKS l \
                     ON l.ENGINE_LOCK_ID = t.trx_requested_lock_id WHERE l.LOCK_STATUS = 'WAITING'";
    assert_eq!(root.value(waits_for), "1");
    assert_eq!(shown(&mut root, "trx_wait_started IS NULL", &other), "0");
    one.run("ROLLBACK");
    assert_eq!(handle.join().expect("no panic"), None);
    one.run("SET unique_checks = 0, foreign_key_checks = 0; START TRANSACTION READ ONLY; SELECT * FROM test");
    assert_eq!(
        shown(&mut root, terms, &id),
        "RUNNING 0 1 SERIALIZABLE 0 0 1 1"
    );
}
