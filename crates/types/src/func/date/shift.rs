//! DATE_ADD, DATE_SUB, TIMESTAMPADD by unit, ADDTIME, SUBTIME.
//!
//! Neighbours: `temporal::interval` adds; the parser lowers `d + INTERVAL n DAY` to
//! `date_add_day(d, n)` and ADDDATE to the same.
//! **Invariant**: the result of a string argument is a string that looks like what came in (a date
//! stays a date under a date unit), that of a typed argument is typed.

use super::read::{day, duration, duration_or_moment, moment_or_duration};
use super::{is_fixed_real, temporal, time_fraction};
use crate::cast;
use crate::error::SqlResult;
use crate::func::call::{Call, string};
use crate::func::{ArgType, FuncDef, PURE, RetCtx, Signature, def, refuse_geometries};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::{
    DateTime, Interval, IntervalUnit, MAX_FSP, MICROS_PER_SEC, ParsedKind, Time,
};
use crate::value::Value;

/// Characters of a string result.
const TEXT_CHARS: u32 = 29;

fn text_type(ctx: &RetCtx) -> SqlType {
    SqlType {
        kind: TypeKind::Char,
        ..SqlType::varchar(TEXT_CHARS, ctx.collation_connection)
    }
}

macro_rules! units {
    ($($number:literal $unit:literal,)*) => {
        pub(in crate::func) const DEFS: &[FuncDef] = &[
            def("addtime", 2, 2, PURE, ret_addtime, addtime),
            def("subtime", 2, 2, PURE, ret_addtime, subtime),
            $(
                def(concat!("date_add_", $unit), 2, 2, PURE, ret_add::<$number>, date_add::<$number>),
                def(concat!("date_sub_", $unit), 2, 2, PURE, ret_add::<$number>, date_sub::<$number>),
                def(
                    concat!("timestampadd_", $unit), 2, 2, PURE,
                    ret_timestampadd::<$number>, timestampadd::<$number>
                ),
            )*
        ];
        #[cfg(test)]
        const NAMES: &[(usize, &str)] = &[$(($number, $unit)),*];
    };
}
units! {
    0 "microsecond", 1 "second", 2 "minute", 3 "hour", 4 "day", 5 "week", 6 "month", 7 "quarter",
    8 "year", 9 "second_microsecond", 10 "minute_microsecond", 11 "minute_second",
    12 "hour_microsecond", 13 "hour_second", 14 "hour_minute", 15 "day_microsecond",
    16 "day_second", 17 "day_minute", 18 "day_hour", 19 "year_month",
}

/// The unit of a number in the table above.
const fn unit(number: usize) -> IntervalUnit {
    IntervalUnit::ALL[number].1
}

fn ret_timestampadd<const N: usize>(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    added_type(unit(N), &args[1], &args[0], ctx)
}

fn ret_add<const N: usize>(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    added_type(unit(N), &args[0], &args[1], ctx)
}

fn added_type(u: IntervalUnit, date: &ArgType, n: &ArgType, ctx: &RetCtx) -> SqlResult<Signature> {
    refuse_geometries([&date.ty, &n.ty], "date_add_interval")?;
    let of_unit = match u {
        IntervalUnit::Second => match n.ty.kind {
            TypeKind::Decimal => n.ty.decimals,
            _ if n.ty.is_integer() || n.ty.kind == TypeKind::Null => 0,
            _ if is_fixed_real(&n.ty) => n.ty.decimals,
            _ => MAX_FSP,
        },
        _ if u.has_micros() => MAX_FSP,
        _ => 0,
    };
    let ret = match date.ty.kind {
        TypeKind::Date if u.is_date_only() => SqlType::new(TypeKind::Date),
        TypeKind::Date => temporal(TypeKind::DateTime, of_unit),
        TypeKind::Time if !u.has_days() => temporal(TypeKind::Time, of_unit.max(date.ty.decimals)),
        TypeKind::DateTime | TypeKind::Timestamp | TypeKind::Time => {
            temporal(TypeKind::DateTime, of_unit.max(date.ty.decimals))
        }
        _ => text_type(ctx),
    };
    Ok(Signature::plain(ret))
}

fn date_add<const N: usize>(c: &Call) -> SqlResult<Value> {
    shift(c, unit(N), 0, 1, false)
}

fn date_sub<const N: usize>(c: &Call) -> SqlResult<Value> {
    shift(c, unit(N), 0, 1, true)
}

fn timestampadd<const N: usize>(c: &Call) -> SqlResult<Value> {
    shift(c, unit(N), 1, 0, false)
}

/// The interval in argument `i`; `None` when it is beyond any date.
fn interval(c: &Call, i: usize, u: IntervalUnit) -> SqlResult<Option<Interval>> {
    if u.is_compound() {
        return Ok(Interval::from_text(u, &c.text(i)));
    }
    if u == IntervalUnit::Second && !c.ty(i).is_integer() {
        // Seconds may have a fraction.
        let micros = c.decimal(i)?.mul(&crate::Decimal::from_i64(MICROS_PER_SEC));
        let micros = micros.and_then(|m| m.truncate(0)).map(|m| m.to_i64());
        return Ok(micros
            .ok()
            .filter(|(_, clamped)| !*clamped)
            .map(|(m, _)| Interval::from_second_micros(m)));
    }
    Ok(Interval::from_int(u, c.int(i)?))
}

fn shift(c: &Call, u: IntervalUnit, date: usize, amount: usize, back: bool) -> SqlResult<Value> {
    if c.types.ret.kind == TypeKind::Time {
        return shift_time(c, u, date, amount, back);
    }
    let Some(from) = day_and_kind(c, date)? else {
        return Ok(Value::Null);
    };
    let Some(by) = interval(c, amount, u)? else {
        return overflow(c, "datetime");
    };
    let by = if back { by.negate() } else { by };
    let Some(to) = from.0.add_interval(&by) else {
        return overflow(c, "datetime");
    };
    match c.types.ret.kind {
        TypeKind::Date => Ok(Value::Date(to.date())),
        TypeKind::DateTime => Ok(Value::DateTime(to)),
        _ if from.1 == ParsedKind::Date && u.is_date_only() => string(to.date().format()),
        _ => string(to.format(fsp_of(to.microsecond()))),
    }
}

/// A day of the calendar in argument `i`, and whether it came with a time.
fn day_and_kind(c: &Call, i: usize) -> SqlResult<Option<(DateTime, ParsedKind)>> {
    let Some(moment) = day(c, i)? else {
        return Ok(None);
    };
    let kind = match c.args[i] {
        Value::Str(_) | Value::Label(..) => super::read::kind_of_text(&c.text(i)),
        Value::DateTime(_) | Value::Time(_) => ParsedKind::DateTime,
        v if cast::first_day_of_year(v, c.ty(i)).is_some() => ParsedKind::DateTime,
        _ if moment.time() == Time::ZERO => ParsedKind::Date,
        _ => ParsedKind::DateTime,
    };
    Ok(Some((moment, kind)))
}

/// Six digits when there are microseconds, else none.
fn fsp_of(micro: u32) -> u8 {
    if micro == 0 { 0 } else { MAX_FSP }
}

fn shift_time(
    c: &Call,
    u: IntervalUnit,
    time: usize,
    amount: usize,
    back: bool,
) -> SqlResult<Value> {
    let Some(from) = duration(c, time)? else {
        return Ok(Value::Null);
    };
    let by = interval(c, amount, u)?.map(|by| if back { by.negate() } else { by });
    let micros = by
        .and_then(|by| by.total_micros())
        .and_then(|m| from.micros().checked_add(m));
    match micros.and_then(Time::from_micros) {
        Some(to) => Ok(Value::Time(to)),
        None => overflow(c, "time"),
    }
}

/// NULL; 1441 is raised.
fn overflow(c: &Call, what: &str) -> SqlResult<Value> {
    c.raise(
        1441,
        "22008",
        format!("Datetime function: {what} field overflow"),
    )?;
    Ok(Value::Null)
}

fn ret_addtime(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let decimals = time_fraction(&args[0]).max(time_fraction(&args[1]));
    let ret = match args[0].ty.kind {
        TypeKind::Time => temporal(TypeKind::Time, decimals),
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp => {
            temporal(TypeKind::DateTime, decimals)
        }
        _ => text_type(ctx),
    };
    Ok(Signature::plain(ret))
}

fn addtime(c: &Call) -> SqlResult<Value> {
    add_times(c, 1)
}

fn subtime(c: &Call) -> SqlResult<Value> {
    add_times(c, -1)
}

fn add_times(c: &Call, sign: i64) -> SqlResult<Value> {
    let base = if c.ty(0).is_temporal() {
        moment_or_duration(c, 0)?
    } else {
        duration_or_moment(c, 0)?
    };
    let Some((moment, time)) = base else {
        return Ok(Value::Null);
    };
    let Some(by) = duration(c, 1)? else {
        return Ok(Value::Null);
    };
    let by = by.micros() * sign;
    let Some(moment) = moment else {
        let (sum, clamped) = Time::clamped(time.micros() + by);
        if clamped {
            let shown = super::read::long_time(time.micros() + by);
            c.raise(
                1292,
                "22007",
                format!("Truncated incorrect time value: '{shown}'"),
            )?;
        }
        return match c.types.ret.kind {
            TypeKind::Time => Ok(Value::Time(sum)),
            _ => string(sum.format(fsp_of(sum.microsecond()))),
        };
    };
    let Some(sum) = moment.add_micros(by) else {
        return overflow(c, "datetime");
    };
    match c.types.ret.kind {
        TypeKind::DateTime => Ok(Value::DateTime(sum)),
        TypeKind::Time => Ok(Value::Time(sum.time())),
        _ => string(sum.format(fsp_of(sum.microsecond()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_units() {
        assert_eq!(NAMES.len(), IntervalUnit::ALL.len());
        for (number, name) in NAMES {
            assert_eq!(unit(*number).name(), *name);
        }
    }
}
