//! Range locks against inserts, rows and each other.

use std::time::Duration;

use super::tests::{TREE, ask, assert_empty, get, owners, poll, queue, table};
use super::*;

fn span(lower: &[u8], upper: &[u8]) -> KeySpan {
    KeySpan {
        lower: lower.to_vec(),
        upper: Some(upper.to_vec()),
    }
}

fn wait(locks: &Arc<LockManager>, owner: &Arc<LockOwner>, key: &[u8]) -> Ticket {
    let ticket = locks.wait_for_range(owner, TREE, key, Want::Insert, 0);
    ticket.unwrap().expect("there is a gap")
}

fn cover(
    locks: &Arc<LockManager>,
    owner: &Arc<LockOwner>,
    (lower, key): (&[u8], &[u8]),
    mode: LockMode,
) -> Result<LockOutcome> {
    let span = KeySpan::new(
        std::ops::Bound::Included(lower),
        std::ops::Bound::Included(key),
    );
    locks.cover(owner, TREE, (span, key), (mode, WaitPolicy::Wait), 0)
}

#[test]
fn a_gap_stops_the_inserts_of_others_until_its_owner_ends() {
    let locks = table();
    let [reader, other, writer] = owners();
    locks.lock_gap(&reader, TREE, span(b"b", b"d"));
    // Gaps do not mind each other.
    locks.lock_gap(&other, TREE, span(b"c", b"e"));
    assert!(locks.is_in_gap(&writer, TREE, b"c"));
    assert!(!locks.is_in_gap(&writer, TREE, b"a"));
    assert!(!locks.is_in_gap(&writer, TREE, b"e"));
    assert!(!locks.is_in_gap(&reader, TREE, b"b"));
    assert!(!locks.is_in_gap(&writer, TreeId(TREE.0 + 64), b"c"));
    let mut ticket = wait(&locks, &writer, b"c");
    locks.release_all(&reader);
    assert!(poll(&mut ticket).is_none());
    locks.release_all(&other);
    assert!(matches!(poll(&mut ticket), Some(Ok(()))));
    assert!(
        locks
            .wait_for_range(&writer, TREE, b"c", Want::Insert, 0)
            .unwrap()
            .is_none()
    );
    assert_empty(&locks);
}

#[test]
fn what_a_scan_did_not_read_is_free_when_it_settles() {
    let locks = table();
    let [reader, early, late] = owners();
    let gap = locks.lock_ahead(&reader, TREE, span(b"a", b"z"));
    let mut early_ticket = wait(&locks, &early, b"b");
    let mut late_ticket = wait(&locks, &late, b"y");
    gap.finalize(span(b"a", b"c"));
    assert!(matches!(poll(&mut late_ticket), Some(Ok(()))));
    assert!(poll(&mut early_ticket).is_none());
    // Neither does a scan that outlives its transaction leave anything behind.
    let stale = locks.lock_ahead(&late, TREE, span(b"p", b"q"));
    locks.release_all(&late);
    stale.finalize(span(b"p", b"q"));
    assert!(!locks.is_in_gap(&reader, TREE, b"p"));
    // A scan that fails keeps nothing more.
    drop(locks.lock_ahead(&reader, TREE, span(b"a", b"z")));
    assert!(!locks.is_in_gap(&late, TREE, b"y"));
    locks.release_all(&reader);
    assert!(matches!(poll(&mut early_ticket), Some(Ok(()))));
    assert_empty(&locks);
}

#[test]
fn two_inserts_into_the_gap_of_the_other_are_a_deadlock() {
    let locks = table();
    let [a, b] = owners();
    locks.lock_gap(&a, TREE, span(b"a", b"z"));
    locks.lock_gap(&b, TREE, span(b"a", b"z"));
    let mut first = wait(&locks, &a, b"m");
    let second = locks.wait_for_range(&b, TREE, b"n", Want::Insert, 0);
    assert!(matches!(second, Err(EngineError::Deadlock)));
    locks.release_all(&b);
    assert!(matches!(poll(&mut first), Some(Ok(()))));
    locks.release_all(&a);
    assert_empty(&locks);
}

#[test]
fn gaps_and_rows_make_one_graph() {
    let locks = table();
    let [a, b] = owners();
    get(&locks, &a, b"row", LockMode::Exclusive);
    locks.lock_gap(&b, TREE, span(b"a", b"c"));
    let mut inserts = wait(&locks, &a, b"b");
    assert!(matches!(
        ask(&locks, &b, b"row", LockMode::Shared),
        Err(EngineError::Deadlock)
    ));
    assert!(poll(&mut inserts).is_none());
    locks.release_all(&b);
    locks.release_all(&a);
    assert_empty(&locks);
}

#[test]
fn a_lock_from_the_queue_waits_for_covers_too() {
    let locks = table();
    let [reader, sharer, writer] = owners();
    // The writer waits behind a shared lock of the row, and may have one itself; meanwhile another reader covers it.
    for is_shared in [false, true] {
        get(&locks, &sharer, b"g", LockMode::Shared);
        if is_shared {
            get(&locks, &writer, b"g", LockMode::Shared);
        }
        let covered = cover(&locks, &reader, (b"a", b"m"), LockMode::Shared);
        assert!(matches!(covered, Ok(LockOutcome::Granted { .. })));
        let mut queued = queue(&locks, &writer, b"g", LockMode::Exclusive);
        locks.release_all(&sharer);
        assert!(matches!(poll(&mut queued), Some(Ok(()))));
        let mut stopped = queue(&locks, &writer, b"g", LockMode::Exclusive);
        // It is given back, or shared again.
        assert_eq!(writer.held_count(), usize::from(is_shared));
        locks.release_all(&reader);
        assert!(matches!(poll(&mut stopped), Some(Ok(()))));
        let is_new = get(&locks, &writer, b"g", LockMode::Exclusive);
        assert_eq!(is_new, !is_shared);
        locks.release_all(&writer);
    }
    assert_empty(&locks);
}

#[test]
fn a_cover_is_a_lock_of_every_row_in_it() {
    let locks = table();
    let [reader, sharer, writer] = owners();
    let granted = cover(&locks, &reader, (b"a", b"m"), LockMode::Shared);
    assert!(matches!(granted, Ok(LockOutcome::Granted { .. })));
    assert_eq!(reader.held_count(), 0);
    // Shared covers and rows go together.
    get(&locks, &sharer, b"b", LockMode::Shared);
    let granted = cover(&locks, &sharer, (b"c", b"d"), LockMode::Shared);
    assert!(matches!(granted, Ok(LockOutcome::Granted { .. })));
    get(&locks, &writer, b"n", LockMode::Exclusive);
    let nowait = locks.lock(
        &writer,
        TREE,
        b"c",
        LockMode::Exclusive,
        WaitPolicy::NoWait,
        0,
    );
    assert!(matches!(nowait, Err(EngineError::LockNotAvailable)));
    let Ok(LockOutcome::Wait(mut ticket)) = ask(&locks, &writer, b"c", LockMode::Exclusive) else {
        panic!("two covers are in the way")
    };
    locks.release_all(&reader);
    assert!(poll(&mut ticket).is_none());
    locks.release_all(&sharer);
    assert!(matches!(poll(&mut ticket), Some(Ok(()))));
    get(&locks, &writer, b"c", LockMode::Exclusive);
    locks.release_all(&writer);
    assert_empty(&locks);
}

#[test]
fn a_cover_waits_for_rows_and_covers_of_others() {
    let locks = table();
    let [holder, reader, third] = owners();
    get(&locks, &holder, b"k", LockMode::Exclusive);
    let Ok(LockOutcome::Wait(mut ticket)) =
        cover(&locks, &reader, (b"k", b"k"), LockMode::Exclusive)
    else {
        panic!("the row is locked")
    };
    let Ok(LockOutcome::Wait(mut behind)) = cover(&locks, &third, (b"k", b"k"), LockMode::Shared)
    else {
        panic!("the row is covered")
    };
    // Whoever holds the row may ask for it again.
    assert!(!get(&locks, &holder, b"k", LockMode::Exclusive));
    locks.release_all(&holder);
    assert!(matches!(poll(&mut ticket), Some(Ok(()))));
    assert!(poll(&mut behind).is_none());
    locks.release_all(&reader);
    assert!(matches!(poll(&mut behind), Some(Ok(()))));
    locks.release_all(&third);
    assert_empty(&locks);
}

#[test]
fn an_upgrade_that_meets_a_cover_stays_shared() {
    let locks = table();
    let [a, b] = owners();
    get(&locks, &a, b"k", LockMode::Shared);
    assert!(matches!(
        cover(&locks, &b, (b"k", b"k"), LockMode::Shared),
        Ok(LockOutcome::Granted { .. })
    ));
    let Ok(LockOutcome::Wait(ticket)) = ask(&locks, &a, b"k", LockMode::Exclusive) else {
        panic!("the row is covered")
    };
    assert!(matches!(
        ticket.block(Duration::from_millis(1)),
        Err(EngineError::LockWaitTimeout)
    ));
    // It is still shared: another reader gets it.
    let [c] = owners();
    get(&locks, &c, b"k", LockMode::Shared);
    for owner in [&a, &b, &c] {
        locks.release_all(owner);
    }
    assert_empty(&locks);
}

#[test]
fn a_lock_made_shared_lets_readers_in() {
    let locks = table();
    let [a, b] = owners();
    get(&locks, &a, b"k", LockMode::Exclusive);
    let Ok(LockOutcome::Wait(mut ticket)) = ask(&locks, &b, b"k", LockMode::Shared) else {
        panic!("the row is locked")
    };
    locks.downgrade(&a, TREE, b"k");
    assert!(matches!(poll(&mut ticket), Some(Ok(()))));
    locks.release_all(&a);
    locks.release_all(&b);
    assert_empty(&locks);
}

#[test]
fn nobody_passes_a_writer_that_waits_for_a_cover() {
    let locks = table();
    let [reader, writer, late, later] = owners();
    let granted = |outcome| matches!(outcome, Ok(LockOutcome::Granted { .. }));
    assert!(granted(cover(
        &locks,
        &reader,
        (b"a", b"m"),
        LockMode::Shared
    )));
    let Ok(LockOutcome::Wait(mut writes)) = ask(&locks, &writer, b"m", LockMode::Exclusive) else {
        panic!("the row is covered")
    };
    let Ok(LockOutcome::Wait(mut reads)) = cover(&locks, &late, (b"b", b"m"), LockMode::Shared)
    else {
        panic!("a writer waits already")
    };
    let skipped = locks.lock(&later, TREE, b"m", LockMode::Shared, WaitPolicy::Skip, 0);
    assert!(matches!(skipped, Ok(LockOutcome::Skipped)));
    // Rows beside it are free, and the writer does not wait for itself: nor does the reader for whoever waits for it.
    assert!(get(&locks, &later, b"k", LockMode::Shared));
    assert!(granted(cover(
        &locks,
        &reader,
        (b"a", b"m"),
        LockMode::Shared
    )));
    // Without the writer nothing is in the way.
    locks.release_all(&writer);
    assert!(matches!(poll(&mut writes), Some(Err(_))));
    assert!(matches!(poll(&mut reads), Some(Ok(()))));
    for owner in [&reader, &late, &later] {
        locks.release_all(owner);
    }
    assert_empty(&locks);
}

#[test]
fn waiting_behind_a_writer_is_in_the_graph() {
    let locks = table();
    let [first, writer, second] = owners();
    for (owner, rows) in [(&first, (b"a", b"m")), (&second, (b"a", b"b"))] {
        let granted = cover(&locks, owner, (rows.0, rows.1), LockMode::Shared);
        assert!(matches!(granted, Ok(LockOutcome::Granted { .. })));
    }
    let Ok(LockOutcome::Wait(mut writes)) = ask(&locks, &writer, b"m", LockMode::Exclusive) else {
        panic!("the row is covered")
    };
    let Ok(LockOutcome::Wait(mut reads)) = ask(&locks, &second, b"m", LockMode::Shared) else {
        panic!("a writer waits already")
    };
    // The first waits for the second, that for the writer, and that for the first: the writer has done the least.
    let Ok(LockOutcome::Wait(_)) = ask(&locks, &first, b"b", LockMode::Exclusive) else {
        panic!("the second has covered the row")
    };
    assert!(matches!(
        poll(&mut writes),
        Some(Err(EngineError::Deadlock))
    ));
    assert!(matches!(poll(&mut reads), Some(Ok(()))));
    for owner in [&first, &writer, &second] {
        locks.release_all(owner);
    }
    assert_empty(&locks);
}
