//! Scans over what was deleted: background work takes it away before it costs much.

use std::ops::Bound;

use esker_engine::extent::Compression;
use esker_engine::{Direction, Engine, EngineConfig, Isolation, Mode, Near, Tree, View};
use esker_vfs::sim::SimEnv;

/// More than it takes for a memtable to be switched because of its deletes.
const ROWS: u64 = 40_000;
const BATCH_ROWS: u64 = 1000;

fn config() -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    config.log_buffer_bytes = 1 << 20;
    config
}

fn engine_with(config: EngineConfig) -> (SimEnv, Engine, Tree) {
    let machine = SimEnv::new(1);
    let engine = Engine::open(machine.env(), config).unwrap();
    let tree = engine.create_tree().unwrap();
    (machine, engine, tree)
}

fn engine() -> (SimEnv, Engine, Tree) {
    engine_with(config())
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

/// Puts a row behind all others, looks for the first one, deletes it.
fn pass_through(engine: &Engine, tree: &Tree, row: u64) {
    change(engine, tree, row..row + 1, Some(b"job"));
    let first = first_key(engine, tree, Direction::Forward).expect("one was just put");
    change(engine, tree, first..first + 1, None);
}

#[test]
fn the_first_row_of_a_queue_is_near_however_many_have_passed() {
    let (_machine, engine, tree) = engine();
    const WAITING: u64 = 10;
    change(&engine, &tree, 0..WAITING, Some(b"job"));
    for row in WAITING..6000 {
        pass_through(&engine, &tree, row);
        if row.is_multiple_of(50) {
            settle(&engine);
        }
    }
    // Each walk would step over all that have passed, 18 million times in all; a range of tombstones is begun at 64.
    let steps = tree.superversion().in_memory().steps;
    assert!(steps < 6000 * 100, "{steps} steps");
    let waiting = 6000 - WAITING..6000;
    assert_eq!(
        first_key(&engine, &tree, Direction::Forward),
        Some(waiting.start)
    );
}

#[test]
fn a_queue_is_not_flushed_for_nothing_while_a_snapshot_needs_all_of_it() {
    let (_machine, engine, tree) = engine();
    change(&engine, &tree, 0..1, Some(b"job"));
    let old = engine.begin(Isolation::RepeatableRead);
    old.snapshot();
    for row in 1..3000 {
        pass_through(&engine, &tree, row);
    }
    settle(&engine);
    // Nothing is in front in memory any more, and what is on disk is not rewritten again and again.
    for _ in 0..50 {
        assert_eq!(first_key(&engine, &tree, Direction::Forward), Some(2999));
    }
    settle(&engine);
    let work = engine.stats().storage.work;
    for _ in 0..500 {
        first_key(&engine, &tree, Direction::Forward);
    }
    settle(&engine);
    assert_eq!(engine.stats().storage.work, work);
    drop(old);
    engine.flush_all().unwrap();
    settle(&engine);
    assert!(versions(&tree) < 10);
}

#[test]
fn deletes_that_the_log_has_brought_back_are_stepped_over_once() {
    let (machine, engine, tree) = engine();
    change(&engine, &tree, 0..2001, Some(b"job"));
    change(&engine, &tree, 0..2000, None);
    let id = tree.id();
    drop((engine, tree));
    let engine = Engine::open(machine.env(), config()).unwrap();
    let tree = engine.tree(id).unwrap();
    let replayed = |tree: &Tree| tree.superversion().replayed.len();
    settle(&engine);
    assert_eq!(replayed(&tree), 1);
    for _ in 0..200 {
        assert_eq!(first_key(&engine, &tree, Direction::Forward), Some(2000));
    }
    assert_eq!(tree.superversion().in_memory().steps, 2000);
    engine.flush_all().unwrap();
    settle(&engine);
    assert_eq!((replayed(&tree), versions(&tree)), (0, 1));
}

#[test]
fn rows_that_came_and_went_leave_nothing_among_others() {
    let (_machine, engine, tree) = engine();
    let spread = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1;
    for row in 0..3000 {
        let key = spread(row);
        change(&engine, &tree, key..key + 1, Some(&[7; 50]));
    }
    engine.flush_all().unwrap();
    settle(&engine);
    let txn = engine.begin(Isolation::ReadCommitted);
    for row in 0..1000 {
        let key = spread(row) + 1;
        // Whoever inserts looks whether the row is there already; then the filters are in memory.
        let found = txn.get(&tree, &key.to_be_bytes(), View::Latest).unwrap();
        assert_eq!(found, None);
        change(&engine, &tree, key..key + 1, Some(b"short"));
        change(&engine, &tree, key..key + 1, None);
    }
    engine.flush_all().unwrap();
    // The filters of what lies below are not always right.
    let deletes = tree.superversion().version.totals().deletes;
    assert!(deletes < 50, "{deletes} deletes were written");
}

#[test]
fn old_versions_on_the_lowest_level_go_when_their_snapshot_is_gone() {
    let (_machine, engine, tree) = engine();
    change(&engine, &tree, 0..ROWS, Some(b"first"));
    let old = engine.begin(Isolation::RepeatableRead);
    old.snapshot();
    change(&engine, &tree, 0..ROWS, Some(b"second"));
    engine.flush_all().unwrap();
    engine.sink(&tree).unwrap();
    settle(&engine);
    assert_eq!(versions(&tree), 2 * ROWS);
    drop(old);
    settle(&engine);
    assert_eq!(versions(&tree), ROWS);
}

/// Deletes that are still in memory count, and so do old versions below the share at which compaction looks at them.
#[test]
fn a_tree_that_sinks_gives_the_space_of_what_was_deleted_back() {
    const BIG_ROWS: u64 = 10_000;
    let mut config = config();
    config.extents.compression = [Compression::None; 3];
    let (machine, engine, tree) = engine_with(config);
    let row = [7; 1000];
    change(&engine, &tree, 0..BIG_ROWS, Some(&row));
    engine.flush_all().unwrap();
    engine.sink(&tree).unwrap();
    let before = machine.fs.used_bytes();
    change(&engine, &tree, BIG_ROWS / 10..BIG_ROWS, None);
    engine.sink(&tree).unwrap();
    let given = before.saturating_sub(machine.fs.used_bytes());
    assert!(given > BIG_ROWS * 800, "{given} bytes were given back");
    assert_eq!(versions(&tree), BIG_ROWS / 10);
    change(&engine, &tree, 0..BIG_ROWS / 50, Some(&row));
    engine.sink(&tree).unwrap();
    assert_eq!(versions(&tree), BIG_ROWS / 10);
}

#[test]
fn a_queue_in_a_large_table_leaves_its_middle_alone() {
    const BACKLOG: u64 = 60_000;
    let mut config = config();
    config.extents.compression = [Compression::None; 3];
    let (_machine, engine, tree) = engine_with(config);
    let row = [7; 1000];
    for from in (0..BACKLOG).step_by(100) {
        change(&engine, &tree, from..from + 100, Some(&row));
    }
    engine.flush_all().unwrap();
    engine.sink(&tree).unwrap();
    settle(&engine);
    let whole = tree.superversion().version.levels().extents().count();
    let before = engine.stats().storage.work.compaction;
    change(&engine, &tree, 0..1000, None);
    for from in (BACKLOG..BACKLOG + 1000).step_by(100) {
        change(&engine, &tree, from..from + 100, Some(&row));
    }
    engine.flush_all().unwrap();
    settle(&engine);
    assert_eq!(first_key(&engine, &tree, Direction::Forward), Some(1000));
    let merged = engine.stats().storage.work.compaction.merged - before.merged;
    assert!(
        whole > 10 && merged * 3 < whole as u64,
        "{merged} of {whole}"
    );
}

#[test]
fn the_space_of_a_dropped_tree_is_free_unless_somebody_reads_it() {
    let (_machine, engine, tree) = engine();
    let used = || engine.stats().storage.space.used_slots;
    change(&engine, &tree, 0..ROWS, Some(&[7; 100]));
    engine.flush_all().unwrap();
    let other = engine.create_tree().unwrap();
    // A snapshot alone holds nothing: whoever drops a tree has seen to it that nobody begins to read it.
    let old = engine.begin(Isolation::RepeatableRead);
    old.snapshot();
    let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
    let mut rows = old
        .scan(&tree, lower, upper, Direction::Forward, View::Snapshot)
        .unwrap();
    assert!(used() > 0);
    engine.drop_tree(tree.id()).unwrap();
    drop(tree);
    let mut seen = 0;
    while rows.next().unwrap().is_some() {
        seen += 1;
    }
    assert_eq!(seen, ROWS);
    assert!(used() > 0);
    drop(rows);
    assert_eq!(used(), 0);
    drop((old, other));
}

#[test]
fn a_cursor_gives_up_at_many_deletes_and_goes_on_where_it_was() {
    let (_machine, engine, tree) = engine();
    change(&engine, &tree, 0..101, Some(b"row"));
    change(&engine, &tree, 0..100, None);
    let txn = engine.begin(Isolation::ReadCommitted);
    let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
    let mut rows = txn
        .scan(&tree, lower, upper, Direction::Forward, View::Latest)
        .unwrap();
    let key = |row: u64| row.to_be_bytes();
    assert_eq!(rows.next_within(10).unwrap(), Near::Deleted(&key(10)));
    assert_eq!(rows.next_within(88).unwrap(), Near::Deleted(&key(99)));
    assert_eq!(rows.next_within(0).unwrap(), Near::Row(&key(100), b"row"));
    assert_eq!(rows.next_within(0).unwrap(), Near::End);
}
