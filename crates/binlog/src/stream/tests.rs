//! Streams over the files of a simulated disk: where they begin, where they wait, and what MariaDB gets.

use std::sync::Arc;

use esker_vfs::sim::{SimEnv, SimFs};

use super::{From, Leaves, Log, PacketSink, Progress, Refused, Request, Stream};
use crate::attachment::{Head, Numbering, What, head_bytes, push_event};
use crate::derive::Writer;
use crate::event::query::{Query, Settings};
use crate::event::{Checksum, Event, EventType, Header};
use crate::files::{Config, FileNumber, FileSet, Names};
use crate::gtid::{Sid, Source};

#[derive(Default)]
struct Packets(Vec<Vec<u8>>);

impl PacketSink for Packets {
    fn begin(&mut self, bytes: usize) {
        self.0.push(Vec::with_capacity(bytes));
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.last_mut().expect("begun").extend_from_slice(bytes);
    }

    fn asked(&mut self) {}

    fn gathered(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

struct Rig {
    fs: SimFs,
    set: FileSet,
    log: Log,
    next: u64,
}

impl Rig {
    fn new() -> Self {
        let fs = SimEnv::new(1).fs;
        let names = Names::new("/data/binlog".into(), "binlog");
        let sid = Sid([7; 16]);
        let config = Config {
            names: names.clone(),
            writer: Writer {
                source: Source::untagged(sid),
                server_id: 5,
                server_version: 80_400,
                gtid_mode: true,
            },
            version: "8.4.0".into(),
            max_size: 1 << 20,
            checksum: Checksum::Crc32,
            commits: crate::files::Commits::OneSync,
        };
        let set = FileSet::open(Arc::new(fs.clone()), config, 8, 100).expect("opens");
        let log = Log {
            fs: Arc::new(fs.clone()),
            names,
            published: set.published(),
            server_id: 5,
            sid,
            leaves: Arc::new(|| Leaves::All),
        };
        Self {
            fs,
            set,
            log,
            next: 1,
        }
    }

    /// A transaction with rows of this many bytes.
    fn transaction(&mut self, bytes: usize, compressed: bool) {
        let mut events = Vec::new();
        let kind = EventType::RowsQuery;
        push_event(kind, 0, 100, &vec![b'x'; bytes], &mut events);
        self.append(What::Transaction, &events, compressed);
    }

    /// A statement of a session with a collation that MariaDB does not know.
    fn statement(&mut self) {
        let mut settings = Vec::new();
        let known = Settings {
            flags2: Some(0),
            charset: Some((33, 255, 45)),
            charset_database: Some(309),
            ..Settings::default()
        };
        known.write(&mut settings);
        let query = Query {
            thread_id: 1,
            seconds: 0,
            error: 0,
            schema: b"d",
            settings: &settings,
            text: b"CREATE TABLE t (a INT)",
        };
        let (mut body, mut events) = (Vec::new(), Vec::new());
        query.write(&mut body);
        push_event(EventType::Query, 0, 100, &body, &mut events);
        self.append(What::Statement, &events, false);
    }

    fn append(&mut self, what: What, events: &[u8], compressed: bool) {
        let head = Head {
            what,
            commit_micros: 100_000_000,
            begin_time: 100,
            thread_id: 5,
            numbering: Numbering::default(),
            origin: None,
            xid: None,
            schema: b"d",
            settings: b"",
            has_statements: what == What::Statement,
            compressed: compressed.then_some(3),
            spooled: None,
            write_set: None,
        };
        let lsn = 8 + self.next * 100;
        self.next += 1;
        let attachment = [&head_bytes(&head), events].concat();
        self.set.append(lsn, &attachment).expect("appends");
        self.set.write().expect("writes");
    }

    fn stream(&self, from: From, is_mariadb: bool) -> Result<Stream, Refused> {
        let request = Request {
            from,
            checksum: Some(Checksum::Crc32),
            heartbeat: None,
            acknowledges: false,
            is_mariadb,
            heartbeat_v2: false,
        };
        Stream::open(self.log.clone(), request)
    }
}

fn beginning() -> From {
    From::Position {
        file: String::new(),
        position: 4,
    }
}

/// All events that there are, without the byte before them.
fn drain(stream: &mut Stream, enough: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut packets = Packets::default();
        let progress = stream.fill(&mut packets, enough).expect("goes on");
        all.extend(packets.0);
        if let Progress::CaughtUp(_) = progress {
            return all.iter().map(|packet| packet[1..].to_vec()).collect();
        }
    }
}

fn numbers(events: &[Vec<u8>]) -> Vec<u8> {
    let number = |event: &Vec<u8>| Header::parse(event).expect("header").kind;
    events.iter().map(number).collect()
}

#[test]
fn nothing_leaves_before_it_is_synced() {
    let mut rig = Rig::new();
    rig.transaction(10, false);
    let mut stream = rig.stream(beginning(), false).expect("opens");
    assert_eq!(numbers(&drain(&mut stream, 1 << 20)), [4, 15, 35]);
    rig.set.sync().expect("syncs");
    assert_eq!(numbers(&drain(&mut stream, 1 << 20)), [33, 2, 29, 16]);
    assert!(drain(&mut stream, 1 << 20).is_empty());
}

#[test]
fn a_long_event_passes_in_pieces_and_arrives_whole() {
    let mut rig = Rig::new();
    // It ends its file, too.
    rig.transaction(3 << 20, false);
    rig.transaction(10, false);
    rig.set.sync().expect("syncs");
    let mut stream = rig.stream(beginning(), false).expect("opens");
    let mut packets = Packets::default();
    assert_eq!(
        stream.fill(&mut packets, 1000).expect("goes on"),
        Progress::More
    );
    assert!(packets.gathered() < 600 << 10, "{}", packets.gathered());
    let mut stream = rig.stream(beginning(), false).expect("opens");
    let events = drain(&mut stream, 64 << 20);
    let expected = [4, 15, 35, 33, 2, 29, 16, 4, 4, 15, 35, 33, 2, 29, 16];
    assert_eq!(numbers(&events), expected);
    for event in &events {
        Event::parse(event, Checksum::Crc32).expect("whole");
    }
}

#[test]
fn a_file_that_is_read_stays_and_a_reset_ends_the_stream() {
    let mut rig = Rig::new();
    rig.transaction(10, false);
    rig.set.rotate(200).expect("rotates");
    let mut stream = rig.stream(beginning(), false).expect("opens");
    rig.set.purge_to(FileNumber(2)).expect("purges");
    assert_eq!(rig.log.published.view().files.len(), 2);
    drain(&mut stream, 1 << 20);
    rig.set.purge_to(FileNumber(2)).expect("purges");
    assert_eq!(rig.log.published.view().files.len(), 1);
    rig.set.reset(300, FileNumber::FIRST).expect("begins again");
    let e = stream.fill(&mut Packets::default(), 1).expect_err("ended");
    assert!(e.0.starts_with("could not find next log"), "{e}");
    drop(stream);
    assert!(!rig.log.published.has_streams());
    drop(rig.fs);
}

#[test]
fn a_replica_of_mariadb_by_position_gets_collations_that_it_knows() {
    let mut rig = Rig::new();
    rig.statement();
    rig.transaction(10, false);
    rig.set.sync().expect("syncs");
    let native = drain(&mut rig.stream(beginning(), false).expect("opens"), 1 << 20);
    let changed = drain(&mut rig.stream(beginning(), true).expect("opens"), 1 << 20);
    assert_eq!(numbers(&native), numbers(&changed));
    for (native, changed) in native.iter().zip(&changed) {
        let (a, b) = (Header::parse(native), Header::parse(changed));
        assert_eq!(a.expect("header"), b.expect("header"));
    }
    let event = Event::parse(&changed[4], Checksum::Crc32).expect("sound");
    let query = Query::parse(event.body).expect("statement");
    let settings = Settings::parse(query.settings).expect("settings");
    assert_eq!(settings.charset, Some((33, 45, 45)));
    assert_eq!(settings.charset_database, Some(45));
}

#[test]
fn a_tool_with_gtids_of_mysql_that_calls_itself_mariadb_gets_only_what_it_lacks() {
    let mut rig = Rig::new();
    rig.statement();
    rig.transaction(10, false);
    rig.transaction(10, false);
    rig.set.sync().expect("syncs");
    let known = "07070707-0707-0707-0707-070707070707:1-2";
    let from = From::Gtids {
        known: known.parse().expect("set"),
        file: String::new(),
        position: 4,
    };
    let events = drain(&mut rig.stream(from, true).expect("opens"), 1 << 20);
    assert_eq!(numbers(&events), [4, 15, 35, 27, 33, 2, 29, 16]);
}

#[test]
fn a_replica_of_mariadb_by_gtid_gets_its_own_events() {
    let mut rig = Rig::new();
    rig.transaction(10, false);
    rig.statement();
    rig.set.rotate(200).expect("rotates");
    rig.statement();
    rig.transaction(3000, true);
    rig.transaction(10, false);
    rig.set.sync().expect("syncs");
    let of = |known| {
        let mut stream = rig.stream(From::MariaDb(known), true).expect("opens");
        drain(&mut stream, 1 << 20)
    };
    let all = of(None);
    let expected = [
        4, 15, 163, 162, 29, 16, 162, 2, 4, 4, 15, 163, 162, 2, 162, 29, 16, 162, 29, 16,
    ];
    assert_eq!(numbers(&all), expected);
    let gtids = |events: &[Vec<u8>]| {
        let mut found = Vec::new();
        for event in events {
            let event = Event::parse(event, Checksum::Crc32).expect("sound");
            if event.header.kind == 162 {
                let number = u64::from_le_bytes(event.body[..8].try_into().expect("8"));
                assert_eq!(event.header.stamp.server_id, 5);
                found.push((number, event.body[12]));
            }
        }
        found
    };
    // Transactions, and statements that are DDL and stand alone.
    assert_eq!(gtids(&all), [(1, 4), (2, 33), (3, 33), (4, 4), (5, 4)]);
    // Behind the second one: the second file, of which everything is sent.
    let rest = of(Some(2));
    assert_eq!(numbers(&rest)[..4], [4, 15, 163, 162]);
    assert_eq!(gtids(&rest), [(3, 33), (4, 4), (5, 4)]);
    // Behind the fourth one: what is left out is told by a heartbeat.
    assert_eq!(numbers(&of(Some(4))), [4, 15, 163, 27, 162, 29, 16]);
    let refusal = |known| match rig.stream(From::MariaDb(Some(known)), true) {
        Err(e) => e.0,
        Ok(_) => panic!("a stream behind {known}"),
    };
    assert!(refusal(6).contains("GTID 0-5-6, which is not in the master's binlog"));
    rig.set.purge_to(FileNumber(2)).expect("purges");
    let refusal = match rig.stream(From::MariaDb(Some(1)), true) {
        Err(e) => e.0,
        Ok(_) => panic!("a stream over a gap"),
    };
    assert!(
        refusal.starts_with("Could not find GTID state"),
        "{refusal}"
    );
}
