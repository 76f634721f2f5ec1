//! Handing records over, whole and in order.
//!
//! **Invariants**
//! - A record is handed over once, if it ends above the starting point, and only if all its parts
//!   are there.
//! - A chain is never continued by a later life of the log: it is forgotten where a segment begins
//!   that was begun by opening.

use super::Recovered;
use super::segment::Segment;
use crate::error::WalError;
use crate::format::{BlockHeader, Part, RecordKind, parse_part};
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
    /// What the writer wrote.
    pub payload: &'a [u8],
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
}

/// Takes the records of a log. Implemented by closures that take a [`Record`].
pub trait Replay {
    /// Its own error, which ends the reading.
    type Error: From<WalError>;

    /// Whether any record of this block is needed. Blocks that are not are skipped undecoded. Not
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

/// The parts of a chained record, so far.
struct Chain {
    id: u64,
    payload: Vec<u8>,
}

pub(super) struct Replayer<'r, R> {
    replay: &'r mut R,
    from: Lsn,
    chain: Option<Chain>,
    trees: Vec<u32>,
    counts: Recovered,
}

impl<'r, R: Replay> Replayer<'r, R> {
    pub(super) fn new(from: Lsn, replay: &'r mut R) -> Self {
        let counts = Recovered {
            end: Lsn::FIRST,
            records: 0,
            blocks: 0,
            skipped_blocks: 0,
            torn: false,
        };
        Self {
            replay,
            from,
            chain: None,
            trees: Vec::new(),
            counts,
        }
    }

    pub(super) fn finish(self, end: Lsn, torn: bool) -> Recovered {
        Recovered {
            end,
            torn,
            ..self.counts
        }
    }

    /// Hands over what a segment has.
    pub(super) fn segment(&mut self, segment: &mut Segment) -> Result<(), R::Error> {
        if segment.header.after_open {
            self.chain = None;
        }
        for index in 0..segment.blocks.len() {
            let is_seal = segment.blocks[index].header.payload_bytes == 0;
            if is_seal {
                continue;
            }
            if self.needs(&segment.blocks[index].header) {
                self.counts.blocks += 1;
                self.block(segment, index)?;
            } else {
                self.counts.skipped_blocks += 1;
            }
        }
        Ok(())
    }

    fn needs(&mut self, header: &BlockHeader) -> bool {
        if header.end() <= self.from {
            return false;
        }
        let summary = &header.summary;
        if summary.chunks || self.chain.is_some() {
            return true;
        }
        self.replay.wants_block(&BlockSummary {
            first: header.first,
            end: header.end(),
            records: summary.records,
            seqs: (summary.smallest, summary.largest),
            trees: (!summary.many_trees).then_some(&summary.trees),
            two_phase: summary.two_phase,
            counters: summary.counters,
        })
    }

    fn block(&mut self, segment: &mut Segment, index: usize) -> Result<(), R::Error> {
        let path = segment.path.clone();
        let block = &segment.blocks[index];
        let (offset, end) = (block.offset, block.header.end());
        let (mut lsn, records) = (block.header.first, block.header.summary.records);
        let damage = |what: &str, lsn: Lsn| {
            let lost = format!("{what} (LSN {lsn}; the block ends at LSN {end})");
            WalError::corruption(&path, offset, lost)
        };
        let Some(mut rest) = segment.payload(index)? else {
            return Err(damage("the checksum of the block is wrong", lsn).into());
        };
        let mut seen = 0;
        while !rest.is_empty() {
            let Some(part) = parse_part(rest) else {
                return Err(damage("a record is not well-formed", lsn).into());
            };
            rest = &rest[part.padded as usize..];
            let next = lsn.plus(part.padded);
            self.part(&part, lsn, next)?
                .map_err(|what| damage(what, lsn))?;
            lsn = next;
            seen += 1;
        }
        if seen != records {
            return Err(damage("the number of records is wrong", lsn).into());
        }
        Ok(())
    }

    /// Takes one part. The inner error says what is wrong with it.
    fn part(
        &mut self,
        part: &Part<'_>,
        start: Lsn,
        end: Lsn,
    ) -> Result<Result<(), &'static str>, R::Error> {
        let begins_here = part.chain.is_none_or(|id| id == start.0);
        if begins_here && self.chain.is_some() {
            return Ok(Err("a chained record is not finished"));
        }
        let continued = match (part.chain, &mut self.chain) {
            (None, _) => None,
            (Some(id), _) if begins_here => Some(self.chain.insert(Chain {
                id,
                payload: Vec::new(),
            })),
            (Some(id), Some(chain)) if chain.id == id => Some(chain),
            // Its beginning was not needed.
            _ if end <= self.from => return Ok(Ok(())),
            _ => return Ok(Err("the beginning of a chained record is missing")),
        };
        if let Some(chain) = continued {
            chain.payload.extend_from_slice(part.payload);
        }
        let Some(kind) = part.kind else {
            return Ok(Ok(()));
        };
        let chain = self.chain.take();
        if end > self.from {
            self.trees.clear();
            self.trees.extend(part.trees());
            self.counts.records += 1;
            let start = chain.as_ref().map_or(start, |chain| Lsn(chain.id));
            let payload = chain.as_ref().map_or(part.payload, |chain| &chain.payload);
            self.replay.record(Record {
                start,
                end,
                kind,
                trees: &self.trees,
                payload,
            })?;
        }
        Ok(Ok(()))
    }
}
