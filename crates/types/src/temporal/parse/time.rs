//! Texts of durations: `[D ]hh:mm:ss.f`, `hhmmss.f`, or a full date with a time of day.
//!
//! Neighbours: `date` reads the full dates.
//! **Invariant**: durations beyond 838:59:59 are clamped and said to be out of range.

use super::date::parse_moment;
use super::{DateFlags, NotTemporal, Parsed, TemporalWarn, leading_spaces, superfluous};
use crate::decimal::is_space;
use crate::temporal::{MICROS_PER_SEC, Time};

/// The four numbers of a duration text: days, hours, minutes, seconds.
struct Duration {
    parts: [u64; 4],
    at: usize,
    /// Where more than one space stands after the days.
    wide_gap: Option<usize>,
}

/// Digits at `at` as a number (clamped) and the place after them.
fn number(text: &[u8], mut at: usize) -> (u64, usize) {
    let mut v = 0u64;
    while let Some(b) = text.get(at).filter(|b| b.is_ascii_digit()) {
        v = v.saturating_mul(10).saturating_add(u64::from(b - b'0'));
        at += 1;
    }
    (v, at)
}

fn digit_at(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(u8::is_ascii_digit)
}

fn scan_duration(text: &[u8], start: usize) -> Duration {
    let (value, end_of_days) = number(text, start);
    let mut at = end_of_days
        + text[end_of_days..]
            .iter()
            .take_while(|b| is_space(**b))
            .count();
    let wide_gap = (at - end_of_days > 1).then_some(end_of_days);
    let mut parts = [0u64; 4];
    let mut filled;
    if text.len() - at > 1 && at != end_of_days && digit_at(text, at) {
        parts[0] = value;
        filled = 1;
    } else if text.get(at) == Some(&b':') && digit_at(text, at + 1) {
        parts[1] = value;
        filled = 2;
        at += 1;
    } else {
        let parts = [0, value / 10_000, value / 100 % 100, value % 100];
        return Duration {
            parts,
            at,
            wide_gap: None,
        };
    }
    loop {
        (parts[filled], at) = number(text, at);
        filled += 1;
        if filled == 4 || text.get(at) != Some(&b':') || !digit_at(text, at + 1) {
            return Duration {
                parts,
                at,
                wide_gap,
            };
        }
        at += 1;
    }
}

/// A fraction at `at`: microseconds, whether the seventh digit rounds up, digits, place after it.
fn scan_fraction(text: &[u8], at: usize) -> (u32, bool, u8, usize) {
    if text.get(at) != Some(&b'.') {
        return (0, false, 0, at);
    }
    if !digit_at(text, at + 1) {
        // A point alone is part of the number only when it is the last character.
        return (0, false, 0, if text.len() == at + 1 { at + 1 } else { at });
    }
    let digits = &text[at + 1..];
    let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let kept = len.min(6);
    let mut micro = digits[..kept]
        .iter()
        .fold(0, |v, b| v * 10 + u32::from(b - b'0'));
    micro *= 10u32.pow(6 - kept as u32);
    (
        micro,
        len > 6 && digits[6] >= b'5',
        kept as u8,
        at + 1 + len,
    )
}

/// Days, hours, minutes and seconds in seconds.
fn seconds_of(parts: [u64; 4]) -> Result<u64, NotTemporal> {
    let [days, hours, minutes, seconds] = parts;
    let too_large = parts.iter().any(|p| *p > u64::from(u32::MAX));
    if too_large || minutes > 59 || seconds > 59 {
        return Err(NotTemporal {
            warn: TemporalWarn::OUT_OF_RANGE,
            like_date: !too_large,
        });
    }
    Ok((hours + days * 24) * 3600 + minutes * 60 + seconds)
}

/// Text of at least this length is tried as a date with time first.
const FULL_TIMESTAMP_LEN: usize = 12;

/// Reads a duration, or the time of day of a full date with time.
pub fn parse_time(text: &[u8], flags: DateFlags) -> Result<Parsed, NotTemporal> {
    let mut start = text.iter().take_while(|b| is_space(**b)).count();
    let mut deprecated = leading_spaces(text, start);
    let length = text.len() - start;
    let neg = text.get(start) == Some(&b'-');
    start += usize::from(neg);
    if start == text.len() {
        return Err(NotTemporal::SILENT);
    }
    if length - usize::from(neg) >= FULL_TIMESTAMP_LEN {
        let truncate = DateFlags(flags.0 & DateFlags::TRUNCATE_FRACTION.0);
        let as_date = DateFlags::FUZZY
            .with(DateFlags::DATETIME_ONLY)
            .with(truncate);
        match parse_moment(text, as_date) {
            Err(e) if !e.like_date => {}
            Err(e) => return Err(e),
            // The time of day alone is rounded: it may become 24:00:00.
            Ok((m, round_up)) => {
                let time = Time::clamped(m.time.micros() + i64::from(round_up)).0;
                return Ok(Parsed { time, ..m });
            }
        }
    }
    let d = scan_duration(text, start);
    let (micro, round_up, digits, at) = scan_fraction(text, d.at);
    if has_exponent(&text[at..]) {
        return Err(NotTemporal::SILENT);
    }
    if let Some(position) = d.wide_gap {
        superfluous(&mut deprecated, text, position);
    }
    if text.get(at).is_some_and(|b| is_space(*b)) {
        superfluous(&mut deprecated, text, at);
    }
    let secs = seconds_of(d.parts)?;
    let round_up = round_up && !flags.has(DateFlags::TRUNCATE_FRACTION);
    let magnitude = i64::try_from(secs)
        .unwrap_or(i64::MAX)
        .saturating_mul(MICROS_PER_SEC);
    let magnitude = magnitude.saturating_add(i64::from(micro)).min(i64::MAX - 1);
    let (time, clamped) = Time::clamped(if neg { -magnitude } else { magnitude });
    let mut warn = if clamped {
        TemporalWarn::OUT_OF_RANGE
    } else {
        TemporalWarn::NONE
    };
    let (time, over) = match round_up {
        true => Time::clamped(time.micros() + if neg { -1 } else { 1 }),
        false => (time, false),
    };
    if over {
        warn.add(TemporalWarn::OUT_OF_RANGE);
    }
    if text[at..].iter().any(|b| !is_space(*b)) {
        if at == start {
            return Err(NotTemporal::UNREADABLE);
        }
        warn.add(TemporalWarn::TRUNCATED);
    }
    Ok(Parsed {
        digits,
        deprecated,
        ..Parsed::duration(time, warn)
    })
}

/// `e5` or `e-5`, the mark of a double's text.
fn has_exponent(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'e' | b'E'))
        && (digit_at(text, 1) || (matches!(text.get(1), Some(b'+' | b'-')) && digit_at(text, 2)))
}
