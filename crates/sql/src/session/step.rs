//! Running a statement of a request, step by step.
//!
//! Neighbours: `request` has the statement and what follows it; the server steps, and waits where a step says so; `run`
//! and `text` do the work of a step; `mod` holds the session's state.
//!
//! **Invariants**
//! - A step never blocks in [`Mode::Inline`]. A statement that has to wait there has undone its writes
//!   before it answers [`Step::Wait`], keeps its locks, and runs again from its beginning.
//! - Between two steps the request is in `Session::running`; during one it is not, so that its parts can be borrowed.
//! - A statement that is run again after a wait is counted once.
//! - An error ends the request: what follows it in the text is not run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_engine::{EngineError, Seq, Ticket};
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_catalog::result::{ColumnMeta, Mode, Outcome, OutcomeKind, Step, WaitFor};
use esker_sql_syntax::ast::Statement;
use esker_types::{SqlError, SqlResult, Value};

use super::plans::{Plan, PlanKey};
use super::program::Progress;
use super::request::{Running, Work};
use super::rows::RowSource;
use super::run::Done;
use super::statements::Execution;
use super::utility::commits_implicitly;
use super::{Session, registry};
use crate::counts::{self, Counter};

impl Session {
    /// Runs the started statement as far as `mode` allows.
    ///
    /// # Panics
    /// When nothing was started: a mistake of the caller.
    pub fn step(&mut self, mode: Mode) -> Step {
        let Some(mut running) = self.running.take() else {
            panic!("step without a started statement");
        };
        self.context.pace.enter(mode);
        let step = self
            .survive(|session| session.step_running(&mut running, mode))
            .unwrap_or_else(|e| {
                self.leave_programs();
                Step::Done(self.fail(e))
            });
        self.context.pace.rest();
        if let Step::Done(outcome) = &step {
            self.note_outcome(&mut running, outcome);
        }
        self.running = Some(running);
        step
    }

    /// How a statement has ended: one that failed is the request's last.
    pub(super) fn note_outcome(&mut self, running: &mut Running, outcome: &Outcome) {
        self.audit_statement(running, outcome);
        self.end_trace(running, outcome);
        if matches!(outcome.result, OutcomeKind::Err(_)) {
            self.leave_programs();
            running.end();
            self.end_hints();
            self.end_command();
        }
    }

    /// Tells how the wait of [`Step::Wait`] ended; None: it took too long.
    pub fn waited(&mut self, result: Option<SqlResult<()>>) {
        self.end_wait();
        let error = match result {
            Some(Ok(())) => None,
            Some(Err(e)) => Some(e),
            None => self.context.check().err().or_else(|| {
                let timeout = engine_error(&EngineError::LockWaitTimeout);
                Some(self.name_blockers(timeout))
            }),
        };
        if let Some(running) = &mut self.running {
            if let Some(since) = running.waiting_since {
                self.measure.waited(since.elapsed());
            }
            running.wait_error = error;
        }
    }

    /// Turns a lock to be waited for into a step.
    fn wait(&mut self, running: &mut Running, ticket: Ticket) -> Step {
        let since = *running.waiting_since.get_or_insert_with(Instant::now);
        let left = self.time_left_since(since);
        let timeout = self.until_look(left);
        let process = self.context.process.clone();
        self.show_wait();
        Step::Wait(WaitFor {
            ready: Box::pin(registry::KillableWait::new(process, ticket)),
            timeout,
        })
    }

    /// Shows what the session is about to wait for.
    pub(super) fn show_wait(&mut self) {
        let metadata = self.locks.waits_for();
        self.row_wait_since = metadata.is_none().then(Instant::now);
        let state = metadata.unwrap_or("Waiting for row lock");
        self.context.process.show_state(state);
    }

    /// The wait is over, however it ended.
    pub(super) fn end_wait(&mut self) {
        self.context.process.show_state("");
        if let Some(since) = self.row_wait_since.take() {
            let times = &self.context.instance.counters.row_lock_waits;
            times.add(since.elapsed());
        }
    }

    /// How long the lock may take that the current statement waits for.
    pub(crate) fn lock_timeout(&self) -> Duration {
        if self.locks.is_waiting() {
            self.statement_lock_wait
                .unwrap_or(self.vars.metadata_lock_timeout)
        } else {
            self.vars.row_lock_timeout
        }
    }

    fn step_running(&mut self, running: &mut Running, mode: Mode) -> Step {
        if running.program.is_some() {
            let done = self.run_program(running, mode);
            return self.settle(running, done);
        }
        if let Some(e) = running.wait_error.take() {
            let outcome = self.fail(e);
            if let Work::Ready(statement, _) = &running.work
                && commits_implicitly(statement)
                && !self.has_changed_tables()
            {
                // What was open before it is committed, and it leaves no lock.
                self.rollback_transaction();
            }
            return Step::Done(outcome);
        }
        let prepared = match &running.work {
            Work::Ready(_, prepared) => *prepared,
            _ => None,
        };
        let done = self.run_work(running, mode);
        if let Some(id) = prepared {
            self.compare_columns(id, &done);
        }
        self.settle(running, done)
    }

    /// Has the prepared statement another number of columns than the client knows? It is told so, as in MySQL.
    fn compare_columns(&mut self, id: u32, done: &Result<Done, ExecError>) {
        let columns = match done {
            Ok(Done::Rows(source)) => source.columns().len(),
            Ok(Done::ShortRows(plan)) => plan.columns.len(),
            _ => return,
        };
        if let Ok(prepared) = self.prepared.find_mut(id)
            && prepared.columns != 0
            && prepared.columns != columns
        {
            prepared.columns = columns;
            self.columns_changed = true;
        }
    }

    /// What follows from how the statement ended.
    pub(super) fn settle(&mut self, running: &mut Running, done: Result<Done, ExecError>) -> Step {
        match done {
            Ok(Done::Rows(source)) => {
                let columns = source.columns();
                running.work = Work::Rows(source);
                self.rows_follow(columns)
            }
            Ok(Done::ShortRows(plan)) => {
                let columns = plan.columns.clone();
                running.work = Work::ShortRows(plan);
                self.rows_follow(columns)
            }
            Ok(Done::Ok(info, commit)) => {
                running.work = Work::Finished;
                if self.client.is_released {
                    running.end();
                }
                if !self.diagnostics.is_shown() {
                    self.context.row_count.set(info.affected_rows as i64);
                }
                let depends_on = self.dependency_of_ok(commit);
                Step::Done(Outcome {
                    result: OutcomeKind::Ok(info),
                    depends_on,
                })
            }
            Ok(Done::Program(machine)) => {
                running.program = Some(machine);
                let done = self.run_program(running, Mode::Thread);
                self.settle(running, done)
            }
            Ok(Done::NeedThread) => Step::NeedThread,
            Ok(Done::NeedFile(name)) => Step::NeedFile(name),
            Err(ExecError::Sql(e)) => Step::Done(self.fail(e)),
            Err(ExecError::Wait(ticket)) => self.wait(running, ticket),
        }
    }

    /// Goes on with the CALL that is under way.
    fn run_program(&mut self, running: &mut Running, mode: Mode) -> Result<Done, ExecError> {
        if mode == Mode::Inline {
            return Ok(Done::NeedThread);
        }
        let failed = running.wait_error.take();
        let mut machine = running.program.take().expect("the caller has looked");
        match self.run_machine(&mut machine, failed) {
            Ok(Progress::Rows(columns, rows)) => {
                self.owed = self.owed.max(machine.depends_on);
                running.program = Some(machine);
                let rows = RowSource::Table(columns, rows.into_iter());
                Ok(Done::Rows(Box::new(rows)))
            }
            Ok(Progress::Done(info, seq)) => Ok(Done::Ok(info, seq)),
            Err(wait @ ExecError::Wait(_)) => {
                running.program = Some(machine);
                Err(wait)
            }
            Err(e) => {
                self.leave_programs();
                Err(e)
            }
        }
    }

    fn rows_follow(&mut self, columns: Arc<[ColumnMeta]>) -> Step {
        Step::Done(Outcome {
            result: OutcomeKind::Rows(columns),
            depends_on: self.dependency(),
        })
    }

    /// What the session has committed, and seen of others, and not waited for.
    fn dependency(&mut self) -> Seq {
        let seen = std::mem::take(&mut self.owed).max(self.txn.dependency());
        std::mem::take(&mut self.unanswered).max(seen)
    }

    /// What an OK has to wait for. Inside a transaction it shows no rows and promises nothing before
    /// COMMIT does, so the wait is put off to the next reply that shows or promises something: row
    /// locks must not be held for it (`docs/decisions/reader-rule.md`). What a program has committed before it began
    /// that transaction is promised.
    fn dependency_of_ok(&mut self, commit: Seq) -> Seq {
        let commit = std::mem::take(&mut self.unanswered).max(commit);
        let seen = self.dependency();
        if self.in_transaction() {
            self.owed = seen;
            return commit;
        }
        seen.max(commit)
    }

    /// Runs the statement, from the plan of its text if there is one.
    fn run_work(&mut self, running: &mut Running, mode: Mode) -> Result<Done, ExecError> {
        if let Work::Text = running.work
            && self.context.gtid_next.is_plain()
            && self.filling.is_none()
            && !self.vars.trace.enabled
            && let Some((key, plan, version)) = self.find_text_plan(running)
        {
            running.work = Work::Planned(key, plan, version);
        }
        if let Work::Planned(key, plan, _) = &running.work
            && !std::mem::replace(&mut running.counted, true)
        {
            let command = plan.command();
            running.command = Some(command);
            self.begin_planned((*key, plan, command), &running.text)?;
        }
        if let Work::Planned(key, plan, version) = &running.work {
            let params = &running.params;
            if let Some(done) = self.run_text_plan(*key, plan, *version, params, mode)? {
                return Ok(done);
            }
            running.work = Work::Text;
            running.next = 0;
        }
        if let Work::Text = running.work {
            running.params.clear();
            running.begin = running.next;
            match self.parse_next(running) {
                Ok(work) => {
                    running.work = work;
                    self.show_one_of_many(running);
                }
                Err(e) => {
                    self.diagnostics.clear();
                    self.measure(Counter::EskerComError, None, &running.text[running.begin..]);
                    return Err(e.into());
                }
            }
        }
        let Work::Ready(statement, id) = &running.work else {
            panic!("step of a finished statement");
        };
        if !std::mem::replace(&mut running.counted, true) {
            let command = counts::command_of(statement);
            running.command = Some(command);
            let text = &running.text[running.begin..running.next];
            self.begin_parsed((&**statement, *id, command), text, &mut running.params)?;
        }
        self.run_statement(statement, &running.params, *id, mode)
    }

    /// Of several statements in one request the one that runs is shown, and logged, alone.
    fn show_one_of_many(&self, running: &mut Running) {
        running.is_one_of_many |= running.has_more();
        if running.is_one_of_many {
            let statement = &running.text[running.begin..running.next];
            let since = self.context.statement_micros.get();
            self.context
                .process
                .begin(since, "Query", statement.trim_ascii());
        }
    }

    /// A statement begins.
    pub(super) fn count_command(&mut self, command: Counter) {
        self.count(command, 1);
        if let Some(command) = counts::protocol_command(command) {
            self.count(command, 1);
        }
        self.plan_counted = false;
    }

    /// A statement with a plan begins: it is counted, measured and admitted.
    fn begin_planned(
        &mut self,
        (key, plan, command): (PlanKey, &Plan, Counter),
        text: &[u8],
    ) -> SqlResult<()> {
        self.count(Counter::Queries, 1);
        self.count_command(command);
        self.measure_planned(key, command, text);
        if self.vars.log.statements {
            text.clone_into(&mut self.statement_text);
        }
        let changes = match plan {
            Plan::Change(..) => true,
            Plan::Parsed(statement) => counts::changes_data(statement),
            Plan::Read(_) | Plan::Query(_) | Plan::Long(_) => false,
        };
        self.admit_statement(changes, false)
    }

    /// The same for one that was parsed, or prepared under an id.
    fn begin_parsed(
        &mut self,
        (statement, id, command): (&Statement, Option<u32>, Counter),
        text: &[u8],
        params: &mut [Value],
    ) -> SqlResult<()> {
        self.count(Counter::Queries, 1);
        self.count_command(command);
        let prepared = id.and_then(|id| Some((id, self.prepared.get(id)?)));
        let mut settled = Ok(());
        match prepared {
            Some((id, prepared)) => {
                settled = prepared.settle_limits(params, Execution::Protocol);
                let sql = prepared.sql.clone();
                self.measure_planned(PlanKey::Prepared(id), command, &sql);
            }
            None => self.measure_text(command, text),
        }
        settled?;
        let renews = matches!(
            statement,
            Statement::AlterUser(_) | Statement::SetPassword(_)
        );
        self.admit_statement(counts::changes_data(statement), renews)
    }

    /// The outcome of an error: its place in the diagnostics area, its effect on the transaction.
    pub(super) fn fail(&mut self, e: SqlError) -> Outcome {
        self.measure.failed(&e);
        self.diagnostics.record(&self.vars, &e);
        self.advise();
        self.undo_failed(&e);
        Outcome {
            result: OutcomeKind::Err(e),
            depends_on: self.dependency(),
        }
    }

    /// What an error does to locks and transaction.
    pub(super) fn undo_failed(&mut self, e: &SqlError) {
        const DEADLOCK: u16 = 1213;
        const TIMEOUT: u16 = 1205;
        let instance = &self.context.instance;
        let ends_all = e.code == DEADLOCK
            || (e.code == TIMEOUT && instance.variable_is_on("innodb_rollback_on_timeout"));
        self.context.row_count.set(-1);
        if self.is_firing() {
            // The statement around it decides.
            return;
        }
        let unused = self.unused_characteristics();
        self.locks.release_statement();
        if e.code == DEADLOCK && self.context.xa.is_some() {
            self.doom_branch();
        } else if ends_all {
            self.rollback_transaction();
        } else if self.commits_at_end() {
            self.roll_back_statement(unused);
        }
    }
}
