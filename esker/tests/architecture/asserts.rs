//! A ratchet: how many invariants are asserted per function of an area. The numbers here may only be raised.
//!
//! Neighbours: CONTRIBUTING.md says where an `assert!` and where a `debug_assert!` belongs.

use std::fs;

use super::{files_below, production, root};

/// Areas, and the asserts per thousand functions that they have at least.
const FLOORS: &[(&str, usize)] = &[
    ("crates/wal/src", 200),
    ("crates/engine/src", 200),
    ("crates/sql-exec/src", 200),
];

/// An area may be so many thousandths above its floor before the floor must be raised.
const SLACK: usize = 20;

/// Functions and asserts of production code.
fn count(text: &str) -> (usize, usize) {
    let code = production(text)
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with("//"));
    let (mut functions, mut asserts) = (0, 0);
    for line in code {
        let is_function = line.split_once("fn ").is_some_and(|(before, name)| {
            let follows_word = before.is_empty() || before.ends_with(' ');
            follows_word && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        });
        functions += usize::from(is_function);
        let kinds = ["assert!(", "assert_eq!(", "assert_ne!("];
        asserts += kinds
            .iter()
            .map(|kind| line.matches(kind).count())
            .sum::<usize>();
    }
    (functions, asserts)
}

#[test]
fn the_number_of_asserts_only_rises() {
    for (area, floor) in FLOORS {
        let mut files = Vec::new();
        files_below(&root().join(area), "rs", &mut files);
        files.retain(|file| {
            let name = file.file_name().expect("a name").to_string_lossy();
            !name.contains("test")
        });
        let (mut functions, mut asserts) = (0, 0);
        for file in &files {
            let (more, asserted) = count(&fs::read_to_string(file).expect("source"));
            functions += more;
            asserts += asserted;
        }
        let rate = asserts * 1000 / functions;
        let found =
            format!("{area}: {asserts} asserts in {functions} functions, {rate} per thousand");
        assert!(
            rate >= *floor,
            "{found}, at least {floor}: assert the invariants of what is new"
        );
        assert!(
            rate <= floor + SLACK,
            "{found}: raise the floor from {floor}"
        );
    }
}

#[test]
fn functions_and_asserts_are_counted() {
    let text = "pub(crate) const fn a() {\n  debug_assert!(x);\n}\n// assert!(y)\nfn b() {}\nlet f: fn(u8);\n#[cfg(test)]\nmod tests {\nfn c() { assert!(z) } }";
    assert_eq!(count(text), (2, 1));
}
