//! Two-phase transactions between their prepare and their decision.
//!
//! Neighbours: `Txn::prepare` puts one in, the engine's decisions take it out, `recovery` rebuilds the table from the
//! log, and the release of the log asks how far back it reaches.
//!
//! **Invariants**
//! - A prepared transaction keeps its row and range locks, also over a restart.
//! - It stays in the table until its versions are in memtables that know the start of its prepare record: at every
//!   moment either the table or a memtable keeps the log from being released behind it.
//! - At most one prepared transaction has an XID at a time; over time an XID may be used again, so the log names it by
//!   XID and prepare sequence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Commit, Txn, WriteSet};
use crate::codec;
use crate::commit;
use crate::commit::COUNTERS_TREE;
use crate::commit::log::Place;
use crate::commit::record::{self, CounterChange, MAX_XID_BYTES};
use crate::engine::Inner;
use crate::lock::{LockInfo, LockManager, LockOwner};
use crate::{EngineError, Result, Seq, TreeId};
use esker_wal::RecordKind;

/// A transaction that waits for its decision.
pub(crate) struct PreparedTxn {
    /// Start of the prepare record.
    pub(crate) start: u64,
    /// Its sequence, which tells it from earlier uses of the XID.
    pub(crate) seq: Seq,
    pub(crate) writes: WriteSet,
    pub(crate) owner: Arc<LockOwner>,
}

enum Slot {
    /// An XID being prepared.
    Preparing,
    Waiting(PreparedTxn),
    /// A decision is being logged; the log is needed from here.
    Deciding {
        start: u64,
    },
}

/// All prepared transactions, by XID.
#[derive(Default)]
pub(crate) struct PreparedTable {
    slots: Mutex<BTreeMap<Vec<u8>, Slot>>,
}

impl PreparedTable {
    fn reserve(&self, xid: &[u8]) -> Result<()> {
        let mut slots = self.slots.lock();
        if slots.contains_key(xid) {
            return Err(EngineError::DuplicatePrepared);
        }
        slots.insert(xid.to_vec(), Slot::Preparing);
        Ok(())
    }

    pub(crate) fn insert(&self, xid: &[u8], txn: PreparedTxn) {
        self.slots.lock().insert(xid.to_vec(), Slot::Waiting(txn));
    }

    pub(crate) fn remove(&self, xid: &[u8]) {
        self.slots.lock().remove(xid);
    }

    /// Takes a transaction for its decision; its place stays until [`PreparedTable::remove`].
    fn take(&self, xid: &[u8]) -> Result<PreparedTxn> {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(xid).ok_or(EngineError::NoSuchPrepared)?;
        let Slot::Waiting(txn) = slot else {
            return Err(EngineError::NoSuchPrepared);
        };
        let start = txn.start;
        match std::mem::replace(slot, Slot::Deciding { start }) {
            Slot::Waiting(txn) => Ok(txn),
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

    /// Trees that a transaction that waits has written to, or in which it holds locks; ascending.
    pub(crate) fn trees(&self, xid: &[u8], locks: &LockManager) -> Vec<TreeId> {
        let slots = self.slots.lock();
        let Some(Slot::Waiting(txn)) = slots.get(xid) else {
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
    pub(crate) fn locks(&self, xid: &[u8], locks: &LockManager, limit: usize) -> Vec<LockInfo> {
        let slots = self.slots.lock();
        match slots.get(xid) {
            Some(Slot::Waiting(txn)) => locks.list(&txn.owner, limit),
            _ => Vec::new(),
        }
    }

    /// XIDs and prepare sequences of the transactions that wait.
    pub(crate) fn list(&self) -> Vec<(Vec<u8>, Seq)> {
        let slots = self.slots.lock();
        let waiting = slots.iter().filter_map(|(xid, slot)| match slot {
            Slot::Waiting(txn) => Some((xid.clone(), txn.seq)),
            Slot::Preparing | Slot::Deciding { .. } => None,
        });
        waiting.collect()
    }
}

/// Logs the writes and locks of `txn` and moves them to the table. `txn` is then as new.
pub(super) fn prepare(txn: &mut Txn, xid: &[u8]) -> Result<Seq> {
    assert!(
        !xid.is_empty() && xid.len() <= MAX_XID_BYTES,
        "the caller checks the XID"
    );
    let engine = txn.engine.clone();
    let inner = engine.inner();
    inner.recovery.ready()?;
    if txn.writes.has_spilled() {
        let limit_bytes = inner.txn_memory();
        return Err(EngineError::TxnTooLarge { limit_bytes });
    }
    inner.admit_writer(&txn.writes)?;
    inner.prepared.reserve(xid)?;
    match log_prepare(inner, txn, xid) {
        Ok(Place { start, seq }) => {
            let writes = std::mem::take(&mut txn.writes);
            let owner = std::mem::replace(&mut txn.owner, inner.locks.new_owner());
            txn.owner_changed();
            inner.prepared.insert(
                xid,
                PreparedTxn {
                    start,
                    seq,
                    writes,
                    owner,
                },
            );
            // Completed only now: the watermark kept the log until the table does.
            inner.watermark.complete(start, seq);
            Ok(seq)
        }
        Err(error) => {
            inner.prepared.remove(xid);
            Err(error)
        }
    }
}

fn log_prepare(inner: &Inner, txn: &mut Txn, xid: &[u8]) -> Result<Place> {
    let _charge = commit::charge_record(inner, &txn.writes, &mut txn.payload)?;
    let payload = &mut txn.payload;
    record::begin(payload);
    record::put_xid(payload, xid);
    let mut locks = Vec::new();
    let mut count = 0;
    inner.locks.for_each_held(&txn.owner, |mode, tree, key| {
        record::put_lock(&mut locks, mode, tree, key);
        count += 1;
    });
    inner.locks.for_each_range(&txn.owner, |kind, tree, span| {
        record::put_range(&mut locks, kind, tree, span);
        count += 1;
    });
    codec::put_varint(payload, count);
    payload.extend_from_slice(&locks);
    record::put_counters(payload, &txn.counters);
    txn.writes.encode(payload, &mut txn.tree_ids);
    if !txn.counters.is_empty() {
        txn.tree_ids.insert(0, COUNTERS_TREE.0);
    }
    let place = inner
        .log
        .append(RecordKind::Prepare, &txn.tree_ids, payload)?;
    for (tree, value) in &txn.counters {
        inner
            .counters
            .apply(CounterChange::Raise, *tree, *value, place.seq);
    }
    Ok(place)
}

/// Commits a prepared transaction.
pub(crate) fn commit_prepared(inner: &Inner, xid: &[u8]) -> Result<Commit> {
    let (mut txn, place) = log_decision(inner, xid, RecordKind::CommitPrepared)?;
    // The memtables must keep the log from the prepare record on, not only from the decision.
    commit::insert_writes(inner, &txn.writes, txn.start, place.seq);
    inner.prepared.remove(xid);
    inner.watermark.complete(place.start, place.seq);
    commit::let_go_of_locks(inner, &mut txn.owner, place.seq);
    Ok(Commit {
        seq: Some(place.seq),
    })
}

/// Rolls a prepared transaction back.
pub(crate) fn rollback_prepared(inner: &Inner, xid: &[u8]) -> Result<Commit> {
    let (mut txn, place) = log_decision(inner, xid, RecordKind::RollbackPrepared)?;
    inner.prepared.remove(xid);
    inner.watermark.complete(place.start, place.seq);
    commit::let_go_of_locks(inner, &mut txn.owner, place.seq);
    Ok(Commit {
        seq: Some(place.seq),
    })
}

fn log_decision(inner: &Inner, xid: &[u8], kind: RecordKind) -> Result<(PreparedTxn, Place)> {
    let txn = inner.prepared.take(xid)?;
    let mut payload = Vec::new();
    record::decision_record(&mut payload, xid, txn.seq);
    let trees: Vec<u32> = txn
        .writes
        .trees()
        .iter()
        .map(|writes| writes.tree.id().0)
        .collect();
    match inner.log.append(kind, &trees, &payload) {
        Ok(place) => Ok((txn, place)),
        Err(error) => {
            inner.prepared.insert(xid, txn);
            Err(error)
        }
    }
}
