//! Reading the log back.
//!
//! Flow: `segment` opens a file and follows its block headers, `tail` settles where the log ends
//! and makes that end durable, `replay` hands the records over.
//!
//! **Invariants**
//! - Everything read from disk is checked; what is wrong is an error that names file and offset, or
//!   the torn end of the log, and `tail` alone decides which.
//! - Nothing is replayed before it is durable.

mod replay;
mod segment;
mod tail;

use crate::config::WalConfig;
use crate::error::WalError;
use crate::files::SegmentFiles;
use crate::lsn::Lsn;
use replay::Replayer;
pub use replay::{BlockSummary, Record, Replay};
use segment::Segment;

/// What opening the log found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// End of the log: the next record starts here.
    pub end: Lsn,
    /// Records handed over.
    pub records: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Blocks skipped undecoded.
    pub skipped_blocks: u64,
    /// Whether the remains of unfinished writes were dropped behind the end.
    pub torn: bool,
}

/// Replays the log from `from` on and finds its end. Older segments are not looked at.
pub(crate) fn run<R: Replay>(
    files: &SegmentFiles,
    config: &WalConfig,
    from: Lsn,
    replay: &mut R,
) -> Result<Recovered, R::Error> {
    let all = files.live();
    let needed = from.max(Lsn::FIRST);
    let missing = || WalError::Missing {
        dir: config.dir.clone(),
        begins: all.first().map(|(start, _)| *start),
        needed,
    };
    if all.is_empty() && config.create && from <= Lsn::FIRST {
        return Ok(Replayer::new(from, replay).finish(Lsn::FIRST, false));
    }
    let first = all
        .iter()
        .rposition(|(start, _)| *start <= needed)
        .ok_or_else(missing)?;
    let mut replayer = Replayer::new(from, replay);
    let mut end = Lsn::FIRST;
    let mut torn = false;
    for (i, (start, path)) in all.iter().enumerate().skip(first) {
        let mut segment = Segment::open(files.fs(), path, *start, &config.cluster)?;
        match all.get(i + 1) {
            Some((next, _)) => segment.must_reach(*next)?,
            None => torn = tail::settle(&mut segment, files.fs(), from)?,
        }
        replayer.segment(&mut segment)?;
        end = segment.end();
    }
    Ok(replayer.finish(end, torn))
}
