//! Text and numbers to temporal values, with MySQL's tolerance: what may be read, what was read, what
//! was wrong. `date` and `time` read texts, `number` reads numbers.
//!
//! Neighbours: `cast` turns [`TemporalWarn`] into warnings and errors; the SQL parser's DATE, TIME
//! and TIMESTAMP literals come through here too.
//! **Invariants**: values returned obey `super`'s field ranges; fractions are already rounded (or
//! cut) to microseconds; nothing is looked at beyond the text.

mod date;
mod number;
mod time;

pub use date::parse_datetime;
pub use number::{datetime_from_number, time_from_number};
pub use time::parse_time;

use super::{Date, DateTime, Time, calendar};

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
