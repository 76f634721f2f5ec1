//! Options of CHANGE REPLICATION SOURCE: what is shown of them, and what they do.

use super::{REPLICA, catch_up, change, contents, source, status, write};
use crate::common::{Ask, Server, eventually};

const CONNECTION: &str = "SELECT network_interface, auto_position, compression_algorithm, zstd_compression_level, \
                          heartbeat_interval, gtid_only FROM performance_schema.replication_connection_configuration";
const APPLIER: &str = "SELECT privilege_checks_user, require_row_format, assign_gtids_to_anonymous_transactions_type, \
                       assign_gtids_to_anonymous_transactions_value = @@server_uuid \
                       FROM performance_schema.replication_applier_configuration";

#[test]
fn options_are_kept_and_shown_and_those_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = server.connect();
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h', SOURCE_PORT = 1; CREATE USER app@localhost");
    assert_eq!(c.lines(CONNECTION), ["|0|uncompressed|3|30.000|0"]);
    assert_eq!(c.lines(APPLIER), ["NULL|NO|OFF|NULL"]);
    let mut change = |options: &str| c.code(&format!("CHANGE REPLICATION SOURCE TO {options}"));
    for (options, code) in [
        ("PRIVILEGE_CHECKS_USER = nobody", Some(3926)),
        ("PRIVILEGE_CHECKS_USER = ''@h", Some(3925)),
        ("PRIVILEGE_CHECKS_USER = CURRENT_USER()", Some(1064)),
        ("GTID_ONLY = 1", Some(4065)),
        ("REQUIRE_ROW_FORMAT = 2", Some(3945)),
        ("SOURCE_COMPRESSION_ALGORITHMS = 'foo'", Some(3920)),
        ("SOURCE_ZSTD_COMPRESSION_LEVEL = 23", Some(3921)),
        ("RELAY_LOG_FILE = 'none'", Some(1380)),
        ("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = 'aaa'", Some(1525)),
        ("SOURCE_DELAY = 2147483648", Some(1729)),
        (
            "PRIVILEGE_CHECKS_USER = app@localhost, SOURCE_BIND = '127.0.0.1', \
             ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = LOCAL",
            None,
        ),
        (
            "SOURCE_COMPRESSION_ALGORITHMS = 'zstd,ZLIB', SOURCE_ZSTD_COMPRESSION_LEVEL = 7",
            None,
        ),
        ("SOURCE_ZSTD_COMPRESSION_LEVEL = 0", None),
        ("SOURCE_AUTO_POSITION = 1", Some(4014)),
    ] {
        assert_eq!(change(options), code, "{options}");
    }
    server.stop();
    server.restart();
    let mut c = server.connect();
    assert_eq!(c.lines(CONNECTION), ["127.0.0.1|0|zstd,ZLIB|7|30.000|0"]);
    assert_eq!(c.lines(APPLIER), ["'app'@'localhost'|NO|LOCAL|1"]);
    c.run("STOP REPLICA");
    let mut change = |options: &str| c.code(&format!("CHANGE REPLICATION SOURCE TO {options}"));
    for (options, code) in [
        (
            "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = OFF, PRIVILEGE_CHECKS_USER = NULL, REQUIRE_ROW_FORMAT = 1, \
             SOURCE_AUTO_POSITION = 1, GTID_ONLY = 1",
            None,
        ),
        ("SOURCE_AUTO_POSITION = 0", Some(4067)),
        ("REQUIRE_ROW_FORMAT = 0", Some(4066)),
        ("RELAY_LOG_POS = 4", Some(1776)),
    ] {
        assert_eq!(change(options), code, "{options}");
    }
    assert_eq!(c.lines(CONNECTION), ["127.0.0.1|1|zstd,ZLIB|7|30.000|1"]);
    assert_eq!(c.lines(APPLIER), ["NULL|YES|OFF|NULL"]);
    assert_eq!(c.code("FLUSH RELAY LOGS FOR CHANNEL 'x'"), Some(3074));
}

#[test]
fn a_replica_follows_over_a_compressed_connection_from_an_address() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut there = source.connect();
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = replica.connect();
    for (nth, (only, options)) in [
        (
            "zstd",
            "SOURCE_COMPRESSION_ALGORITHMS = 'zstd', SOURCE_ZSTD_COMPRESSION_LEVEL = 9",
        ),
        (
            "zlib",
            "SOURCE_COMPRESSION_ALGORITHMS = 'zlib,uncompressed', SOURCE_BIND = '127.0.0.1'",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let nth = nth as u32;
        there.run(&format!(
            "SET GLOBAL protocol_compression_algorithms = '{only}'"
        ));
        c.run("STOP REPLICA");
        let options = format!("SOURCE_AUTO_POSITION = 1, {options}");
        change(&mut c, source.port, &options);
        c.run("START REPLICA");
        write(&mut there, nth * 100..nth * 100 + 100);
        catch_up(&replica, &contents(&mut there));
    }
    // They have none in common.
    c.run("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_COMPRESSION_ALGORITHMS = 'zstd'; START REPLICA");
    eventually("it says so", || status(&mut c)[34] == "2066");
}

#[test]
fn an_applier_goes_on_at_a_place_of_the_relay_log() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut there = source.connect();
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = replica.connect();
    change(
        &mut c,
        source.port,
        "SOURCE_LOG_FILE = '', SOURCE_LOG_POS = 4",
    );
    c.run("START REPLICA");
    there.run("INSERT INTO d.t VALUES (1, 0)");
    catch_up(&replica, &contents(&mut there));
    c.run("STOP REPLICA SQL_THREAD");
    let (file, received) = (status(&mut c)[7].clone(), status(&mut c)[6].clone());
    there.run("INSERT INTO d.t VALUES (2, 0)");
    eventually("it has come", || status(&mut c)[6] != received);
    c.run("FLUSH RELAY LOGS FOR CHANNEL ''");
    let (base, number) = file.rsplit_once('.').expect("a number");
    let number: u32 = number.parse().expect("a number");
    c.run(&format!(
        "CHANGE REPLICATION SOURCE TO RELAY_LOG_FILE = '{base}.{:06}', RELAY_LOG_POS = 4; START REPLICA SQL_THREAD",
        number + 1
    ));
    there.run("INSERT INTO d.t VALUES (3, 0)");
    catch_up(&replica, &["1|0".to_owned(), "3|0".to_owned()]);
}
