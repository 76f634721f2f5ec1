//! Running an INSERT: one row after the other.
//!
//! Neighbours: `conflict` when a unique key is taken, `write` for the row; `values` (below) has what a row
//! consists of.
//! **Invariants**: see the module head; a row that fails leaves nothing of itself behind but locks
//! and drawn numbers.

mod values;

use esker_engine::{SavepointId, Seq};
use esker_sql_catalog::catalog::{DefaultDef, TableDef};
use esker_sql_catalog::codec::{RowReader, encode_row};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, InfoText};
use esker_sql_exec::SubqueryStates;
use esker_sql_exec::{Budget, RowBuffer, RowStream, TakenRows};
use esker_types::{EvalCtx, Level, SqlResult, SqlType, TypeKind, Value, errors};
use jiff::tz::TimeZone;

use super::numbers::Numbers;
use super::{CompiledInsert, OnConflict, Rows};
use crate::dml::foreign::{self, Enforcer};
use crate::dml::logged::Replaced;
use crate::dml::through_view::is_failed_check;
use crate::dml::write::{Conflict, KeyRun, NewKey, Writer, Written, new_key};
use crate::dml::{DmlDone, DmlEnv, strict_writes};

/// Rows of a query that are gathered before they are written, where it may go on behind them.
const QUERY_ROWS: usize = 256;

/// A statement under way.
pub(super) struct Run<'r, 'e> {
    pub(super) insert: &'r CompiledInsert,
    pub(super) env: &'r mut DmlEnv<'e>,
    pub(super) states: SubqueryStates,
    /// The row being made; behind it room for the existing row of ON DUPLICATE KEY UPDATE.
    pub(super) row: Vec<Value>,
    /// What ON DUPLICATE KEY UPDATE reads of the query's tables, by slot behind the new row.
    pub(super) source: Vec<Value>,
    /// Rows inserted, rows deleted or updated for them, rows found equal.
    pub(super) counts: Counts,
    pub(super) auto: Numbers,
    /// REPLACE: what the row that is being stored takes the place of.
    pub(super) replaced: Option<Replaced>,
    pub(super) key_run: KeyRun,
    pub(super) lenient: bool,
}

/// What became of an attempt to store a row.
pub(super) enum Attempt {
    Stored,
    /// It has no parent, and is not one of the statement's under IGNORE.
    LeftOut,
    /// A unique key is taken.
    Conflict(Conflict),
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) inserted: u64,
    pub(super) deleted: u64,
    pub(super) updated: u64,
    pub(super) unchanged: u64,
}

/// A generated number as the column's value.
pub(crate) fn auto_value(ty: &SqlType, number: u64) -> Value {
    if ty.unsigned {
        Value::UInt(number)
    } else {
        Value::Int(number as i64)
    }
}

/// A stored AUTO_INCREMENT value as the counter counts it; negative ones do not count.
pub(crate) fn as_counter(value: &Value) -> u64 {
    match value {
        Value::Int(v) => u64::try_from(*v).unwrap_or(0),
        Value::UInt(v) => *v,
        _ => 0,
    }
}

/// The type of the texts that labels are stored as which no table has: those of MIN and MAX.
fn text_type(from: &ColumnMeta) -> Option<SqlType> {
    let is_computed = from.ty.is_label() && from.table.is_empty();
    is_computed.then(|| SqlType::varchar(from.ty.length, from.ty.collation))
}

/// A stored AUTO_INCREMENT value as the protocol gives it to clients.
fn as_insert_id(value: &Value) -> u64 {
    match value {
        Value::Int(v) => *v as u64,
        value => as_counter(value),
    }
}

impl CompiledInsert {
    /// Runs.
    pub(in crate::dml) fn run(&self, env: &mut DmlEnv<'_>) -> Result<DmlDone, ExecError> {
        let ctx = env.ctx;
        self.tell_of_delayed(ctx);
        let lenient = self.is_lenient(ctx);
        self.run_with(env, lenient, |run| run.all_rows())
    }

    /// Is NULL for a NOT NULL column a warning?
    pub(super) fn is_lenient(&self, ctx: &EvalCtx<'_>) -> bool {
        let single = matches!(&self.rows, Rows::Values(rows) if rows.len() == 1);
        self.ignore || (!ctx.sql_mode.is_strict() && !single)
    }

    /// 3005.
    pub(super) fn tell_of_delayed(&self, ctx: &EvalCtx<'_>) {
        if self.delayed {
            let what = if self.on_conflict == OnConflict::Replace {
                "REPLACE"
            } else {
                "INSERT"
            };
            let text = format!(
                "{what} DELAYED is no longer supported. The statement was converted to {what}."
            );
            ctx.warn(Level::Warning, 3005, text);
        }
    }

    /// Runs with rows that `store_rows` brings.
    pub(super) fn run_with<'e>(
        &self,
        env: &mut DmlEnv<'e>,
        lenient: bool,
        store_rows: impl FnOnce(&mut Run<'_, 'e>) -> Result<(), ExecError>,
    ) -> Result<DmlDone, ExecError> {
        let _strict = strict_writes(env.ctx, self.ignore);
        let mut run = Run {
            lenient,
            insert: self,
            row: std::mem::take(&mut env.scratch.values),
            auto: Numbers::new(env.auto_first),
            env,
            states: SubqueryStates::default(),
            source: Vec::new(),
            counts: Counts::default(),
            replaced: None,
            key_run: KeyRun::default(),
        };
        let mut result = store_rows(&mut run).and_then(|()| {
            let warnings = run.env.ctx.diagnostics.count();
            run.finish(warnings)
        });
        match result {
            Ok(_) => {}
            Err(ExecError::Wait(_)) => run.auto.undraw(self.table()),
            Err(ExecError::Sql(_)) if run.env.keeps_rows => {
                if let Err(e) = run.keep_numbers() {
                    result = Err(e);
                }
            }
            Err(ExecError::Sql(_)) => {}
        }
        let mut row = std::mem::take(&mut run.row);
        row.clear();
        env.scratch.values = row;
        env.scratch.trim();
        result
    }

    /// Has every row the column's constant default?
    fn is_left(&self, col: usize) -> bool {
        if self.relaxed.is_some() {
            return false;
        }
        let column = &self.table().columns[col];
        let is_constant = matches!(column.default, DefaultDef::Value(_));
        self.unassigned.contains(&col)
            && is_constant
            && !column.auto_increment
            && column.generated.is_none()
    }

    /// 1364 for columns without a value and without a default, before any row is made.
    pub(super) fn check_defaults(&self, env: &DmlEnv<'_>) -> SqlResult<()> {
        self.unassigned
            .iter()
            .filter(|&&col| self.wants_value(col))
            .try_for_each(|&col| self.no_default(env.ctx, col))
    }

    /// Has the column no default, and nothing that stands in for it?
    pub(super) fn wants_value(&self, col: usize) -> bool {
        let column = &self.table().columns[col];
        let has_none = matches!(column.default, DefaultDef::None) && !column.auto_increment;
        has_none && !matches!(column.ty.kind, TypeKind::Enum(_))
    }

    /// 1364, a warning outside strict mode; there is no zero of geometries.
    pub(super) fn no_default(&self, ctx: &EvalCtx<'_>, col: usize) -> SqlResult<()> {
        let column = &self.table().columns[col];
        let e = match &self.view {
            Some(view) => view.no_default(),
            None => errors::no_default(&column.name),
        };
        if ctx.diagnostics.strict_write.get() || column.ty.is_geometry() {
            return Err(e);
        }
        ctx.warn(Level::Warning, e.code, e.message);
        Ok(())
    }
}

impl Run<'_, '_> {
    pub(super) fn table(&self) -> &TableDef {
        self.insert.table()
    }

    fn all_rows(&mut self) -> Result<(), ExecError> {
        let insert = self.insert;
        insert.check_defaults(self.env)?;
        match &insert.rows {
            Rows::Values(rows) => {
                for (at, cells) in rows.iter().enumerate() {
                    (self.env.check_killed)()?;
                    self.evaluate(cells, at as u64 + 1)?;
                    self.store(at as u64 + 1, rows.len() as u64)?;
                }
                Ok(())
            }
            Rows::Query(plan, reads_target) => {
                let mut stream = RowStream::open(plan.clone());
                let (mut values, mut row_number) = (Vec::new(), 0);
                loop {
                    let (mut rows, more) = self.query_rows(&mut stream, *reads_target)?;
                    while rows.next(&mut values)? {
                        (self.env.check_killed)()?;
                        row_number += 1;
                        self.convert(&mut values, &plan.columns, row_number)?;
                        self.store(row_number, 1)?;
                    }
                    if !more {
                        return Ok(());
                    }
                }
            }
            // LOAD DATA brings them itself.
            Rows::File => Ok(()),
        }
    }

    /// The query's next rows; all of them where it reads what the statement writes, for it must not read what was
    /// written. The second value: there may be more.
    pub(super) fn query_rows(
        &mut self,
        stream: &mut RowStream,
        reads_target: bool,
    ) -> Result<(TakenRows, bool), ExecError> {
        let (most, budget) = match reads_target {
            true => (usize::MAX, Budget::Targets),
            false => (QUERY_ROWS, Budget::Table),
        };
        let states = &self.states;
        let charged = states.memory.get();
        self.env.querying(|statement| {
            let executor = statement.executor(states);
            let mut rows = RowBuffer::default();
            let (mut count, mut more) = (0, true);
            while more && count < most {
                match stream.next(statement)? {
                    Some(row) => rows.push(row.iter(), budget, &statement.env(&executor))?,
                    None => more = false,
                }
                count += 1;
            }
            rows.finish()?;
            if more {
                // They are gone when the next ones come.
                states.set_memory(charged);
            }
            Ok((rows.into_rows(), more))
        })
    }

    /// Checks, numbers, encodes and writes the row that was made.
    pub(super) fn store(&mut self, row_number: u64, expected: u64) -> Result<(), ExecError> {
        if !self.prepare(row_number, expected)? {
            return Ok(());
        }
        while let Attempt::Conflict(conflict) = self.attempt()? {
            if !self.resolve(conflict, row_number)? {
                self.auto.give_back(self.env.auto_step)?;
                break;
            }
        }
        self.auto.end_row();
        Ok(())
    }

    /// Checks and numbers the row; false: it is left out.
    pub(super) fn prepare(&mut self, row_number: u64, expected: u64) -> Result<bool, ExecError> {
        self.counts.records += 1;
        let insert = self.insert;
        self.generate(row_number)?;
        if !insert.exprs.checks.is_empty() {
            let checked = self.env.evaluating(&self.states, |env| {
                Ok(insert.exprs.check(&self.row, env)?)
            });
            match checked {
                Err(ExecError::Sql(e)) if insert.ignore => {
                    self.env.ctx.warn(Level::Warning, e.code, e.message);
                    return Ok(false);
                }
                other => other?,
            }
        }
        if !self.is_seen_by_view()? {
            self.counts.records -= 1;
            return Ok(false);
        }
        // CHECK cannot name the AUTO_INCREMENT column: a row that fails it takes no number.
        self.number_row(row_number, expected)?;
        // The number may decide where the row is.
        if insert.exprs.checks_partition() {
            let checked = self.env.evaluating(&self.states, |env| {
                Ok(insert.exprs.check_partition(&self.row, env)?)
            });
            match checked {
                Err(ExecError::Sql(e)) if insert.ignore => {
                    self.env.ctx.warn(Level::Warning, e.code, e.message);
                    return Ok(false);
                }
                other => other?,
            }
        }
        Ok(true)
    }

    /// Encodes and writes the row. Of one that fails nothing stays, and the row whose place it was to take is back.
    pub(super) fn attempt(&mut self) -> Result<Attempt, ExecError> {
        let place = self.env.txn.savepoint();
        let tried = self.attempt_from(place);
        if tried.is_err() {
            let replaced = self.replaced.take();
            self.env
                .txn
                .rollback_to(replaced.map_or(place, |row| row.place));
        }
        tried
    }

    fn attempt_from(&mut self, place: SavepointId) -> Result<Attempt, ExecError> {
        let insert = self.insert;
        match self.write()? {
            Written::Done => match self.has_parents() {
                Ok(true) => {
                    let replaced = self.replaced.take();
                    let is_left = |col| insert.is_left(col);
                    self.env
                        .log_insert(insert.table(), replaced.as_ref(), &is_left)?;
                    self.note_inserted();
                    Ok(Attempt::Stored)
                }
                Ok(false) => {
                    self.take_back(place);
                    self.leave_out()?;
                    Ok(Attempt::LeftOut)
                }
                Err(ExecError::Sql(e)) if foreign::is_ignorable(&e) => {
                    self.take_back(place);
                    Err(e.into())
                }
                Err(e) => Err(e),
            },
            // Of a row that cannot be stored the missing parent is told first, as in MySQL, unless the row may be its
            // own.
            Written::Conflict(_)
                if insert.on_conflict.refuses()
                    && !insert.refers_to_itself()
                    && !self.has_parents()? =>
            {
                self.leave_out()?;
                Ok(Attempt::LeftOut)
            }
            Written::Conflict(conflict) => Ok(Attempt::Conflict(conflict)),
        }
    }

    /// Does the row meet the CHECK OPTION of the view that it is stored through? Under IGNORE it is left out, with a
    /// warning.
    fn is_seen_by_view(&mut self) -> Result<bool, ExecError> {
        let view = self.insert.view.as_ref();
        let Some(check) = view.and_then(|view| view.check.as_ref()) else {
            return Ok(true);
        };
        // A number that is not there yet is 0.
        let auto = self
            .table()
            .auto_column
            .filter(|&col| self.row[col].is_null());
        if let Some(col) = auto {
            self.row[col] = auto_value(&self.table().columns[col].ty, 0);
        }
        let checked = self
            .env
            .evaluating(&self.states, |env| check.check(&self.row, env));
        if let Some(col) = auto {
            self.row[col] = Value::Null;
        }
        match checked {
            Err(ExecError::Sql(e)) if self.insert.ignore && is_failed_check(&e) => {
                self.env.ctx.warn(Level::Warning, e.code, e.message);
                Ok(false)
            }
            checked => checked.map(|()| true),
        }
    }

    /// Computes the generated columns of the row.
    pub(super) fn generate(&mut self, row_number: u64) -> Result<(), ExecError> {
        let insert = self.insert;
        if !insert.exprs.generates() {
            return Ok(());
        }
        let mut row = std::mem::take(&mut self.row);
        let how = (row_number, self.lenient);
        let columns = &insert.table().columns;
        let done = self.env.evaluating(&self.states, |env| {
            Ok(insert.exprs.generate(columns, &mut row, how, env)?)
        });
        self.row = row;
        done
    }

    fn write(&mut self) -> Result<Written, ExecError> {
        let table = self.insert.table();
        let env = &mut *self.env;
        let buffers = env.scratch.buffers();
        let (row, key) = (buffers.row, buffers.key);
        let mut entries = buffers.entries;
        row.clear();
        encode_row(&table.layout, &env.ctx.time_zone, &self.row, row)?;
        let fresh = new_key(env.engine, table, row, key)?;
        // A lock of a run cannot be given back alone, as a row has to that meets a gap or has no parent.
        let run = self.key_run.next(key);
        let is_kept = table.foreign_keys.is_empty() && !env.txn.may_meet_gaps(table.primary().id);
        let run = run.filter(|_| is_kept);
        let new = NewKey { key, fresh, run };
        let mut writer = Writer {
            txn: env.txn,
            mode: env.mode,
            limits: env.limits,
            on_duplicate: self.insert.on_conflict.lock(),
        };
        writer.insert(table, &new, row, &mut entries)
    }

    /// Takes back the row that was written last: others need not wait for its keys.
    fn take_back(&mut self, place: SavepointId) {
        let table = self.insert.table();
        let env = &mut *self.env;
        let buffers = env.scratch.buffers();
        let mut writer = Writer {
            txn: env.txn,
            mode: env.mode,
            limits: env.limits,
            on_duplicate: self.insert.on_conflict.lock(),
        };
        writer.take_back(table, buffers.key, place, &buffers.entries);
    }

    /// Has the row its parents? Under IGNORE one without them is left out, with a warning.
    fn has_parents(&mut self) -> Result<bool, ExecError> {
        let checked = match Enforcer::new(&self.insert.foreign, self.env) {
            None => Ok(()),
            Some((mut enforcer, scratch)) => enforcer.check_parents(0, None, &scratch.row),
        };
        match checked {
            Err(ExecError::Sql(e)) if self.insert.ignore && foreign::is_ignorable(&e) => {
                self.env.ctx.warn(Level::Warning, e.code, e.message);
                Ok(false)
            }
            checked => checked.map(|()| true),
        }
    }

    /// A row without parents is not one of the statement's.
    fn leave_out(&mut self) -> SqlResult<()> {
        self.counts.records -= 1;
        self.auto.give_back(self.env.auto_step)
    }

    fn note_inserted(&mut self) {
        self.counts.inserted += 1;
        let table = self.insert.table();
        let Some(col) = table.auto_column else { return };
        let value = as_counter(&self.row[col]);
        self.auto.last = as_insert_id(&self.row[col]);
        if !self.auto.inserted() || self.auto.is_forced() {
            self.note_explicit(value);
        }
    }

    /// A value of the AUTO_INCREMENT column was stored that was not generated.
    pub(super) fn note_explicit(&mut self, value: u64) {
        self.insert.table().note_auto(value, self.env.auto_step);
        self.auto.largest_explicit = self.auto.largest_explicit.max(value);
    }

    /// An existing row was updated instead; if that changed it, its value is what the client hears.
    pub(super) fn note_updated(&mut self, auto: &Value, changed: bool) {
        if changed {
            self.auto.last = as_insert_id(auto);
            self.auto.updated(as_counter(auto));
        }
        self.note_explicit(as_counter(auto));
    }

    /// Persists the numbers of what was stored. What comes is what the reply waits for.
    pub(super) fn keep_numbers(&mut self) -> Result<Seq, ExecError> {
        let table = self.insert.table();
        let (generated, explicit) = (self.auto.largest_generated, self.auto.largest_explicit);
        let mut depends_on = 0;
        let interval = self.env.auto_interval;
        let is_persistent = interval > 0;
        if generated > 0 && !self.env.autocommit && is_persistent {
            let tree = table.counter_tree();
            depends_on = table
                .runtime
                .reserve(self.env.engine, tree, generated, interval)?;
        }
        let in_commit = if self.env.autocommit {
            generated.max(explicit)
        } else {
            explicit
        };
        if in_commit > 0 && is_persistent {
            self.env.txn.bump_counter(table.counter_tree(), in_commit);
        }
        Ok(depends_on)
    }

    /// Persists the numbers, and sums up; `warnings`: those of the whole statement.
    pub(super) fn finish(&mut self, warnings: u64) -> Result<DmlDone, ExecError> {
        let depends_on = self.keep_numbers()?;
        let table = self.insert.table();
        let c = &self.counts;
        let duplicates = match self.insert.on_conflict {
            _ if self.insert.ignore => c.records - c.inserted - c.updated,
            OnConflict::Fail | OnConflict::Skip => c.records - c.inserted,
            OnConflict::Replace => c.deleted,
            OnConflict::Update => c.updated,
        };
        let unchanged = if self.env.found_rows { c.unchanged } else { 0 };
        let info = match &self.insert.rows {
            Rows::Values(rows) if rows.len() == 1 => InfoText::default(),
            Rows::Values(_) | Rows::Query(..) => InfoText::counts(&[
                ("Records: ", c.records),
                ("  Duplicates: ", duplicates),
                ("  Warnings: ", warnings),
            ]),
            Rows::File => InfoText::counts(&[
                ("Records: ", c.records),
                ("  Deleted: ", c.deleted),
                ("  Skipped: ", c.records - c.inserted),
                ("  Warnings: ", warnings),
            ]),
        };
        // A view that does not show the column does not tell of its numbers.
        let view = self.insert.view.as_ref();
        let shows_number = view.is_none_or(|v| table.auto_column.is_some_and(|col| v.shows(col)));
        let told = self.env.ctx.diagnostics.told_insert_id.get();
        let insert_id = match (&self.insert.rows, &self.insert.on_conflict) {
            (Rows::File, _) => 0,
            // Nobody hears of numbers that rows of a query have brought.
            (Rows::Query(..), OnConflict::Update) => self.auto.first.or(told).unwrap_or(0),
            _ => self.auto.first.or(told).unwrap_or(self.auto.last),
        };
        Ok(DmlDone {
            affected_rows: c.inserted + c.deleted + 2 * c.updated + unchanged,
            insert_id,
            generated: self.auto.first.filter(|_| shows_number),
            info,
            depends_on,
        })
    }
}

/// A row as values, TIMESTAMPs in the session's zone.
pub(in crate::dml) fn decode_row(
    table: &TableDef,
    zone: &TimeZone,
    bytes: &[u8],
    out: &mut [Value],
) -> SqlResult<()> {
    let row = RowReader::new(&table.layout, zone, bytes)?;
    for (col, slot) in out.iter_mut().enumerate() {
        *slot = row.field(col).to_owned();
    }
    Ok(())
}
