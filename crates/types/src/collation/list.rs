//! The collations Esker serves, with MySQL's ids and attributes.
//!
//! Neighbours: `table` is the list; `mod.rs` dispatches on [`Family`]; `information_schema.collations` and
//! `SHOW COLLATION` print [`Collation::all`].
//! **Invariants**: ids, names and attributes are MySQL 8.4's; each character set has one default.

use super::charset::Charset;
use super::table::ALL;

/// A collation, by MySQL's id (the number on the wire and in the catalog).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Collation(pub u16);

/// How a collation orders strings.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Family {
    /// Bytes, no padding: `binary`, `utf8mb4_0900_bin`.
    Bytes,
    /// Code points, padded with spaces: `*_bin`.
    CodePoints,
    /// One weight for each character: `*_general_ci`, the collations of single bytes.
    Simple(Simple),
    /// Unicode collation algorithm 4.0 or 5.2, primary level, padded.
    OldUca(OldUca),
    /// Unicode collation algorithm 9.0 with this many levels, not padded.
    Uca900(u8),
    /// One of the two with the letters of a language, and so many levels.
    Alphabet(Alphabet, u8),
}

/// The tables of [`Family::Simple`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Simple {
    /// `*_general_ci` of Unicode.
    GeneralCi,
    /// The same as it was in MySQL 5.0, where `ß` was no `s`.
    General500Ci,
    /// Lower case letters by their code points, `utf8mb3_tolower_ci`.
    ToLowerCi,
    /// `ascii_general_ci`.
    AsciiCi,
    /// A table of a character set of single bytes, by its number in `collations8.bin`.
    Byte(Charset, u8),
    /// Bytes of a character set of single bytes.
    ByteBin(Charset),
    /// The table of a multi-byte character set.
    Multi(Charset),
    /// Codes of a multi-byte character set.
    MultiBin(Charset),
    /// `gb18030_chinese_ci`.
    Gb18030Ci,
    /// `gb18030_bin`.
    Gb18030Bin,
}

/// The tables of [`Family::OldUca`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum OldUca {
    /// `*_unicode_ci`.
    V400,
    /// `*_unicode_520_ci`.
    V520,
    /// `*_unicode_ci` but for some characters of a language.
    Tailored(Language),
}

/// The tailorings of `*_unicode_ci` without contractions, in the order of `tailored.bin`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Language {
    Esperanto,
    Estonian,
    German2,
    Hungarian,
    Icelandic,
    Latvian,
    Persian,
    Polish,
    Roman,
    Romanian,
    Sinhala,
    Slovenian,
    Spanish,
    Swedish,
    Turkish,
    Vietnamese,
}

/// The languages with contractions, first those of `*_unicode_ci`, and all of the 0900 collations, in the order of
/// `alphabets.bin` and `han.bin`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Debug)]
pub(super) enum Alphabet {
    Croatian,
    Czech,
    Danish,
    Lithuanian,
    Slovak,
    Spanish2,
    Bulgarian900,
    Bosnian900,
    Czech900,
    Danish900,
    German900,
    Esperanto900,
    Spanish900,
    TraditionalSpanish900,
    Estonian900,
    Galician900,
    Croatian900,
    Hungarian900,
    Icelandic900,
    Latin900,
    Lithuanian900,
    Latvian900,
    Mongolian900,
    Bokmal900,
    Nynorsk900,
    Polish900,
    Romanian900,
    Russian900,
    Slovak900,
    Slovenian900,
    Serbian900,
    Swedish900,
    Turkish900,
    Vietnamese900,
    Chinese900,
    Japanese900,
}

impl Alphabet {
    /// Is it one of the 0900 collations?
    pub(super) fn is_900(self) -> bool {
        self >= Alphabet::Bulgarian900
    }
}

/// Number of [`Language`]s.
pub(super) const LANGUAGES: usize = Language::Vietnamese as usize + 1;

/// What `SHOW COLLATION` says about a collation.
#[derive(Copy, Clone, Debug)]
pub struct CollationInfo {
    /// Id.
    pub collation: Collation,
    /// Name.
    pub name: &'static str,
    /// Character set.
    pub charset: Charset,
    /// Default of its character set?
    pub is_default: bool,
    /// `Sortlen`.
    pub sortlen: u8,
    /// PAD SPACE (else NO PAD).
    pub pad: bool,
    /// How it works.
    pub(super) family: Family,
}

macro_rules! named {
    ($($id:literal $konst:ident $name:literal;)*) => {
        /// The collations that code refers to.
        impl Collation {
            $(#[doc = concat!("`", $name, "`")] pub const $konst: Collation = Collation($id);)*
        }
    };
}

named! {
    11 ASCII_GENERAL_CI "ascii_general_ci";
    63 BINARY "binary";
    47 LATIN1_BIN "latin1_bin";
    5 LATIN1_GERMAN1_CI "latin1_german1_ci";
    8 LATIN1_SWEDISH_CI "latin1_swedish_ci";
    83 UTF8MB3_BIN "utf8mb3_bin";
    198 UTF8MB3_ESTONIAN_CI "utf8mb3_estonian_ci";
    33 UTF8MB3_GENERAL_CI "utf8mb3_general_ci";
    194 UTF8MB3_LATVIAN_CI "utf8mb3_latvian_ci";
    207 UTF8MB3_ROMAN_CI "utf8mb3_roman_ci";
    201 UTF8MB3_TURKISH_CI "utf8mb3_turkish_ci";
    255 UTF8MB4_0900_AI_CI "utf8mb4_0900_ai_ci";
    305 UTF8MB4_0900_AS_CI "utf8mb4_0900_as_ci";
    278 UTF8MB4_0900_AS_CS "utf8mb4_0900_as_cs";
    309 UTF8MB4_0900_BIN "utf8mb4_0900_bin";
    46 UTF8MB4_BIN "utf8mb4_bin";
    241 UTF8MB4_ESPERANTO_CI "utf8mb4_esperanto_ci";
    45 UTF8MB4_GENERAL_CI "utf8mb4_general_ci";
    244 UTF8MB4_GERMAN2_CI "utf8mb4_german2_ci";
    231 UTF8MB4_SPANISH_CI "utf8mb4_spanish_ci";
    232 UTF8MB4_SWEDISH_CI "utf8mb4_swedish_ci";
    233 UTF8MB4_TURKISH_CI "utf8mb4_turkish_ci";
    246 UTF8MB4_UNICODE_520_CI "utf8mb4_unicode_520_ci";
    224 UTF8MB4_UNICODE_CI "utf8mb4_unicode_ci";
}

/// Largest id in [`ALL`] plus one.
const IDS: usize = 324;

/// Position in [`ALL`] by id; ids that do not exist lead to `binary`.
static BY_ID: [u16; IDS] = index_by_id();

const fn index_by_id() -> [u16; IDS] {
    let mut binary = 0;
    while ALL[binary].collation.0 != 63 {
        binary += 1;
    }
    let mut index = [binary as u16; IDS];
    let mut i = 0;
    while i < ALL.len() {
        index[ALL[i].collation.0 as usize] = i as u16;
        i += 1;
    }
    index
}

impl Collation {
    /// Every collation, sorted by name.
    pub fn all() -> &'static [CollationInfo] {
        ALL
    }

    /// The collation of this name, any case.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = match name.get(..5) {
            // "utf8_" is the old spelling of "utf8mb3_".
            Some(p) if p.eq_ignore_ascii_case("utf8_") => format!("utf8mb3_{}", &name[5..]),
            _ => name.to_owned(),
        };
        ALL.iter()
            .find(|c| c.name.eq_ignore_ascii_case(&name))
            .map(|c| c.collation)
    }

    /// The collation of this id.
    pub fn by_id(id: u16) -> Option<Self> {
        let info = Collation(id).info();
        (info.collation.0 == id).then_some(info.collation)
    }

    /// Its attributes; an id that does not exist behaves as `binary`.
    pub fn info(self) -> &'static CollationInfo {
        let id = usize::from(self.0);
        &ALL[usize::from(if id < IDS { BY_ID[id] } else { BY_ID[63] })]
    }

    /// MySQL's name.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Its character set.
    pub fn charset(self) -> Charset {
        self.info().charset
    }

    /// The default collation of a character set.
    pub fn default_of(charset: Charset) -> Self {
        charset.default_collation()
    }

    /// Is this `binary`, the collation of byte strings?
    pub fn is_binary(self) -> bool {
        self == Self::BINARY
    }

    /// Are trailing spaces insignificant?
    pub fn pad_space(self) -> bool {
        self.info().pad
    }

    pub(super) fn family(self) -> Family {
        self.info().family
    }

    /// The `_bin` collation of the same character set.
    pub fn bin_of(self) -> Self {
        self.charset().bin_collation()
    }

    /// Does it order by code point or byte (a `_bin` collation or `binary`)?
    pub fn is_bin(self) -> bool {
        match self.family() {
            Family::Bytes | Family::CodePoints => true,
            Family::Simple(s) => matches!(
                s,
                Simple::ByteBin(_) | Simple::MultiBin(_) | Simple::Gb18030Bin
            ),
            Family::OldUca(_) | Family::Uca900(_) | Family::Alphabet(..) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_consistent() {
        assert!(
            ALL.windows(2).all(|w| w[0].name < w[1].name),
            "sorted by name"
        );
        for c in ALL {
            assert_eq!(Collation::by_id(c.collation.0), Some(c.collation));
            assert_eq!(Collation::by_name(c.name), Some(c.collation));
            assert_eq!(
                c.is_default,
                c.collation == c.charset.default_collation(),
                "{}",
                c.name
            );
            assert_eq!(c.collation.bin_of().charset(), c.charset);
            assert!(c.collation.bin_of().is_bin());
        }
        assert_eq!(
            Collation::by_name("UTF8_General_CI"),
            Some(Collation::UTF8MB3_GENERAL_CI)
        );
        assert_eq!(Collation::by_name("utf8mb4_klingon_ci"), None);
        assert_eq!(Collation::by_id(2), None);
        assert_eq!(Collation::by_id(u16::MAX), None);
        assert!(Collation(9999).info().collation.is_binary());
    }
}
