//! Everything behind the sockets: the engine, the catalog, global variables, accounts, sessions.
//!
//! Parts: this file has what an instance is and what it is asked; `starting` opens it, `switches` carries variables
//! over to what they switch, `counters` counts for SHOW STATUS. Neighbours: the server opens one [`Instance`] and a
//! `Session` per connection; the embedded shell does the same without sockets. **Invariants**: there is no
//! [`Instance`], and so no session, before the log is read and orphan trees are dropped; at shutdown no session is
//! left that could write.

mod counters;
mod starting;
mod switches;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use esker_engine::{Engine, Seq};
use esker_sql_catalog::accounts::store::Stored;
use esker_sql_catalog::accounts::{self, Account, Accounts, Plugin, RoleName};
use esker_sql_catalog::catalog::Catalog;
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::mdl::LockSet;
use esker_sql_catalog::variables::{
    Globals, SessionValues, SessionVars, Setting, StartValues, VarValue,
};
use esker_sql_exec::TempSpace;
use esker_types::collation::Collation;
use esker_types::{SqlResult, errors};
use esker_vfs::Env;
use jiff::tz::TimeZone;
use parking_lot::Mutex;

use counters::Counters;
pub use starting::{Starting, check_settings};

use crate::audit::AuditLog;
use crate::binlog::{Binlog, Replicas};
use crate::capture::LoggedStatement;
use crate::host::{Host, HostSlot};
use crate::infoschema::Deadlocks;
use crate::infoschema::metrics::Metrics;
use crate::instruments::Instruments;
use crate::loglines::LineLimit;
use crate::persisted::{Kept, Persisted};
use crate::querylog::QueryLogs;
use crate::replica::Channels;
use crate::scheduler::Scheduler;
use crate::session::registry::Registry;
use crate::session::server_backup::BackupFigures;
use crate::session::turns::Turns;
use crate::statements::Digests;
use crate::xids::XidTable;

/// Length of the salt handed to [`HashPassword`].
pub const SALT_BYTES: usize = 20;

/// Turns a clear password into what an account stores; an empty password gives an empty secret.
pub type HashPassword = fn(Plugin, &[u8], &[u8; SALT_BYTES]) -> Vec<u8>;

/// Is the clear password the one that an account stores this of?
pub type VerifyPassword = fn(Plugin, &[u8], &[u8]) -> bool;

/// Password hashing, which the layer that knows the protocol supplies.
#[derive(Clone, Copy)]
pub struct PasswordHashing {
    /// Makes what is stored.
    pub hash: HashPassword,
    /// Compares with what is stored.
    pub verify: VerifyPassword,
}

/// What [`Instance::open`] needs.
pub struct InstanceConfig {
    /// Disk, clock, randomness.
    pub env: Env,
    /// Data directory; created when missing.
    pub data_dir: PathBuf,
    /// System variables.
    pub settings: Vec<Setting>,
    /// Password of `root` if this is the first start.
    pub root_password: Option<String>,
    /// How passwords are stored.
    pub passwords: PasswordHashing,
}

/// A running database.
pub struct Instance {
    pub(crate) env: Env,
    pub(crate) engine: Engine,
    pub(crate) catalog: Catalog,
    pub(crate) globals: Globals,
    start_values: StartValues,
    /// What SET PERSIST keeps.
    persisted: Persisted,
    pub(crate) binlog: Binlog,
    pub(crate) replicas: Replicas,
    pub(crate) channels: Channels,
    pub(crate) scheduler: Scheduler,
    pub(crate) registry: Registry,
    /// Of the statements that take long.
    pub(crate) turns: Arc<Turns>,
    pub(crate) counters: Counters,
    /// Backups of the server.
    pub(crate) backups: BackupFigures,
    /// Statistics of statements.
    pub(crate) digests: Digests,
    pub(crate) system_zone: TimeZone,
    pub(crate) prepared_count: AtomicU64,
    /// Temporary files of all sessions.
    pub(crate) temp: Arc<TempSpace>,
    /// `esker_flush_pipelining`, where commits can look at it.
    flush_pipelining: AtomicBool,
    /// Held while variables are carried over to what they switch.
    switching: Mutex<()>,
    data_dir: PathBuf,
    passwords: PasswordHashing,
    accounts: Accounts,
    version: String,
    started_micros: i64,
    first_start: bool,
    xids: OnceLock<XidTable>,
    pub(crate) host_slot: HostSlot,
    pub(crate) query_logs: QueryLogs,
    pub(crate) audit: AuditLog,
    /// The last deadlocks.
    pub(crate) deadlocks: Deadlocks,
    /// What PERFORMANCE_SCHEMA collects.
    pub(crate) instruments: Instruments,
    /// What INNODB_METRICS shows.
    pub(crate) metrics: Metrics,
    /// Lines of the log about KILL.
    pub(crate) kills_told: LineLimit,
}

impl Instance {
    /// Opens the data directory: recovery, catalog, accounts.
    ///
    /// # Errors
    /// A directory in use or damaged, unknown or bad settings.
    pub fn open(config: InstanceConfig) -> SqlResult<Arc<Self>> {
        Starting::begin(config)?.finish()
    }

    /// The data directory.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Changes the accounts: durable first, then in force. The record that decides it has what `log` makes of the new
    /// list.
    ///
    /// # Errors
    /// What `change` returns, of files and of the engine; nothing is changed then.
    pub(crate) fn change_accounts(
        &self,
        change: impl FnOnce(&mut Vec<Account>) -> SqlResult<()>,
        log: impl FnOnce(&[Account]) -> Option<LoggedStatement>,
    ) -> SqlResult<Seq> {
        let mut changes = self.accounts.changes();
        if changes.is_unsettled {
            return Err(errors::storage_failed(
                "the last change of the accounts is not in their file yet: restart the server",
            ));
        }
        let mut list = Vec::clone(&self.accounts.all());
        change(&mut list)?;
        let logged = log(&list).unwrap_or_default();
        let stored = Stored {
            accounts: list,
            change: changes.last.wrapping_add(1),
        };
        accounts::store::prepare(&self.env, &self.data_dir, &stored)?;
        let mut txn = self.catalog.row_transaction();
        self.catalog.put_accounts_change(&mut txn, stored.change)?;
        let seq = logged.with_its_change().commit_with(txn, &self.catalog)?;
        let durable = self.engine.wait_durable(seq).block();
        durable.map_err(|e| engine_error(&e))?;
        changes.last = stored.change;
        if let Err(e) = accounts::store::install(&self.env, &self.data_dir) {
            tracing::error!("{}; the next start does it", e.message);
            changes.is_unsettled = true;
        }
        self.accounts.replace(stored.accounts);
        Ok(seq)
    }

    /// What an account stores for a password.
    pub(crate) fn hash(&self, plugin: Plugin, password: &[u8]) -> Vec<u8> {
        let mut salt = [0; SALT_BYTES];
        self.fill_random(&mut salt);
        (self.passwords.hash)(plugin, password, &salt)
    }

    /// Is the password the one that an account stores this of? An empty secret is the empty password's.
    pub(crate) fn verify(&self, plugin: Plugin, password: &[u8], stored: &[u8]) -> bool {
        if password.is_empty() || stored.is_empty() {
            return password.is_empty() && stored.is_empty();
        }
        (self.passwords.verify)(plugin, password, stored)
    }

    /// The engine, for tests and the embedded use.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The roles that mandatory_roles names; names of nobody count for nothing.
    pub(crate) fn mandatory_roles(&self) -> Vec<RoleName> {
        let mut roles = accounts::parse_names(self.globals.named("mandatory_roles").as_text());
        roles.retain(|(user, host)| self.accounts.exact(user, host).is_some());
        roles
    }

    /// The accounts.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// VERSION().
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Was the data directory made by this start?
    pub fn is_first_start(&self) -> bool {
        self.first_start
    }

    /// Can root log in without a password?
    pub fn root_has_no_password(&self) -> bool {
        self.accounts
            .exact("root", "localhost")
            .is_some_and(|a| a.auth.is_empty())
    }

    /// Random bytes.
    pub fn fill_random(&self, out: &mut [u8]) {
        self.env.random.fill(out);
    }

    /// A numeric global variable.
    pub fn variable_u64(&self, name: &str) -> u64 {
        self.globals.named(name).as_u64()
    }

    /// The text of a global variable; empty where it is NULL.
    pub fn variable_text(&self, name: &str) -> String {
        self.globals.named(name).as_text().to_owned()
    }

    /// Engine counters for SHOW STATUS.
    pub(crate) fn engine_status(&self) -> Vec<(&'static str, String)> {
        let stats = self.engine.stats();
        let mut status = vec![
            ("Esker_audit_log_lost", self.audit.lost().to_string()),
            ("Esker_cache_loads", stats.cache.loads.to_string()),
            ("Esker_cache_refreshed", stats.cache.refreshed.to_string()),
            ("Esker_durable_lsn", self.engine.durable_seq().to_string()),
            ("Esker_memtable_bytes", stats.memtable_bytes.to_string()),
            (
                "Esker_quarantined_extents",
                stats.storage.quarantined_extents.to_string(),
            ),
            ("Esker_row_lock_deadlocks", stats.deadlocks.to_string()),
            ("Esker_row_lock_waits", stats.lock_waits.to_string()),
            ("Esker_scan_rows_counted", stats.scans.counted.to_string()),
            ("Esker_scan_tasks", stats.scans.tasks.to_string()),
            ("Esker_scan_tasks_helped", stats.scans.helped.to_string()),
            ("Esker_temporary_bytes", self.temp.used_bytes().to_string()),
            ("Esker_writer_stalls", stats.writer_stalls().to_string()),
            ("Innodb_row_lock_waits", stats.lock_waits.to_string()),
        ];
        let work = &stats.storage.work;
        let built = [
            ("Esker_built_bytes", work.built_bytes),
            ("Esker_built_extents", work.built_extents),
            ("Esker_built_trees", work.built_trees),
            ("Esker_build_spills", work.build_spills),
            ("Esker_ingested_extents", work.ingested_extents),
            ("Esker_ingested_transactions", work.ingests),
        ];
        status.extend(built.map(|(name, n)| (name, n.to_string())));
        status.extend(crate::infoschema::log_status(&stats));
        status.extend(crate::infoschema::recovery_status(self));
        status.extend(self.binlog_status());
        status
    }

    /// What SET PERSIST keeps.
    pub(crate) fn persisted(&self) -> &Persisted {
        &self.persisted
    }

    /// Keeps a variable's value over a restart.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn persist(&self, name: &str, kept: Kept) -> SqlResult<()> {
        self.persisted.keep(&self.env, &self.data_dir, name, kept)
    }

    /// Forgets what is kept of a variable, or of all. False: there is nothing of this name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn reset_persisted(&self, name: Option<&str>) -> SqlResult<bool> {
        self.persisted.forget(&self.env, &self.data_dir, name)
    }

    /// Does a worker go on with other sessions while a commit is flushed?
    pub(crate) fn pipelines_flush(&self) -> bool {
        self.flush_pipelining.load(Ordering::Relaxed)
    }

    /// Every XA identifier in use. The first call after a start waits until the prepared transactions are known and
    /// locks their tables: whoever takes metadata locks that exclude writers calls this before.
    pub(crate) fn xids(&self) -> &XidTable {
        let recover = || XidTable::recover(&self.engine, &self.catalog, self.started_micros);
        self.xids.get_or_init(recover)
    }

    /// Does [`Instance::xids`] answer at once?
    pub(crate) fn knows_xids(&self) -> bool {
        self.xids.get().is_some()
    }

    /// Metadata locks for a new session.
    pub(crate) fn new_lock_set(&self) -> LockSet {
        LockSet::new(self.catalog.locks())
    }

    /// Is a global variable ON?
    pub fn variable_is_on(&self, name: &str) -> bool {
        self.globals.named(name).is_on()
    }

    /// Wall clock, microseconds since the epoch.
    pub(crate) fn now_micros(&self) -> i64 {
        self.env.clock.wall_micros()
    }

    /// Wall clock, seconds since the epoch.
    pub fn now_seconds(&self) -> i64 {
        self.now_micros().div_euclid(1_000_000)
    }

    /// When it was started, microseconds since the epoch.
    pub(crate) fn started_micros(&self) -> i64 {
        self.started_micros
    }

    /// Seconds since the start.
    pub(crate) fn uptime_secs(&self) -> u64 {
        ((self.now_micros() - self.started_micros).max(0) / 1_000_000) as u64
    }

    /// Variables of a new session whose client asks for this collation, and the hot ones among them.
    pub(crate) fn start_values(
        &self,
        collation: Option<Collation>,
    ) -> (SessionValues, SessionVars) {
        match self.start_values.of(&self.globals, collation) {
            Ok(values) => values,
            // Global values were checked when they were set.
            Err(e) => panic!("global variables do not fit a session: {e}"),
        }
    }

    /// From now on the process that statements like SHUTDOWN ask is there.
    pub fn serve_for(&self, host: Box<dyn Host>) {
        self.host_slot.set(host);
        self.apply_log_form();
    }

    /// The process around the database, if a server runs.
    pub fn host(&self) -> Option<&dyn Host> {
        self.host_slot.get()
    }

    /// Ends the statement of one session, as KILL QUERY does; nothing happens where it is idle or gone.
    pub fn interrupt_statement(&self, connection: u64) {
        if let Ok(process) = self.registry.find(connection) {
            process.kill(false);
        }
    }

    /// The server goes down: whatever runs or waits ends with error 1053. Nobody waits for replicas any more.
    pub fn interrupt_sessions(&self) {
        self.registry.shut_down();
        self.binlog.release_replies();
    }

    /// Says which build this is: `version_comment`.
    pub fn tell_build(&self, build: &str) {
        self.globals
            .tell("version_comment", VarValue::Text(build.into()));
    }

    /// Clean shutdown of the engine, after the last session.
    ///
    /// # Errors
    /// I/O errors; everything acknowledged is in the log all the same.
    pub fn shutdown(&self) -> SqlResult<()> {
        self.catalog.settle_counters()?;
        self.engine.flush_log().map_err(|e| engine_error(&e))?;
        self.binlog.stop();
        self.engine.shutdown().map_err(|e| engine_error(&e))
    }
}
