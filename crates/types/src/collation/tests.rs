//! Properties of all collations, and examples checked against MySQL 9.7 and MariaDB 10.11.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::list::{Alphabet, Family, OldUca, Simple};
use super::{
    Collation, CollationInfo, alphabets, byte_sets, case, gb18030, han, multibyte, simple, weights,
};
use crate::ctx::NoSession;
use crate::testing::Killed;

fn like_in(c: Collation, text: &[u8], pattern: &[u8], escape: Option<char>) -> bool {
    c.like(text, pattern, escape, &NoSession)
        .expect("an answer")
}

fn find_in(c: Collation, text: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    c.find(text, wanted, from, &NoSession).expect("an answer")
}

fn key(c: Collation, s: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    c.sort_key(s, &mut out);
    out
}

fn hex(c: Collation, s: &str) -> String {
    key(c, s.as_bytes())
        .iter()
        .map(|b| format!("{b:02X}"))
        .collect()
}

/// Every collation but those of UCS-2, UTF-16 and UTF-32, which have the tables of utf8mb4.
fn tables() -> impl Iterator<Item = &'static CollationInfo> {
    let all = Collation::all().iter();
    all.filter(|info| info.charset.min_len() == 1)
}

fn named(name: &str) -> Collation {
    Collation::by_name(name).expect("a collation")
}

/// FNV-1a: enough to notice a change.
fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xCBF2_9CE4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01B3)
    })
}

#[test]
fn tables_are_frozen() {
    let sums = [
        weights::UCA900,
        weights::UCA400,
        weights::UCA520,
        simple::GENERAL_CI,
    ]
    .into_iter()
    .chain([
        case::CASE,
        weights::TAILORED,
        alphabets::ALPHABETS,
        gb18030::GB18030,
        han::HAN,
        simple::COLLATIONS8,
        byte_sets::CHARSETS8,
    ])
    .chain(multibyte::MULTIBYTE)
    .map(checksum)
    .collect::<Vec<_>>();
    assert_eq!(
        sums,
        [
            14694316938720666151,
            71612091137001241,
            2351220854433112076,
            17125017943188787286,
            1109826629824516754,
            14589697482978082854,
            17233912959919393669,
            13773918720165461529,
            7770013532663747998,
            17729000063944518318,
            534033970318780558,
            3843346027373421181,
            5905280479742553090,
            9092729637639460193,
            7593524127085039043,
            10711829173512687219,
            6157786623920451943,
            6518196858636804127,
            9689426068483355656,
        ]
    );
}

/// The keys of every character, as one checksum: freezes the algorithm as well as the tables. Languages differ from
/// `unicode_ci` among the first characters.
#[test]
fn keys_are_frozen() {
    let mut sums = Vec::new();
    for info in tables() {
        let (end, step) = match info.family {
            Family::OldUca(OldUca::Tailored(_)) => (0x2000, 1),
            Family::Alphabet(Alphabet::Chinese900 | Alphabet::Japanese900, _) => (0x3_0000, 7),
            Family::Alphabet(..) | Family::Simple(Simple::Byte(..) | Simple::ByteBin(_)) => {
                (0x3000, 1)
            }
            Family::Simple(Simple::Multi(_) | Simple::MultiBin(_)) => (0x1_0000, 7),
            _ => (0x11_0000, 7),
        };
        let mut all = Vec::new();
        for c in (0..end).filter_map(char::from_u32).step_by(step) {
            info.collation
                .sort_key(format!("{c} {c}x ").as_bytes(), &mut all);
        }
        sums.push((info.name, checksum(&all)));
    }
    assert_eq!(
        sums,
        [
            ("armscii8_bin", 1824621649537335687),
            ("armscii8_general_ci", 10293346059142797127),
            ("ascii_bin", 15406161477228775032),
            ("ascii_general_ci", 6975032997110087318),
            ("big5_bin", 9809076322951778695),
            ("big5_chinese_ci", 7065983248995440583),
            ("binary", 3803336345609352051),
            ("cp1250_bin", 6284164688163576229),
            ("cp1250_croatian_ci", 2172167136324760001),
            ("cp1250_general_ci", 3134028372888090841),
            ("cp1250_polish_ci", 18400759267821036425),
            ("cp1251_bin", 38403331645239849),
            ("cp1251_bulgarian_ci", 16859163582817595177),
            ("cp1251_general_ci", 4435141642516745581),
            ("cp1251_general_cs", 18066196403685818685),
            ("cp1251_ukrainian_ci", 17482518218984173365),
            ("cp1256_bin", 12953225624775862559),
            ("cp1256_general_ci", 7159586423393963699),
            ("cp1257_bin", 9932031763135380185),
            ("cp1257_general_ci", 3215473341912580333),
            ("cp1257_lithuanian_ci", 15813649203029433117),
            ("cp850_bin", 16140282927066487777),
            ("cp850_general_ci", 5152629817895297021),
            ("cp852_bin", 16994904055006140023),
            ("cp852_general_ci", 12812426724533611139),
            ("cp866_bin", 17746998212977206723),
            ("cp866_general_ci", 14313239107224020339),
            ("cp932_bin", 5692921504438950107),
            ("cp932_japanese_ci", 17105483130216463771),
            ("dec8_bin", 16518245589289835747),
            ("dec8_swedish_ci", 8861518918321049895),
            ("eucjpms_bin", 1305201765779940019),
            ("eucjpms_japanese_ci", 13598891866703214835),
            ("euckr_bin", 2364571246670536923),
            ("euckr_korean_ci", 11816951860102796507),
            ("gb18030_bin", 11261493845535115908),
            ("gb18030_chinese_ci", 14111865859056058044),
            ("gb18030_unicode_520_ci", 7346671858051468019),
            ("gb2312_bin", 14652793416388997663),
            ("gb2312_chinese_ci", 13738492087905382559),
            ("gbk_bin", 4908199235346188871),
            ("gbk_chinese_ci", 11959255323073110467),
            ("geostd8_bin", 4461202710402820317),
            ("geostd8_general_ci", 3737719652309617885),
            ("greek_bin", 9077803465999760981),
            ("greek_general_ci", 10321518682329878037),
            ("hebrew_bin", 2150978150961474203),
            ("hebrew_general_ci", 11808205903959628919),
            ("hp8_bin", 3057814087786108629),
            ("hp8_english_ci", 13617113849820844589),
            ("keybcs2_bin", 1067929353300462923),
            ("keybcs2_general_ci", 2296534984158106515),
            ("koi8r_bin", 5197654944352576769),
            ("koi8r_general_ci", 7103589291552707737),
            ("koi8u_bin", 13139667321887596609),
            ("koi8u_general_ci", 580269877980745793),
            ("latin1_bin", 10850776498133450017),
            ("latin1_danish_ci", 1033453938711685137),
            ("latin1_general_ci", 16139641954074373641),
            ("latin1_general_cs", 562692261268155593),
            ("latin1_german1_ci", 142202536963926177),
            ("latin1_german2_ci", 7899570527036563577),
            ("latin1_spanish_ci", 1255874177429385105),
            ("latin1_swedish_ci", 7587096258222566505),
            ("latin2_bin", 10571776606917709425),
            ("latin2_croatian_ci", 11173615804568953457),
            ("latin2_general_ci", 3141741977020915885),
            ("latin2_hungarian_ci", 16864282742015910165),
            ("latin5_bin", 11028611391765042163),
            ("latin5_turkish_ci", 3484174146215559259),
            ("latin7_bin", 14906156491721673773),
            ("latin7_estonian_cs", 4651829397937674357),
            ("latin7_general_ci", 4176527413585647875),
            ("latin7_general_cs", 7476672520172470457),
            ("macce_bin", 10172638022861994609),
            ("macce_general_ci", 4859058879687425605),
            ("macroman_bin", 13708216631148221585),
            ("macroman_general_ci", 17255423090732574101),
            ("sjis_bin", 7186149538983649763),
            ("sjis_japanese_ci", 10671326833164015971),
            ("swe7_bin", 5884630249338225815),
            ("swe7_swedish_ci", 10686092158084011383),
            ("tis620_bin", 12659808730798760811),
            ("tis620_thai_ci", 4496966987971211557),
            ("ujis_bin", 7524273147407752887),
            ("ujis_japanese_ci", 398330653459115447),
            ("utf8mb3_bin", 15406161477228775032),
            ("utf8mb3_croatian_ci", 3775580114442452029),
            ("utf8mb3_czech_ci", 4321772721790314345),
            ("utf8mb3_danish_ci", 265893996586024713),
            ("utf8mb3_esperanto_ci", 13517439393454376145),
            ("utf8mb3_estonian_ci", 13289185841907908553),
            ("utf8mb3_general_ci", 3689400308975934748),
            ("utf8mb3_general_mysql500_ci", 3689400308975934748),
            ("utf8mb3_german2_ci", 5543477737736537721),
            ("utf8mb3_hungarian_ci", 5914922219889782121),
            ("utf8mb3_icelandic_ci", 6068134061124228841),
            ("utf8mb3_latvian_ci", 11832077870540630177),
            ("utf8mb3_lithuanian_ci", 2889232323830655321),
            ("utf8mb3_persian_ci", 9922023987118306257),
            ("utf8mb3_polish_ci", 12318794754848080673),
            ("utf8mb3_roman_ci", 17774615520602584593),
            ("utf8mb3_romanian_ci", 3989398613994781369),
            ("utf8mb3_sinhala_ci", 7230222872102250701),
            ("utf8mb3_slovak_ci", 15578881752283997385),
            ("utf8mb3_slovenian_ci", 3659619681673548513),
            ("utf8mb3_spanish2_ci", 4764556353399103945),
            ("utf8mb3_spanish_ci", 11169688297553813465),
            ("utf8mb3_swedish_ci", 11728622755320737257),
            ("utf8mb3_tolower_ci", 2525586470247165880),
            ("utf8mb3_turkish_ci", 9769275365180158357),
            ("utf8mb3_unicode_520_ci", 7346671858051468019),
            ("utf8mb3_unicode_ci", 6754431700695567990),
            ("utf8mb3_vietnamese_ci", 1005174651678823249),
            ("utf8mb4_0900_ai_ci", 10954493990617385058),
            ("utf8mb4_0900_as_ci", 12076075308886339370),
            ("utf8mb4_0900_as_cs", 8707067096994148084),
            ("utf8mb4_0900_bin", 3803336345609352051),
            ("utf8mb4_bg_0900_ai_ci", 4779128227937588233),
            ("utf8mb4_bg_0900_as_cs", 16280666204861347129),
            ("utf8mb4_bin", 15406161477228775032),
            ("utf8mb4_bs_0900_ai_ci", 11188080490371902161),
            ("utf8mb4_bs_0900_as_cs", 11506432530188993201),
            ("utf8mb4_croatian_ci", 3775580114442452029),
            ("utf8mb4_cs_0900_ai_ci", 10847588508716745761),
            ("utf8mb4_cs_0900_as_cs", 7913537197323537305),
            ("utf8mb4_czech_ci", 4321772721790314345),
            ("utf8mb4_da_0900_ai_ci", 8956144505559129181),
            ("utf8mb4_da_0900_as_cs", 7631094432973640609),
            ("utf8mb4_danish_ci", 265893996586024713),
            ("utf8mb4_de_pb_0900_ai_ci", 12601196333635384345),
            ("utf8mb4_de_pb_0900_as_cs", 16239579124385886793),
            ("utf8mb4_eo_0900_ai_ci", 15031792965683712889),
            ("utf8mb4_eo_0900_as_cs", 1725041722162270633),
            ("utf8mb4_es_0900_ai_ci", 17561525153903260513),
            ("utf8mb4_es_0900_as_cs", 2011512211727287481),
            ("utf8mb4_es_trad_0900_ai_ci", 17561525153903260513),
            ("utf8mb4_es_trad_0900_as_cs", 2011512211727287481),
            ("utf8mb4_esperanto_ci", 13517439393454376145),
            ("utf8mb4_estonian_ci", 13289185841907908553),
            ("utf8mb4_et_0900_ai_ci", 13624155124279013369),
            ("utf8mb4_et_0900_as_cs", 2527896082079511289),
            ("utf8mb4_general_ci", 3689400308975934748),
            ("utf8mb4_german2_ci", 5543477737736537721),
            ("utf8mb4_gl_0900_ai_ci", 17561525153903260513),
            ("utf8mb4_gl_0900_as_cs", 2011512211727287481),
            ("utf8mb4_hr_0900_ai_ci", 11188080490371902161),
            ("utf8mb4_hr_0900_as_cs", 11506432530188993201),
            ("utf8mb4_hu_0900_ai_ci", 8215493733741956865),
            ("utf8mb4_hu_0900_as_cs", 1952374823820946673),
            ("utf8mb4_hungarian_ci", 5914922219889782121),
            ("utf8mb4_icelandic_ci", 6068134061124228841),
            ("utf8mb4_is_0900_ai_ci", 5362464449749760173),
            ("utf8mb4_is_0900_as_cs", 16236373267451573221),
            ("utf8mb4_ja_0900_as_cs", 12738331607582652508),
            ("utf8mb4_ja_0900_as_cs_ks", 17088643787758746388),
            ("utf8mb4_la_0900_ai_ci", 12073840683976033813),
            ("utf8mb4_la_0900_as_cs", 12274720873053797777),
            ("utf8mb4_latvian_ci", 11832077870540630177),
            ("utf8mb4_lithuanian_ci", 2889232323830655321),
            ("utf8mb4_lt_0900_ai_ci", 17145389112033664009),
            ("utf8mb4_lt_0900_as_cs", 2464938638990415597),
            ("utf8mb4_lv_0900_ai_ci", 16748031582124392753),
            ("utf8mb4_lv_0900_as_cs", 6797525293794195985),
            ("utf8mb4_mn_cyrl_0900_ai_ci", 4779128227937588233),
            ("utf8mb4_mn_cyrl_0900_as_cs", 16280666204861347129),
            ("utf8mb4_nb_0900_ai_ci", 8956144505559129181),
            ("utf8mb4_nb_0900_as_cs", 7801169103075871093),
            ("utf8mb4_nn_0900_ai_ci", 8956144505559129181),
            ("utf8mb4_nn_0900_as_cs", 7801169103075871093),
            ("utf8mb4_persian_ci", 9922023987118306257),
            ("utf8mb4_pl_0900_ai_ci", 16836807967010543665),
            ("utf8mb4_pl_0900_as_cs", 6877625407280452137),
            ("utf8mb4_polish_ci", 12318794754848080673),
            ("utf8mb4_ro_0900_ai_ci", 16350110955160299945),
            ("utf8mb4_ro_0900_as_cs", 13390025200527104289),
            ("utf8mb4_roman_ci", 17774615520602584593),
            ("utf8mb4_romanian_ci", 3989398613994781369),
            ("utf8mb4_ru_0900_ai_ci", 4779128227937588233),
            ("utf8mb4_ru_0900_as_cs", 16280666204861347129),
            ("utf8mb4_sinhala_ci", 7230222872102250701),
            ("utf8mb4_sk_0900_ai_ci", 13025670552394189337),
            ("utf8mb4_sk_0900_as_cs", 9532171301436720937),
            ("utf8mb4_sl_0900_ai_ci", 1147209708430563833),
            ("utf8mb4_sl_0900_as_cs", 916397169075998497),
            ("utf8mb4_slovak_ci", 15578881752283997385),
            ("utf8mb4_slovenian_ci", 3659619681673548513),
            ("utf8mb4_spanish2_ci", 4764556353399103945),
            ("utf8mb4_spanish_ci", 11169688297553813465),
            ("utf8mb4_sr_latn_0900_ai_ci", 11188080490371902161),
            ("utf8mb4_sr_latn_0900_as_cs", 11506432530188993201),
            ("utf8mb4_sv_0900_ai_ci", 17994155077890414089),
            ("utf8mb4_sv_0900_as_cs", 8103936609075533801),
            ("utf8mb4_swedish_ci", 11728622755320737257),
            ("utf8mb4_tr_0900_ai_ci", 5264728015421975733),
            ("utf8mb4_tr_0900_as_cs", 2651351565081050661),
            ("utf8mb4_turkish_ci", 9769275365180158357),
            ("utf8mb4_unicode_520_ci", 7346671858051468019),
            ("utf8mb4_unicode_ci", 6754431700695567990),
            ("utf8mb4_vi_0900_ai_ci", 13681812647548470193),
            ("utf8mb4_vi_0900_as_cs", 9093302170218210793),
            ("utf8mb4_vietnamese_ci", 1005174651678823249),
            ("utf8mb4_zh_0900_as_cs", 11856057491038241135),
        ]
    );
}

/// What is certain about the keys of texts with a beginning, whatever LIKE finds with it.
#[test]
fn letters_of_several_characters_end_a_certain_prefix() {
    let czech = named("utf8mb4_czech_ci");
    for (prefix, certain) in [
        ("abd", "abd"),
        ("abc", "ab"),
        ("abch", "ab"),
        ("hax", ""),
        ("", ""),
    ] {
        assert_eq!(czech.certain_prefix(prefix.as_bytes()), certain.as_bytes());
    }
    assert_eq!(Collation::UTF8MB4_0900_AI_CI.certain_prefix(b"ch"), b"ch");
    let (mut prefix, mut whole) = (Vec::new(), Vec::new());
    czech.prefix_key(czech.certain_prefix(b"abc"), &mut prefix);
    czech.sort_key(b"abch", &mut whole);
    assert!(whole.starts_with(&prefix));
}

/// What MySQL 9.7 sorts, from the smallest letter on; `=` stands between equal ones.
#[test]
fn languages_have_their_alphabets() {
    let alphabets = [
        (
            Collation::UTF8MB4_ESPERANTO_CI,
            "c ĉ=Ĉ d g ĝ h ĥ j ĵ s ŝ u ŭ v",
        ),
        (Collation::UTF8MB4_SWEDISH_CI, "y=ü z å ä=æ ö=ø"),
        (Collation::UTF8MB4_GERMAN2_CI, "ad ae=ä=Æ af oe=ö ss=ß ue=ü"),
        (Collation::UTF8MB4_SPANISH_CI, "n=N nz ñ=Ñ o"),
        (
            Collation::UTF8MB4_TURKISH_CI,
            "c ç d g ğ h ı=I i=İ j o ö p s ş u ü v",
        ),
        (Collation::UTF8MB3_ESTONIAN_CI, "s š z ž t v w õ ä ö ü x"),
        (Collation::UTF8MB3_LATVIAN_CI, "c č d i y j k ķ l s š z ž"),
        (Collation::UTF8MB3_ROMAN_CI, "i=j k u=v w"),
        (named("utf8mb3_czech_ci"), "c cz č d h hz ch=CH=Ch i"),
        (named("utf8mb4_spanish2_ci"), "c cz ch d l lz ll m n ñ o"),
        (
            named("utf8mb4_hu_0900_ai_ci"),
            "c cz cs ccs d dy dz ddz dzs ddzs e l lz ly s sz=SZ t ty",
        ),
        (
            named("utf8mb4_da_0900_as_cs"),
            "A a B b z Æ æ Ø ø Å AA Aa å aa",
        ),
        (named("utf8mb4_ru_0900_ai_ci"), "а е=ё ж я a z"),
    ];
    for (collation, alphabet) in alphabets {
        let letters: Vec<&str> = alphabet.split(' ').collect();
        let compare = |a: &str, b: &str| collation.compare(a.as_bytes(), b.as_bytes());
        for pair in letters.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|l| l.split('=').next().unwrap());
            assert_eq!(
                compare(a, b),
                Ordering::Less,
                "{} {a} {b}",
                collation.name()
            );
        }
        for equal in letters
            .iter()
            .flat_map(|l| l.split('=').zip(l.split('=').skip(1)))
        {
            assert_eq!(
                compare(equal.0, equal.1),
                Ordering::Equal,
                "{} {equal:?}",
                collation.name()
            );
        }
    }
}

/// Hexadecimal WEIGHT_STRINGs of MySQL 9.7.
#[test]
fn keys_of_0900_are_mysqls() {
    let (ai, asci, ascs) = (
        Collation::UTF8MB4_0900_AI_CI,
        Collation::UTF8MB4_0900_AS_CI,
        Collation::UTF8MB4_0900_AS_CS,
    );
    assert_eq!(hex(ai, "aÄ"), "1C471C47");
    assert_eq!(hex(ascs, "aÄ"), "1C471C47000000200020002B0000000200080002");
    assert_eq!(hex(asci, "aÄ漢"), "1C471C47FB40EF22000000200020002B0020");
    assert_eq!(hex(ai, "漢𝒳"), "FB40EF221EFF");
    assert_eq!(hex(Collation::UTF8MB4_0900_BIN, "漢𝒳"), "E6BCA2F09D92B3");
    // Thai vowels are not reordered: no contractions.
    assert_eq!(hex(ai, "เก"), "2DAD2D73");
    assert_eq!(hex(ascs, "가"), "3BF53C73000000200020000000020002");
    assert_eq!(
        hex(ascs, "か゛が"),
        "3D6004913D60000000200020002000370000000E0002000E0002"
    );
    assert_eq!(hex(ai, "\0\u{7f}a\u{301}"), "1C47");
}

#[test]
fn weights_of_older_collations() {
    assert_eq!(
        Collation::UTF8MB4_UNICODE_CI.compare("ß".as_bytes(), b"ss"),
        Ordering::Equal
    );
    assert_eq!(
        Collation::UTF8MB4_GENERAL_CI.compare("ß".as_bytes(), b"s"),
        Ordering::Equal
    );
    assert_eq!(
        Collation::LATIN1_SWEDISH_CI.compare("Ü".as_bytes(), b"y"),
        Ordering::Equal
    );
    assert_eq!(
        Collation::LATIN1_GERMAN1_CI.compare("Ü".as_bytes(), b"u"),
        Ordering::Equal
    );
    assert_eq!(
        Collation::LATIN1_BIN.compare("€".as_bytes(), "é".as_bytes()),
        Ordering::Less
    );
    assert_eq!(
        Collation::LATIN1_BIN.compare("漢".as_bytes(), "ÿ".as_bytes()),
        Ordering::Greater
    );
    assert!(Collation::UTF8MB4_GENERAL_CI.eq("😀".as_bytes(), "😁".as_bytes()));
    assert!(!Collation::UTF8MB4_0900_AI_CI.eq("😀".as_bytes(), "😁".as_bytes()));
    assert!(!Collation::UTF8MB4_UNICODE_520_CI.eq("😀".as_bytes(), "😁".as_bytes()));
}

#[test]
fn trailing_spaces() {
    for info in tables() {
        let c = info.collation;
        let expect = |o: Ordering| if info.pad { o } else { Ordering::Less };
        let light_tab = info.name != "latin7_estonian_cs";
        assert_eq!(
            c.compare(b"a", b"a  "),
            expect(Ordering::Equal),
            "{}",
            info.name
        );
        assert_eq!(
            c.compare(b"a", b"a \x09"),
            expect(if light_tab {
                Ordering::Greater
            } else {
                Ordering::Less
            }),
            "{}",
            info.name
        );
        assert_eq!(c.compare(b"a", b"a  b"), Ordering::Less, "{}", info.name);
        assert_eq!(
            c.compare(b"a \x09", b"a  b"),
            if light_tab {
                Ordering::Less
            } else {
                Ordering::Greater
            },
            "{}",
            info.name
        );
    }
}

#[test]
fn like_as_mysql() {
    let ai = Collation::UTF8MB4_0900_AI_CI;
    let like = |t: &str, p: &str| like_in(ai, t.as_bytes(), p.as_bytes(), Some('\\'));
    assert!(like("é", "E") && like("abc", "A_c") && like("abc", "%") && like("", "%"));
    assert!(!like("ß", "ss") && !like("a\0b", "ab") && !like("", "_") && !like("abc", "ab"));
    assert!(like("a%b", "a\\%b") && !like("axb", "a\\%b") && like("a\\", "a\\"));
    assert!(like("aXbXc", "%x%x%") && like("mississippi", "%iss%ip%i") && !like("ab", "%c%"));
    assert!(like("漢字", "漢_") && like("漢字", "_字") && !like("漢字", "___"));
    assert!(like_in(ai, b"a%b", b"a|%b", Some('|')) && !like_in(ai, b"axb", b"a|%b", Some('|')));
    assert!(like_in(ai, b"a\\b", b"a\\b", None));
    // The escape character may be a wildcard.
    assert!(like_in(ai, b"a%b", b"a%%b", Some('%')) && !like_in(ai, b"axb", b"a%b", Some('%')));
    assert!(like_in(ai, b"ab", b"a_b", Some('_')) && like_in(ai, b"a|", b"a|", Some('|')));
    assert!(like_in(Collation::BINARY, "é".as_bytes(), b"__", None));
    assert!(!like_in(Collation::UTF8MB4_BIN, b"A", b"a", None));
    assert!(
        !like_in(Collation::UTF8MB4_BIN, b"a ", b"a", None),
        "no padding in LIKE"
    );
    assert!(like_in(
        Collation::UTF8MB4_0900_AS_CS,
        "é".as_bytes(),
        "é".as_bytes(),
        None
    ));
    assert!(!like_in(
        Collation::UTF8MB4_0900_AS_CI,
        "é".as_bytes(),
        b"e",
        None
    ));
}

#[test]
fn find_as_mysql() {
    let find = |c: Collation, h: &str, n: &str, from| find_in(c, h.as_bytes(), n.as_bytes(), from);
    let ai = Collation::UTF8MB4_0900_AI_CI;
    assert_eq!(find(ai, "xéx", "E", 0), Some(1));
    assert_eq!(find(ai, "xßx", "ss", 0), Some(1));
    assert_eq!(find(ai, "xßx", "s", 0), None, "half a character");
    assert_eq!(find(ai, "xssx", "ß", 0), Some(1));
    assert_eq!(find(ai, "e\u{301}", "e", 0), Some(0));
    assert_eq!(
        find(Collation::UTF8MB4_0900_AS_CS, "xe\u{301}", "é", 0),
        Some(1)
    );
    assert_eq!(find(Collation::UTF8MB4_0900_AS_CS, "xÉé", "é", 0), Some(2));
    assert_eq!(find(ai, "漢字漢字", "字", 2), Some(3));
    assert_eq!(find(ai, "ab", "", 2), Some(2));
    assert_eq!(find(ai, "ab", "", 3), None);
    assert_eq!(find(ai, "ab", "b", 9), None);
    assert_eq!(find(Collation::BINARY, "é", "\u{29}", 0), None);
    assert_eq!(find_in(Collation::BINARY, b"\xC3\xA9", b"\xA9", 0), Some(1));
    assert_eq!(find(Collation::UTF8MB4_BIN, "aAb", "A", 0), Some(1));
    assert_eq!(find(Collation::UTF8MB4_GENERAL_CI, "aßb", "SB", 0), Some(1));
}

#[test]
fn searching_large_values_can_be_stopped() {
    let text = "ab".repeat(100_000);
    // Nearly found at every place, and nearly at the end.
    let near = format!("{}c", "ab".repeat(5_000));
    let patterns = [
        format!("%{near}%"),
        format!("%{}c", "_".repeat(9_999)),
        format!("{}c", "_".repeat(199_999)),
        "%a%b%c".to_owned(),
        "%c".to_owned(),
    ];
    for collation in [
        Collation::BINARY,
        Collation::UTF8MB4_BIN,
        Collation::UTF8MB4_GENERAL_CI,
        Collation::UTF8MB4_0900_AI_CI,
    ] {
        for questions in [0, 1, 5] {
            for pattern in &patterns {
                let killed = Killed::after(questions);
                let like = collation.like(text.as_bytes(), pattern.as_bytes(), None, &killed);
                assert_eq!(like.map_err(|e| e.code), Err(1317), "{}", collation.name());
            }
            let killed = Killed::after(questions);
            let found = collation.find(text.as_bytes(), near.as_bytes(), 0, &killed);
            match collation.is_bin() {
                // Exact search takes as long as reading the text.
                true => assert_eq!(found.expect("an answer"), None),
                false => assert_eq!(found.map_err(|e| e.code), Err(1317), "{}", collation.name()),
            }
        }
    }
}

/// Strings that meet each other: few letters, spaces, controls, accents, malformed bytes.
fn strings() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "a", "A", "b", " ", " ", "  ", "\t", "\0", "\x7f", "!", "é", "e\u{301}", "ß", "ss", "S", "\u{a0}",
            "漢", "字", "😀", "\u{fdfa}", "가", "\u{200d}", "ÿ", "€", "\u{ffff}", "~", "\u{3000}",
            "abcdefgh", "ABCDEFGH",
        ]).prop_map(|s| s.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..3),
        1 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
    ];
    prop::collection::vec(piece, 0..7).prop_map(|v| v.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn keys_order_as_compare_and_hashes_follow_equality(a in strings(), b in strings()) {
        for info in tables() {
            let c = info.collation;
            let order = c.compare(&a, &b);
            prop_assert_eq!(order, c.compare(&b, &a).reverse(), "{}", info.name);
            prop_assert_eq!(order, key(c, &a).cmp(&key(c, &b)), "{}", info.name);
            prop_assert_eq!(order.is_eq(), c.eq(&a, &b), "{}", info.name);
            if order.is_eq() {
                prop_assert_eq!(c.hash64(&a), c.hash64(&b), "{}", info.name);
            }
        }
    }

    /// LIKE against its definition, character by character with backtracking.
    #[test]
    fn like_is_as_defined(text in "[aAbé漢%_ ]{0,8}", pattern in "[aAbé漢%%_|]{0,6}") {
        fn defined(c: Collation, text: &[char], pattern: &[char]) -> bool {
            let same = |a: char, b: char| {
                let (a, b) = (a.to_string(), b.to_string());
                a == b || (!c.is_bin() && c.eq(a.as_bytes(), b.as_bytes()))
            };
            match (pattern, text) {
                ([], _) => text.is_empty(),
                (['|', p, rest @ ..], [t, more @ ..]) => same(*p, *t) && defined(c, more, rest),
                (['|', _, ..], []) => false,
                (['%', rest @ ..], _) => {
                    (0..=text.len()).any(|skip| defined(c, &text[skip..], rest))
                }
                (['_', rest @ ..], [_, more @ ..]) => defined(c, more, rest),
                ([p, rest @ ..], [t, more @ ..]) => same(*p, *t) && defined(c, more, rest),
                (_, []) => false,
            }
        }
        let (t, p): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
        for info in tables().filter(|i| !i.collation.is_binary()) {
            // A space is a character like any other here, but equal to nothing when padded.
            if info.pad && text.contains(' ') {
                continue;
            }
            let c = info.collation;
            let found = like_in(c, text.as_bytes(), pattern.as_bytes(), Some('|'));
            prop_assert_eq!(found, defined(c, &t, &p), "{}", info.name);
        }
    }

    #[test]
    fn padding_and_substrings(a in strings(), b in strings()) {
        for info in tables() {
            let c = info.collation;
            if info.pad {
                prop_assert!(c.eq(&a, &[&a[..], b"   "].concat()));
            }
            prop_assert!(like_in(c, &a, b"%", None));
            prop_assert_eq!(find_in(c, &a, b"", 0), Some(0));
            like_in(c, &a, &b, Some('\\'));
            c.upper(&a);
            if let (Ok(a), Ok(b)) = (std::str::from_utf8(&a), std::str::from_utf8(&b)) {
                let text = format!("{b}{a}");
                prop_assert!(find_in(c, text.as_bytes(), a.as_bytes(), 0).is_some(), "{}", info.name);
            }
        }
    }
}
