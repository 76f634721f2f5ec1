//! The compressed protocol: packets inside of packets.
//!
//! Neighbours: `server` puts it between its socket and `frame` once a client that asked for it is logged in. A
//! compressed packet is 3 bytes of length, 1 byte of sequence number and 3 bytes of the length before compression,
//! which is 0 when the bytes are as they were. What is inside is a stretch of the stream of ordinary packets, cut
//! anywhere. **Invariants**: one compressed packet is unpacked at a time, so no more than [`MAX_PACKET`] bytes of what
//! was received and [`MAX_PACKET`] bytes of what was in it are held here; the length before compression is checked
//! against what comes out.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Decompress, FlushDecompress, Status};

use crate::WireError;
use crate::frame::MAX_PACKET;

/// Bytes before each compressed packet.
const HEADER: usize = 7;
/// Less than this is not worth compressing (as in MySQL).
const LEAST: usize = 50;
/// Bytes compressed at a time: as many as the protocol has room for, as in MySQL. Connector/Python takes a row from two
/// compressed packets at most, and leaves out the rest of one that is in more.
const CHUNK: usize = MAX_PACKET;
/// The level of zlib.
pub const ZLIB_LEVEL: u32 = 6;
/// The levels of zstd.
pub const ZSTD_LEVELS: std::ops::RangeInclusive<u8> = 1..=22;

/// What was agreed on in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// zlib.
    Zlib,
    /// zstd with the level that the client wishes.
    Zstd(u8),
}

impl Algorithm {
    /// As MySQL's variables and status call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Zstd(_) => "zstd",
        }
    }

    /// The level it compresses with.
    pub fn level(self) -> u32 {
        match self {
            Self::Zlib => ZLIB_LEVEL,
            Self::Zstd(level) => u32::from(level),
        }
    }
}

/// Both directions of one connection.
#[derive(Debug)]
pub struct Compressor {
    algorithm: Algorithm,
    /// Received and not yet unpacked.
    received: Vec<u8>,
    /// Packed and to be sent.
    packed: Vec<u8>,
    /// Sequence number of the next compressed packet, of either side.
    seq: u8,
    /// Packets that come may have any number.
    takes_any_order: bool,
}

impl Compressor {
    /// For a connection that has just logged in.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            received: Vec::new(),
            packed: Vec::new(),
            seq: 0,
            takes_any_order: false,
        }
    }

    /// A client begins a command.
    pub fn restart(&mut self) {
        self.seq = 0;
    }

    /// Both sides send when they like from now on, each with numbers of its own.
    pub fn ignore_order(&mut self) {
        self.takes_any_order = true;
    }

    /// What was agreed on.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The buffer to append received bytes to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.received
    }

    /// Unpacks the next compressed packet, if it is there, to the end of `to`.
    ///
    /// # Errors
    /// A packet out of order, or one that does not hold what its header says. The connection is unusable then.
    pub fn unpack(&mut self, to: &mut Vec<u8>) -> Result<bool, WireError> {
        let Some(header) = self.received.first_chunk::<HEADER>() else {
            return Ok(false);
        };
        let len = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], 0]) as usize
        };
        let (packed, unpacked, seq) = (len(0), len(4), header[3]);
        // A command begins again with 0.
        if seq != self.seq && seq != 0 && !self.takes_any_order {
            return Err(WireError::OutOfOrder {
                expected: self.seq,
                got: seq,
            });
        }
        let Some(bytes) = self.received.get(HEADER..HEADER + packed) else {
            return Ok(false);
        };
        let begin = to.len();
        match (unpacked, self.algorithm) {
            (0, _) => to.extend_from_slice(bytes),
            (_, Algorithm::Zlib) => {
                to.resize(begin + unpacked, 0);
                let mut stream = Decompress::new(true);
                let ended = stream.decompress(bytes, &mut to[begin..], FlushDecompress::Finish);
                let whole = ended.is_ok_and(|status| status == Status::StreamEnd);
                if !whole || stream.total_out() != unpacked as u64 {
                    return Err(WireError::Compressed);
                }
            }
            (_, Algorithm::Zstd(_)) => {
                let out = zstd::bulk::decompress(bytes, unpacked);
                let out = out.map_err(|_| WireError::Compressed)?;
                if out.len() != unpacked {
                    return Err(WireError::Compressed);
                }
                to.extend_from_slice(&out);
            }
        }
        self.seq = seq.wrapping_add(1);
        self.received.drain(..HEADER + packed);
        Ok(true)
    }

    /// Packs bytes that are to be sent, and returns all that is packed.
    pub fn pack(&mut self, bytes: &[u8]) -> &[u8] {
        self.packed.clear();
        for chunk in bytes.chunks(CHUNK) {
            let squeezed = (chunk.len() >= LEAST)
                .then(|| self.squeeze(chunk))
                .flatten();
            let (body, unpacked) = match &squeezed {
                Some(squeezed) => (squeezed.as_slice(), chunk.len()),
                None => (chunk, 0),
            };
            self.packed
                .extend_from_slice(&(body.len() as u32).to_le_bytes()[..3]);
            self.packed.push(self.seq);
            self.packed
                .extend_from_slice(&(unpacked as u32).to_le_bytes()[..3]);
            self.packed.extend_from_slice(body);
            self.seq = self.seq.wrapping_add(1);
        }
        &self.packed
    }

    /// None where compression does not make it shorter.
    fn squeeze(&self, chunk: &[u8]) -> Option<Vec<u8>> {
        let squeezed = match self.algorithm {
            Algorithm::Zlib => {
                let mut encoder =
                    ZlibEncoder::new(Vec::new(), flate2::Compression::new(ZLIB_LEVEL));
                encoder.write_all(chunk).and_then(|()| encoder.finish())
            }
            Algorithm::Zstd(level) => zstd::bulk::compress(chunk, i32::from(level)),
        };
        squeezed
            .ok()
            .filter(|squeezed| squeezed.len() < chunk.len())
    }

    /// Are there bytes that no packet has consumed?
    pub fn has_pending(&self) -> bool {
        !self.received.is_empty()
    }

    /// Gives memory back between commands.
    pub fn shrink(&mut self, keep: usize) {
        if self.packed.capacity() > keep {
            self.packed = Vec::new();
        }
        if self.received.is_empty() && self.received.capacity() > keep {
            self.received = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: [Algorithm; 2] = [Algorithm::Zlib, Algorithm::Zstd(3)];

    fn round_trip(algorithm: Algorithm, bytes: &[u8]) -> usize {
        let packed = Compressor::new(algorithm).pack(bytes).to_vec();
        let mut other = Compressor::new(algorithm);
        let mut got = Vec::new();
        // It arrives in two pieces.
        for part in [&packed[..packed.len() / 2], &packed[packed.len() / 2..]] {
            other.buffer().extend_from_slice(part);
            while other.unpack(&mut got).expect("whole") {}
        }
        assert!(got == bytes && !other.has_pending());
        packed.len()
    }

    #[test]
    fn packets_of_all_sizes() {
        for algorithm in BOTH {
            for len in [0, 1, LEAST - 1, LEAST, 3 << 20, CHUNK + 1] {
                let same = round_trip(algorithm, &vec![7; len]);
                assert!(same <= len / 50 + 200, "{len} became {same}");
            }
            // What does not get shorter goes as it is.
            let noise: Vec<u8> = (0..5000_u32)
                .flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes())
                .collect();
            assert!(round_trip(algorithm, &noise) <= noise.len() + HEADER);
        }
    }

    #[test]
    fn a_row_of_some_megabytes_is_in_one_packet() {
        let packed = Compressor::new(Algorithm::Zlib)
            .pack(&vec![7; 3 << 20])
            .to_vec();
        let length = u32::from_le_bytes([packed[0], packed[1], packed[2], 0]);
        assert_eq!(packed.len(), HEADER + length as usize);
    }

    #[test]
    fn packets_out_of_order_and_lies_are_errors() {
        for algorithm in BOTH {
            let mut a = Compressor::new(algorithm);
            let good = a.pack(&[5; 1000]).to_vec();
            for (at, to) in [
                (3, 9),
                (4, 1),
                (4, 255),
                (6, 255),
                (HEADER, 0),
                (HEADER + 2, 99),
            ] {
                let mut bad = good.clone();
                bad[at] = to;
                let mut b = Compressor::new(algorithm);
                b.buffer().extend_from_slice(&bad);
                let mut to = Vec::new();
                assert!(b.unpack(&mut to).is_err(), "{algorithm:?}: byte {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn anything_received_is_a_packet_an_error_or_not_enough(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for algorithm in BOTH {
                let mut c = Compressor::new(algorithm);
                c.buffer().extend_from_slice(&bytes);
                let mut to = Vec::new();
                while let Ok(true) = c.unpack(&mut to) {}
            }
        }
    }
}
