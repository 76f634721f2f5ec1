//! Two-phase transactions between their prepare and their decision.
//!
//! Neighbours: `Txn::prepare` puts one in, the engine's decisions take it out, `recovery` rebuilds the table from the
//! log, and the release of the log asks how far back it reaches.
//!
//! **Invariants**
//! - A prepared transaction keeps its row and range locks, also over a restart.
//! - It stays in the table until its versions are in memtables that know the start of its prepare record: at every
//!   moment either the table or a memtable keeps the log from being released behind it.
//! - At most one prepared transaction has an identifier at a time; over time it may be used again, so the log names the
//!   transaction by identifier and prepare sequence.
//! - Nothing of an attachment is kept here: it is in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Commit, Txn, TxnEnv};
use crate::batch::WriteSet;
use crate::commit;
use crate::commit::entry::{AttachmentPieces, Entry, EntryBuffers};
use crate::commit::env::{Background, Ingest};
use crate::commit::id::PreparedId;
use crate::commit::log::Place;
use crate::lock::{LockInfo, LockManager, LockOwner, OwnerId};
use crate::tree::IngestId;
use crate::{EngineError, Result, Seq, TreeId};
use esker_wal::RecordKind;

/// A transaction that waits for its decision.
pub(crate) struct PreparedTxn {
    /// Start of the prepare record.
    pub(crate) start: u64,
    /// Its sequence, which tells it from earlier uses of the identifier.
    pub(crate) seq: Seq,
    pub(crate) writes: WriteSet,
    pub(crate) owner: Arc<LockOwner>,
    /// What is staged for it in extents.
    pub(crate) ingest: Option<IngestId>,
    /// Nobody who follows was told of it, so nobody is told of its decision.
    pub(crate) is_silent: bool,
}

/// Where those who follow find what a transaction that is prepared has changed.
pub(super) enum Told<'a> {
    /// In the record.
    Attachment(AttachmentPieces<'a>),
    /// In the log that decides.
    OtherLog,
    Nowhere,
}

enum Slot {
    /// It is being prepared.
    Preparing,
    Waiting(Box<PreparedTxn>),
    /// A decision is being logged; the log is needed from here.
    Deciding {
        start: u64,
    },
}

/// All prepared transactions.
#[derive(Default)]
pub(crate) struct PreparedTable {
    slots: Mutex<BTreeMap<PreparedId, Slot>>,
}

impl PreparedTable {
    fn reserve(&self, id: &PreparedId) -> Result<()> {
        let mut slots = self.slots.lock();
        if slots.contains_key(id) {
            return Err(EngineError::DuplicatePrepared);
        }
        slots.insert(id.clone(), Slot::Preparing);
        Ok(())
    }

    pub(crate) fn insert(&self, id: &PreparedId, txn: PreparedTxn) {
        assert!(txn.start < txn.seq, "a sequence is the end of its record");
        let before = self
            .slots
            .lock()
            .insert(id.clone(), Slot::Waiting(Box::new(txn)));
        assert!(
            !matches!(before, Some(Slot::Waiting(_))),
            "an identifier belongs to one transaction at a time"
        );
    }

    pub(crate) fn remove(&self, id: &PreparedId) {
        let slot = self.slots.lock().remove(id);
        assert!(
            matches!(slot, Some(Slot::Preparing | Slot::Deciding { .. })),
            "who waits stays in the table"
        );
    }

    /// Takes a transaction for its decision; its place stays until [`PreparedTable::remove`].
    fn take(&self, id: &PreparedId) -> Result<PreparedTxn> {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(id).ok_or(EngineError::NoSuchPrepared)?;
        let Slot::Waiting(txn) = slot else {
            return Err(EngineError::NoSuchPrepared);
        };
        let start = txn.start;
        match std::mem::replace(slot, Slot::Deciding { start }) {
            Slot::Waiting(txn) => Ok(*txn),
            Slot::Preparing | Slot::Deciding { .. } => unreachable!("matched above"),
        }
    }

    /// Where the log is needed from for the transactions in the table; `u64::MAX` if it is not.
    pub(crate) fn first_lsn(&self) -> u64 {
        let slots = self.slots.lock();
        let starts = slots.values().map(|slot| match slot {
            // Its record is not completed, so the watermark is behind it.
            Slot::Preparing => u64::MAX,
            Slot::Waiting(txn) => txn.start,
            Slot::Deciding { start } => *start,
        });
        starts.fold(u64::MAX, u64::min)
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.lock().len()
    }

    /// Is there one under this identifier that waits for its decision?
    pub(super) fn waits(&self, id: &PreparedId) -> bool {
        matches!(self.slots.lock().get(id), Some(Slot::Waiting(_)))
    }

    /// Was nobody told of a transaction that waits? Records that were written before there was a mark tell only whether
    /// it has written anything.
    pub(crate) fn is_silent(&self, id: &PreparedId) -> bool {
        matches!(self.slots.lock().get(id), Some(Slot::Waiting(txn)) if txn.is_silent || txn.writes.is_untouched())
    }

    /// Trees that a transaction that waits has written to, or in which it holds locks; ascending.
    pub(crate) fn trees(&self, id: &PreparedId, locks: &LockManager) -> Vec<TreeId> {
        let slots = self.slots.lock();
        let Some(Slot::Waiting(txn)) = slots.get(id) else {
            return Vec::new();
        };
        let written = txn.writes.trees().iter().map(|writes| writes.tree.id());
        let mut trees: BTreeSet<TreeId> = written.collect();
        locks.for_each_held(&txn.owner, |_, tree, _| {
            trees.insert(tree);
        });
        locks.for_each_range(&txn.owner, |_, tree, _| {
            trees.insert(tree);
        });
        trees.into_iter().collect()
    }

    /// What a transaction that waits has locked, at most `limit` locks.
    pub(crate) fn locks(
        &self,
        id: &PreparedId,
        locks: &LockManager,
        limit: usize,
    ) -> Vec<LockInfo> {
        let slots = self.slots.lock();
        match slots.get(id) {
            Some(Slot::Waiting(txn)) => locks.list(&txn.owner, limit),
            _ => Vec::new(),
        }
    }

    /// A transaction that waits, as waits for its locks name it.
    pub(crate) fn owner(&self, id: &PreparedId) -> Option<OwnerId> {
        match self.slots.lock().get(id) {
            Some(Slot::Waiting(txn)) => Some(OwnerId::of(&txn.owner)),
            _ => None,
        }
    }

    /// What is staged for the transactions that wait.
    pub(crate) fn ingests(&self) -> BTreeSet<IngestId> {
        let slots = self.slots.lock();
        let waiting = slots.values().filter_map(|slot| match slot {
            Slot::Waiting(txn) => txn.ingest,
            Slot::Preparing | Slot::Deciding { .. } => None,
        });
        waiting.collect()
    }

    /// Identifiers and prepare sequences of the transactions that wait.
    pub(crate) fn list(&self) -> Vec<(PreparedId, Seq)> {
        let slots = self.slots.lock();
        let waiting = slots.iter().filter_map(|(id, slot)| match slot {
            Slot::Waiting(txn) => Some((id.clone(), txn.seq)),
            Slot::Preparing | Slot::Deciding { .. } => None,
        });
        waiting.collect()
    }
}

/// Logs the writes, the locks and the attachment of `txn`, and moves them to the table. `txn` is then as new.
pub(super) fn prepare(txn: &mut Txn, id: &PreparedId) -> Result<Seq> {
    admit_whole(txn)?;
    let attachment = std::mem::take(&mut txn.attachment);
    let told = match attachment.bytes() {
        0 => Told::Nowhere,
        _ => Told::Attachment(attachment.pieces()),
    };
    prepare_admitted(txn, id, told, None)
}

/// [`admit`] of a transaction whose writes are all to be in its record.
pub(super) fn admit_whole(txn: &Txn) -> Result<()> {
    if txn.writes.has_spilled() {
        let limit_bytes = txn.env.txn_memory();
        return Err(EngineError::TxnTooLarge { limit_bytes });
    }
    admit(txn)
}

/// Whether `txn` can be prepared; waits while background work is too far behind.
pub(super) fn admit(txn: &Txn) -> Result<()> {
    txn.home.ready()?;
    txn.home.admit_writer(&txn.writes)
}

/// [`prepare`] of a transaction that was admitted, and what is staged of its writes.
pub(super) fn prepare_admitted(
    txn: &mut Txn,
    id: &PreparedId,
    told: Told<'_>,
    staged: Option<&dyn Ingest>,
) -> Result<Seq> {
    let env = Arc::clone(&txn.env);
    env.prepared.reserve(id)?;
    let is_silent = matches!(told, Told::Nowhere);
    match log_prepare(&env, txn, id, (told, staged)) {
        Ok(place) => {
            let Place { start, seq } = place;
            let writes = std::mem::take(&mut txn.writes);
            let owner = std::mem::replace(&mut txn.owner, env.commit.locks.new_owner());
            txn.owner_changed();
            let prepared = PreparedTxn {
                start,
                seq,
                writes,
                owner,
                ingest: staged.map(Ingest::id),
                is_silent,
            };
            env.prepared.insert(id, prepared);
            // Completed only now: the watermark kept the log until the table does.
            Ok(place.complete(&env.commit.watermark))
        }
        Err(error) => {
            env.prepared.remove(id);
            Err(error)
        }
    }
}

fn log_prepare(
    env: &TxnEnv,
    txn: &mut Txn,
    id: &PreparedId,
    (told, staged): (Told<'_>, Option<&dyn Ingest>),
) -> Result<Place> {
    let commit = &*env.commit;
    let _charge = commit::charge_record(commit, &txn.writes, &mut txn.buffers)?;
    let buffers = &mut txn.buffers;
    let mut entry = match told {
        Told::Attachment(pieces) => Entry::new(RecordKind::Prepare, buffers, pieces),
        Told::OtherLog => Entry::new(RecordKind::Prepare, buffers, [&[]; 2]),
        Told::Nowhere => Entry::silent_prepare(buffers),
    };
    entry.put_locks(id, &commit.locks, &txn.owner);
    entry.put_body(&txn.counters, &txn.writes);
    if let Some(staged) = staged {
        entry.put_ingest(staged.id(), staged.trees());
    }
    let place = entry.append(&commit.log, false)?;
    commit::raise_counters(commit, &txn.counters, place.seq);
    Ok(place)
}

/// Commits a prepared transaction. The attachment is that of the decision's record.
pub(crate) fn commit_prepared(
    env: &TxnEnv,
    background: &dyn Background,
    id: &PreparedId,
    attachment: &[u8],
) -> Result<Commit> {
    background.ready()?;
    let decision = Decision {
        commits: true,
        attachment,
        makes_room: false,
    };
    apply_commit(env, background, id, decision)
}

/// Commits a prepared transaction about which another log has decided: it must be possible, also on a full disk.
pub(super) fn commit_decided(
    env: &TxnEnv,
    background: &dyn Background,
    id: &PreparedId,
) -> Result<Commit> {
    let decision = Decision {
        commits: true,
        attachment: &[],
        makes_room: true,
    };
    apply_commit(env, background, id, decision)
}

fn apply_commit(
    env: &TxnEnv,
    background: &dyn Background,
    id: &PreparedId,
    decision: Decision<'_>,
) -> Result<Commit> {
    let (mut txn, place) = log_decision(env, id, decision)?;
    // What a reader finds in extents is in a log that no crash takes back.
    let ingested = txn.ingest.map_or(Ok(()), |ingest| {
        env.commit.log.harden(place.seq)?;
        env.trees.ingest(ingest, place.seq);
        Ok(())
    });
    // The memtables must keep the log from the prepare record on, not only from the decision.
    commit::insert_writes(background, &txn.writes, txn.start, place.seq);
    let commit = conclude(env, id, &mut txn, place);
    ingested.map(|()| commit)
}

fn apply_rollback(env: &TxnEnv, id: &PreparedId, decision: Decision<'_>) -> Result<Commit> {
    let (mut txn, place) = log_decision(env, id, decision)?;
    if let Some(ingest) = txn.ingest
        && let Err(error) = env.trees.unstage(ingest)
    {
        tracing::warn!(%error, "extents of a transaction that did not commit stay until the next start");
    }
    Ok(conclude(env, id, &mut txn, place))
}

/// Rolls a prepared transaction back. The attachment is that of the decision's record.
pub(crate) fn rollback_prepared(
    env: &TxnEnv,
    background: &dyn Background,
    id: &PreparedId,
    attachment: &[u8],
) -> Result<Commit> {
    background.ready()?;
    let decision = Decision {
        commits: false,
        attachment,
        makes_room: false,
    };
    apply_rollback(env, id, decision)
}

/// As [`commit_decided`], for a transaction that is rolled back.
pub(super) fn roll_back_decided(env: &TxnEnv, id: &PreparedId) -> Result<Commit> {
    let decision = Decision {
        commits: false,
        attachment: &[],
        makes_room: true,
    };
    apply_rollback(env, id, decision)
}

/// What is logged of a decision.
struct Decision<'a> {
    commits: bool,
    attachment: &'a [u8],
    /// It may use what is held back on a full disk.
    makes_room: bool,
}

/// The decision is logged and applied.
fn conclude(env: &TxnEnv, id: &PreparedId, txn: &mut PreparedTxn, place: Place) -> Commit {
    env.prepared.remove(id);
    let seq = place.complete(&env.commit.watermark);
    commit::let_go_of_locks(&env.commit, &mut txn.owner, seq);
    Commit { seq: Some(seq) }
}

fn log_decision(
    env: &TxnEnv,
    id: &PreparedId,
    decision: Decision<'_>,
) -> Result<(PreparedTxn, Place)> {
    let txn = env.prepared.take(id)?;
    let mut buffers = EntryBuffers::default();
    let attachment = [&[], decision.attachment];
    let mut entry = Entry::decision(decision.commits, id, txn.seq, &mut buffers, attachment);
    let written = txn.writes.trees().iter();
    entry.touches(written.map(|writes| writes.tree.id().0));
    if let (true, Some(ingest)) = (decision.commits, txn.ingest) {
        entry.put_ingest(ingest, &[]);
    }
    match entry.append(&env.commit.log, decision.makes_room) {
        Ok(place) => {
            assert!(txn.seq < place.seq, "a decision comes behind its prepare");
            Ok((txn, place))
        }
        Err(error) => {
            env.prepared.insert(id, txn);
            Err(error)
        }
    }
}
