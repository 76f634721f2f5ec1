//! Parameters of prepared statements where a function takes a temporal value: they are DATETIME(6) or TIME(6), as
//! MySQL's preparation makes them, so that the result has six digits of a second whatever the value has.
//!
//! Neighbours: `call` asks for the arguments of every function; `literal` makes the parameter's value a constant.
//! **Invariant**: a value that names no temporal value stays what it is, and is judged when the function is computed.

use esker_sql_syntax::ast;
use esker_types::temporal::{DateFlags, MAX_FSP, parse_time};
use esker_types::{Date, SqlResult, SqlType, Time, TypeKind, Value, cast, cmp, func};

use super::{BindEnv, Params};
use crate::expr::{Expr, ExprKind};

/// What a function makes of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// DATETIME(6).
    Moment,
    /// TIME(6), or DATETIME(6) of a text with a date.
    Time,
    /// TIME(6), whatever it is.
    Duration,
    /// A number of seconds with six digits.
    Seconds,
}

/// What the argument `nth` (from 0) of a function is, if it is a parameter.
fn needs(function: &str, nth: usize) -> Option<Needs> {
    let starts = |prefix: &str| function.starts_with(prefix);
    match (function, nth) {
        ("unix_timestamp" | "timestamp" | "convert_tz", 0) => Some(Needs::Moment),
        (_, 0) if starts("date_add_") || starts("date_sub_") => Some(Needs::Moment),
        (_, 1) if starts("timestampadd_") => Some(Needs::Moment),
        ("timestamp", 1) | ("timediff", _) => Some(Needs::Time),
        ("addtime" | "subtime", _) => Some(Needs::Duration),
        ("from_unixtime" | "sec_to_time", 0) => Some(Needs::Seconds),
        _ => None,
    }
}

/// Does the function add whole days? A DATE stays one then.
fn has_date_unit(function: &str) -> bool {
    const UNITS: [&str; 6] = ["day", "week", "month", "quarter", "year", "year_month"];
    let unit = function
        .strip_prefix("date_add_")
        .or_else(|| function.strip_prefix("date_sub_"));
    unit.is_some_and(|unit| UNITS.contains(&unit))
}

/// Makes temporal values of the parameters among a function's arguments, written `args`, that are some.
pub(super) fn take_as_moments(
    env: &BindEnv<'_>,
    function: &str,
    args: &[ast::Expr],
    bound: &mut [Expr],
) {
    // Variables of stored programs have types of their own.
    if matches!(env.params, Params::Typed(..)) {
        return;
    }
    let is_first = matches!(args.first(), Some(ast::Expr::Param(_)));
    for (nth, (arg, bound)) in args.iter().zip(bound).enumerate() {
        let (ast::Expr::Param(_), ExprKind::Const(value)) = (arg, &bound.kind) else {
            continue;
        };
        let stays_date = matches!(value, Value::Date(_)) && has_date_unit(function);
        // The second takes its type from the first, if that has one.
        let needs = needs(function, nth)
            .filter(|needs| !stays_date && (*needs != Needs::Duration || is_first));
        if let Some((value, ty)) = needs.and_then(|needs| typed(env, needs, value)) {
            *bound = Expr::constant(value, ty);
        }
    }
}

/// Makes a temporal value of the parameter of CAST to DATE, TIME or DATETIME, if it is one.
pub(super) fn cast_as_moment(env: &BindEnv<'_>, arg: &ast::Expr, bound: &mut Expr, ty: &SqlType) {
    let is_moment = matches!(
        ty.kind,
        TypeKind::Date | TypeKind::Time | TypeKind::DateTime
    );
    let (ast::Expr::Param(_), ExprKind::Const(value)) = (arg, &bound.kind) else {
        return;
    };
    if !is_moment || matches!(env.params, Params::Typed(..)) {
        return;
    }
    let given = matches!(value, Value::Date(_) | Value::DateTime(_) | Value::Time(_));
    let moment = typed(env, Needs::Moment, value).filter(|_| !given);
    if let Some((value, ty)) = moment {
        *bound = Expr::constant(value, ty);
    }
}

/// A text for a parameter that is compared takes the type of what it is compared with: beside an integer it is a
/// DECIMAL, beside a date NULL if it is none. A date that sql_mode allows in no column is one. A number is NULL, too,
/// beside a date that it is not, but for a bound of BETWEEN (`is_bound`): there a text that is no time, or no date
/// beside a DATE, is zero. A date beside a YEAR is the number of its digits.
///
/// True: it has become NULL, and is to be equal to nothing, not even NULL.
///
/// # Errors
/// 1292 in a change of rows.
pub(super) fn compare_with(
    env: &BindEnv<'_>,
    arg: &ast::Expr,
    bound: &mut Expr,
    other: &SqlType,
    is_bound: bool,
) -> SqlResult<bool> {
    let (ast::Expr::Param(_), ExprKind::Const(value)) = (arg, &bound.kind) else {
        return Ok(false);
    };
    if matches!(env.params, Params::Typed(..)) {
        return Ok(false);
    }
    if let (Value::Date(_) | Value::DateTime(_), TypeKind::Year) = (value, &other.kind) {
        let number = cast::to_int(env.ctx, value)?;
        *bound = Expr::constant(Value::Int(number as i64), SqlType::bigint(false));
        return Ok(false);
    }
    let null = || Expr::constant(Value::Null, other.clone().with_nullable(true));
    if let (Value::Str(text), TypeKind::Time | TypeKind::Date) = (value, &other.kind)
        && is_bound
        && let Some(zero) = zero_for(env, text, &other.kind)?
    {
        *bound = Expr::constant(zero, other.clone().with_nullable(false));
        return Ok(false);
    }
    if let (Value::Str(_), TypeKind::Time) = (value, &other.kind)
        && cast::to_time(&env.ctx.quiet(), value)?.is_none()
    {
        cast::to_time(env.ctx, value)?;
        *bound = null();
        return Ok(true);
    }
    if !matches!(value, Value::Str(_)) {
        let is_null = !is_bound && cmp::is_null_as_moment(env.ctx, value, other)?;
        if is_null {
            *bound = null();
        }
        return Ok(is_null);
    }
    if other.is_integer() {
        let number = cast::to_decimal(env.ctx, value)?;
        let ty = SqlType::decimal(number.precision().max(1), number.scale());
        *bound = Expr::constant(Value::Decimal(number), ty.with_nullable(false));
    } else if let Some(moment) = cmp::moment_beyond_mode(env.ctx, value, other) {
        let ty = with_six_digits(TypeKind::DateTime);
        *bound = Expr::constant(Value::DateTime(moment), ty);
    } else if cmp::is_null_as_date(env.ctx, value, other)? {
        *bound = null();
        return Ok(true);
    }
    Ok(false)
}

/// What a text that is no date or time is as a bound of BETWEEN, after its warning.
fn zero_for(env: &BindEnv<'_>, text: &[u8], kind: &TypeKind) -> SqlResult<Option<Value>> {
    let value = Value::Str(text.to_vec());
    let quiet = env.ctx.quiet();
    Ok(match kind {
        TypeKind::Time if cast::to_time(&quiet, &value)?.is_none() => {
            cast::to_time(env.ctx, &value)?;
            Some(Value::Time(Time::ZERO))
        }
        TypeKind::Date if cast::to_datetime(&quiet, &value, DateFlags::FUZZY)?.is_none() => {
            cast::truncated(env.ctx, "date", text)?;
            Some(Value::Date(Date::ZERO))
        }
        _ => None,
    })
}

fn typed(env: &BindEnv<'_>, needs: Needs, value: &Value) -> Option<(Value, SqlType)> {
    match (needs, value) {
        (Needs::Seconds, Value::Decimal(d)) => {
            let ty = SqlType::decimal(d.precision().max(1), d.scale());
            let ty = SqlType {
                decimals: ty.decimals.max(MAX_FSP),
                ..ty
            };
            Some((value.clone(), ty.with_nullable(false)))
        }
        (Needs::Seconds, _) => None,
        (Needs::Time, Value::Str(text)) => {
            let parsed = parse_time(text, DateFlags::NONE).ok();
            match parsed.filter(|p| p.warn.is_none()) {
                Some(parsed) if !text.contains(&b'-') => {
                    Some((Value::Time(parsed.time), with_six_digits(TypeKind::Time)))
                }
                _ => moment(env, text),
            }
        }
        (Needs::Duration, value) => {
            let time = cast::to_time(&env.ctx.quiet(), value).ok()??;
            Some((Value::Time(time), with_six_digits(TypeKind::Time)))
        }
        (Needs::Moment, Value::Str(text)) => moment(env, text),
        (Needs::Moment, Value::Int(number)) => moment(env, number.to_string().as_bytes()),
        (Needs::Moment, Value::Date(date)) => {
            let value = Value::DateTime(date.at_midnight());
            Some((value, with_six_digits(TypeKind::DateTime)))
        }
        (_, Value::DateTime(_)) => Some((value.clone(), with_six_digits(TypeKind::DateTime))),
        (_, Value::Time(_)) => Some((value.clone(), with_six_digits(TypeKind::Time))),
        _ => None,
    }
}

/// The temporal value that a text names.
fn moment(env: &BindEnv<'_>, text: &[u8]) -> Option<(Value, SqlType)> {
    let (moment, _) = func::constant_moment(text, cast::date_flags(env.ctx))?;
    Some((Value::DateTime(moment), with_six_digits(TypeKind::DateTime)))
}

pub(super) fn with_six_digits(kind: TypeKind) -> SqlType {
    let ty = SqlType::new(kind);
    SqlType {
        length: ty.length + 1 + u32::from(MAX_FSP),
        decimals: MAX_FSP,
        nullable: false,
        ..ty
    }
}
