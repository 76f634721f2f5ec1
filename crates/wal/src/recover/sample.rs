//! A few blocks from all over the log, to know roughly which keys it has before it is read.
//!
//! Neighbours: `reader` reads everything, once and exactly. Here blocks are guessed at, so nothing may depend on what
//! is found: a stale block, or a payload that looks like one, gives records that are not in the log.

use std::sync::Arc;

use super::record::{BlockSummary, Replay};
use super::segment::{BlockAt, FIRST_BLOCK, SegmentFile};
use super::task::Task;
use crate::config::Sizes;
use crate::error::WalError;
use crate::format::{BlockHeader, MAX_PAYLOAD_BYTES, PAGE_BYTES};
use crate::lsn::Lsn;

/// Guesses of where an LSN is in a file; each knows more of how much the blocks are padded.
const GUESSES: usize = 3;

/// Blocks that are looked at, from the place on, until one is wanted.
const TRIES: usize = 32;

/// Bytes of blocks that are looked at for the sake of chained records. Longer records are in no sample.
const MAX_CHAIN_BYTES: u64 = 4 << 20;
const _: () = assert!(MAX_CHAIN_BYTES >= MAX_PAYLOAD_BYTES as u64);

/// A task at or behind `target`, if one is found that the sink wants: a block of whole records, or as many blocks as a
/// chained record needs.
pub(super) fn block_near<R: Replay>(
    file: &Arc<SegmentFile>,
    target: Lsn,
    sink: &mut R,
) -> Result<Option<Task>, WalError> {
    let start = file.segment.start();
    let mut offset = FIRST_BLOCK;
    let mut file_bytes_a_byte = 1.0;
    for _ in 0..GUESSES {
        let guess = (target.0 - start.0) as f64 * file_bytes_a_byte;
        let Some(found) = find(file, FIRST_BLOCK + guess as u64)? else {
            break;
        };
        offset = found.0;
        let lsn_bytes = found.1.first.0.saturating_sub(start.0).max(1);
        file_bytes_a_byte = (offset - FIRST_BLOCK) as f64 / lsn_bytes as f64;
    }
    let mut chain = Chain::default();
    for _ in 0..TRIES {
        let Some((at, header)) = find(file, offset)? else {
            return Ok(None);
        };
        let block = BlockAt::new(at, &header);
        let is_whole = header.payload_bytes > 0 && !header.summary.chunks;
        if is_whole && sink.wants_block(&BlockSummary::of(&header)) && file.is_intact(&block)? {
            let mut task = Task::new(block.first);
            task.read(file, block);
            return Ok(Some(task));
        }
        offset = block.end_offset();
        if let Some(task) = chain.add(file, block, &header)? {
            return Ok(Some(task));
        }
    }
    Ok(None)
}

/// Blocks of chained records, from one where no record was open.
#[derive(Default)]
struct Chain {
    /// What was found, once it is known where a record begins.
    task: Option<Task>,
}

impl Chain {
    /// Goes on with the next block; a task when every record that begins in the blocks also ends in them.
    fn add(
        &mut self,
        file: &Arc<SegmentFile>,
        block: BlockAt,
        header: &BlockHeader,
    ) -> Result<Option<Task>, WalError> {
        let has_chunks = header.summary.chunks;
        let ends_whole = !has_chunks || header.summary.largest == header.end().0;
        let bytes = u64::from(block.payload_bytes);
        let follows =
            |task: &Task| task.end == block.first && task.bytes + bytes <= MAX_CHAIN_BYTES;
        let end = block.end();
        if let Some(mut task) = self.task.take_if(|task| has_chunks && follows(task))
            && file.is_intact(&block)?
        {
            task.read(file, block);
            if ends_whole {
                return Ok(Some(task));
            }
            self.task = Some(task);
        } else {
            self.task = ends_whole.then(|| Task::new(end));
        }
        Ok(None)
    }
}

/// The first block of the segment's live range at or behind this offset, and where it is.
fn find(file: &SegmentFile, offset: u64) -> Result<Option<(u64, BlockHeader)>, WalError> {
    let mut at = offset.next_multiple_of(PAGE_BYTES).max(FIRST_BLOCK);
    let to = at + Sizes::block_on_disk(u64::from(MAX_PAYLOAD_BYTES));
    while at <= to {
        if let Some(header) = file.header_at(at)? {
            return Ok((header.first < file.segment.end).then_some((at, header)));
        }
        at += PAGE_BYTES;
    }
    Ok(None)
}
