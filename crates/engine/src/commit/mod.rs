//! The commit pipeline: from a write batch to a place in the log, to visible versions, to free locks.
//!
//! Neighbours: `txn` comes in at the top; `esker-wal` fixes the order; memtables take the versions; the layer above
//! awaits durability. What the pipeline touches is in `env`, so that it runs without an engine.
//!
//! A transaction too large for memory brings extents, which are staged before and ingested behind the append; such a
//! commit does wait.
//!
//! Steps of [`commit`]: encode the batch → append to the log (this fixes the commit sequence) → insert the versions
//! into the active memtables → complete the record in the watermark. The caller then releases the row locks. Nothing
//! waits for the disk: early lock release is the order of these steps. It can be switched off (`switches`); then the
//! locks are put aside until the record is durable (`held`). `told` says up to where a client may be told of commits,
//! `acks` acknowledges in groups, `counters` are persistent numbers outside of transactions. `entry` builds a log
//! record, `record` has its bytes, `id` names prepared transactions.
//!
//! Parts: `env` (what the pipeline works on) · `entry` → `record`, `id` (making and reading records) · `log` ·
//! `watermark`, `gate` → `level` (what is visible, what may be told, and waiting for it), `assured` (what may be told
//! because a second log has it) · `acks` (acknowledgement in groups) · `counters` · `held` · `switches`.
//!
//! **Invariants**
//! - A record is completed only after all its versions are inserted, so a snapshot at the watermark sees whole
//!   transactions.
//! - Row locks are released after the insert, so the versions of a key enter the tiers in the order of their sequences.
//! - A dependent transaction appends after the one it depends on: a prefix of the log is always consistent.

pub(crate) mod acks;
pub(crate) mod assured;
pub(crate) mod counters;
pub(crate) mod entry;
pub(crate) mod env;
pub(crate) mod gate;
pub(crate) mod held;
pub(crate) mod id;
#[cfg(test)]
mod interleaving_tests;
pub(crate) mod level;
pub(crate) mod log;
#[cfg(test)]
mod pipeline_tests;
pub(crate) mod record;
pub(crate) mod switches;
#[cfg(test)]
mod tests;
pub(crate) mod watermark;

use std::sync::Arc;

use esker_wal::RecordKind;

use crate::batch::{TreeWrites, WriteSet};
use crate::budget::{Charge, MemoryUse};
use crate::lock::LockOwner;
use crate::memtable::Memtable;
use crate::tree::Tree;
use crate::{EngineError, Op, Result, Seq, TreeId};
use entry::{AttachmentPieces, Entry, EntryBuffers};
use env::{Background, CommitEnv};
use record::CounterChange;

/// In records that change counters this id stands among the trees, so that a reader of the log who needs no tree of a
/// block knows whether it needs the block for the counters.
pub(crate) const COUNTERS_TREE: TreeId = TreeId(0);

/// A commit record above this is charged to the memory budget.
const CHARGED_RECORD_BYTES: u64 = 1 << 20;

/// What a transaction commits.
pub(crate) struct Batch<'a> {
    pub(crate) writes: &'a mut WriteSet,
    /// Raises, each tree once.
    pub(crate) counters: &'a [(TreeId, u64)],
    pub(crate) attachment: AttachmentPieces<'a>,
    /// It may use what is held back on a full disk.
    pub(crate) makes_room: bool,
    /// In which the record is made.
    pub(crate) buffers: &'a mut EntryBuffers,
    /// Whether the commit is still wanted; asked until the record is made.
    pub(crate) go_on: &'a dyn Fn() -> bool,
}

impl Batch<'_> {
    fn has_attachment(&self) -> bool {
        self.attachment.iter().any(|piece| !piece.is_empty())
    }
}

/// Commits a batch. Gives its sequence; `None` if there is nothing to log.
pub(crate) fn commit(
    env: &CommitEnv,
    background: &dyn Background,
    batch: Batch<'_>,
) -> Result<Option<Seq>> {
    let has_attachment = batch.has_attachment();
    if batch.writes.is_untouched() && batch.counters.is_empty() && !has_attachment {
        return Ok(None);
    }
    background.ready()?;
    match background.admit_writer(batch.writes) {
        // What it waits for is what it brings.
        Err(EngineError::DiskFull(_)) if batch.makes_room => {}
        admitted => admitted?,
    }
    let staged = match batch.writes.has_spilled() {
        true => background.stage(batch.writes, batch.go_on)?,
        false => None,
    };
    let _charge = charge_record(env, batch.writes, batch.buffers)?;
    let mut entry = Entry::new(RecordKind::Commit, batch.buffers, batch.attachment);
    let writes = entry.put_body(batch.counters, batch.writes);
    if writes == 0 && batch.counters.is_empty() && staged.is_none() {
        return match has_attachment {
            true => note(env, batch.buffers, batch.attachment).map(Some),
            false => Ok(None),
        };
    }
    if let Some(staged) = &staged {
        entry.put_ingest(staged.id(), staged.trees());
    }
    let place = entry.append(&env.log, batch.makes_room)?;
    if let Some(staged) = staged {
        staged.ingest(place.seq);
    }
    raise_counters(env, batch.counters, place.seq);
    insert_writes(background, batch.writes, place.start, place.seq);
    Ok(Some(place.complete(&env.watermark)))
}

/// Logs an attachment without a transaction.
pub(crate) fn note(
    env: &CommitEnv,
    buffers: &mut EntryBuffers,
    attachment: AttachmentPieces<'_>,
) -> Result<Seq> {
    let place = Entry::note(buffers, attachment).append(&env.log, false)?;
    Ok(place.complete(&env.watermark))
}

/// Logs the change of a counter outside a transaction.
pub(crate) fn change_counter(
    env: &CommitEnv,
    how: CounterChange,
    tree: TreeId,
    value: u64,
) -> Result<Seq> {
    let mut buffers = EntryBuffers::default();
    let entry = Entry::counter_change(how, tree, value, &mut buffers);
    let place = entry.append(&env.log, false)?;
    env.counters.apply(how, tree, value, place.seq);
    Ok(place.complete(&env.watermark))
}

/// The record with sequence `seq` raises these counters.
pub(crate) fn raise_counters(env: &CommitEnv, counters: &[(TreeId, u64)], seq: Seq) {
    for (tree, value) in counters {
        env.counters.apply(CounterChange::Raise, *tree, *value, seq);
    }
}

/// Makes room for the record of a large write set, at once: a buffer that doubled on its way there would need twice as
/// much memory for a moment. The record is charged as long as what is returned lives.
pub(crate) fn charge_record(
    env: &CommitEnv,
    writes: &WriteSet,
    buffers: &mut EntryBuffers,
) -> Result<Option<Charge>> {
    // More than the record will have.
    let bytes = writes.bytes();
    if bytes < CHARGED_RECORD_BYTES {
        return Ok(None);
    }
    let bytes = bytes as usize;
    env.budget.admit(bytes)?;
    buffers.payload.clear();
    buffers.payload.reserve_exact(bytes);
    let charge = Charge::of(&env.budget, MemoryUse::Transactions, bytes);
    Ok(Some(charge))
}

/// Lets go of the row locks of a transaction whose record has its place in the log: now, or when it is durable.
/// `owner` is then without locks; true if it is another one for that reason.
pub(crate) fn let_go_of_locks(env: &CommitEnv, owner: &mut Arc<LockOwner>, seq: Seq) -> bool {
    if env.switches.locks_go_at_once() || !owner.holds_any() {
        env.locks.release_all(owner);
        debug_assert!(!owner.holds_any(), "all locks are free");
        return false;
    }
    // The versions are in the memtables: nothing is uncommitted any more.
    owner.withdraw();
    let owner = std::mem::replace(owner, env.locks.new_owner());
    let release = env.held.hold(seq, owner);
    env.log.notify_durable(seq, release);
    true
}

/// Inserts the versions of a write set with sequence `seq`. The log is needed from `start` on until they are flushed.
pub(crate) fn insert_writes(background: &dyn Background, writes: &WriteSet, start: u64, seq: Seq) {
    assert!(start < seq, "a sequence is the end of its record");
    for tree_writes in writes.logged() {
        let bytes = with_active(&tree_writes.tree, start, seq, |table| {
            let mut ascending = table.ascending();
            writes.for_each_live_group(tree_writes, |group| {
                let inserted = ascending.insert_group(group, seq);
                debug_assert!(inserted, "a commit writes a key once");
            });
            take_out_of_tombstones(tree_writes, writes);
            table.bytes()
        });
        background.memtable_has(&tree_writes.tree, bytes);
    }
}

/// The keys that these writes put are rows from now on. The table is still pinned, and no snapshot sees them yet.
fn take_out_of_tombstones(tree_writes: &TreeWrites, writes: &WriteSet) {
    let ranges = tree_writes.tree.tombstone_ranges();
    if ranges.fence_puts() {
        writes.for_each_live(tree_writes, |op, key, _| {
            if op == Op::Put {
                ranges.take_out(key);
            }
        });
    }
}

/// Runs `insert` on the active memtable of a tree while it is pinned.
fn with_active<R>(tree: &Tree, start: u64, seq: Seq, insert: impl FnOnce(&Memtable) -> R) -> R {
    loop {
        let superversion = tree.superversion();
        if let Some(_pin) = superversion.active.pin(start, seq) {
            return insert(&superversion.active);
        }
        // The table was sealed between the two looks: a newer one is active.
    }
}
