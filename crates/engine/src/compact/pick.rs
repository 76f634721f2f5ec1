//! Which compaction is due: a pure function of the shape of a tree.
//!
//! Neighbours: `run` calls it and does what it says; `plan` then decides what is merged and what only moves.
//!
//! New layers are merged with each other, similar sizes together, so that their number stays small at a cost that grows
//! with the logarithm of level 0. The oldest layer, once it is worth it, moves down to level 1, and level 1 to level 2,
//! both in jobs of limited size: a part of the upper run with what it overlaps below. Moving only from the *oldest* layer
//! is what makes parts possible: everything above is newer.
//!
//! **Invariants**
//! - With `limits.layers` layers or more there is always a task, and every task reduces the layers, or moves extents to a
//!   lower level: doing what it says ends.
//! - The parts of runs that take part never begin or end between two versions of a key: whoever sees one sees all.

use std::ops::Range;

use super::limits::Limits;
use crate::extent::{ExtentMeta, HasMeta, Position};
use crate::tree::{Levels, Place, Run, RunId};

/// Why a task is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are many layers in level 0.
    Layers,
    /// The upper run has grown.
    Size,
    /// Extents consist of deletes to a large part.
    Deletes,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The run.
    pub place: Place,
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
    pub output: Place,
    /// Larger is more urgent; comparable between trees.
    pub urgency: u64,
}

/// Urgency of something that is just due; twice as far over its limit is twice as urgent.
const URGENCY_UNIT: u64 = 1000;

/// The most urgent task of a tree.
pub fn pick<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let upper = level0_task(levels, limits);
    let lower = level1_task(levels, limits);
    match (upper, lower) {
        (Some(upper), Some(lower)) if lower.urgency > upper.urgency => Some(lower),
        (Some(upper), _) => Some(upper),
        (None, Some(lower)) => Some(lower),
        (None, None) => removal_of_deletes(levels, limits),
    }
}

/// What layers make due: moving the oldest down, or merging them.
fn level0_task<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let layers = levels.layers().len();
    let urgency = (layers as u64 * URGENCY_UNIT / limits.layers as u64).max(URGENCY_UNIT);
    let oldest = levels.layers().last()?;
    let window = cheapest_window(oldest, levels.level(1), limits);
    let layer_limit = (levels.level(1).bytes() / limits.level1_per_layer)
        .min(limits.job_bytes)
        .max(limits.layer_bytes);
    let is_large = oldest.bytes() >= layer_limit;
    let is_cheap = layers >= limits.layers && window.below_bytes * 2 <= window.bytes;
    // Small new layers are merged first if they pile up while a large one is moved down part by part.
    let is_piled_up = layers > limits.layers;
    if is_cheap || (is_large && !is_piled_up) {
        let place = Place::layer(oldest.id());
        let (inputs, output) = descent(levels, place, window.range);
        return Some(Task {
            reason: Reason::Size,
            inputs,
            output,
            urgency,
        });
    }
    if layers < limits.layers {
        return None;
    }
    let (inputs, output) = merge_of_layers(levels.layers());
    Some(Task {
        reason: Reason::Layers,
        inputs,
        output,
        urgency,
    })
}

/// What the size of level 1 makes due. However large it is, it gives way to layers that slow writers down.
fn level1_task<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let level1 = levels.level(1);
    let share = levels.level(2).bytes() / limits.level2_per_level1;
    let level1_limit = limits.level1_bytes.max(share).max(1);
    if level1.bytes() <= level1_limit {
        return None;
    }
    let window = cheapest_window(level1, levels.level(2), limits);
    let most = limits.layers_slow as u64 * URGENCY_UNIT / limits.layers as u64 - 1;
    let urgency = (level1.bytes() * URGENCY_UNIT / level1_limit).min(most);
    let (inputs, output) = descent(levels, Place::level(1), window.range);
    Some(Task {
        reason: Reason::Size,
        inputs,
        output,
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

/// The part of `upper` (not empty) that can be moved down with the least rewriting per byte, in a job of limited size.
fn cheapest_window<E: HasMeta>(upper: &Run<E>, below: &Run<E>, limits: &Limits) -> Window {
    let extents = upper.extents();
    let mut best: Option<Window> = None;
    let mut start = 0;
    while start < extents.len() {
        let window = window_from(upper, below, start, limits);
        let following = window.range.end;
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
    best.expect("the run is not empty")
}

/// The part that begins at `start` and grows while it fits into a job.
fn window_from<E: HasMeta>(
    upper: &Run<E>,
    below: &Run<E>,
    start: usize,
    limits: &Limits,
) -> Window {
    let extents = upper.extents();
    let mut end = start;
    let mut bytes = 0;
    let mut below_end = 0;
    let mut below_bytes = 0;
    while end < extents.len() {
        let next = clean_end(upper, end + 1);
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
    Window {
        range: start..end,
        bytes,
        below_bytes,
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

/// Moving a part of a run down: the part, with everything below between its ends.
fn descent<E: HasMeta>(
    levels: &Levels<E>,
    place: Place,
    range: Range<usize>,
) -> (Vec<Input>, Place) {
    let upper = levels.run(place).expect("the picker looked at it");
    let output = Place::level(place.level + 1);
    let (first, last) = (
        &upper.extents()[range.start],
        &upper.extents()[range.end - 1],
    );
    let lower = levels.level(output.level);
    let overlap = lower.overlapping_range(&first.meta().first.key, &last.meta().last.key);
    // With the neighbours on both sides: if they are small, they are put together with what comes (if not, they stay as
    // they are). And versions are dropped only when all of their key are at hand.
    let start = clean_start(lower, overlap.start.saturating_sub(1));
    let end = clean_end(lower, lower.extents().len().min(overlap.end + 1));
    let below = start..end;
    let mut inputs = vec![Input { place, range }];
    if !below.is_empty() {
        inputs.push(Input {
            place: output,
            range: below,
        });
    }
    (inputs, output)
}

/// Merging neighbouring layers of similar sizes: as many as possible, from the newest on, as long as the next one is not
/// much larger than all before it together.
fn merge_of_layers<E: HasMeta>(layers: &[Run<E>]) -> (Vec<Input>, Place) {
    let similar = |start: usize| {
        let mut bytes = layers[start].bytes();
        let mut end = start + 1;
        while end < layers.len() && layers[end].bytes() <= bytes * 2 {
            bytes += layers[end].bytes();
            end += 1;
        }
        start..end
    };
    let longest = (0..layers.len())
        .map(similar)
        .max_by_key(|range| (range.len(), layers.len() - range.start));
    let range = longest
        .filter(|range| range.len() > 1)
        .unwrap_or_else(|| cheapest_pair(layers));
    merge_of(&layers[range])
}

/// Merging these neighbouring layers, newest first, into one that takes the place of the newest.
fn merge_of<E: HasMeta>(layers: &[Run<E>]) -> (Vec<Input>, Place) {
    let input = |run: &Run<E>| Input {
        place: Place::layer(run.id()),
        range: 0..run.extents().len(),
    };
    (
        layers.iter().map(input).collect(),
        Place::layer(layers[0].id()),
    )
}

fn cheapest_pair<E: HasMeta>(layers: &[Run<E>]) -> Range<usize> {
    let pair_bytes = |start: &usize| layers[*start].bytes() + layers[*start + 1].bytes();
    let start = (0..layers.len() - 1).min_by_key(pair_bytes);
    start.map_or(0..layers.len(), |start| start..start + 2)
}

/// Brings the extent with the largest share of deletes above the limit closer to what it deletes: one level down, or, if it
/// is in a newer layer, together with all layers below it.
fn removal_of_deletes<E: HasMeta>(levels: &Levels<E>, limits: &Limits) -> Option<Task> {
    let upper = levels.extents().filter(|(place, _)| place.level < 2);
    let percent = |meta: &ExtentMeta| meta.deletes * 100 / meta.entries;
    let (place, worst) = upper
        .filter(|(_, extent)| percent(extent.meta()) > limits.delete_percent)
        .max_by_key(|(_, extent)| percent(extent.meta()))?;
    let task = |(inputs, output)| Task {
        reason: Reason::Deletes,
        inputs,
        output,
        urgency: 1,
    };
    if place.level == 0 {
        let at = levels
            .layers()
            .iter()
            .position(|run| run.id() == place.run)?;
        if at + 1 < levels.layers().len() {
            return Some(task(merge_of(&levels.layers()[at..])));
        }
    }
    let run = levels.run(place)?;
    let Position { key, seq } = &worst.meta().first;
    let index = run.find(key, *seq);
    let range = clean_start(run, index)..clean_end(run, index + 1);
    Some(task(descent(levels, place, range)))
}

impl Task {
    /// Runs of level 0 that take part, newest first.
    pub fn layers(&self) -> impl Iterator<Item = RunId> {
        self.inputs
            .iter()
            .filter(|input| input.place.level == 0)
            .map(|input| input.place.run)
    }
}
