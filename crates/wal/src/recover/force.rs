//! Going on without what is behind damage: the log as it was at a point in time.
//!
//! The log is read to the first damage in what is needed. It ends there; the new segment begins behind everything that any
//! header speaks of, so that no sequence is given twice, and says that there is a gap. What is behind the damage is put
//! aside. The rules are in `docs/formats/wal.md`, "Giving up what is behind damage".
//!
//! **Invariants**
//! - Nothing is deleted.
//! - A crash at any moment leaves a log that is either still damaged or has the gap, with everything behind it dead.

use super::chain;
use super::record::{BlockSummary, Record, Replay};
use super::segment::Segment;
use super::survey::Survey;
use super::{Found, LogReader, Lost, There, tail};
use crate::config::WalConfig;
use crate::error::WalError;
use crate::files::SegmentFiles;
use crate::format::RECORD_ALIGN;
use crate::lsn::Lsn;

/// Asks which blocks are needed.
pub type WantsBlock = Box<dyn FnMut(&BlockSummary<'_>) -> bool + Send>;

/// The wish to go on without what is behind damage, if there is any.
pub struct PointInTime {
    /// Sequences up to here were given, whatever the log says.
    pub at_least: Lsn,
    /// Whether a block is needed; damage in others does not matter.
    pub wants_block: WantsBlock,
}

/// Reads the log for damage only.
struct Verify(WantsBlock);

impl Replay for Verify {
    type Error = WalError;

    fn wants_block(&mut self, summary: &BlockSummary<'_>) -> bool {
        (self.0)(summary)
    }

    fn record(&mut self, _: Record<'_>) -> Result<(), WalError> {
        Ok(())
    }
}

/// Opens a log that may be damaged.
pub(super) fn open(
    files: &SegmentFiles,
    config: &WalConfig,
    survey: &Survey,
    force: PointInTime,
    from: Lsn,
) -> Result<Found, WalError> {
    let (mut segments, mut damage, dead) = match chain::find(files, config, from) {
        Ok(chain) => (chain.whole, chain.damage, chain.dead),
        Err(missing @ WalError::Missing { .. }) => (Vec::new(), Some(missing), Vec::new()),
        Err(error) => return Err(error),
    };
    let mut torn = false;
    if let (None, Some(last)) = (&damage, segments.last_mut()) {
        match tail::settle(last, &**files.fs(), from) {
            Ok(is_torn) => torn = is_torn,
            Err(error) => {
                last.end = point(&error, from)?;
                damage = Some(error);
            }
        }
    }
    let reader = |segments: Vec<Segment>, end| {
        let there = There {
            from,
            segments,
            end,
            torn,
        };
        LogReader::new(files.fs(), config.reading, there, Survey::new(files))
    };
    let end = segments.last().map_or(from, |last| last.end);
    if let Err(error) = reader(segments.clone(), end).replay(&mut Verify(force.wants_block)) {
        damage = Some(error);
    }
    let Some(damage) = damage else {
        let empty = segments.last().filter(|last| last.start() == last.end);
        let gap = empty.and_then(|last| last.header.gap);
        let reader = reader(segments, end);
        return Ok(Found { reader, gap, dead });
    };
    let whole = point(&damage, from)?;
    segments.retain(|segment| segment.start() < whole);
    if let Some(last) = segments.last_mut() {
        last.end = last.end.min(whole);
        files.copy_aside(last.path(), whole)?;
    }
    let loss = survey.behind(whole);
    let end = loss.to.max(force.at_least).max(from).max(Lsn::FIRST);
    let end = Lsn(end.0.next_multiple_of(RECORD_ALIGN));
    let mut reader = reader(segments, end);
    reader.lost = Some(Lost {
        damage: damage.to_string(),
        loss,
        kept_in: files.lost_dir(whole),
    });
    Ok(Found {
        reader,
        gap: Some(whole),
        dead: vec![whole..end],
    })
}

/// Up to where the log is whole, if the error is damage.
fn point(error: &WalError, from: Lsn) -> Result<Lsn, WalError> {
    match error {
        WalError::Corruption { whole, .. } => Ok(*whole),
        WalError::Missing { .. } => Ok(from.max(Lsn::FIRST)),
        other => Err(other.clone()),
    }
}
