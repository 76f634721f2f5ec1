//! Sets as files and streams hold them.
//!
//! ```text
//! number of sources u64 | each: UUID 16 | number of intervals u64 | each: first u64, behind the last u64
//! ```
//! With a tag among the sources, the first word is `1 | number << 8 | 1 << 56`, and each UUID is followed by the tag:
//! twice its length as a byte, then the name.
//! Neighbours: PREVIOUS_GTIDS events; replicas that ask for what they have not got.
//! **Invariants**: a set without tags is written in the form that every version reads.

use super::{GNO_END, GtidSet, MAX_TAG_CHARS, Sid, Source, Tag};
use crate::bytes::{Put, Reader};
use crate::{Result, damaged};

/// Marks the form with tags, in the first and the last byte of the first word.
const TAGGED: u64 = 1 << 56 | 1;

impl GtidSet {
    /// Appends the set.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let count = self.sources().count() as u64;
        let has_tags = self.sources().any(|(source, _)| !source.tag.is_empty());
        out.u64(match has_tags {
            true => TAGGED | count << 8,
            false => count,
        });
        for (source, numbers) in self.sources() {
            out.bytes(&source.sid.0);
            if has_tags {
                let tag = source.tag.as_str();
                out.u8((tag.len() as u8) << 1);
                out.bytes(tag.as_bytes());
            }
            out.u64(numbers.intervals().len() as u64);
            for &(start, end) in numbers.intervals() {
                out.u64(start);
                out.u64(end);
            }
        }
    }

    /// Reads a set that takes all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let word = r.u64()?;
        let has_tags = word & 0xff00_0000_0000_00ff == TAGGED;
        let sources = match has_tags {
            true => word >> 8 & 0xffff_ffff_ffff,
            false => word,
        };
        let mut set = Self::default();
        for _ in 0..sources {
            let sid = Sid(r.array()?);
            let tag = match has_tags {
                true => decode_tag(&mut r)?,
                false => Tag::default(),
            };
            let source = Source { sid, tag };
            let mut behind = 0;
            for _ in 0..r.u64()? {
                let (start, end) = (r.u64()?, r.u64()?);
                if start == 0 || start <= behind || start >= end || end > GNO_END {
                    return Err(damaged("GTID set: intervals"));
                }
                set.add_range(&source, start, end);
                behind = end;
            }
        }
        match r.is_empty() {
            true => Ok(set),
            false => Err(damaged("GTID set: it is too long")),
        }
    }
}

fn decode_tag(r: &mut Reader<'_>) -> Result<Tag> {
    let len = usize::from(r.u8()?);
    if len & 1 != 0 || len >> 1 > MAX_TAG_CHARS {
        return Err(damaged("GTID set: length of a tag"));
    }
    let name = r.take(len >> 1)?;
    let name = std::str::from_utf8(name).ok();
    name.and_then(Tag::new)
        .ok_or_else(|| damaged("GTID set: tag"))
}
