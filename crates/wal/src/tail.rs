//! A tail: follows the log while it is being written, record after record, across segments.
//!
//! Neighbours: `files` knows the segments and keeps those that are read or pinned; `flush` writes what is read here;
//! `recover::parts` puts the records together, as it does for a restart.
//!
//! Blocks are read from the files, mostly out of the page cache: the path of a commit does not know that anybody
//! follows.
//!
//! | at the place that comes next | what the tail does |
//! |---|---|
//! | it is not durable yet | is caught up |
//! | the next segment begins here (or the gap before it does) | goes there |
//! | a block of this segment stands here | reads it, or passes it over if nothing of it is wanted |
//! | anything else | the log is damaged |
//!
//! **Invariants**
//! - Nothing is handed over that is not durable. Durable is a prefix, however many groups are on their way, so a block
//!   that ends at or below the durable LSN is whole.
//! - What a crash left behind the end of a segment's live range is never read: the next segment is looked for first.
//! - The segment that is being read stays, and with it every later one, so nothing is missed while the tail is there.
//! - Checksums are verified again. What is wrong is an error, and nothing is passed over.
//!
//! Parts: `copy` copies a part of the log into another directory.

mod copy;
#[cfg(test)]
mod tests;

pub use copy::SegmentCopy;
pub(crate) use copy::copy_log;

use std::sync::Arc;

use esker_vfs::Fs;

use crate::error::WalError;
use crate::files::SegmentFiles;
use crate::format::BlockHeader;
use crate::future::DurableFuture;
use crate::live::LiveSegment;
use crate::lsn::Lsn;
use crate::recover::buffer::{Buffers, LogBytes};
use crate::recover::parts::{Assembler, Wanted};
use crate::recover::record::{BlockSummary, Replay};
use crate::recover::segment::{BlockAt, FIRST_BLOCK, Segment, SegmentFile};
use crate::shared::Shared;

/// What [`Tail::next`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Went on; there may be more.
    More,
    /// There is nothing durable behind what was handed over.
    CaughtUp,
}

/// The log that is followed.
pub(crate) trait Followed {
    fn files(&self) -> &SegmentFiles;

    fn cluster(&self) -> [u8; 16];

    /// Everything that ends at or below this is durable.
    fn durable(&self) -> Lsn;
}

impl Followed for Shared {
    fn files(&self) -> &SegmentFiles {
        &self.files
    }

    fn cluster(&self) -> [u8; 16] {
        self.cluster
    }

    fn durable(&self) -> Lsn {
        self.waiters.durable()
    }
}

/// Follows a log; made by [`crate::Wal::tail`].
pub struct Tail {
    shared: Arc<Shared>,
    cursor: TailCursor,
}

impl Tail {
    pub(crate) fn open(shared: Arc<Shared>, from: Lsn, wanted: Wanted) -> Result<Self, WalError> {
        let cursor = TailCursor::open(&*shared, from, wanted)?;
        Ok(Tail { shared, cursor })
    }

    /// Everything before was handed over, or is not wanted.
    pub fn at(&self) -> Lsn {
        self.cursor.at
    }

    /// Hands over the records that end in the next block. The sink is asked which blocks it wants only if everything is
    /// wanted, and not about blocks with parts of chained records.
    ///
    /// # Errors
    /// The log is damaged, the system refuses to read, or the sink has had enough. The tail must not be used any more.
    pub fn next<R: Replay>(&mut self, sink: &mut R) -> Result<Progress, R::Error> {
        self.cursor.next(&*self.shared, sink)
    }

    /// Resolves when there may be more than when [`Tail::next`] was last called, or the log has ended. It asks for no
    /// flush.
    pub fn wait(&self) -> DurableFuture {
        DurableFuture::of_others(Arc::clone(&self.shared), Lsn(self.cursor.at.0 + 1))
    }
}

/// Where a tail is.
pub(crate) struct TailCursor {
    at: Lsn,
    /// Offset of the next block.
    offset: u64,
    file: SegmentFile,
    /// The segment behind, once there is one, and where this one ends for that reason.
    next: Option<(LiveSegment, Lsn)>,
    wanted: Wanted,
    assembler: Assembler,
    buffers: Buffers,
}

impl TailCursor {
    pub(crate) fn open(log: &impl Followed, from: Lsn, wanted: Wanted) -> Result<Self, WalError> {
        let from = from.max(Lsn::FIRST);
        let files = log.files();
        let Some(live) = files.segment_at(from) else {
            return Err(WalError::Missing {
                dir: files.dir().to_path_buf(),
                begins: Some(files.space().first),
                needed: from,
            });
        };
        let file = open_segment(log, live)?;
        let mut cursor = TailCursor {
            at: file.segment.start(),
            offset: FIRST_BLOCK,
            file,
            next: None,
            wanted,
            assembler: Assembler::new(from, wanted),
            buffers: Buffers::default(),
        };
        cursor.find(log, from)?;
        Ok(cursor)
    }

    /// Goes to the block that has `from`, or to where that will be.
    fn find(&mut self, log: &impl Followed, from: Lsn) -> Result<(), WalError> {
        while let Some(block) = self.block(log)? {
            if block.at.end() > from {
                break;
            }
            self.pass(&block.at);
        }
        Ok(())
    }

    pub(crate) fn next<R: Replay>(
        &mut self,
        log: &impl Followed,
        sink: &mut R,
    ) -> Result<Progress, R::Error> {
        let Some(block) = self.block(log)? else {
            return Ok(Progress::CaughtUp);
        };
        if self.wants(&block, sink) {
            self.read(&block.at, sink)?;
        }
        self.pass(&block.at);
        Ok(Progress::More)
    }

    fn wants<R: Replay>(&self, block: &Block, sink: &mut R) -> bool {
        let summary = &block.header.summary;
        match self.wanted {
            Wanted::Attachments => summary.attachments,
            Wanted::Everything => {
                summary.chunks || sink.wants_block(&BlockSummary::of(&block.header))
            }
        }
    }

    /// The next block, if it is durable. Goes on to the next segment for it.
    fn block(&mut self, log: &impl Followed) -> Result<Option<Block>, WalError> {
        loop {
            // Looked at first: what is durable now is in this segment or in one that has begun by now.
            let durable = log.durable();
            if self.at >= durable {
                return Ok(None);
            }
            if self.next.is_none()
                && let Some(live) = log.files().segment_after(self.file.segment.start())
            {
                let behind = Segment::open(&**log.files().fs(), live.clone())?;
                self.next = Some((live, behind.begins()));
            }
            if self.next.as_ref().is_some_and(|(_, ends)| *ends == self.at) {
                self.enter_next(log)?;
                continue;
            }
            let header = self.file.block_at(self.offset, self.at)?;
            let at = BlockAt::new(self.offset, &header);
            let ends = self.next.as_ref().map_or(durable, |(_, ends)| *ends);
            if at.payload_bytes == 0 || at.end() > ends.min(durable) {
                let what =
                    format!("the log was durable up to LSN {durable}, and this block is not");
                return Err(WalError::corruption(
                    self.file.segment.path(),
                    self.offset,
                    self.at,
                    what,
                ));
            }
            return Ok(Some(Block { at, header }));
        }
    }

    fn enter_next(&mut self, log: &impl Followed) -> Result<(), WalError> {
        let Some((live, _)) = self.next.take() else {
            return Ok(());
        };
        // The old segment is given up only when the new one is kept.
        self.file = open_segment(log, live)?;
        self.offset = FIRST_BLOCK;
        // Further than before if the log has a gap.
        assert!(self.file.segment.start() >= self.at, "the log goes on");
        self.at = self.file.segment.start();
        if self.file.segment.header.after_open {
            self.assembler.begin_life();
        }
        Ok(())
    }

    fn read<R: Replay>(&mut self, block: &BlockAt, sink: &mut R) -> Result<(), R::Error> {
        let mut bytes = self.buffers.take(block.payload_bytes as usize);
        self.file.read_payload(block, &mut bytes)?;
        let buffer = Arc::new(LogBytes::new(bytes));
        let assembled = self.assembler.block(block, &buffer, &buffer, sink)?;
        if let Err(flaw) = assembled {
            return Err(self.file.flawed(block, &flaw).into());
        }
        self.buffers.give_back(buffer);
        Ok(())
    }

    fn pass(&mut self, block: &BlockAt) {
        assert_eq!(block.first, self.at, "blocks follow each other");
        self.at = block.end();
        self.offset = block.end_offset();
    }
}

/// A block that is durable.
struct Block {
    at: BlockAt,
    header: BlockHeader,
}

fn open_segment(log: &impl Followed, live: LiveSegment) -> Result<SegmentFile, WalError> {
    let fs: &dyn Fs = &**log.files().fs();
    let segment = Segment::open(fs, live)?;
    if segment.header.cluster != log.cluster() {
        return Err(WalError::WrongCluster {
            file: segment.path().to_path_buf(),
        });
    }
    Arc::new(segment).reading(fs)
}
