//! Where a handler stands among the entries of an index, and the keys that it reads from there.
//!
//! Neighbours: `read` encodes keys and scans what comes out. **Invariants**: pure; a place is told by keys alone, so
//! it has a meaning when the entry that it was found at is gone; "above" and "below" are those of the index's order,
//! in which a DESC part runs backwards, as in MySQL.

use std::ops::Bound;

use esker_engine::Direction;
use esker_sql_catalog::codec::{KeyRange, prefix_successor};
use esker_sql_syntax::ast::KeySearch;

/// A place in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spot {
    /// At this entry.
    At(Vec<u8>),
    /// Between what lies below this key and the rest.
    Before(Vec<u8>),
    /// Behind everything.
    End,
}

/// Where to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goal {
    First,
    Next,
    Prev,
    Last,
    /// Entries by their first parts.
    Key(KeySearch, Vec<u8>),
}

/// What is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Walk {
    /// `None`: nothing is there.
    pub(super) range: Option<KeyRange>,
    pub(super) direction: Direction,
    /// Where the handler stands when nothing more is found.
    pub(super) end: Spot,
}

impl Spot {
    /// Before everything.
    fn start() -> Self {
        Self::Before(Vec::new())
    }

    /// Behind everything that begins with `prefix`.
    fn behind(mut prefix: Vec<u8>) -> Self {
        match prefix_successor(&mut prefix) {
            true => Self::Before(prefix),
            false => Self::End,
        }
    }

    fn forward(self) -> Walk {
        let lower = match self {
            Self::At(key) => Some(Bound::Excluded(key)),
            Self::Before(key) if key.is_empty() => Some(Bound::Unbounded),
            Self::Before(key) => Some(Bound::Included(key)),
            Self::End => None,
        };
        let upper = Bound::Unbounded;
        Walk {
            range: lower.map(|lower| KeyRange { lower, upper }),
            direction: Direction::Forward,
            end: Self::End,
        }
    }

    fn backward(self) -> Walk {
        let upper = match self {
            Self::At(key) => Some(Bound::Excluded(key)),
            Self::Before(key) if key.is_empty() => None,
            Self::Before(key) => Some(Bound::Excluded(key)),
            Self::End => Some(Bound::Unbounded),
        };
        let lower = Bound::Unbounded;
        Walk {
            range: upper.map(|upper| KeyRange { lower, upper }),
            direction: Direction::Backward,
            end: Self::start(),
        }
    }
}

/// What is read by a handler that stands there; `None`: nowhere in this index.
pub(super) fn walk(stands: Option<&Spot>, goal: Goal) -> Walk {
    match goal {
        Goal::First => Spot::start().forward(),
        Goal::Last => Spot::End.backward(),
        Goal::Next => stands.cloned().unwrap_or_else(Spot::start).forward(),
        Goal::Prev => stands.cloned().unwrap_or(Spot::End).backward(),
        Goal::Key(KeySearch::Equal, key) => Walk {
            range: Some(KeyRange::prefix(key.clone())),
            direction: Direction::Forward,
            end: Spot::behind(key),
        },
        Goal::Key(KeySearch::AtLeast, key) => Spot::Before(key).forward(),
        Goal::Key(KeySearch::Above, key) => Spot::behind(key).forward(),
        Goal::Key(KeySearch::AtMost, key) => Spot::behind(key).backward(),
        Goal::Key(KeySearch::Below, key) => Spot::Before(key).backward(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a handler finds among these entries, one after the other, and where it stands then.
    fn found(entries: &[&str], stands: Option<&Spot>, goal: Goal) -> (Vec<String>, Spot) {
        let walk = walk(stands, goal);
        let Some(range) = &walk.range else {
            return (Vec::new(), walk.end);
        };
        let is_in = |entry: &&&str| {
            let key = entry.as_bytes();
            let above = match range.lower() {
                Bound::Included(k) => key >= k,
                Bound::Excluded(k) => key > k,
                Bound::Unbounded => true,
            };
            let below = match range.upper() {
                Bound::Included(k) => key <= k,
                Bound::Excluded(k) => key < k,
                Bound::Unbounded => true,
            };
            above && below
        };
        let mut found: Vec<String> = entries
            .iter()
            .filter(is_in)
            .map(|e| e.to_string())
            .collect();
        if walk.direction == Direction::Backward {
            found.reverse();
        }
        (found, walk.end)
    }

    const ENTRIES: &[&str] = &["a1", "b1", "b2", "c1"];

    fn key(search: KeySearch, key: &str) -> Goal {
        Goal::Key(search, key.as_bytes().to_vec())
    }

    #[test]
    fn keys_are_found_by_their_first_parts() {
        let read = |search, text| found(ENTRIES, None, key(search, text)).0.join(" ");
        assert_eq!(read(KeySearch::Equal, "b"), "b1 b2");
        assert_eq!(read(KeySearch::AtLeast, "b"), "b1 b2 c1");
        assert_eq!(read(KeySearch::Above, "b"), "c1");
        assert_eq!(read(KeySearch::AtMost, "b"), "b2 b1 a1");
        assert_eq!(read(KeySearch::Below, "b"), "a1");
        assert_eq!(read(KeySearch::Equal, "x"), "");
        assert_eq!(read(KeySearch::Below, "a"), "");
    }

    #[test]
    fn a_search_that_ends_leaves_a_gap_to_go_on_from() {
        let after = |goal| found(ENTRIES, None, goal).1;
        let next = |stands: &Spot| found(ENTRIES, Some(stands), Goal::Next).0.join(" ");
        let prev = |stands: &Spot| found(ENTRIES, Some(stands), Goal::Prev).0.join(" ");
        let gap = after(key(KeySearch::Equal, "b"));
        assert_eq!((&*next(&gap), &*prev(&gap)), ("c1", "b2 b1 a1"));
        let end = after(Goal::First);
        assert_eq!((&*next(&end), &*prev(&end)), ("", "c1 b2 b1 a1"));
        let start = after(Goal::Last);
        assert_eq!((&*next(&start), &*prev(&start)), ("a1 b1 b2 c1", ""));
    }

    #[test]
    fn an_entry_that_is_gone_is_a_place_still() {
        let gone = Spot::At(b"b15".to_vec());
        assert_eq!(found(ENTRIES, Some(&gone), Goal::Next).0, ["b2", "c1"]);
        assert_eq!(found(ENTRIES, Some(&gone), Goal::Prev).0, ["b1", "a1"]);
        let there = Spot::At(b"b1".to_vec());
        assert_eq!(found(ENTRIES, Some(&there), Goal::Next).0, ["b2", "c1"]);
    }

    #[test]
    fn a_key_without_a_successor_has_nothing_behind_it() {
        let goal = Goal::Key(KeySearch::Above, vec![u8::MAX]);
        assert_eq!(walk(None, goal).range, None);
    }
}
