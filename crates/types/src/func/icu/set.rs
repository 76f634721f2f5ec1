//! Bracket expressions of ICU's regular expressions: unions, ranges, and the operators `&&`, `--`, and `&` and `-`
//! between sets.
//!
//! Neighbours: the parent meets the bracket; `escape` has what follows a backslash.

use super::escape::{Escaped, illegal_argument, property};
use super::{MOST_NESTED, Reader, too_deep, write_literal};
use crate::error::{SqlError, SqlResult};
use crate::func::pattern::error;

/// 3696.
fn unclosed() -> SqlError {
    let message = "The regular expression contains an unclosed bracket expression.";
    error(3696, message)
}

/// 3697.
fn reversed_range() -> SqlError {
    let message = "The regular expression contains an [x-y] character range where x comes after y.";
    error(3697, message)
}

/// What of a set has been read.
#[derive(Default)]
struct Set {
    /// Operands of `&&` and `--`, each followed by its operator.
    before: String,
    /// The union that is being read.
    union: String,
    /// Was the last item a set in brackets?
    after_set: bool,
}

impl Set {
    fn push(&mut self, text: &str, is_set: bool) {
        self.union.push_str(text);
        self.after_set = is_set;
    }

    fn push_char(&mut self, ch: char) {
        write_literal(&mut self.union, ch);
        self.after_set = false;
    }

    /// The union so far, combined with a set by `&` or `-`.
    fn combine(&mut self, op: char, set: &str) {
        self.union = format!("[[{}]{op}{op}{set}]", self.union);
        self.after_set = true;
    }
}

impl Reader {
    /// What follows `[`, as a bracket expression of the engines.
    pub(super) fn set(&mut self, depth: usize) -> SqlResult<String> {
        if depth >= MOST_NESTED {
            return Err(too_deep());
        }
        if let Some(class) = self.posix_class()? {
            return Ok(class);
        }
        self.skip_space();
        let is_negated = self.peek() == Some('^');
        self.at += usize::from(is_negated);
        let mut set = Set::default();
        self.skip_space();
        if self.peek() == Some(']') {
            self.at += 1;
            self.range(']', &mut set)?;
        }
        loop {
            match self.next().ok_or_else(unclosed)? {
                ']' => break,
                ch => self.set_item(ch, &mut set, depth)?,
            }
        }
        let negation = if is_negated { "^" } else { "" };
        Ok(match set.before.is_empty() {
            true => format!("[{negation}{}]", set.union),
            false => format!("[{negation}{}[{}]]", set.before, set.union),
        })
    }

    fn set_item(&mut self, ch: char, set: &mut Set, depth: usize) -> SqlResult<()> {
        match ch {
            '[' => {
                let inner = self.set(depth + 1)?;
                set.push(&inner, true);
            }
            '&' | '-' if self.peek() == Some(ch) && (ch == '&' || !set.union.is_empty()) => {
                self.at += 1;
                self.set_operator(ch, set)?;
            }
            '&' | '-' if set.after_set && self.peek() == Some('[') => {
                self.at += 1;
                let inner = self.set(depth + 1)?;
                set.combine(ch, &inner);
            }
            '\\' if self.peek() == Some('Q') => self.quoted_in_set(set)?,
            '\\' if self.peek().is_none() => return Err(unclosed()),
            '\\' => match self.escaped()? {
                Escaped::Char(ch) => self.range(ch, set)?,
                Escaped::Class { text, .. } => set.push(&text, false),
            },
            ch => self.range(ch, set)?,
        }
        Ok(())
    }

    /// `&&` or `--`, behind its second character.
    fn set_operator(&mut self, ch: char, set: &mut Set) -> SqlResult<()> {
        if set.union.is_empty() {
            return Err(self.syntax_error());
        }
        let union = std::mem::take(&mut set.union);
        set.before.push_str(&format!("[{union}]{ch}{ch}"));
        set.after_set = false;
        self.skip_space();
        if self.peek() == Some(']') {
            self.at += 1;
            return Err(self.syntax_error());
        }
        Ok(())
    }

    /// A character, or the range that begins with it.
    fn range(&mut self, first: char, set: &mut Set) -> SqlResult<()> {
        self.skip_space();
        if self.peek() != Some('-') {
            set.push_char(first);
            return Ok(());
        }
        let last = match self.pattern.get(self.at + 1) {
            None => return Err(reversed_range()),
            // The hyphen is a character, or an operator.
            Some(']' | '[' | '-') => {
                set.push_char(first);
                return Ok(());
            }
            Some('\\') => {
                self.at += 2;
                match self.escaped()? {
                    Escaped::Char(last) => last,
                    Escaped::Class {
                        text,
                        is_property: true,
                    } => {
                        set.push_char(first);
                        set.push_char('-');
                        set.push(&text, false);
                        return Ok(());
                    }
                    Escaped::Class { .. } => return Err(self.syntax_error()),
                }
            }
            Some(&last) => {
                self.at += 2;
                last
            }
        };
        if last < first {
            return Err(reversed_range());
        }
        set.push_char(first);
        set.union.push('-');
        set.push_char(last);
        // A hyphen behind a range is a character.
        if self.peek() == Some('-') && self.pattern.get(self.at + 1) != Some(&'-') {
            self.at += 1;
            set.push_char('-');
        }
        Ok(())
    }

    /// `\Q…\E`, from its `Q`.
    fn quoted_in_set(&mut self, set: &mut Set) -> SqlResult<()> {
        self.at += 1;
        loop {
            match self.raw().ok_or_else(unclosed)? {
                '\\' if self.peek() == Some('E') => {
                    self.at += 1;
                    return Ok(());
                }
                ch => set.push_char(ch),
            }
        }
    }

    /// `:name:]` behind a bracket.
    fn posix_class(&mut self) -> SqlResult<Option<String>> {
        let rest = &self.pattern[self.at..];
        if rest.first() != Some(&':') {
            return Ok(None);
        }
        let Some(len) = rest[1..].iter().position(|&ch| matches!(ch, ':' | ']')) else {
            return Ok(None);
        };
        if rest.get(len + 1) != Some(&':') || rest.get(len + 2) != Some(&']') {
            return Ok(None);
        }
        let name: String = rest[1..=len].iter().collect();
        self.at += len + 3;
        let (negation, name) = match name.strip_prefix('^') {
            Some(name) => ("^", name),
            None => ("", name.as_str()),
        };
        if name.is_empty() {
            return Err(illegal_argument());
        }
        let members = match members(&name.to_ascii_lowercase()) {
            Some(members) => members.to_owned(),
            None => property('p', name)?,
        };
        Ok(Some(format!("[{negation}{members}]")))
    }
}

/// ICU's POSIX classes, which are about all of Unicode. Surrogates, which some leave out, are in no text.
pub(super) fn members(name: &str) -> Option<&'static str> {
    Some(match name {
        "alpha" => r"\p{Alphabetic}",
        "lower" => r"\p{Lowercase}",
        "upper" => r"\p{Uppercase}",
        "digit" => r"\p{Nd}",
        "alnum" => r"\p{Alphabetic}\p{Nd}",
        "punct" => r"\p{P}",
        "space" => r"\p{White_Space}",
        "blank" => r"\p{Zs}\t",
        "cntrl" => r"\p{Cc}",
        "xdigit" => r"\p{Nd}A-Fa-f\x{ff21}-\x{ff26}\x{ff41}-\x{ff46}",
        "graph" => r"[^\p{White_Space}\p{Cc}\p{Cn}]",
        "print" => r"[^\p{Zl}\p{Zp}\p{Cc}\p{Cn}]",
        "word" => r"\w",
        _ => return None,
    })
}
