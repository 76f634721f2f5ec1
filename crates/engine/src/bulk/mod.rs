//! Bulk build: an external merge sort that fills a new tree with extents, without log and memtables.
//!
//! Neighbours: index builds and table copies come in at [`Engine::build_tree`]; `extent::RunWriter` writes,
//! `tree::Trees` installs.
//!
//! ```text
//! add → batch in memory → sorted → continues the main run?  yes → main run (as it will stay)
//!                                                           no  → a run of its own, merged at the end
//! finish → merge, if there is more than the main run → sync → one manifest edit
//! ```
//! **Invariants**
//! - Nobody reads or writes the tree before [`TreeBuilder::finish`] has returned: the caller makes it known then.
//! - The manifest edit is the one moment at which the tree has its content. Before it, after an error or a crash the
//!   tree is empty, and everything written is free space again; the extents it names are durable before it.
//! - All entries have one sequence, which was durable and visible when the build began: every snapshot that may know of
//!   the tree sees them, and no crash takes that part of the log back. Recovery has nothing to replay for the tree.
//! - Runs that wait to be merged have sequences of their own, so equal keys meet in the merge and are reported.

mod batch;

use std::sync::Arc;

use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::extent::{Extent, ReadMode, RunWriter};
use crate::iter::{InternalIter, MergingIter};
use crate::tree::{Installation, Run, RunAddress, RunId, RunIter, ShapeEdit, Tree, Trees};
use crate::{CancelReason, EngineError, MAX_KEY_BYTES, MAX_VALUE_BYTES, Op, Result, Seq};
use batch::Batch;

/// Where a finished tree lies: it is as compact as compaction would make it in the end.
const LEVEL: u8 = 2;
/// Runs that are merged into one as soon as there are as many.
const FAN_IN: usize = 16;
const _: () = assert!(FAN_IN > 1);
/// Entries between two looks at whether the build is still wanted.
const ENTRIES_PER_CHECK: u64 = 4096;

/// Why a tree could not be filled.
#[derive(Clone, Debug)]
pub enum BuildError {
    /// A key came twice. The value is that of the entry that was added later.
    Duplicate {
        /// The key.
        key: Box<[u8]>,
        /// The later value.
        value: Box<[u8]>,
    },
    /// Something else.
    Engine(EngineError),
}

impl From<EngineError> for BuildError {
    fn from(error: EngineError) -> Self {
        BuildError::Engine(error)
    }
}

/// What a build has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Entries of the tree.
    pub entries: u64,
    /// Its extents.
    pub extents: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Batches that had to be merged, because keys did not come in order.
    pub spilled_runs: u64,
}

type Extents = Vec<Arc<Extent>>;

/// Fills one tree. Dropping it leaves the tree empty.
pub struct TreeBuilder {
    trees: Trees,
    tree: Tree,
    seq: Seq,
    memory_bytes: usize,
    batch: Batch,
    /// The memory of the batch.
    charge: Charge,
    main: Option<RunWriter>,
    /// The last key of the main run.
    tail: Vec<u8>,
    /// Runs to be merged. Those of a tier are about as large as [`FAN_IN`] of the tier before together.
    tiers: Vec<Vec<Extents>>,
    entries: u64,
    spilled_runs: u64,
}

impl TreeBuilder {
    /// For an empty tree. Its entries get the sequence `seq`.
    pub(crate) fn new(
        trees: &Trees,
        tree: &Tree,
        seq: Seq,
        memory_bytes: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let superversion = Arc::clone(&tree.superversion());
        let is_empty = superversion.in_memory().entries == 0
            && superversion.version.levels().extents().next().is_none();
        assert!(is_empty, "only an empty tree is filled at once");
        TreeBuilder {
            trees: trees.clone(),
            tree: tree.clone(),
            seq,
            memory_bytes,
            batch: Batch::default(),
            charge: Charge::new(budget, MemoryUse::Background),
            main: None,
            tail: Vec::new(),
            tiers: Vec::new(),
            entries: 0,
            spilled_runs: 0,
        }
    }

    /// Adds an entry; keys in any order, each once.
    ///
    /// # Errors
    /// A key or value that is too long; what goes wrong with writing; a duplicate, if it is noticed already.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), BuildError> {
        check_lengths(key, value)?;
        if self.batch.bytes_with(key, value) > self.memory_bytes {
            self.write_batch(&|| true)?;
        }
        self.batch.push(key, value);
        self.charge.raise_to(self.batch.allocated_bytes());
        self.entries += 1;
        Ok(())
    }

    /// Makes the entries the tree's, durably. `go_on` is asked now and then; false ends the build with
    /// [`EngineError::Cancelled`].
    ///
    /// # Errors
    /// A duplicate; what goes wrong with writing. The tree is empty then.
    pub fn finish(mut self, go_on: &dyn Fn() -> bool) -> std::result::Result<Built, BuildError> {
        self.write_batch(go_on)?;
        let main = self.main.take().map(RunWriter::finish).transpose()?;
        let mut runs: Vec<Extents> = main.into_iter().collect();
        runs.extend(std::mem::take(&mut self.tiers).into_iter().flatten());
        let extents = match runs.len() {
            0 => return Ok(Built::default()),
            1 => runs.remove(0),
            _ => {
                let writer = self.writer(LEVEL);
                merge(runs, writer, Some(self.seq), go_on)?
            }
        };
        let entries = || {
            extents
                .iter()
                .map(|extent| extent.meta().entries)
                .sum::<u64>()
        };
        debug_assert_eq!(entries(), self.entries, "what was added is there");
        let built = Built {
            entries: self.entries,
            extents: extents.len() as u64,
            bytes: extents
                .iter()
                .map(|e| u64::from(e.meta().stored_bytes))
                .sum(),
            spilled_runs: self.spilled_runs,
        };
        self.install(extents)?;
        self.trees.note(|work| {
            work.built_trees += 1;
            work.built_extents += built.extents;
            work.built_bytes += built.bytes;
            work.build_spills += built.spilled_runs;
        });
        Ok(built)
    }

    fn writer(&self, level: u8) -> RunWriter {
        let writer = RunWriter::new(self.trees.store(), self.tree.id(), level);
        writer.with_fields(self.tree.fields())
    }

    fn install(&self, extents: Extents) -> Result<()> {
        let slots = extents.iter().map(|extent| extent.slots());
        self.trees.store().space.sync(slots)?;
        let place = RunAddress::level(LEVEL);
        let edit = ShapeEdit {
            removed: Vec::new(),
            added: extents.into_iter().map(|extent| (place, extent)).collect(),
        };
        let installation = Installation {
            edit,
            flushed: false,
            flushed_seq: None,
        };
        match self.trees.install(&self.tree, installation)? {
            true => Ok(()),
            false => Err(EngineError::NoSuchTree(self.tree.id())),
        }
    }

    /// Sorts the batch and writes it out.
    fn write_batch(&mut self, go_on: &dyn Fn() -> bool) -> std::result::Result<(), BuildError> {
        self.trees.check_health()?;
        self.batch.sort();
        if let Some((key, value)) = self.batch.duplicate() {
            return Err(duplicate(key, value));
        }
        let Some((first, last)) = self.batch.ends() else {
            return Ok(());
        };
        if self.main.is_none() || *self.tail < *first {
            let main = match self.main.take() {
                Some(main) => main,
                None => self.writer(LEVEL),
            };
            let main = self.main.insert(main);
            self.batch
                .each(|key, value| main.add(key, self.seq, Op::Put, value))?;
            self.tail.clear();
            self.tail.extend_from_slice(last);
        } else {
            self.spilled_runs += 1;
            // Later batches have higher sequences: of two equal keys the merge meets the later one first.
            let seq = self.seq + self.spilled_runs;
            let mut run = self.writer(0);
            self.batch
                .each(|key, value| run.add(key, seq, Op::Put, value))?;
            let run = run.finish()?;
            self.keep_run(run, go_on)?;
        }
        self.batch.clear();
        Ok(())
    }

    /// Puts a run aside, and merges as many as there should be no more of.
    fn keep_run(
        &mut self,
        run: Extents,
        go_on: &dyn Fn() -> bool,
    ) -> std::result::Result<(), BuildError> {
        let mut run = run;
        for tier in 0.. {
            if self.tiers.len() == tier {
                self.tiers.push(Vec::new());
            }
            self.tiers[tier].push(run);
            debug_assert!(self.tiers[tier].len() <= FAN_IN);
            if self.tiers[tier].len() < FAN_IN {
                break;
            }
            let runs = std::mem::take(&mut self.tiers[tier]);
            let writer = self.writer(0);
            run = merge(runs, writer, None, go_on)?;
        }
        Ok(())
    }
}

fn check_lengths(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > MAX_KEY_BYTES {
        return Err(EngineError::KeyTooLong {
            key_bytes: key.len(),
            limit_bytes: MAX_KEY_BYTES,
        });
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(EngineError::ValueTooLong {
            value_bytes: value.len(),
            limit_bytes: MAX_VALUE_BYTES,
        });
    }
    Ok(())
}

fn duplicate(key: &[u8], value: &[u8]) -> BuildError {
    BuildError::Duplicate {
        key: key.into(),
        value: value.into(),
    }
}

/// Merges runs; with `seq` all entries get this sequence.
fn merge(
    runs: Vec<Extents>,
    mut writer: RunWriter,
    seq: Option<Seq>,
    go_on: &dyn Fn() -> bool,
) -> std::result::Result<Extents, BuildError> {
    let source = |extents: Extents| {
        let run = Run::new(RunId(0), extents);
        debug_assert!(run.is_sorted());
        Box::new(RunIter::new(run, ReadMode::Once)) as Box<dyn InternalIter>
    };
    debug_assert!(runs.len() > 1);
    let mut merged = MergingIter::new(runs.into_iter().map(source).collect());
    merged.seek_to_first()?;
    // The entry before, which is the later one of two with the same key.
    let (mut last_key, mut last_value) = (Vec::new(), Vec::new());
    let mut entries = 0;
    while merged.valid() {
        if entries > 0 && last_key == merged.key() {
            return Err(duplicate(&last_key, &last_value));
        }
        last_key.clear();
        last_key.extend_from_slice(merged.key());
        last_value.clear();
        last_value.extend_from_slice(merged.value());
        writer.add(
            &last_key,
            seq.unwrap_or_else(|| merged.seq()),
            Op::Put,
            &last_value,
        )?;
        entries += 1;
        if entries % ENTRIES_PER_CHECK == 0 && !go_on() {
            return Err(EngineError::Cancelled(CancelReason::StatementKilled).into());
        }
        merged.next()?;
    }
    Ok(writer.finish()?)
}
