//! Who may log in, and what for.
//!
//! Parts: this file has accounts and their list · `privileges` (sets of them) · `access` (all that a session may do) ·
//! `store` (the file).
//! Neighbours: the server's login asks [`Accounts::find`]; account statements change them through
//! `session`, which checks the right to do so.
//! **Invariants**: the list is read without locks; an account's stored secret never appears in an
//! error or a log; the most specific host pattern wins, as MySQL sorts them.

mod access;
mod fields;
mod privileges;
mod record;
pub mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};

pub use access::Access;
pub use privileges::{PRIVILEGES, Privileges};

/// Authentication plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// mysql_native_password.
    Native,
    /// caching_sha2_password.
    CachingSha2,
}

impl Plugin {
    /// MySQL's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
        }
    }

    /// By MySQL's name.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Native, Self::CachingSha2]
            .into_iter()
            .find(|p| p.name() == name)
    }
}

/// What a grant is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantScope {
    /// `*.*`
    Global,
    /// `schema.*`
    Schema(String),
    /// `schema.table`
    Table(String, String),
}

/// Privileges on one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantEntry {
    /// On what.
    pub scope: GrantScope,
    /// Which.
    pub privileges: Privileges,
    /// WITH GRANT OPTION.
    pub grant_option: bool,
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// User name; empty is anonymous.
    pub user: String,
    /// Host pattern with `%` and `_`.
    pub host: String,
    /// How it proves itself.
    pub plugin: Plugin,
    /// Stored secret; empty = no password.
    pub auth: Vec<u8>,
    /// ACCOUNT LOCK.
    pub locked: bool,
    /// Grants.
    pub grants: Vec<GrantEntry>,
}

impl Account {
    /// An account without password and privileges.
    pub fn named(user: &str, host: &str) -> Self {
        Self {
            user: user.into(),
            host: host.into(),
            plugin: Plugin::CachingSha2,
            auth: Vec::new(),
            locked: false,
            grants: Vec::new(),
        }
    }

    /// `root@localhost` with every right, proving itself with this secret.
    pub fn root(auth: Vec<u8>) -> Self {
        Self {
            auth,
            grants: vec![GrantEntry {
                scope: GrantScope::Global,
                privileges: Privileges::ALL,
                grant_option: true,
            }],
            ..Self::named("root", "localhost")
        }
    }

    /// `user@host` as CURRENT_USER() shows it.
    pub fn name(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }
}

/// All accounts.
#[derive(Debug, Default)]
pub struct Accounts {
    list: ArcSwap<Vec<Account>>,
    /// Grows with every change, after the list has changed.
    version: AtomicU64,
    writer: Mutex<()>,
}

impl Accounts {
    /// Excludes other writers while a change is made durable.
    pub(crate) fn writer(&self) -> MutexGuard<'_, ()> {
        self.writer.lock()
    }

    /// Replaces the list (after its rows are durable).
    pub fn replace(&self, mut list: Vec<Account>) {
        // MySQL's order: literal hosts before patterns, longer prefixes first, named users first.
        list.sort_by(|a, b| {
            let rank = |x: &Account| {
                let wild = x.host.find(['%', '_']).unwrap_or(usize::MAX);
                (std::cmp::Reverse(wild), x.user.is_empty())
            };
            rank(a).cmp(&rank(b)).then_with(|| a.user.cmp(&b.user))
        });
        self.list.store(Arc::new(list));
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes whenever the accounts do. Who reads it before the list has a list at least that new.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Everybody.
    pub fn all(&self) -> Arc<Vec<Account>> {
        self.list.load_full()
    }

    /// The account that `user` coming from `host` logs in as.
    pub fn find(&self, user: &str, host: &str) -> Option<Account> {
        let list = self.list.load();
        list.iter()
            .find(|a| (a.user.is_empty() || a.user == user) && host_matches(&a.host, host))
            .cloned()
    }

    /// The account of exactly this name.
    pub fn exact(&self, user: &str, host: &str) -> Option<Account> {
        self.list
            .load()
            .iter()
            .find(|a| a.user == user && a.host == host)
            .cloned()
    }
}

/// Does a host pattern match? `localhost`, `127.0.0.1` and `::1` are the same place for clients
/// that come over loopback TCP.
fn host_matches(pattern: &str, host: &str) -> bool {
    if host == "localhost" && ["127.0.0.1", "::1", "localhost"].contains(&pattern) {
        return true;
    }
    like(
        pattern.to_ascii_lowercase().as_bytes(),
        host.to_ascii_lowercase().as_bytes(),
    )
}

/// `%` any run, `_` any one byte. Linear with one backtrack point.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut restart: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'%') => {
                restart = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'_' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match restart {
                Some((star, from)) => {
                    restart = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_host_wins() {
        let accounts = Accounts::default();
        accounts.replace(vec![
            Account::named("u", "%"),
            Account::named("u", "10.%"),
            Account::named("u", "10.1.2.3"),
        ]);
        let found = |host| accounts.find("u", host).unwrap().host;
        assert_eq!(found("10.1.2.3"), "10.1.2.3");
        assert_eq!(found("10.9.9.9"), "10.%");
        assert_eq!(found("192.168.0.1"), "%");
        assert_eq!(found("localhost"), "%");
        assert!(accounts.find("v", "10.1.2.3").is_none());
    }

    #[test]
    fn patterns() {
        assert!(like(b"%", b""));
        assert!(like(b"10.%.3", b"10.1.2.3"));
        assert!(!like(b"10.%.3", b"10.1.2.4"));
        assert!(like(b"h_st", b"host"));
        assert!(!like(b"", b"x"));
    }
}
