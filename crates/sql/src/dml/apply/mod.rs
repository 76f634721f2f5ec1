//! Applying row events: changes that were made elsewhere, or here at another time, written below SQL.
//!
//! In flow order: `columns` (the event's columns against ours, and values converted; `fit` says which may be), `find`
//! (the row of which an image is; `ahead`: those of many at once), `edits` (parts of documents), and here what is done
//! with it. Neighbours: BINLOG statements and replicas hand in parsed events; `write` does the writing, with its locks
//! and keys; `foreign` keeps foreign keys; `logged` tells the binary log.
//!
//! **Invariants**
//! - Triggers and AUTO_INCREMENT have had their say where the change was made: here the values are written as they
//!   come. Only a column that the event does not know of draws numbers. Generated columns are computed again, as
//!   leniently as the source may have computed them; cascades are carried out again, for events do not have them,
//!   unless their flags say so (MySQL from 9.6 on). This table's own CHECKs hold, for it may have more than the source.
//! - A row that is not found is error 1032, a key that is taken 1062; in [`ApplyMode::Idempotent`] what is in the way
//!   of a new row goes, what is gone is no error, and a change that other rows do not admit is not made.

mod ahead;
mod columns;
mod edits;
mod find;
mod fit;

use std::sync::Arc;

use esker_binlog::event::rows::{ColumnEdits, RowChange};
use esker_binlog::event::table_map::TableMap;
use esker_engine::LockMode;
use esker_sql_catalog::catalog::{AutoStep, ColumnDef, TableDef, max_auto};
use esker_sql_catalog::codec::temporal::{utc_to_zone, zone_to_utc};
use esker_sql_catalog::codec::{RowReader, UTC, encode_row};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_exec::SubqueryStates;
use esker_types::{EvalCtx, SqlError, SqlResult, TypeKind, Value, errors};

use super::duplicate::duplicate_entry;
use super::exprs::TableExprs;
use super::foreign::{Enforcer, ForeignKeyPlan, Lookup, RowAt, RowEffects, is_ignorable};
use super::insert::{as_counter, auto_value, decode_row};
use super::logged::KeysOf;
use super::write::{KeyRun, NewKey, RowChange as Replacement, Writer, Written, new_key};
use super::{DmlEnv, StrictGuard, strict_writes};
use columns::{Columns, OwnImage, default_value};
use find::Finder;
pub(crate) use fit::Conversions;

/// A key is taken.
const DUPLICATE: u16 = 1062;

/// What is done where the table is not as it was where the change was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApplyMode {
    /// It is an error.
    Strict,
    /// It is made so (`replica_exec_mode = IDEMPOTENT`).
    Idempotent,
}

/// Applies the row events of one table.
pub(crate) struct RowApplier {
    table: Arc<TableDef>,
    columns: Columns,
    exprs: TableExprs,
    foreign: ForeignKeyPlan,
    finder: Finder,
    /// Keys of the rows that the statement has changed last: long runs of them are locked as one.
    run: KeyRun,
    mode: ApplyMode,
}

/// 1032.
fn not_found(table: &TableDef) -> SqlError {
    let text = format!("Can't find record in '{}'", table.name);
    SqlError::new(1032, "HY000", text)
}

impl RowApplier {
    /// For `table`, of which the events speak as of `map`. `lookup` finds tables that foreign keys lead to.
    ///
    /// # Errors
    /// 1677: a column cannot take the event's values.
    pub(crate) fn new(
        ctx: &EvalCtx<'_>,
        table: Arc<TableDef>,
        map: &TableMap,
        (mode, conversions): (ApplyMode, Conversions),
        lookup: &Lookup<'_>,
    ) -> SqlResult<Self> {
        let targets = vec![(table.clone(), RowEffects::everything(&table))];
        Ok(Self {
            columns: Columns::new(&table, map, conversions)?,
            exprs: TableExprs::compile(ctx, &table)?,
            foreign: ForeignKeyPlan::new(lookup, targets),
            finder: Finder::default(),
            run: KeyRun::default(),
            table,
            mode,
        })
    }

    /// The same with another mode, as for new events.
    pub(crate) fn with_mode(mut self, mode: ApplyMode) -> Self {
        self.mode = mode;
        self.finder = Finder::default();
        self.run = KeyRun::default();
        self
    }

    /// The table.
    pub(crate) fn table(&self) -> &Arc<TableDef> {
        &self.table
    }

    /// The foreign keys around it, whose tables must be locked, too.
    pub(crate) fn foreign_keys(&self) -> &ForeignKeyPlan {
        &self.foreign
    }

    /// Would it be better to know which changes come with this one, for they have no key, and not the order of the
    /// table?
    ///
    /// # Errors
    /// Values that a conversion does not admit.
    pub(crate) fn wants_to_know(&self, ctx: &EvalCtx<'_>, change: &RowChange) -> SqlResult<bool> {
        let (RowChange::Update(image, ..) | RowChange::Delete(image)) = change else {
            return Ok(false);
        };
        if !self.finder.wants_to_know() {
            return Ok(false);
        }
        let image = self.columns.own(ctx, &self.table, image.clone())?;
        Ok(Finder::scans_for(&self.table, &image))
    }

    /// Finds the rows of changes that come, beginning with the next one, in one pass over the table.
    ///
    /// # Errors
    /// Damaged events; of the engine.
    pub(crate) fn look_ahead(
        &mut self,
        env: &DmlEnv<'_>,
        changes: &mut dyn Iterator<Item = SqlResult<RowChange>>,
    ) -> Result<(), ExecError> {
        let (columns, table) = (&self.columns, &*self.table);
        let mut images = changes.filter_map(|change| match change {
            Ok(RowChange::Insert(_)) => None,
            Ok(RowChange::Update(before, ..)) => Some(columns.own(env.ctx, table, before)),
            Ok(RowChange::Delete(image)) => Some(columns.own(env.ctx, table, image)),
            Err(e) => Some(Err(e)),
        });
        self.finder.look_ahead(env, (table, columns), &mut images)
    }

    /// Makes the change. After an error what was written so far is for the caller to undo.
    pub(crate) fn apply(
        &mut self,
        env: &mut DmlEnv<'_>,
        change: RowChange,
    ) -> Result<(), ExecError> {
        let ctx = env.ctx;
        let _strict = StrictGuard {
            cell: &ctx.diagnostics.strict_write,
            before: ctx.diagnostics.strict_write.replace(true),
        };
        match self.mode {
            ApplyMode::Strict => self.make(env, change),
            ApplyMode::Idempotent => self.make_if_possible(env, change),
        }
    }

    /// Makes the change, or nothing of it where another row, or one of another table, stands against it.
    fn make_if_possible(
        &mut self,
        env: &mut DmlEnv<'_>,
        change: RowChange,
    ) -> Result<(), ExecError> {
        let logs_more = !self.foreign.is_empty();
        if let (Some(mut capture), true) = (env.log.get(), logs_more) {
            capture.begin_inside();
        }
        let place = env.txn.savepoint();
        let made = self.make(env, change);
        let is_undone =
            matches!(&made, Err(ExecError::Sql(e)) if is_ignorable(e) || e.code == DUPLICATE);
        if let (Some(mut capture), true) = (env.log.get(), logs_more) {
            match is_undone {
                true => capture.undo_inside(),
                false => capture.end_inside(),
            }
        }
        if !is_undone {
            return made;
        }
        env.txn.rollback_to(place);
        Ok(())
    }

    fn make(&mut self, env: &mut DmlEnv<'_>, change: RowChange) -> Result<(), ExecError> {
        let ctx = env.ctx;
        match change {
            RowChange::Insert(image) => {
                let image = self.columns.own(ctx, &self.table, image)?;
                self.insert(env, image)
            }
            RowChange::Update(before, after, edits) => {
                let before = self.columns.own(ctx, &self.table, before)?;
                let after = self.columns.own(ctx, &self.table, after)?;
                match self.find(env, &before)? {
                    Some(clustered) => self.update(env, &clustered, (after, &edits)),
                    None => Ok(()),
                }
            }
            RowChange::Delete(image) => {
                let image = self.columns.own(ctx, &self.table, image)?;
                match self.find(env, &image)? {
                    Some(clustered) => self.delete(env, &clustered),
                    None => Ok(()),
                }
            }
        }
    }

    /// Locks the row of `image`, whose latest version is in the scratch's `old_row` then; `None`: there is none, and
    /// that is no error.
    fn find(
        &mut self,
        env: &mut DmlEnv<'_>,
        image: &OwnImage,
    ) -> Result<Option<Vec<u8>>, ExecError> {
        let place = (&*self.table, &self.columns);
        let found = self.finder.find(env, place, image, &mut self.run)?;
        match (&found, self.mode) {
            (None, ApplyMode::Strict) => Err(not_found(&self.table).into()),
            _ => Ok(found),
        }
    }

    fn insert(&mut self, env: &mut DmlEnv<'_>, image: OwnImage) -> Result<(), ExecError> {
        let mut row = Vec::with_capacity(image.len());
        for (value, column) in image.iter().zip(&self.table.columns) {
            row.push(match value {
                Some(value) => value.clone(),
                // What the event does not know of: an additional column.
                None if column.auto_increment => self.draw_number(env, column)?,
                None => default_value(env.ctx, column),
            });
        }
        self.complete(env, &mut row)?;
        self.encode(env, &row)?;
        loop {
            match self.write_new(env)? {
                Written::Done => break,
                Written::Conflict(conflict) => {
                    let (index, clustered) = (conflict.index, conflict.clustered);
                    if self.make_way(env, index, &clustered)? {
                        self.keep_unknown(env, &image, &mut row)?;
                    }
                }
            }
        }
        if let Some((mut enforcer, scratch)) = Enforcer::new(&self.foreign, env) {
            enforcer.check_parents(0, None, &scratch.row)?;
        }
        env.log_insert(&self.table, None, &|_| false)?;
        self.note_auto(env, &row);
        Ok(())
    }

    /// A row takes the place of the one in the scratch's `old_row`: what the event does not know of stays.
    fn keep_unknown(
        &self,
        env: &mut DmlEnv<'_>,
        image: &OwnImage,
        row: &mut [Value],
    ) -> Result<(), ExecError> {
        let columns = &self.table.columns;
        let is_unknown = |col: usize| image[col].is_none() && columns[col].generated.is_none();
        if !(0..columns.len()).any(is_unknown) {
            return Ok(());
        }
        let mut before = vec![Value::Null; columns.len()];
        decode_row(&self.table, &UTC, &env.scratch.old_row, &mut before)?;
        for (col, value) in before.into_iter().enumerate() {
            if is_unknown(col) {
                row[col] = value;
            }
        }
        self.complete(env, row)?;
        Ok(self.encode(env, row)?)
    }

    /// The next number for a column that the event does not know of.
    fn draw_number(&self, env: &mut DmlEnv<'_>, column: &ColumnDef) -> SqlResult<Value> {
        let (table, max) = (&self.table, max_auto(&column.ty));
        table.runtime.learn_stored(env.engine, table)?;
        let range = table.runtime.draw(1, env.auto_step, max);
        let number = range.map(|range| range.first).filter(|n| *n <= max);
        let number = number.ok_or_else(errors::no_auto_increment_value)?;
        env.txn.bump_counter(table.counter_tree(), number);
        Ok(auto_value(&column.ty, number))
    }

    fn write_new(&mut self, env: &mut DmlEnv<'_>) -> Result<Written, ExecError> {
        let table = &self.table;
        let buffers = env.scratch.buffers();
        let (row, key) = (buffers.row, buffers.key);
        let mut entries = buffers.entries;
        let fresh = new_key(env.engine, table, row, key)?;
        // A lock of a run cannot be given back alone, as a row has to that meets a gap.
        let run = self.run.next(key);
        let run = run.filter(|_| !env.txn.may_meet_gaps(table.primary().id));
        let new = NewKey { key, fresh, run };
        let mut writer = Writer {
            txn: env.txn,
            mode: env.mode,
            limits: env.limits,
            on_duplicate: LockMode::Exclusive,
        };
        writer.insert(table, &new, row, &mut entries)
    }

    /// Changes the row under `clustered`, whose latest version is in the scratch's `old_row`.
    fn update(
        &self,
        env: &mut DmlEnv<'_>,
        clustered: &[u8],
        (after, edits): (OwnImage, &[ColumnEdits]),
    ) -> Result<(), ExecError> {
        let mut row = vec![Value::Null; self.table.columns.len()];
        decode_row(&self.table, &UTC, &env.scratch.old_row, &mut row)?;
        for (value, changed) in row.iter_mut().zip(after) {
            if let Some(changed) = changed {
                *value = changed;
            }
        }
        for (nth, edits) in edits {
            // A column that only the source has is passed over.
            let Some(col) = self.columns.target(*nth) else {
                continue;
            };
            let name = (&*self.table.name, &*self.table.columns[col].name);
            row[col] = edits::edited(&row[col], edits, name)?;
        }
        self.complete(env, &mut row)?;
        self.encode(env, &row)?;
        let found = std::mem::take(&mut env.scratch.old_row);
        if found == env.scratch.row {
            return Ok(());
        }
        let node = RowAt {
            node: 0,
            clustered,
            stored: &found,
        };
        if let Some((mut enforcer, scratch)) = Enforcer::new(&self.foreign, env) {
            enforcer.settle_children(node, Some(&scratch.row))?;
        }
        if let Written::Conflict(conflict) = self.write_changed(env, clustered, &found)? {
            return Err(self.duplicate(env, conflict.index)?.into());
        }
        if let Some((mut enforcer, scratch)) = Enforcer::new(&self.foreign, env) {
            enforcer.check_parents(0, None, &scratch.row)?;
        }
        env.scratch.old_row = found;
        let keys = KeysOf {
            clustered,
            moved: clustered != env.scratch.key,
            entries: true,
        };
        env.log_update(&self.table, keys)?;
        self.note_auto(env, &row);
        Ok(())
    }

    fn write_changed(
        &self,
        env: &mut DmlEnv<'_>,
        clustered: &[u8],
        old: &[u8],
    ) -> Result<Written, ExecError> {
        let table = &self.table;
        let buffers = env.scratch.buffers();
        let mut entries = buffers.entries;
        buffers.key.clear();
        if table.primary().hidden {
            buffers.key.extend_from_slice(clustered);
        } else {
            let stored = RowReader::new(&table.layout, &UTC, buffers.row)?;
            let codec = &table.primary().codec;
            codec.encode_row_parts(&stored, buffers.key)?;
        }
        let change = Replacement {
            clustered,
            old,
            new_clustered: buffers.key,
            new: buffers.row,
            entries_change: true,
            may_enter: table.partitioning.is_some(),
        };
        let mut writer = Writer {
            txn: env.txn,
            mode: env.mode,
            limits: env.limits,
            on_duplicate: LockMode::Exclusive,
        };
        writer.update(table, change, &mut entries)
    }

    /// Deletes the row under `clustered`, whose latest version is in the scratch's `old_row`.
    fn delete(&self, env: &mut DmlEnv<'_>, clustered: &[u8]) -> Result<(), ExecError> {
        if let Some((mut enforcer, scratch)) = Enforcer::new(&self.foreign, env) {
            let row = RowAt {
                node: 0,
                clustered,
                stored: &scratch.old_row,
            };
            enforcer.settle_children(row, None)?;
        }
        env.delete_old_row(&self.table, clustered)
    }

    /// A key of the row in the scratch is taken by the row under `clustered`: an error, or that row goes, and is in the
    /// scratch's `old_row`. False: it was gone.
    fn make_way(
        &self,
        env: &mut DmlEnv<'_>,
        index: usize,
        clustered: &[u8],
    ) -> Result<bool, ExecError> {
        if self.mode == ApplyMode::Strict {
            return Err(self.duplicate(env, index)?.into());
        }
        let row = std::mem::take(&mut env.scratch.row);
        let gone = match find::read(env, &self.table, clustered) {
            Ok(true) => self.delete(env, clustered).map(|()| true),
            other => other,
        };
        env.scratch.row = row;
        gone
    }

    /// 1062: a key of the row in the scratch is taken.
    fn duplicate(&self, env: &DmlEnv<'_>, index: usize) -> SqlResult<SqlError> {
        let table = &self.table;
        let row = RowReader::new(&table.layout, &env.ctx.time_zone, &env.scratch.row)?;
        Ok(duplicate_entry(table, &table.indexes[index], &row))
    }

    /// Computes the generated columns of a row, whose TIMESTAMPs are in UTC, its CHECKs, and whether a partition takes
    /// it.
    ///
    /// # Errors
    /// 3819, 1526.
    fn complete(&self, env: &mut DmlEnv<'_>, row: &mut [Value]) -> Result<(), ExecError> {
        let exprs = &self.exprs;
        if !exprs.generates() && !exprs.checks() && !exprs.checks_partition() {
            return Ok(());
        }
        let ctx = env.ctx;
        let _lenient = strict_writes(ctx, true);
        let (zone, columns) = (&ctx.time_zone, &self.table.columns);
        let is_timestamp = |col: usize| columns[col].ty.kind == TypeKind::Timestamp;
        let mut local = row.to_vec();
        for (col, value) in local.iter_mut().enumerate() {
            if let (Value::DateTime(utc), true) = (&mut *value, is_timestamp(col)) {
                *value = Value::DateTime(utc_to_zone(*utc, zone));
            }
        }
        let states = SubqueryStates::default();
        env.evaluating(&states, |env| {
            exprs.generate(columns, &mut local, (1, true), env)?;
            exprs.check(&local, env)?;
            Ok(exprs.check_partition(&local, env)?)
        })?;
        for col in self.exprs.generated() {
            row[col] = match (std::mem::take(&mut local[col]), is_timestamp(col)) {
                (Value::DateTime(at), true) => Value::DateTime(zone_to_utc(at, zone)?),
                (value, _) => value,
            };
        }
        Ok(())
    }

    /// Puts a row, TIMESTAMPs in UTC, into the scratch's `row`.
    fn encode(&self, env: &mut DmlEnv<'_>, row: &[Value]) -> SqlResult<()> {
        env.scratch.row.clear();
        encode_row(&self.table.layout, &UTC, row, &mut env.scratch.row)
    }

    /// Numbers that are given later are larger than the ones that came.
    fn note_auto(&self, env: &mut DmlEnv<'_>, row: &[Value]) {
        let Some(col) = self.table.auto_column else {
            return;
        };
        let value = as_counter(&row[col]);
        if value > self.table.runtime.last_auto() {
            self.table.note_auto(value, AutoStep::ONE);
            env.txn.bump_counter(self.table.counter_tree(), value);
        }
    }
}
