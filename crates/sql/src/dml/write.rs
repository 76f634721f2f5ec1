//! One row with all its index entries, written under locks.
//!
//! Neighbours: `entries` computes the entries; `insert`, `update`, `delete` decide what to write; the codec builds the
//! keys; `key_run` knows runs of successive keys, which are locked as one range; `logged` tells the binary log.
//!
//! **Invariants**
//! - A row is written after every row lock is held and every unique key was found free; a conflict is
//!   reported with nothing written.
//! - A row counts only when none of its new keys lies in a gap that another transaction has locked. Otherwise its
//!   writes are undone and the locks it brought are given back before the gap is waited for, so that whoever holds
//!   the gap does not wait for us.
//! - Whoever changes a row that others have changed since its snapshot writes all of the row's entries: its later reads
//!   by any index see its own change, and the snapshot need not have the entries.
//! - An entry of a unique index changes only under the lock of its key, so the latest version read
//!   under that lock decides.

mod entries;
mod key_run;

use esker_engine::scan::KeySpan;
use esker_engine::{
    Engine, LockMode, LockOutcome, SavepointId, Ticket, TreeId, Txn, View, WaitPolicy,
};
use esker_sql_catalog::catalog::{RowEvent, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::Mode;
use esker_sql_exec::Limits;

pub use entries::Scratch;
pub(super) use entries::{Entries, Entry, EntryBuffers, WordEntry};
use entries::{RowEntries, drop_common};
pub(super) use key_run::KeyRun;

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
    /// How a unique key that is taken stays locked: shared where that is an error, exclusive where the row in the way
    /// is to be changed.
    pub(super) on_duplicate: LockMode,
}

/// What became of an attempt to write a row.
enum Attempt {
    Written(Written),
    /// Nothing is written and no lock is kept: this key lies in a gap of another transaction.
    InGap(TreeId, Vec<u8>),
}

impl Writer<'_> {
    /// Locks a key exclusively; waits in thread mode.
    pub(super) fn lock(&self, tree: TreeId, key: &[u8]) -> Result<(), ExecError> {
        self.lock_as(tree, key, LockMode::Exclusive).map(drop)
    }

    /// Locks a key that is to be changed exclusively, with the run that it continues, if it does.
    pub(super) fn lock_in(
        &self,
        tree: TreeId,
        key: &[u8],
        run: Option<&KeySpan>,
    ) -> Result<(), ExecError> {
        let granted = self.granted(|| self.request(tree, (key, run), WaitPolicy::Wait));
        granted.map(drop)
    }

    /// Locks a key; true if the transaction did not have it before.
    pub(super) fn lock_as(
        &self,
        tree: TreeId,
        key: &[u8],
        mode: LockMode,
    ) -> Result<bool, ExecError> {
        self.granted(|| self.txn.lock(tree, key, mode, WaitPolicy::Wait))
    }

    /// Asks for a lock until it is granted; true if the transaction did not have it before.
    fn granted(
        &self,
        request: impl Fn() -> esker_engine::Result<LockOutcome>,
    ) -> Result<bool, ExecError> {
        loop {
            match request()? {
                LockOutcome::Granted { new } => return Ok(new),
                LockOutcome::Skipped => return Ok(false),
                LockOutcome::Wait(ticket) => self.wait(ticket)?,
            }
        }
    }

    fn wait(&self, ticket: Ticket) -> Result<(), ExecError> {
        match self.mode {
            Mode::Inline => Err(ExecError::Wait(ticket)),
            Mode::Thread => Ok(self.txn.await_lock(ticket, self.limits.lock_wait)?),
        }
    }

    /// Asks for an exclusive lock of a key: one for the whole run of keys that it continues, or one of its own.
    fn request(
        &self,
        tree: TreeId,
        (key, run): (&[u8], Option<&KeySpan>),
        wait: WaitPolicy,
    ) -> esker_engine::Result<LockOutcome> {
        let mode = LockMode::Exclusive;
        match run {
            Some(run) => self.txn.cover(tree, run.clone(), key, mode, wait),
            None => self.txn.lock(tree, key, mode, wait),
        }
    }

    /// Locks a unique key that is to be written and asks `holder` who has it: exclusively if nobody does. As in InnoDB,
    /// who waits for another's insert of the key waits for a shared lock if the key is then an error.
    fn claim<T>(
        &self,
        tree: TreeId,
        (key, run): (&[u8], Option<&KeySpan>),
        holder: impl Fn() -> Result<Option<T>, ExecError>,
    ) -> Result<Claim<T>, ExecError> {
        let outcome = self.request(tree, (key, run), WaitPolicy::Skip)?;
        let mut new = false;
        if let LockOutcome::Granted { new: is_new } = outcome {
            new = is_new;
        } else {
            new |= self.lock_as(tree, key, self.on_duplicate)?;
            if let Some(holder) = holder()? {
                return Ok(Claim::Taken(holder));
            }
            new |= self.lock_as(tree, key, LockMode::Exclusive)?;
        }
        match holder()? {
            None => Ok(Claim::Free { new }),
            Some(holder) => {
                if new && self.on_duplicate == LockMode::Shared {
                    self.txn.downgrade(tree, key);
                }
                Ok(Claim::Taken(holder))
            }
        }
    }

    /// Tries to write a row until none of its keys lies in a gap of another transaction.
    fn until_free(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<Attempt, ExecError>,
    ) -> Result<Written, ExecError> {
        loop {
            match attempt(self)? {
                Attempt::Written(written) => return Ok(written),
                Attempt::InGap(tree, key) => {
                    if let Some(ticket) = self.txn.wait_for_gap(tree, &key)? {
                        self.wait(ticket)?;
                    }
                }
            }
        }
    }

    /// Looks for the new keys of a row, which are written since `place`, in gaps of others. In one, the row is undone.
    fn give_way(
        &mut self,
        table: &TableDef,
        (clustered, entries, words): (Option<&[u8]>, &[Entry], &[WordEntry]),
        place: SavepointId,
        is_key_new: bool,
    ) -> Option<Attempt> {
        let primary = table.primary().id;
        let secondary = table.secondary().iter().zip(entries);
        let secondary = secondary.filter(|(_, entry)| entry.changed);
        let keys = clustered.map(|key| (primary, key)).into_iter();
        let keys = keys.chain(secondary.map(|(index, e)| (index.id, &*e.key)));
        let (tree, key) = self.txn.gap_before(keys)?;
        let key = key.to_vec();
        self.txn.rollback_to(place);
        self.release(table, clustered.filter(|_| is_key_new), (entries, words));
        Some(Attempt::InGap(tree, key))
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

    /// Is this the latest version of a row whose key is locked?
    fn holds(&self, table: &TableDef, clustered: &[u8], row: &[u8]) -> Result<bool, ExecError> {
        let mut latest = Vec::new();
        Ok(self.read_locked(table, clustered, &mut latest)? && latest == row)
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

    /// Inserts `row` under a clustered key.
    pub(super) fn insert(
        &mut self,
        table: &TableDef,
        new: &NewKey<'_>,
        row: &[u8],
        scratch: &mut Entries<'_>,
    ) -> Result<Written, ExecError> {
        let clustered = new.key;
        let (entries, words): (&mut [Entry], &mut [WordEntry]) = match table.indexes.len() {
            1 => (&mut [], &mut []),
            _ => {
                scratch.new.compute(table, clustered, row)?;
                (&mut scratch.new.secondary, &mut scratch.new.words)
            }
        };
        let key_locked = &mut scratch.new.key_locked;
        let written = self.until_free(|writer| {
            let keys = (&mut *entries, &mut *words);
            writer.try_insert(table, new, row, keys, key_locked)
        });
        counted(table, RowEvent::Insert, written)
    }

    /// Takes a row back that was inserted last, since `place`: as if it had never come, so its keys are free again.
    pub(super) fn take_back(
        &mut self,
        table: &TableDef,
        clustered: &[u8],
        place: SavepointId,
        scratch: &Entries<'_>,
    ) {
        self.txn.rollback_to(place);
        let written = &*scratch.new;
        let keys = (&*written.secondary, &*written.words);
        self.release(table, written.key_locked.then_some(clustered), keys);
    }

    /// Gives back the locks that an insert has brought.
    fn release(
        &self,
        table: &TableDef,
        clustered: Option<&[u8]>,
        (entries, words): (&[Entry], &[WordEntry]),
    ) {
        let entries = table.secondary().iter().zip(entries);
        for (index, entry) in entries.filter(|(_, entry)| entry.changed && entry.locked) {
            self.txn.release(index.id, &entry.key);
        }
        let words = words.iter().filter(|word| word.locked);
        for (word, index) in words.filter_map(|w| Some((w, table.inverted().get(w.nth)?))) {
            self.txn.release(index.id, &word.key);
        }
        if let Some(clustered) = clustered {
            self.txn.release(table.primary().id, clustered);
        }
    }

    fn try_insert(
        &mut self,
        table: &TableDef,
        new: &NewKey<'_>,
        row: &[u8],
        (entries, words): (&mut [Entry], &mut [WordEntry]),
        key_locked: &mut bool,
    ) -> Result<Attempt, ExecError> {
        let clustered = new.key;
        let (tree, key) = (table.primary().id, (clustered, new.run.as_ref()));
        let is_key_new = match new.fresh {
            true => self.granted(|| self.request(tree, key, WaitPolicy::Wait))?,
            false => match self.claim_clustered(table, key)? {
                Claim::Free { new } => new,
                Claim::Taken(()) => return Ok(taken(0, clustered.to_vec())),
            },
        };
        *key_locked = is_key_new && new.run.is_none();
        let keys = (&mut *entries, &mut *words);
        if let Some(conflict) = self.find_conflict(table, None, keys)? {
            return Ok(Attempt::Written(Written::Conflict(conflict)));
        }
        let place = self.txn.savepoint();
        self.put_entries(table, clustered, entries)?;
        self.put_words(table, words)?;
        self.txn.put(&table.primary().tree, clustered, row)?;
        let keys = (Some(clustered), &*entries, &*words);
        let in_gap = self.give_way(table, keys, place, is_key_new);
        Ok(in_gap.unwrap_or(Attempt::Written(Written::Done)))
    }

    fn claim_clustered(
        &self,
        table: &TableDef,
        key: (&[u8], Option<&KeySpan>),
    ) -> Result<Claim<()>, ExecError> {
        let primary = table.primary();
        self.claim(primary.id, key, || {
            Ok(self
                .txn
                .get_with(&primary.tree, key.0, View::Latest, |_| ())?)
        })
    }

    /// Locks and looks up every unique entry that would be written. A key that the row `own` itself
    /// holds is free.
    fn find_conflict(
        &self,
        table: &TableDef,
        own: Option<&[u8]>,
        (entries, words): (&mut [Entry], &mut [WordEntry]),
    ) -> Result<Option<Conflict>, ExecError> {
        for (at, entry) in entries.iter_mut().enumerate() {
            entry.locked = false;
            if !(entry.changed && entry.in_value) {
                continue;
            }
            match self.claim_entry(table, at + 1, &entry.key, own)? {
                Claim::Free { new } => entry.locked = new,
                Claim::Taken(conflict) => return Ok(Some(conflict)),
            }
        }
        let first = entries.len() + 1;
        for word in words.iter_mut() {
            word.locked = false;
            if !word.claims {
                continue;
            }
            match self.claim_entry(table, first + word.nth, &word.key, own)? {
                Claim::Free { new } => word.locked = new,
                Claim::Taken(conflict) => return Ok(Some(conflict)),
            }
        }
        Ok(None)
    }

    fn claim_entry(
        &self,
        table: &TableDef,
        index: usize,
        key: &[u8],
        own: Option<&[u8]>,
    ) -> Result<Claim<Conflict>, ExecError> {
        self.claim(table.indexes[index].id, (key, None), || {
            let holder = self.holder(table, index, key)?;
            let other = holder.filter(|holder| Some(holder.as_slice()) != own);
            Ok(other.map(|clustered| Conflict { index, clustered }))
        })
    }

    fn put_entries(
        &mut self,
        table: &TableDef,
        clustered: &[u8],
        entries: &[Entry],
    ) -> Result<(), ExecError> {
        for (index, entry) in table.secondary().iter().zip(entries) {
            if entry.changed || entry.again {
                let value = if entry.in_value { clustered } else { &[] };
                self.txn.put(&index.tree, &entry.key, value)?;
            }
        }
        Ok(())
    }

    fn put_words(&mut self, table: &TableDef, words: &[WordEntry]) -> Result<(), ExecError> {
        for word in words {
            let tree = &table.inverted()[word.nth].tree;
            self.txn.put(tree, &word.key, &word.value)?;
        }
        Ok(())
    }

    fn delete_words(&mut self, table: &TableDef, words: &[WordEntry]) -> Result<(), ExecError> {
        for word in words {
            self.txn
                .delete(&table.inverted()[word.nth].tree, &word.key)?;
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

    fn lock_unique(&self, table: &TableDef, entries: &RowEntries) -> Result<(), ExecError> {
        for (index, entry) in table.secondary().iter().zip(&entries.secondary) {
            if entry.changed && entry.in_value {
                self.lock(index.id, &entry.key)?;
            }
        }
        for (tree, key) in entries.words.iter().filter_map(|word| word.claimed(table)) {
            self.lock(tree, key)?;
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
        debug_assert!(self.holds(table, clustered, row)?, "an old version");
        if table.indexes.len() > 1 {
            scratch.old.compute(table, clustered, row)?;
            self.lock_unique(table, scratch.old)?;
            self.delete_entries(table, &scratch.old.secondary)?;
            self.delete_words(table, &scratch.old.words)?;
        }
        self.txn.delete(&table.primary().tree, clustered)?;
        table.runtime.accesses.note(RowEvent::Delete, 1);
        Ok(())
    }

    /// Replaces the row `old` under `clustered`, which is locked, by `new` under `new_clustered`.
    pub(super) fn update(
        &mut self,
        table: &TableDef,
        change: RowChange<'_>,
        scratch: &mut Entries<'_>,
    ) -> Result<Written, ExecError> {
        debug_assert!(
            self.holds(table, change.clustered, change.old)?,
            "an old version"
        );
        let moved = change.clustered != change.new_clustered;
        let primary = &table.primary().tree;
        let has_entries = table.indexes.len() > 1;
        let is_newer = has_entries && self.txn.is_newer_than_snapshot(primary, change.clustered)?;
        if !change.entries_change && !change.may_enter && !is_newer {
            debug_assert!(!moved, "the clustered key is an entry, too");
            self.txn.put(primary, change.clustered, change.new)?;
            return counted(table, RowEvent::Update, Ok(Written::Done));
        }
        let (old, new) = (&mut *scratch.old, &mut *scratch.new);
        old.compute(table, change.clustered, change.old)?;
        new.compute(table, change.new_clustered, change.new)?;
        for (old, new) in old.secondary.iter_mut().zip(&mut new.secondary) {
            let same = old.key == new.key && !(moved && new.in_value);
            (old.changed, new.changed) = (!same, !same);
            new.again = same && is_newer;
        }
        if !is_newer {
            drop_common(&mut old.words, &mut new.words);
        }
        let written = self.until_free(|writer| writer.try_update(table, &change, scratch));
        counted(table, RowEvent::Update, written)
    }

    fn try_update(
        &mut self,
        table: &TableDef,
        change: &RowChange<'_>,
        scratch: &mut Entries<'_>,
    ) -> Result<Attempt, ExecError> {
        let primary = table.primary();
        let moved = change.clustered != change.new_clustered;
        let mut is_key_new = false;
        if moved {
            match self.claim_clustered(table, (change.new_clustered, None))? {
                Claim::Free { new } => is_key_new = new,
                Claim::Taken(()) => return Ok(taken(0, change.new_clustered.to_vec())),
            }
        }
        let (old, new) = (&*scratch.old, &mut *scratch.new);
        let own = Some(change.clustered);
        let entries = (&mut *new.secondary, &mut *new.words);
        if let Some(conflict) = self.find_conflict(table, own, entries)? {
            return Ok(Attempt::Written(Written::Conflict(conflict)));
        }
        self.lock_unique(table, old)?;
        let place = self.txn.savepoint();
        self.delete_entries(table, &old.secondary)?;
        self.delete_words(table, &old.words)?;
        self.put_entries(table, change.new_clustered, &new.secondary)?;
        self.put_words(table, &new.words)?;
        if moved {
            self.txn.delete(&primary.tree, change.clustered)?;
        }
        self.txn
            .put(&primary.tree, change.new_clustered, change.new)?;
        let new_key = (moved || change.may_enter).then_some(change.new_clustered);
        let keys = (new_key, &*new.secondary, &*new.words);
        let in_gap = self.give_way(table, keys, place, is_key_new);
        Ok(in_gap.unwrap_or(Attempt::Written(Written::Done)))
    }
}

/// The answer to the claim of a unique key.
enum Claim<T> {
    /// It is locked exclusively, if `new` since now, and nobody has it.
    Free { new: bool },
    /// This row has it.
    Taken(T),
}

/// Counts a row that was written.
fn counted(
    table: &TableDef,
    event: RowEvent,
    written: Result<Written, ExecError>,
) -> Result<Written, ExecError> {
    if let Ok(Written::Done) = written {
        table.runtime.accesses.note(event, 1);
    }
    written
}

fn taken(index: usize, clustered: Vec<u8>) -> Attempt {
    Attempt::Written(Written::Conflict(Conflict { index, clustered }))
}

/// The clustered key of a row that is to be inserted.
pub(super) struct NewKey<'a> {
    pub(super) key: &'a [u8],
    /// It is known to be new to the whole world (a hidden row id), so that it is locked for others to wait for, but not
    /// looked up.
    pub(super) fresh: bool,
    /// It continues a run of keys, which one lock is for: the keys behind the one before, up to this one.
    pub(super) run: Option<KeySpan>,
}

/// A row to be replaced.
pub(super) struct RowChange<'a> {
    pub(super) clustered: &'a [u8],
    pub(super) old: &'a [u8],
    pub(super) new_clustered: &'a [u8],
    pub(super) new: &'a [u8],
    /// A column of some secondary index, or of the primary key, may differ.
    pub(super) entries_change: bool,
    /// A column that decides the row's partition may differ: the row may come to where a scan has left it out, without
    /// a new key, so it looks for gaps as a new one.
    pub(super) may_enter: bool,
}

/// Makes the clustered key of a new row; true: it is a number that no row has had.
pub(super) fn new_key(
    engine: &Engine,
    table: &TableDef,
    row: &[u8],
    key: &mut Vec<u8>,
) -> Result<bool, ExecError> {
    key.clear();
    let primary = table.primary();
    if primary.hidden {
        let id = table.runtime.next_row_id(engine, &primary.tree)?;
        key.extend_from_slice(&id.to_be_bytes());
    } else {
        let stored = RowReader::new(&table.layout, &UTC, row)?;
        primary.codec.encode_row_parts(&stored, key)?;
    }
    Ok(primary.hidden)
}
