//! A disk that becomes full at any change: nothing acknowledged is lost, the database opens on the full disk, what
//! makes room works there, and everything works again when there is room.
//!
//! `ESKER_SIM_SEEDS` traces from `ESKER_SIM_FIRST_SEED` on, the disk full at each `ESKER_SIM_STRIDE`th change of each.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use esker_engine::{
    Direction, Engine, EngineConfig, EngineError, Isolation, Mode, Tree, TreeId, View,
};
use esker_vfs::sim::{CrashImage, SimEnv, SimRng};

const STEPS: u64 = 60;
const KEYS: u64 = 40;

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn config() -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    config.memory_limit = 1 << 20;
    config.memtable_bytes = 16 << 10;
    // Long enough for some of it to be held back, and to be halved at each opening on the full disk.
    config.log_segment_bytes = 8 << 20;
    config.log_buffer_bytes = 64 << 10;
    config.log_limit_bytes = 16 << 20;
    config.on_fatal = Arc::new(|message| panic!("{message}"));
    config
}

type Rows = BTreeMap<u64, Vec<u8>>;

/// Writes, and whether the disk had room.
fn write(engine: &Engine, tree: &Tree, key: u64, value: Option<&[u8]>) -> bool {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let key = key.to_be_bytes();
    let written = match value {
        Some(value) => txn.put(tree, &key, value),
        None => txn.delete(tree, &key),
    };
    let told = written
        .and_then(|()| txn.commit())
        .and_then(|_| engine.flush_log());
    had_room(told)
}

fn had_room<T>(result: Result<T, EngineError>) -> bool {
    match result {
        Ok(_) => true,
        Err(EngineError::DiskFull(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

fn assert_rows(engine: &Engine, tree: TreeId, rows: &Rows, context: &str) {
    let tree = engine.tree(tree).expect("it was made");
    let txn = engine.begin(Isolation::ReadCommitted);
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    let cursor = txn.scan(&tree, from, to, Direction::Forward, View::Snapshot);
    let mut cursor = cursor.expect("readable");
    let mut found = Rows::new();
    while let Some((key, value)) = cursor.next().expect("readable") {
        let key = u64::from_be_bytes(key.try_into().expect("a key"));
        found.insert(key, value.to_vec());
    }
    assert!(
        found == *rows,
        "{context}: {:?} {:?}",
        found.keys(),
        rows.keys()
    );
}

/// The same steps for the same seed, on a disk that is full from the `full_at`th change on. The acknowledged rows, and
/// the number of changes when the database was made and at the end.
fn trace(seed: u64, full_at: u64, sim: &SimEnv) -> (TreeId, TreeId, Rows, u64) {
    let mut dice = SimRng::new(seed);
    let engine = Engine::open(sim.env(), config()).expect("there is room at first");
    let tree = engine.create_tree().expect("room");
    let other = engine.create_tree().expect("room");
    for key in 0..KEYS {
        assert!(write(&engine, &other, key, Some(&[7; 500])));
    }
    let begun = sim.fs.ops();
    sim.fs.fill_at(begun + full_at);
    let mut rows = Rows::new();
    for _ in 0..STEPS {
        let key = dice.below(KEYS);
        match dice.below(10) {
            0..7 => {
                let value = vec![dice.below(256) as u8; dice.below(6000) as usize];
                if write(&engine, &tree, key, Some(&value)) {
                    rows.insert(key, value);
                }
            }
            7 => {
                if write(&engine, &tree, key, None) {
                    rows.remove(&key);
                }
            }
            8 => drop(had_room(engine.maintain())),
            _ => drop(had_room(engine.flush_all())),
        }
    }
    assert_rows(&engine, tree.id(), &rows, "alive");
    (tree.id(), other.id(), rows, sim.fs.ops() - begun)
}

/// What has to work on a full disk, and after it.
fn check(seed: u64, full_at: u64) {
    let context = format!("seed {seed}, full at change {full_at}");
    let mut sim = SimEnv::new(seed);
    let (tree, other, mut rows, _) = trace(seed, full_at, &sim);
    for life in 0..3 {
        sim = match (seed + life) % 2 {
            0 => SimEnv::with_fs(sim.fs.crash_with(CrashImage::DropUnsynced), seed),
            _ => sim.crash(seed * 31 + life),
        };
        sim.fs.set_capacity(sim.fs.used_bytes());
        let engine = Engine::open(sim.env(), config())
            .unwrap_or_else(|e| panic!("{context}, life {life}: {e}"));
        assert_rows(&engine, tree, &rows, &context);
        // Deletes are told as done, one row at a time.
        let handle = engine.tree(tree).expect("it was made");
        for _ in 0..2 {
            if let Some((&key, _)) = rows.iter().next() {
                assert!(write(&engine, &handle, key, None), "{context}, life {life}");
                rows.remove(&key);
            }
        }
    }
    let engine = {
        sim = sim.crash(seed);
        sim.fs.set_capacity(sim.fs.used_bytes());
        Engine::open(sim.env(), config()).expect("opens")
    };
    engine
        .drop_tree(other)
        .unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_rows(&engine, tree, &rows, &context);
    drop(engine);
    sim.fs.set_capacity(u64::MAX);
    let engine = Engine::open(sim.env(), config()).expect("opens");
    assert!(engine.tree(other).is_none(), "{context}");
    assert_rows(&engine, tree, &rows, &context);
    let handle = engine.tree(tree).expect("it was made");
    assert!(
        write(&engine, &handle, KEYS, Some(b"room again")),
        "{context}"
    );
    engine.flush_all().expect("there is room");
}

#[test]
fn a_full_disk_takes_nothing_back_and_can_be_cleared() {
    let first = setting("ESKER_SIM_FIRST_SEED", 1);
    let seeds = setting("ESKER_SIM_SEEDS", 4);
    let stride = setting("ESKER_SIM_STRIDE", 9);
    let mut tried = 0;
    for seed in first..first + seeds {
        let (.., changes) = trace(seed, u64::MAX / 2, &SimEnv::new(seed));
        for full_at in (0..changes).step_by(stride as usize) {
            check(seed, full_at);
            tried += 1;
        }
    }
    assert!(tried > seeds * 5, "{tried}");
}
