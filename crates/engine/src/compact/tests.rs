//! Compaction against a model with snapshots.
//!
//! Neighbours: `paper_tests` decide and plan only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use esker_vfs::sim::{Fault, Op as DiskOp, SimEnv, SimRng};

use super::paper_tests::limits;
use super::*;
use crate::cache::BlockCache;
use crate::extent::HasMeta;
use crate::iter::{InternalIter, MergingIter};
use crate::tree::{Tree, Trees, TreesConfig};
use crate::{EngineError, LATEST, Op, Seq};

fn open(sim: &SimEnv) -> Trees {
    let mut config = TreesConfig::new("/db", BlockCache::new(256 << 10), Arc::new(|_| ()));
    config.extents.block_bytes = 512;
    config.extents.extent_bytes = 8 << 10;
    config.limits = limits();
    Trees::open(&sim.env(), config).unwrap()
}

/// Longer than a tree needs to be left alone.
const AT_REST: Duration = Duration::from_secs(60);

/// A tree, and what must be in it.
struct World {
    trees: Trees,
    tree: Tree,
    /// Per key the versions, oldest first.
    model: BTreeMap<String, Vec<(Seq, Option<String>)>>,
    snapshots: BTreeSet<Seq>,
    seq: Seq,
    rng: SimRng,
    /// Slots that could not be written.
    out_of_use: u64,
}

impl World {
    fn new(sim: &SimEnv, seed: u64) -> World {
        let trees = open(sim);
        let tree = trees.create(0).unwrap();
        World {
            trees,
            tree,
            model: BTreeMap::new(),
            snapshots: BTreeSet::new(),
            seq: 10,
            rng: SimRng::new(seed),
            out_of_use: 0,
        }
    }

    fn write(&mut self, key: String, value: Option<String>) {
        self.seq += 1;
        let superversion = self.tree.superversion();
        let op = if value.is_some() { Op::Put } else { Op::Delete };
        let _pin = superversion.active.pin(self.seq - 1, self.seq).unwrap();
        let bytes = value.clone().unwrap_or_default();
        superversion
            .active
            .insert(key.as_bytes(), self.seq, op, bytes.as_bytes());
        self.model.entry(key).or_default().push((self.seq, value));
    }

    fn write_randomly(&mut self, keys: u64) {
        let key = format!("key/{:06}", self.rng.below(keys));
        let value = (!self.rng.chance(25)).then(|| {
            let length = self.rng.below(80) as usize;
            let random: String = (0..length)
                .map(|_| char::from(b'!' + self.rng.below(90) as u8))
                .collect();
            format!("{}-{random}", self.seq)
        });
        self.write(key, value);
    }

    fn oldest(&self) -> Seq {
        self.snapshots.first().copied().unwrap_or(self.seq)
    }

    fn rotate_and_flush(&mut self) {
        self.tree.rotate(self.seq);
        while self.trees.flush(&self.tree, self.oldest()).unwrap() {}
    }

    fn compact_all(&mut self) -> CompactionStats {
        let mut sum = CompactionStats::default();
        let mut rounds = 0;
        while let Some(stats) = self
            .trees
            .compact_tree(&self.tree, self.oldest(), Effort::Full)
            .unwrap()
        {
            sum += stats;
            rounds += 1;
            assert!(rounds < 1000, "compaction does not end");
        }
        sum
    }

    fn expected(&self, key: &str, snapshot: Seq) -> Option<&str> {
        let versions = self.model.get(key)?;
        let newest = versions.iter().rev().find(|(seq, _)| *seq <= snapshot)?;
        newest.1.as_deref()
    }

    fn point(&self, key: &str, snapshot: Seq) -> Option<String> {
        let superversion = self.tree.superversion();
        let text = |op: Op, value: &[u8]| {
            (op == Op::Put).then(|| String::from_utf8(value.to_vec()).unwrap())
        };
        for table in std::iter::once(&superversion.active).chain(&superversion.immutables) {
            if let Some(entry) = table.get(key.as_bytes(), snapshot) {
                return text(entry.op, entry.value);
            }
        }
        let found = superversion
            .version
            .get(key.as_bytes(), snapshot, |_, op, value| text(op, value));
        found.unwrap().flatten()
    }

    /// Everything visible, by walking in one direction.
    fn scan(&self, snapshot: Seq, forward: bool) -> Vec<(String, String)> {
        let superversion = self.tree.superversion();
        let tables = std::iter::once(&superversion.active).chain(&superversion.immutables);
        let mut sources: Vec<Box<dyn InternalIter>> = tables
            .map(|table| Box::new(table.iter()) as Box<dyn InternalIter>)
            .collect();
        sources.extend(superversion.version.iters());
        let mut iter = MergingIter::new(sources);
        let mut newest: BTreeMap<String, (Seq, Option<String>)> = BTreeMap::new();
        if forward {
            iter.seek_to_first().unwrap()
        } else {
            iter.seek_to_last().unwrap()
        }
        while iter.valid() {
            if iter.seq() <= snapshot {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let value = (iter.op() == Op::Put).then(|| text(iter.value()));
                let slot = newest.entry(text(iter.key())).or_insert((0, None));
                if iter.seq() > slot.0 {
                    *slot = (iter.seq(), value);
                }
            }
            if forward {
                iter.next().unwrap()
            } else {
                iter.prev().unwrap()
            }
        }
        newest
            .into_iter()
            .filter_map(|(key, (_, value))| Some((key, value?)))
            .collect()
    }

    fn check(&self) {
        for snapshot in self.snapshots.iter().copied().chain([self.seq, LATEST]) {
            let expected: Vec<(String, String)> = self
                .model
                .keys()
                .filter_map(|key| Some((key.clone(), self.expected(key, snapshot)?.to_owned())))
                .collect();
            for forward in [true, false] {
                let found = self.scan(snapshot, forward);
                let wrong = found.iter().zip(&expected).find(|(a, b)| a != b);
                assert_eq!(
                    wrong, None,
                    "snapshot {snapshot} of {}, forward {forward}",
                    self.seq
                );
                assert_eq!(found.len(), expected.len());
            }
            for key in self.model.keys() {
                assert_eq!(
                    self.point(key, snapshot).as_deref(),
                    self.expected(key, snapshot)
                );
            }
        }
        let version = Arc::clone(&self.tree.superversion().version);
        let slots: u64 = version
            .levels()
            .extents()
            .map(|(_, e)| u64::from(e.meta().slots))
            .sum();
        assert_eq!(
            self.trees.stats().space.used_slots,
            slots + self.out_of_use,
            "no slot has leaked"
        );
    }
}

#[test]
fn flush_and_compaction_change_nothing_that_a_snapshot_sees() {
    let mut dropped = 0;
    let mut deepest = [0; 3];
    for seed in 0..12 {
        let sim = SimEnv::new(seed);
        let mut world = World::new(&sim, seed);
        let keys = [30, 400, 3000][seed as usize % 3];
        for round in 0..1500u64 {
            match world.rng.below(100) {
                0..2 => {
                    world.snapshots.insert(world.seq);
                }
                2..5 => {
                    let pick = world.rng.below(8) as usize;
                    let oldest = world.snapshots.iter().nth(pick).copied();
                    oldest.map(|snapshot| world.snapshots.remove(&snapshot));
                }
                5..7 => world.rotate_and_flush(),
                7..10 => {
                    let stats = world
                        .trees
                        .compact_tree(&world.tree, world.oldest(), Effort::Full)
                        .unwrap();
                    dropped += stats.map_or(0, |stats| stats.dropped_entries);
                }
                10 => {
                    world.tree.rotate(world.seq);
                }
                11 => sim.clock.advance(AT_REST),
                _ => (0..5).for_each(|_| world.write_randomly(keys)),
            }
            if round % 300 == 299 {
                world.check();
            }
        }
        world.rotate_and_flush();
        dropped += world.compact_all().dropped_entries;
        world.check();
        let totals = world.tree.superversion().version.totals();
        (0..3).for_each(|level| deepest[level] += totals.extents[level]);
        assert!(totals.l0_runs < limits().l0_runs);
        // And after a restart.
        let tree = world.tree.id();
        drop(std::mem::replace(&mut world.trees, open(&SimEnv::new(99))));
        world.trees = open(&sim);
        world.tree = world.trees.get(tree).unwrap();
        world.check();
    }
    assert!(dropped > 1000, "old versions go: {dropped}");
    assert!(
        deepest.iter().all(|extents| *extents > 0),
        "every level is used: {deepest:?}"
    );
}

#[test]
fn a_tree_at_rest_sinks_to_the_lowest_level_and_stays_there() {
    for ascending in [true, false] {
        let sim = SimEnv::new(1);
        let mut world = World::new(&sim, 1);
        for n in 0..6000 {
            match ascending {
                true => world.write(format!("key/{n:08}"), Some(format!("value {n}"))),
                false => world.write_randomly(3000),
            }
            if n % 500 == 499 {
                world.rotate_and_flush();
                world.compact_all();
            }
        }
        let totals = || world.tree.superversion().version.totals();
        assert!(totals().bytes[0] + totals().bytes[1] > 0);
        assert_eq!(
            world.trees.stats().work.kinds[CompactionKind::Space as usize].0,
            0
        );
        sim.clock.advance(AT_REST);
        while world.trees.compact_one(world.seq, Effort::Full).unwrap() {}
        let (now, limits) = (totals(), limits());
        let upper = now.bytes[0] + now.bytes[1];
        assert!(
            upper
                < limits
                    .sink_bytes
                    .max(now.bytes[2] / 100 * limits.sink_percent)
        );
        let version = Arc::clone(&world.tree.superversion().version);
        let bottom = version.levels().level(2).extents().iter();
        let packed: BTreeSet<u8> = bottom.map(|extent| extent.meta().packed_for).collect();
        assert_eq!(packed, BTreeSet::from([2]));
        world.check();
        // It is as small as it gets, also after a restart.
        let tree = world.tree.id();
        drop((
            version,
            std::mem::replace(&mut world.trees, open(&SimEnv::new(99))),
        ));
        world.trees = open(&sim);
        world.tree = world.trees.get(tree).unwrap();
        assert!(!world.trees.compact_one(world.seq, Effort::Full).unwrap());
        world.trees.sink_tree(&world.tree, world.seq).unwrap();
        let totals = world.tree.superversion().version.totals();
        assert_eq!((totals.bytes[0], totals.bytes[1]), (0, 0));
        world.check();
    }
}

#[test]
fn what_is_too_little_to_sink_is_compressed_where_it_lies() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    let text = "as well compressed as the level below it ".repeat(3);
    let fill = |world: &mut World, step| {
        for n in (0..4000).step_by(step) {
            world.write(format!("key/{n:08}"), Some(format!("{n} {text}")));
        }
        world.rotate_and_flush();
    };
    fill(&mut world, 1);
    world.trees.sink_tree(&world.tree, world.seq).unwrap();
    let extents = |world: &World| {
        let version = Arc::clone(&world.tree.superversion().version);
        let all = version.levels().extents();
        let figures = all.map(|(place, extent)| {
            let meta = extent.meta();
            (place.level, meta.packed_for, meta.id, meta.stored_bytes)
        });
        figures.collect::<Vec<_>>()
    };
    let bytes = |list: &[(u8, u8, _, u32)], level| {
        let of_level = list.iter().filter(|extent| extent.0 == level);
        of_level.map(|extent| u64::from(extent.3)).sum::<u64>()
    };
    let sunk = extents(&world);
    fill(&mut world, 40);
    let before = extents(&world);
    let (upper, bottom) = (bytes(&before, 0), bytes(&before, 2));
    assert!((limits().sink_bytes..bottom / 100 * limits().sink_percent).contains(&upper));
    assert!(!world.trees.compact_one(world.seq, Effort::Full).unwrap());
    sim.clock.advance(AT_REST);
    world.compact_all();
    let after = extents(&world);
    assert!(after.iter().all(|extent| extent.1 == 2), "{after:?}");
    assert!(bytes(&after, 0) > 0 && bytes(&after, 0) < upper / 2);
    let (work, _) = world.trees.stats().work.kinds[CompactionKind::Space as usize];
    assert!(sunk.iter().all(|extent| after.contains(extent)));
    assert!(work > 0);
    world.check();
}

#[test]
fn a_compaction_ends_when_nobody_wants_it_any_more() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    fill_until_a_merge_is_due(&mut world);
    let before = world.trees.stats();
    let version = Arc::clone(&world.tree.superversion().version);
    let task = pick(version.levels(), &limits()).unwrap();
    let mut pace = pacing::Pace::new(&world.trees, &world.tree, &task, Effort::Full);
    pace.step(100).unwrap();
    pace.step(1 << 30).unwrap();
    world.trees.cancel_compactions();
    pace.step(100).unwrap();
    assert!(matches!(pace.step(1 << 30), Err(EngineError::Stopped(_))));
    world.trees.drop_tree(world.tree.id()).unwrap();
    assert!(matches!(
        pace.step(1 << 30),
        Err(EngineError::NoSuchTree(_))
    ));
    assert_eq!(world.trees.stats().work, before.work);
}

#[test]
fn runs_stay_few_under_sustained_random_writes() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    let mut worst = 0;
    for _ in 0..60 {
        (0..300).for_each(|_| world.write_randomly(20_000));
        world.rotate_and_flush();
        // One job per flush: compaction gets no more turns than flushes.
        world
            .trees
            .compact_tree(&world.tree, world.oldest(), Effort::Full)
            .unwrap();
        worst = worst.max(world.tree.superversion().version.levels().l0_runs().len());
    }
    assert!(worst <= limits().l0_slowdown_runs, "{worst} l0_runs");
    world.compact_all();
    world.check();
}

#[test]
fn ascending_inserts_are_linked_down_and_hardly_rewritten() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    let mut sum = CompactionStats::default();
    for n in 0..12_000 {
        world.write(format!("key/{n:08}"), Some(format!("value {n}")));
        if n % 1000 == 999 {
            world.rotate_and_flush();
            let stats = world.compact_all();
            sum.linked += stats.linked;
            sum.written_bytes += stats.written_bytes;
        }
    }
    let totals = world.tree.superversion().version.totals();
    assert!(sum.linked > 30, "{sum:?}");
    assert!(totals.extents[2] > 0, "{totals:?}");
    let bytes: u64 = totals.bytes.iter().sum();
    assert!(sum.written_bytes < bytes / 2, "{sum:?} of {bytes}");
    world.check();
}

#[test]
fn many_small_flushes_do_not_leave_many_small_extents() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    for n in 0..600 {
        world.write(format!("key/{n:08}"), Some(format!("value {n}")));
        if n % 3 == 0 {
            world.rotate_and_flush();
            world.compact_all();
        }
    }
    let totals = world.tree.superversion().version.totals();
    let extents: u64 = totals.extents.iter().sum();
    assert!(extents < 10, "{totals:?}");
    world.check();
}

#[test]
fn values_larger_than_an_extent_pass_through_flush_compaction_and_restart() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    for round in 0..3 {
        (0..300).for_each(|_| world.write_randomly(400));
        // Three slots and one; both are written anew in every round.
        let huge = format!("{round}").repeat(5 << 20);
        world.write("key/000007".to_owned(), Some(huge));
        world.write("key/000300".to_owned(), Some("y".repeat(20 << 10)));
        world.rotate_and_flush();
        world.compact_all();
    }
    world.check();
    let tree = world.tree.id();
    world.trees = open(&sim);
    world.tree = world.trees.get(tree).unwrap();
    assert_eq!(world.trees.verify(|error| panic!("{error}")), {
        let totals = world.tree.superversion().version.totals();
        totals.extents.iter().sum::<u64>()
    });
    world.check();
    world.write("key/000007".to_owned(), None);
    (0..3).for_each(|_| {
        (0..300).for_each(|_| world.write_randomly(400));
        world.rotate_and_flush();
    });
    world.compact_all();
    world.check();
}

#[test]
fn deletes_and_what_they_delete_go_and_the_space_is_used_again() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    let fill = |world: &mut World| {
        for n in 0..3000 {
            world.write(
                format!("key/{n:06}"),
                Some(format!("value {n} {}", "x".repeat(50))),
            );
        }
        world.rotate_and_flush();
        world.compact_all();
    };
    let empty = |world: &mut World| {
        for n in 0..3000 {
            world.write(format!("key/{n:06}"), None);
        }
        world.rotate_and_flush();
        world.compact_all();
    };
    fill(&mut world);
    let full = world.trees.stats().space;
    let mut most = full.used_slots;
    for _ in 0..4 {
        empty(&mut world);
        let totals = world.tree.superversion().version.totals();
        assert!(totals.entries < 600, "{totals:?}");
        fill(&mut world);
        most = most.max(world.trees.stats().space.used_slots);
    }
    let space = world.trees.stats().space;
    assert_eq!(
        space.files, full.files,
        "slots are used again, no file was added"
    );
    assert!(most <= full.used_slots * 3);
    world.check();
}

#[test]
fn a_snapshot_keeps_what_it_sees_and_only_that() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    let write = |world: &mut World, text: &str| {
        for n in 0..200 {
            world.write(format!("key/{n:03}"), Some(format!("{text} {n}")));
        }
    };
    write(&mut world, "first");
    write(&mut world, "seen");
    world.snapshots.insert(world.seq);
    write(&mut world, "last");
    world.rotate_and_flush();
    // Two versions of each key: the one the snapshot sees, and the newest.
    assert_eq!(world.tree.superversion().version.totals().entries, 400);
    world.check();
    world.snapshots.clear();
    for n in 0..200 {
        world.write(format!("key/{n:03}"), None);
    }
    world.rotate_and_flush();
    write(&mut world, "again");
    world.rotate_and_flush();
    world.compact_all();
    assert_eq!(world.tree.superversion().version.totals().entries, 200);
    world.check();
}

#[test]
fn what_lives_only_in_memory_dies_there() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    for n in 0..100 {
        world.write(format!("key/{n:03}"), Some("short-lived".to_owned()));
        world.write(format!("key/{n:03}"), None);
    }
    world.rotate_and_flush();
    assert!(world.tree.superversion().version.is_empty());
    assert_eq!(world.tree.flushed_seq(), world.seq);
    world.check();
}

/// Level 1 is filled and the l0_runs above overlap each other.
fn fill_until_a_merge_is_due(world: &mut World) {
    loop {
        (0..500).for_each(|_| world.write_randomly(400));
        world.rotate_and_flush();
        let version = Arc::clone(&world.tree.superversion().version);
        match pick(version.levels(), &limits()) {
            Some(task) if task.reason == Reason::MergeL0 => return,
            Some(_) => assert!(world.compact_all().linked > 0),
            None => {}
        }
    }
}

#[test]
fn a_full_disk_leaves_the_tree_as_it_was() {
    for op in [DiskOp::Allocate, DiskOp::Write] {
        let sim = SimEnv::new(1);
        let mut world = World::new(&sim, 1);
        fill_until_a_merge_is_due(&mut world);
        let before = world.tree.superversion().version.totals();
        sim.fs
            .inject(Fault::on(op).path(".extents").no_space().after(2));
        let result = world
            .trees
            .compact_tree(&world.tree, world.seq, Effort::Full);
        assert!(matches!(result, Err(EngineError::DiskFull(_))));
        assert_eq!(world.tree.superversion().version.totals(), before);
        world.check();
        let result = world
            .trees
            .compact_tree(&world.tree, world.seq, Effort::Full);
        assert!(result.unwrap().is_some());
        world.check();
    }
}

#[test]
fn what_cannot_be_written_or_synced_is_written_elsewhere() {
    let faults = [
        Fault::on(DiskOp::Allocate).after(2),
        Fault::on(DiskOp::Write).after(2),
        Fault::on(DiskOp::Sync),
        Fault::on(DiskOp::Sync).times(2),
    ];
    for (fault, (retries, out_of_use)) in faults.into_iter().zip([(1, 1), (1, 1), (1, 0), (2, 0)]) {
        let sim = SimEnv::new(1);
        let mut world = World::new(&sim, 1);
        world.out_of_use = out_of_use;
        fill_until_a_merge_is_due(&mut world);
        sim.fs.inject(fault.path(".extents"));
        let stats = world
            .trees
            .compact_tree(&world.tree, world.seq, Effort::Full)
            .unwrap();
        assert!(stats.unwrap().written > 0);
        assert_eq!(world.trees.stats().work.write_retries, retries);
        world.check();
        // What the failed sync dropped is nothing that is needed.
        sim.fs.drop_caches();
        world.check();
    }
}

#[test]
fn an_extent_that_cannot_be_read_ends_its_compaction_and_nothing_else() {
    for flips_a_bit in [true, false] {
        let sim = SimEnv::new(1);
        let mut world = World::new(&sim, 1);
        fill_until_a_merge_is_due(&mut world);
        let version = Arc::clone(&world.tree.superversion().version);
        let victim = Arc::clone(version.levels().extents().next().unwrap().1);
        if flips_a_bit {
            let place = victim.meta().id.offset() + 200;
            sim.fs.flip_bit(&victim.slots().path(), place, 1).unwrap();
        } else {
            sim.fs.inject(Fault::on(DiskOp::Read).path(".extents"));
        }
        let result = world
            .trees
            .compact_tree(&world.tree, world.seq, Effort::Full);
        assert_eq!(result.unwrap(), Some(CompactionStats::default()));
        let stats = world.trees.stats();
        assert_eq!(stats.work.given_up_compactions, 1);
        assert_eq!(stats.quarantined_extents, 1);
        assert_eq!(world.tree.superversion().version.totals(), version.totals());
        let damaged = version.levels().extents().find(|(_, e)| e.is_quarantined());
        let (place, damaged) = damaged.map(|(place, e)| (place, Arc::clone(e))).unwrap();
        drop(version);
        if flips_a_bit {
            assert!(Arc::ptr_eq(&damaged, &victim));
            assert!(matches!(
                damaged.verify(),
                Err(EngineError::Corruption { .. })
            ));
        } else {
            // The device was only moody: whoever reads gets what is right.
            world.check();
        }
        // Everything else goes on, around it.
        let mut compactions = 0;
        for _ in 0..40 {
            (0..200).for_each(|_| world.write_randomly(400));
            world.rotate_and_flush();
            world.compact_all();
            compactions = world.trees.stats().work.compactions;
        }
        assert!(compactions > 10);
        let version = Arc::clone(&world.tree.superversion().version);
        let still = version.levels().extents().find(|(_, e)| e.is_quarantined());
        let (still_at, still) = still.expect("nobody has touched it");
        assert!(Arc::ptr_eq(still, &damaged));
        assert_eq!(still_at, place);
        assert!(version.levels().l0_runs().len() < limits().l0_stop_runs);
        drop(version);
        if flips_a_bit {
            let place = victim.meta().id.offset() + 200;
            sim.fs.flip_bit(&victim.slots().path(), place, 1).unwrap();
        }
        world.check();
    }
}

#[test]
fn readers_in_other_threads_see_the_same_through_flush_and_compaction() {
    let sim = SimEnv::new(1);
    let mut world = World::new(&sim, 1);
    for n in 0..500 {
        world.write(format!("key/{n:03}"), Some(format!("{n}")));
    }
    let snapshot = world.seq;
    world.snapshots.insert(snapshot);
    let done = std::sync::atomic::AtomicBool::new(false);
    let tree = world.tree.clone();
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (tree, done) = (&tree, &done);
            scope.spawn(move || {
                let mut rng = SimRng::new(thread);
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let n = rng.below(500);
                    let key = format!("key/{n:03}");
                    let superversion = tree.superversion();
                    let tables =
                        std::iter::once(&superversion.active).chain(&superversion.immutables);
                    let in_memory = tables
                        .filter_map(|table| table.get(key.as_bytes(), snapshot))
                        .map(|entry| entry.value.to_vec())
                        .next();
                    let value = in_memory.or_else(|| {
                        let version = &superversion.version;
                        version
                            .get(key.as_bytes(), snapshot, |_, _, v| v.to_vec())
                            .unwrap()
                    });
                    assert_eq!(value.as_deref(), Some(n.to_string().as_bytes()));
                }
            });
        }
        for _ in 0..30 {
            (0..100).for_each(|_| world.write_randomly(500));
            world.rotate_and_flush();
            world.compact_all();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    world.check();
}
