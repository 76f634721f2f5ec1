//! Where a compared value lies among the values a column can hold.
//!
//! Neighbours: `ranges` turns the answer into key bounds.
//! **Invariants**: `usable` and `locate` together never lose a row: an access path made from them
//! has every row for which the comparison, made in its own domain, is true; when the domains order
//! values differently the answer is [`Edge::Anywhere`].

use std::sync::Arc;

use esker_types::cmp::CmpKind;
use esker_types::collation::Collation;
use esker_types::temporal::DateFlags;
use esker_types::temporal::calendar::days_in_month;
use esker_types::{
    Date, DateTime, Decimal, EvalCtx, SqlResult, SqlType, TypeKind, Value, ValueRef, cast,
};

use crate::expr::Expr;

/// The place of a value in a column's domain.
#[derive(Debug, Clone)]
pub enum Edge {
    /// It is this value of the column's type.
    At(Value),
    /// It lies strictly after this value and before the next one.
    JustAfter(Value),
    /// Before every value.
    BeforeAll,
    /// After every value.
    AfterAll,
    /// Every value of the column that compares equal to it lies between these two, both included;
    /// without one, between the other and the end of the column's values.
    Near(Option<Value>, Option<Value>),
    /// NULL.
    Null,
    /// The column's order does not tell.
    Anywhere,
}

/// Bits of the integers that doubles hold exactly (C's `DBL_MANT_DIG`).
const DOUBLE_BITS: u32 = 53;

/// Integers that doubles hold exactly.
const EXACT_DOUBLE: f64 = 9_007_199_254_740_992.0;

/// Decimals of at most so many digits are told apart by their nearest doubles (C's `DBL_DIG`).
const DOUBLE_DIGITS: u32 = 15;

/// May a comparison of the column with this expression, made in `kind`, use the column's order?
pub(crate) fn usable(column: &SqlType, value: &Expr, kind: CmpKind) -> bool {
    let is_null = value.ty.kind == TypeKind::Null;
    match (&column.kind, kind) {
        (TypeKind::Null | TypeKind::Json, _) | (_, CmpKind::Json) => false,
        // Their labels are told apart by the column's collation.
        (TypeKind::Enum(_) | TypeKind::Set(_), CmpKind::Str(collation)) => {
            is_null || value.ty.is_string() && collation == column.collation
        }
        // As numbers their values are those of the labels, which is their order.
        (
            TypeKind::Enum(_) | TypeKind::Set(_),
            CmpKind::Int | CmpKind::Decimal | CmpKind::Double,
        ) => value.ty.is_numeric(),
        (_, CmpKind::Str(collation)) => {
            let collates =
                collation == column.collation && collation.same_bytes(value.ty.collation);
            column.is_string() && (is_null || value.ty.is_string() && collates)
        }
        (_, CmpKind::Time) => column.kind == TypeKind::Time,
        (_, CmpKind::DateTime) => {
            matches!(
                column.kind,
                TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp
            )
        }
        (_, CmpKind::Int | CmpKind::Decimal | CmpKind::Double) => column.is_numeric(),
    }
}

/// Does [`locate`] find every value of the expression, never answering [`Edge::Anywhere`]?
pub(crate) fn always_located(column: &SqlType, value: &Expr) -> bool {
    let ty = &value.ty;
    match &column.kind {
        TypeKind::Null | TypeKind::Enum(_) | TypeKind::Set(_) | TypeKind::Json => false,
        TypeKind::Decimal => ty.is_integer() || ty.kind == TypeKind::Decimal,
        TypeKind::Double | TypeKind::Float => ty.is_numeric(),
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp => {
            ty.is_temporal() && ty.kind != TypeKind::Time
        }
        TypeKind::Time => ty.kind == TypeKind::Time,
        _ if column.is_string() => ty.is_string(),
        _ => ty.is_integer() || matches!(ty.kind, TypeKind::Decimal | TypeKind::Bit),
    }
}

/// Does at most one value of the column equal any one value, compared in `kind`?
pub(crate) fn tells_apart(column: &SqlType, kind: CmpKind) -> bool {
    match (&column.kind, kind) {
        (TypeKind::Enum(labels) | TypeKind::Set(labels), CmpKind::Str(collation)) => {
            // What has no label has an empty text.
            !labels
                .iter()
                .any(|label| collation.eq(label.as_bytes(), b""))
        }
        (TypeKind::Set(labels), CmpKind::Double) => labels.len() <= DOUBLE_BITS as usize,
        (TypeKind::Bit, CmpKind::Double) => column.length <= DOUBLE_BITS,
        (TypeKind::BigInt, CmpKind::Double) => false,
        (TypeKind::Decimal, CmpKind::Double) => column.length <= DOUBLE_DIGITS,
        _ => true,
    }
}

/// Finds the place of `value` in a comparison made in `kind`.
pub(crate) fn locate(
    ctx: &EvalCtx<'_>,
    value: &Value,
    column: &SqlType,
    kind: CmpKind,
) -> SqlResult<Edge> {
    if value.is_null() {
        return Ok(Edge::Null);
    }
    Ok(match &column.kind {
        TypeKind::TinyInt
        | TypeKind::SmallInt
        | TypeKind::MediumInt
        | TypeKind::Int
        | TypeKind::BigInt
        | TypeKind::Year
        | TypeKind::Bit => in_integers(ctx, value, column, kind)?,
        TypeKind::Decimal => in_decimals(ctx, value, column, kind)?,
        TypeKind::Float => in_floats(cast::to_f64(ctx, value)?),
        TypeKind::Double => match cast::to_f64(ctx, value)? {
            v if v.is_nan() => Edge::Anywhere,
            v => Edge::At(Value::Double(v)),
        },
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp => {
            in_moments(ctx, value, column)?
        }
        TypeKind::Time => {
            // What is no time compares as zero.
            let time = cast::to_time(ctx, value)?.unwrap_or_default();
            at_fraction(time.micros(), column.decimals, |micros| {
                esker_types::Time::from_micros(micros).map(Value::Time)
            })
        }
        TypeKind::Enum(labels) => match (value, kind) {
            (Value::Str(text), CmpKind::Str(_)) => in_texts(text, labels, column.collation),
            (_, CmpKind::Str(_)) => Edge::Anywhere,
            _ => in_labels(cast::to_f64(ctx, value)?, labels.len()),
        },
        TypeKind::Set(labels) => match (value, kind) {
            (Value::Str(text), CmpKind::Str(_)) => in_sets(text, labels, column.collation),
            (_, CmpKind::Str(_)) => Edge::Anywhere,
            _ => in_integers(ctx, value, column, kind)?,
        },
        _ if column.is_string() => match value {
            Value::Str(_) => Edge::At(value.clone()),
            _ => Edge::Anywhere,
        },
        _ => Edge::Anywhere,
    })
}

/// Smallest and largest value of an integer column.
fn integer_limits(column: &SqlType) -> (i128, i128) {
    let bits = match column.kind {
        TypeKind::TinyInt => 8,
        TypeKind::SmallInt => 16,
        TypeKind::MediumInt => 24,
        TypeKind::Int => 32,
        TypeKind::Year => return (0, 2155),
        TypeKind::Bit => return (0, (1i128 << column.length.clamp(1, 64)) - 1),
        TypeKind::Set(ref labels) => return (0, (1i128 << labels.len().min(64)) - 1),
        _ => 64,
    };
    match column.unsigned {
        true => (0, (1i128 << bits) - 1),
        false => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
    }
}

fn in_integers(
    ctx: &EvalCtx<'_>,
    value: &Value,
    column: &SqlType,
    kind: CmpKind,
) -> SqlResult<Edge> {
    let (min, max) = integer_limits(column);
    let make = |v: i128| integer_value(v, column);
    let (floor, exact) = match value {
        Value::Int(v) if kind != CmpKind::Double => (i128::from(*v), true),
        Value::UInt(v) | Value::Bit(v, _) if kind != CmpKind::Double => (i128::from(*v), true),
        Value::Decimal(d) if kind != CmpKind::Double => match floor_decimal(d) {
            Some(found) => found,
            None => return Ok(Edge::Anywhere),
        },
        other => {
            let v = cast::to_f64(ctx, other)?;
            if v.is_nan() {
                return Ok(Edge::Anywhere);
            }
            if v.abs() >= EXACT_DOUBLE {
                // Several integers compare equal to one double; what lies beyond the doubles beside it
                // does not.
                let (low, high) = (v.next_down().floor() as i128, v.next_up().ceil() as i128);
                return Ok(match (low > max, high < min) {
                    (true, _) => Edge::AfterAll,
                    (_, true) => Edge::BeforeAll,
                    _ => Edge::Near(
                        (low >= min).then(|| make(low)),
                        (high <= max).then(|| make(high)),
                    ),
                });
            }
            (v.floor() as i128, v.fract() == 0.0)
        }
    };
    Ok(integer_edge(floor, exact, column))
}

/// A value of an integer column.
fn integer_value(v: i128, column: &SqlType) -> Value {
    match column.kind {
        TypeKind::Bit => Value::Bit(v as u64, column.length as u8),
        TypeKind::Set(_) => Value::Label(v as u64, Box::default()),
        _ if column.unsigned && column.kind != TypeKind::Year => Value::UInt(v as u64),
        _ => Value::Int(v as i64),
    }
}

/// Where a number lies among integers: at this one (`exact`), or after it and before the next.
pub(super) fn integer_edge(floor: i128, exact: bool, column: &SqlType) -> Edge {
    let (min, max) = integer_limits(column);
    match exact {
        _ if floor < min => Edge::BeforeAll,
        _ if floor > max => Edge::AfterAll,
        true => Edge::At(integer_value(floor, column)),
        false => Edge::JustAfter(integer_value(floor, column)),
    }
}

/// Largest integer not above a decimal, and whether it is the decimal.
pub(super) fn floor_decimal(d: &Decimal) -> Option<(i128, bool)> {
    let floor = d.floor().ok()?;
    let unscaled = floor.round(0).ok()?.unscaled_i128()?;
    Some((unscaled, floor == *d))
}

fn in_decimals(
    ctx: &EvalCtx<'_>,
    value: &Value,
    column: &SqlType,
    kind: CmpKind,
) -> SqlResult<Edge> {
    if kind != CmpKind::Double {
        return Ok(decimal_edge(&cast::to_decimal(ctx, value)?, column));
    }
    let v = cast::to_f64(ctx, value)?;
    if v.is_nan() {
        return Ok(Edge::Anywhere);
    }
    // The decimal that a double prints is the only one of so few digits that is nearest to it.
    if column.length <= DOUBLE_DIGITS
        && let (d, false) = Decimal::from_f64(v)
    {
        return Ok(decimal_edge(&d, column));
    }
    // Several decimals compare equal to one double; what lies beyond the doubles beside it does not.
    let low = decimal_bound(v.next_down(), column, floor_to);
    let high = decimal_bound(v.next_up(), column, ceil_to);
    Ok(match (low, high) {
        (Bound::AboveAll, _) => Edge::AfterAll,
        (_, Bound::BelowAll) => Edge::BeforeAll,
        (low, high) => Edge::Near(low.value(), high.value()),
    })
}

/// Where an exact number lies among the values of a DECIMAL column.
pub(super) fn decimal_edge(d: &Decimal, column: &SqlType) -> Edge {
    let Some(floor) = floor_to(d, column.decimals) else {
        return Edge::Anywhere;
    };
    match decimal_value(floor, column) {
        Bound::BelowAll => Edge::BeforeAll,
        Bound::AboveAll => Edge::AfterAll,
        Bound::Value(v) if floor == *d => Edge::At(v),
        Bound::Value(v) => Edge::JustAfter(v),
    }
}

/// A decimal beside the values of a DECIMAL column.
enum Bound {
    BelowAll,
    Value(Value),
    AboveAll,
}

impl Bound {
    fn value(self) -> Option<Value> {
        match self {
            Bound::Value(v) => Some(v),
            Bound::BelowAll | Bound::AboveAll => None,
        }
    }
}

fn decimal_value(d: Decimal, column: &SqlType) -> Bound {
    match d.fits(column.length, column.decimals) {
        true => Bound::Value(Value::Decimal(d)),
        false if d.is_negative() => Bound::BelowAll,
        false => Bound::AboveAll,
    }
}

/// A double as a bound among the values of a DECIMAL column, rounded by `round`.
fn decimal_bound(v: f64, column: &SqlType, round: fn(&Decimal, u8) -> Option<Decimal>) -> Bound {
    match Decimal::from_f64(v) {
        (d, false) => match round(&d, column.decimals) {
            Some(rounded) => decimal_value(rounded, column),
            None if d.is_negative() => Bound::BelowAll,
            None => Bound::AboveAll,
        },
        (d, true) if d.is_negative() => Bound::BelowAll,
        (_, true) => Bound::AboveAll,
    }
}

/// The largest decimal with `scale` that is not above `d`; `None` where there are no such digits.
fn floor_to(d: &Decimal, scale: u8) -> Option<Decimal> {
    let cut = d.truncate(scale).ok()?;
    if cut == *d || !d.is_negative() {
        return Some(cut);
    }
    // Truncation went up.
    cut.sub(&Decimal::from_i128(1, scale)).ok()
}

/// The smallest decimal with `scale` that is not below `d`; `None` where there are no such digits.
fn ceil_to(d: &Decimal, scale: u8) -> Option<Decimal> {
    floor_to(&d.negate(), scale).map(Decimal::negate)
}

/// Where a number lies among those of an ENUM's labels: from 1 on, and 0 for what was no label.
fn in_labels(v: f64, labels: usize) -> Edge {
    match v.floor() {
        _ if v.is_nan() => Edge::Anywhere,
        floor if floor < 0.0 => Edge::BeforeAll,
        floor if floor > labels as f64 => Edge::AfterAll,
        floor => {
            let label = Value::Label(floor as u64, Default::default());
            match floor == v {
                true => Edge::At(label),
                false => Edge::JustAfter(label),
            }
        }
    }
}

/// Which of an ENUM's values has this text; those that were no label have none. Only equality asks.
fn in_texts(text: &[u8], labels: &[Arc<str>], collation: Collation) -> Edge {
    let is_same = |label: &Arc<str>| collation.eq(label.as_bytes(), text);
    match labels.iter().position(is_same) {
        Some(_) if collation.eq(text, b"") => Edge::Anywhere,
        Some(nth) => Edge::At(Value::Label(nth as u64 + 1, text.into())),
        None if collation.eq(text, b"") => Edge::At(Value::Label(0, Box::default())),
        None => Edge::AfterAll,
    }
}

/// Which of a SET's values has this text: its labels in their order, and nothing for none of them. Only equality asks.
fn in_sets(text: &[u8], labels: &[Arc<str>], collation: Collation) -> Edge {
    let is_empty = |text: &[u8]| collation.eq(text, b"");
    match is_empty(text) {
        // A value of that label has the same text as the one without labels.
        _ if labels.iter().any(|label| is_empty(label.as_bytes())) => return Edge::Anywhere,
        true => return Edge::At(Value::Label(0, Box::default())),
        false => {}
    }
    let (mut bits, mut next) = (0_u64, 0);
    for part in text.split(|b| *b == b',') {
        let rest = labels.iter().enumerate().skip(next);
        let mut found = rest.filter(|(_, label)| collation.eq(label.as_bytes(), part));
        let Some((nth, _)) = found.next() else {
            // Beyond ASCII there are letters that may be equal to a comma.
            return match text.is_ascii() && labels.iter().all(|label| label.is_ascii()) {
                true => Edge::AfterAll,
                false => Edge::Anywhere,
            };
        };
        bits |= 1 << nth;
        next = nth + 1;
    }
    Edge::At(Value::Label(bits, Box::default()))
}

/// Where a double lies among the values of a FLOAT column, which are doubles, too, when compared.
pub(super) fn in_floats(v: f64) -> Edge {
    if v.is_nan() {
        return Edge::Anywhere;
    }
    let nearest = v as f32;
    let floor = match f64::from(nearest) > v {
        true => nearest.next_down(),
        false => nearest,
    };
    match f64::from(floor) {
        f if f == f64::NEG_INFINITY => Edge::BeforeAll,
        f if f == v => Edge::At(Value::Double(v)),
        _ if floor == f32::MAX => Edge::AfterAll,
        f => Edge::JustAfter(Value::Double(f)),
    }
}

fn in_moments(ctx: &EvalCtx<'_>, value: &Value, column: &SqlType) -> SqlResult<Edge> {
    let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
    let datetime = match value {
        Value::DateTime(d) => *d,
        Value::Date(d) => d.at_midnight(),
        // What is no date compares as zero.
        other => cast::to_datetime(ctx, ValueRef::from(other), flags)?.unwrap_or_default(),
    };
    if column.kind == TypeKind::Timestamp
        && let Some(edge) = beside_timestamps(ctx, datetime)
    {
        return Ok(edge);
    }
    Ok(moment_edge(datetime, column))
}

/// Where a moment lies among the values of a DATE, DATETIME or TIMESTAMP column; of the last, one that it can hold.
pub(super) fn moment_edge(datetime: DateTime, column: &SqlType) -> Edge {
    if column.kind == TypeKind::Date {
        let date = datetime.date();
        let value = Value::Date(date);
        return match date.at_midnight() == datetime {
            true => Edge::At(value),
            false => Edge::JustAfter(value),
        };
    }
    let unit = fraction_unit(column.decimals);
    let rest = i64::from(datetime.microsecond()) % unit;
    if rest == 0 {
        return Edge::At(Value::DateTime(datetime));
    }
    // The column cannot hold the digits: the datetime before is made by cutting them.
    let cut = datetime.with_microsecond(datetime.microsecond() - rest as u32);
    Edge::JustAfter(Value::DateTime(cut))
}

/// Where a datetime that no TIMESTAMP holds lies among them: before 1970, after 2038, or a day that is none. Keys are
/// instants, so it has none of its own.
fn beside_timestamps(ctx: &EvalCtx<'_>, datetime: DateTime) -> Option<Edge> {
    /// Any year between the first and the last that TIMESTAMP holds.
    const MIDDLE: u32 = 2000;
    let zone = &ctx.time_zone;
    if datetime.to_timestamp(zone).is_some() {
        return None;
    }
    let last = match datetime.date().is_calendar_day() {
        true => Some(datetime),
        false => end_of_day_before(datetime.date()),
    };
    Some(
        match last.filter(|last| last.to_timestamp(zone).is_some()) {
            Some(last) => Edge::JustAfter(Value::DateTime(last)),
            None if datetime.date().year() < MIDDLE => {
                Edge::JustAfter(Value::DateTime(DateTime::ZERO))
            }
            None => Edge::AfterAll,
        },
    )
}

/// The last moment before a day that is not in the calendar.
fn end_of_day_before(day: Date) -> Option<DateTime> {
    let (year, month) = match (day.month(), day.day()) {
        (0, _) | (1, 0) => (day.year().checked_sub(1)?, 12),
        (month, 0) => (day.year(), month - 1),
        (month, _) => (day.year(), month),
    };
    let date = Date::new(year, month, days_in_month(year, month))?;
    DateTime::new(date, 23, 59, 59, 999_999)
}

/// Microseconds of the last fractional digit.
fn fraction_unit(digits: u8) -> i64 {
    10i64.pow(6 - u32::from(digits.min(6)))
}

fn at_fraction(micros: i64, digits: u8, make: impl Fn(i64) -> Option<Value>) -> Edge {
    let unit = fraction_unit(digits);
    let floor = micros.div_euclid(unit) * unit;
    match make(floor) {
        Some(v) if floor == micros => Edge::At(v),
        Some(v) => Edge::JustAfter(v),
        None => Edge::Anywhere,
    }
}
