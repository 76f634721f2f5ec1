//! Events: header, body, checksum.
//!
//! ```text
//! timestamp u32 | type u8 | server id u32 | length u32 | end position u32 | flags u16 | body | [CRC-32]
//! ```
//! The modules have the bodies: [`format`] (what a file begins with), [`group`] (what frames a transaction), [`query`],
//! [`table_map`], [`rows`], [`variables`] (what a statement depends on), [`payload`] (a compressed transaction),
//! [`control`] (the small ones), and [`info`] puts them in words. Neighbours: `derive` writes events, `files` checks
//! them, `esker inspect` and replicas read them. **Invariants**: [`frame`] and [`Event::parse`] are each other's
//! inverse; a length or checksum that is wrong is an error.

pub mod control;
pub mod format;
pub mod group;
pub mod info;
pub mod payload;
pub mod query;
pub mod rows;
pub mod table_map;
pub mod variables;

use crate::bytes::{Put, Reader};
use crate::{Result, damaged};

/// Bytes before the body of an event.
pub const HEADER_BYTES: usize = 19;
/// Bytes of a CRC-32 behind the body.
pub const CHECKSUM_BYTES: usize = 4;
/// The longest event that is read: MySQL's `replica_max_allowed_packet`.
pub const MAX_EVENT_BYTES: u32 = 1 << 30;
/// Where the length stands in a header.
const LENGTH_AT: usize = 9;

/// Set on the first event of a file that is being written.
pub const FLAG_IN_USE: u16 = 0x1;
/// The statement does not depend on the default database.
pub const FLAG_SUPPRESS_USE: u16 = 0x8;
/// The event is not in a file; it was made for a stream.
pub const FLAG_ARTIFICIAL: u16 = 0x20;
/// Readers that do not know the event may skip it.
pub const FLAG_IGNORABLE: u16 = 0x80;

/// Types of events, with MySQL's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are MySQL's")]
pub enum EventType {
    Query = 2,
    Stop = 3,
    Rotate = 4,
    FormatDescription = 15,
    Xid = 16,
    TableMap = 19,
    Incident = 26,
    Heartbeat = 27,
    RowsQuery = 29,
    WriteRows = 30,
    UpdateRows = 31,
    DeleteRows = 32,
    Gtid = 33,
    AnonymousGtid = 34,
    PreviousGtids = 35,
    XaPrepare = 38,
    PartialUpdateRows = 39,
    TransactionPayload = 40,
    HeartbeatV2 = 41,
    GtidTagged = 42,
}

impl EventType {
    /// Every type this crate knows, with the name that SHOW BINLOG EVENTS gives it.
    const NAMES: &[(Self, &str)] = &[
        (Self::Query, "Query"),
        (Self::Stop, "Stop"),
        (Self::Rotate, "Rotate"),
        (Self::FormatDescription, "Format_desc"),
        (Self::Xid, "Xid"),
        (Self::TableMap, "Table_map"),
        (Self::Incident, "Incident"),
        (Self::Heartbeat, "Heartbeat"),
        (Self::RowsQuery, "Rows_query"),
        (Self::WriteRows, "Write_rows"),
        (Self::UpdateRows, "Update_rows"),
        (Self::DeleteRows, "Delete_rows"),
        (Self::Gtid, "Gtid"),
        (Self::AnonymousGtid, "Anonymous_Gtid"),
        (Self::PreviousGtids, "Previous_gtids"),
        (Self::XaPrepare, "XA_prepare"),
        (Self::PartialUpdateRows, "Update_rows_partial"),
        (Self::TransactionPayload, "Transaction_payload"),
        (Self::HeartbeatV2, "Heartbeat"),
        (Self::GtidTagged, "Gtid_tagged_log_event"),
    ];

    /// The type of this number, if it is known.
    pub fn of(number: u8) -> Option<Self> {
        Self::NAMES
            .iter()
            .map(|(kind, _)| *kind)
            .find(|kind| *kind as u8 == number)
    }

    /// Its name in SHOW BINLOG EVENTS.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, name)| name)
    }
}

/// What stands behind every body of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// Nothing.
    None,
    /// CRC-32 of header and body.
    #[default]
    Crc32,
}

impl Checksum {
    /// Bytes of it.
    pub fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Crc32 => CHECKSUM_BYTES,
        }
    }

    /// Has it none?
    pub fn is_empty(self) -> bool {
        self == Self::None
    }
}

/// What an event says of itself, besides its length and end position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// When the statement began, seconds since the epoch.
    pub timestamp: u32,
    /// The server on which it was executed first.
    pub server_id: u32,
    /// Flags.
    pub flags: u16,
}

/// Bytes that an event with this body takes.
pub fn event_bytes(body: usize, checksum: Checksum) -> usize {
    HEADER_BYTES + body + checksum.len()
}

/// Appends an event that starts at `position` of its file.
pub fn frame(
    kind: EventType,
    stamp: Stamp,
    position: u64,
    body: &[u8],
    checksum: Checksum,
    out: &mut Vec<u8>,
) {
    frame_number(kind as u8, stamp, position, body, checksum, out);
}

/// The same for any number of a type.
pub(crate) fn frame_number(
    kind: u8,
    stamp: Stamp,
    position: u64,
    body: &[u8],
    checksum: Checksum,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let length = event_bytes(body.len(), checksum);
    out.reserve(length);
    out.u32(stamp.timestamp);
    out.u8(kind);
    out.u32(stamp.server_id);
    out.u32(length as u32);
    // The field has 32 bits; beyond 4 GiB readers count for themselves, as they do for MySQL.
    out.u32(position.wrapping_add(length as u64) as u32);
    out.u16(stamp.flags);
    out.bytes(body);
    if checksum == Checksum::Crc32 {
        let crc = crc32fast::hash(&out[start..]);
        out.u32(crc);
    }
    debug_assert_eq!(out.len() - start, length);
}

/// The header of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What every writer says.
    pub stamp: Stamp,
    /// Number of the type.
    pub kind: u8,
    /// Bytes of the whole event.
    pub length: u32,
    /// Where it ends in its file; 0 if it is in none.
    pub end: u32,
}

impl Header {
    /// Reads a header.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let timestamp = r.u32()?;
        let kind = r.u8()?;
        let server_id = r.u32()?;
        let (length, end, flags) = (r.u32()?, r.u32()?, r.u16()?);
        if (length as usize) < HEADER_BYTES || length > MAX_EVENT_BYTES {
            return Err(damaged(format!("event: length {length}")));
        }
        let stamp = Stamp {
            timestamp,
            server_id,
            flags,
        };
        Ok(Self {
            stamp,
            kind,
            length,
            end,
        })
    }

    /// The type, if it is known.
    pub fn event_type(&self) -> Option<EventType> {
        EventType::of(self.kind)
    }
}

/// An event whose checksum was right.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Its header.
    pub header: Header,
    /// Its body, without checksum.
    pub body: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads the event at the beginning of `bytes`.
    pub fn parse(bytes: &'a [u8], checksum: Checksum) -> Result<Self> {
        let header = Header::parse(bytes)?;
        let whole = bytes
            .get(..header.length as usize)
            .ok_or_else(|| damaged("event: it is cut off"))?;
        let checksum = match header.event_type() {
            // Always has one: a reader learns only from it what the others have.
            Some(EventType::FormatDescription) => Checksum::Crc32,
            _ => checksum,
        };
        let body_end = whole
            .len()
            .checked_sub(checksum.len())
            .filter(|end| *end >= HEADER_BYTES)
            .ok_or_else(|| damaged("event: no room for a checksum"))?;
        if checksum == Checksum::Crc32 {
            let mut r = Reader::new(&whole[body_end..]);
            if r.u32()? != crc_of(&whole[..body_end], header) {
                return Err(damaged("event: wrong checksum"));
            }
        }
        Ok(Self {
            header,
            body: &whole[HEADER_BYTES..body_end],
        })
    }
}

/// The checksum of a header and body. It does not cover the flag that is cleared when a file is closed.
fn crc_of(bytes: &[u8], header: Header) -> u32 {
    if header.kind != EventType::FormatDescription as u8 || header.stamp.flags & FLAG_IN_USE == 0 {
        return crc32fast::hash(bytes);
    }
    let mut head = [0; HEADER_BYTES];
    head.copy_from_slice(&bytes[..HEADER_BYTES]);
    head[HEADER_BYTES - 2] &= !(FLAG_IN_USE as u8);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head);
    crc.update(&bytes[HEADER_BYTES..]);
    crc.finalize()
}

/// Length of the event whose header begins `bytes`, if that much of it is there.
pub fn peek_length(bytes: &[u8]) -> Option<u32> {
    let length = bytes.get(LENGTH_AT..LENGTH_AT + 4)?;
    Some(u32::from_le_bytes([
        length[0], length[1], length[2], length[3],
    ]))
}
