//! Where the log ends, and making sure that it really does.
//!
//! The rules are in `docs/formats/wal.md`, "The end of the log".
//!
//! **Invariants**
//! - Damage to bytes that some header proves to have been durable is an error, never a shorter log.
//! - On return everything up to the segment's end is durable, whatever the page cache showed.

use esker_vfs::{Fs, OpenMode};

use super::segment::{BlockAt, FIRST_BLOCK, Segment};
use super::window::Window;
use crate::error::WalError;
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, PAGE_BYTES};
use crate::lsn::Lsn;

/// Settles the end of the last segment: cuts what is torn, writes again what may not be durable.
/// True if something was cut off.
pub(super) fn settle(segment: &mut Segment, fs: &dyn Fs, from: Lsn) -> Result<bool, WalError> {
    let (mut tail, proof, torn) = examine(segment, fs, from)?;
    tail.write_again(fs, proof.durable)?;
    segment.end = tail.end();
    Ok(torn)
}

/// Where the last segment ends, and whether something is torn behind it.
pub(super) fn find_end(segment: &Segment, fs: &dyn Fs) -> Result<(Lsn, bool), WalError> {
    let (tail, _, torn) = examine(segment, fs, Lsn(0))?;
    Ok((tail.end(), torn))
}

fn examine(segment: &Segment, fs: &dyn Fs, from: Lsn) -> Result<(Tail, Proof, bool), WalError> {
    let mut tail = Tail::follow(segment, fs)?;
    let proof = Proof::search(&mut tail)?;
    let torn_payload = tail.cut_at_bad_payload(proof.durable)?;
    let end = tail.end();
    if end < proof.durable || end < from {
        let needed = proof.durable.max(from);
        let what = format!(
            "no valid block with LSN {end} here, but everything up to LSN {needed} was durable{}",
            proof.witness.map_or(String::new(), |offset| format!(
                " (says the block at offset {offset})"
            )),
        );
        let offset = tail.end_offset();
        return Err(WalError::corruption(segment.path(), offset, end, what));
    }
    let torn = torn_payload || proof.blocks_behind;
    Ok((tail, proof, torn))
}

/// The last segment: the longest run of live block headers from its start.
struct Tail {
    start: Lsn,
    id: u64,
    blocks: Vec<BlockAt>,
    /// The largest durable LSN that they tell.
    durable: Lsn,
    window: Window,
}

impl Tail {
    fn follow(segment: &Segment, fs: &dyn Fs) -> Result<Self, WalError> {
        let start = segment.start();
        let mut tail = Self {
            start,
            id: segment.header.id,
            blocks: Vec::new(),
            durable: start,
            window: Window::open(fs, segment.path())?,
        };
        while let Some(header) = tail.header_at(tail.end_offset())? {
            let block = BlockAt::new(tail.end_offset(), &header);
            if block.first != tail.end() || block.end_offset() > tail.window.len() {
                break;
            }
            tail.durable = tail.durable.max(header.durable);
            tail.blocks.push(block);
        }
        Ok(tail)
    }

    /// The valid header of a block of this segment at this offset, if there is one.
    fn header_at(&mut self, offset: u64) -> Result<Option<BlockHeader>, WalError> {
        let header = BlockHeader::decode(self.window.read(offset, BLOCK_HEADER_BYTES)?);
        Ok(header.filter(|header| header.segment_id == self.id))
    }

    /// LSN behind the last block.
    fn end(&self) -> Lsn {
        self.blocks.last().map_or(self.start, BlockAt::end)
    }

    /// File offset behind the last block.
    fn end_offset(&self) -> u64 {
        self.blocks.last().map_or(FIRST_BLOCK, BlockAt::end_offset)
    }

    fn first_unproven(&self, durable: Lsn) -> usize {
        self.blocks.partition_point(|block| block.end() <= durable)
    }

    /// Cuts the run before the first block that is not proven durable and has a bad payload.
    fn cut_at_bad_payload(&mut self, durable: Lsn) -> Result<bool, WalError> {
        for index in self.first_unproven(durable)..self.blocks.len() {
            let block = self.blocks[index];
            let offset = block.offset + BLOCK_HEADER_BYTES as u64;
            let payload = self.window.read(offset, block.payload_bytes as usize)?;
            if !block.is_payload(payload) {
                self.blocks.truncate(index);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the unproven blocks again and syncs. A sync alone would not do: after a failed one the
    /// cache takes its bytes for clean.
    fn write_again(&mut self, fs: &dyn Fs, durable: Lsn) -> Result<(), WalError> {
        let unproven = self.first_unproven(durable)..self.blocks.len();
        if unproven.is_empty() {
            return Ok(());
        }
        let path = self.window.path().to_path_buf();
        let file = fs
            .open(&path, OpenMode::ReadWrite)
            .map_err(|e| WalError::io("open", &path, e))?;
        for block in &self.blocks[unproven] {
            let bytes = self.window.read(block.offset, block.on_disk() as usize)?;
            file.write_all_at(bytes, block.offset)
                .map_err(|e| WalError::io("write", &path, e))?;
        }
        file.sync_data().map_err(|e| WalError::io("sync", &path, e))
    }
}

/// What the headers of a segment say about what was durable.
struct Proof {
    /// Everything below was synced.
    durable: Lsn,
    /// Where it is said, if behind the end of the run.
    witness: Option<u64>,
    /// Whether there are valid headers behind the end of the run.
    blocks_behind: bool,
}

impl Proof {
    fn search(tail: &mut Tail) -> Result<Self, WalError> {
        let mut proof = Proof {
            durable: tail.durable,
            witness: None,
            blocks_behind: false,
        };
        let mut offset = tail.end_offset();
        while offset < tail.window.len() {
            if let Some(header) = tail.header_at(offset)? {
                proof.blocks_behind = true;
                if header.durable > proof.durable {
                    proof.durable = header.durable;
                    proof.witness = Some(offset);
                }
            }
            offset += PAGE_BYTES;
        }
        Ok(proof)
    }
}
