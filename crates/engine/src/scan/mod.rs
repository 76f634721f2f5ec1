//! Parallel scans: a key range split into tasks, a thread pool for them, and counting from metadata.
//!
//! Neighbours: `txn` gives the snapshot and its own writes, `tree` the superversion; whoever gives keys and values a
//! meaning reads tasks and merges what they bring. Why it is as it is: `docs/decisions/parallel-scan.md`.
//!
//! Parts, in the order of a scan: `view` (what is seen, pinned) → `split` (tasks) or `count` (what need not be read;
//! `overlay` and `below` where little has changed above) → `pool` (threads for them) → `merge` (the walk of a task).
//!
//! `estimate` tells planners how much lies between two keys. `changes` walks over what has changed since a snapshot.
//! `verify` compares answers with plain reading, in tests.
//!
//! **Invariants**
//! - All tasks of a scan see one snapshot and one superversion. Together they give every visible key of their spans
//!   once.
//! - Whatever a task has shown or counted has raised the transaction's dependency when the task is over.

mod below;
mod changes;
mod count;
mod estimate;
#[cfg(test)]
mod filter_tests;
mod merge;
mod overlay;
#[cfg(test)]
mod pool_tests;
#[cfg(test)]
mod random_trees;
mod split;
#[cfg(test)]
mod tests;
mod verify;
#[cfg(test)]
mod verify_tests;
mod view;

pub use crate::pool::{Outcome, ScanPool, ScanStats, ScanWork};
pub use crate::span::{KeySpan, is_successor};
pub use crate::visit::{MOST_PIECES, Piece, Visit};
pub use changes::Changes;
pub(crate) use verify::Verifier;
pub(crate) use view::PinnedView;

use std::sync::Arc;

use crate::extent::{Conditions, FieldTest, HasMeta, ReadMode};
use crate::tree::Tree;
use crate::txn::Txn;
use crate::{LATEST, Result};
use count::Counted;
use merge::Merge;
use overlay::Overlay;
use split::MIN_TASK_ENTRIES;
use verify::Beside;

/// Tasks for each thread: so many that one that takes long does not keep the other threads waiting.
pub const TASKS_PER_THREAD: usize = 4;

/// A scan goes through the block cache if what it reads is at most this part of it.
const CACHED_PART: u64 = 2;

/// A scan that is cut into tasks. Tasks may be read in any order, on any thread, also again.
pub struct ParallelScan {
    view: PinnedView,
    mode: ReadMode,
    /// Ascending spans of each.
    tasks: Vec<Vec<KeySpan>>,
    /// Rows that do not meet them are not wanted.
    conditions: Option<Arc<Conditions>>,
}

/// A count of keys, of which a part is known and the rest is cut into tasks.
pub struct ParallelCount {
    view: PinnedView,
    mode: ReadMode,
    counted: u64,
    tasks: Vec<CountTask>,
    /// What is counted, if the answer is to be verified.
    verified: Vec<KeySpan>,
}

/// What a task of a count has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedTask {
    /// Keys that are there.
    pub rows: u64,
    /// Keys that were read for that.
    pub read: u64,
    /// Rows that were taken from the metadata of extents. What was read may have taken some of them away.
    pub from_metadata: u64,
}

enum CountTask {
    Read(KeySpan),
    Overlay(Overlay),
}

impl Txn {
    /// What scans by several threads see.
    pub(crate) fn pin(&self, tree: &Tree) -> Result<PinnedView> {
        self.check()?;
        // The snapshot is taken before the tiers are looked up.
        let snapshot = self.snapshot();
        let own = self.writes.view(tree.id());
        let superversion = Arc::clone(&tree.superversion());
        self.home.check_tombstone_skips(&superversion);
        let verifier = self.env.commit.switches.verify_answers();
        let verifier = verifier.then(|| Verifier::new(tree, &self.env.on_fatal));
        Ok(PinnedView {
            superversion,
            own,
            snapshot,
            dependency: Arc::clone(&self.dependency),
            verifier,
        })
    }

    /// Cuts a scan of `spans` into about `tasks` parts of like size. It sees what [`Txn::scan`] with
    /// [`View::Snapshot`](crate::View::Snapshot) would see now.
    pub fn parallel_scan(
        &self,
        tree: &Tree,
        spans: Vec<KeySpan>,
        tasks: usize,
    ) -> Result<ParallelScan> {
        self.cut_scan(tree, spans, tasks, MIN_TASK_ENTRIES)
    }

    /// The same for spans with a few keys each: what is read lies apart, so nothing is read ahead, and it stays in the
    /// cache.
    pub fn parallel_lookup(
        &self,
        tree: &Tree,
        spans: Vec<KeySpan>,
        tasks: usize,
    ) -> Result<ParallelScan> {
        let view = self.pin(tree)?;
        let spans = merge_spans(spans);
        let per_task = spans.len().div_ceil(tasks.max(1)).max(1);
        Ok(ParallelScan {
            view,
            mode: ReadMode::Cached,
            tasks: spans.chunks(per_task).map(<[KeySpan]>::to_vec).collect(),
            conditions: None,
        })
    }

    fn cut_scan(
        &self,
        tree: &Tree,
        spans: Vec<KeySpan>,
        tasks: usize,
        least: u64,
    ) -> Result<ParallelScan> {
        let view = self.pin(tree)?;
        let spans = merge_spans(spans);
        let mode = self.read_mode(&view, &spans);
        let tasks = split::split(&view, &spans, tasks, least)?;
        if let Some(verifier) = &view.verifier {
            verifier.check_cut(&spans, &tasks);
        }
        Ok(ParallelScan {
            view,
            mode,
            tasks: tasks.into_iter().map(|span| vec![span]).collect(),
            conditions: None,
        })
    }

    /// Counts the keys of `spans` as far as that is known without reading, and cuts the rest into about `tasks` parts.
    pub fn parallel_count(
        &self,
        tree: &Tree,
        spans: Vec<KeySpan>,
        tasks: usize,
    ) -> Result<ParallelCount> {
        self.cut_count(tree, spans, tasks, MIN_TASK_ENTRIES)
    }

    fn cut_count(
        &self,
        tree: &Tree,
        spans: Vec<KeySpan>,
        tasks: usize,
        least: u64,
    ) -> Result<ParallelCount> {
        let view = self.pin(tree)?;
        let mut spans = merge_spans(spans);
        let mut counted = Counted::default();
        for span in &spans {
            count::sort_out(&view, span, &mut counted)?;
        }
        if view.verifier.is_none() {
            spans.clear();
        }
        view.note(counted.newest);
        let mode = self.read_mode(&view, &counted.unread);
        let read = split::split(&view, &counted.unread, tasks, least)?;
        let overlays = Overlay::even_out(counted.overlays, &view, tasks);
        let read = read.into_iter().map(CountTask::Read);
        let overlays = overlays.into_iter().map(CountTask::Overlay);
        Ok(ParallelCount {
            view,
            mode,
            counted: counted.rows,
            tasks: read.chain(overlays).collect(),
            verified: spans,
        })
    }

    /// The threads that help with scans.
    pub fn scans(&self) -> &ScanPool {
        &self.env.scans
    }

    /// Whether a scan of these spans leaves its blocks in the cache.
    fn read_mode(&self, view: &PinnedView, spans: &[KeySpan]) -> ReadMode {
        let mut bytes = 0;
        for span in spans {
            for run in view.runs() {
                let extents = run.extents()[run.find(&span.lower, LATEST)..].iter();
                let inside = extents.take_while(|e| span.is_before_end(&e.meta().first.key));
                bytes += inside.map(|e| e.meta().data_bytes).sum::<u64>();
            }
        }
        match bytes <= self.cache_capacity() / CACHED_PART {
            true => ReadMode::Ahead,
            false => ReadMode::Once,
        }
    }
}

/// The spans that are not empty, ascending; those that overlap as one.
fn merge_spans(mut spans: Vec<KeySpan>) -> Vec<KeySpan> {
    spans.retain(|span| !span.is_empty());
    spans.sort_by(|a, b| a.lower.cmp(&b.lower));
    let mut merged: Vec<KeySpan> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if last.is_before_end(&span.lower) => {
                if last.upper.is_some() && (span.upper.is_none() || span.upper > last.upper) {
                    last.upper = span.upper;
                }
            }
            _ => merged.push(span),
        }
    }
    merged
}

impl ParallelScan {
    /// The same scan for rows that pass all `tests`. It may leave out rows that do not, by whole blocks; those that are
    /// left are for the caller to judge.
    #[must_use]
    pub fn with_tests(mut self, tests: Vec<FieldTest>) -> ParallelScan {
        self.conditions = (!tests.is_empty()).then(|| Conditions::new(tests));
        self
    }

    /// Blocks that the tasks have left out so far.
    pub fn blocks_skipped(&self) -> u64 {
        self.conditions.as_ref().map_or(0, |c| c.skipped())
    }

    /// Number of tasks. Every key of task n is smaller than every key of task n + 1.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Shows `visit` the rows of a task, ascending by key, and asks `go_on` now and then: at the end of every block, or
    /// after a few hundred keys. False if one of them has said no; the task is then over.
    pub fn read(
        &self,
        task: usize,
        visit: &mut impl Visit,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        for span in &self.tasks[task] {
            let conditions = self.conditions.as_ref();
            let merge = self.view.merge(span, self.mode, None, conditions)?;
            let goes_on = match &self.view.verifier {
                None => read(&self.view, merge, visit, go_on)?,
                Some(verifier) => {
                    let plain = view::cursor_over(&self.view, span)?;
                    let conditions = conditions.map(|c| &**c);
                    let mut beside = Beside::new(verifier, conditions, plain, visit);
                    let goes_on = read(&self.view, merge, &mut beside, go_on)?;
                    if goes_on {
                        beside.finish()?;
                    }
                    goes_on
                }
            };
            if !goes_on || (self.tasks[task].len() > 1 && !go_on()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn read(
    view: &PinnedView,
    mut merge: Merge,
    visit: &mut impl Visit,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<bool> {
    let result = merge.run(visit, go_on);
    // Also what was read before an error may be told.
    view.note(merge.newest());
    result
}

impl ParallelCount {
    /// Keys that need not be read.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Compares the answer, which is [`counted`](Self::counted) and the rows of all tasks, with plain reading, if
    /// answers are verified ([`Switches::verify_answers`](crate::Switches::verify_answers)). A difference is fatal.
    pub fn verify(&self, rows: u64, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        match &self.view.verifier {
            None => Ok(()),
            Some(verifier) => verifier.check_count(&self.view, &self.verified, rows, go_on),
        }
    }

    /// The keys of a task. `None` if `go_on`, which is asked as by [`ParallelScan::read`], said no.
    pub fn count(
        &self,
        task: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<CountedTask>> {
        match &self.tasks[task] {
            CountTask::Overlay(overlay) => overlay.count(&self.view, self.mode, go_on),
            CountTask::Read(span) => {
                let mut rows = 0;
                let mut row = |_: &[u8], _: &[u8]| {
                    rows += 1;
                    true
                };
                let merge = self.view.merge(span, self.mode, None, None)?;
                let ended = read(&self.view, merge, &mut row, go_on)?;
                Ok(ended.then_some(CountedTask {
                    rows,
                    read: rows,
                    from_metadata: 0,
                }))
            }
        }
    }
}
