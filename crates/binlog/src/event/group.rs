//! What frames a transaction: its GTID at the beginning, and XID or XA PREPARE at the end.
//!
//! Neighbours: `derive` writes a GTID before every group; `gtid` has the sets.
//! **Invariants**: a GTID without a tag is written as type 33, which every version reads; one with a tag as type 42.

use std::fmt;

use super::{Checksum, EventType, event_bytes};
use crate::bytes::{Put, Reader};
use crate::gtid::{Gtid, GtidSet, Sid, Source, Tag};
use crate::{Result, damaged};

/// Logical timestamps follow.
const LOGICAL_CLOCK: u8 = 2;
/// Bytes of the body without a tag of a transaction that began here and is of a usual size.
const USUAL_BODY_BYTES: usize = 56;
/// The group may have statements, not only rows.
const MAY_HAVE_STATEMENTS: u8 = 1;
/// In the commit time: the original one follows.
const HAS_ORIGINAL_TIME: u64 = 1 << 55;
/// In the server version: the original one follows.
const HAS_ORIGINAL_VERSION: u32 = 1 << 31;

/// The GTID event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GtidEvent {
    /// The transaction; `None`: anonymous.
    pub gtid: Option<Gtid>,
    /// It has only changes of rows.
    pub rows_only: bool,
    /// Sequence number of the last transaction that must be committed before this one may run.
    pub last_committed: i64,
    /// Its own sequence number in this file.
    pub sequence_number: i64,
    /// When it was committed here, microseconds since the epoch.
    pub commit_micros: u64,
    /// The same where it was committed first.
    pub original_commit_micros: u64,
    /// Bytes of all events of the transaction, this one too.
    pub transaction_bytes: u64,
    /// Version of this server: `80400` is 8.4.0.
    pub server_version: u32,
    /// The same where it was committed first.
    pub original_server_version: u32,
}

impl GtidEvent {
    /// The type it is written as.
    pub fn event_type(&self) -> EventType {
        match &self.gtid {
            None => EventType::AnonymousGtid,
            Some(gtid) if gtid.source.tag.is_empty() => EventType::Gtid,
            Some(_) => EventType::GtidTagged,
        }
    }

    /// Sets `transaction_bytes` to that of a transaction whose other events take `others` bytes; then the body.
    pub fn body_before(&mut self, others: u64, checksum: Checksum) -> Vec<u8> {
        let mut body = Vec::with_capacity(USUAL_BODY_BYTES);
        // The number counts its own bytes.
        self.transaction_bytes = others;
        loop {
            body.clear();
            self.write(&mut body);
            let total = others + event_bytes(body.len(), checksum) as u64;
            if total == self.transaction_bytes {
                return body;
            }
            self.transaction_bytes = total;
        }
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.gtid {
            Some(gtid) if !gtid.source.tag.is_empty() => self.write_tagged(gtid, out),
            gtid => self.write_plain(gtid.as_ref(), out),
        }
    }

    fn write_plain(&self, gtid: Option<&Gtid>, out: &mut Vec<u8>) {
        out.u8(if self.rows_only {
            0
        } else {
            MAY_HAVE_STATEMENTS
        });
        out.bytes(&gtid.map_or([0; 16], |g| g.source.sid.0));
        out.u64(gtid.map_or(0, |g| g.gno));
        out.u8(LOGICAL_CLOCK);
        out.u64(self.last_committed as u64);
        out.u64(self.sequence_number as u64);
        match self.original_commit_micros == self.commit_micros {
            true => out.uint(self.commit_micros & !HAS_ORIGINAL_TIME, 7),
            false => {
                out.uint(self.commit_micros | HAS_ORIGINAL_TIME, 7);
                out.uint(self.original_commit_micros, 7);
            }
        }
        out.packed(self.transaction_bytes);
        match self.original_server_version == self.server_version {
            true => out.u32(self.server_version & !HAS_ORIGINAL_VERSION),
            false => {
                out.u32(self.server_version | HAS_ORIGINAL_VERSION);
                out.u32(self.original_server_version);
            }
        }
    }

    /// Reads the body of types 33, 34 and 42.
    pub fn parse(kind: EventType, body: &[u8]) -> Result<Self> {
        match kind {
            EventType::GtidTagged => Self::parse_tagged(body),
            _ => Self::parse_plain(kind, body),
        }
    }

    fn parse_plain(kind: EventType, body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        let flags = r.u8()?;
        let source = Source::untagged(Sid(r.array()?));
        let gno = r.u64()?;
        if r.u8()? != LOGICAL_CLOCK {
            return Err(damaged("GTID event: no logical timestamps"));
        }
        let (last_committed, sequence_number) = (r.u64()? as i64, r.u64()? as i64);
        let time = r.uint(7)?;
        let commit_micros = time & !HAS_ORIGINAL_TIME;
        let original_commit_micros = match time & HAS_ORIGINAL_TIME {
            0 => commit_micros,
            _ => r.uint(7)?,
        };
        let transaction_bytes = r.packed()?;
        let version = r.u32()?;
        let server_version = version & !HAS_ORIGINAL_VERSION;
        let original_server_version = match version & HAS_ORIGINAL_VERSION {
            0 => server_version,
            _ => r.u32()?,
        };
        Ok(Self {
            gtid: (kind == EventType::Gtid).then_some(Gtid { source, gno }),
            rows_only: flags & MAY_HAVE_STATEMENTS == 0,
            last_committed,
            sequence_number,
            commit_micros,
            original_commit_micros,
            transaction_bytes,
            server_version,
            original_server_version,
        })
    }
}

// The tagged form is a message of fields: form, length, the last field that may not be skipped, then `id value` each.
// Integers have as many ones at the low end of their first byte as there are bytes behind it; signed ones are zigzag.
const MESSAGE_FORM: u64 = 1;
const FIELD_FLAGS: u64 = 0;
const FIELD_SID: u64 = 1;
const FIELD_GNO: u64 = 2;
const FIELD_TAG: u64 = 3;
const FIELD_LAST_COMMITTED: u64 = 4;
const FIELD_SEQUENCE: u64 = 5;
const FIELD_COMMIT: u64 = 6;
const FIELD_ORIGINAL_COMMIT: u64 = 7;
const FIELD_BYTES: u64 = 8;
const FIELD_VERSION: u64 = 9;
const FIELD_ORIGINAL_VERSION: u64 = 10;

impl GtidEvent {
    fn write_tagged(&self, gtid: &Gtid, out: &mut Vec<u8>) {
        let mut fields = Vec::with_capacity(96);
        let f = &mut fields;
        put_number(f, FIELD_FLAGS);
        put_number(f, u64::from(!self.rows_only));
        put_number(f, FIELD_SID);
        for byte in gtid.source.sid.0 {
            put_number(f, byte.into());
        }
        put_number(f, FIELD_GNO);
        put_number(f, zigzag(gtid.gno as i64));
        put_number(f, FIELD_TAG);
        put_number(f, gtid.source.tag.as_str().len() as u64);
        f.bytes(gtid.source.tag.as_str().as_bytes());
        put_number(f, FIELD_LAST_COMMITTED);
        put_number(f, zigzag(self.last_committed));
        put_number(f, FIELD_SEQUENCE);
        put_number(f, zigzag(self.sequence_number));
        put_number(f, FIELD_COMMIT);
        put_number(f, self.commit_micros);
        if self.original_commit_micros != self.commit_micros {
            put_number(f, FIELD_ORIGINAL_COMMIT);
            put_number(f, self.original_commit_micros);
        }
        put_number(f, FIELD_BYTES);
        put_number(f, self.transaction_bytes);
        put_number(f, FIELD_VERSION);
        put_number(f, self.server_version.into());
        if self.original_server_version != self.server_version {
            put_number(f, FIELD_ORIGINAL_VERSION);
            put_number(f, self.original_server_version.into());
        }
        // The length counts the form, itself and the last field that may not be skipped.
        let mut head = Vec::new();
        let mut total = 0;
        while head.len() + fields.len() != total {
            total = head.len() + fields.len();
            head.clear();
            put_number(&mut head, MESSAGE_FORM);
            put_number(&mut head, total as u64);
            put_number(&mut head, 0);
        }
        out.bytes(&head);
        out.bytes(&fields);
    }

    fn parse_tagged(body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        if number(&mut r)? != MESSAGE_FORM {
            return Err(damaged("tagged GTID event: unknown form"));
        }
        let (_length, _last_needed) = (number(&mut r)?, number(&mut r)?);
        let (mut sid, mut gno, mut tag, mut flags) = (None, 0, Tag::default(), 0);
        let (mut last_committed, mut sequence_number) = (0, 0);
        let (mut commit_micros, mut original_commit) = (0, None);
        let (mut transaction_bytes, mut server_version, mut original_version) = (0, 0, None);
        while !r.is_empty() {
            match number(&mut r)? {
                FIELD_FLAGS => flags = number(&mut r)?,
                FIELD_SID => sid = Some(parse_sid(&mut r)?),
                FIELD_GNO => gno = unzigzag(number(&mut r)?),
                FIELD_TAG => tag = parse_tag(&mut r)?,
                FIELD_LAST_COMMITTED => last_committed = unzigzag(number(&mut r)?),
                FIELD_SEQUENCE => sequence_number = unzigzag(number(&mut r)?),
                FIELD_COMMIT => commit_micros = number(&mut r)?,
                FIELD_ORIGINAL_COMMIT => original_commit = Some(number(&mut r)?),
                FIELD_BYTES => transaction_bytes = number(&mut r)?,
                FIELD_VERSION => server_version = number(&mut r)? as u32,
                FIELD_ORIGINAL_VERSION => original_version = Some(number(&mut r)? as u32),
                // What comes behind is newer than this reader, and may be skipped.
                _ => break,
            }
        }
        let sid = sid.ok_or_else(|| damaged("tagged GTID event: no UUID"))?;
        let source = Source { sid, tag };
        let gno = u64::try_from(gno).map_err(|_| damaged("tagged GTID event: number"))?;
        Ok(Self {
            gtid: Some(Gtid { source, gno }),
            rows_only: flags & u64::from(MAY_HAVE_STATEMENTS) == 0,
            last_committed,
            sequence_number,
            commit_micros,
            original_commit_micros: original_commit.unwrap_or(commit_micros),
            transaction_bytes,
            server_version,
            original_server_version: original_version.unwrap_or(server_version),
        })
    }
}

fn parse_sid(r: &mut Reader<'_>) -> Result<Sid> {
    let mut sid = [0; 16];
    for byte in &mut sid {
        *byte = u8::try_from(number(r)?).map_err(|_| damaged("tagged GTID event: UUID"))?;
    }
    Ok(Sid(sid))
}

fn parse_tag(r: &mut Reader<'_>) -> Result<Tag> {
    let len = usize::try_from(number(r)?).map_err(|_| damaged("tagged GTID event: tag"))?;
    let name = std::str::from_utf8(r.take(len)?).ok();
    name.and_then(Tag::new)
        .ok_or_else(|| damaged("tagged GTID event: tag"))
}

fn zigzag(v: i64) -> u64 {
    (v << 1 ^ v >> 63) as u64
}

fn unzigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}

fn put_number(out: &mut Vec<u8>, v: u64) {
    let bits = 64 - v.leading_zeros().min(63) as usize;
    let more = (bits - 1) / 7;
    match more {
        // Seven bits a byte: the ones, a zero, then the number.
        0..8 => out.uint(v << (more + 1) | ((1 << more) - 1), more + 1),
        _ => {
            out.u8(0xff);
            out.u64(v);
        }
    }
}

fn number(r: &mut Reader<'_>) -> Result<u64> {
    let first = r.u8()?;
    let more = first.trailing_ones() as usize;
    if more == 8 {
        return r.u64();
    }
    let high = r.uint(more)?;
    let low = u64::from(first) >> (more + 1);
    Ok(low | high << (7 - more))
}

/// Reads the body of PREVIOUS_GTIDS.
pub fn parse_previous_gtids(body: &[u8]) -> Result<GtidSet> {
    GtidSet::decode(body)
}

/// Reads the body of an XID event.
pub fn parse_xid(body: &[u8]) -> Result<u64> {
    Reader::new(body).u64()
}

/// The identifier of an XA transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XaPrepare {
    /// `XA COMMIT … ONE PHASE`.
    pub one_phase: bool,
    /// Its format.
    pub format: u32,
    /// Global part.
    pub gtrid: Vec<u8>,
    /// Branch.
    pub bqual: Vec<u8>,
}

impl fmt::Display for XaPrepare {
    /// As the statements of the binary log name it: `X'…',X'…',1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.gtrid, &self.bqual] {
            f.write_str("X'")?;
            part.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("',")?;
        }
        write!(f, "{}", self.format)
    }
}

impl XaPrepare {
    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.u8(self.one_phase.into());
        out.u32(self.format);
        out.u32(self.gtrid.len() as u32);
        out.u32(self.bqual.len() as u32);
        out.bytes(&self.gtrid);
        out.bytes(&self.bqual);
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        let (one_phase, format) = (r.u8()? != 0, r.u32()?);
        let (gtrid, bqual) = (r.u32()? as usize, r.u32()? as usize);
        Ok(Self {
            one_phase,
            format,
            gtrid: r.take(gtrid)?.to_vec(),
            bqual: r.take(bqual)?.to_vec(),
        })
    }
}
