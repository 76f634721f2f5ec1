//! One row with all its index entries.
//!
//! Neighbours: `insert`, `update`, `delete` decide what to write; the codec builds the keys.
//!
//! **Invariants**
//! - A row is written after every lock is held and every unique key was found free; a conflict is
//!   reported with nothing written.
//! - An entry of a unique index changes only under the lock of its key, so the latest version read
//!   under that lock decides.
//! - Keys are computed from encoded rows read in UTC, the same bytes when an entry is made and when
//!   it is removed.

use esker_engine::{LockMode, LockOutcome, TreeId, Txn, View, WaitPolicy};
use esker_types::{SqlResult, Value};

use crate::catalog::TableDef;
use crate::codec::{RowReader, UTC};
use crate::exec::{Limits, OneRow};
use crate::exec_error::ExecError;
use crate::result::Mode;

/// A buffer that once grew beyond this is given back after the statement.
const KEPT_BYTES: usize = 256 * 1024;

/// Key of one index entry.
#[derive(Debug, Default)]
struct Entry {
    key: Vec<u8>,
    /// The value is the clustered key (a unique entry without NULL).
    in_value: bool,
    /// Must be written: it is new or has moved.
    changed: bool,
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
    new_entries: Vec<Entry>,
    old_entries: Vec<Entry>,
}

impl Scratch {
    /// Gives back unusually large buffers.
    pub(crate) fn trim(&mut self) {
        for buffer in [&mut self.row, &mut self.old_row] {
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        self.found.trim(KEPT_BYTES);
    }
}

/// What became of a row that was to be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It is written.
    Done,
    /// A unique key is taken; nothing was written.
    Conflict(Conflict),
}

/// Which unique key is taken, by which row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    /// Position of the index in the table's `indexes`.
    pub(super) index: usize,
    /// Clustered key of the row that has it.
    pub(super) clustered: Vec<u8>,
}

/// The transaction as rows are written into it.
pub(super) struct Writer<'a> {
    pub(super) txn: &'a mut Txn,
    pub(super) mode: Mode,
    pub(super) limits: Limits,
}

impl Writer<'_> {
    /// Locks a key exclusively; waits in thread mode.
    pub(super) fn lock(&self, tree: TreeId, key: &[u8]) -> Result<(), ExecError> {
        loop {
            match self
                .txn
                .lock(tree, key, LockMode::Exclusive, WaitPolicy::Wait)?
            {
                LockOutcome::Granted { .. } | LockOutcome::Skipped => return Ok(()),
                LockOutcome::Wait(ticket) if self.mode == Mode::Inline => {
                    return Err(ExecError::Wait(ticket));
                }
                LockOutcome::Wait(ticket) => ticket.block(self.limits.lock_wait)?,
            }
        }
    }

    /// Reads the latest version of a row into `out`; false if it is gone. The row is locked.
    pub(super) fn read_locked(
        &self,
        table: &TableDef,
        clustered: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, ExecError> {
        let found = self
            .txn
            .get_with(&table.primary().tree, clustered, View::Latest, |row| {
                out.clear();
                out.extend_from_slice(row);
            })?;
        Ok(found.is_some())
    }

    /// The latest clustered key under a unique entry's key, which is locked.
    fn holder(
        &self,
        table: &TableDef,
        index: usize,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, ExecError> {
        Ok(self.txn.get_with(
            &table.indexes[index].tree,
            key,
            View::Latest,
            <[u8]>::to_vec,
        )?)
    }

    /// Inserts `row` under `clustered`. With `fresh` the clustered key is known to be new to the
    /// whole world (a hidden row id) and needs neither lock nor check.
    pub(super) fn insert(
        &mut self,
        table: &TableDef,
        clustered: &[u8],
        row: &[u8],
        fresh: bool,
        scratch: &mut Entries<'_>,
    ) -> Result<Written, ExecError> {
        let primary = table.primary();
        if !fresh {
            self.lock(primary.id, clustered)?;
            let taken = self
                .txn
                .get_with(&primary.tree, clustered, View::Latest, |_| ())?;
            if taken.is_some() {
                let clustered = clustered.to_vec();
                return Ok(Written::Conflict(Conflict {
                    index: 0,
                    clustered,
                }));
            }
        }
        if table.indexes.len() > 1 {
            scratch.compute_new(table, clustered, row)?;
            if let Some(conflict) = self.find_conflict(table, None, scratch.new)? {
                return Ok(Written::Conflict(conflict));
            }
            self.put_entries(table, clustered, scratch.new)?;
        }
        self.txn.put(&primary.tree, clustered, row)?;
        Ok(Written::Done)
    }

    /// Locks and looks up every unique entry that would be written. A key that the row `own` itself
    /// holds is free.
    fn find_conflict(
        &self,
        table: &TableDef,
        own: Option<&[u8]>,
        entries: &[Entry],
    ) -> Result<Option<Conflict>, ExecError> {
        for (at, entry) in entries.iter().enumerate() {
            if !(entry.changed && entry.in_value) {
                continue;
            }
            let index = at + 1;
            self.lock(table.indexes[index].id, &entry.key)?;
            let holder = self.holder(table, index, &entry.key)?;
            if let Some(clustered) = holder.filter(|h| Some(h.as_slice()) != own) {
                return Ok(Some(Conflict { index, clustered }));
            }
        }
        Ok(None)
    }

    fn put_entries(
        &mut self,
        table: &TableDef,
        clustered: &[u8],
        entries: &[Entry],
    ) -> Result<(), ExecError> {
        for (index, entry) in table.secondary().iter().zip(entries) {
            if entry.changed {
                let value = if entry.in_value { clustered } else { &[] };
                self.txn.put(&index.tree, &entry.key, value)?;
            }
        }
        Ok(())
    }

    /// Deletes entries; those of unique indexes under their locks.
    fn delete_entries(&mut self, table: &TableDef, entries: &[Entry]) -> Result<(), ExecError> {
        for (index, entry) in table.secondary().iter().zip(entries) {
            if entry.changed {
                self.txn.delete(&index.tree, &entry.key)?;
            }
        }
        Ok(())
    }

    fn lock_unique(&self, table: &TableDef, entries: &[Entry]) -> Result<(), ExecError> {
        for (index, entry) in table.secondary().iter().zip(entries) {
            if entry.changed && entry.in_value {
                self.lock(index.id, &entry.key)?;
            }
        }
        Ok(())
    }

    /// Deletes a row whose clustered key is locked; `row` is its latest version.
    pub(super) fn delete(
        &mut self,
        table: &TableDef,
        clustered: &[u8],
        row: &[u8],
        scratch: &mut Entries<'_>,
    ) -> Result<(), ExecError> {
        if table.indexes.len() > 1 {
            scratch.compute_old(table, clustered, row)?;
            self.lock_unique(table, scratch.old)?;
            self.delete_entries(table, scratch.old)?;
        }
        Ok(self.txn.delete(&table.primary().tree, clustered)?)
    }

    /// Replaces the row `old` under `clustered`, which is locked, by `new` under `new_clustered`.
    pub(super) fn update(
        &mut self,
        table: &TableDef,
        change: RowChange<'_>,
        scratch: &mut Entries<'_>,
    ) -> Result<Written, ExecError> {
        let primary = table.primary();
        let moved = change.clustered != change.new_clustered;
        if moved {
            self.lock(primary.id, change.new_clustered)?;
            let taken =
                self.txn
                    .get_with(&primary.tree, change.new_clustered, View::Latest, |_| ())?;
            if taken.is_some() {
                let clustered = change.new_clustered.to_vec();
                return Ok(Written::Conflict(Conflict {
                    index: 0,
                    clustered,
                }));
            }
        }
        if change.entries_change {
            scratch.compute_old(table, change.clustered, change.old)?;
            scratch.compute_new(table, change.new_clustered, change.new)?;
            for (old, new) in scratch.old.iter_mut().zip(scratch.new.iter_mut()) {
                let same = old.key == new.key && !(moved && new.in_value);
                (old.changed, new.changed) = (!same, !same);
            }
            if let Some(conflict) =
                self.find_conflict(table, Some(change.clustered), scratch.new)?
            {
                return Ok(Written::Conflict(conflict));
            }
            self.lock_unique(table, scratch.old)?;
            self.delete_entries(table, scratch.old)?;
            self.put_entries(table, change.new_clustered, scratch.new)?;
        }
        if moved {
            self.txn.delete(&primary.tree, change.clustered)?;
        }
        self.txn
            .put(&primary.tree, change.new_clustered, change.new)?;
        Ok(Written::Done)
    }
}

/// A row to be replaced.
pub(super) struct RowChange<'a> {
    pub(super) clustered: &'a [u8],
    pub(super) old: &'a [u8],
    pub(super) new_clustered: &'a [u8],
    pub(super) new: &'a [u8],
    /// A column of some secondary index, or of the primary key, may differ.
    pub(super) entries_change: bool,
}

/// The entry buffers of a [`Scratch`].
pub(super) struct Entries<'a> {
    new: &'a mut Vec<Entry>,
    old: &'a mut Vec<Entry>,
}

/// The buffers of a [`Scratch`], to be used side by side.
pub(super) struct Buffers<'a> {
    pub(super) row: &'a mut Vec<u8>,
    pub(super) old_row: &'a mut Vec<u8>,
    pub(super) key: &'a mut Vec<u8>,
    pub(super) entries: Entries<'a>,
}

impl Scratch {
    /// All buffers at once.
    pub(super) fn buffers(&mut self) -> Buffers<'_> {
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

impl Entries<'_> {
    fn compute_new(&mut self, table: &TableDef, clustered: &[u8], row: &[u8]) -> SqlResult<()> {
        compute(self.new, table, clustered, row)
    }

    fn compute_old(&mut self, table: &TableDef, clustered: &[u8], row: &[u8]) -> SqlResult<()> {
        compute(self.old, table, clustered, row)
    }
}

fn compute(
    entries: &mut Vec<Entry>,
    table: &TableDef,
    clustered: &[u8],
    row: &[u8],
) -> SqlResult<()> {
    let row = RowReader::new(&table.layout, &UTC, row)?;
    let secondary = table.secondary();
    entries.resize_with(secondary.len(), Entry::default);
    for (index, entry) in secondary.iter().zip(entries) {
        entry.in_value = index.codec.entry(&row, clustered, &mut entry.key)?;
        entry.changed = true;
    }
    Ok(())
}
