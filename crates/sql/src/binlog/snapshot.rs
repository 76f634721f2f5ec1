//! The position of a snapshot: START TRANSACTION WITH CONSISTENT SNAPSHOT, and who reads positions for a backup.
//!
//! Neighbours: `session` asks when it begins such a transaction and shows it as `Binlog_snapshot_…`;
//! `performance_schema.log_status` shows the present one. **Invariants**: what the snapshot sees is what the files have
//! before the position, no more and no less; no lock is taken for it.

use esker_binlog::event::EventType;
use esker_binlog::event::group::GtidEvent;
use esker_binlog::files::{FIRST_EVENT, Names, Place, Scan, View};
use esker_binlog::gtid::GtidSet;
use esker_engine::Seq;
use esker_types::SqlResult;

use super::writer::{disk_full, failed};
use crate::instance::Instance;

/// A position, with what was executed before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) executed: String,
}

impl Position {
    /// What SHOW STATUS shows of it: nothing without a binary log, for a dump would take it for a position.
    pub(crate) fn status(&self) -> Vec<(&'static str, String)> {
        if self.file.is_empty() {
            return Vec::new();
        }
        vec![
            ("Binlog_snapshot_file", self.file.clone()),
            ("Binlog_snapshot_position", self.offset.to_string()),
            ("Binlog_snapshot_gtid_executed", self.executed.clone()),
        ]
    }
}

impl Instance {
    /// The position of a snapshot; `None` without binary log, or if the snapshot is older than what is remembered.
    ///
    /// # Errors
    /// 1021: the files cannot take what the snapshot sees, and any position would be too early; of the files.
    pub(crate) fn position_of(&self, snapshot: Seq) -> SqlResult<Option<Position>> {
        // Behind what it sees.
        let Some(view) = self.binlog.view_at(snapshot) else {
            return Ok(None);
        };
        if view.lsn < snapshot {
            return Err(disk_full());
        }
        let (Some(published), Some(names)) = (self.binlog.published(), self.binlog.names()) else {
            return Ok(None);
        };
        let Some((mut place, view)) = published.place(snapshot) else {
            return Ok(None);
        };
        let oldest = view.files.first().map_or(place.file, |file| file.number);
        if place.file < oldest {
            // Its file is purged: what comes behind it begins with the oldest that there is, unless some of it is
            // gone as well.
            let newest = published.place(Seq::MAX);
            let is_newest = newest.is_some_and(|(newest, _)| newest == place);
            if !is_newest && place.file.0 + 1 != oldest.0 {
                return Ok(None);
            }
            (place.file, place.offset) = (oldest, FIRST_EVENT);
        }
        let mut executed = (*view.executed).clone();
        let behind = self.gtids_behind(names, &view, place);
        executed.subtract(&behind.map_err(|e| failed(&e))?);
        Ok(Some(Position {
            file: names.name(place.file),
            offset: place.offset,
            executed: executed.to_string(),
        }))
    }

    /// The present end of the files.
    pub(crate) fn present_position(&self) -> Position {
        let (Some(view), Some(names)) = (self.binlog.view(), self.binlog.names()) else {
            return Position::default();
        };
        let end = view.end();
        Position {
            file: names.name(end.number),
            offset: end.size,
            executed: view.executed.to_string(),
        }
    }

    /// What was executed behind a place, up to the end of the view: a few milliseconds' work.
    fn gtids_behind(
        &self,
        names: &Names,
        view: &View,
        place: Place,
    ) -> esker_binlog::Result<GtidSet> {
        let mut behind = GtidSet::default();
        for file in view.files.iter().filter(|f| f.number >= place.file) {
            let path = names.path(file.number);
            let mut scan = Scan::open(&*self.env.fs, &path, Some(file.size))?;
            // The format description says how to read the rest.
            scan.next_event()?;
            if file.number == place.file && place.offset > FIRST_EVENT {
                scan.skip_to(place.offset);
            }
            while let Some((_, event)) = scan.next_event()? {
                if let Some(kind @ (EventType::Gtid | EventType::GtidTagged)) =
                    event.header.event_type()
                    && let Some(gtid) = GtidEvent::parse(kind, event.body)?.gtid
                {
                    behind.add(&gtid);
                }
            }
        }
        Ok(behind)
    }
}
