//! The file system seam: what a storage engine needs from a disk and nothing more.
//!
//! Neighbours: `os` implements it on the real machine, `sim` in memory with power loss.
//!
//! **Invariants**
//! - All I/O is positional; a [`File`] has no cursor and can be shared by threads.
//! - Errors are plain [`io::Error`]; a full disk is [`io::ErrorKind::StorageFull`], a lock held by
//!   somebody else is [`io::ErrorKind::WouldBlock`].

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crate::measured::FileFigures;

/// How [`Fs::open`] treats an existing or a missing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Existing file, reading only.
    Read,
    /// Existing file, reading and writing.
    ReadWrite,
    /// New file, reading and writing; it is an error if the name exists.
    CreateNew,
    /// Reading and writing; created empty when missing.
    CreateOrOpen,
}

/// A file system.
pub trait Fs: Send + Sync {
    /// Opens a file. A created name is durable only after [`Fs::sync_dir`] of its directory.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Whether a file or directory of this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Removes the name of a file; open handles keep working.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Renames atomically, replacing `to` if it exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Creates a directory and its missing parents; they are durable on return.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted, without `.` and `..`.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the exclusive lock of a directory, released when dropped or when the process dies.
    /// `WouldBlock` if somebody else holds it.
    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirLock>>;

    /// What a file or directory takes on the disk, bytes: its blocks, not its length.
    fn taken_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Bytes that can still be written below this directory.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// What was done to each file, and to those that are gone; empty where nothing is measured.
    fn figures(&self) -> Vec<FileFigures> {
        Vec::new()
    }

    /// Figures begin anew.
    fn reset_figures(&self) {}
}

/// An open file.
pub trait File: Send + Sync {
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `buf` or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], offset + done as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => done += n,
            }
        }
        Ok(())
    }

    /// Tells the system that these bytes will be read soon, so that it can begin to fetch them. A hint: nothing may
    /// depend on it, and an error of the device comes when they are read.
    fn will_read(&self, _offset: u64, _len: u64) {}

    /// Writes all bytes at `offset`, growing the file if needed.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Sets the length; growth reads as zeros and reserves no space.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space for `[offset, offset + len)` and grows the file to cover it, so that later
    /// writes there can neither run out of space nor change the length. Unwritten bytes are zero.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Writes zeros over `[offset, offset + len)`, with as little processor time and memory as the file system allows.
    /// Nobody else may use the file meanwhile.
    fn fill_with_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        write_zeros(self, offset, len)
    }

    /// Gives the space behind `[offset, offset + len)` back: the bytes read as zeros from now on, the length stays.
    /// Whole blocks of the file system only; what it does not cover whole keeps its space. False where the file system
    /// cannot do that: then nothing has changed.
    fn punch_hole(&self, _offset: u64, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Whether [`File::share_blocks`] works between these files: asked of the file system by trying it. This one is
    /// empty.
    fn can_share_blocks(&self, _source: &dyn File) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes `[to, to + len)` of this file the same blocks of the device as `[from, from + len)` of `source` (a
    /// reflink), until one of both is written. Both offsets are multiples of [`SHARE_ALIGN`]; of the last block all is
    /// shared. Only after [`File::can_share_blocks`].
    fn share_blocks(&self, _source: &dyn File, _from: u64, _to: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What the operating system calls the file, where it is one of its files.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes the bytes (and the length needed to read them back) durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes bytes and all metadata durable.
    fn sync_all(&self) -> io::Result<()>;

    /// Current length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// What offsets of shared blocks are multiples of: no file system in use has larger blocks.
pub const SHARE_ALIGN: u64 = 4096;

/// Piece written at a time when a range is filled with zeros.
const ZERO_CHUNK: usize = 1 << 20;
/// What direct I/O may ask of the addresses of buffers, of offsets and lengths.
pub(crate) const DIRECT_ALIGN: usize = 4096;

/// Writes zeros by [`File::write_all_at`], from memory that direct I/O takes.
pub(crate) fn write_zeros<F: File + ?Sized>(file: &F, offset: u64, len: u64) -> io::Result<()> {
    let chunk = usize::try_from(len).map_or(ZERO_CHUNK, |len| len.min(ZERO_CHUNK));
    let memory = vec![0; chunk + DIRECT_ALIGN];
    let zeros = &memory[memory.as_ptr().align_offset(DIRECT_ALIGN)..][..chunk];
    let mut at = 0;
    while at < len {
        let n = (len - at).min(chunk as u64);
        file.write_all_at(&zeros[..n as usize], offset + at)?;
        at += n;
    }
    Ok(())
}

/// A held directory lock; dropping it releases the lock.
pub trait DirLock: Send + Sync {}
