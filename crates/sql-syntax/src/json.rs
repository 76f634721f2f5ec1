//! JSON_VALUE and JSON_TABLE.
//!
//! Neighbours: `call` and `table_ref` come here after the word.
//! **Invariant**: paths are texts as written; the binder parses them.

use esker_types::{SqlError, SqlResult};

use super::ast::{
    DataType, Expr, JsonColumn, JsonColumns, JsonFallback, JsonValue, Literal, TableRef, TypeName,
};
use super::deprecated::Deprecation;
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;
use super::terminals::is_ident;

/// What is given instead of a value: ON EMPTY, ON ERROR.
type Fallbacks = (Option<JsonFallback>, Option<JsonFallback>);

/// Where fallbacks stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In JSON_VALUE.
    Value,
    /// Behind the path of a column of JSON_TABLE.
    Column,
}

impl Parser<'_> {
    /// Takes a word that is no keyword.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found =
            is_ident(self.cur.tok) && self.bytes(self.cur).eq_ignore_ascii_case(word.as_bytes());
        if found {
            self.advance();
        }
        found
    }

    /// Is the token after the current one this word, which is no keyword?
    pub(super) fn peek_is_word(&self, word: &str) -> bool {
        let next = self.peek();
        is_ident(next.tok) && self.bytes(next).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Consumes a word that must be there, and is none of the grammar's keywords.
    pub(super) fn expect_word(&mut self, word: &str) -> SqlResult<()> {
        match self.eat_word(word) {
            true => Ok(()),
            false => self.fail(),
        }
    }

    /// A path, maybe behind the name of a character set, as tables keep it.
    fn json_path(&mut self) -> SqlResult<Box<str>> {
        if !self.is(Tok::Introducer) {
            return self.string_text();
        }
        match self.introduced()? {
            Expr::Literal(Literal::Str { bytes, .. } | Literal::Hex { bytes, .. }) => {
                Ok(self.text(bytes)?.into())
            }
            _ => self.fail(),
        }
    }

    /// `JSON_VALUE(document, 'path' [RETURNING type] [… ON EMPTY] [… ON ERROR])`
    pub(super) fn json_value(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.expect(Tok::LParen)?;
        let doc = self.expr()?;
        self.expect(Tok::Comma)?;
        let path = self.json_path()?;
        let ty = match self.eat_kw(Kw::RETURNING) {
            true => Some(Box::new(self.cast_type()?)),
            false => None,
        };
        let (on_empty, on_error) = self.fallbacks(Place::Value)?;
        self.expect(Tok::RParen)?;
        Ok(Expr::JsonValue(Box::new(JsonValue {
            doc,
            path,
            ty,
            on_empty,
            on_error,
        })))
    }

    /// `{NULL | ERROR | DEFAULT value} ON EMPTY`, the same ON ERROR; a column of JSON_TABLE may have them the other way
    /// round.
    fn fallbacks(&mut self, place: Place) -> SqlResult<Fallbacks> {
        let (mut on_empty, mut on_error) = (None, None);
        loop {
            let fallback = match self.kw() {
                Kw::NULL => {
                    self.advance();
                    JsonFallback::Null
                }
                Kw::ERROR => {
                    self.advance();
                    JsonFallback::Error
                }
                Kw::DEFAULT => {
                    self.advance();
                    JsonFallback::Default(self.default(place)?)
                }
                _ => return Ok((on_empty, on_error)),
            };
            self.expect_kw(Kw::ON)?;
            let answer = match self.expect_any(&[Kw::EMPTY, Kw::ERROR])? {
                Kw::EMPTY if on_error.is_some() && place == Place::Value => return self.fail(),
                Kw::EMPTY => {
                    if on_error.is_some() {
                        self.deprecate(Deprecation::LateOnEmpty);
                    }
                    &mut on_empty
                }
                _ => &mut on_error,
            };
            if answer.replace(fallback).is_some() {
                return self.fail();
            }
        }
    }

    /// The literal behind DEFAULT; 1235 for one that is no text in JSON_TABLE.
    fn default(&mut self, place: Place) -> SqlResult<Expr> {
        match (self.cur.tok, place) {
            (Tok::Word(Kw::NULL), _) => self.fail(),
            (_, Place::Value) => self.signed_literal(),
            // Never a parameter of the statement's digest.
            (Tok::Str, Place::Column) => Ok(Expr::Literal(Literal::Str {
                bytes: self.string()?,
                charset: None,
            })),
            (_, Place::Column) => match self.signed_literal()? {
                text @ Expr::Literal(
                    Literal::Str { .. } | Literal::Hex { .. } | Literal::Bit { .. },
                ) => Ok(text),
                _ => {
                    let what = "non-string DEFAULT value for a column in a JSON_TABLE expression";
                    Err(SqlError::not_supported(what))
                }
            },
        }
    }

    /// `JSON_TABLE(document, 'path' COLUMNS (…)) [AS] alias`
    pub(super) fn json_table(&mut self) -> SqlResult<TableRef> {
        self.advance();
        self.expect(Tok::LParen)?;
        let doc = self.expr()?;
        self.expect(Tok::Comma)?;
        let path = self.json_path()?;
        let rows = self.json_columns(path)?;
        self.expect(Tok::RParen)?;
        let Some(alias) = self.table_alias()? else {
            return Err(SqlError::new(
                3667,
                "42000",
                "Every table function must have an alias",
            ));
        };
        Ok(TableRef::Json {
            doc: Box::new(doc),
            rows: Box::new(rows),
            alias,
        })
    }

    fn json_columns(&mut self, path: Box<str>) -> SqlResult<JsonColumns> {
        self.expect_kw(Kw::COLUMNS)?;
        let columns = self.nested(|p| p.paren_list(Self::json_column))?;
        Ok(JsonColumns { path, columns })
    }

    fn json_column(&mut self) -> SqlResult<JsonColumn> {
        let nested = self.bytes(self.cur).eq_ignore_ascii_case(b"nested")
            && self.bytes(self.peek()).eq_ignore_ascii_case(b"path");
        if nested {
            self.advance();
            self.advance();
            let path = self.json_path()?;
            return Ok(JsonColumn::Nested(self.json_columns(path)?));
        }
        let name = self.ident()?;
        if self.eat_kw(Kw::FOR) {
            if !self.eat_word("ordinality") {
                return self.fail();
            }
            return Ok(JsonColumn::Ordinality(name));
        }
        let ty = self.json_column_type()?;
        let exists = self.eat_kw(Kw::EXISTS);
        if !self.eat_word("path") {
            return self.fail();
        }
        let path = self.json_path()?;
        if exists {
            return Ok(JsonColumn::Exists { name, ty, path });
        }
        let (on_empty, on_error) = self.fallbacks(Place::Column)?;
        Ok(JsonColumn::Value {
            name,
            ty,
            path,
            on_empty,
            on_error,
        })
    }

    fn json_column_type(&mut self) -> SqlResult<Box<DataType>> {
        let mut ty = self.data_type()?;
        if self.eat_kw(Kw::COLLATE) {
            ty.collation = Some(self.collation_name()?);
        }
        if ty.name == TypeName::Serial {
            return self.fail();
        }
        Ok(Box::new(ty))
    }
}
