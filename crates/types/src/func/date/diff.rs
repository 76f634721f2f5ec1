//! Differences between dates and times.
//!
//! Neighbours: `read`; `temporal::calendar` counts days.
//! **Invariant**: TIMESTAMPDIFF counts complete units, towards zero.

use super::read::{day, duration_or_moment, long_time};
use super::{temporal, time_fraction};
use crate::error::SqlResult;
use crate::func::call::{Call, int};
use crate::func::ret::int_null;
use crate::func::{ArgType, FuncDef, PURE, RetCtx, Signature, def};
use crate::sqltype::TypeKind;
use crate::temporal::calendar::day_number;
use crate::temporal::{DateTime, MICROS_PER_DAY, MICROS_PER_SEC, Time};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("datediff", 2, 2, PURE, int_null::<9>, datediff),
    def("timediff", 2, 2, PURE, ret_timediff, timediff),
    def(
        "timestampdiff_microsecond",
        2,
        2,
        PURE,
        int_null::<21>,
        |c| exact(c, 1),
    ),
    def("timestampdiff_second", 2, 2, PURE, int_null::<21>, |c| {
        exact(c, MICROS_PER_SEC)
    }),
    def("timestampdiff_minute", 2, 2, PURE, int_null::<21>, |c| {
        exact(c, 60 * MICROS_PER_SEC)
    }),
    def("timestampdiff_hour", 2, 2, PURE, int_null::<21>, |c| {
        exact(c, 3600 * MICROS_PER_SEC)
    }),
    def("timestampdiff_day", 2, 2, PURE, int_null::<21>, |c| {
        exact(c, MICROS_PER_DAY)
    }),
    def("timestampdiff_week", 2, 2, PURE, int_null::<21>, |c| {
        exact(c, 7 * MICROS_PER_DAY)
    }),
    def("timestampdiff_month", 2, 2, PURE, int_null::<21>, |c| {
        months(c, 1)
    }),
    def("timestampdiff_quarter", 2, 2, PURE, int_null::<21>, |c| {
        months(c, 3)
    }),
    def("timestampdiff_year", 2, 2, PURE, int_null::<21>, |c| {
        months(c, 12)
    }),
];

fn datediff(c: &Call) -> SqlResult<Value> {
    let (Some(a), Some(b)) = (day(c, 0)?, day(c, 1)?) else {
        return Ok(Value::Null);
    };
    int(i64::from(day_number(a.date())) - i64::from(day_number(b.date())))
}

/// Microseconds since the start of the calendar.
fn micros(m: DateTime) -> i64 {
    i64::from(day_number(m.date())) * MICROS_PER_DAY + m.time().micros()
}

fn both(c: &Call) -> SqlResult<Option<(DateTime, DateTime)>> {
    Ok(day(c, 0)?.zip(day(c, 1)?))
}

fn exact(c: &Call, unit: i64) -> SqlResult<Value> {
    Ok(both(c)?.map_or(Value::Null, |(a, b)| {
        Value::Int((micros(b) - micros(a)) / unit)
    }))
}

fn months(c: &Call, unit: i64) -> SqlResult<Value> {
    Ok(both(c)?.map_or(Value::Null, |(a, b)| {
        Value::Int(complete_months(a, b) / unit)
    }))
}

fn complete_months(a: DateTime, b: DateTime) -> i64 {
    if b < a {
        return -complete_months(b, a);
    }
    let month = |m: DateTime| i64::from(m.date().year() * 12 + m.date().month());
    let in_month = |m: DateTime| (m.date().day(), m.time().micros());
    month(b) - month(a) - i64::from(in_month(b) < in_month(a))
}

fn ret_timediff(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let decimals = time_fraction(&args[0]).max(time_fraction(&args[1]));
    Ok(Signature::plain(temporal(TypeKind::Time, decimals)))
}

/// NULL when one is a date and the other a time.
fn timediff(c: &Call) -> SqlResult<Value> {
    let (Some(a), Some(b)) = (duration_or_moment(c, 0)?, duration_or_moment(c, 1)?) else {
        return Ok(Value::Null);
    };
    let difference = match (a, b) {
        ((Some(a), _), (Some(b), _)) => micros(a) - micros(b),
        ((None, a), (None, b)) => a.micros() - b.micros(),
        _ => return Ok(Value::Null),
    };
    let (time, clamped) = Time::clamped(difference);
    if clamped {
        let shown = long_time(difference);
        c.raise(
            1292,
            "22007",
            format!("Truncated incorrect time value: '{shown}'"),
        )?;
    }
    Ok(Value::Time(time))
}
