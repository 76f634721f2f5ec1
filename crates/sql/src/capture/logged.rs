//! Statements as the binary log has them: the text that is logged in place of rows, and the mark of a transaction that
//! another server committed first.
//!
//! Neighbours: `binlog::statement` and `binlog::definition` make them, `ddl` logs them with the record of its change.
//! **Invariant**: what is logged of a statement and what says that it is applied are in one record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_binlog::attachment::{Attachment, push_event};
use esker_binlog::event::EventType;
use esker_binlog::event::query::Query;
use esker_sql_catalog::catalog::{ChannelRow, TableDef, show_create_table};
use esker_types::{SqlError, SqlResult, errors};
use jiff::tz::TimeZone;

/// Says in the record of a transaction that it is applied.
#[derive(Debug)]
pub(crate) struct AppliedMark {
    row: ChannelRow,
    is_written: AtomicBool,
}

impl AppliedMark {
    /// The row that says so.
    pub(crate) fn new(row: ChannelRow) -> Self {
        Self {
            row,
            is_written: AtomicBool::new(false),
        }
    }

    /// The row.
    pub(crate) fn row(&self) -> &ChannelRow {
        &self.row
    }

    /// It is now among the writes of the transaction.
    pub(crate) fn written(&self) {
        self.is_written.store(true, Ordering::Relaxed);
    }

    /// Is it among them?
    pub(crate) fn is_written(&self) -> bool {
        self.is_written.load(Ordering::Relaxed)
    }
}

/// A statement as the binary log is to have it.
#[derive(Debug, Clone, Default)]
pub struct LoggedStatement {
    /// What is said of the transaction.
    pub(crate) head: Vec<u8>,
    /// The statement, as an event.
    pub(crate) events: Vec<u8>,
    /// Of which transaction of another server it is.
    pub(crate) mark: Option<Arc<AppliedMark>>,
}

/// What this server has written itself a moment ago.
fn unreadable(e: &esker_binlog::Error) -> SqlError {
    errors::internal(format!("Binary log: {e}"))
}

impl LoggedStatement {
    /// Of an event and what is said of it.
    pub(crate) fn of(head: Vec<u8>, events: Vec<u8>) -> Self {
        let mark = None;
        Self { head, events, mark }
    }

    /// Is there something to log? If not, it says no more than which transaction of another server it is.
    pub(crate) fn is_logged(&self) -> bool {
        !self.events.is_empty()
    }

    /// The same in other words.
    pub(crate) fn reworded(self, text: &[u8]) -> SqlResult<Self> {
        let bytes = [&*self.head, &*self.events].concat();
        let mut events = Vec::with_capacity(self.events.len() + text.len());
        let parts = match bytes.is_empty() {
            true => Vec::new(),
            false => Attachment::parse(&bytes)
                .and_then(|a| a.parts())
                .map_err(|e| unreadable(&e))?,
        };
        for part in parts {
            let query = Query::parse(part.body).map_err(|e| unreadable(&e))?;
            let mut body = Vec::with_capacity(part.body.len() + text.len());
            Query { text, ..query }.write(&mut body);
            push_event(EventType::Query, part.flags, part.time, &body, &mut events);
        }
        Ok(Self { events, ..self })
    }
}

/// CREATE TABLE of this definition by the given name, which is in backticks. It is run in the zone that is logged with
/// it, so that is the zone of its defaults.
pub(crate) fn definition(
    def: &TableDef,
    name: &str,
    if_not_exists: bool,
    zone: &TimeZone,
) -> String {
    let text = show_create_table(def, zone);
    let exists = if if_not_exists { "IF NOT EXISTS " } else { "" };
    let rest = text.split_once('(').map_or("", |(_, rest)| rest);
    format!("CREATE TABLE {exists}{name} ({rest}")
}
