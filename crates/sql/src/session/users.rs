//! CREATE, ALTER, DROP and RENAME USER, SET PASSWORD.
//!
//! Neighbours: `account_statements` dispatches; `password` changes a password by its rules, `grants` does GRANT and
//! REVOKE; `accounts` keeps the list and its file. **Invariants**: a statement changes all of its accounts or none,
//! under the one lock of account changes; the acting account is checked before anything is looked at; durable before
//! in force.

use esker_sql_catalog::accounts::attribute;
use esker_sql_catalog::accounts::policy::{LockTime, Policy, ResourceLimits, Transport};
use esker_sql_catalog::accounts::{Account, GrantedRole, Privileges, Role, RoleName, roles};
use esker_sql_syntax::ast::{
    self, PasswordOption, Require, RoleList, SetPassword, UserAttribute, UserSpec, UserStatement,
};
use esker_types::{Level, SqlError, SqlResult, Value, errors};

use super::password::PasswordChange;
use super::{Session, SessionContext};
use crate::binlog::AccountEvent;
use crate::show::{Table, t};

/// 1396: with what is wrong with these accounts.
pub(crate) fn failed(operation: &str, names: &[String]) -> SqlError {
    let why = match operation {
        "CREATE USER" | "CREATE ROLE" => " (User account already exists)",
        "RENAME USER" => "",
        _ => " (User account does not exist)",
    };
    let names: Vec<_> = names.iter().map(|name| format!("{name}{why}")).collect();
    errors::operation_failed(operation, names.join(","))
}

/// `'user'@'host'`.
pub(crate) fn shown(user: &str, host: &str) -> String {
    format!("'{user}'@'{host}'")
}

/// A password that the server has made.
pub(super) struct Generated {
    user: String,
    host: String,
    password: Vec<u8>,
}

/// What the client is shown of generated passwords; None: there are none.
fn generated_table(made: Vec<Generated>) -> Option<Table> {
    let rows: Vec<_> = made
        .into_iter()
        .map(|g| vec![t(g.user), t(g.host), Value::Str(g.password), Value::UInt(1)])
        .collect();
    let names = ["user", "host", "generated password", "auth_factor"];
    (!rows.is_empty()).then(|| Table::mixed(&names, &["auth_factor"], rows))
}

fn position(list: &[Account], name: &(String, String)) -> Option<usize> {
    list.iter()
        .position(|a| a.user == name.0 && a.host == name.1)
}

impl Session {
    /// CREATE USER.
    pub(crate) fn create_user(&mut self, statement: &UserStatement) -> SqlResult<Option<Table>> {
        self.context.require("CREATE USER")?;
        refuse_unsupported(statement)?;
        let names: Vec<_> = statement
            .users
            .iter()
            .map(|spec| self.context.named(&spec.account))
            .collect();
        self.check_definers("CREATE USER", &names)?;
        let now = self.statement_now().div_euclid(1_000_000);
        let mut existing = Vec::new();
        let mut made = Vec::new();
        self.change_accounts(AccountEvent::Create(statement), |list| {
            let roles = self.context.new_default_roles(statement, list)?;
            for spec in &statement.users {
                let name = self.context.named(&spec.account);
                let change = PasswordChange::new(&self.context, "CREATE USER", now);
                if let Some(at) = position(list, &name) {
                    if !statement.if_exists {
                        // Like MySQL: what forbids the password is said first.
                        let mut copy = list[at].clone();
                        apply_options(&mut copy, statement)?;
                        change.check_history(&copy, spec)?;
                    }
                    existing.push(shown(&name.0, &name.1));
                    continue;
                }
                let mut account = Account::named(&name.0, &name.1);
                account.policy.changed = Some(now);
                apply_options(&mut account, statement)?;
                let password = change.apply(&mut account, spec)?;
                account.policy.expired |= expires_now(statement);
                if account.policy.expired && account.user.is_empty() {
                    return Err(errors::operation_failed("CREATE USER", "anonymous user"));
                }
                made.extend(password.map(|p| generated(&account, p)));
                // As MySQL does it: default roles are granted, too.
                let granted = roles.iter().cloned();
                account
                    .roles
                    .extend(granted.map(|role| GrantedRole { role, admin: false }));
                account.default_roles.clone_from(&roles);
                list.push(account);
            }
            if existing.is_empty() || statement.if_exists {
                Ok(())
            } else {
                Err(failed("CREATE USER", &existing))
            }
        })?;
        for name in existing {
            let text = format!("Authorization ID {name} already exists.");
            self.warn(Level::Note, 3163, text);
        }
        Ok(generated_table(made))
    }

    /// ALTER USER.
    pub(crate) fn alter_user(&mut self, statement: &UserStatement) -> SqlResult<Option<Table>> {
        if let Some(roles) = &statement.default_roles {
            let named = statement
                .users
                .iter()
                .map(|spec| self.context.named(&spec.account));
            let names: Vec<_> = named.collect();
            return self.set_default_roles(roles, &names).map(|()| None);
        }
        for spec in &statement.users {
            self.context.check_may_alter(statement, spec)?;
        }
        let now = self.statement_now().div_euclid(1_000_000);
        let mut missing = Vec::new();
        let mut made = Vec::new();
        let mut changed = Vec::new();
        self.change_accounts(AccountEvent::Alter(statement), |list| {
            for spec in &statement.users {
                let name = self.context.named(&spec.account);
                let Some(at) = position(list, &name) else {
                    missing.push(shown(&name.0, &name.1));
                    continue;
                };
                let account = &mut list[at];
                apply_options(account, statement)?;
                let change = PasswordChange::new(&self.context, "ALTER USER", now);
                let password = change.apply(account, spec)?;
                if expires_now(statement) && account.user.is_empty() {
                    let text = "The password for anonymous user cannot be expired.";
                    return Err(SqlError::new(3016, "HY000", text));
                }
                account.policy.expired |= expires_now(statement);
                made.extend(password.map(|p| generated(account, p)));
                changed.push((account.clone(), spec.auth.is_some()));
            }
            if missing.is_empty() || statement.if_exists {
                Ok(())
            } else {
                Err(failed("ALTER USER", &missing))
            }
        })?;
        let usages = &self.context.instance.accounts().usages;
        for (account, with_password) in &changed {
            if unlocks(statement) {
                usages.unlock(Some(account));
            }
            if *with_password && self.context.is_own(account) {
                self.context.must_change_password = account.policy.expired;
            }
        }
        for name in missing {
            let text = format!("Authorization ID {name} does not exist.");
            self.warn(Level::Note, 3162, text);
        }
        Ok(generated_table(made))
    }

    /// SET PASSWORD.
    pub(crate) fn set_password(&mut self, set: &SetPassword) -> SqlResult<Option<Table>> {
        let name = self.context.named(&set.account);
        if self.context.account.user != name.0 || self.context.account.host != name.1 {
            self.context.require_to_change_others()?;
        } else if set.retain_current {
            self.context.require_for_second_password()?;
        }
        let now = self.statement_now().div_euclid(1_000_000);
        let spec = set.as_spec();
        let mut changed = None;
        self.change_accounts(AccountEvent::Password(&spec), |list| {
            let at = position(list, &name).ok_or_else(|| {
                let text = "Can't find any matching row in the user table";
                SqlError::new(1133, "42000", text)
            })?;
            let change = PasswordChange::new(&self.context, "SET PASSWORD", now);
            let made = change.apply(&mut list[at], &spec)?;
            changed = Some((list[at].clone(), made));
            Ok(())
        })?;
        let Some((account, made)) = changed else {
            return Ok(None);
        };
        if self.context.is_own(&account) {
            self.context.must_change_password = account.policy.expired;
        }
        let made = made.map(|p| generated(&account, p));
        Ok(generated_table(made.into_iter().collect()))
    }

    /// DROP USER.
    pub(crate) fn drop_user(&mut self, if_exists: bool, users: &[ast::Account]) -> SqlResult<()> {
        self.context.require("CREATE USER")?;
        let names: Vec<_> = users.iter().map(|a| self.context.named(a)).collect();
        self.context.check_not_mandatory(&names)?;
        self.check_definers("DROP USER", &names)?;
        let mut missing = Vec::new();
        self.change_accounts(AccountEvent::AsWritten, |list| {
            for name in names {
                match position(list, &name) {
                    Some(at) => {
                        list.remove(at);
                        roles::forget(list, &name);
                    }
                    None => missing.push(shown(&name.0, &name.1)),
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
            self.warn(Level::Note, 3162, text);
        }
        Ok(())
    }

    /// RENAME USER.
    pub(crate) fn rename_user(&mut self, pairs: &[(ast::Account, ast::Account)]) -> SqlResult<()> {
        self.context.require("CREATE USER")?;
        for (from, to) in pairs {
            self.check_definers(
                "RENAME USER",
                &[self.context.named(from), self.context.named(to)],
            )?;
        }
        self.change_accounts(AccountEvent::AsWritten, |list| {
            for (from, to) in pairs {
                let (from, to) = (self.context.named(from), self.context.named(to));
                let fail = || failed("RENAME USER", &[shown(&from.0, &from.1)]);
                if position(list, &to).is_some() {
                    return Err(fail());
                }
                let at = position(list, &from).ok_or_else(fail)?;
                let is_granted = |a: &Account| a.roles.iter().any(|granted| granted.role == from);
                if list.iter().any(is_granted) {
                    let text = "Renaming of a role identifier is forbidden";
                    return Err(SqlError::new(3532, "HY000", text));
                }
                (list[at].user, list[at].host) = to.clone();
                roles::rename(list, &from, &to);
            }
            Ok(())
        })
    }
}

impl SessionContext {
    /// The roles of CREATE USER … DEFAULT ROLE; `list` are the accounts that are being changed.
    ///
    /// # Errors
    /// 3162: there is no such role; 1227: it may not be granted.
    fn new_default_roles(
        &self,
        statement: &UserStatement,
        list: &[Account],
    ) -> SqlResult<Vec<RoleName>> {
        let Some(RoleList::Named(roles)) = &statement.default_roles else {
            return Ok(Vec::new());
        };
        let mut named: Vec<RoleName> = Vec::with_capacity(roles.len());
        for role in roles.iter().map(|role| self.named(role)) {
            if !named.contains(&role) {
                named.push(role);
            }
        }
        let roles = named;
        if let Some(missing) = roles.iter().find(|role| position(list, role).is_none()) {
            return Err(errors::no_such_authorization(Role(missing)));
        }
        self.check_may_give(&roles)?;
        Ok(roles)
    }

    /// May this session alter the account so?
    fn check_may_alter(&self, statement: &UserStatement, spec: &UserSpec) -> SqlResult<()> {
        let (user, host) = self.named(&spec.account);
        let own = self.account.user == user && self.account.host == host;
        if !own || statement.has_options() {
            return self.require("CREATE USER");
        }
        if spec.retain_current || spec.discard_old {
            return self.require_for_second_password();
        }
        Ok(())
    }

    /// Wall clock, seconds since 1970 UTC.
    pub(crate) fn now_seconds(&self) -> i64 {
        self.instance.now_seconds()
    }
}

impl super::SessionContext {
    /// Is it the account that the session is logged in to?
    pub(super) fn is_own(&self, account: &Account) -> bool {
        account.user == self.account.user && account.host == self.account.host
    }

    /// The right to keep a second password of the own account.
    fn require_for_second_password(&self) -> SqlResult<()> {
        let global = self.access.global();
        let may = |name| Privileges::named(name).is_some_and(|p| global.contains(p));
        if may("CREATE USER") || may("APPLICATION_PASSWORD_ADMIN") {
            return Ok(());
        }
        Err(errors::privilege_needed(
            "CREATE USER or APPLICATION_PASSWORD_ADMIN",
        ))
    }

    /// The right to change and to see accounts of others, which MySQL ties to its system schema.
    pub(crate) fn require_to_change_others(&self) -> SqlResult<()> {
        let may = |held: Privileges, name| held.contains(Privileges::of(&[name]));
        if may(self.access.global(), "CREATE USER") || may(self.access.on_schema("mysql"), "UPDATE")
        {
            return Ok(());
        }
        Err(errors::database_denied(
            format!("'{}'@'{}'", self.account.user, self.account.host),
            "mysql",
        ))
    }
}

fn generated(account: &Account, password: Vec<u8>) -> Generated {
    Generated {
        user: account.user.clone(),
        host: account.host.clone(),
        password,
    }
}

fn expires_now(statement: &UserStatement) -> bool {
    statement.password_options.contains(&PasswordOption::Expire)
}

/// Does the statement forgive failed logins?
fn unlocks(statement: &UserStatement) -> bool {
    let about_lock = |o: &PasswordOption| {
        matches!(
            o,
            PasswordOption::FailedAttempts(_) | PasswordOption::LockDays(_)
        )
    };
    statement.lock == Some(false) || statement.password_options.iter().any(about_lock)
}

/// Everything of the statement but the passwords.
fn apply_options(account: &mut Account, statement: &UserStatement) -> SqlResult<()> {
    account.locked = statement.lock.unwrap_or(account.locked);
    let policy = &mut account.policy;
    if let Some(require) = &statement.require {
        policy.transport = transport(require)?;
    }
    for (name, number) in &statement.limits {
        set_limit(&mut policy.limits, name, *number);
    }
    for option in &statement.password_options {
        set_password_option(policy, option)?;
    }
    let have = policy.attribute.as_deref();
    match &statement.attribute {
        Some(UserAttribute::Comment(text)) => policy.attribute = attribute::comment(have, text)?,
        Some(UserAttribute::Json(text)) => policy.attribute = attribute::merge(have, text)?,
        None => (),
    }
    Ok(())
}

fn transport(require: &Require) -> SqlResult<Transport> {
    let fields = match require {
        Require::None => return Ok(Transport::Any),
        Require::Ssl => return Ok(Transport::Tls),
        Require::X509 => return Ok(Transport::Certificate),
        Require::Fields(fields) => fields,
    };
    let (mut subject, mut issuer, mut cipher) = (None, None, None);
    for (name, value) in fields {
        let slot = match &**name {
            "SUBJECT" => &mut subject,
            "ISSUER" => &mut issuer,
            _ => &mut cipher,
        };
        if slot
            .replace(String::from_utf8_lossy(value).into_owned())
            .is_some()
        {
            let text = format!("Option '{name}' used twice in statement");
            return Err(SqlError::new(1225, "HY000", text));
        }
    }
    Ok(Transport::Specified {
        subject,
        issuer,
        cipher,
    })
}

fn set_limit(limits: &mut ResourceLimits, name: &str, number: u64) {
    let slot = match name {
        "MAX_QUERIES_PER_HOUR" => &mut limits.queries,
        "MAX_UPDATES_PER_HOUR" => &mut limits.updates,
        "MAX_CONNECTIONS_PER_HOUR" => &mut limits.connections,
        _ => &mut limits.user_connections,
    };
    *slot = u32::try_from(number).unwrap_or(u32::MAX);
}

/// A number of the statement that must be in a range.
fn ranged(what: &str, number: u64, range: std::ops::RangeInclusive<u64>) -> SqlResult<u16> {
    let fits = range.contains(&number).then(|| u16::try_from(number).ok());
    fits.flatten()
        .ok_or_else(|| errors::incorrect_value(what, number))
}

fn set_password_option(policy: &mut Policy, option: &PasswordOption) -> SqlResult<()> {
    /// Largest FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME.
    const MOST: u64 = 32_767;
    let clamped = |n: &u64| u16::try_from(*n).unwrap_or(u16::MAX);
    match option {
        // Takes effect after the password was set, which would end it.
        PasswordOption::Expire => (),
        PasswordOption::ExpireDefault => policy.lifetime_days = None,
        PasswordOption::ExpireNever => policy.lifetime_days = Some(0),
        PasswordOption::ExpireDays(n) => {
            policy.lifetime_days = Some(ranged("DAY", *n, 1..=65_535)?)
        }
        PasswordOption::History(n) => policy.history = n.as_ref().map(clamped),
        PasswordOption::ReuseDays(n) => policy.reuse_days = n.as_ref().map(clamped),
        PasswordOption::RequireCurrent(on) => policy.require_current = *on,
        PasswordOption::FailedAttempts(n) => {
            policy.login_lock.attempts = ranged("FAILED_LOGIN_ATTEMPTS", *n, 0..=MOST)?;
        }
        PasswordOption::LockDays(Some(n)) => {
            policy.login_lock.time = LockTime::Days(ranged("PASSWORD_LOCK_TIME", *n, 0..=MOST)?);
        }
        PasswordOption::LockDays(None) => policy.login_lock.time = LockTime::Unbounded,
    }
    Ok(())
}

fn refuse_unsupported(s: &UserStatement) -> SqlResult<()> {
    match s.or_replace {
        true => Err(SqlError::not_supported("CREATE OR REPLACE USER")),
        false => Ok(()),
    }
}
