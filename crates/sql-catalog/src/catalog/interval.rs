//! How often an event runs: an amount of one unit of INTERVAL, counted in its smallest part.
//!
//! Neighbours: `event` keeps it; the session makes it of what EVERY says.
//! **Invariants**: an amount is at least 1 and at most [`MAX_AMOUNT`]; times are counted by the clock on the wall of
//! the event's time zone, as in MySQL, so a day is a day also where clocks change.

use esker_types::temporal::{DateTime, Interval, IntervalUnit as U, MICROS_PER_SEC};
use jiff::tz::TimeZone;

/// Largest amount, in the smallest part of the unit; MySQL's.
const MAX_AMOUNT: u64 = 1_000_000_000;
/// Steps that are tried where clocks change.
const MAX_TRIES: u64 = 4;

/// How often an event runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventInterval {
    unit: U,
    /// Of the smallest part of the unit; a quarter counts as three months, a week as seven days.
    amount: u64,
}

/// The time from one run to the next.
#[derive(Clone, Copy)]
enum Step {
    Months(u64),
    Seconds(u64),
}

impl EventInterval {
    /// An amount of the smallest part; None: there are no events of this unit, or of so many.
    pub fn new(unit: U, amount: u64) -> Option<Self> {
        let fits = !unit.has_micros() && (1..=MAX_AMOUNT).contains(&amount);
        fits.then_some(Self { unit, amount })
    }

    /// What EVERY says; None: it is not positive, or too much.
    pub fn of(unit: U, interval: &Interval) -> Option<Self> {
        if interval.neg {
            return None;
        }
        let seconds = u64::try_from(interval.micros / MICROS_PER_SEC as u128).ok()?;
        let seconds = interval.days.checked_mul(86_400)?.checked_add(seconds)?;
        let amount = match (unit, smallest(unit)) {
            (U::Year, _) => interval.months / 12,
            (_, Step::Months(_)) => interval.months,
            (_, Step::Seconds(part)) => seconds / part,
        };
        Self::new(unit, amount)
    }

    /// In the smallest part of the unit.
    pub fn amount(self) -> u64 {
        self.amount
    }

    /// The unit's word.
    pub fn unit_text(self) -> String {
        self.unit.name().to_uppercase()
    }

    /// The amount as CREATE EVENT has it: that of a compound unit is a text.
    pub fn text(self) -> String {
        let n = self.amount;
        let (minutes, hours) = (n / 60, n / 3600);
        match self.unit {
            U::Quarter => (n / 3).to_string(),
            U::Week => (n / 7).to_string(),
            U::YearMonth => format!("'{}-{}'", n / 12, n % 12),
            U::DayHour => format!("'{} {}'", n / 24, n % 24),
            U::DayMinute => format!("'{} {}:{}'", n / 1440, n / 60 % 24, n % 60),
            U::DaySecond => format!(
                "'{} {}:{}:{}'",
                n / 86_400,
                hours % 24,
                minutes % 60,
                n % 60
            ),
            U::HourMinute | U::MinuteSecond => format!("'{}:{}'", n / 60, n % 60),
            U::HourSecond => format!("'{hours}:{}:{}'", minutes % 60, n % 60),
            _ => n.to_string(),
        }
    }

    /// The first moment behind `after` in steps from `starts`, in seconds; None: it is beyond the calendar.
    pub fn next(self, starts: i64, after: i64, zone: &TimeZone) -> Option<i64> {
        if starts > after {
            return Some(starts);
        }
        let local = |seconds: i64| DateTime::from_utc(seconds.checked_mul(MICROS_PER_SEC)?, zone);
        let (first, now) = (local(starts)?, local(after)?);
        let step = self.step();
        let passed = match step {
            Step::Months(months) => months_between(first, now)? / months,
            Step::Seconds(seconds) => {
                let micros = now.micros_as_utc()? - first.micros_as_utc()?;
                u64::try_from(micros / MICROS_PER_SEC).unwrap_or(0) / seconds
            }
        };
        let tries = passed.saturating_sub(1)..passed.checked_add(MAX_TRIES)?;
        let mut moments = tries.filter_map(|steps| moment(first, step, steps, zone));
        let found = moments.find(|moment| *moment > after);
        match (found, step) {
            (None, Step::Seconds(seconds)) => {
                // An hour that the clock shows twice.
                let seconds = i64::try_from(seconds).ok()?;
                let next = (after - starts) / seconds + 1;
                starts.checked_add(next.checked_mul(seconds)?)
            }
            (found, _) => found,
        }
    }

    fn step(self) -> Step {
        match (self.unit, smallest(self.unit)) {
            (U::Year, _) => Step::Months(self.amount * 12),
            (_, Step::Months(_)) => Step::Months(self.amount),
            (_, Step::Seconds(part)) => Step::Seconds(self.amount * part),
        }
    }
}

/// The smallest part of a unit.
fn smallest(unit: U) -> Step {
    match unit {
        U::Year | U::Month | U::Quarter | U::YearMonth => Step::Months(1),
        U::Day | U::Week => Step::Seconds(86_400),
        U::Hour | U::DayHour => Step::Seconds(3600),
        U::Minute | U::DayMinute | U::HourMinute => Step::Seconds(60),
        _ => Step::Seconds(1),
    }
}

fn months_between(first: DateTime, now: DateTime) -> Option<u64> {
    let months = |at: DateTime| u64::from(at.date().year()) * 12 + u64::from(at.date().month());
    months(now).checked_sub(months(first))
}

/// The moment so many steps behind the first one.
fn moment(first: DateTime, step: Step, steps: u64, zone: &TimeZone) -> Option<i64> {
    let by = match step {
        Step::Months(months) => Interval {
            months: months.checked_mul(steps)?,
            ..Interval::default()
        },
        Step::Seconds(seconds) => Interval {
            micros: u128::from(seconds.checked_mul(steps)?) * MICROS_PER_SEC as u128,
            ..Interval::default()
        },
    };
    let utc = first.add_interval(&by)?.to_utc(zone)?;
    Some(utc.micros.div_euclid(MICROS_PER_SEC))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(unit: U, amount: u64) -> EventInterval {
        EventInterval::new(unit, amount).expect("a unit of events")
    }

    #[test]
    fn amounts_are_told_as_mysql_tells_them() {
        let of = |unit, text: &[u8]| {
            let interval = Interval::from_text(unit, text).expect("an interval");
            EventInterval::of(unit, &interval).expect("positive").text()
        };
        assert_eq!(of(U::MinuteSecond, b"1:90"), "'2:30'");
        assert_eq!(of(U::HourMinute, b"400"), "'6:40'");
        assert_eq!(of(U::DayMinute, b"3 10:20"), "'3 10:20'");
        assert_eq!(of(U::DaySecond, b"1 1:1:1"), "'1 1:1:1'");
        assert_eq!(of(U::HourSecond, b"1:2:3"), "'1:2:3'");
        assert_eq!(of(U::DayHour, b"1 2"), "'1 2'");
        assert_eq!(of(U::YearMonth, b"1-14"), "'2-2'");
        let simple = |unit, n| EventInterval::of(unit, &Interval::from_int(unit, n)?);
        assert_eq!(
            simple(U::Quarter, 2).map(|i| i.text()).as_deref(),
            Some("2")
        );
        assert_eq!(simple(U::Week, 3).map(|i| i.text()).as_deref(), Some("3"));
        assert_eq!(simple(U::Year, 1).map(|i| i.amount()), Some(1));
        assert_eq!(simple(U::Hour, 0), None);
        assert_eq!(simple(U::Hour, -1), None);
        assert_eq!(simple(U::Second, 1_000_000_001), None);
        assert_eq!(simple(U::Microsecond, 1), None);
    }

    #[test]
    fn months_end_where_they_end() {
        let utc = TimeZone::UTC;
        let at = |text: &str| {
            let moment: jiff::Timestamp = text.parse().expect("a moment");
            moment.as_second()
        };
        let month = every(U::Month, 1);
        let start = at("2024-01-31T10:00:00Z");
        let next = |after: &str| month.next(start, at(after), &utc);
        assert_eq!(
            next("2024-01-31T10:00:00Z"),
            Some(at("2024-02-29T10:00:00Z"))
        );
        assert_eq!(
            next("2024-02-29T10:00:00Z"),
            Some(at("2024-03-31T10:00:00Z"))
        );
        assert_eq!(next("2023-01-01T00:00:00Z"), Some(start));
        let year = every(U::Year, 1);
        assert_eq!(
            year.next(start, at("2030-02-01T00:00:00Z"), &utc),
            Some(at("2031-01-31T10:00:00Z"))
        );
        assert_eq!(
            every(U::Quarter, 3).next(start, start, &utc),
            Some(at("2024-04-30T10:00:00Z"))
        );
    }

    #[test]
    fn a_day_is_a_day_where_clocks_change() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let at = |text: &str| {
            text.parse::<jiff::Timestamp>()
                .expect("a moment")
                .as_second()
        };
        let day = every(U::Day, 1);
        let start = at("2024-03-30T02:30:00Z");
        assert_eq!(
            day.next(start, start, &zone),
            Some(at("2024-03-31T01:30:00Z"))
        );
        // An hour that is shown twice does not stop what runs every second.
        let second = every(U::Second, 1);
        let twice = at("2024-10-27T01:10:00Z");
        assert_eq!(second.next(start, twice, &zone), Some(twice + 1));
    }
}
