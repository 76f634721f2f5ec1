//! Scans in tasks against plain cursors and a model, over every tier there is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use esker_vfs::sim::{SimEnv, SimRng};
use proptest::prelude::*;

use super::*;
use crate::extent::KnownKeys;
use crate::{Direction, Engine, EngineConfig, Isolation, Mode, View};

pub(super) const KEYS: u16 = 60;

pub(super) fn config() -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 1 << 20;
    // Several blocks and extents of few entries.
    config.extents.block_bytes = 64;
    config.extents.extent_bytes = 1200;
    config
}

pub(super) fn key(n: u16) -> Vec<u8> {
    // Keys of different lengths, some a prefix of others.
    let mut key = vec![b'k', (n / 6) as u8];
    key.extend(std::iter::repeat_n(b'x', usize::from(n % 6)));
    key
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Commits puts (true) and deletes.
    Commit(Vec<(u16, bool)>),
    Flush,
    Compact,
    /// Holds a snapshot.
    Hold,
    /// The engine is opened again: what is not flushed comes out of the log.
    Reopen,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..KEYS, prop::bool::weighted(0.7));
    let step = prop_oneof![
        6 => prop::collection::vec(write, 1..25).prop_map(Step::Commit),
        2 => Just(Step::Flush),
        2 => Just(Step::Compact),
        1 => Just(Step::Hold),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..25)
}

pub(super) fn span() -> impl Strategy<Value = KeySpan> {
    let bound = || {
        prop_oneof![
            2 => Just(Bound::Unbounded),
            1 => (0..KEYS).prop_map(|n| Bound::Included(key(n))),
            1 => (0..KEYS).prop_map(|n| Bound::Excluded(key(n))),
        ]
    };
    (bound(), bound()).prop_map(|(lower, upper)| {
        let lower = lower.as_ref().map(Vec::as_slice);
        KeySpan::new(lower, upper.as_ref().map(Vec::as_slice))
    })
}

pub(super) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) fn by_cursor(txn: &Txn, tree: &Tree, span: &KeySpan) -> Rows {
    let lower = Bound::Included(span.lower.as_slice());
    let upper = match &span.upper {
        Some(upper) => Bound::Excluded(upper.as_slice()),
        None => Bound::Unbounded,
    };
    let mut rows = Rows::new();
    if span.is_empty() {
        return rows;
    }
    let cursor = txn.scan(tree, lower, upper, Direction::Forward, View::Snapshot);
    let mut cursor = cursor.unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((key.to_vec(), value.to_vec()));
    }
    rows
}

/// Takes many rows at once where it gets them.
pub(super) struct Taker {
    pub(super) piece: Piece,
    pub(super) taken: Vec<Vec<u8>>,
    /// How many came at once, each time.
    pub(super) at_once: Vec<usize>,
    /// No more are wanted then.
    most: usize,
}

impl Taker {
    pub(super) fn of(piece: Piece) -> Taker {
        Taker {
            piece,
            taken: Vec::new(),
            at_once: Vec::new(),
            most: usize::MAX,
        }
    }

    /// What it takes of a row.
    pub(super) fn part(piece: Piece, (key, value): &(Vec<u8>, Vec<u8>)) -> Vec<u8> {
        match piece {
            Piece::Value => value.clone(),
            Piece::Whole => [key.as_slice(), value].concat(),
        }
    }
}

impl Visit for Taker {
    fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        let row = (key.to_vec(), value.to_vec());
        self.taken.push(Taker::part(self.piece, &row));
        self.taken.len() < self.most
    }

    fn piece(&self) -> Option<Piece> {
        Some(self.piece)
    }

    fn puts(&mut self, pieces: &[&[u8]]) -> bool {
        assert!(!pieces.is_empty() && pieces.len() <= MOST_PIECES);
        self.at_once.push(pieces.len());
        self.taken.extend(pieces.iter().map(|piece| piece.to_vec()));
        self.taken.len() < self.most
    }
}

/// All tasks one after the other; the same whether rows come one by one or many at once.
pub(super) fn rows_of(scan: &ParallelScan) -> Rows {
    let rows = rows_one_by_one(scan);
    for piece in [Piece::Value, Piece::Whole] {
        let mut taker = Taker::of(piece);
        for task in 0..scan.tasks() {
            assert!(scan.read(task, &mut taker, &mut || true).unwrap());
        }
        let expected: Vec<_> = rows.iter().map(|row| Taker::part(piece, row)).collect();
        assert_eq!(taker.taken, expected);
    }
    rows
}

fn rows_one_by_one(scan: &ParallelScan) -> Rows {
    let mut rows = Rows::new();
    for task in 0..scan.tasks() {
        let mut take = |key: &[u8], value: &[u8]| {
            rows.push((key.to_vec(), value.to_vec()));
            true
        };
        assert!(scan.read(task, &mut take, &mut || true).unwrap());
    }
    rows
}

/// All tasks one after the other: cut into as many as possible.
pub(super) fn by_tasks(txn: &Txn, tree: &Tree, spans: Vec<KeySpan>, tasks: usize) -> Rows {
    rows_of(&txn.cut_scan(tree, spans, tasks, 1).unwrap())
}

fn count(txn: &Txn, tree: &Tree, spans: Vec<KeySpan>, tasks: usize) -> u64 {
    let count = txn.cut_count(tree, spans, tasks, 1).unwrap();
    let tasks = 0..count.tasks();
    let counted = tasks.map(|task| count.count(task, &mut || true).unwrap().unwrap().rows);
    count.counted() + counted.sum::<u64>()
}

/// The same by single keys and by what lies between them, a few for each task.
fn by_lookups(txn: &Txn, tree: &Tree, span: &KeySpan, tasks: usize) -> Rows {
    let mut borders: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    borders.extend((0..KEYS).map(|n| crate::span::following(&key(n))));
    borders.push(span.lower.clone());
    borders.extend(span.upper.clone());
    borders.retain(|key| *key == span.lower || span.contains(key));
    borders.sort();
    let ends = borders.iter().skip(1).map(|key| Some(key.clone()));
    let ends = ends.chain([span.upper.clone()]);
    let spans = borders.iter().zip(ends).map(|(lower, upper)| KeySpan {
        lower: lower.clone(),
        upper,
    });
    rows_of(&txn.parallel_lookup(tree, spans.collect(), tasks).unwrap())
}

/// A seeker that is sent ahead and back finds what the model has from each key on.
fn check_seeker(txn: &Txn, tree: &Tree, model: &Model) -> Result<(), TestCaseError> {
    let mut seeker = txn.seeker(tree, View::Snapshot).unwrap();
    for nth in 0..3 * KEYS {
        // Key by key, the same again, with gaps, and back.
        let wanted = key(nth * [1, 1, 7][usize::from(nth / KEYS)] % KEYS / (1 + nth % 2));
        seeker.go_to(&wanted, nth % 3 > 0).unwrap();
        let mut expected = model.range(wanted.clone()..);
        for _ in 0..nth % 4 {
            let found = seeker.next().unwrap();
            let next = expected.next().map(|(k, v)| (k.as_slice(), v.as_slice()));
            prop_assert_eq!(found, next, "from {:?}", wanted);
            if next.is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// What every snapshot must see.
pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn check(
    txn: &Txn,
    tree: &Tree,
    model: &Model,
    span: &KeySpan,
    tasks: usize,
) -> Result<(), TestCaseError> {
    let expected: Rows = model
        .iter()
        .filter(|(key, _)| span.contains(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    prop_assert_eq!(&by_cursor(txn, tree, span), &expected);
    prop_assert_eq!(&by_tasks(txn, tree, vec![span.clone()], tasks), &expected);
    if !span.is_empty() {
        prop_assert_eq!(&by_lookups(txn, tree, span, tasks), &expected);
    }
    check_seeker(txn, tree, model)?;
    prop_assert_eq!(
        count(txn, tree, vec![span.clone()], tasks),
        expected.len() as u64
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]
    #[test]
    fn tasks_and_counts_are_what_a_cursor_sees(
        steps in steps(),
        own in prop::collection::vec((0..KEYS, prop::bool::weighted(0.6)), 0..20),
        rolled_back in prop::collection::vec((0..KEYS, any::<bool>()), 0..6),
        spans in prop::collection::vec((span(), 1..12usize), 1..5),
    ) {
        let machine = SimEnv::new(7);
        let mut engine = Engine::open(machine.env(), config()).unwrap();
        let id = engine.create_tree().unwrap().id();
        let mut model = Model::new();
        let mut held: Vec<(Txn, Model)> = Vec::new();
        let mut version = 0u32;
        for step in steps {
            let tree = engine.tree(id).unwrap();
            match step {
                Step::Commit(writes) => {
                    let mut txn = engine.begin(Isolation::RepeatableRead);
                    for (n, is_put) in writes {
                        version += 1;
                        let value = version.to_le_bytes().to_vec();
                        if is_put {
                            txn.put(&tree, &key(n), &value).unwrap();
                            model.insert(key(n), value);
                        } else {
                            txn.delete(&tree, &key(n)).unwrap();
                            model.remove(&key(n));
                        }
                    }
                    let _ = txn.commit().unwrap();
                }
                Step::Flush => engine.flush_all().unwrap(),
                Step::Compact => engine.compact().unwrap(),
                Step::Hold => {
                    let txn = engine.begin(Isolation::RepeatableRead);
                    txn.snapshot();
                    held.push((txn, model.clone()));
                }
                Step::Reopen => {
                    held.clear();
                    engine.shutdown().unwrap();
                    drop(tree);
                    drop(engine);
                    engine = Engine::open(machine.env(), config()).unwrap();
                }
            }
        }
        let tree = engine.tree(id).unwrap();
        for (span, tasks) in &spans {
            for (txn, model) in &held {
                check(txn, &tree, model, span, *tasks)?;
            }
        }
        // A transaction with writes of its own, some of them taken back.
        let mut txn = engine.begin(Isolation::RepeatableRead);
        let mut seen = model.clone();
        for (n, is_put) in own {
            if is_put {
                txn.put(&tree, &key(n), b"own").unwrap();
                seen.insert(key(n), b"own".to_vec());
            } else {
                txn.delete(&tree, &key(n)).unwrap();
                seen.remove(&key(n));
            }
        }
        let savepoint = txn.savepoint();
        for (n, is_put) in rolled_back {
            match is_put {
                true => txn.put(&tree, &key(n), b"dead").unwrap(),
                false => txn.delete(&tree, &key(n)).unwrap(),
            }
        }
        txn.rollback_to(savepoint);
        for (span, tasks) in &spans {
            check(&txn, &tree, &seen, span, *tasks)?;
        }
        // Several ranges, which may overlap, give every key once.
        let together: Rows = seen
            .into_iter()
            .filter(|(key, _)| spans.iter().any(|(span, _)| span.contains(key)))
            .collect();
        let all: Vec<KeySpan> = spans.iter().map(|(span, _)| span.clone()).collect();
        prop_assert_eq!(count(&txn, &tree, all.clone(), 4), together.len() as u64);
        prop_assert_eq!(by_tasks(&txn, &tree, all, 4), together);
    }
}

/// An engine with this many rows, compacted into one run.
fn settled(rows: u32) -> (Engine, Tree) {
    settled_in(rows, 16 << 10, 1 << 10)
}

/// The same in extents and blocks of this size.
fn settled_in(rows: u32, extent_bytes: usize, block_bytes: usize) -> (Engine, Tree) {
    let mut config = config();
    config.extents.extent_bytes = extent_bytes;
    config.extents.block_bytes = block_bytes;
    let engine = Engine::open(SimEnv::new(1).env(), config).unwrap();
    let tree = engine.create_tree().unwrap();
    write(&engine, &tree, 0..rows);
    engine.flush_all().unwrap();
    engine.compact().unwrap();
    (engine, tree)
}

fn write(engine: &Engine, tree: &Tree, numbers: impl IntoIterator<Item = u32>) {
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for n in numbers {
        txn.put(tree, &n.to_be_bytes(), b"a value of some bytes")
            .unwrap();
    }
    let _ = txn.commit().unwrap();
}

#[test]
fn a_settled_tree_is_counted_without_reading() {
    let (engine, tree) = settled(5000);
    let txn = engine.begin(Isolation::RepeatableRead);
    let count = txn.parallel_count(&tree, vec![KeySpan::all()], 8).unwrap();
    assert_eq!((count.counted(), count.tasks()), (5000, 0));
    // At the edges of a range there is something to read.
    let span = KeySpan::new(
        Bound::Included(&100u32.to_be_bytes()),
        Bound::Included(&4899u32.to_be_bytes()),
    );
    let part = txn.parallel_count(&tree, vec![span.clone()], 8).unwrap();
    assert!(part.counted() > 3000 && part.tasks() > 0);
    assert_eq!(super::tests::count(&txn, &tree, vec![span], 8), 4800);
}

#[test]
fn a_few_newer_rows_are_all_that_is_read() {
    let (engine, tree) = settled(20_000);
    // Changed, new and deleted rows, spread over all extents, in memory.
    write(&engine, &tree, (0..20_000).step_by(500));
    write(&engine, &tree, 20_000..20_010);
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for n in (0..20_000u32).step_by(1000) {
        txn.delete(&tree, &(n + 7).to_be_bytes()).unwrap();
    }
    let _ = txn.commit().unwrap();
    let expected = 20_000 + 10 - 20;
    let count = |txn: &Txn| {
        let count = txn.parallel_count(&tree, vec![KeySpan::all()], 8).unwrap();
        assert!(count.counted() < expected);
        let overlays = count.tasks.iter();
        let overlays = overlays.filter(|task| matches!(task, CountTask::Overlay(_)));
        assert!(overlays.count() > 0);
        super::tests::count(txn, &tree, vec![KeySpan::all()], 8)
    };
    assert_eq!(count(&txn), expected);
    // The same in a run of their own above.
    engine.flush_all().unwrap();
    let txn = engine.begin(Isolation::RepeatableRead);
    assert_eq!(count(&txn), expected);
}

/// A key that lies between those of [`settled`].
fn gap(n: u32) -> Vec<u8> {
    [&n.to_be_bytes()[..], b"+"].concat()
}

/// Whoever counts again is told what an earlier count has found; rows that come, go and come again count nevertheless.
#[test]
fn counts_that_come_again_count_what_has_changed_since() {
    const ROWS: u32 = 20_000;
    let (engine, tree) = settled(ROWS);
    let mut rng = SimRng::new(5);
    let mut rows: BTreeSet<Vec<u8>> = (0..ROWS).map(|n| n.to_be_bytes().to_vec()).collect();
    let mut held: Vec<(Txn, usize, usize)> = Vec::new();
    let part = KeySpan::new(
        Bound::Excluded(&777u32.to_be_bytes()),
        Bound::Excluded(&15_003u32.to_be_bytes()),
    );
    for round in 0..12 {
        let mut txn = engine.begin(Isolation::RepeatableRead);
        for _ in 0..40 {
            // Some are chosen again and again.
            let n = rng.below(u64::from(ROWS) / 100) as u32 * 100 + rng.below(2) as u32;
            let key = match rng.chance(40) {
                true => gap(n),
                false => n.to_be_bytes().to_vec(),
            };
            match rng.chance(50) {
                true => {
                    txn.put(&tree, &key, b"a value").unwrap();
                    rows.insert(key);
                }
                false => {
                    txn.delete(&tree, &key).unwrap();
                    rows.remove(&key);
                }
            }
        }
        let _ = txn.commit().unwrap();
        if round == 6 {
            engine.flush_all().unwrap();
        }
        let txn = engine.begin(Isolation::RepeatableRead);
        txn.snapshot();
        let inside = rows.iter().filter(|key| part.contains(key)).count();
        held.push((txn, rows.len(), inside));
        for (txn, all, inside) in &held {
            let everywhere = vec![KeySpan::all()];
            assert_eq!(count(txn, &tree, everywhere, 1 + round % 3), *all as u64);
            assert_eq!(count(txn, &tree, vec![part.clone()], 2), *inside as u64);
        }
    }
}

/// Between two extents with few changes inside there are keys that neither of them has: each is counted once, however
/// the extents are put together to tasks.
#[test]
fn keys_between_extents_are_counted_once() {
    const ROWS: u32 = 20_000;
    let (engine, tree) = settled(ROWS);
    let borders: Vec<(Vec<u8>, Vec<u8>)> = {
        let txn = engine.begin(Isolation::RepeatableRead);
        let view = txn.pin(&tree).unwrap();
        let metas = view
            .runs()
            .flat_map(|run| run.extents().iter())
            .map(|extent| extent.meta());
        metas
            .map(|meta| (meta.first.key.to_vec(), meta.last.key.to_vec()))
            .collect()
    };
    assert!(borders.len() > 10, "{} extents", borders.len());
    let behind = |key: &[u8]| [key, b"+"].concat();
    // A key inside of each extent, and a key in the gap behind every second, third ... of them.
    for every in 1..4 {
        let mut txn = engine.begin(Isolation::RepeatableRead);
        for (n, (first, last)) in borders.iter().enumerate() {
            txn.put(&tree, &behind(first), b"inside").unwrap();
            if n % every == 0 {
                txn.put(&tree, &behind(last), b"in the gap").unwrap();
            }
        }
        let rows = by_cursor(&txn, &tree, &KeySpan::all()).len() as u64;
        for tasks in [1, 2, 5, 100] {
            assert_eq!(
                count(&txn, &tree, vec![KeySpan::all()], tasks),
                rows,
                "{tasks} tasks"
            );
        }
    }
}

#[test]
fn what_a_count_has_found_is_not_looked_for_again() {
    let (engine, tree) = settled(20_000);
    let changed = [100u32.to_be_bytes().to_vec(), gap(100)];
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for key in &changed {
        txn.put(&tree, key, b"a value").unwrap();
    }
    let _ = txn.commit().unwrap();
    let txn = engine.begin(Isolation::RepeatableRead);
    let all = || vec![KeySpan::all()];
    assert_eq!(count(&txn, &tree, all(), 1), 20_001);
    let view = txn.parallel_count(&tree, all(), 1).unwrap().view;
    let run = view.runs().next().unwrap();
    let extent = &run.extents()[run.find(&changed[0], LATEST)];
    let known_keys = extent.known_keys().unwrap();
    assert_eq!(known_keys.get(0), Some((&changed[0][..], true)));
    assert_eq!(known_keys.get(1), Some((&changed[1][..], false)));
    assert_eq!(known_keys.get(2), None);
    // The proof that it is believed: something wrong.
    let mut wrong = KnownKeys::default();
    wrong.push(&changed[0], false);
    wrong.push(&changed[1], false);
    extent.remember_keys(&wrong);
    assert_eq!(count(&txn, &tree, all(), 1), 20_002);
    // It goes with the blocks of the extent.
    extent.uncache(&mut Vec::new());
    assert!(extent.known_keys().is_none());
    assert_eq!(count(&txn, &tree, all(), 1), 20_001);
}

/// Of keys that take more room than is given to it, nothing is remembered, and all are counted.
#[test]
fn an_extent_remembers_only_so_much() {
    let (engine, tree) = settled_in(60_000, 2 << 20, 16 << 10);
    let long = |n: u32| [&7u32.to_be_bytes()[..], &[b'x'; 2000], &n.to_be_bytes()].concat();
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for n in 0..300 {
        txn.put(&tree, &long(n), b"a value").unwrap();
    }
    txn.delete(&tree, &8u32.to_be_bytes()).unwrap();
    let _ = txn.commit().unwrap();
    let txn = engine.begin(Isolation::RepeatableRead);
    let all = || vec![KeySpan::all()];
    for _ in 0..2 {
        assert_eq!(count(&txn, &tree, all(), 1), 60_299);
        let overlaid = txn.parallel_count(&tree, all(), 1).unwrap();
        let is_overlay = |task: &CountTask| matches!(task, CountTask::Overlay(_));
        assert!(overlaid.tasks.iter().all(is_overlay));
        let run = overlaid.view.runs().next().unwrap();
        assert!(run.extents()[0].known_keys().is_none());
    }
}

/// Few are counted, many are estimated; in extents, and with more of them in a memtable.
#[test]
fn entries_between_keys_are_estimated() {
    let (engine, tree) = settled(20_000);
    let span = |from: u32, to: u32| {
        KeySpan::new(
            Bound::Included(&from.to_be_bytes()),
            Bound::Excluded(&to.to_be_bytes()),
        )
    };
    let entries = |from, to| tree.entries_in(&span(from, to)).unwrap();
    assert_eq!((entries(100, 100), entries(100, 107)), (0, 7));
    assert_eq!(entries(30_000, 40_000), 0);
    let spans = [
        (0, 20_000),
        (0, 10_000),
        (5_000, 15_000),
        (19_000, 30_000),
        // Part of a block.
        (7_000, 7_080),
        (7_321, 7_521),
        (12_000, 13_000),
    ];
    for (from, to) in spans {
        let real = u64::from(to.min(20_000) - from);
        assert!(
            (real * 7 / 10..=real * 13 / 10).contains(&entries(from, to)),
            "{from} {to}"
        );
    }
    let before = entries(5_000, 15_000);
    write(&engine, &tree, 5_000..15_000);
    assert!(entries(5_000, 15_000) > before * 3 / 2);
}

#[test]
fn what_is_counted_raises_the_dependency() {
    let (engine, tree) = settled(3000);
    let newest = engine.visible_seq();
    let txn = engine.begin(Isolation::RepeatableRead);
    txn.parallel_count(&tree, vec![KeySpan::all()], 4).unwrap();
    assert_eq!(txn.dependency(), newest);
    by_tasks(&txn, &tree, vec![KeySpan::all()], 4);
    assert_eq!(txn.dependency(), newest);
}

#[test]
fn tasks_are_of_like_size_wherever_the_rows_lie() {
    let (engine, tree) = settled(30_000);
    // Ascending inserts: a memtable behind everything, not small.
    write(&engine, &tree, 30_000..60_000);
    let txn = engine.begin(Isolation::RepeatableRead);
    let scan = txn.cut_scan(&tree, vec![KeySpan::all()], 10, 1).unwrap();
    assert!((8..=12).contains(&scan.tasks()), "{}", scan.tasks());
    for task in 0..scan.tasks() {
        let mut rows = 0;
        let mut row = |_: &[u8], _: &[u8]| {
            rows += 1;
            true
        };
        scan.read(task, &mut row, &mut || true).unwrap();
        assert!((4000..=8000).contains(&rows), "task {task} has {rows}");
    }
}

#[test]
fn a_task_ends_when_it_is_told_to() {
    let (engine, tree) = settled(20_000);
    write(&engine, &tree, 20_000..40_000);
    let txn = engine.begin(Isolation::RepeatableRead);
    let scan = txn.parallel_scan(&tree, vec![KeySpan::all()], 1).unwrap();
    assert_eq!(scan.tasks(), 1);
    for patience in [0, 1, 30] {
        let (mut asked, mut rows) = (0, 0);
        let mut row = |_: &[u8], _: &[u8]| {
            rows += 1;
            true
        };
        let mut go_on = || {
            asked += 1;
            asked <= patience
        };
        assert!(!scan.read(0, &mut row, &mut go_on).unwrap());
        assert!(rows <= (patience + 1) * 300, "{rows} after {patience}");
    }
    let mut rows = 0;
    let mut row = |_: &[u8], _: &[u8]| {
        rows += 1;
        rows < 10
    };
    assert!(!scan.read(0, &mut row, &mut || true).unwrap());
    assert_eq!(rows, 10);
}

#[test]
fn rows_of_blocks_with_nothing_else_come_many_at_once() {
    let (engine, tree) = settled_in(60_000, 400_000, 40_000);
    let txn = engine.begin(Isolation::RepeatableRead);
    let scan = txn.parallel_scan(&tree, vec![KeySpan::all()], 1).unwrap();
    let expected = rows_one_by_one(&scan);
    for piece in [Piece::Value, Piece::Whole] {
        let mut taker = Taker::of(piece);
        assert!(scan.read(0, &mut taker, &mut || true).unwrap());
        let at_once: usize = taker.at_once.iter().sum();
        assert!(at_once > expected.len() / 2, "{at_once}");
        assert!(taker.at_once.contains(&MOST_PIECES));
        let parts = expected.iter().map(|row| Taker::part(piece, row));
        assert!(parts.eq(taker.taken.iter().cloned()));
        // Whoever has enough gets no more.
        taker.taken.clear();
        taker.most = MOST_PIECES + 1;
        assert!(!scan.read(0, &mut taker, &mut || true).unwrap());
        assert!((taker.most..=taker.most + MOST_PIECES).contains(&taker.taken.len()));
    }
}

#[test]
fn a_key_that_goes_on_in_the_next_extent_comes_once() {
    for filler in 0..40 {
        let engine = Engine::open(SimEnv::new(1).env(), config()).unwrap();
        let tree = engine.create_tree().unwrap();
        let put = |key: &[u8], bytes| {
            let mut txn = engine.begin(Isolation::RepeatableRead);
            txn.put(&tree, key, &vec![7; bytes]).unwrap();
            let _ = txn.commit().unwrap();
            let seen = engine.begin(Isolation::RepeatableRead);
            seen.get(&tree, key, View::Snapshot).unwrap();
            seen
        };
        let mut held: Vec<Txn> = (0..filler).map(|n| put(&[1, n], 20)).collect();
        held.extend((0..4).map(|_| put(&[2], 300)));
        engine.flush_all().unwrap();
        let txn = engine.begin(Isolation::RepeatableRead);
        let rows = by_tasks(&txn, &tree, vec![KeySpan::all()], 1);
        assert_eq!(rows.len(), usize::from(filler) + 1);
    }
}
