//! What went wrong in others' parallel appliers: memory that was never given back, a wait for the end of a transaction
//! that has none, and a group that was lost when one of its transactions failed. Here each has its test.

use std::cell::Cell;
use std::time::Duration;

use esker_binlog::apply::Incoming;
use esker_binlog::event::control::Rotate;
use esker_binlog::event::query::Query;
use esker_binlog::event::{EventType, FLAG_ARTIFICIAL};
use esker_vfs::sim::{Fault, Op, SimEnv};

use super::tests::{MODES, Server, await_status, settings};
use super::{Anonymous, Applier, EventSource, Settings, load};

pub(super) fn is(event: &Incoming, kind: EventType) -> bool {
    event.header.event_type() == Some(kind)
}

/// A source with a table of rows without values, one transaction each.
pub(super) fn source(rows: u32) -> Server {
    let source = Server::source();
    let mut c = source.client(1);
    c.ok("CREATE DATABASE a");
    c.ok("CREATE TABLE a.t (id INT PRIMARY KEY, v INT)");
    for id in 1..=rows {
        c.ok(&format!("INSERT INTO a.t VALUES ({id}, 0)"));
    }
    source
}

/// Numbers the events anew, for some have gone or come.
fn renumber(events: &mut [Incoming]) {
    for (nth, event) in events.iter_mut().enumerate() {
        event.relay.offset = nth as u64 + 1;
    }
}

fn commit() -> Vec<u8> {
    let mut body = Vec::new();
    Query {
        thread_id: 1,
        seconds: 0,
        error: 0,
        schema: b"a",
        settings: b"",
        text: b"COMMIT",
    }
    .write(&mut body);
    body
}

/// One transaction ends with COMMIT, one with nothing: its source went down, and the next file follows.
#[test]
fn a_transaction_that_ends_without_xid_does_not_hang() {
    let source = source(12);
    let mut events = source.events();
    let ends: Vec<usize> = (0..events.len())
        .filter(|at| is(&events[*at], EventType::Xid))
        .collect();
    let (with_commit, with_nothing) = (ends[3], ends[7]);
    events[with_commit].header.kind = EventType::Query as u8;
    events[with_commit].body = commit();
    let mut rotate = events[with_nothing].clone();
    rotate.header.kind = EventType::Rotate as u8;
    rotate.header.stamp.flags |= FLAG_ARTIFICIAL;
    rotate.body.clear();
    Rotate {
        position: 4,
        file: b"binlog.000002",
    }
    .write(&mut rotate.body);
    events[with_nothing] = rotate;
    renumber(&mut events);
    for mode in MODES {
        let settings = [
            ("esker_replica_parallel_mode", mode),
            ("replica_parallel_workers", "3"),
        ];
        let replica = Server::replica(&settings);
        let status = replica.apply(&events);
        assert_eq!(status.failure, None, "{mode}");
        let mut c = replica.client(1);
        assert_eq!(c.ok("SELECT COUNT(*) FROM a.t"), ["11|"], "{mode}");
        assert_eq!(c.ok("SELECT * FROM a.t WHERE id = 8"), Vec::<String>::new());
    }
}

/// The source committed them together; one fails. Everything before it is there, and with the cause gone all are.
#[test]
fn a_group_of_which_one_fails_loses_nothing() {
    let source = source(30);
    let first = source.events();
    let mut c = source.client(1);
    for id in 1..=30 {
        c.ok(&format!("UPDATE a.t SET v = {id} WHERE id = {id}"));
    }
    let events = source.events();
    for mode in MODES {
        for order in ["ON", "OFF"] {
            let replica = Server::replica(&[
                ("esker_replica_parallel_mode", mode),
                ("replica_parallel_workers", "8"),
                ("replica_preserve_commit_order", order),
            ]);
            assert_eq!(replica.apply(&first).failure, None);
            let mut there = replica.client(1);
            there.ok("DELETE FROM a.t WHERE id = 15");
            let code = replica.apply(&events).failure.map(|failure| failure.code);
            assert_eq!(code, Some(1032), "{mode} {order}");
            let before = there.ok("SELECT COUNT(*) FROM a.t WHERE id < 15 AND v = id");
            assert_eq!(before, ["14|"], "{mode} {order}");
            there.ok("INSERT INTO a.t VALUES (15, 0)");
            assert_eq!(replica.apply(&events).failure, None, "{mode} {order}");
            assert_eq!(replica.dump(), source.dump(), "{mode} {order}");
        }
    }
}

/// Where the record of a GTID alone cannot be written, the GTID is as if nobody had taken it.
#[test]
fn the_gtid_of_an_empty_transaction_that_fails_is_given_back() {
    let settings = [("log_bin", "ON"), ("esker_binlog_commit", "TWO-PHASE")];
    let server = Server::open(SimEnv::new(1), 1, &settings);
    let mut c = server.client(1);
    c.ok("CREATE DATABASE a");
    c.ok("CREATE TABLE a.t (id INT PRIMARY KEY)");
    const GTID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7";
    let is_executed = format!("SELECT GTID_SUBSET('{GTID}', @@GLOBAL.gtid_executed)");
    for sql in [
        "SET sql_log_bin = 0",
        "XA START 'x'",
        "INSERT INTO a.t VALUES (1)",
        "XA END 'x'",
        "XA PREPARE 'x'",
        "SET sql_log_bin = 1",
        &format!("SET gtid_next = '{GTID}'"),
    ] {
        c.ok(sql);
    }
    // The decision is in the engine's log alone, and its GTID would be a transaction of the file.
    let full = Fault::on(Op::Write).path("binlog.0").no_space();
    server.machine.fs.inject(full.times(1));
    c.ok("XA COMMIT 'x'");
    assert_eq!(c.ok("SELECT COUNT(*) FROM a.t"), ["1|"]);
    assert_eq!(c.ok(&is_executed), ["0|"]);
    c.ok("SET gtid_next = AUTOMATIC");
    // Nobody owns it: another session takes it without waiting, and has not been there before.
    let mut other = server.client(2);
    other.ok(&format!("SET gtid_next = '{GTID}'"));
    other.ok("INSERT INTO a.t VALUES (2)");
    assert_eq!(other.ok(&is_executed), ["1|"]);
    assert_eq!(other.ok("SELECT COUNT(*) FROM a.t"), ["2|"]);
}

/// The same events again and again.
struct Again {
    round: Vec<Incoming>,
    first: u64,
    next: u64,
    last: u64,
}

impl EventSource for Again {
    fn next(&mut self, wait: Duration) -> esker_binlog::Result<Option<Incoming>> {
        if self.next > self.last {
            std::thread::sleep(wait.min(Duration::from_millis(1)));
            return Ok(None);
        }
        let mut event = self.round[(self.next - self.first) as usize % self.round.len()].clone();
        event.relay.offset = self.next;
        self.next += 1;
        Ok(Some(event))
    }
}

/// What a channel keeps of transactions does not depend on how many there were. `ESKER_REPLICA_TRANSACTIONS` makes
/// them more.
#[test]
fn memory_does_not_grow_over_many_transactions() {
    let rounds = std::env::var("ESKER_REPLICA_TRANSACTIONS");
    let rounds: u64 = rounds.ok().and_then(|n| n.parse().ok()).unwrap_or(2_000) / 1_000;
    let source = source(4);
    let mut c = source.client(1);
    let before = source.events().len();
    for nth in 0..1_000 {
        c.ok(&format!(
            "UPDATE a.t SET v = v + 1 WHERE id = {}",
            nth % 4 + 1
        ));
    }
    let events = source.events();
    let (head, round) = events.split_at(before);
    // Anonymous, so that the same may come again.
    let anonymous = |event: &Incoming| {
        let mut event = event.clone();
        if is(&event, EventType::Gtid) {
            event.header.kind = EventType::AnonymousGtid as u8;
            event.body[1..17].fill(0);
        }
        event
    };
    let round: Vec<Incoming> = round.iter().map(anonymous).collect();
    for mode in MODES {
        let replica = Server::replica(&[
            ("esker_replica_parallel_mode", mode),
            ("replica_parallel_workers", "3"),
        ]);
        assert_eq!(replica.apply(head).failure, None);
        let state = load(&replica.instance, "").expect("state");
        let last = state.end.relay.offset + rounds * round.len() as u64;
        let again = Again {
            round: round.clone(),
            first: state.end.relay.offset + 1,
            next: state.end.relay.offset + 1,
            last,
        };
        let names_them = Settings {
            anonymous: Anonymous::Local,
            ..settings()
        };
        let applier = Applier::start(&replica.instance, "", state, Box::new(again), names_them);
        let applier = applier.expect("a thread");
        let most = Cell::new(0);
        let status = await_status(&applier, |status| {
            most.set(most.get().max(applier.kept()));
            std::thread::sleep(Duration::from_millis(1));
            status.read.relay.offset >= last && status.in_flight == 0
        });
        assert_eq!(status.failure, None, "{mode}");
        assert!(status.transactions >= rounds * 1_000, "{mode}: {status:?}");
        // 3 workers with 64 transactions each, their names, and what is not told of yet.
        assert!(most.get() < 1_500, "{mode}: {} things are kept", most.get());
        let turns = replica.instance.turns.taken();
        assert_eq!(turns, 0, "{mode}: idle workers keep processors from others");
        applier.stop();
    }
}
