//! Functions of values of hundreds of kilobytes: what MySQL answers, and that a killed statement ends within them.

use esker_types::cast;

use super::compute;
use super::parse::parse;
use super::session::{Facts, with_facts};

/// Bytes of the values below.
const BYTES: usize = 5 * 100_001;
/// A function asks at least once for so many bytes whether its statement may go on.
const BYTES_PER_LOOK: usize = 64 * 1024;

/// As MySQL 9.7 answers.
const ANSWERS: &[(&str, &str)] = &[
    ("crc32(repeat('aäb\\'c',100001))", "2862741249"),
    (
        "sha2(repeat('aäb\\'c',100001),224)",
        "57c8e55b8cb82de14f1e9e8c9cdd65fd9a78d2bda607ccbd291336b3",
    ),
    (
        "sha2(repeat('aäb\\'c',100001),384)",
        "5c304d1547fdaf42e6e6d20d4e3a52a86a12d18ddb169892afb140b064e47f540bada19e22f27f6cacf1794fc3c3e3ee",
    ),
    (
        "sha2(repeat('aäb\\'c',100001),512)",
        "0e39bf5eb13eea822613c2ee431f7d5de0f1b6dc7b3087b394e9b2f9ed6fda9e7b2bd248aa5c906839549b54f8eeae6639d379f9ba3dcec41de626d52c8b396f",
    ),
    (
        "sha2(upper(repeat('aäb\\'c',100001)),256)",
        "f41ff36d3e046dda154e4f4d98cb348c6d53e33646cefcfce95f0a275f87e69c",
    ),
    (
        "sha2(lower(repeat('AÄB\\'C',100001)),256)",
        "c50c5feaf639ca89fda36e8c11fe0ecc0e2bf1fd31c8d0963980643591390c96",
    ),
    (
        "sha2(reverse(repeat('aäb\\'c',100001)),256)",
        "6c98fe7ec2837488c0d18703a2dfd831aa6e60a9f73ac6c408dd7391323bb9b5",
    ),
    (
        "sha2(quote(repeat('aäb\\'c',100001)),256)",
        "183c27c2f9745ad35ac536c52631805d28e609f1198c043d5dc0288187ded41f",
    ),
    (
        "sha2(hex(repeat('aäb\\'c',100001)),256)",
        "698beef9ba60f16373ae5a301843be4d54c83b55dfc18b95ff30e67ac633ba2c",
    ),
    (
        "sha2(soundex(repeat('aäb\\'c',100001)),256)",
        "d5795a1c052b92f5c5a26289c24c92b420f28cf63d12f94ba115b485beece01e",
    ),
    (
        "sha2(unhex(repeat('616263aFf',100001)),256)",
        "381563d865fa6dbf2e89faf00a37e04da8bf44c3f9a25e04d6ec2f815d246de9",
    ),
    (
        "sha2(to_base64(repeat('aäb\\'c',100001)),256)",
        "599b7d35cbf7e387f191642c87d093b3d3ecc4c31f852a5bf5b96f76b78c6b8e",
    ),
    (
        "sha2(from_base64(to_base64(repeat('aäb\\'c',100001))),256)",
        "c50c5feaf639ca89fda36e8c11fe0ecc0e2bf1fd31c8d0963980643591390c96",
    ),
    (
        "sha2(aes_encrypt(repeat('aäb\\'c',100001),'k'),256)",
        "7ba37eaef260314524b12ab69bc0bf3ddc5bacde37a14cc1b4ade9316d312d9d",
    ),
    (
        "sha2(aes_decrypt(aes_encrypt(repeat('aäb\\'c',100001),'k'),'k'),256)",
        "c50c5feaf639ca89fda36e8c11fe0ecc0e2bf1fd31c8d0963980643591390c96",
    ),
    (
        "sha2(uncompress(compress(repeat('aäb\\'c',100001))),256)",
        "c50c5feaf639ca89fda36e8c11fe0ecc0e2bf1fd31c8d0963980643591390c96",
    ),
    (
        "sha2(repeat('aäb\\'c',100001),256)",
        "c50c5feaf639ca89fda36e8c11fe0ecc0e2bf1fd31c8d0963980643591390c96",
    ),
    (
        "sha2(trim(leading 'ab' from repeat('ab',100001)),256)",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
];

/// What is computed of a large value, and how often it was asked whether to go on.
fn answer(expression: &str, facts: &Facts) -> Result<Vec<u8>, u16> {
    with_facts(facts, |ctx| {
        let done = parse(expression).and_then(|parsed| compute(ctx, &parsed));
        let done = done.map_err(|e| e.code)?;
        let mut text = Vec::new();
        cast::write_text(done.value.as_ref(), &done.ty, &mut text);
        Ok(text)
    })
}

#[test]
fn large_values_are_what_mysql_makes_of_them() {
    for (expression, wanted) in ANSWERS {
        let found = answer(expression, &Facts::default());
        assert_eq!(found.as_deref(), Ok(wanted.as_bytes()), "{expression}");
    }
}

/// Functions that take time in proportion to a value, and what makes the value.
#[test]
fn a_killed_statement_ends_within_a_large_value() {
    let text = "repeat('aäb\\'c',100001)";
    let made = |function: &str| function.replace("TEXT", text);
    for (function, value) in [
        ("md5(TEXT)", "TEXT"),
        ("sha1(TEXT)", "TEXT"),
        ("sha2(TEXT,224)", "TEXT"),
        ("sha2(TEXT,256)", "TEXT"),
        ("sha2(TEXT,384)", "TEXT"),
        ("sha2(TEXT,512)", "TEXT"),
        ("crc32(TEXT)", "TEXT"),
        ("upper(TEXT)", "TEXT"),
        ("lower(TEXT)", "TEXT"),
        ("reverse(TEXT)", "TEXT"),
        ("quote(TEXT)", "TEXT"),
        ("soundex(TEXT)", "TEXT"),
        ("hex(TEXT)", "TEXT"),
        ("unhex(hex(TEXT))", "hex(TEXT)"),
        ("to_base64(TEXT)", "TEXT"),
        ("from_base64(to_base64(TEXT))", "to_base64(TEXT)"),
        ("compress(TEXT)", "TEXT"),
        ("uncompress(compress(TEXT))", "compress(TEXT)"),
        ("aes_encrypt(TEXT,'k')", "TEXT"),
        (
            "aes_decrypt(aes_encrypt(TEXT,'k'),'k')",
            "aes_encrypt(TEXT,'k')",
        ),
        ("replace(TEXT,'a','b')", "TEXT"),
        (
            "json_merge_preserve('[]',concat('[',repeat('1,',50000),'1]'))",
            "concat('[',repeat('1,',50000),'1]')",
        ),
        (
            "trim(leading 'a' from repeat('a',500005))",
            "repeat('a',500005)",
        ),
    ] {
        let (function, value) = (made(function), made(value));
        let (before, all) = (Facts::default(), Facts::default());
        assert!(answer(&value, &before).is_ok(), "{value}");
        assert!(answer(&function, &all).is_ok(), "{function}");
        let own = all.looks() - before.looks();
        assert!(own >= BYTES / BYTES_PER_LOOK, "{function}: {own} looks");
        let killed = Facts::killed_at(before.looks() + own / 2 + 1);
        assert_eq!(answer(&function, &killed), Err(1317), "{function}");
        assert_eq!(killed.looks(), before.looks() + own / 2 + 1, "{function}");
    }
}
