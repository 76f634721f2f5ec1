//! The interpreter: frames, instructions, and what becomes of conditions.
//!
//! Neighbours: `step` runs a machine until its next result set; `statement` runs SQL statements, `call` makes frames.
//! **Invariants**
//! - An instruction that has to wait has had no effect, and is run again.
//! - A condition gets the handler that its instruction has by its place; one without goes on as that of the CALL in
//!   the frame below. What ends the whole statement (KILL, its time) has no handler.
//! - While a handler runs, what it handles can be told of and raised again; behind it that is forgotten.

use std::collections::HashMap;
use std::sync::Arc;

use esker_engine::Seq;
use esker_sql_catalog::catalog::RoutineDef;
use esker_sql_catalog::exec_error::{ExecError, INTERRUPTED, interrupted};
use esker_sql_catalog::result::{ColumnMeta, OkInfo};
use esker_sql_exec::Reserved;
use esker_types::{Level, SqlError, SqlType, Value, Warning, errors};

use super::super::Session;
use super::super::diagnostics::{Mark, entry_of};
use super::call::OutParameter;
use super::condition::sqlstate_of;
use super::{Handled, Loaded};
use crate::program::handler::{Seen, find};
use crate::program::{Destination, Formula, Op, Program};

/// A program that runs.
pub(super) struct Frame {
    pub(super) program: Arc<Program>,
    /// The routine; None: a trigger.
    pub(super) routine: Option<Arc<RoutineDef>>,
    /// Plans of its statements are kept under this number and those behind it.
    pub(super) first_plan: u32,
    pub(super) values: Vec<Value>,
    /// Types of the values in slots without one.
    pub(super) kept_types: HashMap<usize, SqlType>,
    pub(super) cursors: Vec<Option<OpenCursor>>,
    active: Vec<Active>,
    /// The next instruction.
    at: usize,
    /// What is done with the OUT parameters.
    pub(super) outs: Vec<OutParameter>,
    /// What a function has returned.
    pub(super) returned: Option<Value>,
    /// What errors call that.
    pub(super) returns_as: Arc<str>,
    pub(super) row: Option<TriggerRow>,
}

/// The row that a trigger is about.
pub(crate) struct TriggerRow {
    pub(super) new: Option<Vec<Value>>,
    pub(super) old: Option<Vec<Value>>,
    pub(super) columns: Vec<(SqlType, Arc<str>)>,
}

impl TriggerRow {
    fn value(&self, row: Option<&Vec<Value>>, nth: usize) -> (Value, SqlType) {
        let value = row.and_then(|row| row.get(nth)).cloned();
        (value.unwrap_or_default(), self.columns[nth].0.clone())
    }

    pub(super) fn new_value(&self, nth: usize) -> (Value, SqlType) {
        self.value(self.new.as_ref(), nth)
    }

    pub(super) fn old_value(&self, nth: usize) -> (Value, SqlType) {
        self.value(self.old.as_ref(), nth)
    }

    pub(super) fn column(&self, nth: usize) -> (SqlType, Arc<str>) {
        self.columns[nth].clone()
    }

    pub(super) fn set_new(&mut self, nth: usize, value: Value) {
        if let Some(row) = &mut self.new {
            row[nth] = value;
        }
    }
}

/// Rows of a cursor that are not fetched yet.
pub(super) struct OpenCursor {
    pub(super) columns: Arc<[ColumnMeta]>,
    pub(super) rows: std::vec::IntoIter<Vec<Value>>,
    /// What the rows take, until all of them go.
    pub(super) _reserved: Reserved,
}

/// A handler that runs.
struct Active {
    handler: usize,
    resume: usize,
    handled: Arc<Handled>,
    /// The diagnostics area when it began.
    began: Mark,
}

impl Frame {
    /// A frame of a routine.
    pub(super) fn new(loaded: &Loaded, values: Vec<Value>, outs: Vec<OutParameter>) -> Self {
        Self {
            routine: Some(loaded.def.clone()),
            outs,
            ..Self::of(loaded.program.clone(), loaded.first_plan, values)
        }
    }

    /// A frame of a trigger.
    pub(super) fn of_trigger(program: Arc<Program>, first_plan: u32) -> Self {
        Self::of(program, first_plan, Vec::new())
    }

    fn of(program: Arc<Program>, first_plan: u32, values: Vec<Value>) -> Self {
        let mut frame = Self {
            routine: None,
            first_plan,
            values,
            kept_types: HashMap::new(),
            cursors: Vec::new(),
            active: Vec::new(),
            at: 0,
            outs: Vec::new(),
            returned: None,
            returns_as: "".into(),
            row: None,
            program: program.clone(),
        };
        frame.values.resize(program.slots.len(), Value::Null);
        frame.cursors.resize_with(program.cursors.len(), || None);
        frame
    }
}

/// What an instruction leads to.
pub(super) enum Flow {
    Next,
    To(usize),
    /// A result set for the client.
    Rows(Arc<[ColumnMeta]>, Vec<Vec<Value>>),
    /// A program that it calls.
    Call(Box<Frame>),
    /// Programs that a prepared CALL calls.
    Machine(Box<Machine>),
}

/// How far a machine has come.
pub(in super::super) enum Progress {
    /// A result set; more may follow.
    Rows(Arc<[ColumnMeta]>, Vec<Vec<Value>>),
    /// The end.
    Done(OkInfo, Seq),
}

/// The programs of a CALL.
pub(in super::super) struct Machine {
    pub(super) frames: Vec<Frame>,
    /// What the reply waits for.
    pub(in super::super) depends_on: Seq,
    /// OUT parameters that are placeholders of a prepared CALL.
    pub(super) placeholders: Vec<(ColumnMeta, Value)>,
    /// The row of the trigger that has ended.
    pub(super) row: Option<TriggerRow>,
    /// What the function that has ended has returned.
    pub(super) returned: Option<Value>,
}

impl Machine {
    pub(super) fn new(frame: Frame) -> Self {
        Self {
            frames: vec![frame],
            depends_on: 0,
            placeholders: Vec::new(),
            row: None,
            returned: None,
        }
    }
}

impl Session {
    /// Runs a machine until its next result set or its end. `failed` is how the wait of its present instruction ended.
    pub(in super::super) fn run_machine(
        &mut self,
        machine: &mut Machine,
        failed: Option<SqlError>,
    ) -> Result<Progress, ExecError> {
        if let Some(e) = failed {
            self.raise(machine, e)?;
        }
        loop {
            self.context.check()?;
            if self.client.is_released {
                return Err(interrupted().into());
            }
            let Some(frame) = machine.frames.last() else {
                return Ok(self.machine_ends(machine));
            };
            if frame.at >= frame.program.code.len() {
                if let Err(e) = self.end_frame(machine) {
                    self.raise(machine, e)?;
                }
                continue;
            }
            let before = self.diagnostics.mark();
            match self.instruction(machine) {
                Ok(flow) => {
                    if let Some(rows) = self.follow(machine, flow, before)? {
                        return Ok(rows);
                    }
                }
                Err(ExecError::Wait(ticket)) => return Err(ExecError::Wait(ticket)),
                Err(ExecError::Sql(e)) => self.raise(machine, e)?,
            }
        }
    }

    fn follow(
        &mut self,
        machine: &mut Machine,
        flow: Flow,
        before: Mark,
    ) -> Result<Option<Progress>, ExecError> {
        match flow {
            Flow::Call(frame) => {
                machine.frames.push(*frame);
                return Ok(None);
            }
            Flow::Machine(other) => {
                machine.frames.extend(other.frames);
                return Ok(None);
            }
            _ => {}
        }
        let frame = machine.frames.last_mut().expect("it has run");
        let done = frame.at;
        frame.at = match flow {
            Flow::To(at) => at,
            _ => done + 1,
        };
        self.handle_warnings(machine, done, before);
        match flow {
            Flow::Rows(columns, rows) => Ok(Some(Progress::Rows(columns, rows))),
            _ => Ok(None),
        }
    }

    fn instruction(&mut self, machine: &mut Machine) -> Result<Flow, ExecError> {
        self.begin_time();
        let frame = machine.frames.last_mut().expect("the caller has looked");
        let program = frame.program.clone();
        let op = &program.code[frame.at].op;
        if op.begins_diagnostics() {
            self.diagnostics.clear();
        }
        match op {
            Op::Sql(sql) => self.run_sql(machine, sql),
            Op::Assign { to, value } => {
                let value = match frame.has_type(to) {
                    true => self.value_for(frame, value),
                    // What CASE compares is no value that is kept.
                    false => self.formula(frame, value),
                };
                let value = value.inspect_err(|e| frame.forget(to, e))?;
                self.assign(frame, to, value)?;
                Ok(Flow::Next)
            }
            Op::Clear(slot) => {
                frame.values[*slot] = Value::Null;
                Ok(Flow::Next)
            }
            Op::Branch {
                condition,
                otherwise,
            } => Ok(match self.holds(frame, condition)? {
                true => Flow::Next,
                false => Flow::To(*otherwise),
            }),
            Op::Jump(to) => Ok(Flow::To(*to)),
            Op::Open(cursor) => {
                if frame.cursors[*cursor].is_some() {
                    return Err(errors::cursor_is_open().into());
                }
                let opened = self.open_cursor(machine, &program.cursors[*cursor])?;
                let frame = machine.frames.last_mut().expect("the caller has looked");
                frame.cursors[*cursor] = Some(opened);
                Ok(Flow::Next)
            }
            Op::Fetch { cursor, into } => {
                self.fetch_into(frame, *cursor, into)?;
                Ok(Flow::Next)
            }
            Op::Close(cursor) => match frame.cursors[*cursor].take() {
                Some(_) => Ok(Flow::Next),
                None => Err(errors::cursor_is_not_open().into()),
            },
            Op::Leave(cursors) => {
                cursors.iter().for_each(|c| frame.cursors[*c] = None);
                Ok(Flow::Next)
            }
            Op::CaseNotFound => Err(errors::case_not_found().into()),
            Op::Return(value) => {
                self.set_returned(frame, value)?;
                Ok(Flow::To(program.code.len()))
            }
            Op::EndHandler(exit) => Ok(self.end_handler(frame, *exit)),
        }
    }

    /// FETCH: assigns the next row of a cursor.
    fn fetch_into(
        &mut self,
        frame: &mut Frame,
        cursor: usize,
        into: &[Destination],
    ) -> Result<(), ExecError> {
        let Some(open) = &mut frame.cursors[cursor] else {
            return Err(errors::cursor_is_not_open().into());
        };
        if open.columns.len() != into.len() {
            return Err(errors::wrong_fetch_count().into());
        }
        let row = open.rows.next().ok_or_else(errors::no_data)?;
        let columns = open.columns.clone();
        for ((to, value), column) in into.iter().zip(row).zip(columns.iter()) {
            self.assign(frame, to, (value, column.ty.clone()))?;
        }
        Ok(())
    }

    /// RETURN: one that fails has returned NULL, if a handler goes on.
    fn set_returned(&mut self, frame: &mut Frame, value: &Formula) -> Result<(), ExecError> {
        frame.returned = Some(Value::Null);
        let (value, from) = self.value_for(frame, value)?;
        let program = frame.program.clone();
        let ty = program.returns.as_ref();
        let ty = ty.ok_or_else(errors::return_outside_function)?;
        let name = frame.returns_as.clone();
        frame.returned = Some(self.converted(value, &from, (ty, &name))?);
        Ok(())
    }

    /// Each statement of a procedure has a time of its own; inside of another statement it has that one's.
    fn begin_time(&self) {
        if !self.program.is_nested() {
            let now = self.context.instance.now_micros();
            self.context.statement_micros.set(now);
        }
    }

    /// The end of the innermost program: its OUT parameters, and whose turn it is.
    fn end_frame(&mut self, machine: &mut Machine) -> Result<(), SqlError> {
        let mut frame = machine.frames.pop().expect("the caller has looked");
        self.leave_program();
        if machine.frames.is_empty() {
            machine.row = frame.row.take();
            machine.returned = frame.returned.take();
        }
        for out in std::mem::take(&mut frame.outs) {
            let ty = frame.program.slots[out.slot].ty.clone();
            let value = std::mem::take(&mut frame.values[out.slot]);
            let ty = ty.expect("a parameter has a type");
            self.give_out(machine, out, (value, ty))?;
        }
        let Some(caller) = machine.frames.last_mut() else {
            return Ok(());
        };
        let done = caller.at;
        caller.at += 1;
        self.handle_warnings(machine, done, Mark::START);
        Ok(())
    }

    fn machine_ends(&mut self, machine: &mut Machine) -> Progress {
        // A client that takes one result only goes without them.
        self.diagnostics.end_show();
        let is_told = self.client.several_prepared_results;
        if is_told && !machine.placeholders.is_empty() {
            let (columns, row): (Vec<_>, Vec<_>) = machine.placeholders.drain(..).unzip();
            self.program.gives_out_params = true;
            return Progress::Rows(columns.into(), vec![row]);
        }
        self.program.gives_out_params = false;
        let affected_rows = u64::try_from(self.context.row_count.get()).unwrap_or(0);
        // Whatever the program's last statement was, CALL has a count of its own.
        self.context.row_count.set(affected_rows as i64);
        let info = OkInfo {
            affected_rows,
            ..OkInfo::default()
        };
        Progress::Done(info, machine.depends_on)
    }

    // Conditions.

    /// An instruction has failed: its handler begins, or that of a frame below.
    fn raise(&mut self, machine: &mut Machine, e: SqlError) -> Result<(), ExecError> {
        self.undo_failed(&e);
        if ends_everything(&e) || self.ends_what_fired(&e) {
            return Err(e.into());
        }
        while let Some(frame) = machine.frames.last_mut() {
            let seen = Seen {
                code: e.code,
                state: e.sqlstate(),
                level: Level::Error,
            };
            let at = frame.at.min(frame.program.code.len().saturating_sub(1));
            if let Some(handler) = self.handler_of(machine, at, seen) {
                self.diagnostics.record(&self.vars, &e);
                self.begin_handler(machine, handler, at, entry_of(&e));
                return Ok(());
            }
            machine.frames.pop();
            self.leave_program();
        }
        Err(e.into())
    }

    fn handler_of(&self, machine: &Machine, at: usize, seen: Seen<'_>) -> Option<usize> {
        let program = &machine.frames.last()?.program;
        let scope = program.code.get(at)?.scope;
        find(&program.scopes, &program.handlers, scope, seen)
    }

    /// Warnings that an instruction has left may have a handler; the last one counts.
    fn handle_warnings(&mut self, machine: &mut Machine, done: usize, before: Mark) {
        let mut found = None;
        for warning in self.diagnostics.since(before) {
            if warning.level == Level::Error {
                continue;
            }
            let seen = Seen {
                code: warning.code,
                state: sqlstate_of(warning),
                level: warning.level,
            };
            if let Some(handler) = self.handler_of(machine, done, seen) {
                found = Some((handler, warning.clone()));
            }
        }
        if let Some((handler, warning)) = found {
            self.begin_handler(machine, handler, done, warning);
        }
    }

    fn begin_handler(&mut self, machine: &mut Machine, handler: usize, at: usize, raised: Warning) {
        let frame = machine.frames.last_mut().expect("it has the handler");
        let handled = Arc::new(Handled {
            conditions: self.diagnostics.conditions().to_vec(),
            raised,
        });
        frame.active.push(Active {
            handler,
            resume: frame.program.code[at].resume,
            handled,
            began: self.diagnostics.mark(),
        });
        frame.at = frame.program.handlers[handler].start;
    }

    fn end_handler(&mut self, frame: &mut Frame, exit: Option<usize>) -> Flow {
        let ended = frame.active.pop().expect("a handler runs");
        self.diagnostics.forget_before(ended.began);
        match exit {
            Some(to) => {
                let depth = frame.program.handlers[ended.handler].depth;
                frame.active.truncate(depth);
                Flow::To(to)
            }
            None => Flow::To(ended.resume),
        }
    }

    /// What the handler that runs in a frame handles.
    pub(super) fn note_handled(&mut self, frame: &Frame) {
        self.program.handled = frame.active.last().map(|active| active.handled.clone());
    }
}

/// Is it nothing that a program may handle: KILL, the end of its time, the end of the server?
pub(super) fn ends_everything(e: &SqlError) -> bool {
    const SHUTDOWN: u16 = 1053;
    const TIMEOUT: u16 = 3024;
    const DEFECT: u16 = 1815;
    matches!(e.code, SHUTDOWN | INTERRUPTED | TIMEOUT | DEFECT)
}
