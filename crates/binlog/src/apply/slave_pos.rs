//! `gtid_slave_pos`: the last GTID of MariaDB in each domain that a server has applied, whatever its channels forget.
//!
//! ```text
//! value  version u8 = 1 | GTIDs | number of channels varint | (name, GTIDs) of each
//! GTIDs  number varint | domain varint, server varint, sequence varint of each
//! ```
//! A channel's state has the GTIDs that it has applied. When it is to forget them, because it goes on at another place
//! or goes away, the position as a whole is kept here, together with what the other channels had at that moment: from
//! then on those that have come further say more than what is kept, and the others less. So it is what was applied last
//! that counts, as in MariaDB, and not the largest number: a source may have begun its numbers anew.
//! Neighbours: [`state`](super::state) has what a channel knows; `sql` has the row. **Invariants**: a fold changes
//! nothing of the position; bytes from the tree are checked.

use std::collections::BTreeMap;

use super::MariaGtidSet;
use super::state::{check_version, read_maria, write_maria};
use crate::bytes::{Put, Reader};
use crate::{Result, damaged};

const VERSION: u8 = 1;

/// What channels have applied, by their names.
pub type AppliedByChannel = BTreeMap<String, MariaGtidSet>;

/// What is kept apart from channels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlavePos {
    kept: MariaGtidSet,
    /// What channels had when it was kept.
    seen: AppliedByChannel,
}

impl SlavePos {
    /// The position is this, whatever channels have applied.
    pub fn at(kept: MariaGtidSet, mut channels: AppliedByChannel) -> Self {
        channels.retain(|_, applied| !applied.is_empty());
        Self {
            kept,
            seen: channels,
        }
    }

    /// The position, where channels have applied this by now.
    pub fn now(&self, channels: &AppliedByChannel) -> MariaGtidSet {
        let mut newer = MariaGtidSet::default();
        for (name, applied) in channels {
            let seen = self.seen.get(name);
            let is_new = |domain, gtid| seen.and_then(|seen| seen.last(domain)) != Some(gtid);
            for gtid in applied.iter().filter(|gtid| is_new(gtid.domain, *gtid)) {
                newer.raise(*gtid);
            }
        }
        let mut now = self.kept.clone();
        newer.iter().for_each(|gtid| now.add(*gtid));
        now
    }

    /// The same position, when one of the channels has forgotten what it has applied.
    pub fn without(&self, channel: &str, mut channels: AppliedByChannel) -> Self {
        let now = self.now(&channels);
        channels.remove(channel);
        Self::at(now, channels)
    }

    /// The value of the row; `None`: nothing is to be kept.
    pub fn value(&self) -> Option<Vec<u8>> {
        if *self == Self::default() {
            return None;
        }
        let mut out = vec![VERSION];
        write_set(&self.kept, &mut out);
        out.varint(self.seen.len() as u64);
        for (name, applied) in &self.seen {
            out.var_bytes(name.as_bytes());
            write_set(applied, &mut out);
        }
        Some(out)
    }

    /// What a row says, if there is one.
    ///
    /// # Errors
    /// A damaged value.
    pub fn read(value: Option<&[u8]>) -> Result<Self> {
        let Some(bytes) = value else {
            return Ok(Self::default());
        };
        let mut r = Reader::new(bytes);
        check_version(&mut r)?;
        let kept = read_set(&mut r)?;
        let mut seen = AppliedByChannel::new();
        for _ in 0..r.varint()? {
            let name = std::str::from_utf8(r.var_bytes()?);
            let name = name.map_err(|_| damaged("gtid_slave_pos: name of a channel"))?;
            seen.insert(name.to_owned(), read_set(&mut r)?);
        }
        Ok(Self { kept, seen })
    }
}

fn write_set(set: &MariaGtidSet, out: &mut Vec<u8>) {
    out.varint(set.iter().count() as u64);
    set.iter().for_each(|gtid| write_maria(gtid, out));
}

fn read_set(r: &mut Reader<'_>) -> Result<MariaGtidSet> {
    let mut set = MariaGtidSet::default();
    for _ in 0..r.varint()? {
        set.add(read_maria(r)?);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> MariaGtidSet {
        text.parse().expect("set")
    }

    fn channels(of: &[(&str, &str)]) -> AppliedByChannel {
        let named = of
            .iter()
            .map(|(name, gtids)| ((*name).to_owned(), set(gtids)));
        named.collect()
    }

    #[test]
    fn a_channel_that_forgets_changes_nothing() {
        let both = channels(&[("a", "0-1-100,1-1-5"), ("b", "0-1-90,2-2-2")]);
        let position = SlavePos::default();
        assert_eq!(position.now(&both), set("0-1-100,1-1-5,2-2-2"));
        let position = position.without("a", both);
        let left = channels(&[("b", "0-1-90,2-2-2")]);
        assert_eq!(position.now(&left), set("0-1-100,1-1-5,2-2-2"));
        let position = position.without("b", left);
        let none = channels(&[("b", "")]);
        assert_eq!(position.now(&none), set("0-1-100,1-1-5,2-2-2"));
    }

    #[test]
    fn what_is_applied_last_counts() {
        let position = SlavePos::default().without("a", channels(&[("a", "0-1-100,1-1-1")]));
        // The source has begun its numbers anew.
        assert_eq!(
            position.now(&channels(&[("a", "0-1-5")])),
            set("0-1-5,1-1-1")
        );
        // A channel that stands still does not take back what another one has applied.
        let still = ("still", "0-1-50");
        let position = SlavePos::default().without("a", channels(&[("a", "0-1-100"), still]));
        assert_eq!(position.now(&channels(&[still])), set("0-1-100"));
        let moves = channels(&[("still", "0-2-51")]);
        assert_eq!(position.now(&moves), set("0-2-51"));
    }

    #[test]
    fn a_position_that_is_said_holds_until_something_is_applied() {
        let position = SlavePos::at(set("0-1-7"), channels(&[("a", "0-1-100,1-1-1")]));
        assert_eq!(
            position.now(&channels(&[("a", "0-1-100,1-1-1")])),
            set("0-1-7")
        );
        assert_eq!(
            position.now(&channels(&[("a", "0-1-101,1-1-1")])),
            set("0-1-101")
        );
    }

    #[test]
    fn a_position_is_read_as_it_was_written() {
        assert_eq!(SlavePos::default().value(), None);
        assert_eq!(SlavePos::read(None).expect("none"), SlavePos::default());
        let position = SlavePos::at(
            set("0-1-18446744073709551615,4294967295-2-3"),
            channels(&[("", "0-1-9"), ("ö", "1-1-1,2-2-2"), ("none", "")]),
        );
        let bytes = position.value().expect("a value");
        assert_eq!(SlavePos::read(Some(&bytes)).expect("position"), position);
        for cut in 0..bytes.len() {
            assert!(SlavePos::read(Some(&bytes[..cut])).is_err());
        }
    }
}
