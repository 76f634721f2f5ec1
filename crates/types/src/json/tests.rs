//! Documents: bytes, texts, paths, order.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;
use crate::ctx::{EvalCtx, EvalSettings, NoSession, SessionInfo, Work};
use crate::decimal::Decimal;
use crate::error::SqlResult;
use crate::sqltype::SqlType;
use crate::temporal::{Date, DateTime, Time};
use crate::testing::Killed;

fn bytes(text: &str) -> Vec<u8> {
    encode(&parse(text.as_bytes(), &NoSession).unwrap()).unwrap()
}

fn shown(doc: &[u8]) -> String {
    let mut out = Vec::new();
    print(JsonRef::new(doc), &mut out);
    String::from_utf8(out).unwrap()
}

fn order(a: &str, b: &str) -> Ordering {
    compare(JsonRef::new(&bytes(a)), JsonRef::new(&bytes(b)))
}

/// What takes long asks again and again whether it may go on.
fn stops(takes_long: impl Fn(&mut Work<'_>) -> SqlResult<()>) {
    for questions in [0, 1, 5] {
        let killed = Killed::after(questions);
        let end = takes_long(&mut Work::new(&killed));
        assert_eq!(end.map_err(|e| e.code), Err(1317));
    }
}

fn merged(merge: fn(Json, Json, &mut Work<'_>) -> SqlResult<Json>, a: &str, b: &str) -> String {
    let tree = |text: &str| parse(text.as_bytes(), &NoSession).unwrap();
    let merged = merge(tree(a), tree(b), &mut Work::new(&NoSession)).unwrap();
    shown(&encode(&merged).unwrap())
}

#[test]
fn merges_go_through_both_objects_once() {
    let (a, b) = (
        "{\"a\":1,\"b\":{\"x\":1},\"cc\":3}",
        "{\"b\":{\"x\":2,\"y\":null},\"cc\":null,\"d\":{\"z\":null}}",
    );
    assert_eq!(
        merged(merge_preserve, a, b),
        "{\"a\": 1, \"b\": {\"x\": [1, 2], \"y\": null}, \"d\": {\"z\": null}, \"cc\": [3, null]}"
    );
    assert_eq!(
        merged(merge_patch, a, b),
        "{\"a\": 1, \"b\": {\"x\": 2}, \"d\": {}}"
    );
    assert_eq!(merged(merge_patch, "[1]", "{\"a\":1}"), "{\"a\": 1}");
    assert_eq!(merged(merge_patch, "{\"a\":1}", "[1]"), "[1]");
}

#[test]
fn many_candidates_are_found_among_elements() {
    let found = |a: &str, b: &str| {
        let (a, b) = (bytes(a), bytes(b));
        let work = &mut Work::new(&NoSession);
        contains(JsonRef::new(&a), JsonRef::new(&b), work).unwrap()
    };
    assert!(found("[1,2,3,\"a\",null,[7,8]]", "[1.0,\"a\",3,null,2]"));
    assert!(found("[1,2,3,4,[7,8]]", "[1,2,3,4,7]"));
    assert!(!found("[1,2,3,4,[7,8]]", "[1,2,3,4,9]"));
    assert!(found("[1,2,3,4,{\"a\":1,\"b\":2}]", "[1,2,3,4,{\"a\":1}]"));
}

#[test]
fn large_documents_can_be_stopped() {
    let array = format!("[{}1]", "2,".repeat(100_000));
    let object = format!("{{{}\"b\":1}}", "\"a\":1,".repeat(100_000));
    for questions in [0, 1, 5] {
        for text in [&array, &object] {
            match parse(text.as_bytes(), &Killed::after(questions)) {
                Err(Fault::Stopped(e)) => assert_eq!(e.code, 1317),
                read => panic!("{:?}", read.map(|_| ())),
            }
        }
    }
    let tree = parse(array.as_bytes(), &NoSession).expect("an array");
    for questions in [0, 1, 5] {
        let killed = Killed::after(questions);
        let encoded = encode_watched(&tree, &mut Work::new(&killed));
        assert_eq!(encoded.map_err(|e| e.code), Err(1317));
    }
    let (many, one) = (bytes(&array), bytes("1"));
    for questions in [0, 1, 5] {
        let killed = Killed::after(questions);
        let found = contains(
            JsonRef::new(&many),
            JsonRef::new(&one),
            &mut Work::new(&killed),
        );
        assert_eq!(found.map_err(|e| e.code), Err(1317));
    }
    stops(|work| overlaps(JsonRef::new(&many), JsonRef::new(&bytes("[]")), work).map(drop));
    stops(|work| overlaps(JsonRef::new(&many), JsonRef::new(&bytes("3")), work).map(drop));
    stops(|work| member_of(JsonRef::new(&bytes("3")), JsonRef::new(&many), work).map(drop));
    stops(|work| contains(JsonRef::new(&many), JsonRef::new(&many), work).map(drop));
    stops(|work| JsonRef::new(&many).to_tree(work).map(drop));
    let members = (0..100_000).map(|n: u32| (n.to_be_bytes().to_vec(), Json::Null));
    let object = Json::Object(members.collect());
    stops(|work| merge_preserve(object.clone(), object.clone(), work).map(drop));
    stops(|work| merge_patch(object.clone(), object.clone(), work).map(drop));
    let found = contains(
        JsonRef::new(&many),
        JsonRef::new(&one),
        &mut Work::new(&NoSession),
    );
    assert_eq!(found, Ok(true));
}

#[test]
fn bytes_are_those_of_mysql() {
    assert_eq!(bytes("null"), [4, 0]);
    assert_eq!(bytes("-2"), [5, 0xfe, 0xff]);
    assert_eq!(bytes("70000"), [7, 0x70, 0x11, 1, 0]);
    assert_eq!(bytes("\"abc\""), [12, 3, b'a', b'b', b'c']);
    let object = [0, 1, 0, 12, 0, 11, 0, 1, 0, 5, 1, 0, b'a'];
    assert_eq!(bytes("{\"a\":1}"), object);
    let array = [2, 2, 0, 14, 0, 4, 1, 0, 7, 10, 0, 0x70, 0x11, 1, 0];
    assert_eq!(bytes("[true,70000]"), array);
    // Sizes that JSON_STORAGE_SIZE gives in MySQL.
    assert_eq!(bytes("{\"a\":1,\"bb\":\"c\"}").len(), 24);
    let decimal = |text: &str| encode(&Json::Array(vec![Json::Decimal(text.parse().unwrap())]));
    assert_eq!(decimal("1.50").unwrap().len(), 14);
    assert_eq!(decimal("0.5").unwrap().len(), 14);
    assert_eq!(decimal("-12345678.5").unwrap().len(), 17);
}

#[test]
fn large_containers_keep_integers_of_32_bits_in_their_entries() {
    let long = "x".repeat(70_000);
    let doc = bytes(&format!("[70000,\"{long}\",{{\"a\":70000}}]"));
    assert_eq!(doc[0], encode::LARGE_ARRAY);
    let inner = "[[3,70000]]";
    assert_eq!(bytes(inner)[0], encode::SMALL_ARRAY);
    let View::Array(items) = JsonRef::new(&doc).view() else {
        panic!("an array");
    };
    assert!(matches!(items.get(0).view(), View::Int(70_000)));
    assert_eq!(items.get(2).to_document()[0], encode::SMALL_OBJECT);
    assert_eq!(shown(&items.get(2).to_document()), "{\"a\": 70000}");
    // Header, three entries, the string with its length, the object.
    assert_eq!(doc.len(), 1 + 8 + 3 * 5 + 3 + 70_000 + 16);
}

#[test]
fn the_last_of_equal_keys_stays_and_keys_are_sorted() {
    let doc = bytes("{\"bb\":1,\"a\":2,\"c\":3,\"a\":[4,5],\"bb\":null}");
    assert_eq!(shown(&doc), "{\"a\": [4, 5], \"c\": 3, \"bb\": null}");
}

#[test]
fn texts_that_are_no_documents() {
    for (text, what, at) in [
        ("", "The document is empty.", 0),
        ("  ", "The document is empty.", 2),
        ("{", "Missing a name for object member.", 1),
        ("{\"a\":1,}", "Missing a name for object member.", 7),
        (
            "{\"a\" 1}",
            "Missing a colon after a name of object member.",
            5,
        ),
        (
            "{\"a\":1 2}",
            "Missing a comma or '}' after an object member.",
            7,
        ),
        ("[1 2]", "Missing a comma or ']' after an array element.", 3),
        ("[1,]", "Invalid value.", 3),
        ("tru", "Invalid value.", 3),
        ("-", "Invalid value.", 1),
        ("1.", "Miss fraction part in number.", 2),
        ("1e", "Miss exponent in number.", 2),
        ("1e400", "Number too big to be stored in double.", 0),
        (
            "01",
            "The document root must not be followed by other values.",
            1,
        ),
        (
            "1 2",
            "The document root must not be followed by other values.",
            2,
        ),
        ("\"abc", "Missing a closing quotation mark in string.", 4),
        ("\"a\\qb\"", "Invalid escape character in string.", 2),
        (
            "\"a\\u12\"",
            "Incorrect hex digit after \\u escape in string.",
            2,
        ),
        (
            "\"a\\ud800\"",
            "The surrogate pair in string is invalid.",
            2,
        ),
        ("\"a\nb\"", "Invalid encoding in string.", 2),
        ("{\"é\":}", "Invalid value.", 6),
    ] {
        assert_eq!(
            parse(text.as_bytes(), &NoSession),
            Err(Fault::Syntax(what, at)),
            "{text}"
        );
    }
    assert!(parse(b"\"\xff\"", &NoSession).is_err());
}

#[test]
fn nesting_ends_at_a_hundred() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let doc = bytes(&nested(MAX_DEPTH));
    assert_eq!(depth(JsonRef::new(&doc)), MAX_DEPTH);
    assert_eq!(
        parse(nested(MAX_DEPTH + 1).as_bytes(), &NoSession),
        Err(Fault::TooDeep)
    );
    let deeper = Json::Array(vec![
        parse(nested(MAX_DEPTH).as_bytes(), &NoSession).unwrap(),
    ]);
    assert_eq!(encode(&deeper).unwrap_err().code, 3157);
    let open = "[".repeat(1_000_000);
    assert_eq!(parse(open.as_bytes(), &NoSession), Err(Fault::TooDeep));
}

#[test]
fn a_key_has_a_length_of_16_bits() {
    let key = vec![b'k'; MAX_KEY];
    let doc = encode(&object(vec![(key.clone(), Json::Null)])).unwrap();
    assert!(matches!(JsonRef::new(&doc).view(), View::Object(m) if m.find(&key).is_some()));
    let long = object(vec![(vec![b'k'; MAX_KEY + 1], Json::Null)]);
    assert_eq!(encode(&long).unwrap_err().code, 3151);
}

#[test]
fn paths_that_are_none() {
    for (path, at) in [
        ("", 0),
        ("a", 1),
        ("$$", 1),
        ("$.", 2),
        ("$[", 2),
        ("$[a]", 2),
        ("$[-1]", 2),
        ("$**", 3),
        ("$.a b", 4),
        ("$.1a", 4),
        ("$.a.", 4),
        ("$.\"a", 4),
        ("$.a-b", 5),
        ("$.a**", 5),
        ("$.a***.b", 5),
        ("$[1 to]", 5),
        ("$[1to2]", 4),
        ("$[last-]", 7),
        ("$[last+1]", 7),
        ("$.\"a\\u\"", 7),
        ("$[3 to 1]", 8),
        ("$[last to last-1]", 16),
        ("$[4294967296]", 2),
    ] {
        let error = parse_path(path.as_bytes()).unwrap_err();
        let end = format!("character position {at}.");
        assert!(
            error.code == 3143 && error.message.ends_with(&end),
            "{path}: {error}"
        );
    }
    for path in [
        " $ . a ",
        "$.é",
        "$.a$",
        "$ [ 1  to last - 2 ] [ * ] . * ** . a",
        "$. \"a b\"",
        "$.a_b$c1",
    ] {
        parse_path(path.as_bytes()).unwrap();
    }
}

fn found(doc: &str, path: &str) -> String {
    let doc = bytes(doc);
    let path = parse_path(path.as_bytes()).unwrap();
    let work = &mut Work::new(&NoSession);
    let found = seek(JsonRef::new(&doc), &path, work).unwrap();
    assert_eq!(
        exists(JsonRef::new(&doc), &path, work).unwrap(),
        !found.is_empty()
    );
    let texts: Vec<_> = found.iter().map(|v| shown(&v.to_document())).collect();
    texts.join(" ")
}

#[test]
fn paths_with_many_descents_end() {
    let doc = bytes(&format!("{}1{}", "[".repeat(60), "]".repeat(60)));
    let path = |descents: usize| parse_path(format!("${}.x", "**[0]".repeat(descents)).as_bytes());
    let found = seek(
        JsonRef::new(&doc),
        &path(400).unwrap(),
        &mut Work::new(&NoSession),
    );
    assert!(found.unwrap().is_empty());
    for questions in [0, 1, 5] {
        let killed = Killed::after(questions);
        let found = seek(
            JsonRef::new(&doc),
            &path(400).unwrap(),
            &mut Work::new(&killed),
        );
        assert_eq!(
            found.map(|found| found.len()).map_err(|e| e.code),
            Err(1317)
        );
    }
    assert_eq!(path(600).unwrap_err().code, 3143);
}

#[test]
fn rows_of_a_document_are_killed_among_their_columns() {
    let path = |text: &str| std::sync::Arc::new((*parse_path(text.as_bytes()).unwrap()).clone());
    let column = |slot| table::Column {
        slot,
        kind: table::ColumnKind::Exists {
            path: path("$.a"),
            ty: SqlType::bigint(false),
        },
    };
    let level = table::Level {
        path: path("$[*]"),
        columns: (0..8).map(column).collect(),
        nested: Vec::new(),
    };
    let doc = bytes(&format!("[{}1]", "2,".repeat(1_999)));
    let rows = |session: &dyn SessionInfo| {
        let ctx = EvalCtx::new(EvalSettings::default(), session);
        let rows = level.rows(&ctx, JsonRef::new(&doc), 8);
        rows.map(|rows| rows.len()).map_err(|e| e.code)
    };
    assert_eq!(rows(&NoSession), Ok(2_000));
    // Finding the rows alone asks twice.
    assert_eq!(rows(&Killed::after(10)), Err(1317));
}

#[test]
fn references_that_multiply_are_killed() {
    let definition = |n: usize| format!("\"a{n}\":{{\"allOf\":[{0},{0}]}}", refers(n + 1));
    fn refers(n: usize) -> String {
        format!("{{\"$ref\":\"#/definitions/a{n}\"}}")
    }
    let definitions: Vec<_> = (0..40).map(definition).collect();
    let schema = format!(
        "{{\"definitions\":{{{}}},\"allOf\":[{}]}}",
        definitions.join(","),
        refers(0)
    );
    let (schema, doc) = (bytes(&schema), bytes("1"));
    let killed = Killed::after(20);
    let found = schema::validate(
        JsonRef::new(&schema),
        JsonRef::new(&doc),
        Work::new(&killed),
    );
    assert_eq!(found.map_err(|e| e.code), Err(1317));
}

#[test]
fn bytes_of_others_are_documents_or_not() {
    let nested = |depth: usize| bytes(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth)));
    assert!(is_sound(&nested(100)) && is_sound(&bytes("{\"a\":[1,\"b\",null]}")) && is_sound(&[]));
    // One more around it: its only element begins behind the header and the entry.
    let mut deep = nested(100);
    let small_array = deep[0];
    let len = deep.len() as u16 - 1 + 7;
    let header = [
        &[small_array, 1, 0][..],
        &len.to_le_bytes(),
        &[small_array, 7, 0],
    ]
    .concat();
    deep.splice(0..1, header);
    assert!(!is_sound(&deep));
    // Sixteen levels of two elements each that are the same one: 65,536 values in a hundred bytes.
    let mut shared = bytes("[]");
    for _ in 0..16 {
        let len = shared.len() as u16 - 1 + 10;
        let entry = [small_array, 10, 0];
        let header = [&[small_array, 2, 0][..], &len.to_le_bytes(), &entry, &entry].concat();
        shared.splice(0..1, header);
    }
    assert!(!is_sound(&shared));
}

#[test]
fn paths_find_values() {
    assert_eq!(found("[1,[2,[3]]]", "$**[0]"), "1 2 3");
    assert_eq!(found("{\"a\":{\"a\":1}}", "$**.a"), "{\"a\": 1} 1");
    assert_eq!(found("[1,2,3,4]", "$[last-1 to last]"), "3 4");
    assert_eq!(found("[1,2,3,4]", "$[1 to 9]"), "2 3 4");
    assert_eq!(found("[1,2]", "$[5]"), "");
    assert_eq!(found("1", "$[0]"), "1");
    assert_eq!(found("1", "$[last-1]"), "");
    assert_eq!(found("1", "$[0 to 3]"), "1");
    assert_eq!(found("1", "$[*]"), "");
    assert_eq!(found("{\"a\":1,\"b\":[2,3]}", "$.*"), "1 [2, 3]");
    assert_eq!(found("{\"a\":1}", "$[last].a"), "1");
}

fn key(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    sort_key(JsonRef::new(&bytes(text)), &mut out);
    out
}

#[test]
fn values_have_an_order_by_type() {
    let sorted = [
        "null",
        "-1e300",
        "-20",
        "-3",
        "-1",
        "0",
        "1e-300",
        "0.5",
        "1.5",
        "2",
        "10",
        "1e30",
        "\"a\"",
        "\"b\"",
        "{}",
        "{\"b\":1}",
        "{\"a\":1,\"b\":2}",
        "[]",
        "[1]",
        "[1,2]",
        "[2]",
        "false",
        "true",
    ];
    for (i, a) in sorted.iter().enumerate() {
        for (j, b) in sorted.iter().enumerate() {
            assert_eq!(order(a, b), i.cmp(&j), "{a} {b}");
            assert_eq!(key(a).cmp(&key(b)), i.cmp(&j), "{a} {b}");
        }
    }
    assert_eq!(order("1", "1.0"), Ordering::Equal);
    assert_eq!(
        order("9007199254740993", "9007199254740992.0"),
        Ordering::Greater
    );
    assert_eq!(order("18446744073709551615", "1e300"), Ordering::Less);
    let hash = |text: &str| hash64(JsonRef::new(&bytes(text)));
    assert_eq!(hash("[1,0.0]"), hash("[1.0,0]"));
    assert_ne!(hash("[1,2]"), hash("[2,1]"));
}

#[test]
fn a_schema_is_fulfilled_or_not() {
    let fails = |schema: &str, doc: &str| {
        let (schema, doc) = (bytes(schema), bytes(doc));
        schema::validate(
            JsonRef::new(&schema),
            JsonRef::new(&doc),
            Work::new(&NoSession),
        )
        .unwrap()
        .map(|f| format!("{} {} {}", f.keyword, f.schema, f.document))
    };
    assert_eq!(fails("{\"multipleOf\":0.01}", "19.99"), None);
    assert!(fails("{\"multipleOf\":0.01}", "19.995").is_some());
    let person = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\",\"maximum\":5}},\"required\":[\"a\"]}";
    assert_eq!(fails(person, "{\"a\":1}"), None);
    assert_eq!(
        fails(person, "{\"a\":7}").unwrap(),
        "maximum #/properties/a #/a"
    );
    assert_eq!(fails(person, "{}").unwrap(), "required # #");
    assert_eq!(
        fails("{\"items\":{\"type\":\"string\"}}", "[\"a\",1]").unwrap(),
        "type #/items #/1"
    );
    assert_eq!(fails("{\"enum\":[1]}", "2").unwrap(), "enum # #");
    assert_eq!(
        fails("{\"anyOf\":[{\"type\":\"string\"}]}", "2").unwrap(),
        "anyOf # #"
    );
    assert_eq!(fails("{\"not\":{\"minimum\":2}}", "1"), None);
    assert_eq!(
        fails("{\"uniqueItems\":true}", "[1,2,1.0]").unwrap(),
        "uniqueItems # #/2"
    );
    assert_eq!(
        fails("{\"uniqueItems\":true,\"minItems\":9}", "[3,1,3,1]").unwrap(),
        "uniqueItems # #/2"
    );
    let patterns =
        "{\"patternProperties\":{\"^a\":{\"minimum\":5}},\"additionalProperties\":{\"maximum\":3}}";
    assert_eq!(fails(patterns, "{\"a\":6,\"b\":1}"), None);
    // What additional members are is enough for one that a pattern matches.
    assert_eq!(fails(patterns, "{\"a\":2}"), None);
    assert_eq!(
        fails(patterns, "{\"a\":4}").unwrap(),
        "patternProperties # #/a"
    );
    assert_eq!(
        fails(patterns, "{\"b\":4}").unwrap(),
        "maximum #/additionalProperties #/b"
    );
    let both = "{\"properties\":{\"a\":{\"type\":\"string\"}},\"patternProperties\":{\"^a\":{}}}";
    assert_eq!(fails(both, "{\"a\":4}").unwrap(), "patternProperties # #/a");
    assert_eq!(
        fails("{\"additionalProperties\":false}", "{\"b\":1}").unwrap(),
        "additionalProperties # #/b"
    );
    assert_eq!(
        fails("{\"pattern\":\"^a+$\"}", "\"aab\"").unwrap(),
        "pattern # #"
    );
    let list = "{\"properties\":{\"next\":{\"$ref\":\"#\"},\"v\":{\"type\":\"integer\"}}}";
    assert_eq!(fails(list, "{\"next\":{\"next\":{\"v\":1}}}"), None);
    assert_eq!(
        fails(list, "{\"next\":{\"next\":{\"v\":1.5}}}").unwrap(),
        "type #/properties/v #/next/next/v"
    );
}

fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(Json::Int),
        any::<i16>().prop_map(|n| Json::Int(n.into())),
        (1u64 << 63..).prop_map(Json::UInt),
        (-1e300..1e300).prop_map(Json::Double),
        "[a-c\\\\\"\n\u{e9}]{0,5}".prop_map(Json::string),
        (any::<i64>(), 0u8..10).prop_map(|(n, s)| Json::Decimal(Decimal::from_i128(n.into(), s))),
        Just(Json::Date(Date::new(2020, 2, 29).unwrap())),
        Just(Json::Time(Time::new(true, 800, 1, 2, 3).unwrap())),
        any::<bool>().prop_map(|t| Json::DateTime(DateTime::MAX, t)),
        any::<Vec<u8>>().prop_map(|b| Json::Opaque(field_type::BLOB, b)),
    ]
}

fn document() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::vec(("[a-c]{0,3}", inner), 0..6)
                .prop_map(|m| object(m.into_iter().map(|(k, v)| (k.into_bytes(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn documents_round_trip(doc in document()) {
        let bytes = encode(&doc).unwrap();
        let root = JsonRef::new(&bytes);
        prop_assert_eq!(&root.to_json(), &doc);
        prop_assert_eq!(root.to_document(), bytes);
    }

    #[test]
    fn printed_documents_are_read_again(doc in document()) {
        // Decimals and dates become doubles and strings once.
        let again = |text: &str| encode(&parse(text.as_bytes(), &NoSession).unwrap()).unwrap();
        let text = shown(&again(&shown(&encode(&doc).unwrap())));
        prop_assert_eq!(shown(&again(&text)), text);
    }

    #[test]
    fn equal_documents_have_one_hash(a in document(), b in document()) {
        let (a, b) = (encode(&a).unwrap(), encode(&b).unwrap());
        let (a, b) = (JsonRef::new(&a), JsonRef::new(&b));
        prop_assert_eq!(compare(a, b), compare(b, a).reverse());
        prop_assert!(compare(a, b).is_ne() || hash64(a) == hash64(b));
        let (mut key, mut other) = (Vec::new(), Vec::new());
        sort_key(a, &mut key);
        sort_key(b, &mut other);
        prop_assert_eq!(key.cmp(&other), compare(a, b));
    }

    #[test]
    fn any_bytes_can_be_read(mut bytes in prop::collection::vec(any::<u8>(), 0..40), tag in 0u8..16) {
        if let Some(first) = bytes.first_mut() {
            *first = tag;
        }
        let root = JsonRef::new(&bytes);
        let mut out = Vec::new();
        print(root, &mut out);
        hash64(root);
        root.to_document();
    }

    #[test]
    fn damaged_documents_can_be_read(doc in document(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = encode(&doc).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut out = Vec::new();
        print(JsonRef::new(&bytes), &mut out);
    }

    #[test]
    fn refused_texts_have_a_fault(text in "[\\[\\]{}:,\"0-9a-z\\\\. -]{0,12}") {
        if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
            prop_assert!(parse(text.as_bytes(), &NoSession).is_err());
        }
    }
}
