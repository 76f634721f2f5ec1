//! Trees that are filled at once: sorted or not, in memory or over runs on disk, and through power loss.

use std::collections::BTreeMap;
use std::ops::Bound;

use esker_engine::{
    BuildError, Direction, Engine, EngineConfig, EngineError, Isolation, Tree, TreeId, View,
};
use esker_vfs::sim::{SimEnv, SimRng};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn read(engine: &Engine, tree: &Tree) -> Result<Rows, EngineError> {
    let txn = engine.begin(Isolation::RepeatableRead);
    let all = Bound::Unbounded;
    let mut cursor = txn.scan(tree, all, all, Direction::Forward, View::Snapshot)?;
    let mut rows = Rows::new();
    while let Some((key, value)) = cursor.next()? {
        rows.insert(key.to_vec(), value.to_vec());
    }
    Ok(rows)
}

/// Entries with keys in random order, none twice.
fn entries(dice: &mut SimRng, count: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Rows::new();
    while (rows.len() as u64) < count {
        let key = format!("{:012}", dice.below(1 << 40)).into_bytes();
        let value = vec![dice.below(256) as u8; dice.below(200) as usize];
        rows.insert(key, value);
    }
    let mut entries: Vec<_> = rows.into_iter().collect();
    for at in (1..entries.len()).rev() {
        entries.swap(at, dice.below(at as u64 + 1) as usize);
    }
    entries
}

fn fill(
    engine: &Engine,
    tree: &Tree,
    entries: &[(Vec<u8>, Vec<u8>)],
    memory: usize,
) -> Result<esker_engine::Built, BuildError> {
    let mut builder = engine.build_tree(tree, memory);
    for (key, value) in entries {
        builder.add(key, value)?;
    }
    builder.finish(&|| true)
}

#[test]
fn what_was_added_is_there_also_after_a_restart() {
    let machine = SimEnv::new(1);
    let mut dice = SimRng::new(7);
    let random = entries(&mut dice, 6000);
    let mut sorted = random.clone();
    sorted.sort();
    let expected: Rows = random.iter().cloned().collect();
    let mut ids: Vec<TreeId> = Vec::new();
    {
        let engine = Engine::open(machine.env(), EngineConfig::small("/db")).unwrap();
        // In one batch, in about 25 runs (more than are merged at once), and sorted without any run to merge.
        for (entries, memory, runs) in [
            (&random, 16 << 20, 0..1),
            (&random, 32 << 10, 20..60),
            (&sorted, 32 << 10, 0..1),
        ] {
            let tree = engine.create_tree().unwrap();
            let log_end = engine.stats().log_end;
            let built = fill(&engine, &tree, entries, memory).unwrap();
            assert_eq!(built.entries, 6000);
            assert!(runs.contains(&built.spilled_runs), "{built:?}");
            assert_eq!(engine.stats().log_end, log_end, "nothing is logged");
            assert_eq!(read(&engine, &tree).unwrap(), expected);
            ids.push(tree.id());
        }
        let work = engine.stats().storage.work;
        assert_eq!(work.built_trees, 3);
        assert!(work.built_extents >= 3 && work.built_bytes > 0);
        // Later writes come on top.
        let tree = engine.tree(ids[0]).unwrap();
        let mut txn = engine.begin(Isolation::ReadCommitted);
        txn.put(&tree, b"0", b"new").unwrap();
        txn.delete(&tree, &sorted[0].0).unwrap();
        let _ = txn.commit().unwrap();
        engine.flush_all().unwrap();
        engine.compact().unwrap();
        engine.shutdown().unwrap();
    }
    let engine = Engine::open(machine.env(), EngineConfig::small("/db")).unwrap();
    let mut changed = expected.clone();
    changed.remove(&sorted[0].0);
    changed.insert(b"0".to_vec(), b"new".to_vec());
    for (at, id) in ids.iter().enumerate() {
        let rows = read(&engine, &engine.tree(*id).unwrap()).unwrap();
        assert!(
            rows == if at == 0 {
                changed.clone()
            } else {
                expected.clone()
            }
        );
    }
}

#[test]
fn an_older_snapshot_and_a_newer_one_see_the_same() {
    let machine = SimEnv::new(2);
    let engine = Engine::open(machine.env(), EngineConfig::small("/db")).unwrap();
    let other = engine.create_tree().unwrap();
    let mut txn = engine.begin(Isolation::RepeatableRead);
    txn.put(&other, b"a", b"1").unwrap();
    let _ = txn.commit().unwrap();
    engine.flush_log().unwrap();
    let early = engine.begin(Isolation::RepeatableRead);
    assert!(early.get(&other, b"a", View::Snapshot).unwrap().is_some());
    let tree = engine.create_tree().unwrap();
    fill(&engine, &tree, &[(b"k".to_vec(), b"v".to_vec())], 1 << 20).unwrap();
    assert_eq!(
        early.get(&tree, b"k", View::Snapshot).unwrap().unwrap(),
        b"v"
    );
    assert_eq!(read(&engine, &tree).unwrap().len(), 1);
}

#[test]
fn duplicates_are_found_wherever_they_are() {
    let machine = SimEnv::new(3);
    let engine = Engine::open(machine.env(), EngineConfig::small("/db")).unwrap();
    let mut dice = SimRng::new(3);
    let random = entries(&mut dice, 6000);
    // In the same batch, in neighbouring ones, and far apart.
    for (first, second, memory) in [
        (10, 20, 16 << 20),
        (10, 400, 32 << 10),
        (0, 5999, 32 << 10),
        (300, 5000, 32 << 10),
    ] {
        let tree = engine.create_tree().unwrap();
        let mut doubled = random.clone();
        let key = doubled[first].0.clone();
        doubled[second] = (key.clone(), b"later".to_vec());
        match fill(&engine, &tree, &doubled, memory) {
            Err(BuildError::Duplicate { key: found, value }) => {
                assert_eq!(*found, *key);
                assert_eq!(*value, *b"later");
            }
            other => panic!("{other:?}"),
        }
        assert!(read(&engine, &tree).unwrap().is_empty());
    }
    let used = engine.stats().storage.space.used_slots;
    assert_eq!(used, 0, "what was written is free again");
}

#[test]
fn a_build_can_be_given_up() {
    let machine = SimEnv::new(4);
    let engine = Engine::open(machine.env(), EngineConfig::small("/db")).unwrap();
    let tree = engine.create_tree().unwrap();
    let mut dice = SimRng::new(4);
    let mut builder = engine.build_tree(&tree, 16 << 10);
    for (key, value) in entries(&mut dice, 6000) {
        builder.add(&key, &value).unwrap();
    }
    assert!(matches!(
        builder.finish(&|| false),
        Err(BuildError::Engine(EngineError::Cancelled(_)))
    ));
    assert!(read(&engine, &tree).unwrap().is_empty());
    drop(engine.build_tree(&tree, 1 << 20));
    fill(&engine, &tree, &[(b"k".to_vec(), b"v".to_vec())], 1 << 20).unwrap();
    assert_eq!(read(&engine, &tree).unwrap().len(), 1);
}

/// The power goes at a random operation: the tree is empty or complete, and complete if the builder said so.
#[test]
fn power_loss_leaves_a_tree_empty_or_complete() {
    let (mut empty, mut complete) = (0, 0);
    for seed in 0..80 {
        let machine = SimEnv::new(seed);
        let mut dice = SimRng::new(seed);
        let rows = entries(&mut dice, 400);
        let expected: Rows = rows.iter().cloned().collect();
        let memory = if dice.chance(50) { 8 << 10 } else { 1 << 20 };
        let (id, built) = {
            let engine = Engine::open(machine.env(), EngineConfig::small("/db")).unwrap();
            let tree = engine.create_tree().unwrap();
            machine.fs.halt_at(machine.fs.ops() + dice.below(40));
            (tree.id(), fill(&engine, &tree, &rows, memory).is_ok())
        };
        let machine = machine.crash(seed + 1000);
        let engine = Engine::open(machine.env(), EngineConfig::small("/db")).unwrap();
        let tree = engine.tree(id).unwrap();
        let found = read(&engine, &tree).unwrap();
        assert!(found.is_empty() || found == expected, "seed {seed}");
        assert!(
            !built || found == expected,
            "seed {seed}: a finished tree is lost"
        );
        match found.is_empty() {
            true => empty += 1,
            false => complete += 1,
        }
        // What was left behind is free space, and the tree works.
        let mut txn = engine.begin(Isolation::ReadCommitted);
        txn.put(&tree, b"x", b"y").unwrap();
        let _ = txn.commit().unwrap();
        engine.flush_all().unwrap();
        assert_eq!(read(&engine, &tree).unwrap().len(), found.len() + 1);
    }
    assert!(empty > 5 && complete > 5, "{empty} {complete}");
}
