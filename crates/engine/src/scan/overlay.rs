//! Counting a run by its numbers where newer tiers have little above it: only the newer tiers are walked.
//!
//! Neighbours: `count` finds such regions; `merge` walks the newer tiers; `extent` says which of their keys are below.
//!
//! **Invariants**
//! - Of the run all versions are seen, and no key is in two of its extents: what it has is the sum of their `rows`.
//! - A key of the newer tiers adds a row, takes one away, or changes nothing, as it is there below or not.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::CountedTask;
use super::span::KeySpan;
use super::view::PinnedView;
use crate::extent::{Extent, HasMeta, MOST_KEYS, ReadMode};
use crate::tree::Run;
use crate::visit::Visit;
use crate::{LATEST, Op, Result};

/// Extents of the oldest run with few entries of newer tiers over them.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) span: KeySpan,
    /// Number of the run in the view.
    pub(super) run: usize,
    pub(super) extents: Range<usize>,
}

impl Overlay {
    /// Overlays that follow each other in one run become one, which is then cut into about `wanted` parts.
    pub(super) fn even_out(
        overlays: Vec<Overlay>,
        view: &PinnedView,
        wanted: usize,
    ) -> Vec<Overlay> {
        let extents: usize = overlays.iter().map(|overlay| overlay.extents.len()).sum();
        let share = extents.div_ceil(wanted.max(1)).max(1);
        let mut even: Vec<Overlay> = Vec::new();
        for overlay in overlays {
            match even.last_mut() {
                Some(last) if last.can_take(&overlay, share) => {
                    last.span.upper = overlay.span.upper;
                    last.extents.end = overlay.extents.end;
                }
                _ => overlay.cut(view, share, &mut even),
            }
        }
        even
    }

    fn can_take(&self, next: &Overlay, share: usize) -> bool {
        self.run == next.run
            && self.extents.end == next.extents.start
            && self.span.upper.as_ref() <= Some(&next.span.lower)
            && self.extents.len() + next.extents.len() <= share
    }

    fn cut(self, view: &PinnedView, share: usize, parts: &mut Vec<Overlay>) {
        let run = view
            .runs()
            .nth(self.run)
            .expect("it was found in this view");
        let mut lower = self.span.lower;
        let mut from = self.extents.start;
        while self.extents.end - from > share {
            let border = run.extents()[from + share].meta().first.key.to_vec();
            parts.push(Overlay {
                span: KeySpan {
                    lower: std::mem::replace(&mut lower, border.clone()),
                    upper: Some(border),
                },
                run: self.run,
                extents: from..from + share,
            });
            from += share;
        }
        parts.push(Overlay {
            span: KeySpan {
                lower,
                upper: self.span.upper,
            },
            run: self.run,
            extents: from..self.extents.end,
        });
    }

    /// Counts its rows; `None` if `go_on` said no.
    pub(super) fn count(
        &self,
        view: &PinnedView,
        mode: ReadMode,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<CountedTask>> {
        let run = view
            .runs()
            .nth(self.run)
            .expect("it was found in this view");
        let extents = &run.extents()[self.extents.clone()];
        let from_metadata = extents.iter().map(|extent| extent.meta().rows).sum();
        let mut newest = extents
            .iter()
            .map(|extent| extent.meta().largest_seq)
            .max()
            .unwrap_or(0);
        let mut changes = Changes {
            run,
            rows: from_metadata,
            read: 0,
            waiting: Waiting::default(),
            failed: Ok(()),
        };
        let mut merge = view.merge(&self.span, mode, Some(self.run), None)?;
        let goes_on = merge.run(&mut changes, go_on)?;
        changes.settle();
        changes.failed?;
        newest = newest.max(merge.newest());
        view.note(newest);
        Ok(goes_on.then_some(CountedTask {
            rows: changes.rows,
            read: changes.read,
            from_metadata,
        }))
    }
}

/// What newer tiers change of the number of rows in a run.
struct Changes<'a> {
    run: &'a Run<Arc<Extent>>,
    rows: u64,
    read: u64,
    waiting: Waiting,
    failed: Result<()>,
}

/// Keys of newer tiers that are not yet looked for below, ascending.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`, and what is newest of it.
    keys: SmallVec<[(usize, Op); MOST_KEYS]>,
}

impl Waiting {
    fn keys(&self) -> SmallVec<[&[u8]; MOST_KEYS]> {
        let mut start = 0;
        let key = |(end, _): &(usize, Op)| &self.bytes[std::mem::replace(&mut start, *end)..*end];
        self.keys.iter().map(key).collect()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
    }
}

impl Changes<'_> {
    fn take(&mut self, key: &[u8], op: Op) -> bool {
        self.read += 1;
        self.waiting.bytes.extend_from_slice(key);
        self.waiting.keys.push((self.waiting.bytes.len(), op));
        if self.waiting.keys.len() == MOST_KEYS {
            self.settle();
        }
        self.failed.is_ok()
    }

    /// Looks for the keys that wait.
    fn settle(&mut self) {
        let mut is_below = [false; MOST_KEYS];
        let is_below = &mut is_below[..self.waiting.keys.len()];
        if let Err(error) = find_rows(self.run, &self.waiting.keys(), is_below) {
            self.failed = Err(error);
        }
        for ((_, op), is_below) in self.waiting.keys.iter().zip(&*is_below) {
            match op {
                Op::Put => self.rows += u64::from(!*is_below),
                Op::Delete => self.rows -= u64::from(*is_below),
            }
        }
        self.waiting.clear();
    }
}

impl Visit for Changes<'_> {
    fn put(&mut self, key: &[u8], _value: &[u8]) -> bool {
        self.take(key, Op::Put)
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.take(key, Op::Delete)
    }
}

/// Says of every key, at its place in `is_row`, whether its newest version in the run is there and a put. The keys ascend, and `is_row`
/// is false so far.
fn find_rows(run: &Run<Arc<Extent>>, keys: &[&[u8]], is_row: &mut [bool]) -> Result<()> {
    let mut from = 0;
    while let Some(key) = keys.get(from) {
        let Some(extent) = run.extents().get(run.find(key, LATEST)) else {
            break;
        };
        let meta = extent.meta();
        let rest = &keys[from..];
        let until = from + rest.partition_point(|key| **key <= *meta.last.key);
        from += rest.partition_point(|key| **key < *meta.first.key);
        extent.find_rows(&keys[from..until], &mut is_row[from..until])?;
        from = until;
    }
    Ok(())
}
