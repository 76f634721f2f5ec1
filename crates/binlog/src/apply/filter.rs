//! Replication filters: which databases and tables of the source concern this replica, and under which names.
//!
//! Neighbours: CHANGE REPLICATION FILTER and `replicate_*` options fill [`Filters`]; the applier asks before it
//! computes what a transaction depends on, and when it looks a table up. **Invariants**: rules are asked in MySQL's
//! order: databases first, then tables (do, ignore, wild do, wild ignore), under the names that they have here; without
//! a rule everything is applied. Rules are about what an XA transaction changes: XA START, PREPARE, COMMIT and the like
//! concern no database, and a transaction that is prepared is decided, wherever the session was when it said so.

use crate::bytes::Reader;
use crate::event::query::Query;
use crate::{Result, damaged};

use super::boundary::starts_with;
use super::{Group, PartKind};

/// The rules of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filters {
    /// Databases that are applied; empty: all.
    pub do_db: Vec<String>,
    /// Databases that are not, if `do_db` is empty.
    pub ignore_db: Vec<String>,
    /// Tables that are applied.
    pub do_table: Vec<(String, String)>,
    /// Tables that are not.
    pub ignore_table: Vec<(String, String)>,
    /// Patterns of `database.table` that are applied.
    pub wild_do_table: Vec<String>,
    /// Patterns that are not.
    pub wild_ignore_table: Vec<String>,
    /// Databases that have another name here.
    pub rewrite_db: Vec<(String, String)>,
}

/// What a statement changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touched {
    /// The database that it is about.
    pub database: Option<String>,
    /// Its tables, each with its database.
    pub tables: Vec<(String, String)>,
}

impl Filters {
    /// Is there no rule?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The name of a database here.
    pub fn rewritten<'a>(&'a self, database: &'a str) -> &'a str {
        let rule = self.rewrite_db.iter().find(|(from, _)| from == database);
        rule.map_or(database, |(_, to)| to)
    }

    /// Is anything of a database applied, as far as rules about databases say?
    pub fn allows_database(&self, database: &str) -> bool {
        let is_named = |list: &[String]| list.iter().any(|name| name == database);
        match self.do_db.is_empty() {
            true => !is_named(&self.ignore_db),
            false => is_named(&self.do_db),
        }
    }

    /// Is a statement applied that changes these tables, as far as rules about tables say? One that is wanted is
    /// enough, and one that is not wanted settles it if none is named before.
    pub fn allows_tables<'a>(&self, tables: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
        let mut some = false;
        for (database, table) in tables {
            some = true;
            if let Some(is_wanted) = self.rule_of(database, table) {
                return is_wanted;
            }
        }
        !some || (self.do_table.is_empty() && self.wild_do_table.is_empty())
    }

    /// Are rows of this table applied?
    pub fn allows_table(&self, database: &str, table: &str) -> bool {
        self.allows_database(database) && self.allows_tables(std::iter::once((database, table)))
    }

    fn rule_of(&self, database: &str, table: &str) -> Option<bool> {
        let is_named =
            |list: &[(String, String)]| list.iter().any(|(d, t)| d == database && t == table);
        let whole = format!("{database}.{table}");
        let is_like = |list: &[String]| {
            list.iter()
                .any(|pattern| matches(pattern.as_bytes(), whole.as_bytes()))
        };
        if is_named(&self.do_table) {
            return Some(true);
        }
        if is_named(&self.ignore_table) {
            return Some(false);
        }
        if is_like(&self.wild_do_table) {
            return Some(true);
        }
        is_like(&self.wild_ignore_table).then_some(false)
    }

    /// Takes away what is not to be applied. A statement is asked about by its default database, unless it is about a
    /// database itself, and by its tables; `touched` says what they are.
    ///
    /// # Errors
    /// Damaged events.
    pub fn strip(&self, group: &mut Group, touched: &dyn Fn(&str, &[u8]) -> Touched) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut dropped = Vec::new();
        let mut keeps = vec![true; group.parts.len()];
        // The first part that is about the next statement: its variables stand before it.
        let mut begin = 0;
        for (at, part) in group.parts.iter().enumerate() {
            let body = group.body(part);
            let is_kept = match part.kind {
                PartKind::TableMap => {
                    let (id, database, table) = named_table(body)?;
                    let is_kept = self.allows_table(self.rewritten(database), table);
                    dropped.retain(|other| *other != id);
                    if !is_kept {
                        dropped.push(id);
                    }
                    is_kept
                }
                PartKind::Rows { .. } => !dropped.contains(&Reader::new(body).uint(6)?),
                PartKind::Query => self.allows_statement(&Query::parse(body)?, touched),
                PartKind::IntVar
                | PartKind::Rand
                | PartKind::UserVar
                | PartKind::FileBlock { .. } => continue,
                PartKind::Refused => true,
            };
            keeps[begin..=at].fill(is_kept);
            begin = at + 1;
        }
        let mut keeps = keeps.into_iter();
        group.parts.retain(|_| keeps.next().unwrap_or(true));
        let does = |kind: PartKind| {
            matches!(
                kind,
                PartKind::Rows { .. } | PartKind::Query | PartKind::Refused
            )
        };
        if !group.parts.iter().any(|part| does(part.kind)) {
            group.skip();
        }
        Ok(())
    }

    fn allows_statement(
        &self,
        query: &Query<'_>,
        touched: &dyn Fn(&str, &[u8]) -> Touched,
    ) -> bool {
        if starts_with(query.text, "XA ") {
            return true;
        }
        let schema = String::from_utf8_lossy(query.schema);
        let schema = self.rewritten(&schema);
        let touched = touched(schema, query.text);
        let database = touched.database.as_deref().unwrap_or(schema);
        if !database.is_empty() && !self.allows_database(database) {
            return false;
        }
        let tables = touched.tables.iter();
        self.allows_tables(tables.map(|(d, t)| (d.as_str(), t.as_str())))
    }
}

/// Number, database and name of a table map's table.
///
/// # Errors
/// A damaged event.
pub fn named_table(body: &[u8]) -> Result<(u64, &str, &str)> {
    let mut r = Reader::new(body);
    let id = r.uint(6)?;
    r.u16()?;
    let mut name = || {
        let name = r.short_bytes()?;
        r.u8()?;
        std::str::from_utf8(name).map_err(|_| damaged("table map: name"))
    };
    Ok((id, name()?, name()?))
}

/// LIKE: `%` is anything, `_` one character, `\` makes the next one plain.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'%', rest @ ..] => (0..=text.len()).any(|from| matches(rest, &text[from..])),
        [b'_', rest @ ..] => !text.is_empty() && matches(rest, &text[1..]),
        [b'\\', plain, rest @ ..] | [plain, rest @ ..] => {
            text.first() == Some(plain) && matches(rest, &text[1..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    fn pair(database: &str, table: &str) -> (String, String) {
        (database.to_owned(), table.to_owned())
    }

    #[test]
    fn databases_come_before_tables() {
        let filters = Filters {
            do_db: names(&["a"]),
            do_table: vec![pair("b", "t"), pair("a", "t")],
            ..Filters::default()
        };
        assert!(filters.allows_table("a", "t"));
        assert!(!filters.allows_table("b", "t"));
        assert!(!filters.allows_table("a", "u"));
        let ignoring = Filters {
            ignore_db: names(&["a"]),
            ..Filters::default()
        };
        assert!(!ignoring.allows_table("a", "t") && ignoring.allows_table("b", "t"));
    }

    #[test]
    fn patterns_are_asked_after_names() {
        let filters = Filters {
            ignore_table: vec![pair("a", "log")],
            wild_do_table: names(&["a.%", r"x\_y.t_"]),
            wild_ignore_table: names(&["%.tmp%"]),
            ..Filters::default()
        };
        assert!(filters.allows_table("a", "tmp1"));
        assert!(!filters.allows_table("a", "log"));
        assert!(filters.allows_table("x_y", "t1") && !filters.allows_table("xzy", "t1"));
        assert!(!filters.allows_table("b", "t"));
        let none: [(&str, &str); 0] = [];
        assert!(filters.allows_tables(none.into_iter()));
    }

    #[test]
    fn names_are_rewritten() {
        let filters = Filters {
            rewrite_db: vec![pair("a", "b")],
            ..Filters::default()
        };
        assert_eq!((filters.rewritten("a"), filters.rewritten("c")), ("b", "c"));
        assert!(!filters.is_empty());
    }
}
