//! Putting records together from the parts that blocks have.
//!
//! Neighbours: `task` uses it for what was there at the opening, `crate::tail` for what is being written.
//!
//! **Invariants**
//! - A record is handed over once, if it ends above the starting point, and only if all its parts are there.
//! - What is wrong with a block is told; nothing of the block behind it is handed over.

use std::sync::Arc;

use super::buffer::LogBytes;
use super::record::{Record, Replay};
use super::segment::BlockAt;
use crate::format::{Part, RECORD_ALIGN, parse_part};
use crate::lsn::Lsn;

/// Which records are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All.
    Everything,
    /// Those with an attachment.
    Attachments,
}

/// What is wrong with a block.
pub(crate) struct Flaw {
    pub(crate) what: &'static str,
    /// Of the record that is wrong.
    pub(crate) lsn: Lsn,
}

/// The parts of a chained record, so far.
struct Chain {
    id: u64,
    payload: Vec<u8>,
}

/// Puts records together.
pub(crate) struct Assembler {
    from: Lsn,
    wanted: Wanted,
    chain: Option<Chain>,
    trees: Vec<u32>,
    /// Records handed over.
    pub(crate) records: u64,
}

impl Assembler {
    /// Records that end at or below `from` are not handed over.
    pub(crate) fn new(from: Lsn, wanted: Wanted) -> Self {
        Self {
            from,
            wanted,
            chain: None,
            trees: Vec::new(),
            records: 0,
        }
    }

    /// A later life of the log begins, which continues no record of this one.
    pub(crate) fn begin_life(&mut self) {
        self.chain = None;
    }

    /// Hands over the records that end in a block with this payload, which lies in `buffer`.
    pub(crate) fn block<R: Replay>(
        &mut self,
        block: &BlockAt,
        payload: &[u8],
        buffer: &Arc<LogBytes>,
        replay: &mut R,
    ) -> Result<Result<(), Flaw>, R::Error> {
        let flaw = |what, lsn| Ok(Err(Flaw { what, lsn }));
        if !block.is_payload(payload) {
            return flaw("the checksum of the block is wrong", block.first);
        }
        let mut lsn = block.first;
        let mut rest = payload;
        let mut seen = 0;
        while !rest.is_empty() {
            let Some(part) = parse_part(rest) else {
                return flaw("a record is not well-formed", lsn);
            };
            rest = &rest[part.padded as usize..];
            debug_assert!(part.padded > 0 && part.padded.is_multiple_of(RECORD_ALIGN));
            let next = lsn.plus(part.padded);
            let is_wanted = self.wanted == Wanted::Everything || part.has_attachment;
            if is_wanted && let Err(what) = self.part(&part, lsn, next, buffer, replay)? {
                return flaw(what, lsn);
            }
            lsn = next;
            seen += 1;
        }
        match seen == block.records {
            true => Ok(Ok(())),
            false => flaw("the number of records is wrong", lsn),
        }
    }

    /// Takes one part. The inner error says what is wrong with it.
    fn part<R: Replay>(
        &mut self,
        part: &Part<'_>,
        start: Lsn,
        end: Lsn,
        buffer: &Arc<LogBytes>,
        replay: &mut R,
    ) -> Result<Result<(), &'static str>, R::Error> {
        let Some(id) = part.chain else {
            if self.chain.is_some() {
                return Ok(Err("a chained record is not finished"));
            }
            if let (Some(kind), true) = (part.kind, end > self.from) {
                self.trees.clear();
                self.trees.extend(part.trees());
                self.records += 1;
                debug_assert!(start < end && end > self.from);
                replay.record(Record {
                    start,
                    end,
                    kind,
                    trees: &self.trees,
                    has_attachment: part.has_attachment,
                    payload: part.payload,
                    buffer,
                })?;
            }
            return Ok(Ok(()));
        };
        self.chained(part, id, start, end, replay)
    }

    /// Takes one part of a chained record.
    fn chained<R: Replay>(
        &mut self,
        part: &Part<'_>,
        id: u64,
        start: Lsn,
        end: Lsn,
        replay: &mut R,
    ) -> Result<Result<(), &'static str>, R::Error> {
        let begins_here = id == start.0;
        let chain = match &mut self.chain {
            Some(_) if begins_here => return Ok(Err("a chained record is not finished")),
            none if begins_here => none.insert(Chain {
                id,
                payload: Vec::new(),
            }),
            Some(chain) if chain.id == id => chain,
            // Its beginning was not needed.
            _ if end <= self.from => return Ok(Ok(())),
            _ => return Ok(Err("the beginning of a chained record is missing")),
        };
        chain.payload.extend_from_slice(part.payload);
        let Some(kind) = part.kind else {
            return Ok(Ok(()));
        };
        if let (Some(chain), true) = (self.chain.take(), end > self.from) {
            self.trees.clear();
            self.trees.extend(part.trees());
            self.records += 1;
            debug_assert!(Lsn(chain.id) < end && chain.id == id);
            let buffer = Arc::new(LogBytes::new(chain.payload));
            replay.record(Record {
                start: Lsn(id),
                end,
                kind,
                trees: &self.trees,
                has_attachment: part.has_attachment,
                payload: &buffer,
                buffer: &buffer,
            })?;
        }
        Ok(Ok(()))
    }
}
