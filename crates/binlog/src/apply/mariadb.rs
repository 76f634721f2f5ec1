//! MariaDB's GTIDs, and the events that only MariaDB writes.
//!
//! Numbers of types: 160 annotation, 161 checkpoint, 162 GTID, 163 list of GTIDs, 164 start of encryption (refused),
//! 165–171 compressed statements and rows. Neighbours: `assemble` meets them; `state` keeps sets of GTIDs.
//! **Invariants**: a set is the last transaction of each domain. Within a domain numbers rise, until a source begins
//! them anew or (without `gtid_strict_mode`) another server writes there, too.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::bytes::Reader;
use crate::event::group::XaPrepare;
use crate::{Error, Result, damaged};

/// The text of the statement behind it.
pub(crate) const ANNOTATE: u8 = 160;
/// Which files recovery of the source needs.
pub(crate) const CHECKPOINT: u8 = 161;
/// Begins a transaction.
pub(crate) const GTID: u8 = 162;
/// What was executed before the file.
pub(crate) const GTID_LIST: u8 = 163;
/// What follows is encrypted.
pub(crate) const START_ENCRYPTION: u8 = 164;
/// A statement whose text is compressed.
pub(crate) const QUERY_COMPRESSED: u8 = 165;
/// Row events, compressed: 166–168 in version 1, 169–171 in version 2.
pub(crate) const ROWS_COMPRESSED: std::ops::RangeInclusive<u8> = 166..=171;

/// The transaction is one statement, and no COMMIT follows.
const STANDALONE: u8 = 1;
/// It was committed in a group, whose number follows.
const HAS_GROUP: u8 = 2;
/// XA PREPARE ends the transaction, whose XA START is not written; the identifier follows.
const PREPARES: u8 = 64;
/// XA COMMIT or ROLLBACK of a prepared transaction, whose identifier follows.
const COMPLETES: u8 = 128;
/// In the second byte of flags: an ALTER TABLE begins, or has failed (`binlog_alter_two_phase`).
const STARTS_ALTER: u8 = 2;
const ROLLS_ALTER_BACK: u8 = 8;

/// `domain-server-sequence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MariaGtid {
    /// Replication domain.
    pub domain: u32,
    /// Server that gave the number.
    pub server_id: u32,
    /// Number in the domain.
    pub sequence: u64,
}

impl fmt::Display for MariaGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server_id, self.sequence)
    }
}

impl FromStr for MariaGtid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || damaged(format!("GTID '{text}'"));
        let mut parts = text.trim().split('-');
        let mut next = || parts.next().and_then(|p| p.parse::<u64>().ok());
        let (domain, server, sequence) = (next(), next(), next());
        match (domain, server, sequence, parts.next()) {
            (Some(domain), Some(server), Some(sequence), None) => Ok(Self {
                domain: u32::try_from(domain).map_err(|_| bad())?,
                server_id: u32::try_from(server).map_err(|_| bad())?,
                sequence,
            }),
            _ => Err(bad()),
        }
    }
}

/// The last transaction of each domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MariaGtidSet(BTreeMap<u32, MariaGtid>);

impl MariaGtidSet {
    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last of each domain.
    pub fn iter(&self) -> impl Iterator<Item = &MariaGtid> {
        self.0.values()
    }

    /// The last of a domain.
    pub fn last(&self, domain: u32) -> Option<&MariaGtid> {
        self.0.get(&domain)
    }

    /// A transaction was executed: it is the last of its domain now, also if the source has begun its numbers anew.
    pub fn add(&mut self, gtid: MariaGtid) {
        self.0.insert(gtid.domain, gtid);
    }

    /// It was executed, before or behind what is known of its domain.
    pub fn raise(&mut self, gtid: MariaGtid) {
        if !self.contains(&gtid) {
            self.add(gtid);
        }
    }

    /// Has its domain come to its number?
    pub fn contains(&self, gtid: &MariaGtid) -> bool {
        let last = self.last(gtid.domain);
        last.is_some_and(|last| last.sequence >= gtid.sequence)
    }
}

impl fmt::Display for MariaGtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, gtid) in self.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            write!(f, "{comma}{gtid}")?;
        }
        Ok(())
    }
}

impl FromStr for MariaGtidSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut set = Self::default();
        for gtid in text.split(',').map(str::trim).filter(|g| !g.is_empty()) {
            set.add(gtid.parse()?);
        }
        Ok(set)
    }
}

/// The body of event 162.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GtidEvent {
    pub(crate) gtid: MariaGtid,
    pub(crate) is_standalone: bool,
    /// Its statement is not to be run: an ALTER TABLE that begins, and counts when another event says that it is
    /// committed, or one that has failed.
    pub(crate) is_announcement: bool,
    /// It is prepared under this identifier.
    pub(crate) prepares: Option<XaPrepare>,
    /// Transactions with the same number were committed together.
    pub(crate) group: Option<u64>,
}

impl GtidEvent {
    pub(crate) fn parse(server_id: u32, body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        let (sequence, domain, flags) = (r.u64()?, r.u32()?, r.u8()?);
        let group = match flags & HAS_GROUP {
            0 => None,
            _ => Some(r.u64()?),
        };
        let prepares = match flags & PREPARES {
            0 => None,
            _ => Some(read_xid(&mut r)?),
        };
        if flags & COMPLETES != 0 {
            read_xid(&mut r)?;
        }
        // Older servers write zeros up to a fixed length, or nothing.
        let more = r.u8().unwrap_or(0);
        Ok(Self {
            gtid: MariaGtid {
                domain,
                server_id,
                sequence,
            },
            is_standalone: flags & STANDALONE != 0,
            is_announcement: more & (STARTS_ALTER | ROLLS_ALTER_BACK) != 0,
            prepares,
            group,
        })
    }
}

fn read_xid(r: &mut Reader<'_>) -> Result<XaPrepare> {
    let (format, gtrid, bqual) = (r.u32()?, r.u8()?, r.u8()?);
    Ok(XaPrepare {
        one_phase: false,
        format,
        gtrid: r.take(gtrid.into())?.to_vec(),
        bqual: r.take(bqual.into())?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_keep_the_last_of_each_domain() {
        let mut set: MariaGtidSet = "0-1-7, 2-5-1".parse().expect("set");
        set.raise("0-2-9".parse().expect("GTID"));
        set.raise("0-1-8".parse().expect("GTID"));
        assert_eq!(set.to_string(), "0-2-9,2-5-1");
        set.add("2-5-0".parse().expect("GTID"));
        assert_eq!(set.to_string(), "0-2-9,2-5-0");
        set.add("2-5-1".parse().expect("GTID"));
        let has = |text: &str| set.contains(&text.parse().expect("GTID"));
        assert!(has("0-1-3") && has("2-5-1") && !has("0-2-10") && !has("1-1-1"));
        assert!("0-1".parse::<MariaGtid>().is_err());
        assert!("0-1-2-3".parse::<MariaGtid>().is_err());
    }

    #[test]
    fn flags_of_a_gtid_are_read() {
        let mut body = 5u64.to_le_bytes().to_vec();
        body.extend(1u32.to_le_bytes());
        body.push(STANDALONE | HAS_GROUP);
        body.extend(77u64.to_le_bytes());
        let event = GtidEvent::parse(3, &body).expect("event");
        assert_eq!(event.gtid.to_string(), "1-3-5");
        assert!(event.is_standalone && event.prepares.is_none() && event.group == Some(77));
        assert!(GtidEvent::parse(3, &body[..14]).is_err());
        body[12] = PREPARES;
        body.truncate(13);
        body.extend([1, 0, 0, 0, 2, 1]);
        body.extend(b"x1b");
        let xid = GtidEvent::parse(3, &body).expect("event").prepares;
        let xid = xid.expect("identifier").to_string();
        assert_eq!(xid, "X'7831',X'62',1");
        assert!(GtidEvent::parse(3, &body[..20]).is_err());
    }

    #[test]
    fn only_the_commit_of_an_alter_in_two_phases_counts() {
        let is_announcement = |more: &[u8]| {
            let mut body = 5u64.to_le_bytes().to_vec();
            body.extend(1u32.to_le_bytes());
            body.push(STANDALONE);
            body.extend(more);
            GtidEvent::parse(3, &body).expect("event").is_announcement
        };
        // Behind the flags stands the number of the ALTER.
        for (flags, expected) in [(2, true), (4, false), (8, true), (0, false)] {
            assert_eq!(is_announcement(&[flags, 9, 0, 0, 0, 0, 0, 0, 0]), expected);
        }
        assert!(!is_announcement(&[]) && !is_announcement(&[0; 6]));
    }
}
