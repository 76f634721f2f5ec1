//! A transaction's writes to one tree in memory: a memtable, and before it a sort buffer for writes that nobody reads.
//!
//! Neighbours: `write_set` has one for each tree; cursors and those who look for uncommitted rows share it; `spill`
//! writes it out in order.
//!
//! An insert into a skiplist at a random place costs a dozen cache misses. A transaction that writes to a tree without
//! reading its own writes there, as INSERT does to indexes that are not unique, only appends: the writes are sorted
//! when they are committed or spilled, or inserted when somebody looks.
//!
//! **Invariants**
//! - Every write is in the memtable or in the buffer, and [`OwnTable::settled`] leaves none in the buffer: whoever
//!   reads comes by it.
//! - Only the transaction writes; anybody may settle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::memtable::{MemEntry, Memtable};
use crate::{Op, Seq};

/// Writes without a read between them after which a tree that was read is only appended to again.
const APPENDS_AFTER: u32 = 4096;
/// A buffer keeps at most this much memory for the next transaction.
const KEPT_BYTES: usize = 16 << 10;

/// A write in the buffer.
#[derive(Clone, Copy)]
struct Appended {
    /// The first bytes of the key, for quick comparisons.
    prefix: u64,
    /// Where the key begins; the value follows it.
    at: usize,
    number: Seq,
    key_bytes: u32,
    value_bytes: u32,
    op: Op,
}

/// Writes in the order in which they came.
struct Buffer {
    bytes: Vec<u8>,
    writes: Vec<Appended>,
    is_sorted: bool,
    charge: Charge,
}

fn prefix_of(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

fn key_in(bytes: &[u8], write: Appended) -> &[u8] {
    &bytes[write.at..write.at + write.key_bytes as usize]
}

impl Buffer {
    fn push(&mut self, key: &[u8], number: Seq, op: Op, value: &[u8]) {
        debug_assert!(u32::try_from(key.len().max(value.len())).is_ok());
        debug_assert!(self.writes.last().is_none_or(|last| last.number < number));
        self.writes.push(Appended {
            prefix: prefix_of(key),
            at: self.bytes.len(),
            number,
            key_bytes: key.len() as u32,
            value_bytes: value.len() as u32,
            op,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.is_sorted = false;
        self.charge.raise_to(self.allocated_bytes());
    }

    /// By key; of equal keys the newest first, as in a memtable.
    fn sort(&mut self) {
        if std::mem::replace(&mut self.is_sorted, true) {
            return;
        }
        let bytes = &self.bytes;
        self.writes.sort_unstable_by(|a, b| {
            let keys = || key_in(bytes, *a).cmp(key_in(bytes, *b));
            a.prefix
                .cmp(&b.prefix)
                .then_with(keys)
                .then(b.number.cmp(&a.number))
        });
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], MemEntry<'_>)> {
        self.writes.iter().map(|write| {
            let value = write.at + write.key_bytes as usize;
            let entry = MemEntry {
                seq: write.number,
                op: write.op,
                value: &self.bytes[value..value + write.value_bytes as usize],
            };
            (key_in(&self.bytes, *write), entry)
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.writes.clear();
        if self.allocated_bytes() > KEPT_BYTES {
            self.bytes = Vec::new();
            self.writes = Vec::new();
        }
        self.is_sorted = true;
        self.charge.set(self.allocated_bytes());
    }

    fn allocated_bytes(&self) -> usize {
        self.bytes.capacity() + self.writes.capacity() * size_of::<Appended>()
    }
}

/// All writes in order, while nobody adds one.
pub(super) struct InOrder<'t> {
    buffer: MutexGuard<'t, Buffer>,
    table: &'t Memtable,
}

impl InOrder<'_> {
    /// By key, of a key the newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], MemEntry<'_>)> {
        debug_assert!(self.buffer.is_sorted);
        let mut appended = self.buffer.iter().peekable();
        let mut inserted = self.table.entries_in_order().peekable();
        std::iter::from_fn(move || {
            let takes_appended = match (appended.peek(), inserted.peek()) {
                (appended, None) => appended.is_some(),
                (None, Some(_)) => false,
                (Some(a), Some(b)) => a.0.cmp(b.0).then(b.1.seq.cmp(&a.1.seq)).is_lt(),
            };
            match takes_appended {
                true => appended.next(),
                false => inserted.next(),
            }
        })
    }
}

/// The writes to one tree that are in memory.
pub(crate) struct OwnTable {
    table: Arc<Memtable>,
    buffer: Mutex<Buffer>,
    /// There may be something in the buffer.
    appends: AtomicBool,
    /// The greatest prefix of a key that was written.
    greatest: AtomicU64,
    /// Writes since the last read, from [`APPENDS_AFTER`] on where there was none.
    unread: AtomicU32,
}

impl OwnTable {
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        let what = MemoryUse::Transactions;
        Self {
            table: Arc::new(Memtable::charged(budget, what)),
            buffer: Mutex::new(Buffer {
                bytes: Vec::new(),
                writes: Vec::new(),
                is_sorted: true,
                charge: Charge::new(budget, what),
            }),
            appends: AtomicBool::new(false),
            greatest: AtomicU64::new(0),
            unread: AtomicU32::new(APPENDS_AFTER),
        }
    }

    /// The table that takes the place of a full one, written to as that was.
    pub(crate) fn following(&self, budget: &Arc<MemoryBudget>) -> Self {
        let next = Self::new(budget);
        let unread = self.unread.load(Ordering::Relaxed);
        next.unread.store(unread, Ordering::Relaxed);
        next
    }

    /// Adds a write; `number` is larger than those before.
    pub(super) fn write(&self, key: &[u8], number: Seq, op: Op, value: &[u8]) {
        let prefix = prefix_of(key);
        if prefix > self.greatest.load(Ordering::Relaxed) {
            self.greatest.store(prefix, Ordering::Relaxed);
        }
        let unread = self.unread.load(Ordering::Relaxed);
        if unread < APPENDS_AFTER {
            self.unread.store(unread + 1, Ordering::Relaxed);
            let inserted = self.table.insert(key, number, op, value);
            debug_assert!(inserted, "write numbers are unique");
            return;
        }
        let mut buffer = self.buffer.lock();
        buffer.push(key, number, op, value);
        self.appends.store(true, Ordering::Release);
    }

    /// How many writes there are, those of rolled back savepoints among them.
    pub(crate) fn len(&self) -> u64 {
        let appended = self.buffer.lock().writes.len() as u64;
        self.table.entries() + appended
    }

    /// All writes as a memtable, if the transaction may have written the key. Rows that come in the order of their keys
    /// are looked for, one by one, before they are written: that is no reason to insert what is appended.
    pub(super) fn settled_for(&self, key: &[u8]) -> Option<&Arc<Memtable>> {
        let may_have = prefix_of(key) <= self.greatest.load(Ordering::Relaxed);
        may_have.then(|| self.settled())
    }

    /// All writes as a memtable.
    pub(crate) fn settled(&self) -> &Arc<Memtable> {
        self.unread.store(0, Ordering::Relaxed);
        if self.appends.load(Ordering::Acquire) {
            self.settle();
        }
        &self.table
    }

    #[cold]
    fn settle(&self) {
        let mut buffer = self.buffer.lock();
        for (key, entry) in buffer.iter() {
            let inserted = self.table.insert(key, entry.seq, entry.op, entry.value);
            debug_assert!(inserted, "write numbers are unique");
        }
        buffer.clear();
        self.appends.store(false, Ordering::Release);
    }

    /// All writes.
    pub(super) fn in_order(&self) -> InOrder<'_> {
        let mut buffer = self.buffer.lock();
        buffer.sort();
        InOrder {
            buffer,
            table: &self.table,
        }
    }

    /// As [`Self::clear`], for another transaction.
    pub(super) fn reset(&mut self) -> bool {
        *self.unread.get_mut() = APPENDS_AFTER;
        self.clear()
    }

    /// Forgets all writes, and is written to as before; false if a cursor still walks the memtable.
    pub(super) fn clear(&mut self) -> bool {
        let Some(table) = Arc::get_mut(&mut self.table) else {
            return false;
        };
        table.clear();
        self.buffer.get_mut().clear();
        *self.appends.get_mut() = false;
        *self.greatest.get_mut() = 0;
        debug_assert_eq!(self.table.entries(), 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> OwnTable {
        OwnTable::new(&MemoryBudget::new(1 << 30))
    }

    fn in_order(table: &OwnTable) -> Vec<(Vec<u8>, Seq)> {
        let writes = table.in_order();
        writes
            .iter()
            .map(|(key, e)| (key.to_vec(), e.seq))
            .collect()
    }

    /// Writes keys at random, some of them twice; what comes out in order.
    fn fill(table: &OwnTable, from: Seq, count: u64) -> Vec<(Vec<u8>, Seq)> {
        let mut all = Vec::new();
        for number in from..from + count {
            let key = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 3000).to_be_bytes();
            table.write(&key[2..], number, Op::Put, b"value");
            all.push((key[2..].to_vec(), number));
        }
        all
    }

    fn sorted(mut all: Vec<(Vec<u8>, Seq)>) -> Vec<(Vec<u8>, Seq)> {
        all.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        all
    }

    #[test]
    fn what_is_appended_and_what_is_inserted_come_in_one_order() {
        let table = table();
        let unread = u64::from(APPENDS_AFTER);
        let first = fill(&table, 1, 10);
        assert_eq!(table.table.entries(), 0, "nobody has read");
        assert_eq!(in_order(&table), sorted(first.clone()));
        assert_eq!(table.settled().entries(), 10);
        let all = [first, fill(&table, 11, 3 * unread)].concat();
        let unread = unread + 10;
        assert_eq!(table.table.entries(), unread, "the rest is appended");
        assert_eq!(in_order(&table), sorted(all.clone()));
        assert_eq!(table.table.entries(), unread, "nobody has read");
        // A read finds everything in the memtable, and what follows is inserted again.
        let count = all.len() as u64;
        assert_eq!(table.settled().entries(), count);
        let more = fill(&table, count + 1, 10);
        assert_eq!(table.table.entries(), count + 10);
        let all = all.into_iter().chain(more).collect();
        assert_eq!(in_order(&table), sorted(all));
    }

    #[test]
    fn keys_behind_all_others_are_looked_for_without_inserting() {
        let table = table();
        let key = |n: u64| (2 * n).to_be_bytes();
        for n in 1..=100 {
            assert!(table.settled_for(&key(n)).is_none());
            table.write(&key(n), n, Op::Put, b"value");
        }
        assert_eq!(table.table.entries(), 0);
        for n in 1..=100 {
            let written = table.settled_for(&key(n)).and_then(|t| t.get(&key(n), n));
            assert!(written.is_some(), "{n}");
        }
        assert_eq!(table.table.entries(), 100);
    }

    #[test]
    fn a_table_that_follows_appends_at_once() {
        let mut first = table();
        fill(&first, 1, 5);
        assert_eq!(first.settled().entries(), 5);
        fill(&first, 6, u64::from(APPENDS_AFTER) + 5);
        let next = first.following(&MemoryBudget::new(1 << 30));
        assert!(first.clear());
        assert!(in_order(&first).is_empty());
        let all = fill(&next, 10_000, 100);
        assert_eq!(next.table.entries(), 0);
        assert_eq!(in_order(&next), sorted(all));
        assert_eq!(next.settled().entries(), 100);
        // One that is read goes on inserting when it is emptied; that of another transaction begins anew.
        let mut read = table();
        assert!(read.settled().is_empty() && read.clear());
        fill(&read, 1, 10);
        assert_eq!(read.table.entries(), 10);
        assert!(read.reset());
        fill(&read, 1, 10);
        assert_eq!(read.table.entries(), 0);
    }
}
