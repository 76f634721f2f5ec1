//! Running a request: step by step, statement after statement.
//!
//! Neighbours: the server starts a request, steps, waits where a step says so, and starts the next statement; `run` and
//! `text` do the work of a step; `mod` holds the session's state.
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
use esker_sql_exec::short::ShortSelect;
use esker_sql_syntax::ast::Statement;
use esker_sql_syntax::lexer::is_space;
use esker_types::collation::Charset;
use esker_types::{SqlError, SqlResult, Value};

use super::plans::{Plan, PlanKey};
use super::program::{Machine, Progress};
use super::rows::RowSource;
use super::run::Done;
use super::statements::Execution;
use super::{Counter, Session, counts, registry};

/// What to run.
pub enum Request<'a> {
    /// COM_QUERY.
    Query(&'a [u8]),
    /// COM_STMT_EXECUTE.
    Execute {
        /// Statement id.
        statement: u32,
        /// Parameters.
        params: Vec<Value>,
    },
}

/// The request being run.
pub(super) struct Running {
    /// Text of the request, or of its present statement, UTF-8; empty for the execution of a prepared statement.
    pub(super) text: Vec<u8>,
    /// The character set in which the text was read.
    charset: Charset,
    /// What follows the text, as the client sent it: which characters it has is known when its turn comes.
    unread: Vec<u8>,
    /// Where the statement begins.
    pub(super) begin: usize,
    /// Where the next statement of the text begins.
    pub(super) next: usize,
    /// What the statement is counted as, once that is known.
    pub(super) command: Option<Counter>,
    /// Parameters of the statement.
    pub(super) params: Vec<Value>,
    pub(super) work: Work,
    /// The CALL that is under way.
    program: Option<Box<Machine>>,
    /// Waits of the statement began here.
    pub(super) waiting_since: Option<Instant>,
    /// What a lock wait that ended badly left for the statement's next step.
    pub(super) wait_error: Option<SqlError>,
    /// The statement is in the counters; it may be run again after a wait.
    pub(super) counted: bool,
}

/// How far the current statement has come.
pub(super) enum Work {
    /// Not parsed yet.
    Text,
    /// Ready to run: tree, the prepared statement it came from.
    Ready(Arc<Statement>, Option<u32>),
    /// Ready to run from the plan of its text, which was found when the catalog had this version.
    Planned(PlanKey, Plan, u64),
    /// Rows are being pulled.
    Rows(Box<RowSource>),
    /// A CALL goes on.
    Program,
    /// Rows of a short read are being pulled.
    ShortRows(Arc<ShortSelect>),
    /// Nothing is left to do.
    Finished,
}

/// The buffers of a request are kept for the next one up to this size, bytes.
const KEPT_TEXT_BYTES: usize = 16 * 1024;

impl Running {
    fn new(text: Vec<u8>, params: Vec<Value>, work: Work) -> Self {
        Self {
            text,
            charset: Charset::default(),
            unread: Vec::new(),
            begin: 0,
            next: 0,
            command: None,
            params,
            work,
            program: None,
            waiting_since: None,
            wait_error: None,
            counted: false,
        }
    }

    fn without_text(mut self) -> Self {
        self.text.clear();
        self
    }

    /// Does another statement follow?
    fn has_more(&self) -> bool {
        self.program.is_some() || self.next < self.text.len() || !self.unread.is_empty()
    }

    /// Leaves out what follows.
    pub(super) fn end(&mut self) {
        self.next = self.text.len();
        self.unread.clear();
        self.program = None;
    }

    /// A request that failed before it could run.
    fn failed(e: SqlError) -> Self {
        let mut running = Self::new(Vec::new(), Vec::new(), Work::Text);
        running.wait_error = Some(e);
        running
    }
}

impl Session {
    /// Starts a request; [`Self::step`] runs it.
    pub fn start(&mut self, request: Request<'_>) {
        self.context.process.clear_query_kill();
        self.context.attributes.clear();
        self.leave_programs();
        self.no_index_used = false;
        self.context.pace.set_deadline(None);
        self.count(Counter::Questions, 1);
        let running = match request {
            Request::Query(text) => {
                self.begin_command("Query", &self.to_utf8(text));
                let buffer = std::mem::take(&mut self.spare_text);
                let params = std::mem::take(&mut self.spare_params);
                let mut running = Running::new(buffer, params, Work::Text);
                self.read_statement(&mut running, text);
                running
            }
            Request::Execute { statement, params } => {
                match self.prepared.find_mut(statement, "mysqld_stmt_execute") {
                    Ok(prepared) => {
                        prepared.cursor = None;
                        let work = Work::Ready(prepared.statement.clone(), Some(statement));
                        let (sql, tree) = (prepared.sql.clone(), prepared.statement.clone());
                        self.begin_command("Execute", &sql);
                        self.note_text(&tree, &sql);
                        Running::new(std::mem::take(&mut self.spare_text), params, work)
                            .without_text()
                    }
                    Err(e) => Running::failed(e),
                }
            }
        };
        self.deprecations = None;
        self.running = Some(running);
    }

    /// What the client says of the request that has begun, until the next one: names and values.
    pub fn attach_attributes(
        &mut self,
        attributes: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
    ) {
        // Bytes that are no character are question marks, as in MySQL.
        let utf8 = |text: &[u8]| match String::from_utf8(self.to_utf8(text).into_owned()) {
            Ok(text) => text.into_bytes(),
            Err(e) => {
                let read = String::from_utf8_lossy(e.as_bytes());
                read.replace(char::REPLACEMENT_CHARACTER, "?").into_bytes()
            }
        };
        let named = attributes.into_iter();
        let read = named.map(|(name, value)| (utf8(&name), value.map(|v| utf8(&v))));
        self.context.attributes = read.collect();
    }

    /// Starts a program that no CALL has called.
    pub(super) fn start_program(&mut self, command: &'static str, text: &[u8], machine: Machine) {
        self.context.process.clear_query_kill();
        self.no_index_used = false;
        self.context.pace.set_deadline(None);
        self.begin_command(command, text);
        let mut running = Running::new(Vec::new(), Vec::new(), Work::Program);
        running.program = Some(Box::new(machine));
        self.deprecations = None;
        self.running = Some(running);
    }

    /// Reads the next statement of `raw`, which the client sent.
    fn read_statement(&self, running: &mut Running, raw: &[u8]) {
        let (statement, read) = self.statement_to_utf8(raw, self.client.multi_statements);
        running.charset = self.vars.charset_client;
        running.text.clear();
        running.text.extend_from_slice(&statement);
        (running.begin, running.next) = (0, 0);
        // What MySQL takes off a request's end is no statement.
        let rest = &raw[read..];
        let is_empty = |b: &u8| *b == b';' || is_space(*b);
        running.unread.clear();
        if !rest.iter().all(is_empty) {
            running.unread.extend_from_slice(rest);
        }
    }

    /// Reads the statement that follows, if that depends on what the session's character set is now.
    fn read_next_statement(&self, running: &mut Running) {
        let mut unread = std::mem::take(&mut running.unread);
        let follows = running.next < running.text.len();
        if follows && unread.is_empty() && running.charset != self.vars.charset_client {
            // A text of several statements is as the client sent it.
            unread = running.text.split_off(running.next);
        }
        if !unread.is_empty() {
            self.read_statement(running, &unread);
        }
    }

    /// Keeps the buffers of a request that is over.
    fn recycle(&mut self, running: Running) {
        if running.text.capacity() <= KEPT_TEXT_BYTES {
            self.spare_text = running.text;
            self.spare_params = running.params;
        }
    }

    pub(super) fn begin_command(&mut self, command: &'static str, text: &[u8]) {
        self.context.renew_rights();
        let now = self.context.instance.now_micros();
        self.context.statement_micros.set(now);
        self.context.process.begin(now, command, text);
        self.log_command(now, command, text);
    }

    pub(super) fn end_command(&mut self) {
        let now = self.context.instance.now_micros();
        let spilled = self.temp.take_counts().unwrap_or_default();
        let taken = now - self.context.process.since_micros();
        if taken > self.vars.slow_after_micros {
            self.count(Counter::SlowQueries, 1);
            self.log_slow(now, taken);
        }
        self.end_measure(now, spilled.tables, spilled.merge_passes);
        self.context.process.idle(now, self.in_transaction());
        if spilled.files > 0 {
            self.count(Counter::CreatedTmpFiles, spilled.files);
            self.count(Counter::CreatedTmpDiskTables, spilled.tables);
            self.count(Counter::SortMergePasses, spilled.merge_passes);
        }
    }

    /// Does another statement of the request follow the one that has just ended?
    pub fn has_more(&self) -> bool {
        self.running.as_ref().is_some_and(Running::has_more)
    }

    /// Starts the request's next statement. False when there is none; the request is over then.
    pub fn start_next(&mut self) -> bool {
        self.end_hints();
        if let Some(running) = &mut self.running
            && running.program.is_some()
        {
            running.work = Work::Program;
            running.waiting_since = None;
            return true;
        }
        match self.running.take() {
            Some(mut running) if running.has_more() => {
                self.read_next_statement(&mut running);
                running.work = Work::Text;
                running.waiting_since = None;
                running.counted = false;
                running.command = None;
                self.running = Some(running);
                self.no_index_used = false;
                self.context.pace.set_deadline(None);
                let now = self.context.instance.now_micros();
                self.end_measure(now, 0, 0);
                self.context.statement_micros.set(now);
                self.context.renew_rights();
                true
            }
            over => {
                if let Some(running) = over {
                    self.recycle(running);
                }
                self.end_command();
                self.context.give_back();
                false
            }
        }
    }

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
        self.context.process.show_state("");
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
        process.show_state(if self.locks.is_waiting() {
            "Waiting for table metadata lock"
        } else {
            "Waiting for row lock"
        });
        Step::Wait(WaitFor {
            ready: Box::pin(registry::KillableWait::new(process, ticket)),
            timeout,
        })
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
            return Step::Done(self.fail(e));
        }
        let done = self.run_work(running, mode);
        self.settle(running, done)
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

    /// What the session has seen of others and not waited for.
    fn dependency(&mut self) -> Seq {
        std::mem::take(&mut self.owed).max(self.txn.dependency())
    }

    /// What an OK has to wait for. Inside a transaction it shows no rows and promises nothing before
    /// COMMIT does, so the wait is put off to the next reply that shows or promises something: row
    /// locks must not be held for it (`docs/decisions/reader-rule.md`).
    fn dependency_of_ok(&mut self, commit: Seq) -> Seq {
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
            self.count(Counter::Queries, 1);
            let command = plan.command();
            running.command = Some(command);
            self.count(command, 1);
            self.measure_planned(*key, command, &running.text);
            if self.vars.log.statements {
                self.statement_text.clone_from(&running.text);
            }
            let changes = match plan {
                Plan::Change(..) => true,
                Plan::Parsed(statement) => counts::changes_data(statement),
                Plan::Read(_) | Plan::Query(_) | Plan::Long(_) => false,
            };
            self.admit_statement(changes, false)?;
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
                Ok(work) => running.work = work,
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
            self.count(Counter::Queries, 1);
            let command = counts::command_of(statement);
            running.command = Some(command);
            self.count(command, 1);
            let prepared = id.and_then(|id| Some((id, self.prepared.get(id)?)));
            let mut settled = Ok(());
            match prepared {
                Some((id, prepared)) => {
                    settled = prepared.settle_limits(&mut running.params, Execution::Protocol);
                    let sql = prepared.sql.clone();
                    self.measure_planned(PlanKey::Prepared(id), command, &sql);
                }
                None => self.measure_text(command, &running.text[running.begin..running.next]),
            }
            settled?;
            let renews = matches!(
                **statement,
                Statement::AlterUser(_) | Statement::SetPassword(_)
            );
            self.admit_statement(counts::changes_data(statement), renews)?;
        }
        self.run_statement(statement, &running.params, *id, mode)
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
