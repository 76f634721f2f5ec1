//! Transfers between accounts with power loss at random I/O: the engine's half of the kill -9 test.
//!
//! Neighbours: the same workload runs over the protocol in the `esker` binary's crash test.
//! Each seed runs with one of the four combinations of early lock release and flush pipelining.
//! **Invariants checked** after every crash: every transfer whose sequence was durable is there; what
//! is there is a prefix of the commits; balances follow from the transfers; the sum never changes. And
//! while it lives: a row lock is held by an earlier transfer only without early lock release, and only
//! until that transfer is durable.

use std::ops::Bound;

use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, LockMode, LockOutcome, Seq, Tree,
    TreeId, Txn, View, WaitPolicy,
};
use esker_vfs::sim::{SimEnv, SimRng};

const ACCOUNTS: u64 = 12;
const OPENING: i64 = 100;
/// Power goes within this many disk operations of a life.
const LIFE_OPS: u64 = 400;
/// Largest value stored with a transfer, bytes: makes memtables fill and extents come and go.
const MAX_NOTE: u64 = 600;

/// What a run did, for tests that want to know that something happened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Transfers that were acknowledged.
    pub acknowledged: u64,
    /// Transfers that survived without having been acknowledged.
    pub lucky: u64,
    /// Crashes.
    pub crashes: u64,
    /// Row locks that an earlier transfer still held because it was not durable.
    pub refused: u64,
}

/// Which parts of the commit pipeline are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Combination {
    /// Row locks go before the flush.
    pub early_lock_release: bool,
    /// The session goes on before its commit is durable; off: it waits each time.
    pub pipelining: bool,
}

impl Combination {
    /// The one a seed runs with: of four seeds in a row each has another one.
    pub fn of(seed: u64) -> Self {
        Combination {
            early_lock_release: seed & 1 == 0,
            pipelining: seed & 2 == 0,
        }
    }
}

fn config() -> EngineConfig {
    EngineConfig {
        memtable_bytes: 8 << 10,
        ..EngineConfig::small("/db")
    }
}

/// A transfer as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Transfer {
    from: u64,
    to: u64,
    amount: i64,
}

/// One database over several lives.
struct Bank {
    dice: SimRng,
    report: Report,
    combination: Combination,
    /// Committed transfers in order, with their sequence (0 after a recovery).
    history: Vec<(Seq, Transfer)>,
    /// How many of them were acknowledged.
    acknowledged: usize,
}

/// Runs one seed with `lives` crashes.
///
/// # Panics
/// When the engine breaks a promise; the message has the seed.
pub fn run(seed: u64, lives: u32) -> Report {
    let mut sim = SimEnv::new(seed);
    let mut bank = Bank {
        dice: SimRng::new(seed ^ 0xBA2C),
        report: Report::default(),
        combination: Combination::of(seed),
        history: Vec::new(),
        acknowledged: 0,
    };
    for life in 0..lives {
        let ops = sim.fs.ops();
        if life > 0 || bank.dice.chance(80) {
            sim.fs.halt_at(ops + 1 + bank.dice.below(LIFE_OPS));
        }
        bank.live(&sim, seed);
        sim = sim.crash(seed.wrapping_mul(31) + u64::from(life));
        bank.report.crashes += 1;
        bank.recover(&sim, seed);
    }
    bank.report
}

fn account_key(id: u64) -> [u8; 9] {
    let mut key = [b'a'; 9];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

fn transfer_key(n: usize) -> [u8; 8] {
    (n as u64).to_be_bytes()
}

impl Bank {
    /// Works until the power goes or the time is over.
    fn live(&mut self, sim: &SimEnv, seed: u64) {
        let Ok(engine) = Engine::open(sim.env(), config()) else {
            assert!(
                !sim.fs.has_power(),
                "seed {seed}: open failed with the power on"
            );
            return;
        };
        let early = self.combination.early_lock_release;
        engine.switches().set_early_lock_release(early);
        for _ in 0..120 {
            if let Err(e) = self.step(&engine) {
                assert!(!sim.fs.has_power(), "seed {seed}: {e} with the power on");
                return;
            }
            engine.validate();
        }
    }

    fn step(&mut self, engine: &Engine) -> Result<(), EngineError> {
        let (accounts, transfers) = trees(engine)?;
        match self.dice.below(10) {
            0..=5 => self.transfer(engine, &accounts, &transfers)?,
            6..=7 => engine.flush_log()?,
            8 => {
                engine.maintain()?;
            }
            _ => {
                engine.flush_log()?;
                while engine.maintain()? {}
            }
        }
        let durable = engine.durable_seq();
        let known = self
            .history
            .iter()
            .take_while(|(seq, _)| *seq <= durable)
            .count();
        self.acknowledged = self.acknowledged.max(known);
        self.report.acknowledged = self.acknowledged as u64;
        Ok(())
    }

    fn transfer(
        &mut self,
        engine: &Engine,
        accounts: &Tree,
        transfers: &Tree,
    ) -> Result<(), EngineError> {
        let t = Transfer {
            from: self.dice.below(ACCOUNTS),
            to: self.dice.below(ACCOUNTS),
            amount: self.dice.below(30) as i64,
        };
        let mut txn = engine.begin(Isolation::RepeatableRead);
        for (id, change) in [(t.from, -t.amount), (t.to, t.amount)] {
            let key = account_key(id);
            self.lock(engine, &txn, accounts, &key)?;
            let balance = balance(&txn, accounts, id)?.unwrap_or(OPENING) + change;
            txn.put(accounts, &key, &balance.to_be_bytes())?;
        }
        let mut row = Vec::new();
        for field in [t.from, t.to, t.amount as u64] {
            row.extend_from_slice(&field.to_be_bytes());
        }
        row.resize(row.len() + self.dice.below(MAX_NOTE) as usize, b'.');
        txn.put(transfers, &transfer_key(self.history.len()), &row)?;
        if self.dice.chance(10) {
            txn.rollback();
            return Ok(());
        }
        let seq = txn.commit()?.seq.expect("it wrote");
        self.history.push((seq, t));
        if !self.combination.pipelining {
            engine.wait_durable(seq).block()?;
        }
        Ok(())
    }

    fn lock(
        &mut self,
        engine: &Engine,
        txn: &Txn,
        accounts: &Tree,
        key: &[u8],
    ) -> Result<(), EngineError> {
        let ask = || txn.lock(accounts.id(), key, LockMode::Exclusive, WaitPolicy::NoWait);
        let granted = match ask() {
            Err(EngineError::LockNotAvailable) => {
                let last = self.history.last().map_or(0, |(seq, _)| *seq);
                let waits = Combination {
                    early_lock_release: false,
                    pipelining: true,
                };
                assert_eq!(self.combination, waits, "nobody else is here");
                assert!(engine.durable_seq() < last, "what is durable holds no lock");
                self.report.refused += 1;
                engine.flush_log()?;
                ask()?
            }
            answer => answer?,
        };
        assert!(matches!(granted, LockOutcome::Granted { .. }));
        Ok(())
    }

    /// Opens after a crash and checks every promise.
    fn recover(&mut self, sim: &SimEnv, seed: u64) {
        let engine = Engine::open(sim.env(), config())
            .unwrap_or_else(|e| panic!("seed {seed}: recovery failed: {e}"));
        let (accounts, transfers) = trees(&engine).expect("power is on");
        let txn = engine.begin(Isolation::RepeatableRead);
        let found = stored_transfers(&txn, &transfers);
        assert!(
            found.len() >= self.acknowledged,
            "seed {seed}: {} transfers acknowledged, {} found",
            self.acknowledged,
            found.len()
        );
        let expected: Vec<Transfer> = self.history.iter().map(|(_, t)| *t).collect();
        assert!(
            expected.starts_with(&found),
            "seed {seed}: what was recovered is no prefix of what was committed"
        );
        let mut balances = [OPENING; ACCOUNTS as usize];
        for t in &found {
            balances[t.from as usize] -= t.amount;
            balances[t.to as usize] += t.amount;
        }
        for (id, expected) in balances.iter().enumerate() {
            let is = balance(&txn, &accounts, id as u64)
                .expect("readable")
                .unwrap_or(OPENING);
            assert_eq!(
                is, *expected,
                "seed {seed}: account {id} does not follow from the transfers"
            );
        }
        assert_eq!(balances.iter().sum::<i64>(), OPENING * ACCOUNTS as i64);
        self.report.lucky += (found.len() - self.acknowledged) as u64;
        // What was recovered is part of the new life: it may not go any more.
        self.history.truncate(found.len());
        self.history.iter_mut().for_each(|(seq, _)| *seq = 0);
        engine.flush_log().expect("power is on");
        self.acknowledged = found.len();
    }
}

/// The two trees, made on the first use.
fn trees(engine: &Engine) -> Result<(Tree, Tree), EngineError> {
    let mut ids: Vec<TreeId> = engine.tree_ids();
    while ids.len() < 2 {
        ids.push(engine.create_tree()?.id());
    }
    let tree = |id| engine.tree(id).ok_or(EngineError::NoSuchTree(id));
    Ok((tree(ids[0])?, tree(ids[1])?))
}

fn balance(txn: &Txn, accounts: &Tree, id: u64) -> Result<Option<i64>, EngineError> {
    let bytes = txn.get(accounts, &account_key(id), View::Latest)?;
    Ok(bytes.map(|b| i64::from_be_bytes(b.try_into().expect("eight bytes"))))
}

fn stored_transfers(txn: &Txn, transfers: &Tree) -> Vec<Transfer> {
    let mut cursor = txn
        .scan(
            transfers,
            Bound::Unbounded,
            Bound::Unbounded,
            Direction::Forward,
            View::Snapshot,
        )
        .expect("scan");
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next().expect("next") {
        assert_eq!(
            key,
            transfer_key(found.len()),
            "a transfer in the middle is missing"
        );
        let field =
            |n: usize| u64::from_be_bytes(value[n * 8..n * 8 + 8].try_into().expect("eight bytes"));
        found.push(Transfer {
            from: field(0),
            to: field(1),
            amount: field(2) as i64,
        });
    }
    found
}
