//! The skiplist against a map, and concurrent inserts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use esker_vfs::pages::Pages;
use proptest::prelude::*;

use super::arena::{ALIGN, Arena, KEPT_CHUNK_BYTES};
use super::versions::Versions;
use super::*;
use crate::LATEST;
use crate::iter::InternalIter;

/// Key, then sequence descending.
type Model = BTreeMap<(Vec<u8>, Reverse<Seq>), (Op, Vec<u8>)>;

fn small_key() -> impl Strategy<Value = Vec<u8>> {
    // Few letters, zero bytes included, lengths around the eight bytes of the prefix.
    prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 0xFF]), 0..11)
}

fn version() -> impl Strategy<Value = (Vec<u8>, Seq, Op, Vec<u8>)> {
    let op = prop::bool::weighted(0.8);
    (
        small_key(),
        1..50u64,
        op,
        prop::collection::vec(any::<u8>(), 0..20),
    )
        .prop_map(|(key, seq, is_put, value)| match is_put {
            true => (key, seq, Op::Put, value),
            false => (key, seq, Op::Delete, Vec::new()),
        })
}

fn build(versions: &[(Vec<u8>, Seq, Op, Vec<u8>)]) -> (Arc<Memtable>, Model) {
    let table = Arc::new(Memtable::new());
    let mut model = Model::new();
    for (key, seq, op, value) in versions {
        let place = (key.clone(), Reverse(*seq));
        let fresh = !model.contains_key(&place);
        assert_eq!(table.insert(key, *seq, *op, value), fresh);
        model.entry(place).or_insert_with(|| (*op, value.clone()));
    }
    (table, model)
}

fn entry_at(iter: &MemIter) -> Option<(Vec<u8>, Seq, Op, Vec<u8>)> {
    iter.valid().then(|| {
        (
            iter.key().to_vec(),
            iter.seq(),
            iter.op(),
            iter.value().to_vec(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn behaves_like_a_sorted_map(
        versions in prop::collection::vec(version(), 0..120),
        probes in prop::collection::vec((small_key(), 0..60u64), 1..40),
    ) {
        let (table, model) = build(&versions);
        prop_assert_eq!(table.entries(), model.len() as u64);
        prop_assert_eq!(table.deletes(), model.values().filter(|v| v.0 == Op::Delete).count() as u64);
        let all: Vec<_> = model.iter().map(|((k, s), (op, v))| (k.clone(), s.0, *op, v.clone())).collect();

        let mut iter = table.iter();
        iter.seek_to_first().unwrap();
        let mut forward = Vec::new();
        while let Some(entry) = entry_at(&iter) {
            forward.push(entry);
            iter.next().unwrap();
        }
        prop_assert_eq!(&forward, &all);
        iter.seek_to_last().unwrap();
        let mut backward = Vec::new();
        while let Some(entry) = entry_at(&iter) {
            backward.push(entry);
            iter.prev().unwrap();
        }
        backward.reverse();
        prop_assert_eq!(&backward, &all);

        for (key, seq) in &probes {
            let expected = all.iter().find(|e| e.0 == *key && e.1 <= *seq);
            let found = table.get(key, *seq).map(|e| (key.clone(), e.seq, e.op, e.value.to_vec()));
            prop_assert_eq!(found.as_ref(), expected);
            iter.seek(key).unwrap();
            prop_assert_eq!(entry_at(&iter), (all.iter().find(|e| e.0 >= *key)).cloned());
            iter.seek_for_prev(key).unwrap();
            prop_assert_eq!(entry_at(&iter), (all.iter().rev().find(|e| e.0 <= *key)).cloned());
            iter.seek_version(key, *seq).unwrap();
            let at = all.iter().find(|e| e.0 > *key || (e.0 == *key && e.1 <= *seq));
            prop_assert_eq!(entry_at(&iter), (at).cloned());
        }
    }
}

#[test]
fn keys_that_ascend_side_by_side_come_out_in_order() {
    let table = Memtable::new();
    let mut keys = Vec::new();
    for i in 0..6_000u32 {
        // Two runs that ascend in blocks, one that descends, and what falls between others.
        let block = i / 50;
        keys.push(match i % 200 {
            0..50 => 1_000_000 + i,
            50..150 => 2_000_000 + i,
            150..190 => 3_000_000 - i,
            _ => 1_000_000 + block * 30,
        });
    }
    let inserted: Vec<bool> = keys
        .iter()
        .map(|key| table.insert(&key.to_be_bytes(), 1, Op::Put, b"v"))
        .collect();
    let mut expected = std::collections::BTreeSet::new();
    for (key, is_new) in keys.iter().zip(inserted) {
        assert_eq!(expected.insert(key.to_be_bytes().to_vec()), is_new, "{key}");
    }
    let found = table.entries_in_order().map(|(key, _)| key.to_vec());
    assert!(found.eq(expected.iter().cloned()));
    for key in &expected {
        assert!(table.get(key, LATEST).is_some());
    }
}

#[test]
fn sorted_batches_of_several_threads_meet() {
    const THREADS: u64 = 4;
    let table = Memtable::new();
    let key =
        |thread: u64, round: u64, n: u64| (n * 1_000 + round * THREADS + thread).to_be_bytes();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let table = &table;
            scope.spawn(move || {
                for round in 0..40 {
                    let mut ascending = table.ascending();
                    let keys = (0..200).filter(|n| (n + round) % 3 != thread % 3);
                    let keys: Vec<_> = keys.map(|n| key(thread, round, n)).collect();
                    for group in keys.chunks(1 + round as usize % GROUP) {
                        let group: Vec<Insert<'_>> = group
                            .iter()
                            .map(|key| (&key[..], Op::Put, &key[..]))
                            .collect();
                        assert!(ascending.insert_group(&group, 1 + round));
                    }
                    // All of them again, newer.
                    let mut ascending = table.ascending();
                    for n in (0..200).filter(|n| n % 2 == 0) {
                        let key = key(thread, round, n);
                        assert!(ascending.insert(&key, 100 + round, Op::Put, b"newer"));
                    }
                }
            });
        }
    });
    let keys: Vec<_> = table
        .entries_in_order()
        .map(|(key, e)| (key, Reverse(e.seq)))
        .collect();
    assert!(keys.is_sorted() && keys.len() as u64 == table.entries());
    for thread in 0..THREADS {
        for (round, n) in (0..40).flat_map(|round| (0..200).map(move |n| (round, n))) {
            let first = (n + round) % 3 != thread % 3;
            let newest = match n % 2 == 0 {
                true => Some(100 + round),
                false => first.then_some(1 + round),
            };
            let found = table.get(&key(thread, round, n), LATEST);
            assert_eq!(found.map(|entry| entry.seq), newest);
        }
    }
}

#[test]
fn many_entries_climb_the_levels() {
    let table = Memtable::new();
    for i in 0..20_000u32 {
        let key = i.wrapping_mul(2_654_435_761).to_be_bytes();
        assert!(table.insert(&key, 1, Op::Put, &i.to_le_bytes()));
    }
    for i in 0..20_000u32 {
        let key = i.wrapping_mul(2_654_435_761).to_be_bytes();
        assert_eq!(
            table.get(&key, LATEST).expect("inserted").value,
            i.to_le_bytes()
        );
    }
    assert!(table.get(b"absent", LATEST).is_none());
}

/// Versions of one key fill a chain, more keys than slots make new generations, and an old snapshot looks past newer
/// versions: point reads are right in every case.
#[test]
fn point_reads_find_the_version_of_their_snapshot() {
    let table = Memtable::new();
    let key = |i: u64| (i * 7).to_be_bytes();
    let mut seq = 0;
    for round in 0..20 {
        for i in 0..3_000 {
            // The first keys get a version in every round, the others one each.
            if i < 3 || i % 20 == round {
                seq += 1;
                assert!(table.insert(&key(i), seq, Op::Put, &seq.to_be_bytes()));
            }
        }
    }
    let mut versions = Model::new();
    for (key, entry) in table.entries_in_order() {
        versions.insert(
            (key.to_vec(), Reverse(entry.seq)),
            (entry.op, entry.value.to_vec()),
        );
    }
    for snapshot in [0, 1, 5, 200, seq / 2, seq - 1, seq, u64::MAX] {
        for i in 0..3_010 {
            let (from, to) = (
                (key(i).to_vec(), Reverse(snapshot)),
                (key(i).to_vec(), Reverse(0)),
            );
            let expected = versions.range(from..=to).next();
            let found = table.get(&key(i), snapshot);
            assert_eq!(
                found.map(|e| (e.seq, e.value.to_vec())),
                expected.map(|((_, seq), (_, value))| (seq.0, value.clone())),
                "key {i} at {snapshot}"
            );
        }
    }
}

#[test]
fn long_keys_and_values() {
    let table = Memtable::new();
    let key = vec![b'k'; MAX_KEY_BYTES];
    let value = vec![b'v'; 3 << 20];
    assert!(table.insert(&key, 5, Op::Put, &value));
    assert!(table.insert(&key[..MAX_KEY_BYTES - 1], 5, Op::Put, b"shorter"));
    assert_eq!(table.get(&key, 9).expect("inserted").value, value);
    assert_eq!(
        table
            .get(&key[..MAX_KEY_BYTES - 1], 9)
            .expect("inserted")
            .value,
        b"shorter"
    );
    assert!(table.bytes() >= value.len());
}

#[test]
fn concurrent_inserts_are_all_there_and_in_order() {
    const THREADS: u64 = 4;
    const EACH: u64 = 5_000;
    let table = Arc::new(Memtable::new());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let table = &table;
                scope.spawn(move || {
                    for i in 0..EACH {
                        // Neighbouring keys from different threads, so that they meet in the same gaps, and one hot
                        // key.
                        let key = (i * THREADS + thread).to_be_bytes();
                        assert!(table.insert(&key, 1 + thread, Op::Put, &key));
                        table.insert(b"hot", 1 + i * THREADS + thread, Op::Put, &key);
                        // The same version from all threads goes in once.
                        table.insert(&(i + 1_000_000).to_be_bytes(), 7, Op::Put, b"same");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            // A reader sees an ordered list at any moment, and never fewer entries than before.
            let mut before = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut iter = table.iter();
                iter.seek_to_first().unwrap();
                let mut count = 0;
                let mut previous: Option<(Vec<u8>, Seq)> = None;
                while let Some((key, seq, _, _)) = entry_at(&iter) {
                    if let Some((before_key, before_seq)) = &previous {
                        assert!(*before_key < key || (*before_key == key && *before_seq > seq));
                    }
                    previous = Some((key, seq));
                    count += 1;
                    iter.next().unwrap();
                }
                assert!(count >= before);
                before = count;
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(table.entries(), THREADS * EACH * 2 + EACH);
    for i in 0..THREADS * EACH {
        let entry = table.get(&i.to_be_bytes(), LATEST).expect("inserted");
        assert_eq!(
            (entry.seq, entry.value),
            (1 + i % THREADS, &i.to_be_bytes()[..])
        );
        let hot = table.get(b"hot", 1 + i).expect("inserted");
        assert_eq!((hot.seq, hot.value), (1 + i, &i.to_be_bytes()[..]));
    }
}

#[test]
fn pin_keeps_a_sealed_table_unquiet() {
    let table = Memtable::new();
    assert!(!table.is_quiescent());
    let pin = table.pin(100, 120).expect("not sealed");
    table.seal();
    assert!(!table.is_quiescent());
    assert!(table.pin(120, 130).is_none());
    drop(pin);
    assert!(table.is_quiescent());
    // The refused pin left no trace.
    assert_eq!((table.first_lsn(), table.max_seq()), (100, 120));
}

#[test]
fn nobody_inserts_behind_a_quiet_table() {
    for round in 0..200 {
        let table = Memtable::new();
        thread::scope(|scope| {
            for writer in 0..2u64 {
                let table = &table;
                scope.spawn(move || {
                    for i in 1.. {
                        let Some(_pin) = table.pin(i, i + 1) else {
                            return;
                        };
                        assert!(!table.is_quiescent());
                        table.insert(&(writer << 32 | i).to_be_bytes(), i + 1, Op::Put, b"");
                    }
                });
            }
            while table.entries() < round {}
            table.seal();
            while !table.is_quiescent() {
                thread::yield_now();
            }
            let entries = table.entries();
            thread::yield_now();
            assert_eq!(table.entries(), entries);
        });
    }
}

#[test]
fn cleared_table_is_as_new() {
    let mut table = Memtable::new();
    for i in 0..1000u64 {
        table.insert(&i.to_be_bytes(), 3, Op::Delete, b"");
    }
    drop(table.pin(1, 2));
    table.seal();
    table.clear();
    assert!(table.is_empty() && table.deletes() == 0 && table.max_seq() == 0);
    assert!(table.get(&5u64.to_be_bytes(), LATEST).is_none());
    assert!(table.insert(b"a", 1, Op::Put, b"b"));
    assert!(table.pin(5, 6).is_some());
    assert_eq!(table.get(b"a", LATEST).expect("inserted").value, b"b");
}

#[test]
fn allocations_are_aligned_and_do_not_overlap() {
    let arena = Arena::new();
    assert_eq!(arena.allocated_bytes(), 0);
    let mut places: Vec<(usize, usize)> = Vec::new();
    for i in 0..2000usize {
        let size = 1 + (i * 37) % 900;
        let place = arena.allocate(size).as_ptr() as usize;
        assert_eq!(place % ALIGN, 0);
        places.push((place, size));
    }
    places.sort_unstable();
    for pair in places.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0);
    }
    assert!(arena.used_bytes() >= places.iter().map(|p| p.1).sum());
    assert!(arena.used_bytes() <= arena.allocated_bytes());
}

#[test]
fn large_allocation_gets_its_own_chunk() {
    let arena = Arena::new();
    arena.allocate(16);
    let before = arena.allocated_bytes();
    arena.allocate(5_000_000);
    let after = before + 5_000_000_usize.next_multiple_of(Pages::UNIT);
    assert_eq!(arena.allocated_bytes(), after);
    // The small chunk is still in use.
    arena.allocate(16);
    assert_eq!(arena.allocated_bytes(), after);
}

#[test]
fn clear_keeps_little() {
    let mut arena = Arena::new();
    for _ in 0..10_000 {
        arena.allocate(100);
    }
    arena.clear();
    assert!(arena.allocated_bytes() <= KEPT_CHUNK_BYTES);
    assert_eq!(arena.used_bytes(), 0);
    arena.allocate(64);
    assert_eq!(arena.used_bytes(), 64);
}

/// A read with an old snapshot passes few of the versions of a hot row, whatever their number.
#[test]
fn old_versions_of_a_hot_key_are_near() {
    const VERSIONS: u64 = 10_000;
    let arena = Arena::new();
    let versions = Versions::new();
    for seq in 1..=VERSIONS {
        assert!(versions.insert(&arena, seq, Op::Put, b""));
        assert!(!versions.insert(&arena, seq, Op::Put, b""));
    }
    for snapshot in 1..=VERSIONS {
        let found = versions.up_to(snapshot);
        assert_eq!(found.map(|version| version.seq()), Some(snapshot));
        let newer = std::iter::successors(versions.newest(), |at| at.towards(snapshot));
        let passed = newer.count();
        assert!(passed <= 40, "{passed} versions passed for {snapshot}");
    }
    assert!(versions.up_to(0).is_none());
    assert_eq!(versions.after(0).map(|version| version.seq()), Some(1));
}
