//! Where the log ends, and making sure that it really does.
//!
//! The rules are in `docs/formats/wal.md`, "The end of the log".
//!
//! **Invariants**
//! - Damage to bytes that a header, or what is known from elsewhere, proves to have been durable is an error, never a shorter
//!   log; but not if they end below the place from which records are needed.
//! - On return everything up to the segment's end is durable, whatever the page cache showed.

use esker_vfs::{Fs, OpenMode};

use super::segment::{BlockAt, FIRST_BLOCK, Segment};
use super::window::Window;
use crate::error::WalError;
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, PAGE_BYTES};
use crate::lsn::Lsn;

/// Settles the end of the last segment: cuts what is torn, writes again what may not be durable. Records are needed from
/// `from` on, and everything up to `durable` is known to have been synced, whatever the segment says.
/// True if something was cut off.
pub(super) fn settle(
    segment: &mut Segment,
    fs: &dyn Fs,
    from: Lsn,
    durable: Lsn,
) -> Result<bool, WalError> {
    let (mut tail, proof, torn) = examine(segment, fs, from, durable)?;
    tail.write_again(fs, proof.durable)?;
    segment.end = tail.end();
    Ok(torn)
}

/// Where the last segment ends, and whether something is torn behind it.
pub(super) fn find_end(segment: &Segment, fs: &dyn Fs) -> Result<(Lsn, bool), WalError> {
    let (tail, _, torn) = examine(segment, fs, Lsn(0), Lsn(0))?;
    Ok((tail.end(), torn))
}

fn examine(
    segment: &Segment,
    fs: &dyn Fs,
    from: Lsn,
    durable: Lsn,
) -> Result<(Tail, Proof, bool), WalError> {
    let mut tail = Tail::follow(segment, fs, from)?;
    let proof = Proof::search(&mut tail, durable.max(from))?;
    let torn_payload = tail.cut_at_bad_payload(proof.durable)?;
    let end = tail.end();
    if end < proof.durable {
        let needed = proof.durable;
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

/// The last segment: the longest run of live block headers from its start. Only below the place from which records are
/// needed there may be gaps.
struct Tail {
    start: Lsn,
    id: u64,
    blocks: Vec<BlockAt>,
    /// The largest durable LSN that they tell.
    durable: Lsn,
    window: Window,
}

impl Tail {
    fn follow(segment: &Segment, fs: &dyn Fs, from: Lsn) -> Result<Self, WalError> {
        let start = segment.start();
        let mut tail = Self {
            start,
            id: segment.header.id,
            blocks: Vec::new(),
            durable: start,
            window: Window::open(fs, segment.path())?,
        };
        while let Some((header, block)) = match tail.following()? {
            None => tail.resume(from)?,
            following => following,
        } {
            tail.durable = tail.durable.max(header.durable);
            tail.blocks.push(block);
        }
        Ok(tail)
    }

    /// The block behind the last one.
    fn following(&mut self) -> Result<Option<(BlockHeader, BlockAt)>, WalError> {
        let following = self.block_at(self.end_offset())?;
        Ok(following.filter(|(header, _)| header.first == self.end()))
    }

    /// The next block, if everything before it ends at or below `from`: damage there hurts nobody.
    fn resume(&mut self, from: Lsn) -> Result<Option<(BlockHeader, BlockAt)>, WalError> {
        let end = self.end();
        let mut offset = self.end_offset();
        while end < from && offset < self.window.len() {
            match self.block_at(offset)? {
                Some(found) if found.0.first > end => {
                    return Ok(Some(found).filter(|(header, _)| header.first <= from));
                }
                _ => offset += PAGE_BYTES,
            }
        }
        Ok(None)
    }

    /// The valid block at this offset, if there is one.
    fn block_at(&mut self, offset: u64) -> Result<Option<(BlockHeader, BlockAt)>, WalError> {
        let found = self.header_at(offset)?;
        let found = found.map(|header| (BlockAt::new(offset, &header), header));
        let fits = found.filter(|(block, _)| block.end_offset() <= self.window.len());
        Ok(fits.map(|(block, header)| (header, block)))
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

/// What is known about what was durable.
struct Proof {
    /// Everything below was synced.
    durable: Lsn,
    /// Where it is said, if behind the end of the run.
    witness: Option<u64>,
    /// Whether there are valid headers behind the end of the run.
    blocks_behind: bool,
}

impl Proof {
    /// `durable`: what is known without the headers.
    fn search(tail: &mut Tail, durable: Lsn) -> Result<Self, WalError> {
        let mut proof = Proof {
            durable: tail.durable.max(durable),
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
