//! Texts of dates with or without a time of day.
//!
//! Neighbours: `time` tries long texts here first.
//! **Invariant**: a field is at most 999999 and is checked against its range before it is used.

use super::{
    DateFlags, Deprecated, NotTemporal, Parsed, ParsedKind, TemporalWarn, check_date,
    leading_spaces, superfluous,
};
use crate::decimal::is_space;
use crate::temporal::{Date, DateTime, MAX_FSP};

/// Fields of a date text: year, month, day, hour, minute, second, fraction.
const PARTS: usize = 7;
const YEAR: usize = 0;
const MONTH: usize = 1;
const DAY: usize = 2;
const SECOND: usize = 5;
const FRACTION: usize = 6;
/// A two digit year below this is of the 2000s.
const CENTURY_PIVOT: u32 = 70;
/// Larger field values are nonsense.
const PART_LIMIT: u32 = 999_999;
/// `+hh:mm`
const DISPLACEMENT_LEN: usize = 6;
/// Largest offset, 14 hours.
const MAX_DISPLACEMENT_SECS: i32 = 14 * 3600;

/// What the scan of a date text found.
#[derive(Default)]
struct Fields {
    value: [u32; PARTS],
    len: [usize; PARTS],
    count: usize,
    /// Where scanning stopped.
    at: usize,
    /// All digits, without delimiters.
    compact: bool,
    year_digits: usize,
    displacement: Option<i32>,
    deprecated: Option<Deprecated>,
}

/// The delimiter that stands after a field in standard notation.
fn standard_delimiter(part: usize) -> u8 {
    match part {
        YEAR | MONTH => b'-',
        DAY => b' ',
        _ => b':',
    }
}

/// What the delimiters between two fields were.
struct Delimiters {
    /// How many.
    len: usize,
    has_space: bool,
}

/// Reads the delimiters at `at`, after field number `part`.
fn scan_delimiters(
    text: &[u8],
    at: usize,
    part: usize,
    noted: &mut Option<Deprecated>,
) -> Result<Delimiters, NotTemporal> {
    let mut found = Delimiters {
        len: 0,
        has_space: false,
    };
    while let Some(&b) = text.get(at + found.len) {
        if !is_space(b) && !b.is_ascii_punctuation() {
            break;
        }
        if is_space(b) && part != DAY {
            return Err(NotTemporal::UNREADABLE);
        }
        found.has_space |= is_space(b);
        let standard = standard_delimiter(part);
        let position = at + found.len;
        let last = position + 1 == text.len();
        if found.len > 0 || (is_space(b) && last) {
            superfluous(noted, text, position);
        } else if b != standard {
            let standard = Some(standard);
            noted.get_or_insert(Deprecated {
                delimiter: b,
                position,
                standard,
            });
        }
        found.len += 1;
    }
    Ok(found)
}

/// Reads `+hh:mm` that fills the rest of the text.
fn displacement(text: &[u8]) -> Option<i32> {
    let text = text.trim_ascii_end();
    if text.len() != DISPLACEMENT_LEN || text[3] != b':' {
        return None;
    }
    let digit = |i: usize| text[i].is_ascii_digit().then(|| i32::from(text[i] - b'0'));
    let hours = digit(1)? * 10 + digit(2)?;
    let minutes = digit(4)? * 10 + digit(5)?;
    let secs = hours * 3600 + minutes * 60;
    if minutes > 59 || secs > MAX_DISPLACEMENT_SECS {
        return None;
    }
    match text[0] {
        b'+' => Some(secs),
        b'-' if secs > 0 => Some(-secs),
        _ => None,
    }
}

/// How many digits of a date without delimiters are its year.
fn year_width(digits: usize) -> usize {
    match digits {
        4 | 8 | 14.. => 4,
        _ => 2,
    }
}

/// The number of the digits that come, of at most so many, and how many they are.
#[inline]
fn scan_number(text: &[u8], limit: usize) -> Result<(u32, usize), NotTemporal> {
    let (mut value, mut len) = (0u32, 0);
    while len < limit && text.get(len).is_some_and(u8::is_ascii_digit) {
        value = value * 10 + u32::from(text[len] - b'0');
        if value > PART_LIMIT {
            return Err(NotTemporal::UNREADABLE);
        }
        len += 1;
    }
    Ok((value, len))
}

/// Takes a date text apart.
fn scan_date(text: &[u8], flags: DateFlags) -> Result<Fields, NotTemporal> {
    let mut at = text.iter().take_while(|b| is_space(**b)).count();
    if !text.get(at).is_some_and(u8::is_ascii_digit) {
        return Err(NotTemporal::UNREADABLE);
    }
    let is_field = |b: &&u8| b.is_ascii_digit() || **b == b'T';
    let digits = text[at..].iter().take_while(is_field).count();
    let mut f = Fields {
        compact: matches!(text.get(at + digits), None | Some(b'.')),
        deprecated: leading_spaces(text, at),
        ..Fields::default()
    };
    let mut width = 4;
    if f.compact {
        width = year_width(digits);
        f.year_digits = width;
    }
    let (mut found_delimiter, mut found_space) = (false, false);
    f.at = at;
    let mut i = YEAR;
    while i < PARTS && text.get(at).is_some_and(u8::is_ascii_digit) {
        let limit = match f.compact || i == FRACTION {
            true => width,
            false => usize::MAX,
        };
        (f.value[i], f.len[i]) = scan_number(&text[at..], limit)?;
        at += f.len[i];
        f.at = at;
        i += 1;
        width = 2;
        let Some(&next) = text.get(at) else { break };
        match i - 1 {
            DAY if next == b'T' => at += 1,
            SECOND if next == b'.' => {
                at += 1;
                f.at = at;
                width = MAX_FSP.into();
            }
            SECOND if next.is_ascii_digit() => break,
            SECOND | FRACTION if next == b'+' || next == b'-' => {
                f.displacement = displacement(&text[at..]);
                if f.displacement.is_none() {
                    return Err(NotTemporal::UNREADABLE);
                }
                f.at = text.len();
                break;
            }
            SECOND | FRACTION => break,
            part => {
                let mut noted = f.deprecated;
                let found = scan_delimiters(text, at, part, &mut noted)?;
                if !f.compact {
                    f.deprecated = noted;
                }
                found_space |= found.has_space;
                found_delimiter |= found.len > 0;
                at += found.len;
                f.at = at;
            }
        }
    }
    if found_delimiter && !found_space && flags.has(DateFlags::DATETIME_ONLY) {
        return Err(NotTemporal::UNREADABLE);
    }
    f.count = i;
    if !f.compact {
        f.year_digits = f.len[YEAR];
    }
    Ok(f)
}

/// Reads a date with or without a time of day.
pub fn parse_datetime(text: &[u8], flags: DateFlags) -> Result<Parsed, NotTemporal> {
    let (mut out, round_up) = parse_moment(text, flags)?;
    if round_up {
        out.datetime = out.datetime.carry(1).map_err(NotTemporal::bad)?;
        out.time = out.datetime.time();
    }
    Ok(out)
}

/// The moment, cut to microseconds, and whether the digits beyond round it up.
pub(super) fn parse_moment(text: &[u8], flags: DateFlags) -> Result<(Parsed, bool), NotTemporal> {
    let mut f = scan_date(text, flags)?;
    let not_zero = f.value.iter().any(|v| *v != 0);
    if f.year_digits == 2 && not_zero {
        f.value[YEAR] += if f.value[YEAR] < CENTURY_PIVOT {
            2000
        } else {
            1900
        };
    }
    let fraction_len = f.len[FRACTION].min(MAX_FSP.into());
    let micro = f.value[FRACTION] * 10u32.pow(u32::from(MAX_FSP) - fraction_len as u32);
    let [year, month, day, hour, minute, second, _] = f.value;
    let rest = &text[f.at..];
    let moment =
        Date::new(year, month, day).and_then(|d| DateTime::new(d, hour, minute, second, micro));
    let (Some(value), true) = (moment, f.count >= 3) else {
        let garbage = rest.iter().any(|b| !is_space(*b));
        return Err(NotTemporal::bad(if not_zero || garbage {
            TemporalWarn::TRUNCATED
        } else {
            TemporalWarn::ZERO_DATE
        }));
    };
    check_date(value.date(), not_zero, flags).map_err(NotTemporal::bad)?;
    let kind = if f.count <= 3 {
        ParsedKind::Date
    } else {
        ParsedKind::DateTime
    };
    let mut out = Parsed::moment(value, kind);
    out.digits = fraction_len as u8;
    out.displacement = f.displacement;
    out.deprecated = f.deprecated;
    let round_up = finish_moment(&mut out, text, f.at)?;
    Ok((out, round_up && !flags.has(DateFlags::TRUNCATE_FRACTION)))
}

/// Digits beyond microseconds (do they round up?), an offset after them, and garbage.
fn finish_moment(out: &mut Parsed, text: &[u8], from: usize) -> Result<bool, NotTemporal> {
    let rest = &text[from..];
    let mut at = 0;
    let mut round_up = false;
    if out.digits == MAX_FSP && rest.first().is_some_and(u8::is_ascii_digit) {
        at = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        round_up = rest[0] >= b'5';
        if matches!(rest.get(at), Some(b'+' | b'-')) {
            out.displacement = displacement(&rest[at..]);
            if out.displacement.is_none() {
                return Err(NotTemporal::UNREADABLE);
            }
            at = rest.len();
        }
    }
    if rest.get(at).is_some_and(|b| is_space(*b)) {
        superfluous(&mut out.deprecated, text, from + at);
    }
    if rest[at..].iter().any(|b| !is_space(*b)) {
        out.warn.add(TemporalWarn::TRUNCATED);
    }
    Ok(round_up)
}
