//! Filling new trees from the rows a table has.
//!
//! Neighbours: `alter` under the table's exclusive lock; nobody else knows the new trees yet; the engine sorts and
//! writes the entries ([`TreeBuilder`]). **Invariants**: rows are read in their latest versions, which under the lock
//! are the only ones; a new tree gets its whole content in one step, past log and memtables, which is safe because
//! nothing names the tree until the catalog change commits behind it; a row that cannot be converted, a duplicate or a
//! violated CHECK stops the whole statement.

use std::ops::Bound;
use std::sync::Arc;

use esker_engine::{BuildError, Cursor, Direction, EngineError, Isolation, TreeBuilder, Txn, View};
use esker_sql_catalog::catalog::{AutoStep, ColumnDef, DefaultDef, TableDef, max_auto};
use esker_sql_catalog::codec::{RowReader, UTC, encode_row};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_plan::expr::{CallStates, EvalEnv, NoVars};
use esker_types::cast::to_column;
use esker_types::{SqlError, SqlMode, SqlResult, SqlType, TypeKind, Value};
use jiff::tz::TimeZone;

use super::DdlCtx;
use super::alter::AlterContext;
use crate::dml::foreign::RowsInsert;
use crate::dml::implicit_value;
use crate::dml::{Default, TableExprs, as_counter, auto_value, default_of, duplicate_entry};

/// Memory for sorting entries, of all trees of a statement together, and the least that one gets. Bytes.
const SORT_BYTES: usize = 64 << 20;
const LEAST_SORT_BYTES: usize = 1 << 20;
/// Rows between two looks at whether the statement was killed.
const ROWS_PER_LOOK: u64 = 1024;

/// New trees that are being filled.
struct Fill<'a> {
    ctx: &'a DdlCtx<'a>,
    table: &'a TableDef,
    /// The rows, if they are new, too.
    clustered: Option<TreeBuilder>,
    /// Positions of indexes, and their entries.
    indexes: Vec<(usize, TreeBuilder)>,
    key: Vec<u8>,
    rows: u64,
}

impl<'a> Fill<'a> {
    /// Fills the indexes at `which`, and the clustered one if `with_rows`.
    fn new(ctx: &'a DdlCtx<'a>, table: &'a TableDef, which: &[usize], with_rows: bool) -> Self {
        if with_rows {
            table.announce_fields();
        }
        let builders = which.len() + usize::from(with_rows);
        let memory = (SORT_BYTES / builders.max(1)).max(LEAST_SORT_BYTES);
        let engine = ctx.catalog.engine();
        let builder = |at: usize| engine.build_tree(&table.indexes[at].tree, memory);
        Self {
            ctx,
            table,
            clustered: with_rows.then(|| builder(0)),
            indexes: which.iter().map(|&at| (at, builder(at))).collect(),
            key: Vec::new(),
            rows: 0,
        }
    }

    /// Adds a row: itself, if rows are filled, and its entries.
    fn add(&mut self, clustered: &[u8], bytes: &[u8]) -> SqlResult<()> {
        if let Some(rows) = &mut self.clustered
            && let Err(e) = rows.add(clustered, bytes)
        {
            return Err(self.failed(0, e));
        }
        let row = RowReader::new(&self.table.layout, &UTC, bytes)?;
        for nth in 0..self.indexes.len() {
            let (at, entries) = &mut self.indexes[nth];
            let at = *at;
            let codec = &self.table.indexes[at].codec;
            let in_value = codec.entry(&row, clustered, &mut self.key)?;
            let value = if in_value { clustered } else { &[] };
            if let Err(e) = entries.add(&self.key, value) {
                return Err(self.failed(at, e));
            }
        }
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_PER_LOOK) {
            (self.ctx.check_killed)()?;
        }
        Ok(())
    }

    /// Makes the trees complete, the rows first.
    fn finish(mut self) -> SqlResult<()> {
        self.finish_rows()?;
        for (at, entries) in std::mem::take(&mut self.indexes) {
            let go_on = || (self.ctx.check_killed)().is_ok();
            entries.finish(&go_on).map_err(|e| self.failed(at, e))?;
        }
        Ok(())
    }

    fn finish_rows(&mut self) -> SqlResult<()> {
        let Some(rows) = self.clustered.take() else {
            return Ok(());
        };
        let go_on = || (self.ctx.check_killed)().is_ok();
        let built = rows.finish(&go_on);
        built.map(drop).map_err(|e| self.failed(0, e))
    }

    /// The error of index `at`: 1062 with the values of the later of two rows.
    fn failed(&mut self, at: usize, e: BuildError) -> SqlError {
        let value = match e {
            BuildError::Duplicate { value, .. } => value,
            BuildError::Engine(e) => {
                let killed = (self.ctx.check_killed)().err();
                return match (e, killed) {
                    (EngineError::Cancelled(_), Some(killed)) => killed,
                    (e, _) => engine_error(&e),
                };
            }
        };
        // An entry's value is the key of its row.
        let row = match at {
            0 => Ok(Some(value.into_vec())),
            _ => self.stored_row(&value),
        };
        let row = match row {
            Ok(row) => row.unwrap_or_default(),
            Err(e) => return e,
        };
        match RowReader::new(&self.table.layout, &self.ctx.eval.time_zone, &row) {
            Ok(row) => duplicate_entry(self.table, &self.table.indexes[at], &row),
            Err(e) => e,
        }
    }

    /// A row by its clustered key; rows that are being filled are completed for that.
    fn stored_row(&mut self, clustered: &[u8]) -> SqlResult<Option<Vec<u8>>> {
        self.finish_rows()?;
        let reader = self.ctx.catalog.engine().begin(Isolation::ReadCommitted);
        let row = reader.get(&self.table.primary().tree, clustered, View::Latest);
        row.map_err(|e| engine_error(&e))
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

/// Fills the secondary indexes at `which`.
pub(super) fn fill_indexes(ctx: &DdlCtx<'_>, table: &TableDef, which: &[usize]) -> SqlResult<()> {
    if which.is_empty() {
        return Ok(());
    }
    let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
    let mut cursor = rows(&reader, table)?;
    let mut fill = Fill::new(ctx, table, which, false);
    while let Some((clustered, bytes)) = next(&mut cursor)? {
        fill.add(clustered, bytes)?;
    }
    fill.finish()
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
    let calls = CallStates::default();
    let env = EvalEnv::scalar(ctx.eval, &NoVars, &calls);
    let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
    let mut cursor = rows(&reader, table)?;
    let mut values = Vec::new();
    while let Some((_, bytes)) = next(&mut cursor)? {
        let row = RowReader::new(&table.layout, &ctx.eval.time_zone, bytes)?;
        values.clear();
        values.extend((0..table.columns.len()).map(|c| row.field(c).to_owned()));
        exprs.check(&values, &env)?;
    }
    Ok(())
}

/// 1452 if a row has no parent by one of the named foreign keys. Their parents are locked exclusively, or the table
/// itself. Gives the number of rows that were looked at.
pub(super) fn check_foreign_keys(
    ctx: &DdlCtx<'_>,
    table: &TableDef,
    names: &[Box<str>],
) -> SqlResult<u64> {
    if names.is_empty() {
        return Ok(0);
    }
    let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
    let own = Arc::new(table.clone());
    let lookup = |schema: &str, name: &str| ctx.catalog.resolve(schema, name);
    let keys = RowsInsert::new(&lookup, own, names);
    let mut cursor = rows(&reader, table)?;
    let mut count = 0;
    while let Some((_, bytes)) = next(&mut cursor)? {
        keys.check(&reader, bytes)?;
        count += 1;
        if u64::is_multiple_of(count, ROWS_PER_LOOK) {
            (ctx.check_killed)()?;
        }
    }
    Ok(count)
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
    context: &AlterContext,
) -> SqlResult<u64> {
    let strict = ctx
        .eval
        .diagnostics
        .strict_write
        .replace(ctx.eval.sql_mode.is_strict());
    let copied = Copy::new(ctx, old, new, context)?.run();
    ctx.eval.diagnostics.strict_write.set(strict);
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
        context: &AlterContext,
    ) -> SqlResult<Self> {
        let mut local = false;
        let origin = |c: &ColumnDef| match old.columns.iter().position(|o| o.id == c.id) {
            None => {
                debug_assert!(context.added.contains(&c.id));
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
        let mut fill = Fill::new(self.ctx, self.new, &self.which, true);
        let calls = CallStates::default();
        let env = EvalEnv::scalar(self.ctx.eval, &NoVars, &calls);
        let (mut clustered, mut bytes) = (Vec::new(), Vec::new());
        let mut values = vec![Value::Null; self.new.columns.len()];
        let mut count = 0;
        while let Some((_, stored)) = next(&mut cursor)? {
            count += 1;
            let row = RowReader::new(&self.old.layout, &self.zone, stored)?;
            self.convert(&row, &mut values, count, &env)?;
            self.exprs.check(&values, &env)?;
            bytes.clear();
            encode_row(&self.new.layout, &self.zone, &values, &mut bytes)?;
            self.clustered_key(&bytes, count, &mut clustered)?;
            fill.add(&clustered, &bytes)?;
        }
        fill.finish()?;
        Ok(count)
    }

    /// The clustered key of a copied row.
    fn clustered_key(&self, bytes: &[u8], row_number: u64, key: &mut Vec<u8>) -> SqlResult<()> {
        key.clear();
        let primary = self.new.primary();
        if primary.hidden {
            key.extend_from_slice(&row_number.to_be_bytes());
            return Ok(());
        }
        let row = RowReader::new(&self.new.layout, &UTC, bytes)?;
        primary.codec.encode_row_parts(&row, key).map(drop)
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
        self.exprs
            .generate(&self.new.columns, values, (row_number, false), env)
    }

    fn converted(
        &self,
        value: Value,
        from: &SqlType,
        column: &ColumnDef,
        row_number: u64,
    ) -> SqlResult<Value> {
        // The empty text that stands for a wrong label is one of every ENUM's values.
        let is_enum = |ty: &SqlType| matches!(ty.kind, TypeKind::Enum(_));
        if matches!(value, Value::Label(0, _)) && is_enum(from) && is_enum(&column.ty) {
            return Ok(value);
        }
        if !value.is_null() {
            let stored = to_column(
                self.ctx.eval,
                value,
                from,
                &column.ty,
                &column.name,
                row_number,
            );
            return stored.map_err(|e| shortened(e, from, column, row_number));
        }
        if column.ty.nullable || column.auto_increment {
            return Ok(Value::Null);
        }
        if self.ctx.eval.diagnostics.strict_write.get() {
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

/// A VARCHAR that becomes a shorter one has an error of its own, 1265.
fn shortened(e: SqlError, from: &SqlType, column: &ColumnDef, row_number: u64) -> SqlError {
    let is_shorter = e.code == 1406
        && (&from.kind, &column.ty.kind) == (&TypeKind::VarChar, &TypeKind::VarChar)
        && from.collation.charset() == column.ty.collation.charset();
    if !is_shorter {
        return e;
    }
    let text = format!(
        "Data truncated for column '{}' at row {row_number}",
        column.name
    );
    SqlError::new(1265, "01000", text)
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
            esker_sql_catalog::codec::temporal::zone_to_utc(t, &ctx.eval.time_zone)?,
        )),
        value => Ok(value),
    }
}
