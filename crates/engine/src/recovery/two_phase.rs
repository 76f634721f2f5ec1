//! Two-phase transactions over a replay: prepares look for their decisions and decisions for their prepares.
//!
//! Neighbours: both ways to replay (`serial`, `parallel`) keep one table; what is left in it at the end goes to
//! `txn::prepared` and waits on.
//!
//! A transaction is named by its identifier and the sequence of its prepare record, because an identifier may be used
//! again. With that name it does not matter which of the two records is met first, as long as both are in the table
//! before it is asked.
//!
//! **Invariants**
//! - A decision finds exactly the prepare it names. The log lets go of a prepare only when the writes that were decided
//!   about are in extents, so a prepare that is missing ends at or below the start of the log, or something is lost.
//! - Attachments stay in the log: nothing of them is kept.
//! - What a prepare wrote gets the sequence of the decision, and needs the log from the prepare on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use esker_wal::LogBytes;

use crate::batch::WriteSet;
use crate::codec::Malformed;
use crate::commit::id::PreparedId;
use crate::commit::record::{Locked, Reader};
use crate::lock::{LockManager, LockOutcome, WaitPolicy};
use crate::tree::{IngestId, Trees};
use crate::txn::prepared::{PreparedTable, PreparedTxn};
use crate::{EngineError, Result, Seq};

/// The payload of a prepare record, without its attachment.
enum Payload {
    /// Where it was read.
    InLog(Arc<LogBytes>, Range<usize>),
    /// A copy, so that it does not keep what lies around it.
    Own(Box<[u8]>),
}

/// A prepare record.
pub(super) struct Prepare {
    pub(super) id: PreparedId,
    /// Its start and its sequence.
    pub(super) start: u64,
    pub(super) seq: Seq,
    payload: Payload,
}

impl Prepare {
    /// The prepare record at `range` of `buffer`, and a reader that stands behind its locks.
    pub(super) fn read<'a>(
        buffer: &'a Arc<LogBytes>,
        range: Range<usize>,
        start: u64,
        seq: Seq,
    ) -> Result<(Prepare, Reader<'a>), Malformed> {
        debug_assert!(start < seq, "a record has a length");
        let mut reader = Reader::of_prepare(&buffer[range.clone()])?;
        let id = reader.id()?;
        reader.locks(|_, _| ())?;
        let kept = range.start..range.end - reader.attachment().len();
        let payload = Payload::InLog(Arc::clone(buffer), kept);
        let prepare = Prepare {
            id,
            start,
            seq,
            payload,
        };
        Ok((prepare, reader))
    }

    fn payload(&self) -> &[u8] {
        match &self.payload {
            Payload::InLog(buffer, range) => &buffer[range.clone()],
            Payload::Own(bytes) => bytes,
        }
    }

    /// A reader that stands before the trees and writes.
    pub(super) fn writes(&self) -> Result<Reader<'_>, Malformed> {
        Self::behind_counters(Reader::of_beginning(self.payload())?)
    }

    /// The same for the whole payload of a prepare record.
    pub(super) fn body(payload: &[u8]) -> Result<Reader<'_>, Malformed> {
        Self::behind_counters(Reader::of_prepare(payload)?)
    }

    fn behind_counters(mut reader: Reader<'_>) -> Result<Reader<'_>, Malformed> {
        reader.id()?;
        reader.locks(|_, _| ())?;
        reader.counters(|_, _| ())?;
        Ok(reader)
    }

    /// Bytes of its payload, without the attachment.
    pub(super) fn bytes(&self) -> usize {
        self.payload().len()
    }

    /// The same with a copy of its payload: it does not keep what lies around it in the log.
    pub(super) fn alone(mut self) -> Self {
        self.keep_alone();
        self
    }

    /// Bytes that it keeps in memory.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        match &self.payload {
            Payload::InLog(buffer, _) => buffer.capacity(),
            Payload::Own(bytes) => bytes.len(),
        }
    }

    fn keep_alone(&mut self) {
        if let Payload::InLog(..) = self.payload {
            self.payload = Payload::Own(self.payload().into());
        }
    }

    /// Takes the locks again, shows the writes to others, and gives the transaction to those that wait for a decision.
    fn wait_on(
        &self,
        trees: &Trees,
        locks: &Arc<LockManager>,
        prepared: &PreparedTable,
    ) -> Result<(), EngineError> {
        let owner = locks.new_owner();
        let mut locked = Ok(());
        let mut reader = self.reader_at_locks().map_err(|what| self.damaged(what))?;
        let is_silent = reader.is_silent();
        let read = reader.locks(|tree, lock| match lock {
            Locked::Row(mode, key) => {
                let outcome = locks.lock(&owner, tree, key, mode, WaitPolicy::NoWait, 0);
                debug_assert!(
                    matches!(outcome, Ok(LockOutcome::Granted { .. })) || locked.is_err()
                );
                if let Err(error) = outcome {
                    locked = Err(error);
                }
            }
            Locked::Range(kind, span) => locks.restore_range(&owner, kind, tree, span),
        });
        read.map_err(|what| self.damaged(what))?;
        locked?;
        let (writes, ingest) = self.write_set(trees).map_err(|what| self.damaged(what))?;
        for written in writes.trees() {
            owner.publish_writes(&writes, written.tree.id());
        }
        let (start, seq) = (self.start, self.seq);
        prepared.insert(
            &self.id,
            PreparedTxn {
                start,
                seq,
                writes,
                owner,
                ingest,
                is_silent,
            },
        );
        Ok(())
    }

    fn reader_at_locks(&self) -> Result<Reader<'_>, Malformed> {
        let mut reader = Reader::of_beginning(self.payload())?;
        reader.id()?;
        Ok(reader)
    }

    fn write_set(&self, trees: &Trees) -> Result<(WriteSet, Option<IngestId>), Malformed> {
        let mut set = WriteSet::default();
        let mut reader = self.writes()?;
        for _ in 0..reader.trees()? {
            let (tree, writes) = reader.tree_writes()?;
            let tree = trees.get(tree);
            for _ in 0..writes {
                let write = reader.write()?;
                if let Some(tree) = &tree {
                    set.write(tree, write.key, write.op, write.value, u64::MAX, 0)
                        .map_err(|_| "a write over the limits")?;
                }
            }
        }
        Ok((set, reader.ingest()?))
    }

    /// Damage in this record.
    pub(super) fn damaged(&self, what: Malformed) -> EngineError {
        damaged(self.start, what)
    }
}

/// Damage in the log record that starts there.
pub(super) fn damaged(start: u64, what: Malformed) -> EngineError {
    EngineError::corruption("the log", start, format!("the record: {what}"))
}

/// A decision record.
pub(super) struct Decision {
    pub(super) id: PreparedId,
    /// The sequence of the prepare it is about.
    pub(super) prepare: Seq,
    /// Its own start and sequence.
    pub(super) start: u64,
    pub(super) seq: Seq,
    pub(super) commits: bool,
    /// What is in extents of it.
    pub(super) ingest: Option<IngestId>,
}

impl Decision {
    pub(super) fn read(
        payload: &[u8],
        start: u64,
        seq: Seq,
        commits: bool,
    ) -> Result<Decision, Malformed> {
        let mut reader = Reader::new(payload)?;
        let id = reader.id()?;
        let prepare = reader.seq()?;
        let ingest = reader.ingest()?;
        Ok(Decision {
            id,
            prepare,
            start,
            seq,
            commits,
            ingest: ingest.filter(|_| commits),
        })
    }
}

/// The prepares without a decision so far.
pub(super) struct TwoPhase {
    /// Records that end at or below are not read any more.
    log_from: u64,
    undecided: BTreeMap<(PreparedId, Seq), Prepare>,
}

impl TwoPhase {
    pub(super) fn new(log_from: u64) -> Self {
        TwoPhase {
            log_from,
            undecided: BTreeMap::new(),
        }
    }

    pub(super) fn prepare(&mut self, prepare: Prepare) -> Result<(), EngineError> {
        let name = (prepare.id.clone(), prepare.seq);
        match self.undecided.insert(name, prepare) {
            None => Ok(()),
            Some(first) => Err(first.damaged("prepared twice")),
        }
    }

    /// The prepare that a decision is about; `None` if it is gone because everything about it is in extents.
    pub(super) fn decide(&mut self, decision: &Decision) -> Result<Option<Prepare>, EngineError> {
        let name = (decision.id.clone(), decision.prepare);
        match self.undecided.remove(&name) {
            Some(prepare) => Ok(Some(prepare)),
            None if decision.prepare <= self.log_from => Ok(None),
            None => Err(damaged(
                decision.start,
                "the prepare record that it decides about is missing",
            )),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.undecided.len()
    }

    /// Lets go of the buffers around the prepares that are left.
    pub(super) fn keep_alone(&mut self) {
        self.undecided.values_mut().for_each(Prepare::keep_alone);
    }

    /// The replay is over: what is still undecided gets its row locks back and waits on.
    pub(super) fn finish(
        self,
        trees: &Trees,
        locks: &Arc<LockManager>,
        prepared: &PreparedTable,
    ) -> Result<(), EngineError> {
        self.undecided
            .values()
            .try_for_each(|prepare| prepare.wait_on(trees, locks, prepared))
    }
}
