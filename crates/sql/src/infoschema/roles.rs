//! Rows about roles: which ones an account may take on, and which the session has taken on.
//!
//! Neighbours: `accounts` has the grants; `source` asks by table name.
//! **Invariant**: an account hears of its own roles and of those that these have been granted.

use std::collections::BTreeSet;

use esker_sql_catalog::accounts::{Account, GrantedRole, RoleName};
use esker_types::Value;

use super::source::Source;
use super::{Viewer, text, yes_no};

pub(super) static SOURCES: &[Source] = &[
    Source::new("APPLICABLE_ROLES", ROLES, applicable),
    Source::new("ADMINISTRABLE_ROLE_AUTHORIZATIONS", ROLES, administrable),
    Source::new(
        "ENABLED_ROLES",
        &["ROLE_NAME", "ROLE_HOST", "IS_DEFAULT", "IS_MANDATORY"],
        enabled,
    ),
];

const ROLES: &[&str] = &[
    "USER",
    "HOST",
    "GRANTEE",
    "GRANTEE_HOST",
    "ROLE_NAME",
    "ROLE_HOST",
    "IS_GRANTABLE",
    "IS_DEFAULT",
    "IS_MANDATORY",
];

/// The account that looks, with all accounts.
fn own(viewer: &Viewer) -> Option<(Account, std::sync::Arc<Vec<Account>>)> {
    let all = viewer.instance.accounts().all();
    let is_own = |a: &&Account| viewer.access.is_of(&a.user, &a.host);
    let own = all.iter().find(is_own).cloned();
    own.map(|own| (own, all))
}

/// What `grantee` has been granted; everybody has the mandatory roles, but none of them for that.
fn granted(grantee: &Account, own: &Account, mandatory: &[RoleName]) -> Vec<GrantedRole> {
    let mut granted = grantee.roles.clone();
    let is_own = (&grantee.user, &grantee.host) == (&own.user, &own.host);
    for role in mandatory.iter().filter(|_| is_own) {
        if grantee.roles.iter().all(|g| g.role != *role) {
            granted.push(GrantedRole {
                role: role.clone(),
                admin: false,
            });
        }
    }
    granted
}

/// Every grant of a role that reaches the account, nearest first.
fn rows(viewer: &Viewer, wants_admin: bool) -> Vec<Vec<Value>> {
    let Some((own, all)) = own(viewer) else {
        return Vec::new();
    };
    let mandatory = viewer.instance.mandatory_roles();
    let mut out = Vec::new();
    let mut seen: BTreeSet<RoleName> = BTreeSet::new();
    let mut next = vec![own.clone()];
    while let Some(grantee) = next.pop() {
        for granted in granted(&grantee, &own, &mandatory) {
            let (name, host) = &granted.role;
            if granted.admin || !wants_admin {
                out.push(vec![
                    text(&own.user),
                    text(&own.host),
                    text(&grantee.user),
                    text(&grantee.host),
                    text(name),
                    text(host),
                    yes_no(granted.admin),
                    yes_no(own.default_roles.contains(&granted.role)),
                    yes_no(mandatory.contains(&granted.role)),
                ]);
            }
            let role = all.iter().find(|a| a.user == *name && a.host == *host);
            if seen.insert(granted.role.clone()) {
                next.extend(role.cloned());
            }
        }
    }
    out
}

fn applicable(viewer: &Viewer) -> Vec<Vec<Value>> {
    rows(viewer, false)
}

fn administrable(viewer: &Viewer) -> Vec<Vec<Value>> {
    rows(viewer, true)
}

fn enabled(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mandatory = viewer.instance.mandatory_roles();
    let defaults = own(viewer).map(|(own, _)| own.default_roles);
    let defaults = defaults.unwrap_or_default();
    let row = |role: &RoleName| {
        vec![
            text(&role.0),
            text(&role.1),
            yes_no(defaults.contains(role)),
            yes_no(mandatory.contains(role)),
        ]
    };
    let active = viewer.session.iter().flat_map(|s| &s.roles);
    active.map(row).collect()
}
