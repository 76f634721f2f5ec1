//! Arguments of date functions as temporal values and durations.
//!
//! Neighbours: `cast` converts and raises; every function in this directory reads its arguments
//! here.
//! **Invariant**: what cannot be read is `None` (NULL), and was raised.

use crate::cast;
use crate::error::SqlResult;
use crate::func::call::Call;
use crate::temporal::{
    Date, DateFlags, DateTime, MAX_FSP, MICROS_PER_SEC, Parsed, ParsedKind, Time, parse_datetime,
    parse_time,
};
use crate::value::Value;

/// A date and the time on it, or a duration alone.
pub(super) type MomentOrDuration = (Option<DateTime>, Time);

/// What the SQL mode says of impossible days, long fractions, and (of texts only) the zero date; zero
/// parts are each function's own matter.
fn flags(c: &Call, i: usize, base: DateFlags) -> DateFlags {
    let mode = cast::date_flags(c.ctx);
    let text = matches!(c.args[i], Value::Str(_) | Value::Label(..));
    [
        DateFlags::NO_ZERO_DATE,
        DateFlags::INVALID_DATES,
        DateFlags::TRUNCATE_FRACTION,
    ]
    .into_iter()
    .filter(|f| mode.has(*f) && (text || *f != DateFlags::NO_ZERO_DATE))
    .fold(base, DateFlags::with)
}

/// A typed date that the flags refuse is NULL without a word.
fn refused(c: &Call, i: usize, flags: DateFlags) -> bool {
    let date = match c.args[i] {
        Value::Date(d) => *d,
        Value::DateTime(m) => m.date(),
        _ => return false,
    };
    if date.is_zero() {
        return flags.has(DateFlags::NO_ZERO_DATE);
    }
    let parts_allowed = flags.has(DateFlags::FUZZY) && !flags.has(DateFlags::NO_ZERO_IN_DATE);
    date.has_zero_part() && !parts_allowed
}

fn datetime(c: &Call, i: usize, flags: DateFlags) -> SqlResult<Option<DateTime>> {
    if refused(c, i, flags) {
        return Ok(None);
    }
    match cast::first_day_of_year(c.args[i], c.ty(i)) {
        Some(moment) => Ok(Some(moment)),
        None => cast::to_datetime(c.ctx, c.args[i], flags),
    }
}

fn date_alone(c: &Call, i: usize, flags: DateFlags) -> SqlResult<Option<Date>> {
    if refused(c, i, flags) {
        return Ok(None);
    }
    match cast::first_day_of_year(c.args[i], c.ty(i)) {
        Some(moment) => Ok(Some(moment.date())),
        None => cast::to_date(c.ctx, c.args[i], flags),
    }
}

/// Argument `i` as a date with time; month and day may be 0.
pub(super) fn moment(c: &Call, i: usize) -> SqlResult<Option<DateTime>> {
    datetime(c, i, flags(c, i, DateFlags::FUZZY))
}

/// Argument `i` as a date with time that is a day of the calendar.
pub(super) fn day(c: &Call, i: usize) -> SqlResult<Option<DateTime>> {
    datetime(c, i, flags(c, i, DateFlags::NO_ZERO_DATE))
}

/// Argument `i` as a date with time, as the SQL mode would store it.
pub(super) fn storable(c: &Call, i: usize) -> SqlResult<Option<DateTime>> {
    datetime(c, i, cast::date_flags(c.ctx))
}

/// Argument `i` as a date; month and day may be 0.
pub(super) fn date(c: &Call, i: usize) -> SqlResult<Option<Date>> {
    date_alone(c, i, flags(c, i, DateFlags::FUZZY))
}

/// Argument `i` as a day of the calendar.
pub(super) fn calendar_day(c: &Call, i: usize) -> SqlResult<Option<Date>> {
    date_alone(c, i, flags(c, i, DateFlags::NO_ZERO_DATE))
}

/// What a text is, read as a date.
pub(super) fn kind_of_text(text: &[u8]) -> ParsedKind {
    parse_datetime(text, DateFlags::FUZZY).map_or(ParsedKind::DateTime, |p| p.kind)
}

/// Argument `i` as a duration: the time of day of a date with time.
pub(super) fn duration(c: &Call, i: usize) -> SqlResult<Option<Time>> {
    match cast::first_day_of_year(c.args[i], c.ty(i)) {
        Some(moment) => Ok(Some(moment.time())),
        None => cast::to_time(c.ctx, c.args[i]),
    }
}

/// Argument `i` as a duration; the text of a date alone is midnight.
pub(super) fn clock(c: &Call, i: usize) -> SqlResult<Option<Time>> {
    match cast::first_day_of_year(c.args[i], c.ty(i)) {
        Some(moment) => Ok(Some(moment.time())),
        None => cast::to_clock(c.ctx, c.args[i]),
    }
}

/// A number beyond the range of TIME whose digits are those of a moment.
fn moment_of_number(c: &Call, number: &Value, i: usize) -> SqlResult<Option<DateTime>> {
    const LAST_TIME: f64 = 8_385_959.0;
    let is_number = matches!(
        number,
        Value::Int(_) | Value::UInt(_) | Value::Decimal(_) | Value::Double(_)
    );
    let quiet = c.ctx.quiet();
    if !is_number || cast::to_f64(&quiet, number)? < LAST_TIME + 1.0 {
        return Ok(None);
    }
    cast::to_datetime(&quiet, number, flags(c, i, DateFlags::NO_ZERO_DATE))
}

/// Argument `i` as a duration, and the date that came with it.
pub(super) fn moment_or_duration(c: &Call, i: usize) -> SqlResult<Option<MomentOrDuration>> {
    let moment = match c.args[i] {
        Value::DateTime(m) => Some(*m),
        Value::Date(d) => Some(d.at_midnight()),
        Value::Str(s) => {
            let parsed = parse_time(s, DateFlags::NONE).ok();
            parsed
                .filter(|p| p.kind != ParsedKind::Time)
                .map(|p| p.datetime)
        }
        number => match moment_of_number(c, number, i)? {
            Some(moment) => return Ok(Some((Some(moment), moment.time()))),
            None => None,
        },
    };
    Ok(cast::to_time(c.ctx, c.args[i])?.map(|time| (moment, time)))
}

/// Argument `i` as a date where it reads like one, else as a duration: a time with anything around it, if only a space,
/// is first tried as a date, and what follows that is passed over without a word.
pub(super) fn duration_or_moment(c: &Call, i: usize) -> SqlResult<Option<MomentOrDuration>> {
    let Value::Str(text) = c.args[i] else {
        return moment_or_duration(c, i);
    };
    let like_date = text.trim_ascii().iter().skip(1).any(|b| *b == b'-');
    let time = parse_time(text, DateFlags::NONE);
    let is_bare = text.trim_ascii().len() == text.len();
    let is_whole = |p: &Parsed| is_bare && p.warn.is_none();
    if !like_date && time.as_ref().is_ok_and(is_whole) {
        return moment_or_duration(c, i);
    }
    if let Some(moment) = cast::to_moment_of_text(c.ctx, text, flags(c, i, DateFlags::NO_ZERO_DATE))
    {
        return Ok(Some((Some(moment), moment.time())));
    }
    match time {
        Ok(time) if time.kind == ParsedKind::Time => {
            cast::truncated(c.ctx, "time", text)?;
            Ok(Some((None, time.time)))
        }
        _ => Ok(day(c, i)?.map(|m| (Some(m), m.time()))),
    }
}

/// `[-]h:mm:ss[.ffffff]` of a duration beyond the range of TIME, for messages.
pub(super) fn long_time(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let magnitude = micros.unsigned_abs();
    let (secs, micro) = (
        magnitude / MICROS_PER_SEC as u64,
        magnitude % MICROS_PER_SEC as u64,
    );
    let mut fraction = Vec::new();
    if micro != 0 {
        crate::temporal::write_micros(&mut fraction, micro as u32, MAX_FSP);
    }
    let fraction = String::from_utf8_lossy(&fraction).into_owned();
    format!(
        "{sign}{}:{:02}:{:02}{fraction}",
        secs / 3600,
        secs / 60 % 60,
        secs % 60
    )
}
