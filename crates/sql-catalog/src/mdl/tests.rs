//! Conflicts, queues, doors, upgrades, deadlocks, and what happens to those who give up.

use std::sync::atomic::{AtomicBool, Ordering};

use esker_engine::{EngineError, Ticket};

use super::*;

/// Long enough that no door opens by itself during a test.
const WINDOW: Duration = Duration::from_secs(6400);

fn ddl_set(manager: &MetadataLocks) -> LockSet {
    let mut set = LockSet::new(manager);
    set.set_window(WINDOW);
    set
}

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
    let [mut reader, mut late] = [(); 2].map(|()| LockSet::new(&manager));
    let mut ddl = ddl_set(&manager);
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
    let [mut reader, mut late] = [(); 2].map(|()| LockSet::new(&manager));
    let mut ddl = ddl_set(&manager);
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
    let waits = ticket(a.acquire(&two, MdlMode::Exclusive, TRANSACTION));
    match b.acquire(&one, MdlMode::Exclusive, TRANSACTION) {
        Err(ExecError::Sql(e)) => assert_eq!((e.code, e.state), (1213, "40001")),
        _ => panic!("no deadlock found"),
    }
    b.release_transaction();
    assert!(is_granted(waits));
}

#[test]
fn a_door_opens_for_newcomers_and_closes_again() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut reader, mut late, mut later, mut last] = [(); 4].map(|()| LockSet::new(&manager));
    let mut ddl = ddl_set(&manager);
    granted(reader.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    let behind = ticket(late.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    let opens = ddl.turn(Instant::now()).expect("it is closed");
    let closes = ddl.turn(opens).expect("it is open");
    assert!(closes > opens);
    assert!(is_granted(behind), "the open door lets in those who wait");
    granted(late.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    granted(later.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    ddl.turn(closes);
    let _stopped = ticket(last.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    for set in [&mut reader, &mut late, &mut later] {
        set.release_transaction();
    }
    assert!(is_granted(exclusive));
}

#[test]
fn only_the_first_of_two_requests_has_a_door() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut reader, mut late] = [(); 2].map(|()| LockSet::new(&manager));
    let [mut one, mut two] = [(); 2].map(|()| ddl_set(&manager));
    granted(reader.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    let first = ticket(one.acquire(&table, MdlMode::Exclusive, STATEMENT));
    let second = ticket(two.acquire(&table, MdlMode::Exclusive, STATEMENT));
    let opens = one.turn(Instant::now()).expect("it is closed");
    one.turn(opens);
    two.turn(opens);
    granted(late.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    // They come in the order in which they asked.
    reader.release_transaction();
    late.release_transaction();
    assert!(!two.is_waiting() || is_granted(first));
    one.release_statement();
    assert!(is_granted(second));
}

#[test]
fn a_door_does_not_close_for_who_waits_for_a_lock_that_stays() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut making, mut late] = [(); 2].map(|()| LockSet::new(&manager));
    let mut ddl = ddl_set(&manager);
    granted(making.acquire(&table, MdlMode::SharedUpgradable, STATEMENT));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    granted(late.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    let again = ddl.turn(Instant::now()).expect("it asks again");
    making.release_statement();
    ddl.turn(again);
    // Now it is only for the writer, so it closes.
    let [mut later] = [(); 1].map(|()| LockSet::new(&manager));
    let _stopped = ticket(later.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    late.release_transaction();
    assert!(is_granted(exclusive));
}

#[test]
fn a_wait_on_a_thread_of_its_own_stops_newcomers_and_is_given_up() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut ddl, mut other, mut writer] = [(); 3].map(|()| LockSet::new(&manager));
    granted(ddl.acquire(&table, MdlMode::SharedUpgradable, STATEMENT));
    granted(writer.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    // Another change waits for this one, and has no door meanwhile.
    let behind = ticket(other.acquire(&table, MdlMode::Exclusive, STATEMENT));
    let wait = |ddl: &mut LockSet, at_most| {
        let wanted = [table.clone()];
        let got = ddl.acquire_within(&wanted, (MdlMode::Exclusive, STATEMENT), at_most, &|| false);
        got.expect("no deadlock")
    };
    assert!(!wait(&mut ddl, Duration::ZERO));
    assert_eq!(ddl.blockers(), (vec![], 1));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| wait(&mut ddl, Duration::from_secs(60)));
        let mut late = LockSet::new(&manager);
        while late.try_acquire(&table, MdlMode::SharedRead, STATEMENT) {
            late.release_statement();
        }
        writer.release_transaction();
        assert!(waits.join().expect("it waits"));
    });
    assert!(ddl.holds(&table, MdlMode::Exclusive));
    ddl.give_back(&table, MdlMode::Exclusive);
    assert!(writer.try_acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    writer.release_transaction();
    ddl.release_statement();
    assert!(is_granted(behind));
}

#[test]
fn a_request_without_patience_stops_nobody() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut reader, mut ddl, mut late] = [(); 3].map(|()| LockSet::new(&manager));
    granted(reader.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    let _exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    granted(late.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    assert_eq!(ddl.turn(Instant::now()), None);
}

#[test]
fn a_closed_door_is_no_deadlock() {
    let manager = MetadataLocks::new();
    let (one, two) = (manager.table("d", "one"), manager.table("d", "two"));
    let [mut reader, mut other] = [(); 2].map(|()| LockSet::new(&manager));
    let mut ddl = ddl_set(&manager);
    granted(reader.acquire(&one, MdlMode::SharedRead, TRANSACTION));
    granted(other.acquire(&two, MdlMode::SharedWrite, TRANSACTION));
    // ddl waits for reader, other is stopped by ddl, reader then waits for other: until the door opens.
    let exclusive = ticket(ddl.acquire(&one, MdlMode::Exclusive, STATEMENT));
    let behind = ticket(other.acquire(&one, MdlMode::SharedRead, TRANSACTION));
    let waits = ticket(reader.acquire(&two, MdlMode::Exclusive, TRANSACTION));
    let opens = ddl.turn(Instant::now()).expect("it is closed");
    ddl.turn(opens);
    assert!(is_granted(behind));
    other.release_transaction();
    assert!(is_granted(waits));
    reader.release_transaction();
    assert!(is_granted(exclusive));
}

#[test]
fn a_change_in_the_making_lets_rows_change_and_no_other_change_begin() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut ddl, mut other, mut writer] = [(); 3].map(|()| LockSet::new(&manager));
    granted(ddl.acquire(&table, MdlMode::SharedUpgradable, STATEMENT));
    assert!(!other.try_acquire(&table, MdlMode::SharedUpgradable, STATEMENT));
    assert!(!other.try_acquire(&table, MdlMode::Exclusive, STATEMENT));
    assert!(
        table.acquire_fast(MdlMode::SharedWrite),
        "the quick way is open"
    );
    table.release(MdlMode::SharedWrite);
    granted(writer.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    writer.release_transaction();
    assert!(is_granted(exclusive));
}

#[test]
fn blockers_and_locks_are_shown_by_connection() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut reader, mut prepared, mut ddl] = [(); 3].map(|()| LockSet::new(&manager));
    reader.belongs_to(7);
    ddl.belongs_to(8);
    granted(reader.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    granted(prepared.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    assert_eq!(ddl.blockers(), (vec![7], 1));
    assert_eq!(manager.waits(), [(8, 7)]);
    let shown = manager.list();
    let shown: Vec<_> = shown
        .iter()
        .map(|l| (l.connection, l.mode, l.is_granted))
        .collect();
    let wanted = [
        (Some(7), MdlMode::SharedRead, true),
        (None, MdlMode::SharedWrite, true),
        (Some(8), MdlMode::Exclusive, false),
    ];
    assert_eq!(shown, wanted);
    // Who gave up can still say who was in the way.
    drop(exclusive);
    assert_eq!(ddl.blockers(), (vec![7], 1));
    drop(reader);
    ddl.release_statement();
    assert_eq!(manager.list().len(), 1);
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
fn who_stops_all_changes_waits_for_none_that_has_not_begun() {
    let manager = MetadataLocks::new();
    let [mut first, mut second, mut writer, mut late] = [(); 4].map(|()| LockSet::new(&manager));
    let change =
        |set: &mut LockSet| set.acquire(manager.global(), MdlMode::IntentionExclusive, STATEMENT);
    granted(first.acquire(manager.global(), MdlMode::ScopeShared, STATEMENT));
    let waiting = ticket(change(&mut writer));
    granted(second.acquire(manager.global(), MdlMode::ScopeShared, STATEMENT));
    first.release_statement();
    second.release_statement();
    assert!(is_granted(waiting));
    writer.settle();
    // One that is to stop writers stops those that come behind it, without a window of its own.
    let lock = (MdlMode::ScopeShared, STATEMENT);
    let firm = ticket(first.acquire_firmly(manager.global(), lock, Duration::from_secs(60)));
    let behind = ticket(change(&mut late));
    writer.release_statement();
    assert!(is_granted(firm));
    first.settle();
    first.release_statement();
    assert!(is_granted(behind));
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
    let detached = session.detach();
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
    manager.validate();
    // Nothing is counted that nobody holds.
    granted(LockSet::new(&manager).acquire(&table, MdlMode::Exclusive, TRANSACTION));
}

/// A table in use, in virtual time of milliseconds: transactions come and go, one schema change wants in.
struct Traffic {
    manager: MetadataLocks,
    table: Arc<MdlObject>,
    start: Instant,
    now: u64,
    /// Inside, and when they leave.
    inside: Vec<(LockSet, u64)>,
    /// Before the door, since when, and how long they will be inside.
    before: Vec<(LockSet, Ticket, u64, u64)>,
    longest_wait: u64,
}

impl Traffic {
    const WINDOW_MS: u64 = 640;

    fn new() -> Self {
        let manager = MetadataLocks::new();
        Self {
            table: manager.table("d", "t"),
            manager,
            start: Instant::now(),
            now: 0,
            inside: Vec::new(),
            before: Vec::new(),
            longest_wait: 0,
        }
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }

    fn enter(&mut self, takes: u64) {
        let mut set = LockSet::new(&self.manager);
        match set.acquire(&self.table, MdlMode::SharedWrite, TRANSACTION) {
            Ok(()) => self.inside.push((set, self.now + takes)),
            Err(ExecError::Wait(ticket)) => self.before.push((set, ticket, self.now, takes)),
            Err(ExecError::Sql(e)) => panic!("{e}"),
        }
    }

    /// One millisecond.
    fn pass(&mut self) {
        self.now += 1;
        let now = self.now;
        self.inside.retain(|(_, leaves)| *leaves > now);
        for (mut set, ticket, since, takes) in std::mem::take(&mut self.before) {
            self.longest_wait = self.longest_wait.max(now - since);
            if set.is_waiting() {
                self.before.push((set, ticket, since, takes));
                continue;
            }
            assert!(is_granted(ticket));
            granted(set.acquire(&self.table, MdlMode::SharedWrite, TRANSACTION));
            self.inside.push((set, now + takes));
        }
        self.manager.validate();
    }
}

/// A small generator, so that each seed is another traffic.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*state >> 33) % below
}

#[test]
fn a_change_gets_in_within_three_windows_and_delays_nobody_for_longer_than_one() {
    for seed in 0..20 {
        let mut traffic = Traffic::new();
        let mut state = seed;
        let window = Traffic::WINDOW_MS;
        let longest = 1 + random(&mut state, window - 2);
        let mut ddl = LockSet::new(&traffic.manager);
        ddl.set_window(Duration::from_millis(window));
        for _ in 0..8 {
            traffic.enter(1 + random(&mut state, longest));
        }
        let waiting = ddl.acquire(&traffic.table, MdlMode::Exclusive, STATEMENT);
        let mut waiting = Some(ticket(waiting));
        let mut next = ddl.turn(traffic.instant()).expect("it has a door");
        while ddl.is_waiting() {
            for _ in 0..random(&mut state, 3) {
                traffic.enter(1 + random(&mut state, longest));
            }
            traffic.pass();
            if ddl.is_waiting() && traffic.instant() >= next {
                next = ddl.turn(traffic.instant()).expect("it has a door");
            }
            assert!(traffic.now <= 3 * window, "seed {seed} starves");
        }
        assert!(waiting.take().is_some_and(is_granted));
        assert!(traffic.inside.is_empty(), "seed {seed}");
        assert!(traffic.longest_wait <= window, "seed {seed}");
    }
}

#[test]
fn behind_a_reader_that_stays_a_change_delays_others_rarely_and_briefly() {
    let mut traffic = Traffic::new();
    let window = Traffic::WINDOW_MS;
    traffic.enter(u64::MAX / 2);
    let mut ddl = LockSet::new(&traffic.manager);
    ddl.set_window(Duration::from_millis(window));
    let _waiting = ticket(ddl.acquire(&traffic.table, MdlMode::Exclusive, STATEMENT));
    let mut next = ddl.turn(traffic.instant()).expect("it has a door");
    let mut closed = 0;
    for _ in 0..40 * window {
        traffic.enter(3);
        closed += u64::from(!traffic.before.is_empty());
        traffic.pass();
        if traffic.instant() >= next {
            next = ddl.turn(traffic.instant()).expect("it has a door");
        }
    }
    assert!(ddl.is_waiting());
    assert!(
        traffic.longest_wait <= window + 1,
        "{}",
        traffic.longest_wait
    );
    // A whole window in ten, after the first ones.
    assert!(closed <= 6 * window, "{closed}");
    assert!(closed >= 3 * window, "{closed}");
}

#[test]
fn a_closed_door_is_a_blocker_and_no_edge_of_the_graph() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut user, mut ddl, mut newcomer] = [(); 3].map(|()| LockSet::new(&manager));
    user.belongs_to(7);
    ddl.belongs_to(8);
    newcomer.belongs_to(9);
    ddl.set_window(Duration::from_secs(60));
    granted(user.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    let behind = ticket(newcomer.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    assert_eq!(newcomer.blockers(), (vec![8], 0));
    assert_eq!(manager.waits(), [(8, 7)]);
    drop((exclusive, behind));
}

#[test]
fn a_firm_door_is_an_edge_of_the_graph() {
    let manager = MetadataLocks::new();
    let (global, table) = (manager.global(), manager.table("d", "t"));
    let [mut writer, mut ddl, mut stops] = [(); 3].map(|()| LockSet::new(&manager));
    writer.belongs_to(7);
    ddl.belongs_to(8);
    stops.belongs_to(9);
    granted(writer.acquire(&table, MdlMode::SharedWrite, TRANSACTION));
    granted(ddl.acquire(global, MdlMode::IntentionExclusive, STATEMENT));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    let lock = (MdlMode::ScopeShared, STATEMENT);
    let firm = ticket(stops.acquire_firmly(global, lock, Duration::from_secs(60)));
    // The writer waits for the one that stops writers, which waits for the change, which waits for the writer.
    let next = writer.acquire(global, MdlMode::IntentionExclusive, STATEMENT);
    assert!(is_deadlock(next));
    let mut late = LockSet::new(&manager);
    late.belongs_to(10);
    let behind = ticket(late.acquire(global, MdlMode::IntentionExclusive, STATEMENT));
    let mut waits = manager.waits();
    waits.sort_unstable();
    assert_eq!(waits, [(8, 7), (9, 8), (10, 9)]);
    writer.release_transaction();
    assert!(is_granted(exclusive));
    drop((firm, behind));
}

/// What has two tables, one that has rows of the first and waits for the second, and that wait's ticket.
fn writer_behind_ddl(manager: &MetadataLocks) -> (LockSet, LockSet, Ticket) {
    let tables = ["t", "u"].map(|name| manager.table("d", name));
    let (mut ddl, mut writer) = (ddl_set(manager), LockSet::new(manager));
    granted(ddl.acquire(&tables[1], MdlMode::Exclusive, STATEMENT));
    granted(writer.acquire(&tables[0], MdlMode::SharedWrite, TRANSACTION));
    let waiting = ticket(writer.acquire(&tables[1], MdlMode::SharedWrite, TRANSACTION));
    (ddl, writer, waiting)
}

fn is_deadlock(result: Result<(), ExecError>) -> bool {
    matches!(result, Err(ExecError::Sql(e)) if e.code == 1213)
}

#[test]
fn a_statement_on_rows_makes_way_for_a_schema_change_that_closes_a_cycle() {
    let manager = MetadataLocks::new();
    let tables = ["t", "u"].map(|name| manager.table("d", name));
    let (mut ddl, mut writer, waiting) = writer_behind_ddl(&manager);
    // One that waits behind the same table is in no cycle.
    let mut reader = LockSet::new(&manager);
    let behind = ticket(reader.acquire(&tables[1], MdlMode::SharedRead, TRANSACTION));
    let change = ticket(ddl.acquire(&tables[0], MdlMode::Exclusive, STATEMENT));
    assert!(matches!(
        waiting.block(Duration::ZERO),
        Err(EngineError::Deadlock)
    ));
    writer.release_transaction();
    assert!(is_granted(change));
    drop(behind);
}

#[test]
fn who_stops_nobody_makes_nobody_a_victim() {
    let manager = MetadataLocks::new();
    let (mut ddl, _writer, waiting) = writer_behind_ddl(&manager);
    ddl.set_window(Duration::ZERO);
    let table = manager.table("d", "t");
    assert!(is_deadlock(ddl.acquire(
        &table,
        MdlMode::Exclusive,
        STATEMENT
    )));
    ddl.release_all();
    assert!(is_granted(waiting));
}

/// LOCK TABLES outlives the transaction: to end that would not help.
#[test]
fn who_has_more_than_a_transaction_makes_no_way() {
    let manager = MetadataLocks::new();
    let (global, table) = (manager.global(), manager.table("d", "t"));
    let (mut locker, mut flush) = (LockSet::new(&manager), ddl_set(&manager));
    granted(locker.acquire(&table, MdlMode::SharedNoReadWrite, MdlDuration::Explicit));
    granted(flush.acquire(global, MdlMode::ScopeShared, MdlDuration::Global));
    let waiting = ticket(locker.acquire(global, MdlMode::IntentionExclusive, STATEMENT));
    assert!(is_deadlock(flush.acquire(
        &table,
        MdlMode::Exclusive,
        STATEMENT
    )));
    flush.release_all();
    assert!(is_granted(waiting));
}

#[test]
fn nobody_makes_way_for_who_is_the_victim_of_another_cycle() {
    let manager = MetadataLocks::new();
    let [table, other] = ["t", "v"].map(|name| manager.table("d", name));
    let (mut ddl, _writer, cheap) = writer_behind_ddl(&manager);
    let mut second = ddl_set(&manager);
    granted(ddl.acquire(&other, MdlMode::Exclusive, STATEMENT));
    granted(second.acquire(&table, MdlMode::SharedUpgradable, STATEMENT));
    let dear = ticket(second.acquire(&other, MdlMode::Exclusive, STATEMENT));
    assert!(is_deadlock(ddl.acquire(
        &table,
        MdlMode::Exclusive,
        STATEMENT
    )));
    ddl.release_all();
    assert!(is_granted(cheap) && is_granted(dear));
}

#[test]
fn what_is_given_back_soon_is_no_edge_of_the_graph() {
    let manager = MetadataLocks::new();
    let both = ["p", "c"].map(|name| manager.table("d", name));
    let [mut ddl, mut writer] = [(); 2].map(|()| LockSet::new(&manager));
    granted(writer.acquire(&both[1], MdlMode::SharedWrite, TRANSACTION));
    let gives_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let got = scope.spawn(|| {
            let killed = || gives_up.load(Ordering::Relaxed);
            let mode = (MdlMode::Exclusive, STATEMENT);
            ddl.acquire_within(&both, mode, Duration::from_secs(60), &killed)
        });
        while manager.waiting() == 0 {
            std::thread::yield_now();
        }
        // It has one and waits for the other, which the writer has: a deadlock if either had to wait to the end.
        let behind = ticket(writer.acquire(&both[0], MdlMode::SharedWrite, TRANSACTION));
        gives_up.store(true, Ordering::Relaxed);
        assert!(!got.join().expect("no panic").expect("no deadlock"));
        assert!(behind.block(Duration::from_secs(60)).is_ok());
    });
}

/// Between its grant and the next request of its session a lock is in no list of held ones, yet it is in the way.
#[test]
fn a_grant_that_is_not_taken_over_is_seen() {
    let manager = MetadataLocks::new();
    let table = manager.table("d", "t");
    let [mut first, mut reader, mut other] = [(); 3].map(|()| LockSet::new(&manager));
    let mut ddl = ddl_set(&manager);
    reader.belongs_to(7);
    granted(first.acquire(&table, MdlMode::Exclusive, TRANSACTION));
    let waiting = ticket(reader.acquire(&table, MdlMode::SharedRead, TRANSACTION));
    first.release_transaction();
    assert!(is_granted(waiting));
    let exclusive = ticket(ddl.acquire(&table, MdlMode::Exclusive, STATEMENT));
    // A wait of somebody else does not make them forget it.
    let elsewhere = manager.table("d", "u");
    granted(first.acquire(&elsewhere, MdlMode::Exclusive, TRANSACTION));
    let another = ticket(other.acquire(&elsewhere, MdlMode::SharedRead, TRANSACTION));
    assert_eq!(ddl.blockers(), (vec![7], 0));
    let list = manager.list();
    let of_reader = list.iter().find(|lock| lock.connection == Some(7));
    let of_reader = of_reader.expect("it is listed");
    assert!(of_reader.is_granted && of_reader.mode == MdlMode::SharedRead);
    drop(another);
    reader.release_transaction();
    assert!(is_granted(exclusive));
    assert!(manager.list().iter().all(|lock| lock.connection != Some(7)));
}
