//! Everything that a disk can do, at random moments of flush, compaction, checkpoint and reuse of space: errors of
//! single operations, damaged bits, no room, power loss. Whatever happens, a read gives what is right or an error.
//!
//! One thread drives the engine by hand, so a seed repeats its run exactly. The model keeps every version of every key;
//! each read, at the newest state or at a snapshot that is held, is compared with it. A read may fail only where a bit
//! was flipped or the device refuses to read; what was acknowledged is there after every crash.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, Seq, Tree, TreeId, Txn, View,
};
use esker_vfs::Fs;
use esker_vfs::sim::{Fault, Op, SimEnv, SimRng};

const TREES: u64 = 3;
const KEYS: u64 = 60;
const STEPS: u64 = 600;
/// Snapshots that are held at a time.
const MAX_SNAPSHOTS: usize = 4;
/// Bits flipped in the life of a database.
const MAX_FLIPS: u64 = 3;
const EXTENTS: &str = "/db/extents";

/// Lives per run; `ESKER_FAULT_SEEDS` asks for more.
const SEEDS: u64 = 40;

fn key_of(n: u64) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

/// What happened, over all lives: a test that met nothing shows nothing.
#[derive(Debug, Default)]
struct Met {
    damage: u64,
    full: u64,
    opened_full: u64,
    stopped: u64,
    power_losses: u64,
    retries: u64,
    given_up: u64,
}

type Versions = Vec<(Seq, Option<Vec<u8>>)>;

/// Every version of every key.
#[derive(Default)]
struct Model(BTreeMap<(TreeId, Vec<u8>), Versions>);

impl Model {
    fn value(&self, tree: TreeId, key: &[u8], snapshot: Seq) -> Option<&Vec<u8>> {
        let versions = self.0.get(&(tree, key.to_vec()))?;
        let newest = versions.iter().rev().find(|(seq, _)| *seq <= snapshot)?;
        newest.1.as_ref()
    }

    fn rows(&self, tree: TreeId, snapshot: Seq) -> Vec<(Vec<u8>, Vec<u8>)> {
        let keys = (0..KEYS).map(key_of);
        keys.filter_map(|key| {
            let value = self.value(tree, &key, snapshot)?.clone();
            Some((key, value))
        })
        .collect()
    }

    /// A crash has taken back everything after this.
    fn cut(&mut self, last: Seq) {
        for versions in self.0.values_mut() {
            versions.retain(|(seq, _)| *seq <= last);
        }
    }
}

struct Life {
    label: String,
    machine: SimEnv,
    engine: Engine,
    trees: Vec<Tree>,
    model: Model,
    dice: SimRng,
    snapshots: Vec<(Txn, Seq)>,
    /// The newest commit, and the newest that was durable at the last look.
    last: Seq,
    durable: Seq,
    flips: u64,
    /// Reads may fail: a planned fault has not come yet.
    has_read_fault: bool,
}

impl Life {
    fn new(seed: u64) -> Life {
        let machine = SimEnv::new(seed);
        let engine =
            Engine::open(machine.env(), EngineConfig::small("/db")).expect("a healthy disk");
        let trees = (0..TREES).map(|_| engine.create_tree().expect("a healthy disk"));
        let trees = trees.collect();
        Life {
            label: format!("seed {seed}"),
            last: engine.visible_seq(),
            durable: 0,
            machine,
            engine,
            trees,
            model: Model::default(),
            dice: SimRng::new(seed ^ 0xFA17),
            snapshots: Vec::new(),
            flips: 0,
            has_read_fault: false,
        }
    }

    fn commit(&mut self) -> Result<(), EngineError> {
        let mut txn = self.engine.begin(Isolation::ReadCommitted);
        let mut writes = Vec::new();
        for _ in 0..1 + self.dice.below(5) {
            let tree = &self.trees[self.dice.below(TREES) as usize];
            let key = key_of(self.dice.below(KEYS));
            if self.dice.chance(25) {
                txn.delete(tree, &key)?;
                writes.push(((tree.id(), key), None));
            } else {
                let mut value = vec![0; self.dice.below(900) as usize];
                self.dice.fill(&mut value);
                txn.put(tree, &key, &value)?;
                writes.push(((tree.id(), key), Some(value)));
            }
        }
        let seq = txn.commit()?.seq.expect("something was written");
        for (place, value) in writes {
            let versions = self.model.0.entry(place).or_default();
            // The last write of a transaction to a key counts.
            versions.retain(|(other, _)| *other != seq);
            versions.push((seq, value));
        }
        self.last = seq;
        Ok(())
    }

    /// Something goes wrong, now or soon.
    fn trouble(&mut self, met: &mut Met) {
        match self.dice.below(10) {
            0..=3 => {
                let op = [
                    Op::Write,
                    Op::Sync,
                    Op::Allocate,
                    Op::Punch,
                    Op::SetLen,
                    Op::Read,
                ][self.dice.below(6) as usize];
                let mut fault = Fault::on(op).path(".extents").after(self.dice.below(6));
                if matches!(op, Op::Write | Op::Allocate) && self.dice.chance(40) {
                    fault = fault.no_space().times(1 + self.dice.below(4));
                }
                self.has_read_fault |= op == Op::Read;
                self.machine.fs.inject(fault);
            }
            4 => {
                let op = [Op::Create, Op::Allocate, Op::Write, Op::Rename];
                let op = op[self.dice.below(4) as usize];
                let fault = Fault::on(op).path(".manifest").no_space();
                self.machine.fs.inject(
                    fault
                        .times(1 + self.dice.below(3))
                        .after(self.dice.below(3)),
                );
            }
            5 if self.dice.chance(30) => {
                // After this the engine stops.
                let op = [Op::Write, Op::Sync][self.dice.below(2) as usize];
                self.machine.fs.inject(Fault::on(op).path(".manifest"));
            }
            6 => {
                let room = self.dice.below(64 << 10);
                let used = self.machine.fs.used_bytes();
                self.machine.fs.set_capacity(used + room);
            }
            7 if self.flips < MAX_FLIPS => self.flip(met),
            8 => {
                let ops = self.machine.fs.ops();
                self.machine.fs.halt_at(ops + 1 + self.dice.below(60));
            }
            _ => {}
        }
    }

    /// Flips a bit that belongs to an extent.
    fn flip(&mut self, met: &mut Met) {
        let mut places: Vec<(PathBuf, u64)> = Vec::new();
        for tree in &self.trees {
            let version = Arc::clone(&tree.superversion().version);
            for (_, extent) in version.levels().extents() {
                let meta = extent.meta();
                let path = Path::new(EXTENTS).join(format!("{:06}.extents", meta.id.0 / 512));
                let within = self.dice.below(u64::from(meta.stored_bytes));
                places.push((path, u64::from(meta.id.0 % 512) * (2 << 20) + within));
            }
        }
        if places.is_empty() {
            return;
        }
        let (path, place) = &places[self.dice.below(places.len() as u64) as usize];
        let bit = self.dice.below(8) as u8;
        if self.machine.fs.flip_bit(path, *place, bit).is_ok() {
            self.flips += 1;
            met.damage += 1;
        }
    }

    fn relief(&mut self) {
        self.machine.fs.clear_faults();
        self.machine.fs.set_capacity(u64::MAX);
        self.has_read_fault = false;
    }

    /// One step of work. An error that ends the life of the engine is returned.
    fn step(&mut self, met: &mut Met) -> Result<(), EngineError> {
        let result = match self.dice.below(20) {
            0..=8 => self.commit(),
            9..=11 => self
                .engine
                .flush_log()
                .inspect(|()| self.durable = self.last),
            12..=14 => self.engine.maintain().map(|_| ()),
            15 => self.engine.compact(),
            16 if self.dice.chance(30) => {
                let tree = &self.trees[self.dice.below(TREES) as usize];
                self.engine.sink(tree)
            }
            16 if self.dice.chance(50) => self.engine.flush_all(),
            17 if self.snapshots.len() < MAX_SNAPSHOTS => {
                let txn = self.engine.begin(Isolation::RepeatableRead);
                let at = txn.snapshot();
                self.snapshots.push((txn, at));
                Ok(())
            }
            18 if !self.snapshots.is_empty() => {
                let nth = self.dice.below(self.snapshots.len() as u64) as usize;
                self.snapshots.swap_remove(nth);
                Ok(())
            }
            _ => self.check_something(),
        };
        self.durable = self.durable.max(self.engine.durable_seq().min(self.last));
        match result {
            Err(EngineError::DiskFull(_)) => met.full += 1,
            Err(EngineError::Corruption { .. }) if self.flips > 0 => {}
            Err(EngineError::Io { .. }) if self.machine.fs.has_power() && self.has_read_fault => {}
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Whether a read may fail in this way.
    fn is_excused(&self, error: &EngineError) -> bool {
        match error {
            EngineError::Corruption { file, .. } => self.flips > 0 && file.contains(EXTENTS),
            EngineError::Io { .. } => self.has_read_fault || !self.machine.fs.has_power(),
            _ => false,
        }
    }

    fn check_something(&mut self) -> Result<(), EngineError> {
        let newest = self.engine.begin(Isolation::ReadCommitted);
        let now = newest.snapshot();
        let held = self.dice.below(1 + self.snapshots.len() as u64) as usize;
        let (txn, at) = match self.snapshots.get(held) {
            Some((txn, at)) => (txn, *at),
            None => (&newest, now),
        };
        let tree = &self.trees[self.dice.below(TREES) as usize];
        self.check_reads(txn, at, tree)
    }

    /// Compares all rows of a tree at a snapshot, read in three ways.
    fn check_reads(&self, txn: &Txn, at: Seq, tree: &Tree) -> Result<(), EngineError> {
        let label = &self.label;
        let expected = self.model.rows(tree.id(), at);
        for n in 0..KEYS {
            let key = key_of(n);
            match txn.get(tree, &key, View::Snapshot) {
                Ok(value) => {
                    let wanted = self.model.value(tree.id(), &key, at);
                    assert_eq!(value.as_ref(), wanted, "{label}: key {n} at {at}");
                }
                Err(error) if self.is_excused(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let all = Bound::Unbounded;
        for direction in [Direction::Forward, Direction::Backward] {
            let mut found = Vec::new();
            let mut cursor = match txn.scan(tree, all, all, direction, View::Snapshot) {
                Ok(cursor) => cursor,
                Err(error) if self.is_excused(&error) => continue,
                Err(error) => return Err(error),
            };
            let is_whole = loop {
                match cursor.next() {
                    Ok(Some((key, value))) => found.push((key.to_vec(), value.to_vec())),
                    Ok(None) => break true,
                    Err(error) if self.is_excused(&error) => break false,
                    Err(error) => return Err(error),
                }
            };
            let mut expected = expected.clone();
            if direction == Direction::Backward {
                expected.reverse();
            }
            if !is_whole {
                // What came before the damage is right.
                expected.truncate(found.len());
            }
            assert_eq!(found, expected, "{label}: {direction:?} at {at}");
        }
        Ok(())
    }

    /// The process or the machine is gone; starts it again, perhaps on a disk that is full.
    fn restart(mut self, met: &mut Met) -> Life {
        let stats = self.engine.stats().storage;
        met.retries += stats.work.write_retries;
        met.given_up += stats.work.given_up_compactions;
        self.snapshots.clear();
        let ids: Vec<TreeId> = self.trees.iter().map(Tree::id).collect();
        let (machine, lost_power) = match self.machine.fs.has_power() && self.dice.chance(50) {
            true => (self.machine.clone(), false),
            false => (self.machine.crash(self.dice.next_u64()), true),
        };
        met.power_losses += u64::from(lost_power);
        self.trees.clear();
        drop(self.engine);
        machine.fs.clear_faults();
        machine.fs.halt_at(u64::MAX);
        machine.fs.set_capacity(u64::MAX);
        if self.dice.chance(40) {
            machine.fs.set_capacity(machine.fs.used_bytes());
        }
        let engine = match Engine::open(machine.env(), EngineConfig::small("/db")) {
            // What is in the log does not fit into memory.
            Err(EngineError::DiskFull(_)) => {
                machine.fs.set_capacity(u64::MAX);
                Engine::open(machine.env(), EngineConfig::small("/db")).expect("there is room")
            }
            opened => {
                met.opened_full += u64::from(machine.fs.free_bytes(Path::new("/db")).unwrap() == 0);
                opened.unwrap_or_else(|error| panic!("{}: {error}", self.label))
            }
        };
        let recovered = engine.visible_seq();
        assert!(
            recovered >= self.durable,
            "{}: durable commits are lost",
            self.label
        );
        let mut model = self.model;
        model.cut(recovered);
        let trees = ids
            .iter()
            .map(|id| engine.tree(*id).expect("it was durable"));
        let trees = trees.collect();
        let life = Life {
            machine,
            trees,
            last: recovered,
            durable: recovered,
            engine,
            model,
            label: self.label,
            dice: self.dice,
            snapshots: Vec::new(),
            flips: self.flips,
            has_read_fault: false,
        };
        life.check_all();
        life
    }

    fn check_all(&self) {
        let txn = self.engine.begin(Isolation::RepeatableRead);
        let at = txn.snapshot();
        for tree in &self.trees {
            let checked = self.check_reads(&txn, at, tree);
            checked.unwrap_or_else(|error| panic!("{}: {error}", self.label));
        }
    }
}

fn live(seed: u64, met: &mut Met) {
    let mut life = Life::new(seed);
    for step in 0..STEPS {
        life.label = format!("seed {seed} step {step}");
        if life.dice.chance(6) {
            life.trouble(met);
        } else if life.dice.chance(4) {
            life.relief();
        }
        if let Err(error) = life.step(met) {
            let has_power = life.machine.fs.has_power();
            // Whoever cannot write a manifest for another reason than a full disk ends the process.
            let is_stop = matches!(error, EngineError::Stopped(_) | EngineError::Io { .. });
            assert!(!has_power || is_stop, "{}: {error}", life.label);
            met.stopped += u64::from(has_power);
            life = life.restart(met);
        } else if life.dice.chance(1) {
            life = life.restart(met);
        }
    }
    life.relief();
    if life.machine.fs.has_power() {
        life.check_all();
    }
}

#[test]
fn whatever_the_disk_does_no_read_is_wrong_and_nothing_acknowledged_is_lost() {
    let wanted = std::env::var("ESKER_FAULT_SEEDS").ok();
    let seeds = wanted.map_or(SEEDS, |text| text.parse().expect("a number of seeds"));
    let mut met = Met::default();
    (0..seeds).for_each(|seed| live(seed, &mut met));
    let all = [
        met.damage,
        met.full,
        met.opened_full,
        met.stopped,
        met.power_losses,
        met.retries,
        met.given_up,
    ];
    assert!(all.iter().all(|count| *count > 0), "{met:?}");
}
