//! Randomised model test: whatever is answered from metadata equals what plain reading finds.
//!
//! Keys are drawn before, at, between and behind the borders of extents, blocks and tasks: what is known of an extent
//! ends at its borders, so that is where counts, known_keys counts, skipped blocks and the cut into tasks can go wrong.
//! A tree has runs, memtables and what a restart replays; transactions hold snapshots, have puts and deletes of their
//! own that nobody else sees, and take some of them back. Each answer is compared with a model and with a cursor. A
//! part of the trees is asked while other threads write, flush and compact; then only cursors of the same snapshot know
//! the answer.
//!
//! `ESKER_TREES` trees (default 300) from the seed `ESKER_FIRST_TREE` on (default 1). A long run by hand:
//!
//! ```text
//! ESKER_TREES=100000 cargo test --release -p esker-engine --lib scan::random_trees
//! ```
//!
//! **Invariant**: a tree's seed is all that it comes from, but for those with other threads.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_vfs::sim::{SimEnv, SimRng};

use super::filter_tests::{self, OneField};
use super::tests::{self, Model, Rows};
use super::*;
use crate::span::following;
use crate::{Direction, Engine, EngineConfig, Isolation, TreeId, View};

/// Distance of the keys a tree begins with: others fit between them.
const DISTANCE: u64 = 8;
/// One tree in so many is asked while others write.
const SHARED_EVERY: u64 = 8;
/// Transactions that are open at once.
const MOST_OPEN: usize = 4;
/// Borders that are looked at for new keys.
const MOST_BORDERS: usize = 600;

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// What happened, for the test that wants to know that it did.
#[derive(Debug, Default)]
struct Happened {
    looks: u64,
    /// Keys counted by extents that nothing overlaps.
    counted: u64,
    /// Extents with little above them.
    overlays: u64,
    /// Counts that knew of what was looked up before.
    repeated: u64,
    blocks_skipped: u64,
    /// Written keys that were drawn at a border.
    at_borders: u64,
    reopened: u64,
    spilled: u64,
}

fn key(n: u64) -> Vec<u8> {
    let number = ((n + 1) * DISTANCE) as u16;
    [b"k", number.to_be_bytes().as_slice()].concat()
}

/// A key just before another one.
fn before(key: &[u8]) -> Vec<u8> {
    match key.split_last() {
        None | Some((0, _)) => key[..key.len().saturating_sub(1)].to_vec(),
        Some((last, rest)) => [rest, &[last - 1, 0xff]].concat(),
    }
}

/// A transaction that is open, and what it sees.
struct Open {
    txn: Txn,
    sees: Model,
    /// Its writes that count, for when it commits.
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

struct World {
    rng: SimRng,
    machine: SimEnv,
    config: EngineConfig,
    /// None only while it is opened again.
    engine: Option<Engine>,
    id: TreeId,
    model: Model,
    open: Vec<Open>,
    /// Keys of the tree when it begins.
    keys: u64,
    version: u32,
    happened: Happened,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = SimRng::new(seed);
        let mut config = tests::config();
        config.extents.block_bytes = [32, 64, 200][rng.below(3) as usize];
        config.extents.extent_bytes = [600, 1200, 3000][rng.below(3) as usize];
        config.txn_memory_bytes = [300, 64 << 20, 64 << 20][rng.below(3) as usize];
        config.log_buffer_bytes = 1 << 16;
        let most_keys = [250, 250, 250, 900][rng.below(4) as usize];
        let keys = 20 + rng.below(most_keys);
        let machine = SimEnv::new(seed);
        config.on_fatal = Arc::new(|message| panic!("{message}"));
        let verify = rng.chance(30);
        let engine = World::open_engine(&machine, &config, verify);
        let id = engine.create_tree().unwrap().id();
        World {
            rng,
            machine,
            config,
            engine: Some(engine),
            id,
            model: Model::new(),
            open: Vec::new(),
            keys,
            version: 0,
            happened: Happened::default(),
        }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("it is open")
    }

    /// Opens it; in a part of the trees it compares its answers itself.
    fn open_engine(machine: &SimEnv, config: &EngineConfig, verify: bool) -> Engine {
        let engine = Engine::open(machine.env(), config.clone()).unwrap();
        engine.switches().set_verify_answers(verify);
        engine
    }

    fn tree(&self) -> Tree {
        let tree = self.engine().tree(self.id).unwrap();
        tree.set_fields(Arc::new(OneField));
        tree
    }

    /// The tree's first keys: most of them at rest on disk.
    fn fill(&mut self) {
        let tree = self.tree();
        let rows: Vec<_> = (0..self.keys).map(|n| (key(n), self.value(n))).collect();
        if self.rng.chance(30) {
            let mut builder = self.engine().build_tree(&tree, 4 << 10);
            for (key, value) in &rows {
                builder.add(key, value).unwrap();
            }
            builder.finish(&|| true).unwrap();
        } else {
            let mut txn = self.engine().begin(Isolation::RepeatableRead);
            for (key, value) in &rows {
                txn.put(&tree, key, value).unwrap();
            }
            let _ = txn.commit().unwrap();
            self.engine().flush_all().unwrap();
            self.engine().compact().unwrap();
        }
        self.model.extend(rows);
    }

    fn value(&mut self, n: u64) -> Vec<u8> {
        self.version += 1;
        filter_tests::value(n as u16, self.version)
    }

    /// Keys at which something ends or begins.
    fn borders(&mut self) -> Vec<Vec<u8>> {
        let txn = self.engine().begin(Isolation::RepeatableRead);
        let parts = 1 + self.rng.below(12) as usize;
        borders(&txn, &self.tree(), parts)
    }

    /// A key to write or to ask for.
    fn draw(&mut self, borders: &[Vec<u8>]) -> Vec<u8> {
        if borders.is_empty() || self.rng.chance(25) {
            return key(self.rng.below(self.keys + 4));
        }
        self.happened.at_borders += 1;
        let at = &borders[self.rng.below(borders.len() as u64) as usize];
        near(at, self.rng.below(5))
    }

    /// Puts and deletes, most of them at borders or all of a stretch.
    fn writes(&mut self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let borders = self.borders();
        if self.rng.chance(15) {
            let (a, b) = (self.draw(&borders), self.draw(&borders));
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            let keys: Vec<_> = self
                .model
                .range(low..high)
                .map(|(k, _)| k.clone())
                .collect();
            return keys.into_iter().map(|key| (key, None)).collect();
        }
        let most = [8, 8, 8, 60][self.rng.below(4) as usize];
        let count = 1 + self.rng.below(most);
        let puts = [20, 60, 95][self.rng.below(3) as usize];
        let write = |world: &mut World| {
            let key = world.draw(&borders);
            let number = world.rng.below(world.keys);
            let value = world.rng.chance(puts).then(|| world.value(number));
            (key, value)
        };
        (0..count).map(|_| write(self)).collect()
    }

    fn commit(&mut self) {
        let writes = self.writes();
        let tree = self.tree();
        let mut txn = self.engine().begin(Isolation::RepeatableRead);
        write(&mut txn, &tree, &writes);
        self.happened.spilled += u64::from(txn.has_spilled());
        let _ = txn.commit().unwrap();
        apply(&mut self.model, writes);
    }

    /// Opens a transaction; some write, and take a part of that back.
    fn open(&mut self) {
        if self.open.len() == MOST_OPEN {
            self.close();
        }
        let txn = self.engine().begin(Isolation::RepeatableRead);
        txn.snapshot();
        let mut open = Open {
            txn,
            sees: self.model.clone(),
            writes: Vec::new(),
        };
        if self.rng.chance(60) {
            let (tree, writes, dead) = (self.tree(), self.writes(), self.writes());
            write(&mut open.txn, &tree, &writes);
            apply(&mut open.sees, writes.clone());
            open.writes = writes;
            if self.rng.chance(50) {
                let savepoint = open.txn.savepoint();
                write(&mut open.txn, &tree, &dead);
                open.txn.rollback_to(savepoint);
            }
        }
        self.open.push(open);
    }

    /// Commits an open transaction, or rolls it back.
    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let which = self.rng.below(self.open.len() as u64) as usize;
        let mut open = self.open.remove(which);
        if self.rng.chance(60) {
            let _ = open.txn.commit().unwrap();
            apply(&mut self.model, open.writes);
        } else {
            open.txn.rollback();
        }
    }

    /// What is not flushed comes out of the log.
    fn reopen(&mut self) {
        self.open.clear();
        self.engine().shutdown().unwrap();
        self.engine = None;
        let verify = self.rng.chance(30);
        self.engine = Some(World::open_engine(&self.machine, &self.config, verify));
        self.happened.reopened += 1;
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..8 => self.commit(),
            8 | 9 => self.engine().flush_all().unwrap(),
            10 => {
                self.tree().rotate(self.engine().visible_seq());
            }
            11 => self.engine().compact().unwrap(),
            12 => self.engine().sink(&self.tree()).unwrap(),
            13 | 14 => self.open(),
            15 => self.close(),
            16 => self.reopen(),
            _ => self.look_at_one(),
        }
    }

    /// Compares what one transaction sees.
    fn look_at_one(&mut self) {
        let which = self.rng.below(self.open.len() as u64 + 1) as usize;
        if which < self.open.len() {
            let open = self.open.remove(which);
            self.look(&open.txn, &open.sees);
            self.open.insert(which, open);
        } else {
            let txn = self.engine().begin(Isolation::RepeatableRead);
            let sees = self.model.clone();
            self.look(&txn, &sees);
        }
    }

    fn look(&mut self, txn: &Txn, sees: &Model) {
        let (tree, borders) = (self.tree(), self.borders());
        self.happened.looks += 1;
        for nth in 0..3 {
            let span = match nth {
                0 => KeySpan::all(),
                _ => {
                    let lower = self.draw(&borders);
                    let upper = self.rng.chance(80).then(|| self.draw(&borders));
                    KeySpan { lower, upper }
                }
            };
            let plain = compare(txn, &tree, &span, &mut self.rng, &mut self.happened);
            let inside = sees.iter().filter(|(key, _)| span.contains(key));
            let expected = inside.map(|(key, value)| (key.clone(), value.clone()));
            assert!(expected.eq(plain), "a cursor over {span:?}");
        }
        for _ in 0..8 {
            let key = self.draw(&borders);
            let found = txn.get(&tree, &key, View::Snapshot).unwrap();
            assert_eq!(found.as_ref(), sees.get(&key), "{key:?}");
        }
    }

    /// Asks while other threads write, flush and compact.
    fn ask_beside_writers(&mut self) {
        let stops = AtomicBool::new(false);
        let borders = self.borders();
        let (tree, engine, keys) = (self.tree(), self.engine().clone(), self.keys);
        let mut dice = SimRng::new(self.rng.next_u64());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stops.load(Ordering::Relaxed) {
                    let mut txn = engine.begin(Isolation::RepeatableRead);
                    for _ in 0..=dice.below(6) {
                        let key = match dice.chance(70) && !borders.is_empty() {
                            true => {
                                let at = dice.below(borders.len() as u64) as usize;
                                near(&borders[at], dice.below(5))
                            }
                            false => key(dice.below(keys)),
                        };
                        let value =
                            filter_tests::value(dice.below(keys) as u16, dice.below(500) as u32);
                        match dice.chance(50) {
                            true => txn.put(&tree, &key, &value).unwrap(),
                            false => txn.delete(&tree, &key).unwrap(),
                        }
                    }
                    let _ = txn.commit().unwrap();
                    match dice.below(12) {
                        0 => engine.flush_all().unwrap(),
                        1 => engine.compact().unwrap(),
                        2 => {
                            tree.rotate(engine.visible_seq());
                        }
                        _ => {}
                    }
                }
            });
            for _ in 0..6 {
                let txn = self.engine().begin(Isolation::RepeatableRead);
                let span = match self.rng.chance(50) {
                    true => KeySpan::all(),
                    false => KeySpan {
                        lower: self.draw(&borders),
                        upper: Some(self.draw(&borders)),
                    },
                };
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    compare(&txn, &tree, &span, &mut self.rng, &mut self.happened);
                }));
                if let Err(panic) = outcome {
                    stops.store(true, Ordering::Relaxed);
                    std::panic::resume_unwind(panic);
                }
            }
            stops.store(true, Ordering::Relaxed);
        });
    }
}

fn write(txn: &mut Txn, tree: &Tree, writes: &[(Vec<u8>, Option<Vec<u8>>)]) {
    for (key, value) in writes {
        match value {
            Some(value) => txn.put(tree, key, value).unwrap(),
            None => txn.delete(tree, key).unwrap(),
        }
    }
}

fn apply(model: &mut Model, writes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    for (key, value) in writes {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

/// A key before, at, just behind, a little behind or farther behind a border.
fn near(border: &[u8], how: u64) -> Vec<u8> {
    match how {
        0 => before(border),
        1 => border.to_vec(),
        2 => following(border),
        3 => [border, b"+"].concat(),
        _ => before(&before(border)),
    }
}

/// Where extents, blocks and tasks begin and end.
fn borders(txn: &Txn, tree: &Tree, parts: usize) -> Vec<Vec<u8>> {
    let mut borders = Vec::new();
    let view = txn.pin(tree).unwrap();
    for extent in view.runs().flat_map(|run| run.extents().iter()) {
        // The ends of extents weigh as much as those of their blocks together.
        for _ in 0..4 {
            borders.push(extent.meta().first.key.to_vec());
            borders.push(extent.meta().last.key.to_vec());
        }
        let block = |key: &[u8], _| borders.push(key.to_vec());
        extent.for_each_separator(block).unwrap();
    }
    let scan = txn.cut_scan(tree, vec![KeySpan::all()], parts, 1).unwrap();
    borders.extend(
        scan.tasks
            .into_iter()
            .flatten()
            .filter_map(|span| span.upper),
    );
    let count = txn.cut_count(tree, vec![KeySpan::all()], parts, 1).unwrap();
    for task in count.tasks {
        let (CountTask::Read(span) | CountTask::Overlay(Overlay { span, .. })) = task;
        borders.push(span.lower);
        borders.extend(span.upper);
    }
    while borders.len() > MOST_BORDERS {
        let thinner = borders.into_iter().step_by(2);
        borders = thinner.collect();
    }
    borders
}

/// Everything that is answered from metadata against a cursor; the rows of the span.
fn compare(
    txn: &Txn,
    tree: &Tree,
    span: &KeySpan,
    rng: &mut SimRng,
    happened: &mut Happened,
) -> Rows {
    let plain = tests::by_cursor(txn, tree, span);
    let tasks = [1, 2, 3, 7, 50][rng.below(5) as usize];
    let spans = || vec![span.clone()];
    for again in [false, true] {
        let count = txn.cut_count(tree, spans(), tasks, 1).unwrap();
        let overlays = count.tasks.iter();
        let overlays = overlays
            .filter(|task| matches!(task, CountTask::Overlay(_)))
            .count() as u64;
        happened.overlays += overlays;
        happened.counted += count.counted();
        happened.repeated += u64::from(again && overlays > 0);
        let read = (0..count.tasks()).map(|task| {
            let counted = count.count(task, &mut || true).unwrap();
            counted.unwrap().rows
        });
        let rows = count.counted() + read.sum::<u64>();
        count.verify(rows, &mut || true).unwrap();
        assert_eq!(
            rows,
            plain.len() as u64,
            "{span:?} counted by {tasks} tasks"
        );
    }
    assert_eq!(
        tests::by_tasks(txn, tree, spans(), tasks),
        plain,
        "{span:?} in {tasks} tasks"
    );
    let low = rng.below(16);
    let test = filter_tests::test(rng.chance(20), [(low, low + rng.below(4))]);
    let scan = txn.cut_scan(tree, spans(), tasks, 1).unwrap();
    let (wanted, skipped) = filter_tests::wanted_of(scan, &test);
    happened.blocks_skipped += skipped[0];
    let is_wanted = |row: &&(Vec<u8>, Vec<u8>)| filter_tests::is_wanted(&row.1, &test);
    assert!(
        plain.iter().filter(is_wanted).eq(&wanted),
        "{span:?} by {test:?}"
    );
    assert_eq!(
        ends(txn, tree, span),
        (plain.first().cloned(), plain.last().cloned()),
        "{span:?}"
    );
    look_up(txn, tree, &plain, rng);
    plain
}

type Row = (Vec<u8>, Vec<u8>);

/// The first and the last row of the span: what MIN and MAX of a key read.
fn ends(txn: &Txn, tree: &Tree, span: &KeySpan) -> (Option<Row>, Option<Row>) {
    if span.is_empty() {
        return (None, None);
    }
    let end = |direction| {
        let lower = Bound::Included(span.lower.as_slice());
        let upper = span
            .upper
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let mut cursor = txn
            .scan(tree, lower, upper, direction, View::Snapshot)
            .unwrap();
        let row = cursor.next().unwrap();
        row.map(|(key, value)| (key.to_vec(), value.to_vec()))
    };
    (end(Direction::Forward), end(Direction::Backward))
}

/// Single rows, and the gaps behind them, as a join looks them up.
fn look_up(txn: &Txn, tree: &Tree, plain: &Rows, rng: &mut SimRng) {
    if plain.is_empty() {
        return;
    }
    let picked = (0..6).map(|_| &plain[rng.below(plain.len() as u64) as usize]);
    let mut picked: Vec<&Row> = picked.collect();
    picked.sort();
    picked.dedup();
    let span = |(key, _): &&Row| KeySpan::new(Bound::Included(key), Bound::Included(key));
    let scan = txn
        .parallel_lookup(tree, picked.iter().map(span).collect(), 2)
        .unwrap();
    let found = tests::rows_of(&scan);
    assert!(found.iter().eq(picked), "{found:?}");
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures of a long run by hand")]
fn what_metadata_answer_is_what_reading_finds() {
    let (first, trees) = (setting("ESKER_FIRST_TREE", 1), setting("ESKER_TREES", 300));
    let mut all = Happened::default();
    for seed in first..first + trees {
        let mut world = World::new(seed);
        let run = || {
            world.fill();
            for _ in 0..5 + world.rng.below(20) {
                world.step();
            }
            for open in std::mem::take(&mut world.open) {
                world.look(&open.txn, &open.sees);
            }
            let txn = world.engine().begin(Isolation::RepeatableRead);
            let sees = world.model.clone();
            world.look(&txn, &sees);
            if seed % SHARED_EVERY == 0 {
                world.ask_beside_writers();
            }
        };
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            println!("the tree with the seed {seed}");
            std::panic::resume_unwind(panic);
        }
        let happened = world.happened;
        all.looks += happened.looks;
        all.counted += happened.counted;
        all.overlays += happened.overlays;
        all.repeated += happened.repeated;
        all.blocks_skipped += happened.blocks_skipped;
        all.at_borders += happened.at_borders;
        all.reopened += happened.reopened;
        all.spilled += happened.spilled;
    }
    println!("{trees} trees: {all:?}");
    // Each of these happened, and often.
    assert!(all.looks > 2 * trees, "{all:?}");
    assert!(all.counted > 50 * trees, "{all:?}");
    assert!(trees < 16 || all.overlays > trees, "{all:?}");
    assert!(trees < 16 || all.repeated > trees, "{all:?}");
    assert!(trees < 16 || all.blocks_skipped > trees, "{all:?}");
    assert!(all.at_borders > 20 * trees, "{all:?}");
    assert!(trees < 16 || all.reopened > trees / 4, "{all:?}");
    assert!(trees < 16 || all.spilled > trees / 16, "{all:?}");
}
