//! What is known of tombstones: alone, and learned beside commits and a flush in every order (see `crate::sync`).

use shuttle::thread;

use super::*;
use crate::budget::MemoryBudget;
use crate::sync::{explore, in_parallel};
use crate::tree::{Tree, Version};
use crate::{Memtable, Op, TreeId};

fn known(pieces: &[(&str, &str, Seq)]) -> TombstoneRanges {
    let ranges = TombstoneRanges::default();
    for (start, end, as_of) in pieces {
        let bounds = (start.as_bytes(), end.as_bytes());
        let id = ranges.publish(bounds, *as_of, 0).expect("something new");
        ranges.confirm(id, 0);
    }
    ranges
}

fn passage(ranges: &TombstoneRanges, key: &str, upto: Seq) -> Option<(String, String, Seq)> {
    let found = ranges.passage(key.as_bytes(), upto)?;
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    Some((text(&found.start), text(&found.end), found.as_of))
}

fn is_passed(ranges: &TombstoneRanges, key: &str) -> bool {
    passage(ranges, key, 100).is_some()
}

#[test]
fn a_passage_has_all_that_follows_without_a_gap_and_that_the_reader_may_see() {
    let ranges = known(&[("a", "c", 10), ("c", "e", 20), ("f", "g", 5)]);
    let both = Some(("a".into(), "e".into(), 20));
    assert_eq!(passage(&ranges, "b", 20), both);
    assert_eq!(passage(&ranges, "d", 20), both);
    let first = Some(("a".into(), "c".into(), 10));
    assert_eq!(passage(&ranges, "b", 19), first);
    assert_eq!(passage(&ranges, "d", 19), None);
    assert_eq!(passage(&ranges, "b", 9), None);
    assert_eq!(passage(&ranges, "e", 20), None, "the end is exclusive");
}

#[test]
fn what_is_pending_is_not_used_and_loses_what_is_put_before_it_is_confirmed() {
    let ranges = TombstoneRanges::default();
    let id = ranges.publish((b"a", b"g"), 10, 0).unwrap();
    assert!(!is_passed(&ranges, "b"));
    assert!(ranges.fence_puts());
    ranges.take_out(b"c");
    ranges.confirm(id, 0);
    let passed: Vec<_> = ["a", "b", "c", "c\0", "f"]
        .iter()
        .filter(|key| is_passed(&ranges, key))
        .collect();
    assert_eq!(passed, [&"a", &"b", &"c\0", &"f"]);
}

#[test]
fn a_new_generation_and_rows_without_a_memtable_leave_nothing_pending() {
    let ranges = known(&[("a", "b", 10)]);
    let id = ranges.publish((b"c", b"d"), 10, 0).unwrap();
    ranges.begin_generation();
    ranges.confirm(id, 0);
    assert!(is_passed(&ranges, "a"), "what was confirmed stays");
    assert!(!is_passed(&ranges, "c"));
    assert!(ranges.publish((b"e", b"f"), 10, 0).is_none());
    ranges.clear();
    assert!(ranges.is_empty() && !is_passed(&ranges, "a"));
}

#[test]
fn what_is_known_is_not_published_again() {
    let ranges = known(&[("c", "e", 10)]);
    assert!(ranges.publish((b"c", b"d"), 20, 0).is_none());
    let id = ranges.publish((b"a", b"z"), 20, 0).unwrap();
    ranges.confirm(id, 0);
    assert_eq!(
        passage(&ranges, "d", 100),
        Some(("a".into(), "e".into(), 20))
    );
    assert!(!is_passed(&ranges, "f"), "one range a time");
}

#[test]
fn neighbours_are_merged_when_there_are_too_many() {
    let ranges = TombstoneRanges::default();
    for n in 0..1000u64 {
        let (start, end) = (n.to_be_bytes(), (n + 1).to_be_bytes());
        let id = ranges.publish((&start, &end), n, 0).unwrap();
        ranges.confirm(id, 0);
    }
    let found = ranges.passage(&5u64.to_be_bytes(), 999).unwrap();
    assert_eq!(*found.start, 0u64.to_be_bytes());
    assert_eq!(*found.end, 1000u64.to_be_bytes());
    assert_eq!(found.as_of, 999);
    // Puts everywhere do not make more of them.
    for n in 0..1000u64 {
        ranges.take_out(&n.to_be_bytes());
    }
    assert!((0..1000u64).all(|n| ranges.passage(&n.to_be_bytes(), 999).is_none()));
}

#[test]
fn long_bounds_are_not_kept() {
    let ranges = TombstoneRanges::default();
    let long = vec![b'x'; MAX_BOUND_BYTES + 1];
    assert!(ranges.publish((b"a", &long), 1, 0).is_none());
}

/// Keys and sequences of a memtable.
fn entries_of(table: &Memtable) -> Vec<(Vec<u8>, Seq)> {
    let entries = table.entries_in_order();
    entries
        .map(|(key, entry)| (key.to_vec(), entry.seq))
        .collect()
}

/// A walk learns that a range has no rows while a commit puts one there and a flush takes the memtable away.
#[test]
fn a_commit_beside_a_walk_is_never_passed() {
    explore(|| {
        let budget = MemoryBudget::new(1 << 30);
        let tree = Tree::new(TreeId(1), 0, Arc::default(), &budget);
        for key in [b"a", b"b", b"c"] {
            let tiers = tree.superversion();
            let _pin = tiers.active.pin(1, 10).expect("not sealed");
            tiers.active.insert(key, 10, Op::Delete, &[]);
        }
        let committer = {
            let tree = tree.clone();
            move || {
                loop {
                    let tiers = tree.superversion();
                    let Some(_pin) = tiers.active.pin(11, 20) else {
                        continue;
                    };
                    tiers.active.insert(b"b", 20, Op::Put, b"");
                    if tree.tombstone_ranges().fence_puts() {
                        tree.tombstone_ranges().take_out(b"b");
                    }
                    break;
                }
                // The watermark moves here: snapshots see the row.
                assert!(tree.tombstone_ranges().passage(b"b", 20).is_none());
            }
        };
        let walk = {
            let tree = tree.clone();
            move || {
                let generation = tree.tombstone_ranges().generation();
                let tiers = tree.superversion();
                let tables = std::iter::once(&tiers.active).chain(&tiers.immutables);
                let entries: Vec<_> = tables.flat_map(|table| entries_of(table)).collect();
                // With the tombstones on disk the walk finds there, too, what else was in the memtable.
                let is_flushed = !entries.iter().any(|(key, seq)| key == b"a" && *seq == 10);
                let sees_too_new = entries.iter().any(|(_, seq)| *seq == 20);
                if !is_flushed && !sees_too_new {
                    tree.learn_tombstones((b"a", b"d"), 10, 10, generation);
                }
            }
        };
        let flush = {
            let tree = tree.clone();
            move || {
                tree.rotate(10);
                for _ in 0..3 {
                    if tree.oldest_quiescent().is_some() {
                        tree.publish(Arc::new(Version::default()), true);
                        break;
                    }
                    thread::yield_now();
                }
            }
        };
        in_parallel(vec![Box::new(committer), Box::new(walk), Box::new(flush)]);
        assert!(tree.tombstone_ranges().passage(b"b", 20).is_none());
    });
}
