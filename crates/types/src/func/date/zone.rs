//! UNIX time and time zones.
//!
//! Neighbours: `temporal::zone` converts.
//! **Invariant**: UNIX times reach from 1970 to 3001-01-18; outside, UNIX_TIMESTAMP gives 0,
//! FROM_UNIXTIME NULL, CONVERT_TZ the unchanged value.

use super::format::write_format;
use super::read::{day, moment};
use super::{moment_fraction, temporal, typed_fraction};
use crate::ctx::SqlMode;
use crate::error::SqlResult;
use crate::errors::precision_too_big;
use crate::func::call::{Call, int, string};
use crate::func::ret::{const_int, string_type};
use crate::func::{ArgType, FuncDef, FuncFlags, RetCtx, SESSION, Signature, def};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::zone::{parse_time_zone, unknown_time_zone};
use crate::temporal::{DateTime, LAST_UNIX_SECOND, MAX_FSP, MICROS_PER_SEC};
use crate::value::Value;
use crate::{Decimal, SqlError};
use jiff::tz::TimeZone;

/// These depend on the session's zone.
const ZONED: FuncFlags = SESSION.with(FuncFlags::NULL_IN_NULL_OUT);

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def(
        "unix_timestamp",
        0,
        1,
        ZONED,
        ret_unix_timestamp,
        unix_timestamp,
    ),
    def(
        "from_unixtime",
        1,
        2,
        ZONED,
        ret_from_unixtime,
        from_unixtime,
    ),
    def("convert_tz", 3, 3, ZONED, ret_convert_tz, convert_tz),
    // CAST(moment AT TIME ZONE zone AS DATETIME(digits)) is lowered to it.
    def("at_time_zone", 3, 3, ZONED, ret_at_zone, at_zone),
];

/// The last moment.
const LAST_MICROS: i64 = LAST_UNIX_SECOND * MICROS_PER_SEC + 999_999;

fn ret_unix_timestamp(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let Some(arg) = args.first() else {
        let ty = SqlType {
            length: 21,
            ..SqlType::bigint(false)
        };
        return Ok(Signature::plain(ty.with_nullable(false)));
    };
    let ty = match moment_fraction(arg) {
        0 => SqlType {
            length: 21,
            ..SqlType::bigint(false)
        },
        decimals => SqlType::decimal(11 + u32::from(decimals), decimals),
    };
    Ok(Signature::plain(ty.with_nullable(arg.ty.nullable)))
}

fn unix_timestamp(c: &Call) -> SqlResult<Value> {
    if !c.has(0) {
        return int(c.ctx.now_micros.div_euclid(MICROS_PER_SEC));
    }
    let micros = moment(c, 0)?
        .and_then(|m| m.to_utc(&c.ctx.time_zone))
        .map(|u| u.micros);
    let micros = micros
        .filter(|m| (0..=LAST_MICROS).contains(m))
        .unwrap_or(0);
    match c.types.ret.decimals {
        0 => int(micros / MICROS_PER_SEC),
        decimals => {
            let exact = Decimal::from_i128(i128::from(micros), MAX_FSP);
            Ok(Value::Decimal(exact.truncate(decimals).unwrap_or(exact)))
        }
    }
}

fn ret_from_unixtime(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let decimals = match args[0].ty.kind {
        TypeKind::Year => 0,
        _ => typed_fraction(&args[0].ty).unwrap_or(MAX_FSP),
    };
    Ok(Signature::plain(match args.get(1) {
        Some(format) => string_type(super::format::chars_of(format), ctx.collation_connection),
        None => temporal(TypeKind::DateTime, decimals),
    }))
}

fn from_unixtime(c: &Call) -> SqlResult<Value> {
    let decimals = if c.has(1) {
        MAX_FSP
    } else {
        c.types.ret.decimals
    };
    let seconds = c.decimal(0)?;
    let micros = match c.ctx.sql_mode.has(SqlMode::TIME_TRUNCATE_FRACTIONAL) {
        true => seconds.truncate(decimals),
        false => seconds.round(decimals),
    };
    let micros = micros.and_then(|s| s.mul(&Decimal::from_i64(MICROS_PER_SEC)));
    let micros = micros.map_or(i64::MAX, |m| m.to_i64().0);
    if !(0..=LAST_MICROS).contains(&micros) {
        return Ok(Value::Null);
    }
    let Some(at) = DateTime::from_utc(micros, &c.ctx.time_zone) else {
        return Ok(Value::Null);
    };
    if !c.has(1) {
        return Ok(Value::DateTime(at));
    }
    write_format(c.ctx.time_names, &c.text(1), at, at.time()).map_or(Ok(Value::Null), string)
}

fn ret_convert_tz(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(temporal(
        TypeKind::DateTime,
        moment_fraction(&args[0]),
    )))
}

fn convert_tz(c: &Call) -> SqlResult<Value> {
    let zone = |i: usize| {
        let name = c.text(i);
        parse_time_zone(&String::from_utf8_lossy(&name))
    };
    let Some(at) = day(c, 0)? else {
        return Ok(Value::Null);
    };
    let (Ok::<_, SqlError>(from), Ok(to)) = (zone(1), zone(2)) else {
        return Ok(Value::Null);
    };
    let micros = at
        .to_utc(&from)
        .map(|u| u.micros)
        .filter(|m| (1..=LAST_MICROS).contains(m));
    let moved = micros.and_then(|m| DateTime::from_utc(m, &to));
    Ok(Value::DateTime(moved.unwrap_or(at)))
}

fn ret_at_zone(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let zone = args[1].value.and_then(|zone| match zone {
        Value::Str(name) => Some(String::from_utf8_lossy(name)),
        _ => None,
    });
    let zone = zone.unwrap_or_default();
    if zone != "+00:00" && zone != "UTC" {
        return Err(unknown_time_zone(&zone));
    }
    let is_literal = args[0].ty.kind == TypeKind::DateTime && args[0].value.is_some();
    if !is_literal && !matches!(args[0].ty.kind, TypeKind::Timestamp | TypeKind::Null) {
        let message = "Cannot cast value to TIMESTAMP WITH TIME ZONE.";
        return Err(SqlError::new(3998, "22018", message));
    }
    let digits = const_int(args.get(2)).unwrap_or(0);
    let digits = u8::try_from(digits).unwrap_or(u8::MAX);
    if digits > MAX_FSP {
        return Err(precision_too_big(digits, "CAST", MAX_FSP));
    }
    Ok(Signature::plain(temporal(TypeKind::DateTime, digits)))
}

/// The moment in UTC, without its fraction, as in MySQL; the zero date is the epoch.
fn at_zone(c: &Call) -> SqlResult<Value> {
    let Some(at) = moment(c, 0)? else {
        return Ok(Value::Null);
    };
    let micros = match at.date().is_zero() {
        true => Some(0),
        false => at.to_utc(&c.ctx.time_zone).map(|u| u.micros),
    };
    let micros = micros.filter(|m| (0..=LAST_MICROS).contains(m));
    let whole = micros.map(|m| m - m % MICROS_PER_SEC);
    let moved = whole.and_then(|m| DateTime::from_utc(m, &TimeZone::UTC));
    Ok(moved.map_or(Value::Null, Value::DateTime))
}
