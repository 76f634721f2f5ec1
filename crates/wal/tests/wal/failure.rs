//! The disk says no: failed syncs and writes end the log, a full disk does not.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{Fatals, Opened, append, commit, open, open_manual};
use esker_vfs::sim::{CrashImage, Fault, Op, SimEnv, SimRng};
use esker_wal::{Draft, FlushMode, Lsn, MIN_SEGMENT_BYTES, RecordKind, WalError};

/// A log with one durable record, whose next sync fails.
fn about_to_fail(mode: FlushMode, op: Op) -> (SimEnv, Opened) {
    let sim = SimEnv::new(1);
    let log = open(&sim, mode);
    commit(&log.wal, b"safe");
    log.wal.flush_now().unwrap();
    sim.fs.inject(Fault::on(op).path(".wal"));
    (sim, log)
}

/// On the simulated disk, as on real ones, syncing again after a failure succeeds and saves
/// nothing. A log that retries would say "durable" here and lose the record.
#[test]
fn a_failed_sync_is_never_retried() {
    for mode in [FlushMode::Manual, FlushMode::Daemon] {
        let (sim, log) = about_to_fail(mode, Op::Sync);
        let record = commit(&log.wal, b"lost");
        let early = log.wal.wait_durable(record.end);
        let result = log.wal.wait_durable(record.end).block();
        if result.is_ok() {
            let after = SimEnv::with_fs(sim.fs.crash_with(CrashImage::KeepUnsynced), 2);
            assert!(
                open_manual(&after).records.contains(&record),
                "acknowledged and lost"
            );
        }
        assert!(
            matches!(result, Err(WalError::Io { action: "sync", .. })),
            "{result:?}"
        );
        assert!(early.block().is_err());
        assert!(log.wal.durable() < record.end);
        assert_eq!(log.fatals.count(), 1);

        let ops = sim.fs.ops();
        for _ in 0..3 {
            assert!(
                log.wal
                    .append(&Draft::new(RecordKind::Commit, &[], &[b"late"]))
                    .is_err()
            );
            assert!(log.wal.flush_now().is_err());
            assert!(log.wal.wait_durable(record.end).block().is_err());
            assert!(log.wal.shutdown().is_err());
        }
        assert_eq!(sim.fs.ops(), ops, "a dead log leaves the disk alone");
        assert_eq!(log.fatals.count(), 1, "one failure is reported once");
        let after = SimEnv::with_fs(sim.fs.crash_with(CrashImage::KeepUnsynced), 2);
        assert_eq!(
            open_manual(&after).records.len(),
            1,
            "the failed record is gone for good"
        );
    }
}

#[test]
pub fn a_failed_write_ends_the_log() {
    for mode in [FlushMode::Manual, FlushMode::Daemon] {
        let (sim, log) = about_to_fail(mode, Op::Write);
        let record = commit(&log.wal, b"lost");
        let result = log.wal.wait_durable(record.end).block();
        assert!(
            matches!(
                result,
                Err(WalError::Io {
                    action: "write",
                    ..
                })
            ),
            "{result:?}"
        );
        assert!(
            log.wal
                .append(&Draft::new(RecordKind::Commit, &[], &[b"late"]))
                .is_err()
        );
        assert!(log.wal.failure().is_some());
        assert_eq!((log.fatals.count(), sim.fs.fault_hits().len()), (1, 1));
    }
}

/// After a failed sync the page cache shows the bytes, the platter does not have them. A restart of
/// the process reads them as valid; what it builds on them must survive the next power loss.
#[test]
fn a_restart_does_not_trust_the_page_cache() {
    let (sim, log) = about_to_fail(FlushMode::Manual, Op::Sync);
    let record = commit(&log.wal, b"in the cache only");
    assert!(log.wal.flush_now().is_err());
    drop(log);
    let log = open_manual(&sim);
    assert_eq!(log.records.last(), Some(&record), "readers see the cache");
    assert!(log.wal.durable() >= record.end, "and it is called durable");
    let after = SimEnv::with_fs(sim.fs.crash_with(CrashImage::DropUnsynced), 2);
    assert_eq!(open_manual(&after).records.last(), Some(&record));
}

#[test]
fn every_kind_of_failure_while_a_segment_begins_ends_the_log() {
    for op in [Op::Write, Op::Sync, Op::Rename, Op::SyncDir] {
        let sim = SimEnv::new(2);
        let log = open_manual(&sim);
        commit(&log.wal, &[1; 7000]);
        log.wal.flush_now().unwrap();
        // The next segment is ready; beginning it touches the spare's name.
        let path = if op == Op::SyncDir { "/wal" } else { "spare" };
        sim.fs.inject(Fault::on(op).path(path));
        let mut acknowledged = log.wal.durable();
        let error = loop {
            let Ok(place) = log
                .wal
                .append(&Draft::new(RecordKind::Commit, &[], &[&[2; 7000]]))
            else {
                break log.wal.failure();
            };
            if let Err(error) = log.wal.wait_durable(place.end).block() {
                break Some(error);
            }
            acknowledged = place.end;
        };
        assert!(
            matches!(error, Some(WalError::Io { .. })),
            "{op:?}: {error:?}"
        );
        assert_eq!(log.fatals.count(), 1);
        for seed in 0..20 {
            let after = open_manual(&sim.crash(seed));
            assert!(after.recovered.end >= acknowledged, "{op:?}, seed {seed}");
        }
    }
}

/// Appends until the disk is full; returns the end of what was admitted.
fn fill(log: &Opened, wait: bool) -> Lsn {
    for i in 0..10_000 {
        let size = [10, 300, 5000, 40_000][i % 4];
        match append(&log.wal, RecordKind::Commit, &[1], &vec![i as u8; size]) {
            Ok(record) if wait => log.wal.wait_durable(record.end).block().unwrap(),
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, WalError::NoSpace { .. }), "{error}");
                assert!(error.is_no_space());
                return log.wal.end();
            }
        }
    }
    panic!("the disk should be full by now");
}

#[test]
pub fn a_full_disk_refuses_appends_and_loses_nothing() {
    for mode in [FlushMode::Manual, FlushMode::Daemon] {
        // One of the segments is the reserve.
        for (wait, segments) in [(true, 7), (false, 7), (true, 10), (false, 10)] {
            let sim = SimEnv::new(3);
            sim.fs.set_capacity(segments * MIN_SEGMENT_BYTES + 1000);
            let log = open(&sim, mode);
            let end = fill(&log, wait);
            assert!(
                end.0 > (segments - 6) * MIN_SEGMENT_BYTES / 2,
                "much of the space can be used"
            );
            log.wal.flush_now().unwrap();
            assert!(log.wal.durable() >= end, "what was admitted has room");
            assert_eq!(log.fatals.count(), 0);
            let admitted = open_manual(&SimEnv::with_fs(
                {
                    let fs = sim.fs.crash_with(CrashImage::DropUnsynced);
                    fs.set_capacity(u64::MAX);
                    fs
                },
                4,
            ));
            assert!(admitted.recovered.end >= end);
            // Space comes back: the log goes on.
            sim.fs.set_capacity(u64::MAX);
            let more = loop {
                // The attempt that was refused last may still be counted against the first append.
                match append(&log.wal, RecordKind::Commit, &[1], b"more") {
                    Ok(record) => break record,
                    Err(error) => assert!(error.is_no_space()),
                }
            };
            log.wal.flush_now().unwrap();
            let again = open_manual(&SimEnv::with_fs(
                sim.fs.crash_with(CrashImage::DropUnsynced),
                4,
            ));
            assert_eq!(again.records.last(), Some(&more));
        }
    }
}

/// Room that comes while the log waits for it is kept for the next opening before it is given to records.
#[test]
pub fn a_log_opens_on_the_disk_that_it_has_filled() {
    for mode in [FlushMode::Manual, FlushMode::Daemon] {
        let sim = SimEnv::new(3);
        sim.fs.set_capacity(MIN_SEGMENT_BYTES + 1000);
        let log = open(&sim, mode);
        for segments in 2..6 {
            sim.fs.set_capacity(segments * MIN_SEGMENT_BYTES + 1000);
            // The attempt that was refused last may still be counted against the next one.
            for _ in 0..3 {
                while let Ok(record) = append(&log.wal, RecordKind::Commit, &[1], &[1; 500]) {
                    log.wal.wait_durable(record.end).block().unwrap();
                }
            }
            let full = SimEnv::with_fs(sim.fs.crash_with(CrashImage::DropUnsynced), 4);
            let again = open_manual(&full);
            assert_eq!(again.recovered.end, log.wal.end(), "{segments} segments");
        }
    }
}

/// A large record that already has its place is written to its end, whatever is refused to others
/// meanwhile.
#[test]
pub fn refusals_do_not_hit_who_already_has_a_place() {
    for round in 0..20 {
        let sim = SimEnv::new(round);
        sim.fs.set_capacity(12 * MIN_SEGMENT_BYTES);
        let log = open(&sim, FlushMode::Daemon);
        let appended: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_usize)
                .map(|thread| {
                    let wal = &log.wal;
                    scope.spawn(move || {
                        let sizes = [150_000, 40_000, 300_000, 90_000]
                            .iter()
                            .cycle()
                            .skip(thread);
                        let appended = sizes.take(8).map(|size| {
                            append(wal, RecordKind::Commit, &[1], &vec![thread as u8; *size])
                        });
                        appended.filter(Result::is_ok).count()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        log.wal.flush_now().unwrap();
        sim.fs.set_capacity(u64::MAX);
        assert_eq!(open_manual(&sim.crash(round)).records.len(), appended);
    }
}

/// Small groups waste room. However the space runs out, what was admitted is hardened without an
/// error.
#[test]
pub fn what_is_admitted_always_has_room() {
    for seed in 0..60 {
        let sim = SimEnv::new(seed);
        let mut rng = SimRng::new(seed);
        sim.fs
            .set_capacity(3 * MIN_SEGMENT_BYTES + rng.below(4 * MIN_SEGMENT_BYTES));
        let mode = if seed % 3 == 0 {
            FlushMode::Manual
        } else {
            FlushMode::Daemon
        };
        let log = open(&sim, mode);
        let most = [60, 2000, 12_000, 40_000][rng.below(4) as usize];
        std::thread::scope(|scope| {
            for thread in 0..if mode == FlushMode::Daemon { 3 } else { 1 } {
                let mut rng = SimRng::new(seed * 100 + thread);
                let log = &log;
                scope.spawn(move || {
                    let mut refusals = 0;
                    while refusals < 20 {
                        let size = rng.below(most) as usize;
                        match append(&log.wal, RecordKind::Commit, &[1], &vec![1; size]) {
                            Ok(record) if rng.chance(60) => {
                                log.wal.wait_durable(record.end).block().unwrap();
                            }
                            Ok(_) => {}
                            Err(error) => {
                                assert!(error.is_no_space(), "seed {seed}: {error}");
                                refusals += 1;
                            }
                        }
                    }
                });
            }
        });
        log.wal.flush_now().unwrap();
        log.wal.shutdown().unwrap();
        assert_eq!(log.fatals.count(), 0, "seed {seed}");
    }
}

#[test]
pub fn released_segments_make_room_on_a_full_disk() {
    let sim = SimEnv::new(4);
    sim.fs.set_capacity(7 * MIN_SEGMENT_BYTES + 1000);
    let log = open(&sim, FlushMode::Daemon);
    for _ in 0..10 {
        let end = fill(&log, true);
        log.wal.release_below(end).unwrap();
    }
    log.wal.flush_now().unwrap();
    assert_eq!(log.fatals.count(), 0);
    assert!(log.wal.end().0 > 15 * MIN_SEGMENT_BYTES);
}

#[test]
pub fn a_record_larger_than_the_space_takes_no_place() {
    let sim = SimEnv::new(5);
    sim.fs.set_capacity(6 * MIN_SEGMENT_BYTES);
    let log = open(&sim, FlushMode::Daemon);
    let end = log.wal.end();
    let refused = append(&log.wal, RecordKind::Commit, &[1], &vec![1; 600_000]);
    assert!(matches!(refused, Err(WalError::NoSpace { .. })));
    assert_eq!(log.wal.end(), end);
    sim.fs.set_capacity(u64::MAX);
    let record = loop {
        match append(&log.wal, RecordKind::Commit, &[1], &vec![1; 600_000]) {
            Ok(record) => break record,
            Err(error) => assert!(error.is_no_space()),
        }
    };
    log.wal.wait_durable(record.end).block().unwrap();
    assert_eq!(open_manual(&sim.crash(1)).records, [record]);
}

#[test]
fn a_full_disk_when_the_log_is_opened_is_an_error() {
    let sim = SimEnv::new(6);
    sim.fs.set_capacity(MIN_SEGMENT_BYTES / 2);
    let error = crate::common::open_from(&sim, FlushMode::Manual, Lsn(0))
        .err()
        .unwrap();
    assert!(error.is_no_space(), "{error}");
    sim.fs.set_capacity(u64::MAX);
    assert!(open_manual(&sim).records.is_empty());
}

#[test]
fn nothing_is_durable_before_its_sync_returns() {
    let sim = SimEnv::new(7);
    let log = open(&sim, FlushMode::Daemon);
    sim.fs.hold_syncs_of(".wal");
    let first = commit(&log.wal, b"first");
    let mut waits = pin!(log.wal.wait_durable(first.end));
    sim.fs.await_held_sync();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    assert_eq!(log.wal.durable(), first.start);
    let before = SimEnv::with_fs(sim.fs.crash_with(CrashImage::DropUnsynced), 1);
    assert!(open_manual(&before).records.is_empty());
    sim.fs.release_syncs();
    log.wal.flush_now().unwrap();
    assert!(matches!(waits.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
}

/// While one group is being synced, everybody else gathers in the next one.
#[test]
fn one_sync_hardens_everybody_who_came_during_the_last() {
    let sim = SimEnv::new(8);
    let log = open(&sim, FlushMode::Daemon);
    let before = log.wal.stats().flushes;
    sim.fs.hold_syncs_of(".wal");
    let first = commit(&log.wal, b"first");
    let first = log.wal.wait_durable(first.end);
    sim.fs.await_held_sync();
    let waits: Vec<_> = (0..200)
        .map(|i: u32| {
            let record = commit(&log.wal, &i.to_le_bytes());
            log.wal.wait_durable(record.end)
        })
        .collect();
    sim.fs.release_syncs();
    first.block().unwrap();
    for wait in waits {
        wait.block().unwrap();
    }
    assert_eq!(log.wal.stats().flushes - before, 2);
    assert_eq!(log.wal.stats().records, 201);
}

#[test]
pub fn a_slow_disk_makes_large_groups_and_no_errors() {
    let sim = SimEnv::new(9);
    sim.fs.set_sync_latency(Duration::from_millis(3));
    let log = open(&sim, FlushMode::Daemon);
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let wal = &log.wal;
            scope.spawn(move || {
                for _ in 0..20 {
                    let record = commit(wal, &[thread; 100]);
                    wal.wait_durable(record.end).block().unwrap();
                    assert!(wal.durable() >= record.end);
                }
            });
        }
    });
    let stats = log.wal.stats();
    assert_eq!(stats.records, 160);
    assert!(stats.flushes <= 160, "{} flushes", stats.flushes);
    assert_eq!(open_manual(&sim.crash(1)).records.len(), 160);
}

#[test]
pub fn who_waits_when_the_log_is_closed_is_told() {
    let sim = SimEnv::new(10);
    let log = open(&sim, FlushMode::Daemon);
    let record = commit(&log.wal, b"flushed by the shutdown");
    let covered = log.wal.wait_durable(record.end);
    let never = log.wal.wait_durable(Lsn(record.end.0 + 1_000_000));
    log.wal.shutdown().unwrap();
    covered.block().unwrap();
    assert!(matches!(never.block(), Err(WalError::Closed)));
    let late = append(&log.wal, RecordKind::Commit, &[], b"late");
    assert!(matches!(late, Err(WalError::Closed)));
    assert_eq!(log.fatals.count(), 0, "closing is not a failure");
    let orphan = log.wal.wait_durable(Lsn(u64::MAX));
    drop(log);
    assert!(matches!(orphan.block(), Err(WalError::Closed)));
}

/// A waker that panics takes the daemon with it; nobody may wait for a dead daemon.
#[test]
pub fn a_dead_daemon_is_a_failure_of_the_log() {
    struct Bomb;
    impl std::task::Wake for Bomb {
        fn wake(self: std::sync::Arc<Self>) {
            panic!("expected by the test");
        }
    }
    let sim = SimEnv::new(11);
    let log = open(&sim, FlushMode::Daemon);
    sim.fs.hold_syncs_of(".wal");
    let record = commit(&log.wal, b"x");
    let mut wait = pin!(log.wal.wait_durable(record.end));
    let bomb = Waker::from(std::sync::Arc::new(Bomb));
    assert!(
        wait.as_mut()
            .poll(&mut Context::from_waker(&bomb))
            .is_pending()
    );
    sim.fs.await_held_sync();
    let late = commit(&log.wal, b"never hardened");
    let late = log.wal.wait_durable(late.end);
    sim.fs.release_syncs();
    assert!(matches!(late.block(), Err(WalError::ThreadDied)));
    assert!(
        log.wal
            .append(&Draft::new(RecordKind::Commit, &[], &[b"late"]))
            .is_err()
    );
    let fatals = log.fatals.clone();
    drop(log);
    assert_eq!(fatals.count(), 1);
}

/// The machine dies on a full disk, and starts on it again and again. Writers are refused, nothing is
/// lost, and with more room it goes on.
#[test]
fn a_log_that_ran_full_opens_on_the_full_disk() {
    for seed in 0..30 {
        let mut sim = SimEnv::new(seed);
        sim.fs
            .set_capacity((6 + seed % 4) * MIN_SEGMENT_BYTES + 1000);
        let mode = [FlushMode::Manual, FlushMode::Daemon][seed as usize % 2];
        let log = open(&sim, mode);
        let mut end = fill(&log, seed % 3 == 0);
        log.wal.flush_now().unwrap();
        drop(log);
        for round in 0..5 {
            sim = sim.crash(seed + round);
            let log = open(&sim, mode);
            assert_eq!(log.recovered.end, end, "seed {seed}, round {round}");
            if round % 2 == 1 {
                // What little there may be left is used up; then it can still be opened.
                end = fill(&log, true);
            }
            if round % 3 == 2 {
                log.wal.shutdown().unwrap();
            }
            assert_eq!(log.fatals.count(), 0);
        }
        sim.fs.set_capacity(u64::MAX);
        let log = open(&sim, mode);
        let more = loop {
            match append(&log.wal, RecordKind::Commit, &[1], b"more") {
                Ok(record) => break record,
                Err(error) => assert!(error.is_no_space()),
            }
        };
        log.wal.flush_now().unwrap();
        drop(log);
        assert_eq!(
            open_manual(&sim.crash(seed)).records.last(),
            Some(&more),
            "seed {seed}"
        );
    }
}

/// A log with segments so long that shorter ones are made on a disk that has no room for them.
fn open_long(sim: &SimEnv) -> Opened {
    let fatals = Fatals::default();
    let mut config = crate::common::config(FlushMode::Manual, &fatals);
    config.segment_bytes = 8 << 20;
    let mut replay = |_: esker_wal::Record<'_>| Ok::<(), WalError>(());
    let opened = crate::common::open_and_replay(&sim.env(), config, Lsn(0), &mut replay);
    let (wal, recovered) = opened.expect("opens");
    let records = Vec::new();
    Opened {
        wal,
        records,
        recovered,
        fatals,
    }
}

/// Appends until there is no room; what was admitted is durable.
fn fill_up(log: &Opened) -> Lsn {
    while let Ok(record) = append(&log.wal, RecordKind::Commit, &[1], &[1; 4000]) {
        log.wal.flush_now().unwrap();
        assert!(log.wal.durable() >= record.end);
    }
    log.wal.end()
}

#[test]
fn any_room_that_is_of_use_is_used() {
    let sim = SimEnv::new(21);
    sim.fs.set_capacity(20 << 20);
    let log = open_long(&sim);
    let mut end = fill_up(&log);
    for _ in 0..3 {
        // Far less than a segment.
        sim.fs.set_capacity(sim.fs.used_bytes() + (3 << 20));
        let more = fill_up(&log);
        assert!(more.0 > end.0 + (512 << 10), "{end} {more}");
        end = more;
    }
    assert_eq!(log.fatals.count(), 0);
    let again = open_long(&SimEnv::with_fs(
        sim.fs.crash_with(CrashImage::DropUnsynced),
        4,
    ));
    assert_eq!(again.recovered.end, end);
}

#[test]
fn what_makes_room_finds_room_on_a_full_disk_also_after_crashes() {
    let mut sim = SimEnv::new(22);
    sim.fs.set_capacity(20 << 20);
    let mut log = open_long(&sim);
    let mut end = fill_up(&log);
    for life in 0..4 {
        let ordinary = append(&log.wal, RecordKind::Commit, &[1], &[1; 4000]);
        if life == 0 {
            assert!(matches!(ordinary, Err(WalError::NoSpace { .. })));
        }
        fill_up(&log);
        for _ in 0..20 {
            let delete = [&[2; 100][..]];
            let place = log
                .wal
                .append_making_room(&Draft::new(RecordKind::Commit, &[1], &delete));
            end = place.unwrap_or_else(|e| panic!("life {life}: {e}")).end;
            log.wal.flush_now().unwrap();
        }
        // It is not for others.
        assert!(append(&log.wal, RecordKind::Commit, &[1], &[1; 100]).is_err());
        sim = SimEnv::with_fs(sim.fs.crash_with(CrashImage::DropUnsynced), life);
        sim.fs.set_capacity(sim.fs.used_bytes());
        log = open_long(&sim);
        assert_eq!(log.recovered.end, end, "life {life}");
    }
}
