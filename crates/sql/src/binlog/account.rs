//! Statements about accounts for the log.
//!
//! Neighbours: `session` changes the accounts through [`Session::change_accounts`]; `Instance` makes the change and the
//! event one record. **Invariants**
//! - No password gets into the log, only what the account stores of it, nor the one that it replaces.
//! - An account is named, also where the statement says CURRENT_USER: who repeats it is another one.
//! - As in MySQL, the accounts of CREATE USER, ALTER USER and SET PASSWORD are said in the log's own words; what
//!   follows them, and all other statements, are the client's.

use esker_sql_catalog::accounts::{Account, Plugin};
use esker_sql_syntax::ast::{self, AuthSecret, UserSpec, UserStatement};
use esker_types::{SqlMode, SqlResult};

use crate::session::{Session, SessionContext};
use crate::show::shown_secret;

/// How a statement about accounts is logged.
pub(crate) enum AccountEvent<'a> {
    /// In the client's words.
    AsWritten,
    /// CREATE USER.
    Create(&'a UserStatement),
    /// ALTER USER.
    Alter(&'a UserStatement),
    /// SET PASSWORD, which is logged as ALTER USER.
    Password(&'a UserSpec),
}

impl Session {
    /// Changes the accounts, and logs the statement in the same record. The reply waits for `pending_commit`.
    ///
    /// # Errors
    /// What `change` returns, of files and of the engine; nothing is changed then.
    pub(crate) fn change_accounts(
        &self,
        event: AccountEvent<'_>,
        change: impl FnOnce(&mut Vec<Account>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let seq = self.context.instance.change_accounts(change, |list| {
            let text = self.account_text(&event, list);
            self.logged(&text, &["mysql".to_owned()], true)
        })?;
        self.note_commit(seq);
        Ok(())
    }

    /// The statement in the words of the log; `list` is what it has made of the accounts.
    fn account_text(&self, event: &AccountEvent<'_>, list: &[Account]) -> Vec<u8> {
        let places = &self.statement_accounts;
        let (verb, users) = match event {
            AccountEvent::AsWritten => {
                let mut text = self.statement_text.clone();
                let (user, host) = self.context.named(&ast::Account::CurrentUser);
                let mut own = Vec::new();
                self.write_name(&user, &host, &mut own);
                for place in places.own.iter().rev() {
                    text.splice(place.clone(), own.iter().copied());
                }
                return text;
            }
            AccountEvent::Create(s) if s.if_exists => ("CREATE USER IF NOT EXISTS ", &*s.users),
            AccountEvent::Create(s) => ("CREATE USER ", &*s.users),
            AccountEvent::Alter(s) if s.if_exists => ("ALTER USER IF EXISTS ", &*s.users),
            AccountEvent::Alter(s) => ("ALTER USER ", &*s.users),
            AccountEvent::Password(spec) => ("ALTER USER ", std::slice::from_ref(*spec)),
        };
        let creates = matches!(event, AccountEvent::Create(_));
        let mut text = verb.as_bytes().to_vec();
        for (at, spec) in users.iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            self.write_user(spec, creates, list, &mut text);
        }
        text.extend_from_slice(self.statement_text.get(places.list_end..).unwrap_or(b""));
        text
    }

    /// A name and a host as literals: there may be quotes in either.
    fn write_name(&self, user: &str, host: &str, out: &mut Vec<u8>) {
        write_quoted(user.as_bytes(), self.vars.sql_mode, out);
        out.push(b'@');
        write_quoted(host.as_bytes(), self.vars.sql_mode, out);
    }

    /// An account, and how it proves itself.
    fn write_user(&self, spec: &UserSpec, creates: bool, list: &[Account], out: &mut Vec<u8>) {
        let (user, host) = self.context.named(&spec.account);
        self.write_name(&user, &host, out);
        let found = list.iter().find(|a| (&a.user, &a.host) == (&user, &host));
        if spec.auth.is_some() || creates {
            let (plugin, secret) = match found {
                Some(account) => (account.plugin, shown_secret(account)),
                None => self.context.secret_of_missing(spec),
            };
            out.extend(format!(" IDENTIFIED WITH '{}'", plugin.name()).bytes());
            let secret_is_said = |auth: &AuthSecret| !matches!(auth, AuthSecret::None);
            if spec
                .auth
                .as_ref()
                .is_some_and(|auth| secret_is_said(&auth.secret))
            {
                out.extend_from_slice(b" AS ");
                write_quoted(&secret, self.vars.sql_mode, out);
            }
        }
        if spec.retain_current {
            out.extend_from_slice(b" RETAIN CURRENT PASSWORD");
        }
        if spec.discard_old {
            out.extend_from_slice(b" DISCARD OLD PASSWORD");
        }
    }
}

impl SessionContext {
    /// ALTER USER IF EXISTS of an account that is not here, but may be where the statement is repeated.
    fn secret_of_missing(&self, spec: &UserSpec) -> (Plugin, Vec<u8>) {
        let mut account = Account::named("", "");
        let Some(auth) = &spec.auth else {
            return (account.plugin, Vec::new());
        };
        let named = auth.plugin.as_deref().and_then(Plugin::by_name);
        account.plugin = named.unwrap_or(account.plugin);
        let hash = |clear: &[u8]| match clear.is_empty() {
            true => Vec::new(),
            false => self.instance.hash(account.plugin, clear),
        };
        match &auth.secret {
            AuthSecret::Stored(secret) => return (account.plugin, secret.clone()),
            AuthSecret::Password(clear) => account.auth = hash(clear),
            AuthSecret::Random | AuthSecret::None => {}
        }
        (account.plugin, shown_secret(&account))
    }
}

/// Appends a text literal that is read in this mode, with MySQL's escapes.
fn write_quoted(text: &[u8], mode: SqlMode, out: &mut Vec<u8>) {
    let has_escapes = !mode.has(SqlMode::NO_BACKSLASH_ESCAPES);
    out.push(b'\'');
    for &byte in text {
        let escaped = match byte {
            0 => b'0',
            b'\n' => b'n',
            b'\r' => b'r',
            0x1a => b'Z',
            b'\\' | b'\'' | b'"' => byte,
            _ => {
                out.push(byte);
                continue;
            }
        };
        match (has_escapes, byte) {
            (true, _) => out.extend_from_slice(&[b'\\', escaped]),
            (false, b'\'') => out.extend_from_slice(b"\'\'"),
            (false, _) => out.push(byte),
        }
    }
    out.push(b'\'');
}
