//! What a transaction has written and not committed.
//!
//! Neighbours: `Txn` writes and reads here first; cursors walk it beside the committed versions; `commit` encodes and
//! applies it.
//!
//! Each tree's writes are a memtable ([`OwnTable`]) whose sequence is the number of the write. That makes a savepoint
//! a number, a rollback to it a range of dead numbers, and gives a cursor a stable view (the numbers up to its
//! creation) without copying anything.
//!
//! What is too much for memory moves to extents (`spill`), on a thread of its own (`spiller`): while one table is
//! sorted and written the next one is filled. If both are full, and the thread is not done, the transaction spills
//! itself. A tree of which something has moved is not logged: its writes become part of it as extents.
//!
//! **Invariants**
//! - Write numbers start at 1 and only grow within a transaction.
//! - `dead` ranges are half open (after, upto], disjoint and ascending. A write is live if its number is in none.
//! - Of a key, the live write with the highest number counts.
//! - Memory of dead writes is not returned before the transaction ends; it counts against the limit.
//! - What is moving of a tree is older than its table and newer than its spills.

use std::sync::Arc;

use smallvec::SmallVec;

use super::merge::SpillMerge;
use super::own_table::OwnTable;
use super::spill::Spills;
use super::spiller::{SpillJob, Spiller};
use super::{OwnTables, OwnWrites};
use crate::extent::{FoundIn, Store};
use crate::memtable::{GROUP, Insert, MemEntry};
use crate::pool::ScanPool;
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
    table: Arc<OwnTable>,
    /// A full table that is being spilled.
    moving: Option<Moving>,
    /// What has moved to extents.
    spills: Spills,
    /// Bytes of the writes in the table.
    bytes: u64,
}

/// A table that is being spilled, and the bytes of its writes.
struct Moving {
    job: Arc<SpillJob>,
    bytes: u64,
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.job.cancel();
    }
}

impl TreeWrites {
    /// Writes that are all in the log record: nothing has moved.
    fn is_logged(&self) -> bool {
        self.spills.is_empty() && self.moving.is_none()
    }

    /// The live write to a key.
    fn get(&self, key: &[u8], dead: &[(Seq, Seq)]) -> Result<Option<Written<'_>>> {
        let moving = self.moving.as_ref().map(|moving| &moving.job.table);
        for table in std::iter::once(&self.table).chain(moving) {
            if let Some(entry) = live_in(table, key, dead) {
                return Ok(Some(Written::InMemory(entry)));
            }
        }
        let spilled = self.spills.get(key, dead)?;
        Ok(spilled.map(Written::Spilled))
    }

    /// Puts an empty table in the place of the full one, which is moving from now on.
    fn start_moving(&mut self, store: &Arc<Store>, dead: &DeadRanges) -> &Arc<SpillJob> {
        assert!(self.moving.is_none(), "one table of a tree at a time");
        let job = SpillJob::new(store, &self.tree, &self.table, dead);
        self.table = Arc::new(self.table.following(self.tree.budget()));
        let bytes = std::mem::take(&mut self.bytes);
        &self.moving.insert(Moving { job, bytes }).job
    }

    /// Waits until nothing is moving any more, or moves it now. The bytes that have left memory. After an error it is
    /// moving as before.
    fn finish_moving(&mut self, dead: &DeadRanges) -> Result<u64> {
        let Some(moving) = &self.moving else {
            return Ok(0);
        };
        let (made, bytes) = (moving.job.take(dead)?, moving.bytes);
        if let Some(spill) = made {
            self.spills.add(spill);
        }
        self.moving = None;
        Ok(bytes)
    }
}

/// The live write to a key in one table.
fn live_in<'a>(table: &'a OwnTable, key: &[u8], dead: &[(Seq, Seq)]) -> Option<MemEntry<'a>> {
    let mut upto = LATEST;
    let table = table.settled_for(key)?;
    while let Some(entry) = table.get(key, upto) {
        if !is_dead(dead, entry.seq) {
            return Some(entry);
        }
        debug_assert!(0 < entry.seq && entry.seq <= upto);
        upto = entry.seq - 1;
    }
    None
}

/// What moves writes to extents.
pub(crate) struct Spilling<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) spiller: &'a Spiller,
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
    /// ... of those among them that are being spilled, ...
    moving_bytes: u64,
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

    /// Whether a part of it has moved to extents, or is moving.
    pub(crate) fn has_spilled(&self) -> bool {
        self.spilled_bytes > 0 || self.moving_bytes > 0
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
                        moving: None,
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
        writes.get(key, &self.dead)
    }

    /// The writes to a tree as they are now, to be walked.
    pub(crate) fn view(&self, tree: TreeId) -> Option<OwnWrites> {
        let writes = self.find(tree)?;
        Some(OwnWrites {
            tables: OwnTables {
                active: Arc::clone(&writes.table),
                moving: writes.moving.as_ref().map(|m| Arc::clone(&m.job.table)),
            },
            spills: writes.spills.clone(),
            upto: self.last_number,
            dead: Arc::clone(&self.dead),
        })
    }

    /// Whether a write of `bytes` needs room, where all writes in memory may have `memory`: the part of it that is
    /// being filled is full, and nothing is moving, or there is no more.
    #[inline]
    pub(crate) fn needs_room(&self, bytes: u64, memory: u64, spiller: &Spiller) -> bool {
        self.bytes - self.moving_bytes + bytes > memory / spiller.parts()
            && (self.bytes + bytes > memory || !self.is_moving())
    }

    /// Whether something is moving and not done.
    fn is_moving(&self) -> bool {
        let moving = |tree: &TreeWrites| tree.moving.as_ref().is_some_and(|m| !m.job.has_ended());
        self.moving_bytes > 0 && self.trees.iter().any(moving)
    }

    /// Moves the writes to the tree that has most of them in its table to extents: on the thread for that, but here if
    /// it is still busy with those to another tree. After an error nothing has changed but where writes are.
    pub(crate) fn make_room(&mut self, spilling: &Spilling<'_>) -> Result<()> {
        let Some(largest) = (0..self.trees.len()).max_by_key(|at| self.trees[*at].bytes) else {
            return Ok(());
        };
        for at in 0..self.trees.len() {
            let moving = self.trees[at].moving.as_ref();
            if moving.is_some_and(|moving| at == largest || moving.job.has_ended()) {
                self.finish_moving(at)?;
            }
        }
        let is_free = !self.is_moving();
        let job = self.start_moving(largest, spilling.store);
        match is_free && spilling.spiller.offer(&job) {
            true => Ok(()),
            false => self.finish_moving(largest),
        }
    }

    fn start_moving(&mut self, at: usize, store: &Arc<Store>) -> Arc<SpillJob> {
        let writes = &mut self.trees[at];
        self.moving_bytes += writes.bytes;
        let job = Arc::clone(writes.start_moving(store, &self.dead));
        self.validate();
        job
    }

    /// Waits until nothing of the tree is moving any more, or moves it now.
    fn finish_moving(&mut self, at: usize) -> Result<()> {
        let bytes = self.trees[at].finish_moving(&self.dead)?;
        assert!(
            self.bytes >= bytes && self.moving_bytes >= bytes,
            "what moves has been in memory"
        );
        self.bytes -= bytes;
        self.moving_bytes -= bytes;
        self.spilled_bytes += bytes;
        self.validate();
        Ok(())
    }

    /// In builds with debug assertions: the counts agree.
    fn validate(&self) {
        let moving = |tree: &TreeWrites| tree.moving.as_ref().map_or(0, |moving| moving.bytes);
        debug_assert_eq!(
            self.bytes - self.moving_bytes,
            self.trees.iter().map(|writes| writes.bytes).sum::<u64>(),
            "the bytes of all trees are those of each"
        );
        debug_assert_eq!(
            self.moving_bytes,
            self.trees.iter().map(moving).sum::<u64>(),
            "and so are those that are moving"
        );
        debug_assert!(self.trees.len() as u64 <= self.last_number);
    }

    /// What is committed as extents: of every tree of which something has moved to extents, all live writes. Nothing is
    /// synced. Ends early, with an error, where `go_on` says no.
    pub(crate) fn finalize(
        &mut self,
        spilling: &Spilling<'_>,
        pool: &ScanPool,
        go_on: &dyn Fn() -> bool,
    ) -> Result<StagedExtents> {
        self.spill_rest(spilling)?;
        let mut ingests = StagedExtents::new();
        let mut merge = SpillMerge::new(spilling.store, &self.dead);
        for TreeWrites { tree, spills, .. } in self.trees.iter().filter(|tree| !tree.is_logged()) {
            let in_order = spills.in_order(&self.dead);
            if in_order.is_none() {
                merge.add(ingests.len(), tree, spills);
            }
            ingests.push((tree.clone(), in_order.unwrap_or_default()));
        }
        merge.run(pool, go_on, |place, extents| {
            ingests[place].1.extend(extents)
        })?;
        ingests.retain(|(_, extents)| !extents.is_empty());
        Ok(ingests)
    }

    /// Moves the rest of the writes to every tree of which something has moved: the thread from the first one on, this
    /// one from the last one on.
    fn spill_rest(&mut self, spilling: &Spilling<'_>) -> Result<()> {
        for at in 0..self.trees.len() {
            self.finish_moving(at)?;
        }
        for at in 0..self.trees.len() {
            if !self.trees[at].is_logged() && self.trees[at].bytes > 0 {
                let job = self.start_moving(at, spilling.store);
                spilling.spiller.offer(&job);
            }
        }
        for at in (0..self.trees.len()).rev() {
            self.finish_moving(at)?;
        }
        assert_eq!(self.moving_bytes, 0, "nothing is moving any more");
        Ok(())
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
        self.for_each_live_group(writes, |group| {
            for (key, op, value) in group {
                each(*op, key, value);
            }
        });
    }

    /// The same, several at once.
    pub(crate) fn for_each_live_group(
        &self,
        writes: &TreeWrites,
        mut each: impl FnMut(&[Insert<'_>]),
    ) {
        let in_order = writes.table.in_order();
        let mut group: SmallVec<[Insert<'_>; GROUP]> = SmallVec::new();
        let mut previous: Option<&[u8]> = None;
        for (key, entry) in in_order.iter() {
            if previous == Some(key) || is_dead(&self.dead, entry.seq) {
                continue;
            }
            previous = Some(key);
            group.push((key, entry.op, entry.value));
            if group.len() == GROUP {
                each(&group);
                group.clear();
            }
        }
        if !group.is_empty() {
            each(&group);
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
        self.trees.iter().filter(|writes| writes.is_logged())
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
        self.moving_bytes = 0;
        self.spilled_bytes = 0;
        debug_assert!(self.is_untouched() && self.spare.len() <= KEPT_TABLES);
        self.has_puts = false;
    }
}
