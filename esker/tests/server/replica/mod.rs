//! Replicas over real sockets: what they end with equals the source, whoever is killed.
//!
//! `sources` has sources of other makes, `roles` who follows whom: chains, circles, promotion, acknowledgements;
//! `broken_streams` has connections that break in the middle of a transaction,
//! `certificates` has logins with one, `histories` random histories, `differences` what only settings and accounts of
//! the source say, `own_rules` what only those of the replica say, `events` those by the clock, `failover` other
//! sources, `modes` what gtid_mode says, `options` those of CHANGE REPLICATION SOURCE, `rules` what channels leave out,
//! and where they stop, `settings` what variables are for, `slave_pos` how far a replica of MariaDB is, `stages` what
//! is shown of a channel, `threads` its threads in the process list, `unlogged` servers without a binary log.

mod broken_streams;
mod certificates;
mod differences;
mod events;
mod failover;
mod histories;
mod modes;
mod options;
mod own_rules;
mod roles;
mod rules;
mod settings;
mod slave_pos;
mod sources;
mod stages;
mod threads;
mod unlogged;

use std::path::Path;

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually};

const SOURCE: [&str; 3] = ["--log-bin=ON", "--gtid-mode=ON", "--server-id=1"];
const REPLICA: [&str; 3] = ["--log-bin=ON", "--gtid-mode=ON", "--server-id=2"];

/// The binary log decides about transactions.
const TWO_PHASE: &str = "--esker-binlog-commit=TWO-PHASE";

fn source(dir: &Path) -> Server {
    source_with(dir, &[])
}

fn source_with(dir: &Path, more: &[&str]) -> Server {
    let server = Server::start(&dir.join("source"), &[&SOURCE[..], more].concat());
    server.connect().run(
        "CREATE USER repl IDENTIFIED BY 'secret-word'; GRANT REPLICATION SLAVE ON *.* TO repl; CREATE DATABASE d; \
         CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
    );
    server
}

fn change(c: &mut Client, port: u16, how: &str) {
    c.run(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'repl', \
         SOURCE_PASSWORD = 'secret-word', SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 0, \
         SOURCE_HEARTBEAT_PERIOD = 1, GET_SOURCE_PUBLIC_KEY = 1, {how}"
    ));
}

/// A source with the table `d.t (id, v)`, and a replica that follows it.
fn pair(dir: &Path) -> (Server, Server) {
    let source = source(dir);
    let replica = Server::start(&dir.join("replica"), &REPLICA);
    let mut c = replica.connect();
    change(&mut c, source.port, "SOURCE_AUTO_POSITION = 1");
    c.run("START REPLICA");
    (source, replica)
}

/// Waits until the server has executed what the other one has.
fn has_executed(c: &mut Client, set: &str) {
    let waited = c.value(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', 60)"));
    assert_eq!(waited, "0", "{}", status(c).join("|"));
}

/// Waits until the replica has everything.
fn follow(source: &mut Client, replica: &mut Client) {
    let set = source.value("SELECT @@GLOBAL.gtid_executed");
    has_executed(replica, &set);
}

fn write(c: &mut Client, numbers: std::ops::Range<u32>) {
    for n in numbers {
        c.run(&format!(
            "BEGIN; REPLACE INTO d.t VALUES ({}, {n}); UPDATE d.t SET v = v + 1 WHERE id = {}; COMMIT",
            n % 97,
            n % 13
        ));
    }
}

/// Columns of SHOW REPLICA STATUS.
fn status(c: &mut Client) -> Vec<String> {
    let rows = c.rows("SHOW REPLICA STATUS").concat();
    rows.into_iter().map(Option::unwrap_or_default).collect()
}

/// Rows of the table, as text.
fn contents(c: &mut Client) -> Vec<String> {
    c.lines("SELECT * FROM d.t ORDER BY id")
}

/// Waits until the replica has what the source has.
fn catch_up(replica: &Server, expected: &[String]) {
    eventually("the replica has caught up", || {
        let mut c = replica.connect();
        let is_there = c.code("SELECT 1 FROM d.t LIMIT 1").is_none();
        is_there && contents(&mut c) == expected
    });
}

fn survives_kills(how: &str) {
    let dir = tempfile::tempdir().expect("folder");
    let mut source = source(dir.path());
    let mut replica = Server::start(&dir.path().join("replica"), &REPLICA);
    change(&mut replica.connect(), source.port, how);
    replica.connect().run("START REPLICA");
    write(&mut source.connect(), 0..100);
    catch_up(&replica, &contents(&mut source.connect()));
    for round in 1..4 {
        let from = round * 100;
        match round {
            2 => {
                source.kill();
                source.restart();
            }
            _ => {
                write(&mut source.connect(), from..from + 50);
                replica.kill();
                replica.restart();
            }
        }
        write(&mut source.connect(), from + 50..from + 100);
        catch_up(&replica, &contents(&mut source.connect()));
    }
    let mut c = replica.connect();
    let shown = status(&mut c);
    assert_eq!(
        (&*shown[10], &*shown[11]),
        ("Yes", "Yes"),
        "{}",
        shown.join("|")
    );
    assert!(!shown.join("|").contains("secret-word"));
    assert!(!c.lines("SHOW RELAYLOG EVENTS").is_empty());
    c.run("STOP REPLICA");
    let shown = status(&mut c);
    assert_eq!((&*shown[10], &*shown[11]), ("No", "No"));
    // Nothing comes while it is stopped, and everything behind it.
    let before = contents(&mut c);
    write(&mut source.connect(), 900..950);
    assert_eq!(contents(&mut c), before);
    c.run("START REPLICA");
    catch_up(&replica, &contents(&mut source.connect()));
}

#[test]
fn a_replica_by_gtid_equals_its_source_after_kills() {
    survives_kills("SOURCE_AUTO_POSITION = 1");
}

#[test]
fn a_replica_by_position_equals_its_source_after_kills() {
    survives_kills("SOURCE_LOG_FILE = '', SOURCE_LOG_POS = 4");
}

#[test]
fn statements_about_channels_have_mysqls_errors() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = server.connect();
    for (sql, code) in [
        ("START REPLICA", 1200),
        ("START REPLICA FOR CHANNEL ''", 1200),
        (
            "CHANGE REPLICATION SOURCE TO REQUIRE_TABLE_PRIMARY_KEY_CHECK = 3",
            1064,
        ),
        ("START REPLICA FOR CHANNEL 'x'", 3074),
        ("STOP REPLICA FOR CHANNEL 'x'", 3074),
        ("SHOW REPLICA STATUS FOR CHANNEL 'x'", 3074),
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1, SOURCE_LOG_POS = 4",
            1776,
        ),
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = -1",
            1064,
        ),
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 4294967295",
            1729,
        ),
    ] {
        assert_eq!(c.code(sql), Some(code), "{sql}");
    }
    // A new channel has had nothing, so its relay log has one file, and no other can be named.
    let missing = "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h', RELAY_LOG_FILE = 'relay-bin.000001', \
                   RELAY_LOG_POS = 4 FOR CHANNEL 'new'";
    assert_eq!(c.code(missing), Some(1380));
    let index = "relay/channel-new/relay-bin.index' during relay log initialization";
    assert!(c.error(missing).ends_with(index), "{}", c.error(missing));
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h' FOR CHANNEL 'new'");
    c.run(
        "CHANGE REPLICATION SOURCE TO RELAY_LOG_FILE = 'relay-bin.000001', RELAY_LOG_POS = 4 FOR CHANNEL 'new'; \
         RESET REPLICA ALL FOR CHANNEL 'new'",
    );
    // The default channel may always be named.
    c.run("STOP REPLICA; STOP REPLICA FOR CHANNEL ''");
    let stopped = "Note|3084|Replication thread(s) for channel '' are already stopped.";
    assert_eq!(c.lines("SHOW WARNINGS"), [stopped]);
    c.run("RESET REPLICA ALL FOR CHANNEL ''; RESET REPLICA FOR CHANNEL ''");
    assert_eq!(c.lines("SHOW REPLICA STATUS FOR CHANNEL ''"), [""; 0]);
    // Nobody listens there: the receiver tries until its attempts are used up.
    c.run(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'u', MASTER_PASSWORD = 'pw', \
         MASTER_CONNECT_RETRY = 1, MASTER_RETRY_COUNT = 2 FOR CHANNEL 'East'; START SLAVE FOR CHANNEL 'east'",
    );
    assert_eq!(
        c.code("CHANGE MASTER TO MASTER_HOST = 'h' FOR CHANNEL 'east'"),
        Some(3081)
    );
    assert_eq!(
        c.code("CHANGE MASTER TO MASTER_DELAY = 1 FOR CHANNEL 'east'"),
        Some(3085)
    );
    assert_eq!(c.code("RESET REPLICA FOR CHANNEL 'east'"), Some(3081));
    eventually("the attempts are used up", || status(&mut c)[10] == "No");
    let shown = status(&mut c);
    assert_eq!(shown[34], "2003", "{}", shown.join("|"));
    assert!(shown[35].contains("attempt 2/2"), "{}", shown[35]);
    let named = c.rows("SHOW SLAVE STATUS FOR CHANNEL 'EAST'");
    assert_eq!(named.concat()[55].as_deref(), Some("east"));
    c.run("STOP REPLICA; CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a, b)");
    // The configuration is there after a restart, and gone after RESET REPLICA ALL.
    let mut server = server;
    server.stop();
    server.restart();
    let mut c = server.connect();
    let shown = status(&mut c);
    assert_eq!(
        (&*shown[1], &*shown[3], &*shown[12]),
        ("127.0.0.1", "1", "a,b")
    );
    assert_eq!(shown[55], "east");
    c.run("STOP REPLICA; RESET REPLICA ALL");
    assert_eq!(status(&mut c), Vec::<String>::new());
}

/// A function of the view moves another row into the way of the new one, behind the row that was to be replaced, and a
/// parent is missing in the end: what is deleted stays so, here and there.
#[test]
fn rows_that_replace_takes_for_another_are_deleted_there_too() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    here.run("SET GLOBAL log_bin_trust_function_creators = ON");
    there.run(
        "SET GLOBAL log_bin_trust_function_creators = ON; USE d; \
         CREATE TABLE p (k INT PRIMARY KEY); CREATE TABLE q (k INT PRIMARY KEY); \
         CREATE TABLE c (id INT PRIMARY KEY, a INT, b INT, e INT, UNIQUE (a), UNIQUE (b), \
         FOREIGN KEY (a) REFERENCES p (k) ON UPDATE CASCADE, FOREIGN KEY (e) REFERENCES q (k)); \
         INSERT INTO p VALUES (1), (2); INSERT INTO q VALUES (1); \
         INSERT INTO c VALUES (1, 1, 20, 1), (2, 2, 10, 1), (3, NULL, 30, 1); CREATE TABLE fired (id INT PRIMARY KEY)",
    );
    there.run(
        "CREATE FUNCTION moved() RETURNS INT MODIFIES SQL DATA BEGIN UPDATE p SET k = 5 WHERE k = 1; RETURN 1; END",
    );
    there.run("CREATE VIEW v AS SELECT * FROM c WHERE moved() = 1");
    there.run(
        "CREATE TRIGGER fires AFTER INSERT ON fired FOR EACH ROW \
         BEGIN DECLARE CONTINUE HANDLER FOR 1452 BEGIN END; REPLACE INTO v VALUES (4, 5, 10, 99); END",
    );
    there.run("INSERT INTO fired VALUES (1)");
    follow(&mut there, &mut here);
    let rows = "SELECT * FROM d.c ORDER BY id";
    assert_eq!(there.lines(rows), ["3|NULL|30|1"]);
    assert_eq!(here.lines(rows), there.lines(rows));
}
