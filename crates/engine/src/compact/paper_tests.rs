//! Deciding and planning, on paper.
//!
//! Neighbours: `tests` does it, against a model with snapshots.

use super::pick::{Input, Reason, deletes_in_the_way, garbage_at_the_bottom};
use super::plan::{Piece, Rules, plan};
use super::*;
use crate::extent::{ExtentMeta, HasMeta};
use crate::tree::levels::tests::{paper, shape};
use crate::tree::{Levels, RunAddress, RunId};

const KB: u32 = 1 << 10;

pub(super) fn limits() -> Limits {
    Limits {
        l0_runs: 3,
        l0_slowdown_runs: 6,
        l0_stop_runs: 9,
        memtable_slowdown_count: 2,
        memtable_stop_count: 4,
        l0_run_bytes: 40 << 10,
        level1_per_l0_run: 4,
        level1_bytes: 50 << 10,
        level2_per_level1: 4,
        job_bytes: 64 << 10,
        delete_percent: 50,
        gap_bytes: 20 << 10,
        sink_bytes: 10 << 10,
        sink_percent: 20,
        repacks: true,
    }
}

pub(super) fn l0_run(n: u64) -> RunAddress {
    RunAddress::l0(RunId(n))
}

#[test]
fn nothing_is_due_in_small_trees() {
    assert_eq!(pick(&Levels::<ExtentMeta>::default(), &limits()), None);
    let levels = shape(&[
        (l0_run(1), paper(1, "a", "z", KB)),
        (RunAddress::level(1), paper(2, "a", "z", 45 * KB)),
    ]);
    assert_eq!(pick(&levels, &limits()), None);
}

#[test]
fn similar_layers_are_merged_and_a_large_old_one_is_left_alone() {
    let levels = shape(&[
        (l0_run(1), paper(1, "a", "z", 30 * KB)),
        (l0_run(2), paper(2, "a", "z", KB)),
        (l0_run(3), paper(3, "a", "z", 2 * KB)),
        (l0_run(4), paper(4, "a", "z", KB)),
        (RunAddress::level(1), paper(5, "a", "z", 45 * KB)),
    ]);
    let task = pick(&levels, &limits()).unwrap();
    assert_eq!(task.reason, Reason::MergeL0);
    assert_eq!(
        task.l0_runs().collect::<Vec<_>>(),
        [RunId(4), RunId(3), RunId(2)]
    );
    assert_eq!(task.output, l0_run(4));
}

#[test]
fn a_large_oldest_layer_goes_down_in_parts_that_overlap_little() {
    let levels = shape(&[
        (l0_run(1), paper(1, "a", "c", 30 * KB)),
        (l0_run(1), paper(2, "d", "f", 30 * KB)),
        (l0_run(1), paper(3, "g", "i", 30 * KB)),
        (l0_run(2), paper(4, "a", "z", KB)),
        (RunAddress::level(1), paper(5, "a", "b", 30 * KB)),
        (RunAddress::level(1), paper(6, "e", "f", 2 * KB)),
        (RunAddress::level(1), paper(7, "h", "z", 18 * KB)),
    ]);
    let task = pick(&levels, &limits()).unwrap();
    assert_eq!(task.reason, Reason::Size);
    assert_eq!(task.output, RunAddress::level(1));
    // With the neighbours of what is overlapped: they might be small.
    assert_eq!(
        task.inputs,
        [
            Input {
                place: l0_run(1),
                range: 1..2
            },
            Input {
                place: RunAddress::level(1),
                range: 0..3
            }
        ]
    );
}

#[test]
fn a_cut_never_divides_the_versions_of_a_key() {
    let mut left = paper(1, "a", "k", 200 * KB);
    left.last.seq = 90;
    let mut middle = paper(2, "k", "k", 10 * KB);
    (middle.first.seq, middle.last.seq) = (80, 70);
    let mut right = paper(3, "k", "p", 10 * KB);
    right.first.seq = 60;
    let levels = shape(&[
        (RunAddress::level(1), left),
        (RunAddress::level(1), middle),
        (RunAddress::level(1), right),
        (RunAddress::level(1), paper(4, "q", "r", 10 * KB)),
        (RunAddress::level(2), paper(5, "q", "z", 500 * KB)),
    ]);
    let task = pick(&levels, &limits()).unwrap();
    let upper = Input {
        place: RunAddress::level(1),
        range: 0..3,
    };
    assert_eq!(task.inputs[0], upper);
}

#[test]
fn a_level_far_over_its_limit_goes_before_a_few_layers_but_not_before_many() {
    let with_layers = |count: u32| {
        let mut extents = vec![
            (RunAddress::level(1), paper(1, "a", "m", 70 * KB)),
            (RunAddress::level(1), paper(2, "n", "z", 70 * KB)),
        ];
        extents.extend((1..=count).map(|n| (l0_run(u64::from(n)), paper(10 + n, "a", "z", KB))));
        pick(&shape(&extents), &limits()).unwrap()
    };
    assert_eq!(with_layers(0).output, RunAddress::level(2));
    assert_eq!(with_layers(3).output, RunAddress::level(2));
    assert_eq!(with_layers(6).reason, Reason::MergeL0);
}

#[test]
fn below_the_versions_of_a_key_stay_together_too() {
    let mut left = paper(2, "d", "k", 10 * KB);
    left.last.seq = 30;
    let mut right = paper(3, "k", "p", 10 * KB);
    right.first.seq = 29;
    let levels = shape(&[
        (RunAddress::level(1), paper(1, "e", "f", 200 * KB)),
        (RunAddress::level(2), left),
        (RunAddress::level(2), right),
    ]);
    // Nothing above overlaps "k", but its versions are merged with their left neighbours.
    let task = pick(&levels, &limits()).unwrap();
    assert_eq!(
        task.inputs[1],
        Input {
            place: RunAddress::level(2),
            range: 0..2
        }
    );
}

#[test]
fn extents_full_of_deletes_go_down() {
    let mut deleted = paper(2, "k", "m", 5 * KB);
    deleted.deletes = 60;
    let levels = shape(&[
        (RunAddress::level(1), paper(1, "a", "b", 5 * KB)),
        (RunAddress::level(1), deleted),
        (RunAddress::level(2), paper(3, "a", "l", 5 * KB)),
    ]);
    let task = pick(&levels, &limits()).unwrap();
    assert_eq!(task.reason, Reason::Deletes);
    assert_eq!(task.output, RunAddress::level(2));
    assert_eq!(
        task.inputs[0],
        Input {
            place: RunAddress::level(1),
            range: 1..2
        }
    );
}

#[test]
fn deletes_at_the_bottom_go_when_no_snapshot_needs_what_they_delete() {
    let extent = |id, first, last, deletes, largest_seq| {
        let mut meta = paper(id, first, last, 5 * KB);
        (meta.deletes, meta.largest_seq) = (deletes, largest_seq);
        meta.rows = meta.entries - deletes;
        (RunAddress::level(2), meta)
    };
    let levels = shape(&[
        extent(1, "a", "b", 10, 40),
        extent(2, "k", "m", 60, 70),
        extent(3, "n", "z", 60, 80),
    ]);
    assert_eq!(pick(&levels, &limits()), None);
    let range_at = |oldest| {
        let task = garbage_at_the_bottom(&levels, &limits(), oldest)?;
        assert_eq!((task.output, task.inputs.len()), (RunAddress::level(2), 1));
        Some(task.inputs[0].range.clone())
    };
    assert_eq!(range_at(69), None);
    assert_eq!(range_at(70), Some(1..2));
    // Old versions of rows are no better than deletes.
    let (place, mut meta) = extent(4, "a", "b", 0, 90);
    meta.rows = 40;
    let levels = shape(&[(place, meta)]);
    let is_due = |oldest| garbage_at_the_bottom(&levels, &limits(), oldest).is_some();
    assert!(!is_due(89) && is_due(90));
}

/// An extent whose deletes readers have stepped over.
#[derive(Clone, Debug)]
struct Trodden(ExtentMeta, u64);

impl HasMeta for Trodden {
    fn meta(&self) -> &ExtentMeta {
        &self.0
    }
    fn tombstones_skipped(&self) -> u64 {
        self.1
    }
}

#[test]
fn deletes_that_readers_step_over_go_as_soon_as_that_would_have_been_cheaper() {
    let levels = |steps: u64, entries_below: u64, level: u8| {
        let mut upper = paper(1, "k", "m", 5 * KB);
        (upper.entries, upper.deletes, upper.rows) = (100, 10, 90);
        let mut lower = paper(2, "a", "z", 5 * KB);
        lower.entries = entries_below;
        let mut extents = vec![(RunAddress::level(level), upper)];
        if level < 2 {
            extents.push((RunAddress::level(level + 1), lower));
        }
        shape(&extents).map(|meta| Trodden(meta.clone(), if meta.id.0 == 1 { steps } else { 0 }))
    };
    let due = |levels: &Levels<Trodden>| deletes_in_the_way(levels, 100);
    for level in [1, 2] {
        let task = due(&levels(FREE_TOMBSTONE_SKIPS, 1000, level)).expect("due");
        assert_eq!(task.reason, Reason::Steps);
        assert_eq!(task.inputs[0].place, RunAddress::level(level));
        assert_eq!(task.output, RunAddress::level(2));
        assert_eq!(due(&levels(FREE_TOMBSTONE_SKIPS - 1, 1000, level)), None);
    }
    // All that would be rewritten counts.
    let below = FREE_TOMBSTONE_SKIPS / SKIPS_PER_ENTRY;
    assert_eq!(due(&levels(FREE_TOMBSTONE_SKIPS, below, 1)), None);
    assert!(due(&levels(2 * FREE_TOMBSTONE_SKIPS, below, 1)).is_some());
    // A snapshot may still need what is deleted.
    assert_eq!(
        deletes_in_the_way(&levels(FREE_TOMBSTONE_SKIPS, 1000, 1), 99),
        None
    );
}

#[test]
fn pressure_rises_with_layers_and_always_has_a_remedy() {
    let mut extents = Vec::new();
    for n in 1..=12u32 {
        extents.push((l0_run(u64::from(n)), paper(n, "a", "z", KB << n.min(9))));
        let levels = shape(&extents);
        let expected = match n {
            0..6 => Pressure::None,
            6..9 => Pressure::of(u64::from(n), 6, 9),
            _ => Pressure::Stop,
        };
        assert_eq!(limits().pressure_of_layers(&levels), expected);
        assert!(
            n < 3 || pick(&levels, &limits()).is_some(),
            "{n} l0_runs and nothing to do"
        );
    }
}

fn ids(piece: &Piece<ExtentMeta>) -> (bool, Vec<u32>) {
    match piece {
        Piece::Link(extents) => (true, extents.iter().map(|e| e.id.0).collect()),
        Piece::Merge(parts) => (false, parts.iter().flatten().map(|e| e.id.0).collect()),
    }
}

#[test]
fn only_what_overlaps_is_merged_the_rest_is_linked() {
    let upper = vec![
        paper(1, "a", "b", 10 * KB),
        paper(2, "e", "f", 10 * KB),
        paper(3, "m", "n", KB),
        paper(4, "s", "t", KB),
    ];
    let lower = vec![
        paper(11, "c", "d", 10 * KB),
        paper(12, "f", "h", 10 * KB),
        paper(13, "n", "o", 10 * KB),
        paper(14, "p", "r", 10 * KB),
    ];
    let rules = Rules {
        small_bytes: 5 * KB,
        drops_deletes: false,
        drops_hidden: false,
        packs_for: 0,
        resident: Some(1),
    };
    let pieces: Vec<_> = plan(&[upper, lower], rules).iter().map(ids).collect();
    assert_eq!(
        pieces,
        [
            (true, vec![1]),
            (true, vec![11]),
            // Two clusters without anything between them.
            (false, vec![2, 3, 12, 13]),
            (true, vec![14]),
            // Small, but without company.
            (true, vec![4]),
        ]
    );
}

#[test]
fn small_neighbours_are_put_together_and_deletes_are_rewritten_at_the_bottom() {
    let mut deleted = paper(4, "s", "t", 10 * KB);
    deleted.deletes = 1;
    let upper = vec![
        paper(1, "a", "b", KB),
        paper(2, "c", "d", KB),
        paper(3, "e", "f", 10 * KB),
        deleted,
    ];
    let rules = |drops_deletes| Rules {
        small_bytes: 5 * KB,
        drops_deletes,
        drops_hidden: false,
        packs_for: 0,
        resident: None,
    };
    let pieces: Vec<_> = plan(std::slice::from_ref(&upper), rules(true))
        .iter()
        .map(ids)
        .collect();
    assert_eq!(
        pieces,
        [(false, vec![1, 2]), (true, vec![3]), (false, vec![4])]
    );
    let pieces: Vec<_> = plan(&[upper], rules(false)).iter().map(ids).collect();
    assert_eq!(
        pieces,
        [(false, vec![1, 2]), (true, vec![3]), (true, vec![4])]
    );
}

/// An extent on paper that cannot be read.
#[derive(Clone)]
struct Paper(ExtentMeta, bool);

impl HasMeta for Paper {
    fn meta(&self) -> &ExtentMeta {
        &self.0
    }

    fn is_quarantined(&self) -> bool {
        self.1
    }
}

#[test]
fn no_task_touches_what_is_quarantined_and_the_rest_goes_on() {
    let all = [
        (l0_run(1), paper(1, "a", "c", 30 * KB)),
        (l0_run(1), paper(2, "d", "f", 30 * KB)),
        (l0_run(1), paper(3, "g", "i", 30 * KB)),
        (l0_run(2), paper(4, "a", "z", KB)),
        (l0_run(3), paper(5, "a", "z", KB)),
        (l0_run(4), paper(6, "a", "z", 2 * KB)),
        (RunAddress::level(1), paper(7, "a", "b", 30 * KB)),
        (RunAddress::level(1), paper(8, "e", "f", 2 * KB)),
        (RunAddress::level(1), paper(9, "h", "z", 68 * KB)),
        (RunAddress::level(2), paper(10, "a", "m", 30 * KB)),
        (RunAddress::level(2), paper(11, "n", "z", 30 * KB)),
    ];
    let whole = shape(&all);
    let is_bad = |bad: u32, meta: &ExtentMeta| bad & (1 << meta.id.0) != 0;
    let mut without_task = 0;
    for bad in 0..1u32 << (all.len() + 1) {
        let levels = whole.map(|meta| Paper(meta.clone(), is_bad(bad, meta)));
        let Some(task) = pick(&levels, &limits()) else {
            without_task += 1;
            // Nothing is left out that could be done.
            let sound = |n: u32| bad & (1 << n) == 0;
            let can_merge = sound(5) && (sound(4) || sound(6));
            assert!(!can_merge, "{bad:b}");
            continue;
        };
        assert!(!task.touches_quarantined(&levels), "{bad:b}: {task:?}");
        assert!(!task.inputs.is_empty());
    }
    assert!(without_task > 0);
}
