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
