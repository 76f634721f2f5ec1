//! Changing an existing row: assignments, ON UPDATE, CHECK, and the write.
//!
//! Neighbours: `update` and ON DUPLICATE KEY UPDATE.
//! **Invariants**: assignments happen from left to right and see each other; a row whose values stay
//! the same is not written, and its ON UPDATE columns stay; fields that are not assigned are copied
//! as stored; where triggers or functions run, the row is read again when the last of them is over.

use esker_engine::LockMode;
use esker_sql_catalog::catalog::{ColumnDef, IndexDef, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC, patch_row};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_exec::SubqueryStates;
use std::collections::BTreeSet;
use std::sync::Arc;

use esker_types::json::{self, JsonRef};
use esker_types::trigger::TriggerEvent;
use esker_types::{EvalCtx, SqlResult, TypeKind, Value, ValueRef};

use super::DmlEnv;
use super::change_fired::Since;
use super::exprs::TableExprs;
use super::foreign::{Enforcer, ForeignKeyPlan, RowAt};
use super::insert::{Cell, as_counter, decode_row};
use super::logged::KeysOf;
use super::through_view::ViewCheck;
use super::values::{Default, assign, default_of, missing_default, now_for, relaxed_columns};
use super::write::{Conflict, RowChange, Scratch, Writer, Written};

/// The assignments of a statement to one table.
#[derive(Debug)]
pub(super) struct RowChanger {
    table: Arc<TableDef>,
    exprs: TableExprs,
    /// In order; expressions are over the statement's row.
    assignments: Vec<Assignment>,
    /// Columns that may change, with their slots in the statement's row: the assigned ones, then ON
    /// UPDATE CURRENT_TIMESTAMP columns that are not assigned, then generated columns.
    touched: Vec<(usize, usize)>,
    /// The place in `touched` where the ON UPDATE columns begin.
    on_update_from: usize,
    /// The place where the generated ones begin.
    generated_from: usize,
    /// A column of the primary key may change.
    moves: bool,
    /// A column of any key may change.
    entries_change: bool,
    /// Columns change that decide the partition of a row.
    may_enter: bool,
    /// Of the view that rows are changed through.
    view_check: Option<Arc<ViewCheck>>,
    /// Triggers see rows before they are written, and may change every column: the columns as these see them.
    relaxed: Option<Vec<ColumnDef>>,
}

/// One assignment.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) col: usize,
    pub(super) cell: Cell,
}

/// What became of a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// Written.
    Yes,
    /// All values stay the same.
    No,
    /// A unique key is taken.
    Conflict(Conflict),
    /// There is no such row any more: a trigger or a function has deleted its parent.
    Gone,
}

impl RowChanger {
    /// `slot_of` gives the slot of a column in the statement's row. Where UPDATE has triggers, every column may change.
    pub(super) fn new(
        table: Arc<TableDef>,
        exprs: TableExprs,
        assignments: Vec<Assignment>,
        slot_of: impl Fn(usize) -> u32,
    ) -> Self {
        let mut touched: Vec<(usize, usize)> = Vec::with_capacity(assignments.len());
        let add = |touched: &mut Vec<(usize, usize)>, col: usize| {
            if !touched.iter().any(|(c, _)| *c == col) {
                touched.push((col, slot_of(col) as usize));
            }
        };
        assignments.iter().for_each(|a| add(&mut touched, a.col));
        let fires = table.has_triggers_for(TriggerEvent::Update);
        if fires {
            let is_plain = |c: &ColumnDef| !c.on_update_now && c.generated.is_none();
            let all = table.columns.iter().enumerate();
            let plain = all.filter(|(_, column)| is_plain(column));
            plain.for_each(|(col, _)| add(&mut touched, col));
        }
        let on_update_from = touched.len();
        for (col, column) in table.columns.iter().enumerate() {
            if column.on_update_now {
                add(&mut touched, col);
            }
        }
        let generated_from = touched.len();
        exprs.generated().for_each(|col| add(&mut touched, col));
        let in_key = |i: &IndexDef| {
            i.parts
                .iter()
                .any(|p| touched.iter().any(|(col, _)| *col == p.col))
        };
        let moves = in_key(table.primary());
        let entries_change = moves || table.indexes[1..].iter().any(in_key);
        let may_enter = table.partitioning.as_deref().is_some_and(|partitioning| {
            let mut changed = touched.iter().map(|(col, _)| &table.columns[*col].name);
            changed.any(|name| partitioning.decides(name))
        });
        Self {
            exprs,
            on_update_from,
            generated_from,
            touched,
            moves,
            entries_change,
            may_enter,
            view_check: None,
            relaxed: fires.then(|| relaxed_columns(&table)),
            table,
            assignments,
        }
    }

    /// The same, for rows that have to meet the CHECK OPTION of a view.
    pub(super) fn checked_by(self, view_check: Option<Arc<ViewCheck>>) -> Self {
        Self { view_check, ..self }
    }

    /// A column as assignments see it.
    fn column(&self, col: usize) -> &ColumnDef {
        let columns = self.relaxed.as_deref().unwrap_or(&self.table.columns);
        &columns[col]
    }

    /// Do triggers run for the rows that it changes?
    pub(super) fn fires(&self) -> bool {
        self.relaxed.is_some()
    }

    /// Ordinals of the columns that may change.
    pub(super) fn touched_columns(&self) -> BTreeSet<usize> {
        self.touched.iter().map(|(col, _)| *col).collect()
    }

    /// The table.
    pub(super) fn table(&self) -> &Arc<TableDef> {
        &self.table
    }

    /// Calls `f` with every slot of the statement's row that the assignments may read.
    pub(super) fn slots(&self, f: &mut dyn FnMut(u32)) {
        for assignment in &self.assignments {
            if let Cell::Expr(e) = &assignment.cell {
                e.slots(f);
            }
        }
    }

    /// The columns that may change, and are not computed, with their slots.
    pub(super) fn settable(&self) -> &[(usize, usize)] {
        &self.touched[..self.generated_from]
    }

    /// The slot of a column that may change.
    fn slot(&self, col: usize) -> Option<usize> {
        self.touched
            .iter()
            .find(|(c, _)| *c == col)
            .map(|(_, slot)| *slot)
    }

    /// The value of a column in the statement's row, if the statement may change it.
    pub(super) fn value<'r>(&self, col: usize, row: &'r [Value]) -> Option<&'r Value> {
        self.slot(col).map(|slot| &row[slot])
    }

    /// Evaluates the assignments into the statement's row, in which they see each other.
    pub(super) fn assign_all(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        row: &mut [Value],
        row_number: u64,
        lenient: bool,
    ) -> Result<(), ExecError> {
        for Assignment { col, cell } in &self.assignments {
            let column = self.column(*col);
            if column.generated.is_some() {
                // DEFAULT, which is what is computed below.
                debug_assert!(matches!(cell, Cell::Default));
                continue;
            }
            let (value, from) = match cell {
                Cell::Expr(e) => (env.evaluating(states, |env| e.eval(row, env))?, &e.ty),
                Cell::Default => (self.default(env, states, *col, row)?, &column.ty),
            };
            let slot = self.slot(*col).expect("an assigned column has a slot");
            row[slot] = assign(
                env.ctx,
                value,
                from,
                (&self.table.name, column),
                row_number,
                lenient,
            )?;
        }
        self.generate(env, states, row, (row_number, lenient))
    }

    /// Is the column one of those that the statement assigns?
    pub(super) fn assigns(&self, col: usize) -> bool {
        self.assignments.iter().any(|a| a.col == col)
    }

    /// Computes the generated columns from the row as it is to become.
    pub(super) fn generate(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        row: &mut [Value],
        how: (u64, bool),
    ) -> Result<(), ExecError> {
        if !self.exprs.generates() {
            return Ok(());
        }
        let mut own = self.whole_row(env.ctx, &env.scratch.old_row, row)?;
        env.evaluating(states, |env| {
            Ok(self
                .exprs
                .generate(&self.table.columns, &mut own, how, env)?)
        })?;
        for col in self.exprs.generated() {
            let slot = self.slot(col).expect("a generated column has a slot");
            row[slot] = std::mem::take(&mut own[col]);
        }
        Ok(())
    }

    /// The value of DEFAULT for a column.
    fn default(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        col: usize,
        row: &[Value],
    ) -> Result<Value, ExecError> {
        let column = &self.table.columns[col];
        match default_of(env.ctx, column) {
            Default::Value(value) => Ok(value),
            Default::None => Ok(missing_default(env.ctx, column)?),
            Default::Expr => {
                let Some(e) = self.exprs.default_of(col) else {
                    return Ok(Value::Null);
                };
                let own = self.whole_row(env.ctx, &env.scratch.old_row, row)?;
                let value = env.evaluating(states, |env| e.eval(&own, env))?;
                Ok(assign(
                    env.ctx,
                    value,
                    &e.ty,
                    (&self.table.name, column),
                    1,
                    true,
                )?)
            }
        }
    }

    /// The table's whole row as it is to become: the stored one with the statement's values.
    pub(super) fn whole_row(
        &self,
        ctx: &EvalCtx<'_>,
        stored: &[u8],
        row: &[Value],
    ) -> SqlResult<Vec<Value>> {
        let mut own = vec![Value::Null; self.table.columns.len()];
        decode_row(&self.table, &ctx.time_zone, stored, &mut own)?;
        for (col, slot) in &self.touched {
            own[*col].clone_from(&row[*slot]);
        }
        Ok(own)
    }

    /// Writes the row after [`Self::assign_all`]. The version that it was made from lies in the scratch's
    /// `old_row`, `clustered` is locked. `keys`: the foreign keys to keep, and the number of the table there. An error
    /// or a conflict may leave writes behind.
    pub(super) fn write(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        row: &mut [Value],
        clustered: &[u8],
        keys: (&ForeignKeyPlan, usize),
    ) -> Result<Changed, ExecError> {
        let mut is_other = self.make(env, states, row)?;
        if self.fires() || env.calls_functions() {
            match self.catch_up(env, row, clustered)? {
                Since::Same => {}
                Since::Changed => is_other = self.make_again(env, states, row)?,
                Since::Gone => return Ok(Changed::Gone),
            }
        }
        if !is_other {
            return Ok(Changed::No);
        }
        let (plan, node) = keys;
        if let Some((mut enforcer, scratch)) = Enforcer::new(plan, env) {
            let row = RowAt {
                node,
                clustered,
                stored: &scratch.old_row,
            };
            enforcer.settle_children(row, Some(&scratch.row))?;
        }
        let buffers = env.scratch.buffers();
        let new_clustered = match self.moves {
            true => self.clustered_key(buffers.row, buffers.key)?,
            false => clustered,
        };
        let mut entries = buffers.entries;
        let change = RowChange {
            clustered,
            old: buffers.old_row,
            new_clustered,
            new: buffers.row,
            entries_change: self.entries_change,
            may_enter: self.may_enter,
        };
        let mut writer = Writer {
            txn: env.txn,
            mode: env.mode,
            limits: env.limits,
            on_duplicate: LockMode::Shared,
        };
        let has_moved = clustered != new_clustered;
        match writer.update(&self.table, change, &mut entries)? {
            Written::Conflict(conflict) => Ok(Changed::Conflict(conflict)),
            Written::Done => {
                if let Some((mut enforcer, scratch)) = Enforcer::new(plan, env) {
                    // A row that moves gets new entries in every index, so InnoDB looks for all of its parents again.
                    let before = (!has_moved).then_some(&*scratch.old_row);
                    enforcer.check_parents(node, before, &scratch.row)?;
                }
                let keys = KeysOf {
                    clustered,
                    moved: has_moved,
                    entries: self.entries_change,
                };
                env.log_update(&self.table, keys)?;
                self.note_auto(env, row);
                Ok(Changed::Yes)
            }
        }
    }

    /// Makes the row that is to be stored, in the scratch's `row`, and checks it; false if it is the same.
    fn make(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        row: &mut [Value],
    ) -> Result<bool, ExecError> {
        if !self.encode(env.ctx, env.scratch, row)? {
            return Ok(false);
        }
        // Triggers have seen the time that the row gets.
        if !self.fires() && self.stamp(env, states, row)? {
            self.encode(env.ctx, env.scratch, row)?;
        }
        self.check(env, states, row)?;
        if let Some(check) = &self.view_check {
            env.evaluating(states, |env| check.check(row, env))?;
        }
        Ok(true)
    }

    /// The same over the row as it is now. The view is not asked again: it may call functions, which would change rows
    /// once more.
    fn make_again(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        row: &mut [Value],
    ) -> Result<bool, ExecError> {
        self.generate(env, states, row, (1, true))?;
        if !self.encode(env.ctx, env.scratch, row)? {
            return Ok(false);
        }
        self.check(env, states, row)?;
        Ok(true)
    }

    /// May the row be as it is to become, for its table?
    fn check(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        row: &mut [Value],
    ) -> Result<(), ExecError> {
        if !self.exprs.checks.is_empty() {
            let own = self.whole_row(env.ctx, &env.scratch.old_row, row)?;
            env.evaluating(states, |env| Ok(self.exprs.check(&own, env)?))?;
        }
        if self.exprs.checks_partition() {
            let own = self.whole_row(env.ctx, &env.scratch.old_row, row)?;
            env.evaluating(states, |env| Ok(self.exprs.check_partition(&own, env)?))?;
        }
        Ok(())
    }

    /// The clustered key of a row as it is stored.
    fn clustered_key<'k>(&self, stored: &[u8], key: &'k mut Vec<u8>) -> SqlResult<&'k [u8]> {
        let stored = RowReader::new(&self.table.layout, &UTC, stored)?;
        key.clear();
        let codec = &self.table.primary().codec;
        codec.encode_row_parts(&stored, key)?;
        Ok(key)
    }

    /// Gives ON UPDATE columns the statement's time; false if there is none that is not assigned.
    pub(super) fn stamp(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        row: &mut [Value],
    ) -> Result<bool, ExecError> {
        let on_update = &self.touched[self.on_update_from..self.generated_from];
        for (col, slot) in on_update {
            row[*slot] = now_for(env.ctx, &self.table.columns[*col].ty);
        }
        if !on_update.is_empty() {
            self.generate(env, states, row, (1, true))?;
        }
        Ok(!on_update.is_empty())
    }

    /// Encodes the new row beside the old one; false if they are the same.
    pub(super) fn encode(
        &self,
        ctx: &EvalCtx<'_>,
        scratch: &mut Scratch,
        row: &[Value],
    ) -> SqlResult<bool> {
        let (layout, zone) = (&self.table.layout, &ctx.time_zone);
        let old = RowReader::new(layout, &UTC, &scratch.old_row)?;
        let new = &mut scratch.row;
        new.clear();
        patch_row(layout, zone, &old, |col| self.value(col, row), new)?;
        let is_same = match old.is_current() {
            true => *new == scratch.old_row,
            false => {
                let mut same = Vec::with_capacity(new.len());
                patch_row(layout, zone, &old, |_| None, &mut same)?;
                *new == same
            }
        };
        let is_document =
            |(col, _): &(usize, usize)| self.table.columns[*col].ty.kind == TypeKind::Json;
        if is_same || !self.touched.iter().any(is_document) {
            return Ok(!is_same);
        }
        let new = RowReader::new(layout, &UTC, new)?;
        Ok(self
            .touched
            .iter()
            .any(|(col, _)| is_other(old.field(*col), new.field(*col))))
    }

    /// A larger value stored in the AUTO_INCREMENT column raises the counter.
    fn note_auto(&self, env: &mut DmlEnv<'_>, row: &[Value]) {
        let Some(value) = self.table.auto_column.and_then(|col| self.value(col, row)) else {
            return;
        };
        let value = as_counter(value);
        if value > self.table.runtime.last_auto() {
            self.table.note_auto(value, env.auto_step);
            env.txn.bump_counter(self.table.counter_tree(), value);
        }
    }
}

/// Is the second value another one? Documents are compared as values: `[1]` for `[1.0]` alone changes no row.
pub(super) fn is_other(old: ValueRef<'_>, new: ValueRef<'_>) -> bool {
    match (old, new) {
        (ValueRef::Json(a), ValueRef::Json(b)) => {
            json::compare(JsonRef::new(a), JsonRef::new(b)).is_ne()
        }
        (a, b) => a != b,
    }
}
