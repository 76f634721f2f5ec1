//! What a session may do: all its grants, added up.
//!
//! Neighbours: sessions ask before they touch anything; views are read with the access of their definers.
//! **Invariants**
//! - What is granted on something wider holds for everything in it; of the patterns that match a database only the
//!   most specific one holds, as in MySQL, for the account and for each role.
//! - Names of databases and tables are compared as written, names of columns without regard to case.

use std::collections::BTreeMap;

use esker_types::program::RoutineKind;

use super::{Account, GrantScope, Privileges, Restrictions, pattern};
use crate::catalog::same_name;

/// Privileges on a table and on its columns.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct TablePrivileges {
    privileges: Privileges,
    columns: Vec<(Box<str>, Privileges)>,
}

/// Privileges on a routine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RoutinePrivileges {
    kind: RoutineKind,
    /// In lower case.
    name: Box<str>,
    privileges: Privileges,
}

/// Rights, by what they are on.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Access {
    /// User name of the account whose rights these are.
    pub user: Box<str>,
    /// Its host pattern.
    pub host: Box<str>,
    global: Privileges,
    /// By account and role: privileges on everything, and where they do not hold.
    sources: Vec<(Privileges, Restrictions)>,
    /// `partial_revokes`: names of databases are no patterns.
    pub(super) literal_names: bool,
    /// Dynamic privileges that may be granted on.
    grantable: Privileges,
    /// By account and role: patterns of databases, those that win first.
    schemas: Vec<Vec<(Box<str>, Privileges)>>,
    /// By database, then by table.
    tables: BTreeMap<Box<str>, BTreeMap<Box<str>, TablePrivileges>>,
    /// By database.
    routines: BTreeMap<Box<str>, Vec<RoutinePrivileges>>,
}

impl Access {
    /// What an account has been granted.
    pub fn of(account: &Account) -> Self {
        let mut access = Self {
            user: account.user.as_str().into(),
            host: account.host.as_str().into(),
            ..Self::default()
        };
        access.add(account);
        access
    }

    /// Adds what another account, as a role, has been granted.
    pub(super) fn add(&mut self, account: &Account) {
        let mut schemas: Vec<(Box<str>, Privileges)> = Vec::new();
        let mut global = Privileges::NONE;
        for grant in &account.grants {
            let fixed = match grant.grant_option && !grant.is_dynamic() {
                true => grant.privileges.or(Privileges::GRANT),
                false => grant.privileges,
            };
            match &grant.scope {
                GrantScope::Global => {
                    global = global.or(fixed);
                    if grant.grant_option {
                        let dynamic = grant.privileges.and(Privileges::DYNAMIC);
                        self.grantable = self.grantable.or(dynamic);
                    }
                }
                GrantScope::Schema(s) => schemas.push((s.as_str().into(), fixed)),
                GrantScope::Table(s, t) => {
                    let table = self.table_mut(s, t);
                    table.privileges = table.privileges.or(fixed);
                }
                GrantScope::Column(s, t, c) => {
                    self.table_mut(s, t)
                        .columns
                        .push((c.as_str().into(), fixed));
                }
                GrantScope::Routine(kind, s, name) => {
                    let routines = self.routines.entry(s.as_str().into()).or_default();
                    routines.push(RoutinePrivileges {
                        kind: *kind,
                        name: name.as_str().into(),
                        privileges: fixed,
                    });
                }
            }
        }
        self.global = self.global.or(global);
        self.sources.push((global, account.restrictions.clone()));
        // Stable: of patterns with the same rank the one granted first wins.
        schemas.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern::rank(pattern)));
        self.schemas.push(schemas);
    }

    fn table_mut(&mut self, schema: &str, table: &str) -> &mut TablePrivileges {
        let tables = self.tables.entry(schema.into()).or_default();
        tables.entry(table.into()).or_default()
    }

    /// Are these the rights of this account?
    pub fn is_of(&self, user: &str, host: &str) -> bool {
        *self.user == *user && *self.host == *host
    }

    /// On everything.
    pub fn global(&self) -> Privileges {
        self.global
    }

    /// Of the privileges on everything, those that hold in a database: no source of one has to be restricted there.
    fn global_in(&self, schema: &str) -> Privileges {
        let held = |(global, lost): &(Privileges, Restrictions)| global.without(lost.on(schema));
        let all = self.sources.iter().map(held);
        all.fold(Privileges::NONE, Privileges::or)
    }

    /// Where privileges on everything do not hold.
    pub fn restrictions(&self) -> Restrictions {
        let mut all = Restrictions::NONE;
        for (schema, _) in self.sources.iter().flat_map(|(_, lost)| lost.iter()) {
            all.set(schema, self.global.without(self.global_in(schema)));
        }
        all
    }

    /// On everything in a database.
    pub fn on_schema(&self, schema: &str) -> Privileges {
        let matches = |pattern: &str| match self.literal_names {
            true => pattern == schema,
            false => pattern::matches(pattern, schema),
        };
        let of_one = |schemas: &Vec<(Box<str>, Privileges)>| {
            let matching = schemas.iter().find(|(p, _)| matches(p));
            matching.map(|(_, privileges)| *privileges)
        };
        let all = self.schemas.iter().filter_map(of_one);
        all.fold(self.global_in(schema), Privileges::or)
    }

    /// On what a pattern of databases covers, as far as the same pattern is granted.
    pub fn on_pattern(&self, pattern: &str) -> Privileges {
        let all = self.schemas.iter().flatten();
        let same = all.filter(|(p, _)| **p == *pattern).map(|(_, held)| *held);
        same.fold(self.on_schema(pattern), Privileges::or)
    }

    /// Dynamic privileges that may be granted on.
    pub fn grantable(&self) -> Privileges {
        self.grantable
    }

    fn table(&self, schema: &str, table: &str) -> Option<&TablePrivileges> {
        self.tables.get(schema)?.get(table)
    }

    /// On a whole table.
    pub fn on_table(&self, schema: &str, table: &str) -> Privileges {
        let own = self.table(schema, table).map(|t| t.privileges);
        self.on_schema(schema).or(own.unwrap_or_default())
    }

    /// On a table or at least one of its columns.
    pub fn on_table_or_columns(&self, schema: &str, table: &str) -> Privileges {
        let columns = self
            .table(schema, table)
            .into_iter()
            .flat_map(|t| &t.columns);
        let whole = self.on_table(schema, table);
        columns.fold(whole, |all, (_, privileges)| all.or(*privileges))
    }

    /// On a column, those on its table included.
    pub fn on_column(&self, schema: &str, table: &str, column: &str) -> Privileges {
        let columns = self
            .table(schema, table)
            .into_iter()
            .flat_map(|t| &t.columns);
        let own = columns.filter(|(name, _)| same_name(name, column));
        let whole = self.on_table(schema, table);
        own.fold(whole, |all, (_, privileges)| all.or(*privileges))
    }

    /// Privileges on a column as metadata shows them; empty: the column is not shown.
    pub fn shown_on_column(&self, schema: &str, table: &str, column: &str) -> String {
        let held = self.on_column(schema, table, column);
        let names = held.and(Privileges::ON_COLUMN).names();
        names
            .map(str::to_ascii_lowercase)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Columns of the table on which `wanted` is granted.
    pub fn columns_with(&self, wanted: Privileges, schema: &str, table: &str) -> Vec<Box<str>> {
        let columns = self
            .table(schema, table)
            .into_iter()
            .flat_map(|t| &t.columns);
        let with = columns.filter(|(_, privileges)| privileges.contains(wanted));
        with.map(|(name, _)| name.clone()).collect()
    }

    /// On a routine.
    pub fn on_routine(&self, kind: RoutineKind, schema: &str, name: &str) -> Privileges {
        let whole = self.on_schema(schema);
        let Some(routines) = self.routines.get(schema) else {
            return whole;
        };
        let name = name.to_lowercase();
        let own = routines
            .iter()
            .filter(|r| r.kind == kind && *r.name == *name);
        own.fold(whole, |all, routine| all.or(routine.privileges))
    }

    /// Is anything granted on the database or in it? Decides what SHOW DATABASES shows and USE takes.
    pub fn sees_schema(&self, schema: &str) -> bool {
        self.on_schema(schema).meets(Privileges::ON_SCHEMA)
            || self.tables.contains_key(schema)
            || self.routines.contains_key(schema)
    }

    /// May it hear what the table is made of? SELECT on everything or the database does, and any privilege on the table
    /// itself or its columns: MySQL looks at those alone when another one would do.
    pub fn describes_table(&self, schema: &str, table: &str) -> bool {
        let own = self
            .table(schema, table)
            .is_some_and(|t| t.privileges.meets(Privileges::ON_TABLE) || !t.columns.is_empty());
        own || self.on_schema(schema).meets(Privileges::of(&["SELECT"]))
    }

    /// Is anything granted on the table or its columns? Decides what is told of it.
    pub fn sees_table(&self, schema: &str, table: &str) -> bool {
        self.on_table_or_columns(schema, table)
            .meets(Privileges::ON_TABLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::GrantEntry;

    #[test]
    fn wider_grants_hold_for_what_is_inside() {
        let mut account = Account::root(Vec::new());
        let grant = |scope, name| GrantEntry {
            scope,
            privileges: Privileges::of(&[name]),
            grant_option: false,
        };
        account.grants = vec![
            grant(GrantScope::Global, "PROCESS"),
            grant(GrantScope::Schema("d".into()), "INSERT"),
            grant(GrantScope::Table("d".into(), "t".into()), "SELECT"),
            grant(GrantScope::Table("e".into(), "t".into()), "DROP"),
            grant(
                GrantScope::Column("e".into(), "t".into(), "c".into()),
                "SELECT",
            ),
            grant(GrantScope::Schema("my%".into()), "INSERT"),
            grant(GrantScope::Schema(r"my\_app".into()), "SELECT"),
        ];
        let access = Access::of(&account);
        assert_eq!(
            access.on_table("d", "t").listed(),
            "SELECT, INSERT, PROCESS"
        );
        assert_eq!(access.on_table("d", "u").listed(), "INSERT, PROCESS");
        assert!(access.sees_table("d", "u") && !access.sees_table("e", "u"));
        assert!(access.describes_table("d", "t") && access.describes_table("e", "t"));
        assert!(access.describes_table("my_app", "t") && !access.describes_table("d", "u"));
        assert_eq!(
            access.on_column("e", "t", "C").listed(),
            "SELECT, DROP, PROCESS"
        );
        assert_eq!(access.on_column("e", "t", "x").listed(), "DROP, PROCESS");
        assert_eq!(access.on_schema("my_app").listed(), "SELECT, PROCESS");
        assert_eq!(access.on_schema("myXapp").listed(), "INSERT, PROCESS");
        // What is taken away on a database is there with a role that has it, and patterns may be names.
        let on_all = grant(GrantScope::Global, "SELECT");
        account.grants.push(on_all.clone());
        account.restrictions.set("x", Privileges::of(&["SELECT"]));
        let mut access = Access::of(&account);
        assert_eq!(access.on_table("x", "t").listed(), "PROCESS");
        assert_eq!(access.on_table("y", "t").listed(), "SELECT, PROCESS");
        assert_eq!(access.restrictions(), account.restrictions);
        access.literal_names = true;
        assert_eq!(access.on_schema("myXapp").listed(), "SELECT, PROCESS");
        let mut role = Account::named("r", "%");
        role.grants.push(on_all);
        role.restrictions.set("z", Privileges::of(&["SELECT"]));
        access.add(&role);
        assert_eq!(access.on_schema("x").listed(), "SELECT, PROCESS");
        assert!(access.restrictions().is_empty());
        account.grants.pop();
        let access = Access::of(&account);
        // What is on nothing in a database shows none.
        assert!(access.sees_schema("e") && !access.sees_schema("f"));
    }
}
