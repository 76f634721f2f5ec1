//! The real machine: files, clocks and random numbers of the operating system.
//!
//! Neighbours: implements the traits of `fs` and `env`.
//!
//! **Invariants**
//! - Files are opened close-on-exec, I/O is positional.
//! - A failed sync is reported as it is; nothing here tries again.

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::env::{Clock, Random};
use crate::fs::{DIRECT_ALIGN, DirLock, File, Fs, OpenMode, SHARE_ALIGN, write_zeros};

/// Name of the lock file that [`Fs::lock_dir`] creates in the directory.
const LOCK_FILE: &str = "LOCK";

/// What the system counts the blocks of a file in.
const BLOCK_BYTES: u64 = 512;

/// Piece written at a time where a file system cannot preallocate.
const ZERO_CHUNK: usize = 64 * 1024;

/// The operating system's file system.
#[derive(Debug, Default, Clone, Copy)]
pub struct OsFs;

impl OsFs {
    /// The file system of this machine.
    pub fn new() -> Self {
        Self
    }

    /// Removes a directory with everything in it, for whoever made it as a scratch directory.
    pub fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    /// Writes a file out and asks the system to drop its pages, so that the next read comes from the device.
    pub fn drop_cached(&self, path: &Path) -> io::Result<()> {
        let file = fs::File::open(path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }

    /// The parts of a file that have something on the device, in their order: reading the others costs no I/O.
    pub fn data_ranges(&self, path: &Path) -> io::Result<Vec<Range<u64>>> {
        let file = fs::File::open(path)?;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        loop {
            let from = ranges.last().map_or(0, |last| last.end);
            let start = match rustix::fs::seek(&file, SeekFrom::Data(from)) {
                Ok(start) => start,
                // Nothing behind.
                Err(Errno::NXIO) => return Ok(ranges),
                Err(error) => return Err(error.into()),
            };
            let end = rustix::fs::seek(&file, SeekFrom::Hole(start))?;
            ranges.push(start..end);
        }
    }
}

impl Fs for OsFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => {
                options.write(true);
            }
            OpenMode::CreateNew => {
                options.write(true).create_new(true);
            }
            OpenMode::CreateOrOpen => {
                options.write(true).create(true).truncate(false);
            }
        }
        Ok(Arc::new(OsFile(options.open(path)?)))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        // Outermost last.
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .collect();
        fs::create_dir_all(path)?;
        for dir in missing.iter().rev() {
            match dir.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => self.sync_dir(parent)?,
                _ => self.sync_dir(Path::new("."))?,
            }
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // A name that is not UTF-8 was not made by us, and we could not ask for it either.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirLock>> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join(LOCK_FILE))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(OsDirLock { _file: file })),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn taken_bytes(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::symlink_metadata(path)?.blocks() * BLOCK_BYTES)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// The lock lives as long as the open file description.
struct OsDirLock {
    _file: fs::File,
}

impl DirLock for OsDirLock {}

struct OsFile(fs::File);

impl OsFile {
    /// Reserves by writing zeros, for file systems without preallocation.
    fn allocate_by_writing(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeros = [0; ZERO_CHUNK];
        let end = offset + len;
        // What exists is left alone: it may hold data.
        let mut at = self.0.metadata()?.len().max(offset);
        while at < end {
            let n = (end - at).min(ZERO_CHUNK as u64) as usize;
            self.0.write_all_at(&zeros[..n], at)?;
            at += n as u64;
        }
        Ok(())
    }
}

impl OsFile {
    /// Past the page cache (O_DIRECT) or through it, from now on.
    fn set_direct(&self, direct: bool) -> io::Result<()> {
        let mut flags = rustix::fs::fcntl_getfl(&self.0)?;
        flags.set(rustix::fs::OFlags::DIRECT, direct);
        Ok(rustix::fs::fcntl_setfl(&self.0, flags)?)
    }
}

impl File for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn will_read(&self, offset: u64, len: u64) {
        let Some(len) = std::num::NonZeroU64::new(len) else {
            return;
        };
        // Only a hint: what is not fetched ahead is fetched later.
        let _ = rustix::fs::fadvise(&self.0, offset, Some(len), rustix::fs::Advice::WillNeed);
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), offset, len) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => self.allocate_by_writing(offset, len),
            Err(error) => Err(error.into()),
        }
    }

    /// Past the page cache where that is possible: 64 MiB cost 6 to 10 ms of processor time so, 160 ms through it.
    fn fill_with_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        let is_aligned = [offset, len]
            .iter()
            .all(|n| n.is_multiple_of(DIRECT_ALIGN as u64));
        if is_aligned && self.set_direct(true).is_ok() {
            let filled = write_zeros(self, offset, len);
            self.set_direct(false)?;
            // That is how a file system says that it wants other alignments.
            if !matches!(&filled, Err(e) if e.kind() == io::ErrorKind::InvalidInput) {
                return filled;
            }
        }
        write_zeros(self, offset, len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<bool> {
        if len == 0 {
            return Ok(true);
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.0, hole, offset, len) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn can_share_blocks(&self, source: &dyn File) -> io::Result<bool> {
        assert_eq!(self.len()?, 0, "it is tried with all of the file");
        let Some(source) = source.descriptor() else {
            return Ok(false);
        };
        // Whatever hinders it (another file system, one that cannot, a sandbox) is no error: there is another way.
        if rustix::fs::ioctl_ficlone(&self.0, source).is_err() {
            return Ok(false);
        }
        self.0.set_len(0)?;
        Ok(true)
    }

    fn share_blocks(&self, source: &dyn File, from: u64, to: u64, len: u64) -> io::Result<()> {
        debug_assert!(from.is_multiple_of(SHARE_ALIGN) && to.is_multiple_of(SHARE_ALIGN));
        match source.descriptor() {
            Some(source) => Ok(copy_range(source, from, self.0.as_fd(), to, len)?),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// Shares whole blocks: that is what copy_file_range(2) does where the file system can, if offsets and lengths are
/// those of blocks.
fn copy_range(
    source: BorrowedFd<'_>,
    mut from: u64,
    file: BorrowedFd<'_>,
    mut to: u64,
    len: u64,
) -> Result<(), Errno> {
    let (end, whole) = (from + len, from + len.next_multiple_of(SHARE_ALIGN));
    while from < whole {
        let left = usize::try_from(whole - from).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(source, Some(&mut from), file, Some(&mut to), left) {
            // The source may end in its last block.
            Ok(0) if from >= end => break,
            Ok(0) => return Err(Errno::INVAL),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The operating system's clocks.
#[derive(Debug, Clone, Copy)]
pub struct OsClock {
    start: Instant,
}

impl OsClock {
    /// A clock whose monotonic time starts now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for OsClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for OsClock {
    fn wall_micros(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |m| -m),
        }
    }

    fn mono_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The operating system's random numbers, fit for keys and salts.
#[derive(Debug, Default, Clone, Copy)]
pub struct OsRandom;

impl Random for OsRandom {
    fn fill(&self, buf: &mut [u8]) {
        let mut done = 0;
        while done < buf.len() {
            match rustix::rand::getrandom(&mut buf[done..], rustix::rand::GetRandomFlags::empty()) {
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                // Going on without randomness would mean predictable keys.
                Err(error) => panic!("the operating system gives no random numbers: {error}"),
            }
        }
    }
}
