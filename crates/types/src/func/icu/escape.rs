//! What follows a backslash in ICU's regular expressions: classes, anchors, references, and characters by number.
//!
//! Neighbours: the parent reads everything else; `set` asks [`Reader::escaped`] inside of brackets.

use super::set::members;
use super::{Reader, TERMINATORS, bad_name};
use crate::error::{SqlError, SqlResult};
use crate::func::pattern::error;

/// What a backslash and the letter behind it are, inside of brackets as outside.
pub(super) enum Escaped {
    Char(char),
    /// A class, as a bracket expression or a property; may it stand where a range would end?
    Class {
        text: String,
        is_property: bool,
    },
}

/// 3689.
fn unrecognized() -> SqlError {
    let message = "Unrecognized escape sequence in regular expression.";
    error(3689, message)
}

/// 3685.
pub(in crate::func) fn illegal_argument() -> SqlError {
    error(3685, "Illegal argument to a regular expression.")
}

impl Reader {
    /// Outside of brackets.
    pub(super) fn escape(&mut self) -> SqlResult<()> {
        match self.peek() {
            Some('Q') => return self.quoted(),
            Some('k') => return self.named_reference(),
            Some(digit @ '1'..='9') => return self.reference(digit),
            _ => {}
        }
        let anchor = match self.peek() {
            Some('A' | 'G') => Some(r"(?:\A)".to_owned()),
            Some('z') => Some(r"(?:\z)".to_owned()),
            Some('b') => Some(r"\b".to_owned()),
            Some('B') => Some(r"\B".to_owned()),
            Some('Z') => {
                self.ends_before_terminator = true;
                Some(self.last_line_end())
            }
            _ => None,
        };
        if let Some(anchor) = anchor {
            self.at += 1;
            self.out.push_str(&anchor);
            self.atom = None;
            return Ok(());
        }
        let clusters = match self.peek() {
            Some('R') => Some(format!(r"(?:\r\n|[{TERMINATORS}])")),
            Some('X') => {
                self.refuse_unbounded()?;
                Some(r"(?:\r\n|(?s:.)\p{M}*)".to_owned())
            }
            _ => None,
        };
        if let Some(text) = clusters {
            self.at += 1;
            self.class(&text);
            return Ok(());
        }
        match self.escaped()? {
            Escaped::Char(ch) => self.literal(ch),
            Escaped::Class { text, .. } => self.class(&text),
        }
        Ok(())
    }

    /// What is the same inside of brackets.
    pub(super) fn escaped(&mut self) -> SqlResult<Escaped> {
        let Some(ch) = self.raw() else {
            return Err(unrecognized());
        };
        let class = |text: &str| {
            Ok(Escaped::Class {
                text: text.to_owned(),
                is_property: false,
            })
        };
        match ch {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => class(&format!("\\{ch}")),
            'h' => class(r"[\t\p{Zs}]"),
            'H' => class(r"[^\t\p{Zs}]"),
            'v' => class(&format!("[{TERMINATORS}]")),
            'V' => class(&format!("[^{TERMINATORS}]")),
            'p' | 'P' => Ok(Escaped::Class {
                text: self.property(ch)?,
                is_property: true,
            }),
            'N' => Err(SqlError::not_supported(
                "names of characters in regular expressions",
            )),
            ch => self.character(ch).map(Escaped::Char),
        }
    }

    /// A character that is named by a letter or a number.
    pub(super) fn character(&mut self, ch: char) -> SqlResult<char> {
        match ch {
            'a' => Ok('\u{7}'),
            'e' => Ok('\u{1b}'),
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'c' => match self.raw() {
                Some(ch) => char::from_u32(u32::from(ch) & 0x1f).ok_or_else(unrecognized),
                None => Ok('c'),
            },
            '0' => self.number(8, 1..=3, 0o377),
            'u' => self.number(16, 4..=4, u32::MAX),
            'U' => self.number(16, 8..=8, u32::MAX),
            'x' if self.peek() == Some('{') => {
                self.at += 1;
                let ch = self.number(16, 1..=8, u32::MAX)?;
                match self.raw() {
                    Some('}') => Ok(ch),
                    _ => Err(unrecognized()),
                }
            }
            'x' => self.number(16, 1..=2, u32::MAX),
            ch => Ok(ch),
        }
    }

    /// The character whose code has so many digits; no digit is taken that would lead beyond `most`.
    fn number(
        &mut self,
        radix: u32,
        digits: std::ops::RangeInclusive<usize>,
        most: u32,
    ) -> SqlResult<char> {
        let (mut code, mut len) = (0_u32, 0);
        while len < *digits.end() {
            let Some(digit) = self.peek().and_then(|ch| ch.to_digit(radix)) else {
                break;
            };
            match code
                .checked_mul(radix)
                .and_then(|code| code.checked_add(digit))
            {
                Some(longer) if longer <= most => code = longer,
                _ => break,
            }
            self.at += 1;
            len += 1;
        }
        match len < *digits.start() {
            true => Err(unrecognized()),
            false => char::from_u32(code).ok_or_else(unrecognized),
        }
    }

    /// `{…}` behind `\p` or `\P`.
    fn property(&mut self, letter: char) -> SqlResult<String> {
        if self.raw() != Some('{') {
            return Err(illegal_argument());
        }
        let rest = &self.pattern[self.at..];
        let len = rest.iter().position(|&ch| ch == '}');
        let len = len.ok_or_else(illegal_argument)?;
        let name: String = rest[..len].iter().collect();
        self.at += len + 1;
        property(letter, &name)
    }

    /// `\Q…\E`, from its `Q`.
    fn quoted(&mut self) -> SqlResult<()> {
        self.at += 1;
        while let Some(ch) = self.raw() {
            if ch == '\\' && self.peek() == Some('E') {
                self.at += 1;
                break;
            }
            self.literal(ch);
        }
        Ok(())
    }

    /// `\k<name>` of a group before it, from its `k`.
    fn named_reference(&mut self) -> SqlResult<()> {
        self.at += 1;
        if self.raw() != Some('<') {
            return Err(bad_name());
        }
        let name = self.name()?;
        if !self.names.contains(&name) {
            return Err(bad_name());
        }
        self.refuse_unbounded()?;
        self.needs_backtracking = true;
        self.class(&format!("(?:\\k<{name}>)"));
        Ok(())
    }

    /// A number: more digits belong to it as long as such a group has begun.
    fn reference(&mut self, digit: char) -> SqlResult<()> {
        self.at += 1;
        let mut number = digit.to_digit(10).unwrap_or(0) as usize;
        while let Some(digit) = self.peek().and_then(|ch| ch.to_digit(10)) {
            let longer = number * 10 + digit as usize;
            if longer > self.captures {
                break;
            }
            self.at += 1;
            number = longer;
        }
        self.refuse_unbounded()?;
        self.referred = self.referred.max(number);
        self.needs_backtracking = true;
        self.class(&format!("(?:\\{number})"));
        Ok(())
    }
}

/// A property of Unicode, by name; whether there is one of this name the engine knows.
pub(super) fn property(letter: char, name: &str) -> SqlResult<String> {
    let is_name = |ch: char| ch.is_ascii_alphanumeric() || " _=:-".contains(ch);
    let known: String = name.chars().filter(|ch| !" _-".contains(*ch)).collect();
    let known = known.to_ascii_lowercase().replace(':', "=");
    let negation = if letter == 'P' { "^" } else { "" };
    match known.as_str() {
        "print" | "graph" => {
            let members = members(&known).ok_or_else(illegal_argument)?;
            return Ok(format!("[{negation}{members}]"));
        }
        // No engine knows them, for no text has any.
        "cs"
        | "surrogate"
        | "gc=cs"
        | "gc=surrogate"
        | "generalcategory=cs"
        | "generalcategory=surrogate" => {
            return Ok(match letter {
                'P' => "[^[0]&&[1]]".to_owned(),
                _ => "[[0]&&[1]]".to_owned(),
            });
        }
        _ => {}
    }
    match !name.is_empty() && name.chars().all(is_name) {
        true => Ok(format!("\\{letter}{{{name}}}")),
        false => Err(illegal_argument()),
    }
}
