//! Trees as a whole on the simulated disk: crashes at every operation, full disks, failed syncs, dropped trees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_vfs::sim::{Fault, Op as DiskOp, SimEnv};

use super::*;
use crate::compact::Effort;
use crate::{LATEST, Op};

fn config() -> TreesConfig {
    let mut config = TreesConfig::new("/db", BlockCache::new(1 << 20), Arc::new(|_| ()));
    config.extents.block_bytes = 256;
    config.extents.extent_bytes = 4 << 10;
    config.manifest_edit_bytes = 6 * 4096;
    config
}

fn open(sim: &SimEnv) -> Result<Trees> {
    Trees::open(&sim.env(), config())
}

/// Inserts as a committer does.
fn put(tree: &Tree, seq: Seq, key: &str, value: &str) {
    let superversion = tree.superversion();
    let _pin = superversion
        .active
        .pin(seq - 1, seq)
        .expect("the active table is open");
    superversion
        .active
        .insert(key.as_bytes(), seq, Op::Put, value.as_bytes());
}

fn flush(trees: &Trees, tree: &Tree, seq: Seq) -> Result<bool> {
    tree.rotate(seq);
    trees.flush(tree, seq)
}

fn get(tree: &Tree, key: &str) -> Option<String> {
    let text = |_, _, value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    tree.superversion()
        .version
        .get(key.as_bytes(), LATEST, text)
        .unwrap()
}

#[test]
fn trees_counters_and_the_log_point_survive_a_restart() {
    let sim = SimEnv::new(1);
    let trees = open(&sim).unwrap();
    assert_eq!(trees.recovered(), Recovered::default());
    let first = trees.create(10).unwrap();
    let second = trees.create(20).unwrap();
    let third = trees.create(30).unwrap();
    assert_eq!(
        [first.id(), second.id(), third.id()],
        [TreeId(1), TreeId(2), TreeId(3)]
    );
    trees.drop_tree(third.id()).unwrap();
    assert!(matches!(
        trees.drop_tree(third.id()),
        Err(EngineError::NoSuchTree(TreeId(3)))
    ));
    let counters = [(first.id(), 5), (second.id(), 0), (third.id(), 9)];
    trees.checkpoint(17, 25, &counters).unwrap();
    put(&second, 40, "k", "v");
    assert!(flush(&trees, &second, 40).unwrap());
    let uuid = trees.uuid();
    drop(trees);

    let trees = open(&sim.crash(4)).unwrap();
    assert_eq!(trees.uuid(), uuid);
    let ids: Vec<TreeId> = trees.all().iter().map(Tree::id).collect();
    assert_eq!(ids, [TreeId(1), TreeId(2)]);
    let recovered = trees.recovered();
    assert_eq!((recovered.log_from, recovered.counters_as_of), (17, 25));
    assert_eq!(recovered.counters, [(TreeId(1), 5), (TreeId(2), 0)]);
    let points: Vec<Seq> = trees.all().iter().map(Tree::flushed_seq).collect();
    assert_eq!(points, [10, 40]);
    assert_eq!(
        get(&trees.get(TreeId(2)).unwrap(), "k").as_deref(),
        Some("v")
    );
    // The id of a dropped tree is not given again.
    assert_eq!(trees.create(50).unwrap().id(), TreeId(4));
}

/// What must be there after a crash: the state before or after the step that was going on.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    trees: BTreeMap<u32, BTreeMap<String, String>>,
    log_from: u64,
}

/// Length of the history.
const STEPS: u64 = 44;

/// One step of a small history that creates, fills, flushes, compacts and drops trees.
fn step(trees: &Trees, model: &mut Model, n: u64) -> Result<()> {
    let seq = 100 + n * 10;
    match n % 7 {
        0 => {
            let tree = trees.create(seq)?;
            model.trees.insert(tree.id().0, BTreeMap::new());
        }
        6 if model.trees.len() > 2 => {
            let id = *model.trees.keys().next().expect("there are some");
            trees.drop_tree(TreeId(id))?;
            model.trees.remove(&id);
        }
        5 => {
            trees.checkpoint(seq, seq, &[])?;
            model.log_from = seq;
        }
        4 => while trees.compact_one(seq, Effort::Full)? {},
        _ => {
            let id = *model.trees.keys().next_back().expect("there are some");
            let tree = trees.get(TreeId(id)).expect("the model knows");
            let content = model.trees.get_mut(&id).expect("the model knows");
            for k in 0..40 {
                let (key, value) = (
                    format!("key{:03}", (k * 7 + n) % 60),
                    format!("value{n}-{k}"),
                );
                put(&tree, seq + k % 3, &key, &value);
            }
            tree.rotate(seq + 9);
            let table = Arc::clone(&tree.superversion().immutables[0]);
            trees.flush(&tree, seq + 9)?;
            let mut iter = table.iter();
            crate::compact::retain(
                &mut iter,
                LATEST,
                |_| false,
                |key, _, _, value| {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    content.insert(text(key), text(value));
                    Ok(())
                },
            )?;
        }
    }
    Ok(())
}

fn observe(trees: &Trees) -> Model {
    let mut model = Model {
        log_from: trees.recovered().log_from,
        ..Model::default()
    };
    for tree in trees.all() {
        let superversion = tree.superversion();
        let mut content = BTreeMap::new();
        for (_, extent) in superversion.version.levels().extents() {
            extent.verify().unwrap();
        }
        let mut iter = crate::iter::MergingIter::new(superversion.version.iters());
        crate::compact::retain(
            &mut iter,
            LATEST,
            |_| false,
            |key, _, _, value| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                content.insert(text(key), text(value));
                Ok(())
            },
        )
        .unwrap();
        model.trees.insert(tree.id().0, content);
    }
    model
}

/// Slots in use are exactly those of the extents that the trees name: nothing has leaked.
fn assert_no_leak(trees: &Trees) {
    let named: u64 = trees
        .all()
        .iter()
        .flat_map(|tree| {
            let version = Arc::clone(&tree.superversion().version);
            version
                .levels()
                .extents()
                .map(|(_, e)| u64::from(e.meta().slots))
                .collect::<Vec<_>>()
        })
        .sum();
    assert_eq!(trees.stats().space.used_slots, named);
}

#[test]
fn a_crash_at_every_operation_leaves_the_state_before_or_after_the_step() {
    let total = {
        let sim = SimEnv::new(7);
        let trees = open(&sim).unwrap();
        let mut model = Model::default();
        (0..STEPS).for_each(|n| step(&trees, &mut model, n).unwrap());
        assert_eq!(observe(&trees), model);
        let names = sim.env().fs.list(std::path::Path::new("/db/manifest"));
        let mut files = names.unwrap();
        files.retain(|name| name.ends_with(".manifest"));
        assert!(
            files.len() == 1 && *files[0] > *"000002",
            "the history has checkpoints: {files:?}"
        );
        sim.fs.ops()
    };
    assert!(total > 150, "{total}");
    for halt in 0..total {
        let sim = SimEnv::new(7);
        sim.fs.halt_at(halt);
        let mut before = Model::default();
        let mut after = Model::default();
        if let Ok(trees) = open(&sim) {
            for n in 0..STEPS {
                before = after.clone();
                // The step's effect on the model of a machine without a fault.
                if step(&trees, &mut after, n).is_err() {
                    after = predicted(n);
                    break;
                }
            }
        }
        let survivor = sim.crash(halt * 31 + 5);
        let trees = open(&survivor).unwrap();
        let found = observe(&trees);
        assert!(
            found == before || found == after,
            "halted at {halt}: {found:?}\n{before:?}\n{after:?}"
        );
        assert_no_leak(&trees);
        // And it goes on.
        let tree = trees.create(9999).unwrap();
        put(&tree, 10_000, "still", "alive");
        assert!(flush(&trees, &tree, 10_000).unwrap());
        assert_eq!(get(&tree, "still").as_deref(), Some("alive"));
    }
}

/// The model after step `n`.
fn predicted(n: u64) -> Model {
    let sim = SimEnv::new(7);
    let trees = open(&sim).unwrap();
    let mut model = Model::default();
    (0..=n).for_each(|n| step(&trees, &mut model, n).unwrap());
    model
}

#[test]
fn dropped_trees_free_their_space_when_the_last_reader_is_gone() {
    let sim = SimEnv::new(1);
    let trees = open(&sim).unwrap();
    let tree = trees.create(1).unwrap();
    for k in 0..500 {
        put(
            &tree,
            5,
            &format!("key{k:04}"),
            "some value that takes a little room",
        );
    }
    flush(&trees, &tree, 9).unwrap();
    let used = trees.stats().space.used_slots;
    assert!(used > 3);
    let reader = Arc::clone(&tree.superversion());
    trees.drop_tree(tree.id()).unwrap();
    assert!(trees.get(tree.id()).is_none());
    // The reader still reads; the handle of the tree alone keeps nothing.
    assert_eq!(trees.stats().space.used_slots, used);
    assert!(
        reader
            .version
            .get(b"key0007", LATEST, |_, _, _| ())
            .unwrap()
            .is_some()
    );
    drop(reader);
    assert_eq!(trees.stats().space.used_slots, 0);
    assert!(
        sim.env()
            .fs
            .list(std::path::Path::new("/db/extents"))
            .unwrap()
            .is_empty()
    );
    // A late job of the dropped tree does nothing.
    assert!(!trees.flush(&tree, 9).unwrap());
    assert!(!tree.rotate(10));
}

#[test]
fn a_flush_that_finishes_after_the_drop_leaves_nothing() {
    let sim = SimEnv::new(1);
    let trees = open(&sim).unwrap();
    let tree = trees.create(1).unwrap();
    put(&tree, 5, "k", "v");
    tree.rotate(5);
    let mut writer = crate::extent::RunWriter::new(trees.store(), tree.id(), 0);
    writer.add(b"k", 5, Op::Put, b"v").unwrap();
    let place = RunAddress::l0(RunId(1));
    let added = writer
        .finish()
        .unwrap()
        .into_iter()
        .map(|extent| (place, extent))
        .collect();
    trees.drop_tree(tree.id()).unwrap();
    let edit = ShapeEdit {
        removed: Vec::new(),
        added,
    };
    let installation = Installation {
        edit,
        flushed: true,
        flushed_seq: Some(5),
    };
    assert!(!trees.install(&tree, installation).unwrap());
    assert_eq!(trees.stats().space.used_slots, 0);
}

#[test]
fn a_device_that_does_not_sync_is_reported_once() {
    // Extents are written again, to new files, a few times; the manifest is not.
    for (part, syncs) in [(".extents", 3), (".manifest", 1)] {
        let sim = SimEnv::new(1);
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        let mut config = config();
        config.on_fatal = Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let trees = Trees::open(&sim.env(), config).unwrap();
        let tree = trees.create(1).unwrap();
        put(&tree, 5, "k", "v");
        tree.rotate(5);
        sim.fs
            .inject(Fault::on(DiskOp::Sync).path(part).times(syncs));
        assert!(matches!(
            trees.flush(&tree, 5),
            Err(EngineError::Stopped(_))
        ));
        assert_eq!(sim.fs.fault_hits().len() as u64, syncs);
        let ops = sim.fs.ops();
        assert!(matches!(
            trees.flush(&tree, 5),
            Err(EngineError::Stopped(_))
        ));
        assert!(matches!(trees.create(9), Err(EngineError::Stopped(_))));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!(sim.fs.ops(), ops, "nothing more is written or synced");
        // What is in memory is still there.
        assert_eq!(tree.superversion().immutables.len(), 1);
    }
}

#[test]
fn a_full_disk_leaves_the_memtable_and_the_next_try_succeeds() {
    for part in [".extents", ".manifest"] {
        let sim = SimEnv::new(1);
        let trees = open(&sim).unwrap();
        let tree = trees.create(1).unwrap();
        put(&tree, 5, "k", "v");
        tree.rotate(5);
        sim.fs
            .inject(Fault::on(DiskOp::Allocate).path(part).no_space().forever());
        // The manifest has reserved space for its next edits.
        let mut result = trees.flush(&tree, 5);
        let mut seq = 5;
        while result.is_ok() {
            seq += 1;
            put(&tree, seq, "k", "v");
            tree.rotate(seq);
            result = trees.flush(&tree, seq);
        }
        assert!(matches!(result, Err(EngineError::DiskFull(_))));
        assert_eq!(tree.superversion().immutables.len(), 1);
        assert_no_leak(&trees);
        sim.fs.clear_faults();
        assert!(trees.flush(&tree, seq).unwrap());
        assert_eq!(tree.superversion().immutables.len(), 0);
        assert_eq!(tree.flushed_seq(), seq);
        assert_eq!(get(&tree, "k").as_deref(), Some("v"));
    }
}

#[test]
fn missing_or_short_data_files_and_a_missing_manifest_are_damage() {
    let sim = SimEnv::new(1);
    let trees = open(&sim).unwrap();
    let tree = trees.create(1).unwrap();
    put(&tree, 5, "k", "v");
    flush(&trees, &tree, 5).unwrap();
    let extent = Arc::clone(
        tree.superversion()
            .version
            .levels()
            .extents()
            .next()
            .unwrap()
            .1,
    );
    let path = extent.slots().path();
    let length = extent.slots().file().len().unwrap();
    extent.slots().file().set_len(length - 1).unwrap();
    let Err(EngineError::Corruption { file, .. }) = open(&sim) else {
        panic!("short file")
    };
    assert_eq!(file.as_ref(), path.to_str().unwrap());
    sim.env().fs.remove_file(&path).unwrap();
    let Err(EngineError::Corruption { what, .. }) = open(&sim) else {
        panic!("missing file")
    };
    assert!(what.contains("missing"), "{what}");

    let sim = SimEnv::new(1);
    let trees = open(&sim).unwrap();
    let tree = trees.create(1).unwrap();
    put(&tree, 5, "k", "v");
    flush(&trees, &tree, 5).unwrap();
    let manifest_dir = std::path::Path::new("/db/manifest");
    let fs = sim.env().fs;
    for name in fs.list(manifest_dir).unwrap() {
        fs.remove_file(&manifest_dir.join(name)).unwrap();
    }
    let Err(EngineError::Corruption { what, .. }) = open(&sim) else {
        panic!("no manifest")
    };
    assert!(what.contains("no manifest"), "{what}");
}

#[test]
fn a_check_of_everything_finds_each_damaged_extent() {
    let sim = SimEnv::new(1);
    let trees = open(&sim).unwrap();
    for seq in [5, 6, 7] {
        let tree = trees.create(1).unwrap();
        put(&tree, seq, "k", "v");
        flush(&trees, &tree, seq).unwrap();
    }
    let mut damaged = Vec::new();
    assert_eq!(trees.verify(|error| damaged.push(error)), 3);
    assert!(damaged.is_empty());
    let victim = trees.get(TreeId(2)).unwrap();
    let version = Arc::clone(&victim.superversion().version);
    let extent = version.levels().extents().next().unwrap().1;
    let place = extent.meta().id.offset() + 90;
    sim.fs.flip_bit(&extent.slots().path(), place, 0).unwrap();
    assert_eq!(trees.verify(|error| damaged.push(error)), 3);
    assert_eq!(damaged.len(), 1);
    assert!(damaged[0].to_string().contains("tree 2"), "{}", damaged[0]);
}

#[test]
fn a_table_with_a_committer_in_it_is_not_flushed() {
    let sim = SimEnv::new(1);
    let trees = open(&sim).unwrap();
    let tree = trees.create(1).unwrap();
    let superversion = Arc::clone(&tree.superversion());
    put(&tree, 5, "a", "1");
    let pin = superversion.active.pin(5, 6).unwrap();
    assert!(tree.rotate(5));
    assert!(!trees.flush(&tree, 5).unwrap());
    superversion.active.insert(b"b", 6, Op::Put, b"2");
    drop(pin);
    assert!(
        superversion.active.pin(6, 7).is_none(),
        "the table is sealed"
    );
    assert!(trees.flush(&tree, 5).unwrap());
    assert_eq!(get(&tree, "b").as_deref(), Some("2"));
    assert_eq!(tree.flushed_seq(), 5);
}
