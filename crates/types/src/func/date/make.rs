//! Dates and times from numbers and from each other, and arithmetic on periods (YYYYMM).
//!
//! Neighbours: `read`, `temporal`.
//! **Invariant**: out of range gives NULL, except that a time is clamped with a warning.

use super::read::{duration, long_time, storable};
use super::{moment_fraction, ret_date, temporal, time_fraction, typed_fraction};
use crate::ctx::SqlMode;
use crate::error::SqlResult;
use crate::errors;
use crate::func::call::{Call, int, string};
use crate::func::ret::{int as ret_int, text};
use crate::func::{ArgType, CALCULATION, FuncDef, PURE, RetCtx, Signature, def};
use crate::sqltype::TypeKind;
use crate::temporal::calendar::{day_number_of, from_day_number};
use crate::temporal::{MAX_FSP, MICROS_PER_SEC, Time};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("time", 1, 1, PURE, ret_time, time),
    def("timestamp", 1, 2, PURE, ret_timestamp, timestamp),
    def("from_days", 1, 1, PURE, ret_date, from_days),
    def("makedate", 2, 2, PURE, ret_date, makedate),
    def("maketime", 3, 3, PURE, ret_maketime, maketime),
    def("sec_to_time", 1, 1, PURE, ret_sec_to_time, sec_to_time),
    def("period_add", 2, 2, PURE, ret_int::<21>, period_add),
    def("period_diff", 2, 2, CALCULATION, ret_int::<21>, period_diff),
    def("get_format", 2, 2, PURE, text::<17>, get_format),
];

fn ret_time(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(temporal(
        TypeKind::Time,
        time_fraction(&args[0]),
    )))
}

fn time(c: &Call) -> SqlResult<Value> {
    Ok(duration(c, 0)?.map_or(Value::Null, Value::Time))
}

fn ret_timestamp(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let added = args.get(1).map_or(0, time_fraction);
    let decimals = moment_fraction(&args[0]).max(added);
    Ok(Signature::plain(temporal(TypeKind::DateTime, decimals)))
}

fn timestamp(c: &Call) -> SqlResult<Value> {
    let Some(mut at) = storable(c, 0)? else {
        return Ok(Value::Null);
    };
    if c.has(1) {
        let Some(by) = duration(c, 1)? else {
            return Ok(Value::Null);
        };
        match at.add_micros(by.micros()) {
            Some(sum) if at.date().is_calendar_day() => at = sum,
            _ => {
                c.raise(1441, "22008", "Datetime function: datetime field overflow")?;
                return Ok(Value::Null);
            }
        }
    }
    Ok(Value::DateTime(at))
}

fn from_days(c: &Call) -> SqlResult<Value> {
    let days = c.integer(0)?;
    match u32::try_from(days).ok().and_then(from_day_number) {
        Some(date) => Ok(Value::Date(date)),
        None => {
            let said = errors::date_out_of_range(format_args!("from_days({days})"));
            c.raise(said.code, said.state, said.message)?;
            Ok(Value::Null)
        }
    }
}

/// Two-digit years: 70-99 are the last century's.
fn full_year(year: i128) -> i128 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        _ => year,
    }
}

fn makedate(c: &Call) -> SqlResult<Value> {
    let (year, day) = (full_year(c.integer(0)?), c.integer(1)?);
    if !(0..=9999).contains(&year) || day <= 0 {
        return Ok(Value::Null);
    }
    let days = i128::from(day_number_of(year as u32, 1, 1)) + day - 1;
    Ok(u32::try_from(days)
        .ok()
        .and_then(from_day_number)
        .map_or(Value::Null, Value::Date))
}

fn ret_maketime(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(temporal(
        TypeKind::Time,
        seconds_fraction(&args[2]),
    )))
}

/// Fraction of an argument that counts seconds.
fn seconds_fraction(arg: &ArgType) -> u8 {
    typed_fraction(&arg.ty).unwrap_or(MAX_FSP)
}

/// Argument `i`, seconds, in microseconds rounded, or cut, to the result's precision.
fn seconds(c: &Call, i: usize) -> SqlResult<i64> {
    let (seconds, decimals) = (c.decimal(i)?, c.types.ret.decimals);
    let rounded = match c.ctx.sql_mode.has(SqlMode::TIME_TRUNCATE_FRACTIONAL) {
        true => seconds.truncate(decimals),
        false => seconds.round(decimals),
    };
    let micros = rounded.and_then(|s| s.mul(&crate::Decimal::from_i64(MICROS_PER_SEC)));
    Ok(micros.map_or(i64::MAX, |m| m.to_i64().0))
}

fn maketime(c: &Call) -> SqlResult<Value> {
    let (hour, minute, micros) = (c.integer(0)?, c.integer(1)?, seconds(c, 2)?);
    // Seconds may be rounded up into the next minute, but not begin there.
    let whole = c.decimal(2)?.truncate(0).map_or(i64::MAX, |s| s.to_i64().0);
    if !(0..60).contains(&minute) || !(0..60).contains(&whole) || micros < 0 {
        return Ok(Value::Null);
    }
    let magnitude = hour.abs() * 3600 + minute * 60;
    let magnitude = magnitude * i128::from(MICROS_PER_SEC) + i128::from(micros);
    let signed = if hour < 0 { -magnitude } else { magnitude };
    clamp(
        c,
        i64::try_from(signed).unwrap_or(if hour < 0 { i64::MIN + 1 } else { i64::MAX }),
    )
}

/// A time, clamped with a warning.
fn clamp(c: &Call, micros: i64) -> SqlResult<Value> {
    let (time, clamped) = Time::clamped(micros);
    if clamped {
        let shown = long_time(micros);
        c.raise(
            1292,
            "22007",
            format!("Truncated incorrect time value: '{shown}'"),
        )?;
    }
    Ok(Value::Time(time))
}

fn ret_sec_to_time(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(temporal(
        TypeKind::Time,
        seconds_fraction(&args[0]),
    )))
}

fn sec_to_time(c: &Call) -> SqlResult<Value> {
    let (time, clamped) = Time::clamped(seconds(c, 0)?);
    if clamped {
        let shown = String::from_utf8_lossy(&c.text(0)).into_owned();
        c.raise(
            1292,
            "22007",
            format!("Truncated incorrect time value: '{shown}'"),
        )?;
    }
    Ok(Value::Time(time))
}

/// YYMM or YYYYMM as a number of months.
fn months_of(c: &Call, i: usize, name: &str) -> SqlResult<i128> {
    let period = c.integer(i)?;
    let (year, month) = (period / 100, period % 100);
    if period < 0 || !(1..=12).contains(&month) {
        return Err(errors::wrong_arguments(name));
    }
    Ok(full_year(year) * 12 + month - 1)
}

fn period_add(c: &Call) -> SqlResult<Value> {
    let months = months_of(c, 0, "period_add")? + c.integer(1)?;
    let period = months.div_euclid(12) * 100 + months.rem_euclid(12) + 1;
    int(i64::try_from(period).unwrap_or(0))
}

fn period_diff(c: &Call) -> SqlResult<Value> {
    let difference = months_of(c, 0, "period_diff")? - months_of(c, 1, "period_diff")?;
    int(i64::try_from(difference).unwrap_or(i64::MAX))
}

/// GET_FORMAT(kind, place).
fn get_format(c: &Call) -> SqlResult<Value> {
    const PLACES: [&str; 5] = ["USA", "JIS", "ISO", "EUR", "INTERNAL"];
    const DATES: [&str; 5] = ["%m.%d.%Y", "%Y-%m-%d", "%Y-%m-%d", "%d.%m.%Y", "%Y%m%d"];
    const DATETIMES: [&str; 5] = [
        "%Y-%m-%d %H.%i.%s",
        "%Y-%m-%d %H:%i:%s",
        "%Y-%m-%d %H:%i:%s",
        "%Y-%m-%d %H.%i.%s",
        "%Y%m%d%H%i%s",
    ];
    const TIMES: [&str; 5] = ["%h:%i:%s %p", "%H:%i:%s", "%H:%i:%s", "%H.%i.%s", "%H%i%s"];
    let formats = match c.text(0).to_ascii_uppercase().as_slice() {
        b"DATE" => DATES,
        b"TIME" => TIMES,
        _ => DATETIMES,
    };
    let place = c.text(1);
    match PLACES
        .iter()
        .position(|p| p.as_bytes().eq_ignore_ascii_case(&place))
    {
        Some(i) => string(formats[i]),
        None => Ok(Value::Null),
    }
}
