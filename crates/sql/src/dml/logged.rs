//! What the binary log is told of rows that have been written.
//!
//! Neighbours: `write` has left row, keys and entries in the scratch; `insert`, `change` and `apply` come here when the
//! row keeps its foreign keys; `capture` makes events.
//! **Invariants**
//! - Only the end of its statement can take back a row that is told of here: where IGNORE lets a row go that has no
//!   parent, it has not been told of.
//! - What foreign keys do to other rows is not told of, as in MySQL 8.4: whoever applies the events does it, too.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};

use esker_engine::SavepointId;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecError;

use super::DmlEnv;
use super::write::{Entry, WordEntry};
use crate::capture::Capture;

/// A row that REPLACE has deleted, where nothing else can be in the way of the new one: the events say that it was
/// updated.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) row: Vec<u8>,
    /// Where its deletion begins.
    pub(super) place: SavepointId,
}

/// Who takes down for the binary log what a statement changes.
pub enum Log<'a> {
    /// Nobody.
    Off,
    /// The change alone.
    Own(&'a mut Capture),
    /// The change and the functions that it calls, in turns.
    Lent(&'a RefCell<Capture>),
}

/// A [`Log`] that is on, for one use of it.
pub(crate) enum LogRef<'l> {
    Own(&'l mut Capture),
    Lent(RefMut<'l, Capture>),
}

impl Log<'_> {
    /// What takes down, if anything does.
    pub(crate) fn get(&mut self) -> Option<LogRef<'_>> {
        match self {
            Self::Off => None,
            Self::Own(capture) => Some(LogRef::Own(capture)),
            Self::Lent(capture) => Some(LogRef::Lent(capture.borrow_mut())),
        }
    }
}

impl Deref for LogRef<'_> {
    type Target = Capture;

    fn deref(&self) -> &Capture {
        match self {
            Self::Own(capture) => capture,
            Self::Lent(capture) => capture,
        }
    }
}

impl DerefMut for LogRef<'_> {
    fn deref_mut(&mut self) -> &mut Capture {
        match self {
            Self::Own(capture) => capture,
            Self::Lent(capture) => capture,
        }
    }
}

/// What an update has done to the keys of its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeysOf<'a> {
    /// The clustered key before.
    pub(super) clustered: &'a [u8],
    /// The clustered key is now that of the scratch.
    pub(super) moved: bool,
    /// Entries of both versions are in the scratch.
    pub(super) entries: bool,
}

impl DmlEnv<'_> {
    /// The row in the scratch was inserted, in place of `replaced`. Columns of which `is_left` is true have their
    /// constant default, which nobody has asked for.
    pub(super) fn log_insert(
        &mut self,
        table: &TableDef,
        replaced: Option<&Replaced>,
        is_left: &dyn Fn(usize) -> bool,
    ) -> Result<(), ExecError> {
        let Some(mut capture) = log_of(&mut self.log, table) else {
            return Ok(());
        };
        let scratch = &*self.scratch;
        note_keys(&mut capture, table, &scratch.key, scratch.new_entries());
        match replaced {
            None => capture.insert(self.txn, table, &scratch.row, is_left),
            Some(old) => capture.update(self.txn, table, &old.row, &scratch.row),
        }
    }

    /// The row in the scratch's `old_row` became that in `row`.
    pub(super) fn log_update(
        &mut self,
        table: &TableDef,
        keys: KeysOf<'_>,
    ) -> Result<(), ExecError> {
        let Some(mut capture) = log_of(&mut self.log, table) else {
            return Ok(());
        };
        let scratch = &*self.scratch;
        let (old, new) = match keys.entries {
            true => (scratch.old_entries(), scratch.new_entries()),
            false => Default::default(),
        };
        note_keys(&mut capture, table, keys.clustered, old);
        let clustered = if keys.moved {
            &scratch.key
        } else {
            keys.clustered
        };
        note_keys(&mut capture, table, clustered, new);
        capture.update(self.txn, table, &scratch.old_row, &scratch.row)
    }

    /// The row in the scratch's `old_row` was deleted.
    pub(super) fn log_delete(
        &mut self,
        table: &TableDef,
        clustered: &[u8],
    ) -> Result<(), ExecError> {
        self.log_keys_given_up(table, clustered);
        let Some(mut capture) = log_of(&mut self.log, table) else {
            return Ok(());
        };
        capture.delete(self.txn, table, &self.scratch.old_row)
    }

    /// A row was deleted that is no longer in the scratch; its keys have been given up.
    pub(super) fn log_delete_of(&mut self, table: &TableDef, row: &[u8]) -> Result<(), ExecError> {
        match log_of(&mut self.log, table) {
            Some(mut capture) => capture.delete(self.txn, table, row),
            None => Ok(()),
        }
    }

    /// The same, where the event of the row that takes its place tells of it.
    pub(super) fn log_keys_given_up(&mut self, table: &TableDef, clustered: &[u8]) {
        if let Some(mut capture) = log_of(&mut self.log, table) {
            note_keys(&mut capture, table, clustered, self.scratch.old_entries());
        }
    }
}

/// The log's capture, if others than its session know the table.
fn log_of<'l>(log: &'l mut Log<'_>, table: &TableDef) -> Option<LogRef<'l>> {
    log.get().filter(|_| !table.temporary)
}

/// Tells the binary log which keys a row has given up or taken.
fn note_keys(
    capture: &mut Capture,
    table: &TableDef,
    clustered: &[u8],
    (entries, words): (&[Entry], &[WordEntry]),
) {
    capture.key(table.primary().id, clustered);
    for (index, entry) in table.secondary().iter().zip(entries) {
        if entry.is_changed_key() {
            capture.key(index.id, entry.key());
        }
    }
    for (tree, key) in words.iter().filter_map(|word| word.claimed(table)) {
        capture.key(tree, key);
    }
}
