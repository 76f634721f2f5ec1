//! DEFAULT … ON EMPTY and ON ERROR of JSON_VALUE: a literal as a value of the type that is returned.
//!
//! Neighbours: the binder asks when the call is bound; `cast` reads the literal; `table` gives the value where there is
//! none.
//! **Invariant**: nothing is rounded, cut or clamped: a literal that does not fit is an error.

use crate::cast;
use crate::ctx::{EvalCtx, SqlMode};
use crate::error::{SqlError, SqlResult};
use crate::errors::{self, out_of_range};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::{MAX_FSP, ParsedKind, parse_datetime};
use crate::value::Value;

const NAME: &str = "json_value";

/// Is it a YEAR of four digits, or 0?
pub(super) fn is_year(n: i128) -> bool {
    n == 0 || (1901..=2155).contains(&n)
}

/// The literal `v` of type `from` as a `ty`.
///
/// # Errors
/// 1292 for what cannot be read, 1690 for what does not fit, 3141.
pub fn fitting(ctx: &EvalCtx, v: &Value, from: &SqlType, ty: &SqlType) -> SqlResult<Value> {
    let mut strict = ctx.quiet();
    let zeros = SqlMode::NO_ZERO_DATE.0 | SqlMode::NO_ZERO_IN_DATE.0;
    strict.settings.sql_mode = SqlMode(strict.settings.sql_mode.0 | zeros);
    strict.diagnostics.strict_write.set(true);
    let cast = |ty: &SqlType| cast::cast(&strict, v, from, ty, &NAME);
    match &ty.kind {
        TypeKind::BigInt => integer(v, from, ty.unsigned),
        TypeKind::Year => year(v, from),
        TypeKind::Decimal => decimal(&strict, v, ty),
        TypeKind::Float => {
            let wide = cast(&SqlType::new(TypeKind::Double))?;
            match wide {
                Value::Double(d) if (d as f32).is_infinite() => Err(does_not_fit("FLOAT")),
                _ => cast(ty),
            }
        }
        TypeKind::Time | TypeKind::DateTime => moment(v, ty, cast),
        TypeKind::Json => cast(ty).map_err(|e| match e.code {
            3141 => SqlError::new(3141, "22032", e.message.replace("cast_as_json", NAME)),
            _ => e,
        }),
        _ if ty.is_string() => text(v, from, ty),
        _ => cast(ty),
    }
}

/// 1690
fn does_not_fit(kind: &str) -> SqlError {
    out_of_range(format_args!("{kind} DEFAULT"), NAME)
}

/// 1292
fn truncated(kind: &str, text: &[u8]) -> SqlError {
    let text = cast::quoted(text);
    errors::misread_value(format!("Truncated incorrect {kind} value: '{text}'"))
}

fn integer(v: &Value, from: &SqlType, unsigned: bool) -> SqlResult<Value> {
    let kind = if unsigned { "UNSIGNED" } else { "SIGNED" };
    let text = cast::to_str(v, from);
    if text.is_empty() {
        return Err(does_not_fit(kind));
    }
    let n = whole(&text).map_err(|overflows| match overflows {
        true => does_not_fit(kind),
        false => truncated(&format!("INTEGER {kind}"), &text),
    })?;
    let fitting = match unsigned {
        true => u64::try_from(n).map(Value::UInt),
        false => i64::try_from(n).map(Value::Int),
    };
    fitting.map_err(|_| does_not_fit(kind))
}

fn year(v: &Value, from: &SqlType) -> SqlResult<Value> {
    let text = cast::to_str(v, from);
    match whole(&text) {
        Ok(n) if is_year(n) => Ok(Value::Int(n as i64)),
        Ok(_) | Err(true) => Err(out_of_range("YEAR", NAME)),
        Err(false) => Err(truncated("YEAR", &text)),
    }
}

/// The integer that is all of the text, or whether it is one that is too large.
fn whole(text: &[u8]) -> Result<i128, bool> {
    let (n, status) = cast::parse_int(text);
    match status {
        cast::IntStatus::Exact if text.last().is_some_and(u8::is_ascii_digit) => Ok(n),
        cast::IntStatus::Overflow => Err(true),
        _ => Err(false),
    }
}

fn decimal(ctx: &EvalCtx, v: &Value, ty: &SqlType) -> SqlResult<Value> {
    let d = cast::to_decimal(ctx, v)?;
    let whole_digits = ty.length - u32::from(ty.decimals);
    if d.scale() > ty.decimals || !d.is_zero() && d.int_digits() > whole_digits {
        return Err(does_not_fit("DECIMAL"));
    }
    let scaled = d.round(ty.decimals).map_err(|_| does_not_fit("DECIMAL"))?;
    debug_assert_eq!(scaled, d, "more zeros change nothing");
    Ok(Value::Decimal(scaled))
}

/// A TIME or DATETIME: what is read with all digits is what is read with those of the type.
fn moment(
    v: &Value,
    ty: &SqlType,
    cast: impl Fn(&SqlType) -> SqlResult<Value>,
) -> SqlResult<Value> {
    if let (Value::Str(text), TypeKind::DateTime) = (v, &ty.kind)
        && parse_datetime(text, crate::temporal::DateFlags::FUZZY)
            .is_ok_and(|p| p.kind == ParsedKind::Date)
    {
        let message = format!("Incorrect datetime value: '{}'", cast::quoted(text));
        return Err(errors::misread_value(message));
    }
    let precise = cast(&SqlType {
        decimals: MAX_FSP,
        ..ty.clone()
    })?;
    let fitting = cast(ty)?;
    let is_same = match (&precise, &fitting) {
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::DateTime(a), Value::DateTime(b)) => a == b,
        _ => true,
    };
    match is_same {
        true => Ok(fitting),
        false => Err(does_not_fit("TIME")),
    }
}

fn text(v: &Value, from: &SqlType, ty: &SqlType) -> SqlResult<Value> {
    let text = cast::to_str(v, from);
    let charset = ty.collation.charset();
    let text = match ty.collation.is_binary() {
        true => from.collation.recode(text, ty.collation),
        false if charset.encode(&text).is_err() => return Err(does_not_fit("CHAR")),
        false => text,
    };
    let length = match ty.collation.is_binary() {
        true => text.len(),
        false => crate::collation::char_count(&text),
    };
    match length > ty.length as usize {
        true => Err(does_not_fit("CHAR")),
        false => Ok(Value::Str(text.into_owned())),
    }
}
