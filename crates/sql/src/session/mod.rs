//! A session: one client's statements, transaction, variables and prepared statements.
//!
//! Neighbours: the server (or the embedded shell) starts statements and steps through them; `bind`,
//! `plan`, `exec`, `dml` and `ddl` do the work; `esker_engine` keeps the transaction.
//!
//! Parts; this file holds the state:
//! - `request` has what the client sent, `connection` answers what the server asks; `step` runs statements step by
//!   step, `run` maps them to work, `rows` pulls what they answer with, `utility` those that are neither queries nor
//!   changes of rows, `scope` is what a statement sees of its session, `lock_waits` waits from look to look, `pace`
//!   says how long a statement may go on and where, `turns` how many at a time, `survive` catches panics
//! - `plans`, `change`, `text`, `shapes`: what is compiled once and run often, and what that rests on; `reach`: what
//!   changes work in
//! - `transaction` begins and ends, `terms` are those it began with, `read_only` what it may not do, `xa`, `gtid`
//!   (gtid_next), `replay` (BINLOG), `apply` (transactions of other servers), `filling` (CREATE TABLE … START
//!   TRANSACTION)
//! - `load` (LOAD DATA), `export` (INTO OUTFILE), `explain`, `pruning` (partitions in it), `schema` (schema
//!   statements), `stopwords`, `refused` (values of SET), `settable` (where they may be set), `temporary`, `views`,
//!   `triggers` (CREATE TRIGGER), `firing` (running them beside changes), `system_tables` (what dumps say of them)
//! - `client`: who is connected; `diagnostics`: what SHOW WARNINGS shows
//! - `lookup`, `names` resolve names, `privileges` checks, `context` is what functions may ask
//! - accounts: `account_statements` dispatches to `users`, `password`, `roles`, `grants`, `partial_revokes`, `proxies`,
//!   `definers`
//! - `maintain`, `check_table`, `checksum`, `histogram`: CHECK TABLE, ANALYZE and their kin
//! - `prepared` (commands about prepared statements), `statements` (the statements), `cursor` (rows kept for
//!   COM_STMT_FETCH), `set` (SET), `hints` (SET_VAR and its kin), `track` (what the client hears of its session)
//! - `registry` (process list, KILL), `listed` (threads in it without a session), `user_locks` (GET_LOCK),
//!   `measure` (statistics), `instruments` (UPDATE of what is collected), `audited` (the audit log),
//!   `profiles` (SHOW PROFILES), `traces` (OPTIMIZER_TRACE), `process` (SHUTDOWN and its kin), `components` (INSTALL
//!   COMPONENT), `servers` (DROP SERVER)
//! - `backup`: locks and snapshots for backups; `server_backup`: BACKUP SERVER
//! - `program` (stored programs, CALL, SIGNAL and its kin), `events` (CREATE and ALTER EVENT)
//! - `handlers` (HANDLER), `lock_tables` (LOCK TABLES), `flush` (FLUSH), `kill` (KILL), `replication` (PURGE, RESET and
//!   those of channels)
//!
//! **Invariants**
//! - An error undoes the statement's writes, and the whole transaction for a deadlock.
//! - `depends_on` of an outcome covers the commit of a write and every version a read has seen.

mod account_statements;
mod apply;
mod audited;
mod backup;
mod change;
mod check_table;
mod checksum;
mod client;
mod components;
mod connection;
mod context;
mod cursor;
mod definers;
mod diagnostics;
mod events;
pub(crate) mod explain;
mod export;
mod filling;
mod firing;
mod flush;
mod grants;
mod gtid;
mod handlers;
mod hints;
mod histogram;
mod instruments;
mod kill;
pub(crate) mod listed;
mod load;
mod lock_tables;
mod lock_waits;
mod lookup;
mod maintain;
mod measure;
mod names;
mod pace;
mod partial_revokes;
mod password;
mod plans;
mod prepared;
mod privileges;
mod process;
mod profiles;
mod program;
mod proxies;
mod pruning;
mod reach;
mod read_only;
mod refused;
pub mod registry;
mod replay;
mod replication;
mod request;
mod roles;
mod rows;
mod run;
mod schema;
mod scope;
pub(crate) mod server_backup;
mod servers;
mod set;
mod settable;
mod shapes;
mod statements;
mod step;
mod stopwords;
mod survive;
mod system_tables;
mod temporary;
pub(crate) mod terms;
mod text;
mod traces;
mod track;
mod transaction;
mod triggers;
pub(crate) mod turns;
pub(crate) mod user_locks;
mod users;
mod utility;
mod views;
mod xa;

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_binlog::event::Checksum;
use esker_engine::{Seq, SnapshotAt, Txn};
use esker_sql_catalog::accounts::Identity;
use esker_sql_catalog::mdl::LockSet;
use esker_sql_catalog::variables::{SessionValues, SessionVars};
use esker_sql_exec::TempFiles;
use esker_sql_syntax::{AccountPlaces, ClientText, ParseOptions, Watch};
use esker_types::collation::Collation;
use esker_types::{Level, SqlResult, Value};

use crate::capture::Capture;
use crate::counts::Counter;
use crate::ddl::create_select::NewTable;
use crate::instance::Instance;

pub(crate) use apply::{Applying, RowStatement, TableCache};
use client::ClientFlags;
pub use client::ClientInfo;
pub(crate) use context::SessionContext;
pub(crate) use diagnostics::Diagnostics;
use firing::Firing;
pub(crate) use gtid::GtidNext;
use handlers::Handlers;
pub(crate) use lock_waits::in_line_before;
pub(crate) use lookup::Described;
use measure::Measure;
use pace::Pace;
pub use plans::PlanStatistics;
use plans::{Deprecations, Plans};
pub use prepared::Prepared;
pub(crate) use profiles::seconds;
use program::ProgramState;
pub use request::Request;
use request::{Running, Work};
use statements::PreparedStatements;
pub(crate) use traces::Trace;
use traces::Traces;
pub use track::StateChange;
use track::StateTracker;
use transaction::TransactionState;
pub(crate) use users::{failed as account_failed, shown as shown_account};

/// Progress of pulling rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// More rows follow.
    pub more: bool,
    /// The rows given so far may leave when the log is durable up to here.
    pub depends_on: Seq,
}

/// One client's state.
pub struct Session {
    /// The statement reads a table from end to end.
    no_index_used: bool,
    /// What its plan reads, sorts and keeps is counted: it may begin again when it has waited for a lock.
    plan_counted: bool,
    /// The prepared statement that runs has not as many columns as it had.
    columns_changed: bool,
    pub(crate) context: SessionContext,
    pub(crate) client: ClientFlags,
    pub(crate) values: SessionValues,
    /// The values before hints of the current statement changed them.
    values_before_hints: Option<Box<SessionValues>>,
    pub(crate) vars: SessionVars,
    pub(crate) txn: Txn,
    pub(crate) state: TransactionState,
    pub(crate) locks: LockSet,
    pub(crate) diagnostics: Diagnostics,
    /// What the text of the running statement has of deprecated syntax.
    deprecations: Deprecations,
    /// A commit that a statement made on the side (SET autocommit = 1).
    pending_commit: Cell<Seq>,
    /// What replies without rows inside the open transaction did not wait for.
    owed: Seq,
    /// The session's own last commit, until a reply has waited for it.
    unanswered: Seq,
    /// NOWAIT or WAIT n of the current statement, for metadata locks.
    pub(crate) statement_lock_wait: Option<Duration>,
    /// When the wait for a row lock began that the session is in.
    row_wait_since: Option<Instant>,
    /// How to be rid of those that made the statement time out.
    blocker_advice: Vec<String>,
    prepared: PreparedStatements,
    /// Tables that HANDLER reads.
    handlers: Handlers,
    plans: Plans,
    /// Stored programs that run.
    program: ProgramState,
    /// The table that the open transaction makes and fills.
    filling: Option<NewTable>,
    /// What is changed, for the binary log.
    pub(crate) capture: Capture,
    /// The current statement as the binary log gets it; kept only where it may be needed.
    pub(crate) statement_text: Vec<u8>,
    /// Where it names accounts.
    pub(crate) statement_accounts: AccountPlaces,
    measure: Measure,
    /// What the last statements took.
    pub(crate) profiles: profiles::Profiles,
    traces: Traces,
    /// Temporary files of the session's statements.
    temp: TempFiles,
    running: Option<Running>,
    /// The transaction of another server that is being applied.
    applying: Option<Applying>,
    /// The file that came with the statement of it that runs.
    applied_file: Option<Arc<[u8]>>,
    /// How the events of BINLOG statements are written; `None`: no format description came.
    replayed: Option<Checksum>,
    /// What the client hears with the next OK.
    tracker: StateTracker,
    /// Buffers of the request before.
    spare_text: Vec<u8>,
    spare_params: Vec<Value>,
    /// Statements that have fired the triggers that run, and the programs of these.
    firing: Firing,
    /// User and host of the account whose [usage](esker_sql_catalog::accounts::usage) counts this session.
    counted_for: Option<(String, String)>,
}

impl Session {
    /// A session of a client that has logged in.
    pub fn new(instance: Arc<Instance>, client: ClientInfo) -> Self {
        // A collation that does not exist leaves what the server is set to, as in MySQL.
        let (values, vars) = instance.start_values(client.collation);
        let client_flags = ClientFlags::of(&client);
        let process = instance.registry.add(
            client.connection_id,
            &client.user,
            client.peer,
            registry::Connection {
                host: client.host.clone(),
                attributes: client.attributes,
                tls: client.tls,
                compression: client.compression,
                inside: client.embedded,
                thread: client.thread,
            },
            instance.now_micros(),
            client.on_kill,
        );
        process.set_measured(instance.instruments.of_actor(&client.host, &client.user));
        let mut txn = instance.engine.begin(vars.isolation.served());
        // The server acknowledges what is durable, or switches this off.
        txn.set_snapshot_at(SnapshotAt::Durable);
        process.set_canceller(Some(txn.wait_canceller()));
        let own = Arc::clone(&process);
        txn.set_go_on(move || !own.is_killed());
        let mut locks = instance.new_lock_set();
        locks.belongs_to(client.connection_id);
        let temp = TempFiles::new(instance.temp.clone());
        instance.count_connection();
        let pace = Pace::new(client.leave_worker, instance.turns.clone());
        let mut context = SessionContext::new(
            instance,
            (process, pace),
            client.user,
            client.host,
            client.account,
            client.embedded,
        );
        context.proxy_user = client.proxy_user;
        let own = (client_flags, values, vars);
        let mut session = Self::idle(context, own, txn, locks, temp);
        session.note_vars();
        session.context.take_login_roles();
        session
    }

    /// A session that has not done anything.
    fn idle(
        context: SessionContext,
        (client, values, vars): (ClientFlags, SessionValues, SessionVars),
        txn: Txn,
        locks: LockSet,
        temp: TempFiles,
    ) -> Self {
        Self {
            context,
            client,
            no_index_used: false,
            plan_counted: false,
            columns_changed: false,
            values,
            values_before_hints: None,
            vars,
            txn,
            state: TransactionState::default(),
            locks,
            diagnostics: Diagnostics::default(),
            deprecations: None,
            owed: 0,
            unanswered: 0,
            pending_commit: Cell::new(0),
            statement_lock_wait: None,
            row_wait_since: None,
            blocker_advice: Vec::new(),
            prepared: PreparedStatements::default(),
            handlers: Handlers::default(),
            plans: Plans::default(),
            program: ProgramState::default(),
            filling: None,
            capture: Capture::default(),
            statement_text: Vec::new(),
            statement_accounts: AccountPlaces::default(),
            measure: Measure::default(),
            profiles: profiles::Profiles::default(),
            traces: Traces::default(),
            temp,
            running: None,
            applying: None,
            applied_file: None,
            replayed: None,
            tracker: StateTracker::default(),
            spare_text: Vec::new(),
            spare_params: Vec::new(),
            firing: Firing::default(),
            counted_for: None,
        }
    }

    /// COM_RESET_CONNECTION: as after a fresh login, transaction rolled back.
    pub fn reset(&mut self) {
        self.rollback_transaction();
        self.locks.release_all();
        let instance = &self.context.instance;
        instance
            .registry
            .user_locks
            .release_all(self.context.process.id);
        self.close_all_statements();
        self.handlers.clear();
        self.drop_temporary_tables();
        self.context.reset();
        self.plans.forget_texts();
        self.state = TransactionState::default();
        (self.values, self.vars) = self.context.instance.start_values(None);
        self.note_vars();
        self.diagnostics.clear();
        self.tracker.forget();
        self.context.gtid_next = GtidNext::default();
        self.replayed = None;
        self.running = None;
        self.leave_programs();
    }

    /// COM_CHANGE_USER, after the new user proved who it is.
    pub fn change_user(&mut self, user: &str, identity: Identity, collation: Option<Collation>) {
        self.reset();
        self.context.proxy_user = identity.proxy_user;
        self.context.act_as(user, identity.account);
        self.context.database = None;
        let now = self.context.instance.now_micros();
        self.context.process.update(now, |d| {
            d.user = user.to_owned();
            d.database = None;
        });
        let instruments = &self.context.instance.instruments;
        let measured = instruments.of_actor(&self.context.host, user);
        self.context.process.set_measured(measured);
        (self.values, self.vars) = self.context.instance.start_values(collation);
        self.note_vars();
        self.tracker.forget();
    }

    /// Has the last step or pull taken so long that it left its worker? What follows it may take long, too.
    pub fn has_left_worker(&self) -> bool {
        self.context.pace.has_left()
    }

    /// The account's password has expired: it is changed before anything else goes.
    pub fn require_new_password(&mut self) {
        self.context.must_change_password = true;
    }

    /// After the login: the session counts against what its account may use.
    ///
    /// # Errors
    /// 1203 and 1226: the account has too many sessions.
    pub fn begin_counting(&mut self) -> SqlResult<()> {
        self.stop_counting();
        self.context.must_change_password = false;
        let instance = self.context.instance.clone();
        let most = match self.is_administrator() {
            true => 0,
            false => instance.variable_u64("max_user_connections"),
        };
        let account = &self.context.account;
        if instance
            .accounts()
            .usages
            .open(account, most, self.context.now_seconds())?
        {
            self.counted_for = Some((account.user.clone(), account.host.clone()));
        }
        Ok(())
    }

    /// The reply of the statement is to wait for this commit, too.
    pub(crate) fn note_commit(&self, seq: Seq) {
        self.pending_commit.set(self.pending_commit.get().max(seq));
    }

    fn stop_counting(&mut self) {
        if let Some((user, host)) = self.counted_for.take() {
            self.context.instance.accounts().usages.close(&user, &host);
        }
    }

    /// Before a statement runs for the first time. `changes`: it counts as an update; `renews`: it may set a password.
    ///
    /// # Errors
    /// 1820: the password has expired; 1226: too many statements within the hour.
    fn admit_statement(&self, changes: bool, renews: bool) -> SqlResult<()> {
        if let Some((user, host)) = &self.counted_for {
            let usages = &self.context.instance.accounts().usages;
            usages.statement(user, host, changes, self.context.now_seconds())?;
        }
        if renews {
            Ok(())
        } else {
            self.context.check_password_is_fresh()
        }
    }

    /// USE and COM_INIT_DB.
    ///
    /// # Errors
    /// 1049, 1044.
    pub fn use_database(&mut self, name: &str) -> SqlResult<()> {
        self.context.check_password_is_fresh()?;
        self.context.renew_rights();
        self.context
            .require_some_in(&self.context.access.host, name)?;
        let schema = self.context.instance.find_schema(name)?;
        let now = self.context.instance.now_micros();
        self.context
            .process
            .update(now, |d| d.database = Some(schema.to_string()));
        let collation = self.context.instance.schema_collation(&schema);
        self.set_database_collation(collation)?;
        self.tracker.mark_schema();
        self.tracker.mark_any(&self.values);
        self.context.database = Some(schema);
        self.context.rebind();
        Ok(())
    }

    /// Counts something for SHOW STATUS.
    pub fn count(&self, counter: Counter, n: u64) {
        self.context.process.counts.add(counter, n);
    }

    /// The first statement of the client's bytes in UTF-8, and how many bytes it is; all of them where its end does not
    /// depend on the client's character set.
    fn statement_to_utf8<'a>(&self, raw: &'a [u8], multi: bool) -> (Cow<'a, [u8]>, usize) {
        let charset = self.vars.charset_client;
        if charset.stores_utf8() || (charset.keeps_ascii() && raw.is_ascii()) {
            return (raw.into(), raw.len());
        }
        let how = ClientText {
            charset,
            connection: self.vars.collation_connection.charset(),
            sql_mode: self.vars.sql_mode,
            multi,
        };
        let (text, read) = how.first_statement(raw);
        (text.into(), read)
    }

    /// A value of the client as UTF-8.
    pub fn to_utf8<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let charset = self.vars.charset_client;
        match charset.stores_utf8() {
            true => text.into(),
            false => charset.decode_lossy(text),
        }
    }

    pub(crate) fn parse_options(&self) -> ParseOptions<'_> {
        ParseOptions {
            sql_mode: self.vars.sql_mode,
            client: self.vars.charset_client,
            watch: Some(Watch {
                session: &self.context,
                most_bytes: self.vars.parser_bytes,
            }),
            ..ParseOptions::default()
        }
    }

    /// Adds to the diagnostics area.
    pub(crate) fn warn(&mut self, level: Level, code: u16, message: String) {
        self.diagnostics.warn(&self.vars, level, code, message);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rollback_transaction();
        self.locks.release_all();
        self.close_all_statements();
        self.drop_temporary_tables();
        self.stop_counting();
        let instance = &self.context.instance;
        instance.replicas.forget(self.context.process.id);
        self.context
            .instance
            .registry
            .remove(self.context.process.id);
    }
}
