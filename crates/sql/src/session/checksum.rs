//! CHECKSUM TABLE: MySQL's own sums, so that a table can be compared with its copy on a MySQL server.
//!
//! MySQL adds up, modulo 2^32, the CRC-32 of each row as its server keeps a record in memory: NULL bits, then each
//! column. Fields of fixed width lie there as they do in a row event of the binary log, so `esker_binlog::image` writes
//! them; CHAR is padded; texts, documents and BIT have no length in front.
//!
//! Neighbours: `maintain` hands the statement over. **Invariants**
//! - A sum depends on the table's columns and rows only: not on the order in which rows are stored, on indexes, the
//!   session's time zone or character set. Functional key parts, which MySQL adds, are left out.
//! - Where a value is NULL, the record has the column's constant default, or the zero of its type.

use esker_binlog::image::{Form, NotInImage, ShapeColumn};
use esker_sql_catalog::catalog::{ColumnDef, DefaultDef, TableDef};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{Mode, RowSink};
use esker_sql_syntax::ast::{
    ColumnRef, Expr, Ident, Maintain, NamedTable, ObjectName, Query, QueryBody, Select, SelectItem,
    TableRef,
};
use esker_types::collation::Charset;
use esker_types::json::{self, JsonRef};
use esker_types::{Date, DateTime, Decimal, Level, SqlType, Time, Value, ValueRef, errors};
use jiff::tz::TimeZone;

use super::Session;
use super::rows::RowSource;
use crate::show;

impl Session {
    pub(super) fn checksums(&mut self, m: &Maintain) -> Result<show::Table, ExecError> {
        for name in &m.tables {
            self.context.require_named(&["SELECT"], name)?;
        }
        // No checksum is kept while rows change, which is all that QUICK would ask for.
        let quick = m.options.iter().any(|o| &**o == "QUICK");
        let mut rows = Vec::new();
        for name in &m.tables {
            let found = match self.context.system_table(name) {
                // Its rows are computed.
                Ok(Some(_)) => Ok(None),
                Ok(None) => self.context.find_table(name).map(Some),
                Err(e) => Err(e),
            };
            let sum = match found {
                Ok(Some(table)) if !quick => Value::UInt(u64::from(self.checksum(&table)?)),
                Ok(_) => Value::Null,
                Err(e) => {
                    self.warn(Level::Error, e.code, e.message);
                    Value::Null
                }
            };
            rows.push(vec![show::t(self.context.shown(name)), sum]);
        }
        self.end_statement(true)?;
        Ok(show::Table::mixed(
            &["Table", "Checksum"],
            &["Checksum"],
            rows,
        ))
    }

    /// Reads the table at the transaction's snapshot.
    fn checksum(&mut self, table: &TableDef) -> Result<u32, ExecError> {
        let mut sum = Checksum::new(table).map_err(damaged)?;
        let plan = self.plan(&all_columns(table), &[])?;
        // TIMESTAMP values are read in the session's zone.
        let zone = std::mem::replace(&mut self.vars.time_zone, TimeZone::UTC);
        let stream = Box::new(esker_sql_exec::RowStream::open(plan));
        let mut source = RowSource::Stream(stream, Vec::new(), Mode::Thread);
        let pulled = loop {
            match self.pull(&mut source, &mut sum, usize::MAX) {
                Ok(true) => (),
                Ok(false) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        self.vars.time_zone = zone;
        pulled?;
        sum.total().map_err(damaged)
    }
}

fn damaged(e: NotInImage) -> ExecError {
    errors::unknown_error(format_args!("CHECKSUM TABLE: {e}")).into()
}

/// The columns that a statement can name, INVISIBLE ones included.
fn columns_of(table: &TableDef) -> impl Iterator<Item = &ColumnDef> {
    table.columns.iter().filter(|column| !column.is_hidden())
}

/// `SELECT a, b, … FROM name`.
fn all_columns(table: &TableDef) -> Query {
    let item = |column: &ColumnDef| SelectItem::Expr {
        expr: Expr::Column(ColumnRef {
            schema: None,
            table: None,
            name: Ident::new(&*column.name),
        }),
        alias: None,
        text: Box::default(),
    };
    let from = NamedTable {
        name: ObjectName {
            schema: Some(Ident::new(&*table.schema)),
            name: Ident::new(&*table.name),
        },
        partitions: Vec::new(),
        alias: None,
        hints: Vec::new(),
    };
    Query {
        with: None,
        body: QueryBody::Select(Box::new(Select {
            items: columns_of(table).map(item).collect(),
            from: vec![TableRef::Table(Box::new(from))],
            ..Select::default()
        })),
        order_by: Vec::new(),
        limit: None,
        locking: Vec::new(),
        into: None,
    }
}

/// A column of MySQL's record.
struct Field {
    column: ShapeColumn,
    /// Which NULL bit it has, unless it is NOT NULL.
    null_bit: Option<usize>,
    /// What lies there if it is NULL.
    absent: Vec<u8>,
}

impl Field {
    fn new(column: &ColumnDef, null_bit: Option<usize>) -> Result<Self, NotInImage> {
        let name = std::sync::Arc::clone(&column.name);
        let mut field = Self {
            column: ShapeColumn::new(name, column.ty.clone(), column.invisible),
            null_bit,
            absent: Vec::new(),
        };
        let mut absent = Vec::new();
        match &column.default {
            DefaultDef::Value(value) if !matches!(value, Value::Null) => {
                field.write(value.as_ref(), &mut absent)?;
            }
            _ => field.write(zero(&field.column), &mut absent)?,
        }
        field.absent = absent;
        Ok(field)
    }

    /// Appends a value that is not NULL.
    fn write(&self, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), NotInImage> {
        let charset = self.column.charset;
        match (self.column.form, value) {
            (Form::Char { max_bytes }, ValueRef::Str(text)) => {
                let end = out.len() + max_bytes as usize;
                out.extend_from_slice(&charset.encode_lossy(text));
                let padding: &[u8] = if charset == Charset::Binary {
                    &[0]
                } else {
                    b" "
                };
                let padding = charset.encode_lossy(padding);
                while out.len() < end {
                    out.extend_from_slice(&padding);
                }
            }
            (Form::VarChar { .. } | Form::Blob { .. } | Form::Geometry, ValueRef::Str(text)) => {
                out.extend_from_slice(&charset.encode_lossy(text));
            }
            (Form::Json, ValueRef::Json(document)) => json::print(JsonRef::new(document), out),
            (Form::Json, _) => json::print(JsonRef::NULL, out),
            (_, value) => self.column.write(value, out)?,
        }
        Ok(())
    }
}

/// The value that MySQL resets a field of this kind to.
fn zero(column: &ShapeColumn) -> ValueRef<'static> {
    match column.form {
        Form::Int { .. } | Form::Year => ValueRef::Int(0),
        Form::Float | Form::Double => ValueRef::Double(0.0),
        Form::Decimal { .. } => ValueRef::Decimal(Decimal::ZERO),
        Form::Bit { bits } => ValueRef::Bit(0, bits),
        Form::Date => ValueRef::Date(Date::ZERO),
        Form::Time { .. } => ValueRef::Time(Time::ZERO),
        Form::DateTime { .. } | Form::Timestamp { .. } => ValueRef::DateTime(DateTime::ZERO),
        Form::Enum { .. } | Form::Set { .. } => ValueRef::Label(0, &[]),
        Form::Json => ValueRef::Null,
        Form::Char { .. } | Form::VarChar { .. } | Form::Blob { .. } | Form::Geometry => {
            ValueRef::Str(&[])
        }
    }
}

/// Adds up rows instead of keeping them.
struct Checksum {
    fields: Vec<Field>,
    /// NULL bytes of a record without a NULL; bits that no column has are set.
    no_nulls: Vec<u8>,
    nulls: Vec<u8>,
    row: Vec<u8>,
    /// The field that comes next.
    at: usize,
    total: u32,
    /// The first value that does not fit its column.
    failed: Option<NotInImage>,
}

impl Checksum {
    fn new(table: &TableDef) -> Result<Self, NotInImage> {
        // A record of fixed length keeps its first bit for "not deleted".
        let mut bits = usize::from(!is_packed(table));
        let first_is_kept = bits == 1;
        let mut fields = Vec::new();
        for column in columns_of(table) {
            let null_bit = column.ty.nullable.then_some(bits);
            bits += usize::from(column.ty.nullable);
            fields.push(Field::new(column, null_bit)?);
        }
        let mut no_nulls = vec![0; bits.div_ceil(8)];
        if let Some(last) = no_nulls.last_mut() {
            // Where the columns fill it, MySQL sets all of the last byte.
            *last = (256 - (1 << (bits % 8))) as u8;
        }
        if let (true, Some(first)) = (first_is_kept, no_nulls.first_mut()) {
            *first |= 1;
        }
        Ok(Self {
            fields,
            no_nulls,
            nulls: Vec::new(),
            row: Vec::new(),
            at: 0,
            total: 0,
            failed: None,
        })
    }

    fn total(self) -> Result<u32, NotInImage> {
        match self.failed {
            Some(e) => Err(e),
            None => Ok(self.total),
        }
    }
}

/// Do records vary in length for MySQL?
fn is_packed(table: &TableDef) -> bool {
    let varies = |column: &ColumnDef| match Form::of(&column.ty) {
        Form::VarChar { .. } => &*table.row_format != "FIXED",
        Form::Blob { .. } | Form::Json | Form::Geometry => true,
        _ => false,
    };
    &*table.row_format == "DYNAMIC" || columns_of(table).any(varies)
}

impl RowSink for Checksum {
    fn begin_row(&mut self) {
        self.at = 0;
        self.row.clear();
        self.nulls.clone_from(&self.no_nulls);
    }

    fn value(&mut self, v: ValueRef<'_>, _ty: &SqlType) {
        let field = &self.fields[self.at];
        self.at += 1;
        if !matches!(v, ValueRef::Null) {
            if let Err(e) = field.write(v, &mut self.row) {
                self.failed.get_or_insert(e);
            }
            return;
        }
        if let Some(bit) = field.null_bit {
            self.nulls[bit / 8] |= 1 << (bit % 8);
        }
        self.row.extend_from_slice(&field.absent);
    }

    fn end_row(&mut self) {
        assert_eq!(self.at, self.fields.len(), "a row has all columns");
        let mut crc = crc32fast::Hasher::new();
        crc.update(&self.nulls);
        crc.update(&self.row);
        self.total = self.total.wrapping_add(crc.finalize());
    }

    fn bytes(&self) -> usize {
        0
    }
}
