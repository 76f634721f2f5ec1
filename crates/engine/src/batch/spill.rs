//! Writes of a large transaction that have moved from memory to extents.
//!
//! Neighbours: `spiller` has them written, and `write_set` looks here after its tables; cursors walk them beside the
//! tables; `merge` makes one run of them for the commit.
//!
//! A spill is a sorted run of extents that nobody else knows. Its entries have the numbers of the writes where others
//! have sequences, so savepoints, cursors and reads work as they do in memory. The manifest does not name it: after a
//! rollback or a crash its slots are free.
//!
//! **Invariants**
//! - Spills of a tree are held from the newest to the oldest; all numbers of one are larger than those of the next.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::own_table::OwnTable;
use super::write_set::is_dead;
use crate::extent::{Extent, FoundIn, HasMeta, ReadMode, RunWriter, Store};
use crate::tree::{Run, RunId, RunIter, Tree};
use crate::{LATEST, Result, Seq};

/// Spills are compressed as compaction would compress them in the end.
const PACKED_FOR: u8 = 2;

/// One sorted run.
pub(super) struct Spill {
    run: Run<Arc<Extent>>,
    /// The numbers of its writes lie in here.
    numbers: RangeInclusive<Seq>,
    /// Every key comes once.
    has_unique_keys: bool,
}

/// Writes extents of a spill, or of what spills were merged to.
pub(super) fn writer(store: &Arc<Store>, tree: &Tree) -> RunWriter {
    RunWriter::new(store, tree.id(), PACKED_FOR).with_fields(tree.fields())
}

impl Spill {
    /// Writes the live entries of `table` out; `None` if there are none.
    pub(super) fn write(
        store: &Arc<Store>,
        tree: &Tree,
        table: &OwnTable,
        dead: &[(Seq, Seq)],
    ) -> Result<Option<Spill>> {
        let mut writer = writer(store, tree);
        let (mut first, mut last) = (Seq::MAX, 0);
        let mut has_unique_keys = true;
        let mut previous = None;
        let writes = table.in_order();
        for (key, entry) in writes.iter().filter(|(_, entry)| !is_dead(dead, entry.seq)) {
            has_unique_keys &= previous != Some(key);
            previous = Some(key);
            (first, last) = (first.min(entry.seq), last.max(entry.seq));
            writer.add(key, entry.seq, entry.op, entry.value)?;
        }
        let extents = writer.finish()?;
        debug_assert_eq!(extents.is_empty(), last == 0, "writes have numbers");
        Ok((!extents.is_empty()).then(|| Spill {
            run: Run::new(RunId(0), extents),
            numbers: first..=last,
            has_unique_keys,
        }))
    }
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

    /// Adds the newest one.
    pub(super) fn add(&mut self, spill: Arc<Spill>) {
        debug_assert!(
            self.newest_first
                .first()
                .is_none_or(|newest| newest.numbers.end() < spill.numbers.start()),
            "the newest spill has the largest numbers"
        );
        Arc::make_mut(&mut self.newest_first).insert(0, spill);
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

    /// All spills as one run, if it has of every key the last live write: nothing overlaps and nothing has died.
    pub(super) fn in_order(&self, dead: &[(Seq, Seq)]) -> Option<Vec<Arc<Extent>>> {
        let is_whole = |spill: &Arc<Spill>| {
            let numbers = &spill.numbers;
            let has_died =
                |(after, upto): &(Seq, Seq)| after < numbers.end() && numbers.start() <= upto;
            spill.has_unique_keys && !dead.iter().any(has_died)
        };
        if !self.newest_first.iter().all(is_whole) {
            return None;
        }
        let extents = self.extents_by_key();
        let are_apart = extents
            .windows(2)
            .all(|pair| pair[0].meta().last.key < pair[1].meta().first.key);
        are_apart.then_some(extents)
    }

    /// All extents, in the order of their first keys.
    pub(super) fn extents_by_key(&self) -> Vec<Arc<Extent>> {
        let spills = self.newest_first.iter();
        let mut extents: Vec<_> = spills
            .flat_map(|spill| spill.run.extents().to_vec())
            .collect();
        extents.sort_by(|a, b| a.meta().first.key.cmp(&b.meta().first.key));
        extents
    }
}
