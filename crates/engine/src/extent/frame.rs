//! Frames: the stored form of blocks, filters and indexes, with compression and checksum.
//!
//! Neighbours: `writer` seals, `reader` opens; `block` divides what zstd compresses. The bytes are described in
//! `docs/formats/extent.md`.
//!
//! **Invariants**
//! - The checksum covers what is stored and where it belongs (extent stamp, offset); it is compared before anything
//!   else.
//! - Opening allocates no more than [`MAX_RAW_BYTES`], whatever the bytes.

use std::cell::RefCell;

use lz4_flex::block::CompressTable;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

use super::block::{self, Divided};
use crate::codec::{Malformed, u32_at};

/// Compression byte, raw length, checksum.
pub(super) const TRAILER_BYTES: usize = 9;
/// Largest raw payload: a value of the largest size, its key, and change.
const MAX_RAW_BYTES: usize = crate::MAX_VALUE_BYTES + (1 << 20);

/// A buffer that a huge payload has blown up beyond this is not kept.
const MAX_KEPT_BYTES: usize = 1 << 20;

const _: () = assert!(crate::MAX_KEY_BYTES < 1 << 19);

/// How payloads are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: fast.
    Lz4,
    /// zstd at this level: small.
    Zstd(i32),
}

const STORED_RAW: u8 = 0;
const STORED_LZ4: u8 = 1;
const STORED_ZSTD: u8 = 2;
/// A divided block: its numbers and keys, then its values, with zstd each.
const STORED_DIVIDED: u8 = 3;
/// Larger blocks are not divided: that takes memory for one more block.
const MAX_DIVIDED_BYTES: usize = 1 << 20;

/// How the payload of a frame is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// As it is.
    Raw,
    /// As an LZ4 block.
    Lz4,
    /// With zstd.
    Zstd,
}

/// How the payload of a frame is stored that [`open`] takes.
pub(super) fn packed(stored: &[u8]) -> Packed {
    let code = stored.len().checked_sub(TRAILER_BYTES).map(|at| stored[at]);
    match code {
        Some(STORED_LZ4) => Packed::Lz4,
        Some(STORED_ZSTD | STORED_DIVIDED) => Packed::Zstd,
        _ => Packed::Raw,
    }
}

/// Where a frame belongs: part of its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct FramePlace {
    pub(super) stamp: u64,
    pub(super) offset: u32,
}

fn checksum(covered: &[u8], place: FramePlace) -> u32 {
    let mut tail = [0; 12];
    tail[..8].copy_from_slice(&place.stamp.to_le_bytes());
    tail[8..].copy_from_slice(&place.offset.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(covered), &tail)
}

/// A way to compress with what it keeps from one payload to the next.
enum Method {
    None,
    Lz4(CompressTable),
    /// At this level.
    Zstd(Compressor<'static>, i32),
}

/// Of values zstd at its fast levels looks for matches of so many bytes; left to itself it would take 5 for payloads up
/// to 16 KiB. Matches of 5 digits take more than they save, and longer to unpack.
const SHORTEST_MATCH_IN_VALUES: u32 = 6;
const FAST_LEVELS: i32 = 2;

/// Makes frames. Tables and buffers are kept between them.
pub(super) struct Packer {
    method: Method,
    /// A compressed payload, until it is known whether it is worth it.
    packed: Vec<u8>,
    divided: Divided,
}

impl Packer {
    /// One that compresses in this way.
    pub(super) fn new(compression: Compression) -> Packer {
        let method = match compression {
            Compression::None => Method::None,
            Compression::Lz4 => Method::Lz4(CompressTable::default()),
            // Without memory for its tables payloads are stored as they are.
            Compression::Zstd(level) => {
                Compressor::new(level).map_or(Method::None, |it| Method::Zstd(it, level))
            }
        };
        Packer {
            method,
            packed: Vec::new(),
            divided: Divided::default(),
        }
    }

    /// Bytes of memory it keeps.
    pub(super) fn bytes(&mut self) -> usize {
        let tables = match &mut self.method {
            Method::None | Method::Lz4(_) => 0,
            Method::Zstd(compressor, _) => compressor.context_mut().sizeof(),
        };
        tables + self.packed.capacity() + self.divided.bytes()
    }

    /// Appends the frame of `raw` to `out`.
    pub(super) fn seal(&mut self, out: &mut Vec<u8>, raw: &[u8], place: FramePlace) {
        let packed = self.pack(raw);
        self.close(out, raw, place, packed);
    }

    /// The same for a block, which may be divided.
    pub(super) fn seal_block(&mut self, out: &mut Vec<u8>, raw: &[u8], place: FramePlace) {
        let packed = match self.method {
            Method::Zstd(..) if raw.len() <= MAX_DIVIDED_BYTES => self.pack_divided(raw),
            _ => self.pack(raw),
        };
        self.close(out, raw, place, packed);
    }

    /// Appends the frame of `raw`, which was perhaps packed: how, and into how many bytes.
    fn close(
        &mut self,
        out: &mut Vec<u8>,
        raw: &[u8],
        place: FramePlace,
        packed: Option<(u8, usize)>,
    ) {
        assert!(raw.len() <= MAX_RAW_BYTES);
        let start = out.len();
        let worth = raw.len() - raw.len() / 8;
        let code = match packed {
            Some((code, length)) if length <= worth => {
                out.extend_from_slice(&self.packed[..length]);
                code
            }
            _ => {
                out.extend_from_slice(raw);
                STORED_RAW
            }
        };
        out.push(code);
        out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
        debug_assert!(
            out.len() - start <= raw.len() + TRAILER_BYTES,
            "what does not shrink is stored as it is"
        );
        let checksum = checksum(&out[start..], place);
        out.extend_from_slice(&checksum.to_le_bytes());
        if self.packed.len() > MAX_KEPT_BYTES {
            self.packed = Vec::new();
        }
    }

    /// Compresses to the beginning of `packed`: how, and how many bytes it has become.
    fn pack(&mut self, raw: &[u8]) -> Option<(u8, usize)> {
        let most = match self.method {
            Method::None => return None,
            Method::Lz4(_) => lz4_flex::block::get_maximum_output_size(raw.len()),
            Method::Zstd(..) => zstd::zstd_safe::compress_bound(raw.len()),
        };
        if self.packed.len() < most {
            self.packed.resize(most, 0);
        }
        let packed = &mut self.packed[..];
        match &mut self.method {
            Method::None => None,
            Method::Lz4(table) => {
                let length = lz4_flex::block::compress_into_with_table(raw, packed, table);
                Some((STORED_LZ4, length.ok()?))
            }
            Method::Zstd(compressor, _) => {
                let length = compressor.compress_to_buffer(raw, packed);
                Some((STORED_ZSTD, length.ok()?))
            }
        }
    }

    /// The same for a block that is divided before.
    fn pack_divided(&mut self, raw: &[u8]) -> Option<(u8, usize)> {
        let Method::Zstd(compressor, level) = &mut self.method else {
            return None;
        };
        self.divided.set(raw);
        let [rest, values] = self.divided.parts();
        // 0 leaves it to zstd.
        let in_values = match *level <= FAST_LEVELS {
            true => SHORTEST_MATCH_IN_VALUES,
            false => 0,
        };
        let parts = [(rest, 0), (values, in_values)].into_iter();
        let mut length = 0;
        for (part, shortest_match) in parts.filter(|(part, _)| !part.is_empty()) {
            let end = length + zstd::zstd_safe::compress_bound(part.len());
            if self.packed.len() < end {
                self.packed.resize(end, 0);
            }
            let packed = &mut self.packed[length..];
            let parameter = CParameter::MinMatch(shortest_match);
            compressor.set_parameter(parameter).ok()?;
            length += compressor.compress_to_buffer(part, packed).ok()?;
            compressor.set_parameter(CParameter::MinMatch(0)).ok()?;
        }
        debug_assert!(length <= self.packed.len());
        Some((STORED_DIVIDED, length))
    }
}

/// What zstd needs to decompress, and room for a divided block.
struct Unpacker {
    zstd: Decompressor<'static>,
    divided: Vec<u8>,
}

thread_local! {
    /// Some 100 KiB, which would be allocated for every block otherwise.
    static UNPACKER: RefCell<Option<Unpacker>> = const { RefCell::new(None) };
}

impl Unpacker {
    /// Has this thread's do something.
    fn with<T>(work: impl FnOnce(&mut Self) -> Result<T, Malformed>) -> Result<T, Malformed> {
        UNPACKER.with_borrow_mut(|unpacker| match unpacker {
            Some(unpacker) => work(unpacker),
            None => work(unpacker.insert(Unpacker {
                zstd: Decompressor::new().map_err(|_| "zstd cannot be used")?,
                divided: Vec::new(),
            })),
        })
    }

    fn unpack(&mut self, payload: &[u8], raw: &mut [u8]) -> Result<usize, Malformed> {
        let length = self.zstd.decompress_to_buffer(payload, raw);
        length.map_err(|_| CANNOT_BE_UNPACKED)
    }

    fn unpack_divided(&mut self, payload: &[u8], raw: &mut [u8]) -> Result<usize, Malformed> {
        if raw.len() > MAX_DIVIDED_BYTES {
            return Err("a divided block is too long");
        }
        let bound = block::divided_bound(raw.len());
        if self.divided.len() < bound {
            self.divided.resize(bound, 0);
        }
        let length = self
            .zstd
            .decompress_to_buffer(payload, &mut self.divided[..bound])
            .map_err(|_| CANNOT_BE_UNPACKED)?;
        block::join(&self.divided[..length], raw)?;
        Ok(raw.len())
    }
}

const CANNOT_BE_UNPACKED: Malformed = "a frame cannot be decompressed";

/// A frame whose checksum is right.
pub(super) struct Sealed<'a> {
    payload: &'a [u8],
    code: u8,
    raw_bytes: usize,
}

impl<'a> Sealed<'a> {
    /// Checks what is stored.
    pub(super) fn check(stored: &'a [u8], place: FramePlace) -> Result<Self, Malformed> {
        let payload_end = stored
            .len()
            .checked_sub(TRAILER_BYTES)
            .ok_or("a frame is too short")?;
        let covered = payload_end + TRAILER_BYTES - 4;
        if u32_at(stored, covered) != Some(checksum(&stored[..covered], place)) {
            return Err("the checksum is wrong");
        }
        let raw_bytes =
            u32_at(stored, payload_end + 1).map_or(usize::MAX, |length| length as usize);
        if raw_bytes > MAX_RAW_BYTES {
            return Err("a frame is too long");
        }
        Ok(Sealed {
            payload: &stored[..payload_end],
            code: stored[payload_end],
            raw_bytes,
        })
    }

    /// Bytes of the raw payload.
    pub(super) fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    /// Writes the raw payload, which has the length of `raw`.
    pub(super) fn unpack(&self, raw: &mut [u8]) -> Result<(), Malformed> {
        debug_assert_eq!(raw.len(), self.raw_bytes, "the caller has made room");
        let length = match self.code {
            STORED_RAW if self.payload.len() == raw.len() => {
                raw.copy_from_slice(self.payload);
                raw.len()
            }
            STORED_RAW => self.payload.len(),
            STORED_LZ4 => lz4_flex::block::decompress_into(self.payload, raw)
                .map_err(|_| CANNOT_BE_UNPACKED)?,
            STORED_ZSTD => Unpacker::with(|it| it.unpack(self.payload, raw))?,
            STORED_DIVIDED => Unpacker::with(|it| it.unpack_divided(self.payload, raw))?,
            _ => return Err("unknown compression"),
        };
        match length == raw.len() {
            true => Ok(()),
            false => Err("a frame has another length than it says"),
        }
    }
}

/// The raw payload of a frame.
pub(super) fn open(stored: &[u8], place: FramePlace) -> Result<Box<[u8]>, Malformed> {
    let sealed = Sealed::check(stored, place)?;
    let mut raw = vec![0; sealed.raw_bytes()].into_boxed_slice();
    sealed.unpack(&mut raw)?;
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    const PLACE: FramePlace = FramePlace {
        stamp: 7,
        offset: 4096,
    };

    #[test]
    fn frames_round_trip_and_belong_to_their_place() {
        let repetitive = b"abcdefgh".repeat(500);
        let random: Vec<u8> = (0..4000u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd(3)] {
            let mut packer = Packer::new(compression);
            for raw in [&repetitive[..], &random, b"", b"x"] {
                let mut stored = b"before".to_vec();
                packer.seal(&mut stored, raw, PLACE);
                let stored = stored.split_off(6);
                assert_eq!(&*open(&stored, PLACE).unwrap(), raw);
                assert!(open(&stored, FramePlace { stamp: 8, ..PLACE }).is_err());
                assert!(open(&stored, FramePlace { offset: 0, ..PLACE }).is_err());
            }
            let mut stored = Vec::new();
            packer.seal(&mut stored, &repetitive, PLACE);
            assert_eq!(
                compression == Compression::None,
                stored.len() > repetitive.len()
            );
        }
    }

    /// A block with so many bytes in each value, digits at random.
    fn block_of(value_bytes: u64) -> Vec<u8> {
        let mut builder = block::BlockBuilder::new();
        let mut random = 1u64;
        let mut digit = |_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            b'0' + (random >> 33) as u8 % 10
        };
        for key in 0..80u32 {
            let value: Vec<u8> = (0..value_bytes).map(&mut digit).collect();
            builder.add(
                &(key * 7).to_be_bytes(),
                u64::from(key % 9),
                Op::Put,
                &value,
            );
        }
        let mut raw = Vec::new();
        builder.finish(&mut raw);
        raw
    }

    #[test]
    fn blocks_are_divided_for_zstd_and_smaller_for_it() {
        let huge = block_of(MAX_DIVIDED_BYTES as u64 / 80);
        assert!(huge.len() > MAX_DIVIDED_BYTES);
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
            let mut packer = Packer::new(compression);
            for (raw, code) in [
                (block_of(180), STORED_DIVIDED),
                (block_of(0), STORED_DIVIDED),
                (huge.clone(), STORED_ZSTD),
            ] {
                let (mut plain, mut stored) = (Vec::new(), Vec::new());
                packer.seal(&mut plain, &raw, PLACE);
                packer.seal_block(&mut stored, &raw, PLACE);
                assert_eq!(&*open(&stored, PLACE).unwrap(), raw);
                match compression {
                    Compression::Zstd(_) => {
                        assert_eq!(stored[stored.len() - TRAILER_BYTES], code);
                        assert_eq!(packed(&stored), Packed::Zstd);
                        let saves = stored.len() < plain.len() - plain.len() / 50;
                        assert_eq!(
                            saves,
                            code == STORED_DIVIDED,
                            "{} {}",
                            stored.len(),
                            plain.len()
                        );
                    }
                    _ => assert_eq!(stored, plain),
                }
            }
        }
    }

    #[test]
    fn what_a_packer_keeps_does_not_change_what_comes_next() {
        let huge = b"0123456789".repeat(1 << 18);
        for compression in [Compression::Lz4, Compression::Zstd(1)] {
            let mut used = Packer::new(compression);
            for raw in [&huge[..], &b"abc".repeat(99), &huge[..70_000], b"", &huge] {
                let (mut first, mut again) = (Vec::new(), Vec::new());
                Packer::new(compression).seal(&mut first, raw, PLACE);
                used.seal(&mut again, raw, PLACE);
                assert!(raw.is_empty() || first.len() < raw.len());
                assert_eq!(&*open(&again, PLACE).unwrap(), raw);
                assert!(used.packed.len() <= MAX_KEPT_BYTES);
            }
        }
    }

    #[test]
    fn every_bit_of_a_frame_counts() {
        let mut stored = Vec::new();
        let text = b"some text, some text".repeat(9);
        Packer::new(Compression::Lz4).seal(&mut stored, &text, PLACE);
        for bit in 0..stored.len() * 8 {
            let mut damaged = stored.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&damaged, PLACE).is_err(), "bit {bit}");
        }
    }
}
