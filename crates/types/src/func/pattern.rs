//! Regular expressions: compiled patterns, and searches that can be stopped.
//!
//! Neighbours: `icu` checks and translates patterns; `backtrack` does what automata cannot; `regexp` has the SQL
//! functions; crate `regex-automata` compiles, and makes the states of automata.
//!
//! A search is driven from here, byte by byte through a DFA whose states are made when they are first met, so that a
//! statement can be killed in the middle of it: a text of some MB and a pattern whose states never repeat take minutes.
//! The first match is found by a forward DFA, which gives its end, and a reverse one, which gives its start.
//! What no DFA can do, Unicode's word boundaries beside bytes beyond ASCII and the places of groups, is left to the
//! engine that simulates the NFA; it cannot be stopped, so it is only used where it is short.
//!
//! **Invariants**
//! - No call goes on for longer than [`CHUNK`] steps without asking `SessionInfo::go_on`; what cannot ask takes at most
//!   [`MOST_BLIND`] steps.
//! - Compiling a pattern is bounded by [`MOST_COMPILED`], whatever regexp_stack_limit allows.

use std::cell::RefCell;
use std::ops::Range;

use regex_automata::hybrid::dfa::{Builder, Cache, Config, DFA};
use regex_automata::hybrid::{CacheError, LazyStateID};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchError, MatchKind, PatternID};

use super::icu::{Modes, illegal_argument};
use crate::ctx::SessionInfo;
use crate::error::{SqlError, SqlResult};

/// Longest pattern, bytes: reading it takes time, too.
pub(super) const MAX_PATTERN: usize = 64 * 1024;
/// A pattern is compiled with room for so many bytes first, then for [`GROWTH`] times as many: so its size is known.
const LEAST_COMPILED: usize = 4 * 1024;
const GROWTH: usize = 4;
/// Most bytes of a compiled pattern.
const MOST_COMPILED: usize = 2 << 20;
/// Compiling is as long as work on so many bytes for each byte of room.
const COMPILING: usize = 16;
/// Bytes of a compiled pattern that are about one instruction.
const INSTRUCTION: usize = 40;
/// Bytes that states of a DFA may take before they are forgotten.
const STATES: usize = 1 << 20;
/// What regexp_time_limit counts in: bytes of the text, however often they are looked at, and bytes of states made.
const STEP: u64 = 4 << 20;
/// Steps of the slowest search, bytes times instructions, between two questions whether to go on.
const CHUNK: usize = 256 * 1024;
/// Most bytes between two questions.
const MOST_BYTES: usize = 4096;
/// Steps that are taken without asking, at most: about a tenth of a second.
const MOST_BLIND: u64 = 4 << 20;

pub(super) fn error(code: u16, message: &str) -> SqlError {
    SqlError::new(code, "HY000", message)
}

/// 3699.
pub(super) fn out_of_time() -> SqlError {
    error(3699, "Timeout exceeded in regular expression match.")
}

/// What decides how a pattern is compiled.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Key {
    pub(super) pattern: String,
    pub(super) ignore_case: bool,
    pub(super) modes: Modes,
    /// The text ends with a line terminator, before which `$` matches as well.
    pub(super) before_terminator: bool,
    /// regexp_time_limit.
    pub(super) steps: u64,
}

/// A compiled pattern, for one thread.
pub(super) struct Pattern {
    key: Key,
    vm: PikeVM,
    forward: DFA,
    reverse: DFA,
    /// Instructions, about.
    size: usize,
    work: RefCell<Work>,
}

/// What searches leave behind for the next one.
struct Work {
    forward: Cache,
    reverse: Cache,
    /// Made when it is first needed.
    vm: Option<pikevm::Cache>,
}

impl Pattern {
    /// Compiles a pattern that was translated to `text`.
    ///
    /// # Errors
    /// MySQL's, for what makes the pattern too large or is not known.
    pub(super) fn compile(key: Key, text: &str, session: &dyn SessionInfo) -> SqlResult<Self> {
        let limit = session.regexp_limits().bytes;
        let most = usize::try_from(limit).map_or(MOST_COMPILED, |limit| limit.min(MOST_COMPILED));
        let mut room = LEAST_COMPILED.min(most);
        loop {
            session.go_on(room.max(key.pattern.len()) * COMPILING)?;
            match program(&key, text, room, false) {
                Ok(nfa) => return Self::of(key, text, nfa, room),
                Err(e) if e.size_limit().is_some() && room < most => {
                    room = room.saturating_mul(GROWTH).min(most);
                }
                Err(e) => return Err(refusal(&e)),
            }
        }
    }

    fn of(key: Key, text: &str, nfa: NFA, room: usize) -> SqlResult<Self> {
        // Backwards it may be somewhat larger.
        let backward = program(&key, text, room * GROWTH, true).map_err(|e| refusal(&e))?;
        let too_large = |_| error(3698, OVERFLOW);
        let config = Config::new()
            .unicode_word_boundary(true)
            .cache_capacity(STATES)
            .skip_cache_capacity_check(true);
        let forward = Builder::new()
            .configure(config.clone())
            .build_from_nfa(nfa.clone())
            .map_err(too_large)?;
        let reverse = Builder::new()
            .configure(config.match_kind(MatchKind::All))
            .build_from_nfa(backward)
            .map_err(too_large)?;
        let work = Work {
            forward: forward.create_cache(),
            reverse: reverse.create_cache(),
            vm: None,
        };
        Ok(Self {
            key,
            vm: PikeVM::new_from_nfa(nfa).map_err(|e| refusal(&e))?,
            forward,
            reverse,
            size: room.div_ceil(INSTRUCTION),
            work: RefCell::new(work),
        })
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Begins to search in a text.
    pub(super) fn search<'a>(&'a self, text: &'a str, session: &'a dyn SessionInfo) -> Search<'a> {
        let limit = session.regexp_limits().steps;
        Search {
            pattern: self,
            text,
            session,
            left: match limit {
                0 => u64::MAX,
                limit => limit.saturating_mul(STEP),
            },
        }
    }
}

fn program(
    key: &Key,
    text: &str,
    room: usize,
    reverse: bool,
) -> Result<NFA, Box<thompson::BuildError>> {
    let syntax = syntax::Config::new().case_insensitive(key.ignore_case);
    let captures = match reverse {
        true => WhichCaptures::None,
        false => WhichCaptures::All,
    };
    let config = thompson::Config::new()
        .nfa_size_limit(Some(room))
        .reverse(reverse)
        .which_captures(captures);
    let compiled = NFA::compiler().syntax(syntax).configure(config).build(text);
    compiled.map_err(Box::new)
}

pub(super) const TOO_COMPLEX: &str =
    "The regular expression pattern exceeds limits on size or complexity.";
const OVERFLOW: &str = "Overflow in the regular expression backtrack stack.";

/// MySQL's error for a pattern that cannot be compiled: its syntax has been checked.
fn refusal(e: &thompson::BuildError) -> SqlError {
    match std::error::Error::source(e).map(ToString::to_string) {
        None => error(3698, OVERFLOW),
        Some(text) if text.contains("Unicode property") => illegal_argument(),
        Some(_) => error(3700, TOO_COMPLEX),
    }
}

/// Why a walk through a DFA ended without an answer.
enum Stop {
    /// It cannot say: the NFA has to be simulated.
    NoDfa,
    Failed(SqlError),
}

impl From<SqlError> for Stop {
    fn from(e: SqlError) -> Self {
        Stop::Failed(e)
    }
}

impl From<MatchError> for Stop {
    fn from(_: MatchError) -> Self {
        Stop::NoDfa
    }
}

impl From<CacheError> for Stop {
    fn from(_: CacheError) -> Self {
        Stop::NoDfa
    }
}

/// Searches in one text.
pub(super) struct Search<'a> {
    pattern: &'a Pattern,
    text: &'a str,
    session: &'a dyn SessionInfo,
    /// What of regexp_time_limit is left.
    left: u64,
}

impl<'a> Search<'a> {
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The first match that begins at `from`, a character's border, or behind it.
    pub(super) fn first(&mut self, from: usize) -> SqlResult<Option<Range<usize>>> {
        let ended = match self.forward(from) {
            Ok(None) => return Ok(None),
            Ok(Some(end)) => self.backward(from, end),
            Err(stop) => Err(stop),
        };
        match ended {
            Ok(found) => Ok(Some(found)),
            Err(Stop::Failed(e)) => Err(e),
            Err(Stop::NoDfa) => self.simulate(from..self.text.len(), Anchored::No, |captures| {
                captures.get_match().map(|m| m.range())
            }),
        }
    }

    /// The end of the first match: what is enough to know whether there is one.
    pub(super) fn end_of_first(&mut self, from: usize) -> SqlResult<Option<usize>> {
        match self.forward(from) {
            Ok(end) => Ok(end),
            Err(Stop::Failed(e)) => Err(e),
            Err(Stop::NoDfa) => self.simulate(from..self.text.len(), Anchored::No, |captures| {
                captures.get_match().map(|m| m.end())
            }),
        }
    }

    /// The groups of a match that has been found.
    pub(super) fn groups(&mut self, found: Range<usize>) -> SqlResult<Groups<'a>> {
        let captures = self.simulate(found, Anchored::Yes, |captures| Some(captures.clone()))?;
        Ok(Groups {
            captures: captures.unwrap_or_else(|| self.pattern.vm.create_captures()),
            text: self.text,
        })
    }

    fn simulate<T>(
        &mut self,
        span: Range<usize>,
        anchored: Anchored,
        answer: impl FnOnce(&Captures) -> Option<T>,
    ) -> SqlResult<Option<T>> {
        let Pattern { vm, work, size, .. } = self.pattern;
        let steps = span.len() as u64 * *size as u64;
        if steps > MOST_BLIND {
            return Err(out_of_time());
        }
        self.session
            .go_on(usize::try_from(steps / 4).unwrap_or(0))?;
        let cache = &mut work.borrow_mut().vm;
        let cache = cache.get_or_insert_with(|| vm.create_cache());
        let mut captures = vm.create_captures();
        let input = Input::new(self.text).span(span).anchored(anchored);
        vm.captures(cache, input, &mut captures);
        Ok(answer(&captures))
    }

    fn spend(&mut self, steps: usize) -> SqlResult<()> {
        let left = self.left.checked_sub(steps as u64);
        self.left = left.ok_or_else(out_of_time)?;
        Ok(())
    }

    /// Counts bytes that are about to be looked at, and asks whether the statement may go on.
    fn pay(&mut self, bytes: usize) -> SqlResult<()> {
        self.spend(bytes)?;
        // A byte may take as many steps as there are instructions, a sixteenth of them on average at the worst.
        let weight = 1 + self.pattern.size / 16;
        self.session.go_on(bytes * weight)
    }

    /// Gives back what was paid for bytes that were not looked at after all: a match may end the walk at once.
    fn refund(&mut self, bytes: usize) {
        self.left = self.left.saturating_add(bytes as u64);
    }

    /// Counts the states made since `before`.
    fn pay_states(&mut self, before: (usize, usize), cache: &Cache) -> SqlResult<()> {
        let (clears, bytes) = made(cache);
        self.spend(match clears == before.0 {
            true => bytes.saturating_sub(before.1),
            false => STATES.max(bytes),
        })
    }

    /// Bytes between two questions.
    fn chunk(&self) -> usize {
        (CHUNK / self.pattern.size).clamp(1, MOST_BYTES)
    }

    /// Where the first match ends that begins at `from` or behind it.
    fn forward(&mut self, from: usize) -> Result<Option<usize>, Stop> {
        let pattern = self.pattern;
        let cache = &mut pattern.work.borrow_mut().forward;
        let (dfa, bytes) = (&pattern.forward, self.text.as_bytes());
        let input = Input::new(bytes).span(from..bytes.len());
        let mut state = dfa.start_state_forward(cache, &input)?;
        let (mut last, mut at) = (None, from);
        while at < bytes.len() {
            let chunk = self.chunk().min(bytes.len() - at);
            self.pay(chunk)?;
            let before = made(cache);
            let end = at + chunk;
            for &byte in &bytes[at..end] {
                state = dfa.next_state(cache, state, byte)?;
                // A match is known one byte later.
                if state.is_tagged() {
                    match tagged(state)? {
                        Tag::Match if self.text.is_char_boundary(at) => last = Some(at),
                        Tag::Dead => {
                            self.refund(end - at - 1);
                            self.pay_states(before, cache)?;
                            return Ok(last);
                        }
                        Tag::Match | Tag::Other => {}
                    }
                }
                at += 1;
            }
            self.pay_states(before, cache)?;
        }
        state = dfa.next_eoi_state(cache, state)?;
        if matches!(tagged(state)?, Tag::Match) {
            last = Some(bytes.len());
        }
        Ok(last)
    }

    /// The match that ends at `end` and begins first, at `from` or behind it.
    fn backward(&mut self, from: usize, end: usize) -> Result<Range<usize>, Stop> {
        let pattern = self.pattern;
        let cache = &mut pattern.work.borrow_mut().reverse;
        let (dfa, bytes) = (&pattern.reverse, self.text.as_bytes());
        let input = Input::new(bytes).span(from..end).anchored(Anchored::Yes);
        let mut state = dfa.start_state_reverse(cache, &input)?;
        let (mut first, mut at) = (end, end);
        while at > from {
            let chunk = self.chunk().min(at - from);
            self.pay(chunk)?;
            let before = made(cache);
            let end_of_chunk = at - chunk;
            for &byte in bytes[end_of_chunk..at].iter().rev() {
                state = dfa.next_state(cache, state, byte)?;
                if state.is_tagged() {
                    match tagged(state)? {
                        Tag::Match => first = at,
                        Tag::Dead => {
                            self.refund(at - end_of_chunk - 1);
                            self.pay_states(before, cache)?;
                            return Ok(first..end);
                        }
                        Tag::Other => {}
                    }
                }
                at -= 1;
            }
            self.pay_states(before, cache)?;
        }
        state = match from.checked_sub(1) {
            Some(before) => dfa.next_state(cache, state, bytes[before])?,
            None => dfa.next_eoi_state(cache, state)?,
        };
        if matches!(tagged(state)?, Tag::Match) {
            first = from;
        }
        Ok(first..end)
    }
}

/// How often states have been forgotten, and bytes of those there are.
fn made(cache: &Cache) -> (usize, usize) {
    (cache.clear_count(), cache.memory_usage())
}

/// What is special about a state.
enum Tag {
    Match,
    /// Nothing that follows changes the answer.
    Dead,
    Other,
}

fn tagged(state: LazyStateID) -> Result<Tag, Stop> {
    if state.is_quit() {
        return Err(Stop::NoDfa);
    }
    Ok(match (state.is_match(), state.is_dead()) {
        (true, _) => Tag::Match,
        (false, true) => Tag::Dead,
        (false, false) => Tag::Other,
    })
}

/// The groups of a match.
pub(super) struct Groups<'a> {
    captures: Captures,
    text: &'a str,
}

impl Groups<'_> {
    /// How many there are, the whole match included.
    pub(super) fn count(&self) -> usize {
        self.captures.group_len()
    }

    pub(super) fn named(&self, name: &str) -> Option<usize> {
        let info = self.captures.group_info();
        info.to_index(PatternID::ZERO, name)
    }

    /// Empty if the group took no part in the match.
    pub(super) fn text_of(&self, number: usize) -> &str {
        let span = self.captures.get_group(number);
        span.map_or("", |span| &self.text[span.range()])
    }
}

#[cfg(test)]
mod tests {
    use super::super::icu::translate;
    use super::*;
    use crate::ctx::NoSession;
    use crate::ctx::RegexpLimits;
    use crate::testing::Killed;

    /// One that is killed, whose patterns may take few steps until then.
    struct Hasty(Killed);

    impl SessionInfo for Hasty {
        fn go_on(&self, bytes: usize) -> SqlResult<()> {
            self.0.go_on(bytes)
        }
        fn regexp_limits(&self) -> RegexpLimits {
            RegexpLimits {
                steps: 1,
                ..RegexpLimits::default()
            }
        }
    }

    fn pattern(text: &str) -> SqlResult<Pattern> {
        let key = Key {
            pattern: text.to_owned(),
            ..Key::default()
        };
        compiled(key, &NoSession)
    }

    fn compiled(key: Key, session: &dyn SessionInfo) -> SqlResult<Pattern> {
        let read = translate(&key.pattern, key.modes, false)?;
        Pattern::compile(key, &read.text, session)
    }

    fn first(text: &str, wanted: &str, from: usize) -> Option<Range<usize>> {
        let pattern = pattern(wanted).expect("a pattern");
        let mut search = pattern.search(text, &NoSession);
        let found = search.first(from).expect("an answer");
        let end = search.end_of_first(from).expect("an answer");
        assert_eq!(found.as_ref().map(|m| m.end), end);
        found
    }

    #[test]
    fn the_first_match_is_the_leftmost_and_what_is_written_first() {
        for (text, wanted, from, found) in [
            ("xabcab", "ab|abc", 0, Some(1..3)),
            ("xabcab", "abc|ab", 0, Some(1..4)),
            ("xabcab", "ab", 2, Some(4..6)),
            ("aaa", "a+?", 0, Some(0..1)),
            ("aaa", "b*", 1, Some(1..1)),
            ("aaa", "b*$", 1, Some(3..3)),
            ("", "^$", 0, Some(0..0)),
            ("äöü", "ö", 0, Some(2..4)),
            ("äöü", ".$", 0, Some(4..6)),
            ("abc", "^b", 1, None),
            ("abc def", r"\bd", 0, Some(4..5)),
            // A word's border beside letters beyond ASCII.
            ("äb c", r"\bb", 0, None),
            ("äb c", r"\bc", 0, Some(4..5)),
            ("é", r"\B", 0, None),
        ] {
            assert_eq!(first(text, wanted, from), found, "{wanted} in {text}");
        }
    }

    #[test]
    fn classes_are_about_all_of_unicode() {
        for (text, wanted, found) in [
            ("á", "^[[:alpha:]]$", true),
            ("á", "^[[:^alpha:]]$", false),
            ("Ж", "^[:upper:]$", true),
            ("ж", "[[:upper:]]", false),
            ("٣", "[[:digit:]x]", true),
            ("-", "[[:alnum:]_-]", true),
            ("ｆ", "[[:xdigit:]]", true),
            ("a", r"\p{Cs}", false),
            ("a", r"\P{Cs}", true),
            ("a", r"[^\p{Cs}b]", true),
            ("a", r"[\P{Cs}]", true),
            ("a", "[[:^Cs:]]", true),
            ("a", "[[:Cs:]]", false),
            ("a", "[[:print:]]", true),
            (":", r"\[:alpha:]", false),
            ("[lph]", r"\[[:alpha:]+\]", true),
        ] {
            assert_eq!(first(text, wanted, 0).is_some(), found, "{wanted}");
        }
    }

    #[test]
    fn a_search_can_be_stopped_everywhere() {
        let pattern = pattern("(a?){200}b").expect("a pattern");
        let text = "a".repeat(200_000);
        for questions in [0, 1, 7, 50] {
            let session = Hasty(Killed::after(questions));
            let killed = pattern.search(&text, &session).first(0);
            assert_eq!(killed.map_err(|e| e.code), Err(1317));
        }
        // So can compiling, and the walk from the end of a match to where it begins.
        let key = |pattern: &str| Key {
            pattern: pattern.to_owned(),
            ..Key::default()
        };
        let large = compiled(key(r"\w{30}"), &Hasty(Killed::after(2)));
        assert_eq!(large.map(|_| ()).map_err(|e| e.code), Err(1317));
        let whole = super::tests::pattern("^a*$").expect("a pattern");
        let mut questions = 0;
        while whole
            .search(&text, &Hasty(Killed::after(questions)))
            .first(0)
            .is_err()
        {
            questions += 1;
        }
        let both_ways = 2 * text.len() / MOST_BYTES;
        assert!(questions as usize >= both_ways, "{questions}");
    }

    #[test]
    fn what_is_too_much_is_refused() {
        assert_eq!(pattern(r"(\w{100}){100}").err().map(|e| e.code), Some(3698));
        let session = Hasty(Killed::after(u32::MAX));
        // So is making ever new states.
        let varied = pattern("a(a|b){200}c").expect("a pattern");
        let mut bits = 1_u64;
        let text: String = std::iter::repeat_with(|| {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if bits >> 63 == 0 { 'a' } else { 'b' }
        })
        .take(200_000)
        .collect();
        let failed = varied.search(&text, &session).first(0);
        assert_eq!(failed.map_err(|e| e.code), Err(3699));
        // Looking at everything again for every match is counted: one step is 4 Mi bytes.
        let pattern = pattern("a.*c|b").expect("a pattern");
        let text = "ab".repeat(10_000);
        let mut search = pattern.search(&text, &session);
        let mut at = 0;
        let failed = loop {
            match search.first(at) {
                Ok(found) => at = found.expect("a match").end,
                Err(e) => break e.code,
            }
        };
        assert_eq!((failed, at > 100), (3699, true));
    }

    #[test]
    fn groups_have_numbers_and_names() {
        let pattern = pattern("(?<year>[0-9]+)-([a-z]+)?(x)?").expect("a pattern");
        let mut search = pattern.search("on 2026-nov", &NoSession);
        let found = search.first(0).expect("fine").expect("a match");
        assert_eq!(found, 3..11);
        let groups = search.groups(found).expect("fine");
        assert_eq!((groups.count(), groups.named("year")), (4, Some(1)));
        let texts: Vec<_> = (0..4).map(|n| groups.text_of(n)).collect();
        assert_eq!(texts, ["2026-nov", "2026", "nov", ""]);
    }
}
