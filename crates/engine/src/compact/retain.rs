//! Which versions stay: the same rule for flush and compaction.
//!
//! Neighbours: `flush` and `run` pass their entries through it.
//!
//! **Invariants**
//! - Of every key all versions newer than the oldest snapshot stay, and the newest one that is not newer: so every live
//!   snapshot, and every later one, reads what it read before.
//! - That last one goes, too, if it is a delete and nothing of its key lies below.

use crate::iter::InternalIter;
use crate::{Op, Result, Seq};

/// What was seen and kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retained {
    pub(crate) entries_in: u64,
    pub(crate) entries_out: u64,
}

/// Passes the entries of `iter`, from the first to the last, that must stay to `sink`. `is_bottom` says whether nothing of a
/// key lies below.
pub(crate) fn retain(
    iter: &mut impl InternalIter,
    oldest_snapshot: Seq,
    mut is_bottom: impl FnMut(&[u8]) -> bool,
    mut sink: impl FnMut(&[u8], Seq, Op, &[u8]) -> Result<()>,
) -> Result<Retained> {
    let mut counts = Retained::default();
    // The key whose version at the oldest snapshot was met, if there is one.
    let mut settled: Vec<u8> = Vec::new();
    let mut is_settled = false;
    iter.seek_to_first()?;
    while iter.valid() {
        counts.entries_in += 1;
        let (key, seq, op) = (iter.key(), iter.seq(), iter.op());
        let is_hidden = is_settled && key == settled;
        let mut stays = !is_hidden;
        if !is_hidden && seq <= oldest_snapshot {
            is_settled = true;
            settled.clear();
            settled.extend_from_slice(key);
            stays = op == Op::Put || !is_bottom(key);
        }
        if stays {
            counts.entries_out += 1;
            sink(key, seq, op, iter.value())?;
        }
        iter.next()?;
    }
    Ok(counts)
}
