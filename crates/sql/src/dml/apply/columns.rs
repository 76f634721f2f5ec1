//! The columns of a row event's table against those of ours, and values of images as values of columns.
//!
//! Neighbours: `fit` says what may be converted; the applier makes rows of what comes out.
//! **Invariants**
//! - Columns match by position; functional key parts, which no image has, are passed over, and so is a generated
//!   primary key that only one of both tables has. Columns that only the event has are read and dropped; columns that
//!   only we have keep their default.
//! - Values come out in the column's type, TIMESTAMPs in UTC, texts in UTF-8.

use std::hash::{DefaultHasher, Hasher};

use esker_binlog::event::rows::Image;
use esker_binlog::event::table_map::TableMap;
use esker_binlog::image::ShapeColumn;
use esker_sql_catalog::catalog::{ColumnDef, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_types::collation::{Charset, Collation};
use esker_types::json::{self, JsonRef};
use esker_types::{EvalCtx, SqlResult, SqlType, TypeKind, Value, ValueRef, errors};

use super::fit::{Conversions, How, how};
use crate::dml::strict_writes;
use crate::dml::values::{Default, assign, default_of, unset_value};

/// A column of the event that is one of ours, too.
struct Source {
    /// Ordinal in our table.
    target: usize,
    /// Character set of its texts in images.
    charset: Charset,
    how: How,
}

/// The columns of an event's table.
pub(super) struct Columns {
    /// First columns of the event that are none of ours.
    skipped: usize,
    sources: Vec<Source>,
    /// Our columns as images have them, to compare values.
    shapes: Vec<ShapeColumn>,
}

/// A row image by our columns; `None` where the image has no value.
pub(super) type OwnImage = Vec<Option<Value>>;

impl Columns {
    /// # Errors
    /// 1677.
    pub(super) fn new(
        table: &TableDef,
        map: &TableMap,
        conversions: Conversions,
    ) -> SqlResult<Self> {
        let visible = table.shown_columns(map.has_generated_key);
        let skipped = usize::from(map.has_generated_key && !table.has_generated_key());
        let of_event = map.columns.iter().enumerate().skip(skipped);
        let sources = of_event.zip(visible);
        let sources = sources.map(|((nth, source), (target, column))| {
            let own = column.ty.collation;
            let collation = source.collation.and_then(Collation::by_id).unwrap_or(own);
            Ok(Source {
                target,
                charset: collation.charset(),
                how: how(source, (nth, table, column), conversions)?,
            })
        });
        let shape = |c: &ColumnDef| ShapeColumn::new(c.name.clone(), c.ty.clone(), c.invisible);
        Ok(Self {
            skipped,
            sources: sources.collect::<SqlResult<_>>()?,
            shapes: table.columns.iter().map(shape).collect(),
        })
    }

    /// Which column of ours is the event's `nth`.
    pub(super) fn target(&self, nth: usize) -> Option<usize> {
        let nth = nth.checked_sub(self.skipped)?;
        self.sources.get(nth).map(|source| source.target)
    }

    /// An image by our columns.
    ///
    /// # Errors
    /// Values that a conversion does not admit.
    pub(super) fn own(
        &self,
        ctx: &EvalCtx<'_>,
        table: &TableDef,
        image: Image,
    ) -> SqlResult<OwnImage> {
        let mut own: OwnImage = vec![None; table.columns.len()];
        for (source, value) in self
            .sources
            .iter()
            .zip(image.into_iter().skip(self.skipped))
        {
            let Some(value) = value else { continue };
            let column = &table.columns[source.target];
            let name = (&*table.name, column);
            own[source.target] = Some(match (&source.how, value) {
                (_, Value::Null) => nothing(ctx, column),
                (_, Value::Label(number, _)) => label(ctx, number, name)?,
                (How::Same, value) => same(value, source.charset, column)?,
                (How::Convert(from), value) => {
                    let value = match value {
                        Value::Str(text) => Value::Str(source.charset.decode_lossy(&text).into()),
                        value => value,
                    };
                    // What is lost is lost by permission.
                    let _lenient = strict_writes(ctx, true);
                    assign(ctx, value, from, name, 1, false)?
                }
            });
        }
        Ok(own)
    }

    /// Takes down what [`Self::matches`] compares of an image: rows that match have the same digest.
    pub(super) fn digest_image(
        &self,
        table: &TableDef,
        image: &OwnImage,
        digest: &mut DefaultHasher,
    ) {
        let mut bytes = Vec::new();
        for (col, value) in image.iter().enumerate() {
            if let Some(value) = value {
                self.digest_field(table, (col, value.as_ref()), &mut bytes, digest);
            }
        }
    }

    /// The same of a stored row, for an image that has these columns.
    pub(super) fn digest_stored(
        &self,
        table: &TableDef,
        has: &[bool],
        stored: &[u8],
        digest: &mut DefaultHasher,
    ) -> SqlResult<()> {
        let row = RowReader::new(&table.layout, &UTC, stored)?;
        let mut bytes = Vec::new();
        for col in (0..has.len()).filter(|col| has[*col]) {
            self.digest_field(table, (col, row.field(col)), &mut bytes, digest);
        }
        Ok(())
    }

    fn digest_field(
        &self,
        table: &TableDef,
        (col, value): (usize, ValueRef<'_>),
        bytes: &mut Vec<u8>,
        digest: &mut DefaultHasher,
    ) {
        if table.columns[col].generated.is_some() {
            return;
        }
        bytes.clear();
        match value {
            ValueRef::Null => digest.write_u8(0),
            // Equal documents may have other bytes.
            ValueRef::Json(document) => {
                json::sort_key(JsonRef::new(document), bytes);
                digest.write_u8(1);
                digest.write(bytes);
            }
            value => {
                // What cannot be written matches nothing.
                let _ = self.shapes[col].write(value, bytes);
                digest.write_u8(2);
                digest.write(bytes);
            }
        }
    }

    /// Is this the row of which `image` is? What is computed from other columns is not compared.
    pub(super) fn matches(
        &self,
        table: &TableDef,
        image: &OwnImage,
        stored: &[u8],
    ) -> SqlResult<bool> {
        let row = RowReader::new(&table.layout, &UTC, stored)?;
        let mut bytes = (Vec::new(), Vec::new());
        for (col, value) in image.iter().enumerate() {
            let Some(value) = value
                .as_ref()
                .filter(|_| table.columns[col].generated.is_none())
            else {
                continue;
            };
            let is_same = match (value.as_ref(), row.field(col)) {
                (ValueRef::Null, ValueRef::Null) => true,
                (ValueRef::Null, _) | (_, ValueRef::Null) => false,
                (ValueRef::Json(a), ValueRef::Json(b)) => {
                    json::compare(JsonRef::new(a), JsonRef::new(b)).is_eq()
                }
                (a, b) => {
                    bytes.0.clear();
                    bytes.1.clear();
                    let shape = &self.shapes[col];
                    let fits = shape.write(a, &mut bytes.0).is_ok()
                        && shape.write(b, &mut bytes.1).is_ok();
                    fits && bytes.0 == bytes.1
                }
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// NULL, or what a column that has none gets in its place, as in MySQL.
fn nothing(ctx: &EvalCtx<'_>, column: &ColumnDef) -> Value {
    match column.ty.nullable || column.generated.is_some() {
        true => Value::Null,
        false => default_value(ctx, column),
    }
}

/// What a column gets that no value of an event is for.
pub(super) fn default_value(ctx: &EvalCtx<'_>, column: &ColumnDef) -> Value {
    match default_of(ctx, column) {
        Default::Value(value) => value,
        _ => unset_value(&column.ty),
    }
}

/// A value of an image in a column of the same type.
fn same(value: Value, charset: Charset, column: &ColumnDef) -> SqlResult<Value> {
    let ty = &column.ty;
    Ok(match value {
        Value::Int(v) if ty.is_integer() => integer(ty, v as u64),
        Value::UInt(v) if ty.is_integer() => integer(ty, v),
        Value::Str(text) => Value::Str(own_text(ty, charset, text)),
        Value::Json(document) => {
            // Bytes of somebody else: read, and written again as ours.
            let document = JsonRef::new(&document).to_json();
            Value::Json(json::encode(&document)?)
        }
        Value::DateTime(_) | Value::Date(_) | Value::Time(_) => value,
        Value::Double(_) | Value::Decimal(_) | Value::Bit(..) | Value::Null => value,
        other => {
            let why = format!("Column '{}': {other:?} in a row image", column.name);
            return Err(errors::corrupt_event(why));
        }
    })
}

/// A value of ENUM or SET by its number, whatever it is called at the source. What the column has no word for is lost,
/// as in MySQL: a value of ENUM becomes the empty one, a member of SET goes.
fn label(ctx: &EvalCtx<'_>, number: u64, name: (&str, &ColumnDef)) -> SqlResult<Value> {
    let known = match &name.1.ty.kind {
        TypeKind::Enum(words) if number > words.len() as u64 => 0,
        TypeKind::Set(words) if words.len() < 64 => number & ((1 << words.len()) - 1),
        _ => number,
    };
    match known {
        0 => Ok(Value::Label(0, Box::default())),
        known => assign(
            ctx,
            Value::UInt(known),
            &SqlType::bigint(true),
            name,
            1,
            false,
        ),
    }
}

/// The same bits with the column's sign.
fn integer(ty: &SqlType, bits: u64) -> Value {
    if ty.kind == TypeKind::Year {
        return Value::Int(bits as i64);
    }
    let bytes = match ty.kind {
        TypeKind::TinyInt => 1,
        TypeKind::SmallInt => 2,
        TypeKind::MediumInt => 3,
        TypeKind::Int => 4,
        _ => 8,
    };
    let unused = 64 - 8 * bytes;
    match ty.unsigned {
        true => Value::UInt(bits << unused >> unused),
        false => Value::Int((bits << unused) as i64 >> unused),
    }
}

/// A text as rows have it: UTF-8, BINARY with the zeros that images leave out.
fn own_text(ty: &SqlType, charset: Charset, text: Vec<u8>) -> Vec<u8> {
    let is_binary = ty.collation.charset() == Charset::Binary;
    let mut text = match is_binary || charset == Charset::Binary {
        true => text,
        false => charset.decode_lossy(&text).into_owned(),
    };
    if is_binary && ty.kind == TypeKind::Char {
        text.resize(text.len().max(ty.length as usize), 0);
    }
    text
}
