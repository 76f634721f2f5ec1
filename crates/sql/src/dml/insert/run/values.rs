//! The values of a row to be inserted: what is written, defaults, and generated numbers.
//!
//! Neighbours: `run` has the rows, and stores them; `values` of changes converts.
//! **Invariant**: a column that the statement leaves out has its default before any value is evaluated.

use super::super::Cell;
use super::super::numbers::Given;
use super::{Run, as_counter, auto_value, text_type};
use crate::dml::values::{
    Default, assign, default_of, implicit_value, missing_default, unset_value,
};
use esker_sql_catalog::catalog::max_auto;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::ColumnMeta;
use esker_types::{SqlMode, SqlResult, SqlType, Value, errors};

impl Run<'_, '_> {
    /// Makes the row's values from a VALUES row.
    pub(in crate::dml::insert) fn evaluate(
        &mut self,
        cells: &[Cell],
        row_number: u64,
    ) -> Result<(), ExecError> {
        self.begin_row();
        let insert = self.insert;
        for (&col, cell) in insert.columns.iter().zip(cells) {
            let value = match cell {
                Cell::Default => self.written_default(col)?,
                Cell::Expr(e) => {
                    let unnumbered = self.show_zero();
                    let value = self
                        .env
                        .evaluating(&self.states, |env| e.eval(&self.row, env));
                    if let Some(auto) = unnumbered {
                        self.row[auto] = Value::Null;
                    }
                    self.assign(col, value?, &e.ty, row_number)?
                }
            };
            self.row[col] = value;
        }
        self.apply_default_exprs()
    }

    /// Lets an expression of VALUES read 0 in an AUTO_INCREMENT column that has no number yet: which column that is.
    pub(super) fn show_zero(&mut self) -> Option<usize> {
        if !self.insert.reads_row {
            return None;
        }
        let auto = self.table().auto_column?;
        if !self.row[auto].is_null() {
            return None;
        }
        self.row[auto] = implicit_value(&self.table().columns[auto].ty);
        Some(auto)
    }

    /// Makes the row's values from a row of the query.
    pub(in crate::dml::insert) fn convert(
        &mut self,
        values: &mut [Value],
        types: &[ColumnMeta],
        row_number: u64,
    ) -> Result<(), ExecError> {
        self.begin_row();
        let insert = self.insert;
        for &(place, slot) in &insert.source_slots {
            if self.source.len() <= slot {
                self.source.resize(slot + 1, Value::Null);
            }
            self.source[slot] = values[place].clone();
        }
        for ((&col, value), from) in insert.columns.iter().zip(values).zip(types) {
            let (value, text) = (std::mem::take(value), text_type(from));
            let value = match (value, &text) {
                (Value::Label(_, label), Some(_)) => Value::Str(label.into()),
                (value, _) => value,
            };
            let from = text.as_ref().unwrap_or(&from.ty);
            self.row[col] = self.assign(col, value, from, row_number)?;
        }
        self.apply_default_exprs()
    }

    /// Clears the row. Columns that no value is given for get their constant defaults now, and all
    /// columns if a value may read them.
    pub(in crate::dml::insert) fn begin_row(&mut self) {
        let width = self.table().columns.len();
        self.row.clear();
        self.row.resize(width, Value::Null);
        self.auto.begin_row();
        let insert = self.insert;
        let assigned: &[usize] = if insert.reads_row {
            &insert.columns
        } else {
            &[]
        };
        for &col in insert.unassigned.iter().chain(assigned) {
            let column = insert.column(col);
            self.row[col] = match default_of(self.env.ctx, column) {
                Default::Value(value) => value,
                Default::None => unset_value(&column.ty),
                Default::Expr => Value::Null,
            };
        }
    }

    /// The default of a column for DEFAULT in VALUES; `DEFAULT (expr)` sees the row so far.
    pub(in crate::dml::insert) fn written_default(
        &mut self,
        col: usize,
    ) -> Result<Value, ExecError> {
        let column = &self.table().columns[col];
        // A DEFAULT that is written is the number 0, as in MySQL.
        let keeps_zero = self.env.ctx.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO);
        if column.auto_increment && keeps_zero {
            return Ok(implicit_value(&column.ty));
        }
        match default_of(self.env.ctx, column) {
            Default::Value(value) => Ok(value),
            Default::None => Ok(missing_default(self.env.ctx, column)?),
            Default::Expr => self.default_expr(col),
        }
    }

    pub(super) fn default_expr(&mut self, col: usize) -> Result<Value, ExecError> {
        let Some(e) = self.insert.exprs.default_of(col) else {
            return Ok(Value::Null);
        };
        let value = self
            .env
            .evaluating(&self.states, |env| e.eval(&self.row, env))?;
        Ok(assign(
            self.env.ctx,
            value,
            &e.ty,
            (&self.table().name, self.insert.column(col)),
            1,
            self.lenient,
        )?)
    }

    /// Evaluates the expression defaults of columns that were given no value, which see the others.
    pub(in crate::dml::insert) fn apply_default_exprs(&mut self) -> Result<(), ExecError> {
        let insert = self.insert;
        for &col in &insert.unassigned {
            if insert.exprs.default_of(col).is_some() {
                self.row[col] = self.default_expr(col)?;
            }
        }
        Ok(())
    }

    pub(in crate::dml::insert) fn assign(
        &self,
        col: usize,
        value: Value,
        from: &SqlType,
        row_number: u64,
    ) -> SqlResult<Value> {
        let column = self.insert.column(col);
        if column.auto_increment && value.is_null() {
            return Ok(Value::Null);
        }
        let column = (&*self.table().name, column);
        assign(self.env.ctx, value, from, column, row_number, self.lenient)
    }

    /// Gives the AUTO_INCREMENT column its number. `expected`: rows the statement may still number.
    pub(super) fn number_row(&mut self, row_number: u64, expected: u64) -> SqlResult<()> {
        let Some(col) = self.table().auto_column else {
            return Ok(());
        };
        let keeps_zero = self.env.ctx.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO);
        let generate = match &self.row[col] {
            Value::Null => true,
            value => !keeps_zero && matches!(value, Value::Int(0) | Value::UInt(0)),
        };
        if !generate {
            let value = as_counter(&self.row[col]);
            self.auto.pass(value, self.env.auto_step);
            return Ok(());
        }
        let table = self.insert.table();
        let ty = &table.columns[col].ty;
        let (step, max) = (self.env.auto_step, max_auto(ty));
        table.runtime.learn_stored(self.env.engine, table)?;
        let number = match self.auto.give(table, expected, step, max)? {
            Given::Number(number) => number,
            Given::BeyondThe(last) => {
                let name = &table.columns[col].name;
                errors::out_of_range_for_column(self.env.ctx, name, row_number)?;
                last
            }
        };
        self.row[col] = auto_value(ty, number);
        Ok(())
    }
}
