//! Assignment to a column: INSERT, UPDATE, LOAD.
//!
//! Neighbours: the `sql` crate's DML calls [`to_column`] for every value; `column_text` and
//! `column_time` do their families.
//! **Invariants**: the result is a value that the column can store exactly (range, scale, length,
//! padding); in strict writes a value that cannot be stored is an error, else the nearest value is
//! stored with a warning.

use std::fmt::Display;

use super::column_text::{to_bit, to_enum, to_set, to_string_column};
use super::column_time::{is_year, to_date_column, to_datetime_column, to_time_column, to_year};
use super::number::temporal_decimal;
use super::{quoted, round_f64};
use crate::ctx::{EvalCtx, Work};
use crate::decimal::{Decimal, ParseStatus, is_space, numeric_prefix_len};
use crate::error::{Level, SqlResult};
use crate::errors;
use crate::geometry::{GeometryType, Spatial};
use crate::json::{self, JsonRef};
use crate::sqltype::{NOT_FIXED_DECIMALS, SqlType, TypeKind};
use crate::temporal::{Date, DateTime, Time};
use crate::value::{Value, ValueRef};

/// Where a value goes, for messages.
pub(super) struct Target<'a> {
    pub ctx: &'a EvalCtx<'a>,
    pub ty: &'a SqlType,
    pub column: &'a str,
    pub row: u64,
}

impl Target<'_> {
    fn place(&self) -> impl Display + '_ {
        struct Place<'a>(&'a str, u64);
        impl Display for Place<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "for column '{}' at row {}", self.0, self.1)
            }
        }
        Place(self.column, self.row)
    }

    /// 1264
    pub(super) fn out_of_range(&self) -> SqlResult<()> {
        errors::out_of_range_for_column(self.ctx, self.column, self.row)
    }

    /// 1265
    pub(super) fn truncated(&self) -> SqlResult<()> {
        self.ctx
            .raise(1265, "01000", format!("Data truncated {}", self.place()))
    }

    /// 1265 as a note: nothing of importance was lost.
    pub(super) fn note_truncated(&self) {
        self.ctx.warn(
            Level::Note,
            1265,
            format!("Data truncated {}", self.place()),
        );
    }

    /// 1366 `Incorrect KIND value`
    pub(super) fn incorrect(&self, kind: &str, text: &[u8]) -> SqlResult<()> {
        let message = format!(
            "Incorrect {kind} value: '{}' {}",
            quoted(text),
            self.place()
        );
        self.ctx.raise(1366, "HY000", message)
    }

    /// 1366 for bytes that are no characters of the column's character set.
    pub(super) fn incorrect_string(&self, shown: &str) -> SqlResult<()> {
        let message = format!("Incorrect string value: '{shown}' {}", self.place());
        self.ctx.raise(1366, "HY000", message)
    }

    /// 1406, or 1265 outside of strict writes.
    pub(super) fn too_long(&self) -> SqlResult<()> {
        if self.strict() {
            return Err(errors::data_too_long(self.place()));
        }
        self.truncated()
    }

    /// 1406 where the mode is strict, else 1264; a warning under IGNORE.
    pub(super) fn too_many_bits(&self) -> SqlResult<()> {
        if !self.ctx.sql_mode.is_strict() {
            return self.out_of_range();
        }
        self.ctx
            .raise(1406, "22001", format!("Data too long {}", self.place()))
    }

    /// Problems are errors.
    pub(super) fn strict(&self) -> bool {
        self.ctx.diagnostics.strict_write.get()
    }

    /// 1292 `Incorrect KIND value`, of the level given (an error is one in any case).
    pub(super) fn incorrect_temporal(&self, kind: &str, text: &[u8], note: bool) -> SqlResult<()> {
        let message = format!(
            "Incorrect {kind} value: '{}' {}",
            quoted(text),
            self.place()
        );
        if note {
            self.ctx.warn(Level::Note, 1292, message);
            return Ok(());
        }
        self.ctx.raise(1292, "22007", message)
    }
}

/// Converts a value of type `from` for storage in a column of type `ty`. NULL stays NULL (NOT NULL
/// is the caller's rule); `row` is the row's number in the statement, from 1.
#[inline]
pub fn to_column(
    ctx: &EvalCtx,
    v: Value,
    from: &SqlType,
    ty: &SqlType,
    column: &str,
    row: u64,
) -> SqlResult<Value> {
    if let (Value::Int(n), TypeKind::Int | TypeKind::BigInt, false) = (&v, &ty.kind, ty.unsigned)
        && (ty.kind == TypeKind::BigInt || i32::try_from(*n).is_ok())
    {
        return Ok(v);
    }
    if v.is_null() {
        return Ok(v);
    }
    convert(
        &Target {
            ctx,
            ty,
            column,
            row,
        },
        v,
        from,
    )
}

fn convert(t: &Target<'_>, v: Value, from: &SqlType) -> SqlResult<Value> {
    if t.ty.kind == TypeKind::Json {
        return to_json_column(t, v, from);
    }
    if let Value::Json(doc) = &v
        && let Some(plain) = from_json(t, JsonRef::new(doc))?
    {
        return convert(t, plain, &SqlType::new(TypeKind::Null));
    }
    // The bits of a column are a number, not bytes, where a temporal value is wanted.
    let v = match v {
        Value::Bit(bits, _) if t.ty.is_temporal() => Value::UInt(bits),
        v => v,
    };
    match &t.ty.kind {
        TypeKind::TinyInt
        | TypeKind::SmallInt
        | TypeKind::MediumInt
        | TypeKind::Int
        | TypeKind::BigInt => to_integer(t, v.as_ref()),
        TypeKind::Decimal => to_decimal_column(t, v.as_ref()),
        TypeKind::Float | TypeKind::Double => to_double(t, v.as_ref()),
        TypeKind::Date => to_date_column(t, v.as_ref()),
        TypeKind::Time => to_time_column(t, v.as_ref()),
        TypeKind::DateTime | TypeKind::Timestamp => to_datetime_column(t, v.as_ref()),
        TypeKind::Year => to_year(t, v.as_ref()),
        TypeKind::Bit => to_bit(t, v.as_ref(), from),
        TypeKind::Enum(labels) => to_enum(t, v.as_ref(), from, labels),
        TypeKind::Set(labels) => to_set(t, v.as_ref(), from, labels),
        TypeKind::Char
        | TypeKind::VarChar
        | TypeKind::TinyText
        | TypeKind::Text
        | TypeKind::MediumText
        | TypeKind::LongText => to_string_column(t, v, from),
        TypeKind::Geometry(wanted) => to_geometry_column(t, v, *wanted),
        TypeKind::Json | TypeKind::Null => Ok(v),
    }
}

/// Bytes must be a geometry of the column's shape (1416) and SRID (3643).
fn to_geometry_column(t: &Target<'_>, v: Value, wanted: GeometryType) -> SqlResult<Value> {
    let Value::Str(bytes) = v else {
        return Err(errors::no_geometry_for_column());
    };
    let spatial = Spatial::parse(&bytes).ok_or_else(errors::no_geometry_for_column)?;
    if !wanted.shape.holds(spatial.geometry.shape()) {
        return Err(errors::no_geometry_for_column());
    }
    match wanted.srid.filter(|srid| *srid != spatial.srid) {
        Some(srid) => Err(errors::wrong_srid_for_column(t.column, spatial.srid, srid)),
        None => Ok(Value::Str(bytes)),
    }
}

/// A text is parsed, other types are not taken: they need CAST.
fn to_json_column(t: &Target<'_>, v: Value, from: &SqlType) -> SqlResult<Value> {
    const NOT_TEXT: json::Fault = json::Fault::Syntax("not a JSON text, may need CAST", 0);
    let text = match v {
        Value::Json(doc) => return storable(t, doc),
        Value::Null => return Ok(v),
        Value::Str(text) if !(from.is_string() && from.collation.is_binary()) => text,
        Value::Label(_, text) => text.into_vec(),
        Value::Str(_) | Value::Bit(..) => {
            return Err(errors::json_from_binary());
        }
        _ => return Err(NOT_TEXT.in_column(t.column)),
    };
    let doc = json::parse(&text, t.ctx.session).map_err(|e| e.in_column(t.column))?;
    storable(
        t,
        json::encode_watched(&doc, &mut Work::new(t.ctx.session))?,
    )
}

/// 1301 for a document that is larger than max_allowed_packet.
fn storable(t: &Target<'_>, doc: Vec<u8>) -> SqlResult<Value> {
    let limit = t.ctx.max_allowed_packet;
    match doc.len() as u64 > limit {
        true => Err(errors::larger_than_packet("json_binary::serialize", limit)),
        false => Ok(Value::Json(doc)),
    }
}

/// The value in a type from which the column's type is reached as from SQL values; `None`: as text.
fn from_json(t: &Target<'_>, doc: JsonRef<'_>) -> SqlResult<Option<Value>> {
    let (ctx, what) = (t.ctx, t.column);
    let flags = super::date_flags(ctx);
    Ok(Some(match &t.ty.kind {
        TypeKind::Decimal => Value::Decimal(json::convert::to_decimal(ctx, doc, what)?),
        TypeKind::Float | TypeKind::Double => Value::Double(json::convert::to_f64(ctx, doc, what)?),
        TypeKind::Date => {
            json::convert::to_date(ctx, doc, flags, what)?.map_or(Value::Null, Value::Date)
        }
        TypeKind::Time => json::convert::to_time(ctx, doc, what)?.map_or(Value::Null, Value::Time),
        TypeKind::DateTime | TypeKind::Timestamp => {
            json::convert::to_datetime(ctx, doc, flags, what)?.map_or(Value::Null, Value::DateTime)
        }
        TypeKind::Year if !doc.is_number() => {
            let mut text = Vec::new();
            json::print(doc, &mut text);
            Value::Str(text)
        }
        TypeKind::Year => Value::Int(json::convert::to_int(ctx, doc, what)? as i64),
        _ if t.ty.is_integer() => {
            let n = json::convert::to_int(ctx, doc, what)?;
            u64::try_from(n).map_or(Value::Int(n as i64), Value::UInt)
        }
        _ => return Ok(None),
    }))
}

/// The value a NOT NULL column without default gets outside of strict mode.
pub fn implicit_default(ty: &SqlType) -> Value {
    match &ty.kind {
        TypeKind::TinyInt
        | TypeKind::SmallInt
        | TypeKind::MediumInt
        | TypeKind::Int
        | TypeKind::BigInt => {
            if ty.unsigned {
                Value::UInt(0)
            } else {
                Value::Int(0)
            }
        }
        TypeKind::Year => Value::Int(0),
        TypeKind::Float | TypeKind::Double => Value::Double(0.0),
        TypeKind::Decimal => Value::Decimal(Decimal::from_i128(0, ty.decimals)),
        TypeKind::Date => Value::Date(Date::ZERO),
        TypeKind::Time => Value::Time(Time::ZERO),
        TypeKind::DateTime | TypeKind::Timestamp => Value::DateTime(DateTime::ZERO),
        TypeKind::Bit => Value::Bit(0, ty.length as u8),
        TypeKind::Enum(labels) => {
            Value::Label(1, labels.first().map_or("", |l| &**l).as_bytes().into())
        }
        TypeKind::Set(_) => Value::Label(0, Box::default()),
        TypeKind::Char if ty.collation.is_binary() => Value::Str(vec![0; ty.length as usize]),
        TypeKind::Null => Value::Null,
        _ => Value::Str(Vec::new()),
    }
}

/// Smallest and largest value of an integer type.
fn integer_range(ty: &SqlType) -> (i128, i128) {
    let bits = match ty.kind {
        TypeKind::TinyInt => 8,
        TypeKind::SmallInt => 16,
        TypeKind::MediumInt => 24,
        TypeKind::Int => 32,
        _ => 64,
    };
    if ty.unsigned {
        (0, (1 << bits) - 1)
    } else {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    }
}

/// A number read from a text for an integer column: rounded half away from zero.
pub(super) fn integer_from_text(t: &Target<'_>, s: &[u8]) -> SqlResult<i128> {
    let (d, status, used) = Decimal::parse_prefix(s);
    match status {
        ParseStatus::Bad => {
            t.incorrect("integer", s)?;
            return Ok(0);
        }
        ParseStatus::Overflow => {
            return Ok(if d.is_negative() {
                i128::MIN
            } else {
                i128::MAX
            });
        }
        _ => {}
    }
    let n = integer_from_decimal(&d);
    let (min, max) = integer_range(t.ty);
    let fits = match t.ty.kind {
        TypeKind::Year => is_year(n),
        _ => (min..=max).contains(&n),
    };
    // Out of range takes precedence over garbage behind the number.
    if fits && !s[used..].iter().all(|b| is_space(*b)) {
        t.truncated()?;
    }
    Ok(n)
}

/// Rounded half away from zero; far out of range when it does not fit.
pub(super) fn integer_from_decimal(d: &Decimal) -> i128 {
    match d.round(0).ok().and_then(|d| d.unscaled_i128()) {
        Some(n) => n,
        None if d.is_negative() => i128::MIN,
        None => i128::MAX,
    }
}

/// What a decimal is as an integer of 64 bits, without a sign if `unsigned`: where it does not fit, that
/// is 1264 by itself, before the column's own.
pub(super) fn decimal_as_64_bits(t: &Target<'_>, d: &Decimal, unsigned: bool) -> SqlResult<i128> {
    let n = integer_from_decimal(d);
    let too_small = !unsigned && n < i64::MIN.into();
    let most = if unsigned {
        u64::MAX.into()
    } else {
        i64::MAX.into()
    };
    if too_small || n > most {
        t.out_of_range()?;
    }
    Ok(n)
}

fn to_integer(t: &Target<'_>, v: ValueRef<'_>) -> SqlResult<Value> {
    let n = match v {
        ValueRef::Int(n) => n.into(),
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => n.into(),
        ValueRef::Double(d) => double_as_integer(d),
        // Out of range whatever is left after rounding: -0.4 is not unsigned.
        ValueRef::Decimal(d) if t.ty.unsigned && d.is_negative() => i128::MIN,
        ValueRef::Decimal(d) if t.ty.kind == TypeKind::BigInt => integer_from_decimal(&d),
        ValueRef::Decimal(d) => decimal_as_64_bits(t, &d, t.ty.unsigned)?,
        ValueRef::Str(s) => integer_from_text(t, s)?,
        ValueRef::Time(time) => super::number::time_number(time).into(),
        ValueRef::DateTime(d) => super::number::datetime_number(d).into(),
        ValueRef::Date(d) => d.to_number().into(),
        ValueRef::Null | ValueRef::Json(_) => return Ok(Value::Null),
    };
    let (min, max) = integer_range(t.ty);
    if !(min..=max).contains(&n) {
        t.out_of_range()?;
        // MySQL says it twice of a double.
        if n > max
            && t.ty.kind == TypeKind::Int
            && t.ty.unsigned
            && matches!(v, ValueRef::Double(_))
        {
            t.out_of_range()?;
        }
    }
    let n = n.clamp(min, max);
    Ok(if t.ty.unsigned {
        Value::UInt(n as u64)
    } else {
        Value::Int(n as i64)
    })
}

/// Rounded half to even; far out of range when it does not fit.
fn double_as_integer(d: f64) -> i128 {
    match round_f64(d) {
        (n, false) => n.into(),
        // A float cast clamps.
        (_, true) => d.round_ties_even() as i128,
    }
}

fn to_decimal_column(t: &Target<'_>, v: ValueRef<'_>) -> SqlResult<Value> {
    let d = match v {
        ValueRef::Decimal(d) => d,
        ValueRef::Int(n) => Decimal::from(n),
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => Decimal::from(n),
        ValueRef::Double(x) => Decimal::from_f64(x).0,
        ValueRef::Str(s) => decimal_from_text(t, s)?,
        ValueRef::Null => return Ok(Value::Null),
        v => temporal_decimal(v).unwrap_or_default(),
    };
    fit_decimal(t, &d).map(Value::Decimal)
}

fn decimal_from_text(t: &Target<'_>, s: &[u8]) -> SqlResult<Decimal> {
    let (d, status) = Decimal::parse(s);
    match status {
        ParseStatus::Bad => t.incorrect("decimal", s)?,
        ParseStatus::Trailing | ParseStatus::Overflow if t.strict() => t.incorrect("decimal", s)?,
        ParseStatus::Trailing => t.note_truncated(),
        _ => {}
    }
    Ok(d)
}

/// Rounds to the column's scale and clamps to its range.
fn fit_decimal(t: &Target<'_>, d: &Decimal) -> SqlResult<Decimal> {
    let (precision, scale) = (t.ty.length, t.ty.decimals);
    if t.ty.unsigned && d.is_negative() {
        t.out_of_range()?;
        return Ok(Decimal::from_i128(0, scale));
    }
    match d.round(scale) {
        Ok(r) if r.fits(precision, scale) => {
            if d.scale() > scale && r != *d {
                t.note_truncated();
            }
            Ok(r)
        }
        _ => {
            t.out_of_range()?;
            Ok(Decimal::max_for(precision, scale, d.is_negative()))
        }
    }
}

fn to_double(t: &Target<'_>, v: ValueRef<'_>) -> SqlResult<Value> {
    let float = t.ty.kind == TypeKind::Float;
    let d = match v {
        ValueRef::Double(d) => d,
        ValueRef::Int(n) => n as f64,
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => n as f64,
        ValueRef::Decimal(d) => d.to_f64(),
        ValueRef::Str(s) => double_from_text(t, s)?,
        ValueRef::Null => return Ok(Value::Null),
        v => temporal_decimal(v).map_or(0.0, |d| d.to_f64()),
    };
    if t.ty.unsigned && d < 0.0 {
        t.out_of_range()?;
        return Ok(Value::Double(0.0));
    }
    let mut max = if float { f64::from(f32::MAX) } else { f64::MAX };
    let mut rounded = d;
    if t.ty.decimals < NOT_FIXED_DECIMALS {
        let unit = 10f64.powi(t.ty.decimals.into());
        let digits = i32::try_from(t.ty.length).unwrap_or(i32::MAX) - i32::from(t.ty.decimals);
        max = max.min(10f64.powi(digits) - unit.recip());
        // The fraction above the next lower integer is rounded, as in MySQL, so ties below zero go up.
        let whole = d.floor();
        rounded = whole + ((d - whole) * unit).round_ties_even() / unit;
    }
    if rounded.abs() > max {
        t.out_of_range()?;
        rounded = max.copysign(d);
    }
    Ok(Value::Double(if float {
        f64::from(rounded as f32)
    } else {
        rounded
    }))
}

fn double_from_text(t: &Target<'_>, s: &[u8]) -> SqlResult<f64> {
    let (d, clean) = super::parse_f64(s);
    let empty = s.iter().all(|b| is_space(*b));
    if clean && !empty {
        return Ok(d);
    }
    let len = numeric_prefix_len(s);
    if len > 0 && s[len..].iter().all(|b| is_space(*b)) {
        t.out_of_range()?;
    } else {
        t.incorrect(
            if t.ty.kind == TypeKind::Float {
                "FLOAT"
            } else {
                "DOUBLE"
            },
            s,
        )?;
    }
    Ok(d)
}
