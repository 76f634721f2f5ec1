//! Rows about the server: sessions, engines, collations, privileges.
//!
//! Neighbours: `infoschema` asks by table name.
//! **Invariant**: a table known here has the columns of `tables`; tables of features that Esker does
//! not have are empty.

use esker_sql_catalog::accounts::{Account, GrantEntry, GrantScope, Privileges};
use esker_sql_catalog::catalog::{ENGINES, EngineChoice, StorageEngine};
use esker_types::Value;
use esker_types::collation::{Charset, Collation};
use esker_types::fulltext::DEFAULT_STOPWORDS;

use super::{Viewer, text, yes_no};
use crate::xids::literal;

/// The rows of a table about the server; None when it is not one.
pub(super) fn rows(table: &str, viewer: &Viewer) -> Option<Vec<Vec<Value>>> {
    Some(match table {
        "ENGINES" => engines(viewer),
        "PLUGINS" => plugins(viewer),
        "COLLATIONS" => collations(),
        "CHARACTER_SETS" => character_sets(),
        "INNODB_FT_DEFAULT_STOPWORD" => {
            let words = DEFAULT_STOPWORDS.iter();
            words.map(|word| vec![text(*word)]).collect()
        }
        "COLLATION_CHARACTER_SET_APPLICABILITY" => applicability(),
        "PROCESSLIST" => processes(viewer),
        "ESKER_TRANSACTIONS" => transactions(viewer),
        "USER_ATTRIBUTES" => attributes(viewer),
        "USER_PRIVILEGES" => privileges(viewer, Scope::User),
        "SCHEMA_PRIVILEGES" => privileges(viewer, Scope::Schema),
        "TABLE_PRIVILEGES" => privileges(viewer, Scope::Table),
        "COLUMN_PRIVILEGES" => privileges(viewer, Scope::Column),
        _ => return None,
    })
}

fn engines(viewer: &Viewer) -> Vec<Vec<Value>> {
    let row = |&(name, choice): &(&str, EngineChoice)| {
        let is_default = viewer
            .instance
            .variable_text("default_storage_engine")
            .eq_ignore_ascii_case(name);
        let support = match choice {
            EngineChoice::Own(_) if is_default => "DEFAULT",
            EngineChoice::Own(_) => "YES",
            _ => "NO",
        };
        let feature = match choice {
            EngineChoice::Own(_) => yes_no(true),
            _ => Value::Null,
        };
        let comment = match choice {
            EngineChoice::Own(StorageEngine::InnoDb) => {
                "Esker's log-structured tree: transactions, row locks, XA"
            }
            EngineChoice::Own(StorageEngine::Memory) => {
                "As InnoDB, but rows are gone after a restart"
            }
            EngineChoice::Substituted(_) => "InnoDB is used instead, with a warning",
            EngineChoice::Unknown => "Not available",
        };
        let mut row = vec![text(name), text(support), text(comment)];
        row.extend([feature.clone(), feature.clone(), feature]);
        row
    };
    ENGINES.iter().map(row).collect()
}

fn plugins(viewer: &Viewer) -> Vec<Vec<Value>> {
    let version = viewer.instance.version();
    const PLUGINS: &[&str] = &[
        "Esker",
        "mysql_native_password",
        "caching_sha2_password",
        "auth_socket",
    ];
    PLUGINS
        .iter()
        .map(|name| {
            let kind = if *name == "Esker" {
                "STORAGE ENGINE"
            } else {
                "AUTHENTICATION"
            };
            vec![
                text(name),
                text("1.0"),
                text("ACTIVE"),
                text(kind),
                text(version),
                Value::Null,
                Value::Null,
                text("The Esker authors"),
                text(name),
                text("MIT OR Apache-2.0"),
                text("FORCE"),
            ]
        })
        .collect()
}

fn collations() -> Vec<Vec<Value>> {
    Collation::all()
        .iter()
        .map(|c| {
            vec![
                text(c.name),
                text(c.charset.name()),
                Value::UInt(u64::from(c.collation.0)),
                text(if c.is_default { "Yes" } else { "" }),
                text("Yes"),
                Value::UInt(u64::from(c.sortlen)),
                text(if c.collation.pad_space() {
                    "PAD SPACE"
                } else {
                    "NO PAD"
                }),
            ]
        })
        .collect()
}

fn character_sets() -> Vec<Vec<Value>> {
    Charset::ALL
        .iter()
        .map(|c| {
            vec![
                text(c.name()),
                text(Collation::default_of(*c).name()),
                text(c.description()),
                Value::UInt(c.max_len() as u64),
            ]
        })
        .collect()
}

fn applicability() -> Vec<Vec<Value>> {
    Collation::all()
        .iter()
        .map(|c| vec![text(c.name), text(c.charset.name())])
        .collect()
}

pub(super) fn processes(viewer: &Viewer) -> Vec<Vec<Value>> {
    let now = viewer.instance.now_micros();
    let all = viewer.may("PROCESS");
    viewer
        .instance
        .registry
        .list()
        .iter()
        .filter_map(|p| {
            let d = p.detail();
            if !all && !p.is_of(&viewer.user) {
                return None;
            }
            let seconds = (now - p.since_micros()).max(0) / 1_000_000;
            Some(vec![
                Value::UInt(p.id),
                text(&d.user),
                text(&p.peer),
                super::optional(d.database.as_ref()),
                text(d.command),
                Value::Int(seconds),
                text(p.state()),
                super::optional(d.info.as_ref().filter(|i| !i.is_empty())),
            ])
        })
        .collect()
}

/// Transactions that are open between statements, and prepared XA transactions, which have no session.
fn transactions(viewer: &Viewer) -> Vec<Vec<Value>> {
    let now = viewer.instance.now_micros();
    let all = viewer.may("PROCESS");
    let sessions = viewer.instance.registry.list();
    let xids = viewer.instance.xids();
    let branches = xids.open_by_session();
    let rows = sessions.iter().filter_map(|p| {
        let d = p.detail();
        let started = d.transaction?;
        if !all && !p.is_of(&viewer.user) {
            return None;
        }
        let state = match (d.command, d.state) {
            ("Sleep", _) => "IDLE",
            (_, "") => "ACTIVE",
            _ => "LOCK WAIT",
        };
        Some(vec![
            Value::UInt(p.id),
            text(&d.user),
            super::objects::created(viewer, started),
            Value::Int((now - started).max(0) / 1_000_000),
            text(state),
            super::optional(d.info.as_ref().filter(|i| !i.is_empty())),
            super::optional(branches.get(&p.id).map(literal)),
        ])
    });
    let prepared = xids.list().into_iter().filter_map(|p| {
        if !all && p.user.as_deref() != Some(&viewer.user) {
            return None;
        }
        Some(vec![
            Value::Null,
            super::optional(p.user.as_ref()),
            super::objects::created(viewer, p.since_micros),
            Value::Int((now - p.since_micros).max(0) / 1_000_000),
            text("PREPARED"),
            Value::Null,
            text(literal(&p.xid)),
        ])
    });
    rows.chain(prepared).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Scope {
    User,
    Schema,
    Table,
    Column,
}

/// Comments and attributes of accounts: everybody's for those who may change accounts, else the own one.
fn attributes(viewer: &Viewer) -> Vec<Vec<Value>> {
    let everybody = viewer.may("CREATE USER");
    let accounts = viewer.instance.accounts().all();
    let shown = accounts
        .iter()
        .filter(|a| everybody || viewer.access.is_of(&a.user, &a.host));
    shown
        .map(|a| {
            let attribute = super::optional(a.policy.attribute.as_ref());
            vec![text(&a.user), text(&a.host), attribute]
        })
        .collect()
}

fn privileges(viewer: &Viewer, scope: Scope) -> Vec<Vec<Value>> {
    // Whoever may read the grant tables sees everybody's.
    let tables = viewer.access.on_schema("mysql");
    let everybody = tables.contains(Privileges::of(&["SELECT"]));
    let accounts = viewer.instance.accounts().all();
    let shown = accounts
        .iter()
        .filter(|a| everybody || viewer.access.is_of(&a.user, &a.host));
    shown.flat_map(|a| account_privileges(a, scope)).collect()
}

/// Is the scope a column of a table on which the account has GRANT OPTION? Columns have none of their own.
fn gives_columns(account: &Account, scope: &GrantScope) -> bool {
    let GrantScope::Column(schema, table, _) = scope else {
        return false;
    };
    let table = GrantScope::Table(schema.clone(), table.clone());
    account
        .grants
        .iter()
        .any(|grant| grant.scope == table && grant.grant_option)
}

fn account_privileges(account: &Account, scope: Scope) -> Vec<Vec<Value>> {
    let grantee = format!("'{}'@'{}'", account.user, account.host);
    let mut rows = Vec::new();
    // Dynamic privileges are listed beside the others.
    let has_others = |g: &GrantEntry| g.scope == GrantScope::Global && !g.is_dynamic();
    if scope == Scope::User && !account.grants.iter().any(has_others) {
        rows.push(vec![
            text(&grantee),
            text("def"),
            text("USAGE"),
            yes_no(false),
        ]);
    }
    for grant in &account.grants {
        let place: Vec<Value> = match (&grant.scope, scope) {
            (GrantScope::Global, Scope::User) => Vec::new(),
            (GrantScope::Schema(s), Scope::Schema) => vec![text(s)],
            (GrantScope::Table(s, t), Scope::Table) => vec![text(s), text(t)],
            (GrantScope::Column(s, t, c), Scope::Column) => vec![text(s), text(t), text(c)],
            _ => continue,
        };
        let grantable = grant.grant_option || gives_columns(account, &grant.scope);
        for name in grant.privileges.names() {
            let mut row = vec![text(&grantee), text("def")];
            row.extend(place.iter().cloned());
            row.extend([text(name), yes_no(grantable)]);
            rows.push(row);
        }
    }
    rows
}
