//! Recorded state: the result of replaying the manifest, before any data file is opened.
//!
//! Neighbours: `manifest` fills it from its records; `mod` turns it into live trees.
//!
//! **Invariants**
//! - Only changes that make sense are accepted: a tree is created once and before everything else about it.
//! - `next_tree` is larger than every id ever given, to a tree or to what is staged.

use std::collections::{BTreeMap, HashMap};

use super::change::Change;
use super::ingest::IngestId;
use super::levels::{Levels, RunAddress, ShapeEdit};
use crate::extent::{ExtentId, ExtentMeta};
use crate::{Seq, TreeId};

/// First id that is given to a tree.
const FIRST_TREE: TreeId = TreeId(1);

/// What is recorded of one tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeState {
    pub(crate) flushed_seq: Seq,
    pub(crate) counter: u64,
    extents: HashMap<ExtentId, (RunAddress, ExtentMeta)>,
}

impl TreeState {
    /// The extents in their places, or what is wrong with them.
    pub(crate) fn levels(&self) -> Result<Levels<ExtentMeta>, &'static str> {
        let added = self.extents.values().cloned().collect();
        Levels::default().apply(&ShapeEdit {
            removed: Vec::new(),
            added,
        })
    }

    pub(crate) fn metas(&self) -> impl Iterator<Item = &ExtentMeta> {
        self.extents.values().map(|(_, meta)| meta)
    }
}

/// What the manifest says about the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPoint {
    /// Nothing before is needed.
    pub(crate) from: u64,
    /// The counters contain every change up to here.
    pub(crate) counters_as_of: Seq,
}

/// What is recorded of all trees.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) next_tree: TreeId,
    pub(crate) log: LogPoint,
    pub(crate) trees: BTreeMap<TreeId, TreeState>,
    /// What transactions have staged for their commit, each with the tree it is for.
    pub(crate) staged: BTreeMap<IngestId, Vec<(TreeId, ExtentMeta)>>,
    /// The file that says all this is at least this long, in bytes.
    pub(crate) length: u64,
}

impl Default for State {
    fn default() -> Self {
        State {
            next_tree: FIRST_TREE,
            log: LogPoint::default(),
            trees: BTreeMap::new(),
            staged: BTreeMap::new(),
            length: 0,
        }
    }
}

impl State {
    /// The counters of the trees.
    pub(super) fn counters(&self) -> BTreeMap<TreeId, u64> {
        let of_tree = |(id, tree): (&TreeId, &TreeState)| (*id, tree.counter);
        self.trees.iter().map(of_tree).collect()
    }

    /// Applies the changes of one record in order.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) -> Result<(), &'static str> {
        changes
            .into_iter()
            .try_for_each(|change| self.apply_one(change))
    }

    fn apply_one(&mut self, change: Change) -> Result<(), &'static str> {
        match change {
            Change::CreateTree { tree, flushed_seq } => {
                if tree < FIRST_TREE || self.trees.contains_key(&tree) {
                    return Err("a tree is created twice, or with a reserved id");
                }
                let state = TreeState {
                    flushed_seq,
                    ..TreeState::default()
                };
                self.trees.insert(tree, state);
                self.raise_next(tree.0.checked_add(1).ok_or("tree ids are used up")?);
            }
            Change::NextTree { tree } => self.raise_next(tree.0),
            Change::DropTree { tree } => {
                self.trees
                    .remove(&tree)
                    .ok_or("a tree is dropped that is not there")?;
            }
            Change::AddExtent { tree, place, meta } => {
                if self
                    .tree(tree)?
                    .extents
                    .insert(meta.id, (place, meta))
                    .is_some()
                {
                    return Err("an extent is added twice");
                }
            }
            Change::RemoveExtent { tree, extent } => {
                let removed = self.tree(tree)?.extents.remove(&extent);
                removed.ok_or("an extent is removed that is not there")?;
            }
            Change::FlushedSeq { tree, seq } => self.tree(tree)?.flushed_seq = seq,
            Change::Log {
                from,
                counters_as_of,
            } => {
                self.log = LogPoint {
                    from,
                    counters_as_of,
                }
            }
            Change::Counter { tree, value } => self.tree(tree)?.counter = value,
            Change::Stage { ingest, tree, meta } => {
                self.staged.entry(ingest).or_default().push((tree, meta));
                self.raise_next(ingest.0.checked_add(1).ok_or("tree ids are used up")?);
            }
            Change::Unstage { ingest } => {
                self.staged
                    .remove(&ingest)
                    .ok_or("something is unstaged that is not staged")?;
            }
            Change::Length { bytes } => self.length = self.length.max(bytes),
        }
        Ok(())
    }

    /// Everything that owns slots of data files.
    pub(crate) fn metas(&self) -> impl Iterator<Item = &ExtentMeta> {
        let staged = self.staged.values().flatten().map(|(_, meta)| meta);
        self.trees.values().flat_map(TreeState::metas).chain(staged)
    }

    fn tree(&mut self, tree: TreeId) -> Result<&mut TreeState, &'static str> {
        self.trees
            .get_mut(&tree)
            .ok_or("a tree is changed that is not there")
    }

    fn raise_next(&mut self, next: u32) {
        self.next_tree = self.next_tree.max(TreeId(next));
    }
}
