//! GTID sets against a plain set of numbers, and against what MySQL prints.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Gtid, GtidSet, IntervalSet, Sid, Source, Tag};

const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

fn set(text: &str) -> GtidSet {
    text.parse().expect("a set")
}

fn numbers(set: &IntervalSet) -> BTreeSet<u64> {
    let each = set.intervals().iter().flat_map(|&(start, end)| start..end);
    each.collect()
}

#[test]
fn text_is_normalised() {
    let written = format!(
        " {}:5-1:9 :7-8:Foo:2:1,\n,{A}:10",
        A.to_uppercase().replace('-', "")
    );
    assert_eq!(set(&written).to_string(), format!("{A}:7-10:foo:1-2"));
    let two = "00000000-0000-0000-0000-000000000001:1,3e11fa47-71ca-11e1-9e33-c80aa9429562:2";
    assert_eq!(set(two).to_string(), two.replace(',', ",\n"));
    assert!(set("").is_empty() && set(A).is_empty());
}

#[test]
fn malformed_text_is_refused() {
    for text in [
        "x",
        "3e11fa47",
        &format!("{A}:0"),
        &format!("{A}::1"),
        &format!("{A}:1-"),
        &format!("{A}:9223372036854775807"),
        &format!("{A}:+1"),
        &format!("{A}:a-b:1"),
        &format!("{A}:{}:1", "t".repeat(33)),
    ] {
        assert!(text.parse::<GtidSet>().is_err(), "{text}");
    }
    for text in [
        A,
        &format!("{A}:1-2"),
        &format!("{A}:1:2"),
        &format!("{A}:a:b:1"),
        &format!("{A}:08"),
        &format!("{A}:-0"),
        &format!("{A}:+ 1"),
        &format!("{A}:0x"),
        &format!("{A}:0x8000000000000000"),
        &format!("{{{A}}}:1"),
        &format!("{}:1", A.replace('-', "")),
    ] {
        assert!(text.parse::<Gtid>().is_err(), "{text}");
    }
}

/// What MySQL 9.7 makes of `gtid_next`.
#[test]
fn the_number_of_one_transaction_is_read_as_c_does() {
    for (text, gno) in [
        (":010", 8),
        (":0x1f", 31),
        (":+1", 1),
        (":tag: 0X10 ", 16),
        (":9223372036854775806", 9_223_372_036_854_775_806),
    ] {
        let gtid: Gtid = format!(" {A} {text}").parse().expect(text);
        assert_eq!(gtid.gno, gno, "{text}");
    }
}

/// What MySQL 9.7 says.
#[test]
fn errors_say_what_is_wrong_and_where() {
    let say = |text: &str| text.parse::<GtidSet>().expect_err(text).to_string();
    let after =
        |n: usize, text: &str| format!("after {n} characters, marked by [HERE] in: \"{text}\"");
    for (text, what) in [
        (
            "xx".to_owned(),
            "Expected hex digit at the beginning of the string: \"xx\"".to_owned(),
        ),
        (
            "x".into(),
            "Expected at least two hex digits at the beginning of the string: \"x\"".into(),
        ),
        (
            "3e11fa47x".into(),
            format!(
                "Expected at least two hex digits {}",
                after(8, "3e11fa47[HERE]x")
            ),
        ),
        (
            format!("{A}:1-5x"),
            format!("Expected \",\" {}", after(40, "...9429562:1-5[HERE]x")),
        ),
        (
            format!("{A}:"),
            format!("Expected number {}", after(37, "...0aa9429562:[HERE]")),
        ),
        (
            format!("{A}:0-3"),
            format!(
                "Interval start out of range {}",
                after(37, "...0aa9429562:[HERE]0-3")
            ),
        ),
        (
            format!("{A}:1-9223372036854775807  "),
            format!(
                "Interval end out of range {}",
                after(60, "...854775807  [HERE]")
            ),
        ),
        (
            format!("{A}:99999999999999999999"),
            format!(
                "Number out of range {}",
                after(37, "...0aa9429562:[HERE]99999999999999999999")
            ),
        ),
        (
            format!("{A}:ta-g:1"),
            format!("Expected \",\" {}", after(39, "...a9429562:ta[HERE]-g:1")),
        ),
        (
            format!("{A}:{}:1", "t".repeat(33)),
            format!(
                "Expected number {}",
                after(37, "...0aa9429562:[HERE]ttttttttttttttttttttttttt...")
            ),
        ),
        (
            "3e11fa47-71ca11e1-9e33-c80aa9429562:1".into(),
            format!(
                "Expected \"-\" {}",
                after(13, "3e11fa47-71ca[HERE]11e1-9e33-c80aa9429562:1")
            ),
        ),
        (
            format!("{{{A}"),
            format!("Expected \"}}\" {}", after(37, "...80aa9429562[HERE]")),
        ),
        (
            "z\t\\'\"\u{1}é".into(),
            r#"Expected hex digit at the beginning of the string: "z\t\\'\"\x01\xc3\xa9""#.into(),
        ),
        (
            format!("{}zzz", &A.replace('-', "")[..14]),
            format!(
                "Expected hex digit {}",
                after(14, "3e11fa4771ca11[HERE]zzz")
            ),
        ),
        (
            "z".repeat(29),
            format!(
                "Expected hex digit at the beginning of the string: \"{}...\"",
                "z".repeat(25)
            ),
        ),
    ] {
        assert_eq!(say(&text), what, "{text}");
    }
}

#[test]
fn one_transaction_with_and_without_tag() {
    let plain: Gtid = format!("{A}:7").parse().expect("plain");
    assert_eq!((plain.gno, plain.to_string()), (7, format!("{A}:7")));
    let tagged: Gtid = format!("{A}:Abc:7").parse().expect("tagged");
    assert_eq!(tagged.source.tag, Tag::new("abc").expect("tag"));
    assert!(!set(&format!("{A}:1-9")).contains(&tagged));
    assert!(set(&format!("{A}:1-9")).contains(&plain));
}

#[test]
fn free_numbers_fill_gaps_from_a_place() {
    let source = Source::untagged(A.parse::<Sid>().expect("uuid"));
    let taken = set(&format!("{A}:1-3:5"));
    let free = |from| taken.first_free(&source, from);
    assert_eq!(
        [free(0), free(1), free(4), free(5), free(9)],
        [Some(4), Some(4), Some(4), Some(6), Some(9)]
    );
}

/// What MySQL 9.7 wrote into a PREVIOUS_GTIDS event: two servers, one of them with a tag, too.
#[test]
fn binary_form_with_tags_is_mysqls() {
    let hex = "01030000000000011dad88c3e8d811f1b55102fc00000001000100000000000000010000000000000052000000000000001dad88c3e8d811f1b55102fc00000002000100000000000000050000000000000006000000000000001dad88c3e8d811f1b55102fc000000020874616767010000000000000005000000000000000600000000000000";
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
        .collect();
    let read = GtidSet::decode(&bytes).expect("readable");
    let text =
        "1dad88c3-e8d8-11f1-b551-02fc00000001:1-81,\n1dad88c3-e8d8-11f1-b551-02fc00000002:5:tagg:5";
    assert_eq!(read.to_string(), text);
    let mut out = Vec::new();
    read.encode(&mut out);
    assert_eq!(out, bytes);
}

fn any_set() -> impl Strategy<Value = GtidSet> {
    let range = (0..3u8, prop::option::of("[a-c]"), 1..60u64, 1..9u64);
    prop::collection::vec(range, 0..12).prop_map(|ranges| {
        let mut set = GtidSet::default();
        for (server, tag, start, len) in ranges {
            let tag = Tag::new(tag.as_deref().unwrap_or("")).expect("a tag");
            let sid = Sid([server; 16]);
            set.add_range(&Source { sid, tag }, start, start + len);
        }
        set
    })
}

fn flat(set: &GtidSet) -> BTreeSet<(Source, u64)> {
    let each = set.sources().flat_map(|(source, own)| {
        numbers(own)
            .into_iter()
            .map(|n| (source.clone(), n))
            .collect::<Vec<_>>()
    });
    each.collect()
}

proptest! {
    #[test]
    fn algebra_is_that_of_sets(a in any_set(), b in any_set()) {
        let (x, y) = (flat(&a), flat(&b));
        let mut union = a.clone();
        union.union(&b);
        prop_assert_eq!(flat(&union), &x | &y);
        let mut rest = a.clone();
        rest.subtract(&b);
        prop_assert_eq!(flat(&rest), &x - &y);
        prop_assert_eq!(a.contains_all(&b), y.is_subset(&x));
        prop_assert_eq!(a.intersects(&b), !x.is_disjoint(&y));
        prop_assert_eq!(a.count(), x.len() as u64);
        for (source, gno) in &y {
            let gtid = Gtid { source: source.clone(), gno: *gno };
            prop_assert_eq!(a.contains(&gtid), x.contains(&(source.clone(), *gno)));
        }
    }

    #[test]
    fn text_and_bytes_read_back(a in any_set()) {
        prop_assert_eq!(&set(&a.to_string()), &a);
        let mut bytes = Vec::new();
        a.encode(&mut bytes);
        prop_assert_eq!(GtidSet::decode(&bytes).expect("readable"), a);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = GtidSet::decode(&bytes);
    }
}

#[test]
fn intervals_may_stand_in_any_order() {
    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    let text = format!("{UUID}:9-12:5:1-3:11-20:4:tag:7:5-6, {UUID}:21:30");
    let set: GtidSet = text.parse().expect("a set");
    assert_eq!(set.to_string(), format!("{UUID}:1-5:9-21:30:tag:5-7"));
    // Backwards, and so many that none of them may move the others.
    let backwards: String = (1..=200_000u64)
        .rev()
        .map(|n| format!(":{}", 2 * n))
        .collect();
    let set: GtidSet = format!("{UUID}{backwards}").parse().expect("a set");
    assert_eq!(set.count(), 200_000);
}
