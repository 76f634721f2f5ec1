//! Operands of expressions: literals, column references, variables.
//!
//! Neighbours: `expr` calls these where an operand is expected; `literal` decodes tokens.
//! **Invariants**: literals that the caller asked to lift become parameters here and nowhere else.

use esker_types::collation::Charset;
use esker_types::{SqlError, SqlResult, errors};

use super::ast::{ColumnRef, Expr, Ident, Literal, SysVar, UnaryOp, VarScope};
use super::deprecated::Deprecation;
use super::expr::{call1, call2};
use super::keyword::Kw;
use super::lexer::{Tok, Token};
use super::literal;
use super::parser::Parser;
use super::terminals::is_ident;

impl Parser<'_> {
    // Literals.

    /// Is the literal at the current token to become a parameter?
    fn lift(&mut self, start: usize) -> Option<Expr> {
        let offsets = self.opts.lift?;
        let index = offsets.binary_search(&start).ok()?;
        self.lifted += 1;
        Some(Expr::Param(index as u32))
    }

    pub(super) fn literal(&mut self) -> SqlResult<Expr> {
        let token = self.advance();
        let raw = self.bytes(token);
        if matches!(token.tok, Tok::Str | Tok::NStr) {
            return self.string_literal(token);
        }
        if let Some(param) = self.lift(token.start) {
            return Ok(param);
        }
        Ok(Expr::Literal(match token.tok {
            Tok::HexNum | Tok::HexStr => Literal::Hex {
                bytes: literal::bits(token.tok, raw),
                charset: None,
            },
            Tok::BitNum | Tok::BitStr => Literal::Bit {
                bytes: literal::bits(token.tok, raw),
                charset: None,
            },
            _ => match literal::number(token.tok, raw) {
                Literal::Double(v) if !v.is_finite() => return Err(illegal_double(raw)),
                number => number,
            },
        }))
    }

    /// A literal with an optional sign: the value of a DEFAULT.
    pub(super) fn signed_literal(&mut self) -> SqlResult<Expr> {
        let op = match self.cur.tok {
            Tok::Minus => Some(UnaryOp::Neg),
            Tok::Plus => Some(UnaryOp::Plus),
            _ => None,
        };
        if let Some(op) = op {
            self.advance();
            if !matches!(self.cur.tok, Tok::Int | Tok::Decimal | Tok::Float) {
                return self.fail();
            }
            return Ok(Expr::Unary {
                op,
                expr: Box::new(self.literal()?),
            });
        }
        let constant = match self.cur.tok {
            Tok::Word(Kw::DATE | Kw::TIME | Kw::TIMESTAMP) => self.peek().tok == Tok::Str,
            Tok::Word(kw) => matches!(kw, Kw::NULL | Kw::TRUE | Kw::FALSE),
            Tok::Int | Tok::Decimal | Tok::Float | Tok::Str | Tok::NStr => true,
            Tok::HexStr | Tok::HexNum | Tok::BitStr | Tok::BitNum | Tok::Introducer => true,
            _ => false,
        };
        if constant {
            self.primary()
        } else {
            self.fail()
        }
    }

    fn string_literal(&mut self, token: Token) -> SqlResult<Expr> {
        if token.tok == Tok::Str
            && !self.is(Tok::Str)
            && let Some(param) = self.lift(token.start)
        {
            return Ok(param);
        }
        let raw = self.bytes(token);
        let (raw, charset) = match token.tok {
            Tok::NStr => {
                self.deprecate(Deprecation::National);
                (&raw[1..], Some("utf8mb3".into()))
            }
            _ => (raw, None),
        };
        let mut bytes = self.unescape(raw);
        self.adjacent(&mut bytes);
        Ok(Expr::Literal(Literal::Str { bytes, charset }))
    }

    fn adjacent(&mut self, bytes: &mut Vec<u8>) {
        while self.is(Tok::Str) {
            let token = self.advance();
            bytes.extend(self.unescape(self.bytes(token)));
        }
    }

    pub(super) fn introduced(&mut self) -> SqlResult<Expr> {
        let word = self.advance();
        let name = self
            .str_of(&self.src[word.start + 1..word.end])?
            .to_ascii_lowercase();
        if let Some(what) = Deprecation::of_charset(&name) {
            self.deprecate(what);
        }
        let charset = Some(if name == "utf8" {
            "utf8mb3".into()
        } else {
            name.into()
        });
        if !matches!(
            self.cur.tok,
            Tok::Str | Tok::HexStr | Tok::HexNum | Tok::BitStr | Tok::BitNum
        ) {
            return self.fail();
        }
        let token = self.advance();
        let raw = self.bytes(token);
        Ok(Expr::Literal(match token.tok {
            Tok::Str => {
                let mut text = self.unescape(raw);
                self.adjacent(&mut text);
                // The bytes that the client sent are those of the introducer's character set. From a client of UTF-8
                // they came as they are, whether they are text or not.
                let bytes = match self.opts.client {
                    Charset::Utf8mb4 | Charset::Utf8mb3 => text,
                    client => client.encode_lossy(&text).into_owned(),
                };
                Literal::Str { bytes, charset }
            }
            Tok::HexStr | Tok::HexNum => Literal::Hex {
                bytes: literal::bits(token.tok, raw),
                charset,
            },
            _ => Literal::Bit {
                bytes: literal::bits(token.tok, raw),
                charset,
            },
        }))
    }

    // Names.

    /// `a`, `a.b`, `a.b.c`, or a call of a stored or native function by name.
    pub(super) fn named_operand(&mut self) -> SqlResult<Expr> {
        if self.is(Tok::Word(Kw::OTHER)) && self.src.get(self.cur.end) == Some(&b'(') {
            let name = self.ident()?;
            return self.call_after_name(None, name);
        }
        let first = self.ident()?;
        if self.is(Tok::LParen) {
            return self.call_after_name(None, first);
        }
        if self.is(Tok::Dot) {
            let (name, after) = self.peek2();
            if is_ident(name.tok) && after.tok == Tok::LParen {
                self.advance();
                let name = self.ident()?;
                return self.call_after_name(Some(first), name);
            }
        }
        if self.program.is_some() {
            if let Some(local) = self.local_operand(&first) {
                self.note_variable();
                return self.arrow_of_variable(local);
            }
            if let Some(column) = self.row_operand(&first)? {
                return self.arrow_of_variable(column);
            }
        }
        let column = self.column_after(first)?;
        self.json_arrow(column)
    }

    fn json_arrow(&mut self, column: ColumnRef) -> SqlResult<Expr> {
        Ok(match self.opt_arrow()? {
            None => Expr::Column(column),
            Some((path, unquote)) => Expr::JsonArrow {
                column,
                path,
                unquote,
            },
        })
    }

    /// A variable of a program, or a column of its row; behind an arrow there is a call of it.
    fn arrow_of_variable(&mut self, variable: Expr) -> SqlResult<Expr> {
        let Some((path, unquote)) = self.opt_arrow()? else {
            return Ok(variable);
        };
        let path = Expr::Literal(Literal::Str {
            bytes: path.into_boxed_bytes().into_vec(),
            charset: None,
        });
        let found = call2("json_extract", variable, path);
        Ok(match unquote {
            true => call1("json_unquote", found),
            false => found,
        })
    }

    /// `->'path'`, or `->>'path'`, which unquotes.
    fn opt_arrow(&mut self) -> SqlResult<Option<(Box<str>, bool)>> {
        let unquote = match self.cur.tok {
            Tok::Arrow => false,
            Tok::ArrowText => true,
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some((self.string_text()?, unquote)))
    }

    /// A column reference.
    pub(super) fn column_ref(&mut self) -> SqlResult<ColumnRef> {
        let first = self.ident()?;
        self.column_after(first)
    }

    /// The rest of a column reference.
    pub(super) fn column_after(&mut self, first: Ident) -> SqlResult<ColumnRef> {
        if !self.eat(Tok::Dot) {
            return Ok(ColumnRef {
                schema: None,
                table: None,
                name: first,
            });
        }
        let second = self.ident()?;
        if !self.eat(Tok::Dot) {
            return Ok(ColumnRef {
                schema: None,
                table: Some(first),
                name: second,
            });
        }
        let name = self.ident()?;
        Ok(ColumnRef {
            schema: Some(self.known_schema(first)),
            table: Some(second),
            name,
        })
    }

    /// `@@[scope.]name`.
    pub(super) fn sys_var(&mut self) -> SqlResult<SysVar> {
        let start = self.cur.start;
        self.expect(Tok::AtAt)?;
        let scope = match self.kw() {
            Kw::GLOBAL => Some(VarScope::Global),
            Kw::SESSION | Kw::LOCAL => Some(VarScope::Session),
            Kw::PERSIST => Some(VarScope::Persist),
            Kw::PERSIST_ONLY => Some(VarScope::PersistOnly),
            // The lexer takes a word before `.name` for a name; here it may be a scope.
            Kw::OTHER => self.scope_before_dot(),
            _ => None,
        };
        if scope.is_some() {
            self.advance();
            self.expect(Tok::Dot)?;
        }
        let mut var = self.var_name()?;
        var.scope = scope;
        var.text = self.source(start, self.prev_end);
        Ok(var)
    }

    fn scope_before_dot(&self) -> Option<VarScope> {
        if self.cur.tok != Tok::Word(Kw::OTHER) || self.src.get(self.cur.end) != Some(&b'.') {
            return None;
        }
        Some(match Kw::lookup(self.bytes(self.cur)) {
            Kw::GLOBAL => VarScope::Global,
            Kw::SESSION | Kw::LOCAL => VarScope::Session,
            Kw::PERSIST => VarScope::Persist,
            Kw::PERSIST_ONLY => VarScope::PersistOnly,
            _ => return None,
        })
    }

    /// `name`, `base.name` or `DEFAULT.name` of a system variable.
    pub(super) fn var_name(&mut self) -> SqlResult<SysVar> {
        let start = self.cur.start;
        let first: Box<str> = if self.at(Kw::DEFAULT) {
            self.advance();
            "default".into()
        } else {
            self.ident()?.text.to_ascii_lowercase().into()
        };
        let (base, name) = if self.eat(Tok::Dot) {
            (Some(first), self.ident()?.text.to_ascii_lowercase().into())
        } else {
            (None, first)
        };
        Ok(SysVar {
            scope: None,
            base,
            name,
            text: self.source(start, self.prev_end),
        })
    }
}

/// 1367 for a number beyond all doubles.
fn illegal_double(raw: &[u8]) -> SqlError {
    let raw = String::from_utf8_lossy(raw);
    errors::illegal_value("double", &raw)
}
