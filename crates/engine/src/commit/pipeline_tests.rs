//! The commit pipeline without an engine: a log and trees on a simulated disk, and a background that is told what to
//! say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_vfs::sim::SimEnv;
use esker_wal::{FlushMode, Lsn, Record, Replay, Wal, WalConfig, WalError};
use parking_lot::Mutex;

use super::counters::Counters;
use super::entry::EntryBuffers;
use super::env::{Background, CommitEnv, Ingest};
use super::{Batch, commit, let_go_of_locks, note};
use crate::batch::WriteSet;
use crate::budget::MemoryBudget;
use crate::cache::BlockCache;
use crate::lock::{LockManager, LockMode, LockOutcome, WaitPolicy};
use crate::tree::{Tree, Trees, TreesConfig};
use crate::{EngineError, LATEST, Op, Result, Seq, TreeId};

/// Says what it was told to, and counts.
#[derive(Default)]
struct Told {
    refuses: Mutex<Option<EngineError>>,
    admitted: AtomicU64,
    inserted_into: AtomicU64,
}

impl Background for Told {
    fn ready(&self) -> Result<()> {
        Ok(())
    }

    fn admit_writer(&self, _: &WriteSet) -> Result<()> {
        self.admitted.fetch_add(1, Ordering::Relaxed);
        self.refuses.lock().clone().map_or(Ok(()), Err)
    }

    fn memtable_has(&self, _: &Tree, bytes: usize) {
        assert!(bytes > 0, "something was inserted");
        self.inserted_into.fetch_add(1, Ordering::Relaxed);
    }

    fn stage<'a>(
        &'a self,
        _: &mut WriteSet,
        _: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn Ingest + 'a>>> {
        unreachable!("nothing has moved to disk")
    }
}

struct Pipeline {
    machine: SimEnv,
    env: Arc<CommitEnv>,
    trees: Trees,
    background: Told,
    buffers: EntryBuffers,
}

fn log_config() -> WalConfig {
    let mut config = WalConfig::new("/db/wal");
    config.segment_bytes = 1 << 20;
    config.buffer_bytes = 1 << 20;
    config.mode = FlushMode::Manual;
    config
}

impl Pipeline {
    fn new() -> Self {
        let machine = SimEnv::new(1);
        let disk = machine.env();
        let config = TreesConfig::new("/db", BlockCache::new(1 << 20), Arc::new(|_| ()));
        let trees = Trees::open(&disk, config).unwrap();
        let (wal, _) = Wal::create_or_open(&disk, log_config(), Lsn(0)).unwrap();
        let budget = MemoryBudget::unlimited();
        let locks = LockManager::new([1, 2]);
        let env = CommitEnv::new(wal, locks, Counters::default(), budget, disk.clock.clone());
        Pipeline {
            machine,
            env,
            trees,
            background: Told::default(),
            buffers: EntryBuffers::default(),
        }
    }

    fn commit(
        &mut self,
        writes: &mut WriteSet,
        counters: &[(TreeId, u64)],
        attachment: &[u8],
    ) -> Result<Option<Seq>> {
        let batch = Batch {
            writes,
            counters,
            attachment: [&[], attachment],
            makes_room: false,
            buffers: &mut self.buffers,
            go_on: &|| true,
        };
        commit(&self.env, &self.background, batch)
    }

    /// Records that a restart would find: sequence, and whether they have an attachment.
    fn survivors(&self) -> Vec<(Seq, bool)> {
        let mut found = Vec::new();
        let mut sink = |record: Record<'_>| -> std::result::Result<(), WalError> {
            found.push((record.end.0, record.has_attachment));
            Ok(())
        };
        let disk = self.machine.crash(1).env();
        let (_, log) = Wal::create_or_open(&disk, log_config(), Lsn(0)).unwrap();
        replay(&log, &mut sink);
        found
    }
}

fn replay<R: Replay<Error = WalError>>(log: &esker_wal::LogReader, sink: &mut R) {
    log.replay(sink).expect("the log is whole");
}

fn put(writes: &mut WriteSet, tree: &Tree, key: &[u8]) {
    let value = b"value";
    writes
        .write(tree, key, Op::Put, value, u64::MAX, 0)
        .unwrap();
}

fn has(tree: &Tree, key: &[u8], seq: Seq) -> bool {
    let superversion = tree.superversion();
    superversion.active.get(key, seq).is_some()
}

#[test]
fn a_batch_is_logged_applied_and_visible_and_durable_later() {
    let mut pipeline = Pipeline::new();
    let tree = pipeline.trees.create(0).unwrap();
    let mut writes = WriteSet::default();
    assert_eq!(pipeline.commit(&mut writes, &[], &[]).unwrap(), None);
    assert_eq!(pipeline.background.admitted.load(Ordering::Relaxed), 0);
    put(&mut writes, &tree, b"key");
    let seq = pipeline.commit(&mut writes, &[(tree.id(), 9)], b"for others");
    let seq = seq.unwrap().expect("it was logged");
    let env = &pipeline.env;
    assert!(has(&tree, b"key", seq) && !has(&tree, b"key", seq - 1));
    assert_eq!(env.watermark.visible(), seq);
    assert_eq!(env.counters.get(tree.id()), 9);
    assert_eq!(pipeline.background.inserted_into.load(Ordering::Relaxed), 1);
    assert!(!env.may_be_told(seq), "it is not durable");
    assert_eq!(pipeline.survivors(), []);
    env.log.flush().unwrap();
    assert!(env.may_be_told(seq) && env.stable() == seq);
    assert_eq!(pipeline.survivors(), [(seq, true)]);
}

#[test]
fn what_is_refused_leaves_no_trace() {
    let mut pipeline = Pipeline::new();
    let tree = pipeline.trees.create(0).unwrap();
    let before = pipeline.env.log.end();
    *pipeline.background.refuses.lock() = Some(EngineError::DiskFull("full".into()));
    let mut writes = WriteSet::default();
    put(&mut writes, &tree, b"key");
    assert!(
        pipeline
            .commit(&mut writes, &[(tree.id(), 9)], &[])
            .is_err()
    );
    assert_eq!(pipeline.env.log.end(), before);
    assert!(!has(&tree, b"key", LATEST));
    assert_eq!(pipeline.env.counters.get(tree.id()), 0);
    // What makes room is let through.
    let batch = Batch {
        writes: &mut writes,
        counters: &[],
        attachment: [&[]; 2],
        makes_room: true,
        buffers: &mut pipeline.buffers,
        go_on: &|| true,
    };
    assert!(
        commit(&pipeline.env, &pipeline.background, batch)
            .unwrap()
            .is_some()
    );
}

#[test]
fn the_log_ends_at_its_ceiling_but_for_what_makes_room() {
    let mut pipeline = Pipeline::new();
    let tree = pipeline.trees.create(0).unwrap();
    let mut writes = WriteSet::default();
    put(&mut writes, &tree, b"key");
    let before = pipeline.env.log.end();
    pipeline.env.log.set_ceiling(Some(before));
    let refused = pipeline.commit(&mut writes, &[], &[]);
    assert!(matches!(refused, Err(EngineError::DiskFull(_))));
    let nothing = pipeline.commit(&mut WriteSet::default(), &[], &[]);
    assert_eq!(nothing.unwrap(), None);
    assert_eq!(pipeline.env.log.end(), before);
    let batch = Batch {
        writes: &mut writes,
        counters: &[],
        attachment: [&[]; 2],
        makes_room: true,
        buffers: &mut pipeline.buffers,
        go_on: &|| true,
    };
    let made = commit(&pipeline.env, &pipeline.background, batch).unwrap();
    assert!(made.is_some_and(|seq| seq > before));
    pipeline.env.log.set_ceiling(None);
    put(&mut writes, &tree, b"other");
    assert!(pipeline.commit(&mut writes, &[], &[]).unwrap().is_some());
}

#[test]
fn writes_that_were_undone_leave_a_note_or_nothing() {
    let mut pipeline = Pipeline::new();
    let tree = pipeline.trees.create(0).unwrap();
    let mut writes = WriteSet::default();
    put(&mut writes, &tree, b"key");
    writes.roll_back_to(0);
    assert_eq!(pipeline.commit(&mut writes, &[], &[]).unwrap(), None);
    let seq = pipeline.commit(&mut writes, &[], b"note").unwrap();
    assert_eq!(Some(pipeline.env.watermark.visible()), seq);
    assert_eq!(pipeline.background.inserted_into.load(Ordering::Relaxed), 0);
}

#[test]
fn locks_go_with_the_place_in_the_log_or_with_the_flush() {
    let pipeline = Pipeline::new();
    let env = &pipeline.env;
    let mut buffers = EntryBuffers::default();
    for early in [true, false] {
        env.switches.set_early_lock_release(early);
        let lock = |owner: &_| {
            let (mode, wait) = (LockMode::Exclusive, WaitPolicy::NoWait);
            let outcome = env.locks.lock(owner, TreeId(1), b"row", mode, wait, 0);
            matches!(outcome, Ok(LockOutcome::Granted { .. }))
        };
        let (mut owner, other) = (env.locks.new_owner(), env.locks.new_owner());
        assert!(lock(&owner));
        let seq = note(env, &mut buffers, [b"note", &[]]).unwrap();
        let is_another = let_go_of_locks(env, &mut owner, seq);
        assert_eq!(is_another, !early);
        assert_eq!(lock(&other), early);
        env.log.flush().unwrap();
        assert!(lock(&other), "free at the latest with the flush");
        env.locks.release_all(&other);
    }
}

/// Others have to acknowledge: replies and durable snapshots wait for that, also those that begin to wait before it is
/// demanded.
#[test]
fn what_others_must_acknowledge_is_not_told_before() {
    let pipeline = Pipeline::new();
    let env = &pipeline.env;
    let mut buffers = EntryBuffers::default();
    let mut log = || note(env, &mut buffers, [b"note", &[]]).unwrap();
    let first = log();
    env.log.flush().unwrap();
    assert!(env.may_be_told(first));
    env.log
        .while_nothing_is_taken(|taken| env.gate.hold(taken, || env.log.end()));
    assert!(env.may_be_told(first), "what was told stays told");
    let (second, third) = (log(), log());
    env.log.flush().unwrap();
    assert_eq!(env.stable(), first);
    assert!(!env.may_be_told(second));
    let waiting = env.wait_durable(second);
    env.gate.acknowledge(second);
    waiting.block().unwrap();
    assert!(env.may_be_told(second) && !env.may_be_told(third));
    let waiting = env.wait_durable(third);
    env.gate.release();
    waiting.block().unwrap();
    assert_eq!(env.stable(), third);
}
