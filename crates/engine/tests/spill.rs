//! Transactions too large for memory: their writes move to extents, which the commit ingests onto the trees.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_engine::scan::KeySpan;
use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, Mode, PreparedId, RecoveryMode, Tree,
    TreeId, Txn, View,
};
use esker_vfs::sim::{Fault, Op, SimEnv, SimRng};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn config() -> EngineConfig {
    EngineConfig {
        memory_limit: 4 << 20,
        txn_memory_bytes: 8 << 10,
        ..EngineConfig::small("/db")
    }
}

fn scan(txn: &Txn, tree: &Tree, direction: Direction) -> Result<Rows, EngineError> {
    let all = Bound::Unbounded;
    let mut cursor = txn.scan(tree, all, all, direction, View::Snapshot)?;
    let mut rows = Rows::new();
    while let Some((key, value)) = cursor.next()? {
        assert!(rows.insert(key.to_vec(), value.to_vec()).is_none());
    }
    Ok(rows)
}

fn read(engine: &Engine, tree: &Tree) -> Result<Rows, EngineError> {
    let txn = engine.begin(Isolation::RepeatableRead);
    let rows = scan(&txn, tree, Direction::Forward)?;
    assert!(scan(&txn, tree, Direction::Backward)? == rows);
    Ok(rows)
}

/// Counts as parallel scans do: from what extents know of themselves, and by reading the rest.
fn count(txn: &Txn, tree: &Tree) -> u64 {
    let count = txn.parallel_count(tree, vec![KeySpan::all()], 4).unwrap();
    let tasks = (0..count.tasks()).map(|task| count.count(task, &mut || true));
    let read: u64 = tasks.map(|rows| rows.unwrap().unwrap().rows).sum();
    count.counted() + read
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// Writes at random and in order, over what is there and beside it; some writes are rolled back to a savepoint.
fn change(
    txn: &mut Txn,
    tree: &Tree,
    rows: &mut Rows,
    dice: &mut SimRng,
    writes: u64,
) -> Result<(), EngineError> {
    let ascending = dice.chance(40);
    let base = dice.below(2000);
    let undone_at = dice.below(writes * 2);
    let mut at = 0;
    while at < writes {
        let number = match ascending {
            true => base + at,
            false => dice.below(2000),
        };
        let savepoint = (at == undone_at).then(|| (txn.savepoint(), rows.clone()));
        for step in 0..if savepoint.is_some() { 200 } else { 1 } {
            let key = key(number + step);
            if dice.chance(15) {
                txn.delete(tree, &key)?;
                rows.remove(&key);
            } else {
                let value = vec![dice.below(256) as u8; dice.below(150) as usize];
                txn.put(tree, &key, &value)?;
                rows.insert(key, value);
            }
        }
        if let Some((savepoint, before)) = savepoint {
            txn.rollback_to(savepoint);
            *rows = before;
        }
        at += 1;
    }
    Ok(())
}

fn small_change(
    engine: &Engine,
    tree: &Tree,
    rows: &mut Rows,
    dice: &mut SimRng,
) -> Result<(), EngineError> {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let mut after = rows.clone();
    for _ in 0..5 {
        let key = key(dice.below(2500));
        txn.put(tree, &key, b"small")?;
        after.insert(key, b"small".to_vec());
    }
    let _ = txn.commit()?;
    *rows = after;
    Ok(())
}

#[test]
fn a_large_transaction_reads_its_own_writes_commits_and_rolls_back() {
    for seed in 0..30 {
        let machine = SimEnv::new(seed);
        let mut dice = SimRng::new(seed);
        let engine = Engine::open(machine.env(), config()).unwrap();
        let (tree, other) = (engine.create_tree().unwrap(), engine.create_tree().unwrap());
        let mut rows = Rows::new();
        let mut log_end = 0;
        for round in 0..6 {
            small_change(&engine, &tree, &mut rows, &mut dice).unwrap();
            engine.flush_log().unwrap();
            let early = engine.begin(Isolation::RepeatableRead);
            assert!(scan(&early, &tree, Direction::Forward).unwrap() == rows);
            let used = engine.stats().storage.space.used_slots;
            let mut txn = engine.begin(Isolation::RepeatableRead);
            let mut after = rows.clone();
            change(&mut txn, &tree, &mut after, &mut dice, 600).unwrap();
            txn.put(&other, b"round", &[round]).unwrap();
            assert!(txn.has_spilled());
            // Its own writes, from memory and from extents.
            for direction in [Direction::Forward, Direction::Backward] {
                assert!(
                    scan(&txn, &tree, direction).unwrap() == after,
                    "seed {seed}"
                );
            }
            for number in 0..2200 {
                let key = key(number);
                let found = txn.get(&tree, &key, View::Snapshot).unwrap();
                assert_eq!(found.as_ref(), after.get(&key), "seed {seed}, {number}");
            }
            assert_eq!(count(&txn, &tree), after.len() as u64);
            if dice.chance(30) {
                txn.rollback();
                while engine.maintain().unwrap() {}
                assert!(engine.stats().storage.space.used_slots <= used + 2);
            } else {
                log_end = engine.stats().log_end;
                let commit = txn.commit().unwrap();
                let logged = engine.stats().log_end - log_end;
                assert!(logged < 4096, "{logged} bytes were logged");
                engine.wait_durable(commit.seq.unwrap()).block().unwrap();
                rows = after;
            }
            assert!(read(&engine, &tree).unwrap() == rows, "seed {seed}");
            let _ = early;
            small_change(&engine, &tree, &mut rows, &mut dice).unwrap();
            if dice.chance(50) {
                engine.compact().unwrap();
            }
            assert!(read(&engine, &tree).unwrap() == rows, "seed {seed}");
        }
        assert!(log_end > 0);
        let mut damage = Vec::new();
        engine.flush_log().unwrap();
        drop(engine);
        esker_engine::check(
            &machine.env(),
            std::path::Path::new("/db"),
            &mut |finding| {
                damage.push(finding.error.to_string());
            },
        )
        .unwrap();
        assert!(damage.is_empty(), "{damage:?}");
        let engine = Engine::open(machine.env(), config()).unwrap();
        let tree = engine.tree(tree.id()).unwrap();
        assert!(read(&engine, &tree).unwrap() == rows, "seed {seed}");
    }
}

#[test]
fn older_snapshots_do_not_see_what_was_grafted() {
    let machine = SimEnv::new(1);
    let mut dice = SimRng::new(1);
    let engine = Engine::open(machine.env(), config()).unwrap();
    let tree = engine.create_tree().unwrap();
    let mut rows = Rows::new();
    small_change(&engine, &tree, &mut rows, &mut dice).unwrap();
    let early = engine.begin(Isolation::RepeatableRead);
    early.snapshot();
    let mut txn = engine.begin(Isolation::RepeatableRead);
    let mut after = rows.clone();
    change(&mut txn, &tree, &mut after, &mut dice, 600).unwrap();
    let commit = txn.commit().unwrap();
    let late = engine.begin(Isolation::RepeatableRead);
    late.snapshot();
    engine.flush_all().unwrap();
    for _ in 0..3 {
        for direction in [Direction::Forward, Direction::Backward] {
            assert!(scan(&early, &tree, direction).unwrap() == rows);
            assert!(scan(&late, &tree, direction).unwrap() == after);
        }
        for number in 0..2200 {
            let key = key(number);
            let found = early.get(&tree, &key, View::Snapshot).unwrap();
            assert_eq!(found.as_ref(), rows.get(&key));
            let found = late.get(&tree, &key, View::Snapshot).unwrap();
            assert_eq!(found.as_ref(), after.get(&key));
        }
        engine.compact().unwrap();
        engine.sink(&tree).unwrap();
    }
    // Whoever has read it depends on the commit.
    assert_eq!(late.dependency(), commit.seq.unwrap());
}

#[test]
fn a_prepared_transaction_keeps_its_writes_in_memory() {
    let machine = SimEnv::new(2);
    let mut dice = SimRng::new(2);
    let engine = Engine::open(machine.env(), config()).unwrap();
    let tree = engine.create_tree().unwrap();
    let mut rows = Rows::new();
    let mut txn = engine.begin(Isolation::RepeatableRead);
    change(&mut txn, &tree, &mut rows, &mut dice, 300).unwrap();
    let refused = txn.prepare(&PreparedId::xa(b"x")).unwrap_err();
    assert!(matches!(refused, EngineError::TxnTooLarge { .. }));
    assert!(read(&engine, &tree).unwrap().is_empty());
    rows.clear();
    txn.set_may_spill(false);
    change(&mut txn, &tree, &mut rows, &mut dice, 300).unwrap();
    assert!(!txn.has_spilled());
    txn.prepare(&PreparedId::xa(b"x")).unwrap();
    let _ = engine.commit_prepared(&PreparedId::xa(b"x"), &[]).unwrap();
    assert!(read(&engine, &tree).unwrap() == rows);
}

/// One life of a database until the power goes: small and large transactions. The rows that are certain, and those that
/// may be there instead.
fn live(engine: &Engine, id: TreeId, rows: &mut Rows, dice: &mut SimRng) -> Option<Rows> {
    let mut doubtful = None;
    let mut life = || -> Result<(), EngineError> {
        let tree = engine.tree(id).expect("it is there");
        for _ in 0..4 {
            for _ in 0..dice.below(4) {
                let mut after = rows.clone();
                let done = small_change(engine, &tree, &mut after, dice);
                doubtful = Some(after.clone());
                done?;
                engine.flush_log()?;
                *rows = after;
            }
            let mut txn = engine.begin(Isolation::RepeatableRead);
            let mut after = rows.clone();
            change(&mut txn, &tree, &mut after, dice, 250)?;
            assert!(txn.has_spilled());
            if dice.chance(20) {
                continue;
            }
            doubtful = Some(after.clone());
            let commit = txn.commit()?;
            engine
                .wait_durable(commit.seq.expect("it has written"))
                .block()?;
            *rows = after;
            match dice.below(4) {
                0 => while engine.maintain()? {},
                1 => engine.flush_all()?,
                2 => engine.compact()?,
                _ => {}
            }
        }
        Ok(())
    };
    let _ = life();
    doubtful
}

/// The power goes at a random operation, again and again: a large transaction is there or not, and there if it was
/// acknowledged.
#[test]
fn power_loss_leaves_all_or_nothing_of_a_large_transaction() {
    let modes = [RecoveryMode::Parallel, RecoveryMode::SerialSync];
    let mut interrupted = 0;
    for seed in 0..60 {
        let mut machine = SimEnv::new(seed);
        let mut dice = SimRng::new(seed);
        let mut rows = Rows::new();
        let id = {
            let engine = Engine::open(machine.env(), config()).unwrap();
            engine.create_tree().unwrap().id()
        };
        for life in 0..6 {
            let mut config = config();
            config.recovery = modes[life % 2];
            // So that a replay has to flush before it has read all.
            config.memory_limit = if life % 3 == 2 { 1 << 20 } else { 4 << 20 };
            let doubtful = {
                let engine = Engine::open(machine.env(), config).unwrap();
                machine.fs.halt_at(machine.fs.ops() + dice.below(400));
                live(&engine, id, &mut rows, &mut dice)
            };
            interrupted += u32::from(!machine.fs.has_power());
            machine = machine.crash(seed * 10 + life as u64);
            let mut damage = Vec::new();
            esker_engine::check(
                &machine.env(),
                std::path::Path::new("/db"),
                &mut |finding| {
                    damage.push(finding.error.to_string());
                },
            )
            .unwrap();
            assert!(damage.is_empty(), "seed {seed} life {life}: {damage:?}");
            let mut config = self::config();
            config.recovery = modes[(life + 1) % 2];
            let engine = Engine::open(machine.env(), config).unwrap();
            let tree = engine.tree(id).unwrap();
            let found = read(&engine, &tree).unwrap();
            if found != rows {
                assert!(Some(&found) == doubtful.as_ref(), "seed {seed} life {life}");
                rows = found;
            }
        }
    }
    assert!(interrupted > 100, "{interrupted}");
}

/// A commit that merges much can be ended; then nothing of the transaction is there.
#[test]
fn a_commit_that_is_not_wanted_any_more_rolls_back() {
    let machine = SimEnv::new(3);
    let mut dice = SimRng::new(3);
    let engine = Engine::open(machine.env(), config()).unwrap();
    let tree = engine.create_tree().unwrap();
    let mut rows = Rows::new();
    small_change(&engine, &tree, &mut rows, &mut dice).unwrap();
    engine.flush_all().unwrap();
    let used = engine.stats().storage.space.used_slots;
    let looks = Arc::new(AtomicU64::new(0));
    let mut txn = engine.begin(Isolation::RepeatableRead);
    for wanted_for in 0..4 {
        let (before, looked) = (looks.load(Ordering::Relaxed), Arc::clone(&looks));
        txn.set_go_on(move || looked.fetch_add(1, Ordering::Relaxed) < before + wanted_for);
        let mut after = rows.clone();
        for number in 0..6000_u64 {
            let key = key(number.wrapping_mul(7919) % 6000);
            txn.put(&tree, &key, b"value").unwrap();
            after.insert(key, b"value".to_vec());
        }
        let ended = txn.commit().map(drop);
        assert!(matches!(ended, Err(EngineError::Cancelled(_))), "{ended:?}");
        assert_eq!(looks.load(Ordering::Relaxed), before + wanted_for + 1);
        assert!(read(&engine, &tree).unwrap() == rows);
        assert_eq!(engine.stats().storage.space.used_slots, used);
    }
    txn.set_go_on(|| true);
    let mut after = rows.clone();
    change(&mut txn, &tree, &mut after, &mut dice, 600).unwrap();
    let _ = txn.commit().unwrap();
    assert!(read(&engine, &tree).unwrap() == after);
}

/// A device that is full, or fails, ends the transaction and nothing else, wherever it happens.
#[test]
fn a_full_disk_ends_the_transaction() {
    let mut refused = 0;
    for after in 0..40 {
        let machine = SimEnv::new(after);
        let mut dice = SimRng::new(after);
        let engine = Engine::open(machine.env(), config()).unwrap();
        let tree = engine.create_tree().unwrap();
        let mut rows = Rows::new();
        small_change(&engine, &tree, &mut rows, &mut dice).unwrap();
        engine.flush_log().unwrap();
        let mut txn = engine.begin(Isolation::RepeatableRead);
        let mut changed = rows.clone();
        let place = ["extents", "manifest"][(after % 4 / 3) as usize];
        let full = Fault::on(Op::Allocate).after(after).forever();
        machine.fs.inject(full.no_space().path(place));
        let done = change(&mut txn, &tree, &mut changed, &mut dice, 600)
            .and_then(|()| txn.commit().map(drop));
        txn.rollback();
        machine.fs.clear_faults();
        match done {
            Ok(()) => rows = changed,
            Err(error) => {
                assert!(matches!(error, EngineError::DiskFull(_)), "{error}");
                refused += 1;
            }
        }
        assert!(read(&engine, &tree).unwrap() == rows, "after {after}");
        small_change(&engine, &tree, &mut rows, &mut dice).unwrap();
        engine.flush_all().unwrap();
        drop((txn, engine));
        let engine = Engine::open(machine.env(), config()).unwrap();
        let tree = engine.tree(tree.id()).unwrap();
        assert!(read(&engine, &tree).unwrap() == rows, "after {after}");
    }
    assert!(refused > 5, "{refused}");
}

/// With threads of the engine's own, among them the one that spills beside the transaction.
fn with_threads() -> EngineConfig {
    EngineConfig {
        mode: Mode::Daemon,
        ..config()
    }
}

/// A large transaction, which also writes to a tree that it does not read: what is there after it.
fn change_two(
    txn: &mut Txn,
    [tree, unread]: [&Tree; 2],
    [rows, others]: [&mut Rows; 2],
    dice: &mut SimRng,
) -> Result<(), EngineError> {
    for _ in 0..6 {
        change(txn, tree, rows, dice, 200)?;
        for _ in 0..1500 {
            let key = key(dice.below(20_000));
            let value = vec![dice.below(256) as u8; dice.below(40) as usize];
            txn.put(unread, &key, &value)?;
            others.insert(key, value);
        }
    }
    Ok(())
}

#[test]
fn what_spills_beside_a_transaction_is_read_and_committed() {
    let machine = SimEnv::new(7);
    let engine = Engine::open(machine.env(), with_threads()).unwrap();
    // Several of them want the thread at once.
    let life = |seed: u64| {
        let mut dice = SimRng::new(seed);
        let trees = [engine.create_tree().unwrap(), engine.create_tree().unwrap()];
        let [tree, unread] = &trees;
        let (mut rows, mut others) = (Rows::new(), Rows::new());
        for round in 0..8 {
            let mut txn = engine.begin(Isolation::RepeatableRead);
            let (mut after, mut others_after) = (rows.clone(), others.clone());
            let both = [&mut after, &mut others_after];
            change_two(&mut txn, [tree, unread], both, &mut dice).unwrap();
            assert!(txn.has_spilled());
            for direction in [Direction::Forward, Direction::Backward] {
                assert!(scan(&txn, tree, direction).unwrap() == after, "{seed}");
            }
            for number in 0..2200 {
                let key = key(number);
                let found = txn.get(tree, &key, View::Snapshot).unwrap();
                assert_eq!(found.as_ref(), after.get(&key), "{seed}, {number}");
            }
            assert_eq!(count(&txn, tree), after.len() as u64);
            if round % 3 == 2 {
                txn.rollback();
            } else {
                let _ = txn.commit().unwrap();
                (rows, others) = (after, others_after);
            }
            assert!(read(&engine, tree).unwrap() == rows, "{seed}");
            assert!(read(&engine, unread).unwrap() == others, "{seed}");
        }
        (trees.map(|tree| tree.id()), [rows, others])
    };
    let lives: Vec<_> = std::thread::scope(|scope| {
        let life = &life;
        let running: Vec<_> = (0..3).map(|seed| scope.spawn(move || life(seed))).collect();
        running
            .into_iter()
            .map(|life| life.join().unwrap())
            .collect()
    });
    engine.shutdown().unwrap();
    drop(engine);
    let engine = Engine::open(machine.env(), config()).unwrap();
    for (ids, rows) in lives {
        for (id, rows) in ids.into_iter().zip(rows) {
            assert!(read(&engine, &engine.tree(id).unwrap()).unwrap() == rows);
        }
    }
}

/// The power goes, or the disk is full, while the thread writes: the transaction learns of it, and is there or not.
#[test]
fn a_spill_beside_the_transaction_that_fails_ends_it() {
    let (mut refused, mut halted) = (0, 0);
    for seed in 0..24 {
        let machine = SimEnv::new(seed);
        let mut dice = SimRng::new(seed);
        let is_full = seed % 2 == 0;
        let (mut certain, mut doubtful) = ([Rows::new(), Rows::new()], None);
        let ids = {
            let engine = Engine::open(machine.env(), with_threads()).unwrap();
            let trees = [engine.create_tree().unwrap(), engine.create_tree().unwrap()];
            if is_full {
                let full = Fault::on(Op::Allocate).after(dice.below(40)).forever();
                machine.fs.inject(full.no_space().path("extents"));
            } else {
                machine.fs.halt_at(machine.fs.ops() + 1 + dice.below(150));
            }
            let mut txn = engine.begin(Isolation::RepeatableRead);
            let mut large = |dice: &mut SimRng| {
                let [mut rows, mut others] = [Rows::new(), Rows::new()];
                let [tree, unread] = &trees;
                change_two(&mut txn, [tree, unread], [&mut rows, &mut others], dice)
                    .and_then(|()| txn.commit())
                    .and_then(|commit| engine.wait_durable(commit.seq.expect("it writes")).block())
                    .inspect_err(|_| txn.rollback())
                    .map_err(|error| (error, [rows.clone(), others.clone()]))
                    .map(|()| [rows, others])
            };
            match large(&mut dice) {
                Ok(rows) => certain = rows,
                Err((EngineError::DiskFull(_), _)) if is_full => {
                    refused += 1;
                    machine.fs.clear_faults();
                    // The next one meets nothing of it.
                    certain = large(&mut dice).unwrap();
                }
                Err((error, rows)) => {
                    assert!(!is_full, "{error}");
                    halted += 1;
                    doubtful = Some(rows);
                }
            }
            trees.map(|tree| tree.id())
        };
        let machine = machine.crash(seed);
        let engine = Engine::open(machine.env(), config()).unwrap();
        let found = ids.map(|id| read(&engine, &engine.tree(id).unwrap()).unwrap());
        assert!(found == certain || Some(found) == doubtful, "seed {seed}");
    }
    assert!(refused > 3 && halted > 3, "{refused} {halted}");
}

/// What does not fit on the disk is rolled back to a savepoint: the rest of the transaction needs no room, and commits.
#[test]
fn what_is_rolled_back_fills_the_disk_no_more() {
    for seed in 0..8 {
        let machine = SimEnv::new(seed);
        let mut dice = SimRng::new(seed);
        let is_threaded = seed % 2 == 0;
        let config = if is_threaded {
            with_threads()
        } else {
            config()
        };
        let engine = Engine::open(machine.env(), config).unwrap();
        let tree = engine.create_tree().unwrap();
        let mut rows = Rows::new();
        small_change(&engine, &tree, &mut rows, &mut dice).unwrap();
        engine.flush_log().unwrap();
        let mut txn = engine.begin(Isolation::RepeatableRead);
        let savepoint = txn.savepoint();
        let full = Fault::on(Op::Allocate).forever();
        machine.fs.inject(full.no_space().path("extents"));
        let filled = (0..100_000).try_for_each(|nth| txn.put(&tree, &key(1_000 + nth), &[7; 100]));
        let error = filled.expect_err("the disk is full");
        assert!(matches!(error, EngineError::DiskFull(_)), "{error}");
        txn.rollback_to(savepoint);
        txn.put(&tree, &key(2), b"kept").unwrap();
        rows.insert(key(2), b"kept".to_vec());
        let _ = txn.commit().unwrap();
        machine.fs.clear_faults();
        assert!(read(&engine, &tree).unwrap() == rows, "seed {seed}");
    }
}
