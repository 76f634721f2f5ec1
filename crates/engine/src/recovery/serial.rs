//! The serial replay: record after record into memtables, as the source of the parallel one began with.
//!
//! Neighbours: `mod` chooses it; it is there so that the parallel replay can be compared with it.
//!
//! **Invariants**
//! - Records are applied in the order of the log, so whenever a memtable is switched everything up to the last record
//!   is in tables that are immutable then: its end is the flushed sequence (rule R4).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use esker_wal::{BlockSummary, LogReader, Record, RecordKind};

use super::Target;
use super::collect::Plan;
use super::two_phase::{Decision, Prepare, TwoPhase, damaged};
use crate::codec::Malformed;
use crate::commit::record::{CounterChange, Reader};
use crate::memtable::Memtable;
use crate::{EngineError, Result, Seq, TreeId};

/// The sizes of all memtables are added up each time this share of the limit was replayed.
const LOOKS_PER_LIMIT: usize = 16;

impl esker_wal::Replay for Serial<'_> {
    type Error = EngineError;

    fn wants_block(&mut self, block: &BlockSummary<'_>) -> bool {
        self.plan.wants_block(block)
    }

    fn record(&mut self, record: Record<'_>) -> Result<()> {
        self.target.recovery.check_stop()?;
        self.apply(&record)?;
        self.limit_memory(&record)
    }
}

/// A replay in progress.
struct Serial<'a> {
    target: &'a Target<'a>,
    plan: Plan,
    two_phase: TwoPhase,
    /// Bytes of records since the sizes of the memtables were added up.
    unweighed_bytes: usize,
    /// The disk is full: what was not flushed stays in memory.
    is_full: bool,
}

/// Reads the log into memtables.
pub(super) fn read(log: &LogReader, target: &Target<'_>) -> Result<()> {
    let mut serial = Serial {
        target,
        plan: Plan::whole(target.trees, target.recovered),
        two_phase: TwoPhase::new(target.recovered.log_from),
        unweighed_bytes: 0,
        is_full: false,
    };
    log.replay(&mut serial)?;
    let two_phase = serial.two_phase;
    two_phase.finish(target.trees, target.locks, target.prepared)
}

impl Serial<'_> {
    /// Applies the next record.
    fn apply(&mut self, record: &Record<'_>) -> Result<()> {
        self.target.recovery.records.fetch_add(1, Ordering::Relaxed);
        let (start, seq) = (record.start.0, record.end.0);
        let malformed = |what| damaged(start, what);
        match record.kind {
            RecordKind::Commit => self.commit(record).map_err(malformed),
            RecordKind::Prepare => {
                let range = record.payload_range();
                let (prepare, mut reader) =
                    Prepare::read(record.buffer, range, start, seq).map_err(malformed)?;
                self.raise_counters(&mut reader, seq).map_err(malformed)?;
                self.two_phase.prepare(prepare.alone())
            }
            RecordKind::CommitPrepared | RecordKind::RollbackPrepared => {
                let commits = record.kind == RecordKind::CommitPrepared;
                let decision =
                    Decision::read(record.payload, start, seq, commits).map_err(malformed)?;
                let prepare = self.two_phase.decide(&decision)?;
                if let Some(ingest) = decision.ingest {
                    self.target.trees.ingest(ingest, seq);
                }
                match prepare.filter(|_| commits) {
                    Some(prepare) => prepare
                        .writes()
                        .and_then(|mut writes| {
                            self.insert(&mut writes, prepare.start, seq)?;
                            writes.ingest().map(drop)
                        })
                        .map_err(|what| prepare.damaged(what)),
                    None => Ok(()),
                }
            }
            RecordKind::CounterSet => self.counter_set(record).map_err(malformed),
            RecordKind::Noop | RecordKind::Note => Ok(()),
        }
    }

    fn commit(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        let mut reader = Reader::new(record.payload)?;
        self.raise_counters(&mut reader, record.end.0)?;
        self.insert(&mut reader, record.start.0, record.end.0)?;
        if let Some(ingest) = reader.ingest()? {
            self.target.trees.ingest(ingest, record.end.0);
        }
        Ok(())
    }

    /// Inserts the writes that end a body.
    fn insert(&mut self, reader: &mut Reader<'_>, start: u64, seq: Seq) -> Result<(), Malformed> {
        let mut inserted = 0;
        for _ in 0..reader.trees()? {
            let (tree, writes) = reader.tree_writes()?;
            let table = self.table_for(tree, start, seq);
            for _ in 0..writes {
                let write = reader.write()?;
                if let Some(table) = &table {
                    table.insert(write.key, seq, write.op, write.value);
                    inserted += 1;
                }
            }
        }
        let rows = &self.target.recovery.rows;
        rows.fetch_add(inserted, Ordering::Relaxed);
        Ok(())
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
        if self.plan.wants_counter(tree, seq) {
            self.target.counters.apply(how, tree, value, seq);
        }
    }

    /// Switches memtables that are full, and flushes when all together are too large. All records so far are durable,
    /// because nothing else is replayed.
    fn limit_memory(&mut self, record: &Record<'_>) -> Result<()> {
        let (seq, limits) = (record.end.0, self.target.limits);
        let trees = self.target.trees;
        let touched = record
            .trees
            .iter()
            .filter_map(|tree| trees.get(TreeId(*tree)));
        for tree in touched {
            if tree.superversion().active.bytes() >= limits.memtable_bytes {
                tree.rotate(seq);
            }
        }
        self.unweighed_bytes += record.payload.len();
        if self.unweighed_bytes < limits.memory_bytes / LOOKS_PER_LIMIT {
            return Ok(());
        }
        self.unweighed_bytes = 0;
        let recovery = self.target.recovery;
        recovery.bytes_done_up_to(seq, self.target.recovered.log_from);
        let all = trees.all();
        let sizes = all.iter().map(|tree| tree.superversion().in_memory().bytes);
        let bytes: usize = sizes.sum();
        recovery
            .peak_bytes
            .fetch_max(bytes as u64, Ordering::Relaxed);
        if bytes <= limits.memory_bytes || self.is_full {
            return Ok(());
        }
        recovery.flushes.fetch_add(1, Ordering::Relaxed);
        for tree in all {
            tree.rotate(seq);
            while !self.is_full {
                match trees.flush(&tree, seq) {
                    Ok(true) => {}
                    Ok(false) => break,
                    // Else the database could not be opened, and nothing in it be deleted.
                    Err(EngineError::DiskFull(what)) => {
                        tracing::warn!("the log is kept in memory, beyond its limit: {what}");
                        self.is_full = true;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The active memtable of a tree, told of the record; `None` if the writes of the record are not wanted.
    fn table_for(&self, tree: TreeId, start: u64, seq: Seq) -> Option<Arc<Memtable>> {
        // The flushed sequence moves when the tree is flushed, but never beyond what was applied.
        let planned = &self.plan.trees[self.plan.wanted(tree, seq)?];
        let table = Arc::clone(&planned.tree.superversion().active);
        let pin = table.pin(start, seq);
        assert!(
            pin.is_some(),
            "replay is the only one who switches memtables now"
        );
        drop(pin);
        Some(table)
    }
}
