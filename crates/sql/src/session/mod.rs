//! A session: one client's statements, transaction, variables and prepared statements.
//!
//! Neighbours: the server (or the embedded shell) starts statements and steps through them; `bind`,
//! `plan`, `exec`, `dml` and `ddl` do the work; `esker_engine` keeps the transaction.
//!
//! Parts: this file holds the state and the step loop · `run` maps statements to work · `plans`, `change`,
//! `text` (what is compiled once and run often) · `explain` · `maintain` (CHECKSUM TABLE and its kin) ·
//! `other` (the rest) · `transaction` begins and ends · `xa` (XA transactions) · `counts` (status counters) · `prepared` ·
//! `cursor` (rows kept for COM_STMT_FETCH) · `set` (SET) · `track` (what
//! the client hears of its session) · `facts` (what functions may ask) · `registry` (process list, KILL, GET_LOCK).
//!
//! **Invariants**
//! - A step never blocks in [`Mode::Inline`]. A statement that has to wait there has undone its writes
//!   before it answers [`Step::Wait`], keeps its locks, and runs again from its beginning.
//! - An error undoes the statement's writes, and the whole transaction for a deadlock.
//! - `depends_on` of an outcome covers the commit of a write and every version a read has seen.

mod change;
pub(crate) mod counts;
mod cursor;
mod explain;
mod facts;
mod grants;
mod lookup;
mod maintain;
mod names;
mod other;
mod plans;
mod prepared;
pub mod registry;
mod run;
mod set;
mod shapes;
mod text;
mod track;
mod transaction;
mod xa;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_engine::{Durable, EngineError, Seq, SnapshotAt, Ticket, Txn};
use esker_types::collation::{Charset, Collation};
use esker_types::{Level, SqlError, SqlResult, Value, Warning};

use crate::accounts::Account;
use crate::exec_error::{ExecError, engine_error};
use crate::instance::Instance;
use crate::mdl::LockSet;
use crate::parse::ParseOptions;
use crate::parse::ast::Statement;
use crate::result::{ColumnMeta, Mode, Outcome, OutcomeKind, Step, WaitFor};
use crate::short::ShortSelect;
use crate::variables::{SessionValues, SessionVars};

pub use counts::Counter;
pub(crate) use facts::Facts;
pub use plans::PlanStatistics;
use plans::{Plan, PlanKey, Plans};
pub use prepared::Prepared;
use prepared::PreparedStatement;
use run::{Done, RowSource};
pub use track::StateChange;
use transaction::TransactionState;

/// Who connected, and how.
pub struct ClientInfo {
    /// Connection id.
    pub connection_id: u64,
    /// User name as given.
    pub user: String,
    /// Host as accounts see it.
    pub host: String,
    /// Address and port, for the process list.
    pub peer: String,
    /// The account that matched.
    pub account: Account,
    /// Collation of the connection; None: one this server does not have.
    pub collation: Option<Collation>,
    /// Affected rows are found rows.
    pub found_rows: bool,
    /// COM_QUERY may hold several statements.
    pub multi_statements: bool,
    /// `interactive_timeout` instead of `wait_timeout`.
    pub interactive: bool,
    /// Connection attributes.
    pub attributes: Vec<(String, String)>,
    /// TLS cipher and version.
    pub tls: Option<(String, String)>,
    /// Ends the connection; called by KILL from another session.
    pub on_kill: Box<dyn Fn() + Send + Sync>,
}

/// What of [`ClientInfo`] matters after the login.
pub(crate) struct ClientFlags {
    pub(crate) found_rows: bool,
    pub(crate) multi_statements: bool,
    interactive: bool,
    pub(crate) tls: Option<(String, String)>,
}

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

/// Progress of pulling rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// More rows follow.
    pub more: bool,
    /// The rows given so far may leave when the log is durable up to here.
    pub depends_on: Seq,
}

/// The request being run.
struct Running {
    /// Text of the request, UTF-8; empty for the execution of a prepared statement.
    text: Vec<u8>,
    /// Where the next statement of the text begins.
    next: usize,
    /// Parameters of the statement.
    params: Vec<Value>,
    work: Work,
    /// Waits of the statement began here.
    waiting_since: Option<Instant>,
    /// What a lock wait that ended badly left for the statement's next step.
    wait_error: Option<SqlError>,
    /// The statement is in the counters; it may be run again after a wait.
    counted: bool,
}

/// How far the current statement has come.
enum Work {
    /// Not parsed yet.
    Text,
    /// Ready to run: tree, the prepared statement it came from.
    Ready(Arc<Statement>, Option<u32>),
    /// Ready to run from the plan of its text.
    Planned(PlanKey, Plan),
    /// Rows are being pulled.
    Rows(Box<RowSource>),
    /// Rows of a short read are being pulled.
    ShortRows(Arc<ShortSelect>),
    /// Nothing is left to do.
    Finished,
}

/// The buffers of a request are kept for the next one up to this size, bytes.
const KEPT_TEXT_BYTES: usize = 16 * 1024;

/// One client's state.
pub struct Session {
    pub(crate) facts: Facts,
    pub(crate) client: ClientFlags,
    pub(crate) values: SessionValues,
    pub(crate) vars: SessionVars,
    pub(crate) txn: Txn,
    pub(crate) state: TransactionState,
    pub(crate) locks: LockSet,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) warning_total: u64,
    /// A commit that a statement made on the side (SET autocommit = 1).
    pending_commit: Seq,
    /// What replies without rows inside the open transaction did not wait for.
    owed: Seq,
    /// NOWAIT or WAIT n of the current statement, for metadata locks.
    pub(crate) statement_lock_wait: Option<Duration>,
    /// max_execution_time of the current statement.
    statement_deadline: Option<Instant>,
    prepared: BTreeMap<u32, PreparedStatement>,
    named: HashMap<Box<str>, u32>,
    next_statement_id: u32,
    plans: Plans,
    running: Option<Running>,
    /// What the client hears with the next OK; None: it did not ask.
    marks: Option<Box<track::Marks>>,
    /// Buffers of the request before.
    spare_text: Vec<u8>,
    spare_params: Vec<Value>,
}

impl Session {
    /// A session of a client that has logged in.
    pub fn new(instance: Arc<Instance>, client: ClientInfo) -> Self {
        let values = SessionValues::new(&instance.globals);
        let vars = instance.default_vars(&values);
        let process = instance.registry.add(
            client.connection_id,
            &client.user,
            client.peer,
            instance.now_micros(),
            client.on_kill,
        );
        let mut txn = instance.engine.begin(vars.isolation);
        // The server acknowledges what is durable, or switches this off.
        txn.set_snapshot_at(SnapshotAt::Durable);
        process.set_canceller(Some(txn.wait_canceller()));
        let locks = instance.new_lock_set();
        let plans = Plans::default();
        instance.count_connection();
        let facts = Facts::new(instance, process, client.user, client.host, client.account);
        let mut session = Self {
            facts,
            client: ClientFlags {
                found_rows: client.found_rows,
                multi_statements: client.multi_statements,
                interactive: client.interactive,
                tls: client.tls,
            },
            values,
            vars,
            txn,
            state: TransactionState::default(),
            locks,
            warnings: Vec::new(),
            warning_total: 0,
            owed: 0,
            pending_commit: 0,
            statement_lock_wait: None,
            statement_deadline: None,
            prepared: BTreeMap::new(),
            named: HashMap::new(),
            next_statement_id: 0,
            plans,
            running: None,
            marks: None,
            spare_text: Vec::new(),
            spare_params: Vec::new(),
        };
        session.adopt_collation(client.collation);
        session
    }

    /// The connection's collation, as the handshake asked for it.
    fn adopt_collation(&mut self, collation: Option<Collation>) {
        if let Some(collation) = collation.filter(|c| *c != Collation::BINARY) {
            // The collation exists, so its variables accept it.
            let adopted = self.use_collation(collation);
            debug_assert!(adopted.is_ok());
        }
    }

    /// COM_RESET_CONNECTION: as after a fresh login, transaction rolled back.
    pub fn reset(&mut self) {
        self.rollback_transaction();
        self.locks.release_all();
        self.close_all_statements();
        self.facts.reset();
        self.plans.forget_texts();
        self.state = TransactionState::default();
        self.values = SessionValues::new(&self.facts.instance.globals);
        self.vars = self.facts.instance.default_vars(&self.values);
        self.clear_warnings();
        self.forget_marks();
        self.running = None;
    }

    /// COM_CHANGE_USER, after the new user proved who it is.
    pub fn change_user(&mut self, user: &str, account: Account, collation: Option<Collation>) {
        self.reset();
        self.facts.user = user.to_owned();
        self.facts.account = account;
        self.facts.database = None;
        self.facts.rebind();
        let now = self.facts.instance.now_micros();
        self.facts.process.update(now, |d| {
            d.user = user.to_owned();
            d.database = None;
        });
        self.adopt_collation(collation);
        self.forget_marks();
    }

    /// Connection id.
    pub fn connection_id(&self) -> u64 {
        self.facts.process.id
    }

    /// KILL CONNECTION of this session, to be called from elsewhere.
    pub fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
        let process = self.facts.process.clone();
        Box::new(move || process.kill(true))
    }

    /// Host as accounts see it.
    pub fn host(&self) -> &str {
        &self.facts.host
    }

    /// Status bits of the protocol that follow from the session's state.
    pub fn status(&self) -> u16 {
        const IN_TRANS: u16 = 1;
        const AUTOCOMMIT: u16 = 2;
        const NO_BACKSLASH_ESCAPES: u16 = 512;
        const IN_TRANS_READONLY: u16 = 8192;
        let mut bits = 0;
        if self.in_transaction() {
            bits |= IN_TRANS;
            if self.state.read_only {
                bits |= IN_TRANS_READONLY;
            }
        }
        if self.vars.autocommit {
            bits |= AUTOCOMMIT;
        }
        if self
            .vars
            .sql_mode
            .has(esker_types::SqlMode::NO_BACKSLASH_ESCAPES)
        {
            bits |= NO_BACKSLASH_ESCAPES;
        }
        bits
    }

    /// Largest command taken, bytes.
    pub fn max_allowed_packet(&self) -> usize {
        usize::try_from(self.vars.max_allowed_packet).unwrap_or(usize::MAX)
    }

    /// How long the client may be silent.
    pub fn idle_timeout(&self) -> Duration {
        if self.client.interactive {
            Duration::from_secs(self.values.named("interactive_timeout").as_u64())
        } else {
            self.vars.wait_timeout
        }
    }

    /// How long the rest of a packet may take.
    pub fn net_read_timeout(&self) -> Duration {
        self.vars.net_read_timeout
    }

    /// How long the client may refuse to take bytes.
    pub fn net_write_timeout(&self) -> Duration {
        self.vars.net_write_timeout
    }

    /// May the account use the connection kept for administrators?
    pub fn is_administrator(&self) -> bool {
        self.facts.require("SUPER").is_ok()
    }

    /// The collation results are sent in; None: unconverted.
    pub fn results_collation(&self) -> Option<Collation> {
        self.vars.results
    }

    /// Warnings of the last statement.
    pub fn warning_count(&self) -> u64 {
        self.warning_total
    }

    /// A future that resolves when the log is durable up to `seq`; None when it is already.
    ///
    /// `is_alone`: has no other session anything to do? Then the log may be flushed here and now, which is
    /// quicker than to wait for another thread to do it. Asked only if there is something to wait for.
    pub fn wait_durable(&self, seq: Seq, is_alone: impl FnOnce() -> bool) -> Option<Durable> {
        let engine = &self.facts.instance.engine;
        if seq <= engine.durable_seq() {
            return None;
        }
        if self.pipelines_flush() && is_alone() {
            // Whatever came of it, what is returned below tells.
            let _ = engine.harden_if_quick(seq);
        }
        (seq > engine.durable_seq()).then(|| engine.wait_durable(seq))
    }

    /// `esker_flush_pipelining`: is what [`Session::wait_durable`] returns awaited? If not, the session's thread
    /// parks on it, as that of a server with a thread per connection does.
    pub fn pipelines_flush(&self) -> bool {
        self.facts.instance.pipelines_flush()
    }

    /// COM_SET_OPTION.
    pub fn set_multi_statements(&mut self, on: bool) {
        self.client.multi_statements = on;
    }

    /// USE and COM_INIT_DB.
    ///
    /// # Errors
    /// 1049, 1044.
    pub fn use_database(&mut self, name: &str) -> SqlResult<()> {
        let schema = self.facts.instance.find_schema(name)?;
        if !self.facts.account.sees_schema(&schema) && !crate::schema::is_open_schema(&schema) {
            let text = format!(
                "Access denied for user '{}'@'{}' to database '{schema}'",
                self.facts.account.user, self.facts.account.host
            );
            return Err(SqlError::new(1044, "42000", text));
        }
        let now = self.facts.instance.now_micros();
        self.facts
            .process
            .update(now, |d| d.database = Some(schema.to_string()));
        let collation = self.facts.instance.schema_collation(&schema);
        self.set_database_collation(collation)?;
        self.mark_schema();
        self.mark_any();
        self.facts.database = Some(schema);
        self.facts.rebind();
        Ok(())
    }

    /// KILL CONNECTION through the protocol.
    ///
    /// # Errors
    /// 1094, 1095.
    pub fn kill(&mut self, id: u64) -> SqlResult<()> {
        self.kill_session(id, true)
    }

    /// KILL of another session (or this one).
    pub(crate) fn kill_session(&self, id: u64, connection: bool) -> SqlResult<()> {
        let target = self.facts.instance.registry.find(id)?;
        if target.detail().user != self.facts.user {
            self.facts.require("SUPER").map_err(|_| {
                SqlError::new(1095, "HY000", format!("You are not owner of thread {id}"))
            })?;
        }
        target.kill(connection);
        Ok(())
    }

    /// Starts a request; [`Self::step`] runs it.
    pub fn start(&mut self, request: Request<'_>) {
        self.facts.process.clear_query_kill();
        self.count(Counter::Questions, 1);
        let running = match request {
            Request::Query(text) => {
                self.begin_command("Query", text);
                let mut buffer = std::mem::take(&mut self.spare_text);
                buffer.clear();
                buffer.extend_from_slice(&self.to_utf8(text));
                let params = std::mem::take(&mut self.spare_params);
                Running::new(buffer, params, Work::Text)
            }
            Request::Execute { statement, params } => {
                match self.prepared_mut(statement, "mysqld_stmt_execute") {
                    Ok(prepared) => {
                        prepared.cursor = None;
                        let work = Work::Ready(prepared.statement.clone(), Some(statement));
                        let prepared = &self.prepared[&statement];
                        self.begin_command("Execute", &prepared.sql);
                        Running::new(std::mem::take(&mut self.spare_text), params, work)
                            .without_text()
                    }
                    Err(e) => Running::failed(e),
                }
            }
        };
        self.running = Some(running);
    }

    /// Keeps the buffers of a request that is over.
    fn recycle(&mut self, running: Running) {
        if running.text.capacity() <= KEPT_TEXT_BYTES {
            self.spare_text = running.text;
            self.spare_params = running.params;
        }
    }

    fn begin_command(&self, command: &'static str, text: &[u8]) {
        let now = self.facts.instance.now_micros();
        self.facts.statement_micros.set(now);
        self.facts.process.begin(now, command, text);
    }

    fn end_command(&self) {
        let taken = self
            .facts
            .process
            .idle(self.facts.instance.now_micros(), self.in_transaction());
        if taken > self.vars.slow_after_micros {
            self.count(Counter::SlowQueries, 1);
        }
    }

    /// Counts something for SHOW STATUS.
    pub fn count(&self, counter: Counter, n: u64) {
        self.facts.process.counts.add(counter, n);
    }

    /// The client's bytes as UTF-8.
    fn to_utf8<'a>(&self, text: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        match self.vars.charset_client {
            Charset::Latin1 => Charset::Latin1.decode_lossy(text),
            _ => text.into(),
        }
    }

    pub(crate) fn parse_options(&self) -> ParseOptions<'static> {
        ParseOptions {
            sql_mode: self.vars.sql_mode,
            ..ParseOptions::default()
        }
    }

    /// Does another statement of the request follow the one that has just ended?
    pub fn has_more(&self) -> bool {
        self.running.as_ref().is_some_and(|r| r.next < r.text.len())
    }

    /// Starts the request's next statement. False when there is none; the request is over then.
    pub fn start_next(&mut self) -> bool {
        match &mut self.running {
            Some(running) if running.next < running.text.len() => {
                running.work = Work::Text;
                running.waiting_since = None;
                running.counted = false;
                let now = self.facts.instance.now_micros();
                self.facts.statement_micros.set(now);
                true
            }
            _ => {
                if let Some(running) = self.running.take() {
                    self.recycle(running);
                }
                self.end_command();
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
        let step = self.step_running(&mut running, mode);
        if matches!(&step, Step::Done(o) if matches!(o.result, OutcomeKind::Err(_))) {
            running.next = running.text.len();
            self.end_command();
        }
        self.running = Some(running);
        step
    }

    /// Tells how the wait of [`Step::Wait`] ended; None: it took too long.
    pub fn waited(&mut self, result: Option<SqlResult<()>>) {
        self.facts.process.show_state("");
        let error = match result {
            Some(Ok(())) => None,
            Some(Err(e)) => Some(e),
            None => run::check_killed(&self.facts, self.statement_deadline)
                .err()
                .or_else(|| Some(engine_error(&EngineError::LockWaitTimeout))),
        };
        if let Some(running) = &mut self.running {
            running.wait_error = error;
        }
    }

    /// Turns a lock to be waited for into a step.
    fn wait(&mut self, running: &mut Running, ticket: Ticket) -> Step {
        let since = *running.waiting_since.get_or_insert_with(Instant::now);
        let left = self.lock_timeout().saturating_sub(since.elapsed());
        let timeout = match self.statement_deadline {
            Some(deadline) => left.min(deadline.saturating_duration_since(Instant::now())),
            None => left,
        };
        let process = self.facts.process.clone();
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
        if let Some(e) = running.wait_error.take() {
            return Step::Done(self.fail(e));
        }
        match self.run_work(running, mode) {
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
                let depends_on = self.dependency_of_ok(commit);
                Step::Done(Outcome {
                    result: OutcomeKind::Ok(info),
                    depends_on,
                })
            }
            Ok(Done::NeedThread) => Step::NeedThread,
            Err(ExecError::Sql(e)) => Step::Done(self.fail(e)),
            Err(ExecError::Wait(ticket)) => self.wait(running, ticket),
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
            && let Some((key, plan)) = self.find_text_plan(running)
        {
            running.work = Work::Planned(key, plan);
        }
        if let Work::Planned(_, plan) = &running.work
            && !std::mem::replace(&mut running.counted, true)
        {
            self.count(Counter::Queries, 1);
            self.count(plan.command(), 1);
        }
        if let Work::Planned(key, plan) = &running.work {
            if let Some(done) = self.run_text_plan(*key, plan, &running.params, mode)? {
                return Ok(done);
            }
            running.work = Work::Text;
            running.next = 0;
        }
        if let Work::Text = running.work {
            running.params.clear();
            match self.parse_next(running) {
                Ok(work) => running.work = work,
                Err(e) => {
                    self.clear_warnings();
                    return Err(e.into());
                }
            }
        }
        let Work::Ready(statement, id) = &running.work else {
            panic!("step of a finished statement");
        };
        if !std::mem::replace(&mut running.counted, true) {
            self.count(Counter::Queries, 1);
            self.count(counts::command_of(statement), 1);
        }
        self.run_statement(statement, &running.params, *id, mode)
    }

    /// The outcome of an error: its place in the diagnostics area, its effect on the transaction.
    fn fail(&mut self, e: SqlError) -> Outcome {
        const DEADLOCK: u16 = 1213;
        self.record_error(&e);
        self.facts.row_count.set(-1);
        self.locks.release_statement();
        if e.code == DEADLOCK && self.facts.xa.is_some() {
            self.doom_branch();
        } else if e.code == DEADLOCK || self.commits_at_end() {
            self.rollback_transaction();
        }
        Outcome {
            result: OutcomeKind::Err(e),
            depends_on: self.dependency(),
        }
    }

    fn record_error(&mut self, e: &SqlError) {
        self.warn(Level::Error, e.code, e.message.clone());
    }

    /// Adds to the diagnostics area.
    pub(crate) fn warn(&mut self, level: Level, code: u16, message: String) {
        if level == Level::Note && !self.vars.notes {
            return;
        }
        self.warning_total += 1;
        if self.warnings.len() < self.vars.max_error_count {
            self.warnings.push(Warning {
                level,
                code,
                message,
            });
        }
    }

    fn clear_warnings(&mut self) {
        self.warnings.clear();
        self.warning_total = 0;
    }
}

impl Running {
    fn new(text: Vec<u8>, params: Vec<Value>, work: Work) -> Self {
        Self {
            text,
            next: 0,
            params,
            work,
            waiting_since: None,
            wait_error: None,
            counted: false,
        }
    }

    fn without_text(mut self) -> Self {
        self.text.clear();
        self
    }

    /// A request that failed before it could run.
    fn failed(e: SqlError) -> Self {
        let mut running = Self::new(Vec::new(), Vec::new(), Work::Text);
        running.wait_error = Some(e);
        running
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rollback_transaction();
        self.locks.release_all();
        self.close_all_statements();
        self.facts.instance.registry.remove(self.facts.process.id);
    }
}
