//! Row locks: queues, upgrades, deadlocks, cancels, and a stress test with threads.

use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use super::*;

pub(super) const TREE: TreeId = TreeId(3);
const LONG: Duration = Duration::from_secs(60);

pub(super) fn table() -> Arc<LockManager> {
    LockManager::new([0x1234_5678_9ABC_DEF1, 0xFEDC_BA98_7654_3211])
}

pub(super) fn ask(
    locks: &Arc<LockManager>,
    owner: &Arc<LockOwner>,
    key: &[u8],
    mode: LockMode,
) -> Result<LockOutcome> {
    locks.lock(owner, TREE, key, mode, WaitPolicy::Wait, 0)
}

/// Locks and expects to get it at once; gives `new`.
pub(super) fn get(
    locks: &Arc<LockManager>,
    owner: &Arc<LockOwner>,
    key: &[u8],
    mode: LockMode,
) -> bool {
    match ask(locks, owner, key, mode) {
        Ok(LockOutcome::Granted { new }) => new,
        Ok(_) => panic!("has to wait"),
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn queue(
    locks: &Arc<LockManager>,
    owner: &Arc<LockOwner>,
    key: &[u8],
    mode: LockMode,
) -> Ticket {
    match ask(locks, owner, key, mode) {
        Ok(LockOutcome::Wait(ticket)) => ticket,
        Ok(_) => panic!("need not wait"),
        Err(error) => panic!("{error}"),
    }
}

/// The result of a ticket, if it has one.
pub(super) fn poll(ticket: &mut Ticket) -> Option<Result<()>> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::future::Future::poll(std::pin::Pin::new(ticket), &mut context) {
        std::task::Poll::Ready(result) => Some(result),
        std::task::Poll::Pending => None,
    }
}

pub(super) fn owners<const N: usize>() -> [Arc<LockOwner>; N] {
    std::array::from_fn(|_| LockManager::new([0, 0]).new_owner())
}

/// Nothing is left in the table.
pub(super) fn assert_empty(locks: &LockManager) {
    for shard in &locks.shards {
        assert!(shard.0.lock().is_empty());
    }
    assert!(locks.ranges.is_empty());
}

#[test]
fn shared_locks_go_together_and_exclusive_ones_do_not() {
    let locks = table();
    let [a, b, c] = owners();
    assert!(get(&locks, &a, b"k", LockMode::Shared));
    assert!(get(&locks, &b, b"k", LockMode::Shared));
    assert!(!get(&locks, &a, b"k", LockMode::Shared));
    // Other rows and the same key in another tree are other rows.
    assert!(get(&locks, &c, b"kk", LockMode::Exclusive));
    let other_tree = locks.lock(
        &c,
        TreeId(4),
        b"k",
        LockMode::Exclusive,
        WaitPolicy::NoWait,
        0,
    );
    assert!(matches!(other_tree, Ok(LockOutcome::Granted { new: true })));
    let mut ticket = queue(&locks, &c, b"k", LockMode::Exclusive);
    locks.release_all(&a);
    assert!(poll(&mut ticket).is_none());
    locks.release_all(&b);
    assert!(matches!(poll(&mut ticket), Some(Ok(()))));
    // The repeated request of the waiter reports the lock as new, once.
    assert!(get(&locks, &c, b"k", LockMode::Exclusive));
    assert!(!get(&locks, &c, b"k", LockMode::Exclusive));
    assert_eq!(c.held_count(), 3);
    locks.release_all(&c);
    assert_empty(&locks);
}

#[test]
fn queue_is_first_come_first_served() {
    let locks = table();
    let [holder, x, s1, s2, late] = owners();
    get(&locks, &holder, b"k", LockMode::Shared);
    let mut x_ticket = queue(&locks, &x, b"k", LockMode::Exclusive);
    // A reader that came after a waiting writer does not overtake it.
    let mut s1_ticket = queue(&locks, &s1, b"k", LockMode::Shared);
    let mut s2_ticket = queue(&locks, &s2, b"k", LockMode::Shared);
    let mut late_ticket = queue(&locks, &late, b"k", LockMode::Exclusive);
    locks.release_all(&holder);
    assert!(poll(&mut x_ticket).is_some());
    assert!(poll(&mut s1_ticket).is_none());
    locks.release_all(&x);
    // Both readers at once.
    assert!(matches!(poll(&mut s1_ticket), Some(Ok(()))));
    assert!(matches!(poll(&mut s2_ticket), Some(Ok(()))));
    locks.release_all(&s1);
    assert!(poll(&mut late_ticket).is_none());
    locks.release_all(&s2);
    assert!(matches!(poll(&mut late_ticket), Some(Ok(()))));
    locks.release_all(&late);
    assert_empty(&locks);
}

/// Whoever holds what others will ask for goes first: here the first waiter, granted first, would ask for the row that
/// the second one holds, and that would be a deadlock.
#[test]
fn who_holds_more_locks_goes_first() {
    let locks = table();
    let [holder, empty_handed, laden, reader] = owners();
    get(&locks, &holder, b"k", LockMode::Exclusive);
    get(&locks, &laden, b"wanted next", LockMode::Exclusive);
    get(&locks, &reader, b"another", LockMode::Exclusive);
    let mut first = queue(&locks, &empty_handed, b"k", LockMode::Exclusive);
    let mut second = queue(&locks, &laden, b"k", LockMode::Exclusive);
    // A shared request does not pass an exclusive one.
    let mut third = queue(&locks, &reader, b"k", LockMode::Shared);
    locks.release_all(&holder);
    assert!(poll(&mut first).is_none() && poll(&mut third).is_none());
    assert!(matches!(poll(&mut second), Some(Ok(()))));
    locks.release_all(&laden);
    assert!(matches!(poll(&mut first), Some(Ok(()))));
    assert!(poll(&mut third).is_none());
    get(&locks, &empty_handed, b"wanted next", LockMode::Exclusive);
    locks.release_all(&empty_handed);
    assert!(matches!(poll(&mut third), Some(Ok(()))));
    locks.release_all(&reader);
    assert_empty(&locks);
}

#[test]
fn nobody_is_overtaken_for_ever() {
    let locks = table();
    let [holder, patient] = owners();
    get(&locks, &holder, b"k", LockMode::Exclusive);
    let mut patient_ticket = queue(&locks, &patient, b"k", LockMode::Exclusive);
    let mut before = 0;
    let others: Vec<_> = (0..2 * shard::MAX_OVERTAKEN)
        .map(|i| {
            let owner = LockManager::new([0, 0]).new_owner();
            get(&locks, &owner, &i.to_be_bytes(), LockMode::Exclusive);
            let ticket = queue(&locks, &owner, b"k", LockMode::Exclusive);
            (owner, ticket)
        })
        .collect();
    locks.release_all(&holder);
    for (owner, mut ticket) in others {
        if poll(&mut patient_ticket).is_some() {
            locks.release_all(&patient);
        }
        assert!(poll(&mut ticket).is_some());
        before += u32::from(patient.held_count() == 0 && patient.waiting().is_some());
        locks.release_all(&owner);
    }
    assert_eq!(before, shard::MAX_OVERTAKEN);
    assert_empty(&locks);
}

#[test]
fn upgrade_alone_is_immediate_and_waits_for_other_readers() {
    let locks = table();
    let [a, b, w] = owners();
    get(&locks, &a, b"k", LockMode::Shared);
    assert!(!get(&locks, &a, b"k", LockMode::Exclusive));
    locks.release_all(&a);

    get(&locks, &a, b"k", LockMode::Shared);
    get(&locks, &b, b"k", LockMode::Shared);
    let mut writer = queue(&locks, &w, b"k", LockMode::Exclusive);
    // The upgrade passes the writer, who cannot be served before it.
    let mut upgrade = queue(&locks, &a, b"k", LockMode::Exclusive);
    locks.release_all(&b);
    assert!(matches!(poll(&mut upgrade), Some(Ok(()))));
    assert!(poll(&mut writer).is_none());
    assert!(!get(&locks, &a, b"k", LockMode::Exclusive));
    assert_eq!(a.held_count(), 1);
    locks.release_all(&a);
    assert!(matches!(poll(&mut writer), Some(Ok(()))));
    locks.release_all(&w);
    assert_empty(&locks);
}

#[test]
fn two_upgrades_are_a_deadlock() {
    let locks = table();
    let [a, b] = owners();
    get(&locks, &a, b"k", LockMode::Shared);
    get(&locks, &b, b"k", LockMode::Shared);
    let mut first = queue(&locks, &a, b"k", LockMode::Exclusive);
    assert!(matches!(
        ask(&locks, &b, b"k", LockMode::Exclusive),
        Err(EngineError::Deadlock)
    ));
    assert!(poll(&mut first).is_none());
    locks.release_all(&b);
    assert!(matches!(poll(&mut first), Some(Ok(()))));
    locks.release_all(&a);
    assert_empty(&locks);
}

#[test]
fn nowait_fails_and_skip_skips_without_a_trace() {
    let locks = table();
    let [a, b] = owners();
    get(&locks, &a, b"k", LockMode::Exclusive);
    let nowait = locks.lock(&b, TREE, b"k", LockMode::Shared, WaitPolicy::NoWait, 0);
    assert!(matches!(nowait, Err(EngineError::LockNotAvailable)));
    let skip = locks.lock(&b, TREE, b"k", LockMode::Shared, WaitPolicy::Skip, 0);
    assert!(matches!(skip, Ok(LockOutcome::Skipped)));
    assert_eq!(b.held_count(), 0);
    locks.release_all(&a);
    assert_empty(&locks);
}

#[test]
fn deadlock_of_two_takes_the_requester_on_a_tie() {
    let locks = table();
    let [a, b] = owners();
    get(&locks, &a, b"1", LockMode::Exclusive);
    get(&locks, &b, b"2", LockMode::Exclusive);
    let mut waiting = queue(&locks, &a, b"2", LockMode::Exclusive);
    assert!(matches!(
        ask(&locks, &b, b"1", LockMode::Exclusive),
        Err(EngineError::Deadlock)
    ));
    assert_eq!(locks.counts(), (2, 1));
    // The victim still holds what it had until it rolls back.
    assert!(poll(&mut waiting).is_none());
    locks.release_all(&b);
    assert!(matches!(poll(&mut waiting), Some(Ok(()))));
    locks.release_all(&a);
    assert_empty(&locks);
}

#[test]
fn deadlock_victim_is_the_one_with_the_least_work() {
    let locks = table();
    let [a, b] = owners();
    get(&locks, &a, b"1", LockMode::Exclusive);
    get(&locks, &b, b"2", LockMode::Exclusive);
    get(&locks, &b, b"3", LockMode::Exclusive);
    let mut light = queue(&locks, &a, b"2", LockMode::Exclusive);
    let mut heavy = queue(&locks, &b, b"1", LockMode::Exclusive);
    assert!(matches!(poll(&mut light), Some(Err(EngineError::Deadlock))));
    locks.release_all(&a);
    assert!(matches!(poll(&mut heavy), Some(Ok(()))));
    locks.release_all(&b);

    // Written rows count like locks.
    get(&locks, &a, b"1", LockMode::Exclusive);
    get(&locks, &b, b"2", LockMode::Exclusive);
    let busy = locks.lock(&a, TREE, b"2", LockMode::Exclusive, WaitPolicy::Wait, 10);
    let Ok(LockOutcome::Wait(_ticket)) = busy else {
        panic!("has to wait")
    };
    assert!(matches!(
        ask(&locks, &b, b"1", LockMode::Exclusive),
        Err(EngineError::Deadlock)
    ));
    locks.release_all(&a);
    locks.release_all(&b);
    assert_empty(&locks);
}

#[test]
fn deadlock_of_three() {
    let locks = table();
    let [a, b, c] = owners();
    for (owner, key) in [(&a, b"1"), (&b, b"2"), (&c, b"3")] {
        get(&locks, owner, key, LockMode::Exclusive);
    }
    get(&locks, &a, b"more", LockMode::Exclusive);
    get(&locks, &c, b"even more", LockMode::Exclusive);
    let _a = queue(&locks, &a, b"2", LockMode::Exclusive);
    let mut b_ticket = queue(&locks, &b, b"3", LockMode::Exclusive);
    let mut c_ticket = queue(&locks, &c, b"1", LockMode::Exclusive);
    assert!(matches!(
        poll(&mut b_ticket),
        Some(Err(EngineError::Deadlock))
    ));
    assert!(poll(&mut c_ticket).is_none());
    for owner in [&b, &a, &c] {
        locks.release_all(owner);
    }
    assert_empty(&locks);
}

#[test]
fn deadlock_through_a_queue_is_found() {
    // r waits behind w in the queue of k although the holder h does not conflict with r; w waits for h; h for r.
    let locks = table();
    let [h, w, r] = owners();
    get(&locks, &h, b"k", LockMode::Shared);
    get(&locks, &r, b"other", LockMode::Exclusive);
    let _w = queue(&locks, &w, b"k", LockMode::Exclusive);
    let _r = queue(&locks, &r, b"k", LockMode::Shared);
    assert!(matches!(
        ask(&locks, &h, b"other", LockMode::Shared),
        Err(EngineError::Deadlock)
    ));
    for owner in [&h, &w, &r] {
        locks.release_all(owner);
    }
    assert_empty(&locks);
}

#[test]
fn a_long_chain_without_a_cycle_is_no_deadlock() {
    let locks = table();
    let chain: Vec<_> = (0..50u32)
        .map(|_| LockManager::new([0, 0]).new_owner())
        .collect();
    for (i, owner) in chain.iter().enumerate() {
        get(
            &locks,
            owner,
            &(i as u32).to_be_bytes(),
            LockMode::Exclusive,
        );
    }
    let mut tickets: Vec<_> = (0..49u32)
        .map(|i| {
            queue(
                &locks,
                &chain[i as usize],
                &(i + 1).to_be_bytes(),
                LockMode::Exclusive,
            )
        })
        .collect();
    assert!(tickets.iter_mut().all(|ticket| poll(ticket).is_none()));
    // The last link closes it: everybody has done the same work but the requester ties.
    let last = ask(&locks, &chain[49], &0u32.to_be_bytes(), LockMode::Exclusive);
    assert!(matches!(last, Err(EngineError::Deadlock)));
    for owner in chain.iter().rev() {
        locks.release_all(owner);
    }
    drop(tickets);
    assert_empty(&locks);
}

#[test]
fn dropped_ticket_leaves_the_queue_for_those_behind() {
    let locks = table();
    let [holder, x, s] = owners();
    get(&locks, &holder, b"k", LockMode::Shared);
    let x_ticket = queue(&locks, &x, b"k", LockMode::Exclusive);
    let mut s_ticket = queue(&locks, &s, b"k", LockMode::Shared);
    drop(x_ticket);
    assert!(matches!(poll(&mut s_ticket), Some(Ok(()))));
    // The one that left may wait for something else.
    let again = queue(&locks, &x, b"k", LockMode::Exclusive);
    assert!(matches!(
        again.block(Duration::from_millis(1)),
        Err(EngineError::LockWaitTimeout)
    ));
    for owner in [&holder, &x, &s] {
        locks.release_all(owner);
    }
    assert_empty(&locks);
}

#[test]
fn grant_that_nobody_takes_is_given_back() {
    let locks = table();
    let [a, b, c] = owners();
    get(&locks, &a, b"k", LockMode::Exclusive);
    let ticket = queue(&locks, &b, b"k", LockMode::Exclusive);
    locks.release_all(&a);
    drop(ticket);
    assert_eq!(b.held_count(), 0);
    assert!(get(&locks, &c, b"k", LockMode::Exclusive));
    locks.release_all(&c);
    // A ticket that outlives its transaction does no harm to the next one in the same slot.
    get(&locks, &a, b"k", LockMode::Exclusive);
    let stale = queue(&locks, &b, b"k", LockMode::Exclusive);
    locks.release_all(&a);
    locks.release_all(&b);
    get(&locks, &b, b"k", LockMode::Exclusive);
    drop(stale);
    assert_eq!(b.held_count(), 1);
    let nowait = locks.lock(&c, TREE, b"k", LockMode::Shared, WaitPolicy::NoWait, 0);
    assert!(matches!(nowait, Err(EngineError::LockNotAvailable)));
    locks.release_all(&b);
    assert_empty(&locks);
}

#[test]
fn wait_is_cancelled_from_another_thread() {
    let locks = table();
    let [a, b] = owners();
    get(&locks, &a, b"k", LockMode::Exclusive);
    assert!(!locks.cancel(&b, CancelReason::StatementKilled));
    let ticket = queue(&locks, &b, b"k", LockMode::Exclusive);
    thread::scope(|scope| {
        let parked = scope.spawn(|| ticket.block(LONG));
        assert!(locks.cancel(&b, CancelReason::StatementKilled));
        let result = parked.join().unwrap();
        assert!(matches!(
            result,
            Err(EngineError::Cancelled(CancelReason::StatementKilled))
        ));
    });
    locks.release_all(&a);
    locks.release_all(&b);
    assert_empty(&locks);
}

#[test]
fn one_lock_is_given_back_early() {
    let locks = table();
    let [a, b] = owners();
    get(&locks, &a, b"1", LockMode::Exclusive);
    get(&locks, &a, b"2", LockMode::Exclusive);
    assert!(locks.release(&a, TREE, b"1"));
    assert!(!locks.release(&a, TREE, b"1"));
    assert!(!locks.release(&b, TREE, b"2"));
    assert!(get(&locks, &b, b"1", LockMode::Exclusive));
    locks.release_all(&a);
    locks.release_all(&b);
    assert_empty(&locks);
}

#[test]
fn many_rows_grow_and_shrink_the_table() {
    let locks = table();
    let [a] = owners();
    for i in 0..100_000u32 {
        assert!(get(&locks, &a, &i.to_be_bytes(), LockMode::Exclusive));
    }
    for i in 0..100_000u32 {
        assert!(!get(&locks, &a, &i.to_be_bytes(), LockMode::Shared));
    }
    assert_eq!(a.held_count(), 100_000);
    locks.release_all(&a);
    assert_empty(&locks);
}

#[test]
fn threads_exclude_each_other_and_deadlocks_are_broken() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 400;
    const ROWS: usize = 5;
    let locks = table();
    let inside: [AtomicUsize; ROWS] = Default::default();
    let done = AtomicUsize::new(0);
    let everybody: [_; THREADS] = owners();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Somebody is cancelled now and then, whether he waits, is just being granted, or does neither.
            while done.load(Ordering::SeqCst) < THREADS * ROUNDS {
                for owner in &everybody {
                    locks.cancel(owner, CancelReason::StatementKilled);
                }
                thread::sleep(Duration::from_micros(200));
            }
        });
        for (thread, owner) in everybody.iter().enumerate() {
            let (locks, inside, done) = (&locks, &inside, &done);
            scope.spawn(move || {
                let mut dice = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(thread as u64 + 1);
                let mut round = 0;
                while round < ROUNDS {
                    let mut held = Vec::new();
                    let mut failed = false;
                    for _ in 0..3 {
                        dice ^= dice << 13;
                        dice ^= dice >> 7;
                        dice ^= dice << 17;
                        let row = dice as usize % ROWS;
                        let key = [row as u8];
                        let outcome = ask(locks, owner, &key, LockMode::Exclusive);
                        let result = match outcome {
                            Ok(LockOutcome::Granted { .. }) => Ok(()),
                            Ok(LockOutcome::Wait(ticket)) if dice & 0x700 == 0 => {
                                ticket.block(Duration::from_micros(dice % 50))
                            }
                            Ok(LockOutcome::Wait(ticket)) => ticket.block(LONG),
                            Ok(LockOutcome::Skipped) => panic!("not asked for"),
                            Err(error) => Err(error),
                        };
                        match result {
                            Ok(()) if held.contains(&row) => {}
                            Ok(()) => {
                                assert_eq!(inside[row].fetch_add(1, Ordering::SeqCst), 0);
                                held.push(row);
                            }
                            Err(
                                EngineError::Deadlock
                                | EngineError::LockWaitTimeout
                                | EngineError::Cancelled(CancelReason::StatementKilled),
                            ) => {
                                failed = true;
                                break;
                            }
                            Err(error) => panic!("{error}"),
                        }
                        thread::yield_now();
                    }
                    for row in held {
                        inside[row].fetch_sub(1, Ordering::SeqCst);
                    }
                    locks.release_all(owner);
                    if !failed {
                        round += 1;
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), THREADS * ROUNDS);
    assert_empty(&locks);
}
