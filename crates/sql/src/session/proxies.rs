//! GRANT PROXY and REVOKE PROXY: accounts that may act as others.
//!
//! Neighbours: `grants` dispatches; the server asks
//! [`Accounts::proxied`](esker_sql_catalog::accounts::Accounts::proxied) whom a client that has logged in acts as.
//! **Invariant**: an account lets others act as itself; for any other account it takes PROXY on that one WITH GRANT
//! OPTION.

use esker_sql_catalog::accounts::{GrantScope, ProxyGrant, RoleName};
use esker_sql_syntax::ast;
use esker_types::{SqlError, SqlResult, errors};

use super::Session;
use super::grants::Way;

impl Session {
    /// GRANT and REVOKE of PROXY.
    pub(super) fn grant_proxy(
        &mut self,
        on: &ast::Account,
        users: &[ast::Account],
        grant_option: bool,
        way: Way,
    ) -> SqlResult<()> {
        let on = self.context.named(on);
        self.check_may_give_proxy(&on)?;
        let users: Vec<_> = users.iter().map(|user| self.context.named(user)).collect();
        self.change_grants(&users, &GrantScope::Global, way, |account| {
            let held = account.proxies.iter().position(|p| p.is_on(&on));
            match (held, way == Way::Grant) {
                (Some(at), true) => account.proxies[at].grant_option = grant_option,
                (Some(at), false) => drop(account.proxies.remove(at)),
                (None, true) => account.proxies.push(ProxyGrant {
                    user: on.0.clone(),
                    host: on.1.clone(),
                    grant_option,
                }),
                (None, false) => return Err(errors::no_such_grant(&account.user, &account.host)),
            }
            Ok(())
        })
    }

    /// 1698 for an account that is neither the own one nor one whose PROXY may be granted on.
    fn check_may_give_proxy(&self, on: &RoleName) -> SqlResult<()> {
        let own = &self.context.account;
        let covers = |p: &ProxyGrant| p.grant_option && (p.is_on_anybody() || p.is_on(on));
        if own.proxies.iter().any(covers) || (&own.user, &own.host) == (&on.0, &on.1) {
            return Ok(());
        }
        let (user, host) = (&self.context.user, self.host());
        let text = format!("Access denied for user '{user}'@'{host}'");
        Err(SqlError::new(1698, "28000", text))
    }
}
