//! The memtable: the mutable in-memory tier of a tree. Committed versions enter here and are flushed to extents later.
//!
//! Neighbours: `commit` and `recovery` insert; `txn` reads; `tree` holds the active table and the immutable ones and
//! turns the latter into extents. A transaction's own write set is a memtable too (`txn::write_set`).
//!
//! Parts: `arena` (memory) → `skiplist` (order) with `versions` (of one key) and `key_index` (single keys) → `pins`
//! (who inserts) → [`Memtable`] (life cycle) → `iter`. `approach` goes before inserts of many keys.
//!
//! **Invariants**
//! - Nothing is removed or changed: a reader sees at least what was there when it began.
//! - Committers insert only while they hold a [`WriterPin`]. After [`Memtable::seal`] no new pin is given, so a table
//!   that is sealed and has no pins ([`Memtable::is_quiescent`]) is complete and may be flushed.
//! - Before a version is inserted under a pin, `first_lsn` is at or below the start of its record and `max_seq` at or
//!   above its sequence.

mod approach;
mod arena;
#[cfg(test)]
mod interleaving_tests;
mod iter;
mod key_index;
mod pins;
mod skiplist;
mod versions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use iter::MemIter;
use pins::Pins;
pub use pins::WriterPin;
use skiplist::{SkipList, Splice};

use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::{LATEST, MAX_KEY_BYTES, MAX_VALUE_BYTES, Op, Seq};

/// A version found in a memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemEntry<'a> {
    /// Commit sequence of the version.
    pub seq: Seq,
    /// Put or delete.
    pub op: Op,
    /// The value; empty for a delete.
    pub value: &'a [u8],
}

/// Versions that are inserted together: whose places are approached at once.
pub(crate) const GROUP: usize = 16;
/// Fewer are inserted one after the other.
const LEAST_GROUP: usize = 4;
/// Smaller tables are in the processor's caches.
const LEAST_ENTRIES: u64 = if cfg!(test) { 64 } else { 4096 };

/// What is inserted: a key and its new version.
pub(crate) type Insert<'a> = (&'a [u8], Op, &'a [u8]);

/// Inserts into a memtable in the order of keys.
pub(crate) struct Ascending<'t> {
    table: &'t Memtable,
    splice: Splice,
}

impl Ascending<'_> {
    /// As [`Memtable::insert`]; the key is greater than that of the call before.
    fn insert(&mut self, key: &[u8], seq: Seq, op: Op, value: &[u8]) -> bool {
        let (table, splice) = (self.table, &mut self.splice);
        table.insert_at(splice, key, seq, (op, value))
    }

    /// Inserts several versions of one sequence; true if none was there.
    pub(crate) fn insert_group(&mut self, group: &[Insert<'_>], seq: Seq) -> bool {
        debug_assert!(group.len() <= GROUP);
        let list = &self.table.list;
        let approaches =
            group.len() >= LEAST_GROUP && self.table.approach(group.iter().map(|(key, ..)| *key));
        let mut are_new = true;
        for (nth, (key, op, value)) in group.iter().enumerate() {
            are_new &= self.insert(key, seq, *op, value);
            if nth == 0 && approaches && self.splice.is_far(group[group.len() - 1].0) {
                list.approach_places(group[1..].iter().map(|(key, ..)| *key));
            }
        }
        are_new
    }
}

/// Sorted versions in memory.
pub struct Memtable {
    list: SkipList,
    deletes: AtomicU64,
    /// Deletes that walks for rows have stepped over, each as often as that was.
    tombstones_skipped: AtomicU64,
    pins: Pins,
    charge: Charge,
}

impl Default for Memtable {
    fn default() -> Self {
        Self::new()
    }
}

impl Memtable {
    /// An empty memtable; it owns no memory for entries yet.
    pub fn new() -> Self {
        Self::with_charge(Charge::default())
    }

    /// An empty memtable whose memory is charged.
    pub(crate) fn charged(budget: &Arc<MemoryBudget>, what: MemoryUse) -> Self {
        Self::with_charge(Charge::new(budget, what))
    }

    fn with_charge(charge: Charge) -> Self {
        Memtable {
            list: SkipList::new(),
            deletes: AtomicU64::new(0),
            tombstones_skipped: AtomicU64::new(0),
            pins: Pins::new(),
            charge,
        }
    }

    /// Inserts a version; many threads may do so at once. A version that is there already stays as it is (false).
    ///
    /// Committers insert under a [`WriterPin`]. Versions of one key come one after the other.
    pub fn insert(&self, key: &[u8], seq: Seq, op: Op, value: &[u8]) -> bool {
        self.insert_at(&mut Splice::new(), key, seq, (op, value))
    }

    /// Inserts versions whose keys ascend: each search begins where the one before ended.
    pub(crate) fn ascending(&self) -> Ascending<'_> {
        Ascending {
            table: self,
            splice: Splice::new(),
        }
    }

    fn insert_at(
        &self,
        splice: &mut Splice,
        key: &[u8],
        seq: Seq,
        (op, value): (Op, &[u8]),
    ) -> bool {
        assert!(key.len() <= MAX_KEY_BYTES && value.len() <= MAX_VALUE_BYTES);
        debug_assert!(op == Op::Put || value.is_empty());
        debug_assert!(seq < LATEST, "a version has a sequence");
        let inserted = self.list.insert(splice, key, seq, (op, value));
        self.charge.raise_to(self.list.allocated_bytes());
        if inserted && op == Op::Delete {
            self.deletes.fetch_add(1, Ordering::Relaxed);
        }
        inserted
    }

    /// Brings what single keys are found by into the processor's caches. False: a small table is there already.
    pub(crate) fn approach<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> bool {
        let is_large = self.list.entries() >= LEAST_ENTRIES;
        if is_large {
            self.list.index.approach(keys);
        }
        is_large
    }

    /// The newest version of `key` that is not newer than `snapshot`.
    #[inline]
    pub fn get(&self, key: &[u8], snapshot: Seq) -> Option<MemEntry<'_>> {
        let found = self.list.get(key, snapshot)?;
        debug_assert!(found.seq() <= snapshot, "what is found is visible");
        Some(MemEntry {
            seq: found.seq(),
            op: found.op(),
            // SAFETY: the slice borrows from `&self`, which keeps the list alive.
            value: unsafe { found.value() },
        })
    }

    /// Whether a key from the first bound on and before the second has a put that is newer than `seq`.
    pub(crate) fn has_put_after(&self, (start, end): (&[u8], &[u8]), seq: Seq) -> bool {
        if self.max_seq() <= seq {
            return false;
        }
        let mut entry = self.list.seek(start, LATEST);
        while let Some(at) = entry {
            // SAFETY: the slice is used within this call, and `&self` keeps the list alive.
            if unsafe { at.key() } >= end {
                break;
            }
            if at.seq() > seq && at.op() == Op::Put {
                return true;
            }
            entry = self.list.after(at);
        }
        false
    }

    /// All versions in internal order, borrowed.
    pub(crate) fn entries_in_order(&self) -> impl Iterator<Item = (&[u8], MemEntry<'_>)> {
        let mut entry = self.list.first();
        std::iter::from_fn(move || {
            let at = entry?;
            entry = self.list.after(at);
            // SAFETY: the slices borrow from `&self`, which keeps the list alive.
            unsafe {
                Some((
                    at.key(),
                    MemEntry {
                        seq: at.seq(),
                        op: at.op(),
                        value: at.value(),
                    },
                ))
            }
        })
    }

    /// An iterator that keeps the table alive. It sees entries inserted after its creation, too.
    pub fn iter(self: &Arc<Self>) -> MemIter {
        MemIter::new(Arc::clone(self))
    }

    /// Calls `each` with keys that are spread evenly from `lower` on and before `upper`: at least `wanted`, if there
    /// are so many. Each stands for about the returned number of keys.
    pub(crate) fn sample<'a>(
        &'a self,
        lower: &[u8],
        upper: Option<&[u8]>,
        wanted: usize,
        each: impl FnMut(&'a [u8]),
    ) -> u64 {
        self.list.sample(lower, upper, wanted, each)
    }

    /// Bytes used by entries.
    pub fn bytes(&self) -> usize {
        self.list.used_bytes()
    }

    /// Bytes taken from the system.
    pub fn allocated_bytes(&self) -> usize {
        self.list.allocated_bytes()
    }

    /// Number of versions.
    pub fn entries(&self) -> u64 {
        self.list.entries()
    }

    /// Number of tombstones among them.
    pub fn deletes(&self) -> u64 {
        self.deletes.load(Ordering::Relaxed)
    }

    /// How often walks for rows have stepped over one of them.
    pub(crate) fn tombstones_skipped(&self) -> u64 {
        self.tombstones_skipped.load(Ordering::Relaxed)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The highest sequence ever announced by a pin; 0 if none. Exact once the table is quiescent.
    pub fn max_seq(&self) -> Seq {
        self.pins.max_seq()
    }

    /// The lowest record start announced by a pin; `u64::MAX` if none: the log is needed from here on until this table
    /// is flushed.
    pub fn first_lsn(&self) -> u64 {
        self.pins.first_lsn()
    }

    /// Announces a committer that inserts versions of the log record [`start`, `seq`). `None` if the table is sealed:
    /// the caller then loads the new active table.
    pub fn pin(&self, start: u64, seq: Seq) -> Option<WriterPin<'_>> {
        self.pins.pin(start, seq)
    }

    /// Ends the life as the active table. Call it after the new active table is installed.
    pub fn seal(&self) {
        self.pins.seal();
    }

    /// Whether the table is complete: sealed, and no committer is still inserting.
    pub fn is_quiescent(&self) -> bool {
        self.pins.are_quiescent()
    }

    /// Empties a table that is not shared, and keeps a little of its memory.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        debug_assert_eq!(self.list.entries(), 0);
        self.charge.set(self.list.allocated_bytes());
        self.deletes = AtomicU64::new(0);
        self.tombstones_skipped = AtomicU64::new(0);
        self.pins = Pins::new();
    }
}

#[cfg(test)]
mod tests;
