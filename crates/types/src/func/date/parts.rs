//! Fields of dates and times.
//!
//! Neighbours: `read` reads the argument, `temporal::calendar` counts days and weeks.
//! **Invariant**: functions that only read a field accept dates with zero parts; those that need a
//! day of the calendar give NULL for them.

use super::read::{self, calendar_day, day, duration, moment_or_duration, storable};
use super::ret_date;
use crate::error::SqlResult;
use crate::func::call::{Call, int};
use crate::func::ret::{int_null, text};
use crate::func::{ArgType, FuncDef, PURE, RetCtx, Signature, TOTAL, def};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::calendar::{
    day_number, day_of_year, last_day as last_of_month, week, weekday,
};
use crate::temporal::{Date, DateFlags, DateTime, ParsedKind, Time, parse_datetime};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("date", 1, 1, PURE, ret_date, date),
    def("year", 1, 1, PURE, ret_year, year),
    def("quarter", 1, 1, PURE, int_null::<2>, quarter),
    def("month", 1, 1, PURE, int_null::<3>, month),
    def("day", 1, 1, PURE, int_null::<3>, day_of_month),
    def("dayofmonth", 1, 1, PURE, int_null::<3>, day_of_month),
    def("dayofweek", 1, 1, PURE, int_null::<2>, day_of_week),
    def("weekday", 1, 1, PURE, int_null::<2>, week_day),
    def("dayofyear", 1, 1, PURE, int_null::<4>, day_in_year),
    def("dayname", 1, 1, PURE, text::<9>, day_name),
    def("monthname", 1, 1, PURE, text::<9>, month_name),
    def("week", 1, 2, TOTAL, int_null::<3>, week_number),
    def("weekofyear", 1, 1, PURE, int_null::<3>, week_of_year),
    def("yearweek", 1, 2, TOTAL, int_null::<7>, year_week),
    def("to_days", 1, 1, PURE, int_null::<8>, to_days),
    def("to_seconds", 1, 1, PURE, int_null::<21>, to_seconds),
    def("last_day", 1, 1, PURE, ret_date, last_day),
    def("hour", 1, 1, PURE, int_null::<4>, hour),
    def("minute", 1, 1, PURE, int_null::<3>, minute),
    def("second", 1, 1, PURE, int_null::<3>, second),
    def("microsecond", 1, 1, PURE, int_null::<21>, microsecond),
    def("time_to_sec", 1, 1, PURE, int_null::<10>, time_to_sec),
    def("extract_year", 1, 1, PURE, int_null::<5>, extract_year),
    def(
        "extract_year_month",
        1,
        1,
        PURE,
        int_null::<7>,
        extract_year_month,
    ),
    def("extract_quarter", 1, 1, PURE, int_null::<2>, quarter),
    def("extract_month", 1, 1, PURE, int_null::<3>, month),
    def("extract_week", 1, 1, PURE, int_null::<3>, extract_week),
    def("extract_day", 1, 1, PURE, int_null::<3>, day_of_month),
    def("extract_day_hour", 1, 1, PURE, int_null::<9>, |c| {
        extract(c, &[U::Hour], true)
    }),
    def("extract_day_minute", 1, 1, PURE, int_null::<11>, |c| {
        extract(c, &U::ALL[..2], true)
    }),
    def("extract_day_second", 1, 1, PURE, int_null::<13>, |c| {
        extract(c, &U::ALL[..3], true)
    }),
    def("extract_day_microsecond", 1, 1, PURE, int_null::<20>, |c| {
        extract(c, &U::ALL, true)
    }),
    def("extract_hour", 1, 1, PURE, int_null::<4>, |c| {
        extract(c, &[U::Hour], false)
    }),
    def("extract_hour_minute", 1, 1, PURE, int_null::<6>, |c| {
        extract(c, &U::ALL[..2], false)
    }),
    def("extract_hour_second", 1, 1, PURE, int_null::<8>, |c| {
        extract(c, &U::ALL[..3], false)
    }),
    def(
        "extract_hour_microsecond",
        1,
        1,
        PURE,
        int_null::<14>,
        |c| extract(c, &U::ALL, false),
    ),
    def("extract_minute", 1, 1, PURE, int_null::<3>, |c| {
        extract(c, &[U::Minute], false)
    }),
    def("extract_minute_second", 1, 1, PURE, int_null::<5>, |c| {
        extract(c, &U::ALL[1..3], false)
    }),
    def(
        "extract_minute_microsecond",
        1,
        1,
        PURE,
        int_null::<11>,
        |c| extract(c, &U::ALL[1..], false),
    ),
    def("extract_second", 1, 1, PURE, int_null::<3>, |c| {
        extract(c, &[U::Second], false)
    }),
    def(
        "extract_second_microsecond",
        1,
        1,
        PURE,
        int_null::<9>,
        |c| extract(c, &U::ALL[2..], false),
    ),
    def("extract_microsecond", 1, 1, PURE, int_null::<7>, |c| {
        extract(c, &[U::Micro], false)
    }),
];

fn ret_year(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(SqlType {
        unsigned: true,
        ..SqlType::new(TypeKind::Year)
    }))
}

/// A function of a date that may have zero parts.
fn of_date(c: &Call, f: impl FnOnce(Date) -> Value) -> SqlResult<Value> {
    Ok(read::date(c, 0)?.map_or(Value::Null, f))
}

/// A function of a day of the calendar.
fn of_day(c: &Call, f: impl FnOnce(Date) -> Value) -> SqlResult<Value> {
    Ok(calendar_day(c, 0)?.map_or(Value::Null, f))
}

fn number(n: u32) -> Value {
    Value::Int(i64::from(n))
}

fn date(c: &Call) -> SqlResult<Value> {
    Ok(storable(c, 0)?.map_or(Value::Null, |m| Value::Date(m.date())))
}

fn year(c: &Call) -> SqlResult<Value> {
    of_date(c, |d| number(d.year()))
}

fn quarter(c: &Call) -> SqlResult<Value> {
    of_date(c, |d| number(d.month().div_ceil(3)))
}

fn month(c: &Call) -> SqlResult<Value> {
    of_date(c, |d| number(d.month()))
}

fn day_of_month(c: &Call) -> SqlResult<Value> {
    of_date(c, |d| number(d.day()))
}

fn day_of_week(c: &Call) -> SqlResult<Value> {
    of_day(c, |d| number(weekday(day_number(d), true) + 1))
}

fn week_day(c: &Call) -> SqlResult<Value> {
    of_day(c, |d| number(weekday(day_number(d), false)))
}

fn day_in_year(c: &Call) -> SqlResult<Value> {
    of_day(c, |d| number(day_of_year(d)))
}

fn day_name(c: &Call) -> SqlResult<Value> {
    of_day(c, |d| {
        let day = weekday(day_number(d), false) as usize;
        Value::str(c.ctx.time_names.day(day, false))
    })
}

fn month_name(c: &Call) -> SqlResult<Value> {
    of_date(c, |d| {
        let name = c.ctx.time_names.month(d.month(), false);
        name.map_or(Value::Null, Value::str)
    })
}

/// Makes the week belong to the year that has most of it.
const WEEK_YEAR: u32 = 2;
/// Mode of WEEKOFYEAR: ISO 8601.
const ISO_MODE: u32 = 3;

fn mode(c: &Call, default: u8) -> SqlResult<u32> {
    if c.has(1) && !c.null(1) {
        // A mode below 0 is none.
        Ok(u32::try_from(c.int(1)?).map_or(0, |mode| mode & 7))
    } else {
        Ok(u32::from(default))
    }
}

fn week_number(c: &Call) -> SqlResult<Value> {
    if c.has(1) && c.null(1) {
        return zero_of_day(c);
    }
    let mode = mode(c, c.ctx.default_week_format)?;
    of_day(c, |d| number(week(d, mode).0))
}

/// What the week is by a mode that is NULL.
fn zero_of_day(c: &Call) -> SqlResult<Value> {
    Ok(day(c, 0)?.map_or(Value::Null, |_| Value::Int(0)))
}

fn week_of_year(c: &Call) -> SqlResult<Value> {
    of_day(c, |d| number(week(d, ISO_MODE).0))
}

fn extract_week(c: &Call) -> SqlResult<Value> {
    let mode = u32::from(c.ctx.default_week_format);
    of_date(c, |d| number(week(d, mode).0))
}

fn year_week(c: &Call) -> SqlResult<Value> {
    if c.has(1) && c.null(1) {
        return zero_of_day(c);
    }
    let mode = mode(c, 0)? | WEEK_YEAR;
    of_day(c, |d| {
        let (week, year) = week(d, mode);
        Value::Int(i64::from(year) * 100 + i64::from(week))
    })
}

fn to_days(c: &Call) -> SqlResult<Value> {
    of_day(c, |d| number(day_number(d)))
}

fn to_seconds(c: &Call) -> SqlResult<Value> {
    let seconds = |m: DateTime| {
        i64::from(day_number(m.date())) * 86_400
            + m.time().micros() / crate::temporal::MICROS_PER_SEC
    };
    Ok(day(c, 0)?.map_or(Value::Null, |m| Value::Int(seconds(m))))
}

fn last_day(c: &Call) -> SqlResult<Value> {
    let Some(date) = read::date(c, 0)? else {
        return Ok(Value::Null);
    };
    let last = last_of_month(Date::new(date.year(), date.month(), 1).unwrap_or(date));
    if last.is_none() {
        let shown = crate::cast::quoted(&c.text(0));
        c.raise(
            1292,
            "22007",
            format!("Truncated incorrect date value: '{shown}'"),
        )?;
    }
    Ok(last.map_or(Value::Null, Value::Date))
}

fn of_time(c: &Call, f: impl FnOnce(Time) -> i64) -> SqlResult<Value> {
    Ok(duration(c, 0)?.map_or(Value::Null, |t| Value::Int(f(t))))
}

fn hour(c: &Call) -> SqlResult<Value> {
    of_time(c, |t| i64::from(t.hour()))
}

fn minute(c: &Call) -> SqlResult<Value> {
    of_time(c, |t| i64::from(t.minute()))
}

fn second(c: &Call) -> SqlResult<Value> {
    of_time(c, |t| i64::from(t.second()))
}

fn microsecond(c: &Call) -> SqlResult<Value> {
    of_time(c, |t| i64::from(t.microsecond()))
}

fn time_to_sec(c: &Call) -> SqlResult<Value> {
    of_time(c, |t| t.micros() / crate::temporal::MICROS_PER_SEC)
}

fn extract_year(c: &Call) -> SqlResult<Value> {
    of_date(c, |d| number(d.year()))
}

fn extract_year_month(c: &Call) -> SqlResult<Value> {
    of_date(c, |d| number(d.year() * 100 + d.month()))
}

/// Fields of a time of day that EXTRACT strings together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum U {
    Hour,
    Minute,
    Second,
    Micro,
}

impl U {
    const ALL: [U; 4] = [U::Hour, U::Minute, U::Second, U::Micro];

    /// The field, and what the number before it is multiplied by.
    fn of(self, t: Time) -> (u32, i64) {
        match self {
            U::Hour => (t.hour(), 100),
            U::Minute => (t.minute(), 100),
            U::Second => (t.second(), 100),
            U::Micro => (t.microsecond(), 1_000_000),
        }
    }
}

/// The midnight of a text that is a date as the standard writes it, or digits of one, and nothing more.
fn whole_date(c: &Call, i: usize) -> Option<DateTime> {
    let Value::Str(text) = c.args[i] else {
        return None;
    };
    let parsed = parse_datetime(text, DateFlags::FUZZY.with(DateFlags::INVALID_DATES)).ok()?;
    let is_standard = text.iter().all(|b| b.is_ascii_digit() || *b == b'-');
    let is_whole = parsed.kind == ParsedKind::Date && parsed.warn.is_none();
    (is_whole && is_standard).then_some(parsed.datetime)
}

/// EXTRACT of units of a time; the day is that of a date, 0 of a duration.
fn extract(c: &Call, fields: &[U], with_day: bool) -> SqlResult<Value> {
    let read = match whole_date(c, 0) {
        Some(moment) => Some((Some(moment), Time::ZERO)),
        None => moment_or_duration(c, 0)?,
    };
    let Some((moment, time)) = read else {
        return Ok(Value::Null);
    };
    let day = moment
        .filter(|_| with_day)
        .map_or(0, |m| i64::from(m.date().day()));
    let n = fields.iter().fold(day, |n, field| {
        let (value, unit) = field.of(time);
        n * unit + i64::from(value)
    });
    int(if time.is_negative() { -n } else { n })
}
