//! What is applied is seen soon, though no session waits for the log.

use std::collections::VecDeque;

use esker_binlog::event::EventType;

use super::defect_tests::{is, source};
use super::tests::{Client, Server, await_status, settings};
use super::*;

/// A row comes when those before it are seen.
struct OneByOne {
    events: VecDeque<Incoming>,
    replica: Client,
    rows: usize,
}

impl EventSource for OneByOne {
    fn next(&mut self, wait: Duration) -> esker_binlog::Result<Option<Incoming>> {
        let Some(event) = self.events.front() else {
            std::thread::sleep(wait);
            return Ok(None);
        };
        let mut seen = || self.replica.ok("SELECT COUNT(*) FROM a.t");
        if is(event, EventType::Gtid) && self.rows > 0 && seen() != [format!("{}|", self.rows)] {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(None);
        }
        self.rows += usize::from(is(event, EventType::Xid));
        Ok(self.events.pop_front())
    }
}

/// An idle log is flushed once a second: that would take longer than a test waits.
#[test]
fn what_is_applied_does_not_wait_for_an_idle_log() {
    const ROWS: u32 = 100;
    let events = source(ROWS).events();
    let replica = Server::replica(&[]);
    let one_by_one = OneByOne {
        replica: replica.client(1),
        rows: 0,
        events: events.into(),
    };
    let state = load(&replica.instance, "").expect("state");
    let applier = Applier::start(
        &replica.instance,
        "",
        state,
        Box::new(one_by_one),
        settings(),
    );
    let applier = applier.expect("a thread");
    let begun = std::time::Instant::now();
    await_status(&applier, |s| s.transactions >= u64::from(ROWS));
    assert!(
        begun.elapsed() < super::tests::LIMIT,
        "each waited for the log"
    );
}
