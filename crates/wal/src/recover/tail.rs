//! Where the log ends, and making sure that it really does.
//!
//! The rules are in `docs/formats/wal.md`, "The end of the log".
//!
//! **Invariants**
//! - Damage to bytes that a header, or what is known from elsewhere, proves to have been durable is an error, never a
//!   shorter log; but not if they end below the place from which records are needed.
//! - On return everything up to the segment's end is durable, whatever the page cache showed.

use std::sync::Arc;

use esker_vfs::{Fs, OpenMode};

use super::segment::{BlockAt, FIRST_BLOCK, Lack, Segment};
use super::window::Window;
use crate::error::WalError;
use crate::files::{Handles, Unclosed};
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, PAGE_BYTES};
use crate::lsn::Lsn;

/// Settles the end of the last segment: cuts what is torn, writes again what may not be durable. Records are needed
/// from `from` on, and everything up to `durable` is known to have been synced, whatever the segment says. True if
/// something was cut off.
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

/// The segment as the one before a new one; `None` if it has no room for a word about that, or if damage below the
/// place from which records are needed hides where its blocks end.
pub(super) fn unclosed(
    segment: &Segment,
    fs: &dyn Fs,
    from: Lsn,
) -> Result<Option<Unclosed>, WalError> {
    let tail = Tail::follow(segment, fs, from)?;
    let end = tail.end();
    // What closes a segment says more than a seal, and takes its place.
    let records = tail.blocks.iter().rfind(|block| block.payload_bytes > 0);
    let offset = records.map_or(FIRST_BLOCK, BlockAt::end_offset);
    if end != segment.end || offset + PAGE_BYTES > tail.window.len() {
        return Ok(None);
    }
    let path = segment.path().to_path_buf();
    let file = fs
        .open(&path, OpenMode::ReadWrite)
        .map_err(|e| WalError::io("open", &path, e))?;
    Ok(Some(Unclosed {
        start: segment.start(),
        id: segment.header.id,
        handles: Arc::new(Handles::new(path, file)),
        offset,
        end,
    }))
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
    let (end, offset) = (tail.end(), tail.end_offset());
    let last = tail.last.as_ref();
    let lack = Lack::find(segment, tail.window.len(), last, end);
    if end < proof.durable || lack != Lack::Block {
        let needed = proof.durable;
        let goal = match end < needed {
            true => format!("everything up to LSN {needed} was durable"),
            false => "it may have had records".to_owned(),
        };
        let witness = proof.witness.map_or(String::new(), |offset| {
            format!(" (says the block at offset {offset})")
        });
        return Err(lack.error(segment, offset, end, &(goal + &witness)));
    }
    let torn = torn_payload || proof.blocks_behind;
    Ok((tail, proof, torn))
}

/// The last segment: the longest run of live block headers from its start. Only below the place from which records are
/// needed there may be gaps.
struct Tail {
    start: Lsn,
    id: u64,
    /// No block of it ends behind.
    most: Lsn,
    blocks: Vec<BlockAt>,
    /// The header of the last block that was followed.
    last: Option<BlockHeader>,
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
            most: segment.end,
            blocks: Vec::new(),
            last: None,
            durable: start,
            window: Window::open(fs, segment.path())?,
        };
        while let Some((header, block)) = match tail.following()? {
            None => tail.resume(from)?,
            following => following,
        } {
            tail.durable = tail.durable.max(header.durable);
            tail.blocks.push(block);
            tail.last = Some(header);
        }
        Ok(tail)
    }

    /// The block behind the last one.
    fn following(&mut self) -> Result<Option<(BlockHeader, BlockAt)>, WalError> {
        let following = self.block_at(self.end_offset())?;
        let (at, most) = (self.end(), self.most);
        Ok(following.filter(|(header, _)| header.first == at && header.end() <= most))
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
