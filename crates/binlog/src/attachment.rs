//! What a transaction carries for the binary log: its events, and what is known of it at commit.
//!
//! ```text
//! each event: type u8 | flags u8 | time u32 | length varint | body
//! head (written last) | length of the head u32 | form u8 = 1; 2 where the events are in a spool file
//! ```
//! `docs/formats/binlog-attachment.md` has the head. Events stand first because savepoints cut the end off; the head is
//! made when the transaction commits. GTID, BEGIN and XID are not kept: `derive` makes them. Neighbours: `sql` fills
//! it; the log keeps it, and gives it to `derive`. **Invariants**: an attachment says everything that its events in the
//! file depend on, but for numbers that count transactions; so files can be derived again.

use crate::bytes::{Put, Reader};
use crate::event::EventType;
use crate::event::group::XaPrepare;
use crate::gtid::{Gtid, Sid, Source, Tag};
use crate::spool::{SpoolId, Spooled};
use crate::writeset::WriteSet;
use crate::{Result, damaged};

/// The events follow the head.
const FORM: u8 = 1;
/// They are in a spool file, which the head describes.
const SPOOLED: u8 = 2;
/// Bytes before the head.
const FRONT_BYTES: usize = 5;

/// Bytes before the body of an event, at most.
const EVENT_HEAD_BYTES: usize = 6 + 10;

const HAS_GTID: u8 = 1;
const HAS_ORIGIN: u8 = 2;
const HAS_WRITE_SET: u8 = 4;
const HAS_STATEMENTS: u8 = 8;
const COMPRESSED: u8 = 16;
const HAS_XID: u8 = 32;
const ANONYMOUS: u8 = 64;
const HAS_TAG: u8 = 128;
/// Bits of the framing; the level of compression is above them.
const FRAMING_BITS: u8 = 3;
/// Where an attachment says no level, and MySQL's default.
pub const DEFAULT_LEVEL: u8 = 3;
/// The highest level.
pub const MAX_LEVEL: u8 = 22;
/// In place of a number: the next free one. Numbers begin at 1.
const NEXT_FREE: u64 = 0;

/// How the events of an attachment are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// BEGIN, the events, XID.
    Transaction = 1,
    /// The events alone: one statement that commits itself.
    Statement = 2,
    /// XA START, the events, XA END, XA PREPARE.
    XaPrepare = 3,
    /// BEGIN and COMMIT: a GTID without changes.
    Empty = 4,
    /// BEGIN, the first event, which is a CREATE TABLE and says that the table is filled, the other events, XID.
    CreateAndFill = 5,
    /// As [`What::Statement`], of which all that it changes is in the same record; the event says so by the number of
    /// the transaction.
    Change = 6,
}

/// Which GTID a transaction is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Numbering {
    /// The next free one of this server, with this tag; none if GTIDs are off.
    Automatic(Tag),
    /// The next free one of another source; none if GTIDs are off.
    Next(Source),
    /// None.
    Anonymous,
    /// This one. The session has made sure that nothing else has it.
    Given(Gtid),
}

impl Default for Numbering {
    fn default() -> Self {
        Self::Automatic(Tag::default())
    }
}

/// Where a transaction that came from another server was committed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// When, microseconds since the epoch.
    pub commit_micros: u64,
    /// By which version.
    pub server_version: u32,
    /// By which server.
    pub server_id: u32,
}

/// The first version number of MariaDB that MySQL has not had.
const MARIADB: u32 = 10_00_00;

/// Is a server of this version MariaDB?
pub fn is_mariadb(server_version: u32) -> bool {
    server_version >= MARIADB
}

/// What is known of a transaction when it commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// Framing.
    pub what: What,
    /// When it commits, microseconds since the epoch.
    pub commit_micros: u64,
    /// When its first statement began, seconds since the epoch.
    pub begin_time: u32,
    /// Number of the session.
    pub thread_id: u32,
    /// The GTID it is to have.
    pub numbering: Numbering,
    /// Where it came from, if not from here.
    pub origin: Option<Origin>,
    /// The identifier of an XA transaction that is prepared.
    pub xid: Option<XaPrepare>,
    /// Default database of the first statement.
    pub schema: &'a [u8],
    /// Settings for BEGIN, as [`crate::event::query::Settings::write`] has them.
    pub settings: &'a [u8],
    /// It may have statements among its events, not only rows.
    pub has_statements: bool,
    /// Its events are to be compressed with this level of zstd.
    pub compressed: Option<u8>,
    /// The file with its events, if they are not in the attachment.
    pub spooled: Option<Spooled>,
    /// The keys it changed; `None`: everything before it must be committed first.
    pub write_set: Option<&'a [u64]>,
}

impl Head<'_> {
    /// When it commits, seconds since the epoch.
    pub fn commit_seconds(&self) -> u32 {
        (self.commit_micros / 1_000_000) as u32
    }
}

/// Appends an event to the attachment of a transaction that goes on.
pub fn push_event(kind: EventType, flags: u8, time: u32, body: &[u8], out: &mut Vec<u8>) {
    out.reserve(EVENT_HEAD_BYTES + body.len());
    out.u8(kind as u8);
    out.u8(flags);
    out.u32(time);
    out.var_bytes(body);
}

/// What a statement has changed is in the record that has this head.
pub fn mark_change(head: &mut [u8]) {
    const STATEMENT: u8 = What::Statement as u8;
    if let Some(framing) = head.get_mut(FRONT_BYTES) {
        debug_assert_eq!(*framing, STATEMENT, "one statement, not compressed");
        *framing = What::Change as u8;
    }
}

/// What stands before the events.
pub fn head_bytes(head: &Head<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + head.schema.len() + head.settings.len());
    out.u8(if head.spooled.is_some() {
        SPOOLED
    } else {
        FORM
    });
    out.u32(0);
    let mut flags = 0;
    let mut flag = |bit, is_set: bool| flags |= if is_set { bit } else { 0 };
    let tag = match &head.numbering {
        Numbering::Automatic(tag) => Some(tag).filter(|tag| !tag.is_empty()),
        Numbering::Anonymous | Numbering::Given(_) | Numbering::Next(_) => None,
    };
    let of_source = match &head.numbering {
        Numbering::Given(gtid) => Some((&gtid.source, gtid.gno)),
        Numbering::Next(source) => Some((source, NEXT_FREE)),
        Numbering::Automatic(_) | Numbering::Anonymous => None,
    };
    flag(HAS_GTID, of_source.is_some());
    flag(ANONYMOUS, head.numbering == Numbering::Anonymous);
    flag(HAS_TAG, tag.is_some());
    flag(HAS_ORIGIN, head.origin.is_some());
    flag(HAS_WRITE_SET, head.write_set.is_some());
    flag(HAS_STATEMENTS, head.has_statements);
    flag(COMPRESSED, head.compressed.is_some());
    flag(HAS_XID, head.xid.is_some());
    let level = head.compressed.unwrap_or(0);
    debug_assert!(level <= MAX_LEVEL);
    out.u8(head.what as u8 | level << FRAMING_BITS);
    out.u8(flags);
    out.u64(head.commit_micros);
    out.u32(head.begin_time);
    out.u32(head.thread_id);
    if let Some(tag) = tag {
        out.short_bytes(tag.as_str().as_bytes());
    }
    if let Some((source, gno)) = of_source {
        out.bytes(&source.sid.0);
        out.short_bytes(source.tag.as_str().as_bytes());
        out.u64(gno);
    }
    if let Some(origin) = &head.origin {
        out.u64(origin.commit_micros);
        out.u32(origin.server_version);
        out.u32(origin.server_id);
    }
    if let Some(xid) = &head.xid {
        let mut bytes = Vec::new();
        xid.write(&mut bytes);
        out.var_bytes(&bytes);
    }
    out.var_bytes(head.schema);
    out.var_bytes(head.settings);
    if let Some(spooled) = &head.spooled {
        out.u64(spooled.id.0);
        out.u64(spooled.bytes);
        out.u64(spooled.events);
        out.u64(spooled.body_bytes);
        out.u32(spooled.checksum);
    }
    if let Some(keys) = head.write_set {
        out.varint(keys.len() as u64);
        keys.iter().for_each(|key| out.u64(*key));
    }
    let length = (out.len() - FRONT_BYTES) as u32;
    out[1..FRONT_BYTES].copy_from_slice(&length.to_le_bytes());
    out
}

/// An event of an attachment.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Type.
    pub kind: EventType,
    /// Flags of its header.
    pub flags: u8,
    /// When its statement began, seconds since the epoch.
    pub time: u32,
    /// Body.
    pub body: &'a [u8],
}

impl<'a> Part<'a> {
    /// Reads the next one.
    pub(crate) fn read(r: &mut Reader<'a>) -> Result<Self> {
        let kind = r.u8()?;
        let kind = EventType::of(kind)
            .ok_or_else(|| damaged(format!("attachment: event of type {kind}")))?;
        let (flags, time) = (r.u8()?, r.u32()?);
        let body = r.var_bytes()?;
        Ok(Part {
            kind,
            flags,
            time,
            body,
        })
    }
}

/// An attachment that was read.
#[derive(Debug, Clone)]
pub struct Attachment<'a> {
    /// What is known of the transaction; without the write set.
    pub head: Head<'a>,
    /// The keys it changed.
    pub write_set: WriteSet,
    events: &'a [u8],
}

impl<'a> Attachment<'a> {
    /// Reads one.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let is_spooled = match r.u8()? {
            FORM => false,
            SPOOLED => true,
            _ => return Err(damaged("attachment: unknown form")),
        };
        let head_bytes = r.u32()? as usize;
        let (head, write_set) = parse_head(r.take(head_bytes)?, is_spooled)?;
        let events = r.rest();
        Ok(Self {
            head,
            write_set,
            events,
        })
    }

    /// Its events in order.
    pub fn parts(&self) -> Result<Vec<Part<'a>>> {
        let mut r = Reader::new(self.events);
        let mut parts = Vec::new();
        while !r.is_empty() {
            parts.push(Part::read(&mut r)?);
        }
        Ok(parts)
    }
}

fn parse_head(bytes: &[u8], is_spooled: bool) -> Result<(Head<'_>, WriteSet)> {
    let mut r = Reader::new(bytes);
    let first = r.u8()?;
    let (framing, level) = (first & ((1 << FRAMING_BITS) - 1), first >> FRAMING_BITS);
    if level > MAX_LEVEL {
        return Err(damaged(format!("attachment: level {level}")));
    }
    let what = what_of(framing)?;
    let flags = r.u8()?;
    let has = |bit| flags & bit != 0;
    let commit_micros = r.u64()?;
    let (begin_time, thread_id) = (r.u32()?, r.u32()?);
    let numbering = match (has(ANONYMOUS), has(HAS_TAG), has(HAS_GTID)) {
        (true, ..) => Numbering::Anonymous,
        (_, true, _) => Numbering::Automatic(parse_tag(&mut r)?),
        (.., true) => match parse_gtid(&mut r)? {
            Gtid {
                source,
                gno: NEXT_FREE,
            } => Numbering::Next(source),
            gtid => Numbering::Given(gtid),
        },
        _ => Numbering::default(),
    };
    let origin = match has(HAS_ORIGIN) {
        true => Some(parse_origin(&mut r)?),
        false => None,
    };
    let xid = match has(HAS_XID) {
        true => Some(XaPrepare::parse(r.var_bytes()?)?),
        false => None,
    };
    let (schema, settings) = (r.var_bytes()?, r.var_bytes()?);
    let spooled = match is_spooled {
        true => Some(parse_spooled(&mut r)?),
        false => None,
    };
    let write_set = match has(HAS_WRITE_SET) {
        false => WriteSet::Everything,
        true => WriteSet::Keys(parse_keys(&mut r)?),
    };
    let head = Head {
        what,
        commit_micros,
        begin_time,
        thread_id,
        numbering,
        origin,
        xid,
        schema,
        settings,
        has_statements: has(HAS_STATEMENTS),
        compressed: has(COMPRESSED).then_some(match level {
            0 => DEFAULT_LEVEL,
            level => level,
        }),
        spooled,
        write_set: None,
    };
    Ok((head, write_set))
}

fn what_of(framing: u8) -> Result<What> {
    Ok(match framing {
        1 => What::Transaction,
        2 => What::Statement,
        3 => What::XaPrepare,
        4 => What::Empty,
        5 => What::CreateAndFill,
        6 => What::Change,
        n => return Err(damaged(format!("attachment: framing {n}"))),
    })
}

fn parse_origin(r: &mut Reader<'_>) -> Result<Origin> {
    Ok(Origin {
        commit_micros: r.u64()?,
        server_version: r.u32()?,
        server_id: r.u32()?,
    })
}

fn parse_spooled(r: &mut Reader<'_>) -> Result<Spooled> {
    Ok(Spooled {
        id: SpoolId(r.u64()?),
        bytes: r.u64()?,
        events: r.u64()?,
        body_bytes: r.u64()?,
        checksum: r.u32()?,
    })
}

/// The keys of a write set, which end the head.
fn parse_keys(r: &mut Reader<'_>) -> Result<Vec<u64>> {
    let count = r.varint()?;
    if count.checked_mul(8) != Some(r.len() as u64) {
        return Err(damaged("attachment: write set"));
    }
    (0..count).map(|_| r.u64()).collect()
}

fn parse_tag(r: &mut Reader<'_>) -> Result<Tag> {
    let tag = std::str::from_utf8(r.short_bytes()?).ok();
    tag.and_then(Tag::new)
        .ok_or_else(|| damaged("attachment: tag"))
}

fn parse_gtid(r: &mut Reader<'_>) -> Result<Gtid> {
    let sid = Sid(r.array()?);
    let tag = parse_tag(r)?;
    let source = Source { sid, tag };
    Ok(Gtid {
        source,
        gno: r.u64()?,
    })
}
