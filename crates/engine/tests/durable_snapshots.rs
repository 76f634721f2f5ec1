//! Snapshots at what is durable, on a device that does not answer: what is left out has been told to nobody, and what a
//! session may know of is never left out.

use std::sync::Arc;

use esker_engine::{
    Engine, EngineConfig, Isolation, LockMode, LockOutcome, Seq, SnapshotAt, Tree, Txn, View,
    WaitPolicy,
};
use esker_vfs::sim::SimEnv;

/// An engine with two rows and a mutex, durable, whose device answers no sync any more; and a commit that has changed
/// both rows under the mutex and is not durable.
struct World {
    machine: SimEnv,
    engine: Engine,
    tree: Tree,
    writer: Txn,
    commit: Seq,
}

impl Drop for World {
    fn drop(&mut self) {
        // The log's threads end with the engine.
        self.machine.fs.release_syncs();
    }
}

fn world() -> World {
    let machine = SimEnv::new(1);
    let mut config = EngineConfig::new("/db");
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 1 << 20;
    config.on_fatal = Arc::new(|_| {});
    let engine = Engine::open(machine.env(), config).unwrap();
    let tree = engine.create_tree().unwrap();
    let mut writer = session(&engine);
    let write = |writer: &mut Txn, value: &[u8]| {
        lock(writer, &tree, b"mutex");
        writer.put(&tree, b"a", value).unwrap();
        writer.put(&tree, b"b", value).unwrap();
        writer.commit().unwrap().seq.unwrap()
    };
    let first = write(&mut writer, b"old");
    engine.wait_durable(first).block().unwrap();
    machine.fs.hold_syncs();
    let commit = write(&mut writer, b"new");
    World {
        machine,
        engine,
        tree,
        writer,
        commit,
    }
}

fn session(engine: &Engine) -> Txn {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.set_snapshot_at(SnapshotAt::Durable);
    txn
}

fn lock(txn: &Txn, tree: &Tree, key: &[u8]) {
    let outcome = txn.lock(tree.id(), key, LockMode::Exclusive, WaitPolicy::NoWait);
    assert!(matches!(outcome, Ok(LockOutcome::Granted { .. })));
}

impl World {
    fn read(&self, txn: &Txn, key: &[u8]) -> Vec<u8> {
        txn.get(&self.tree, key, View::Snapshot).unwrap().unwrap()
    }
}

#[test]
fn a_reader_leaves_out_what_is_not_durable_and_need_not_wait() {
    let world = world();
    let mut reader = session(&world.engine);
    assert_eq!(world.read(&reader, b"a"), b"old");
    assert!(reader.dependency() <= world.engine.durable_seq());
    assert!(world.engine.durable_seq() < world.commit);
    let repeatable = {
        let mut txn = session(&world.engine);
        txn.set_isolation(Isolation::RepeatableRead);
        assert_eq!(world.read(&txn, b"a"), b"old");
        txn
    };
    world.machine.fs.release_syncs();
    world.engine.wait_durable(world.commit).block().unwrap();
    reader.new_statement();
    assert_eq!(world.read(&reader, b"a"), b"new");
    // Its snapshot holds the old version in the tiers.
    world.engine.flush_all().unwrap();
    world.engine.compact().unwrap();
    assert_eq!(world.read(&repeatable, b"b"), b"old");
}

#[test]
fn own_commits_are_seen() {
    let world = world();
    assert_eq!(world.read(&world.writer, b"a"), b"new");
    assert_eq!(world.writer.dependency(), world.commit);
}

#[test]
fn a_commit_that_was_met_is_seen_as_a_whole() {
    let world = world();
    let mut reader = session(&world.engine);
    let met = reader.get(&world.tree, b"a", View::Latest).unwrap();
    assert_eq!(met.unwrap(), b"new");
    // Whether or not the session has been asked what it depends on.
    assert_eq!(world.read(&reader, b"b"), b"new");
    assert_eq!(reader.dependency(), world.commit);
    reader.new_statement();
    assert_eq!(world.read(&reader, b"b"), b"new");
}

#[test]
fn who_gets_a_lock_sees_what_was_done_under_it() {
    let world = world();
    let mut reader = session(&world.engine);
    assert_eq!(world.read(&reader, b"a"), b"old");
    reader.new_statement();
    lock(&reader, &world.tree, b"mutex");
    assert_eq!(world.read(&reader, b"a"), b"new");
    // Also in the transactions after it.
    reader.rollback();
    assert_eq!(world.read(&reader, b"a"), b"new");
    let mut other = session(&world.engine);
    assert_eq!(world.read(&other, b"a"), b"old");
    other.learn_of_commits();
    other.new_statement();
    assert_eq!(world.read(&other, b"a"), b"new");
}

#[test]
fn switched_off_everything_committed_is_seen() {
    let world = world();
    world.engine.switches().set_durable_snapshots(false);
    let reader = session(&world.engine);
    assert_eq!(world.read(&reader, b"a"), b"new");
    assert_eq!(reader.dependency(), world.commit);
}
