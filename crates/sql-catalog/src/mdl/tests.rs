//! Conflicts, queues, upgrades, deadlocks, and what happens to those who give up.

use std::time::Duration;

use esker_engine::Ticket;

use super::*;

fn ticket(result: Result<(), ExecError>) -> Ticket {
    match result {
        Err(ExecError::Wait(ticket)) => ticket,
        Ok(()) => panic!("granted at once"),
        Err(ExecError::Sql(e)) => panic!("{e}"),
    }
}

fn granted(result: Result<(), ExecError>) {
    match result {
        Ok(()) => {}
        Err(ExecError::Wait(_)) => panic!("has to wait"),
        Err(ExecError::Sql(e)) => panic!("{e}"),
    }
}

fn is_granted(ticket: Ticket) -> bool {
    ticket.block(Duration::ZERO).is_ok()
}

const STATEMENT: MdlDuration = MdlDuration::Statement;
const TRANSACTION: MdlDuration = MdlDuration::Transaction;

#[test]
fn conflict_is_symmetric_and_fast_modes_never_conflict() {
    for a in MdlMode::ALL {
        for b in MdlMode::ALL {
            assert_eq!(a.conflicts(b), b.conflicts(a), "{a:?} {b:?}");
            if a.fast().is_some() && b.fast().is_some() {
                assert!(!a.conflicts(b));
            }
            if a.covers(b) {
                // Whoever may hold beside the stronger mode may hold beside the weaker one.
                for c in MdlMode::ALL {
                    // Nothing but scopes is locked ScopeShared.
                    let scope_only = c == MdlMode::ScopeShared && a != MdlMode::Exclusive;
                    assert!(
                        scope_only || a.conflicts(c) || !b.conflicts(c),
                        "{a:?} covers {b:?}, {c:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_exclusive_request_waits_for_readers_and_later_readers_wait_for_it() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut reader, mut ddl, mut late] = [(); 3].map(|()| LockSet::new(&manager));
    granted(reader.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    let behind = ticket(late.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    assert!(ddl.is_waiting() && late.is_waiting());
    assert_eq!(manager.waiting(), 2);

    reader.release_transaction();
    assert!(is_granted(exclusive));
    granted(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    assert!(ddl.holds(&table, MdlMode::SharedWrite));

    ddl.release_statement();
    assert!(is_granted(behind));
    granted(late.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    late.release_transaction();
    // With everybody gone the quick way is open again.
    assert!(reader.try_acquire(&table, MdlMode::SharedWrite, STATEMENT));
}

#[test]
fn readers_pass_a_waiter_that_does_not_conflict_with_them() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut locker, mut writer, mut reader] = [(); 3].map(|()| LockSet::new(&manager));
    granted(locker.acquire(&table, MdlMode::SharedReadOnly, MdlDuration::Explicit));
    let waiting = ticket(writer.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    granted(reader.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    locker.release_explicit();
    assert!(is_granted(waiting));
}

#[test]
fn a_holder_is_not_held_up_by_those_who_wait_for_it() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut txn, mut ddl] = [(); 2].map(|()| LockSet::new(&manager));
    granted(txn.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    granted(txn.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    txn.release_transaction();
    assert!(is_granted(exclusive));
}

#[test]
fn a_lock_of_ones_own_is_no_obstacle() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let mut session = LockSet::new(&manager);
    granted(session.acquire(&table, MdlMode::SharedNoReadWrite, MdlDuration::Explicit));
    granted(session.acquire(&table, MdlMode::Exclusive, STATEMENT));
    assert_eq!(session.len(), 2);
    session.release_statement();
    assert_eq!(
        session.explicit_mode(&table),
        Some(MdlMode::SharedNoReadWrite)
    );
    let mut other = LockSet::new(&manager);
    assert!(!other.try_acquire(&table, MdlMode::SharedRead, STATEMENT));
    session.release_all();
    assert!(other.try_acquire(&table, MdlMode::SharedRead, STATEMENT));
}

#[test]
fn giving_up_lets_those_behind_pass() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut reader, mut ddl, mut late] = [(); 3].map(|()| LockSet::new(&manager));
    granted(reader.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    let behind = ticket(late.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    drop(exclusive);
    assert!(is_granted(behind));
    ddl.release_statement();
    assert!(ddl.is_empty());
}

#[test]
fn a_grant_nobody_takes_goes_back() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut reader, mut ddl] = [(); 2].map(|()| LockSet::new(&manager));
    granted(reader.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    reader.release_transaction();
    // Granted now; the statement is killed instead of going on.
    drop(exclusive);
    ddl.release_statement();
    assert!(reader.try_acquire(&table, MdlMode::SharedRead, TRANSACTION));

    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    reader.release_transaction();
    assert!(is_granted(exclusive));
    // The result was taken, the lock never asked for again.
    ddl.release_statement();
    assert!(reader.try_acquire(&table, MdlMode::SharedRead, TRANSACTION));
}

#[test]
fn the_last_of_a_cycle_is_told() {
    let manager = MetadataLocks::new();
    let (one, two) = (manager.table("d", "one"), manager.table("d", "two"));
    let [mut a, mut b] = [(); 2].map(|()| LockSet::new(&manager));
    granted(a.acquire(&one, MdlMode::SharedWrite, TRANSACTION));
    granted(b.acquire(&two, MdlMode::SharedNoReadWrite, TRANSACTION));
    let waits = ticket(a.acquire(&two, MdlMode::SharedRead, TRANSACTION));
    match b.acquire(&one, MdlMode::Exclusive, TRANSACTION) {
        Err(ExecError::Sql(e)) => assert_eq!((e.code, e.state), (1213, "40001")),
        _ => panic!("no deadlock found"),
    }
    b.release_transaction();
    assert!(is_granted(waits));
}

#[test]
fn a_cycle_through_the_queue_is_found() {
    let manager = MetadataLocks::new();
    let (one, two) = (manager.table("d", "one"), manager.table("d", "two"));
    let [mut reader, mut ddl, mut other] = [(); 3].map(|()| LockSet::new(&manager));
    granted(reader.acquire(&one, MdlMode::SharedRead, TRANSACTION));
    granted(other.acquire(&two, MdlMode::SharedWrite, TRANSACTION));
    // ddl waits for reader, other waits behind ddl, reader then waits for other.
    let _exclusive = ticket(ddl.acquire(&one, MdlMode::Exclusive, STATEMENT));
    let _behind = ticket(other.acquire(&one, MdlMode::SharedRead, TRANSACTION));
    match reader.acquire(&two, MdlMode::Exclusive, TRANSACTION) {
        Err(ExecError::Sql(e)) => assert_eq!(e.code, 1213),
        _ => panic!("no deadlock found"),
    }
}

#[test]
fn the_global_read_lock_stops_changes_but_not_definitions_in_use() {
    let manager = MetadataLocks::new();
    let [mut backup, mut writer] = [(); 2].map(|()| LockSet::new(&manager));
    granted(writer.acquire(manager.global(), MdlMode::IntentionExclusive, STATEMENT));
    let waits = ticket(backup.acquire(manager.global(), MdlMode::ScopeShared, MdlDuration::Global));
    writer.release_statement();
    assert!(is_granted(waits));
    granted(backup.acquire(manager.global(), MdlMode::ScopeShared, MdlDuration::Global));
    assert!(backup.has_global());
    assert!(!writer.try_acquire(manager.global(), MdlMode::IntentionExclusive, STATEMENT));
    backup.release_transaction();
    assert!(
        backup.has_global(),
        "the transaction's end does not unlock tables"
    );
    backup.release_global();
    assert!(writer.try_acquire(manager.global(), MdlMode::IntentionExclusive, STATEMENT));
}

#[test]
fn locks_on_tables_outlive_the_session_in_a_set_of_their_own() {
    let manager = MetadataLocks::new();
    let (table, other) = (manager.table("s", "t"), manager.table("s", "u"));
    let mut session = LockSet::new(&manager);
    granted(session.acquire(&table, MdlMode::SharedWrite, MdlDuration::Transaction));
    granted(session.acquire(&other, MdlMode::SharedRead, MdlDuration::Statement));
    let global = manager.global();
    granted(session.acquire(
        global,
        MdlMode::IntentionExclusive,
        MdlDuration::Transaction,
    ));
    let detached = session.detach_tables();
    session.release_all();
    let mut ddl = LockSet::new(&manager);
    assert!(ddl.try_acquire(&other, MdlMode::Exclusive, MdlDuration::Statement));
    assert!(ddl.try_acquire(global, MdlMode::ScopeShared, MdlDuration::Global));
    assert!(!ddl.try_acquire(&table, MdlMode::Exclusive, MdlDuration::Statement));
    drop(detached);
    assert!(ddl.try_acquire(&table, MdlMode::Exclusive, MdlDuration::Statement));
}

#[test]
fn a_name_has_one_object_and_dead_names_are_forgotten() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    assert!(Arc::ptr_eq(&table, &manager.table("d", "t")));
    assert!(!Arc::ptr_eq(&table, &manager.table("d", "T")));
    for i in 0..10_000 {
        manager.table("d", &format!("t{i}"));
    }
    assert!(manager.names() < 1000);
    assert!(Arc::ptr_eq(&table, &manager.table("d", "t")));
}

#[test]
fn many_threads_never_hold_conflicting_locks() {
    use std::sync::atomic::{AtomicI64, Ordering};
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    // Readers add 1, an exclusive holder subtracts 1000: the sum shows who is inside.
    let inside = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (manager, table, inside) = (manager.clone(), table.clone(), &inside);
            scope.spawn(move || {
                let mut session = LockSet::new(&manager);
                for round in 0..500 {
                    let exclusive = (round + thread) % 7 == 0;
                    let mode = if exclusive {
                        MdlMode::Exclusive
                    } else {
                        MdlMode::SharedRead
                    };
                    while let Err(ExecError::Wait(t)) = session.acquire(&table, mode, TRANSACTION) {
                        t.block(Duration::from_secs(60)).expect("granted in time");
                    }
                    let mine = if exclusive { -1000 } else { 1 };
                    let before = inside.fetch_add(mine, Ordering::SeqCst);
                    assert!(if exclusive { before == 0 } else { before >= 0 });
                    inside.fetch_sub(mine, Ordering::SeqCst);
                    session.release_transaction();
                }
            });
        }
    });
    assert_eq!(manager.waiting(), 0);
}
