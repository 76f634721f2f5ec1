//! What a statement sees of its session while it is bound and while it runs; made here and nowhere else.
//!
//! Neighbours: everything of `session` that binds or evaluates comes here; `names` resolves names, `context` is what
//! functions and expressions see.
//! **Invariants**: an evaluation context lives for one call, and what was raised in it goes to the diagnostics area at
//! most once; a lock that binding meets comes out as [`ExecError::Wait`].

use esker_engine::View;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::Mode;
use esker_sql_catalog::variables::SessionVars;
use esker_sql_exec::{ExecCtx, StatementEnv};
use esker_sql_plan::bind::{BindEnv, Params};
use esker_sql_plan::expr::UserVars;
use esker_sql_plan::plan::PlanTrace;
use esker_types::ctx::Raised;
use esker_types::{EvalCtx, EvalSettings, SqlMode, SqlResult, SqlType, Value};

use super::names::{Purpose, SessionNames};
use super::{Session, SessionContext};

/// What binding a statement may reach.
pub(super) struct StatementScope<'a> {
    /// Settings, clock, diagnostics.
    pub(super) ctx: EvalCtx<'a>,
    /// Tables and system variables.
    pub(super) names: SessionNames<'a>,
    /// User variables.
    pub(super) vars: &'a dyn UserVars,
    parallel_rows: u64,
    /// Types of the parameters, if they are variables of a program.
    types: Option<&'a [SqlType]>,
    trace: Option<&'a PlanTrace>,
}

impl StatementScope<'_> {
    /// The binder's environment for one statement.
    pub(super) fn env<'s>(&'s self, params: Params<'s>) -> BindEnv<'s> {
        self.env_with(self.vars, params)
    }

    /// The same with other user variables.
    pub(super) fn env_with<'s>(
        &'s self,
        vars: &'s dyn UserVars,
        params: Params<'s>,
    ) -> BindEnv<'s> {
        let params = match (params, self.types) {
            (Params::Values(values), Some(types)) if values.len() == types.len() => {
                Params::Typed(values, types)
            }
            (params, _) => params,
        };
        let mut env = BindEnv::new(&self.ctx, vars, &self.names, params);
        env.parallel_rows = self.parallel_rows;
        env.trace = self.trace;
        env.of_program = self.types.is_some();
        env
    }
}

impl Session {
    /// The statement's time, microseconds: what NOW() is, and when what it makes was made.
    pub(super) fn statement_now(&self) -> i64 {
        self.context.now_under(&self.vars)
    }
}

impl SessionContext {
    /// The evaluation context of one statement under these variables.
    pub(super) fn eval_ctx(&self, vars: &SessionVars) -> EvalCtx<'_> {
        EvalCtx::new(self.eval_settings(vars), self)
    }

    fn now_under(&self, vars: &SessionVars) -> i64 {
        vars.fixed_now
            .unwrap_or_else(|| self.statement_micros.get())
    }

    /// What evaluation depends on under these variables.
    pub(super) fn eval_settings(&self, vars: &SessionVars) -> EvalSettings {
        EvalSettings {
            sql_mode: vars.sql_mode,
            time_zone: vars.time_zone.clone(),
            now_micros: self.now_under(vars),
            div_precision_increment: vars.div_precision_increment,
            default_week_format: vars.default_week_format,
            auto_is_null: vars.auto_is_null,
            time_names: vars.time_names,
            max_allowed_packet: vars.max_allowed_packet,
            group_concat_max_len: vars.group_concat_max_len,
            collation_connection: vars.collation_connection,
            block_encryption: vars.block_encryption,
        }
    }
}

impl Session {
    /// The scope of one statement. For what [`Self::bind`] is not enough.
    pub(super) fn scope(&mut self, purpose: Purpose) -> StatementScope<'_> {
        let counts = self.diagnostics.counts();
        let (only_reads, applies) = (self.only_reads(), self.is_applying());
        let mut settings = self.context.eval_settings(&self.vars);
        if purpose == Purpose::DefineView {
            // Whoever reads the view has a mode of his own.
            settings.sql_mode = settings.sql_mode.without(SqlMode::ONLY_FULL_GROUP_BY);
        }
        StatementScope {
            ctx: EvalCtx::new(settings, &self.context),
            names: SessionNames::new(
                &self.context,
                &self.values,
                &mut self.locks,
                counts,
                (&self.profiles, &self.traces),
                purpose,
            )
            .reading_only(only_reads, applies),
            vars: &self.context,
            parallel_rows: self.vars.parallel_rows,
            types: self.program.types.as_deref(),
            trace: self.traces.current(),
        }
    }

    /// Binds; what it warns about goes to the diagnostics area.
    pub(super) fn bind<R>(
        &mut self,
        purpose: Purpose,
        f: impl FnOnce(&StatementScope<'_>) -> SqlResult<R>,
    ) -> Result<R, ExecError> {
        let (bound, raised) = self.bind_apart(purpose, f);
        // What waits is bound again, and warns again.
        if !matches!(bound, Err(ExecError::Wait(_))) {
            self.diagnostics.add(&self.vars, raised);
        }
        bound
    }

    /// Binds what warns again when it runs.
    pub(super) fn bind_quietly<R>(
        &mut self,
        purpose: Purpose,
        f: impl FnOnce(&StatementScope<'_>) -> SqlResult<R>,
    ) -> Result<R, ExecError> {
        self.bind_apart(purpose, f).0
    }

    /// The same, with what it warns of.
    pub(super) fn bind_apart<R>(
        &mut self,
        purpose: Purpose,
        f: impl FnOnce(&StatementScope<'_>) -> SqlResult<R>,
    ) -> (Result<R, ExecError>, Raised) {
        let scope = self.scope(purpose);
        let bound = scope.names.conclude(f(&scope));
        (bound, scope.ctx.diagnostics.take())
    }

    /// Runs `f` with what executing a statement over the session's snapshot may reach: its result, and what was
    /// raised. `slow`: a function of the statement waits per row.
    pub(super) fn execute<R>(
        &self,
        mode: Mode,
        slow: bool,
        params: &[Value],
        f: impl FnOnce(&StatementEnv<'_>) -> R,
    ) -> (R, Raised) {
        let ctx = self.context.eval_ctx(&self.vars);
        let is_strict = self.is_strict_around();
        ctx.diagnostics.strict_write.set(is_strict);
        let killed = || self.context.check();
        let exec = ExecCtx::new(&self.txn, View::Snapshot, mode, self.limits(), &killed)
            .with_slow_rows(slow)
            .with_temp(Some(&self.temp));
        let env = StatementEnv {
            ctx: &ctx,
            params,
            vars: &self.context,
            exec: &exec,
        };
        let result = f(&env);
        (result, ctx.diagnostics.take())
    }
}
