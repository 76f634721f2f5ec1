//! Row locks that become covers: who waits for them, and who does not.

use std::sync::atomic::AtomicUsize;
use std::thread;

use super::tests::{TREE, ask, assert_empty, get, owners, poll, queue, table};
use super::*;

const ROWS: u32 = 1000;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Locks every second row below [`ROWS`].
fn lock_even_rows(locks: &Arc<LockManager>, owner: &Arc<LockOwner>, mode: LockMode) {
    for n in (0..ROWS).step_by(2) {
        get(locks, owner, &key(n), mode);
    }
    assert_eq!(owner.held_count() as u32, ROWS / 2);
}

fn is_refused(locks: &Arc<LockManager>, owner: &Arc<LockOwner>, n: u32, mode: LockMode) -> bool {
    match locks.lock(owner, TREE, &key(n), mode, WaitPolicy::NoWait, 0) {
        Ok(LockOutcome::Granted { .. }) => false,
        Err(EngineError::LockNotAvailable) => true,
        _ => panic!("neither granted nor refused"),
    }
}

#[test]
fn row_locks_become_covers_and_their_memory_is_free() {
    let locks = table();
    let [large, other] = owners();
    lock_even_rows(&locks, &large, LockMode::Exclusive);
    let work = large.work(0);
    let places = locks.places();
    let saved = locks.coarsen(&large);
    locks.validate();
    assert_eq!(saved + large.held_count(), ROWS as usize / 2);
    assert!(large.held_count() < 200, "{}", large.held_count());
    assert!(locks.places() < places && locks.places() < 400);
    assert!(
        large.work(0) >= work,
        "it is no better a victim than before"
    );
    for n in (0..ROWS).step_by(2) {
        assert!(is_refused(&locks, &other, n, LockMode::Shared), "{n}");
        assert!(!is_refused(&locks, &large, n, LockMode::Exclusive), "{n}");
    }
    // Behind the last row nothing is locked; in between much is.
    assert!(!is_refused(&locks, &other, ROWS, LockMode::Exclusive));
    let between = (1..ROWS).step_by(2);
    let between = between.filter(|n| is_refused(&locks, &other, *n, LockMode::Exclusive));
    assert!(between.count() > ROWS as usize / 4);
    locks.release_all(&other);
    let mut ticket = queue(&locks, &other, &key(500), LockMode::Exclusive);
    locks.release_all(&large);
    assert!(matches!(poll(&mut ticket), Some(Ok(()))));
    locks.release_all(&other);
    assert_empty(&locks);
    assert_eq!(large.work(0), 0);
}

#[test]
fn few_row_locks_stay_what_they_are() {
    let locks = table();
    let [small] = owners();
    for n in 0..100 {
        get(&locks, &small, &key(n), LockMode::Exclusive);
    }
    assert_eq!(locks.coarsen(&small), 0);
    assert_eq!(small.held_count(), 100);
}

#[test]
fn what_others_have_locked_is_in_no_cover() {
    let locks = table();
    let [large, holder, reader, waiter] = owners();
    get(&locks, &holder, &key(501), LockMode::Shared);
    let span = KeySpan::new(
        std::ops::Bound::Included(&key(701)),
        std::ops::Bound::Included(&key(701)),
    );
    let covered = locks.cover(
        &reader,
        TREE,
        (span, &key(701)),
        (LockMode::Shared, WaitPolicy::Wait),
        0,
    );
    assert!(matches!(covered, Ok(LockOutcome::Granted { .. })));
    lock_even_rows(&locks, &large, LockMode::Exclusive);
    let mut waiting = queue(&locks, &waiter, &key(600), LockMode::Exclusive);
    assert!(locks.coarsen(&large) > 300);
    locks.validate();
    // They go on with what they have, and the large one waits for it.
    assert!(!is_refused(&locks, &holder, 501, LockMode::Exclusive));
    assert!(!is_refused(&locks, &reader, 701, LockMode::Shared));
    assert!(is_refused(&locks, &large, 501, LockMode::Shared));
    assert!(is_refused(&locks, &large, 701, LockMode::Exclusive));
    // The row that is waited for is still one, and its queue goes on when it is free.
    assert!(poll(&mut waiting).is_none());
    locks.release_all(&large);
    assert!(matches!(poll(&mut waiting), Some(Ok(()))));
    assert!(get(&locks, &waiter, &key(600), LockMode::Exclusive));
    for owner in [&holder, &reader, &waiter] {
        locks.release_all(owner);
    }
    assert_empty(&locks);
}

#[test]
fn shared_row_locks_become_shared_covers() {
    let locks = table();
    let [large, sharer, writer] = owners();
    for n in 0..10 {
        get(&locks, &sharer, &key(n), LockMode::Shared);
    }
    lock_even_rows(&locks, &large, LockMode::Shared);
    assert!(locks.coarsen(&large) > 300);
    get(&locks, &sharer, &key(300), LockMode::Shared);
    // Who shares a row alone with a cover has it not alone.
    let Ok(LockOutcome::Wait(mut upgrade)) = ask(&locks, &sharer, &key(2), LockMode::Exclusive)
    else {
        panic!("the cover has the row as well")
    };
    assert!(is_refused(&locks, &writer, 300, LockMode::Exclusive));
    locks.release_all(&large);
    assert!(matches!(poll(&mut upgrade), Some(Ok(()))));
    locks.release_all(&sharer);
    assert_empty(&locks);
}

#[test]
fn covers_that_were_rows_are_in_the_graph() {
    let locks = table();
    let [large, other] = owners();
    get(&locks, &other, &key(2001), LockMode::Exclusive);
    lock_even_rows(&locks, &large, LockMode::Exclusive);
    assert!(locks.coarsen(&large) > 300);
    // A row in between, which only the cover has.
    let between = (1..ROWS).step_by(2);
    let mut between = between.filter(|n| is_refused(&locks, &other, *n, LockMode::Exclusive));
    let between = between.next_back().expect("rows in between are covered");
    let mut ticket = queue(&locks, &other, &key(between), LockMode::Exclusive);
    let Ok(LockOutcome::Wait(mut large_waits)) =
        ask(&locks, &large, &key(2001), LockMode::Exclusive)
    else {
        panic!("the row is locked")
    };
    assert!(matches!(
        poll(&mut ticket),
        Some(Err(EngineError::Deadlock))
    ));
    locks.release_all(&other);
    assert!(matches!(poll(&mut large_waits), Some(Ok(()))));
    locks.release_all(&large);
    assert_empty(&locks);
}

/// Threads lock rows at random, some make covers of theirs at any moment: nobody has a row that another has.
#[test]
fn no_row_has_two_owners_while_locks_grow_coarser() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 40;
    let locks = table();
    let rows: Vec<AtomicUsize> = (0..4 * ROWS).map(|_| AtomicUsize::new(0)).collect();
    let (saved, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for me in 1..=THREADS {
            let (locks, rows, saved, refused) = (&locks, &rows, &saved, &refused);
            scope.spawn(move || {
                let mut random = me as u64;
                for _ in 0..ROUNDS {
                    let owner = locks.new_owner();
                    let mut mine = Vec::new();
                    for nth in 0..1500 {
                        random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
                        let n = (random >> 33) as usize % rows.len();
                        let n32 = u32::try_from(n).expect("few rows");
                        if is_refused(locks, &owner, n32, LockMode::Exclusive) {
                            refused.fetch_add(1, Ordering::Relaxed);
                        } else if rows[n].swap(me, Ordering::SeqCst) != me {
                            mine.push(n);
                        }
                        if nth % 400 == 399 {
                            saved.fetch_add(locks.coarsen(&owner), Ordering::Relaxed);
                        }
                    }
                    for n in mine {
                        let was = rows[n].swap(0, Ordering::SeqCst);
                        assert_eq!(was, me, "another has locked row {n}");
                    }
                    locks.release_all(&owner);
                }
            });
        }
    });
    locks.validate();
    assert_empty(&locks);
    assert!(saved.into_inner() > 0 && refused.into_inner() > 0);
}
