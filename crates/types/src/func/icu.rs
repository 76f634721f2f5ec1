//! ICU's regular expression syntax, checked and written in the dialect of the crates that search.
//!
//! [`translate`] walks over a pattern once, as ICU's compiler does, and raises MySQL's error where ICU would refuse it.
//! Flags but `i` are resolved here: what it writes means the same whatever the engine's own flags are.
//! Neighbours: `icu/set` has bracket expressions, `icu/escape` what follows a backslash; `pattern` and `backtrack`
//! compile what comes out.
//!
//! **Invariants**: every character that is not a letter or digit of ASCII is written so that no dialect reads an
//! operator in it; groups keep their numbers; nothing here recurses deeper than [`MOST_NESTED`].

mod escape;
mod set;

pub(super) use escape::illegal_argument;

use super::pattern::error;
use crate::error::{SqlError, SqlResult};

/// Groups, or brackets, inside one another.
const MOST_NESTED: usize = 99;
/// Bounds of `{n,m}` are below.
const INTERVAL_END: u32 = 0x00ff_ffff;
/// Line terminators, inside brackets.
const TERMINATORS: &str = r"\n\x0B\x0C\r\x{85}\x{2028}\x{2029}";

/// The modes that change what a pattern means, as they are at one place of it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Modes {
    pub(super) multi_line: bool,
    pub(super) dot_all: bool,
    /// Only a line feed ends a line.
    pub(super) unix_lines: bool,
    /// White space and comments mean nothing.
    pub(super) free_spacing: bool,
}

/// A pattern in the dialect of the engines.
pub(super) struct Translated {
    pub(super) text: String,
    /// It has look-around, back references or atomic parts: no automaton can search for it.
    pub(super) needs_backtracking: bool,
    /// It has a `$` or `\Z` that also matches before a last line terminator; written for automata it matches at the
    /// end only.
    pub(super) ends_before_terminator: bool,
}

/// Writes `pattern` for automata, or with look-around where `exact`.
///
/// # Errors
/// MySQL's, for what ICU refuses.
pub(super) fn translate(pattern: &str, modes: Modes, exact: bool) -> SqlResult<Translated> {
    let mut reader = Reader::new(pattern, modes, exact);
    while reader.item()? {}
    reader.finish()
}

/// Does a text in UTF-8 end with what ICU takes for the end of a line?
pub(super) fn ends_with_terminator(text: &[u8]) -> bool {
    matches!(
        text,
        [.., b'\n'..=b'\r'] | [.., 0xc2, 0x85] | [.., 0xe2, 0x80, 0xa8 | 0xa9]
    )
}

fn is_terminator(ch: char) -> bool {
    matches!(ch, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// 3691.
fn mismatched() -> SqlError {
    error(3691, "Mismatched parenthesis in regular expression.")
}

/// 3887.
fn bad_name() -> SqlError {
    error(3887, "A capture group has an invalid name.")
}

/// 3692.
fn bad_interval() -> SqlError {
    let message = "Incorrect description of a {min,max} interval.";
    error(3692, message)
}

/// 3687.
fn too_deep() -> SqlError {
    let message = "Internal error in the regular expression library.";
    error(3687, message)
}

/// An open group.
struct Group {
    /// Where it begins in what has been written.
    start: usize,
    /// As they were before it.
    modes: Modes,
    /// Look-around is nothing that can be repeated.
    is_look: bool,
    is_behind: bool,
}

struct Reader {
    pattern: Vec<char>,
    at: usize,
    modes: Modes,
    exact: bool,
    out: String,
    /// Where what a quantifier would repeat begins.
    atom: Option<usize>,
    groups: Vec<Group>,
    captures: usize,
    names: Vec<String>,
    /// The largest number that is referred to.
    referred: usize,
    needs_backtracking: bool,
    ends_before_terminator: bool,
}

impl Reader {
    fn new(pattern: &str, modes: Modes, exact: bool) -> Self {
        Self {
            pattern: pattern.chars().collect(),
            at: 0,
            modes,
            exact,
            out: String::with_capacity(pattern.len() * 2),
            atom: None,
            groups: Vec::new(),
            captures: 0,
            names: Vec::new(),
            referred: 0,
            needs_backtracking: false,
            ends_before_terminator: false,
        }
    }

    fn peek(&self) -> Option<char> {
        self.pattern.get(self.at).copied()
    }

    /// The next character as it is.
    fn raw(&mut self) -> Option<char> {
        let ch = self.peek()?;
        self.at += 1;
        Some(ch)
    }

    /// The next character that means something.
    fn next(&mut self) -> Option<char> {
        self.skip_space();
        self.raw()
    }

    fn skip_space(&mut self) {
        while self.modes.free_spacing {
            match self.peek() {
                Some(ch) if ch.is_whitespace() => self.at += 1,
                Some('#') => {
                    let rest = &self.pattern[self.at..];
                    let comment = rest.iter().position(|&ch| is_terminator(ch));
                    self.at += comment.unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// 3688 at the character that was read last.
    fn syntax_error(&self) -> SqlError {
        let read = &self.pattern[..self.at];
        let before = read.split_last().map_or(read, |(_, before)| before);
        let is_end = |ch: &&char| matches!(**ch, '\n' | '\r' | '\u{85}' | '\u{2028}');
        let line = before.iter().filter(is_end).count() + 1;
        let column = before.iter().rev().take_while(|ch| !is_end(ch)).count() + 1;
        let message =
            format!("Syntax error in regular expression on line {line}, character {column}.");
        error(3688, &message)
    }

    fn literal(&mut self, ch: char) {
        self.atom = Some(self.out.len());
        write_literal(&mut self.out, ch);
    }

    /// Writes something that stands for characters.
    fn class(&mut self, text: &str) {
        self.atom = Some(self.out.len());
        self.out.push_str(text);
    }

    /// Reads and writes the next item; `false` at the end.
    fn item(&mut self) -> SqlResult<bool> {
        let Some(ch) = self.next() else {
            return Ok(false);
        };
        match ch {
            '(' => self.open()?,
            ')' => self.close()?,
            '|' => {
                self.atom = None;
                self.out.push('|');
            }
            '*' | '+' | '?' | '{' => self.quantifier(ch)?,
            '[' => {
                let set = self.set(0)?;
                self.class(&set);
            }
            '.' => self.dot(),
            '^' => self.line_start(),
            '$' => self.line_end(),
            '\\' => self.escape()?,
            '}' => return Err(self.syntax_error()),
            ch => self.literal(ch),
        }
        Ok(true)
    }

    fn finish(self) -> SqlResult<Translated> {
        if !self.groups.is_empty() {
            return Err(mismatched());
        }
        if self.referred > self.captures {
            return Err(error(3694, "Invalid back-reference in regular expression."));
        }
        Ok(Translated {
            text: self.out,
            needs_backtracking: self.needs_backtracking,
            ends_before_terminator: self.ends_before_terminator,
        })
    }

    fn dot(&mut self) {
        let text = match self.modes {
            Modes { dot_all: true, .. } => "(?s:.)".to_owned(),
            Modes {
                unix_lines: true, ..
            } => r"[^\n]".to_owned(),
            _ => format!("[^{TERMINATORS}]"),
        };
        self.class(&text);
    }

    fn line_start(&mut self) {
        let text = match (self.modes.multi_line, self.modes.unix_lines, self.exact) {
            (false, ..) => r"(?:\A)".to_owned(),
            (true, true, true) => r"(?:\A|(?<=\n)(?!\z))".to_owned(),
            (true, false, true) => {
                format!(r"(?:\A|(?<=[{TERMINATORS}])(?!(?<=\r)\n)(?!\z))")
            }
            (true, true, false) => "(?m:^)".to_owned(),
            (true, false, false) => "(?Rm:^)".to_owned(),
        };
        self.class(&text);
    }

    fn line_end(&mut self) {
        self.ends_before_terminator |= !self.modes.multi_line;
        let text = match (self.modes.multi_line, self.modes.unix_lines, self.exact) {
            (true, true, true) => r"(?=\n|\z)".to_owned(),
            (true, false, true) => format!(r"(?:(?=[{TERMINATORS}]|\z)(?!(?<=\r)\n))"),
            (true, true, false) => "(?m:$)".to_owned(),
            (true, false, false) => "(?Rm:$)".to_owned(),
            (false, ..) => self.last_line_end(),
        };
        self.class(&text);
    }

    /// The end of the text, or the place before a line terminator there.
    fn last_line_end(&self) -> String {
        match (self.exact, self.modes.unix_lines) {
            (false, _) => r"(?:\z)".to_owned(),
            (true, true) => r"(?=\n?\z)".to_owned(),
            (true, false) => {
                format!(r"(?:(?=\r\n\z|[{TERMINATORS}]?\z)(?!(?<=\r)\n\z))")
            }
        }
    }

    /// `*`, `+`, `?` or `{n,m}`, and the `?` or `+` behind it.
    fn quantifier(&mut self, ch: char) -> SqlResult<()> {
        let Some(start) = self.atom.take() else {
            return Err(self.syntax_error());
        };
        let (text, is_bounded) = match ch {
            '{' => self.interval()?,
            ch => (ch.to_string(), ch == '?'),
        };
        if !is_bounded {
            self.refuse_unbounded()?;
        }
        self.out.push_str(&text);
        self.skip_space();
        match self.peek() {
            Some('?') => {
                self.at += 1;
                self.out.push('?');
            }
            Some('+') => {
                self.at += 1;
                self.needs_backtracking = true;
                self.out.insert_str(start, "(?>");
                self.out.push(')');
            }
            _ => {}
        }
        Ok(())
    }

    /// 3695 inside of a look-behind.
    fn refuse_unbounded(&self) -> SqlResult<()> {
        if self.groups.iter().any(|group| group.is_behind) {
            let message = "The look-behind assertion exceeds the limit in regular expression.";
            return Err(error(3695, message));
        }
        Ok(())
    }

    /// What follows `{`, and whether it has an upper bound.
    fn interval(&mut self) -> SqlResult<(String, bool)> {
        let least = self.bound()?.ok_or_else(bad_interval)?;
        match self.next() {
            Some('}') => return Ok((format!("{{{least}}}"), true)),
            Some(',') => {}
            _ => return Err(bad_interval()),
        }
        let most = self.bound()?;
        if self.next() != Some('}') {
            return Err(bad_interval());
        }
        match most {
            Some(most) if most < least => {
                let message = "The maximum is less than the minumum in a {min,max} interval.";
                Err(error(3693, message))
            }
            Some(most) => Ok((format!("{{{least},{most}}}"), true)),
            None => Ok((format!("{{{least},}}"), false)),
        }
    }

    fn bound(&mut self) -> SqlResult<Option<u32>> {
        let mut bound = None;
        loop {
            self.skip_space();
            let Some(digit) = self.peek().and_then(|ch| ch.to_digit(10)) else {
                return Ok(bound);
            };
            self.at += 1;
            let number = bound.unwrap_or(0) * 10 + digit;
            if number >= INTERVAL_END {
                let message = "Decimal number in regular expression is too large.";
                return Err(error(4007, message));
            }
            bound = Some(number);
        }
    }

    fn close(&mut self) -> SqlResult<()> {
        let group = self.groups.pop().ok_or_else(mismatched)?;
        self.modes = group.modes;
        self.out.push(')');
        self.atom = (!group.is_look).then_some(group.start);
        Ok(())
    }

    /// What follows `(`.
    fn open(&mut self) -> SqlResult<()> {
        self.skip_space();
        if self.peek() != Some('?') {
            self.captures += 1;
            return self.push("(", false, false);
        }
        self.at += 1;
        match self.next() {
            Some(':') => self.push("(?:", false, false),
            Some('>') => self.push_hard("(?>", false, false),
            Some('=') => self.push_hard("(?=", true, false),
            Some('!') => self.push_hard("(?!", true, false),
            Some('<') => self.open_angle(),
            Some('#') => self.comment(),
            Some(ch) if is_mode(ch) => self.change_modes(ch),
            _ => Err(self.syntax_error()),
        }
    }

    fn push(&mut self, text: &str, is_look: bool, is_behind: bool) -> SqlResult<()> {
        if self.groups.len() >= MOST_NESTED {
            return Err(too_deep());
        }
        self.groups.push(Group {
            start: self.out.len(),
            modes: self.modes,
            is_look,
            is_behind,
        });
        self.out.push_str(text);
        self.atom = None;
        Ok(())
    }

    /// A group that no automaton knows.
    fn push_hard(&mut self, text: &str, is_look: bool, is_behind: bool) -> SqlResult<()> {
        self.needs_backtracking = true;
        self.push(text, is_look, is_behind)
    }

    /// What follows `(?<`: look-behind, or a name.
    fn open_angle(&mut self) -> SqlResult<()> {
        match self.next() {
            Some('=') => return self.push_hard("(?<=", true, true),
            Some('!') => return self.push_hard("(?<!", true, true),
            Some(ch) if ch.is_ascii_alphabetic() => self.at -= 1,
            _ => return Err(self.syntax_error()),
        }
        let name = self.name()?;
        if self.names.contains(&name) {
            return Err(bad_name());
        }
        self.captures += 1;
        let text = format!("(?<{name}>");
        self.names.push(name);
        self.push(&text, false, false)
    }

    /// A group's name up to its `>`.
    fn name(&mut self) -> SqlResult<String> {
        let mut name = String::new();
        loop {
            match self.raw() {
                Some(ch) if ch.is_ascii_alphanumeric() => name.push(ch),
                Some('>') if !name.is_empty() => return Ok(name),
                _ => return Err(bad_name()),
            }
        }
    }

    fn comment(&mut self) -> SqlResult<()> {
        loop {
            match self.raw() {
                Some(')') => return Ok(()),
                // Numbers of characters are read here, too.
                Some('\\') if matches!(self.peek(), Some('0' | 'u' | 'U' | 'x')) => {
                    let letter = self.raw().ok_or_else(mismatched)?;
                    self.character(letter)?;
                }
                Some(_) => {}
                None => return Err(mismatched()),
            }
        }
    }

    /// `(?ims-x)` or `(?ims-x:`, from its first letter.
    fn change_modes(&mut self, first: char) -> SqlResult<()> {
        let (mut modes, mut is_on, mut ignore_case) = (self.modes, true, None);
        let mut mode = Some(first);
        let is_group = loop {
            match mode {
                Some('-') => is_on = false,
                Some('i') => ignore_case = Some(is_on),
                Some('m') => modes.multi_line = is_on,
                Some('s') => modes.dot_all = is_on,
                Some('d') => modes.unix_lines = is_on,
                Some('x') => modes.free_spacing = is_on,
                Some('u' | 'w') => {}
                Some(':') => break true,
                Some(')') => break false,
                _ => {
                    let message = "Invalid match mode flag in regular expression.";
                    return Err(error(3900, message));
                }
            }
            mode = self.next();
        };
        let case = match ignore_case {
            None => "",
            Some(true) => "i",
            Some(false) => "-i",
        };
        self.atom = None;
        if is_group {
            self.push(&format!("(?{case}:"), false, false)?;
        } else if !case.is_empty() {
            self.out.push_str(&format!("(?{case})"));
        }
        self.modes = modes;
        Ok(())
    }
}

fn is_mode(ch: char) -> bool {
    matches!(ch, 'i' | 'm' | 's' | 'd' | 'x' | 'u' | 'w' | '-')
}

/// Writes a character so that it is one in every dialect, inside of brackets, too.
fn write_literal(out: &mut String, ch: char) {
    match ch.is_ascii() && !ch.is_ascii_alphanumeric() {
        true => out.push_str(&format!("\\x{{{:x}}}", u32::from(ch))),
        false => out.push(ch),
    }
}

#[cfg(test)]
mod tests;
