//! Sources that log statements about temporary tables.

use esker_binlog::apply::Incoming;
use esker_binlog::event::EventType;
use esker_binlog::event::format::FormatDescription;
use esker_binlog::event::query::Query;
use esker_binlog::event::{Checksum, HEADER_BYTES, Stamp};

use super::tests::{MODES, Server, await_status, settings};
use super::{Settings, SourceTables};

/// What sessions of a source have logged as statements, behind a table `a.t`.
const STATEMENTS: [(u32, &str); 9] = [
    (1, "CREATE TEMPORARY TABLE tmp (id INT PRIMARY KEY, v INT)"),
    (2, "CREATE TEMPORARY TABLE tmp (id INT PRIMARY KEY, v INT)"),
    (1, "INSERT INTO tmp VALUES (1, 10)"),
    (2, "INSERT INTO tmp VALUES (2, 20)"),
    // The applier is stopped here.
    (1, "ALTER TABLE tmp ADD w INT"),
    (1, "INSERT INTO t SELECT id, v FROM tmp"),
    (2, "INSERT INTO t SELECT * FROM tmp"),
    (3, "DROP TEMPORARY TABLE IF EXISTS tmp"),
    (2, "DROP TEMPORARY TABLE tmp"),
];
const BEFORE_THE_STOP: usize = 4;

/// The statements as events, behind those that make the table; and which they are.
fn events() -> (Vec<Incoming>, Vec<usize>) {
    let source = Server::source();
    let mut c = source.client(1);
    c.ok("CREATE DATABASE a");
    c.ok("CREATE TABLE a.t (id INT PRIMARY KEY, v INT)");
    for nth in 0..STATEMENTS.len() {
        c.ok(&format!("CREATE TABLE a.x{nth} (id INT)"));
    }
    let mut events = source.events();
    let is_query = |at: &usize| events[*at].header.event_type() == Some(EventType::Query);
    let places: Vec<usize> = (0..events.len()).filter(is_query).skip(2).collect();
    for (at, (thread_id, text)) in places.iter().zip(STATEMENTS) {
        let event = &mut events[*at];
        event.body.clear();
        Query {
            thread_id,
            seconds: 0,
            error: 0,
            schema: b"a",
            settings: b"",
            text: text.as_bytes(),
        }
        .write(&mut event.body);
    }
    (events, places)
}

/// The source starts anew.
fn start(last: &Incoming) -> Incoming {
    let mut bytes = Vec::new();
    let stamp = Stamp {
        timestamp: 1,
        server_id: 1,
        flags: 0,
    };
    FormatDescription {
        server_version: "9.7.0".to_owned(),
        created: 1,
        checksum: Checksum::Crc32,
    }
    .write(stamp, 4, &mut bytes);
    let mut event = last.clone();
    event.header.kind = EventType::FormatDescription as u8;
    event.body = bytes[HEADER_BYTES..bytes.len() - 4].to_vec();
    event.relay.offset += 1;
    event
}

fn apply(replica: &Server, events: &[Incoming], temporary: &std::sync::Arc<SourceTables>) {
    let settings = Settings {
        temporary: temporary.clone(),
        ..settings()
    };
    let applier = replica.start_with(events, settings);
    let last = events.last().map_or(0, |event| event.relay.offset);
    let status = await_status(&applier, |s| {
        s.read.relay.offset >= last && s.in_flight == 0
    });
    applier.stop();
    assert_eq!(status.failure, None);
}

#[test]
fn temporary_tables_belong_to_sessions_of_the_source() {
    let (mut events, places) = events();
    let before = places[BEFORE_THE_STOP];
    for mode in MODES {
        let replica = Server::replica(&[
            ("esker_replica_parallel_mode", mode),
            ("replica_parallel_workers", "4"),
        ]);
        let temporary = std::sync::Arc::default();
        apply(&replica, &events[..before - 1], &temporary);
        assert_eq!(temporary.count(), 2, "{mode}");
        apply(&replica, &events, &temporary);
        assert_eq!(temporary.count(), 1, "{mode}");
        let rows = replica.client(9).ok("SELECT * FROM a.t ORDER BY id");
        assert_eq!(rows, ["1|10|", "2|20|"], "{mode}");
        let restart = start(events.last().expect("events"));
        events.push(restart);
        apply(&replica, &events, &temporary);
        assert_eq!(temporary.count(), 0, "{mode}");
        events.pop();
    }
}
