//! What MariaDB's replicas get instead of events that they do not know.
//!
//! Neighbours: the stream in the parent asks for every event that [`MariaDb::looks_at`] names.
//!
//! A replica that counts positions gets every event at its place; only statements are changed: collations whose
//! numbers MariaDB does not know, and CREATE TABLE … START TRANSACTION. One that counts MariaDB's GTIDs gets `GTID`
//! (162) for our GTID and BEGIN, with the number of the transaction in domain 0.
//!
//! **Invariants**
//! - Without GTIDs the length of an event stays, so that positions are ours.
//! - The number of a transaction is that of its XID event: it grows by one with every group.

use crate::derive::FILLED;
use crate::event::format::FormatDescription;
use crate::event::query::{Query, collations};
use crate::event::{self, Checksum, Event, EventType, Stamp, payload};
use crate::{Result, damaged};

/// MariaDB's numbers of events.
const GTID_EVENT: u8 = 162;
const GTID_LIST_EVENT: u8 = 163;
/// The last type whose header length its replicas want to know.
const LAST_EVENT: u8 = 171;
/// Flags of its GTIDs: one statement without end; a transaction; DDL.
const STANDALONE: u8 = 1;
const TRANSACTIONAL: u8 = 4;
const DDL: u8 = 32;
/// utf8mb4_general_ci, which stands for the collations of MySQL 8.0.
const GENERAL_CI: u16 = 45;
/// The first of them.
const FIRST_UNKNOWN_COLLATION: u16 = 255;
const BEGIN: &[u8] = b"BEGIN";

/// What becomes of an event.
pub(super) enum Sent {
    /// It is sent.
    AsIs,
    /// It belongs to a transaction that the replica has.
    Known,
    /// It is not sent.
    Nothing,
    /// These are sent.
    Made(Vec<u8>),
}

/// The state of a stream.
#[derive(Debug)]
pub(super) struct MariaDb {
    gtids: Option<Gtids>,
}

#[derive(Debug)]
struct Gtids {
    /// Number of the last group that was read.
    ordinal: u64,
    /// Number of the last transaction that the replica has.
    known: u64,
    /// A GTID was read; what stands behind it says which kind of group it is.
    open: Option<Stamp>,
    server_id: u32,
}

impl MariaDb {
    /// For a replica that counts positions.
    pub(super) fn by_position() -> Self {
        Self { gtids: None }
    }

    /// For a replica that has everything up to the transaction `known`; `ordinal` is the last one before the file.
    pub(super) fn by_gtid(ordinal: u64, known: u64, server_id: u32) -> Self {
        let gtids = Gtids {
            ordinal,
            known,
            open: None,
            server_id,
        };
        Self { gtids: Some(gtids) }
    }

    /// Does it have a say in events of this type?
    pub(super) fn looks_at(&self, kind: EventType) -> bool {
        match kind {
            EventType::Query => true,
            EventType::Gtid
            | EventType::GtidTagged
            | EventType::AnonymousGtid
            | EventType::PreviousGtids
            | EventType::TransactionPayload => self.gtids.is_some(),
            _ => false,
        }
    }

    /// The format description as a replica wants it that is to read our events and MariaDB's, and after it the list of
    /// what it has.
    pub(super) fn format_description(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(gtids) = &self.gtids else {
            return Ok(None);
        };
        let event = Event::parse(bytes, Checksum::Crc32)?;
        let format = FormatDescription::parse(event.body)?;
        let lengths_end = event.body.len() - 1;
        let mut body = event.body[..lengths_end].to_vec();
        let known = (lengths_end - FormatDescription::FIXED_BYTES) as u8;
        body.extend((known + 1..=LAST_EVENT).map(header_length));
        body.push(event.body[lengths_end]);
        let mut made = Vec::new();
        let number = EventType::FormatDescription as u8;
        put(
            number,
            event.header.stamp,
            0,
            &body,
            Checksum::Crc32,
            &mut made,
        );
        let mut list = Vec::new();
        if gtids.ordinal > 0 {
            list.extend_from_slice(&1u32.to_le_bytes());
            list.extend_from_slice(&0u32.to_le_bytes());
            list.extend_from_slice(&gtids.server_id.to_le_bytes());
            list.extend_from_slice(&gtids.ordinal.to_le_bytes());
        } else {
            list.extend_from_slice(&0u32.to_le_bytes());
        }
        let stamp = event.header.stamp;
        put(GTID_LIST_EVENT, stamp, 0, &list, format.checksum, &mut made);
        Ok(Some(made))
    }

    /// What is sent for an event that starts at `start`.
    pub(super) fn translate(
        &mut self,
        kind: EventType,
        event: &Event<'_>,
        start: u64,
        checksum: Checksum,
    ) -> Result<Sent> {
        let Some(gtids) = &mut self.gtids else {
            return as_mariadb_reads(event, checksum);
        };
        match kind {
            EventType::PreviousGtids => Ok(Sent::Nothing),
            EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid => {
                gtids.ordinal += 1;
                if gtids.ordinal <= gtids.known {
                    return Ok(Sent::Known);
                }
                gtids.open = Some(event.header.stamp);
                Ok(Sent::Nothing)
            }
            _ if gtids.ordinal <= gtids.known => Ok(Sent::Known),
            EventType::TransactionPayload => gtids.unpack(event, checksum),
            _ => gtids.statement(event, start, checksum),
        }
    }
}

impl Gtids {
    /// A statement: the first one of a group gets MariaDB's GTID before it, or becomes it.
    fn statement(&mut self, event: &Event<'_>, start: u64, checksum: Checksum) -> Result<Sent> {
        let Some(stamp) = self.open.take() else {
            return as_mariadb_reads(event, checksum);
        };
        let text = Query::parse(event.body)?.text;
        let mut made = Vec::new();
        if text == BEGIN {
            let end = u64::from(event.header.end);
            self.put_gtid(stamp, TRANSACTIONAL, end, checksum, &mut made);
            return Ok(Sent::Made(made));
        }
        if text.starts_with(b"XA ") {
            return Err(damaged("XA transaction: MariaDB's replicas cannot read it"));
        }
        self.put_gtid(stamp, STANDALONE | DDL, start, checksum, &mut made);
        match as_mariadb_reads(event, checksum)? {
            Sent::Made(changed) => made.extend_from_slice(&changed),
            _ => put_again(event, u64::from(event.header.end), checksum, &mut made),
        }
        Ok(Sent::Made(made))
    }

    fn put_gtid(&self, stamp: Stamp, flags: u8, end: u64, checksum: Checksum, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        body.extend_from_slice(&self.ordinal.to_le_bytes());
        // The domain.
        body.extend_from_slice(&0u32.to_le_bytes());
        body.push(flags);
        // No number of a group commit.
        body.extend_from_slice(&[0; 6]);
        put(GTID_EVENT, stamp, end, &body, checksum, out);
    }

    /// The events of a compressed transaction.
    fn unpack(&mut self, event: &Event<'_>, checksum: Checksum) -> Result<Sent> {
        let inner = payload::parse(event.body)?;
        let end = u64::from(event.header.end);
        let mut made = Vec::new();
        if let Some(stamp) = self.open.take() {
            self.put_gtid(stamp, TRANSACTIONAL, 0, checksum, &mut made);
        }
        let mut rest = &inner[..];
        while !rest.is_empty() {
            let one = Event::parse(rest, Checksum::None)?;
            rest = &rest[one.header.length as usize..];
            let is_query = one.header.event_type() == Some(EventType::Query);
            if is_query && Query::parse(one.body)?.text == BEGIN {
                continue;
            }
            put_again(&one, end, checksum, &mut made);
        }
        Ok(Sent::Made(made))
    }
}

/// A statement of the same length in which MariaDB knows every collation and word.
fn as_mariadb_reads(event: &Event<'_>, checksum: Checksum) -> Result<Sent> {
    let mut body = event.body.to_vec();
    let mut is_changed = false;
    let text = Query::parse(event.body)?.text;
    if text.starts_with(b"CREATE TABLE ") && text.ends_with(FILLED) {
        // The table is part of the transaction in MariaDB's own log, too, without a word about it.
        let at = body.len() - FILLED.len();
        body[at..].fill(b' ');
        is_changed = true;
    }
    for at in collations(event.body)? {
        let place = &mut body[at..at + 2];
        if u16::from_le_bytes([place[0], place[1]]) >= FIRST_UNKNOWN_COLLATION {
            place.copy_from_slice(&GENERAL_CI.to_le_bytes());
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(Sent::AsIs);
    }
    let mut made = Vec::new();
    let (kind, stamp, end) = (event.header.kind, event.header.stamp, event.header.end);
    put(kind, stamp, end.into(), &body, checksum, &mut made);
    Ok(Sent::Made(made))
}

fn put_again(event: &Event<'_>, end: u64, checksum: Checksum, out: &mut Vec<u8>) {
    let (kind, stamp) = (event.header.kind, event.header.stamp);
    put(kind, stamp, end, event.body, checksum, out);
}

/// Appends an event that tells `end` as its end.
fn put(kind: u8, stamp: Stamp, end: u64, body: &[u8], checksum: Checksum, out: &mut Vec<u8>) {
    let length = event::event_bytes(body.len(), checksum) as u64;
    event::frame_number(kind, stamp, end.wrapping_sub(length), body, checksum, out);
}

/// Bytes of the fixed part of events behind those of MySQL.
fn header_length(kind: u8) -> u8 {
    match kind {
        161 | 163 => 4,
        162 => 19,
        165 => 13,
        166..=168 => 8,
        169..=171 => 10,
        _ => 0,
    }
}
