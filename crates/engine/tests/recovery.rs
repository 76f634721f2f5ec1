//! What a restart finds, case by case.

use std::ops::Bound;

use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, LockMode, LockOutcome, PreparedId,
    RecoveryMode, Seq, Tree, TreeId, View, WaitPolicy,
};
use esker_vfs::sim::{CrashImage, SimEnv};

fn config() -> EngineConfig {
    EngineConfig {
        memory_limit: 512 << 20,
        memtable_bytes: 1 << 20,
        log_limit_bytes: 1 << 30,
        ..EngineConfig::small("/db")
    }
}

fn open(machine: &SimEnv) -> Engine {
    Engine::open(machine.env(), config()).unwrap()
}

fn tree(engine: &Engine, id: TreeId) -> Tree {
    engine.tree(id).expect("created before")
}

fn put(engine: &Engine, tree: &Tree, key: &[u8], value: &[u8]) -> Seq {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(tree, key, value).unwrap();
    txn.commit().unwrap().seq.unwrap()
}

fn get(engine: &Engine, tree: &Tree, key: &[u8]) -> Option<Vec<u8>> {
    engine
        .begin(Isolation::ReadCommitted)
        .get(tree, key, View::Snapshot)
        .unwrap()
}

fn count(engine: &Engine, tree: &Tree) -> usize {
    let txn = engine.begin(Isolation::ReadCommitted);
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut cursor = txn
        .scan(tree, all.0, all.1, Direction::Forward, View::Snapshot)
        .unwrap();
    let mut rows = 0;
    while cursor.next().unwrap().is_some() {
        rows += 1;
    }
    rows
}

/// Power loss in which nothing survives that was not synced.
fn crash(machine: &SimEnv) -> SimEnv {
    SimEnv::with_fs(machine.fs.crash_with(CrashImage::DropUnsynced), 7)
}

#[test]
fn flushed_trees_need_no_log_and_idle_trees_do_not_keep_it() {
    let machine = SimEnv::new(1);
    let engine = open(&machine);
    let (busy, idle) = (
        engine.create_tree().unwrap().id(),
        engine.create_tree().unwrap().id(),
    );
    put(&engine, &tree(&engine, idle), b"once", b"long ago");
    for round in 0..30u64 {
        for i in 0..100u64 {
            put(
                &engine,
                &tree(&engine, busy),
                &i.to_be_bytes(),
                &[round as u8; 500],
            );
        }
        while engine.maintain().unwrap() {}
    }
    engine.flush_all().unwrap();
    put(&engine, &tree(&engine, idle), b"once", b"again");
    engine.flush_log().unwrap();
    let machine = crash(&machine);
    let engine = open(&machine);
    // Only what came after the flush was replayed, and the log before it is gone.
    assert_eq!(engine.stats().replayed.writes, 1);
    let log_files = machine
        .env()
        .fs
        .list(std::path::Path::new("/db/wal"))
        .unwrap();
    assert!(
        log_files
            .iter()
            .filter(|name| name.ends_with(".wal"))
            .count()
            <= 3,
        "{log_files:?}"
    );
    assert_eq!(count(&engine, &tree(&engine, busy)), 100);
    assert_eq!(
        get(&engine, &tree(&engine, busy), &7u64.to_be_bytes()).unwrap(),
        [29; 500]
    );
    assert_eq!(
        get(&engine, &tree(&engine, idle), b"once").unwrap(),
        b"again"
    );
}

/// A tree with one old row would keep the whole log. It is flushed for that, so that neither the disk
/// nor the next restart gets more than the limit.
#[test]
fn the_live_log_is_bounded_whatever_tree_holds_it_back() {
    let machine = SimEnv::new(9);
    let mut config = config();
    config.log_limit_bytes = 1 << 20;
    let (limit, segment) = (config.log_limit_bytes, config.log_segment_bytes);
    let engine = Engine::open(machine.env(), config.clone()).unwrap();
    let (busy, idle) = (engine.create_tree().unwrap(), engine.create_tree().unwrap());
    let mut appended = 0;
    for round in 0..60u64 {
        if round % 20 == 0 {
            put(&engine, &idle, b"seldom", &round.to_be_bytes());
        }
        for i in 0..200u64 {
            appended = put(&engine, &busy, &i.to_be_bytes(), &[round as u8; 500]);
        }
        engine.flush_log().unwrap();
        while engine.maintain().unwrap() {}
        let stats = engine.stats();
        let live = stats.log_end - stats.log_needed_from;
        assert!(live <= limit + segment, "round {round}: {live} bytes");
        let kept = stats.log_end - stats.log_space.first.0;
        assert!(kept <= limit + 2 * segment, "round {round}: {kept} bytes");
        let on_disk = stats.log_space.segments * segment;
        assert!(
            on_disk <= 2 * limit + 2 * segment,
            "round {round}: {on_disk}"
        );
    }
    assert!(appended > 5 * limit, "the log has gone round: {appended}");
    let machine = crash(&machine);
    let engine = Engine::open(machine.env(), config).unwrap();
    assert!(engine.stats().replayed.writes < 3 * limit / 500);
    let idle = tree(&engine, idle.id());
    assert_eq!(get(&engine, &idle, b"seldom").unwrap(), 40u64.to_be_bytes());
    assert_eq!(count(&engine, &tree(&engine, busy.id())), 200);
}

#[test]
fn counters_survive_with_and_without_the_log() {
    let machine = SimEnv::new(2);
    let engine = open(&machine);
    let id = engine.create_tree().unwrap().id();
    let other = engine.create_tree().unwrap().id();
    assert_eq!(engine.counter(id), 0);
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(&tree(&engine, id), b"row", b"3").unwrap();
    txn.bump_counter(id, 3);
    txn.bump_counter(id, 2);
    assert_eq!(engine.counter(id), 0);
    assert!(txn.commit().unwrap().seq.is_some());
    engine.reserve_counter(id, 10).unwrap();
    engine.reserve_counter(id, 5).unwrap();
    engine.reserve_counter(other, 77).unwrap();
    engine.set_counter(other, 7).unwrap();
    engine.flush_log().unwrap();
    engine.reserve_counter(id, 1000).unwrap();
    let machine = crash(&machine);
    let engine = open(&machine);
    // The last raise was never durable.
    assert_eq!((engine.counter(id), engine.counter(other)), (10, 7));

    engine.reserve_counter(id, 11).unwrap();
    engine.flush_all().unwrap();
    let machine = crash(&machine);
    let engine = open(&machine);
    assert_eq!((engine.counter(id), engine.counter(other)), (11, 7));
    engine.drop_tree(id).unwrap();
    let machine = crash(&machine);
    let engine = open(&machine);
    assert_eq!((engine.counter(id), engine.counter(other)), (0, 7));
    assert_eq!(engine.tree_ids(), vec![other]);
    // The id of the dropped tree is not given again.
    assert!(engine.create_tree().unwrap().id() > other);
}

#[test]
fn a_transaction_larger_than_the_log_buffer_is_whole_or_absent() {
    let mut seen = [0, 0];
    for cut in 0..120 {
        let machine = SimEnv::new(cut);
        let engine = open(&machine);
        let id = engine.create_tree().unwrap().id();
        machine.fs.halt_at(machine.fs.ops() + cut);
        let mut txn = engine.begin(Isolation::ReadCommitted);
        // Five times the buffer, and more than a segment.
        for i in 0..400u64 {
            txn.put(&tree(&engine, id), &i.to_be_bytes(), &[1; 900])
                .unwrap();
        }
        txn.bump_counter(id, 400);
        let committed = txn.commit().and_then(|_| engine.flush_log()).is_ok();
        let machine = machine.crash(cut + 1000);
        let engine = open(&machine);
        let rows = count(&engine, &tree(&engine, id));
        assert!(rows == 0 || rows == 400, "cut {cut}: {rows} rows");
        assert!(
            !committed || rows == 400,
            "cut {cut}: an acknowledged commit is lost"
        );
        assert_eq!(engine.counter(id), rows as u64);
        seen[usize::from(rows > 0)] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn prepared_transaction_waits_for_its_decision_with_its_locks() {
    let machine = SimEnv::new(3);
    let engine = open(&machine);
    let id = engine.create_tree().unwrap().id();
    put(&engine, &tree(&engine, id), b"row", b"old");
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let granted = txn.lock(id, b"row", LockMode::Exclusive, WaitPolicy::NoWait);
    assert!(matches!(granted, Ok(LockOutcome::Granted { .. })));
    txn.put(&tree(&engine, id), b"row", b"new").unwrap();
    let prepared = txn.prepare(&PreparedId::xa(b"xid-1")).unwrap();
    assert_eq!(
        engine.prepared(),
        vec![(PreparedId::xa(b"xid-1"), prepared)]
    );
    assert!(matches!(
        txn.prepare(&PreparedId::xa(b"xid-1")),
        Err(EngineError::DuplicatePrepared)
    ));
    // Much later work, flushed: the log must stay from the prepare on.
    for i in 0..300u64 {
        put(&engine, &tree(&engine, id), &i.to_be_bytes(), &[2; 1000]);
    }
    engine.flush_all().unwrap();

    let machine = crash(&machine);
    let engine = open(&machine);
    assert_eq!(
        engine.prepared(),
        vec![(PreparedId::xa(b"xid-1"), prepared)]
    );
    assert_eq!(engine.trees_of_prepared(&PreparedId::xa(b"xid-1")), [id]);
    assert!(
        engine
            .trees_of_prepared(&PreparedId::xa(b"another"))
            .is_empty()
    );
    let other = engine.begin(Isolation::ReadCommitted);
    let conflict = other.lock(id, b"row", LockMode::Shared, WaitPolicy::NoWait);
    assert!(matches!(conflict, Err(EngineError::LockNotAvailable)));
    assert_eq!(get(&engine, &tree(&engine, id), b"row").unwrap(), b"old");
    let seq = engine
        .commit_prepared(&PreparedId::xa(b"xid-1"), &[])
        .unwrap()
        .seq
        .unwrap();
    assert!(seq > prepared);
    assert_eq!(get(&engine, &tree(&engine, id), b"row").unwrap(), b"new");
    let free = other.lock(id, b"row", LockMode::Shared, WaitPolicy::NoWait);
    assert!(matches!(free, Ok(LockOutcome::Granted { .. })));
    assert!(matches!(
        engine.commit_prepared(&PreparedId::xa(b"xid-1"), &[]),
        Err(EngineError::NoSuchPrepared)
    ));
    engine.flush_log().unwrap();

    // The decision is in the log, its prepare far before it.
    let machine = crash(&machine);
    let engine = open(&machine);
    assert!(engine.prepared().is_empty());
    assert_eq!(get(&engine, &tree(&engine, id), b"row").unwrap(), b"new");
    engine.flush_all().unwrap();
    let engine = open(&crash(&machine));
    assert_eq!(get(&engine, &tree(&engine, id), b"row").unwrap(), b"new");
}

#[test]
fn an_xid_that_is_used_again_is_another_transaction() {
    let machine = SimEnv::new(4);
    let engine = open(&machine);
    let id = engine.create_tree().unwrap().id();
    let prepare = |value: &[u8]| {
        let mut txn = engine.begin(Isolation::ReadCommitted);
        txn.put(&tree(&engine, id), b"row", value).unwrap();
        txn.prepare(&PreparedId::xa(b"again")).unwrap()
    };
    prepare(b"rolled back");
    assert!(
        engine
            .rollback_prepared(&PreparedId::xa(b"again"), &[])
            .unwrap()
            .seq
            .is_some()
    );
    prepare(b"committed");
    assert!(
        engine
            .commit_prepared(&PreparedId::xa(b"again"), &[])
            .unwrap()
            .seq
            .is_some()
    );
    let third = prepare(b"undecided");
    engine.flush_log().unwrap();
    let engine_after = open(&crash(&machine));
    assert_eq!(
        engine_after.prepared(),
        vec![(PreparedId::xa(b"again"), third)]
    );
    assert_eq!(
        get(&engine_after, &tree(&engine_after, id), b"row").unwrap(),
        b"committed"
    );
    assert!(
        engine_after
            .rollback_prepared(&PreparedId::xa(b"again"), &[])
            .unwrap()
            .seq
            .is_some()
    );
    assert_eq!(
        get(&engine_after, &tree(&engine_after, id), b"row").unwrap(),
        b"committed"
    );
}

#[test]
fn replay_over_the_memory_limit_flushes_and_under_it_does_not() {
    let machine = SimEnv::new(5);
    let id = {
        let engine = open(&machine);
        let id = engine.create_tree().unwrap().id();
        for i in 0..2000u64 {
            put(
                &engine,
                &tree(&engine, id),
                &(i % 700).to_be_bytes(),
                &[i as u8; 1000],
            );
        }
        engine.flush_log().unwrap();
        id
    };
    let machine = crash(&machine);
    {
        let engine = open(&machine);
        assert_eq!(engine.stats().replayed.flushes, 0);
        assert_eq!(engine.stats().replayed.writes, 2000);
    }
    let mut small = config();
    small.memory_limit = 1 << 20;
    small.memtable_bytes = 64 << 10;
    let engine = Engine::open(crash(&machine).env(), small).unwrap();
    assert!(engine.stats().replayed.flushes > 0);
    assert_eq!(count(&engine, &tree(&engine, id)), 700);
    for i in 1300..2000u64 {
        let value = get(&engine, &tree(&engine, id), &(i % 700).to_be_bytes()).unwrap();
        assert_eq!(value, [i as u8; 1000]);
    }
}

/// Whatever the memory: what cannot be flushed stays in it, until there is room again.
#[test]
fn a_full_disk_is_opened_with_less_memory_than_the_log_needs() {
    let machine = SimEnv::new(5);
    let ids = {
        let engine = open(&machine);
        let ids = [(); 2].map(|()| engine.create_tree().unwrap().id());
        for i in 0..2000u64 {
            let id = ids[i as usize % 2];
            let tree = tree(&engine, id);
            put(&engine, &tree, &(i % 700).to_be_bytes(), &[i as u8; 1000]);
        }
        engine.flush_log().unwrap();
        ids
    };
    use RecoveryMode::{Parallel, SerialAsync, SerialSync};
    for recovery in [Parallel, SerialSync, SerialAsync] {
        let machine = crash(&machine);
        machine.fs.set_capacity(machine.fs.used_bytes());
        let mut small = config();
        small.memory_limit = 1 << 20;
        small.memtable_bytes = 64 << 10;
        small.recovery = recovery;
        let sound = |engine: &Engine| {
            let rows = ids.map(|id| count(engine, &tree(engine, id)));
            assert_eq!(rows, [350, 350], "{recovery:?}");
            for i in 1300..2000u64 {
                let tree = tree(engine, ids[i as usize % 2]);
                let value = get(engine, &tree, &(i % 700).to_be_bytes()).unwrap();
                assert_eq!(value, [i as u8; 1000], "{recovery:?}");
            }
        };
        for _ in 0..2 {
            let engine = Engine::open(machine.env(), small.clone()).unwrap();
            sound(&engine);
        }
        machine.fs.set_capacity(u64::MAX);
        let engine = Engine::open(machine.env(), small.clone()).unwrap();
        engine.flush_all().unwrap();
        sound(&engine);
        assert_eq!(engine.stats().memtable_bytes, 0);
    }
}

#[test]
fn a_data_directory_has_one_user() {
    let machine = SimEnv::new(6);
    let first = open(&machine);
    assert!(matches!(
        Engine::open(machine.env(), config()),
        Err(EngineError::InUse(_))
    ));
    drop(first);
    open(&machine);
}

#[test]
fn a_lost_log_is_an_error_and_not_an_empty_database() {
    let machine = SimEnv::new(8);
    {
        let engine = open(&machine);
        let id = engine.create_tree().unwrap().id();
        put(&engine, &tree(&engine, id), b"k", b"v");
        engine.flush_log().unwrap();
    }
    let fs = machine.env().fs;
    let wal = std::path::Path::new("/db/wal");
    for name in fs.list(wal).unwrap() {
        fs.remove_file(&wal.join(name)).unwrap();
    }
    assert!(Engine::open(machine.env(), config()).is_err());
}
