//! Spool files: the events of transactions that are too large for their log records.
//!
//! ```text
//! <folder>/<id, sixteen hexadecimal digits>   events, as an attachment has them
//! ```
//! A session moves what its transaction has gathered here, cuts off what a savepoint takes back, and seals the file
//! before it commits; the attachment then only describes it ([`Spooled`]). `files` copies the events behind the log and
//! removes the file when they are synced. Neighbours: `sql` writes, `files` reads. **Invariants**
//! - A file that an attachment describes was synced, with its name, before the attachment was logged.
//! - It goes only when the binary log has its events and is synced, or its transaction has not committed.
//! - What is read is what was sealed: number of events, bytes and checksum are compared.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_vfs::{File, Fs, OpenMode};

use crate::attachment::Part;
use crate::bytes::Reader as Bytes;
use crate::event::MAX_EVENT_BYTES;
use crate::{Error, Result};

/// Read at a time.
const READ_BYTES: u64 = 256 << 10;
/// The front of an event is not longer: type, flags, time, length.
const FRONT_BYTES: u64 = 1 + 1 + 4 + 10;

/// Name of a spool file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpoolId(pub u64);

/// What an attachment says of its spool file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spooled {
    /// Which one.
    pub id: SpoolId,
    /// Its length.
    pub bytes: u64,
    /// Number of events.
    pub events: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// CRC-32 of all of it.
    pub checksum: u32,
}

/// The folder of spool files.
pub struct Spools {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    last: AtomicU64,
}

impl Spools {
    /// Opens the folder. Also gives the files that are there: the log may still describe them.
    pub(crate) fn open(fs: Arc<dyn Fs>, dir: PathBuf) -> Result<(Arc<Self>, Vec<SpoolId>)> {
        fs.create_dir_all(&dir)?;
        let names = fs.list(&dir)?;
        let ids = names.iter().filter_map(|name| {
            let is_one = name.len() == 16;
            is_one.then(|| u64::from_str_radix(name, 16).ok()).flatten()
        });
        let found: Vec<_> = ids.map(SpoolId).collect();
        let last = found.iter().map(|id| id.0).max().unwrap_or(0);
        let last = AtomicU64::new(last);
        Ok((Arc::new(Self { fs, dir, last }), found))
    }

    fn path(&self, id: SpoolId) -> PathBuf {
        self.dir.join(format!("{:016x}", id.0))
    }

    /// Begins a file.
    pub fn create(self: &Arc<Self>) -> Result<Spool> {
        let id = SpoolId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let file = self.fs.open(&self.path(id), OpenMode::CreateOrOpen)?;
        file.set_len(0)?;
        Ok(Spool {
            spools: Arc::clone(self),
            id,
            file,
            bytes: 0,
            is_sealed: false,
        })
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, id: SpoolId) -> Result<()> {
        let path = self.path(id);
        if self.fs.exists(&path)? {
            self.fs.remove_file(&path)?;
        }
        Ok(())
    }

    /// Reads the file that an attachment describes.
    pub(crate) fn read(&self, spooled: Spooled) -> Result<SpoolReader> {
        let path = self.path(spooled.id);
        let damaged = |offset, what: &str| damaged_at(&path, offset, what);
        if !self.fs.exists(&path)? {
            return Err(damaged(0, "it is missing"));
        }
        let file = self.fs.open(&path, OpenMode::Read)?;
        if file.len()? != spooled.bytes {
            return Err(damaged(spooled.bytes, "it has another length"));
        }
        Ok(SpoolReader {
            file,
            path,
            spooled,
            buffer: Vec::new(),
            used: 0,
            offset: 0,
            events: 0,
            body_bytes: 0,
            hasher: crc32fast::Hasher::new(),
        })
    }
}

fn damaged_at(path: &Path, offset: u64, what: &str) -> Error {
    Error::DamagedFile {
        file: path.display().to_string(),
        offset,
        what: what.into(),
    }
}

/// A spool file that is being written. Dropping it removes it, unless it is sealed.
pub struct Spool {
    spools: Arc<Spools>,
    id: SpoolId,
    file: Arc<dyn File>,
    bytes: u64,
    is_sealed: bool,
}

impl Spool {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends events, or parts of them.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.is_sealed = false;
        self.file.write_all_at(bytes, self.bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Forgets what was appended since it had this length.
    pub fn truncate(&mut self, bytes: u64) -> Result<()> {
        assert!(bytes <= self.bytes, "what is kept was written");
        if bytes < self.bytes {
            self.is_sealed = false;
            self.file.set_len(bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Makes the file durable, and describes it. It stays, whatever becomes of this.
    pub fn seal(&mut self) -> Result<Spooled> {
        crate::synced(self.file.sync_all())?;
        crate::synced(self.spools.fs.sync_dir(&self.spools.dir))?;
        let unknown = Spooled {
            id: self.id,
            bytes: self.bytes,
            events: u64::MAX,
            body_bytes: u64::MAX,
            checksum: 0,
        };
        let mut reader = self.spools.read(unknown)?;
        while reader.next_part()?.is_some() {}
        self.is_sealed = true;
        Ok(reader.seen())
    }

    /// The transaction has not committed.
    pub fn discard(mut self) {
        self.is_sealed = false;
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if !self.is_sealed {
            // What cannot be removed now is removed by the next start.
            let _ = self.spools.remove(self.id);
        }
    }
}

/// Reads the events of a spool file, one after the other.
pub(crate) struct SpoolReader {
    file: Arc<dyn File>,
    path: PathBuf,
    spooled: Spooled,
    /// What was read ahead; `used` bytes of it are given.
    buffer: Vec<u8>,
    used: usize,
    /// Where the buffer ends in the file.
    offset: u64,
    events: u64,
    body_bytes: u64,
    hasher: crc32fast::Hasher,
}

impl SpoolReader {
    /// Which file it is.
    pub(crate) fn id(&self) -> SpoolId {
        self.spooled.id
    }

    /// The next event; `None` behind the last one.
    pub(crate) fn next_part(&mut self) -> Result<Option<Part<'_>>> {
        let at = self.offset - (self.buffer.len() - self.used) as u64;
        if at == self.spooled.bytes {
            return Ok(None);
        }
        self.have(FRONT_BYTES.min(self.spooled.bytes - at))?;
        let mut front = Bytes::new(&self.buffer[self.used..]);
        let before = front.len();
        let (_kind, _flags, _time) = (front.u8()?, front.u8()?, front.u32()?);
        let length = front.varint()?;
        let front = (before - front.len()) as u64;
        if length > MAX_EVENT_BYTES.into() || front + length > self.spooled.bytes - at {
            return Err(damaged_at(&self.path, at, "an event is too long"));
        }
        self.have(front + length)?;
        let begin = self.used;
        self.used += (front + length) as usize;
        self.events += 1;
        self.body_bytes += length;
        let bytes = &self.buffer[begin..self.used];
        self.hasher.update(bytes);
        Part::read(&mut Bytes::new(bytes)).map(Some)
    }

    /// Reads until the buffer has so much more.
    fn have(&mut self, bytes: u64) -> Result<()> {
        let there = (self.buffer.len() - self.used) as u64;
        if there >= bytes {
            return Ok(());
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        let more = (bytes - there)
            .max(READ_BYTES)
            .min(self.spooled.bytes - self.offset);
        self.buffer.resize((there + more) as usize, 0);
        let read = &mut self.buffer[there as usize..];
        self.file.read_exact_at(read, self.offset)?;
        self.offset += more;
        Ok(())
    }

    /// What was read so far.
    fn seen(&self) -> Spooled {
        Spooled {
            id: self.spooled.id,
            bytes: self.offset,
            events: self.events,
            body_bytes: self.body_bytes,
            checksum: self.hasher.clone().finalize(),
        }
    }

    /// All events were read: are they those that were sealed?
    pub(crate) fn check(&self) -> Result<()> {
        match self.seen() == self.spooled {
            true => Ok(()),
            false => Err(damaged_at(&self.path, 0, "it is not what was sealed")),
        }
    }
}
