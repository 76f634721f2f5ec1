//! Regular expressions that no automaton can search for, with look-around or back references: by backtracking, within
//! bounds.
//!
//! In flow order: [`Backtracking`] (a compiled pattern), [`Attempts`] (searches with it in one text), then
//! [`Matcher`], [`Finder`] and [`Found`], which are that or what `pattern` has. Neighbours: `icu` translates;
//! `pattern` is the normal path, for it takes time in proportion to the text; crate `fancy-regex` backtracks;
//! `regexp` has the SQL functions.
//!
//! The engine cannot be stopped, and does not tell how many steps it took. So a search that is not over soon is made
//! again place by place, each of them with few steps first and with more where those are too few: between two tries
//! the statement can be killed, and how many steps the last one took is known to some degree.
//!
//! **Invariants**: searches in one text that go on for longer than `regexp_time_limit` allows are error 3699. A text
//! has at most [`MOST_TEXT`] bytes and a search at most [`MOST_STEPS`] steps.

use std::cell::OnceCell;
use std::ops::Range;

use fancy_regex::{CompileError, Error, Regex, RegexBuilder, RegexInput, RuntimeError};

use super::icu::{illegal_argument, translate};
use super::pattern::{Groups, Key, MAX_PATTERN, Pattern, Search, TOO_COMPLEX, error, out_of_time};
use crate::ctx::SessionInfo;
use crate::error::{SqlError, SqlResult};

/// Steps of backtracking that are one of regexp_time_limit, as in ICU.
const STEP: u64 = 10_000;
/// Most steps, also where regexp_time_limit is 0.
const MOST_STEPS: u64 = 2_000_000;
/// Steps of the first tries at a place; the last one may take all there are.
const FIRST_STEPS: [u64; 2] = [64, 4096];
/// Work that a try is, at least, in bytes.
const LEAST_WORK: usize = 64;
/// Work between two questions whether to go on, bytes.
const MOST_WORK: usize = 256 * 1024;
/// Longest text, bytes: its parts without look-around are searched at every step.
pub(super) const MOST_TEXT: usize = 32 * 1024;
/// Most bytes of the automata of those parts.
const MOST_COMPILED: usize = 2 << 20;

/// The groups of a match, the whole match first.
type Places = Vec<Option<Range<usize>>>;

/// A compiled pattern.
pub(super) struct Backtracking {
    key: Key,
    /// As it was translated.
    text: String,
    /// Takes the fewest steps.
    first: Regex,
    /// Take more, in ascending order, and are compiled when they are needed.
    longer: [OnceCell<Regex>; FIRST_STEPS.len()],
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
        let first = build(&text, FIRST_STEPS[0])?;
        Ok(Self {
            key,
            text,
            first,
            longer: Default::default(),
        })
    }

    /// Steps of all searches in a text.
    fn steps(&self) -> u64 {
        match self.key.steps {
            0 => MOST_STEPS,
            steps => steps.saturating_mul(STEP).min(MOST_STEPS),
        }
    }

    /// The pattern with the steps of a later try, from 1.
    fn longer(&self, try_: usize) -> SqlResult<&Regex> {
        let cell = &self.longer[try_ - 1];
        if let Some(made) = cell.get() {
            return Ok(made);
        }
        let steps = FIRST_STEPS.get(try_).copied();
        let made = build(&self.text, steps.unwrap_or_else(|| self.steps()))?;
        Ok(cell.get_or_init(|| made))
    }
}

fn build(text: &str, steps: u64) -> SqlResult<Regex> {
    let built = RegexBuilder::new(text)
        .backtrack_limit(steps as usize)
        .delegate_size_limit(MOST_COMPILED)
        .build();
    built.map_err(|e| refusal(&e))
}

/// What a try says; the outer `None` is that it had too few steps.
fn answer(regex: &Regex, input: RegexInput<'_, str>) -> SqlResult<Option<Option<Places>>> {
    match regex.captures_input(input) {
        Ok(found) => Ok(Some(found.map(|found| {
            let groups = (0..found.len()).map(|n| found.get(n).map(|m| m.start()..m.end()));
            groups.collect()
        }))),
        Err(Error::RuntimeError(RuntimeError::BacktrackLimitExceeded)) => Ok(None),
        Err(e) => Err(refusal(&e)),
    }
}

/// Searches by backtracking in one text.
pub(super) struct Attempts<'a> {
    pattern: &'a Backtracking,
    text: &'a str,
    session: &'a dyn SessionInfo,
    /// Steps that are left.
    left: u64,
    /// Work since the session was asked.
    work: usize,
}

impl<'a> Attempts<'a> {
    /// The first match at `from` or behind it.
    fn captures(&mut self, from: usize) -> SqlResult<Option<Places>> {
        if self.text.len() > MOST_TEXT {
            return Err(out_of_time());
        }
        self.ask(from)?;
        let input = RegexInput::new(self.text).from_pos(from);
        if let Some(found) = answer(&self.pattern.first, input)? {
            self.spend(1)?;
            return Ok(found);
        }
        let places = self.text[from..].char_indices().map(|(at, _)| from + at);
        for at in places.chain([self.text.len()]) {
            if let Some(found) = self.captures_at(at)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The match that begins at `at`.
    fn captures_at(&mut self, at: usize) -> SqlResult<Option<Places>> {
        let (pattern, text) = (self.pattern, self.text);
        let mut regex = &pattern.first;
        for try_ in 0..=FIRST_STEPS.len() {
            self.ask(at)?;
            if try_ > 0 {
                regex = pattern.longer(try_)?;
                // So many the last one took.
                self.spend(FIRST_STEPS[try_ - 1])?;
            }
            let input = RegexInput::new(text).from_pos(at).anchored(true);
            if let Some(found) = answer(regex, input)? {
                self.spend(1)?;
                return Ok(found);
            }
        }
        Err(out_of_time())
    }

    /// Asks now and then whether the statement may go on: a try may look at all that follows.
    fn ask(&mut self, at: usize) -> SqlResult<()> {
        self.work += (self.text.len() - at).max(LEAST_WORK);
        match self.work < MOST_WORK {
            true => Ok(()),
            false => self.session.go_on(std::mem::take(&mut self.work)),
        }
    }

    fn spend(&mut self, steps: u64) -> SqlResult<()> {
        let left = self.left.checked_sub(steps);
        self.left = left.ok_or_else(out_of_time)?;
        Ok(())
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
            Self::Backtracking(pattern) => Finder::Backtracking(Attempts {
                pattern,
                text,
                session,
                left: pattern.steps(),
                work: 0,
            }),
        }
    }
}

/// Searches in one text.
pub(super) enum Finder<'a> {
    Linear(Search<'a>),
    Backtracking(Attempts<'a>),
}

impl<'a> Finder<'a> {
    pub(super) fn text(&self) -> &'a str {
        match self {
            Self::Linear(search) => search.text(),
            Self::Backtracking(attempts) => attempts.text,
        }
    }

    /// The first match that begins at `from`, a character's border, or behind it.
    pub(super) fn first(&mut self, from: usize) -> SqlResult<Option<Range<usize>>> {
        match self {
            Self::Linear(search) => search.first(from),
            Self::Backtracking(attempts) => {
                let found = attempts.captures(from)?;
                Ok(found.and_then(|groups| groups.into_iter().next().flatten()))
            }
        }
    }

    /// The end of the first match: what is enough to know whether there is one.
    pub(super) fn end_of_first(&mut self, from: usize) -> SqlResult<Option<usize>> {
        match self {
            Self::Linear(search) => search.end_of_first(from),
            Self::Backtracking(_) => Ok(self.first(from)?.map(|m| m.end)),
        }
    }

    /// The groups of a match that has been found.
    pub(super) fn groups(&mut self, found: Range<usize>) -> SqlResult<Found<'a>> {
        match self {
            Self::Linear(search) => search.groups(found).map(Found::Linear),
            Self::Backtracking(attempts) => {
                let groups = attempts.captures_at(found.start)?;
                Ok(Found::Backtracking {
                    pattern: attempts.pattern,
                    groups: groups.unwrap_or_default(),
                    text: attempts.text,
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
        groups: Places,
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
                let mut names = pattern.first.capture_names();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctx::NoSession;
    use crate::testing::Killed;

    fn matcher(pattern: &str, steps: u64) -> Matcher {
        let key = Key {
            pattern: pattern.to_owned(),
            steps,
            ..Key::default()
        };
        Matcher::compile(key, &NoSession).expect("a pattern")
    }

    #[test]
    fn places_far_away_are_found() {
        let text = format!("{}ba", "a".repeat(1000));
        for (pattern, found) in [
            ("(?<=b)a", Some(1001..1002)),
            ("(?<=b)c", None),
            (r"(?<=b)a\z|(?!a)(b)", Some(1000..1001)),
            (r"(?<=ba)\z", Some(1002..1002)),
        ] {
            let pattern = matcher(pattern, 32);
            let mut search = pattern.search(&text, &NoSession);
            assert_eq!(search.first(0), Ok(found));
        }
    }

    #[test]
    fn a_search_can_be_stopped_between_places() {
        let pattern = matcher("(?=(x+x+)+y)z", 32);
        let text = "x".repeat(32_000);
        for questions in [0, 1, 3] {
            let session = Killed::after(questions);
            let killed = pattern.search(&text, &session).first(0);
            assert_eq!(killed.map_err(|e| e.code), Err(1317));
        }
    }

    #[test]
    fn all_searches_in_a_text_share_their_steps() {
        let pattern = matcher(r"(?:(a|b)|(?:a|c))+\1d|a", 1);
        let text = "a".repeat(8);
        let mut search = pattern.search(&text, &NoSession);
        assert_eq!(search.first(0), Ok(Some(0..1)));
        let failed = (0..1000).find_map(|_| search.first(0).err());
        assert_eq!(failed.map(|e| e.code), Some(3699));
    }
}
