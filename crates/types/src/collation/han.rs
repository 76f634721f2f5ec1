//! Chinese and Japanese in 0900: the order of the ideographs, and where the other scripts are beside them.
//!
//! Neighbours: `alphabets` keeps what is read here; `weights` has the root collation, of which these are patches, and
//! moves its scripts by [`chinese`] and [`put_japanese`]; `tools/han-tables.py` made the file.
//!
//! Chinese has its ideographs, by pinyin, before Latin, and what stood from Latin on behind them. Japanese has kana and
//! the ideographs of JIS X 0208 behind Latin; the scripts that stood there have [`BEHIND`] before their weights. Kana
//! of both kinds differ on a fourth level only, where that counts (`_ks`). A mark of length or iteration weighs as the
//! kana before it asks for; the two are a contraction.
//!
//! Format of `han.bin` (numbers as in `weights`): u16 number of (secondary u16, tertiary u16) pairs and the pairs; for
//! Chinese and then Japanese the varint number of runs of ideographs, for each run the varint distance from the end of
//! the run before and its varint length, then the first weight (u16) of each of them; other characters and contractions
//! as in `alphabets.bin`, characters of Japanese before its scripts are moved; then for the fourth level of Japanese
//! the varint number of characters, and for each `varint((code point - previous) << 1 | is katakana)`.
//!
//! **Invariants**: the file never changes (a test holds its checksum); a character has at most eight weights on a
//! level.

use super::alphabets::{Contraction, Letters, read_contractions, read_pairs_of_levels};
use super::list::Alphabet;
use super::utf8::decode_char;
use super::weights::{Few, Stream, Uca};

pub(super) static HAN: &[u8] = include_bytes!("../../data/han.bin");

/// First weight of Latin in the root collation, and the end of all scripts.
const LATIN: u16 = 0x1C47;
const SCRIPTS_END: u16 = 0x54A4;
/// How far Chinese moves them.
const CHINESE_SHIFT: u16 = 0xA17D;

/// First weights of the scripts behind Latin in the root collation, and of kana among them.
const OTHERS: std::ops::Range<u16> = 0x1FB6..SCRIPTS_END;
const KANA: std::ops::Range<u16> = 0x3D5A..0x3D8C;
/// How far Japanese moves kana.
const KANA_SHIFT: u16 = 0x1DA4;
/// What stands before the weights of the other scripts in Japanese.
const BEHIND: u16 = 0xFB86;

/// Fourth weights.
const HIRAGANA: u16 = 2;
const KATAKANA: u16 = 8;

/// What a first weight of the root collation is in Chinese.
pub(super) fn chinese(weight: u16) -> u16 {
    match weight {
        LATIN..SCRIPTS_END => weight + CHINESE_SHIFT,
        // The implicit ones are numbered without gaps.
        0xFB40..=0xFB41 => weight - 0xFB40 + 0xBDBF,
        0xFB80 => 0xBDC1,
        0xFB84..=0xFB85 => weight - 0xFB84 + 0xBDC2,
        0xFB00 => 0xF621,
        0xFBC0..0xFBE2 => weight - 0xFBC0 + 0xF622,
        _ => weight,
    }
}

/// Puts what a first weight of the root collation is in Japanese.
pub(super) fn put_japanese(weight: u16, few: &mut Few) {
    if weight == 0 {
        return;
    }
    if KANA.contains(&weight) {
        return few.push_some(weight - KANA_SHIFT);
    }
    if OTHERS.contains(&weight) {
        few.push_some(BEHIND);
    }
    few.push_some(weight);
}

/// Weights on the fourth level, by character.
#[derive(Default)]
pub(super) struct FourthWeights(Vec<(u32, u16)>);

impl FourthWeights {
    fn read(stream: &mut Stream) -> Self {
        let mut cp = 0;
        let weights = (0..stream.varint()).map(|_| {
            let n = stream.varint();
            cp += n >> 1;
            (cp, if n & 1 == 1 { KATAKANA } else { HIRAGANA })
        });
        Self(weights.collect())
    }

    pub(super) fn of(&self, cp: Option<u32>) -> Few {
        let found = cp.and_then(|cp| self.0.binary_search_by_key(&cp, |(cp, _)| *cp).ok());
        found.map_or_else(Few::default, |at| Few::one(self.0[at].1))
    }

    /// A mark weighs what the kana before it does.
    fn give_to(&self, contraction: &mut Contraction) {
        let (first, len) = decode_char(&contraction.text);
        let weight = self.of(first);
        contraction.levels[3] = match weight.as_slice() {
            [weight] if len < contraction.text.len() => Few::two(*weight, *weight),
            _ => weight,
        };
    }
}

/// Reads one of the two languages.
pub(super) fn letters(alphabet: Alphabet) -> Letters {
    let mut stream = Stream(HAN);
    let pairs = read_pairs_of_levels(&mut stream);
    let mut read = |mut uca: Uca| {
        read_ideographs(&mut stream, &mut uca);
        uca.patch(&mut stream, &pairs);
        let contractions = read_contractions(&mut stream, &pairs);
        (uca, contractions)
    };
    let (uca, contractions) = read(Uca::chinese());
    if alphabet == Alphabet::Chinese900 {
        return Letters {
            uca,
            contractions,
            fourth: FourthWeights::default(),
        };
    }
    let (uca, mut contractions) = read(Uca::japanese());
    let fourth = FourthWeights::read(&mut stream);
    contractions
        .iter_mut()
        .for_each(|contraction| fourth.give_to(contraction));
    Letters {
        uca,
        contractions,
        fourth,
    }
}

/// Reads runs of code points.
pub(super) fn read_runs(stream: &mut Stream) -> Vec<std::ops::Range<u32>> {
    let (count, mut end) = (stream.varint(), 0);
    let read = |_| {
        let start = end + stream.varint();
        end = start + stream.varint();
        start..end
    };
    (0..count).map(read).collect()
}

fn read_ideographs(stream: &mut Stream, uca: &mut Uca) {
    for cp in read_runs(stream).into_iter().flatten() {
        uca.set_letter(cp, stream.u16());
    }
}
