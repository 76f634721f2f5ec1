//! IN BOOLEAN MODE: a recursive descent parser for `+ - > < ~ * ( ) "phrase" @distance`.
//!
//! Neighbours: [`Query`] takes the words in. **Invariant**: parentheses nest [`MAX_DEPTH`] levels deep at most, so the
//! stack is bounded.

use super::query::{Operator, Query, Term, TermKind};
use super::tokens::Words;
use crate::{SqlError, SqlResult, errors};

/// Levels of parentheses.
const MAX_DEPTH: usize = 30;

/// A token of the query language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lexeme<'t> {
    Operator(u8),
    /// A number; it is a word, too.
    Number(&'t [u8]),
    Term(&'t [u8]),
    Text(&'t [u8]),
    End,
}

pub(super) fn parse(text: &[u8], words: &Words) -> SqlResult<Query> {
    let mut parser = Parser {
        rest: text,
        query: Query::default(),
        words,
    };
    let terms = parser.list(0)?;
    match parser.next() {
        Lexeme::End => {}
        found => return Err(unexpected(found, ", expecting $end")),
    }
    parser.query.terms = terms;
    Ok(parser.query)
}

/// 1064, in the words of InnoDB's parser.
fn unexpected(found: Lexeme<'_>, expecting: &str) -> SqlError {
    let found = match found {
        Lexeme::Operator(c) => format!("'{}'", char::from(c)),
        Lexeme::Number(_) => "FTS_NUMB".to_owned(),
        Lexeme::Term(_) => "FTS_TERM".to_owned(),
        Lexeme::Text(_) => "FTS_TEXT".to_owned(),
        Lexeme::End => "$end".to_owned(),
    };
    errors::not_parsed(format!("syntax error, unexpected {found}{expecting}"))
}

fn is_operator(byte: u8) -> bool {
    b"*()+-<>~@".contains(&byte)
}

fn ends_term(byte: u8) -> bool {
    is_operator(byte) || b"\" \n\t%".contains(&byte)
}

/// The first lexeme of a text, and what follows it.
fn lex(mut text: &[u8]) -> (Lexeme<'_>, &[u8]) {
    while let Some((first, rest)) = text.split_first() {
        if is_operator(*first) {
            return (Lexeme::Operator(*first), rest);
        }
        if *first == b'"'
            && let Some(end) = rest.iter().position(|b| b"\"\n".contains(b))
            && rest[end] == b'"'
        {
            return (Lexeme::Text(&rest[..end]), &rest[end + 1..]);
        }
        if !ends_term(*first) {
            let end = text.iter().position(|b| ends_term(*b));
            let (term, rest) = text.split_at(end.unwrap_or(text.len()));
            return match term.iter().all(u8::is_ascii_digit) {
                true => (Lexeme::Number(term), rest),
                false => (Lexeme::Term(term), rest),
            };
        }
        text = rest;
    }
    (Lexeme::End, text)
}

struct Parser<'t> {
    rest: &'t [u8],
    query: Query,
    words: &'t Words,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Lexeme<'t> {
        lex(self.rest).0
    }

    fn next(&mut self) -> Lexeme<'t> {
        let (found, rest) = lex(self.rest);
        self.rest = rest;
        found
    }

    fn eat(&mut self, operator: u8) -> bool {
        let (found, rest) = lex(self.rest);
        let is_it = found == Lexeme::Operator(operator);
        if is_it {
            self.rest = rest;
        }
        is_it
    }

    /// Terms up to what cannot begin one.
    fn list(&mut self, depth: usize) -> SqlResult<Vec<Term>> {
        let mut terms = Vec::new();
        loop {
            match self.peek() {
                Lexeme::End | Lexeme::Operator(b')' | b'@') => return Ok(terms),
                _ => self.term(depth, &mut terms)?,
            }
        }
    }

    fn operator(&mut self) -> Operator {
        let Lexeme::Operator(found) = self.peek() else {
            return Operator::Any;
        };
        let operator = match found {
            b'+' => Operator::Exist,
            b'-' => Operator::Ignore,
            b'~' => Operator::Negate,
            b'>' => Operator::Increase,
            b'<' => Operator::Decrease,
            _ => return Operator::Any,
        };
        self.next();
        operator
    }

    fn term(&mut self, depth: usize, terms: &mut Vec<Term>) -> SqlResult<()> {
        let operator = self.operator();
        let with = |kind| Term { operator, kind };
        match self.next() {
            Lexeme::Operator(b'(') if depth < MAX_DEPTH => {
                let inner = self.list(depth + 1)?;
                match self.next() {
                    Lexeme::Operator(b')') => {}
                    found => return Err(unexpected(found, "")),
                }
                terms.push(with(TermKind::Group(inner)));
            }
            Lexeme::Operator(b'*') => {
                while self.eat(b'*') {}
                match self.next() {
                    Lexeme::Term(text) | Lexeme::Number(text) => {
                        let star = self.eat(b'*');
                        let kinds = self.query.term(text, star, self.words);
                        terms.extend(kinds.into_iter().map(with));
                    }
                    found => {
                        let wanted = ", expecting FTS_TERM or FTS_NUMB or '*'";
                        return Err(unexpected(found, wanted));
                    }
                }
            }
            Lexeme::Term(text) | Lexeme::Number(text) => {
                let star = self.eat(b'*');
                let kinds = self.query.term(text, star, self.words);
                terms.extend(kinds.into_iter().map(with));
            }
            Lexeme::Text(text) => {
                let distance = self.distance()?;
                let kind = self.query.phrase(text, distance, self.words);
                terms.push(with(kind));
            }
            found => return Err(unexpected(found, "")),
        }
        Ok(())
    }

    /// `@n`; `@0` is as none.
    fn distance(&mut self) -> SqlResult<Option<usize>> {
        if !self.eat(b'@') {
            return Ok(None);
        }
        match self.next() {
            Lexeme::Number(digits) => {
                let text = std::str::from_utf8(digits).unwrap_or_default();
                let distance = text.parse().unwrap_or(usize::MAX);
                Ok((distance > 0).then_some(distance))
            }
            found => Err(unexpected(found, ", expecting FTS_NUMB")),
        }
    }
}
