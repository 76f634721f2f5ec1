//! Reading a file event by event, every length and checksum verified.
//!
//! Neighbours: `set` learns at start what a file has; `sql` shows events; `esker inspect binlog` prints them.
//! **Invariants**: memory is bounded by the longest event; nothing behind `end` is read, so a file can be scanned while
//! it grows.

use std::path::Path;
use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

use crate::event::format::FormatDescription;
use crate::event::group::{GtidEvent, parse_previous_gtids};
use crate::event::{self, Checksum, Event, EventType, HEADER_BYTES};
use crate::gtid::GtidSet;
use crate::{Error, Result};

/// What every file begins with.
pub const MAGIC: &[u8; 4] = b"\xfebin";
/// Where the first event is.
pub const FIRST_EVENT: u64 = MAGIC.len() as u64;
/// Read at a time.
const CHUNK: usize = 256 << 10;

/// A file that is read from the beginning.
pub struct Scan {
    name: String,
    file: Arc<dyn File>,
    checksum: Checksum,
    /// Where the next event starts.
    offset: u64,
    end: u64,
    buffer: Vec<u8>,
    /// What of the buffer is used up.
    at: usize,
}

impl Scan {
    /// Opens a file of which the bytes before `end` may be read; `None`: all.
    pub fn open(fs: &dyn Fs, path: &Path, end: Option<u64>) -> Result<Self> {
        let file = fs.open(path, OpenMode::Read)?;
        let name = path.file_name().unwrap_or_default();
        let end = end.map_or_else(|| file.len(), Ok)?;
        let mut scan = Self {
            name: name.to_string_lossy().into_owned(),
            file,
            checksum: Checksum::Crc32,
            offset: FIRST_EVENT,
            end,
            buffer: Vec::new(),
            at: 0,
        };
        let mut magic = [0; MAGIC.len()];
        if end < FIRST_EVENT {
            return Err(scan.damaged("it is too short"));
        }
        scan.file.read_exact_at(&mut magic, 0)?;
        if &magic != MAGIC {
            scan.offset = 0;
            return Err(scan.damaged("it is no binary log"));
        }
        Ok(scan)
    }

    /// Where the next event starts.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next event is the one that starts at `offset`, further on.
    pub fn skip_to(&mut self, offset: u64) {
        debug_assert!(offset >= self.offset);
        let skipped = offset.saturating_sub(self.offset);
        let in_buffer = (self.buffer.len() - self.at) as u64;
        self.at += skipped.min(in_buffer) as usize;
        self.offset = offset;
    }

    /// The file has grown: the bytes before `end` may be read.
    pub fn grow_to(&mut self, end: u64) {
        debug_assert!(end >= self.end, "files only grow");
        self.end = self.end.max(end);
    }

    /// What stands behind the bodies.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// An error about the event at the current offset.
    pub fn damaged(&self, what: &str) -> Error {
        Error::DamagedFile {
            file: self.name.clone(),
            offset: self.offset,
            what: what.to_owned(),
        }
    }

    /// The next event, with the offset at which it starts.
    pub fn next_event(&mut self) -> Result<Option<(u64, Event<'_>)>> {
        if self.offset >= self.end {
            return Ok(None);
        }
        self.fill(HEADER_BYTES)?;
        let length = event::peek_length(&self.buffer[self.at..]).unwrap_or(0);
        if length > event::MAX_EVENT_BYTES {
            return Err(self.damaged("an event is too long"));
        }
        self.fill(length as usize)?;
        let start = self.offset;
        let at = self.at;
        let event = match Event::parse(&self.buffer[at..], self.checksum) {
            Ok(event) => event,
            Err(e) => return Err(self.damaged(&e.to_string())),
        };
        if event.header.event_type() == Some(EventType::FormatDescription) {
            self.checksum = FormatDescription::parse(event.body)?.checksum;
        }
        self.at += event.header.length as usize;
        self.offset += u64::from(event.header.length);
        Ok(Some((start, event)))
    }

    /// Makes at least `need` bytes available.
    fn fill(&mut self, need: usize) -> Result<()> {
        let have = self.buffer.len() - self.at;
        if have >= need {
            return Ok(());
        }
        let from = self.offset + have as u64;
        let left = self.end.saturating_sub(from);
        if ((need - have) as u64) > left {
            return Err(self.damaged("an event is cut off"));
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let more = (need - have).max(CHUNK).min(left as usize);
        self.buffer.resize(have + more, 0);
        self.file.read_exact_at(&mut self.buffer[have..], from)?;
        Ok(())
    }
}

/// What a file says of transactions.
#[derive(Debug, Default)]
pub struct Summary {
    /// Those of earlier files.
    pub previous: GtidSet,
    /// Those of earlier files and of this one.
    pub executed: GtidSet,
    /// What stands behind the bodies.
    pub checksum: Checksum,
}

/// Reads a file up to `end`.
pub fn summarise(fs: &dyn Fs, path: &Path, end: Option<u64>) -> Result<Summary> {
    let mut scan = Scan::open(fs, path, end)?;
    let mut summary = Summary::default();
    while let Some((_, event)) = scan.next_event()? {
        match event.header.event_type() {
            Some(EventType::PreviousGtids) => {
                summary.previous = parse_previous_gtids(event.body)?;
                summary.executed = summary.previous.clone();
            }
            Some(kind @ (EventType::Gtid | EventType::GtidTagged)) => {
                if let Some(gtid) = GtidEvent::parse(kind, event.body)?.gtid {
                    summary.executed.add(&gtid);
                }
            }
            _ => {}
        }
    }
    summary.checksum = scan.checksum();
    Ok(summary)
}

/// The GTIDs of the files before this one, read from its head.
pub fn previous_gtids(fs: &dyn Fs, path: &Path, end: Option<u64>) -> Result<GtidSet> {
    let mut scan = Scan::open(fs, path, end)?;
    while let Some((_, event)) = scan.next_event()? {
        if event.header.event_type() == Some(EventType::PreviousGtids) {
            return parse_previous_gtids(event.body);
        }
    }
    Err(scan.damaged("it has no list of earlier GTIDs"))
}
