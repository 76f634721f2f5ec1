//! Streams that replicas read: MariaDB's, those that acknowledge what they have, and those that are behind.

use crate::common::{Ask, Server};

use super::{consumer, until};

#[test]
fn a_file_that_is_full_and_a_replica_that_comes_back_hold_nobody_up() {
    let dir = tempfile::tempdir().expect("dir");
    let args = [
        "--log-bin=ON",
        "--gtid-mode=ON",
        "--max-binlog-size=4096",
        "--rpl-semi-sync-source-timeout=3600000",
    ];
    let server = Server::start(dir.path(), &args);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b BLOB)");
    // effect: rpl_semi_sync_source_enabled
    c.run("SET GLOBAL rpl_semi_sync_source_enabled = ON");
    let mut replica = consumer(&server);
    replica.run("SET @rpl_semi_sync_replica = 1");
    replica.dump("binlog.000001", 4, 0, 9);
    let end = replica.asked();
    replica.acknowledge("binlog.000001", end);
    let status = "SHOW STATUS LIKE 'Rpl_semi_sync_source_status'";
    let is_on = |lines: &[String]| lines[0].ends_with("|ON");
    until(&server, status, is_on);

    // ROTATE stands behind the transaction that fills a file.
    std::thread::scope(|scope| {
        let insert = "INSERT INTO d.t VALUES (1, REPEAT('x', 5000))";
        let writer = scope.spawn(|| server.connect().run(insert));
        let end = replica.asked();
        replica.acknowledge("binlog.000001", end);
        writer.join().expect("the writer goes on");
    });

    // A replica that has a transaction, and could not say so, is not asked again.
    drop(replica);
    let executed = c.value("SELECT @@GLOBAL.gtid_executed");
    assert!(executed.ends_with(":1-3"), "{executed}");
    let executed = executed.replace(":1-3", ":1-4").parse().expect("a set");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| server.connect().run("INSERT INTO d.t VALUES (2, '')"));
        // Until the transaction is in the files the replica is refused: it has more than the source.
        let _back = loop {
            let mut back = consumer(&server);
            back.run("SET @rpl_semi_sync_replica = 1");
            back.dump_gtid(&executed);
            if back.take()[0] == 0 {
                break back;
            }
        };
        writer.join().expect("the writer goes on");
    });
    until(&server, status, is_on);
}

#[test]
fn mariadb_s_replicas_get_all_that_they_lack_or_an_error() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &["--log-bin=ON", "--server-id=7"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); FLUSH BINARY LOGS; INSERT INTO d.t VALUES (1)");
    // It waits until the files have all of it.
    c.run("SHOW BINARY LOG STATUS");
    let ask = |state: &str| {
        let mut replica = consumer(&server);
        replica.run("SET @mariadb_slave_capability = 4");
        replica.run(&format!("SET @slave_connect_state = '{state}'"));
        replica.dump("", 4, 0, 9);
        replica
    };
    let begins = |state: &str| drop(ask(state).packet().event());
    let refused = |state: &str, why: &str| {
        let (code, text) = ask(state).packet().error();
        assert!(code == 1236 && text.contains(why), "{state}: {code} {text}");
    };
    ["", "1-7-1", "0-7-1", "0-7-2", "0-7-3"]
        .iter()
        .for_each(|state| begins(state));
    refused("0-7-4", "GTID 0-7-4, which is not in the master's binlog");
    refused("0-8-2", "GTID 0-8-2, which is not in the master's binlog");
    c.run("PURGE BINARY LOGS TO 'binlog.000002'");
    ["0-7-2", "0-7-3"].iter().for_each(|state| begins(state));
    for state in ["", "1-7-1", "0-7-1"] {
        refused(
            state,
            "Could not find GTID state requested by slave in any binlog files",
        );
    }
    // Whatever has begun anew is there from its beginning.
    c.run("RESET BINARY LOGS AND GTIDS; INSERT INTO d.t VALUES (2)");
    begins("");
}

#[test]
fn what_was_acknowledged_before_a_reset_is_nothing() {
    let dir = tempfile::tempdir().expect("dir");
    let args = [
        "--log-bin=ON",
        "--gtid-mode=ON",
        "--rpl-semi-sync-source-enabled=ON",
        "--rpl-semi-sync-source-timeout=3600000",
    ];
    let server = Server::start(dir.path(), &args);
    let mut c = server.connect();
    c.run("FLUSH BINARY LOGS; FLUSH BINARY LOGS");
    let join = |server_id| {
        let mut replica = consumer(&server);
        replica.run("SET @rpl_semi_sync_replica = 1");
        replica.dump("binlog.000003", 4, 0, server_id);
        replica
    };
    let mut replica = join(9);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| server.connect().run("CREATE DATABASE d"));
        let end = replica.asked();
        replica.acknowledge("binlog.000003", end);
        writer.join().expect("the writer goes on");
    });
    // Two connections of one replica are one replica.
    // effect: rpl_semi_sync_source_wait_for_replica_count
    c.run("SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 2");
    let waiting = "SHOW STATUS LIKE 'Rpl_semi_sync_source_wait_sessions'";
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| server.connect().run("CREATE TABLE d.t (a INT PRIMARY KEY)"));
        let end = replica.asked();
        replica.acknowledge("binlog.000003", end);
        let mut twin = consumer(&server);
        twin.run("SET @rpl_semi_sync_replica = 1, @replica_uuid = UUID()");
        twin.dump("binlog.000003", 4, 0, 9);
        let end = twin.asked();
        twin.acknowledge("binlog.000003", end);
        let clients = "SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'";
        until(&server, clients, |lines| lines[0].ends_with("|2"));
        until(&server, waiting, |lines| lines[0].ends_with("|1"));
        assert!(!writer.is_finished());
        drop(twin);
        let mut other = join(10);
        let end = other.asked();
        other.acknowledge("binlog.000003", end);
        writer.join().expect("the writer goes on");
    });
    // effect: rpl_semi_sync_source_timeout
    c.run("SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 1; SET GLOBAL rpl_semi_sync_source_timeout = 50");
    c.run("RESET BINARY LOGS AND GTIDS; CREATE TABLE d.u (a INT)");
    let status = "SHOW STATUS LIKE 'Rpl_semi_sync_source_status'";
    until(&server, status, |lines| lines[0].ends_with("|OFF"));
}

#[test]
fn nobody_sees_what_no_replica_has_acknowledged() {
    let dir = tempfile::tempdir().expect("dir");
    let args = [
        "--log-bin=ON",
        "--gtid-mode=ON",
        "--rpl-semi-sync-source-enabled=ON",
    ];
    let mut server = Server::start(dir.path(), &args);
    let mut c = server.connect();
    c.run("SET GLOBAL rpl_semi_sync_master_timeout = 50");
    assert_eq!(
        c.value("SELECT @@GLOBAL.rpl_semi_sync_source_timeout"),
        "50"
    );
    let status = |name: &str| format!("SHOW STATUS LIKE 'Rpl_semi_sync_source_{name}'");
    let is =
        |value: &'static str| move |lines: &[String]| lines[0].split('|').nth(1) == Some(value);
    // It is on from the start, and a transaction that nobody acknowledges ends it.
    until(&server, &status("status"), is("ON"));
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1)");
    until(&server, &status("status"), is("OFF"));
    until(&server, &status("no_times"), is("1"));
    until(&server, &status("no_tx"), is("3"));
    c.run("SET GLOBAL rpl_semi_sync_master_timeout = 3600000");

    // A replica that has everything switches it on.
    let mut replica = consumer(&server);
    replica.run("SET @rpl_semi_sync_replica = 1");
    replica.dump("binlog.000001", 4, 0, 9);
    let end = replica.asked();
    replica.acknowledge("binlog.000001", end);
    until(&server, &status("status"), is("ON"));
    until(&server, &status("clients"), is("1"));

    std::thread::scope(|scope| {
        let writer = scope.spawn(|| server.connect().run("INSERT INTO d.t VALUES (2)"));
        let end = replica.asked();
        // It is durable, and the replica has it; until that says so it is not there.
        assert_eq!(c.value("SELECT COUNT(*) FROM d.t"), "1");
        assert!(!writer.is_finished());
        let waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting for semi-sync ACK \
                       from replica'";
        until(&server, waiting, |lines| lines == ["1"]);
        until(&server, &status("wait_sessions"), is("1"));
        // Whoever asks for the files does not wait for it.
        assert_eq!(c.rows("SHOW BINARY LOGS").len(), 1);
        let events = c.lines("SHOW BINLOG EVENTS");
        assert!(
            events.last().is_some_and(|xid| xid.contains("|Xid|")),
            "{events:?}"
        );
        replica.acknowledge("binlog.000001", end);
        writer.join().expect("the writer goes on");
    });
    assert_eq!(c.value("SELECT COUNT(*) FROM d.t"), "2");
    // What is not logged needs no acknowledgement of its own.
    c.run("SET sql_log_bin = 0; INSERT INTO d.t VALUES (3); SET sql_log_bin = 1");
    assert_eq!(server.connect().value("SELECT COUNT(*) FROM d.t"), "3");
    until(&server, &status("yes_tx"), is("1"));
    until(&server, &status("tx_waits"), is("1"));
    until(&server, &status("wait_sessions"), is("0"));
    for counted in ["tx_wait_time", "tx_avg_wait_time", "net_waits"] {
        assert!(!is("0")(&c.lines(&status(counted))), "{counted}");
    }

    // Without acknowledgement it goes off after the timeout, and on again with one.
    c.run("SET GLOBAL rpl_semi_sync_source_timeout = 50; INSERT INTO d.t VALUES (4)");
    until(&server, &status("status"), is("OFF"));
    until(&server, &status("no_times"), is("2"));
    until(&server, &status("no_tx"), is("4"));
    let end = replica.asked();
    replica.acknowledge("binlog.000001", end);
    until(&server, &status("status"), is("ON"));
    c.run("FLUSH LOCAL STATUS");
    until(&server, &status("no_times"), is("0"));

    // A server that stops lets those go that wait.
    c.run("SET GLOBAL rpl_semi_sync_source_timeout = 3600000");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut c = server.try_connect().expect("connect");
            // An answer or the end of the connection, as the stop will have it.
            let _ = c.query("INSERT INTO d.t VALUES (5)", &mut |_| ());
        });
        replica.asked();
        let stop = std::process::Command::new("kill")
            .arg(server.pid().to_string())
            .status();
        assert!(stop.expect("kill").success());
    });
    server.wait();
}
