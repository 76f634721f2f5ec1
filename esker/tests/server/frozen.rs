//! Settings and locks that keep everybody from writing: `read_only`, `super_read_only`, FLUSH TABLES WITH READ LOCK and
//! LOCK INSTANCE FOR BACKUP. What is refused, what waits, and that nothing comes behind them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path(), &["--log-bin=ON", "--gtid-mode=ON"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 1)");
    c.run("CREATE USER u IDENTIFIED BY 'p'; GRANT ALL ON *.* TO u WITH GRANT OPTION");
    c.run("REVOKE SUPER, CONNECTION_ADMIN ON *.* FROM u");
    (server, dir)
}

/// A session in the database.
fn session(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

/// They change what the server holds, and succeed one after the other.
const CHANGES: [&str; 26] = [
    "INSERT INTO t VALUES (2, 2)",
    "SELECT * FROM t WHERE a = 1 FOR UPDATE",
    "SELECT * FROM t WHERE a = 1 FOR UPDATE",
    "SELECT (SELECT b FROM t WHERE b = 1 FOR UPDATE)",
    "LOCK TABLES t WRITE",
    "CREATE TABLE u (a INT)",
    "CREATE TABLE v SELECT 1",
    "ALTER TABLE t COMMENT 'x'",
    "DROP TABLE IF EXISTS no_table",
    "OPTIMIZE TABLE t",
    "CREATE DATABASE IF NOT EXISTS d",
    "CREATE USER w",
    "ALTER USER w ACCOUNT LOCK",
    "RENAME USER w TO x",
    "GRANT SELECT ON d.* TO x",
    "REVOKE SELECT ON d.* FROM x",
    "SET PASSWORD FOR x = 'a'",
    "CREATE ROLE r",
    "GRANT r TO x",
    "SET DEFAULT ROLE r TO x",
    "DROP ROLE r",
    "DROP USER x",
    "CREATE VIEW w AS SELECT 1",
    "DROP PROCEDURE IF EXISTS no_procedure",
    "DROP EVENT IF EXISTS no_event",
    "CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO SELECT 1",
];

/// They change nothing that is replicated.
const OTHERS: [&str; 15] = [
    "SELECT * FROM t WHERE a = 1 FOR SHARE",
    "EXPLAIN SELECT * FROM t FOR UPDATE",
    "LOCK TABLES t READ",
    "UNLOCK TABLES",
    "CREATE TEMPORARY TABLE z (a INT)",
    "INSERT INTO z VALUES (1)",
    "ALTER TABLE z ADD b INT",
    "BEGIN",
    "INSERT INTO z VALUES (2, 2)",
    "COMMIT",
    "DROP TABLE z",
    "SET ROLE NONE",
    "FLUSH LOCAL TABLES",
    "FLUSH LOCAL STATUS",
    "SET GLOBAL max_connections = 151",
];

fn position(c: &mut Client) -> String {
    c.value("SELECT CONCAT(@@GLOBAL.gtid_executed, @@GLOBAL.super_read_only)")
}

#[test]
fn a_read_only_server_refuses_what_changes_anything() {
    let (server, _dir) = server();
    let mut root = server.connect();
    let settings = [
        // effect: read_only
        ("read_only", "--read-only"),
        ("super_read_only", "--super-read-only"),
    ];
    for (setting, option) in settings {
        let mut c = match setting {
            "read_only" => {
                Client::connect("127.0.0.1", server.port, "u", "p", Some("d")).expect("u")
            }
            _ => session(&server),
        };
        root.run(&format!("SET GLOBAL {setting} = ON"));
        let before = position(&mut root);
        let more = [
            "ANALYZE TABLE t",
            "EXPLAIN UPDATE t SET b = 3",
            "START TRANSACTION READ WRITE",
            "DROP TABLE no_table",
            "INSERT INTO no_table VALUES (1)",
        ];
        for sql in CHANGES.iter().chain(&more) {
            let e = c.error(sql);
            assert!(
                e.contains(&format!("with the {option} option")),
                "{sql}: {e}"
            );
        }
        OTHERS.iter().for_each(|sql| c.run(sql));
        assert_eq!(position(&mut root), before);
        root.run("SET GLOBAL read_only = OFF");
    }
    let mut c = session(&server);
    for sql in CHANGES {
        c.run(sql);
        c.run("UNLOCK TABLES");
    }
    // What is only prepared locks nothing yet.
    root.run("SET GLOBAL super_read_only = ON");
    c.run("PREPARE p FROM 'SELECT * FROM t FOR UPDATE'");
    assert_eq!(c.code("EXECUTE p"), Some(1290));
    root.run("SET GLOBAL read_only = OFF");
    c.run("LOCK TABLES t READ");
    assert_eq!(c.code("SELECT * FROM t FOR UPDATE"), Some(1099));
}

#[test]
fn what_is_open_when_a_server_becomes_read_only_rolls_back() {
    let (server, _dir) = server();
    let (mut root, mut c) = (session(&server), session(&server));
    let count = "SELECT COUNT(*) FROM t";
    for end in [
        "COMMIT",
        "BEGIN",
        "SET autocommit = 1",
        "XA COMMIT 'x' ONE PHASE",
    ] {
        match end {
            "SET autocommit = 1" => c.run("SET autocommit = 0"),
            "XA COMMIT 'x' ONE PHASE" => c.run("XA START 'x'"),
            _ => c.run("BEGIN"),
        }
        c.run("INSERT INTO t VALUES (2, 2)");
        if end.starts_with("XA") {
            c.run("XA END 'x'");
        }
        root.run("SET GLOBAL super_read_only = ON");
        if !end.starts_with("XA") {
            assert_eq!(c.code("CREATE TABLE u (a INT)"), Some(1290), "{end}");
            assert_eq!(
                c.value(count),
                "2",
                "a statement that is refused commits nothing"
            );
        }
        assert_eq!(c.code(end), Some(1290));
        assert_eq!(c.value(count), "1", "{end}");
        let autocommit = (end != "SET autocommit = 1") as u8;
        assert_eq!(c.value("SELECT @@autocommit"), autocommit.to_string());
        c.run("ROLLBACK; SET autocommit = 1");
        root.run("SET GLOBAL read_only = OFF");
    }
    // What is prepared has been promised.
    c.run("XA START 'x'; INSERT INTO t VALUES (2, 2); XA END 'x'; XA PREPARE 'x'");
    root.run("SET GLOBAL super_read_only = ON");
    c.run("XA COMMIT 'x'");
    assert_eq!(c.value(count), "2");
}

#[test]
fn read_only_waits_for_whoever_writes() {
    let (server, _dir) = server();
    let (mut root, mut c) = (session(&server), session(&server));
    root.run("SET lock_wait_timeout = 1");
    c.run("LOCK TABLES t WRITE");
    assert_eq!(root.code("SET GLOBAL read_only = ON"), Some(1205));
    assert_eq!(root.value("SELECT @@read_only"), "0");
    root.run("SET GLOBAL read_only = OFF, GLOBAL super_read_only = 0");
    c.run("LOCK TABLES t READ");
    root.run("SET GLOBAL super_read_only = ON; SET GLOBAL read_only = OFF");
    c.run("UNLOCK TABLES; FLUSH TABLES WITH READ LOCK");
    root.run("SET GLOBAL read_only = ON");
    c.run("SET GLOBAL super_read_only = ON; SET GLOBAL read_only = OFF; UNLOCK TABLES");
    for open in ["BEGIN", "LOCK TABLES t READ", "XA START 'x'"] {
        c.run(open);
        for set in ["GLOBAL super_read_only = ON", "PERSIST read_only = 0"] {
            assert_eq!(c.code(&format!("SET {set}")), Some(1192), "{open}: {set}");
        }
        c.run("SET GLOBAL super_read_only = DEFAULT");
        match open {
            "XA START 'x'" => c.run("XA END 'x'; XA ROLLBACK 'x'"),
            _ => c.run("ROLLBACK; UNLOCK TABLES"),
        }
    }
}

#[test]
fn writers_do_not_hold_up_who_stops_them() {
    let (server, _dir) = server();
    let (mut root, mut backup) = (session(&server), session(&server));
    root.run("INSERT INTO t VALUES (2, 0), (3, 0)");
    let begun = [(); 3].map(|()| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (at, begun) in begun.iter().enumerate() {
            let mut c = session(&server);
            let sql = format!("UPDATE t SET b = SLEEP(0.3) WHERE a = {}", at + 1);
            scope.spawn(move || {
                loop {
                    begun.fetch_add(1, Ordering::AcqRel);
                    match c.code(&sql) {
                        None => (),
                        code => return assert_eq!(code, Some(1290)),
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(100));
        }
        let before = begun.each_ref().map(|b| b.load(Ordering::Acquire));
        root.run("SET GLOBAL super_read_only = ON");
        // Whoever was between two statements when it began may have begun one, and one that is refused.
        let now = begun.each_ref().map(|b| b.load(Ordering::Acquire));
        let more = now.iter().zip(before).map(|(now, before)| now - before);
        assert!(
            more.clone().all(|more| more <= 2),
            "{:?}",
            more.collect::<Vec<_>>()
        );
    });
    root.run("SET GLOBAL read_only = OFF");

    // Nor does one that waits itself.
    backup.run("FLUSH TABLES WITH READ LOCK");
    let mut c = session(&server);
    let id = c.value("SELECT CONNECTION_ID()");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| c.code("INSERT INTO t VALUES (4, 4)"));
        let state = format!("SELECT state FROM information_schema.processlist WHERE id = {id}");
        eventually("it waits", || {
            root.value(&state) == "Waiting for global read lock"
        });
        root.run("FLUSH TABLES WITH READ LOCK; UNLOCK TABLES; SET GLOBAL super_read_only = ON");
        backup.run("UNLOCK TABLES");
        assert_eq!(writer.join().expect("it goes on"), Some(1290));
    });
}

const STOP_WRITERS: &str = "SET GLOBAL super_read_only = ON";

/// A session of its own begins a statement, and waits in this state by the time that this returns. Its error code.
fn begin<'scope>(
    (scope, server): (&'scope Scope<'scope, '_>, &Server),
    sql: &'static str,
    state: &str,
) -> ScopedJoinHandle<'scope, Option<u16>> {
    let (mut other, mut monitor) = (session(server), session(server));
    let id = other.value("SELECT CONNECTION_ID()");
    let done = scope.spawn(move || other.code(sql));
    let shown = format!("SELECT state FROM information_schema.processlist WHERE id = {id}");
    eventually(state, || monitor.value(&shown) == state);
    done
}

/// The transaction waits for `read_only`, which waits for the schema change, which waits for the transaction.
#[test]
fn a_transaction_that_read_only_and_a_schema_change_wait_for_is_the_victim_of_a_deadlock() {
    let (server, _dir) = server();
    let mut c = session(&server);
    c.run("BEGIN; UPDATE t SET b = 2 WHERE a = 1");
    std::thread::scope(|scope| {
        let alter = begin(
            (scope, &server),
            "ALTER TABLE t ADD c INT, ALGORITHM = COPY",
            "Waiting for table metadata lock",
        );
        let stop = begin(
            (scope, &server),
            STOP_WRITERS,
            "Waiting for global read lock",
        );
        assert_eq!(c.code("UPDATE t SET b = 3 WHERE a = 1"), Some(1213));
        assert_eq!(alter.join().expect("it goes on"), None);
        assert_eq!(stop.join().expect("it goes on"), None);
    });
    assert_eq!(
        c.value("SELECT GROUP_CONCAT(a, b, IFNULL(c, '-')) FROM t"),
        "11-"
    );
}

/// It has been admitted, and goes on with the locks that it has got when its wait is over.
#[test]
fn read_only_waits_for_a_schema_change_that_waits_itself() {
    let (server, _dir) = server();
    let mut c = session(&server);
    c.run("BEGIN; UPDATE t SET b = 2 WHERE a = 1");
    std::thread::scope(|scope| {
        let truncate = begin(
            (scope, &server),
            "TRUNCATE TABLE t",
            "Waiting for table metadata lock",
        );
        let stop = begin(
            (scope, &server),
            STOP_WRITERS,
            "Waiting for global read lock",
        );
        c.run("COMMIT");
        assert_eq!(truncate.join().expect("it goes on"), None);
        assert_eq!(stop.join().expect("it goes on"), None);
    });
    assert_eq!(c.value("SELECT COUNT(*) FROM t"), "0");
}

/// What a prepared transaction has locked, a writer waits for; the decision must not wait behind who waits for that.
#[test]
fn prepared_transactions_are_decided_while_a_server_becomes_read_only() {
    for decision in ["XA COMMIT 'x'", "XA ROLLBACK 'x'"] {
        let (server, _dir) = server();
        let mut c = session(&server);
        c.run("XA START 'x'; UPDATE t SET b = 2 WHERE a = 1; XA END 'x'; XA PREPARE 'x'");
        std::thread::scope(|scope| {
            let alter = begin(
                (scope, &server),
                "ALTER TABLE t FORCE",
                "Waiting for table metadata lock",
            );
            let stop = begin(
                (scope, &server),
                STOP_WRITERS,
                "Waiting for global read lock",
            );
            assert_eq!(c.code(decision), None);
            // It was admitted before the server became read-only.
            assert_eq!(alter.join().expect("it goes on"), None, "{decision}");
            assert_eq!(stop.join().expect("it goes on"), None, "{decision}");
        });
    }
}

#[test]
fn a_kill_ends_a_function_that_waits() {
    let (server, _dir) = server();
    let (mut backup, mut c) = (session(&server), session(&server));
    c.run(
        "CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN \
         DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @handled = 1; INSERT INTO t VALUES (9, 9); RETURN 1; END",
    );
    let id = c.value("SELECT CONNECTION_ID()");
    backup.run("FLUSH TABLES WITH READ LOCK");
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| c.code("SELECT f()"));
        let state = format!("SELECT state FROM information_schema.processlist WHERE id = {id}");
        eventually("it waits", || {
            backup.value(&state) == "Waiting for global read lock"
        });
        backup.run(&format!("KILL QUERY {id}"));
        assert_eq!(calling.join().expect("it ends"), Some(1317));
    });
    assert_eq!(c.value("SELECT @handled IS NULL"), "1");
}

/// The switchover that docs/replication.md describes relies on it.
#[test]
fn nothing_is_committed_behind_the_answer_of_super_read_only() {
    const ROUNDS: u64 = 15;
    let (server, _dir) = server();
    let mut root = session(&server);
    root.run("CREATE TABLE n (a INT PRIMARY KEY AUTO_INCREMENT, b INT)");
    let works: [&[&str]; 4] = [
        &["INSERT INTO n (b) VALUES (1)"],
        &["BEGIN", "INSERT INTO n (b) VALUES (2)", "COMMIT"],
        &["CREATE TABLE m (a INT)", "DROP TABLE m"],
        &["CREATE USER w", "DROP USER w"],
    ];
    let refused = works.each_ref().map(|_| AtomicU64::new(0));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (work, refused) in works.iter().zip(&refused) {
            let (mut c, over) = (session(&server), &over);
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) {
                    for sql in *work {
                        if c.code(sql) == Some(1290) {
                            refused.fetch_add(1, Ordering::AcqRel);
                        }
                    }
                }
            });
        }
        for _ in 0..ROUNDS {
            root.run("SET GLOBAL super_read_only = ON");
            let before = position(&mut root);
            let seen = refused.each_ref().map(|r| r.load(Ordering::Acquire));
            // What began before is over when its session has been refused twice since.
            eventually("everybody is refused", || {
                let now = refused.iter().map(|r| r.load(Ordering::Acquire));
                now.zip(seen).all(|(now, seen)| now > seen + 1)
            });
            assert_eq!(position(&mut root), before);
            root.run("SET GLOBAL read_only = OFF");
            let all = root.value("SELECT @@GLOBAL.gtid_executed");
            eventually("they go on", || {
                root.value("SELECT @@GLOBAL.gtid_executed") != all
            });
        }
        over.store(true, Ordering::Release);
    });
}

#[test]
fn the_global_read_lock_stops_whatever_is_logged() {
    let (server, _dir) = server();
    let (mut backup, mut c, mut watch) = (session(&server), session(&server), server.connect());
    let id = c.value("SELECT CONNECTION_ID()");
    let about_nothing = ["OPTIMIZE TABLE no_table", "REPAIR TABLE no_table"];
    for sql in CHANGES.into_iter().chain(about_nothing) {
        backup.run("FLUSH TABLES WITH READ LOCK");
        // These say so in a row.
        if !sql.starts_with("OPTIMIZE") && !sql.starts_with("REPAIR") {
            assert_eq!(backup.code(sql), Some(1223), "{sql}");
        }
        let before = position(&mut watch);
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| c.run(sql));
            let state = format!("SELECT state FROM information_schema.processlist WHERE id = {id}");
            eventually(sql, || {
                watch.value(&state) == "Waiting for global read lock"
            });
            assert_eq!(position(&mut watch), before, "{sql}");
            backup.run("UNLOCK TABLES");
            changing.join().expect("it goes on");
        });
        c.run("UNLOCK TABLES");
    }
    backup.run("FLUSH TABLES WITH READ LOCK");
    OTHERS.iter().for_each(|sql| c.run(sql));
}

#[test]
fn lock_instance_stops_statements_about_tables_and_accounts() {
    let (server, _dir) = server();
    let (mut backup, mut c, mut watch) = (session(&server), session(&server), server.connect());
    let id = c.value("SELECT CONNECTION_ID()");
    let statements = [
        "ANALYZE TABLE t",
        "ANALYZE TABLE t UPDATE HISTOGRAM ON b",
        "OPTIMIZE TABLE t",
        "REPAIR TABLE t",
        "CHECK TABLE t",
        "CREATE USER w",
        "DROP EVENT IF EXISTS no_event",
    ];
    for sql in statements {
        backup.run("LOCK INSTANCE FOR BACKUP");
        std::thread::scope(|scope| {
            // An account statement has committed when it waits, and waits all the same.
            let changing = scope.spawn(|| {
                c.run("BEGIN; INSERT INTO t VALUES (7, 7)");
                c.run(sql);
            });
            let state = format!("SELECT state FROM information_schema.processlist WHERE id = {id}");
            eventually(sql, || watch.value(&state) == "Waiting for backup lock");
            backup.run("UNLOCK INSTANCE");
            changing.join().expect("it goes on");
        });
        c.run("DELETE FROM t WHERE a = 7");
    }
}
