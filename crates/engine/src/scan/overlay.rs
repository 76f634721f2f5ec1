//! Overlay counting: a run is counted from metadata, and only the few versions above it are read.
//!
//! Neighbours: `count` finds such regions; `merge` walks the newer tiers; `below` says what they change.
//!
//! **Invariants**
//! - Of the run all versions are seen, and no key is in two of its extents: what it has is the sum of their `rows`.
//! - A key of the newer tiers adds a row, takes one away, or changes nothing, as it is there below or not.

use std::ops::Range;

use super::CountedTask;
use super::below::Below;
use super::view::PinnedView;
use crate::extent::{HasMeta, ReadMode};
use crate::span::KeySpan;
use crate::visit::Visit;
use crate::{Op, Result};

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
        debug_assert_eq!(
            even.iter()
                .map(|overlay| overlay.extents.len())
                .sum::<usize>(),
            extents,
            "every extent stays in one overlay"
        );
        even
    }

    /// Whether the two are one span: a gap between them may have keys that are counted elsewhere.
    fn can_take(&self, next: &Overlay, share: usize) -> bool {
        self.run == next.run
            && self.extents.end == next.extents.start
            && self.span.upper.as_ref() == Some(&next.span.lower)
            && self.extents.len() + next.extents.len() <= share
    }

    fn cut(self, view: &PinnedView, share: usize, parts: &mut Vec<Overlay>) {
        let run = view
            .runs()
            .nth(self.run)
            .expect("it was found in this view");
        debug_assert!(share > 0 && self.extents.end <= run.extents().len());
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
        let from_metadata: u64 = extents.iter().map(|extent| extent.meta().rows).sum();
        let newest = extents.iter().map(|extent| extent.meta().largest_seq);
        let newest = newest.max().unwrap_or(0);
        let mut changes = Changes {
            below: Below::new(run),
            read: 0,
            failed: Ok(()),
        };
        let mut merge = view.merge(&self.span, mode, Some(self.run), None)?;
        let goes_on = merge.run(&mut changes, go_on)?;
        changes.failed?;
        view.note(newest.max(merge.newest()));
        if !goes_on {
            return Ok(None);
        }
        let rows = from_metadata.checked_add_signed(changes.below.finish()?);
        Ok(Some(CountedTask {
            rows: rows.expect("what is taken away was counted"),
            read: changes.read,
            from_metadata,
        }))
    }
}

/// What newer tiers change of the number of rows in a run.
struct Changes<'a> {
    below: Below<'a>,
    read: u64,
    failed: Result<()>,
}

impl Changes<'_> {
    fn take(&mut self, key: &[u8], op: Op) -> bool {
        self.read += 1;
        self.failed = self.below.take(key, op);
        self.failed.is_ok()
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
