//! Account statements: CREATE, ALTER, DROP and RENAME USER, SET PASSWORD, GRANT, REVOKE.
//!
//! Neighbours: `run` dispatches; `accounts` keeps the list and its file.
//! **Invariants**: every change is checked against the acting account first and durable before it
//! takes effect; what Esker has no notion of (roles, column privileges, certificates, limits) is
//! refused by name instead of being ignored.

use esker_types::{SqlError, SqlResult};

use super::Session;
use crate::accounts::{Account, GrantEntry, GrantScope, Plugin, Privileges};
use crate::parse::ast::{
    self, AuthSecret, Grant, GrantTarget, Privilege, Require, SetPassword, UserSpec, UserStatement,
};

/// Longest user name, characters.
const MAX_USER: usize = 32;
/// Longest host, characters.
const MAX_HOST: usize = 255;

fn failed(operation: &str, names: &[String]) -> SqlError {
    let text = format!("Operation {operation} failed for {}", names.join(","));
    SqlError::new(1396, "HY000", text)
}

fn shown(user: &str, host: &str) -> String {
    format!("'{user}'@'{host}'")
}

impl Session {
    /// User and host of a name in a statement.
    fn named(&self, account: &ast::Account) -> (String, String) {
        match account {
            ast::Account::Named { user, host } => (user.to_string(), host.to_string()),
            ast::Account::CurrentUser => (
                self.facts.account.user.clone(),
                self.facts.account.host.clone(),
            ),
        }
    }

    /// CREATE USER.
    pub(crate) fn create_user(&mut self, statement: &UserStatement) -> SqlResult<()> {
        self.facts.require("CREATE USER")?;
        refuse_unsupported(statement)?;
        let mut made = Vec::new();
        for spec in &statement.users {
            let (user, host) = self.named(&spec.account);
            check_name(&user, &host)?;
            let mut account = Account::named(&user, &host);
            account.locked = statement.lock.unwrap_or(false);
            self.set_secret(&mut account, spec)?;
            made.push(account);
        }
        let mut existing = Vec::new();
        self.facts.instance.change_accounts(|list| {
            for account in made {
                let same = |a: &Account| a.user == account.user && a.host == account.host;
                if list.iter().any(same) {
                    existing.push(shown(&account.user, &account.host));
                } else {
                    list.push(account);
                }
            }
            if existing.is_empty() || statement.if_exists {
                Ok(())
            } else {
                Err(failed("CREATE USER", &existing))
            }
        })?;
        for name in existing {
            let text = format!("Authorization ID {name} already exists.");
            self.warn(esker_types::Level::Note, 3163, text);
        }
        Ok(())
    }

    /// Applies IDENTIFIED.
    fn set_secret(&self, account: &mut Account, spec: &UserSpec) -> SqlResult<()> {
        if spec.replace.is_some() || spec.retain_current || spec.discard_old {
            return Err(SqlError::not_supported("dual passwords"));
        }
        let Some(auth) = &spec.auth else {
            return Ok(());
        };
        if let Some(name) = &auth.plugin {
            account.plugin = Plugin::by_name(name).ok_or_else(|| {
                SqlError::new(1524, "HY000", format!("Plugin '{name}' is not loaded"))
            })?;
        }
        account.auth = match &auth.secret {
            AuthSecret::None => Vec::new(),
            AuthSecret::Password(p) => self.facts.instance.hash(account.plugin, p),
            AuthSecret::Random => return Err(SqlError::not_supported("RANDOM PASSWORD")),
            AuthSecret::Stored(s) => stored_secret(account.plugin, s)?,
        };
        Ok(())
    }

    /// ALTER USER.
    pub(crate) fn alter_user(&mut self, statement: &UserStatement) -> SqlResult<()> {
        refuse_unsupported(statement)?;
        let own = self.facts.account.name();
        let mut changes = Vec::new();
        for spec in &statement.users {
            let (user, host) = self.named(&spec.account);
            let self_service = own == format!("{user}@{host}") && statement.lock.is_none();
            if !self_service {
                self.facts.require("CREATE USER")?;
            }
            let mut account = match self.facts.instance.accounts().exact(&user, &host) {
                Some(account) => account,
                None if statement.if_exists => continue,
                None => return Err(failed("ALTER USER", &[shown(&user, &host)])),
            };
            self.set_secret(&mut account, spec)?;
            account.locked = statement.lock.unwrap_or(account.locked);
            changes.push(account);
        }
        self.replace_accounts(changes)
    }

    fn replace_accounts(&mut self, changes: Vec<Account>) -> SqlResult<()> {
        self.facts.instance.change_accounts(|list| {
            for changed in changes {
                let same = |a: &&mut Account| a.user == changed.user && a.host == changed.host;
                if let Some(slot) = list.iter_mut().find(same) {
                    *slot = changed;
                }
            }
            Ok(())
        })
    }

    /// SET PASSWORD.
    pub(crate) fn set_password(&mut self, set: &SetPassword) -> SqlResult<()> {
        let (user, host) = self.named(&set.account);
        if set.replace.is_some() || set.retain_current {
            return Err(SqlError::not_supported("dual passwords"));
        }
        let Some(password) = &set.password else {
            return Err(SqlError::not_supported("SET PASSWORD TO RANDOM"));
        };
        if self.facts.account.name() != format!("{user}@{host}") {
            self.facts.require("CREATE USER")?;
        }
        let mut account = self
            .facts
            .instance
            .accounts()
            .exact(&user, &host)
            .ok_or_else(|| {
                SqlError::new(
                    1133,
                    "42000",
                    "Can't find any matching row in the user table",
                )
            })?;
        account.auth = self.facts.instance.hash(account.plugin, password);
        self.replace_accounts(vec![account])
    }

    /// DROP USER.
    pub(crate) fn drop_user(&mut self, if_exists: bool, users: &[ast::Account]) -> SqlResult<()> {
        self.facts.require("CREATE USER")?;
        let names: Vec<_> = users.iter().map(|a| self.named(a)).collect();
        let mut missing = Vec::new();
        self.facts.instance.change_accounts(|list| {
            for (user, host) in &names {
                let before = list.len();
                list.retain(|a| a.user != *user || a.host != *host);
                if list.len() == before {
                    missing.push(shown(user, host));
                }
            }
            if missing.is_empty() || if_exists {
                Ok(())
            } else {
                Err(failed("DROP USER", &missing))
            }
        })?;
        for name in missing {
            let text = format!("Authorization ID {name} does not exist.");
            self.warn(esker_types::Level::Note, 3162, text);
        }
        Ok(())
    }

    /// RENAME USER.
    pub(crate) fn rename_user(&mut self, pairs: &[(ast::Account, ast::Account)]) -> SqlResult<()> {
        self.facts.require("CREATE USER")?;
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(a, b)| (self.named(a), self.named(b)))
            .collect();
        self.facts.instance.change_accounts(|list| {
            for (from, to) in pairs {
                check_name(&to.0, &to.1)?;
                let fail = || failed("RENAME USER", &[shown(&from.0, &from.1)]);
                if list.iter().any(|a| a.user == to.0 && a.host == to.1) {
                    return Err(fail());
                }
                let account = list
                    .iter_mut()
                    .find(|a| a.user == from.0 && a.host == from.1)
                    .ok_or_else(fail)?;
                (account.user, account.host) = to;
            }
            Ok(())
        })
    }

    /// GRANT (`add`) and REVOKE.
    pub(crate) fn grant(&mut self, grant: &Grant, add: bool) -> SqlResult<()> {
        match grant {
            Grant::Privileges {
                privileges,
                target,
                users,
                grant_option,
            } => {
                let scope = self.grant_scope(target)?;
                let (set, with_option) = privilege_set(privileges, &scope)?;
                self.check_may_grant(&scope, set)?;
                let names: Vec<_> = users.iter().map(|u| self.named(&u.account)).collect();
                let entry = GrantEntry {
                    scope,
                    privileges: set,
                    grant_option: *grant_option || with_option,
                };
                self.change_grants(&names, |account| change_entry(account, &entry, add))
            }
            Grant::All { users } => {
                self.facts.require("CREATE USER")?;
                let names: Vec<_> = users.iter().map(|a| self.named(a)).collect();
                self.change_grants(&names, |account| account.grants.clear())
            }
            Grant::Roles { .. } => Err(SqlError::not_supported("roles")),
            Grant::Proxy { .. } => Err(SqlError::not_supported("PROXY")),
        }
    }

    fn grant_scope(&self, target: &GrantTarget) -> SqlResult<GrantScope> {
        Ok(match target {
            GrantTarget::Global => GrantScope::Global,
            GrantTarget::CurrentSchema => {
                GrantScope::Schema(self.facts.current_schema()?.to_owned())
            }
            GrantTarget::Schema(name) => GrantScope::Schema(name.text.to_string()),
            GrantTarget::Table(name) => {
                let schema = match &name.schema {
                    Some(s) => s.text.to_string(),
                    None => self.facts.current_schema()?.to_owned(),
                };
                GrantScope::Table(schema, name.name.text.to_string())
            }
            GrantTarget::Routine(..) => {
                return Err(SqlError::not_supported("privileges on routines"));
            }
        })
    }

    /// Nobody gives what he may not give.
    fn check_may_grant(&self, scope: &GrantScope, set: Privileges) -> SqlResult<()> {
        let covers = |g: &GrantEntry| {
            g.grant_option
                && g.privileges.contains(set)
                && match (&g.scope, scope) {
                    (GrantScope::Global, _) => true,
                    (GrantScope::Schema(s), GrantScope::Schema(w) | GrantScope::Table(w, _)) => {
                        s == w
                    }
                    (mine, wanted) => mine == wanted,
                }
        };
        if self.facts.account.grants.iter().any(covers) {
            return Ok(());
        }
        let text = format!(
            "Access denied for user {} (using password: YES)",
            shown(&self.facts.account.user, &self.facts.account.host)
        );
        Err(SqlError::new(1045, "28000", text))
    }

    fn change_grants(
        &mut self,
        names: &[(String, String)],
        mut change: impl FnMut(&mut Account),
    ) -> SqlResult<()> {
        self.facts.instance.change_accounts(|list| {
            for (user, host) in names {
                let account = list
                    .iter_mut()
                    .find(|a| a.user == *user && a.host == *host)
                    .ok_or_else(|| {
                        let text = "You are not allowed to create a user with GRANT";
                        SqlError::new(1410, "42000", text)
                    })?;
                change(account);
            }
            Ok(())
        })
    }
}

fn change_entry(account: &mut Account, entry: &GrantEntry, add: bool) {
    match account.grants.iter_mut().find(|g| g.scope == entry.scope) {
        Some(have) if add => {
            have.privileges.0 |= entry.privileges.0;
            have.grant_option |= entry.grant_option;
        }
        Some(have) => {
            have.privileges.0 &= !entry.privileges.0;
            have.grant_option &= !entry.grant_option;
        }
        None if add => account.grants.push(entry.clone()),
        None => (),
    }
    account
        .grants
        .retain(|g| g.privileges.0 != 0 || g.grant_option);
}

/// The set of the named privileges; the flag: GRANT OPTION is among them.
fn privilege_set(list: &[Privilege], scope: &GrantScope) -> SqlResult<(Privileges, bool)> {
    let (mut set, mut option) = (0, false);
    let all = match scope {
        GrantScope::Global => Privileges::ALL,
        GrantScope::Schema(_) | GrantScope::Table(..) => Privileges::STATIC,
    };
    for p in list {
        if !p.columns.is_empty() {
            return Err(SqlError::not_supported("column privileges"));
        }
        match &*p.name {
            "ALL" | "ALL PRIVILEGES" => set |= all.0,
            "USAGE" => (),
            "GRANT OPTION" => option = true,
            // Other dynamic privileges of MySQL are parts of SUPER here.
            name => match Privileges::named(name) {
                Some(one) if !all.contains(one) => {
                    let text = format!("Illegal privilege level specified for {name}");
                    return Err(SqlError::new(3619, "HY000", text));
                }
                Some(one) => set |= one.0,
                None if name.contains('_') => set |= Privileges::named("SUPER").map_or(0, |p| p.0),
                None => {
                    return Err(SqlError::new(
                        1149,
                        "42000",
                        format!("You have an error in your SQL syntax: unknown privilege {name}"),
                    ));
                }
            },
        }
    }
    Ok((Privileges(set), option))
}

fn check_name(user: &str, host: &str) -> SqlResult<()> {
    if user.chars().count() > MAX_USER {
        let text = format!(
            "String '{user}' is too long for user name (should be no longer than {MAX_USER})"
        );
        return Err(SqlError::new(1470, "HY000", text));
    }
    if host.chars().count() > MAX_HOST {
        let text = format!(
            "String '{host}' is too long for host name (should be no longer than {MAX_HOST})"
        );
        return Err(SqlError::new(1470, "HY000", text));
    }
    Ok(())
}

fn refuse_unsupported(s: &UserStatement) -> SqlResult<()> {
    let what = if s.default_roles.is_some() {
        "DEFAULT ROLE"
    } else if !matches!(s.require, None | Some(Require::None)) {
        "REQUIRE"
    } else if !s.limits.is_empty() {
        "resource limits of accounts"
    } else if s.attribute.is_some() {
        "ATTRIBUTE"
    } else if s.or_replace {
        "CREATE OR REPLACE USER"
    } else {
        return Ok(());
    };
    Err(SqlError::not_supported(what))
}

/// A stored secret as IDENTIFIED … AS gives it.
fn stored_secret(plugin: Plugin, text: &[u8]) -> SqlResult<Vec<u8>> {
    let bad = || {
        SqlError::new(
            1827,
            "HY000",
            "The password hash doesn't have the expected format.",
        )
    };
    match plugin {
        Plugin::CachingSha2 if text.is_empty() => Ok(Vec::new()),
        Plugin::CachingSha2 => (text.starts_with(b"$A$005$") && text.len() == 70)
            .then(|| text.to_vec())
            .ok_or_else(bad),
        Plugin::Native if text.is_empty() => Ok(Vec::new()),
        Plugin::Native => {
            let hex = text
                .strip_prefix(b"*")
                .filter(|h| h.len() == 40)
                .ok_or_else(bad)?;
            let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8).ok_or_else(bad);
            hex.chunks(2)
                .map(|p| Ok(digit(p[0])? << 4 | digit(p[1])?))
                .collect()
        }
    }
}
