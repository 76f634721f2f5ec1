//! Compaction picker: which compaction is due, a pure function of the shape of a tree.
//!
//! Neighbours: `run` calls it and does what it says; `plan` then decides what is merged and what only moves.
//!
//! New l0_runs are merged with each other, similar sizes together, so that their number stays small at a cost that
//! grows with the logarithm of level 0. The oldest run, once it is worth it, moves down to level 1, and level 1 to
//! level 2, both in jobs of limited size: a part of the upper run with what it overlaps below. Moving only from the
//! *oldest* run is what makes parts possible: everything above is newer.
//!
//! **Invariants**
//! - With `limits.l0_runs` l0_runs or more there is always a task (unless quarantined extents stand in the way of all),
//!   and every task reduces the l0_runs, or moves extents to a lower level: doing what it says ends.
//! - A quarantined extent takes part in no task.
//! - The parts of runs that take part never begin or end between two versions of a key: whoever sees one sees all.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::ops::Range;

use super::limits::{Limits, tombstones_amplify_reads};
use crate::Seq;
use crate::extent::{ExtentMeta, HasMeta, Position};
use crate::tree::{Levels, Run, RunAddress, RunId};

/// Why a task is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are many l0_runs in level 0.
    MergeL0,
    /// The upper run has grown.
    Size,
    /// Extents consist of deletes, or of what nobody sees any more, to a large part.
    Deletes,
    /// Readers skip tombstones of an extent again and again.
    Steps,
    /// The tree is at rest and could take less space.
    Space,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The run.
    pub place: RunAddress,
    /// Its extents.
    pub range: Range<usize>,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Why.
    pub reason: Reason,
    /// What takes part, newest data first.
    pub inputs: Vec<Input>,
    /// Where the result hangs.
    pub output: RunAddress,
    /// Larger is more urgent; comparable between trees.
    pub urgency: u64,
}

/// Urgency of something that is just due; twice as far over its limit is twice as urgent.
const URGENCY_UNIT: u64 = 1000;

/// The most urgent task of a tree.
pub fn pick<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let upper = level0_task(levels, limits);
    let lower = level1_task(levels, limits);
    let task = match (upper, lower) {
        (Some(upper), Some(lower)) if lower.urgency > upper.urgency => Some(lower),
        (Some(upper), _) => Some(upper),
        (None, Some(lower)) => Some(lower),
        (None, None) => removal_of_deletes(levels, limits),
    };
    if let Some(task) = &task {
        task.validate(levels);
    }
    task
}

/// What l0_runs make due: moving the oldest down, or merging them.
fn level0_task<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let l0_runs = levels.l0_runs().len();
    let urgency = (l0_runs as u64 * URGENCY_UNIT / limits.l0_runs as u64).max(URGENCY_UNIT);
    let oldest = levels.l0_runs().last()?;
    let layer_limit = (levels.level(1).bytes() / limits.level1_per_l0_run)
        .min(limits.job_bytes)
        .max(limits.l0_run_bytes);
    let is_large = oldest.bytes() >= layer_limit;
    // Small new l0_runs are merged first if they pile up while a large one is moved down part by part.
    let is_piled_up = l0_runs > limits.l0_runs;
    let descent = Descent::new(levels, RunAddress::l0(oldest.id()));
    let window = descent.cheapest_window(limits).filter(|window| {
        let is_cheap = l0_runs >= limits.l0_runs && window.below_bytes * 2 <= window.bytes;
        is_cheap || (is_large && !is_piled_up)
    });
    if let Some(window) = window {
        return Some(Task {
            reason: Reason::Size,
            inputs: descent.inputs(window.range),
            output: descent.output(),
            urgency,
        });
    }
    if l0_runs < limits.l0_runs {
        return None;
    }
    let (inputs, output) = merge_of_layers(levels.l0_runs())?;
    Some(Task {
        reason: Reason::MergeL0,
        inputs,
        output,
        urgency,
    })
}

/// What the size of level 1 makes due. However large it is, it gives way to l0_runs that slow writers down.
fn level1_task<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let level1 = levels.level(1);
    let share = levels.level(2).bytes() / limits.level2_per_level1;
    let level1_limit = limits.level1_bytes.max(share).max(1);
    if level1.bytes() <= level1_limit {
        return None;
    }
    let descent = Descent::new(levels, RunAddress::level(1));
    let window = descent.cheapest_window(limits)?;
    let most = limits.l0_slowdown_runs as u64 * URGENCY_UNIT / limits.l0_runs as u64 - 1;
    let urgency = (level1.bytes() * URGENCY_UNIT / level1_limit).min(most);
    Some(Task {
        reason: Reason::Size,
        inputs: descent.inputs(window.range),
        output: descent.output(),
        urgency,
    })
}

fn meta_bytes<E: HasMeta>(extents: &[E]) -> u64 {
    extents
        .iter()
        .map(|extent| u64::from(extent.meta().stored_bytes))
        .sum()
}

/// A part of a run, and what lies below it.
struct Window {
    range: Range<usize>,
    bytes: u64,
    below_bytes: u64,
}

/// Indexes of the quarantined extents of a run, ascending.
struct Quarantined(Vec<usize>);

impl Quarantined {
    fn of<E: HasMeta>(run: &Run<E>) -> Self {
        let extents = run.extents().iter().enumerate();
        Quarantined(
            extents
                .filter(|(_, extent)| extent.is_quarantined())
                .map(|(index, _)| index)
                .collect(),
        )
    }

    fn meets(&self, range: &Range<usize>) -> bool {
        let first = self.0.partition_point(|index| *index < range.start);
        self.0.get(first).is_some_and(|index| *index < range.end)
    }
}

/// The ways to move a part of a run down to the next level.
struct Descent<'a, E> {
    place: RunAddress,
    upper: &'a Run<E>,
    below: &'a Run<E>,
    quarantined_above: Quarantined,
    quarantined_below: Quarantined,
}

impl<'a, E: HasMeta> Descent<'a, E> {
    fn new(levels: &'a Levels<E>, place: RunAddress) -> Self {
        let upper = levels.run(place).expect("the picker looked at it");
        let below = levels.level(place.level + 1);
        Descent {
            place,
            upper,
            below,
            quarantined_above: Quarantined::of(upper),
            quarantined_below: Quarantined::of(below),
        }
    }

    fn output(&self) -> RunAddress {
        RunAddress::level(self.place.level + 1)
    }

    /// What takes part when this part of the run moves: the part, with everything below between its ends.
    fn inputs(&self, range: Range<usize>) -> Vec<Input> {
        let below = self.range_below(&range);
        let mut inputs = vec![Input {
            place: self.place,
            range,
        }];
        if !below.is_empty() {
            inputs.push(Input {
                place: self.output(),
                range: below,
            });
        }
        inputs
    }

    fn range_below(&self, range: &Range<usize>) -> Range<usize> {
        debug_assert!(!range.is_empty());
        let extents = self.upper.extents();
        let (first, last) = (&extents[range.start], &extents[range.end - 1]);
        let below = self.below;
        let overlap = below.overlapping_range(&first.meta().first.key, &last.meta().last.key);
        // With the neighbours on both sides: if they are small, they are put together with what comes (if not, they
        // stay as they are). And versions are dropped only when all of their key are at hand.
        let start = clean_start(below, overlap.start.saturating_sub(1));
        let end = clean_end(below, below.extents().len().min(overlap.end + 1));
        start..end
    }

    fn meets_quarantined(&self, range: &Range<usize>) -> bool {
        self.quarantined_above.meets(range)
            || self.quarantined_below.meets(&self.range_below(range))
    }

    /// The part that can be moved down with the least rewriting per byte, in a job of limited size. `None` if the run
    /// is empty or no part of it can be moved.
    fn cheapest_window(&self, limits: &Limits) -> Option<Window> {
        let mut best: Option<Window> = None;
        let mut start = 0;
        while start < self.upper.extents().len() {
            let Some(window) = self.window_from(start, limits) else {
                start = clean_end(self.upper, start + 1);
                continue;
            };
            let following = window.range.end;
            debug_assert!(following > start && window.bytes > 0);
            let is_better = best.as_ref().is_none_or(|best| {
                // below / bytes < best.below / best.bytes, without division.
                u128::from(window.below_bytes) * u128::from(best.bytes)
                    < u128::from(best.below_bytes) * u128::from(window.bytes)
            });
            if is_better {
                best = Some(window);
            }
            start = following;
        }
        best
    }

    /// The part that begins at `start` and grows while it fits into a job.
    fn window_from(&self, start: usize, limits: &Limits) -> Option<Window> {
        let (extents, below) = (self.upper.extents(), self.below);
        let mut end = start;
        let mut bytes = 0;
        let mut below_end = 0;
        let mut below_bytes = 0;
        while end < extents.len() {
            let next = clean_end(self.upper, end + 1);
            if self.meets_quarantined(&(start..next)) {
                break;
            }
            let part = &extents[end..next];
            let (low, high) = (
                &part[0].meta().first.key,
                &part[part.len() - 1].meta().last.key,
            );
            let overlap = below.overlapping_range(low, high);
            let fresh = overlap.start.max(below_end)..overlap.end.max(below_end);
            let more = meta_bytes(part) + meta_bytes(&below.extents()[fresh.clone()]);
            if end > start && bytes + below_bytes + more > limits.job_bytes {
                break;
            }
            bytes += meta_bytes(part);
            below_bytes += meta_bytes(&below.extents()[fresh.clone()]);
            below_end = fresh.end;
            end = next;
        }
        (end > start).then_some(Window {
            range: start..end,
            bytes,
            below_bytes,
        })
    }
}

/// The last index at or before `start` at which the run can be cut without dividing the versions of a key.
fn clean_start<E: HasMeta>(run: &Run<E>, mut start: usize) -> usize {
    let extents = run.extents();
    while start > 0
        && start < extents.len()
        && extents[start - 1].meta().last.key == extents[start].meta().first.key
    {
        start -= 1;
    }
    start
}

/// The first index at or behind `end` at which the run can be cut without dividing the versions of a key.
fn clean_end<E: HasMeta>(run: &Run<E>, mut end: usize) -> usize {
    let extents = run.extents();
    while end > 0
        && end < extents.len()
        && extents[end - 1].meta().last.key == extents[end].meta().first.key
    {
        end += 1;
    }
    end
}

/// Merging neighbouring l0_runs of similar sizes: as many as possible, from the newest on, as long as the next one is
/// not much larger than all before it together. `None` if no two neighbours can be merged.
fn merge_of_layers<E: HasMeta>(l0_runs: &[Run<E>]) -> Option<(Vec<Input>, RunAddress)> {
    let sound: Vec<bool> = l0_runs.iter().map(is_sound).collect();
    let similar = |start: usize| {
        let mut bytes = l0_runs[start].bytes();
        let mut end = start + 1;
        while end < l0_runs.len() && sound[end] && l0_runs[end].bytes() <= bytes * 2 {
            bytes += l0_runs[end].bytes();
            end += 1;
        }
        start..end
    };
    let longest = (0..l0_runs.len())
        .filter(|start| sound[*start])
        .map(similar)
        .max_by_key(|range| (range.len(), l0_runs.len() - range.start));
    let range = longest
        .filter(|range| range.len() > 1)
        .or_else(|| cheapest_pair(l0_runs, &sound))?;
    Some(merge_of(&l0_runs[range]))
}

/// Whether every extent of a run can be read, as far as is known.
fn is_sound<E: HasMeta>(run: &Run<E>) -> bool {
    !run.extents().iter().any(E::is_quarantined)
}

/// Merging these neighbouring l0_runs, newest first, into one that takes the place of the newest.
fn merge_of<E: HasMeta>(l0_runs: &[Run<E>]) -> (Vec<Input>, RunAddress) {
    let input = |run: &Run<E>| Input {
        place: RunAddress::l0(run.id()),
        range: 0..run.extents().len(),
    };
    (
        l0_runs.iter().map(input).collect(),
        RunAddress::l0(l0_runs[0].id()),
    )
}

fn cheapest_pair<E: HasMeta>(l0_runs: &[Run<E>], sound: &[bool]) -> Option<Range<usize>> {
    debug_assert!(!l0_runs.is_empty() && l0_runs.len() == sound.len());
    let pair_bytes = |start: &usize| l0_runs[*start].bytes() + l0_runs[*start + 1].bytes();
    (0..l0_runs.len() - 1)
        .filter(|start| sound[*start] && sound[*start + 1])
        .min_by_key(pair_bytes)
        .map(|start| start..start + 2)
}

/// Brings the extent with the largest share of deletes above the limit closer to what it deletes: one level down, or,
/// if it is in a newer layer, together with all l0_runs below it.
fn removal_of_deletes<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let percent = |meta: &ExtentMeta| meta.deletes * 100 / meta.entries;
    let mut due: Vec<(RunAddress, &E)> = levels
        .extents()
        .filter(|(place, extent)| place.level < 2 && percent(extent.meta()) > limits.delete_percent)
        .collect();
    due.sort_by_key(|(_, extent)| Reverse(percent(extent.meta())));
    due.into_iter()
        .map(|(place, extent)| removal_of(levels, place, extent.meta()))
        .find(|task| !task.touches_quarantined(levels))
}

/// A rewrite of an extent of the lowest level with many versions that are no rows: deletes, and what newer versions
/// hide. They came there when a snapshot still needed them; `oldest_snapshot` needs none of it any more, so all of them
/// go.
pub(super) fn garbage_at_the_bottom<E: HasMeta>(
    levels: &Levels<E>,
    limits: &Limits,
    oldest_snapshot: Seq,
) -> Option<Task> {
    let bottom = levels.level(2);
    let is_due = |meta: &ExtentMeta| {
        debug_assert!(meta.rows <= meta.entries && meta.entries > 0);
        (meta.entries - meta.rows) * 100 / meta.entries > limits.delete_percent
            && meta.largest_seq <= oldest_snapshot
    };
    let extents = bottom.extents().iter().enumerate();
    let mut due = extents.filter(|(_, extent)| is_due(extent.meta()));
    due.find_map(|(at, _)| rewrite_at_the_bottom(levels, at, Reason::Deletes, oldest_snapshot))
}

/// A rewrite of an extent of the lowest level, if no snapshot needs the past of its keys.
fn rewrite_at_the_bottom<E: HasMeta>(
    levels: &Levels<E>,
    at: usize,
    reason: Reason,
    oldest_snapshot: Seq,
) -> Option<Task> {
    let bottom = levels.level(2);
    let range = clean_start(bottom, at)..clean_end(bottom, at + 1);
    let is_clean =
        |extent: &E| extent.meta().largest_seq <= oldest_snapshot && !extent.is_quarantined();
    let all_are = bottom.extents()[range.clone()].iter().all(is_clean);
    all_are.then(|| Task {
        reason,
        inputs: vec![Input {
            place: RunAddress::level(2),
            range,
        }],
        output: RunAddress::level(2),
        urgency: 1,
    })
}

/// Brings an extent whose deletes readers have stepped over again and again closer to what it deletes, as soon as they
/// would have been better off had that been done at once. `oldest_snapshot` needs none of what is deleted any more.
pub(super) fn deletes_in_the_way<E: HasMeta>(
    levels: &Levels<E>,
    oldest_snapshot: Seq,
) -> Option<Task> {
    levels.extents().find_map(|(place, extent)| {
        let (meta, steps) = (extent.meta(), extent.tombstones_skipped());
        let is_asked = meta.deletes > 0 && meta.largest_seq <= oldest_snapshot;
        if !is_asked || !tombstones_amplify_reads(steps, meta.entries) {
            return None;
        }
        let task = match place.level {
            2 => {
                let at = levels.level(2).find(&meta.first.key, meta.first.seq);
                rewrite_at_the_bottom(levels, at, Reason::Steps, oldest_snapshot)?
            }
            _ => Task {
                reason: Reason::Steps,
                ..removal_of(levels, place, meta)
            },
        };
        let pays = tombstones_amplify_reads(steps, task.entries(levels));
        (pays && !task.touches_quarantined(levels)).then_some(task)
    })
}

/// What makes a tree that nobody writes to smaller: everything sinks to level 2, step by step, where it is compressed
/// most and exists once; and what came there without being rewritten, or is too little to sink, is compressed as level
/// 2 is where it lies.
pub fn sink<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let l0_runs = levels.l0_runs();
    let upper = l0_runs.iter().map(Run::bytes).sum::<u64>() + levels.level(1).bytes();
    let share = levels.level(2).bytes() / 100 * limits.sink_percent;
    let descending = (upper > 0 && upper >= limits.sink_bytes.max(share))
        .then(|| merge_of_all(l0_runs).or_else(|| descent_of_lowest(levels, limits)))
        .flatten();
    let repacked = || {
        let is_worth_it = upper >= limits.sink_bytes;
        let lower = is_worth_it.then_some(levels.level(1));
        let l0_runs = l0_runs.iter().filter(|_| is_worth_it);
        let lower = std::iter::once((2, levels.level(2))).chain(lower.map(|run| (1, run)));
        let lower = lower.map(|(level, run)| (RunAddress::level(level), run));
        let upper = l0_runs.map(|run| (RunAddress::l0(run.id()), run));
        let mut runs = lower.chain(upper);
        runs.find_map(|(place, run)| repacking(place, run, limits))
    };
    descending.or_else(repacked)
}

fn space_task(inputs: Vec<Input>, output: RunAddress) -> Task {
    Task {
        reason: Reason::Space,
        inputs,
        output,
        urgency: 1,
    }
}

/// All l0_runs become one, so that what lies below is rewritten once.
fn merge_of_all<E: HasMeta>(l0_runs: &[Run<E>]) -> Option<Task> {
    let is_possible = l0_runs.len() > 1 && l0_runs.iter().all(is_sound);
    is_possible.then(|| {
        let (inputs, output) = merge_of(l0_runs);
        space_task(inputs, output)
    })
}

/// A part of the oldest run goes to level 1; if there is no layer, a part of level 1 to level 2.
fn descent_of_lowest<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let oldest = levels.l0_runs().last().map(|run| RunAddress::l0(run.id()));
    let descent = Descent::new(levels, oldest.unwrap_or(RunAddress::level(1)));
    let window = descent.cheapest_window(limits)?;
    Some(space_task(descent.inputs(window.range), descent.output()))
}

/// A stretch of a run that begins and ends with something to compress.
fn repacking<E: HasMeta>(place: RunAddress, run: &Run<E>, limits: &Limits) -> Option<Task> {
    let quarantined = Quarantined::of(run);
    let is_due = |extent: &E| extent.meta().packed_for < 2 && !extent.is_quarantined();
    let extents = run.extents();
    if !limits.repacks {
        return None;
    }
    let mut from = 0;
    while let Some(first) = (from..extents.len()).find(|at| is_due(&extents[*at])) {
        let start = clean_start(run, first);
        let mut end = clean_end(run, first + 1);
        if quarantined.meets(&(start..end)) {
            from = end;
            continue;
        }
        while end < extents.len() && is_due(&extents[end]) {
            let next = clean_end(run, end + 1);
            let is_large = meta_bytes(&extents[start..next]) > limits.job_bytes;
            if is_large || quarantined.meets(&(end..next)) {
                break;
            }
            end = next;
        }
        let range = start..end;
        return Some(space_task(vec![Input { place, range }], place));
    }
    None
}

fn removal_of<E: HasMeta>(levels: &Levels<E>, place: RunAddress, extent: &ExtentMeta) -> Task {
    let task = |inputs, output| Task {
        reason: Reason::Deletes,
        inputs,
        output,
        urgency: 1,
    };
    let is_of_run = |run: &Run<E>| place == RunAddress::l0(run.id());
    let at = levels.l0_runs().iter().position(is_of_run);
    if let Some(at) = at.filter(|at| at + 1 < levels.l0_runs().len()) {
        let (inputs, output) = merge_of(&levels.l0_runs()[at..]);
        return task(inputs, output);
    }
    let descent = Descent::new(levels, place);
    let run = descent.upper;
    let Position { key, seq } = &extent.first;
    let index = run.find(key, *seq);
    let range = clean_start(run, index)..clean_end(run, index + 1);
    task(descent.inputs(range), descent.output())
}

impl Task {
    /// Whether an extent that takes part is quarantined. `levels` is the shape that the task was picked from.
    pub fn touches_quarantined<E: HasMeta>(&self, levels: &Levels<E>) -> bool {
        self.inputs.iter().any(|input| {
            let run = levels.run(input.place).expect("picked from this shape");
            run.extents()[input.range.clone()]
                .iter()
                .any(E::is_quarantined)
        })
    }

    /// Whether it is there to drop what nobody sees any more of the lowest level.
    pub(super) fn is_rewrite_at_the_bottom(&self) -> bool {
        let is_at_bottom =
            matches!(&self.inputs[..], [input] if input.place == RunAddress::level(2));
        is_at_bottom && matches!(self.reason, Reason::Deletes | Reason::Steps)
    }

    /// The level as for which its result is compressed: what is rewritten in its place for the sake of space stays
    /// there.
    pub(super) fn packed_for(&self) -> u8 {
        let is_in_place = matches!(&self.inputs[..], [input] if input.place == self.output);
        match is_in_place && self.reason == Reason::Space {
            true => 2,
            false => self.output.level,
        }
    }

    /// What is picked is there, is sound, and moves down or stays.
    fn validate<E: HasMeta>(&self, levels: &Levels<E>) {
        debug_assert!(!self.inputs.is_empty() && self.urgency > 0);
        debug_assert!(!self.touches_quarantined(levels));
        for input in &self.inputs {
            let run = levels.run(input.place).expect("picked from this shape");
            debug_assert!(!input.range.is_empty() && input.range.end <= run.extents().len());
            debug_assert!(input.place.level <= self.output.level);
        }
    }

    /// Versions in all that takes part.
    fn entries<E: HasMeta>(&self, levels: &Levels<E>) -> u64 {
        let of = |input: &Input| {
            let run = levels.run(input.place).expect("picked from this shape");
            let extents = run.extents()[input.range.clone()].iter();
            extents.map(|extent| extent.meta().entries).sum::<u64>()
        };
        self.inputs.iter().map(of).sum()
    }

    /// Runs of level 0 that take part, newest first.
    pub fn l0_runs(&self) -> impl Iterator<Item = RunId> {
        self.inputs
            .iter()
            .filter(|input| input.place.level == 0)
            .map(|input| input.place.run)
    }
}
