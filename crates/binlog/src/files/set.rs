//! The set of files, as the one thread that writes them sees it.
//!
//! Neighbours: `derive` makes events; `position` says how far the log was derived; `view` shows readers what is there.
//! **Invariants**
//! - A file is only appended to, except at a start: there it is cut to the last position, and derivation goes on.
//! - Everything below the LSN of the last position is synced; the log may be released up to there, not further.
//! - A file is in the index before the position names it; names of files behind the position's are remains of a crash.
//! - Readers see a file and its bytes only when they are written, a new file only when the position names it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

use super::index;
use super::names::{FileNumber, Names};
use super::places::Place;
use super::position::{Position, Positions, State};
use super::scan::{FIRST_EVENT, MAGIC, previous_gtids, summarise};
use super::view::{FileInfo, Published, View};
use crate::derive::{Deriver, Numbers, Writer};
use crate::event::control::Rotate;
use crate::event::format::FormatDescription;
use crate::event::{self, Checksum, EventType, FLAG_IGNORABLE, FLAG_IN_USE, HEADER_BYTES, Stamp};
use crate::gtid::GtidSet;
use crate::{Error, Result};

/// Events that gather before they are written.
const WRITE_BYTES: usize = 256 << 10;
/// Where the flags of the first event stand in a file.
const FIRST_FLAGS_AT: u64 = FIRST_EVENT + HEADER_BYTES as u64 - 2;

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
}

/// The files.
pub struct FileSet {
    fs: Arc<dyn Fs>,
    config: Config,
    deriver: Deriver,
    positions: Positions,
    published: Arc<Published>,
    files: VecDeque<FileInfo>,
    file: Arc<dyn File>,
    /// Checksum of the file that is written; that of the configuration begins with the next one.
    checksum: Checksum,
    /// The size limit of the file that is written.
    max_size: u64,
    /// What of the file is written.
    written: u64,
    /// Events behind that.
    pending: Vec<u8>,
    /// Everything in the log below is in `written` and `pending`.
    lsn: u64,
    /// The last position.
    synced: Position,
    purged: GtidSet,
    /// A rotation that was begun, with its time; it goes on at the next write if the disk was full.
    rotation: Option<u32>,
    /// The last file has its ROTATE.
    ended: bool,
    /// How often the files have begun again while the server runs.
    resets: u64,
    /// Ends of transactions that readers have not been told of.
    places: Vec<Place>,
}

impl FileSet {
    /// Opens the files, or begins the first one. `first_lsn` is where the log begins for a new set; `now` is in seconds
    /// since the epoch.
    pub fn open(fs: Arc<dyn Fs>, config: Config, first_lsn: u64, now: u32) -> Result<Self> {
        fs.create_dir_all(config.names.dir())?;
        if let Some((lsn, ordinal)) = begun_reset(&*fs, &config.names)? {
            return Self::recreate(fs, config, lsn, ordinal, now);
        }
        let (positions, position) = Positions::open(&*fs, &config.names)?;
        match position {
            None => Self::create(fs, config, positions, first_lsn, 0, now),
            Some(position) => Self::resume(fs, config, positions, position, now),
        }
    }

    /// Ends a reset that was begun: all files go, the first one begins again, the mark goes last.
    fn recreate(fs: Arc<dyn Fs>, config: Config, lsn: u64, ordinal: u64, now: u32) -> Result<Self> {
        let names = config.names.clone();
        remove_all(&*fs, &names)?;
        let (positions, _) = Positions::open(&*fs, &names)?;
        let set = Self::create(Arc::clone(&fs), config, positions, lsn, ordinal, now)?;
        fs.remove_file(&names.other("reset"))?;
        fs.sync_dir(names.dir())?;
        Ok(set)
    }

    fn create(
        fs: Arc<dyn Fs>,
        config: Config,
        mut positions: Positions,
        lsn: u64,
        ordinal: u64,
        now: u32,
    ) -> Result<Self> {
        let number = FileNumber(1);
        // What a restored backup brings, before there is a file.
        let executed = read_purged(&*fs, &config.names)?;
        let purged = executed.clone();
        let (file, written) = begin_file(&*fs, &config, number, &executed, (now, now))?;
        index::write(&*fs, &config.names, std::iter::once(number))?;
        let numbers = Numbers {
            sequence: 0,
            ordinal,
        };
        let synced = Position {
            lsn,
            file: number,
            state: State::Open,
            offset: written,
            numbers,
            max_size: config.max_size,
        };
        positions.write(&synced)?;
        let info = FileInfo {
            number,
            size: written,
        };
        let place = Place {
            lsn,
            file: number,
            offset: written,
        };
        let mut set = Self {
            deriver: Deriver::new(config.writer.clone(), numbers, executed),
            checksum: config.checksum,
            max_size: config.max_size,
            fs,
            config,
            positions,
            published: Arc::default(),
            files: VecDeque::from([info]),
            file,
            written,
            pending: Vec::new(),
            lsn,
            synced,
            purged,
            rotation: None,
            ended: false,
            resets: 0,
            places: vec![place],
        };
        set.publish();
        Ok(set)
    }

    fn resume(
        fs: Arc<dyn Fs>,
        config: Config,
        positions: Positions,
        position: Position,
        now: u32,
    ) -> Result<Self> {
        let names = &config.names;
        let numbers = listed_files(&*fs, names, position.file)?;
        let path = names.path(position.file);
        let file = fs.open(&path, OpenMode::ReadWrite)?;
        if file.len()? < position.offset {
            return Err(Error::DamagedFile {
                file: names.name(position.file),
                offset: file.len()?,
                what: format!("it was synced up to {}", position.offset),
            });
        }
        file.set_len(position.offset)?;
        if position.state == State::Open {
            file.write_all_at(&FLAG_IN_USE.to_le_bytes(), FIRST_FLAGS_AT)?;
        }
        let summary = summarise(&*fs, &path, Some(position.offset))?;
        let mut purged = read_purged(&*fs, names)?;
        purged.union(&previous_gtids(&*fs, &names.path(numbers[0]), None)?);
        let mut files = VecDeque::with_capacity(numbers.len());
        for number in numbers {
            let size = match number == position.file {
                true => position.offset,
                false => fs.open(&names.path(number), OpenMode::Read)?.len()?,
            };
            files.push_back(FileInfo { number, size });
        }
        let place = Place {
            lsn: position.lsn,
            file: position.file,
            offset: position.offset,
        };
        let mut set = Self {
            deriver: Deriver::new(config.writer.clone(), position.numbers, summary.executed),
            checksum: summary.checksum,
            max_size: position.max_size,
            fs,
            config,
            positions,
            published: Arc::default(),
            files,
            file,
            written: position.offset,
            pending: Vec::new(),
            lsn: position.lsn,
            synced: position,
            purged,
            rotation: None,
            ended: false,
            resets: 0,
            places: vec![place],
        };
        if position.state == State::Closed {
            set.next_file(now, now)?;
        }
        set.publish();
        Ok(set)
    }

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

    fn number(&self) -> FileNumber {
        self.files[self.files.len() - 1].number
    }

    fn end(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Appends the events of the transaction whose log record ends at `lsn`.
    pub fn append(&mut self, lsn: u64, attachment: &[u8]) -> Result<()> {
        debug_assert!(lsn > self.lsn, "in the order of the log");
        let derived = self
            .deriver
            .transaction(attachment, self.end(), self.checksum)?;
        self.pending.extend_from_slice(&derived.events);
        self.lsn = lsn;
        self.places.push(Place {
            lsn,
            file: self.number(),
            offset: self.end(),
        });
        if self.end() >= self.max_size {
            // In the order of the log, so a repetition rotates at the same place.
            let time = event::Header::parse(&derived.events)?.stamp.timestamp;
            return self.rotate(time);
        }
        match self.pending.len() >= WRITE_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// The log holds nothing for the files below `lsn`.
    pub fn skip_to(&mut self, lsn: u64) {
        debug_assert!(lsn >= self.lsn);
        self.lsn = lsn;
    }

    /// Writes what has gathered and shows it to readers. What failed before, for the disk was full, is done first.
    pub fn write(&mut self) -> Result<()> {
        if let Some(now) = self.rotation {
            return self.rotate(now);
        }
        if !self.pending.is_empty() {
            self.file.write_all_at(&self.pending, self.written)?;
            self.written += self.pending.len() as u64;
            self.pending.clear();
        }
        self.publish();
        Ok(())
    }

    /// Writes and syncs; the log may go up to the LSN that is returned.
    pub fn sync(&mut self) -> Result<u64> {
        self.write()?;
        if self.synced.lsn != self.lsn || self.synced.max_size != self.config.max_size {
            self.file.sync_data()?;
            self.max_size = self.config.max_size;
            self.note_position(State::Open)?;
            self.publish();
        }
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
        self.file.sync_data()?;
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
        self.files.push_back(FileInfo { number, size });
        (self.file, self.written) = (file, size);
        self.checksum = self.config.checksum;
        self.max_size = self.config.max_size;
        self.deriver.begin_file();
        (self.rotation, self.ended) = (None, false);
        self.note_position(State::Open)
    }

    fn publish(&mut self) {
        if let Some(last) = self.files.back_mut() {
            last.size = self.written;
        }
        debug_assert!(self.pending.is_empty());
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
        self.fs.sync_dir(names.dir())?;
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

    /// Removes all files and forgets what was executed; the first file begins again.
    pub fn reset(&mut self, now: u32) -> Result<()> {
        self.pending.clear();
        let (lsn, ordinal) = (self.lsn, self.deriver.numbers().ordinal);
        let names = &self.config.names;
        let (new, path) = (names.other("reset_new"), names.other("reset"));
        let mark = format!("{lsn} {ordinal}");
        index::replace(&*self.fs, names, &new, &path, mark.as_bytes())?;
        let (fs, config) = (Arc::clone(&self.fs), self.config.clone());
        let fresh = Self::recreate(fs, config, lsn, ordinal, now)?;
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

fn stamp(config: &Config, timestamp: u32, flags: u16) -> Stamp {
    Stamp {
        timestamp,
        server_id: config.writer.server_id,
        flags,
    }
}

/// Begins a file: magic, format description, earlier GTIDs; synced on return. With the time, and that of the server's
/// start.
fn begin_file(
    fs: &dyn Fs,
    config: &Config,
    number: FileNumber,
    executed: &GtidSet,
    (now, started): (u32, u32),
) -> Result<(Arc<dyn File>, u64)> {
    let mut head = MAGIC.to_vec();
    let format = FormatDescription {
        server_version: config.version.clone(),
        created: started,
        checksum: config.checksum,
    };
    format.write(stamp(config, now, FLAG_IN_USE), FIRST_EVENT, &mut head);
    let mut body = Vec::new();
    executed.encode(&mut body);
    let position = head.len() as u64;
    let stamp = stamp(config, now, FLAG_IGNORABLE);
    let kind = EventType::PreviousGtids;
    event::frame(kind, stamp, position, &body, config.checksum, &mut head);
    let file = fs.open(&config.names.path(number), OpenMode::CreateOrOpen)?;
    file.set_len(0)?;
    file.write_all_at(&head, 0)?;
    file.sync_all()?;
    fs.sync_dir(config.names.dir())?;
    Ok((file, head.len() as u64))
}

/// Are there files that were being written when the server ended?
pub fn were_left_open(fs: &dyn Fs, names: &Names) -> Result<bool> {
    if !fs.exists(&names.other("position"))? {
        return Ok(false);
    }
    let (_, position) = Positions::open(fs, names)?;
    Ok(position.is_some_and(|p| p.state == State::Open))
}

/// The files of the index up to the last one that counts; what a crash left besides is removed.
fn listed_files(fs: &dyn Fs, names: &Names, last: FileNumber) -> Result<Vec<FileNumber>> {
    let listed = index::read(fs, names)?;
    let mut numbers: Vec<_> = listed.iter().copied().filter(|n| *n <= last).collect();
    // A purge removes files before it changes the index.
    while let [first, _, ..] = numbers[..]
        && !fs.exists(&names.path(first))?
    {
        numbers.remove(0);
    }
    if numbers.last() != Some(&last) {
        return Err(Error::DamagedFile {
            file: names.index().display().to_string(),
            offset: 0,
            what: format!("it does not list '{}'", names.name(last)),
        });
    }
    if numbers.len() != listed.len() {
        index::write(fs, names, numbers.iter().copied())?;
    }
    for name in fs.list(names.dir())? {
        let is_listed = |n: FileNumber| numbers.contains(&n);
        if names.number(&name).is_some_and(|n| !is_listed(n)) {
            fs.remove_file(&names.dir().join(name))?;
        }
    }
    fs.sync_dir(names.dir())?;
    Ok(numbers)
}

/// GTIDs that were set as purged.
fn read_purged(fs: &dyn Fs, names: &Names) -> Result<GtidSet> {
    let text = read_text(fs, &names.other("purged"))?.unwrap_or_default();
    text.parse()
        .map_err(|_| damaged_text(names, "purged", "it is no set of GTIDs"))
}

/// The LSN and number from which a reset that was begun is to go on.
fn begun_reset(fs: &dyn Fs, names: &Names) -> Result<Option<(u64, u64)>> {
    let Some(text) = read_text(fs, &names.other("reset"))? else {
        return Ok(None);
    };
    let numbers = text.split_once(' ').map(|(a, b)| (a.parse(), b.parse()));
    match numbers {
        Some((Ok(lsn), Ok(ordinal))) => Ok(Some((lsn, ordinal))),
        _ => Err(damaged_text(names, "reset", "it is no mark of a reset")),
    }
}

fn read_text(fs: &dyn Fs, path: &Path) -> Result<Option<String>> {
    if !fs.exists(path)? {
        return Ok(None);
    }
    let file = fs.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn damaged_text(names: &Names, ending: &str, what: &str) -> Error {
    Error::DamagedFile {
        file: names.other(ending).display().to_string(),
        offset: 0,
        what: what.into(),
    }
}

/// Removes all files but the mark of a reset.
fn remove_all(fs: &dyn Fs, names: &Names) -> Result<()> {
    let other = ["index", "position", "purged"].map(|ending| names.other(ending));
    for name in fs.list(names.dir())? {
        let path = names.dir().join(&name);
        if names.number(&name).is_some() || other.contains(&path) {
            fs.remove_file(&path)?;
        }
    }
    Ok(fs.sync_dir(names.dir())?)
}
