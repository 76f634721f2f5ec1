//! The proleptic Gregorian calendar as MySQL counts it.
//!
//! Neighbours: `interval`, the date functions of `func`.
//! **Invariants**: day number 1 is 0000-01-01, as TO_DAYS says; year 0 has 365 days, and so has the year before it,
//! which weeks reach into.

use super::Date;

/// Largest day number: 9999-12-31.
pub const MAX_DAY_NUMBER: u32 = 3_652_424;

/// Is there a 29th of February?
pub fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || (year.is_multiple_of(400) && year != 0))
}

/// 365 or 366.
pub fn days_in_year(year: u32) -> u32 {
    365 + u32::from(is_leap(year))
}

/// Days of a month (0 for month 0).
pub fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap(year)),
        _ => 0,
    }
}

/// TO_DAYS of fields: also for days that the calendar does not have (2026-02-31 is March 3rd).
pub fn day_number_of(year: u32, month: u32, day: u32) -> u32 {
    if year == 0 && month == 0 {
        return 0;
    }
    let (year, month, day) = (i64::from(year), i64::from(month), i64::from(day));
    let mut days = 365 * year + 31 * (month - 1) + day;
    let mut y = year;
    if month <= 2 {
        y -= 1;
    } else {
        days -= (month * 4 + 23) / 10;
    }
    let century = (y / 100 + 1) * 3 / 4;
    u32::try_from(days + y / 4 - century).unwrap_or(0)
}

/// TO_DAYS.
pub fn day_number(date: Date) -> u32 {
    day_number_of(date.year(), date.month(), date.day())
}

/// FROM_DAYS; `None` outside 0000-01-01..9999-12-31.
pub fn from_day_number(days: u32) -> Option<Date> {
    if days == 0 || days > MAX_DAY_NUMBER {
        return None;
    }
    let mut year = days * 100 / 36_525;
    let mut day_of_year = match year.checked_sub(1) {
        Some(last) => days - year * 365 - last / 4 + (last / 100 + 1) * 3 / 4,
        None => days,
    };
    while day_of_year > days_in_year(year) {
        day_of_year -= days_in_year(year);
        year += 1;
    }
    let mut month = 1;
    while day_of_year > days_in_month(year, month) {
        day_of_year -= days_in_month(year, month);
        month += 1;
    }
    Date::new(year, month, day_of_year)
}

/// Day of the week: 0 = Monday (or 0 = Sunday).
pub fn weekday(day_number: u32, sunday_first: bool) -> u32 {
    (day_number + 5 + u32::from(sunday_first)) % 7
}

/// Day of the year, from 1.
pub fn day_of_year(date: Date) -> u32 {
    day_number(date) - day_number_of(date.year(), 1, 1) + 1
}

/// Last day of the date's month.
pub fn last_day(date: Date) -> Option<Date> {
    Date::new(
        date.year(),
        date.month(),
        days_in_month(date.year(), date.month()),
    )
    .filter(|d| !d.has_zero_part())
}

/// Bits of a week mode after [`week_mode`].
const MONDAY_FIRST: u32 = 1;
const WEEK_YEAR: u32 = 2;
const FIRST_WEEKDAY: u32 = 4;

/// WEEK's mode argument as flags.
fn week_mode(mode: u32) -> u32 {
    let flags = mode & 7;
    if flags & MONDAY_FIRST == 0 {
        flags ^ FIRST_WEEKDAY
    } else {
        flags
    }
}

/// WEEK(date, mode) and the year that week belongs to (what YEARWEEK shows, with mode | 2): -1 before year 0.
pub fn week(date: Date, mode: u32) -> (u32, i32) {
    let flags = week_mode(mode);
    let days = i64::from(day_number(date));
    let first_day = day_number_of(date.year(), 1, 1);
    let monday_first = flags & MONDAY_FIRST != 0;
    let mut week_year = flags & WEEK_YEAR != 0;
    let first_weekday = flags & FIRST_WEEKDAY != 0;
    let mut start = weekday(first_day, !monday_first);
    let mut first_day = i64::from(first_day);
    let mut year = date.year() as i32;
    let length_of = |year: i32| u32::try_from(year).map_or(365, days_in_year);
    if date.month() == 1 && date.day() <= 7 - start {
        if !week_year && ((first_weekday && start != 0) || (!first_weekday && start >= 4)) {
            return (0, year);
        }
        week_year = true;
        year -= 1;
        let length = length_of(year);
        first_day -= i64::from(length);
        start = (start + 53 * 7 - length) % 7;
    }
    let counts_from_next = (first_weekday && start != 0) || (!first_weekday && start >= 4);
    let start_of_weeks = match counts_from_next {
        true => first_day + 7 - i64::from(start),
        false => first_day - i64::from(start),
    };
    // Dates with a month of zero are before their year: the number wraps, as in MySQL.
    let passed = (days - start_of_weeks) as u32;
    if week_year && passed >= 52 * 7 {
        start = (start + length_of(year)) % 7;
        if (!first_weekday && start < 4) || (first_weekday && start == 0) {
            return (1, year + 1);
        }
    }
    (passed / 7 + 1, year)
}
