//! Roles: CREATE and DROP ROLE, GRANT and REVOKE of roles, SET ROLE, SET DEFAULT ROLE.
//!
//! Neighbours: `account_statements` and `grants` hand them over; `accounts` keeps roles, which are accounts nobody
//! logs in as. **Invariants**: a role that is granted to itself, by whatever way, is refused; a mandatory role is
//! neither revoked nor dropped.

use esker_sql_catalog::accounts::roles::forget;
use esker_sql_catalog::accounts::{Account, GrantedRole, Role, RoleName, holds};
use esker_sql_syntax::ast::{self, RoleList, SetRole};
use esker_types::{Level, SqlError, SqlResult, errors};

use super::grants::Way;
use super::users::{self, shown};
use super::{Session, SessionContext};
use crate::binlog::AccountEvent;

/// 1396.
fn failed(operation: &str, names: &[RoleName]) -> SqlError {
    let names: Vec<_> = names.iter().map(|(user, host)| shown(user, host)).collect();
    users::failed(operation, &names)
}

/// 3523.
fn unknown(name: &RoleName) -> SqlError {
    let text = format!("Unknown authorization ID {}", Role(name));
    SqlError::new(3523, "HY000", text)
}

/// 3530.
fn not_granted(role: &RoleName, to: &RoleName) -> SqlError {
    errors::role_not_granted(Role(role), Role(to))
}

fn find<'a>(list: &'a mut [Account], name: &RoleName) -> Option<&'a mut Account> {
    list.iter_mut()
        .find(|a| a.user == name.0 && a.host == name.1)
}

impl Session {
    /// CREATE ROLE: accounts that are locked.
    pub(crate) fn create_role(
        &mut self,
        if_not_exists: bool,
        roles: &[ast::Account],
    ) -> SqlResult<()> {
        self.context
            .require_listed(&["CREATE USER", "CREATE ROLE"])?;
        let names = self.context.names_of(roles);
        self.check_definers("CREATE ROLE", &names)?;
        let mut existing = Vec::new();
        self.change_accounts(AccountEvent::AsWritten, |list| {
            for name in &names {
                match find(list, name) {
                    Some(_) => existing.push(name.clone()),
                    None => list.push(Account {
                        locked: true,
                        ..Account::named(&name.0, &name.1)
                    }),
                }
            }
            match existing.is_empty() || if_not_exists {
                true => Ok(()),
                false => Err(failed("CREATE ROLE", &existing)),
            }
        })?;
        for (user, host) in existing {
            let text = format!("Authorization ID '{user}'@'{host}' already exists.");
            self.warn(Level::Note, 3163, text);
        }
        Ok(())
    }

    /// DROP ROLE.
    pub(crate) fn drop_role(&mut self, if_exists: bool, roles: &[ast::Account]) -> SqlResult<()> {
        self.context.require_listed(&["CREATE USER", "DROP ROLE"])?;
        let names = self.context.names_of(roles);
        self.context.check_not_above(&names)?;
        self.context.check_not_mandatory(&names)?;
        self.check_definers("DROP ROLE", &names)?;
        let drops_users = self.context.require("CREATE USER");
        let mut missing = Vec::new();
        self.change_accounts(AccountEvent::AsWritten, |list| {
            for name in &names {
                // Like MySQL: with DROP ROLE alone, only what is locked as roles are.
                if find(list, name).is_some_and(|account| !account.locked) {
                    drops_users.clone()?;
                }
                let before = list.len();
                list.retain(|a| a.user != name.0 || a.host != name.1);
                if list.len() == before {
                    missing.push(name.clone());
                }
                forget(list, name);
            }
            match missing.is_empty() || if_exists {
                true => Ok(()),
                false => Err(failed("DROP ROLE", &missing)),
            }
        })?;
        for (user, host) in missing {
            let text = format!("Authorization ID '{user}'@'{host}' does not exist.");
            self.warn(Level::Note, 3162, text);
        }
        Ok(())
    }

    /// GRANT and REVOKE of roles.
    pub(super) fn grant_roles(
        &mut self,
        roles: &[ast::Account],
        users: &[ast::Account],
        admin: bool,
        way: Way,
    ) -> SqlResult<()> {
        let (add, mut passed) = (way == Way::Grant, Vec::new());
        let (roles, users) = (self.context.names_of(roles), self.context.names_of(users));
        self.context.check_may_give(&roles)?;
        if !add {
            self.context.check_not_mandatory(&roles)?;
        }
        self.change_accounts(AccountEvent::AsWritten, |list| {
            for user in &users {
                for role in &roles {
                    if way.passes_unknown_users() && find(list, user).is_none() {
                        passed.push(errors::no_such_authorization(&user.0));
                        break;
                    }
                    if find(list, role).is_none() {
                        if !way.passes_missing() {
                            return Err(unknown(role));
                        }
                        passed.push(unknown(role));
                        continue;
                    }
                    if add && holds(list, role, user) {
                        let text = format!(
                            "User account {} is directly or indirectly granted to the role {}. The GRANT would \
                             create a loop",
                            Role(user),
                            Role(role)
                        );
                        return Err(SqlError::new(4027, "HY000", text));
                    }
                    let account = find(list, user).ok_or_else(|| unknown(user))?;
                    let had = account.roles.iter().position(|r| r.role == *role);
                    match (add, had) {
                        (true, Some(at)) => account.roles[at].admin |= admin,
                        (true, None) => account.roles.push(GrantedRole {
                            role: role.clone(),
                            admin,
                        }),
                        (false, at) => {
                            at.map(|at| account.roles.remove(at));
                            account.default_roles.retain(|r| r != role);
                        }
                    }
                }
            }
            Ok(())
        })?;
        self.warn_of_passed(passed);
        Ok(())
    }

    /// SET ROLE and SET DEFAULT ROLE.
    pub(crate) fn set_role(&mut self, set: &SetRole) -> SqlResult<()> {
        let Some(users) = &set.default_for else {
            let (own, held) = (self.context.own_name(), self.context.roles_held());
            let roles = match &set.roles {
                RoleList::Default => self.context.account.default_roles.clone(),
                roles => self.context.chosen(roles, &own, held)?,
            };
            self.context.activate(roles);
            return Ok(());
        };
        let users = self.context.names_of(users);
        self.set_default_roles(&set.roles, &users)
    }

    /// SET DEFAULT ROLE, ALTER USER … DEFAULT ROLE.
    pub(super) fn set_default_roles(
        &mut self,
        list: &RoleList,
        users: &[RoleName],
    ) -> SqlResult<()> {
        let own = self.context.own_name();
        if users.iter().any(|u| *u != own) {
            self.context.require("CREATE USER")?;
        }
        self.context.check_not_above(users)?;
        let mandatory = self.context.instance.mandatory_roles();
        self.change_accounts(AccountEvent::AsWritten, |accounts| {
            for user in users {
                let account = find(accounts, user).ok_or_else(|| unknown(user))?;
                let mut held: Vec<_> = account.roles.iter().map(|r| r.role.clone()).collect();
                held.extend(mandatory.iter().cloned());
                account.default_roles = self.context.chosen(list, user, held)?;
            }
            Ok(())
        })
    }
}

impl SessionContext {
    fn names_of(&self, accounts: &[ast::Account]) -> Vec<RoleName> {
        accounts.iter().map(|a| self.named(a)).collect()
    }

    fn own_name(&self) -> RoleName {
        let account = &self.account;
        (account.user.clone(), account.host.clone())
    }

    /// 3628 for a role that mandatory_roles names.
    pub(super) fn check_not_mandatory(&self, roles: &[RoleName]) -> SqlResult<()> {
        let mandatory = self.instance.mandatory_roles();
        let Some(role) = roles.iter().find(|r| mandatory.contains(r)) else {
            return Ok(());
        };
        let text = format!(
            "The role {} is a mandatory role and can't be revoked or dropped. The restriction can be lifted by \
             excluding the role identifier from the global variable mandatory_roles.",
            Role(role)
        );
        Err(SqlError::new(3628, "HY000", text))
    }

    /// ROLE_ADMIN, or each role WITH ADMIN OPTION.
    pub(super) fn check_may_give(&self, roles: &[RoleName]) -> SqlResult<()> {
        let has_admin = |role: &RoleName| {
            let own = &self.account.roles;
            own.iter().any(|r| r.admin && r.role == *role)
        };
        if roles.iter().all(has_admin) || self.require("ROLE_ADMIN").is_ok() {
            return Ok(());
        }
        Err(errors::privilege_needed("WITH ADMIN, ROLE_ADMIN, SUPER"))
    }

    /// The roles of a list, which have to be among those that are held.
    ///
    /// # Errors
    /// 3530.
    pub(super) fn chosen(
        &self,
        list: &RoleList,
        of: &RoleName,
        held: Vec<RoleName>,
    ) -> SqlResult<Vec<RoleName>> {
        match list {
            RoleList::None | RoleList::Default => Ok(Vec::new()),
            RoleList::All(except) => {
                let except = self.names_of(except);
                Ok(held.into_iter().filter(|r| !except.contains(r)).collect())
            }
            RoleList::Named(names) => {
                let names = self.names_of(names);
                match names.iter().find(|r| !held.contains(r)) {
                    Some(role) => Err(not_granted(role, of)),
                    None => Ok(names),
                }
            }
        }
    }
}
