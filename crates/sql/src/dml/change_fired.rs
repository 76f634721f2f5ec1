//! A row that UPDATE triggers look at, before and after it is written, and what these and functions do to it meanwhile.
//!
//! Neighbours: `change` has the assignments and the write; `update` and ON DUPLICATE KEY UPDATE go through the steps.
//! **Invariants**: the values of the row in the statement are those of the stored one where nothing is assigned; NULL
//! in a NOT NULL column is told of when the last BEFORE trigger has run, which may have replaced it. Of a row that a
//! foreign key has changed meanwhile the columns count in which the statement changes the version that it has seen.

use esker_sql_catalog::catalog::ColumnDef;
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_exec::SubqueryStates;
use esker_types::{EvalCtx, SqlError, SqlResult, Value};

use super::DmlEnv;
use super::change::{RowChanger, is_other};
use super::insert::decode_row;
use super::values::null_for;

/// A row as triggers see it, by the columns of its table.
#[derive(Debug)]
pub(crate) struct ChangedRow {
    /// OLD.
    pub(crate) old: Vec<Value>,
    /// NEW.
    pub(crate) new: Vec<Value>,
}

/// What became of a stored row while triggers and functions ran.
pub(super) enum Since {
    /// Nothing.
    Same,
    /// Another version.
    Changed,
    /// It is gone.
    Gone,
}

/// The value of a column when the last BEFORE trigger has run. Only what the statement itself has said may be made a
/// value of, where `lenient`: `proposed`.
pub(super) fn accepted(
    ctx: &EvalCtx<'_>,
    (column, value): (&ColumnDef, Value),
    proposed: &Value,
    lenient: bool,
) -> SqlResult<Value> {
    match value {
        Value::Null => null_for(ctx, column, lenient && proposed.is_null()),
        value => Ok(value),
    }
}

/// 1048: IGNORE leaves such a row alone.
pub(super) fn is_null_refused(e: &SqlError) -> bool {
    e.code == 1048
}

impl RowChanger {
    /// The stored row, which lies in the scratch's `old_row`, as triggers see it. What the statement does not assign
    /// has its values in the statement's row, too: another name of the table may have changed it.
    pub(super) fn load(&self, env: &DmlEnv<'_>, row: &mut [Value]) -> SqlResult<Vec<Value>> {
        let mut old = vec![Value::Null; self.table().columns.len()];
        decode_row(
            self.table(),
            &env.ctx.time_zone,
            &env.scratch.old_row,
            &mut old,
        )?;
        for (col, slot) in self.settable() {
            if !self.assigns(*col) {
                row[*slot].clone_from(&old[*col]);
            }
        }
        Ok(old)
    }

    /// Assigns, as far as BEFORE triggers see it: the time of ON UPDATE columns is there, and NULL may be anywhere.
    pub(super) fn propose(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        (row, row_number): (&mut [Value], u64),
        lenient: bool,
    ) -> Result<Vec<Value>, ExecError> {
        self.assign_all(env, states, row, row_number, lenient)?;
        if self.encode(env.ctx, env.scratch, row)? {
            self.stamp(env, states, row)?;
        }
        Ok(self.whole_row(env.ctx, &env.scratch.old_row, row)?)
    }

    /// Takes the row as BEFORE triggers have left it.
    ///
    /// # Errors
    /// 1048.
    pub(super) fn accept(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        (row, mut new): (&mut [Value], Vec<Value>),
        lenient: bool,
    ) -> Result<(), ExecError> {
        for (col, slot) in self.settable() {
            let (column, value) = (&self.table().columns[*col], std::mem::take(&mut new[*col]));
            row[*slot] = accepted(env.ctx, (column, value), &row[*slot], lenient)?;
        }
        self.generate(env, states, row, (1, lenient))
    }

    /// Reads the row, whose key is locked, again. The version that the statement has seen lies in the scratch's
    /// `old_row`, and what it made of it in `row` there. If there is another one now, that comes into `old_row`, and
    /// the columns that the statement leaves as they were have its values in the statement's row.
    pub(super) fn catch_up(
        &self,
        env: &mut DmlEnv<'_>,
        row: &mut [Value],
        clustered: &[u8],
    ) -> Result<Since, ExecError> {
        let seen = std::mem::take(&mut env.scratch.old_row);
        if !env.reread(self.table(), clustered)? {
            return Ok(Since::Gone);
        }
        let (now, made) = (&env.scratch.old_row, &env.scratch.row);
        if *now == seen {
            return Ok(Since::Same);
        }
        let (table, zone) = (self.table(), &env.ctx.time_zone);
        let mut values = vec![Value::Null; table.columns.len()];
        decode_row(table, zone, now, &mut values)?;
        let seen = RowReader::new(&table.layout, &UTC, &seen)?;
        let made = RowReader::new(&table.layout, &UTC, made)?;
        for (col, slot) in self.settable() {
            if !is_other(seen.field(*col), made.field(*col)) {
                row[*slot] = std::mem::take(&mut values[*col]);
            }
        }
        Ok(Since::Changed)
    }
}
