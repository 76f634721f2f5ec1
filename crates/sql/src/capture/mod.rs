//! Change capture: what a session has changed, as events of the binary log.
//!
//! Parts: `shape` (tables as events see them), `cache` (where events gather until the commit), `filter` (which
//! databases are logged), `logged` (statements as the log has them). Neighbours: `dml::logged` reports every row that
//! is written; `session` begins and ends statements here, and asks for the head when a transaction commits; `binlog`
//! above does everything else about the log.
//!
//! **Invariants**
//! - A statement that is undone leaves no event: what is open is thrown away, and what went to the transaction's
//!   attachment is cut off by the savepoint.
//! - Row events of one table and kind follow its TABLE_MAP within a statement; the last one of a table ends the
//!   statement, so a reader never has to have two tables open.
//! - Rows have passed every lock and unique key before they come here.

mod cache;
mod filter;
mod logged;
mod shape;

use std::sync::Arc;

use esker_binlog::attachment::push_event;
use esker_binlog::event::rows::{self, Bitmap, RowFlags};
use esker_binlog::event::{EventType, FLAG_IGNORABLE};
use esker_binlog::image::NotInImage;
use esker_binlog::writeset::key_hash;
use esker_engine::{TreeId, Txn};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::variables::{LogVars, RowImage};
use esker_types::SqlError;

use cache::EventCache;
use shape::{KnownTables, Logged};

pub(crate) use cache::{CaptureSettings, disk_full};
pub(crate) use filter::DatabaseFilter;
pub use logged::LoggedStatement;
pub(crate) use logged::{AppliedMark, definition};

/// Events of a statement that gather before they go to the transaction's attachment, bytes.
const GATHERED_BYTES: usize = 64 << 10;
/// A transaction that changes more keys is one that everything waits for.
const MAX_KEYS: usize = esker_binlog::writeset::HISTORY_KEYS;

/// What events say of the transaction's first statement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beginning {
    /// When it began, seconds since the epoch.
    pub(crate) time: u32,
    /// The default database.
    pub(crate) schema: Option<Arc<str>>,
    /// Settings, as bytes.
    pub(crate) settings: Vec<u8>,
}

/// The row event that is being written.
struct Open {
    table: usize,
    kind: EventType,
    flags: RowFlags,
    before: Arc<Bitmap>,
    after: Option<Arc<Bitmap>>,
    body: Vec<u8>,
}

/// The changes of a session.
#[derive(Default)]
pub struct Capture {
    /// The statement is logged.
    is_on: bool,
    image: Option<RowImage>,
    /// Documents that were changed may have edits instead (`binlog_row_value_options`).
    edits_documents: bool,
    flags: RowFlags,
    event_bytes: usize,
    time: u32,
    /// The statement as it is to be logged beside its rows; taken when the first row comes.
    text: Option<Vec<u8>>,
    tables: KnownTables,
    open: Option<Open>,
    /// The table whose map was written last in this statement.
    mapped: Option<usize>,
    /// Whole events of this statement.
    events: Vec<u8>,
    /// Memory for the body of the next event.
    spare: Vec<u8>,
    /// Hashes of the keys that the transaction has changed.
    keys: Vec<u64>,
    /// It has changed rows that no key tells apart.
    unkeyed: bool,
    beginning: Option<Beginning>,
    cache: EventCache,
}

/// What a statement starts with.
pub(crate) struct Start<'a> {
    pub(crate) vars: &'a LogVars,
    pub(crate) event_bytes: usize,
    pub(crate) time: u32,
    pub(crate) text: Option<Vec<u8>>,
}

impl Capture {
    /// A statement begins that is logged.
    pub(crate) fn begin_statement(&mut self, start: Start<'_>) {
        debug_assert!(self.open.is_none() && self.events.is_empty());
        self.is_on = true;
        self.image = Some(start.vars.image);
        self.edits_documents = start.vars.edits_documents;
        self.flags = start.vars.flags;
        self.event_bytes = start.event_bytes;
        self.time = start.time;
        self.text = start.text;
    }

    /// A statement begins that is not logged.
    pub(crate) fn skip_statement(&mut self) {
        self.is_on = false;
    }

    pub(crate) fn tables(&mut self) -> &mut KnownTables {
        &mut self.tables
    }

    pub(crate) fn beginning(&mut self) -> &mut Option<Beginning> {
        &mut self.beginning
    }

    pub(crate) fn cache(&mut self) -> &mut EventCache {
        &mut self.cache
    }

    /// Are events of the transaction in a file, which its commit has to wait for?
    pub(crate) fn has_spooled(&self) -> bool {
        self.cache.has_spool()
    }

    /// The transaction has not committed.
    pub(crate) fn forget_transaction(&mut self) {
        self.cache.discard();
    }

    /// Takes rows, if the statement is logged.
    pub(crate) fn if_on(&mut self) -> Option<&mut Self> {
        self.is_on.then_some(self)
    }

    /// A statement of its own stands before the rows: the CREATE TABLE of what they fill.
    pub(crate) fn push_statement(&mut self, events: &[u8]) {
        debug_assert!(self.events.is_empty());
        self.events.extend_from_slice(events);
    }

    /// Takes back what the statement has gathered; the caller cuts the attachment off.
    pub(crate) fn undo_statement(&mut self) {
        self.open = None;
        self.mapped = None;
        self.events.clear();
        self.is_on = false;
    }

    /// A statement begins inside of the present one, or a savepoint stands there. What came before goes to the
    /// transaction, where it stays if what follows is undone.
    ///
    /// # Errors
    /// The transaction is too large.
    pub(crate) fn begin_inside(&mut self, txn: &mut Txn) -> Result<(), ExecError> {
        self.close(true);
        self.mapped = None;
        self.hand_over(txn)
    }

    /// Takes back what has come since [`Self::begin_inside`]; the caller cuts the attachment off.
    pub(crate) fn undo_inside(&mut self) {
        self.open = None;
        self.mapped = None;
        self.events.clear();
    }

    /// The statement went well: its events go to the transaction.
    ///
    /// # Errors
    /// The transaction is too large.
    pub(crate) fn end_statement(&mut self, txn: &mut Txn) -> Result<(), ExecError> {
        self.close(true);
        self.mapped = None;
        self.is_on = false;
        self.hand_over(txn)
    }

    /// The transaction is over.
    pub(crate) fn end_transaction(&mut self) {
        self.undo_statement();
        self.keys.clear();
        self.unkeyed = false;
        self.beginning = None;
        self.cache.end();
    }

    /// The keys that the transaction has changed, if keys tell its rows apart.
    pub(crate) fn write_set(&mut self) -> Option<&[u64]> {
        if self.unkeyed {
            return None;
        }
        self.keys.sort_unstable();
        self.keys.dedup();
        Some(&self.keys)
    }

    /// A key of an index was written or removed.
    pub(crate) fn key(&mut self, index: TreeId, key: &[u8]) {
        if self.keys.len() < MAX_KEYS {
            self.keys.push(key_hash(index.0.into(), key));
        } else {
            self.unkeyed = true;
        }
    }

    /// What row events say of the session from now on: rows that are applied keep what theirs said.
    pub(crate) fn set_flags(&mut self, flags: RowFlags) {
        self.flags = flags;
    }

    /// A row was inserted; `is_left` says which columns the statement has left to a constant default: replicas have
    /// it, too.
    pub(crate) fn insert(
        &mut self,
        txn: &mut Txn,
        table: &TableDef,
        row: &[u8],
        is_left: &dyn Fn(usize) -> bool,
    ) -> Result<(), ExecError> {
        if self.cache.leaves_out(&table.schema) {
            return Ok(());
        }
        let at = self.table(table);
        let known = self.tables.get(at);
        let columns = match self.image.unwrap_or(RowImage::Full) {
            RowImage::Full => Arc::clone(known.all()),
            image => Arc::new(known.inserted(image, is_left)),
        };
        self.one_image(txn, table, (at, EventType::WriteRows, columns), row)
    }

    /// A row was deleted.
    pub(crate) fn delete(
        &mut self,
        txn: &mut Txn,
        table: &TableDef,
        row: &[u8],
    ) -> Result<(), ExecError> {
        if self.cache.leaves_out(&table.schema) {
            return Ok(());
        }
        let at = self.table(table);
        let known = self.tables.get(at);
        let columns = Arc::clone(known.before(self.image.unwrap_or(RowImage::Full)));
        self.one_image(txn, table, (at, EventType::DeleteRows, columns), row)
    }

    fn one_image(
        &mut self,
        txn: &mut Txn,
        table: &TableDef,
        (at, kind, columns): (usize, EventType, Arc<Bitmap>),
        row: &[u8],
    ) -> Result<(), ExecError> {
        self.prepare(txn, at, kind, (columns, None))?;
        let (Some(open), known) = (&mut self.open, self.tables.get(at)) else {
            return Ok(());
        };
        image(known, table, &open.before, row, &mut open.body)
    }

    /// A row was changed.
    pub(crate) fn update(
        &mut self,
        txn: &mut Txn,
        table: &TableDef,
        old: &[u8],
        new: &[u8],
    ) -> Result<(), ExecError> {
        if self.cache.leaves_out(&table.schema) {
            return Ok(());
        }
        let at = self.table(table);
        let known = self.tables.get(at);
        let wanted = self.image.unwrap_or(RowImage::Full);
        let before = Arc::clone(known.before(wanted));
        let after = match wanted {
            RowImage::Full => Arc::clone(known.all()),
            _ => Arc::new(known.changed(wanted, table, old, new)?),
        };
        let kind = match self.edits_documents {
            true => EventType::PartialUpdateRows,
            false => EventType::UpdateRows,
        };
        self.prepare(txn, at, kind, (before, Some(after)))?;
        let (Some(open), known) = (&mut self.open, self.tables.get(at)) else {
            return Ok(());
        };
        image(known, table, &open.before, old, &mut open.body)?;
        let after = open.after.as_deref().unwrap_or(&open.before);
        match self.edits_documents {
            true => edited_image(known, table, after, (old, new), &mut open.body),
            false => image(known, table, after, new, &mut open.body),
        }
    }

    fn table(&mut self, table: &TableDef) -> usize {
        let at = self.tables.find(table);
        self.unkeyed |= !self.tables.get(at).has_key();
        at
    }

    /// Makes the open event one of this table, kind and columns.
    fn prepare(
        &mut self,
        txn: &mut Txn,
        at: usize,
        kind: EventType,
        (before, after): (Arc<Bitmap>, Option<Arc<Bitmap>>),
    ) -> Result<(), ExecError> {
        let fits = |open: &Open| {
            (open.table, open.kind, &open.before, &open.after) == (at, kind, &before, &after)
                && open.flags == self.flags
                && open.body.len() < self.event_bytes
        };
        if self.open.as_ref().is_some_and(fits) {
            return Ok(());
        }
        let goes_on = self.mapped == Some(at);
        self.close(!goes_on);
        if self.events.len() >= GATHERED_BYTES {
            self.hand_over(txn)?;
        }
        if let Some(text) = self.text.take() {
            let mut body = Vec::with_capacity(text.len() + 1);
            esker_binlog::event::control::write_rows_query(&text, &mut body);
            let flags = FLAG_IGNORABLE as u8;
            push_event(
                EventType::RowsQuery,
                flags,
                self.time,
                &body,
                &mut self.events,
            );
        }
        let known = self.tables.get(at);
        if !goes_on {
            let map = known.map();
            push_event(EventType::TableMap, 0, self.time, map, &mut self.events);
            self.mapped = Some(at);
        }
        let mut body = std::mem::take(&mut self.spare);
        let id = known.shape().table_id;
        rows::begin(id, self.flags, &before, after.as_deref(), &mut body);
        self.open = Some(Open {
            table: at,
            kind,
            flags: self.flags,
            before,
            after,
            body,
        });
        Ok(())
    }

    /// Ends the open event, which is the last of its table if `ends`.
    fn close(&mut self, ends: bool) {
        if let Some(mut open) = self.open.take() {
            if ends {
                rows::end_statement(&mut open.body);
            }
            push_event(open.kind, 0, self.time, &open.body, &mut self.events);
            if open.body.capacity() <= GATHERED_BYTES {
                open.body.clear();
                self.spare = open.body;
            }
        }
    }

    fn hand_over(&mut self, txn: &mut Txn) -> Result<(), ExecError> {
        if self.events.is_empty() {
            return Ok(());
        }
        self.cache.push(txn, &self.events)?;
        self.events.clear();
        self.events.shrink_to(2 * GATHERED_BYTES);
        Ok(())
    }
}

/// Appends the image of a stored row.
fn image(
    known: &Logged,
    table: &TableDef,
    columns: &Bitmap,
    row: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ExecError> {
    let row = RowReader::new(&table.layout, &UTC, row)?;
    let field = |nth: usize| row.field(known.place(nth));
    rows::write_image(known.shape(), columns, field, out).map_err(|e| not_written(&e))
}

/// The same for what a row has become, with edits for documents that have changed little.
fn edited_image(
    known: &Logged,
    table: &TableDef,
    columns: &Bitmap,
    (old, new): (&[u8], &[u8]),
    out: &mut Vec<u8>,
) -> Result<(), ExecError> {
    let old = RowReader::new(&table.layout, &UTC, old)?;
    let new = RowReader::new(&table.layout, &UTC, new)?;
    let fields = (
        |nth: usize| old.field(known.place(nth)),
        |nth: usize| new.field(known.place(nth)),
    );
    let columns = (columns, known.editable());
    rows::write_edited_image(known.shape(), columns, fields, out).map_err(|e| not_written(&e))
}

fn not_written(e: &NotInImage) -> ExecError {
    SqlError::new(1594, "HY000", format!("Binary log: {e}")).into()
}
