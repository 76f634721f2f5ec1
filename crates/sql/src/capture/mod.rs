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
//! - A statement has the TABLE_MAPs of all its tables before the first of their rows, as in MySQL, and its last row
//!   event ends it. One whose rows do not fit into memory ends when a table comes that was not among them, and goes on
//!   as another one: its maps have gone with the rows.
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

/// Where a statement inside of another one begins.
struct Mark {
    events: usize,
    maps: usize,
    rows: usize,
    /// Tables that were mapped there; meanwhile maps may have ended and begun anew.
    mapped: Vec<usize>,
    has_gone: bool,
    last: Option<usize>,
    /// What was gathered there, when that has gone to the transaction meanwhile or was put together.
    kept: Option<[Vec<u8>; 3]>,
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
    /// Tables whose maps stand before the rows that come.
    mapped: Vec<usize>,
    /// Some of the rows behind these maps are with the transaction already.
    has_gone: bool,
    /// Events that have ended: statements, and rows with their maps.
    events: Vec<u8>,
    /// Maps that may get company, and the statement's text before them.
    maps: Vec<u8>,
    /// The whole row events behind them, and where the body of the last one begins.
    rows: Vec<u8>,
    last: Option<usize>,
    /// Of the statements inside of statements.
    marks: Vec<Mark>,
    /// Memory for the body of the next event.
    spare: Vec<u8>,
    /// Hashes of the keys that the transaction has changed.
    keys: Vec<u64>,
    /// It has changed rows that no key tells apart.
    unkeyed: bool,
    /// A row was not taken down, or in part: what has been gathered must not stay.
    is_torn: bool,
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
        debug_assert!(self.open.is_none() && self.gathered() == 0);
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

    /// Is a row missing in what was taken down?
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Takes rows, if the statement is logged.
    pub(crate) fn if_on(&mut self) -> Option<&mut Self> {
        self.is_on.then_some(self)
    }

    /// A statement of its own stands before the rows: the CREATE TABLE of what they fill.
    pub(crate) fn push_statement(&mut self, events: &[u8]) {
        debug_assert_eq!(self.gathered(), 0);
        self.events.extend_from_slice(events);
    }

    /// Takes back what the statement has gathered; the caller cuts the attachment off.
    pub(crate) fn undo_statement(&mut self) {
        self.forget_rows();
        self.marks.clear();
        self.is_on = false;
    }

    /// A statement begins inside of the present one; [`Self::end_inside`] or [`Self::undo_inside`] ends it.
    pub(crate) fn begin_inside(&mut self) {
        self.close(false);
        self.marks.push(Mark {
            events: self.events.len(),
            maps: self.maps.len(),
            rows: self.rows.len(),
            mapped: self.mapped.clone(),
            has_gone: self.has_gone,
            last: self.last,
            kept: None,
        });
    }

    /// It went well.
    pub(crate) fn end_inside(&mut self) {
        let mark = self.marks.pop();
        debug_assert!(mark.is_some(), "it has begun");
    }

    /// Takes back what has come since [`Self::begin_inside`]; the caller cuts the attachment off where that stood.
    pub(crate) fn undo_inside(&mut self) {
        self.open = None;
        self.is_torn = false;
        let Some(mark) = self.marks.pop() else { return };
        match mark.kept {
            Some(kept) => [self.events, self.maps, self.rows] = kept,
            None => {
                self.events.truncate(mark.events);
                self.maps.truncate(mark.maps);
                self.rows.truncate(mark.rows);
            }
        }
        self.mapped = mark.mapped;
        (self.has_gone, self.last) = (mark.has_gone, mark.last);
    }

    /// A savepoint stands here. What came before goes to the transaction, where it stays if what follows is undone.
    ///
    /// # Errors
    /// The transaction is too large.
    pub(crate) fn begin_savepoint(&mut self, txn: &mut Txn) -> Result<(), ExecError> {
        self.end_rows();
        self.hand_over(txn)
    }

    /// Takes back what has come since [`Self::begin_savepoint`]; the caller cuts the attachment off.
    pub(crate) fn undo_to_savepoint(&mut self) {
        self.forget_rows();
    }

    fn forget_rows(&mut self) {
        self.open = None;
        self.is_torn = false;
        self.mapped.clear();
        self.has_gone = false;
        self.last = None;
        for events in [&mut self.events, &mut self.maps, &mut self.rows] {
            events.clear();
        }
    }

    /// The statement went well: its events go to the transaction.
    ///
    /// # Errors
    /// The transaction is too large.
    pub(crate) fn end_statement(&mut self, txn: &mut Txn) -> Result<(), ExecError> {
        debug_assert!(self.marks.is_empty(), "statements inside have ended");
        self.end_rows();
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
        self.is_torn = true;
        self.prepare(txn, at, kind, (columns, None))?;
        let (Some(open), known) = (&mut self.open, self.tables.get(at)) else {
            return Ok(());
        };
        image(known, table, &open.before, row, &mut open.body)?;
        self.is_torn = false;
        Ok(())
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
        self.is_torn = true;
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
            debug_assert!(false, "it was prepared");
            return Ok(());
        };
        image(known, table, &open.before, old, &mut open.body)?;
        let after = open.after.as_deref().unwrap_or(&open.before);
        match self.edits_documents {
            true => edited_image(known, table, after, (old, new), &mut open.body)?,
            false => image(known, table, after, new, &mut open.body)?,
        }
        self.is_torn = false;
        Ok(())
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
        let is_mapped = self.mapped.contains(&at);
        match is_mapped || !self.has_gone {
            true => self.close(false),
            false => self.end_rows(),
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
                &mut self.maps,
            );
        }
        if !is_mapped {
            let map = self.tables.get(at).map();
            push_event(EventType::TableMap, 0, self.time, map, &mut self.maps);
            self.mapped.push(at);
        }
        if self.gathered() >= GATHERED_BYTES {
            self.has_gone = true;
            self.hand_over(txn)?;
            self.last = None;
        }
        let known = self.tables.get(at);
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

    /// Ends the open event, which is the last behind its maps if `ends`.
    fn close(&mut self, ends: bool) {
        if let Some(mut open) = self.open.take() {
            if ends {
                rows::end_statement(&mut open.body);
            }
            push_event(open.kind, 0, self.time, &open.body, &mut self.rows);
            self.last = Some(self.rows.len() - open.body.len());
            if open.body.capacity() <= GATHERED_BYTES {
                open.body.clear();
                self.spare = open.body;
            }
        }
    }

    /// Ends the rows behind the present maps.
    fn end_rows(&mut self) {
        self.keep();
        match (self.open.is_some(), self.last) {
            (true, _) => self.close(true),
            (false, Some(last)) => rows::end_statement(&mut self.rows[last..]),
            (false, None) => debug_assert!(self.mapped.is_empty(), "maps have rows behind them"),
        }
        self.mapped.clear();
        self.has_gone = false;
        self.last = None;
        self.events.append(&mut self.maps);
        self.events.append(&mut self.rows);
    }

    /// What was there when statements inside began does not stay in its place: it is kept for who undoes them.
    fn keep(&mut self) {
        for mark in self.marks.iter_mut().filter(|mark| mark.kept.is_none()) {
            mark.kept = Some([
                self.events[..mark.events].to_vec(),
                self.maps[..mark.maps].to_vec(),
                self.rows[..mark.rows].to_vec(),
            ]);
        }
    }

    /// Bytes of events that are not with the transaction.
    fn gathered(&self) -> usize {
        self.events.len() + self.maps.len() + self.rows.len()
    }

    fn hand_over(&mut self, txn: &mut Txn) -> Result<(), ExecError> {
        self.keep();
        for events in [&mut self.events, &mut self.maps, &mut self.rows] {
            if !events.is_empty() {
                self.cache.push(txn, events)?;
                events.clear();
                events.shrink_to(2 * GATHERED_BYTES);
            }
        }
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
