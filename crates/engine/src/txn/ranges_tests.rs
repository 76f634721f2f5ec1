//! Gaps, covers (those that were row locks among them) and uncommitted rows between transactions; and over a restart,
//! when one is prepared.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::Engine;
use crate::EngineConfig;
use crate::Mode;
use crate::PreparedId;
use crate::engine::tests::memory_engine as engine;
use crate::scan::KeySpan;

const LONG: Duration = Duration::from_secs(60);

fn span(lower: &[u8], upper: &[u8]) -> KeySpan {
    KeySpan {
        lower: lower.to_vec(),
        upper: Some(upper.to_vec()),
    }
}

fn keys(txn: &Txn, tree: &Tree, span: &KeySpan, direction: Direction) -> Vec<Vec<u8>> {
    let found = txn.uncommitted(tree.id(), span, direction).unwrap();
    found.entries.into_keys().collect()
}

/// Whether an insert of the key has to wait.
fn waits(txn: &Txn, tree: &Tree, key: &[u8]) -> bool {
    txn.gap_before([(tree.id(), key)].into_iter()).is_some()
}

#[test]
fn what_others_have_not_committed_is_found_until_they_end() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let reader = engine.begin(Isolation::RepeatableRead);
    let mut writer = engine.begin(Isolation::RepeatableRead);
    let everything = KeySpan::all();
    for key in [b"b", b"c", b"d"] {
        writer.put(&tree, key, b"1").unwrap();
    }
    writer.put(&tree, b"c", b"2").unwrap();
    writer.delete(&tree, b"e").unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let found = reader
            .uncommitted(tree.id(), &everything, direction)
            .unwrap();
        let entries: Vec<_> = found
            .entries
            .iter()
            .map(|(k, v)| (k[0], v.clone()))
            .collect();
        let expected = [
            (b'b', b"1".to_vec()),
            (b'c', b"2".to_vec()),
            (b'd', b"1".to_vec()),
        ];
        assert_eq!(entries, expected);
        assert_eq!(
            keys(&reader, &tree, &span(b"c", b"d"), direction),
            [b"c".to_vec()]
        );
    }
    // What was undone does not count.
    let place = writer.savepoint();
    writer.put(&tree, b"z", b"1").unwrap();
    writer.rollback_to(place);
    let found = keys(&reader, &tree, &span(b"x", b"zz"), Direction::Forward);
    assert!(found.is_empty());
    // Its own are no others'.
    assert!(keys(&writer, &tree, &everything, Direction::Forward).is_empty());
    let _ = writer.commit().unwrap();
    assert!(keys(&reader, &tree, &everything, Direction::Forward).is_empty());
    writer.put(&tree, b"x", b"1").unwrap();
    assert_eq!(
        keys(&reader, &tree, &everything, Direction::Forward),
        [b"x"]
    );
    writer.rollback();
    assert!(keys(&reader, &tree, &everything, Direction::Forward).is_empty());
}

#[test]
fn a_key_is_being_written_until_its_writer_ends() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let reader = engine.begin(Isolation::RepeatableRead);
    let mut writer = engine.begin(Isolation::RepeatableRead);
    let is_written = |txn: &Txn, key: &[u8]| txn.is_written_by_others(tree.id(), key).unwrap();
    writer.put(&tree, b"b", b"1").unwrap();
    writer.delete(&tree, b"d").unwrap();
    assert!(is_written(&reader, b"b") && is_written(&reader, b"d"));
    assert!(!is_written(&reader, b"c") && !is_written(&reader, b"bb"));
    assert!(!is_written(&writer, b"b"));
    // What was undone does not count, what was written before it does.
    let place = writer.savepoint();
    writer.delete(&tree, b"b").unwrap();
    writer.put(&tree, b"c", b"1").unwrap();
    writer.rollback_to(place);
    assert!(is_written(&reader, b"b") && !is_written(&reader, b"c"));
    let _ = writer.commit().unwrap();
    assert!(!is_written(&reader, b"b") && !is_written(&reader, b"d"));
}

#[test]
fn many_uncommitted_rows_come_in_parts() {
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let reader = engine.begin(Isolation::RepeatableRead);
    let mut writers = [
        engine.begin(Isolation::RepeatableRead),
        engine.begin(Isolation::RepeatableRead),
    ];
    for n in 0..1000u32 {
        writers[n as usize % 2]
            .put(&tree, &n.to_be_bytes(), b"")
            .unwrap();
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let mut rest = KeySpan::all();
        let mut met = Vec::new();
        loop {
            let found = reader.uncommitted(tree.id(), &rest, direction).unwrap();
            let part = found.entries.into_keys();
            met.extend(match direction {
                Direction::Forward => part.collect::<Vec<_>>(),
                Direction::Backward => part.rev().collect(),
            });
            match (found.upto, direction) {
                (None, _) => break,
                (Some(key), Direction::Forward) => rest.lower = key,
                (Some(key), Direction::Backward) => {
                    rest.upper = Some(crate::span::following(&key));
                }
            }
        }
        let mut all: Vec<_> = (0..1000u32).map(|n| n.to_be_bytes().to_vec()).collect();
        if direction == Direction::Backward {
            all.reverse();
        }
        assert_eq!(met, all);
    }
}

#[test]
fn what_has_moved_to_disk_is_found_too() {
    let machine = esker_vfs::sim::SimEnv::new(1);
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    config.txn_memory_bytes = 64 << 10;
    let engine = Engine::open(machine.env(), config).unwrap();
    let tree = engine.create_tree().unwrap();
    let mut writer = engine.begin(Isolation::RepeatableRead);
    for n in 0..400u32 {
        writer.put(&tree, &n.to_be_bytes(), &[7; 1000]).unwrap();
    }
    assert!(writer.has_spilled());
    let reader = engine.begin(Isolation::RepeatableRead);
    for n in [0u32, 150, 399] {
        let key = n.to_be_bytes();
        let found = keys(&reader, &tree, &KeySpan::of_key(&key), Direction::Forward);
        assert_eq!(found, [key.to_vec()]);
    }
}

/// Tells the others to stop, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Inserts and deletes a row, over and over, and gives way to gaps.
fn insert_and_delete(engine: &Engine, tree: &Tree, key: &[u8], stop: &AtomicBool) {
    let mut txn = engine.begin(Isolation::RepeatableRead);
    while !stop.load(Ordering::Relaxed) {
        let place = txn.savepoint();
        txn.put(tree, key, b"").unwrap();
        if waits(&txn, tree, key) {
            txn.rollback_to(place);
            if let Some(ticket) = txn.wait_for_gap(tree.id(), key).unwrap() {
                ticket.block(LONG).unwrap();
            }
            continue;
        }
        let _ = txn.commit().unwrap();
        txn.delete(tree, key).unwrap();
        let _ = txn.commit().unwrap();
    }
}

/// Whoever locks a gap and finds neither rows nor uncommitted rows finds none until its end, whatever writers do
/// meanwhile.
#[test]
fn nobody_inserts_into_what_was_seen_empty() {
    const ROUNDS: usize = 300;
    let engine = engine();
    let tree = engine.create_tree().unwrap();
    let stop = AtomicBool::new(false);
    let all = KeySpan::all();
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for n in 0..3u8 {
            let (engine, tree, stop) = (&engine, &tree, &stop);
            scope.spawn(move || insert_and_delete(engine, tree, &[n], stop));
        }
        let mut reader = engine.begin(Isolation::RepeatableRead);
        for _ in 0..ROUNDS {
            reader.lock_gap(tree.id(), all.clone()).unwrap();
            let mut was_empty = false;
            for _ in 0..20 {
                let is_coming = !keys(&reader, &tree, &all, Direction::Forward).is_empty();
                let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
                let cursor = reader.scan(&tree, lower, upper, Direction::Forward, View::Latest);
                let is_there = cursor.unwrap().next().unwrap().is_some();
                assert!(!(was_empty && is_there), "a row came into the gap");
                was_empty |= !is_coming && !is_there;
                thread::yield_now();
            }
            reader.rollback();
        }
    });
}

fn open_on(machine: &esker_vfs::sim::SimEnv) -> Engine {
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    Engine::open(machine.env(), config).unwrap()
}

#[test]
fn a_prepared_transaction_keeps_its_ranges_over_a_restart() {
    let machine = esker_vfs::sim::SimEnv::new(1);
    let open = || open_on(&machine);
    let engine = open();
    let tree = engine.create_tree().unwrap();
    let id = tree.id();
    let mut txn = engine.begin(Isolation::RepeatableRead);
    txn.lock_gap(id, span(b"b", b"d")).unwrap();
    let covered = txn.cover(
        id,
        span(b"m", b"n\0"),
        b"n",
        LockMode::Exclusive,
        WaitPolicy::Wait,
    );
    assert!(matches!(covered, Ok(LockOutcome::Granted { .. })));
    txn.put(&tree, b"new", b"1").unwrap();
    let prepared = txn.prepare(&PreparedId::xa(b"xid")).unwrap();
    engine.wait_durable(prepared).block().unwrap();
    drop((txn, tree));
    let is_kept = |engine: &Engine| {
        let tree = engine.tree(id).unwrap();
        let mut other = engine.begin(Isolation::RepeatableRead);
        assert!(waits(&other, &tree, b"c") && !waits(&other, &tree, b"d"));
        let row = other.lock(id, b"m", LockMode::Shared, WaitPolicy::NoWait);
        assert!(matches!(row, Err(EngineError::LockNotAvailable)));
        let all = KeySpan::all();
        assert_eq!(keys(&other, &tree, &all, Direction::Forward), [b"new"]);
        other.rollback();
        assert_eq!(engine.trees_of_prepared(&PreparedId::xa(b"xid")), [id]);
    };
    is_kept(&engine);
    engine.shutdown().unwrap();
    drop(engine);
    let engine = open();
    is_kept(&engine);
    let _ = engine
        .rollback_prepared(&PreparedId::xa(b"xid"), &[])
        .unwrap();
    let tree = engine.tree(id).unwrap();
    let other = engine.begin(Isolation::RepeatableRead);
    assert!(!waits(&other, &tree, b"c"));
    assert!(keys(&other, &tree, &KeySpan::all(), Direction::Forward).is_empty());
}

#[test]
fn coarse_locks_outlive_savepoints_and_a_restart_and_go_with_the_commit() {
    let machine = esker_vfs::sim::SimEnv::new(1);
    let open = || open_on(&machine);
    let engine = open();
    let tree = engine.create_tree().unwrap();
    let id = tree.id();
    let key = |n: u32| n.to_be_bytes();
    let lock_all = |txn: &mut Txn, tree: &Tree| {
        let savepoint = txn.savepoint();
        for n in 0..500 {
            let locked = txn.lock(id, &key(n), LockMode::Exclusive, WaitPolicy::NoWait);
            assert!(matches!(locked, Ok(LockOutcome::Granted { .. })));
            txn.put(tree, &key(n), b"v").unwrap();
        }
        assert!(txn.coarsen_locks());
        assert_eq!(txn.lock_count(), 0);
        savepoint
    };
    let is_locked = |engine: &Engine, n: u32| {
        let other = engine.begin(Isolation::RepeatableRead);
        let row = other.lock(id, &key(n), LockMode::Shared, WaitPolicy::NoWait);
        matches!(row, Err(EngineError::LockNotAvailable))
    };
    let mut txn = engine.begin(Isolation::RepeatableRead);
    let savepoint = lock_all(&mut txn, &tree);
    txn.rollback_to(savepoint);
    assert!(is_locked(&engine, 250));
    txn.put(&tree, &key(7), b"w").unwrap();
    let _ = txn.commit().unwrap();
    assert!(!is_locked(&engine, 250) && !is_locked(&engine, 7));
    let _ = lock_all(&mut txn, &tree);
    let prepared = txn.prepare(&PreparedId::xa(b"xid")).unwrap();
    engine.wait_durable(prepared).block().unwrap();
    drop((txn, tree));
    assert!(is_locked(&engine, 499) && !is_locked(&engine, 500));
    engine.shutdown().unwrap();
    drop(engine);
    let engine = open();
    assert!(is_locked(&engine, 0) && is_locked(&engine, 499) && !is_locked(&engine, 500));
    let _ = engine
        .commit_prepared(&PreparedId::xa(b"xid"), &[])
        .unwrap();
    assert!(!is_locked(&engine, 0));
}
