//! Regular expressions that no automaton can search for, with look-around or back references: by backtracking, within
//! bounds.
//!
//! In flow order: [`Backtracking`] (a compiled pattern), then [`Matcher`], [`Finder`] and [`Found`], which are that or
//! what `pattern` has. Neighbours: `icu` translates; `pattern` is the normal path, for it takes time in proportion to
//! the text; crate `fancy-regex` backtracks; `regexp` has the SQL functions.
//! **Invariants**: a search that goes on for longer than `regexp_time_limit` allows is error 3699. It cannot be stopped
//! meanwhile, so a text has at most [`MOST_TEXT`] bytes and a search at most [`MOST_STEPS`] steps.

use std::ops::Range;

use fancy_regex::{CompileError, Error, Regex, RegexBuilder, RuntimeError};

use super::icu::{illegal_argument, translate};
use super::pattern::{Groups, Key, MAX_PATTERN, Pattern, Search, TOO_COMPLEX, error, out_of_time};
use crate::ctx::SessionInfo;
use crate::error::{SqlError, SqlResult};

/// Steps of backtracking that are one of regexp_time_limit, as in ICU.
const STEP: u64 = 10_000;
/// Most steps, also where regexp_time_limit is 0.
const MOST_STEPS: u64 = 2_000_000;
/// Longest text, bytes: its parts without look-around are searched at every step.
pub(super) const MOST_TEXT: usize = 32 * 1024;
/// Most bytes of the automata of those parts.
const MOST_COMPILED: usize = 2 << 20;

/// A compiled pattern.
pub(super) struct Backtracking {
    key: Key,
    regex: Regex,
}

fn refusal(e: &Error) -> SqlError {
    match e {
        Error::RuntimeError(RuntimeError::BacktrackLimitExceeded) => out_of_time(),
        Error::RuntimeError(_) => {
            error(3698, "Overflow in the regular expression backtrack stack.")
        }
        Error::CompileError(e) if matches!(**e, CompileError::LookBehindNotConst) => error(
            3695,
            "The look-behind assertion exceeds the limit in regular expression.",
        ),
        Error::CompileError(e) if e.to_string().contains("Unicode property") => illegal_argument(),
        _ => error(3700, TOO_COMPLEX),
    }
}

impl Backtracking {
    fn compile(key: Key, text: &str, session: &dyn SessionInfo) -> SqlResult<Self> {
        session.go_on(MOST_COMPILED)?;
        let text = match key.ignore_case {
            true => format!("(?i:{text})"),
            false => text.to_owned(),
        };
        let steps = match key.steps {
            0 => MOST_STEPS,
            steps => steps.saturating_mul(STEP).min(MOST_STEPS),
        };
        let built = RegexBuilder::new(&text)
            .backtrack_limit(steps as usize)
            .delegate_size_limit(MOST_COMPILED)
            .build();
        let regex = built.map_err(|e| refusal(&e))?;
        Ok(Self { key, regex })
    }

    /// The groups of the first match at `from` or behind it.
    fn captures(
        &self,
        text: &str,
        from: usize,
        session: &dyn SessionInfo,
    ) -> SqlResult<Option<Vec<Option<Range<usize>>>>> {
        if text.len() > MOST_TEXT {
            return Err(out_of_time());
        }
        session.go_on(text.len().saturating_mul(text.len()) / 64)?;
        let found = self
            .regex
            .captures_from_pos(text, from)
            .map_err(|e| refusal(&e))?;
        Ok(found.map(|found| {
            let groups = (0..found.len()).map(|n| found.get(n).map(|m| m.start()..m.end()));
            groups.collect()
        }))
    }
}

/// A compiled pattern of either kind.
pub(super) enum Matcher {
    Linear(Box<Pattern>),
    Backtracking(Box<Backtracking>),
}

impl Matcher {
    /// # Errors
    /// MySQL's, for what is wrong with the pattern or makes it too large.
    pub(super) fn compile(key: Key, session: &dyn SessionInfo) -> SqlResult<Self> {
        if key.pattern.is_empty() {
            return Err(illegal_argument());
        }
        if key.pattern.len() > MAX_PATTERN {
            return Err(error(3700, TOO_COMPLEX));
        }
        let read = translate(&key.pattern, key.modes, false)?;
        let is_hard =
            read.needs_backtracking || (key.before_terminator && read.ends_before_terminator);
        if !is_hard {
            let pattern = Pattern::compile(key, &read.text, session)?;
            return Ok(Self::Linear(Box::new(pattern)));
        }
        let read = translate(&key.pattern, key.modes, true)?;
        let pattern = Backtracking::compile(key, &read.text, session)?;
        Ok(Self::Backtracking(Box::new(pattern)))
    }

    pub(super) fn key(&self) -> &Key {
        match self {
            Self::Linear(pattern) => pattern.key(),
            Self::Backtracking(pattern) => &pattern.key,
        }
    }

    /// Begins to search in a text.
    pub(super) fn search<'a>(&'a self, text: &'a str, session: &'a dyn SessionInfo) -> Finder<'a> {
        match self {
            Self::Linear(pattern) => Finder::Linear(pattern.search(text, session)),
            Self::Backtracking(pattern) => Finder::Backtracking {
                pattern,
                text,
                session,
            },
        }
    }
}

/// Searches in one text.
pub(super) enum Finder<'a> {
    Linear(Search<'a>),
    Backtracking {
        pattern: &'a Backtracking,
        text: &'a str,
        session: &'a dyn SessionInfo,
    },
}

impl<'a> Finder<'a> {
    pub(super) fn text(&self) -> &'a str {
        match self {
            Self::Linear(search) => search.text(),
            Self::Backtracking { text, .. } => text,
        }
    }

    /// The first match that begins at `from`, a character's border, or behind it.
    pub(super) fn first(&mut self, from: usize) -> SqlResult<Option<Range<usize>>> {
        match self {
            Self::Linear(search) => search.first(from),
            Self::Backtracking {
                pattern,
                text,
                session,
            } => {
                let found = pattern.captures(text, from, *session)?;
                Ok(found.and_then(|groups| groups.into_iter().next().flatten()))
            }
        }
    }

    /// The end of the first match: what is enough to know whether there is one.
    pub(super) fn end_of_first(&mut self, from: usize) -> SqlResult<Option<usize>> {
        match self {
            Self::Linear(search) => search.end_of_first(from),
            Self::Backtracking { .. } => Ok(self.first(from)?.map(|m| m.end)),
        }
    }

    /// The groups of a match that has been found.
    pub(super) fn groups(&mut self, found: Range<usize>) -> SqlResult<Found<'a>> {
        match self {
            Self::Linear(search) => search.groups(found).map(Found::Linear),
            Self::Backtracking {
                pattern,
                text,
                session,
            } => {
                let groups = pattern.captures(text, found.start, *session)?;
                Ok(Found::Backtracking {
                    pattern,
                    groups: groups.unwrap_or_default(),
                    text,
                })
            }
        }
    }
}

/// The groups of a match.
pub(super) enum Found<'a> {
    Linear(Groups<'a>),
    Backtracking {
        pattern: &'a Backtracking,
        groups: Vec<Option<Range<usize>>>,
        text: &'a str,
    },
}

impl Found<'_> {
    /// How many there are, the whole match included.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Linear(groups) => groups.count(),
            Self::Backtracking { groups, .. } => groups.len(),
        }
    }

    pub(super) fn named(&self, name: &str) -> Option<usize> {
        match self {
            Self::Linear(groups) => groups.named(name),
            Self::Backtracking { pattern, .. } => {
                let mut names = pattern.regex.capture_names();
                names.position(|other| other == Some(name))
            }
        }
    }

    /// Empty if the group took no part in the match.
    pub(super) fn text_of(&self, number: usize) -> &str {
        match self {
            Self::Linear(groups) => groups.text_of(number),
            Self::Backtracking { groups, text, .. } => {
                let place = groups.get(number).cloned().flatten();
                place.map_or("", |place| &text[place])
            }
        }
    }
}
