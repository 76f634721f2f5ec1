//! Scans over what was deleted: background work takes it away before it costs much.

use std::ops::Bound;

use esker_engine::{Direction, Engine, EngineConfig, Isolation, Mode, Tree, View};
use esker_vfs::sim::SimEnv;

/// More than it takes for a memtable to be switched because of its deletes.
const ROWS: u64 = 40_000;
const BATCH_ROWS: u64 = 1000;

fn engine() -> (SimEnv, Engine, Tree) {
    let machine = SimEnv::new(1);
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    config.log_buffer_bytes = 1 << 20;
    let engine = Engine::open(machine.env(), config).unwrap();
    let tree = engine.create_tree().unwrap();
    (machine, engine, tree)
}

fn change(engine: &Engine, tree: &Tree, keys: std::ops::Range<u64>, value: Option<&[u8]>) {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for key in keys {
        match value {
            Some(value) => txn.put(tree, &key.to_be_bytes(), value).unwrap(),
            None => txn.delete(tree, &key.to_be_bytes()).unwrap(),
        }
        if txn.write_count() >= BATCH_ROWS {
            let _ = txn.commit().unwrap();
            engine.flush_log().unwrap();
        }
    }
    let _ = txn.commit().unwrap();
    engine.flush_log().unwrap();
}

/// Versions that a scan from the first key meets, whether it shows them or not.
fn versions(tree: &Tree) -> u64 {
    let now = tree.superversion();
    let tables = std::iter::once(&now.active).chain(&now.immutables);
    now.version.totals().entries + tables.map(|table| table.entries()).sum::<u64>()
}

fn first_key(engine: &Engine, tree: &Tree, direction: Direction) -> Option<u64> {
    let txn = engine.begin(Isolation::ReadCommitted);
    let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
    let mut rows = txn
        .scan(tree, lower, upper, direction, View::Snapshot)
        .unwrap();
    let row = rows.next().unwrap();
    row.map(|(key, _)| u64::from_be_bytes(*key.first_chunk().unwrap()))
}

fn settle(engine: &Engine) {
    while engine.maintain().unwrap() {
        engine.flush_log().unwrap();
    }
}

#[test]
fn a_queue_leaves_nothing_for_scans_to_walk_over() {
    let (_machine, engine, tree) = engine();
    change(&engine, &tree, 0..ROWS + 1, Some(b"job"));
    change(&engine, &tree, 0..ROWS, None);
    assert_eq!(first_key(&engine, &tree, Direction::Forward), Some(ROWS));
    settle(&engine);
    assert_eq!(versions(&tree), 1);
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(first_key(&engine, &tree, direction), Some(ROWS));
    }
}

#[test]
fn deleted_rows_on_disk_go_with_their_deletes() {
    let (_machine, engine, tree) = engine();
    change(&engine, &tree, 0..ROWS + 1, Some(&[7; 50]));
    engine.flush_all().unwrap();
    settle(&engine);
    assert_eq!(versions(&tree), ROWS + 1);
    change(&engine, &tree, 0..ROWS, None);
    settle(&engine);
    assert_eq!(versions(&tree), 1);
    assert_eq!(tree.superversion().version.totals().deletes, 0);
    assert_eq!(first_key(&engine, &tree, Direction::Forward), Some(ROWS));
}

#[test]
fn what_a_snapshot_sees_stays_until_it_is_gone() {
    let (_machine, engine, tree) = engine();
    change(&engine, &tree, 0..ROWS, Some(b"job"));
    let old = engine.begin(Isolation::RepeatableRead);
    old.snapshot();
    change(&engine, &tree, 0..ROWS, None);
    settle(&engine);
    assert_eq!(first_key(&engine, &tree, Direction::Forward), None);
    let seen = old.get(&tree, &7u64.to_be_bytes(), View::Snapshot).unwrap();
    assert_eq!(seen.as_deref(), Some(&b"job"[..]));
    drop(old);
    engine.flush_all().unwrap();
    settle(&engine);
    assert_eq!(versions(&tree), 0);
}
