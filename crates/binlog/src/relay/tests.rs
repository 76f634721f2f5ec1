//! Relay logs: torn ends, rotation, purging, readers that follow.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use esker_vfs::sim::{Fault, Op, SimEnv};
use esker_vfs::{Env, Fs, OpenMode};

use super::{Reader, RelayConfig, RelayLog};
use crate::apply::{EventSource, RelayPlace};
use crate::event::control::Rotate;
use crate::event::format::FormatDescription;
use crate::event::{Checksum, Event, EventType, FLAG_ARTIFICIAL, Stamp, frame};
use crate::files::Names;

const BIG: u64 = 1 << 30;
const NO_WAIT: Duration = Duration::ZERO;

fn config(dir: &Path) -> RelayConfig {
    RelayConfig {
        names: Names::new(dir.to_owned(), "relay-bin"),
        server_version: "9.7.0-esker".to_owned(),
        server_id: 2,
    }
}

/// When all events come.
const NOW: u64 = 77;

fn open(dir: &Path) -> RelayLog {
    RelayLog::open(Env::os().fs, config(dir)).expect("relay log")
}

fn stamp(flags: u16) -> Stamp {
    Stamp {
        timestamp: 1,
        server_id: 1,
        flags,
    }
}

/// A source of one file.
struct Source {
    position: u64,
}

impl Source {
    /// Begins a stream, as sources do.
    fn begin(log: &RelayLog, max: u64) -> Self {
        let mut body = Vec::new();
        let (position, file) = (4, b"binlog.000007".as_slice());
        Rotate { position, file }.write(&mut body);
        let mut source = Self { position };
        source.send(log, EventType::Rotate, FLAG_ARTIFICIAL, &body, max);
        let mut bytes = Vec::new();
        FormatDescription {
            server_version: "8.4.0".to_owned(),
            created: 0,
            checksum: Checksum::Crc32,
        }
        .write(stamp(0), source.position, &mut bytes);
        let event = Event::parse(&bytes, Checksum::Crc32).expect("format");
        log.append(&event.header, event.body, max, NOW)
            .expect("append");
        source.position = event.header.end.into();
        source
    }

    fn send(&mut self, log: &RelayLog, kind: EventType, flags: u16, body: &[u8], max: u64) {
        let mut bytes = Vec::new();
        frame(
            kind,
            stamp(flags),
            self.position,
            body,
            Checksum::None,
            &mut bytes,
        );
        let event = Event::parse(&bytes, Checksum::None).expect("event");
        if flags & FLAG_ARTIFICIAL == 0 {
            self.position = event.header.end.into();
        }
        log.append(&event.header, event.body, max, NOW)
            .expect("append");
    }

    fn statement(&mut self, log: &RelayLog, text: &str, max: u64) {
        let mut body = Vec::new();
        crate::event::query::Query {
            thread_id: 1,
            seconds: 0,
            error: 0,
            schema: b"d",
            settings: b"",
            text: text.as_bytes(),
        }
        .write(&mut body);
        self.send(log, EventType::Query, 0, &body, max);
    }
}

/// The types of the events that are there.
fn kinds(reader: &mut Reader) -> Vec<EventType> {
    let mut kinds = Vec::new();
    while let Some(event) = reader.next(NO_WAIT).expect("event") {
        kinds.extend(event.header.event_type());
    }
    kinds
}

fn reader(log: &RelayLog, from: RelayPlace) -> Reader {
    log.reader(from).expect("reader").expect("it is there")
}

#[test]
fn events_come_as_the_source_sent_them() {
    use EventType::{FormatDescription as Format, Query, Rotate, Xid};
    let dir = tempfile::tempdir().expect("folder");
    let log = open(dir.path());
    let mut follower = reader(&log, RelayPlace::default());
    let mut source = Source::begin(&log, BIG);
    source.statement(&log, "BEGIN", BIG);
    assert_eq!(
        kinds(&mut follower),
        [],
        "nothing is told of before it is written"
    );
    log.publish(0).expect("publish");
    assert_eq!(kinds(&mut follower), [Rotate, Format, Query]);
    assert!(
        log.received().end.source_pos < source.position,
        "it is not whole"
    );
    source.send(&log, Xid, 0, &[0; 8], BIG);
    log.publish(1).expect("publish");
    let last = follower.next(NO_WAIT).expect("read").expect("event");
    assert_eq!(u64::from(last.header.end), source.position);
    assert_eq!(last.relay, log.end());
    let end = log.received().end;
    assert_eq!(
        (&*end.source_file, end.source_pos),
        ("binlog.000007", source.position)
    );
    // Who begins later learns the source's version first.
    let mut late = reader(&log, end.relay);
    assert_eq!(kinds(&mut late), [Format]);
    let beyond = RelayPlace {
        offset: end.relay.offset + 1,
        ..end.relay
    };
    assert!(log.reader(beyond).expect("reader").is_none());
}

#[test]
fn a_torn_end_is_cut_behind_the_last_whole_transaction() {
    let dir = tempfile::tempdir().expect("folder");
    let log = open(dir.path());
    let mut source = Source::begin(&log, BIG);
    source.statement(&log, "CREATE TABLE t (a INT)", BIG);
    log.publish(0).expect("publish");
    let whole = log.received();
    source.statement(&log, "BEGIN", BIG);
    source.statement(&log, "INSERT INTO t VALUES (1)", BIG);
    log.publish(0).expect("publish");
    let size = log.end().offset;
    let path = log.names().path(log.files()[0].0);
    drop(log);
    // Every length that a crash can leave.
    let fs: Arc<dyn Fs> = Env::os().fs;
    for length in (whole.end.relay.offset..=size).rev() {
        let file = fs.open(&path, OpenMode::ReadWrite).expect("file");
        file.set_len(length).expect("cut");
        drop(file);
        let again = open(dir.path());
        assert_eq!(again.received(), whole, "cut to {length}");
        assert_eq!(again.end(), whole.end.relay);
    }
    let again = open(dir.path());
    let mut more = Source {
        position: whole.end.source_pos,
    };
    more.statement(&again, "DROP TABLE t", BIG);
    again.publish(0).expect("publish");
    assert_eq!(kinds(&mut reader(&again, whole.end.relay)).len(), 2);
}

#[test]
fn files_rotate_between_transactions_and_are_purged() {
    let dir = tempfile::tempdir().expect("folder");
    let log = open(dir.path());
    let mut follower = reader(&log, RelayPlace::default());
    let mut source = Source::begin(&log, 1);
    for _ in 0..3 {
        source.statement(&log, "BEGIN", 1);
        source.statement(&log, "INSERT INTO t VALUES (1)", 1);
        source.send(&log, EventType::Xid, 0, &[0; 8], 1);
    }
    log.publish(0).expect("publish");
    let files = log.files().len();
    assert!(files >= 3, "{files} files");
    let seen = kinds(&mut follower);
    let count = |kind| seen.iter().filter(|seen| **seen == kind).count();
    assert_eq!((count(EventType::Xid), count(EventType::Query)), (3, 6));
    let end = log.received().end;
    log.purge_applied(end.relay).expect("purge");
    assert_eq!(log.files().len(), 1);
    drop(log);
    let again = open(dir.path());
    assert_eq!(again.received().end, end);
    let place = again.restart("binlog.000009", 120).expect("restart");
    assert_eq!(
        (&*place.source_file, place.source_pos),
        ("binlog.000009", 120)
    );
    assert_eq!(kinds(&mut reader(&again, place.relay)), []);
    assert_eq!(again.received().gtids, crate::GtidSet::default());
}

/// The first source of a log is told before anything has come.
#[test]
fn a_log_that_has_had_nothing_begins_in_its_first_file() {
    let dir = tempfile::tempdir().expect("folder");
    let log = open(dir.path());
    for position in [4, 120] {
        let place = log.restart("binlog.000009", position).expect("restart");
        assert_eq!(place.source_pos, position);
    }
    // With a source there may be readers.
    let numbers: Vec<_> = log.files().iter().map(|(number, _)| number.0).collect();
    assert_eq!(numbers, [2]);
    let fresh = tempfile::tempdir().expect("folder");
    let log = open(fresh.path());
    let place = log.restart("binlog.000009", 4).expect("restart");
    assert_eq!((place.relay.file, log.files().len()), (1, 1));
    drop(log);
    assert_eq!(open(fresh.path()).received().end, place);
}

/// Whoever asks sees the last transaction, and the one of which not everything has come; nothing of what was there
/// before.
#[test]
fn the_last_transaction_and_the_one_that_comes_are_known() {
    let dir = tempfile::tempdir().expect("folder");
    let log = open(dir.path());
    let mut source = Source::begin(&log, u64::MAX);
    assert_eq!(log.queue(), (None, None));
    source.statement(&log, "BEGIN", u64::MAX);
    let (last, comes) = log.queue();
    let comes = comes.expect("has begun");
    assert_eq!(
        (last, comes.begun_micros, comes.ended_micros),
        (None, NOW, 0)
    );
    source.send(&log, EventType::Xid, 0, &[0; 8], u64::MAX);
    let (last, comes) = log.queue();
    let last = last.expect("has come");
    assert_eq!(
        (last.begun_micros, last.ended_micros, comes),
        (NOW, NOW, None)
    );
    log.publish(0).expect("publish");
    drop(log);
    assert_eq!(open(dir.path()).queue(), (None, None));
}

#[test]
fn who_looks_at_what_has_come_does_not_wait_for_the_disk() {
    let machine = SimEnv::new(1);
    let log = RelayLog::open(machine.env().fs, config(Path::new("/relay"))).expect("relay log");
    let mut source = Source::begin(&log, BIG);
    source.statement(&log, "BEGIN", BIG);
    source.send(&log, EventType::Xid, 0, &[0; 8], BIG);
    machine.fs.hold_syncs();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| log.publish(1));
        machine.fs.await_held_sync();
        let (told, answer) = std::sync::mpsc::channel();
        let log = &log;
        scope.spawn(move || {
            let (last, _) = log.queue();
            let sent = told.send((last.is_some(), log.source().1, log.tally()));
            sent.is_ok()
        });
        let seen = answer.recv_timeout(Duration::from_secs(60));
        machine.fs.release_syncs();
        let (has_come, position, _) = seen.expect("an answer while the sync waits");
        assert_eq!((has_come, position), (true, source.position));
        receiver.join().expect("a receiver").expect("publish");
    });
}

/// What stands in a file that FLUSH has begun, in the first attempt or after one on a full disk.
fn kinds_behind_flush(is_full: bool) -> Vec<EventType> {
    let machine = SimEnv::new(2);
    let log = RelayLog::open(machine.env().fs, config(Path::new("/relay"))).expect("relay log");
    let mut source = Source::begin(&log, BIG);
    source.statement(&log, "BEGIN", BIG);
    source.send(&log, EventType::Xid, 0, &[0; 8], BIG);
    log.publish(0).expect("publish");
    if is_full {
        let full = Fault::on(Op::Write).path("relay-bin.0").no_space();
        machine.fs.inject(full.forever());
        let error = log.flush().expect_err("there is no space");
        assert!(error.is_full_disk(), "{error}");
        machine.fs.clear_faults();
    }
    log.flush().expect("there is space");
    source.statement(&log, "BEGIN", BIG);
    source.send(&log, EventType::Xid, 0, &[0; 8], BIG);
    log.publish(0).expect("publish");
    let last = log.files().last().expect("files").0;
    let place = RelayPlace {
        file: last.0.into(),
        offset: 0,
    };
    kinds(&mut reader(&log, place))
}

#[test]
fn a_full_disk_leaves_the_next_file_the_sources_format() {
    let kinds = kinds_behind_flush(false);
    assert!(kinds.contains(&EventType::FormatDescription), "{kinds:?}");
    assert_eq!(kinds_behind_flush(true), kinds);
}
