//! Writes of a large transaction that have moved from memory to extents.
//!
//! Neighbours: `write_set` moves them and looks here after its tables; cursors walk them beside the tables;
//! `commit::ingest` takes them when they are settled.
//!
//! A spill is a sorted run of extents that nobody else knows. Its entries have the numbers of the writes where others
//! have sequences, so savepoints, cursors and reads work as they do in memory. The manifest does not name it: after a
//! rollback or a crash its slots are free.
//!
//! **Invariants**
//! - Spills of a tree are held from the newest to the oldest; all numbers of one are larger than those of the next.
//! - A settled run has every key once.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::own_table::OwnTable;
use super::write_set::is_dead;
use crate::extent::{Extent, FoundIn, ReadMode, RunWriter, Store};
use crate::iter::{InternalIter, MergingIter};
use crate::tree::{Run, RunId, RunIter, Tree};
use crate::{LATEST, Result, Seq};

/// Spills are compressed as compaction would compress them in the end.
const PACKED_FOR: u8 = 2;

/// One sorted run.
struct Spill {
    run: Run<Arc<Extent>>,
    /// The numbers of its writes lie in here.
    numbers: RangeInclusive<Seq>,
    /// Every key comes once.
    has_unique_keys: bool,
}

fn writer(store: &Arc<Store>, tree: &Tree) -> RunWriter {
    RunWriter::new(store, tree.id(), PACKED_FOR).with_fields(tree.fields())
}

/// The spills of a tree. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Spills {
    newest_first: Arc<Vec<Arc<Spill>>>,
}

impl Spills {
    pub(crate) fn is_empty(&self) -> bool {
        self.newest_first.is_empty()
    }

    /// Writes the live entries of `table` out, as the newest spill. After an error nothing has changed.
    pub(crate) fn add(
        &mut self,
        store: &Arc<Store>,
        tree: &Tree,
        table: &OwnTable,
        dead: &[(Seq, Seq)],
    ) -> Result<()> {
        let mut writer = writer(store, tree);
        let (mut first, mut last) = (Seq::MAX, 0);
        let mut has_unique_keys = true;
        let mut previous: Vec<u8> = Vec::new();
        table.each_in_order(|key, entry| {
            if is_dead(dead, entry.seq) {
                return Ok(());
            }
            has_unique_keys &= last == 0 || *previous != *key;
            previous.clear();
            previous.extend_from_slice(key);
            (first, last) = (first.min(entry.seq), last.max(entry.seq));
            writer.add(key, entry.seq, entry.op, entry.value)
        })?;
        let extents = writer.finish()?;
        if extents.is_empty() {
            return Ok(());
        }
        debug_assert!(
            self.newest_first
                .first()
                .is_none_or(|newest| *newest.numbers.end() < first),
            "the newest spill has the largest numbers"
        );
        let spill = Spill {
            run: Run::new(RunId(0), extents),
            numbers: first..=last,
            has_unique_keys,
        };
        Arc::make_mut(&mut self.newest_first).insert(0, Arc::new(spill));
        Ok(())
    }

    /// The live write to a key.
    pub(crate) fn get(&self, key: &[u8], dead: &[(Seq, Seq)]) -> Result<Option<FoundIn>> {
        let mut hash = None;
        for spill in &*self.newest_first {
            let mut upto = LATEST;
            while let Some(found) = spill.run.find_version(key, upto, &mut hash)? {
                if !is_dead(dead, found.seq()) {
                    return Ok(Some(found));
                }
                debug_assert!(0 < found.seq() && found.seq() <= upto);
                upto = found.seq() - 1;
            }
        }
        Ok(None)
    }

    /// Walks over the spills, newest first.
    pub(crate) fn iters(&self, mode: ReadMode) -> impl Iterator<Item = RunIter> + '_ {
        let spills = self.newest_first.iter();
        spills.map(move |spill| RunIter::new(spill.run.clone(), mode))
    }

    /// All spills as one run, which has of every key the last live write: as they are where that is so, merged where
    /// not.
    pub(crate) fn finalize(
        &self,
        store: &Arc<Store>,
        tree: &Tree,
        dead: &[(Seq, Seq)],
    ) -> Result<Vec<Arc<Extent>>> {
        match self.in_order(dead) {
            Some(extents) => Ok(extents),
            None => self.merge(store, tree, dead),
        }
    }

    /// The extents in the order of their keys, if nothing overlaps and nothing has died.
    fn in_order(&self, dead: &[(Seq, Seq)]) -> Option<Vec<Arc<Extent>>> {
        let is_whole = |spill: &Arc<Spill>| {
            let numbers = &spill.numbers;
            let has_died =
                |(after, upto): &(Seq, Seq)| after < numbers.end() && numbers.start() <= upto;
            spill.has_unique_keys && !dead.iter().any(has_died)
        };
        if !self.newest_first.iter().all(is_whole) {
            return None;
        }
        let spills = self.newest_first.iter();
        let mut extents: Vec<_> = spills
            .flat_map(|spill| spill.run.extents().to_vec())
            .collect();
        extents.sort_by(|a, b| a.meta().first.key.cmp(&b.meta().first.key));
        let are_apart = extents
            .windows(2)
            .all(|pair| pair[0].meta().last.key < pair[1].meta().first.key);
        are_apart.then_some(extents)
    }

    fn merge(
        &self,
        store: &Arc<Store>,
        tree: &Tree,
        dead: &[(Seq, Seq)],
    ) -> Result<Vec<Arc<Extent>>> {
        let sources = self.iters(ReadMode::Once);
        let sources = sources.map(|iter| Box::new(iter) as Box<dyn InternalIter>);
        let mut merged = MergingIter::new(sources.collect());
        merged.seek_to_first()?;
        let mut writer = writer(store, tree);
        let mut previous: Option<Vec<u8>> = None;
        while merged.valid() {
            let (key, number) = (merged.key(), merged.seq());
            if !is_dead(dead, number) && previous.as_deref() != Some(key) {
                writer.add(key, number, merged.op(), merged.value())?;
                let mut last = previous.take().unwrap_or_default();
                last.clear();
                last.extend_from_slice(key);
                previous = Some(last);
            }
            merged.next()?;
        }
        writer.finish()
    }
}
