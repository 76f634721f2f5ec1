//! Replicas that go over to another source when theirs is gone.

use super::{REPLICA, catch_up, change, contents, source, status, write};
use crate::common::{Ask, Server, eventually};

const ADD: &str = "asynchronous_connection_failover_add_source";
const LISTED: &str = "SELECT host, port, weight FROM \
                      performance_schema.replication_asynchronous_connection_failover";

#[test]
fn a_replica_goes_over_to_the_heaviest_source_that_is_there() {
    let dir = tempfile::tempdir().expect("folder");
    let start = |name: &str, id: &str| {
        let options = ["--log-bin=ON", "--gtid-mode=ON", id];
        Server::start(&dir.path().join(name), &options)
    };
    let mut first = source(dir.path());
    let second = start("second", "--server-id=3");
    let by_gtid = "SOURCE_AUTO_POSITION = 1";
    change(&mut second.connect(), first.port, by_gtid);
    second.connect().run("START REPLICA");
    let mut replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = replica.connect();
    change(
        &mut c,
        first.port,
        &format!("{by_gtid}, SOURCE_CONNECTION_AUTO_FAILOVER = 1"),
    );
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_RETRY_COUNT = 1");
    // Nobody listens at port 1, which is tried first.
    c.run(&format!(
        "SELECT {ADD}('', '127.0.0.1', {}, ''); SELECT {ADD}('', '127.0.0.1', 1, '', 90)",
        second.port
    ));
    c.run("START REPLICA");
    write(&mut first.connect(), 0..10);
    let expected = contents(&mut first.connect());
    catch_up(&replica, &expected);
    catch_up(&second, &expected);
    first.kill();
    second.connect().run("STOP REPLICA");
    write(&mut second.connect(), 10..20);
    catch_up(&replica, &contents(&mut second.connect()));
    assert_eq!(status(&mut c)[3], second.port.to_string());
    // The list, and where the source is now, are kept.
    replica.stop();
    replica.restart();
    write(&mut second.connect(), 20..30);
    catch_up(&replica, &contents(&mut second.connect()));
    let mut c = replica.connect();
    let listed = [
        "127.0.0.1|1|90".to_owned(),
        format!("127.0.0.1|{}|50", second.port),
    ];
    assert_eq!(c.lines(LISTED), listed);
}

#[test]
fn a_replica_asks_all_sources_again_until_one_is_back() {
    let dir = tempfile::tempdir().expect("folder");
    let mut first = source(dir.path());
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = replica.connect();
    let options = "SOURCE_AUTO_POSITION = 1, SOURCE_CONNECTION_AUTO_FAILOVER = 1";
    change(&mut c, first.port, options);
    c.run(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_RETRY_COUNT = 1; \
         SELECT {ADD}('', '127.0.0.1', {}, ''); SELECT {ADD}('', '127.0.0.1', 1, '', 90)",
        first.port
    ));
    c.run("START REPLICA");
    write(&mut first.connect(), 0..10);
    catch_up(&replica, &contents(&mut first.connect()));
    first.kill();
    eventually("the first round is over", || {
        status(&mut c)[3] == "1" && status(&mut c)[10] == "Connecting"
    });
    // Long enough for more rounds.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(status(&mut c)[10], "Connecting");
    first.restart();
    write(&mut first.connect(), 10..20);
    catch_up(&replica, &contents(&mut first.connect()));
    first.kill();
    eventually("the source is gone", || status(&mut c)[10] == "Connecting");
    c.run("STOP REPLICA");
    assert_eq!(status(&mut c)[10], "No");
}

#[test]
fn hosts_and_channels_fit_into_the_list() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = server.connect();
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h'");
    for (channel, host, code) in [
        ("", "h".repeat(255), None),
        ("", "h".repeat(256), Some(3200)),
        ("", "hé".to_owned(), Some(3200)),
        (&*"c".repeat(65), "h".to_owned(), Some(3200)),
    ] {
        let sql = format!("SELECT {ADD}('{channel}', '{host}', 1, '')");
        assert_eq!(c.code(&sql), code, "{channel} {host}");
    }
    let shown = "SELECT network_namespace = '', LENGTH(host) FROM \
                 performance_schema.replication_asynchronous_connection_failover";
    assert_eq!(c.lines(shown), ["1|255"]);
}

#[test]
fn sources_that_many_add_at_once_are_all_listed() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = server.connect();
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h'");
    std::thread::scope(|scope| {
        for who in 0..8 {
            let mut c = server.connect();
            scope.spawn(move || {
                for nth in 1..=8 {
                    c.run(&format!("SELECT {ADD}('', 'h{who}', {nth}, '')"));
                }
            });
        }
    });
    assert_eq!(c.lines(LISTED).len(), 64);
}

#[test]
fn sources_are_listed_with_mysqls_errors() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = server.connect();
    let option = "CHANGE REPLICATION SOURCE TO SOURCE_CONNECTION_AUTO_FAILOVER = 1";
    assert_eq!(c.code(option), Some(3991));
    c.run(&format!(
        "{option}, SOURCE_AUTO_POSITION = 1, SOURCE_HOST = 'h'"
    ));
    for (sql, code) in [
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 0",
            Some(3993),
        ),
        ("SET GLOBAL gtid_mode = ON_PERMISSIVE", Some(3992)),
        (
            "SELECT asynchronous_connection_failover_add_source('', 'h', 3306, '', 60)",
            None,
        ),
        (
            "SELECT asynchronous_connection_failover_add_source('', 'h', 3306, '', 60)",
            Some(3200),
        ),
        (
            "SELECT asynchronous_connection_failover_add_source('', 'g', 3306)",
            None,
        ),
        (
            "SELECT asynchronous_connection_failover_add_source('', 'g', 3306, '', 101)",
            Some(1123),
        ),
        (
            "SELECT asynchronous_connection_failover_add_source('', 'g', 'x', '')",
            Some(1123),
        ),
        (
            "SELECT asynchronous_connection_failover_add_source('', '', 1, '')",
            Some(1123),
        ),
        (
            "SELECT asynchronous_connection_failover_add_source('')",
            Some(1123),
        ),
        (
            "SELECT asynchronous_connection_failover_delete_source('', 'f', 3306, '')",
            Some(3200),
        ),
        (
            "SELECT asynchronous_connection_failover_delete_source('', 'h', 3306, '')",
            None,
        ),
        (
            "SELECT asynchronous_connection_failover_reset(1)",
            Some(1123),
        ),
    ] {
        assert_eq!(c.code(sql), code, "{sql}");
    }
    assert_eq!(c.lines(LISTED), ["g|3306|50"]);
    let mut plain = {
        c.run("CREATE USER plain IDENTIFIED BY 'pw'");
        let opened =
            esker_server::client::Client::connect("127.0.0.1", server.port, "plain", "pw", None);
        opened.expect("a login")
    };
    let reset = "SELECT asynchronous_connection_failover_reset()";
    assert_eq!(plain.code(reset), Some(1227));
    for thread in ["IO_THREAD", "SQL_THREAD"] {
        c.run(&format!("START REPLICA {thread}"));
        assert_eq!(c.code(reset), Some(1123), "{thread}");
        c.run("STOP REPLICA");
    }
    assert_eq!(
        c.lines(reset),
        ["The UDF asynchronous_connection_failover_reset() executed successfully."]
    );
    assert_eq!(c.lines(LISTED), [""; 0]);
}
