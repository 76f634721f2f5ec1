//! The log's tests again, on each log buffer that is not the default; and the buffers alone, under
//! real threads.

use std::sync::atomic::{AtomicU64, Ordering};

use esker_vfs::sim::SimRng;
use esker_wal::{LogBufferKind, MIN_BUFFER_BYTES, MemoryLog};

use crate::common::on_other_log_buffers;

macro_rules! on_other_log_buffers {
    ($($module:ident { $($test:ident)* })*) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                super::on_other_log_buffers(crate::$module::$test);
            })*
        })*
    };
}

on_other_log_buffers! {
    threads {
        appends_of_many_threads_have_one_order_without_gaps
        durable_is_never_ahead_of_what_is_synced
        records_larger_than_the_buffer_from_several_threads_stay_whole
        futures_can_be_dropped_at_any_time
    }
    failure {
        a_failed_write_ends_the_log
        a_full_disk_refuses_appends_and_loses_nothing
        refusals_do_not_hit_who_already_has_a_place
        what_is_admitted_always_has_room
        released_segments_make_room_on_a_full_disk
        a_record_larger_than_the_space_takes_no_place
        a_slow_disk_makes_large_groups_and_no_errors
        who_waits_when_the_log_is_closed_is_told
        a_dead_daemon_is_a_failure_of_the_log
    }
    log {
        random_records_are_read_back_through_many_segments_and_restarts
        chained_records_are_whole_whatever_their_size
        released_segments_are_recycled_and_stale_blocks_never_come_back
    }
    crash {
        random_power_losses
        power_loss_under_many_threads
    }
}

const THREADS: u64 = 8;
const INSERTS: u64 = 3_000;

/// What a record takes in the log: length word, kind, number of trees, payload, padding.
fn record_bytes(payload: usize) -> u64 {
    (4 + 1 + 1 + payload as u64).next_multiple_of(8)
}

/// Many threads, records of all sizes, a ring that fills up all the time, and holders that are
/// interrupted: everything comes out at the other end.
#[test]
fn what_threads_insert_is_what_the_consumer_gets() {
    for kind in LogBufferKind::ALL {
        let pauses = AtomicU64::new(0);
        let pause = move || {
            if pauses.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
                std::thread::yield_now();
            }
        };
        let log = MemoryLog::with_pause(kind, MIN_BUFFER_BYTES, Box::new(pause));
        let inserted: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let log = &log;
                    scope.spawn(move || {
                        let mut rng = SimRng::new(thread);
                        let mut sum = 0;
                        for _ in 0..INSERTS {
                            let most = if rng.chance(2) { 6_000 } else { 200 };
                            let payload = vec![thread as u8; rng.below(most) as usize];
                            log.insert(&payload);
                            sum += record_bytes(payload.len());
                        }
                        sum
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(log.bytes(), inserted, "{kind}");
        assert_eq!(log.discard(), inserted, "{kind}");
    }
}

/// A record of many times the ring, while others insert.
#[test]
fn streamed_records_pass_through_every_buffer() {
    for kind in LogBufferKind::ALL {
        let log = MemoryLog::new(kind, MIN_BUFFER_BYTES);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..2_000).for_each(|_| log.insert(&[1; 100])));
            }
            for _ in 0..2 {
                scope.spawn(|| (0..4).for_each(|_| log.insert(&vec![2; 10 * MIN_BUFFER_BYTES])));
            }
        });
        let small = 6_000 * record_bytes(100);
        assert!(log.bytes() > small + 80 * MIN_BUFFER_BYTES as u64);
        assert_eq!(log.discard(), log.bytes(), "{kind}");
    }
}

/// Threads that meet a holder who is not running make groups, in the variants that are for it.
#[test]
fn groups_form_behind_an_interrupted_holder() {
    for kind in LogBufferKind::ALL {
        let pause = || std::thread::sleep(std::time::Duration::from_micros(200));
        let log = MemoryLog::with_pause(kind, MIN_BUFFER_BYTES, Box::new(pause));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..50).for_each(|_| log.insert(b"x")));
            }
        });
        let waits_for_holders = matches!(kind, LogBufferKind::C | LogBufferKind::Cdme);
        // In CD nobody waits for a single thread; groups are for processors that really compete.
        if kind != LogBufferKind::Cd {
            assert_eq!(log.grouped() > 0, waits_for_holders, "{kind}");
        }
        assert_eq!(log.discard(), THREADS * 50 * record_bytes(1));
    }
}
