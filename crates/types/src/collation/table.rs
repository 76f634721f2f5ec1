//! MySQL's list of collations, as far as Esker has them.
//!
//! Neighbours: `list` says what the columns mean and looks collations up. Numbers of tables are those in
//! `collations8.bin`.
//! **Invariant**: sorted by name.

use super::charset::Charset;
use super::list::{Alphabet, Collation, CollationInfo, Family, Language, OldUca, Simple};

const fn simple(table: Simple) -> Family {
    Family::Simple(table)
}

const fn byte(charset: Charset, number: u8) -> Family {
    Family::Simple(Simple::Byte(charset, number))
}

const fn tailored(language: Language) -> Family {
    Family::OldUca(OldUca::Tailored(language))
}

const fn letters(alphabet: Alphabet, levels: u8) -> Family {
    Family::Alphabet(alphabet, levels)
}

macro_rules! collations {
    ($($id:literal $name:literal $charset:ident $default:literal $sortlen:literal $pad:literal $family:expr;)*) => {
        pub(super) const ALL: &[CollationInfo] = &[$(CollationInfo {
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

// Id, name, character set, whether it is the default, length of sort keys, PAD SPACE, and how it works.
collations! {
    64 "armscii8_bin" Armscii8 false 1 true simple(Simple::ByteBin(Charset::Armscii8));
    32 "armscii8_general_ci" Armscii8 true 1 true byte(Charset::Armscii8, 0);
    65 "ascii_bin" Ascii false 1 true Family::CodePoints;
    11 "ascii_general_ci" Ascii true 1 true simple(Simple::AsciiCi);
    84 "big5_bin" Big5 false 1 true simple(Simple::MultiBin(Charset::Big5));
    1 "big5_chinese_ci" Big5 true 1 true simple(Simple::Multi(Charset::Big5));
    63 "binary" Binary true 1 false Family::Bytes;
    66 "cp1250_bin" Cp1250 false 1 true simple(Simple::ByteBin(Charset::Cp1250));
    44 "cp1250_croatian_ci" Cp1250 false 1 true byte(Charset::Cp1250, 1);
    26 "cp1250_general_ci" Cp1250 true 1 true byte(Charset::Cp1250, 2);
    99 "cp1250_polish_ci" Cp1250 false 1 true byte(Charset::Cp1250, 3);
    50 "cp1251_bin" Cp1251 false 1 true simple(Simple::ByteBin(Charset::Cp1251));
    14 "cp1251_bulgarian_ci" Cp1251 false 1 true byte(Charset::Cp1251, 4);
    51 "cp1251_general_ci" Cp1251 true 1 true byte(Charset::Cp1251, 5);
    52 "cp1251_general_cs" Cp1251 false 1 true byte(Charset::Cp1251, 6);
    23 "cp1251_ukrainian_ci" Cp1251 false 1 true byte(Charset::Cp1251, 7);
    67 "cp1256_bin" Cp1256 false 1 true simple(Simple::ByteBin(Charset::Cp1256));
    57 "cp1256_general_ci" Cp1256 true 1 true byte(Charset::Cp1256, 8);
    58 "cp1257_bin" Cp1257 false 1 true simple(Simple::ByteBin(Charset::Cp1257));
    59 "cp1257_general_ci" Cp1257 true 1 true byte(Charset::Cp1257, 9);
    29 "cp1257_lithuanian_ci" Cp1257 false 1 true byte(Charset::Cp1257, 10);
    80 "cp850_bin" Cp850 false 1 true simple(Simple::ByteBin(Charset::Cp850));
    4 "cp850_general_ci" Cp850 true 1 true byte(Charset::Cp850, 11);
    81 "cp852_bin" Cp852 false 1 true simple(Simple::ByteBin(Charset::Cp852));
    40 "cp852_general_ci" Cp852 true 1 true byte(Charset::Cp852, 12);
    68 "cp866_bin" Cp866 false 1 true simple(Simple::ByteBin(Charset::Cp866));
    36 "cp866_general_ci" Cp866 true 1 true byte(Charset::Cp866, 13);
    96 "cp932_bin" Cp932 false 1 true simple(Simple::MultiBin(Charset::Cp932));
    95 "cp932_japanese_ci" Cp932 true 1 true simple(Simple::Multi(Charset::Cp932));
    69 "dec8_bin" Dec8 false 1 true simple(Simple::ByteBin(Charset::Dec8));
    3 "dec8_swedish_ci" Dec8 true 1 true byte(Charset::Dec8, 14);
    98 "eucjpms_bin" Eucjpms false 1 true simple(Simple::MultiBin(Charset::Eucjpms));
    97 "eucjpms_japanese_ci" Eucjpms true 1 true simple(Simple::Multi(Charset::Eucjpms));
    85 "euckr_bin" Euckr false 1 true simple(Simple::MultiBin(Charset::Euckr));
    19 "euckr_korean_ci" Euckr true 1 true simple(Simple::Multi(Charset::Euckr));
    249 "gb18030_bin" Gb18030 false 1 true simple(Simple::Gb18030Bin);
    248 "gb18030_chinese_ci" Gb18030 true 2 true simple(Simple::Gb18030Ci);
    250 "gb18030_unicode_520_ci" Gb18030 false 8 true Family::OldUca(OldUca::V520);
    86 "gb2312_bin" Gb2312 false 1 true simple(Simple::MultiBin(Charset::Gb2312));
    24 "gb2312_chinese_ci" Gb2312 true 1 true simple(Simple::Multi(Charset::Gb2312));
    87 "gbk_bin" Gbk false 1 true simple(Simple::MultiBin(Charset::Gbk));
    28 "gbk_chinese_ci" Gbk true 1 true simple(Simple::Multi(Charset::Gbk));
    93 "geostd8_bin" Geostd8 false 1 true simple(Simple::ByteBin(Charset::Geostd8));
    92 "geostd8_general_ci" Geostd8 true 1 true byte(Charset::Geostd8, 15);
    70 "greek_bin" Greek false 1 true simple(Simple::ByteBin(Charset::Greek));
    25 "greek_general_ci" Greek true 1 true byte(Charset::Greek, 16);
    71 "hebrew_bin" Hebrew false 1 true simple(Simple::ByteBin(Charset::Hebrew));
    16 "hebrew_general_ci" Hebrew true 1 true byte(Charset::Hebrew, 17);
    72 "hp8_bin" Hp8 false 1 true simple(Simple::ByteBin(Charset::Hp8));
    6 "hp8_english_ci" Hp8 true 1 true byte(Charset::Hp8, 18);
    73 "keybcs2_bin" Keybcs2 false 1 true simple(Simple::ByteBin(Charset::Keybcs2));
    37 "keybcs2_general_ci" Keybcs2 true 1 true byte(Charset::Keybcs2, 19);
    74 "koi8r_bin" Koi8r false 1 true simple(Simple::ByteBin(Charset::Koi8r));
    7 "koi8r_general_ci" Koi8r true 1 true byte(Charset::Koi8r, 20);
    75 "koi8u_bin" Koi8u false 1 true simple(Simple::ByteBin(Charset::Koi8u));
    22 "koi8u_general_ci" Koi8u true 1 true byte(Charset::Koi8u, 21);
    47 "latin1_bin" Latin1 false 1 true simple(Simple::ByteBin(Charset::Latin1));
    15 "latin1_danish_ci" Latin1 false 1 true byte(Charset::Latin1, 22);
    48 "latin1_general_ci" Latin1 false 1 true byte(Charset::Latin1, 23);
    49 "latin1_general_cs" Latin1 false 1 true byte(Charset::Latin1, 24);
    5 "latin1_german1_ci" Latin1 false 1 true byte(Charset::Latin1, 25);
    31 "latin1_german2_ci" Latin1 false 2 true byte(Charset::Latin1, 26);
    94 "latin1_spanish_ci" Latin1 false 1 true byte(Charset::Latin1, 27);
    8 "latin1_swedish_ci" Latin1 true 1 true byte(Charset::Latin1, 28);
    77 "latin2_bin" Latin2 false 1 true simple(Simple::ByteBin(Charset::Latin2));
    27 "latin2_croatian_ci" Latin2 false 1 true byte(Charset::Latin2, 29);
    9 "latin2_general_ci" Latin2 true 1 true byte(Charset::Latin2, 30);
    21 "latin2_hungarian_ci" Latin2 false 1 true byte(Charset::Latin2, 31);
    78 "latin5_bin" Latin5 false 1 true simple(Simple::ByteBin(Charset::Latin5));
    30 "latin5_turkish_ci" Latin5 true 1 true byte(Charset::Latin5, 32);
    79 "latin7_bin" Latin7 false 1 true simple(Simple::ByteBin(Charset::Latin7));
    20 "latin7_estonian_cs" Latin7 false 1 true byte(Charset::Latin7, 33);
    41 "latin7_general_ci" Latin7 true 1 true byte(Charset::Latin7, 34);
    42 "latin7_general_cs" Latin7 false 1 true byte(Charset::Latin7, 35);
    43 "macce_bin" Macce false 1 true simple(Simple::ByteBin(Charset::Macce));
    38 "macce_general_ci" Macce true 1 true byte(Charset::Macce, 36);
    53 "macroman_bin" Macroman false 1 true simple(Simple::ByteBin(Charset::Macroman));
    39 "macroman_general_ci" Macroman true 1 true byte(Charset::Macroman, 37);
    88 "sjis_bin" Sjis false 1 true simple(Simple::MultiBin(Charset::Sjis));
    13 "sjis_japanese_ci" Sjis true 1 true simple(Simple::Multi(Charset::Sjis));
    82 "swe7_bin" Swe7 false 1 true simple(Simple::ByteBin(Charset::Swe7));
    10 "swe7_swedish_ci" Swe7 true 1 true byte(Charset::Swe7, 38);
    89 "tis620_bin" Tis620 false 1 true simple(Simple::ByteBin(Charset::Tis620));
    18 "tis620_thai_ci" Tis620 true 4 true byte(Charset::Tis620, 39);
    90 "ucs2_bin" Ucs2 false 1 true Family::CodePoints;
    149 "ucs2_croatian_ci" Ucs2 false 8 true letters(Alphabet::Croatian, 1);
    138 "ucs2_czech_ci" Ucs2 false 8 true letters(Alphabet::Czech, 1);
    139 "ucs2_danish_ci" Ucs2 false 8 true letters(Alphabet::Danish, 1);
    145 "ucs2_esperanto_ci" Ucs2 false 8 true tailored(Language::Esperanto);
    134 "ucs2_estonian_ci" Ucs2 false 8 true tailored(Language::Estonian);
    35 "ucs2_general_ci" Ucs2 true 1 true simple(Simple::GeneralCi);
    159 "ucs2_general_mysql500_ci" Ucs2 false 1 true simple(Simple::General500Ci);
    148 "ucs2_german2_ci" Ucs2 false 8 true tailored(Language::German2);
    146 "ucs2_hungarian_ci" Ucs2 false 8 true tailored(Language::Hungarian);
    129 "ucs2_icelandic_ci" Ucs2 false 8 true tailored(Language::Icelandic);
    130 "ucs2_latvian_ci" Ucs2 false 8 true tailored(Language::Latvian);
    140 "ucs2_lithuanian_ci" Ucs2 false 8 true letters(Alphabet::Lithuanian, 1);
    144 "ucs2_persian_ci" Ucs2 false 8 true tailored(Language::Persian);
    133 "ucs2_polish_ci" Ucs2 false 8 true tailored(Language::Polish);
    143 "ucs2_roman_ci" Ucs2 false 8 true tailored(Language::Roman);
    131 "ucs2_romanian_ci" Ucs2 false 8 true tailored(Language::Romanian);
    147 "ucs2_sinhala_ci" Ucs2 false 8 true tailored(Language::Sinhala);
    141 "ucs2_slovak_ci" Ucs2 false 8 true letters(Alphabet::Slovak, 1);
    132 "ucs2_slovenian_ci" Ucs2 false 8 true tailored(Language::Slovenian);
    142 "ucs2_spanish2_ci" Ucs2 false 8 true letters(Alphabet::Spanish2, 1);
    135 "ucs2_spanish_ci" Ucs2 false 8 true tailored(Language::Spanish);
    136 "ucs2_swedish_ci" Ucs2 false 8 true tailored(Language::Swedish);
    137 "ucs2_turkish_ci" Ucs2 false 8 true tailored(Language::Turkish);
    150 "ucs2_unicode_520_ci" Ucs2 false 8 true Family::OldUca(OldUca::V520);
    128 "ucs2_unicode_ci" Ucs2 false 8 true Family::OldUca(OldUca::V400);
    151 "ucs2_vietnamese_ci" Ucs2 false 8 true tailored(Language::Vietnamese);
    91 "ujis_bin" Ujis false 1 true simple(Simple::MultiBin(Charset::Ujis));
    12 "ujis_japanese_ci" Ujis true 1 true simple(Simple::Multi(Charset::Ujis));
    55 "utf16_bin" Utf16 false 1 true Family::CodePoints;
    122 "utf16_croatian_ci" Utf16 false 8 true letters(Alphabet::Croatian, 1);
    111 "utf16_czech_ci" Utf16 false 8 true letters(Alphabet::Czech, 1);
    112 "utf16_danish_ci" Utf16 false 8 true letters(Alphabet::Danish, 1);
    118 "utf16_esperanto_ci" Utf16 false 8 true tailored(Language::Esperanto);
    107 "utf16_estonian_ci" Utf16 false 8 true tailored(Language::Estonian);
    54 "utf16_general_ci" Utf16 true 1 true simple(Simple::GeneralCi);
    121 "utf16_german2_ci" Utf16 false 8 true tailored(Language::German2);
    119 "utf16_hungarian_ci" Utf16 false 8 true tailored(Language::Hungarian);
    102 "utf16_icelandic_ci" Utf16 false 8 true tailored(Language::Icelandic);
    103 "utf16_latvian_ci" Utf16 false 8 true tailored(Language::Latvian);
    113 "utf16_lithuanian_ci" Utf16 false 8 true letters(Alphabet::Lithuanian, 1);
    117 "utf16_persian_ci" Utf16 false 8 true tailored(Language::Persian);
    106 "utf16_polish_ci" Utf16 false 8 true tailored(Language::Polish);
    116 "utf16_roman_ci" Utf16 false 8 true tailored(Language::Roman);
    104 "utf16_romanian_ci" Utf16 false 8 true tailored(Language::Romanian);
    120 "utf16_sinhala_ci" Utf16 false 8 true tailored(Language::Sinhala);
    114 "utf16_slovak_ci" Utf16 false 8 true letters(Alphabet::Slovak, 1);
    105 "utf16_slovenian_ci" Utf16 false 8 true tailored(Language::Slovenian);
    115 "utf16_spanish2_ci" Utf16 false 8 true letters(Alphabet::Spanish2, 1);
    108 "utf16_spanish_ci" Utf16 false 8 true tailored(Language::Spanish);
    109 "utf16_swedish_ci" Utf16 false 8 true tailored(Language::Swedish);
    110 "utf16_turkish_ci" Utf16 false 8 true tailored(Language::Turkish);
    123 "utf16_unicode_520_ci" Utf16 false 8 true Family::OldUca(OldUca::V520);
    101 "utf16_unicode_ci" Utf16 false 8 true Family::OldUca(OldUca::V400);
    124 "utf16_vietnamese_ci" Utf16 false 8 true tailored(Language::Vietnamese);
    62 "utf16le_bin" Utf16le false 1 true Family::CodePoints;
    56 "utf16le_general_ci" Utf16le true 1 true simple(Simple::GeneralCi);
    61 "utf32_bin" Utf32 false 1 true Family::CodePoints;
    181 "utf32_croatian_ci" Utf32 false 8 true letters(Alphabet::Croatian, 1);
    170 "utf32_czech_ci" Utf32 false 8 true letters(Alphabet::Czech, 1);
    171 "utf32_danish_ci" Utf32 false 8 true letters(Alphabet::Danish, 1);
    177 "utf32_esperanto_ci" Utf32 false 8 true tailored(Language::Esperanto);
    166 "utf32_estonian_ci" Utf32 false 8 true tailored(Language::Estonian);
    60 "utf32_general_ci" Utf32 true 1 true simple(Simple::GeneralCi);
    180 "utf32_german2_ci" Utf32 false 8 true tailored(Language::German2);
    178 "utf32_hungarian_ci" Utf32 false 8 true tailored(Language::Hungarian);
    161 "utf32_icelandic_ci" Utf32 false 8 true tailored(Language::Icelandic);
    162 "utf32_latvian_ci" Utf32 false 8 true tailored(Language::Latvian);
    172 "utf32_lithuanian_ci" Utf32 false 8 true letters(Alphabet::Lithuanian, 1);
    176 "utf32_persian_ci" Utf32 false 8 true tailored(Language::Persian);
    165 "utf32_polish_ci" Utf32 false 8 true tailored(Language::Polish);
    175 "utf32_roman_ci" Utf32 false 8 true tailored(Language::Roman);
    163 "utf32_romanian_ci" Utf32 false 8 true tailored(Language::Romanian);
    179 "utf32_sinhala_ci" Utf32 false 8 true tailored(Language::Sinhala);
    173 "utf32_slovak_ci" Utf32 false 8 true letters(Alphabet::Slovak, 1);
    164 "utf32_slovenian_ci" Utf32 false 8 true tailored(Language::Slovenian);
    174 "utf32_spanish2_ci" Utf32 false 8 true letters(Alphabet::Spanish2, 1);
    167 "utf32_spanish_ci" Utf32 false 8 true tailored(Language::Spanish);
    168 "utf32_swedish_ci" Utf32 false 8 true tailored(Language::Swedish);
    169 "utf32_turkish_ci" Utf32 false 8 true tailored(Language::Turkish);
    182 "utf32_unicode_520_ci" Utf32 false 8 true Family::OldUca(OldUca::V520);
    160 "utf32_unicode_ci" Utf32 false 8 true Family::OldUca(OldUca::V400);
    183 "utf32_vietnamese_ci" Utf32 false 8 true tailored(Language::Vietnamese);
    83 "utf8mb3_bin" Utf8mb3 false 1 true Family::CodePoints;
    213 "utf8mb3_croatian_ci" Utf8mb3 false 8 true letters(Alphabet::Croatian, 1);
    202 "utf8mb3_czech_ci" Utf8mb3 false 8 true letters(Alphabet::Czech, 1);
    203 "utf8mb3_danish_ci" Utf8mb3 false 8 true letters(Alphabet::Danish, 1);
    209 "utf8mb3_esperanto_ci" Utf8mb3 false 8 true tailored(Language::Esperanto);
    198 "utf8mb3_estonian_ci" Utf8mb3 false 8 true tailored(Language::Estonian);
    33 "utf8mb3_general_ci" Utf8mb3 true 1 true simple(Simple::GeneralCi);
    223 "utf8mb3_general_mysql500_ci" Utf8mb3 false 1 true simple(Simple::General500Ci);
    212 "utf8mb3_german2_ci" Utf8mb3 false 8 true tailored(Language::German2);
    210 "utf8mb3_hungarian_ci" Utf8mb3 false 8 true tailored(Language::Hungarian);
    193 "utf8mb3_icelandic_ci" Utf8mb3 false 8 true tailored(Language::Icelandic);
    194 "utf8mb3_latvian_ci" Utf8mb3 false 8 true tailored(Language::Latvian);
    204 "utf8mb3_lithuanian_ci" Utf8mb3 false 8 true letters(Alphabet::Lithuanian, 1);
    208 "utf8mb3_persian_ci" Utf8mb3 false 8 true tailored(Language::Persian);
    197 "utf8mb3_polish_ci" Utf8mb3 false 8 true tailored(Language::Polish);
    207 "utf8mb3_roman_ci" Utf8mb3 false 8 true tailored(Language::Roman);
    195 "utf8mb3_romanian_ci" Utf8mb3 false 8 true tailored(Language::Romanian);
    211 "utf8mb3_sinhala_ci" Utf8mb3 false 8 true tailored(Language::Sinhala);
    205 "utf8mb3_slovak_ci" Utf8mb3 false 8 true letters(Alphabet::Slovak, 1);
    196 "utf8mb3_slovenian_ci" Utf8mb3 false 8 true tailored(Language::Slovenian);
    206 "utf8mb3_spanish2_ci" Utf8mb3 false 8 true letters(Alphabet::Spanish2, 1);
    199 "utf8mb3_spanish_ci" Utf8mb3 false 8 true tailored(Language::Spanish);
    200 "utf8mb3_swedish_ci" Utf8mb3 false 8 true tailored(Language::Swedish);
    76 "utf8mb3_tolower_ci" Utf8mb3 false 1 true simple(Simple::ToLowerCi);
    201 "utf8mb3_turkish_ci" Utf8mb3 false 8 true tailored(Language::Turkish);
    214 "utf8mb3_unicode_520_ci" Utf8mb3 false 8 true Family::OldUca(OldUca::V520);
    192 "utf8mb3_unicode_ci" Utf8mb3 false 8 true Family::OldUca(OldUca::V400);
    215 "utf8mb3_vietnamese_ci" Utf8mb3 false 8 true tailored(Language::Vietnamese);
    255 "utf8mb4_0900_ai_ci" Utf8mb4 true 0 false Family::Uca900(1);
    305 "utf8mb4_0900_as_ci" Utf8mb4 false 0 false Family::Uca900(2);
    278 "utf8mb4_0900_as_cs" Utf8mb4 false 0 false Family::Uca900(3);
    309 "utf8mb4_0900_bin" Utf8mb4 false 1 false Family::Bytes;
    318 "utf8mb4_bg_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Bulgarian900, 1);
    319 "utf8mb4_bg_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Bulgarian900, 3);
    46 "utf8mb4_bin" Utf8mb4 false 1 true Family::CodePoints;
    316 "utf8mb4_bs_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Bosnian900, 1);
    317 "utf8mb4_bs_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Bosnian900, 3);
    245 "utf8mb4_croatian_ci" Utf8mb4 false 8 true letters(Alphabet::Croatian, 1);
    266 "utf8mb4_cs_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Czech900, 1);
    289 "utf8mb4_cs_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Czech900, 3);
    234 "utf8mb4_czech_ci" Utf8mb4 false 8 true letters(Alphabet::Czech, 1);
    267 "utf8mb4_da_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Danish900, 1);
    290 "utf8mb4_da_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Danish900, 3);
    235 "utf8mb4_danish_ci" Utf8mb4 false 8 true letters(Alphabet::Danish, 1);
    256 "utf8mb4_de_pb_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::German900, 1);
    279 "utf8mb4_de_pb_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::German900, 3);
    273 "utf8mb4_eo_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Esperanto900, 1);
    296 "utf8mb4_eo_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Esperanto900, 3);
    263 "utf8mb4_es_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Spanish900, 1);
    286 "utf8mb4_es_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Spanish900, 3);
    270 "utf8mb4_es_trad_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::TraditionalSpanish900, 1);
    293 "utf8mb4_es_trad_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::TraditionalSpanish900, 3);
    241 "utf8mb4_esperanto_ci" Utf8mb4 false 8 true tailored(Language::Esperanto);
    230 "utf8mb4_estonian_ci" Utf8mb4 false 8 true tailored(Language::Estonian);
    262 "utf8mb4_et_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Estonian900, 1);
    285 "utf8mb4_et_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Estonian900, 3);
    45 "utf8mb4_general_ci" Utf8mb4 false 1 true simple(Simple::GeneralCi);
    244 "utf8mb4_german2_ci" Utf8mb4 false 8 true tailored(Language::German2);
    320 "utf8mb4_gl_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Galician900, 1);
    321 "utf8mb4_gl_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Galician900, 3);
    275 "utf8mb4_hr_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Croatian900, 1);
    298 "utf8mb4_hr_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Croatian900, 3);
    274 "utf8mb4_hu_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Hungarian900, 1);
    297 "utf8mb4_hu_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Hungarian900, 3);
    242 "utf8mb4_hungarian_ci" Utf8mb4 false 8 true tailored(Language::Hungarian);
    225 "utf8mb4_icelandic_ci" Utf8mb4 false 8 true tailored(Language::Icelandic);
    257 "utf8mb4_is_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Icelandic900, 1);
    280 "utf8mb4_is_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Icelandic900, 3);
    303 "utf8mb4_ja_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Japanese900, 3);
    304 "utf8mb4_ja_0900_as_cs_ks" Utf8mb4 false 24 false letters(Alphabet::Japanese900, 4);
    271 "utf8mb4_la_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Latin900, 1);
    294 "utf8mb4_la_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Latin900, 3);
    226 "utf8mb4_latvian_ci" Utf8mb4 false 8 true tailored(Language::Latvian);
    236 "utf8mb4_lithuanian_ci" Utf8mb4 false 8 true letters(Alphabet::Lithuanian, 1);
    268 "utf8mb4_lt_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Lithuanian900, 1);
    291 "utf8mb4_lt_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Lithuanian900, 3);
    258 "utf8mb4_lv_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Latvian900, 1);
    281 "utf8mb4_lv_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Latvian900, 3);
    322 "utf8mb4_mn_cyrl_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Mongolian900, 1);
    323 "utf8mb4_mn_cyrl_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Mongolian900, 3);
    310 "utf8mb4_nb_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Bokmal900, 1);
    311 "utf8mb4_nb_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Bokmal900, 3);
    312 "utf8mb4_nn_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Nynorsk900, 1);
    313 "utf8mb4_nn_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Nynorsk900, 3);
    240 "utf8mb4_persian_ci" Utf8mb4 false 8 true tailored(Language::Persian);
    261 "utf8mb4_pl_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Polish900, 1);
    284 "utf8mb4_pl_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Polish900, 3);
    229 "utf8mb4_polish_ci" Utf8mb4 false 8 true tailored(Language::Polish);
    259 "utf8mb4_ro_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Romanian900, 1);
    282 "utf8mb4_ro_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Romanian900, 3);
    239 "utf8mb4_roman_ci" Utf8mb4 false 8 true tailored(Language::Roman);
    227 "utf8mb4_romanian_ci" Utf8mb4 false 8 true tailored(Language::Romanian);
    306 "utf8mb4_ru_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Russian900, 1);
    307 "utf8mb4_ru_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Russian900, 3);
    243 "utf8mb4_sinhala_ci" Utf8mb4 false 8 true tailored(Language::Sinhala);
    269 "utf8mb4_sk_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Slovak900, 1);
    292 "utf8mb4_sk_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Slovak900, 3);
    260 "utf8mb4_sl_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Slovenian900, 1);
    283 "utf8mb4_sl_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Slovenian900, 3);
    237 "utf8mb4_slovak_ci" Utf8mb4 false 8 true letters(Alphabet::Slovak, 1);
    228 "utf8mb4_slovenian_ci" Utf8mb4 false 8 true tailored(Language::Slovenian);
    238 "utf8mb4_spanish2_ci" Utf8mb4 false 8 true letters(Alphabet::Spanish2, 1);
    231 "utf8mb4_spanish_ci" Utf8mb4 false 8 true tailored(Language::Spanish);
    314 "utf8mb4_sr_latn_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Serbian900, 1);
    315 "utf8mb4_sr_latn_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Serbian900, 3);
    264 "utf8mb4_sv_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Swedish900, 1);
    287 "utf8mb4_sv_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Swedish900, 3);
    232 "utf8mb4_swedish_ci" Utf8mb4 false 8 true tailored(Language::Swedish);
    265 "utf8mb4_tr_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Turkish900, 1);
    288 "utf8mb4_tr_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Turkish900, 3);
    233 "utf8mb4_turkish_ci" Utf8mb4 false 8 true tailored(Language::Turkish);
    246 "utf8mb4_unicode_520_ci" Utf8mb4 false 8 true Family::OldUca(OldUca::V520);
    224 "utf8mb4_unicode_ci" Utf8mb4 false 8 true Family::OldUca(OldUca::V400);
    277 "utf8mb4_vi_0900_ai_ci" Utf8mb4 false 0 false letters(Alphabet::Vietnamese900, 1);
    300 "utf8mb4_vi_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Vietnamese900, 3);
    247 "utf8mb4_vietnamese_ci" Utf8mb4 false 8 true tailored(Language::Vietnamese);
    308 "utf8mb4_zh_0900_as_cs" Utf8mb4 false 0 false letters(Alphabet::Chinese900, 3);
}
