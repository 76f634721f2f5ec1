//! What kill -9 and restarts do to XA transactions: nothing that was answered is lost, nothing else is there, and what
//! is prepared keeps its rows and its tables until it is decided.

use std::collections::BTreeSet;

use crate::common::{Ask, Server};

fn server(table: &str) -> (Server, tempfile::TempDir) {
    server_with(&[], table)
}

fn server_with(more: &[&str], table: &str) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let args = [&["--skip-ssl", "--innodb-lock-wait-timeout=1"], more].concat();
    let server = Server::start(dir.path(), &args);
    server
        .connect()
        .run(&format!("CREATE DATABASE d; USE d; {table}"));
    (server, dir)
}

fn crash(server: &mut Server) {
    server.kill();
    server.restart();
}

const ROWS: &str = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, KEY v (v));
                    INSERT INTO t VALUES (1,1),(2,2),(3,3)";

/// An identifier with bytes that are no text.
const XID: &str = "0x00ff27,0x80,0x7fffffff";

const STEPS: [&str; 6] = [
    "XA START",
    "UPDATE d.t SET v = v + 10 WHERE id = 1",
    "INSERT INTO d.t VALUES (4, 4)",
    "XA END",
    "XA PREPARE",
    "XA COMMIT",
];

#[test]
fn kill_9_between_every_two_steps() {
    kill_between_steps(&[]);
}

#[test]
fn kill_9_between_every_two_steps_where_the_binary_log_decides() {
    kill_between_steps(&["--log-bin=ON", "--esker-binlog-commit=TWO-PHASE"]);
}

fn kill_between_steps(more: &[&str]) {
    let (mut server, _dir) = server_with(more, ROWS);
    let before = ["1|1", "2|2", "3|3"];
    for done in 1..=STEPS.len() {
        let mut c = server.connect();
        for step in &STEPS[..done] {
            match step.strip_prefix("XA") {
                Some(_) => c.run(&format!("{step} {XID}")),
                None => c.run(step),
            }
        }
        crash(&mut server);
        let mut c = server.connect();
        let rows = "SELECT id, v FROM d.t ORDER BY id";
        let listed = c.lines("XA RECOVER CONVERT XID");
        match STEPS[done - 1] {
            "XA PREPARE" => {
                assert_eq!(listed, ["2147483647|3|1|0x00FF2780"]);
                assert_eq!(c.lines(rows), before);
                for sql in [
                    "UPDATE d.t SET v = 0 WHERE id = 1",
                    "INSERT INTO d.t VALUES (4, 0)",
                ] {
                    assert_eq!(c.code(sql), Some(1205), "{sql}");
                }
                c.run("UPDATE d.t SET v = 2 WHERE id = 2");
                // A crash after the decision's answer does not take it back, whichever it was.
                c.run(&format!("XA ROLLBACK {XID}"));
                crash(&mut server);
                let mut c = server.connect();
                assert!(c.rows("XA RECOVER").is_empty());
                assert_eq!(c.lines(rows), before);
                c.run("UPDATE d.t SET v = 1 WHERE id = 1");
            }
            "XA COMMIT" => {
                assert!(listed.is_empty());
                assert_eq!(c.lines(rows), ["1|11", "2|2", "3|3", "4|4"]);
                assert_eq!(
                    c.lines("SELECT id FROM d.t FORCE INDEX (v) WHERE v IN (1, 11)"),
                    ["1"]
                );
            }
            _ => {
                assert!(listed.is_empty(), "after {}", STEPS[done - 1]);
                assert_eq!(c.lines(rows), before);
                c.run("UPDATE d.t SET v = 1 WHERE id = 1");
            }
        }
    }
}

#[test]
fn an_identifier_used_again_is_another_transaction() {
    let (mut server, _dir) = server(ROWS);
    let mut c = server.connect();
    let prepare = |id: u32| {
        format!(
            "XA START 'x'; UPDATE d.t SET v = {id}0 WHERE id = {id}; XA END 'x'; XA PREPARE 'x'"
        )
    };
    c.run(&prepare(1));
    c.run("XA COMMIT 'x'");
    c.run(&prepare(2));
    c.run("XA ROLLBACK 'x'");
    c.run(&prepare(3));
    // More than one restart, the second with nothing in between.
    crash(&mut server);
    crash(&mut server);
    let mut c = server.connect();
    assert_eq!(c.lines("XA RECOVER"), ["1|1|0|x"]);
    assert_eq!(c.lines("SELECT v FROM d.t ORDER BY id"), ["10", "2", "3"]);
    c.run("UPDATE d.t SET v = 1 WHERE id = 1");
    assert_eq!(c.code("UPDATE d.t SET v = 0 WHERE id = 3"), Some(1205));
    c.run("XA COMMIT 'x'");
    c.run(&prepare(2));
    crash(&mut server);
    let mut c = server.connect();
    assert_eq!(c.lines("SELECT v FROM d.t ORDER BY id"), ["1", "2", "30"]);
    c.run("XA COMMIT 'x'");
    // A clean stop keeps what is prepared, too.
    c.run(&prepare(1));
    server.stop();
    server.restart();
    let mut c = server.connect();
    assert_eq!(c.lines("SELECT v FROM d.t ORDER BY id"), ["1", "20", "30"]);
    c.run("XA COMMIT 'x'");
    assert_eq!(c.lines("SELECT v FROM d.t ORDER BY id"), ["10", "20", "30"]);
    assert!(c.rows("XA RECOVER").is_empty());
}

#[test]
fn numbers_that_a_prepared_transaction_drew_stay_drawn() {
    let (mut server, _dir) = server("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)");
    let mut c = server.connect();
    c.run("INSERT INTO d.t (v) VALUES (1), (2)");
    c.run("XA START 'x'; INSERT INTO d.t (v) VALUES (3), (4); XA END 'x'; XA PREPARE 'x'");
    crash(&mut server);
    let mut c = server.connect();
    c.run("INSERT INTO d.t (v) VALUES (5)");
    let next: u32 = c.value("SELECT LAST_INSERT_ID()").parse().expect("number");
    assert!(next > 4, "{next} was drawn before");
    c.run("XA COMMIT 'x'");
    assert_eq!(c.lines("SELECT v FROM d.t WHERE id IN (3, 4)"), ["3", "4"]);
    c.run(
        "XA START 'x'; INSERT INTO d.t (v) VALUES (6); XA END 'x'; XA PREPARE 'x'; XA ROLLBACK 'x'",
    );
    crash(&mut server);
    let mut c = server.connect();
    c.run("INSERT INTO d.t (v) VALUES (7)");
    let after: u32 = c.value("SELECT LAST_INSERT_ID()").parse().expect("number");
    assert!(after > next + 1, "{after} was drawn before");
}

/// No schema change comes between a transaction's preparation and its decision, before or after a restart.
#[test]
fn a_prepared_transaction_keeps_its_tables() {
    let (mut server, _dir) = server(ROWS);
    let mut c = server.connect();
    c.run("CREATE TABLE d.free (id INT PRIMARY KEY)");
    c.run("XA START 'x'; INSERT INTO d.t VALUES (4, 4); XA END 'x'; XA PREPARE 'x'");
    for restarted in [false, true] {
        if restarted {
            crash(&mut server);
        }
        let mut c = server.connect();
        for sql in [
            "ALTER TABLE d.t NOWAIT ADD COLUMN z INT",
            "ALTER TABLE d.t NOWAIT DROP INDEX v",
            "DROP TABLE d.t NOWAIT",
            "TRUNCATE TABLE d.t NOWAIT",
            "RENAME TABLE d.t NOWAIT TO d.u",
            "LOCK TABLES d.t WRITE NOWAIT",
            "SET lock_wait_timeout = 1; DROP DATABASE d",
        ] {
            assert_eq!(c.code(sql), Some(1205), "{sql}, restarted: {restarted}");
        }
        // Everything else goes on.
        c.run("ALTER TABLE d.free ADD COLUMN z INT; ALTER TABLE d.free DROP COLUMN z");
        c.run("UPDATE d.t SET v = 5 WHERE id = 1; FLUSH TABLES WITH READ LOCK; UNLOCK TABLES");
    }
    let mut c = server.connect();
    c.run("XA COMMIT 'x'; ALTER TABLE d.t NOWAIT ADD COLUMN z INT DEFAULT 6");
    assert_eq!(c.lines("SELECT * FROM d.t WHERE id = 4"), ["4|4|6"]);
    c.run("XA START 'x'; DELETE FROM d.t; XA END 'x'; XA PREPARE 'x'");
    crash(&mut server);
    let mut c = server.connect();
    c.run("XA ROLLBACK 'x'; DROP TABLE d.t NOWAIT");
}

/// Prepared transactions of 3,000 identifiers: all are found again, with their locks, and decided by many sessions.
#[test]
fn thousands_of_prepared_transactions() {
    const MANY: usize = 3000;
    const SESSIONS: usize = 4;
    let (mut server, _dir) = server("CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY v (v))");
    let xid = |n: usize| format!("0x{n:08x},'many',{}", n % 7);
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let server = &server;
            scope.spawn(move || {
                let mut c = server.connect();
                for n in (session..MANY).step_by(SESSIONS) {
                    let x = xid(n);
                    c.run(&format!(
                        "XA START {x}; INSERT INTO d.t VALUES ({n}, {n}); XA END {x}; XA PREPARE {x}"
                    ));
                }
            });
        }
    });
    crash(&mut server);
    let mut c = server.connect();
    let listed = |c: &mut esker_server::client::Client| -> BTreeSet<String> {
        c.lines("XA RECOVER CONVERT XID").into_iter().collect()
    };
    let wanted: BTreeSet<String> = (0..MANY)
        .map(|n| format!("{}|4|4|0x{n:08X}6D616E79", n % 7))
        .collect();
    assert_eq!(listed(&mut c), wanted);
    assert_eq!(c.value("SELECT COUNT(*) FROM d.t"), "0");
    c.run("SET SESSION innodb_lock_wait_timeout = 1");
    for n in [0, MANY / 2, MANY - 1] {
        assert_eq!(
            c.code(&format!("INSERT INTO d.t VALUES ({n}, 0)")),
            Some(1205),
            "{n}"
        );
    }
    assert_eq!(c.code("TRUNCATE TABLE d.t NOWAIT"), Some(1205));
    // Half are decided, then the server dies again.
    let decide = |server: &Server, from: usize, to: usize| {
        std::thread::scope(|scope| {
            for session in 0..SESSIONS {
                scope.spawn(move || {
                    let mut c = server.connect();
                    for n in (from + session..to).step_by(SESSIONS) {
                        let verb = if n % 3 == 0 { "ROLLBACK" } else { "COMMIT" };
                        c.run(&format!("XA {verb} {}", xid(n)));
                    }
                });
            }
        });
    };
    decide(&server, 0, MANY / 2);
    crash(&mut server);
    let mut c = server.connect();
    assert_eq!(listed(&mut c).len(), MANY / 2);
    decide(&server, MANY / 2, MANY);
    let expected = (0..MANY).filter(|n| n % 3 != 0).count().to_string();
    for by in ["", "FORCE INDEX (v) WHERE v >= 0"] {
        assert_eq!(c.value(&format!("SELECT COUNT(*) FROM d.t {by}")), expected);
    }
    assert_eq!(c.value("SELECT COUNT(*) FROM d.t WHERE id % 3 = 0"), "0");
    assert!(listed(&mut c).is_empty());
    c.run("TRUNCATE TABLE d.t NOWAIT");
}

#[test]
fn what_is_prepared_keeps_its_ranges() {
    let (mut server, _dir) = server(ROWS);
    let mut c = server.connect();
    c.run("INSERT INTO d.t VALUES (1000, 1000)");
    let run: Vec<String> = (101..=200).map(|id| format!("({id}, {id})")).collect();
    c.run(&format!("XA START {XID}"));
    // Rows that one lock is for, and a gap.
    c.run(&format!("INSERT INTO d.t VALUES {}", run.join(", ")));
    assert!(
        c.lines("SELECT id FROM d.t WHERE id BETWEEN 10 AND 20 FOR UPDATE")
            .is_empty()
    );
    c.run(&format!("XA END {XID}; XA PREPARE {XID}"));
    for crashed in [false, true] {
        if crashed {
            crash(&mut server);
        }
        let mut c = server.connect();
        for id in [15, 101, 150, 200] {
            let sql = format!("INSERT INTO d.t VALUES ({id}, 0)");
            assert_eq!(c.code(&sql), Some(1205), "{sql}, crashed: {crashed}");
        }
        let outside = if crashed { 201 } else { 2001 };
        c.run(&format!("INSERT INTO d.t VALUES ({outside}, 0)"));
    }
    let mut c = server.connect();
    c.run(&format!("XA COMMIT {XID}"));
    c.run("INSERT INTO d.t VALUES (15, 0)");
    assert_eq!(c.code("INSERT INTO d.t VALUES (150, 0)"), Some(1062));
    assert_eq!(
        c.lines("SELECT COUNT(*), MIN(id), MAX(id) FROM d.t WHERE v BETWEEN 101 AND 200"),
        ["100|101|200"]
    );
}
