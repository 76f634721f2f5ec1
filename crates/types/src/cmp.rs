//! Comparing values: which domain a comparison is made in, and the comparison.
//!
//! Neighbours: the binder asks [`cmp_kind`] once per comparison, the executor calls [`compare`];
//! ORDER BY, GROUP BY and indexes compare values of one type with [`sort_cmp`] and [`hash64`].
//! **Invariants**: `sort_cmp` is a total order with NULL first and agrees with `hash64`; `compare`
//! is NULL (`None`) when an operand is.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::cast::{self, to_decimal, to_f64, to_int, to_str};
use crate::collation::Collation;
use crate::ctx::{EvalCtx, MANY_BYTES, Work};
use crate::decimal::Decimal;
use crate::error::SqlResult;
use crate::errors;
use crate::json::{self, JsonRef};
use crate::sqltype::{NOT_FIXED_DECIMALS, SqlType, TypeKind};
use crate::temporal::{DateFlags, DateTime};
use crate::value::{Value, ValueRef};

/// The domain in which two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CmpKind {
    /// Integers, signed and unsigned mixed correctly.
    Int,
    /// Exact numbers.
    Decimal,
    /// Doubles.
    Double,
    /// Text in a collation.
    Str(Collation),
    /// Durations.
    Time,
    /// Temporal values (dates are midnights).
    DateTime,
    /// JSON values; SQL values become JSON scalars.
    Json,
}

/// What the binder knows of one side of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    /// Static type.
    pub ty: &'a SqlType,
    /// Is it a constant (literal, parameter, constant expression)?
    pub constant: bool,
}

impl<'a> From<&'a SqlType> for Operand<'a> {
    /// Of a column or any other expression that is not constant.
    fn from(ty: &'a SqlType) -> Self {
        Self {
            ty,
            constant: false,
        }
    }
}

/// MySQL's result types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Null,
    Int,
    Decimal,
    Real,
    Str,
}

fn class(ty: &SqlType) -> Class {
    match ty.kind {
        TypeKind::Null => Class::Null,
        _ if ty.is_integer() || ty.kind == TypeKind::Bit => Class::Int,
        TypeKind::Decimal => Class::Decimal,
        TypeKind::Float | TypeKind::Double => Class::Real,
        _ => Class::Str,
    }
}

/// DATE, DATETIME or TIMESTAMP?
fn has_date(ty: &SqlType) -> bool {
    ty.is_temporal() && ty.kind != TypeKind::Time
}

/// The domain of a comparison. `collation` is the aggregated one, used when both are texts.
///
/// Constants compared with a column are better converted to the column's type first
/// ([`constant_as_column`]): MySQL then compares in the column's domain.
pub fn cmp_kind<'a>(
    a: impl Into<Operand<'a>>,
    b: impl Into<Operand<'a>>,
    collation: Collation,
) -> CmpKind {
    let (a, b) = (a.into(), b.into());
    if a.ty.kind == TypeKind::Json || b.ty.kind == TypeKind::Json {
        return CmpKind::Json;
    }
    if let Some(kind) = temporal_kind(a, b) {
        return kind;
    }
    match (class(a.ty), class(b.ty)) {
        (Class::Null, Class::Null) => CmpKind::Str(collation),
        (Class::Null, c) | (c, Class::Null) => of_class(c, collation),
        (Class::Str, Class::Str) => CmpKind::Str(collation),
        (Class::Int, Class::Int) => CmpKind::Int,
        (Class::Int | Class::Decimal, Class::Int | Class::Decimal) => CmpKind::Decimal,
        (Class::Decimal, Class::Str) if !a.constant && b.constant => CmpKind::Decimal,
        (Class::Str, Class::Decimal) if a.constant && !b.constant => CmpKind::Decimal,
        _ => CmpKind::Double,
    }
}

fn of_class(class: Class, collation: Collation) -> CmpKind {
    match class {
        Class::Int => CmpKind::Int,
        Class::Decimal => CmpKind::Decimal,
        Class::Real => CmpKind::Double,
        Class::Str | Class::Null => CmpKind::Str(collation),
    }
}

/// The domain when a temporal type is involved and decides it.
fn temporal_kind(a: Operand<'_>, b: Operand<'_>) -> Option<CmpKind> {
    if !a.ty.is_temporal() && !b.ty.is_temporal() {
        return None;
    }
    let text_or_null = |ty: &SqlType| matches!(class(ty), Class::Str | Class::Null);
    if (has_date(a.ty) && text_or_null(b.ty)) || (has_date(b.ty) && text_or_null(a.ty)) {
        return Some(CmpKind::DateTime);
    }
    // A TIME and a text are compared as texts, unless the text is a constant that could be made a
    // value of the TIME column.
    let time = |ty: &SqlType| ty.kind == TypeKind::Time;
    (time(a.ty) && time(b.ty)).then_some(CmpKind::Time)
}

/// The constant as a value of the column's type, when it has exactly one that compares the same:
/// then the comparison is made in the column's domain (and an index can be used). For texts that is
/// the constant itself, whatever its length. `is_listed`: it is one of several that the column is compared with.
///
/// `None`: compare as [`cmp_kind`] says. ENUM and SET columns always are, for they compare as texts
/// but sort by number.
pub fn constant_as_column(
    ctx: &EvalCtx,
    constant: &Value,
    from: &SqlType,
    column: &SqlType,
    is_listed: bool,
) -> Option<Value> {
    let is_number = matches!(constant, Value::Int(_) | Value::UInt(_) | Value::Decimal(_));
    let convertible = match &column.kind {
        _ if column.is_integer() || column.is_temporal() => !constant.is_null(),
        TypeKind::Decimal => is_number || matches!(constant, Value::Str(_)),
        TypeKind::Float | TypeKind::Double => !constant.is_null(),
        TypeKind::Bit => is_number,
        _ if column.is_string() => {
            let same = from.collation.is_binary() == column.collation.is_binary();
            return match constant {
                Value::Str(_) if same => Some(constant.clone()),
                Value::Label(_, text) if same => Some(Value::Str(text.to_vec())),
                _ => None,
            };
        }
        _ => false,
    };
    if !convertible {
        return None;
    }
    if let (TypeKind::Year, Value::Str(_)) = (&column.kind, constant) {
        return text_as_year(ctx, constant, from, column);
    }
    let slack = fixed_float_slack(constant.as_ref(), column).filter(|_| is_number && !is_listed);
    let quiet = ctx.quiet();
    let stored = cast::to_column(&quiet, constant.clone(), from, column, "", 1).ok()?;
    if quiet.diagnostics.count() > 0 {
        return None;
    }
    let same = match &stored {
        // 24 is 2024 in a YEAR.
        _ if column.kind == TypeKind::Year => true,
        Value::Double(d) => {
            let given = to_f64(&quiet, constant).ok()?;
            given == *d || slack.is_some_and(|slack| (given - d).abs() < slack)
        }
        Value::Date(_) | Value::Time(_) | Value::DateTime(_) => {
            same_moment(&quiet, constant, &stored)
        }
        // A double near 0 is 0 as a decimal, and yet greater than 0.
        _ => {
            to_decimal(&quiet, constant).ok()? == to_decimal(&quiet, &stored).ok()?
                && to_f64(&quiet, constant).ok()? == to_f64(&quiet, &stored).ok()?
        }
    };
    same.then_some(stored)
}

/// The year of a text; one that is no number is the year of the number at its beginning.
fn text_as_year(ctx: &EvalCtx, text: &Value, from: &SqlType, column: &SqlType) -> Option<Value> {
    let as_year = |value: Value| {
        let quiet = ctx.quiet();
        let year = cast::to_column(&quiet, value, from, column, "", 1).ok();
        year.filter(|_| quiet.diagnostics.count() == 0)
    };
    as_year(text.clone()).or_else(|| {
        let number = cast::to_int(&ctx.quiet(), text).ok()?;
        as_year(Value::Int(i64::try_from(number).ok()?))
    })
}

/// How far from a constant of no more than D decimals the value of a FLOAT(M,D) column may be that is equal to it: half
/// of the last digit.
fn fixed_float_slack(constant: ValueRef<'_>, column: &SqlType) -> Option<f64> {
    let decimals = match constant {
        ValueRef::Decimal(d) => d.normalized().scale(),
        _ => 0,
    };
    let is_fixed = column.kind == TypeKind::Float && column.decimals < NOT_FIXED_DECIMALS;
    let half_digit = || 0.5 / 10f64.powi(column.decimals.into());
    (is_fixed && decimals <= column.decimals).then(half_digit)
}

/// A constant text as a value of the TIME column that it is compared with: as in MySQL, rounded to the column's digits.
pub fn constant_as_time(
    ctx: &EvalCtx,
    constant: &Value,
    from: &SqlType,
    column: &SqlType,
) -> Option<Value> {
    let Value::Str(_) = constant else {
        return None;
    };
    let quiet = ctx.quiet();
    cast::to_time(&quiet, constant).ok()??;
    let time = cast::to_column(&quiet, constant.clone(), from, column, "", 1).ok()?;
    (quiet.diagnostics.count() == 0).then_some(time)
}

/// Was nothing rounded away when the constant became a temporal value?
fn same_moment(ctx: &EvalCtx, constant: &Value, stored: &Value) -> bool {
    match stored {
        Value::Time(t) => matches!(cast::to_time(ctx, constant), Ok(Some(c)) if c == *t),
        v => {
            let read = |v: &Value| {
                cast::to_datetime(ctx, v, DateFlags::FUZZY.with(DateFlags::INVALID_DATES))
            };
            matches!((read(constant), read(v)), (Ok(Some(a)), Ok(Some(b))) if a == b)
        }
    }
}

/// 1525 for a constant text compared with a DATE, DATETIME or TIMESTAMP that is no date: MySQL
/// refuses the comparison.
pub fn check_date_constant(ctx: &EvalCtx, constant: &Value, other: &SqlType) -> SqlResult<()> {
    let Some(text) = no_date(ctx, constant, other) else {
        return Ok(());
    };
    let (kind, lower) = match other.kind {
        TypeKind::Date => ("DATE", "date"),
        TypeKind::Timestamp => ("TIMESTAMP", "datetime"),
        _ => ("DATETIME", "datetime"),
    };
    cast::truncated(ctx, lower, text)?;
    Err(errors::incorrect_value(kind, cast::quoted(text)))
}

/// The parameter of a prepared statement is no constant: one that is no date is NULL in such a comparison, after its
/// warning. Is it that?
///
/// # Errors
/// 1292 in a change of rows.
pub fn is_null_as_date(ctx: &EvalCtx, param: &Value, other: &SqlType) -> SqlResult<bool> {
    let Some(text) = no_date(ctx, param, other) else {
        return Ok(false);
    };
    match other.kind {
        TypeKind::Date => cast::truncated(ctx, "date", text)?,
        _ => {
            let text = cast::quoted(text);
            ctx.raise(1292, "22007", format!("Incorrect datetime value: '{text}'"))?;
        }
    }
    Ok(true)
}

/// Is a parameter a number that is no date or time, and beside one? Then it is NULL there. Beside a DATE a number of
/// two digits is one.
///
/// # Errors
/// 1292 in a change of rows.
pub fn is_null_as_moment(ctx: &EvalCtx, param: &Value, other: &SqlType) -> SqlResult<bool> {
    const FIRST_DATE: i64 = 101;
    let is_number = matches!(
        param,
        Value::Int(_) | Value::UInt(_) | Value::Decimal(_) | Value::Double(_)
    );
    if !is_number || !other.is_temporal() {
        return Ok(false);
    }
    let quiet = ctx.quiet();
    if other.kind == TypeKind::Time {
        let is_time = cast::to_time(&quiet, param)?.is_some();
        if !is_time {
            cast::to_time(ctx, param)?;
        }
        return Ok(!is_time);
    }
    let number = to_decimal(&quiet, param)?;
    let is_short = !number.is_negative() && number < Decimal::from(FIRST_DATE);
    let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
    if number.is_zero()
        || is_short && other.kind == TypeKind::Date
        || cast::to_datetime(&quiet, param, flags)?.is_some()
    {
        return Ok(false);
    }
    cast::to_datetime(ctx, param, flags)?;
    Ok(true)
}

/// The temporal value of a text that sql_mode allows in no column: a zero date, the 31st of February. A parameter is
/// compared with it all the same.
pub fn moment_beyond_mode(ctx: &EvalCtx, param: &Value, other: &SqlType) -> Option<DateTime> {
    no_date(ctx, param, other)?;
    let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
    cast::to_datetime(&ctx.quiet(), param, flags).ok()?
}

/// The text that is no date, if it is compared with one.
fn no_date<'v>(ctx: &EvalCtx, value: &'v Value, other: &SqlType) -> Option<&'v [u8]> {
    let Value::Str(text) = value else {
        return None;
    };
    let read = || cast::to_datetime(&ctx.quiet(), value, cast::date_flags(ctx));
    (has_date(other) && !matches!(read(), Ok(Some(_)))).then_some(text)
}

/// Compares; `None` when an operand is NULL. `a_ty` and `b_ty` matter for texts of numbers only.
#[inline]
pub fn compare<'a>(
    ctx: &EvalCtx,
    a: impl Into<ValueRef<'a>>,
    b: impl Into<ValueRef<'a>>,
    kind: CmpKind,
    types: (&SqlType, &SqlType),
) -> SqlResult<Option<Ordering>> {
    let (a, b) = (a.into(), b.into());
    Ok(Some(match (a, b, kind) {
        (ValueRef::Null, _, _) | (_, ValueRef::Null, _) => return Ok(None),
        (ValueRef::Int(a), ValueRef::Int(b), CmpKind::Int) => a.cmp(&b),
        (ValueRef::Str(a), ValueRef::Str(b), CmpKind::Str(c))
            if types.0.collation.same_bytes(c) && types.1.collation.same_bytes(c) =>
        {
            compare_texts(ctx, c, a, b)?
        }
        (ValueRef::Json(a), ValueRef::Json(b), CmpKind::Json) => {
            json::compare(JsonRef::new(a), JsonRef::new(b))
        }
        (a, b, CmpKind::Json) => {
            let (a, b) = (document(a, types.0)?, document(b, types.1)?);
            json::compare(JsonRef::new(&a), JsonRef::new(&b))
        }
        (a, b, CmpKind::Int) => to_int(ctx, a)?.cmp(&to_int(ctx, b)?),
        (a, b, CmpKind::Decimal) => to_decimal(ctx, a)?.cmp(&to_decimal(ctx, b)?),
        (a, b, CmpKind::Double) => to_f64(ctx, a)?
            .partial_cmp(&to_f64(ctx, b)?)
            .unwrap_or(Ordering::Equal),
        (a, b, CmpKind::Str(c)) => {
            compare_texts(ctx, c, &text_in(c, a, types.0), &text_in(c, b, types.1))?
        }
        (a, b, CmpKind::Time) => time_of(ctx, a)?.cmp(&time_of(ctx, b)?),
        (a, b, CmpKind::DateTime) => moment_of(ctx, a)?.cmp(&moment_of(ctx, b)?),
    }))
}

#[inline]
fn compare_texts(ctx: &EvalCtx, collation: Collation, a: &[u8], b: &[u8]) -> SqlResult<Ordering> {
    match a.len().min(b.len()) < MANY_BYTES {
        true => Ok(collation.compare(a, b)),
        false => collation.compare_watched(a, b, &mut Work::new(ctx.session)),
    }
}

/// The document that a comparison of JSON values takes for a value.
fn document<'a>(v: ValueRef<'a>, ty: &SqlType) -> SqlResult<Cow<'a, [u8]>> {
    match v {
        ValueRef::Json(doc) => Ok(Cow::Borrowed(doc)),
        v => json::encode(&json::from_value(v, ty)).map(Cow::Owned),
    }
}

/// The text as a comparison in `collation` takes it.
fn text_in<'a>(collation: Collation, v: ValueRef<'a>, ty: &SqlType) -> Cow<'a, [u8]> {
    ty.collation.recode(to_str(v, ty), collation)
}

/// The temporal value; what is no date compares as zero (after its warning).
pub fn moment_of<'a>(ctx: &EvalCtx, v: impl Into<ValueRef<'a>>) -> SqlResult<DateTime> {
    match v.into() {
        ValueRef::DateTime(d) => Ok(d),
        ValueRef::Date(d) => Ok(d.at_midnight()),
        v => {
            let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
            Ok(cast::to_datetime(ctx, v, flags)?.unwrap_or_default())
        }
    }
}

/// The duration; what is no time compares as zero (after its warning).
fn time_of(ctx: &EvalCtx, v: ValueRef<'_>) -> SqlResult<crate::temporal::Time> {
    match v {
        ValueRef::Time(t) => Ok(t),
        v => Ok(cast::to_time(ctx, v)?.unwrap_or_default()),
    }
}

/// Total order of two values of the same type: ORDER BY, MIN, MAX, DISTINCT. NULL first; ENUM and
/// SET by number.
#[inline]
pub fn sort_cmp<'a>(
    a: impl Into<ValueRef<'a>>,
    b: impl Into<ValueRef<'a>>,
    ty: &SqlType,
) -> Ordering {
    use ValueRef as V;
    match (a.into(), b.into()) {
        (V::Null, V::Null) => Ordering::Equal,
        (V::Null, _) => Ordering::Less,
        (_, V::Null) => Ordering::Greater,
        (V::Int(a), V::Int(b)) => a.cmp(&b),
        (V::UInt(a), V::UInt(b)) => a.cmp(&b),
        (V::Str(a), V::Str(b)) => ty.collation.compare(a, b),
        (V::Double(a), V::Double(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (V::Decimal(a), V::Decimal(b)) => a.cmp(&b),
        (V::Date(a), V::Date(b)) => a.cmp(&b),
        (V::Time(a), V::Time(b)) => a.cmp(&b),
        (V::DateTime(a), V::DateTime(b)) => a.cmp(&b),
        (V::Bit(a, _), V::Bit(b, _)) | (V::Label(a, _), V::Label(b, _)) => a.cmp(&b),
        (V::Json(a), V::Json(b)) => json::compare(JsonRef::new(a), JsonRef::new(b)),
        (a, b) => mixed_cmp(a, b, ty),
    }
}

/// Values whose variants differ though their type is one (a signed and an unsigned integer): by
/// number when both are numbers, else by text.
fn mixed_cmp(a: ValueRef<'_>, b: ValueRef<'_>, ty: &SqlType) -> Ordering {
    match (exact_number(a), exact_number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => ty.collation.compare(&to_str(a, ty), &to_str(b, ty)),
    }
}

fn exact_number(v: ValueRef<'_>) -> Option<Decimal> {
    match v {
        ValueRef::Int(n) => Some(Decimal::from(n)),
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => Some(Decimal::from(n)),
        ValueRef::Decimal(d) => Some(d),
        ValueRef::Double(d) => Some(Decimal::from_f64(d).0),
        _ => None,
    }
}

/// Spreads the bits of a number (the finaliser of splitmix64).
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Hash of a value of type `ty`: equal for values that [`sort_cmp`] calls equal. Not stable between
/// versions.
pub fn hash64<'a>(v: impl Into<ValueRef<'a>>, ty: &SqlType) -> u64 {
    /// Keeps NULL apart from 0.
    const NULL: u64 = 0x9e37_79b9_7f4a_7c15;
    match v.into() {
        ValueRef::Null => NULL,
        // A signed and an unsigned integer of the same value are equal.
        ValueRef::Int(n) => mix(n as u64),
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => mix(n),
        // 0.0 and -0.0 are equal.
        ValueRef::Double(d) => mix(if d == 0.0 { 0 } else { d.to_bits() }),
        ValueRef::Decimal(d) => mix(d.hash64()),
        ValueRef::Str(s) => ty.collation.hash64(s),
        ValueRef::Date(d) => mix(d.packed().into()),
        ValueRef::Time(t) => mix(t.packed()),
        ValueRef::DateTime(d) => mix(d.packed()),
        ValueRef::Json(doc) => json::hash64(JsonRef::new(doc)),
    }
}

#[cfg(test)]
mod tests;
