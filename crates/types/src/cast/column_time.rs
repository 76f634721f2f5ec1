//! Assignment to DATE, TIME, DATETIME, TIMESTAMP and YEAR columns.
//!
//! Neighbours: `column` dispatches here; `temporal` reads the values.
//! **Invariants**: fractions are rounded (cut under TIME_TRUNCATE_FRACTIONAL) to the column's
//! digits; a TIMESTAMP that is returned exists in the session's zone and in TIMESTAMP's range.

use super::column::{Target, decimal_as_64_bits, integer_from_text};
use super::temporal::{
    date_flags, raise_overflow, read_datetime, read_time, shown, today, truncates, warn_deprecated,
};
use crate::ctx::EvalCtx;
use crate::error::SqlResult;
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::{Date, DateFlags, DateTime, Parsed, ParsedKind, TemporalWarn, Time};
use crate::value::{Value, ValueRef};

impl Target<'_> {
    /// What was wrong with a temporal value: 1292 in strict writes, else 1265 or 1264.
    fn temporal_problem(&self, kind: &str, v: ValueRef<'_>, warn: TemporalWarn) -> SqlResult<()> {
        raise_overflow(self.ctx, warn)?;
        if self.strict() {
            return self.incorrect_temporal(kind, &shown(v), false);
        }
        if warn.has(TemporalWarn::TRUNCATED) {
            self.truncated()
        } else {
            self.out_of_range()
        }
    }

    /// A part of the value was dropped as its type demands.
    fn temporal_note(&self, kind: &str, v: ValueRef<'_>) -> SqlResult<()> {
        if self.strict() {
            return self.incorrect_temporal(kind, &shown(v), true);
        }
        self.note_truncated();
        Ok(())
    }
}

/// Is this, in a column of a type with a date, refused for its zeros alone (NO_ZERO_DATE, NO_ZERO_IN_DATE)?
pub fn is_zero_date(ctx: &EvalCtx<'_>, value: &Value, ty: &SqlType) -> bool {
    let has_date = matches!(
        ty.kind,
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp
    );
    let zeros = |warn: TemporalWarn| {
        warn.has(TemporalWarn::ZERO_DATE) || warn.has(TemporalWarn::ZERO_IN_DATE)
    };
    has_date
        && read_datetime(ctx, value.as_ref(), column_flags(ctx, ty)).is_err_and(|e| zeros(e.warn))
}

/// What a column of this type allows of dates.
fn column_flags(ctx: &EvalCtx<'_>, ty: &SqlType) -> DateFlags {
    let flags = date_flags(ctx);
    match ty.kind {
        TypeKind::Timestamp => DateFlags(flags.0 & !DateFlags::FUZZY.0),
        _ => flags,
    }
}

/// Reads a temporal value and rounds it to the column's digits; what was wrong was raised. `None`: no date.
fn moment(t: &Target<'_>, kind: &str, v: ValueRef<'_>) -> SqlResult<Option<Parsed>> {
    let fsp = if t.ty.kind == TypeKind::Date {
        0
    } else {
        t.ty.decimals
    };
    let read = read_datetime(t.ctx, v, column_flags(t.ctx, t.ty))
        .map_err(|e| e.warn)
        .and_then(|p: Parsed| {
            let datetime = p.datetime.round(fsp, truncates(t.ctx))?;
            Ok(Parsed { datetime, ..p })
        });
    match read {
        Ok(p) => {
            warn_deprecated(t.ctx, &p, v, t.row);
            if !p.warn.is_none() {
                t.temporal_problem(kind, v, p.warn)?;
            }
            Ok(Some(p))
        }
        Err(warn) => {
            t.temporal_problem(kind, v, warn)?;
            Ok(None)
        }
    }
}

pub(super) fn to_date_column(t: &Target<'_>, v: ValueRef<'_>) -> SqlResult<Value> {
    if let ValueRef::Date(d) = v
        && d.is_calendar_day()
    {
        return Ok(Value::Date(d));
    }
    let Some(p) = moment(t, "date", v)? else {
        return Ok(Value::Date(Date::ZERO));
    };
    let d = p.datetime;
    if d.time() != Time::ZERO && p.warn.is_none() {
        match v {
            ValueRef::DateTime(_) => t.temporal_note("date", ValueRef::DateTime(d))?,
            v => t.temporal_note("date", v)?,
        }
    }
    Ok(Value::Date(d.date()))
}

pub(super) fn to_datetime_column(t: &Target<'_>, v: ValueRef<'_>) -> SqlResult<Value> {
    let Some(p) = moment(t, "datetime", v)? else {
        return Ok(Value::DateTime(DateTime::ZERO));
    };
    let d = p.datetime;
    if t.ty.kind != TypeKind::Timestamp {
        return Ok(Value::DateTime(d));
    }
    let Some(utc) = d.to_timestamp(&t.ctx.time_zone) else {
        // Of a number without a date MySQL says otherwise than of a text.
        let is_number = matches!(v, ValueRef::Double(_) | ValueRef::Decimal(_));
        let warn = match is_number && d.date() == Date::ZERO {
            true => TemporalWarn::TRUNCATED,
            false => TemporalWarn::OUT_OF_RANGE,
        };
        t.temporal_problem("datetime", v, warn)?;
        return Ok(Value::DateTime(DateTime::ZERO));
    };
    if !utc.in_gap {
        return Ok(Value::DateTime(d));
    }
    if t.strict() {
        t.incorrect_temporal("datetime", &shown(v), false)?;
    }
    let message = format!(
        "Invalid TIMESTAMP value in column '{}' at row {}",
        t.column, t.row
    );
    t.ctx.raise(1299, "HY000", message)?;
    let moved = DateTime::from_timestamp(utc.micros, &t.ctx.time_zone).unwrap_or_default();
    Ok(Value::DateTime(moved))
}

pub(super) fn to_time_column(t: &Target<'_>, v: ValueRef<'_>) -> SqlResult<Value> {
    if let ValueRef::Str(s) = v
        && s.is_empty()
    {
        return Ok(Value::Time(Time::ZERO));
    }
    let p = match read_time(t.ctx, v) {
        Ok(p) => p,
        Err(e) => {
            if !e.warn.is_none() {
                t.temporal_problem("time", v, e.warn)?;
            }
            return Ok(Value::Time(Time::ZERO));
        }
    };
    warn_deprecated(t.ctx, &p, v, t.row);
    let (time, over) = p.time.round(t.ty.decimals, truncates(t.ctx));
    let mut warn = p.warn;
    if over {
        warn = TemporalWarn::OUT_OF_RANGE;
    }
    if !warn.is_none() {
        t.temporal_problem("time", v, warn)?;
    } else if p.kind != ParsedKind::Time && !matches!(v, ValueRef::DateTime(_) | ValueRef::Date(_))
    {
        t.temporal_note("time", v)?;
    }
    Ok(Value::Time(time))
}

/// First and last year of a YEAR besides 0.
const YEARS: std::ops::RangeInclusive<i128> = 1901..=2155;
/// Two digit years below are of the 2000s.
const YEAR_PIVOT: i128 = 70;

/// Is it a number for a YEAR column, of two digits or four?
pub(super) fn is_year(n: i128) -> bool {
    (0..=99).contains(&n) || YEARS.contains(&n)
}

pub(super) fn to_year(t: &Target<'_>, v: ValueRef<'_>) -> SqlResult<Value> {
    let n = match v {
        ValueRef::Int(n) => n.into(),
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => n.into(),
        // Cut, unlike for integer columns.
        ValueRef::Double(d) => d.trunc() as i128,
        // The scale alone makes -0.4 negative, hence out of range.
        ValueRef::Decimal(d) if d.is_negative() => -1,
        ValueRef::Decimal(d) => decimal_as_64_bits(t, &d, true)?,
        ValueRef::Str(s) => {
            let n = integer_from_text(t, s)?;
            // A zero is 2000, unless it is a number or a text of four characters.
            let digits = s.trim_ascii_start();
            let is_number = digits.first().is_some_and(u8::is_ascii_digit);
            if n == 0 && is_number && s.len() != 4 {
                2000
            } else {
                n
            }
        }
        ValueRef::Date(d) => d.year().into(),
        ValueRef::DateTime(d) => d.date().year().into(),
        ValueRef::Time(_) => today(t.ctx).year().into(),
        ValueRef::Null | ValueRef::Json(_) => return Ok(Value::Null),
    };
    let year = match n {
        0 => 0,
        1..YEAR_PIVOT => 2000 + n,
        YEAR_PIVOT..=99 => 1900 + n,
        n if YEARS.contains(&n) => n,
        _ => {
            t.out_of_range()?;
            0
        }
    };
    Ok(Value::Int(year as i64))
}
