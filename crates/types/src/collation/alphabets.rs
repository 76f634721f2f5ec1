//! Alphabets: languages in which several characters may be one letter (`ch` of Czech, `dzs` of Hungarian), the
//! *contractions* of the Unicode collation algorithm (UTS #10, section 3.3.2), and the languages of the 0900
//! collations.
//!
//! Neighbours: `weights` has the tables that these are patches of; `han` makes those of Chinese and Japanese; `order`
//! looks for contractions wherever it walks over the weights of such a collation; `pattern` compares single characters,
//! as MySQL does.
//!
//! Format of `alphabets.bin` (numbers as in `weights`): u16 number of (secondary u16, tertiary u16) pairs and the
//! pairs; for each [`Alphabet`] in order the varint number of characters that weigh something else than in the table it
//! is a patch of, and these as in `uca*.bin`; then the varint number of contractions, and for each the varint number of
//! its characters, their varint code points, the varint number of elements, and the elements as in `uca*.bin`, with
//! primary weights relative to the element before, whatever contraction that is of.
//!
//! **Invariants**
//! - The file never changes (a test holds its checksum).
//! - The longest contraction at a place counts; places are found from the beginning of a text, one after the other.
//! - A character that does not fit into the table is a contraction of one character: one of ASCII with several weights,
//!   and those with weights that no other table has.
//! - Danish has its upper case first: what stands in the table gets other weights on the third level.

use std::sync::OnceLock;

use super::han::{self, FourthWeights};
use super::list::Alphabet;
use super::utf8::{char_len, decode_char};
use super::weights::{Few, Stream, Uca, Weigh};

pub(super) static ALPHABETS: &[u8] = include_bytes!("../../data/alphabets.bin");

/// Number of [`Alphabet`]s.
const COUNT: usize = Alphabet::Japanese900 as usize + 1;

/// Weights of ASCII on the fourth level.
const NO_WEIGHTS: [u16; 128] = [0; 128];

/// Characters that are one letter, in UTF-8, and what they weigh on each level.
pub(super) struct Contraction {
    pub(super) text: Box<[u8]>,
    pub(super) levels: [Few; 4],
}

/// What an alphabet is made of.
pub(super) struct Letters {
    pub(super) uca: Uca,
    pub(super) contractions: Vec<Contraction>,
    pub(super) fourth: FourthWeights,
}

/// The weights of an alphabet.
pub(super) struct AlphabetTable {
    uca: Uca,
    /// In the order of their bytes.
    contractions: Vec<Contraction>,
    /// The lengths they have, the greatest first.
    lengths: Vec<usize>,
    /// Does one of them begin with this byte?
    begins: [bool; 256],
    /// First weights of the characters of contractions, unless there is one only.
    parts: Vec<u16>,
    /// Third weights of ASCII, where upper case comes first.
    upper_first: Option<Box<[u16; 128]>>,
    fourth: FourthWeights,
}

/// What a weight of the third level is where upper case comes first.
fn with_upper_first(weight: u16) -> u16 {
    match weight {
        0 => 0,
        0x8..=0xC | 0xE | 0x11 | 0x12 | 0x1D => 0x100 | weight,
        _ => 0x300 | weight,
    }
}

impl AlphabetTable {
    pub(super) fn get(alphabet: Alphabet) -> &'static Self {
        static TABLES: [OnceLock<AlphabetTable>; COUNT] = [const { OnceLock::new() }; COUNT];
        TABLES[alphabet as usize].get_or_init(|| Self::load(alphabet))
    }

    fn load(alphabet: Alphabet) -> Self {
        let Letters {
            uca,
            mut contractions,
            fourth,
        } = match alphabet {
            Alphabet::Chinese900 | Alphabet::Japanese900 => han::letters(alphabet),
            _ => letters(alphabet),
        };
        contractions.sort_unstable_by(|a, b| a.text.cmp(&b.text));
        let mut lengths: Vec<usize> = contractions.iter().map(|c| c.text.len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        let mut table = Self {
            uca,
            contractions,
            lengths,
            begins: [false; 256],
            parts: Vec::new(),
            upper_first: None,
            fourth,
        };
        if alphabet == Alphabet::Danish900 {
            let third = table.uca.ascii_of(3).map(with_upper_first);
            table.upper_first = Some(Box::new(third));
        }
        for contraction in &table.contractions {
            table.begins[usize::from(contraction.text[0])] = true;
        }
        table.parts = table.part_weights();
        table
    }

    fn part_weights(&self) -> Vec<u16> {
        let texts = self.contractions.iter().map(|c| &*c.text);
        let mut parts: Vec<u16> = texts
            .filter(|text| char_len(text) < text.len())
            .filter_map(|text| std::str::from_utf8(text).ok())
            .flat_map(str::chars)
            .filter_map(|c| self.first_weight(c))
            .collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// The first weight of a character alone.
    fn first_weight(&self, c: char) -> Option<u16> {
        let level = &self.weights_of(u32::from(c), 1);
        level.as_slice().first().copied()
    }

    /// What a character weighs alone.
    fn weights_of(&self, cp: u32, level: u8) -> Few {
        let mut buffer = [0; 4];
        let text = char::from_u32(cp).map(|c| &*c.encode_utf8(&mut buffer));
        match text.and_then(|text| self.contraction(text.as_bytes())) {
            Some((found, _)) => found.levels[usize::from(level - 1)],
            None => self.weights_in_table(Some(cp), level),
        }
    }

    fn weights_in_table(&self, cp: Option<u32>, level: u8) -> Few {
        if level == 4 {
            return self.fourth.of(cp);
        }
        let weights = self.uca.weights(cp, level);
        match self.upper_first {
            Some(_) if level == 3 => weights
                .as_slice()
                .iter()
                .map(|weight| with_upper_first(*weight))
                .collect(),
            _ => weights,
        }
    }

    /// The longest contraction at the start of a text, and its length in bytes.
    fn contraction(&self, text: &[u8]) -> Option<(&Contraction, usize)> {
        if !self.begins[usize::from(*text.first()?)] {
            return None;
        }
        self.lengths.iter().find_map(|&len| {
            let start = text.get(..len)?;
            let found = self.contractions.binary_search_by(|c| (*c.text).cmp(start));
            found.ok().map(|at| (&self.contractions[at], len))
        })
    }

    /// The start of a text whose characters weigh the same whatever stands around them, and whichever characters that
    /// weigh as much stand in their places.
    pub(super) fn certain_prefix<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let mut at = 0;
        while at < text.len() {
            let (cp, len) = decode_char(&text[at..]);
            let weight = cp
                .and_then(char::from_u32)
                .and_then(|c| self.first_weight(c));
            if weight.is_none_or(|weight| self.parts.binary_search(&weight).is_ok()) {
                break;
            }
            at += len;
        }
        &text[..at]
    }
}

/// Reads the pairs of second and third weights at the beginning of a file.
pub(super) fn read_pairs_of_levels(stream: &mut Stream) -> Vec<(u32, u32)> {
    (0..stream.u16())
        .map(|_| (u32::from(stream.u16()), u32::from(stream.u16())))
        .collect()
}

/// Reads an alphabet of `alphabets.bin`.
fn letters(alphabet: Alphabet) -> Letters {
    let mut stream = Stream(ALPHABETS);
    let pairs = read_pairs_of_levels(&mut stream);
    for _ in 0..alphabet as usize {
        // Those before are read into a table that nobody sees.
        let mut unseen = Uca::empty_of(alphabet.is_900());
        unseen.patch(&mut stream, &pairs);
        read_contractions(&mut stream, &pairs);
    }
    let mut uca = Uca::base_of(alphabet.is_900());
    uca.patch(&mut stream, &pairs);
    Letters {
        uca,
        contractions: read_contractions(&mut stream, &pairs),
        fourth: FourthWeights::default(),
    }
}

/// Reads contractions; they have no weights on the fourth level yet.
pub(super) fn read_contractions(stream: &mut Stream, pairs: &[(u32, u32)]) -> Vec<Contraction> {
    let mut primary = 0;
    (0..stream.varint())
        .map(|_| {
            let chars: String = (0..stream.varint())
                .map(|_| char::from_u32(stream.varint()).expect("a character"))
                .collect();
            let elements: Vec<[u32; 3]> = (0..stream.varint())
                .map(|_| stream.element(&mut primary, pairs))
                .collect();
            Contraction {
                text: chars.into_bytes().into(),
                levels: std::array::from_fn(|level| {
                    let weights = elements
                        .iter()
                        .filter_map(|element| Some(*element.get(level)? as u16));
                    weights.filter(|weight| *weight != 0).collect()
                }),
            }
        })
        .collect()
}

/// One level of an alphabet.
#[derive(Clone, Copy)]
pub(super) struct AlphabetLevel {
    pub(super) table: &'static AlphabetTable,
    /// 1 to 4.
    pub(super) level: u8,
}

impl Weigh for AlphabetLevel {
    const IGNORES_ZERO: bool = true;
    const CONTRACTS: bool = true;

    #[inline]
    fn ascii(&self) -> &[u16; 128] {
        match &self.table.upper_first {
            _ if self.level == 4 => &NO_WEIGHTS,
            Some(third) if self.level == 3 => third,
            _ => self.table.uca.ascii_of(self.level),
        }
    }

    fn wide(&self, cp: Option<u32>) -> Few {
        self.table.weights_in_table(cp, self.level)
    }

    #[inline]
    fn contraction(&self, text: &[u8]) -> Option<(Few, usize)> {
        let (found, len) = self.table.contraction(text)?;
        Some((found.levels[usize::from(self.level - 1)], len))
    }

    fn any(&self, cp: Option<u32>) -> Few {
        match cp {
            Some(cp) => self.table.weights_of(cp, self.level),
            None => self.wide(None),
        }
    }
}
