//! HANDLER … READ: binds its condition and its key, and reads rows in the order of an index.
//!
//! Neighbours: `place` says which keys are read; the codec reads entries and rows.
//! **Invariants**
//! - Rows are read at the transaction's snapshot and not locked, at every isolation level.
//! - Where it stands is remembered also if the statement fails on its way.

use std::sync::Arc;

use esker_engine::{Direction, View};
use esker_sql_catalog::catalog::{self, ColumnDef, IndexDef, ReadCount, TableDef, same_name};
use esker_sql_catalog::codec::RowReader;
use esker_sql_catalog::exec_error::{ExecError, ExecResult, engine_error};
use esker_sql_catalog::result::{ColumnMeta, Mode, RowSink};
use esker_sql_exec::{ExecEnv, SubqueryStates};
use esker_sql_plan::bind::{Names, Params, Scope, bind_condition, bind_expr, number_literal};
use esker_sql_plan::expr::Expr;
use esker_sql_syntax::ast::{self, HandlerMove, HandlerRead, Literal};
use esker_types::{
    Date, DateTime, EvalCtx, SqlError, SqlResult, SqlType, Time, TypeKind, Value, errors,
};

use super::super::Session;
use super::super::cursor::{Collector, PULL};
use super::super::names::Purpose;
use super::super::rows::RowSource;
use super::super::run::Done;
use super::super::scope::StatementScope;
use super::base_table;
use super::place::{Goal, Spot, Walk, walk};
use crate::dml;

/// Rows that are read on a shared worker.
const INLINE_ROWS: u64 = 100;
/// What 1210 calls the statement.
const STATEMENT: &str = "HANDLER ... READ";

/// A READ whose names are known.
struct Bound {
    table: Arc<TableDef>,
    /// The index by its number; `None`: the order of the rows.
    index: Option<usize>,
    /// Values of the key that is looked for.
    key: Vec<KeyValue>,
    filter: Option<Expr>,
}

/// A value of a key.
enum KeyValue {
    Given(Expr),
    /// DEFAULT.
    Default,
}

impl KeyValue {
    /// May it take long?
    fn is_computed(&self) -> bool {
        match self {
            Self::Given(expr) => expr.as_const().is_none(),
            Self::Default => false,
        }
    }
}

/// LIMIT: how many rows to pass over, and how many to give.
#[derive(Clone, Copy)]
struct Window {
    skip: u64,
    take: u64,
}

impl Bound {
    fn index(&self) -> &IndexDef {
        &self.table.indexes[self.index.unwrap_or(0)]
    }

    /// The column of a key part.
    fn part(&self, nth: usize) -> &ColumnDef {
        &self.table.columns[self.index().parts[nth].col]
    }
}

impl Session {
    pub(super) fn read_handler(
        &mut self,
        read: &HandlerRead,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        let at = self.handlers.find(&read.name.text)?;
        let mut window = window(read.limit.as_ref())?;
        let rows = window.skip.saturating_add(window.take);
        if mode == Mode::Inline && (read.filter.is_some() || rows > INLINE_ROWS) {
            return Ok(Done::NeedThread);
        }
        self.use_transaction();
        let handler = &self.handlers.0[at];
        let (schema, name) = (handler.schema.clone(), handler.name.clone());
        let alias = handler.alias.clone();
        let bound = self.bind(Purpose::Run, |scope| {
            let table = base_table(&scope.names, &schema, &name)?;
            bind(scope, table, &alias, read)
        })?;
        if mode == Mode::Inline && bound.key.iter().any(KeyValue::is_computed) {
            return Ok(Done::NeedThread);
        }
        let handler = &mut self.handlers.0[at];
        if !Arc::ptr_eq(&handler.table, &bound.table) {
            handler.table = bound.table.clone();
            handler.stands = None;
        }
        let columns: Arc<[ColumnMeta]> = columns(&bound.table, &alias).into();
        let goal = match &read.to {
            HandlerMove::First => Goal::First,
            HandlerMove::Next => Goal::Next,
            HandlerMove::Prev => Goal::Prev,
            HandlerMove::Last => Goal::Last,
            HandlerMove::Key(search, _) => Goal::Key(*search, self.handler_key(&bound, mode)?),
        };
        // A full-text index has no order, and nothing is found in it, as in MySQL.
        if window.take == 0 || bound.index().is_fulltext() {
            return Ok(rows_of(columns, Vec::new()));
        }
        let stands = self.handlers.0[at].stands.take();
        let spot = stands.filter(|(index, _)| *index == bound.index);
        let walk = walk(spot.as_ref().map(|(_, spot)| spot), goal);
        let mut spot = walk.end.clone();
        let states = SubqueryStates::default();
        let (found, raised) = self.execute(mode, false, &[], |env| {
            let executor = env.executor(&states);
            let env = env.env(&executor);
            self.walk_rows(&bound, &walk, &mut window, &mut spot, &env)
        });
        self.diagnostics.add(&self.vars, raised);
        self.handlers.0[at].stands = Some((bound.index, spot));
        Ok(rows_of(columns, found?.rows))
    }

    /// The beginning of the index's keys that is looked for.
    fn handler_key(&mut self, bound: &Bound, mode: Mode) -> Result<Vec<u8>, ExecError> {
        let states = SubqueryStates::default();
        let (values, raised) = self.execute(mode, false, &[], |env| -> ExecResult<_> {
            let executor = env.executor(&states);
            let env = env.env(&executor);
            let value = |value: &KeyValue| match value {
                KeyValue::Given(expr) => Ok(Some((expr.eval(&[], &env)?, expr.ty.clone()))),
                KeyValue::Default => Ok(None),
            };
            bound.key.iter().map(value).collect::<ExecResult<Vec<_>>>()
        });
        self.diagnostics.add(&self.vars, raised);
        let ctx = self.context.eval_ctx(&self.vars);
        let mut key = Vec::new();
        for (nth, value) in values?.into_iter().enumerate() {
            let value = key_value(&ctx, bound.part(nth), value)?;
            let codec = &bound.index().codec;
            codec.encode_part(nth, value.as_ref(), &self.vars.time_zone, &mut key)?;
        }
        let raised = ctx.diagnostics.take();
        drop(ctx);
        self.diagnostics.add(&self.vars, raised);
        Ok(key)
    }

    /// Reads rows until there are enough; `spot` is where the handler stands then.
    fn walk_rows(
        &self,
        bound: &Bound,
        walk: &Walk,
        window: &mut Window,
        spot: &mut Spot,
        env: &ExecEnv<'_>,
    ) -> ExecResult<Collector> {
        let mut kept = Collector::default();
        let (table, index) = (&bound.table, bound.index());
        table.check_visible(index, self.txn.snapshot())?;
        let Some(range) = &walk.range else {
            return Ok(kept);
        };
        let (lower, upper) = (range.lower(), range.upper());
        let scan = self
            .txn
            .scan(&index.tree, lower, upper, walk.direction, View::Snapshot);
        let mut cursor = scan.map_err(|e| engine_error(&e))?;
        let mut reads = ReadCount::default();
        let (calls, keys) = match (bound.index, walk.direction) {
            (None, _) => (catalog::Walk::Table, 0),
            (Some(_), Direction::Forward) => (catalog::Walk::Keys, 1),
            (Some(_), Direction::Backward) => (catalog::Walk::KeysBack, 1),
        };
        let counts = table.accesses(bound.index.unwrap_or(0), bound.index.is_none());
        reads.aim(counts, calls, keys);
        while let Some((key, bytes)) = cursor.next().map_err(|e| engine_error(&e))? {
            reads.add();
            self.context.check()?;
            *spot = Spot::At(key.to_vec());
            let Some(row) = self.handler_row(table, index, key, bytes)? else {
                continue;
            };
            if let Some(filter) = &bound.filter
                && !filter.is_true(&row, env)?
            {
                continue;
            }
            if window.skip > 0 {
                window.skip -= 1;
                continue;
            }
            keep(&mut kept, table, &row);
            if kept.bytes() >= PULL {
                kept.count(self, "HANDLER's")?;
            }
            window.take -= 1;
            if window.take == 0 {
                return Ok(kept);
            }
        }
        *spot = walk.end.clone();
        Ok(kept)
    }

    /// The row of an entry, all columns.
    fn handler_row(
        &self,
        table: &TableDef,
        index: &IndexDef,
        key: &[u8],
        bytes: &[u8],
    ) -> SqlResult<Option<Vec<Value>>> {
        let read = |bytes: &[u8]| -> SqlResult<Vec<Value>> {
            let row = RowReader::new(&table.layout, &self.vars.time_zone, bytes)?;
            let columns = 0..table.columns.len();
            Ok(columns.map(|column| row.field(column).to_owned()).collect())
        };
        if index.primary {
            return read(bytes).map(Some);
        }
        let clustered = index.codec.clustered_of(key, bytes)?;
        let tree = &table.primary().tree;
        let row = self.txn.get_with(tree, clustered, View::Snapshot, read);
        row.map_err(|e| engine_error(&e))?.transpose()
    }
}

/// Rows that are whole, as a statement's answer.
fn rows_of(columns: Arc<[ColumnMeta]>, rows: Vec<Vec<Value>>) -> Done {
    Done::Rows(Box::new(RowSource::Table(columns, rows.into_iter())))
}

/// Columns that a row is given with, in order.
fn given(table: &TableDef) -> impl Iterator<Item = (usize, &ColumnDef)> {
    let columns = table.columns.iter().enumerate();
    columns.filter(|(_, column)| !column.is_hidden() && !column.invisible)
}

fn keep(kept: &mut Collector, table: &TableDef, row: &[Value]) {
    kept.begin_row();
    for (nth, column) in given(table) {
        kept.value(row[nth].as_ref(), &column.ty);
    }
    kept.end_row();
}

fn columns(table: &TableDef, alias: &str) -> Vec<ColumnMeta> {
    let alias: Arc<str> = alias.into();
    let column = |(nth, _)| ColumnMeta::stored(table, nth, alias.clone());
    given(table).map(column).collect()
}

/// LIMIT; without it, one row.
fn window(limit: Option<&ast::Limit>) -> SqlResult<Window> {
    let number = |e: &ast::Expr| match e {
        ast::Expr::Literal(Literal::Int(n)) => Ok(*n),
        _ => Err(errors::wrong_arguments("LIMIT")),
    };
    let Some(limit) = limit else {
        return Ok(Window { skip: 0, take: 1 });
    };
    Ok(Window {
        skip: limit.offset.as_ref().map_or(Ok(0), number)?,
        take: number(&limit.count)?,
    })
}

/// Binds a READ of `table`.
fn bind(
    scope: &StatementScope<'_>,
    table: Arc<TableDef>,
    alias: &str,
    read: &HandlerRead,
) -> SqlResult<Bound> {
    admit_all_columns(scope, &table)?;
    let mut row = Scope::new();
    let named = table.columns.iter().map(|c| (c.name.clone(), c.ty.clone()));
    row.add_named_row(alias, &named.collect::<Vec<_>>(), 0);
    let env = scope.env(Params::Values(&[]));
    let filter = read.filter.as_ref();
    let filter = filter
        .map(|filter| bind_condition(&env, &row, filter))
        .transpose()?;
    let index = read.index.as_ref();
    let index = index
        .map(|name| find_index(&table, &name.text, alias))
        .transpose()?;
    let mut bound = Bound {
        table,
        index,
        key: Vec::new(),
        filter,
    };
    if let HandlerMove::Key(_, values) = &read.to {
        let parts = bound.index().parts.len();
        if values.len() > parts {
            return Err(errors::too_many_key_parts(parts));
        }
        let value = |(nth, value): (usize, &ast::Expr)| match value {
            ast::Expr::Default(None) => Ok(KeyValue::Default),
            other => {
                // What is compared with numbers is one.
                let is_number = bound.part(nth).ty.is_numeric();
                let number = is_number.then(|| number_literal(other)).flatten();
                let given = number.map_or_else(|| bind_expr(&env, &row, other), Ok);
                Ok(KeyValue::Given(given?))
            }
        };
        bound.key = (values.iter().enumerate().map(value)).collect::<SqlResult<_>>()?;
    }
    if env.calls.get() {
        return Err(SqlError::not_supported(
            "stored functions in HANDLER ... READ",
        ));
    }
    let reads_row = |value: &KeyValue| match value {
        KeyValue::Given(expr) => {
            let mut reads = false;
            expr.slots(&mut |_| reads = true);
            reads
        }
        KeyValue::Default => false,
    };
    match bound.key.iter().any(reads_row) {
        true => Err(errors::wrong_arguments(STATEMENT)),
        false => Ok(bound),
    }
}

/// Privileges on some columns are not enough.
fn admit_all_columns(scope: &StatementScope<'_>, table: &TableDef) -> SqlResult<()> {
    let restricted = scope.names.restricted(&table.schema, &table.name);
    let Some(readable) = restricted.and_then(|restricted| restricted.readable.clone()) else {
        return Ok(());
    };
    let is_open = |column: &ColumnDef| readable.iter().any(|name| same_name(name, &column.name));
    match given(table).all(|(_, column)| is_open(column)) {
        true => Ok(()),
        false => Err(scope.names.context.denied("SELECT", &table.name)),
    }
}

/// The index of this name, by its number.
fn find_index(table: &TableDef, name: &str, alias: &str) -> SqlResult<usize> {
    let mut indexes = table.indexes.iter();
    let found = indexes.position(|index| !index.hidden && same_name(&index.name, name));
    let at = found.ok_or_else(|| errors::unknown_key(name, alias))?;
    let index = &table.indexes[at];
    if index.is_inverted() && !index.is_fulltext() {
        return Err(SqlError::not_supported(
            "HANDLER ... READ of a multi-valued index",
        ));
    }
    Ok(at)
}

/// A value as the key part's column has it; `None` is its default. What does not fit is cut, as in MySQL, but for what
/// is no date or time at all.
fn key_value(
    ctx: &EvalCtx<'_>,
    column: &ColumnDef,
    value: Option<(Value, SqlType)>,
) -> SqlResult<Value> {
    let Some((value, from)) = value else {
        return match dml::default_of(ctx, column) {
            dml::Default::Value(value) => Ok(value),
            dml::Default::None | dml::Default::Expr => Err(errors::no_default(&column.name)),
        };
    };
    let mark = ctx.diagnostics.mark();
    let value = dml::assign(ctx, value, &from, ("", column), 1, false)?;
    let is_zero = match &value {
        Value::Date(date) => *date == Date::ZERO,
        Value::Time(time) => *time == Time::ZERO,
        Value::DateTime(moment) => *moment == DateTime::ZERO,
        Value::Int(year) if column.ty.kind == TypeKind::Year => *year == 0,
        _ => {
            ctx.diagnostics.undo_to(mark);
            return Ok(value);
        }
    };
    match is_zero && ctx.diagnostics.raised_since(mark) {
        true => Err(errors::wrong_arguments(STATEMENT)),
        false => Ok(value),
    }
}
