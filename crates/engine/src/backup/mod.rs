//! Backups of a database that is in use, full and incremental, and databases made of them.
//!
//! Neighbours: `tree` freezes the trees, `esker_wal` copies the log; the layer above adds files of its own.
//!
//! Parts: `listing` (what a backup consists of), `take` (making one), `set` (finding a backup with those it rests on,
//! and comparing every byte), `restore` (a data directory of it). The bytes are described in `docs/formats/backup.md`,
//! the reasons in `docs/decisions/backup.md`.
//!
//! **Invariants**
//! - A backup is the database as a crash at one moment would have left it: everything that was durable then.
//! - Nobody waits for a backup but who removes the space that it is about to copy.
//! - A directory without a listing is no backup: it is written last.

mod listing;
mod restore;
mod set;
mod take;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

pub use listing::BackupId;
pub use set::{BackupSet, VerifiedBackup};
pub use take::{Backup, Copied};

use crate::{EngineError, Result};

/// Folders of a backup, which are those of a data directory.
const EXTENTS: &str = "extents";
const LOG: &str = "wal";
const MANIFEST: &str = "manifest";

/// Files are read and written in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// How far copying or comparing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Bytes that are done.
    pub done: u64,
    /// Bytes there are.
    pub total: u64,
    /// The log is kept for a backup meanwhile, which had better not wait long.
    pub holds_log: bool,
}

/// Is told how far it is; an error breaks off.
pub type OnProgress<'p> = &'p mut dyn FnMut(BackupProgress) -> Result<()>;

/// Counts bytes for whoever watches.
struct Meter<'p> {
    progress: BackupProgress,
    each: OnProgress<'p>,
}

impl<'p> Meter<'p> {
    fn new(total: u64, each: OnProgress<'p>) -> Self {
        let progress = BackupProgress {
            done: 0,
            total,
            holds_log: false,
        };
        Self { progress, each }
    }

    fn holds_log(&mut self, holds: bool) {
        self.progress.holds_log = holds;
    }

    fn add(&mut self, bytes: u64) -> Result<()> {
        self.progress.done += bytes;
        // Headers and padding of the log are not foreseen.
        self.progress.total = self.progress.total.max(self.progress.done);
        (self.each)(self.progress)
    }
}

fn refused(what: impl Into<Arc<str>>) -> EngineError {
    EngineError::Backup(what.into())
}

fn io(what: &str, path: &Path, error: std::io::Error) -> EngineError {
    EngineError::io(format!("{what} {}", path.display()), error)
}

fn damaged(path: &Path, offset: u64, what: impl Into<Arc<str>>) -> EngineError {
    EngineError::corruption(path.display().to_string(), offset, what)
}

/// Opens a file that should be there.
fn open(fs: &dyn Fs, path: &Path) -> Result<Arc<dyn File>> {
    fs.open(path, OpenMode::Read).map_err(|e| match e.kind() {
        ErrorKind::NotFound => damaged(path, 0, "the file is missing"),
        _ => io("opening", path, e),
    })
}

/// Fills the buffer; a file that ends before is damaged.
fn read(file: &dyn File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<()> {
    file.read_exact_at(buffer, offset).map_err(|e| {
        if e.kind() != ErrorKind::UnexpectedEof {
            return io("reading", path, e);
        }
        let length = file.len().unwrap_or(offset);
        let needed = offset + buffer.len() as u64;
        let what = format!("the file ends here and should go on to {needed} at least");
        damaged(path, length, what)
    })
}

/// Makes a directory for something new: it is not there yet, or empty.
fn make_empty(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let names = match fs.exists(dir).map_err(|e| io("looking for", dir, e))? {
        true => fs.list(dir).map_err(|e| io("listing", dir, e))?,
        false => Vec::new(),
    };
    if !names.is_empty() {
        return Err(refused(format!(
            "the directory {} is not empty",
            dir.display()
        )));
    }
    for part in [EXTENTS, LOG, MANIFEST] {
        let path = dir.join(part);
        fs.create_dir_all(&path)
            .map_err(|e| io("creating", &path, e))?;
    }
    Ok(())
}
