//! A channel's state in the database: a checkpoint, and a ring of the transactions behind it.
//!
//! ```text
//! checkpoint  version u8 = 1 | low varint | place | GTID set | last MariaDB GTID of each domain
//! ring        version u8 = 1 | ordinal varint | kind u8 (0 position, 1 GTID, 2 MariaDB) | GTID | place
//! place       source's file, source's offset, number of the relay file, offset in it
//! ```
//! Every transaction writes its row of the ring, at `ordinal % RING`, in the record of its own commit; a checkpoint is
//! written before a row would be overwritten that no checkpoint covers. So the state is one checkpoint and at most
//! [`RING`] rows, nothing is deleted, no two transactions in flight write the same row, and a start reads exactly what
//! is committed: gaps of parallel applying included. Neighbours: `progress` counts in memory; `sql` has the tree.
//! **Invariants**: a group is begun only if its ordinal is at most [`RING`] above the last checkpoint; bytes from the
//! tree are checked.

use std::collections::BTreeMap;

use super::{Id, MariaGtid, MariaGtidSet, Place, RelayPlace};
use crate::bytes::{Put, Reader};
use crate::gtid::{Gtid, GtidSet, Sid, Source, Tag};
use crate::{Result, damaged};

/// Rows of the ring.
pub const RING: u64 = 4096;
/// A checkpoint is written when this many transactions are behind the last one.
pub const CHECKPOINT_EVERY: u64 = RING / 4;

const VERSION: u8 = 1;

/// A transaction that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What it is called.
    pub id: Id,
    /// Where it ends.
    pub end: Place,
}

/// What a channel has applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChannelState {
    /// Everything up to this ordinal.
    pub low: u64,
    /// Where that ends.
    pub end: Place,
    /// MySQL's GTIDs up to there.
    pub gtids: GtidSet,
    /// MariaDB's, the last one of each domain. They pass over nothing: by position a source's numbers may begin anew.
    pub maria: MariaGtidSet,
    /// What is applied above `low`.
    pub ahead: BTreeMap<u64, Applied>,
}

impl ChannelState {
    /// The ordinal of the group at `end`.
    pub fn next_ordinal(&self) -> u64 {
        self.low + 1
    }

    /// Everything that is applied, as MySQL's GTIDs.
    pub fn all_gtids(&self) -> GtidSet {
        let mut all = self.gtids.clone();
        for applied in self.ahead.values() {
            if let Id::Gtid(gtid) = &applied.id {
                all.add(gtid);
            }
        }
        all
    }

    /// A transaction of this name is applied.
    pub(super) fn add(&mut self, id: &Id) {
        match id {
            Id::Gtid(gtid) => self.gtids.add(gtid),
            Id::Maria(gtid) => self.maria.add(*gtid),
            Id::Position => {}
        }
    }

    /// Is a transaction of this name applied without a gap before it, as sets of MySQL's GTIDs say?
    pub(super) fn has(&self, id: &Id) -> bool {
        match id {
            Id::Gtid(gtid) => self.gtids.contains(gtid),
            Id::Maria(_) | Id::Position => false,
        }
    }

    /// The value of a checkpoint.
    pub fn checkpoint(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.varint(self.low);
        write_place(&self.end, &mut out);
        let mut set = Vec::new();
        self.gtids.encode(&mut set);
        out.var_bytes(&set);
        out.varint(self.maria.iter().count() as u64);
        self.maria
            .iter()
            .for_each(|gtid| write_maria(gtid, &mut out));
        out
    }

    /// The state of a checkpoint and the rows of its ring, in any order.
    ///
    /// # Errors
    /// Damaged values.
    pub fn read<'a>(
        checkpoint: Option<&[u8]>,
        ring: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Self> {
        let mut state = match checkpoint {
            None => Self::default(),
            Some(bytes) => Self::read_checkpoint(bytes)?,
        };
        for row in ring {
            let (ordinal, applied) = read_row(row)?;
            if ordinal > state.low + RING {
                return Err(damaged(
                    "replication channel: a transaction beyond the ring",
                ));
            }
            if ordinal > state.low {
                state.ahead.insert(ordinal, applied);
            }
        }
        Ok(super::progress::Progress::new(state).state())
    }

    fn read_checkpoint(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        check_version(&mut r)?;
        let low = r.varint()?;
        let end = read_place(&mut r)?;
        let gtids = GtidSet::decode(r.var_bytes()?)?;
        let mut maria = MariaGtidSet::default();
        for _ in 0..r.varint()? {
            maria.add(read_maria(&mut r)?);
        }
        Ok(Self {
            low,
            end,
            gtids,
            maria,
            ahead: BTreeMap::new(),
        })
    }
}

/// The row of the ring that a transaction has.
pub fn slot(ordinal: u64) -> u16 {
    (ordinal % RING) as u16
}

/// The value of a transaction's row.
pub fn row(ordinal: u64, id: &Id, end: &Place) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.u8(VERSION);
    out.varint(ordinal);
    match id {
        Id::Position => out.u8(0),
        Id::Gtid(gtid) => {
            out.u8(1);
            out.bytes(&gtid.source.sid.0);
            out.short_bytes(gtid.source.tag.as_str().as_bytes());
            out.varint(gtid.gno);
        }
        Id::Maria(gtid) => {
            out.u8(2);
            write_maria(gtid, &mut out);
        }
    }
    write_place(end, &mut out);
    out
}

fn read_row(bytes: &[u8]) -> Result<(u64, Applied)> {
    let mut r = Reader::new(bytes);
    check_version(&mut r)?;
    let ordinal = r.varint()?;
    let id = match r.u8()? {
        0 => Id::Position,
        1 => {
            let sid = Sid(r.array()?);
            let tag = std::str::from_utf8(r.short_bytes()?).ok();
            let tag = tag
                .and_then(Tag::new)
                .ok_or_else(|| damaged("replication channel: tag"))?;
            let source = Source { sid, tag };
            let gno = r.varint()?;
            Id::Gtid(Gtid { source, gno })
        }
        2 => Id::Maria(read_maria(&mut r)?),
        _ => return Err(damaged("replication channel: kind of a transaction")),
    };
    let end = read_place(&mut r)?;
    Ok((ordinal, Applied { id, end }))
}

pub(super) fn check_version(r: &mut Reader<'_>) -> Result<()> {
    match r.u8()? {
        VERSION => Ok(()),
        _ => Err(damaged("replication channel: unknown version")),
    }
}

pub(super) fn write_maria(gtid: &MariaGtid, out: &mut Vec<u8>) {
    out.varint(gtid.domain.into());
    out.varint(gtid.server_id.into());
    out.varint(gtid.sequence);
}

pub(super) fn read_maria(r: &mut Reader<'_>) -> Result<MariaGtid> {
    let bad = |_| damaged("replication channel: GTID");
    Ok(MariaGtid {
        domain: u32::try_from(r.varint()?).map_err(bad)?,
        server_id: u32::try_from(r.varint()?).map_err(bad)?,
        sequence: r.varint()?,
    })
}

fn write_place(place: &Place, out: &mut Vec<u8>) {
    out.var_bytes(place.source_file.as_bytes());
    out.varint(place.source_pos);
    out.varint(place.relay.file);
    out.varint(place.relay.offset);
}

fn read_place(r: &mut Reader<'_>) -> Result<Place> {
    let file = std::str::from_utf8(r.var_bytes()?);
    Ok(Place {
        source_file: file
            .map_err(|_| damaged("replication channel: file"))?
            .to_owned(),
        source_pos: r.varint()?,
        relay: RelayPlace {
            file: r.varint()?,
            offset: r.varint()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(ordinal: u64) -> Place {
        Place {
            source_file: "binlog.000001".to_owned(),
            source_pos: ordinal * 10,
            relay: RelayPlace {
                file: 2,
                offset: ordinal * 11,
            },
        }
    }

    fn ids() -> [Id; 3] {
        let gtid = "11111111-1111-1111-1111-111111111111:tag:5";
        [
            Id::Position,
            Id::Gtid(gtid.parse().expect("GTID")),
            Id::Maria("1-2-3".parse().expect("GTID")),
        ]
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let mut state = ChannelState {
            low: 7,
            end: end(7),
            ..ChannelState::default()
        };
        ids().iter().for_each(|id| state.add(id));
        let rows: Vec<Vec<u8>> = [5, 8, 11]
            .iter()
            .zip(&ids())
            .map(|(n, id)| row(*n, id, &end(*n)))
            .collect();
        let read = |rows: &[Vec<u8>]| {
            ChannelState::read(Some(&state.checkpoint()), rows.iter().map(Vec::as_slice))
        };
        let with_gap = read(&rows).expect("state");
        assert_eq!((with_gap.low, &with_gap.end), (8, &end(8)));
        assert_eq!(with_gap.ahead.keys().collect::<Vec<_>>(), [&11]);
        assert_eq!(with_gap.gtids, state.gtids);
        assert!(read(&[row(7 + RING + 1, &Id::Position, &end(1))]).is_err());
        for bytes in rows.iter().chain([&state.checkpoint()]) {
            for cut in 0..bytes.len() {
                let whole = ChannelState::read(Some(&bytes[..cut]), std::iter::empty());
                assert!(whole.is_err() || bytes == &rows[0]);
                assert!(read_row(&bytes[..cut]).is_err() || bytes == &state.checkpoint());
            }
        }
    }

    #[test]
    fn without_a_checkpoint_the_ring_is_all() {
        let rows: Vec<Vec<u8>> = (1..=3).map(|n| row(n, &Id::Position, &end(n))).collect();
        let state = ChannelState::read(None, rows.iter().map(Vec::as_slice)).expect("state");
        assert_eq!((state.low, state.next_ordinal(), state.end), (3, 4, end(3)));
    }
}
