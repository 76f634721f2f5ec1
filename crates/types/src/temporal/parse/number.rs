//! Numbers read as dates (YYYYMMDD[hhmmss] and short forms) and as durations (hhmmss).
//!
//! Neighbours: `cast` splits fractions off first.
//! **Invariant**: a number that is no date is reported as cut, whatever is wrong with it, as MySQL
//! does; only 0 and numbers too large are told apart.

use super::{DateFlags, NotTemporal, Parsed, ParsedKind, TemporalWarn, check_date};
use crate::temporal::{Date, DateTime, Time};

/// YYYYMMDD, YYMMDD, YYYYMMDDhhmmss or YYMMDDhhmmss as a number.
pub fn datetime_from_number(n: i64, flags: DateFlags) -> Result<Parsed, NotTemporal> {
    let truncated = NotTemporal::bad(TemporalWarn::TRUNCATED);
    let mut kind = ParsedKind::Date;
    let full = match n {
        0 | 10_000_101_000_000.. => {
            kind = ParsedKind::DateTime;
            if n > 99_999_999_999_999 {
                return Err(NotTemporal::bad(TemporalWarn::OUT_OF_RANGE));
            }
            n
        }
        101..=691_231 => (n + 20_000_000) * 1_000_000,
        700_101..=991_231 => (n + 19_000_000) * 1_000_000,
        10_000_101..=99_991_231 => n * 1_000_000,
        // Years before 1000 only where dates may be fuzzy.
        991_232..=10_000_100 if flags.has(DateFlags::FUZZY) => n * 1_000_000,
        101_000_000..=691_231_235_959 => {
            kind = ParsedKind::DateTime;
            n + 20_000_000_000_000
        }
        700_101_000_000..=10_000_100_999_999 => {
            kind = ParsedKind::DateTime;
            if n <= 991_231_235_959 {
                n + 19_000_000_000_000
            } else {
                n
            }
        }
        _ => return Err(truncated),
    };

    let (ymd, hms) = ((full / 1_000_000) as u32, (full % 1_000_000) as u32);
    let date = Date::new(ymd / 10_000, ymd / 100 % 100, ymd % 100).ok_or(truncated)?;
    let value =
        DateTime::new(date, hms / 10_000, hms / 100 % 100, hms % 100, 0).ok_or(truncated)?;
    check_date(date, full != 0, flags).map_err(|warn| {
        if full == 0 {
            NotTemporal::bad(warn)
        } else {
            truncated
        }
    })?;
    Ok(Parsed::moment(value, kind))
}

/// Largest number of the form hhhmmss.
const TIME_NUMBER_MAX: i64 = 8_385_959;
/// Larger numbers may be dates with time.
const DATETIME_NUMBER_MIN: i64 = 10_000_000_000;

/// hhhmmss as a number (a date with time for large ones). Out of range numbers give the largest
/// time with a warning.
pub fn time_from_number(n: i64) -> Result<Parsed, NotTemporal> {
    if n > TIME_NUMBER_MAX {
        if n >= DATETIME_NUMBER_MIN
            && let Ok(moment) = datetime_from_number(n, DateFlags::NONE)
        {
            return Ok(moment);
        }
        return Ok(Parsed::duration(Time::MAX, TemporalWarn::OUT_OF_RANGE));
    }
    if n < -TIME_NUMBER_MAX {
        return Ok(Parsed::duration(Time::MIN, TemporalWarn::OUT_OF_RANGE));
    }
    let m = n.unsigned_abs() as u32;
    Time::new(n < 0, m / 10_000, m / 100 % 100, m % 100, 0)
        .map(|t| Parsed::duration(t, TemporalWarn::NONE))
        .ok_or(NotTemporal {
            warn: TemporalWarn::OUT_OF_RANGE,
            like_date: true,
        })
}
