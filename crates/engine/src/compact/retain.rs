//! Version garbage collection: which versions of a key stay. The same rule for flush and compaction.
//!
//! Neighbours: `flush` and `run` pass their entries through it.
//!
//! **Invariants**
//! - Of every key all versions newer than the oldest snapshot stay, and the newest one that is not newer: so every live
//!   snapshot, and every later one, reads what it read before.
//! - That last one goes, too, if it is a delete and nothing of its key lies below. So a row that came and went between
//!   two flushes, or two compactions, is never written again, unless a snapshot sees it.

use std::sync::Arc;

use crate::extent::{Extent, KeyHash};
use crate::iter::InternalIter;
use crate::tree::Run;
use crate::{Op, Result, Seq};

/// What was seen and kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retained {
    pub(crate) entries_in: u64,
    pub(crate) entries_out: u64,
}

/// What is known of a delete that nobody needs for what is above it.
pub(crate) struct Settled<'a> {
    pub(crate) key: &'a [u8],
    /// Whether it has met older versions of its key, which it has taken away. Then it is likely that this was all.
    pub(crate) has_met: bool,
}

/// Passes the entries of `iter`, from the first to the last, that must stay to `sink`. `is_bottom` says whether nothing
/// of a key lies below.
pub(crate) fn retain(
    iter: &mut impl InternalIter,
    oldest_snapshot: Seq,
    mut is_bottom: impl FnMut(Settled<'_>) -> bool,
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
        if !is_hidden && seq <= oldest_snapshot {
            is_settled = true;
            settled.clear();
            settled.extend_from_slice(key);
            if op == Op::Delete {
                iter.next()?;
                let has_met = iter.valid() && iter.key() == settled;
                let key = &settled[..];
                if !is_bottom(Settled { key, has_met }) {
                    counts.entries_out += 1;
                    sink(key, seq, op, b"")?;
                }
                continue;
            }
        }
        if !is_hidden {
            counts.entries_out += 1;
            sink(key, seq, op, iter.value())?;
        }
        iter.next()?;
    }
    debug_assert!(counts.entries_out <= counts.entries_in);
    Ok(counts)
}

impl Settled<'_> {
    /// Whether nothing of the key lies in these runs. Where a delete has met what it deletes, the filters of extents
    /// are asked that are in memory; for one that has not, they would say yes.
    pub(crate) fn has_nothing_in<'a>(
        &self,
        runs: impl IntoIterator<Item = &'a Run<Arc<Extent>>>,
    ) -> bool {
        let mut hash = None;
        runs.into_iter().all(|run| {
            run.overlapping(self.key, self.key).iter().all(|extent| {
                self.has_met && {
                    let hash = *hash.get_or_insert_with(|| KeyHash::of(self.key));
                    !extent.may_contain(hash)
                }
            })
        })
    }
}
