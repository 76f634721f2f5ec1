//! Rows kept with a prepared statement for COM_STMT_FETCH.
//!
//! Neighbours: the server opens a cursor by keeping a statement's rows here.
//! **Invariants**: the rows are bounded by esker_query_memory_limit and count against the memory of all statements; a
//! new execution, a reset or the statement's end drops them.

use std::sync::Arc;

use esker_engine::Seq;
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::result::{ColumnMeta, RowSink};
use esker_sql_exec::Reserved;
use esker_sql_syntax::ast::Statement;
use esker_types::{SqlError, SqlResult, SqlType, Value, ValueRef, errors};

use super::{Running, Session, Work};

/// Rough cost of a value without its text, bytes.
const VALUE_BYTES: u64 = 40;

/// Rows not yet fetched.
pub(crate) struct Cursor {
    columns: Arc<[ColumnMeta]>,
    rows: std::vec::IntoIter<Vec<Value>>,
    /// What the rows take, until all of them go.
    _reserved: Reserved,
}

/// Collects rows as values.
#[derive(Default)]
pub(crate) struct Collector {
    pub(crate) rows: Vec<Vec<Value>>,
    current: Vec<Value>,
    bytes: u64,
    /// Of these, those that are counted.
    counted: u64,
    reserved: Reserved,
}

impl Collector {
    /// Counts the rows that have come; as a sink it is empty from here on.
    ///
    /// # Errors
    /// 1041: they are more than esker_query_memory_limit, or there is no memory. `whose` says what they belong to.
    pub(super) fn count(&mut self, session: &Session, whose: &str) -> SqlResult<()> {
        if self.bytes > session.vars.query_memory_limit {
            let what = format!("{whose} rows exceed esker_query_memory_limit");
            return Err(errors::out_of_memory(what));
        }
        let budget = session.context.instance.engine.memory();
        let raised = self.reserved.raise(self.bytes, budget);
        self.counted = self.bytes;
        raised.map_err(|e| engine_error(&e))
    }

    /// The rows, and what was reserved for them.
    pub(super) fn into_rows(self) -> (Vec<Vec<Value>>, Reserved) {
        (self.rows, self.reserved)
    }
}

impl RowSink for Collector {
    fn begin_row(&mut self) {
        self.current.clear();
    }
    fn value(&mut self, v: ValueRef<'_>, _ty: &SqlType) {
        self.bytes += VALUE_BYTES
            + match v {
                ValueRef::Str(s) | ValueRef::Json(s) | ValueRef::Label(_, s) => s.len() as u64,
                _ => 0,
            };
        self.current.push(v.to_owned());
    }
    fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.current));
    }
    fn bytes(&self) -> usize {
        usize::try_from(self.bytes - self.counted).unwrap_or(usize::MAX)
    }
}

/// Bytes of rows pulled between two looks at the memory limit.
pub(super) const PULL: usize = 64 * 1024;

impl Session {
    /// May the rows of the statement that was started be kept? Those of a CALL are sent: there may be several results.
    pub fn may_keep_rows(&self) -> bool {
        !matches!(&self.running, Some(Running { work: Work::Ready(statement, _), .. })
            if matches!(**statement, Statement::Call { .. }))
    }

    /// Keeps the rows of the statement that has just run with prepared statement `id`. Returns what
    /// they depend on.
    ///
    /// # Errors
    /// 1243, the statement's own errors, 1041 above the memory limit.
    pub fn keep_rows(&mut self, id: u32) -> SqlResult<Seq> {
        let columns = self.row_columns()?;
        let mut kept = Collector::default();
        let mut depends_on = 0;
        loop {
            let batch = self.next_rows(&mut kept, PULL)?;
            depends_on = depends_on.max(batch.depends_on);
            kept.count(self, "a cursor's")?;
            if !batch.more {
                break;
            }
        }
        let (rows, reserved) = kept.into_rows();
        let cursor = Cursor {
            columns,
            rows: rows.into_iter(),
            _reserved: reserved,
        };
        let prepared = self.prepared.find_mut(id)?;
        prepared.cursor = Some(cursor);
        Ok(depends_on)
    }

    fn cursor_mut(&mut self, id: u32) -> SqlResult<&mut Cursor> {
        self.prepared.find_mut(id)?.cursor.as_mut().ok_or_else(|| {
            SqlError::new(
                1421,
                "HY000",
                format!("The statement ({id}) has no open cursor."),
            )
        })
    }

    /// Columns of an open cursor.
    ///
    /// # Errors
    /// 1243, 1421.
    pub fn cursor_columns(&mut self, id: u32) -> SqlResult<Arc<[ColumnMeta]>> {
        self.cursor_mut(id).map(|c| c.columns.clone())
    }

    /// COM_STMT_FETCH: at most `limit` rows. False when there were fewer: the cursor is closed then.
    ///
    /// # Errors
    /// 1243, 1421.
    pub fn fetch(&mut self, id: u32, limit: u64, sink: &mut dyn RowSink) -> SqlResult<bool> {
        let cursor = self.cursor_mut(id)?;
        let columns = cursor.columns.clone();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut fetched = 0;
        for row in cursor.rows.by_ref().take(limit) {
            fetched += 1;
            sink.begin_row();
            for (value, column) in row.iter().zip(columns.iter()) {
                sink.value(value.as_ref(), &column.ty);
            }
            sink.end_row();
        }
        let is_open = fetched == limit;
        if !is_open {
            self.prepared.find_mut(id)?.cursor = None;
        }
        // What the statement did to find them is not told again.
        self.no_index_used = false;
        Ok(is_open)
    }
}
