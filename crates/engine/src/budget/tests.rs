//! The counters, the guards, and what they move.

use std::sync::atomic::AtomicU64;
use std::thread;

use super::*;
use crate::cache::BlockCache;

const MIB: usize = 1 << 20;

#[test]
fn a_size_is_rounded_up_to_its_class() {
    let cases = [
        (1, 1),
        (64, 64),
        (65, 80),
        (80, 80),
        (81, 96),
        (16 << 10, 16 << 10),
        ((16 << 10) + 1, 20 << 10),
        ((60 << 10) + 1, 64 << 10),
        ((64 << 10) + 1, 68 << 10),
    ];
    for (bytes, taken) in cases {
        assert_eq!(heap_bytes(bytes), taken, "{bytes}");
    }
}

#[test]
fn what_is_charged_is_given_back() {
    let budget = MemoryBudget::new(64 * MIB);
    let mut charge = Charge::of(&budget, MemoryUse::Memtables, 1000);
    charge.raise_to(500);
    assert_eq!(budget.used(MemoryUse::Memtables), 1000);
    charge.raise_to(1500);
    charge.set(700);
    assert_eq!(budget.used(MemoryUse::Memtables), 700);
    let other = Charge::of(&budget, MemoryUse::LogBuffer, 300);
    assert_eq!(budget.total(), 1000);
    drop((charge, other));
    assert_eq!(budget.total(), 0);
}

#[test]
fn the_most_that_was_charged_is_remembered() {
    let budget = MemoryBudget::new(64 * MIB);
    let peaks = |what| {
        let used = budget.used_and_peak(what);
        (used.now, used.peak)
    };
    let mut charge = Charge::of(&budget, MemoryUse::Statements, 1000);
    let other = Charge::of(&budget, MemoryUse::Statements, 500);
    charge.set(200);
    assert_eq!(peaks(MemoryUse::Statements), (700, 1500));
    drop((charge, other));
    assert_eq!(peaks(MemoryUse::Statements), (0, 1500));
    budget.set(MemoryUse::RowLocks, 90);
    budget.set(MemoryUse::RowLocks, 40);
    assert_eq!(peaks(MemoryUse::RowLocks), (40, 90));
    // Nobody has looked at the sum while it was larger.
    assert_eq!(budget.derived().total.peak, 40);
    let _held = Charge::of(&budget, MemoryUse::Memtables, 2000);
    budget.sample(2000);
    assert_eq!(
        budget.derived().unflushed,
        BytesUsed {
            now: 2000,
            peak: 2000
        }
    );
    assert_eq!(budget.derived().total.peak, 2040);
}

#[test]
fn threads_that_follow_one_size_charge_it_once() {
    let budget = MemoryBudget::new(64 * MIB);
    let charge = Charge::new(&budget, MemoryUse::Memtables);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|bytes| charge.raise_to(bytes)));
        }
    });
    assert_eq!(budget.used(MemoryUse::Memtables), 9_999);
    drop(charge);
    assert_eq!(budget.total(), 0);
}

#[test]
fn a_reservation_grows_shrinks_and_is_refused() {
    let budget = MemoryBudget::new(64 * MIB);
    let mut sort = budget.reserve(MIB).expect("fits");
    sort.grow(9 * MIB).expect("fits");
    // Half of what is not fixed.
    let refused = sort.grow(23 * MIB).expect_err("too much");
    assert!(
        matches!(refused, EngineError::OutOfMemory { limit_bytes, .. } if limit_bytes == 32 * MIB)
    );
    assert_eq!(sort.bytes(), 10 * MIB);
    // A transaction counts against it as well.
    assert!(budget.has_room(14 * MIB) && !budget.has_room(15 * MIB));
    let writes = Charge::of(&budget, MemoryUse::Transactions, 20 * MIB);
    assert!(!budget.has_room(0));
    assert!(budget.reserve(3 * MIB).is_err());
    sort.shrink(5 * MIB);
    let second = budget.reserve(3 * MIB).expect("fits now");
    assert_eq!(budget.used(MemoryUse::Statements), 8 * MIB);
    drop((sort, second, writes));
    assert_eq!(budget.total(), 0);
}

#[test]
fn the_cache_gives_way_to_memtables_and_demands_and_comes_back() {
    let budget = MemoryBudget::new(64 * MIB);
    let cache = BlockCache::governed(&budget);
    let alone = budget.cache_capacity();
    assert!(alone > 50 * MIB);
    let tables = Charge::of(&budget, MemoryUse::Memtables, 20 * MIB);
    let beside = budget.cache_capacity();
    assert!((alone - beside).abs_diff(20 * MIB) < 3 * MIB, "{beside}");
    let hard = budget.memtables_hard();
    let sort = budget.reserve(20 * MIB).expect("fits");
    assert!(budget.memtables_hard() + 9 * MIB < hard);
    assert!(budget.cache_capacity() + 17 * MIB < beside);
    drop((tables, sort));
    // Nobody hurries; it comes back with the looks, slowly, for memtables may grow again.
    budget.sample(0);
    assert!(budget.cache_capacity() > beside - 20 * MIB);
    for _ in 0..1000 {
        budget.sample(0);
    }
    assert!(budget.cache_capacity().abs_diff(alone) < 2 * MIB);
    drop(cache);
}

/// A process with this much on its heap.
fn on_heap(bytes: u64) -> Resident {
    Resident {
        now: bytes,
        peak: bytes,
        files: 0,
    }
}

#[test]
fn values_that_nobody_counts_are_bounded() {
    static RECLAIMED: AtomicU64 = AtomicU64::new(0);
    let budget = MemoryBudget::new(64 * MIB);
    budget
        .admit_values(usize::MAX)
        .expect("no process is known");
    let resident = Arc::new(AtomicU64::new(100 << 20));
    let told = Arc::clone(&resident);
    let heap = Heap {
        give_back: || {
            RECLAIMED.fetch_add(1, Ordering::Relaxed);
        },
        ..Heap::UNKNOWN
    };
    budget.set_process(move || Some(on_heap(told.load(Ordering::Relaxed))), heap);
    let tables = Charge::of(&budget, MemoryUse::Memtables, 40 * MIB);
    budget.admit_values(4 * MIB).expect("60 of 64");
    assert_eq!(RECLAIMED.load(Ordering::Relaxed), 0);
    let refused = budget.admit_values(5 * MIB);
    assert!(matches!(refused, Err(EngineError::OutOfMemory { .. })));
    assert_eq!(RECLAIMED.load(Ordering::Relaxed), 1);
    resident.store(50 << 20, Ordering::Relaxed);
    budget.admit_values(5 * MIB).expect("10 of 64");
    drop(tables);
    // Of a larger limit a part is for them.
    resident.store(0, Ordering::Relaxed);
    budget.set_limit(1024 * MIB);
    budget.admit_values(256 * MIB).expect("a quarter");
    assert!(budget.admit_values(257 * MIB).is_err());
}

#[test]
fn what_the_heap_only_keeps_is_given_back_and_refuses_nobody() {
    static ASKED_FOR: AtomicUsize = AtomicUsize::new(0);
    static GIVEN_BACK: AtomicU64 = AtomicU64::new(0);
    let budget = MemoryBudget::new(1024 * MIB);
    let heap = Heap {
        in_use: || Some(ASKED_FOR.load(Ordering::Relaxed)),
        has_room: |_| true,
        give_back: || {
            GIVEN_BACK.fetch_add(1, Ordering::Relaxed);
        },
    };
    budget.set_process(|| Some(on_heap(400 << 20)), heap);
    let tables = Charge::of(&budget, MemoryUse::Memtables, 40 * MIB);
    // Of 360 MiB that are resident and not counted, most are holes. Other tests have regions of pages, but not so many.
    ASKED_FOR.store(100 * MIB, Ordering::Relaxed);
    budget.admit_values(0).expect("60 of 256");
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 1);
    ASKED_FOR.store(400 * MIB, Ordering::Relaxed);
    let refused = budget.admit_values(0);
    assert!(matches!(refused, Err(EngineError::OutOfMemory { .. })));
    drop(tables);
}

#[test]
fn nobody_is_granted_what_the_system_does_not_have() {
    let budget = MemoryBudget::new(1024 * MIB);
    let heap = Heap {
        has_room: |bytes| bytes <= 10 * MIB,
        ..Heap::UNKNOWN
    };
    budget.set_process(|| Some(on_heap(0)), heap);
    budget.admit_values(10 * MIB).expect("there are ten");
    let mut held = budget.reserve(10 * MIB).expect("there are ten");
    let none = |result: Result<()>| matches!(result, Err(EngineError::NoSystemMemory { .. }));
    assert!(none(budget.admit_values(11 * MIB)));
    assert!(none(held.grow(11 * MIB)));
    assert_eq!(held.bytes(), 10 * MIB);
}

#[test]
fn what_is_resident_and_not_charged_is_taken_off_and_forgotten_slowly() {
    let budget = MemoryBudget::new(64 * MIB);
    let cache = BlockCache::governed(&budget);
    let alone = budget.cache_capacity();
    let resident = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&resident);
    budget.set_process(
        move || Some(on_heap(told.load(Ordering::Relaxed))),
        Heap::UNKNOWN,
    );
    let tables = Charge::of(&budget, MemoryUse::Memtables, 10 * MIB);
    let counted = budget.cache_capacity();
    resident.store(20 << 20, Ordering::Relaxed);
    budget.sample(10 * MIB);
    // Of the ten that nobody has charged four are allowed for anyway.
    assert!((counted - budget.cache_capacity()).abs_diff(6 * MIB) < 2 * MIB);
    resident.store(10 << 20, Ordering::Relaxed);
    budget.sample(10 * MIB);
    assert!(counted - budget.cache_capacity() > 4 * MIB);
    for _ in 0..1000 {
        budget.sample(10 * MIB);
    }
    assert!(budget.cache_capacity().abs_diff(counted) < 2 * MIB);
    drop((tables, cache));
    assert!(alone > counted);
}

#[test]
fn a_new_limit_holds_at_once() {
    let budget = MemoryBudget::new(1024 * MIB);
    let cache = BlockCache::governed(&budget);
    budget.set_limit(64 * MIB);
    assert_eq!(budget.limit(), 64 * MIB);
    assert!(budget.memtables_hard() <= 32 * MIB);
    assert!(budget.cache_capacity() <= 64 * MIB);
    drop(cache);
}

#[test]
fn who_flushes_is_told_when_memtables_have_too_much() {
    let budget = MemoryBudget::new(64 * MIB);
    let alarms = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&alarms);
    budget.set_alarm(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let mut tables = Charge::of(&budget, MemoryUse::Memtables, 20 * MIB);
    assert_eq!(alarms.load(Ordering::Relaxed), 0);
    tables.raise_to(24 * MIB);
    assert!(alarms.load(Ordering::Relaxed) > 0);
    // Those that are flushed and still read are nobody's fault.
    let before = alarms.load(Ordering::Relaxed);
    budget.sample(10 * MIB);
    assert_eq!(budget.lingering(), 14 * MIB);
    assert_eq!(budget.unflushed(), 10 * MIB);
    assert_eq!(alarms.load(Ordering::Relaxed), before);
    tables.set(0);
}
