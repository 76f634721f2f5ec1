//! Compaction executor: merges, writes, syncs and installs the result of a task.
//!
//! Neighbours: `pick` and `plan` decide; `extent::RunWriter` writes; `tree::Trees::install` makes it so.
//!
//! **Invariants**
//! - One compaction per tree at a time. Flushes of the same tree go on: they only add l0_runs that are newer.
//! - Until the result is installed the tree reads as before; after an error the new extents are gone and their slots
//!   free.
//! - The picker decides what; `pacing` decides how quickly. A compaction of a tree that is dropped, or of an engine
//!   that stops, ends early.
//! - An extent that cannot be read ends its compaction, not the engine: it is quarantined, and tasks without it go on.

use std::sync::Arc;

use super::gaps::Gaps;
use super::limits::{Limits, Pressure};
use super::pacing::{Effort, Pace};
use super::pick::{Reason, Task, deletes_in_the_way, garbage_at_the_bottom, pick, sink};
use super::plan::{Piece, Rules, plan};
use super::retain::{Settled, retain};
use super::warm_cache::refresh;
use crate::extent::{Extent, HasMeta, ReadMode, RunWriter};
use crate::iter::{InternalIter, MergingIter};
use crate::tree::{Installation, Levels, Run, RunAddress, RunId, RunIter, ShapeEdit, Tree, Trees};
use crate::{EngineError, Result, Seq};

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// Extents that were merged.
    pub merged: u64,
    /// Extents that took a new place without being rewritten.
    pub linked: u64,
    /// Extents that were written.
    pub written: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Versions that nobody can see any more.
    pub dropped_entries: u64,
}

impl std::ops::AddAssign for CompactionStats {
    fn add_assign(&mut self, other: Self) {
        self.merged += other.merged;
        self.linked += other.linked;
        self.written += other.written;
        self.written_bytes += other.written_bytes;
        self.dropped_entries += other.dropped_entries;
    }
}

/// Compactions by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// MergeL0 of level 0 became one.
    MergeL0,
    /// A part of level 0 moved to level 1.
    ToLevel1,
    /// A part of level 1 moved to level 2.
    ToLevel2,
    /// Extents with many deletes were merged with what lies below.
    Deletes,
    /// Extents whose deletes readers stepped over again and again were merged with what lies below.
    Steps,
    /// A tree at rest was made smaller.
    Space,
}

impl CompactionKind {
    /// All of them.
    pub const ALL: [CompactionKind; 6] = [
        CompactionKind::MergeL0,
        CompactionKind::ToLevel1,
        CompactionKind::ToLevel2,
        CompactionKind::Deletes,
        CompactionKind::Steps,
        CompactionKind::Space,
    ];

    fn of(task: &Task) -> Self {
        match (task.reason, task.output.level) {
            (Reason::Deletes, _) => CompactionKind::Deletes,
            (Reason::Steps, _) => CompactionKind::Steps,
            (Reason::Space, _) => CompactionKind::Space,
            (_, 0) => CompactionKind::MergeL0,
            (_, 1) => CompactionKind::ToLevel1,
            _ => CompactionKind::ToLevel2,
        }
    }
}

type Extents = Vec<Arc<Extent>>;

impl Trees {
    /// Does the most urgent compaction of all trees; false if none is due (or all that are due are being done).
    pub(crate) fn compact_one(&self, oldest_snapshot: Seq, effort: Effort<'_>) -> Result<bool> {
        let mut due: Vec<(u64, Tree)> = self
            .all()
            .into_iter()
            .filter_map(|tree| {
                let version = Arc::clone(&tree.superversion().version);
                let task = self.due(&tree, version.levels(), oldest_snapshot)?;
                Some((task.urgency, tree))
            })
            .collect();
        due.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.id().cmp(&b.1.id())));
        for (_, tree) in due {
            if self.compact_tree(&tree, oldest_snapshot, effort)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits for every compaction that is being done; false if there was none.
    pub(crate) fn wait_for_compactions(&self) -> bool {
        let trees = self.all();
        let busy = trees.iter().filter(|tree| tree.try_compacting().is_none());
        // All of them, one after the other.
        busy.map(|tree| drop(tree.compacting())).count() > 0
    }

    /// Does the most urgent compaction of one tree; `None` if none is due or one is being done.
    pub(crate) fn compact_tree(
        &self,
        tree: &Tree,
        oldest_snapshot: Seq,
        effort: Effort<'_>,
    ) -> Result<Option<CompactionStats>> {
        let Some(_guard) = tree.try_compacting() else {
            return Ok(None);
        };
        let version = Arc::clone(&tree.superversion().version);
        let levels = version.levels();
        let Some(task) = self.due(tree, levels, oldest_snapshot) else {
            return Ok(None);
        };
        self.compact(tree, levels, &task, oldest_snapshot, effort)
            .map(Some)
    }

    /// Brings all that a tree has on disk to level 2, compressed as that level is, where nothing is left that only
    /// snapshots before `oldest_snapshot` would see. Waits for a compaction that is being done.
    pub(crate) fn sink_tree(&self, tree: &Tree, oldest_snapshot: Seq) -> Result<()> {
        let _guard = tree.compacting();
        let limits = Limits {
            sink_bytes: 0,
            sink_percent: 0,
            delete_percent: 0,
            ..self.limits().clone()
        };
        loop {
            let version = Arc::clone(&tree.superversion().version);
            let levels = version.levels();
            let task = sink(levels, &limits)
                .or_else(|| garbage_at_the_bottom(levels, &limits, oldest_snapshot));
            match task {
                Some(task) => self.compact(tree, levels, &task, oldest_snapshot, Effort::Full)?,
                None => return Ok(()),
            };
        }
    }

    /// Does a task that was picked from this shape, as the only one who compacts the tree.
    fn compact(
        &self,
        tree: &Tree,
        levels: &Levels<Arc<Extent>>,
        task: &Task,
        oldest_snapshot: Seq,
        effort: Effort<'_>,
    ) -> Result<CompactionStats> {
        self.write_persistently("the compaction", tree.id(), || {
            match self.carry_out(tree, levels, task, oldest_snapshot, effort) {
                // The picker saw none, so the next task is another one.
                Err(error) if task.touches_quarantined(levels) => {
                    tracing::error!(tree = tree.id().0, reason = ?task.reason, %error, "compaction given up");
                    self.note(|work| work.given_up_compactions += 1);
                    Ok(CompactionStats::default())
                }
                // Nobody wants it any more.
                Err(EngineError::NoSuchTree(_)) => {
                    self.note(|work| work.cancelled_compactions += 1);
                    Ok(CompactionStats::default())
                }
                result => result,
            }
        })
    }

    /// What is to be done with a tree.
    fn due(&self, tree: &Tree, levels: &Levels<Arc<Extent>>, oldest_snapshot: Seq) -> Option<Task> {
        let limits = self.limits();
        pick(levels, limits)
            .or_else(|| garbage_at_the_bottom(levels, limits, oldest_snapshot))
            .or_else(|| deletes_in_the_way(levels, oldest_snapshot))
            .or_else(|| sink(levels, limits).filter(|_| self.is_at_rest(tree)))
    }

    /// Why writers to this tree wait for a compaction that will not come; `None` if it will, or they do not wait.
    pub(crate) fn blocked_compaction(&self, tree: &Tree) -> Option<EngineError> {
        let version = Arc::clone(&tree.superversion().version);
        let levels = version.levels();
        if !self.waits_for_compaction(tree) || pick(levels, self.limits()).is_some() {
            return None;
        }
        let damaged = levels.extents().find(|(_, extent)| extent.is_quarantined());
        damaged.map(|(_, extent)| {
            extent.corruption(0, "it cannot be read, and level 0 is full because of that")
        })
    }

    /// Whether it is the l0_runs of level 0 that writers to this tree wait for.
    pub(crate) fn waits_for_compaction(&self, tree: &Tree) -> bool {
        let superversion = tree.superversion();
        let l0_runs = superversion.version.levels().l0_runs().len();
        l0_runs >= self.limits().l0_stop_runs
    }

    /// How far background work is behind with a tree: flushes, and compactions.
    pub fn pressure(&self, tree: &Tree) -> (Pressure, Pressure) {
        let superversion = tree.superversion();
        let levels = superversion.version.levels();
        let immutables = superversion.immutables.len();
        (
            self.limits().pressure_of_immutables(immutables),
            self.limits().pressure_of_layers(levels),
        )
    }

    /// Does a task that was picked: writes what it makes, then installs it.
    fn carry_out(
        &self,
        tree: &Tree,
        levels: &Levels<Arc<Extent>>,
        task: &Task,
        oldest_snapshot: Seq,
        effort: Effort<'_>,
    ) -> Result<CompactionStats> {
        self.check_writable()?;
        let pace = Pace::new(self, tree, task, effort);
        let outcome = self.write_outcome(tree, levels, task, oldest_snapshot, pace)?;
        self.install_outcome(tree, task, outcome)
    }

    /// How the inputs of a task are taken apart.
    fn rules(&self, task: &Task) -> Rules {
        Rules {
            small_bytes: self.store().options.extent_bytes as u32 / 2,
            drops_deletes: task.output.level == 2,
            drops_hidden: task.is_rewrite_at_the_bottom(),
            packs_for: match task.reason {
                Reason::Space if self.limits().repacks && task.packed_for() == 2 => 2,
                _ => 0,
            },
            resident: match &task.inputs[..] {
                // The only input is there to be rewritten.
                [_] => None,
                inputs => inputs.iter().position(|input| input.place == task.output),
            },
        }
    }

    /// Links the extents that may stay as they are and merges the others into new ones, which are durable at the end.
    fn write_outcome(
        &self,
        tree: &Tree,
        levels: &Levels<Arc<Extent>>,
        task: &Task,
        oldest_snapshot: Seq,
        mut pace: Pace<'_>,
    ) -> Result<Outcome> {
        let below = runs_below(levels, task);
        let inputs = input_extents(levels, task);
        let mut outcome = Outcome::default();
        let mut writer =
            RunWriter::new(self.store(), tree.id(), task.packed_for()).with_fields(tree.fields());
        // Pieces come in key order.
        let mut gaps = Gaps::new(below.iter().cloned(), self.limits().gap_bytes);
        for piece in plan(&inputs, self.rules(task)) {
            match piece {
                Piece::Link(extents) => outcome.link(levels, task.output, extents),
                Piece::Merge(parts) => {
                    outcome.replaced.extend(parts.iter().cloned());
                    let is_bottom = |delete: Settled<'_>| delete.has_nothing_in(&below);
                    let mut iter = merge(parts);
                    let counts = retain(
                        &mut iter,
                        oldest_snapshot,
                        is_bottom,
                        |key, seq, op, value| {
                            pace.step(key.len() + value.len())?;
                            if gaps.is_before(key) {
                                writer.cut()?;
                            }
                            writer.add(key, seq, op, value)
                        },
                    )?;
                    // What follows in key order may be an extent that is linked.
                    writer.cut()?;
                    outcome.stats.dropped_entries += counts.entries_in - counts.entries_out;
                }
            }
        }
        outcome.stats.written_bytes = writer.written_bytes();
        outcome.written = writer.finish()?;
        debug_assert!(
            Run::new(RunId(0), outcome.written.clone()).is_sorted(),
            "outputs are sorted and disjoint"
        );
        self.store()
            .space
            .sync(outcome.written.iter().map(|extent| extent.slots()))?;
        Ok(outcome)
    }

    fn install_outcome(
        &self,
        tree: &Tree,
        task: &Task,
        outcome: Outcome,
    ) -> Result<CompactionStats> {
        let Outcome {
            mut edit,
            mut stats,
            replaced,
            written,
        } = outcome;
        let merged = edit.removed.len();
        edit.removed
            .extend(replaced.iter().flatten().map(|extent| extent.meta().id));
        stats.merged = (edit.removed.len() - merged) as u64;
        stats.written = written.len() as u64;
        let added = written.iter().cloned();
        edit.added.extend(added.map(|extent| (task.output, extent)));
        let installation = Installation {
            edit,
            flushed: false,
            flushed_seq: None,
        };
        self.install(tree, installation)?;
        refresh(&replaced, &written);
        self.note(|work| {
            work.compactions += 1;
            work.compaction += stats;
            let (count, done) = &mut work.kinds[CompactionKind::of(task) as usize];
            *count += 1;
            *done += stats;
        });
        tracing::debug!(tree = tree.id().0, reason = ?task.reason, ?stats, "compacted");
        Ok(stats)
    }
}

/// What a task has made so far.
#[derive(Default)]
struct Outcome {
    edit: ShapeEdit<Arc<Extent>>,
    stats: CompactionStats,
    /// What was merged, and the extents that hold it now.
    replaced: Vec<Extents>,
    written: Extents,
}

impl Outcome {
    /// Moves extents to the output's run, unless they are there.
    fn link(&mut self, levels: &Levels<Arc<Extent>>, output: RunAddress, extents: Extents) {
        let resident: &[Arc<Extent>] = levels.run(output).map_or(&[], |run| run.extents());
        for extent in extents {
            let first = &extent.meta().first;
            let found =
                resident.binary_search_by(|e| e.meta().first.compare(&first.key, first.seq));
            if found.is_ok_and(|index| Arc::ptr_eq(&resident[index], &extent)) {
                continue;
            }
            self.stats.linked += 1;
            self.edit.removed.push(extent.meta().id);
            self.edit.added.push((output, extent));
        }
    }
}

fn input_extents(levels: &Levels<Arc<Extent>>, task: &Task) -> Vec<Extents> {
    let part = |input: &super::pick::Input| {
        let run = levels
            .run(input.place)
            .expect("the task was picked from this shape");
        run.extents()[input.range.clone()].to_vec()
    };
    task.inputs.iter().map(part).collect()
}

/// The runs that hold what is older than the inputs and does not take part.
fn runs_below(levels: &Levels<Arc<Extent>>, task: &Task) -> Vec<Run<Arc<Extent>>> {
    let oldest = task.l0_runs().last().filter(|_| task.output.level == 0);
    let l0_runs = levels
        .l0_runs()
        .iter()
        .filter(|run| oldest.is_some_and(|oldest| run.id() < oldest));
    let lower = (task.output.level + 1..=2).map(|level| levels.level(level));
    l0_runs
        .chain(lower)
        .filter(|run| !run.is_empty())
        .cloned()
        .collect()
}

fn merge(parts: Vec<Extents>) -> MergingIter {
    let sources = parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(|part| {
            let run = Run::new(RunId(0), part);
            debug_assert!(run.is_sorted(), "an input is a part of a sorted run");
            Box::new(RunIter::new(run, ReadMode::Once)) as Box<dyn InternalIter>
        });
    MergingIter::new(sources.collect())
}
