//! Copies a part of the log into another directory, segment by segment, while the log is being written.
//!
//! Neighbours: the tail finds the blocks; the engine pins what is to be copied, and makes the copies part of a backup.
//!
//! **Invariants**
//! - Blocks are copied as they are, at the same offsets, and only if they are durable and whole. What lies behind the
//!   last one is not copied, so a copy may be shorter than its segment; it must get that length again before it is
//!   opened.
//! - The copy of the last segment ends where the part ends: nothing is in it that was committed later.

use std::path::Path;
use std::sync::Arc;

use esker_vfs::{File, OpenMode};

use super::{Followed, TailCursor};
use crate::error::WalError;
use crate::format::{BLOCK_HEADER_BYTES, PAGE_BYTES};
use crate::lsn::Lsn;
use crate::recover::parts::{Flaw, Wanted};
use crate::recover::segment::BlockAt;

/// The copy of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentCopy {
    /// Name of the file.
    pub name: String,
    /// Bytes that were copied.
    pub bytes: u64,
    /// Their CRC-32C.
    pub checksum: u32,
    /// Bytes that the segment has.
    pub file_bytes: u64,
}

/// A copy that is being written.
struct Writing {
    start: Lsn,
    file: Arc<dyn File>,
    path: std::path::PathBuf,
    copy: SegmentCopy,
}

impl Writing {
    /// Begins with the first page of the segment, which has its header.
    fn begin(log: &impl Followed, cursor: &TailCursor, into: &Path) -> Result<Self, WalError> {
        let segment = &cursor.file.segment;
        let name = segment.path().file_name().unwrap_or_default();
        let path = into.join(name);
        let file = log
            .files()
            .fs()
            .open(&path, OpenMode::CreateNew)
            .map_err(|e| WalError::io("create", &path, e))?;
        let mut writing = Self {
            start: segment.start(),
            file,
            path,
            copy: SegmentCopy {
                name: name.to_string_lossy().into_owned(),
                bytes: 0,
                checksum: 0,
                file_bytes: segment.header.file_bytes,
            },
        };
        let mut page = [0; PAGE_BYTES as usize];
        cursor.file.read_exact(&mut page, 0)?;
        writing.append(&page)?;
        Ok(writing)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), WalError> {
        let written = self.file.write_all_at(bytes, self.copy.bytes);
        written.map_err(|e| WalError::io("write", &self.path, e))?;
        self.copy.bytes += bytes.len() as u64;
        self.copy.checksum = crc32c::crc32c_append(self.copy.checksum, bytes);
        Ok(())
    }

    fn end(self) -> Result<SegmentCopy, WalError> {
        self.file
            .sync_all()
            .map_err(|e| WalError::io("sync", &self.path, e))?;
        Ok(self.copy)
    }
}

/// Copies the segments from the one that has `from` on, up to `to`, which is durable. `each` is told how many bytes
/// were copied and may break off with an error.
pub(crate) fn copy_log<E: From<WalError>>(
    log: &impl Followed,
    (from, to): (Lsn, Lsn),
    into: &Path,
    each: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<Vec<SegmentCopy>, E> {
    assert!(to <= log.durable(), "only what is durable is copied");
    // From the first block of the segment on: blocks are found by following them.
    let start = log.files().segment_at(from.max(Lsn::FIRST));
    let start = start.map_or(from, |segment| segment.start);
    let mut cursor = TailCursor::open(log, start, Wanted::Everything)?;
    let mut copies = Vec::new();
    let mut writing = Writing::begin(log, &cursor, into)?;
    let mut buffer = Vec::new();
    while cursor.at < to {
        let Some(block) = cursor.block(log)? else {
            break;
        };
        if cursor.file.segment.start() != writing.start {
            let next = Writing::begin(log, &cursor, into)?;
            copies.push(std::mem::replace(&mut writing, next).end()?);
        }
        if block.at.end() > to {
            break;
        }
        read_whole(&cursor, &block.at, &mut buffer)?;
        assert_eq!(writing.copy.bytes, block.at.offset, "blocks have no gaps");
        writing.append(&buffer)?;
        cursor.pass(&block.at);
        each(buffer.len() as u64)?;
    }
    if cursor.at < to {
        let what = format!("the log should go on here to LSN {to}");
        let path = cursor.file.segment.path();
        return Err(WalError::corruption(path, cursor.offset, cursor.at, what).into());
    }
    copies.push(writing.end()?);
    let synced = log.files().fs().sync_dir(into);
    synced.map_err(|e| WalError::io("sync", into, e))?;
    Ok(copies)
}

/// Reads a block with its header and padding, and checks its payload.
fn read_whole(cursor: &TailCursor, at: &BlockAt, buffer: &mut Vec<u8>) -> Result<(), WalError> {
    buffer.resize(at.on_disk() as usize, 0);
    cursor.file.read_exact(buffer, at.offset)?;
    let payload = BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + at.payload_bytes as usize;
    match at.is_payload(&buffer[payload]) {
        true => Ok(()),
        false => {
            let what = "the payload's checksum is wrong";
            let lsn = at.first;
            Err(cursor.file.flawed(at, &Flaw { what, lsn }))
        }
    }
}
