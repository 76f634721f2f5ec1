//! Log recovery: finding the end of the log, and reading it in parallel tasks.
//!
//! Flow: `chain` finds the segments that are needed (`segment` checks one), `tail` settles where the log ends and makes
//! that end durable; then the log can go on, and nothing else has been read. `reader` follows the block headers and
//! hands out tasks, `task` reads one into a `buffer` and parses it with `parts`, `record` is what comes out; `sample`
//! looks into it before, `ahead` asks the system to read ahead. Of a damaged log, `survey` tells what is left, `force`
//! names the first damage and, if told, gives up what is behind it. `inspect` shows a log to people; `window` reads a
//! file front to back.
//!
//! **Invariants**
//! - Everything read from disk is checked; what is wrong is an error that names file and offset, or
//!   the torn end of the log, and `tail` alone decides which.
//! - Nothing is replayed before it is durable.
//! - Only `force` ends a log before damage, and it deletes nothing.

mod ahead;
pub(crate) mod buffer;
mod chain;
mod force;
mod inspect;
pub(crate) mod parts;
mod reader;
pub(crate) mod record;
mod sample;
pub(crate) mod segment;
mod survey;
mod tail;
mod task;
mod window;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use crate::config::WalConfig;
use crate::error::{Loss, WalError};
use crate::files::{SegmentFiles, Unclosed};
use crate::lsn::Lsn;
pub use buffer::LogBytes;
pub use force::{Needs, WantsBlock};
pub use inspect::{BlockView, DamageView, LogView, PartView, SegmentView, Visitor};
pub use parts::Wanted;
pub use reader::LogReader;
pub use record::{BlockSummary, Record, Recovered, Replay};
pub use task::{Task, TaskCounts};

/// What was given up because the log was damaged and the opening was told to go on without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The damage, for people.
    pub damage: String,
    /// What is not replayed. The log ends at `loss.from`.
    pub loss: Loss,
    /// Where the files that have it were put.
    pub kept_in: PathBuf,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the log was ended at LSN {} as told: {} are given up; the files that have them are in {}. The reason: {}",
            self.loss.from,
            self.loss,
            self.kept_in.display(),
            self.damage
        )
    }
}

/// How the log goes on.
pub(crate) struct Found {
    /// Reads what is there.
    pub(crate) reader: LogReader,
    /// Where the log before the new segment ends, if not where that one starts.
    pub(crate) gap: Option<Lsn>,
    /// Segments that start in these ranges are dead, and to be put aside once the new one is there. A range begins
    /// where the log before it ends.
    pub(crate) dead: Vec<Range<Lsn>>,
    /// The segment before the new one, which has to say that the log goes on.
    pub(crate) last: Option<Unclosed>,
}

/// What is there of a log.
struct There {
    from: Lsn,
    segments: Vec<segment::Segment>,
    end: Lsn,
    torn: bool,
}

/// Finds the segments that have records above `from` and settles the end of the last one. Older
/// segments are not looked at.
pub(crate) fn open(
    files: &SegmentFiles,
    config: &mut WalConfig,
    from: Lsn,
) -> Result<Found, WalError> {
    if files.live().is_empty() && config.create && from <= Lsn::FIRST {
        let reader = LogReader::empty(files.fs(), from);
        return Ok(Found {
            reader,
            gap: None,
            dead: Vec::new(),
            last: None,
        });
    }
    let settled = force::settle(files, config, from)?;
    if config.point_in_time {
        return force::open(settled, files, config, from);
    }
    if settled.damage.is_some() {
        return Err(force::first_damage(settled, files, config, from));
    }
    settled.found(files, config, from)
}
