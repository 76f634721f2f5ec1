//! GRANT and REVOKE.
//!
//! Neighbours: `account_statements` dispatches; `proxies` has GRANT PROXY, `users` the other account statements;
//! `accounts` keeps the list and its file. **Invariants**: every change is checked against the acting account first
//! and durable before it takes effect; what Esker has no notion of is refused by name instead of being ignored.

use std::cell::Cell;

use esker_sql_catalog::accounts::{Account, GrantEntry, GrantScope, Privileges, Restrictions};
use esker_sql_catalog::catalog::{RoutineKey, same_name};
use esker_sql_syntax::ast::{self, Grant, GrantTarget, Lenience, Privilege, Statement};
use esker_types::program::RoutineKind;
use esker_types::{Level, SqlError, SqlResult, errors};

use super::partial_revokes::Grantor;
use super::{Session, SessionContext};
use crate::binlog::AccountEvent;
use crate::infoschema;
use crate::infoschema::sys::procedures;

impl Session {
    /// GRANT and REVOKE.
    pub(crate) fn grant(&mut self, grant: &Grant, way: Way) -> SqlResult<()> {
        let add = way == Way::Grant;
        match grant {
            Grant::Privileges {
                privileges,
                target,
                users,
                grant_option,
                by,
            } => {
                let by = match by {
                    None => self.context.grantor(),
                    Some(_) if *target != GrantTarget::Global => return Err(not_on_everything()),
                    Some(by) => self.context.grantor_as(by)?,
                };
                let (asked, scope) = self.context.asked(privileges, target, *grant_option, way)?;
                self.warn_of_passed(asked.passed.take());
                if add {
                    self.context.check_granted_exists(&asked, &scope)?;
                }
                let names: Vec<_> = users.iter().map(|a| self.context.named(a)).collect();
                self.change_grants(&names, &scope, way, |account| {
                    let missing = match add {
                        true => Ok(()),
                        false => asked.check_held(account, &scope, &by),
                    };
                    if missing.is_ok() || way.passes_missing() {
                        asked.apply(account, &scope, add, &by)?;
                    }
                    missing
                })
            }
            Grant::All { users } => {
                self.context.require("CREATE USER")?;
                let names: Vec<_> = users.iter().map(|a| self.context.named(a)).collect();
                self.revoke_all(&names, way)
            }
            Grant::Roles {
                roles,
                users,
                admin_option,
            } => self.grant_roles(roles, users, *admin_option, way),
            Grant::Proxy {
                on,
                users,
                grant_option,
            } => self.grant_proxy(on, users, *grant_option, way),
        }
    }

    /// REVOKE ALL PRIVILEGES, GRANT OPTION.
    fn revoke_all(&mut self, names: &[(String, String)], way: Way) -> SqlResult<()> {
        let mut passed = Vec::new();
        self.change_accounts(AccountEvent::AsWritten, |list| {
            for (user, host) in names {
                let same = |a: &&mut Account| a.user == *user && a.host == *host;
                match list.iter_mut().find(same) {
                    Some(account) => {
                        account.grants.clear();
                        account.restrictions = Restrictions::NONE;
                    }
                    None if way.passes_unknown_users() => {
                        passed.push(errors::no_such_authorization(user))
                    }
                    None => return Err(cannot_revoke_all()),
                }
            }
            Ok(())
        })?;
        self.warn_of_passed(passed);
        Ok(())
    }

    /// What REVOKE has passed over, as warnings.
    pub(super) fn warn_of_passed(&mut self, passed: Vec<SqlError>) {
        for e in passed {
            self.warn(Level::Warning, e.code, e.message);
        }
    }

    /// Changes accounts one by one; an error of `change` says what is not granted, which REVOKE may pass over.
    pub(super) fn change_grants(
        &mut self,
        names: &[(String, String)],
        scope: &GrantScope,
        way: Way,
        mut change: impl FnMut(&mut Account) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let mut passed = Vec::new();
        self.change_accounts(AccountEvent::AsWritten, |list| {
            for (user, host) in names {
                let same = |a: &&mut Account| a.user == *user && a.host == *host;
                let Some(account) = list.iter_mut().find(same) else {
                    match way {
                        Way::Grant => {
                            let text = "You are not allowed to create a user with GRANT";
                            return Err(SqlError::new(1410, "42000", text));
                        }
                        _ if way.passes_unknown_users() => {
                            passed.push(errors::no_such_authorization(user))
                        }
                        Way::Revoke(_) => return Err(missing_grant((user, host), scope)),
                    }
                    continue;
                };
                match change(account) {
                    Err(e) if way.passes_missing() && is_of_missing(&e) => passed.push(e),
                    changed => changed?,
                }
            }
            Ok(())
        })?;
        self.warn_of_passed(passed);
        Ok(())
    }
}

impl SessionContext {
    /// User and host of a name in a statement.
    pub(crate) fn named(&self, account: &ast::Account) -> (String, String) {
        match account {
            ast::Account::Named { user, host } => (user.to_string(), host.to_string()),
            ast::Account::CurrentUser => (self.account.user.clone(), self.account.host.clone()),
        }
    }

    /// What GRANT or REVOKE of privileges names, and where, if the session may give it.
    ///
    /// # Errors
    /// It may not, or there is no such thing.
    pub(super) fn asked(
        &self,
        privileges: &[Privilege],
        target: &GrantTarget,
        grant_option: bool,
        way: Way,
    ) -> SqlResult<(Asked, GrantScope)> {
        let scope = self.grant_scope(target)?;
        let asked = Asked::new(privileges, &scope, grant_option, way)?;
        self.check_grantable_in(&scope, asked.whole)?;
        self.check_may_grant(&asked, &scope)?;
        Ok((asked, scope))
    }

    fn grant_scope(&self, target: &GrantTarget) -> SqlResult<GrantScope> {
        Ok(match target {
            GrantTarget::Global => GrantScope::Global,
            GrantTarget::CurrentSchema => GrantScope::Schema(self.current_schema()?.to_owned()),
            GrantTarget::Schema(name) => GrantScope::Schema(name.text.to_string()),
            GrantTarget::Table(name) => {
                let schema = match &name.schema {
                    Some(s) => s.text.to_string(),
                    None => self.current_schema()?.to_owned(),
                };
                GrantScope::Table(schema, name.name.text.to_string())
            }
            GrantTarget::Routine(kind, name) => {
                let kind = match *kind {
                    "FUNCTION" => RoutineKind::Function,
                    _ => RoutineKind::Procedure,
                };
                let (schema, name) = self.full_name(name)?;
                GrantScope::of_routine(kind, schema, name)
            }
        })
    }

    /// Nothing is granted on INFORMATION_SCHEMA, and on PERFORMANCE_SCHEMA only what one can do there.
    ///
    /// # Errors
    /// 1044.
    fn check_grantable_in(&self, scope: &GrantScope, asked: Privileges) -> SqlResult<()> {
        const ROWS: [&str; 6] = [
            "SELECT",
            "INSERT",
            "UPDATE",
            "DELETE",
            "DROP",
            "LOCK TABLES",
        ];
        let (GrantScope::Schema(schema) | GrantScope::Table(schema, _)) = scope else {
            return Ok(());
        };
        let is_system = |name: &str| schema.eq_ignore_ascii_case(name);
        let is_refused = is_system("information_schema")
            || is_system("performance_schema") && !Privileges::of(&ROWS).contains(asked);
        match is_refused {
            true => Err(self.no_schema(&self.access.host, schema)),
            false => Ok(()),
        }
    }

    /// Nobody gives what he may not give: the privileges and GRANT OPTION have to be there, each from wherever.
    fn check_may_grant(&self, asked: &Asked, scope: &GrantScope) -> SqlResult<()> {
        let access = &self.access;
        let fixed = asked.whole.and(Privileges::STATIC).or(Privileges::GRANT);
        match scope {
            GrantScope::Global => {
                let dynamic = asked.whole.and(Privileges::DYNAMIC);
                if !access.grantable().contains(dynamic) {
                    // GRANT OPTION on *.* is about static privileges: each dynamic one has its own.
                    return Err(errors::privilege_needed("GRANT OPTION"));
                }
                let only_dynamic = !dynamic.is_empty() && dynamic == asked.whole;
                match only_dynamic || access.global().contains(fixed) {
                    true => Ok(()),
                    false => Err(self.access_denied()),
                }
            }
            GrantScope::Schema(schema) => match access.on_pattern(schema).contains(fixed) {
                true => Ok(()),
                false => Err(self.no_schema(&access.host, schema)),
            },
            GrantScope::Table(schema, table) | GrantScope::Column(schema, table, _) => {
                let held = access.on_table(schema, table);
                let in_columns = asked.columns.iter();
                let of_columns = in_columns.fold(Privileges::NONE, |all, (p, _)| all.or(*p));
                let on_some = access.on_table_or_columns(schema, table);
                let missing = fixed.without(held).or(of_columns.without(on_some));
                if !missing.is_empty() {
                    return Err(self.denied(&missing.listed(), table));
                }
                self.check_columns_granted(&asked.columns, schema, table)
            }
            GrantScope::Routine(kind, schema, name) => {
                let missing = fixed.without(access.on_routine(*kind, schema, name));
                match missing.is_empty() {
                    true => Ok(()),
                    false => {
                        let command = missing.listed().to_lowercase();
                        Err(self.routine_denied(&command, &format!("{schema}.{name}")))
                    }
                }
            }
        }
    }

    /// A table that something is granted on exists, unless CREATE is among it; so do its columns. So does a routine.
    fn check_granted_exists(&self, asked: &Asked, scope: &GrantScope) -> SqlResult<()> {
        let catalog = &self.instance.catalog;
        if let GrantScope::Routine(kind, schema, name) = scope {
            let key = RoutineKey::new(*kind, name);
            let is_there = catalog.routine(schema, &key).is_some()
                || procedures::is_of_sys(*kind, schema, name);
            return match is_there {
                true => Ok(()),
                false => Err(errors::does_not_exist(kind.text(), name)),
            };
        }
        let GrantScope::Table(schema, table) = scope else {
            return Ok(());
        };
        if let Some(system) = infoschema::schema(schema)
            && let Some(spec) = system.table(table)
        {
            let mut columns = asked.columns.iter().flat_map(|(_, names)| names);
            return match columns.find(|column| spec.column(column).is_none()) {
                Some(unknown) => Err(errors::unknown_column(unknown, table)),
                None => Ok(()),
            };
        }
        let view = catalog.view(schema, table);
        let found = match &view {
            Some(_) => None,
            None if catalog.resolve(schema, table).is_none() => {
                let creates = asked.whole.meets(Privileges::of(&["CREATE"]));
                if creates && asked.columns.is_empty() {
                    return Ok(());
                }
                return Err(errors::no_such_table(schema, table));
            }
            None => catalog.resolve(schema, table),
        };
        for column in asked.columns.iter().flat_map(|(_, names)| names) {
            let in_view = view
                .as_ref()
                .is_some_and(|v| v.columns.iter().any(|c| same_name(&c.name, column)));
            let in_table = found
                .as_ref()
                .is_some_and(|t| t.column_index(column).is_some());
            if !in_view && !in_table {
                return Err(errors::unknown_column(column, table));
            }
        }
        Ok(())
    }
}

/// Which way privileges go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// GRANT.
    Grant,
    /// REVOKE.
    Revoke(Lenience),
}

impl Way {
    /// That of a statement.
    pub(super) fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Revoke(_, lenience) => Self::Revoke(*lenience),
            _ => Self::Grant,
        }
    }

    /// Is it a warning where something is not granted?
    pub(super) fn passes_missing(self) -> bool {
        matches!(self, Self::Revoke(lenience) if lenience.missing)
    }

    /// Is it a warning where an account is not there?
    pub(super) fn passes_unknown_users(self) -> bool {
        matches!(self, Self::Revoke(lenience) if lenience.unknown_users)
    }
}

/// 1141, 1147, 1403: something is not granted.
fn is_of_missing(e: &SqlError) -> bool {
    matches!(e.code, 1141 | 1147 | 1403)
}

/// 3835.
fn not_on_everything() -> SqlError {
    let text = "GRANT ... AS is currently supported only for global privileges.";
    SqlError::new(3835, "HY000", text)
}

/// 1269.
fn cannot_revoke_all() -> SqlError {
    let text = "Can't revoke all privileges for one or more of the requested users";
    SqlError::new(1269, "HY000", text)
}

/// Privileges with the columns they are asked for on.
pub(super) type OnColumns = Vec<(Privileges, Vec<Box<str>>)>;

/// What GRANT or REVOKE names.
pub(super) struct Asked {
    /// On the whole place.
    whole: Privileges,
    /// On columns.
    columns: OnColumns,
    /// GRANT OPTION.
    option: bool,
    /// As a privilege of the list, not behind WITH.
    names_option: bool,
    /// ALL.
    all: bool,
    /// What REVOKE passes over.
    passed: Cell<Vec<SqlError>>,
}

impl Asked {
    /// # Errors
    /// 1149 for unknown privileges, 1144, 1221 and 3619 for those that cannot be had on such a place. An unknown one
    /// may be a dynamic one that is not registered: so it is to REVOKE on everything, and on any other place.
    fn new(list: &[Privilege], scope: &GrantScope, option: bool, way: Way) -> SqlResult<Self> {
        let mut asked = Self {
            whole: Privileges::NONE,
            columns: Vec::new(),
            option,
            names_option: false,
            all: false,
            passed: Cell::default(),
        };
        let (mut passed, mut misplaced) = (Vec::new(), Vec::new());
        let most = match scope {
            GrantScope::Global => Privileges::ALL,
            GrantScope::Schema(_) => Privileges::ON_SCHEMA,
            GrantScope::Table(..) | GrantScope::Column(..) => Privileges::ON_TABLE,
            GrantScope::Routine(..) => Privileges::ON_ROUTINE,
        };
        for p in list {
            let one = match &*p.name {
                "ALL" | "ALL PRIVILEGES" => {
                    asked.all = true;
                    most
                }
                "USAGE" => Privileges::NONE,
                "GRANT OPTION" => {
                    (asked.option, asked.names_option) = (true, true);
                    continue;
                }
                name => match Privileges::named(name) {
                    Some(one) => one,
                    None if way != Way::Grant && *scope == GrantScope::Global => {
                        passed.push(not_registered(name));
                        continue;
                    }
                    None if *scope == GrantScope::Global => return Err(errors::syntax_of_old()),
                    None => {
                        misplaced.push(name);
                        continue;
                    }
                },
            };
            if Privileges::DYNAMIC.meets(one) && *scope != GrantScope::Global {
                misplaced.push(&p.name);
                continue;
            }
            if p.columns.is_empty() {
                asked.whole = asked.whole.or(one);
                continue;
            }
            if !matches!(scope, GrantScope::Table(..)) || !Privileges::ON_COLUMN.contains(one) {
                return Err(illegal());
            }
            let names = p.columns.iter().map(|c| c.text.clone()).collect();
            asked.columns.push((one, names));
        }
        if !misplaced.is_empty() {
            let e = illegal_level(scope, &misplaced);
            if !way.passes_missing() {
                return Err(e);
            }
            passed.push(e);
        }
        asked.passed.set(passed);
        if most.contains(asked.whole) {
            return Ok(asked);
        }
        Err(match scope {
            GrantScope::Schema(_) => errors::wrong_usage("DB GRANT and GLOBAL PRIVILEGES"),
            _ => illegal(),
        })
    }

    /// Changes an account.
    ///
    /// # Errors
    /// REVOKE where nothing is granted: 1141, 1147; 3879.
    fn apply(
        &self,
        account: &mut Account,
        scope: &GrantScope,
        add: bool,
        by: &Grantor,
    ) -> SqlResult<()> {
        let fixed = self.fixed();
        let (mut whole, mut option) = (self.whole, self.option);
        match (scope, add) {
            (GrantScope::Global, true) => by.grant_everywhere(account, fixed),
            (GrantScope::Global, false) => by.revoke_everywhere(account, fixed)?,
            (GrantScope::Schema(schema), true) => {
                let rest = by.grant_on_schema(account, schema, fixed);
                (whole, option) = (
                    rest.without(Privileges::GRANT),
                    rest.meets(Privileges::GRANT),
                );
                if rest.is_empty() && !fixed.is_empty() {
                    return Ok(());
                }
            }
            (GrantScope::Schema(schema), false) => by.revoke_on_schema(account, schema, fixed)?,
            _ => (),
        }
        if !add && *scope == GrantScope::Global && self.whole == Privileges::ALL {
            // As MySQL does it: nothing is left on databases and tables either.
            account.grants.clear();
            account.restrictions = Restrictions::NONE;
            return Ok(());
        }
        account.change_grant(scope, whole, option, add);
        if add && self.names_option && *scope == GrantScope::Global {
            // As MySQL does it: that is the option of every dynamic privilege, too. WITH GRANT OPTION is not.
            let held = account.grants.iter().filter(|g| g.scope == *scope);
            let held = held.fold(Privileges::NONE, |all, g| all.or(g.privileges));
            let dynamic = held.and(Privileges::DYNAMIC);
            if !dynamic.is_empty() {
                account.change_grant(scope, dynamic, true, true);
            }
        }
        let GrantScope::Table(schema, table) = scope else {
            return Ok(());
        };
        for (privilege, names) in &self.columns {
            for name in names {
                let place = column_scope(account, schema, table, name);
                account.change_grant(&place, *privilege, false, add);
            }
        }
        if !add {
            // What goes from the table goes from its columns.
            let inside = |g: &GrantEntry| matches!(&g.scope, GrantScope::Column(s, t, _) if s == schema && t == table);
            for grant in account.grants.iter_mut().filter(|g| inside(g)) {
                grant.privileges = grant.privileges.without(self.whole);
            }
            account
                .grants
                .retain(|g| !inside(g) || !g.privileges.is_empty());
        }
        Ok(())
    }

    /// Static privileges on the whole place, GRANT OPTION among them.
    fn fixed(&self) -> Privileges {
        let fixed = self.whole.and(Privileges::STATIC);
        match self.option && (self.whole.is_empty() || !fixed.is_empty()) {
            true => fixed.or(Privileges::GRANT),
            false => fixed,
        }
    }

    /// Is all of it granted there, so that it can be revoked? ALL is whatever there is. With partial revokes a database
    /// has rules of its own.
    ///
    /// # Errors
    /// 1141, 1147, 1403.
    fn check_held(&self, account: &Account, scope: &GrantScope, by: &Grantor) -> SqlResult<()> {
        let asks_for_nothing =
            self.whole.is_empty() && self.columns.is_empty() && !self.names_option;
        if asks_for_nothing || (by.is_on() && matches!(scope, GrantScope::Schema(_))) {
            return Ok(());
        }
        self.check_there(account, scope)?;
        let on_columns = |(privilege, names): &(Privileges, Vec<Box<str>>)| {
            let GrantScope::Table(schema, table) = scope else {
                return true;
            };
            names.iter().all(|name| {
                let place = column_scope(account, schema, table, name);
                account.held_at(&place).contains(*privilege)
            })
        };
        let wanted = match self.names_option {
            true => self.whole.or(Privileges::GRANT),
            false => self.whole,
        };
        let is_held = self.held_within(account, scope).contains(wanted);
        match *scope == GrantScope::Global
            || self.all
            || is_held && self.columns.iter().all(on_columns)
        {
            true => Ok(()),
            false => Err(missing_grant((&account.user, &account.host), scope)),
        }
    }

    /// What is granted on a place or on columns of it.
    fn held_within(&self, account: &Account, scope: &GrantScope) -> Privileges {
        let held = account.held_at(scope);
        let GrantScope::Table(schema, table) = scope else {
            return held;
        };
        let inside = |g: &&GrantEntry| matches!(&g.scope, GrantScope::Column(s, t, _) if s == schema && t == table);
        let columns = account.grants.iter().filter(inside);
        columns.fold(held, |all, g| all.or(g.privileges))
    }

    fn check_there(&self, account: &Account, scope: &GrantScope) -> SqlResult<()> {
        let on_it = |g: &GrantEntry| match (&g.scope, scope) {
            (GrantScope::Column(s, t, _), GrantScope::Table(schema, table)) => {
                s == schema && t == table
            }
            (place, scope) => place == scope,
        };
        if *scope == GrantScope::Global || account.grants.iter().any(on_it) {
            return Ok(());
        }
        Err(missing_grant((&account.user, &account.host), scope))
    }
}

/// A column, in the letters in which something is granted on it already.
fn column_scope(account: &Account, schema: &str, table: &str, name: &str) -> GrantScope {
    let is_it = |scope: &&GrantScope| matches!(scope, GrantScope::Column(s, t, c) if s == schema && t == table && same_name(c, name));
    let found = account.grants.iter().map(|g| &g.scope).find(is_it);
    found
        .cloned()
        .unwrap_or_else(|| GrantScope::Column(schema.into(), table.into(), name.into()))
}

/// 1141, 1147, 1403.
fn missing_grant((user, host): (&str, &str), scope: &GrantScope) -> SqlError {
    match scope {
        GrantScope::Table(_, table) => {
            let text = format!(
                "There is no such grant defined for user '{user}' on host '{host}' on table '{table}'"
            );
            SqlError::new(1147, "42000", text)
        }
        GrantScope::Routine(_, _, name) => errors::no_such_routine_grant(user, host, name),
        _ => errors::no_such_grant(user, host),
    }
}

/// 3929.
fn not_registered(privilege: &str) -> SqlError {
    let text = format!("Dynamic privilege '{privilege}' is not registered with the server.");
    SqlError::new(3929, "HY000", text)
}

/// 3619, which names the table or the routine, and on a database the privileges.
fn illegal_level(scope: &GrantScope, privileges: &[&str]) -> SqlError {
    let what = match scope {
        GrantScope::Table(_, name) | GrantScope::Routine(_, _, name) => name.to_string(),
        _ => privileges.join(","),
    };
    let text = format!("Illegal privilege level specified for {what}");
    SqlError::new(3619, "HY000", text)
}

/// 1144.
fn illegal() -> SqlError {
    let text = "Illegal GRANT/REVOKE command; please consult the manual to see which privileges can be used";
    SqlError::new(1144, "42000", text)
}
