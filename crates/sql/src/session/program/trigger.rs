//! Programs that run inside of a statement: triggers, and what holds for functions, too.
//!
//! Neighbours: changes of rows come here between two rows, when nothing of the session is borrowed.
//! **Invariants**: such a program runs to its end at once: it parks its thread where it has to wait, and gives the
//! client no rows; its statements commit nothing, for they are a part of the statement around them.

use std::sync::Arc;

use esker_sql_catalog::catalog::{ProgramSettings, TableDef};
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_types::{SqlResult, Value, errors};

use super::super::Session;
use super::Inside;
use super::machine::{Frame, Machine, Progress, TriggerRow};
use crate::program::Program;

/// Most programs inside of each other's statements: each takes a part of the stack.
const MAX_NESTED: usize = 32;

/// A trigger's program in a session.
pub(crate) struct TriggerProgram {
    program: Arc<Program>,
    schema: Arc<str>,
    settings: ProgramSettings,
    first_plan: u32,
    /// The binding inside that belongs to one outside.
    binding: Option<(u64, u64)>,
}

impl TriggerRow {
    /// The row before and after, with values for all columns of the table.
    pub(crate) fn new(table: &TableDef, old: Option<Vec<Value>>, new: Option<Vec<Value>>) -> Self {
        let columns = table.columns.iter().map(|c| (c.ty.clone(), c.name.clone()));
        let columns: Vec<_> = columns.collect();
        let fits = |row: &Option<Vec<Value>>| row.as_ref().is_none_or(|r| r.len() == columns.len());
        debug_assert!(fits(&old) && fits(&new), "a row of another table");
        Self { new, old, columns }
    }

    /// The row as the trigger has left it.
    pub(crate) fn into_new(self) -> Option<Vec<Value>> {
        self.new
    }
}

impl Session {
    /// Gets a trigger's program ready; plans of its statements are kept with the session.
    pub(crate) fn load_trigger(
        &mut self,
        program: Arc<Program>,
        schema: Arc<str>,
        settings: ProgramSettings,
    ) -> TriggerProgram {
        TriggerProgram {
            first_plan: self.prepared.reserve_ids(program.plans),
            program,
            schema,
            settings,
            binding: None,
        }
    }

    /// Runs a trigger for a row.
    ///
    /// # Errors
    /// What its statements run into and no handler handles; 1436 when triggers nest too deeply.
    pub(crate) fn run_trigger(
        &mut self,
        trigger: &mut TriggerProgram,
        row: TriggerRow,
    ) -> Result<TriggerRow, ExecError> {
        self.check_nesting()?;
        self.enter_program(&trigger.schema, &trigger.settings, &mut trigger.binding)?;
        let mut frame = Frame::of_trigger(trigger.program.clone(), trigger.first_plan);
        frame.row = Some(row);
        let mut machine = Machine::new(frame);
        self.run_inside(&mut machine, Inside::Trigger)?;
        let row = machine.row.take();
        row.ok_or_else(|| errors::internal("a trigger without its row").into())
    }

    /// # Errors
    /// 1436.
    pub(super) fn check_nesting(&self) -> SqlResult<()> {
        match self.program.inside.len() < MAX_NESTED {
            true => Ok(()),
            false => {
                let what = format!("more than {MAX_NESTED} triggers and functions run each other");
                Err(errors::too_deep(what))
            }
        }
    }

    /// Runs a program that has been entered.
    ///
    /// # Errors
    /// What its statements run into and no handler handles.
    pub(super) fn run_inside(&mut self, machine: &mut Machine, inside: Inside) -> SqlResult<()> {
        let depth = self.program.outer.len();
        self.program.inside.push(inside);
        // It sees no savepoint of what is around it, and leaves none of its own.
        let around = self.swap_savepoints(Vec::new());
        let options_around = std::mem::take(&mut self.program.options);
        let ran = self.run_to_end(machine);
        self.swap_savepoints(around);
        self.program.inside.pop();
        while self.program.outer.len() >= depth {
            self.leave_program();
        }
        let restored = self.restore_options(options_around);
        ran.and(restored)
    }

    fn run_to_end(&mut self, machine: &mut Machine) -> SqlResult<()> {
        let mut failed = None;
        loop {
            match self.run_machine(machine, failed.take()) {
                Ok(Progress::Done(..)) => return Ok(()),
                Ok(Progress::Rows(..)) => return Err(self.no_result_set()),
                Err(ExecError::Sql(e)) => return Err(e),
                Err(ExecError::Wait(ticket)) => {
                    self.show_wait();
                    let killed = || self.context.check().is_err();
                    let waited = ticket.block_unless(self.lock_timeout(), &killed);
                    self.end_wait();
                    // No handler of the program is asked about a KILL.
                    self.context.check()?;
                    failed = waited.err().map(|e| engine_error(&e));
                }
            }
        }
    }
}
