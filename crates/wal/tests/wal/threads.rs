//! Many appenders at once: one order, no gaps, nothing durable too early.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    Owned, append_random, assert_contiguous, commit, open, open_and_replay, open_manual,
    open_policy, overlapping,
};
use esker_vfs::sim::{CrashImage, SimEnv, SimRng};
use esker_wal::{
    Draft, Driven, FlushMode, FlushPolicy, Lsn, Record, RecordKind, Turn, WalConfig, WalError,
};

const THREADS: u64 = 8;

/// Appends from many threads, some of which wait; returns each thread's records.
fn hammer(log: &crate::common::Opened, each: u64) -> Vec<Vec<Owned>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let wal = &log.wal;
                scope.spawn(move || {
                    let mut rng = SimRng::new(thread);
                    let mut records = Vec::new();
                    for i in 0..each {
                        let record = append_random(wal, &mut rng).unwrap();
                        if i % 7 == thread % 7 {
                            wal.wait_durable(record.end).block().unwrap();
                            assert!(wal.durable() >= record.end);
                        }
                        records.push(record);
                    }
                    records
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
pub fn appends_of_many_threads_have_one_order_without_gaps() {
    let sim = SimEnv::new(1);
    let log = open(&sim, FlushMode::Daemon);
    let by_thread = hammer(&log, 150);
    for records in &by_thread {
        assert!(records.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
    let mut expected: Vec<Owned> = by_thread.into_iter().flatten().collect();
    expected.sort_by_key(|record| record.start);
    assert_eq!(expected[0].start, Lsn::FIRST);
    assert_contiguous(&expected);
    log.wal.flush_now().unwrap();
    assert_eq!(log.wal.durable(), expected.last().unwrap().end);
    assert_eq!(open_manual(&sim.crash(1)).records, expected);
    assert_eq!(log.fatals.count(), 0);
}

/// Whenever the log says "durable", a power loss at that moment keeps it.
#[test]
pub fn durable_is_never_ahead_of_what_is_synced() {
    check_durable_all_the_time(FlushPolicy::default());
    check_durable_all_the_time(overlapping());
}

fn check_durable_all_the_time(policy: FlushPolicy) {
    let sim = SimEnv::new(2);
    let log = open_policy(&sim, policy);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let checker = scope.spawn(|| {
            let mut seen = Lsn(0);
            let mut rounds = 0;
            while !done.load(Ordering::SeqCst) || rounds < 3 {
                let durable = log.wal.durable();
                assert!(durable >= seen, "durable never goes back");
                seen = durable;
                let image = sim.fs.crash_with(CrashImage::DropUnsynced);
                let after = open_manual(&SimEnv::with_fs(image, 1));
                assert!(
                    after.recovered.end >= durable,
                    "{} < {durable}",
                    after.recovered.end
                );
                rounds += 1;
            }
        });
        hammer(&log, 60);
        done.store(true, Ordering::SeqCst);
        checker.join().unwrap();
    });
}

#[test]
pub fn records_larger_than_the_buffer_from_several_threads_stay_whole() {
    let sim = SimEnv::new(3);
    let log = open(&sim, FlushMode::Daemon);
    let mut expected: Vec<Owned> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_usize)
            .map(|thread| {
                let wal = &log.wal;
                scope.spawn(move || {
                    (0..6_usize)
                        .map(|i| commit(wal, &vec![(thread * 16 + i) as u8; 30_000 * (i + thread)]))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    expected.sort_by_key(|record| record.start);
    assert_contiguous(&expected);
    log.wal.flush_now().unwrap();
    assert_eq!(open_manual(&sim.crash(1)).records, expected);
}

#[test]
pub fn futures_can_be_dropped_at_any_time() {
    let sim = SimEnv::new(4);
    let log = open(&sim, FlushMode::Daemon);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let wal = &log.wal;
            scope.spawn(move || {
                let mut rng = SimRng::new(thread);
                for _ in 0..200 {
                    let record = commit(wal, b"x");
                    let mut wait = Box::pin(wal.wait_durable(record.end));
                    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                    let _ = wait.as_mut().poll(&mut cx);
                    if rng.chance(50) {
                        drop(wait);
                        wal.wait_durable(record.end).block().unwrap();
                    }
                }
            });
        }
    });
    log.wal.flush_now().unwrap();
    assert_eq!(open_manual(&sim.crash(1)).records.len(), 800);
}

#[test]
fn a_record_that_nobody_waits_for_is_flushed_all_the_same() {
    let sim = SimEnv::new(5);
    let log = open(&sim, FlushMode::Daemon);
    let record = commit(&log.wal, b"nobody waits");
    while log.wal.durable() < record.end {
        std::thread::yield_now();
    }
    assert_eq!(log.wal.stats().flushes, 1);
}

/// Threads that flush by themselves, when they may, beside others that leave it to the daemon, on a
/// real disk: what each is told is durable, and nothing is lost or out of order.
#[test]
fn who_may_flush_by_himself_does_not_disturb_the_daemon() {
    const THREADS: u64 = 5;
    const COMMITS: u64 = 200;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let env = esker_vfs::Env::os();
    let config = || WalConfig::new(dir.path());
    let mut none = |_: Record<'_>| Ok::<(), WalError>(());
    let (wal, _) = open_and_replay(&env, config(), Lsn(0), &mut none).expect("a new log");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let wal = &wal;
            scope.spawn(move || {
                for i in 0..COMMITS {
                    let payload = (thread * COMMITS + i).to_le_bytes();
                    let place = wal
                        .append(&Draft::new(RecordKind::Commit, &[1], &[&payload]))
                        .expect("room");
                    // Some threads try, some drive, and all leave it to the daemon now and then.
                    let waiting = (i % 100) as usize;
                    let done = match thread {
                        _ if i % 8 == 0 => false,
                        0 => false,
                        1 | 2 => wal.harden_if_quick(place.end).expect("no failure"),
                        _ => {
                            let turn = match thread {
                                3 => Turn::Idle,
                                _ => Turn::Busy {
                                    waiting,
                                    in_turn: 30,
                                },
                            };
                            wal.drive(place.end, turn).expect("no failure") == Driven::Durable
                        }
                    };
                    if !done {
                        wal.wait_durable(place.end).block().expect("no failure");
                    }
                    assert!(wal.durable() >= place.end);
                }
            });
        }
    });
    wal.shutdown().expect("a clean end");
    drop(wal);
    let mut found = Vec::new();
    let mut gather = |record: Record<'_>| {
        let number: [u8; 8] = record.payload.try_into().expect("eight bytes");
        found.push(u64::from_le_bytes(number));
        Ok::<(), WalError>(())
    };
    open_and_replay(&env, config(), Lsn(0), &mut gather).expect("opens again");
    for thread in 0..THREADS {
        let of_thread = thread * COMMITS..(thread + 1) * COMMITS;
        let in_order: Vec<u64> = found
            .iter()
            .copied()
            .filter(|n| of_thread.contains(n))
            .collect();
        assert_eq!(in_order, of_thread.collect::<Vec<_>>());
    }
}
