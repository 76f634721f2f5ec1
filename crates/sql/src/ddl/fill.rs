//! Index builds: new trees are filled from the rows that a table has.
//!
//! Neighbours: `alter` says which rows: the latest under the table's exclusive lock, those of a snapshot beside writers
//! (`catch_up` brings the changes after it); nobody else knows the new trees yet; the engine sorts and writes the
//! entries ([`TreeBuilder`]). **Invariants**: a new tree gets its content in one step, past log and memtables, which is
//! safe because nothing names the tree until the catalog change commits behind it; a row that cannot be converted, a
//! duplicate or a violated CHECK stops the whole statement.

use std::ops::Bound;

use esker_engine::{BuildError, Cursor, Direction, EngineError, Isolation, TreeBuilder, Txn, View};
use esker_sql_catalog::catalog::{Catalog, ColumnDef, DefaultDef, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_plan::expr::{CallStates, EvalEnv, NoVars};
use esker_sql_plan::plan::table_rows;
use esker_types::{EvalCtx, SqlError, SqlMode, SqlResult, SqlType, TypeKind, Value, errors};

use super::DdlCtx;
use super::convert::Conversion;
use super::progress::{Progress, Stage, Watch};
use crate::dml::foreign::{NewKeys, Seen};
use crate::dml::implicit_value;
use crate::dml::{Default, TableExprs, default_of, duplicate_entry, duplicate_number};

/// Memory for sorting entries, of all trees of a statement together, and the least that one gets. Bytes.
const SORT_BYTES: usize = 64 << 20;
const LEAST_SORT_BYTES: usize = 1 << 20;

/// What making trees needs of a schema statement.
#[derive(Clone, Copy)]
pub(super) struct Building<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) eval: &'a EvalCtx<'a>,
    pub(super) check_killed: &'a dyn Fn() -> SqlResult<()>,
    pub(super) progress: &'a Progress,
}

impl<'a> Building<'a> {
    pub(super) fn of(ctx: &DdlCtx<'a>) -> Self {
        Self {
            catalog: ctx.catalog,
            eval: ctx.eval,
            check_killed: ctx.check_killed,
            progress: ctx.progress,
        }
    }

    /// Begins a stage in which about so many rows are gone through.
    pub(super) fn watch(&self, stage: Stage, estimated: u64) -> Watch<'a> {
        self.progress.begin(stage, estimated);
        Watch::new(self.progress, self.check_killed)
    }

    pub(super) fn latest(&self) -> Txn {
        self.catalog.engine().begin(Isolation::ReadCommitted)
    }
}

/// The rows of a table, as a reader sees them.
pub(super) struct Rows<'a> {
    pub(super) building: Building<'a>,
    pub(super) table: &'a TableDef,
    pub(super) reader: &'a Txn,
    /// `Latest` under the table's exclusive lock.
    pub(super) view: View,
}

impl Rows<'_> {
    /// Begins to go through them.
    fn watch(&self, stage: Stage) -> Watch<'_> {
        let estimated = table_rows(self.table);
        self.building.watch(stage, estimated as u64)
    }

    /// All of them, by clustered key.
    fn open(&self) -> SqlResult<Cursor> {
        let all = Bound::Unbounded;
        let tree = &self.table.primary().tree;
        let rows = self
            .reader
            .scan(tree, all, all, Direction::Forward, self.view);
        rows.map_err(|e| engine_error(&e))
    }
}

/// New trees that are being filled.
struct Fill<'a> {
    building: Building<'a>,
    table: &'a TableDef,
    /// The rows, if they are new, too.
    clustered: Option<TreeBuilder>,
    /// Positions of indexes, and their entries.
    indexes: Vec<(usize, TreeBuilder)>,
    key: Vec<u8>,
    watch: Watch<'a>,
    /// Rows may meet because they were given numbers.
    renumbers: bool,
}

impl<'a> Fill<'a> {
    /// Fills the indexes at `which`, and the clustered one if `with_rows`.
    fn new(rows: &'a Rows<'a>, table: &'a TableDef, which: &[usize], with_rows: bool) -> Self {
        let building = rows.building;
        if with_rows {
            table.announce_fields();
        }
        let builders = which.len() + usize::from(with_rows);
        let memory = (SORT_BYTES / builders.max(1)).max(LEAST_SORT_BYTES);
        let engine = building.catalog.engine();
        let builder = |at: usize| engine.build_tree(&table.indexes[at].tree, memory);
        Self {
            building,
            table,
            clustered: with_rows.then(|| builder(0)),
            indexes: which.iter().map(|&at| (at, builder(at))).collect(),
            key: Vec::new(),
            watch: rows.watch(match with_rows {
                true => Stage::Copy,
                false => Stage::Read,
            }),
            renumbers: false,
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
            let mut failed = None;
            let index = &self.table.indexes[at];
            index.entries(&row, clustered, &mut self.key, |key, value| {
                failed = failed.take().or(entries.add(key, value).err());
                Ok(())
            })?;
            if let Some(e) = failed {
                return Err(self.failed(at, e));
            }
        }
        self.watch.row(bytes.len())
    }

    /// Makes the trees complete, the rows first.
    fn finish(mut self) -> SqlResult<()> {
        let trees = self.indexes.len() + usize::from(self.clustered.is_some());
        self.watch.end();
        self.watch = self.building.watch(Stage::Merge, trees as u64);
        self.finish_rows()?;
        for (at, entries) in std::mem::take(&mut self.indexes) {
            let go_on = || (self.building.check_killed)().is_ok();
            entries.finish(&go_on).map_err(|e| self.failed(at, e))?;
            self.watch.step()?;
        }
        Ok(())
    }

    fn finish_rows(&mut self) -> SqlResult<()> {
        let Some(rows) = self.clustered.take() else {
            return Ok(());
        };
        let go_on = || (self.building.check_killed)().is_ok();
        let built = rows.finish(&go_on);
        built.map(drop).map_err(|e| self.failed(0, e))
    }

    /// The error of index `at`: 1062 with the values of the later of two rows.
    fn failed(&mut self, at: usize, e: BuildError) -> SqlError {
        let value = match e {
            BuildError::Duplicate { value, .. } => value,
            BuildError::Engine(e) => {
                let killed = (self.building.check_killed)().err();
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
        match RowReader::new(&self.table.layout, &self.building.eval.time_zone, &row) {
            Ok(row) => {
                let duplicate = duplicate_entry(self.table, &self.table.indexes[at], &row);
                match self.renumbers && at == 0 {
                    true => duplicate_number(&duplicate),
                    false => duplicate,
                }
            }
            Err(e) => e,
        }
    }

    /// A row by its clustered key; rows that are being filled are completed for that.
    fn stored_row(&mut self, clustered: &[u8]) -> SqlResult<Option<Vec<u8>>> {
        self.finish_rows()?;
        let reader = self.building.latest();
        let row = reader.get(&self.table.primary().tree, clustered, View::Latest);
        row.map_err(|e| engine_error(&e))
    }
}

fn next(cursor: &mut Cursor) -> SqlResult<Option<(&[u8], &[u8])>> {
    cursor.next().map_err(|e| engine_error(&e))
}

/// Fills the secondary indexes of `new`, which has the same rows, at `which`; the number of rows.
pub(super) fn fill_indexes(rows: &Rows<'_>, new: &TableDef, which: &[usize]) -> SqlResult<()> {
    if which.is_empty() {
        return Ok(());
    }
    let mut cursor = rows.open()?;
    let mut fill = Fill::new(rows, new, which, false);
    while let Some((clustered, bytes)) = next(&mut cursor)? {
        fill.add(clustered, bytes)?;
    }
    fill.finish()
}

/// CHECK constraints that rows are held against.
pub(super) struct Checks<'a> {
    building: Building<'a>,
    table: &'a TableDef,
    exprs: TableExprs,
    calls: CallStates,
}

impl<'a> Checks<'a> {
    /// The constraints of `table`, if some of them are new: `names` (an empty name: any unnamed before).
    pub(super) fn new(
        building: Building<'a>,
        table: &'a TableDef,
        names: &[Box<str>],
    ) -> SqlResult<Option<Self>> {
        if names.is_empty() {
            return Ok(None);
        }
        let exprs = TableExprs::compile(building.eval, table)?;
        let checks = (!exprs.checks.is_empty()).then(|| Self {
            building,
            table,
            exprs,
            calls: CallStates::default(),
        });
        Ok(checks)
    }

    /// 3819 if the row violates one.
    pub(super) fn check(&self, bytes: &[u8]) -> SqlResult<()> {
        let eval = self.building.eval;
        let row = RowReader::new(&self.table.layout, &eval.time_zone, bytes)?;
        let columns = 0..self.table.columns.len();
        let values: Vec<Value> = columns.map(|c| row.field(c).to_owned()).collect();
        let env = EvalEnv::scalar(eval, &NoVars, &self.calls);
        self.exprs.check(&values, &env)
    }

    /// 3819 if one of the rows does.
    pub(super) fn check_all(&self, rows: &Rows<'_>) -> SqlResult<()> {
        let mut cursor = rows.open()?;
        let mut watch = rows.watch(Stage::Check);
        while let Some((_, bytes)) = next(&mut cursor)? {
            self.check(bytes)?;
            watch.row(bytes.len())?;
        }
        Ok(())
    }
}

/// 1452 if a row has no parent by one of the keys. Gives the number of rows that were looked at.
pub(super) fn check_foreign_keys(rows: &Rows<'_>, keys: &NewKeys<'_>) -> SqlResult<u64> {
    let seen = Seen {
        txn: rows.reader,
        view: rows.view,
    };
    let mut cursor = rows.open()?;
    let mut watch = rows.watch(Stage::Check);
    let mut count = 0;
    while let Some((_, bytes)) = next(&mut cursor)? {
        keys.check(seen, bytes)?;
        count += 1;
        watch.row(bytes.len())?;
    }
    Ok(count)
}

/// Copies every row of the conversion's table into the new trees; the number of rows.
pub(super) fn copy_table(rows: &Rows<'_>, conversion: &Conversion<'_>) -> SqlResult<u64> {
    copy_tables(&[(rows, conversion)])
}

/// Copies the rows of several tables, at least one, into the new trees of one; the number of rows.
pub(super) fn copy_tables(parts: &[(&Rows<'_>, &Conversion<'_>)]) -> SqlResult<u64> {
    let (rows, conversion) = parts[0];
    let new = conversion.new;
    let which: Vec<usize> = (1..new.indexes.len()).collect();
    let mut fill = Fill::new(rows, new, &which, true);
    fill.renumbers = conversion.renumbers();
    let mut count = 0;
    for (rows, conversion) in parts {
        let mut cursor = rows.open()?;
        while let Some((key, stored)) = next(&mut cursor)? {
            if conversion.drops(stored)? {
                continue;
            }
            count += 1;
            let row = conversion.row(key, stored, count)?;
            fill.add(&row.key, &row.bytes)?;
        }
    }
    fill.finish()?;
    Ok(count)
}

/// An error if the conversion leaves out a row.
pub(super) fn check_none_dropped(
    rows: &Rows<'_>,
    conversion: &Conversion<'_>,
    error: fn() -> SqlError,
) -> SqlResult<()> {
    let mut cursor = rows.open()?;
    let mut watch = rows.watch(Stage::Check);
    while let Some((_, stored)) = next(&mut cursor)? {
        if conversion.drops(stored)? {
            return Err(error());
        }
        watch.row(stored.len())?;
    }
    Ok(())
}

/// Refuses an added NOT NULL column without a default that rows cannot get: 1138 for a geometry, of which there is no
/// zero, and 1292 for a zero date that the SQL mode forbids.
pub(super) fn refuse_implicit_values(rows: &Rows<'_>, added: &[&ColumnDef]) -> SqlResult<()> {
    let is_needed = |c: &&ColumnDef| matches!(c.default, DefaultDef::None) && c.generated.is_none();
    let mut geometries = added
        .iter()
        .filter(|c| c.ty.is_geometry() && !c.ty.nullable);
    if geometries.any(is_needed) && next(&mut rows.open()?)?.is_some() {
        return Err(errors::invalid_null());
    }
    let mode = rows.building.eval.sql_mode;
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
        if next(&mut rows.open()?)?.is_some() {
            let text = format!(
                "Incorrect {kind} value: '{zero}' for column '{}' at row 1",
                column.name
            );
            return Err(errors::misread_value(text));
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
