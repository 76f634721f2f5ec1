//! Attachments to events: GTID, BEGIN, what the transaction did, XID, each with its place in the file.
//!
//! Neighbours: `attachment` comes in, in log order; `files` appends what comes out. **Invariants**: the result depends
//! on the attachments since the last known [`Numbers`] alone; a repetition gives events of the same lengths (only
//! `last_committed` may be smaller or larger, for the history of keys is not kept).

use crate::attachment::{Attachment, Numbering, Part, What};
use crate::event::group::GtidEvent;
use crate::event::query::{self, Query};
use crate::event::{self, Checksum, EventType, FLAG_SUPPRESS_USE, Stamp, payload};
use crate::gtid::{Gtid, GtidSet, Source, Tag};
use crate::spool::Spooled;
use crate::tally::Weight;
use crate::writeset::History;
use crate::{Result, damaged};

/// What begins a transaction in the file, and what ends one without changes.
const BEGIN: &[u8] = b"BEGIN";
const COMMIT: &[u8] = b"COMMIT";
/// What a CREATE TABLE ends with whose table is filled by the transaction.
pub(crate) const FILLED: &[u8] = b" START TRANSACTION";

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Whose GTIDs new transactions get.
    pub source: Source,
    /// server_id.
    pub server_id: u32,
    /// Version: `80400` is 8.4.0.
    pub server_version: u32,
    /// Transactions without an explicit GTID get one; else they are anonymous.
    pub gtid_mode: bool,
}

/// What counts transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Sequence number of the last transaction in the file.
    pub sequence: i64,
    /// Transactions since the first file, which is also the XID of the last one.
    pub ordinal: u64,
}

/// Makes events.
#[derive(Debug)]
pub struct Deriver {
    writer: Writer,
    numbers: Numbers,
    history: History,
    executed: GtidSet,
    /// What the last transaction takes.
    weight: Weight,
}

/// Where events go.
#[derive(Debug)]
pub struct Target<'a> {
    /// Where `events` begins in the file.
    pub position: u64,
    /// What stands behind bodies.
    pub checksum: Checksum,
    /// Events that are not written, to which those of a transaction are appended whole.
    pub events: &'a mut Vec<u8>,
}

impl Deriver {
    /// Goes on behind what `numbers` and `executed` count.
    pub fn new(writer: Writer, numbers: Numbers, executed: GtidSet) -> Self {
        let mut history = History::default();
        history.restart(numbers.sequence);
        Self {
            writer,
            numbers,
            history,
            executed,
            weight: Weight::default(),
        }
    }

    /// What was executed.
    pub fn executed(&self) -> &GtidSet {
        &self.executed
    }

    /// Adds what was executed elsewhere, or takes all away.
    pub fn set_executed(&mut self, executed: GtidSet) {
        self.executed = executed;
    }

    /// What counts transactions.
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Who writes.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Whether transactions get GTIDs.
    pub fn set_gtid_mode(&mut self, on: bool) {
        self.writer.gtid_mode = on;
    }

    /// Whose events they are from now on.
    pub fn set_server_id(&mut self, server_id: u32) {
        self.writer.server_id = server_id;
    }

    /// Forgets what came behind these: their numbers are given again.
    pub(crate) fn go_back(&mut self, numbers: Numbers, executed: GtidSet) {
        debug_assert!(numbers.ordinal <= self.numbers.ordinal);
        self.numbers = numbers;
        self.executed = executed;
        self.history.restart(numbers.sequence);
    }

    /// A file has been begun: sequence numbers start again.
    pub fn begin_file(&mut self) {
        self.numbers.sequence = 0;
        self.history.restart(0);
    }

    /// Appends the events of the next transaction, and gives its GTID. Nothing is appended on an error.
    pub fn transaction(
        &mut self,
        attachment: &Attachment<'_>,
        target: &mut Target<'_>,
    ) -> Result<Option<Gtid>> {
        let parts = attachment.parts()?;
        let mut rest = &parts[..];
        let group = self.count(attachment)?;
        let (before, after) = self.frame(attachment)?;
        let mut bodies = Vec::with_capacity(before.len() + parts.len() + after.len());
        bodies.extend(before);
        if attachment.head.what == What::CreateAndFill {
            let (create, rows) = parts.split_first().ok_or_else(no_create)?;
            bodies.push(self.filled(attachment, create));
            rest = rows;
        }
        if attachment.head.what == What::Change {
            let (change, others) = parts.split_first().ok_or_else(no_statement)?;
            let mut body = self.body(attachment, change);
            body.bytes = query::with_ddl_xid(change.body, self.numbers.ordinal)?.into();
            bodies.push(body);
            rest = others;
        }
        bodies.extend(rest.iter().map(|part| self.body(attachment, part)));
        bodies.extend(after);
        let head = &attachment.head;
        let plain = bytes_of(&bodies, target.checksum);
        if let (Some(level), What::Transaction) = (head.compressed, head.what) {
            bodies = self.compress(attachment, bodies, level)?;
        }
        let total = bytes_of(&bodies, target.checksum);
        let start = target.events.len();
        let gtid = self.begin(attachment, group, total, target);
        self.weigh(attachment, (total, plain), gtid.as_ref());
        let begun = target.events.len();
        for body in &bodies {
            body.write(target);
        }
        debug_assert!(begun > start, "a GTID comes first");
        debug_assert_eq!((target.events.len() - begun) as u64, total);
        Ok(gtid)
    }

    /// Begins a transaction whose events are in a spool file: what stands before them, and what follows them. They are
    /// never compressed.
    pub(crate) fn spooled_transaction(
        &mut self,
        attachment: &Attachment<'_>,
        create: Option<&Part<'_>>,
        spooled: Spooled,
        target: &mut Target<'_>,
    ) -> Result<(Option<Gtid>, Ending)> {
        let checksum = target.checksum;
        let (mut events, mut body_bytes) = (spooled.events, spooled.body_bytes);
        let group = self.count(attachment)?;
        let (mut before, after) = self.frame(attachment)?;
        if let Some(create) = create {
            events -= 1;
            body_bytes -= create.body.len() as u64;
            before.push(self.filled(attachment, create));
        }
        let inside = events * event::event_bytes(0, checksum) as u64 + body_bytes;
        let total = inside + bytes_of(&before, checksum) + bytes_of(&after, checksum);
        let gtid = self.begin(attachment, group, total, target);
        self.weigh(attachment, (total, total), gtid.as_ref());
        for body in &before {
            body.write(target);
        }
        let server_id = self.stamp(attachment, 0, 0).server_id;
        Ok((gtid, Ending { after, server_id }))
    }

    fn weigh(
        &mut self,
        attachment: &Attachment<'_>,
        (written, plain): (u64, u64),
        gtid: Option<&Gtid>,
    ) {
        self.weight = Weight {
            is_compressed: written < plain,
            written,
            plain,
            gtid: gtid.cloned(),
            micros: attachment.head.commit_micros,
        };
    }

    /// What the last transaction takes.
    pub(crate) fn take_weight(&mut self) -> Weight {
        std::mem::take(&mut self.weight)
    }

    /// The statement that makes the table which the transaction fills.
    fn filled<'a>(&self, attachment: &Attachment<'_>, create: &Part<'a>) -> Body<'a> {
        let mut body = self.body(attachment, create);
        body.bytes.to_mut().extend_from_slice(FILLED);
        body
    }

    /// Counts a transaction, and gives it its number.
    fn count(&mut self, attachment: &Attachment<'_>) -> Result<GtidEvent> {
        let head = &attachment.head;
        let gtid = self.assign(attachment)?;
        self.numbers.sequence += 1;
        self.numbers.ordinal += 1;
        let sequence = self.numbers.sequence;
        let version = self.writer.server_version;
        Ok(GtidEvent {
            gtid,
            rows_only: !head.has_statements
                && matches!(head.what, What::Transaction | What::XaPrepare),
            last_committed: self.history.commit(sequence, &attachment.write_set),
            sequence_number: sequence,
            commit_micros: head.commit_micros,
            original_commit_micros: head.origin.map_or(head.commit_micros, |o| o.commit_micros),
            transaction_bytes: 0,
            server_version: version,
            original_server_version: head.origin.map_or(version, |o| o.server_version),
        })
    }

    /// Appends the GTID of a group whose other events have `total` bytes.
    fn begin(
        &mut self,
        attachment: &Attachment<'_>,
        mut group: GtidEvent,
        total: u64,
        target: &mut Target<'_>,
    ) -> Option<Gtid> {
        let body = Body {
            kind: group.event_type(),
            stamp: self.stamp(attachment, attachment.head.commit_seconds(), 0),
            bytes: group.body_before(total, target.checksum).into(),
        };
        body.write(target);
        if let Some(gtid) = &group.gtid {
            self.executed.add(gtid);
        }
        group.gtid
    }

    fn assign(&self, attachment: &Attachment<'_>) -> Result<Option<Gtid>> {
        let own = |tag: &Tag| Source {
            sid: self.writer.source.sid,
            tag: tag.clone(),
        };
        let source = match &attachment.head.numbering {
            // A number that is used up meanwhile, by a transaction that took the next free one of this server, is never
            // given twice: the next free one then.
            Numbering::Given(gtid) if !self.executed.contains(gtid) => {
                return Ok(Some(gtid.clone()));
            }
            Numbering::Given(gtid) => own(&gtid.source.tag),
            Numbering::Automatic(tag) => own(tag),
            Numbering::Next(source) => source.clone(),
            Numbering::Anonymous => return Ok(None),
        };
        if !self.writer.gtid_mode {
            return Ok(None);
        }
        let gno = self
            .executed
            .first_free(&source, 1)
            .ok_or_else(|| damaged("GTIDs: all numbers are used up"))?;
        Ok(Some(Gtid { source, gno }))
    }

    fn stamp(&self, attachment: &Attachment<'_>, timestamp: u32, flags: u16) -> Stamp {
        let server_id = attachment
            .head
            .origin
            .map_or(self.writer.server_id, |o| o.server_id);
        Stamp {
            timestamp,
            server_id,
            flags,
        }
    }

    /// What frames the events of a group, behind its GTID: before and after them.
    fn frame(
        &self,
        attachment: &Attachment<'_>,
    ) -> Result<(Vec<Body<'static>>, Vec<Body<'static>>)> {
        let head = &attachment.head;
        let query = |text: &[u8]| self.query(attachment, text);
        let xid = match (head.what, &head.xid) {
            (What::XaPrepare, Some(xid)) => Some(xid),
            (What::XaPrepare, None) => return Err(damaged("attachment: no XA identifier")),
            _ => None,
        };
        let at_commit = |kind, bytes: Vec<u8>| Body {
            kind,
            stamp: self.stamp(attachment, head.commit_seconds(), 0),
            bytes: bytes.into(),
        };
        Ok(match (head.what, xid) {
            (What::Transaction | What::CreateAndFill, _) => {
                let ordinal = self.numbers.ordinal.to_le_bytes().to_vec();
                let end = at_commit(EventType::Xid, ordinal);
                (vec![query(BEGIN)], vec![end])
            }
            (What::Empty, _) => (vec![query(BEGIN)], vec![query(COMMIT)]),
            (_, Some(xid)) => {
                let begin = query(format!("XA START {xid}").as_bytes());
                let end = query(format!("XA END {xid}").as_bytes());
                let mut bytes = Vec::new();
                xid.write(&mut bytes);
                let prepare = at_commit(EventType::XaPrepare, bytes);
                (vec![begin], vec![end, prepare])
            }
            _ => (Vec::new(), Vec::new()),
        })
    }

    /// A statement of the binary log's own.
    fn query(&self, attachment: &Attachment<'_>, text: &[u8]) -> Body<'static> {
        let head = &attachment.head;
        let mut bytes = Vec::with_capacity(
            query::FIXED_BYTES + head.settings.len() + head.schema.len() + 1 + text.len(),
        );
        let query = Query {
            thread_id: head.thread_id,
            seconds: 0,
            error: 0,
            schema: head.schema,
            settings: head.settings,
            text,
        };
        query.write(&mut bytes);
        Body {
            kind: EventType::Query,
            stamp: self.stamp(attachment, head.begin_time, FLAG_SUPPRESS_USE),
            bytes: bytes.into(),
        }
    }

    fn body<'a>(&self, attachment: &Attachment<'_>, part: &Part<'a>) -> Body<'a> {
        Body {
            kind: part.kind,
            stamp: self.stamp(attachment, part.time, part.flags.into()),
            bytes: part.body.into(),
        }
    }

    /// All events in one, if that is shorter.
    fn compress<'a>(
        &self,
        attachment: &Attachment<'a>,
        bodies: Vec<Body<'a>>,
        level: u8,
    ) -> Result<Vec<Body<'a>>> {
        let mut inner = Vec::new();
        for body in &bodies {
            let length = event::event_bytes(body.bytes.len(), Checksum::None) as u64;
            // Positions in a payload are all zero.
            let at = length.wrapping_neg();
            event::frame(
                body.kind,
                body.stamp,
                at,
                &body.bytes,
                Checksum::None,
                &mut inner,
            );
        }
        let mut bytes = Vec::new();
        if !payload::write(&inner, level.into(), &mut bytes)? {
            return Ok(bodies);
        }
        Ok(vec![Body {
            kind: EventType::TransactionPayload,
            stamp: self.stamp(attachment, attachment.head.begin_time, 0),
            bytes: bytes.into(),
        }])
    }
}

pub(crate) fn no_create() -> crate::Error {
    damaged("attachment: no CREATE TABLE")
}

fn no_statement() -> crate::Error {
    damaged("attachment: no statement")
}

/// An event without its place.
#[derive(Debug)]
struct Body<'a> {
    kind: EventType,
    stamp: Stamp,
    bytes: std::borrow::Cow<'a, [u8]>,
}

impl Body<'_> {
    fn bytes(&self, checksum: Checksum) -> usize {
        event::event_bytes(self.bytes.len(), checksum)
    }

    fn write(&self, target: &mut Target<'_>) {
        let at = target.position + target.events.len() as u64;
        event::frame(
            self.kind,
            self.stamp,
            at,
            &self.bytes,
            target.checksum,
            target.events,
        );
    }
}

fn bytes_of(bodies: &[Body<'_>], checksum: Checksum) -> u64 {
    bodies.iter().map(|b| b.bytes(checksum) as u64).sum()
}

/// What is to follow the events of a spool file.
#[derive(Debug)]
pub(crate) struct Ending {
    after: Vec<Body<'static>>,
    server_id: u32,
}

impl Ending {
    /// Appends an event of the spool file.
    pub(crate) fn frame(&self, part: &Part<'_>, target: &mut Target<'_>) {
        let body = Body {
            kind: part.kind,
            stamp: Stamp {
                timestamp: part.time,
                server_id: self.server_id,
                flags: part.flags.into(),
            },
            bytes: part.body.into(),
        };
        body.write(target);
    }

    /// Appends the end.
    pub(crate) fn write(&self, target: &mut Target<'_>) {
        for body in &self.after {
            body.write(target);
        }
    }
}
