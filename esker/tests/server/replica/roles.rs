//! Who follows whom: chains, circles, a replica that becomes the source, a source that waits for its replica; and what
//! START REPLICA may be told.

use super::{
    REPLICA, SOURCE, TWO_PHASE, catch_up, change, contents, has_executed, source, source_with,
    status, write,
};
use crate::common::{Ask, Server, eventually};
use crate::consumers::Maria;
use esker_server::client::Client;

const AUTO: &str = "SOURCE_AUTO_POSITION = 1";

/// A replica of a server of this port that follows it.
fn follower(dir: &std::path::Path, port: u16, options: &[&str]) -> Server {
    let server = Server::start(dir, options);
    let mut c = server.connect();
    change(&mut c, port, AUTO);
    c.run("START REPLICA");
    server
}

fn executed(c: &mut Client) -> String {
    c.value("SELECT @@GLOBAL.gtid_executed").replace('\n', "")
}

#[test]
fn a_chain_of_replicas_ends_with_what_its_source_has() {
    let dir = tempfile::tempdir().expect("folder");
    let Some(mut last) = Maria::start(dir.path()) else {
        return;
    };
    let general = "--collation-server=utf8mb4_general_ci";
    let [mut first, mut middle] = [SOURCE, REPLICA].map(|options| {
        let dir = dir.path().join(options[2]);
        let server = Server::start(&dir, &[&options[..], &[general]].concat());
        server.connect().run(
            "SET sql_log_bin = 0; CREATE USER repl@localhost IDENTIFIED WITH mysql_native_password BY 'pw'; \
             GRANT REPLICATION SLAVE ON *.* TO repl@localhost",
        );
        server
    });
    let mut c = middle.connect();
    change(
        &mut c,
        first.port,
        &format!("{AUTO}, SOURCE_PASSWORD = 'pw'"),
    );
    c.run("START REPLICA");
    last.follow(
        middle.port,
        "MASTER_USE_GTID = no, MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4",
    );
    first
        .connect()
        .run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT)");
    write(&mut first.connect(), 0..60);
    middle.kill();
    write(&mut first.connect(), 60..90);
    middle.restart();
    first.kill();
    first.restart();
    write(&mut first.connect(), 90..120);
    let expected = contents(&mut first.connect());
    catch_up(&middle, &expected);
    eventually("the end of the chain has caught up", || {
        let mut c = last.connect();
        c.code("SELECT 1 FROM d.t LIMIT 1").is_none() && contents(&mut c) == expected
    });
    assert_eq!(
        executed(&mut middle.connect()),
        executed(&mut first.connect())
    );
}

/// The sequence of docs/replication.md, with the old source there and with it gone.
#[test]
fn a_replica_becomes_the_source() {
    for is_gone in [false, true] {
        let dir = tempfile::tempdir().expect("folder");
        let mut old = source(dir.path());
        let read_only = [&REPLICA[..], &["--super-read-only=ON"]].concat();
        let new = follower(&dir.path().join("new"), old.port, &read_only);
        let third = [
            &["--log-bin=ON", "--gtid-mode=ON", "--server-id=3"][..],
            &read_only[3..],
        ]
        .concat();
        let other = follower(&dir.path().join("other"), old.port, &third);
        write(&mut old.connect(), 0..50);
        assert_eq!(
            new.connect().code("INSERT INTO d.t VALUES (1000, 1)"),
            Some(1290)
        );
        // Stop writes, and let the replicas have everything.
        let mut c = old.connect();
        c.run("SET GLOBAL super_read_only = ON");
        let all = executed(&mut c);
        has_executed(&mut new.connect(), &all);
        has_executed(&mut other.connect(), &all);
        if is_gone {
            old.kill();
        }
        // The new source.
        let mut c = new.connect();
        c.run("STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF");
        assert_eq!(status(&mut c), Vec::<String>::new());
        // The others follow it.
        let mut c = other.connect();
        c.run("STOP REPLICA");
        change(&mut c, new.port, AUTO);
        c.run("START REPLICA");
        write(&mut new.connect(), 50..100);
        if is_gone {
            old.restart();
        }
        let mut c = old.connect();
        c.run("SET GLOBAL super_read_only = ON");
        change(&mut c, new.port, AUTO);
        c.run("START REPLICA");
        write(&mut new.connect(), 100..120);
        let expected = contents(&mut new.connect());
        catch_up(&other, &expected);
        catch_up(&old, &expected);
        let all = executed(&mut new.connect());
        assert_eq!(executed(&mut old.connect()), all);
        assert_eq!(executed(&mut other.connect()), all);
    }
}

#[test]
fn two_servers_follow_each_other() {
    let dir = tempfile::tempdir().expect("folder");
    let one = source(dir.path());
    let two = follower(&dir.path().join("two"), one.port, &REPLICA);
    let has_table = || two.connect().code("SELECT 1 FROM d.t").is_none();
    eventually("the other one has the table", has_table);
    let mut c = one.connect();
    change(&mut c, two.port, AUTO);
    c.run("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (d.own); START REPLICA");
    std::thread::scope(|scope| {
        for (server, from) in [(&one, 0), (&two, 1000)] {
            scope.spawn(move || {
                let mut c = server.connect();
                for id in from..from + 100 {
                    c.run(&format!("INSERT INTO d.t VALUES ({id}, {id}); UPDATE d.t SET v = v + 1 WHERE id = {id}"));
                }
            });
        }
    });
    two.connect()
        .run("CREATE TABLE d.own (id INT PRIMARY KEY); INSERT INTO d.own VALUES (1)");
    let mut sets = [&one, &two].map(|server| executed(&mut server.connect()));
    has_executed(&mut one.connect(), &sets[1]);
    has_executed(&mut two.connect(), &sets[0]);
    let expected = contents(&mut one.connect());
    assert_eq!(
        (expected.len(), contents(&mut two.connect())),
        (200, expected)
    );
    assert_eq!(one.connect().code("SELECT 1 FROM d.own"), Some(1146));
    // Nothing goes round the circle again.
    sets = [&one, &two].map(|server| executed(&mut server.connect()));
    assert_eq!(sets[0], sets[1]);
    for server in [&one, &two] {
        let shown = status(&mut server.connect());
        assert_eq!((&*shown[10], &*shown[11], &*shown[37]), ("Yes", "Yes", ""));
    }
}

#[test]
fn a_source_waits_for_a_semi_synchronous_replica() {
    waits_for_a_replica(&[]);
}

#[test]
fn a_source_whose_files_decide_waits_for_a_semi_synchronous_replica() {
    waits_for_a_replica(&[TWO_PHASE]);
}

fn waits_for_a_replica(more: &[&str]) {
    // effect: rpl_semi_sync_replica_enabled
    let dir = tempfile::tempdir().expect("folder");
    let mut source = source_with(dir.path(), more);
    let mut c = source.connect();
    c.run("SET GLOBAL rpl_semi_sync_source_timeout = 3600000, GLOBAL rpl_semi_sync_source_enabled = ON");
    let replica = Server::start(
        &dir.path().join("replica"),
        &[
            &REPLICA[..],
            &["--rpl-semi-sync-replica-enabled=ON", "--report-port=4444"],
        ]
        .concat(),
    );
    let mut there = replica.connect();
    change(&mut there, source.port, AUTO);
    // What has come is enough: nothing is applied yet.
    there.run("START REPLICA IO_THREAD");
    let shown =
        |c: &mut Client, name: &str| c.lines(&format!("SHOW STATUS LIKE '{name}'")).concat();
    eventually("the replica acknowledges", || {
        shown(&mut there, "Rpl_semi_sync_replica_status").ends_with("|ON")
            && shown(&mut c, "Rpl_semi_sync_source_status").ends_with("|ON")
    });
    let listed = c.lines("SHOW REPLICAS");
    assert_eq!(listed[0].split('|').nth(2), Some("4444"), "{listed:?}");
    write(&mut c, 0..50);
    assert!(!shown(&mut c, "Rpl_semi_sync_source_yes_tx").ends_with("|0"));
    let expected = contents(&mut c);
    // What was answered is there although the source is gone for good.
    source.kill();
    assert_ne!(
        shown(&mut there, "Esker_replica_lag_transactions"),
        "Esker_replica_lag_transactions|0"
    );
    there.run("START REPLICA SQL_THREAD");
    catch_up(&replica, &expected);
    eventually("nothing waits", || {
        shown(&mut there, "Esker_replica_lag_transactions").ends_with("|0")
    });
    there.run("STOP REPLICA");
    assert!(shown(&mut there, "Rpl_semi_sync_slave_status").ends_with("|OFF"));
}

#[test]
fn start_replica_may_say_who_and_how_far() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    write(&mut source.connect(), 0..20);
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = replica.connect();
    c.run("CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('d.x%')");
    let port = source.port;
    c.run(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_AUTO_POSITION = 1, \
         SOURCE_CONNECT_RETRY = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_PASSWORD = 'no'"
    ));
    let notes: Vec<String> = c.lines("SHOW WARNINGS");
    assert!(
        notes[0].contains("|1759|") && notes[1].contains("|1760|"),
        "{notes:?}"
    );
    let uuid = source.connect().value("SELECT @@server_uuid");
    c.run(&format!(
        "START REPLICA UNTIL SQL_BEFORE_GTIDS = '{uuid}:10' USER = 'repl' PASSWORD = 'secret-word'"
    ));
    eventually("it has stopped there", || status(&mut c)[11] == "No");
    let shown = status(&mut c);
    assert_eq!((&*shown[2], &*shown[23]), ("repl", "SQL_BEFORE_GTIDS"));
    assert_eq!(executed(&mut c), format!("{uuid}:1-9"));
    c.run(&format!(
        "START REPLICA SQL_THREAD UNTIL SQL_AFTER_GTIDS = '{uuid}:12'"
    ));
    eventually("it has stopped behind them", || status(&mut c)[11] == "No");
    assert_eq!(executed(&mut c), format!("{uuid}:1-12"));
    // There are no gaps.
    c.run("START REPLICA SQL_THREAD UNTIL SQL_AFTER_MTS_GAPS");
    eventually("it has stopped at once", || status(&mut c)[11] == "No");
    assert_eq!(executed(&mut c), format!("{uuid}:1-12"));
    c.run("START REPLICA IO_THREAD");
    assert!(c.lines("SHOW WARNINGS")[0].contains("|3083|"));
    c.run("START REPLICA IO_THREAD UNTIL SQL_AFTER_MTS_GAPS");
    assert!(c.lines("SHOW WARNINGS")[0].contains("|1279|"));
    c.run("STOP REPLICA SQL_THREAD");
    assert!(c.lines("SHOW WARNINGS")[0].contains("|3084|"));
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 3600; START REPLICA SQL_THREAD");
    eventually("the next one waits", || !status(&mut c)[43].is_empty());
    let left: u64 = status(&mut c)[43].parse().expect("seconds");
    assert!((1..=3600).contains(&left), "{left}");
    // What the new channel has taken over, and what has not gone wrong.
    let seen = "SELECT filter_name, filter_rule, configured_by, active_since > '2020-01-01' FROM performance_schema";
    let rule = "REPLICATE_WILD_IGNORE_TABLE|d.x%|CHANGE_REPLICATION_FILTER|1";
    for table in [
        "replication_applier_filters",
        "replication_applier_global_filters",
    ] {
        assert_eq!(c.lines(&format!("{seen}.{table}")), [rule], "{table}");
    }
    assert_eq!(
        c.lines(
            "SELECT last_error_number, last_error_timestamp FROM performance_schema.replication_connection_status"
        ),
        ["0|0000-00-00 00:00:00.000000"]
    );
    let counted = |c: &mut Client, name: &str| {
        c.lines(&format!("SHOW GLOBAL STATUS LIKE 'Com_{name}'"))
            .concat()
    };
    assert_eq!(counted(&mut c, "replica_start"), "Com_replica_start|6");
    assert_eq!(
        counted(&mut c, "change_replication_source"),
        "Com_change_replication_source|2"
    );
    assert_eq!(
        counted(&mut c, "change_repl_filter"),
        "Com_change_repl_filter|1"
    );
    c.run("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0 FOR CHANNEL 'more'");
    assert_eq!(c.code("START REPLICA UNTIL SQL_AFTER_MTS_GAPS"), Some(3079));
}

/// A relay log that is gone, or torn, is fetched again, also if the two threads are started one by one.
#[test]
fn a_relay_log_that_is_lost_is_fetched_again() {
    // effect: relay_log_purge
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    for how in [AUTO, "SOURCE_LOG_FILE = '', SOURCE_LOG_POS = 4"] {
        let folder = dir.path().join(how.split(' ').next().expect("word"));
        let options = [&REPLICA[..], &["--skip-replica-start=ON"]].concat();
        let mut replica = Server::start(&folder, &options);
        let mut c = replica.connect();
        change(&mut c, source.port, how);
        c.run("SET GLOBAL relay_log_purge = OFF; START REPLICA");
        write(&mut source.connect(), 0..50);
        catch_up(&replica, &contents(&mut source.connect()));
        let relay = folder.join("data/relay/default");
        for round in 0..2 {
            replica.kill();
            let files = std::fs::read_dir(&relay).expect("relay log");
            let files = files.map(|file| file.expect("file").path());
            for path in files.filter(|path| path.extension().is_some_and(|e| e != "index")) {
                match round {
                    0 => std::fs::remove_file(path).expect("removed"),
                    _ => {
                        let file = std::fs::OpenOptions::new()
                            .write(true)
                            .open(&path)
                            .expect("file");
                        let length = file.metadata().expect("size").len();
                        file.set_len(length / 2).expect("torn");
                    }
                }
            }
            write(&mut source.connect(), 50..60);
            replica.restart();
            let mut c = replica.connect();
            c.run("START REPLICA IO_THREAD");
            eventually("it receives", || status(&mut c)[10] == "Yes");
            c.run("START REPLICA SQL_THREAD");
            catch_up(&replica, &contents(&mut source.connect()));
            assert_eq!(status(&mut c)[37], "");
        }
    }
}
