//! Servers without a binary log: they know which GTIDs are executed all the same, whoever is killed.

use esker_server::client::Client;

use super::{change, contents, source, status, write};
use crate::common::{Ask, Server};

const UNLOGGED: [&str; 3] = ["--log-bin=OFF", "--gtid-mode=ON", "--server-id=2"];
const LOGGED: [&str; 3] = ["--log-bin=ON", "--gtid-mode=ON", "--server-id=2"];
/// A UUID of nobody's.
const FOREIGN: &str = "11111111-1111-1111-1111-111111111111";

/// A row of one text.
fn set(c: &mut Client, sql: &str) -> String {
    c.lines(sql).concat().replace('\n', "")
}

fn executed(c: &mut Client) -> String {
    set(c, "SELECT @@GLOBAL.gtid_executed")
}

/// Variables, table and status say the same.
fn all_say(server: &Server, gtids: &str) {
    let mut c = server.connect();
    assert_eq!(executed(&mut c), gtids);
    assert_eq!(set(&mut c, "SELECT @@GLOBAL.gtid_purged"), gtids);
    let listed = "SELECT CONCAT(source_uuid, ':', interval_start, IF(interval_end = interval_start, '', \
                  CONCAT('-', interval_end))) FROM mysql.gtid_executed ORDER BY 1";
    assert_eq!(c.lines(listed).join(","), gtids);
    let shown = status(&mut c);
    assert!(shown.is_empty() || shown[52].replace('\n', "") == gtids);
}

fn await_all(replica: &Server, source: &Server) -> String {
    let gtids = executed(&mut source.connect());
    let wait = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', 60)");
    assert_eq!(replica.connect().lines(&wait), ["0"]);
    let (mut here, mut there) = (replica.connect(), source.connect());
    assert_eq!(contents(&mut here), contents(&mut there));
    all_say(replica, &gtids);
    gtids
}

#[test]
fn a_replica_without_a_binary_log_knows_what_it_has_executed() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut replica = Server::start(&dir.path().join("replica"), &UNLOGGED);
    let follow = |replica: &Server| {
        let mut c = replica.connect();
        c.run("STOP REPLICA");
        change(&mut c, source.port, "SOURCE_AUTO_POSITION = 1");
        c.run("START REPLICA");
    };
    follow(&replica);
    write(&mut source.connect(), 0..20);
    source
        .connect()
        .run("CREATE TABLE d.copy SELECT * FROM d.t");
    let gtids = await_all(&replica, &source);
    replica.kill();
    replica.restart();
    all_say(&replica, &gtids);
    // What a channel has done stays executed without the channel: nothing comes again.
    for reset in ["RESET REPLICA", "RESET REPLICA ALL"] {
        let gtids = await_all(&replica, &source);
        replica.connect().run(&format!("STOP REPLICA; {reset}"));
        all_say(&replica, &gtids);
        replica.kill();
        replica.restart();
        all_say(&replica, &gtids);
        follow(&replica);
        source.connect().run("INSERT INTO d.copy VALUES (1000, 1)");
    }
    let gtids = await_all(&replica, &source);
    assert_eq!(
        replica
            .connect()
            .lines("SELECT COUNT(*) FROM d.copy WHERE id = 1000"),
        ["2"]
    );
    // A binary log that is begun now knows of it, and the server has it again without one.
    replica.connect().run("STOP REPLICA");
    replica.set_args(&LOGGED);
    for _ in 0..2 {
        replica.kill();
        replica.restart();
        assert_eq!(executed(&mut replica.connect()), gtids);
    }
    replica.connect().run("CREATE DATABASE own");
    let all = executed(&mut replica.connect());
    assert!(all.len() > gtids.len());
    replica.set_args(&UNLOGGED);
    replica.stop();
    replica.restart();
    assert_eq!(executed(&mut replica.connect()), all);
    replica
        .connect()
        .run("STOP REPLICA; RESET BINARY LOGS AND GTIDS");
    all_say(&replica, "");
    replica.kill();
    replica.restart();
    all_say(&replica, "");
}

/// A transaction that a session prepares has two GTIDs, one for the PREPARE and one for its end.
#[test]
fn prepared_transactions_without_a_binary_log_use_gtids_up() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(&dir.path().join("server"), &UNLOGGED);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT)");
    let next = |n: u32| format!("SET gtid_next = '{FOREIGN}:{n}'");
    let prepare = |c: &mut Client, n: u32| {
        c.run(&next(n));
        c.run(&format!(
            "XA START 'x'; INSERT INTO d.t VALUES ({n}, {n}); XA END 'x'; XA PREPARE 'x'"
        ));
    };
    prepare(&mut c, 1);
    c.run(&next(2));
    c.run("XA COMMIT 'x'");
    prepare(&mut c, 3);
    assert_eq!(executed(&mut c), format!("{FOREIGN}:1-3"));
    server.kill();
    server.restart();
    let mut c = server.connect();
    assert_eq!(executed(&mut c), format!("{FOREIGN}:1-3"));
    c.run(&next(4));
    c.run("XA ROLLBACK 'x'");
    prepare(&mut c, 5);
    c.run(&next(6));
    c.run("XA ROLLBACK 'x'");
    server.kill();
    server.restart();
    let mut c = server.connect();
    assert_eq!(executed(&mut c), format!("{FOREIGN}:1-6"));
    assert_eq!(contents(&mut c), ["1|1"]);
    c.run("ALTER TABLE d.t ADD c INT");
}

#[test]
fn sessions_without_a_binary_log_use_gtids_up() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(&dir.path().join("server"), &UNLOGGED);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT)");
    let next = |n: u32| format!("SET gtid_next = '{FOREIGN}:{n}'");
    for (n, statement) in [
        (5, "INSERT INTO d.t VALUES (1, 1)"),
        (7, "CREATE TABLE d.u (a INT)"),
        (9, "BEGIN; COMMIT"),
        (11, "CREATE TABLE d.copy SELECT * FROM d.t"),
        (13, "CREATE USER u"),
        (15, "BEGIN; INSERT INTO d.t VALUES (2, 2); ROLLBACK"),
        // That one is executed: the statement is skipped.
        (5, "INSERT INTO d.t VALUES (3, 3)"),
    ] {
        c.run(&next(n));
        c.run(statement);
        if n == 7 {
            assert_eq!(c.code("INSERT INTO d.t VALUES (9, 9)"), Some(1837));
        }
        c.run("SET gtid_next = AUTOMATIC");
    }
    c.run("INSERT INTO d.t VALUES (4, 4)");
    let gtids = |list: &str| format!("{FOREIGN}:{list}");
    assert_eq!(executed(&mut c), gtids("5:7:9:11:13"));
    // effect: gtid_purged
    c.run(&format!("SET GLOBAL gtid_purged = '+{FOREIGN}:1-3'"));
    let overlap = format!("SET GLOBAL gtid_purged = '+{FOREIGN}:3-4'");
    assert_eq!(c.code(&overlap), Some(3546));
    server.kill();
    server.restart();
    let mut c = server.connect();
    assert_eq!(executed(&mut c), gtids("1-3:5:7:9:11:13"));
    assert_eq!(contents(&mut c), ["1|1", "4|4"]);
    // Many are kept as one row.
    for n in 20..1100 {
        c.run(&format!("{}; BEGIN; COMMIT", next(n)));
    }
    server.kill();
    server.restart();
    let mut c = server.connect();
    assert_eq!(executed(&mut c), gtids("1-3:5:7:9:11:13:20-1099"));
    let wait = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{FOREIGN}:1100', 0.1)");
    assert_eq!(c.lines(&wait), ["1"]);
}

/// Files that the crash has left behind the log are brought to their end first.
#[test]
fn a_binary_log_comes_and_goes_over_kill_9() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(&dir.path().join("server"), &LOGGED);
    let mut c = server.connect();
    let uuid = c.value("SELECT @@server_uuid");
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT)");
    let next = |n: u32| format!("SET gtid_next = '{FOREIGN}:{n}'");
    let (mut own, mut foreign) = (2, 0);
    for round in 0..3 {
        for n in 0..40 {
            c.run(&format!(
                "INSERT INTO d.t VALUES ({}, {n})",
                round * 100 + n
            ));
            own += 1;
        }
        foreign += 1;
        c.run(&format!("{}; BEGIN; COMMIT", next(foreign)));
        let all = format!(
            "{FOREIGN}:{}",
            if foreign == 1 {
                "1".to_owned()
            } else {
                format!("1-{foreign}")
            }
        );
        let mut all = [all, format!("{uuid}:1-{own}")];
        all.sort();
        server.kill();
        server.set_args(&UNLOGGED);
        server.restart();
        c = server.connect();
        assert_eq!(executed(&mut c), all.join(","), "without, round {round}");
        foreign += 1;
        c.run(&format!("{}; BEGIN; COMMIT", next(foreign)));
        server.kill();
        server.set_args(&LOGGED);
        server.restart();
        c = server.connect();
        let mut all = [format!("{FOREIGN}:1-{foreign}"), format!("{uuid}:1-{own}")];
        all.sort();
        assert_eq!(executed(&mut c), all.join(","), "with, round {round}");
    }
    assert_eq!(c.value("SELECT COUNT(*) FROM d.t"), "120");
}

#[test]
fn purged_gtids_are_added_to_those_that_nobody_has() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("server"), &UNLOGGED);
    let (mut c, mut other) = (server.connect(), server.connect());
    let purge = |set: &str| format!("SET GLOBAL gtid_purged = '{set}'");
    c.run(&purge(&format!("{FOREIGN}:1-5")));
    // The whole of it is set anew.
    c.run(&purge(&format!("{FOREIGN}:1-7")));
    assert_eq!(c.code(&purge(&format!("{FOREIGN}:6-9"))), Some(3546));
    assert_eq!(c.code(&purge(&format!("+{FOREIGN}:7-9"))), Some(3546));
    other.run(&format!("SET gtid_next = '{FOREIGN}:20'"));
    assert_eq!(c.code(&purge(&format!("+{FOREIGN}:19-21"))), Some(3546));
    other.run("ROLLBACK; SET gtid_next = AUTOMATIC");
    c.run(&purge(&format!("+{FOREIGN}:19-21")));
    assert_eq!(executed(&mut c), format!("{FOREIGN}:1-7:19-21"));
    c.run("PURGE BINARY LOGS TO 'x'; PURGE BINARY LOGS BEFORE NOW()");
    c.run("RESET BINARY LOGS AND GTIDS");
    assert_eq!(executed(&mut c), "");
}

/// The record of an XA PREPARE and the row of its GTID are two: a crash between them loses the GTID, never the branch.
#[test]
fn no_gtid_outlives_its_prepared_transaction() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(&dir.path().join("server"), &UNLOGGED);
    server
        .connect()
        .run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    let mut first = 1;
    for round in 0..6 {
        let mut c = server.connect();
        let prepares = std::thread::spawn(move || {
            let mut acknowledged = first;
            loop {
                let n = acknowledged;
                let sql = format!(
                    "SET gtid_next = '{FOREIGN}:{n}'; XA START '{n}'; INSERT INTO d.t VALUES ({n}); XA END '{n}'; \
                     XA PREPARE '{n}'"
                );
                if c.query(&sql, &mut |_| ()).is_err() {
                    return acknowledged;
                }
                acknowledged += 1;
            }
        });
        std::thread::sleep(std::time::Duration::from_millis(150 + 37 * round));
        server.kill();
        let end = prepares.join().expect("thread");
        server.restart();
        let mut c = server.connect();
        let prepared: Vec<u32> = c
            .lines("XA RECOVER")
            .iter()
            .filter_map(|row| row.rsplit('|').next()?.parse().ok())
            .collect();
        let mut is_executed = |n: u32| {
            let set = format!("SELECT GTID_SUBSET('{FOREIGN}:{n}', @@GLOBAL.gtid_executed)");
            c.value(&set) == "1"
        };
        for n in first..=end {
            let (is_there, has_gtid) = (prepared.contains(&n), is_executed(n));
            assert!(is_there || !has_gtid, "{n} is executed and not prepared");
            assert!(n == end || is_there && has_gtid, "{n} was acknowledged");
        }
        first = end + 1;
    }
}
