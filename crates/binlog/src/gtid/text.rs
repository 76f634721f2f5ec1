//! GTIDs as people write them: `uuid[:tag]:n`, and sets: `uuid:1-3:5:tag:7, uuid:1`.
//!
//! Neighbours: the variables and functions of `sql`. **Invariants**: what is printed reads back as the same set; it is
//! in MySQL's form: lower case, sources in order, a comma and a line feed between servers, the numbers without tag
//! before the tagged ones.

use std::fmt;
use std::str::FromStr;

use super::{GNO_END, Gtid, GtidSet, Sid, Source, Tag};

/// The text is no GTID, or no set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed GTID")]
pub struct GtidError;

impl FromStr for Sid {
    type Err = GtidError;

    /// 32 hexadecimal digits, with hyphens between the parts or without, also in braces.
    fn from_str(text: &str) -> Result<Self, GtidError> {
        let text = match text.strip_prefix('{') {
            Some(inner) => inner.strip_suffix('}').ok_or(GtidError)?,
            None => text,
        };
        let bytes = text.as_bytes();
        let hyphens = bytes.len() == 36;
        if !hyphens && bytes.len() != 32 {
            return Err(GtidError);
        }
        let mut sid = [0; 16];
        let mut digits = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if hyphens && matches!(at, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return Err(GtidError);
                }
                continue;
            }
            let digit = char::from(*byte).to_digit(16).ok_or(GtidError)? as u8;
            sid[digits / 2] = sid[digits / 2] << 4 | digit;
            digits += 1;
        }
        Ok(Self(sid))
    }
}

impl FromStr for Gtid {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut parts = text.split(':').map(str::trim);
        let sid = parts.next().ok_or(GtidError)?.parse()?;
        let (tag, number) = match (parts.next(), parts.next(), parts.next()) {
            (Some(number), None, None) => (Tag::default(), number),
            (Some(tag), Some(number), None) if !tag.is_empty() => {
                (Tag::new(tag).ok_or(GtidError)?, number)
            }
            _ => return Err(GtidError),
        };
        let gno = parse_number(number)?;
        let source = Source { sid, tag };
        Ok(Self { source, gno })
    }
}

impl FromStr for GtidSet {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut set = Self::default();
        for server in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
            let mut parts = server.split(':').map(str::trim);
            let sid = parts.next().ok_or(GtidError)?.parse()?;
            let mut source = Source::untagged(sid);
            for part in parts {
                match part.starts_with(|c: char| c.is_ascii_digit()) {
                    true => {
                        let (start, end) = parse_interval(part)?;
                        set.add_range(&source, start, end);
                    }
                    false if part.is_empty() => return Err(GtidError),
                    false => source.tag = Tag::new(part).ok_or(GtidError)?,
                }
            }
        }
        Ok(set)
    }
}

/// `n` or `n-m`; an interval that ends before it begins has nothing in it.
fn parse_interval(text: &str) -> Result<(u64, u64), GtidError> {
    match text.split_once('-') {
        None => {
            let n = parse_number(text)?;
            Ok((n, n + 1))
        }
        Some((first, last)) => {
            let (first, last) = (parse_number(first.trim())?, parse_number(last.trim())?);
            Ok((first, last + 1))
        }
    }
}

fn parse_number(text: &str) -> Result<u64, GtidError> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(GtidError);
    }
    let number = text.parse().map_err(|_| GtidError)?;
    match number {
        1..GNO_END => Ok(number),
        _ => Err(GtidError),
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut server = None;
        for (source, numbers) in self.sources() {
            if server != Some(source.sid) {
                if server.is_some() {
                    f.write_str(",\n")?;
                }
                source.sid.fmt(f)?;
                server = Some(source.sid);
            }
            if !source.tag.is_empty() {
                write!(f, ":{}", source.tag.as_str())?;
            }
            for &(start, end) in numbers.intervals() {
                write!(f, ":{start}")?;
                if end - start > 1 {
                    write!(f, "-{}", end - 1)?;
                }
            }
        }
        Ok(())
    }
}
