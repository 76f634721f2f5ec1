//! A new password for an account, by the account's rules.
//!
//! Neighbours: `users` calls it inside a change of the accounts; the rules are `accounts::policy`.
//! **Invariants**: a clear password is neither kept nor put into an error; every rule is checked before the account is
//! changed; what is remembered of old passwords is bounded by [`MAX_OLD_PASSWORDS`].

use esker_sql_catalog::accounts::policy::OldPassword;
use esker_sql_catalog::accounts::{Account, Plugin, Privileges};
use esker_sql_syntax::ast::{AuthSecret, UserSpec};
use esker_types::{SqlError, SqlResult};

use super::SessionContext;
use super::users::{failed, shown};

/// Longest password, bytes: the hash's work grows with it.
const MAX_PASSWORD: usize = 256;
/// Most old passwords that an account keeps.
const MAX_OLD_PASSWORDS: usize = 4_096;
/// Characters of generated passwords: nothing that needs quoting.
const ALPHABET: &[u8] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#%()*+,-./:;<=>?@[]^_{|}~";

/// One change of a password: who makes it, in which statement, when.
pub(super) struct PasswordChange<'a> {
    context: &'a SessionContext,
    operation: &'static str,
    now: i64,
}

impl<'a> PasswordChange<'a> {
    /// `operation`: `CREATE USER`, `ALTER USER`, `SET PASSWORD`; `now` in seconds since 1970 UTC.
    pub(super) fn new(context: &'a SessionContext, operation: &'static str, now: i64) -> Self {
        Self {
            context,
            operation,
            now,
        }
    }

    /// Applies IDENTIFIED with what follows it, and DISCARD OLD PASSWORD. Returns the password if one was generated.
    ///
    /// # Errors
    /// What the account's rules say: 3638, 3878, 3891 to 3895; and 1524, 1827, 1396.
    pub(super) fn apply(
        &self,
        account: &mut Account,
        spec: &UserSpec,
    ) -> SqlResult<Option<Vec<u8>>> {
        if spec.discard_old {
            account.retained.clear();
        }
        let Some(auth) = &spec.auth else {
            return Ok(None);
        };
        let plugin = match &auth.plugin {
            None if account.plugin == Plugin::Socket => self.password_plugin(account)?,
            None => account.plugin,
            Some(name) => Plugin::by_name(name).ok_or_else(|| {
                SqlError::new(1524, "HY000", format!("Plugin '{name}' is not loaded"))
            })?,
        };
        let same_plugin = plugin == account.plugin;
        let generated = match auth.secret {
            AuthSecret::Random => Some(self.generate()),
            _ => None,
        };
        let clear = match &auth.secret {
            AuthSecret::Password(p) => Some(p),
            _ => generated.as_ref(),
        };
        let empty = match &auth.secret {
            AuthSecret::None => true,
            AuthSecret::Stored(s) => s.is_empty(),
            AuthSecret::Password(p) => p.is_empty(),
            AuthSecret::Random => false,
        };
        if spec.retain_current {
            check_retainable(account, same_plugin, empty)?;
        }
        if clear.is_some_and(|p| p.len() > MAX_PASSWORD) {
            return Err(failed(
                self.operation,
                &[shown(&account.user, &account.host)],
            ));
        }
        if self.operation != "CREATE USER" {
            self.check_replaces_own(account, spec)?;
            self.check_unused(account, clear)?;
            self.check_current(account, spec)?;
        }
        let secret = match (&auth.secret, clear) {
            (AuthSecret::Stored(s), _) => stored_secret(plugin, s)?,
            (_, Some(clear)) => self.context.instance.hash(plugin, clear),
            (_, None) => Vec::new(),
        };
        let before = std::mem::replace(&mut account.auth, secret);
        if spec.retain_current {
            account.retained = before;
        } else if !same_plugin || account.auth.is_empty() {
            account.retained.clear();
        }
        account.plugin = plugin;
        account.policy.changed = Some(self.now);
        // A plugin alone takes the password away: the owner has to set a new one.
        account.policy.expired =
            matches!(auth.secret, AuthSecret::None) && self.operation == "ALTER USER";
        account.policy.expired &= plugin != Plugin::Socket;
        self.remember(account);
        Ok(generated)
    }

    /// The plugin of an account without a password that gets one: IDENTIFIED BY changes it, SET PASSWORD cannot.
    fn password_plugin(&self, account: &Account) -> SqlResult<Plugin> {
        if self.operation != "SET PASSWORD" {
            return Ok(Plugin::CachingSha2);
        }
        let whom = shown(&account.user, &account.host);
        let text = format!(
            "SET PASSWORD has no significance for user {whom} as authentication plugin does not support it."
        );
        Err(SqlError::new(1699, "HY000", text))
    }

    /// A password of `generated_random_password_length` characters.
    fn generate(&self) -> Vec<u8> {
        let length = self
            .context
            .instance
            .variable_u64("generated_random_password_length") as usize;
        let mut password = Vec::with_capacity(length);
        // Bytes beyond the last whole multiple would favour the first characters.
        let fair = 256 / ALPHABET.len() * ALPHABET.len();
        while password.len() < length {
            let mut random = [0; 32];
            self.context.instance.fill_random(&mut random);
            let usable = random.iter().map(|b| usize::from(*b)).filter(|b| *b < fair);
            let room = length - password.len();
            password.extend(usable.map(|b| ALPHABET[b % ALPHABET.len()]).take(room));
        }
        password
    }

    /// REPLACE is for one's own password.
    fn check_replaces_own(&self, account: &Account, spec: &UserSpec) -> SqlResult<()> {
        if spec.replace.is_some() && !self.context.is_own(account) {
            let text = "Do not specify the current password while changing it for other users.";
            return Err(SqlError::new(3893, "HY000", text));
        }
        Ok(())
    }

    /// PASSWORD REQUIRE CURRENT, and REPLACE.
    fn check_current(&self, account: &Account, spec: &UserSpec) -> SqlResult<()> {
        let instance = &self.context.instance;
        if let Some(current) = &spec.replace {
            if instance.verify(account.plugin, current, &account.auth) {
                return Ok(());
            }
            let text = "Incorrect current password. Specify the correct password which has to be replaced.";
            return Err(SqlError::new(3891, "HY000", text));
        }
        let required = account
            .policy
            .require_current
            .unwrap_or_else(|| instance.variable_is_on("password_require_current"));
        let administrator = self
            .context
            .access
            .global()
            .contains(Privileges::of(&["CREATE USER"]));
        if required && self.context.is_own(account) && !administrator {
            let text = "Current password needs to be specified in the REPLACE clause in order to change it.";
            return Err(SqlError::new(3892, "HY000", text));
        }
        Ok(())
    }

    /// How many earlier passwords and days count for the account.
    fn history_of(&self, account: &Account) -> (u64, u64) {
        let or_global = |own: Option<u16>, name| {
            own.map_or_else(|| self.context.instance.variable_u64(name), u64::from)
        };
        (
            or_global(account.policy.history, "password_history"),
            or_global(account.policy.reuse_days, "password_reuse_interval"),
        )
    }

    /// May the account have the password that it would be made with?
    ///
    /// # Errors
    /// 3638.
    pub(super) fn check_history(&self, account: &Account, spec: &UserSpec) -> SqlResult<()> {
        match spec.auth.as_ref().map(|auth| &auth.secret) {
            Some(AuthSecret::Password(clear)) => self.check_unused(account, Some(clear)),
            _ => Ok(()),
        }
    }

    /// PASSWORD HISTORY and PASSWORD REUSE INTERVAL.
    fn check_unused(&self, account: &Account, clear: Option<&Vec<u8>>) -> SqlResult<()> {
        let Some(clear) = clear.filter(|p| !p.is_empty()) else {
            return Ok(());
        };
        let (history, days) = self.history_of(account);
        for old in account.policy.passwords_in_force(self.now, history, days) {
            // A hash takes milliseconds, and there may be many.
            self.context.check()?;
            if self
                .context
                .instance
                .verify(account.plugin, clear, &old.secret)
            {
                let text = format!(
                    "Cannot use these credentials for '{}@{}' because they contradict the password history policy",
                    account.user, account.host
                );
                return Err(SqlError::new(3638, "HY000", text));
            }
        }
        Ok(())
    }

    /// Adds the new password to the old ones, and forgets those that do not count any more.
    fn remember(&self, account: &mut Account) {
        let (history, days) = self.history_of(account);
        if !account.auth.is_empty() {
            account.policy.old_passwords.push(OldPassword {
                since: self.now,
                secret: account.auth.clone(),
            });
        }
        let kept = account.policy.passwords_in_force(self.now, history, days);
        let mut kept: Vec<_> = kept.take(MAX_OLD_PASSWORDS).cloned().collect();
        kept.reverse();
        account.policy.old_passwords = kept;
    }
}

/// RETAIN CURRENT PASSWORD.
fn check_retainable(account: &Account, same_plugin: bool, new_is_empty: bool) -> SqlResult<()> {
    let whom = shown(&account.user, &account.host);
    let (code, text) = if !same_plugin {
        let text = format!(
            "Current password can not be retained for user {whom} because authentication plugin is being changed."
        );
        (3894, text)
    } else if account.auth.is_empty() {
        let text =
            format!("Empty password can not be retained as second password for user {whom}.");
        (3878, text)
    } else if new_is_empty {
        let text = format!(
            "Current password can not be retained for user {whom} because new password is empty."
        );
        (3895, text)
    } else {
        return Ok(());
    };
    Err(SqlError::new(code, "HY000", text))
}

/// A stored secret as IDENTIFIED … AS gives it.
fn stored_secret(plugin: Plugin, text: &[u8]) -> SqlResult<Vec<u8>> {
    let bad = || {
        let text = "The password hash doesn't have the expected format.";
        SqlError::new(1827, "HY000", text)
    };
    if text.is_empty() {
        return Ok(Vec::new());
    }
    match plugin {
        Plugin::CachingSha2 => {
            let rounds = text
                .strip_prefix(b"$A$")
                .and_then(|r| r.split_first_chunk::<4>());
            let (rounds, _) = rounds.filter(|_| text.len() == 70).ok_or_else(bad)?;
            let hex = rounds[..3].iter().all(u8::is_ascii_hexdigit);
            (hex && rounds[3] == b'$')
                .then(|| text.to_vec())
                .ok_or_else(bad)
        }
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
        // A name.
        Plugin::Socket => Ok(text.to_vec()),
    }
}
