//! A record of the log in the making: the one way in which the engine appends.
//!
//! Neighbours: `record` knows the bytes, `log` appends; `commit`, `txn::prepared` and the engine's counters and notes
//! say what goes in.
//!
//! The attachment is never copied: it goes to the log as the last pieces of the payload.
//!
//! **Invariants**
//! - Every record of the engine is made here, so every kind can carry an attachment.
//! - A record lists every tree that its content touches, so that a reader can skip blocks.

use esker_wal::{Draft, RecordKind};

use super::COUNTERS_TREE;
use super::id::PreparedId;
use super::log::{Log, Place};
use super::record::{self, CounterChange};
use crate::batch::WriteSet;
use crate::codec::put_varint;
use crate::lock::{LockManager, LockOwner};
use crate::tree::IngestId;
use crate::{Result, Seq, TreeId};

/// A session keeps its buffer up to this size.
const KEPT_PAYLOAD_BYTES: usize = 16 * 1024;

/// What a record is made in. A session keeps it from one commit to the next.
#[derive(Default)]
pub(crate) struct EntryBuffers {
    pub(super) payload: Vec<u8>,
    tree_ids: Vec<u32>,
}

impl EntryBuffers {
    /// Gives back what was needed for a large record.
    pub(crate) fn shrink(&mut self) {
        if self.payload.capacity() > KEPT_PAYLOAD_BYTES {
            self.payload = Vec::new();
        }
    }
}

/// Opaque bytes that a record ends with, in two pieces of which either may be empty.
pub(crate) type AttachmentPieces<'a> = [&'a [u8]; 2];

/// The record.
pub(crate) struct Entry<'a> {
    kind: RecordKind,
    buffers: &'a mut EntryBuffers,
    attachment: AttachmentPieces<'a>,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(
        kind: RecordKind,
        buffers: &'a mut EntryBuffers,
        attachment: AttachmentPieces<'a>,
    ) -> Self {
        let attached = attachment.iter().map(|piece| piece.len()).sum();
        record::begin(&mut buffers.payload, attached);
        buffers.tree_ids.clear();
        Entry {
            kind,
            buffers,
            attachment,
        }
    }

    /// A prepare of which nobody who follows is told.
    pub(crate) fn silent_prepare(buffers: &'a mut EntryBuffers) -> Self {
        let entry = Self::new(RecordKind::Prepare, buffers, [&[]; 2]);
        record::begin_silent(&mut entry.buffers.payload);
        entry
    }

    /// The decision about what was prepared with this sequence.
    pub(crate) fn decision(
        commits: bool,
        id: &PreparedId,
        prepare: Seq,
        buffers: &'a mut EntryBuffers,
        attachment: AttachmentPieces<'a>,
    ) -> Self {
        let kind = match commits {
            true => RecordKind::CommitPrepared,
            false => RecordKind::RollbackPrepared,
        };
        let entry = Self::new(kind, buffers, attachment);
        record::put_id(&mut entry.buffers.payload, id);
        put_varint(&mut entry.buffers.payload, prepare);
        entry
    }

    /// A change of a counter outside a transaction.
    pub(crate) fn counter_change(
        how: CounterChange,
        tree: TreeId,
        value: u64,
        buffers: &'a mut EntryBuffers,
    ) -> Self {
        let mut entry = Self::new(RecordKind::CounterSet, buffers, [&[]; 2]);
        record::put_counter_change(&mut entry.buffers.payload, how, tree, value);
        entry.touches([COUNTERS_TREE.0, tree.0]);
        entry
    }

    /// An attachment and nothing else.
    pub(crate) fn note(buffers: &'a mut EntryBuffers, attachment: AttachmentPieces<'a>) -> Self {
        assert!(
            attachment.iter().any(|piece| !piece.is_empty()),
            "a note is its attachment"
        );
        Self::new(RecordKind::Note, buffers, attachment)
    }

    /// These trees are touched.
    pub(crate) fn touches(&mut self, trees: impl IntoIterator<Item = u32>) {
        self.buffers.tree_ids.extend(trees);
    }

    /// Identifier and locks of a transaction that is prepared.
    pub(crate) fn put_locks(&mut self, id: &PreparedId, locks: &LockManager, owner: &LockOwner) {
        record::put_id(&mut self.buffers.payload, id);
        let mut encoded = Vec::new();
        let mut count = 0;
        locks.for_each_held(owner, |mode, tree, key| {
            record::put_lock(&mut encoded, mode, tree, key);
            count += 1;
        });
        locks.for_each_range(owner, |kind, tree, span| {
            record::put_range(&mut encoded, kind, tree, span);
            count += 1;
        });
        put_varint(&mut self.buffers.payload, count);
        self.buffers.payload.extend_from_slice(&encoded);
    }

    /// The body: raises of counters and writes. Gives the number of writes.
    pub(crate) fn put_body(&mut self, counters: &[(TreeId, u64)], writes: &WriteSet) -> u64 {
        record::put_counters(&mut self.buffers.payload, counters);
        if !counters.is_empty() {
            self.touches([COUNTERS_TREE.0]);
        }
        self.put_writes(writes)
    }

    /// The live writes, which end the body. Gives their number.
    fn put_writes(&mut self, writes: &WriteSet) -> u64 {
        let EntryBuffers { payload, tree_ids } = &mut *self.buffers;
        let mut total = 0;
        let (announced, mut put) = (live_trees(writes), 0);
        put_varint(payload, announced);
        for tree_writes in writes.logged() {
            let begin = payload.len();
            let mut count = 0;
            writes.for_each_live(tree_writes, |op, key, value| {
                record::put_write(payload, op, key, value);
                count += 1;
            });
            if count == 0 {
                continue;
            }
            let id = tree_writes.tree.id();
            debug_assert!(
                tree_ids.last().is_none_or(|last| *last < id.0),
                "a tree is written once"
            );
            tree_ids.push(id.0);
            put += 1;
            // The number stands before the writes. To move them is cheaper than to walk a large set twice.
            let end = payload.len();
            put_varint(payload, u64::from(id.0));
            put_varint(payload, count);
            let head = payload.len() - end;
            payload[begin..].rotate_right(head);
            total += count;
        }
        debug_assert_eq!(put, announced, "as many trees follow as the record says");
        total
    }

    /// What a commit brings in extents, and the trees that get it.
    pub(crate) fn put_ingest(&mut self, ingest: IngestId, trees: &[u32]) {
        record::put_ingest(&mut self.buffers.payload, ingest);
        self.touches(trees.iter().copied());
        self.buffers.tree_ids.sort_unstable();
    }

    /// Appends it: this is the moment that fixes the order. On a full disk a record that makes room may use what is
    /// held back from others.
    pub(crate) fn append(self, log: &Log, makes_room: bool) -> Result<Place> {
        debug_assert!(
            self.buffers.tree_ids.is_sorted(),
            "trees of a record ascend"
        );
        let [head, rest] = self.attachment;
        let pieces = [self.buffers.payload.as_slice(), head, rest];
        let draft = Draft::new(self.kind, &self.buffers.tree_ids, &pieces);
        let draft = match head.is_empty() && rest.is_empty() {
            true => draft,
            false => draft.with_attachment(),
        };
        match makes_room {
            true => log.append_making_room(&draft),
            false => log.append(&draft),
        }
    }
}

/// Number of trees with a live write.
fn live_trees(writes: &WriteSet) -> u64 {
    if writes.dead().is_empty() {
        return writes.logged().count() as u64;
    }
    let mut live = 0;
    for tree_writes in writes.logged() {
        let mut any = false;
        writes.for_each_live(tree_writes, |_, _, _| any = true);
        live += u64::from(any);
    }
    live
}
