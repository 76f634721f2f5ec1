//! What is written is read back: kinds, sizes, segments, starting points, recycling, skipping.

use crate::common::{
    DIR, Owned, append, append_random, assert_contiguous, commit, config, open, open_and_replay,
    open_from, open_manual, segments,
};
use esker_vfs::sim::{SimEnv, SimRng};
use esker_wal::{
    BlockSummary, FlushMode, Lsn, MIN_SEGMENT_BYTES, Record, RecordKind, Replay, WalConfig,
    WalError,
};

#[test]
fn an_empty_log_starts_at_the_first_place() {
    let sim = SimEnv::new(1);
    let log = open_manual(&sim);
    assert!(log.records.is_empty());
    assert_eq!((log.recovered.end, log.wal.end()), (Lsn::FIRST, Lsn::FIRST));
    assert_eq!(log.wal.durable(), Lsn::FIRST);
    drop(log);
    // Again and again without a record in it.
    for _ in 0..5 {
        assert_eq!(open_manual(&sim).recovered.end, Lsn::FIRST);
        assert_eq!(segments(&sim).len(), 1);
    }
}

#[test]
pub fn random_records_are_read_back_through_many_segments_and_restarts() {
    for (seed, mode) in [
        (1, FlushMode::Manual),
        (2, FlushMode::Daemon),
        (3, FlushMode::Manual),
    ] {
        let sim = SimEnv::new(seed);
        let mut rng = SimRng::new(seed);
        let mut expected: Vec<Owned> = Vec::new();
        for _ in 0..4 {
            let log = open(&sim, mode);
            assert_eq!(log.records, expected, "seed {seed}");
            assert_eq!(
                log.recovered.end,
                expected.last().map_or(Lsn::FIRST, |r| r.end)
            );
            for _ in 0..150 {
                expected.push(append_random(&log.wal, &mut rng).unwrap());
                if rng.chance(10) {
                    log.wal.flush_now().unwrap();
                    assert_eq!(log.wal.durable(), log.wal.end());
                }
            }
            assert_contiguous(&expected);
            log.wal.shutdown().unwrap();
            assert_eq!(log.fatals.count(), 0);
        }
        assert_eq!(open(&sim, mode).records, expected);
        assert!(
            segments(&sim).len() > 8,
            "the test should see many segments"
        );
    }
}

#[test]
pub fn chained_records_are_whole_whatever_their_size() {
    let sim = SimEnv::new(3);
    let log = open_manual(&sim);
    let mut expected = Vec::new();
    // Around the part size of this configuration (8 KiB), and far beyond the buffer (64 KiB).
    let sizes = (8150..8200)
        .chain((16_300..16_400).step_by(7))
        .chain([0, 1, 65_536, 1_000_000]);
    for size in sizes {
        let payload: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8).collect();
        let trees = [size as u32, 5, 5];
        expected.push(append(&log.wal, RecordKind::Commit, &trees, &payload).unwrap());
    }
    log.wal.flush_now().unwrap();
    assert_eq!(open_manual(&sim).records, expected);
}

#[test]
fn a_record_may_list_many_trees_but_not_too_many() {
    let sim = SimEnv::new(3);
    let log = open_manual(&sim);
    let many: Vec<u32> = (0..1000).collect();
    let expected = [
        append(&log.wal, RecordKind::Commit, &many, b"small").unwrap(),
        append(&log.wal, RecordKind::Commit, &many, &[1; 20_000]).unwrap(),
        append(&log.wal, RecordKind::Commit, &[u32::MAX], b"last").unwrap(),
    ];
    let too_many = vec![1; 70_000];
    let refused = append(&log.wal, RecordKind::Commit, &too_many, b"");
    assert!(matches!(refused, Err(WalError::RecordTooLarge { .. })));
    assert_eq!(
        log.wal.end(),
        expected[2].end,
        "a refused record takes no place"
    );
    log.wal.flush_now().unwrap();
    assert_eq!(open_manual(&sim).records, expected);
}

#[test]
fn only_records_that_end_above_the_starting_point_are_replayed() {
    let sim = SimEnv::new(4);
    let log = open_manual(&sim);
    let mut rng = SimRng::new(4);
    let mut all: Vec<Owned> = Vec::new();
    for _ in 0..200 {
        all.push(append_random(&log.wal, &mut rng).unwrap());
        if rng.chance(30) {
            log.wal.flush_now().unwrap();
        }
    }
    log.wal.flush_now().unwrap();
    drop(log);
    for skip in [0_usize, 1, 57, 120, 199, 200] {
        let from = skip.checked_sub(1).map_or(Lsn(0), |last| all[last].end);
        // Opening releases what is below, so each starting point gets its own copy of the disk.
        let copy = sim.crash(0);
        let log = open_from(&copy, FlushMode::Manual, from).unwrap();
        assert_eq!(log.records, all[skip..], "from {from}");
        assert_eq!(log.recovered.end, all[199].end);
    }
}

#[test]
pub fn released_segments_are_recycled_and_stale_blocks_never_come_back() {
    let sim = SimEnv::new(5);
    let log = open_manual(&sim);
    let mut rng = SimRng::new(5);
    let mut kept: Vec<Owned> = Vec::new();
    for round in 0..60 {
        for _ in 0..20 {
            kept.push(append_random(&log.wal, &mut rng).unwrap());
        }
        log.wal.flush_now().unwrap();
        if round % 3 == 2 {
            let from = kept[kept.len() - 10].end;
            log.wal.release_below(from).unwrap();
            kept.retain(|r| r.end > from);
        }
        assert!(segments(&sim).len() < 25, "old segments go away");
        let reread = open_from(&sim.crash(round), FlushMode::Manual, kept[0].start).unwrap();
        assert_eq!(reread.records, kept, "round {round}");
        // The same on a disk that stops in the middle of the next block.
        let again = open_from(&sim.crash(round), FlushMode::Manual, kept[0].start).unwrap();
        commit(&again.wal, b"another life");
        assert_eq!(again.records, kept);
    }
    let used = sim.fs.used_bytes();
    assert!(used < 40 * MIN_SEGMENT_BYTES, "{used} bytes in use");
}

#[test]
fn a_log_whose_beginning_is_missing_is_refused() {
    let sim = SimEnv::new(6);
    let log = open_manual(&sim);
    for _ in 0..20 {
        commit(&log.wal, &[1; 7000]);
    }
    log.wal.flush_now().unwrap();
    drop(log);
    let all = segments(&sim);
    sim.fs.contents(&all[1]).unwrap();
    sim.env().fs.remove_file(&all[0]).unwrap();
    let error = open_from(&sim, FlushMode::Manual, Lsn(0)).err().unwrap();
    assert!(
        matches!(
            error,
            WalError::Missing {
                begins: Some(_),
                ..
            }
        ),
        "{error}"
    );
    for path in &all[1..] {
        sim.env().fs.remove_file(path).unwrap();
    }
    let error = open_from(&sim, FlushMode::Manual, Lsn(1000)).err().unwrap();
    assert!(
        matches!(error, WalError::Missing { begins: None, .. }),
        "{error}"
    );
    let config = WalConfig {
        create: false,
        ..config(FlushMode::Manual, &Default::default())
    };
    let mut nothing = |_: Record<'_>| Ok::<(), WalError>(());
    let error = open_and_replay(&sim.env(), config, Lsn(0), &mut nothing)
        .err()
        .unwrap();
    assert!(
        matches!(error, WalError::Missing { begins: None, .. }),
        "{error}"
    );
}

#[test]
fn a_log_of_another_cluster_and_bad_settings_are_refused() {
    let sim = SimEnv::new(7);
    drop(open_manual(&sim));
    let mut nothing = |_: Record<'_>| Ok::<(), WalError>(());
    let mut refused = |change: fn(&mut WalConfig)| {
        let mut config = config(FlushMode::Manual, &Default::default());
        change(&mut config);
        open_and_replay(&sim.env(), config, Lsn(0), &mut nothing)
            .err()
            .unwrap()
    };
    let error = refused(|config| config.cluster = [8; 16]);
    assert!(matches!(error, WalError::WrongCluster { .. }), "{error}");
    for change in [
        |config: &mut WalConfig| config.segment_bytes = 4096,
        |config: &mut WalConfig| config.segment_bytes = MIN_SEGMENT_BYTES + 1,
        |config: &mut WalConfig| config.buffer_bytes = 100_000,
        |config: &mut WalConfig| config.buffer_bytes = 1024,
    ] {
        let error = refused(change);
        assert!(matches!(error, WalError::Config(_)), "{error}");
    }
}

#[test]
fn the_segment_size_may_change_between_lives() {
    let sim = SimEnv::new(8);
    let mut expected = Vec::new();
    for factor in [1, 3, 1, 2] {
        let mut config = config(FlushMode::Manual, &Default::default());
        config.segment_bytes = factor * MIN_SEGMENT_BYTES;
        let mut records: Vec<Owned> = Vec::new();
        let mut replay = |record: Record<'_>| {
            records.push(record.into());
            Ok::<(), WalError>(())
        };
        let (wal, _) = open_and_replay(&sim.env(), config, Lsn(0), &mut replay).unwrap();
        assert_eq!(records, expected);
        for _ in 0..30 {
            expected.push(commit(&wal, &[factor as u8; 5000]));
        }
        wal.flush_now().unwrap();
        wal.release_below(Lsn(0)).unwrap();
    }
}

/// Wants only blocks that touch one tree.
struct OnlyTree {
    tree: u32,
    seen: Vec<Owned>,
    blocks_asked: u64,
}

impl Replay for OnlyTree {
    type Error = WalError;

    fn wants_block(&mut self, summary: &BlockSummary<'_>) -> bool {
        self.blocks_asked += 1;
        assert!(summary.first < summary.end && summary.records > 0);
        assert!(summary.seqs.0 <= summary.seqs.1 && summary.seqs.1 == summary.end.0);
        summary.two_phase || summary.trees.is_none_or(|trees| trees.contains(&self.tree))
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), WalError> {
        self.seen.push(record.into());
        Ok(())
    }
}

#[test]
fn blocks_that_nobody_wants_are_skipped_and_no_other() {
    let sim = SimEnv::new(9);
    let log = open_manual(&sim);
    let mut wanted = Vec::new();
    for i in 0..100_u32 {
        let tree = i % 10;
        let record = append(&log.wal, RecordKind::Commit, &[tree, 77], b"payload").unwrap();
        if tree == 3 {
            wanted.push(record);
        }
        log.wal.flush_now().unwrap();
    }
    let two_phase = append(&log.wal, RecordKind::Prepare, &[4], b"xid").unwrap();
    log.wal.flush_now().unwrap();
    let chained = append(&log.wal, RecordKind::Commit, &[4], &[1; 50_000]).unwrap();
    log.wal.flush_now().unwrap();
    let trees: Vec<u32> = (100..200).collect();
    let many = append(&log.wal, RecordKind::Commit, &trees, b"payload").unwrap();
    wanted.extend([two_phase, chained, many]);
    log.wal.shutdown().unwrap();
    let mut replay = OnlyTree {
        tree: 3,
        seen: Vec::new(),
        blocks_asked: 0,
    };
    let config = config(FlushMode::Manual, &Default::default());
    let (_wal, recovered) = open_and_replay(&sim.env(), config, Lsn(0), &mut replay).unwrap();
    assert_eq!(replay.seen, wanted);
    assert_eq!(replay.blocks_asked, 102, "all but the blocks with chunks");
    assert_eq!(recovered.skipped_blocks, 90);
}

#[test]
fn an_error_of_the_reader_ends_the_opening_and_harms_nothing() {
    let sim = SimEnv::new(10);
    let log = open_manual(&sim);
    let expected = [commit(&log.wal, b"a"), commit(&log.wal, b"b")];
    log.wal.flush_now().unwrap();
    drop(log);
    let mut fails = |record: Record<'_>| {
        if record.payload == b"b" {
            Err(WalError::Closed)
        } else {
            Ok(())
        }
    };
    let config = config(FlushMode::Manual, &Default::default());
    let opened = open_and_replay(&sim.env(), config, Lsn(0), &mut fails);
    assert!(matches!(opened.err(), Some(WalError::Closed)));
    assert_eq!(open_manual(&sim).records, expected);
}

#[test]
fn statistics_count_what_happens() {
    let sim = SimEnv::new(11);
    let log = open_manual(&sim);
    for _ in 0..10 {
        commit(&log.wal, &[0; 100]);
    }
    log.wal.flush_now().unwrap();
    commit(&log.wal, &[0; 100]);
    log.wal.flush_now().unwrap();
    let stats = log.wal.stats();
    assert_eq!((stats.flushes, stats.records), (2, 11));
    assert_eq!(stats.bytes, log.wal.end().0 - Lsn::FIRST.0);
    assert_eq!(stats.disk_bytes, 2 * 4096);
    assert_eq!(stats.group_records.count(), 2);
    assert_eq!(
        (
            stats.group_records.percentile(50),
            stats.group_records.percentile(99)
        ),
        (1, 11)
    );
}

#[test]
fn the_log_works_on_real_files() {
    let dir = tempfile::tempdir().unwrap();
    let env = esker_vfs::Env::os();
    let mut expected: Vec<Owned> = Vec::new();
    let mut rng = SimRng::new(12);
    for _ in 0..3 {
        let mut config = config(FlushMode::Daemon, &Default::default());
        config.dir = dir.path().join(DIR.trim_start_matches('/'));
        let mut records: Vec<Owned> = Vec::new();
        let mut replay = |record: Record<'_>| {
            records.push(record.into());
            Ok::<(), WalError>(())
        };
        let from = expected.first().map_or(Lsn(0), |r| r.start);
        let (wal, _) = open_and_replay(&env, config, from, &mut replay).unwrap();
        assert_eq!(records, expected);
        for _ in 0..100 {
            expected.push(append_random(&wal, &mut rng).unwrap());
        }
        let middle = expected[expected.len() / 2].end;
        wal.wait_durable(middle).block().unwrap();
        assert!(wal.durable() >= middle);
        wal.release_below(middle).unwrap();
        expected.retain(|r| r.end > middle);
        wal.flush_now().unwrap();
    }
}
