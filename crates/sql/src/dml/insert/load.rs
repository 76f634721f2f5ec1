//! LOAD DATA: rows from the fields of a text file.
//!
//! Neighbours: `textfile` finds the fields; `run` numbers, checks and writes the rows as those of an INSERT;
//! `session::load` brings the file.
//!
//! **Invariants**
//! - A row begins with the defaults; its fields go to columns and variables in the order of the list, then SET is
//!   evaluated from left to right over the row so far.
//! - Columns without a default begin with zero or the empty string. Fields and SET may name generated columns: such
//!   fields have to be values of the column, and are computed anew.
//! - IGNORE, and LOCAL without REPLACE, make errors of values and duplicate keys warnings: the sender of a file cannot
//!   be stopped in the middle.

use std::collections::BTreeSet;
use std::sync::Arc;

use esker_engine::MemoryBudget;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_plan::bind::{BindEnv, Need, bind_expr, errors};
use esker_sql_plan::expr::UserVars;
use esker_sql_syntax::ast::{Expr, Ident, LoadData, LoadTarget};
use esker_types::collation::{Charset, Collation};
use esker_types::{Level, SqlError, SqlResult, SqlType, TypeKind, Value};

use super::compile::{compile_cell, foreign_keys, row_scope};
use super::run::Run;
use super::steps::InsertSteps;
use super::{Cell, CompiledInsert, OnConflict, Rows, relaxed};
use crate::dml::change::Assignment;
use crate::dml::exprs::TableExprs;
use crate::dml::foreign::ForeignKeyPlan;
use crate::dml::target::assigned_column;
use crate::dml::through_view::{InsertTarget, LOAD};
use crate::dml::values::{assign, now_for, reset_value};
use crate::dml::{Beside, DmlDone, DmlEnv};
use crate::textfile::{
    Dialect, FOREIGN_BYTES, FieldReader, FileSource, charset_named, separable, width_of,
};

/// Longest text of a user variable, characters, as its type has it.
const VARIABLE_LENGTH: u32 = 65_535;

/// Where a field goes.
#[derive(Debug)]
enum Target {
    Column(usize),
    Variable(Box<str>),
}

/// A compiled LOAD DATA.
#[derive(Debug)]
pub struct CompiledLoad {
    insert: CompiledInsert,
    targets: Vec<Target>,
    sets: Vec<Assignment>,
    charset: Charset,
    dialect: Dialect,
    skip_lines: u64,
    /// Bytes of a row, where fields have neither separators nor quotes.
    row_width: Option<usize>,
    /// Largest field, bytes.
    field_limit: usize,
}

/// Where in the file the statement is.
struct Lines {
    /// The row that comes next, from 1 on.
    row: u64,
    /// Lines to be left out before it.
    skip: u64,
    are_over: bool,
}

/// A LOAD DATA into a table with triggers, between two of its steps.
pub(crate) struct LoadSteps<'a> {
    load: &'a CompiledLoad,
    reader: FieldReader<'a>,
    lines: Lines,
    /// The end of the last row's line was not looked for yet.
    has_line: bool,
}

impl LoadSteps<'_> {
    /// The row of the next line, as BEFORE triggers see it.
    pub(crate) fn next(
        &mut self,
        env: &mut DmlEnv<'_>,
        steps: &mut InsertSteps,
    ) -> Result<Option<Vec<Value>>, ExecError> {
        let Self {
            load,
            reader,
            lines,
            has_line,
        } = self;
        load.insert.resumed(env, steps, |run, steps| {
            if *has_line {
                end_line(run, reader, lines)?;
            }
            *has_line = load.next_line(run, reader, lines)?;
            if !*has_line {
                return Ok(None);
            }
            steps.comes(lines.row);
            run.proposed(lines.row).map(Some)
        })
    }
}

/// A row is stored: looks for the end of its line.
fn end_line(
    run: &Run<'_, '_>,
    reader: &mut FieldReader<'_>,
    lines: &mut Lines,
) -> Result<(), ExecError> {
    lines.are_over = reader.next_line()?;
    if !lines.are_over {
        if reader.was_cut() {
            too_many(run, lines.row)?;
        }
        lines.row += 1;
    }
    Ok(())
}

/// User variables in which those that a file fills have text.
struct FileVars<'a> {
    vars: &'a dyn UserVars,
    filled: &'a [LoadTarget],
    ty: SqlType,
}

impl UserVars for FileVars<'_> {
    fn get(&self, name: &str) -> Option<(Value, SqlType)> {
        let is_it = |t: &LoadTarget| matches!(t, LoadTarget::Var(var) if **var == *name);
        match self.filled.iter().any(is_it) {
            true => Some((Value::Null, self.ty.clone())),
            false => self.vars.get(name),
        }
    }

    fn set(&self, name: &str, value: Value, ty: SqlType) {
        self.vars.set(name, value, ty);
    }
}

/// The type of text in a character set.
fn text_type(charset: Charset) -> SqlType {
    SqlType::varchar(VARIABLE_LENGTH, charset.default_collation())
}

impl CompiledLoad {
    /// Compiles; `default_charset` is for a statement without CHARACTER SET.
    ///
    /// # Errors
    /// Unknown names, clauses that do not fit together.
    pub(crate) fn compile(
        env: &BindEnv<'_>,
        load: &LoadData,
        default_charset: Charset,
    ) -> SqlResult<Self> {
        env.changes_rows.set(true);
        let dialect = Dialect::new(&load.format, env.ctx.sql_mode)?;
        if dialect.has_foreign_bytes() {
            env.ctx.warn(Level::Warning, 1638, FOREIGN_BYTES);
        }
        let charset = match &load.charset {
            Some(name) => charset_named(name)?,
            None => separable(default_charset)?,
        };
        let need = match load.replace {
            true => Need::Replace,
            false => Need::Insert,
        };
        let target = load_target(env, need, load)?;
        let table = target.table.clone();
        let targets = targets(&target, &load.columns)?;
        let row_width = row_width(&table, &targets, &dialect)?;
        target.note(env);
        let sets = compile_sets(env, &target.named, load, charset)?;
        let mut columns: Vec<usize> = Vec::new();
        let listed = targets.iter().filter_map(|t| match t {
            Target::Column(col) => Some(*col),
            Target::Variable(_) => None,
        });
        for col in listed.chain(sets.iter().map(|s| s.col)) {
            if !columns.contains(&col) {
                columns.push(col);
            }
        }
        let listed = !load.columns.is_empty();
        target.admit(env, need, (&columns, listed))?;
        let ignore = load.ignore || (load.local && !load.replace);
        let on_conflict = match (load.replace, ignore) {
            (true, _) => OnConflict::Replace,
            (false, true) => OnConflict::Skip,
            (false, false) => OnConflict::Fail,
        };
        let insert = CompiledInsert {
            exprs: TableExprs::compile(env.ctx, &table)?.within(
                env.ctx,
                &table,
                target.partitions(&load.partitions),
            )?,
            unassigned: (0..table.columns.len())
                .filter(|c| !columns.contains(c))
                .collect(),
            foreign: foreign_keys(env, &table, on_conflict, BTreeSet::new()),
            relaxed: relaxed(&table),
            beside: Beside::of(env, std::slice::from_ref(&table)),
            table: [table],
            view: target.view,
            on_conflict,
            ignore,
            delayed: false,
            columns,
            rows: Rows::File,
            // Every column begins with its default.
            reads_row: true,
            changer: None,
            source_slots: Vec::new(),
        };
        Ok(Self {
            insert,
            targets,
            sets,
            charset,
            dialect,
            skip_lines: load.skip_lines,
            row_width,
            field_limit: usize::try_from(env.ctx.max_allowed_packet).unwrap_or(usize::MAX),
        })
    }

    /// The table it loads.
    pub(crate) fn targets(&self) -> &[Arc<TableDef>] {
        self.insert.targets()
    }

    /// The foreign keys it has to keep.
    pub(crate) fn foreign_keys(&self) -> &ForeignKeyPlan {
        self.insert.foreign_keys()
    }

    /// Loads the file.
    ///
    /// # Errors
    /// Those of the file, of its values, and of writing rows.
    pub(crate) fn run(
        &self,
        env: &mut DmlEnv<'_>,
        source: &mut dyn FileSource,
    ) -> Result<DmlDone, ExecError> {
        let check_killed = env.check_killed;
        let mut reader = FieldReader::new(
            &self.dialect,
            self.charset,
            source,
            check_killed,
            self.field_limit,
            env.txn.memory(),
        )?;
        let lenient = self.insert.ignore || !env.ctx.sql_mode.is_strict();
        self.insert
            .run_with(env, lenient, |run| self.rows(run, &mut reader))
    }

    fn rows(&self, run: &mut Run<'_, '_>, reader: &mut FieldReader<'_>) -> Result<(), ExecError> {
        let mut lines = self.begin_lines(reader)?;
        while self.next_line(run, reader, &mut lines)? {
            run.store(lines.row, 1)?;
            end_line(run, reader, &mut lines)?;
        }
        Ok(())
    }

    /// Skips the lines that are to be ignored, as far as line ends tell them.
    fn begin_lines(&self, reader: &mut FieldReader<'_>) -> SqlResult<Lines> {
        let mut lines = Lines {
            row: 1,
            skip: self.skip_lines,
            are_over: false,
        };
        if reader.has_line_end() {
            while lines.skip > 0 && !lines.are_over {
                lines.skip -= 1;
                lines.are_over = reader.next_line()?;
            }
        }
        Ok(lines)
    }

    /// Makes the row of the next line; false if there is none.
    fn next_line(
        &self,
        run: &mut Run<'_, '_>,
        reader: &mut FieldReader<'_>,
        lines: &mut Lines,
    ) -> Result<bool, ExecError> {
        while !lines.are_over {
            (run.env.check_killed)()?;
            run.begin_row();
            let (row, skip) = (lines.row, lines.skip);
            let found = match self.row_width {
                Some(width) => {
                    reader.read_row(width)? && self.fixed_fields(run, reader.field(), row, skip)?
                }
                None => self.fields(run, reader, row, skip)?,
            };
            if !found {
                break;
            }
            if skip > 0 {
                lines.skip -= 1;
                continue;
            }
            self.set(run, row)?;
            run.apply_default_exprs()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Do triggers run for the rows?
    pub(crate) fn fires(&self) -> bool {
        self.insert.fires()
    }

    /// The statement that stores the rows.
    pub(crate) fn insert(&self) -> &CompiledInsert {
        &self.insert
    }

    /// Begins to read, in steps.
    pub(crate) fn begin<'a>(
        &'a self,
        memory: &Arc<MemoryBudget>,
        source: &'a mut dyn FileSource,
        check_killed: &'a dyn Fn() -> SqlResult<()>,
    ) -> SqlResult<LoadSteps<'a>> {
        let mut reader = FieldReader::new(
            &self.dialect,
            self.charset,
            source,
            check_killed,
            self.field_limit,
            memory,
        )?;
        Ok(LoadSteps {
            lines: self.begin_lines(&mut reader)?,
            load: self,
            reader,
            has_line: false,
        })
    }

    /// How the rows are stored, in steps.
    pub(crate) fn begin_insert(&self, env: &DmlEnv<'_>) -> InsertSteps {
        let lenient = self.insert.ignore || !env.ctx.sql_mode.is_strict();
        self.insert.begin_with(env, lenient)
    }

    /// Reads the fields of a line; false if the file has no more.
    fn fields(
        &self,
        run: &mut Run<'_, '_>,
        reader: &mut FieldReader<'_>,
        row: u64,
        skip: u64,
    ) -> Result<bool, ExecError> {
        for (at, target) in self.targets.iter().enumerate() {
            if !reader.read_field()? {
                if at == 0 {
                    return Ok(false);
                }
                if skip == 0 {
                    self.missing_fields(run, at, row)?;
                }
                break;
            }
            if skip > 0 {
                continue;
            }
            let field = (!reader.is_null()).then(|| reader.field());
            match (target, field) {
                (Target::Column(col), None) => run.row[*col] = null_field(run, *col, row)?,
                (Target::Column(col), Some(field)) => self.store_field(run, *col, field, row)?,
                (Target::Variable(name), field) => {
                    let (value, ty) = match field {
                        None => (Value::Null, text_type(self.charset)),
                        Some(field) => self.text(field),
                    };
                    run.env.vars.set(name, value, ty);
                }
            }
        }
        Ok(true)
    }

    /// The columns and variables from number `from` on, for which a line has no fields.
    fn missing_fields(
        &self,
        run: &mut Run<'_, '_>,
        from: usize,
        row: u64,
    ) -> Result<(), ExecError> {
        for target in &self.targets[from..] {
            match target {
                Target::Column(col) => {
                    reset_column(run, *col);
                    too_few(run, row)?;
                }
                Target::Variable(name) => {
                    run.env.vars.set(name, Value::Null, text_type(self.charset));
                }
            }
        }
        Ok(())
    }

    /// Cuts a row into fields of fixed widths.
    fn fixed_fields(
        &self,
        run: &mut Run<'_, '_>,
        mut bytes: &[u8],
        row: u64,
        skip: u64,
    ) -> Result<bool, ExecError> {
        if skip > 0 {
            return Ok(true);
        }
        for target in &self.targets {
            let Target::Column(col) = target else {
                continue;
            };
            let width = width_of(&run.table().columns[*col].ty).unwrap_or(0);
            let (field, rest) = bytes.split_at(width.min(bytes.len()));
            if bytes.is_empty() {
                fill_column(run, *col);
                too_few(run, row)?;
            } else {
                self.store_field(run, *col, field, row)?;
            }
            bytes = rest;
        }
        Ok(true)
    }

    /// A field as a value and its type: text, or bytes where they are no text in the file's character set.
    fn text(&self, field: &[u8]) -> (Value, SqlType) {
        match self.charset.decode(field) {
            Ok(text) => (Value::Str(text.into_owned()), text_type(self.charset)),
            Err(_) => {
                let bytes = SqlType::varchar(VARIABLE_LENGTH, Collation::BINARY);
                (Value::Str(field.to_vec()), bytes)
            }
        }
    }

    fn store_field(
        &self,
        run: &mut Run<'_, '_>,
        col: usize,
        field: &[u8],
        row: u64,
    ) -> SqlResult<()> {
        let (value, from) = self.text(field);
        let table = run.insert.table();
        let column = (&*table.name, &table.columns[col]);
        run.row[col] = assign(run.env.ctx, value, &from, column, row, true)?;
        Ok(())
    }

    /// SET.
    fn set(&self, run: &mut Run<'_, '_>, row: u64) -> Result<(), ExecError> {
        for Assignment { col, cell } in &self.sets {
            let value = match cell {
                Cell::Default => run.written_default(*col)?,
                Cell::Expr(e) => {
                    let value = run
                        .env
                        .evaluating(&run.states, |env| e.eval(&run.row, env))?;
                    run.assign(*col, value, &e.ty, row)?
                }
            };
            run.row[*col] = value;
        }
        Ok(())
    }
}

/// The table, by the columns that are listed and assigned to.
fn load_target(env: &BindEnv<'_>, need: Need, load: &LoadData) -> SqlResult<InsertTarget> {
    let named = load.columns.iter().filter_map(|t| match t {
        LoadTarget::Column(name) => Some(name),
        LoadTarget::Var(_) => None,
    });
    let set = load.assignments.iter().map(|set| &set.column.name);
    let listed: Vec<&Ident> = named.chain(set).collect();
    let listed = (!load.columns.is_empty()).then_some(&*listed);
    InsertTarget::bind(env, need, &load.table, LOAD, listed)
}

/// The list of columns and variables; without one, all visible columns.
fn targets(target: &InsertTarget, list: &[LoadTarget]) -> SqlResult<Vec<Target>> {
    let table = &target.named;
    if list.is_empty() {
        let all = target.all_columns().into_iter();
        return Ok(all.map(Target::Column).collect());
    }
    let target = |t: &LoadTarget| match t {
        LoadTarget::Var(name) => Ok(Target::Variable(name.clone())),
        LoadTarget::Column(name) => {
            let col = table.column_index(&name.text);
            col.map(Target::Column)
                .ok_or_else(|| errors::unknown_column(&name.text, "field list"))
        }
    };
    list.iter().map(target).collect()
}

/// Bytes of a row without separators; None if there are some.
fn row_width(table: &TableDef, targets: &[Target], dialect: &Dialect) -> SqlResult<Option<usize>> {
    let mut width = Some(0);
    let mut variables = false;
    for target in targets {
        match target {
            Target::Column(col) => {
                let column = width_of(&table.columns[*col].ty);
                width = width.zip(column).map(|(sum, column)| sum + column);
            }
            Target::Variable(_) => variables = true,
        }
    }
    if width.is_none() && dialect.field_end.is_empty() && dialect.line_end.is_empty() {
        let text = "You can't use fixed rowlength with BLOBs; please use 'fields terminated by'";
        return Err(SqlError::new(1084, "42000", text));
    }
    if !dialect.is_fixed() {
        return Ok(None);
    }
    if variables {
        let text = "Can't load value from file with fixed size rows to variable";
        return Err(SqlError::new(1409, "HY000", text));
    }
    // Of a BLOB the rest of the line is taken.
    Ok(Some(width.unwrap_or(usize::MAX)))
}

fn compile_sets(
    env: &BindEnv<'_>,
    table: &Arc<TableDef>,
    load: &LoadData,
    charset: Charset,
) -> SqlResult<Vec<Assignment>> {
    let vars = FileVars {
        vars: env.vars,
        filled: &load.columns,
        ty: text_type(charset),
    };
    let env = env.with_vars(&vars);
    let scope = row_scope(&env, table);
    let mut sets = Vec::with_capacity(load.assignments.len());
    for set in &load.assignments {
        let col = assigned_column(table, &set.column, &table.name)?;
        match (&table.columns[col].generated, &set.value) {
            (None, value) => {
                let cell = compile_cell(&env, &scope, table, col, value)?;
                sets.push(Assignment { col, cell });
            }
            (Some(_), Expr::Default(None)) => {}
            (Some(_), value) => {
                bind_expr(&env, &scope, value)?;
            }
        }
    }
    Ok(sets)
}

/// The value of a column whose field is NULL.
///
/// # Errors
/// 1263 in a strict statement, for a column that cannot be NULL.
fn null_field(run: &Run<'_, '_>, col: usize, row: u64) -> SqlResult<Value> {
    let column = &run.insert.table().columns[col];
    let ctx = run.env.ctx;
    if column.ty.nullable || column.auto_increment {
        return Ok(Value::Null);
    }
    if column.ty.kind == TypeKind::Timestamp {
        return Ok(now_for(ctx, &column.ty));
    }
    let text = format!(
        "Column set to default value; NULL supplied to NOT NULL column '{}' at row {row}",
        column.name
    );
    ctx.raise(1263, "22004", text)?;
    Ok(reset_value(&column.ty))
}

/// A column without a field: NULL if that is its default, else empty, whatever its default is.
fn reset_column(run: &mut Run<'_, '_>, col: usize) {
    let column = &run.insert.table().columns[col];
    let stays_null = run.row[col].is_null() && (column.ty.nullable || column.auto_increment);
    if !stays_null {
        run.row[col] = match column.ty.kind {
            TypeKind::Timestamp if !column.ty.nullable => now_for(run.env.ctx, &column.ty),
            _ => reset_value(&column.ty),
        };
    }
}

/// A column for which a row of fixed widths is too short: its default, but never NULL.
fn fill_column(run: &mut Run<'_, '_>, col: usize) {
    let column = &run.insert.table().columns[col];
    if run.row[col].is_null() && !column.auto_increment {
        run.row[col] = reset_value(&column.ty);
    }
}

fn too_few(run: &Run<'_, '_>, row: u64) -> SqlResult<()> {
    let text = format!("Row {row} doesn't contain data for all columns");
    run.env.ctx.raise(1261, "01000", text)
}

fn too_many(run: &Run<'_, '_>, row: u64) -> SqlResult<()> {
    let text =
        format!("Row {row} was truncated; it contained more data than there were input columns");
    run.env.ctx.raise(1262, "01000", text)
}
