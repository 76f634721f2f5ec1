//! Extents as a whole: written, read in every way, damaged.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker_vfs::sim::{Fault, Op as DiskOp, SimEnv, SimRng};
use proptest::prelude::*;

use super::*;
use crate::budget::MemoryUse;
use crate::cache::BlockCache;
use crate::iter::{InternalIter, compare_versions};
use crate::tree::{Health, Run, RunId, RunIter};
use crate::{EngineError, Op, Seq, TreeId};

const DIR: &str = "/db/extents";

pub(crate) fn store(sim: &SimEnv, options: ExtentOptions) -> Arc<Store> {
    let env = sim.env();
    let dir = Path::new(DIR);
    env.fs.create_dir_all(dir).unwrap();
    let space = Space::open(env.fs, dir, Health::for_tests(), std::iter::empty()).unwrap();
    Store::new(space, BlockCache::new(1 << 20), options, env.random)
}

fn small(compression: Compression) -> ExtentOptions {
    ExtentOptions {
        block_bytes: 512,
        extent_bytes: 8 << 10,
        filter_bits_per_key: 10,
        compression: [compression; 3],
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    key: Vec<u8>,
    seq: Seq,
    op: Op,
    value: Vec<u8>,
}

/// Sorted versions: many keys with one version, some with many.
fn versions(seed: u64, keys: u64) -> Vec<Version> {
    let mut rng = SimRng::new(seed);
    let mut all = BTreeMap::new();
    for _ in 0..keys {
        let key = format!("table/{:05}/row", rng.below(keys * 2)).into_bytes();
        let count = if rng.chance(3) {
            1 + rng.below(60)
        } else {
            1 + rng.below(2)
        };
        for _ in 0..count {
            let op = if rng.chance(20) { Op::Delete } else { Op::Put };
            let mut value = vec![0; rng.below(60) as usize];
            rng.fill(&mut value);
            value.resize(value.len() + rng.below(40) as usize, b'x');
            if op == Op::Delete {
                value.clear();
            }
            let seq = 1 + rng.below(1000);
            all.insert((key.clone(), std::cmp::Reverse(seq)), (op, value));
        }
    }
    all.into_iter()
        .map(|((key, seq), (op, value))| Version {
            key,
            seq: seq.0,
            op,
            value,
        })
        .collect()
}

fn write(store: &Arc<Store>, versions: &[Version]) -> Vec<Arc<Extent>> {
    let mut writer = RunWriter::new(store, TreeId(7), 1);
    for version in versions {
        writer
            .add(&version.key, version.seq, version.op, &version.value)
            .unwrap();
    }
    let extents = writer.finish().unwrap();
    store
        .space
        .sync(extents.iter().map(|extent| extent.slots()))
        .unwrap();
    extents
}

fn here(iter: &dyn InternalIter) -> Option<Version> {
    iter.valid().then(|| Version {
        key: iter.key().to_vec(),
        seq: iter.seq(),
        op: iter.op(),
        value: iter.value().to_vec(),
    })
}

#[test]
fn a_run_is_cut_into_extents_that_fit_and_verify() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
        let sim = SimEnv::new(3);
        let store = store(&sim, small(compression));
        let versions = versions(11, 600);
        let extents = write(&store, &versions);
        assert!(extents.len() > 3);
        for extent in &extents {
            extent.verify().unwrap();
            assert!(extent.meta().stored_bytes <= 8 << 10);
            assert_eq!(extent.meta().slots, 1);
        }
        let entries: u64 = extents.iter().map(|extent| extent.meta().entries).sum();
        assert_eq!(entries, versions.len() as u64);
        let deletes: u64 = extents.iter().map(|extent| extent.meta().deletes).sum();
        assert_eq!(
            deletes,
            versions.iter().filter(|v| v.op == Op::Delete).count() as u64
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_run_reads_like_a_sorted_list(
        seed in any::<u64>(),
        keys in 1..300u64,
        walk in prop::collection::vec((0..8u8, 0..700u64, 0..1100u64), 1..120),
    ) {
        let sim = SimEnv::new(seed);
        let store = store(&sim, small(Compression::Lz4));
        let list = versions(seed, keys);
        let run = Run::new(RunId(1), write(&store, &list));
        for mode in [ReadMode::Cached, ReadMode::Ahead, ReadMode::Once] {
            let mut iter = RunIter::new(run.clone(), mode);
            let mut at: Option<usize> = None;
            for &(step, number, seq) in &walk {
                let key = format!("table/{number:05}/row").into_bytes();
                match step {
                    0 => {
                        iter.seek(&key).unwrap();
                        at = list.iter().position(|v| v.key >= key);
                    }
                    1 => {
                        iter.seek_version(&key, seq).unwrap();
                        at = list.iter().position(|v| compare_versions(&v.key, v.seq, &key, seq).is_ge());
                    }
                    2 => {
                        iter.seek_for_prev(&key).unwrap();
                        at = list.iter().rposition(|v| v.key <= key);
                    }
                    3 => {
                        iter.seek_to_first().unwrap();
                        at = Some(0);
                    }
                    4 => {
                        iter.seek_to_last().unwrap();
                        at = Some(list.len() - 1);
                    }
                    // Several steps in one direction, over the borders of blocks and extents.
                    5 | 6 => for _ in 0..number % 40 {
                        if at.is_some() {
                            iter.next().unwrap();
                            at = at.map(|i| i + 1).filter(|i| *i < list.len());
                        }
                    },
                    _ => for _ in 0..number % 40 {
                        if at.is_some() {
                            iter.prev().unwrap();
                            at = at.and_then(|i| i.checked_sub(1));
                        }
                    },
                }
                prop_assert_eq!(here(&iter), at.map(|i| list[i].clone()));
            }
        }
    }

    #[test]
    fn point_reads_find_the_newest_visible_version(seed in any::<u64>(), keys in 1..300u64) {
        let sim = SimEnv::new(seed);
        let store = store(&sim, small(Compression::Zstd(1)));
        let list = versions(seed, keys);
        let run = Run::new(RunId(1), write(&store, &list));
        for number in 0..keys * 2 {
            let key = format!("table/{number:05}/row").into_bytes();
            for snapshot in [0, 1, 250, 500, 999, Seq::MAX] {
                let expected = list.iter().find(|v| v.key == key && v.seq <= snapshot);
                let extent = run.extents().get(run.find(&key, snapshot));
                let found = extent.and_then(|e| e.get(&key, KeyHash::of(&key), snapshot).unwrap());
                let found = found.map(|f| Version {
                    key: key.clone(), seq: f.seq(), op: f.op(), value: f.value().to_vec(),
                });
                prop_assert_eq!(found.as_ref(), expected);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn many_keys_are_found_as_each_alone(seed in any::<u64>(), keys in 1..300u64, step in 1..9usize) {
        let sim = SimEnv::new(seed);
        let store = store(&sim, small(Compression::Lz4));
        let extents = write(&store, &versions(seed, keys));
        // As many that are there as are not, and some outside of the extent.
        let wanted = (0..keys * 2).step_by(step).map(|n| format!("table/{n:05}/row").into_bytes());
        let wanted: Vec<Vec<u8>> = wanted.collect();
        for group in wanted.chunks(MOST_KEYS) {
            let group: Vec<&[u8]> = group.iter().map(Vec::as_slice).collect();
            for extent in &extents {
                let mut is_row = vec![true; group.len()];
                extent.find_rows(&group, &mut is_row).unwrap();
                for (key, is_row) in group.iter().zip(is_row) {
                    let found = extent.get(key, KeyHash::of(key), Seq::MAX).unwrap();
                    prop_assert_eq!(is_row, found.is_some_and(|found| found.op() == Op::Put));
                }
            }
        }
    }
}

#[test]
fn rows_larger_than_what_is_read_ahead_lie_between_small_ones() {
    let sim = SimEnv::new(4);
    let store = store(&sim, small(Compression::None));
    let used = || store.cache.budget().used(MemoryUse::Background);
    let lengths = [10, 300, 700 << 10, 10, 20, 900 << 10, 800 << 10, 5];
    let list: Vec<Version> = (0..)
        .zip(lengths)
        .map(|(n, length)| Version {
            key: vec![n],
            seq: 3,
            op: Op::Put,
            value: vec![n; length],
        })
        .collect();
    let run = Run::new(RunId(1), write(&store, &list));
    assert!(run.extents().len() > 3);
    let before = used();
    for mode in [ReadMode::Ahead, ReadMode::Once, ReadMode::Device] {
        let mut iter = RunIter::new(run.clone(), mode);
        iter.seek_to_first().unwrap();
        for version in &list {
            assert_eq!(here(&iter).as_ref(), Some(version));
            let most = version.value.len().max(512 << 10) + 4096;
            assert!(used() - before <= most, "{mode:?}: {}", used() - before);
            iter.next().unwrap();
        }
        assert!(!iter.valid());
        drop(iter);
        assert_eq!(used(), before);
    }
}

#[test]
fn every_flipped_bit_is_found_or_does_no_harm() {
    let sim = SimEnv::new(5);
    let store = store(&sim, small(Compression::Lz4));
    let list = versions(8, 12);
    let extents = write(&store, &list);
    assert_eq!(extents.len(), 1);
    let extent = &extents[0];
    let path = extent.slots().path();
    let stored = u64::from(extent.meta().stored_bytes);
    for offset in 0..stored {
        for bit in 0..8 {
            sim.fs.flip_bit(&path, offset, bit).unwrap();
            store.cache.clear();
            let error = extent.verify().unwrap_err();
            assert!(
                matches!(error, EngineError::Corruption { .. }),
                "{offset}.{bit}: {error}"
            );
            // Readers, who do not look at the header, find what was written or an error.
            let mut iter = RunIter::new(Run::new(RunId(1), extents.clone()), ReadMode::Once);
            let mut result = iter.seek_to_first();
            for expected in &list {
                if result.is_err() {
                    break;
                }
                assert_eq!(here(&iter).as_ref(), Some(expected), "{offset}.{bit}");
                result = iter.next();
            }
            sim.fs.flip_bit(&path, offset, bit).unwrap();
        }
    }
    extent.verify().unwrap();
    // What lies behind the end has no meaning: the slot may hold the rest of an earlier extent.
    extent
        .slots()
        .file()
        .write_all_at(&[0xA5; 64], stored)
        .unwrap();
    store.cache.clear();
    extent.verify().unwrap();
}

#[test]
fn an_error_names_file_and_place() {
    let sim = SimEnv::new(5);
    let store = store(&sim, small(Compression::None));
    let extents = write(&store, &versions(8, 400));
    let victim = &extents[2];
    let path = victim.slots().path();
    sim.fs
        .flip_bit(&path, victim.meta().id.offset() + 100, 3)
        .unwrap();
    let EngineError::Corruption { file, offset, what } = victim.verify().unwrap_err() else {
        panic!("not a corruption");
    };
    assert!(file.ends_with("000000.extents"));
    assert_eq!(offset, victim.meta().id.offset() + HEADER_BYTES as u64);
    assert!(
        what.contains("checksum") && what.contains("tree 7"),
        "{what}"
    );
}

#[test]
fn bytes_of_an_earlier_owner_of_the_slot_are_not_believed() {
    let sim = SimEnv::new(5);
    let store = store(&sim, small(Compression::None));
    let old = write(&store, &versions(1, 5)).remove(0);
    let (meta, path) = (old.meta().clone(), old.slots().path());
    drop(old);
    // The same entries again: same slot, same bytes but for the stamp.
    let new = write(&store, &versions(1, 5)).remove(0);
    assert_eq!((new.meta().id, new.slots().path()), (meta.id, path));
    assert_ne!(new.meta().stamp, meta.stamp);
    new.slots().keep();
    let stale = Extent::adopt(&store, TreeId(7), meta);
    assert!(stale.verify().is_err());
    new.verify().unwrap();
}

#[test]
fn values_larger_than_an_extent_get_a_run_of_slots() {
    let sim = SimEnv::new(9);
    let store = store(&sim, ExtentOptions::default());
    let mut huge = vec![0; 5 << 20];
    SimRng::new(1).fill(&mut huge);
    let put = |key: &[u8], value: &[u8]| Version {
        key: key.to_vec(),
        seq: 5,
        op: Op::Put,
        value: value.to_vec(),
    };
    let list = vec![
        put(b"a", b"small"),
        put(b"b", &huge),
        put(b"c", b"small"),
        put(b"d", &huge[..3 << 20]),
    ];
    let extents = write(&store, &list);
    let slots: Vec<u32> = extents.iter().map(|extent| extent.meta().slots).collect();
    assert_eq!(slots, [1, 3, 1, 2]);
    let run = Run::new(RunId(1), extents);
    let mut iter = RunIter::new(run.clone(), ReadMode::Cached);
    iter.seek_to_first().unwrap();
    for expected in &list {
        assert!(here(&iter).as_ref() == Some(expected));
        iter.next().unwrap();
    }
    for extent in run.extents().iter() {
        extent.verify().unwrap();
    }
    // Such blocks do not push everything else out of the cache.
    assert!(store.cache.content_bytes() < 1 << 20);
    drop((iter, run));
    assert_eq!(store.space.stats().used_slots, 0);
}

#[test]
fn a_full_disk_and_a_failed_write_leave_nothing_behind() {
    for fault in [
        Fault::on(DiskOp::Allocate)
            .path(".extents")
            .after(3)
            .no_space(),
        Fault::on(DiskOp::Write).path(".extents").after(3),
    ] {
        let sim = SimEnv::new(9);
        let store = store(&sim, small(Compression::None));
        sim.fs.inject(fault);
        let mut writer = RunWriter::new(&store, TreeId(1), 0);
        let result = versions(2, 2000)
            .iter()
            .try_for_each(|v| writer.add(&v.key, v.seq, v.op, &v.value));
        assert!(matches!(
            result,
            Err(EngineError::DiskFull(_) | EngineError::WriteFailed { .. })
        ));
        drop(writer);
        // Only the place that could not be written stays out of use.
        let left_out = matches!(result, Err(EngineError::WriteFailed { .. }));
        assert_eq!(store.space.stats().used_slots, u64::from(left_out));
        // And it goes on when there is room again.
        for extent in write(&store, &versions(2, 500)) {
            extent.verify().unwrap();
        }
    }
}
