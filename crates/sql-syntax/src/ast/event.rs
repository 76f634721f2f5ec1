//! CREATE EVENT and ALTER EVENT.
//!
//! Neighbours: the parser's `event` builds these; the session evaluates their times.
//! **Invariant**: what is not said is `None`; its default is known where the statement runs.

use std::sync::Arc;

pub use esker_types::program::EventStatus;

use super::{Account, Body, Expr, ObjectName};

/// ON SCHEDULE.
#[derive(Debug, Clone, PartialEq)]
pub enum EventSchedule {
    /// AT.
    At(Expr),
    /// EVERY.
    Every {
        /// How many of the unit.
        amount: Box<Expr>,
        /// The unit, in lower case.
        unit: &'static str,
        /// STARTS.
        starts: Option<Box<Expr>>,
        /// ENDS.
        ends: Option<Box<Expr>>,
    },
}

/// What CREATE and ALTER EVENT may say of an event.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventClauses {
    /// ON SCHEDULE.
    pub schedule: Option<EventSchedule>,
    /// ON COMPLETION PRESERVE rather than NOT PRESERVE.
    pub preserve: Option<bool>,
    /// ENABLE, DISABLE.
    pub status: Option<EventStatus>,
    /// COMMENT.
    pub comment: Option<Box<str>>,
    /// DO.
    pub body: Option<Arc<Body>>,
}

/// CREATE EVENT.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateEvent {
    /// DEFINER.
    pub definer: Option<Account>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Name.
    pub name: ObjectName,
    /// The rest.
    pub clauses: EventClauses,
    /// The statement from the word EVENT on.
    pub text: Box<str>,
}

/// ALTER EVENT.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterEvent {
    /// DEFINER.
    pub definer: Option<Account>,
    /// Name.
    pub name: ObjectName,
    /// RENAME TO.
    pub rename: Option<ObjectName>,
    /// The rest.
    pub clauses: EventClauses,
    /// The statement from the word EVENT on.
    pub text: Box<str>,
}
