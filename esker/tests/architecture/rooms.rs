//! The law of floors inside `engine`, as the one between crates: a room uses rooms of its own floor and of those below.
//!
//! A room is a module at the root of the crate, a file or a folder. What counts as a use is a path from `crate`, also
//! by a name that `lib.rs` exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{root, sources};

/// The floors of the engine, the lowest first. Why they lie as they do is in `docs/decisions/commit-pipeline.md`.
const ENGINE: &[&[&str]] = &[
    &[
        "codec", "error", "hash", "iter", "pool", "span", "sync", "visit", "wait",
    ],
    &["budget"],
    &["memtable", "replayed"],
    &["cache", "extent"],
    &["compact", "flush", "tree"],
    &["batch"],
    &["lock"],
    &["commit"],
    &["follow", "txn"],
    &["scan"],
    &["bulk", "config", "maintain", "recovery"],
    &["inspect"],
    &["check", "engine"],
    &["backup"],
];

/// Code without comments and without its tests, which may use what they like.
fn code(text: &str) -> String {
    let is_inline = |rest: &&str| {
        let name = rest.split(';').next().unwrap_or_default();
        name.contains('{')
    };
    let mut end = text.len();
    for (at, marker) in text.match_indices("#[cfg(test)]\n") {
        let behind = text[at + marker.len()..].trim_start_matches("pub(crate) ");
        if behind.strip_prefix("mod ").filter(is_inline).is_some() {
            end = at;
            break;
        }
    }
    let lines = text[..end].lines();
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// What follows `crate::` in this code: a name, or all names of a group.
fn uses(code: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (at, marker) in code.match_indices("crate::") {
        let is_path = code[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
        let rest = &code[at + marker.len()..];
        match rest.strip_prefix('{') {
            _ if !is_path => {}
            Some(group) => found.extend(words(group.split(';').next().unwrap_or_default())),
            None => found.extend(words(rest).next()),
        }
    }
    found
}

/// Names that `lib.rs` exports, with their rooms.
fn exports(lib: &str) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for export in lib.split("pub use ").skip(1) {
        let mut words = words(export.split(';').next().unwrap_or_default());
        if let Some(room) = words.next() {
            found.extend(words.map(|name| (name, room)));
        }
    }
    found
}

fn room_of(file: &Path, src: &Path) -> String {
    let inside = file.strip_prefix(src).expect("a file of the crate");
    let first = inside.components().next().expect("it has a name");
    let name = first.as_os_str().to_string_lossy();
    name.trim_end_matches(".rs").to_owned()
}

#[test]
fn rooms_of_the_engine_use_downwards_only() {
    let src = root().join("crates/engine/src");
    let floor_of = |room: &str| ENGINE.iter().position(|floor| floor.contains(&room));
    let lib = fs::read_to_string(src.join("lib.rs")).expect("source");
    let exports = exports(&lib);
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut upward = Vec::new();
    for file in files {
        let room = room_of(&file, &src);
        let name = file.file_name().expect("a name").to_string_lossy();
        if room == "lib" || name.contains("tests") || name == "random_trees.rs" {
            continue;
        }
        let floor = floor_of(&room).unwrap_or_else(|| panic!("room {room} has no floor"));
        let text = code(&fs::read_to_string(&file).expect("source"));
        for used in uses(&text) {
            let used = exports.get(used).copied().unwrap_or(used);
            if floor_of(used).is_some_and(|other| other > floor) {
                upward.push(format!("{}: {room} -> {used}", file.display()));
            }
        }
    }
    assert!(upward.is_empty(), "{}", upward.join("\n"));
}

#[test]
fn uses_are_found() {
    let text = "use crate::{A, b::{C}};\nuse crate::d::E;\nlet x = crate::f();\nesker_crate::g();\n// crate::h\n#[cfg(test)]\nmod tests;\nuse crate::i;\n#[cfg(test)]\nmod more {\nuse crate::j;\n}";
    let code = code(text);
    let found: Vec<_> = uses(&code).into_iter().collect();
    assert_eq!(found, ["A", "C", "b", "d", "f", "i"]);
    let exported = exports("pub use a::b::C;\npub use d::{E, F};\nmod a;");
    assert_eq!(exported.get("C"), Some(&"a"));
    assert_eq!(exported.get("F"), Some(&"d"));
}
