//! What a row of a table becomes in a copy with another definition.
//!
//! Neighbours: `fill` converts every row at first, `catch_up` those that were changed meanwhile; `alter` knows both
//! definitions.
//! **Invariants**: the same row becomes the same one whenever it is converted, so a copy can take back what it had of a
//! row that was changed; `alter::plan` sees to it that nothing else is done beside writers. A row that cannot be
//! converted or violates a CHECK is an error of the statement.

use esker_sql_catalog::catalog::{AutoStep, ColumnDef, TableDef, max_auto};
use esker_sql_catalog::codec::{RowReader, UTC, encode_row};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_plan::expr::{CallStates, EvalEnv, Expr, NoVars};
use esker_types::cast::{self, to_column};
use esker_types::collation::Collation;
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{
    Level, SqlError, SqlMode, SqlResult, SqlType, TypeKind, Value, ValueRef, errors,
};
use jiff::tz::TimeZone;

use super::alter::AlterContext;
use super::fill::Building;
use crate::dml::{
    Default, TableExprs, as_counter, auto_value, bind_stored, default_of, implicit_value,
};

/// Where a column of the copy comes from.
enum Origin {
    /// The same column, stored alike.
    Same(usize),
    /// A column to be converted.
    Convert(usize),
    /// The same, but NULL may have to become something else.
    NullOnly(usize),
    /// A new column.
    New,
}

/// A row of the copy.
pub(super) struct NewRow {
    /// Its clustered key.
    pub(super) key: Vec<u8>,
    /// As it is stored.
    pub(super) bytes: Vec<u8>,
}

/// From the rows of one definition to those of another.
pub(super) struct Conversion<'a> {
    building: Building<'a>,
    old: &'a TableDef,
    pub(super) new: &'a TableDef,
    origins: Vec<Origin>,
    exprs: TableExprs,
    /// The steps of numbers that rows get.
    step: AutoStep,
    /// 0 is a value of the AUTO_INCREMENT column, and no wish for a number.
    keeps_zero: bool,
    /// Zone in which TIMESTAMPs are read and written: UTC, unless they become local times.
    zone: TimeZone,
    calls: CallStates,
    /// Rows that are left out.
    discards: Option<Expr>,
    /// Rows come from another table. Those that have no key are numbered from here on.
    moves: Option<u64>,
}

impl<'a> Conversion<'a> {
    pub(super) fn new(
        building: Building<'a>,
        old: &'a TableDef,
        new: &'a TableDef,
        context: &AlterContext,
        step: AutoStep,
    ) -> SqlResult<Self> {
        let mut local = false;
        let origin = |c: &ColumnDef| match old.columns.iter().position(|o| o.id == c.id) {
            None => {
                debug_assert!(context.added.contains(&c.id));
                Origin::New
            }
            Some(at) if old.columns[at].ty == c.ty => Origin::Same(at),
            Some(at) if old.columns[at].ty.clone().with_nullable(c.ty.nullable) == c.ty => {
                Origin::NullOnly(at)
            }
            Some(at) => {
                let is_timestamp = |ty: &SqlType| ty.kind == TypeKind::Timestamp;
                local |= is_timestamp(&c.ty) || is_timestamp(&old.columns[at].ty);
                Origin::Convert(at)
            }
        };
        let origins: Vec<Origin> = new.columns.iter().map(origin).collect();
        local |= origins.iter().any(|o| matches!(o, Origin::New));
        let auto = |table: &TableDef| table.auto_column.map(|at| table.columns[at].id);
        let mode = building.eval.sql_mode;
        Ok(Self {
            exprs: TableExprs::compile(building.eval, new)?,
            step,
            keeps_zero: auto(old) == auto(new) || mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO),
            zone: match local {
                true => building.eval.time_zone.clone(),
                false => TimeZone::UTC,
            },
            discards: match &context.discards {
                Some(text) => Some(bind_stored(building.eval, &old.name, &old.columns, text)?),
                None => None,
            },
            building,
            old,
            new,
            origins,
            calls: CallStates::default(),
            moves: None,
        })
    }

    /// Rows of a table for another one that has the same columns, or for the copy of the same table: without those that
    /// meet `discards`. `first` is the number of the first row, if rows of the other table have no key.
    pub(super) fn moved(
        building: Building<'a>,
        (from, to): (&'a TableDef, &'a TableDef),
        (step, first): (AutoStep, u64),
        discards: Option<&str>,
    ) -> SqlResult<Self> {
        let bound = |text| bind_stored(building.eval, &from.name, &from.columns, text);
        Ok(Self {
            exprs: TableExprs::compile(building.eval, to)?,
            step,
            keeps_zero: true,
            zone: TimeZone::UTC,
            discards: discards.map(bound).transpose()?,
            building,
            old: from,
            new: to,
            origins: (0..from.columns.len()).map(Origin::Same).collect(),
            calls: CallStates::default(),
            moves: (from.id != to.id).then_some(first),
        })
    }

    /// Is the row left out of the copy?
    pub(super) fn drops(&self, stored: &[u8]) -> SqlResult<bool> {
        let Some(discards) = &self.discards else {
            return Ok(false);
        };
        let eval = self.building.eval;
        let row = RowReader::new(&self.old.layout, &eval.time_zone, stored)?;
        let columns = 0..self.old.columns.len();
        let values: Vec<Value> = columns.map(|c| row.field(c).to_owned()).collect();
        let env = EvalEnv::scalar(eval, &NoVars, &self.calls);
        let holds = discards.eval_bool(&values, &env);
        Ok(holds.map_err(ExecError::without_wait)? == Some(true))
    }

    /// What the row with the clustered key `key` becomes. `number` tells it from others in messages, and is its key if
    /// the copy has no other.
    pub(super) fn row(&self, key: &[u8], stored: &[u8], number: u64) -> SqlResult<NewRow> {
        let env = EvalEnv::scalar(self.building.eval, &NoVars, &self.calls);
        let row = RowReader::new(&self.old.layout, &self.zone, stored)?;
        let mut values = vec![Value::Null; self.new.columns.len()];
        self.convert(&row, &mut values, number, &env)?;
        self.exprs.check(&values, &env)?;
        self.exprs.check_partition(&values, &env)?;
        let mut bytes = Vec::with_capacity(stored.len());
        encode_row(&self.new.layout, &self.zone, &values, &mut bytes)?;
        Ok(NewRow {
            key: self.clustered_key(key, number, &bytes)?,
            bytes,
        })
    }

    fn clustered_key(&self, old_key: &[u8], number: u64, bytes: &[u8]) -> SqlResult<Vec<u8>> {
        let primary = self.new.primary();
        Ok(match (primary.hidden, self.old.primary().hidden) {
            (true, true) if self.moves.is_none() => old_key.to_vec(),
            (true, _) => {
                let number = self.moves.unwrap_or(0).saturating_add(number);
                number.to_be_bytes().to_vec()
            }
            (false, _) => {
                let mut key = Vec::new();
                let reader = RowReader::new(&self.new.layout, &UTC, bytes)?;
                primary.codec.encode_row_parts(&reader, &mut key)?;
                key
            }
        })
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
                // Computed below; the value before it need be none of the new type.
                Origin::Convert(_) | Origin::NullOnly(_) if column.generated.is_some() => {
                    Value::Null
                }
                Origin::NullOnly(from) => match row.field(*from) {
                    ValueRef::Null => self.null_of(column, row_number)?,
                    value => value.to_owned(),
                },
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
                let value = e.eval(values, env).map_err(ExecError::without_wait)?;
                values[at] = self.converted(value, &e.ty, column, row_number)?;
            }
        }
        self.number(values)?;
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
        let eval = self.building.eval;
        if !value.is_null() {
            let (value, from) = as_shown_text(value, from, &column.ty);
            let stored = to_column(eval, value, &from, &column.ty, &column.name, row_number);
            return stored.map_err(|e| shortened(e, &from, column, row_number));
        }
        self.null_of(column, row_number)
    }

    /// What NULL becomes in a column.
    fn null_of(&self, column: &ColumnDef, row_number: u64) -> SqlResult<Value> {
        let eval = self.building.eval;
        if column.ty.nullable || column.auto_increment {
            return Ok(Value::Null);
        }
        // There is no zero of geometries.
        if eval.diagnostics.strict_write.get() || column.ty.is_geometry() {
            return Err(errors::invalid_null());
        }
        let told = errors::data_truncated(&column.name, row_number);
        eval.warn(Level::Warning, told.code, told.message);
        Ok(implicit_value(&column.ty))
    }

    fn new_value(&self, column: &ColumnDef) -> SqlResult<Value> {
        Ok(match default_of(self.building.eval, column) {
            Default::Value(value) => value,
            Default::None => implicit_value(&column.ty),
            Default::Expr => Value::Null,
        })
    }

    /// Rows without a number in a new AUTO_INCREMENT column get one.
    fn number(&self, values: &mut [Value]) -> SqlResult<()> {
        let Some(auto) = self.new.auto_column else {
            return Ok(());
        };
        let ty = &self.new.columns[auto].ty;
        let is_new = matches!(self.origins[auto], Origin::New);
        let gets_number = match &values[auto] {
            Value::Null => true,
            Value::Int(0) | Value::UInt(0) => is_new || !self.keeps_zero,
            _ => is_new,
        };
        if !gets_number {
            self.new.note_auto(as_counter(&values[auto]), self.step);
            return Ok(());
        }
        let max = max_auto(ty);
        let range = self.new.runtime.draw(1, self.step, max);
        let range = range.filter(|range| range.first <= max);
        let number = range.ok_or_else(errors::no_auto_increment_value)?.first;
        values[auto] = auto_value(ty, number);
        Ok(())
    }

    /// Has the copy an AUTO_INCREMENT column that the table had not, first in its first key? Then rows that meet there
    /// are told so.
    pub(super) fn renumbers(&self) -> bool {
        let auto = |table: &TableDef| table.auto_column.map(|at| table.columns[at].id);
        self.moves.is_none()
            && auto(self.old) != auto(self.new)
            && self.new.auto_column == self.new.leading_column()
    }
}

/// Numbers and temporal values of a column that becomes one of JSON are read from their texts, as MySQL does; FLOAT and
/// DOUBLE that become texts keep the digits that they show.
fn as_shown_text(value: Value, from: &SqlType, to: &SqlType) -> (Value, SqlType) {
    let is_other = from.is_numeric() || from.is_temporal();
    let becomes_document = to.kind == TypeKind::Json && is_other && from.kind != TypeKind::Bit;
    let has_fixed_digits = from.kind == TypeKind::Float || from.decimals < NOT_FIXED_DECIMALS;
    let keeps_digits = matches!(value, Value::Double(_)) && to.is_string() && has_fixed_digits;
    if !becomes_document && !keeps_digits {
        return (value, from.clone());
    }
    let text = cast::to_str(&value, from).into_owned();
    let chars = text.len() as u32;
    (
        Value::Str(text),
        SqlType::varchar(chars, Collation::UTF8MB4_BIN),
    )
}

/// A VARCHAR that becomes a shorter one has an error of its own, 1265.
fn shortened(e: SqlError, from: &SqlType, column: &ColumnDef, row_number: u64) -> SqlError {
    let is_shorter = e.code == 1406
        && (&from.kind, &column.ty.kind) == (&TypeKind::VarChar, &TypeKind::VarChar)
        && from.collation.charset() == column.ty.collation.charset();
    if !is_shorter {
        return e;
    }
    errors::data_truncated(&column.name, row_number)
}
