//! What one consumer gets: events from a place on, framed as packets, for as long as it listens.
//!
//! In flow order: `start` finds the place, `reader` reads the file there, [`Stream`] says what is sent, `leaves` what
//! may be, `mariadb` what becomes of it for a replica of that make, and `asked` what is to be acknowledged. Neighbours:
//! `files` shows how far a file may be read; `sql` knows who may have a stream; the server sends the packets.
//!
//! ```text
//! ROTATE (made up) | FORMAT_DESCRIPTION | events … | ROTATE (made up) | FORMAT_DESCRIPTION | events … | HEARTBEAT …
//! ```
//!
//! **Invariants**
//! - Events leave as they stand in the file, checksum included; a consumer learns from the format description whether
//!   there is one. Only the flag that says that the file is being written is cleared. MariaDB's replicas are the
//!   exception.
//! - Nothing is sent that is not synced: no crash can make other bytes of what a consumer has.
//! - Memory is bounded: [`CHUNK`](reader::CHUNK) for the file, and what the sink is asked to gather. A longer event
//!   passes in pieces; a longer statement that MariaDB gets does not.

mod asked;
mod leaves;
mod mariadb;
mod reader;
mod start;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use esker_vfs::Fs;

use crate::event::control::{Rotate, write_heartbeat, write_heartbeat_v2};
use crate::event::format::FormatDescription;
use crate::event::group::GtidEvent;
use crate::event::{
    self, CHECKSUM_BYTES, Checksum, Event, EventType, FLAG_ARTIFICIAL, FLAG_IN_USE, HEADER_BYTES,
    Header, MAX_EVENT_BYTES, Stamp,
};
use crate::files::{FIRST_EVENT, FileInfo, FileNumber, Names, Newer, Published, Reading, View};
use crate::gtid::{GtidSet, Sid};
use asked::{is_asked_for, is_of_transaction};
pub use leaves::Leaves;
use mariadb::{MariaDb, Sent};
use reader::{CHUNK, Reader};

/// The byte before every event of a stream: no error, no end.
const OK: u8 = 0;
/// What stands behind it for a replica that acknowledges, with whether it is to do so for this event.
const SEMI_SYNC: u8 = 0xef;
/// Where flags and the end position stand in a header.
const FLAGS_AT: usize = 17;
const END_AT: usize = 13;
/// Where the time of the server's start stands in a format description.
const CREATED_AT: usize = HEADER_BYTES + 2 + 50;

/// A request for a stream.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where to begin.
    pub from: From,
    /// What the consumer says that it can check; `None`: it does not know of checksums.
    pub checksum: Option<Checksum>,
    /// A heartbeat comes when there was nothing else for this long.
    pub heartbeat: Option<Duration>,
    /// The consumer acknowledges what it has.
    pub acknowledges: bool,
    /// The consumer has said that it is MariaDB's.
    pub is_mariadb: bool,
    /// Heartbeats are of the second kind, whose position has 64 bits.
    pub heartbeat_v2: bool,
}

/// Where a stream begins.
#[derive(Debug, Clone)]
pub enum From {
    /// At an event of a file; an empty name: the first file.
    Position {
        /// Name of the file.
        file: String,
        /// Where the event starts.
        position: u64,
    },
    /// With everything that is not in this set, from a place on.
    Gtids {
        /// What the consumer has.
        known: GtidSet,
        /// Name of the file; empty: the last one before which there is nothing that the consumer lacks.
        file: String,
        /// Where the event starts.
        position: u64,
    },
    /// MariaDB's GTIDs: behind the transaction of this number; `None`: at the beginning.
    MariaDb(Option<u64>),
}

/// The files that streams are made of.
#[derive(Clone)]
pub struct Log {
    /// The disk.
    pub fs: Arc<dyn Fs>,
    /// Names of the files.
    pub names: Names,
    /// How far they go.
    pub published: Arc<Published>,
    /// Who sends.
    pub server_id: u32,
    /// Whose GTIDs the server gives.
    pub sid: Sid,
    /// Which transactions may leave at the moment.
    pub leaves: Arc<dyn Fn() -> Leaves + Send + Sync>,
}

/// Why there is no stream, or no more of it; the text is MySQL's for error 1236.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

impl Refused {
    fn new(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Takes packets.
pub trait PacketSink {
    /// A packet of this many bytes begins.
    fn begin(&mut self, bytes: usize);
    /// Some of its bytes.
    fn put(&mut self, bytes: &[u8]);
    /// An event was put that the consumer is asked to acknowledge: packets are counted from 1 again.
    fn asked(&mut self);
    /// Bytes that have gathered.
    fn gathered(&self) -> usize;
}

/// Bytes that are passed over before the consumer hears how far the stream is, and a KILL is looked at.
const MOST_SKIPPED: u64 = 64 << 20;

/// What a look at the files came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The sink has enough.
    More,
    /// Everything is sent that there was in this view.
    CaughtUp(u64),
}

/// A stream to one consumer.
pub struct Stream {
    log: Log,
    request: Request,
    reading: Reading,
    number: FileNumber,
    reader: Reader,
    /// `files` began again this often when the stream began.
    resets: u64,
    /// The head of the current file is sent.
    has_begun: bool,
    /// What stands behind bodies; before the first file what the consumer has announced.
    checksum: Checksum,
    /// What of an event has not been sent yet.
    unsent: usize,
    /// The event that is sent is one to acknowledge.
    asks: bool,
    /// Where the last one ends that the consumer was asked to acknowledge.
    asked: FileInfo,
    /// How often it was asked since somebody wanted to know.
    times_asked: u64,
    /// What a consumer has without being asked: up to where it begins, and from there up to the end of what was
    /// skipped.
    has: FileInfo,
    /// Some of a transaction was sent: from now on it has what it says.
    has_sent: bool,
    /// The group that is read is one the consumer has.
    skips: bool,
    /// Where the last group that was skipped ends, if nothing was sent since.
    skipped_to: Option<u64>,
    /// What a replica of MariaDB gets instead.
    mariadb: Option<MariaDb>,
    /// Where a replica believes to be that adds up the lengths of what it gets, as MariaDB's do.
    believed: u64,
    /// The first file and position, for messages.
    first: (String, u64),
    /// Where the last whole event ended.
    last_event: u64,
}

impl Stream {
    /// Finds the place.
    ///
    /// # Errors
    /// It does not exist, or something between it and what the consumer has is purged.
    pub fn open(log: Log, request: Request) -> Result<Self, Refused> {
        // Before the look at the files, so that none of them goes meanwhile.
        let reading = log.published.begin_stream(FileNumber(0));
        let view = log.published.view();
        let (number, position) = start::find(&log, &view, &request.from)?;
        let mariadb = match &request.from {
            From::MariaDb(known) => Some(start::mariadb(&log, &view, number, *known)?),
            _ if request.is_mariadb => Some(MariaDb::by_position()),
            _ => None,
        };
        reading.move_to(number);
        let reader = Reader::open(&log, number).map_err(|_| no_first_file())?;
        let checksum = request.checksum.unwrap_or(Checksum::None);
        let first = (log.names.name(number), position);
        let mut stream = Self {
            log,
            request,
            reading,
            number,
            reader,
            resets: view.resets,
            has_begun: false,
            checksum,
            unsent: 0,
            asks: false,
            asked: FileInfo::default(),
            times_asked: 0,
            has: FileInfo {
                number,
                size: position,
            },
            has_sent: false,
            skips: false,
            skipped_to: None,
            mariadb,
            believed: position,
            first,
            last_event: FIRST_EVENT,
        };
        stream.reader.seek(position);
        Ok(stream)
    }

    /// Resolves when there may be more than in the view that [`Self::fill`] has told.
    pub fn newer(&self, view: u64) -> Newer {
        self.log.published.newer(view)
    }

    /// How long silence may last.
    pub fn heartbeat(&self) -> Option<Duration> {
        self.request.heartbeat
    }

    /// Hands out packets until about `enough` bytes have gathered.
    ///
    /// # Errors
    /// The files went, or are damaged.
    pub fn fill(&mut self, sink: &mut dyn PacketSink, enough: usize) -> Result<Progress, Refused> {
        let published = Arc::clone(&self.log.published);
        let number = self.number;
        let ((mut end, resets), generation) =
            published.look(|view| (view.sendable(number), view.resets));
        if resets != self.resets {
            return Err(self.gone());
        }
        let mut skipped = 0;
        while sink.gathered() < enough {
            let limit = end.ok_or_else(|| self.gone())?;
            if !self.has_begun {
                self.begin_file(sink, limit)?;
            }
            let from = self.reader.offset();
            if from < limit || self.unsent > 0 {
                self.step(sink, limit)?;
                if self.skips {
                    skipped += self.reader.offset() - from;
                }
                if skipped > MOST_SKIPPED {
                    self.tell_skipped(sink);
                    break;
                }
                continue;
            }
            self.tell_skipped(sink);
            // The end of a file that is followed by another one is final, so it is looked at again.
            let next = published.look(|view| (view.sendable(self.number), view.after(self.number)));
            match next.0 {
                (Some(now), _) if now > limit => end = Some(now),
                (_, Some(next)) => {
                    self.next_file(next)?;
                    end = published.look(|view| view.sendable(next)).0;
                }
                (_, None) => return Ok(Progress::CaughtUp(generation)),
            }
        }
        Ok(Progress::More)
    }

    /// Says that the stream stands still, and where.
    pub fn put_heartbeat(&self, sink: &mut dyn PacketSink) {
        let position = self.reader.offset().max(self.believed);
        self.heartbeat_at(position, sink);
    }

    fn heartbeat_at(&self, position: u64, sink: &mut dyn PacketSink) {
        let mut body = Vec::new();
        let name = self.log.names.name(self.number);
        let kind = match self.request.heartbeat_v2 {
            true => {
                write_heartbeat_v2(name.as_bytes(), position, &mut body);
                EventType::HeartbeatV2
            }
            false => {
                write_heartbeat(name.as_bytes(), &mut body);
                EventType::Heartbeat
            }
        };
        self.put_made(kind, 0, position, &body, sink);
    }

    /// Sends an event that stands in no file; `end` is the position it tells.
    fn put_made(
        &self,
        kind: EventType,
        flags: u16,
        end: u64,
        body: &[u8],
        sink: &mut dyn PacketSink,
    ) {
        let stamp = Stamp {
            timestamp: 0,
            server_id: self.log.server_id,
            flags,
        };
        let length = event::event_bytes(body.len(), self.checksum) as u64;
        let mut bytes = Vec::new();
        let start = end.wrapping_sub(length);
        event::frame(kind, stamp, start, body, self.checksum, &mut bytes);
        self.put_event(&bytes, sink);
    }

    /// Sends what every file begins with: its name, and how to read it.
    fn begin_file(&mut self, sink: &mut dyn PacketSink, limit: u64) -> Result<(), Refused> {
        let position = self.reader.offset();
        let name = self.log.names.name(self.number);
        let mut body = Vec::new();
        let rotate = Rotate {
            position,
            file: name.as_bytes(),
        };
        rotate.write(&mut body);
        self.put_made(EventType::Rotate, FLAG_ARTIFICIAL, 0, &body, sink);
        self.reader.seek(FIRST_EVENT);
        let length = FormatDescription::BYTES as u64;
        let bytes = match FIRST_EVENT + length <= limit {
            true => self.reader.peek(FormatDescription::BYTES, limit)?.to_vec(),
            false => return Err(self.failed("binlog truncated in the middle of event")),
        };
        let format = Event::parse(&bytes, Checksum::Crc32)
            .and_then(|event| FormatDescription::parse(event.body))
            .map_err(|e| self.failed(&format!("bogus data in log event: {e}")))?;
        let end = FIRST_EVENT + length;
        self.last_event = end;
        if format.checksum == Checksum::Crc32 && self.request.checksum.is_none() {
            self.reader.seek(end);
            return Err(self.failed(
                "Replica can not handle replication events with the checksum that source is configured to log",
            ));
        }
        self.checksum = format.checksum;
        let bytes = self.format_description(bytes, position);
        let made = match &self.mariadb {
            Some(dialect) => dialect.format_description(&bytes),
            None => Ok(None),
        };
        match made {
            Ok(Some(made)) => self.put_events(&made, end, sink),
            Ok(None) => self.put_event(&bytes, sink),
            Err(e) => return Err(self.failed(&e.to_string())),
        }
        self.believed = position.max(end);
        if position == FIRST_EVENT {
            self.reader.seek(end);
        } else {
            self.reader.seek(position);
        }
        self.has_begun = true;
        Ok(())
    }

    /// The format description as it is sent.
    fn format_description(&self, mut bytes: Vec<u8>, position: u64) -> Vec<u8> {
        bytes[FLAGS_AT] &= !(FLAG_IN_USE as u8);
        let is_first = self.first == (self.log.names.name(self.number), position);
        let has_some = match &self.request.from {
            From::Gtids { known, .. } => position > FIRST_EVENT || is_first && !known.is_empty(),
            From::Position { .. } => position > FIRST_EVENT,
            From::MariaDb(known) => is_first && known.is_some(),
        };
        if has_some {
            // What the consumer has of a transaction that is open, and its temporary tables, stay.
            bytes[CREATED_AT..CREATED_AT + 4].fill(0);
            if position > FIRST_EVENT && !matches!(self.request.from, From::Gtids { .. }) {
                bytes[END_AT..END_AT + 4].fill(0);
            }
            let body_end = bytes.len() - CHECKSUM_BYTES;
            let crc = crc32fast::hash(&bytes[..body_end]);
            bytes[body_end..].copy_from_slice(&crc.to_le_bytes());
        }
        bytes
    }

    /// Sends the next event, or what goes of it.
    fn step(&mut self, sink: &mut dyn PacketSink, limit: u64) -> Result<(), Refused> {
        if self.unsent > 0 {
            let piece = self.reader.take_some(self.unsent, limit)?;
            if !self.skips {
                sink.put(piece);
            }
            self.unsent -= piece.len();
            let end = self.last_event;
            self.has_put(end, sink);
            return Ok(());
        }
        let header = self.next_header(limit)?;
        let (length, kind) = (header.length as usize, header.event_type());
        if kind.is_some_and(|kind| matches!(kind, EventType::Rotate | EventType::Stop)) {
            self.skips = false;
        }
        if let Some(kind) = kind.filter(|_| self.mariadb.is_none()) {
            self.check_mode(kind)?;
        }
        if let (From::Gtids { .. }, Some(kind)) = (&self.request.from, kind) {
            self.skips = self.is_known(kind, length, limit)?;
        }
        let by_gtids = matches!(self.request.from, From::Gtids { .. });
        if let (Some(dialect), Some(kind)) = (&self.mariadb, kind)
            && dialect.looks_at(kind)
            && !(by_gtids && self.skips)
        {
            return self.translate(kind, length, limit, sink);
        }
        let end = self.reader.offset() + length as u64;
        if self.skips {
            self.skip_to(end);
        } else {
            self.has_sent |= kind.is_some_and(is_of_transaction);
            self.tell_skipped(sink);
            self.asks = end == limit && kind.is_some_and(is_asked_for);
            self.begin_packet(length, sink);
            self.believed = end.max(self.believed + length as u64);
        }
        let whole = length.min(CHUNK);
        let bytes = self.reader.peek(whole, limit)?;
        if !self.skips {
            sink.put(bytes);
        }
        self.reader.seek(self.reader.offset() + whole as u64);
        self.unsent = length - whole;
        self.last_event = end;
        self.has_put(end, sink);
        Ok(())
    }

    /// The header of the next event, which is there as a whole.
    fn next_header(&mut self, limit: u64) -> Result<Header, Refused> {
        let (offset, left) = (self.reader.offset(), limit - self.reader.offset());
        let length = match left < HEADER_BYTES as u64 {
            true => None,
            false => event::peek_length(self.reader.peek(HEADER_BYTES, limit)?),
        };
        let behind_header = offset + HEADER_BYTES as u64;
        let (at, why) = match length {
            Some(length) if (length as usize) < HEADER_BYTES => {
                (behind_header, "bogus data in log event")
            }
            Some(length) if length > MAX_EVENT_BYTES => (
                behind_header,
                "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source",
            ),
            Some(length) if u64::from(length) <= left => {
                let header = Header::parse(self.reader.peek(HEADER_BYTES, limit)?);
                return header.map_err(|e| self.failed(&format!("bogus data in log event: {e}")));
            }
            _ => (
                limit,
                "binlog truncated in the middle of event; consider out of disk space on source",
            ),
        };
        self.reader.seek(at);
        Err(self.failed(why))
    }

    /// Begins the packet of an event.
    fn begin_packet(&self, length: usize, sink: &mut dyn PacketSink) {
        let prefix = [OK, SEMI_SYNC, self.asks.into()];
        let prefix = match self.request.acknowledges {
            true => &prefix[..],
            false => &prefix[..1],
        };
        sink.begin(prefix.len() + length);
        sink.put(prefix);
    }

    /// Sends an event that is whole and needs no acknowledgement.
    fn put_event(&self, bytes: &[u8], sink: &mut dyn PacketSink) {
        debug_assert!(!self.asks);
        self.begin_packet(bytes.len(), sink);
        sink.put(bytes);
    }

    /// Sends events that stand one behind the other; the last one ends at `end`.
    fn put_events(&mut self, bytes: &[u8], end: u64, sink: &mut dyn PacketSink) {
        let asks = std::mem::take(&mut self.asks);
        let mut rest = bytes;
        while let Some(length) = event::peek_length(rest) {
            let (one, others) = rest.split_at((length as usize).min(rest.len()));
            self.asks = asks && others.is_empty();
            self.begin_packet(one.len(), sink);
            sink.put(one);
            rest = others;
        }
        self.has_put(end, sink);
    }

    /// Sends what a replica of MariaDB gets for the next event.
    fn translate(
        &mut self,
        kind: EventType,
        length: usize,
        limit: u64,
        sink: &mut dyn PacketSink,
    ) -> Result<(), Refused> {
        let start = self.reader.offset();
        let bytes = self.reader.take_whole(length, limit)?;
        let checksum = self.checksum;
        let sent = match (&mut self.mariadb, Event::parse(&bytes, checksum)) {
            (Some(dialect), Ok(event)) => dialect.translate(kind, &event, start, checksum),
            (None, _) => Ok(Sent::AsIs),
            (_, Err(e)) => Err(e),
        };
        let sent = sent.map_err(|e| self.failed(&e.to_string()))?;
        let end = start + length as u64;
        self.last_event = end;
        self.skips = matches!(sent, Sent::Known);
        let made = match sent {
            Sent::AsIs => bytes,
            Sent::Made(made) => made,
            Sent::Known => {
                self.skip_to(end);
                return Ok(());
            }
            Sent::Nothing => return Ok(()),
        };
        self.has_sent |= is_of_transaction(kind);
        self.tell_skipped(sink);
        self.asks = end == limit && is_asked_for(kind);
        self.put_events(&made, end, sink);
        self.believed = end.max(self.believed + made.len() as u64);
        Ok(())
    }

    /// Does the event belong to a transaction that the consumer has?
    fn is_known(&mut self, kind: EventType, length: usize, limit: u64) -> Result<bool, Refused> {
        let From::Gtids { known, .. } = &self.request.from else {
            return Ok(false);
        };
        match kind {
            EventType::Gtid | EventType::GtidTagged => {
                let bytes = self.reader.peek(length.min(CHUNK), limit)?;
                let parsed = Event::parse(bytes, self.checksum)
                    .and_then(|event| GtidEvent::parse(kind, event.body));
                match parsed {
                    Ok(event) => Ok(event.gtid.is_some_and(|gtid| known.contains(&gtid))),
                    Err(e) => Err(self.failed(&format!("bogus data in log event: {e}"))),
                }
            }
            EventType::AnonymousGtid => {
                Err(self.may_not_leave("anonymous transaction when AUTO_POSITION = 1"))
            }
            EventType::PreviousGtids => Ok(false),
            _ => Ok(self.skips),
        }
    }

    /// Tells how far the source is if what was there was not sent.
    fn tell_skipped(&mut self, sink: &mut dyn PacketSink) {
        if let Some(end) = self.skipped_to.take() {
            self.heartbeat_at(end, sink);
        }
    }

    fn next_file(&mut self, number: FileNumber) -> Result<(), Refused> {
        self.reader = Reader::open(&self.log, number).map_err(|_| self.gone())?;
        self.reading.move_to(number);
        self.number = number;
        self.has_begun = false;
        self.skips = false;
        Ok(())
    }

    /// Why a stream ends whose consumer has begun another one.
    pub fn superseded(&self) -> Refused {
        self.failed("A replica with the same server_uuid/server_id as this replica has connected to the source")
    }

    fn gone(&self) -> Refused {
        self.failed("could not find next log")
    }

    /// With where it happened, in MySQL's words.
    fn failed(&self, what: &str) -> Refused {
        let name = self.log.names.name(self.number);
        let (first, position) = &self.first;
        let (last, byte) = (self.last_event, self.reader.offset());
        Refused(format!(
            "{what}; the first event '{first}' at {position}, the last event read from './{name}' at {last}, the \
             last byte read from './{name}' at {byte}."
        ))
    }
}

fn no_first_file() -> Refused {
    Refused::new("Could not find first log file name in binary log index file")
}

/// What a stream needs of a view.
fn number_of(log: &Log, view: &View, file: &str) -> Option<FileNumber> {
    let number = log.names.number_of_path(file)?;
    view.sendable(number).map(|_| number)
}
