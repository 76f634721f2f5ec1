//! DATE, TIME, DATETIME and TIMESTAMP values.
//!
//! In flow order: this file (the three types, their fields and packed forms), `parse` (text and
//! numbers to values), `format` (values to text and numbers), `calendar` (day numbers, weeks),
//! `interval` (INTERVAL arithmetic), `zone` (time zones, UTC).
//! Neighbours: `cast` adds warnings and SQL modes, `func` the date functions; the row and key
//! codecs store `packed()` forms.
//!
//! **Invariants**: years 0-9999, months 0-12, days 0-31, hours 0-23, minutes and seconds 0-59: what
//! MySQL can store, including zero dates and impossible days, which SQL modes allow or refuse at
//! the edges. `packed()` orders as the values do and is frozen: it is on disk.

pub mod calendar;
mod format;
pub mod interval;
mod parse;
#[cfg(test)]
mod tests;
pub mod zone;

pub use format::{digits_of, write_micros};
pub use interval::{Interval, IntervalUnit};
pub(crate) use parse::check_date;
pub use parse::{
    DateFlags, Deprecated, NotTemporal, Parsed, ParsedKind, TemporalWarn, datetime_from_number,
    parse_datetime, parse_time, time_from_number,
};

/// Microseconds in a second.
pub const MICROS_PER_SEC: i64 = 1_000_000;
/// The last second that functions and events know: 3001-01-18 23:59:59 UTC.
pub const LAST_UNIX_SECOND: i64 = 32_536_771_199;
/// Microseconds in a day.
pub const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SEC;
/// Most fractional digits.
pub const MAX_FSP: u8 = 6;

/// A calendar date.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Date(u32);

/// A signed duration of at most 838:59:59.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

/// A date with a time of day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DateTime(u64);

impl Date {
    /// 0000-00-00
    pub const ZERO: Self = Self(0);
    /// 9999-12-31
    pub const MAX: Self = Self(9999 << 9 | 12 << 5 | 31);

    /// From fields; `None` when one is out of its range (days 0-31 for every month).
    pub fn new(year: u32, month: u32, day: u32) -> Option<Self> {
        (year <= 9999 && month <= 12 && day <= 31).then_some(Self(year << 9 | month << 5 | day))
    }

    /// Year, 0-9999.
    pub fn year(self) -> u32 {
        self.0 >> 9
    }

    /// Month, 0-12.
    pub fn month(self) -> u32 {
        self.0 >> 5 & 15
    }

    /// Day, 0-31.
    pub fn day(self) -> u32 {
        self.0 & 31
    }

    /// Is it 0000-00-00?
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Is the month or the day 0?
    pub fn has_zero_part(self) -> bool {
        self.month() == 0 || self.day() == 0
    }

    /// Is it a day of the calendar?
    pub fn is_calendar_day(self) -> bool {
        !self.has_zero_part() && self.day() <= calendar::days_in_month(self.year(), self.month())
    }

    /// Order-preserving form, 3 bytes.
    pub fn packed(self) -> u32 {
        self.0
    }

    /// From [`Self::packed`]; `None` for what it cannot give.
    pub fn from_packed(v: u32) -> Option<Self> {
        Self::new(v >> 9, v >> 5 & 15, v & 31)
    }

    /// Midnight of the date.
    pub fn at_midnight(self) -> DateTime {
        DateTime::from_parts(self, 0)
    }
}

impl Time {
    /// 00:00:00
    pub const ZERO: Self = Self(0);
    /// 838:59:59
    pub const MAX: Self = Self((838 * 3600 + 59 * 60 + 59) * MICROS_PER_SEC);
    /// -838:59:59
    pub const MIN: Self = Self(-Self::MAX.0);

    /// From microseconds; `None` beyond 838:59:59.
    pub fn from_micros(micros: i64) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0)
            .contains(&micros)
            .then_some(Self(micros))
    }

    /// From microseconds, clamped; true when it was.
    pub fn clamped(micros: i64) -> (Self, bool) {
        let t = micros.clamp(Self::MIN.0, Self::MAX.0);
        (Self(t), t != micros)
    }

    /// From fields; `None` when one is out of range.
    pub fn new(neg: bool, hour: u32, minute: u32, second: u32, micro: u32) -> Option<Self> {
        if minute > 59 || second > 59 || micro > 999_999 {
            return None;
        }
        let secs = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        let micros = secs * MICROS_PER_SEC + i64::from(micro);
        Self::from_micros(if neg { -micros } else { micros })
    }

    /// Signed microseconds.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// Below zero?
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Hours, 0-838, without the sign.
    pub fn hour(self) -> u32 {
        (self.0.unsigned_abs() / 3_600_000_000) as u32
    }

    /// Minutes.
    pub fn minute(self) -> u32 {
        (self.0.unsigned_abs() / 60_000_000 % 60) as u32
    }

    /// Seconds.
    pub fn second(self) -> u32 {
        (self.0.unsigned_abs() / 1_000_000 % 60) as u32
    }

    /// Microseconds of the second.
    pub fn microsecond(self) -> u32 {
        (self.0.unsigned_abs() % 1_000_000) as u32
    }

    /// Order-preserving form, 6 bytes (below 2^48).
    pub fn packed(self) -> u64 {
        (self.0 + (1 << 47)) as u64
    }

    /// From [`Self::packed`]; `None` for what it cannot give.
    pub fn from_packed(v: u64) -> Option<Self> {
        if v >> 48 != 0 {
            return None;
        }
        Self::from_micros(v as i64 - (1 << 47))
    }

    /// Rounds half away from zero (or truncates) to `fsp` fractional digits; clamped, and true when
    /// rounding carried beyond the range.
    pub fn round(self, fsp: u8, truncate: bool) -> (Self, bool) {
        let unit = fsp_unit(fsp);
        let magnitude = self.0.abs();
        let rest = magnitude % unit;
        let up = !truncate && rest * 2 >= unit;
        let rounded = magnitude - rest + if up { unit } else { 0 };
        Self::clamped(if self.0 < 0 { -rounded } else { rounded })
    }

    /// The moment on the given day, as MySQL's TIME to DATETIME conversion: the day plus the
    /// duration. `None` when it leaves 0000-9999.
    pub fn on_day(self, day: Date) -> Option<DateTime> {
        day.at_midnight().add_micros(self.0)
    }
}

impl DateTime {
    /// 0000-00-00 00:00:00
    pub const ZERO: Self = Self(0);
    /// 9999-12-31 23:59:59.999999
    pub const MAX: Self =
        Self((((9999 * 13 + 12) << 5 | 31) << 17 | 23 << 12 | 59 << 6 | 59) << 24 | 999_999);

    /// From a date and microseconds since midnight (below a day's).
    pub fn from_parts(date: Date, micros: i64) -> Self {
        assert!((0..MICROS_PER_DAY).contains(&micros));
        let secs = (micros / MICROS_PER_SEC) as u64;
        let ymd = u64::from(date.year() * 13 + date.month()) << 5 | u64::from(date.day());
        let hms = (secs / 3600) << 12 | (secs / 60 % 60) << 6 | (secs % 60);
        Self((ymd << 17 | hms) << 24 | (micros % MICROS_PER_SEC) as u64)
    }

    /// From a date and the time of day; `None` when a field is out of range.
    pub fn new(date: Date, hour: u32, minute: u32, second: u32, micro: u32) -> Option<Self> {
        if hour > 23 {
            return None;
        }
        Some(Self::from_parts(
            date,
            Time::new(false, hour, minute, second, micro)?.0,
        ))
    }

    /// The date.
    pub fn date(self) -> Date {
        let ymd = (self.0 >> 41) as u32;
        let ym = ymd >> 5;
        Date((ym / 13) << 9 | (ym % 13) << 5 | ymd & 31)
    }

    /// The time of day.
    pub fn time(self) -> Time {
        let secs = i64::from(self.hour()) * 3600 + i64::from(self.minute() * 60 + self.second());
        Time(secs * MICROS_PER_SEC + i64::from(self.microsecond()))
    }

    /// Hour, 0-23.
    pub fn hour(self) -> u32 {
        (self.0 >> 36) as u32 & 31
    }

    /// Minute.
    pub fn minute(self) -> u32 {
        (self.0 >> 30) as u32 & 63
    }

    /// Second.
    pub fn second(self) -> u32 {
        (self.0 >> 24) as u32 & 63
    }

    /// Microsecond of the second.
    pub fn microsecond(self) -> u32 {
        self.0 as u32 & 0xff_ffff
    }

    /// Is it 0000-00-00 00:00:00.000000?
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The same moment with other microseconds (below a million).
    #[must_use]
    pub fn with_microsecond(self, micro: u32) -> Self {
        assert!(i64::from(micro) < MICROS_PER_SEC);
        Self(self.0 & !0xff_ffff | u64::from(micro))
    }

    /// Order-preserving form, 8 bytes.
    pub fn packed(self) -> u64 {
        self.0
    }

    /// From [`Self::packed`]; `None` for what it cannot give.
    pub fn from_packed(v: u64) -> Option<Self> {
        let ymd = v >> 41;
        let ym = u32::try_from(ymd >> 5).ok()?;
        let date = Date::new(ym / 13, ym % 13, (ymd & 31) as u32)?;
        let d = Self(v);
        Self::new(date, d.hour(), d.minute(), d.second(), d.microsecond())
    }

    /// Adds a duration; `None` when the result is outside 0000-00-01 to 9999-12-31 or the date is
    /// not one of the calendar.
    pub fn add_micros(self, micros: i64) -> Option<Self> {
        let day = i64::from(calendar::day_number(self.date()));
        let total = day
            .checked_mul(MICROS_PER_DAY)?
            .checked_add(self.time().0)?
            .checked_add(micros)?;
        let days = u32::try_from(total.div_euclid(MICROS_PER_DAY)).ok()?;
        let date = calendar::from_day_number(days)?;
        Some(Self::from_parts(date, total.rem_euclid(MICROS_PER_DAY)))
    }

    /// Rounds half up (or truncates) to `fsp` fractional digits.
    ///
    /// # Errors
    /// It rounds up to another second and the date has a month or a day of zero, or year 9999 ends.
    pub fn round(self, fsp: u8, truncate: bool) -> Result<Self, TemporalWarn> {
        let unit = fsp_unit(fsp);
        let micro = i64::from(self.microsecond());
        let rest = micro % unit;
        if rest == 0 {
            return Ok(self);
        }
        let down = Self(self.0 - rest as u64);
        if truncate || rest * 2 < unit {
            return Ok(down);
        }
        down.carry(unit)
    }

    /// Adds less than a second or one. Where another second begins, a day that the month does not have becomes one of
    /// the next month, as in MySQL.
    ///
    /// # Errors
    /// Another second begins and the date has a month or a day of zero, or year 9999 ends.
    fn carry(self, micros: i64) -> Result<Self, TemporalWarn> {
        let (date, time) = (self.date(), self.time().0);
        let later = time + micros;
        let is_same_second = later / MICROS_PER_SEC == time / MICROS_PER_SEC;
        if is_same_second || (later < MICROS_PER_DAY && date.is_calendar_day()) {
            return Ok(Self::from_parts(date, later));
        }
        if date.has_zero_part() {
            return Err(TemporalWarn::ZERO_IN_DATE);
        }
        let overflow = TemporalWarn(TemporalWarn::FIELD_OVERFLOW.0 | TemporalWarn::OUT_OF_RANGE.0);
        self.add_micros(micros).ok_or(overflow)
    }
}

/// Microseconds of one unit in the last of `fsp` digits.
pub fn fsp_unit(fsp: u8) -> i64 {
    debug_assert!(fsp <= MAX_FSP);
    10i64.pow(u32::from(MAX_FSP - fsp.min(MAX_FSP)))
}
