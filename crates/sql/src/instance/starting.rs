//! Starting a database: settings, data directory, replay, catalog and accounts, in this order.
//!
//! Neighbours: the server begins a start and lets it finish on a thread that may block; `datadir` knows the files.
//! **Invariant**: nothing but the engine has written before the log is read.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock, Weak};

use esker_engine::{Engine, EngineConfig, ForceRecovery, RecoveryMode};
use esker_sql_catalog::accounts::store::Stored;
use esker_sql_catalog::accounts::{self, Account, Accounts, Plugin};
use esker_sql_catalog::catalog::{Catalog, StorageEngine, TableDef};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::variables::{Globals, Notes, Setting, StartValues, VarValue};
use esker_sql_exec::TempSpace;
use esker_types::hex::lower_hex;
use esker_types::{SqlResult, errors};
use esker_vfs::{Env, OpenMode};
use jiff::tz::TimeZone;
use parking_lot::Mutex;

use super::{Counters, Instance, InstanceConfig, SALT_BYTES};
use crate::audit::AuditLog;
use crate::binlog::{Binlog, Replicas, StartArgs, adopt_names};
use crate::capture::DatabaseFilter;
use crate::datadir;
use crate::ddl;
use crate::host::HostSlot;
use crate::infoschema::metrics::Metrics;
use crate::infoschema::{self, Deadlocks};
use crate::instruments::Instruments;
use crate::loglines::LineLimit;
use crate::persisted::Persisted;
use crate::querylog::{self, QueryLogs};
use crate::replica::{Channels, RulesAtStart};
use crate::scheduler::Scheduler;
use crate::session::registry::Registry;
use crate::session::server_backup::BackupFigures;
use crate::statements::Digests;

/// The variable that says without what a start goes on, and the value for the end of a damaged log.
const FORCE_RECOVERY: &str = "esker_force_recovery";
const POINT_IN_TIME: &str = "POINT-IN-TIME";

/// Do settings of the start leave `persisted_globals_load` on?
fn loads_persisted(settings: &[Setting]) -> SqlResult<bool> {
    let asked = Globals::default();
    asked.apply(settings)?;
    Ok(asked.named("persisted_globals_load").is_on())
}

/// A database whose log is being replayed: the manifest is loaded, the directory is ours, and the log takes new
/// records, but nobody knows yet what was committed last.
pub struct Starting {
    config: InstanceConfig,
    globals: Globals,
    persisted: Persisted,
    /// Are the values that SET PERSIST has kept in force?
    loads_persisted: bool,
    engine: Engine,
    /// Options that are lists.
    lists: Vec<(&'static str, String)>,
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
        let loads_persisted = loads_persisted(&settings)?;
        if loads_persisted {
            settings.extend(persisted.settings());
        }
        let notes = globals.apply(&settings)?;
        note(&notes);
        adopt_names(&globals, settings.iter().map(|s| s.name.as_str()));
        tell_file_limit(&globals);
        check_folder(&globals, &config.env)?;
        check_logs(&globals, &config.data_dir)?;
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
            loads_persisted,
            engine,
            lists: notes.lists,
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

    /// Does one of the variables have a value that SET PERSIST has kept?
    pub fn keeps_any(&self, names: &[&str]) -> bool {
        let kept = self.persisted.all();
        self.loads_persisted && names.iter().any(|name| kept.contains_key(*name))
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
            lists,
            ..
        } = self;
        let replayed = engine.wait_replayed().block();
        replayed.map_err(|e| engine_error(&e))?;
        let first_start = is_new(&engine);
        let stored = stored_accounts(&config, &globals, first_start)?;
        let mending = datadir::is_mending(&config.env, &config.data_dir)?;
        let (catalog, replaced) = match mending {
            true => Catalog::open_mending(&engine)?,
            false => (Catalog::open(&engine)?, Vec::new()),
        };
        let accounts = serve_accounts(&config, &catalog, stored, &globals)?;
        tell_what_follows(&globals);
        let temp = open_temp_space(&config, &globals, &engine)?;
        let started_micros = config.env.clock.wall_micros();
        let mut instance = Instance {
            query_logs: QueryLogs::new(&config.data_dir),
            started_micros,
            env: config.env,
            data_dir: config.data_dir,
            binlog: Binlog::default(),
            replicas: Replicas::default(),
            channels: Channels::new(RulesAtStart::read(&lists)?, started_micros),
            scheduler: Scheduler::default(),
            engine,
            catalog,
            version: globals.named("version").as_text().to_owned(),
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
            first_start,
            xids: OnceLock::new(),
            host_slot: HostSlot::default(),
            audit: AuditLog::default(),
            deadlocks: Deadlocks::default(),
            instruments: Instruments::new(infoschema::instruments_at_start()),
            metrics: Metrics::new(started_micros),
            kills_told: LineLimit::default(),
        };
        instance.apply_switches();
        instance.apply_flush_policy();
        instance.prepare_server_uuid()?;
        instance.start_binlog(DatabaseFilter::of(&lists))?;
        let instance = Arc::new(instance);
        keep_deadlocks(&instance);
        if mending {
            datadir::mend(&instance, instance.engine.trees_ahead(), &replaced)?;
            datadir::end_mending(&instance.env, &instance.data_dir)?;
        }
        instance.empty_memory_tables();
        instance.switch_metrics_at_start();
        Ok(instance)
    }
}

/// Opens the folder for temporary files, which `tmpdir` tells from then on.
fn open_temp_space(
    config: &InstanceConfig,
    globals: &Globals,
    engine: &Engine,
) -> SqlResult<Arc<TempSpace>> {
    let folder = TempSpace::folder(globals.named("tmpdir").as_text(), &config.data_dir);
    let text = folder.display().to_string();
    globals.tell("tmpdir", VarValue::Text(text.into()));
    TempSpace::open(config.env.fs.clone(), &folder, engine.memory())
}

/// Lets the instance keep what is known of each deadlock.
fn keep_deadlocks(instance: &Arc<Instance>) {
    let weak = Arc::downgrade(instance);
    instance.engine.observe_deadlocks(Box::new(move |deadlock| {
        let noted = weak
            .upgrade()
            .map(|instance| instance.note_deadlock(deadlock));
        let weak = Weak::clone(&weak);
        Box::new(move || {
            if let (Some(instance), Some(noted)) = (weak.upgrade(), noted) {
                instance.tell_deadlock(&noted);
            }
        })
    }));
}

/// The accounts of the data directory, or the first one of a new directory.
///
/// Read before there is a database: one without accounts has lost them.
fn stored_accounts(
    config: &InstanceConfig,
    globals: &Globals,
    first_start: bool,
) -> SqlResult<Stored> {
    let loaded = datadir::accounts(
        &config.env,
        &config.data_dir,
        first_start,
        globals.named(FORCE_RECOVERY).as_text(),
        config.root_password.as_deref(),
    )?;
    match loaded {
        Some(stored) => Ok(stored),
        None => first_account(config),
    }
}

/// The accounts as sessions ask them, at the last change that is theirs or the catalog's.
fn serve_accounts(
    config: &InstanceConfig,
    catalog: &Catalog,
    stored: Stored,
    globals: &Globals,
) -> SqlResult<Accounts> {
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
    Ok(accounts)
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
    /// Opens the binary log: behind the recovery, before the first session.
    fn start_binlog(&mut self, filter: DatabaseFilter) -> SqlResult<()> {
        self.binlog = Binlog::start(&StartArgs {
            engine: &self.engine,
            env: &self.env,
            data_dir: &self.data_dir,
            globals: &self.globals,
            locks: self.catalog.locks(),
            filter,
        })?;
        self.gather_unlogged()
    }

    /// Takes the rows of MEMORY tables away. Where that fails (a full disk) they stay: reading goes on.
    fn empty_memory_tables(&self) {
        if !self.catalog.has_table_of(StorageEngine::Memory) {
            return;
        }
        // Prepared transactions have the locks of their tables.
        self.xids();
        let log = |table: &TableDef| self.log_emptied(table);
        if let Err(e) = ddl::empty_memory_tables(&self.catalog, &mut self.new_lock_set(), log) {
            tracing::warn!("MEMORY tables keep their rows: {}", e.message);
        }
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
        let hex = lower_hex(&b);
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

/// Variables whose values follow from those of others.
fn tell_what_follows(globals: &Globals) {
    if globals.named("report_port").as_u64() == 0 {
        globals.tell("report_port", globals.named("port"));
    }
    if globals.named("gtid_mode").as_text() == "ON" {
        globals.tell("enforce_gtid_consistency", VarValue::Text("ON".into()));
    }
}

/// The server has what the system allows, whatever was asked for.
fn tell_file_limit(globals: &Globals) {
    let wanted = globals.named("open_files_limit").as_u64();
    let Some(files) = esker_vfs::machine::open_files() else {
        return;
    };
    if wanted > 0 && wanted != files {
        tracing::warn!("open_files_limit={wanted}: the system allows {files}");
    }
    globals.tell("open_files_limit", VarValue::UInt(files));
}

/// What a clock on the wall calls the zone now: `UTC`, `CET`.
fn zone_name(zone: &TimeZone, now_micros: i64) -> String {
    let now = jiff::Timestamp::from_microsecond(now_micros).unwrap_or_default();
    zone.to_offset_info(now).abbreviation().to_owned()
}

/// No log is appended to another file of the server.
fn check_logs(globals: &Globals, data_dir: &Path) -> SqlResult<()> {
    let text = |name: &str| globals.named(name).as_text().to_owned();
    let others = querylog::other_files(data_dir, &text);
    for variable in querylog::FILES {
        let name = globals.named(variable);
        let name = name.as_text();
        if querylog::place(data_dir, name, &others) == querylog::Place::OfServer {
            return Err(errors::wrong_setting(format!(
                "{variable} names '{name}', which is no log; in the data directory names of logs end in .log, .err, \
                 .txt, .out, .json or .csv"
            )));
        }
    }
    Ok(())
}

/// MySQL does not start either when files are to be read from and written to a folder that is not there.
fn check_folder(globals: &Globals, env: &Env) -> SqlResult<()> {
    let folder = globals.named("secure_file_priv");
    let folder = folder.as_text();
    if folder.is_empty() || env.fs.list(Path::new(folder)).is_ok() {
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
