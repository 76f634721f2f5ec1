//! Every thread may be interrupted everywhere: the lock-free parts of the engine, compiled here from their own files
//! with primitives whose schedules `shuttle` explores. A thread that would sleep for ever is reported as a deadlock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Wake, Waker};

use esker_engine::{MAX_KEY_BYTES, MAX_VALUE_BYTES, Op, Seq};
use shuttle::thread;

#[path = "../src/memtable/arena.rs"]
mod arena;
#[path = "../src/hash.rs"]
mod hash;
#[path = "../src/memtable/key_index.rs"]
mod key_index;
#[path = "../src/memtable/pins.rs"]
mod pins;
#[path = "../src/memtable/skiplist.rs"]
#[expect(
    dead_code,
    reason = "of the whole file, what is concurrent is tried here"
)]
mod skiplist;
#[path = "../src/commit/told.rs"]
mod told;
#[path = "../src/memtable/versions.rs"]
mod versions;
#[path = "../src/commit/watermark.rs"]
#[expect(
    dead_code,
    reason = "of the whole file, what is concurrent is tried here"
)]
mod watermark;

use arena::Arena;
use pins::Pins;
use skiplist::SkipList;
use sync::{AtomicBool, AtomicU64, Condvar, Mutex};
use watermark::{Visible, Watermark};

/// The same names as in the engine's `sync`, explored.
mod sync {
    use std::ops::{Deref, DerefMut};

    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};

    /// Once: a schedule in which it succeeds later is another schedule.
    pub(crate) const SPINS: usize = 1;

    const UNPOISONED: &str = "no thread panics with a lock";

    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    /// `None` only while a condition is waited for.
    pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect(UNPOISONED)))
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().expect(UNPOISONED)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("held")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("held")
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("held");
            guard.0 = Some(self.0.wait(held).expect(UNPOISONED));
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

/// Schedules per test.
const SCHEDULES: usize = 3000;

fn explore(test: fn()) {
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
}

fn in_parallel(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let handles: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    for handle in handles {
        handle.join().expect("no thread panics");
    }
}

type Version = (&'static [u8], Seq);

fn value_of((key, seq): Version) -> Vec<u8> {
    [key, &seq.to_le_bytes()].concat()
}

/// Everything in the list, in its order.
fn walk(list: &SkipList) -> Vec<(Vec<u8>, Seq, Vec<u8>)> {
    let mut found = Vec::new();
    let mut node = list.first();
    while let Some(at) = node {
        // SAFETY: the list outlives this function.
        let (key, value) = unsafe { (at.key(), at.value()) };
        found.push((key.to_vec(), at.seq(), value.to_vec()));
        node = list.after(at);
    }
    found
}

fn assert_sound(found: &[(Vec<u8>, Seq, Vec<u8>)]) {
    let ascends = |pair: &[(Vec<u8>, Seq, Vec<u8>)]| {
        (&pair[0].0, std::cmp::Reverse(pair[0].1)) < (&pair[1].0, std::cmp::Reverse(pair[1].1))
    };
    assert!(found.windows(2).all(ascends), "out of order: {found:?}");
    for (key, seq, value) in found {
        assert_eq!(
            *value,
            [&key[..], &seq.to_le_bytes()].concat(),
            "a node is complete"
        );
    }
}

#[test]
fn a_skiplist_loses_nothing_and_shows_only_complete_nodes() {
    explore(|| {
        // Neighbours of each other, versions of one key, and one that two threads insert.
        const OLD: [Version; 3] = [(b"b", 10), (b"f", 10), (b"f", 30)];
        const NEW: [[Version; 3]; 2] = [
            [(b"c", 20), (b"f", 20), (b"shared", 40)],
            [(b"d", 20), (b"f", 25), (b"shared", 40)],
        ];
        let list = Arc::new(SkipList::new());
        for version in OLD {
            assert!(list.insert(version.0, version.1, Op::Put, &value_of(version)));
        }
        let inserted = Arc::new(AtomicU64::new(0));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for versions in NEW {
            let (list, inserted) = (Arc::clone(&list), Arc::clone(&inserted));
            threads.push(Box::new(move || {
                for version in versions {
                    let is_new = list.insert(version.0, version.1, Op::Put, &value_of(version));
                    inserted.fetch_add(u64::from(is_new), Ordering::SeqCst);
                    let node = list.seek(version.0, version.1).expect("inserted");
                    // SAFETY: the list lives until the end of the closure.
                    assert_eq!((unsafe { node.key() }, node.seq()), version);
                }
            }));
        }
        let reader = Arc::clone(&list);
        threads.push(Box::new(move || {
            let first = walk(&reader);
            assert_sound(&first);
            for (key, seq) in OLD {
                assert!(first.iter().any(|found| found.0 == key && found.1 == seq));
            }
            let second = walk(&reader);
            assert_sound(&second);
            assert!(
                first.iter().all(|found| second.contains(found)),
                "nothing is removed"
            );
            for (key, seq, _) in &first {
                let node = reader.seek(key, *seq).expect("seen before");
                // SAFETY: the list lives until the end of the closure.
                assert_eq!((unsafe { node.key() }, node.seq()), (&key[..], *seq));
            }
        }));
        in_parallel(threads);
        let found = walk(&list);
        assert_sound(&found);
        assert_eq!(found.len(), OLD.len() + 5);
        assert_eq!(list.entries(), found.len() as u64);
        assert_eq!(
            inserted.load(Ordering::SeqCst),
            5,
            "of two equal versions one is inserted"
        );
        // Every node is found from above, too.
        for (key, seq, _) in &found {
            // SAFETY: the list lives until the end of the closure.
            let at = |node: skiplist::Entry| (unsafe { node.key() }.to_vec(), node.seq());
            assert_eq!(list.seek(key, *seq).map(at), Some((key.clone(), *seq)));
        }
        let last = list.last().expect("there are some");
        // SAFETY: as above.
        assert_eq!(unsafe { last.key() }, &found[found.len() - 1].0[..]);
    });
}

/// Every writer has a key of its own, as row locks give it, and says how far it has come; new generations of the index
/// begin meanwhile.
#[test]
fn a_point_read_finds_the_newest_version_of_its_snapshot() {
    explore(|| {
        const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
        const VERSIONS: u64 = 3;
        let list = Arc::new(SkipList::new());
        let done: Arc<[AtomicU64; 3]> = Arc::new([const { 0 }; 3].map(AtomicU64::new));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for (nth, key) in KEYS.iter().enumerate() {
            let (list, done) = (Arc::clone(&list), Arc::clone(&done));
            threads.push(Box::new(move || {
                for seq in 1..=VERSIONS {
                    assert!(list.insert(key, seq, Op::Put, &value_of((*key, seq))));
                    done[nth].store(seq, Ordering::SeqCst);
                }
            }));
        }
        let (reader, seen) = (Arc::clone(&list), Arc::clone(&done));
        threads.push(Box::new(move || {
            for (nth, key) in KEYS.iter().enumerate().cycle().take(6) {
                let snapshot = seen[nth].load(Ordering::SeqCst);
                let found = reader.get(key, snapshot).map(|node| node.seq());
                assert_eq!(found, (snapshot > 0).then_some(snapshot));
            }
        }));
        in_parallel(threads);
        for key in KEYS {
            for snapshot in 0..=VERSIONS + 1 {
                let newest = snapshot.min(VERSIONS);
                let found = list.get(key, snapshot).map(|node| node.seq());
                assert_eq!(found, (newest > 0).then_some(newest));
            }
        }
        assert!(list.get(b"d", VERSIONS).is_none());
    });
}

#[test]
fn an_arena_gives_every_byte_once() {
    explore(|| {
        let arena = Arc::new(Arena::new());
        let taken = Arc::new(Mutex::new(Vec::new()));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        // The first chunk has 2 KiB, so these need a second one, and one of their own.
        for sizes in [[600, 500, 400], [500, 3000, 300], [400, 600, 200]] {
            let (arena, taken) = (Arc::clone(&arena), Arc::clone(&taken));
            threads.push(Box::new(move || {
                for size in sizes {
                    let place = arena.allocate(size).as_ptr() as usize;
                    assert_eq!(place % arena::ALIGN, 0);
                    taken.lock().push((place, size));
                }
            }));
        }
        in_parallel(threads);
        let mut taken = std::mem::take(&mut *taken.lock());
        taken.sort_unstable();
        for pair in taken.windows(2) {
            assert!(
                pair[0].0 + pair[0].1 <= pair[1].0,
                "two allocations overlap"
            );
        }
        assert!(arena.used_bytes() >= taken.iter().map(|(_, size)| size).sum());
        assert!(arena.used_bytes() <= arena.allocated_bytes());
    });
}

#[test]
fn a_quiet_memtable_is_complete() {
    explore(|| {
        let pins = Arc::new(Pins::new());
        let inserted = Arc::new(AtomicU64::new(0));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for (start, seq) in [(10, 20), (20, 30), (30, 40)] {
            let (pins, inserted) = (Arc::clone(&pins), Arc::clone(&inserted));
            threads.push(Box::new(move || {
                let Some(_pin) = pins.pin(start, seq) else {
                    // The caller finds another table.
                    return;
                };
                assert!(pins.first_lsn() <= start && pins.max_seq() >= seq);
                inserted.fetch_add(1, Ordering::SeqCst);
            }));
        }
        let (flushed, total) = (Arc::clone(&pins), Arc::clone(&inserted));
        threads.push(Box::new(move || {
            flushed.seal();
            while !flushed.are_quiescent() {
                thread::yield_now();
            }
            let (complete, limits) = (
                total.load(Ordering::SeqCst),
                (flushed.first_lsn(), flushed.max_seq()),
            );
            assert!(flushed.pin(40, 50).is_none());
            assert_eq!(
                total.load(Ordering::SeqCst),
                complete,
                "nothing comes after quiet"
            );
            assert_eq!((flushed.first_lsn(), flushed.max_seq()), limits);
        }));
        in_parallel(threads);
    });
}

/// Wakes a thread of the exploration.
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock() = true;
        self.changed.notify_all();
    }
}

/// Awaits a future as a runtime does: polls it again only when it was woken.
fn await_future(mut future: Visible) {
    let bell = Arc::new(Bell {
        rung: Mutex::new(false),
        changed: Condvar::new(),
    });
    let waker = Waker::from(Arc::clone(&bell));
    while Pin::new(&mut future)
        .poll(&mut Context::from_waker(&waker))
        .is_pending()
    {
        let mut rung = bell.rung.lock();
        while !*rung {
            bell.changed.wait(&mut rung);
        }
        *rung = false;
    }
}

#[test]
fn the_watermark_covers_what_is_applied_and_wakes_everybody() {
    explore(|| {
        const RECORDS: [(u64, u64); 3] = [(10, 20), (20, 25), (25, 40)];
        let watermark = Watermark::new(10);
        let applied = Arc::new(RECORDS.map(|_| AtomicBool::new(false)));
        let covered = |applied: &[AtomicBool; 3], visible: Seq| {
            for (at, (_, end)) in RECORDS.into_iter().enumerate() {
                assert!(visible < end || applied[at].load(Ordering::SeqCst));
            }
        };
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for (at, (start, end)) in RECORDS.into_iter().enumerate() {
            let (watermark, applied) = (Arc::clone(&watermark), Arc::clone(&applied));
            threads.push(Box::new(move || {
                applied[at].store(true, Ordering::SeqCst);
                watermark.complete(start, end);
                // A committer sees what it has committed as soon as what is before it is there.
                watermark.block_until(end);
                covered(&applied, watermark.visible());
            }));
        }
        for seq in [20, 40] {
            let (watermark, applied) = (Arc::clone(&watermark), Arc::clone(&applied));
            threads.push(Box::new(move || {
                let before = watermark.visible();
                await_future(Visible::new(&watermark, seq));
                let after = watermark.visible();
                assert!(after >= seq && after >= before);
                covered(&applied, after);
            }));
        }
        // One that goes away while it waits.
        let left = Arc::clone(&watermark);
        threads.push(Box::new(move || {
            let mut future = Visible::new(&left, 40);
            let _ = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
        }));
        in_parallel(threads);
        assert_eq!(watermark.visible(), 40);
    });
}

/// A commit is told only when everybody sees it, also where the log is durable before an earlier record is applied.
#[test]
fn what_is_told_is_durable_and_seen_by_everybody() {
    explore(|| {
        const RECORDS: [(u64, u64); 3] = [(10, 20), (20, 25), (25, 40)];
        let watermark = Watermark::new(10);
        let applied = Arc::new(RECORDS.map(|_| AtomicBool::new(false)));
        // All have their places before any is applied; the flush covers them one after the other.
        let durable = Arc::new(AtomicU64::new(10));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for (at, (start, end)) in RECORDS.into_iter().enumerate() {
            let (watermark, applied) = (Arc::clone(&watermark), Arc::clone(&applied));
            let durable = Arc::clone(&durable);
            threads.push(Box::new(move || {
                applied[at].store(true, Ordering::SeqCst);
                watermark.complete(start, end);
                let is_durable = durable.load(Ordering::SeqCst);
                let told = told::told_up_to(&watermark, Some(is_durable));
                if told < end {
                    return;
                }
                // The reply has left. Whoever begins now reads up to here.
                let snapshot = watermark.visible();
                assert!(snapshot >= end && is_durable >= end);
                for (before, (_, end)) in RECORDS.into_iter().enumerate() {
                    assert!(told < end || applied[before].load(Ordering::SeqCst));
                }
            }));
        }
        threads.push(Box::new(move || {
            for (_, end) in RECORDS {
                durable.store(end, Ordering::SeqCst);
            }
        }));
        in_parallel(threads);
    });
}

#[path = "../src/recovery/once.rs"]
mod once;

/// A shard is sorted once, from all that was collected for it, whoever needs it first; nobody sees it half done, and
/// whoever comes meanwhile gets the same.
#[test]
fn a_shard_is_made_once_whoever_needs_it_first() {
    explore(|| {
        let made = Arc::new(AtomicU64::new(0));
        let shard = Arc::new(once::MadeOnce::new(vec![3u32, 1, 2]));
        let need = {
            let (made, shard) = (Arc::clone(&made), Arc::clone(&shard));
            move || {
                // Whoever only looks sees nothing or all of it.
                assert!(shard.look().is_none_or(|sorted| *sorted == [1, 2, 3]));
                let sorted = shard.get(|mut raw| {
                    made.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    raw.sort_unstable();
                    raw
                });
                assert_eq!(*sorted, [1, 2, 3]);
                std::ptr::from_ref(sorted).addr()
            }
        };
        let others: Vec<_> = (0..2).map(|_| thread::spawn(need.clone())).collect();
        let mine = need();
        for other in others {
            assert_eq!(other.join().unwrap(), mine);
        }
        assert_eq!(made.load(Ordering::SeqCst), 1);
    });
}
