//! SHOW of the server: variables, status, sessions, engines, accounts, and what is not there yet.
//!
//! Neighbours: `show` dispatches; `variables`, `status`, the registry and the accounts supply.
//! **Invariant**: secrets of accounts are shown to nobody (SHOW CREATE USER prints the stored hash only
//! to those who may change accounts).

use esker_sql_catalog::accounts::Account as Stored;
use esker_sql_catalog::variables::{Scope, VarId};
use esker_sql_syntax::ast::{Account, ShowWhat, VarScope};
use esker_types::{Level, SqlError, SqlResult, SqlType, Value, errors};

use super::{Table, int_type, privileges, read, t, text_type};
use crate::infoschema::{self, Wanted};
use crate::session::Session;

pub(super) fn make(session: &mut Session, what: &ShowWhat) -> SqlResult<Table> {
    match what {
        ShowWhat::Variables(scope) => Ok(variables(session, *scope)),
        ShowWhat::Status(scope) => {
            let rows = super::status::rows(session, *scope != Some(VarScope::Global));
            Ok(Table::texts(&["Variable_name", "Value"], rows))
        }
        ShowWhat::Warnings { limit } => Ok(diagnostics(session, *limit, false)),
        ShowWhat::Errors { limit } => Ok(diagnostics(session, *limit, true)),
        ShowWhat::CountWarnings => Ok(count(
            "@@session.warning_count",
            session.diagnostics.total(),
        )),
        ShowWhat::CountErrors => {
            let errors = session.diagnostics.errors().count();
            Ok(count("@@session.error_count", errors as u64))
        }
        ShowWhat::Processlist { full } => processes(session, *full),
        ShowWhat::Engines => copy(session, "ENGINES", &ENGINES),
        ShowWhat::Engine { name, what } => super::engine::make(session, name, what),
        ShowWhat::Plugins => copy(session, "PLUGINS", &PLUGINS),
        ShowWhat::Privileges => Ok(privileges::privileges()),
        ShowWhat::Grants { account, roles } => {
            super::grants::grants(session, account.as_ref(), roles)
        }
        ShowWhat::CreateUser(account) => super::users::create_user(session, account),
        ShowWhat::Collation => copy(session, "COLLATIONS", &COLLATIONS),
        ShowWhat::CharacterSet => copy(session, "CHARACTER_SETS", &CHARACTER_SETS),
        ShowWhat::Profiles => Ok(profiles(session)),
        ShowWhat::Profile { query, types } => profile(session, *query, types),
        _ => replication_table(session, what),
    }
}

/// What SHOW PROFILE shows beside the durations, by type, in MySQL's order.
const PROFILE_TYPES: [(&str, &[(&str, &str)]); 7] = [
    (
        "CPU",
        &[("CPU_USER", "CPU_user"), ("CPU_SYSTEM", "CPU_system")],
    ),
    (
        "CONTEXT SWITCHES",
        &[
            ("CONTEXT_VOLUNTARY", "Context_voluntary"),
            ("CONTEXT_INVOLUNTARY", "Context_involuntary"),
        ],
    ),
    (
        "BLOCK IO",
        &[
            ("BLOCK_OPS_IN", "Block_ops_in"),
            ("BLOCK_OPS_OUT", "Block_ops_out"),
        ],
    ),
    (
        "IPC",
        &[
            ("MESSAGES_SENT", "Messages_sent"),
            ("MESSAGES_RECEIVED", "Messages_received"),
        ],
    ),
    (
        "PAGE FAULTS",
        &[
            ("PAGE_FAULTS_MAJOR", "Page_faults_major"),
            ("PAGE_FAULTS_MINOR", "Page_faults_minor"),
        ],
    ),
    ("SWAPS", &[("SWAPS", "Swaps")]),
    (
        "SOURCE",
        &[
            ("SOURCE_FUNCTION", "Source_function"),
            ("SOURCE_FILE", "Source_file"),
            ("SOURCE_LINE", "Source_line"),
        ],
    ),
];

/// SHOW PROFILE: only durations are known, the rest is NULL.
fn profile(session: &Session, query: Option<u64>, types: &[&str]) -> SqlResult<Table> {
    let mut shown = vec![("STATE", "Status"), ("DURATION", "Duration")];
    for (named, columns) in PROFILE_TYPES {
        if types
            .iter()
            .any(|wanted| *wanted == named || *wanted == "ALL")
        {
            shown.extend_from_slice(columns);
        }
    }
    let mut rows = session.profiles.stages(query);
    rows.iter_mut()
        .for_each(|row| row.resize(shown.len(), Value::Null));
    Ok(Table::typed(infoschema::shown("PROFILING")?, &shown, rows))
}

/// SHOW PROFILES.
fn profiles(session: &Session) -> Table {
    /// Digits behind the point of a duration, and characters of a statement.
    const SHOWN: (u8, u32) = (8, 300);
    let columns = [
        ("Query_ID", int_type()),
        ("Duration", SqlType::double(SHOWN.0)),
        ("Query", text_type(SHOWN.1)),
    ];
    Table::of_types(columns, session.profiles.list())
}

/// SHOW of the binary log, the relay logs and the replicas.
///
/// # Errors
/// 1227; 1235 for any other SHOW.
fn replication_table(session: &Session, what: &ShowWhat) -> SqlResult<Table> {
    match what {
        ShowWhat::BinlogStatus => {
            replication(session)?;
            session.context.show_binlog_status()
        }
        ShowWhat::BinaryLogs => {
            replication(session)?;
            session.context.show_binary_logs()
        }
        ShowWhat::BinlogEvents {
            relay: true,
            file,
            position,
            limit,
            channel,
        } => {
            session.context.require("REPLICATION SLAVE")?;
            session.context.show_relay_events(
                file.as_deref(),
                *position,
                *limit,
                channel.as_deref(),
            )
        }
        ShowWhat::BinlogEvents {
            file,
            position,
            limit,
            ..
        } => {
            session.context.require("REPLICATION SLAVE")?;
            session
                .context
                .show_binlog_events(file.as_deref(), *position, *limit)
        }
        ShowWhat::ReplicaStatus {
            old_names, channel, ..
        } => {
            replication(session)?;
            let instance = &session.context.instance;
            instance.show_replica_status(channel.as_deref(), *old_names)
        }
        ShowWhat::Replicas { old_names } => {
            session.context.require("REPLICATION SLAVE")?;
            let instance = &session.context.instance;
            let own = instance.variable_u64("server_id");
            Ok(instance.replicas.show(own, *old_names))
        }
        _ => Err(SqlError::not_supported("this SHOW statement")),
    }
}

/// A SHOW with the rows of an INFORMATION_SCHEMA table: its columns, and what SHOW calls them.
fn copy(session: &Session, source: &str, shown: &[(&str, &str)]) -> SqlResult<Table> {
    let spec = infoschema::shown(source)?;
    let rows = read(session, spec, &Wanted::default())?;
    Ok(Table::picked(spec, shown, rows))
}

const ENGINES: [(&str, &str); 6] = [
    ("ENGINE", "Engine"),
    ("SUPPORT", "Support"),
    ("COMMENT", "Comment"),
    ("TRANSACTIONS", "Transactions"),
    ("XA", "XA"),
    ("SAVEPOINTS", "Savepoints"),
];
const PLUGINS: [(&str, &str); 5] = [
    ("PLUGIN_NAME", "Name"),
    ("PLUGIN_STATUS", "Status"),
    ("PLUGIN_TYPE", "Type"),
    ("PLUGIN_LIBRARY", "Library"),
    ("PLUGIN_LICENSE", "License"),
];
const COLLATIONS: [(&str, &str); 7] = [
    ("COLLATION_NAME", "Collation"),
    ("CHARACTER_SET_NAME", "Charset"),
    ("ID", "Id"),
    ("IS_DEFAULT", "Default"),
    ("IS_COMPILED", "Compiled"),
    ("SORTLEN", "Sortlen"),
    ("PAD_ATTRIBUTE", "Pad_attribute"),
];
const CHARACTER_SETS: [(&str, &str); 4] = [
    ("CHARACTER_SET_NAME", "Charset"),
    ("DESCRIPTION", "Description"),
    ("DEFAULT_COLLATE_NAME", "Default collation"),
    ("MAXLEN", "Maxlen"),
];
const PROCESSES: [(&str, &str); 8] = [
    ("ID", "Id"),
    ("USER", "User"),
    ("HOST", "Host"),
    ("DB", "db"),
    ("COMMAND", "Command"),
    ("TIME", "Time"),
    ("STATE", "State"),
    ("INFO", "Info"),
];

fn variables(session: &Session, scope: Option<VarScope>) -> Table {
    let global = scope == Some(VarScope::Global);
    let rows = VarId::all()
        .filter(|id| !(global && id.def().scope == Scope::Session))
        .map(|id| {
            let shown = if global || id.def().scope == Scope::Global {
                session.context.instance.listed_variable(id).print()
            } else {
                session.session_variable(id).print()
            };
            vec![t(id.def().name), t(shown)]
        });
    Table::texts(&["Variable_name", "Value"], rows.collect())
}

fn count(name: &str, n: u64) -> Table {
    Table::mixed(&[name], &[name], vec![vec![Value::UInt(n)]])
}

fn diagnostics(session: &Session, limit: Option<(u64, u64)>, errors_only: bool) -> Table {
    /// Characters of `Level`.
    const LEVEL: u32 = 7;
    /// Characters of `Message`.
    const MESSAGE: u32 = 512;
    let (skip, take) = limit.unwrap_or((0, u64::MAX));
    let rows = session
        .diagnostics
        .conditions()
        .iter()
        .filter(|w| !errors_only || w.level == Level::Error)
        .skip(usize::try_from(skip).unwrap_or(usize::MAX))
        .take(usize::try_from(take).unwrap_or(usize::MAX))
        .map(|w| {
            let level = match w.level {
                Level::Note => "Note",
                Level::Warning => "Warning",
                Level::Error => "Error",
            };
            vec![t(level), Value::UInt(u64::from(w.code)), t(&w.message)]
        });
    let columns = [
        ("Level", text_type(LEVEL)),
        ("Code", int_type()),
        ("Message", text_type(MESSAGE)),
    ];
    Table::of_types(columns, rows.collect())
}

fn processes(session: &Session, full: bool) -> SqlResult<Table> {
    /// What SHOW PROCESSLIST shows of a statement.
    const SHORT: usize = 100;
    let mut table = copy(session, "PROCESSLIST", &PROCESSES)?;
    if !full {
        for row in &mut table.rows {
            if let Value::Str(info) = &mut row[7] {
                let mut end = info.len().min(SHORT);
                while end > 0 && end < info.len() && info[end] & 0xc0 == 0x80 {
                    end -= 1;
                }
                info.truncate(end);
            }
        }
    }
    Ok(table)
}

/// The right to see how replication goes.
fn replication(session: &Session) -> SqlResult<()> {
    session
        .context
        .require_listed(&["SUPER", "REPLICATION CLIENT"])
}

/// The account a statement names.
pub(crate) fn resolve(session: &Session, account: Option<&Account>) -> SqlResult<Stored> {
    match account {
        None | Some(Account::CurrentUser) => Ok(session.context.account.clone()),
        Some(Account::Named { user, host }) => {
            if session.context.account.user != **user || session.context.account.host != **host {
                session.context.require_on(&["SELECT"], "mysql", "user")?;
            }
            session
                .context
                .instance
                .accounts()
                .exact(user, host)
                .ok_or_else(|| errors::no_such_grant(user, host))
        }
    }
}
