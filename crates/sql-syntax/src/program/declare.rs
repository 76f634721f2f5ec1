//! DECLARE: variables, conditions, cursors and handlers, in this order.
//!
//! Neighbours: `compound` reads the rest of a block.
//! **Invariants**: a DEFAULT does not see the variables that it is for; handlers come last, so that each sees all other
//! declarations of its block.

use std::sync::Arc;

use esker_types::{SqlResult, errors};

use super::super::ast::{
    ConditionValue, CursorQuery, Declaration, Handler, Ident, SqlStep, Statement,
};
use super::super::keyword::Kw;
use super::super::lexer::Tok;
use super::super::parser::Parser;
use super::{Label, Names, find, same};

/// How far the declarations of a block have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Variables,
    Cursors,
    Handlers,
}

/// The declarations of a block.
#[derive(Default)]
pub(super) struct Declarations {
    pub(super) variables: Vec<Declaration>,
    pub(super) cursors: Vec<u32>,
    pub(super) handlers: Vec<Handler>,
}

impl Parser<'_> {
    /// All DECLAREs at the beginning of a block.
    pub(super) fn declarations(&mut self) -> SqlResult<Declarations> {
        let mut out = Declarations::default();
        let mut stage = Stage::Variables;
        while self.eat_kw(Kw::DECLARE) {
            if let Some(kw) = self.eat_any(&[Kw::EXIT, Kw::CONTINUE]) {
                stage = Stage::Handlers;
                self.expect_kw(Kw::HANDLER)?;
                let handler = self.handler(kw == Kw::EXIT)?;
                out.handlers.push(handler);
            } else {
                let name = self.ident()?;
                match self.kw() {
                    Kw::CONDITION => {
                        self.advance();
                        self.declare_condition(name, stage)?;
                    }
                    Kw::CURSOR => {
                        self.advance();
                        if stage == Stage::Handlers {
                            return Err(errors::cursor_after_handler());
                        }
                        stage = Stage::Cursors;
                        out.cursors.push(self.declare_cursor(name)?);
                    }
                    _ => out.variables.push(self.declare_variables(name, stage)?),
                }
            }
            self.expect(Tok::Semicolon)?;
        }
        Ok(out)
    }

    fn declare_variables(&mut self, first: Ident, stage: Stage) -> SqlResult<Declaration> {
        let mut names = vec![first];
        while self.eat(Tok::Comma) {
            names.push(self.ident()?);
        }
        for (nth, name) in names.iter().enumerate() {
            let known = find(&self.scope().names().variables, &name.text).is_some();
            if known || names[..nth].iter().any(|n| same(&n.text, &name.text)) {
                return Err(errors::duplicate_variable(name));
            }
        }
        let ty = self.variable_type()?;
        let default = match self.eat_kw(Kw::DEFAULT) {
            true => Some(self.formula()?),
            false => None,
        };
        if stage != Stage::Variables {
            return Err(errors::variable_after_cursor());
        }
        let scope = self.scope();
        let mut slots = Vec::with_capacity(names.len());
        for name in names {
            let slot = scope.slot(&name.text, Some(ty.clone()))?;
            scope.names().variables.push((name.text, slot));
            slots.push(slot);
        }
        Ok(Declaration { slots, default })
    }

    fn declare_condition(&mut self, name: Ident, stage: Stage) -> SqlResult<()> {
        self.expect_kw(Kw::FOR)?;
        let value = self.condition_code()?;
        if stage != Stage::Variables {
            return Err(errors::variable_after_cursor());
        }
        let names = self.scope().names();
        if find(&names.conditions, &name.text).is_some() {
            return Err(errors::duplicate_condition(&name));
        }
        names.conditions.push((name.text, value));
        Ok(())
    }

    fn declare_cursor(&mut self, name: Ident) -> SqlResult<u32> {
        self.expect_kw(Kw::FOR)?;
        if !self.at_query_start() {
            return self.fail();
        }
        let start = self.cur.start;
        self.scope().places.clear();
        let query = self.query_statement()?;
        if query.into.is_some() {
            return Err(errors::cursor_with_into());
        }
        let text = self.source(start, self.prev_end);
        let scope = self.scope();
        if find(&scope.names().cursors, &name.text).is_some() {
            return Err(errors::duplicate_cursor(&name));
        }
        let id = scope.cursors.len() as u32;
        let places = std::mem::take(&mut scope.places);
        scope.cursors.push(CursorQuery {
            name: name.text.clone(),
            query: SqlStep {
                statement: Arc::new(Statement::Query(Box::new(query))),
                places,
                text,
            },
        });
        scope.names().cursors.push((name.text, id));
        Ok(id)
    }

    fn handler(&mut self, exit: bool) -> SqlResult<Handler> {
        self.expect_kw(Kw::FOR)?;
        let conditions = self.list(Self::handled_condition)?;
        let names = self.scope().names();
        for condition in &conditions {
            if names.handled.contains(condition) {
                return Err(errors::duplicate_handler());
            }
            names.handled.push(*condition);
        }
        let scope = self.scope();
        scope.labels.push(Label::Handler);
        scope.blocks.push(Names::default());
        let body = self.compound_statement();
        let scope = self.scope();
        scope.blocks.pop();
        scope.labels.pop();
        Ok(Handler {
            exit,
            conditions,
            body: body?,
        })
    }

    fn handled_condition(&mut self) -> SqlResult<ConditionValue> {
        match self.kw() {
            Kw::SQLWARNING => {
                self.advance();
                Ok(ConditionValue::Warning)
            }
            Kw::SQLEXCEPTION => {
                self.advance();
                Ok(ConditionValue::Exception)
            }
            Kw::NOT => {
                self.advance();
                match self.eat_word("FOUND") {
                    true => Ok(ConditionValue::NotFound),
                    false => self.fail(),
                }
            }
            Kw::SQLSTATE => self.condition_code(),
            _ if self.is(Tok::Int) => self.condition_code(),
            _ => {
                let name = self.ident()?;
                self.scope().condition(&name.text)
            }
        }
    }

    /// A number of MySQL or `SQLSTATE [VALUE] '…'`.
    fn condition_code(&mut self) -> SqlResult<ConditionValue> {
        if self.at(Kw::SQLSTATE) {
            return Ok(ConditionValue::State(self.sqlstate()?));
        }
        let code = self.number()?;
        match u16::try_from(code) {
            Ok(code) if code > 0 => Ok(ConditionValue::Code(code)),
            _ => Err(errors::incorrect_value("CONDITION", code)),
        }
    }

    /// `SQLSTATE [VALUE] '…'`; not that of success.
    pub(super) fn sqlstate(&mut self) -> SqlResult<[u8; 5]> {
        self.expect_kw(Kw::SQLSTATE)?;
        self.eat_kw(Kw::VALUE);
        let text = self.string()?;
        let valid = |state: &[u8; 5]| {
            let is_valid = |b: &u8| b.is_ascii_digit() || b.is_ascii_uppercase();
            state.iter().all(is_valid) && !state.starts_with(b"00")
        };
        <[u8; 5]>::try_from(text.as_slice())
            .ok()
            .filter(valid)
            .ok_or_else(|| errors::bad_sqlstate(String::from_utf8_lossy(&text)))
    }
}
