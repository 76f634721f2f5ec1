//! Channels that require rows, or the rights of an account.

use esker_binlog::event::EventType;
use esker_binlog::event::query::Query;

use super::tests::{Server, await_status, settings};
use super::{Failure, KeyCheck, Settings};

/// A source with a table and three transactions.
fn source() -> Server {
    let source = Server::source();
    let mut c = source.client(1);
    for sql in [
        "CREATE DATABASE a",
        "CREATE TABLE a.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO a.t VALUES (1, 0)",
        "UPDATE a.t SET v = 1",
        "CREATE TABLE a.u (id INT PRIMARY KEY)",
    ] {
        c.ok(sql);
    }
    source
}

/// Applies everything that can be; why the channel has stopped.
fn outcome(
    replica: &Server,
    events: &[esker_binlog::apply::Incoming],
    settings: Settings,
) -> Option<Failure> {
    let applier = replica.start_with(events, settings);
    let last = events.last().map_or(0, |event| event.relay.offset);
    let status = await_status(&applier, |s| {
        s.read.relay.offset >= last && s.in_flight == 0
    });
    applier.stop();
    status.failure
}

#[test]
fn a_channel_that_requires_rows_refuses_statements_that_change_them() {
    let source = source();
    let mut events = source.events();
    let rows = |event: &esker_binlog::apply::Incoming| {
        event.header.event_type() == Some(EventType::WriteRows)
    };
    let at = events.iter().position(rows).expect("an INSERT");
    let mut body = Vec::new();
    Query {
        thread_id: 1,
        seconds: 0,
        error: 0,
        schema: b"a",
        settings: b"",
        text: b"INSERT INTO t VALUES (1, 0)",
    }
    .write(&mut body);
    events[at].header.kind = EventType::Query as u8;
    events[at].body = body;
    let replica = Server::replica(&[]);
    let strict = Settings {
        row_format: true,
        ..settings()
    };
    let failure = outcome(&replica, &events, strict).expect("it is refused");
    assert_eq!(failure.code, 3944, "{}", failure.text);
    assert!(failure.text.contains("INSERT INTO t"), "{}", failure.text);
    assert_eq!(replica.client(9).ok("SELECT COUNT(*) FROM a.t"), ["0|"]);
    assert_eq!(outcome(&replica, &events, settings()), None);
    assert_eq!(replica.dump(), source.dump());
}

#[test]
fn an_account_sets_no_variables_where_only_rows_come() {
    let source = source();
    let mut c = source.client(1);
    c.ok("SET sql_require_primary_key = ON");
    c.ok("CREATE TABLE a.w (id INT PRIMARY KEY)");
    let events = source.events();
    for (key_check, expected) in [(KeyCheck::Stream, Some(1227)), (KeyCheck::Off, None)] {
        let replica = Server::replica(&[]);
        let rights = "REPLICATION_APPLIER, CREATE, INSERT, UPDATE";
        let mut there = replica.client(9);
        there.ok("CREATE USER app@localhost");
        there.ok(&format!("GRANT {rights} ON *.* TO app@localhost"));
        let checked = Settings {
            checks_user: Some(("app".to_owned(), "localhost".to_owned())),
            row_format: true,
            key_check,
            ..settings()
        };
        let failure = outcome(&replica, &events, checked);
        let code = failure.as_ref().map(|failure| failure.code);
        // That CREATE TABLE says what sql_require_primary_key was.
        assert_eq!(code, expected, "{key_check:?}: {failure:?}");
    }
}

#[test]
fn a_channel_applies_what_its_account_may_do() {
    let source = source();
    let events = source.events();
    let replica = Server::replica(&[]);
    let checked = || Settings {
        checks_user: Some(("app".to_owned(), "localhost".to_owned())),
        ..settings()
    };
    let mut there = replica.client(9);
    for (then, expected) in [
        ("DO 0", Some(3926)),
        ("CREATE USER app@localhost", Some(13496)),
        (
            "GRANT REPLICATION_APPLIER ON *.* TO app@localhost",
            Some(1227),
        ),
        (
            "GRANT SESSION_VARIABLES_ADMIN ON *.* TO app@localhost",
            Some(1044),
        ),
        ("GRANT CREATE ON a.* TO app@localhost", Some(1142)),
        ("GRANT INSERT ON a.t TO app@localhost", Some(1142)),
        ("GRANT UPDATE ON a.t TO app@localhost", None),
    ] {
        there.ok(then);
        let failure = outcome(&replica, &events, checked());
        let code = failure.as_ref().map(|failure| failure.code);
        assert_eq!(code, expected, "{then}: {failure:?}");
    }
    assert_eq!(replica.dump(), source.dump());
}
