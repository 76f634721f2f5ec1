//! Conversions to dates and times outside of assignments.
//!
//! Neighbours: the date functions, CAST, comparisons.
//! **Invariants**: `None` means NULL: the value is no date, and that was raised (1292). Texts with
//! an offset (`+02:00`) come out in the session's zone.

use super::{quoted, truncated};
use crate::ctx::{EvalCtx, SqlMode};
use crate::decimal::Decimal;
use crate::error::{Level, SqlResult};
use crate::errors;
use crate::json::{self, JsonRef};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::{
    Date, DateFlags, DateTime, NotTemporal, Parsed, ParsedKind, TemporalWarn, Time, check_date,
    datetime_from_number, parse_datetime, parse_time, time_from_number,
};
use crate::value::{Value, ValueRef};

/// What the session's SQL mode allows of dates: zero parts unless NO_ZERO_IN_DATE, and so on.
pub fn date_flags(ctx: &EvalCtx) -> DateFlags {
    let mode = ctx.sql_mode;
    let mut flags = DateFlags::FUZZY;
    for (bit, flag) in [
        (SqlMode::NO_ZERO_IN_DATE, DateFlags::NO_ZERO_IN_DATE),
        (SqlMode::NO_ZERO_DATE, DateFlags::NO_ZERO_DATE),
        (SqlMode::ALLOW_INVALID_DATES, DateFlags::INVALID_DATES),
        (
            SqlMode::TIME_TRUNCATE_FRACTIONAL,
            DateFlags::TRUNCATE_FRACTION,
        ),
    ] {
        if mode.has(bit) {
            flags = flags.with(flag);
        }
    }
    flags
}

/// Does TIME_TRUNCATE_FRACTIONAL hold?
pub(super) fn truncates(ctx: &EvalCtx) -> bool {
    ctx.sql_mode.has(SqlMode::TIME_TRUNCATE_FRACTIONAL)
}

/// The current date in the session's zone.
pub fn today(ctx: &EvalCtx) -> Date {
    DateTime::from_utc(ctx.now_micros, &ctx.time_zone).map_or(Date::ZERO, DateTime::date)
}

/// Moves a temporal value written with an offset into the session's zone; `None` when it leaves the
/// calendar.
pub(super) fn in_session_zone(ctx: &EvalCtx, p: &Parsed) -> Option<DateTime> {
    let Some(offset) = p.displacement else {
        return Some(p.datetime);
    };
    let utc = p.datetime.micros_as_utc()? - i64::from(offset) * crate::temporal::MICROS_PER_SEC;
    DateTime::from_utc(utc, &ctx.time_zone)
}

/// What a TIMESTAMP literal says in the session's zone, and its fractional digits; `None` if it is no temporal value.
///
/// # Errors
/// 1292 if it leaves the calendar in the session's zone.
pub fn literal_moment(ctx: &EvalCtx, text: &[u8]) -> SqlResult<Option<(DateTime, u8)>> {
    let flags = date_flags(ctx).with(DateFlags::DATETIME_ONLY);
    let parsed = parse_datetime(text, flags).ok();
    let Some(parsed) = parsed.filter(|p| p.warn.is_none()) else {
        return Ok(None);
    };
    warn_deprecated(ctx, &parsed, ValueRef::Str(text), 1);
    let moment = in_session_zone(ctx, &parsed).ok_or_else(|| {
        let message = format!("Truncated incorrect temporal value: '{}'", quoted(text));
        errors::misread_value(message)
    })?;
    Ok(Some((moment, parsed.digits)))
}

/// A number's integer part and microseconds (rounded, or cut).
pub(super) fn split_number(d: &Decimal, truncate: bool) -> Option<(i64, u32)> {
    let micros = if truncate { d.truncate(6) } else { d.round(6) }
        .ok()?
        .unscaled_i128()?;
    let whole = i64::try_from(micros / 1_000_000).ok()?;
    Some((whole, (micros % 1_000_000).unsigned_abs() as u32))
}

/// The decimal of a number, without warnings (messages about dates show the original).
fn number(v: ValueRef<'_>) -> Option<Decimal> {
    match v {
        ValueRef::Int(n) => Some(Decimal::from(n)),
        ValueRef::UInt(n) | ValueRef::Bit(n, _) => Some(Decimal::from(n)),
        ValueRef::Double(d) => Some(Decimal::from_f64(d).0),
        ValueRef::Decimal(d) => Some(d),
        _ => None,
    }
}

/// Reads any value as a temporal value, raising nothing.
pub(super) fn read_datetime(
    ctx: &EvalCtx,
    v: ValueRef<'_>,
    flags: DateFlags,
) -> Result<Parsed, NotTemporal> {
    let bad = |warn| NotTemporal {
        warn,
        like_date: true,
    };
    let typed = |d: DateTime, kind| {
        check_date(d.date(), !d.is_zero(), flags).map_err(bad)?;
        Ok(Parsed::moment(d, kind))
    };
    match v {
        ValueRef::Str(s) | ValueRef::Label(_, s) => {
            let mut p = parse_datetime(s, flags)?;
            p.datetime = in_session_zone(ctx, &p).ok_or(bad(TemporalWarn::OUT_OF_RANGE))?;
            p.time = p.datetime.time();
            Ok(p)
        }
        ValueRef::Date(d) => typed(d.at_midnight(), ParsedKind::Date),
        ValueRef::DateTime(d) => typed(d, ParsedKind::DateTime),
        ValueRef::Time(t) => t
            .on_day(today(ctx))
            .map(|d| Parsed::moment(d, ParsedKind::DateTime))
            .ok_or(bad(TemporalWarn::OUT_OF_RANGE)),
        v => {
            let n = number(v).unwrap_or_default();
            if n.is_negative() {
                return Err(bad(TemporalWarn::OUT_OF_RANGE));
            }
            let out_of_range = bad(TemporalWarn::OUT_OF_RANGE);
            let (whole, micro) = split_number(&n, truncates(ctx)).ok_or(out_of_range)?;
            let mut p = datetime_from_number(whole, flags)?;
            if p.kind == ParsedKind::Date {
                // A day has no fraction.
                if micro != 0 {
                    p.warn = TemporalWarn(p.warn.0 | TemporalWarn::TRUNCATED.0);
                }
                return Ok(p);
            }
            p.datetime = p.datetime.with_microsecond(micro);
            p.time = p.datetime.time();
            Ok(p)
        }
    }
}

/// Reads any value as a duration, raising nothing.
pub(super) fn read_time(ctx: &EvalCtx, v: ValueRef<'_>) -> Result<Parsed, NotTemporal> {
    let flags = DateFlags(date_flags(ctx).0 & DateFlags::TRUNCATE_FRACTION.0);
    match v {
        // Bits are the text of their bytes.
        ValueRef::Bit(..) => parse_time(&shown(v), flags),
        ValueRef::Str(s) | ValueRef::Label(_, s) => {
            let mut p = parse_time(s, flags)?;
            if p.displacement.is_some() {
                p.datetime = in_session_zone(ctx, &p).ok_or(NotTemporal {
                    warn: TemporalWarn::OUT_OF_RANGE,
                    like_date: true,
                })?;
                p.time = p.datetime.time();
            }
            Ok(p)
        }
        ValueRef::Time(t) => Ok(Parsed::duration(t, TemporalWarn::NONE)),
        ValueRef::DateTime(d) => Ok(Parsed::moment(d, ParsedKind::DateTime)),
        ValueRef::Date(d) => Ok(Parsed::moment(d.at_midnight(), ParsedKind::Date)),
        v => {
            let n = number(v).unwrap_or_default();
            let Some((whole, micro)) = split_number(&n, truncates(ctx)) else {
                let max = if n.is_negative() {
                    Time::MIN
                } else {
                    Time::MAX
                };
                return Ok(Parsed::duration(max, TemporalWarn::OUT_OF_RANGE));
            };
            let mut p = time_from_number(whole)?;
            let micro = i64::from(micro);
            let moved = p.time.micros() + if n.is_negative() { -micro } else { micro };
            let (time, over) = Time::clamped(moved);
            p.time = time;
            if over {
                p.warn = TemporalWarn::OUT_OF_RANGE;
            }
            Ok(p)
        }
    }
}

/// The value's text as messages show it.
pub(super) fn shown(v: ValueRef<'_>) -> Vec<u8> {
    super::text::to_str(v, &SqlType::new(TypeKind::Null)).into_owned()
}

/// Raises 1441 when rounding left the calendar.
pub(super) fn raise_overflow(ctx: &EvalCtx, warn: TemporalWarn) -> SqlResult<()> {
    if warn.has(TemporalWarn::FIELD_OVERFLOW) {
        ctx.raise(1441, "22008", "Datetime function: datetime field overflow")?;
    }
    Ok(())
}

/// 1292 `Incorrect datetime value`
fn incorrect_datetime(ctx: &EvalCtx, v: ValueRef<'_>) -> SqlResult<()> {
    let message = format!("Incorrect datetime value: '{}'", quoted(&shown(v)));
    ctx.raise(1292, "22007", message)
}

/// Warns of a delimiter that is not the standard one.
pub(super) fn warn_deprecated(ctx: &EvalCtx, p: &Parsed, v: ValueRef<'_>, row: u64) {
    let Some(d) = p.deprecated else { return };
    let what = format!(
        "Delimiter '{}' in position {} in datetime value '{}' at row {row} is",
        char::from(d.delimiter),
        d.position,
        quoted(&shown(v))
    );
    let (code, text) = match d.standard {
        Some(s) => (
            4095,
            format!(
                "{what} deprecated. Prefer the standard '{}'.",
                char::from(s)
            ),
        ),
        None => (
            4096,
            format!("{what} superfluous and is deprecated. Please remove."),
        ),
    };
    ctx.warn(Level::Warning, code, text);
}

/// The first day of a year that comes from a YEAR column: where a date is asked for, the column is one. What YEAR()
/// and CAST make, which is unsigned, is a number.
pub fn first_day_of_year(v: &Value, ty: &SqlType) -> Option<DateTime> {
    match (v, &ty.kind) {
        (Value::Int(year), TypeKind::Year) if !ty.unsigned => {
            let date = Date::new(u32::try_from(*year).ok()?, 1, 1)?;
            Some(date.at_midnight())
        }
        _ => None,
    }
}

/// The value as a date with time, in the session's zone. `None` for NULL and for what is no date.
pub fn to_datetime<'a>(
    ctx: &EvalCtx,
    v: impl Into<ValueRef<'a>>,
    flags: DateFlags,
) -> SqlResult<Option<DateTime>> {
    let v = v.into();
    if let ValueRef::Null = v {
        return Ok(None);
    }
    if let ValueRef::Json(doc) = v {
        return json::convert::to_datetime(ctx, JsonRef::new(doc), flags, "");
    }
    match read_datetime(ctx, v, flags) {
        Ok(p) => {
            if !p.warn.is_none() {
                let kind = if p.kind == ParsedKind::Date {
                    "date"
                } else {
                    "datetime"
                };
                truncated(ctx, kind, &shown(v))?;
            }
            warn_deprecated(ctx, &p, v, 1);
            Ok(Some(p.datetime))
        }
        Err(e) => {
            raise_overflow(ctx, e.warn)?;
            if !e.warn.has(TemporalWarn::FIELD_OVERFLOW) {
                incorrect_datetime(ctx, v)?;
            }
            Ok(None)
        }
    }
}

/// The temporal value at the beginning of a text, in the session's zone; warns of delimiters only.
pub(crate) fn to_moment_of_text(ctx: &EvalCtx, text: &[u8], flags: DateFlags) -> Option<DateTime> {
    let text = ValueRef::Str(text);
    let parsed = read_datetime(ctx, text, flags).ok()?;
    warn_deprecated(ctx, &parsed, text, 1);
    Some(parsed.datetime)
}

/// The value as a date. `None` for NULL and for what is no date.
pub fn to_date<'a>(
    ctx: &EvalCtx,
    v: impl Into<ValueRef<'a>>,
    flags: DateFlags,
) -> SqlResult<Option<Date>> {
    let v = v.into();
    // The fraction is of no interest: it is cut, not rounded into the next day.
    let whole = match v {
        ValueRef::Null => return Ok(None),
        ValueRef::Json(doc) => return json::convert::to_date(ctx, JsonRef::new(doc), flags, ""),
        ValueRef::Decimal(d) => ValueRef::Decimal(d.truncate(0).unwrap_or(d)),
        ValueRef::Double(d) => ValueRef::Double(d.trunc()),
        v => v,
    };
    match read_datetime(ctx, whole, flags.with(DateFlags::TRUNCATE_FRACTION)) {
        Ok(p) => {
            if !p.warn.is_none() {
                truncated(ctx, "date", &shown(v))?;
            }
            warn_deprecated(ctx, &p, v, 1);
            Ok(Some(p.datetime.date()))
        }
        Err(_) => {
            match v {
                ValueRef::Int(_) | ValueRef::UInt(_) => incorrect_datetime(ctx, v)?,
                ValueRef::Double(d) if !super::round_f64(d).1 => {
                    incorrect_datetime(ctx, ValueRef::Int(d as i64))?;
                }
                v => truncated(ctx, "date", &shown(v))?,
            }
            Ok(None)
        }
    }
}

/// The value as a duration. `None` for NULL and for what is no time, as the text of a date alone; texts out of range
/// are clamped, numbers out of range are NULL.
pub fn to_time<'a>(ctx: &EvalCtx, v: impl Into<ValueRef<'a>>) -> SqlResult<Option<Time>> {
    let v = v.into();
    let is_text = matches!(v, ValueRef::Str(_) | ValueRef::Label(..));
    let read = read_clock(ctx, v)?.filter(|(_, kind)| !is_text || *kind != ParsedKind::Date);
    Ok(read.map(|(time, _)| time))
}

/// As [`to_time`]; the text of a date alone is midnight.
pub fn to_clock<'a>(ctx: &EvalCtx, v: impl Into<ValueRef<'a>>) -> SqlResult<Option<Time>> {
    Ok(read_clock(ctx, v.into())?.map(|(time, _)| time))
}

/// The time of day or duration, and what it was read from.
fn read_clock(ctx: &EvalCtx, v: ValueRef<'_>) -> SqlResult<Option<(Time, ParsedKind)>> {
    if let ValueRef::Null = v {
        return Ok(None);
    }
    if let ValueRef::Json(doc) = v {
        let time = json::convert::to_time(ctx, JsonRef::new(doc), "")?;
        return Ok(time.map(|time| (time, ParsedKind::Time)));
    }
    let is_text = matches!(v, ValueRef::Str(_) | ValueRef::Label(..));
    match read_time(ctx, v) {
        Ok(p) => {
            if !p.warn.is_none() {
                truncated(ctx, "time", &shown(v))?;
                if !is_text {
                    return Ok(None);
                }
            }
            warn_deprecated(ctx, &p, v, 1);
            Ok(Some((p.time, p.kind)))
        }
        Err(_) => {
            truncated(ctx, "time", &shown(v))?;
            Ok(None)
        }
    }
}
