//! The ways to replay a log: all of them give the same database, also with little memory, also when the power goes
//! again and again meanwhile; and work that is admitted early sees what it would have seen late.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;

use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, LockMode, LockOutcome, Mode,
    Namespace, PreparedId, RecoveryMode, ReplayPhase, Tree, TreeId, Txn, View, WaitPolicy,
};
use esker_vfs::OpenMode;
use esker_vfs::sim::{CrashImage, SimEnv, SimRng};

const TREES: u64 = 5;
const KEYS: u64 = 400;

fn config() -> EngineConfig {
    EngineConfig {
        memory_limit: 16 << 20,
        memtable_bytes: 1 << 20,
        log_limit_bytes: 1 << 30,
        ..EngineConfig::small("/db")
    }
}

/// A fresh copy of what is safe on the disk.
fn copy(machine: &SimEnv, seed: u64) -> SimEnv {
    SimEnv::with_fs(machine.fs.crash_with(CrashImage::DropUnsynced), seed)
}

fn key_of(n: u64) -> Vec<u8> {
    // Two shapes: short keys, and long ones that begin alike.
    match n % 3 {
        0 => n.to_be_bytes().to_vec(),
        1 => format!("a rather long beginning {:05}", n % KEYS).into_bytes(),
        _ => vec![b'k', (n % 251) as u8],
    }
}

fn lock(txn: &Txn, tree: TreeId, key: &[u8]) -> bool {
    let outcome = txn.lock(tree, key, LockMode::Exclusive, WaitPolicy::NoWait);
    match outcome {
        Ok(LockOutcome::Granted { .. }) => true,
        Err(EngineError::LockNotAvailable) => false,
        _ => panic!("the engine is well"),
    }
}

/// Everything that can be read, in several ways.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    rows: BTreeMap<TreeId, BTreeMap<Vec<u8>, Vec<u8>>>,
    counters: Vec<(TreeId, u64)>,
    /// XIDs, and which of the keys are locked for all of them together.
    prepared: Vec<PreparedId>,
    locked: Vec<(TreeId, Vec<u8>)>,
}

fn content(engine: &Engine) -> Content {
    let mut content = Content {
        rows: BTreeMap::new(),
        counters: Vec::new(),
        prepared: engine.prepared().into_iter().map(|(xid, _)| xid).collect(),
        locked: Vec::new(),
    };
    let txn = engine.begin(Isolation::RepeatableRead);
    for id in engine.tree_ids() {
        let tree = engine.tree(id).expect("listed");
        let mut forward = BTreeMap::new();
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = txn
            .scan(&tree, all.0, all.1, Direction::Forward, View::Snapshot)
            .unwrap();
        while let Some((key, value)) = cursor.next().unwrap() {
            forward.insert(key.to_vec(), value.to_vec());
        }
        let mut backward = BTreeMap::new();
        let mut cursor = txn
            .scan(&tree, all.0, all.1, Direction::Backward, View::Snapshot)
            .unwrap();
        while let Some((key, value)) = cursor.next().unwrap() {
            backward.insert(key.to_vec(), value.to_vec());
        }
        assert_eq!(forward, backward);
        for n in 0..KEYS {
            let key = key_of(n);
            let found = txn.get(&tree, &key, View::Latest).unwrap();
            assert_eq!(found.as_ref(), forward.get(&key), "{key:?}");
            if !lock(&txn, id, &key) {
                content.locked.push((id, key));
            }
        }
        content.counters.push((id, engine.counter(id)));
        content.rows.insert(id, forward);
    }
    content
}

/// A random past: small and very large transactions, two-phase ones in all orders, counters, trees that come and go,
/// flushes here and there. Gives the machine without power, and what it should have.
fn history(seed: u64) -> (SimEnv, Content) {
    let machine = SimEnv::new(seed);
    let mut dice = SimRng::new(seed);
    let engine = Engine::open(machine.env(), config()).unwrap();
    let mut trees: Vec<Tree> = (0..TREES).map(|_| engine.create_tree().unwrap()).collect();
    for _ in 0..120 + dice.below(200) {
        step(&engine, &mut trees, &mut dice);
    }
    engine.flush_log().unwrap();
    let expected = content(&engine);
    (copy(&machine, seed + 1), expected)
}

fn step(engine: &Engine, trees: &mut [Tree], dice: &mut SimRng) {
    let at = dice.below(trees.len() as u64) as usize;
    match dice.below(30) {
        0 => trees[at] = engine.create_tree().unwrap(),
        1 if !engine.prepared().is_empty() => {}
        1 => {
            let tree = std::mem::replace(&mut trees[at], engine.create_tree().unwrap());
            if trees.iter().all(|other| other.id() != tree.id()) {
                engine.drop_tree(tree.id()).unwrap();
            }
        }
        2 => drop(
            engine
                .reserve_counter(trees[at].id(), dice.below(1000))
                .unwrap(),
        ),
        3 => drop(
            engine
                .set_counter(trees[at].id(), dice.below(1000))
                .unwrap(),
        ),
        12 => drop(engine.note(b"by the way").unwrap()),
        4 | 5 => engine.flush_log().unwrap(),
        6 if dice.chance(20) => engine.flush_all().unwrap(),
        7 => drop(engine.maintain().unwrap()),
        8..=10 => {
            if let Some((xid, _)) = engine.prepared().first() {
                let decided = match dice.chance(60) {
                    true => engine.commit_prepared(xid, b"decided"),
                    false => engine.rollback_prepared(xid, &[]),
                };
                assert!(decided.unwrap().seq.is_some());
            }
        }
        other => transaction(engine, trees, dice, other == 11),
    }
}

fn transaction(engine: &Engine, trees: &[Tree], dice: &mut SimRng, is_large: bool) {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let writes = if is_large { 200 } else { 1 + dice.below(20) };
    for _ in 0..writes {
        let tree = &trees[dice.below(trees.len() as u64) as usize];
        let key = key_of(dice.below(KEYS));
        if !lock(&txn, tree.id(), &key) {
            continue;
        }
        if dice.chance(20) {
            txn.delete(tree, &key).unwrap();
        } else {
            // A large transaction is a chained record over several blocks and segments.
            let most = if is_large { 4000 } else { 200 };
            let value = vec![dice.below(256) as u8; dice.below(most) as usize];
            txn.put(tree, &key, &value).unwrap();
        }
    }
    if dice.chance(30) {
        txn.bump_counter(trees[0].id(), dice.below(1000));
    }
    if dice.chance(40) {
        // As large as the writes, so that some are in several blocks.
        let most = if is_large { 300_000 } else { 400 };
        txn.attach(&vec![0xAA; dice.below(most) as usize]).unwrap();
    }
    let namespace = [Namespace::Internal, Namespace::Xa][dice.below(2) as usize];
    let xid = PreparedId::new(namespace, &[b'x', dice.below(4) as u8]);
    let is_free = engine.prepared().iter().all(|(other, _)| *other != xid);
    if dice.chance(25) && is_free && txn.has_writes() {
        txn.prepare(&xid).unwrap();
    } else {
        let _seq = txn.commit().unwrap();
    }
}

/// Ways to open: mode, who drives, threads.
fn ways() -> Vec<EngineConfig> {
    let way = |recovery, mode, recovery_threads| EngineConfig {
        recovery,
        mode,
        recovery_threads,
        ..config()
    };
    vec![
        way(RecoveryMode::SerialSync, Mode::Manual, 1),
        way(RecoveryMode::SerialAsync, Mode::Daemon, 1),
        way(RecoveryMode::Parallel, Mode::Manual, 1),
        way(RecoveryMode::Parallel, Mode::Daemon, 1),
        way(RecoveryMode::Parallel, Mode::Daemon, 2),
        way(RecoveryMode::Parallel, Mode::Daemon, 5),
    ]
}

#[test]
fn every_mode_gives_the_same_database() {
    for seed in 0..12 {
        let (machine, expected) = history(seed * 31);
        for (n, mut way) in ways().into_iter().enumerate() {
            // Each of the threads has chunks of its own that are not full, so together they need more than the log has.
            way.memory_limit = 64 << 20;
            let image = copy(&machine, n as u64);
            let engine = Engine::open(image.env(), way.clone()).unwrap();
            assert_eq!(content(&engine), expected, "seed {seed}, way {n}");
            // The memory holds all of the log, so nothing was flushed.
            assert_eq!(engine.stats().replayed.flushes, 0, "seed {seed}, way {n}");
            // Brought to disk, it is still the same; and a restart needs no log for it.
            engine.flush_all().unwrap();
            let after = content(&engine);
            assert_eq!(after, expected, "seed {seed}, way {n} flushed");
            drop(engine);
            let engine = Engine::open(copy(&image, 9).env(), way).unwrap();
            assert_eq!(content(&engine), expected, "seed {seed}, way {n} again");
            assert_eq!(engine.stats().replayed.writes, 0);
        }
    }
}

#[test]
fn with_a_fraction_of_the_memory_the_same_is_found_below_the_limit() {
    for seed in 0..6 {
        let (machine, expected) = history(seed * 17 + 5);
        for (n, mut way) in ways().into_iter().enumerate() {
            way.memory_limit = 256 << 10;
            way.memtable_bytes = 32 << 10;
            let image = copy(&machine, n as u64);
            let engine = Engine::open(image.env(), way.clone()).unwrap();
            assert_eq!(content(&engine), expected, "seed {seed}, way {n}");
            let progress = engine.replay();
            assert!(
                progress.flushes > 0 || progress.peak_bytes < 128 << 10,
                "seed {seed}, way {n}: {progress:?}"
            );
            drop(engine);
            let engine = Engine::open(copy(&image, 9).env(), config()).unwrap();
            assert_eq!(content(&engine), expected, "seed {seed}, way {n} again");
        }
    }
}

/// A log of several times the memory: collections follow each other, and memory stays near the limit.
#[test]
fn memory_stays_near_its_limit_while_a_large_log_is_replayed() {
    let machine = SimEnv::new(77);
    let mut roomy = config();
    roomy.memory_limit = 64 << 20;
    roomy.memtable_bytes = 32 << 20;
    let rows = 12_000u64;
    let (id, other) = {
        let engine = Engine::open(machine.env(), roomy.clone()).unwrap();
        let (tree, other) = (engine.create_tree().unwrap(), engine.create_tree().unwrap());
        for n in 0..rows {
            let mut txn = engine.begin(Isolation::ReadCommitted);
            txn.put(&tree, &(n * 7919 % 3000).to_be_bytes(), &[n as u8; 900])
                .unwrap();
            txn.put(&other, &n.to_be_bytes(), b"").unwrap();
            assert!(txn.commit().unwrap().seq.is_some());
        }
        engine.flush_log().unwrap();
        (tree.id(), other.id())
    };
    let mut cut = roomy;
    cut.memory_limit = 4 << 20;
    cut.memtable_bytes = 1 << 20;
    for (mode, threads) in [(Mode::Manual, 1), (Mode::Daemon, 1), (Mode::Daemon, 3)] {
        (cut.mode, cut.recovery_threads) = (mode, threads);
        let image = copy(&machine, 3);
        let engine = Engine::open(image.env(), cut.clone()).unwrap();
        engine.wait_built().block().unwrap();
        let progress = engine.replay();
        assert_eq!(progress.rows, 2 * rows);
        assert!(progress.flushes >= 4, "{progress:?}");
        // Half of the limit is for this; every thread may be in a task when it is reached.
        let limit = (cut.memory_limit / 2) as u64;
        let tasks = threads as u64 * 2 * (cut.memory_limit as u64 / 64 + (64 << 10));
        assert!(progress.peak_bytes <= limit * 5 / 4 + tasks, "{progress:?}");
        let txn = engine.begin(Isolation::ReadCommitted);
        let (tree, other) = (engine.tree(id).unwrap(), engine.tree(other).unwrap());
        for n in rows - 3000..rows {
            let key = (n * 7919 % 3000).to_be_bytes();
            let value = txn.get(&tree, &key, View::Snapshot).unwrap();
            assert_eq!(value.unwrap(), [n as u8; 900]);
            let value = txn.get(&other, &(n - 5000).to_be_bytes(), View::Snapshot);
            assert!(value.unwrap().is_some());
        }
    }
}

/// Power goes again and again while the log is replayed and flushed; in the end everything is there.
#[test]
fn nested_crashes_lose_nothing() {
    const SEEDS: u64 = 12;
    let mut interrupted = 0;
    for seed in 0..SEEDS {
        let (mut machine, expected) = history(seed * 13 + 3);
        let mut dice = SimRng::new(seed);
        for _ in 0..10 {
            let mut config = config();
            config.memory_limit = 256 << 10;
            config.memtable_bytes = 32 << 10;
            if dice.chance(20) {
                config.recovery = RecoveryMode::SerialSync;
            }
            machine.fs.halt_at(machine.fs.ops() + 1 + dice.below(120));
            match Engine::open(machine.env(), config) {
                Ok(engine) => while machine.fs.has_power() && engine.maintain().unwrap_or(false) {},
                Err(error) => {
                    assert!(!machine.fs.has_power(), "seed {seed}: {error}");
                    interrupted += 1;
                }
            }
            machine = machine.crash(dice.next_u64());
        }
        let engine = Engine::open(machine.env(), config()).unwrap();
        assert_eq!(content(&engine), expected, "seed {seed}");
    }
    assert!(interrupted > SEEDS, "replays are interrupted");
}

/// Adds one to rows, again and again.
fn raise_rows(engine: &Engine, id: TreeId, rows: u64, mut dice: SimRng, raised: &AtomicU64) {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let tree = engine.tree(id).unwrap();
    for _ in 0..400 {
        let key = dice.below(rows).to_be_bytes();
        if !lock(&txn, id, &key) {
            txn.rollback();
            continue;
        }
        // A writer reads first: what it reads must be there.
        let old = txn.get(&tree, &key, View::Latest).unwrap();
        let old = u64::from_be_bytes(old.expect("a row").try_into().unwrap());
        txn.put(&tree, &key, &(old + 1).to_be_bytes()).unwrap();
        assert!(txn.commit().unwrap().seq.is_some());
        raised.fetch_add(1, Ordering::Relaxed);
    }
}

fn assert_all_seen(engine: &Engine, id: TreeId, rows: u64) {
    let txn = engine.begin(Isolation::RepeatableRead);
    let tree = engine.tree(id).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let bounds = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = txn
            .scan(&tree, bounds.0, bounds.1, direction, View::Snapshot)
            .unwrap();
        let mut seen = 0;
        while cursor.next().unwrap().is_some() {
            seen += 1;
        }
        assert_eq!(seen, rows);
    }
}

/// The sum of all rows.
fn sum_of(engine: &Engine, id: TreeId) -> u64 {
    let txn = engine.begin(Isolation::ReadCommitted);
    let tree = engine.tree(id).unwrap();
    let bounds = (Bound::Unbounded, Bound::Unbounded);
    let mut cursor = txn
        .scan(
            &tree,
            bounds.0,
            bounds.1,
            Direction::Forward,
            View::Snapshot,
        )
        .unwrap();
    let mut sum = 0;
    while let Some((_, value)) = cursor.next().unwrap() {
        sum += u64::from_be_bytes(value.try_into().unwrap());
    }
    sum
}

/// Readers, writers, maintenance and DDL that begin while the log is still being replayed.
#[test]
fn early_work_sees_what_late_work_would_see() {
    let machine = SimEnv::new(99);
    let mut config = config();
    config.memory_limit = 64 << 20;
    config.memtable_bytes = 16 << 20;
    let rows = 20_000u64;
    let (id, doomed) = {
        let engine = Engine::open(machine.env(), config.clone()).unwrap();
        let (tree, doomed) = (engine.create_tree().unwrap(), engine.create_tree().unwrap());
        for n in 0..rows / 10 {
            let mut txn = engine.begin(Isolation::ReadCommitted);
            for i in 0..10 {
                let key = ((n * 10 + i) * 7919 % rows).to_be_bytes();
                txn.put(&tree, &key, &1u64.to_be_bytes()).unwrap();
            }
            txn.put(&doomed, &n.to_be_bytes(), &[0; 100]).unwrap();
            assert!(txn.commit().unwrap().seq.is_some());
        }
        engine.flush_log().unwrap();
        (tree.id(), doomed.id())
    };
    config.mode = Mode::Daemon;
    config.recovery_threads = 2;
    for round in 0..4 {
        let image = copy(&machine, round);
        let engine = Engine::open(image.env(), config.clone()).unwrap();
        let raised = AtomicU64::new(0);
        thread::scope(|scope| {
            for writer in 0..3u64 {
                let (engine, raised) = (&engine, &raised);
                let dice = SimRng::new(round * 10 + writer);
                scope.spawn(move || raise_rows(engine, id, rows, dice, raised));
            }
            scope.spawn(|| assert_all_seen(&engine, id, rows));
            scope.spawn(|| {
                engine.drop_tree(doomed).unwrap();
                let fresh = engine.create_tree().unwrap();
                let mut txn = engine.begin(Isolation::ReadCommitted);
                txn.put(&fresh, b"k", b"v").unwrap();
                assert!(txn.commit().unwrap().seq.is_some());
                if round % 2 == 0 {
                    engine.flush_all().unwrap();
                }
            });
        });
        engine.wait_built().block().unwrap();
        assert_eq!(engine.replay().phase, ReplayPhase::Done);
        let expected = rows + raised.load(Ordering::Relaxed);
        assert_eq!(sum_of(&engine, id), expected);
        engine.shutdown().unwrap();
        drop(engine);
        // Both what was replayed and what came after it, after one more crash.
        let engine = Engine::open(copy(&image, 50).env(), config.clone()).unwrap();
        assert_eq!(sum_of(&engine, id), expected);
        assert!(engine.tree(doomed).is_none());
    }
}

/// Damage in the middle of the log: nobody gets an answer made of half of it.
#[test]
fn damage_is_reported_to_whoever_waits_and_nothing_runs() {
    let machine = SimEnv::new(5);
    let id = {
        let engine = Engine::open(machine.env(), config()).unwrap();
        let tree = engine.create_tree().unwrap();
        for n in 0..2000u64 {
            let mut txn = engine.begin(Isolation::ReadCommitted);
            txn.put(&tree, &n.to_be_bytes(), &[5; 500]).unwrap();
            assert!(txn.commit().unwrap().seq.is_some());
        }
        engine.flush_log().unwrap();
        tree.id()
    };
    let machine = copy(&machine, 6);
    let fs = machine.env().fs;
    let wal = std::path::Path::new("/db/wal");
    let first = fs
        .list(wal)
        .unwrap()
        .into_iter()
        .filter(|name| name.ends_with(".wal"))
        .min();
    let file = fs
        .open(&wal.join(first.unwrap()), OpenMode::ReadWrite)
        .unwrap();
    file.write_all_at(b"damage", 100_000).unwrap();
    file.sync_data().unwrap();
    for way in ways() {
        let is_daemon = way.mode == Mode::Daemon;
        let opened = Engine::open(copy(&machine, 7).env(), way);
        if !is_daemon {
            assert!(matches!(opened, Err(EngineError::Corruption { .. })));
            continue;
        }
        let engine = opened.unwrap();
        let damage = engine.wait_replayed().block();
        assert!(
            matches!(damage, Err(EngineError::Corruption { .. })),
            "{damage:?}"
        );
        assert!(engine.wait_built().block().is_err());
        let progress = engine.replay();
        assert_eq!(progress.phase, ReplayPhase::Failed);
        assert!(progress.error.is_some());
        let tree = engine.tree(id).unwrap();
        let mut txn = engine.begin(Isolation::ReadCommitted);
        let key = 0u64.to_be_bytes();
        assert!(txn.get(&tree, &key, View::Latest).is_err());
        assert!(txn.put(&tree, &key, b"new").is_err());
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let scan = txn.scan(
            &tree,
            everything.0,
            everything.1,
            Direction::Forward,
            View::Snapshot,
        );
        assert!(scan.is_err());
        txn.bump_counter(id, 5);
        assert!(txn.commit().is_err());
        assert!(engine.drop_tree(id).is_err() && engine.create_tree().is_err());
        assert!(engine.reserve_counter(id, 7).is_err() && engine.flush_all().is_err());
        assert!(
            engine.commit_prepared(&PreparedId::xa(b"x"), &[]).is_err()
                && engine.prepared().is_empty()
        );
    }
}

#[test]
fn waiting_for_the_replay_is_a_future_that_is_woken() {
    struct Flag(thread::Thread);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (machine, expected) = history(4242);
    let config = EngineConfig {
        mode: Mode::Daemon,
        ..config()
    };
    let engine = Engine::open(machine.env(), config).unwrap();
    let waker = Waker::from(Arc::new(Flag(thread::current())));
    for future in [engine.wait_replayed(), engine.wait_built()] {
        let mut future = pin!(future);
        let mut context = Context::from_waker(&waker);
        while future.as_mut().poll(&mut context).is_pending() {
            thread::park();
        }
    }
    let progress = engine.replay();
    assert_eq!(progress.phase, ReplayPhase::Done);
    assert_eq!(progress.bytes_done, progress.bytes_total);
    assert_eq!(progress.shards_built, progress.shards_total);
    assert!(progress.until_ready <= progress.elapsed);
    assert_eq!(content(&engine), expected);
}
