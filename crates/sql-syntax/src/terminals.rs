//! Terminals of the grammar: names, user variables, texts and numbers.
//!
//! Neighbours: `parser` has the tokens; the rules of all statements end here.
//! **Invariant**: a name is checked where it is read, so no tree has one that MySQL refuses.

use esker_types::names::check_user_variable;
use esker_types::{SqlError, SqlMode, SqlResult, errors, names};

use super::ast::{Ident, ObjectName};
use super::deprecated::Deprecation;
use super::keyword::Kw;
use super::lexer::{Tok, Token};
use super::parser::Parser;

impl<'a> Parser<'a> {
    /// Is the current token a name (not a reserved word)?
    pub(super) fn at_ident(&self) -> bool {
        match self.cur.tok {
            Tok::Word(kw) if kw.is_function_word() => !self.paren_follows(),
            tok => is_ident(tok),
        }
    }

    pub(super) fn ident(&mut self) -> SqlResult<Ident> {
        if !self.at_ident() {
            return self.fail();
        }
        let token = self.advance();
        self.ident_of(token)
    }

    pub(super) fn ident_of(&self, token: Token) -> SqlResult<Ident> {
        let raw = self.bytes(token);
        let (text, quoted) = match token.tok == Tok::Quoted {
            true => (self.text(unquote(raw))?.into(), true),
            false => (self.str_of(raw)?.into(), false),
        };
        let text = in_names(text);
        Ok(Ident { text, quoted })
    }

    /// The current token as a name if it is one.
    pub(super) fn opt_ident(&mut self) -> SqlResult<Option<Ident>> {
        if self.at_ident() {
            self.ident().map(Some)
        } else {
            Ok(None)
        }
    }

    /// `name` or `schema.name`.
    pub(super) fn object_name(&mut self) -> SqlResult<ObjectName> {
        let name = self.dotted_name()?;
        self.check_table_name(&name.name.text);
        Ok(name)
    }

    /// The name of a stored routine.
    pub(super) fn routine_name(&mut self) -> SqlResult<ObjectName> {
        let name = self.dotted_name()?;
        if let Err(error) = names::check_length(&name.name.text) {
            self.defer(error);
        }
        Ok(name)
    }

    fn dotted_name(&mut self) -> SqlResult<ObjectName> {
        let first = self.ident()?;
        let (schema, name) = match self.eat(Tok::Dot) {
            true => (Some(self.known_schema(first)), self.ident()?),
            false => (None, first),
        };
        Ok(ObjectName { schema, name })
    }

    /// Whether a name may be a table's is told when all has been read.
    pub(super) fn check_table_name(&mut self, name: &str) {
        if let Err(error) = names::check_table(name) {
            self.defer(error);
        }
    }

    /// The name of a database.
    pub(super) fn schema_name(&mut self) -> SqlResult<Ident> {
        let name = self.ident()?;
        Ok(self.known_schema(name))
    }

    /// The name of USE, which may be empty: then there is no database (1046).
    pub(super) fn used_schema(&mut self) -> SqlResult<Ident> {
        let name = self.ident()?;
        Ok(match name.text.is_empty() {
            true => name,
            false => self.known_schema(name),
        })
    }

    /// A name that turned out to be a database's: whether it may be one is told when all has been read.
    pub(super) fn known_schema(&mut self, name: Ident) -> Ident {
        if let Err(error) = names::check_schema(&name.text) {
            self.defer(error);
        }
        name
    }

    pub(super) fn ident_list(&mut self) -> SqlResult<Vec<Ident>> {
        self.paren_list(Self::ident)
    }

    /// A name or a string: hosts, plugin names, collations.
    pub(super) fn ident_or_text(&mut self) -> SqlResult<Box<str>> {
        if self.is(Tok::Str) {
            let bytes = self.string()?;
            return Ok(self.text(bytes)?.into());
        }
        Ok(self.ident()?.text)
    }

    /// A character set name, lower-cased; BINARY and ASCII are words of their own.
    pub(super) fn charset_name(&mut self) -> SqlResult<Box<str>> {
        self.charset_or_collation(Deprecation::of_charset)
    }

    /// A collation name, lower-cased.
    pub(super) fn collation_name(&mut self) -> SqlResult<Box<str>> {
        self.charset_or_collation(Deprecation::of_collation)
    }

    fn charset_or_collation(
        &mut self,
        deprecation: fn(&str) -> Option<Deprecation>,
    ) -> SqlResult<Box<str>> {
        if self.eat_kw(Kw::BINARY) {
            return Ok("binary".into());
        }
        let name = self.ident_or_text()?.to_ascii_lowercase();
        if let Some(what) = deprecation(&name) {
            self.deprecate(what);
        }
        Ok(name.into())
    }

    /// `CHARACTER SET`, `CHARSET`, `CHAR SET`.
    pub(super) fn eat_charset_words(&mut self) -> SqlResult<bool> {
        if self.eat_kw(Kw::CHARSET) {
            return Ok(true);
        }
        if self.eat_any(&[Kw::CHARACTER, Kw::CHAR]).is_some() {
            self.expect_kw(Kw::SET)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// `@name`, lower-cased, if it is there.
    pub(super) fn opt_user_var(&mut self) -> SqlResult<Option<Box<str>>> {
        let name = self.user_var_as_written()?;
        Ok(name.map(|name| name.to_lowercase().into()))
    }

    /// The same where the variable gets a value: 3061 for a name that none can have.
    pub(super) fn opt_assigned_var(&mut self) -> SqlResult<Option<Box<str>>> {
        let name = self.user_var_as_written()?;
        name.iter().try_for_each(|name| check_user_variable(name))?;
        Ok(name.map(|name| name.to_lowercase().into()))
    }

    pub(super) fn user_var_as_written(&mut self) -> SqlResult<Option<Box<str>>> {
        match self.cur.tok {
            Tok::AtName => {
                let token = self.advance();
                let raw = &self.src[token.start + 1..token.end];
                Ok(Some(self.str_of(raw)?.into()))
            }
            Tok::At => {
                self.advance();
                Ok(Some(self.ident_or_text()?))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn user_var(&mut self) -> SqlResult<Box<str>> {
        match self.opt_user_var()? {
            Some(name) => Ok(name),
            None => self.fail(),
        }
    }

    // Text.

    /// A string literal without introducer, adjacent ones NOT joined.
    pub(super) fn string(&mut self) -> SqlResult<Vec<u8>> {
        if !self.is(Tok::Str) {
            return self.fail();
        }
        let token = self.advance();
        Ok(self.unescape(self.bytes(token)))
    }

    /// A string literal that is text.
    pub(super) fn string_text(&mut self) -> SqlResult<Box<str>> {
        let bytes = self.string()?;
        Ok(self.text(bytes)?.into())
    }

    /// A string literal that is kept beside names: a comment.
    pub(super) fn comment_text(&mut self) -> SqlResult<Box<str>> {
        self.string_text().map(in_names)
    }

    /// A string literal or a `0x…` one.
    pub(super) fn string_or_hex(&mut self) -> SqlResult<Vec<u8>> {
        match self.cur.tok {
            Tok::HexNum | Tok::HexStr | Tok::BitNum | Tok::BitStr => {
                let token = self.advance();
                Ok(super::literal::bits(token.tok, self.bytes(token)))
            }
            _ => self.string(),
        }
    }

    /// Contents of a quoted string token.
    pub(super) fn unescape(&self, quoted: &[u8]) -> Vec<u8> {
        super::literal::unescape(quoted, self.mode(SqlMode::NO_BACKSLASH_ESCAPES))
    }

    pub(super) fn str_of(&self, raw: &'a [u8]) -> SqlResult<&'a str> {
        std::str::from_utf8(raw).map_err(|e| not_utf8(&raw[e.valid_up_to()..]))
    }

    pub(super) fn text(&self, raw: Vec<u8>) -> SqlResult<String> {
        String::from_utf8(raw).map_err(|e| {
            let from = e.utf8_error().valid_up_to();
            not_utf8(&e.as_bytes()[from..])
        })
    }

    /// Source text of a byte range, trimmed.
    pub(super) fn source(&self, start: usize, end: usize) -> Box<str> {
        String::from_utf8_lossy(self.src[start..end].trim_ascii()).into()
    }

    // Numbers.

    /// An unsigned integer literal (decimal or hexadecimal).
    pub(super) fn number(&mut self) -> SqlResult<u64> {
        let raw = self.bytes(self.cur);
        let value = match self.cur.tok {
            Tok::Int => std::str::from_utf8(raw).ok().and_then(|s| s.parse().ok()),
            Tok::HexNum => std::str::from_utf8(&raw[2..])
                .ok()
                .and_then(|s| u64::from_str_radix(s, 16).ok()),
            _ => None,
        };
        match value {
            Some(v) => {
                self.advance();
                Ok(v)
            }
            None => self.fail(),
        }
    }

    /// An unsigned literal, of which the digits before a point or exponent count; one that is too large is the largest
    /// there is.
    pub(super) fn bounded_number(&mut self) -> SqlResult<u64> {
        match self.cur.tok {
            Tok::Int | Tok::Decimal | Tok::Float => Ok(self.whole_part()),
            _ => self.fail(),
        }
    }

    /// The digits before the point or exponent of the literal that comes.
    pub(super) fn whole_part(&mut self) -> u64 {
        let literal = self.bytes(self.cur);
        let mut digits = literal.iter().take_while(|b| b.is_ascii_digit());
        let value = digits.try_fold(0u64, |value, digit| {
            value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
        self.advance();
        value.unwrap_or(u64::MAX)
    }

    pub(super) fn opt_number(&mut self) -> SqlResult<Option<u64>> {
        if matches!(self.cur.tok, Tok::Int | Tok::HexNum) {
            self.number().map(Some)
        } else {
            Ok(None)
        }
    }
}

pub(super) fn is_ident(tok: Tok) -> bool {
    match tok {
        Tok::Word(kw) => !kw.reserved(),
        Tok::Quoted => true,
        _ => false,
    }
}

/// Removes the quotes of a quoted name.
pub(super) fn unquote(raw: &[u8]) -> Vec<u8> {
    let quote = raw[0];
    let inner = &raw[1..raw.len() - 1];
    let mut out = Vec::with_capacity(inner.len());
    let mut i = 0;
    while i < inner.len() {
        out.push(inner[i]);
        i += if inner[i] == quote { 2 } else { 1 };
    }
    out
}

/// A text as names keep it, in MySQL's utf8mb3: `?` stands for characters beyond the basic plane.
pub(super) fn in_names(text: Box<str>) -> Box<str> {
    // The first byte of a character of four.
    if text.bytes().all(|b| b < 0xF0) {
        return text;
    }
    let kept = |c: char| if c > '\u{FFFF}' { '?' } else { c };
    text.chars().map(kept).collect::<String>().into()
}

/// 1300: a name that is not UTF-8.
fn not_utf8(bytes: &[u8]) -> SqlError {
    let mut shown = String::new();
    for b in bytes.iter().take(6) {
        shown.push_str(&format!("\\x{b:02X}"));
    }
    errors::invalid_text("utf8mb4", &shown)
}
