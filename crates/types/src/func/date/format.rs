//! DATE_FORMAT and TIME_FORMAT.
//!
//! Neighbours: `zone` (FROM_UNIXTIME with a format), `parse` for the way back.
//! **Invariant**: a field that the value does not have (the name of month 0) makes the result NULL.

use super::names::TimeLocale;
use super::read::{clock, moment};
use crate::cast;
use crate::error::SqlResult;
use crate::func::call::{Call, string};
use crate::func::ret::{string_type, text_chars};
use crate::func::{ArgType, FuncDef, PURE, RetCtx, Signature, def};
use crate::temporal::calendar::{day_number, day_number_of, week, weekday};
use crate::temporal::{DateFlags, DateTime, Time};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("date_format", 2, 2, PURE, ret_format, date_format),
    def("time_format", 2, 2, PURE, ret_format, time_format),
];

/// Most characters that a specifier writes, for a format that is not constant.
const WIDEST: u64 = 10;

/// Most characters of a date in the format in `arg`.
pub(super) fn chars_of(arg: &ArgType) -> u64 {
    let Some(Value::Str(format)) = arg.value else {
        return u64::from(text_chars(&arg.ty)) * WIDEST;
    };
    let mut chars = 0;
    let mut rest = format.iter();
    while let Some(b) = rest.next() {
        chars += match (b, if *b == b'%' { rest.next() } else { None }) {
            (b'%', Some(b'M' | b'W')) => 64,
            (b'%', Some(b'D' | b'Y' | b'x' | b'X')) => 4,
            (b'%', Some(b'a' | b'b')) => 32,
            (b'%', Some(b'j')) => 3,
            (b'%', Some(b'f')) => 6,
            (b'%', Some(b'r')) => 11,
            (b'%', Some(b'T')) => 8,
            (b'%', Some(b'k' | b'H')) => 7,
            (b'%', Some(b'w' | b'%')) => 1,
            (b'%', Some(_)) => 2,
            _ => 1,
        };
    }
    chars
}

fn ret_format(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(string_type(
        chars_of(&args[1]),
        ctx.collation_connection,
    )))
}

fn date_format(c: &Call) -> SqlResult<Value> {
    let Some(at) = moment(c, 0)? else {
        return Ok(Value::Null);
    };
    write_format(c.ctx.time_names, &c.text(1), at, at.time()).map_or(Ok(Value::Null), string)
}

fn time_format(c: &Call) -> SqlResult<Value> {
    let time = match date_beyond_times(c) {
        Some(date) => Some(date.time()),
        None => clock(c, 0)?,
    };
    let Some(time) = time else {
        return Ok(Value::Null);
    };
    write_format(c.ctx.time_names, &c.text(1), DateTime::ZERO, time).map_or(Ok(Value::Null), string)
}

/// TIME_FORMAT takes a text or number that is beyond the range of TIME, 20200102, for a date if it can be one.
fn date_beyond_times(c: &Call) -> Option<DateTime> {
    let given = c.args[0];
    if matches!(
        given,
        Value::Null | Value::Time(_) | Value::DateTime(_) | Value::Date(_)
    ) {
        return None;
    }
    let quiet = c.ctx.quiet();
    let time = cast::to_clock(&quiet, given).ok()?;
    let is_beyond = time.is_none_or(|t| matches!(t, Time::MAX | Time::MIN));
    let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
    let date = cast::to_datetime(&quiet, given, flags).ok()?;
    date.filter(|_| is_beyond)
}

/// `format` filled in; hours come from `time`, which may have more than 23. `None` when a field
/// does not exist, or nothing is written at all.
pub(super) fn write_format(
    names: TimeLocale,
    format: &[u8],
    at: DateTime,
    time: Time,
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(format.len() + 16);
    if time.is_negative() {
        out.push(b'-');
    }
    let mut rest = format.iter();
    while let Some(b) = rest.next() {
        match b {
            b'%' => match rest.next() {
                Some(spec) => field(names, *spec, at, time, &mut out)?,
                None => out.push(b'%'),
            },
            _ => out.push(*b),
        }
    }
    (!format.is_empty()).then_some(out)
}

/// A number with leading zeros.
fn pad(out: &mut Vec<u8>, n: u32, width: usize) {
    out.extend_from_slice(format!("{n:0width$}").as_bytes());
}

fn field(names: TimeLocale, spec: u8, at: DateTime, time: Time, out: &mut Vec<u8>) -> Option<()> {
    let date = at.date();
    let hour12 = |t: Time| (t.hour() % 24 + 11) % 12 + 1;
    let half = |t: Time| if t.hour() % 24 < 12 { "AM" } else { "PM" };
    match spec {
        b'M' | b'b' => {
            let name = names.month(date.month(), spec == b'b')?;
            out.extend_from_slice(name.as_bytes());
        }
        b'W' | b'a' => {
            let name = names.day(day_of_week(at)?, spec == b'a');
            out.extend_from_slice(name.as_bytes());
        }
        b'D' => {
            pad(out, date.day(), 1);
            out.extend_from_slice(ordinal(date.day()).as_bytes());
        }
        b'Y' => pad(out, date.year(), 4),
        b'y' => pad(out, date.year() % 100, 2),
        b'm' => pad(out, date.month(), 2),
        b'c' => pad(out, date.month(), 1),
        b'd' => pad(out, date.day(), 2),
        b'e' => pad(out, date.day(), 1),
        b'f' => pad(out, time.microsecond(), 6),
        b'H' => pad(out, time.hour(), 2),
        b'k' => pad(out, time.hour(), 1),
        b'h' | b'I' => pad(out, hour12(time), 2),
        b'l' => pad(out, hour12(time), 1),
        b'i' => pad(out, time.minute(), 2),
        b's' | b'S' => pad(out, time.second(), 2),
        b'p' => out.extend_from_slice(half(time).as_bytes()),
        b'r' => {
            let (h, m, s, half) = (hour12(time), time.minute(), time.second(), half(time));
            out.extend_from_slice(format!("{h:02}:{m:02}:{s:02} {half}").as_bytes());
        }
        b'T' => {
            let (h, m, s) = (time.hour(), time.minute(), time.second());
            out.extend_from_slice(format!("{h:02}:{m:02}:{s:02}").as_bytes());
        }
        b'j' => {
            // Months and days of 0 count back from the year's first day.
            let first = i64::from(day_number_of(date.year(), 1, 1));
            let day = i64::from(day_number(date)) - first + 1;
            out.extend_from_slice(format!("{day:03}").as_bytes());
        }
        b'U' => pad(out, week(date, 0).0, 2),
        b'u' => pad(out, week(date, 1).0, 2),
        b'V' => pad(out, week(date, 2).0, 2),
        b'v' => pad(out, week(date, 3).0, 2),
        b'X' => pad(out, week(date, 2).1 as u32, 4),
        b'x' => pad(out, week(date, 3).1 as u32, 4),
        b'w' => {
            has_date(at)?;
            pad(out, weekday(day_number(date), true), 1);
        }
        _ => out.push(spec),
    }
    Some(())
}

/// Days of the week need a year or a month.
fn has_date(at: DateTime) -> Option<()> {
    (at.date().month() != 0 || at.date().year() != 0).then_some(())
}

/// Monday is 0.
fn day_of_week(at: DateTime) -> Option<usize> {
    has_date(at)?;
    Some(weekday(day_number(at.date()), false) as usize)
}

fn ordinal(day: u32) -> &'static str {
    match (day / 10, day % 10) {
        (1, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}
