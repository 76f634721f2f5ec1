//! The rows of a LOAD DATA or LOAD XML, one after the other.
//!
//! Neighbours: `load` has compiled the statement; `textfile` finds fields of text and rows of XML; `run` numbers,
//! checks and writes the rows as those of an INSERT.
//!
//! **Invariants**
//! - A row begins with the defaults; its fields go to columns and variables in the order of the list, or by their
//!   names, then SET is evaluated from left to right over the row so far.

use std::sync::Arc;

use esker_engine::MemoryBudget;
use esker_sql_catalog::exec_error::ExecError;
use esker_types::collation::Collation;
use esker_types::{SqlResult, SqlType, TypeKind, Value};

use super::Cell;
use super::load::{CompiledLoad, Target, VARIABLE_LENGTH, text_type};
use super::run::Run;
use super::steps::InsertSteps;
use crate::dml::change::Assignment;
use crate::dml::values::{assign, now_for, reset_value};
use crate::dml::{DmlDone, DmlEnv};
use crate::textfile::{FieldReader, FileSource, XmlRows, width_of};

/// What finds rows in the file.
enum FileRows<'a> {
    Text(Box<FieldReader<'a>>),
    Xml(Box<XmlRows<'a>>),
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
    rows: FileRows<'a>,
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
            rows,
            lines,
            has_line,
        } = self;
        load.insert.resumed(env, steps, |run, steps| {
            if *has_line {
                end_line(run, rows, lines)?;
            }
            *has_line = load.next_line(run, rows, lines)?;
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
    rows: &mut FileRows<'_>,
    lines: &mut Lines,
) -> Result<(), ExecError> {
    if let FileRows::Text(reader) = rows {
        lines.are_over = reader.next_line()?;
        if !lines.are_over && reader.was_cut() {
            too_many(run, lines.row)?;
        }
    }
    lines.row += 1;
    Ok(())
}

impl CompiledLoad {
    /// Loads the file.
    ///
    /// # Errors
    /// Those of the file, of its values, and of writing rows.
    pub(crate) fn run(
        &self,
        env: &mut DmlEnv<'_>,
        source: &mut dyn FileSource,
    ) -> Result<DmlDone, ExecError> {
        let mut rows = self.open(source, env.check_killed, env.txn.memory())?;
        let lenient = self.insert.ignore || !env.ctx.sql_mode.is_strict();
        self.insert
            .run_with(env, lenient, |run| self.store_all(run, &mut rows))
    }

    /// At the beginning of the file.
    fn open<'a>(
        &'a self,
        source: &'a mut dyn FileSource,
        check_killed: &'a dyn Fn() -> SqlResult<()>,
        memory: &Arc<MemoryBudget>,
    ) -> SqlResult<FileRows<'a>> {
        let (charset, limit) = (self.charset, self.field_limit);
        Ok(match &self.xml {
            None => {
                let dialect = &self.dialect;
                let reader =
                    FieldReader::new(dialect, charset, source, check_killed, limit, memory)?;
                FileRows::Text(Box::new(reader))
            }
            Some(xml) => {
                let row = &xml.row;
                let reader = XmlRows::new(row, charset, source, check_killed, limit, memory)?;
                FileRows::Xml(Box::new(reader))
            }
        })
    }

    fn store_all(&self, run: &mut Run<'_, '_>, rows: &mut FileRows<'_>) -> Result<(), ExecError> {
        let mut lines = self.begin_lines(rows)?;
        while self.next_line(run, rows, &mut lines)? {
            run.store(lines.row, 1)?;
            end_line(run, rows, &mut lines)?;
        }
        Ok(())
    }

    /// Skips the lines that are to be ignored, as far as line ends tell them.
    fn begin_lines(&self, rows: &mut FileRows<'_>) -> SqlResult<Lines> {
        let mut lines = Lines {
            row: 1,
            skip: self.skip_lines,
            are_over: false,
        };
        if let FileRows::Text(reader) = rows
            && reader.has_line_end()
        {
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
        rows: &mut FileRows<'_>,
        lines: &mut Lines,
    ) -> Result<bool, ExecError> {
        while !lines.are_over {
            (run.env.check_killed)()?;
            run.begin_row();
            let (row, skip) = (lines.row, lines.skip);
            let found = match (&mut *rows, self.row_width) {
                (FileRows::Text(reader), Some(width)) => {
                    reader.read_row(width)? && self.fixed_fields(run, reader.field(), row, skip)?
                }
                (FileRows::Text(reader), None) => self.fields(run, reader, row, skip)?,
                (FileRows::Xml(reader), _) => self.named_fields(run, reader, row, skip)?,
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

    /// Begins to read, in steps.
    pub(crate) fn begin<'a>(
        &'a self,
        memory: &Arc<MemoryBudget>,
        source: &'a mut dyn FileSource,
        check_killed: &'a dyn Fn() -> SqlResult<()>,
    ) -> SqlResult<LoadSteps<'a>> {
        let mut rows = self.open(source, check_killed, memory)?;
        Ok(LoadSteps {
            lines: self.begin_lines(&mut rows)?,
            load: self,
            rows,
            has_line: false,
        })
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
            self.put(run, target, field, row)?;
        }
        Ok(true)
    }

    /// Takes the fields of a row of XML by their names; false if the file has no more.
    fn named_fields(
        &self,
        run: &mut Run<'_, '_>,
        reader: &mut XmlRows<'_>,
        row: u64,
        skip: u64,
    ) -> Result<bool, ExecError> {
        if !reader.next_row()? {
            return Ok(false);
        }
        let names = self.xml.iter().flat_map(|xml| &xml.names);
        if skip == 0 {
            for (target, name) in self.targets.iter().zip(names) {
                self.put(run, target, reader.value(name.as_bytes()), row)?;
            }
        }
        Ok(true)
    }

    /// A field, or NULL, goes to a column or variable.
    fn put(
        &self,
        run: &mut Run<'_, '_>,
        target: &Target,
        field: Option<&[u8]>,
        row: u64,
    ) -> SqlResult<()> {
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
        Ok(())
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
