//! One segment file: its header, and where its blocks are.
//!
//! **Invariants**
//! - A segment has a valid header of this cluster, and starts where its name says.
//! - A block is found only by following the ones before it; only behind damage below the starting point it is looked
//!   for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

use super::parts::Flaw;
use crate::config::Sizes;
use crate::error::WalError;
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, PAGE_BYTES, SegmentHeader, segment_name};
use crate::live::LiveSegment;
use crate::lsn::Lsn;

/// A segment that is needed. Its file is not recycled while this exists.
#[derive(Clone)]
pub(crate) struct Segment {
    live: LiveSegment,
    pub(crate) header: SegmentHeader,
    /// Where its live range ends.
    pub(crate) end: Lsn,
}

impl Segment {
    /// Checks the header of a segment; where its live range ends is found out later.
    pub(crate) fn open(fs: &dyn Fs, live: LiveSegment) -> Result<Self, WalError> {
        let (path, start) = (&live.path, live.start);
        let mut bytes = [0; SegmentHeader::BYTES];
        let read = open_file(fs, path)?
            .read_at(&mut bytes, 0)
            .map_err(|e| WalError::io("read", path, e))?;
        let header = match read == bytes.len() {
            true => SegmentHeader::decode(&bytes),
            false => Err("the file is too short for a segment header"),
        };
        let header = header.map_err(|what| WalError::corruption(path, 0, start, what))?;
        if header.start != start {
            let what = format!(
                "the header says that the segment starts at {}",
                header.start
            );
            return Err(WalError::corruption(path, 0, start, what));
        }
        let end = Lsn(u64::MAX);
        Ok(Self { live, header, end })
    }

    pub(crate) fn start(&self) -> Lsn {
        self.header.start
    }

    /// Where the log before it ends.
    pub(crate) fn begins(&self) -> Lsn {
        self.header.gap.unwrap_or(self.header.start)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.live.path
    }

    /// Opens the file for reading.
    pub(crate) fn reading(self: Arc<Self>, fs: &dyn Fs) -> Result<SegmentFile, WalError> {
        let file = open_file(fs, self.path())?;
        let len = file
            .len()
            .map_err(|e| WalError::io("measure", self.path(), e))?;
        Ok(SegmentFile {
            segment: self,
            file,
            len,
        })
    }
}

pub(crate) fn open_file(fs: &dyn Fs, path: &Path) -> Result<Arc<dyn File>, WalError> {
    fs.open(path, OpenMode::Read)
        .map_err(|e| WalError::io("open", path, e))
}

/// The open file of a segment.
pub(crate) struct SegmentFile {
    pub(crate) segment: Arc<Segment>,
    file: Arc<dyn File>,
    len: u64,
}

/// Where a block is: what reading it takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockAt {
    pub(crate) offset: u64,
    pub(crate) first: Lsn,
    pub(crate) payload_bytes: u32,
    pub(crate) payload_crc: u32,
    pub(crate) records: u32,
}

impl BlockAt {
    pub(crate) fn new(offset: u64, header: &BlockHeader) -> Self {
        Self {
            offset,
            first: header.first,
            payload_bytes: header.payload_bytes,
            payload_crc: header.payload_crc,
            records: header.summary.records,
        }
    }

    pub(crate) fn end(&self) -> Lsn {
        self.first.plus(u64::from(self.payload_bytes))
    }

    pub(crate) fn on_disk(&self) -> u64 {
        Sizes::block_on_disk(u64::from(self.payload_bytes))
    }

    /// Offset behind the block.
    pub(crate) fn end_offset(&self) -> u64 {
        self.offset + self.on_disk()
    }

    /// Whether these are its payload's bytes.
    pub(crate) fn is_payload(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.payload_bytes as usize && crc32c::crc32c(bytes) == self.payload_crc
    }
}

/// Why there is no block where one was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// It is not valid.
    Block,
    /// The file has been cut short: it was made with its full length.
    Bytes {
        /// Its length.
        len: u64,
    },
    /// The segment ends here, and the next one is missing.
    Successor {
        /// Up to here, at least, that had records.
        durable: Lsn,
    },
}

impl Lack {
    /// What is lacking behind `before`, the last block that was followed, where the LSN is `lsn`, in a file of `len`
    /// bytes.
    pub(crate) fn find(
        segment: &Segment,
        len: u64,
        before: Option<&BlockHeader>,
        lsn: Lsn,
    ) -> Self {
        match before.filter(|block| block.closes() && block.first == lsn) {
            Some(block) => Lack::Successor {
                durable: block.durable,
            },
            None if len < segment.header.file_bytes => Lack::Bytes { len },
            None => Lack::Block,
        }
    }

    /// Which file has it, and what is wrong. `goal` says why there should be more.
    pub(crate) fn describe(self, segment: &Segment, lsn: Lsn, goal: &str) -> (PathBuf, String) {
        let path = segment.path().to_path_buf();
        match self {
            Lack::Block => (
                path,
                format!("no valid block with LSN {lsn} here, but {goal}"),
            ),
            Lack::Bytes { len } => {
                let made = segment.header.file_bytes;
                let what = format!(
                    "the file is cut short: it has {len} bytes and was made with {made}; no block with LSN {lsn} is left, \
                     but {goal}"
                );
                (path, what)
            }
            Lack::Successor { durable } => {
                let what = format!(
                    "the file is missing: {} says that the log goes on in it, to LSN {durable} at least",
                    path.display()
                );
                (path.with_file_name(segment_name(lsn)), what)
            }
        }
    }

    /// The error about it; `offset` is where the block should be.
    pub(crate) fn error(self, segment: &Segment, offset: u64, lsn: Lsn, goal: &str) -> WalError {
        let (file, what) = self.describe(segment, lsn, goal);
        let offset = match self {
            Lack::Successor { .. } => 0,
            Lack::Block | Lack::Bytes { .. } => offset,
        };
        WalError::corruption(&file, offset, lsn, what)
    }
}

/// Where the first block of a segment is.
pub(crate) const FIRST_BLOCK: u64 = PAGE_BYTES;

impl SegmentFile {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn will_read(&self, offset: u64, len: u64) {
        self.file.will_read(offset, len);
    }

    pub(crate) fn read_exact(&self, bytes: &mut [u8], offset: u64) -> Result<(), WalError> {
        self.file
            .read_exact_at(bytes, offset)
            .map_err(|e| WalError::io("read", self.segment.path(), e))
    }

    /// The header of a block of this segment at this offset, if there is a valid one.
    pub(crate) fn header_at(&self, offset: u64) -> Result<Option<BlockHeader>, WalError> {
        debug_assert!(offset >= FIRST_BLOCK && offset.is_multiple_of(PAGE_BYTES));
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        if offset + bytes.len() as u64 > self.len {
            return Ok(None);
        }
        self.read_exact(&mut bytes, offset)?;
        let is_ours = |header: &BlockHeader| {
            header.segment_id == self.segment.header.id
                && offset + Sizes::block_on_disk(u64::from(header.payload_bytes)) <= self.len
        };
        Ok(BlockHeader::decode(&bytes).filter(is_ours))
    }

    /// The header of the block that follows at `offset`, where the LSN is `first`. That there is none
    /// is damage: the live range goes on.
    pub(crate) fn block_at(&self, offset: u64, first: Lsn) -> Result<BlockHeader, WalError> {
        let follows =
            |header: &BlockHeader| header.first == first && header.end() <= self.segment.end;
        if let Some(header) = self.header_at(offset)?.filter(follows) {
            return Ok(header);
        }
        // A block that closes the segment takes one page.
        let before = match offset {
            FIRST_BLOCK => None,
            _ => self.header_at(offset - PAGE_BYTES)?,
        };
        let goal = format!("the segment goes on to LSN {}", self.segment.end);
        let lack = Lack::find(&self.segment, self.len, before.as_ref(), first);
        Err(lack.error(&self.segment, offset, first, &goal))
    }

    /// Goes on behind damage to what is not needed: the first block behind `offset`, where the LSN is `lsn`, if
    /// everything between ends at or below `from`. Where it is, and its header.
    pub(crate) fn resume(
        &self,
        offset: u64,
        lsn: Lsn,
        from: Lsn,
    ) -> Result<Option<(u64, BlockHeader)>, WalError> {
        if lsn >= from {
            return Ok(None);
        }
        debug_assert!(offset.is_multiple_of(PAGE_BYTES));
        let mut at = offset + PAGE_BYTES;
        while at < self.len {
            match self.header_at(at)? {
                Some(header) if header.first > lsn => {
                    let fits = header.first <= from && header.end() <= self.segment.end;
                    return Ok(fits.then_some((at, header)));
                }
                _ => at += PAGE_BYTES,
            }
        }
        Ok(None)
    }

    /// Reads the payload of a block, unchecked.
    pub(crate) fn read_payload(&self, block: &BlockAt, bytes: &mut [u8]) -> Result<(), WalError> {
        debug_assert_eq!(bytes.len(), block.payload_bytes as usize);
        self.read_exact(bytes, block.offset + BLOCK_HEADER_BYTES as u64)
    }

    /// The error about a block with this flaw.
    pub(crate) fn flawed(&self, block: &BlockAt, flaw: &Flaw) -> WalError {
        let Flaw { what, lsn } = flaw;
        let what = format!("{what} (LSN {lsn}; the block ends at LSN {})", block.end());
        WalError::corruption(self.segment.path(), block.offset, block.first, what)
    }

    /// Whether the payload of a block is what was written.
    pub(crate) fn is_intact(&self, block: &BlockAt) -> Result<bool, WalError> {
        let mut payload = vec![0; block.payload_bytes as usize];
        self.read_payload(block, &mut payload)?;
        Ok(block.is_payload(&payload))
    }
}
