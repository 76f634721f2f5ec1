//! Visibility, the write set over committed rows, savepoints, dependencies.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::Engine;
use crate::engine::tests::memory_engine as engine;

fn write(engine: &Engine, tree: &Tree, key: &[u8], value: Option<&[u8]>) -> Seq {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    match value {
        Some(value) => txn.put(tree, key, value).unwrap(),
        None => txn.delete(tree, key).unwrap(),
    }
    txn.commit().unwrap().seq.expect("something was written")
}

fn read(txn: &Txn, tree: &Tree, key: &[u8]) -> Option<Vec<u8>> {
    txn.get(tree, key, View::Snapshot).unwrap()
}

fn rows(mut cursor: Cursor) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((key.to_vec(), value.to_vec()));
    }
    rows
}

fn scan_all(txn: &Txn, tree: &Tree, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    rows(
        txn.scan(
            tree,
            Bound::Unbounded,
            Bound::Unbounded,
            direction,
            View::Snapshot,
        )
        .unwrap(),
    )
}

#[test]
fn repeatable_read_keeps_its_snapshot_and_read_committed_does_not() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    write(&engine, &tree, b"k", Some(b"1"));
    let mut repeatable = engine.begin(Isolation::RepeatableRead);
    let mut committed = engine.begin(Isolation::ReadCommitted);
    // The snapshot is taken at the first read, not at the beginning.
    write(&engine, &tree, b"k", Some(b"2"));
    for txn in [&repeatable, &committed] {
        assert_eq!(read(txn, &tree, b"k").unwrap(), b"2");
    }
    write(&engine, &tree, b"k", Some(b"3"));
    write(&engine, &tree, b"new", Some(b"x"));
    // Within a statement both stay where they are.
    assert_eq!(read(&committed, &tree, b"k").unwrap(), b"2");
    repeatable.new_statement();
    committed.new_statement();
    assert_eq!(read(&repeatable, &tree, b"k").unwrap(), b"2");
    assert_eq!(scan_all(&repeatable, &tree, Direction::Forward).len(), 1);
    assert_eq!(read(&committed, &tree, b"k").unwrap(), b"3");
    assert_eq!(scan_all(&committed, &tree, Direction::Forward).len(), 2);
    // The newest version is there for whoever asks for it.
    assert_eq!(
        repeatable.get(&tree, b"k", View::Latest).unwrap().unwrap(),
        b"3"
    );
    repeatable.rollback();
    assert_eq!(read(&repeatable, &tree, b"k").unwrap(), b"3");
}

#[test]
fn what_others_have_changed_since_the_snapshot_is_told_apart() {
    for flushed in [false, true] {
        let engine = engine();
        let tree = engine.create_tree().unwrap();
        write(&engine, &tree, b"changed", Some(b"1"));
        write(&engine, &tree, b"old", Some(b"1"));
        let mut repeatable = engine.begin(Isolation::RepeatableRead);
        let committed = engine.begin(Isolation::ReadCommitted);
        let is_newer = |txn: &Txn, key: &[u8]| {
            txn.get(&tree, key, View::Latest).unwrap();
            txn.is_newer_than_snapshot(&tree, key).unwrap()
        };
        assert!(!is_newer(&repeatable, b"old"), "it has no snapshot yet");
        for txn in [&repeatable, &committed] {
            assert_eq!(read(txn, &tree, b"changed").unwrap(), b"1");
        }
        write(&engine, &tree, b"changed", Some(b"2"));
        write(&engine, &tree, b"new", Some(b"2"));
        write(&engine, &tree, b"own", Some(b"2"));
        if flushed {
            engine.flush_all().unwrap();
        }
        for key in [&b"changed"[..], b"new", b"own"] {
            assert!(is_newer(&repeatable, key), "{key:?}");
            assert!(!is_newer(&committed, key), "{key:?}");
        }
        assert!(!is_newer(&repeatable, b"old"));
        assert!(!is_newer(&repeatable, b"nowhere"));
        repeatable.put(&tree, b"own", b"3").unwrap();
        assert!(!is_newer(&repeatable, b"own"));
    }
}

#[test]
fn uncommitted_writes_are_seen_by_nobody_else() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let mut writer = engine.begin(Isolation::ReadCommitted);
    writer.put(&tree, b"a", b"1").unwrap();
    let reader = engine.begin(Isolation::ReadCommitted);
    assert_eq!(reader.get(&tree, b"a", View::Latest).unwrap(), None);
    assert_eq!(read(&writer, &tree, b"a").unwrap(), b"1");
    writer.rollback();
    assert_eq!(read(&writer, &tree, b"a"), None);
    assert_eq!(writer.commit().unwrap(), Commit { seq: None });
}

#[test]
fn deletes_hide_and_own_deletes_hide_too() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    for key in [b"a", b"b", b"c"] {
        write(&engine, &tree, key, Some(b"v"));
    }
    let before = engine.begin(Isolation::RepeatableRead);
    assert_eq!(scan_all(&before, &tree, Direction::Forward).len(), 3);
    write(&engine, &tree, b"b", None);
    let mut txn = engine.begin(Isolation::RepeatableRead);
    assert_eq!(read(&txn, &tree, b"b"), None);
    txn.delete(&tree, b"c").unwrap();
    txn.put(&tree, b"bb", b"mine").unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut seen = scan_all(&txn, &tree, direction);
        seen.sort();
        assert_eq!(
            seen,
            vec![
                (b"a".to_vec(), b"v".to_vec()),
                (b"bb".to_vec(), b"mine".to_vec())
            ]
        );
        assert_eq!(scan_all(&before, &tree, direction).len(), 3);
    }
}

#[test]
fn cursor_does_not_see_later_writes_of_its_own_transaction() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    write(&engine, &tree, b"1", Some(b"old"));
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(&tree, b"2", b"old").unwrap();
    let range = (Bound::Unbounded, Bound::Unbounded);
    let mut cursor = txn
        .scan(&tree, range.0, range.1, Direction::Forward, View::Snapshot)
        .unwrap();
    let mut updated = 0;
    while let Some((key, value)) = cursor.next().unwrap() {
        assert_eq!(value, b"old");
        let mut moved = key.to_vec();
        moved.push(b'x');
        txn.put(&tree, &moved, b"new").unwrap();
        txn.put(&tree, b"2", b"new").unwrap();
        updated += 1;
    }
    assert_eq!(updated, 2);
    assert_eq!(scan_all(&txn, &tree, Direction::Forward).len(), 4);
    // A cursor goes on although its transaction ended.
    let cursor = txn
        .scan(&tree, range.0, range.1, Direction::Forward, View::Snapshot)
        .unwrap();
    txn.rollback();
    assert_eq!(rows(cursor).len(), 4);
    assert_eq!(scan_all(&txn, &tree, Direction::Forward).len(), 1);
}

#[test]
fn savepoints_nest_and_locks_stay() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(&tree, b"k", b"1").unwrap();
    let first = txn.savepoint();
    txn.put(&tree, b"k", b"2").unwrap();
    let second = txn.savepoint();
    let lock = txn.lock(tree.id(), b"k", LockMode::Exclusive, WaitPolicy::NoWait);
    assert!(matches!(lock, Ok(LockOutcome::Granted { new: true })));
    txn.delete(&tree, b"k").unwrap();
    txn.put(&tree, b"other", b"x").unwrap();
    assert_eq!(read(&txn, &tree, b"k"), None);
    txn.rollback_to(second);
    assert_eq!(read(&txn, &tree, b"k").unwrap(), b"2");
    assert_eq!(read(&txn, &tree, b"other"), None);
    assert_eq!(txn.lock_count(), 1);
    txn.put(&tree, b"k", b"3").unwrap();
    txn.rollback_to(second);
    txn.rollback_to(second);
    assert_eq!(read(&txn, &tree, b"k").unwrap(), b"2");
    txn.rollback_to(first);
    assert_eq!(read(&txn, &tree, b"k").unwrap(), b"1");
    txn.put(&tree, b"last", b"y").unwrap();
    assert!(txn.commit().unwrap().seq.is_some());
    let seen = scan_all(&txn, &tree, Direction::Forward);
    assert_eq!(
        seen,
        vec![
            (b"k".to_vec(), b"1".to_vec()),
            (b"last".to_vec(), b"y".to_vec())
        ]
    );
    assert_eq!(txn.lock_count(), 0);
}

#[test]
fn transaction_with_only_dead_writes_commits_nothing() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let start = txn.savepoint();
    txn.put(&tree, b"k", b"1").unwrap();
    txn.rollback_to(start);
    assert_eq!(txn.commit().unwrap(), Commit { seq: None });
    // A counter outlives the rollback to the savepoint: the number was given.
    txn.put(&tree, b"k", b"1").unwrap();
    txn.bump_counter(tree.id(), 9);
    txn.rollback_to(start);
    assert!(txn.commit().unwrap().seq.is_some());
    assert_eq!(engine.counter(tree.id()), 9);
    assert_eq!(read(&txn, &tree, b"k"), None);
}

#[test]
fn too_large_a_transaction_is_refused_and_can_go_on() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let limit = txn.env.limits.bytes;
    let value = vec![7u8; 1 << 20];
    let mut puts = 0u64;
    let error = loop {
        match txn.put(&tree, &puts.to_be_bytes(), &value) {
            Ok(()) => puts += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, EngineError::TxnTooLarge { limit_bytes } if limit_bytes == limit));
    assert_eq!(puts, limit / ((1 << 20) + 8 + 64));
    txn.rollback();
    txn.put(&tree, b"small", b"1").unwrap();
    assert!(txn.commit().unwrap().seq.is_some());
    let too_long = vec![0u8; crate::MAX_KEY_BYTES + 1];
    assert!(matches!(
        txn.put(&tree, &too_long, b""),
        Err(EngineError::KeyTooLong { .. })
    ));
}

#[test]
fn dependency_is_the_newest_version_met_and_tombstones_count() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let first = write(&engine, &tree, b"a", Some(b"1"));
    let second = write(&engine, &tree, b"b", Some(b"1"));
    let third = write(&engine, &tree, b"c", None);
    let txn = engine.begin(Isolation::ReadCommitted);
    assert_eq!(txn.dependency(), 0);
    read(&txn, &tree, b"a");
    assert_eq!(txn.dependency(), first);
    assert_eq!(txn.dependency(), 0);
    read(&txn, &tree, b"nothing");
    assert_eq!(txn.dependency(), 0);
    read(&txn, &tree, b"c");
    assert_eq!(txn.dependency(), third);
    let upto = Bound::Excluded(&b"c"[..]);
    rows(
        txn.scan(
            &tree,
            Bound::Unbounded,
            upto,
            Direction::Forward,
            View::Snapshot,
        )
        .unwrap(),
    );
    assert_eq!(txn.dependency(), second);
    scan_all(&txn, &tree, Direction::Backward);
    assert_eq!(txn.dependency(), third);
}

#[test]
fn commit_is_seen_by_the_next_snapshot_of_its_session() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for i in 0..100u64 {
        txn.put(&tree, b"k", &i.to_be_bytes()).unwrap();
        let seq = txn.commit().unwrap().seq.unwrap();
        assert!(txn.snapshot() >= seq);
        assert_eq!(read(&txn, &tree, b"k").unwrap(), i.to_be_bytes());
        txn.rollback();
    }
}

#[test]
fn many_versions_of_a_key_are_skipped_in_both_directions() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    write(&engine, &tree, b"a", Some(b"first"));
    write(&engine, &tree, b"m", Some(b"0"));
    let old = engine.begin(Isolation::RepeatableRead);
    old.snapshot();
    for i in 1..100u64 {
        write(&engine, &tree, b"m", Some(&i.to_be_bytes()));
    }
    write(&engine, &tree, b"z", Some(b"last"));
    let new = engine.begin(Isolation::RepeatableRead);
    for direction in [Direction::Forward, Direction::Backward] {
        let mut seen = scan_all(&old, &tree, direction);
        seen.sort();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1], (b"m".to_vec(), b"0".to_vec()));
        let mut seen = scan_all(&new, &tree, direction);
        seen.sort();
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[1].1, 99u64.to_be_bytes());
    }
}

#[test]
fn two_sessions_race_for_a_row_and_the_second_continues_on_the_first() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    write(&engine, &tree, b"n", Some(&0u64.to_be_bytes()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut txn = engine.begin(Isolation::RepeatableRead);
                for _ in 0..500 {
                    loop {
                        let outcome =
                            txn.lock(tree.id(), b"n", LockMode::Exclusive, WaitPolicy::Wait);
                        match outcome.unwrap() {
                            LockOutcome::Granted { .. } => break,
                            LockOutcome::Wait(ticket) => {
                                ticket.block(std::time::Duration::from_secs(60)).unwrap();
                            }
                            LockOutcome::Skipped => panic!("not asked for"),
                        }
                    }
                    let read = txn.get(&tree, b"n", View::Latest).unwrap().unwrap();
                    let n = u64::from_be_bytes(read.try_into().unwrap());
                    txn.put(&tree, b"n", &(n + 1).to_be_bytes()).unwrap();
                    assert!(txn.commit().unwrap().seq.is_some());
                }
            });
        }
    });
    let txn = engine.begin(Isolation::ReadCommitted);
    assert_eq!(read(&txn, &tree, b"n").unwrap(), 2000u64.to_be_bytes());
}

/// A step of the model test.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Savepoint,
    RollbackTo(usize),
    Commit,
    Rollback,
    Other(u8, Option<u8>),
    Scan(u8, u8, bool, bool, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..12u8;
    let step = prop_oneof![
        6 => (key(), any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        3 => key().prop_map(Step::Delete),
        2 => Just(Step::Savepoint),
        2 => (0..4usize).prop_map(Step::RollbackTo),
        1 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        3 => (key(), prop::option::of(any::<u8>())).prop_map(|(k, v)| Step::Other(k, v)),
        4 => (key(), key(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(a, b, c, d, e)| Step::Scan(a, b, c, d, e)),
    ];
    prop::collection::vec(step, 1..80)
}

type Map = BTreeMap<u8, u8>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// One repeatable-read transaction beside others that commit, against plain maps.
    #[test]
    fn overlay_of_write_set_and_snapshot_is_like_a_map(steps in steps()) {
        let engine = engine();
        let tree = engine.create_tree().unwrap();
        let mut txn = engine.begin(Isolation::RepeatableRead);
        let mut committed = Map::new();
        // What the transaction sees, and the writes it has made.
        let mut seen: Option<Map> = None;
        let mut writes: BTreeMap<u8, Option<u8>> = BTreeMap::new();
        let mut savepoints: Vec<(SavepointId, Map, BTreeMap<u8, Option<u8>>)> = Vec::new();
        for step in steps {
            match step {
                Step::Put(k, v) => {
                    txn.put(&tree, &[k], &[v]).unwrap();
                    txn.snapshot();
                    seen.get_or_insert_with(|| committed.clone()).insert(k, v);
                    writes.insert(k, Some(v));
                }
                Step::Delete(k) => {
                    txn.delete(&tree, &[k]).unwrap();
                    txn.snapshot();
                    seen.get_or_insert_with(|| committed.clone()).remove(&k);
                    writes.insert(k, None);
                }
                Step::Savepoint => {
                    txn.snapshot();
                    let map = seen.get_or_insert_with(|| committed.clone()).clone();
                    savepoints.push((txn.savepoint(), map, writes.clone()));
                }
                Step::RollbackTo(at) if at < savepoints.len() => {
                    savepoints.truncate(at + 1);
                    let (id, map, earlier) = savepoints[at].clone();
                    txn.rollback_to(id);
                    seen = Some(map);
                    writes = earlier;
                }
                Step::RollbackTo(_) => {}
                Step::Commit => {
                    let commit = txn.commit().unwrap();
                    prop_assert_eq!(commit.seq.is_some(), !writes.is_empty());
                    for (k, v) in std::mem::take(&mut writes) {
                        match v {
                            Some(v) => committed.insert(k, v),
                            None => committed.remove(&k),
                        };
                    }
                    seen = None;
                    savepoints.clear();
                }
                Step::Rollback => {
                    txn.rollback();
                    seen = None;
                    writes.clear();
                    savepoints.clear();
                }
                Step::Other(k, v) => {
                    write(&engine, &tree, &[k], v.as_ref().map(std::slice::from_ref));
                    match v {
                        Some(v) => committed.insert(k, v),
                        None => committed.remove(&k),
                    };
                }
                Step::Scan(a, b, lower_in, upper_in, forward) => {
                    txn.snapshot();
                    let map = seen.get_or_insert_with(|| committed.clone());
                    let (low, high) = ([a.min(b)], [a.max(b)]);
                    let lower: Bound<&[u8]> = if lower_in { Bound::Included(&low) } else { Bound::Excluded(&low) };
                    let upper: Bound<&[u8]> = if upper_in { Bound::Included(&high) } else { Bound::Excluded(&high) };
                    let direction = if forward { Direction::Forward } else { Direction::Backward };
                    let found = rows(txn.scan(&tree, lower, upper, direction, View::Snapshot).unwrap());
                    let mut expected: Vec<_> = map.iter()
                        .filter(|(k, _)| {
                            (**k > low[0] || (lower_in && **k == low[0])) && (**k < high[0] || (upper_in && **k == high[0]))
                        })
                        .map(|(k, v)| (vec![*k], vec![*v]))
                        .collect();
                    if !forward { expected.reverse(); }
                    prop_assert_eq!(found, expected);
                    for k in 0..12u8 {
                        prop_assert_eq!(read(&txn, &tree, &[k]), map.get(&k).map(|v| vec![*v]));
                    }
                }
            }
        }
    }
}
