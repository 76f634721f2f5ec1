//! Date and time functions.
//!
//! In flow order: `read` (arguments to temporal values and durations, with MySQL's warnings), `now` (the
//! clock), `parts` (fields of a date), `shift` (adding intervals), `diff` (differences), `make`
//! (dates from numbers), `zone` (UNIX time and time zones), `format` and `parse` (DATE_FORMAT and
//! STR_TO_DATE), `names` (of months and days).
//! Neighbours: `temporal` has the values and the calendar.
//! **Invariant**: what is no date gives NULL and a warning, never an error.

pub(super) mod diff;
pub(super) mod format;
pub(super) mod make;
pub(super) mod names;
pub(super) mod now;
pub(super) mod parse;
pub(super) mod parts;
mod read;
pub(super) mod shift;
pub(super) mod zone;

use super::{ArgType, RetCtx, Signature};
use crate::error::SqlResult;
use crate::sqltype::{NOT_FIXED_DECIMALS, SqlType, TypeKind};
use crate::temporal::{DateFlags, MAX_FSP, parse_datetime, parse_time};
use crate::value::Value;

/// DATE that may be NULL.
fn ret_date(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(SqlType::new(TypeKind::Date)))
}

/// A temporal type with `decimals` fractional digits.
fn temporal(kind: TypeKind, decimals: u8) -> SqlType {
    SqlType {
        decimals: decimals.min(MAX_FSP),
        ..SqlType::new(kind)
    }
}

/// FLOAT(M,D) or DOUBLE(M,D)?
fn is_fixed_real(ty: &SqlType) -> bool {
    matches!(ty.kind, TypeKind::Float | TypeKind::Double) && ty.decimals < NOT_FIXED_DECIMALS
}

/// Fractional seconds of a type, or `None` for one whose values are read as text.
fn typed_fraction(ty: &SqlType) -> Option<u8> {
    if ty.is_temporal() || ty.kind == TypeKind::Decimal || is_fixed_real(ty) {
        return Some(ty.decimals.min(MAX_FSP));
    }
    let is_whole = ty.is_integer() || matches!(ty.kind, TypeKind::Bit | TypeKind::Null);
    is_whole.then_some(0)
}

/// Fractional seconds that an argument brings, read as a temporal value (a constant text has those that
/// are written).
fn moment_fraction(arg: &ArgType) -> u8 {
    const LENIENT: DateFlags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
    typed_fraction(&arg.ty).unwrap_or_else(|| match arg.value {
        Some(Value::Str(text)) => parse_datetime(text, LENIENT).map_or(MAX_FSP, |p| p.digits),
        _ => MAX_FSP,
    })
}

/// Fractional seconds that an argument brings, read as a duration.
fn time_fraction(arg: &ArgType) -> u8 {
    typed_fraction(&arg.ty).unwrap_or_else(|| match arg.value {
        Some(Value::Str(text)) => parse_time(text, DateFlags::NONE).map_or(MAX_FSP, |p| p.digits),
        _ => MAX_FSP,
    })
}
