//! The set of files, as the one thread that writes them sees it.
//!
//! `open` makes and opens it. Neighbours: `derive` makes events; `position` says how far the log was derived; `view`
//! shows readers what is there.
//! **Invariants**
//! - A file is only appended to, except at a start: there it is cut to the last position, and derivation goes on.
//! - Everything below the LSN of the last position is synced; the log may be released up to there, not further.
//! - A file is in the index before the position names it; names of files behind the position's are remains of a crash.
//! - Readers see a file and its bytes only when they are written, a new file only when the position names it; they see
//!   whole transactions, also of one that is copied from a spool file piece by piece.

mod open;

use std::collections::VecDeque;
use std::sync::Arc;

use esker_vfs::{File, Fs};

use super::begins::{self, Begins};
use super::copy::{Copies, Copying};
use super::group::Commits;
use super::head::{FIRST_FLAGS_AT, begin_file, stamp};
use super::index;
use super::names::{FileNumber, Names};
use super::places::Place;
use super::position::{Position, Positions, State};
use super::scan::{FIRST_EVENT, previous_gtids};
use super::start::{Begin, read_purged};
use super::view::{FileInfo, Published, View};
use crate::Result;
use crate::attachment::Attachment;
use crate::derive::{Deriver, Target, Writer};
use crate::event::control::Rotate;
use crate::event::{self, Checksum, EventType};
use crate::gtid::{Gtid, GtidSet};
use crate::spool::Spools;

/// Events that gather before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// What the files are to be like.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where they are.
    pub names: Names,
    /// Who writes them.
    pub writer: Writer,
    /// Version of the server, for people.
    pub version: String,
    /// The size from which on a file is followed by another one.
    pub max_size: u64,
    /// What stands behind bodies.
    pub checksum: Checksum,
    /// How transactions come into them.
    pub commits: Commits,
}

impl Config {
    /// The state of a file that is being written.
    fn open_state(&self) -> State {
        match self.commits {
            Commits::OneSync => State::Open,
            Commits::TwoPhase => State::TwoPhase,
        }
    }
}

/// The files.
pub struct FileSet {
    fs: Arc<dyn Fs>,
    pub(super) config: Config,
    pub(super) deriver: Deriver,
    pub(super) positions: Positions,
    pub(super) published: Arc<Published>,
    pub(super) files: VecDeque<FileInfo>,
    pub(super) file: Arc<dyn File>,
    /// Checksum of the file that is written; that of the configuration begins with the next one.
    checksum: Checksum,
    /// The size limit of the file that is written.
    max_size: u64,
    /// What of the file is written.
    pub(super) written: u64,
    /// Events behind that.
    pub(super) pending: Vec<u8>,
    /// Everything in the log below is in `written` and `pending`.
    pub(super) lsn: u64,
    /// The last position.
    pub(super) synced: Position,
    purged: GtidSet,
    /// Where in the log the files begin.
    begins: Arc<Begins>,
    /// A rotation that was begun, with its time; it goes on at the next write if the disk was full.
    pub(super) rotation: Option<u32>,
    /// The last file has its ROTATE.
    ended: bool,
    /// A reset that was begun, with its time and its first file: its mark is durable. It goes on likewise.
    pub(super) resetting: Option<(u32, FileNumber)>,
    /// How often the files have begun again while the server runs.
    resets: u64,
    /// Ends of transactions that readers have not been told of.
    pub(super) places: Vec<Place>,
    /// Transactions in spool files.
    pub(super) copies: Copies,
}

impl FileSet {
    /// What readers see.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    /// Everything in the log below has been derived.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The log below may go.
    pub fn synced_lsn(&self) -> u64 {
        self.synced.lsn
    }

    /// Are all events covered by the last position?
    pub fn is_synced(&self) -> bool {
        self.synced.offset == self.end()
    }

    pub(super) fn number(&self) -> FileNumber {
        self.files[self.files.len() - 1].number
    }

    fn end(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Appends the events of the transaction whose log record ends at `lsn`.
    pub fn append(&mut self, lsn: u64, attachment: &[u8]) -> Result<()> {
        debug_assert!(lsn > self.lsn, "in the order of the log");
        debug_assert!(self.copies.current.is_none(), "one after the other");
        let attachment = Attachment::parse(attachment)?;
        let time = attachment.head.commit_seconds();
        let mut target = Target {
            position: self.written,
            checksum: self.checksum,
            events: &mut self.pending,
        };
        let deriver = &mut self.deriver;
        if let Some(spooled) = attachment.head.spooled {
            let (copies, spooled) = (&self.copies, (spooled, lsn));
            let copying = Copying::begin(copies, deriver, &attachment, spooled, &mut target)?;
            self.copies.current = Some(copying);
            return self.go_on_copying();
        }
        let gtid = deriver.transaction(&attachment, &mut target)?;
        self.end_transaction(lsn, time, gtid.as_ref())
    }

    /// Copies what a transaction has in a spool file. After an error it goes on where it was.
    fn go_on_copying(&mut self) -> Result<()> {
        let Some(mut copying) = self.copies.current.take() else {
            return Ok(());
        };
        match self.copy(&mut copying) {
            Ok(()) => {
                self.copies.done(&copying);
                self.end_transaction(copying.lsn, copying.time, copying.gtid.as_ref())
            }
            Err(e) => {
                self.copies.current = Some(copying);
                Err(e)
            }
        }
    }

    fn copy(&mut self, copying: &mut Copying) -> Result<()> {
        loop {
            if self.pending.len() >= WRITE_BYTES {
                self.write_pending()?;
            }
            let mut target = Target {
                position: self.written,
                checksum: self.checksum,
                events: &mut self.pending,
            };
            if !copying.step(&mut target)? {
                return Ok(());
            }
        }
    }

    /// All events of a transaction, committed at `time`, are in the file or on the way there.
    fn end_transaction(&mut self, lsn: u64, time: u32, gtid: Option<&Gtid>) -> Result<()> {
        self.lsn = lsn;
        self.published.count(self.deriver.take_weight());
        self.places.push(Place {
            lsn,
            file: self.number(),
            offset: self.end(),
            gno: gtid.map_or(0, |gtid| gtid.gno),
        });
        if self.end() >= self.max_size && self.config.commits == Commits::OneSync {
            // In the order of the log, so a repetition rotates at the same place.
            return self.rotate(time);
        }
        match self.pending.len() >= WRITE_BYTES {
            true if self.config.commits == Commits::TwoPhase => self.write_pending(),
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Memory of events that are not written.
    pub fn buffer_bytes(&self) -> usize {
        self.pending.capacity()
    }

    /// Where sessions put the events of large transactions.
    pub fn spools(&self) -> Arc<Spools> {
        Arc::clone(&self.copies.spools)
    }

    /// Everything in the log that was there when the set was opened is derived.
    pub fn caught_up(&mut self) {
        self.copies.caught_up();
    }

    /// The log holds nothing for the files below `lsn`.
    pub fn skip_to(&mut self, lsn: u64) {
        debug_assert!(lsn >= self.lsn);
        self.lsn = lsn;
    }

    /// Writes what has gathered and shows it to readers. What failed before, for the disk was full, is done first.
    pub fn write(&mut self) -> Result<()> {
        if let Some((now, first)) = self.resetting {
            self.end_reset(now, first)?;
        }
        self.go_on_copying()?;
        if let Some(now) = self.rotation {
            return self.rotate(now);
        }
        self.write_pending()?;
        self.publish();
        Ok(())
    }

    pub(super) fn write_pending(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            self.file.write_all_at(&self.pending, self.written)?;
            self.written += self.pending.len() as u64;
            self.pending.clear();
        }
        Ok(())
    }

    /// Writes and syncs; the log may go up to the LSN that is returned.
    pub fn sync(&mut self) -> Result<u64> {
        self.write()?;
        let is_noted = self.synced.lsn == self.lsn && self.is_synced();
        if !is_noted || self.synced.max_size != self.config.max_size {
            crate::synced(self.file.sync_data())?;
            self.max_size = self.config.max_size;
            self.note_position(self.config.open_state())?;
            self.publish();
        }
        self.copies.remove_spent()?;
        Ok(self.synced.lsn)
    }

    fn note_position(&mut self, state: State) -> Result<()> {
        debug_assert!(self.pending.is_empty());
        let position = Position {
            lsn: self.lsn,
            file: self.number(),
            state,
            offset: self.written,
            numbers: self.deriver.numbers(),
            max_size: self.max_size,
        };
        self.positions.write(&position)?;
        self.synced = position;
        Ok(())
    }

    /// Ends the file and begins the next one.
    pub fn rotate(&mut self, now: u32) -> Result<()> {
        self.rotation = Some(now);
        if !self.ended {
            let next = self.config.names.name(FileNumber(self.number().0 + 1));
            let mut body = Vec::new();
            let rotate = Rotate {
                position: FIRST_EVENT,
                file: next.as_bytes(),
            };
            rotate.write(&mut body);
            self.end_file(EventType::Rotate, now, &body)?;
            self.ended = true;
        }
        self.next_file(now, 0)?;
        self.publish();
        Ok(())
    }

    /// Ends the last file, for the server stops.
    pub fn close(&mut self, now: u32) -> Result<u64> {
        self.end_file(EventType::Stop, now, &[])?;
        self.note_position(State::Closed)?;
        self.publish();
        self.copies.remove_spent()?;
        Ok(self.synced.lsn)
    }

    fn end_file(&mut self, kind: EventType, now: u32, body: &[u8]) -> Result<()> {
        let stamp = stamp(&self.config, now, 0);
        let (end, kept) = (self.end(), self.pending.len());
        event::frame(kind, stamp, end, body, self.checksum, &mut self.pending);
        if let Err(e) = self.file.write_all_at(&self.pending, self.written) {
            self.pending.truncate(kept);
            return Err(e.into());
        }
        self.written += self.pending.len() as u64;
        self.pending.clear();
        self.file.write_all_at(&[0, 0], FIRST_FLAGS_AT)?;
        crate::synced(self.file.sync_data())?;
        if let Some(last) = self.files.back_mut() {
            last.size = self.written;
        }
        Ok(())
    }

    /// Begins the file behind the last one, which is synced.
    fn next_file(&mut self, now: u32, started: u32) -> Result<()> {
        let number = FileNumber(self.number().0 + 1);
        let executed = self.deriver.executed();
        let (file, size) = begin_file(&*self.fs, &self.config, number, executed, (now, started))?;
        let listed = self.files.iter().map(|f| f.number);
        index::write(&*self.fs, &self.config.names, listed.chain([number]))?;
        let mut known = (*self.begins).clone();
        known.retain(|n, _| *n >= self.files[0].number);
        known.insert(number, self.lsn);
        begins::write(&*self.fs, &self.config.names, &known)?;
        self.begins = Arc::new(known);
        self.files.push_back(FileInfo { number, size });
        (self.file, self.written) = (file, size);
        self.checksum = self.config.checksum;
        self.max_size = self.config.max_size;
        self.deriver.begin_file();
        (self.rotation, self.ended) = (None, false);
        self.note_position(self.config.open_state())
    }

    fn publish(&mut self) {
        if let Some(last) = self.files.back_mut() {
            last.size = self.written;
        }
        debug_assert!(self.pending.is_empty() && self.copies.current.is_none());
        let view = View {
            files: self.files.iter().copied().collect(),
            lsn: self.lsn,
            synced_lsn: self.synced.lsn,
            synced: FileInfo {
                number: self.synced.file,
                size: self.synced.offset,
            },
            resets: self.resets,
            ordinal: self.deriver.numbers().ordinal,
            begins: Arc::clone(&self.begins),
            executed: Arc::new(self.deriver.executed().clone()),
            purged: Arc::new(self.purged.clone()),
        };
        self.published.set(view, std::mem::take(&mut self.places));
    }

    /// The size from which on files rotate; from the next position on.
    pub fn set_max_size(&mut self, bytes: u64) {
        self.config.max_size = bytes;
    }

    /// What stands behind bodies; begins a file, for one file has one kind.
    pub fn set_checksum(&mut self, checksum: Checksum, now: u32) -> Result<()> {
        if self.config.checksum == checksum {
            return Ok(());
        }
        self.config.checksum = checksum;
        self.rotate(now)
    }

    /// Whether transactions get GTIDs.
    pub fn set_gtid_mode(&mut self, on: bool, now: u32) -> Result<()> {
        if self.config.writer.gtid_mode == on {
            return Ok(());
        }
        self.config.writer.gtid_mode = on;
        self.deriver.set_gtid_mode(on);
        self.rotate(now)
    }

    /// Whose events they are; begins a file, so that what is derived again is the same.
    pub fn set_server_id(&mut self, server_id: u32, now: u32) -> Result<()> {
        if self.config.writer.server_id == server_id {
            return Ok(());
        }
        self.config.writer.server_id = server_id;
        self.deriver.set_server_id(server_id);
        self.rotate(now)
    }

    /// Adds transactions that were executed elsewhere and are in no file here.
    pub fn add_purged(&mut self, gtids: &GtidSet, now: u32) -> Result<()> {
        let names = &self.config.names;
        let mut explicit = read_purged(&*self.fs, names)?;
        explicit.union(gtids);
        let (new, path) = (names.other("purged_new"), names.other("purged"));
        index::replace(
            &*self.fs,
            names,
            &new,
            &path,
            explicit.to_string().as_bytes(),
        )?;
        self.purged.union(gtids);
        let mut executed = self.deriver.executed().clone();
        executed.union(gtids);
        self.deriver.set_executed(executed);
        self.rotate(now)
    }

    /// Removes all files before `first`, as far as they are not the last one, and no stream reads them.
    pub fn purge_to(&mut self, first: FileNumber) -> Result<()> {
        if self.resetting.is_some() {
            // All files go.
            return Ok(());
        }
        let mut keep = first.min(self.number());
        if let Some(read) = self.published.first_read() {
            keep = keep.min(read);
        }
        let gone: Vec<_> = self.files.iter().map(|f| f.number).collect();
        let gone: Vec<_> = gone.into_iter().filter(|n| *n < keep).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let names = &self.config.names;
        let purged = previous_gtids(&*self.fs, &names.path(keep), None)?;
        // The files go first: on a full disk there is space for an index only then.
        for number in gone {
            let path = names.path(number);
            if self.fs.exists(&path)? {
                self.fs.remove_file(&path)?;
            }
        }
        crate::synced(self.fs.sync_dir(names.dir()))?;
        self.files.retain(|f| f.number >= keep);
        self.purged.union(&purged);
        // What gathers is not shown yet: the disk may be too full for it.
        let mut view = self.published.view();
        view.files.retain(|f| f.number >= keep);
        view.purged = Arc::new(self.purged.clone());
        self.published.set(view, Vec::new());
        let kept = self.files.iter().map(|f| f.number);
        index::write(&*self.fs, &self.config.names, kept)
    }

    /// Removes all files and forgets what was executed; they begin again with this one.
    pub fn reset(&mut self, now: u32, first: FileNumber) -> Result<()> {
        let (lsn, ordinal) = (self.lsn, self.deriver.numbers().ordinal);
        let names = &self.config.names;
        let (new, path) = (names.other("reset_new"), names.other("reset"));
        let mark = format!("{lsn} {ordinal} {}", first.0);
        index::replace(&*self.fs, names, &new, &path, mark.as_bytes())?;
        self.resetting = Some((now, first));
        self.end_reset(now, first)
    }

    /// Does what the mark of a reset says; nothing has been appended since.
    fn end_reset(&mut self, now: u32, first: FileNumber) -> Result<()> {
        let begin = Begin {
            lsn: self.lsn,
            ordinal: self.deriver.numbers().ordinal,
            first,
        };
        let (fs, config) = (Arc::clone(&self.fs), self.config.clone());
        let copies = self.copies.begin_again();
        let fresh = Self::recreate(fs, config, copies, begin, now)?;
        let published = Arc::clone(&self.published);
        let resets = self.resets + 1;
        *self = Self {
            published,
            resets,
            ..fresh
        };
        self.publish();
        Ok(())
    }
}
