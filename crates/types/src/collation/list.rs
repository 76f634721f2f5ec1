//! The collations Esker serves, with MySQL's ids and attributes.
//!
//! Neighbours: `mod.rs` dispatches on [`Family`]; `information_schema.collations` and
//! `SHOW COLLATION` print [`Collation::all`].
//! **Invariants**: ids, names and attributes are MySQL 8.4's; each character set has one default.

use super::charset::Charset;

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
    /// One weight for each character: `*_general_ci`, the latin1 collations.
    Simple(Simple),
    /// Unicode collation algorithm 4.0 or 5.2, primary level, padded.
    OldUca(OldUca),
    /// Unicode collation algorithm 9.0 with this many levels, not padded.
    Uca900(u8),
}

/// The tables of [`Family::Simple`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Simple {
    /// `utf8mb4_general_ci`, `utf8mb3_general_ci`.
    GeneralCi,
    /// `ascii_general_ci`.
    AsciiCi,
    /// `latin1_swedish_ci`.
    Swedish,
    /// `latin1_german1_ci`.
    German1,
    /// `latin1_danish_ci`.
    Danish,
    /// `latin1_general_ci`.
    General,
    /// `latin1_general_cs`.
    GeneralCs,
    /// `latin1_spanish_ci`.
    Spanish,
    /// `latin1_bin`.
    Latin1Bin,
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

/// The tailorings of `*_unicode_ci`, in the order of `tailored.bin`. Languages that sort two letters as one are
/// missing.
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

macro_rules! collations {
    ($($konst:ident = $id:literal $name:literal $charset:ident $default:literal $sortlen:literal
       $pad:literal $family:expr;)*) => {
        impl Collation {
            $(#[doc = concat!("`", $name, "`")] pub const $konst: Collation = Collation($id);)*
        }
        /// Sorted by name.
        const ALL: &[CollationInfo] = &[$(CollationInfo {
            collation: Collation($id),
            name: $name,
            charset: Charset::$charset,
            is_default: $default,
            sortlen: $sortlen,
            pad: $pad,
            family: $family,
        }),*];
    };
}

collations! {
    ASCII_BIN = 65 "ascii_bin" Ascii false 1 true Family::CodePoints;
    ASCII_GENERAL_CI = 11 "ascii_general_ci" Ascii true 1 true Family::Simple(Simple::AsciiCi);
    BINARY = 63 "binary" Binary true 1 false Family::Bytes;
    LATIN1_BIN = 47 "latin1_bin" Latin1 false 1 true Family::Simple(Simple::Latin1Bin);
    LATIN1_DANISH_CI = 15 "latin1_danish_ci" Latin1 false 1 true Family::Simple(Simple::Danish);
    LATIN1_GENERAL_CI = 48 "latin1_general_ci" Latin1 false 1 true Family::Simple(Simple::General);
    LATIN1_GENERAL_CS = 49 "latin1_general_cs" Latin1 false 1 true
        Family::Simple(Simple::GeneralCs);
    LATIN1_GERMAN1_CI = 5 "latin1_german1_ci" Latin1 false 1 true Family::Simple(Simple::German1);
    LATIN1_SPANISH_CI = 94 "latin1_spanish_ci" Latin1 false 1 true Family::Simple(Simple::Spanish);
    LATIN1_SWEDISH_CI = 8 "latin1_swedish_ci" Latin1 true 1 true Family::Simple(Simple::Swedish);
    UTF8MB3_BIN = 83 "utf8mb3_bin" Utf8mb3 false 1 true Family::CodePoints;
    UTF8MB3_ESPERANTO_CI = 209 "utf8mb3_esperanto_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Esperanto));
    UTF8MB3_ESTONIAN_CI = 198 "utf8mb3_estonian_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Estonian));
    UTF8MB3_GENERAL_CI = 33 "utf8mb3_general_ci" Utf8mb3 true 1 true
        Family::Simple(Simple::GeneralCi);
    UTF8MB3_GERMAN2_CI = 212 "utf8mb3_german2_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::German2));
    UTF8MB3_HUNGARIAN_CI = 210 "utf8mb3_hungarian_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Hungarian));
    UTF8MB3_ICELANDIC_CI = 193 "utf8mb3_icelandic_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Icelandic));
    UTF8MB3_LATVIAN_CI = 194 "utf8mb3_latvian_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Latvian));
    UTF8MB3_PERSIAN_CI = 208 "utf8mb3_persian_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Persian));
    UTF8MB3_POLISH_CI = 197 "utf8mb3_polish_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Polish));
    UTF8MB3_ROMAN_CI = 207 "utf8mb3_roman_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Roman));
    UTF8MB3_ROMANIAN_CI = 195 "utf8mb3_romanian_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Romanian));
    UTF8MB3_SINHALA_CI = 211 "utf8mb3_sinhala_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Sinhala));
    UTF8MB3_SLOVENIAN_CI = 196 "utf8mb3_slovenian_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Slovenian));
    UTF8MB3_SPANISH_CI = 199 "utf8mb3_spanish_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Spanish));
    UTF8MB3_SWEDISH_CI = 200 "utf8mb3_swedish_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Swedish));
    UTF8MB3_TURKISH_CI = 201 "utf8mb3_turkish_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Turkish));
    UTF8MB3_UNICODE_520_CI = 214 "utf8mb3_unicode_520_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::V520);
    UTF8MB3_UNICODE_CI = 192 "utf8mb3_unicode_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::V400);
    UTF8MB3_VIETNAMESE_CI = 215 "utf8mb3_vietnamese_ci" Utf8mb3 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Vietnamese));
    UTF8MB4_0900_AI_CI = 255 "utf8mb4_0900_ai_ci" Utf8mb4 true 0 false Family::Uca900(1);
    UTF8MB4_0900_AS_CI = 305 "utf8mb4_0900_as_ci" Utf8mb4 false 0 false Family::Uca900(2);
    UTF8MB4_0900_AS_CS = 278 "utf8mb4_0900_as_cs" Utf8mb4 false 0 false Family::Uca900(3);
    UTF8MB4_0900_BIN = 309 "utf8mb4_0900_bin" Utf8mb4 false 1 false Family::Bytes;
    UTF8MB4_BIN = 46 "utf8mb4_bin" Utf8mb4 false 1 true Family::CodePoints;
    UTF8MB4_ESPERANTO_CI = 241 "utf8mb4_esperanto_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Esperanto));
    UTF8MB4_ESTONIAN_CI = 230 "utf8mb4_estonian_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Estonian));
    UTF8MB4_GENERAL_CI = 45 "utf8mb4_general_ci" Utf8mb4 false 1 true
        Family::Simple(Simple::GeneralCi);
    UTF8MB4_GERMAN2_CI = 244 "utf8mb4_german2_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::German2));
    UTF8MB4_HUNGARIAN_CI = 242 "utf8mb4_hungarian_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Hungarian));
    UTF8MB4_ICELANDIC_CI = 225 "utf8mb4_icelandic_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Icelandic));
    UTF8MB4_LATVIAN_CI = 226 "utf8mb4_latvian_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Latvian));
    UTF8MB4_PERSIAN_CI = 240 "utf8mb4_persian_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Persian));
    UTF8MB4_POLISH_CI = 229 "utf8mb4_polish_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Polish));
    UTF8MB4_ROMAN_CI = 239 "utf8mb4_roman_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Roman));
    UTF8MB4_ROMANIAN_CI = 227 "utf8mb4_romanian_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Romanian));
    UTF8MB4_SINHALA_CI = 243 "utf8mb4_sinhala_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Sinhala));
    UTF8MB4_SLOVENIAN_CI = 228 "utf8mb4_slovenian_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Slovenian));
    UTF8MB4_SPANISH_CI = 231 "utf8mb4_spanish_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Spanish));
    UTF8MB4_SWEDISH_CI = 232 "utf8mb4_swedish_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Swedish));
    UTF8MB4_TURKISH_CI = 233 "utf8mb4_turkish_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Turkish));
    UTF8MB4_UNICODE_520_CI = 246 "utf8mb4_unicode_520_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::V520);
    UTF8MB4_UNICODE_CI = 224 "utf8mb4_unicode_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::V400);
    UTF8MB4_VIETNAMESE_CI = 247 "utf8mb4_vietnamese_ci" Utf8mb4 false 8 true
        Family::OldUca(OldUca::Tailored(Language::Vietnamese));
}

/// Largest id in [`ALL`] plus one.
const IDS: usize = 310;

/// Position in [`ALL`] by id; ids that do not exist lead to `binary`.
static BY_ID: [u8; IDS] = index_by_id();

const fn index_by_id() -> [u8; IDS] {
    let mut binary = 0;
    while ALL[binary].collation.0 != 63 {
        binary += 1;
    }
    let mut index = [binary as u8; IDS];
    let mut i = 0;
    while i < ALL.len() {
        index[ALL[i].collation.0 as usize] = i as u8;
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
        match self.charset() {
            Charset::Binary => Self::BINARY,
            Charset::Utf8mb4 => Self::UTF8MB4_BIN,
            Charset::Utf8mb3 => Self::UTF8MB3_BIN,
            Charset::Latin1 => Self::LATIN1_BIN,
            Charset::Ascii => Self::ASCII_BIN,
        }
    }

    /// Does it order by code point or byte (a `_bin` collation or `binary`)?
    pub fn is_bin(self) -> bool {
        match self.family() {
            Family::Bytes | Family::CodePoints => true,
            Family::Simple(s) => s == Simple::Latin1Bin,
            Family::OldUca(_) | Family::Uca900(_) => false,
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
        assert_eq!(Collation::by_id(1), None);
        assert_eq!(Collation::by_id(u16::MAX), None);
        assert!(Collation(9999).info().collation.is_binary());
    }
}
