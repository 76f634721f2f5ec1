//! What a change of rows works in: the session's transaction, buffers and settings, for its own use or lent.
//!
//! Neighbours: `change`, `firing` and `load` run their steps here; `program::function` lends the same things to changes
//! that call stored functions.
//! **Invariant**: what a change calls is known from its plan before it begins.

use std::sync::Arc;

use esker_engine::{Engine, Txn};
use esker_sql_catalog::catalog::{AutoStep, TableDef};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::Mode;
use esker_sql_exec::{Limits, StoredFunctions, TempFiles};
use esker_sql_plan::expr::UserVars;
use esker_types::{EvalCtx, SqlResult, Value};

use super::Session;
use crate::dml::{Beside, DmlEnv, Log, Scratch};

/// What a change may reach: a part of [`DmlEnv`].
pub(super) struct Reach<'a> {
    pub(super) txn: &'a mut Txn,
    pub(super) engine: &'a Engine,
    pub(super) ctx: &'a EvalCtx<'a>,
    pub(super) params: &'a [Value],
    pub(super) vars: &'a dyn UserVars,
    pub(super) check_killed: &'a dyn Fn() -> SqlResult<()>,
    pub(super) temp: &'a TempFiles,
    pub(super) scratch: &'a mut Scratch,
    pub(super) log: Log<'a>,
    pub(super) functions: Option<&'a dyn StoredFunctions>,
}

/// The rest of [`DmlEnv`].
pub(super) struct ChangeFacts {
    mode: Mode,
    limits: Limits,
    autocommit: bool,
    found_rows: bool,
    auto_step: AutoStep,
    auto_first: u64,
    foreign_key_checks: bool,
    auto_interval: u64,
    keeps_rows: bool,
}

impl ChangeFacts {
    /// What a change works in.
    pub(super) fn env(self, reach: Reach<'_>) -> DmlEnv<'_> {
        DmlEnv {
            txn: reach.txn,
            engine: reach.engine,
            ctx: reach.ctx,
            params: reach.params,
            vars: reach.vars,
            mode: self.mode,
            limits: self.limits,
            check_killed: reach.check_killed,
            temp: Some(reach.temp),
            autocommit: self.autocommit,
            found_rows: self.found_rows,
            auto_step: self.auto_step,
            auto_first: self.auto_first,
            foreign_key_checks: self.foreign_key_checks,
            auto_interval: self.auto_interval,
            keeps_rows: self.keeps_rows,
            scratch: reach.scratch,
            log: reach.log,
            functions: reach.functions,
        }
    }
}

impl Session {
    /// Runs a change of these tables, with the stored functions that it calls.
    pub(super) fn calling<R>(
        &mut self,
        targets: &[Arc<TableDef>],
        beside: &Beside,
        run: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let targets = targets.iter().map(|table| table.id);
        let used = || targets.chain(beside.reads.iter().copied()).collect();
        let before = std::mem::replace(&mut self.program.calling, beside.calls.then(used));
        let done = run(self);
        self.program.calling = before;
        done
    }

    /// Runs a step of a change.
    pub(super) fn execute_change<R>(
        &mut self,
        params: &[Value],
        mode: Mode,
        run: impl FnOnce(&mut DmlEnv<'_>) -> Result<R, ExecError>,
    ) -> Result<R, ExecError> {
        if let Some(used) = self.program.calling.clone() {
            return self.change_calling(used, params, run);
        }
        let facts = self.change_facts(mode);
        let ctx = self.context.eval_ctx(&self.vars);
        let killed = || self.context.check();
        let mut env = facts.env(Reach {
            txn: &mut self.txn,
            engine: &self.context.instance.engine,
            ctx: &ctx,
            params,
            vars: &self.context,
            check_killed: &killed,
            temp: &self.temp,
            scratch: &mut self.plans.dml_scratch,
            log: self.capture.if_on().map_or(Log::Off, Log::Own),
            functions: None,
        });
        let result = run(&mut env);
        let raised = ctx.diagnostics.take();
        if !matches!(result, Err(ExecError::Wait(_))) {
            self.diagnostics.add(&self.vars, raised);
        }
        result
    }

    /// What holds for a change while it runs.
    pub(super) fn change_facts(&self, mode: Mode) -> ChangeFacts {
        ChangeFacts {
            mode,
            limits: self.limits(),
            autocommit: self.commits_at_end(),
            found_rows: self.client.found_rows,
            auto_step: self.vars.auto_step(),
            auto_first: self.context.insert_id.get(),
            foreign_key_checks: self.vars.foreign_key_checks,
            auto_interval: self.vars.auto_increment_interval,
            keeps_rows: self.firing.keeps_rows,
        }
    }
}
