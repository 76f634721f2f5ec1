//! Events to groups: where a transaction begins and ends.
//!
//! ```text
//! between ── GTID, BEGIN, XA START ──▶ open ── XID, COMMIT, ROLLBACK, XA PREPARE, a statement alone ──▶ a group, between
//!                                       └─ ROTATE, a restart of the source, the next GTID: cut off ──▶ between
//! ```
//! Neighbours: [`EventSource`](super::EventSource) yields the events; the coordinator takes the groups.
//! **Invariants**
//! - A group is given out when it is whole. One that its source has not finished (it crashed) is dropped without an
//!   ordinal, so what is cut off never waits for an end that does not come.
//! - A group's events lie in one allocation that goes with it; between groups nothing is kept but names and numbers.
//! - ROLLBACK and BEGIN, COMMIT give empty groups: their ordinals and GTIDs count. A GTID behind which nothing came is
//!   no transaction: the stream broke there, and what it names comes again.
//! - An event that cannot be applied is a part of its group: who skips the group by its GTID gets past it.

use super::boundary::{Delimiter, position_behind, starts_with};
use super::mariadb::{self, MariaGtid};
use super::{Clock, Group, Id, Incoming, Part, PartKind, Place, RowKind, Shape, compressed, load};
use crate::event::control::Rotate;
use crate::event::format::FormatDescription;
use crate::event::group::{GtidEvent, XaPrepare};
use crate::event::query::{Query, Settings};
use crate::event::{Checksum, Event, EventType, FLAG_ARTIFICIAL, FLAG_IGNORABLE, Header, payload};
use crate::{Error, Result, damaged};

/// Types that have no name in [`EventType`], for nobody here writes them.
mod number {
    pub(super) const INT_VAR: u8 = 5;
    pub(super) const APPEND_BLOCK: u8 = 9;
    pub(super) const DELETE_FILE: u8 = 11;
    pub(super) const RAND: u8 = 13;
    pub(super) const USER_VAR: u8 = 14;
    pub(super) const BEGIN_LOAD_QUERY: u8 = 17;
    pub(super) const EXECUTE_LOAD_QUERY: u8 = 18;
    pub(super) const WRITE_ROWS_V1: u8 = 23;
    pub(super) const DELETE_ROWS_V1: u8 = 25;
    pub(super) const TRANSACTION_CONTEXT: u8 = 36;
    pub(super) const VIEW_CHANGE: u8 = 37;
}

/// Bytes of events that a group keeps room for before they come.
const MAX_RESERVED: u64 = 1 << 20;
/// What ends the CREATE TABLE of a table that is filled in the same transaction.
const FILLED: &[u8] = b"START TRANSACTION";

/// What is known of the group that is open.
#[derive(Debug)]
struct Open {
    group: Group,
    /// BEGIN was there: a COMMIT or XID ends it.
    has_begin: bool,
}

/// Gathers events.
#[derive(Debug)]
pub struct Assembler {
    next_ordinal: u64,
    place: Place,
    /// Groups may have this many bytes.
    limit: usize,
    version: u32,
    /// The source has started since somebody asked.
    has_restarted: bool,
    open: Option<Open>,
    /// Number of the last commit group of MariaDB, where it began, and how many transactions there were.
    maria_group: (Option<u64>, i64, i64),
}

impl Assembler {
    /// Goes on at `place`, where the group `next_ordinal` begins. A group of more than `limit` bytes is an error.
    pub fn new(next_ordinal: u64, place: Place, limit: usize) -> Self {
        Self {
            next_ordinal,
            place,
            limit,
            version: 0,
            has_restarted: false,
            open: None,
            maria_group: (None, 0, 0),
        }
    }

    /// Up to where events have come.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Is a group open?
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Has the source started anew since this was asked last?
    pub fn take_restart(&mut self) -> bool {
        std::mem::take(&mut self.has_restarted)
    }

    /// Takes the next event; a group comes out when it is its last.
    ///
    /// # Errors
    /// Events that are damaged, not known, or that cannot be applied at all.
    pub fn push(&mut self, incoming: &Incoming) -> Result<Option<Group>> {
        self.place.relay = incoming.relay;
        self.place.source_pos = position_behind(self.place.source_pos, &incoming.header);
        self.event(&incoming.header, &incoming.body)
    }

    fn event(&mut self, header: &Header, body: &[u8]) -> Result<Option<Group>> {
        match header.event_type() {
            Some(kind) => self.known(kind, header, body),
            None => self.numbered(header, body),
        }
    }

    fn known(&mut self, kind: EventType, header: &Header, body: &[u8]) -> Result<Option<Group>> {
        match kind {
            EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged => {
                self.begin_gtid(header, &GtidEvent::parse(kind, body)?);
            }
            EventType::Query => return self.query(header, body),
            EventType::Xid => return Ok(self.finish(header, None)),
            EventType::XaPrepare => {
                let xid = XaPrepare::parse(body)?;
                let verb = if xid.one_phase {
                    "XA COMMIT"
                } else {
                    "XA PREPARE"
                };
                let phase = if xid.one_phase { " ONE PHASE" } else { "" };
                self.push_text(header, format!("{verb} {xid}{phase}").as_bytes())?;
                return Ok(self.finish(header, Some(Shape::Xa)));
            }
            EventType::TableMap => self.part(header, PartKind::TableMap, body)?,
            EventType::WriteRows => self.rows(header, RowKind::Write, body)?,
            EventType::UpdateRows => self.rows(header, RowKind::Update, body)?,
            EventType::DeleteRows => self.rows(header, RowKind::Delete, body)?,
            EventType::PartialUpdateRows => self.rows(header, RowKind::PartialUpdate, body)?,
            EventType::TransactionPayload => return self.payload(header, body),
            EventType::Rotate => self.rotate(header, body)?,
            EventType::FormatDescription => {
                let format = FormatDescription::parse(body)?;
                self.version = version_number(&format.server_version);
                if format.created != 0 {
                    // A server that has started does not go on with what it left open.
                    self.has_restarted = true;
                    self.open = None;
                }
            }
            EventType::Incident => {
                return Err(Error::Refused(
                    1590,
                    "The incident LOST_EVENTS occurred on the source".to_owned(),
                ));
            }
            EventType::PreviousGtids
            | EventType::Stop
            | EventType::Heartbeat
            | EventType::HeartbeatV2
            | EventType::RowsQuery => {}
        }
        Ok(None)
    }

    /// Types that this server never writes.
    fn numbered(&mut self, header: &Header, body: &[u8]) -> Result<Option<Group>> {
        use number::*;
        match header.kind {
            INT_VAR => self.part(header, PartKind::IntVar, body)?,
            RAND => self.part(header, PartKind::Rand, body)?,
            USER_VAR => self.part(header, PartKind::UserVar, body)?,
            kind @ (BEGIN_LOAD_QUERY | APPEND_BLOCK) => {
                let begins = kind == BEGIN_LOAD_QUERY;
                self.part(header, PartKind::FileBlock { begins }, load::block(body)?)?;
            }
            // The statement that it was for is not in the log.
            DELETE_FILE => self.part(header, PartKind::FileBlock { begins: true }, &[])?,
            EXECUTE_LOAD_QUERY => return self.query(header, &load::statement(body)?),
            kind @ WRITE_ROWS_V1..=DELETE_ROWS_V1 => {
                let change = [RowKind::Write, RowKind::Update, RowKind::Delete];
                let change = change[usize::from(kind - WRITE_ROWS_V1)];
                self.part(
                    header,
                    PartKind::Rows {
                        change,
                        is_v1: true,
                    },
                    body,
                )?;
            }
            mariadb::GTID => {
                let event = mariadb::GtidEvent::parse(header.stamp.server_id, body)?;
                self.begin_maria(header, &event)?;
            }
            mariadb::QUERY_COMPRESSED => return self.query(header, &compressed::query(body)?),
            kind if mariadb::ROWS_COMPRESSED.contains(&kind) => {
                let (change, is_v1, body) = compressed::rows(kind, body)?;
                self.part(header, PartKind::Rows { change, is_v1 }, &body)?;
            }
            mariadb::START_ENCRYPTION => {
                // Nothing behind it can be read.
                let text = refused("events of the source's files, which are encrypted (event 164)");
                return Err(Error::Refused(1235, text));
            }
            mariadb::ANNOTATE
            | mariadb::CHECKPOINT
            | mariadb::GTID_LIST
            | TRANSACTION_CONTEXT
            | VIEW_CHANGE => {}
            _ if header.stamp.flags & FLAG_IGNORABLE != 0 => {}
            kind => {
                let text = refused(&format!("an event of type {kind}"));
                match self.is_open() {
                    true => self.part(header, PartKind::Refused, text.as_bytes())?,
                    false => return Err(Error::Refused(1235, text)),
                }
            }
        }
        Ok(None)
    }

    fn new_group(&self, header: &Header) -> Group {
        let micros = u64::from(header.stamp.timestamp) * 1_000_000;
        Group {
            ordinal: 0,
            id: Id::Position,
            clock: None,
            server_id: header.stamp.server_id,
            original_micros: micros,
            commit_micros: micros,
            original_version: self.version,
            sql_mode: None,
            shape: Shape::Transaction,
            parts: Vec::new(),
            data: Vec::new(),
            end: Place::default(),
        }
    }

    fn begin_gtid(&mut self, header: &Header, event: &GtidEvent) {
        let mut group = self.new_group(header);
        group.id = event.gtid.clone().map_or(Id::Position, Id::Gtid);
        group.clock = (event.sequence_number > 0).then_some(Clock {
            last_committed: event.last_committed,
            sequence: event.sequence_number,
        });
        group.original_micros = event.original_commit_micros;
        group.commit_micros = event.commit_micros;
        group.original_version = event.original_server_version;
        group
            .data
            .reserve(event.transaction_bytes.min(MAX_RESERVED) as usize);
        self.open = Some(Open {
            group,
            has_begin: false,
        });
    }

    fn begin_maria(&mut self, header: &Header, event: &mariadb::GtidEvent) -> Result<()> {
        let (last_group, began, count) = self.maria_group;
        let sequence = count + 1;
        let is_same = event.group.is_some() && event.group == last_group;
        let began = if is_same { began } else { count };
        self.maria_group = (event.group, began, sequence);
        let mut group = self.new_group(header);
        group.id = Id::Maria(MariaGtid { ..event.gtid });
        group.clock = Some(Clock {
            last_committed: began,
            sequence,
        });
        self.open = Some(Open {
            group,
            has_begin: !event.is_standalone,
        });
        if event.is_announcement {
            self.opened(header).group.shape = Shape::Empty;
        }
        // What MySQL writes as a statement stands in the GTID event here.
        match &event.prepares {
            Some(xid) => self.push_text(header, format!("XA START {xid}").as_bytes()),
            None => Ok(()),
        }
    }

    fn query(&mut self, header: &Header, body: &[u8]) -> Result<Option<Group>> {
        let query = Query::parse(body)?;
        let text = query.text.trim_ascii();
        let has_begin = self.open.as_ref().is_some_and(|open| open.has_begin);
        match Delimiter::of(text) {
            Delimiter::Begin => {
                if has_begin && !self.is_implied() {
                    self.open = None;
                }
                let settings = Settings::parse(query.settings)?;
                let open = self.opened(header);
                open.has_begin = true;
                open.group.sql_mode = settings.sql_mode;
                return Ok(None);
            }
            Delimiter::XaStart => {
                self.opened(header).has_begin = true;
                self.part(header, PartKind::Query, body)?;
                return Ok(None);
            }
            Delimiter::Commit => return Ok(self.finish(header, None)),
            Delimiter::Rollback => return Ok(self.finish(header, Some(Shape::Empty))),
            Delimiter::Statement => {}
        }
        if has_begin && starts_with(text, "CREATE ") && text.to_ascii_uppercase().ends_with(FILLED)
        {
            self.opened(header).group.shape = Shape::CreateAndFill;
        }
        self.part(header, PartKind::Query, body)?;
        if has_begin {
            return Ok(None);
        }
        let is_announcement = self.opened(header).group.shape == Shape::Empty;
        let shape = (!is_announcement).then_some(Shape::Statement);
        Ok(self.finish(header, shape))
    }

    /// The group that is open; what comes without a GTID opens one.
    fn opened(&mut self, header: &Header) -> &mut Open {
        if self.open.is_none() {
            let group = self.new_group(header);
            self.open = Some(Open {
                group,
                has_begin: false,
            });
        }
        match &mut self.open {
            Some(open) => open,
            None => unreachable!("it was opened"),
        }
    }

    fn rows(&mut self, header: &Header, change: RowKind, body: &[u8]) -> Result<()> {
        let kind = PartKind::Rows {
            change,
            is_v1: false,
        };
        self.part(header, kind, body)
    }

    fn part(&mut self, header: &Header, kind: PartKind, body: &[u8]) -> Result<()> {
        let (limit, end) = (self.limit, self.place.source_pos as u32);
        let group = &mut self.opened(header).group;
        let start = group.data.len();
        if start + body.len() > limit {
            return Err(Error::Refused(
                1534,
                format!(
                    "a transaction of more than {limit} bytes; esker_max_transaction_size is the limit"
                ),
            ));
        }
        group.data.extend_from_slice(body);
        if group.parts.is_empty() && group.server_id == 0 {
            group.server_id = header.stamp.server_id;
        }
        group.parts.push(Part {
            kind,
            time: header.stamp.timestamp,
            end,
            body: start..start + body.len(),
        });
        Ok(())
    }

    fn push_text(&mut self, header: &Header, text: &[u8]) -> Result<()> {
        let query = Query {
            thread_id: 0,
            seconds: 0,
            error: 0,
            schema: &[],
            settings: &[],
            text,
        };
        let mut body = Vec::new();
        query.write(&mut body);
        self.part(header, PartKind::Query, &body)
    }

    fn payload(&mut self, header: &Header, body: &[u8]) -> Result<Option<Group>> {
        let events = payload::parse(body)?;
        let mut rest = &events[..];
        let mut whole = None;
        while !rest.is_empty() {
            let event = Event::parse(rest, Checksum::None)?;
            if event.header.event_type() == Some(EventType::TransactionPayload) {
                return Err(damaged("transaction payload: one in another"));
            }
            rest = &rest[event.header.length as usize..];
            let inner = Header {
                end: header.end,
                ..event.header
            };
            if let Some(group) = self.event(&inner, event.body)? {
                whole = Some(group);
            }
        }
        Ok(whole)
    }

    fn rotate(&mut self, header: &Header, body: &[u8]) -> Result<()> {
        let rotate = Rotate::parse(body)?;
        let file = String::from_utf8_lossy(rotate.file);
        let is_artificial = header.stamp.flags & FLAG_ARTIFICIAL != 0;
        // A stream that begins anew in the middle of a group says so, too: then the rest follows.
        let goes_on = is_artificial && self.place.source_file == file;
        if !goes_on {
            self.open = None;
        }
        if self.open.is_none() {
            self.place.source_file = file.into_owned();
            self.place.source_pos = rotate.position;
        }
        Ok(())
    }

    /// Ends the open group with what there is.
    fn finish(&mut self, header: &Header, shape: Option<Shape>) -> Option<Group> {
        self.opened(header);
        let mut group = self.open.take()?.group;
        if let Some(shape) = shape {
            group.shape = shape;
        }
        if group.shape == Shape::Empty || group.parts.is_empty() {
            group.skip();
        }
        group.ordinal = self.next_ordinal;
        group.end = self.place.clone();
        self.next_ordinal += 1;
        Some(group)
    }

    /// MariaDB's GTID is a BEGIN; one that follows it says the same.
    fn is_implied(&self) -> bool {
        self.open.as_ref().is_some_and(|open| {
            open.group.parts.is_empty() && matches!(open.group.id, Id::Maria(_))
        })
    }
}

fn refused(what: &str) -> String {
    format!("Esker cannot apply {what}")
}

/// `8.4.0-x` as 80400.
fn version_number(version: &str) -> u32 {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    let mut parts = parts.map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0).min(99);
    next() * 10_000 + next() * 100 + next()
}

#[cfg(test)]
mod tests;
