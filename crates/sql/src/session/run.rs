//! Statements to work: which part of the crate runs a statement, inside which transaction.
//!
//! Neighbours: the step loop calls [`Session::run_statement`]; `plan` and `exec` run queries, `dml`
//! changes rows, `ddl` changes the schema, `show` and `set` do the rest.
//! **Invariants**
//! - A statement that may run long answers [`Done::NeedThread`] in inline mode before it has any effect.
//! - Whatever fails or waits has undone its writes.
//! - At the end of every statement its warnings are in the diagnostics area and its statement-long
//!   metadata locks are gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_engine::Seq;
use esker_sql_catalog::exec_error::{ExecError, ExecResult};
use esker_sql_catalog::result::{ColumnMeta, Mode, OkInfo};
use esker_sql_exec::short::ShortSelect;
use esker_sql_exec::{Limits, RowStream, StatementEnv, SubqueryStates, parallel};
use esker_sql_plan::bind::{LockReason, Params, Scope, bind_condition, bind_expr};
use esker_sql_plan::expr::Expr as BoundExpr;
use esker_sql_plan::plan::{Counted, QueryPlan, plan_query};
use esker_sql_syntax::ast::{Expr, Into as IntoClause, Limit, Literal, Query, Statement, Target};
use esker_sql_syntax::{self as parse, Deprecation, ParseOptions};
use esker_types::ctx::Raised;
use esker_types::{SqlError, SqlResult, SqlType, Value, errors};

use super::explain::RunningPlan;
use super::export;
use super::hints;
use super::names::Purpose;
use super::plans::Deprecations;
use super::program::Machine;
use super::rows::RowSource;
use super::{Running, Session, Work};
use crate::counts::Counter;
use crate::show;

/// Rows that a query may look at on a shared worker.
pub(super) const INLINE_ROWS: f64 = 2000.0;

/// How a statement ended, short of an error or a wait.
pub(super) enum Done {
    /// Without rows; what it committed.
    Ok(OkInfo, Seq),
    /// With rows to be pulled.
    Rows(Box<RowSource>),
    /// With rows of a short read, whose keys lie in the session's buffers.
    ShortRows(Arc<ShortSelect>),
    /// A stored program begins.
    Program(Box<Machine>),
    /// It wants a thread of its own.
    NeedThread,
    /// It wants the client's file of this name.
    NeedFile(Vec<u8>),
}

/// What a parsed text has of deprecated syntax, to be kept with its plan.
pub(super) fn deprecations(list: Vec<Deprecation>) -> Deprecations {
    (!list.is_empty()).then(|| list.into())
}

/// Done without rows.
pub(super) fn ok(seq: Seq) -> Done {
    Done::Ok(OkInfo::default(), seq)
}

impl Session {
    /// Parses the next statement of the request.
    pub(super) fn parse_next(&mut self, running: &mut Running) -> SqlResult<Work> {
        let options = ParseOptions {
            multi: self.client.multi_statements,
            ..self.parse_options()
        };
        let text = &running.text;
        // A request that fails to parse has no next statement.
        let start = std::mem::replace(&mut running.next, text.len());
        let parsed = parse::parse_at(text, start, options)?;
        if self.logs_text(&parsed.stmt) {
            self.statement_text = parsed.logged_text(text);
            self.statement_accounts = parsed.accounts;
        }
        running.next = parsed.rest.unwrap_or(text.len());
        self.deprecations = deprecations(parsed.deprecations);
        Ok(Work::Ready(Arc::new(parsed.stmt), None))
    }

    /// Runs a statement as far as `mode` allows, unless gtid_next says that its transaction is executed.
    pub(super) fn run_statement(
        &mut self,
        statement: &Arc<Statement>,
        params: &[Value],
        prepared: Option<u32>,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        self.admit_while_filling(statement)?;
        if let Some(skipped) = self.admit_gtid(statement)? {
            return Ok(skipped);
        }
        let result = self.run_admitted(statement, params, prepared, mode);
        self.settle_gtid(statement, &result);
        result
    }

    fn run_admitted(
        &mut self,
        statement: &Arc<Statement>,
        params: &[Value],
        prepared: Option<u32>,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        let query = match &**statement {
            Statement::Query(query) => Some(&**query),
            Statement::Explain(explain) => explain.analyzed_query(),
            _ => None,
        };
        self.diagnostics.keep_counts(asks_for_counts(statement));
        if keeps_diagnostics(statement) {
            self.diagnostics.show();
        } else {
            self.diagnostics
                .begin(&self.vars, self.deprecations.as_deref());
        }
        self.begin_trace(statement);
        let hints = hints::of(statement);
        if let Some(hints) = hints {
            self.obey_hints(hints);
        }
        let is_prepared = prepared.is_some();
        // Plans that are kept know nothing of hints, and are not considered again.
        let prepared = prepared.filter(|_| hints.is_none() && !self.is_tracing());
        // max_execution_time is for queries of clients.
        let query = query.filter(|_| !self.program.is_running());
        let limit = query.and_then(|q| hints::time_limit(q).or(self.vars.max_execution_time));
        self.begin_statement(limit)?;
        self.context.admit_in_branch(statement)?;
        match &**statement {
            Statement::Query(query) => {
                if !self.is_tracing()
                    && let Some(done) = self.run_kept(query, params, prepared, mode)?
                {
                    return Ok(done);
                }
                self.run_query(query, params, mode)
            }
            change if let Some(switching) = self.context.switching(change) => {
                self.check_read_write()?;
                self.switch(&switching, params)
            }
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
                self.run_change(statement, params, prepared, mode)
            }
            other => {
                self.begin_lock_waits(other);
                self.run_utility(other, params, is_prepared, mode)
            }
        }
    }

    /// What comes before every statement; `limit` is its longest time.
    pub(super) fn begin_statement(&mut self, limit: Option<Duration>) -> SqlResult<()> {
        if !self.program.is_nested() {
            let deadline = limit.map(|d| Instant::now() + d);
            self.context.pace.set_deadline(deadline);
        }
        self.statement_lock_wait = None;
        self.context.check()
    }

    /// SELECT and its kin.
    fn run_query(
        &mut self,
        query: &Query,
        params: &[Value],
        mode: Mode,
    ) -> Result<Done, ExecError> {
        let adapted = self.adapted(query);
        let query = adapted.as_ref().unwrap_or(query);
        if export::is_file(query.into.as_ref()) {
            self.context.require("FILE")?;
        }
        let plan = self.plan(query, params)?;
        self.check_join_size(plan.cost_rows)?;
        self.no_index_used = plan.scans_a_table();
        let waits = plan.blocks || plan.calls.is_some();
        let wants_thread = waits || plan.cost_rows > INLINE_ROWS;
        if mode == Mode::Inline && (wants_thread || export::is_file(query.into.as_ref())) {
            return Ok(Done::NeedThread);
        }
        self.open_query(plan, query.into.as_ref(), params, mode)
    }

    /// Counts what a plan reads without a key, sorts and keeps, and notes its cost.
    fn count_plan(&mut self, plan: &QueryPlan) {
        if std::mem::replace(&mut self.plan_counted, true) {
            return;
        }
        self.context.process.note_cost(plan.cost_rows);
        let counted = Counted::of(plan);
        for (counter, times) in [
            (Counter::SelectScan, counted.select_scan),
            (Counter::SelectRange, counted.select_range),
            (Counter::SelectFullJoin, counted.select_full_join),
            (Counter::SelectFullRangeJoin, counted.select_full_range_join),
            (Counter::SortScan, counted.sort_scan),
            (Counter::SortRange, counted.sort_range),
            (Counter::CreatedTmpTables, counted.created_tmp_tables),
        ] {
            if times > 0 {
                self.count(counter, times);
            }
        }
    }

    /// Starts a plan whose tables are locked.
    pub(super) fn open_query(
        &mut self,
        plan: Arc<QueryPlan>,
        into: Option<&IntoClause>,
        params: &[Value],
        mode: Mode,
    ) -> Result<Done, ExecError> {
        self.count_plan(&plan);
        self.context
            .process
            .show_plan(RunningPlan::Query(plan.clone()));
        let columns = plan.columns.clone();
        let stream = Box::new(RowStream::open(plan));
        let locking = stream.plan().locking;
        let calls = stream.plan().calls.is_some();
        let mut source = RowSource::Stream(stream, params.to_vec(), mode);
        if calls {
            // What functions change belongs to one statement, which ends with the last row.
            let rows = self.whole(|session| session.collect_within_limit(&mut source))?;
            source = RowSource::Table(columns.clone(), rows.into_iter());
        }
        if let Some(into) = into.filter(|into| export::is_file(Some(into))) {
            return self.export(into, &mut source);
        }
        if locking || into.is_some() {
            // Row locks are waited for while the statement can still begin again, so every row is
            // there before the first one is sent.
            let rows = self.collect(&mut source)?;
            if let Some(into) = into {
                return self
                    .store_into(into, &columns, rows)
                    .map_err(ExecError::Sql);
            }
            source = RowSource::Table(columns, rows.into_iter());
        }
        Ok(Done::Rows(Box::new(source)))
    }

    /// max_join_size, unless sql_big_selects is on.
    pub(super) fn check_join_size(&self, rows: f64) -> SqlResult<()> {
        match self.vars.max_join_size {
            Some(limit) if rows > limit as f64 => Err(SqlError::new(
                1104,
                "42000",
                "The SELECT would examine more than MAX_JOIN_SIZE rows; check your WHERE and use \
                 SET SQL_BIG_SELECTS=1 or SET MAX_JOIN_SIZE=# if the SELECT is okay",
            )),
            _ => Ok(()),
        }
    }

    /// The query with what the session's settings add to it: LIMIT with sql_select_limit. None: nothing.
    fn adapted(&self, query: &Query) -> Option<Query> {
        let most = self.vars.select_limit;
        if most == u64::MAX || query.limit.is_some() {
            return None;
        }
        let mut adapted = query.clone();
        adapted.limit = Some(Limit {
            count: Expr::Literal(Literal::Int(most)),
            offset: None,
        });
        Some(adapted)
    }

    /// Binds and plans with the tables locked.
    pub(super) fn plan(
        &mut self,
        query: &Query,
        params: &[Value],
    ) -> Result<Arc<QueryPlan>, ExecError> {
        self.plan_for(Purpose::Run, query, params)
    }

    pub(super) fn plan_for(
        &mut self,
        purpose: Purpose,
        query: &Query,
        params: &[Value],
    ) -> Result<Arc<QueryPlan>, ExecError> {
        self.use_transaction();
        let locks_reads = self.is_serializable() && self.in_transaction();
        self.bind(purpose, |scope| {
            let env = scope.env(Params::Values(params));
            env.locks
                .read_for(locks_reads.then_some(LockReason::Source));
            plan_query(&env, query)
        })
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.vars.query_memory_limit,
            lock_wait: self.vars.row_lock_timeout,
            sort_bytes: self.vars.sort_bytes,
            join_bytes: self.vars.join_bytes,
            table_bytes: self.vars.table_bytes,
            recursion_depth: self.vars.recursion_depth,
            read_threads: parallel::usable_threads(self.vars.read_threads),
            splits: true,
        }
    }

    /// A SLEEP() that KILL QUERY has ended was all of a statement: that has been answered, and a program goes on. Not
    /// one that runs inside of another statement, which is not done.
    pub(super) fn forget_kill(&self) {
        if !self.program.is_nested() {
            self.context.process.clear_query_kill();
        }
    }

    /// The end of a statement that used the transaction: commits under autocommit.
    pub(super) fn end_statement(&mut self, success: bool) -> SqlResult<Seq> {
        if self.is_firing() {
            // The statement around it ends everything.
            return Ok(0);
        }
        let unused = self.unused_characteristics();
        self.locks.release_statement();
        if !self.commits_at_end() {
            return Ok(0);
        }
        if success {
            let uses_tables = unused.is_none();
            let committed = self.commit_transaction();
            self.keep_unused(unused);
            if uses_tables && committed.is_ok() {
                self.use_gtid_of_unlogged_statement();
            }
            committed
        } else {
            self.roll_back_statement(unused);
            Ok(0)
        }
    }

    /// SELECT … INTO @a, @b.
    fn store_into(
        &mut self,
        into: &IntoClause,
        columns: &[ColumnMeta],
        rows: Vec<Vec<Value>>,
    ) -> SqlResult<Done> {
        let IntoClause::Vars(vars) = into else {
            return Err(SqlError::not_supported("SELECT INTO a file"));
        };
        if vars.len() != columns.len() {
            return Err(errors::select_columns_differ());
        }
        let count = rows.len() as u64;
        match rows.into_iter().next() {
            Some(row) => {
                for ((target, value), column) in vars.iter().zip(row).zip(columns) {
                    let Target::User(name) = target else {
                        return Err(errors::internal("a variable of no program"));
                    };
                    self.context.set_user_var(name, value, column.ty.clone())?;
                }
            }
            None => {
                let text = "No data - zero rows fetched, selected, or processed".to_owned();
                self.warn(esker_types::Level::Warning, 1329, text);
            }
        }
        if count > 1 {
            // The variables have the values of the first row.
            return Err(errors::too_many_rows());
        }
        let seq = self.end_statement(true)?;
        Ok(Done::Ok(
            OkInfo {
                affected_rows: count,
                ..OkInfo::default()
            },
            seq,
        ))
    }

    /// Takes the metadata locks that [`Self::evaluate`] needs.
    pub(super) fn lock_tables_of(
        &mut self,
        expr: &Expr,
        params: &[Value],
    ) -> Result<(), ExecError> {
        self.bind_quietly(Purpose::Run, |scope| {
            let env = scope.env(Params::Values(params));
            bind_expr(&env, &Scope::new(), expr).map(drop)
        })
    }

    /// Evaluates an expression that stands outside a query (SET, KILL, DO).
    pub(super) fn evaluate(
        &mut self,
        expr: &Expr,
        params: &[Value],
    ) -> Result<(Value, SqlType), ExecError> {
        let strict = self.program.strict;
        let (bound, calls) = self.bind(Purpose::Run, |scope| {
            scope.ctx.diagnostics.strict_write.set(strict);
            let env = scope.env(Params::Values(params));
            let bound = bind_expr(&env, &Scope::new(), expr)?;
            Ok((bound, env.calls.get().then(|| env.tables_read())))
        })?;
        let (value, raised) = match calls {
            None => self.compute(&bound, params)?,
            Some(used) => self.whole(|session| {
                let compute = |env: &StatementEnv<'_>| compute(&bound, strict, env);
                let (value, raised) = session.execute_calling(used, params, compute);
                Ok((value?, raised))
            })?,
        };
        self.conclude(raised)?;
        Ok((value, bound.ty))
    }

    /// Evaluates a bound expression that calls no stored function.
    pub(super) fn evaluate_bound(
        &mut self,
        bound: &BoundExpr,
        params: &[Value],
    ) -> Result<(Value, SqlType), ExecError> {
        let (value, raised) = self.compute(bound, params)?;
        self.conclude(raised)?;
        Ok((value, bound.ty.clone()))
    }

    fn compute(&self, bound: &BoundExpr, params: &[Value]) -> Result<(Value, Raised), ExecError> {
        let strict = self.program.strict;
        let compute = |env: &StatementEnv<'_>| compute(bound, strict, env);
        let (value, raised) = self.execute(Mode::Thread, false, params, compute);
        Ok((value?, raised))
    }

    fn conclude(&mut self, raised: Raised) -> SqlResult<()> {
        self.context.pace.failure()?;
        self.diagnostics.add(&self.vars, raised);
        Ok(())
    }

    /// Keeps the rows for which a condition over a table's columns holds (SHOW … WHERE).
    pub(crate) fn filter_rows(
        &mut self,
        table: &mut show::Table,
        condition: &Expr,
        params: &[Value],
    ) -> Result<(), ExecError> {
        // The condition may read tables.
        self.use_transaction();
        let columns: Vec<_> = table
            .columns
            .iter()
            .map(|c| (c.name.clone(), c.ty.clone()))
            .collect();
        let (bound, calls) = self.bind_quietly(Purpose::Run, |scope| {
            let env = scope.env(Params::Values(params));
            let mut row = Scope::new();
            row.add_named_row("", &columns, 0);
            let bound = bind_condition(&env, &row, condition)?;
            Ok((bound, env.calls.get().then(|| env.tables_read())))
        })?;
        let rows = std::mem::take(&mut table.rows);
        let filter = |env: &StatementEnv<'_>| filtered(rows, &bound, env);
        table.rows = match calls {
            None => self.execute(Mode::Thread, false, params, filter).0?,
            Some(used) => self.whole(|session| session.execute_calling(used, params, filter).0)?,
        };
        Ok(())
    }
}

/// The rows for which a condition holds.
fn filtered(
    rows: Vec<Vec<Value>>,
    condition: &BoundExpr,
    env: &StatementEnv<'_>,
) -> ExecResult<Vec<Vec<Value>>> {
    let states = SubqueryStates::default();
    let executor = env.executor(&states);
    let env = env.env(&executor);
    let mut kept = Vec::new();
    for row in rows {
        if condition.is_true(&row, &env)? {
            kept.push(row);
        }
    }
    Ok(kept)
}

/// The value of a bound expression; in strict mode bad values are errors.
fn compute(bound: &BoundExpr, strict: bool, env: &StatementEnv<'_>) -> ExecResult<Value> {
    env.ctx.diagnostics.strict_write.set(strict);
    let states = SubqueryStates::default();
    let executor = env.executor(&states);
    bound.eval(&[], &env.env(&executor))
}

/// Does the statement ask how many warnings or errors the one before has had? It begins a diagnostics area of its own.
pub(super) fn asks_for_counts(statement: &Statement) -> bool {
    use esker_sql_syntax::ast::{QueryBody, SelectItem};
    let Statement::Query(query) = statement else {
        return false;
    };
    let QueryBody::Select(select) = &query.body else {
        return false;
    };
    select.from.is_empty()
        && select.items.iter().any(|item| {
            matches!(item, SelectItem::Expr { expr: Expr::SysVar(var), .. }
                if matches!(&*var.name, "warning_count" | "error_count"))
        })
}

/// Statements that show the diagnostics area leave it alone.
fn keeps_diagnostics(statement: &Statement) -> bool {
    use esker_sql_syntax::ast::ShowWhat;
    match statement {
        Statement::Signal(signal) => return signal.resignal,
        Statement::GetDiagnostics(_) => return true,
        _ => {}
    }
    matches!(statement, Statement::Show(show) if matches!(
        show.what,
        ShowWhat::Warnings { .. }
            | ShowWhat::Errors { .. }
            | ShowWhat::CountWarnings
            | ShowWhat::CountErrors
    ))
}
