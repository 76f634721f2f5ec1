//! Groups: the files where they decide about transactions (classic two-phase commit), instead of being derived.
//!
//! Neighbours: the engine's ordered commit brings a group in three steps, which overlap with those of the next one:
//! [`FileSet::append_group`], [`SyncPoint::sync`], [`FileSet::show_group`]. `set` has the files; `position` says from
//! where on a start has to look for the end. **Invariants**
//! - A group is in the file whole, or nothing of it is, and its numbers are given again.
//! - Files rotate only while no group is under way, so a start needs the last one alone: it ends with the last whole
//!   transaction that is there, and what the engine has prepared commits if its number is not above that one's.
//! - Readers see a group when the engine has committed it: what they see and what a snapshot sees is the same.

use std::sync::Arc;

use esker_vfs::{File, Fs};

use super::names::{FileNumber, Names};
use super::places::Place;
use super::position::{Position, State};
use super::scan::Scan;
use super::set::FileSet;
use super::view::FileInfo;
use crate::derive::Numbers;
use crate::event::EventType;
use crate::event::group::GtidEvent;
use crate::gtid::GtidSet;
use crate::spool::SpoolId;
use crate::{Error, Result};

/// How transactions come into the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Commits {
    /// They are derived from the engine's log.
    #[default]
    OneSync,
    /// In groups, before the engine commits them.
    TwoPhase,
}

/// A group in the file that is not shown yet.
pub struct Group {
    /// Ends of its transactions, with what takes the place of LSNs until those are known.
    places: Vec<Place>,
    end: FileInfo,
    ordinal: u64,
    executed: Arc<GtidSet>,
    /// Spool files that were copied.
    spent: Vec<SpoolId>,
}

impl Group {
    /// Number of its transactions.
    pub fn transactions(&self) -> usize {
        self.places.len()
    }
}

/// The end of the file at some moment.
pub struct SyncPoint {
    file: Arc<dyn File>,
    end: FileInfo,
    numbers: Numbers,
}

impl SyncPoint {
    /// Makes everything before it durable.
    pub fn sync(&self) -> Result<()> {
        crate::synced(self.file.sync_data())
    }
}

impl FileSet {
    /// Appends the transactions of a group, whose first one has this number. On an error nothing of it is in the file,
    /// unless that is a failed sync.
    pub fn append_group<'a>(
        &mut self,
        first: u64,
        group: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Group> {
        debug_assert_eq!(self.config.commits, Commits::TwoPhase);
        if self.rotation.is_some() || self.resetting.is_some() {
            // What could not be done before comes first: nothing is under way then.
            self.write()?;
        }
        assert_eq!(first, self.ordinal() + 1, "numbers without a gap");
        let numbers = self.deriver.numbers();
        let executed = self.deriver.executed().clone();
        let (lsn, written, copied) = (self.lsn, self.written, self.copies.spent.len());
        let mut appended = Ok(());
        for attachment in group {
            appended = self.append(self.lsn + 1, attachment);
            if appended.is_err() {
                break;
            }
        }
        let appended = appended.and_then(|()| self.write_pending());
        self.lsn = lsn;
        let places = std::mem::take(&mut self.places);
        let spent = self.copies.spent.split_off(copied);
        if let Err(e) = appended {
            self.deriver.go_back(numbers, executed);
            self.pending.clear();
            self.copies.current = None;
            self.written = written;
            // What was written of it must not be taken for transactions behind a later, shorter group.
            self.file.set_len(written).map_err(Error::Sync)?;
            return Err(e);
        }
        Ok(Group {
            places,
            end: FileInfo {
                number: self.number(),
                size: self.written,
            },
            ordinal: self.ordinal(),
            executed: Arc::new(self.deriver.executed().clone()),
            spent,
        })
    }

    /// The end of what is written.
    pub fn sync_point(&self) -> SyncPoint {
        SyncPoint {
            file: Arc::clone(&self.file),
            end: FileInfo {
                number: self.number(),
                size: self.written,
            },
            numbers: self.deriver.numbers(),
        }
    }

    /// The engine has committed the next group, with these sequences; `None` where it had nothing to commit. `synced`:
    /// what was synced last.
    pub fn show_group(&mut self, group: Group, commits: &[Option<u64>], synced: FileInfo) {
        assert_eq!(group.places.len(), commits.len(), "all of a group commits");
        let mut places = group.places;
        for (place, seq) in places.iter_mut().zip(commits) {
            self.lsn = seq.unwrap_or(self.lsn).max(self.lsn);
            place.lsn = self.lsn;
        }
        let mut view = self.published.view();
        // Since then others may have been written, or purged.
        view.files = self.files.iter().copied().collect();
        if let Some(last) = view.files.last_mut() {
            debug_assert_eq!(last.number, group.end.number, "no rotation meanwhile");
            last.size = group.end.size;
        }
        (view.lsn, view.synced_lsn) = (self.lsn, self.lsn);
        view.synced = synced.min(group.end);
        (view.ordinal, view.executed) = (group.ordinal, group.executed);
        self.copies.spent.extend(group.spent);
        self.published.set(view, places);
    }

    /// Everything that is shown was synced up to here.
    pub fn show_synced(&mut self, synced: FileInfo) {
        let mut view = self.published.view();
        view.synced = synced.min(view.end());
        self.published.set(view, Vec::new());
    }

    /// Notes that everything up to there is synced, so that a start finds damage before it; removes what is not needed
    /// any more.
    pub fn note_synced(&mut self, point: &SyncPoint) -> Result<()> {
        debug_assert_eq!(point.end.number, self.number(), "rotation notes by itself");
        let position = Position {
            lsn: self.lsn,
            file: point.end.number,
            state: State::TwoPhase,
            offset: point.end.size,
            numbers: point.numbers,
            max_size: self.config.max_size,
        };
        self.positions.write(&position)?;
        self.synced = position;
        self.copies.remove_spent()
    }

    /// Is the file as large as files may be?
    pub fn is_full(&self) -> bool {
        self.written >= self.config.max_size || self.rotation.is_some()
    }

    /// Number of the last transaction.
    pub fn ordinal(&self) -> u64 {
        self.deriver.numbers().ordinal
    }
}

impl SyncPoint {
    /// Where it is.
    pub fn end(&self) -> FileInfo {
        self.end
    }
}

/// The position behind the last whole transaction of the last file, of which a start knows this older one. What is torn
/// behind it a crash has left: it was never synced.
pub(super) fn last_whole(fs: &dyn Fs, names: &Names, known: &Position) -> Result<Position> {
    let mut scan = Scan::open(fs, &names.path(known.file), None)?;
    // The format description says how to read the rest.
    scan.next_event()?;
    scan.skip_to(known.offset);
    let mut whole = *known;
    let mut end = None;
    loop {
        let event = match scan.next_event() {
            Ok(Some((start, event))) => {
                let length = match event.header.event_type() {
                    Some(
                        kind @ (EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid),
                    ) => Some(GtidEvent::parse(kind, event.body)?.transaction_bytes),
                    Some(EventType::Xid) => {
                        check_number(event.body, whole.numbers.ordinal + 1, known.file, start)?;
                        None
                    }
                    _ => None,
                };
                (start, length)
            }
            Ok(None) | Err(Error::DamagedFile { .. }) => return Ok(whole),
            Err(e) => return Err(e),
        };
        match (event, end) {
            ((start, Some(length)), None) => end = Some(start + length),
            // The end of a file whose successor is not there: it is written again.
            (_, None) | ((_, Some(_)), Some(_)) => return Ok(whole),
            ((_, None), Some(_)) => {}
        }
        if end == Some(scan.offset()) {
            whole.offset = scan.offset();
            whole.numbers.sequence += 1;
            whole.numbers.ordinal += 1;
            end = None;
        }
    }
}

/// An XID is the number of its transaction.
fn check_number(body: &[u8], expected: u64, file: FileNumber, offset: u64) -> Result<()> {
    match body.first_chunk::<8>().map(|xid| u64::from_le_bytes(*xid)) {
        Some(xid) if xid == expected => Ok(()),
        found => Err(Error::DamagedFile {
            file: format!("number {}", file.0),
            offset,
            what: format!("transaction {expected} has the number {found:?}"),
        }),
    }
}
