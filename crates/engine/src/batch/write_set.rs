//! What a transaction has written and not committed.
//!
//! Neighbours: `Txn` writes and reads here first; cursors walk it beside the committed versions; `commit` encodes and
//! applies it.
//!
//! Each tree's writes are a memtable ([`OwnTable`]) whose sequence is the number of the write. That makes a savepoint
//! a number, a rollback to it a range of dead numbers, and gives a cursor a stable view (the numbers up to its
//! creation) without copying anything.
//!
//! What is too much for memory moves to extents (`spill`). A tree of which something has moved is not logged: its
//! writes become part of it as extents.
//!
//! **Invariants**
//! - Write numbers start at 1 and only grow within a transaction.
//! - `dead` ranges are half open (after, upto], disjoint and ascending. A write is live if its number is in none.
//! - Of a key, the live write with the highest number counts.
//! - Memory of dead writes is not returned before the transaction ends; it counts against the limit.

use std::sync::Arc;

use smallvec::SmallVec;

use super::OwnWrites;
use super::own_table::OwnTable;
use super::spill::Spills;
use crate::extent::{FoundIn, Store};
use crate::memtable::MemEntry;
use crate::tree::{StagedExtents, Tree};
use crate::{EngineError, LATEST, MAX_KEY_BYTES, MAX_VALUE_BYTES, Op, Result, Seq, TreeId};

/// What one write costs beside its key and value (node, tower, log framing).
pub(crate) const WRITE_OVERHEAD_BYTES: u64 = 64;
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

/// A write that was found.
pub(crate) enum Written<'a> {
    InMemory(MemEntry<'a>),
    Spilled(FoundIn),
}

impl Written<'_> {
    /// The value, unless it is a delete.
    #[inline]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        let (op, value) = match self {
            Written::InMemory(entry) => (entry.op, entry.value),
            Written::Spilled(found) => (found.op(), found.value()),
        };
        (op == Op::Put).then_some(value)
    }
}

/// The writes to one tree.
pub(crate) struct TreeWrites {
    pub(crate) tree: Tree,
    pub(crate) table: Arc<OwnTable>,
    /// What has moved out of the table.
    spills: Spills,
    /// Bytes of the writes in the table.
    bytes: u64,
}

/// All writes of a transaction.
#[derive(Default)]
pub(crate) struct WriteSet {
    /// Ascending by tree id.
    trees: SmallVec<[TreeWrites; 2]>,
    dead: DeadRanges,
    last_number: Seq,
    /// Bytes of the writes that are in memory, ...
    bytes: u64,
    /// ... and of those that have moved to extents.
    spilled_bytes: u64,
    /// Whether any of them sets a value.
    has_puts: bool,
    spare: Vec<Arc<OwnTable>>,
}

impl WriteSet {
    /// Whether nothing was ever written (dead writes count as written).
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.trees.is_empty()
    }

    /// Whether anything was ever written to the tree.
    pub(crate) fn has_tree(&self, tree: TreeId) -> bool {
        self.find(tree).is_some()
    }

    /// Number of writes so far, dead ones included.
    pub(crate) fn count(&self) -> u64 {
        self.last_number
    }

    /// Whether anything was ever written but deletes.
    pub(crate) fn has_puts(&self) -> bool {
        self.has_puts
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes, wherever they are.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.bytes + self.spilled_bytes
    }

    /// Whether a part of it has moved to extents.
    pub(crate) fn has_spilled(&self) -> bool {
        self.spilled_bytes > 0
    }

    /// Adds a write. All of them may have `limit_bytes`, together with what the transaction has beside them.
    pub(crate) fn write(
        &mut self,
        tree: &Tree,
        key: &[u8],
        op: Op,
        value: &[u8],
        limit_bytes: u64,
        beside_bytes: u64,
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
        let bytes = (key.len() + value.len()) as u64 + WRITE_OVERHEAD_BYTES;
        if self.total_bytes() + beside_bytes + bytes > limit_bytes {
            return Err(EngineError::TxnTooLarge { limit_bytes });
        }
        self.has_puts |= op == Op::Put;
        self.bytes += bytes;
        self.last_number += 1;
        let number = self.last_number;
        let writes = self.writes_to(tree);
        writes.bytes += bytes;
        writes.table.write(key, number, op, value);
        self.validate();
        Ok(())
    }

    fn writes_to(&mut self, tree: &Tree) -> &mut TreeWrites {
        let at = match self
            .trees
            .binary_search_by_key(&tree.id(), |writes| writes.tree.id())
        {
            Ok(at) => at,
            Err(at) => {
                let fresh = || Arc::new(OwnTable::new(tree.budget()));
                let table = self.spare.pop().unwrap_or_else(fresh);
                self.trees.insert(
                    at,
                    TreeWrites {
                        tree: tree.clone(),
                        table,
                        spills: Spills::default(),
                        bytes: 0,
                    },
                );
                at
            }
        };
        debug_assert!(self.trees.is_sorted_by_key(|writes| writes.tree.id()));
        &mut self.trees[at]
    }

    fn find(&self, tree: TreeId) -> Option<&TreeWrites> {
        let at = self
            .trees
            .binary_search_by_key(&tree, |writes| writes.tree.id())
            .ok()?;
        Some(&self.trees[at])
    }

    /// The live write to a key.
    #[inline]
    pub(crate) fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Written<'_>>> {
        let Some(writes) = self.find(tree) else {
            return Ok(None);
        };
        let mut upto = LATEST;
        let table = writes.table.settled();
        while let Some(entry) = table.get(key, upto) {
            if !is_dead(&self.dead, entry.seq) {
                return Ok(Some(Written::InMemory(entry)));
            }
            debug_assert!(0 < entry.seq && entry.seq <= upto);
            upto = entry.seq - 1;
        }
        let spilled = writes.spills.get(key, &self.dead)?;
        Ok(spilled.map(Written::Spilled))
    }

    /// The writes to a tree as they are now, to be walked.
    pub(crate) fn view(&self, tree: TreeId) -> Option<OwnWrites> {
        let writes = self.find(tree)?;
        Some(OwnWrites {
            table: Arc::clone(&writes.table),
            spills: writes.spills.clone(),
            upto: self.last_number,
            dead: Arc::clone(&self.dead),
        })
    }

    /// Moves the writes to the tree that has most of them in memory to extents. After an error nothing has changed.
    pub(crate) fn spill(&mut self, store: &Arc<Store>) -> Result<()> {
        let largest = (0..self.trees.len()).max_by_key(|at| self.trees[*at].bytes);
        largest.map_or(Ok(()), |at| self.spill_tree(at, store))
    }

    fn spill_tree(&mut self, at: usize, store: &Arc<Store>) -> Result<()> {
        let writes = &mut self.trees[at];
        let spills = &mut writes.spills;
        spills.add(store, &writes.tree, &writes.table, &self.dead)?;
        let bytes = std::mem::take(&mut writes.bytes);
        // A cursor may still walk the table.
        if !Arc::get_mut(&mut writes.table).is_some_and(OwnTable::clear) {
            writes.table = Arc::new(writes.table.following(writes.tree.budget()));
        }
        assert!(
            self.bytes >= bytes,
            "the bytes of all trees are those of each"
        );
        self.bytes -= bytes;
        self.spilled_bytes += bytes;
        self.validate();
        Ok(())
    }

    /// In builds with debug assertions: the counts agree.
    fn validate(&self) {
        debug_assert_eq!(
            self.bytes,
            self.trees.iter().map(|writes| writes.bytes).sum::<u64>(),
            "the bytes of all trees are those of each"
        );
        debug_assert!(self.trees.len() as u64 <= self.last_number);
    }

    /// What is committed as extents: of every tree of which something has moved to extents, all live writes. Nothing is
    /// synced.
    pub(crate) fn finalize(&mut self, store: &Arc<Store>) -> Result<StagedExtents> {
        let mut ingests = StagedExtents::new();
        for at in 0..self.trees.len() {
            if self.trees[at].spills.is_empty() {
                continue;
            }
            self.spill_tree(at, store)?;
            let TreeWrites { tree, spills, .. } = &self.trees[at];
            let extents = spills.finalize(store, tree, &self.dead)?;
            if !extents.is_empty() {
                ingests.push((tree.clone(), extents));
            }
        }
        Ok(ingests)
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
        debug_assert!(
            dead.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "dead ranges are disjoint and ascend"
        );
    }

    /// Calls `each` with the live writes of a tree, keys ascending.
    pub(crate) fn for_each_live(
        &self,
        writes: &TreeWrites,
        mut each: impl FnMut(Op, &[u8], &[u8]),
    ) {
        let mut previous: Option<&[u8]> = None;
        for (key, entry) in writes.table.settled().entries_in_order() {
            if previous != Some(key) && !is_dead(&self.dead, entry.seq) {
                each(entry.op, key, entry.value);
                previous = Some(key);
            }
        }
    }

    /// Numbers of writes that do not count.
    pub(crate) fn dead(&self) -> DeadRanges {
        Arc::clone(&self.dead)
    }

    pub(crate) fn trees(&self) -> &[TreeWrites] {
        &self.trees
    }

    /// The trees whose writes are in the log record.
    pub(crate) fn logged(&self) -> impl Iterator<Item = &TreeWrites> {
        self.trees.iter().filter(|writes| writes.spills.is_empty())
    }

    /// Forgets everything, and keeps a little memory.
    pub(crate) fn clear(&mut self) {
        if self.trees.is_empty() {
            return;
        }
        for writes in self.trees.drain(..) {
            let mut table = writes.table;
            // A cursor may still walk the table; then it keeps it.
            if self.spare.len() < KEPT_TABLES
                && Arc::get_mut(&mut table).is_some_and(OwnTable::reset)
            {
                self.spare.push(table);
            }
        }
        if !self.dead.is_empty() {
            self.dead = DeadRanges::default();
        }
        self.last_number = 0;
        self.bytes = 0;
        self.spilled_bytes = 0;
        debug_assert!(self.is_untouched() && self.spare.len() <= KEPT_TABLES);
        self.has_puts = false;
    }
}
