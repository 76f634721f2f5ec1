//! CREATE EVENT and ALTER EVENT.
//!
//! Neighbours: `statement` has read CREATE or ALTER and DEFINER; `program` reads the body.
//! **Invariants**: clauses have one order; a body is not read inside of another one (1576).

use std::sync::Arc;

use esker_types::{SqlResult, errors};

use super::ast::{
    Account, AlterEvent, CreateEvent, EventClauses, EventSchedule, EventStatus, Statement,
};
use super::deprecated::Deprecation;
use super::keyword::Kw;
use super::parser::Parser;
use super::program::ProgramKind;

impl Parser<'_> {
    /// Behind `CREATE [DEFINER = …]`, at EVENT.
    pub(super) fn create_event(&mut self, definer: Option<Account>) -> SqlResult<Statement> {
        let start = self.cur.start;
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.routine_name()?;
        self.expect_seq(&[Kw::ON, Kw::SCHEDULE])?;
        let mut clauses = EventClauses {
            schedule: Some(self.schedule()?),
            preserve: self.on_completion()?,
            ..EventClauses::default()
        };
        self.event_tail(&mut clauses)?;
        if clauses.body.is_none() {
            return self.fail();
        }
        Ok(Statement::CreateEvent(Box::new(CreateEvent {
            definer,
            if_not_exists,
            name,
            clauses,
            text: self.source(start, self.prev_end),
        })))
    }

    /// Behind `ALTER [DEFINER = …]`, at EVENT.
    pub(super) fn alter_event(&mut self, definer: Option<Account>) -> SqlResult<Statement> {
        let start = self.cur.start;
        self.advance();
        let name = self.routine_name()?;
        let mut clauses = EventClauses::default();
        if self.eat_seq(&[Kw::ON, Kw::SCHEDULE]) {
            clauses.schedule = Some(self.schedule()?);
        }
        clauses.preserve = self.on_completion()?;
        let rename = match self.eat_seq(&[Kw::RENAME, Kw::TO]) {
            true => Some(self.routine_name()?),
            false => None,
        };
        self.event_tail(&mut clauses)?;
        if rename.is_none() && clauses == EventClauses::default() {
            return self.fail();
        }
        Ok(Statement::AlterEvent(Box::new(AlterEvent {
            definer,
            name,
            rename,
            clauses,
            text: self.source(start, self.prev_end),
        })))
    }

    /// `AT …`, or `EVERY … [STARTS …] [ENDS …]`.
    fn schedule(&mut self) -> SqlResult<EventSchedule> {
        if self.eat_kw(Kw::AT) {
            return Ok(EventSchedule::At(self.expr()?));
        }
        if !self.eat_word("EVERY") {
            return self.fail();
        }
        let amount = Box::new(self.expr()?);
        let unit = self.interval_unit()?;
        let starts = match self.eat_word("STARTS") {
            true => Some(Box::new(self.expr()?)),
            false => None,
        };
        let ends = match self.eat_word("ENDS") {
            true => Some(Box::new(self.expr()?)),
            false => None,
        };
        Ok(EventSchedule::Every {
            amount,
            unit,
            starts,
            ends,
        })
    }

    /// `[ON COMPLETION [NOT] PRESERVE]`.
    fn on_completion(&mut self) -> SqlResult<Option<bool>> {
        if !self.eat_kw(Kw::ON) {
            return Ok(None);
        }
        if !self.eat_word("COMPLETION") {
            return self.fail();
        }
        let preserve = !self.eat_kw(Kw::NOT);
        match self.eat_word("PRESERVE") {
            true => Ok(Some(preserve)),
            false => self.fail(),
        }
    }

    /// `[ENABLE | DISABLE [ON REPLICA]] [COMMENT '…'] [DO body]`.
    fn event_tail(&mut self, clauses: &mut EventClauses) -> SqlResult<()> {
        clauses.status = match self.eat_any(&[Kw::ENABLE, Kw::DISABLE]) {
            Some(Kw::ENABLE) => Some(EventStatus::Enabled),
            Some(_) if self.eat_kw(Kw::ON) => {
                if self.expect_any(&[Kw::REPLICA, Kw::SLAVE])? == Kw::SLAVE {
                    self.deprecate(Deprecation::DisableOnSlave);
                }
                Some(EventStatus::ReplicaSideDisabled)
            }
            Some(_) => Some(EventStatus::Disabled),
            None => None,
        };
        if self.eat_kw(Kw::COMMENT) {
            clauses.comment = Some(self.string_text()?);
        }
        if self.eat_kw(Kw::DO) {
            if self.program.is_some() {
                return Err(errors::event_in_body());
            }
            let body = self.program_body(ProgramKind::Event, |_| Ok(()))?;
            clauses.body = Some(Arc::new(body));
        }
        Ok(())
    }
}
