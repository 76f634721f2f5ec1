//! Streams of the binary log as consumers on the wire see them: the bytes of the files, MySQL's errors, heartbeats,
//! and what the server shows and does about consumers.
//!
//! **Invariant**: the answers are those of MySQL 9.7 to the same packets.

mod replicas;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use esker_binlog::event::control::Rotate;
use esker_binlog::event::{Checksum, Event, EventType, Header};
use esker_binlog::gtid::GtidSet;

use crate::common::{Ask, PATIENCE, Server, eventually};

const ARGS: [&str; 4] = [
    "--log-bin=ON",
    "--gtid-mode=ON",
    "--server-id=5",
    "--max-binlog-size=65536",
];
const NON_BLOCK: u16 = 1;

/// A client that sends and takes packets.
struct Raw(TcpStream);

/// A packet of a stream.
#[derive(Debug, PartialEq)]
enum Packet {
    Event(Vec<u8>),
    Error(u16, String),
    End,
}

impl Packet {
    fn event(self) -> Vec<u8> {
        match self {
            Self::Event(bytes) => bytes,
            other => panic!("no event: {other:?}"),
        }
    }

    fn error(self) -> (u16, String) {
        match self {
            Self::Error(code, text) => (code, text),
            other => panic!("no error: {other:?}"),
        }
    }
}

impl Raw {
    /// Logs in as a user without password.
    fn connect(server: &Server, user: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let mut raw = Self(stream);
        raw.take();
        // Protocol 4.1, secure connection, plugins.
        let mut login = 0x8_8200_u32.to_le_bytes().to_vec();
        login.extend_from_slice(&(1_u32 << 24).to_le_bytes());
        login.push(45);
        login.extend_from_slice(&[0; 23]);
        login.extend_from_slice(user.as_bytes());
        login.extend_from_slice(b"\0\0caching_sha2_password\0");
        raw.send(1, &login);
        assert_eq!(raw.take()[0], 0, "logged in");
        raw
    }

    fn send(&mut self, seq: u8, payload: &[u8]) {
        let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
        packet[3] = seq;
        packet.extend_from_slice(payload);
        self.0.write_all(&packet).expect("send");
    }

    /// A payload, of one packet or several.
    fn take(&mut self) -> Vec<u8> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; 4];
            self.0.read_exact(&mut header).expect("header");
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            let start = payload.len();
            payload.resize(start + length, 0);
            self.0.read_exact(&mut payload[start..]).expect("payload");
            if length < 0xff_ffff {
                return payload;
            }
        }
    }

    fn run(&mut self, sql: &str) {
        self.send(0, &[b"\x03", sql.as_bytes()].concat());
        assert_eq!(self.take()[0], 0, "{sql}");
    }

    fn register(&mut self, server_id: u32) {
        let mut packet = vec![0x15];
        packet.extend_from_slice(&server_id.to_le_bytes());
        packet.extend_from_slice(b"\x04host\0\0\xea\x0c\0\0\0\0\0\0\0\0");
        self.send(0, &packet);
    }

    fn dump(&mut self, file: &str, position: u32, flags: u16, server_id: u32) {
        let mut packet = vec![0x12];
        packet.extend_from_slice(&position.to_le_bytes());
        packet.extend_from_slice(&flags.to_le_bytes());
        packet.extend_from_slice(&server_id.to_le_bytes());
        packet.extend_from_slice(file.as_bytes());
        self.send(0, &packet);
    }

    fn dump_gtid(&mut self, known: &GtidSet) {
        self.dump_gtid_from("", 4, known);
    }

    fn dump_gtid_from(&mut self, file: &str, position: u64, known: &GtidSet) {
        let mut set = Vec::new();
        known.encode(&mut set);
        let mut packet = vec![0x1e];
        packet.extend_from_slice(&NON_BLOCK.to_le_bytes());
        packet.extend_from_slice(&9_u32.to_le_bytes());
        packet.extend_from_slice(&(file.len() as u32).to_le_bytes());
        packet.extend_from_slice(file.as_bytes());
        packet.extend_from_slice(&position.to_le_bytes());
        packet.extend_from_slice(&(set.len() as u32).to_le_bytes());
        packet.extend_from_slice(&set);
        self.send(0, &packet);
    }

    fn packet(&mut self) -> Packet {
        let payload = self.take();
        match payload[0] {
            0 => Packet::Event(payload[1..].to_vec()),
            0xfe if payload.len() < 9 => Packet::End,
            0xff => {
                let code = u16::from_le_bytes([payload[1], payload[2]]);
                Packet::Error(code, String::from_utf8_lossy(&payload[9..]).into_owned())
            }
            other => panic!("a packet that begins with {other}"),
        }
    }

    /// The server has ended the connection, and says nothing more.
    fn is_closed(&mut self) {
        let left = self.0.read(&mut [0]).expect("no timeout");
        assert_eq!(left, 0, "the end of the connection");
    }

    /// All events up to the end.
    fn all(&mut self) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        loop {
            match self.packet() {
                Packet::Event(bytes) => events.push(bytes),
                Packet::End => return events,
                error => panic!("{error:?} after {} events", events.len()),
            }
        }
    }
}

fn consumer(server: &Server) -> Raw {
    let mut raw = Raw::connect(server, "root");
    raw.run("SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32'");
    raw
}

fn kind(event: &[u8]) -> Option<EventType> {
    Header::parse(event).expect("header").event_type()
}

fn is_artificial(event: &[u8]) -> bool {
    Header::parse(event).expect("header").stamp.flags & 0x20 != 0
}

/// The bytes of a file as they are sent: without the flag of a file that is being written.
fn file_bytes(dir: &Path, number: u32) -> Vec<u8> {
    let path = dir.join(format!("data/binlog/binlog.{number:06}"));
    let mut bytes = std::fs::read(path).expect("file");
    bytes[4 + 17] &= !1;
    bytes
}

fn fill(server: &Server) {
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)");
    c.run("INSERT INTO t VALUES (1, 'one'), (2, 'two'); UPDATE t SET v = 'x' WHERE id = 1");
    c.run("INSERT INTO t VALUES (3, REPEAT('long', 200000))");
    c.run("DELETE FROM t WHERE id < 3; FLUSH BINARY LOGS; INSERT INTO t VALUES (4, NULL)");
}

#[test]
fn a_stream_is_the_bytes_of_the_files() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    fill(&server);
    let files = server.connect().rows("SHOW BINARY LOGS").len();
    assert!(files >= 3, "{files} files");
    let mut raw = consumer(&server);
    raw.dump("", 4, NON_BLOCK, 9);
    let events = raw.all();
    let mut number = 0;
    let mut sent = Vec::new();
    for event in &events {
        if kind(event) == Some(EventType::Rotate) && is_artificial(event) {
            if number > 0 {
                assert!(sent == file_bytes(dir.path(), number), "file {number}");
            }
            number += 1;
            let parsed = Event::parse(event, Checksum::Crc32).expect("sound");
            let rotate = Rotate::parse(parsed.body).expect("rotate");
            assert_eq!(rotate.file, format!("binlog.{number:06}").as_bytes());
            assert_eq!((rotate.position, parsed.header.end), (4, 0));
            sent = b"\xfebin".to_vec();
        } else {
            sent.extend_from_slice(event);
        }
    }
    assert!(sent == file_bytes(dir.path(), number), "file {number}");
    assert_eq!(number as usize, files);
    // The connection ends with the stream, as in MySQL.
    raw.is_closed();

    // From the middle: the head does not move the consumer's position.
    let whole = file_bytes(dir.path(), 1);
    let mut raw = consumer(&server);
    raw.dump("binlog.000001", 158, NON_BLOCK, 9);
    let events = raw.all();
    let head = Event::parse(&events[1], Checksum::Crc32)
        .expect("sound")
        .header;
    assert_eq!(
        (head.event_type(), head.end),
        (Some(EventType::FormatDescription), 0)
    );
    let end = 158 + events[2].len();
    assert_eq!(events[2], whole[158..end]);

    // What a consumer of GTIDs has is left out, and it hears how far the source is.
    let mut c = server.connect();
    let executed: GtidSet = c
        .value("SELECT @@GLOBAL.gtid_executed")
        .parse()
        .expect("set");
    let mut raw = consumer(&server);
    raw.dump_gtid(&executed);
    let kinds: Vec<_> = raw.all().iter().map(|event| kind(event)).collect();
    let (rotate, format) = (EventType::Rotate, EventType::FormatDescription);
    let expected = [
        rotate,
        format,
        EventType::PreviousGtids,
        EventType::Heartbeat,
    ];
    assert_eq!(kinds, expected.map(Some));
    let mut raw = consumer(&server);
    raw.dump_gtid(&GtidSet::default());
    let groups = raw.all();
    let is_group = |event: &&Vec<u8>| kind(event) == Some(EventType::Gtid);
    assert_eq!(
        groups.iter().filter(is_group).count() as u64,
        executed.count()
    );
}

#[test]
fn a_consumer_of_gtids_may_say_where_to_begin() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    fill(&server);
    let mut c = server.connect();
    let files = c.rows("SHOW BINARY LOGS").len() as u32;
    let last = format!("binlog.{files:06}");
    let uuid = c.value("SELECT @@server_uuid");
    let gtids = |file: &str, position: u64, known: &str| {
        let mut raw = consumer(&server);
        raw.dump_gtid_from(file, position, &known.parse().expect("a set"));
        let events = raw.all();
        let groups = events.iter().filter(|e| kind(e) == Some(EventType::Gtid));
        (groups.count(), events.len())
    };
    // The last file has one transaction, of five events behind what every file begins with.
    assert_eq!(gtids(&last, 4, ""), (1, 3 + 5));
    assert_eq!(gtids(&format!("./{last}"), 4, ""), (1, 3 + 5));
    // What the consumer has is left out, and what stands before is not asked about.
    let (all, _) = gtids("binlog.000001", 4, "");
    assert_eq!(gtids("binlog.000001", 4, &format!("{uuid}:1-2")).0, all - 2);
    assert_eq!(gtids(&last, 4, &format!("{uuid}:1-2")).0, 1);
    // Behind the list of GTIDs of the first file, and behind that of the file that is looked for.
    assert_eq!(gtids("binlog.000001", 158, "").0, all);
    assert_eq!(gtids("", 158, "").0, all);

    let refusal = |file: &str, position: u64| {
        let mut raw = consumer(&server);
        raw.dump_gtid_from(file, position, &GtidSet::default());
        let (code, text) = raw.packet().error();
        raw.is_closed();
        assert_eq!(code, 1236);
        text
    };
    let early = "Client requested source to start replication from position < 4";
    assert_eq!(refusal(&last, 3), early);
    assert_eq!(refusal("", 0), early);
    assert_eq!(
        refusal(&last, 1 << 33),
        "Client requested source to start replication from position > file size"
    );
    assert_eq!(
        refusal("other.000001", 4),
        "Could not find first log file name in binary log index file"
    );
}

#[test]
fn a_stream_ends_as_in_mysql() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    // Whoever gives no id is no replica, and does not wait.
    let mut tool = consumer(&server);
    tool.dump("", 4, 0, 0);
    tool.all();
    tool.is_closed();

    let streams = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog%'";
    let mut streaming = || {
        let mut raw = consumer(&server);
        raw.dump("", 4, 0, 9);
        while kind(&raw.packet().event()) != Some(EventType::PreviousGtids) {}
        until(&server, streams, |lines| lines.len() == 1);
        let id = c.value(streams);
        (raw, id)
    };
    let (mut raw, id) = streaming();
    server.connect().run(&format!("KILL QUERY {id}"));
    assert_eq!(raw.packet(), Packet::End);
    raw.is_closed();
    until(&server, streams, |lines| lines.is_empty());
    let (mut raw, id) = streaming();
    server.connect().run(&format!("KILL {id}"));
    raw.is_closed();
    until(&server, streams, |lines| lines.is_empty());
    let (mut raw, _) = streaming();
    server.stop();
    raw.is_closed();
}

#[test]
fn what_a_consumer_announces_may_be_of_any_type() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    for period in [
        "20000000",
        "2e7",
        "20000000.4",
        "'20000000'",
        "'20000000.5'",
    ] {
        let mut raw = consumer(&server);
        raw.run(&format!("SET @source_heartbeat_period = {period}"));
        raw.dump("", 4, 0, 9);
        while kind(&raw.packet().event()) != Some(EventType::Heartbeat) {}
    }
    // Whatever it says of checksums, it knows them.
    for checksum in ["''", "'NONE'", "'other'", "0"] {
        let mut raw = Raw::connect(&server, "root");
        raw.run(&format!("SET @source_binlog_checksum = {checksum}"));
        raw.dump("", 4, NON_BLOCK, 9);
        assert!(raw.all().len() > 1, "{checksum}");
    }
    let mut raw = Raw::connect(&server, "root");
    raw.run("SET @source_binlog_checksum = NULL");
    raw.dump("", 4, NON_BLOCK, 9);
    raw.packet().event();
    assert_eq!(raw.packet().error().0, 1236);
}

#[test]
fn a_stream_that_cannot_be_is_refused_in_mysql_s_words() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT)");
    let size: u32 = c.lines("SHOW BINARY LOGS")[0]
        .split('|')
        .nth(1)
        .and_then(|size| size.parse().ok())
        .expect("size");
    let file = "binlog.000001";
    let refusal = |file: &str, position: u32| {
        let mut raw = consumer(&server);
        raw.dump(file, position, NON_BLOCK, 9);
        loop {
            match raw.packet() {
                Packet::Event(_) => {}
                other => return other.error(),
            }
        }
    };
    let no_file = "Could not find first log file name in binary log index file";
    assert_eq!(refusal("binlog.000009", 4), (1236, no_file.into()));
    assert_eq!(refusal("other", 4), (1236, no_file.into()));
    let early = "Client requested source to start replication from position < 4";
    assert_eq!(refusal(file, 3), (1236, early.into()));
    let late = "Client requested source to start replication from position > file size";
    assert_eq!(refusal(file, size + 1), (1236, late.into()));
    let cut = format!(
        "binlog truncated in the middle of event; consider out of disk space on source; the first event \
         '{file}' at {}, the last event read from './{file}' at 127, the last byte read from './{file}' at {size}.",
        size - 3
    );
    assert_eq!(refusal(file, size - 3), (1236, cut));
    let bogus = format!(
        "bogus data in log event; the first event '{file}' at 40, the last event read from './{file}' at 127, the \
         last byte read from './{file}' at 59."
    );
    assert_eq!(refusal(file, 40), (1236, bogus));
    // In the middle of an event stands what is no length.
    let place = |position: u32, at: u32| {
        format!(
            "the first event '{file}' at {position}, the last event read from './{file}' at 127, the last byte read \
             from './{file}' at {at}."
        )
    };
    let cut = "binlog truncated in the middle of event; consider out of disk space on source";
    let cut = format!("{cut}; {}", place(130, size));
    assert_eq!(refusal(file, 130), (1236, cut));
    let long = "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source";
    let long = format!("{long}; {}", place(128, 147));
    assert_eq!(refusal(file, 128), (1236, long));

    // Whoever cannot check gets nothing to check.
    let mut raw = Raw::connect(&server, "root");
    raw.dump(file, 4, NON_BLOCK, 9);
    raw.packet().event();
    let text = raw.packet().error().1;
    assert!(
        text.starts_with("Replica can not handle replication events with the checksum"),
        "{text}"
    );

    raw.is_closed();

    let mut raw = consumer(&server);
    let uuid = c.value("SELECT @@server_uuid");
    raw.dump_gtid(&format!("{uuid}:1-1000").parse().expect("set"));
    assert!(
        raw.packet()
            .error()
            .1
            .starts_with("Replica has more GTIDs than the source has")
    );
    c.run("FLUSH BINARY LOGS; PURGE BINARY LOGS TO 'binlog.000002'");
    let executed = c.value("SELECT @@GLOBAL.gtid_executed");
    let mut raw = consumer(&server);
    raw.dump_gtid(&GtidSet::default());
    let text = raw.packet().error().1;
    assert!(
        text.starts_with("Cannot replicate because the source purged required binary logs."),
        "{text}"
    );
    let missing = format!(
        "The GTID set sent by the replica is '', and the missing transactions are '{executed}'"
    );
    assert!(text.ends_with(&missing), "{text}");

    c.run("CREATE USER u@localhost");
    let mut raw = Raw::connect(&server, "u");
    raw.dump("", 4, NON_BLOCK, 9);
    assert_eq!(raw.packet().error().0, 1227);
    // That ends nothing.
    raw.register(9);
    let denied = "Access denied for user 'u'@'localhost' (using password: NO)";
    assert_eq!(raw.packet().error(), (1045, denied.into()));
    let mut raw = Raw::connect(&server, "root");
    raw.send(0, b"\x15\x09\0\0\0\0\0\0");
    let wrong = "Wrong parameters when registering replica";
    assert_eq!(raw.packet().error(), (1105, wrong.into()));
    raw.run("SET @a = 1");
    raw.send(0, b"\x12\x04");
    assert_eq!(raw.packet().error().0, 1835);
    raw.is_closed();
}

/// Asks until the answer is as it should be.
fn until(server: &Server, sql: &str, is_there: impl Fn(&[String]) -> bool) {
    let mut c = server.connect();
    eventually(sql, || is_there(&c.lines(sql)));
}

#[test]
fn consumers_are_shown_and_one_identity_has_one_stream() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT)");
    let mut first = consumer(&server);
    const UUID: &str = "3EE1381C-ebca-11f1-a747-02fc00000001";
    first.run(&format!(
        "SET @replica_uuid = '{UUID}', @source_heartbeat_period = 20000000"
    ));
    first.register(9);
    assert_eq!(first.take()[0], 0);
    let shown = format!("9|host|3306|5|{}", UUID.to_lowercase());
    assert_eq!(c.lines("SHOW REPLICAS"), [&*shown]);
    assert_eq!(c.lines("SHOW SLAVE HOSTS"), [&*shown]);
    first.dump("binlog.000001", 4, 0, 9);
    // Silence is interrupted by heartbeats, news by what it is.
    while kind(&first.packet().event()) != Some(EventType::Heartbeat) {}
    c.run("INSERT INTO d.t VALUES (1)");
    while kind(&first.packet().event()) != Some(EventType::Xid) {}
    let waiting = "Source has sent all binlog to replica; waiting for more updates";
    let shown =
        "SELECT command, state FROM information_schema.processlist WHERE command LIKE 'Binlog%'";
    until(&server, shown, |lines| {
        lines == [format!("Binlog Dump|{waiting}")]
    });

    // Another identity is another consumer; the same one ends the first.
    let mut other = consumer(&server);
    other.run("SET @replica_uuid = 'other'");
    other.dump("binlog.000001", 4, 0, 9);
    other.packet().event();
    until(&server, shown, |lines| lines.len() == 2);
    let mut second = consumer(&server);
    second.run(&format!("SET @replica_uuid = '{}'", UUID.to_lowercase()));
    second.dump("binlog.000001", 4, 0, 9);
    second.packet().event();
    let (code, text) = loop {
        match first.packet() {
            Packet::Error(code, text) => break (code, text),
            Packet::Event(event) => assert_eq!(kind(&event), Some(EventType::Heartbeat)),
            Packet::End => panic!("no error"),
        }
    };
    let why = "A replica with the same server_uuid/server_id as this replica has connected to the source; the first \
               event 'binlog.000001' at 4, the last event read from './binlog.000001' at ";
    assert_eq!(code, 1236);
    assert!(text.starts_with(why), "{text}");
    until(&server, shown, |lines| lines.len() == 2);
    until(&server, "SHOW REPLICAS", |lines| lines.is_empty());

    // A file that is read is not purged; one that is read no more is.
    c.run("FLUSH BINARY LOGS; FLUSH BINARY LOGS");
    until(&server, "SHOW BINARY LOGS", |lines| lines.len() == 3);
    let of_streams = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog%'";
    let ids = c.lines(of_streams);
    let held = "SELECT BYTES FROM information_schema.ESKER_MEMORY WHERE AREA = 'binary log and its consumers'";
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let with_consumers = number(&c.value(held));
    c.run(&format!("KILL {}; KILL QUERY {}", ids[0], ids[1]));
    until(&server, shown, |lines| lines.is_empty());
    until(&server, held, |lines| number(&lines[0]) < with_consumers);
    c.run("PURGE BINARY LOGS TO 'binlog.000003'");
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), 1);

    // One that leaves is noticed, and one that waits holds up no stop.
    let mut gone = consumer(&server);
    gone.dump("binlog.000003", 4, 0, 9);
    gone.packet().event();
    until(&server, shown, |lines| lines.len() == 1);
    gone.send(0, &[1]);
    until(&server, shown, |lines| lines.is_empty());
    let mut last = consumer(&server);
    last.dump("binlog.000003", 4, 0, 9);
    last.packet().event();
    server.stop();
}

#[test]
fn purge_says_what_it_left_and_why() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS[..3]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a LONGBLOB)");
    // More than sockets buffer, so who does not listen stays in the first file.
    for _ in 0..4 {
        c.run("INSERT INTO d.t VALUES (REPEAT(RANDOM_BYTES(1024), 8192))");
    }
    c.run("FLUSH BINARY LOGS; FLUSH BINARY LOGS");
    let mut consumer = consumer(&server);
    consumer.dump("binlog.000001", 4, 0, 9);
    consumer.packet().event();
    c.run("PURGE BINARY LOGS TO 'binlog.000003'");
    let read = "Warning|1867|file ./binlog.000001 was not purged because it was being read by 1 thread(s), purged \
                only 0 out of 2 files.";
    assert_eq!(c.lines("SHOW WARNINGS"), [read]);
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), 3);

    drop(consumer);
    let streams = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog%'";
    until(&server, streams, |lines| lines.is_empty());
    c.run("PURGE BINARY LOGS TO 'binlog.000002'");
    assert!(c.lines("SHOW WARNINGS").is_empty());
    c.run("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY");
    let active =
        "Warning|1868|file ./binlog.000003 was not purged because it is the active log file.";
    assert_eq!(c.lines("SHOW WARNINGS"), [active]);
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), 1);
}

impl Raw {
    /// The next event that is to be acknowledged: where it ends.
    fn asked(&mut self) -> u64 {
        loop {
            let payload = self.take();
            assert_eq!(
                payload[..2],
                [0, 0xef],
                "a packet of a stream that is acknowledged"
            );
            if payload[2] == 1 {
                return Header::parse(&payload[3..]).expect("header").end.into();
            }
        }
    }

    fn acknowledge(&mut self, file: &str, position: u64) {
        let mut packet = vec![0xef];
        packet.extend_from_slice(&position.to_le_bytes());
        packet.extend_from_slice(file.as_bytes());
        self.send(0, &packet);
    }
}
