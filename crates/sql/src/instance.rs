//! Everything behind the sockets: the engine, the catalog, global variables, accounts, sessions.
//!
//! Neighbours: the server opens one [`Instance`] and a `Session` per connection; the embedded shell
//! does the same without sockets.
//! **Invariants**: there is no [`Instance`], and so no session, before the log is read and orphan trees are
//! dropped; at shutdown no session is left that could write.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use esker_engine::{Engine, EngineConfig, FlushPolicy, ForceRecovery, RecoveryMode, Seq};
use esker_sql_catalog::accounts::store::Stored;
use esker_sql_catalog::accounts::{self, Account, Accounts, Plugin, RoleName};
use esker_sql_catalog::catalog::{Catalog, StorageEngine};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::mdl::LockSet;
use esker_sql_catalog::variables::{
    Globals, Notes, SessionValues, SessionVars, Setting, StartValues, VarValue,
};
use esker_sql_exec::TempSpace;
use esker_types::collation::Collation;
use esker_types::{SqlError, SqlResult, errors};
use esker_vfs::{Env, OpenMode};
use jiff::tz::TimeZone;
use parking_lot::Mutex;

use crate::binlog::{Binlog, LoggedStatement, Replicas, StartArgs, adopt_names};
use crate::datadir;
use crate::ddl;
use crate::host::{Host, HostSlot};
use crate::infoschema::Deadlocks;
use crate::persisted::{Kept, Persisted};
use crate::querylog::QueryLogs;
use crate::replica::Channels;
use crate::session::registry::Registry;
use crate::session::server_backup::BackupFigures;
use crate::session::turns::Turns;
use crate::statements::Digests;
use crate::xids::XidTable;

/// Length of the salt handed to [`HashPassword`].
pub const SALT_BYTES: usize = 20;

/// The variable that says without what a start goes on, and the value for the end of a damaged log.
const FORCE_RECOVERY: &str = "esker_force_recovery";
const POINT_IN_TIME: &str = "POINT-IN-TIME";

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

/// Counters behind SHOW STATUS that belong to no session.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that failed to log in.
    pub aborted_connects: AtomicU64,
    /// Sessions ever opened.
    pub connections: AtomicU64,
    /// Most sessions at one time.
    pub max_used_connections: AtomicU64,
    /// Sessions that ended without COM_QUIT.
    pub aborted_clients: AtomicU64,
    /// Connections refused because there were too many.
    pub refused_connections: AtomicU64,
    /// FLUSH statements.
    pub flushes: AtomicU64,
    /// FLUSH HOSTS statements: the server forgets what it held against addresses.
    pub host_flushes: AtomicU64,
    /// Logins that had to wait because others had failed.
    pub login_delays: AtomicU64,
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
    /// The last deadlocks.
    pub(crate) deadlocks: Deadlocks,
}

/// A database whose log is being replayed: the manifest is loaded, the directory is ours, and the log takes new
/// records, but nobody knows yet what was committed last.
pub struct Starting {
    config: InstanceConfig,
    globals: Globals,
    persisted: Persisted,
    engine: Engine,
}

impl Starting {
    /// Checks the settings and opens the data directory; the replay goes on in the background.
    ///
    /// # Errors
    /// A directory in use or damaged, unknown or bad settings.
    pub fn begin(config: InstanceConfig) -> SqlResult<Self> {
        let globals = Globals::default();
        describe(&globals, &config);
        let persisted = Persisted::load(&config.env, &config.data_dir)?;
        let mut settings = config.settings.clone();
        settings.extend(persisted.settings());
        note(&globals.apply(&settings)?);
        adopt_names(&globals, settings.iter().map(|s| s.name.as_str()));
        tell_file_limit(&globals);
        check_folder(&globals, &config.env)?;
        let (env, dir) = (&config.env, &config.data_dir);
        datadir::refuse_foreign(env, dir)?;
        let was_mending = datadir::is_mending(env, dir)?;
        let gives_up = globals.named(FORCE_RECOVERY).as_text() == POINT_IN_TIME;
        let log_files = datadir::log_files(env, dir);
        if gives_up {
            datadir::begin_mending(env, dir)?;
        }
        let opened = Engine::open(env.clone(), engine_config(&config, &globals));
        let gave_up = match &opened {
            Ok(engine) => engine.trees_ahead().is_some(),
            Err(_) => datadir::log_files(env, dir) != log_files,
        };
        if !gave_up && !was_mending && datadir::is_mending(env, dir)? {
            datadir::end_mending(env, dir)?;
        }
        let engine = opened.map_err(|e| engine_error(&e))?;
        Ok(Self {
            config,
            globals,
            persisted,
            engine,
        })
    }

    /// The engine: how far the replay is, and a way to end it early.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A numeric global variable.
    pub fn variable_u64(&self, name: &str) -> u64 {
        self.globals.named(name).as_u64()
    }

    /// Is a global variable ON?
    pub fn variable_is_on(&self, name: &str) -> bool {
        self.globals.named(name).is_on()
    }

    /// The text of a global variable; empty where it is NULL.
    pub fn variable_text(&self, name: &str) -> String {
        self.globals.named(name).as_text().to_owned()
    }

    /// Waits until the log is read, and loads catalog and accounts. For a thread that may block.
    ///
    /// # Errors
    /// A damaged log or directory; the engine was shut down meanwhile.
    pub fn finish(self) -> SqlResult<Arc<Instance>> {
        let Self {
            config,
            globals,
            persisted,
            engine,
        } = self;
        engine
            .wait_replayed()
            .block()
            .map_err(|e| engine_error(&e))?;
        let first_start = is_new(&engine);
        let loaded = datadir::accounts(
            &config.env,
            &config.data_dir,
            first_start,
            globals.named(FORCE_RECOVERY).as_text(),
            config.root_password.as_deref(),
        )?;
        // Before there is a database: one without accounts has lost them.
        let stored = match loaded {
            Some(stored) => stored,
            None => first_account(&config)?,
        };
        let mending = datadir::is_mending(&config.env, &config.data_dir)?;
        let (catalog, replaced) = match mending {
            true => Catalog::open_mending(&engine)?,
            false => (Catalog::open(&engine)?, Vec::new()),
        };
        let decided = catalog.accounts_change()?;
        let stored = accounts::store::settle(&config.env, &config.data_dir, stored, decided)?;
        let accounts = Accounts::default();
        accounts.changes().last = stored.change.max(decided);
        accounts.replace(stored.accounts);
        if accounts.have_restrictions() && !globals.named("partial_revokes").is_on() {
            tracing::warn!(
                "partial_revokes is ON: accounts have privileges that are revoked on single databases"
            );
            globals.tell("partial_revokes", VarValue::Bool(true));
        }
        accounts.take_names_literally(globals.named("partial_revokes").is_on());
        let folder = TempSpace::folder(globals.named("tmpdir").as_text(), &config.data_dir);
        globals.tell(
            "tmpdir",
            VarValue::Text(folder.display().to_string().into()),
        );
        let temp = TempSpace::open(config.env.fs.clone(), &folder, engine.memory())?;
        let version = globals.named("version").as_text().to_owned();
        let mut instance = Instance {
            started_micros: config.env.clock.wall_micros(),
            env: config.env,
            data_dir: config.data_dir,
            binlog: Binlog::default(),
            replicas: Replicas::default(),
            channels: Channels::default(),
            engine,
            catalog,
            globals,
            persisted,
            registry: Registry::default(),
            turns: Arc::default(),
            counters: Counters::default(),
            backups: BackupFigures::default(),
            digests: Digests::default(),
            system_zone: TimeZone::system(),
            prepared_count: AtomicU64::new(0),
            temp,
            flush_pipelining: AtomicBool::new(true),
            switching: Mutex::new(()),
            start_values: StartValues::default(),
            passwords: config.passwords,
            accounts,
            version,
            first_start,
            xids: OnceLock::new(),
            host_slot: HostSlot::default(),
            query_logs: QueryLogs::default(),
            deadlocks: Deadlocks::default(),
        };
        instance.apply_switches();
        instance.apply_flush_policy();
        instance.prepare_server_uuid()?;
        instance.start_binlog()?;
        let instance = Arc::new(instance);
        let weak = Arc::downgrade(&instance);
        instance.engine.observe_deadlocks(Box::new(move |deadlock| {
            if let Some(instance) = weak.upgrade() {
                instance.note_deadlock(deadlock);
            }
        }));
        if mending {
            let ahead = instance.engine.trees_ahead();
            datadir::mend(&instance, ahead, &replaced)?;
            datadir::end_mending(&instance.env, &instance.data_dir)?;
        }
        instance.empty_memory_tables();
        Ok(instance)
    }
}

/// Has nothing ever been made in the database?
fn is_new(engine: &Engine) -> bool {
    engine.tree_ids().is_empty()
}

/// Makes and keeps the account of the first start.
fn first_account(config: &InstanceConfig) -> SqlResult<Stored> {
    let mut salt = [0; SALT_BYTES];
    config.env.random.fill(&mut salt);
    let password = config.root_password.as_deref().unwrap_or("");
    let root = Account::root((config.passwords.hash)(
        Plugin::CachingSha2,
        password.as_bytes(),
        &salt,
    ));
    let stored = Stored::first(vec![root]);
    accounts::store::prepare(&config.env, &config.data_dir, &stored)?;
    accounts::store::install(&config.env, &config.data_dir)?;
    Ok(stored)
}

impl Instance {
    /// Opens the data directory: recovery, catalog, accounts.
    ///
    /// # Errors
    /// A directory in use or damaged, unknown or bad settings.
    pub fn open(config: InstanceConfig) -> SqlResult<Arc<Self>> {
        Starting::begin(config)?.finish()
    }

    /// Opens the binary log: behind the recovery, before the first session.
    fn start_binlog(&mut self) -> SqlResult<()> {
        self.binlog = Binlog::start(&StartArgs {
            engine: &self.engine,
            env: &self.env,
            data_dir: &self.data_dir,
            globals: &self.globals,
        })?;
        Ok(())
    }

    /// Takes the rows of MEMORY tables away. Where that fails (a full disk) they stay: reading goes on.
    fn empty_memory_tables(&self) {
        if !self.catalog.has_table_of(StorageEngine::Memory) {
            return;
        }
        // Prepared transactions have the locks of their tables.
        self.xids();
        if let Err(e) = ddl::empty_memory_tables(&self.catalog, &mut self.new_lock_set()) {
            tracing::warn!("MEMORY tables keep their rows: {}", e.message);
        }
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
        let seq = logged.commit_with(txn, &self.catalog)?;
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

    /// Makes the server's UUID on the first start; it is kept in `auto.cnf`, as MySQL keeps it.
    fn prepare_server_uuid(&self) -> SqlResult<()> {
        const FILE: &str = "auto.cnf";
        const MAX_FILE: u64 = 4096;
        let path = self.data_dir.join(FILE);
        let fail = |e: std::io::Error| errors::storage_failed(format!("{}: {e}", path.display()));
        let fs = &self.env.fs;
        if fs.exists(&path).map_err(fail)? {
            let file = fs.open(&path, OpenMode::Read).map_err(fail)?;
            let mut bytes = vec![0; file.len().map_err(fail)?.min(MAX_FILE) as usize];
            file.read_exact_at(&mut bytes, 0).map_err(fail)?;
            let text = String::from_utf8_lossy(&bytes);
            let uuid = text.lines().find_map(|l| l.strip_prefix("server-uuid="));
            let uuid = VarValue::Text(uuid.unwrap_or_default().into());
            self.globals.tell("server_uuid", uuid);
            return Ok(());
        }
        let mut b = [0; 16];
        self.fill_random(&mut b);
        // RFC 9562 version 4.
        b[6] = b[6] & 0x0f | 0x40;
        b[8] = b[8] & 0x3f | 0x80;
        let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
        let uuid = format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        );
        let file = fs.open(&path, OpenMode::CreateOrOpen).map_err(fail)?;
        file.write_all_at(format!("[auto]\nserver-uuid={uuid}\n").as_bytes(), 0)
            .map_err(fail)?;
        file.sync_all().map_err(fail)?;
        fs.sync_dir(&self.data_dir).map_err(fail)?;
        self.globals
            .tell("server_uuid", VarValue::Text(uuid.into()));
        Ok(())
    }

    /// The engine, for tests and the embedded use.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The variable mandatory_roles.
    pub(crate) fn mandatory_roles(&self) -> Vec<RoleName> {
        accounts::parse_names(self.globals.named("mandatory_roles").as_text())
    }

    /// The variable partial_revokes: with it names of databases in grants are literal.
    pub(crate) fn apply_partial_revokes(&self) {
        let literal = self.variable_is_on("partial_revokes");
        self.accounts.take_names_literally(literal);
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

    /// Gives the log the flush policy that the variables say: at start, and after SET GLOBAL of one
    /// of them.
    pub(crate) fn apply_flush_policy(&self) {
        let number = |name| self.globals.named(name).as_u64();
        self.engine.set_flush_policy(&FlushPolicy {
            transactions: number("esker_log_flush_transactions"),
            bytes: number("esker_log_flush_bytes"),
            interval: Duration::from_micros(number("esker_log_flush_interval")),
            in_flight: number("esker_log_flush_in_flight") as usize,
            overlap_from: Duration::from_micros(number("esker_log_flush_overlap")),
        });
    }

    /// Gives the engine the memory that `esker_memory_limit` says, after SET GLOBAL.
    pub(crate) fn apply_memory_limit(&self) {
        let bytes = self.globals.named("esker_memory_limit").as_u64();
        self.engine.set_memory_limit(bytes as usize);
    }

    /// Carries the variables that switch parts of the engine on and off over to where it looks: at start, and
    /// after SET GLOBAL of one of them.
    pub(crate) fn apply_switches(&self) {
        let _one_at_a_time = self.switching.lock();
        let switches = self.engine.switches();
        switches.set_early_lock_release(self.variable_is_on("esker_early_lock_release"));
        switches.set_verify_answers(self.variable_is_on("esker_verify_metadata_answers"));
        let async_commit = self.variable_is_on("esker_async_commit");
        let durable_snapshots = !async_commit && self.variable_is_on("esker_durable_snapshots");
        if !durable_snapshots {
            switches.set_durable_snapshots(false);
        }
        switches.set_async_commit(async_commit);
        if durable_snapshots && !switches.durable_snapshots() {
            // What was acknowledged before must be seen. A log that has failed ends the process elsewhere.
            let acknowledged = self.engine.visible_seq();
            let _ = self.engine.wait_durable(acknowledged).block();
            switches.set_durable_snapshots(true);
        }
        let measures = ["performance_schema", "esker_statement_statistics"];
        self.digests
            .switch(measures.iter().all(|name| self.variable_is_on(name)));
        for (log, switch, file) in [
            (
                &self.query_logs.slow,
                "slow_query_log",
                "slow_query_log_file",
            ),
            (&self.query_logs.general, "general_log", "general_log_file"),
        ] {
            log.switch(
                self.variable_is_on(switch),
                &self.data_dir,
                &self.variable_text(file),
            );
        }
        let pipelining = self.variable_is_on("esker_flush_pipelining");
        self.flush_pipelining.store(pipelining, Ordering::Relaxed);
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

    pub(crate) fn count_connection(&self) {
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        let now = self.registry.count() as u64;
        self.counters
            .max_used_connections
            .fetch_max(now, Ordering::Relaxed);
    }

    /// A login failed.
    pub fn count_aborted_connect(&self) {
        self.counters
            .aborted_connects
            .fetch_add(1, Ordering::Relaxed);
    }

    /// How many FLUSH HOSTS there were.
    pub fn host_flushes(&self) -> u64 {
        self.counters.host_flushes.load(Ordering::Relaxed)
    }

    /// A login had to wait because others had failed.
    pub fn count_login_delay(&self) {
        self.counters.login_delays.fetch_add(1, Ordering::Relaxed);
    }

    /// From now on the process that statements like SHUTDOWN ask is there.
    pub fn serve_for(&self, host: Box<dyn Host>) {
        self.host_slot.set(host);
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

    /// The server goes down: whatever runs or waits ends with error 1053.
    pub fn interrupt_sessions(&self) {
        self.registry.shut_down();
    }

    /// A session ended without COM_QUIT.
    pub fn count_aborted_client(&self) {
        self.counters
            .aborted_clients
            .fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was refused because there were too many.
    pub fn count_refused_connection(&self) {
        self.counters
            .refused_connections
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a prepared statement.
    ///
    /// # Errors
    /// 1461.
    pub(crate) fn count_prepared(&self) -> SqlResult<()> {
        let limit = self.globals.named("max_prepared_stmt_count").as_u64();
        if self.prepared_count.fetch_add(1, Ordering::Relaxed) >= limit {
            self.prepared_count.fetch_sub(1, Ordering::Relaxed);
            let text = format!(
                "Can't create more than max_prepared_stmt_count statements (current value: {limit})"
            );
            return Err(SqlError::new(1461, "42000", text));
        }
        Ok(())
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

/// The variables that describe the machine and this process.
fn describe(globals: &Globals, config: &InstanceConfig) {
    let text = |name, text: String| globals.tell(name, VarValue::Text(text.into()));
    if let Some(name) = esker_vfs::machine::host_name() {
        text("hostname", name);
    }
    text("version_compile_machine", std::env::consts::ARCH.to_owned());
    let now = config.env.clock.wall_micros();
    text("system_time_zone", zone_name(&TimeZone::system(), now));
    if let Some(memory) = esker_vfs::machine::memory() {
        globals.tell("server_memory", VarValue::UInt(memory));
    }
}

/// Checks the settings of a start, and writes into the log what it would say of them.
///
/// # Errors
/// Everything that would stop the start, in one message.
pub fn check_settings(settings: &[Setting]) -> SqlResult<()> {
    note(&Globals::default().apply(settings)?);
    Ok(())
}

fn note(notes: &Notes) {
    for line in &notes.lines {
        tracing::warn!("{line}");
    }
    if !notes.idle.is_empty() {
        let names = notes.idle.join(", ");
        tracing::warn!("settings that have no effect in Esker: {names}");
    }
}

/// The server has what the system allows, whatever was asked for.
fn tell_file_limit(globals: &Globals) {
    let wanted = globals.named("open_files_limit").as_u64();
    let Some(files) = esker_vfs::machine::open_files() else {
        return;
    };
    if wanted > files {
        tracing::warn!("open_files_limit={wanted}: the system allows {files}");
    }
    globals.tell("open_files_limit", VarValue::UInt(files));
}

/// What a clock on the wall calls the zone now: `UTC`, `CET`.
fn zone_name(zone: &TimeZone, now_micros: i64) -> String {
    let now = jiff::Timestamp::from_microsecond(now_micros).unwrap_or_default();
    zone.to_offset_info(now).abbreviation().to_owned()
}

/// MySQL does not start either when files are to be read from and written to a folder that is not there.
fn check_folder(globals: &Globals, env: &Env) -> SqlResult<()> {
    let folder = globals.named("secure_file_priv");
    let folder = folder.as_text();
    if folder.is_empty() || env.fs.list(std::path::Path::new(folder)).is_ok() {
        return Ok(());
    }
    Err(errors::wrong_setting(format!(
        "secure_file_priv names '{folder}', which is no folder that can be read"
    )))
}

fn engine_config(config: &InstanceConfig, globals: &Globals) -> EngineConfig {
    let size = |name| globals.named(name).as_u64();
    EngineConfig {
        memory_limit: size("esker_memory_limit") as usize,
        memtable_bytes: size("esker_memtable_size") as usize,
        max_txn_bytes: size("esker_max_transaction_size"),
        txn_memory_bytes: size("esker_transaction_memory"),
        log_segment_bytes: size("esker_log_segment_size"),
        log_limit_bytes: size("esker_log_live_size"),
        log_buffer: globals
            .named("esker_log_buffer")
            .as_text()
            .parse()
            .expect("the variable takes these names only"),
        force_recovery: match globals.named(FORCE_RECOVERY).as_text() {
            POINT_IN_TIME => ForceRecovery::PointInTime,
            _ => ForceRecovery::Off,
        },
        compaction_threads: size("esker_compaction_threads") as usize,
        recovery: recovery_mode(globals),
        recovery_threads: size("esker_recovery_threads") as usize,
        scan_threads: size("esker_scan_threads") as usize,
        followers: match crate::binlog::follows(&config.env, &config.data_dir, globals) {
            true => vec![crate::binlog::FOLLOWER],
            false => Vec::new(),
        },
        log_buffer_bytes: (size("esker_log_buffer_size") as usize).next_power_of_two(),
        ..EngineConfig::new(&config.data_dir)
    }
}

/// `esker_recovery_mode`.
fn recovery_mode(globals: &Globals) -> RecoveryMode {
    match globals.named("esker_recovery_mode").as_text() {
        "SERIAL-SYNC" => RecoveryMode::SerialSync,
        "SERIAL-ASYNC" => RecoveryMode::SerialAsync,
        _ => RecoveryMode::Parallel,
    }
}
