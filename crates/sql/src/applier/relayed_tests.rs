//! A replica and its relay log on one simulated disk, which loses power: the relay log is torn, and what is in it is
//! applied once all the same.
//!
//! Neighbours: `tests` has servers and histories; `binlog::relay` is driven as a receiver does it. **Checked** after
//! each crash: the channel goes on, from the relay log or from the source where that has lost what comes next; in the
//! end the tables and GTIDs are the source's.

use esker_binlog::event::control::Rotate;
use esker_binlog::event::{Checksum, EventType, FLAG_ARTIFICIAL, Header, Stamp, event_bytes};
use esker_binlog::files::{FIRST_EVENT, Names, Scan};
use esker_binlog::relay::{RelayConfig, RelayLog};
use esker_vfs::sim::SimRng;

use super::tests::{Server, await_status, random_history, seeds, settings};
use super::{Applier, keep_state, load};

const CHANNEL: &str = "";
/// A file of the relay log is followed by another one from this size on.
const MAX_FILE: u64 = 6000;

/// An event in a file of the source.
struct Sent {
    file: String,
    start: u64,
    header: Header,
    body: Vec<u8>,
}

fn sent_by(source: &Server) -> Vec<Sent> {
    let fs = source.machine.env().fs;
    source.client(99).ok("FLUSH BINARY LOGS");
    let files = source.client(99).ok("SHOW BINARY LOGS");
    let mut all = Vec::new();
    for row in &files[..files.len() - 1] {
        let file = row.split('|').next().expect("a name").to_owned();
        let path = std::path::Path::new("/db/binlog").join(&file);
        let mut scan = Scan::open(&*fs, &path, None).expect("a file");
        while let Some((start, event)) = scan.next_event().expect("an event") {
            all.push(Sent {
                file: file.clone(),
                start,
                header: event.header,
                body: event.body.to_vec(),
            });
        }
    }
    all
}

/// A receiver: what of the events has not come, from where the relay log ends, and its channel.
struct Receiver<'a> {
    relay: RelayLog,
    rest: Vec<(Header, &'a [u8])>,
    sent: usize,
}

impl<'a> Receiver<'a> {
    /// Opens the relay log as a start does, and the stream as a source does.
    fn begin(replica: &Server, events: &'a [Sent]) -> (Self, Applier) {
        let config = RelayConfig {
            names: Names::new("/db/relay".into(), "relay-bin"),
            server_version: "9.7.0-esker".to_owned(),
            server_id: 2,
        };
        let relay = RelayLog::open(replica.machine.env().fs, config).expect("a relay log");
        let mut state = load(&replica.instance, CHANNEL).expect("state");
        let reader = relay.reader(state.end.relay).expect("readable");
        let reader = reader.unwrap_or_else(|| {
            let end = &state.end;
            let anew = relay.restart(&end.source_file, end.source_pos);
            state.end = anew.expect("it begins anew");
            keep_state(&replica.instance, CHANNEL, &state).expect("kept");
            let reader = relay.reader(state.end.relay).expect("readable");
            reader.expect("it was just begun")
        });
        let source = Box::new(reader);
        let applier = Applier::start(&replica.instance, CHANNEL, state, source, settings());
        let end = relay.received().end;
        let (file, position) = match &*end.source_file {
            "" => (&*events[0].file, FIRST_EVENT),
            file => (file, end.source_pos.max(FIRST_EVENT)),
        };
        let receiver = Self {
            rest: stream(events, file, position),
            relay,
            sent: 0,
        };
        receiver.place(file, position);
        (receiver, applier.expect("threads"))
    }

    /// What a stream begins with.
    fn place(&self, file: &str, position: u64) {
        let mut body = Vec::new();
        let file = file.as_bytes();
        Rotate { position, file }.write(&mut body);
        let header = Header {
            stamp: Stamp {
                timestamp: 0,
                server_id: 1,
                flags: FLAG_ARTIFICIAL,
            },
            kind: EventType::Rotate as u8,
            length: event_bytes(body.len(), Checksum::None) as u32,
            end: 0,
        };
        self.append(&header, &body);
    }

    fn append(&self, header: &Header, body: &[u8]) {
        let appended = self.relay.append(header, body, MAX_FILE, 77);
        appended.expect("room");
    }

    /// Takes so many more events, if there are any.
    fn take(&mut self, count: usize, sync_every: u64) {
        let end = self.rest.len().min(self.sent + count);
        for (header, body) in &self.rest[self.sent..end] {
            self.append(header, body);
        }
        self.sent = end;
        self.relay.publish(sync_every).expect("room");
    }

    fn has_all(&self) -> bool {
        self.sent == self.rest.len()
    }
}

/// The events that a source sends from a place on: the file's format first.
fn stream<'a>(events: &'a [Sent], file: &str, position: u64) -> Vec<(Header, &'a [u8])> {
    let first = events.iter().position(|event| event.file == file);
    let Some(first) = first else {
        // The one behind the last: nothing is in it.
        return Vec::new();
    };
    let mut format = events[first].header;
    if position > FIRST_EVENT {
        format.end = 0;
        format.stamp.flags |= FLAG_ARTIFICIAL;
    }
    let is_ahead = |event: &&Sent| event.file != file || event.start >= position;
    let rest = events[first + 1..].iter().filter(is_ahead);
    std::iter::once((format, &*events[first].body))
        .chain(rest.map(|event| (event.header, &*event.body)))
        .collect()
}

#[test]
fn a_crash_that_tears_the_relay_log_leaves_every_transaction_applied_once() {
    for seed in seeds(5..7) {
        crashes(seed);
    }
}

fn crashes(seed: u64) {
    let source = Server::source();
    random_history(&source, seed, 60);
    let (events, expected) = (sent_by(&source), source.dump());
    let mut rng = SimRng::new(seed + 11);
    for log_bin in ["OFF", "ON"] {
        let context = format!("seed {seed}, log_bin {log_bin}");
        let options = [("replica_parallel_workers", "4"), ("log_bin", log_bin)];
        let mut replica = Server::replica(&options);
        for _ in 0..5 {
            let (mut receiver, applier) = Receiver::begin(&replica, &events);
            for _ in 0..rng.below(12) {
                receiver.take(1 + rng.below(40) as usize, rng.below(30));
                let wanted = rng.below(6);
                let before = applier.status().transactions;
                // Some of it is applied, or all that can be.
                await_status(&applier, |status| {
                    let is_all = status.read.relay >= receiver.relay.received().end.relay
                        && status.in_flight == 0;
                    status.transactions >= before + wanted || is_all
                });
            }
            let machine = replica.machine.crash(rng.next_u64());
            applier.stop();
            assert_eq!(applier.status().failure, None, "{context}");
            drop(applier);
            replica = Server::open(machine, 2, &options);
        }
        let (mut receiver, applier) = Receiver::begin(&replica, &events);
        while !receiver.has_all() {
            receiver.take(50, 0);
        }
        let last = receiver.relay.received().end.relay;
        await_status(&applier, |status| {
            status.read.relay >= last && status.in_flight == 0
        });
        applier.stop();
        assert_eq!(applier.status().failure, None, "{context}");
        assert_eq!(replica.dump(), expected, "{context}");
        let executed = |server: &Server| server.client(9).ok("SELECT @@GLOBAL.gtid_executed");
        assert_eq!(executed(&replica), executed(&source), "{context}");
    }
}
