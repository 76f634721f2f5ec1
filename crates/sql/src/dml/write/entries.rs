//! The index entries of a row, computed from its bytes, and the buffers that keep them from row to row.
//!
//! Neighbours: `write` puts entries into their trees and takes them out; `logged` and `foreign` read the keys.
//!
//! **Invariants**
//! - Keys are computed from encoded rows read in UTC, the same bytes when an entry is made and when it is removed.
//! - Entries of inverted indexes are in order.
//! - A buffer that has grown beyond [`KEPT_BYTES`] is given back after the statement.

use esker_engine::TreeId;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_exec::OneRow;
use esker_types::{SqlResult, Value};

/// A buffer that once grew beyond this is given back after the statement.
const KEPT_BYTES: usize = 256 * 1024;

/// Key of one index entry.
#[derive(Debug, Default)]
pub(in crate::dml) struct Entry {
    pub(super) key: Vec<u8>,
    /// The value is the clustered key (a unique entry without NULL).
    pub(super) in_value: bool,
    /// Must be written: it is new or has moved.
    pub(super) changed: bool,
    /// Is as it was and written again, for the transaction's own snapshot.
    pub(super) again: bool,
    /// Its key was locked for this row.
    pub(super) locked: bool,
}

impl Entry {
    /// The key of the entry.
    pub(in crate::dml) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Is it a key of a unique index that a write takes or gives up?
    pub(in crate::dml) fn is_changed_key(&self) -> bool {
        self.changed && self.in_value
    }
}

/// An entry of an inverted index.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::dml) struct WordEntry {
    /// Position among the inverted indexes.
    pub(super) nth: usize,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Nobody else may have the key: the index is UNIQUE.
    pub(super) claims: bool,
    /// Its key was locked for this row.
    pub(super) locked: bool,
}

impl WordEntry {
    /// The key, if nobody else may have it, and the tree it is in.
    pub(in crate::dml) fn claimed(&self, table: &TableDef) -> Option<(TreeId, &[u8])> {
        let index = table.inverted().get(self.nth)?;
        self.claims.then_some((index.id, &*self.key))
    }
}

/// All entries of a row.
#[derive(Default)]
pub(super) struct RowEntries {
    /// One for each secondary index.
    pub(super) secondary: Vec<Entry>,
    /// Those of inverted indexes that must be written or taken away, in order.
    pub(super) words: Vec<WordEntry>,
    /// The row's clustered key was locked for it when it was inserted, with no other.
    pub(super) key_locked: bool,
}

/// Buffers kept between rows and statements.
#[derive(Default)]
pub struct Scratch {
    /// The encoded row being written.
    pub(crate) row: Vec<u8>,
    /// The row that was there before.
    pub(crate) old_row: Vec<u8>,
    /// Clustered key of the row being written.
    pub(crate) key: Vec<u8>,
    /// Values of the row being made.
    pub(crate) values: Vec<Value>,
    /// The row that a look-up by key found.
    pub(crate) found: OneRow,
    new_entries: RowEntries,
    old_entries: RowEntries,
}

impl Scratch {
    /// Entries of the row that was written last, in the secondary and in the inverted indexes.
    pub(in crate::dml) fn new_entries(&self) -> (&[Entry], &[WordEntry]) {
        (&self.new_entries.secondary, &self.new_entries.words)
    }

    /// Those of the row that was there before.
    pub(in crate::dml) fn old_entries(&self) -> (&[Entry], &[WordEntry]) {
        (&self.old_entries.secondary, &self.old_entries.words)
    }

    /// Gives back unusually large buffers.
    pub(crate) fn trim(&mut self) {
        for buffer in [&mut self.row, &mut self.old_row] {
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        for entries in [&mut self.new_entries, &mut self.old_entries] {
            entries.words.clear();
            if entries.words.capacity() * size_of::<WordEntry>() > KEPT_BYTES {
                entries.words = Vec::new();
            }
        }
        self.found.trim(KEPT_BYTES);
    }
}

/// The entry buffers of a [`Scratch`].
pub(in crate::dml) struct Entries<'a> {
    pub(super) new: &'a mut RowEntries,
    pub(super) old: &'a mut RowEntries,
}

/// Entry buffers for rows of other tables than the statement's.
#[derive(Default)]
pub(in crate::dml) struct EntryBuffers {
    new: RowEntries,
    old: RowEntries,
}

impl EntryBuffers {
    /// The buffers.
    pub(in crate::dml) fn entries(&mut self) -> Entries<'_> {
        Entries {
            new: &mut self.new,
            old: &mut self.old,
        }
    }
}

/// The buffers of a [`Scratch`], to be used side by side.
pub(in crate::dml) struct Buffers<'a> {
    pub(in crate::dml) row: &'a mut Vec<u8>,
    pub(in crate::dml) old_row: &'a mut Vec<u8>,
    pub(in crate::dml) key: &'a mut Vec<u8>,
    pub(in crate::dml) entries: Entries<'a>,
}

impl Scratch {
    /// All buffers at once.
    pub(in crate::dml) fn buffers(&mut self) -> Buffers<'_> {
        let Self {
            row,
            old_row,
            key,
            new_entries,
            old_entries,
            ..
        } = self;
        Buffers {
            row,
            old_row,
            key,
            entries: Entries {
                new: new_entries,
                old: old_entries,
            },
        }
    }
}

impl RowEntries {
    /// Makes these the entries of a row, all of which must be written.
    pub(super) fn compute(
        &mut self,
        table: &TableDef,
        clustered: &[u8],
        row: &[u8],
    ) -> SqlResult<()> {
        let row = RowReader::new(&table.layout, &UTC, row)?;
        let secondary = table.secondary();
        self.secondary.resize_with(secondary.len(), Entry::default);
        for (index, entry) in secondary.iter().zip(&mut self.secondary) {
            entry.in_value = index.codec.entry(&row, clustered, &mut entry.key)?;
            (entry.changed, entry.again, entry.locked) = (true, false, false);
        }
        self.words.clear();
        let mut buffer = Vec::new();
        for (nth, index) in table.inverted().iter().enumerate() {
            let claims = index.elements.as_ref().is_some_and(|e| e.claims(&row));
            index.entries(&row, clustered, &mut buffer, |key, value| {
                self.words.push(WordEntry {
                    nth,
                    key: key.to_vec(),
                    value: value.to_vec(),
                    claims,
                    locked: false,
                });
                Ok(())
            })?;
        }
        debug_assert!(self.words.is_sorted());
        Ok(())
    }
}

/// Takes out what is in both lists, which are in order.
pub(super) fn drop_common(old: &mut Vec<WordEntry>, new: &mut Vec<WordEntry>) {
    let changed = |these: &[WordEntry], others: &[WordEntry]| -> Vec<bool> {
        let is_other = |entry| others.binary_search(entry).is_err();
        these.iter().map(is_other).collect()
    };
    let (of_old, of_new) = (changed(old, new), changed(new, old));
    let (mut of_old, mut of_new) = (of_old.into_iter(), of_new.into_iter());
    old.retain(|_| of_old.next() == Some(true));
    new.retain(|_| of_new.next() == Some(true));
}
