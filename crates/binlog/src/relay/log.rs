//! The files of a relay log, and what is appended to them.
//!
//! Neighbours: one receiver appends, [`Reader`]s follow, the channel purges what is applied. **Invariants**
//! - Readers see whole events only: what is in the buffer is told of after it is written.
//! - Whoever looks at what has come waits for no disk: `tracker` is held for moments only. Locks are taken in the order
//!   `writing`, `tracker`, `view`.
//! - The files are what the folder has; the index lists them for tools.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use esker_vfs::{File, Fs, OpenMode};
use parking_lot::{Condvar, Mutex};

use super::reader::Reader;
use super::track::{Queued, Received, Tracker};
use super::{put_event, put_rotate};
use crate::apply::{Place, RelayPlace};
use crate::event::control::Rotate;
use crate::event::format::{CREATED, FormatDescription};
use crate::event::{Checksum, EventType, FLAG_ARTIFICIAL, Header, Stamp, event_bytes};
use crate::files::{FIRST_EVENT, FileNumber, MAGIC, Names, Scan, index};
use crate::tally::Tally;
use crate::{Result, damaged};

/// Bytes that gather before they are written.
const BUFFER: usize = 256 << 10;

/// Where a relay log is, and who writes it.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// Where its files are, and what they are called.
    pub names: Names,
    /// This server's version, for the head of a file.
    pub server_version: String,
    /// This server's number.
    pub server_id: u32,
}

/// A file and how much of it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RelayFile {
    pub(super) number: FileNumber,
    pub(super) size: u64,
}

/// What readers see.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) files: VecDeque<RelayFile>,
    received: Received,
}

/// What readers and the writer share.
pub(super) struct Shared {
    pub(super) fs: Arc<dyn Fs>,
    pub(super) names: Names,
    view: Mutex<View>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn view<R>(&self, ask: impl FnOnce(&View) -> R) -> R {
        ask(&self.view.lock())
    }

    /// Waits until a file has more than this, or there is another one behind it.
    pub(super) fn wait(&self, seen: RelayFile, at_most: Duration) {
        let mut view = self.view.lock();
        if view.files.back() == Some(&seen) {
            self.changed.wait_for(&mut view, at_most);
        }
    }
}

/// The end of the last file.
struct Writing {
    file: Arc<dyn File>,
    number: FileNumber,
    /// Bytes in the file.
    size: u64,
    buffer: Vec<u8>,
    /// The source's format description, for the heads of files.
    format: Option<(Header, Vec<u8>)>,
    /// Events since the last sync.
    unsynced: u64,
}

impl Writing {
    fn end(&self) -> RelayPlace {
        RelayPlace {
            file: self.number.0.into(),
            offset: self.size + self.buffer.len() as u64,
        }
    }
}

/// A relay log.
pub struct RelayLog {
    config: RelayConfig,
    shared: Arc<Shared>,
    writing: Mutex<Writing>,
    /// What has come, with what is only in the buffer.
    tracker: Mutex<Tracker>,
}

impl RelayLog {
    /// Opens it, or begins a new one. A torn end is cut.
    ///
    /// # Errors
    /// Of the files.
    pub fn open(fs: Arc<dyn Fs>, config: RelayConfig) -> Result<Self> {
        let names = config.names.clone();
        fs.create_dir_all(names.dir())?;
        let found = fs.list(names.dir())?;
        let mut numbers: Vec<_> = found.iter().filter_map(|name| names.number(name)).collect();
        numbers.sort_unstable();
        let mut scanned = Scanned::default();
        for number in &numbers {
            if !scanned.file(&*fs, &names, *number)? {
                break;
            }
        }
        let mut tracker = Tracker::at(scanned.tracker.received().clone());
        let cut = tracker.received().end.relay;
        for number in numbers.into_iter().filter(|n| u64::from(n.0) > cut.file) {
            fs.remove_file(&names.path(number))?;
            scanned.files.retain(|file| file.number != number);
        }
        let writing = match scanned.files.back_mut() {
            None => {
                let writing = create(&*fs, &config, FileNumber(1), tracker.source(), None)?;
                tracker.moved_to(writing.end());
                writing
            }
            Some(last) => {
                let file = fs.open(&names.path(last.number), OpenMode::ReadWrite)?;
                file.set_len(cut.offset)?;
                last.size = cut.offset;
                Writing {
                    file,
                    number: last.number,
                    size: cut.offset,
                    buffer: Vec::new(),
                    format: scanned.format,
                    unsynced: 0,
                }
            }
        };
        let (number, size) = (writing.number, writing.size);
        let mut files = scanned.files;
        if files.is_empty() {
            files.push_back(RelayFile { number, size });
        }
        index::write(&*fs, &names, files.iter().map(|file| file.number))?;
        let received = tracker.received().clone();
        let view = View { files, received };
        let shared = Shared {
            fs,
            names,
            view: Mutex::new(view),
            changed: Condvar::new(),
        };
        Ok(Self {
            config,
            shared: Arc::new(shared),
            writing: Mutex::new(writing),
            tracker: Mutex::new(tracker),
        })
    }

    /// Appends an event of the source that was checked and has come now, microseconds since the epoch. A new file
    /// begins when this one has `max_bytes`.
    ///
    /// # Errors
    /// A damaged event; of the disk.
    pub fn append(
        &self,
        header: &Header,
        body: &[u8],
        max_bytes: u64,
        now_micros: u64,
    ) -> Result<()> {
        let mut writing = self.writing.lock();
        let is_between = {
            let mut tracker = self.tracker.lock();
            tracker.set_now(now_micros);
            tracker.is_between()
        };
        if is_between && writing.end().offset >= max_bytes {
            self.rotate(&mut writing)?;
        }
        let before = writing.buffer.len();
        put_event(header, body, &mut writing.buffer);
        let end = writing.end();
        let pushed = self.tracker.lock().push(header, body, end);
        if let Err(e) = pushed {
            writing.buffer.truncate(before);
            return Err(e);
        }
        if header.event_type() == Some(EventType::FormatDescription) {
            writing.format = Some((*header, not_a_start(body)));
        }
        writing.unsynced += 1;
        match writing.buffer.len() >= BUFFER {
            true => self.write(&mut writing),
            false => Ok(()),
        }
    }

    /// The source stands at `place`, and has left out what is known here before it: the next event begins there.
    ///
    /// # Errors
    /// Of the disk.
    pub fn advance(
        &self,
        stamp: Stamp,
        place: Rotate<'_>,
        max_bytes: u64,
        now_micros: u64,
    ) -> Result<()> {
        {
            let tracker = self.tracker.lock();
            let (file, position) = tracker.source();
            let is_ahead = file.as_bytes() == place.file && position < place.position;
            if !tracker.is_between() || !is_ahead {
                return Ok(());
            }
        }
        let mut body = Vec::new();
        place.write(&mut body);
        let rotate = Header {
            stamp: Stamp {
                flags: FLAG_ARTIFICIAL,
                ..stamp
            },
            kind: EventType::Rotate as u8,
            length: event_bytes(body.len(), Checksum::None) as u32,
            end: 0,
        };
        self.append(&rotate, &body, max_bytes, now_micros)
    }

    /// Writes what was appended and tells readers. Syncs every `sync_every` events; 0: never.
    ///
    /// # Errors
    /// Of the disk.
    pub fn publish(&self, sync_every: u64) -> Result<()> {
        let mut writing = self.writing.lock();
        self.write(&mut writing)?;
        if sync_every > 0 && writing.unsynced >= sync_every {
            crate::synced(writing.file.sync_data())?;
            writing.unsynced = 0;
        }
        Ok(())
    }

    fn write(&self, writing: &mut Writing) -> Result<()> {
        if !writing.buffer.is_empty() {
            writing.file.write_all_at(&writing.buffer, writing.size)?;
            writing.size += writing.buffer.len() as u64;
            writing.buffer.clear();
        }
        let tracker = self.tracker.lock();
        let mut view = self.shared.view.lock();
        let (number, size) = (writing.number, writing.size);
        match view.files.back_mut() {
            Some(last) if last.number == number => last.size = size,
            _ => view.files.push_back(RelayFile { number, size }),
        }
        view.received.clone_from(tracker.received());
        drop((view, tracker));
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Begins a new file.
    fn rotate(&self, writing: &mut Writing) -> Result<()> {
        self.write(writing)?;
        crate::synced(writing.file.sync_data())?;
        let next = FileNumber(writing.number.0 + 1);
        let (file, position) = {
            let tracker = self.tracker.lock();
            assert!(tracker.is_between(), "a file ends between transactions");
            let (file, position) = tracker.source();
            (file.to_owned(), position)
        };
        // It stays known if there is no space for the next file.
        let format = writing.format.clone();
        *writing = create(
            &*self.shared.fs,
            &self.config,
            next,
            (&file, position),
            format,
        )?;
        self.tracker.lock().moved_to(writing.end());
        self.write(writing)?;
        self.write_index()
    }

    fn write_index(&self) -> Result<()> {
        let numbers: Vec<_> = self
            .shared
            .view(|v| v.files.iter().map(|f| f.number).collect());
        index::write(&*self.shared.fs, &self.shared.names, numbers.into_iter())
    }

    /// Ends the file, so that it can be purged once it is applied.
    ///
    /// # Errors
    /// Of the disk.
    pub fn flush(&self) -> Result<()> {
        let mut writing = self.writing.lock();
        let is_between = self.tracker.lock().is_between();
        match is_between {
            true => self.rotate(&mut writing),
            false => self.write(&mut writing),
        }
    }

    /// Throws everything away; the source's events come from `source_file` and `source_pos` on. Where they will be.
    ///
    /// # Errors
    /// Of the disk.
    pub fn restart(&self, source_file: &str, source_pos: u64) -> Result<Place> {
        let mut writing = self.writing.lock();
        let received = Received {
            end: Place {
                source_file: source_file.to_owned(),
                source_pos,
                ..Place::default()
            },
            ..Received::default()
        };
        // Nobody reads a log that has had nothing yet, so it begins in the file that it has.
        let has_head_alone = writing.number == FileNumber(1) && self.tracker.lock().has_no_source();
        let next = match has_head_alone {
            true => writing.number,
            false => FileNumber(writing.number.0 + 1),
        };
        let source = (source_file, source_pos);
        *writing = create(&*self.shared.fs, &self.config, next, source, None)?;
        let end = {
            let mut tracker = self.tracker.lock();
            let tally = std::mem::take(&mut tracker.tally);
            *tracker = Tracker::at(received);
            tracker.tally = tally;
            tracker.moved_to(writing.end());
            tracker.received().end.clone()
        };
        self.write(&mut writing)?;
        self.purge_before(next)?;
        Ok(end)
    }

    /// Removes the files before this one.
    ///
    /// # Errors
    /// Of the disk.
    pub fn purge_applied(&self, applied: RelayPlace) -> Result<()> {
        let number = u32::try_from(applied.file).map_err(|_| damaged("number of a relay file"))?;
        self.purge_before(FileNumber(number))
    }

    fn purge_before(&self, number: FileNumber) -> Result<()> {
        let mut gone = Vec::new();
        {
            let mut view = self.shared.view.lock();
            while view.files.len() > 1 && view.files[0].number < number {
                gone.extend(view.files.pop_front());
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        self.write_index()?;
        for file in gone {
            self.shared
                .fs
                .remove_file(&self.shared.names.path(file.number))?;
        }
        Ok(())
    }

    /// Follows the events behind a place; `None` if it is not there.
    ///
    /// # Errors
    /// Damaged files; of the disk.
    pub fn reader(&self, from: RelayPlace) -> Result<Option<Reader>> {
        Reader::open(self.shared.clone(), from)
    }

    /// What the source's place is where this one is; `None`: it is not between two transactions.
    ///
    /// # Errors
    /// Damaged files; of the disk.
    pub fn place_at(&self, wanted: RelayPlace) -> Result<Option<Place>> {
        let is_it = |file: &&RelayFile| u64::from(file.number.0) == wanted.file;
        let found = self
            .shared
            .view(|view| view.files.iter().find(is_it).copied());
        let Some(file) = found.filter(|file| wanted.offset <= file.size) else {
            return Ok(None);
        };
        let path = self.shared.names.path(file.number);
        let mut scan = Scan::open(&*self.shared.fs, &path, Some(file.size))?;
        let mut tracker = Tracker::default();
        while scan.offset() < wanted.offset {
            let Some((start, event)) = scan.next_event()? else {
                return Ok(None);
            };
            let (header, body) = (event.header, event.body.to_vec());
            let relay = RelayPlace {
                file: wanted.file,
                offset: scan.offset(),
            };
            match start {
                FIRST_EVENT => tracker.moved_to(relay),
                _ => tracker.push(&header, &body, relay)?,
            }
        }
        let mut place = tracker.received().end.clone();
        if wanted.offset == FIRST_EVENT {
            place.relay = wanted;
        }
        Ok((place.relay == wanted).then_some(place))
    }

    /// The last transaction that has come whole since the start, and the one that is coming.
    pub fn queue(&self) -> (Option<Queued>, Option<Queued>) {
        self.tracker.lock().queue()
    }

    /// What has come as whole transactions.
    pub fn received(&self) -> Received {
        self.shared.view(|view| view.received.clone())
    }

    /// The source's file and offset behind the last event that was appended.
    pub fn source(&self) -> (String, u64) {
        let tracker = self.tracker.lock();
        let (file, position) = tracker.source();
        (file.to_owned(), position)
    }

    /// What transactions that have come take.
    pub fn tally(&self) -> Tally {
        self.tracker.lock().tally.clone()
    }

    /// Begins to count them anew.
    pub fn forget_tally(&self) {
        self.tracker.lock().tally = Tally::default();
    }

    /// Where the last event that is written ends.
    pub fn end(&self) -> RelayPlace {
        self.shared.view(|view| {
            let last = view.files.back().copied();
            last.map_or(RelayPlace::default(), |last| RelayPlace {
                file: last.number.0.into(),
                offset: last.size,
            })
        })
    }

    /// Bytes of all files.
    pub fn space(&self) -> u64 {
        self.shared
            .view(|view| view.files.iter().map(|file| file.size).sum())
    }

    /// Its files by name, with their sizes.
    pub fn files(&self) -> Vec<(FileNumber, u64)> {
        self.shared
            .view(|v| v.files.iter().map(|f| (f.number, f.size)).collect())
    }

    /// What its files are called.
    pub fn names(&self) -> &Names {
        &self.shared.names
    }

    /// The name of a file.
    pub fn name_of(&self, place: RelayPlace) -> String {
        self.shared.names.name(FileNumber(place.file as u32))
    }

    /// Removes all files, at the end of the channel's life.
    ///
    /// # Errors
    /// Of the disk.
    pub fn remove(&self) -> Result<()> {
        for (number, _) in self.files() {
            self.shared
                .fs
                .remove_file(&self.shared.names.path(number))?;
        }
        Ok(self.shared.fs.remove_file(&self.shared.names.index())?)
    }
}

/// A format description that is told again, though the source has not started meanwhile.
pub(super) fn not_a_start(body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    if let Some(created) = body.get_mut(CREATED) {
        created.fill(0);
    }
    body
}

/// Makes a file with its head; the next event comes from this file and position of the source.
fn create(
    fs: &dyn Fs,
    config: &RelayConfig,
    number: FileNumber,
    (source_file, source_pos): (&str, u64),
    format: Option<(Header, Vec<u8>)>,
) -> Result<Writing> {
    let names = &config.names;
    let file = fs.open(&names.path(number), OpenMode::CreateOrOpen)?;
    file.set_len(0)?;
    let mut writing = Writing {
        file,
        number,
        size: 0,
        buffer: MAGIC.to_vec(),
        format,
        unsynced: 0,
    };
    let stamp = Stamp {
        timestamp: 0,
        server_id: config.server_id,
        flags: 0,
    };
    FormatDescription {
        server_version: config.server_version.clone(),
        created: 0,
        checksum: Checksum::Crc32,
    }
    .write(stamp, FIRST_EVENT, &mut writing.buffer);
    if !source_file.is_empty() {
        put_rotate(
            config.server_id,
            source_file,
            source_pos,
            &mut writing.buffer,
        );
    }
    if let Some((header, body)) = &writing.format {
        put_event(header, body, &mut writing.buffer);
    }
    writing.file.write_all_at(&writing.buffer, 0)?;
    writing.size = writing.buffer.len() as u64;
    writing.buffer.clear();
    crate::synced(fs.sync_dir(names.dir()))?;
    Ok(writing)
}

/// What the files have at a start.
#[derive(Default)]
struct Scanned {
    files: VecDeque<RelayFile>,
    tracker: Tracker,
    format: Option<(Header, Vec<u8>)>,
}

impl Scanned {
    /// Reads a file as far as it is whole; false if it is not, or if nothing of it can be used.
    fn file(&mut self, fs: &dyn Fs, names: &Names, number: FileNumber) -> Result<bool> {
        let path = names.path(number);
        let Ok(mut scan) = Scan::open(fs, &path, None) else {
            return Ok(false);
        };
        let mut is_first = true;
        let is_whole = loop {
            let (header, body) = match scan.next_event() {
                Ok(Some((_, event))) => (event.header, event.body.to_vec()),
                Ok(None) => break true,
                Err(e) => {
                    if matches!(e, crate::Error::Io(_)) {
                        return Err(e);
                    }
                    break false;
                }
            };
            let end = RelayPlace {
                file: number.0.into(),
                offset: scan.offset(),
            };
            if std::mem::take(&mut is_first) {
                self.tracker.moved_to(end);
                let size = scan.offset();
                self.files.push_back(RelayFile { number, size });
                continue;
            }
            if self.tracker.push(&header, &body, end).is_err() {
                break false;
            }
            if header.event_type() == Some(EventType::FormatDescription) {
                self.format = Some((header, not_a_start(&body)));
            }
        };
        if let Some(file) = self.files.back_mut().filter(|file| file.number == number) {
            file.size = scan.offset();
        }
        Ok(is_whole)
    }
}
