//! What the log holds and what the manifest holds, case by case: the rows of the table in `docs/recovery.md`. Each in
//! every mode of recovery.

use std::ops::Bound;
use std::sync::Arc;

use esker_engine::{
    Direction, Engine, EngineConfig, Isolation, LockMode, Mode, PreparedId, RecoveryMode, Tree,
    TreeId, View, WaitPolicy,
};
use esker_vfs::sim::{CrashImage, SimEnv};

const MODES: [RecoveryMode; 3] = [
    RecoveryMode::SerialSync,
    RecoveryMode::SerialAsync,
    RecoveryMode::Parallel,
];
/// A memtable of this size is switched, and flushed by the next maintenance.
const MEMTABLE: usize = 8 << 10;

fn open(machine: &SimEnv, recovery: RecoveryMode) -> Engine {
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    config.recovery = recovery;
    config.memtable_bytes = MEMTABLE;
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 1 << 20;
    config.on_fatal = Arc::new(|_| ());
    Engine::open(machine.env(), config).expect("opens")
}

/// The database after a crash, with what was durable, recovered in each mode.
fn after_crash(machine: &SimEnv, check: impl Fn(&Engine)) {
    for (number, mode) in MODES.into_iter().enumerate() {
        let disk = machine.fs.crash_with(CrashImage::DropUnsynced);
        let copy = SimEnv::with_fs(disk, 1000 + number as u64);
        check(&open(&copy, mode));
        // The crash of a recovery that has ended changes nothing.
        check(&open(&copy.crash(2000 + number as u64), mode));
    }
}

fn begin() -> (SimEnv, Engine) {
    let machine = SimEnv::new(1);
    let engine = open(&machine, RecoveryMode::Parallel);
    (machine, engine)
}

fn put(engine: &Engine, writes: &[(&Tree, &str)]) {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for (tree, key) in writes {
        txn.put(tree, key.as_bytes(), b"value").expect("put");
    }
    let _ = txn.commit().expect("commits");
    engine.flush_log().expect("durable");
}

fn prepare(engine: &Engine, xid: &str, writes: &[(&Tree, &str)]) {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for (tree, key) in writes {
        let granted = txn.lock(
            tree.id(),
            key.as_bytes(),
            LockMode::Exclusive,
            WaitPolicy::NoWait,
        );
        assert!(granted.is_ok());
        txn.put(tree, key.as_bytes(), xid.as_bytes()).expect("put");
    }
    txn.prepare(&PreparedId::xa(xid.as_bytes()))
        .expect("prepares");
    engine.flush_log().expect("durable");
}

fn commit_prepared(engine: &Engine, xid: &str) {
    let _ = engine
        .commit_prepared(&PreparedId::xa(xid.as_bytes()), &[])
        .expect("commits");
    engine.flush_log().expect("durable");
}

/// Fills the memtable of a tree, so that it is flushed with all that it had.
fn flush(engine: &Engine, tree: &Tree) {
    let before = engine.stats().storage.work.flushes;
    for number in 0..12 {
        let mut txn = engine.begin(Isolation::ReadCommitted);
        txn.put(
            tree,
            format!("fill-{number}").as_bytes(),
            &[7; MEMTABLE / 8],
        )
        .expect("put");
        let _ = txn.commit().expect("commits");
    }
    engine.flush_log().expect("durable");
    while engine.maintain().expect("maintains") {}
    assert!(
        engine.stats().storage.work.flushes > before,
        "it was not flushed"
    );
}

/// Keys of a tree, without those that fill it.
fn keys(engine: &Engine, tree: TreeId) -> Vec<String> {
    let tree = engine.tree(tree).expect("the tree is there");
    let txn = engine.begin(Isolation::RepeatableRead);
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    let mut cursor = txn
        .scan(&tree, from, to, Direction::Forward, View::Snapshot)
        .expect("scan");
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next().expect("next") {
        keys.push(String::from_utf8_lossy(key).into_owned());
    }
    keys.retain(|key| !key.starts_with("fill-"));
    keys
}

fn is_locked(engine: &Engine, tree: TreeId, key: &str) -> bool {
    let txn = engine.begin(Isolation::ReadCommitted);
    txn.lock(
        tree,
        key.as_bytes(),
        LockMode::Exclusive,
        WaitPolicy::NoWait,
    )
    .is_err()
}

fn prepared(engine: &Engine) -> Vec<String> {
    let xids = engine.prepared().into_iter();
    xids.map(|(xid, _)| String::from_utf8_lossy(xid.bytes()).into_owned())
        .collect()
}

#[test]
fn a_commit_is_applied_to_the_trees_that_have_not_flushed_it() {
    let (machine, engine) = begin();
    let (a, b) = (
        engine.create_tree().expect("a"),
        engine.create_tree().expect("b"),
    );
    put(&engine, &[(&a, "one"), (&b, "one")]);
    flush(&engine, &b);
    put(&engine, &[(&a, "two"), (&b, "two")]);
    after_crash(&machine, |engine| {
        assert_eq!(keys(engine, a.id()), ["one", "two"]);
        assert_eq!(keys(engine, b.id()), ["one", "two"]);
    });
}

#[test]
fn writes_to_a_dropped_tree_are_left_out() {
    let (machine, engine) = begin();
    let (a, b) = (
        engine.create_tree().expect("a"),
        engine.create_tree().expect("b"),
    );
    put(&engine, &[(&a, "one"), (&b, "one")]);
    engine.drop_tree(b.id()).expect("drops");
    let c = engine.create_tree().expect("c");
    put(&engine, &[(&c, "two")]);
    after_crash(&machine, |engine| {
        assert!(engine.tree(b.id()).is_none());
        assert_eq!(keys(engine, a.id()), ["one"]);
        assert_eq!(keys(engine, c.id()), ["two"]);
    });
}

#[test]
fn a_decided_transaction_is_applied_to_the_trees_that_have_not_flushed_it() {
    let (machine, engine) = begin();
    let (a, b) = (
        engine.create_tree().expect("a"),
        engine.create_tree().expect("b"),
    );
    prepare(&engine, "x", &[(&a, "one"), (&b, "one")]);
    put(&engine, &[(&a, "between")]);
    commit_prepared(&engine, "x");
    flush(&engine, &b);
    after_crash(&machine, |engine| {
        assert_eq!(keys(engine, a.id()), ["between", "one"]);
        assert_eq!(keys(engine, b.id()), ["one"]);
        assert!(prepared(engine).is_empty() && !is_locked(engine, a.id(), "one"));
    });
}

#[test]
fn a_decision_whose_prepare_the_log_has_let_go_of_is_nothing_new() {
    let (machine, engine) = begin();
    let (a, b) = (
        engine.create_tree().expect("a"),
        engine.create_tree().expect("b"),
    );
    prepare(&engine, "x", &[(&b, "one")]);
    // The log is needed from here on, before the decision and behind the prepare.
    put(&engine, &[(&a, "holds the log")]);
    commit_prepared(&engine, "x");
    flush(&engine, &b);
    after_crash(&machine, |engine| {
        assert_eq!(keys(engine, a.id()), ["holds the log"]);
        assert_eq!(keys(engine, b.id()), ["one"]);
        assert!(prepared(engine).is_empty());
    });
}

#[test]
fn a_transaction_rolled_back_in_its_second_phase_leaves_nothing() {
    let (machine, engine) = begin();
    let a = engine.create_tree().expect("a");
    prepare(&engine, "x", &[(&a, "one")]);
    let _ = engine
        .rollback_prepared(&PreparedId::xa(b"x"), &[])
        .expect("rolls back");
    prepare(&engine, "x", &[(&a, "two")]);
    after_crash(&machine, |engine| {
        assert!(keys(engine, a.id()).is_empty());
        assert_eq!(prepared(engine), ["x"]);
        assert!(!is_locked(engine, a.id(), "one") && is_locked(engine, a.id(), "two"));
    });
}

#[test]
fn a_prepared_transaction_keeps_the_log_whatever_is_flushed() {
    let (machine, engine) = begin();
    let (a, b) = (
        engine.create_tree().expect("a"),
        engine.create_tree().expect("b"),
    );
    prepare(&engine, "x", &[(&a, "one"), (&b, "one")]);
    flush(&engine, &a);
    flush(&engine, &b);
    after_crash(&machine, |engine| {
        assert_eq!(prepared(engine), ["x"]);
        assert!(keys(engine, a.id()).is_empty() && is_locked(engine, b.id(), "one"));
    });
    commit_prepared(&engine, "x");
    after_crash(&machine, |engine| {
        assert!(prepared(engine).is_empty());
        assert_eq!(keys(engine, a.id()), ["one"]);
        assert_eq!(keys(engine, b.id()), ["one"]);
    });
}

#[test]
fn thousands_of_prepared_transactions_wait_with_their_locks() {
    const COUNT: usize = 3000;
    let (machine, engine) = begin();
    let a = engine.create_tree().expect("a");
    for number in 0..COUNT {
        let mut txn = engine.begin(Isolation::ReadCommitted);
        let key = format!("row-{number:06}");
        let granted = txn.lock(
            a.id(),
            key.as_bytes(),
            LockMode::Exclusive,
            WaitPolicy::NoWait,
        );
        assert!(granted.is_ok());
        txn.put(&a, key.as_bytes(), b"value").expect("put");
        txn.prepare(&PreparedId::xa(format!("xid-{number}").as_bytes()))
            .expect("prepares");
    }
    engine.flush_log().expect("durable");
    after_crash(&machine, |engine| {
        assert_eq!(prepared(engine).len(), COUNT);
        assert!(keys(engine, a.id()).is_empty());
        assert!(
            (0..COUNT)
                .step_by(97)
                .all(|n| is_locked(engine, a.id(), &format!("row-{n:06}")))
        );
    });
}

#[test]
fn counters_are_raised_by_commits_and_prepares_and_set_once() {
    let (machine, engine) = begin();
    let a = engine.create_tree().expect("a");
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(&a, b"one", b"").expect("put");
    txn.bump_counter(a.id(), 50);
    let _ = txn.commit().expect("commits");
    engine.set_counter(a.id(), 10).expect("set");
    txn.put(&a, b"two", b"").expect("put");
    txn.bump_counter(a.id(), 20);
    txn.prepare(&PreparedId::xa(b"x")).expect("prepares");
    engine.flush_log().expect("durable");
    // Numbers given to a transaction that is undecided are not given again.
    after_crash(&machine, |engine| assert_eq!(engine.counter(a.id()), 20));
}

#[test]
fn nothing_in_the_log_is_nothing_to_do() {
    let (machine, engine) = begin();
    let a = engine.create_tree().expect("a");
    put(&engine, &[(&a, "one")]);
    engine.flush_all().expect("flushes");
    after_crash(&machine, |engine| {
        assert_eq!(keys(engine, a.id()), ["one"]);
        assert_eq!(engine.stats().replayed.writes, 0);
    });
}

/// Others may have committed behind the last version of a memtable that is flushed. What a crash takes of that part of
/// the log is written anew in the next life, with the same sequences.
#[test]
fn what_is_committed_where_a_crash_took_the_log_is_replayed() {
    let mut flushed = 0;
    for cut in 0..40 {
        let (machine, engine) = begin();
        let (a, b) = (
            engine.create_tree().expect("a"),
            engine.create_tree().expect("b"),
        );
        put(&engine, &[(&a, "one")]);
        let mut txn = engine.begin(Isolation::ReadCommitted);
        txn.put(&b, b"not durable", &[7; 5000]).expect("put");
        let _ = txn.commit().expect("commits");
        machine.fs.halt_at(machine.fs.ops() + cut);
        let _ = engine.flush_all();
        let disk = machine.fs.crash_with(CrashImage::DropUnsynced);
        let machine = SimEnv::with_fs(disk, cut + 100);
        let engine = open(&machine, RecoveryMode::Parallel);
        let a = engine.tree(a.id()).expect("a");
        flushed += u64::from(engine.stats().storage.space.used_slots > 0);
        put(&engine, &[(&a, "two")]);
        after_crash(&machine, |engine| {
            assert_eq!(keys(engine, a.id()), ["one", "two"], "cut {cut}");
        });
    }
    assert!((1..40).contains(&flushed), "{flushed}");
}

/// The same for a tree that was made there.
#[test]
fn what_is_committed_to_a_tree_made_where_a_crash_took_the_log_is_replayed() {
    let (machine, engine) = begin();
    let a = engine.create_tree().expect("a");
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(&a, b"not durable", &[7; 5000]).expect("put");
    let _ = txn.commit().expect("commits");
    let b = engine.create_tree().expect("b").id();
    let disk = machine.fs.crash_with(CrashImage::DropUnsynced);
    let machine = SimEnv::with_fs(disk, 2);
    let engine = open(&machine, RecoveryMode::Parallel);
    let tree = engine.tree(b).expect("it was durable");
    put(&engine, &[(&tree, "one")]);
    after_crash(&machine, |engine| assert_eq!(keys(engine, b), ["one"]));
}
