//! The memory budget: shares, eviction, refusals; and what the cache keeps.

use std::ops::Bound;

use esker_engine::extent::Compression;
use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, MemoryUse, Mode, Tree, Txn, View,
};
use esker_vfs::sim::SimEnv;

const MIB: usize = 1 << 20;
const VALUE: [u8; 180] = [b'v'; 180];

fn open(machine: &SimEnv, limit: usize) -> Engine {
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    config.memory_limit = limit;
    config.memtable_bytes = 512 << 10;
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 1 << 20;
    config.log_limit_bytes = 64 << 20;
    // Extents of as many rows as others have: these values would shrink to nothing.
    config.extents.compression = [Compression::None; 3];
    Engine::open(machine.env(), config).expect("opens")
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn put(engine: &Engine, tree: &Tree, rows: impl IntoIterator<Item = u32>) {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for (count, row) in rows.into_iter().enumerate() {
        txn.put(tree, &key(row), &VALUE).expect("put");
        if count % 100 == 99 {
            let _ = txn.commit().expect("commits");
        }
    }
    let _ = txn.commit().expect("commits");
    engine.flush_log().expect("flushes");
}

fn settle(engine: &Engine) {
    engine.flush_all().expect("flushes");
    engine.compact().expect("compacts");
}

fn get(txn: &mut Txn, tree: &Tree, row: u32) {
    txn.new_statement();
    let found = txn.get_with(tree, &key(row), View::Snapshot, <[u8]>::len);
    assert_eq!(found.expect("reads"), Some(VALUE.len()));
}

fn scan_all(engine: &Engine, tree: &Tree) -> usize {
    let txn = engine.begin(Isolation::ReadCommitted);
    let (all, way) = (Bound::Unbounded, Direction::Forward);
    let mut rows = txn
        .scan(tree, all, all, way, View::Snapshot)
        .expect("scans");
    let mut count = 0;
    while rows.next().expect("reads").is_some() {
        count += 1;
    }
    count
}

#[test]
fn a_full_scan_does_not_wipe_out_what_is_read_again_and_again() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, 8 * MIB);
    let tree = engine.create_tree().expect("creates");
    const ROWS: u32 = 150_000;
    put(&engine, &tree, 0..ROWS);
    settle(&engine);
    // What flushes and compactions had goes to the cache, little by little.
    for _ in 0..300 {
        engine.maintain().expect("works");
    }
    let capacity = engine.stats().memory.cache_limit;
    let stored = tree.superversion().version.totals().data_bytes;
    assert!(stored > 3 * capacity && capacity > 5 * MIB as u64);
    // The cache is full of what was read once.
    assert_eq!(scan_all(&engine, &tree), ROWS as usize);
    // Every 300th row, each in a block of its own, is read again and again.
    let hot = || (0..ROWS / 4).step_by(300);
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for _ in 0..4 {
        hot().for_each(|row| get(&mut txn, &tree, row));
    }
    for _ in 0..2 {
        assert_eq!(scan_all(&engine, &tree), ROWS as usize);
        let before = engine.stats().cache.loads;
        hot().for_each(|row| get(&mut txn, &tree, row));
        let loads = engine.stats().cache.loads - before;
        let blocks = hot().count() as u64;
        assert!(loads <= blocks / 10, "{loads} of {blocks} were gone");
    }
    drop(txn);
    engine.shutdown().expect("ends");
}

#[test]
fn compaction_refreshes_what_readers_have_in_use() {
    let machine = SimEnv::new(2);
    let engine = open(&machine, 64 * MIB);
    let tree = engine.create_tree().expect("creates");
    const ROWS: u32 = 40_000;
    put(&engine, &tree, 0..ROWS);
    settle(&engine);
    // A quarter is in use.
    let in_use = 0..ROWS / 4;
    let mut txn = engine.begin(Isolation::ReadCommitted);
    in_use.clone().for_each(|row| get(&mut txn, &tree, row));
    let before = engine.stats();
    let mut missed = 0;
    for round in 0..8 {
        put(&engine, &tree, (0..ROWS).skip(round).step_by(8));
        engine.flush_all().expect("flushes");
        // The new layer is in use, too; then it is merged with the others.
        in_use.clone().for_each(|row| get(&mut txn, &tree, row));
        engine.compact().expect("compacts");
        let compacted = engine.stats().cache.loads;
        in_use.clone().for_each(|row| get(&mut txn, &tree, row));
        missed += engine.stats().cache.loads - compacted;
    }
    let after = engine.stats();
    assert!(after.storage.work.compaction.merged > before.storage.work.compaction.merged);
    let refreshed = after.cache.refreshed - before.cache.refreshed;
    assert!(refreshed > 100, "{refreshed} blocks");
    assert!(
        missed <= refreshed / 4,
        "{missed} of {refreshed} were missed"
    );
    // What was not in use was not read.
    assert!(engine.stats().memory.cache.now < 6 * MIB as u64);
    drop(txn);
    engine.shutdown().expect("ends");
}

#[test]
fn more_data_than_memory_stay_within_the_limit_by_every_cause() {
    let machine = SimEnv::new(3);
    let limit = 16 * MIB;
    let engine = open(&machine, limit);
    let tree = engine.create_tree().expect("creates");
    const ROWS: u32 = 150_000;
    let budget = engine.memory().clone();
    let check = |what: &str| {
        let memory = engine.stats().memory;
        assert!(budget.total() <= limit + limit / 10, "{what}: {memory:?}");
        assert!(memory.extent_metadata.now > 0 && memory.log_buffer.now == MIB as u64);
        let sum: usize = MemoryUse::ALL.iter().map(|what| budget.used(*what)).sum();
        assert_eq!(sum, budget.total());
    };
    for start in (0..ROWS).step_by(1000) {
        put(&engine, &tree, start..start + 1000);
        if start > ROWS / 4 {
            check("loading");
        }
    }
    scan_all(&engine, &tree);
    check("scanned");
    assert!(engine.stats().memory.cache.now > limit as u64 / 4);
    for round in 0..40 {
        put(
            &engine,
            &tree,
            (0..1000).map(|n| (n * 149 + round * 7) % ROWS),
        );
        check("updating");
        let mut txn = engine.begin(Isolation::ReadCommitted);
        (0..1000).for_each(|n| get(&mut txn, &tree, (n * 91 + round) % ROWS));
        check("reading");
    }
    engine.shutdown().expect("ends");
}

#[test]
fn a_transaction_that_does_not_fit_is_refused_and_gives_everything_back() {
    let machine = SimEnv::new(4);
    let engine = open(&machine, 16 * MIB);
    let tree = engine.create_tree().expect("creates");
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.set_may_spill(false);
    let refused = (0..1_000_000).find_map(|row| txn.put(&tree, &key(row), &VALUE).err());
    assert!(matches!(refused, Some(EngineError::OutOfMemory { .. })));
    let used = |what| engine.memory().used(what);
    assert!(used(MemoryUse::Transactions) > 2 * MIB);
    // Statements have to share with it.
    assert!(engine.memory().reserve(6 * MIB).is_err());
    assert!(engine.memory().total() <= 17 * MIB);
    txn.rollback();
    assert!(used(MemoryUse::Transactions) < MIB);
    let sort = engine.memory().reserve(6 * MIB).expect("there is room now");
    assert_eq!(used(MemoryUse::Statements), 6 * MIB);
    drop(sort);
    assert_eq!(used(MemoryUse::Statements), 0);
    engine.shutdown().expect("ends");
}

#[test]
fn memtables_that_a_scan_keeps_are_counted_and_hold_nobody_back() {
    let machine = SimEnv::new(5);
    let engine = open(&machine, 16 * MIB);
    let tree = engine.create_tree().expect("creates");
    put(&engine, &tree, 0..20_000);
    let txn = engine.begin(Isolation::ReadCommitted);
    let (all, way) = (Bound::Unbounded, Direction::Forward);
    let mut rows = txn
        .scan(&tree, all, all, way, View::Snapshot)
        .expect("scans");
    assert!(rows.next().expect("reads").is_some());
    settle(&engine);
    let kept = engine.stats().memory;
    assert!(kept.lingering_memtables.now > MIB as u64, "{kept:?}");
    assert!(kept.memtables.now < MIB as u64, "{kept:?}");
    // More than memtables may have, beside what the scan keeps.
    put(&engine, &tree, 20_000..90_000);
    assert!(engine.memory().total() <= 17 * MIB + 600_000);
    while rows.next().expect("reads").is_some() {}
    drop((rows, txn));
    engine.maintain().expect("works");
    settle(&engine);
    assert_eq!(engine.stats().memory.lingering_memtables.now, 0);
    engine.shutdown().expect("ends");
}

#[test]
fn a_smaller_limit_is_kept_at_once_and_a_larger_one_is_used() {
    let machine = SimEnv::new(6);
    let engine = open(&machine, 64 * MIB);
    let tree = engine.create_tree().expect("creates");
    put(&engine, &tree, 0..100_000);
    settle(&engine);
    scan_all(&engine, &tree);
    assert!(engine.stats().memory.cache.now > 16 * MIB as u64);
    engine.set_memory_limit(12 * MIB);
    assert_eq!(engine.stats().memory.limit, 12 * MIB as u64);
    assert!(
        engine.memory().total() <= 13 * MIB,
        "{:?}",
        engine.stats().memory
    );
    engine.set_memory_limit(64 * MIB);
    scan_all(&engine, &tree);
    assert!(engine.stats().memory.cache.now > 16 * MIB as u64);
    engine.shutdown().expect("ends");
}
