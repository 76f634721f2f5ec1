//! A difference between metadata and reading is noticed and named, and only a difference.

use std::sync::Arc;

use esker_vfs::sim::SimEnv;
use parking_lot::Mutex;

use super::filter_tests::{self, OneField};
use super::*;
use crate::extent::{FieldId, FieldValue, Fields, KnownKeys};
use crate::{Engine, Isolation, Tree};

/// Knows the field of [`OneField`], and says it is another number.
struct Liar;

impl Fields for Liar {
    fn ids(&self) -> &[FieldId] {
        OneField.ids()
    }

    fn read(&self, _value: &[u8], out: &mut [FieldValue]) {
        out[0] = FieldValue::Number(200);
    }
}

/// An engine that verifies, a tree, and what was fatal.
fn verifying() -> (Engine, Tree, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let mut config = super::tests::config();
    let heard = Arc::clone(&said);
    config.on_fatal = Arc::new(move |message| heard.lock().push(message.to_owned()));
    let engine = Engine::open(SimEnv::new(1).env(), config).unwrap();
    engine.switches().set_verify_answers(true);
    let tree = engine.create_tree().unwrap();
    (engine, tree, said)
}

/// Rows at rest in extents, whose blocks say what `fields` says of them.
fn fill(engine: &Engine, tree: &Tree, fields: Arc<dyn Fields>) {
    tree.set_fields(fields);
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for n in 0..800u32 {
        let value = [2, (n / 20) as u8];
        txn.put(tree, &n.to_be_bytes(), &value).unwrap();
    }
    let _ = txn.commit().unwrap();
    engine.flush_all().unwrap();
    engine.compact().unwrap();
}

/// Rows that are shown of those whose field is 3 or 4.
fn scan(engine: &Engine, tree: &Tree) -> usize {
    let txn = engine.begin(Isolation::RepeatableRead);
    let scan = txn.cut_scan(tree, vec![KeySpan::all()], 3, 1).unwrap();
    let scan = scan.with_tests(vec![filter_tests::test(false, [(3, 4)])]);
    let mut shown = 0;
    for task in 0..scan.tasks() {
        let mut take = |_: &[u8], _: &[u8]| {
            shown += 1;
            true
        };
        assert!(scan.read(task, &mut take, &mut || true).unwrap());
    }
    shown
}

fn count(engine: &Engine, tree: &Tree) -> u64 {
    let txn = engine.begin(Isolation::RepeatableRead);
    let count = txn.cut_count(tree, vec![KeySpan::all()], 3, 1).unwrap();
    let read = (0..count.tasks()).map(|task| {
        let counted = count.count(task, &mut || true).unwrap();
        counted.unwrap().rows
    });
    let rows = count.counted() + read.sum::<u64>();
    count.verify(rows, &mut || true).unwrap();
    rows
}

#[test]
fn right_answers_are_let_pass() {
    let (engine, tree, said) = verifying();
    fill(&engine, &tree, Arc::new(OneField));
    let shown = scan(&engine, &tree);
    assert!((40..400).contains(&shown), "{shown} rows shown");
    assert_eq!(count(&engine, &tree), 800);
    assert!(said.lock().is_empty(), "{said:?}");
}

#[test]
fn a_row_that_is_left_out_wrongly_is_named() {
    let (engine, tree, said) = verifying();
    fill(&engine, &tree, Arc::new(Liar));
    tree.set_fields(Arc::new(OneField));
    assert_eq!(scan(&engine, &tree), 0);
    // The first of the rows is in the first task.
    let first = format!("'{}' with", 60u32.to_be_bytes().escape_ascii());
    let said = said.lock();
    let about = |text: &String| text.contains(&first) && text.ends_with("is left out");
    assert!(said.iter().any(about), "{said:?}");
}

#[test]
fn a_count_that_is_wrong_is_told() {
    let (engine, tree, said) = verifying();
    fill(&engine, &tree, Arc::new(OneField));
    // A row is put again; the extent below is made to believe that it never had it.
    let key = 300u32.to_be_bytes();
    let mut txn = engine.begin(Isolation::RepeatableRead);
    txn.put(&tree, &key, &[2, 0]).unwrap();
    let _ = txn.commit().unwrap();
    let view = engine.begin(Isolation::RepeatableRead).pin(&tree).unwrap();
    let mut wrong = KnownKeys::default();
    wrong.push(&key, false);
    let mut extents = view.runs().flat_map(|run| run.extents().iter());
    let holder = extents.find(|extent| *extent.meta().last.key >= key[..]);
    holder.unwrap().remember_keys(&wrong);
    assert_eq!(count(&engine, &tree), 801);
    let said = said.lock();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("801 rows counted, 800 read"), "{said:?}");
}
