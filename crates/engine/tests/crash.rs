//! Power loss at random operations of a simulated disk: what was acknowledged is there, nothing is half there.
//!
//! One thread drives the engine by hand, so a seed repeats its run exactly. The model is the list of all states that
//! the commits went through in the order of the log; after a crash the engine must be in exactly one of them, and not
//! in one before the last acknowledged commit. With asynchronous commit acknowledged commits may be missing, but only
//! the newest: a prefix of the commits survives.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, PreparedId, Seq, Tree, TreeId, View,
};
use esker_vfs::sim::{SimEnv, SimRng};

const TREES: usize = 3;
const KEYS: u64 = 40;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Everything the engine stores, at one moment.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct State {
    trees: BTreeMap<TreeId, Rows>,
    counters: BTreeMap<TreeId, u64>,
    /// Transactions that wait for their decision.
    prepared: BTreeMap<PreparedId, Seq>,
}

/// Writes of a transaction: tree, key, the value of a put.
type Writes = Vec<(TreeId, Vec<u8>, Option<Vec<u8>>)>;

impl State {
    fn write(&mut self, writes: &Writes) {
        for (tree, key, value) in writes {
            let rows = self.trees.entry(*tree).or_default();
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
    }
}

/// Reads everything, each tree in three ways.
fn read_state(engine: &Engine) -> Result<State, EngineError> {
    let mut state = State::default();
    let txn = engine.begin(Isolation::RepeatableRead);
    let all = (Bound::Unbounded, Bound::Unbounded);
    for id in engine.tree_ids() {
        let tree = engine.tree(id).expect("listed");
        let mut forward = Rows::new();
        let mut cursor = txn.scan(&tree, all.0, all.1, Direction::Forward, View::Snapshot)?;
        while let Some((key, value)) = cursor.next()? {
            assert!(forward.insert(key.to_vec(), value.to_vec()).is_none());
        }
        let mut backward = Rows::new();
        let mut cursor = txn.scan(&tree, all.0, all.1, Direction::Backward, View::Snapshot)?;
        while let Some((key, value)) = cursor.next()? {
            backward.insert(key.to_vec(), value.to_vec());
        }
        assert_eq!(forward, backward);
        for n in 0..KEYS {
            let key = key_of(n);
            assert_eq!(
                txn.get(&tree, &key, View::Snapshot)?.as_ref(),
                forward.get(&key)
            );
        }
        state.trees.insert(id, forward);
        if engine.counter(id) > 0 {
            state.counters.insert(id, engine.counter(id));
        }
    }
    state.prepared = engine.prepared().into_iter().collect();
    Ok(state)
}

fn key_of(n: u64) -> Vec<u8> {
    format!("key{:03}", n % KEYS).into_bytes()
}

/// The life of one database over several crashes.
struct Life {
    dice: SimRng,
    /// State after each commit since the last crash, the recovered one first, with its sequence.
    history: Vec<(Seq, State)>,
    /// What every transaction wrote that was ever prepared, by its sequence.
    prepared: BTreeMap<Seq, Writes>,
    /// Index into `history` of the newest state that was durable at the last look.
    durable: usize,
    /// Commits are acknowledged at once.
    async_commit: bool,
    /// Acknowledged commits that crashes took back.
    lost: u64,
}

impl Life {
    fn now(&self) -> &State {
        &self.history.last().expect("never empty").1
    }

    fn acknowledge(&mut self, engine: &Engine) {
        let durable = engine.durable_seq();
        let newest = self.history.iter().rposition(|(seq, _)| *seq <= durable);
        self.durable = self.durable.max(newest.expect("the first is durable"));
        if self.async_commit {
            // Whoever asks is told at once that the newest commit is safe.
            let mut told = engine.wait_durable(self.history.last().expect("never empty").0);
            let answer = Pin::new(&mut told).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(answer, Poll::Ready(Ok(()))));
        }
    }

    /// Number of states of which the world was told that they are safe.
    fn acknowledged(&self) -> usize {
        match self.async_commit {
            true => self.history.len(),
            false => self.durable + 1,
        }
    }

    /// One step; an error means that the power is gone.
    fn step(&mut self, engine: &Engine, trees: &[Tree]) -> Result<(), EngineError> {
        match self.dice.below(20) {
            0..=10 => self.transaction(engine, trees)?,
            11 => self.decision(engine)?,
            12 => {
                let tree = &trees[self.dice.below(TREES as u64) as usize];
                let value = self.now().counters.get(&tree.id()).copied().unwrap_or(0);
                let value = value + self.dice.below(5);
                let lower = self.dice.chance(30);
                let (seq, value) = match lower {
                    true => (engine.set_counter(tree.id(), 1 + value / 2)?, 1 + value / 2),
                    false => (engine.reserve_counter(tree.id(), value)?, value),
                };
                let mut state = self.now().clone();
                if value > 0 {
                    state.counters.insert(tree.id(), value);
                }
                self.history.push((seq, state));
            }
            13..=15 => {
                engine.flush_log()?;
                assert!(engine.durable_seq() >= self.history.last().expect("there").0);
            }
            16..=18 => {
                engine.maintain()?;
            }
            _ if self.dice.chance(20) => engine.flush_all()?,
            _ => engine.compact()?,
        }
        self.acknowledge(engine);
        Ok(())
    }

    fn transaction(&mut self, engine: &Engine, trees: &[Tree]) -> Result<(), EngineError> {
        let mut txn = engine.begin(Isolation::ReadCommitted);
        let mut writes_made = Writes::new();
        let large = self.dice.chance(3);
        let writes = if large { 60 } else { 1 + self.dice.below(6) };
        for _ in 0..writes {
            let tree = &trees[self.dice.below(TREES as u64) as usize];
            let key = key_of(self.dice.below(KEYS));
            if self.dice.chance(20) {
                txn.delete(tree, &key)?;
                writes_made.push((tree.id(), key, None));
            } else {
                let length = self.dice.below(if large { 8000 } else { 300 }) as usize;
                let value = vec![self.dice.below(256) as u8; length];
                txn.put(tree, &key, &value)?;
                writes_made.push((tree.id(), key, Some(value)));
            }
        }
        if self.dice.chance(20) {
            // A part that is undone again.
            let savepoint = txn.savepoint();
            txn.put(&trees[0], b"never", b"seen")?;
            txn.delete(&trees[1], &key_of(1))?;
            txn.rollback_to(savepoint);
        }
        if self.dice.chance(10) {
            txn.rollback();
            return Ok(());
        }
        let mut state = self.now().clone();
        if self.dice.chance(30) {
            let id = trees[0].id();
            let counter = state.counters.entry(id).or_default();
            *counter += 1;
            txn.bump_counter(id, *counter);
        }
        if self.dice.chance(40) {
            let bytes = vec![0xAA; 1 + self.dice.below(3000) as usize];
            txn.attach(&bytes)?;
        }
        let xid = PreparedId::xa(&[b'x', self.dice.below(3) as u8]);
        if self.dice.chance(15) && !state.prepared.contains_key(&xid) {
            let seq = txn.prepare(&xid)?;
            state.prepared.insert(xid, seq);
            self.prepared.insert(seq, writes_made);
            self.history.push((seq, state));
            return Ok(());
        }
        let seq = txn.commit()?.seq.expect("something was written");
        state.write(&writes_made);
        self.history.push((seq, state));
        Ok(())
    }

    /// Decides about a prepared transaction, if there is one.
    fn decision(&mut self, engine: &Engine) -> Result<(), EngineError> {
        let mut state = self.now().clone();
        let Some((xid, prepared)) = state.prepared.pop_first() else {
            return Ok(());
        };
        let commit = if self.dice.chance(70) {
            state.write(&self.prepared[&prepared]);
            engine.commit_prepared(&xid, b"decided")?
        } else {
            engine.rollback_prepared(&xid, &[])?
        };
        self.history
            .push((commit.seq.expect("a decision is logged"), state));
        Ok(())
    }

    /// Opens after a crash and checks; an error means that the power went again.
    fn recover(
        &mut self,
        machine: &SimEnv,
        label: &str,
    ) -> Result<(Engine, Vec<Tree>), EngineError> {
        let engine = Engine::open(machine.env(), EngineConfig::small("/db"))?;
        engine.switches().set_async_commit(self.async_commit);
        let state = read_state(&engine)?;
        let at = self.history.iter().rposition(|(_, known)| *known == state);
        let Some(at) = at else {
            panic!("{label}: {state:?} is no state that the commits went through");
        };
        assert!(at >= self.durable, "{label}: durable commits are lost");
        self.lost += (self.acknowledged() as u64).saturating_sub(at as u64 + 1);
        // Durable is what recovery found, so this state is where the next life starts.
        self.history = vec![(engine.durable_seq(), state)];
        self.durable = 0;
        let trees = engine
            .tree_ids()
            .into_iter()
            .map(|id| engine.tree(id).expect("listed"));
        let trees = trees.collect();
        Ok((engine, trees))
    }
}

/// Lives through some crashes; returns how many acknowledged commits they took back.
fn live_and_crash(seed: u64, async_commit: bool) -> u64 {
    let mut machine = SimEnv::new(seed);
    let mut life = Life {
        dice: SimRng::new(seed),
        history: Vec::new(),
        prepared: BTreeMap::new(),
        durable: 0,
        async_commit,
        lost: 0,
    };
    {
        let engine = Engine::open(machine.env(), EngineConfig::small("/db")).expect("a fresh disk");
        for _ in 0..TREES {
            engine.create_tree().expect("a healthy disk");
        }
        let state = read_state(&engine).expect("a healthy disk");
        life.history.push((engine.durable_seq(), state));
    }
    for round in 0..4 {
        let label = format!("seed {seed} round {round}");
        let cut = machine.fs.ops() + 5 + life.dice.below(250);
        machine.fs.halt_at(cut);
        match life.recover(&machine, &label) {
            Ok((engine, trees)) => {
                for _ in 0..400 {
                    if life.step(&engine, &trees).is_err() {
                        break;
                    }
                }
                if machine.fs.has_power() {
                    // Without an error the engine shows what the model says.
                    let state = read_state(&engine).expect("the power is on");
                    assert_eq!(state, *life.now(), "{label}");
                }
            }
            Err(error) => assert!(!machine.fs.has_power(), "{label}: recovery failed: {error}"),
        }
        // Other dice than before: random numbers must not repeat within the life of a database.
        machine = machine.crash(life.dice.next_u64());
    }
    let label = format!("seed {seed} at the end");
    life.recover(&machine, &label).expect("the power stays on");
    life.lost
}

/// Lives per run; `ESKER_CRASH_SEEDS` asks for more.
const SEEDS: u64 = 60;

fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("ESKER_CRASH_SEEDS").ok();
    0..wanted.map_or(SEEDS, |text| text.parse().expect("a number of seeds"))
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_there() {
    for seed in seeds() {
        assert_eq!(live_and_crash(seed, false), 0);
    }
}

#[test]
fn asynchronous_commit_loses_only_the_newest_commits() {
    let lost: u64 = seeds().map(|seed| live_and_crash(seed, true)).sum();
    assert!(lost > 0, "no crash took anything back: nothing was tried");
}
