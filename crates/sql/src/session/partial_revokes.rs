//! GRANT and REVOKE where single databases are exempt from what is granted on everything: partial revokes.
//!
//! Neighbours: `grants` asks here for what is granted on everything and on databases; `Restrictions` of `accounts`
//! keeps what is taken away; `set` asks whether the variable may be switched off.
//!
//! **Invariants**
//! - What is on a database by a grant of its own is never restricted there: REVOKE takes the grant.
//! - Nobody gives, or takes from others, where he is restricted himself.

use esker_sql_catalog::accounts::{Account, GrantScope, Privileges, Restrictions, Role, RoleName};
use esker_sql_syntax::ast::{GrantedBy, RoleList};
use esker_types::{SqlError, SqlResult, errors};

use super::SessionContext;

/// Who grants or revokes, and whether REVOKE on a database takes from what is granted on everything.
pub(super) struct Grantor {
    name: RoleName,
    restrictions: Restrictions,
    /// `partial_revokes`.
    is_on: bool,
}

impl SessionContext {
    pub(super) fn grantor(&self) -> Grantor {
        let access = &self.access;
        Grantor {
            name: (access.user.to_string(), access.host.to_string()),
            restrictions: access.restrictions(),
            is_on: self.instance.variable_is_on("partial_revokes"),
        }
    }

    /// The account that a GRANT acts as.
    ///
    /// # Errors
    /// 3836: there is no such account, a role is not granted to it, or it may more than who acts as it.
    pub(super) fn grantor_as(&self, by: &GrantedBy) -> SqlResult<Grantor> {
        let name = self.named(&by.user);
        let accounts = self.instance.accounts();
        let account = accounts.exact(&name.0, &name.1).ok_or_else(no_grantor)?;
        let active = match &by.roles {
            None | Some(RoleList::Default) => account.default_roles.clone(),
            Some(roles) => {
                let held = account.roles.iter().map(|granted| granted.role.clone());
                let chosen = self.chosen(roles, &name, held.collect());
                chosen.map_err(|_| no_grantor())?
            }
        };
        let access = accounts.access(&account, &active);
        let restrictions = access.restrictions();
        let is_within = |(schema, lost): (&str, Privileges)| {
            restrictions.on(schema).contains(lost.and(access.global()))
        };
        let own = &self.access;
        if !own.global().contains(access.global()) || !own.restrictions().iter().all(is_within) {
            return Err(no_grantor());
        }
        Ok(Grantor {
            restrictions,
            name,
            ..self.grantor()
        })
    }

    /// May `partial_revokes` have the value it has just got?
    ///
    /// # Errors
    /// 3896: it is off, and accounts have partial revokes.
    pub(super) fn admit_partial_revokes(&self) -> SqlResult<()> {
        let instance = &self.instance;
        if instance.variable_is_on("partial_revokes") || !instance.accounts().have_restrictions() {
            return Ok(());
        }
        let text = "At least one partial revoke exists on a database. The system variable '@@partial_revokes' must \
                    be set to ON.";
        Err(SqlError::new(3896, "HY000", text))
    }
}

/// 3836.
fn no_grantor() -> SqlError {
    let text = "Either some of the authorization IDs in the AS clause are invalid or the current user lacks \
                privileges to execute the statement.";
    SqlError::new(3836, "HY000", text)
}

impl Grantor {
    /// What GRANT on everything does to restrictions: it lifts them, but where the grantor is restricted.
    pub(super) fn grant_everywhere(&self, account: &mut Account, asked: Privileges) {
        let before = account.restrictions.clone();
        let fresh = asked.without(account.on_everything());
        account.restrictions.lift(asked);
        for (schema, lost) in self.restrictions.iter() {
            let stays = lost.and(asked).and(before.on(schema).or(fresh));
            let all = account.restrictions.on(schema).or(stays);
            account.restrictions.set(schema, all);
        }
    }

    /// What REVOKE on everything does to restrictions.
    ///
    /// # Errors
    /// 3879: the grantor is restricted where the account is not.
    pub(super) fn revoke_everywhere(
        &self,
        account: &mut Account,
        asked: Privileges,
    ) -> SqlResult<()> {
        let held = asked.and(account.on_everything());
        let (own, others) = (&self.restrictions, &account.restrictions);
        let beyond = |(schema, lost): &(&str, Privileges)| {
            !lost.and(held).without(others.on(schema)).is_empty()
        };
        if let Some((schema, _)) = own.iter().find(beyond) {
            let who = Role(&self.name);
            let text = format!("Access denied for AuthId {who} to database '{schema}'.");
            return Err(SqlError::new(3879, "HY000", text));
        }
        account.restrictions.lift(asked);
        Ok(())
    }

    /// What GRANT on a database gives back of what was taken away there; the rest is to be granted.
    #[must_use]
    pub(super) fn grant_on_schema(
        &self,
        account: &mut Account,
        schema: &str,
        asked: Privileges,
    ) -> Privileges {
        let lost = account.restrictions.on(schema);
        account.restrictions.set(schema, lost.without(asked));
        asked.without(lost)
    }

    /// Are there partial revokes?
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// What REVOKE on a database takes away of what is granted on everything, with partial revokes.
    ///
    /// # Errors
    /// 1141: something is granted neither on everything nor on the database.
    pub(super) fn revoke_on_schema(
        &self,
        account: &mut Account,
        schema: &str,
        asked: Privileges,
    ) -> SqlResult<()> {
        if !self.is_on {
            return Ok(());
        }
        let own = account.held_at(&GrantScope::Schema(schema.to_owned()));
        let everywhere = account.on_everything();
        let missing = asked.without(own).without(everywhere);
        let takes_all = asked.contains(Privileges::ON_SCHEMA) && !own.is_empty();
        if !missing.is_empty() && !takes_all {
            return Err(errors::no_such_grant(&account.user, &account.host));
        }
        let lost = account.restrictions.on(schema);
        let all = lost.or(asked.and(everywhere).without(own));
        if !schema.eq_ignore_ascii_case("information_schema") {
            account.restrictions.set(schema, all);
        }
        Ok(())
    }
}
