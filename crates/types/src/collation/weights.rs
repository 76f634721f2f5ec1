//! The frozen weight tables of the Unicode collation algorithm, and what a character weighs in them.
//!
//! Neighbours: `../../data/*.bin`, made by `tools/collation-tables.py` and described in
//! `docs/decisions/collations.md`; `alphabets` has languages in which several characters are one letter; `simple` has
//! the collations with one weight for each character; `order` and `pattern` read weights through [`Weigh`].
//!
//! Formats (little endian, `varint` is LEB128, `zigzag` maps signed to unsigned):
//! - `uca*.bin`: 128 primary weights of ASCII (u16); u16 number of (secondary u16, tertiary u8)
//!   pairs and the pairs; then per code point, ascending:
//!   `varint((code point - previous - 1) << 4 | elements)` and per element
//!   `varint(zigzag(primary - previous primary))`, followed by `varint(pair)` if there are pairs.
//! - `tailored.bin`: for each `Language` the varint number of characters that weigh something else than in
//!   `uca400.bin`, and these as there.
//!
//! **Invariants**: the files never change (a test holds their checksums); weights above the basic
//! plane and of unassigned characters follow UTS #10's implicit rules as MySQL applies them; a
//! malformed byte weighs [`MALFORMED`].

use std::sync::{LazyLock, OnceLock};

use super::han;
use super::list::{LANGUAGES, Language, OldUca};

pub(super) static UCA900: &[u8] = include_bytes!("../../data/uca900.bin");
pub(super) static UCA400: &[u8] = include_bytes!("../../data/uca400.bin");
pub(super) static UCA520: &[u8] = include_bytes!("../../data/uca520.bin");
pub(super) static TAILORED: &[u8] = include_bytes!("../../data/tailored.bin");

/// Most collation elements of one character.
pub(super) const MAX_ELEMENTS: usize = 8;
/// Weight of a byte that is not part of a character.
pub(super) const MALFORMED: u16 = 0xFFFF;
/// Weight of characters outside the basic plane in the collations that do not know them.
pub(super) const BEYOND_BMP: u16 = 0xFFFD;
/// The weights of one character.
#[derive(Default, Clone, Copy)]
pub(super) struct Few {
    weights: [u16; MAX_ELEMENTS],
    len: u8,
}

impl Few {
    pub(super) fn as_slice(&self) -> &[u16] {
        &self.weights[..usize::from(self.len)]
    }

    /// Takes a weight, if there is room for it.
    pub(super) fn push_some(&mut self, weight: u16) {
        if usize::from(self.len) < MAX_ELEMENTS {
            self.push(weight);
        }
    }

    fn push(&mut self, weight: u16) {
        self.weights[usize::from(self.len)] = weight;
        self.len += 1;
    }

    pub(super) fn one(weight: u16) -> Self {
        let mut few = Self::default();
        few.push(weight);
        few
    }

    pub(super) fn two(first: u16, second: u16) -> Self {
        let mut few = Self::one(first);
        few.push(second);
        few
    }
}

impl FromIterator<u16> for Few {
    fn from_iter<I: IntoIterator<Item = u16>>(weights: I) -> Self {
        let mut few = Self::default();
        weights.into_iter().for_each(|weight| few.push(weight));
        few
    }
}

/// What characters weigh on one level of a collation.
pub(super) trait Weigh {
    /// Does an ASCII weight of 0 mean that the character is ignored?
    const IGNORES_ZERO: bool;
    /// Are there contractions, characters that are weighed together?
    const CONTRACTS: bool = false;
    /// Weights of ASCII.
    fn ascii(&self) -> &[u16; 128];
    /// Weights of any other character (`None`: a malformed byte); none is to be ignored.
    fn wide(&self, cp: Option<u32>) -> Few;
    /// The longest contraction at the start of a text: its weights, and its length in bytes.
    #[inline]
    fn contraction(&self, _text: &[u8]) -> Option<(Few, usize)> {
        None
    }
    /// Weight of a space.
    fn space(&self) -> u16 {
        self.ascii()[0x20]
    }
    /// Do sort keys hold weights below 0xFD in one byte?
    fn narrow(&self) -> bool {
        false
    }

    /// Have all characters without an entry, of which this is one, the same weights? LIKE tells them apart all the
    /// same.
    fn is_weightless(&self, _cp: Option<u32>) -> bool {
        false
    }

    /// Weights of any character.
    fn any(&self, cp: Option<u32>) -> Few {
        match cp {
            Some(c @ 0..0x80) => match self.ascii()[c as usize] {
                0 if Self::IGNORES_ZERO => Few::default(),
                w => Few::one(w),
            },
            _ => self.wide(cp),
        }
    }
}

/// Reads the stream formats; only for trusted, checksummed data.
pub(super) struct Stream(pub(super) &'static [u8]);

impl Stream {
    fn byte(&mut self) -> u8 {
        let (b, rest) = self.0.split_first().expect("a complete table");
        self.0 = rest;
        *b
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(super) fn varint(&mut self) -> u32 {
        let (mut n, mut shift) = (0, 0);
        loop {
            let b = self.byte();
            n |= u32::from(b & 0x7F) << shift;
            if b < 0x80 {
                return n;
            }
            shift += 7;
        }
    }

    pub(super) fn signed(&mut self) -> i64 {
        let n = i64::from(self.varint());
        if n & 1 == 0 { n >> 1 } else { -((n + 1) >> 1) }
    }

    /// The weights of a collation element; the primary one is relative to that of the element before.
    pub(super) fn element(&mut self, primary: &mut i64, pairs: &[(u32, u32)]) -> [u32; 3] {
        *primary += self.signed();
        let (secondary, tertiary) = match pairs.is_empty() {
            true => (0, 0),
            false => pairs[self.varint() as usize],
        };
        [*primary as u32, secondary, tertiary]
    }
}

/// The pairs of `general_ci.bin` and of each part of `case.bin`: a code point and what it maps to.
pub(super) fn read_pairs(
    data: &'static [u8],
    count: Option<usize>,
) -> (Vec<(u32, u32)>, &'static [u8]) {
    let mut stream = Stream(data);
    let mut pairs = Vec::new();
    let mut cp = 0;
    while count.map_or(!stream.0.is_empty(), |n| pairs.len() < n) {
        cp += stream.varint();
        pairs.push((cp, (i64::from(cp) + stream.signed()) as u32));
    }
    (pairs, stream.0)
}

/// Reads a count and that many pairs.
pub(super) fn read_counted_pairs(data: &'static [u8]) -> (Vec<(u32, u32)>, &'static [u8]) {
    let mut stream = Stream(data);
    let count = stream.varint() as usize;
    read_pairs(stream.0, Some(count))
}

/// A table of collation elements, each packed as primary << 14 | secondary << 5 | tertiary.
pub(super) struct Uca {
    /// Weights of ASCII on each level.
    ascii: [[u16; 128]; 3],
    /// Number of the block of 256 entries for each 256 code points; block 0 has no entries.
    blocks: Vec<u16>,
    /// What `entry_*` made, by block and low byte of the code point.
    entries: Vec<u32>,
    /// Elements of the characters that have several.
    elements: Vec<u32>,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V400,
    V520,
    V900,
    /// 9.0 with scripts in other places, see `han`.
    Chinese,
    Japanese,
}

/// Entry of a character without elements of its own. (An entry below 1 << 30 is one element.)
const IMPLICIT: u32 = 2 << 30;
/// Entry of a character with several elements: this, their offset << 4, and their number.
const SEVERAL: u32 = 1 << 30;

const fn pack(primary: u32, secondary: u32, tertiary: u32) -> u32 {
    primary << 14 | secondary << 5 | tertiary
}

/// One level of a packed element.
const fn unpack(element: u32, level: u8) -> u16 {
    match level {
        1 => (element >> 14) as u16,
        2 => (element >> 5 & 0x1FF) as u16,
        _ => (element & 0x1F) as u16,
    }
}

impl Uca {
    fn load(data: &'static [u8], version: Version) -> Self {
        let mut stream = Stream(&data[256..]);
        let pairs: Vec<(u32, u32)> = (0..stream.u16())
            .map(|_| (u32::from(stream.u16()), u32::from(stream.byte())))
            .collect();
        let mut uca = Self::empty(version);
        uca.read(&mut stream, &pairs, usize::MAX);
        uca
    }

    /// The table of `*_unicode_ci` with the characters of a language.
    fn tailored(language: Language) -> Self {
        let mut stream = Stream(TAILORED);
        let mut uca = Self::load(UCA400, Version::V400);
        for _ in 0..language as usize {
            // The characters of the languages before are read into a table that nobody sees.
            Self::empty(Version::V400).patch(&mut stream, &[]);
        }
        uca.patch(&mut stream, &[]);
        uca
    }

    /// What an alphabet is a patch of: the table of the 0900 collations, or of `*_unicode_ci`.
    pub(super) fn base_of(is_900: bool) -> Self {
        match is_900 {
            true => Self::load(UCA900, Version::V900),
            false => Self::load(UCA400, Version::V400),
        }
    }

    /// Nothing to patch.
    pub(super) fn empty_of(is_900: bool) -> Self {
        Self::empty(match is_900 {
            true => Version::V900,
            false => Version::V400,
        })
    }

    /// The root collation with its scripts where Chinese has them.
    pub(super) fn chinese() -> Self {
        let mut uca = Self::load(UCA900, Version::Chinese);
        let several = uca.elements.iter_mut();
        let one = uca.entries.iter_mut();
        several
            .chain(one.filter(|entry| **entry < SEVERAL))
            .for_each(|element| *element = move_to_chinese(*element));
        uca.fill_ascii();
        uca
    }

    /// The root collation with its scripts where Japanese has them: they are moved when a weight is asked for.
    pub(super) fn japanese() -> Self {
        Self::load(UCA900, Version::Japanese)
    }

    /// Gives a character a first weight, and the others that letters have.
    pub(super) fn set_letter(&mut self, cp: u32, primary: u16) {
        let start = self.elements.len();
        self.elements.push(pack(u32::from(primary), 0x20, 2));
        self.set(cp, start);
    }

    /// Reads a number of characters that weigh something else, and these.
    pub(super) fn patch(&mut self, stream: &mut Stream, pairs: &[(u32, u32)]) {
        let count = stream.varint() as usize;
        self.read(stream, pairs, count);
    }

    /// Weights of ASCII on a level.
    #[inline]
    pub(super) fn ascii_of(&self, level: u8) -> &[u16; 128] {
        &self.ascii[usize::from(level - 1)]
    }

    fn empty(version: Version) -> Self {
        Self {
            ascii: [[0; 128]; 3],
            blocks: vec![0; 0x11_0000 >> 8],
            entries: vec![IMPLICIT; 256],
            elements: Vec::new(),
            version,
        }
    }

    /// Reads at most `count` characters, or all; those that were there before get other weights.
    fn read(&mut self, stream: &mut Stream, pairs: &[(u32, u32)], count: usize) {
        let (mut next_cp, mut primary) = (0, 0);
        for _ in 0..count {
            if stream.0.is_empty() {
                break;
            }
            let head = stream.varint();
            let cp = next_cp + (head >> 4);
            next_cp = cp + 1;
            let start = self.elements.len();
            for _ in 0..head & 0xF {
                let [primary, secondary, tertiary] = stream.element(&mut primary, pairs);
                self.elements.push(pack(primary, secondary, tertiary));
            }
            self.set(cp, start);
        }
        self.fill_ascii();
    }

    fn fill_ascii(&mut self) {
        for level in 1..=3 {
            self.ascii[level - 1] =
                std::array::from_fn(|cp| unpack(self.entry(cp as u32), level as u8));
        }
    }

    /// Makes the elements from `start` on the entry of `cp`.
    fn set(&mut self, cp: u32, start: usize) {
        let block = &mut self.blocks[cp as usize >> 8];
        if *block == 0 {
            *block = (self.entries.len() >> 8) as u16;
            self.entries.resize(self.entries.len() + 256, IMPLICIT);
        }
        let entry = match self.elements.len() - start {
            0 => 0,
            1 => self.elements.pop().expect("just pushed"),
            n => SEVERAL | (start << 4 | n) as u32,
        };
        self.entries[usize::from(*block) << 8 | cp as usize & 0xFF] = entry;
    }

    fn entry(&self, cp: u32) -> u32 {
        let block = usize::from(self.blocks[cp as usize >> 8]);
        self.entries[block << 8 | cp as usize & 0xFF]
    }

    pub(super) fn weights(&self, cp: Option<u32>, level: u8) -> Few {
        let mut few = Few::default();
        let Some(cp) = cp else {
            if level == 1 {
                few.push(MALFORMED);
            }
            return few;
        };
        let moves = level == 1 && self.version == Version::Japanese;
        let mut add = |element: u32| {
            let weight = unpack(element, level);
            if moves {
                han::put_japanese(weight, &mut few);
            } else if weight != 0 {
                few.push(weight);
            }
        };
        match self.entry(cp) {
            entry @ 0..SEVERAL => add(entry),
            entry if entry < IMPLICIT => {
                let offset = (entry & (SEVERAL - 1)) as usize >> 4;
                self.elements[offset..][..entry as usize & 0xF]
                    .iter()
                    .for_each(|e| add(*e));
            }
            _ => self.computed(cp).into_iter().for_each(add),
        }
        few
    }

    /// Elements of a character that the table does not list.
    fn computed(&self, cp: u32) -> [u32; 3] {
        match self.version {
            Version::V400 if cp > 0xFFFF => [pack(u32::from(BEYOND_BMP), 0, 0), 0, 0],
            Version::V400 | Version::V520 => implicit_old(cp),
            _ if (0xAC00..0xD7B0).contains(&cp) => self.hangul(cp),
            Version::Chinese => implicit_900(cp).map(move_to_chinese),
            Version::V900 | Version::Japanese => implicit_900(cp),
        }
    }

    /// Elements of a Hangul syllable: its jamos'. MySQL goes on to the end of the block, and has
    /// tertiary weight 3 in the block's last rows; so must we.
    fn hangul(&self, cp: u32) -> [u32; 3] {
        let s = cp - 0xAC00;
        let tertiary = if cp >= 0xD700 { 3 } else { 2 };
        let jamo = |cp: u32| pack(u32::from(unpack(self.entry(cp), 1)), 0x20, tertiary);
        let last = if s.is_multiple_of(28) {
            0
        } else {
            jamo(0x11A7 + s % 28)
        };
        [jamo(0x1100 + s / 588), jamo(0x1161 + s % 588 / 28), last]
    }

    pub(super) fn v900() -> &'static Self {
        static TABLE: LazyLock<Uca> = LazyLock::new(|| Uca::load(UCA900, Version::V900));
        &TABLE
    }

    pub(super) fn old(which: OldUca) -> &'static Self {
        static V400: LazyLock<Uca> = LazyLock::new(|| Uca::load(UCA400, Version::V400));
        static V520: LazyLock<Uca> = LazyLock::new(|| Uca::load(UCA520, Version::V520));
        static TAILORED: [OnceLock<Uca>; LANGUAGES] = [const { OnceLock::new() }; LANGUAGES];
        match which {
            OldUca::V400 => &V400,
            OldUca::V520 => &V520,
            OldUca::Tailored(language) => {
                TAILORED[language as usize].get_or_init(|| Uca::tailored(language))
            }
        }
    }
}

/// An element of the root collation in Chinese.
fn move_to_chinese(element: u32) -> u32 {
    let [primary, second, third] = [1, 2, 3].map(|level| unpack(element, level));
    // The second half of an implicit weight is no place of its own.
    let primary = match (second, third) {
        (0, 0) => primary,
        _ => han::chinese(primary),
    };
    pack(u32::from(primary), u32::from(second), u32::from(third))
}

/// The two implicit elements (and none) of UTS #10 for a base.
fn implicit(base: u32, cp: u32) -> [u32; 3] {
    [
        pack(base + (cp >> 15), 0x20, 2),
        pack(cp & 0x7FFF | 0x8000, 0, 0),
        0,
    ]
}

fn implicit_900(cp: u32) -> [u32; 3] {
    let base = match cp {
        0x1_7000..=0x1_8AFF => {
            return [
                pack(0xFB00, 0x20, 2),
                pack((cp - 0x1_7000) | 0x8000, 0, 0),
                0,
            ];
        }
        0x4E00..=0x9FD5
        | 0xFA0E
        | 0xFA0F
        | 0xFA11
        | 0xFA13
        | 0xFA14
        | 0xFA1F
        | 0xFA21
        | 0xFA23
        | 0xFA24
        | 0xFA27
        | 0xFA28
        | 0xFA29 => 0xFB40,
        0x3400..=0x4DB5
        | 0x2_0000..=0x2_A6D6
        | 0x2_A700..=0x2_B734
        | 0x2_B740..=0x2_B81D
        | 0x2_B820..=0x2_CEA1 => 0xFB80,
        _ => 0xFBC0,
    };
    implicit(base, cp)
}

fn implicit_old(cp: u32) -> [u32; 3] {
    implicit(
        match cp {
            0x4E00..=0x9FA5 => 0xFB40,
            0x3400..=0x4DB5 => 0xFB80,
            _ => 0xFBC0,
        },
        cp,
    )
}

/// One level of a [`Uca`] table.
#[derive(Clone, Copy)]
pub(super) struct UcaLevel {
    pub(super) uca: &'static Uca,
    /// 1 to 3.
    pub(super) level: u8,
}

impl Weigh for UcaLevel {
    const IGNORES_ZERO: bool = true;

    #[inline]
    fn ascii(&self) -> &[u16; 128] {
        self.uca.ascii_of(self.level)
    }

    fn wide(&self, cp: Option<u32>) -> Few {
        self.uca.weights(cp, self.level)
    }

    fn is_weightless(&self, cp: Option<u32>) -> bool {
        self.uca.version == Version::V400 && cp.is_some_and(|cp| cp > 0xFFFF)
    }
}
