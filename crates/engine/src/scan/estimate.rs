//! Cardinality of a key range (index dive), without reading all of it.
//!
//! Neighbours: `split` estimates by whole extents, which is enough to cut tasks; whoever plans queries asks here.
//!
//! **Invariant**: what is read is bounded, whatever lies in the span: a few entries of each run, and the indexes of the
//! extents at the ends of the span.

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

impl Tree {
    /// How many versions of keys lie in the span, tombstones included: nearly exact if they are few, by the number of
    /// blocks if they are many.
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
    let (mut before, mut to, mut all) = (0, 0, 0);
    extent.for_each_separator(|key, blocks| {
        all = blocks as u64;
        before += u64::from(key < span.lower.as_slice());
        to += u64::from(span.is_before_end(key));
    })?;
    // The block behind the last separator that is inside is in it in part, as the first one is: together one.
    let blocks = to.min(all).saturating_sub(before).max(1);
    Ok(meta.entries * blocks / all.max(1))
}
