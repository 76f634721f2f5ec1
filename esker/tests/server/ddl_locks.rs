//! Schema changes that meet open transactions: NOWAIT and WAIT, who is named, who passes whom, deadlocks with rows.

use std::time::{Duration, Instant};

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path(), &[]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d");
    c.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY v (v)); INSERT INTO t VALUES (1, 1), (2, 2)");
    (server, dir)
}

/// A session in the database.
fn session(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

/// A session with an open transaction that has read the table.
fn reader(server: &Server) -> Client {
    let mut c = session(server);
    c.run("BEGIN; SELECT COUNT(*) FROM t");
    c
}

/// Statements with `{}` where the clause about waiting goes.
const STATEMENTS: [&str; 16] = [
    "ALTER TABLE t {} ADD COLUMN z INT",
    "ALTER TABLE t ADD COLUMN z INT, {}",
    "ALTER TABLE t {} ADD INDEX i (v)",
    "ALTER TABLE t {} RENAME TO u",
    "RENAME TABLE t {} TO u",
    "RENAME TABLE t TO u {}",
    "TRUNCATE TABLE t {}",
    "DROP TABLE t {}",
    "DROP TABLE IF EXISTS t {} CASCADE",
    "CREATE INDEX i ON t (v) {}",
    "CREATE INDEX i ON t (v) {} ALGORITHM=INPLACE",
    "DROP INDEX v ON t {}",
    "LOCK TABLES t WRITE {}",
    "OPTIMIZE TABLE t {}",
    "ANALYZE TABLE t {}",
    "ANALYZE TABLE t {} UPDATE HISTOGRAM ON v",
];

/// The same statement with the clause as a hint behind its verb.
fn hinted(statement: &str, hint: &str) -> String {
    let (verb, rest) = statement.split_once(' ').expect("a verb");
    let rest = rest.replace(", {}", "").replace("{}", "");
    format!("{verb} /*+ {hint} */ {rest}")
}

/// It gives up what it has read when it has to wait, and none of the locks that it waits for.
#[test]
fn create_table_select_waits_for_its_sources_and_leaves_no_lock() {
    let (server, _dir) = server();
    let (mut c, mut locker, mut monitor) = (session(&server), session(&server), session(&server));
    let id = c.value("SELECT CONNECTION_ID()");
    let state = format!("SELECT state FROM information_schema.processlist WHERE id = {id}");
    let asked = "SELECT COUNT(*) FROM performance_schema.metadata_locks \
                 WHERE object_name = 't' AND lock_status = 'PENDING'";
    let held = "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE object_schema = 'd'";
    for (nth, autocommit) in ["1", "0"].into_iter().enumerate() {
        c.run(&format!(
            "SET autocommit = {autocommit}, lock_wait_timeout = 60"
        ));
        locker.run("LOCK TABLES t WRITE");
        let create = format!("CREATE TABLE n{nth} AS SELECT * FROM t WHERE v > 0");
        std::thread::scope(|scope| {
            let created = scope.spawn(|| c.code(&create));
            eventually("it waits", || {
                monitor.value(&state) == "Waiting for table metadata lock"
            });
            assert_eq!(monitor.value(asked), "1");
            locker.run("UNLOCK TABLES");
            assert_eq!(created.join().expect("it goes on"), None);
        });
        assert_eq!(c.value(&format!("SELECT COUNT(*) FROM n{nth}")), "2");
        c.run("COMMIT");
        // What it waits for counts from its begin, and ends it.
        locker.run("LOCK TABLES t WRITE");
        c.run("SET lock_wait_timeout = 1");
        assert_eq!(c.code("CREATE TABLE m AS SELECT * FROM t"), Some(1205));
        locker.run("UNLOCK TABLES");
        assert_eq!(monitor.value(held), "0", "autocommit = {autocommit}");
        locker.run("SET lock_wait_timeout = 1; ALTER TABLE t FORCE");
    }
}

#[test]
fn nowait_fails_at_once_in_every_position() {
    let (server, _dir) = server();
    let mut locker = session(&server);
    let mut c = session(&server);
    // Only this keeps OPTIMIZE and ANALYZE out, too.
    locker.run("LOCK TABLES t WRITE");
    for statement in STATEMENTS {
        for clause in ["NOWAIT", "NO_WAIT", "WAIT 0"] {
            let sql = statement.replace("{}", clause);
            assert_eq!(c.code(&sql), Some(1205), "{sql}");
        }
        for hint in ["NO_WAIT()", "WAIT(0)", "no_wait()"] {
            let sql = hinted(statement, hint);
            assert_eq!(c.code(&sql), Some(1205), "{sql}");
        }
        // A clause counts for more than a hint, and both for more than the variable.
        c.run("SET esker_ddl_lock_timeout = 1000");
        let both = statement.replacen(' ', " /*+ WAIT(1000) */ ", 1);
        assert_eq!(c.code(&both.replace("{}", "NOWAIT")), Some(1205), "{both}");
        // effect: esker_ddl_lock_timeout
        c.run("SET esker_ddl_lock_timeout = 0");
        let plain = statement.replace(", {}", "").replace("{}", "");
        assert_eq!(c.code(&plain), Some(1205), "{plain}");
        c.run("SET esker_ddl_lock_timeout = DEFAULT");
    }
    locker.run("UNLOCK TABLES");
    c.run("ALTER TABLE t NOWAIT ADD COLUMN z INT");
}

#[test]
fn wait_n_waits_for_so_long() {
    let (server, _dir) = server();
    let _reader = reader(&server);
    let mut c = session(&server);
    for sql in [
        "ALTER TABLE t WAIT 1 ADD COLUMN z INT",
        "DROP TABLE t WAIT 1",
        "RENAME /*+ WAIT(1) */ TABLE t TO u",
    ] {
        let begin = Instant::now();
        assert_eq!(c.code(sql), Some(1205), "{sql}");
        assert!(begin.elapsed() >= Duration::from_secs(1), "{sql}");
    }
}

#[test]
fn a_timeout_names_who_is_in_the_way() {
    let (server, _dir) = server();
    let mut blockers: Vec<Client> = (0..5).map(|_| reader(&server)).collect();
    let mut c = session(&server);
    let ids: Vec<String> = blockers
        .iter_mut()
        .map(|b| b.value("SELECT CONNECTION_ID()"))
        .collect();
    let error = c.query("ALTER TABLE t NOWAIT ADD COLUMN z INT", &mut |_| ());
    let text = error.expect_err("they are in the way").to_string();
    assert!(text.contains("Lock wait timeout exceeded"), "{text}");
    for id in &ids[..3] {
        let who = format!("connection {id} (root@127.0.0.1, idle ");
        assert!(text.contains(&who), "{text}");
    }
    assert_eq!(
        text.matches(" s in a transaction since ").count(),
        3,
        "{text}"
    );
    assert!(text.ends_with(", 2 more"), "{text}");
    let warnings = c.lines("SHOW WARNINGS");
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(
        warnings[1].starts_with(&format!("Note|1205|KILL {} ends", ids[0])),
        "{warnings:?}"
    );
    let holders = "SELECT OWNER_THREAD_ID FROM information_schema.ESKER_METADATA_LOCKS \
                   WHERE OBJECT_NAME = 't' AND LOCK_TYPE = 'SHARED_READ' \
                   AND LOCK_DURATION = 'TRANSACTION' AND LOCK_STATUS = 'GRANTED' ORDER BY 1";
    assert_eq!(c.lines(holders), ids);
    // As advised.
    for id in &ids {
        c.run(&format!("KILL {id}"));
    }
    c.run("ALTER TABLE t ADD COLUMN z INT");
}

/// One reader stays, one ALTER waits: the others go on, and the ALTER comes when the reader leaves.
#[test]
fn a_waiting_alter_stops_nobody_for_longer_than_the_window() {
    let (server, _dir) = server();
    let mut reader = reader(&server);
    let mut c = session(&server);
    // effect: esker_ddl_window
    c.run("SET GLOBAL esker_ddl_window = 40");
    let mut ddl = session(&server);
    let altering = std::thread::spawn(move || ddl.run("ALTER TABLE t ADD COLUMN z INT DEFAULT 7"));
    let waiting = "SELECT COUNT(*) FROM information_schema.ESKER_METADATA_LOCKS \
                   WHERE LOCK_STATUS = 'PENDING' AND LOCK_TYPE = 'EXCLUSIVE'";
    eventually("it waits", || c.value(waiting) == "1");
    // Many windows: whoever waited for the ALTER to give up would wait for a year.
    let begin = Instant::now();
    let mut statements = 0;
    while begin.elapsed() < Duration::from_millis(600) || statements < 2 {
        c.run("UPDATE t SET v = v + 1 WHERE id = 1");
        c.run("SELECT * FROM t");
        statements += 1;
    }
    eventually("it still waits", || c.value(waiting) == "1");
    reader.run("COMMIT");
    altering.join().expect("it got in");
    assert_eq!(c.value("SELECT z FROM t WHERE id = 1"), "7");
}

/// A wait for a metadata lock and a wait for a row that are each other's cause.
#[test]
fn a_deadlock_of_a_metadata_lock_and_a_row_is_found() {
    let (server, _dir) = server();
    let mut writer = session(&server);
    let mut backup = session(&server);
    writer.run("BEGIN; UPDATE t SET v = 5 WHERE id = 1");
    backup.run("FLUSH TABLES WITH READ LOCK; BEGIN");
    let reading = std::thread::spawn(move || {
        let found = backup.value("SELECT v FROM t WHERE id = 1 FOR SHARE");
        (backup, found)
    });
    let mut c = session(&server);
    let row_waits = "SELECT COUNT(*) FROM information_schema.ESKER_DATA_LOCK_WAITS";
    eventually("it waits", || c.value(row_waits) == "1");
    // It waits for the backup, which waits for it; without the search both would until a timeout of 50 s and a year.
    assert_eq!(writer.code("UPDATE t SET v = 6 WHERE id = 2"), Some(1213));
    let (_backup, found) = reading.join().expect("it goes on");
    assert_eq!(found, "1", "the victim's transaction is gone");
}

/// The door of a schema change is closed for a while to a transaction for whose row lock another one waits, which is in
/// the way of the change: nobody is the victim, since the door opens again.
#[test]
fn a_closed_door_and_a_row_are_no_deadlock() {
    let (server, _dir) = server();
    let mut c = session(&server);
    // The first window is a second: longer than the time between two looks.
    c.run("SET GLOBAL esker_ddl_window = 60000; CREATE TABLE u (id INT PRIMARY KEY, v INT); INSERT INTO u VALUES (1, 1)");
    let [mut first, mut second, mut ddl] = [(); 3].map(|()| session(&server));
    first.run("BEGIN; UPDATE u SET v = 2");
    second.run("BEGIN; UPDATE t SET v = 2 WHERE id = 1");
    let second = std::thread::spawn(move || {
        second.run("UPDATE u SET v = 3; COMMIT");
    });
    let row_waits = "SELECT COUNT(*) FROM information_schema.ESKER_DATA_LOCK_WAITS";
    eventually("it waits for the row", || c.value(row_waits) == "1");
    let ddl = std::thread::spawn(move || ddl.run("ALTER TABLE t ADD COLUMN z INT"));
    let waiting = "SELECT COUNT(*) FROM information_schema.ESKER_METADATA_LOCKS \
                   WHERE LOCK_TYPE = 'EXCLUSIVE' AND LOCK_STATUS = 'PENDING'";
    eventually("it waits for the table", || c.value(waiting) == "1");
    assert_eq!(first.value("SELECT COUNT(*) FROM t"), "2");
    first.run("COMMIT");
    second.join().expect("it goes on");
    ddl.join().expect("it got in");
}

/// ADD FOREIGN KEY needs both tables at its end. What it has got of them it gives back when it does not get the other,
/// so a transaction that has one and comes to the other is no victim, and the change comes after it.
#[test]
fn a_change_of_two_tables_and_a_transaction_on_both_get_on() {
    let (server, _dir) = server();
    let mut c = session(&server);
    c.run("SET GLOBAL esker_ddl_window = 8000");
    c.run("CREATE TABLE u (id INT PRIMARY KEY, tid INT)");
    let orders = [
        [
            "INSERT INTO u VALUES (1, 1)",
            "UPDATE t SET v = 9 WHERE id = 2",
        ],
        [
            "UPDATE t SET v = 8 WHERE id = 2",
            "INSERT INTO u VALUES (2, 2)",
        ],
    ];
    for [first, then] in orders {
        let [mut writer, mut ddl] = [(); 2].map(|()| session(&server));
        writer.run("BEGIN");
        writer.run(first);
        let alter = "ALTER TABLE u ADD CONSTRAINT f FOREIGN KEY (tid) REFERENCES t (id)";
        let ddl = std::thread::spawn(move || ddl.run(alter));
        let waiting = "SELECT COUNT(*) FROM information_schema.ESKER_METADATA_LOCKS \
                       WHERE LOCK_TYPE = 'EXCLUSIVE' AND LOCK_STATUS = 'PENDING'";
        eventually("it waits for a table", || c.value(waiting) == "1");
        writer.run(then);
        writer.run("COMMIT");
        ddl.join().expect("it got in");
        c.run("ALTER TABLE u DROP FOREIGN KEY f");
    }
}

/// DROP waits for OPTIMIZE, whose table it would pull away.
#[test]
fn optimize_and_analyze_hold_the_table() {
    let (server, _dir) = server();
    let mut locker = session(&server);
    let mut c = session(&server);
    locker.run("LOCK TABLES t WRITE");
    c.run("SET lock_wait_timeout = 1");
    for sql in ["OPTIMIZE TABLE t", "ANALYZE TABLE t"] {
        assert_eq!(c.code(sql), Some(1205), "{sql}");
    }
    locker.run("UNLOCK TABLES");
    let answer = c.lines("OPTIMIZE TABLE t");
    assert_eq!(
        answer.last().map(String::as_str),
        Some("d.t|optimize|status|OK")
    );
    locker.run("DROP TABLE t NOWAIT");
    assert_eq!(c.lines("OPTIMIZE TABLE t").len(), 2);
}
