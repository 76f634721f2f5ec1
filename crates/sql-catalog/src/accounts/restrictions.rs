//! Partial revokes: privileges that are granted on everything, and taken away on single databases.
//!
//! Neighbours: `session::grants` changes them, `access` heeds them, `record` keeps them.
//! **Invariants**
//! - Names of databases are literal. Each has one entry, in the order of the names, and no entry is empty.
//! - Only what is granted on everything is restricted: a privilege that is revoked there takes its restrictions along.

use super::Privileges;

/// What an account, or one that acts with roles, may not do though it may do it everywhere else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restrictions(Vec<(Box<str>, Privileges)>);

impl Restrictions {
    /// Nothing is restricted.
    pub const NONE: Self = Self(Vec::new());

    /// Is nothing restricted?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Databases with what is taken away there, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Privileges)> {
        self.0.iter().map(|(schema, lost)| (&**schema, *lost))
    }

    /// What is taken away on a database.
    pub fn on(&self, schema: &str) -> Privileges {
        match self.place(schema) {
            Ok(at) => self.0[at].1,
            Err(_) => Privileges::NONE,
        }
    }

    /// Takes exactly these away on a database.
    pub fn set(&mut self, schema: &str, lost: Privileges) {
        match (self.place(schema), lost.is_empty()) {
            (Ok(at), true) => {
                self.0.remove(at);
            }
            (Ok(at), false) => self.0[at].1 = lost,
            (Err(at), false) => self.0.insert(at, (schema.into(), lost)),
            (Err(_), true) => (),
        }
        debug_assert!(
            self.0.is_sorted_by(|a, b| a.0 < b.0),
            "one entry a database"
        );
    }

    /// These are restricted nowhere any more.
    pub fn lift(&mut self, privileges: Privileges) {
        self.0.retain_mut(|(_, lost)| {
            *lost = lost.without(privileges);
            !lost.is_empty()
        });
    }

    fn place(&self, schema: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(name, _)| (**name).cmp(schema))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_has_one_entry_and_none_is_empty() {
        let (select, both) = (
            Privileges::of(&["SELECT"]),
            Privileges::of(&["SELECT", "DROP"]),
        );
        let mut restrictions = Restrictions::NONE;
        restrictions.set("b", both);
        restrictions.set("a", select);
        restrictions.set("b", select);
        restrictions.set("c", Privileges::NONE);
        let names: Vec<_> = restrictions.iter().map(|(schema, _)| schema).collect();
        assert_eq!(names, ["a", "b"]);
        restrictions.set("b", both);
        restrictions.lift(select);
        assert_eq!(restrictions.on("b"), Privileges::of(&["DROP"]));
        assert_eq!(restrictions.on("a"), Privileges::NONE);
        restrictions.set("b", Privileges::NONE);
        assert!(restrictions.is_empty());
    }
}
