//! What to do about a damaged log: find the first damage of what is needed and refuse, or go on without what is behind
//! it.
//!
//! Going on, the log is as it was at a point in time. It ends before the damage; the new segment begins behind
//! everything that any header speaks of, so that no sequence is given twice, and says that there is a gap. What is
//! behind the damage is put aside. The rules are in `docs/formats/wal.md`, "Giving up what is behind damage".
//!
//! **Invariants**
//! - Nothing is deleted.
//! - A crash at any moment leaves a log that is either still damaged or has the gap, with everything behind it dead.
//! - Refusing and going on name the same damage: the first, wherever else there is more.

use std::ops::Range;

use super::chain::{self, Chain};
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

/// What is known about the log from elsewhere: it tells damage that matters from damage that does not.
pub struct Needs {
    /// The log was durable up to here, if not further: one that ends before has lost a part.
    pub durable: Lsn,
    /// Sequences up to here were given, whatever the log says.
    pub at_least: Lsn,
    /// Whether a block is needed; damage in others does not matter.
    pub wants_block: WantsBlock,
}

impl Default for Needs {
    /// Every block is needed, and nothing is known.
    fn default() -> Self {
        Needs {
            durable: Lsn(0),
            at_least: Lsn(0),
            wants_block: Box::new(|_| true),
        }
    }
}

/// Reads the log for damage only.
struct Verify<'a>(&'a mut WantsBlock);

impl Replay for Verify<'_> {
    type Error = WalError;

    fn wants_block(&mut self, summary: &BlockSummary<'_>) -> bool {
        (self.0)(summary)
    }

    fn record(&mut self, _: Record<'_>) -> Result<(), WalError> {
        Ok(())
    }
}

/// What was found when the end of the log was looked for.
pub(super) struct Settled {
    /// The segments up to the first damage that was met.
    pub(super) segments: Vec<Segment>,
    pub(super) torn: bool,
    /// Segments that start in these ranges are dead.
    pub(super) dead: Vec<Range<Lsn>>,
    /// Blocks have not been read yet, so there may be more before it.
    pub(super) damage: Option<WalError>,
}

/// Finds the segments and settles the end of the last one. Damage is no error.
pub(super) fn settle(
    files: &SegmentFiles,
    config: &WalConfig,
    from: Lsn,
) -> Result<Settled, WalError> {
    let found = match chain::find(files, config, from) {
        Ok(found) => found,
        Err(missing @ WalError::Missing { .. }) => Chain {
            whole: Vec::new(),
            damage: Some(missing),
            dead: Vec::new(),
        },
        Err(error) => return Err(error),
    };
    let mut settled = Settled {
        segments: found.whole,
        torn: false,
        dead: found.dead,
        damage: found.damage,
    };
    if let (None, Some(last)) = (&settled.damage, settled.segments.last_mut()) {
        match tail::settle(last, &**files.fs(), from, config.needs.durable) {
            Ok(torn) => settled.torn = torn,
            Err(error) => {
                last.end = point(&error, from)?;
                settled.damage = Some(error);
            }
        }
    }
    Ok(settled)
}

impl Settled {
    /// Where the log ends, or is known to be whole no further.
    pub(super) fn end(&self, from: Lsn) -> Lsn {
        self.segments.last().map_or(from, |last| last.end)
    }

    /// What a new segment has to say of a gap: an empty segment is replaced by it.
    pub(super) fn gap(&self) -> Option<Lsn> {
        let empty = self.segments.last().filter(|s| s.start() == s.end);
        empty.and_then(|last| last.header.gap)
    }

    /// How a log without damage goes on.
    pub(super) fn found(
        self,
        files: &SegmentFiles,
        config: &WalConfig,
        from: Lsn,
    ) -> Result<Found, WalError> {
        let last = self.segments.iter().rfind(|s| s.start() < s.end);
        let last = match last {
            Some(last) => tail::unclosed(last, &**files.fs(), from)?,
            None => None,
        };
        Ok(Found {
            reader: self.reader(files, config, from, self.end(from)),
            gap: self.gap(),
            dead: self.dead,
            last,
        })
    }

    /// A reader of these segments.
    pub(super) fn reader(
        &self,
        files: &SegmentFiles,
        config: &WalConfig,
        from: Lsn,
        end: Lsn,
    ) -> LogReader {
        let there = There {
            from,
            segments: self.segments.clone(),
            end,
            torn: self.torn,
        };
        LogReader::new(files.fs(), config.reading, there, Survey::new(files))
    }

    /// Reads what is needed, for the first damage of all.
    fn read_for_damage(
        &mut self,
        files: &SegmentFiles,
        config: &mut WalConfig,
        from: Lsn,
    ) -> Result<(), WalError> {
        let reader = self.reader(files, config, from, self.end(from));
        match reader.replay(&mut Verify(&mut config.needs.wants_block)) {
            Ok(_) => Ok(()),
            Err(damage @ WalError::Corruption { .. }) => {
                self.damage = Some(damage);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// The first damage of a log of which `settled` has some already.
pub(super) fn first_damage(
    mut settled: Settled,
    files: &SegmentFiles,
    config: &mut WalConfig,
    from: Lsn,
) -> WalError {
    // If the system refuses to read, what is known already is told.
    let _ = settled.read_for_damage(files, config, from);
    let damage = settled.damage.expect("the caller has met some");
    Survey::new(files).with_loss(damage)
}

/// Opens a log that may be damaged.
pub(super) fn open(
    mut settled: Settled,
    files: &SegmentFiles,
    config: &mut WalConfig,
    from: Lsn,
) -> Result<Found, WalError> {
    settled.read_for_damage(files, config, from)?;
    let Some(damage) = settled.damage.take() else {
        return settled.found(files, config, from);
    };
    let whole = point(&damage, from)?;
    settled.segments.retain(|segment| segment.start() < whole);
    if let Some(last) = settled.segments.last_mut() {
        last.end = last.end.min(whole);
        files.copy_aside(last.path(), whole)?;
    }
    let loss = Survey::new(files).behind(whole);
    let end = loss.to.max(config.needs.at_least).max(config.needs.durable);
    let end = end.max(from).max(Lsn::FIRST);
    let end = Lsn(end.0.next_multiple_of(RECORD_ALIGN));
    let mut reader = settled.reader(files, config, from, end);
    reader.lost = Some(Lost {
        damage: damage.to_string(),
        loss,
        kept_in: files.lost_dir(whole),
    });
    Ok(Found {
        reader,
        gap: Some(whole),
        dead: vec![whole..end],
        // It is damaged: without the new segment it would be refused as it is.
        last: None,
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
