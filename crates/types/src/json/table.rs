//! JSON_VALUE and JSON_TABLE: parts of documents as SQL values and rows.
//!
//! Neighbours: the `sql` crate binds both and reads the rows of JSON_TABLE; `cast` converts.
//! **Invariants**: a value has its column's type or is NULL; a problem is answered as the column says (NULL, an
//! error, a default); the rows of nested paths that stand side by side follow each other.

use std::rc::Rc;
use std::sync::Arc;

use super::dom::Json;
use super::path::Path;
use super::print::unquoted;
use super::seek::{exists, seek};
use super::view::{JsonRef, View};
use crate::cast::to_column;
use crate::collation::Collation;
use crate::ctx::{EvalCtx, Work};
use crate::error::{SqlError, SqlResult};
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// What is given where nothing is found, or no value comes of it.
#[derive(Debug, Clone)]
pub enum Fallback {
    /// NULL.
    Null,
    /// An error.
    Error,
    /// A value, of the column's type.
    Default(Value),
}

/// A column of JSON_TABLE with the place of its value in the row.
#[derive(Debug, Clone)]
pub struct Column {
    /// Place in the row.
    pub slot: usize,
    /// How its value comes about.
    pub kind: ColumnKind,
}

/// How the value of a column of JSON_TABLE comes about.
#[derive(Debug, Clone)]
pub enum ColumnKind {
    /// FOR ORDINALITY: the row's number.
    Ordinality,
    /// EXISTS PATH: is there anything?
    Exists {
        /// Where.
        path: Arc<Path>,
        /// The column's type.
        ty: SqlType,
    },
    /// PATH
    Value {
        /// Name, for messages.
        name: Arc<str>,
        /// Where.
        path: Arc<Path>,
        /// The column's type.
        ty: SqlType,
        /// ON EMPTY.
        on_empty: Fallback,
        /// ON ERROR.
        on_error: Fallback,
    },
}

/// The rows of one path, and those of the paths nested in it.
#[derive(Debug, Clone)]
pub struct Level {
    /// What the rows are.
    pub path: Arc<Path>,
    /// Their columns.
    pub columns: Vec<Column>,
    /// NESTED PATH.
    pub nested: Vec<Level>,
}

impl Level {
    /// The rows of a document, `width` values each.
    pub fn rows(
        &self,
        ctx: &EvalCtx,
        doc: JsonRef<'_>,
        width: usize,
    ) -> SqlResult<Vec<Vec<Value>>> {
        let mut out = Vec::new();
        let (row, work) = (&mut vec![Value::Null; width], &mut Work::new(ctx.session));
        self.expand(ctx, work, doc, row, &mut out)?;
        Ok(out)
    }

    fn expand(
        &self,
        ctx: &EvalCtx,
        work: &mut Work<'_>,
        doc: JsonRef<'_>,
        row: &mut Vec<Value>,
        out: &mut Vec<Vec<Value>>,
    ) -> SqlResult<()> {
        for (nth, found) in seek(doc, &self.path, work)?.into_iter().enumerate() {
            for column in &self.columns {
                row[column.slot] = column.value(ctx, work, found, nth)?;
            }
            let before = out.len();
            for nested in &self.nested {
                nested.expand(ctx, work, found, row, out)?;
                nested.clear(row);
            }
            if out.len() == before {
                out.push(row.clone());
            }
        }
        Ok(())
    }

    /// Its columns are NULL in rows of other paths.
    fn clear(&self, row: &mut [Value]) {
        for column in &self.columns {
            row[column.slot] = Value::Null;
        }
        self.nested.iter().for_each(|nested| nested.clear(row));
    }
}

impl Column {
    fn value(
        &self,
        ctx: &EvalCtx,
        work: &mut Work<'_>,
        doc: JsonRef<'_>,
        nth: usize,
    ) -> SqlResult<Value> {
        match &self.kind {
            ColumnKind::Ordinality => Ok(Value::UInt(nth as u64 + 1)),
            ColumnKind::Exists { path, ty } => {
                let found = Value::bool(exists(doc, path, work)?);
                to_column(&ctx.quiet(), found, &SqlType::bigint(false), ty, "", 1)
            }
            ColumnKind::Value {
                name,
                path,
                ty,
                on_empty,
                on_error,
            } => {
                let found = seek(doc, path, work)?;
                match found[..] {
                    [] => answer(on_empty, || missing(name)),
                    [one] if ty.kind != TypeKind::Json && !one.is_scalar() => {
                        answer(on_error, || not_scalar(name))
                    }
                    [one] => fitting(ctx, one, ty, name).or_else(|e| answer(on_error, || e)),
                    ref several if ty.kind == TypeKind::Json => {
                        let items = several.iter().map(|one| one.to_json()).collect();
                        super::encode(&Json::Array(items)).map(Value::Json)
                    }
                    _ => answer(on_error, || not_scalar(name)),
                }
            }
        }
    }
}

/// [`converted`] to a column of JSON_TABLE.
///
/// # Errors
/// 3669 for what is beyond the type, 3156 for what is none of its values.
pub fn fitting(ctx: &EvalCtx, doc: JsonRef<'_>, ty: &SqlType, column: &str) -> SqlResult<Value> {
    const BEYOND: [u16; 2] = [1264, 1406];
    if let (View::Opaque(_, bytes), true) = (doc.view(), ty.is_string()) {
        // Bytes in a document are bytes in a column.
        let strict = ctx.quiet();
        strict.diagnostics.strict_write.set(true);
        let from = SqlType::varchar(u32::MAX, Collation::BINARY);
        return to_column(&strict, Value::Str(bytes.to_vec()), &from, ty, column, 1);
    }
    let value = match ty.kind {
        TypeKind::Bit | TypeKind::Year if !doc.is_null() => of_integer(ctx, doc, ty, column),
        _ => converted(ctx, doc, ty, column),
    };
    value.map_err(|e| {
        if !BEYOND.contains(&e.code) && !ty.is_temporal() {
            return e;
        }
        let message = format!("Value is out of range for JSON_TABLE's column '{column}'");
        SqlError::new(3669, "22003", message)
    })
}

/// A BIT or YEAR: what storing the integer gives that the value is, so that 7 is the year 2007.
fn of_integer(ctx: &EvalCtx, doc: JsonRef<'_>, ty: &SqlType, column: &str) -> SqlResult<Value> {
    let strict = ctx.quiet();
    strict.diagnostics.strict_write.set(true);
    let n = super::convert::to_int(&strict, doc, column)?;
    let (value, from) = match u64::try_from(n) {
        Ok(n) => (Value::UInt(n), SqlType::bigint(true)),
        Err(_) => (Value::Int(n as i64), SqlType::bigint(false)),
    };
    to_column(&strict, value, &from, ty, column, 1)
}

fn answer(fallback: &Fallback, error: impl FnOnce() -> SqlError) -> SqlResult<Value> {
    match fallback {
        Fallback::Null => Ok(Value::Null),
        Fallback::Default(v) => Ok(v.clone()),
        Fallback::Error => Err(error()),
    }
}

/// 3665
fn missing(column: &str) -> SqlError {
    let message = format!("Missing value for JSON_TABLE column '{column}'");
    SqlError::new(3665, "22035", message)
}

/// 3666
fn not_scalar(column: &str) -> SqlError {
    let message =
        format!("Can't store an array or an object in the scalar JSON_TABLE column '{column}'");
    SqlError::new(3666, "2203F", message)
}

/// A JSON value as one of type `ty`; JSON null is NULL. `name` is what messages call the target.
///
/// # Errors
/// The value has to be changed to fit.
pub fn converted(ctx: &EvalCtx, doc: JsonRef<'_>, ty: &SqlType, name: &str) -> SqlResult<Value> {
    if doc.is_null() {
        return Ok(Value::Null);
    }
    if ty.kind == TypeKind::Json {
        return Ok(Value::Json(doc.to_document()));
    }
    let strict = ctx.quiet();
    strict.diagnostics.strict_write.set(true);
    if ty.is_string() || matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_)) {
        let text = unquoted(doc).into_owned();
        let from = SqlType::varchar(u32::MAX, Collation::UTF8MB4_BIN);
        return to_column(&strict, Value::Str(text), &from, ty, name, 1);
    }
    if ty.kind == TypeKind::Year {
        return year(&strict, doc, name);
    }
    let from = SqlType::new(TypeKind::Json);
    match (
        to_column(&strict, Value::Json(doc.to_document()), &from, ty, name, 1),
        &ty.kind,
    ) {
        // Without rounding a fraction of a second that does not fit.
        (Ok(Value::DateTime(_)), TypeKind::DateTime) => {
            let whole =
                super::convert::to_datetime(&strict, doc, crate::cast::date_flags(ctx), name)?;
            let cut = whole.and_then(|d| d.round(ty.decimals, true).ok());
            Ok(cut.map_or(Value::Null, Value::DateTime))
        }
        (other, _) => other,
    }
}

/// A YEAR as it is, never one of two digits.
fn year(strict: &EvalCtx, doc: JsonRef<'_>, name: &str) -> SqlResult<Value> {
    let year = super::convert::to_int(strict, doc, name)?;
    match super::default::is_year(year) && !matches!(doc.view(), View::Bool(_)) {
        true => Ok(Value::Int(year as i64)),
        false => Err(crate::cast::out_of_range("YEAR", &name)),
    }
}

/// JSON_VALUE.
///
/// # Errors
/// As the fallbacks say: 3966 where nothing is found, 3967 for several values, 1690 for what does not fit.
pub fn value(
    ctx: &EvalCtx,
    doc: JsonRef<'_>,
    path: &Rc<Path>,
    ty: &SqlType,
    on_empty: &Fallback,
    on_error: &Fallback,
) -> SqlResult<Value> {
    const NAME: &str = "json_value";
    let found = seek(doc, path, &mut Work::new(ctx.session))?;
    match found[..] {
        [] => answer(on_empty, || {
            let message = format!("No value was found by '{NAME}' on the specified path.");
            SqlError::new(3966, "22035", message)
        }),
        [one] => converted(ctx, one, ty, NAME)
            .or_else(|_| answer(on_error, || crate::cast::out_of_range(kind_name(ty), &NAME))),
        _ => answer(on_error, || {
            let message =
                format!("More than one value was found by '{NAME}' on the specified path.");
            SqlError::new(3967, "22034", message)
        }),
    }
}

/// What messages call a type.
fn kind_name(ty: &SqlType) -> &'static str {
    match ty.kind {
        TypeKind::Decimal => "DECIMAL",
        TypeKind::Float => "FLOAT",
        TypeKind::Double => "DOUBLE",
        TypeKind::Date => "DATE",
        TypeKind::Time => "TIME",
        TypeKind::DateTime | TypeKind::Timestamp => "DATETIME",
        TypeKind::Year => "YEAR",
        _ if ty.is_integer() && ty.unsigned => "UNSIGNED",
        _ if ty.is_integer() => "SIGNED",
        _ => "STRING",
    }
}
