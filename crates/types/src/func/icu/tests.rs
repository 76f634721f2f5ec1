//! Tests of the parent: what it refuses, and what it writes.

use super::{Modes, translate};

fn written(pattern: &str) -> Result<String, u16> {
    let read = translate(pattern, Modes::default(), false);
    read.map(|read| read.text).map_err(|e| e.code)
}

#[test]
fn what_icu_refuses_is_refused() {
    for (pattern, code) in [
        ("a{1", 3692),
        ("a{,2}", 3692),
        ("a{2,1}", 3693),
        ("a{16777216}", 4007),
        ("a**", 3688),
        ("|*", 3688),
        ("(?=a)*", 3688),
        ("}", 3688),
        ("(", 3691),
        ("a)", 3691),
        ("(?#a", 3691),
        (r"(?#\x{110000})a", 3689),
        ("(?i", 3900),
        (r"\", 3689),
        (r"\u12", 3689),
        (r"\x{110000}", 3689),
        (r"\0", 3689),
        (r"(a)\2", 3694),
        (r"\k<n>", 3887),
        ("(?<n_>a)", 3887),
        ("(?<n>a)(?<n>b)", 3887),
        (r"\pL", 3685),
        ("[[:<:]]", 3685),
        ("[a", 3696),
        ("[]", 3696),
        ("[b-a]", 3697),
        ("[a-", 3697),
        (r"[a-\d]", 3688),
        ("[a&&]", 3688),
        ("(?<=a*)b", 3695),
        (r"(a)(?<=\1)b", 3695),
    ] {
        assert_eq!(written(pattern), Err(code), "{pattern}");
    }
    assert_eq!(written(&"(".repeat(300)), Err(3687));
    assert_eq!(written(&"[".repeat(300)), Err(3687));
}

#[test]
fn the_place_of_an_error_is_told() {
    for (pattern, place) in [
        ("a**", "line 1, character 3."),
        ("b\na**", "line 2, character 3."),
        ("(?", "line 1, character 2."),
        ("(?z)", "line 1, character 3."),
    ] {
        let e = translate(pattern, Modes::default(), false).map(|_| ());
        let message = e.expect_err(pattern).message;
        assert!(message.ends_with(place), "{pattern}: {message}");
    }
}

#[test]
fn patterns_are_written_without_doubt() {
    for (pattern, text) in [
        (r"\u0061\x62\x{63}\0144", "abcd"),
        (r"\Qa.b\E*", r"a\x{2e}b*"),
        ("[a-c-e]", r"[a-c\x{2d}e]"),
        ("[[ab]-[a]]", "[[[[ab]]--[a]]]"),
        ("[a&&b]", "[[a]&&[b]]"),
        ("[]a]", r"[\x{5d}a]"),
        ("(?x) a b # c", "ab"),
        ("a++", "(?>a+)"),
        ("(?i)a(?-i:b)", "(?i)a(?-i:b)"),
    ] {
        assert_eq!(written(pattern).as_deref(), Ok(text), "{pattern}");
    }
}
