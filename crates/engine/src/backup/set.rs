//! A backup with those that hold extents of it, and the comparison of every byte with what was written.
//!
//! Neighbours: `restore` makes a data directory of it.
//!
//! **Invariants**
//! - Nothing is changed.
//! - Another backup is recognised by its identifier, wherever it lies.
//! - Damage in one place does not hide that in others, and is named by file and offset.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{Env, File};

use super::listing::{BackupId, ExtentLine, FileLine, Listing};
use super::take::pack_name;
use super::{EXTENTS, Meter, OnProgress, PIECE_BYTES, damaged, io, open, read, refused};
use crate::{EngineError, Result, Seq};

/// A backup that can be read.
pub struct BackupSet {
    pub(super) env: Env,
    dir: PathBuf,
    pub(super) listing: Listing,
    /// The directories of the holders.
    holders: Vec<PathBuf>,
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifiedBackup {
    /// Files.
    pub files: u64,
    /// Extents.
    pub extents: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Places that are damaged.
    pub findings: u64,
}

impl BackupSet {
    /// Opens the backup in this directory. The backups that it rests on are looked for in the given directories, where
    /// they were, and beside it.
    ///
    /// # Errors
    /// There is no backup, or one that it rests on is not found; the listing is damaged.
    pub fn open(env: &Env, dir: &Path, elsewhere: &[PathBuf]) -> Result<Self> {
        let listing = Listing::read(env, dir)?;
        let mut holders = Vec::new();
        for holder in &listing.holders {
            let beside = dir.parent().zip(holder.path.file_name());
            let beside = beside.map(|(parent, name)| parent.join(name));
            let mut places = elsewhere.iter().chain([&holder.path]).chain(&beside);
            let is_it = |place: &&PathBuf| {
                Listing::read(env, place).is_ok_and(|listing| listing.id == holder.id)
            };
            let found = places.find(is_it).ok_or_else(|| {
                refused(format!(
                    "the backup in {} rests on backup {}, which is not in {} any more; say where it is",
                    dir.display(),
                    holder.id,
                    holder.path.display()
                ))
            })?;
            holders.push(found.clone());
        }
        Ok(Self {
            env: env.clone(),
            dir: dir.to_path_buf(),
            listing,
            holders,
        })
    }

    /// Identifies it.
    pub fn id(&self) -> BackupId {
        self.listing.id
    }

    /// The backup that it was compared with; `None` for a full one.
    pub fn base(&self) -> Option<BackupId> {
        self.listing.base
    }

    /// When it was begun, microseconds since the epoch.
    pub fn micros(&self) -> i64 {
        self.listing.micros
    }

    /// Everything up to here is in it, and nothing behind.
    pub fn lsn(&self) -> Seq {
        self.listing.log_to
    }

    /// What was noted under this name.
    pub fn note(&self, name: &str) -> Option<&str> {
        let mut notes = self.listing.notes.iter();
        notes
            .find(|(known, _)| known == name)
            .map(|(_, value)| &**value)
    }

    pub(super) fn bytes(&self) -> u64 {
        let files = self.listing.files.iter().map(|file| file.bytes);
        let extents = self.listing.extents.iter().map(|extent| extent.bytes);
        files.chain(extents).sum()
    }

    /// Reads everything, and passes what is damaged to `report`.
    ///
    /// # Errors
    /// The system refuses to read, or `progress` breaks off.
    pub fn verify(
        &self,
        report: &mut dyn FnMut(&EngineError),
        progress: OnProgress<'_>,
    ) -> Result<VerifiedBackup> {
        let mut meter = Meter::new(self.bytes(), progress);
        let mut verified = VerifiedBackup {
            files: self.listing.files.len() as u64,
            extents: self.listing.extents.len() as u64,
            bytes: self.bytes(),
            findings: 0,
        };
        let mut take = |result: Result<()>| match result {
            Err(error @ EngineError::Corruption { .. }) => {
                verified.findings += 1;
                report(&error);
                Ok(())
            }
            result => result,
        };
        for file in &self.listing.files {
            take(self.read_file(file, &mut |_, _| Ok(())))?;
            meter.add(file.bytes)?;
        }
        let mut packs = PackReader::new(self);
        for extent in &self.listing.extents {
            take(packs.extent(extent).map(|_| ()))?;
            meter.add(extent.bytes)?;
        }
        debug_assert!(verified.findings <= verified.files + verified.extents);
        Ok(verified)
    }

    /// Reads a file piece by piece, and compares it with what was written.
    pub(super) fn read_file(
        &self,
        line: &FileLine,
        each: &mut dyn FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let path = self.dir.join(&line.path);
        let file = open(&*self.env.fs, &path)?;
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut checksum) = (0, 0);
        while at < line.bytes {
            let length = (line.bytes - at).min(PIECE_BYTES as u64) as usize;
            read(&*file, &path, &mut piece[..length], at)?;
            checksum = crc32c::crc32c_append(checksum, &piece[..length]);
            each(&piece[..length], at)?;
            at += length as u64;
        }
        if checksum != line.checksum {
            let what = "the bytes are not those that were written";
            return Err(damaged(&path, 0, what));
        }
        let length = file.len().map_err(|e| io("reading", &path, e))?;
        if length > line.bytes {
            let what = "bytes follow that were not written";
            return Err(damaged(&path, line.bytes, what));
        }
        Ok(())
    }
}

/// Reads extents; the pack of the last one stays open.
pub(super) struct PackReader<'s> {
    set: &'s BackupSet,
    open: Option<(PathBuf, Arc<dyn File>)>,
    buffer: Vec<u8>,
}

impl<'s> PackReader<'s> {
    pub(super) fn new(set: &'s BackupSet) -> Self {
        Self {
            set,
            open: None,
            buffer: Vec::new(),
        }
    }

    fn path(&self, line: &ExtentLine) -> PathBuf {
        let dir = match line.holder.checked_sub(1) {
            None => &self.set.dir,
            Some(holder) => &self.set.holders[holder],
        };
        dir.join(EXTENTS).join(pack_name(line.pack))
    }

    /// The bytes of an extent, compared with what was written, and the pack.
    pub(super) fn extent(&mut self, line: &ExtentLine) -> Result<(&[u8], &Arc<dyn File>)> {
        let path = self.path(line);
        let file = match self.open.take() {
            Some((open, file)) if open == path => file,
            _ => open(&*self.set.env.fs, &path)?,
        };
        self.buffer.resize(line.bytes as usize, 0);
        let whole = read(&*file, &path, &mut self.buffer, line.offset);
        let (_, file) = self.open.insert((path.clone(), file));
        whole?;
        if crc32c::crc32c(&self.buffer) != line.checksum {
            let what = format!(
                "the bytes of extent {} are not those that were written",
                line.id.0
            );
            return Err(damaged(&path, line.offset, what));
        }
        Ok((&self.buffer, file))
    }
}
