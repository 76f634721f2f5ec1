//! Early lock release on a device that does not answer: locks are free and values readable before the sync, and
//! nobody who asks is told more than a crash would leave. And what is different when it is switched off, or commit is
//! asynchronous.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use esker_engine::{
    CancelReason, Engine, EngineConfig, EngineError, Isolation, LockMode, LockOutcome, PreparedId,
    Seq, Ticket, Tree, Txn, View, WaitCause, WaitPolicy,
};
use esker_vfs::sim::{CrashImage, SimEnv};

fn config() -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 1 << 20;
    config.on_fatal = Arc::new(|_| {});
    config
}

/// The segments of the log in use. Not the spares, which the log prepares and syncs when it likes: one of them is
/// neither the group that a test waits for nor the one whose sync is to fail.
const SEGMENTS: &str = ".wal";

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
    machine.fs.hold_syncs_of(SEGMENTS);

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
    machine.fs.hold_syncs_of(SEGMENTS);
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
    machine.fs.inject(Fault::on(Op::Sync).path(SEGMENTS));
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

/// Commits `value` for the row in the given transaction, with the lock.
fn write_row(txn: &mut Txn, tree: &Tree, value: &[u8]) -> Seq {
    assert!(lock(txn, tree, b"row"));
    txn.put(tree, b"row", value).unwrap();
    txn.commit().unwrap().seq.unwrap()
}

/// Stands in the queue of the row.
fn wait_for_row(txn: &Txn, tree: &Tree) -> Ticket {
    match txn.lock(tree.id(), b"row", LockMode::Exclusive, WaitPolicy::Wait) {
        Ok(LockOutcome::Wait(ticket)) => ticket,
        _ => panic!("the row is locked"),
    }
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn without_early_release_the_second_writer_waits_for_the_sync() {
    let machine = SimEnv::new(5);
    let (engine, tree) = with_row(&machine);
    engine.switches().set_early_lock_release(false);
    machine.fs.hold_syncs_of(SEGMENTS);
    let mut writer = engine.begin(Isolation::ReadCommitted);
    let first = write_row(&mut writer, &tree, b"new");
    // Nobody awaits the commit: the client has gone away.
    machine.fs.await_held_sync();
    let second = engine.begin(Isolation::ReadCommitted);
    assert!(!lock(&second, &tree, b"row"));
    assert!(!lock(&writer, &tree, b"row"));
    let mut ticket = wait_for_row(&second, &tree);
    assert!(is_pending(&mut ticket));

    // The reader rule is the same: the version is seen, and what depends on it waits.
    let reader = engine.begin(Isolation::ReadCommitted);
    let seen = reader.get(&tree, b"row", View::Snapshot).unwrap();
    assert_eq!(seen.as_deref(), Some(&b"new"[..]));
    let dependency = reader.dependency();
    assert_eq!(dependency, first);
    let mut reply = engine.wait_durable(dependency);
    assert!(is_pending(&mut reply));

    machine.fs.release_syncs();
    ticket.block(LONG).unwrap();
    assert!(engine.durable_seq() >= first);
    reply.block().unwrap();
    assert!(lock(&second, &tree, b"row"));
    let waits = engine.stats().log.waits(WaitCause::Lock);
    assert_eq!(waits.count, 1, "delay B of one transaction");
}

#[test]
fn who_is_told_of_durability_finds_the_locks_free() {
    let machine = SimEnv::new(6);
    let (engine, tree) = with_row(&machine);
    engine.switches().set_early_lock_release(false);
    // The same session and another one, again and again: never is a lock still held by a commit that is acknowledged.
    let mut sessions = [(); 2].map(|()| engine.begin(Isolation::ReadCommitted));
    for round in 0..200 {
        let seq = write_row(&mut sessions[round % 2], &tree, b"new");
        match round % 3 {
            0 => engine.wait_durable(seq).block().unwrap(),
            _ => while engine.durable_seq() < seq {},
        }
    }
    // Switched on again, the next lock goes at once.
    engine.switches().set_early_lock_release(true);
    machine.fs.hold_syncs_of(SEGMENTS);
    write_row(&mut sessions[0], &tree, b"new");
    assert!(lock(&sessions[1], &tree, b"row"));
    machine.fs.release_syncs();
}

#[test]
fn prepared_transactions_keep_their_locks_until_the_decision_is_durable() {
    let machine = SimEnv::new(7);
    let (engine, tree) = with_row(&machine);
    engine.switches().set_early_lock_release(false);
    let other = engine.begin(Isolation::ReadCommitted);
    for commits in [true, false] {
        let mut txn = engine.begin(Isolation::ReadCommitted);
        assert!(lock(&txn, &tree, b"row"));
        txn.put(&tree, b"row", b"new").unwrap();
        let prepared = txn.prepare(&PreparedId::xa(b"xid")).unwrap();
        engine.wait_durable(prepared).block().unwrap();
        assert!(!lock(&other, &tree, b"row"));
        machine.fs.hold_syncs_of(SEGMENTS);
        let decision = match commits {
            true => engine
                .commit_prepared(&PreparedId::xa(b"xid"), &[])
                .unwrap(),
            false => engine
                .rollback_prepared(&PreparedId::xa(b"xid"), &[])
                .unwrap(),
        };
        machine.fs.await_held_sync();
        assert!(!lock(&other, &tree, b"row"));
        machine.fs.release_syncs();
        engine.wait_durable(decision.seq.unwrap()).block().unwrap();
        assert!(lock(&other, &tree, b"row"));
        assert!(other.release(tree.id(), b"row"));
    }
}

#[test]
fn locks_are_not_lost_when_the_log_fails_or_ends() {
    use esker_vfs::sim::{Fault, Op};
    for fails in [true, false] {
        let machine = SimEnv::new(8);
        let (engine, tree) = with_row(&machine);
        engine.switches().set_early_lock_release(false);
        machine.fs.hold_syncs_of(SEGMENTS);
        let mut writer = engine.begin(Isolation::ReadCommitted);
        // The device is busy with an earlier group; the one of the row comes after it.
        writer.put(&tree, b"other", b"new").unwrap();
        let earlier = writer.commit().unwrap().seq.unwrap();
        let _asked = engine.wait_durable(earlier);
        machine.fs.await_held_sync();
        if fails {
            // Before the row's group can begin: another thread may send it after the first one at once.
            machine.fs.inject(Fault::on(Op::Sync).path(SEGMENTS));
        }
        let seq = write_row(&mut writer, &tree, b"new");
        let other = engine.begin(Isolation::ReadCommitted);
        let mut ticket = wait_for_row(&other, &tree);
        assert!(is_pending(&mut ticket));
        machine.fs.release_syncs();
        assert_eq!(engine.shutdown().is_err(), fails);
        ticket.block(LONG).unwrap();
        assert_eq!(engine.durable_seq() >= seq, !fails);
        assert!(lock(&other, &tree, b"row"));
    }
}

#[test]
fn a_session_can_be_killed_after_its_locks_went_to_the_log() {
    let machine = SimEnv::new(9);
    let (engine, tree) = with_row(&machine);
    engine.switches().set_early_lock_release(false);
    let mut session = engine.begin(Isolation::ReadCommitted);
    let canceller = session.wait_canceller();
    let seq = write_row(&mut session, &tree, b"new");
    engine.wait_durable(seq).block().unwrap();
    let other = engine.begin(Isolation::ReadCommitted);
    assert!(lock(&other, &tree, b"row"));
    let ticket = wait_for_row(&session, &tree);
    assert!(canceller.cancel(CancelReason::StatementKilled));
    let answer = ticket.block(LONG);
    let expected = EngineError::Cancelled(CancelReason::StatementKilled).to_string();
    assert_eq!(answer.unwrap_err().to_string(), expected);
}

#[test]
fn asynchronous_commit_waits_for_nothing() {
    let machine = SimEnv::new(10);
    let (engine, tree) = with_row(&machine);
    engine.switches().set_early_lock_release(false);
    engine.switches().set_async_commit(true);
    machine.fs.hold_syncs_of(SEGMENTS);
    let mut writer = engine.begin(Isolation::ReadCommitted);
    let seq = write_row(&mut writer, &tree, b"new");
    assert!(!is_pending(&mut engine.wait_durable(seq)));
    engine.wait_durable(seq).block().unwrap();
    assert!(engine.durable_seq() < seq);
    assert!(lock(&writer, &tree, b"row"));
    writer.rollback();
    // Off again, who asks is told the truth.
    engine.switches().set_async_commit(false);
    let mut durable = engine.wait_durable(seq);
    assert!(is_pending(&mut durable));
    machine.fs.release_syncs();
    durable.block().unwrap();
    assert!(engine.durable_seq() >= seq);
}
