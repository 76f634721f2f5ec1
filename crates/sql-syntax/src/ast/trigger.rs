//! CREATE TRIGGER.
//!
//! Neighbours: `ddl` makes the catalog's definition of it; `program` has the body.
//! **Invariant**: the text is source text as written, and that of the body is its end.

use std::sync::Arc;

use esker_types::trigger::{TriggerEvent, TriggerTiming};

use super::{Account, Body, Ident, ObjectName};

/// CREATE TRIGGER.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTrigger {
    /// DEFINER.
    pub definer: Option<Account>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Name; its database has to be that of the table.
    pub name: ObjectName,
    /// BEFORE or AFTER.
    pub timing: TriggerTiming,
    /// The change of a row.
    pub event: TriggerEvent,
    /// Table.
    pub table: ObjectName,
    /// FOLLOWS or PRECEDES another trigger.
    pub place: Option<TriggerPlace>,
    /// What it does.
    pub body: Arc<Body>,
    /// Source text from TRIGGER on.
    pub text: Box<str>,
}

/// Where a trigger stands among those of the same timing and event.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggerPlace {
    /// PRECEDES rather than FOLLOWS.
    pub precedes: bool,
    /// The other trigger.
    pub other: Ident,
}
