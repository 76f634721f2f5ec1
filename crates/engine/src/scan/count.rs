//! Counting from metadata: which extents' row counts are the answer, and what must be read.
//!
//! Neighbours: `mod` runs what is left as tasks; `extent::ExtentMeta::rows` is what is counted.
//!
//! A sweep goes over the heads of all tiers. An extent between whose first and last key no other tier has anything, and
//! of which every version is seen, is counted by its `rows`. Where extents and other tiers overlap, the whole of what
//! hangs together is one region. If the oldest run has nearly all of it, its extents are counted and only the newer
//! tiers are walked (an [`Overlay`]): a key there adds one, takes one away, or changes nothing, as it is there below or
//! not. Other regions are read.
//!
//! **Invariants**
//! - Every key of the span is in exactly one of: a counted extent, an overlay, a span that is left to read.
//! - What is counted was complete before the snapshot: all versions are at or below it, and older tiers have nothing
//!   there.

use std::sync::Arc;

use super::overlay::Overlay;
use super::split;
use super::view::PinnedView;
use crate::extent::{Extent, HasMeta, ReadMode};
use crate::iter::InternalIter;
use crate::span::{KeySpan, following};
use crate::tree::Run;
use crate::{LATEST, Result, Seq};

/// A lookup below costs about as much as reading so many entries.
const ENTRIES_PER_LOOKUP: u64 = 16;

/// What a count has of its spans.
#[derive(Default)]
pub(super) struct Counted {
    /// Rows of extents that are counted whole.
    pub(super) rows: u64,
    /// The newest sequence in them.
    pub(super) newest: Seq,
    /// What must be read.
    pub(super) unread: Vec<KeySpan>,
    pub(super) overlays: Vec<Overlay>,
}

/// Sorts out one span.
pub(super) fn sort_out(view: &PinnedView, span: &KeySpan, counted: &mut Counted) -> Result<()> {
    let mut sweep = Sweep::new(view, span)?;
    while sweep.step(counted)? {}
    sweep.close(counted, span.upper.clone());
    Ok(())
}

/// Position in a run.
struct Head<'a> {
    run: &'a Run<Arc<Extent>>,
    /// The next extent.
    next: usize,
}

impl<'a> Head<'a> {
    /// The next extent, if it begins in the span.
    fn extent(&self, span: &KeySpan) -> Option<&'a Arc<Extent>> {
        let extent = self.run.extents().get(self.next)?;
        span.is_before_end(&extent.meta().first.key)
            .then_some(extent)
    }
}

struct Sweep<'a> {
    view: &'a PinnedView,
    span: &'a KeySpan,
    runs: Vec<Head<'a>>,
    /// Walks over what is in memory, at or behind where the sweep is.
    memory: Vec<Box<dyn InternalIter>>,
    /// From here on everything met so far must be read.
    unread_from: Option<Vec<u8>>,
    /// The end of the last overlay, as long as no tier has had anything behind it.
    overlay_end: Option<Vec<u8>>,
}

impl<'a> Sweep<'a> {
    fn new(view: &'a PinnedView, span: &'a KeySpan) -> Result<Self> {
        let runs = view.runs().map(|run| Head {
            run,
            next: run.find(&span.lower, LATEST),
        });
        let mut memory: Vec<Box<dyn InternalIter>> = Vec::new();
        for table in view
            .own
            .iter()
            .flat_map(|own| own.tables.settled())
            .chain(view.memtables())
        {
            memory.push(Box::new(table.iter()));
        }
        for run in &view.superversion.replayed {
            memory.push(Box::new(run.iter()));
        }
        // What the transaction has moved to disk is no more than the rest of its writes.
        let spills = view.own.iter();
        for spill in spills.flat_map(|own| own.spills.iters(ReadMode::Cached)) {
            memory.push(Box::new(spill));
        }
        for iter in &mut memory {
            iter.seek(&span.lower)?;
        }
        Ok(Sweep {
            view,
            span,
            runs: runs.collect(),
            memory,
            unread_from: None,
            overlay_end: None,
        })
    }

    /// The smallest key in memory.
    fn memory_key(&self) -> Option<&[u8]> {
        let keys = self.memory.iter().filter(|iter| iter.valid());
        let smallest = keys.map(|iter| iter.key()).min();
        smallest.filter(|key| self.span.is_before_end(key))
    }

    /// The run whose next extent begins first.
    fn first_run(&self) -> Option<(usize, &'a Arc<Extent>)> {
        let extents = self.runs.iter().enumerate();
        let extents = extents.filter_map(|(run, head)| Some((run, head.extent(self.span)?)));
        extents.min_by(|a, b| a.1.meta().first.key.cmp(&b.1.meta().first.key))
    }

    /// Goes on by an extent, a region, or what is in memory before the next extent. False at the end.
    fn step(&mut self, counted: &mut Counted) -> Result<bool> {
        let first = self.first_run();
        let comes_first =
            |key: &&[u8]| first.is_none_or(|(_, extent)| **key < *extent.meta().first.key);
        if let Some(key) = self.memory_key().filter(comes_first) {
            let key = key.to_vec();
            self.read_from(key);
            let Some((_, extent)) = first else {
                return Ok(false);
            };
            self.seek_memory(&extent.meta().first.key)?;
            return Ok(true);
        }
        let Some((run, extent)) = first else {
            return Ok(false);
        };
        if self.is_countable(run, extent) {
            let meta = extent.meta();
            self.close(counted, Some(meta.first.key.to_vec()));
            counted.rows += meta.rows;
            counted.newest = counted.newest.max(meta.largest_seq);
            self.overlay_end = None;
            self.runs[run].next += 1;
            return Ok(true);
        }
        self.take_region(extent, counted)?;
        Ok(true)
    }

    /// Whether nothing else is between the extent's first and last key, and all of it is seen.
    fn is_countable(&self, run: usize, extent: &Arc<Extent>) -> bool {
        let meta = extent.meta();
        let others = self.runs.iter().enumerate().map(|(number, head)| {
            let next = head.next + usize::from(number == run);
            head.run.extents().get(next)
        });
        meta.largest_seq <= self.view.snapshot
            && self.span.contains(&meta.first.key)
            && self.span.is_before_end(&meta.last.key)
            && others
                .flatten()
                .all(|other| other.meta().first.key > meta.last.key)
            && self.memory_key().is_none_or(|key| *key > *meta.last.key)
    }

    /// Takes everything that hangs together with the extent.
    fn take_region(&mut self, first: &Arc<Extent>, counted: &mut Counted) -> Result<()> {
        let lower = first.meta().first.key.to_vec().max(self.span.lower.clone());
        let mut last = &*first.meta().last.key;
        let starts: Vec<usize> = self.runs.iter().map(|head| head.next).collect();
        loop {
            let mut grows = false;
            for head in &mut self.runs {
                while let Some(extent) = head.extent(self.span)
                    && *extent.meta().first.key <= *last
                {
                    head.next += 1;
                    if *extent.meta().last.key > *last {
                        last = &extent.meta().last.key;
                        grows = true;
                    }
                }
            }
            if !grows {
                break;
            }
        }
        let mut upper = Some(following(last));
        if !self.span.is_before_end(last) {
            upper.clone_from(&self.span.upper);
        }
        let region = KeySpan { lower, upper };
        debug_assert!(!region.is_empty());
        if let Some(upper) = &region.upper {
            self.seek_memory(upper)?;
        }
        match self.overlay(&region, &starts) {
            Some(mut overlay) => {
                self.close(counted, Some(region.lower));
                // No tier has a key in the gap, so it may belong to either: the spans touch and can become one.
                if let Some(end) = self.overlay_end.take() {
                    overlay.span.lower = end;
                }
                self.overlay_end.clone_from(&overlay.span.upper);
                counted.overlays.push(overlay);
            }
            None => self.read_from(region.lower),
        }
        Ok(())
    }

    /// What was met at `key` must be read.
    fn read_from(&mut self, key: Vec<u8>) {
        self.overlay_end = None;
        self.unread_from.get_or_insert(key);
    }

    /// The region as an overlay, if it can be one and that pays.
    fn overlay(&self, region: &KeySpan, starts: &[usize]) -> Option<Overlay> {
        debug_assert_eq!(starts.len(), self.runs.len());
        let taken = |run: usize| &self.runs[run].run.extents()[starts[run]..self.runs[run].next];
        let base = (0..starts.len())
            .rev()
            .find(|run| !taken(*run).is_empty())?;
        let extents = taken(base);
        let is_complete = extents.iter().all(|extent| {
            let meta = extent.meta();
            meta.largest_seq <= self.view.snapshot
                && region.contains(&meta.first.key)
                && region.contains(&meta.last.key)
        });
        let keys_are_apart = extents
            .windows(2)
            .all(|pair| pair[0].meta().last.key < pair[1].meta().first.key);
        let entries = |run: usize| taken(run).iter().map(|e| e.meta().entries).sum::<u64>();
        let newer: u64 = (0..base).map(entries).sum::<u64>() + split::in_memory(self.view, region);
        let pays = newer.saturating_mul(ENTRIES_PER_LOOKUP) <= entries(base);
        (is_complete && keys_are_apart && pays).then(|| Overlay {
            span: region.clone(),
            run: base,
            extents: starts[base]..self.runs[base].next,
        })
    }

    fn seek_memory(&mut self, key: &[u8]) -> Result<()> {
        for iter in &mut self.memory {
            if iter.valid() && iter.key() < key {
                iter.seek(key)?;
            }
        }
        Ok(())
    }

    /// Ends what must be read before `upper`.
    fn close(&mut self, counted: &mut Counted, upper: Option<Vec<u8>>) {
        if let Some(lower) = self.unread_from.take() {
            debug_assert!(upper.as_ref().is_none_or(|upper| lower <= *upper));
            counted.unread.push(KeySpan { lower, upper });
        }
    }
}
