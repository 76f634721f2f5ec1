//! SIGNAL, RESIGNAL and GET DIAGNOSTICS, in bodies and outside.
//!
//! Neighbours: `statement` dispatches here; names of conditions and variables come from the body's scope.
//! **Invariants**: an item is given once; a name stands for an SQLSTATE (1646), never for a number.

use esker_types::{SqlResult, errors};

use super::super::ast::{
    ConditionItem, ConditionValue, DiagnosticsItems, Expr, GetDiagnostics, Signal, Statement,
    StatementItem,
};
use super::super::keyword::Kw;
use super::super::lexer::Tok;
use super::super::parser::Parser;

impl Parser<'_> {
    pub(in super::super) fn signal(&mut self, resignal: bool) -> SqlResult<Statement> {
        self.advance();
        let has_state = !resignal || !(self.at_end() || self.at(Kw::SET));
        let state = match has_state {
            true => Some(self.signalled_state()?),
            false => None,
        };
        let mut items = Vec::new();
        if self.eat_kw(Kw::SET) {
            loop {
                let item = self.condition_item()?;
                if item == ConditionItem::ReturnedSqlstate {
                    return self.fail();
                }
                self.expect(Tok::Eq)?;
                let value = self.plain_value()?;
                if items.iter().any(|(known, _)| *known == item) {
                    return Err(errors::duplicate_condition_item(item.text()));
                }
                items.push((item, value));
                if !self.eat(Tok::Comma) {
                    break;
                }
            }
        }
        Ok(Statement::Signal(Box::new(Signal {
            resignal,
            state,
            items,
        })))
    }

    fn signalled_state(&mut self) -> SqlResult<[u8; 5]> {
        if self.at(Kw::SQLSTATE) {
            return self.sqlstate();
        }
        let name = self.ident()?;
        let condition = match &self.program {
            Some(scope) => scope.condition(&name.text)?,
            None => return Err(errors::undefined_condition(&name)),
        };
        match condition {
            ConditionValue::State(state) => Ok(state),
            _ => Err(errors::signal_needs_sqlstate()),
        }
    }

    fn condition_item(&mut self) -> SqlResult<ConditionItem> {
        let known = ConditionItem::ALL.into_iter();
        let here = self.bytes(self.cur);
        let found = known
            .into_iter()
            .find(|item| here.eq_ignore_ascii_case(item.text().as_bytes()));
        match found {
            Some(item) => {
                self.advance();
                Ok(item)
            }
            None => self.fail(),
        }
    }

    /// A literal or a variable: what conditions are made of.
    fn plain_value(&mut self) -> SqlResult<Expr> {
        match self.cur.tok {
            Tok::Int
            | Tok::Decimal
            | Tok::Float
            | Tok::Str
            | Tok::NStr
            | Tok::HexStr
            | Tok::HexNum
            | Tok::BitStr
            | Tok::BitNum
            | Tok::Introducer
            | Tok::Word(Kw::NULL | Kw::TRUE | Kw::FALSE)
            | Tok::At
            | Tok::AtAt => self.primary(),
            Tok::AtName if self.peek().tok == Tok::Assign => {
                self.advance();
                self.fail()
            }
            Tok::AtName => self.primary(),
            _ => {
                let name = self.ident()?;
                if let Some(row) = self.row_operand(&name)? {
                    return Ok(row);
                }
                if let Some(local) = self.local_operand(&name) {
                    return Ok(local);
                }
                // There are no columns here: 1054 when it runs.
                let column = self.column_after(name)?;
                match self.is(Tok::LParen) {
                    true => self.fail(),
                    false => Ok(Expr::Column(column)),
                }
            }
        }
    }

    /// `GET [CURRENT | STACKED] DIAGNOSTICS …`
    pub(in super::super) fn get_diagnostics(&mut self) -> SqlResult<Statement> {
        self.advance();
        let stacked = self.eat_word("STACKED");
        if !stacked {
            self.eat_kw(Kw::CURRENT);
        }
        self.expect_kw(Kw::DIAGNOSTICS)?;
        let what = match self.eat_kw(Kw::CONDITION) {
            true => {
                let number = self.plain_value()?;
                let items = self.list(|p| {
                    let target = p.target()?;
                    p.expect(Tok::Eq)?;
                    Ok((target, p.condition_item()?))
                })?;
                DiagnosticsItems::Condition(number, items)
            }
            false => DiagnosticsItems::Statement(self.list(|p| {
                let target = p.target()?;
                p.expect(Tok::Eq)?;
                Ok((target, p.statement_item()?))
            })?),
        };
        Ok(Statement::GetDiagnostics(Box::new(GetDiagnostics {
            stacked,
            what,
        })))
    }

    fn statement_item(&mut self) -> SqlResult<StatementItem> {
        if self.eat_word("NUMBER") {
            return Ok(StatementItem::Number);
        }
        match self.eat_word("ROW_COUNT") {
            true => Ok(StatementItem::RowCount),
            false => self.fail(),
        }
    }
}
