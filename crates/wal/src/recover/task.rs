//! A piece of the log: reading its blocks, checking them, and handing over their records.
//!
//! Neighbours: `reader` makes the tasks; any thread may read one; `parts` puts the records together.
//!
//! **Invariants**
//! - A task has all parts of the chained records that it has a part of.
//! - A chain is never continued by a later life of the log: it is forgotten where a segment begins
//!   that was begun by opening.

use std::ops::AddAssign;
use std::sync::Arc;

use super::buffer::{Buffers, LogBytes};
use super::parts::{Assembler, Wanted};
use super::record::Replay;
use super::segment::{BlockAt, SegmentFile};
use super::survey::Survey;
use crate::format::BLOCK_HEADER_BYTES;
use crate::lsn::Lsn;

/// A piece of the log that can be read by itself: everything in `[first, end)`.
pub struct Task {
    pub(super) first: Lsn,
    pub(super) end: Lsn,
    pub(super) runs: Vec<Run>,
    pub(super) bytes: u64,
    pub(super) skipped_blocks: u64,
    pub(super) skipped_bytes: u64,
}

/// Blocks of one segment that are to be read, ascending. Between them may be others.
pub(super) struct Run {
    pub(super) file: Arc<SegmentFile>,
    pub(super) blocks: Vec<BlockAt>,
}

impl Task {
    pub(super) fn new(first: Lsn) -> Self {
        Self {
            first,
            end: first,
            runs: Vec::new(),
            bytes: 0,
            skipped_blocks: 0,
            skipped_bytes: 0,
        }
    }

    /// Where it begins in the log: at the end of the task before.
    pub fn first(&self) -> Lsn {
        self.first
    }

    /// Where it ends.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Payload bytes of its blocks that will be read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Payload bytes of its blocks that nobody wants.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    pub(super) fn read(&mut self, file: &Arc<SegmentFile>, block: BlockAt) {
        debug_assert_eq!(self.end, block.first, "tasks cover the log without gap");
        self.bytes += u64::from(block.payload_bytes);
        self.end = block.end();
        match self.runs.last_mut() {
            Some(run) if Arc::ptr_eq(&run.file, file) => {
                let last = run.blocks.last();
                debug_assert!(last.is_none_or(|last| last.end_offset() <= block.offset));
                run.blocks.push(block);
            }
            _ => self.runs.push(Run {
                file: Arc::clone(file),
                blocks: vec![block],
            }),
        }
    }

    /// Goes on at the start of a segment, or behind damage that is not needed; that is further if the log has a gap.
    pub(super) fn go_to(&mut self, lsn: Lsn) {
        debug_assert!(self.end <= lsn);
        if self.end == self.first {
            self.first = lsn;
        }
        self.end = lsn;
    }

    pub(super) fn skip(&mut self, block: BlockAt) {
        debug_assert_eq!(self.end, block.first, "tasks cover the log without gap");
        self.skipped_blocks += 1;
        self.skipped_bytes += u64::from(block.payload_bytes);
        self.end = block.end();
    }
}

/// What a task had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Records handed over.
    pub records: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Blocks skipped unread.
    pub skipped_blocks: u64,
    /// Payload bytes read.
    pub bytes: u64,
}

impl AddAssign for TaskCounts {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.blocks += other.blocks;
        self.skipped_blocks += other.skipped_blocks;
        self.bytes += other.bytes;
    }
}

/// Parses the blocks of one task, in order.
pub(super) struct Parser<'r, R> {
    survey: &'r Survey,
    replay: &'r mut R,
    assembler: Assembler,
    counts: TaskCounts,
}

impl<'r, R: Replay> Parser<'r, R> {
    /// Records that end at or below `from` are not handed over.
    pub(super) fn new(from: Lsn, survey: &'r Survey, replay: &'r mut R) -> Self {
        Self {
            survey,
            replay,
            assembler: Assembler::new(from, Wanted::Everything),
            counts: TaskCounts::default(),
        }
    }

    /// Hands over the records of a task. Reads up to `most` bytes at a time, but always whole blocks.
    pub(super) fn task(
        mut self,
        task: &Task,
        buffers: &Buffers,
        most: u64,
    ) -> Result<TaskCounts, R::Error> {
        self.counts.skipped_blocks = task.skipped_blocks;
        for run in &task.runs {
            if run.file.segment.header.after_open {
                self.assembler.begin_life();
            }
            let mut rest = &run.blocks[..];
            while !rest.is_empty() {
                let (together, behind) = rest.split_at(adjacent(rest, most));
                self.blocks(&run.file, together, buffers)?;
                rest = behind;
            }
        }
        self.counts.records = self.assembler.records;
        Ok(self.counts)
    }

    /// Reads blocks that lie behind each other, and hands over their records.
    fn blocks(
        &mut self,
        file: &SegmentFile,
        blocks: &[BlockAt],
        buffers: &Buffers,
    ) -> Result<(), R::Error> {
        let (begin, end) = match (blocks.first(), blocks.last()) {
            (Some(first), Some(last)) => (first.offset, last.end_offset()),
            _ => return Ok(()),
        };
        let mut bytes = buffers.take((end - begin) as usize);
        file.read_exact(&mut bytes, begin)?;
        let buffer = Arc::new(LogBytes::new(bytes));
        for block in blocks {
            let at = (block.offset - begin) as usize + BLOCK_HEADER_BYTES;
            let payload = &buffer[at..at + block.payload_bytes as usize];
            self.block(file, block, payload, &buffer)?;
        }
        buffers.give_back(buffer);
        Ok(())
    }

    fn block(
        &mut self,
        file: &SegmentFile,
        block: &BlockAt,
        payload: &[u8],
        buffer: &Arc<LogBytes>,
    ) -> Result<(), R::Error> {
        let assembled = self.assembler.block(block, payload, buffer, self.replay)?;
        if let Err(flaw) = assembled {
            return Err(self.survey.with_loss(file.flawed(block, &flaw)).into());
        }
        self.counts.blocks += 1;
        self.counts.bytes += u64::from(block.payload_bytes);
        Ok(())
    }
}

/// How many of these blocks, at least one, lie behind each other and have at most `most` bytes.
fn adjacent(blocks: &[BlockAt], most: u64) -> usize {
    debug_assert!(!blocks.is_empty());
    let begin = blocks[0].offset;
    let follows = |pair: &[BlockAt]| {
        pair[0].end_offset() == pair[1].offset && pair[1].end_offset() - begin <= most
    };
    1 + blocks.windows(2).take_while(|pair| follows(pair)).count()
}
