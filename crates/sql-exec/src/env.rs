//! What operators reach besides their rows.
//!
//! Neighbours: `stream`, `dml` and the tasks of `parallel` make an [`Executor`] per step, and an [`ExecEnv`] from it;
//! expressions see the [`EvalEnv`] in it, and come back through [`Queries`] when they meet a subquery.
//! **Invariant**: an environment and the executor that its expressions know have the same tables and states.

use std::ops::Deref;
use std::sync::Arc;

use esker_engine::View;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::{
    EvalEnv, Match, OuterRow, Queries, StoredCall, Subquery, TURN_BYTES, UserVars,
};
use esker_types::fulltext::Search;
use esker_types::{EvalCtx, SqlResult, Value, errors};

use super::{ExecCtx, SubqueryStates, fulltext, subquery};

/// Where a statement's queries run: tables, and the states of its subqueries.
#[derive(Clone, Copy)]
pub struct Executor<'a> {
    exec: Option<&'a ExecCtx<'a>>,
    states: &'a SubqueryStates,
}

impl<'a> Executor<'a> {
    /// Without tables (`None`), nothing that reads one may run.
    pub fn new(exec: Option<&'a ExecCtx<'a>>, states: &'a SubqueryStates) -> Self {
        Self { exec, states }
    }

    /// The environment of a statement's operators.
    pub fn env(
        &'a self,
        ctx: &'a EvalCtx<'a>,
        params: &'a [Value],
        vars: &'a dyn UserVars,
    ) -> ExecEnv<'a> {
        ExecEnv {
            eval: EvalEnv {
                ctx,
                params,
                vars,
                outer: None,
                queries: Some(self),
                calls: &self.states.calls,
            },
            exec: self.exec,
            states: self.states,
        }
    }
}

impl Queries for Executor<'_> {
    fn evaluate(&self, query: &Subquery, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        let env = ExecEnv {
            eval: *env,
            exec: self.exec,
            states: self.states,
        };
        subquery::evaluate(query, row, &env)
    }

    fn search(&self, call: &Match, env: &EvalEnv<'_>) -> ExecResult<Arc<Search>> {
        let env = ExecEnv {
            eval: *env,
            exec: self.exec,
            states: self.states,
        };
        let view = self.exec.map_or(View::Latest, |exec| exec.view);
        fulltext::search(call, view, &env)
    }

    fn call_stored(&self, call: &StoredCall, args: Vec<Value>) -> ExecResult<Value> {
        match self.exec {
            Some(exec) => exec.call_stored(call, args),
            None => Err(errors::internal("a stored function without a transaction").into()),
        }
    }

    fn tick(&self, ctx: &EvalCtx<'_>) -> SqlResult<()> {
        tick(self.exec, ctx)
    }
}

/// Everything an operator may reach besides its rows. Expressions take it as their [`EvalEnv`].
#[derive(Clone, Copy)]
pub struct ExecEnv<'a> {
    /// What expressions see.
    pub eval: EvalEnv<'a>,
    /// Access to tables; `None` where none is read.
    pub exec: Option<&'a ExecCtx<'a>>,
    /// Running state of the statement.
    pub states: &'a SubqueryStates,
}

/// Counts a row that was looked at. Where no tables are read, as in the tasks of a scan that only join what was read
/// before, the session is asked.
#[inline]
fn tick(exec: Option<&ExecCtx<'_>>, ctx: &EvalCtx<'_>) -> SqlResult<()> {
    match exec {
        Some(exec) => exec.tick(),
        None => ctx.session.go_on(TURN_BYTES),
    }
}

impl<'a> ExecEnv<'a> {
    /// Counts a row that was looked at; now and then asks whether the statement may go on. Every loop over rows does.
    ///
    /// # Errors
    /// The statement was killed, or has run out of time.
    #[inline]
    pub fn tick(&self) -> SqlResult<()> {
        tick(self.exec, self.eval.ctx)
    }

    /// Asks now whether the statement may go on: behind what takes as long as many rows.
    ///
    /// # Errors
    /// As of [`Self::tick`].
    pub fn look(&self) -> SqlResult<()> {
        match self.exec {
            Some(exec) => exec.look(),
            None => self.eval.ctx.session.go_on(TURN_BYTES),
        }
    }

    /// The same environment one query level further in.
    pub fn nested<'b>(&self, outer: &'b OuterRow<'b>) -> ExecEnv<'b>
    where
        'a: 'b,
    {
        ExecEnv {
            eval: self.eval.nested(outer),
            ..*self
        }
    }
}

impl<'a> Deref for ExecEnv<'a> {
    type Target = EvalEnv<'a>;

    fn deref(&self) -> &EvalEnv<'a> {
        &self.eval
    }
}
