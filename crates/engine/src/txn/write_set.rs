//! What a transaction has written and not committed.
//!
//! Neighbours: `Txn` writes and reads here first; cursors walk it beside the committed versions; `commit` encodes and
//! applies it.
//!
//! Each tree's writes are a memtable whose sequence is the number of the write. That makes a savepoint a number, a
//! rollback to it a range of dead numbers, and gives a cursor a stable view (the numbers up to its creation) without
//! copying anything.
//!
//! **Invariants**
//! - Write numbers start at 1 and only grow within a transaction.
//! - `dead` ranges are half open (after, upto], disjoint and ascending. A write is live if its number is in none.
//! - Of a key, the live write with the highest number counts.
//! - Memory of dead writes is not returned before the transaction ends; it counts against the limit.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::budget::MemoryUse;
use crate::codec::put_varint;
use crate::commit::record;
use crate::memtable::{MemEntry, Memtable};
use crate::tree::Tree;
use crate::{EngineError, LATEST, MAX_KEY_BYTES, MAX_VALUE_BYTES, Op, Result, Seq, TreeId};

/// What one write costs beside its key and value (node, tower, log framing).
pub(super) const WRITE_OVERHEAD_BYTES: u64 = 64;
/// Emptied tables kept for the next transaction.
const KEPT_TABLES: usize = 4;

/// Numbers of writes that were rolled back to a savepoint.
pub(crate) type DeadRanges = Arc<Vec<(Seq, Seq)>>;

/// Whether a write number is dead.
pub(crate) fn is_dead(dead: &[(Seq, Seq)], number: Seq) -> bool {
    // Ranges are few, and a fresh number is behind them all.
    dead.iter()
        .rev()
        .any(|(after, upto)| *after < number && number <= *upto)
}

/// The writes to one tree.
pub(crate) struct TreeWrites {
    pub(crate) tree: Tree,
    pub(crate) table: Arc<Memtable>,
}

/// All writes of a transaction.
#[derive(Default)]
pub(crate) struct WriteSet {
    /// Ascending by tree id.
    trees: SmallVec<[TreeWrites; 2]>,
    dead: DeadRanges,
    last_number: Seq,
    bytes: u64,
    spare: Vec<Arc<Memtable>>,
}

impl WriteSet {
    /// Whether nothing was ever written (dead writes count as written).
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.trees.is_empty()
    }

    /// Number of writes so far, dead ones included.
    pub(crate) fn count(&self) -> u64 {
        self.last_number
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn write(
        &mut self,
        tree: &Tree,
        key: &[u8],
        op: Op,
        value: &[u8],
        limit_bytes: u64,
    ) -> Result<()> {
        if key.len() > MAX_KEY_BYTES {
            let (key_bytes, limit_bytes) = (key.len(), MAX_KEY_BYTES);
            return Err(EngineError::KeyTooLong {
                key_bytes,
                limit_bytes,
            });
        }
        if value.len() > MAX_VALUE_BYTES {
            let (value_bytes, limit_bytes) = (value.len(), MAX_VALUE_BYTES);
            return Err(EngineError::ValueTooLong {
                value_bytes,
                limit_bytes,
            });
        }
        let bytes = self.bytes + (key.len() + value.len()) as u64 + WRITE_OVERHEAD_BYTES;
        if bytes > limit_bytes {
            return Err(EngineError::TxnTooLarge { limit_bytes });
        }
        self.bytes = bytes;
        self.last_number += 1;
        let number = self.last_number;
        let inserted = self.table_for(tree).insert(key, number, op, value);
        debug_assert!(inserted, "write numbers are unique");
        Ok(())
    }

    fn table_for(&mut self, tree: &Tree) -> &Memtable {
        let at = match self
            .trees
            .binary_search_by_key(&tree.id(), |writes| writes.tree.id())
        {
            Ok(at) => at,
            Err(at) => {
                let charged = || Memtable::charged(tree.budget(), MemoryUse::Transactions);
                let table = self.spare.pop().unwrap_or_else(|| Arc::new(charged()));
                self.trees.insert(
                    at,
                    TreeWrites {
                        tree: tree.clone(),
                        table,
                    },
                );
                at
            }
        };
        &self.trees[at].table
    }

    fn table(&self, tree: TreeId) -> Option<&Arc<Memtable>> {
        let at = self
            .trees
            .binary_search_by_key(&tree, |writes| writes.tree.id())
            .ok()?;
        Some(&self.trees[at].table)
    }

    /// The live write to a key.
    pub(crate) fn get(&self, tree: TreeId, key: &[u8]) -> Option<MemEntry<'_>> {
        let table = self.table(tree)?;
        let mut upto = LATEST;
        loop {
            let entry = table.get(key, upto)?;
            if !is_dead(&self.dead, entry.seq) {
                return Some(entry);
            }
            upto = entry.seq - 1;
        }
    }

    /// What a cursor needs to walk the writes to a tree as they are now.
    pub(crate) fn view(&self, tree: TreeId) -> Option<(Arc<Memtable>, Seq, DeadRanges)> {
        let table = self.table(tree)?;
        Some((Arc::clone(table), self.last_number, Arc::clone(&self.dead)))
    }

    /// Makes every write after number `after` dead.
    pub(crate) fn roll_back_to(&mut self, after: Seq) {
        debug_assert!(after <= self.last_number);
        if after >= self.last_number {
            return;
        }
        let dead = Arc::make_mut(&mut self.dead);
        let mut after = after;
        while let Some((start, upto)) = dead.last().copied() {
            if upto < after {
                break;
            }
            after = after.min(start);
            dead.pop();
        }
        dead.push((after, self.last_number));
    }

    /// Calls `each` with the live writes of a tree, keys ascending.
    pub(crate) fn for_each_live(
        &self,
        writes: &TreeWrites,
        mut each: impl FnMut(Op, &[u8], &[u8]),
    ) {
        let mut previous: Option<&[u8]> = None;
        for (key, entry) in writes.table.entries_in_order() {
            if previous != Some(key) && !is_dead(&self.dead, entry.seq) {
                each(entry.op, key, entry.value);
                previous = Some(key);
            }
        }
    }

    pub(crate) fn trees(&self) -> &[TreeWrites] {
        &self.trees
    }

    /// Encodes the live writes (the end of a record body). Gives the number of writes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, tree_ids: &mut Vec<u32>) -> u64 {
        let mut total = 0;
        tree_ids.clear();
        put_varint(out, self.live_trees());
        for writes in &self.trees {
            let begin = out.len();
            let mut count = 0;
            self.for_each_live(writes, |op, key, value| {
                record::put_write(out, op, key, value);
                count += 1;
            });
            if count == 0 {
                continue;
            }
            let id = writes.tree.id();
            tree_ids.push(id.0);
            // The number stands before the writes. To move them is cheaper than to walk a large set twice.
            let end = out.len();
            put_varint(out, u64::from(id.0));
            put_varint(out, count);
            let head = out.len() - end;
            out[begin..].rotate_right(head);
            total += count;
        }
        total
    }

    /// Number of trees with a live write.
    fn live_trees(&self) -> u64 {
        if self.dead.is_empty() {
            return self.trees.len() as u64;
        }
        let mut live = 0;
        for writes in &self.trees {
            let mut any = false;
            self.for_each_live(writes, |_, _, _| any = true);
            live += u64::from(any);
        }
        live
    }

    /// Forgets everything, and keeps a little memory.
    pub(crate) fn clear(&mut self) {
        if self.trees.is_empty() {
            return;
        }
        for writes in self.trees.drain(..) {
            let mut table = writes.table;
            // A cursor may still walk the table; then it keeps it.
            if self.spare.len() < KEPT_TABLES && Arc::get_mut(&mut table).is_some_and(clear_table) {
                self.spare.push(table);
            }
        }
        if !self.dead.is_empty() {
            self.dead = DeadRanges::default();
        }
        self.last_number = 0;
        self.bytes = 0;
    }
}

fn clear_table(table: &mut Memtable) -> bool {
    table.clear();
    true
}
