//! Runs against the memtable; collections that are complete and collections that are not.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use esker_vfs::sim::{CrashImage, SimEnv};
use esker_wal::{FlushMode, Lsn, Wal, WalConfig};
use proptest::prelude::*;

use super::collect::{Collector, Part, Plan};
use super::collection::Collection;
use super::dispatch::{Dispatch, MemoryLimits, Step};
use super::parallel::Blocks;
use super::two_phase::TwoPhase;
use crate::cache::BlockCache;
use crate::commit::counters::Counters;
use crate::commit::record;
use crate::iter::InternalIter;
use crate::memtable::{MemIter, Memtable};
use crate::replayed::entry::{Buffers, Bytes, Entry, Spot};
use crate::replayed::route::Router;
use crate::replayed::run::{Facts, Pieces, ReplayedIter, ReplayedRun};
use crate::tree::{Tree, Trees, TreesConfig};
use crate::{
    Engine, EngineConfig, Isolation, LATEST, Op, PreparedId, RecoveryMode, Seq, TreeId, View,
};

type Version = (Vec<u8>, Seq, Op, Vec<u8>);

/// Keys that agree in many places: few letters, zero bytes, and long common parts.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let letters = || prop::sample::select(vec![0u8, 1, b'a', 0xFF]);
    prop_oneof![
        prop::collection::vec(letters(), 0..4),
        prop::collection::vec(letters(), 6..11),
        (0..3usize, prop::collection::vec(letters(), 0..3)).prop_map(|(words, rest)| {
            let mut key = b"the same long beginning ".repeat(words);
            key.extend(rest);
            key
        }),
        (0..40u64).prop_map(|n| [b"row-".as_slice(), &n.to_be_bytes()].concat()),
    ]
}

fn version() -> impl Strategy<Value = Version> {
    let value = prop::collection::vec(any::<u8>(), 0..20);
    (key(), 1..60u64, prop::bool::weighted(0.8), value).prop_map(|(key, seq, is_put, value)| {
        match is_put {
            true => (key, seq, Op::Put, value),
            false => (key, seq, Op::Delete, Vec::new()),
        }
    })
}

/// A run of these versions, which were collected in pieces and lie in several buffers.
fn run_of(versions: &[Version], router: Router, piece: usize) -> Arc<ReplayedRun> {
    let router = Arc::new(router);
    let mut shards: Vec<Pieces> = (0..router.shards()).map(|_| Pieces::new()).collect();
    let mut buffers = Vec::new();
    for versions in versions.chunks(piece) {
        // Every piece has two buffers of its own.
        let base = buffers.len() as u32;
        let mut own = [Vec::new(), Vec::new()];
        let mut lists: Vec<Vec<Entry>> = shards.iter().map(|_| Vec::new()).collect();
        for (n, (key, seq, op, value)) in versions.iter().enumerate() {
            let buffer = n % own.len();
            let spot = Spot {
                buffer: buffer as u32,
                offset: own[buffer].len() as u32,
            };
            record::put_write(&mut own[buffer], *op, key, value);
            let route = router.route(key);
            lists[route.shard].push(Entry::new(&key[route.strip..], *seq, spot));
        }
        buffers.extend(own.map(Bytes::Copied));
        for (shard, list) in shards.iter_mut().zip(lists) {
            shard.push((list, base));
        }
    }
    let deletes = versions.iter().filter(|(_, _, op, _)| *op == Op::Delete);
    let facts = Facts {
        first_lsn: 0,
        max_seq: 100,
        flushed_seq: 100,
        entries: versions.len() as u64,
        deletes: deletes.count() as u64,
        row_bytes: 0,
    };
    let buffers = Arc::new(Buffers::new(buffers));
    Arc::new(ReplayedRun::new(
        router,
        shards,
        buffers,
        facts,
        Arc::default(),
    ))
}

fn at(iter: &impl InternalIter) -> Option<Version> {
    let version = || {
        (
            iter.key().to_vec(),
            iter.seq(),
            iter.op(),
            iter.value().to_vec(),
        )
    };
    iter.valid().then(version)
}

#[derive(Clone, Debug)]
enum Move {
    Seek(Vec<u8>),
    SeekVersion(Vec<u8>, Seq),
    SeekForPrev(Vec<u8>),
    First,
    Last,
    Next(usize),
    Prev(usize),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        1 => key().prop_map(Move::Seek),
        1 => (key(), 0..70u64).prop_map(|(key, seq)| Move::SeekVersion(key, seq)),
        1 => key().prop_map(Move::SeekForPrev),
        1 => Just(Move::First),
        1 => Just(Move::Last),
        3 => (1..40usize).prop_map(Move::Next),
        3 => (1..40usize).prop_map(Move::Prev),
    ]
}

/// Makes the same moves on both.
fn walk(run: &mut ReplayedIter, table: &mut MemIter, step: &Move) {
    let mut both = |move_it: &dyn Fn(&mut dyn InternalIter) -> crate::Result<()>| {
        move_it(run).unwrap();
        move_it(table).unwrap();
        assert_eq!(at(run), at(table), "{step:?}");
        run.valid()
    };
    match step {
        Move::Seek(key) => both(&|iter| iter.seek(key)),
        Move::SeekVersion(key, seq) => both(&|iter| iter.seek_version(key, *seq)),
        Move::SeekForPrev(key) => both(&|iter| iter.seek_for_prev(key)),
        Move::First => both(&|iter| iter.seek_to_first()),
        Move::Last => both(&|iter| iter.seek_to_last()),
        Move::Next(steps) => (0..*steps).all(|_| both(&|iter| iter.next())),
        Move::Prev(steps) => (0..*steps).all(|_| both(&|iter| iter.prev())),
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_run_reads_like_a_memtable(
        versions in prop::collection::vec(version(), 1..300),
        sample in prop::collection::vec(key(), 0..30),
        shards in 1..12usize,
        piece in 1..80usize,
        probes in prop::collection::vec((key(), 0..70u64), 1..30),
        moves in prop::collection::vec(moves(), 1..30),
    ) {
        let table = Arc::new(Memtable::new());
        let mut versions = versions;
        versions.retain(|(key, seq, op, value)| table.insert(key, *seq, *op, value));
        let router = Router::from_sample(sample.iter().map(|key| &key[..]).collect(), shards);
        let run = run_of(&versions, router, piece);
        prop_assert_eq!((run.entries(), run.deletes()), (table.entries(), table.deletes()));
        for (key, seq) in &probes {
            prop_assert_eq!(run.get(key, *seq), table.get(key, *seq));
        }
        let (mut run_iter, mut table_iter) = (run.iter(), table.iter());
        for step in &moves {
            // A step from nowhere is not defined.
            if matches!(step, Move::Next(_) | Move::Prev(_)) && !run_iter.valid() {
                continue;
            }
            walk(&mut run_iter, &mut table_iter, step);
        }
    }
}

/// Many versions of few keys, and keys that differ only far behind: the sort has to go deep.
#[test]
fn large_groups_of_like_keys_are_sorted() {
    let mut versions: Vec<Version> = Vec::new();
    for n in 0..6000u64 {
        // A fixed order that is not sorted.
        let n = n * 4787 % 6000;
        let mut key = vec![b'x'; 40];
        key.extend((n % 7 * 1000).to_be_bytes());
        key.extend(vec![b'y'; (n % 3) as usize * 9]);
        versions.push((key, 8 + n, Op::Put, n.to_be_bytes().to_vec()));
    }
    let run = run_of(&versions, Router::default(), 1000);
    versions.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    let mut iter = run.iter();
    iter.seek_to_first().unwrap();
    for version in &versions {
        assert_eq!(at(&iter).as_ref(), Some(version));
        assert_eq!(
            run.get(&version.0, version.1).map(|found| found.seq),
            Some(version.1)
        );
        iter.next().unwrap();
    }
    assert!(!iter.valid());
}

/// A database whose log is to be read by hand.
struct Crashed {
    machine: SimEnv,
    tree: TreeId,
}

fn config() -> EngineConfig {
    EngineConfig {
        memory_limit: 512 << 20,
        memtable_bytes: 32 << 20,
        log_limit_bytes: 1 << 30,
        ..EngineConfig::small("/db")
    }
}

impl Crashed {
    /// Runs `work` and cuts the power.
    fn after(work: impl Fn(&Engine, &Tree)) -> Crashed {
        let machine = SimEnv::new(11);
        let engine = Engine::open(machine.env(), config()).unwrap();
        let tree = engine.create_tree().unwrap();
        work(&engine, &tree);
        engine.flush_log().unwrap();
        Crashed {
            machine: SimEnv::with_fs(machine.fs.crash_with(CrashImage::DropUnsynced), 12),
            tree: tree.id(),
        }
    }

    fn trees(&self) -> Trees {
        let cache = BlockCache::new(1 << 20);
        let config = TreesConfig::new("/db", cache, Arc::new(|_| ()));
        Trees::open(&self.machine.env(), config).unwrap()
    }

    fn log(&self, trees: &Trees) -> esker_wal::LogReader {
        let mut log = WalConfig::new("/db/wal");
        log.mode = FlushMode::Manual;
        log.cluster = trees.uuid();
        log.segment_bytes = config().log_segment_bytes;
        log.buffer_bytes = config().log_buffer_bytes;
        log.reading.task_bytes = 16 << 10;
        let from = Lsn(trees.recovered().log_from);
        Wal::create_or_open(&self.machine.env(), log, from)
            .unwrap()
            .1
    }
}

fn plan(trees: &Trees) -> Plan {
    Plan::whole(trees, &trees.recovered())
}

/// What the log has, in parts of one task each, with the ends of the tasks.
fn parts(log: &esker_wal::LogReader, plan: &Plan) -> Vec<(Part, Seq)> {
    let mut parts = Vec::new();
    while let Some(task) = log.next(&mut Blocks(plan)).unwrap() {
        let mut collector = Collector::new(plan);
        log.read(&task, &mut collector).unwrap();
        collector.end_task();
        parts.push((collector.take(), task.end().0));
    }
    parts
}

/// Settles a collection and flushes it.
fn flush(trees: &Trees, plan: &Plan, parts: Vec<Part>, end: Seq) {
    let mut collection = Collection::new(parts, end);
    let mut two_phase = TwoPhase::new(0);
    collection
        .finalize(plan, &mut two_phase, &Counters::default(), 1)
        .unwrap();
    for (tree, run) in collection.into_runs(plan, &Arc::new(AtomicU64::new(0))) {
        tree.add_replayed(run);
        while trees.flush(&tree, end).unwrap() {}
    }
}

fn newest(tree: &Tree, key: &[u8]) -> Option<Vec<u8>> {
    let read = |_, _, value: &[u8]| value.to_vec();
    tree.superversion().version.get(key, LATEST, read).unwrap()
}

fn put(engine: &Engine, tree: &Tree, key: &[u8], value: &[u8]) {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(tree, key, value).unwrap();
    assert!(txn.commit().unwrap().seq.is_some());
}

/// Prepares are looked at wherever they are; what lies around them in a dead log does not stay in memory with them.
#[test]
fn a_prepare_keeps_nothing_of_a_dead_log_but_itself() {
    let crashed = Crashed::after(|engine, tree| {
        for n in 0..40u64 {
            for row in 0..10 {
                put(engine, tree, &(n * 100 + row).to_be_bytes(), &[7; 900]);
            }
            let mut txn = engine.begin(Isolation::ReadCommitted);
            // Now and then one that is a buffer of its own.
            let bytes = if n % 10 == 0 { 100_000 } else { 50 };
            txn.put(tree, &(n * 100 + 99).to_be_bytes(), &vec![8; bytes])
                .unwrap();
            txn.prepare(&PreparedId::xa(&n.to_be_bytes())).unwrap();
            engine.flush_log().unwrap();
        }
    });
    let trees = crashed.trees();
    let mut plan = plan(&trees);
    plan.trees[0].flushed_seq = LATEST;
    let parts = parts(&crashed.log(&trees), &plan);
    let prepares: Vec<_> = parts.iter().flat_map(|(part, _)| &part.prepares).collect();
    assert_eq!(prepares.len(), 40);
    let kept: usize = prepares.iter().map(|prepare| prepare.kept_bytes()).sum();
    let counted: usize = parts.iter().map(|(part, _)| part.bytes).sum();
    assert!(
        kept <= 2 * counted,
        "{kept} bytes are kept, {counted} are counted"
    );
}

/// A log of which the hot key's first version is at the beginning and the last one at the end.
fn hot_row() -> Crashed {
    Crashed::after(|engine, tree| {
        put(engine, tree, b"hot", b"older");
        for n in 0..200u64 {
            put(engine, tree, &n.to_be_bytes(), &[7; 500]);
            if n % 50 == 0 {
                engine.flush_log().unwrap();
            }
        }
        put(engine, tree, b"hot", b"newest");
    })
}

/// Rule R4, broken on purpose: a collection is flushed although a part of its range is missing. What comes later hides
/// the newest version, and a restart does not find the rest.
#[test]
fn a_harvest_with_a_gap_loses_versions_and_a_whole_one_does_not() {
    for break_the_rule in [false, true] {
        let crashed = hot_row();
        let trees = crashed.trees();
        let plan = plan(&trees);
        let mut parts = parts(&crashed.log(&trees), &plan);
        assert!(parts.len() > 2);
        let end = parts.last().unwrap().1;
        let late = break_the_rule.then(|| parts.remove(0));
        flush(
            &trees,
            &plan,
            parts.into_iter().map(|(part, _)| part).collect(),
            end,
        );
        let tree = trees.get(crashed.tree).unwrap();
        assert_eq!(newest(&tree, b"hot").unwrap(), b"newest");
        // As far as the manifest knows, all of the log up to here is in extents: a restart would skip it.
        assert_eq!(tree.flushed_seq(), end);
        let first_row = 0u64.to_be_bytes();
        assert_eq!(newest(&tree, &first_row).is_some(), !break_the_rule);
        if let Some((late, late_end)) = late {
            flush(&trees, &plan, vec![late], late_end);
            assert_eq!(
                newest(&tree, b"hot").unwrap(),
                b"older",
                "the newest version is hidden"
            );
        }
    }
}

/// The rule as it is kept: nobody gets a collection to flush while another thread still reads a part of it.
#[test]
fn a_harvest_waits_for_the_last_thread_that_reads_for_it() {
    let crashed = hot_row();
    let trees = crashed.trees();
    let plan = plan(&trees);
    let log = crashed.log(&trees);
    // The first task is too much already; the limit at which a thread would wait is never reached.
    let dispatch = Dispatch::new(&log, MemoryLimits::of(1, 1, usize::MAX));
    let (mut slow, mut quick) = (dispatch.seat(), dispatch.seat());
    let (mut slow_has, mut quick_has) = (Collector::new(&plan), Collector::new(&plan));
    let mut blocks = Blocks(&plan);
    let read = |task, collector: &mut Collector<'_>| {
        log.read(&task, collector).unwrap();
        collector.end_task();
    };
    let Step::Read(first) = dispatch
        .next(&mut slow, &mut blocks, || slow_has.take())
        .unwrap()
    else {
        panic!("there is log to read");
    };
    let first_end = first.end().0;
    let mut last_end = first_end;
    for _ in 0..3 {
        match dispatch
            .next(&mut quick, &mut blocks, || quick_has.take())
            .unwrap()
        {
            Step::Read(task) => {
                last_end = task.end().0;
                read(task, &mut quick_has);
                dispatch.collected(&quick, 1000);
            }
            Step::Flush(..) | Step::End => panic!("the first task is still being read"),
        }
    }
    read(first, &mut slow_has);
    dispatch.collected(&slow, 1000);
    let Step::Flush(mut collection, bytes) = dispatch
        .next(&mut slow, &mut blocks, || slow_has.take())
        .unwrap()
    else {
        panic!("the oldest collection is complete");
    };
    // Everything up to its end is in it, the first task as well.
    assert!(first_end < collection.end() && collection.end() < last_end);
    assert_eq!(bytes, 2000);
    let mut two_phase = TwoPhase::new(0);
    collection
        .finalize(&plan, &mut two_phase, &Counters::default(), 1)
        .unwrap();
    let runs = collection.into_runs(&plan, &Arc::default());
    assert_eq!(runs[0].1.get(b"hot", LATEST).unwrap().value, b"older");
}

/// Prepares and decisions are brought together whoever read which of them, and in whatever order: both examples of the
/// algorithm's source, a decision that is met before its prepare and an XID that is used again.
#[test]
fn decisions_find_their_prepares_in_every_order_of_the_parts() {
    let crashed = Crashed::after(|engine, tree| {
        let prepare = |key: &[u8], value: &[u8]| {
            let mut txn = engine.begin(Isolation::ReadCommitted);
            txn.put(tree, key, value).unwrap();
            txn.prepare(&PreparedId::xa(b"aabb")).unwrap();
        };
        // Blocks and tasks between the records.
        let pause = || {
            for n in 0..60u64 {
                put(engine, tree, &n.to_be_bytes(), &[7; 500]);
            }
            engine.flush_log().unwrap();
        };
        prepare(b"a", b"b");
        pause();
        assert!(
            engine
                .commit_prepared(&PreparedId::xa(b"aabb"), &[])
                .unwrap()
                .seq
                .is_some()
        );
        pause();
        prepare(b"a", b"rolled back");
        pause();
        assert!(
            engine
                .rollback_prepared(&PreparedId::xa(b"aabb"), &[])
                .unwrap()
                .seq
                .is_some()
        );
        pause();
        prepare(b"c", b"d");
        pause();
    });
    for order in 0..20u64 {
        let trees = crashed.trees();
        let plan = plan(&trees);
        let mut parts = parts(&crashed.log(&trees), &plan);
        assert!(parts.len() >= 5);
        let end = parts.last().unwrap().1;
        let mut dice = esker_vfs::sim::SimRng::new(order);
        for n in (1..parts.len()).rev() {
            parts.swap(n, dice.below(n as u64 + 1) as usize);
        }
        let mut collection =
            Collection::new(parts.into_iter().map(|(part, _)| part).collect(), end);
        let mut two_phase = TwoPhase::new(0);
        let committed = collection.finalize(&plan, &mut two_phase, &Counters::default(), 2);
        assert_eq!(committed.unwrap(), 1);
        assert_eq!(two_phase.len(), 1, "the last one is undecided");
        let runs = collection.into_runs(&plan, &Arc::default());
        let run = &runs[0].1;
        assert_eq!(run.get(b"a", LATEST).unwrap().value, b"b");
        assert_eq!(run.get(b"c", LATEST), None);
    }
}

/// A decision whose prepare is nowhere is damage, unless the log has let go of it.
#[test]
fn a_decision_without_its_prepare_is_damage() {
    let crashed = Crashed::after(|engine, tree| {
        let mut txn = engine.begin(Isolation::ReadCommitted);
        txn.put(tree, b"k", b"v").unwrap();
        txn.prepare(&PreparedId::xa(b"x")).unwrap();
        assert!(
            engine
                .commit_prepared(&PreparedId::xa(b"x"), &[])
                .unwrap()
                .seq
                .is_some()
        );
    });
    for log_from in [0, 1 << 40] {
        let trees = crashed.trees();
        let plan = plan(&trees);
        let mut parts = parts(&crashed.log(&trees), &plan);
        for (part, _) in &mut parts {
            part.prepares.clear();
        }
        let mut collection =
            Collection::new(parts.into_iter().map(|(part, _)| part).collect(), 1 << 40);
        let settled =
            collection.finalize(&plan, &mut TwoPhase::new(log_from), &Counters::default(), 1);
        assert_eq!(settled.is_ok(), log_from > 0);
    }
}

/// Rows of a block that has little else are kept where they were read; a few live rows among dead ones are copied.
#[test]
fn buffers_are_kept_only_if_most_of_them_is_wanted() {
    let crashed = Crashed::after(|engine, tree| {
        let dead = engine.create_tree().unwrap();
        for n in 0..2000u64 {
            let mut txn = engine.begin(Isolation::ReadCommitted);
            // First mostly rows of the one, then mostly rows of the other.
            let (often, seldom) = if n < 1000 {
                (tree, &dead)
            } else {
                (&dead, tree)
            };
            for i in 0..9u64 {
                txn.put(often, &(n * 10 + i).to_be_bytes(), &[1; 200])
                    .unwrap();
            }
            txn.put(seldom, &(n * 10 + 9).to_be_bytes(), &[2; 20])
                .unwrap();
            assert!(txn.commit().unwrap().seq.is_some());
        }
    });
    let trees = crashed.trees();
    let mut plan = plan(&trees);
    plan.trees
        .retain(|planned| planned.tree.id() == crashed.tree);
    let log = crashed.log(&trees);
    let mut collector = Collector::new(&plan);
    while let Some(task) = log.next(&mut Blocks(&plan)).unwrap() {
        log.read(&task, &mut collector).unwrap();
    }
    let part = collector.take();
    let is_log = |bytes: &&Bytes| matches!(bytes, Bytes::Log(_));
    let kept: usize = part
        .buffers
        .iter()
        .filter(is_log)
        .map(|bytes| bytes.len())
        .sum();
    let copied: usize = part
        .buffers
        .iter()
        .filter(|bytes| !is_log(bytes))
        .map(|bytes| bytes.len())
        .sum();
    let (first_half, second_half) = (1000 * 9 * 200, 1000 * 20);
    assert!(kept > first_half / 2 && kept < first_half * 3 / 2, "{kept}");
    assert!(copied > second_half, "{copied}");
    let run = Collection::new(vec![part], log.end().0);
    let run = &run.into_runs(&plan, &Arc::default())[0].1;
    assert_eq!(run.entries(), 10_000);
    for n in 0..2000u64 {
        let (i, value) = if n < 1000 {
            (4, vec![1; 200])
        } else {
            (9, vec![2; 20])
        };
        let found = run.get(&(n * 10 + i).to_be_bytes(), LATEST).unwrap();
        assert_eq!(found.value, value);
    }
}

/// A panic in the replay must not leave others waiting: whatever ends it, they are told.
#[test]
fn whoever_waits_for_a_replay_that_fails_is_told() {
    let machine = SimEnv::new(1);
    let recovery = super::Recovery::new(machine.env().clock, 100);
    let waiting = Arc::clone(&recovery);
    let thread = std::thread::spawn(move || waiting.ready());
    recovery.fail(crate::EngineError::Stopped("for a test".into()));
    assert!(thread.join().unwrap().is_err());
    assert!(recovery.ready().is_err());
    assert!(recovery.progress().error.is_some());
    // It stays so.
    recovery.reach(super::ReplayPhase::Sorting);
    assert!(!recovery.is_ready());
}

/// The serial and the parallel replay count the same.
#[test]
fn modes_count_the_same() {
    let crashed = hot_row();
    let stats = |mode| {
        let image = crashed.machine.fs.crash_with(CrashImage::DropUnsynced);
        let machine = SimEnv::with_fs(image, 5);
        let mut config = config();
        config.recovery = mode;
        let engine = Engine::open(machine.env(), config).unwrap();
        let tree = engine.tree(crashed.tree).unwrap();
        let txn = engine.begin(Isolation::ReadCommitted);
        assert_eq!(
            txn.get(&tree, b"hot", View::Snapshot).unwrap().unwrap(),
            b"newest"
        );
        engine.stats().replayed
    };
    let serial = stats(RecoveryMode::SerialSync);
    assert_eq!((serial.writes, serial.flushes), (202, 0));
    assert_eq!(stats(RecoveryMode::SerialAsync), serial);
    assert_eq!(stats(RecoveryMode::Parallel), serial);
}
