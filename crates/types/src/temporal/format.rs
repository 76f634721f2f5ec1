//! Temporal values as text and numbers.
//!
//! Neighbours: `cast::write_text`, the date functions.
//! **Invariants**: years have four digits, hours of a TIME two or three; a fraction has exactly the
//! digits asked for, cut, not rounded (values are rounded when they are stored).

use std::fmt;

use super::{Date, DateTime, MAX_FSP, Time};

/// Two digits.
fn two(out: &mut Vec<u8>, v: u32) {
    debug_assert!(v < 100);
    out.extend_from_slice(&[b'0' + (v / 10) as u8, b'0' + (v % 10) as u8]);
}

/// Appends `hh:mm:ss`.
fn write_clock(out: &mut Vec<u8>, [hour, minute, second]: [u32; 3]) {
    two(out, hour);
    out.push(b':');
    two(out, minute);
    out.push(b':');
    two(out, second);
}

/// A point and the first `fsp` digits of `micro`; nothing when `fsp` is 0.
pub fn write_micros(out: &mut Vec<u8>, micro: u32, fsp: u8) {
    debug_assert!(micro < 1_000_000);
    if fsp == 0 {
        return;
    }
    out.push(b'.');
    let mut unit = 100_000;
    for _ in 0..fsp.min(MAX_FSP) {
        out.push(b'0' + (micro / unit % 10) as u8);
        unit /= 10;
    }
}

/// Fractional digits needed to show `micro`.
pub fn digits_of(micro: u32) -> u8 {
    let mut digits = MAX_FSP;
    let mut v = micro;
    while digits > 0 && v.is_multiple_of(10) {
        v /= 10;
        digits -= 1;
    }
    digits
}

/// Runs a writer and makes a string of its ASCII output.
fn collect(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::with_capacity(26);
    write(&mut out);
    out.into_iter().map(char::from).collect()
}

impl Date {
    /// Appends `YYYY-MM-DD`.
    pub fn write(self, out: &mut Vec<u8>) {
        two(out, self.year() / 100);
        two(out, self.year() % 100);
        out.push(b'-');
        two(out, self.month());
        out.push(b'-');
        two(out, self.day());
    }

    /// `YYYY-MM-DD`
    pub fn format(self) -> String {
        collect(|out| self.write(out))
    }

    /// YYYYMMDD
    pub fn to_number(self) -> i64 {
        i64::from(self.year() * 10_000 + self.month() * 100 + self.day())
    }
}

impl Time {
    /// Appends `[-]hh[h]:mm:ss[.ffffff]`.
    pub fn write(self, fsp: u8, out: &mut Vec<u8>) {
        if self.is_negative() {
            out.push(b'-');
        }
        let hour = self.hour();
        if hour > 99 {
            out.push(b'0' + (hour / 100) as u8);
        }
        write_clock(out, [hour % 100, self.minute(), self.second()]);
        write_micros(out, self.microsecond(), fsp);
    }

    /// `[-]hh[h]:mm:ss[.ffffff]`
    pub fn format(self, fsp: u8) -> String {
        collect(|out| self.write(fsp, out))
    }

    /// hhmmss, signed, without the fraction.
    pub fn to_number(self) -> i64 {
        let n = i64::from(self.hour() * 10_000 + self.minute() * 100 + self.second());
        if self.is_negative() { -n } else { n }
    }
}

impl DateTime {
    /// Appends `YYYY-MM-DD hh:mm:ss[.ffffff]`.
    pub fn write(self, fsp: u8, out: &mut Vec<u8>) {
        self.date().write(out);
        out.push(b' ');
        write_clock(out, [self.hour(), self.minute(), self.second()]);
        write_micros(out, self.microsecond(), fsp);
    }

    /// `YYYY-MM-DD hh:mm:ss[.ffffff]`
    pub fn format(self, fsp: u8) -> String {
        collect(|out| self.write(fsp, out))
    }

    /// YYYYMMDDhhmmss, without the fraction.
    pub fn to_number(self) -> i64 {
        self.date().to_number() * 1_000_000 + self.time().to_number()
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.format())
    }
}

impl fmt::Display for Time {
    /// With as many fractional digits as are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.format(digits_of(self.microsecond())))
    }
}

impl fmt::Display for DateTime {
    /// With as many fractional digits as are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.format(digits_of(self.microsecond())))
    }
}

macro_rules! debug_as_display {
    ($($t:ty),*) => {$(
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
debug_as_display!(Date, Time, DateTime);
