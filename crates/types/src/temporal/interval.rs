//! INTERVAL: units, values, and adding them to dates.
//!
//! Neighbours: the DATE_ADD family in `func`.
//! **Invariants**: an [`Interval`]'s parts are magnitudes, the sign is apart; adding months keeps
//! the day when the new month has it, else takes the month's last.

use super::{Date, DateTime, MICROS_PER_DAY, MICROS_PER_SEC, calendar};

/// Units of INTERVAL, EXTRACT and TIMESTAMPADD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are MySQL's keywords")]
pub enum IntervalUnit {
    Microsecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    SecondMicrosecond,
    MinuteMicrosecond,
    MinuteSecond,
    HourMicrosecond,
    HourSecond,
    HourMinute,
    DayMicrosecond,
    DaySecond,
    DayMinute,
    DayHour,
    YearMonth,
}

/// Parts of an interval, in the order in which compound texts give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Micro,
}

use IntervalUnit as U;

impl IntervalUnit {
    /// Every unit with its keyword in lower case.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("microsecond", U::Microsecond),
        ("second", U::Second),
        ("minute", U::Minute),
        ("hour", U::Hour),
        ("day", U::Day),
        ("week", U::Week),
        ("month", U::Month),
        ("quarter", U::Quarter),
        ("year", U::Year),
        ("second_microsecond", U::SecondMicrosecond),
        ("minute_microsecond", U::MinuteMicrosecond),
        ("minute_second", U::MinuteSecond),
        ("hour_microsecond", U::HourMicrosecond),
        ("hour_second", U::HourSecond),
        ("hour_minute", U::HourMinute),
        ("day_microsecond", U::DayMicrosecond),
        ("day_second", U::DaySecond),
        ("day_minute", U::DayMinute),
        ("day_hour", U::DayHour),
        ("year_month", U::YearMonth),
    ];

    /// By keyword, any case, with or without `SQL_TSI_`.
    pub fn by_name(name: &str) -> Option<Self> {
        let bare = match name.get(..8) {
            Some(p) if p.eq_ignore_ascii_case("SQL_TSI_") => &name[8..],
            _ => name,
        };
        Self::ALL
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(bare))
            .map(|(_, u)| *u)
    }

    /// The keyword in lower case.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, u)| *u == self)
            .map_or("", |(n, _)| n)
    }

    /// Does the unit only touch the date (YEAR to DAY)?
    pub fn is_date_only(self) -> bool {
        matches!(
            self,
            U::Day | U::Week | U::Month | U::Quarter | U::Year | U::YearMonth
        )
    }

    /// Does the unit count days or more?
    pub fn has_days(self) -> bool {
        self.is_date_only()
            || matches!(
                self,
                U::DayMicrosecond | U::DaySecond | U::DayMinute | U::DayHour
            )
    }

    /// Can adding it give microseconds?
    pub fn has_micros(self) -> bool {
        matches!(
            self,
            U::Microsecond
                | U::SecondMicrosecond
                | U::MinuteMicrosecond
                | U::HourMicrosecond
                | U::DayMicrosecond
        )
    }

    /// The parts of a compound unit, the last being the smallest; empty for simple units.
    fn parts(self) -> &'static [Part] {
        use Part as P;
        const DAY_TO_MICRO: &[Part] = &[P::Day, P::Hour, P::Minute, P::Second, P::Micro];
        match self {
            U::YearMonth => &[P::Year, P::Month],
            U::DayMicrosecond => DAY_TO_MICRO,
            U::DaySecond => &DAY_TO_MICRO[..4],
            U::DayMinute => &DAY_TO_MICRO[..3],
            U::DayHour => &DAY_TO_MICRO[..2],
            U::HourMicrosecond => &DAY_TO_MICRO[1..],
            U::HourSecond => &DAY_TO_MICRO[1..4],
            U::HourMinute => &DAY_TO_MICRO[1..3],
            U::MinuteMicrosecond => &DAY_TO_MICRO[2..],
            U::MinuteSecond => &DAY_TO_MICRO[2..4],
            U::SecondMicrosecond => &DAY_TO_MICRO[3..],
            _ => &[],
        }
    }

    /// Is it one like DAY_HOUR, whose values are texts?
    pub fn is_compound(self) -> bool {
        !self.parts().is_empty()
    }
}

/// A signed amount of time in calendar parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    /// To be subtracted?
    pub neg: bool,
    /// Months, years included.
    pub months: u64,
    /// Days.
    pub days: u64,
    /// Microseconds, hours to seconds included.
    pub micros: u128,
}

impl Interval {
    /// `n` of a simple unit (`None` for compound ones, whose values are texts).
    pub fn from_int(unit: IntervalUnit, n: i64) -> Option<Self> {
        let v = n.unsigned_abs();
        let mut out = Self {
            neg: n < 0,
            ..Self::default()
        };
        let second = u128::from(v) * MICROS_PER_SEC as u128;
        match unit {
            U::Microsecond => out.micros = v.into(),
            U::Second => out.micros = second,
            U::Minute => out.micros = second * 60,
            U::Hour => out.micros = second * 3600,
            U::Day => out.days = v,
            U::Week => out.days = v.saturating_mul(7),
            U::Month => out.months = v,
            U::Quarter => out.months = v.saturating_mul(3),
            U::Year => out.months = v.saturating_mul(12),
            _ => return None,
        }
        Some(out)
    }

    /// Seconds given as microseconds (INTERVAL 1.5 SECOND).
    pub fn from_second_micros(micros: i64) -> Self {
        Self {
            neg: micros < 0,
            micros: micros.unsigned_abs().into(),
            ..Self::default()
        }
    }

    /// The value of a compound unit, such as `1 2:3` for DAY_MINUTE. `None` when there are more
    /// numbers than the unit has parts, or one is too long.
    pub fn from_text(unit: IntervalUnit, text: &[u8]) -> Option<Self> {
        let parts = unit.parts();
        debug_assert!(!parts.is_empty());
        let start = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let neg = text.get(start) == Some(&b'-');
        let values = compound_values(&text[start..], parts)?;
        let mut out = Self {
            neg,
            ..Self::default()
        };
        for (part, v) in parts.iter().zip(values) {
            let second = u128::from(v) * MICROS_PER_SEC as u128;
            match part {
                Part::Year => out.months = out.months.saturating_add(v.saturating_mul(12)),
                Part::Month => out.months = out.months.saturating_add(v),
                Part::Day => out.days = v,
                Part::Hour => out.micros += second * 3600,
                Part::Minute => out.micros += second * 60,
                Part::Second => out.micros += second,
                Part::Micro => out.micros += u128::from(v),
            }
        }
        Some(out)
    }

    /// The other direction (DATE_SUB).
    #[must_use]
    pub fn negate(self) -> Self {
        Self {
            neg: !self.neg,
            ..self
        }
    }

    /// Days and smaller parts in signed microseconds; `None` when it has months or is too large
    /// for any date.
    pub fn total_micros(self) -> Option<i64> {
        if self.months != 0 {
            return None;
        }
        let days = u128::from(self.days).checked_mul(MICROS_PER_DAY as u128)?;
        let total = i64::try_from(days.checked_add(self.micros)?).ok()?;
        Some(if self.neg { -total } else { total })
    }
}

/// Numbers of a text, aligned to the smallest parts when there are fewer.
fn compound_values(text: &[u8], parts: &[Part]) -> Option<[u64; 5]> {
    /// Longer runs of digits overflow.
    const MAX_DIGITS: usize = 19;
    let mut values = [0u64; 5];
    let mut count = 0;
    let mut last_len = 0;
    let mut rest = text;
    loop {
        let skip = rest.iter().take_while(|b| !b.is_ascii_digit()).count();
        rest = &rest[skip..];
        if rest.is_empty() {
            break;
        }
        let len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if count == parts.len() || len > MAX_DIGITS {
            return None;
        }
        values[count] = rest[..len].iter().try_fold(0u64, |v, b| {
            v.checked_mul(10)?.checked_add(u64::from(b - b'0'))
        })?;
        (count, last_len, rest) = (count + 1, len, &rest[len..]);
    }
    if parts.last() == Some(&Part::Micro) && count > 0 {
        // More digits than six are a number of microseconds beyond a second, as MySQL has it.
        values[count - 1] *= 10u64.pow(6u32.saturating_sub(last_len as u32));
    }
    values[..parts.len()].rotate_right(parts.len() - count);
    Some(values)
}

/// The date some months later (earlier); `None` outside years 0-9999.
fn add_months(date: Date, months: u64, neg: bool) -> Option<Date> {
    let months = i64::try_from(months).ok()?;
    let at = i64::from(date.year()) * 12 + i64::from(date.month()) - 1;
    let at = at.checked_add(if neg { -months } else { months })?;
    if !(0..120_000).contains(&at) {
        return None;
    }
    let (year, month) = ((at / 12) as u32, (at % 12) as u32 + 1);
    Date::new(
        year,
        month,
        date.day().min(calendar::days_in_month(year, month)),
    )
}

impl Date {
    /// Adds whole days and months; `None` when it leaves the calendar.
    pub fn add_interval(self, interval: &Interval) -> Option<Self> {
        self.at_midnight()
            .add_interval(interval)
            .map(DateTime::date)
    }
}

impl DateTime {
    /// Adds an interval (months first); `None` when it leaves the calendar (error 1441 or NULL, as
    /// the caller's context has it).
    pub fn add_interval(self, interval: &Interval) -> Option<Self> {
        let mut out = self;
        if interval.months != 0 {
            let date = add_months(self.date(), interval.months, interval.neg)?;
            out = Self::from_parts(date, self.time().micros());
        }
        if interval.days != 0 || interval.micros != 0 {
            let rest = Interval {
                months: 0,
                ..*interval
            };
            out = out.add_micros(rest.total_micros()?)?;
        }
        Some(out)
    }
}
