//! The simulated disk as a file system: handles, latency, and the controls that tests pull.
//!
//! Neighbours: `disk` holds the state; this file only locks it, waits, and hands out handles.
//!
//! **Invariants**
//! - The lock is never held while a sync waits, so that other operations go on meanwhile, and a
//!   sync covers only what was written before it began.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::CrashImage;
use super::disk::{Disk, Taken};
use super::fault::{Fault, Op, io_error, power_is_off};
use super::names::{InodeId, Node, normalised};
use crate::fs::{DirLock, File, Fs, OpenMode};

struct Shared {
    disk: Mutex<Disk>,
    /// Signalled when `held_syncs` or `waiting_syncs` change.
    syncs_changed: Condvar,
    sync_latency: Mutex<Duration>,
}

/// A disk in memory. Clones are handles of the same disk.
#[derive(Clone)]
pub struct SimFs {
    shared: Arc<Shared>,
}

impl Default for SimFs {
    fn default() -> Self {
        Self::new()
    }
}

impl SimFs {
    /// An empty disk without limits.
    pub fn new() -> Self {
        Self::from_disk(Disk::new())
    }

    fn from_disk(disk: Disk) -> Self {
        Self {
            shared: Arc::new(Shared {
                disk: Mutex::new(disk),
                syncs_changed: Condvar::new(),
                sync_latency: Mutex::new(Duration::ZERO),
            }),
        }
    }

    /// The disk after a power loss with a seeded mixture of what was not synced.
    pub fn crash(&self, seed: u64) -> SimFs {
        self.crash_with(CrashImage::Random(seed))
    }

    /// The disk after a power loss.
    pub fn crash_with(&self, image: CrashImage) -> SimFs {
        Self::from_disk(self.shared.disk.lock().after_crash(image))
    }

    /// Keeps what crashes at chosen moments would leave, and goes on: before each change `look` is asked, with
    /// [`SimFs::ops`], for an image and a note. It runs under the disk's lock, so it sees what was so at that moment,
    /// and may not touch the disk.
    pub fn keep_crashes(
        &self,
        look: impl FnMut(u64) -> Option<(CrashImage, usize)> + Send + 'static,
    ) {
        self.shared.disk.lock().watch(Box::new(look));
    }

    /// Ends [`SimFs::keep_crashes`]; the disks with their notes.
    pub fn kept_crashes(&self) -> Vec<(SimFs, usize)> {
        let kept = self.shared.disk.lock().take_kept();
        let disk = |taken: Taken| (Self::from_disk(taken.disk), taken.note);
        kept.into_iter().map(disk).collect()
    }

    /// Number of operations so far that changed the disk (syncs included).
    pub fn ops(&self) -> u64 {
        self.shared.disk.lock().ops()
    }

    /// Cuts the power when [`SimFs::ops`] reaches `ops`: everything later fails and changes
    /// nothing.
    pub fn halt_at(&self, ops: u64) {
        self.shared.disk.lock().halt_at(ops);
    }

    /// Limits the space to what is in use when [`SimFs::ops`] reaches `ops`.
    pub fn fill_at(&self, ops: u64) {
        self.shared.disk.lock().fill_at(ops);
    }

    /// Whether the power is still on.
    pub fn has_power(&self) -> bool {
        self.shared.disk.lock().has_power()
    }

    /// Limits the space; what is in use already stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.disk.lock().set_capacity(bytes);
    }

    /// Bytes of space in use.
    pub fn used_bytes(&self) -> u64 {
        self.shared.disk.lock().used()
    }

    /// Plans a failure. Of several that match an operation, the one planned first decides.
    pub fn inject(&self, fault: Fault) {
        self.shared.disk.lock().plan.add(fault);
    }

    /// Cancels all planned failures.
    pub fn clear_faults(&self) {
        self.shared.disk.lock().plan.clear();
    }

    /// The operations that were made to fail so far.
    pub fn fault_hits(&self) -> Vec<(Op, PathBuf)> {
        self.shared.disk.lock().plan.hits().to_vec()
    }

    /// Makes every sync take this long in real time.
    pub fn set_sync_latency(&self, latency: Duration) {
        *self.shared.sync_latency.lock() = latency;
    }

    /// Makes file syncs wait until [`SimFs::release_syncs`].
    pub fn hold_syncs(&self) {
        self.hold_syncs_of("");
    }

    /// Makes syncs of files whose path contains this wait until [`SimFs::release_syncs`].
    pub fn hold_syncs_of(&self, path_part: &str) {
        self.shared.disk.lock().held_syncs = Some(path_part.to_owned());
    }

    /// Lets waiting and later syncs go on.
    pub fn release_syncs(&self) {
        self.shared.disk.lock().held_syncs = None;
        self.shared.syncs_changed.notify_all();
    }

    /// Blocks until a file sync waits because of [`SimFs::hold_syncs`].
    pub fn await_held_sync(&self) {
        self.await_held_syncs(1);
    }

    /// Blocks until this many file syncs wait because of [`SimFs::hold_syncs`].
    pub fn await_held_syncs(&self, count: usize) {
        let mut disk = self.shared.disk.lock();
        while disk.waiting_syncs < count {
            self.shared.syncs_changed.wait(&mut disk);
        }
    }

    /// Whether bytes of any named file wait for a sync.
    pub fn has_unsynced_bytes(&self) -> bool {
        self.shared.disk.lock().has_unsynced_bytes()
    }

    /// Drops the page cache where syncs have failed: readers see what the platter has.
    pub fn drop_caches(&self) {
        self.shared.disk.lock().drop_caches();
    }

    /// Flips one bit of a file, in the cache and on the platter.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        assert!(bit < 8, "a byte has eight bits");
        let mut disk = self.shared.disk.lock();
        let inode = disk.lookup_file(&normalised(path))?;
        disk.inode_mut(inode).flip_bit(offset, bit);
        Ok(())
    }

    /// The whole content of a file, as readers see it. Counts as no operation.
    pub fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let disk = self.shared.disk.lock();
        let inode = disk.inode(disk.lookup_file(&normalised(path))?);
        let mut bytes = vec![0; inode.len() as usize];
        inode.read(&mut bytes, 0);
        Ok(bytes)
    }

    fn sleep_latency(&self) {
        let latency = *self.shared.sync_latency.lock();
        if !latency.is_zero() {
            std::thread::sleep(latency);
        }
    }

    fn sync_file(&self, file: &SimFile) -> io::Result<()> {
        let (inode, path) = (file.inode, file.path.as_path());
        let mut disk = self.shared.disk.lock();
        let verdict = disk.begin_on(Op::Sync, inode, path);
        if verdict.is_err() && !disk.has_power() {
            return verdict;
        }
        let before = disk.next_stamp();
        if disk.is_held(inode, path) {
            disk.waiting_syncs += 1;
            self.shared.syncs_changed.notify_all();
            while disk.is_held(inode, path) {
                self.shared.syncs_changed.wait(&mut disk);
            }
            disk.waiting_syncs -= 1;
        }
        drop(disk);
        self.sleep_latency();
        let mut disk = self.shared.disk.lock();
        let inode = disk.inode_mut(inode);
        match verdict {
            Ok(()) => inode.sync_succeeds(before),
            Err(_) => inode.sync_fails(before),
        }
        // As Linux has it since 4.13: every open file hears once of an error since it was opened or
        // heard last, whoever's sync it was that met it.
        let failures = inode.failed_syncs();
        let unheard = file.heard_failures.swap(failures, Ordering::SeqCst) < failures;
        verdict.and_then(|()| if unheard { Err(io_error()) } else { Ok(()) })
    }
}

impl Fs for SimFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let path = normalised(path);
        let mut disk = self.shared.disk.lock();
        let inode = disk.open(&path, mode)?;
        let heard_failures = AtomicU64::new(disk.inode(inode).failed_syncs());
        let writable = mode != OpenMode::Read;
        Ok(Arc::new(SimFile {
            fs: self.clone(),
            inode,
            path,
            writable,
            heard_failures,
        }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let disk = self.shared.disk.lock();
        if !disk.has_power() {
            return Err(power_is_off());
        }
        Ok(disk.names().get(&normalised(path)).is_some())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.shared.disk.lock().remove_file(&normalised(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared
            .disk
            .lock()
            .rename(&normalised(from), &normalised(to))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.shared.disk.lock().create_dirs(&normalised(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let dir = normalised(dir);
        let disk = self.shared.disk.lock();
        if !disk.has_power() {
            return Err(power_is_off());
        }
        match disk.names().get(&dir) {
            Some(Node::Dir) => Ok(disk.names().list(&dir)),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = normalised(dir);
        let before = {
            let mut disk = self.shared.disk.lock();
            disk.begin(Op::SyncDir, &dir)?;
            if disk.names().get(&dir) != Some(Node::Dir) {
                return Err(io::ErrorKind::NotFound.into());
            }
            disk.next_stamp()
        };
        self.sleep_latency();
        self.shared.disk.lock().sync_dir(&dir, before);
        Ok(())
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirLock>> {
        let dir = normalised(dir);
        let mut disk = self.shared.disk.lock();
        if disk.names().get(&dir) != Some(Node::Dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if !disk.locked_dirs.insert(dir.clone()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimDirLock {
            fs: self.clone(),
            dir,
        }))
    }

    fn taken_bytes(&self, path: &Path) -> io::Result<u64> {
        self.shared.disk.lock().taken(&normalised(path))
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(self.shared.disk.lock().free())
    }
}

struct SimDirLock {
    fs: SimFs,
    dir: PathBuf,
}

impl DirLock for SimDirLock {}

impl Drop for SimDirLock {
    fn drop(&mut self) {
        self.fs.shared.disk.lock().locked_dirs.remove(&self.dir);
    }
}

struct SimFile {
    fs: SimFs,
    inode: InodeId,
    /// The name it was opened by.
    path: PathBuf,
    writable: bool,
    /// Failed syncs of the file that this handle knows of.
    heard_failures: AtomicU64,
}

impl SimFile {
    /// Runs a change under the lock, after counting it and asking the fault plan.
    fn change<T>(&self, op: Op, f: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut disk = self.fs.shared.disk.lock();
        disk.begin_on(op, self.inode, &self.path)?;
        f(&mut disk)
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.fs.shared.disk.lock();
        disk.begin_on(Op::Read, self.inode, &self.path)?;
        Ok(disk.inode(self.inode).read(buf, offset))
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.change(Op::Write, |disk| disk.write(self.inode, buf, offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Op::SetLen, |disk| {
            disk.set_len(self.inode, len);
            Ok(())
        })
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(Op::Allocate, |disk| disk.allocate(self.inode, offset, len))
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.change(Op::Punch, |disk| {
            disk.punch(self.inode, offset, len);
            Ok(true)
        })
    }

    fn can_share_blocks(&self, _source: &dyn File) -> io::Result<bool> {
        Ok(true)
    }

    /// It has no blocks that files share, but what one would read of them.
    fn share_blocks(&self, source: &dyn File, from: u64, to: u64, len: u64) -> io::Result<()> {
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        source.read_exact_at(&mut bytes, from)?;
        self.write_all_at(&bytes, to)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fs.sync_file(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.fs.sync_file(self)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.fs.shared.disk.lock().inode(self.inode).len())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.fs.shared.disk.lock().close(self.inode);
    }
}
