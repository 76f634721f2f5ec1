//! Roles: accounts whose privileges others may take on.
//!
//! Neighbours: `session::roles` runs the statements; a session's access has the privileges of its active roles and of
//! those that they have been granted in turn.
//! **Invariant**: GRANT makes no loops; where a file has one all the same, each role counts once.

use super::{Account, RoleName};

/// Longest list of mandatory roles that is read.
const MAX_MANDATORY: usize = 1000;

/// A role as statements show it: `` `user`@`host` ``.
pub struct Role<'a>(pub &'a RoleName);

impl std::fmt::Display for Role<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (user, host) = self.0;
        let (user, host) = (user.replace('`', "``"), host.replace('`', "``"));
        write!(f, "`{user}`@`{host}`")
    }
}

/// The accounts that are these roles, and all they have been granted.
pub(super) fn closure<'a>(list: &'a [Account], roles: &[RoleName]) -> Vec<&'a Account> {
    let mut found: Vec<&Account> = Vec::new();
    let mut next: Vec<&RoleName> = roles.iter().collect();
    while let Some((user, host)) = next.pop() {
        let is_it = |a: &&Account| a.user == *user && a.host == *host;
        if found.iter().any(is_it) {
            continue;
        }
        if let Some(role) = list.iter().find(is_it) {
            found.push(role);
            next.extend(role.roles.iter().map(|r| &r.role));
        }
    }
    found
}

/// Is `role` the account or, directly or indirectly, granted to it?
pub fn holds(list: &[Account], account: &RoleName, role: &RoleName) -> bool {
    let of = std::slice::from_ref(account);
    closure(list, of)
        .iter()
        .any(|a| a.user == role.0 && a.host == role.1)
}

/// Takes a role that is gone from everybody who had it: one made later under its name is another one.
pub fn forget(list: &mut [Account], name: &RoleName) {
    for account in list {
        account.roles.retain(|r| r.role != *name);
        account.default_roles.retain(|role| role != name);
    }
}

/// A role has another name.
pub fn rename(list: &mut [Account], from: &RoleName, to: &RoleName) {
    for account in list {
        let granted = account.roles.iter_mut().map(|r| &mut r.role);
        for role in granted.chain(&mut account.default_roles) {
            if role == from {
                role.clone_from(to);
            }
        }
    }
}

/// Names as the variable mandatory_roles has them: `r1,'r2'@'%', r3@localhost`.
pub fn parse_names(text: &str) -> Vec<RoleName> {
    let mut names = Vec::new();
    for one in split_outside_quotes(text, ',')
        .into_iter()
        .take(MAX_MANDATORY)
    {
        let parts = split_outside_quotes(one, '@');
        let plain = |part: &str| {
            let part = part.trim();
            let quote = part.chars().next().filter(|c| ['\'', '"', '`'].contains(c));
            match quote {
                Some(q) => part.trim_matches(q).to_owned(),
                None => part.to_owned(),
            }
        };
        let user = plain(parts[0]);
        if !user.is_empty() {
            let host = parts.get(1).map_or_else(|| "%".to_owned(), |h| plain(h));
            names.push((user, host.to_ascii_lowercase()));
        }
    }
    names
}

fn split_outside_quotes(text: &str, at: char) -> Vec<&str> {
    let mut quote = None;
    text.split(|c| {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => (),
            None if ['\'', '"', '`'].contains(&c) => quote = Some(c),
            None => return c == at,
        }
        false
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::GrantedRole;

    #[test]
    fn roles_of_roles_once_each() {
        let account = |user: &str, roles: &[&str]| {
            let mut account = Account::named(user, "%");
            for role in roles {
                let role = ((*role).to_owned(), "%".to_owned());
                account.roles.push(GrantedRole { role, admin: false });
            }
            account
        };
        let list = [
            account("a", &["b", "gone"]),
            account("b", &["c"]),
            account("c", &["a"]),
            account("d", &[]),
        ];
        let name = |user: &str| (user.to_owned(), "%".to_owned());
        let mut found: Vec<_> = closure(&list, &[name("a")])
            .iter()
            .map(|a| &*a.user)
            .collect();
        found.sort();
        assert_eq!(found, ["a", "b", "c"]);
        assert!(holds(&list, &name("b"), &name("a")) && !holds(&list, &name("d"), &name("a")));
    }

    #[test]
    fn names_of_mandatory_roles() {
        let name = |user: &str, host: &str| (user.to_owned(), host.to_owned());
        let text = "r1, 'r,2'@'%',r3@LOCALHOST,`r@4`,,";
        let expected = [
            name("r1", "%"),
            name("r,2", "%"),
            name("r3", "localhost"),
            name("r@4", "%"),
        ];
        assert_eq!(parse_names(text), expected);
        assert!(parse_names("").is_empty());
    }
}
