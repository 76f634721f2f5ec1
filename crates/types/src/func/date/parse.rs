//! STR_TO_DATE.
//!
//! Neighbours: `format` for the way there, `names`.
//! **Invariant**: text that does not fit the format, or no possible date, gives NULL and warning
//! 1411; text left over after the format gives warning 1292 only.

use super::names::{DAYS, MONTHS, SHORT};
use super::temporal;
use crate::ctx::SqlMode;
use crate::error::SqlResult;
use crate::func::call::Call;
use crate::func::{ArgType, FuncDef, PURE, RetCtx, Signature, def};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::calendar::{day_number_of, from_day_number, weekday};
use crate::temporal::{Date, DateTime, MAX_FSP, Time};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] =
    &[def("str_to_date", 2, 2, PURE, ret_str_to_date, str_to_date)];

/// What a format has in it.
#[derive(Default)]
struct Fields {
    date: bool,
    time: bool,
    micros: bool,
}

fn fields_of(format: &[u8]) -> Fields {
    let mut fields = Fields::default();
    let mut rest = format.iter();
    while let Some(b) = rest.next() {
        match if *b == b'%' { rest.next() } else { None } {
            Some(b'f') => (fields.time, fields.micros) = (true, true),
            Some(b'H' | b'h' | b'I' | b'i' | b'k' | b'l' | b'p' | b'r' | b'S' | b's' | b'T') => {
                fields.time = true;
            }
            // A day alone makes no date of a time: it is hours.
            Some(spec) if b"aMbcjmUuVvWwXxYy".contains(spec) => fields.date = true,
            _ => {}
        }
    }
    fields
}

/// A constant format decides the type; otherwise it is DATETIME(6).
fn ret_str_to_date(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = match args[1].value {
        Some(Value::Str(format)) => {
            let fields = fields_of(format);
            let decimals = if fields.micros { MAX_FSP } else { 0 };
            match (fields.date, fields.time) {
                (_, false) => SqlType::new(TypeKind::Date),
                (false, true) => temporal(TypeKind::Time, decimals),
                (true, true) => temporal(TypeKind::DateTime, decimals),
            }
        }
        _ => temporal(TypeKind::DateTime, MAX_FSP),
    };
    Ok(Signature::plain(ty))
}

fn str_to_date(c: &Call) -> SqlResult<Value> {
    let (text, format) = (c.text(0), c.text(1));
    let shown = crate::cast::quoted(&text);
    let mut reader = Reader::new(&text);
    let read = reader.follow(&format).and_then(|()| reader.resolve());
    let value = read.and_then(|()| reader.value(c.types.ret, c.ctx.sql_mode));
    let Some(value) = value else {
        let what = match c.types.ret.kind {
            TypeKind::Time => "time",
            _ => "datetime",
        };
        let message = format!("Incorrect {what} value: '{shown}' for function str_to_date");
        c.raise(1411, "HY000", message)?;
        return Ok(Value::Null);
    };
    if !reader.rest.trim_ascii().is_empty() {
        let what = match c.types.ret.kind {
            TypeKind::Time => "time",
            TypeKind::Date => "date",
            _ => "datetime",
        };
        c.raise(
            1292,
            "22007",
            format!("Truncated incorrect {what} value: '{shown}'"),
        )?;
    }
    Ok(value)
}

/// Fields found so far, and the text still to be read.
struct Reader<'a> {
    rest: &'a [u8],
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    micro: u32,
    /// An hour of 1 to 12 was read; the half of the day is added.
    twelve_hours: bool,
    afternoon: bool,
    day_of_year: Option<u32>,
    /// 1 = Monday to 7 = Sunday.
    week_day: Option<u32>,
    week: Option<u32>,
    /// Weeks start on Sunday (%U, %V) or Monday (%u, %v).
    sunday_first: bool,
    /// %V and %v: the week belongs to the year of %X or %x.
    strict_week: bool,
    /// That year, and whether it was %X.
    week_year: Option<(u32, bool)>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            rest: text,
            year: 0,
            month: 0,
            day: 0,
            hour: 0,
            minute: 0,
            second: 0,
            micro: 0,
            twelve_hours: false,
            afternoon: false,
            day_of_year: None,
            week_day: None,
            week: None,
            sunday_first: false,
            strict_week: false,
            week_year: None,
        }
    }

    /// Reads as the format says, until either ends; `None` when they disagree.
    fn follow(&mut self, format: &[u8]) -> Option<()> {
        let mut format = format.iter();
        while !self.rest.is_empty() {
            let Some(b) = format.next() else {
                return Some(());
            };
            self.rest = self.rest.trim_ascii_start();
            if self.rest.is_empty() {
                return Some(());
            }
            match (b, format.as_slice().first()) {
                (b'%', Some(spec)) => {
                    format.next();
                    self.field(*spec)?;
                }
                _ if b.is_ascii_whitespace() => {}
                _ => {
                    let (first, rest) = self.rest.split_first()?;
                    self.rest = (first == b).then_some(rest)?;
                }
            }
        }
        Some(())
    }

    /// A number of up to `width` digits, a plus sign among them, and how many it had.
    fn digits(&mut self, width: usize) -> Option<(u32, usize)> {
        let signed = self.rest.strip_prefix(b"+").filter(|_| width > 1);
        let width = width - usize::from(signed.is_some());
        self.rest = signed.unwrap_or(self.rest);
        let len = self
            .rest
            .iter()
            .take(width)
            .take_while(|b| b.is_ascii_digit())
            .count();
        let n = self.rest[..len]
            .iter()
            .fold(0, |n, b| n * 10 + u32::from(b - b'0'));
        self.rest = &self.rest[len..];
        (len > 0).then_some((n, len))
    }

    fn number(&mut self, width: usize) -> Option<u32> {
        self.digits(width).map(|(n, _)| n)
    }

    /// One of `names` (or of their abbreviations), from 1: whole, or as many letters as only one begins with.
    fn name(&mut self, names: &[&str], short: bool) -> Option<u32> {
        let letters = self
            .rest
            .iter()
            .take_while(|b| b.is_ascii_alphabetic())
            .count();
        let word = &self.rest[..letters];
        let begins = |n: &&str| {
            let end = if short { SHORT } else { n.len() };
            let start = n.as_bytes()[..end].get(..letters);
            letters > 0 && start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let mut found = (0..names.len()).filter(|at| begins(&names[*at]));
        // No name begins with a whole other one.
        let at = match (found.next(), found.next()) {
            (Some(at), None) => at,
            _ => return None,
        };
        self.rest = &self.rest[letters..];
        Some(at as u32 + 1)
    }

    fn skip(&mut self, what: fn(&u8) -> bool) {
        let len = self.rest.iter().take_while(|b| what(b)).count();
        self.rest = &self.rest[len..];
    }

    fn field(&mut self, spec: u8) -> Option<()> {
        match spec {
            b'Y' => {
                let (n, len) = self.digits(4)?;
                self.year = if len <= 2 { two_digit_year(n) } else { n };
            }
            b'y' => self.year = two_digit_year(self.number(2)?),
            b'm' | b'c' => self.month = self.number(2)?,
            b'M' => self.month = self.name(&MONTHS, false)?,
            b'b' => self.month = self.name(&MONTHS, true)?,
            b'd' | b'e' => self.day = self.number(2)?,
            b'D' => {
                self.day = self.number(2)?;
                // 'st', 'nd', 'rd', 'th'
                self.rest = &self.rest[self.rest.len().min(2)..];
            }
            b'h' | b'I' | b'l' => {
                self.twelve_hours = true;
                self.hour = self.number(2)?;
            }
            b'H' | b'k' => self.hour = self.number(2)?,
            b'i' => self.minute = self.number(2)?,
            b's' | b'S' => self.second = self.number(2)?,
            b'f' => {
                let (n, len) = self.digits(usize::from(MAX_FSP))?;
                self.micro = n * 10_u32.pow(u32::from(MAX_FSP) - len as u32);
            }
            b'p' => self.half_of_day()?,
            b'r' => self.follow(b"%I:%i:%S %p")?,
            b'T' => self.follow(b"%H:%i:%S")?,
            _ => self.week_field(spec)?,
        }
        Some(())
    }

    fn half_of_day(&mut self) -> Option<()> {
        let (half, rest) = self.rest.split_at_checked(2)?;
        self.afternoon = match half.to_ascii_uppercase().as_slice() {
            b"AM" => false,
            b"PM" => true,
            _ => return None,
        };
        self.rest = rest;
        self.twelve_hours.then_some(())
    }

    fn week_field(&mut self, spec: u8) -> Option<()> {
        match spec {
            b'j' => self.day_of_year = Some(self.number(3)?),
            b'W' => self.week_day = Some(self.name(&DAYS, false)?),
            b'a' => self.week_day = Some(self.name(&DAYS, true)?),
            b'w' => {
                let n = self.number(1).filter(|n| *n < 7)?;
                self.week_day = Some(if n == 0 { 7 } else { n });
            }
            b'U' | b'u' | b'V' | b'v' => {
                self.sunday_first = matches!(spec, b'U' | b'V');
                self.strict_week = matches!(spec, b'V' | b'v');
                let week = self.number(2)?;
                if week > 53 || (self.strict_week && week == 0) {
                    return None;
                }
                self.week = Some(week);
            }
            b'X' | b'x' => self.week_year = Some((self.number(4)?, spec == b'X')),
            b'.' => self.skip(u8::is_ascii_punctuation),
            b'@' => self.skip(u8::is_ascii_alphabetic),
            b'#' => self.skip(u8::is_ascii_digit),
            _ => return None,
        }
        Some(())
    }

    /// Makes fields that depend on others; `None` when they contradict each other.
    fn resolve(&mut self) -> Option<()> {
        if self.twelve_hours {
            if !(1..=12).contains(&self.hour) {
                return None;
            }
            self.hour = self.hour % 12 + if self.afternoon { 12 } else { 0 };
        }
        if let Some(n) = self.day_of_year.filter(|n| *n > 0) {
            self.set_date((day_number_of(self.year, 1, 1) + n).checked_sub(1)?)?;
        }
        if let (Some(week), Some(day)) = (self.week, self.week_day) {
            self.set_date(self.day_of_week(week, day)?)?;
        }
        Some(())
    }

    /// Day number of a day in a week of the year.
    fn day_of_week(&self, week: u32, day: u32) -> Option<u32> {
        let year = match (self.strict_week, self.week_year) {
            (true, Some((year, sunday_first))) if sunday_first == self.sunday_first => year,
            (false, None) => self.year,
            _ => return None,
        };
        let first = day_number_of(year, 1, 1);
        let start = i64::from(weekday(first, self.sunday_first));
        let (offset, day) = if self.sunday_first {
            (if start == 0 { 0 } else { 7 }, i64::from(day % 7))
        } else {
            (if start <= 3 { 0 } else { 7 }, i64::from(day) - 1)
        };
        let days = i64::from(first) + offset - start + (i64::from(week) - 1) * 7 + day;
        u32::try_from(days).ok().filter(|d| *d > 0)
    }

    fn set_date(&mut self, day_number: u32) -> Option<()> {
        let date = from_day_number(day_number)?;
        (self.year, self.month, self.day) = (date.year(), date.month(), date.day());
        Some(())
    }

    /// The value in the result's type; `None` for impossible dates, and for zero parts where the
    /// SQL mode forbids them.
    fn value(&self, ret: &SqlType, mode: SqlMode) -> Option<Value> {
        let date = Date::new(self.year, self.month, self.day)?;
        if self.hour > 23 || self.minute > 59 || self.second > 59 {
            return None;
        }
        let strict = mode.has(SqlMode::NO_ZERO_IN_DATE) || mode.has(SqlMode::NO_ZERO_DATE);
        if ret.kind == TypeKind::Time {
            // A day alone is a date with zero parts.
            if strict && !date.is_zero() {
                return None;
            }
            let hours = self.hour + self.day * 24;
            return Time::new(false, hours, self.minute, self.second, self.micro).map(Value::Time);
        }
        let is_allowed_zero = date.is_zero() && !mode.has(SqlMode::NO_ZERO_DATE);
        let zero_part = (date.has_zero_part() || date.year() == 0) && !is_allowed_zero;
        let is_day = mode.has(SqlMode::ALLOW_INVALID_DATES) || date.is_calendar_day();
        if strict && zero_part || !date.has_zero_part() && !is_day {
            return None;
        }
        match ret.kind {
            TypeKind::Date => Some(Value::Date(date)),
            _ => DateTime::new(date, self.hour, self.minute, self.second, self.micro)
                .map(Value::DateTime),
        }
    }
}

fn two_digit_year(n: u32) -> u32 {
    if n < 70 { n + 2000 } else { n + 1900 }
}
