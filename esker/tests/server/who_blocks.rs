//! Who waits for whom, in the tables and views that tools read.
//!
//! Neighbours: `system_schemas` has the other tables, `innodb_status` the text of the monitor.
//! **Invariant**: what waits is seen to wait before it is looked at.

use crate::common::{Ask, Server, eventually};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT, KEY v (v)); INSERT INTO d.t VALUES (1,1),(2,2)",
    );
    (server, dir)
}

/// A lock is found however many others its transaction has, and lists are bounded all the same.
#[test]
fn a_lock_among_thousands_is_named() {
    let (server, _dir) = server();
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("CREATE TABLE d.many (id INT PRIMARY KEY, v INT)");
    let rows: Vec<_> = (0..6000).map(|n| format!("({n}, 0)")).collect();
    a.run(&format!("INSERT INTO d.many VALUES {}", rows.join(", ")));
    // Rows between those that are locked are free: no range stands for them.
    let every_third: Vec<_> = (0..2000).map(|n| (3 * n).to_string()).collect();
    let chosen = every_third.join(", ");
    a.run(&format!(
        "BEGIN; SELECT COUNT(*) FROM d.many WHERE id IN ({chosen}) FOR UPDATE"
    ));
    let waiting = std::thread::spawn(move || b.code("UPDATE d.many SET v = 8 WHERE id = 5997"));
    let named = "SELECT b.LOCK_DATA FROM performance_schema.data_lock_waits w
        JOIN performance_schema.data_locks b ON b.ENGINE_LOCK_ID = w.BLOCKING_ENGINE_LOCK_ID";
    eventually("it waits", || !a.lines(named).is_empty());
    assert_eq!(a.lines(named), ["5997"]);
    let listed = a.value("SELECT COUNT(*) FROM performance_schema.data_locks");
    let listed: usize = listed.parse().expect("a number");
    assert!((1000..1100).contains(&listed), "{listed}");
    a.run("COMMIT");
    assert_eq!(waiting.join().expect("waiter"), None);
}

#[test]
fn a_prepared_transaction_is_seen_to_block() {
    let (server, _dir) = server();
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("XA START 'x'; UPDATE d.t SET v = 7 WHERE id = 2; XA END 'x'; XA PREPARE 'x'");
    drop(a);
    let mut c = server.connect();
    let waiter = b.value("SELECT CONNECTION_ID()");
    let waiting = std::thread::spawn(move || b.code("UPDATE d.t SET v = 8 WHERE id = 2"));
    let waits = "SELECT locked_table, waiting_pid, blocking_pid, blocking_lock_mode FROM sys.innodb_lock_waits";
    eventually("it waits", || !c.lines(waits).is_empty());
    assert_eq!(
        c.lines(waits),
        [format!("`d`.`t`|{waiter}|0|X,REC_NOT_GAP")]
    );
    let blocker = "SELECT trx_state, trx_mysql_thread_id, trx_rows_locked FROM information_schema.INNODB_TRX
        WHERE trx_id IN (SELECT BLOCKING_ENGINE_TRANSACTION_ID FROM performance_schema.data_lock_waits)";
    assert_eq!(c.lines(blocker), ["RUNNING|0|1"]);
    // The waiting statement is in the monitor's output, though it is in autocommit.
    let status = c.lines("SHOW ENGINE INNODB STATUS").join("\n");
    assert!(
        status.contains(&format!("---TRANSACTION {waiter}, ACTIVE")),
        "{status}"
    );
    assert!(status.contains("TRX HAS BEEN WAITING"), "{status}");
    c.run("XA COMMIT 'x'");
    assert_eq!(waiting.join().expect("waiter"), None);
}

#[test]
fn waits_for_rows_and_user_locks_are_told() {
    let (server, _dir) = server();
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("BEGIN; UPDATE d.t SET v = 7 WHERE id = 2; DO GET_LOCK('Mine', 0)");
    b.run("SET innodb_lock_wait_timeout = 1");
    assert_eq!(b.code("UPDATE d.t SET v = 8 WHERE id = 2"), Some(1205));
    let times = "SELECT SUM(VARIABLE_VALUE >= 1000), COUNT(*) FROM performance_schema.global_status
        WHERE VARIABLE_NAME IN ('Innodb_row_lock_time', 'Innodb_row_lock_time_avg', 'Innodb_row_lock_time_max')";
    assert_eq!(a.lines(times), ["3|3"]);
    let waiter = b.value("SELECT CONNECTION_ID()");
    let waiting = std::thread::spawn(move || b.value("SELECT GET_LOCK('mine', 600)"));
    let locks =
        "SELECT OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME, LOCK_TYPE, LOCK_DURATION, LOCK_STATUS
        FROM performance_schema.metadata_locks WHERE OBJECT_TYPE LIKE 'USER%' ORDER BY LOCK_STATUS";
    let lock = |status| format!("USER LEVEL LOCK|NULL|mine|EXCLUSIVE|EXPLICIT|{status}");
    eventually("it waits", || {
        a.lines(locks) == ["GRANTED", "PENDING"].map(lock)
    });
    let state = format!("SELECT STATE FROM information_schema.PROCESSLIST WHERE ID = {waiter}");
    eventually("it is shown", || a.value(&state) == "User lock");
    a.run("DO RELEASE_LOCK('mine')");
    assert_eq!(waiting.join().expect("waiter"), "1");
}
