//! A unique key is taken: IGNORE, REPLACE, ON DUPLICATE KEY UPDATE, or error 1062.
//!
//! Neighbours: `run` tries the row again when [`Run::resolve`] says so; `change` updates the row in
//! the way.
//! **Invariant**: the lock of the taken key is held, so the row in the way cannot leave it meanwhile;
//! that row itself is locked here before it is read.

use esker_engine::LockMode;
use esker_sql_catalog::codec::RowReader;
use esker_sql_catalog::exec_error::ExecError;
use esker_types::trigger::TriggerEvent;
use esker_types::{Level, Value};

use super::run::{Run, decode_row};
use super::{CompiledInsert, OnConflict};
use crate::dml::change::{Changed, RowChanger};
use crate::dml::duplicate::duplicate_entry;
use crate::dml::foreign::{Enforcer, RowAt, is_ignorable};
use crate::dml::logged::Replaced;
use crate::dml::through_view::is_failed_check;
use crate::dml::write::{Conflict, Writer};
use esker_types::SqlError;

impl CompiledInsert {
    /// Is this the last unique index, so that nothing else can be in the way of the row? Several rows can have keys
    /// that it has in a multi-valued index.
    fn is_last_unique(&self, index: usize) -> bool {
        let indexes = &self.table().indexes[index..];
        !indexes[0].is_multi_valued() && !indexes[1..].iter().any(|i| i.unique)
    }
}

impl<'r> Run<'r, '_> {
    /// Deals with the row in the way; true if the new row is to be tried again.
    pub(super) fn resolve(
        &mut self,
        conflict: Conflict,
        row_number: u64,
    ) -> Result<bool, ExecError> {
        match self.insert.on_conflict {
            OnConflict::Fail => Err(self.duplicate(conflict.index)?.into()),
            OnConflict::Skip => {
                let e = self.duplicate(conflict.index)?;
                self.env.ctx.warn(Level::Warning, e.code, e.message);
                Ok(false)
            }
            OnConflict::Replace => self.replace(&conflict),
            OnConflict::Update => self.update(&conflict, row_number),
        }
    }

    /// 1062 for the row being made, which lies encoded in the scratch.
    pub(super) fn duplicate(&self, index: usize) -> Result<SqlError, ExecError> {
        let table = self.insert.table();
        let row = RowReader::new(
            &table.layout,
            &self.env.ctx.time_zone,
            &self.env.scratch.row,
        )?;
        Ok(duplicate_entry(table, &table.indexes[index], &row))
    }

    /// Locks and reads the row in the way; false if it is not there.
    fn read_other(&mut self, conflict: &Conflict) -> Result<bool, ExecError> {
        let table = self.insert.table();
        let env = &mut *self.env;
        let writer = Writer {
            txn: env.txn,
            mode: env.mode,
            limits: env.limits,
            on_duplicate: LockMode::Exclusive,
        };
        writer.lock(table.primary().id, &conflict.clustered)?;
        writer.read_locked(table, &conflict.clustered, &mut env.scratch.old_row)
    }

    fn replace(&mut self, conflict: &Conflict) -> Result<bool, ExecError> {
        self.begin_replace(conflict)?;
        let env = &mut *self.env;
        // The view that rows come through may call functions.
        if env.calls_functions() && !env.reread(self.insert.table(), &conflict.clustered)? {
            return Ok(true);
        }
        self.delete_other(conflict)
    }

    /// Finds the row that is to be replaced.
    pub(super) fn begin_replace(&mut self, conflict: &Conflict) -> Result<(), ExecError> {
        self.log_replaced()?;
        if !self.read_other(conflict)? {
            return Err(lost_row().into());
        }
        let insert = self.insert;
        let table = insert.table();
        // A number that is given twice is no reason to replace a row.
        let leads = |index: usize| table.indexes[index].parts.first().map(|p| p.col);
        if self.auto.is_generated() && leads(conflict.index) == table.auto_column {
            return Err(self.duplicate(conflict.index)?.into());
        }
        self.admit_delete()
    }

    /// Deletes the row that is to be replaced, which lies in the scratch's `old_row`. False: the new row is the same,
    /// and there already.
    pub(super) fn delete_other(&mut self, conflict: &Conflict) -> Result<bool, ExecError> {
        let insert = self.insert;
        let table = insert.table();
        let env = &mut *self.env;
        let identical = env.scratch.old_row == env.scratch.row;
        let is_parent = !table.referenced_by.is_empty();
        let is_seen = table.has_triggers_for(TriggerEvent::Delete);
        let is_update = insert.is_last_unique(conflict.index) && !is_parent && !is_seen;
        if identical && is_update {
            self.counts.inserted += 1;
            return Ok(false);
        }
        let place = env.txn.savepoint();
        let taken = self.take_other(&conflict.clustered, is_update);
        match taken {
            Err(e) => {
                self.env.txn.rollback_to(place);
                return Err(e);
            }
            Ok(()) if is_update => {
                let row = self.env.scratch.old_row.clone();
                self.replaced = Some(Replaced { row, place });
            }
            Ok(()) => {}
        }
        self.counts.deleted += 1;
        Ok(true)
    }

    /// Another row is in the way of the new one although an earlier one was taken for the last: with an update of that
    /// key, which a function of the view has made through a foreign key. Other transactions cannot bring one, for the
    /// new row's keys are locked when the last of them is found taken. So the new row does not take the place of the
    /// earlier one, which is deleted for good: what undoes the new row undoes no deletion that the log has.
    fn log_replaced(&mut self) -> Result<(), ExecError> {
        match self.replaced.take() {
            None => Ok(()),
            Some(earlier) => self.env.log_delete_of(self.insert.table(), &earlier.row),
        }
    }

    /// Deletes it; the binary log is told that it was unless the event of the new row tells of it (`is_update`).
    fn take_other(&mut self, clustered: &[u8], is_update: bool) -> Result<(), ExecError> {
        let (insert, env) = (self.insert, &mut *self.env);
        if let Some((mut enforcer, scratch)) = Enforcer::new(&insert.foreign, env) {
            let row = RowAt {
                node: 0,
                clustered,
                stored: &scratch.old_row,
            };
            enforcer.settle_children(row, None)?;
        }
        let table = insert.table();
        if !is_update {
            return env.delete_old_row(table, clustered);
        }
        env.take_old_row(table, clustered)?;
        env.log_keys_given_up(table, clustered);
        Ok(())
    }

    /// Does the view through which rows come show the one in the way, which is to be replaced?
    fn admit_delete(&mut self) -> Result<(), ExecError> {
        let view = self.insert.view.as_ref();
        let Some(shows) = view.and_then(|view| view.shows_rows.as_ref()) else {
            return Ok(());
        };
        let table = self.insert.table();
        let mut row = vec![Value::Null; table.columns.len()];
        let zone = &self.env.ctx.time_zone;
        decode_row(table, zone, &self.env.scratch.old_row, &mut row)?;
        self.env
            .evaluating(&self.states, |env| shows.admit_delete(&row, env))
    }

    fn update(&mut self, conflict: &Conflict, row_number: u64) -> Result<bool, ExecError> {
        let (changer, mut row) = self.begin_update(conflict)?;
        let lenient = self.is_update_lenient();
        changer.assign_all(self.env, &self.states, &mut row, row_number, lenient)?;
        self.write_update(changer, conflict, &mut row)?;
        Ok(false)
    }

    /// Finds the row that is to be updated: the statement's row for the assignments.
    pub(super) fn begin_update(
        &mut self,
        conflict: &Conflict,
    ) -> Result<(&'r RowChanger, Vec<Value>), ExecError> {
        if !self.read_other(conflict)? {
            return Err(lost_row().into());
        }
        let insert = self.insert;
        let Some(changer) = &insert.changer else {
            return Err(lost_row().into());
        };
        let table = changer.table();
        let width = table.columns.len();
        // The assignments see the existing row in front and the new one behind it.
        let mut row = vec![Value::Null; width];
        decode_row(
            table,
            &self.env.ctx.time_zone,
            &self.env.scratch.old_row,
            &mut row,
        )?;
        row.append(&mut self.row);
        row.extend_from_slice(&self.source);
        Ok((changer, row))
    }

    /// NULL for a NOT NULL column is an error unless a list of several rows is stored.
    pub(super) fn is_update_lenient(&self) -> bool {
        let insert = self.insert;
        let several = matches!(&insert.rows, super::Rows::Values(rows) if rows.len() > 1);
        insert.ignore || (several && !self.env.ctx.sql_mode.is_strict())
    }

    /// Writes the row in the way, which lies in the scratch's `old_row`, with its new values; false if it is gone, or
    /// IGNORE leaves it alone.
    pub(super) fn write_update(
        &mut self,
        changer: &RowChanger,
        conflict: &Conflict,
        row: &mut [Value],
    ) -> Result<bool, ExecError> {
        let insert = self.insert;
        let table = changer.table();
        let place = self.env.txn.savepoint();
        let keys = (&insert.foreign, 0);
        let key = &*conflict.clustered;
        let changed = changer.write(self.env, &self.states, row, key, keys);
        if !matches!(changed, Ok(Changed::Yes)) {
            self.env.txn.rollback_to(place);
        }
        let changed = self.ignoring(changed)?;
        let was_changed = matches!(changed, Some(Changed::Yes));
        let is_settled = matches!(changed, Some(Changed::Yes | Changed::No));
        match changed {
            Some(Changed::Yes) => self.counts.updated += 1,
            Some(Changed::No) => self.counts.unchanged += 1,
            Some(Changed::Conflict(other)) => {
                let e = self.duplicate(other.index)?;
                if !insert.ignore {
                    return Err(e.into());
                }
                self.env.ctx.warn(Level::Warning, e.code, e.message);
            }
            Some(Changed::Gone) | None => {}
        }
        if let Some(col) = table.auto_column {
            // The existing row is in front, so a column's slot is its ordinal.
            self.note_updated(&row[col], was_changed);
        }
        Ok(is_settled)
    }

    /// Under IGNORE a violated CHECK or foreign key is a warning, and the row stays as it is.
    fn ignoring(&self, changed: Result<Changed, ExecError>) -> Result<Option<Changed>, ExecError> {
        match changed {
            Err(ExecError::Sql(e))
                if self.insert.ignore && (is_failed_check(&e) || is_ignorable(&e)) =>
            {
                self.env.ctx.warn(Level::Warning, e.code, e.message);
                Ok(None)
            }
            other => other.map(Some),
        }
    }
}

/// A unique entry without its row: the index is damaged.
fn lost_row() -> SqlError {
    esker_sql_catalog::codec::damaged("unique index entry: it points to no row")
}
