//! Takes a backup: freezes the trees, then copies log and extents.
//!
//! Neighbours: `listing` has what it consists of; the session that wants it drives [`Backup`] on its thread.
//!
//! ```text
//! begin  → log hardened; under the manifest's lock: log pinned, durable LSN read, extents kept
//! copy   → log up to that LSN, manifest, extents that the base has not
//! finish → the listing
//! ```
//! **Invariants**
//! - The log ends at the LSN that was durable when the trees were frozen, so all extents that a commit record in it
//!   brings are among the frozen ones.
//! - Bytes are checked when they are copied: what is damaged is not kept as if it were whole.
//! - Where the file system can, extents share the blocks of the data files: these never write over an extent in place,
//!   and a slot that is used again gets blocks of its own.
//! - One backup at a time: the log is pinned under one name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_vfs::{Env, File, OpenMode, SHARE_ALIGN};
use esker_wal::{Lsn, Wal};

use super::listing::{BackupId, ExtentLine, FileLine, Holder, Listing};
use super::{
    EXTENTS, LOG, MANIFEST, Meter, OnProgress, PIECE_BYTES, io, make_empty, open, read, refused,
};
use crate::engine::Engine;
use crate::extent::{Extent, ExtentId};
use crate::tree::Frozen;
use crate::{Result, Seq};

/// Under this name the log is pinned.
const PIN: &str = "backup";
/// A pack that is longer is followed by another.
const PACK_BYTES: u64 = 1 << 30;
/// So much is written before it is synced: the log of the server need not wait behind more.
const UNSYNCED_BYTES: u64 = 16 << 20;

/// Keeps the log, and other backups away.
struct Pin {
    wal: Wal,
    is_taken: Arc<AtomicBool>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Err(error) = self.wal.unpin(PIN) {
            tracing::warn!(%error, "the log that a backup kept cannot be recycled");
        }
        self.is_taken.store(false, Ordering::Release);
    }
}

/// What names the bytes of an extent, in whatever backup.
type Content = (ExtentId, u64, u64);

/// A backup that is being taken.
pub struct Backup {
    env: Env,
    dir: PathBuf,
    frozen: Frozen,
    log_from: Lsn,
    listing: Listing,
    /// Extents of the base.
    known: HashMap<Content, ExtentLine>,
    pin: Pin,
}

impl Engine {
    /// Begins a backup in a directory that is not there, or empty: of everything that is durable when this returns.
    /// With a base, extents that the base has are not copied.
    ///
    /// # Errors
    /// Another backup is being taken; the base is none of this database; the system refuses.
    pub fn begin_backup(&self, dir: &Path, base: Option<&Path>) -> Result<Backup> {
        let core = self.core();
        core.recovery.ready()?;
        let wal = core.env.commit.log.wal().clone();
        let is_taken = Arc::clone(&core.is_backed_up);
        if is_taken.swap(true, Ordering::Acquire) {
            return Err(refused("another backup is being taken"));
        }
        let pin = Pin { wal, is_taken };
        let env = core.disk.clone();
        let base = match base {
            Some(path) => Some((path, Listing::read(&env, path)?)),
            None => None,
        };
        make_empty(&*env.fs, dir)?;
        core.env.commit.log.flush()?;
        let (mut log_from, mut log_to): (Lsn, Seq) = (Lsn(0), 0);
        let frozen = core.env.trees.freeze(|from| {
            log_from = Lsn(from);
            pin.wal.pin(PIN, log_from)?;
            log_to = core.env.commit.log.durable();
            Ok(())
        })?;
        let mut id = BackupId([0; 16]);
        env.random.fill(&mut id.0);
        let listing = Listing {
            id,
            database: frozen.uuid,
            base: None,
            micros: env.clock.wall_micros(),
            log_to,
            notes: Vec::new(),
            holders: Vec::new(),
            files: Vec::new(),
            extents: Vec::new(),
        };
        let mut backup = Backup {
            env,
            dir: dir.to_path_buf(),
            frozen,
            log_from,
            listing,
            known: HashMap::new(),
            pin,
        };
        if let Some((path, base)) = base {
            backup.rest_on(path, base)?;
        }
        Ok(backup)
    }
}

impl Backup {
    /// Takes note of what the base has.
    fn rest_on(&mut self, path: &Path, base: Listing) -> Result<()> {
        if base.database != self.listing.database {
            let path = path.display();
            return Err(refused(format!(
                "the backup in {path} is of another database"
            )));
        }
        self.listing.base = Some(base.id);
        self.listing.holders = base.holders;
        self.listing.holders.push(Holder {
            id: base.id,
            path: path.to_path_buf(),
        });
        let own = self.listing.holders.len();
        for mut line in base.extents {
            if line.holder == 0 {
                line.holder = own;
            }
            self.known.insert((line.id, line.stamp, line.bytes), line);
        }
        Ok(())
    }

    /// Identifies it.
    pub fn id(&self) -> BackupId {
        self.listing.id
    }

    /// Everything up to here is in it, and nothing behind.
    pub fn lsn(&self) -> Seq {
        self.listing.log_to
    }

    /// Adds a file of the layer above: its place in the data directory, and its content.
    ///
    /// # Errors
    /// Of the system.
    pub fn add_file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.dir.join(name);
        let write = || {
            let file = self.env.fs.open(&path, OpenMode::CreateNew)?;
            file.write_all_at(bytes, 0)?;
            file.sync_all()
        };
        write().map_err(|e| io("writing", &path, e))?;
        let length = bytes.len() as u64;
        self.listing.files.push(FileLine {
            path: name.to_owned(),
            bytes: length,
            checksum: crc32c::crc32c(bytes),
            restored_bytes: length,
        });
        Ok(())
    }

    /// Adds something to remember, on one line.
    pub fn note(&mut self, name: &str, value: &str) {
        assert!(!name.contains([' ', '\n']), "a name is a word");
        let value = value.replace('\n', "");
        self.listing.notes.push((name.to_owned(), value));
    }

    /// Copies everything, and makes it durable: what was copied.
    ///
    /// # Errors
    /// Damage, a full disk, `progress` breaks off: then there is no backup.
    pub fn copy(mut self, progress: OnProgress<'_>) -> Result<Copied> {
        let is_new = |extent: &&Arc<Extent>| !self.known.contains_key(&content(extent));
        let fresh: u64 = self
            .frozen
            .extents
            .iter()
            .filter(is_new)
            .map(|e| bytes(e))
            .sum();
        let log = self.listing.log_to.saturating_sub(self.log_from.0);
        let mut meter = Meter::new(fresh + log, progress);
        meter.holds_log(true);
        self.copy_log(&mut meter)?;
        meter.holds_log(false);
        self.write_manifest()?;
        let shared = self.copy_extents(&mut meter)?;
        for part in [EXTENTS, LOG, MANIFEST] {
            let path = self.dir.join(part);
            let synced = self.env.fs.sync_dir(&path);
            synced.map_err(|e| io("syncing", &path, e))?;
        }
        self.listing.write(&*self.env.fs, &self.dir)?;
        let files = self.listing.files.iter().map(|file| file.bytes);
        Ok(Copied {
            bytes: fresh - shared + files.sum::<u64>(),
            shared_bytes: shared,
            extents: self.listing.extents.len() as u64,
            extent_bytes: self.listing.extents.iter().map(|line| line.bytes).sum(),
        })
    }

    fn copy_log(&mut self, meter: &mut Meter<'_>) -> Result<()> {
        let (range, dir) = (
            (self.log_from, Lsn(self.listing.log_to)),
            self.dir.join(LOG),
        );
        let copies = self
            .pin
            .wal
            .copy(range, &dir, &mut |bytes| meter.add(bytes))?;
        let lines = copies.into_iter().map(|copy| FileLine {
            path: format!("{LOG}/{}", copy.name),
            bytes: copy.bytes,
            checksum: copy.checksum,
            restored_bytes: copy.file_bytes,
        });
        self.listing.files.extend(lines);
        // The rest may take long, and needs nothing of it.
        self.pin.wal.unpin(PIN)?;
        Ok(())
    }

    fn write_manifest(&mut self) -> Result<()> {
        let fs = &*self.env.fs;
        let path = self.frozen.write_manifest(fs, &self.dir.join(MANIFEST))?;
        let file = open(fs, &path)?;
        let bytes = file.len().map_err(|e| io("reading", &path, e))?;
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut checksum) = (0, 0);
        while at < bytes {
            let length = (bytes - at).min(PIECE_BYTES as u64) as usize;
            read(&*file, &path, &mut piece[..length], at)?;
            checksum = crc32c::crc32c_append(checksum, &piece[..length]);
            at += length as u64;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.listing.files.push(FileLine {
            path: format!("{MANIFEST}/{name}"),
            bytes,
            checksum,
            restored_bytes: bytes,
        });
        Ok(())
    }

    /// Copies what the base has not: how many bytes of it share the blocks of the data files.
    fn copy_extents(&mut self, meter: &mut Meter<'_>) -> Result<u64> {
        let mut packs = Packs::new(&self.env, self.dir.join(EXTENTS));
        let mut buffer = Vec::new();
        for extent in &self.frozen.extents {
            if let Some(line) = self.known.get(&content(extent)) {
                self.listing.extents.push(*line);
                continue;
            }
            extent.read_stored(&mut buffer)?;
            let (pack, offset) = packs.append(extent, &buffer)?;
            self.listing.extents.push(ExtentLine {
                id: extent.meta().id,
                stamp: extent.meta().stamp,
                bytes: buffer.len() as u64,
                checksum: crc32c::crc32c(&buffer),
                holder: 0,
                pack,
                offset,
            });
            meter.add(buffer.len() as u64)?;
        }
        packs.end()
    }
}

/// What a backup has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that were written.
    pub bytes: u64,
    /// Bytes that share the blocks of data files instead.
    pub shared_bytes: u64,
    /// Extents, those in other backups included.
    pub extents: u64,
    /// Their bytes.
    pub extent_bytes: u64,
}

fn bytes(extent: &Extent) -> u64 {
    u64::from(extent.meta().stored_bytes)
}

fn content(extent: &Extent) -> Content {
    (extent.meta().id, extent.meta().stamp, bytes(extent))
}

/// Name of a pack.
pub(super) fn pack_name(number: u32) -> String {
    format!("{number:06}.pack")
}

/// Files with extents, one behind the other; what shares blocks begins at a multiple of [`SHARE_ALIGN`].
struct Packs<'e> {
    env: &'e Env,
    dir: PathBuf,
    number: u32,
    current: Option<(Arc<dyn File>, u64)>,
    /// Can the current one share blocks with data files?
    can_share: bool,
    /// Bytes that share the blocks of data files.
    shared: u64,
    /// Bytes that were written since the last sync.
    unsynced: u64,
}

impl<'e> Packs<'e> {
    fn new(env: &'e Env, dir: PathBuf) -> Self {
        Self {
            env,
            dir,
            number: 0,
            current: None,
            can_share: false,
            shared: 0,
            unsynced: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(pack_name(self.number))
    }

    /// Adds an extent whose bytes these are: number of the pack, and offset.
    fn append(&mut self, extent: &Extent, bytes: &[u8]) -> Result<(u32, u64)> {
        if self
            .current
            .as_ref()
            .is_some_and(|(_, end)| *end >= PACK_BYTES)
        {
            self.sync()?;
        }
        let (file, offset) = match self.current.take() {
            Some(current) => current,
            None => {
                self.number += 1;
                let file = self.env.fs.open(&self.path(), OpenMode::CreateNew);
                let file = file.map_err(|e| io("creating", &self.path(), e))?;
                let can_share = extent.can_share_with(&*file);
                self.can_share = can_share.map_err(|e| io("sharing", &self.path(), e))?;
                (file, 0)
            }
        };
        let length = bytes.len() as u64;
        let aligned = offset.next_multiple_of(SHARE_ALIGN);
        let is_shared = self.can_share && extent.share_with(&*file, aligned).is_ok();
        let offset = if is_shared {
            self.shared += length;
            aligned
        } else {
            // Whatever was wrong with sharing: a full disk is one for this, too.
            let written = file.write_all_at(bytes, offset);
            written.map_err(|e| io("writing", &self.path(), e))?;
            self.unsynced += length;
            offset
        };
        if self.unsynced >= UNSYNCED_BYTES {
            self.unsynced = 0;
            file.sync_all()
                .map_err(|e| io("syncing", &self.path(), e))?;
        }
        self.current = Some((file, offset + length));
        Ok((self.number, offset))
    }

    fn sync(&mut self) -> Result<()> {
        match self.current.take() {
            Some((file, _)) => file.sync_all().map_err(|e| io("syncing", &self.path(), e)),
            None => Ok(()),
        }
    }

    fn end(mut self) -> Result<u64> {
        self.sync()?;
        Ok(self.shared)
    }
}
