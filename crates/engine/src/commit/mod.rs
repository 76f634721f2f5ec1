//! The commit pipeline: from a write set to a place in the log, to visible versions, to free locks.
//!
//! Neighbours: `txn` comes in at the top; `esker-wal` fixes the order; memtables take the versions; the layer above
//! awaits durability.
//!
//! A transaction too large for memory brings extents: `graft` has the steps around these, and such a commit does wait.
//!
//! Steps of [`commit`]: encode the write set → append to the log (this fixes the commit sequence) → insert the versions
//! into the active memtables → complete the record in the watermark. The caller then releases the row locks. Nothing
//! waits for the disk: early lock release is the order of these steps. It can be switched off (`switches`); then the
//! locks are put aside until the record is durable (`held`). `told` says up to where a client may be told of commits,
//! `acks` acknowledges in groups, `counters` are persistent numbers outside of transactions. `entry` builds a log
//! record, `record` has its bytes, `id` names prepared transactions.
//!
//! **Invariants**
//! - A record is completed only after all its versions are inserted, so a snapshot at the watermark sees whole
//!   transactions.
//! - Row locks are released after the insert, so the versions of a key enter the tiers in the order of their sequences.
//! - A dependent transaction appends after the one it depends on: a prefix of the log is always consistent.

pub(crate) mod acks;
pub(crate) mod counters;
pub(crate) mod entry;
mod graft;
pub(crate) mod held;
pub(crate) mod id;
pub(crate) mod log;
pub(crate) mod record;
pub(crate) mod switches;
#[cfg(test)]
mod tests;
pub(crate) mod told;
pub(crate) mod watermark;

use std::sync::Arc;

use crate::budget::{Charge, MemoryUse};
use crate::engine::Inner;
use crate::lock::LockOwner;
use crate::memtable::Memtable;
use crate::tree::Tree;
use crate::txn::{Commit, Txn, WriteSet};
use crate::{EngineError, Result, Seq, TreeId};
use entry::{AttachmentPieces, Entry, EntryBuffers};
use esker_wal::RecordKind;
use record::CounterChange;

/// In records that change counters this id stands among the trees, so that a reader of the log who needs no tree of a
/// block knows whether it needs the block for the counters.
pub(crate) const COUNTERS_TREE: TreeId = TreeId(0);

/// Commits what `txn` has written. The caller ends the transaction.
pub(crate) fn commit(txn: &mut Txn) -> Result<Commit> {
    if !txn.has_writes() && txn.attachment.is_empty() {
        return Ok(Commit { seq: None });
    }
    let inner = txn.engine.inner();
    inner.recovery.ready()?;
    let makes_room = txn.makes_room();
    match inner.admit_writer(&txn.writes) {
        // What it waits for is what it brings.
        Err(EngineError::DiskFull(_)) if makes_room => {}
        admitted => admitted?,
    }
    let staged = match txn.writes.has_spilled() {
        true => graft::stage(inner, &mut txn.writes)?,
        false => None,
    };
    let _charge = charge_record(inner, &txn.writes, &mut txn.buffers)?;
    let attachment = txn.attachment.pieces();
    let mut entry = Entry::new(RecordKind::Commit, &mut txn.buffers, attachment);
    let writes = entry.put_body(&txn.counters, &txn.writes);
    if writes == 0 && txn.counters.is_empty() && staged.is_none() {
        if txn.attachment.is_empty() {
            return Ok(Commit { seq: None });
        }
        let seq = note(inner, &mut txn.buffers, attachment)?;
        txn.last_commit = seq;
        return Ok(Commit { seq: Some(seq) });
    }
    if let Some(staged) = &staged {
        staged.encode(&mut entry);
    }
    let place = entry.append(&inner.log, makes_room)?;
    let seq = place.seq;
    if let Some(staged) = staged {
        staged.graft(seq);
    }
    for (tree, value) in &txn.counters {
        inner
            .counters
            .apply(CounterChange::Raise, *tree, *value, seq);
    }
    insert_writes(inner, &txn.writes, place.start, seq);
    txn.last_commit = place.complete(&inner.watermark);
    Ok(Commit { seq: Some(seq) })
}

/// Logs an attachment without a transaction.
pub(crate) fn note(
    inner: &Inner,
    buffers: &mut EntryBuffers,
    attachment: AttachmentPieces<'_>,
) -> Result<Seq> {
    let place = Entry::note(buffers, attachment).append(&inner.log, false)?;
    Ok(place.complete(&inner.watermark))
}

/// A commit record above this is charged to the memory budget.
const CHARGED_RECORD_BYTES: u64 = 1 << 20;

/// Makes room for the record of a large write set, at once: a buffer that doubled on its way there would need twice as
/// much memory for a moment. The record is charged as long as what is returned lives.
pub(crate) fn charge_record(
    inner: &Inner,
    writes: &WriteSet,
    buffers: &mut EntryBuffers,
) -> Result<Option<Charge>> {
    // More than the record will have.
    let bytes = writes.bytes();
    if bytes < CHARGED_RECORD_BYTES {
        return Ok(None);
    }
    let bytes = bytes as usize;
    inner.budget.admit(bytes)?;
    buffers.payload.clear();
    buffers.payload.reserve_exact(bytes);
    Ok(Some(Charge::of(
        &inner.budget,
        MemoryUse::Transactions,
        bytes,
    )))
}

/// Lets go of the row locks of a transaction whose record has its place in the log: now, or when it is durable.
/// `owner` is then without locks; true if it is another one for that reason.
pub(crate) fn let_go_of_locks(inner: &Inner, owner: &mut Arc<LockOwner>, seq: Seq) -> bool {
    if inner.switches.locks_go_at_once() || !owner.holds_any() {
        inner.locks.release_all(owner);
        return false;
    }
    // The versions are in the memtables: nothing is uncommitted any more.
    owner.withdraw();
    let owner = std::mem::replace(owner, inner.locks.new_owner());
    let release = inner.held.hold(seq, owner);
    inner.log.notify_durable(seq, release);
    true
}

/// Inserts the versions of a write set with sequence `seq`. The log is needed from `start` on until they are flushed.
pub(crate) fn insert_writes(inner: &Inner, writes: &WriteSet, start: u64, seq: Seq) {
    for tree_writes in writes.logged() {
        let bytes = with_active(&tree_writes.tree, start, seq, |table| {
            writes.for_each_live(tree_writes, |op, key, value| {
                table.insert(key, seq, op, value);
            });
            table.bytes()
        });
        if bytes >= inner.config.memtable_bytes {
            inner.memtable_is_full(&tree_writes.tree);
        }
    }
}

/// Runs `insert` on the active memtable of a tree while it is pinned.
pub(crate) fn with_active<R>(
    tree: &Tree,
    start: u64,
    seq: Seq,
    insert: impl FnOnce(&Memtable) -> R,
) -> R {
    loop {
        let superversion = tree.superversion();
        if let Some(_pin) = superversion.active.pin(start, seq) {
            return insert(&superversion.active);
        }
        // The table was sealed between the two looks: a newer one is active.
    }
}
