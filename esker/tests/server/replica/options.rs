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
        ("SOURCE_HOST = ''", Some(1210)),
        ("SOURCE_HOST = NULL", Some(1064)),
        ("SOURCE_HOST = h", Some(1064)),
        ("SOURCE_USER = 'a\nb'", Some(1525)),
        ("SOURCE_PORT = '3'", Some(1064)),
        (
            "SOURCE_PASSWORD = 'ppppppppppppppppppppppppppppppppp'",
            Some(3056),
        ),
        ("REQUIRE_TABLE_PRIMARY_KEY_CHECK = maybe", Some(1064)),
        ("SOURCE_HOST = 'h' FOR CHANNEL 'a\nb'", Some(1525)),
        (
            "SOURCE_HOST = 'h' FOR CHANNEL 'ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc'",
            Some(3076),
        ),
        (
            "SOURCE_HOST = 'h' FOR CHANNEL 'group_replication_applier'",
            Some(3139),
        ),
        (
            "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = 'local'",
            Some(1525),
        ),
        ("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = ''", Some(1525)),
        (
            "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
            Some(1525),
        ),
        ("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = NULL", Some(1064)),
        ("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = 1", Some(1064)),
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
    for (rule, code) in [
        ("REPLICATE_WILD_DO_TABLE = ('a')", 3067),
        ("REPLICATE_WILD_DO_TABLE = (a.b)", 1064),
        ("REPLICATE_DO_TABLE = (a)", 1064),
        ("REPLICATE_DO_DB = ('a')", 1064),
        ("REPLICATE_REWRITE_DB = (a, b)", 1064),
        ("REPLICATE_NOTHING = (a)", 1064),
    ] {
        let sql = format!("CHANGE REPLICATION FILTER {rule}");
        assert_eq!(c.code(&sql), Some(code), "{rule}");
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
    assert_eq!(c.code("SET GLOBAL gtid_mode = ON_PERMISSIVE"), Some(3111));
    assert_eq!(c.lines(CONNECTION), ["127.0.0.1|1|zstd,ZLIB|7|30.000|1"]);
    assert_eq!(c.lines(APPLIER), ["NULL|YES|OFF|NULL"]);
    assert_eq!(c.code("FLUSH RELAY LOGS FOR CHANNEL 'x'"), Some(3074));
}

#[test]
fn heartbeats_that_are_too_short_or_too_long_are_warned_of() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = server.connect();
    for (sql, code, period) in [
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = 0.0005",
            Some("1703"),
            "0.000",
        ),
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = 100",
            Some("1704"),
            "100.000",
        ),
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = 50",
            None,
            "50.000",
        ),
        // effect: replica_net_timeout
        ("SET GLOBAL replica_net_timeout = 50", None, "50.000"),
        (
            "SET GLOBAL replica_net_timeout = 49",
            Some("1704"),
            "50.000",
        ),
    ] {
        c.run(sql);
        let warnings = c.rows("SHOW WARNINGS").into_iter();
        let codes: Vec<_> = warnings.map(|row| row[1].clone()).collect();
        let expected: Vec<_> = code.into_iter().map(|code| Some(code.to_owned())).collect();
        assert_eq!(codes, expected, "{sql}");
        let shown = "SELECT heartbeat_interval FROM performance_schema.replication_connection_configuration";
        assert_eq!(c.lines(shown), [period], "{sql}");
    }
}

#[test]
fn what_of_tls_may_be_used_and_the_key_for_the_password() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut there = source.connect();
    there.run("CREATE USER fresh IDENTIFIED BY 'secret-word'");
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = replica.connect();
    let tls = "SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 1, SOURCE_TLS_VERSION = 'TLSv1.2', \
               SOURCE_SSL_CIPHER = 'ECDHE-ECDSA-AES128-GCM-SHA256'";
    change(&mut c, source.port, tls);
    c.run("START REPLICA");
    write(&mut there, 0..5);
    catch_up(&replica, &contents(&mut there));
    let shown = "SELECT tls_version, ssl_cipher, tls_ciphersuites FROM \
                 performance_schema.replication_connection_configuration";
    let expected = "TLSv1.2|ECDHE-ECDSA-AES128-GCM-SHA256|NULL";
    assert_eq!(c.lines(shown), [expected]);
    for (options, code, name) in [
        ("SOURCE_TLS_VERSION = 'TLSv1.1'", "2026", "TLSv1.1"),
        (
            "SOURCE_TLS_VERSION = 'TLSv1.3', SOURCE_TLS_CIPHERSUITES = 'TLS_AES_128_CCM_SHA256'",
            "2026",
            "TLS_AES_128_CCM_SHA256",
        ),
        ("SOURCE_TLS_CIPHERSUITES = ''", "2026", "tls_ciphersuites"),
        (
            "SOURCE_TLS_CIPHERSUITES = NULL, SOURCE_SSL_CAPATH = 'nowhere'",
            "2026",
            "SSL connection error: nowhere",
        ),
        (
            "SOURCE_SSL_CAPATH = '', SOURCE_SSL_VERIFY_SERVER_CERT = 1",
            "2026",
            "CA certificate is required",
        ),
        (
            "SOURCE_SSL = 0, SOURCE_USER = 'fresh', SOURCE_PUBLIC_KEY_PATH = 'nothing.pem'",
            "2061",
            "nothing.pem",
        ),
        (
            "SOURCE_PUBLIC_KEY_PATH = '', GET_SOURCE_PUBLIC_KEY = 0",
            "2061",
            "Message: Authentication plugin 'caching_sha2_password' reported error: Authentication requires secure \
             connection.",
        ),
    ] {
        c.run(&format!(
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO {options}"
        ));
        c.run("START REPLICA");
        eventually("it is refused", || status(&mut c)[34] == code);
        let why = status(&mut c)[35].clone();
        assert!(why.contains(name), "{why}");
    }
    // No other network than the server's own can be entered.
    c.run("STOP REPLICA; CHANGE REPLICATION SOURCE TO NETWORK_NAMESPACE = 'foo'; START REPLICA");
    eventually("it says so", || status(&mut c)[34] == "13117");
    let text = "Fatal error: failed to set network namespace 'foo'";
    assert_eq!(status(&mut c)[35], text);
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
    let set_format = "SET GLOBAL binlog_format = ROW";
    assert_eq!(c.code(set_format), Some(3747));
    c.run("STOP REPLICA SQL_THREAD");
    c.run(set_format);
    let index = c.lines("SHOW VARIABLES LIKE 'relay_log_index'").concat();
    assert!(index.ends_with("relay/default/relay-bin.index"), "{index}");
    assert_eq!(
        index,
        format!("relay_log_index|{}", c.value("SELECT @@relay_log_index"))
    );
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

#[test]
fn until_is_a_set_of_gtids_or_one_whole_place_in_a_log() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut c = server.connect();
    c.run(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'x', \
         SOURCE_LOG_FILE = 'b.000001', SOURCE_LOG_POS = 4",
    );
    const FILE: &str = "SOURCE_LOG_FILE = 'b.000002'";
    const SET: &str = "= '3e11fa47-71ca-11e1-9e33-c80aa94295aa:1-5'";
    for (until, code) in [
        (FILE.to_owned(), 1277),
        ("SOURCE_LOG_POS = 4".to_owned(), 1277),
        (format!("{FILE}, RELAY_LOG_POS = 4"), 1277),
        ("SOURCE_LOG_FILE = 'b', SOURCE_LOG_POS = 4".to_owned(), 1277),
        (format!("{FILE}, SOURCE_LOG_POS = '4'"), 1064),
        (
            format!("SQL_AFTER_GTIDS {SET}, SQL_BEFORE_GTIDS {SET}"),
            1064,
        ),
        (format!("SQL_AFTER_GTIDS {SET}, SQL_AFTER_MTS_GAPS"), 1064),
        (
            format!("SQL_AFTER_GTIDS {SET}, {FILE}, SOURCE_LOG_POS = 4"),
            1277,
        ),
        ("SQL_AFTER_MTS_GAPS = 1".to_owned(), 1064),
        ("nothing = 1".to_owned(), 1064),
    ] {
        let sql = format!("START REPLICA UNTIL {until}");
        assert_eq!(c.code(&sql), Some(code), "{sql}");
    }
    for (threads, until, note, shown) in [
        (
            "",
            format!("SOURCE_LOG_POS = 0, {FILE}"),
            "Note|1278",
            "Source|b.000002|4",
        ),
        (
            "",
            format!("{FILE}, MASTER_LOG_FILE = 'b.000003', SOURCE_LOG_POS = 7, MASTER_LOG_POS = 8"),
            "Note|1278",
            "Source|b.000003|8",
        ),
        (
            "RELAY_THREAD",
            format!("{FILE}, SOURCE_LOG_POS = 4"),
            "Note|1279",
            "",
        ),
        (
            "",
            format!("SQL_BEFORE_GTIDS {SET}"),
            "",
            "SQL_BEFORE_GTIDS||0",
        ),
        (
            "",
            format!("SQL_AFTER_GTIDS {SET}"),
            "",
            "SQL_AFTER_GTIDS||0",
        ),
    ] {
        c.run(&format!("START REPLICA {threads} UNTIL {until}"));
        let warnings = c.lines("SHOW WARNINGS").concat();
        assert_eq!(warnings.is_empty(), note.is_empty(), "{until}: {warnings}");
        assert!(warnings.starts_with(note), "{until}: {warnings}");
        if !shown.is_empty() {
            assert_eq!(status(&mut c)[23..26].join("|"), shown, "{until}");
        }
        c.run("STOP REPLICA");
    }
    assert_eq!(c.code("START REPLICA SQL_THREAD USER = 'a'"), Some(1763));
    assert_eq!(c.code("START REPLICA IO_THREAD SQL_THREAD"), Some(1064));
}
