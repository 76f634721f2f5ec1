//! SET: system variables, user variables, NAMES, CHARACTER SET.
//!
//! Neighbours: `variables` knows what may be set; `global` has what more there is to global ones; `run` evaluates the
//! right sides.
//! **Invariants**: items are applied in order and those before an error stay applied, as MySQL does
//! for user variables; the hot copies are derived again after every change.

mod global;

use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::variables::{
    CLIENT_CHARSETS, OF_THE_DATA, Scope, SessionVars, Taken, VarId, VarValue, check_client,
    coupled, deprecated, mismatch, unknown, value,
};
use esker_sql_syntax::Deprecation;
use esker_sql_syntax::ast::{Expr, Isolation, SetItem, SetTransaction, SysVar, VarScope};
use esker_types::collation::{Charset, Collation};
use esker_types::{Level, SqlError, SqlResult, Value, errors};

use super::Session;
use super::names::session_variable;
use crate::infoschema::metrics;

/// Global variables that switch parts of the engine on and off.
const SWITCHES: [&str; 17] = [
    "esker_async_commit",
    "esker_audit_log",
    "esker_audit_log_events",
    "esker_audit_log_file",
    "esker_durable_snapshots",
    "esker_early_lock_release",
    "esker_flush_pipelining",
    "esker_statement_statistics",
    "esker_verify_metadata_answers",
    "general_log",
    "general_log_file",
    "log_error_services",
    "log_error_verbosity",
    "log_output",
    "log_slow_extra",
    "slow_query_log",
    "slow_query_log_file",
];
/// Global variables whose names begin so make up the flush policy of the log.
const FLUSH_POLICY: &str = "esker_log_flush_";

/// Variables that `SET @@name` without a scope sets for the next transaction only.
const NEXT_ONLY: [&str; 2] = ["transaction_isolation", "transaction_read_only"];

/// What default_collation_for_utf8mb4 may be.
const UTF8MB4_DEFAULTS: [&str; 2] = ["utf8mb4_0900_ai_ci", "utf8mb4_general_ci"];
/// Session variables that MySQL lets only administrators set.
const RESTRICTED: &[&str] = &[
    "binlog_direct_non_transactional_updates",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_value_options",
    "binlog_rows_query_log_events",
    "binlog_transaction_compression",
    "binlog_transaction_compression_level_zstd",
    "bulk_insert_buffer_size",
    "character_set_database",
    "character_set_filesystem",
    "connection_memory_chunk_size",
    "connection_memory_limit",
    "global_connection_memory_tracking",
    "histogram_generation_max_mem_size",
    "internal_tmp_mem_storage_engine",
    "low_priority_updates",
    "max_delayed_threads",
    "max_error_count",
    "max_insert_delayed_threads",
    "min_examined_row_limit",
    "preload_buffer_size",
    "pseudo_thread_id",
    "select_into_buffer_size",
    "select_into_disk_sync_delay",
    "sql_generate_invisible_primary_key",
    "sql_log_bin",
    "sql_log_off",
    "sql_require_primary_key",
    "xa_detach_on_prepare",
];
/// Those that a session has from its beginning to its end.
const OF_NEW_SESSIONS: &[&str] = &[
    "max_allowed_packet",
    "max_user_connections",
    "net_buffer_length",
];
/// Those that are set to a value only.
const WITHOUT_DEFAULT: &[&str] = &[
    "identity",
    "insert_id",
    "last_insert_id",
    "rand_seed1",
    "rand_seed2",
];
/// Those that whoever applies what others have logged may set as well.
const OF_APPLIERS: &[&str] = &[
    "immediate_server_version",
    "original_commit_timestamp",
    "original_server_version",
    "pseudo_replica_mode",
    "pseudo_slave_mode",
];

impl Session {
    /// Runs all items of one SET.
    pub(crate) fn set(&mut self, items: &[SetItem], params: &[Value]) -> Result<(), ExecError> {
        self.tracker.mark_any(&self.values);
        // Locks come first: a statement that waits for one runs again from its beginning.
        for value in items.iter().filter_map(read_value) {
            self.lock_tables_of(value, params)?;
        }
        self.await_writers(items)?;
        for item in items {
            match item {
                SetItem::UserVar { name, value } => {
                    let (value, ty) = self.evaluate(value, params)?;
                    self.context.set_user_var(name, value, ty)?;
                }
                SetItem::SysVar { var, value } => self.set_system(var, value.as_ref(), params)?,
                SetItem::Names { charset, collation } => {
                    self.set_names(charset.as_deref(), collation.as_deref())?;
                }
                SetItem::Charset(charset) => self.set_charset(charset.as_deref())?,
            }
        }
        Ok(())
    }

    fn set_system(
        &mut self,
        var: &SysVar,
        value: Option<&Expr>,
        params: &[Value],
    ) -> Result<(), ExecError> {
        if let Some(base) = &var.base {
            return Err(unknown(&format!("{base}.{}", var.name)).into());
        }
        let id = VarId::find(&var.name)?;
        if let Some((code, text)) = deprecated::of_variable(id.def().name) {
            self.warn(Level::Warning, code, text);
        }
        let given = match value {
            None => None,
            // There are no tables here.
            Some(Expr::Column(_)) => return Err(errors::wrong_type(id.def().name).into()),
            // A label is a text to every check of values.
            Some(e) => Some(match self.evaluate(e, params)?.0 {
                Value::Label(_, text) => Value::Str(text.into_vec()),
                value => value,
            }),
        };
        self.set_variable(id, var, given).map_err(Into::into)
    }

    fn set_variable(&mut self, id: VarId, var: &SysVar, given: Option<Value>) -> SqlResult<()> {
        let taken = match var.scope {
            Some(VarScope::Global) => self.set_global(id, given.as_ref())?,
            Some(VarScope::Persist | VarScope::PersistOnly)
                if OF_THE_DATA.contains(&id.def().name) =>
            {
                self.context
                    .require_any(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
                let name = id.def().name;
                return Err(errors::read_only_variable(name, "non persistent"));
            }
            Some(VarScope::Persist) => {
                let taken = self.set_global(id, given.as_ref())?;
                let value = self.context.instance.globals.get(id);
                self.context.keep(id, &value)?;
                taken
            }
            Some(VarScope::PersistOnly) => self.context.persist_only(id, given.as_ref())?,
            None if var.text.starts_with("@@") && NEXT_ONLY.contains(&id.def().name) => {
                self.set_next_transaction(id, given.as_ref())?
            }
            Some(VarScope::Session) | None => {
                match id.def().name {
                    "gtid_next" => self.context.admit_gtid_next(given.as_ref())?,
                    name if OF_NEW_SESSIONS.contains(&name) => {
                        if let Some(given) = &given {
                            value::from_value(id.def(), given)?;
                        }
                        return Err(errors::read_only_in_session(name));
                    }
                    name if given.is_none() && WITHOUT_DEFAULT.contains(&name) => {
                        return Err(errors::variable_without_default(name));
                    }
                    name if OF_APPLIERS.contains(&name) => self.context.require_applier()?,
                    name if RESTRICTED.contains(&name) => self.context.require_restricted()?,
                    _ => {}
                }
                self.set_session(id, given.as_ref())?
            }
        };
        if taken.clamped {
            let shown = given.as_ref().map(printed).unwrap_or_default();
            let text = format!("Truncated incorrect {} value: '{shown}'", id.def().name);
            self.warn(Level::Warning, 1292, text);
        }
        self.warn_of_setting(id, var.scope, given.as_ref());
        if taken.idle {
            self.warn(Level::Warning, 1235, Taken::idle_text(id.def()));
        }
        Ok(())
    }

    /// `SET @@transaction_isolation = …` without a scope holds for the next transaction only.
    fn set_next_transaction(&mut self, id: VarId, given: Option<&Value>) -> SqlResult<Taken> {
        let value = match given {
            None => self.context.instance.globals.get(id),
            Some(given) => value::from_value(id.def(), given)?.0,
        };
        let set = match id.def().name {
            "transaction_isolation" => SetTransaction {
                scope: None,
                isolation: Isolation::named(value.as_text()),
                read_only: None,
            },
            _ => SetTransaction {
                scope: None,
                isolation: None,
                read_only: Some(value.is_on()),
            },
        };
        self.set_transaction(&set)?;
        Ok(Taken::default())
    }

    /// Warns of values that MySQL calls deprecated.
    fn warn_of_setting(&mut self, id: VarId, scope: Option<VarScope>, given: Option<&Value>) {
        let name = id.def().name;
        let value = match scope {
            Some(VarScope::Session) | None => self.values.get(id).clone(),
            Some(_) => self.context.instance.globals.get(id),
        };
        for (code, text) in deprecated::of_setting(name, &value) {
            self.warn(Level::Warning, code, text);
        }
        if name == "binlog_row_value_options" && !value.as_text().is_empty() {
            self.warn_of_whole_images(scope);
        }
        if name.starts_with("character_set_") {
            // An alias is known by what was written only.
            let written = given.map(printed).unwrap_or_default().to_ascii_lowercase();
            let found = Deprecation::of_charset(&written)
                .or_else(|| Deprecation::of_charset(value.as_text()));
            self.diagnostics.warn_of(&self.vars, found.as_slice());
        } else if name.starts_with("collation_") {
            let found = Deprecation::of_collation(value.as_text());
            self.diagnostics.warn_of(&self.vars, found.as_slice());
        }
    }

    /// 3647: what a row was is logged whole.
    fn warn_of_whole_images(&mut self, scope: Option<VarScope>) {
        let image = match scope {
            Some(VarScope::Session) | None => self.values.named("binlog_row_image").clone(),
            Some(_) => self.context.instance.globals.named("binlog_row_image"),
        };
        if image.as_text() == "FULL" {
            let text = "When binlog_row_image=FULL, the option binlog_row_value_options=PARTIAL_JSON will be used only \
                        for the after-image. Full values will be written in the before-image, so the saving in disk \
                        space due to binlog_row_value_options is limited to less than 50%.";
            self.warn(Level::Warning, 3647, text.to_owned());
        }
    }

    /// SET GLOBAL.
    fn set_global(&mut self, id: VarId, given: Option<&Value>) -> SqlResult<Taken> {
        self.context
            .require_any(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
        self.context.check_special(id, given)?;
        self.admit_setting_here(id.def().name, true)?;
        if OF_THE_DATA.contains(&id.def().name) {
            self.set_gtids(id.def().name, given)?;
            return Ok(Taken::default());
        }
        if let Some(Value::Str(text)) = given
            && metrics::SWITCHES.contains(&id.def().name)
        {
            let text = String::from_utf8_lossy(text);
            let instance = &self.context.instance;
            instance.switch_metrics(id.def().name, &text, &self.context)?;
        }
        let before = self.context.instance.globals.get(id);
        let taken = self.context.instance.globals.set(id, given)?;
        let admitted = match id.def().name {
            "partial_revokes" => self.context.admit_partial_revokes(),
            "event_scheduler" => self.context.admit_event_scheduler(&before, given),
            name => self.context.instance.admit_global(name, &before),
        };
        if let Err(e) = admitted {
            self.context.instance.globals.tell(id.def().name, before);
            return Err(e);
        }
        // What switches the audit log off, or turns to another file, is in the old one as well.
        self.context.audit_setting(id);
        self.context.note_setting(id);
        self.apply_global(id);
        self.warn_of_skips(id.def().name, &before);
        Ok(taken)
    }

    /// Sets of GTIDs that stand elsewhere than among the values of variables.
    fn set_gtids(&self, name: &str, given: Option<&Value>) -> SqlResult<()> {
        let instance = &self.context.instance;
        let text = match given {
            None => return Err(errors::variable_without_default(name)),
            Some(Value::Null) => return Err(errors::wrong_value(name, "NULL")),
            Some(given @ Value::Str(_)) => printed(given),
            Some(_) => return Err(errors::wrong_type(name)),
        };
        match name {
            "gtid_purged" => instance.set_gtid_purged(&text),
            _ => instance.set_gtid_slave_pos(&text),
        }
    }

    /// 4016, where a global variable that was something else `before` leaves channels with GTIDs something to skip.
    fn warn_of_skips(&mut self, name: &str, before: &VarValue) {
        let instance = &self.context.instance;
        let concerns = match name {
            "gtid_mode" => instance.globals.named(name) != *before,
            name => matches!(name, "sql_replica_skip_counter" | "sql_slave_skip_counter"),
        };
        if concerns && instance.skips_assigned_alone() {
            let text = "The value of sql_replica_skip_counter will only take effect for channels running with \
                        ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS <> OFF.";
            self.warn(Level::Warning, 4016, text.to_owned());
        }
    }

    /// RESET PERSIST.
    ///
    /// # Errors
    /// 1227; 3615 for a name of which nothing is kept.
    pub(super) fn reset_persist(&mut self, name: Option<&str>, if_exists: bool) -> SqlResult<()> {
        self.context
            .require_any(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
        let lower = name.map(str::to_ascii_lowercase);
        if self.context.instance.reset_persisted(lower.as_deref())? {
            return Ok(());
        }
        let name = name.unwrap_or_default();
        let text = format!("Variable {name} does not exist in persisted config file");
        if !if_exists {
            return Err(SqlError::new(3615, "HY000", text));
        }
        self.warn(Level::Warning, 3615, text);
        Ok(())
    }

    /// What a new global value changes besides itself.
    fn apply_global(&mut self, id: VarId) {
        if id.def().name == "mandatory_roles" {
            self.context.instance.accounts().touch();
        }
        if id.def().name == "event_scheduler" {
            self.context.instance.apply_event_scheduler();
        }
        if id.def().name == "partial_revokes" {
            self.context.instance.apply_partial_revokes();
        }
        if id.def().name.starts_with(FLUSH_POLICY) {
            self.context.instance.apply_flush_policy();
        }
        if matches!(id.def().name, "replica_net_timeout" | "slave_net_timeout") {
            let instance = &self.context.instance;
            let seconds = instance.globals.get(id).as_u64();
            if let Some((level, code, text)) = instance.doubts_of_timeout(seconds) {
                self.warn(level, code, text);
            }
        }
        if let Some(text) = self.context.instance.globals.unheeded(id.def().name) {
            self.warn(Level::Warning, 1235, text);
        }
        if id.def().name == "esker_scan_threads" {
            let instance = &self.context.instance;
            let threads = instance.variable_u64("esker_scan_threads") as usize;
            instance.engine.set_scan_threads(threads);
        }
        if matches!(
            id.def().name,
            "esker_memory_limit" | "innodb_buffer_pool_size"
        ) {
            self.context.instance.apply_memory_limit();
        }
        if !SWITCHES.contains(&id.def().name) {
            return;
        }
        let instance = self.context.instance.clone();
        instance.apply_switches();
        if id.def().name == "esker_async_commit" && instance.variable_is_on(id.def().name) {
            let text = "Commits are acknowledged before they are durable: a crash can lose the newest of them";
            self.warn(Level::Warning, 1105, text.to_owned());
        }
    }

    /// Numbers that are kept beside the variables.
    fn set_number(&mut self, id: VarId, given: Option<&Value>) -> SqlResult<Taken> {
        let name = id.def().name;
        let (value, clamped) = match given {
            None => (value::default_of(id.def()), false),
            Some(given) => value::from_value(id.def(), given)?,
        };
        let number = match value {
            VarValue::UInt(n) => n,
            _ => 0,
        };
        match name {
            "insert_id" => self.context.insert_id.set(number),
            "rand_seed1" | "rand_seed2" => {
                let (one, two) = self.context.seeds.get().unwrap_or_default();
                let seeds = if name == "rand_seed1" {
                    (number, two)
                } else {
                    (one, number)
                };
                self.context.seeds.set(Some(seeds));
            }
            _ => self.context.last_insert_id.set(number),
        }
        self.tracker.mark_variable(name);
        Ok(Taken {
            clamped,
            idle: false,
        })
    }

    fn set_session(&mut self, id: VarId, given: Option<&Value>) -> SqlResult<Taken> {
        let name = id.def().name;
        self.remember_option(id);
        if id.def().scope != Scope::Global {
            self.admit_setting_here(name, false)?;
            match name {
                "last_insert_id" | "identity" | "insert_id" | "rand_seed1" | "rand_seed2" => {
                    return self.set_number(id, given);
                }
                "gtid_next" => {
                    let shown = self.set_gtid_next(given)?;
                    self.values.put(id, VarValue::Text(shown.into()));
                    self.tracker.mark_variable(name);
                    return Ok(Taken::default());
                }
                "autocommit" => {
                    self.set_autocommit(id, given)?;
                    self.tracker.mark_variable(name);
                    return Ok(Taken::default());
                }
                _ => self.context.check_special(id, given)?,
            }
        }
        let taken = self.values.set(&self.context.instance.globals, id, given)?;
        self.forget_next(id);
        self.refresh_vars()?;
        self.tracker.mark_variable(name);
        Ok(taken)
    }

    /// Turning autocommit on commits what is open.
    fn set_autocommit(&mut self, id: VarId, given: Option<&Value>) -> SqlResult<()> {
        let was_on = self.vars.autocommit;
        self.values.set(&self.context.instance.globals, id, given)?;
        if !was_on
            && self.values.get(id).is_on()
            && let Some(branch) = &self.context.xa
        {
            let refused = branch.refusal();
            self.values.put(id, VarValue::Bool(false));
            return Err(refused);
        }
        self.refresh_vars()?;
        if !was_on && self.vars.autocommit {
            let committed = self.commit_transaction();
            if committed.is_err() {
                self.values.put(id, VarValue::Bool(false));
                self.refresh_vars()?;
            }
            self.note_commit(committed?);
        }
        Ok(())
    }

    /// SET NAMES; None is DEFAULT.
    pub(crate) fn set_names(
        &mut self,
        charset: Option<&str>,
        collation: Option<&str>,
    ) -> SqlResult<()> {
        let charset = match charset {
            None => self.context.default_charset(),
            Some(name) => charset_named(name)?,
        };
        check_client(charset)?;
        let collation = match collation {
            None if charset == Charset::Utf8mb4 => self.vars.log.utf8mb4_collation,
            None => Collation::default_of(charset),
            Some(name) => {
                Collation::by_name(name).ok_or_else(|| errors::unknown_collation(name))?
            }
        };
        if collation.charset() != charset {
            return Err(mismatch(collation, charset));
        }
        self.use_collation(collation)
    }

    /// Client, connection and results in this collation's character set.
    pub(crate) fn use_collation(&mut self, collation: Collation) -> SqlResult<()> {
        self.values.use_collation(collation);
        CLIENT_CHARSETS
            .into_iter()
            .for_each(|name| self.tracker.mark_variable(name));
        self.refresh_vars()
    }

    /// SET CHARACTER SET: the connection takes the database's.
    fn set_charset(&mut self, charset: Option<&str>) -> SqlResult<()> {
        let charset = match charset {
            None => self.context.default_charset(),
            Some(name) => charset_named(name)?,
        };
        check_client(charset)?;
        let text = VarValue::Text(Arc::from(charset.name()));
        for name in ["character_set_client", "character_set_results"] {
            self.values.put(VarId::find(name)?, text.clone());
        }
        for name in CLIENT_CHARSETS {
            self.tracker.mark_variable(name);
        }
        for (from, to) in [
            ("character_set_database", "character_set_connection"),
            ("collation_database", "collation_connection"),
        ] {
            let value = self.values.named(from).clone();
            self.values.put(VarId::find(to)?, value);
        }
        self.refresh_vars()
    }

    /// Derives the hot copies again.
    pub(crate) fn refresh_vars(&mut self) -> SqlResult<()> {
        let vars = SessionVars::derive(&self.values)?;
        if !vars.binds_like(&self.vars) {
            self.context.rebind();
        }
        self.vars = vars;
        self.program.forget_outer_vars();
        self.note_vars();
        Ok(())
    }

    /// Tells the context what it has to know of the variables.
    pub(super) fn note_vars(&mut self) {
        self.context.shows_generated_keys = self.vars.shows_generated_keys;
    }

    /// The session's value, computed ones included.
    pub(crate) fn session_variable(&self, id: VarId) -> VarValue {
        session_variable(&self.context, &self.values, self.diagnostics.counts(), id)
    }

    /// USE changes what character_set_database and collation_database say.
    pub(crate) fn set_database_collation(&mut self, collation: Collation) -> SqlResult<()> {
        let id = VarId::find("collation_database")?;
        let value = VarValue::Text(Arc::from(collation.name()));
        if let Some((id, value)) = coupled(id, &value) {
            self.values.put(id, value);
        }
        self.values.put(id, value);
        Ok(())
    }
}

/// 3721
fn invalid_utf8mb4_default(collation: &str) -> SqlError {
    let text = format!(
        "Invalid default collation {collation}: utf8mb4_0900_ai_ci or utf8mb4_general_ci expected"
    );
    SqlError::new(3721, "HY000", text)
}

fn charset_named(name: &str) -> SqlResult<Charset> {
    Charset::by_name(name).ok_or_else(|| errors::unknown_charset(name))
}

fn printed(v: &Value) -> String {
    match v {
        Value::Int(i) => i.to_string(),
        Value::UInt(u) => u.to_string(),
        Value::Double(d) => d.to_string(),
        Value::Str(s) => String::from_utf8_lossy(s).into_owned(),
        _ => String::new(),
    }
}

/// The value of an item, if it may take long or read tables.
fn read_value(item: &SetItem) -> Option<&Expr> {
    let value = match item {
        SetItem::UserVar { value, .. } => Some(value),
        SetItem::SysVar { value, .. } => value.as_ref(),
        SetItem::Names { .. } | SetItem::Charset(_) => None,
    };
    value.filter(|value| !is_plain(value))
}

/// Is every value at hand at once?
pub(super) fn is_quick(items: &[SetItem]) -> bool {
    items.iter().all(|item| read_value(item).is_none())
}

/// A value that is there without a call or a query, either of which may take long.
pub(super) fn is_plain(value: &Expr) -> bool {
    match value {
        Expr::Unary { expr, .. } => is_plain(expr),
        Expr::Literal(_)
        | Expr::Param(_)
        | Expr::Column(_)
        | Expr::UserVar(_)
        | Expr::SysVar(_) => true,
        _ => false,
    }
}
