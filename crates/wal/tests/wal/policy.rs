//! When groups begin: the policy of the daemon, and groups that are on their way together.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{Opened, Owned, commit, open_manual, open_policy, overlapping};
use esker_vfs::sim::{CrashImage, Fault, Op, SimEnv};
use esker_wal::{FlushPolicy, MAX_FLUSH_INTERVAL, MAX_IN_FLIGHT, WaitCause};

/// Nobody in these tests waits as long as this: what comes, comes for another reason.
const FOREVER: Duration = MAX_FLUSH_INTERVAL;

fn patient() -> FlushPolicy {
    FlushPolicy {
        interval: FOREVER,
        ..FlushPolicy::default()
    }
}

fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    matches!(std::pin::Pin::new(future).poll(&mut cx), Poll::Pending)
}

#[test]
fn x_transactions_make_a_group() {
    let sim = SimEnv::new(1);
    let policy = FlushPolicy {
        transactions: 5,
        ..patient()
    };
    let log = open_policy(&sim, policy);
    assert_eq!(log.wal.flush_policy(), policy);
    for round in 1..=3 {
        let waits: Vec<_> = (0..5)
            .map(|_| log.wal.wait_durable(commit(&log.wal, b"one of five").end))
            .collect();
        waits.into_iter().for_each(|wait| wait.block().unwrap());
        assert_eq!(log.wal.stats().flushes, round);
    }
    assert_eq!(log.wal.stats().group_records.percentile(100), 5);
}

#[test]
fn l_bytes_make_a_group() {
    let sim = SimEnv::new(2);
    let policy = FlushPolicy {
        bytes: 1000,
        ..patient()
    };
    let log = open_policy(&sim, policy);
    let mut small = log.wal.wait_durable(commit(&log.wal, &[1; 100]).end);
    assert!(is_pending(&mut small));
    let large = log.wal.wait_durable(commit(&log.wal, &[2; 900]).end);
    large.block().unwrap();
    small.block().unwrap();
    assert_eq!(log.wal.stats().flushes, 1);
    assert_eq!(log.wal.stats().records, 2);
}

#[test]
fn t_time_makes_a_group_even_if_the_clock_stands_still() {
    let sim = SimEnv::new(3);
    let policy = FlushPolicy {
        interval: Duration::from_millis(200),
        transactions: 1000,
        ..FlushPolicy::default()
    };
    let log = open_policy(&sim, policy);
    let waits: Vec<_> = (0..10)
        .map(|_| log.wal.wait_durable(commit(&log.wal, b"in time").end))
        .collect();
    waits.into_iter().for_each(|wait| wait.block().unwrap());
    // A busy machine may take longer than that for some of them.
    assert!(log.wal.stats().flushes < 10, "they were let to gather");
}

#[test]
fn a_change_of_policy_reaches_a_group_that_is_filling() {
    let sim = SimEnv::new(4);
    let log = open_policy(&sim, patient());
    let mut wait = log.wal.wait_durable(commit(&log.wal, b"waits").end);
    assert!(is_pending(&mut wait));
    log.wal.set_flush_policy(&FlushPolicy::default());
    wait.block().unwrap();
    assert_eq!(log.wal.flush_policy(), FlushPolicy::default());
}

/// Whoever waits for room must not have to wait for the policy.
#[test]
fn a_full_buffer_is_flushed_whatever_the_policy_says() {
    let sim = SimEnv::new(5);
    let log = open_policy(&sim, patient());
    let expected: Vec<Owned> = (0..100_u8).map(|i| commit(&log.wal, &[i; 5000])).collect();
    log.wal.set_flush_policy(&FlushPolicy::default());
    log.wal.flush_now().unwrap();
    assert_eq!(open_manual(&sim.crash(1)).records, expected);
    let full = log.wal.stats().waits(WaitCause::BufferFull);
    assert!(full.count > 0, "the buffer holds a tenth of this");
}

/// `count` groups that are written and wait for their syncs, and their records; the first one is
/// of `blocks` blocks.
fn groups_on_their_way(sim: &SimEnv, log: &Opened, count: usize, blocks: usize) -> Vec<Owned> {
    sim.fs.hold_syncs_of(".wal");
    let mut records = Vec::new();
    for group in 0..count {
        let many = if group == 0 { 3 * blocks } else { 1 };
        for _ in 0..many {
            let size = if many > 1 { 3900 } else { 100 * (group + 1) };
            records.push(commit(&log.wal, &vec![group as u8; size]));
        }
        log.wal.request_flush();
        sim.fs.await_held_syncs(group + 1);
    }
    records
}

#[test]
fn groups_overlap_up_to_the_limit_and_are_acknowledged_in_order() {
    let sim = SimEnv::new(6);
    let log = open_policy(&sim, overlapping());
    let records = groups_on_their_way(&sim, &log, MAX_IN_FLIGHT, 1);
    let mut waits: Vec<_> = records
        .iter()
        .map(|record| log.wal.wait_durable(record.end))
        .collect();
    assert!(waits.iter_mut().all(is_pending));
    // One more finds no room beside them, and goes when they have landed.
    let last = commit(&log.wal, b"the last one");
    let last = log.wal.wait_durable(last.end);
    sim.fs.release_syncs();
    last.block().unwrap();
    for wait in waits {
        wait.block().unwrap();
    }
    let stats = log.wal.stats();
    assert_eq!(stats.flushes, MAX_IN_FLIGHT as u64 + 1);
    assert!(stats.overlapped >= MAX_IN_FLIGHT as u64 - 1);
    assert_eq!(log.wal.durable(), log.wal.end());
    assert_eq!(log.fatals.count(), 0);
}

#[test]
fn one_at_a_time_is_one_at_a_time() {
    let sim = SimEnv::new(7);
    let policy = FlushPolicy {
        in_flight: 1,
        ..overlapping()
    };
    let log = open_policy(&sim, policy);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let place = commit(&log.wal, b"x");
                    log.wal.wait_durable(place.end).block().unwrap();
                }
            });
        }
    });
    assert_eq!(log.wal.stats().overlapped, 0);
    assert_eq!(log.wal.stats().records, 300);
}

/// Groups on their way reach the platter in any order, torn or not at all: what is read back is a
/// prefix, with everything that was acknowledged, and never an error.
#[test]
fn a_crash_with_several_groups_on_their_way_leaves_a_prefix() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..6 {
        let sim = SimEnv::new(seed);
        let log = open_policy(&sim, overlapping());
        let mut expected = vec![commit(&log.wal, b"acknowledged")];
        log.wal.flush_now().unwrap();
        let durable = log.wal.durable();
        expected.extend(groups_on_their_way(&sim, &log, 3, 1 + seed as usize % 3));
        for crash in 0..60 {
            let after = sim.crash(seed * 1000 + crash);
            let found = open_manual(&after);
            assert!(found.recovered.end >= durable, "seed {seed}, crash {crash}");
            assert_eq!(found.records, expected[..found.records.len()]);
            lengths.insert(found.records.len());
            // And the log goes on from there, through another crash.
            let more = commit(&found.wal, b"more");
            found.wal.flush_now().unwrap();
            let again = open_manual(&after.crash(crash));
            assert_eq!(again.records.last(), Some(&more));
            assert_eq!(again.records.len(), found.records.len() + 1);
        }
        sim.fs.release_syncs();
        log.wal.flush_now().unwrap();
    }
    assert!(lengths.len() > 4, "crashes cut at many places: {lengths:?}");
}

/// The sync of one group can meet the error of another one's pages. Whichever comes back first,
/// nothing is acknowledged that the platter does not have.
#[test]
fn a_failed_sync_of_one_group_acknowledges_none_that_it_has_hurt() {
    for round in 0..60 {
        let sim = SimEnv::new(round);
        let log = open_policy(&sim, overlapping());
        let expected = groups_on_their_way(&sim, &log, 2, 1);
        // The third one's sync fails, and takes the dirty pages of the other two with it.
        sim.fs.inject(Fault::on(Op::Sync).path(".wal"));
        commit(&log.wal, b"third");
        log.wal.request_flush();
        sim.fs.await_held_syncs(3);
        let mut waits: Vec<_> = expected
            .iter()
            .map(|record| log.wal.wait_durable(record.end))
            .collect();
        sim.fs.release_syncs();
        for wait in &mut waits {
            // Whether it is an error depends on who was first.
            let _ = wait_for(wait);
        }
        let durable = log.wal.durable();
        let platter = SimEnv::with_fs(sim.fs.crash_with(CrashImage::DropUnsynced), round);
        let found = open_manual(&platter);
        assert!(
            found.recovered.end >= durable,
            "round {round}: {} of {durable} acknowledged",
            found.recovered.end
        );
        // The log says that it has failed before it tells whom it belongs to.
        while log.wal.failure().is_none() || log.fatals.count() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(log.fatals.count(), 1);
    }
}

fn wait_for<T>(future: &mut (impl Future<Output = T> + Unpin)) -> T {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut cx) {
            return result;
        }
        std::thread::yield_now();
    }
}
