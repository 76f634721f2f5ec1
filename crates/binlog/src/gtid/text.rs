//! GTIDs as people write them: `uuid[:tag]:n`, and sets: `uuid:1-3:5:tag:7, uuid:1`.
//!
//! Neighbours: the variables and functions of `sql`. **Invariants**: what is printed reads back as the same set; it is
//! in MySQL's form: lower case, sources in order, a comma and a line feed between servers, the numbers without tag
//! before the tagged ones.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::scan::{GtidError, Scanner};
use super::{Gtid, GtidSet, Sid, Source, Tag};

impl FromStr for Sid {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut scanner = Scanner::new(text);
        let sid = scanner.sid()?;
        scanner.finish()?;
        Ok(sid)
    }
}

/// As `gtid_next` is written: unlike in a set, the UUID has all of its hyphens and no braces, and the number may be one
/// of C's, also octal or hexadecimal.
impl FromStr for Gtid {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut scanner = Scanner::new(text);
        scanner.skip_spaces();
        let sid = scanner.hyphened_sid()?;
        let colon = |scanner: &mut Scanner<'_>| {
            scanner.skip_spaces();
            let is_there = scanner.take(b':');
            scanner.skip_spaces();
            match is_there {
                true => Ok(()),
                false => Err(scanner.error_at(scanner.position(), r#"Expected ":""#)),
            }
        };
        colon(&mut scanner)?;
        let tag = match scanner.tag() {
            Some(tag) => colon(&mut scanner).map(|()| tag)?,
            None => Tag::default(),
        };
        let source = Source { sid, tag };
        let gno = scanner.gno_of_c()?;
        scanner.finish()?;
        Ok(Self { source, gno })
    }
}

impl FromStr for GtidSet {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut read = Intervals::new();
        let mut scanner = Scanner::new(text);
        loop {
            scanner.skip_spaces();
            while scanner.take(b',') {
                scanner.skip_spaces();
            }
            if scanner.is_at_end() {
                return Ok(Self::of_intervals(read));
            }
            read_server(&mut scanner, &mut read)?;
            if !scanner.next_is(b',') {
                scanner.finish()?;
                return Ok(Self::of_intervals(read));
            }
        }
    }
}

/// What was read, in the order in which it stands there: a set is made of it at once, for one that is in no order would
/// be moved with every interval.
type Intervals = BTreeMap<Source, Vec<(u64, u64)>>;

/// A server, and the tags and intervals behind it.
fn read_server(scanner: &mut Scanner<'_>, read: &mut Intervals) -> Result<(), GtidError> {
    let mut source = Source::untagged(scanner.sid()?);
    scanner.skip_spaces();
    while scanner.take(b':') {
        scanner.skip_spaces();
        match scanner.tag() {
            Some(tag) => source.tag = tag,
            None => {
                let interval = scanner.interval()?;
                match read.get_mut(&source) {
                    Some(intervals) => intervals.push(interval),
                    None => read.entry(source.clone()).or_default().push(interval),
                }
            }
        }
        scanner.skip_spaces();
    }
    Ok(())
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
