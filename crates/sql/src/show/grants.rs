//! SHOW GRANTS.
//!
//! Neighbours: `server` dispatches; `accounts` keeps what is shown.
//! **Invariant**: each line is a statement that gives the account what the line says.

use esker_sql_catalog::accounts::{
    Account as Stored, GrantEntry, GrantScope, Privileges, ProxyGrant, Role, RoleName,
};
use esker_sql_catalog::catalog::Quotes;
use esker_sql_syntax::ast::Account;
use esker_types::program::RoutineKind;
use esker_types::{SqlResult, errors};

use super::server::resolve;
use super::{Table, shown, t};
use crate::session::Session;

/// `account`: None is the session's own, with its active roles; `using`: roles that count as active.
pub(super) fn grants(
    session: &Session,
    account: Option<&Account>,
    using: &[Account],
) -> SqlResult<Table> {
    let stored = resolve(session, account)?;
    let own = session.context.access.is_of(&stored.user, &stored.host);
    let mut active: Vec<RoleName> = using.iter().map(|r| session.context.named(r)).collect();
    let mandatory = session.context.instance.mandatory_roles();
    for role in &active {
        let held = stored.roles.iter().any(|r| r.role == *role) || mandatory.contains(role);
        if !held {
            let name = (stored.user.clone(), stored.host.clone());
            return Err(errors::role_not_granted(Role(role), Role(&name)));
        }
    }
    if account.is_none() && own {
        active.clone_from(&session.context.active_roles);
    }
    let merged = session.context.instance.accounts().merged(&stored, &active);
    let rows = lines(&merged, &mandatory, shown(session).quotes);
    let rows = rows.into_iter().map(|line| vec![t(line)]).collect();
    let title = format!("Grants for {}", stored.name());
    Ok(Table::texts(&[&title], rows))
}

fn lines(account: &Stored, mandatory: &[RoleName], quotes: Quotes) -> Vec<String> {
    let whom = quotes.account(&account.user, &account.host);
    let mut out = global(account, &whom);
    for grant in &account.grants {
        if let GrantScope::Schema(schema) = &grant.scope {
            let what = all_or_listed(grant.privileges, Privileges::ON_SCHEMA);
            let place = quotes.name(schema);
            out.push(format!(
                "GRANT {what} ON {place}.* TO {whom}{}",
                option(grant)
            ));
        }
    }
    for (schema, lost) in account.restrictions.iter() {
        let what = lost.names().collect::<Vec<_>>().join(", ");
        let place = quotes.name(schema);
        out.push(format!("REVOKE {what} ON {place}.* FROM {whom}"));
    }
    out.extend(on_tables(account, &whom, quotes));
    out.extend(on_routines(account, &whom, quotes));
    out.extend(roles(account, mandatory, &whom, quotes));
    out.extend(proxies(account, &whom, quotes));
    out
}

/// The lines for tables and their columns.
fn on_tables(account: &Stored, whom: &str, quotes: Quotes) -> Vec<String> {
    let mut out = Vec::new();
    let mut tables: Vec<(&String, &String)> = Vec::new();
    for grant in &account.grants {
        if let GrantScope::Table(s, t) | GrantScope::Column(s, t, _) = &grant.scope
            && !tables.contains(&(s, t))
        {
            tables.push((s, t));
        }
    }
    for (schema, table) in tables {
        let place = GrantScope::Table(schema.clone(), table.clone());
        let whole = account.grants.iter().find(|g| g.scope == place);
        let what = on_table(account, whole, schema, table, quotes);
        let option = whole.map_or("", option);
        let (schema, table) = (quotes.name(schema), quotes.name(table));
        out.push(format!(
            "GRANT {what} ON {schema}.{table} TO {whom}{option}"
        ));
    }
    out
}

/// The lines for stored routines: procedures, then functions.
fn on_routines(account: &Stored, whom: &str, quotes: Quotes) -> Vec<String> {
    let mut out = Vec::new();
    for kind in [RoutineKind::Procedure, RoutineKind::Function] {
        for grant in &account.grants {
            if let GrantScope::Routine(k, schema, name) = &grant.scope
                && *k == kind
            {
                let what = match grant.privileges {
                    Privileges::NONE => "USAGE".to_owned(),
                    held => held.names().collect::<Vec<_>>().join(", "),
                };
                let (schema, name) = (quotes.name(schema), quotes.name(name));
                let (kind, option) = (kind.text(), option(grant));
                out.push(format!(
                    "GRANT {what} ON {kind} {schema}.{name} TO {whom}{option}"
                ));
            }
        }
    }
    out
}

/// The lines for roles: those that are only held, with the mandatory ones, then those that may be given on.
fn roles(account: &Stored, mandatory: &[RoleName], whom: &str, quotes: Quotes) -> Vec<String> {
    let mut out = Vec::new();
    let name = (account.user.clone(), account.host.clone());
    for admin in [false, true] {
        let mut roles: Vec<&RoleName> = account
            .roles
            .iter()
            .filter(|r| r.admin == admin)
            .map(|r| &r.role)
            .collect();
        if !admin {
            let held = |m: &&RoleName| **m == name || account.roles.iter().any(|r| r.role == **m);
            roles.extend(mandatory.iter().filter(|m| !held(m)));
        }
        if !roles.is_empty() {
            roles.sort();
            let list: Vec<_> = roles.iter().map(|r| quotes.account(&r.0, &r.1)).collect();
            let option = if admin { " WITH ADMIN OPTION" } else { "" };
            out.push(format!("GRANT {} TO {whom}{option}", list.join(",")));
        }
    }
    out
}

fn option(grant: &GrantEntry) -> &'static str {
    match grant.grant_option {
        true => " WITH GRANT OPTION",
        false => "",
    }
}

/// The lines for PROXY: named hosts, then patterns, then anybody.
fn proxies(account: &Stored, whom: &str, quotes: Quotes) -> impl Iterator<Item = String> {
    let mut all: Vec<&ProxyGrant> = account.proxies.iter().collect();
    all.sort_by_key(|p| (p.is_on_anybody(), p.host.contains(['%', '_']), &p.user));
    all.into_iter().map(move |p| {
        let option = match p.grant_option {
            true => " WITH GRANT OPTION",
            false => "",
        };
        let on = quotes.account(&p.user, &p.host);
        format!("GRANT PROXY ON {on} TO {whom}{option}")
    })
}

/// The lines for `*.*`: static privileges, then dynamic ones without and with GRANT OPTION.
fn global(account: &Stored, whom: &str) -> Vec<String> {
    let (mut fixed, mut fixed_option) = (Privileges::NONE, false);
    let mut dynamic = [Privileges::NONE; 2];
    let of = account
        .grants
        .iter()
        .filter(|g| g.scope == GrantScope::Global);
    for grant in of {
        fixed = fixed.or(grant.privileges.and(Privileges::STATIC));
        fixed_option |= grant.grant_option && !grant.is_dynamic();
        let slot = &mut dynamic[usize::from(grant.grant_option)];
        *slot = slot.or(grant.privileges.and(Privileges::DYNAMIC));
    }
    let option = |on: bool| if on { " WITH GRANT OPTION" } else { "" };
    let what = match fixed.is_empty() {
        true => "USAGE".to_owned(),
        false => fixed.names().collect::<Vec<_>>().join(", "),
    };
    let mut out = vec![format!(
        "GRANT {what} ON *.* TO {whom}{}",
        option(fixed_option)
    )];
    for (at, privileges) in dynamic.into_iter().enumerate() {
        if !privileges.is_empty() {
            let what = privileges.names().collect::<Vec<_>>().join(",");
            out.push(format!("GRANT {what} ON *.* TO {whom}{}", option(at == 1)));
        }
    }
    out
}

fn all_or_listed(privileges: Privileges, all: Privileges) -> String {
    match privileges {
        Privileges::NONE => "USAGE".to_owned(),
        p if p == all => "ALL PRIVILEGES".to_owned(),
        p => p.names().collect::<Vec<_>>().join(", "),
    }
}

/// Privileges on a table, each followed by its columns: ``SELECT, SELECT (`b`), INSERT (`a`)``.
fn on_table(
    account: &Stored,
    whole: Option<&GrantEntry>,
    schema: &str,
    table: &str,
    quotes: Quotes,
) -> String {
    let whole = whole.map_or(Privileges::NONE, |g| g.privileges);
    let mut columns: Vec<(&str, Privileges)> = account
        .grants
        .iter()
        .filter_map(|g| match &g.scope {
            GrantScope::Column(s, t, c) if s == schema && t == table => {
                Some((c.as_str(), g.privileges))
            }
            _ => None,
        })
        .collect();
    columns.sort_by_key(|(name, _)| *name);
    if columns.is_empty() {
        return all_or_listed(whole, Privileges::ON_TABLE);
    }
    let of_columns = columns
        .iter()
        .fold(Privileges::NONE, |all, (_, p)| all.or(*p));
    let mut parts = Vec::new();
    for name in whole.or(of_columns).names() {
        let one = Privileges::of(&[name]);
        if whole.contains(one) {
            parts.push(name.to_owned());
        }
        let with = columns.iter().filter(|(_, p)| p.contains(one));
        let with: Vec<String> = with.map(|(c, _)| quotes.name(c)).collect();
        if !with.is_empty() {
            parts.push(format!("{name} ({})", with.join(", ")));
        }
    }
    parts.join(", ")
}
