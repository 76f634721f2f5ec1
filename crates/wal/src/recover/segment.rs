//! One segment file: its header, the chain of its block headers, and the bytes of its blocks.
//!
//! **Invariants**
//! - `blocks` is the longest run of live block headers from the start; payloads are verified only
//!   when read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

use crate::config::Sizes;
use crate::error::WalError;
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, PAGE_BYTES, SegmentHeader};
use crate::lsn::Lsn;

/// Read at a time.
const WINDOW_BYTES: usize = 1 << 20;

/// A block and where it is.
pub(super) struct BlockAt {
    pub(super) offset: u64,
    pub(super) header: BlockHeader,
}

impl BlockAt {
    pub(super) fn on_disk(&self) -> u64 {
        Sizes::block_on_disk(u64::from(self.header.payload_bytes))
    }
}

pub(super) struct Segment {
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    pub(super) blocks: Vec<BlockAt>,
    reader: Reader,
}

impl Segment {
    /// Opens a segment and follows its blocks.
    pub(super) fn open(
        fs: &dyn Fs,
        path: &Path,
        start: Lsn,
        cluster: &[u8; 16],
    ) -> Result<Self, WalError> {
        let mut reader = Reader::open(fs, path)?;
        let bytes: Option<&[u8; SegmentHeader::BYTES]> =
            reader.read(0, SegmentHeader::BYTES)?.first_chunk();
        let header = bytes
            .ok_or("the file is too short for a segment header")
            .and_then(SegmentHeader::decode)
            .map_err(|what| WalError::corruption(path, 0, what))?;
        if header.cluster != *cluster {
            return Err(WalError::WrongCluster {
                file: path.to_path_buf(),
            });
        }
        if header.start != start {
            let what = format!(
                "the header says that the segment starts at {}",
                header.start
            );
            return Err(WalError::corruption(path, 0, what));
        }
        let mut segment = Self {
            path: path.to_path_buf(),
            header,
            blocks: Vec::new(),
            reader,
        };
        segment.follow_blocks()?;
        Ok(segment)
    }

    fn follow_blocks(&mut self) -> Result<(), WalError> {
        while let Some(header) = self.header_at(self.end_offset())? {
            let block = BlockAt {
                offset: self.end_offset(),
                header,
            };
            if block.header.first != self.end() || block.offset + block.on_disk() > self.reader.len
            {
                break;
            }
            self.blocks.push(block);
        }
        Ok(())
    }

    /// The valid header of a block of this segment at this offset, if there is one.
    pub(super) fn header_at(&mut self, offset: u64) -> Result<Option<BlockHeader>, WalError> {
        let header = BlockHeader::decode(self.reader.read(offset, BLOCK_HEADER_BYTES)?);
        Ok(header.filter(|header| header.segment_id == self.header.id))
    }

    /// LSN behind the last block.
    pub(super) fn end(&self) -> Lsn {
        self.blocks
            .last()
            .map_or(self.header.start, |block| block.header.end())
    }

    /// File offset behind the last block.
    pub(super) fn end_offset(&self) -> u64 {
        self.blocks
            .last()
            .map_or(PAGE_BYTES, |block| block.offset + block.on_disk())
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.reader.len
    }

    /// Cuts the run of blocks where the next segment starts; it is damage if the run does not get
    /// there.
    pub(super) fn must_reach(&mut self, next: Lsn) -> Result<(), WalError> {
        let live = self
            .blocks
            .partition_point(|block| block.header.first < next);
        self.blocks.truncate(live);
        if self.end() == next {
            return Ok(());
        }
        let what = format!(
            "no valid block with LSN {} here, but the next segment starts at LSN {next}: \
             the records between would be lost",
            self.end()
        );
        Err(WalError::corruption(&self.path, self.end_offset(), what))
    }

    /// The payload of a block, if its checksum is right.
    pub(super) fn payload(&mut self, index: usize) -> Result<Option<&[u8]>, WalError> {
        let BlockAt { offset, header } = &self.blocks[index];
        let len = header.payload_bytes as usize;
        let payload = self.reader.read(offset + BLOCK_HEADER_BYTES as u64, len)?;
        Ok(
            (payload.len() == len && crc32c::crc32c(payload) == header.payload_crc)
                .then_some(payload),
        )
    }

    /// All bytes of a block with its padding.
    pub(super) fn raw(&mut self, index: usize) -> Result<&[u8], WalError> {
        let block = &self.blocks[index];
        let (offset, len) = (block.offset, block.on_disk() as usize);
        self.reader.read(offset, len)
    }
}

/// Reads a file through a window, so that following headers does not cost a system call each.
struct Reader {
    file: Arc<dyn File>,
    path: PathBuf,
    len: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Reader {
    fn open(fs: &dyn Fs, path: &Path) -> Result<Self, WalError> {
        let file = fs
            .open(path, OpenMode::Read)
            .map_err(|e| WalError::io("open", path, e))?;
        let len = file.len().map_err(|e| WalError::io("measure", path, e))?;
        let path = path.to_path_buf();
        Ok(Self {
            file,
            path,
            len,
            window: Vec::new(),
            window_at: 0,
        })
    }

    /// The bytes at `offset`, fewer than `len` at the end of the file.
    fn read(&mut self, offset: u64, len: usize) -> Result<&[u8], WalError> {
        let len = (self.len.saturating_sub(offset)).min(len as u64) as usize;
        if len == 0 {
            return Ok(&[]);
        }
        let window_end = self.window_at + self.window.len() as u64;
        if offset < self.window_at || offset + len as u64 > window_end {
            self.load(offset, len)?;
        }
        let at = (offset - self.window_at) as usize;
        Ok(&self.window[at..at + len])
    }

    fn load(&mut self, offset: u64, at_least: usize) -> Result<(), WalError> {
        let most = self.len - offset;
        self.window
            .resize((at_least.max(WINDOW_BYTES) as u64).min(most) as usize, 0);
        self.window_at = offset;
        self.file
            .read_exact_at(&mut self.window, offset)
            .map_err(|e| WalError::io("read", &self.path, e))
    }
}
