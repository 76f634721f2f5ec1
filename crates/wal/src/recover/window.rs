//! Reading a file from front to back in small pieces.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{File, Fs};

use super::segment::open_file;
use crate::error::WalError;

/// Read at a time.
const WINDOW_BYTES: usize = 1 << 20;

/// Reads a file through a window, so that looking at every page does not cost a system call each.
pub(super) struct Window {
    file: Arc<dyn File>,
    path: PathBuf,
    len: u64,
    bytes: Vec<u8>,
    at: u64,
}

impl Window {
    pub(super) fn open(fs: &dyn Fs, path: &Path) -> Result<Self, WalError> {
        let path = path.to_path_buf();
        let file = open_file(fs, &path)?;
        let len = file.len().map_err(|e| WalError::io("measure", &path, e))?;
        Ok(Self {
            file,
            path,
            len,
            bytes: Vec::new(),
            at: 0,
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes at `offset`, fewer than `len` at the end of the file.
    pub(super) fn read(&mut self, offset: u64, len: usize) -> Result<&[u8], WalError> {
        let len = (self.len.saturating_sub(offset)).min(len as u64) as usize;
        if len == 0 {
            return Ok(&[]);
        }
        let window_end = self.at + self.bytes.len() as u64;
        if offset < self.at || offset + len as u64 > window_end {
            self.load(offset, len)?;
        }
        let at = (offset - self.at) as usize;
        Ok(&self.bytes[at..at + len])
    }

    fn load(&mut self, offset: u64, at_least: usize) -> Result<(), WalError> {
        debug_assert!(offset + at_least as u64 <= self.len);
        let most = self.len - offset;
        self.bytes
            .resize((at_least.max(WINDOW_BYTES) as u64).min(most) as usize, 0);
        self.at = offset;
        self.file
            .read_exact_at(&mut self.bytes, offset)
            .map_err(|e| WalError::io("read", &self.path, e))
    }
}
