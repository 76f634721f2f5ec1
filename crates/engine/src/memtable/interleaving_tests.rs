//! The memtable under schedules that `shuttle` explores (see `crate::sync`): every thread may be interrupted
//! everywhere.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use shuttle::thread;

use super::arena::{self, Arena};
use super::pins::Pins;
use super::skiplist::{self, SkipList, Splice};
use crate::sync::{AtomicU64, Mutex, explore, in_parallel};
use crate::{Op, Seq};

type Version = (&'static [u8], Seq);

fn value_of((key, seq): Version) -> Vec<u8> {
    [key, &seq.to_le_bytes()].concat()
}

fn insert(list: &SkipList, splice: &mut Splice, version: Version) -> bool {
    let (key, seq) = version;
    list.insert(splice, key, seq, (Op::Put, &value_of(version)))
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
            assert!(insert(&list, &mut Splice::new(), version));
        }
        let inserted = Arc::new(AtomicU64::new(0));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for versions in NEW {
            let (list, inserted) = (Arc::clone(&list), Arc::clone(&inserted));
            threads.push(Box::new(move || {
                // Their keys ascend.
                let mut splice = Splice::new();
                for version in versions {
                    let is_new = insert(&list, &mut splice, version);
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
                    assert!(insert(&list, &mut Splice::new(), (*key, seq)));
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
