//! Path expressions: `$`, `.key`, `."key"`, `.*`, `[n]`, `[last-n]`, `[m to n]`, `[*]`, `**`.
//!
//! Neighbours: `seek` follows a path; the SQL functions parse the texts.
//! **Invariants**: a path has at most [`MAX_LEGS`] legs; `**` is never the last leg; a range that counts both ends from
//! one side is not empty.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use super::Json;
use super::text::parse;
use crate::ctx::NoSession;
use crate::error::{SqlError, SqlResult};

/// Parsed paths that a thread keeps.
const KEPT_PATHS: usize = 8;
/// Bytes of the longest text that is kept; longer ones are parsed anew.
const KEPT_PATH_BYTES: usize = 256;
/// Legs of a path, each of which may be a frame of the stack when it is followed. MySQL has no limit.
const MAX_LEGS: usize = 1000;

/// A cell of an array, counted from its beginning or from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayIndex {
    /// How far from the beginning, or from the last cell.
    pub offset: u32,
    /// Counted from the last cell?
    pub from_last: bool,
}

impl ArrayIndex {
    /// The place in an array of `len` cells: below 0 before it, `len` and more behind it.
    pub fn place(self, len: usize) -> i64 {
        let offset = i64::from(self.offset);
        if self.from_last {
            len as i64 - 1 - offset
        } else {
            offset
        }
    }
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leg {
    /// `.key`
    Member(Vec<u8>),
    /// `.*`
    AnyMember,
    /// `[n]`
    Cell(ArrayIndex),
    /// `[m to n]`
    Range(ArrayIndex, ArrayIndex),
    /// `[*]`
    AnyCell,
    /// `**`
    Descend,
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    /// Its steps.
    pub legs: Vec<Leg>,
}

impl Path {
    /// May it find more than one value?
    pub fn many(&self) -> bool {
        self.legs
            .iter()
            .any(|l| !matches!(l, Leg::Member(_) | Leg::Cell(_)))
    }
}

impl fmt::Display for ArrayIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from_last, self.offset) {
            (false, n) => write!(f, "{n}"),
            (true, 0) => f.write_str("last"),
            (true, n) => write!(f, "last-{n}"),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        for leg in &self.legs {
            match leg {
                Leg::Member(key) => write!(f, ".{}", shown_key(key))?,
                Leg::AnyMember => f.write_str(".*")?,
                Leg::Cell(at) => write!(f, "[{at}]")?,
                Leg::Range(from, to) => write!(f, "[{from} to {to}]")?,
                Leg::AnyCell => f.write_str("[*]")?,
                Leg::Descend => f.write_str("**")?,
            }
        }
        Ok(())
    }
}

/// A key as a path shows it: in quotes unless it is a name.
pub(super) fn shown_key(key: &[u8]) -> String {
    let mut text = Vec::new();
    push_key(key, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Appends a key as a path shows it.
pub(super) fn push_key(key: &[u8], path: &mut Vec<u8>) {
    match is_identifier(key) {
        true => path.extend_from_slice(key),
        false => super::quote(key, path),
    }
}

/// Parses a path; what was parsed lately is remembered, for most calls have the path of the one before.
///
/// # Errors
/// 3143
pub fn parse_path(text: &[u8]) -> SqlResult<Rc<Path>> {
    thread_local! {
        static KEPT: RefCell<Vec<(Vec<u8>, Rc<Path>)>> = const { RefCell::new(Vec::new()) };
    }
    KEPT.with_borrow_mut(|kept| {
        if let Some(at) = kept.iter().position(|(t, _)| t == text) {
            kept[..=at].rotate_right(1);
            return Ok(kept[0].1.clone());
        }
        let path = Rc::new(parse_new(text)?);
        if text.len() > KEPT_PATH_BYTES {
            return Ok(path);
        }
        kept.truncate(KEPT_PATHS - 1);
        kept.insert(0, (text.to_vec(), path.clone()));
        Ok(path)
    })
}

fn parse_new(text: &[u8]) -> SqlResult<Path> {
    let mut parser = Parser { text, at: 0 };
    match parser.path() {
        Some(legs) => Ok(Path { legs }),
        None => {
            let at = String::from_utf8_lossy(&text[..parser.at]).chars().count();
            let message = format!(
                "Invalid JSON path expression. The error is around character position {at}."
            );
            Err(SqlError::new(3143, "42000", message))
        }
    }
}

/// `None`: an error at `at`.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r')
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let b = self.peek()?;
        self.at += 1;
        Some(b)
    }

    fn spaces(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    fn path(&mut self) -> Option<Vec<Leg>> {
        let mut legs = Vec::new();
        self.spaces();
        if self.next()? != b'$' {
            return None;
        }
        self.spaces();
        while let Some(b) = self.peek() {
            if legs.len() == MAX_LEGS {
                return None;
            }
            let leg = match b {
                b'[' => self.cells()?,
                b'.' => self.member()?,
                b'*' => self.descend()?,
                _ => return None,
            };
            legs.push(leg);
            self.spaces();
        }
        (legs.last() != Some(&Leg::Descend)).then_some(legs)
    }

    fn descend(&mut self) -> Option<Leg> {
        self.at += 1;
        if self.next()? != b'*' || self.peek()? == b'*' {
            return None;
        }
        Some(Leg::Descend)
    }

    fn member(&mut self) -> Option<Leg> {
        self.at += 1;
        self.spaces();
        if self.peek()? == b'*' {
            self.at += 1;
            return Some(Leg::AnyMember);
        }
        if self.peek()? == b'"' {
            return self.quoted();
        }
        let start = self.at;
        while self
            .peek()
            .is_some_and(|b| !is_space(b) && !matches!(b, b'.' | b'[' | b'*'))
        {
            self.at += 1;
        }
        let name = &self.text[start..self.at];
        is_identifier(name).then(|| Leg::Member(name.to_vec()))
    }

    /// A key as a JSON string.
    fn quoted(&mut self) -> Option<Leg> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.next()? {
                b'"' => break,
                b'\\' => {
                    self.next()?;
                }
                _ => {}
            }
        }
        match parse(&self.text[start..self.at], &NoSession) {
            Ok(Json::String(key)) => Some(Leg::Member(key)),
            _ => None,
        }
    }

    fn cells(&mut self) -> Option<Leg> {
        self.at += 1;
        self.spaces();
        if self.peek()? == b'*' {
            self.at += 1;
            self.spaces();
            return (self.next()? == b']').then_some(Leg::AnyCell);
        }
        let first = self.index()?;
        let before = self.at;
        self.spaces();
        // The word stands between spaces.
        let word = self.text[self.at..].strip_prefix(b"to");
        let range =
            self.at > before && word.is_some_and(|w| w.first().is_some_and(|b| is_space(*b)));
        if !range {
            return (self.next()? == b']').then_some(Leg::Cell(first));
        }
        self.at += 2;
        self.spaces();
        let last = self.index()?;
        if first.from_last == last.from_last {
            let empty = if first.from_last {
                first.offset < last.offset
            } else {
                first.offset > last.offset
            };
            if empty {
                return None;
            }
        }
        self.spaces();
        (self.next()? == b']').then_some(Leg::Range(first, last))
    }

    fn index(&mut self) -> Option<ArrayIndex> {
        if !self.text[self.at..].starts_with(b"last") {
            return Some(ArrayIndex {
                offset: self.number()?,
                from_last: false,
            });
        }
        self.at += 4;
        let before = self.at;
        self.spaces();
        let mut offset = 0;
        if self.peek() == Some(b'-') {
            self.at += 1;
            self.spaces();
            offset = self.number()?;
        } else {
            self.at = before;
        }
        Some(ArrayIndex {
            offset,
            from_last: true,
        })
    }

    fn number(&mut self) -> Option<u32> {
        let digits = self.text[self.at..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        let text = std::str::from_utf8(&self.text[self.at..self.at + digits]).ok()?;
        let number = text.parse().ok()?;
        self.at += digits;
        Some(number)
    }
}

/// Is it a name of ECMAScript?
pub(super) fn is_identifier(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else {
        return false;
    };
    let mut chars = name.chars();
    let start = |c: char| c.is_alphabetic() || matches!(c, '$' | '_');
    chars.next().is_some_and(start)
        && chars.all(|c| start(c) || c.is_alphanumeric() || matches!(c, '\u{200c}' | '\u{200d}'))
}
