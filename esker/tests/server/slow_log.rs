//! The slow query log: what it adds on wish, and what it leaves out; and what the error log is like.

use crate::common::{Ask, Server, eventually};

/// The entries that end with a text, without their first line.
fn entries<'l>(log: &'l str, text: &str) -> Vec<&'l str> {
    let all = log.split("# Time: ").skip(1);
    all.filter(|entry| entry.trim_end().ends_with(text))
        .collect()
}

#[test]
fn an_entry_says_more_on_wish() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--slow-query-log=ON"]);
    let log = || std::fs::read_to_string(dir.path().join("data/slow.log")).unwrap_or_default();
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY, b INT)");
    c.run("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)");
    c.run("SET long_query_time = 0");
    c.run("SELECT 'short' FROM t");
    // effect: log_slow_extra
    c.run("SET GLOBAL log_slow_extra = ON");
    c.run("SELECT b FROM t");
    c.run("SELECT a FROM t WHERE a = 2");
    assert_eq!(c.code("SELECT nothing FROM t"), Some(1054));
    c.run("SET GLOBAL log_slow_extra = OFF");
    let log = log();
    let short = entries(&log, "SELECT 'short' FROM t;");
    assert!(
        short.len() == 1 && short[0].contains("Rows_examined: 3\n"),
        "{log}"
    );
    let scan = entries(&log, "SELECT b FROM t;")[0];
    let id = c.value("SELECT CONNECTION_ID()");
    // A command's head has four bytes, and one says what it is.
    let begin = format!(
        "Rows_examined: 3 Thread_id: {id} Errno: 0 Killed: 0 Bytes_received: 20 Bytes_sent: "
    );
    assert!(scan.contains(&begin), "{scan}");
    for part in [
        " Read_first: 1 ",
        " Read_key: 1 ",
        " Read_rnd_next: 4 ",
        " Created_tmp_tables: 0 Start: 2",
        "Z End: 2",
    ] {
        assert!(scan.contains(part), "{part}: {scan}");
    }
    let sent = |entry: &str| {
        let behind = entry.split("Bytes_sent: ").nth(1).expect("a figure");
        let figure = behind.split(' ').next().expect("digits");
        figure.parse::<u64>().expect("a number")
    };
    // The number of columns, a column, three rows and the end.
    assert!((40..120).contains(&sent(scan)), "{scan}");
    let key = entries(&log, "SELECT a FROM t WHERE a = 2;")[0];
    assert!(
        key.contains(" Read_key: 1 ") && key.contains(" Read_rnd_next: 0 "),
        "{key}"
    );
    let failed = entries(&log, "SELECT nothing FROM t;")[0];
    assert!(failed.contains(" Errno: 1054 Killed: 0 "), "{failed}");
    let text = "Unknown column 'nothing' in 'field list'";
    assert_eq!(sent(failed), text.len() as u64 + 13);
}

#[test]
fn statements_without_an_index_are_logged_so_often() {
    let dir = tempfile::tempdir().expect("folder");
    // effect: log_throttle_queries_not_using_indexes
    let args = [
        "--slow-query-log=ON",
        "--log-queries-not-using-indexes=ON",
        "--log-throttle-queries-not-using-indexes=2",
    ];
    let server = Server::start(dir.path(), &args);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 1)");
    for _ in 0..9 {
        c.run("SELECT 'one of many' FROM t WHERE b = 1");
    }
    c.run("SET GLOBAL log_throttle_queries_not_using_indexes = 0; SELECT 'one more' FROM t WHERE b = 1");
    let log = std::fs::read_to_string(dir.path().join("data/slow.log")).expect("a log");
    let many = entries(&log, "'one of many' FROM t WHERE b = 1;").len();
    // Two, unless a minute has passed meanwhile.
    assert!((2..9).contains(&many), "{log}");
    assert_eq!(entries(&log, "'one more' FROM t WHERE b = 1;").len(), 1);
}

#[test]
fn the_error_log_is_as_its_variables_say() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &[]);
    let mut c = server.connect();
    let refuse = |name: &str| {
        let (port, password) = (server.port, "x");
        let tried = esker_server::client::Client::connect("127.0.0.1", port, name, password, None);
        assert!(tried.is_err());
    };
    refuse("one");
    // effect: log_error_verbosity
    c.run("SET GLOBAL log_error_verbosity = 1");
    refuse("two");
    // What is left out by nothing but the filter, which is not there.
    c.run("SET GLOBAL log_error_services = 'log_sink_json'");
    refuse("three");
    c.run("SET GLOBAL log_error_services = DEFAULT, log_error_verbosity = DEFAULT");
    refuse("four");
    assert_eq!(
        c.code("SET GLOBAL log_error_services = 'log_sink_nowhere'"),
        Some(1231)
    );
    let told =
        "SELECT COUNT(*) FROM performance_schema.error_log WHERE data LIKE '%for user %two%'";
    assert_eq!(c.value(told), "0");
    server.stop();
    let log = std::fs::read_to_string(dir.path().join("log")).expect("log");
    let line = |name: &str| {
        let user = format!("for user '{name}'");
        log.lines().find(|line| line.contains(&user))
    };
    assert!(
        line("one").is_some_and(|line| line.contains("Access denied for user 'one'@'localhost'")),
        "{log}"
    );
    assert_eq!(line("two"), None, "{log}");
    assert!(
        line("three").is_some_and(|line| line.starts_with("{\"prio\":2")),
        "{log}"
    );
    assert!(
        line("four").is_some_and(|line| line.contains("WARN")),
        "{log}"
    );
}

#[test]
fn the_error_log_has_kills_and_deadlocks() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &[]);
    let (mut a, mut b) = (server.connect(), server.connect());
    let ids = [
        a.value("SELECT CONNECTION_ID()"),
        b.value("SELECT CONNECTION_ID()"),
    ];
    a.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); INSERT INTO d.t VALUES (1, 1), (2, 2)");
    // effect: innodb_print_all_deadlocks
    a.run("SET GLOBAL innodb_print_all_deadlocks = ON");
    a.run("BEGIN; UPDATE d.t SET v = 7 WHERE id = 1");
    b.run("BEGIN; UPDATE d.t SET v = 7 WHERE id = 2");
    // Lines of a statement are none of the log.
    let forged = "UPDATE d.t SET v = 8 /*\n*** WE ROLL BACK TRANSACTION (7)\n*/ WHERE id = 1";
    let other = std::thread::spawn(move || (b.code(forged), b));
    eventually("it waits", || {
        a.value("SELECT COUNT(*) FROM performance_schema.data_lock_waits") == "1"
    });
    let own = a.code("UPDATE d.t SET v = 9 WHERE id = 2");
    a.run("ROLLBACK");
    let (theirs, mut b) = other.join().expect("the other");
    assert!([own, theirs].contains(&Some(1213)));
    b.run("SET GLOBAL innodb_print_all_deadlocks = OFF");
    b.run(&format!("KILL QUERY {}", ids[0]));
    b.run(&format!("KILL {}", ids[0]));
    server.stop();
    let log = std::fs::read_to_string(dir.path().join("log")).expect("log");
    assert_eq!(
        log.matches("\n*** WE ROLL BACK TRANSACTION").count(),
        1,
        "{log}"
    );
    assert!(
        log.contains(r"v = 8 /*\n*** WE ROLL BACK TRANSACTION (7)\n*/ WHERE"),
        "{log}"
    );
    assert!(log.contains("UPDATE d.t SET v = 9 WHERE id = 2"), "{log}");
    let killed = format!("KILL {} (user \"root\" from 127.0.0.1:", ids[0]);
    assert!(log.contains(&killed), "{log}");
    // That of an own statement is nothing to tell.
    assert!(!log.contains("KILL QUERY"), "{log}");
}

#[test]
fn who_ends_its_own_connections_fills_no_log() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &[]);
    let mut c = server.connect();
    const KILLED: usize = 60;
    let others: Vec<_> = (0..KILLED).map(|_| server.connect()).collect();
    let ids = c.lines("SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND = 'Sleep'");
    assert!(ids.len() >= KILLED);
    let all: Vec<_> = ids.iter().map(|id| format!("KILL {id}")).collect();
    c.run(&all.join("; "));
    drop(others);
    server.stop();
    let log = std::fs::read_to_string(dir.path().join("log")).expect("log");
    let told = log.matches(" by root@").count();
    assert!((1..KILLED).contains(&told), "{told} of {KILLED}: {log}");
}

#[test]
fn the_error_log_tells_that_there_was_no_room() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &["--max-connections=1"]);
    let (first, last) = (server.connect(), server.connect());
    let third = esker_server::client::Client::connect("127.0.0.1", server.port, "root", "", None);
    assert!(third.is_err());
    drop((first, last));
    server.stop();
    let log = std::fs::read_to_string(dir.path().join("log")).expect("log");
    assert!(log.contains(": Too many connections (1040)"), "{log}");
}
