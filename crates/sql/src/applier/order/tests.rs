//! The order without sessions: numbers that rest, and locks that are said to be waited for.

use std::sync::mpsc::channel;

use super::*;

/// Pairs of an earlier transaction and the one that it waits for; numbers from [`STRANGERS`] on are other sessions, and
/// the last number waits for GTIDs.
type Waits = Arc<Mutex<BTreeSet<(u64, u64)>>>;

const STRANGERS: u64 = 1_000;

struct FakeLocks(u64, Waits);

impl Locks for FakeLocks {
    fn waits_for(&self, other: &Self) -> bool {
        self.1.lock().contains(&(self.0, other.0))
    }

    fn waits_behind_strangers_for<'a>(
        &self,
        others: impl Iterator<Item = (u64, &'a Self)>,
    ) -> Vec<u64> {
        let waits = self.1.lock();
        let behind: Vec<u64> = waits
            .iter()
            .filter(|w| w.0 == self.0)
            .map(|w| w.1)
            .collect();
        let is_awaited = |other: u64| behind.iter().any(|s| waits.contains(&(*s, other)));
        others
            .map(|other| other.0)
            .filter(|o| is_awaited(*o))
            .collect()
    }

    fn is_wanted(&self) -> bool {
        self.1.lock().contains(&(u64::MAX, self.0))
    }

    fn cancel(&self) {
        self.1.lock().retain(|(waiter, _)| *waiter != self.0);
    }
}

/// A transaction, and whether it was undone.
#[derive(Debug, PartialEq, Eq)]
struct Job(u64, bool);

impl Undo for Job {
    fn undo(&mut self) {
        self.1 = true;
    }
}

fn order(next: u64, ended: &[u64]) -> CommitOrder<Job, FakeLocks> {
    CommitOrder::new(next, ended.iter().copied().collect())
}

fn begin(order: &CommitOrder<Job, FakeLocks>, ordinal: u64, waits: &Waits) -> bool {
    let runner = Runner::new(FakeLocks(ordinal, waits.clone()));
    order.begin(ordinal, runner).expect("it is to be applied")
}

#[test]
fn who_ends_one_gets_what_rests_behind_it() {
    let (order, waits) = (order(1, &[3]), Waits::default());
    assert!(begin(&order, 1, &waits));
    for ordinal in [2, 4, 6] {
        assert!(!begin(&order, ordinal, &waits));
        let arrival = order.arrive(ordinal, Job(ordinal, false), true);
        assert_eq!(arrival, Arrival::Rests);
    }
    assert!(order.has_resting());
    assert_eq!(order.end(1), Some((Job(2, false), true)));
    // 3 had ended before.
    assert_eq!(order.end(2), Some((Job(4, false), true)));
    assert_eq!(order.end(4), None);
    assert!(begin(&order, 5, &waits), "6 rests, and 5 has just begun");
    assert_eq!(order.end(5), Some((Job(6, false), true)));
    assert_eq!(order.end(6), None);
    assert!(begin(&order, 7, &waits));
    let arrival = order.arrive(7, Job(7, true), false);
    assert_eq!(arrival, Arrival::Mine(Job(7, true), false));
    assert!(!order.has_resting());
}

#[test]
fn who_is_in_the_way_is_undone_where_it_rests_and_comes_in_its_turn() {
    let (order, waits) = (order(1, &[]), Waits::default());
    for ordinal in 1..=4 {
        begin(&order, ordinal, &waits);
    }
    for ordinal in [3, 4] {
        order.arrive(ordinal, Job(ordinal, false), true);
    }
    order.look();
    // 1 waits for one that rests; 4 would have waited for 3, but that is no matter.
    waits.lock().extend([(1, 3), (4, 3)]);
    order.look();
    // 1 waits for one that runs: its thread undoes it.
    waits.lock().extend([(1, 2)]);
    order.look();
    let arrival = order.arrive(2, Job(2, false), true);
    assert_eq!(arrival, Arrival::Rests);
    assert_eq!(order.end(1), Some((Job(2, true), false)));
    assert_eq!(order.end(2), Some((Job(3, true), false)));
    assert_eq!(order.end(3), Some((Job(4, false), true)));
}

#[test]
fn who_begins_to_wait_has_its_way_cleared_at_once() {
    let (order, waits) = (order(1, &[]), Waits::default());
    for ordinal in [1, 2, 4] {
        begin(&order, ordinal, &waits);
    }
    let third = Runner::new(FakeLocks(3, waits.clone()));
    // It has not begun.
    waits.lock().extend([(1, 2), (3, 1), (3, 4)]);
    order.look_for(&third);
    order.begin(3, third.clone());
    order.arrive(4, Job(4, false), true);
    order.look_for(&third);
    // 1 comes before it, and 2 is in nobody's way that has asked.
    assert_eq!(order.arrive(2, Job(2, false), true), Arrival::Rests);
    assert_eq!(order.end(1), Some((Job(2, false), true)));
    assert_eq!(order.end(2), None);
    assert_eq!(
        order.arrive(3, Job(3, false), true),
        Arrival::Mine(Job(3, false), true)
    );
    assert_eq!(order.end(3), Some((Job(4, true), false)));
}

#[test]
fn who_is_in_the_way_of_a_stranger_is_undone_for_the_one_whose_turn_it_is() {
    let (order, waits) = (order(1, &[]), Waits::default());
    for ordinal in 1..=4 {
        begin(&order, ordinal, &waits);
    }
    for ordinal in [3, 4] {
        order.arrive(ordinal, Job(ordinal, false), true);
    }
    // 2 waits behind a session that waits for 3, and nobody is in the way of 1.
    waits.lock().extend([(2, STRANGERS), (STRANGERS, 3)]);
    order.look();
    assert_eq!(order.end(1), None);
    order.look();
    assert_eq!(order.end(2), Some((Job(3, true), false)));
    assert_eq!(order.end(3), Some((Job(4, false), true)));
}

#[test]
fn who_rests_with_a_gtid_that_another_channel_wants_is_undone() {
    let (order, waits) = (order(1, &[]), Waits::default());
    for ordinal in 1..=3 {
        begin(&order, ordinal, &waits);
    }
    for ordinal in [2, 3] {
        order.arrive(ordinal, Job(ordinal, false), true);
    }
    waits.lock().extend([(u64::MAX, 3)]);
    order.look();
    assert_eq!(order.end(1), Some((Job(2, false), true)));
    assert_eq!(order.end(2), Some((Job(3, true), false)));
}

/// It may wait for others itself, so it would not come to rest.
#[test]
fn who_is_in_the_way_is_wounded_while_it_runs() {
    let (order, waits) = (order(1, &[]), Waits::default());
    for ordinal in 1..=2 {
        begin(&order, ordinal, &waits);
    }
    waits.lock().extend([(1, 2), (2, STRANGERS)]);
    order.look();
    assert_eq!(
        *waits.lock(),
        BTreeSet::from([(1, 2)]),
        "its wait has ended"
    );
    assert_eq!(order.arrive(2, Job(2, false), true), Arrival::Rests);
    assert_eq!(order.end(1), Some((Job(2, true), false)));
}

#[test]
fn the_way_is_clear_when_all_behind_are_undone() {
    let (order, waits) = (order(1, &[]), Waits::default());
    for ordinal in 1..=3 {
        begin(&order, ordinal, &waits);
    }
    order.arrive(3, Job(3, false), true);
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| order.clear_way(1));
        while order.has_resting() {
            std::thread::yield_now();
        }
        assert!(!cleared.is_finished(), "2 runs");
        assert_eq!(order.arrive(2, Job(2, true), false), Arrival::Rests);
        cleared.join().expect("the way is clear");
        let next = scope.spawn(|| begin(&order, 4, &waits));
        std::thread::yield_now();
        assert!(!next.is_finished(), "1 has not ended");
        assert_eq!(order.end(1), Some((Job(2, true), false)));
        assert!(!next.join().expect("it has begun"));
    });
    // One that was undone may have to wait again in its turn, and is seen then.
    waits.lock().insert((2, 4));
    order.arrive(4, Job(4, false), true);
    order.look();
    assert_eq!(order.end(2), Some((Job(3, true), false)));
    assert_eq!(order.end(3), Some((Job(4, true), false)));
}

#[test]
fn what_is_behind_the_end_is_undone_and_given_back() {
    let (order, waits) = (order(1, &[]), Waits::default());
    for ordinal in 1..=5 {
        begin(&order, ordinal, &waits);
    }
    for ordinal in [2, 4, 5] {
        order.arrive(ordinal, Job(ordinal, false), true);
    }
    assert_eq!(order.stop_behind(3), [Job(4, true), Job(5, true)]);
    assert!(order.is_stopped(4) && !order.is_stopped(3));
    let arrival = order.arrive(4, Job(4, false), true);
    assert_eq!(arrival, Arrival::Stopped(Job(4, false)));
    assert_eq!(order.end(1), Some((Job(2, false), true)));
    assert_eq!(order.end(2), None);
    assert!(!order.outwait(3, 4), "it is not applied any more");
}

#[test]
fn what_depends_on_another_waits_until_that_has_ended() {
    let (order, waits) = (order(1, &[]), Waits::default());
    for ordinal in 1..=3 {
        begin(&order, ordinal, &waits);
    }
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(order.outwait(2, 4));
            tell.send(()).expect("it is heard");
        });
        assert_eq!(order.arrive(2, Job(2, false), true), Arrival::Rests);
        assert!(told.try_recv().is_err());
        assert_eq!(order.end(1), Some((Job(2, false), true)));
        assert!(told.try_recv().is_err());
        assert_eq!(order.end(2), None);
        told.recv().expect("it has gone on");
    });
    // Where commits are not in order, it may have ended early.
    assert_eq!(order.end(5), None);
    assert!(order.outwait(5, 6));
}

/// Whatever the threads do, each transaction is committed once, behind the one before.
#[test]
fn threads_commit_all_in_order() {
    const THREADS: u64 = 4;
    const LAST: u64 = 2_000;
    let order = order(1, &[]);
    let (waits, committed) = (Waits::default(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (order, waits, committed) = (&order, &waits, &committed);
            scope.spawn(move || {
                for ordinal in (1..=LAST).filter(|ordinal| ordinal % THREADS == thread) {
                    begin(order, ordinal, waits);
                    if ordinal % 7 == 0 {
                        std::thread::yield_now();
                    }
                    let mut due = match order.arrive(ordinal, Job(ordinal, false), true) {
                        Arrival::Mine(job, _) => Some(job),
                        _ => None,
                    };
                    while let Some(Job(ordinal, _)) = due {
                        committed.lock().push(ordinal);
                        due = order.end(ordinal).map(|(job, _)| job);
                    }
                }
            });
        }
    });
    let expected: Vec<u64> = (1..=LAST).collect();
    assert_eq!(*committed.lock(), expected);
    assert_eq!(order.kept(), 0);
}

#[test]
fn what_is_not_applied_any_more_waits_for_nothing() {
    let (order, waits) = (order(1, &[]), Waits::default());
    for ordinal in 1..=3 {
        begin(&order, ordinal, &waits);
    }
    waits.lock().extend([(1, STRANGERS), (3, STRANGERS)]);
    order.look();
    assert_eq!(waits.lock().len(), 2, "strangers are waited for");
    assert!(order.stop_behind(1).is_empty());
    order.look();
    assert_eq!(*waits.lock(), BTreeSet::from([(1, STRANGERS)]));
}
