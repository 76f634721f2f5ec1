//! What is left to read of a log that was opened: handing it out in tasks.
//!
//! Tasks are found by following the block headers, in the order of the log, under a lock. That takes a microsecond or
//! so a block; reading and parsing is what takes time, and it is done outside. Guessing where blocks begin, to find
//! tasks independently, was rejected: a payload can hold what looks like a block, and following is never wrong. Only
//! behind damage that is below the starting point, so that nothing needed is hurt, the next block is looked for.
//!
//! **Invariants**
//! - Tasks cover the log without overlap, and without gap but where the log itself has one or is damaged below the
//!   starting point, and are handed out in its order.
//! - A task ends only where no chained record is open.
//! - Segments are not recycled before the tasks that need them are dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use esker_vfs::Fs;
use parking_lot::Mutex;

use super::ahead::ReadAhead;
use super::buffer::Buffers;
use super::record::{BlockSummary, Recovered, Replay};
use super::sample;
use super::segment::{BlockAt, FIRST_BLOCK, Segment, SegmentFile};
use super::survey::Survey;
use super::task::{Parser, Task, TaskCounts};
use super::{Lost, There};
use crate::config::Reading;
use crate::error::WalError;
use crate::format::BlockHeader;
use crate::lsn::Lsn;

/// The part of the log that was there when it was opened, from the starting point on. Nothing of it has been read yet.
///
/// Any number of threads may take tasks and read them.
pub struct LogReader {
    fs: Arc<dyn Fs>,
    reading: Reading,
    from: Lsn,
    bytes: u64,
    end: Lsn,
    torn: bool,
    pub(super) lost: Option<Lost>,
    survey: Survey,
    cursor: Mutex<Cursor>,
    buffers: Buffers,
}

/// Everything before is handed out.
struct Cursor {
    lsn: Lsn,
    /// Whether the block before ends inside a chained record.
    in_chain: bool,
    current: Option<Current>,
    rest: VecDeque<Arc<Segment>>,
    ahead: ReadAhead,
}

struct Current {
    file: Arc<SegmentFile>,
    offset: u64,
}

impl LogReader {
    pub(super) fn empty(fs: &Arc<dyn Fs>, from: Lsn) -> Self {
        let there = There {
            from,
            segments: Vec::new(),
            end: Lsn::FIRST,
            torn: false,
        };
        Self::new(fs, Reading::default(), there, Survey::none(fs))
    }

    /// A reader of segments that follow each other; the end of the last one is settled.
    pub(super) fn new(fs: &Arc<dyn Fs>, reading: Reading, there: There, survey: Survey) -> Self {
        let start = there.segments.first().map_or(there.end, Segment::start);
        let has_blocks = |segment: &&Segment| segment.start() < segment.end;
        let needed = there.segments.iter().filter(has_blocks);
        let from = there.from;
        let length = |segment: &Segment| segment.end.0.saturating_sub(segment.start().max(from).0);
        Self {
            fs: Arc::clone(fs),
            reading,
            from,
            bytes: needed.clone().map(length).sum(),
            end: there.end,
            torn: there.torn,
            lost: None,
            survey,
            cursor: Mutex::new(Cursor {
                lsn: start,
                in_chain: false,
                current: None,
                rest: needed.cloned().map(Arc::new).collect(),
                ahead: ReadAhead::default(),
            }),
            buffers: Buffers::default(),
        }
    }

    /// Records that end at or below are not handed over.
    pub fn from(&self) -> Lsn {
        self.from
    }

    /// End of the log that is read: the first record of this life starts here.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Whether the remains of unfinished writes were dropped behind the end.
    pub fn torn(&self) -> bool {
        self.torn
    }

    /// Length of the log that has to be looked at, in LSN bytes: the sum of what tasks cover above the starting point.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What was given up because the log is damaged, if the opening was told to go on without.
    pub fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// The next task, in the order of the log; `None` if all are handed out. Of the sink it is only asked which blocks
    /// it wants; that must be quick, because others wait for their tasks meanwhile.
    ///
    /// # Errors
    /// A block is missing where one has to be. Everything before it was handed out, and the error comes again with
    /// every call.
    pub fn next<R: Replay>(&self, sink: &mut R) -> Result<Option<Task>, WalError> {
        let mut cursor = self.cursor.lock();
        let mut task = Task::new(cursor.lsn);
        let extended = self.extend(&mut task, &mut cursor, sink);
        debug_assert!(cursor.lsn <= task.first && task.first <= task.end);
        cursor.lsn = task.end;
        match extended {
            Err(error) if task.end == task.first => Err(self.survey.with_loss(error)),
            Ok(()) if task.end == task.first => {
                debug_assert!(cursor.rest.is_empty() && cursor.current.is_none());
                Ok(None)
            }
            _ => {
                self.read_ahead(&task, &mut cursor);
                Ok(Some(task))
            }
        }
    }

    fn read_ahead(&self, task: &Task, cursor: &mut Cursor) {
        if let Some(Current { file, offset }) = &cursor.current {
            let next = cursor.rest.front();
            let bytes = self.reading.read_ahead_bytes;
            let fs = &*self.fs;
            cursor.ahead.advance(task, (file, *offset), next, bytes, fs);
        }
    }

    /// Adds blocks to a task until it is large enough, a segment ends, or there are no more.
    fn extend<R: Replay>(
        &self,
        task: &mut Task,
        cursor: &mut Cursor,
        sink: &mut R,
    ) -> Result<(), WalError> {
        while task.bytes < self.reading.task_bytes || cursor.in_chain {
            let Some(Current { file, offset }) = &mut cursor.current else {
                let at_border = task.end > task.first && !cursor.in_chain;
                if at_border || !self.begin_segment(task, cursor)? {
                    return Ok(());
                }
                continue;
            };
            let header = match file.block_at(*offset, task.end) {
                Ok(header) => header,
                Err(damage) => {
                    let Some((at, header)) = file.resume(*offset, task.end, self.from)? else {
                        return Err(damage);
                    };
                    // No chained record is open: the blocks of one that is needed are needed, too.
                    tracing::warn!("nothing of this is needed any more: {damage}");
                    *offset = at;
                    task.go_to(header.first);
                    header
                }
            };
            let block = BlockAt::new(*offset, &header);
            let is_seal = header.payload_bytes == 0;
            if !is_seal && (cursor.in_chain || self.needs(&header, sink)) {
                task.read(file, block);
                let summary = &header.summary;
                cursor.in_chain = summary.chunks && summary.largest != header.end().0;
            } else if !is_seal {
                task.skip(block);
            }
            *offset = block.end_offset();
            debug_assert!(task.end <= file.segment.end);
            if task.end == file.segment.end {
                cursor.current = None;
            }
        }
        Ok(())
    }

    /// Goes on to the next segment; false if there is none.
    fn begin_segment(&self, task: &mut Task, cursor: &mut Cursor) -> Result<bool, WalError> {
        let Some(segment) = cursor.rest.front() else {
            return Ok(false);
        };
        let file = Arc::new(Arc::clone(segment).reading(&*self.fs)?);
        cursor.in_chain &= !segment.header.after_open;
        debug_assert!(cursor.current.is_none() && task.end <= segment.start());
        task.go_to(segment.start());
        cursor.rest.pop_front();
        cursor.current = Some(Current {
            file,
            offset: FIRST_BLOCK,
        });
        Ok(true)
    }

    fn needs<R: Replay>(&self, header: &BlockHeader, sink: &mut R) -> bool {
        header.end() > self.from
            && (header.summary.chunks || sink.wants_block(&BlockSummary::of(header)))
    }

    /// Reads a task: hands its records to the sink, in order.
    ///
    /// # Errors
    /// A block is damaged, or the sink has had enough.
    pub fn read<R: Replay>(&self, task: &Task, sink: &mut R) -> Result<TaskCounts, R::Error> {
        Parser::new(self.from, &self.survey, sink).task(
            task,
            &self.buffers,
            self.reading.read_bytes,
        )
    }

    /// Hands over the records at `places` places, spread evenly over what no task has been made of so far: of a block
    /// at each, or of the blocks of a chained record. Blocks of whole records that are not wanted are left out. Only
    /// for estimates: what comes may even be older than the log.
    ///
    /// # Errors
    /// The system refuses to read, or the sink has had enough.
    pub fn sample<R: Replay>(&self, places: usize, sink: &mut R) -> Result<(), R::Error> {
        let segments: Vec<_> = self.cursor.lock().rest.iter().cloned().collect();
        let Some(first) = segments.first() else {
            return Ok(());
        };
        let first = first.start().max(self.from).0;
        let step = self.end.0.saturating_sub(first) / (places as u64 + 1);
        let targets = (1..=places as u64).map(|i| Lsn(first + i * step));
        let mut open: Option<Arc<SegmentFile>> = None;
        for target in targets {
            let Some(segment) = segments.iter().rfind(|segment| segment.start() <= target) else {
                continue;
            };
            let file = match open.take() {
                Some(file) if Arc::ptr_eq(&file.segment, segment) => file,
                _ => Arc::new(Arc::clone(segment).reading(&*self.fs)?),
            };
            if let Some(task) = sample::block_near(&file, target, sink)? {
                self.read(&task, sink)?;
            }
            open = Some(file);
        }
        Ok(())
    }

    /// Reads everything that is left, on this thread, in order.
    ///
    /// # Errors
    /// As [`LogReader::next`] and [`LogReader::read`].
    pub fn replay<R: Replay>(&self, sink: &mut R) -> Result<Recovered, R::Error> {
        let mut counts = TaskCounts::default();
        while let Some(task) = self.next(sink)? {
            counts += self.read(&task, sink)?;
        }
        Ok(Recovered {
            end: self.end,
            records: counts.records,
            blocks: counts.blocks,
            skipped_blocks: counts.skipped_blocks,
            torn: self.torn,
        })
    }
}
