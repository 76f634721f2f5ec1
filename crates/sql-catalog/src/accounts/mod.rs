//! Accounts, authentication data, privileges and roles.
//!
//! Parts: this file has accounts and their list · `privileges` (sets of them) · `access` (all that a session may do,
//! with `pattern`, names of databases) · `restrictions` (partial revokes) · `roles` with `graphml` (roles as a
//! document) · `policy` (password life, limits) and `usage` (what of them is used) · `hosts` (where they log in from) ·
//! `record` with `fields`, `attribute` and `old_record` (accounts as bytes) · `store` (the file). Neighbours: the
//! server's login asks [`Accounts::find`]; account statements change them through `session`, which checks the right to
//! do so. **Invariants**: the list is read without locks; an account's stored secret never appears in an error or a
//! log; the most special host wins, as MySQL sorts them.

mod access;
pub mod attribute;
mod fields;
pub mod graphml;
mod hosts;
mod old_record;
mod pattern;
pub mod policy;
mod privileges;
mod record;
mod restrictions;
pub mod roles;
pub mod store;
pub mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use esker_types::program::RoutineKind;
use parking_lot::{Mutex, MutexGuard};

pub use access::Access;
pub use hosts::Origin;
use policy::Policy;
pub use privileges::{PRIVILEGES, Privileges};
pub use restrictions::Restrictions;
pub use roles::{Role, holds, parse_names};
use usage::Usages;

/// Authentication plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// mysql_native_password.
    Native,
    /// caching_sha2_password.
    CachingSha2,
    /// auth_socket: the user of the operating system at the other end of a Unix socket. The secret is another name of
    /// his than the account's.
    Socket,
}

impl Plugin {
    /// MySQL's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Socket => "auth_socket",
        }
    }

    /// By MySQL's name.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Native, Self::CachingSha2, Self::Socket]
            .into_iter()
            .find(|p| p.name() == name)
    }
}

/// What a grant is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantScope {
    /// `*.*`
    Global,
    /// `schema.*`; the name is a pattern with `%`, `_` and `\\`
    Schema(String),
    /// `schema.table`
    Table(String, String),
    /// A column of `schema.table`
    Column(String, String, String),
    /// A procedure or function: schema, and name without case
    Routine(RoutineKind, String, String),
}

impl GrantScope {
    /// A routine's.
    pub fn of_routine(kind: RoutineKind, schema: &str, name: &str) -> Self {
        Self::Routine(kind, schema.to_owned(), name.to_lowercase())
    }
}

/// A role that an account has been granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedRole {
    /// Which: user and host.
    pub role: RoleName,
    /// WITH ADMIN OPTION: it may be granted on.
    pub admin: bool,
}

/// User and host of an account that serves as a role.
pub type RoleName = (String, String);

/// Privileges on one thing. Dynamic privileges have entries of their own, with and without GRANT OPTION.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantEntry {
    /// On what.
    pub scope: GrantScope,
    /// Which.
    pub privileges: Privileges,
    /// WITH GRANT OPTION.
    pub grant_option: bool,
}

impl GrantEntry {
    /// Are its privileges dynamic ones?
    pub fn is_dynamic(&self) -> bool {
        !self.privileges.is_empty() && Privileges::DYNAMIC.contains(self.privileges)
    }
}

/// PROXY ON: may act as this account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyGrant {
    /// User; with an empty host, empty is anybody.
    pub user: String,
    /// Host pattern.
    pub host: String,
    /// WITH GRANT OPTION.
    pub grant_option: bool,
}

impl ProxyGrant {
    /// PROXY ON ''@'' WITH GRANT OPTION.
    pub fn anybody() -> Self {
        Self {
            grant_option: true,
            ..Self::default()
        }
    }

    /// Is it PROXY ON ''@''?
    pub fn is_on_anybody(&self) -> bool {
        self.user.is_empty() && self.host.is_empty()
    }

    /// Is it on exactly this account?
    pub fn is_on(&self, name: &RoleName) -> bool {
        (&self.user, &self.host) == (&name.0, &name.1)
    }
}

/// Whom a client acts as.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The account whose privileges it has.
    pub account: Account,
    /// The account it has logged in to, if that is another one: `'user'@'host'`.
    pub proxy_user: Option<String>,
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
    /// Roles it has been granted.
    pub roles: Vec<GrantedRole>,
    /// Roles that are active after a login.
    pub default_roles: Vec<RoleName>,
    /// Secret of the password before, kept with RETAIN CURRENT PASSWORD; empty = none.
    pub retained: Vec<u8>,
    /// PROXY.
    pub proxies: Vec<ProxyGrant>,
    /// Privileges on everything that are taken away on databases.
    pub restrictions: Restrictions,
    /// Everything else it is bound by.
    pub policy: Policy,
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
            roles: Vec::new(),
            default_roles: Vec::new(),
            retained: Vec::new(),
            proxies: Vec::new(),
            restrictions: Restrictions::NONE,
            policy: Policy::default(),
        }
    }

    /// `root@localhost` with every right, proving itself with this secret.
    pub fn root(auth: Vec<u8>) -> Self {
        let entry = |privileges| GrantEntry {
            scope: GrantScope::Global,
            privileges,
            grant_option: true,
        };
        Self {
            auth,
            grants: vec![entry(Privileges::STATIC), entry(Privileges::DYNAMIC)],
            proxies: vec![ProxyGrant::anybody()],
            ..Self::named("root", "localhost")
        }
    }

    /// Adds or takes away privileges on one thing. GRANT OPTION belongs to the place for static privileges, to the
    /// privilege for dynamic ones.
    pub fn change_grant(
        &mut self,
        scope: &GrantScope,
        privileges: Privileges,
        option: bool,
        add: bool,
    ) {
        let fixed = privileges.and(Privileges::STATIC);
        let dynamic = privileges.and(Privileges::DYNAMIC);
        if !dynamic.is_empty() {
            let held = self.entries(scope, |p| p.meets(Privileges::DYNAMIC));
            let with = |option: bool| {
                let of = held.iter().filter(move |g| g.grant_option == option);
                of.fold(Privileges::NONE, |all, g| all.or(g.privileges))
            };
            let (plain, granting) = (with(false), with(true));
            let (plain, granting) = match (add, option) {
                (false, _) => (plain.without(dynamic), granting.without(dynamic)),
                (true, true) => (plain.without(dynamic), granting.or(dynamic)),
                (true, false) => (plain.or(dynamic.without(granting)), granting),
            };
            for (privileges, grant_option) in [(plain, false), (granting, true)] {
                if !privileges.is_empty() {
                    self.push(scope, privileges, grant_option);
                }
            }
        }
        if fixed.is_empty() && !option {
            return;
        }
        let held = self.entries(scope, |p| !p.meets(Privileges::DYNAMIC));
        let mut all = held
            .iter()
            .fold(Privileges::NONE, |all, g| all.or(g.privileges));
        let mut may_grant = held.iter().any(|g| g.grant_option);
        if add {
            all = all.or(fixed);
            // With dynamic privileges alone the option is theirs.
            may_grant |= option && (dynamic.is_empty() || !fixed.is_empty());
        } else {
            all = all.without(fixed);
            may_grant &= !option;
        }
        if !all.is_empty() || may_grant {
            self.push(scope, all, may_grant);
        }
    }

    /// Static privileges on everything, GRANT OPTION among them.
    pub fn on_everything(&self) -> Privileges {
        self.held_at(&GrantScope::Global)
    }

    /// Static privileges granted on exactly this, GRANT OPTION among them.
    pub fn held_at(&self, scope: &GrantScope) -> Privileges {
        let of = self
            .grants
            .iter()
            .filter(|g| g.scope == *scope && !g.is_dynamic());
        of.fold(Privileges::NONE, |all, g| match g.grant_option {
            true => all.or(g.privileges).or(Privileges::GRANT),
            false => all.or(g.privileges),
        })
    }

    /// Takes the entries of a place out whose privileges are such.
    fn entries(&mut self, scope: &GrantScope, such: fn(Privileges) -> bool) -> Vec<GrantEntry> {
        let (taken, left) = std::mem::take(&mut self.grants)
            .into_iter()
            .partition(|g| g.scope == *scope && such(g.privileges));
        self.grants = left;
        taken
    }

    fn push(&mut self, scope: &GrantScope, privileges: Privileges, grant_option: bool) {
        self.grants.push(GrantEntry {
            scope: scope.clone(),
            privileges,
            grant_option,
        });
    }

    /// `user@host` as CURRENT_USER() shows it.
    pub fn name(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }
}

/// Changes of the accounts, one after the other.
#[derive(Debug, Default)]
pub struct Changes {
    /// The number of the last one.
    pub last: u32,
    /// The last one is decided and could not be put into the file: the next start does that.
    pub is_unsettled: bool,
}

/// All accounts.
#[derive(Debug, Default)]
pub struct Accounts {
    list: ArcSwap<Vec<Account>>,
    /// Grows with every change, after the list has changed.
    version: AtomicU64,
    literal_names: AtomicBool,
    changes: Mutex<Changes>,
    /// What they use.
    pub usages: Usages,
}

impl Accounts {
    /// Excludes other writers while a change is made durable.
    pub fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock()
    }

    /// Replaces the list (after it is durable).
    pub fn replace(&self, mut list: Vec<Account>) {
        // MySQL's order; of the same host, named users first.
        list.sort_by(|a, b| {
            let rank = |x: &Account| (hosts::rank(&x.host), x.user.is_empty());
            rank(a).cmp(&rank(b)).then_with(|| a.user.cmp(&b.user))
        });
        self.usages.adopt(&list);
        self.list.store(Arc::new(list));
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Are names of databases in grants literal from now on, instead of patterns?
    pub fn take_names_literally(&self, literal: bool) {
        self.literal_names.store(literal, Ordering::Relaxed);
        self.touch();
    }

    /// Has any account partial revokes?
    pub fn have_restrictions(&self) -> bool {
        self.list.load().iter().any(|a| !a.restrictions.is_empty())
    }

    /// What accounts may do has changed by other means: a variable names roles.
    pub fn touch(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes whenever the accounts do. Whoever reads it before the list has a list at least that new.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What a session of `account` may do while these roles are active.
    pub fn access(&self, account: &Account, active: &[RoleName]) -> Access {
        let list = self.list.load();
        let mut access = Access::of(account);
        access.literal_names = self.literal_names.load(Ordering::Relaxed);
        for role in roles::closure(&list, active) {
            access.add(role);
        }
        access
    }

    /// The account as if what these roles have were granted to it.
    pub fn merged(&self, account: &Account, active: &[RoleName]) -> Account {
        let list = self.list.load();
        let mut merged = account.clone();
        merged.restrictions = self.access(account, active).restrictions();
        for role in roles::closure(&list, active) {
            for g in &role.grants {
                merged.change_grant(&g.scope, g.privileges, g.grant_option, true);
            }
        }
        merged
    }

    /// Everybody.
    pub fn all(&self) -> Arc<Vec<Account>> {
        self.list.load_full()
    }

    /// The account that `user` logs in as from there.
    pub fn find(&self, user: &str, origin: Origin<'_>) -> Option<Account> {
        let list = self.list.load();
        list.iter()
            .find(|a| (a.user.is_empty() || a.user == user) && hosts::matches(&a.host, origin))
            .cloned()
    }

    /// The account that one acts as which may act as others: the first that exists of those granted by name.
    pub fn proxied(&self, account: &Account) -> Option<Account> {
        let named = account.proxies.iter().filter(|p| !p.is_on_anybody());
        let mut others = named.filter(|p| (&p.user, &p.host) != (&account.user, &account.host));
        others.find_map(|p| self.exact(&p.user, &p.host))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_special_host_wins() {
        let accounts = Accounts::default();
        accounts.replace(vec![
            Account::named("u", "%"),
            Account::named("u", "10.%"),
            Account::named("u", "10.1.2.3"),
        ]);
        let find = |user, name: &str| {
            let ip = name.parse().ok();
            accounts.find(user, Origin { name, ip })
        };
        let found = |name| find("u", name).unwrap().host;
        assert_eq!(found("10.1.2.3"), "10.1.2.3");
        assert_eq!(found("10.9.9.9"), "10.%");
        assert_eq!(found("192.168.0.1"), "%");
        assert_eq!(found("localhost"), "%");
        assert!(find("v", "10.1.2.3").is_none());
    }

    #[test]
    fn grant_option_of_dynamic_privileges_is_theirs() {
        let mut a = Account::named("u", "%");
        let of = |names: &[&str]| Privileges::of(names);
        let (dynamic, fixed) = (of(&["ROLE_ADMIN"]), of(&["SELECT"]));
        a.change_grant(&GrantScope::Global, dynamic, true, true);
        assert_eq!(Access::of(&a).grantable(), dynamic);
        assert!(!Access::of(&a).global().meets(Privileges::GRANT));
        a.change_grant(
            &GrantScope::Global,
            fixed.or(of(&["BINLOG_ADMIN"])),
            false,
            true,
        );
        assert_eq!(a.grants.len(), 3);
        assert_eq!(Access::of(&a).grantable(), dynamic);
        a.change_grant(&GrantScope::Global, Privileges::ALL, false, false);
        assert!(a.grants.is_empty());
        a.change_grant(&GrantScope::Global, Privileges::NONE, true, true);
        assert_eq!(Access::of(&a).global(), Privileges::GRANT);
        a.change_grant(&GrantScope::Global, Privileges::NONE, true, false);
        assert!(a.grants.is_empty());
    }
}
