//! Streams of events, whole and cut off, of both makes; and the three defects that other replicas have had here.

use super::*;
use crate::apply::RelayPlace;
use crate::event::Stamp;
use crate::gtid::GtidSet;

const LIMIT: usize = 1 << 20;

/// A source that numbers its events.
struct Script {
    assembler: Assembler,
    at: u32,
    groups: Vec<Group>,
}

impl Script {
    fn new() -> Self {
        Self {
            assembler: Assembler::new(1, Place::default(), LIMIT),
            at: 4,
            groups: Vec::new(),
        }
    }

    fn push(&mut self, kind: u8, flags: u16, body: &[u8]) -> Result<()> {
        let length = (19 + body.len()) as u32;
        self.at += length;
        let incoming = Incoming {
            header: Header {
                stamp: Stamp {
                    timestamp: 7,
                    server_id: 3,
                    flags,
                },
                kind,
                length,
                end: if flags & FLAG_ARTIFICIAL == 0 {
                    self.at
                } else {
                    0
                },
            },
            body: body.to_vec(),
            relay: RelayPlace {
                file: 1,
                offset: self.at.into(),
            },
        };
        self.groups.extend(self.assembler.push(&incoming)?);
        Ok(())
    }

    fn event(&mut self, kind: u8, body: &[u8]) -> &mut Self {
        self.push(kind, 0, body).expect("event");
        self
    }

    fn query(&mut self, text: &str) -> &mut Self {
        self.event(2, &query(text))
    }

    fn gtid(&mut self, gno: u64) -> &mut Self {
        self.event(33, &gtid(gno, 0))
    }

    fn rows(&mut self) -> &mut Self {
        self.event(19, b"map").event(30, b"rows")
    }

    fn xid(&mut self) -> &mut Self {
        self.event(16, &[0; 8])
    }

    fn rotate(&mut self, file: &str, flags: u16) -> &mut Self {
        let mut body = Vec::new();
        Rotate {
            position: 4,
            file: file.as_bytes(),
        }
        .write(&mut body);
        self.push(4, flags, &body).expect("event");
        self
    }

    fn shapes(&self) -> Vec<Shape> {
        self.groups.iter().map(|group| group.shape).collect()
    }
}

fn query(text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    Query {
        thread_id: 1,
        seconds: 0,
        error: 0,
        schema: b"test",
        settings: &[],
        text: text.as_bytes(),
    }
    .write(&mut body);
    body
}

fn gtid(gno: u64, transaction_bytes: u64) -> Vec<u8> {
    let text = format!("11111111-1111-1111-1111-111111111111:{gno}");
    let mut body = Vec::new();
    GtidEvent {
        gtid: Some(text.parse().expect("GTID")),
        rows_only: true,
        last_committed: gno as i64 - 1,
        sequence_number: gno as i64,
        commit_micros: 5,
        original_commit_micros: 4,
        transaction_bytes,
        server_version: 90_700,
        original_server_version: 80_400,
    }
    .write(&mut body);
    body
}

#[test]
fn a_transaction_ends_without_xid_defect_72794() {
    let mut script = Script::new();
    script.gtid(1).query("BEGIN").rows().query("COMMIT");
    script.gtid(2).query("BEGIN").rows().query("ROLLBACK");
    script.gtid(3).query("CREATE TABLE t (a INT)");
    script
        .gtid(4)
        .gtid(5)
        .query("BEGIN")
        .rows()
        .rotate("binlog.000002", 0);
    script.gtid(6).query("BEGIN").rows().xid();
    let ends = [
        Shape::Transaction,
        Shape::Empty,
        Shape::Statement,
        Shape::Transaction,
    ];
    assert_eq!(script.shapes(), ends);
    let ordinals: Vec<u64> = script.groups.iter().map(|g| g.ordinal).collect();
    assert_eq!(ordinals, [1, 2, 3, 4], "what was cut off has none");
    assert!(!script.assembler.is_open());
    let mut ids = GtidSet::default();
    for group in &script.groups {
        let Id::Gtid(gtid) = &group.id else {
            panic!("{group:?}")
        };
        ids.add(gtid);
    }
    assert_eq!(
        ids.to_string(),
        "11111111-1111-1111-1111-111111111111:1-3:6"
    );
}

#[test]
fn memory_does_not_grow_over_many_transactions_defect_71197() {
    let mut script = Script::new();
    for gno in 1..=20_000 {
        script.gtid(gno).query("BEGIN").rows().xid();
        let group = script.groups.pop().expect("a group");
        assert_eq!(group.ordinal, gno);
        assert!(group.data.capacity() <= 256, "{}", group.data.capacity());
        assert!(script.groups.is_empty() && !script.assembler.is_open());
    }
    let size = format!("{:?}", script.assembler).len();
    assert!(size < 1000, "{size}");
}

#[test]
fn a_group_that_cannot_be_read_takes_nothing_of_others_defect_73482() {
    let mut script = Script::new();
    script.gtid(1).query("BEGIN").rows().xid();
    script.gtid(2).query("BEGIN");
    assert!(script.push(mariadb::START_ENCRYPTION, 0, &[]).is_err());
    // The stream comes again from behind the last whole group.
    let end = script.groups[0].end.clone();
    script.assembler = Assembler::new(2, end, LIMIT);
    script.gtid(2).query("BEGIN").rows().xid();
    assert_eq!(
        script.groups.iter().map(|g| g.ordinal).collect::<Vec<_>>(),
        [1, 2]
    );
}

#[test]
fn places_are_those_between_groups() {
    let mut script = Script::new();
    script.rotate("binlog.000007", FLAG_ARTIFICIAL);
    script.at = 100;
    script.gtid(1).query("BEGIN").rows().xid();
    let end = &script.groups[0].end;
    assert_eq!(
        (end.source_file.as_str(), end.source_pos),
        ("binlog.000007", script.at.into())
    );
    assert_eq!(end.relay.offset, u64::from(script.at));
}

/// The stream breaks between a GTID and what it is of, and all of it comes again.
#[test]
fn a_gtid_behind_which_nothing_came_is_no_transaction() {
    for (name, flags) in [("binlog.000001", FLAG_ARTIFICIAL), ("binlog.000002", 0)] {
        let mut script = Script::new();
        script.rotate("binlog.000001", FLAG_ARTIFICIAL);
        script.gtid(1).rotate(name, flags);
        script.gtid(1).query("BEGIN").rows().xid();
        script.gtid(2).rotate(name, flags);
        script.gtid(2).query("CREATE TABLE t (a INT)");
        assert_eq!(script.shapes(), [Shape::Transaction, Shape::Statement]);
        assert_eq!((script.groups[0].ordinal, script.groups[1].ordinal), (1, 2));
    }
}

#[test]
fn a_stream_that_begins_anew_goes_on_in_the_middle() {
    let mut script = Script::new();
    script.rotate("binlog.000001", FLAG_ARTIFICIAL);
    script.gtid(1).query("BEGIN").rows();
    script.rotate("binlog.000001", FLAG_ARTIFICIAL).rows().xid();
    assert_eq!(script.groups[0].parts.len(), 4);
    // With the whole transaction again, what was there is dropped.
    script.gtid(2).query("BEGIN").rows();
    script.rotate("binlog.000001", FLAG_ARTIFICIAL);
    script.gtid(2).query("BEGIN").rows().xid();
    assert_eq!((script.groups.len(), script.groups[1].parts.len()), (2, 2));
}

#[test]
fn events_of_mariadb_are_groups_too() {
    let maria = |sequence: u64, flags: u8, commit: Option<u64>| {
        let mut body = sequence.to_le_bytes().to_vec();
        body.extend([0, 0, 0, 0, flags]);
        body.extend(commit.map_or(vec![0; 6], |id| id.to_le_bytes().to_vec()));
        body
    };
    let mut script = Script::new();
    script
        .event(mariadb::GTID_LIST, &[])
        .event(mariadb::CHECKPOINT, &[]);
    script
        .event(mariadb::GTID, &maria(1, 1, None))
        .query("CREATE TABLE t (a INT)");
    for (sequence, commit) in [(2, 9), (3, 9), (4, 10)] {
        script.event(mariadb::GTID, &maria(sequence, 2, Some(commit)));
        script
            .event(mariadb::ANNOTATE, b"INSERT")
            .event(19, b"map")
            .event(23, b"rows")
            .xid();
    }
    assert_eq!(script.shapes()[0], Shape::Statement);
    let clocks: Vec<_> = script.groups.iter().filter_map(|g| g.clock).collect();
    let said: Vec<_> = clocks
        .iter()
        .map(|c| (c.last_committed, c.sequence))
        .collect();
    assert_eq!(said, [(0, 1), (1, 2), (1, 3), (3, 4)]);
    let v1 = PartKind::Rows {
        change: RowKind::Write,
        is_v1: true,
    };
    assert_eq!(script.groups[1].parts[1].kind, v1);
    assert_eq!(
        script.groups[3].id,
        Id::Maria("0-3-4".parse().expect("GTID"))
    );
}

/// MariaDB has the identifier in the GTID event, and no XA START.
#[test]
fn xa_transactions_of_mariadb_begin_with_their_identifier() {
    let xid = [1, 0, 0, 0, 1, 0, b'g'];
    let begin = |sequence: u64, flags: u8| {
        let mut body = sequence.to_le_bytes().to_vec();
        body.extend([0, 0, 0, 0, flags]);
        body.extend(xid);
        body
    };
    let mut prepare = Vec::new();
    XaPrepare {
        one_phase: false,
        format: 1,
        gtrid: b"g".to_vec(),
        bqual: Vec::new(),
    }
    .write(&mut prepare);
    let mut script = Script::new();
    script
        .event(mariadb::GTID, &begin(1, 64))
        .rows()
        .query("XA END X'67',X'',1")
        .event(38, &prepare);
    script
        .event(mariadb::GTID, &begin(2, 128 | 1))
        .query("XA COMMIT X'67',X'',1");
    assert_eq!(script.shapes(), [Shape::Xa, Shape::Statement]);
    let texts = |group: &Group| {
        let queries = group.parts.iter().filter(|p| p.kind == PartKind::Query);
        let texts = queries.map(|p| Query::parse(group.body(p)).expect("query").text.to_vec());
        texts
            .map(|text| String::from_utf8(text).expect("UTF-8"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        texts(&script.groups[0]),
        [
            "XA START X'67',X'',1",
            "XA END X'67',X'',1",
            "XA PREPARE X'67',X'',1"
        ]
    );
    assert_eq!(texts(&script.groups[1]), ["XA COMMIT X'67',X'',1"]);
}

#[test]
fn other_shapes() {
    let mut script = Script::new();
    script
        .gtid(1)
        .query("BEGIN")
        .query("CREATE TABLE t (a INT) START TRANSACTION")
        .rows()
        .xid();
    let group = &script.groups[0];
    assert_eq!(group.shape, Shape::CreateAndFill);
    let create = Query::parse(group.body(&group.parts[0])).expect("query");
    assert_eq!(create.text, b"CREATE TABLE t (a INT) START TRANSACTION");
    let xid = XaPrepare {
        one_phase: false,
        format: 1,
        gtrid: b"g".to_vec(),
        bqual: Vec::new(),
    };
    let mut body = Vec::new();
    xid.write(&mut body);
    script
        .gtid(2)
        .query("XA START X'67',X'',1")
        .rows()
        .query("XA END X'67',X'',1")
        .event(38, &body);
    let group = &script.groups[1];
    assert_eq!((group.shape, group.parts.len()), (Shape::Xa, 5));
    // Without GTIDs: the place alone.
    script.query("BEGIN").rows().xid().query("DROP TABLE t");
    assert_eq!(script.groups[2].id, Id::Position);
    assert_eq!(script.shapes()[2..], [Shape::Transaction, Shape::Statement]);
}

#[test]
fn a_compressed_transaction_is_one_group() {
    let mut inner = Vec::new();
    let stamp = Stamp {
        timestamp: 7,
        server_id: 3,
        flags: 0,
    };
    let long = vec![b'x'; 500];
    for (kind, body) in [
        (EventType::Query, query("BEGIN")),
        (EventType::TableMap, long.clone()),
        (EventType::WriteRows, long),
        (EventType::Xid, vec![0; 8]),
    ] {
        crate::event::frame(kind, stamp, 0, &body, Checksum::None, &mut inner);
    }
    let mut body = Vec::new();
    assert!(payload::write(&inner, 3, &mut body).expect("zstd"));
    let mut script = Script::new();
    script.gtid(1).event(40, &body);
    assert_eq!(
        (script.shapes(), script.groups[0].parts.len()),
        (vec![Shape::Transaction], 2)
    );
    assert_eq!(script.groups[0].end.source_pos, u64::from(script.at));
    assert!(script.push(40, 0, &body[..body.len() - 1]).is_err());
}

#[test]
fn what_cannot_be_applied_is_refused_and_the_rest_skipped() {
    let mut script = Script::new();
    for kind in [36, 37, 29, 35, 27, 41, 3] {
        script.event(kind, b"");
    }
    assert!(script.push(99, FLAG_IGNORABLE, b"").is_ok());
    for kind in [99, mariadb::START_ENCRYPTION, 26] {
        assert!(
            matches!(script.push(kind, 0, b""), Err(Error::Refused(..))),
            "{kind}"
        );
    }
    // In a group it is for whoever applies the group to say so.
    script
        .gtid(1)
        .query("BEGIN")
        .event(99, b"")
        .event(16, &[0; 8]);
    let refused = script.groups.last().expect("group");
    assert_eq!(refused.parts[0].kind, PartKind::Refused);
    assert_eq!(
        refused.body(&refused.parts[0]),
        b"Esker cannot apply an event of type 99"
    );
    script.gtid(2).query("BEGIN");
    let large = vec![0; LIMIT + 1];
    assert!(script.push(30, 0, &large).is_err());
    let mut script = Script::new();
    script.event(33, &gtid(1, u64::MAX >> 1));
    assert!(script.groups.is_empty());
}
