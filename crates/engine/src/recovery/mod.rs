//! Replay of the log: what was committed after the last flush of each tree goes back into memtables.
//!
//! Neighbours: `esker-wal` finds and checks the records and cuts the torn tail; the manifest (`tree`) says up to where
//! each tree is on disk; `engine` runs the replay when it opens.
//!
//! | record | what replay does |
//! |---|---|
//! | Commit | raises its counters; inserts its writes, tree by tree, unless the tree has them on disk or is gone |
//! | Prepare | raises its counters; keeps writes and locks in a table |
//! | CommitPrepared | takes the prepare named by XID and sequence out of the table and inserts its writes |
//! | RollbackPrepared | takes it out and forgets it |
//! | CounterSet | raises or sets the counter |
//!
//! **Invariants**
//! - A write of sequence s to a tree is skipped if and only if s is at or below the tree's recovery point, or the tree was
//!   dropped. A counter change is skipped if and only if s is at or below the sequence the stored counters stand for.
//! - Records are applied in the order of the log. A write that an extent has already, from after the recovery point, is
//!   applied again with the same sequence: the same version, which readers see once.
//! - A record that cannot be decoded is damage, whatever its checksum says.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_wal::{BlockSummary, Record, RecordKind};

use crate::codec::Malformed;
use crate::commit::COUNTERS_TREE;
use crate::commit::counters::Counters;
use crate::commit::record::{CounterChange, Reader};
use crate::lock::{LockManager, LockMode, LockOutcome, LockOwner, WaitPolicy};
use crate::memtable::Memtable;
use crate::tree::{Recovered, Trees};
use crate::txn::WriteSet;
use crate::txn::prepared::{PreparedTable, PreparedTxn};
use crate::{EngineError, Result, Seq, TreeId};

/// What a replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayStats {
    /// Records met.
    pub records: u64,
    /// Versions inserted into memtables.
    pub writes: u64,
    /// Times the memory limit was reached, so that memtables had to be flushed.
    pub flushes: u64,
}

/// When a replay switches and flushes memtables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayLimits {
    /// A memtable is switched at this size.
    pub(crate) memtable_bytes: usize,
    /// Memtables are flushed when they have more than this together. The same limit as in normal operation, so that
    /// what fitted before a restart fits again.
    pub(crate) memory_bytes: usize,
}

/// The sizes of all memtables are added up each time this share of the limit was replayed.
const LOOKS_PER_LIMIT: usize = 16;

/// A prepare record without a decision so far.
struct Undecided {
    start: u64,
    writes: WriteSet,
    locks: Vec<(LockMode, TreeId, Vec<u8>)>,
}

impl esker_wal::Replay for Replay<'_> {
    type Error = EngineError;

    fn wants_block(&mut self, block: &BlockSummary<'_>) -> bool {
        let largest = block.seqs.1;
        let stored = |tree: &u32| match TreeId(*tree) {
            COUNTERS_TREE => largest <= self.counters_as_of,
            tree => self.is_on_disk(tree, largest),
        };
        // A decision may be about an earlier prepare, so two-phase records are always looked at.
        block.two_phase || !block.trees.is_some_and(|trees| trees.iter().all(stored))
    }

    fn record(&mut self, record: Record<'_>) -> Result<()> {
        self.apply(&record)?;
        self.limit_memory(&record)
    }
}

/// A replay in progress.
pub(crate) struct Replay<'a> {
    trees: &'a Trees,
    counters: &'a Counters,
    /// Records that end at or below are not handed over.
    log_from: u64,
    /// The counters were stored with the effect of everything up to here.
    counters_as_of: Seq,
    /// By XID and prepare sequence: an XID may be used again.
    undecided: BTreeMap<(Vec<u8>, Seq), Undecided>,
    limits: ReplayLimits,
    /// Bytes of records since the sizes of the memtables were added up.
    unweighed_bytes: usize,
    stats: ReplayStats,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        trees: &'a Trees,
        counters: &'a Counters,
        recovered: &Recovered,
        limits: ReplayLimits,
    ) -> Self {
        Replay {
            trees,
            counters,
            log_from: recovered.log_from,
            counters_as_of: recovered.counters_as_of,
            undecided: BTreeMap::new(),
            limits,
            unweighed_bytes: 0,
            stats: ReplayStats::default(),
        }
    }

    /// Applies the next record.
    fn apply(&mut self, record: &Record<'_>) -> Result<()> {
        self.stats.records += 1;
        let result = match record.kind {
            RecordKind::Commit => self.commit(record),
            RecordKind::Prepare => self.prepare(record),
            RecordKind::CommitPrepared => self.commit_prepared(record),
            RecordKind::RollbackPrepared => self.rollback_prepared(record),
            RecordKind::CounterSet => self.counter_set(record),
            RecordKind::Noop => Ok(()),
        };
        result.map_err(|what| {
            EngineError::corruption(
                "the log",
                record.start.0,
                format!("{:?}: {what}", record.kind),
            )
        })
    }

    fn commit(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        let mut reader = Reader::new(record.payload)?;
        self.raise_counters(&mut reader, record.end.0)?;
        let mut table: Option<Arc<Memtable>> = None;
        let mut inserted = 0;
        // The two closures share the table of the tree at hand.
        let at = std::cell::RefCell::new(&mut table);
        reader.writes(
            |tree| {
                let found = self.table_for(tree, record.start.0, record.end.0);
                let wanted = found.is_some();
                **at.borrow_mut() = found;
                wanted
            },
            |_, op, key, value| {
                if let Some(table) = at.borrow().as_ref() {
                    table.insert(key, record.end.0, op, value);
                    inserted += 1;
                }
            },
        )?;
        self.stats.writes += inserted;
        Ok(())
    }

    fn prepare(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        let mut reader = Reader::new(record.payload)?;
        let xid = reader.xid()?.to_vec();
        let mut locks = Vec::new();
        reader.locks(|mode, tree, key| locks.push((mode, tree, key.to_vec())))?;
        self.raise_counters(&mut reader, record.end.0)?;
        let mut writes = WriteSet::default();
        let mut failed = None;
        reader.writes(
            |tree| self.trees.get(tree).is_some(),
            |tree, op, key, value| {
                let Some(tree) = self.trees.get(tree) else {
                    return;
                };
                failed = writes.write(&tree, key, op, value, u64::MAX).err();
            },
        )?;
        if failed.is_some() {
            return Err("a write over the limits");
        }
        let undecided = Undecided {
            start: record.start.0,
            writes,
            locks,
        };
        if self
            .undecided
            .insert((xid, record.end.0), undecided)
            .is_some()
        {
            return Err("prepared twice");
        }
        Ok(())
    }

    fn commit_prepared(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        let (decided, prepare) = self.decide(record.payload)?;
        let Some(undecided) = decided else {
            // The log lets go of a prepare only when the writes it decides about are in extents.
            return match prepare <= self.log_from {
                true => Ok(()),
                false => Err("its prepare record is missing"),
            };
        };
        for tree_writes in undecided.writes.trees() {
            let tree = tree_writes.tree.id();
            let Some(table) = self.table_for(tree, undecided.start, record.end.0) else {
                continue;
            };
            let mut inserted = 0;
            undecided
                .writes
                .for_each_live(tree_writes, |op, key, value| {
                    table.insert(key, record.end.0, op, value);
                    inserted += 1;
                });
            self.stats.writes += inserted;
        }
        Ok(())
    }

    fn rollback_prepared(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        self.decide(record.payload).map(|_forgotten| ())
    }

    /// Takes the transaction that a decision names out of the table; gives the sequence of its prepare, too.
    fn decide(&mut self, payload: &[u8]) -> Result<(Option<Undecided>, Seq), Malformed> {
        let mut reader = Reader::new(payload)?;
        let xid = reader.xid()?.to_vec();
        let prepare = reader.seq()?;
        reader.finish()?;
        Ok((self.undecided.remove(&(xid, prepare)), prepare))
    }

    fn counter_set(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        let mut reader = Reader::new(record.payload)?;
        let (how, tree, value) = reader.counter_change()?;
        reader.finish()?;
        self.change_counter(how, tree, value, record.end.0);
        Ok(())
    }

    fn raise_counters(&self, reader: &mut Reader<'_>, seq: Seq) -> Result<(), Malformed> {
        reader.counters(|tree, value| self.change_counter(CounterChange::Raise, tree, value, seq))
    }

    fn change_counter(&self, how: CounterChange, tree: TreeId, value: u64, seq: Seq) {
        if seq > self.counters_as_of && self.trees.get(tree).is_some() {
            self.counters.apply(how, tree, value, seq);
        }
    }

    fn is_on_disk(&self, tree: TreeId, seq: Seq) -> bool {
        self.trees
            .get(tree)
            .is_none_or(|tree| seq <= tree.recovery_point())
    }

    /// Switches memtables that are full, and flushes when all together are too large. Every record so far is applied, so the
    /// end of the last one is the recovery point; and all of them are durable, because nothing else is replayed.
    fn limit_memory(&mut self, record: &Record<'_>) -> Result<()> {
        let seq = record.end.0;
        let touched = record
            .trees
            .iter()
            .filter_map(|tree| self.trees.get(TreeId(*tree)));
        for tree in touched {
            if tree.superversion().active.bytes() >= self.limits.memtable_bytes {
                tree.rotate(seq);
            }
        }
        self.unweighed_bytes += record.payload.len();
        if self.unweighed_bytes < self.limits.memory_bytes / LOOKS_PER_LIMIT {
            return Ok(());
        }
        self.unweighed_bytes = 0;
        let trees = self.trees.all();
        let bytes: usize = trees
            .iter()
            .map(|tree| tree.superversion().memtable_bytes())
            .sum();
        if bytes <= self.limits.memory_bytes {
            return Ok(());
        }
        self.stats.flushes += 1;
        for tree in trees {
            tree.rotate(seq);
            while self.trees.flush(&tree, seq)? {}
        }
        Ok(())
    }

    /// The active memtable of a tree, told of the record; `None` if the writes of the record are not wanted.
    fn table_for(&self, tree: TreeId, start: u64, seq: Seq) -> Option<Arc<Memtable>> {
        let tree = self
            .trees
            .get(tree)
            .filter(|tree| seq > tree.recovery_point())?;
        let table = Arc::clone(&tree.superversion().active);
        let pin = table.pin(start, seq);
        assert!(
            pin.is_some(),
            "replay is the only one who switches memtables now"
        );
        drop(pin);
        Some(table)
    }

    /// Ends the replay: the transactions that are still undecided get their row locks back and wait on.
    pub(crate) fn finish(
        self,
        locks: &Arc<LockManager>,
        prepared: &PreparedTable,
    ) -> Result<ReplayStats> {
        for ((xid, seq), undecided) in self.undecided {
            let owner = LockOwner::new();
            for (mode, tree, key) in undecided.locks {
                let outcome = locks.lock(&owner, tree, &key, mode, WaitPolicy::NoWait, 0)?;
                debug_assert!(matches!(outcome, LockOutcome::Granted { .. }));
            }
            let (start, writes) = (undecided.start, undecided.writes);
            prepared.insert(
                &xid,
                PreparedTxn {
                    start,
                    seq,
                    writes,
                    owner,
                },
            );
        }
        Ok(self.stats)
    }
}
