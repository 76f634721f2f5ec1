//! The manifest: a log of version edits, each made durable on its own, and checkpoints into a fresh file.
//!
//! Neighbours: `mod` appends under its lock and says what a checkpoint contains; `change` has the payloads; `state` is
//! what replay gives. The bytes are described in `docs/formats/manifest.md`.
//!
//! **Invariants**
//! - At most one record is not yet durable: [`Manifest::append`] returns after its sync.
//! - A file that was replayed is never appended to. If a full disk keeps a fresh one from being written when the trees
//!   are opened, nothing is recorded until it is: the manifest is *overdue* meanwhile.
//! - A file says how long it is before that matters: one that was cut short anywhere is damage, not an older state.
//! - A full disk leaves the manifest as it was. Any other failure to write or sync stops the engine: what is on disk is
//!   then not known.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

use super::change::Change;
use super::state::State;
use crate::codec::{Malformed, Reader, u32_at, u64_at};
use crate::extent::Health;
use crate::{EngineError, Result, extent};

/// Records begin at multiples of this.
const PAGE_BYTES: usize = 4096;
const RECORD_HEADER_BYTES: usize = 24;
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"EMAN");
pub(crate) const FORMAT_VERSION: u16 = 2;
/// Checkpoint records are closed when they are larger than this.
const CHECKPOINT_RECORD_BYTES: usize = 1 << 20;
/// Space is reserved in steps of this size, the next one when half of the last is used: so there is always some for
/// edits that bring room, such as dropping a tree.
const RESERVE_BYTES: u64 = 256 << 10;
/// What there is to do about a damaged manifest.
const NO_WAY_ON: &str = "; without it nobody knows which extents are in force, so there is no starting without it: bring \
                         the data directory back from a copy";
const SUFFIX: &str = ".manifest";
const NEW_SUFFIX: &str = ".manifest.new";
/// A file of zeros that becomes the next manifest if the disk has no room for one.
const SPARE: &str = "spare";

const _: () = assert!(RESERVE_BYTES.is_multiple_of(PAGE_BYTES as u64));

/// Identifies a database.
pub type Uuid = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Header = 1,
    Checkpoint = 2,
    CheckpointEnd = 3,
    Edit = 4,
}

impl Kind {
    fn from_code(code: u8) -> Option<Kind> {
        [
            Kind::Header,
            Kind::Checkpoint,
            Kind::CheckpointEnd,
            Kind::Edit,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == code)
    }
}

struct Record<'a> {
    kind: Kind,
    number: u64,
    payload: &'a [u8],
    /// Offset of the following record.
    end: usize,
}

/// Appends a record with its padding.
fn put_record(out: &mut Vec<u8>, kind: Kind, number: u64, payload: &[u8]) {
    debug_assert!(
        out.len().is_multiple_of(PAGE_BYTES),
        "records begin at pages"
    );
    let length = u32::try_from(payload.len()).expect("an edit is much smaller than 4 GiB");
    let mut header = [0; RECORD_HEADER_BYTES];
    header[..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
    header[4] = kind as u8;
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..20].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..20]), payload);
    header[20..].copy_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(PAGE_BYTES), 0);
}

/// The valid record at `at`, if there is one.
fn record_at(bytes: &[u8], at: usize) -> Option<Record<'_>> {
    if u32_at(bytes, at)? != RECORD_MAGIC {
        return None;
    }
    let number = u64_at(bytes, at + 8)?;
    let length = u32_at(bytes, at + 16)? as usize;
    let payload_at = at + RECORD_HEADER_BYTES;
    let payload = bytes.get(payload_at..payload_at.checked_add(length)?)?;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[at..at + 20]), payload);
    if checksum != u32_at(bytes, at + 20)? {
        return None;
    }
    let kind = Kind::from_code(bytes[at + 4])?;
    let end = (payload_at + length).next_multiple_of(PAGE_BYTES);
    Some(Record {
        kind,
        number,
        payload,
        end,
    })
}

/// What replay found.
pub(crate) struct Replayed {
    pub(crate) uuid: Uuid,
    pub(crate) state: State,
    /// Number of the file that was read.
    file_number: u64,
    /// Number for the next record.
    next_record: u64,
}

impl Replayed {
    /// The file that was read. What of it came from the page cache is made durable: a crash must not bring back a state
    /// in which space is in use that is free in this one.
    fn in_force(&self, fs: &dyn Fs, dir: &Path) -> Result<Written> {
        let path = file_path(dir, self.file_number);
        let opened = fs.open(&path, OpenMode::ReadWrite).and_then(|file| {
            file.sync_all()?;
            let bytes = file.len()?;
            Ok((file, bytes))
        });
        let (file, bytes) =
            opened.map_err(|e| EngineError::io(format!("making {} durable", path.display()), e))?;
        Ok(Written {
            file,
            bytes,
            length: bytes,
            next_record: self.next_record,
        })
    }

    /// The file that was read.
    pub(crate) fn file(&self, dir: &Path) -> PathBuf {
        file_path(dir, self.file_number)
    }

    /// Number of the last record that is in force.
    pub(crate) fn last_record(&self) -> u64 {
        self.next_record - 1
    }
}

/// Reads the manifest in force; `None` if there has never been one.
pub(crate) fn replay(fs: &dyn Fs, dir: &Path) -> Result<Option<Replayed>> {
    let Some(file_number) = file_numbers(fs, dir)?.into_iter().max() else {
        return Ok(None);
    };
    let path = file_path(dir, file_number);
    let name = path.display().to_string();
    let context = || format!("reading {name}");
    let file = fs
        .open(&path, OpenMode::Read)
        .map_err(|e| EngineError::io(context(), e))?;
    let length = file.len().map_err(|e| EngineError::io(context(), e))?;
    let mut bytes = vec![0; usize::try_from(length).expect("a file in memory")];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|e| EngineError::io(context(), e))?;
    replay_bytes(&bytes, file_number)
        .map(Some)
        .map_err(|error| match error {
            Unreadable::Damage(offset, what) => {
                EngineError::corruption(name, offset as u64, what + NO_WAY_ON)
            }
            Unreadable::Format(part, found, known) => EngineError::OtherFormat {
                file: name.into(),
                part,
                found,
                known,
            },
        })
}

/// Where the damage is and what, in a file that says so.
type Damage = (usize, String);

/// Why the bytes of a file are no manifest.
enum Unreadable {
    Damage(usize, String),
    /// What has another format, which it has, and which could be read.
    Format(&'static str, u16, u16),
}

impl From<Damage> for Unreadable {
    fn from((offset, what): Damage) -> Self {
        Unreadable::Damage(offset, what)
    }
}

fn replay_bytes(bytes: &[u8], file_number: u64) -> Result<Replayed, Unreadable> {
    let header = record_at(bytes, 0)
        .filter(|record| record.kind == Kind::Header)
        .ok_or_else(|| {
            (
                0,
                "the manifest does not begin with a valid header".to_owned(),
            )
        })?;
    let uuid = read_header(header.payload)?;
    let mut state = State::default();
    let (mut at, mut next_record) = (header.end, header.number + 1);
    let mut checkpoint_is_whole = false;
    while let Some(record) = record_at(bytes, at).filter(|r| r.number == next_record) {
        match (record.kind, checkpoint_is_whole) {
            (Kind::Checkpoint | Kind::CheckpointEnd, false) | (Kind::Edit, true) => {
                let changes = Change::decode_all(record.payload);
                changes
                    .and_then(|changes| state.apply(changes))
                    .map_err(|what| (at, format!("record {next_record}: {what}")))?;
                checkpoint_is_whole |= record.kind == Kind::CheckpointEnd;
            }
            _ => return Err((at, format!("record {next_record} is of the wrong kind")).into()),
        }
        (at, next_record) = (record.end, next_record + 1);
    }
    let len = bytes.len();
    if !checkpoint_is_whole {
        let what = match at < len {
            true => "the checkpoint is damaged".to_owned(),
            false => {
                format!("the file is cut short: it has {len} bytes and ends within its checkpoint")
            }
        };
        return Err((at, what).into());
    }
    check_end(bytes, at)?;
    if (len as u64) < state.length {
        let what = format!(
            "the file is cut short: it has {len} bytes and had at least {}; what was recorded last is lost",
            state.length
        );
        return Err((len, what).into());
    }
    Ok(Replayed {
        uuid,
        state,
        file_number,
        next_record,
    })
}

/// Tells a torn last record from damage: behind the end there must be no valid record.
fn check_end(bytes: &[u8], end: usize) -> Result<(), Damage> {
    let lost = (end..bytes.len())
        .step_by(PAGE_BYTES)
        .filter(|at| record_at(bytes, *at).is_some());
    match lost.count() {
        0 => Ok(()),
        lost => Err((
            end,
            format!("a record is damaged; {lost} later edits would be lost"),
        )),
    }
}

fn read_header(payload: &[u8]) -> Result<Uuid, Unreadable> {
    let damage = |what: Malformed| Unreadable::Damage(0, what.to_owned());
    let mut reader = Reader::new(payload);
    for (part, known) in [
        ("manifest", FORMAT_VERSION),
        ("extent", extent::FORMAT_VERSION),
    ] {
        let found = reader.u16().map_err(damage)?;
        if found != known {
            return Err(Unreadable::Format(part, found, known));
        }
    }
    reader.array().map_err(damage)
}

/// The manifest in force, open for edits.
pub(crate) struct Manifest {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    health: Arc<Health>,
    uuid: Uuid,
    file: Arc<dyn File>,
    file_number: u64,
    next_record: u64,
    /// Where the next record goes.
    end: u64,
    /// Space is reserved up to here, which is the length of the file.
    reserved: u64,
    /// A sync has made this length durable.
    durable_length: u64,
    /// The records say that the file has this length.
    announced_length: u64,
    /// Size of the checkpoint.
    checkpoint_bytes: u64,
    /// A failed checkpoint is tried again when the file has grown beyond this.
    next_checkpoint_at: u64,
    /// Edits may take this much before the next checkpoint.
    edit_bytes: u64,
    /// The file is the one that was replayed.
    is_overdue: bool,
    buffer: Vec<u8>,
}

/// Where the manifest lives and what it reports to.
pub(crate) struct Site {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    pub(crate) health: Arc<Health>,
    /// Edits may take this much before the next checkpoint.
    pub(crate) edit_bytes: u64,
}

impl Manifest {
    /// Makes a fresh manifest with this content and puts it in force; older ones are removed. Where a full disk does
    /// not allow that, the one that was replayed stays in force.
    pub(crate) fn create(
        site: Site,
        uuid: Uuid,
        replayed: Option<&Replayed>,
        content: impl Iterator<Item = Change>,
    ) -> Result<Manifest> {
        let Site {
            fs,
            dir,
            health,
            edit_bytes,
        } = site;
        let mut file_number = replayed.map_or(1, |replayed| replayed.file_number + 1);
        let next_record = replayed.map_or(1, |replayed| replayed.next_record);
        let content: Vec<Change> = content.collect();
        let written = write_file(&*fs, &dir, &health, uuid, file_number, next_record, content);
        let (written, is_overdue) = match (written, replayed) {
            (Err(EngineError::DiskFull(what)), Some(replayed)) => {
                tracing::error!(
                    "no space left on the device ({what}): what there is can be read, and nothing is written until there is room"
                );
                file_number = replayed.file_number;
                (replayed.in_force(&*fs, &dir)?, true)
            }
            (written, _) => (written?, false),
        };
        let manifest = Manifest {
            fs,
            dir,
            health,
            uuid,
            file: written.file,
            file_number,
            next_record: written.next_record,
            end: written.bytes,
            reserved: written.length,
            durable_length: written.length,
            announced_length: written.length,
            checkpoint_bytes: written.bytes,
            next_checkpoint_at: written.bytes + edit_bytes.max(written.bytes),
            edit_bytes,
            is_overdue,
            buffer: Vec::new(),
        };
        manifest.remove_old();
        if !is_overdue {
            manifest.keep_spare();
        }
        Ok(manifest)
    }

    /// Whether a checkpoint has to succeed before anything is recorded.
    pub(crate) fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// Records an edit. When this returns it is durable; after an error it is not in force.
    pub(crate) fn append(&mut self, changes: &[Change]) -> Result<()> {
        assert!(
            !self.is_overdue,
            "a file that was replayed is never appended to"
        );
        self.health.check()?;
        let mut payload = Vec::new();
        for change in changes {
            change.encode(&mut payload);
        }
        // Only what no crash can take back is announced.
        let announced = self.durable_length;
        debug_assert!(self.announced_length <= announced);
        if announced > self.announced_length {
            Change::Length { bytes: announced }.encode(&mut payload);
        }
        self.buffer.clear();
        put_record(&mut self.buffer, Kind::Edit, self.next_record, &payload);
        let end = self.end + self.buffer.len() as u64;
        debug_assert!(end.is_multiple_of(PAGE_BYTES as u64));
        self.reserve(end)?;
        assert!(
            end <= self.reserved,
            "edits are written into reserved space"
        );
        match self.file.write_all_at(&self.buffer, self.end) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                return Err(EngineError::io(self.context("writing"), error));
            }
            Err(error) => {
                return Err(self
                    .health
                    .stop(format!("{}: {error}", self.context("writing"))));
            }
        }
        self.file.sync_data().map_err(|e| {
            self.health
                .stop(format!("{}: {e}", self.context("sync of")))
        })?;
        self.end = end;
        self.durable_length = self.reserved;
        self.announced_length = announced;
        self.next_record += 1;
        Ok(())
    }

    fn reserve(&mut self, end: u64) -> Result<()> {
        let wanted = end + RESERVE_BYTES / 2;
        if wanted <= self.reserved {
            return Ok(());
        }
        let target = wanted.next_multiple_of(RESERVE_BYTES);
        let allocated = self.file.allocate(self.reserved, target - self.reserved);
        match allocated.map_err(|e| EngineError::io(self.context("growing"), e)) {
            Ok(()) => self.reserved = target,
            Err(EngineError::DiskFull(_)) if end <= self.reserved => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether the edits have grown beyond their limit.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        self.end > self.next_checkpoint_at
    }

    /// Switches to a fresh file with this content. On error (a full disk) the old file stays in force.
    pub(crate) fn checkpoint(&mut self, content: impl Iterator<Item = Change>) -> Result<()> {
        self.health.check()?;
        self.next_checkpoint_at = self.end + self.edit_bytes.max(self.checkpoint_bytes);
        let number = self.file_number + 1;
        let written = write_file(
            &*self.fs,
            &self.dir,
            &self.health,
            self.uuid,
            number,
            self.next_record,
            content.collect(),
        )
        // What there is of it takes up space that may be needed.
        .inspect_err(|_| self.remove_old())?;
        assert!(
            self.next_record < written.next_record,
            "records are numbered on"
        );
        self.file = written.file;
        self.file_number = number;
        self.next_record = written.next_record;
        self.end = written.bytes;
        self.reserved = written.length;
        self.durable_length = written.length;
        self.announced_length = written.length;
        self.checkpoint_bytes = written.bytes;
        self.next_checkpoint_at = written.bytes + self.edit_bytes.max(written.bytes);
        self.is_overdue = false;
        self.remove_old();
        self.keep_spare();
        Ok(())
    }

    /// Keeps space for the next manifest, in which more trees and extents may be: without it, no tree could be dropped
    /// after a start on a full disk. A failure does no harm before that.
    fn keep_spare(&self) {
        let path = self.dir.join(SPARE);
        let make = || -> io::Result<()> {
            let file = self.fs.open(&path, OpenMode::CreateOrOpen)?;
            if file.len()? >= self.reserved {
                return Ok(());
            }
            match file.allocate(0, 2 * self.reserved) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    file.allocate(0, self.reserved)?;
                }
                allocated => allocated?,
            }
            file.sync_all()?;
            self.fs.sync_dir(&self.dir)
        };
        if let Err(error) = make() {
            tracing::warn!(%error, "no space for the manifest of a full disk");
            // It may be there, too short to be of use.
            let _ = self.fs.remove_file(&path);
        }
    }

    /// Removes files that are not in force, unless that is not known for sure. A failure does no harm: the next opening
    /// tries again.
    fn remove_old(&self) {
        if self.health.check().is_err() {
            return;
        }
        let Ok(names) = self.fs.list(&self.dir) else {
            return;
        };
        for name in names {
            let is_old = number_of(&name).is_some_and(|number| number < self.file_number);
            if is_old || name.ends_with(NEW_SUFFIX) {
                let path = self.dir.join(name);
                if let Err(error) = self.fs.remove_file(&path) {
                    tracing::warn!(path = %path.display(), %error, "cannot remove old manifest");
                }
            }
        }
    }

    fn context(&self, what: &str) -> String {
        format!(
            "{what} {}",
            file_path(&self.dir, self.file_number).display()
        )
    }

    /// Bytes of the file in force.
    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }
}

struct Written {
    file: Arc<dyn File>,
    /// Bytes of records.
    bytes: u64,
    /// Length of the file: more if space for edits is reserved.
    length: u64,
    next_record: u64,
}

/// Writes a manifest file of this content and gives it its name; on a full disk into the space that is kept for that.
fn write_file(
    fs: &dyn Fs,
    dir: &Path,
    health: &Health,
    uuid: Uuid,
    number: u64,
    first_record: u64,
    content: Vec<Change>,
) -> Result<Written> {
    let new_path = dir.join(format!("{number:06}{NEW_SUFFIX}"));
    let naming = |e| EngineError::io(format!("creating {}", new_path.display()), e);
    let write = |file: Arc<dyn File>| {
        let at = (dir, &*new_path, number);
        write_content(fs, at, health, file, uuid, first_record, &content)
    };
    let fresh = fs
        .open(&new_path, OpenMode::CreateOrOpen)
        .and_then(|file| file.set_len(0).map(|()| file));
    let full = match fresh.map_err(naming).and_then(write) {
        Err(EngineError::DiskFull(what)) => what,
        written => return written,
    };
    let spare = dir.join(SPARE);
    if !fs.exists(&spare).map_err(naming)? {
        return Err(EngineError::DiskFull(full));
    }
    // It is all zeros, so what is behind the records is no record of an older manifest.
    fs.rename(&spare, &new_path).map_err(naming)?;
    let file = fs.open(&new_path, OpenMode::ReadWrite).map_err(naming)?;
    write(file)
}

/// Writes the first manifest of a copy of the database into a directory of its own. A failure there is none of the
/// database's.
pub(crate) fn write_copy(
    fs: &dyn Fs,
    dir: &Path,
    uuid: Uuid,
    content: Vec<Change>,
) -> Result<PathBuf> {
    let health = Health::new(Arc::new(|_| {}));
    write_file(fs, dir, &health, uuid, 1, 1, content)?;
    Ok(file_path(dir, 1))
}

/// Writes the records into `file`, which has a temporary name, syncs it and gives it its name.
fn write_content(
    fs: &dyn Fs,
    (dir, new_path, number): (&Path, &Path, u64),
    health: &Health,
    file: Arc<dyn File>,
    uuid: Uuid,
    first_record: u64,
    content: &[Change],
) -> Result<Written> {
    let path = file_path(dir, number);
    let name = new_path.display();
    let mut header = FORMAT_VERSION.to_le_bytes().to_vec();
    header.extend_from_slice(&extent::FORMAT_VERSION.to_le_bytes());
    header.extend_from_slice(&uuid);
    let mut buffer = Vec::new();
    put_record(&mut buffer, Kind::Header, first_record, &header);
    let (mut bytes, mut next_record) = (0, first_record + 1);
    let mut write = |buffer: &mut Vec<u8>| {
        let result = file.write_all_at(buffer, bytes);
        bytes += buffer.len() as u64;
        buffer.clear();
        result.map_err(|e| EngineError::io(format!("writing {name}"), e))
    };
    let mut payload = Vec::new();
    for change in content {
        change.encode(&mut payload);
        if payload.len() > CHECKPOINT_RECORD_BYTES {
            put_record(&mut buffer, Kind::Checkpoint, next_record, &payload);
            next_record += 1;
            payload.clear();
            write(&mut buffer)?;
        }
    }
    if !payload.is_empty() {
        put_record(&mut buffer, Kind::Checkpoint, next_record, &payload);
        next_record += 1;
    }
    write(&mut buffer)?;
    let end = bytes + PAGE_BYTES as u64;
    let length = match reserve_edits(&*file, end) {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            tracing::warn!("no space for edits of the manifest ahead of time");
            end
        }
        Err(error) => return Err(EngineError::io(format!("growing {name}"), error)),
    };
    payload.clear();
    Change::Length { bytes: length }.encode(&mut payload);
    put_record(&mut buffer, Kind::CheckpointEnd, next_record, &payload);
    next_record += 1;
    assert_eq!(
        buffer.len(),
        PAGE_BYTES,
        "the end of a checkpoint is a page"
    );
    debug_assert!(end <= length);
    file.write_all_at(&buffer, bytes)
        .map_err(|e| EngineError::io(format!("writing {name}"), e))?;
    file.sync_all().map_err(|error| match error.kind() {
        // The file has not got its name yet.
        io::ErrorKind::StorageFull => EngineError::io(format!("sync of {name}"), error),
        _ => health.stop(format!("sync of {name} failed: {error}")),
    })?;
    match fs.rename(new_path, &path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            return Err(EngineError::io(format!("renaming {name}"), error));
        }
        // Whether the new name is there is not known, so neither file may be appended to.
        Err(error) => return Err(health.stop(format!("renaming {name} failed: {error}"))),
    }
    fs.sync_dir(dir)
        .map_err(|e| health.stop(format!("sync of directory {} failed: {e}", dir.display())))?;
    Ok(Written {
        file,
        bytes: end,
        length,
        next_record,
    })
}

/// Reserves space behind a checkpoint that ends at `end`. The length that the file has then.
fn reserve_edits(file: &dyn File, end: u64) -> io::Result<u64> {
    let length = (end + RESERVE_BYTES / 2).next_multiple_of(RESERVE_BYTES);
    file.allocate(0, length)?;
    if file.len()? > length {
        // It was the spare one, and the next spare one needs the space.
        file.set_len(length)?;
    }
    Ok(length)
}

fn file_numbers(fs: &dyn Fs, dir: &Path) -> Result<Vec<u64>> {
    let names = fs
        .list(dir)
        .map_err(|e| EngineError::io(format!("listing {}", dir.display()), e))?;
    Ok(names.iter().filter_map(|name| number_of(name)).collect())
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}

fn file_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}{SUFFIX}"))
}

#[cfg(test)]
mod tests;
