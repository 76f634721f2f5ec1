//! What the engine does when the disk has damaged what it stored, or has no room for what must be merged: it goes on
//! with everything else, says what is wrong, and never gives a wrong answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use esker_engine::{Engine, EngineConfig, EngineError, Isolation, Mode, Tree, View};
use esker_vfs::sim::{Fault, Op, SimEnv, SimRng};

const EXTENTS: &str = "/db/extents";
const SLOT_BYTES: u64 = 2 << 20;
const KEYS: u64 = 300;
/// Sorted runs of level 0 of which some must be merged.
const MERGED: usize = 8;
/// How often a test looks whether the background has done something, and the pause between.
const LOOKS: usize = 10_000;
const PAUSE: Duration = Duration::from_millis(10);

struct World {
    machine: SimEnv,
    engine: Engine,
    tree: Tree,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    dice: SimRng,
    fatal: Arc<AtomicUsize>,
}

fn config(mode: Mode, fatal: &Arc<AtomicUsize>) -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.mode = mode;
    config.memory_limit = 8 << 20;
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 1 << 20;
    let fatal = Arc::clone(fatal);
    config.on_fatal = Arc::new(move |_| {
        fatal.fetch_add(1, Ordering::SeqCst);
    });
    config
}

fn key_of(n: u64) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

impl World {
    fn new(seed: u64) -> World {
        let machine = SimEnv::new(seed);
        let fatal = Arc::default();
        let engine = Engine::open(machine.env(), config(Mode::Manual, &fatal)).unwrap();
        let tree = engine.create_tree().unwrap();
        World {
            machine,
            engine,
            tree,
            model: BTreeMap::new(),
            dice: SimRng::new(seed),
            fatal,
        }
    }

    fn commit(&mut self, keys: impl Iterator<Item = u64>) -> Result<(), EngineError> {
        let mut txn = self.engine.begin(Isolation::ReadCommitted);
        let mut writes = Vec::new();
        for n in keys {
            let mut value = vec![0; 100];
            self.dice.fill(&mut value);
            txn.put(&self.tree, &key_of(n), &value)?;
            writes.push((key_of(n), value));
        }
        let _durable_with_the_next_flush = txn.commit()?;
        self.model.extend(writes);
        Ok(())
    }

    /// A layer of level 0 with about a third of the keys.
    fn add_layer(&mut self) {
        let keys: Vec<u64> = (0..KEYS).filter(|_| self.dice.chance(30)).collect();
        self.commit(keys.into_iter()).unwrap();
        self.engine.flush_all().unwrap();
    }

    /// Damages the newest layer, which is the last extent of the only file.
    fn damage_newest(&self) -> (PathBuf, u64) {
        let path = Path::new(EXTENTS).join("000000.extents");
        let length = self.machine.fs.contents(&path).unwrap().len() as u64;
        let place = (length - 1) / SLOT_BYTES * SLOT_BYTES + 300;
        self.machine.fs.flip_bit(&path, place, 3).unwrap();
        (path, place)
    }

    /// Reads everything: the right value or damage. Gives the number of keys that could not be read.
    fn check(&self) -> usize {
        let txn = self.engine.begin(Isolation::ReadCommitted);
        let mut unreadable = 0;
        for n in 0..KEYS {
            match txn.get(&self.tree, &key_of(n), View::Snapshot) {
                Ok(value) => assert_eq!(value.as_ref(), self.model.get(&key_of(n))),
                Err(EngineError::Corruption { file, .. }) => {
                    assert!(file.contains(EXTENTS));
                    unreadable += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        unreadable
    }
}

#[test]
fn damage_met_by_compaction_does_not_end_the_engine() {
    for seed in 0..4 {
        let mut world = World::new(seed);
        (0..MERGED).for_each(|_| world.add_layer());
        let (path, place) = world.damage_newest();
        world.engine.compact().unwrap();
        let stats = world.engine.stats().storage;
        assert_eq!(stats.quarantined_extents, 1);
        assert_eq!(stats.work.given_up_compactions, 1);
        let unreadable = world.check();
        assert!(unreadable > 0);
        // Life goes on. What is written anew can be read, whatever lies below it.
        for _ in 0..100 {
            world.add_layer();
            while world.engine.maintain().unwrap() {}
        }
        let stats = world.engine.stats().storage;
        assert_eq!(stats.quarantined_extents, 1);
        assert!(stats.work.compactions > 20);
        assert!(world.check() < unreadable);
        assert_eq!(world.fatal.load(Ordering::SeqCst), 0);
        // Were the bit put right, nothing would be missing; also after a restart, which tries again.
        world.machine.fs.flip_bit(&path, place, 3).unwrap();
        assert_eq!(world.check(), 0);
        world.engine.shutdown().unwrap();
        let World {
            machine,
            engine,
            tree,
            model,
            dice,
            fatal,
        } = world;
        let id = tree.id();
        drop((engine, tree));
        let engine = Engine::open(machine.env(), config(Mode::Manual, &fatal)).unwrap();
        let tree = engine.tree(id).unwrap();
        let world = World {
            machine,
            engine,
            tree,
            model,
            dice,
            fatal,
        };
        world.engine.compact().unwrap();
        assert_eq!(world.engine.stats().storage.quarantined_extents, 0);
        assert_eq!(world.check(), 0);
    }
}

#[test]
fn the_background_survives_damage_and_errors_of_reading() {
    for damaged in [true, false] {
        let mut world = World::new(9);
        (0..MERGED).for_each(|_| world.add_layer());
        match damaged {
            true => {
                world.damage_newest();
            }
            false => world
                .machine
                .fs
                .inject(Fault::on(Op::Read).path(".extents")),
        }
        let World {
            machine,
            engine,
            tree,
            model,
            dice,
            fatal,
        } = world;
        let id = tree.id();
        engine.flush_log().unwrap();
        drop((engine, tree));
        // With threads of its own: they meet it as soon as they look.
        let engine = Engine::open(machine.env(), config(Mode::Daemon, &fatal)).unwrap();
        let tree = engine.tree(id).unwrap();
        let mut world = World {
            machine,
            engine,
            tree,
            model,
            dice,
            fatal,
        };
        let is_given_up = || world.engine.stats().storage.work.given_up_compactions == 1;
        for _ in 0..LOOKS {
            if is_given_up() {
                break;
            }
            thread::sleep(PAUSE);
        }
        assert!(is_given_up());
        assert_eq!(world.check() > 0, damaged);
        (0..30).for_each(|_| world.add_layer());
        world.check();
        assert_eq!(world.fatal.load(Ordering::SeqCst), 0);
    }
}

/// Sorted runs of level 0 at which writers wait.
const LAYERS_STOP: usize = 20;

#[test]
fn writers_are_told_when_damage_keeps_level_0_full() {
    let mut world = World::new(3);
    for _ in 0..LAYERS_STOP {
        world.add_layer();
        world.damage_newest();
    }
    let error = loop {
        match world.commit(0..1) {
            Ok(()) => world.engine.flush_all().unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, EngineError::Corruption { .. }), "{error}");
    // Readers go on where they can.
    assert!(world.check() > 0);
    assert_eq!(world.fatal.load(Ordering::SeqCst), 0);
}

#[test]
fn writers_are_told_when_there_is_no_room_to_compact() {
    let mut world = World::new(4);
    // With something in level 1, nothing moves without being rewritten.
    (0..MERGED).for_each(|_| world.add_layer());
    world.engine.compact().unwrap();
    let l0_runs = |world: &World| {
        let superversion = world.tree.superversion();
        superversion.version.levels().l0_runs().len()
    };
    while l0_runs(&world) < LAYERS_STOP {
        world.add_layer();
    }
    let World {
        machine,
        engine,
        tree,
        model,
        dice,
        fatal,
    } = world;
    let id = tree.id();
    drop((engine, tree));
    for op in [Op::Write, Op::Allocate] {
        machine
            .fs
            .inject(Fault::on(op).path(".extents").no_space().forever());
    }
    let engine = Engine::open(machine.env(), config(Mode::Daemon, &fatal)).unwrap();
    let tree = engine.tree(id).unwrap();
    let mut world = World {
        machine,
        engine,
        tree,
        model,
        dice,
        fatal,
    };
    let error = world.commit(0..1).unwrap_err();
    assert!(matches!(error, EngineError::DiskFull(_)), "{error}");
    assert_eq!(world.check(), 0);
    world.machine.fs.clear_faults();
    // Background work tries again by itself.
    let mut looks = 0;
    while let Err(error) = world.commit(0..1) {
        assert!(looks < LOOKS, "{error}");
        looks += 1;
        thread::sleep(PAUSE);
    }
    assert_eq!(world.check(), 0);
    assert_eq!(world.fatal.load(Ordering::SeqCst), 0);
}

/// A database with something to merge that starts while the disk is full, so that its manifest is still to be written;
/// after that the device fails so many times.
fn started_without_manifest(failures: u64) -> World {
    let mut world = World::new(6);
    (0..MERGED).for_each(|_| world.add_layer());
    let World {
        machine,
        engine,
        tree,
        model,
        dice,
        fatal,
    } = world;
    let id = tree.id();
    drop((engine, tree));
    let fault = || Fault::on(Op::Write).path(".manifest.new");
    // The file and the one that is kept for a full disk.
    machine.fs.inject(fault().no_space().times(2));
    machine.fs.inject(fault().times(failures));
    let engine = Engine::open(machine.env(), config(Mode::Daemon, &fatal)).unwrap();
    let tree = engine.tree(id).unwrap();
    World {
        machine,
        engine,
        tree,
        model,
        dice,
        fatal,
    }
}

/// Looks until it is so, for a while.
fn in_time(is_so: impl Fn() -> bool) -> bool {
    (0..LOOKS).any(|_| {
        thread::sleep(PAUSE);
        is_so()
    })
}

#[test]
fn background_work_tries_a_failing_device_again() {
    let world = started_without_manifest(2);
    let l0_runs = || {
        let superversion = world.tree.superversion();
        superversion.version.levels().l0_runs().len()
    };
    assert!(in_time(|| l0_runs() < MERGED), "nothing was merged");
    assert_eq!(world.machine.fs.fault_hits().len(), 4);
    assert_eq!(world.check(), 0);
    assert_eq!(world.fatal.load(Ordering::SeqCst), 0);
}

#[test]
fn a_device_that_keeps_failing_ends_the_engine() {
    let world = started_without_manifest(u64::MAX);
    let has_ended = || world.fatal.load(Ordering::SeqCst) > 0;
    assert!(in_time(has_ended), "nobody was told");
    assert!(world.machine.fs.fault_hits().len() > 3, "tried again first");
}

#[test]
fn what_was_written_twice_survives_power_loss() {
    for (op, times) in [(Op::Write, 1), (Op::Write, 2), (Op::Sync, 1), (Op::Sync, 2)] {
        let mut world = World::new(5);
        world.add_layer();
        world
            .machine
            .fs
            .inject(Fault::on(op).path(".extents").times(times));
        world.add_layer();
        assert_eq!(world.engine.stats().storage.work.write_retries, times);
        assert_eq!(world.fatal.load(Ordering::SeqCst), 0);
        let machine = world.machine.crash(6);
        let engine = Engine::open(machine.env(), config(Mode::Manual, &world.fatal)).unwrap();
        let tree = engine.tree(world.tree.id()).unwrap();
        let world = World {
            machine,
            engine,
            tree,
            ..world
        };
        assert_eq!(world.check(), 0);
    }
}

#[test]
fn a_device_that_takes_nothing_ends_the_engine() {
    for op in [Op::Write, Op::Sync] {
        let mut world = World::new(6);
        world
            .machine
            .fs
            .inject(Fault::on(op).path(".extents").forever());
        world.commit(0..10).unwrap();
        let error = world.engine.flush_all().unwrap_err();
        assert!(matches!(error, EngineError::Stopped(_)), "{error}");
        assert!(error.to_string().contains("failed 3 times"), "{error}");
        assert_eq!(world.fatal.load(Ordering::SeqCst), 1);
        // What is in memory can be read, and the log has it.
        assert_eq!(world.check(), 0);
    }
}

/// A machine whose log is damaged in the middle, in the thirtieth of sixty commits to two trees.
fn with_damaged_log() -> (SimEnv, EngineConfig, [esker_engine::TreeId; 2], Vec<u64>) {
    let machine = SimEnv::new(21);
    let fatal = Arc::new(AtomicUsize::new(0));
    let config = config(Mode::Manual, &fatal);
    let engine = Engine::open(machine.env(), config.clone()).expect("opens");
    let trees = [(); 2].map(|()| engine.create_tree().expect("a tree"));
    let mut ends = Vec::new();
    for i in 0..60_u64 {
        let mut txn = engine.begin(Isolation::ReadCommitted);
        for tree in &trees {
            txn.put(tree, &i.to_be_bytes(), &[7; 900]).expect("puts");
        }
        ends.push(txn.commit().expect("commits").seq.expect("it wrote"));
        engine.flush_log().expect("the disk works");
    }
    let ids = [trees[0].id(), trees[1].id()];
    drop((trees, engine));
    // Each commit is a page: segment header, then one block each behind what creating the trees wrote.
    let wal = Path::new("/db/wal");
    let fs = machine.env().fs;
    let names = fs.list(wal).expect("a log");
    let segment = names
        .iter()
        .find(|n| n.ends_with(".wal"))
        .expect("a segment");
    let path = wal.join(segment);
    let bytes = machine.fs.contents(&path).expect("it is there");
    let damaged = ends[29];
    let is_block = |at: &usize| {
        bytes[*at..*at + 4] == *b"EWLB" && bytes[*at + 56..*at + 64] == damaged.to_le_bytes()
    };
    let at = (4096..bytes.len())
        .step_by(4096)
        .find(is_block)
        .expect("the block");
    let file = fs
        .open(&path, esker_vfs::OpenMode::ReadWrite)
        .expect("opens");
    file.write_all_at(&[0x55; 8], at as u64 + 600)
        .expect("writes");
    file.sync_all().expect("syncs");
    (machine, config, ids, ends)
}

fn rows(engine: &Engine, id: esker_engine::TreeId) -> usize {
    let tree = engine.tree(id).expect("it is there");
    let txn = engine.begin(Isolation::ReadCommitted);
    let has = |i: &u64| {
        let found = txn.get(&tree, &i.to_be_bytes(), View::Snapshot);
        found.expect("reads").is_some()
    };
    (0..60).filter(has).count()
}

#[test]
fn a_damaged_log_says_what_would_be_lost_and_is_opened_without_it_only_when_told() {
    let (machine, mut config, ids, ends) = with_damaged_log();
    for _ in 0..2 {
        let error = Engine::open(machine.env(), config.clone()).err();
        let Some(EngineError::Corruption { what, .. }) = error else {
            panic!("{error:?}");
        };
        for part in ["about 31 records", "--force-recovery=point-in-time"] {
            assert!(what.contains(part), "{what}");
        }
    }
    config.force_recovery = esker_engine::ForceRecovery::PointInTime;
    let engine = Engine::open(machine.env(), config.clone()).expect("forced");
    assert_eq!(ids.map(|id| rows(&engine, id)), [29, 29]);
    assert!(
        engine.visible_seq() >= ends[59],
        "no sequence is given twice"
    );
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let tree = engine.tree(ids[0]).expect("it is there");
    txn.put(&tree, &59_u64.to_be_bytes(), b"again")
        .expect("puts");
    let seq = txn.commit().expect("commits").seq.expect("it wrote");
    assert!(seq > ends[59]);
    engine.flush_log().expect("the disk works");
    drop((txn, tree, engine));
    config.force_recovery = esker_engine::ForceRecovery::Off;
    let engine = Engine::open(machine.env(), config).expect("it is whole again");
    assert_eq!(ids.map(|id| rows(&engine, id)), [30, 29]);
}

#[test]
fn a_check_names_what_is_damaged_and_changes_nothing() {
    let (machine, config, ids, ends) = with_damaged_log();
    let check = |machine: &SimEnv| {
        let mut found = Vec::new();
        let checked = esker_engine::check(&machine.env(), &config.dir, &mut |finding| {
            found.push(finding.part.clone());
        });
        (checked.expect("it can be checked"), found)
    };
    let (checked, found) = check(&machine);
    assert_eq!((checked.trees, checked.findings), (2, 1));
    let esker_engine::DamagedPart::Log {
        first,
        resumes,
        trees,
        flushed,
    } = &found[0]
    else {
        panic!("{found:?}");
    };
    assert_eq!((*first, *resumes), (ends[28], Some(ends[29])));
    assert_eq!((trees.as_deref(), *flushed), (Some(&ids[..]), false));
    assert_eq!(check(&machine).1, found, "it changes nothing");
}
