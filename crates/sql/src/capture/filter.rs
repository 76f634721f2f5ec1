//! Which databases are in the binary log (`--binlog-do-db`, `--binlog-ignore-db`).
//!
//! Neighbours: `capture` asks for the table of each row, `statement` for the default database of each statement, as
//! MySQL does. **Invariants**: the rules are those of the start; without rules nothing is left out.

/// The rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DatabaseFilter {
    only: Vec<Box<str>>,
    without: Vec<Box<str>>,
}

impl DatabaseFilter {
    /// The rules among the lists of a start.
    pub(crate) fn of(lists: &[(&'static str, String)]) -> Self {
        let of = |wanted: &str| {
            let found = lists.iter().filter(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.as_str().into()).collect()
        };
        Self {
            only: of("binlog_do_db"),
            without: of("binlog_ignore_db"),
        }
    }

    /// Is what concerns this database left out?
    pub(crate) fn leaves_out(&self, database: &str) -> bool {
        let is_in = |list: &[Box<str>]| list.iter().any(|name| **name == *database);
        match self.only.is_empty() {
            true => !self.without.is_empty() && is_in(&self.without),
            false => !is_in(&self.only),
        }
    }

    /// `Binlog_Do_DB` and `Binlog_Ignore_DB`.
    pub(crate) fn shown(&self) -> [String; 2] {
        [&self.only, &self.without].map(|list| list.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_that_are_to_be_logged_leave_out_all_others() {
        let filter = |lists: &[(&'static str, &str)]| {
            let lists: Vec<_> = lists.iter().map(|(n, v)| (*n, (*v).to_owned())).collect();
            DatabaseFilter::of(&lists)
        };
        let none = filter(&[("replicate_do_db", "a")]);
        assert_eq!(none, DatabaseFilter::default());
        assert!(!none.leaves_out("a"));
        let without = filter(&[("binlog_ignore_db", "a"), ("binlog_ignore_db", "b,c")]);
        assert!(without.leaves_out("a") && without.leaves_out("b,c"));
        assert!(!without.leaves_out("A") && !without.leaves_out("b"));
        let only = filter(&[("binlog_do_db", "a"), ("binlog_ignore_db", "a")]);
        assert!(!only.leaves_out("a") && only.leaves_out("b"));
        assert_eq!(only.shown(), ["a", "a"]);
    }
}
