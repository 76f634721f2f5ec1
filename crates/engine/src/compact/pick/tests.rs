//! Tests of what is picked: sinking, rewriting and repacking.

use super::*;
use crate::tree::levels::tests::{paper, shape};

const MB: u32 = 1 << 20;

fn unpacked(id: u32, first: &str, last: &str) -> ExtentMeta {
    ExtentMeta {
        packed_for: 0,
        ..paper(id, first, last, 2 * MB)
    }
}

fn reason_and_places(task: &Task) -> (Reason, Vec<RunAddress>, RunAddress) {
    let places = task.inputs.iter().map(|input| input.place).collect();
    (task.reason, places, task.output)
}

#[test]
fn a_tree_at_rest_sinks_step_by_step_if_it_is_worth_it() {
    let limits = Limits::default();
    let l0_run = |n| RunAddress::l0(RunId(n));
    let mut extents = vec![
        (l0_run(1), paper(1, "a", "m", 3 * MB)),
        (l0_run(2), paper(2, "b", "z", 3 * MB)),
    ];
    let sunk = |extents: &[(RunAddress, ExtentMeta)]| sink(&shape(extents), &limits);
    assert_eq!(sunk(&extents), None, "too little to be worth it");
    extents.push((RunAddress::level(1), paper(3, "c", "x", 3 * MB)));
    let expected = (Reason::Space, vec![l0_run(2), l0_run(1)], l0_run(2));
    assert_eq!(reason_and_places(&sunk(&extents).unwrap()), expected);
    extents.remove(0);
    extents.push((RunAddress::level(1), paper(4, "xa", "xb", 3 * MB)));
    let expected = (
        Reason::Space,
        vec![l0_run(2), RunAddress::level(1)],
        RunAddress::level(1),
    );
    assert_eq!(reason_and_places(&sunk(&extents).unwrap()), expected);
    extents.remove(0);
    assert_eq!(sunk(&extents), None);
    extents.push((RunAddress::level(1), paper(5, "xc", "xd", 3 * MB)));
    let task = sunk(&extents).unwrap();
    let expected = (
        Reason::Space,
        vec![RunAddress::level(1)],
        RunAddress::level(2),
    );
    assert_eq!(reason_and_places(&task), expected);
    // Little above much is left where it is: all of it would be rewritten for that.
    let large = paper(6, "a", "b", 200 * MB);
    extents.push((RunAddress::level(2), large));
    assert_eq!(sunk(&extents), None);
}

#[test]
fn what_is_not_compressed_as_its_level_is_rewritten_in_stretches() {
    let mut limits = Limits {
        job_bytes: 5 * u64::from(MB),
        ..Limits::default()
    };
    let bottom = RunAddress::level(2);
    let levels = shape(&[
        (bottom, paper(1, "a", "b", 2 * MB)),
        (bottom, unpacked(2, "c", "d")),
        (bottom, unpacked(3, "e", "f")),
        (bottom, unpacked(4, "g", "h")),
        (bottom, paper(5, "i", "j", 2 * MB)),
    ]);
    let task = sink(&levels, &limits).unwrap();
    assert_eq!(task.reason, Reason::Space);
    assert_eq!((task.inputs.len(), task.output), (1, bottom));
    assert_eq!(task.inputs[0].range, 1..3);
    limits.repacks = false;
    assert_eq!(sink(&levels, &limits), None);
}

#[test]
fn what_does_not_sink_is_compressed_where_it_lies_if_it_is_worth_it() {
    let limits = Limits::default();
    let l0_run = RunAddress::l0(RunId(1));
    for place in [l0_run, RunAddress::level(1)] {
        let mut extents: Vec<_> = (1..=5)
            .map(|id| {
                let first = char::from(b'a' + 2 * id as u8).to_string();
                let last = char::from(b'b' + 2 * id as u8).to_string();
                (place, unpacked(id, &first, &last))
            })
            .collect();
        extents.push((RunAddress::level(2), paper(6, "a", "z", 200 * MB)));
        let task = sink(&shape(&extents), &limits).unwrap();
        let expected = (Reason::Space, vec![place], place);
        assert_eq!(reason_and_places(&task), expected);
        assert_eq!((task.inputs[0].range.clone(), task.packed_for()), (0..5, 2));
        extents.truncate(3);
        extents.push((RunAddress::level(2), paper(6, "a", "z", 200 * MB)));
        assert_eq!(sink(&shape(&extents), &limits), None);
    }
    // What is on its way is not.
    let extents = [
        (RunAddress::l0(RunId(2)), unpacked(1, "a", "z")),
        (l0_run, paper(2, "a", "z", 9 * MB)),
    ];
    let task = sink(&shape(&extents), &limits).unwrap();
    assert_eq!((task.inputs.len(), task.packed_for()), (2, 0));
}
