//! SHOW BINLOG EVENTS, and where the files of the binary log begin: RESET and PURGE.
//!
//! **Invariant**: the answers are those of MySQL 9.7.

use crate::common::{Ask, Server};

#[test]
fn show_binlog_events_begins_and_ends_as_in_mysql() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &["--log-bin=ON", "--gtid-mode=ON"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT)");
    let mut positions = |rest: &str| {
        let lines = c.lines(&format!("SHOW BINLOG EVENTS{rest}"));
        let position = |line: &String| line.split('|').nth(1).map(str::to_owned).expect("position");
        lines.iter().map(position).collect::<Vec<_>>()
    };
    let all = positions("");
    assert_eq!(all[..3], ["4", "127", "158"]);
    // The first event that does not begin before.
    assert_eq!(positions(" FROM 5"), all[1..]);
    assert_eq!(positions(" FROM 127"), all[1..]);
    assert_eq!(positions(" FROM 130"), all[2..]);
    assert!(positions(" FROM 900000").is_empty());
    assert!(positions(" FROM 9000000000").is_empty());
    // No limit, unlike none of the rows behind the first two.
    assert_eq!(positions(" LIMIT 0"), all);
    assert_eq!(positions(" FROM 5 LIMIT 0"), all[1..]);
    assert!(positions(" LIMIT 2, 0").is_empty());
    assert_eq!(positions(" LIMIT 2, 1"), all[2..3]);
    for file in ["./binlog.000001", "/tmp/binlog.000001"] {
        assert_eq!(positions(&format!(" IN '{file}' LIMIT 1")), all[..1]);
    }
    let text = c.error("SHOW BINLOG EVENTS FROM 18446744073709551615");
    assert!(
        text.ends_with(
            "Error reading Log_event at position 18446744073709551615: Failed decoding event: I/O error reading log \
             event"
        ),
        "{text}"
    );
    // There are no relay logs, and always a default channel.
    assert!(c.rows("SHOW RELAYLOG EVENTS").is_empty());
    assert!(c.rows("SHOW RELAYLOG EVENTS IN 'x'").is_empty());
    assert_eq!(c.code("SHOW RELAYLOG EVENTS FOR CHANNEL 'x'"), Some(3074));

    c.run("FLUSH BINARY LOGS; PURGE BINARY LOGS BEFORE NULL");
    assert!(c.lines("SHOW WARNINGS").is_empty());
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), 2);
    c.run("RESET BINARY LOGS AND GTIDS TO 1234");
    assert_eq!(c.lines("SHOW BINARY LOGS"), ["binlog.001234|158|No"]);
    c.run("RESET BINARY LOGS AND GTIDS TO 2000000000; FLUSH BINARY LOGS");
    assert_eq!(
        c.lines("SHOW BINARY LOGS"),
        ["binlog.2000000000|206|No", "binlog.2000000001|158|No"]
    );
    c.run("RESET BINARY LOGS AND GTIDS");
    assert_eq!(c.lines("SHOW BINARY LOGS"), ["binlog.000001|158|No"]);
    for first in ["0", "2000000001"] {
        let text = c.error(&format!("RESET BINARY LOGS AND GTIDS TO {first}"));
        let why = format!(
            "The requested value '{first}' for the next binary log index is out of range. Please use a value between \
             '1' and '2000000000'."
        );
        assert!(text.ends_with(&why), "{text}");
    }
}

#[test]
fn the_server_removes_nothing_that_a_backup_copies() {
    let dir = tempfile::tempdir().expect("dir");
    for commits in ["ONE-SYNC", "TWO-PHASE"] {
        let commit = format!("--esker-binlog-commit={commits}");
        let server = Server::start(&dir.path().join(commits), &["--log-bin=ON", &commit]);
        let mut c = server.connect();
        c.run("CREATE DATABASE d; FLUSH BINARY LOGS; FLUSH BINARY LOGS");
        let files = c.lines("SHOW BINARY LOGS");
        let mut backup = server.connect();
        backup.run("LOCK INSTANCE FOR BACKUP");
        c.run("SET GLOBAL esker_binlog_space_limit = 1");
        assert_eq!(c.lines("SHOW BINARY LOGS"), files);
        backup.run("UNLOCK INSTANCE");
        c.run("SET GLOBAL esker_binlog_space_limit = 1");
        assert_eq!(c.lines("SHOW BINARY LOGS"), files[2..]);
    }
}

/// A statement that changes several tables has the maps of all before the rows, and its last event ends it, whatever
/// becomes of the statements of its triggers.
#[test]
fn a_statement_has_its_maps_before_its_rows() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &["--log-bin=ON"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE log (id INT PRIMARY KEY)");
    c.run(
        "CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
         INSERT INTO log VALUES (NEW.id % 2); END",
    );
    let mut kinds = |sql: &str| {
        c.run("FLUSH BINARY LOGS");
        c.run(sql);
        let file = c.rows("SHOW BINARY LOG STATUS")[0][0]
            .clone()
            .expect("a file");
        let events = c.rows(&format!("SHOW BINLOG EVENTS IN '{file}'"));
        let shown = events.into_iter().filter_map(|event| {
            let kind = event[2].clone()?;
            let ends = event[5].as_ref()?.ends_with("STMT_END_F");
            let is_of_rows = kind == "Table_map" || kind.ends_with("_rows");
            is_of_rows.then(|| if ends { format!("{kind}!") } else { kind })
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    // The third row of the log is there already.
    assert_eq!(
        kinds("INSERT INTO t VALUES (1), (2), (3)"),
        "Table_map Table_map Write_rows Write_rows Write_rows Write_rows Write_rows!"
    );
    assert_eq!(
        kinds("UPDATE t JOIN log USING (id) SET t.id = t.id + 10, log.id = log.id + 10"),
        "Table_map Table_map Update_rows Update_rows!"
    );
    assert_eq!(kinds("DELETE FROM log"), "Table_map Delete_rows!");
}

#[test]
fn what_is_flushed_here_is_flushed_on_replicas() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("data"), &["--log-bin=ON"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT); CREATE VIEW d.v AS SELECT * FROM d.t");
    let mut logged = |sql: &str| {
        let before = c.rows("SHOW BINARY LOG STATUS").concat();
        c.run(sql);
        c.run("UNLOCK TABLES");
        let after = c.rows("SHOW BINARY LOG STATUS").concat();
        if before[0] != after[0] {
            return "a new file".to_owned();
        }
        let (file, from) = (
            before[0].clone().expect("file"),
            before[1].clone().expect("position"),
        );
        let events = c.rows(&format!("SHOW BINLOG EVENTS IN '{file}' FROM {from}"));
        let texts = events
            .into_iter()
            .filter(|event| event[2].as_deref() == Some("Query"));
        texts.filter_map(|event| event[5].clone()).collect()
    };
    // What the oracle logs, but for FLUSH HOSTS, which it no longer has.
    for what in [
        "ENGINE LOGS",
        "ERROR LOGS",
        "GENERAL LOGS",
        "HOSTS",
        "PRIVILEGES",
        "OPTIMIZER_COSTS",
        "RELAY LOGS",
        "RELAY LOGS FOR CHANNEL ''",
        "SLOW LOGS",
        "STATUS",
        "USER_RESOURCES",
        "TABLES",
        "TABLES d.t, d.v",
        "STATUS, RELAY LOGS",
        "ERROR LOGS, STATUS",
    ] {
        let sql = format!("FLUSH {what}");
        assert_eq!(logged(&sql), sql);
        for quietly in ["LOCAL", "NO_WRITE_TO_BINLOG"] {
            assert_eq!(logged(&format!("FLUSH {quietly} {what}")), "", "{what}");
        }
    }
    for what in [
        "TABLES WITH READ LOCK",
        "TABLES d.t WITH READ LOCK",
        "TABLES d.t FOR EXPORT",
    ] {
        assert_eq!(logged(&format!("FLUSH {what}")), "", "{what}");
    }
    for what in [
        "LOGS",
        "BINARY LOGS",
        "BINARY LOGS, PRIVILEGES",
        "LOGS, STATUS",
    ] {
        assert_eq!(logged(&format!("FLUSH {what}")), "a new file", "{what}");
    }
}
