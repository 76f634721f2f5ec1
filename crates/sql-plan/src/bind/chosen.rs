//! Parameters of prepared statements among the values that IF, CASE, COALESCE, LEAST and their kin choose from: they
//! take the type of the other values, as MySQL's preparation gives it to them.
//!
//! Neighbours: `call` binds these functions; `parameter` has the parameters of functions of temporal values and of
//! comparisons. **Invariants**: beside temporal values a value becomes one, and NULL if it names none; a text beside
//! numbers becomes the number that it is. Beside texts, JSON values and other parameters it stays what it is.

use esker_sql_syntax::ast;
use esker_types::collation::Coercibility;
use esker_types::decimal::{MAX_PRECISION, MAX_SCALE, ParseStatus};
use esker_types::temporal::{DateFlags, ParsedKind, parse_datetime};
use esker_types::{DateTime, Decimal, SqlResult, SqlType, TypeKind, Value, cast};

use super::{BindEnv, Params, call, parameter};
use crate::expr::{Expr, ExprKind};

/// Digits and sign of an integer for a parameter.
const INTEGER_LENGTH: u32 = 21;

/// What a text that is no date is beside DATEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoDate {
    Null,
    /// It stays a text, which LEAST and GREATEST pass over.
    PassedOver,
}

/// Gives the parameters among `values`, written `written`, the type of the values that are none.
///
/// # Errors
/// 1292 in a change of rows.
pub(super) fn take_type_of_others(
    env: &BindEnv<'_>,
    written: &[&ast::Expr],
    values: &mut [&mut Expr],
    no_date: NoDate,
) -> SqlResult<()> {
    let is_param = |e: &ast::Expr| matches!(e, ast::Expr::Param(_));
    if matches!(env.params, Params::Typed(..)) || !written.iter().any(|w| is_param(w)) {
        return Ok(());
    }
    let others = written.iter().zip(&*values);
    let others: Vec<&Expr> = others
        .filter(|(w, _)| !is_param(w))
        .map(|(_, v)| &**v)
        .collect();
    // Types that do not mix are refused with all values together.
    let Ok(signature) = call::merged(env, &others, "case") else {
        return Ok(());
    };
    for (_, value) in written.iter().zip(values).filter(|(w, _)| is_param(w)) {
        match &value.kind {
            ExprKind::Const(given) => {
                if let Some((given, ty)) = converted(env, given, &signature.ret, no_date)? {
                    **value = Expr::constant(given, ty.with_nullable(true));
                }
            }
            ExprKind::Param(_) => convert_later(value, &signature.ret),
            _ => {}
        }
    }
    Ok(())
}

/// Converts a parameter whose value is not known yet, in a plan for several executions.
fn convert_later(param: &mut Expr, other: &SqlType) {
    let is_text = param.ty.is_string();
    let ty = match other.kind {
        TypeKind::Date if is_text || param.ty.is_numeric() => SqlType::new(TypeKind::Date),
        TypeKind::Time if is_text || param.ty.is_numeric() => {
            parameter::with_six_digits(TypeKind::Time)
        }
        TypeKind::DateTime | TypeKind::Timestamp => parameter::with_six_digits(TypeKind::DateTime),
        _ => return,
    };
    let inner = std::mem::replace(param, Expr::null());
    *param = Expr {
        kind: ExprKind::Cast(Box::new(inner), "".into()),
        ty: ty.with_nullable(true),
        coer: Coercibility::Numeric,
    };
}

/// The value of a parameter beside values of type `other`, with its type; None: it stays what it is.
fn converted(
    env: &BindEnv<'_>,
    given: &Value,
    other: &SqlType,
    no_date: NoDate,
) -> SqlResult<Option<(Value, SqlType)>> {
    if let (Value::Str(text), TypeKind::Date, NoDate::PassedOver) = (given, &other.kind, no_date)
        && parse_datetime(text, cast::date_flags(env.ctx)).is_err()
    {
        return Ok(None);
    }
    if other.is_temporal() && other.kind != TypeKind::Year {
        return as_moment(env, given, other);
    }
    let Value::Str(text) = given else {
        return Ok(None);
    };
    if matches!(other.kind, TypeKind::Float | TypeKind::Double) {
        let number = Value::Double(cast::to_f64(env.ctx, given)?);
        return Ok(Some((number, SqlType::new(TypeKind::Double))));
    }
    let is_integer = other.is_integer() && other.kind != TypeKind::Year;
    let (number, status) = Decimal::parse(text);
    if status != ParseStatus::Exact || !is_integer && other.kind != TypeKind::Decimal {
        return Ok(None);
    }
    let (whole, is_clamped) = match other.unsigned {
        true => {
            let (whole, is_clamped) = number.to_u64();
            (Value::UInt(whole), is_clamped)
        }
        false => {
            let (whole, is_clamped) = number.to_i64();
            (Value::Int(whole), is_clamped)
        }
    };
    if is_integer && number.scale() == 0 && !is_clamped {
        let ty = SqlType {
            length: INTEGER_LENGTH,
            ..SqlType::bigint(other.unsigned)
        };
        return Ok(Some((whole, ty)));
    }
    let ty = SqlType::decimal(MAX_PRECISION, MAX_SCALE);
    Ok(Some((Value::Decimal(number), ty)))
}

/// A text or number as a DATE, TIME(6) or DATETIME(6).
fn as_moment(
    env: &BindEnv<'_>,
    given: &Value,
    other: &SqlType,
) -> SqlResult<Option<(Value, SqlType)>> {
    let is_plain = matches!(
        given,
        Value::Str(_) | Value::Int(_) | Value::UInt(_) | Value::Decimal(_) | Value::Double(_)
    );
    let datetime = || parameter::with_six_digits(TypeKind::DateTime);
    let found = match (&other.kind, given) {
        (TypeKind::Time, _) if is_plain => {
            let time = cast::to_time(env.ctx, given)?.map_or(Value::Null, Value::Time);
            (time, parameter::with_six_digits(TypeKind::Time))
        }
        (TypeKind::Date, _) if is_plain => match moment(env, given, "date")? {
            Some((moment, true)) => (Value::DateTime(moment), datetime()),
            Some((moment, false)) => (Value::Date(moment.date()), SqlType::new(TypeKind::Date)),
            None => (Value::Null, SqlType::new(TypeKind::Date)),
        },
        (TypeKind::DateTime | TypeKind::Timestamp, Value::Date(date)) => {
            (Value::DateTime(date.at_midnight()), datetime())
        }
        (TypeKind::DateTime | TypeKind::Timestamp, _) if is_plain => {
            let moment = moment(env, given, "datetime")?;
            let value = moment.map_or(Value::Null, |(moment, _)| Value::DateTime(moment));
            (value, datetime())
        }
        _ => return Ok(None),
    };
    Ok(Some(found))
}

/// The temporal value that a text or number names, and whether it has a time of day; None, after a warning, if it names
/// none.
fn moment(env: &BindEnv<'_>, given: &Value, kind: &str) -> SqlResult<Option<(DateTime, bool)>> {
    let Value::Str(text) = given else {
        let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
        let moment = cast::to_datetime(env.ctx, given, flags)?;
        return Ok(moment.map(|m| (m, m != m.date().at_midnight())));
    };
    match parse_datetime(text, cast::date_flags(env.ctx)) {
        Ok(parsed) => Ok(Some((parsed.datetime, parsed.kind != ParsedKind::Date))),
        Err(_) if kind == "date" => cast::truncated(env.ctx, kind, text).map(|()| None),
        Err(_) => {
            let message = format!("Incorrect {kind} value: '{}'", cast::quoted(text));
            env.ctx.raise(1292, "22007", message).map(|()| None)
        }
    }
}
