//! Makes a data directory of a backup.
//!
//! Neighbours: `set` reads and compares the bytes; the engine opens the result as after a crash.
//!
//! **Invariants**
//! - Nothing that is damaged is restored: it is an error that names it.
//! - The manifest comes last, compared before it is made, and everything is durable before it: a directory that was not
//!   finished is refused.
//! - Files of the log get the length again that their segment was made with, and the space for it.

use std::collections::BTreeMap;
use std::path::Path;

use esker_vfs::{File, OpenMode, SHARE_ALIGN};

use super::listing::{ExtentLine, FileLine};
use super::set::{BackupSet, PackReader};
use super::{EXTENTS, LOG, MANIFEST, Meter, OnProgress, io, make_empty};
use crate::extent::file_path;
use crate::{EngineError, Result};

impl BackupSet {
    /// Makes a data directory, which is not there or empty.
    ///
    /// # Errors
    /// Damage in the backup; the system refuses; `progress` breaks off.
    pub fn restore(&self, into: &Path, progress: OnProgress<'_>) -> Result<()> {
        make_empty(&*self.env.fs, into)?;
        let mut meter = Meter::new(self.bytes(), progress);
        let is_manifest = |line: &&FileLine| line.path.starts_with(MANIFEST);
        for line in self.listing.files.iter().filter(|line| !is_manifest(line)) {
            self.restore_file(into, line, &mut meter)?;
        }
        self.restore_extents(into, &mut meter)?;
        for dir in [into.join(LOG), into.join(EXTENTS), into.to_path_buf()] {
            let synced = self.env.fs.sync_dir(&dir);
            synced.map_err(|e| io("syncing", &dir, e))?;
        }
        for line in self.listing.files.iter().filter(is_manifest) {
            self.read_file(line, &mut |_, _| Ok(()))?;
            self.restore_file(into, line, &mut meter)?;
        }
        let dir = into.join(MANIFEST);
        let synced = self.env.fs.sync_dir(&dir);
        synced.map_err(|e| io("syncing", &dir, e))
    }

    fn restore_file(&self, into: &Path, line: &FileLine, meter: &mut Meter<'_>) -> Result<()> {
        let path = into.join(&line.path);
        let file = self.env.fs.open(&path, OpenMode::CreateNew);
        let file = file.map_err(|e| io("creating", &path, e))?;
        if line.restored_bytes > line.bytes {
            let made = file.allocate(0, line.restored_bytes);
            made.map_err(|e| io("growing", &path, e))?;
        }
        self.read_file(line, &mut |piece, at| {
            let written = file.write_all_at(piece, at);
            written.map_err(|e| io("writing", &path, e))?;
            meter.add(piece.len() as u64)
        })?;
        file.sync_all().map_err(|e| io("syncing", &path, e))
    }

    fn restore_extents(&self, into: &Path, meter: &mut Meter<'_>) -> Result<()> {
        let dir = into.join(EXTENTS);
        let mut files: BTreeMap<u32, Vec<&ExtentLine>> = BTreeMap::new();
        for line in &self.listing.extents {
            files.entry(line.id.file()).or_default().push(line);
        }
        let mut packs = PackReader::new(self);
        for (number, lines) in files {
            let path = file_path(&dir, number);
            let made = self.env.fs.open(&path, OpenMode::CreateNew);
            let file = made.map_err(|e| io("creating", &path, e))?;
            let mut shares = None;
            for line in lines {
                let (bytes, pack) = packs.extent(line)?;
                let mut put = || {
                    let shares = match shares {
                        Some(known) => known,
                        None => *shares.insert(file.can_share_blocks(&**pack)?),
                    };
                    put(&*file, line, bytes, shares.then_some(&**pack))
                };
                put().map_err(|e| io("writing", &path, e))?;
                meter.add(line.bytes)?;
            }
            file.sync_all().map_err(|e| io("syncing", &path, e))?;
        }
        Ok(())
    }

    /// The files of the layer above are written by it, behind the restore.
    ///
    /// # Errors
    /// Of the system.
    pub fn add_file(&self, into: &Path, name: &str, bytes: &[u8]) -> Result<()> {
        let path = into.join(name);
        let dir = path.parent().unwrap_or(into);
        let write = || {
            self.env.fs.create_dir_all(dir)?;
            let file = self.env.fs.open(&path, OpenMode::CreateNew)?;
            file.write_all_at(bytes, 0)?;
            file.sync_all()?;
            self.env.fs.sync_dir(dir)
        };
        write().map_err(|e| EngineError::io(format!("writing {}", path.display()), e))
    }
}

/// Puts an extent, whose bytes these are, into its slot: by the blocks of the pack if it can share them.
fn put(
    file: &dyn File,
    line: &ExtentLine,
    bytes: &[u8],
    pack: Option<&dyn File>,
) -> std::io::Result<()> {
    let offset = line.id.offset();
    // What was not shared when the backup was taken lies anywhere.
    if let Some(pack) = pack.filter(|_| line.offset.is_multiple_of(SHARE_ALIGN))
        && file
            .share_blocks(pack, line.offset, offset, line.bytes)
            .is_ok()
    {
        return Ok(());
    }
    file.allocate(offset, line.bytes)?;
    file.write_all_at(bytes, offset)
}
