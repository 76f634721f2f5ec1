//! How far the files are derived: where the log must be read on after a restart.
//!
//! ```text
//! two slots of 4096 bytes: magic u32 | CRC-32 of what follows | counter u64 | LSN u64 | file u32 | state u8 | 0 0 0
//!                          offset u64 | sequence i64 | ordinal u64 | size limit u64
//! ```
//! Neighbours: `set` writes one after each sync of the file it speaks of, and lets the log go below its LSN afterwards.
//! **Invariants**: slots are written in turn, so one is whole at any time; the counter tells which is newer.

use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

use super::names::{FileNumber, Names};
use crate::bytes::{Put, Reader};
use crate::derive::Numbers;
use crate::{Error, Result};

const MAGIC: u32 = u32::from_le_bytes(*b"EBP1");
const SLOT_BYTES: u64 = 4096;
/// Bytes before what the checksum covers.
const HEAD_BYTES: usize = 8;
/// Bytes of a position.
const POSITION_BYTES: usize = HEAD_BYTES + 56;

/// What a file is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// It is being written.
    Open = 0,
    /// It ended with STOP.
    Closed = 1,
    /// It is being written, and decides about transactions: there may be more of them behind the offset.
    TwoPhase = 2,
}

/// A position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Everything in the log below is in the files.
    pub(super) lsn: u64,
    /// The last file.
    pub(super) file: FileNumber,
    /// Whether it goes on.
    pub(super) state: State,
    /// Where it ends.
    pub(super) offset: u64,
    /// What counts transactions.
    pub(super) numbers: Numbers,
    /// The size from which on it is followed by another file. Kept here because a repeated derivation must rotate where
    /// the first did.
    pub(super) max_size: u64,
}

/// The file of positions.
pub(super) struct Positions {
    file: Arc<dyn File>,
    counter: u64,
}

impl Positions {
    /// Opens it, with the newest position.
    pub(super) fn open(fs: &dyn Fs, names: &Names) -> Result<(Self, Option<Position>)> {
        let path = names.other("position");
        let is_new = !fs.exists(&path)?;
        let file = fs.open(&path, OpenMode::CreateOrOpen)?;
        if is_new {
            crate::synced(fs.sync_dir(names.dir()))?;
        }
        let mut newest = None;
        for slot in 0..2 {
            let mut bytes = [0; POSITION_BYTES];
            let is_there = file.len()? >= slot * SLOT_BYTES + POSITION_BYTES as u64;
            if !is_there {
                continue;
            }
            file.read_exact_at(&mut bytes, slot * SLOT_BYTES)?;
            let read = decode(&bytes);
            if let Some((counter, _)) = read
                && newest.is_none_or(|(other, _)| counter > other)
            {
                newest = read;
            }
        }
        if newest.is_none() && slot_zero_was_written(&*file)? {
            return Err(Error::DamagedFile {
                file: path.display().to_string(),
                offset: 0,
                what: "no position is whole".into(),
            });
        }
        let counter = newest.map_or(0, |(counter, _)| counter);
        Ok((Self { file, counter }, newest.map(|(_, position)| position)))
    }

    /// Writes the next one; durable on return.
    pub(super) fn write(&mut self, position: &Position) -> Result<()> {
        self.counter += 1;
        let bytes = encode(self.counter, position);
        self.file
            .write_all_at(&bytes, self.counter % 2 * SLOT_BYTES)?;
        crate::synced(self.file.sync_data())?;
        Ok(())
    }
}

/// The second position is the first to be written there; by then the one before is durable.
fn slot_zero_was_written(file: &dyn File) -> Result<bool> {
    let mut bytes = [0; POSITION_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(bytes[..read].iter().any(|byte| *byte != 0))
}

fn encode(counter: u64, position: &Position) -> Vec<u8> {
    let mut body = Vec::with_capacity(POSITION_BYTES);
    body.u64(counter);
    body.u64(position.lsn);
    body.u32(position.file.0);
    body.bytes(&[position.state as u8, 0, 0, 0]);
    body.u64(position.offset);
    body.u64(position.numbers.sequence as u64);
    body.u64(position.numbers.ordinal);
    body.u64(position.max_size);
    let mut out = Vec::with_capacity(POSITION_BYTES);
    out.u32(MAGIC);
    out.u32(crc32fast::hash(&body));
    out.bytes(&body);
    debug_assert_eq!(out.len(), POSITION_BYTES);
    out
}

fn decode(bytes: &[u8]) -> Option<(u64, Position)> {
    let mut r = Reader::new(bytes);
    let (magic, crc) = (r.u32().ok()?, r.u32().ok()?);
    if magic != MAGIC || crc != crc32fast::hash(&bytes[HEAD_BYTES..]) {
        return None;
    }
    let counter = r.u64().ok()?;
    let lsn = r.u64().ok()?;
    let file = FileNumber(r.u32().ok()?);
    let state = match r.u32().ok()? & 0xff {
        0 => State::Open,
        2 => State::TwoPhase,
        _ => State::Closed,
    };
    let offset = r.u64().ok()?;
    let numbers = Numbers {
        sequence: r.u64().ok()? as i64,
        ordinal: r.u64().ok()?,
    };
    let max_size = r.u64().ok()?;
    let position = Position {
        lsn,
        file,
        state,
        offset,
        numbers,
        max_size,
    };
    Some((counter, position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_slot_leaves_the_older_one() {
        let fs = esker_vfs::sim::SimFs::new();
        let names = Names::new("/b".into(), "binlog");
        fs.create_dir_all(names.dir()).expect("dir");
        let (mut positions, none) = Positions::open(&fs, &names).expect("open");
        assert_eq!(none, None);
        let position = |lsn| Position {
            lsn,
            file: FileNumber(3),
            state: State::Closed,
            offset: 7,
            numbers: Numbers {
                sequence: 5,
                ordinal: 6,
            },
            max_size: 9,
        };
        for lsn in 1..=3 {
            positions.write(&position(lsn)).expect("write");
        }
        let newest = |fs| Positions::open(fs, &names).expect("open").1;
        assert_eq!(newest(&fs), Some(position(3)));
        positions
            .file
            .write_all_at(&[9], SLOT_BYTES + 20)
            .expect("tear");
        assert_eq!(newest(&fs), Some(position(2)));
        positions.file.write_all_at(&[9], 20).expect("tear");
        assert!(Positions::open(&fs, &names).is_err());
    }
}
