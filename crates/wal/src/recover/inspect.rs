//! Showing a log to people: segments, blocks, records, and what is wrong with them. Nothing is changed.
//!
//! Neighbours: `tail` says where the last segment ends. Unlike `reader`, this goes on behind damage, at the next block
//! that can be found.
//!
//! **Invariants**
//! - Memory is bounded, whatever the log.
//! - Damage is told, never an error; errors are what the system refuses.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::Fs;

use super::record::BlockSummary;
use super::segment::{BlockAt, FIRST_BLOCK, Lack, Segment};
use super::tail;
use super::window::Window;
use crate::error::WalError;
use crate::format::{
    BLOCK_HEADER_BYTES, BlockHeader, PAGE_BYTES, RecordKind, parse_part, parse_segment_name,
};
use crate::live::LiveSegment;
use crate::lsn::Lsn;

/// What a segment says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentView<'a> {
    /// The file.
    pub path: &'a Path,
    /// First LSN.
    pub start: Lsn,
    /// Whose log it is.
    pub cluster: [u8; 16],
    /// Random, new for each life of the file.
    pub id: u64,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// Whether it was begun by opening the log.
    pub after_open: bool,
    /// Where the log before it ends, if a part was given up.
    pub gap: Option<Lsn>,
    /// Whether it belongs to what was given up.
    pub dead: bool,
}

/// What a block's header says, and whether its payload is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockView<'a> {
    /// Where it is in the file.
    pub offset: u64,
    /// What is in it.
    pub summary: BlockSummary<'a>,
    /// Whether it has parts of chained records.
    pub chunks: bool,
    /// What had been synced before it was written.
    pub durable: Lsn,
}

/// A record, or a part of a chained one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartView<'a> {
    /// First LSN.
    pub start: Lsn,
    /// End LSN: the sequence, if a record ends here.
    pub end: Lsn,
    /// What it is for; `None` for a part that is not the last.
    pub kind: Option<RecordKind>,
    /// Where the chained record starts that it is a part of.
    pub chain: Option<Lsn>,
    /// The trees it touches.
    pub trees: Vec<u32>,
    /// Whether the record ends with an attachment.
    pub has_attachment: bool,
    /// What the writer wrote.
    pub payload: &'a [u8],
}

/// A place where the log is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamageView<'a> {
    /// The file.
    pub path: &'a Path,
    /// Where in it.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
    /// Where the damage begins.
    pub first: Lsn,
    /// From where on there are records again, if that is known.
    pub resumes: Option<Lsn>,
}

/// Takes what is found, in the order of the log.
pub trait Visitor {
    /// Its own error, which ends the walk.
    type Error: From<WalError>;

    /// Whether payloads are read, checked and parsed.
    fn wants_payloads(&self) -> bool;

    /// The next segment.
    fn segment(&mut self, segment: &SegmentView<'_>) -> Result<(), Self::Error>;

    /// The next block of that segment. A block without payload is the mark of a clean end.
    fn block(&mut self, block: &BlockView<'_>) -> Result<(), Self::Error>;

    /// The next record of that block.
    fn part(&mut self, part: &PartView<'_>) -> Result<(), Self::Error>;

    /// Something is damaged here.
    fn damage(&mut self, damage: &DamageView<'_>) -> Result<(), Self::Error>;

    /// The end of the log. Torn: what follows is the rest of writes that nobody was told about.
    fn end(&mut self, end: Lsn, torn: bool) -> Result<(), Self::Error>;
}

/// The log in a directory, as it is.
pub struct LogView {
    fs: Arc<dyn Fs>,
    /// By start.
    segments: Vec<(Lsn, PathBuf)>,
}

impl LogView {
    /// Finds the segments in this directory.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn open(fs: Arc<dyn Fs>, dir: &Path) -> Result<Self, WalError> {
        let names = fs.list(dir).map_err(|e| WalError::io("list", dir, e))?;
        let place = |name: &String| Some((parse_segment_name(name)?, dir.join(name)));
        let mut segments: Vec<_> = names.iter().filter_map(place).collect();
        segments.sort_unstable();
        Ok(Self { fs, segments })
    }

    /// Shows everything to the visitor, from the segment on that has `from`.
    ///
    /// # Errors
    /// The system refuses to read, or the visitor has had enough.
    pub fn walk<V: Visitor>(&self, from: Lsn, visitor: &mut V) -> Result<(), V::Error> {
        let first = self.segments.iter().rposition(|(start, _)| *start <= from);
        let needed = &self.segments[first.unwrap_or(0)..];
        let opened = needed
            .iter()
            .map(|(start, path)| self.open_segment(*start, path))
            .collect::<Result<Vec<_>, WalError>>()?;
        // From behind: a segment may give up what is before it. `None`: it is given up.
        let mut ends = vec![None; opened.len()];
        let mut live_below = Lsn(u64::MAX);
        for i in (0..opened.len()).rev() {
            let start = needed[i].0;
            if start < live_below {
                ends[i] = Some(live_below);
                live_below = match &opened[i] {
                    Ok(segment) => segment.begins(),
                    Err(_) => start,
                };
            }
        }
        let mut at = None;
        for (opened, end) in opened.into_iter().zip(ends) {
            match (opened, end) {
                (Ok(segment), end) => self.segment(segment, end, &mut at, visitor)?,
                (Err(damage), Some(end)) => self.bad_header(&damage, end, &mut at, visitor)?,
                (Err(_), None) => {}
            }
        }
        Ok(())
    }

    fn open_segment(&self, start: Lsn, path: &Path) -> Result<Result<Segment, WalError>, WalError> {
        match Segment::open(&*self.fs, LiveSegment::new(start, path.to_path_buf())) {
            Err(damage @ WalError::Corruption { .. }) => Ok(Err(damage)),
            opened => opened.map(Ok),
        }
    }

    /// Tells of damage behind which there is nothing before `end`, as a rule to a segment's header.
    fn bad_header<V: Visitor>(
        &self,
        damage: &WalError,
        end: Lsn,
        at: &mut Option<Lsn>,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        let WalError::Corruption {
            file,
            offset,
            whole,
            what,
            ..
        } = damage
        else {
            return Err(damage.clone().into());
        };
        let resumes = (end < Lsn(u64::MAX)).then_some(end);
        *at = resumes;
        visitor.damage(&DamageView {
            path: file,
            offset: *offset,
            what: what.clone(),
            first: *whole,
            resumes,
        })
    }

    /// Shows one segment with the live range up to `end`, or that it is given up. `at` is where the log has got to.
    fn segment<V: Visitor>(
        &self,
        mut segment: Segment,
        end: Option<Lsn>,
        at: &mut Option<Lsn>,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        let window = Window::open(&*self.fs, segment.path())?;
        visitor.segment(&SegmentView {
            path: segment.path(),
            start: segment.start(),
            cluster: segment.header.cluster,
            id: segment.header.id,
            file_bytes: window.len(),
            after_open: segment.header.after_open,
            gap: segment.header.gap,
            dead: end.is_none(),
        })?;
        let Some(end) = end else {
            return Ok(());
        };
        if let Some(before) = at.filter(|at| *at != segment.begins()) {
            visitor.damage(&DamageView {
                path: segment.path(),
                offset: 0,
                what: format!("the log before ends at LSN {before}: a segment is missing"),
                first: before,
                resumes: Some(segment.begins()),
            })?;
        }
        let is_last = end == Lsn(u64::MAX);
        segment.end = end;
        let (mut torn, mut damage) = (false, None);
        if is_last {
            match tail::find_end(&segment, &*self.fs) {
                Ok((found, is_torn)) => (segment.end, torn) = (found, is_torn),
                Err(error @ WalError::Corruption { .. }) => damage = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        let mut walk = Walk {
            segment: &segment,
            window,
            visitor,
            found_damage: false,
        };
        let reached = walk.blocks()?;
        let found_damage = walk.found_damage;
        // What is not there, no block can show.
        if let (Some(damage), false) = (damage, found_damage) {
            self.bad_header(&damage, end, &mut None, visitor)?;
        }
        *at = Some(match is_last {
            true => reached,
            false => end,
        });
        match is_last {
            true => visitor.end(reached, torn),
            false => Ok(()),
        }
    }
}

/// A walk through the blocks of one segment.
struct Walk<'w, V> {
    segment: &'w Segment,
    window: Window,
    visitor: &'w mut V,
    found_damage: bool,
}

impl<V: Visitor> Walk<'_, V> {
    /// Shows the blocks. Where the last one ends.
    fn blocks(&mut self) -> Result<Lsn, V::Error> {
        let mut lsn = self.segment.start();
        let mut offset = FIRST_BLOCK;
        let mut before = None;
        loop {
            let found = self.find(offset, offset + 1, lsn)?;
            if let Some((_, header)) = found.filter(|(_, header)| header.first == lsn) {
                offset = self.block(offset, &header)?;
                lsn = header.end();
                before = Some(header);
                continue;
            }
            if lsn >= self.segment.end {
                return Ok(lsn);
            }
            let found = self.find(offset + PAGE_BYTES, self.window.len(), lsn)?;
            let is_open = self.segment.end == Lsn(u64::MAX);
            if found.is_none() && is_open {
                return Ok(lsn);
            }
            let goal = match is_open {
                true => "the log goes on behind".to_owned(),
                false => format!("the segment goes on to LSN {}", self.segment.end),
            };
            let resumes = found.as_ref().map_or(self.segment.end, |(_, h)| h.first);
            let lack = Lack::find(self.segment, self.window.len(), before.as_ref(), lsn);
            let (file, what) = lack.describe(self.segment, lsn, &goal);
            self.damage(&file, offset, what, lsn..resumes)?;
            match found {
                Some((at, header)) => (offset, lsn) = (at, header.first),
                None => return Ok(lsn),
            }
        }
    }

    /// The first live block at or behind `lsn` in this part of the file.
    fn find(
        &mut self,
        from: u64,
        to: u64,
        lsn: Lsn,
    ) -> Result<Option<(u64, BlockHeader)>, WalError> {
        let mut offset = from;
        while offset < to {
            let bytes = self.window.read(offset, BLOCK_HEADER_BYTES)?;
            if let Some(header) = BlockHeader::decode(bytes)
                && header.segment_id == self.segment.header.id
                && header.first >= lsn
                && header.end() <= self.segment.end
                && BlockAt::new(offset, &header).end_offset() <= self.window.len()
            {
                return Ok(Some((offset, header)));
            }
            offset += PAGE_BYTES;
        }
        Ok(None)
    }

    /// Shows a block and its records. Where the next one is.
    fn block(&mut self, offset: u64, header: &BlockHeader) -> Result<u64, V::Error> {
        let block = BlockAt::new(offset, header);
        self.visitor.block(&BlockView {
            offset,
            summary: BlockSummary::of(header),
            chunks: header.summary.chunks,
            durable: header.durable,
        })?;
        if self.visitor.wants_payloads() && header.payload_bytes > 0 {
            let at = offset + BLOCK_HEADER_BYTES as u64;
            let payload = self.window.read(at, header.payload_bytes as usize)?;
            let what = match block.is_payload(payload) {
                true => parts(payload, &block, self.visitor)?,
                false => Some("the checksum of the block is wrong"),
            };
            if let Some(what) = what {
                let file = self.segment.path();
                self.damage(file, offset, what.to_owned(), block.first..block.end())?;
            }
        }
        Ok(block.end_offset())
    }

    fn damage(
        &mut self,
        path: &Path,
        offset: u64,
        what: String,
        range: Range<Lsn>,
    ) -> Result<(), V::Error> {
        self.found_damage = true;
        self.visitor.damage(&DamageView {
            path,
            offset,
            what,
            first: range.start,
            resumes: Some(range.end),
        })
    }
}

/// Shows the records of a block. What is wrong with it, if something is.
fn parts<V: Visitor>(
    payload: &[u8],
    block: &BlockAt,
    visitor: &mut V,
) -> Result<Option<&'static str>, V::Error> {
    let mut rest = payload;
    let mut start = block.first;
    let mut seen = 0;
    while !rest.is_empty() {
        let Some(part) = parse_part(rest) else {
            return Ok(Some("a record is not well-formed"));
        };
        let end = start.plus(part.padded);
        visitor.part(&PartView {
            start,
            end,
            kind: part.kind,
            chain: part.chain.map(Lsn),
            trees: part.trees().collect(),
            has_attachment: part.has_attachment,
            payload: part.payload,
        })?;
        rest = &rest[part.padded as usize..];
        start = end;
        seen += 1;
    }
    Ok((seen != block.records).then_some("the number of records is wrong"))
}
