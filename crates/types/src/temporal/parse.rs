//! Text and numbers to temporal values, with MySQL's tolerance.
//!
//! Neighbours: `cast` turns [`TemporalWarn`] into warnings and errors; the SQL parser's DATE, TIME
//! and TIMESTAMP literals come through here too.
//! **Invariants**: values returned obey `super`'s field ranges; fractions are already rounded (or
//! cut) to microseconds; nothing is looked at beyond the text.

use super::{Date, DateTime, MICROS_PER_SEC, Time, calendar};
use crate::decimal::is_space;

/// What a conversion to a date allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DateFlags(pub u8);

impl DateFlags {
    /// Nothing special: days and months must not be 0.
    pub const NONE: Self = Self(0);
    /// Month or day may be 0.
    pub const FUZZY: Self = Self(1);
    /// Zero parts are refused even so (SQL mode NO_ZERO_IN_DATE).
    pub const NO_ZERO_IN_DATE: Self = Self(2);
    /// 0000-00-00 is refused (SQL mode NO_ZERO_DATE).
    pub const NO_ZERO_DATE: Self = Self(4);
    /// February 31st is accepted (SQL mode ALLOW_INVALID_DATES).
    pub const INVALID_DATES: Self = Self(8);
    /// Only a date with a time of day is accepted.
    pub const DATETIME_ONLY: Self = Self(16);
    /// Fractions are cut, not rounded (SQL mode TIME_TRUNCATE_FRACTIONAL).
    pub const TRUNCATE_FRACTION: Self = Self(32);

    /// Are all bits of `other` set?
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Union.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What was wrong with a text or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TemporalWarn(pub u8);

impl TemporalWarn {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Something was left over or unreadable.
    pub const TRUNCATED: Self = Self(1);
    /// A field or the value is out of range.
    pub const OUT_OF_RANGE: Self = Self(2);
    /// It was 0000-00-00 where that is refused.
    pub const ZERO_DATE: Self = Self(4);
    /// Rounding the fraction left the calendar (error 1441).
    pub const FIELD_OVERFLOW: Self = Self(16);
    /// A zero month or day where that is refused.
    pub const ZERO_IN_DATE: Self = Self(8);

    /// Nothing wrong?
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Are all bits of `other` set?
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Did the text have a time of day?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParsedKind {
    /// A date alone.
    Date,
    /// A date and a time of day.
    DateTime,
    /// A duration.
    Time,
}

/// A delimiter that MySQL still reads but warns of (4095 and 4096).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deprecated {
    /// The delimiter.
    pub delimiter: u8,
    /// Its byte offset in the text.
    pub position: usize,
    /// The delimiter that should stand there; `None`: none should.
    pub standard: Option<u8>,
}

/// What a text or number meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed {
    /// The moment; for a duration, zero date and clamped time of day are meaningless.
    pub datetime: DateTime,
    /// The duration, or the time of day of a moment.
    pub time: Time,
    /// What it was.
    pub kind: ParsedKind,
    /// Fractional digits written (at most 6).
    pub digits: u8,
    /// Offset from UTC in seconds, when written.
    pub displacement: Option<i32>,
    /// What was wrong, though a value came of it.
    pub warn: TemporalWarn,
    /// The first delimiter that is not the standard one.
    pub deprecated: Option<Deprecated>,
}

impl Parsed {
    pub(crate) fn moment(datetime: DateTime, kind: ParsedKind) -> Self {
        Self {
            datetime,
            time: datetime.time(),
            kind,
            digits: 0,
            displacement: None,
            warn: TemporalWarn::NONE,
            deprecated: None,
        }
    }

    pub(crate) fn duration(time: Time, warn: TemporalWarn) -> Self {
        Self {
            datetime: DateTime::ZERO,
            time,
            kind: ParsedKind::Time,
            digits: 0,
            displacement: None,
            warn,
            deprecated: None,
        }
    }
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotTemporal {
    /// What was wrong.
    pub warn: TemporalWarn,
    /// It read like a date, but not a possible one (a time is then not tried).
    pub like_date: bool,
}

impl NotTemporal {
    /// Nothing there: columns take it as 00:00:00 without a word.
    const SILENT: Self = Self {
        warn: TemporalWarn::NONE,
        like_date: false,
    };
    const UNREADABLE: Self = Self {
        warn: TemporalWarn::TRUNCATED,
        like_date: false,
    };

    fn bad(warn: TemporalWarn) -> Self {
        Self {
            warn,
            like_date: true,
        }
    }
}

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

/// Notes a space that should not be there, unless something was noted before.
fn superfluous(noted: &mut Option<Deprecated>, text: &[u8], position: usize) {
    noted.get_or_insert(Deprecated {
        delimiter: text[position],
        position,
        standard: None,
    });
}

/// Notes leading spaces.
fn leading_spaces(text: &[u8], count: usize) -> Option<Deprecated> {
    let mut noted = None;
    if count > 0 {
        superfluous(&mut noted, text, 0);
    }
    noted
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

/// Takes a date text apart.
fn scan_date(text: &[u8], flags: DateFlags) -> Result<Fields, NotTemporal> {
    let mut at = text.iter().take_while(|b| is_space(**b)).count();
    if !text.get(at).is_some_and(u8::is_ascii_digit) {
        return Err(NotTemporal::UNREADABLE);
    }
    let digits = text[at..]
        .iter()
        .take_while(|b| b.is_ascii_digit() || **b == b'T')
        .count();
    let mut f = Fields {
        compact: matches!(text.get(at + digits), None | Some(b'.')),
        deprecated: leading_spaces(text, at),
        ..Fields::default()
    };
    let mut width = 4;
    if f.compact {
        width = if digits == 4 || digits == 8 || digits >= 14 {
            4
        } else {
            2
        };
        f.year_digits = width;
    }
    let (mut found_delimiter, mut found_space) = (false, false);
    f.at = at;
    let mut i = YEAR;
    while i < PARTS && text.get(at).is_some_and(u8::is_ascii_digit) {
        let limit = if f.compact || i == FRACTION {
            width
        } else {
            usize::MAX
        };
        let start = at;
        let mut value = 0u32;
        while at < text.len() && text[at].is_ascii_digit() && at - start < limit {
            value = value * 10 + u32::from(text[at] - b'0');
            if value > PART_LIMIT {
                return Err(NotTemporal::UNREADABLE);
            }
            at += 1;
        }
        (f.value[i], f.len[i], f.at) = (value, at - start, at);
        i += 1;
        width = 2;
        let Some(&next) = text.get(at) else { break };
        match i - 1 {
            DAY if next == b'T' => at += 1,
            SECOND if next == b'.' => {
                at += 1;
                f.at = at;
                width = super::MAX_FSP.into();
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
        let overflow = TemporalWarn(TemporalWarn::FIELD_OVERFLOW.0 | TemporalWarn::OUT_OF_RANGE.0);
        out.datetime = out.datetime.carry(1).ok_or(NotTemporal::bad(overflow))?;
        out.time = out.datetime.time();
    }
    Ok(out)
}

/// The moment, cut to microseconds, and whether the digits beyond round it up.
fn parse_moment(text: &[u8], flags: DateFlags) -> Result<(Parsed, bool), NotTemporal> {
    let mut f = scan_date(text, flags)?;
    let not_zero = f.value.iter().any(|v| *v != 0);
    if f.year_digits == 2 && not_zero {
        f.value[YEAR] += if f.value[YEAR] < CENTURY_PIVOT {
            2000
        } else {
            1900
        };
    }
    let fraction_len = f.len[FRACTION].min(super::MAX_FSP.into());
    let micro = f.value[FRACTION] * 10u32.pow(u32::from(super::MAX_FSP) - fraction_len as u32);
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
    if out.digits == super::MAX_FSP && rest.first().is_some_and(u8::is_ascii_digit) {
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

/// Is the date allowed by `flags`?
pub(crate) fn check_date(date: Date, not_zero: bool, flags: DateFlags) -> Result<(), TemporalWarn> {
    if !not_zero {
        let refused = flags.has(DateFlags::NO_ZERO_DATE);
        return if refused {
            Err(TemporalWarn::ZERO_DATE)
        } else {
            Ok(())
        };
    }
    let strict_parts = flags.has(DateFlags::NO_ZERO_IN_DATE) || !flags.has(DateFlags::FUZZY);
    if strict_parts && date.has_zero_part() {
        return Err(TemporalWarn::ZERO_IN_DATE);
    }
    let too_late =
        date.month() != 0 && date.day() > calendar::days_in_month(date.year(), date.month());
    if too_late && !flags.has(DateFlags::INVALID_DATES) {
        return Err(TemporalWarn::OUT_OF_RANGE);
    }
    Ok(())
}

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
    let [days, hours, minutes, seconds] = d.parts;
    let too_large = d.parts.iter().any(|p| *p > u64::from(u32::MAX));
    if too_large || minutes > 59 || seconds > 59 {
        let warn = TemporalWarn::OUT_OF_RANGE;
        return Err(NotTemporal {
            warn,
            like_date: !too_large,
        });
    }
    let secs = (hours + days * 24) * 3600 + minutes * 60 + seconds;
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
