//! `gtid_mode` of source and replica: who may follow whom, and what becomes of transactions without GTIDs.

use super::{REPLICA, SOURCE, catch_up, change, contents, status, write};
use crate::common::{Ask, Server, eventually};

const UUID: &str = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";
const BY_POSITION: &str = "SOURCE_LOG_FILE = '', SOURCE_LOG_POS = 4";

/// A source whose transactions have no GTIDs.
fn without_gtids(dir: &std::path::Path) -> Server {
    let options = [
        "--log-bin=ON",
        "--server-id=1",
        "--enforce-gtid-consistency=ON",
    ];
    let server = Server::start(&dir.join("source"), &options);
    server.connect().run(
        "CREATE USER repl IDENTIFIED BY 'secret-word'; GRANT REPLICATION SLAVE ON *.* TO repl; CREATE DATABASE d; \
         CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
    );
    server
}

#[test]
fn transactions_without_gtids_get_those_of_a_uuid() {
    let dir = tempfile::tempdir().expect("folder");
    let source = without_gtids(dir.path());
    let mut there = source.connect();
    let mut replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = replica.connect();
    change(&mut c, source.port, BY_POSITION);
    c.run("START REPLICA");
    eventually("it may not follow", || status(&mut c)[34] == "13117");
    let text = "The replication receiver thread cannot start because the source has GTID_MODE = OFF and this server \
                has GTID_MODE = ON.";
    assert_eq!(status(&mut c)[35], text);
    c.run(&format!(
        "STOP REPLICA; CHANGE REPLICATION SOURCE TO ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = '{UUID}'"
    ));
    assert_eq!(c.code("SET GLOBAL gtid_mode = ON_PERMISSIVE"), Some(3111));
    let until = format!("START REPLICA UNTIL SQL_AFTER_GTIDS = '{UUID}:1'");
    assert_eq!(c.code(&until), Some(4019));
    let kind = "SELECT assign_gtids_to_anonymous_transactions_type, assign_gtids_to_anonymous_transactions_value FROM \
                performance_schema.replication_applier_configuration";
    assert_eq!(c.lines(kind), [format!("UUID|{UUID}")]);
    // Two statements about the account, two about the table.
    c.run("START REPLICA");
    write(&mut there, 0..10);
    catch_up(&replica, &contents(&mut there));
    let given = |c: &mut esker_server::client::Client, last: u32| {
        let contains = format!(
            "SELECT GTID_SUBSET('{UUID}:1-{last}', @@GLOBAL.gtid_executed), \
             GTID_SUBSET('{UUID}:{}', @@GLOBAL.gtid_executed)",
            last + 1
        );
        assert_eq!(
            c.lines(&contains),
            ["1|0"],
            "{:?}",
            c.lines("SELECT @@GLOBAL.gtid_executed")
        );
    };
    given(&mut c, 14);
    // The number goes on where it was.
    replica.kill();
    write(&mut there, 10..15);
    replica.restart();
    catch_up(&replica, &contents(&mut there));
    given(&mut replica.connect(), 19);
}

#[test]
fn a_changed_mode_stops_receivers_and_appliers() {
    let dir = tempfile::tempdir().expect("folder");
    let source = without_gtids(dir.path());
    let mut there = source.connect();
    let permissive = ["--gtid-mode=ON_PERMISSIVE", "--enforce-gtid-consistency=ON"];
    let options = [&REPLICA[..], &permissive].concat();
    let replica = Server::start(&dir.path().join("replica"), &options);
    let mut c = replica.connect();
    change(&mut c, source.port, BY_POSITION);
    c.run("START REPLICA");
    write(&mut there, 0..5);
    catch_up(&replica, &contents(&mut there));
    // They stay without where that may be.
    assert_eq!(c.lines("SELECT @@GLOBAL.gtid_executed"), [""]);
    c.run("STOP REPLICA SQL_THREAD");
    let received = status(&mut c)[6].clone();
    write(&mut there, 5..6);
    eventually("it has come", || status(&mut c)[6] != received);
    c.run("SET GLOBAL gtid_mode = ON");
    write(&mut there, 6..7);
    eventually("nothing without GTID is taken", || {
        status(&mut c)[34] == "13122"
    });
    assert_eq!(
        status(&mut c)[35],
        "Relay log write failure: could not queue event from source"
    );
    c.run("START REPLICA SQL_THREAD");
    eventually("nor applied", || status(&mut c)[36] == "1782");
    c.run("STOP REPLICA; SET GLOBAL gtid_mode = ON_PERMISSIVE; START REPLICA");
    catch_up(&replica, &contents(&mut there));
    // With GTIDs, where this server has none.
    c.run("STOP REPLICA; SET GLOBAL gtid_mode = OFF_PERMISSIVE; SET GLOBAL gtid_mode = OFF; START REPLICA");
    write(&mut there, 7..8);
    catch_up(&replica, &contents(&mut there));
    there.run("SET GLOBAL gtid_mode = OFF_PERMISSIVE; SET GLOBAL gtid_mode = ON_PERMISSIVE");
    write(&mut there, 8..9);
    eventually("nothing with GTID is taken", || {
        status(&mut c)[34] == "13122"
    });
    c.run("STOP REPLICA; START REPLICA");
    eventually("it may not follow", || status(&mut c)[34] == "13117");
    assert_eq!(
        c.code("CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1"),
        Some(3081)
    );
    c.run("STOP REPLICA");
    for options in [
        "SOURCE_AUTO_POSITION = 1",
        "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = LOCAL",
    ] {
        let code = c.code(&format!("CHANGE REPLICATION SOURCE TO {options}"));
        assert!(matches!(code, Some(1777 | 4015)), "{options}: {code:?}");
    }
}

#[test]
fn gtids_are_not_turned_off_while_a_session_has_one() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("server"), &REPLICA);
    let (mut owner, mut c) = (server.connect(), server.connect());
    owner.run(&format!("SET gtid_next = '{UUID}:1'; BEGIN"));
    c.run("SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = OFF_PERMISSIVE");
    assert_eq!(c.code("SET GLOBAL gtid_mode = OFF"), Some(3111));
    assert_eq!(c.lines("SELECT @@GLOBAL.gtid_mode"), ["OFF_PERMISSIVE"]);
    owner.run("COMMIT");
    c.run("SET GLOBAL gtid_mode = OFF");
}

#[test]
fn gtids_are_not_turned_on_while_a_session_goes_without() {
    let dir = tempfile::tempdir().expect("folder");
    let options = [&REPLICA[..], &["--gtid-mode=ON_PERMISSIVE"]].concat();
    let server = Server::start(&dir.path().join("server"), &options);
    let (mut other, mut c) = (server.connect(), server.connect());
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    let counted = "SHOW STATUS LIKE 'Ongoing_anonymous_transaction_count'";
    let count = |c: &mut esker_server::client::Client| c.rows(counted).concat()[1].clone();
    for (statements, end) in [
        ("SET gtid_next = 'ANONYMOUS'", "INSERT INTO d.t VALUES (1)"),
        ("BEGIN; INSERT INTO d.t VALUES (2)", "COMMIT"),
        ("BEGIN; INSERT INTO d.t VALUES (3)", "ROLLBACK"),
        ("BEGIN", "TRUNCATE TABLE d.t"),
    ] {
        other.run(statements);
        assert_eq!(count(&mut c).as_deref(), Some("1"), "{statements}");
        assert_eq!(
            c.code("SET GLOBAL gtid_mode = ON"),
            Some(3111),
            "{statements}"
        );
        other.run(end);
        assert_eq!(count(&mut c).as_deref(), Some("0"), "{end}");
    }
    assert_eq!(c.lines("SELECT @@GLOBAL.gtid_mode"), ["ON_PERMISSIVE"]);
    c.run("SET GLOBAL enforce_gtid_consistency = WARN");
    assert_eq!(c.code("SET GLOBAL gtid_mode = ON"), Some(3111));
    // effect: gtid_mode
    c.run("SET GLOBAL enforce_gtid_consistency = ON; SET GLOBAL gtid_mode = ON");
    assert_eq!(
        c.code("SET GLOBAL enforce_gtid_consistency = OFF"),
        Some(1779)
    );
    assert_eq!(c.lines("SELECT @@GLOBAL.enforce_gtid_consistency"), ["ON"]);
    // It says still that it goes without, and may not any more.
    for sql in [
        "INSERT INTO d.t VALUES (4)",
        "BEGIN",
        "CREATE TABLE d.u (a INT)",
    ] {
        assert_eq!(other.code(sql), Some(1782), "{sql}");
    }
    other.run("SELECT 1; SET gtid_next = 'AUTOMATIC'; INSERT INTO d.t VALUES (4)");
    // One that goes away is not counted any more.
    c.run("SET GLOBAL gtid_mode = ON_PERMISSIVE");
    other.run("SET gtid_next = 'ANONYMOUS'");
    drop(other);
    eventually("it is gone", || count(&mut c).as_deref() == Some("0"));
    // Nor are they turned off while a session waits for one.
    let waiter = std::thread::spawn({
        let mut waiter = server.connect();
        move || waiter.lines(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{UUID}:1')"))
    });
    let waits =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT WAIT_FOR%'";
    eventually("it waits", || c.lines(waits) == ["1"]);
    c.run("SET GLOBAL gtid_mode = OFF_PERMISSIVE");
    assert_eq!(c.code("SET GLOBAL gtid_mode = OFF"), Some(3111));
    c.run(&format!(
        "SET gtid_next = '{UUID}:1'; INSERT INTO d.t VALUES (5); SET gtid_next = 'AUTOMATIC'"
    ));
    assert_eq!(waiter.join().expect("it has waited"), ["0"]);
    c.run("SET GLOBAL gtid_mode = OFF");
}

#[test]
fn servers_are_not_ignored_beside_gtids() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("server"), &REPLICA);
    let mut c = server.connect();
    let ignore = "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h', IGNORE_SERVER_IDS = (7)";
    assert_eq!(c.code(ignore), Some(3139));
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h', IGNORE_SERVER_IDS = ()");
    c.run("SET GLOBAL gtid_mode = ON_PERMISSIVE");
    c.run(ignore);
    assert_eq!(c.code("SET GLOBAL gtid_mode = ON"), Some(3111));
    // A server that starts with GTIDs has the setting that they ask for.
    c.run("RESET REPLICA ALL; SET GLOBAL gtid_mode = ON");
}

#[test]
fn tags_are_for_modes_with_gtids() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("server"), &SOURCE);
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("SET GLOBAL gtid_mode = ON_PERMISSIVE");
    b.run("SET gtid_next = 'AUTOMATIC:aa'");
    assert_eq!(a.code("SET GLOBAL gtid_mode = OFF_PERMISSIVE"), Some(3111));
    b.run("SET gtid_next = 'AUTOMATIC'; SET gtid_next = 'AUTOMATIC:aa'");
    assert_eq!(a.code("SET GLOBAL gtid_mode = OFF_PERMISSIVE"), Some(3111));
    drop(b);
    eventually("the session is gone", || {
        a.code("SET GLOBAL gtid_mode = OFF_PERMISSIVE").is_none()
    });
    assert_eq!(a.code("SET gtid_next = 'AUTOMATIC:aa'"), Some(6039));
    let tagged = "SET gtid_next = '11111111-1111-1111-1111-111111111111:tag:1'";
    a.run(tagged);
    a.run("CREATE DATABASE d; SET gtid_next = AUTOMATIC; SET GLOBAL gtid_mode = OFF");
    assert_eq!(a.code(tagged), Some(6040));
    assert_eq!(a.code("SET gtid_next = 'AUTOMATIC:aa'"), Some(6039));
}
