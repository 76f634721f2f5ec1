//! Requests of a client: the text as it came, the statement of it that is run, and what follows.
//!
//! Neighbours: the server starts a request and each of its statements; `step` runs the statement; `mod` holds the
//! state.
//!
//! **Invariants**
//! - A statement is read in the character set that holds when its turn comes; what follows it is kept as it was sent.
//! - Buffers go from request to request, unless they have grown beyond [`KEPT_TEXT_BYTES`].

use std::sync::Arc;
use std::time::Instant;

use esker_sql_exec::short::ShortSelect;
use esker_sql_syntax::ast::Statement;
use esker_sql_syntax::lexer::is_space;
use esker_types::collation::Charset;
use esker_types::{SqlError, Value};

use super::Session;
use super::plans::{Plan, PlanKey};
use super::program::Machine;
use super::rows::RowSource;
use crate::counts::Counter;

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
    /// The client has sent other statements with this one.
    pub(super) is_one_of_many: bool,
    /// The CALL that is under way.
    pub(super) program: Option<Box<Machine>>,
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
pub(super) const KEPT_TEXT_BYTES: usize = 16 * 1024;

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
            is_one_of_many: false,
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
    pub(super) fn has_more(&self) -> bool {
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
        self.columns_changed = false;
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
            Request::Execute { statement, params } => match self.prepared.find_mut(statement) {
                Ok(prepared) => {
                    prepared.cursor = None;
                    let work = Work::Ready(prepared.statement.clone(), Some(statement));
                    let (sql, tree) = (prepared.sql.clone(), prepared.statement.clone());
                    self.begin_command("Execute", &sql);
                    self.note_text(&tree, &sql);
                    Running::new(std::mem::take(&mut self.spare_text), params, work).without_text()
                }
                Err(e) => Running::failed(e),
            },
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

    /// A statement of the client, or of a source, has ended.
    pub(super) fn note_slow(&mut self, now: i64) {
        // What its last step has read.
        self.count_accesses();
        let taken = now - self.context.process.since_micros();
        if self.is_slow(taken) {
            self.count(Counter::SlowQueries, 1);
            self.log_slow(now, taken);
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
        self.note_before();
        self.log_command(now, command, text);
    }

    pub(super) fn end_command(&mut self) {
        let now = self.context.instance.now_micros();
        let spilled = self.temp.take_counts().unwrap_or_default();
        if spilled.files > 0 {
            self.count(Counter::CreatedTmpFiles, spilled.files);
            self.count(Counter::CreatedTmpDiskTables, spilled.tables);
            self.count(Counter::SortMergePasses, spilled.merge_passes);
        }
        self.note_slow(now);
        self.end_measure(now, spilled.tables, spilled.merge_passes);
        self.context.process.idle(now, self.in_transaction());
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
                let now = self.context.instance.now_micros();
                self.note_slow(now);
                self.no_index_used = false;
                self.context.pace.set_deadline(None);
                self.end_measure(now, 0, 0);
                self.note_before();
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
}
