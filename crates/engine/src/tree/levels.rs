//! The shape of an LSM tree: sorted runs by level. A value; edits make a new one.
//!
//! Neighbours: `version` holds the levels of open extents, `state` those known from the manifest; `compact::pick`
//! decides on them alone; `change` is what moves one shape to the next.
//!
//! **Invariants**
//! - Level 0: runs ordered from the newest (largest number) to the oldest. Levels 1 and 2: one run each, number 0.
//! - A run is sorted by first position and its extents do not overlap in internal order.
//! - For one user key, every version in a newer run (or an upper level) is newer than every version below.
//! - No extent id occurs twice.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::extent::{ExtentId, ExtentMeta, HasMeta, LEVELS, Run, RunId};

/// Where an extent hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunAddress {
    /// 0, 1 or 2.
    pub level: u8,
    /// The run in level 0; 0 elsewhere.
    pub run: RunId,
}

impl RunAddress {
    /// A run of level 0.
    pub fn l0(run: RunId) -> Self {
        RunAddress { level: 0, run }
    }

    /// The only run of level 1 or 2.
    pub fn level(level: u8) -> Self {
        assert!(level == 1 || level == 2);
        RunAddress {
            level,
            run: RunId(0),
        }
    }
}

/// A change of shape: extents that go, extents that come. What is in both has moved.
#[derive(Clone, Debug)]
pub struct ShapeEdit<E> {
    /// Extents that leave their place.
    pub removed: Vec<ExtentId>,
    /// Extents and their new places.
    pub added: Vec<(RunAddress, E)>,
}

impl<E> Default for ShapeEdit<E> {
    fn default() -> Self {
        ShapeEdit {
            removed: Vec::new(),
            added: Vec::new(),
        }
    }
}

/// All extents of a tree. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Levels<E> {
    l0_runs: Vec<Run<E>>,
    lower: [Run<E>; LEVELS - 1],
}

impl<E: HasMeta> Default for Levels<E> {
    fn default() -> Self {
        let empty = || Run::new(RunId(0), Vec::new());
        Levels {
            l0_runs: Vec::new(),
            lower: [empty(), empty()],
        }
    }
}

impl<E: HasMeta> Levels<E> {
    /// The runs of level 0, newest first.
    pub fn l0_runs(&self) -> &[Run<E>] {
        &self.l0_runs
    }

    /// The run of level 1 or 2.
    pub fn level(&self, level: u8) -> &Run<E> {
        &self.lower[usize::from(level) - 1]
    }

    /// The run at this place.
    pub fn run(&self, place: RunAddress) -> Option<&Run<E>> {
        match place.level {
            0 => self.l0_runs.iter().find(|run| run.id() == place.run),
            level => Some(self.level(level)),
        }
    }

    /// All runs that are not empty, newest data first.
    pub fn runs(&self) -> impl Iterator<Item = &Run<E>> {
        self.l0_runs
            .iter()
            .chain(&self.lower)
            .filter(|run| !run.is_empty())
    }

    /// All extents with their places.
    pub fn extents(&self) -> impl Iterator<Item = (RunAddress, &E)> {
        let l0_runs = self
            .l0_runs
            .iter()
            .map(|run| (RunAddress::l0(run.id()), run));
        let lower = self
            .lower
            .iter()
            .zip(1..)
            .map(|(run, level)| (RunAddress::level(level), run));
        l0_runs
            .chain(lower)
            .flat_map(|(place, run)| run.extents().iter().map(move |e| (place, e)))
    }

    /// A number for a new run of level 0, newer than all.
    pub fn next_run(&self) -> RunId {
        RunId(self.l0_runs.first().map_or(1, |run| run.id().0 + 1))
    }

    /// The shape after `edit`, or what is wrong with it.
    pub fn apply(&self, edit: &ShapeEdit<E>) -> Result<Levels<E>, &'static str> {
        let mut removed: HashSet<ExtentId> = HashSet::with_capacity(edit.removed.len());
        for id in &edit.removed {
            if !removed.insert(*id) {
                return Err("an extent is removed twice");
            }
        }
        let mut found = 0;
        let mut runs: Vec<(RunAddress, Vec<E>)> = Vec::new();
        let touched: HashSet<(u8, RunId)> = edit
            .added
            .iter()
            .map(|(place, _)| (place.level, place.run))
            .collect();
        let mut next = Levels::default();
        for (place, run) in self.places() {
            let hit = run
                .extents()
                .iter()
                .filter(|e| removed.contains(&e.meta().id))
                .count();
            found += hit;
            if hit == 0 && !touched.contains(&(place.level, place.run)) {
                next.install(place, run.clone())?;
                continue;
            }
            let kept = run
                .extents()
                .iter()
                .filter(|e| !removed.contains(&e.meta().id))
                .cloned();
            runs.push((place, kept.collect()));
        }
        if found != removed.len() {
            return Err("an extent is removed that is not there");
        }
        for (place, extent) in &edit.added {
            match runs.iter_mut().find(|(there, _)| there == place) {
                Some((_, extents)) => extents.push(extent.clone()),
                None => runs.push((*place, vec![extent.clone()])),
            }
        }
        for (place, mut extents) in runs {
            extents.sort_by(|a, b| {
                let b = &b.meta().first;
                a.meta().first.compare(&b.key, b.seq)
            });
            let run = Run::new(place.run, extents);
            if !run.is_sorted() {
                return Err("two extents of a sorted run overlap");
            }
            next.install(place, run)?;
        }
        next.l0_runs.sort_by_key(|run| Reverse(run.id()));
        next.validate();
        Ok(next)
    }

    /// In builds with debug assertions: the order of runs and extents, and that no extent is there twice.
    pub fn validate(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let l0_ids = || self.l0_runs.iter().map(|run| run.id());
        assert!(
            l0_ids()
                .zip(l0_ids().skip(1))
                .all(|(newer, older)| newer > older),
            "level 0 is ordered from the newest run on"
        );
        assert!(
            self.l0_runs.iter().all(|run| !run.is_empty()),
            "level 0 keeps no empty run"
        );
        assert!(
            self.lower.iter().all(|run| run.id() == RunId(0)),
            "runs below level 0 have no number"
        );
        assert!(
            self.places().all(|(_, run)| run.is_sorted()),
            "extents of a run do not overlap"
        );
        let mut ids = HashSet::new();
        assert!(
            self.extents()
                .all(|(_, extent)| ids.insert(extent.meta().id)),
            "an extent hangs in one place"
        );
    }

    fn places(&self) -> impl Iterator<Item = (RunAddress, &Run<E>)> {
        let l0_runs = self
            .l0_runs
            .iter()
            .map(|run| (RunAddress::l0(run.id()), run));
        l0_runs.chain(
            self.lower
                .iter()
                .zip(1..)
                .map(|(run, level)| (RunAddress::level(level), run)),
        )
    }

    fn install(&mut self, place: RunAddress, run: Run<E>) -> Result<(), &'static str> {
        match place.level {
            0 if run.is_empty() => {}
            0 => self.l0_runs.push(run),
            level @ (1 | 2) if place.run == RunId(0) => self.lower[usize::from(level) - 1] = run,
            _ => return Err("there is no such level or run"),
        }
        Ok(())
    }

    /// The same shape of something else.
    pub(crate) fn map<T: HasMeta>(&self, mut f: impl FnMut(&E) -> T) -> Levels<T> {
        let mut map = |run: &Run<E>| Run::new(run.id(), run.extents().iter().map(&mut f).collect());
        Levels {
            l0_runs: self.l0_runs.iter().map(&mut map).collect(),
            lower: self.lower.each_ref().map(map),
        }
    }

    /// Sums over all extents.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            l0_runs: self.l0_runs.len(),
            ..Totals::default()
        };
        for (place, extent) in self.extents() {
            let meta: &ExtentMeta = extent.meta();
            let level = usize::from(place.level);
            totals.bytes[level] += u64::from(meta.stored_bytes);
            totals.extents[level] += 1;
            totals.data_bytes += meta.data_bytes;
            totals.entries += meta.entries;
            totals.deletes += meta.deletes;
        }
        totals
    }
}

/// Sums over the extents of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs in level 0.
    pub l0_runs: usize,
    /// Stored bytes per level.
    pub bytes: [u64; LEVELS],
    /// Extents per level.
    pub extents: [u64; LEVELS],
    /// Bytes of keys and values before compression.
    pub data_bytes: u64,
    /// Versions.
    pub entries: u64,
    /// Deletes among them.
    pub deletes: u64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::extent::Position;

    /// An extent that exists on paper only.
    pub(crate) fn paper(id: u32, first: &str, last: &str, bytes: u32) -> ExtentMeta {
        ExtentMeta {
            id: ExtentId(id),
            slots: 1,
            stamp: u64::from(id),
            stored_bytes: bytes,
            filter_offset: bytes - 2,
            index_offset: bytes - 1,
            data_bytes: u64::from(bytes),
            entries: 100,
            deletes: 0,
            rows: 100,
            smallest_seq: 1,
            largest_seq: 100,
            packed_for: 2,
            is_ingested: false,
            first: Position {
                key: first.as_bytes().into(),
                seq: 50,
            },
            last: Position {
                key: last.as_bytes().into(),
                seq: 50,
            },
        }
    }

    pub(crate) fn shape(extents: &[(RunAddress, ExtentMeta)]) -> Levels<ExtentMeta> {
        let edit = ShapeEdit {
            removed: vec![],
            added: extents.to_vec(),
        };
        Levels::default().apply(&edit).unwrap()
    }

    #[test]
    fn layers_are_ordered_and_moves_keep_the_extent() {
        let levels = shape(&[
            (RunAddress::l0(RunId(1)), paper(1, "a", "c", 1000)),
            (RunAddress::l0(RunId(3)), paper(2, "a", "c", 1000)),
            (RunAddress::l0(RunId(2)), paper(3, "b", "d", 1000)),
            (RunAddress::l0(RunId(2)), paper(4, "e", "f", 1000)),
        ]);
        let order: Vec<u64> = levels.l0_runs().iter().map(|run| run.id().0).collect();
        assert_eq!(order, [3, 2, 1]);
        assert_eq!(levels.next_run(), RunId(4));
        let moved = levels
            .apply(&ShapeEdit {
                removed: vec![ExtentId(1)],
                added: vec![(RunAddress::level(1), paper(1, "a", "c", 1000))],
            })
            .unwrap();
        assert_eq!(moved.l0_runs().len(), 2);
        assert_eq!(moved.level(1).extents().len(), 1);
        assert_eq!(moved.totals().extents, [3, 1, 0]);
        // The old shape is as it was.
        assert_eq!(levels.totals().extents, [4, 0, 0]);
    }

    #[test]
    fn impossible_changes_are_refused() {
        let levels = shape(&[(RunAddress::level(1), paper(1, "a", "c", 1000))]);
        let overlap = ShapeEdit {
            removed: vec![],
            added: vec![(RunAddress::level(1), paper(2, "b", "d", 1000))],
        };
        assert!(levels.apply(&overlap).is_err());
        let missing = ShapeEdit {
            removed: vec![ExtentId(7)],
            added: vec![],
        };
        assert!(levels.apply(&missing).is_err());
        let twice = ShapeEdit {
            removed: vec![ExtentId(1), ExtentId(1)],
            added: vec![],
        };
        assert!(levels.apply(&twice).is_err());
    }

    #[test]
    fn versions_of_one_key_may_continue_in_the_next_extent() {
        let mut left = paper(1, "a", "k", 1000);
        left.last.seq = 30;
        let mut right = paper(2, "k", "z", 1000);
        right.first.seq = 29;
        let levels = shape(&[(RunAddress::level(1), left), (RunAddress::level(1), right)]);
        let run = levels.level(1);
        assert_eq!(run.find(b"k", 40), 0);
        assert_eq!(run.find(b"k", 30), 0);
        assert_eq!(run.find(b"k", 29), 1);
        assert_eq!(run.overlapping(b"k", b"k").len(), 2);
        assert_eq!(run.overlapping(b"a", b"b").len(), 1);
        assert_eq!(run.find(b"zz", 1), 2);
    }
}
