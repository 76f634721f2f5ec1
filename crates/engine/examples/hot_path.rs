//! Times the hot paths of the engine on one thread, everything in memory: point get, put + commit, lock + unlock, a
//! scan of 100 rows. Run it with `cargo run --release -p esker-engine --example hot_path`; an argument
//! selects the lines whose names contain it.

#![expect(clippy::print_stdout, reason = "a report for people")]

use std::hint::black_box;
use std::ops::Bound;
use std::time::Instant;

use esker_engine::{
    Direction, Engine, EngineConfig, Isolation, LockMode, LockOutcome, View, WaitPolicy,
};
use esker_vfs::sim::SimEnv;

const ROWS: u64 = 100_000;
const ROUNDS: u64 = 300_000;

fn timed(name: &str, rounds: u64, mut body: impl FnMut(u64)) {
    if !std::env::args()
        .nth(1)
        .is_none_or(|part| name.contains(&part))
    {
        return;
    }
    for i in 0..rounds / 10 {
        body(i);
    }
    let start = Instant::now();
    for i in 0..rounds {
        body(i);
    }
    let nanos = start.elapsed().as_nanos() as f64 / rounds as f64;
    println!("{name:<44} {nanos:>9.0} ns");
}

fn key(i: u64) -> [u8; 8] {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % ROWS).to_be_bytes()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = SimEnv::new(1);
    let engine = Engine::open(machine.env(), EngineConfig::new("/db"))?;
    let tree = engine.create_tree()?;
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for i in 0..ROWS {
        txn.put(&tree, &i.to_be_bytes(), &[7; 180])?;
        if i % 1000 == 999 {
            let _in_memory_only = txn.commit()?;
        }
    }
    timed("begin + drop of a transaction", ROUNDS, |_| {
        black_box(engine.begin(Isolation::ReadCommitted));
    });
    timed(
        "autocommit point get, one transaction object",
        ROUNDS,
        |i| {
            txn.new_statement();
            let length = txn.get_with(&tree, &key(i), View::Snapshot, <[u8]>::len);
            assert_eq!(length.expect("reads"), Some(180));
        },
    );
    timed("the same inside one snapshot", ROUNDS, |i| {
        let length = txn.get_with(&tree, &key(i), View::Snapshot, <[u8]>::len);
        assert_eq!(length.expect("reads"), Some(180));
    });
    for (name, direction) in [
        ("scan of 100 rows forward", Direction::Forward),
        ("scan of 100 rows backward", Direction::Backward),
    ] {
        timed(name, ROUNDS / 100, |i| {
            txn.new_statement();
            let from = i.wrapping_mul(7919) % (ROWS - 100);
            let (lower, upper) = (from.to_be_bytes(), (from + 99).to_be_bytes());
            let (lower, upper) = (Bound::Included(&lower[..]), Bound::Included(&upper[..]));
            let mut cursor = txn
                .scan(&tree, lower, upper, direction, View::Snapshot)
                .expect("opens");
            let mut rows = 0;
            while let Some((_, value)) = cursor.next().expect("reads") {
                black_box(value);
                rows += 1;
            }
            assert_eq!(rows, 100);
        });
    }
    engine.flush_all()?;
    timed("point get from a cached extent", ROUNDS, |i| {
        txn.new_statement();
        let length = txn.get_with(&tree, &key(i), View::Snapshot, <[u8]>::len);
        assert_eq!(length.expect("reads"), Some(180));
    });
    txn.rollback();
    timed("lock + unlock of a free row", ROUNDS, |i| {
        let outcome = txn.lock(tree.id(), &key(i), LockMode::Exclusive, WaitPolicy::Wait);
        assert!(matches!(outcome, Ok(LockOutcome::Granted { new: true })));
        txn.rollback();
    });
    timed("autocommit lock + get + put + commit", ROUNDS / 3, |i| {
        txn.new_statement();
        let outcome = txn.lock(tree.id(), &key(i), LockMode::Exclusive, WaitPolicy::Wait);
        assert!(matches!(outcome, Ok(LockOutcome::Granted { new: true })));
        let found = txn.get_with(&tree, &key(i), View::Latest, |_| ());
        assert!(matches!(found, Ok(Some(()))));
        txn.put(&tree, &key(i), &[8; 180]).expect("fits");
        assert!(txn.commit().expect("commits").seq.is_some());
    });
    timed("autocommit put + commit", ROUNDS / 3, |i| {
        txn.put(&tree, &key(i), &[9; 180]).expect("fits");
        assert!(txn.commit().expect("commits").seq.is_some());
    });
    Ok(())
}
