//! Rules of channels among the options of a start: `--replicate-do-db=d`, `--replicate-do-db=channel:d`.
//!
//! Neighbours: `channel` lays them over what a channel has kept, `statements` gives them to new channels; CHANGE
//! REPLICATION FILTER changes what came of it until the next start. **Invariants**: an option that names nothing stops
//! the start; a kind of rules that a channel has of its own is not taken from those of all.

use std::collections::BTreeMap;

use esker_types::{SqlResult, errors};

use super::options::change_filters;
use crate::applier::Filters;

/// What stands between the names of REPLICATE_REWRITE_DB.
const BECOMES: &str = "->";

/// The rules.
#[derive(Debug, Default)]
pub(crate) struct RulesAtStart {
    global: Filters,
    by_channel: BTreeMap<String, Filters>,
}

impl RulesAtStart {
    /// The rules among the lists of a start.
    ///
    /// # Errors
    /// 1231: one that names nothing.
    pub(crate) fn read(lists: &[(&'static str, String)]) -> SqlResult<Self> {
        let mut members: BTreeMap<(String, &str), Vec<Box<str>>> = BTreeMap::new();
        let rules = lists
            .iter()
            .filter(|(name, _)| name.starts_with("replicate_"));
        for (name, value) in rules {
            let (channel, rule) = value.split_once(':').unwrap_or(("", value));
            let rule = match *name {
                "replicate_rewrite_db" => rewritten(rule).ok_or_else(|| refused(name, value))?,
                "replicate_do_table" | "replicate_ignore_table" if !rule.contains('.') => {
                    return Err(refused(name, value));
                }
                _ => rule.to_owned(),
            };
            let channel = channel.trim().to_lowercase();
            members
                .entry((channel, name))
                .or_default()
                .push(rule.into());
        }
        let mut read = Self::default();
        for ((channel, name), members) in members {
            // The default channel has no name, so no option is about it alone.
            let filters = match channel.is_empty() {
                true => &mut read.global,
                false => read.by_channel.entry(channel).or_default(),
            };
            change_filters(filters, &[(name.to_uppercase().into(), members)])?;
        }
        Ok(read)
    }

    /// Those of all channels.
    pub(crate) fn global(&self) -> &Filters {
        &self.global
    }

    /// Those that name the channel.
    pub(crate) fn own(&self, channel: &str) -> Option<&Filters> {
        self.by_channel.get(channel)
    }

    /// Puts them in the place of what the channel has of their kinds.
    pub(super) fn lay_over(&self, channel: &str, filters: &mut Filters) {
        lay(&self.global, filters);
        self.lay_over_own(channel, filters);
    }

    /// The same with those that name the channel.
    pub(super) fn lay_over_own(&self, channel: &str, filters: &mut Filters) {
        if let Some(own) = self.own(channel) {
            lay(own, filters);
        }
    }
}

fn lay(rules: &Filters, filters: &mut Filters) {
    take(&mut filters.do_db, &rules.do_db);
    take(&mut filters.ignore_db, &rules.ignore_db);
    take(&mut filters.do_table, &rules.do_table);
    take(&mut filters.ignore_table, &rules.ignore_table);
    take(&mut filters.wild_do_table, &rules.wild_do_table);
    take(&mut filters.wild_ignore_table, &rules.wild_ignore_table);
    take(&mut filters.rewrite_db, &rules.rewrite_db);
}

fn take<T: Clone>(kept: &mut Vec<T>, rules: &[T]) {
    if !rules.is_empty() {
        *kept = rules.to_vec();
    }
}

/// `from->to` as CHANGE REPLICATION FILTER has it.
fn rewritten(rule: &str) -> Option<String> {
    let (from, to) = rule.split_once(BECOMES)?;
    let (from, to) = (from.trim(), to.trim());
    (!from.is_empty() && !to.is_empty()).then(|| format!("{from},{to}"))
}

fn refused(name: &str, value: &str) -> esker_types::SqlError {
    errors::wrong_setting(format!("'{name}' does not take '{value}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lists: &[(&'static str, &str)]) -> SqlResult<RulesAtStart> {
        let lists: Vec<_> = lists.iter().map(|(n, v)| (*n, (*v).to_owned())).collect();
        RulesAtStart::read(&lists)
    }

    #[test]
    fn rules_of_a_channel_go_before_those_of_all() {
        let rules = read(&[
            ("binlog_do_db", "x"),
            ("replicate_do_db", "a"),
            ("replicate_do_db", "b"),
            ("replicate_do_db", "One:c"),
            ("replicate_ignore_table", "a.t"),
            ("replicate_rewrite_db", "one: d -> e "),
            ("replicate_wild_do_table", "a%.t_"),
        ]);
        let rules = rules.expect("rules");
        let (mut one, mut other) = (Filters::default(), Filters::default());
        other.do_db = vec!["kept".into()];
        other.ignore_db = vec!["kept".into()];
        rules.lay_over("one", &mut one);
        rules.lay_over("", &mut other);
        assert_eq!(
            (one.do_db, other.do_db),
            (vec!["c".into()], vec!["a".into(), "b".into()])
        );
        assert_eq!(other.ignore_db, ["kept"]);
        assert_eq!(one.rewrite_db, [("d".into(), "e".into())]);
        assert!(other.rewrite_db.is_empty());
        assert_eq!(one.ignore_table, [("a".into(), "t".into())]);
        assert_eq!(one.wild_do_table, ["a%.t_"]);
    }

    #[test]
    fn a_rule_that_names_nothing_is_refused() {
        for (name, value) in [
            ("replicate_rewrite_db", "a"),
            ("replicate_rewrite_db", "a->"),
            ("replicate_do_table", "t"),
            ("replicate_ignore_table", "channel:t"),
        ] {
            let e = read(&[(name, value)]).expect_err(value);
            assert!(e.message.contains(value), "{}", e.message);
        }
    }
}
