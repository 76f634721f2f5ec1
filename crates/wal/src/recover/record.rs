//! What reading the log gives, and who takes it.

use std::ops::Range;
use std::sync::Arc;

use super::buffer::LogBytes;
use crate::error::WalError;
use crate::format::{BlockHeader, RecordKind};
use crate::lsn::Lsn;

/// A record read back from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// First byte of its place.
    pub start: Lsn,
    /// End of its place: its commit sequence.
    pub end: Lsn,
    /// What it is for.
    pub kind: RecordKind,
    /// The trees it touches, as the writer gave them.
    pub trees: &'a [u32],
    /// Whether the payload ends with an attachment.
    pub has_attachment: bool,
    /// What the writer wrote: a piece of `buffer`.
    pub payload: &'a [u8],
    /// The bytes that the payload lies in. Whoever keeps them keeps the payload without a copy, and the records around
    /// it, too.
    pub buffer: &'a Arc<LogBytes>,
}

impl Record<'_> {
    /// Where the payload lies in its buffer.
    pub fn payload_range(&self) -> Range<usize> {
        let at = self.payload.as_ptr().addr() - self.buffer.as_ptr().addr();
        at..at + self.payload.len()
    }
}

/// What a block's header tells about its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSummary<'a> {
    /// First LSN.
    pub first: Lsn,
    /// End LSN.
    pub end: Lsn,
    /// Number of records.
    pub records: u32,
    /// Smallest and largest sequence of the records.
    pub seqs: (u64, u64),
    /// Ids of the trees that are touched, ascending; `None` if they are too many to tell.
    pub trees: Option<&'a [u32]>,
    /// Whether there are records of two-phase transactions.
    pub two_phase: bool,
    /// Whether there are counter records.
    pub counters: bool,
    /// Whether there are records that end with an attachment.
    pub attachments: bool,
}

impl<'a> BlockSummary<'a> {
    pub(crate) fn of(header: &'a BlockHeader) -> Self {
        let summary = &header.summary;
        Self {
            first: header.first,
            end: header.end(),
            records: summary.records,
            seqs: (summary.smallest, summary.largest),
            trees: (!summary.many_trees).then_some(&summary.trees),
            two_phase: summary.two_phase,
            counters: summary.counters,
            attachments: summary.attachments,
        }
    }
}

/// Takes the records of a log. Implemented by closures that take a [`Record`].
pub trait Replay {
    /// Its own error, which ends the reading.
    type Error: From<WalError>;

    /// Whether any record of this block is needed. Blocks that are not are skipped unread. Not
    /// asked for blocks that have parts of chained records.
    fn wants_block(&mut self, _summary: &BlockSummary<'_>) -> bool {
        true
    }

    /// The next record.
    fn record(&mut self, record: Record<'_>) -> Result<(), Self::Error>;
}

impl<F, E> Replay for F
where
    F: FnMut(Record<'_>) -> Result<(), E>,
    E: From<WalError>,
{
    type Error = E;

    fn record(&mut self, record: Record<'_>) -> Result<(), E> {
        self(record)
    }
}

/// What reading the whole log found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// End of the log: the first record of this life starts here.
    pub end: Lsn,
    /// Records handed over.
    pub records: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Blocks skipped unread.
    pub skipped_blocks: u64,
    /// Whether the remains of unfinished writes were dropped behind the end.
    pub torn: bool,
}
