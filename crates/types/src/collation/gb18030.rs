//! GB 18030: one, two or four bytes for every character of Unicode.
//!
//! Neighbours: `charset` converts with it; `simple`, `weight_string` and `case` look up what a character weighs and
//! becomes; `multibyte` has the other sets of East Asia. `../../data/gb18030.bin` was made by
//! `tools/charset-tables.py`; in it are
//! - the character of each code of two bytes, a list as in `multibyte`,
//! - the characters of the basic plane that have four, as runs: varint number of them, and for each varint gap after
//!   the run before, varint length, and zigzag varint gap between its numbers and those of the run before,
//! - upper and lower case of the characters that have one, as in `case.bin`,
//! - runs of ideographs, and the place (u16) of each by pinyin, as in `han.bin`.
//!
//! A code of four bytes is a number: digits of 126, 10, 126 and 10 values. From [`PLANES`] on it is the character of
//! the other planes.
//!
//! **Weights** of `gb18030_chinese_ci` are those of the upper case: the codes of one and two bytes, then numbers of
//! four bytes, then ideographs by pinyin.
//!
//! **Invariants**: the file never changes; every code of two bytes is a character; ASCII is itself.

use std::ops::Range;
use std::sync::LazyLock;

use super::han::read_runs;
use super::multibyte::other_case;
use super::multibyte::read_list;
use super::weights::{Few, Stream, read_counted_pairs};

pub(super) static GB18030: &[u8] = include_bytes!("../../data/gb18030.bin");

/// Codes of two bytes, and characters of the basic plane.
const ALL: usize = 0x1_0000;
/// The number of U+10000.
const PLANES: u32 = 189_000;
/// The weights of numbers, and of places by pinyin, as MySQL shows them.
const NUMBERS: u32 = 0xFF00_0000;
const PINYIN: u32 = 0xFFA0_0000;
/// The same in units of sort keys: fifteen bits in each of two, the first behind every code of two bytes, the second
/// above a space.
const NUMBERS_UNIT: u32 = 0;
const PINYIN_UNIT: u32 = 0x13_0000;
const UNIT_BITS: u32 = 15;

/// Characters with four bytes in a row.
#[derive(Clone)]
struct Run {
    chars: Range<u32>,
    number: u32,
}

/// What a character weighs.
enum Weight {
    /// A code of one or two bytes.
    Code(u16),
    Number(u32),
    Pinyin(u16),
}

/// The tables.
pub(super) struct Gb18030 {
    /// The character of a code of two bytes; 0 for none.
    chars: Box<[u16]>,
    /// The code of two bytes of a character; 0 for none.
    codes: Box<[u16]>,
    /// Those with four bytes, sorted by character and by number.
    runs: Vec<Run>,
    by_number: Vec<Run>,
    /// Sorted by character.
    upper: Vec<(u32, u32)>,
    lower: Vec<(u32, u32)>,
    /// Runs of ideographs, and where each begins among the places.
    ideographs: Vec<(Range<u32>, usize)>,
    places: Vec<u16>,
}

/// Length of the code of several bytes at the start of `bytes`; 0 where there is none.
pub(super) fn code_len(bytes: &[u8]) -> usize {
    match bytes {
        [0x81..=0xFE, 0x40..=0x7E | 0x80..=0xFE, ..] => 2,
        [0x81..=0xFE, b'0'..=b'9', 0x81..=0xFE, b'0'..=b'9', ..] => 4,
        _ => 0,
    }
}

impl Gb18030 {
    pub(super) fn get() -> &'static Self {
        static TABLES: LazyLock<Gb18030> = LazyLock::new(Gb18030::read);
        &TABLES
    }

    fn read() -> Self {
        let mut stream = Stream(GB18030);
        let (mut chars, mut codes) = (vec![0; ALL], vec![0; ALL]);
        for (code, c) in read_list(&mut stream) {
            chars[usize::from(code)] = c;
            codes[usize::from(c)] = code;
        }
        let runs = read_numbers(&mut stream);
        let mut by_number = runs.clone();
        by_number.sort_unstable_by_key(|run| run.number);
        let (upper, rest) = read_counted_pairs(stream.0);
        let (lower, rest) = read_counted_pairs(rest);
        let mut stream = Stream(rest);
        let (mut ideographs, mut begin) = (Vec::new(), 0);
        for run in read_runs(&mut stream) {
            let len = run.len();
            ideographs.push((run, begin));
            begin += len;
        }
        let places = (0..begin).map(|_| stream.u16()).collect();
        assert!(stream.0.is_empty(), "nothing else is in the file");
        Self {
            chars: chars.into(),
            codes: codes.into(),
            runs,
            by_number,
            upper,
            lower,
            ideographs,
            places,
        }
    }

    /// The code of one or two bytes of a character, if it has one.
    fn short_code(&self, c: u32) -> Option<u16> {
        match c {
            0..0x80 => Some(c as u16),
            _ => self
                .codes
                .get(c as usize)
                .copied()
                .filter(|code| *code != 0),
        }
    }

    /// The number of a character that has four bytes.
    fn number_of(&self, c: u32) -> Option<u32> {
        if c >= ALL as u32 {
            return Some(c - ALL as u32 + PLANES);
        }
        let at = self.runs.partition_point(|run| run.chars.end <= c);
        let run = self.runs.get(at).filter(|run| run.chars.contains(&c))?;
        Some(c - run.chars.start + run.number)
    }

    /// The bytes of a character, and how many they are.
    pub(super) fn bytes_of(&self, c: u32) -> Option<([u8; 4], usize)> {
        if let Some(code) = self.short_code(c) {
            return Some(short(code));
        }
        let number = self.number_of(c)?;
        let digit = |first: u8, value: u32| first + value as u8;
        Some((
            [
                digit(0x81, number / 12_600),
                digit(b'0', number / 1260 % 10),
                digit(0x81, number / 10 % 126),
                digit(b'0', number % 10),
            ],
            4,
        ))
    }

    /// The character at the start of `bytes`, which is not empty, and its length; `None` for a code that is none.
    pub(super) fn decode(&self, bytes: &[u8]) -> (Option<char>, usize) {
        match (code_len(bytes), bytes) {
            (2, [first, second, ..]) => {
                let code = u16::from_be_bytes([*first, *second]);
                (char::from_u32(u32::from(self.chars[usize::from(code)])), 2)
            }
            (4, [a, b, c, d, ..]) => {
                let digits = [a - 0x81, b - b'0', c - 0x81, d - b'0'].map(u32::from);
                let number = digits[0] * 12_600 + digits[1] * 1260 + digits[2] * 10 + digits[3];
                (self.char_of(number), 4)
            }
            (_, [first, ..]) if first.is_ascii() => (Some(char::from(*first)), 1),
            _ => (None, 1),
        }
    }

    fn char_of(&self, number: u32) -> Option<char> {
        if number >= PLANES {
            return char::from_u32(number - PLANES + ALL as u32);
        }
        let at = self.by_number.partition_point(|run| run.number <= number);
        let run = &self.by_number[at.checked_sub(1)?];
        let c = run.chars.start + (number - run.number);
        char::from_u32(c).filter(|_| run.chars.contains(&c))
    }

    fn place_of(&self, c: u32) -> Option<u16> {
        let at = self.ideographs.partition_point(|(run, _)| run.end <= c);
        let (run, begin) = self
            .ideographs
            .get(at)
            .filter(|(run, _)| run.contains(&c))?;
        Some(self.places[begin + (c - run.start) as usize])
    }

    fn weight_of(&self, c: u32) -> Option<Weight> {
        if let Some(place) = self.place_of(c) {
            return Some(Weight::Pinyin(place));
        }
        let upper = self.upper(c);
        match self.short_code(upper) {
            Some(code) => Some(Weight::Code(code)),
            None => self.number_of(upper).map(Weight::Number),
        }
    }

    /// What a character weighs, as MySQL shows it; in a `_bin` collation it is its code.
    pub(super) fn shown_weight(&self, c: u32, bin: bool) -> Option<([u8; 4], usize)> {
        if bin {
            return self.bytes_of(c);
        }
        Some(match self.weight_of(c)? {
            Weight::Code(code) => short(code),
            Weight::Number(number) => ((NUMBERS + number).to_be_bytes(), 4),
            Weight::Pinyin(place) => ((PINYIN + u32::from(place)).to_be_bytes(), 4),
        })
    }

    /// What a character weighs in sort keys; none for what is no character.
    pub(super) fn units(&self, c: u32, bin: bool) -> Few {
        let two = |weight: u32| {
            let first = 0xFF00 | (weight >> UNIT_BITS) as u16;
            let second = 1 << UNIT_BITS | weight as u16;
            Few::two(first, second)
        };
        if bin {
            return match self.bytes_of(c) {
                Some(([a, b, c, d], 4)) => {
                    Few::two(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
                }
                _ => self.short_code(c).map_or_else(Few::default, Few::one),
            };
        }
        // Two letters have an upper case in ASCII. As in MySQL they are equal to none there, whatever they weigh.
        let is_foreign = c >= 0x80 && self.upper(c) < 0x80;
        let weight = match is_foreign {
            true => self.number_of(c).map(Weight::Number),
            false => self.weight_of(c),
        };
        match weight {
            Some(Weight::Code(code)) => Few::one(code),
            Some(Weight::Number(number)) => two(NUMBERS_UNIT + number),
            Some(Weight::Pinyin(place)) => two(PINYIN_UNIT + u32::from(place)),
            None => Few::default(),
        }
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

/// The bytes of a code of one or two.
fn short(code: u16) -> ([u8; 4], usize) {
    match code.to_be_bytes() {
        [0, byte] => ([byte, 0, 0, 0], 1),
        [first, second] => ([first, second, 0, 0], 2),
    }
}

fn read_numbers(stream: &mut Stream) -> Vec<Run> {
    let (count, mut end, mut number) = (stream.varint(), 0, 0);
    let read = |_| {
        let start = end + stream.varint();
        end = start + stream.varint();
        let run = Run {
            chars: start..end,
            number: (i64::from(number) + stream.signed()) as u32,
        };
        number = run.number + (end - start);
        run
    };
    (0..count).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_round_trips() {
        let set = Gb18030::get();
        for c in (0..=0x10_FFFF).filter_map(char::from_u32) {
            let (bytes, len) = set.bytes_of(u32::from(c)).expect("a code");
            assert_eq!(set.decode(&bytes[..len]), (Some(c), len));
            let alone = if len == 1 { 0 } else { len };
            assert_eq!(code_len(&bytes[..len]), alone, "{c:?}");
            for bin in [false, true] {
                assert!(!set.units(u32::from(c), bin).as_slice().is_empty());
            }
        }
    }

    #[test]
    fn weights_are_in_the_order_that_mysql_shows() {
        let set = Gb18030::get();
        for bin in [false, true] {
            let mut all: Vec<_> = (0..=0x10_FFFF)
                .step_by(7)
                .filter(|c| char::from_u32(*c).is_some())
                .map(|c| {
                    let (bytes, len) = set.shown_weight(c, bin).expect("a weight");
                    (bytes[..len].to_vec(), set.units(c, bin).as_slice().to_vec())
                })
                .collect();
            all.sort_unstable();
            assert!(all.is_sorted_by(|a, b| a.1 <= b.1));
        }
    }

    #[test]
    fn letters_beyond_the_basic_plane_have_cases() {
        let set = Gb18030::get();
        assert_eq!(set.upper(0x1_0428), 0x1_0400);
        assert_eq!(set.lower(0x1_0400), 0x1_0428);
        // As in MySQL, which knows no cases of a later version of Unicode.
        assert_eq!(set.lower(0x1_18A0), 0x1_18A0);
    }

    #[test]
    fn broken_codes_are_no_characters() {
        let set = Gb18030::get();
        let broken: [&[u8]; 6] = [
            b"\x80",
            b"\xFF",
            b"\x81",
            b"\x81\x30\x81",
            b"\x81\x7F",
            b"\x84\x32\xA4\x39",
        ];
        for bytes in broken {
            let (c, len) = set.decode(bytes);
            assert_eq!(c, None, "{bytes:?}");
            assert!((1..=bytes.len()).contains(&len));
        }
        assert_eq!(code_len(b"\xBF\\"), 2);
        assert_eq!(code_len(b"\xBF'"), 0);
        assert_eq!(code_len(b"\x810"), 0);
    }
}
