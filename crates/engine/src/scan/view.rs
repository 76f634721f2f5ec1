//! Scan view: snapshot and superversion of one scan, pinned once and shared by its tasks.
//!
//! Neighbours: `Txn::parallel_scan` makes it; `split` and `count` look at its tiers, `merge` walks them.
//!
//! **Invariants**
//! - The superversion is loaded after the snapshot was taken, so no version the snapshot needs can be missing from it.
//! - It owns what it reads: what a transaction or background work does later changes nothing.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::merge::{Merge, Source, Tier};
use super::verify::Verifier;
use crate::batch::{OwnWrites, Sight};
use crate::extent::{BlockSkipper, Conditions, Extent, HasMeta, ReadMode};
use crate::span::KeySpan;
use crate::tree::{Run, RunIter, SuperVersion};
use crate::txn::{Cursor, note_dependency, rows_between};
use crate::{Direction, LATEST, Memtable, Result, Seq};

/// What a scan sees.
pub(crate) struct PinnedView {
    pub(crate) superversion: Arc<SuperVersion>,
    pub(crate) own: Option<OwnWrites>,
    pub(crate) snapshot: Seq,
    /// Of the transaction: how far the log must be durable before anybody is told.
    pub(crate) dependency: Arc<AtomicU64>,
    /// Compares what is answered with plain reading, if that is wanted.
    pub(crate) verifier: Option<Verifier>,
}

impl PinnedView {
    /// The sorted runs of extents, newest data first.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run<Arc<Extent>>> {
        self.superversion.version.levels().runs()
    }

    /// The memtables with committed versions, newest first; the active one is the first.
    pub(super) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        let tables = std::iter::once(&self.superversion.active);
        tables
            .chain(&self.superversion.immutables)
            .filter(|table| !table.is_empty())
    }

    /// A merge of everything in the span, but for the run with the number `left_out`, and for blocks whose rows cannot
    /// meet the conditions.
    pub(super) fn merge(
        &self,
        span: &KeySpan,
        mode: ReadMode,
        left_out: Option<usize>,
        conditions: Option<&Arc<Conditions>>,
    ) -> Result<Merge> {
        let mut tiers = Vec::new();
        let committed = || Sight::Snapshot(self.snapshot);
        if let Some(own) = &self.own {
            let tables = own.tables.settled();
            let tables = tables.map(|table| Source::Memtable(Box::new(table.iter())));
            let spills = own.spills.iters(ReadMode::Cached);
            let spills = spills.map(|iter| Source::Run(Box::new(iter)));
            let sources = tables.chain(spills);
            tiers.extend(sources.map(|source| Tier::new(source, own.sight())));
        }
        for table in self.memtables() {
            let source = Source::Memtable(Box::new(table.iter()));
            tiers.push(Tier::new(source, committed()));
        }
        for run in &self.superversion.replayed {
            let source = Source::Replayed(Box::new(run.iter()));
            tiers.push(Tier::new(source, committed()));
        }
        for (number, run) in self.runs().enumerate() {
            let first = run.extents().get(run.find(&span.lower, LATEST));
            let has_some = first.is_some_and(|e| span.is_before_end(&e.meta().first.key));
            if has_some && left_out != Some(number) {
                let skipper = conditions.map(|conditions| {
                    let older = self.runs().skip(number + 1).cloned().collect();
                    BlockSkipper::new(conditions, run.clone(), older)
                });
                let iter = RunIter::new(run.clone(), mode).with_skipper(skipper);
                let source = Source::Run(Box::new(iter));
                tiers.push(Tier::new(source, committed()));
            }
        }
        Merge::new(tiers, &span.lower, span.upper.as_deref())
    }

    /// Versions up to here were read.
    pub(super) fn note(&self, newest: Seq) {
        note_dependency(&self.dependency, newest);
    }
}

/// A cursor over what a scan has pinned.
pub(super) fn cursor_over(view: &PinnedView, span: &KeySpan) -> Result<Cursor> {
    let lower = Bound::Included(span.lower.as_slice());
    let upper = span
        .upper
        .as_deref()
        .map_or(Bound::Unbounded, Bound::Excluded);
    rows_between(
        &view.superversion,
        view.own.as_ref(),
        view.snapshot,
        (lower, upper),
        Direction::Forward,
        &view.dependency,
        None,
    )
}
