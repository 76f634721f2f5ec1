//! GTIDs of MariaDB: which of them a channel passes over, and that none is forgotten.
//!
//! Neighbours: `tests` has servers and events; `replica::slave_pos` reads what is set. **Checked**: the events are a
//! server's own, which have MariaDB's GTIDs in place of its own.

use esker_binlog::apply::{Incoming, Place, RelayPlace};
use esker_binlog::event::EventType;
use esker_binlog::event::query::Query;

use super::tests::{Server, await_status, settings};
use super::{Overtaken, forget, load, place, set_slave_pos, slave_pos};

const CHANNEL: &str = "";
/// The event that begins a transaction of MariaDB.
const GTID: u8 = 162;
/// It is one statement.
const STANDALONE: u8 = 1;

fn as_of_mariadb(mut events: Vec<Incoming>) -> Vec<Incoming> {
    let mut sequence = 0u64;
    for nth in 0..events.len() {
        if events[nth].header.event_type() != Some(EventType::Gtid) {
            continue;
        }
        sequence += 1;
        let next = Query::parse(&events[nth + 1].body).expect("a statement");
        let mut body = sequence.to_le_bytes().to_vec();
        body.extend(0u32.to_le_bytes());
        body.push(if next.text == b"BEGIN" { 0 } else { STANDALONE });
        body.extend([0; 6]);
        events[nth].header.kind = GTID;
        events[nth].body = body;
    }
    events
}

/// A server that has a table, and the events of so many inserts into it with the numbers from 1 on.
fn with_inserts(count: u32) -> (Server, Vec<Incoming>) {
    let source = Server::source();
    for n in 0..count {
        if n == 0 {
            source.client(1).ok("CREATE DATABASE a");
            source.client(1).ok("CREATE TABLE a.t (v INT)");
            source.client(1).ok("RESET BINARY LOGS AND GTIDS");
        }
        source
            .client(1)
            .ok(&format!("INSERT INTO a.t VALUES ({n})"));
    }
    let replica = Server::replica(&[]);
    replica.client(1).ok("CREATE DATABASE a");
    replica.client(1).ok("CREATE TABLE a.t (v INT)");
    (replica, as_of_mariadb(source.events()))
}

/// The events without those of the last transaction.
fn but_the_last(events: &[Incoming]) -> &[Incoming] {
    let last = events.iter().rposition(|event| event.header.kind == GTID);
    &events[..last.expect("a transaction")]
}

fn rows(server: &Server) -> Vec<String> {
    server.client(3).ok("SELECT COUNT(*) FROM a.t")
}

fn position(server: &Server) -> String {
    slave_pos(&server.instance).expect("a position").to_string()
}

/// The channel goes on at the first event.
fn from_the_beginning(server: &Server) {
    place(&server.instance, CHANNEL, Place::default()).expect("placed");
}

#[test]
fn numbers_that_begin_anew_are_applied() {
    let (replica, events) = with_inserts(3);
    assert_eq!(replica.apply(&events).failure, None);
    assert_eq!(
        (rows(&replica), &*position(&replica)),
        (vec!["3|".to_owned()], "0-1-3")
    );
    // The source's next file has its first number again.
    let last = events.last().expect("events").relay.offset;
    let mut anew = but_the_last(&events).to_vec();
    anew.iter_mut().for_each(|event| event.relay.offset += last);
    assert_eq!(replica.apply(&anew).failure, None);
    assert_eq!(
        (rows(&replica), &*position(&replica)),
        (vec!["5|".to_owned()], "0-1-2")
    );
}

#[test]
fn the_position_outlives_what_channels_forget() {
    let (mut replica, events) = with_inserts(3);
    assert_eq!(replica.apply(&events).failure, None);
    from_the_beginning(&replica);
    assert_eq!(position(&replica), "0-1-3");
    assert!(
        load(&replica.instance, CHANNEL)
            .expect("state")
            .maria
            .is_empty()
    );
    forget(&replica.instance, CHANNEL).expect("forgotten");
    assert_eq!(position(&replica), "0-1-3");
    let machine = replica.machine.crash(7);
    replica = Server::open(machine, 2, &[]);
    assert_eq!(position(&replica), "0-1-3");
    assert!(
        super::channels(&replica.instance)
            .expect("names")
            .is_empty()
    );
    // What another channel applies counts.
    assert_eq!(replica.apply(but_the_last(&events)).failure, None);
    assert_eq!(position(&replica), "0-1-2");
    set_slave_pos(&replica.instance, "0-1-9,4-4-4".parse().expect("GTIDs")).expect("set");
    assert_eq!(position(&replica), "0-1-9,4-4-4");
    set_slave_pos(&replica.instance, "".parse().expect("GTIDs")).expect("set");
    assert_eq!(position(&replica), "");
}

#[test]
fn what_another_channel_has_applied_meanwhile_is_passed_over() {
    let (replica, events) = with_inserts(3);
    let overtaken = |until: usize| Overtaken {
        gtids: "0-1-2".parse().expect("GTIDs"),
        until: events[until].relay,
    };
    let last = events.len() - 1;
    let apply = |overtaken: Overtaken| {
        from_the_beginning(&replica);
        let applier = replica.start_with(
            &events,
            super::Settings {
                overtaken,
                ..settings()
            },
        );
        let is_read = |s: &super::Status| s.read.relay >= events[last].relay && s.in_flight == 0;
        assert_eq!(await_status(&applier, is_read).failure, None);
        applier.stop();
    };
    apply(overtaken(last));
    assert_eq!(replica.client(3).ok("SELECT v FROM a.t"), ["2|"]);
    assert_eq!(position(&replica), "0-1-3");
    // What comes later is not, whatever its number is.
    apply(Overtaken {
        until: RelayPlace::default(),
        ..overtaken(0)
    });
    assert_eq!(rows(&replica), ["4|"]);
}
