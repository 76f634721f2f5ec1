//! A log that is damaged or incomplete, as the start and `check` see it: both name the same, and what is not needed any
//! more stops nobody.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_engine::{
    Checked, DamagedPart, Engine, EngineConfig, EngineError, Finding, Isolation, Mode, PreparedId,
    Tree, TreeId,
};
use esker_vfs::OpenMode;
use esker_vfs::sim::{CrashImage, Fault, Op, SimEnv};

const WAL: &str = "/db/wal";
const PAGE: usize = 4096;

fn config(mode: Mode) -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.mode = mode;
    // Tasks of 64 KiB.
    config.memory_limit = 4 << 20;
    config.log_segment_bytes = 1 << 20;
    config.log_buffer_bytes = 1 << 20;
    config.recovery_threads = 4;
    config.on_fatal = Arc::new(|_| ());
    config
}

fn open(machine: &SimEnv) -> Engine {
    Engine::open(machine.env(), config(Mode::Manual)).expect("opens")
}

/// The same disk on another machine.
fn copy(machine: &SimEnv, seed: u64) -> SimEnv {
    SimEnv::with_fs(machine.fs.crash_with(CrashImage::DropUnsynced), seed)
}

/// Commits a row, in a block of its own; gives the sequence.
fn put(engine: &Engine, tree: &Tree, key: u64, bytes: usize) -> u64 {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.put(tree, &key.to_be_bytes(), &vec![7; bytes])
        .expect("puts");
    let seq = txn.commit().expect("commits").seq.expect("it wrote");
    engine.flush_log().expect("the disk works");
    seq
}

fn segments(machine: &SimEnv) -> Vec<PathBuf> {
    let names = machine.env().fs.list(Path::new(WAL)).expect("a log");
    let names = names.into_iter().filter(|name| name.ends_with(".wal"));
    names.map(|name| Path::new(WAL).join(name)).collect()
}

/// The file and the offset of the block whose last record has this sequence.
fn block(machine: &SimEnv, seq: u64) -> (PathBuf, usize) {
    let found = segments(machine).into_iter().find_map(|path| {
        let bytes = machine.fs.contents(&path).expect("it is there");
        let is_block = |at: &usize| {
            bytes[*at..*at + 4] == *b"EWLB" && bytes[*at + 56..*at + 64] == seq.to_le_bytes()
        };
        let at = (PAGE..bytes.len()).step_by(PAGE).find(is_block)?;
        Some((path, at))
    });
    found.expect("the block is in the log")
}

fn overwrite(machine: &SimEnv, (path, at): (PathBuf, usize), bytes: &[u8]) {
    let fs = machine.env().fs;
    let file = fs.open(&path, OpenMode::ReadWrite).expect("opens");
    file.write_all_at(bytes, at as u64).expect("writes");
    file.sync_all().expect("syncs");
}

/// Damages the payload of a block.
fn hurt(machine: &SimEnv, seq: u64) {
    let (path, at) = block(machine, seq);
    overwrite(machine, (path, at + 300), &[0x55; 8]);
}

fn check(machine: &SimEnv) -> (Checked, Vec<Finding>) {
    let mut found = Vec::new();
    let dir = Path::new("/db");
    let checked = esker_engine::check(&machine.env(), dir, &mut |finding| {
        found.push(finding.clone());
    });
    (checked.expect("it can be checked"), found)
}

fn is_needed(finding: &Finding) -> bool {
    matches!(finding.part, DamagedPart::Log { flushed: false, .. })
}

/// Which of several threads meets damage first is chance; what is named is not.
#[test]
fn of_several_damaged_blocks_the_first_is_named() {
    const ROWS: usize = 130;
    /// Blocks of a task.
    const TASK: usize = 16;
    let large = |mode| {
        let mut config = config(mode);
        // Tasks of a megabyte.
        config.memory_limit = 64 << 20;
        config.memtable_bytes = 32 << 20;
        config.log_segment_bytes = 16 << 20;
        config
    };
    let machine = SimEnv::new(1);
    let engine = Engine::open(machine.env(), large(Mode::Manual)).expect("opens");
    let tree = engine.create_tree().expect("a tree");
    let ends: Vec<u64> = (0..ROWS as u64)
        .map(|key| put(&engine, &tree, key, 64 << 10))
        .collect();
    let machine = copy(&machine, 2);
    for round in 0..28 {
        let disk = copy(&machine, 3 + round as u64);
        // Near the end of a task, and everywhere in those behind it, which other threads may have.
        let first = TASK * (1 + round % 4) - 3;
        for block in (first..ROWS - 1).step_by(TASK / 3) {
            hurt(&disk, ends[block]);
        }
        let engine = Engine::open(disk.env(), large(Mode::Daemon)).expect("opens");
        let error = engine.wait_replayed().block();
        let Err(EngineError::Corruption { what, .. }) = error else {
            panic!("round {round}: {error:?}");
        };
        let place = format!("ends at LSN {})", ends[first]);
        assert!(what.contains(&place), "round {round}: {what}");
        let lost = format!("about {} records", ROWS - first);
        assert!(what.contains(&lost), "round {round}: {what}");
    }
}

/// The sample that is taken before the log is read is only an estimate.
#[test]
fn what_cannot_be_read_matters_only_where_it_is_needed() {
    let machine = SimEnv::new(4);
    let engine = open(&machine);
    let tree = engine.create_tree().expect("a tree");
    // Enough for a sample.
    for key in 0..1400 {
        put(&engine, &tree, key, 4000);
    }
    let machine = copy(&machine, 5);
    let (mut refused, mut opened) = (0, 0);
    for read in 0..60 {
        let disk = copy(&machine, 6 + read);
        let fault = Fault::on(Op::Read).path("/db/wal").after(read * 3);
        disk.fs.inject(fault);
        match Engine::open(disk.env(), config(Mode::Manual)) {
            Ok(_) if disk.fs.fault_hits().is_empty() => break,
            Ok(_) => opened += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} {refused}");
}

#[test]
fn a_check_tells_what_the_next_start_has_to_do() {
    let machine = SimEnv::new(7);
    let engine = open(&machine);
    let tree = engine.create_tree().expect("a tree");
    engine.flush_all().expect("flushes");
    let from = engine.stats().log_end;
    for key in 0..20 {
        put(&engine, &tree, key, 100);
    }
    let prepare = |key: u64, bytes: usize| {
        let mut txn = engine.begin(Isolation::ReadCommitted);
        txn.put(&tree, &key.to_be_bytes(), &vec![7; bytes])
            .expect("puts");
        txn.prepare(&PreparedId::xa(&key.to_be_bytes()))
            .expect("prepares");
    };
    // One of them in many parts.
    prepare(1000, 100);
    prepare(1001, 200_000);
    prepare(2000, 200_000);
    let _ = engine
        .commit_prepared(&PreparedId::xa(&2000u64.to_be_bytes()), &[])
        .expect("commits");
    engine.flush_log().expect("the disk works");
    let end = engine.stats().log_end;
    let disk = copy(&machine, 8);
    let (checked, found) = check(&disk);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!((checked.log_end, checked.replay_bytes), (end, end - from));
    assert_eq!(checked.prepared, 2);
    let engine = open(&disk);
    assert_eq!(engine.prepared_count() as u64, checked.prepared);
}

#[test]
fn a_check_finds_that_a_part_of_the_log_is_missing() {
    let machine = SimEnv::new(9);
    let engine = open(&machine);
    let tree = engine.create_tree().expect("a tree");
    let last = put(&engine, &tree, 1, 100);
    engine.flush_all().expect("flushes");
    drop((tree, engine));
    let refuses = |disk: &SimEnv, text: &str| {
        let (_, found) = check(disk);
        assert_eq!(
            found.iter().filter(|f| is_needed(f)).count(),
            1,
            "{found:?}"
        );
        let said = found[0].error.to_string();
        assert!(said.contains(text), "{said}");
        let opened = Engine::open(disk.env(), config(Mode::Manual));
        assert!(opened.is_err(), "{text}");
    };
    assert!(check(&machine).1.is_empty());
    // Its end.
    let disk = copy(&machine, 10);
    let place = block(&disk, last);
    overwrite(&disk, place, &[0; PAGE]);
    refuses(&disk, "was durable");
    // All of it.
    let disk = copy(&machine, 11);
    for path in segments(&disk) {
        disk.env().fs.remove_file(&path).expect("removes");
    }
    refuses(&disk, "there is no log");
}

/// Tree 1 has flushed it; tree 2, which keeps the log, has not.
#[test]
fn damage_to_what_a_tree_has_flushed_is_found_and_stops_nobody() {
    let machine = SimEnv::new(12);
    let mut small = config(Mode::Manual);
    small.memtable_bytes = 64 << 10;
    let engine = Engine::open(machine.env(), small).expect("opens");
    let trees = [(); 2].map(|()| engine.create_tree().expect("a tree"));
    put(&engine, &trees[1], 0, 100);
    let seqs: Vec<u64> = (0..40)
        .map(|key| put(&engine, &trees[0], key, 4000))
        .collect();
    while engine.maintain().expect("maintains") {}
    assert!(engine.stats().storage.work.flushes > 0);
    let ids: [TreeId; 2] = [trees[0].id(), trees[1].id()];
    let disk = copy(&machine, 13);
    hurt(&disk, seqs[2]);
    let (checked, found) = check(&disk);
    assert_eq!((checked.findings, found.len()), (1, 1));
    assert!(!is_needed(&found[0]), "{found:?}");
    let engine = open(&disk);
    assert_eq!(engine.tree_ids(), ids);
    // Not so with what it has not flushed. (The last block might be torn.)
    let disk = copy(&machine, 14);
    hurt(&disk, seqs[38]);
    let (_, found) = check(&disk);
    assert!(is_needed(&found[0]), "{found:?}");
    assert!(Engine::open(disk.env(), config(Mode::Manual)).is_err());
}
