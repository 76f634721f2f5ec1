//! Walks that pass tombstones, against plain maps; and that they do pass them.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::Engine;
use crate::engine::tests::memory_engine as engine;

const KEYS: u8 = 40;

type Map = BTreeMap<u8, u8>;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8, u8),
    Begin,
    /// All memtables, or only rotates.
    Flush(bool),
    /// Of which transaction, from, to, forward, the newest versions.
    Scan(usize, u8, u8, bool, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..KEYS;
    let step = prop_oneof![
        4 => (key(), any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        4 => (key(), 1..KEYS).prop_map(|(k, n)| Step::Delete(k, n)),
        1 => Just(Step::Begin),
        1 => any::<bool>().prop_map(Step::Flush),
        8 => (0..4usize, key(), key(), any::<bool>(), any::<bool>())
            .prop_map(|(t, a, b, f, l)| Step::Scan(t, a, b, f, l)),
    ];
    prop::collection::vec(step, 1..120)
}

fn commit(engine: &Engine, tree: &Tree, writes: impl Iterator<Item = (u8, Option<u8>)>) {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for (key, value) in writes {
        match value {
            Some(value) => txn.put(tree, &[key], &[value]).unwrap(),
            None => txn.delete(tree, &[key]).unwrap(),
        }
    }
    let _ = txn.commit().unwrap();
}

fn scan(
    txn: &Txn,
    tree: &Tree,
    (low, high): (u8, u8),
    direction: Direction,
    view: View,
) -> Vec<(u8, u8)> {
    let (low, high) = ([low], [high]);
    let bounds = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
    let mut cursor = txn.scan(tree, bounds.0, bounds.1, direction, view).unwrap();
    let mut rows = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((key[0], value[0]));
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Readers with old and new snapshots, and with none, beside others that put and delete.
    #[test]
    fn what_is_passed_has_no_rows(steps in steps()) {
        let engine = engine();
        let tree = engine.create_tree().unwrap();
        let mut newest = Map::new();
        let mut readers: Vec<(Txn, Map)> = Vec::new();
        for step in steps {
            match step {
                Step::Put(k, v) => {
                    commit(&engine, &tree, std::iter::once((k, Some(v))));
                    newest.insert(k, v);
                }
                Step::Delete(k, n) => {
                    let keys = k..k.saturating_add(n).min(KEYS);
                    commit(&engine, &tree, keys.clone().map(|k| (k, None)));
                    newest.retain(|k, _| !keys.contains(k));
                }
                Step::Begin => {
                    let reader = engine.begin(Isolation::RepeatableRead);
                    reader.snapshot();
                    readers.push((reader, newest.clone()));
                }
                Step::Flush(true) => engine.flush_all().unwrap(),
                Step::Flush(false) => {
                    tree.rotate(engine.visible_seq());
                }
                Step::Scan(which, a, b, forward, latest) => {
                    let fresh = engine.begin(Isolation::RepeatableRead);
                    let (reader, seen) = match readers.get(which) {
                        Some((reader, _)) if latest => (reader, &newest),
                        Some((reader, seen)) => (reader, seen),
                        None => (&fresh, &newest),
                    };
                    let (direction, view) = match (forward, latest) {
                        (true, true) => (Direction::Forward, View::Latest),
                        (true, false) => (Direction::Forward, View::Snapshot),
                        (false, true) => (Direction::Backward, View::Latest),
                        (false, false) => (Direction::Backward, View::Snapshot),
                    };
                    let (low, high) = (a.min(b), a.max(b));
                    let found = scan(reader, &tree, (low, high), direction, view);
                    let mut expected: Vec<_> = seen.range(low..high).map(|(k, v)| (*k, *v)).collect();
                    if !forward {
                        expected.reverse();
                    }
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}

/// A range begins at a key that is a row for others only: what the walk learns behind it must not reach there.
#[test]
fn a_bound_that_is_a_row_for_others_stays_one() {
    for bound in [3, 4] {
        let engine = engine();
        let tree = engine.create_tree().unwrap();
        commit(&engine, &tree, (4..10).map(|k| (k, None)));
        let old = engine.begin(Isolation::RepeatableRead);
        old.snapshot();
        commit(&engine, &tree, std::iter::once((bound, Some(1))));
        engine.flush_all().unwrap();
        let everything =
            |txn, low| scan(txn, &tree, (low, KEYS), Direction::Forward, View::Snapshot);
        assert_eq!(everything(&old, bound), []);
        let new = engine.begin(Isolation::RepeatableRead);
        assert_eq!(everything(&new, bound), [(bound, 1)]);
        assert_eq!(everything(&new, 0), [(bound, 1)]);
    }
}

#[test]
fn a_deleted_head_is_stepped_over_once() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    commit(&engine, &tree, (0..200).map(|k| (k, Some(k))));
    let skipped = || tree.superversion().in_memory().steps;
    let first = |direction| {
        let txn = engine.begin(Isolation::RepeatableRead);
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let cursor = txn.scan(&tree, everything.0, everything.1, direction, View::Snapshot);
        let row = cursor
            .unwrap()
            .next()
            .unwrap()
            .map(|(key, value)| (key[0], value[0]));
        assert!(txn.dependency() > 0, "what was passed counts as read");
        row
    };
    for end in [100, 150] {
        commit(&engine, &tree, (0..end).map(|k| (k, None)));
        assert_eq!(first(Direction::Forward), Some((end, end)));
        let once = skipped();
        assert_eq!(first(Direction::Forward), Some((end, end)));
        assert_eq!(skipped(), once, "the second walk passes all of it");
    }
    assert_eq!(skipped(), 150);
    commit(&engine, &tree, (180..200).map(|k| (k, None)));
    assert_eq!(first(Direction::Backward), Some((179, 179)));
    let once = skipped();
    assert_eq!(first(Direction::Backward), Some((179, 179)));
    assert_eq!(
        skipped(),
        once + 1,
        "what lies behind it is known, the first is met"
    );
    // A row that comes back is found.
    commit(&engine, &tree, std::iter::once((7, Some(70))));
    assert_eq!(first(Direction::Forward), Some((7, 70)));
    assert_eq!(
        scan(
            &engine.begin(Isolation::RepeatableRead),
            &tree,
            (8, 151),
            Direction::Forward,
            View::Snapshot
        ),
        [(150, 150)]
    );
}
