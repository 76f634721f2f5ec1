//! Segment header and segment file names.

use super::fields::{array_at, crc_with_hole, put, u16_at, u32_at, u64_at};
use crate::lsn::Lsn;

const MAGIC: u32 = u32::from_le_bytes(*b"EWLS");
const VERSION: u16 = 1;
const FLAG_AFTER_OPEN: u16 = 1;
const FLAG_GAP: u16 = 1 << 1;

const AT_MAGIC: usize = 0;
const AT_VERSION: usize = AT_MAGIC + 4;
const AT_FLAGS: usize = AT_VERSION + 2;
const AT_CRC: usize = AT_FLAGS + 2;
const AT_CLUSTER: usize = AT_CRC + 8;
const AT_START: usize = AT_CLUSTER + 16;
const AT_ID: usize = AT_START + 8;
const AT_LENGTH: usize = AT_ID + 8;
const AT_GAP: usize = AT_LENGTH + 8;
/// Bytes that the checksum covers.
const HEADER_BYTES: usize = AT_GAP + 8;
const _: () = assert!(HEADER_BYTES == 64 && AT_CLUSTER == 16);

/// The facts about a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) cluster: [u8; 16],
    pub(crate) start: Lsn,
    /// Random for each life of a file as a segment.
    pub(crate) id: u64,
    pub(crate) file_bytes: u64,
    /// Begun by opening the log, not by running out of room.
    pub(crate) after_open: bool,
    /// The log before the segment ends here already, at or below its start: what was between was given up.
    pub(crate) gap: Option<Lsn>,
}

impl SegmentHeader {
    /// Length of the encoding.
    pub(crate) const BYTES: usize = HEADER_BYTES;

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, AT_MAGIC, &MAGIC.to_le_bytes());
        put(&mut bytes, AT_VERSION, &VERSION.to_le_bytes());
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(self.after_open, FLAG_AFTER_OPEN) | flag(self.gap.is_some(), FLAG_GAP);
        put(&mut bytes, AT_FLAGS, &flags.to_le_bytes());
        put(&mut bytes, AT_CLUSTER, &self.cluster);
        put(&mut bytes, AT_START, &self.start.0.to_le_bytes());
        put(&mut bytes, AT_ID, &self.id.to_le_bytes());
        put(&mut bytes, AT_LENGTH, &self.file_bytes.to_le_bytes());
        let gap = self.gap.map_or(0, |lsn| lsn.0);
        put(&mut bytes, AT_GAP, &gap.to_le_bytes());
        let crc = crc_with_hole(&bytes, AT_CRC);
        put(&mut bytes, AT_CRC, &crc.to_le_bytes());
        bytes
    }

    /// The header in these bytes, or what is wrong with them.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, &'static str> {
        if u32_at(bytes, AT_MAGIC) != MAGIC {
            return Err("this is not a log segment");
        }
        if u32_at(bytes, AT_CRC) != crc_with_hole(bytes, AT_CRC) {
            return Err("the checksum of the segment header is wrong");
        }
        if u16_at(bytes, AT_VERSION) != VERSION {
            return Err("the segment has a version that this program does not know");
        }
        let flags = u16_at(bytes, AT_FLAGS);
        let start = Lsn(u64_at(bytes, AT_START));
        let gap = (flags & FLAG_GAP != 0).then(|| Lsn(u64_at(bytes, AT_GAP)));
        if gap.is_some_and(|gap| gap > start) {
            return Err("the segment says that the log before it ends behind its start");
        }
        Ok(Self {
            cluster: array_at(bytes, AT_CLUSTER),
            start,
            id: u64_at(bytes, AT_ID),
            file_bytes: u64_at(bytes, AT_LENGTH),
            after_open: flags & FLAG_AFTER_OPEN != 0,
            gap,
        })
    }
}

/// File name of the segment that starts here.
pub(crate) fn segment_name(start: Lsn) -> String {
    format!("{:016x}.wal", start.0)
}

/// The start LSN in a segment's file name; `None` for other names.
pub(crate) fn parse_segment_name(name: &str) -> Option<Lsn> {
    let hex = name.strip_suffix(".wal")?;
    let start = Lsn(u64::from_str_radix(hex, 16).ok()?);
    (segment_name(start) == name).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trip_and_every_flipped_bit_is_seen() {
        let header = SegmentHeader {
            cluster: *b"0123456789abcdef",
            start: Lsn(0x1234_5678),
            id: u64::MAX - 3,
            file_bytes: 65536,
            after_open: true,
            gap: Some(Lsn(0x1234_0000)),
        };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes).unwrap(), header);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn names_sort_like_positions() {
        assert_eq!(parse_segment_name(&segment_name(Lsn(255))), Some(Lsn(255)));
        assert!(segment_name(Lsn(9)) < segment_name(Lsn(10)));
        for name in [
            "spare-1.tmp",
            "ff.wal",
            "00000000000000FF.wal",
            "+0000000000000ff.wal",
        ] {
            assert_eq!(parse_segment_name(name), None);
        }
    }
}
