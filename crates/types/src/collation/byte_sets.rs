//! The single-byte character sets: a code point, an upper and a lower byte for each of 256 bytes.
//!
//! Neighbours: `charset` converts with them, `weights` and `case` look up what a byte weighs and becomes. The tables
//! are `../../data/charsets8.bin`, made by `tools/charset-tables.py`: for each set 256 code points (u16 little
//! endian, 0 for a byte that is no character), 256 upper and 256 lower bytes.
//! **Invariants**: of several bytes that are one character the first is written; the file never changes.

use std::sync::OnceLock;

pub(super) static CHARSETS8: &[u8] = include_bytes!("../../data/charsets8.bin");

/// Bytes of one set in [`CHARSETS8`].
const SET_BYTES: usize = 4 * 256;
/// Number of sets.
pub(super) const BYTE_SETS: usize = CHARSETS8.len() / SET_BYTES;

/// A single-byte character set.
pub(super) struct ByteSet {
    points: [u16; 256],
    /// Number of the page of `bytes` for the high byte of a code point; page 0 is empty.
    pages: [u8; 256],
    /// The byte of a character, by page and low byte of its code point; 0 for none.
    bytes: Vec<[u8; 256]>,
    upper: &'static [u8],
    lower: &'static [u8],
    /// Are the first 128 bytes ASCII, also in upper and lower case?
    pub(super) plain_ascii: bool,
}

impl ByteSet {
    /// The set of this number.
    pub(super) fn get(number: u8) -> &'static Self {
        static SETS: [OnceLock<ByteSet>; BYTE_SETS] = [const { OnceLock::new() }; BYTE_SETS];
        SETS[usize::from(number)].get_or_init(|| {
            let data = &CHARSETS8[usize::from(number) * SET_BYTES..][..SET_BYTES];
            Self::read(data)
        })
    }

    fn read(data: &'static [u8]) -> Self {
        assert_eq!(data.len(), SET_BYTES, "a whole set");
        let (points, cases) = data.split_at(2 * 256);
        let (upper, lower) = cases.split_at(256);
        let mut set = Self {
            points: std::array::from_fn(|i| u16::from_le_bytes([points[2 * i], points[2 * i + 1]])),
            pages: [0; 256],
            bytes: vec![[0; 256]],
            upper,
            lower,
            plain_ascii: false,
        };
        set.plain_ascii = (0..128u8).all(|b| {
            set.points[usize::from(b)] == u16::from(b)
                && upper[usize::from(b)] == b.to_ascii_uppercase()
                && lower[usize::from(b)] == b.to_ascii_lowercase()
        });
        // Backwards, so that the first byte of a character stays.
        for byte in (1..=255u8).rev() {
            let point = set.points[usize::from(byte)];
            if point != 0 {
                set.add(point, byte);
            }
        }
        set
    }

    fn add(&mut self, point: u16, byte: u8) {
        let [high, low] = point.to_be_bytes();
        let page = &mut self.pages[usize::from(high)];
        if *page == 0 {
            *page = self.bytes.len() as u8;
            self.bytes.push([0; 256]);
        }
        self.bytes[usize::from(*page)][usize::from(low)] = byte;
    }

    /// The byte of a code point.
    pub(super) fn byte_of(&self, cp: u32) -> Option<u8> {
        let [high, low] = u16::try_from(cp).ok()?.to_be_bytes();
        let page = usize::from(self.pages[usize::from(high)]);
        match self.bytes[page][usize::from(low)] {
            0 => (cp == 0).then_some(0),
            byte => Some(byte),
        }
    }

    /// The character of a byte.
    pub(super) fn char_of(&self, byte: u8) -> Option<char> {
        match self.points[usize::from(byte)] {
            0 => (byte == 0).then_some('\0'),
            point => char::from_u32(u32::from(point)),
        }
    }

    /// The upper case of a character; one that the set lacks stays as it is.
    pub(super) fn upper(&self, cp: u32) -> u32 {
        self.case(self.upper, cp)
    }

    /// The lower case of a character; one that the set lacks stays as it is.
    pub(super) fn lower(&self, cp: u32) -> u32 {
        self.case(self.lower, cp)
    }

    fn case(&self, table: &[u8], cp: u32) -> u32 {
        self.byte_of(cp)
            .and_then(|byte| self.char_of(table[usize::from(byte)]))
            .map_or(cp, u32::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_its_byte() {
        for number in 0..BYTE_SETS {
            let set = ByteSet::get(number as u8);
            for byte in 0..=255 {
                let Some(c) = set.char_of(byte) else { continue };
                let written = set.byte_of(u32::from(c)).expect("a byte");
                assert_eq!(set.char_of(written), Some(c), "set {number}, byte {byte}");
                assert!(written <= byte, "set {number}: the first byte is written");
            }
            assert_eq!(set.byte_of(0x1F600), None);
            assert_eq!(set.upper(0x1F600), 0x1F600);
        }
    }
}
