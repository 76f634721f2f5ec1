//! Memtable iterator, in both directions.
//!
//! Neighbours: `iter::InternalIter` is the interface; `skiplist` has the links.
//!
//! **Invariants**
//! - The iterator owns a reference to its table, so its entry never dangles.
//! - The list has no backward links: `prev` searches again, which costs a logarithm and keeps inserts cheap.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Memtable;
use super::skiplist::Entry;
use crate::iter::InternalIter;
use crate::visit::{Visit, show};
use crate::{LATEST, Op, Result, Seq};

/// An iterator over a memtable that keeps it alive.
pub struct MemIter {
    entry: Option<Entry>,
    table: Arc<Memtable>,
    /// Deletes that the walk has stepped over, and the table was not told of.
    tombstones_skipped: u64,
}

// SAFETY: `entry` points into the arena of `table`, which the iterator keeps alive wherever it goes; nodes and versions
// are immutable but for their atomic links, and `Memtable` itself is `Send + Sync`.
unsafe impl Send for MemIter {}

impl MemIter {
    pub(super) fn new(table: Arc<Memtable>) -> Self {
        MemIter {
            entry: None,
            table,
            tombstones_skipped: 0,
        }
    }

    /// Shows `visit` the newest version up to `upto` of every key from the current one on, which is before `bound` if
    /// there is one, but of no more than `most` keys; stands on the first version of a later key afterwards, or has
    /// ended. Raises `newest` to the newest sequence shown. False if `visit` has said no.
    pub(crate) fn drain(
        &mut self,
        bound: Option<&[u8]>,
        upto: Seq,
        newest: &mut Seq,
        most: u32,
        visit: &mut impl Visit,
    ) -> bool {
        for _ in 0..most {
            let Some(entry) = self.entry else {
                break;
            };
            // SAFETY: the slice is used within this call, while `table` is alive.
            let key = unsafe { entry.key() };
            if bound.is_some_and(|bound| key >= bound) {
                break;
            }
            let (found, next) = self.table.list.pass_key(entry, upto);
            self.entry = next;
            if let Some(found) = found {
                debug_assert!(found.seq() <= upto, "what is found is visible");
                *newest = found.seq().max(*newest);
                self.tombstones_skipped += u64::from(found.op() == Op::Delete);
                // SAFETY: as for the key.
                if !show(visit, key, found.op(), unsafe { found.value() }) {
                    return false;
                }
            }
        }
        true
    }

    #[inline]
    fn at(&self) -> Entry {
        self.entry.expect("the iterator stands on an entry")
    }
}

impl InternalIter for MemIter {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_version(key, LATEST)
    }

    fn seek_version(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.entry = self.table.list.seek(key, seq);
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.entry = self.table.list.first();
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        // Sequence 0 is never committed, so everything of `key` lies before (`key`, 0).
        self.entry = self.table.list.seek_before(key, 0);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.entry = self.table.list.last();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.entry = self.table.list.after(self.at());
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let at = self.at();
        // SAFETY: the key is used within this call, while `table` is alive.
        let key = unsafe { at.key() };
        self.entry = self.table.list.seek_before(key, at.seq());
        Ok(())
    }

    fn valid(&self) -> bool {
        self.entry.is_some()
    }

    fn key(&self) -> &[u8] {
        // SAFETY: the slice borrows from `&self`, and `table` lives at least as long.
        unsafe { self.at().key() }
    }

    fn seq(&self) -> Seq {
        self.at().seq()
    }

    fn op(&self) -> Op {
        self.at().op()
    }

    fn value(&self) -> &[u8] {
        // SAFETY: as for the key.
        unsafe { self.at().value() }
    }

    fn step_over(&mut self) {
        self.tombstones_skipped += 1;
    }
}

impl Drop for MemIter {
    fn drop(&mut self) {
        if self.tombstones_skipped > 0 {
            let steps = &self.table.tombstones_skipped;
            steps.fetch_add(self.tombstones_skipped, Ordering::Relaxed);
        }
    }
}
