//! The manifest: a log of version edits, each made durable on its own, and checkpoints into a fresh file.
//!
//! Neighbours: `tree` appends under its lock and says what a checkpoint contains; `change` has the payloads. Parts:
//! `record` (the bytes), `replay` (reads a file; `state` is what it gives), `write` (makes one). The bytes are
//! described in `docs/formats/manifest.md`.
//!
//! **Invariants**
//! - At most one record is not yet durable: [`Manifest::append`] returns after its sync.
//! - A file that was replayed is never appended to. If a full disk keeps a fresh one from being written when the trees
//!   are opened, nothing is recorded until it is: the manifest is *overdue* meanwhile.
//! - A file says how long it is before that matters: one that was cut short anywhere is damage, not an older state.
//! - A full disk leaves the manifest as it was. Any other failure to write or sync stops the engine: what is on disk is
//!   then not known.

mod record;
mod replay;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};
use record::{Kind, PAGE_BYTES, put_record};
pub(crate) use replay::{Replayed, replay};
pub(crate) use write::write_copy;
use write::write_file;

use super::change::Change;
use crate::extent::Health;
use crate::{EngineError, Result};

pub(crate) const FORMAT_VERSION: u16 = 2;
/// Space is reserved in steps of this size, the next one when half of the last is used: so there is always some for
/// edits that bring room, such as dropping a tree.
const RESERVE_BYTES: u64 = 256 << 10;
const SUFFIX: &str = ".manifest";
const NEW_SUFFIX: &str = ".manifest.new";
/// A file of zeros that becomes the next manifest if the disk has no room for one.
const SPARE: &str = "spare";

const _: () = assert!(RESERVE_BYTES.is_multiple_of(PAGE_BYTES as u64));

/// Identifies a database.
pub type Uuid = [u8; 16];

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
