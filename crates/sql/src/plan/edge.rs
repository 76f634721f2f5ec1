//! Where a compared value lies among the values a column can hold.
//!
//! Neighbours: `ranges` turns the answer into key bounds.
//! **Invariants**: `usable` and `locate` together never lose a row: an access path made from them
//! has every row for which the comparison, made in its own domain, is true; when the domains order
//! values differently the answer is [`Edge::Anywhere`].

use esker_types::cmp::CmpKind;
use esker_types::temporal::DateFlags;
use esker_types::{Decimal, EvalCtx, SqlResult, SqlType, TypeKind, Value, ValueRef, cast};

use crate::expr::Expr;

/// The place of a value in a column's domain.
#[derive(Debug, Clone)]
pub(crate) enum Edge {
    /// It is this value of the column's type.
    At(Value),
    /// It lies strictly after this value and before the next one.
    JustAfter(Value),
    /// Before every value.
    BeforeAll,
    /// After every value.
    AfterAll,
    /// NULL.
    Null,
    /// The column's order does not tell.
    Anywhere,
}

/// Integers that doubles hold exactly.
const EXACT_DOUBLE: f64 = 9_007_199_254_740_992.0;

/// May a comparison of the column with this expression, made in `kind`, use the column's order?
pub(crate) fn usable(column: &SqlType, value: &Expr, kind: CmpKind) -> bool {
    match (&column.kind, kind) {
        (TypeKind::Set(_) | TypeKind::Null | TypeKind::Json, _) | (_, CmpKind::Json) => false,
        (TypeKind::Enum(_), CmpKind::Str(_)) => value.ty.is_string(),
        (_, CmpKind::Str(collation)) => {
            column.is_string()
                && value.ty.is_string()
                && collation == column.collation
                && collation.same_bytes(value.ty.collation)
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
        TypeKind::Double => ty.is_numeric(),
        TypeKind::Float => ty.kind == TypeKind::Float,
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp => {
            ty.is_temporal() && ty.kind != TypeKind::Time
        }
        TypeKind::Time => ty.kind == TypeKind::Time,
        _ if column.is_string() => ty.is_string(),
        _ => ty.is_integer() || matches!(ty.kind, TypeKind::Decimal | TypeKind::Bit),
    }
}

/// Finds the place of `value`.
pub(crate) fn locate(ctx: &EvalCtx<'_>, value: &Value, column: &SqlType) -> SqlResult<Edge> {
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
        | TypeKind::Bit => in_integers(ctx, value, column)?,
        TypeKind::Decimal => in_decimals(value, column),
        TypeKind::Float | TypeKind::Double => in_doubles(ctx, value, column)?,
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp => {
            in_moments(ctx, value, column)?
        }
        TypeKind::Time => match cast::to_time(ctx, value)? {
            Some(time) => at_fraction(time.micros(), column.decimals, |micros| {
                esker_types::Time::from_micros(micros).map(Value::Time)
            }),
            None => Edge::Anywhere,
        },
        TypeKind::Enum(labels) => match value {
            Value::Str(text) => {
                let same = |l: &std::sync::Arc<str>| column.collation.eq(l.as_bytes(), text);
                match labels.iter().position(same) {
                    Some(nth) => Edge::At(Value::Label(nth as u64 + 1, text.as_slice().into())),
                    None => Edge::Anywhere,
                }
            }
            _ => Edge::Anywhere,
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
        _ => 64,
    };
    match column.unsigned {
        true => (0, (1i128 << bits) - 1),
        false => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
    }
}

fn in_integers(ctx: &EvalCtx<'_>, value: &Value, column: &SqlType) -> SqlResult<Edge> {
    let (floor, exact) = match value {
        Value::Int(v) => (i128::from(*v), true),
        Value::UInt(v) | Value::Bit(v, _) => (i128::from(*v), true),
        Value::Decimal(d) => match floor_decimal(d) {
            Some(found) => found,
            None => return Ok(Edge::Anywhere),
        },
        other => {
            let v = cast::to_f64(ctx, other)?;
            // Beyond, several integers compare equal to one double.
            if v.is_nan() || v.abs() >= EXACT_DOUBLE {
                return Ok(Edge::Anywhere);
            }
            (v.floor() as i128, v.fract() == 0.0)
        }
    };
    let (min, max) = integer_limits(column);
    if floor < min {
        return Ok(Edge::BeforeAll);
    }
    if floor > max {
        return Ok(Edge::AfterAll);
    }
    let value = match column.kind {
        TypeKind::Bit => Value::Bit(floor as u64, column.length as u8),
        _ if column.unsigned && column.kind != TypeKind::Year => Value::UInt(floor as u64),
        _ => Value::Int(floor as i64),
    };
    Ok(if exact {
        Edge::At(value)
    } else {
        Edge::JustAfter(value)
    })
}

/// Largest integer not above a decimal, and whether it is the decimal.
fn floor_decimal(d: &Decimal) -> Option<(i128, bool)> {
    let floor = d.floor().ok()?;
    let unscaled = floor.round(0).ok()?.unscaled_i128()?;
    Some((unscaled, floor == *d))
}

fn in_decimals(value: &Value, column: &SqlType) -> Edge {
    let d = match value {
        Value::Decimal(d) => *d,
        Value::Int(v) => Decimal::from_i64(*v),
        Value::UInt(v) => Decimal::from_u64(*v),
        // Compared as doubles: several decimals equal one double.
        _ => return Edge::Anywhere,
    };
    let scale = column.decimals;
    let Ok(cut) = d.truncate(scale) else {
        return Edge::Anywhere;
    };
    if !cut.fits(column.length, scale) {
        return if d.is_negative() {
            Edge::BeforeAll
        } else {
            Edge::AfterAll
        };
    }
    if cut == d {
        return Edge::At(Value::Decimal(cut));
    }
    if !d.is_negative() {
        return Edge::JustAfter(Value::Decimal(cut));
    }
    // Truncation went up: the value before is one unit lower.
    let unit = Decimal::from_i128(1, scale);
    match cut.sub(&unit) {
        Ok(lower) if lower.fits(column.length, scale) => Edge::JustAfter(Value::Decimal(lower)),
        _ => Edge::BeforeAll,
    }
}

fn in_doubles(ctx: &EvalCtx<'_>, value: &Value, column: &SqlType) -> SqlResult<Edge> {
    let v = cast::to_f64(ctx, value)?;
    if column.kind == TypeKind::Float && f64::from(v as f32) != v {
        return Ok(Edge::Anywhere);
    }
    Ok(if v.is_nan() {
        Edge::Anywhere
    } else {
        Edge::At(Value::Double(v))
    })
}

fn in_moments(ctx: &EvalCtx<'_>, value: &Value, column: &SqlType) -> SqlResult<Edge> {
    let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
    let datetime = match value {
        Value::DateTime(d) => *d,
        Value::Date(d) => d.at_midnight(),
        other => match cast::to_datetime(ctx, ValueRef::from(other), flags)? {
            Some(d) => d,
            None => return Ok(Edge::Anywhere),
        },
    };
    if column.kind == TypeKind::Date {
        let date = datetime.date();
        let value = Value::Date(date);
        return Ok(match date.at_midnight() == datetime {
            true => Edge::At(value),
            false => Edge::JustAfter(value),
        });
    }
    let unit = fraction_unit(column.decimals);
    let rest = i64::from(datetime.microsecond()) % unit;
    if rest == 0 {
        return Ok(Edge::At(Value::DateTime(datetime)));
    }
    // The column cannot hold the digits: the datetime before is made by cutting them.
    let cut = datetime.with_microsecond(datetime.microsecond() - rest as u32);
    Ok(Edge::JustAfter(Value::DateTime(cut)))
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
