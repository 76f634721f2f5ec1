//! Early lock release on a device that does not answer: locks are free and values readable before the sync, and
//! nobody who asks is told more than a crash would leave.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use esker_engine::{
    Engine, EngineConfig, Isolation, LockMode, LockOutcome, Tree, Txn, View, WaitPolicy,
};
use esker_vfs::sim::{CrashImage, SimEnv};

fn config() -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 1 << 20;
    config.on_fatal = Arc::new(|_| {});
    config
}

fn lock(txn: &Txn, tree: &Tree, key: &[u8]) -> bool {
    let outcome = txn.lock(tree.id(), key, LockMode::Exclusive, WaitPolicy::NoWait);
    matches!(outcome, Ok(LockOutcome::Granted { .. }))
}

fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(Pin::new(future).poll(&mut context), Poll::Pending)
}

/// An engine with one row, durable.
fn with_row(machine: &SimEnv) -> (Engine, Tree) {
    let engine = Engine::open(machine.env(), config()).unwrap();
    let tree = engine.create_tree().unwrap();
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(&tree, b"row", b"old").unwrap();
    let seq = txn.commit().unwrap().seq.unwrap();
    engine.wait_durable(seq).block().unwrap();
    assert!(engine.durable_seq() >= seq);
    (engine, tree)
}

#[test]
fn locks_are_free_and_the_reader_depends_before_the_sync() {
    let machine = SimEnv::new(1);
    let (engine, tree) = with_row(&machine);
    machine.fs.hold_syncs();

    let mut writer = engine.begin(Isolation::ReadCommitted);
    assert!(lock(&writer, &tree, b"row"));
    writer.put(&tree, b"row", b"new").unwrap();
    let mut other = engine.begin(Isolation::ReadCommitted);
    assert!(!lock(&other, &tree, b"row"));
    let first = writer.commit().unwrap().seq.unwrap();
    let mut first_durable = engine.wait_durable(first);
    machine.fs.await_held_sync();
    assert!(engine.durable_seq() < first);

    // The lock is free although nothing is durable, and the new version is there.
    assert!(lock(&other, &tree, b"row"));
    assert_eq!(
        other.get(&tree, b"row", View::Latest).unwrap().unwrap(),
        b"new"
    );
    assert_eq!(other.dependency(), first);
    let reader = engine.begin(Isolation::ReadCommitted);
    assert_eq!(
        reader.get(&tree, b"row", View::Snapshot).unwrap().unwrap(),
        b"new"
    );
    let dependency = reader.dependency();
    assert_eq!(dependency, first);
    assert!(dependency > engine.durable_seq());
    let mut reply = engine.wait_durable(dependency);

    // A dependent transaction has a later place in the log.
    other.put(&tree, b"row", b"newer").unwrap();
    let second = other.commit().unwrap().seq.unwrap();
    assert!(second > first);
    let mut second_durable = engine.wait_durable(second);
    assert!(is_pending(&mut first_durable));
    assert!(is_pending(&mut reply));
    assert!(is_pending(&mut second_durable));

    machine.fs.release_syncs();
    first_durable.block().unwrap();
    reply.block().unwrap();
    second_durable.block().unwrap();
    assert!(engine.durable_seq() >= second);
}

#[test]
fn a_crash_takes_back_only_what_nobody_was_told() {
    let machine = SimEnv::new(2);
    let (engine, tree) = with_row(&machine);
    machine.fs.hold_syncs();
    let mut writer = engine.begin(Isolation::ReadCommitted);
    writer.put(&tree, b"row", b"new").unwrap();
    let seq = writer.commit().unwrap().seq.unwrap();
    let mut durable = engine.wait_durable(seq);
    machine.fs.await_held_sync();
    let reader = engine.begin(Isolation::ReadCommitted);
    assert_eq!(
        reader.get(&tree, b"row", View::Snapshot).unwrap().unwrap(),
        b"new"
    );
    let mut reply = engine.wait_durable(reader.dependency());
    assert!(is_pending(&mut durable) && is_pending(&mut reply));

    let after = SimEnv::with_fs(machine.fs.crash_with(CrashImage::DropUnsynced), 3);
    let restarted = Engine::open(after.env(), config()).unwrap();
    let tree_after = restarted.tree(tree.id()).unwrap();
    let check = restarted.begin(Isolation::ReadCommitted);
    assert_eq!(
        check
            .get(&tree_after, b"row", View::Snapshot)
            .unwrap()
            .unwrap(),
        b"old"
    );
    machine.fs.release_syncs();
}

#[test]
fn failed_sync_ends_the_engine_and_is_not_tried_again() {
    use esker_vfs::sim::{Fault, Op};
    let machine = SimEnv::new(4);
    let told = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut config = config();
    let counter = Arc::clone(&told);
    config.on_fatal = Arc::new(move |_| {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    });
    let engine = Engine::open(machine.env(), config).unwrap();
    let tree = engine.create_tree().unwrap();
    machine.fs.inject(Fault::on(Op::Sync).path("wal"));
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(&tree, b"k", b"v").unwrap();
    let seq = txn.commit().unwrap().seq.unwrap();
    assert!(engine.wait_durable(seq).block().is_err());
    assert!(told.load(std::sync::atomic::Ordering::SeqCst) >= 1);
    // The disk would work again, but the log must not: the kernel may have dropped the bytes.
    assert!(engine.wait_durable(seq).block().is_err());
    txn.put(&tree, b"k", b"w").unwrap();
    assert!(txn.commit().is_err());
    assert!(engine.durable_seq() < seq);
}
