//! What uses up the GTID that a session has given its next transaction, and what is written of it: as MySQL 9.7.

use esker_server::client::Client;

use crate::common::{Ask, Server};

const ONE_SYNC: [&str; 2] = ["--log-bin=ON", "--gtid-mode=ON"];
const TWO_PHASE: [&str; 3] = [
    "--log-bin=ON",
    "--gtid-mode=ON",
    "--esker-binlog-commit=TWO-PHASE",
];
const UNLOGGED: [&str; 2] = ["--log-bin=OFF", "--gtid-mode=ON"];
/// A UUID of nobody's.
const FOREIGN: &str = "11111111-1111-1111-1111-111111111111";

/// Runs a statement with this GTID.
fn run_as(c: &mut Client, n: u32, sql: &str) {
    c.run(&format!("SET gtid_next = '{FOREIGN}:{n}'"));
    c.run(sql);
}

/// Is it executed, and is it the session's?
fn became(c: &mut Client, n: u32) -> String {
    c.lines(&format!(
        "SELECT GTID_SUBSET('{FOREIGN}:{n}', @@GLOBAL.gtid_executed), @@SESSION.gtid_owned <> ''"
    ))
    .concat()
}

fn start(args: &[&str]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("server"), args);
    server
        .connect()
        .run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); INSERT INTO d.t VALUES (1, 1)");
    (dir, server)
}

/// The next GTID behind those of the statements.
const LAST: u32 = STATEMENTS.len() as u32 + 1;

/// What statements make of a GTID with a binary log, and without one: used up, or still the session's.
const STATEMENTS: [(&str, &str, &str); 28] = [
    ("UPDATE d.t SET v = 5 WHERE id = 100", "0|1", "1|0"),
    ("UPDATE d.t SET v = v", "0|1", "1|0"),
    ("INSERT IGNORE INTO d.t VALUES (1, 7)", "0|1", "1|0"),
    ("DELETE FROM d.t WHERE id = 100", "0|1", "1|0"),
    ("SELECT * FROM d.t FOR UPDATE", "0|1", "1|0"),
    ("SELECT 1", "0|1", "0|1"),
    ("DO 1", "0|1", "0|1"),
    ("SELECT (SELECT COUNT(*) FROM d.t)", "0|1", "1|0"),
    ("DO (SELECT COUNT(*) FROM d.t)", "0|1", "1|0"),
    ("SET @a = (SELECT COUNT(*) FROM d.t)", "0|1", "1|0"),
    ("SELECT * FROM (SELECT 1) AS x", "0|1", "0|1"),
    ("VALUES ROW(1)", "0|1", "0|1"),
    ("TABLE d.t", "0|1", "1|0"),
    ("HANDLER d.t OPEN", "0|1", "0|1"),
    (
        "BEGIN; UPDATE d.t SET v = 5 WHERE id = 100; COMMIT",
        "1|0",
        "1|0",
    ),
    ("BEGIN; ROLLBACK", "0|0", "0|0"),
    ("CREATE TEMPORARY TABLE d.s (a INT)", "1|0", "1|0"),
    // What commits what is open, and is not logged.
    ("ALTER TABLE d.s ADD b INT", "1|0", "1|0"),
    ("TRUNCATE d.s", "1|0", "1|0"),
    ("DROP TEMPORARY TABLE d.s", "1|0", "1|0"),
    ("FLUSH LOCAL TABLES", "1|0", "1|0"),
    ("FLUSH BINARY LOGS", "1|0", "1|0"),
    ("ANALYZE LOCAL TABLE d.t", "1|0", "1|0"),
    ("CHECK TABLE d.t", "1|0", "1|0"),
    ("CREATE TABLE IF NOT EXISTS d.t SELECT 1", "1|0", "1|0"),
    ("ALTER INSTANCE RELOAD TLS", "1|0", "1|0"),
    (
        "SET sql_log_bin = 0; CREATE TABLE d.u (a INT); SET sql_log_bin = 1",
        "1|0",
        "1|0",
    ),
    ("XA START 'x'; XA END 'x'; XA PREPARE 'x'", "1|0", "1|0"),
];

fn statements_use_up(
    args: &[&str],
    column: fn(&(&str, &'static str, &'static str)) -> &'static str,
) {
    let (_dir, mut server) = start(args);
    let mut c = server.connect();
    let mut used = Vec::new();
    for (n, row) in (1..).zip(&STATEMENTS) {
        run_as(&mut c, n, row.0);
        assert_eq!(became(&mut c, n), column(row), "{}", row.0);
        if column(row) == "1|0" {
            used.push(n);
        }
        c.run("ROLLBACK; SET gtid_next = AUTOMATIC");
    }
    run_as(&mut c, LAST, "XA COMMIT 'x'");
    assert_eq!(became(&mut c, LAST), "1|0");
    server.kill();
    server.restart();
    let mut c = server.connect();
    for n in used.into_iter().chain([LAST]) {
        assert_eq!(became(&mut c, n), "1|0", "after a crash: {n}");
    }
}

#[test]
fn with_a_binary_log_what_changes_nothing_keeps_its_gtid() {
    statements_use_up(&ONE_SYNC, |row| row.1);
}

#[test]
fn with_files_that_decide_what_changes_nothing_keeps_its_gtid() {
    statements_use_up(&TWO_PHASE, |row| row.1);
}

#[test]
fn without_a_binary_log_every_statement_about_tables_uses_its_gtid_up() {
    statements_use_up(&UNLOGGED, |row| row.2);
}

#[test]
fn a_session_that_owns_a_gtid_does_not_go_on_to_another() {
    let (_dir, server) = start(&ONE_SYNC);
    let mut c = server.connect();
    run_as(&mut c, 1, "DO 1");
    assert_eq!(c.code("SET gtid_next = AUTOMATIC"), Some(1790));
    // The statement has failed, so it was given back.
    assert_eq!(became(&mut c, 1), "0|0");
    assert_eq!(c.code("INSERT INTO d.t VALUES (2, 2)"), Some(1837));
    c.run("SET gtid_next = AUTOMATIC");
    for setting in [
        "GLOBAL gtid_purged = ''",
        "GLOBAL gtid_mode = ON_PERMISSIVE",
        "GLOBAL enforce_gtid_consistency = ON",
        "session_track_gtids = OWN_GTID",
    ] {
        run_as(&mut c, 1, "DO 1");
        assert_eq!(c.code(&format!("SET {setting}")), Some(3138), "{setting}");
        c.run("ROLLBACK; SET gtid_next = AUTOMATIC");
    }
}

/// What is said of XA transactions in all files.
fn shown(c: &mut Client) -> Vec<String> {
    let mut shown = Vec::new();
    for file in c.lines("SHOW BINARY LOGS") {
        let name = file.split('|').next().unwrap_or_default();
        let events = c.lines(&format!("SHOW BINLOG EVENTS IN '{name}'"));
        let texts = events.iter().filter_map(|row| row.split('|').nth(5));
        shown.extend(texts.filter(|t| t.starts_with("XA ")).map(str::to_owned));
    }
    shown
}

/// A replica of MySQL stops at a transaction that is prepared and has changed nothing.
fn empty_branches(args: &[&str]) {
    let (_dir, mut server) = start(args);
    let mut c = server.connect();
    c.run("XA START 'a'; XA END 'a'; XA PREPARE 'a'; XA COMMIT 'a'");
    c.run(
        "XA START 'b'; SELECT * FROM d.t FOR UPDATE; XA END 'b'; XA PREPARE 'b'; XA ROLLBACK 'b'",
    );
    c.run("SET sql_log_bin = 0; XA START 'c'; INSERT INTO d.t VALUES (3, 3); XA END 'c'; XA PREPARE 'c'");
    c.run("SET sql_log_bin = 1; XA COMMIT 'c'");
    c.run("XA START 'd'; INSERT INTO d.t VALUES (4, 4); XA END 'd'; XA PREPARE 'd'");
    c.run("XA START 'e'; UPDATE d.t SET v = 9 WHERE id = 9; XA END 'e'; XA PREPARE 'e'");
    c.run("SET sql_log_bin = 0; XA START 'f'; INSERT INTO d.t VALUES (5, 5); XA END 'f'; XA PREPARE 'f'");
    c.run("XA START 'g'; INSERT INTO d.t VALUES (6, 6); XA END 'g'; XA PREPARE 'g'");
    // The mark stays with the record however often it is read.
    for _ in 0..2 {
        server.kill();
        server.restart();
    }
    let mut c = server.connect();
    assert_eq!(c.rows("XA RECOVER").len(), 4);
    c.run("XA COMMIT 'e'; XA COMMIT 'd'; XA COMMIT 'f'; XA ROLLBACK 'g'");
    assert_eq!(c.lines("SELECT id FROM d.t"), ["1", "3", "4", "5"]);
    let of_d = |verb: &str| format!("XA {verb} X'64',X'',1");
    assert_eq!(
        shown(&mut c),
        ["START", "END", "PREPARE", "COMMIT"].map(of_d)
    );
}

#[test]
fn branches_that_changed_nothing_are_not_logged() {
    empty_branches(&ONE_SYNC);
}

#[test]
fn branches_that_changed_nothing_are_not_in_files_that_decide() {
    empty_branches(&TWO_PHASE);
}

#[test]
fn texts_that_are_no_gtids_have_mysqls_errors() {
    let (_dir, server) = start(&ONE_SYNC);
    let mut c = server.connect();
    let purged = |text: &str| format!("SET GLOBAL gtid_purged = {text}");
    for (text, code) in [
        ("' AUTOMATIC'", 1774),
        ("'AUTOMATIC :tag'", 1774),
        ("'ANONYMOUS '", 1774),
        ("'{11111111-1111-1111-1111-111111111111}:1'", 1774),
        ("NULL", 1231),
        ("1", 1232),
    ] {
        assert_eq!(
            c.code(&format!("SET gtid_next = {text}")),
            Some(code),
            "{text}"
        );
    }
    c.run("SET gtid_next = 'automatic: Mine '");
    assert_eq!(c.value("SELECT @@gtid_next"), "AUTOMATIC:mine");
    c.run("SET gtid_next = AUTOMATIC");
    for (text, code) in [
        ("'x'", 1231),
        ("'+x'", 1231),
        ("NULL", 1231),
        ("1", 1232),
        ("DEFAULT", 1230),
    ] {
        assert_eq!(c.code(&purged(text)), Some(code), "{text}");
    }
    let executed = c.value("SELECT @@GLOBAL.gtid_executed");
    assert!(!executed.is_empty());
    for shown in [
        "SHOW VARIABLES LIKE 'gtid_executed'",
        "SHOW GLOBAL VARIABLES LIKE 'gtid_executed'",
        "SELECT * FROM performance_schema.global_variables WHERE variable_name = 'gtid_executed'",
    ] {
        assert_eq!(
            c.value(shown),
            format!("gtid_executed|{executed}"),
            "{shown}"
        );
    }
    assert_eq!(
        c.error("SELECT GTID_SUBTRACT('', 'a')"),
        "Malformed GTID set specification 'Expected at least two hex digits at the beginning of the string: \"a\"'."
    );
    assert_eq!(
        c.error("SELECT WAIT_FOR_EXECUTED_GTID_SET('a')"),
        "Malformed GTID set specification 'a'."
    );
}

/// As MySQL 9.7: who applies what others have logged says what transactions carry, and nothing else.
#[test]
fn who_applies_transactions_says_what_they_carry() {
    let (_dir, server) = start(&ONE_SYNC);
    let mut root = server.connect();
    root.run("CREATE USER u");
    let login = || Client::connect("127.0.0.1", server.port, "u", "", None).expect("login");
    const CARRIED: [&str; 5] = [
        "gtid_next = 'AUTOMATIC'",
        "original_commit_timestamp = 1",
        "original_server_version = 80000",
        "pseudo_replica_mode = 0",
        "pseudo_slave_mode = 0",
    ];
    let mut u = login();
    let denied = "SUPER, SYSTEM_VARIABLES_ADMIN, SESSION_VARIABLES_ADMIN or REPLICATION_APPLIER privilege(s)";
    for set in CARRIED {
        let text = u.error(&format!("SET {set}"));
        assert!(text.contains(denied), "{text}");
    }
    let tagged = "SET gtid_next = 'AUTOMATIC:tag'";
    assert_eq!(u.code(tagged), Some(6038));
    root.run("GRANT REPLICATION_APPLIER ON *.* TO u");
    let mut u = login();
    for set in CARRIED {
        u.run(&format!("SET {set}"));
    }
    u.run(&format!("SET gtid_next = '{FOREIGN}:7'; ROLLBACK"));
    u.run("SET gtid_next = DEFAULT");
    assert_eq!(u.code(tagged), Some(6038));
    assert_eq!(u.code("SET sql_log_bin = 0"), Some(1227));
    assert_eq!(u.code("SET pseudo_thread_id = 1"), Some(1227));
    root.run("GRANT TRANSACTION_GTID_TAG ON *.* TO u");
    let mut u = login();
    u.run(tagged);
}
