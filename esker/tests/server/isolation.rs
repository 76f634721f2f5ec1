//! What two transactions see of each other, at READ COMMITTED and REPEATABLE READ.
//!
//! Every test says what MySQL (InnoDB) does and whether Esker does the same. The cases follow
//! Hermitage (Martin Kleppmann) and Adya's phenomena.

use std::time::Duration;

use crate::common::{Ask, Server};
use esker_server::client::Client;

const LEVELS: [&str; 2] = ["READ COMMITTED", "REPEATABLE READ"];

struct World {
    server: Server,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("folder");
        let server = Server::start(dir.path(), &["--skip-ssl", "--innodb-lock-wait-timeout=5"]);
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
}

/// Runs `sql` on a thread and checks that it waits until `unblock` has run.
fn waits(mut c: Client, sql: &'static str, unblock: impl FnOnce()) -> (Client, Option<u16>) {
    let handle = std::thread::spawn(move || {
        let code = c.code(sql);
        (c, code)
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(!handle.is_finished(), "{sql} did not wait");
    unblock();
    handle.join().expect("no panic")
}

/// G0, dirty write. MySQL: prevented at both levels, the second writer waits. Esker: same.
#[test]
fn dirty_write_is_prevented() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, b) = w.begin(level);
        a.run("UPDATE test SET value = 11 WHERE id = 1");
        let (mut b, code) = waits(b, "UPDATE test SET value = 12 WHERE id = 1", || {
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
        let (mut b, code) = waits(b, "UPDATE test SET value = 12 WHERE id = 1", || {
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
        let (mut b, code) = waits(b, "DELETE FROM test WHERE value = 20", || a.run("COMMIT"));
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
        let (mut b, code) = waits(b, "SELECT value FROM test WHERE id = 1 FOR UPDATE", || {
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

/// Phantoms in locking reads. MySQL: REPEATABLE READ locks gaps, so the insert waits; READ COMMITTED
/// does not. Esker: has no gap locks, the insert goes through at both levels. This is the one case
/// that differs.
#[test]
fn locking_reads_do_not_lock_gaps() {
    let w = World::new();
    for level in LEVELS {
        let (mut a, mut b) = w.begin(level);
        assert!(
            a.lines("SELECT * FROM test WHERE value > 20 FOR UPDATE")
                .is_empty()
        );
        assert_eq!(b.code("INSERT INTO test VALUES (3, 30)"), None);
        b.run("COMMIT");
        assert_eq!(
            a.lines("SELECT * FROM test WHERE value > 20 FOR UPDATE"),
            ["3|30"],
            "{level}"
        );
    }
}

/// A key that is not there, asked for by its whole value. MySQL: at REPEATABLE READ its gap is locked, so nobody
/// else inserts it. Esker: the key is locked, and who asks for it next waits. At READ COMMITTED neither is.
#[test]
fn an_absent_key_is_locked_at_repeatable_read() {
    let w = World::new();
    w.begin(LEVELS[1])
        .0
        .run("CREATE TABLE absent (id INT PRIMARY KEY, u INT, v INT, UNIQUE (u))");
    for statement in [
        "DELETE FROM absent WHERE id = 5",
        "UPDATE absent SET v = 1 WHERE id = 5",
        "SELECT * FROM absent WHERE id = 5 FOR UPDATE",
        "SELECT * FROM absent WHERE u = 50 FOR UPDATE",
        "DELETE FROM absent WHERE u = 50",
    ] {
        for level in LEVELS {
            let (mut a, mut b) = w.begin(level);
            a.run(statement);
            if level == LEVELS[0] {
                assert_eq!(
                    b.code("INSERT INTO absent VALUES (5, 50, 0)"),
                    None,
                    "{statement}"
                );
                b.run("ROLLBACK");
                continue;
            }
            // Both take it away and put it there: the second sees what the first has left.
            let (mut b, code) = waits(b, statement, || {
                a.run("INSERT INTO absent VALUES (5, 50, 1); COMMIT");
            });
            assert_eq!(code, None, "{statement}");
            b.run("DELETE FROM absent WHERE id = 5; INSERT INTO absent VALUES (5, 50, 2); COMMIT");
            let (mut a, _b) = w.begin(level);
            assert_eq!(
                a.lines("SELECT id, u, v FROM absent"),
                ["5|50|2"],
                "{statement}"
            );
            a.run("DELETE FROM absent; COMMIT");
        }
    }
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
        std::thread::sleep(Duration::from_millis(200));
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
        let (mut b, code) = waits(b, "UPDATE test SET value = 11 WHERE id = 1", || {
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
