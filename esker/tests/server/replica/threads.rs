//! Threads of a channel in the process list, and KILL of them, as in MySQL 9.7.

use super::*;

const APPLYING: &str = "Applying batch of row changes (write)";
const COORDINATOR: &str = "Replica has read all relay log; waiting for more updates";
const RECEIVER: &str = "Waiting for source to send event";
const WORKER: &str = "Waiting for an event from Coordinator";

/// Ids of the threads in a state.
fn ids(c: &mut Client, state: &str) -> Vec<String> {
    c.lines(&format!(
        "SELECT id FROM information_schema.processlist WHERE user = 'system user' AND state = '{state}' ORDER BY id"
    ))
}

/// Waits until all threads run and have nothing to do.
fn all_wait(c: &mut Client) {
    eventually("all threads wait", || {
        [RECEIVER, COORDINATOR, WORKER].map(|state| ids(c, state).len()) == [1, 1, 2]
    });
}

/// Kills one of the threads in a state.
fn kill(c: &mut Client, how: &str, state: &str) {
    eventually("the thread is there", || !ids(c, state).is_empty());
    let id = ids(c, state).remove(0);
    c.run(&format!("{how} {id}"));
}

#[test]
fn threads_of_a_channel_are_listed_and_can_be_killed() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut there = source.connect();
    let options = [&REPLICA[..], &["--replica-parallel-workers=2"]].concat();
    let replica = Server::start(&dir.path().join("replica"), &options);
    let mut c = replica.connect();
    change(&mut c, source.port, "SOURCE_AUTO_POSITION = 1");
    let threads = "SELECT name, type, processlist_db, processlist_info, connection_type \
                   FROM performance_schema.threads WHERE name LIKE 'thread/sql/replica%' ORDER BY name";
    assert_eq!(c.lines(threads), [""; 0]);
    c.run("START REPLICA");
    // A worker shows the statement that it applies.
    catch_up(&replica, &contents(&mut there));
    all_wait(&mut c);
    let names = [
        "replica_io",
        "replica_sql",
        "replica_worker",
        "replica_worker",
    ];
    assert_eq!(
        c.lines(threads),
        names.map(|name| format!("thread/sql/{name}|FOREGROUND|NULL|NULL|NULL"))
    );
    let hosts = "SELECT host, db, info FROM performance_schema.processlist WHERE user = 'system user' ORDER BY host";
    let inside = "|NULL|NULL";
    assert_eq!(
        c.lines(hosts),
        [inside, inside, inside, "connecting host|NULL|NULL"]
    );
    // They are nobody's, whatever an account is called.
    c.run("CREATE USER 'system user'");
    let mut other =
        Client::connect("127.0.0.1", replica.port, "system user", "", None).expect("log in");
    assert_eq!(
        other.lines("SELECT COUNT(*) FROM information_schema.processlist"),
        ["1"]
    );
    all_wait(&mut c);
    let coordinator = ids(&mut c, COORDINATOR).remove(0);
    assert_eq!(other.code(&format!("KILL {coordinator}")), Some(1095));
    drop(other);
    c.run("DROP USER 'system user'");
    // A receiver ends without an error; its entry goes with it.
    kill(&mut c, "KILL", RECEIVER);
    eventually("the receiver has ended", || status(&mut c)[10] == "No");
    assert_eq!((&*status(&mut c)[11], &*status(&mut c)[34]), ("Yes", "0"));
    assert_eq!(ids(&mut c, RECEIVER), [""; 0]);
    c.run("START REPLICA");
    all_wait(&mut c);
    // KILL QUERY ends it when something comes.
    kill(&mut c, "KILL QUERY", RECEIVER);
    there.run("INSERT INTO d.t VALUES (1, 0)");
    eventually("the receiver has ended", || status(&mut c)[10] == "No");
    c.run("START REPLICA");
    catch_up(&replica, &contents(&mut there));
    for how in ["KILL", "KILL QUERY"] {
        for state in [COORDINATOR, WORKER] {
            all_wait(&mut c);
            kill(&mut c, how, state);
            eventually("the applier has ended", || status(&mut c)[11] == "No");
            assert_eq!(
                (&*status(&mut c)[10], &*status(&mut c)[36]),
                ("Yes", "1756")
            );
            assert_eq!(ids(&mut c, WORKER), [""; 0]);
            c.run("START REPLICA");
        }
    }
    // One that waits for a row: the transaction has failed.
    for (row, how) in [(50, "KILL"), (51, "KILL QUERY")] {
        all_wait(&mut c);
        let insert = format!("INSERT INTO d.t VALUES ({row}, 0)");
        let mut blocker = replica.connect();
        blocker.run(&format!("BEGIN; {insert}"));
        there.run(&insert);
        kill(&mut c, how, APPLYING);
        eventually("the applier has failed", || status(&mut c)[11] == "No");
        assert_eq!(status(&mut c)[36], "1317");
        blocker.run("ROLLBACK");
        c.run("START REPLICA");
        catch_up(&replica, &contents(&mut there));
    }
    c.run("STOP REPLICA");
    assert_eq!(c.lines(threads), [""; 0]);
}

/// The applier may wait for locks of the session that stops it.
#[test]
fn who_has_locks_stops_no_replica() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let mut c = replica.connect();
    follow(&mut source.connect(), &mut c);
    for (lock, code) in [
        ("FLUSH TABLES WITH READ LOCK", 1192),
        ("LOCK TABLES d.t READ", 1192),
        ("LOCK INSTANCE FOR BACKUP", 3857),
    ] {
        c.run(lock);
        for stop in ["STOP REPLICA", "STOP REPLICA SQL_THREAD"] {
            assert_eq!(c.code(stop), Some(code), "{lock}");
        }
        c.run("UNLOCK TABLES; UNLOCK INSTANCE");
    }
    c.run("STOP REPLICA");
}

/// A full disk at the start, for example.
#[test]
fn a_channel_that_could_not_be_opened_is_opened_by_a_later_statement() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, mut replica) = pair(dir.path());
    follow(&mut source.connect(), &mut replica.connect());
    replica.kill();
    let relay = dir.path().join("replica/data/relay/default");
    let away = dir.path().join("away");
    std::fs::rename(&relay, &away).expect("moved");
    std::fs::write(&relay, "no folder").expect("a file");
    replica.restart();
    let mut c = replica.connect();
    // The others do not care.
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'nowhere', SOURCE_AUTO_POSITION = 1 FOR CHANNEL 'other'");
    for (sql, code) in [
        ("START REPLICA FOR CHANNEL ''", Some(1201)),
        ("STOP REPLICA FOR CHANNEL 'other'", None),
        ("RESET REPLICA ALL FOR CHANNEL 'other'", None),
        ("START REPLICA", Some(1201)),
        ("SHOW REPLICA STATUS", Some(1201)),
    ] {
        assert_eq!(c.code(sql), code, "{sql}");
    }
    std::fs::remove_file(&relay).expect("removed");
    std::fs::rename(&away, &relay).expect("moved back");
    write(&mut source.connect(), 0..5);
    c.run("START REPLICA");
    follow(&mut source.connect(), &mut c);
}
