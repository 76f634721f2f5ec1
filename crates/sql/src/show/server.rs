//! SHOW of the server: variables, status, sessions, engines, accounts, and what is not there yet.
//!
//! Neighbours: `show` dispatches; `variables`, `status`, the registry and the accounts supply.
//! **Invariant**: secrets of accounts are shown to nobody (SHOW CREATE USER prints the stored hash only
//! to those who may change accounts).

use esker_sql_catalog::accounts::Account as Stored;
use esker_sql_catalog::variables::{Scope, VarId};
use esker_sql_syntax::ast::{Account, ShowWhat, VarScope};
use esker_types::{Level, SqlError, SqlResult, Value, errors};

use super::{Table, empty, innodb_status, privileges, t};
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
        ShowWhat::CountWarnings => Ok(count("@@session.warning_count", session.warning_total)),
        ShowWhat::CountErrors => {
            let errors = session
                .warnings
                .iter()
                .filter(|w| w.level == Level::Error)
                .count();
            Ok(count("@@session.error_count", errors as u64))
        }
        ShowWhat::Processlist { full } => Ok(processes(session, *full)),
        ShowWhat::Engines => Ok(copy(
            session,
            "ENGINES",
            &[
                "Engine",
                "Support",
                "Comment",
                "Transactions",
                "XA",
                "Savepoints",
            ],
        )),
        ShowWhat::Engine { name, what } => engine(session, name, what),
        ShowWhat::Plugins => Ok(plugins(session)),
        ShowWhat::Privileges => Ok(privileges::privileges()),
        ShowWhat::Grants { account, roles } => {
            super::grants::grants(session, account.as_ref(), roles)
        }
        ShowWhat::CreateUser(account) => super::users::create_user(session, account),
        ShowWhat::Collation => Ok(copy(
            session,
            "COLLATIONS",
            &[
                "Collation",
                "Charset",
                "Id",
                "Default",
                "Compiled",
                "Sortlen",
                "Pad_attribute",
            ],
        )),
        ShowWhat::CharacterSet => Ok(character_sets(session)),
        ShowWhat::Profiles => {
            let columns = ["Query_ID", "Duration", "Query"];
            Ok(Table::mixed(
                &columns,
                &["Query_ID"],
                session.profiles.list(),
            ))
        }
        ShowWhat::Profile(query) => {
            let rows = session.profiles.stages(*query);
            Ok(Table::texts(&["Status", "Duration"], rows))
        }
        ShowWhat::BinlogStatus => {
            replication(session)?;
            session.show_binlog_status()
        }
        ShowWhat::BinaryLogs => {
            replication(session)?;
            session.show_binary_logs()
        }
        ShowWhat::BinlogEvents {
            relay: true,
            file,
            position,
            limit,
            channel,
        } => {
            session.context.require("REPLICATION SLAVE")?;
            session.show_relay_events(file.as_deref(), *position, *limit, channel.as_deref())
        }
        ShowWhat::BinlogEvents {
            file,
            position,
            limit,
            ..
        } => {
            session.context.require("REPLICATION SLAVE")?;
            session.show_binlog_events(file.as_deref(), *position, *limit)
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

/// A SHOW with the rows of an INFORMATION_SCHEMA table under other names.
fn copy(session: &Session, source: &str, names: &[&str]) -> Table {
    let rows = infoschema::find(source)
        .map(|spec| infoschema::rows(spec, &session.context.viewer(), &Wanted::default()))
        .unwrap_or_default();
    Table::mixed(names, &["Id", "Sortlen"], rows)
}

fn character_sets(session: &Session) -> Table {
    let mut table = copy(
        session,
        "CHARACTER_SETS",
        &["Charset", "Default collation", "Description", "Maxlen"],
    );
    // SHOW has description before collation.
    table.rows.iter_mut().for_each(|r| r.swap(1, 2));
    let rows = std::mem::take(&mut table.rows);
    Table::mixed(
        &["Charset", "Description", "Default collation", "Maxlen"],
        &["Maxlen"],
        rows,
    )
}

/// SHOW ENGINE: InnoDB's STATUS; nothing of other engines.
fn engine(session: &Session, name: &str, what: &str) -> SqlResult<Table> {
    const COLUMNS: [&str; 3] = ["Type", "Name", "Status"];
    session.context.require("PROCESS")?;
    let is_innodb = name.eq_ignore_ascii_case("innodb") || name.eq_ignore_ascii_case("all");
    if !is_innodb || what != "STATUS" {
        return empty(&COLUMNS);
    }
    let text = innodb_status::text(&session.context.instance);
    Ok(Table::texts(
        &COLUMNS,
        vec![vec![t("InnoDB"), t(""), t(text)]],
    ))
}

fn plugins(session: &Session) -> Table {
    let all = copy(session, "PLUGINS", &[]).rows;
    let rows = all
        .into_iter()
        .map(|r| {
            vec![
                r[0].clone(),
                r[2].clone(),
                r[3].clone(),
                Value::Null,
                r[9].clone(),
            ]
        })
        .collect();
    Table::texts(&["Name", "Status", "Type", "Library", "License"], rows)
}

fn variables(session: &Session, scope: Option<VarScope>) -> Table {
    let global = scope == Some(VarScope::Global);
    let globals = session.context.instance.globals.snapshot();
    let rows = VarId::all()
        .zip(globals.iter())
        .filter(|(id, _)| !(global && id.def().scope == Scope::Session))
        .map(|(id, value)| {
            let shown = if global || id.def().scope == Scope::Global {
                value.print()
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
    let (skip, take) = limit.unwrap_or((0, u64::MAX));
    let rows = session
        .warnings
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
    Table::mixed(&["Level", "Code", "Message"], &["Code"], rows.collect())
}

fn processes(session: &Session, full: bool) -> Table {
    /// What SHOW PROCESSLIST shows of a statement.
    const SHORT: usize = 100;
    let mut table = copy(
        session,
        "PROCESSLIST",
        &["Id", "User", "Host", "db", "Command", "Time", "State"],
    );
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
    Table::mixed(
        &[
            "Id", "User", "Host", "db", "Command", "Time", "State", "Info",
        ],
        &["Id", "Time"],
        table.rows,
    )
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
