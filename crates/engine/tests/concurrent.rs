//! Sessions, flush and compaction at the same time, on a disk in memory with the engine's own threads.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, LockMode, LockOutcome, Tree, Txn,
    View, WaitPolicy,
};
use esker_vfs::sim::{SimEnv, SimRng};

const ACCOUNTS: u64 = 64;
const START: u64 = 1000;
const TRANSFERS: u64 = 1500;

fn config() -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.memory_limit = 4 << 20;
    config.memtable_bytes = 64 << 10;
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 256 << 10;
    config.log_limit_bytes = 4 << 20;
    config.on_fatal = Arc::new(|message| panic!("{message}"));
    config
}

/// An account is a row of one tree; the other tree has a copy of its balance in another shape.
struct Bank {
    engine: Engine,
    rows: Tree,
    copies: Tree,
}

impl Bank {
    fn lock(&self, txn: &Txn, account: u64) -> Result<(), EngineError> {
        loop {
            let key = account.to_be_bytes();
            match txn.lock(self.rows.id(), &key, LockMode::Exclusive, WaitPolicy::Wait)? {
                LockOutcome::Granted { .. } => return Ok(()),
                LockOutcome::Wait(ticket) => ticket.block(Duration::from_secs(60))?,
                LockOutcome::Skipped => panic!("not asked for"),
            }
        }
    }

    fn balance(&self, txn: &Txn, account: u64) -> u64 {
        let key = account.to_be_bytes();
        let value = txn
            .get(&self.rows, &key, View::Latest)
            .unwrap()
            .expect("an account");
        u64::from_be_bytes(value[..8].try_into().unwrap())
    }

    fn set(&self, txn: &mut Txn, account: u64, balance: u64) {
        let key = account.to_be_bytes();
        let mut value = vec![0; 200];
        value[..8].copy_from_slice(&balance.to_be_bytes());
        txn.put(&self.rows, &key, &value).unwrap();
        // The copy moves: its key contains the balance.
        let old = txn.get(&self.copies, &key, View::Latest).unwrap();
        if let Some(old) = old {
            txn.delete(&self.copies, &[&key[..], &old].concat())
                .unwrap();
        }
        txn.put(&self.copies, &key, &balance.to_be_bytes()).unwrap();
        txn.put(&self.copies, &[key, balance.to_be_bytes()].concat(), b"")
            .unwrap();
    }

    fn transfer(&self, txn: &mut Txn, dice: &mut SimRng) -> Result<(), EngineError> {
        let (from, to) = (dice.below(ACCOUNTS), dice.below(ACCOUNTS));
        self.lock(txn, from)?;
        self.lock(txn, to)?;
        let amount = dice.below(20).min(self.balance(txn, from));
        let left = self.balance(txn, from) - amount;
        self.set(txn, from, left);
        let more = self.balance(txn, to) + amount;
        self.set(txn, to, more);
        if dice.chance(5) {
            txn.rollback();
            return Ok(());
        }
        let commit = txn.commit()?;
        let seq = commit.seq.expect("written");
        if dice.chance(10) {
            self.engine.wait_durable(seq).block()?;
            assert!(self.engine.durable_seq() >= seq && self.engine.visible_seq() >= seq);
        }
        Ok(())
    }

    /// Sums at one snapshot, in both directions, and compares rows with copies.
    fn check(&self) {
        let txn = self.engine.begin(Isolation::RepeatableRead);
        let all = (Bound::Unbounded, Bound::Unbounded);
        for direction in [Direction::Forward, Direction::Backward] {
            let mut cursor = txn
                .scan(&self.rows, all.0, all.1, direction, View::Snapshot)
                .unwrap();
            let (mut sum, mut count) = (0, 0);
            let mut balances = Vec::new();
            while let Some((key, value)) = cursor.next().unwrap() {
                sum += u64::from_be_bytes(value[..8].try_into().unwrap());
                balances.push([key, &value[..8]].concat());
                count += 1;
            }
            assert_eq!((sum, count), (ACCOUNTS * START, ACCOUNTS));
            let mut cursor = txn
                .scan(&self.copies, all.0, all.1, direction, View::Snapshot)
                .unwrap();
            let mut copies = Vec::new();
            while let Some((key, value)) = cursor.next().unwrap() {
                if value.is_empty() {
                    copies.push(key.to_vec());
                }
            }
            assert_eq!(copies, balances);
        }
    }
}

#[test]
fn sums_never_change_while_everything_runs() {
    let machine = SimEnv::new(1);
    let engine = Engine::open(machine.env(), config()).unwrap();
    let (rows, copies) = (engine.create_tree().unwrap(), engine.create_tree().unwrap());
    let bank = Bank {
        engine: engine.clone(),
        rows,
        copies,
    };
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for account in 0..ACCOUNTS {
        bank.set(&mut txn, account, START);
    }
    assert!(txn.commit().unwrap().seq.is_some());
    drop(txn);
    let stop = AtomicBool::new(false);
    let deadlocks = AtomicU64::new(0);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|seed| {
                let (bank, deadlocks) = (&bank, &deadlocks);
                scope.spawn(move || {
                    let mut dice = SimRng::new(seed);
                    let mut txn = bank.engine.begin(Isolation::RepeatableRead);
                    let mut done = 0;
                    while done < TRANSFERS {
                        match bank.transfer(&mut txn, &mut dice) {
                            Ok(()) => done += 1,
                            Err(EngineError::Deadlock) => {
                                deadlocks.fetch_add(1, Ordering::Relaxed);
                                txn.rollback();
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                bank.check();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    bank.check();
    assert!(
        engine.stats().storage.space.used_slots > 0,
        "nothing was flushed meanwhile"
    );
    assert_eq!(engine.stats().deadlocks, deadlocks.load(Ordering::Relaxed));
    engine.flush_all().unwrap();
    engine.compact().unwrap();
    bank.check();
    let (rows, copies) = (bank.rows.id(), bank.copies.id());
    drop((bank, engine));
    let engine = Engine::open(machine.env(), config()).unwrap();
    assert_eq!(engine.stats().replayed.writes, 0);
    let rows = engine.tree(rows).unwrap();
    let copies = engine.tree(copies).unwrap();
    Bank {
        engine,
        rows,
        copies,
    }
    .check();
}

#[test]
fn full_disk_is_an_error_and_the_engine_goes_on_when_there_is_room() {
    let machine = SimEnv::new(2);
    let engine = Engine::open(machine.env(), config()).unwrap();
    let tree = engine.create_tree().unwrap();
    machine.fs.set_capacity(machine.fs.used_bytes() + (6 << 20));
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let mut committed = 0u64;
    let error = loop {
        txn.put(&tree, &committed.to_be_bytes(), &[3; 4000])
            .unwrap();
        match txn.commit() {
            Ok(_) => committed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, EngineError::DiskFull(_)), "{error}");
    machine.fs.set_capacity(u64::MAX);
    // It takes a while until background work has noticed.
    let mut tries = 0;
    loop {
        txn.put(&tree, b"after", b"room").unwrap();
        match txn.commit() {
            Ok(commit) => {
                engine.wait_durable(commit.seq.unwrap()).block().unwrap();
                break;
            }
            Err(EngineError::DiskFull(_)) if tries < 10_000 => {
                tries += 1;
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    for i in 0..committed {
        assert_eq!(
            txn.get(&tree, &i.to_be_bytes(), View::Snapshot)
                .unwrap()
                .unwrap(),
            [3; 4000]
        );
    }
    assert_eq!(
        txn.get(&tree, &committed.to_be_bytes(), View::Snapshot)
            .unwrap(),
        None
    );
}
