//! CREATE TRIGGER: its head, and the texts that are kept of it.
//!
//! Neighbours: `statement` comes here behind `CREATE [DEFINER = …]`; `program` reads the body.
//! **Invariant**: FOLLOWS and PRECEDES are no keywords, so that everything may still be called so.

use std::sync::Arc;

use esker_types::SqlResult;
use esker_types::trigger::{TriggerEvent, TriggerTiming};

use super::ast::{Account, CreateTrigger, Statement, TriggerPlace};
use super::keyword::Kw;
use super::parser::Parser;
use super::program::ProgramKind;

impl Parser<'_> {
    /// `TRIGGER [IF NOT EXISTS] name BEFORE|AFTER event ON table FOR EACH ROW [FOLLOWS|PRECEDES other] body`.
    pub(super) fn create_trigger(&mut self, definer: Option<Account>) -> SqlResult<Statement> {
        self.refuse_nested_program("TRIGGER")?;
        let start = self.cur.start;
        self.expect_kw(Kw::TRIGGER)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.object_name()?;
        let timing = match self.expect_any(&[Kw::BEFORE, Kw::AFTER])? {
            Kw::BEFORE => TriggerTiming::Before,
            _ => TriggerTiming::After,
        };
        let event = match self.expect_any(&[Kw::INSERT, Kw::UPDATE, Kw::DELETE])? {
            Kw::INSERT => TriggerEvent::Insert,
            Kw::UPDATE => TriggerEvent::Update,
            _ => TriggerEvent::Delete,
        };
        self.expect_kw(Kw::ON)?;
        let table = self.object_name()?;
        self.expect_seq(&[Kw::FOR, Kw::EACH, Kw::ROW])?;
        let place = self.trigger_place()?;
        let kind = ProgramKind::Trigger {
            by: event,
            before: timing == TriggerTiming::Before,
        };
        let body = self.program_body(kind, |_| Ok(()))?;
        Ok(Statement::CreateTrigger(Box::new(CreateTrigger {
            definer,
            if_not_exists,
            name,
            timing,
            event,
            table,
            place,
            body: Arc::new(body),
            text: self.source(start, self.prev_end),
        })))
    }

    /// `[FOLLOWS|PRECEDES other]`.
    fn trigger_place(&mut self) -> SqlResult<Option<TriggerPlace>> {
        let word = self.bytes(self.cur);
        let precedes = word.eq_ignore_ascii_case(b"PRECEDES");
        if !precedes && !word.eq_ignore_ascii_case(b"FOLLOWS") {
            return Ok(None);
        }
        self.advance();
        let other = self.ident()?;
        Ok(Some(TriggerPlace { precedes, other }))
    }
}
