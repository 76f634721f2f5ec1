//! Rows about accounts: `user`, `db`, `tables_priv` and their kin.
//!
//! Neighbours: `accounts` has them; SHOW GRANTS prints the same as statements.
//! **Invariant**: whoever may read these tables sees every account, the stored secrets included, as in MySQL.

use std::collections::BTreeMap;

use esker_sql_catalog::accounts::policy::{LockTime, LoginLock, Transport};
use esker_sql_catalog::accounts::{Account, GrantScope, Plugin, Privileges};
use esker_types::Value;
use esker_types::ctx::NoSession;
use esker_types::hex::upper_hex;

use super::super::objects::created;
use super::super::{Viewer, optional, text};

/// Columns of `mysql.user` that are privileges, in their order, and the privileges.
const GLOBAL: [(&str, &str); 31] = [
    ("Select_priv", "SELECT"),
    ("Insert_priv", "INSERT"),
    ("Update_priv", "UPDATE"),
    ("Delete_priv", "DELETE"),
    ("Create_priv", "CREATE"),
    ("Drop_priv", "DROP"),
    ("Reload_priv", "RELOAD"),
    ("Shutdown_priv", "SHUTDOWN"),
    ("Process_priv", "PROCESS"),
    ("File_priv", "FILE"),
    ("Grant_priv", "GRANT OPTION"),
    ("References_priv", "REFERENCES"),
    ("Index_priv", "INDEX"),
    ("Alter_priv", "ALTER"),
    ("Show_db_priv", "SHOW DATABASES"),
    ("Super_priv", "SUPER"),
    ("Create_tmp_table_priv", "CREATE TEMPORARY TABLES"),
    ("Lock_tables_priv", "LOCK TABLES"),
    ("Execute_priv", "EXECUTE"),
    ("Repl_slave_priv", "REPLICATION SLAVE"),
    ("Repl_client_priv", "REPLICATION CLIENT"),
    ("Create_view_priv", "CREATE VIEW"),
    ("Show_view_priv", "SHOW VIEW"),
    ("Create_routine_priv", "CREATE ROUTINE"),
    ("Alter_routine_priv", "ALTER ROUTINE"),
    ("Create_user_priv", "CREATE USER"),
    ("Event_priv", "EVENT"),
    ("Trigger_priv", "TRIGGER"),
    ("Create_tablespace_priv", "CREATE TABLESPACE"),
    ("Create_role_priv", "CREATE ROLE"),
    ("Drop_role_priv", "DROP ROLE"),
];

/// The names of an array's columns, then others.
const fn names<const N: usize, const M: usize, const ALL: usize>(
    privileges: &[(&'static str, &'static str); N],
    others: [&'static str; M],
) -> [&'static str; ALL] {
    let mut all = [""; ALL];
    let mut i = 0;
    while i < N {
        all[i] = privileges[i].0;
        i += 1;
    }
    let mut j = 0;
    while j < M {
        all[N + j] = others[j];
        j += 1;
    }
    all
}

/// Columns of `user`.
pub(super) const USER: &[&str] = &names::<31, 20, 51>(
    &GLOBAL,
    [
        "Host",
        "User",
        "ssl_type",
        "ssl_cipher",
        "x509_issuer",
        "x509_subject",
        "max_questions",
        "max_updates",
        "max_connections",
        "max_user_connections",
        "plugin",
        "authentication_string",
        "password_expired",
        "password_last_changed",
        "password_lifetime",
        "account_locked",
        "Password_reuse_history",
        "Password_reuse_time",
        "Password_require_current",
        "User_attributes",
    ],
);

fn yes(b: bool) -> Value {
    text(if b { "Y" } else { "N" })
}

fn number(n: Option<u16>) -> Value {
    n.map_or(Value::Null, |n| Value::UInt(n.into()))
}

/// A moment of seconds since 1970.
fn moment(viewer: &Viewer, seconds: i64) -> Value {
    created(viewer, seconds.saturating_mul(1_000_000))
}

/// What an account has on one place, and whether it may grant it on.
fn held(account: &Account, is_it: impl Fn(&GrantScope) -> bool) -> Privileges {
    let grants = account.grants.iter().filter(|g| is_it(&g.scope));
    grants.fold(Privileges::NONE, |all, g| {
        let option = g.grant_option && !g.is_dynamic();
        let own = all.or(g.privileges);
        if option {
            own.or(Privileges::GRANT)
        } else {
            own
        }
    })
}

/// `Y` or `N` for each of these privileges.
fn letters(held: Privileges, columns: &[(&str, &str)]) -> Vec<Value> {
    let has = |(_, name): &(&str, &str)| yes(held.contains(Privileges::of(&[name])));
    columns.iter().map(has).collect()
}

/// Rows of `user`.
pub(super) fn users(viewer: &Viewer) -> Vec<Vec<Value>> {
    let accounts = viewer.instance.accounts().all();
    accounts.iter().map(|a| user(viewer, a)).collect()
}

fn user(viewer: &Viewer, account: &Account) -> Vec<Value> {
    let mut row = letters(held(account, |s| *s == GrantScope::Global), &GLOBAL);
    let policy = &account.policy;
    let nothing = || (String::new(), String::new());
    let (ssl_type, (issuer, subject), cipher) = match &policy.transport {
        Transport::Any => ("", nothing(), String::new()),
        Transport::Tls => ("ANY", nothing(), String::new()),
        Transport::Certificate => ("X509", nothing(), String::new()),
        Transport::Specified {
            subject,
            issuer,
            cipher,
        } => {
            let given = |s: &Option<String>| s.clone().unwrap_or_default();
            ("SPECIFIED", (given(issuer), given(subject)), given(cipher))
        }
    };
    let limits = &policy.limits;
    row.extend([
        text(&account.host),
        text(&account.user),
        text(ssl_type),
        text(cipher),
        text(issuer),
        text(subject),
        Value::UInt(limits.queries.into()),
        Value::UInt(limits.updates.into()),
        Value::UInt(limits.connections.into()),
        Value::UInt(limits.user_connections.into()),
        text(account.plugin.name()),
        Value::Str(secret(account.plugin, &account.auth)),
        yes(policy.expired),
        policy.changed.map_or(Value::Null, |at| moment(viewer, at)),
        number(policy.lifetime_days),
        yes(account.locked),
        number(policy.history),
        number(policy.reuse_days),
        policy.require_current.map_or(Value::Null, yes),
        attributes(account),
    ]);
    row
}

/// The secret as `authentication_string` has it.
fn secret(plugin: Plugin, stored: &[u8]) -> Vec<u8> {
    match plugin {
        Plugin::Native if !stored.is_empty() => format!("*{}", upper_hex(stored)).into_bytes(),
        _ => stored.to_vec(),
    }
}

/// `User_attributes`: the attribute as `metadata`, the second password, the lock after failed logins, partial revokes.
fn attributes(account: &Account) -> Value {
    let mut members = serde_json::Map::new();
    let attribute = account.policy.attribute.as_deref();
    if let Some(Ok(metadata)) = attribute.map(serde_json::from_str) {
        members.insert("metadata".to_owned(), metadata);
    }
    if !account.retained.is_empty() {
        let second = secret(account.plugin, &account.retained);
        let second = String::from_utf8_lossy(&second).into_owned();
        members.insert("additional_password".to_owned(), second.into());
    }
    let lock = account.policy.login_lock;
    if lock != LoginLock::default() {
        let days = match lock.time {
            LockTime::Days(days) => i64::from(days),
            LockTime::Unbounded => -1,
        };
        let locking = serde_json::json!({
            "failed_login_attempts": lock.attempts,
            "password_lock_time_days": days,
        });
        members.insert("Password_locking".to_owned(), locking);
    }
    let restriction = |(schema, lost): (&str, Privileges)| {
        let names = lost.listed();
        let names: Vec<_> = names.split(", ").collect();
        serde_json::json!({"Database": schema, "Privileges": names})
    };
    if !account.restrictions.is_empty() {
        let all: Vec<_> = account.restrictions.iter().map(restriction).collect();
        members.insert("Restrictions".to_owned(), all.into());
    }
    if members.is_empty() {
        return Value::Null;
    }
    let document = serde_json::Value::Object(members).to_string();
    let parsed = esker_types::json::parse(document.as_bytes(), &NoSession).ok();
    let encoded = parsed.and_then(|document| esker_types::json::encode(&document).ok());
    encoded.map_or(Value::Null, Value::Json)
}

/// Columns of `db` that are privileges.
const SCHEMA: [(&str, &str); 19] = [
    ("Select_priv", "SELECT"),
    ("Insert_priv", "INSERT"),
    ("Update_priv", "UPDATE"),
    ("Delete_priv", "DELETE"),
    ("Create_priv", "CREATE"),
    ("Drop_priv", "DROP"),
    ("Grant_priv", "GRANT OPTION"),
    ("References_priv", "REFERENCES"),
    ("Index_priv", "INDEX"),
    ("Alter_priv", "ALTER"),
    ("Create_tmp_table_priv", "CREATE TEMPORARY TABLES"),
    ("Lock_tables_priv", "LOCK TABLES"),
    ("Create_view_priv", "CREATE VIEW"),
    ("Show_view_priv", "SHOW VIEW"),
    ("Create_routine_priv", "CREATE ROUTINE"),
    ("Alter_routine_priv", "ALTER ROUTINE"),
    ("Execute_priv", "EXECUTE"),
    ("Event_priv", "EVENT"),
    ("Trigger_priv", "TRIGGER"),
];

/// Columns of `db`.
pub(super) const DB: &[&str] = &names::<19, 3, 22>(&SCHEMA, ["Host", "Db", "User"]);

/// Rows of `db`.
pub(super) fn databases(viewer: &Viewer) -> Vec<Vec<Value>> {
    each(viewer, |account, rows| {
        let mut places: BTreeMap<&str, Privileges> = BTreeMap::new();
        for grant in &account.grants {
            if let GrantScope::Schema(schema) = &grant.scope {
                let have = held(account, |s| *s == grant.scope);
                places.insert(schema, have);
            }
        }
        for (schema, have) in places {
            let mut row = letters(have, &SCHEMA);
            row.extend([text(&account.host), text(schema), text(&account.user)]);
            rows.push(row);
        }
    })
}

/// Rows of all accounts.
fn each(viewer: &Viewer, rows: impl Fn(&Account, &mut Vec<Vec<Value>>)) -> Vec<Vec<Value>> {
    let mut out = Vec::new();
    for account in viewer.instance.accounts().all().iter() {
        rows(account, &mut out);
    }
    out
}

/// A set as `tables_priv` writes it: `Select,Create View`.
fn set(held: Privileges) -> Value {
    let word = |name: &str| match name {
        "GRANT OPTION" => "Grant".to_owned(),
        name => name.to_owned(),
    };
    text(held.names().map(word).collect::<Vec<_>>().join(","))
}

/// Columns of `tables_priv`.
pub(super) const TABLES_PRIV: &[&str] = &[
    "Host",
    "Db",
    "User",
    "Table_name",
    "Grantor",
    "Table_priv",
    "Column_priv",
];

/// What columns of a table have in all.
fn of_columns(account: &Account, schema: &str, table: &str) -> Privileges {
    held(
        account,
        |s| matches!(s, GrantScope::Column(s, t, _) if s == schema && t == table),
    )
    .without(Privileges::GRANT)
}

/// Rows of `tables_priv`: one for each table on which, or on a column of which, something is granted.
pub(super) fn tables(viewer: &Viewer) -> Vec<Vec<Value>> {
    each(viewer, |account, rows| {
        let mut places: Vec<(&str, &str)> = Vec::new();
        for grant in &account.grants {
            if let GrantScope::Table(s, t) | GrantScope::Column(s, t, _) = &grant.scope {
                places.push((s, t));
            }
        }
        places.sort_unstable();
        places.dedup();
        for (schema, table) in places {
            let whole = held(
                account,
                |s| matches!(s, GrantScope::Table(s, t) if s == schema && t == table),
            );
            rows.push(vec![
                text(&account.host),
                text(schema),
                text(&account.user),
                text(table),
                text(""),
                set(whole),
                set(of_columns(account, schema, table)),
            ]);
        }
    })
}

/// Columns of `columns_priv`.
pub(super) const COLUMNS_PRIV: &[&str] = &[
    "Host",
    "Db",
    "User",
    "Table_name",
    "Column_name",
    "Column_priv",
];

/// Rows of `columns_priv`.
pub(super) fn columns(viewer: &Viewer) -> Vec<Vec<Value>> {
    each(viewer, |account, rows| {
        for grant in &account.grants {
            if let GrantScope::Column(schema, table, column) = &grant.scope {
                rows.push(vec![
                    text(&account.host),
                    text(schema),
                    text(&account.user),
                    text(table),
                    text(column),
                    set(grant.privileges),
                ]);
            }
        }
    })
}

/// Columns of `procs_priv`.
pub(super) const PROCS_PRIV: &[&str] = &[
    "Host",
    "Db",
    "User",
    "Routine_name",
    "Routine_type",
    "Grantor",
    "Proc_priv",
];

/// Rows of `procs_priv`.
pub(super) fn routines(viewer: &Viewer) -> Vec<Vec<Value>> {
    each(viewer, |account, rows| {
        for grant in &account.grants {
            if let GrantScope::Routine(kind, schema, name) = &grant.scope {
                rows.push(vec![
                    text(&account.host),
                    text(schema),
                    text(&account.user),
                    text(name),
                    text(kind.text()),
                    text(""),
                    set(held(account, |scope| *scope == grant.scope)),
                ]);
            }
        }
    })
}

/// Columns of `proxies_priv`.
pub(super) const PROXIES_PRIV: &[&str] = &[
    "Host",
    "User",
    "Proxied_host",
    "Proxied_user",
    "With_grant",
    "Grantor",
];

/// Rows of `proxies_priv`.
pub(super) fn proxies(viewer: &Viewer) -> Vec<Vec<Value>> {
    each(viewer, |account, rows| {
        let row = |proxy: &esker_sql_catalog::accounts::ProxyGrant| {
            vec![
                text(&account.host),
                text(&account.user),
                text(&proxy.host),
                text(&proxy.user),
                Value::Int(proxy.grant_option.into()),
                text(""),
            ]
        };
        rows.extend(account.proxies.iter().map(row));
    })
}

/// Columns of `role_edges`.
pub(super) const ROLE_EDGES: &[&str] = &[
    "FROM_HOST",
    "FROM_USER",
    "TO_HOST",
    "TO_USER",
    "WITH_ADMIN_OPTION",
];

/// Rows of `role_edges`.
pub(super) fn role_edges(viewer: &Viewer) -> Vec<Vec<Value>> {
    each(viewer, |account, rows| {
        let row = |granted: &esker_sql_catalog::accounts::GrantedRole| {
            vec![
                text(&granted.role.1),
                text(&granted.role.0),
                text(&account.host),
                text(&account.user),
                yes(granted.admin),
            ]
        };
        rows.extend(account.roles.iter().map(row));
    })
}

/// Columns of `default_roles`.
pub(super) const DEFAULT_ROLES: &[&str] =
    &["HOST", "USER", "DEFAULT_ROLE_HOST", "DEFAULT_ROLE_USER"];

/// Rows of `default_roles`.
pub(super) fn default_roles(viewer: &Viewer) -> Vec<Vec<Value>> {
    each(viewer, |account, rows| {
        let row = |(user, host): &(String, String)| {
            vec![
                text(&account.host),
                text(&account.user),
                text(host),
                text(user),
            ]
        };
        rows.extend(account.default_roles.iter().map(row));
    })
}

/// Columns of `global_grants`.
pub(super) const GLOBAL_GRANTS: &[&str] = &["USER", "HOST", "PRIV", "WITH_GRANT_OPTION"];

/// Rows of `global_grants`: dynamic privileges.
pub(super) fn dynamic(viewer: &Viewer) -> Vec<Vec<Value>> {
    each(viewer, |account, rows| {
        for grant in account.grants.iter().filter(|g| g.is_dynamic()) {
            for name in grant.privileges.names() {
                rows.push(vec![
                    text(&account.user),
                    text(&account.host),
                    text(name),
                    yes(grant.grant_option),
                ]);
            }
        }
    })
}

/// Columns of `password_history`.
pub(super) const PASSWORD_HISTORY: &[&str] = &["Host", "User", "Password_timestamp", "Password"];

/// Rows of `password_history`.
pub(super) fn passwords(viewer: &Viewer) -> Vec<Vec<Value>> {
    each(viewer, |account, rows| {
        for old in &account.policy.old_passwords {
            rows.push(vec![
                text(&account.host),
                text(&account.user),
                moment(viewer, old.since),
                optional(Some(String::from_utf8_lossy(&secret(
                    account.plugin,
                    &old.secret,
                )))),
            ]);
        }
    })
}
