//! Filtered scans leave out blocks, never the newest version of a key in favour of an older one: against a model, over
//! every tier there is, for every snapshot that is held.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_vfs::sim::SimEnv;
use proptest::prelude::*;

use super::tests::{KEYS, Rows, Step, Taker, config, key, span, steps};
use super::*;
use crate::extent::{FieldId, FieldValue, Fields};
use crate::{Engine, EngineConfig, Isolation};

const FIELD: FieldId = FieldId(11);

/// Values of two bytes: what the second is, and a number.
pub(super) struct OneField;

const NULL: u8 = 0;
const UNKNOWN: u8 = 1;
const NUMBER: u8 = 2;

impl Fields for OneField {
    fn ids(&self) -> &[FieldId] {
        &[FIELD]
    }

    fn read(&self, value: &[u8], out: &mut [FieldValue]) {
        out[0] = match value[0] {
            NULL => FieldValue::Null,
            UNKNOWN => FieldValue::Unknown,
            _ => FieldValue::Number(value[1].into()),
        };
    }
}

/// Whether a row is wanted. One of which nobody knows the field always is.
pub(super) fn is_wanted(value: &[u8], test: &FieldTest) -> bool {
    match value[0] {
        NULL => test.null,
        UNKNOWN => true,
        _ => {
            let number = u64::from(value[1]);
            test.numbers.iter().any(|range| range.contains(&number))
        }
    }
}

pub(super) fn test(null: bool, numbers: impl IntoIterator<Item = (u64, u64)>) -> FieldTest {
    FieldTest {
        field: FIELD,
        null,
        numbers: numbers.into_iter().map(|(low, high)| low..=high).collect(),
    }
}

/// The wanted rows of a span, and how many blocks were left out: as many whichever way rows come, if nobody else
/// writes.
fn wanted(txn: &Txn, tree: &Tree, span: &KeySpan, tasks: usize, test: &FieldTest) -> (Rows, u64) {
    let scan = txn.cut_scan(tree, vec![span.clone()], tasks, 1).unwrap();
    let (rows, skipped) = wanted_of(scan, test);
    assert_eq!(skipped, [skipped[0]; 3]);
    (rows, skipped[0])
}

/// The wanted rows of a scan, which are the same whether rows come one by one or many at once, and how many blocks were
/// left out each way.
pub(super) fn wanted_of(scan: ParallelScan, test: &FieldTest) -> (Rows, [u64; 3]) {
    let scan = scan.with_tests(vec![test.clone()]);
    let mut rows = Rows::new();
    for task in 0..scan.tasks() {
        let mut take = |key: &[u8], value: &[u8]| {
            if is_wanted(value, test) {
                rows.push((key.to_vec(), value.to_vec()));
            }
            true
        };
        assert!(scan.read(task, &mut take, &mut || true).unwrap());
    }
    let mut skipped = [scan.blocks_skipped(), 0, 0];
    for (nth, piece) in [(1, Piece::Value), (2, Piece::Whole)] {
        let before = scan.blocks_skipped();
        let mut taker = Taker::of(piece);
        for task in 0..scan.tasks() {
            assert!(scan.read(task, &mut taker, &mut || true).unwrap());
        }
        let is_wanted = |piece: &Vec<u8>| is_wanted(&piece[piece.len() - 2..], test);
        taker.taken.retain(is_wanted);
        let parts = rows.iter().map(|row| Taker::part(piece, row));
        assert!(parts.eq(taker.taken));
        skipped[nth] = scan.blocks_skipped() - before;
    }
    (rows, skipped)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn expected(model: &Model, span: &KeySpan, test: &FieldTest) -> Rows {
    let rows = model.iter();
    let rows = rows.filter(|(key, value)| span.contains(key) && is_wanted(value, test));
    rows.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// A value that mostly follows the key, so that blocks can be told apart, and differs from version to version.
pub(super) fn value(n: u16, version: u32) -> Vec<u8> {
    let number = match version % 3 {
        0 => (version.wrapping_mul(0x9E37_79B1) >> 28) as u8,
        _ => (n / 4) as u8,
    };
    match version % 23 {
        5 | 6 => vec![NULL, 0],
        7 => vec![UNKNOWN, 0],
        _ => vec![NUMBER, number],
    }
}

fn field_test() -> impl Strategy<Value = FieldTest> {
    let range = (0..16u64, 0..4u64).prop_map(|(low, more)| (low, low + more));
    (
        prop::bool::weighted(0.2),
        prop::collection::vec(range, 0..3),
    )
        .prop_map(|(null, ranges)| test(null, ranges))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn filtered_scans_are_what_a_model_sees(
        // With little memory, most transactions write extents of their own, which their commits ingest.
        txn_memory_bytes in prop_oneof![Just(64 << 20), Just(300)],
        steps in steps(),
        own in prop::collection::vec((0..KEYS, prop::bool::weighted(0.6)), 0..12),
        scans in prop::collection::vec((span(), 1..6usize, field_test()), 1..8),
    ) {
        let machine = SimEnv::new(7);
        let config = || EngineConfig { txn_memory_bytes, ..config() };
        let mut engine = Engine::open(machine.env(), config()).unwrap();
        let id = engine.create_tree().unwrap().id();
        let mut model = Model::new();
        let mut held: Vec<(Txn, Model)> = Vec::new();
        let mut version = 0u32;
        for step in steps {
            let tree = engine.tree(id).unwrap();
            tree.set_fields(Arc::new(OneField));
            match step {
                Step::Commit(writes) => {
                    let mut txn = engine.begin(Isolation::RepeatableRead);
                    for (n, is_put) in writes {
                        version += 1;
                        if is_put {
                            txn.put(&tree, &key(n), &value(n, version)).unwrap();
                            model.insert(key(n), value(n, version));
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
        let mut txn = engine.begin(Isolation::RepeatableRead);
        let mut seen = model.clone();
        for (n, is_put) in own {
            if is_put {
                txn.put(&tree, &key(n), &value(n, 1)).unwrap();
                seen.insert(key(n), value(n, 1));
            } else {
                txn.delete(&tree, &key(n)).unwrap();
                seen.remove(&key(n));
            }
        }
        held.push((txn, seen));
        for (span, tasks, test) in &scans {
            for (txn, model) in &held {
                let (rows, _) = wanted(txn, &tree, span, *tasks, test);
                prop_assert_eq!(rows, expected(model, span, test));
            }
        }
    }
}

/// An engine and a tree whose blocks speak of the field.
fn tree() -> (Engine, Tree) {
    let engine = Engine::open(SimEnv::new(1).env(), config()).unwrap();
    let tree = engine.create_tree().unwrap();
    tree.set_fields(Arc::new(OneField));
    (engine, tree)
}

fn put(engine: &Engine, tree: &Tree, rows: impl IntoIterator<Item = (u32, u8)>) {
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for (n, number) in rows {
        txn.put(tree, &n.to_be_bytes(), &[NUMBER, number]).unwrap();
    }
    let _ = txn.commit().unwrap();
}

fn delete(engine: &Engine, tree: &Tree, keys: impl IntoIterator<Item = u32>) {
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for n in keys {
        txn.delete(tree, &n.to_be_bytes()).unwrap();
    }
    let _ = txn.commit().unwrap();
}

fn numbers(engine: &Engine, tree: &Tree, test: &FieldTest) -> (Vec<u32>, u64) {
    let txn = engine.begin(Isolation::RepeatableRead);
    let (rows, skipped) = wanted(&txn, tree, &KeySpan::all(), 3, test);
    let number = |(key, _): &(Vec<u8>, Vec<u8>)| u32::from_be_bytes(key[..].try_into().unwrap());
    (rows.iter().map(number).collect(), skipped)
}

#[test]
fn blocks_of_other_values_are_not_read_where_nothing_older_is() {
    let (engine, tree) = tree();
    put(&engine, &tree, (0..1000).map(|n| (n, (n / 10) as u8)));
    let forties = test(false, [(40, 49)]);
    assert_eq!(numbers(&engine, &tree, &forties), ((400..500).collect(), 0));
    engine.flush_all().unwrap();
    let (found, skipped) = numbers(&engine, &tree, &forties);
    assert!(
        found == (400..500).collect::<Vec<_>>() && skipped > 100,
        "{skipped}"
    );
    // Nothing at all is wanted: whole extents are left out, to the end.
    let (found, skipped) = numbers(&engine, &tree, &test(true, []));
    assert!(found.is_empty() && skipped > 150, "{skipped}");
    // Newer versions above, in memory and on disk, are no obstacle.
    put(&engine, &tree, (0..1000).step_by(7).map(|n| (n, 45)));
    delete(&engine, &tree, [450, 460]);
    for _ in 0..2 {
        let changed = (0..1000).step_by(7);
        let mut expected: Vec<u32> = (400..500).chain(changed).collect();
        expected.sort_unstable();
        expected.dedup();
        expected.retain(|n| ![450, 460].contains(n));
        let (found, skipped) = numbers(&engine, &tree, &forties);
        assert!(found == expected && skipped > 100, "{skipped}");
        engine.flush_all().unwrap();
    }
}

#[test]
fn a_newest_version_that_is_not_wanted_still_hides_the_older_ones_below() {
    let (engine, tree) = tree();
    put(&engine, &tree, (0..400).map(|n| (n, 5)));
    engine.flush_all().unwrap();
    engine.compact().unwrap();
    // A run above with another value of every second key, and deletes of others.
    put(&engine, &tree, (0..400).step_by(2).map(|n| (n, 9)));
    delete(&engine, &tree, (1..200).step_by(4));
    engine.flush_all().unwrap();
    let fives = test(false, [(5, 5)]);
    let expected: Vec<u32> = (0..400u32)
        .filter(|n| n % 2 == 1 && !(*n < 200 && n % 4 == 1))
        .collect();
    assert_eq!(numbers(&engine, &tree, &fives).0, expected);
    // Blocks of deletes alone hide as well.
    delete(&engine, &tree, 200..400);
    engine.flush_all().unwrap();
    let left: Vec<u32> = expected.into_iter().filter(|n| *n < 200).collect();
    assert_eq!(numbers(&engine, &tree, &fives).0, left);
}

/// One key has more versions than a block, or an extent, has room for; each of them is the newest for somebody.
#[test]
fn versions_of_a_key_in_many_blocks_are_not_mistaken_for_each_other() {
    let (engine, tree) = tree();
    put(&engine, &tree, (0..100).map(|n| (n, 200)));
    let mut held = Vec::new();
    for number in 0..150u8 {
        put(&engine, &tree, [(50, number), (51, 100 + number / 2)]);
        let txn = engine.begin(Isolation::RepeatableRead);
        txn.snapshot();
        held.push(txn);
        if number % 40 == 39 {
            engine.flush_all().unwrap();
        }
    }
    engine.flush_all().unwrap();
    for round in 0..2 {
        for (number, txn) in held.iter().enumerate() {
            let number = number as u64;
            let mut skipped = 0;
            for wanted_number in [0, number.saturating_sub(1), number, number + 1, 149] {
                let test = test(false, [(wanted_number, wanted_number)]);
                let (rows, some) = wanted(txn, &tree, &KeySpan::all(), 2, &test);
                skipped += some;
                let mut expected = Rows::new();
                if wanted_number == number {
                    expected.push((50u32.to_be_bytes().to_vec(), vec![NUMBER, number as u8]));
                }
                if wanted_number == 100 + number / 2 {
                    let value = vec![NUMBER, wanted_number as u8];
                    expected.push((51u32.to_be_bytes().to_vec(), value));
                }
                assert_eq!(rows, expected, "{number} for {wanted_number}, {round}");
            }
            assert!(skipped > 0 || round == 0);
        }
        engine.compact().unwrap();
    }
}

#[test]
fn an_extent_says_nothing_of_fields_nobody_knew_when_it_was_written() {
    let engine = Engine::open(SimEnv::new(1).env(), config()).unwrap();
    let tree = engine.create_tree().unwrap();
    put(&engine, &tree, (0..100).map(|n| (n, 1)));
    engine.flush_all().unwrap();
    tree.set_fields(Arc::new(OneField));
    put(&engine, &tree, (100..200).map(|n| (n, 2)));
    engine.flush_all().unwrap();
    let ones = test(false, [(1, 1)]);
    let (found, skipped) = numbers(&engine, &tree, &ones);
    assert!(found == (0..100).collect::<Vec<_>>() && skipped > 10);
    let (found, before) = numbers(&engine, &tree, &test(false, [(2, 2)]));
    assert!(
        found == (100..200).collect::<Vec<_>>() && before == 0,
        "{before}"
    );
    // Written anew, the old ones say it, too.
    put(&engine, &tree, (0..200).step_by(3).map(|n| (n, 2)));
    engine.flush_all().unwrap();
    engine.compact().unwrap();
    let txn = engine.begin(Isolation::RepeatableRead);
    assert!(wanted(&txn, &tree, &KeySpan::all(), 1, &ones).1 > 10);
}

/// Extents of a large transaction speak of the field before anybody sees them, and go on when they are ingested.
#[test]
fn what_a_large_transaction_wrote_is_left_out_too_and_hides_what_is_below() {
    let config = EngineConfig {
        txn_memory_bytes: 1 << 10,
        ..config()
    };
    let engine = Engine::open(SimEnv::new(1).env(), config).unwrap();
    let tree = engine.create_tree().unwrap();
    tree.set_fields(Arc::new(OneField));
    let (fives, nines) = (test(false, [(5, 5)]), test(false, [(9, 9)]));
    put(&engine, &tree, (0..400).map(|n| (n, (n / 40) as u8)));
    assert!(engine.stats().storage.work.ingests > 0);
    let (found, skipped) = numbers(&engine, &tree, &fives);
    let below: Vec<u32> = (200..240).collect();
    assert!(found == below && skipped > 20, "{skipped}");
    // At the bottom it is the same.
    engine.compact().unwrap();
    let (found, skipped) = numbers(&engine, &tree, &fives);
    assert!(found == below && skipped > 20, "{skipped}");

    let before = engine.begin(Isolation::RepeatableRead);
    before.snapshot();
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for n in (0..400u32).step_by(2) {
        txn.put(&tree, &n.to_be_bytes(), &[NUMBER, 9]).unwrap();
    }
    let keys = |rows: Rows| -> Vec<u32> {
        let number = |key: Vec<u8>| u32::from_be_bytes(key[..].try_into().unwrap());
        rows.into_iter().map(|(key, _)| number(key)).collect()
    };
    let seen_by =
        |txn: &Txn, test: &FieldTest| keys(wanted(txn, &tree, &KeySpan::all(), 3, test).0);
    let odd: Vec<u32> = below.iter().copied().filter(|n| n % 2 == 1).collect();
    let changed: Vec<u32> = (0..400).filter(|n| n % 2 == 0 || *n >= 360).collect();
    // The transaction sees its own writes, which others do not, and what they hide.
    assert_eq!(seen_by(&txn, &fives), odd);
    assert_eq!(seen_by(&txn, &nines), changed);
    assert_eq!(seen_by(&before, &fives), below);
    let _ = txn.commit().unwrap();
    assert_eq!(numbers(&engine, &tree, &fives).0, odd);
    assert_eq!(numbers(&engine, &tree, &nines).0, changed);
    // For an older snapshot the ingested extents are there, but hide nothing.
    assert_eq!(seen_by(&before, &fives), below);
    assert_eq!(seen_by(&before, &nines), (360..400).collect::<Vec<_>>());
}
