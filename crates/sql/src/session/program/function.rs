//! Stored functions inside of statements: the statement's side of a call, and the function's.
//!
//! Neighbours: `sql-exec` evaluates a call through [`StoredFunctions`]; `lender` is what its expressions see of the
//! session meanwhile; `trigger` has what holds for every program inside of a statement.
//! **Invariants**
//! - While a statement that calls functions runs, the executor borrows nothing of the session: its transaction is lent,
//!   and comes back for the time of each call. So a function may do whatever a trigger may.
//! - A function does not run in itself, whatever lies between (1424), and changes no table that a statement around it
//!   uses (1442).

use std::cell::{RefCell, RefMut};

use esker_engine::{Txn, View};
use esker_sql_catalog::catalog::{RoutineDef, TableId};
use esker_sql_catalog::exec_error::{ExecError, ExecResult};
use esker_sql_catalog::result::Mode;
use esker_sql_exec::{ExecCtx, LentTxn, StatementEnv, StoredFunctions, TempFiles};
use esker_sql_plan::expr::StoredCall;
use esker_types::ctx::Raised;
use esker_types::{EvalCtx, SqlError, SqlResult, Value, errors};

use super::super::Session;
use super::super::reach::Reach;
use super::Inside;
use super::lender::Lender;
use super::machine::{Frame, Machine};
use crate::capture::Capture;
use crate::dml::{DmlEnv, Log};

/// What a session lends to a statement that calls functions.
struct Loan<'s> {
    session: RefCell<&'s mut Session>,
    txn: Txn,
    /// What takes down for the log, where the statement changes rows itself.
    capture: Option<RefCell<Capture>>,
}

impl<'s> Loan<'s> {
    fn of(session: &'s mut Session, with_log: bool) -> Self {
        let idle = session
            .context
            .instance
            .engine
            .begin(session.vars.isolation.served());
        let txn = std::mem::replace(&mut session.txn, idle);
        let is_on = with_log && session.capture.if_on().is_some();
        let capture = is_on.then(|| RefCell::new(std::mem::take(&mut session.capture)));
        Self {
            session: RefCell::new(session),
            txn,
            capture,
        }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let session = self.session.get_mut();
        std::mem::swap(&mut session.txn, &mut self.txn);
        if let Some(capture) = self.capture.take() {
            session.capture = capture.into_inner();
        }
    }
}

/// The session with all that is its own, for the time of a call.
struct Whole<'c, 's> {
    session: RefMut<'c, &'s mut Session>,
    txn: &'c mut Txn,
    capture: Option<RefMut<'c, Capture>>,
}

impl Whole<'_, '_> {
    fn exchange(&mut self) {
        std::mem::swap(&mut self.session.txn, self.txn);
        if let Some(capture) = &mut self.capture {
            std::mem::swap(&mut self.session.capture, &mut **capture);
        }
    }
}

impl Drop for Whole<'_, '_> {
    fn drop(&mut self) {
        self.exchange();
    }
}

/// Calls functions in the name of a statement.
struct Caller<'l, 's> {
    session: &'l RefCell<&'s mut Session>,
    capture: Option<&'l RefCell<Capture>>,
    /// The tables that the statement uses.
    used: Vec<TableId>,
}

impl StoredFunctions for Caller<'_, '_> {
    fn call(&self, call: &StoredCall, args: Vec<Value>, txn: &mut Txn) -> ExecResult<Value> {
        let mut whole = Whole {
            session: self.session.borrow_mut(),
            txn,
            capture: self.capture.map(RefCell::borrow_mut),
        };
        whole.exchange();
        whole.session.call_function(call, args, &self.used)
    }
}

impl Session {
    /// [`Self::execute`] for a statement that calls stored functions and reads the tables `used`.
    pub(in super::super) fn execute_calling<R>(
        &mut self,
        used: Vec<TableId>,
        params: &[Value],
        f: impl FnOnce(&StatementEnv<'_>) -> R,
    ) -> (R, Raised) {
        let limits = self.limits();
        let settings = self.context.eval_settings(&self.vars);
        let is_strict = self.is_strict_around();
        let temp = TempFiles::new(self.context.instance.temp.clone());
        let mut loan = Loan::of(self, false);
        let Loan { session, txn, .. } = &mut loan;
        let lender = Lender::new(session);
        let ctx = EvalCtx::new(settings, &lender);
        ctx.diagnostics.strict_write.set(is_strict);
        let caller = Caller {
            session,
            capture: None,
            used,
        };
        let killed = || lender.check();
        let txn = LentTxn::new(txn, &caller);
        let exec = ExecCtx::calling(&txn, View::Snapshot, limits, &killed).with_temp(Some(&temp));
        let result = f(&StatementEnv {
            ctx: &ctx,
            params,
            vars: &lender,
            exec: &exec,
        });
        (result, ctx.diagnostics.take())
    }

    /// [`Self::execute_change`] for a statement that calls stored functions and uses the tables `used`.
    pub(in super::super) fn change_calling<R>(
        &mut self,
        used: Vec<TableId>,
        params: &[Value],
        run: impl FnOnce(&mut DmlEnv<'_>) -> Result<R, ExecError>,
    ) -> Result<R, ExecError> {
        let facts = self.change_facts(Mode::Thread);
        let settings = self.context.eval_settings(&self.vars);
        let temp = TempFiles::new(self.context.instance.temp.clone());
        let mut scratch = std::mem::take(&mut self.plans.dml_scratch);
        let (result, raised) = {
            let mut loan = Loan::of(self, true);
            let Loan {
                session,
                txn,
                capture,
            } = &mut loan;
            let lender = Lender::new(session);
            let ctx = EvalCtx::new(settings, &lender);
            let caller = Caller {
                session,
                capture: capture.as_ref(),
                used,
            };
            let killed = || lender.check();
            let mut env = facts.env(Reach {
                txn,
                engine: lender.engine(),
                ctx: &ctx,
                params,
                vars: &lender,
                check_killed: &killed,
                temp: &temp,
                scratch: &mut scratch,
                log: capture.as_ref().map_or(Log::Off, Log::Lent),
                functions: Some(&caller),
            });
            let result = run(&mut env);
            (result, ctx.diagnostics.take())
        };
        self.plans.dml_scratch = scratch;
        self.diagnostics.add(&self.vars, raised);
        result
    }

    /// The result of a function for one evaluation of a call.
    fn call_function(
        &mut self,
        call: &StoredCall,
        args: Vec<Value>,
        used: &[TableId],
    ) -> ExecResult<Value> {
        let def = &call.function.def;
        self.check_function_runs_once(def)?;
        self.check_nesting()?;
        let mut loaded = self.loaded(def)?;
        let program = loaded.program.clone();
        let mut values = Vec::with_capacity(program.slots.len());
        for ((slot, value), arg) in program.slots.iter().zip(args).zip(&call.args) {
            let ty = slot.ty.as_ref().expect("a parameter has a type");
            values.push(self.converted(value, &arg.ty, (ty, &slot.name))?);
        }
        self.firing_within(used, |session| {
            session.enter_routine(&mut loaded)?;
            let mut frame = Frame::new(&loaded, values, Vec::new());
            frame.returns_as = call.text.clone();
            let mut machine = Machine::new(frame);
            session.run_inside(&mut machine, Inside::Function(def.clone()))?;
            let returned = machine.returned.take();
            Ok(returned.ok_or_else(|| errors::ended_without_return(&def.name))?)
        })
    }

    /// 1415, for the program inside of a statement that runs.
    pub(super) fn no_result_set(&self) -> SqlError {
        errors::no_result_set(match self.program.inside.last() {
            Some(Inside::Function(_)) => "function",
            _ => "trigger",
        })
    }

    /// # Errors
    /// 1424.
    fn check_function_runs_once(&self, def: &RoutineDef) -> SqlResult<()> {
        let is_same = |inside: &Inside| match inside {
            Inside::Function(other) => other.schema == def.schema && other.key() == def.key(),
            Inside::Trigger => false,
        };
        match self.program.inside.iter().any(is_same) {
            true => Err(errors::recursive_function()),
            false => Ok(()),
        }
    }
}
