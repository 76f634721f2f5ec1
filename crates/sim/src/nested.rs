//! Power loss during recovery, again and again: what one crash left must come through any number of them.
//!
//! Neighbours: `bank` crashes work; here recovery itself is crashed. The same image is also recovered in every way the
//! engine has, which must give the same database.
//!
//! A life of transfers between accounts, in one phase and in two, with notes in trees of their own, flushes,
//! checkpoints and a dropped tree ends in a power loss. Recoveries follow: the power goes while they cut the tail,
//! begin a segment, flush what does not fit into memory, or write the manifest; with some seeds in nearly all of them,
//! so that nothing but interrupted recoveries follow each other. Where one ends in time, work goes on now and then
//! until the power goes, so what later recoveries find was written behind what earlier ones have left. The last one is
//! left alone.
//!
//! **Invariants checked** after every recovery that ends
//! - The database is what a prefix of the history makes, with everything in it that was durable.
//! - What a recovery has found is found by all later ones, also where its own disk operations were lost.
//! - Prepared transactions wait for their decision with their row locks; decided ones do not.
//! - The sum of all accounts never changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, LockMode, Mode, PreparedId,
    RecoveryMode, Seq, Tree, TreeId, Txn, View, WaitPolicy,
};
use esker_vfs::sim::{CrashImage, SimEnv, SimFs, SimRng};

const ACCOUNTS: u64 = 10;
const OPENING: i64 = 100;
/// Trees beside the accounts'.
const NOTE_TREES: usize = 3;
/// Steps of the life before the first crash.
const STEPS: u64 = 140;
/// The power goes within this many disk operations of a recovery; one without flushes makes about ten. A seed has one
/// of these, and with the last most recoveries end.
const RECOVERY_OPS: [u64; 3] = [9, 40, 200];
/// Steps of the life after a recovery, if there is one.
const LATER_STEPS: u64 = 20;
/// Longest note, bytes: makes memtables fill and records go over several blocks.
const MAX_NOTE: u64 = 900;
/// XIDs are used again and again.
const XIDS: u64 = 6;

/// What a run did, for tests that want to know that something happened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Events of the history that survived.
    pub events: u64,
    /// Recoveries that the power loss ended.
    pub interrupted: u64,
    /// The most of them in a row: each began with what the one before had left.
    pub nested: u64,
    /// Recoveries that ended.
    pub completed: u64,
    /// Lives after a recovery.
    pub lives: u64,
    /// Transactions that were prepared and not decided after the last recovery.
    pub in_doubt: u64,
    /// Times a replay had to flush.
    pub flushes: u64,
}

/// Contents of a database, and who waits in it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct State {
    trees: BTreeMap<u32, BTreeMap<Vec<u8>, Vec<u8>>>,
    /// With the sequences of their records: an XID may have been rolled back and prepared again, with other locks.
    prepared: BTreeMap<Vec<u8>, Seq>,
    counters: BTreeMap<u32, u64>,
}

type Writes = Vec<(TreeId, Vec<u8>, Option<Vec<u8>>)>;

/// What the log has a record of.
#[derive(Debug, Clone)]
enum Event {
    Commit(Writes),
    Prepare(Vec<u8>, Writes),
    Decide(Vec<u8>, bool),
    Counter(TreeId, u64),
}

/// The history, and how much of it must be there.
struct Model {
    dice: SimRng,
    report: Report,
    /// Recoveries that were interrupted since the last that ended.
    nested: u64,
    trees: Vec<TreeId>,
    /// In the order of the log, with their sequences.
    history: Vec<(Seq, Event)>,
    /// So many events are durable.
    durable: usize,
    /// A tree that was asked to go.
    dropping: Option<TreeId>,
    /// It is gone.
    dropped: bool,
}

/// Memory before the crash, and what a recovery may have: less of it means flushes while replaying.
const LIFE_MEMORY: usize = 1 << 20;
const RECOVERY_MEMORY: [usize; 3] = [16 << 10, 64 << 10, LIFE_MEMORY];

const MODES: [RecoveryMode; 3] = [
    RecoveryMode::SerialSync,
    RecoveryMode::SerialAsync,
    RecoveryMode::Parallel,
];

fn config(memory_limit: usize, recovery: RecoveryMode) -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    config.memory_limit = memory_limit;
    config.recovery = recovery;
    config.memtable_bytes = 8 << 10;
    config.log_segment_bytes = 256 << 10;
    config.log_buffer_bytes = 64 << 10;
    config.log_limit_bytes = 512 << 10;
    config.on_fatal = Arc::new(|_| {});
    config
}

/// Runs one seed: a life, then `crashes` power losses during recovery.
///
/// # Panics
/// When the engine breaks a promise; the message has the seed.
pub fn run(seed: u64, crashes: u32) -> Report {
    let mut sim = SimEnv::new(seed);
    let mut model = Model::new(seed);
    model.live(&sim, seed);
    let most_ops = RECOVERY_OPS[model.dice.below(3) as usize];
    for crash in 0..crashes {
        sim = sim.crash(seed.wrapping_mul(37) + u64::from(crash));
        let limit = sim.fs.ops() + 1 + model.dice.below(most_ops);
        sim.fs.halt_at(limit);
        if let Some(engine) = model.recover(&sim, seed)
            && model.dice.chance(50)
        {
            model.report.lives += 1;
            model.work(&engine, &sim, LATER_STEPS, seed);
        }
    }
    sim = sim.crash(seed ^ 0xC4A5);
    drop(model.recover(&sim, seed));
    model.every_way_finds_the_same(&sim.fs, seed);
    model.decide_all(&sim, seed);
    sim = sim.crash(seed ^ 0xD1E5);
    drop(model.recover(&sim, seed).expect("power is on"));
    model.report
}

impl Model {
    fn new(seed: u64) -> Self {
        Model {
            dice: SimRng::new(seed ^ 0x4E57),
            report: Report::default(),
            nested: 0,
            trees: Vec::new(),
            history: Vec::new(),
            durable: 0,
            dropping: None,
            dropped: false,
        }
    }

    /// The life before the first crash.
    fn live(&mut self, sim: &SimEnv, seed: u64) {
        let engine = Engine::open(sim.env(), config(LIFE_MEMORY, RecoveryMode::Parallel))
            .expect("power is on");
        for _ in 0..=NOTE_TREES {
            self.trees
                .push(engine.create_tree().expect("power is on").id());
        }
        sim.fs.halt_at(sim.fs.ops() + 40 + self.dice.below(800));
        self.work(&engine, sim, STEPS, seed);
    }

    /// Works until the power goes or these steps are done.
    fn work(&mut self, engine: &Engine, sim: &SimEnv, steps: u64, seed: u64) {
        for _ in 0..steps {
            let outcome = self.step(engine);
            let durable = engine.durable_seq();
            let known = self.history.iter().take_while(|(seq, _)| *seq <= durable);
            self.durable = self.durable.max(known.count());
            if let Err(e) = outcome {
                assert!(!sim.fs.has_power(), "seed {seed}: {e} with the power on");
                return;
            }
            engine.validate();
        }
    }

    fn step(&mut self, engine: &Engine) -> Result<(), EngineError> {
        match self.dice.below(20) {
            0..=8 => self.transfer(engine, None),
            9..=11 => {
                let xid = format!("xid-{}", self.dice.below(XIDS)).into_bytes();
                match self.state().prepared.contains_key(&xid) {
                    true => self.decide(engine, xid),
                    false => self.transfer(engine, Some(xid)),
                }
            }
            12 => {
                let tree = self.trees[0];
                let value = 1 + self.dice.below(1000);
                let seq = engine.reserve_counter(tree, value)?;
                self.history.push((seq, Event::Counter(tree, value)));
                Ok(())
            }
            13..=15 => engine.flush_log(),
            // Of every tree whatever it has, also where the log is not durable yet.
            16 => engine.flush_all(),
            17 => engine.maintain().map(|_| ()),
            18 => {
                engine.flush_log()?;
                while engine.maintain()? {}
                Ok(())
            }
            _ => self.drop_one(engine),
        }
    }

    /// Moves an amount and writes a note of it, in one phase or, with an XID, only the first of two.
    fn transfer(&mut self, engine: &Engine, xid: Option<Vec<u8>>) -> Result<(), EngineError> {
        let accounts = self.tree(engine, 0);
        let mut txn = engine.begin(Isolation::ReadCommitted);
        let (from, to) = (self.dice.below(ACCOUNTS), self.dice.below(ACCOUNTS));
        let amount = self.dice.below(30) as i64;
        let mut writes: Writes = Vec::new();
        for (id, change) in [(from, -amount), (to, amount)] {
            let key = id.to_be_bytes();
            match lock(&txn, &accounts, &key) {
                // Somebody who is prepared has it.
                Err(EngineError::LockNotAvailable) => return Ok(()),
                outcome => outcome?,
            }
            let old = txn.get(&accounts, &key, View::Latest)?;
            let balance = old.map_or(OPENING, |bytes| balance(&bytes)) + change;
            writes.push((
                accounts.id(),
                key.to_vec(),
                Some(balance.to_be_bytes().to_vec()),
            ));
            txn.put(&accounts, &key, &balance.to_be_bytes())?;
        }
        let number = 1 + self.dice.below(NOTE_TREES as u64) as usize;
        let note_tree = self.tree(engine, number);
        let key = (self.history.len() as u64).to_be_bytes();
        let note = vec![self.dice.below(256) as u8; self.dice.below(MAX_NOTE) as usize];
        txn.put(&note_tree, &key, &note)?;
        writes.push((note_tree.id(), key.to_vec(), Some(note)));
        if self.dice.chance(20) && self.history.len() > 4 {
            let old = self.dice.below(self.history.len() as u64).to_be_bytes();
            txn.delete(&note_tree, &old)?;
            writes.push((note_tree.id(), old.to_vec(), None));
        }
        if let Some(xid) = xid {
            let seq = txn.prepare(&PreparedId::xa(&xid))?;
            self.history.push((seq, Event::Prepare(xid, writes)));
            return Ok(());
        }
        let seq = txn.commit()?.seq.expect("it wrote");
        self.history.push((seq, Event::Commit(writes)));
        Ok(())
    }

    fn decide(&mut self, engine: &Engine, xid: Vec<u8>) -> Result<(), EngineError> {
        let commit = self.dice.chance(60);
        let done = match commit {
            true => engine.commit_prepared(&PreparedId::xa(&xid), &[])?,
            false => engine.rollback_prepared(&PreparedId::xa(&xid), &[])?,
        };
        let seq = done.seq.expect("a decision is logged");
        self.history.push((seq, Event::Decide(xid, commit)));
        Ok(())
    }

    /// Drops the last tree, once, while nobody prepared has written to it; another one takes its place.
    fn drop_one(&mut self, engine: &Engine) -> Result<(), EngineError> {
        if self.dropping.is_some() || !self.state().prepared.is_empty() || self.dice.chance(50) {
            return Ok(());
        }
        let old = self.trees[NOTE_TREES];
        let new = engine.create_tree()?.id();
        self.dropping = Some(old);
        self.trees[NOTE_TREES] = new;
        engine.drop_tree(old)?;
        self.dropped = true;
        Ok(())
    }

    fn tree(&self, engine: &Engine, number: usize) -> Tree {
        let id = self.trees[number];
        engine
            .tree(id)
            .unwrap_or_else(|| panic!("tree {id:?} is gone"))
    }

    /// What the whole history makes.
    fn state(&self) -> State {
        self.state_after(self.history.len())
    }

    /// What the first `events` make.
    fn state_after(&self, events: usize) -> State {
        let mut state = State::default();
        let mut waiting: BTreeMap<&[u8], (Seq, &Writes)> = BTreeMap::new();
        for (seq, event) in &self.history[..events] {
            match event {
                Event::Commit(writes) => state.apply(writes),
                Event::Prepare(xid, writes) => {
                    waiting.insert(xid, (*seq, writes));
                }
                Event::Decide(xid, commit) => {
                    let (_, writes) = waiting.remove(xid.as_slice()).expect("it was prepared");
                    if *commit {
                        state.apply(writes);
                    }
                }
                Event::Counter(tree, value) => {
                    let counter = state.counters.entry(tree.0).or_default();
                    *counter = (*counter).max(*value);
                }
            }
        }
        let prepared = waiting.into_iter();
        state.prepared = prepared
            .map(|(xid, (seq, _))| (xid.to_vec(), seq))
            .collect();
        if let Some(tree) = self.dropping.filter(|_| self.dropped) {
            state.trees.remove(&tree.0);
        }
        state.trees.retain(|_, rows| !rows.is_empty());
        state
    }

    /// Opens, and checks what is found; `None` if that does not come to its end.
    fn recover(&mut self, sim: &SimEnv, seed: u64) -> Option<Engine> {
        let memory = RECOVERY_MEMORY[self.dice.below(3) as usize];
        let mode = MODES[self.dice.below(3) as usize];
        self.nested += 1;
        let found = Engine::open(sim.env(), config(memory, mode)).and_then(|engine| {
            self.report.flushes += engine.stats().replayed.flushes;
            Ok((State::of(&engine)?, engine))
        });
        let (found, engine) = match found {
            Ok(found) => found,
            Err(e) => {
                assert!(!sim.fs.has_power(), "seed {seed}: recovery failed: {e}");
                self.report.interrupted += 1;
                self.report.nested = self.report.nested.max(self.nested);
                return None;
            }
        };
        self.nested = 0;
        self.report.completed += 1;
        self.accept(found, &engine, seed);
        // What the background does next may be interrupted, too.
        let _ = (0..self.dice.below(4)).try_for_each(|_| engine.maintain().map(|_| ()));
        Some(engine)
    }

    /// Finds the prefix of the history that makes `found`. It is part of every later one.
    fn accept(&mut self, found: State, engine: &Engine, seed: u64) {
        for id in &self.trees {
            assert!(
                engine.tree(*id).is_some(),
                "seed {seed}: tree {id:?} is gone"
            );
        }
        if let Some(old) = self.dropping {
            let is_there = engine.tree(old).is_some();
            assert!(
                !(self.dropped && is_there),
                "seed {seed}: tree {old:?} came back"
            );
            self.dropped = !is_there;
        }
        let events = (self.durable..=self.history.len())
            .find(|events| self.state_after(*events) == found)
            .unwrap_or_else(|| {
                panic!(
                    "seed {seed}: what was recovered is no prefix of the {} events, {} of them durable",
                    self.history.len(),
                    self.durable
                )
            });
        assert_eq!(
            found.sum(self.trees[0]),
            0,
            "seed {seed}: money came or went"
        );
        self.history.truncate(events);
        self.durable = events;
        self.report.events = events as u64;
        self.locks_are_held(engine, seed);
    }

    /// Prepared transactions hold the accounts they write; nobody else holds any.
    fn locks_are_held(&self, engine: &Engine, seed: u64) {
        let accounts = self.tree(engine, 0);
        let mut held = BTreeSet::new();
        for (_, event) in &self.history {
            match event {
                Event::Prepare(xid, writes) => {
                    held.extend(
                        writes
                            .iter()
                            .filter(|w| w.0 == accounts.id())
                            .map(|w| (xid.clone(), w.1.clone())),
                    );
                }
                Event::Decide(xid, _) => held.retain(|(holder, _)| holder != xid),
                Event::Commit(_) | Event::Counter(..) => {}
            }
        }
        let held: BTreeSet<Vec<u8>> = held.into_iter().map(|(_, key)| key).collect();
        let txn = engine.begin(Isolation::ReadCommitted);
        for id in 0..ACCOUNTS {
            let key = id.to_be_bytes();
            let is_held = match lock(&txn, &accounts, &key) {
                Ok(()) => false,
                Err(EngineError::LockNotAvailable) => true,
                Err(e) => panic!("seed {seed}: {e}"),
            };
            assert_eq!(
                is_held,
                held.contains(key.as_slice()),
                "seed {seed}: account {id}"
            );
        }
    }

    /// The same disk, recovered in every way there is.
    fn every_way_finds_the_same(&self, disk: &SimFs, seed: u64) {
        let expected = self.state();
        for (memory, mode) in RECOVERY_MEMORY
            .iter()
            .flat_map(|m| MODES.map(|mode| (*m, mode)))
        {
            // New dice: extents are told apart by random stamps.
            let copy = disk.crash_with(CrashImage::KeepUnsynced);
            let copy = SimEnv::with_fs(copy, seed ^ 0x5EED_0FC0_0000_0000);
            let engine = Engine::open(copy.env(), config(memory, mode)).expect("power is on");
            let found = State::of(&engine).expect("readable");
            assert!(
                found == expected,
                "seed {seed}: {mode:?} with {memory} bytes of memory: {}",
                found.difference(&expected)
            );
            self.locks_are_held(&engine, seed);
        }
    }

    /// Decides whatever waits; then nothing waits, and the sum is still right.
    fn decide_all(&mut self, sim: &SimEnv, seed: u64) {
        let engine = Engine::open(sim.env(), config(LIFE_MEMORY, RecoveryMode::Parallel))
            .expect("power is on");
        let waiting = self.state().prepared;
        self.report.in_doubt = waiting.len() as u64;
        for xid in waiting.into_keys() {
            self.decide(&engine, xid).expect("it waits");
        }
        engine.flush_log().expect("power is on");
        let found = State::of(&engine).expect("readable");
        self.durable = self.history.len();
        self.accept(found, &engine, seed);
        assert!(engine.prepared().is_empty(), "seed {seed}");
    }
}

impl State {
    fn apply(&mut self, writes: &Writes) {
        for (tree, key, value) in writes {
            let rows = self.trees.entry(tree.0).or_default();
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
    }

    /// What an engine has.
    fn of(engine: &Engine) -> Result<State, EngineError> {
        let mut state = State::default();
        let txn = engine.begin(Isolation::RepeatableRead);
        for id in engine.tree_ids() {
            let Some(tree) = engine.tree(id) else {
                continue;
            };
            let (from, to) = (Bound::Unbounded, Bound::Unbounded);
            let mut cursor = txn.scan(&tree, from, to, Direction::Forward, View::Snapshot)?;
            let rows = state.trees.entry(id.0).or_default();
            while let Some((key, value)) = cursor.next()? {
                rows.insert(key.to_vec(), value.to_vec());
            }
            if engine.counter(id) > 0 {
                state.counters.insert(id.0, engine.counter(id));
            }
        }
        state.trees.retain(|_, rows| !rows.is_empty());
        state.prepared = engine
            .prepared()
            .into_iter()
            .map(|(xid, seq)| (xid.bytes().to_vec(), seq))
            .collect();
        Ok(state)
    }

    /// What is different, for people.
    fn difference(&self, expected: &State) -> String {
        if (&self.prepared, &self.counters) != (&expected.prepared, &expected.counters) {
            return format!(
                "{:?} {:?}, expected {:?} {:?}",
                self.prepared, self.counters, expected.prepared, expected.counters
            );
        }
        let rows = |state: &State| -> BTreeMap<(u32, Vec<u8>), Vec<u8>> {
            let all = state.trees.iter();
            all.flat_map(|(tree, rows)| {
                rows.iter()
                    .map(|(key, value)| ((*tree, key.clone()), value.clone()))
            })
            .collect()
        };
        let (found, wanted) = (rows(self), rows(expected));
        let differs = |key: &&(u32, Vec<u8>)| found.get(key) != wanted.get(key);
        let keys: BTreeSet<_> = found.keys().chain(wanted.keys()).filter(differs).collect();
        let shown = |(tree, key): &&(u32, Vec<u8>)| {
            let place = (*tree, key.clone());
            let sizes = [&found, &wanted].map(|rows| rows.get(&place).map(Vec::len));
            format!("tree {tree} key {key:?}: found, expected {sizes:?} bytes")
        };
        keys.iter().map(shown).collect::<Vec<_>>().join("; ")
    }

    /// How much more or less there is in the accounts than there was.
    fn sum(&self, accounts: TreeId) -> i64 {
        let Some(rows) = self.trees.get(&accounts.0) else {
            return 0;
        };
        rows.values().map(|bytes| balance(bytes) - OPENING).sum()
    }
}

fn balance(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

fn lock(txn: &Txn, tree: &Tree, key: &[u8]) -> Result<(), EngineError> {
    let outcome = txn.lock(tree.id(), key, LockMode::Exclusive, WaitPolicy::NoWait)?;
    drop(outcome);
    Ok(())
}
