//! HANDLER statements.
//!
//! Neighbours: `statement` comes here at the word HANDLER; `session::handlers` runs what comes out.
//! **Invariant**: as in MySQL, a subquery is a syntax error, and so is READ PREV or LAST without an index.

use esker_types::{SqlResult, errors};

use super::ast::{HandlerMove, HandlerRead, HandlerStatement, Ident, KeySearch, Statement};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

/// Words behind the name of an index.
const MOVES: [Kw; 4] = [Kw::FIRST, Kw::NEXT, Kw::PREV, Kw::LAST];

impl Parser<'_> {
    /// HANDLER, at that word.
    pub(super) fn handler_statement(&mut self) -> SqlResult<Statement> {
        self.advance();
        if self.program.is_some() {
            return Err(errors::not_in_procedure("HANDLER"));
        }
        let name = self.object_name()?;
        if self.eat_kw(Kw::OPEN) {
            let alias = match self.eat_kw(Kw::AS) || self.at_ident() {
                true => Some(self.ident()?),
                false => None,
            };
            let table = name;
            return Ok(Statement::Handler(Box::new(HandlerStatement::Open {
                table,
                alias,
            })));
        }
        // Only a table to be opened may be named with its database.
        if name.schema.is_some() {
            return self.fail();
        }
        let name = name.name;
        if self.eat_word("CLOSE") {
            return Ok(Statement::Handler(Box::new(HandlerStatement::Close(name))));
        }
        self.expect_kw(Kw::READ)?;
        let (index, to) = self.handler_move()?;
        let filter = match self.eat_kw(Kw::WHERE) {
            true => Some(self.without_subqueries(Self::expr)?),
            false => None,
        };
        let limit = self.opt_limit()?;
        let read = HandlerRead {
            name,
            index,
            to,
            filter,
            limit,
        };
        let read = HandlerStatement::Read(Box::new(read));
        Ok(Statement::Handler(Box::new(read)))
    }

    /// `[index] FIRST | NEXT | PREV | LAST`, or `index <comparison> (value, …)`.
    fn handler_move(&mut self) -> SqlResult<(Option<Ident>, HandlerMove)> {
        let compares = |tok| matches!(tok, Tok::Eq | Tok::Ge | Tok::Gt | Tok::Le | Tok::Lt);
        let next = self.peek().tok;
        let names_index = compares(next) || matches!(next, Tok::Word(kw) if MOVES.contains(&kw));
        if !names_index && let Some(word) = self.eat_any(&[Kw::FIRST, Kw::NEXT]) {
            return Ok((None, one_of(word)));
        }
        let index = self.ident()?;
        if let Some(word) = self.eat_any(&MOVES) {
            return Ok((Some(index), one_of(word)));
        }
        let search = match self.cur.tok {
            Tok::Eq => KeySearch::Equal,
            Tok::Ge => KeySearch::AtLeast,
            Tok::Gt => KeySearch::Above,
            Tok::Le => KeySearch::AtMost,
            Tok::Lt => KeySearch::Below,
            _ => return self.fail(),
        };
        self.advance();
        self.expect(Tok::LParen)?;
        let values = self.without_subqueries(|p| p.list(Self::expr_or_default))?;
        self.expect(Tok::RParen)?;
        Ok((Some(index), HandlerMove::Key(search, values)))
    }

    /// Reads something in which a subquery is a syntax error.
    fn without_subqueries<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.no_subqueries = true;
        let read = read(self);
        self.no_subqueries = false;
        read
    }
}

fn one_of(word: Kw) -> HandlerMove {
    match word {
        Kw::FIRST => HandlerMove::First,
        Kw::NEXT => HandlerMove::Next,
        Kw::PREV => HandlerMove::Prev,
        _ => HandlerMove::Last,
    }
}
