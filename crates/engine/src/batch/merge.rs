//! The merge of spills for the commit: of every tree one run, which has of every key the last live write.
//!
//! Neighbours: `write_set` says which trees have to be merged; `pool` has the threads that help.
//!
//! The keys of a tree are cut at the first keys of extents into parts of about the same size. Parts are merged beside
//! each other, and so are those of different trees.
//!
//! **Invariants**
//! - Every key is in exactly one part of its tree, and parts come in the order of trees and keys.

use std::sync::Arc;

use super::spill::{Spills, writer};
use super::write_set::{DeadRanges, is_dead};
use crate::extent::{Extent, HasMeta, ReadMode, Store};
use crate::iter::{InternalIter, MergingIter};
use crate::pool::{Outcome, ScanPool, ScanWork};
use crate::span::KeySpan;
use crate::tree::Tree;
use crate::{CancelReason, EngineError, Result};

/// Stored bytes that are worth a part of their own, and ...
const PART_BYTES: u64 = 4 << 20;
/// ... the most parts of a tree: each of them walks over all of its spills.
const MAX_PARTS: u64 = 8;
/// Entries between two looks at whether the commit is still wanted.
const ENTRIES_PER_CHECK: u64 = 256;

/// A key range of a tree.
struct Part {
    /// The number under which its tree was added.
    place: usize,
    tree: Tree,
    spills: Spills,
    span: KeySpan,
}

/// Everything that is merged.
pub(super) struct SpillMerge {
    store: Arc<Store>,
    dead: DeadRanges,
    parts: Vec<Part>,
}

impl SpillMerge {
    pub(super) fn new(store: &Arc<Store>, dead: &DeadRanges) -> Self {
        SpillMerge {
            store: Arc::clone(store),
            dead: Arc::clone(dead),
            parts: Vec::new(),
        }
    }

    /// Has all spills of a tree merged. What is made of them is given back with `place`, which ascends.
    pub(super) fn add(&mut self, place: usize, tree: &Tree, spills: &Spills) {
        debug_assert!(self.parts.last().is_none_or(|last| last.place < place));
        let parts = cut(&spills.extents_by_key());
        self.parts.extend(parts.into_iter().map(|span| Part {
            place,
            tree: tree.clone(),
            spills: spills.clone(),
            span,
        }));
    }

    /// Merges, with the help of the pool. `take` gets extents in the order of trees and keys.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`] if `go_on` has said no; what goes wrong with reading and writing.
    pub(super) fn run(
        self,
        pool: &ScanPool,
        go_on: &dyn Fn() -> bool,
        mut take: impl FnMut(usize, Vec<Arc<Extent>>),
    ) -> Result<()> {
        let places: Vec<usize> = self.parts.iter().map(|part| part.place).collect();
        let parts = places.len();
        let mut failed = None;
        let taken = |part: usize, merged: Result<Vec<Arc<Extent>>>| match merged {
            Ok(extents) => {
                take(places[part], extents);
                true
            }
            Err(error) => {
                failed = Some(error);
                false
            }
        };
        let helpers = pool.limit().saturating_sub(1);
        let outcome = pool.run(Arc::new(self), parts, helpers, &mut || go_on(), taken);
        match (failed, outcome) {
            (Some(error), _) => Err(error),
            (None, Outcome::Stopped) => Err(cancelled()),
            (None, Outcome::Done) => Ok(()),
        }
    }
}

fn cancelled() -> EngineError {
    EngineError::Cancelled(CancelReason::StatementKilled)
}

/// Key ranges that hold about the same of these extents, which are in the order of their first keys.
fn cut(extents: &[Arc<Extent>]) -> Vec<KeySpan> {
    let bytes = |extent: &Arc<Extent>| u64::from(extent.meta().stored_bytes);
    let total: u64 = extents.iter().map(bytes).sum();
    let parts = (total / PART_BYTES).clamp(1, MAX_PARTS);
    let share = total / parts;
    let mut spans = Vec::new();
    let (mut lower, mut passed) = (Vec::new(), 0);
    for extent in extents {
        let border = &*extent.meta().first.key;
        if passed >= share * (spans.len() as u64 + 1) && *border > *lower {
            let lower = std::mem::replace(&mut lower, border.to_vec());
            let upper = Some(border.to_vec());
            spans.push(KeySpan { lower, upper });
        }
        passed += bytes(extent);
    }
    spans.push(KeySpan { lower, upper: None });
    debug_assert!(spans.len() as u64 <= parts + 1);
    spans
}

impl ScanWork for SpillMerge {
    type Output = Result<Vec<Arc<Extent>>>;

    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> Self::Output {
        let Part {
            tree, spills, span, ..
        } = &self.parts[task];
        let sources = spills.iters(ReadMode::Once);
        let sources = sources.map(|iter| Box::new(iter) as Box<dyn InternalIter>);
        let mut merged = MergingIter::new(sources.collect());
        merged.seek(&span.lower)?;
        let mut writer = writer(&self.store, tree);
        let mut previous: Option<Vec<u8>> = None;
        let mut entries = 0;
        while merged.valid() && span.is_before_end(merged.key()) {
            let (key, number) = (merged.key(), merged.seq());
            if !is_dead(&self.dead, number) && previous.as_deref() != Some(key) {
                writer.add(key, number, merged.op(), merged.value())?;
                let mut last = previous.take().unwrap_or_default();
                last.clear();
                last.extend_from_slice(key);
                previous = Some(last);
            }
            entries += 1;
            if entries % ENTRIES_PER_CHECK == 0 && !go_on() {
                return Err(cancelled());
            }
            merged.next()?;
        }
        writer.finish()
    }
}
