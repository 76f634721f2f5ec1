//! Implicit conversions to numbers, with MySQL's warnings.
//!
//! Neighbours: `arith`, `cmp`, every function that takes a number.
//! **Invariants**: NULL converts to 0 (callers ask for NULL first); a conversion that loses
//! something raises 1292 once (an error in strict writes, a warning elsewhere) and goes on with
//! what could be read.

use super::text::write_f64;
use super::truncated;
use crate::ctx::EvalCtx;
use crate::decimal::{Decimal, ParseStatus, is_space, numeric_prefix_len};
use crate::error::SqlResult;
use crate::json::{self, JsonRef};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::{DateTime, Time};
use crate::value::{Value, ValueRef};

/// What reading an integer met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntStatus {
    /// All of the text was an integer.
    Exact,
    /// An integer and then something else than spaces.
    Trailing,
    /// No digits.
    Bad,
    /// Beyond 64 bits: clamped.
    Overflow,
}

/// Reads the integer at the start of a text: between `i64::MIN` and `u64::MAX`.
pub fn parse_int(text: &[u8]) -> (i128, IntStatus) {
    let mut at = text.iter().take_while(|b| is_space(**b)).count();
    let neg = text.get(at) == Some(&b'-');
    at += usize::from(neg || text.get(at) == Some(&b'+'));
    let start = at;
    let mut v = 0u128;
    while let Some(b) = text.get(at).filter(|b| b.is_ascii_digit()) {
        v = v.saturating_mul(10).saturating_add(u128::from(b - b'0'));
        at += 1;
    }
    if at == start {
        return (0, IntStatus::Bad);
    }
    let limit = if neg {
        1u128 << 63
    } else {
        u128::from(u64::MAX)
    };
    if v > limit {
        let clamped = limit as i128;
        return (if neg { -clamped } else { clamped }, IntStatus::Overflow);
    }
    let v = v as i128;
    let exact = text[at..].iter().all(|b| is_space(*b));
    (
        if neg { -v } else { v },
        if exact {
            IntStatus::Exact
        } else {
            IntStatus::Trailing
        },
    )
}

/// Reads the number at the start of a text as a double. The second is false when something else
/// than spaces is left or the number was out of range (then clamped).
pub fn parse_f64(text: &[u8]) -> (f64, bool) {
    let len = numeric_prefix_len(text);
    let rest_blank = text[len..].iter().all(|b| is_space(*b));
    let skip = text[..len].iter().take_while(|b| is_space(**b)).count();
    let number = std::str::from_utf8(&text[skip..len]).unwrap_or("");
    if number.is_empty() {
        return (0.0, rest_blank);
    }
    let v: f64 = number.parse().unwrap_or(0.0);
    if v.is_infinite() {
        return (f64::MAX.copysign(v), false);
    }
    (v, rest_blank)
}

/// A double as an integer between `i64::MIN` and `i64::MAX`, rounded half to even; true when it
/// was clamped.
pub fn round_f64(v: f64) -> (i64, bool) {
    /// 2^63, the first double that is too large.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let r = v.round_ties_even();
    // A float cast clamps.
    (r as i64, !(-LIMIT..LIMIT).contains(&r))
}

/// YYYYMMDDhhmmss of the moment rounded to seconds.
pub(super) fn datetime_number(d: DateTime) -> i64 {
    d.round(0, false).unwrap_or(d).to_number()
}

/// hhmmss of the duration rounded to seconds.
pub(super) fn time_number(t: Time) -> i64 {
    t.round(0, false).0.to_number()
}

/// A number with microseconds behind the point, without trailing zeros.
fn with_micros(n: i64, micro: u32, neg: bool) -> Decimal {
    let magnitude = i128::from(n.unsigned_abs()) * 1_000_000 + i128::from(micro);
    Decimal::from_i128(if neg { -magnitude } else { magnitude }, 6).normalized()
}

/// The decimal that a temporal value is in numeric context; `None` for other values.
pub(super) fn temporal_decimal(v: ValueRef<'_>) -> Option<Decimal> {
    match v {
        ValueRef::Date(d) => Some(Decimal::from(d.to_number())),
        ValueRef::Time(t) => Some(with_micros(t.to_number(), t.microsecond(), t.is_negative())),
        ValueRef::DateTime(d) => Some(with_micros(d.to_number(), d.microsecond(), false)),
        _ => None,
    }
}

/// The integer value: what integer contexts see, between `i64::MIN` and `u64::MAX`.
#[inline]
pub fn to_int<'a>(ctx: &EvalCtx, v: impl Into<ValueRef<'a>>) -> SqlResult<i128> {
    match v.into() {
        ValueRef::Int(v) => Ok(v.into()),
        ValueRef::UInt(v) | ValueRef::Bit(v, _) | ValueRef::Label(v, _) => Ok(v.into()),
        v => other_to_int(ctx, v),
    }
}

fn other_to_int(ctx: &EvalCtx, v: ValueRef<'_>) -> SqlResult<i128> {
    Ok(match v {
        ValueRef::Double(d) => {
            let (n, clamped) = round_f64(d);
            if clamped {
                let mut text = Vec::new();
                write_f64(d, &mut text);
                truncated(ctx, "INTEGER", &text)?;
            }
            n.into()
        }
        ValueRef::Decimal(d) => {
            let (n, clamped) = d.to_i64();
            if clamped {
                decimal_beyond_i64(ctx, &d)?
            } else {
                n.into()
            }
        }
        ValueRef::Str(s) => {
            let (n, status) = parse_int(s);
            if status != IntStatus::Exact {
                truncated(ctx, "INTEGER", s)?;
            }
            n
        }
        ValueRef::Json(doc) => json::convert::to_int(ctx, JsonRef::new(doc), "")?,
        ValueRef::Date(d) => d.to_number().into(),
        ValueRef::Time(t) => time_number(t).into(),
        ValueRef::DateTime(d) => datetime_number(d).into(),
        _ => 0,
    })
}

/// A decimal that no BIGINT holds: signed clamping, with a warning.
fn decimal_beyond_i64(ctx: &EvalCtx, d: &Decimal) -> SqlResult<i128> {
    truncated(ctx, "DECIMAL", d.to_string().as_bytes())?;
    Ok(d.to_i64().0.into())
}

/// The integer value, clamped to BIGINT (unsigned values beyond it give its maximum).
#[inline]
pub fn to_i64<'a>(ctx: &EvalCtx, v: impl Into<ValueRef<'a>>) -> SqlResult<i64> {
    let n = to_int(ctx, v)?;
    Ok(i64::try_from(n).unwrap_or(i64::MAX))
}

/// The integer value as 64 bits: negative values wrap (bit operations, unsigned contexts).
#[inline]
pub fn to_u64<'a>(ctx: &EvalCtx, v: impl Into<ValueRef<'a>>) -> SqlResult<u64> {
    Ok(to_int(ctx, v)? as u64)
}

/// The double value.
#[inline]
pub fn to_f64<'a>(ctx: &EvalCtx, v: impl Into<ValueRef<'a>>) -> SqlResult<f64> {
    Ok(match v.into() {
        ValueRef::Double(d) => d,
        ValueRef::Int(n) => n as f64,
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => n as f64,
        ValueRef::Decimal(d) => d.to_f64(),
        ValueRef::Str(s) => {
            let (d, clean) = parse_f64(s);
            if !clean {
                truncated(ctx, "DOUBLE", s)?;
            }
            d
        }
        ValueRef::Json(doc) => json::convert::to_f64(ctx, JsonRef::new(doc), "")?,
        v => temporal_decimal(v).map_or(0.0, |d| d.to_f64()),
    })
}

/// The decimal value.
pub fn to_decimal<'a>(ctx: &EvalCtx, v: impl Into<ValueRef<'a>>) -> SqlResult<Decimal> {
    Ok(match v.into() {
        ValueRef::Decimal(d) => d,
        ValueRef::Int(n) => Decimal::from(n),
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => Decimal::from(n),
        ValueRef::Double(v) => {
            let (d, clamped) = Decimal::from_f64(v);
            if clamped {
                let mut text = Vec::new();
                write_f64(v, &mut text);
                truncated(ctx, "DECIMAL", &text)?;
            }
            d
        }
        ValueRef::Str(s) => {
            let (d, status) = Decimal::parse(s);
            if !matches!(status, ParseStatus::Exact | ParseStatus::Cut) {
                truncated(ctx, "DECIMAL", s)?;
            }
            d
        }
        ValueRef::Json(doc) => json::convert::to_decimal(ctx, JsonRef::new(doc), "")?,
        v => temporal_decimal(v).unwrap_or_default(),
    })
}

/// How a text is read where a number is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextNumber {
    /// What is behind the number is told of (1292).
    Loud,
    /// Nothing is told, but where a DECIMAL is wanted and there is none (1366).
    Silent,
    /// It is a temporal value: `2020-01-01 10:11:12` is 20200101101112.
    Moment,
}

/// A value as the number of type `to`: a DOUBLE, a BIGINT or a DECIMAL. Other values than texts are told of as ever.
pub fn to_number(ctx: &EvalCtx, v: &Value, how: TextNumber, to: &SqlType) -> SqlResult<Value> {
    let digits;
    let text = match (v, how) {
        (Value::Null, _) => return Ok(Value::Null),
        (Value::Str(text), TextNumber::Silent) => text.as_slice(),
        (Value::Str(text), TextNumber::Moment) => {
            digits = moment_digits(text);
            digits.as_slice()
        }
        _ => return loud_number(ctx, v, to),
    };
    Ok(match &to.kind {
        TypeKind::Double => Value::Double(parse_f64(text).0),
        TypeKind::Decimal => {
            let (number, status) = Decimal::parse(text);
            if status == ParseStatus::Bad {
                let text = "Incorrect DECIMAL value: '0' for column '' at row -1";
                ctx.raise(1366, "HY000", text)?;
            }
            Value::Decimal(number)
        }
        // A fraction of a second rounds the number, not the temporal value.
        _ if how == TextNumber::Moment => {
            integer(i128::from(Decimal::parse(text).0.to_i64().0), to)
        }
        _ => integer(parse_int(text).0, to),
    })
}

fn loud_number(ctx: &EvalCtx, v: &Value, to: &SqlType) -> SqlResult<Value> {
    Ok(match &to.kind {
        TypeKind::Double => Value::Double(to_f64(ctx, v)?),
        TypeKind::Decimal => Value::Decimal(to_decimal(ctx, v)?),
        _ => integer(to_int(ctx, v)?, to),
    })
}

/// 64 bits, or a BIGINT that is clamped.
fn integer(n: i128, to: &SqlType) -> Value {
    match to.unsigned {
        true => Value::UInt(n as u64),
        false => Value::Int(i64::try_from(n).unwrap_or(i64::MAX)),
    }
}

/// The digits of a date or time that is written out, with sign and point.
fn moment_digits(text: &[u8]) -> Vec<u8> {
    let is_part = |(at, b): &(usize, &u8)| match b {
        b'-' => *at == 0,
        b => b.is_ascii_digit() || **b == b'.',
    };
    let parts = text.iter().enumerate().filter(is_part);
    parts.map(|(_, b)| *b).collect()
}

/// Is the value true? (NULL is not.)
#[inline]
pub fn to_bool<'a>(ctx: &EvalCtx, v: impl Into<ValueRef<'a>>) -> SqlResult<bool> {
    Ok(match v.into() {
        ValueRef::Null => false,
        ValueRef::Int(n) => n != 0,
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => n != 0,
        ValueRef::Double(d) => d != 0.0,
        ValueRef::Decimal(d) => !d.is_zero(),
        ValueRef::Date(d) => !d.is_zero(),
        ValueRef::Time(t) => t != Time::ZERO,
        ValueRef::DateTime(d) => !d.is_zero(),
        v @ (ValueRef::Str(_) | ValueRef::Json(_)) => to_f64(ctx, v)? != 0.0,
    })
}

/// The number that the bytes of a hexadecimal or bit literal are in numeric context (`None` beyond
/// eight bytes).
pub fn literal_bytes_to_u64(bytes: &[u8]) -> Option<u64> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let bytes = &bytes[zeros..];
    (bytes.len() <= 8).then(|| bytes.iter().fold(0, |v, b| v << 8 | u64::from(*b)))
}
