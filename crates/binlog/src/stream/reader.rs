//! The file that a stream reads, in chunks.
//!
//! Neighbours: the stream in the parent says how far it may read.
//! **Invariants**: nothing behind `limit` is read; at most [`CHUNK`] bytes are kept.

use std::sync::Arc;

use esker_vfs::{File, OpenMode};

use super::{Log, Refused, Stream};
use crate::files::{FIRST_EVENT, FileNumber};

/// Read at a time, and longest piece that is looked at.
pub(super) const CHUNK: usize = 256 << 10;

pub(super) struct Reader {
    file: Arc<dyn File>,
    /// What was read, from `buffered_at` of the file on.
    buffer: Vec<u8>,
    buffered_at: u64,
    offset: u64,
}

impl Stream {
    /// Memory of what was read and not sent.
    pub fn buffer_bytes(&self) -> usize {
        self.reader.buffer.capacity()
    }
}

impl Reader {
    pub(super) fn open(log: &Log, number: FileNumber) -> std::io::Result<Self> {
        Ok(Self {
            file: log.fs.open(&log.names.path(number), OpenMode::Read)?,
            buffer: Vec::new(),
            buffered_at: 0,
            offset: FIRST_EVENT,
        })
    }

    /// Where the next byte is read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// The next `bytes` bytes, of which there are as many before `limit`, and which stay.
    pub(super) fn peek(&mut self, bytes: usize, limit: u64) -> Result<&[u8], Refused> {
        debug_assert!(bytes <= CHUNK && self.offset + bytes as u64 <= limit);
        let at = self.buffered(bytes, limit)?;
        Ok(&self.buffer[at..at + bytes])
    }

    /// At most `bytes` of the next bytes, at least one.
    pub(super) fn take_some(&mut self, bytes: usize, limit: u64) -> Result<&[u8], Refused> {
        let left = usize::try_from(limit - self.offset).unwrap_or(CHUNK);
        let bytes = bytes.min(CHUNK).min(left);
        let at = self.buffered(bytes, limit)?;
        self.offset += bytes as u64;
        Ok(&self.buffer[at..at + bytes])
    }

    /// The next `bytes` bytes, of which there are as many before `limit`, however many.
    pub(super) fn take_whole(&mut self, bytes: usize, limit: u64) -> Result<Vec<u8>, Refused> {
        let mut whole = Vec::with_capacity(bytes);
        while whole.len() < bytes {
            whole.extend_from_slice(self.take_some(bytes - whole.len(), limit)?);
        }
        Ok(whole)
    }

    /// Where in the buffer the next `bytes` bytes are.
    fn buffered(&mut self, bytes: usize, limit: u64) -> Result<usize, Refused> {
        let end = self.buffered_at + self.buffer.len() as u64;
        let has_all = self.offset >= self.buffered_at && self.offset + bytes as u64 <= end;
        if !has_all {
            let left = usize::try_from(limit - self.offset).unwrap_or(CHUNK);
            self.buffer.resize(left.min(CHUNK), 0);
            self.buffered_at = self.offset;
            let read = self.file.read_exact_at(&mut self.buffer, self.offset);
            if let Err(e) = read {
                self.buffer.clear();
                return Err(Refused(format!("I/O error reading log event: {e}")));
            }
        }
        Ok((self.offset - self.buffered_at) as usize)
    }
}
