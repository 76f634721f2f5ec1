//! The ordered commit with a second log in memory: stages by hand and by threads, refusals, restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker_vfs::sim::SimEnv;
use parking_lot::Mutex;

use super::{CommitStage, DecidedEntry, DecidingLog, Gathering, Harden};
use crate::engine::tests::{config, engine_on, memory_engine};
use crate::{
    Engine, EngineError, Isolation, LockMode, LockOutcome, PendingCommit, PreparedId, Result, Seq,
    Tree, View, WaitPolicy,
};

/// Keeps what it is given, and says what it was told to.
#[derive(Default)]
struct Memory {
    written: Mutex<Vec<(u64, Vec<u8>)>>,
    groups: Mutex<Vec<usize>>,
    synced: Mutex<usize>,
    commits: Mutex<Vec<Option<Seq>>>,
    refuses: AtomicBool,
    pauses: AtomicBool,
    paused: Mutex<Vec<usize>>,
    gathering: Mutex<Gathering>,
    syncs: Mutex<Vec<usize>>,
}

impl DecidingLog for Memory {
    fn write(&self, group: &[DecidedEntry<'_>]) -> Result<()> {
        if self.refuses.swap(false, Ordering::SeqCst) {
            return Err(EngineError::DiskFull("the second log".into()));
        }
        let entries = group.iter().map(|e| (e.number, e.attachment.to_vec()));
        self.written.lock().extend(entries);
        self.groups.lock().push(group.len());
        Ok(())
    }

    fn gathers(&self) -> Gathering {
        *self.gathering.lock()
    }

    fn sync(&self) -> Result<()> {
        let written = self.written.lock().len();
        self.syncs.lock().push(written);
        *self.synced.lock() = written;
        Ok(())
    }

    fn committed(&self, commits: &[Option<Seq>]) {
        let mut all = self.commits.lock();
        all.extend_from_slice(commits);
        assert!(
            all.len() <= *self.synced.lock(),
            "nothing commits before it is synced"
        );
    }

    fn wants_pause(&self) -> bool {
        self.pauses.swap(false, Ordering::SeqCst)
    }

    fn pause(&self, _: Seq) {
        let (written, commits) = (self.written.lock().len(), self.commits.lock().len());
        assert_eq!(written, commits, "nothing is under way");
        self.paused.lock().push(written);
    }

    fn fail(&self, error: &EngineError) {
        panic!("{error}");
    }
}

fn open(harden: Harden) -> (Engine, Tree, Arc<Memory>) {
    let engine = memory_engine();
    let tree = engine.create_tree().unwrap();
    let log = Arc::new(Memory::default());
    engine.decide_by(log.clone(), 1, harden);
    (engine, tree, log)
}

fn enter(engine: &Engine, tree: &Tree, key: &[u8]) -> PendingCommit {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    lock(&mut txn, tree, key);
    txn.put(tree, key, b"value").unwrap();
    txn.attach(key).unwrap();
    txn.enter_commit().unwrap()
}

fn lock(txn: &mut crate::Txn, tree: &Tree, key: &[u8]) {
    let outcome = txn.lock(tree.id(), key, LockMode::Exclusive, WaitPolicy::NoWait);
    assert!(matches!(outcome, Ok(LockOutcome::Granted { .. })));
}

fn is_locked(engine: &Engine, tree: &Tree, key: &[u8]) -> bool {
    let txn = engine.begin(Isolation::ReadCommitted);
    let outcome = txn.lock(tree.id(), key, LockMode::Exclusive, WaitPolicy::NoWait);
    matches!(outcome, Err(EngineError::LockNotAvailable))
}

fn has(engine: &Engine, tree: &Tree, key: &[u8]) -> bool {
    let txn = engine.begin(Isolation::ReadCommitted);
    txn.get(tree, key, View::Latest).unwrap().is_some()
}

fn finish(engine: &Engine) {
    for stage in [CommitStage::Flush, CommitStage::Sync, CommitStage::Commit] {
        engine.run_commit_stage(stage);
    }
}

#[test]
fn a_group_is_hardened_once_and_commits_in_its_order_behind_the_second_log() {
    let (engine, tree, log) = open(Harden::PerGroup);
    let durable = engine.durable_seq();
    let pending = [b"c", b"a", b"b"].map(|key| enter(&engine, &tree, key));
    assert_eq!(
        engine.durable_seq(),
        durable,
        "nobody has hardened anything"
    );
    let flushes = engine.stats().log.flushes;
    assert!(engine.run_commit_stage(CommitStage::Flush));
    assert_eq!(engine.stats().log.flushes, flushes + 1);
    let written: Vec<_> = log.written.lock().iter().map(|(n, _)| *n).collect();
    assert_eq!((written, &**log.groups.lock()), (vec![1, 2, 3], &[3][..]));
    // The next group is prepared and written while the first one is synced.
    let next = enter(&engine, &tree, b"d");
    assert!(!engine.run_commit_stage(CommitStage::Flush), "it follows");
    assert!(engine.run_commit_stage(CommitStage::Sync));
    assert!(pending[0].result().is_none() && !has(&engine, &tree, b"a"));
    assert!(is_locked(&engine, &tree, b"a"));
    engine.run_commit_stage(CommitStage::Commit);
    let seqs: Vec<_> = pending
        .iter()
        .chain([&next])
        .map(|p| p.result().unwrap().unwrap().seq.unwrap())
        .collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
    assert_eq!(
        *log.commits.lock(),
        seqs.iter().copied().map(Some).collect::<Vec<_>>()
    );
    assert!(has(&engine, &tree, b"a") && !is_locked(&engine, &tree, b"a"));
}

#[test]
fn what_is_decided_may_be_told_before_it_is_durable_but_not_what_this_log_alone_has() {
    let (engine, tree, _) = open(Harden::PerGroup);
    let pending = enter(&engine, &tree, b"a");
    finish(&engine);
    let seq = pending.result().unwrap().unwrap().seq.unwrap();
    assert!(engine.durable_seq() < seq && engine.may_be_told(seq));
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(&tree, b"alone", b"").unwrap();
    let alone = txn.commit().unwrap().seq.unwrap();
    assert!(!engine.may_be_told(alone));
    let pending = enter(&engine, &tree, b"b");
    engine.run_commit_stage(CommitStage::Flush);
    assert!(engine.may_be_told(alone), "hardened with the group");
    engine.run_commit_stage(CommitStage::Sync);
    txn.put(&tree, b"alone", b"again").unwrap();
    let alone = txn.commit().unwrap().seq.unwrap();
    engine.run_commit_stage(CommitStage::Commit);
    let seq = pending.result().unwrap().unwrap().seq.unwrap();
    assert!(
        alone < seq && !engine.may_be_told(seq),
        "a snapshot there sees what may be lost"
    );
    engine.wait_durable(seq).block().unwrap();
    assert!(engine.may_be_told(seq));
}

#[test]
fn what_the_second_log_refuses_is_rolled_back_and_its_numbers_are_given_again() {
    let (engine, tree, log) = open(Harden::PerGroup);
    let first = enter(&engine, &tree, b"a");
    finish(&engine);
    assert!(first.result().unwrap().is_ok());
    log.refuses.store(true, Ordering::SeqCst);
    let refused = [b"b", b"c"].map(|key| enter(&engine, &tree, key));
    assert!(!engine.run_commit_stage(CommitStage::Flush));
    for pending in &refused {
        let result = pending.result().unwrap();
        assert!(matches!(result, Err(EngineError::DiskFull(_))));
    }
    assert!(!has(&engine, &tree, b"b") && !is_locked(&engine, &tree, b"b"));
    assert!(
        !engine.run_commit_stage(CommitStage::Flush),
        "nothing is left"
    );
    let again = enter(&engine, &tree, b"b");
    finish(&engine);
    assert!(again.result().unwrap().is_ok() && has(&engine, &tree, b"b"));
    let written: Vec<_> = log.written.lock().iter().map(|(n, _)| *n).collect();
    assert_eq!(written, [1, 2], "no number is missing");
    assert_eq!(engine.prepared_count(), 0);
}

#[test]
fn a_restart_commits_what_the_second_log_has_and_rolls_the_others_back() {
    // How far the last commit came, and whether it is there afterwards.
    for (stages, last, is_there) in [(0, 1, false), (1, 1, false), (1, 2, true), (2, 2, true)] {
        let machine = SimEnv::new(1);
        let engine = engine_on(&machine);
        let tree = engine.create_tree().unwrap();
        engine.decide_by(Arc::new(Memory::default()), 1, Harden::PerGroup);
        let _first = enter(&engine, &tree, b"a");
        finish(&engine);
        let _second = enter(&engine, &tree, b"b");
        for stage in [CommitStage::Flush, CommitStage::Sync].iter().take(stages) {
            engine.run_commit_stage(*stage);
        }
        let id = tree.id();
        let machine = machine.crash(7);
        let engine = engine_on(&machine);
        let tree = engine.tree(id).unwrap();
        let (committed, rolled_back) = engine.decide_prepared(last).unwrap();
        // The decision about the first one was not durable unless the second one was hardened.
        assert!(committed + rolled_back >= 1, "{stages} {last}");
        assert!(has(&engine, &tree, b"a"), "it was told");
        assert_eq!(has(&engine, &tree, b"b"), is_there, "{stages} {last}");
        assert_eq!(engine.prepared_count(), 0);
        let engine = engine_on(&machine.crash(8));
        assert_eq!(engine.prepared_count(), 0, "decisions are durable");
    }
}

#[test]
fn sessions_lead_and_follow_until_all_is_committed_in_one_order() {
    const SESSIONS: u64 = 6;
    const COMMITS: u64 = 40;
    for harden in [Harden::PerGroup, Harden::PerTransaction] {
        let (engine, tree, log) = open(harden);
        std::thread::scope(|scope| {
            for session in 0..SESSIONS {
                let (engine, tree, log) = (&engine, &tree, &log);
                scope.spawn(move || {
                    let mut txn = engine.begin(Isolation::ReadCommitted);
                    for n in 0..COMMITS {
                        let key = [session.to_be_bytes(), n.to_be_bytes()].concat();
                        txn.put(tree, &key, b"").unwrap();
                        txn.attach(&key).unwrap();
                        if n % 8 == 0 {
                            log.pauses.store(true, Ordering::SeqCst);
                        }
                        let seq = txn.commit().unwrap().seq.unwrap();
                        assert!(engine.visible_seq() >= seq);
                        assert!(txn.get(tree, &key, View::Latest).unwrap().is_some());
                        engine.note(b"note").unwrap();
                    }
                });
            }
        });
        let written = log.written.lock();
        let total = SESSIONS * COMMITS * 2;
        let numbers: Vec<_> = written.iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, (1..=total).collect::<Vec<_>>());
        let seqs: Vec<_> = log.commits.lock().iter().flatten().copied().collect();
        assert!(seqs.is_sorted() && seqs.len() as u64 == total / 2);
        assert!(!log.paused.lock().is_empty());
        assert_eq!(engine.prepared_count(), 0);
    }
}

fn enter_prepare(engine: &Engine, tree: &Tree, key: &[u8]) -> PendingCommit {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    lock(&mut txn, tree, key);
    txn.put(tree, key, b"value").unwrap();
    txn.attach(key).unwrap();
    txn.enter_prepare(&PreparedId::xa(key)).unwrap()
}

#[test]
fn a_restart_does_with_a_branch_what_the_second_log_says_after_any_step() {
    // The steps: prepare, then commit or roll back, each with how many of its stages are done before the crash.
    for (step, stages, has_it) in (0..3)
        .flat_map(|step| (0..3).map(move |stages| (step, stages)))
        .flat_map(|(step, stages)| {
            let may_have: &[bool] = if stages == 0 {
                &[false]
            } else {
                &[false, true]
            };
            let may_have = if stages == 2 { &[true] } else { may_have };
            may_have.iter().map(move |has_it| (step, stages, *has_it))
        })
    {
        let case = format!("step {step}, {stages} stages, in the second log: {has_it}");
        let machine = SimEnv::new(1);
        let engine = engine_on(&machine);
        let tree = engine.create_tree().unwrap();
        engine.decide_by(Arc::new(Memory::default()), 1, Harden::PerGroup);
        let id = PreparedId::xa(b"a");
        let mut pending = enter_prepare(&engine, &tree, b"a");
        if step > 0 {
            finish(&engine);
            assert!(pending.result().unwrap().is_ok());
            assert!(is_locked(&engine, &tree, b"a") && !has(&engine, &tree, b"a"));
            pending = engine.enter_decision(&id, step == 1, b"decision").unwrap();
        }
        for stage in [CommitStage::Flush, CommitStage::Sync].iter().take(stages) {
            engine.run_commit_stage(*stage);
        }
        assert!(pending.result().is_none());
        let tree_id = tree.id();
        let last = u64::from(step > 0) + u64::from(has_it);
        let mut machine = machine.crash(7);
        for again in [false, true] {
            let engine = engine_on(&machine);
            let tree = engine.tree(tree_id).unwrap();
            engine.decide_prepared(last).unwrap();
            let left: Vec<_> = engine.prepared().into_iter().map(|(id, _)| id).collect();
            let is_prepared = (step == 0) == has_it;
            let expected = if is_prepared {
                vec![id.clone()]
            } else {
                vec![]
            };
            assert_eq!(left, expected, "{case}, again: {again}");
            assert_eq!(is_locked(&engine, &tree, b"a"), is_prepared, "{case}");
            assert_eq!(has(&engine, &tree, b"a"), step == 1 && has_it, "{case}");
            machine = machine.crash(8);
        }
    }
}

#[test]
fn a_branch_that_the_second_log_refuses_is_as_it_was_before() {
    let (engine, tree, log) = open(Harden::PerGroup);
    log.refuses.store(true, Ordering::SeqCst);
    let pending = enter_prepare(&engine, &tree, b"a");
    engine.run_commit_stage(CommitStage::Flush);
    assert!(matches!(
        pending.result().unwrap(),
        Err(EngineError::DiskFull(_))
    ));
    assert_eq!(engine.prepared_count(), 0, "a prepare is rolled back");
    assert!(!is_locked(&engine, &tree, b"a"));
    let _prepared = enter_prepare(&engine, &tree, b"a");
    finish(&engine);
    let id = PreparedId::xa(b"a");
    for commits in [true, false] {
        log.refuses.store(true, Ordering::SeqCst);
        let pending = engine.enter_decision(&id, commits, b"decision").unwrap();
        engine.run_commit_stage(CommitStage::Flush);
        assert!(pending.result().unwrap().is_err());
        assert_eq!(engine.prepared_count(), 1, "nothing is decided");
        assert!(is_locked(&engine, &tree, b"a"));
    }
    let pending = engine.enter_decision(&id, true, b"decision").unwrap();
    finish(&engine);
    let seq = pending.result().unwrap().unwrap().seq.unwrap();
    assert!(has(&engine, &tree, b"a") && engine.may_be_told(seq));
    assert!(matches!(
        engine.enter_decision(&id, true, b"decision"),
        Err(EngineError::NoSuchPrepared)
    ));
    let written: Vec<_> = log.written.lock().iter().map(|(n, _)| *n).collect();
    assert_eq!(written, [1, 2], "no number is missing");
}

#[test]
fn a_sync_waits_for_as_many_as_it_is_to_serve() {
    const SESSIONS: usize = 3;
    let (engine, tree, log) = open(Harden::PerGroup);
    *log.gathering.lock() = Gathering {
        at_most: Duration::from_secs(600),
        transactions: SESSIONS,
    };
    std::thread::scope(|scope| {
        for session in 0..SESSIONS as u8 {
            let (engine, tree) = (&engine, &tree);
            scope.spawn(move || {
                let mut txn = engine.begin(Isolation::ReadCommitted);
                txn.put(tree, &[session], b"").unwrap();
                txn.attach(&[session]).unwrap();
                txn.commit().unwrap()
            });
        }
    });
    assert_eq!(*log.syncs.lock(), [SESSIONS], "one for all");
    *log.gathering.lock() = Gathering {
        at_most: Duration::from_micros(1),
        transactions: 0,
    };
    engine.note(b"note").unwrap();
    assert_eq!(log.syncs.lock().len(), 2, "it does not wait for ever");
}

/// A machine, and an engine on it whose transactions bring extents when they have written a little.
fn small(machine: &SimEnv) -> Engine {
    let mut config = config();
    config.txn_memory_bytes = 300;
    Engine::open(machine.env(), config).unwrap()
}

fn enter_large(engine: &Engine, tree: &Tree) -> PendingCommit {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for key in 0..40u8 {
        lock(&mut txn, tree, &[key]);
        txn.put(tree, &[key], &[key; 60]).unwrap();
    }
    assert!(txn.has_spilled());
    txn.attach(b"large").unwrap();
    txn.enter_commit().unwrap()
}

#[test]
fn a_large_transaction_is_whole_or_not_there_whatever_the_second_log_has_of_it() {
    for (stages, has_it) in [(0, false), (1, false), (1, true), (2, true), (3, true)] {
        let case = format!("{stages} stages, in the second log: {has_it}");
        let machine = SimEnv::new(1);
        let engine = small(&machine);
        let tree = engine.create_tree().unwrap();
        engine.decide_by(Arc::new(Memory::default()), 1, Harden::PerGroup);
        let pending = enter_large(&engine, &tree);
        let all = [CommitStage::Flush, CommitStage::Sync, CommitStage::Commit];
        for stage in all.iter().take(stages) {
            assert!(!has(&engine, &tree, &[7]), "{case}");
            engine.run_commit_stage(*stage);
        }
        assert_eq!(pending.result().is_some(), stages == 3);
        assert_eq!(has(&engine, &tree, &[7]), stages == 3, "{case}");
        let id = tree.id();
        let mut machine = machine.crash(7);
        for _again in 0..2 {
            let engine = small(&machine);
            let tree = engine.tree(id).unwrap();
            engine.decide_prepared(u64::from(has_it)).unwrap();
            assert_eq!(engine.prepared_count(), 0);
            for key in 0..40 {
                assert_eq!(has(&engine, &tree, &[key]), has_it, "{case}: {key}");
                assert!(!is_locked(&engine, &tree, &[key]), "{case}");
            }
            engine.maintain().unwrap();
            machine = machine.crash(8);
        }
    }
}

#[test]
fn a_large_transaction_that_the_second_log_refuses_leaves_nothing() {
    let machine = SimEnv::new(1);
    let engine = small(&machine);
    let tree = engine.create_tree().unwrap();
    let log = Arc::new(Memory::default());
    engine.decide_by(log.clone(), 1, Harden::PerGroup);
    log.refuses.store(true, Ordering::SeqCst);
    let pending = enter_large(&engine, &tree);
    engine.run_commit_stage(CommitStage::Flush);
    assert!(pending.result().unwrap().is_err());
    assert!(!has(&engine, &tree, &[7]) && !is_locked(&engine, &tree, &[7]));
    let pending = enter_large(&engine, &tree);
    finish(&engine);
    assert!(pending.result().unwrap().is_ok());
    assert!(has(&engine, &tree, &[7]) && has(&engine, &tree, &[39]));
}
