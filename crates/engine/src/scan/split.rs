//! Splits key ranges into tasks of about the same size.
//!
//! Neighbours: `view` has the tiers; `count` has a cut of its own for what it need not read.
//!
//! Every tier gives marks: keys, each with the number of entries from the tier's previous mark up to there. All marks
//! in one order are cut where their sum passes a task's share, so that every task has about as much to read whatever
//! tiers it lies in. Where an extent weighs more than half of a task, its blocks give the marks.
//!
//! **Invariants**
//! - The tasks of a span follow each other without gap or overlap, from its lower end to its upper end.

use std::sync::Arc;

use super::view::PinnedView;
use crate::Result;
use crate::extent::{Extent, HasMeta};
use crate::span::{KeySpan, following};

/// A task reads at least about so many entries: less is not worth handing over.
pub(super) const MIN_TASK_ENTRIES: u64 = 4096;
/// Most tasks of a scan.
const MAX_TASKS: usize = 4096;
/// A tier in memory gives at least this many marks per task, if it has so many keys. How many keys lie between two of
/// them is random (they are the nodes of a level of the skiplist), so the more marks a task has the closer it is to its
/// share.
const MARKS_PER_TASK: usize = 32;

/// A place where a tier can be cut.
struct Mark {
    /// Entries up to and with this key belong to the mark.
    key: Vec<u8>,
    entries: u64,
}

/// Cuts `spans`, which ascend and do not overlap, into about `wanted` tasks of at least `least` entries.
pub(super) fn split(
    view: &PinnedView,
    spans: &[KeySpan],
    wanted: usize,
    least: u64,
) -> Result<Vec<KeySpan>> {
    debug_assert!(least > 0, "a task has something to do");
    let wanted = wanted.clamp(1, MAX_TASKS);
    let estimates: Vec<u64> = spans.iter().map(|span| estimate(view, span)).collect();
    let total: u64 = estimates.iter().sum();
    let share = (total / wanted as u64).max(least);
    let mut tasks = Vec::new();
    for (span, entries) in spans.iter().zip(estimates) {
        match entries / share {
            0 | 1 => tasks.push(span.clone()),
            parts => cut(view, span, parts as usize, share, &mut tasks)?,
        }
    }
    Ok(tasks)
}

/// Entries in the span, of all tiers, about.
pub(super) fn estimate(view: &PinnedView, span: &KeySpan) -> u64 {
    let mut entries = in_memory(view, span);
    for run in view.runs() {
        let from = run.find(&span.lower, crate::LATEST);
        let extents = run.extents()[from..].iter();
        let inside = extents.take_while(|e| span.is_before_end(&e.meta().first.key));
        entries += inside.map(|e| e.meta().entries).sum::<u64>();
    }
    entries
}

/// As [`estimate`] for the tiers in memory.
pub(super) fn in_memory(view: &PinnedView, span: &KeySpan) -> u64 {
    let upper = span.upper.as_deref();
    let own = view.own.iter().flat_map(|own| own.tables.settled());
    let mut entries = 0;
    for table in own.chain(view.memtables()) {
        let mut keys = 0;
        let each = table.sample(&span.lower, upper, 16, |_| keys += 1);
        entries += keys * each;
    }
    for run in &view.superversion.replayed {
        run.sample(&span.lower, upper, 16, |_, versions| entries += versions);
    }
    entries
}

fn cut(
    view: &PinnedView,
    span: &KeySpan,
    parts: usize,
    share: u64,
    tasks: &mut Vec<KeySpan>,
) -> Result<()> {
    let mut marks = marks(view, span, parts, share)?;
    marks.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    let total: u64 = marks.iter().map(|mark| mark.entries).sum();
    let share = (total / parts as u64).max(1);
    let (mut passed, mut next) = (0, share);
    let mut lower = span.lower.clone();
    for mark in marks {
        passed += mark.entries;
        debug_assert!(passed <= total);
        if passed < next || total - passed < share / 2 {
            continue;
        }
        next = passed + share;
        let border = following(&mark.key);
        if border > lower && span.is_before_end(&border) {
            tasks.push(KeySpan {
                lower: std::mem::replace(&mut lower, border.clone()),
                upper: Some(border),
            });
        }
    }
    tasks.push(KeySpan {
        lower,
        upper: span.upper.clone(),
    });
    Ok(())
}

fn marks(view: &PinnedView, span: &KeySpan, parts: usize, share: u64) -> Result<Vec<Mark>> {
    let mut marks = Vec::new();
    let upper = span.upper.as_deref();
    let wanted = parts * MARKS_PER_TASK;
    let own = view.own.iter().flat_map(|own| own.tables.settled());
    for table in own.chain(view.memtables()) {
        let from = marks.len();
        let each = table.sample(&span.lower, upper, wanted, |key| {
            marks.push(Mark {
                key: key.to_vec(),
                entries: 0,
            });
        });
        marks[from..]
            .iter_mut()
            .for_each(|mark| mark.entries = each);
    }
    for run in &view.superversion.replayed {
        run.sample(&span.lower, upper, wanted, |key, entries| {
            let key = key.to_vec();
            marks.push(Mark { key, entries });
        });
    }
    for run in view.runs() {
        let from = run.find(&span.lower, crate::LATEST);
        for extent in &run.extents()[from..] {
            if !span.is_before_end(&extent.meta().first.key) {
                break;
            }
            extent_marks(extent, span, share, &mut marks)?;
        }
    }
    Ok(marks)
}

/// The end of an extent, or the ends of its blocks if it is much of a task.
fn extent_marks(
    extent: &Arc<Extent>,
    span: &KeySpan,
    share: u64,
    marks: &mut Vec<Mark>,
) -> Result<()> {
    let meta = extent.meta();
    if meta.entries <= share / 2 {
        marks.push(Mark {
            key: meta.last.key.to_vec(),
            entries: meta.entries,
        });
        return Ok(());
    }
    extent.for_each_separator(|key, blocks| {
        if span.contains(key) {
            marks.push(Mark {
                key: key.to_vec(),
                entries: meta.entries / blocks as u64,
            });
        }
    })
}
