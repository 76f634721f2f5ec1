//! The multi-byte character sets of East Asia but for `gb18030`: big5, cp932, eucjpms, euckr, gb2312, gbk, sjis and
//! ujis.
//!
//! Neighbours: `charset` converts with them, `weights` and `case` look up what a character weighs and becomes. The
//! tables are `../../data/multibyte/*.bin`, made by `tools/charset-tables.py`; each has five lists:
//! - the character of each code,
//! - the code that is written for a character of which the first code is not,
//! - upper case and lower case of the characters that have one,
//! - the weight of each code that does not weigh itself.
//!
//! A list is the varint number of its runs; a run is the varint gap after the run before, its varint length, and
//! for each of its keys the zigzag varint difference of the value from the value before plus one.
//!
//! Which bytes make one code of several is a rule of its own ([`Shape`]), MySQL's `ismbchar`, whether or not the code
//! is a character: statements and files are divided by it.
//!
//! **Invariants**: the files never change; every code of the files has its set's shape; a code of three bytes, `8F` and
//! two more, is kept as these two without the first one's highest bit, where no code of two bytes is; ASCII is itself
//! in all sets.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use super::weights::Stream;

/// The tables of the sets, in the order of `Form::Multi`.
pub(super) static MULTIBYTE: [&[u8]; 8] = [
    include_bytes!("../../data/multibyte/big5.bin"),
    include_bytes!("../../data/multibyte/cp932.bin"),
    include_bytes!("../../data/multibyte/eucjpms.bin"),
    include_bytes!("../../data/multibyte/euckr.bin"),
    include_bytes!("../../data/multibyte/gb2312.bin"),
    include_bytes!("../../data/multibyte/gbk.bin"),
    include_bytes!("../../data/multibyte/sjis.bin"),
    include_bytes!("../../data/multibyte/ujis.bin"),
];

/// Number of sets.
pub(super) const MULTI_SETS: usize = MULTIBYTE.len();
/// Codes, and characters of the basic plane.
const ALL: usize = 0x1_0000;
/// The byte that begins a code of two bytes beside those of the ranges, in EUC of Japan.
const TWO: u8 = 0x8E;
/// The byte that begins a code of three bytes.
const THREE: u8 = 0x8F;

type Ranges = &'static [RangeInclusive<u8>];

/// Which bytes make a code of several bytes.
struct Shape {
    /// The first of two.
    first: Ranges,
    /// The second of two.
    second: Ranges,
    /// EUC of Japan: `8E` begins a code of two bytes, `8F` one of three.
    euc: bool,
    /// Bytes that are no character are one from 80 on and the one behind it, whatever that is; else a single one.
    in_pairs: bool,
}

/// In the order of `Form::Multi`.
static SHAPES: [Shape; MULTI_SETS] = {
    const EUC: Ranges = &[0xA1..=0xFE];
    const SHIFT_FIRST: Ranges = &[0x81..=0x9F, 0xE0..=0xFC];
    const SHIFT_SECOND: Ranges = &[0x40..=0x7E, 0x80..=0xFC];
    const fn shape(first: Ranges, second: Ranges, euc: bool, in_pairs: bool) -> Shape {
        Shape {
            first,
            second,
            euc,
            in_pairs,
        }
    }
    const BIG5: Shape = shape(&[0xA1..=0xF9], &[0x40..=0x7E, 0xA1..=0xFE], false, true);
    const SHIFT_JIS: Shape = shape(SHIFT_FIRST, SHIFT_SECOND, false, false);
    const EUC_JP: Shape = shape(EUC, EUC, true, false);
    const EUCKR: Shape = shape(
        &[0x81..=0xFE],
        &[0x41..=0x5A, 0x61..=0x7A, 0x81..=0xFE],
        false,
        true,
    );
    const GB2312: Shape = shape(&[0xA1..=0xF7], EUC, false, true);
    const GBK: Shape = shape(&[0x81..=0xFE], &[0x40..=0x7E, 0x80..=0xFE], false, true);
    [
        BIG5, SHIFT_JIS, EUC_JP, EUCKR, GB2312, GBK, SHIFT_JIS, EUC_JP,
    ]
};

/// The second byte of a half-width katakana in EUC of Japan.
const KANA: Ranges = &[0xA1..=0xDF];

impl Shape {
    /// Length of the code of several bytes at the start of `bytes`; 0 where there is none.
    fn code_len(&self, bytes: &[u8]) -> usize {
        let among = |ranges: Ranges, at: usize| {
            let byte = bytes.get(at);
            byte.is_some_and(|byte| ranges.iter().any(|range| range.contains(byte)))
        };
        match bytes.first() {
            Some(&TWO) if self.euc && among(KANA, 1) => 2,
            Some(&THREE) if self.euc && among(self.second, 1) && among(self.second, 2) => 3,
            _ if among(self.first, 0) && among(self.second, 1) => 2,
            _ => 0,
        }
    }
}

/// Length of the code of several bytes at the start of `bytes` in the set of this number; 0 where there is none.
pub(super) fn code_len(number: u8, bytes: &[u8]) -> usize {
    SHAPES[usize::from(number)].code_len(bytes)
}

/// The number of big5.
const BIG5: usize = 0;

/// A multi-byte character set.
pub(super) struct MultiSet {
    /// The character of a code; 0 for none.
    chars: Box<[u16]>,
    /// The code of a character; 0 for none.
    codes: Box<[u16]>,
    /// Sorted by character.
    upper: Vec<(u16, u16)>,
    lower: Vec<(u16, u16)>,
    /// The weight of a code.
    weights: Box<[u16]>,
    /// Are codes of several bytes compared as they are, whatever they weigh?
    compares_codes: bool,
    shape: &'static Shape,
}

impl MultiSet {
    /// The set of this number.
    pub(super) fn get(number: u8) -> &'static Self {
        static SETS: [OnceLock<MultiSet>; MULTI_SETS] = [const { OnceLock::new() }; MULTI_SETS];
        SETS[usize::from(number)].get_or_init(|| Self::read(usize::from(number)))
    }

    fn read(number: usize) -> Self {
        let mut stream = Stream(MULTIBYTE[number]);
        let (mut chars, mut codes) = (vec![0; ALL], vec![0; ALL]);
        for (code, c) in read_list(&mut stream) {
            chars[usize::from(code)] = c;
            let known = &mut codes[usize::from(c)];
            *known = if *known == 0 { code } else { *known };
        }
        for (c, code) in read_list(&mut stream) {
            codes[usize::from(c)] = code;
        }
        let (upper, lower) = (read_list(&mut stream), read_list(&mut stream));
        let mut weights: Vec<u16> = (0..=u16::MAX).collect();
        for (code, weight) in read_list(&mut stream) {
            weights[usize::from(code)] = weight;
        }
        assert!(stream.0.is_empty(), "five lists");
        Self {
            chars: chars.into(),
            codes: codes.into(),
            upper,
            lower,
            weights: weights.into(),
            compares_codes: number == BIG5,
            shape: &SHAPES[number],
        }
    }

    fn code_of(&self, c: u32) -> Option<u16> {
        let code = *self.codes.get(c as usize)?;
        (code != 0 || c == 0).then_some(code)
    }

    /// The bytes of a character, and how many they are.
    pub(super) fn bytes_of(&self, c: u32) -> Option<([u8; 3], usize)> {
        let code = self.code_of(c)?;
        Some(self.spelled(code, code))
    }

    /// A code, or a value for it, as bytes.
    fn spelled(&self, code: u16, value: u16) -> ([u8; 3], usize) {
        let [high, low] = value.to_be_bytes();
        match code {
            0..0x100 => ([low, 0, 0], 1),
            _ if self.is_three(code) => ([THREE, high | 0x80, low], 3),
            _ => ([high, low, 0], 2),
        }
    }

    fn is_three(&self, code: u16) -> bool {
        self.shape.euc && (0x100..0x8000).contains(&code)
    }

    /// The character at the start of `bytes`, which is not empty, and its length; `None` for a code that is none.
    pub(super) fn decode(&self, bytes: &[u8]) -> (Option<char>, usize) {
        let char_of = |code: u16| match self.chars[usize::from(code)] {
            0 => None,
            c => char::from_u32(u32::from(c)),
        };
        let first = bytes[0];
        if first < 0x80 {
            return (Some(char::from(first)), 1);
        }
        if let Some(c) = char_of(u16::from(first)) {
            return (Some(c), 1);
        }
        match (self.shape.code_len(bytes), bytes) {
            (3, [_, second, third, ..]) => {
                (char_of(u16::from_be_bytes([second & 0x7F, *third])), 3)
            }
            (2, [_, second, ..]) => (char_of(u16::from_be_bytes([first, *second])), 2),
            (_, [_, _, ..]) if self.shape.in_pairs => (None, 2),
            _ => (None, 1),
        }
    }

    /// The bytes that a character weighs: in a `_bin` collation its own.
    pub(super) fn weight_of(&self, c: u32, bin: bool) -> Option<([u8; 3], usize)> {
        let code = self.code_of(c)?;
        let weight = match bin {
            true => code,
            false => self.weights[usize::from(code)],
        };
        Some(self.spelled(code, weight))
    }

    /// The bytes that stand for a character in comparisons and keys. In big5 thousands of codes have the same weight,
    /// which MySQL only sorts by where there is no index: two characters are equal if their codes are.
    pub(super) fn key_of(&self, c: u32, bin: bool) -> Option<([u8; 3], usize)> {
        let is_code = self.compares_codes && self.code_of(c).is_some_and(|code| code > 0xFF);
        self.weight_of(c, bin || is_code)
    }

    /// The upper case of a character.
    pub(super) fn upper(&self, c: u32) -> u32 {
        other_case(&self.upper, c)
    }

    /// The lower case of a character.
    pub(super) fn lower(&self, c: u32) -> u32 {
        other_case(&self.lower, c)
    }
}

/// What ascending pairs make of a character: itself, if they do not have it.
pub(super) fn other_case<T: Copy + Into<u32>>(pairs: &[(T, T)], c: u32) -> u32 {
    let found = pairs.binary_search_by_key(&c, |pair| pair.0.into());
    found.map_or(c, |at| pairs[at].1.into())
}

pub(super) fn read_list(stream: &mut Stream) -> Vec<(u16, u16)> {
    let mut list = Vec::new();
    let (mut key, mut value) = (0, 0);
    for _ in 0..stream.varint() {
        key += stream.varint();
        for _ in 0..stream.varint() {
            value = (i64::from(value) + stream.signed() + 1) as u32;
            list.push((key as u16, value as u16));
            key += 1;
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collation::Charset;

    #[test]
    fn every_character_round_trips() {
        for number in 0..MULTI_SETS as u8 {
            let set = MultiSet::get(number);
            let mut known = 0;
            for c in (0..0x1_0000).filter_map(char::from_u32) {
                let Some((bytes, len)) = set.bytes_of(u32::from(c)) else {
                    continue;
                };
                assert_eq!(set.decode(&bytes[..len]), (Some(c), len), "set {number}");
                let alone = if len == 1 { 0 } else { len };
                assert_eq!(code_len(number, &bytes[..len]), alone, "set {number}");
                known += 1;
            }
            assert!(known > 7000, "set {number} has {known} characters");
            assert!(set.bytes_of(0x1F600).is_none());
        }
    }

    #[test]
    fn broken_codes_are_no_characters() {
        for number in 0..MULTI_SETS as u8 {
            let set = MultiSet::get(number);
            for bytes in [&b"\x81"[..], b"\xFF\xFF\xFF", b"\x81 "] {
                let (c, len) = set.decode(bytes);
                assert_eq!(c, None, "set {number}: {bytes:?}");
                assert!((1..=bytes.len()).contains(&len));
            }
        }
    }

    #[test]
    fn codes_end_where_mysql_ends_them() {
        let len_of = |set: Charset, bytes: &[u8]| code_len(set.multi_set_number().unwrap(), bytes);
        assert_eq!(len_of(Charset::Gbk, b"\xBF\\"), 2);
        assert_eq!(len_of(Charset::Gbk, b"\xBF'"), 0);
        assert_eq!(len_of(Charset::Gbk, b"\xBF"), 0);
        assert_eq!(len_of(Charset::Euckr, b"\xBF\\"), 0);
        assert_eq!(len_of(Charset::Euckr, b"\xBFa"), 2);
        assert_eq!(len_of(Charset::Gb2312, b"\xF8\xA1"), 0);
        assert_eq!(len_of(Charset::Big5, b"\xFA\\"), 0);
        assert_eq!(len_of(Charset::Sjis, b"\xB1\\"), 0);
        assert_eq!(len_of(Charset::Cp932, b"\x95\\"), 2);
        assert_eq!(len_of(Charset::Ujis, b"\x8F\xA1\xA1"), 3);
        assert_eq!(len_of(Charset::Ujis, b"\x8F\xA1"), 0);
        assert_eq!(len_of(Charset::Eucjpms, b"\x8E\xB1"), 2);
        assert_eq!(len_of(Charset::Eucjpms, b"\x8E\xE0"), 0);
    }
}
