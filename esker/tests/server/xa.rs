//! XA transactions over real sockets: states, errors, identifiers, locks, rights. What a crash does to them is in
//! `xa_crash`.
//!
//! The answers were taken from MySQL 9.7; `docs/xa.md` says where Esker's differ.

use crate::common::{Ask, Server, eventually};
use esker_server::client::{Client, ClientError};

/// A server with the table `d.t` of rows (1,1), (2,2), (3,3); waits for row locks end after a second.
fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl", "--innodb-lock-wait-timeout=1"]);
    server.connect().run(
        "CREATE DATABASE d; USE d;
         CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, KEY v (v));
         INSERT INTO t VALUES (1,1),(2,2),(3,3)",
    );
    (server, dir)
}

fn open(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

/// Number, SQLSTATE and text of a statement's error; empty if it has none.
fn error(c: &mut Client, sql: &str) -> String {
    match c.query(sql, &mut |_| ()) {
        Ok(()) => String::new(),
        Err(ClientError::Server(e)) => format!("{} {} {}", e.code, e.state, e.message),
        Err(e) => panic!("{sql}: {e}"),
    }
}

const NOTA: &str = "1397 XAE04 XAER_NOTA: Unknown XID";
const INVAL: &str = "1398 XAE05 XAER_INVAL: Invalid arguments (or unsupported command)";
const OUTSIDE: &str = "1400 XAE09 XAER_OUTSIDE: Some work is done outside global transaction";
const RMERR: &str = "1401 XAE03 XAER_RMERR: Fatal error occurred in the transaction branch - check your data for consistency";
const DUPID: &str = "1440 XAE08 XAER_DUPID: The XID already exists";
const RBDEADLOCK: &str =
    "1614 XA102 XA_RBDEADLOCK: Transaction branch was rolled back: deadlock was detected";

fn rmfail(state: &str) -> String {
    format!(
        "1399 XAE07 XAER_RMFAIL: The command cannot be executed when global transaction is in the  {state} state"
    )
}

/// Runs statements and compares each one's error.
fn transcript(c: &mut Client, statements: &[(&str, &str)]) {
    for (sql, wanted) in statements {
        assert_eq!(error(c, sql), *wanted, "{sql}");
    }
}

#[test]
fn a_session_without_a_branch() {
    let (server, _dir) = server();
    let mut c = open(&server);
    let none = rmfail("NON-EXISTING");
    transcript(
        &mut c,
        &[
            ("XA END 'x'", &none),
            ("XA PREPARE 'x'", &none),
            ("XA COMMIT 'x'", NOTA),
            ("XA COMMIT 'x' ONE PHASE", NOTA),
            ("XA ROLLBACK 'x'", NOTA),
            ("XA START 'x' JOIN", INVAL),
            ("XA START 'x' RESUME", INVAL),
            ("XA END 'x' SUSPEND", INVAL),
            ("XA END 'x' SUSPEND FOR MIGRATE", INVAL),
            // Inside an ordinary transaction.
            ("BEGIN", ""),
            ("XA START 'x'", OUTSIDE),
            ("XA COMMIT 'x'", &none),
            ("XA ROLLBACK 'x'", &none),
            ("XA END 'x'", &none),
            ("XA PREPARE 'x'", &none),
            ("XA RECOVER", ""),
            ("ROLLBACK", ""),
            ("SET autocommit = 0", ""),
            ("SELECT * FROM t", ""),
            ("XA START 'x'", OUTSIDE),
            ("ROLLBACK", ""),
            ("XA START 'x'", ""),
            ("XA END 'x'", ""),
            ("XA ROLLBACK 'x'", ""),
            ("SET autocommit = 1", ""),
            ("LOCK TABLES t WRITE", ""),
            ("XA START 'x'", OUTSIDE),
            ("XA COMMIT 'x'", NOTA),
            ("UNLOCK TABLES", ""),
        ],
    );
    assert!(c.rows("XA RECOVER").is_empty());
}

#[test]
fn statements_in_an_active_branch() {
    let (server, _dir) = server();
    let mut c = open(&server);
    let active = rmfail("ACTIVE");
    c.run("XA START 'x'");
    let mut refused: Vec<(&str, &str)> = [
        "XA START 'x'",
        "XA START 'y'",
        "XA PREPARE 'x'",
        "XA COMMIT 'x'",
        "XA COMMIT 'x' ONE PHASE",
        "XA COMMIT 'y'",
        "XA ROLLBACK 'x'",
        "XA ROLLBACK 'y'",
        "BEGIN",
        "START TRANSACTION",
        "COMMIT",
        "ROLLBACK",
        "CREATE TABLE q (a INT)",
        "ALTER TABLE t ADD COLUMN z INT",
        "TRUNCATE t",
        "DROP TABLE t",
        "RENAME TABLE t TO u",
        "CREATE INDEX i ON t (id)",
        "CREATE VIEW w AS SELECT v FROM t",
        "CREATE DATABASE e",
        "DROP DATABASE d",
        "LOCK TABLES t WRITE",
        "FLUSH TABLES",
        "FLUSH PRIVILEGES",
        "ANALYZE TABLE t",
        "CREATE USER zz",
        "GRANT SELECT ON *.* TO root@localhost",
        "SET PASSWORD FOR root@localhost = ''",
    ]
    .map(|sql| (sql, active.as_str()))
    .into();
    refused.extend([
        ("XA END 'y'", NOTA),
        ("XA END 'x' SUSPEND", INVAL),
        ("XA START 'x' RESUME", INVAL),
        ("XA START 'x' JOIN", INVAL),
        ("SET autocommit = 1", ""),
        ("SET autocommit = 0", ""),
        ("SET autocommit = 1", active.as_str()),
        ("SAVEPOINT s", ""),
        ("UPDATE t SET v = 20 WHERE id = 2", ""),
        ("ROLLBACK TO s", ""),
        ("RELEASE SAVEPOINT s", ""),
        ("UPDATE t SET v = 10 WHERE id = 1", ""),
        ("UNLOCK TABLES", ""),
        ("CHECKSUM TABLE t", ""),
        ("SHOW TABLES", ""),
        ("XA RECOVER", ""),
    ]);
    transcript(&mut c, &refused);
    assert_eq!(
        error(&mut c, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"),
        "1568 25001 Transaction characteristics can't be changed while a transaction is in progress"
    );
    assert_eq!(c.value("SELECT @@autocommit"), "0");
    assert_eq!(c.lines("SELECT v FROM t ORDER BY id"), ["10", "2", "3"]);
    // Nobody else may use the identifier, and nobody sees what is done.
    let mut other = open(&server);
    transcript(
        &mut other,
        &[
            ("XA START 'x'", DUPID),
            ("XA COMMIT 'x'", NOTA),
            ("XA ROLLBACK 'x'", NOTA),
        ],
    );
    assert_eq!(other.value("SELECT v FROM t WHERE id = 1"), "1");
    c.run("XA END 'x'; XA COMMIT 'x' ONE PHASE");
    assert_eq!(other.value("SELECT v FROM t WHERE id = 1"), "10");
    assert_eq!(error(&mut c, "XA COMMIT 'x'"), NOTA);
}

#[test]
fn statements_in_an_idle_branch() {
    let (server, _dir) = server();
    let mut c = open(&server);
    // Plans of texts that came before must not get round the branch's state.
    for _ in 0..3 {
        c.run("SELECT v FROM t WHERE id = 1; UPDATE t SET v = 1 WHERE id = 1");
    }
    c.run("XA START 'x'; UPDATE t SET v = 10 WHERE id = 1; XA END 'x'");
    let idle = rmfail("IDLE");
    let mut all: Vec<(&str, &str)> = [
        "SELECT * FROM t",
        "SELECT v FROM t WHERE id = 1",
        "UPDATE t SET v = 1 WHERE id = 1",
        "INSERT INTO t VALUES (9, 9)",
        "DELETE FROM t WHERE id = 1",
        "SELECT (SELECT MAX(v) FROM t)",
        "SELECT * FROM information_schema.tables",
        "EXPLAIN SELECT * FROM t",
        "DO (SELECT MAX(v) FROM t)",
        "SHOW TABLES",
        "SHOW STATUS LIKE 'Com_xa%'",
        "SHOW VARIABLES LIKE 'autocommit'",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT s",
        "CREATE TABLE q (a INT)",
        "LOCK TABLES t READ",
        "FLUSH TABLES",
        "XA START 'x'",
        "XA END 'x'",
        "XA COMMIT 'x'",
        "XA COMMIT 'y' ONE PHASE",
        "XA ROLLBACK 'y'",
    ]
    .map(|sql| (sql, idle.as_str()))
    .into();
    all.extend([
        ("XA PREPARE 'y'", NOTA),
        ("XA START 'y' RESUME", NOTA),
        ("XA START 'x' JOIN", INVAL),
        ("SELECT 1", ""),
        ("SET @a = 1", ""),
        ("DO 1", ""),
        ("USE d", ""),
        ("SHOW WARNINGS", ""),
        ("SHOW REPLICA STATUS", ""),
        ("SHOW REPLICAS", ""),
        ("SHOW BINARY LOG STATUS", ""),
        ("SHOW CREATE DATABASE d", ""),
        ("SHOW ENGINE INNODB STATUS", ""),
        ("SHOW PRIVILEGES", ""),
        ("EXPLAIN SELECT 1", ""),
        ("UNLOCK TABLES", ""),
        ("XA RECOVER", ""),
    ]);
    transcript(&mut c, &all);
    c.run("XA START 'x' RESUME");
    assert_eq!(c.value("SELECT v FROM t WHERE id = 1"), "10");
    c.run("UPDATE t SET v = 11 WHERE id = 1; XA END 'x'; XA ROLLBACK 'x'");
    assert_eq!(c.value("SELECT v FROM t WHERE id = 1"), "1");
}

#[test]
fn a_prepared_transaction_is_nobodys() {
    let (server, _dir) = server();
    let (mut a, mut b) = (open(&server), open(&server));
    a.run("XA START 'x'; UPDATE t SET v = 10 WHERE id = 1; INSERT INTO t VALUES (4, 4)");
    a.run("XA END 'x'; XA PREPARE 'x'");
    // The session goes on with other work.
    let none = rmfail("NON-EXISTING");
    transcript(
        &mut a,
        &[
            ("XA PREPARE 'x'", &none),
            ("XA END 'x'", &none),
            ("XA START 'x'", DUPID),
            ("XA START 'x' RESUME", INVAL),
            ("BEGIN", ""),
            ("XA COMMIT 'x'", &none),
            ("ROLLBACK", ""),
        ],
    );
    assert_eq!(a.lines("SELECT id, v FROM t"), ["1|1", "2|2", "3|3"]);
    // Its rows stay locked, also those that only it has.
    for sql in [
        "UPDATE t SET v = 0 WHERE id = 1",
        "SELECT v FROM t WHERE id = 1 FOR SHARE",
        "INSERT INTO t VALUES (4, 0)",
    ] {
        assert_eq!(b.code(sql), Some(1205), "{sql}");
    }
    let other = rmfail("ACTIVE");
    transcript(
        &mut b,
        &[
            ("UPDATE t SET v = 20 WHERE id = 2", ""),
            ("XA START 'y'", ""),
            ("XA COMMIT 'x'", &other),
            ("XA END 'y'", ""),
            ("XA ROLLBACK 'y'", ""),
        ],
    );
    drop(a);
    assert_eq!(b.lines("XA RECOVER"), ["1|1|0|x"]);
    b.run("XA COMMIT 'x'");
    assert_eq!(
        b.lines("SELECT id, v FROM t ORDER BY id"),
        ["1|10", "2|20", "3|3", "4|4"]
    );
    assert_eq!(
        b.lines("SELECT id FROM t FORCE INDEX (v) WHERE v = 10"),
        ["1"]
    );
    assert_eq!(error(&mut b, "XA COMMIT 'x'"), NOTA);
    // ONE PHASE does for a prepared one, as in MySQL; ROLLBACK undoes it.
    b.run("XA START 'x'; DELETE FROM t WHERE id = 1; XA END 'x'; XA PREPARE 'x'; XA ROLLBACK 'x'");
    b.run("XA START 'x'; DELETE FROM t WHERE id = 4; XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x' ONE PHASE");
    assert_eq!(b.lines("SELECT id FROM t ORDER BY id"), ["1", "2", "3"]);
    b.run("UPDATE t SET v = 0");
}

#[test]
fn a_transaction_that_only_reads_can_be_prepared() {
    let (server, _dir) = server();
    let (mut a, mut b) = (open(&server), open(&server));
    for read in [
        "DO 1",
        "SELECT * FROM t",
        "SELECT * FROM t WHERE id = 1 FOR UPDATE",
    ] {
        a.run(&format!("XA START 'r'; {read}; XA END 'r'; XA PREPARE 'r'"));
        assert_eq!(b.lines("XA RECOVER"), ["1|1|0|r"]);
        let locked = read.ends_with("UPDATE").then_some(1205);
        assert_eq!(b.code("UPDATE t SET v = 5 WHERE id = 1"), locked, "{read}");
        b.run("XA COMMIT 'r'");
    }
    a.run("SET TRANSACTION READ ONLY; XA START 'r'");
    assert_eq!(a.code("INSERT INTO t VALUES (9, 9)"), Some(1792));
    a.run("XA END 'r'; XA COMMIT 'r' ONE PHASE; INSERT INTO t VALUES (9, 9)");
}

#[test]
fn attached_until_the_session_ends() {
    let (server, _dir) = server();
    let (mut a, mut b) = (open(&server), open(&server));
    a.run("SET SESSION xa_detach_on_prepare = OFF");
    let prepare = "XA START 'x'; UPDATE t SET v = v + 1 WHERE id = 1; XA END 'x'; XA PREPARE 'x'";
    a.run(prepare);
    let prepared = rmfail("PREPARED");
    transcript(
        &mut a,
        &[
            ("SELECT 1", ""),
            ("SELECT * FROM t", &prepared),
            ("COMMIT", &prepared),
            ("XA START 'y'", &prepared),
            ("XA END 'x'", &prepared),
            ("XA PREPARE 'x'", &prepared),
            ("XA COMMIT 'x' ONE PHASE", &prepared),
        ],
    );
    assert_eq!(b.lines("XA RECOVER"), ["1|1|0|x"]);
    assert_eq!(error(&mut b, "XA COMMIT 'x'"), NOTA);
    a.run("XA COMMIT 'x'");
    a.run(prepare);
    a.run("XA ROLLBACK 'x'");
    a.run(prepare);
    drop(a);
    eventually("it belongs to no session", || {
        b.code("XA COMMIT 'x'").is_none()
    });
    assert_eq!(b.value("SELECT v FROM t WHERE id = 1"), "3");
}

#[test]
fn identifiers() {
    let (server, _dir) = server();
    let mut c = open(&server);
    let long = "1234567890123456".repeat(4);
    let both = format!("'{long}','{long}',4294967295");
    let forms = [
        // As said at first; as said later; what XA RECOVER shows; what it shows CONVERTed.
        ("''", "X'','',1", "1|0|0|", "1|0|0|0x"),
        ("'g','b'", "0x67,0x62,0x1", "1|1|1|gb", "1|1|1|0x6762"),
        (
            "0x00ff41, b'0100000101000010', 0x10",
            "X'00ff41','AB',16",
            "16|3|2|\0\u{fffd}AAB",
            "16|3|2|0x00FF414142",
        ),
        (&both, &both, "4294967295|64|64|", "4294967295|64|64|0x3132"),
        (
            "'Straße', 'x', 9223372036854775807",
            "'Straße', 'x', 9223372036854775807",
            "9223372036854775807|7|1|Straßex",
            "9223372036854775807|7|1|0x53747261C39F6578",
        ),
    ];
    for (said, again, shown, hex) in forms {
        c.run(&format!(
            "XA START {said}; XA END {again}; XA PREPARE {again}"
        ));
        assert!(c.value("XA RECOVER").starts_with(shown), "{said}");
        assert!(c.value("XA RECOVER CONVERT XID").starts_with(hex), "{said}");
        c.run(&format!("XA ROLLBACK {again}"));
    }
    // Case, the border between the parts, and the format tell identifiers apart.
    for (n, xid) in ["'ab','c'", "'a','bc'", "'A','bc'", "'a','bc',2"]
        .iter()
        .enumerate()
    {
        c.run(&format!(
            "XA START {xid}; INSERT INTO t VALUES ({}, 0); XA END {xid}; XA PREPARE {xid}",
            n + 10
        ));
    }
    assert_eq!(
        c.lines("XA RECOVER"),
        ["1|2|1|abc", "1|1|2|abc", "1|1|2|Abc", "2|1|2|abc"],
        "in the order of preparation"
    );
    c.run("XA COMMIT 'a','bc'; XA ROLLBACK 'ab','c'; XA ROLLBACK 'A','bc'; XA COMMIT 'a','bc',2");
    assert_eq!(c.lines("SELECT id FROM t WHERE id >= 10"), ["11", "13"]);
    // Not through PREPARE, as in MySQL.
    for sql in ["XA START 'x'", "XA RECOVER", "XA COMMIT 'x'"] {
        assert_eq!(c.code(&format!("PREPARE p FROM \"{sql}\"")), Some(1295));
    }
}

#[test]
fn who_may_list() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER u@localhost; GRANT ALL ON d.* TO u@localhost");
    let login = || Client::connect("127.0.0.1", server.port, "u", "", Some("d")).expect("login");
    let mut u = login();
    assert_eq!(error(&mut u, "XA RECOVER"), RMERR);
    assert_eq!(error(&mut u, "XA RECOVER CONVERT XID"), RMERR);
    // Deciding needs no right beyond knowing the identifier.
    u.run("XA START 'u'; INSERT INTO t VALUES (5, 5); XA END 'u'; XA PREPARE 'u'; XA COMMIT 'u'");
    assert_eq!(
        error(&mut root, "GRANT XA_RECOVER_ADMIN ON d.* TO u@localhost"),
        "3619 HY000 Illegal privilege level specified for XA_RECOVER_ADMIN"
    );
    root.run("GRANT XA_RECOVER_ADMIN ON *.* TO u@localhost");
    assert_eq!(
        root.lines("SHOW GRANTS FOR u@localhost"),
        [
            "GRANT USAGE ON *.* TO `u`@`localhost`",
            "GRANT XA_RECOVER_ADMIN ON *.* TO `u`@`localhost`",
            "GRANT ALL PRIVILEGES ON `d`.* TO `u`@`localhost`",
        ]
    );
    assert!(login().rows("XA RECOVER").is_empty());
    root.run("REVOKE XA_RECOVER_ADMIN ON *.* FROM u@localhost");
    assert_eq!(error(&mut login(), "XA RECOVER"), RMERR);
}

#[test]
fn a_deadlock_leaves_a_branch_that_can_only_be_ended() {
    let (server, _dir) = server();
    // Ends in the deadlock of the first session, which has done less.
    let deadlock = |c: &mut Client| {
        c.run("XA START 'x'; UPDATE t SET v = 10 WHERE id = 1");
        let mut other = open(&server);
        other.run(
            "BEGIN; UPDATE t SET v = 20 WHERE id IN (2, 3); INSERT INTO t VALUES (8, 8), (9, 9)",
        );
        let waiting = std::thread::spawn(move || {
            other.run(
                "SET innodb_lock_wait_timeout = 50; UPDATE t SET v = 20 WHERE id = 1; ROLLBACK",
            );
        });
        let waiting_for_locks =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE '%lock'";
        eventually("it waits", || c.value(waiting_for_locks) == "1");
        c.run("SET innodb_lock_wait_timeout = 50");
        assert_eq!(c.code("UPDATE t SET v = 10 WHERE id = 2"), Some(1213));
        waiting.join().expect("no panic");
    };
    let only = rmfail("ROLLBACK ONLY");
    let mut c = open(&server);
    deadlock(&mut c);
    transcript(
        &mut c,
        &[
            ("SELECT 1", ""),
            ("XA ROLLBACK 'x'", &rmfail("ACTIVE")),
            ("SELECT * FROM t", RBDEADLOCK),
            ("INSERT INTO t VALUES (99, 1)", RBDEADLOCK),
            ("COMMIT", &only),
            ("ROLLBACK", &only),
            ("XA END 'x'", &only),
            ("XA PREPARE 'x'", &only),
            ("XA START 'y'", &only),
            ("XA COMMIT 'x'", RBDEADLOCK),
            ("XA COMMIT 'x'", NOTA),
            ("SELECT * FROM t", ""),
        ],
    );
    deadlock(&mut c);
    transcript(
        &mut c,
        &[("XA END 'x'", RBDEADLOCK), ("XA ROLLBACK 'x'", "")],
    );
    deadlock(&mut c);
    transcript(
        &mut c,
        &[
            ("XA END 'x'", RBDEADLOCK),
            ("XA COMMIT 'x' ONE PHASE", RBDEADLOCK),
            ("XA ROLLBACK 'x'", NOTA),
        ],
    );
    assert_eq!(c.lines("SELECT id, v FROM t"), ["1|1", "2|2", "3|3"]);
    // A lock that is not granted in time, or a duplicate, undoes the statement only.
    let mut other = open(&server);
    other.run("BEGIN; UPDATE t SET v = 20 WHERE id = 2");
    c.run("SET innodb_lock_wait_timeout = 1; XA START 'x'; UPDATE t SET v = 10 WHERE id = 1");
    assert_eq!(c.code("UPDATE t SET v = 10 WHERE id = 2"), Some(1205));
    assert_eq!(c.code("INSERT INTO t VALUES (3, 3)"), Some(1062));
    c.run("XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'");
    assert_eq!(c.value("SELECT v FROM t WHERE id = 1"), "10");
}

#[test]
fn a_branch_ends_with_its_session() {
    let (server, _dir) = server();
    let mut other = open(&server);
    for (n, leave) in ["", "KILL", "END", "END KILL"].iter().enumerate() {
        let mut c = open(&server);
        c.run(&format!(
            "XA START 'x'; INSERT INTO t VALUES ({}, 0); UPDATE t SET v = 9 WHERE id = 1",
            n + 20
        ));
        if leave.starts_with("END") {
            c.run("XA END 'x'");
        }
        let id = c.value("SELECT CONNECTION_ID()");
        // KILL QUERY is no reason to give up a branch.
        other.run(&format!("KILL QUERY {id}"));
        assert_eq!(error(&mut other, "XA START 'x'"), DUPID);
        if leave.ends_with("KILL") {
            other.run(&format!("KILL {id}"));
        } else {
            drop(c);
        }
        eventually("the identifier is free", || {
            other.code("XA START 'x'").is_none()
        });
        other.run("UPDATE t SET v = 1 WHERE id = 1; XA END 'x'; XA ROLLBACK 'x'");
        assert!(other.rows("XA RECOVER").is_empty());
        assert_eq!(other.value("SELECT COUNT(*) FROM t"), "3");
    }
}

#[test]
fn a_read_lock_on_everything_holds_up_decisions_only() {
    let (server, _dir) = server();
    let (mut a, mut b) = (open(&server), open(&server));
    a.run("XA START 'x'; UPDATE t SET v = 10 WHERE id = 1; XA END 'x'; XA PREPARE 'x'");
    b.run("FLUSH TABLES WITH READ LOCK");
    assert_eq!(b.code("XA COMMIT 'x'"), Some(1223));
    a.run("SET lock_wait_timeout = 1");
    assert_eq!(a.code("XA COMMIT 'x'"), Some(1205));
    assert_eq!(a.code("XA ROLLBACK 'x'"), Some(1205));
    assert_eq!(b.value("SELECT v FROM t WHERE id = 1"), "1");
    assert_eq!(b.lines("XA RECOVER"), ["1|1|0|x"]);
    b.run("UNLOCK TABLES");
    a.run("XA COMMIT 'x'");
    assert_eq!(b.value("SELECT v FROM t WHERE id = 1"), "10");
}

#[test]
fn what_is_counted_and_shown() {
    let (server, _dir) = server();
    let mut c = open(&server);
    c.run("FLUSH STATUS; XA START 'k'; XA END 'k'; XA PREPARE 'k'; XA RECOVER; XA ROLLBACK 'k'");
    c.run("XA BEGIN 'k'; XA END 'k'; XA COMMIT 'k' ONE PHASE");
    assert_eq!(c.code("XA COMMIT 'nope'"), Some(1397));
    assert_eq!(
        c.lines("SHOW STATUS LIKE 'Com_xa%'"),
        [
            "Com_xa_commit|2",
            "Com_xa_end|2",
            "Com_xa_prepare|1",
            "Com_xa_recover|1",
            "Com_xa_rollback|1",
            "Com_xa_start|2",
        ]
    );
    let mut open_one = open(&server);
    open_one.run("XA START 'open',X'00'; INSERT INTO t VALUES (7, 7)");
    c.run("XA START 'k','b',3; DELETE FROM t WHERE id = 1; XA END 'k','b',3; XA PREPARE 'k','b',3");
    assert_eq!(
        c.value("SHOW STATUS LIKE 'Esker_prepared_xa_transactions'"),
        "Esker_prepared_xa_transactions|1"
    );
    let shown = "SELECT id IS NULL, user, state, xid FROM information_schema.esker_transactions ORDER BY xid";
    assert_eq!(
        c.lines(shown),
        [
            "1|root|PREPARED|X'6b',X'62',3",
            "0|root|IDLE|X'6f70656e',X'00',1"
        ]
    );
    assert_eq!(
        c.value("SELECT xa FROM information_schema.engines WHERE engine = 'InnoDB'"),
        "YES"
    );
}
