//! Cardinality of a key range (index dive), without reading all of it.
//!
//! Neighbours: `split` estimates by whole extents, which is enough to cut tasks; whoever plans queries asks here.
//!
//! **Invariant**: what is read is bounded, whatever lies in the span: a few entries of each run, the indexes of the
//! extents at the ends of the span, and a block at each end.

use std::sync::Arc;

use super::split;
use super::view::PinnedView;
use crate::extent::{Extent, HasMeta, ReadMode};
use crate::iter::InternalIter;
use crate::span::KeySpan;
use crate::tree::{Run, RunIter, Tree};
use crate::{LATEST, Result};

/// So many entries of a run are counted one by one.
const COUNTED: u64 = 32;
/// Of a span of so many blocks of an extent it does not matter where in them it begins and ends.
const MANY_BLOCKS: usize = 8;

impl Tree {
    /// How many versions of keys lie in the span, tombstones included: nearly exact if they are few, by their places in
    /// blocks if they are more, by the number of blocks if they are many.
    pub fn entries_in(&self, span: &KeySpan) -> Result<u64> {
        let view = PinnedView {
            superversion: Arc::clone(&self.superversion()),
            own: None,
            snapshot: LATEST,
            dependency: Arc::default(),
            verifier: None,
        };
        let mut entries = split::in_memory(&view, span);
        for run in view.runs() {
            entries += in_run(run, span)?;
        }
        Ok(entries)
    }
}

fn in_run(run: &Run<Arc<Extent>>, span: &KeySpan) -> Result<u64> {
    let from = run.find(&span.lower, LATEST);
    let extents = run.extents()[from..].iter();
    let inside: Vec<_> = extents
        .take_while(|extent| span.is_before_end(&extent.meta().first.key))
        .collect();
    if inside.is_empty() {
        return Ok(0);
    }
    // Where the ends lie within a block, only its entries tell.
    let mut iter = RunIter::new(run.clone(), ReadMode::Cached);
    iter.seek(&span.lower)?;
    let mut counted = 0;
    while counted < COUNTED && iter.valid() && span.is_before_end(iter.key()) {
        counted += 1;
        iter.next()?;
    }
    if counted < COUNTED {
        return Ok(counted);
    }
    let mut entries = 0;
    for extent in inside {
        entries += in_extent(extent, span)?;
    }
    Ok(entries.max(COUNTED))
}

fn in_extent(extent: &Arc<Extent>, span: &KeySpan) -> Result<u64> {
    let meta = extent.meta();
    if *span.lower <= *meta.first.key && span.is_before_end(&meta.last.key) {
        return Ok(meta.entries);
    }
    let (first, all) = extent.block_of(&span.lower)?;
    let (last, _) = match &span.upper {
        Some(upper) => extent.block_of(upper)?,
        None => (all, all),
    };
    debug_assert!(
        first <= last,
        "a span of no keys has no entries that were counted"
    );
    let share = if last - first >= MANY_BLOCKS {
        // The first block is in it in part, as the last one is: together one.
        (last - first) as f64 / all as f64
    } else {
        let upper = span.upper.as_ref();
        let to = upper.map_or(Ok(1.0), |upper| extent.share_before(upper))?;
        to - extent.share_before(&span.lower)?
    };
    Ok((meta.entries as f64 * share.max(0.0)) as u64)
}
