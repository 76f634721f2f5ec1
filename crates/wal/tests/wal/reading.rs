//! Reading in tasks: by many threads, in pieces of every size, without copying, and from files that stay.

use std::sync::{Arc, Mutex};

use crate::common::{
    CLUSTER, DIR, Fatals, Owned, append, append_random, commit, config, open_manual, segments,
};
use esker_vfs::sim::{SimEnv, SimRng};
use esker_wal::{
    BlockSummary, FlushMode, LogBytes, LogReader, Lsn, Reading, Record, RecordKind, Replay, Wal,
    WalError,
};

/// A log of several lives with records of every size; what it has.
fn written(sim: &SimEnv, seed: u64) -> Vec<Owned> {
    let mut rng = SimRng::new(seed);
    let mut expected = Vec::new();
    for _ in 0..3 {
        let log = open_manual(sim);
        for _ in 0..120 {
            expected.push(append_random(&log.wal, &mut rng).expect("room"));
            if rng.chance(25) {
                log.wal.flush_now().expect("the disk works");
            }
        }
        log.wal.flush_now().expect("the disk works");
    }
    expected
}

fn open_reading(sim: &SimEnv, from: Lsn, reading: Reading) -> (Wal, LogReader) {
    let mut config = config(FlushMode::Manual, &Fatals::default());
    config.reading = reading;
    assert_eq!((config.cluster, config.dir.to_str()), (CLUSTER, Some(DIR)));
    Wal::create_or_open(&sim.env(), config, from).expect("the log opens")
}

fn small_tasks(task_bytes: u64) -> Reading {
    Reading {
        task_bytes,
        read_bytes: 20_000,
        read_ahead_bytes: 100_000,
    }
}

#[test]
fn many_threads_read_every_record_once_whatever_the_size_of_the_tasks() {
    let sim = SimEnv::new(1);
    let expected = written(&sim, 1);
    let from = expected[20].end;
    for (task_bytes, threads) in [(1, 1), (1, 4), (20_000, 3), (4 << 20, 2)] {
        let (_wal, log) = open_reading(&sim.crash(0), from, small_tasks(task_bytes));
        assert_eq!((log.from(), log.end()), (from, expected[359].end));
        assert_eq!(log.bytes(), log.end().0 - from.0);
        let found = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut records: Vec<Owned> = Vec::new();
                    let mut sink = |record: Record<'_>| {
                        records.push(record.into());
                        Ok::<(), WalError>(())
                    };
                    while let Some(task) = log.next(&mut sink).expect("no damage") {
                        let counts = log.read(&task, &mut sink).expect("no damage");
                        assert!(counts.bytes == task.bytes());
                    }
                    found.lock().expect("no panic").extend(records);
                });
            }
        });
        let mut found = found.into_inner().expect("no panic");
        found.sort_by_key(|record| record.start);
        assert_eq!(found, expected[21..], "{task_bytes} {threads}");
    }
}

#[test]
fn tasks_follow_each_other_and_hold_what_they_say() {
    let sim = SimEnv::new(2);
    let expected = written(&sim, 2);
    let (_wal, log) = open_reading(&sim, Lsn(0), small_tasks(30_000));
    let mut at = Lsn::FIRST;
    let mut tasks = 0;
    let mut no_sink = |_: Record<'_>| Ok::<(), WalError>(());
    while let Some(task) = log.next(&mut no_sink).expect("no damage") {
        assert_eq!(task.first(), at, "no gap, no overlap");
        at = task.end();
        assert_eq!(task.bytes() + task.skipped_bytes(), at.0 - task.first().0);
        let mut ends = Vec::new();
        let mut sink = |record: Record<'_>| {
            ends.push(record.end);
            Ok::<(), WalError>(())
        };
        log.read(&task, &mut sink).expect("no damage");
        let inside = |r: &&Owned| r.start >= task.first() && r.end <= task.end();
        let own: Vec<Lsn> = expected.iter().filter(inside).map(|r| r.end).collect();
        assert_eq!(ends, own);
        tasks += 1;
    }
    assert_eq!(at, log.end());
    assert!(tasks > 20, "{tasks} tasks");
}

#[test]
fn payloads_that_are_kept_stay_what_they_are() {
    let sim = SimEnv::new(3);
    let expected = written(&sim, 3);
    let (_wal, log) = open_reading(&sim, Lsn(0), small_tasks(100_000));
    let mut kept: Vec<(Arc<LogBytes>, std::ops::Range<usize>)> = Vec::new();
    let mut sink = |record: Record<'_>| {
        // Some buffers are kept and others are reused for what comes later.
        if record.start.0.is_multiple_of(3) {
            kept.push((Arc::clone(record.buffer), record.payload_range()));
        }
        Ok::<(), WalError>(())
    };
    log.replay(&mut sink).expect("no damage");
    let same = |(kept, record): (&(Arc<LogBytes>, _), &Owned)| {
        let (buffer, range): &(Arc<LogBytes>, std::ops::Range<usize>) = kept;
        buffer[range.clone()] == record.payload
    };
    let wanted = expected.iter().filter(|r| r.start.0.is_multiple_of(3));
    assert!(kept.len() > 50);
    assert_eq!(kept.len(), wanted.clone().count());
    assert!(kept.iter().zip(wanted).all(same));
}

#[test]
fn segments_are_not_recycled_before_they_are_read() {
    let sim = SimEnv::new(4);
    let expected = written(&sim, 4);
    let (wal, log) = open_reading(&sim, Lsn(0), small_tasks(50_000));
    let mut before = segments(&sim);
    before.pop();
    let mut found: Vec<Owned> = Vec::new();
    let mut sink = |record: Record<'_>| {
        found.push(record.into());
        Ok::<(), WalError>(())
    };
    let mut kept = before.len();
    while let Some(task) = log.next(&mut sink).expect("no damage") {
        // Everything is released and written over, as far as that is possible.
        wal.release_below(wal.end()).expect("the disk works");
        commit(&wal, &[9; 30_000]);
        wal.flush_now().expect("the disk works");
        log.read(&task, &mut sink).expect("nothing is overwritten");
        drop(task);
        let now = segments(&sim);
        let still = before.iter().filter(|path| now.contains(path)).count();
        assert!(still <= kept);
        kept = still;
    }
    assert_eq!(found, expected);
    assert!(kept < 5, "what was read is released meanwhile: {kept}");
    wal.release_below(log.end()).expect("the disk works");
    let after = segments(&sim);
    assert!(before.iter().all(|path| !after.contains(path)), "{after:?}");
}

/// Counts the blocks that are asked for, and wants those of one tree.
struct OnlyTree {
    tree: u32,
    records: u64,
}

impl Replay for OnlyTree {
    type Error = WalError;

    fn wants_block(&mut self, summary: &BlockSummary<'_>) -> bool {
        summary.trees.is_none_or(|trees| trees.contains(&self.tree))
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), WalError> {
        assert!(record.trees.contains(&self.tree));
        self.records += 1;
        Ok(())
    }
}

#[test]
fn damage_in_a_block_that_nobody_wants_is_not_even_read() {
    let sim = SimEnv::new(5);
    let log = open_manual(&sim);
    for i in 0..200_u32 {
        append(&log.wal, RecordKind::Commit, &[i % 20], &[1; 2000]).expect("room");
        log.wal.flush_now().expect("the disk works");
    }
    log.wal.shutdown().expect("a clean end");
    drop(log);
    // Every payload but those of tree 3 is destroyed.
    let fs = sim.env().fs;
    for path in segments(&sim) {
        let bytes = sim.fs.contents(&path).expect("it is there");
        let file = fs
            .open(&path, esker_vfs::OpenMode::ReadWrite)
            .expect("it is there");
        for offset in (4096..bytes.len()).step_by(4096) {
            let tree = u32::from_le_bytes(bytes[offset + 68..offset + 72].try_into().expect("4"));
            if bytes[offset..offset + 4] == *b"EWLB" && tree != 3 {
                file.write_all_at(&[0xee; 1000], offset as u64 + 300)
                    .expect("the disk works");
            }
        }
    }
    let (_wal, log) = open_reading(&sim, Lsn(0), Reading::default());
    let mut sink = OnlyTree {
        tree: 3,
        records: 0,
    };
    let counts = log
        .replay(&mut sink)
        .expect("nothing that is wanted is damaged");
    assert_eq!((sink.records, counts.skipped_blocks), (10, 190));
}

#[test]
fn samples_come_from_everywhere() {
    let sim = SimEnv::new(6);
    let log = open_manual(&sim);
    for _ in 0..2000 {
        commit(&log.wal, &[1; 300]);
        if log.wal.end().0.is_multiple_of(5) {
            log.wal.flush_now().expect("the disk works");
        }
    }
    log.wal.flush_now().expect("the disk works");
    let (first, end) = (Lsn::FIRST.0, log.wal.end().0);
    drop(log);
    let (_wal, log) = open_reading(&sim, Lsn(0), Reading::default());
    let mut in_tenth = [0; 10];
    let mut sink = |record: Record<'_>| {
        in_tenth[((record.start.0 - first) * 10 / (end - first)) as usize] += 1;
        Ok::<(), WalError>(())
    };
    log.sample(100, &mut sink).expect("no damage");
    assert!(in_tenth.iter().all(|n| *n > 20), "{in_tenth:?}");
    let mut all = 0;
    let mut count = |_: Record<'_>| {
        all += 1;
        Ok::<(), WalError>(())
    };
    log.replay(&mut count).expect("no damage");
    assert_eq!(all, 2000, "samples take nothing away");
}

/// Blocks that have nothing but parts of records are all that a bulk load leaves.
#[test]
fn samples_have_chained_records_whole() {
    const RECORD_BYTES: usize = 100_000;
    let sim = SimEnv::new(7);
    let config = || {
        let mut config = config(FlushMode::Manual, &Fatals::default());
        config.segment_bytes = 1 << 20;
        config
    };
    let (wal, log) = Wal::create_or_open(&sim.env(), config(), Lsn(0)).expect("the log opens");
    log.replay(&mut |_: Record<'_>| Ok::<(), WalError>(()))
        .expect("nothing is there");
    for _ in 0..100 {
        commit(&wal, &[1; RECORD_BYTES]);
        wal.flush_now().expect("the disk works");
    }
    let (first, end) = (Lsn::FIRST.0, wal.end().0);
    drop(wal);
    let (_wal, log) = Wal::create_or_open(&sim.env(), config(), Lsn(0)).expect("the log opens");
    let mut in_tenth = [0; 10];
    let mut sink = |record: Record<'_>| {
        assert_eq!(record.payload.len(), RECORD_BYTES);
        in_tenth[((record.start.0 - first) * 10 / (end - first)) as usize] += 1;
        Ok::<(), WalError>(())
    };
    log.sample(50, &mut sink).expect("no damage");
    assert!(in_tenth.iter().all(|n| *n > 0), "{in_tenth:?}");
}
