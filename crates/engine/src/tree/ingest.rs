//! Ingest at commit: extents of a large transaction are staged in the manifest, then added as the newest run of their
//! trees.
//!
//! Neighbours: `commit::ingest` stages and ingests; `recovery` ingests what the log says was committed; `change` has
//! the bytes.
//!
//! ```text
//! stage   → manifest: the extents keep their slots over a restart, under a number
//! commit  → log: the number, in the commit record. This decides.
//! ingest   → the extents are a run of their trees, with the sequence of the record. The manifest learns it with its next edit.
//! ```
//! **Invariants**
//! - Extents are ingested only when the commit record is durable: the manifest never says more than the log.
//! - What was ingested is recorded before anything else is: until then the log is not released, and no later change of
//!   the tree is in the manifest. So what a restart finds staged, and its log committed, belongs on top of what the
//!   manifest has.
//! - No version of a key that was ingested is in memory, or in the part of the log that a restart replays, unless it is
//!   newer: whoever stages has flushed the tree and moves its flushed sequence.
//! - Two groups that are staged at the same time have no key in common, for their transactions hold the row locks.
//! - Numbers are ids of trees that will never be: none is given twice, so no earlier record can be about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::Change;
use super::levels::{RunAddress, ShapeEdit};
use super::state::State;
use super::version::Version;
use super::{Meta, Tree, Trees};
use crate::extent::{Extent, ExtentMeta, Store};
use crate::{EngineError, Result, Seq, TreeId};

/// Names what a transaction has staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IngestId(pub(crate) u32);

/// What a transaction brings to its trees: for each a sorted run in which every key comes once.
pub(crate) type StagedExtents = Vec<(Tree, Vec<Arc<Extent>>)>;

/// What is staged, each extent with the tree it is for.
pub(super) type Staged = BTreeMap<IngestId, Vec<(TreeId, Arc<Extent>)>>;

/// What a restart finds staged.
pub(super) fn adopt(store: &Arc<Store>, state: &State) -> Staged {
    let adopt =
        |(tree, meta): &(TreeId, ExtentMeta)| (*tree, Extent::adopt(store, *tree, meta.clone()));
    let groups = state.staged.iter();
    groups
        .map(|(id, extents)| (*id, extents.iter().map(adopt).collect()))
        .collect()
}

/// What is staged, for a checkpoint.
pub(super) fn content(staged: &Staged) -> impl Iterator<Item = Change> + '_ {
    staged.iter().flat_map(|(&ingest, extents)| {
        extents.iter().map(move |(tree, extent)| Change::Stage {
            ingest,
            tree: *tree,
            meta: extent.meta().clone(),
        })
    })
}

impl Trees {
    /// Makes sure that these extents are there after a restart, too. They are synced, and everything up to `flushed`
    /// that the log has for their trees is in extents. After an error nothing is staged.
    pub(crate) fn stage(&self, ingests: &StagedExtents, flushed: Seq) -> Result<IngestId> {
        let mut meta = self.recording()?;
        let id = meta.next_tree.0;
        let following = id.checked_add(1);
        let following =
            following.ok_or_else(|| EngineError::Stopped("all tree ids were given".into()))?;
        let ingest = IngestId(id);
        let mut changes = Vec::new();
        let mut staged = Vec::new();
        for (tree, extents) in ingests {
            if tree.is_dropped() {
                continue;
            }
            if tree.flushed_seq() < flushed {
                let (tree, seq) = (tree.id(), flushed);
                changes.push(Change::FlushedSeq { tree, seq });
            }
            for extent in extents {
                changes.push(Change::Stage {
                    ingest,
                    tree: tree.id(),
                    meta: extent.meta().clone(),
                });
                staged.push((tree.id(), Arc::clone(extent)));
            }
        }
        meta.record(changes)?;
        meta.next_tree = TreeId(following);
        for (_, extent) in &staged {
            extent.slots().keep();
        }
        for (tree, _) in ingests {
            tree.set_recovery_point(flushed);
        }
        let before = meta.staged.insert(ingest, staged);
        debug_assert!(before.is_none(), "ids are given once");
        self.checkpoint_if_due(&mut meta);
        Ok(ingest)
    }

    /// Hangs what is staged into its trees, as the newest run of each, with the sequence of the commit record, which is
    /// durable. Nobody flushes one of the trees meanwhile. Nothing happens if nothing is staged under this number: then
    /// the manifest has it in its place.
    pub(crate) fn ingest(&self, ingest: IngestId, seq: Seq) {
        let mut meta = self.inner.meta.lock();
        let Some(staged) = meta.staged.remove(&ingest) else {
            return;
        };
        meta.owed.push(Change::Unstage { ingest });
        let mut groups: BTreeMap<TreeId, Vec<Arc<Extent>>> = BTreeMap::new();
        for (tree, extent) in staged {
            groups.entry(tree).or_default().push(extent);
        }
        for (id, extents) in groups {
            match self.get(id).filter(|tree| !tree.is_dropped()) {
                Some(tree) => ingest_into(&mut meta, &tree, &extents, seq),
                None => release(&extents),
            }
        }
    }

    /// Forgets what was staged for a commit that did not come about.
    pub(crate) fn unstage(&self, ingest: IngestId) -> Result<()> {
        let mut meta = self.recording()?;
        if !meta.staged.contains_key(&ingest) {
            return Ok(());
        }
        meta.record(vec![Change::Unstage { ingest }])?;
        let staged = meta.staged.remove(&ingest).into_iter().flatten();
        let extents: Vec<_> = staged.map(|(_, extent)| extent).collect();
        release(&extents);
        Ok(())
    }

    /// After a replay: what is still staged was not committed, but for what waits for a decision.
    pub(crate) fn unstage_all_but(&self, waits: &BTreeSet<IngestId>) -> Result<()> {
        let left: Vec<IngestId> = self.inner.meta.lock().staged.keys().copied().collect();
        let mut left = left.into_iter().filter(|ingest| !waits.contains(ingest));
        left.try_for_each(|ingest| self.unstage(ingest))
    }
}

/// Makes the extents the newest run of a tree.
fn ingest_into(meta: &mut Meta, tree: &Tree, extents: &[Arc<Extent>], seq: Seq) {
    debug_assert!(!extents.is_empty());
    let old = Arc::clone(&tree.superversion().version);
    let place = RunAddress::l0(old.levels().next_run());
    let ingested = extents.iter().map(|extent| (place, extent.ingested(seq)));
    let edit = ShapeEdit {
        removed: Vec::new(),
        added: ingested.collect(),
    };
    let levels = old.levels().apply(&edit);
    let levels = levels.expect("the extents of an ingest are a sorted run");
    meta.owed
        .extend(edit.added.iter().map(|(place, extent)| Change::AddExtent {
            tree: tree.id(),
            place: *place,
            meta: extent.meta().clone(),
        }));
    tree.publish(Version::new(levels), false);
    tree.tombstone_ranges().clear();
}

/// The slots are free when the last handle goes.
fn release(extents: &[Arc<Extent>]) {
    for extent in extents {
        extent.slots().release_on_drop();
    }
}
