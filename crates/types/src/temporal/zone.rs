//! Time zones: names, TIMESTAMP to UTC and back.
//!
//! Neighbours: the session's `time_zone` variable, `cast` (TIMESTAMP columns), CONVERT_TZ.
//! **Invariants**: a TIMESTAMP is between 1970-01-01 00:00:01 and 2038-01-19 03:14:07.999999 UTC,
//! or zero, which is 0 microseconds in no zone.

use jiff::civil;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use super::{DateTime, MICROS_PER_SEC};
use crate::error::{SqlError, SqlResult};

/// First moment of TIMESTAMP, in microseconds UTC.
pub const TIMESTAMP_MIN_MICROS: i64 = MICROS_PER_SEC;
/// Last moment of TIMESTAMP, in microseconds UTC.
pub const TIMESTAMP_MAX_MICROS: i64 = (i32::MAX as i64) * MICROS_PER_SEC + 999_999;
/// Offsets lie between -13:59 and +14:00.
const MAX_EAST_SECS: i32 = 14 * 3600;
const MAX_WEST_SECS: i32 = 13 * 3600 + 59 * 60;
/// TO_DAYS('1970-01-01').
const EPOCH_DAY: i64 = 719_528;

/// A local time made a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    /// Microseconds since the epoch.
    pub micros: i64,
    /// The local time does not exist (clocks were put forward); the moment of the change is given.
    pub in_gap: bool,
}

/// 1298
pub fn unknown_time_zone(name: &str) -> SqlError {
    let text = format!("Unknown or incorrect time zone: '{name}'");
    SqlError::new(1298, "HY000", text)
}

/// Reads `SYSTEM`, `+05:30` or a name such as `Europe/Berlin`; error 1298 for anything else.
pub fn parse_time_zone(name: &str) -> SqlResult<TimeZone> {
    let unknown = || unknown_time_zone(name);
    if name.eq_ignore_ascii_case("SYSTEM") {
        return Ok(TimeZone::system());
    }
    if name.starts_with(['+', '-']) {
        let secs = parse_offset(name).ok_or_else(unknown)?;
        return Offset::from_seconds(secs)
            .map(TimeZone::fixed)
            .map_err(|_| unknown());
    }
    TimeZone::get(name).map_err(|_| unknown())
}

/// The name that `@@time_zone` shows: that of the zone data, or `+05:30`. (`SYSTEM` is the caller's,
/// who knows what was set.)
pub fn time_zone_name(zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some(name) => name.to_owned(),
        None => offset_name(zone),
    }
}

/// A zone that is an offset as `@@time_zone` shows it.
pub fn offset_name(zone: &TimeZone) -> String {
    let secs = zone.to_fixed_offset().map_or(0, Offset::seconds);
    let sign = if secs < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", secs.abs() / 3600, secs.abs() / 60 % 60)
}

/// `[+-]H[H]:MM` in seconds, within MySQL's limits.
fn parse_offset(text: &str) -> Option<i32> {
    let (hours, minutes) = text[1..].split_once(':')?;
    let number = |t: &str, max: usize| {
        ((1..=max).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit()))
            .then(|| t.parse::<i32>().ok())?
    };
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let secs = hours * 3600 + minutes * 60;
    let (secs, limit) = if text.starts_with('-') {
        (-secs, MAX_WEST_SECS)
    } else {
        (secs, MAX_EAST_SECS)
    };
    (minutes < 60 && secs.abs() <= limit).then_some(secs)
}

impl DateTime {
    /// Microseconds since the epoch as if this were UTC; `None` for dates not of the calendar.
    pub fn micros_as_utc(self) -> Option<i64> {
        if !self.date().is_calendar_day() {
            return None;
        }
        let days = i64::from(super::calendar::day_number(self.date())) - EPOCH_DAY;
        Some(days * super::MICROS_PER_DAY + self.time().micros())
    }

    /// The UTC date and time of microseconds since the epoch; `None` outside years 0-9999.
    pub fn from_utc_micros(micros: i64) -> Option<Self> {
        let days = micros.div_euclid(super::MICROS_PER_DAY) + EPOCH_DAY;
        let date = super::calendar::from_day_number(u32::try_from(days).ok()?)?;
        Some(Self::from_parts(
            date,
            micros.rem_euclid(super::MICROS_PER_DAY),
        ))
    }

    /// The moment that this local time is in `zone`; `None` for dates not of the calendar.
    pub fn to_utc(self, zone: &TimeZone) -> Option<Utc> {
        let local = self.micros_as_utc()?;
        let d = self.date();
        let civil = civil::date(d.year() as i16, d.month() as i8, d.day() as i8).at(
            self.hour() as i8,
            self.minute() as i8,
            self.second() as i8,
            0,
        );
        let (offset, in_gap) = match zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => (offset, false),
            // The earlier of the two, as MySQL takes it.
            AmbiguousOffset::Fold { before, .. } => (before, false),
            AmbiguousOffset::Gap { before, .. } => (before, true),
        };
        let micros = local - i64::from(offset.seconds()) * MICROS_PER_SEC;
        if !in_gap {
            return Some(Utc { micros, in_gap });
        }
        Some(Utc {
            micros: gap_end(zone, micros) + i64::from(self.microsecond()),
            in_gap,
        })
    }

    /// The local time in `zone` of microseconds since the epoch; `None` outside years 0-9999.
    pub fn from_utc(micros: i64, zone: &TimeZone) -> Option<Self> {
        let secs = micros.div_euclid(MICROS_PER_SEC);
        let offset = zone.to_offset(jiff::Timestamp::from_second(secs).ok()?);
        Self::from_utc_micros(micros + i64::from(offset.seconds()) * MICROS_PER_SEC)
    }

    /// A TIMESTAMP's stored microseconds: `None` when out of its range or not of the calendar;
    /// zero stays zero.
    pub fn to_timestamp(self, zone: &TimeZone) -> Option<Utc> {
        if self.is_zero() {
            return Some(Utc {
                micros: 0,
                in_gap: false,
            });
        }
        self.to_utc(zone)
            .filter(|u| (TIMESTAMP_MIN_MICROS..=TIMESTAMP_MAX_MICROS).contains(&u.micros))
    }

    /// A stored TIMESTAMP's microseconds as the session sees it; `None` for what cannot be stored.
    pub fn from_timestamp(micros: i64, zone: &TimeZone) -> Option<Self> {
        if micros == 0 {
            return Some(Self::ZERO);
        }
        if !(TIMESTAMP_MIN_MICROS..=TIMESTAMP_MAX_MICROS).contains(&micros) {
            return None;
        }
        Self::from_utc(micros, zone)
    }
}

/// First moment after the change of clocks that precedes or equals `micros`.
fn gap_end(zone: &TimeZone, micros: i64) -> i64 {
    let Ok(at) = jiff::Timestamp::from_microsecond(micros + 1) else {
        return micros;
    };
    zone.preceding(at)
        .next()
        .map_or(micros, |t| t.timestamp().as_microsecond())
}
