//! SQL statements of a program: run like prepared ones, with variables as their parameters.
//!
//! Neighbours: `machine` comes here for each of them; `run` does the work.
//! **Invariants**: rows are collected before the next instruction, within esker_query_memory_limit; plans are kept
//! from call to call.

use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, Mode};
use esker_sql_exec::Reserved;
use esker_sql_syntax::ast::Statement;
use esker_types::{Level, SqlError, Value, errors};

use super::super::cursor::{Collector, PULL};
use super::super::registry::MAX_INFO;
use super::super::run::Done;
use super::super::{Session, Work};
use super::machine::{Flow, Frame, Machine, OpenCursor};
use crate::counts::command_of;
use crate::program::{Destination, Sql};

/// Whose rows errors say there are too many of.
const OF_A_PROGRAM: &str = "a stored program's";

/// A result.
struct Rows {
    columns: Arc<[ColumnMeta]>,
    rows: Vec<Vec<Value>>,
    /// What the rows take.
    reserved: Reserved,
}

impl Session {
    /// Runs an SQL statement of the innermost program, which the process list shows meanwhile: a CALL, as in MySQL,
    /// until another statement begins.
    pub(super) fn run_sql(&mut self, machine: &mut Machine, sql: &Sql) -> Result<Flow, ExecError> {
        let process = self.context.process.clone();
        let outer = process.show_text(sql.text[..sql.text.floor_char_boundary(MAX_INFO)].into());
        let flow = self.run_shown(machine, sql);
        if !matches!(flow, Ok(Flow::Call(_))) {
            process.show_text(outer);
        }
        flow
    }

    fn run_shown(&mut self, machine: &mut Machine, sql: &Sql) -> Result<Flow, ExecError> {
        if let Statement::Call { name, args } = &*sql.statement {
            return self.call_inside(machine, sql, (name, args));
        }
        // A user variable takes any value: there a bad one is only warned of.
        let has_type = |to: &Destination| !matches!(to, Destination::User(_));
        let stores = sql.into.iter().any(has_type) && self.vars.sql_mode.is_strict();
        let before = std::mem::replace(&mut self.program.stores, stores);
        let flow = self.run_and_store(machine, sql);
        self.program.stores = before;
        flow
    }

    fn run_and_store(&mut self, machine: &mut Machine, sql: &Sql) -> Result<Flow, ExecError> {
        let frame = machine.frames.last_mut().expect("its program runs");
        let done = self.run_in_frame(frame, sql)?;
        let given = self.program.into.take();
        if !sql.into.is_empty() {
            if let Some(rows) = self.rows_of(machine, done)? {
                self.store_row(machine, &sql.into, rows)?;
            } else if let Some(given) = given {
                let frame = machine.frames.last_mut().expect("its program runs");
                for (to, value) in sql.into.iter().zip(given) {
                    self.assign(frame, to, value)?;
                }
            }
            return Ok(Flow::Next);
        }
        if let Done::Program(other) = done {
            return self.join_machine(machine, other);
        }
        Ok(match self.rows_of(machine, done)? {
            Some(Rows { columns, rows, .. }) => Flow::Rows(columns, rows),
            None => Flow::Next,
        })
    }

    /// A prepared CALL inside of a program: its frame is entered already.
    fn join_machine(&mut self, machine: &Machine, other: Box<Machine>) -> Result<Flow, ExecError> {
        let mut routines = other.frames.iter().filter_map(|f| f.routine.as_ref());
        let checked = routines.try_for_each(|routine| self.check_recursion(machine, routine));
        if let Err(e) = checked {
            self.leave_program();
            return Err(e.into());
        }
        Ok(Flow::Machine(other))
    }

    fn run_in_frame(&mut self, frame: &Frame, sql: &Sql) -> Result<Done, ExecError> {
        let (params, types) = frame.params(&sql.sources);
        self.note_handled(frame);
        self.note_text(&sql.statement, sql.text.as_bytes());
        self.deprecations = None;
        self.program.types = Some(types.into());
        let gives = matches!(*sql.statement, Statement::GetDiagnostics(_));
        self.program.into = gives.then(Vec::new);
        let plan = frame.first_plan.wrapping_add(sql.number);
        let done = self.run_statement(&sql.statement, &params, Some(plan), Mode::Thread);
        self.program.types = None;
        self.end_hints();
        if !matches!(done, Err(ExecError::Wait(_))) {
            self.count_command(command_of(&sql.statement));
        }
        done
    }

    /// Rows of a statement that has run, if it has any; else what it changed is noted.
    fn rows_of(&mut self, machine: &mut Machine, done: Done) -> Result<Option<Rows>, ExecError> {
        let (columns, mut work) = match done {
            Done::Ok(info, seq) => {
                if !self.diagnostics.is_shown() {
                    self.context.row_count.set(info.affected_rows as i64);
                }
                machine.depends_on = machine.depends_on.max(seq);
                return Ok(None);
            }
            Done::Rows(source) => (source.columns(), Work::Rows(source)),
            Done::ShortRows(plan) => (plan.columns.clone(), Work::ShortRows(plan)),
            Done::Program(_) | Done::NeedThread | Done::NeedFile(_) => {
                return Err(SqlError::not_supported("this statement in a stored program").into());
            }
        };
        let mut kept = Collector::default();
        while self.pull_work(&mut work, &mut kept, PULL)? {
            kept.count(self, OF_A_PROGRAM)?;
        }
        kept.count(self, OF_A_PROGRAM)?;
        self.context.row_count.set(-1);
        let seq = self.end_statement(true)?.max(self.txn.dependency());
        machine.depends_on = machine.depends_on.max(seq);
        let (rows, reserved) = kept.into_rows();
        Ok(Some(Rows {
            columns,
            rows,
            reserved,
        }))
    }

    /// SELECT … INTO.
    fn store_row(
        &mut self,
        machine: &mut Machine,
        into: &[Destination],
        Rows { columns, rows, .. }: Rows,
    ) -> Result<(), ExecError> {
        if columns.len() != into.len() {
            return Err(errors::select_columns_differ().into());
        }
        let count = rows.len();
        let Some(row) = rows.into_iter().next() else {
            let e = errors::no_data();
            self.warn(Level::Warning, e.code, e.message);
            return Ok(());
        };
        let frame = machine.frames.last_mut().expect("its program runs");
        for ((to, value), column) in into.iter().zip(row).zip(columns.iter()) {
            self.assign(frame, to, (value, column.ty.clone()))?;
        }
        if count > 1 {
            // The variables have the values of the first row.
            return Err(errors::too_many_rows().into());
        }
        self.context.row_count.set(1);
        Ok(())
    }

    /// OPEN: the rows of the cursor as they are now.
    pub(super) fn open_cursor(
        &mut self,
        machine: &mut Machine,
        sql: &Sql,
    ) -> Result<OpenCursor, ExecError> {
        let frame = machine.frames.last().expect("its program runs");
        // ROW_COUNT() stays that of the statement before.
        let count = self.context.row_count.get();
        let done = self.run_in_frame(frame, sql)?;
        let rows = self.rows_of(machine, done)?;
        self.context.row_count.set(count);
        let rows = rows.ok_or_else(errors::cursor_is_not_open)?;
        Ok(OpenCursor {
            columns: rows.columns,
            rows: rows.rows.into_iter(),
            _reserved: rows.reserved,
        })
    }
}
