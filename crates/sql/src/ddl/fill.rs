//! Filling new trees from the rows a table has.
//!
//! Neighbours: `alter` under the table's exclusive lock; nobody else knows the new trees yet.
//! **Invariants**: rows are read in their latest versions, which under the lock are the only ones;
//! new trees are written in batches of bounded size, which is safe because nothing names them until
//! the catalog change commits behind them in the same log; a row that cannot be converted, a
//! duplicate or a violated CHECK stops the whole statement.

use std::ops::Bound;

use esker_engine::{Cursor, Direction, Isolation, Txn, View};
use esker_types::cast::to_column;
use esker_types::{SqlError, SqlMode, SqlResult, SqlType, TypeKind, Value};
use jiff::tz::TimeZone;

use super::DdlCtx;
use super::alter::Facts;
use crate::catalog::{AutoStep, ColumnDef, DefaultDef, TableDef};
use crate::codec::{RowReader, UTC, encode_row};
use crate::dml::{Default, TableExprs, as_counter, auto_value, default_of, duplicate_entry};
use crate::dml::{implicit_value, max_auto};
use crate::exec_error::engine_error;
use crate::expr::{EvalEnv, NoVars, SubqueryStates};

/// A batch is committed after this many rows or bytes.
const ROWS_PER_COMMIT: usize = 4096;
const BYTES_PER_COMMIT: usize = 4 << 20;

/// A transaction that is committed every now and then.
struct Batches<'a> {
    ctx: &'a DdlCtx<'a>,
    txn: Txn,
    rows: usize,
    bytes: usize,
}

impl<'a> Batches<'a> {
    fn new(ctx: &'a DdlCtx<'a>) -> Self {
        let txn = ctx.catalog.engine().begin(Isolation::ReadCommitted);
        Self {
            ctx,
            txn,
            rows: 0,
            bytes: 0,
        }
    }

    /// Counts a row; commits when the batch is full.
    fn row_done(&mut self, bytes: usize) -> SqlResult<()> {
        self.rows += 1;
        self.bytes += bytes;
        if self.rows >= ROWS_PER_COMMIT || self.bytes >= BYTES_PER_COMMIT {
            (self.ctx.check_killed)()?;
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> SqlResult<()> {
        (self.rows, self.bytes) = (0, 0);
        // The catalog change commits later in the same log, so nobody has to wait for this one.
        self.txn.commit().map(|_| ()).map_err(|e| engine_error(&e))
    }

    fn put(&mut self, tree: &esker_engine::Tree, key: &[u8], value: &[u8]) -> SqlResult<()> {
        self.txn.put(tree, key, value).map_err(|e| engine_error(&e))
    }

    fn exists(&self, tree: &esker_engine::Tree, key: &[u8]) -> SqlResult<bool> {
        let found = self.txn.get_with(tree, key, View::Latest, |_| ());
        Ok(found.map_err(|e| engine_error(&e))?.is_some())
    }
}

/// All rows of a table, by clustered key.
fn rows(txn: &Txn, table: &TableDef) -> SqlResult<Cursor> {
    let all = Bound::Unbounded;
    txn.scan(
        &table.primary().tree,
        all,
        all,
        Direction::Forward,
        View::Latest,
    )
    .map_err(|e| engine_error(&e))
}

fn next(cursor: &mut Cursor) -> SqlResult<Option<(&[u8], &[u8])>> {
    cursor.next().map_err(|e| engine_error(&e))
}

/// Writes the entries of one row into the indexes at `which`; 1062 for a duplicate.
fn put_entries(
    batches: &mut Batches<'_>,
    table: &TableDef,
    which: &[usize],
    clustered: &[u8],
    bytes: &[u8],
    key: &mut Vec<u8>,
) -> SqlResult<()> {
    let row = RowReader::new(&table.layout, &UTC, bytes)?;
    for &at in which {
        let index = &table.indexes[at];
        let in_value = index.codec.entry(&row, clustered, key)?;
        if in_value && batches.exists(&index.tree, key)? {
            let row = row.in_zone(batches.ctx.eval.time_zone);
            return Err(duplicate_entry(table, index, &row));
        }
        batches.put(&index.tree, key, if in_value { clustered } else { &[] })?;
    }
    Ok(())
}

/// Fills the secondary indexes at `which`.
pub(super) fn fill_indexes(ctx: &DdlCtx<'_>, table: &TableDef, which: &[usize]) -> SqlResult<()> {
    if which.is_empty() {
        return Ok(());
    }
    let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
    let mut cursor = rows(&reader, table)?;
    let mut batches = Batches::new(ctx);
    let mut key = Vec::new();
    while let Some((clustered, bytes)) = next(&mut cursor)? {
        put_entries(&mut batches, table, which, clustered, bytes, &mut key)?;
        batches.row_done(bytes.len())?;
    }
    batches.commit()
}

/// 3819 if a row violates one of the named CHECK constraints (an empty name: any unnamed before).
pub(super) fn check_rows(ctx: &DdlCtx<'_>, table: &TableDef, names: &[Box<str>]) -> SqlResult<()> {
    if names.is_empty() {
        return Ok(());
    }
    let exprs = TableExprs::compile(ctx.eval, table)?;
    if exprs.checks.is_empty() {
        return Ok(());
    }
    let states = SubqueryStates::default();
    let env = EvalEnv::scalar(ctx.eval, &NoVars, &states);
    let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
    let mut cursor = rows(&reader, table)?;
    let mut values = Vec::new();
    while let Some((_, bytes)) = next(&mut cursor)? {
        let row = RowReader::new(&table.layout, ctx.eval.time_zone, bytes)?;
        values.clear();
        values.extend((0..table.columns.len()).map(|c| row.field(c).to_owned()));
        exprs.check(&values, &env)?;
    }
    Ok(())
}

/// The largest value of the AUTO_INCREMENT column.
pub(super) fn largest_auto(ctx: &DdlCtx<'_>, table: &TableDef) -> SqlResult<u64> {
    let Some(auto) = table.auto_column else {
        return Ok(0);
    };
    let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
    let mut cursor = rows(&reader, table)?;
    let mut largest = 0;
    while let Some((_, bytes)) = next(&mut cursor)? {
        let row = RowReader::new(&table.layout, &UTC, bytes)?;
        largest = largest.max(as_counter(&row.field(auto).to_owned()));
    }
    Ok(largest)
}

/// Where a column of the copy comes from.
enum Origin {
    /// The same column, stored alike.
    Same(usize),
    /// A column to be converted.
    Convert(usize),
    /// A new column.
    New,
}

/// Copies every row of `old` into the new trees of `new`; the number of rows.
pub(super) fn copy_table(
    ctx: &DdlCtx<'_>,
    old: &TableDef,
    new: &TableDef,
    facts: &Facts,
) -> SqlResult<u64> {
    let strict = ctx.eval.strict_write.replace(ctx.eval.sql_mode.is_strict());
    let copied = Copy::new(ctx, old, new, facts)?.run();
    ctx.eval.strict_write.set(strict);
    copied
}

struct Copy<'a> {
    ctx: &'a DdlCtx<'a>,
    old: &'a TableDef,
    new: &'a TableDef,
    origins: Vec<Origin>,
    exprs: TableExprs,
    /// Zone in which TIMESTAMPs are read and written: UTC, unless they become local times.
    zone: TimeZone,
    which: Vec<usize>,
}

impl<'a> Copy<'a> {
    fn new(
        ctx: &'a DdlCtx<'a>,
        old: &'a TableDef,
        new: &'a TableDef,
        facts: &Facts,
    ) -> SqlResult<Self> {
        let mut local = false;
        let origin = |c: &ColumnDef| match old.columns.iter().position(|o| o.id == c.id) {
            None => {
                debug_assert!(facts.added.contains(&c.id));
                Origin::New
            }
            Some(at) if old.columns[at].ty == c.ty => Origin::Same(at),
            Some(at) => {
                let is_timestamp = |ty: &SqlType| ty.kind == TypeKind::Timestamp;
                local |= is_timestamp(&c.ty) || is_timestamp(&old.columns[at].ty);
                Origin::Convert(at)
            }
        };
        let origins: Vec<Origin> = new.columns.iter().map(origin).collect();
        local |= origins.iter().any(|o| matches!(o, Origin::New));
        Ok(Self {
            exprs: TableExprs::compile(ctx.eval, new)?,
            zone: if local {
                ctx.eval.time_zone.clone()
            } else {
                TimeZone::UTC
            },
            which: (1..new.indexes.len()).collect(),
            ctx,
            old,
            new,
            origins,
        })
    }

    fn run(&self) -> SqlResult<u64> {
        let reader = self.ctx.catalog.engine().begin(Isolation::ReadCommitted);
        let mut cursor = rows(&reader, self.old)?;
        let mut batches = Batches::new(self.ctx);
        let states = SubqueryStates::default();
        let env = EvalEnv::scalar(self.ctx.eval, &NoVars, &states);
        let (mut clustered, mut key, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut values = vec![Value::Null; self.new.columns.len()];
        let mut count = 0;
        while let Some((_, stored)) = next(&mut cursor)? {
            count += 1;
            let row = RowReader::new(&self.old.layout, &self.zone, stored)?;
            self.convert(&row, &mut values, count, &env)?;
            self.exprs.check(&values, &env)?;
            bytes.clear();
            encode_row(&self.new.layout, &self.zone, &values, &mut bytes)?;
            self.clustered_key(&batches, &bytes, count, &mut clustered)?;
            put_entries(
                &mut batches,
                self.new,
                &self.which,
                &clustered,
                &bytes,
                &mut key,
            )?;
            batches.put(&self.new.primary().tree, &clustered, &bytes)?;
            batches.row_done(bytes.len())?;
        }
        batches.commit()?;
        Ok(count)
    }

    /// The clustered key of a copied row; 1062 if the new primary key is not unique.
    fn clustered_key(
        &self,
        batches: &Batches<'_>,
        bytes: &[u8],
        row_number: u64,
        key: &mut Vec<u8>,
    ) -> SqlResult<()> {
        key.clear();
        let primary = self.new.primary();
        if primary.hidden {
            key.extend_from_slice(&row_number.to_be_bytes());
            return Ok(());
        }
        let row = RowReader::new(&self.new.layout, &UTC, bytes)?;
        primary.codec.encode_row_parts(&row, key)?;
        if batches.exists(&primary.tree, key)? {
            let row = row.in_zone(self.ctx.eval.time_zone);
            return Err(duplicate_entry(self.new, primary, &row));
        }
        Ok(())
    }

    fn convert(
        &self,
        row: &RowReader<'_>,
        values: &mut [Value],
        row_number: u64,
        env: &EvalEnv<'_>,
    ) -> SqlResult<()> {
        for (at, origin) in self.origins.iter().enumerate() {
            let column = &self.new.columns[at];
            values[at] = match origin {
                Origin::Same(from) => row.field(*from).to_owned(),
                Origin::Convert(from) => {
                    let ty = &self.old.columns[*from].ty;
                    self.converted(row.field(*from).to_owned(), ty, column, row_number)?
                }
                Origin::New => self.new_value(column)?,
            };
        }
        for (at, column) in self.new.columns.iter().enumerate() {
            if !matches!(self.origins[at], Origin::New) {
                continue;
            }
            if let Some(e) = self.exprs.default_of(at) {
                let value = e.eval(values, env)?;
                values[at] = self.converted(value, &e.ty, column, row_number)?;
            }
        }
        self.number(values);
        Ok(())
    }

    fn converted(
        &self,
        value: Value,
        from: &SqlType,
        column: &ColumnDef,
        row_number: u64,
    ) -> SqlResult<Value> {
        if !value.is_null() {
            return to_column(
                self.ctx.eval,
                value,
                from,
                &column.ty,
                &column.name,
                row_number,
            );
        }
        if column.ty.nullable || column.auto_increment {
            return Ok(Value::Null);
        }
        if self.ctx.eval.strict_write.get() {
            return Err(SqlError::new(1138, "22004", "Invalid use of NULL value"));
        }
        Ok(implicit_value(&column.ty))
    }

    fn new_value(&self, column: &ColumnDef) -> SqlResult<Value> {
        Ok(match default_of(self.ctx.eval, column) {
            Default::Value(value) => value,
            Default::None => implicit_value(&column.ty),
            Default::Expr => Value::Null,
        })
    }

    /// Rows without a number in a new AUTO_INCREMENT column get one.
    fn number(&self, values: &mut [Value]) {
        let Some(auto) = self.new.auto_column else {
            return;
        };
        let ty = &self.new.columns[auto].ty;
        match as_counter(&values[auto]) {
            0 if values[auto].is_null() || matches!(self.origins[auto], Origin::New) => {
                let range = self.new.runtime.draw(1, AutoStep::ONE, max_auto(ty));
                values[auto] = auto_value(ty, range.first);
            }
            value => self.new.runtime.note(value),
        }
    }
}

/// 1292 where rows would get a zero date in an added NOT NULL column, and the SQL mode forbids it.
pub(super) fn refuse_zero_dates(
    ctx: &DdlCtx<'_>,
    old: &TableDef,
    added: &[&ColumnDef],
) -> SqlResult<()> {
    let mode = ctx.eval.sql_mode;
    if !(mode.is_strict() && mode.has(SqlMode::NO_ZERO_DATE)) {
        return Ok(());
    }
    let kind = |ty: &SqlType| match ty.kind {
        TypeKind::Date => Some(("date", "0000-00-00")),
        TypeKind::DateTime | TypeKind::Timestamp => Some(("datetime", "0000-00-00 00:00:00")),
        _ => None,
    };
    for column in added {
        let (DefaultDef::None, Some((kind, zero))) = (&column.default, kind(&column.ty)) else {
            continue;
        };
        let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
        if next(&mut rows(&reader, old)?)?.is_some() {
            let text = format!(
                "Incorrect {kind} value: '{zero}' for column '{}' at row 1",
                column.name
            );
            return Err(SqlError::new(1292, "22007", text));
        }
    }
    Ok(())
}

/// The value that rows older than a column have: its default, as stored (TIMESTAMP in UTC).
pub(super) fn instant_default(ctx: &DdlCtx<'_>, column: &ColumnDef) -> SqlResult<Value> {
    let value = match (&column.default, default_of(ctx.eval, column)) {
        // Constants of the definition are in UTC already.
        (DefaultDef::Value(value), _) => return Ok(value.clone()),
        (_, Default::Value(value)) => value,
        (_, Default::None) => implicit_value(&column.ty),
        (_, Default::Expr) => Value::Null,
    };
    match value {
        Value::DateTime(t) if column.ty.kind == TypeKind::Timestamp => Ok(Value::DateTime(
            crate::codec::temporal::zone_to_utc(t, ctx.eval.time_zone)?,
        )),
        value => Ok(value),
    }
}
