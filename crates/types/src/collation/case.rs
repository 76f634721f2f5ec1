//! UPPER and LOWER: one character to one character, from frozen tables.
//!
//! Neighbours: `mod.rs` picks the table of a collation; `weights` reads the pairs.
//! `case.bin` has six lists of pairs (upper, lower) x (general_ci and older, unicode_520, 0900).
//!
//! **Invariants**: the number of characters never changes; the tables never change. Only Turkish has other pairs:
//! `i` and `İ`, `ı` and `I`.

use std::sync::LazyLock;

use super::charset::Charset;
use super::gb18030::Gb18030;
use super::list::{Collation, Family, Language, OldUca};
use super::utf8::decode_char;
use super::weights::read_counted_pairs;

pub(super) static CASE: &[u8] = include_bytes!("../../data/case.bin");

struct CaseMap {
    /// Sorted by code point.
    upper: Vec<(u32, u32)>,
    lower: Vec<(u32, u32)>,
}

/// Tables for the general_ci, the unicode_520 and the 0900 family.
static MAPS: LazyLock<[CaseMap; 3]> = LazyLock::new(|| {
    let mut data = CASE;
    let mut next = || {
        let (pairs, rest) = read_counted_pairs(data);
        data = rest;
        pairs
    };
    std::array::from_fn(|_| CaseMap {
        upper: next(),
        lower: next(),
    })
});

#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Upper,
    Lower,
}

pub(super) fn upper(collation: Collation, s: &[u8]) -> Vec<u8> {
    convert(collation, s, To::Upper)
}

pub(super) fn lower(collation: Collation, s: &[u8]) -> Vec<u8> {
    convert(collation, s, To::Lower)
}

/// The lower case of a character of the basic plane.
pub(super) fn lower_of(collation: Collation, cp: u16) -> u16 {
    map_char(collation, u32::from(cp), To::Lower) as u16
}

fn convert(collation: Collation, s: &[u8], to: To) -> Vec<u8> {
    if collation.is_binary() {
        return s.to_vec();
    }
    if s.is_ascii() && has_plain_ascii(collation) {
        return match to {
            To::Upper => s.to_ascii_uppercase(),
            To::Lower => s.to_ascii_lowercase(),
        };
    }
    let mut out = Vec::with_capacity(s.len());
    let mut at = 0;
    while at < s.len() {
        let (cp, len) = decode_char(&s[at..]);
        match cp.map(|cp| (cp, map_char(collation, cp, to))) {
            Some((cp, mapped)) if cp != mapped => {
                let mut buf = [0; 4];
                let c = char::from_u32(mapped).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut buf).as_bytes());
            }
            _ => out.extend_from_slice(&s[at..at + len]),
        }
        at += len;
    }
    out
}

/// Has ASCII the cases it has everywhere?
fn has_plain_ascii(collation: Collation) -> bool {
    let set = collation.charset().byte_set();
    set.is_none_or(|set| set.plain_ascii) && !is_turkish(collation)
}

fn is_turkish(collation: Collation) -> bool {
    collation.family() == Family::OldUca(OldUca::Tailored(Language::Turkish))
}

fn map_char(collation: Collation, cp: u32, to: To) -> u32 {
    match (cp, to) {
        (0x69, To::Upper) if is_turkish(collation) => return 0x130,
        (0x49, To::Lower) if is_turkish(collation) => return 0x131,
        _ => {}
    }
    if let Some(set) = collation.charset().byte_set() {
        return match to {
            To::Upper => set.upper(cp),
            To::Lower => set.lower(cp),
        };
    }
    if let Some(set) = collation.charset().multi_set() {
        return match to {
            To::Upper => set.upper(cp),
            To::Lower => set.lower(cp),
        };
    }
    if collation.charset() == Charset::Gb18030 {
        let set = Gb18030::get();
        return match to {
            To::Upper => set.upper(cp),
            To::Lower => set.lower(cp),
        };
    }
    if let Some(c) = u8::try_from(cp).ok().filter(u8::is_ascii) {
        return u32::from(match to {
            To::Upper => c.to_ascii_uppercase(),
            To::Lower => c.to_ascii_lowercase(),
        });
    }
    let map = match (collation.charset(), collation.family()) {
        (Charset::Ascii, _) => return cp,
        (_, Family::Uca900(_) | Family::Bytes) => &MAPS[2],
        (_, Family::Alphabet(alphabet, _)) if alphabet.is_900() => &MAPS[2],
        (_, Family::OldUca(OldUca::V520)) => &MAPS[1],
        _ => &MAPS[0],
    };
    let pairs = if to == To::Upper {
        &map.upper
    } else {
        &map.lower
    };
    pairs
        .binary_search_by_key(&cp, |p| p.0)
        .map_or(cp, |i| pairs[i].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_as_mysql() {
        let up = |c, s: &str| String::from_utf8(upper(c, s.as_bytes())).unwrap();
        let low = |c, s: &str| String::from_utf8(lower(c, s.as_bytes())).unwrap();
        let new = Collation::UTF8MB4_0900_AI_CI;
        assert_eq!(up(new, "ßéǆŉzᾳა"), "ßÉǄŉZᾼა");
        assert_eq!(low(new, "ÀİΣA𐐀"), "àiσa𐐨");
        assert_eq!(up(Collation::UTF8MB4_0900_BIN, "ƀ"), "Ƀ");
        assert_eq!(up(Collation::UTF8MB4_GENERAL_CI, "ƀé"), "ƀÉ");
        assert_eq!(low(Collation::UTF8MB4_BIN, "ŠÀ"), "šà");
        assert_eq!(up(Collation::LATIN1_SWEDISH_CI, "šéÿµ÷"), "šÉÿµ÷");
        assert_eq!(low(Collation::LATIN1_BIN, "ŠÉ×"), "Šé×");
        assert_eq!(up(Collation::BINARY, "abc"), "abc");
        assert_eq!(up(Collation::UTF8MB4_TURKISH_CI, "xi"), "Xİ");
        assert_eq!(low(Collation::UTF8MB3_TURKISH_CI, "XIİ"), "xıi");
        assert_eq!(upper(new, b"a\xFFb\xC3"), b"A\xFFB\xC3");
    }
}
