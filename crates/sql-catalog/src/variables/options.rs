//! What an option file, the environment or a flag says at the start, and what becomes of it.
//!
//! Neighbours: the `server` crate gathers names and values; `instance` applies them before anything is
//! opened, and writes the notes into the log.
//! **Invariants**: nothing is silent: a setting has its effect, is in [`Notes`], or is among the refusals,
//! which are told all at once. Options of MySQL that are no variables are known by name.

use esker_types::collation::{Charset, Collation};
use esker_types::{SqlResult, errors};

use super::table::{Effect, OF_THE_DATA, Scope};
use super::{Globals, VarId, VarValue, admit, mismatch, value};

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name, lower case with underscores, with its prefix (`skip_`, `loose_` ...).
    pub name: String,
    /// Value as text; `ON` where only the name was given.
    pub value: String,
    /// Where it came from, for messages.
    pub source: String,
}

/// What the log says about the settings.
#[derive(Debug, Default)]
pub struct Notes {
    /// Known settings that do nothing here.
    pub idle: Vec<String>,
    /// Whole sentences about others.
    pub lines: Vec<String>,
    /// Options that are lists, an element each, in their order.
    pub lists: Vec<(&'static str, String)>,
}

/// Variables about syncs for which commits wait only where the binary log decides about transactions.
const OF_TWO_PHASE: [&str; 3] = [
    "binlog_group_commit_sync_delay",
    "binlog_group_commit_sync_no_delay_count",
    "sync_binlog",
];

/// Other names of variables.
const ALIASES: [(&str, &str); 5] = [
    ("default_time_zone", "time_zone"),
    ("force_recovery", "esker_force_recovery"),
    ("tx_isolation", "transaction_isolation"),
    ("tx_read_only", "transaction_read_only"),
    ("storage_engine", "default_storage_engine"),
];

/// Options that are no variables and may be given more than once, for an element of a list each.
const LISTS: [&str; 9] = [
    "binlog_do_db",
    "binlog_ignore_db",
    "replicate_do_db",
    "replicate_do_table",
    "replicate_ignore_db",
    "replicate_ignore_table",
    "replicate_rewrite_db",
    "replicate_wild_do_table",
    "replicate_wild_ignore_table",
];

/// Options that are no variables and do nothing here: of MySQL, of its older versions, of MariaDB. Sorted; a name that
/// ends in `*` is a prefix.
const IDLE: &[&str] = &[
    "allow_suspicious_udfs",
    "archive",
    "aria_*",
    "avoid_temporal_upgrade",
    "binlog_transaction_dependency_tracking",
    "blackhole",
    "character_set_client_handshake",
    "console",
    "exit_info",
    "expire_logs_days",
    "external_locking",
    "federated",
    "gdb",
    "ignore_builtin_innodb",
    "innodb",
    "innodb_additional_mem_pool_size",
    "innodb_buffer_pool_populate",
    "innodb_checksums",
    "innodb_file_format",
    "innodb_file_format_check",
    "innodb_file_format_max",
    "innodb_large_prefix",
    "innodb_locks_unsafe_for_binlog",
    "innodb_mirrored_log_groups",
    "innodb_stats_sample_pages",
    "innodb_status_file",
    "innodb_support_xa",
    "innodb_undo_logs",
    "innodb_use_sys_malloc",
    "key_buffer",
    "log_bin_use_v1_row_events",
    "log_isam",
    "log_short_format",
    "log_slow_queries",
    "log_tc",
    "log_tc_size",
    "log_warnings",
    "master_info_repository",
    "master_retry_count",
    "max_binlog_dump_events",
    "memlock",
    "metadata_locks_cache_size",
    "metadata_locks_hash_instances",
    "multi_range_count",
    "myisam_block_size",
    "myisam_recover",
    "myisam_repair_threads",
    "mysql_native_password",
    "mysqlx",
    "mysqlx_*",
    "ndb_*",
    "ndbcluster",
    "ndbinfo",
    "ndbinfo_*",
    "nice",
    "old_passwords",
    "open_files",
    "performance_schema_consumer_*",
    "performance_schema_instrument",
    "port_open_timeout",
    "query_cache_limit",
    "query_cache_min_res_unit",
    "query_cache_size",
    "query_cache_strip_comments",
    "query_cache_type",
    "query_cache_wlock_invalidate",
    "relay_log_info_file",
    "relay_log_info_repository",
    "secure_auth",
    "show_compatibility_56",
    "show_old_temporals",
    "show_replica_auth_info",
    "show_slave_auth_info",
    "skip_stack_trace",
    "slave_rows_search_algorithms",
    "sporadic_binlog_dump_fail",
    "super_large_pages",
    "symbolic_links",
    "sync_frm",
    "table_cache",
    "tc_heuristic_recover",
    "temp_pool",
    "temptable_use_mmap",
    "thread_concurrency",
    "thread_pool_*",
    "timed_mutexes",
    "transaction_write_set_extraction",
    "upgrade",
    "user",
    "validate_user_plugins",
    "verbose",
];

/// Options that ask for something Esker does not do, and why each is refused.
const REFUSED: [(&str, &str); 13] = [
    (
        "ansi",
        "set sql_mode=ANSI and transaction_isolation=SERIALIZABLE",
    ),
    (
        "bootstrap",
        "the first start initialises the data directory",
    ),
    ("chroot", "start the server inside of the new root instead"),
    (
        "daemonize",
        "the server stays in the foreground; a service manager starts it in the background",
    ),
    ("early_plugin_load", "there are no plugins"),
    (
        "initialize",
        "the first start initialises the data directory",
    ),
    (
        "initialize_insecure",
        "the first start initialises the data directory",
    ),
    ("plugin_load", "there are no plugins"),
    ("plugin_load_add", "there are no plugins"),
    (
        "replicate_same_server_id",
        "what has come from a server is not applied there again",
    ),
    (
        "safe_user_create",
        "accounts are made by those who have the privilege CREATE USER",
    ),
    ("skip_grant_tables", "everybody logs in with an account"),
    ("sysdate_is_now", "SYSDATE() tells the time of its own call"),
];

/// Why a variable takes one value only, where its name does not say it.
const REASONS: [(&str, &str); 7] = [
    (
        "authentication_policy",
        "accounts have one factor, caching_sha2_password unless they say otherwise",
    ),
    ("innodb_force_recovery", "see esker_force_recovery"),
    (
        "innodb_read_only",
        "super_read_only keeps everybody from writing",
    ),
    (
        "lower_case_table_names",
        "names of databases and tables are kept and compared as they are written",
    ),
    ("skip_name_resolve", "names of hosts are not looked up"),
    (
        "skip_networking",
        "TCP is the only way in; bind_address=127.0.0.1 keeps other machines out",
    ),
    ("ssl_fips_mode", "the TLS library runs in one mode"),
];

/// What a name means.
enum Meaning {
    Variable(VarId, String),
    Element(&'static str),
    Idle,
    Refused(String),
    Unknown,
}

impl Globals {
    /// Applies the settings of a start, later ones over earlier ones.
    ///
    /// # Errors
    /// Everything that cannot be, in one message.
    pub fn apply(&self, settings: &[Setting]) -> SqlResult<Notes> {
        let mut notes = Notes::default();
        let mut refused = Vec::new();
        let mut charset = None;
        // A collation belongs to a character set, who may write at all comes before who may write, and Esker's own name
        // before MySQL's for the same.
        let is_late = |s: &&Setting| {
            s.name.starts_with("collation_")
                || matches!(s.name.as_str(), "super_read_only" | "esker_memory_limit")
        };
        let early = settings.iter().filter(|o| !is_late(o));
        for setting in early.chain(settings.iter().filter(is_late)) {
            let (name, loose) = match setting.name.strip_prefix("loose_") {
                Some(name) => (name, true),
                None => (setting.name.as_str(), false),
            };
            let why = match meaning(name, &setting.value) {
                Meaning::Variable(id, value) => {
                    if id.def().name == "character_set_server" {
                        charset = Charset::by_name(&value);
                    }
                    self.apply_one(id, &value, &mut notes).err()
                }
                Meaning::Element(list) => {
                    notes.lists.push((list, setting.value.clone()));
                    None
                }
                Meaning::Idle => {
                    notes.idle.push(name.to_owned());
                    None
                }
                Meaning::Refused(why) => Some(why),
                Meaning::Unknown => Some(format!("unknown variable '{}'", setting.name)),
            };
            match why {
                Some(why) if loose => notes.lines.push(format!("{why} ({})", setting.source)),
                Some(why) => refused.push(format!("{why} ({})", setting.source)),
                None => (),
            }
        }
        let collation = self.named("collation_server");
        if let Some(charset) = charset
            && let Some(collation) = Collation::by_name(collation.as_text())
            && collation.charset() != charset
        {
            refused.push(mismatch(collation, charset).message);
        }
        notes
            .lines
            .extend(OF_TWO_PHASE.iter().filter_map(|name| self.unheeded(name)));
        refused.extend(self.contradictions());
        match refused.len() {
            0 => Ok(notes),
            1 => Err(errors::wrong_setting(refused.remove(0))),
            n => {
                let list: String = refused.iter().map(|line| format!("\n  {line}")).collect();
                let text = format!("{n} settings cannot be used:{list}");
                Err(errors::wrong_setting(text))
            }
        }
    }

    /// What a warning says of a variable that has a value which nothing heeds as the server was started.
    pub fn unheeded(&self, name: &str) -> Option<String> {
        let is_idle = OF_TWO_PHASE.contains(&name)
            && self.named("log_bin").is_on()
            && self.named("esker_binlog_commit").as_text() == "ONE-SYNC"
            && self.named(name) != value::default_of(VarId::find(name).ok()?.def());
        is_idle
            .then(|| format!("Variable '{name}' has no effect with esker_binlog_commit = ONE-SYNC"))
    }

    fn apply_one(&self, id: VarId, text: &str, notes: &mut Notes) -> Result<(), String> {
        let def = id.def();
        if def.effect == Effect::Fact {
            return Err(format!(
                "'{}' tells what the server is; it cannot be set",
                def.name
            ));
        }
        if def.scope == Scope::Session {
            return Err(format!(
                "'{}' belongs to sessions; the server has none",
                def.name
            ));
        }
        if OF_THE_DATA.contains(&def.name) {
            return Err(format!(
                "'{}' is kept with the data; SET GLOBAL changes it while the server runs",
                def.name
            ));
        }
        let fixed = |shown: &str| {
            let reason = REASONS.iter().find(|(name, _)| *name == def.name);
            let reason = reason
                .map(|(_, why)| format!(": {why}"))
                .unwrap_or_default();
            format!(
                "'{}' can only be '{}', not '{shown}'{reason}",
                def.name, def.default
            )
        };
        // The base name of the files.
        let text = match def.name {
            "log_bin" if value::from_text(def, text).is_err() => {
                self.tell("log_bin_basename", VarValue::Text(text.into()));
                "ON"
            }
            _ => text,
        };
        let (value, clamped) = value::from_text(def, text).map_err(|e| match def.effect {
            Effect::Fixed => fixed(text),
            _ => e.message,
        })?;
        if clamped {
            let line = format!(
                "option '{}': value {text} adjusted to {}",
                def.name,
                value.print()
            );
            notes.lines.push(line);
        }
        let (value, idle) = admit(def, value).map_err(|_| fixed(text))?;
        if idle {
            notes.idle.push(def.name.to_owned());
        }
        if def.name == "character_set_server" {
            // What connections begin with, as in MySQL; a client says what it speaks.
            for name in [
                "character_set_client",
                "character_set_connection",
                "character_set_results",
                "character_set_database",
            ] {
                self.tell(name, value.clone());
            }
        }
        if def.name == "collation_server" {
            for name in ["collation_connection", "collation_database"] {
                self.tell(name, value.clone());
            }
        }
        self.store(id, value);
        Ok(())
    }

    /// Settings that do not go together.
    fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.named("require_secure_transport").is_on() && !self.named("ssl").is_on() {
            found.push(
                "require_secure_transport=ON needs TLS, which ssl=OFF switches off".to_owned(),
            );
        }
        found
    }
}

/// Finds what a name means: a variable, an alias, one with a prefix, or an option that is no variable.
fn meaning(name: &str, value: &str) -> Meaning {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, real)| *real);
    if let Ok(id) = VarId::find(name) {
        return Meaning::Variable(id, value.to_owned());
    }
    if let Some(list) = LISTS.iter().find(|list| **list == name) {
        return Meaning::Element(list);
    }
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        if matches!(value, "0" | "OFF") {
            return Meaning::Idle;
        }
        return Meaning::Refused(format!("'{name}' is not possible: {why}"));
    }
    for (prefix, on) in [("skip_", "OFF"), ("disable_", "OFF"), ("enable_", "ON")] {
        let Some(rest) = name.strip_prefix(prefix) else {
            continue;
        };
        if let Ok(id) = VarId::find(rest) {
            // `skip_x=0` is no request to skip.
            let value = match (value, on) {
                ("0" | "OFF", "OFF") => "ON",
                ("0" | "OFF", _) => "OFF",
                _ => on,
            };
            return Meaning::Variable(id, value.to_owned());
        }
        if is_idle(rest) {
            return Meaning::Idle;
        }
    }
    if is_idle(name) {
        Meaning::Idle
    } else {
        Meaning::Unknown
    }
}

fn is_idle(name: &str) -> bool {
    IDLE.iter().any(|idle| match idle.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => *idle == name,
    })
}
