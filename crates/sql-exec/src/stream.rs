//! A running query: rows on demand.
//!
//! Neighbours: the session pulls rows into a [`RowSink`]; `dml` pulls values (INSERT … SELECT) and
//! target rows (UPDATE, DELETE); derived tables and subqueries are streams inside streams.
//! **Invariants**: a stream borrows nothing: the transaction and the session come in with every
//! call, so it can be kept between packets; memory it holds is accounted in its states and given
//! back when it ends.

use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_catalog::result::RowSink;
use esker_sql_plan::expr::UserVars;
use esker_sql_plan::plan::QueryPlan;
use esker_sql_plan::plan::profile::Profile;
use esker_types::ctx::MANY_BYTES;
use esker_types::{EvalCtx, Value};

use super::ExecCtx;
use super::root::RootExec;
use crate::{ExecEnv, Executor, SubqueryStates};

/// What the session brings to every step of a statement.
#[derive(Clone, Copy)]
pub struct StatementEnv<'a> {
    /// Statement context for kernels.
    pub ctx: &'a EvalCtx<'a>,
    /// Parameters.
    pub params: &'a [Value],
    /// User variables.
    pub vars: &'a dyn UserVars,
    /// Tables.
    pub exec: &'a ExecCtx<'a>,
}

impl<'a> StatementEnv<'a> {
    /// What runs the statement's queries, with the given states.
    pub fn executor(&self, states: &'a SubqueryStates) -> Executor<'a> {
        Executor::new(Some(self.exec), states)
    }

    /// The environment of the statement's operators.
    pub fn env(&self, executor: &'a Executor<'a>) -> ExecEnv<'a> {
        executor.env(self.ctx, self.params, self.vars)
    }
}

/// A running query.
pub struct RowStream {
    plan: Arc<QueryPlan>,
    states: SubqueryStates,
    root: RootExec,
}

impl RowStream {
    /// Starts a plan; nothing is read yet.
    pub fn open(plan: Arc<QueryPlan>) -> Self {
        let root = RootExec::new(&plan);
        Self {
            plan,
            states: SubqueryStates::default(),
            root,
        }
    }

    /// Starts a plan whose operators are measured.
    pub fn measured(plan: Arc<QueryPlan>) -> Self {
        let mut stream = Self::open(plan);
        stream.states.profile = Some(Box::default());
        stream
    }

    /// Its rows go to variables of a program: bad values in the select list are errors.
    pub fn store_strictly(&mut self) {
        self.root.store_strictly();
    }

    /// What the operators of a measured stream did so far.
    pub fn profile(&self) -> Option<&Profile> {
        self.states.profile.as_deref()
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<QueryPlan> {
        &self.plan
    }

    /// The next row, lent until the next call.
    pub fn next(&mut self, env: &StatementEnv<'_>) -> ExecResult<Option<&[Value]>> {
        let executor = env.executor(&self.states);
        let env = env.env(&executor);
        self.root.next_of(&self.plan, &env)
    }

    /// Writes rows into `sink` until it holds `max_bytes`. False when the query is exhausted.
    pub fn pull(
        &mut self,
        env: &StatementEnv<'_>,
        sink: &mut dyn RowSink,
        max_bytes: usize,
    ) -> ExecResult<bool> {
        let executor = env.executor(&self.states);
        let env = env.env(&executor);
        while sink.bytes() < max_bytes {
            let Some(row) = self.root.next_of(&self.plan, &env)? else {
                return Ok(false);
            };
            debug_assert_eq!(
                row.len(),
                self.plan.columns.len(),
                "a row has the columns that were announced"
            );
            let bytes: usize = row.iter().map(Value::text_len).sum();
            if bytes >= MANY_BYTES {
                // The packet is as long once more.
                env.eval.ctx.session.may_make(bytes)?;
            }
            sink.begin_row();
            for (value, column) in row.iter().zip(self.plan.columns.iter()) {
                sink.value(value.as_ref(), &column.ty);
            }
            sink.end_row();
        }
        Ok(true)
    }

    /// Rows given so far; with SQL_CALC_FOUND_ROWS, after the end, rows there would be without LIMIT.
    pub fn found_rows(&self) -> u64 {
        self.root.found_rows()
    }
}
