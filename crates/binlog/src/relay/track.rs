//! Where the last whole transaction of the source ends, and which GTIDs have come.
//!
//! Neighbours: `log` pushes every event, at a start those that are in the files. **Invariants**: `apply::boundary`
//! delimits transactions here and for the applier; what is not whole is not told of, a GTID alone neither.

use crate::Result;
use crate::apply::boundary::{Delimiter, position_behind};
use crate::apply::{Id, MariaGtidSet, Place, RelayPlace, mariadb};
use crate::event::control::Rotate;
use crate::event::format::FormatDescription;
use crate::event::group::GtidEvent;
use crate::event::query::Query;
use crate::event::{EventType, Header, payload};
use crate::gtid::GtidSet;
use crate::tally::{Tally, Weight};

/// What has been received as whole transactions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// Up to where.
    pub end: Place,
    /// Which GTIDs of MySQL.
    pub gtids: GtidSet,
    /// Which of MariaDB.
    pub maria: MariaGtidSet,
}

/// A transaction that has come, or is coming. Times are microseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// What it is called.
    pub id: Id,
    /// When it was committed first; 0: nobody says.
    pub original_micros: u64,
    /// When its source committed it; 0: nobody says.
    pub commit_micros: u64,
    /// When its first event came.
    pub begun_micros: u64,
    /// When its last one came; 0: it has not.
    pub ended_micros: u64,
}

/// A transaction that is not whole yet.
#[derive(Debug)]
struct Open {
    queued: Queued,
    has_begin: bool,
    weight: Weight,
}

/// Follows the events.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    received: Received,
    file: String,
    position: u64,
    open: Option<Open>,
    /// The last whole transaction that came while somebody looked at the clock.
    last: Option<Queued>,
    /// Of the event that is taken, microseconds since the epoch.
    now: u64,
    /// What whole transactions take.
    pub(super) tally: Tally,
}

impl Tracker {
    /// Goes on at a place between two transactions.
    pub(super) fn at(received: Received) -> Self {
        Self {
            file: received.end.source_file.clone(),
            position: received.end.source_pos,
            received,
            open: None,
            last: None,
            now: 0,
            tally: Tally::default(),
        }
    }

    pub(super) fn received(&self) -> &Received {
        &self.received
    }

    /// The last transaction that is whole since this began, and the one that is coming.
    pub(super) fn queue(&self) -> (Option<Queued>, Option<Queued>) {
        let open = self.open.as_ref().map(|open| open.queued.clone());
        (self.last.clone(), open)
    }

    /// Events come now, microseconds since the epoch.
    pub(super) fn set_now(&mut self, micros: u64) {
        self.now = micros;
    }

    /// Is there nothing open?
    pub(super) fn is_between(&self) -> bool {
        self.open.is_none()
    }

    /// Where the source's next event begins.
    pub(super) fn source(&self) -> (&str, u64) {
        (&self.file, self.position)
    }

    /// Is nothing known of a source?
    pub(super) fn has_no_source(&self) -> bool {
        let Received { gtids, maria, .. } = &self.received;
        self.file.is_empty() && gtids.is_empty() && maria.is_empty() && self.open.is_none()
    }

    /// The next event of the source comes at this place of the relay log.
    pub(super) fn moved_to(&mut self, relay: RelayPlace) {
        if self.open.is_none() {
            self.received.end.relay = relay;
        }
    }

    /// Takes an event that ends at `relay`.
    pub(super) fn push(&mut self, header: &Header, body: &[u8], relay: RelayPlace) -> Result<()> {
        self.position = position_behind(self.position, header);
        self.event(header, body)?;
        if self.open.is_none() {
            self.received.end = Place {
                source_file: self.file.clone(),
                source_pos: self.position,
                relay,
            };
        }
        Ok(())
    }

    fn event(&mut self, header: &Header, body: &[u8]) -> Result<()> {
        let Some(kind) = header.event_type() else {
            return self.numbered(header, body);
        };
        match kind {
            EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged => {
                let event = GtidEvent::parse(kind, body)?;
                let weight = Weight {
                    gtid: event.gtid.clone(),
                    micros: event.commit_micros,
                    ..Weight::default()
                };
                self.begin(event.gtid.map_or(Id::Position, Id::Gtid), false);
                if let Some(open) = &mut self.open {
                    open.queued.original_micros = event.original_commit_micros;
                    open.queued.commit_micros = event.commit_micros;
                    open.weight = weight;
                }
            }
            EventType::Query => {
                self.add_bytes(header);
                self.query(body)?;
            }
            EventType::TransactionPayload => {
                self.add_payload(header, body)?;
                self.finish();
            }
            EventType::Xid | EventType::XaPrepare => {
                self.add_bytes(header);
                self.finish();
            }
            EventType::Rotate => {
                self.open = None;
                let next = Rotate::parse(body)?;
                self.file = String::from_utf8_lossy(next.file).into_owned();
                self.position = next.position;
            }
            EventType::FormatDescription if FormatDescription::parse(body)?.created != 0 => {
                self.open = None;
            }
            EventType::TableMap
            | EventType::WriteRows
            | EventType::UpdateRows
            | EventType::PartialUpdateRows
            | EventType::DeleteRows => {
                self.content();
                self.add_bytes(header);
            }
            _ => {}
        }
        Ok(())
    }

    fn numbered(&mut self, header: &Header, body: &[u8]) -> Result<()> {
        match header.kind {
            mariadb::GTID => {
                let event = mariadb::GtidEvent::parse(header.stamp.server_id, body)?;
                self.begin(Id::Maria(event.gtid), !event.is_standalone);
            }
            mariadb::QUERY_COMPRESSED => self.statement(),
            mariadb::ANNOTATE | mariadb::CHECKPOINT | mariadb::GTID_LIST => {}
            _ => self.content(),
        }
        Ok(())
    }

    fn query(&mut self, body: &[u8]) -> Result<()> {
        let text = Query::parse(body)?.text.trim_ascii();
        match Delimiter::of(text) {
            Delimiter::Begin | Delimiter::XaStart => {
                self.content();
                if let Some(open) = &mut self.open {
                    open.has_begin = true;
                }
            }
            Delimiter::Commit | Delimiter::Rollback => self.finish(),
            Delimiter::Statement => self.statement(),
        }
        Ok(())
    }

    /// A statement ends its transaction, unless that has a BEGIN.
    fn statement(&mut self) {
        if !self.open.as_ref().is_some_and(|open| open.has_begin) {
            self.finish();
        }
    }

    fn begin(&mut self, id: Id, has_begin: bool) {
        self.open = Some(Open {
            queued: Queued {
                id,
                original_micros: 0,
                commit_micros: 0,
                begun_micros: self.now,
                ended_micros: 0,
            },
            has_begin,
            weight: Weight::default(),
        });
    }

    /// Counts an event of the open transaction.
    fn add_bytes(&mut self, header: &Header) {
        if let Some(open) = &mut self.open {
            open.weight.written += u64::from(header.length);
            open.weight.plain += u64::from(header.length);
        }
    }

    /// The same for all of its events, compressed.
    fn add_payload(&mut self, header: &Header, body: &[u8]) -> Result<()> {
        let plain = payload::plain_bytes(body)?;
        if let Some(open) = &mut self.open {
            open.weight.written += u64::from(header.length);
            open.weight.plain += plain.unwrap_or(header.length.into());
            open.weight.is_compressed = plain.is_some();
        }
        Ok(())
    }

    /// An event of a transaction, which may have begun without a GTID.
    fn content(&mut self) {
        if self.open.is_none() {
            self.begin(Id::Position, false);
        }
    }

    fn finish(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        self.tally.add(open.weight);
        match &open.queued.id {
            Id::Gtid(gtid) => self.received.gtids.add(gtid),
            Id::Maria(gtid) => self.received.maria.add(*gtid),
            Id::Position => {}
        }
        if self.now > 0 {
            let ended_micros = self.now;
            self.last = Some(Queued {
                ended_micros,
                ..open.queued
            });
        }
    }
}
