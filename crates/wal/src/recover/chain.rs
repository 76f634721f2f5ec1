//! Which segments make up the log from a starting point on, and which part of each is live.
//!
//! **Invariants**
//! - The live range of a segment ends where the next begins, or earlier if that says so: where a gap is, segments
//!   between are dead.

use std::ops::Range;

use super::segment::Segment;
use crate::config::WalConfig;
use crate::error::WalError;
use crate::files::SegmentFiles;
use crate::live::LiveSegment;
use crate::lsn::Lsn;

/// The segments of a log, oldest first.
pub(super) struct Chain {
    /// Those up to the first that is damaged.
    pub(super) whole: Vec<Segment>,
    /// What is wrong with the one behind them.
    pub(super) damage: Option<WalError>,
    /// Segments that start in these ranges are dead.
    pub(super) dead: Vec<Range<Lsn>>,
}

/// Finds the segments that have records above `from`.
pub(super) fn find(files: &SegmentFiles, config: &WalConfig, from: Lsn) -> Result<Chain, WalError> {
    let all = files.live();
    let needed = from.max(Lsn::FIRST);
    let missing = WalError::Missing {
        dir: config.dir.clone(),
        begins: all.first().map(|segment| segment.start),
        needed,
    };
    let first = all.iter().rposition(|segment| segment.start <= needed);
    let mut opened = Vec::new();
    for live in all.into_iter().skip(first.unwrap_or(0)) {
        let start = live.start;
        opened.push((start, open(files, config, live)?));
    }
    let chain = link(opened);
    let begins = chain.whole.first().map(Segment::begins);
    let is_there = match (begins, &chain.damage) {
        (Some(begins), _) => begins <= needed,
        (None, Some(_)) => first.is_some(),
        (None, None) => false,
    };
    match is_there {
        true => Ok(chain),
        false => Err(missing),
    }
}

/// Opens a segment. The inner error is damage.
fn open(
    files: &SegmentFiles,
    config: &WalConfig,
    live: LiveSegment,
) -> Result<Result<Segment, WalError>, WalError> {
    match Segment::open(&**files.fs(), live) {
        Err(damage @ WalError::Corruption { .. }) => Ok(Err(damage)),
        Err(error) => Err(error),
        Ok(segment) if segment.header.cluster != config.cluster => Err(WalError::WrongCluster {
            file: segment.path().to_path_buf(),
        }),
        Ok(segment) => Ok(Ok(segment)),
    }
}

/// Gives each segment its live range, and leaves out the dead ones.
fn link(opened: Vec<(Lsn, Result<Segment, WalError>)>) -> Chain {
    // What is before here is live, seen from behind.
    let mut live_below = None;
    let mut linked = Vec::new();
    let mut dead = Vec::new();
    for (start, opened) in opened.into_iter().rev() {
        if live_below.is_some_and(|live_below| start >= live_below) {
            continue;
        }
        let end = live_below.unwrap_or(Lsn(u64::MAX));
        live_below = Some(start);
        linked.push(opened.map(|mut segment| {
            let begins = segment.begins();
            segment.end = end;
            live_below = Some(begins);
            dead.extend((begins < start).then_some(begins..start));
            segment
        }));
    }
    let mut chain = Chain {
        whole: Vec::new(),
        damage: None,
        dead,
    };
    for opened in linked.into_iter().rev() {
        match opened {
            Ok(segment) => chain.whole.push(segment),
            Err(damage) => {
                chain.damage = Some(damage);
                break;
            }
        }
    }
    chain
}
