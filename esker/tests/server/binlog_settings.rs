//! What statements in the binary log say of the session that ran them. A consumer keeps what it was told with the
//! statement before, so what a statement depends on is said even where it is as usual.

use esker_binlog::event::EventType;
use esker_binlog::event::query::{Query, Settings};

use crate::binlog::{ARGS, for_each_event, statements};
use crate::common::{Ask, Server};

/// Statements of the binary log that contain this, with their settings.
fn logged(dir: &std::path::Path, part: &str) -> Vec<(String, Settings)> {
    let mut found = Vec::new();
    for_each_event(dir, |event| {
        if event.header.event_type() != Some(EventType::Query) {
            return;
        }
        let query = Query::parse(event.body).expect("query");
        let text = String::from_utf8_lossy(query.text).into_owned();
        if text.contains(part) {
            found.push((text, Settings::parse(query.settings).expect("settings")));
        }
    });
    found
}

/// A replica of MySQL would have a transaction open behind the first of these, and stop at the next BEGIN (1778).
#[test]
fn autocommit_stays_with_the_session() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY); SET autocommit = 0");
    c.run("CREATE TABLE IF NOT EXISTS t (a INT); INSERT INTO t VALUES (1); COMMIT");
    statements(&mut c);
    let all = logged(dir.path(), "");
    assert_eq!(all.len(), 4, "{all:?}");
    for (text, settings) in all {
        assert_eq!(settings.flags2, Some(0), "{text}");
    }
}

/// What follows a statement of another zone in the log of a consumer.
#[test]
fn statements_name_the_zone_even_if_it_is_that_of_the_system() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; SET time_zone = '+05:00'; CREATE TABLE a (ts TIMESTAMP)");
    c.run("SET time_zone = 'SYSTEM'; ALTER TABLE a MODIFY ts DATETIME");
    c.run("CREATE TABLE b (a INT, ts TIMESTAMP DEFAULT '2020-06-01 00:00:00')");
    c.run("CREATE TABLE e SELECT * FROM b; CREATE VIEW v AS SELECT 1");
    c.run("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DISABLE DO SET @a = 1");
    statements(&mut c);
    for (part, zone) in [
        ("CREATE TABLE a", "+05:00"),
        ("ALTER TABLE a", "SYSTEM"),
        ("CREATE TABLE b", "SYSTEM"),
        ("CREATE TABLE `e`", "SYSTEM"),
        (" VIEW ", "SYSTEM"),
        (" EVENT ", "SYSTEM"),
    ] {
        let found = logged(dir.path(), part);
        assert_eq!(found.len(), 1, "{part}: {found:?}");
        assert_eq!(found[0].1.time_zone.as_deref(), Some(zone), "{part}");
    }
}

/// Where the server writes the definition: in the zone that is logged with it.
#[test]
fn defaults_are_in_the_zone_that_goes_with_the_statement() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; SET time_zone = '+05:00'");
    c.run("CREATE TEMPORARY TABLE a (id INT, ts TIMESTAMP DEFAULT '2020-06-01 00:00:00')");
    c.run("CREATE TABLE b SELECT * FROM a; CREATE TABLE l LIKE a");
    c.run("CREATE TABLE s (ts TIMESTAMP DEFAULT '2020-06-01 00:00:00') SELECT 1 AS id");
    c.run("SET sql_generate_invisible_primary_key = ON");
    c.run("CREATE TABLE k (ts TIMESTAMP DEFAULT '2020-06-01 00:00:00')");
    statements(&mut c);
    for table in ["`b`", "`l`", "`s`", "`k`"] {
        let found = logged(dir.path(), &format!("CREATE TABLE {table} "));
        assert_eq!(found.len(), 1, "{table}: {found:?}");
        let (text, settings) = &found[0];
        assert_eq!(settings.time_zone.as_deref(), Some("+05:00"), "{text}");
        assert!(text.contains("DEFAULT '2020-06-01 00:00:00'"), "{text}");
    }
}

/// As MySQL does for the same statements: a replica would keep a 1 that another session has set.
#[test]
fn definitions_of_tables_say_whether_they_need_a_primary_key() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; SET sql_require_primary_key = 1");
    c.run("CREATE TABLE a (a INT PRIMARY KEY); SET sql_require_primary_key = 0");
    c.run("CREATE TABLE b (a INT); ALTER TABLE b ADD b INT; CREATE TABLE c SELECT 1 AS a");
    c.run("CREATE INDEX i ON b (a); DROP TABLE b");
    statements(&mut c);
    for (part, said) in [
        ("CREATE DATABASE d", None),
        ("CREATE TABLE a", Some(true)),
        ("CREATE TABLE b", Some(false)),
        ("ALTER TABLE b", Some(false)),
        ("CREATE TABLE `c`", Some(false)),
        ("CREATE INDEX i", None),
        ("DROP TABLE `b`", None),
    ] {
        let found = logged(dir.path(), part);
        assert_eq!(found.len(), 1, "{part}: {found:?}");
        assert_eq!(found[0].1.require_primary_key, said, "{part}");
    }
}

/// A MySQL replica refuses those that only Esker can keep (1846).
#[test]
fn how_a_change_is_made_is_not_logged() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (a INT, b INT)");
    c.run("ALTER TABLE t MODIFY a BIGINT, ALGORITHM = INPLACE, LOCK NONE, ADD c INT");
    c.run("ALTER TABLE t LOCK = SHARED, ADD d INT; CREATE INDEX i ON t (a) ALGORITHM=INPLACE LOCK=NONE");
    c.run("DROP INDEX i ON t LOCK NONE; ALTER TABLE t ALGORITHM = COPY");
    let texts = statements(&mut c).into_iter().map(|text| {
        let text = text.split(" /* xid=").next().unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    let texts: Vec<String> = texts.collect();
    let expected = [
        "use `d`; ALTER TABLE t MODIFY a BIGINT , ADD c INT",
        "use `d`; ALTER TABLE t ADD d INT",
        "use `d`; CREATE INDEX i ON t (a)",
        "use `d`; DROP INDEX i ON t",
        "use `d`; ALTER TABLE t",
    ];
    assert_eq!(texts[texts.len() - 5..], expected);
}

/// Replicas have rows of tables in memory that a restart of the source has emptied. A server that is read only has its
/// rows of a source, which says so itself.
#[test]
fn tables_that_a_start_has_emptied_are_truncated_on_replicas() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    server.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.m (a INT PRIMARY KEY) ENGINE = MEMORY; CREATE TABLE d.t (a INT); \
         INSERT INTO d.m VALUES (1), (2); INSERT INTO d.t VALUES (1)",
    );
    server.stop();
    server.restart();
    server
        .connect()
        .run("INSERT INTO d.m VALUES (3); FLUSH BINARY LOGS");
    let texts = || -> Vec<String> {
        let found = logged(dir.path(), "TRUNCATE");
        found.into_iter().map(|(text, _)| text).collect()
    };
    let expected = "TRUNCATE TABLE `d`.`m` /* generated by server */";
    assert_eq!(texts(), [expected]);
    server.stop();
    server.set_args(&[&ARGS[..], &["--read-only=ON"]].concat());
    server.restart();
    let mut c = server.connect();
    c.run("FLUSH BINARY LOGS");
    assert_eq!(
        (c.value("SELECT COUNT(*) FROM d.m"), texts().len()),
        ("0".into(), 1)
    );
}
